//! The companion programs of NFD: `nfd-autoreg`, `ndn-autoconfig` and its server,
//! `nfd-status-http-server`, `nfd-start` and `nfd-stop`.
//!
//! Each is a command here; started by the name of one of those programs (a symbolic link), this
//! program takes its options (`invocation.rs`, `tools.rs`).

pub(super) mod autoconfig;
pub(super) mod autoreg;
mod face_events;
pub(super) mod hub;
mod invocation;
mod network;
#[cfg(target_os = "linux")]
pub(super) mod start;
pub(super) mod status_server;
mod tools;
mod usage;

#[cfg(not(target_os = "linux"))]
pub(super) use super::linux::start;
pub(super) use invocation::{Invocation, name_usage, usage_of_process};
