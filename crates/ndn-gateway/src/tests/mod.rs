//! The gateway between an HTTP client and a file server, in one process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;
mod clients;
mod connections;
mod files;
mod refusals;
