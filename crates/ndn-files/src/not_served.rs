//! Entries of served directories that are not served.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::source::{FileSource, SourceListing};

/// Number of files and directories that are logged for each reason.
pub(crate) const LOGGED_MAX: usize = 100;

/// Why an entry of a directory is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// A consumer that lists the directory sees its name, and cannot fetch it.
    Denied,
    /// It is not listed.
    Special,
}

/// The entries of a listing that are not served.
pub(crate) fn not_served(listing: &SourceListing) -> impl Iterator<Item = (&[u8], Reason)> {
    let denied = listing.unreadable.iter().map(|name| (name.as_slice(), Reason::Denied));
    denied.chain(listing.special.iter().map(|name| (name.as_slice(), Reason::Special)))
}

/// Logs entries that are not served, each once, for the operator.
#[derive(Debug, Default)]
pub(crate) struct NotServed(Mutex<BTreeMap<Reason, BTreeSet<PathBuf>>>);

impl NotServed {
    /// Logs that `path` of a source is not served.
    pub(crate) fn note(&self, source: &dyn FileSource, path: &Path, reason: Reason) {
        let place = PathBuf::from(source.location());
        let path = path.strip_prefix(".").unwrap_or(path);
        let path = if path.as_os_str().is_empty() { place } else { place.join(path) };
        if let Some(is_last) = self.is_new(&path, reason) {
            let path = path.display();
            match reason {
                Reason::Denied => {
                    tracing::warn!(%path, "not served, because the permission to read it is missing");
                }
                Reason::Special => {
                    tracing::warn!(%path, "not served, because it is a pipe, socket or device");
                }
            }
            if is_last {
                tracing::warn!("further files that are not served for this reason are not logged");
            }
        }
    }

    /// Whether a path that is to be logged is the last one; `None` for one that is not.
    fn is_new(&self, path: &Path, reason: Reason) -> Option<bool> {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let logged = logged.entry(reason).or_default();
        let is_new = logged.len() < LOGGED_MAX && logged.insert(path.to_owned());
        is_new.then_some(logged.len() == LOGGED_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_is_logged_once_up_to_a_limit() {
        let not_served = NotServed::default();
        let is_new =
            |number: usize| not_served.is_new(Path::new(&number.to_string()), Reason::Special);
        assert_eq!((is_new(1), is_new(1)), (Some(false), None));
        let logged = (2..1000).filter_map(is_new).collect::<Vec<_>>();
        assert_eq!(logged.len(), LOGGED_MAX - 1);
        assert_eq!(logged.iter().filter(|is_last| **is_last).count(), 1);
        assert_eq!(not_served.is_new(Path::new("denied"), Reason::Denied), Some(false));
    }
}
