#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod access;
mod access_log;
mod answer;
mod body;
mod conditions;
mod connections;
mod details;
mod failure;
mod hosts;
mod listing;
mod lookups;
mod media_type;
mod path;
mod range;
mod respond;
mod s3;
mod server;
mod shares;
mod stall_guard;
#[cfg(test)]
mod tests;
mod tls;
mod transfer;
mod transfers;

pub use access::Tokens;
pub use access_log::{AccessLog, Counters};
pub use connections::{Busy, Connection, Connections};
pub use hosts::is_host_allowed;
pub use path::{PathError, PathTarget, encode, parse_path};
pub use range::{Range, RequestedRange, requested_range};
pub use server::{Gateway, GatewayOptions, Limits};
pub use shares::principal_of;
pub use stall_guard::StallGuard;
pub use tls::{TlsError, server_config};
pub use tokio_rustls::rustls::ServerConfig;
