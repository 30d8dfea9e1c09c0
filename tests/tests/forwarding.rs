//! Tests whose result can depend on the number of workers: faces, tables, routes, strategies. `make test` runs them with
//! one worker and, with `NAMEWIRE_TEST_WORKERS=2`, with two. Every module is a file of its own, so `cargo test -p namewire-tests multicast::` runs
//! `multicast.rs`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod bad_input;
mod distance_vector;
mod ethernet;
mod interop;
mod management;
mod many_routes;
mod memif;
mod multicast;
mod nlsr;
mod reliability;
mod scenarios;
mod self_learning;
mod traffic;
mod websocket;
