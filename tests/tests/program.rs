//! Tests to which the number of workers makes no difference or that set it: commands, configuration, files, documents.
//! `make test` runs them once. Every module is a file of its own, so `cargo test -p namewire-tests trust::` runs
//! `trust.rs`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attacks;
mod companions;
mod configuration;
mod documents;
mod explanations;
mod face_shares;
mod guide;
mod hostile;
mod hub;
mod json_forms;
mod key_chain;
mod libraries;
mod nfd_commands;
mod nfd_conf;
mod pages;
mod privileges;
mod prometheus;
mod service;
mod soak;
mod tidy;
mod workers;
mod xdp;
mod xdp_queues;
