//! The library against a forwarder in memory, on tokio's paused clock.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod commands;
mod examples;
mod express;
mod marked;
mod object;
mod serve;
mod tables;
mod trust;
mod udp;
