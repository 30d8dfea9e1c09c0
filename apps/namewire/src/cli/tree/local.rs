//! Entries of a copy that the tree does not have, and the permissions of its files.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ndn_files::{Attributes, is_reserved_name};

use super::filter::Filter;
use super::root::{Identity, Root};

/// End of the hidden name of an entry that has been moved out of the way of another kind of entry.
const MOVED_SUFFIX: &str = ".part.old";

/// The hidden names that an entry may have while another kind of entry takes its place.
pub(super) fn hidden_names(path: &Path) -> impl Iterator<Item = PathBuf> {
    (0..100).map(|number| {
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        if number > 0 {
            name.push(format!(".{number}"));
        }
        name.push(MOVED_SUFFIX);
        path.with_file_name(name)
    })
}

/// A file or directory that the tree does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extra {
    /// Relative to the root.
    pub(super) path: PathBuf,
    pub(super) is_directory: bool,
    pub(super) identity: Identity,
    /// Size and time of modification of a file.
    pub(super) content: Option<(u64, SystemTime)>,
}

/// The entries that a copy should have.
#[derive(Debug)]
pub(super) struct Expected<'a> {
    /// The relative paths of the tree, and whether each is a directory.
    pub(super) planned: &'a HashMap<Vec<u8>, bool>,
    /// Device and inode of the planned entries that exist: on a file system that folds names, under other names.
    pub(super) present: &'a HashSet<(u64, u64)>,
    pub(super) filter: &'a Filter,
    /// The server lists hidden entries.
    pub(super) lists_hidden: bool,
}

/// Entries that the tree does not have, or of another kind there, contents before their directory.
///
/// Entries that a file server may leave out of its listings do not count: hidden entries, if it lists no others, links
/// and special files. Nor do entries that the filter leaves out, parts of incomplete files beside planned ones and
/// directories with such entries.
///
/// # Errors
/// A directory cannot be read.
pub(super) fn extras(root: &Root, expected: &Expected<'_>) -> io::Result<Vec<Extra>> {
    let mut found = Vec::new();
    if root.entry(Path::new(""))?.is_some() {
        expected.walk(root, Path::new(""), &mut found)?;
    }
    Ok(found)
}

impl Expected<'_> {
    /// Returns whether everything in the directory is an extra.
    fn walk(&self, root: &Root, directory: &Path, found: &mut Vec<Extra>) -> io::Result<bool> {
        let in_directory = |error: io::Error| {
            let path = root.join(directory);
            io::Error::new(error.kind(), format!("{}: {error}", local_path(&path)))
        };
        let mut are_all_extras = true;
        for name in root.names(directory).map_err(in_directory)? {
            let path = directory.join(&name);
            let Some(metadata) = root.entry(&path).map_err(in_directory)? else { continue };
            let is_directory = metadata.is_dir();
            let identity = Identity::of(&metadata);
            let plan = self.planned.get(path.as_os_str().as_bytes()).copied();
            let is_other_name =
                plan.is_none() && self.present.contains(&(identity.device, identity.inode));
            if self.protects(&path, &metadata, plan.is_some()) {
                are_all_extras = false;
                continue;
            }
            let is_kept = match plan {
                Some(true) => is_directory,
                Some(false) => metadata.is_file(),
                None => is_other_name,
            };
            let mut is_extra = !is_kept;
            if is_directory {
                is_extra &= self.walk(root, &path, found)?;
            }
            if is_extra {
                let content = metadata.is_file().then(|| (metadata.len(), metadata.modified()));
                let content = content.and_then(|(size, time)| Some((size, time.ok()?)));
                found.push(Extra { path, is_directory, identity, content });
            }
            are_all_extras &= is_extra;
        }
        Ok(are_all_extras)
    }

    fn protects(&self, path: &Path, metadata: &fs::Metadata, is_planned: bool) -> bool {
        let name = path.file_name().unwrap_or_default().as_bytes();
        if self.filter.excludes(path.as_os_str().as_bytes(), metadata.is_dir()) {
            return true;
        }
        let is_hidden = name.starts_with(b".");
        if is_planned || is_hidden && name.ends_with(MOVED_SUFFIX.as_bytes()) {
            return false;
        }
        let above = path.parent().unwrap_or(Path::new("")).as_os_str().as_bytes();
        let is_beside_planned = above.is_empty() || self.planned.contains_key(above);
        let is_special = !metadata.is_file() && !metadata.is_dir();
        if is_reserved_name(name) {
            is_beside_planned
        } else {
            is_special || is_hidden && !self.lists_hidden
        }
    }
}

