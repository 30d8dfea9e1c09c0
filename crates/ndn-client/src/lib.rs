//! Application library: endpoint, producer, segmented objects, RDR.
#![forbid(unsafe_code)]

mod address;
mod connection;
mod endpoint;
mod express;
pub mod fetch;
mod framer;
mod lp;
mod manage;
mod pending;
mod produce;
mod register;
mod shared;
mod transport;

pub use address::{
    AddressError, AddressSource, Candidates, Family, ForwarderAddress, TRANSPORT_VARIABLE,
};
pub use endpoint::{Endpoint, EndpointOptions, Flow, OpenError};
pub use express::{ExpressError, InterestRequest};
pub use manage::{CommandError, Management};
pub use pending::{FlowEvent, ReceivedData};
pub use produce::{AsyncHandler, Handler, Request};
pub use register::{RegisterError, Registration};
pub use shared::ConnectionState;
pub use transport::ConnectError;
