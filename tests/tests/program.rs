//! Tests to which the number of workers makes no difference or that set it: commands, applications, configuration, files,
//! documents, and what the control thread does.
//! `make test` runs them once. Every module is a file of its own, so `cargo test -p namewire-tests trust::` runs
//! `trust.rs`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attacks;
mod bench_access;
mod bench_page;
mod c_library;
mod companions;
mod compatibility;
mod completion;
mod configuration;
mod disk;
mod documents;
mod explanations;
mod extcap;
mod face_shares;
mod fetch;
mod file_faults;
mod file_targets;
mod files;
mod gateway;
mod guide;
mod hostile;
mod hub;
mod interop_matrix;
mod json_forms;
mod key_chain;
mod lab;
mod libraries;
mod lifecycle;
mod link;
mod management_clients;
mod memif_refusals;
mod model;
mod mount;
mod nfd_commands;
mod nfd_conf;
mod nfdc;
mod operator;
mod pages;
mod privileges;
mod prometheus;
mod propagation;
mod python;
mod service;
mod soak;
mod sync;
mod tidy;
mod trust;
mod webtransport;
mod webtransport_applications;
mod workers;
mod xdp;
mod xdp_queues;
mod xrootd;
