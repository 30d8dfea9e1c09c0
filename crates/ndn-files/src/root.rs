//! A directory as the root of served files, confined by the kernel.
//!
//! The kernel resolves every path with `openat2`: beneath the directory, through no magic links of
//! `/proc`, and through symbolic links and mount points only if enabled. There is no window between
//! check and use.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use rustix::fs::ResolveFlags;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::source::OpenFailure;
use crate::stat::{FileKind, FileStat};

/// For a descriptor that names a file or directory, which need not be readable.
#[cfg(target_os = "linux")]
const NAME_ONLY: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const NAME_ONLY: OFlags = OFlags::RDONLY;

/// Number of attempts while directories are being renamed.
#[cfg(target_os = "linux")]
const ATTEMPTS_MAX: usize = 8;

/// The entries below a directory that may be opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RootOptions {
    /// Follow symbolic links that stay below the directory.
    pub symlinks: bool,
    /// Cross into other file systems mounted below it.
    pub other_file_systems: bool,
    /// Serve files whose name begins with a period, and what is in such directories.
    pub hidden: bool,
}

/// A directory, and what may be reached below it.
#[derive(Debug)]
pub struct Root {
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nothing is opened below it"))]
    directory: OwnedFd,
    path: PathBuf,
    options: RootOptions,
}

impl Root {
    /// Opens a directory.
    ///
    /// # Errors
    /// It cannot be opened, or the kernel has no `openat2` (before Linux 5.6, or forbidden).
    pub fn open(path: &Path, options: RootOptions) -> std::io::Result<Self> {
        let flags = OFlags::DIRECTORY | NAME_ONLY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        let root = Self { directory, path: path.to_owned(), options };
        root.resolve(Path::new("."), flags)?;
        Ok(root)
    }

    /// The path it was opened with.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> RootOptions {
        self.options
    }

    /// State of a file, which need not be readable.
    pub(crate) fn stat(&self, path: &Path) -> Result<FileStat, OpenFailure> {
        let found = self.resolve(path, NAME_ONLY | OFlags::CLOEXEC)?;
        let stat = FileStat::of(found)?;
        if stat.kind == FileKind::Special { Err(OpenFailure::Special) } else { Ok(stat) }
    }

    /// Opens a regular file or directory for reading. Special files are never opened: that can
    /// block, or rewind a tape.
    pub(crate) fn open_any(&self, path: &Path) -> Result<(File, FileStat), OpenFailure> {
        let before = self.stat(path)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = self.resolve(path, flags)?;
        let stat = FileStat::of(&file)?;
        // It may have been replaced in between.
        if stat.kind != before.kind {
            return Err(OpenFailure::Special);
        }
        Ok((file.into(), stat))
    }

    #[cfg(target_os = "linux")]
    fn resolve(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        resolve.set(ResolveFlags::NO_SYMLINKS, !self.options.symlinks);
        resolve.set(ResolveFlags::NO_XDEV, !self.options.other_file_systems);
        for _ in 0..ATTEMPTS_MAX {
            let found = rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), resolve);
            // After a concurrent rename, the kernel cannot verify that `..` stayed beneath.
            if !matches!(found, Err(Errno::AGAIN | Errno::INTR)) {
                return found;
            }
        }
        Err(Errno::AGAIN)
    }

    /// Fails: other systems have no call that confines a path.
    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "as on Linux")]
    fn resolve(&self, _: &Path, _: OFlags) -> Result<OwnedFd, Errno> {
        Err(Errno::NOSYS)
    }
}
