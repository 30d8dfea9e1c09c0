//! The commands that need Linux, and what only they need. `linux_only.rs` takes their place elsewhere.

pub(super) mod api;
pub(super) mod config;
mod engine;
pub(super) mod interfaces;
pub(super) mod lab;
pub(super) mod list;
mod machine;
pub(super) mod model;
pub(super) mod mount;
pub(super) mod run;
pub(super) mod traffic;
pub(super) mod workers;
