//! Files that runs read in this process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::results::VERSION_INPUT;
use crate::testbed::Program;

/// Contents of files, read once for all runs.
#[derive(Debug)]
pub(super) struct Inputs {
    directory: PathBuf,
    files: BTreeMap<String, Vec<u8>>,
}

impl Inputs {
    /// No files; paths are relative to `directory`.
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), files: BTreeMap::new() }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reads a file, unless it was read before.
    pub(super) fn read(&mut self, path: &str) -> Result<(), String> {
        if !self.files.contains_key(path) {
            let content = std::fs::read(self.directory.join(path));
            self.files
                .insert(path.to_owned(), content.map_err(|error| format!("{path}: {error}"))?);
        }
        Ok(())
    }

    /// Adds the version of a forwarder, so that runs of another one are not added to those of this one. That of this program
    /// is stored with the sessions.
    pub(super) fn add_version(&mut self, program: Program) -> Result<(), String> {
        let key = format!("{VERSION_INPUT}{}", program.name());
        if program != Program::Namewire && !self.files.contains_key(&key) {
            self.files.insert(key, program.version()?.into_bytes());
        }
        Ok(())
    }

    /// The text of a file that was read.
    pub(super) fn text(&self, path: &str) -> Result<&str, String> {
        let content = self.files.get(path).ok_or_else(|| format!("{path}: was not read"))?;
        std::str::from_utf8(content).map_err(|error| format!("{path}: {error}"))
    }

    /// Paths and contents.
    pub(super) fn all(&self) -> Vec<(String, Vec<u8>)> {
        self.files.iter().map(|(path, content)| (path.clone(), content.clone())).collect()
    }
}
