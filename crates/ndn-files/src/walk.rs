//! Walks all files of a source.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ndn_packet::{Component, Name};

use crate::not_served::{Reason, not_served};
use crate::source::{FileSource, ListFailure, OpenFailure, SourceEntry};
use crate::stat::{FileKind, FileStat};

/// Directories deeper than this are not walked.
const DEPTH_MAX: usize = 64;

/// A file that was found.
#[derive(Debug, Clone)]
pub(crate) struct WalkedFile {
    pub(crate) name: Name,
    pub(crate) path: PathBuf,
    pub(crate) stat: FileStat,
}

/// Calls `visit` for every regular file of a source that is served as `prefix`, in no order, until `is_closed`, and `leave_out`
/// for entries that are not served. Others that cannot be read are left out, too. Returns false if some are left out that
/// may be readable later.
pub(crate) fn walk(
    source: &dyn FileSource,
    prefix: &Name,
    is_closed: impl Fn() -> bool,
    mut visit: impl FnMut(WalkedFile),
    mut leave_out: impl FnMut(&Path, Reason),
) -> bool {
    let mut directories = vec![(prefix.clone(), PathBuf::from("."), 0)];
    let mut is_complete = true;
    while let Some((name, path, depth)) = directories.pop() {
        if is_closed() {
            return false;
        }
        let listing = match source.list(&path) {
            Ok(listing) => listing,
            Err(failure) => {
                if failure == ListFailure::Open(OpenFailure::Denied) {
                    leave_out(path_of(&path), Reason::Denied);
                }
                is_complete &= !is_transient(failure);
                continue;
            }
        };
        for (file_name, reason) in not_served(&listing) {
            leave_out(path_of(&path.join(OsStr::from_bytes(file_name))), reason);
        }
        let unreadable: HashSet<&[u8]> = listing.unreadable.iter().map(Vec::as_slice).collect();
        let is_readable = |entry: &SourceEntry| !unreadable.contains(entry.file_name.as_slice());
        for entry in listing.entries.into_iter().filter(is_readable) {
            let path = path.join(OsStr::from_bytes(&entry.file_name));
            let mut name = name.clone();
            name.push(Component::generic(&entry.file_name));
            if entry.is_directory {
                if depth < DEPTH_MAX {
                    directories.push((name, path, depth + 1));
                }
                continue;
            }
            match entry.stat.map_or_else(|| source.stat(&path), Ok) {
                Ok(stat) if stat.kind == FileKind::Regular => {
                    visit(WalkedFile { name, path: path_of(&path).to_owned(), stat });
                }
                Ok(_) => {}
                Err(failure) => {
                    if failure == OpenFailure::Denied {
                        leave_out(path_of(&path), Reason::Denied);
                    }
                    is_complete &= !is_transient(failure.into());
                }
            }
        }
    }
    is_complete
}

fn is_transient(failure: ListFailure) -> bool {
    matches!(failure, ListFailure::Open(OpenFailure::Other(_)) | ListFailure::Changed)
}

/// The path without the leading `.`, as requests have it.
fn path_of(path: &Path) -> &Path {
    path.strip_prefix(".").unwrap_or(path)
}
