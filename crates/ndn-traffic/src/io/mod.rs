//! Batched sockets, and the loops that drive consumers and producers, in real time.
#![expect(clippy::disallowed_methods, reason = "loops that wait for the kernel in real time")]

mod datagram;
mod driver;
mod endpoint;
mod fragments;
mod frames;
mod memif;
mod threads;

pub use driver::{RunError, RunFigures, run_consumer, run_producer};
pub use endpoint::{Calls, Endpoint, Output};
pub use threads::{divide, run_consumers, run_producers};
