//! Why there is no file.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// The path ends in no name.
    #[error("{} is not the name of a file", .0.display())]
    NoFileName(PathBuf),
    /// The name is one of those that parts and their sidecars have.
    #[error("{} is a name for fetches that are not complete: choose another", .0.display())]
    Reserved(PathBuf),
    /// The file system refuses.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Another process writes the same file.
    #[error("{}: another fetch is writing this file", .0.display())]
    Busy(PathBuf),
    /// The part does not stay what it is.
    #[error("{}: somebody else keeps replacing it", .0.display())]
    Replaced(PathBuf),
    /// There can be no such file.
    #[error("{}: {reason}", .path.display())]
    CannotBeMade {
        /// The file.
        path: PathBuf,
        /// Why, in terms of its directory.
        reason: String,
    },
    /// The object does not fit into what is free.
    #[error("{}: {needed} bytes are needed, and {free} are free", .path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// Bytes that are still to come.
        needed: u64,
        /// Bytes that the file system has.
        free: u64,
    },
    /// A newer version is there.
    #[error("{}: {name} is older than {there}, which is there already", .path.display())]
    Older {
        /// The file.
        path: PathBuf,
        /// What was to be fetched.
        name: String,
        /// What is there.
        there: String,
    },
}

impl PartError {
    pub(super) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.to_owned(), error }
    }
}
