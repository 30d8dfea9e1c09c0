#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numerics: counts below 2^53 go to f64 and back"
)]

pub mod analysis;
pub mod design;
pub mod experiment;
