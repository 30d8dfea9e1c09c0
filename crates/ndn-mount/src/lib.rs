#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod directory;
mod errno;
mod file_system;
mod inodes;
mod mounted;
mod reports;

pub use mounted::{MountError, MountOptions, Mounted, Watcher, unmount_abandoned};
pub use reports::Report;
