//! Simulation of networks of caches: hits, load of the origins, delay, path stretch and convergence of cache
//! policies with routings, and of joint methods.
//!
//! | module | what it holds |
//! |---|---|
//! | [`topology`] | nodes, links, load; the topologies that come with the crate |
//! | [`trace`] | sequences of requests |
//! | [`engine`] | one run |
//! | [`report`] | means and intervals over runs, CSV, SVG |
//!
//! With the cargo feature `vip`, VIP, VIP2 and MinDelay are among the methods. They are patented in the United States
//! (US 12155738 B2, US 11336473).
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numerics: counts and times below 2^53 go to f64 and back"
)]

pub mod engine;
#[cfg(feature = "vip")]
mod min_delay;
pub mod report;
pub mod topology;
pub mod trace;
#[cfg(feature = "vip")]
mod virtual_network;

use std::fmt;

/// Why an input is refused: the message names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputError(pub String);

impl fmt::Display for InputError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for InputError {}
