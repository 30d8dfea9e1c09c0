//! Tests of a forwarder with as many workers as `NAMEWIRE_TEST_WORKERS` says, by default one: `make test` runs them
//! with one and with two. Every module is a file of its own, so `cargo test -p namewire-tests multicast::` runs
//! `multicast.rs`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod bad_input;
mod compatibility;
mod distance_vector;
mod ethernet;
mod fetch;
mod file_faults;
mod file_targets;
mod files;
mod gateway;
mod interop;
mod lifecycle;
mod link;
mod management;
mod management_clients;
mod many_routes;
mod memif;
mod memif_refusals;
mod multicast;
mod nfdc;
mod nlsr;
mod operator;
mod propagation;
mod reliability;
mod scenarios;
mod self_learning;
mod sync;
mod traffic;
mod trust;
mod websocket;
mod webtransport;
mod webtransport_applications;
