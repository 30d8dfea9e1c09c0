//! Errors of part files.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// The path has no file name.
    #[error("{} is not the name of a file", .0.display())]
    NoFileName(PathBuf),
    /// The name is reserved for parts and their sidecars.
    #[error("{} is a name for fetches that are not complete: choose another", .0.display())]
    Reserved(PathBuf),
    /// An error of the file system.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        #[source]
        error: io::Error,
    },
    /// Another process writes the same file.
    #[error("{}: another fetch is writing this file", .0.display())]
    Busy(PathBuf),
    /// The part is replaced concurrently.
    #[error("{}: somebody else keeps replacing it", .0.display())]
    Replaced(PathBuf),
    /// The file cannot be created.
    #[error("{}: {reason}", .path.display())]
    CannotBeMade {
        /// The file.
        path: PathBuf,
        /// The reason, in terms of its directory.
        reason: String,
    },
    /// The object does not fit the free space.
    #[error("{}: {needed} bytes are needed, and {free} are free", .path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// Bytes still to be written.
        needed: u64,
        /// Free bytes of the file system.
        free: u64,
    },
    /// A newer version exists.
    #[error("{}: {name} is older than {there}, which is there already", .path.display())]
    Older {
        /// The file.
        path: PathBuf,
        /// The version to be fetched.
        name: String,
        /// The existing version.
        there: String,
    },
}

impl PartError {
    pub(super) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.to_owned(), error }
    }
}
