#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numerics: counts below 2^53 go to f64 and back"
)]

pub mod analysis;
pub mod campaign;
pub mod data;
pub mod design;
pub mod execute;
pub mod experiment;
pub mod figure;
pub mod graphml;
mod hosts;
mod leftovers;
pub mod network;
mod programs;
pub mod progress;
pub mod render;
pub mod report;
pub mod results;
pub mod simulation;
pub mod testbed;
