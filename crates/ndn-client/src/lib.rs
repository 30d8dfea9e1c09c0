#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod address;
mod answer_batch;
mod connection;
mod content;
mod endpoint;
mod express;
mod face_uri;
pub mod fetch;
mod framer;
mod handle;
pub mod link;
mod lp;
mod manage;
#[cfg_attr(not(target_os = "linux"), path = "memif_absent.rs")]
mod memif;
mod output;
mod pending;
mod ping;
mod publish;
mod real_time;
mod register;
pub mod rules;
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

pub use address::{AddressError, AddressSource, Candidates, Family, ForwarderAddress};
pub use answer_batch::AnswerBatch;
pub use content::Content;
pub use endpoint::{Endpoint, EndpointOptions, OpenError};
pub use express::{ExpressError, InterestRequest};
pub use face_uri::{FaceUriError, canonical_face_uri};
pub use manage::{CommandError, Management};
#[cfg(target_os = "linux")]
pub use memif::{explain_memif, memif_secret};
pub use pending::ReceivedData;
pub use ping::{PingOutcome, PingServer, Pinger};
pub use publish::{PublishError, PublishOptions, PublishedObject, SegmentedObject, split_version};
pub use register::{RegisterError, Registration};
pub use shared::{AsyncHandler, ConnectionState, Handler, Request};
pub use transport::{ConnectError, ConnectFailure};
pub use trust::{CertificateVerifier, Trust, verifier_from_text};
