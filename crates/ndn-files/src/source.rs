//! Sources of served files: a local directory, a bucket, a web server.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::path::Path;

use rustix::io::Errno;

use crate::read::read_run;
use crate::stat::FileStat;

/// A tree of files that can be served. Paths are relative to the tree, without `..`; `.` is the tree itself.
pub trait FileSource: Send + Sync + Debug {
    /// State of a file or directory, which need not be readable.
    ///
    /// # Errors
    /// It is not served, or the source does not answer.
    fn stat(&self, path: &Path) -> Result<FileStat, OpenFailure>;

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// It is not served, it is no regular file, or the source does not answer.
    fn open_file(&self, path: &Path) -> Result<Opened, OpenFailure>;

    /// Whether a directory may be listed.
    ///
    /// # Errors
    /// Why not; where only listing it shows that, none.
    fn check_directory(&self, path: &Path) -> Result<(), OpenFailure> {
        let _ = path;
        Ok(())
    }

    /// The served entries of a directory, in any order.
    ///
    /// # Errors
    /// It is not served, it is no directory, it has too many entries, or it changed meanwhile.
    fn list(&self, path: &Path) -> Result<SourceListing, ListFailure>;

    /// Location for people: a path or a URL.
    fn location(&self) -> String;

    /// Whether names that begin with a period are served.
    fn serves_hidden(&self) -> bool;

    /// Whether reading takes requests to another host: such files are read by threads of their own, ahead of requests, and
    /// are not hashed before they are requested unless an option demands it.
    fn is_remote(&self) -> bool {
        false
    }
}

/// Content of an open file.
pub trait SourceFile: Send + Sync + Debug {
    /// Fills `buffers`, which are contiguous in the file, from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before, or if it is known to have changed since it was opened.
    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()>;

    /// Whether everything that was read is of the state `since`, with which the file was opened.
    ///
    /// # Errors
    /// The state of the file is not known.
    fn is_unchanged(&self, since: &FileStat) -> Result<bool, OpenFailure>;
}

impl SourceFile for File {
    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        read_run(self, offset, buffers)
    }

    fn is_unchanged(&self, since: &FileStat) -> Result<bool, OpenFailure> {
        Ok(FileStat::of(self)?.is_same_content(since))
    }
}

/// Why a file cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenFailure {
    /// It does not exist.
    #[error("there is no such file")]
    NotFound,
    /// The path leads out of the directory, or into another file system.
    #[error("the path leads out of the directory")]
    Outside,
    /// The path goes through a symbolic link.
    #[error("the path goes through a symbolic link")]
    Symlink,
    /// A device, a pipe, a socket.
    #[error("not a regular file or directory")]
    Special,
    /// This process may not read it.
    #[error("permission denied")]
    Denied,
    /// A transient error: no descriptors left, a failing disk.
    #[error("{0}")]
    Other(Errno),
}

impl From<Errno> for OpenFailure {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => Self::NotFound,
            Errno::XDEV => Self::Outside,
            Errno::LOOP => Self::Symlink,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            other => Self::Other(other),
        }
    }
}

/// A file opened for reading, with its state.
#[derive(Debug)]
pub struct Opened {
    /// Its content.
    pub file: Box<dyn SourceFile>,
    /// Its state when it was opened.
    pub stat: FileStat,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceEntry {
    /// The file name: not empty, `.` or `..`, and without `/` and zero bytes.
    pub file_name: Vec<u8>,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// State of a file, if the source lists it together with the name.
    pub stat: Option<FileStat>,
}

/// Entries of a directory in one state.
#[derive(Debug, Clone)]
pub struct SourceListing {
    /// State of the directory.
    pub stat: FileStat,
    /// The entries.
    pub entries: Vec<SourceEntry>,
    /// File names of those entries that this process may not read.
    pub unreadable: Vec<Vec<u8>>,
    /// File names of pipes, sockets and devices, which are no entries.
    pub special: Vec<Vec<u8>>,
}

/// Why a directory cannot be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListFailure {
    /// It cannot be opened.
    Open(OpenFailure),
    /// It has too many entries.
    TooLong,
    /// It changed while it was being read.
    Changed,
}

impl<E: Into<OpenFailure>> From<E> for ListFailure {
    fn from(error: E) -> Self {
        Self::Open(error.into())
    }
}
