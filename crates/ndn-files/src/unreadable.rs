//! Files and directories that this process may not read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::source::FileSource;

/// Number of files and directories that are logged.
const LOGGED_MAX: usize = 100;

/// Logs files and directories that cannot be read, each once: a consumer that lists their directory sees their names and
/// cannot fetch them; the operator learns why here.
#[derive(Debug, Default)]
pub(crate) struct Unreadable(Mutex<BTreeSet<PathBuf>>);

impl Unreadable {
    /// Logs that `path` of a source cannot be read.
    pub(crate) fn note(&self, source: &dyn FileSource, path: &Path) {
        let place = PathBuf::from(source.location());
        let path = path.strip_prefix(".").unwrap_or(path);
        let path = if path.as_os_str().is_empty() { place } else { place.join(path) };
        if let Some(is_last) = self.is_new(&path) {
            tracing::warn!(path = %path.display(), "not served, because the permission to read it is missing");
            if is_last {
                tracing::warn!("further files without the permission to read them are not logged");
            }
        }
    }

    /// Whether a path that is to be logged is the last one; `None` for one that is not.
    fn is_new(&self, path: &Path) -> Option<bool> {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = logged.len() < LOGGED_MAX && logged.insert(path.to_owned());
        is_new.then(|| logged.len() == LOGGED_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_is_logged_once_up_to_a_limit() {
        let unreadable = Unreadable::default();
        let is_new = |number: usize| unreadable.is_new(Path::new(&number.to_string()));
        assert_eq!((is_new(1), is_new(1)), (Some(false), None));
        let logged = (2..1000).filter_map(is_new).collect::<Vec<_>>();
        assert_eq!(logged.len(), LOGGED_MAX - 1);
        assert_eq!(logged.iter().filter(|is_last| **is_last).count(), 1);
    }
}
