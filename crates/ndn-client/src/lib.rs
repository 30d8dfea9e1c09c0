#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod address;
mod answer_batch;
mod connect;
mod connection;
mod content;
mod endpoint;
mod express;
pub mod fetch;
mod framer;
pub mod link;
mod lp;
mod manage;
mod memif;
mod output;
mod pending;
mod ping;
mod publish;
mod rdr;
mod register;
mod shared;
// The tests contain the examples.
#[cfg(test)]
extern crate self as ndn_client;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod transport;
mod trust;

pub use address::{
    AddressError, AddressSource, Candidates, Family, ForwarderAddress, TRANSPORT_VARIABLE,
};
pub use answer_batch::AnswerBatch;
pub use connect::{EndpointOptions, OpenError};
pub use content::Content;
pub use endpoint::{Endpoint, Flow};
pub use express::{ExpressError, InterestRequest};
pub use manage::{CommandError, Management};
pub use memif::{MEMIF_SECRET_VARIABLE, explain_memif, memif_secret};
pub use pending::{FlowEvent, ReceivedData};
pub use ping::{PingOutcome, PingServer, Pinger};
pub use publish::{PublishError, PublishOptions, PublishedObject, SegmentedObject};
pub use register::{RegisterError, Registration};
pub use shared::{AsyncHandler, ConnectionState, Handler, Request};
pub use transport::{ConnectError, ConnectFailure};
pub use trust::{CertificateVerifier, Trust};
