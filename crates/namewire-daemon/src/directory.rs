//! Directories of sockets. A missing directory is created, but not its parents: a missing parent is usually a typing
//! error.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ndn_sys::file::FileIdentity;
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::process::geteuid;

const ROOT: u32 = 0;

/// Returns the directory that contains `path`.
fn parent(path: &Path) -> Option<&Path> {
    path.parent().filter(|parent| !parent.as_os_str().is_empty())
}

/// Checks that the directory of `path` exists or can be created.
///
/// # Errors
/// A directory is missing, or the path is not a directory; the error names it.
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

/// A file or directory that the forwarder created.
#[derive(Debug)]
pub struct OwnFile {
    /// Its path.
    pub path: PathBuf,
    /// Device and inode, which identify it.
    pub identity: FileIdentity,
    /// For a directory: its descriptor, independent of the path.
    pub opened: Option<OwnedFd>,
}

/// Permissions of a created directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Others may enter it, as far as the umask permits, and not change it.
    Enter,
    /// Owner only.
    Private,
}

/// Creates the directory of `path` if it is missing; returns it if it was created.
///
/// # Errors
/// As [`check_parent`], and errors of the file system.
pub(super) fn make_parent(path: &Path, access: Access) -> anyhow::Result<Option<OwnFile>> {
    check_parent(path)?;
    let Some(parent) = parent(path) else { return Ok(None) };
    let mode = if access == Access::Private { 0o700 } else { 0o755 };
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

/// Returns the directory of `path` if users other than root and the one that runs the forwarder can replace files of
/// the forwarder in it: its owner is another user, or others may write and it is not sticky.
pub(super) fn open_to_others(path: &Path) -> Option<&Path> {
    let parent = parent(path).unwrap_or(Path::new("."));
    let state = std::fs::metadata(parent).ok()?;
    is_open_to_others(state.uid(), state.mode(), geteuid().as_raw()).then_some(parent)
}

fn is_open_to_others(owner: u32, mode: u32, own: u32) -> bool {
    let (is_writable, is_sticky) = (mode & 0o022 != 0, mode & 0o1000 != 0);
    // The owner of a sticky directory may replace files of others in it, too.
    (owner != ROOT && owner != own) || (is_writable && !is_sticky)
}

/// Opens a directory just created. The owner of the parent may have replaced it meanwhile; the replacement is
/// rejected.
fn open_made(path: &Path, access: Access) -> anyhow::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let other = || format!("{} was replaced while it was created", path.display());
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
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn private_directory_is_created_with_owner_permissions_only() {
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
    fn directory_is_open_to_others_if_they_can_replace_files_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("nfd.control.sock");
        for (mode, is_open) in
            [(0o700, false), (0o755, false), (0o1777, false), (0o777, true), (0o775, true)]
        {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(directory.path(), permissions).unwrap();
            assert_eq!(open_to_others(&file).is_some(), is_open, "{mode:o}");
        }
    }

    #[test]
    fn directory_of_another_user_is_open_to_others() {
        for (owner, is_open) in [(ROOT, false), (1000, false), (1001, true)] {
            for mode in [0o700, 0o755, 0o1777] {
                assert_eq!(is_open_to_others(owner, mode, 1000), is_open, "{owner} {mode:o}");
            }
        }
        assert!(is_open_to_others(1000, 0o777, 1000));
    }

    #[test]
    fn replaced_directory_is_rejected_and_unchanged() {
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
        // An existing symbolic link may be intended; its target is not changed.
        assert!(make_parent(&path("link").join("key.pem"), Access::Private).unwrap().is_none());
        assert_eq!(mode("other"), 0o755);
        open_made(&path("other"), Access::Enter).unwrap();
        open_made(&path("link"), Access::Enter).unwrap_err();
    }
}
