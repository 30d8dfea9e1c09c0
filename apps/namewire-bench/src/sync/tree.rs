//! The tree that is copied, its changes, and the comparison of copies.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::transfer::write_noise;

/// Files of a directory.
const DIRECTORY_FILES: u64 = 50;

/// A tree with files of equal length.
#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
    changes: u64,
}

impl Tree {
    /// Creates `files` files with `bytes` bytes together.
    pub(super) fn create(root: PathBuf, files: u64, bytes: u64) -> anyhow::Result<Self> {
        for number in 0..files {
            let directory = root.join(format!("d{:04}", number / DIRECTORY_FILES));
            fs::create_dir_all(&directory)?;
            write_noise(&directory.join(format!("f{number:06}")), bytes / files, number)?;
        }
        Ok(Self { root, changes: 0 })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Appends to the first file.
    pub(super) fn change_file(&mut self) -> anyhow::Result<()> {
        let (path, _) = listing(&self.root)?.pop_first().context("a tree with a file")?;
        let mut file = fs::OpenOptions::new().append(true).open(self.root.join(path))?;
        self.changes += 1;
        Ok(writeln!(file, "change {}", self.changes)?)
    }

    /// Renames the last directory; its name stays the last one.
    pub(super) fn rename_directory(&mut self) -> anyhow::Result<()> {
        let directories = fs::read_dir(&self.root)?.collect::<Result<Vec<_>, _>>()?;
        let last = directories.iter().map(fs::DirEntry::path).max().context("a directory")?;
        self.changes += 1;
        Ok(fs::rename(last, self.root.join(format!("renamed{:06}", self.changes)))?)
    }

    /// Compares a copy with the tree: names and content.
    pub(super) fn check(&self, copy: &Path) -> anyhow::Result<()> {
        let (own, copied) = (listing(&self.root)?, listing(copy)?);
        let names = |files: &BTreeMap<PathBuf, u64>| files.keys().cloned().collect::<Vec<_>>();
        ensure!(names(&own) == names(&copied), "the copy has other files");
        for path in own.keys() {
            let is_same = fs::read(self.root.join(path))? == fs::read(copy.join(path))?;
            ensure!(is_same, "the copy of {} differs", path.display());
        }
        Ok(())
    }
}

/// The files below a directory, with their lengths.
fn listing(root: &Path) -> anyhow::Result<BTreeMap<PathBuf, u64>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let entry = entry?;
            let state = entry.metadata()?;
            if state.is_dir() {
                directories.push(entry.path());
            } else {
                files.insert(entry.path().strip_prefix(root)?.to_owned(), state.len());
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::started::Folder;

    #[test]
    fn copy_that_differs_is_found() {
        let folder = Folder::new(&format!("namewire-sync-test-{}", std::process::id())).unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut tree = Tree::create(path("tree"), 120, 12_000).unwrap();
        let copy = Tree::create(path("copy"), 120, 12_000).unwrap();
        tree.check(copy.root()).unwrap();
        tree.change_file().unwrap();
        let reason = tree.check(copy.root()).unwrap_err().to_string();
        assert_eq!(reason, "the copy of d0000/f000000 differs");
        let mut renamed = Tree::create(path("renamed"), 120, 12_000).unwrap();
        renamed.rename_directory().unwrap();
        let reason = renamed.check(copy.root()).unwrap_err().to_string();
        assert_eq!(reason, "the copy has other files");
        renamed.rename_directory().unwrap();
        assert!(renamed.root().join("renamed000002/f000100").is_file());
    }
}
