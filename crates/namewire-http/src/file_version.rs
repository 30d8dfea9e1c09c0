//! Versions of files, to notice that one has changed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The identity of the content of a file: inode, length, and time of the last change, in seconds and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileVersion(u64, u64, i64, i64);

impl FileVersion {
    /// The version of the file at this path, if there is one.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        Some(Self(file.ino(), file.len(), file.ctime(), file.ctime_nsec()))
    }
}
