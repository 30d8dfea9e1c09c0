//! Directories of sockets: one that is missing is made, but none above it, which is mistyped more
//! often than meant.

use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ndn_sys::file::FileIdentity;
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::process::geteuid;

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

/// A file or directory that the forwarder has made.
#[derive(Debug)]
pub struct OwnFile {
    /// Where it was made.
    pub path: PathBuf,
    /// Device and inode, to recognise it by.
    pub identity: FileIdentity,
    /// Of a directory: itself, whatever its path leads to by now.
    pub opened: Option<OwnedFd>,
}

/// Who else may see into a directory that is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Whoever the umask lets.
    Umask,
    /// Nobody.
    Private,
}

/// Makes the directory of `path` if it is missing; returns it if it was.
///
/// # Errors
/// As [`check_parent`], and what the file system says.
pub(super) fn make_parent(path: &Path, access: Access) -> anyhow::Result<Option<OwnFile>> {
    check_parent(path)?;
    let Some(parent) = parent(path) else { return Ok(None) };
    let mode = if access == Access::Private { 0o700 } else { 0o777 };
    match std::fs::DirBuilder::new().mode(mode).create(parent) {
        Ok(()) => {
            let opened = open_made(parent, access)?;
            let identity = FileIdentity::of_descriptor(&opened)?;
            Ok(Some(OwnFile { path: parent.to_owned(), identity, opened: Some(opened) }))
        }
        Err(_) if parent.is_dir() => Ok(None),
        Err(error) => {
            Err(error).with_context(|| format!("cannot make the directory {}", parent.display()))
        }
    }
}

/// Opens a directory that was made just now. Whoever owns the one above it may have put something else in
/// its place meanwhile, which must not be taken for ours.
fn open_made(path: &Path, access: Access) -> anyhow::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let other = || format!("somebody has put something else at {}", path.display());
    let opened = open(path, flags, Mode::empty()).with_context(other)?;
    let state = fstat(&opened)?;
    let is_ours = state.st_uid == geteuid().as_raw() && state.st_mode & 0o077 == 0;
    if access == Access::Private && !is_ours {
        bail!(other());
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn a_private_directory_is_nobody_elses_from_the_beginning() {
        let above = tempfile::tempdir().unwrap();
        let file = above.path().join("state").join("key.pem");
        let made = make_parent(&file, Access::Private).unwrap().unwrap();
        let found = std::fs::symlink_metadata(&made.path).unwrap();
        assert!(found.is_dir());
        assert_eq!(found.mode() & 0o777, 0o700);
        assert_eq!(made.identity, FileIdentity::of(&made.path).unwrap());
        assert!(make_parent(&file, Access::Private).unwrap().is_none(), "it is there");
    }

    #[test]
    fn what_was_put_in_the_place_of_a_directory_is_not_taken_and_stays_as_it_is() {
        let above = tempfile::tempdir().unwrap();
        let path = |name: &str| above.path().join(name);
        let mode = |name: &str| std::fs::metadata(path(name)).unwrap().mode() & 0o777;
        let allow = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::create_dir(path("other")).unwrap();
        std::fs::set_permissions(path("other"), allow(0o755)).unwrap();
        std::os::unix::fs::symlink(path("other"), path("link")).unwrap();
        std::fs::write(path("file"), "").unwrap();
        for wrong in ["other", "link", "file", "nothing"] {
            open_made(&path(wrong), Access::Private).unwrap_err();
        }
        assert_eq!(mode("other"), 0o755);
        // A link that is there already may be meant, and leads to a directory that is left alone.
        assert!(make_parent(&path("link").join("key.pem"), Access::Private).unwrap().is_none());
        assert_eq!(mode("other"), 0o755);
        open_made(&path("other"), Access::Umask).unwrap();
        open_made(&path("link"), Access::Umask).unwrap_err();
    }
}
