//! Files that runs read in this process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::results::VERSION_INPUT;
use crate::testbed::Program;

/// Contents of files, read once for all runs.
#[derive(Debug)]
pub(super) struct Inputs {
    directory: PathBuf,
    files: BTreeMap<String, Vec<u8>>,
    /// Notes on the cells, to be read before they run.
    notes: BTreeSet<String>,
}

impl Inputs {
    /// No files; paths are relative to `directory`.
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), files: BTreeMap::new(), notes: BTreeSet::new() }
    }

    /// Files of which the contents are known.
    pub(super) fn of_texts(texts: &[(String, String)]) -> Self {
        let file = |(path, text): &(String, String)| (path.clone(), text.clone().into_bytes());
        Self { files: texts.iter().map(file).collect(), ..Self::new(Path::new("")) }
    }

    /// Paths and texts of the files of this machine.
    pub(super) fn texts(&self) -> Vec<(String, String)> {
        let files = self.files.iter().filter(|(path, _)| !path.starts_with(VERSION_INPUT));
        let text = |content: &Vec<u8>| String::from_utf8_lossy(content).into_owned();
        files.map(|(path, content)| (path.clone(), text(content))).collect()
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Adds a note.
    pub(super) fn note(&mut self, note: String) {
        self.notes.insert(note);
    }

    pub(super) fn notes(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().map(String::as_str)
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
        if program != Program::Namewire && !self.files.contains_key(&version_key(program)) {
            self.set_version(program, program.version()?);
        }
        Ok(())
    }

    /// Sets the version of a forwarder of hosts.
    pub(super) fn set_version(&mut self, program: Program, version: String) {
        self.files.insert(version_key(program), version.into_bytes());
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

fn version_key(program: Program) -> String {
    format!("{VERSION_INPUT}{}", program.name())
}
