//! Namewire: an NDN forwarder and data-transfer toolkit.
//!
//! The library behind the `namewire` binary; split off so that tests and fuzz targets reach it.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a program runs in real time")]

pub mod cli;
pub use namewire_config as config;
mod log_text;
#[cfg(target_os = "linux")]
pub mod process;
