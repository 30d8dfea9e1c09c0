#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod access;
mod blocking;
mod cache;
mod catalog;
mod connection;
mod disk_cache;
mod error;
mod file;
pub mod keys;
mod object;
mod pattern;
mod range_reader;
mod sequence;
mod stat;
#[cfg(test)]
mod tests;
mod versions;

pub use access::{Access, AccessOptions};
pub use blocking::{Blocking, BlockingFile, OnRuntime};
pub use catalog::{Catalog, Details, LOOKUPS_MAX, Resource};
pub use connection::OwnConnection;
pub use disk_cache::{DiskCacheCounters, DiskCacheOptions, Warn};
pub use error::{AccessError, ErrorKind};
pub use file::File;
pub use range_reader::RangeReader;
pub use stat::Stat;
