//! The rules of a copy: its entries, and the changes that make it equal.

use super::filter::Filter;

/// Default number of files that are fetched at a time.
pub(in crate::cli) const JOBS_DEFAULT: u16 = 64;
/// The entries that a copy contains, and the changes that are made.
#[derive(Debug)]
pub(in crate::cli) struct Rules {
    pub(in crate::cli) filter: Filter,
    /// Deletes what the tree does not have.
    pub(in crate::cli) delete: bool,
    /// Number of files that may be deleted; by default, half of them, at least 10, and none if the tree is empty.
    pub(in crate::cli) max_delete: Option<u64>,
    /// Compares the contents of all files.
    pub(in crate::cli) checksum: bool,
    pub(in crate::cli) mode: Mode,
    /// Number of files at a time.
    pub(in crate::cli) jobs: u16,
    /// The user's umask, if existing files get the permissions of the server.
    pub(in crate::cli) umask: Option<u32>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            delete: false,
            max_delete: None,
            checksum: false,
            mode: Mode::Copy,
            jobs: JOBS_DEFAULT,
            umask: None,
        }
    }
}

/// The treatment of differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Mode {
    Copy,
    /// They are only reported.
    Preview,
    /// They are reported after all contents were compared.
    Verify,
}
