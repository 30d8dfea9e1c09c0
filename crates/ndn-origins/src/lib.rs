#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod address;
mod blocks;
mod connect;
mod directories;
mod error;
mod origin;
mod real_time;
mod runtime;
mod version;

pub use address::{Address, AddressError, is_origin};
pub use error::OpenError;
pub use origin::{Origin, OriginOptions};

#[cfg(test)]
mod tests;
