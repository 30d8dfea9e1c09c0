//! Results and progress of a copy.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};

use serde_json::{Value, json};

use super::local::shown;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{self, bytes_for_people};

/// A difference between the tree and its copy.
#[derive(Debug)]
pub(in crate::cli) struct Change {
    pub(super) action: Action,
    pub(super) path: PathBuf,
    /// Where the content of a renamed file is.
    pub(super) from: Option<PathBuf>,
    pub(super) bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// There is no such file.
    Add,
    /// The file is another one.
    Replace,
    Rename,
    Delete,
    /// An entry of another kind is in the way.
    Blocked,
    /// For [`Verify`](super::rules::Mode::Verify): there is no such file, it is another one, or the tree does not have it.
    Missing,
    Differs,
    Extra,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Rename => "rename",
            Self::Delete => "delete",
            Self::Blocked => "blocked",
            Self::Missing => "missing",
            Self::Differs => "differs",
            Self::Extra => "extra",
        }
    }
}

impl Change {
    pub(in crate::cli) fn json(&self) -> Value {
        json!({
            "action": self.action.word(),
            "path": self.path.to_string_lossy(),
            "from": self.from.as_ref().map(|from| from.to_string_lossy()),
            "bytes": self.bytes,
        })
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:<7}  ", self.action.word())?;
        if let Some(from) = &self.from {
            write!(formatter, "{} -> ", shown(from))?;
        }
        formatter.write_str(&shown(&self.path))?;
        match self.bytes {
            Some(bytes) if self.action != Action::Rename => {
                write!(formatter, "  ({})", bytes_for_people(bytes))
            }
            _ => Ok(()),
        }
    }
}

/// Result of the copy.
#[derive(Debug, Default)]
pub(in crate::cli) struct Fetched {
    /// Number of complete files.
    pub(in crate::cli) files: u64,
    /// Number of these that were complete before and are unchanged.
    pub(in crate::cli) unchanged: u64,
    /// Number of files that have replaced another one.
    pub(in crate::cli) replaced: u64,
    /// Number of these that somebody had changed since they were fetched.
    pub(in crate::cli) replaced_changed: u64,
    /// Number of files that were at another place in the copy.
    pub(in crate::cli) renamed: u64,
    /// Number of files and directories that were deleted.
    pub(in crate::cli) deleted: u64,
    pub(in crate::cli) directories: u64,
    /// Number of content bytes fetched.
    pub(in crate::cli) bytes: u64,
    /// Number of files and directories that could not be fetched, or have an invalid name.
    pub(in crate::cli) failed: u64,
    /// Number of files and directories that do not have the server's time and permissions.
    pub(in crate::cli) without_attributes: u64,
    /// The differences that were found.
    pub(in crate::cli) changes: Vec<Change>,
    /// The first failure.
    pub(in crate::cli) failure: Option<Failure>,
}

impl Fetched {
    pub(super) fn take(&mut self, result: Result<Outcome<FetchedFile>, tokio::task::JoinError>) {
        let result = result.unwrap_or_else(|error| Err(Failure::Failed(error.to_string())));
        match result {
            Ok(FetchedFile { bytes, has_replaced, has_replaced_changed }) => {
                self.files += 1;
                self.bytes += bytes;
                self.replaced += u64::from(has_replaced);
                self.replaced_changed += u64::from(has_replaced_changed);
            }
            Err(failure) => self.fail(failure),
        }
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        output::note(&format_args!("namewire: {failure}"));
        self.failed += 1;
        self.failure.get_or_insert(failure);
    }
}

/// A file that was fetched.
#[derive(Debug)]
pub(super) struct FetchedFile {
    pub(super) bytes: u64,
    /// There was another one.
    pub(super) has_replaced: bool,
    /// Somebody had changed that since it was fetched.
    pub(super) has_replaced_changed: bool,
}

/// Progress of a recursive fetch.
#[derive(Debug, Default)]
pub(in crate::cli) struct TreeProgress {
    /// Files of the listings so far.
    pub(in crate::cli) files_found: AtomicU64,
    /// Directories whose listings have arrived.
    pub(in crate::cli) directories_listed: AtomicU64,
    pub(in crate::cli) files_done: AtomicU64,
    /// Bytes of the files that have to be fetched, as far as their sizes are known.
    pub(in crate::cli) bytes_found: AtomicU64,
    pub(in crate::cli) bytes_done: AtomicU64,
    /// All directories are listed.
    pub(in crate::cli) is_listed: AtomicBool,
    /// The metadata of all files is known.
    pub(in crate::cli) is_planned: AtomicBool,
    /// Complete files whose time or permissions could not be set.
    pub(super) without_attributes: AtomicU64,
}
