//! Which file a path leads to.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

/// The identity of a file, which distinguishes it from a replacement while it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    kind: FileType,
}

impl FileIdentity {
    /// The identity of the file at `path`; symbolic links are not followed.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub fn of(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Self::of_descriptor(&rustix::fs::open(path, flags, Mode::empty())?)
    }

    /// The identity of an open file.
    ///
    /// # Errors
    /// Those of `fstat(2)`.
    pub fn of_descriptor(file: &impl AsFd) -> io::Result<Self> {
        let state = rustix::fs::fstat(file)?;
        let kind = FileType::from_raw_mode(state.st_mode);
        Ok(Self { device: state.st_dev, inode: state.st_ino, kind })
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_directory(self) -> bool {
        self.kind.is_dir()
    }
}
