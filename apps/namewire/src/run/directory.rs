//! Directories of sockets: one that is missing is made, but none above it, which is mistyped more
//! often than meant.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ndn_sys::file::FileIdentity;

/// The directory that `path` is in.
fn parent(path: &Path) -> Option<&Path> {
    path.parent().filter(|parent| !parent.as_os_str().is_empty())
}

/// Checks that the directory of `path` is there or could be made.
///
/// # Errors
/// Which directory is missing, or is none.
pub(super) fn check_parent(path: &Path) -> anyhow::Result<()> {
    let Some(parent) = parent(path) else { return Ok(()) };
    let above = parent.parent().filter(|above| !above.as_os_str().is_empty());
    for directory in [Some(parent), above].into_iter().flatten() {
        if directory.exists() && !directory.is_dir() {
            bail!("{} is not a directory", directory.display());
        }
    }
    if !parent.exists() && above.is_some_and(|above| !above.exists()) {
        bail!("there is neither {} nor a directory to make it in", parent.display());
    }
    Ok(())
}

/// A file or directory of ours.
#[derive(Debug)]
pub(super) struct OwnFile {
    pub(super) path: PathBuf,
    pub(super) identity: FileIdentity,
}

/// Makes the directory of `path` if it is missing; returns it if it was.
///
/// # Errors
/// As [`check_parent`], and what the file system says.
pub(super) fn make_parent(path: &Path) -> anyhow::Result<Option<OwnFile>> {
    check_parent(path)?;
    let Some(parent) = parent(path) else { return Ok(None) };
    match std::fs::create_dir(parent) {
        Ok(()) => {
            let identity = FileIdentity::of(parent)?;
            if !identity.is_directory() {
                bail!("somebody has put something else at {}", parent.display());
            }
            Ok(Some(OwnFile { path: parent.to_owned(), identity }))
        }
        Err(_) if parent.is_dir() => Ok(None),
        Err(error) => {
            Err(error).with_context(|| format!("cannot make the directory {}", parent.display()))
        }
    }
}
