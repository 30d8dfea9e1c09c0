//! Capacity model of NDN forwarders, and statistical model checking over it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`bip`] | the reference engine: components, interactions, priorities, an event heap |
//! | [`calibrate`] | from measured runs of the real forwarder to a model of it |
//! | [`fit`] | distributions from measured durations |
//! | [`ppcc`] | the fitting procedure of the paper on NDN-DPDK |
//! | [`screen`] | which factors of a campaign matter |
//! | [`pauses`] | the pauses of processors, from what a meter has seen |
//! | [`network`] | what both engines run: faces, links, queues, threads, tables |
//! | [`mod@reference`] | a network as components of the reference engine |
//! | [`fast`] | the same network as departure recursions |
//! | [`engine`] | the engine for a network: the fast one where it can |
//! | [`assembly`] | ready-made networks: `ndn-dpdk` and `namewire` |
//! | [`mod@file`] | model files in TOML with units |
//! | [`mod@reproduce`] | the experiments of the paper on NDN-DPDK, under stated assumptions |
//! | [`property`] | observables and bounded properties of a trace |
//! | [`check`] | decides a property of a model, trace by trace |
//! | [`rare`] | rare losses, by importance splitting over the length of a queue |
//! | [`explore`] | sweeps over factors |
//! | [`codel`] | CoDel on simulated time |
//! | [`distribution`] | service times and intervals |
//! | [`random`] | counter-based random numbers: a draw is a function of (seed, trace, stream, index) |
//! | [`smc`] | intervals and decisions from independent traces |
//! | [`special`] | the special functions behind them |
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numerics: counts and picoseconds below 2^53 go to f64 and back"
)]

pub mod assembly;
pub mod bip;
pub mod calibrate;
pub mod check;
pub mod codel;
pub mod distribution;
pub mod engine;
pub mod explore;
pub mod fast;
pub mod file;
pub mod fit;
pub mod network;
pub mod pauses;
pub mod ppcc;
pub mod property;
pub mod random;
pub mod rare;
pub mod reference;
pub mod reproduce;
pub mod screen;
pub mod smc;
pub mod special;
mod units;
