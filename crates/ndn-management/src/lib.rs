//! NFD management protocol: commands, datasets, RIB.
//!
//! | module | contents |
//! |---|---|
//! | [`parameters`], [`response`] | `ControlParameters` and `ControlResponse` on the wire |
//! | [`dataset`] | the blocks of every status dataset and of `faces/events` |
//! | [`types`], [`numbers`] | enumerations, flag bits, limits; TLV numbers |
//! | [`command`] | command names, both signature formats, the rules for fields |
//! | [`authorize`], [`access`] | authorization: the trait; NFD's access control |
//! | [`announcement`] | prefix announcements |
//! | [`dispatch()`], [`request`] | dispatch of an Interest to a typed request |
//! | [`state`] | the control plane as a state machine: actions out, events and completions in |
//! | [`client`] | command Interests for clients |
//! | [`readvertise`] | readvertisement of prefixes to a routing daemon or to another router |
//! | [`publisher`], [`notification`] | versions of datasets in segments; the event stream |
//! | [`rib`], [`fib`], [`strategy_name`] | routes and inheritance; next hops; strategy names |
//!
//! Pure: no I/O, no clock, no threads; [`Now`](ndn_types::Now) is an argument. Blocks are encoded and
//! decoded both ways, so that clients share the definitions.
#![forbid(unsafe_code)]

pub mod access;
pub mod announcement;
#[cfg(test)]
mod arbitrary_tests;
pub mod authorize;
mod block;
mod calls;
pub mod client;
pub mod command;
pub mod dataset;
pub mod dispatch;
pub mod fib;
mod journal;
mod listing;
pub mod notification;
pub mod numbers;
pub mod parameters;
pub mod publisher;
mod range;
pub mod readvertise;
pub mod request;
pub mod response;
pub mod rib;
mod share;
pub mod sign;
pub mod state;
pub mod strategy_name;
#[cfg(test)]
mod testing;
pub mod types;

pub use access::{AccessControl, SignedInterests};
pub use announcement::PrefixAnnouncement;
pub use authorize::{Authorization, Authorizer, Requester};
pub use calls::{CallError, Management, nonce_at};
pub use client::CommandBuilder;
pub use command::{Command, CommandError, Module, ParameterError, TopPrefix, Verb, parse_command};
pub use dataset::{
    ChannelStatus, CsInfo, DatasetField, DatasetInfo, DatasetItem, DatasetValue, Described,
    FaceCounters, FaceEventNotification, FaceProperties, FaceQueryFilter, FaceStatus, FibEntry,
    Flag, Form, ForwarderCounters, ForwarderStatus, NextHopRecord, RibEntry, RouteRecord,
    StrategyChoice, decode_dataset,
};
pub use dispatch::{Dataset, Dispatch, IgnoreReason, dispatch};
pub use fib::Fib;
pub use parameters::{ControlParameters, Parameter};
pub use publisher::{PublishedResource, Segment};
pub use range::NameRange;
pub use readvertise::{Readvertise, WithdrawalPlaces};
pub use request::{FaceOptions, Request};
pub use response::{ControlResponse, status};
pub use rib::{FibUpdate, NextHop, Registration, Rib, Route, RouteChange};
pub use sign::{DataSigner, DigestSigner};
pub use state::{
    Action, Collaborators, ControlConfig, ControlState, CreatedFace, CsConfiguration,
    DEFAULT_STRATEGIES, DatasetPlaces, FaceActivity, FaceCapabilities, FaceCreationError,
    FaceEventSink, FaceRecord, FaceSpecification, KeptResource, Operators, PendingPlaces,
    RequestBytes, RequestOutcome, RouteError, RoutePlaces, RoutingChange, RoutingEvent,
    RoutingEventSink, STRATEGY_CHOICES_MAX, StrategyChanges, StrategyChoicePlaces,
    StrategyInstancePlaces, TableItems, TablePart, TableSizes, Telemetry, Ticket, WaitingPlaces,
};
pub use strategy_name::{StrategyCatalog, StrategyError, StrategyList, StrategyName};
pub use types::{
    FACE_ID_INTERNAL, FACE_ID_RESERVED_MAX, FaceDriver, FaceEventKind, MTU_MIN, PREFIX_DEPTH_MAX,
    cs_flag, face_flag, route_flag, route_origin, route_origin_from_text, route_origin_text,
};
