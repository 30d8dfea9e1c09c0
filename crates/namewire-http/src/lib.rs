#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod admission;
mod calls;
mod counters;
mod exposition;
mod metrics;
mod respond;
mod server;

pub use counters::{HttpCounters, HttpValues};
pub use server::{HttpListener, HttpServer};
