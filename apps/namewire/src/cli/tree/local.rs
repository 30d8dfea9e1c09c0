//! The copy of a tree on disk: what it has beyond the tree, and its free space.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ndn_files::{Attributes, is_reserved_name};

use super::filter::Filter;

/// A file or directory that the tree does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extra {
    /// Relative to the root.
    pub(super) path: PathBuf,
    pub(super) is_directory: bool,
    /// Size and time of modification of a file.
    pub(super) content: Option<(u64, SystemTime)>,
}

/// Entries below `root` that `planned` does not contain, contents before their directory. `planned` has the relative paths,
/// and whether each is a directory. Entries that `filter` leaves out, parts of incomplete files beside planned ones and
/// directories with such entries are not listed. Symbolic links are not followed.
///
/// # Errors
/// A directory cannot be read.
pub(super) fn extras(
    root: &Path,
    planned: &HashMap<Vec<u8>, bool>,
    filter: &Filter,
) -> io::Result<Vec<Extra>> {
    let mut found = Vec::new();
    match fs::symlink_metadata(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    walk(root, Path::new(""), planned, filter, &mut found)?;
    Ok(found)
}

/// Returns whether everything in the directory is an extra.
fn walk(
    root: &Path,
    directory: &Path,
    planned: &HashMap<Vec<u8>, bool>,
    filter: &Filter,
    found: &mut Vec<Extra>,
) -> io::Result<bool> {
    let is_planned_directory =
        directory.as_os_str().is_empty() || planned.contains_key(directory.as_os_str().as_bytes());
    let entries = fs::read_dir(root.join(directory))
        .map_err(|error| in_directory(root, directory, &error))?;
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut are_all_extras = true;
    for entry in entries {
        let path = directory.join(entry.file_name());
        let metadata = entry.metadata()?;
        let is_directory = metadata.is_dir();
        let name = path.as_os_str().as_bytes();
        let is_part = is_planned_directory && is_reserved_name(entry.file_name().as_bytes());
        if is_part || filter.excludes(name, is_directory) {
            are_all_extras = false;
            continue;
        }
        let plan = planned.get(name).copied();
        // A link counts as what it leads to.
        let leads_to_directory =
            || fs::metadata(root.join(&path)).is_ok_and(|target| target.is_dir());
        let is_kept = match plan {
            Some(true) => is_directory || metadata.is_symlink() && leads_to_directory(),
            Some(false) => !is_directory,
            None => false,
        };
        let mut is_extra = !is_kept;
        if is_directory {
            is_extra &= walk(root, &path, planned, filter, found)?;
        }
        if is_extra {
            let content = metadata.is_file().then(|| (metadata.len(), metadata.modified()));
            let content = content.and_then(|(size, time)| Some((size, time.ok()?)));
            found.push(Extra { path, is_directory, content });
        }
        are_all_extras &= is_extra;
    }
    Ok(are_all_extras)
}

fn in_directory(root: &Path, directory: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", root.join(directory).display()))
}

/// Removes an extra.
pub(super) fn remove(root: &Path, extra: &Extra) -> io::Result<()> {
    let path = root.join(&extra.path);
    if extra.is_directory { fs::remove_dir(path) } else { fs::remove_file(path) }
}

/// Bytes that can be written to the file system of `root`, which need not exist; `None` if it does not report them.
pub(super) fn free_bytes(root: &Path) -> Option<u64> {
    let root = std::path::absolute(root).ok()?;
    let existing = root.ancestors().find(|path| path.exists())?;
    let system = rustix::fs::statvfs(existing).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

/// The umask of this process.
pub(in crate::cli) fn umask() -> u32 {
    // Reading it means setting it: nothing else creates files yet.
    let umask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    rustix::process::umask(umask);
    umask.as_raw_mode()
}

/// Gives an existing file or directory the permissions of the server, within the umask; a set-group-ID bit stays. Symbolic
/// links are left alone.
///
/// # Errors
/// It belongs to another user, or is on a file system without permissions.
pub(super) fn set_permissions(path: &Path, attributes: &Attributes, umask: u32) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    let expected = attributes.permissions_within(umask) | (metadata.mode() & 0o7000);
    if metadata.is_symlink() || metadata.mode() & 0o7777 == expected {
        return Ok(());
    }
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(expected))
}

/// A path for people: without control characters.
pub(super) fn shown(path: &Path) -> String {
    super::output::without_control(&String::from_utf8_lossy(path.as_os_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(extras: &[Extra]) -> Vec<&str> {
        extras.iter().map(|extra| extra.path.to_str().unwrap()).collect()
    }

    fn planned(paths: &[&str]) -> HashMap<Vec<u8>, bool> {
        let entry = |path: &str| {
            let name = path.trim_end_matches('/').as_bytes().to_vec();
            (name, path.ends_with('/'))
        };
        paths.iter().map(|path| entry(path)).collect()
    }

    #[test]
    fn extras_are_what_the_tree_does_not_have_and_no_pattern_protects() {
        use clap::{Args, FromArgMatches};
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for path in ["kept", "old/deep", "mixed/secret"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        for path in [
            "kept/file",
            "kept/gone",
            "kept/.file.part",
            "old/deep/file",
            "old/.x.part",
            "mixed/file",
            "mixed/secret/key",
            "was-file",
        ] {
            fs::write(root.join(path), "x").unwrap();
        }
        std::os::unix::fs::symlink(root.join("kept"), root.join("link")).unwrap();
        let command = Filter::augment_args(clap::Command::new("sync"));
        let matches = command.get_matches_from(["sync", "--exclude=secret/"]);
        let filter = Filter::from_arg_matches(&matches).unwrap();
        let planned = planned(&["kept/", "kept/file", "was-file/"]);
        let found = extras(root, &planned, &filter).unwrap();
        let expected = [
            "kept/gone",
            "link",
            "mixed/file",
            "old/.x.part",
            "old/deep/file",
            "old/deep",
            "old",
            "was-file",
        ];
        assert_eq!(names(&found), expected);
        for extra in &found {
            remove(root, extra).unwrap();
        }
        assert!(root.join("mixed/secret/key").exists() && root.join("kept/.file.part").exists());
        assert!(!root.join("old").exists() && !root.join("link").exists());
        assert_eq!(extras(root, &planned, &filter).unwrap(), []);
        assert_eq!(extras(&root.join("missing"), &planned, &filter).unwrap(), []);
    }

    #[test]
    fn free_space_is_that_of_the_file_system_above() {
        let directory = tempfile::tempdir().unwrap();
        assert!(free_bytes(&directory.path().join("a/b/c")).unwrap() > 0);
    }
}