/// The umask of this process.
#[allow(clippy::useless_conversion, reason = "the type has 16 bits on macOS")]
pub(in crate::cli) fn umask() -> u32 {
    // Reading it means setting it: nothing else creates files yet.
    let umask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    rustix::process::umask(umask);
    umask.as_raw_mode().into()
}

/// Gives an open file or directory the permissions of the server, within the umask; a set-group-ID bit stays.
///
/// # Errors
/// It belongs to another user, or is on a file system without permissions.
pub(super) fn set_permissions(
    file: &fs::File,
    attributes: &Attributes,
    umask: u32,
) -> io::Result<()> {
    let mode = file.metadata()?.mode();
    let expected = attributes.permissions_within(umask) | (mode & 0o7000);
    if mode & 0o7777 == expected {
        return Ok(());
    }
    file.set_permissions(fs::Permissions::from_mode(expected))
}

/// A path of this machine for people, without characters that change a terminal. `get` takes no such path:
/// [`file_name::path`](crate::cli::file_name::path) is the text of names of the tree.
pub(super) fn local_path(path: &Path) -> String {
    crate::cli::output::without_control(&String::from_utf8_lossy(path.as_os_str().as_bytes()))
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

    fn expected<'a>(
        planned: &'a HashMap<Vec<u8>, bool>,
        present: &'a HashSet<(u64, u64)>,
        filter: &'a Filter,
    ) -> Expected<'a> {
        Expected { planned, present, filter, lists_hidden: false }
    }

    fn create(root: &Path, paths: &[&str]) {
        for path in paths {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
    }

    #[test]
    fn extras_are_what_the_tree_does_not_have_and_no_pattern_protects() {
        use clap::{Args, FromArgMatches};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        create(path, &["kept/file", "kept/gone", "kept/.file.part", "old/deep/file"]);
        create(path, &["old/.x.part", "mixed/file", "mixed/secret/key", "was-file", ".y.part.old"]);
        let command = Filter::augment_args(clap::Command::new("sync"));
        let matches = command.get_matches_from(["sync", "--exclude=secret/"]);
        let filter = Filter::from_arg_matches(&matches).unwrap();
        let (planned, present) = (planned(&["kept/", "kept/file", "was-file/"]), HashSet::new());
        let root = Root::open(path, true).unwrap();
        let expected = expected(&planned, &present, &filter);
        let found = extras(&root, &expected).unwrap();
        let names_expected = [
            ".y.part.old",
            "kept/gone",
            "mixed/file",
            "old/.x.part",
            "old/deep/file",
            "old/deep",
            "old",
            "was-file",
        ];
        assert_eq!(names(&found), names_expected);
        for extra in &found {
            assert!(root.remove(&extra.path, &extra.identity).unwrap());
        }
        assert!(path.join("mixed/secret/key").exists() && path.join("kept/.file.part").exists());
        assert!(!path.join("old").exists());
        assert_eq!(extras(&root, &expected).unwrap(), []);
        let missing = Root::open(&path.join("missing"), true).unwrap();
        assert_eq!(extras(&missing, &expected).unwrap(), []);
    }

    /// A server lists neither special files nor, by default, links and hidden entries.
    #[test]
    fn entry_that_a_server_leaves_out_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        create(path, &[".git/HEAD", ".profile", "old/file", "old/.hidden"]);
        std::os::unix::fs::symlink("old", path.join("link")).unwrap();
        let root = Root::open(path, true).unwrap();
        let (planned, present, filter) = (HashMap::new(), HashSet::new(), Filter::default());
        let mut expected = expected(&planned, &present, &filter);
        assert_eq!(names(&extras(&root, &expected).unwrap()), ["old/file"]);
        expected.lists_hidden = true;
        let found = extras(&root, &expected).unwrap();
        let all = [".git/HEAD", ".git", ".profile", "old/.hidden", "old/file", "old"];
        assert_eq!(names(&found), all);
    }

    /// On a file system that folds names, `Docs/a` is planned, and the directory has `docs/A`.
    #[test]
    fn planned_entry_under_another_name_is_no_extra() {
        let directory = tempfile::tempdir().unwrap();
        create(directory.path(), &["docs/A", "docs/old"]);
        let root = Root::open(directory.path(), true).unwrap();
        let identity = |path: &str| {
            let found = Identity::of(&root.entry(Path::new(path)).unwrap().unwrap());
            (found.device, found.inode)
        };
        let present = HashSet::from([identity("docs"), identity("docs/A")]);
        let (planned, filter) = (planned(&["Docs/", "Docs/a"]), Filter::default());
        let found = extras(&root, &expected(&planned, &present, &filter)).unwrap();
        assert_eq!(names(&found), ["docs/old"]);
    }
}
