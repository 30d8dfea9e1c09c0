//! Types that the layers of the forwarder share.
//!
//! | module | contents |
//! |---|---|
//! | `arrangement` | [`Arrangement`]: faces and workers on two NUMA nodes |
//! | `counter` | [`counters!`], [`drop_reasons!`]: the declaration of counters and drop reasons; [`Counter`] |
//! | `face` | [`Persistency`], [`Scope`], [`LinkType`]: properties of a face |
//! | `face_uri` | [`FaceUri`] |
//! | `one_or_many` | [`OneOrMany`]: a list that mostly has one element |
//! | `ledger` | [`Ledger`]: what principals hold of scarce resources |
//! | `principal` | [`PrincipalKey`], [`PrincipalClass`]: who is charged for scarce resources |
//! | [`random`] | random numbers that are the same on any machine |
//! | `ranking` | [`RankedLedger`]: a ledger that knows who holds most |
//! | `shares` | [`Reserves`], [`Capacity`], [`ShareVerdict`]: the policy by which principals share |
//! | `time` | [`Timestamp`], [`Now`]; [`duration_ns`] and [`duration_ms`], which convert durations |
//! | `units` | [`ByteSize`], [`parse_duration`]: sizes and durations as people write them |
//!
//! Pure: no I/O, no clock, no threads.
#![forbid(unsafe_code)]

mod arrangement;
mod counter;
mod face;
mod face_uri;
mod ledger;
mod one_or_many;
mod principal;
pub mod random;
mod ranking;
mod shared_places;
mod shares;
mod time;
mod units;

pub use arrangement::Arrangement;
pub use counter::{Counter, CounterInfo, CounterKind, CounterValues, DropReasonInfo, Unit};
pub use face::{LinkType, Persistency, Scope};
pub use face_uri::{FaceUri, FaceUriError, ZONE_IS_MISSING};
pub use ledger::{
    Ledger, LedgerReport, PrincipalIndex, PrincipalReport, ResourceReport, Resources,
};
pub use one_or_many::OneOrMany;
pub use principal::{PrincipalClass, PrincipalKey, RemoteAddress};
pub use ranking::{Debt, RankedLedger};
pub use shared_places::{NoRoom, SharedPlaces};
pub use shares::{Capacity, Limits, Reserves, ShareVerdict};
pub use time::{NANOS_PER_MILLI, Now, Timestamp, duration_ms, duration_ns};
pub use units::{
    ByteSize, duration_of_number, format_duration, parse_duration, size_of_number, units_table,
};
