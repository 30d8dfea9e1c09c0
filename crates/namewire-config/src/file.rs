//! Reads configuration files.

use std::path::{Path, PathBuf};

use toml::de::DeTable;

use crate::config::Config;
use crate::conflict::{Conflict, Warning};
use crate::declaration::{Described, Description, Table as _, describe_table, read_table};
use crate::error::{ConfigError, FILE_BYTES_MAX, Problem};
use crate::key_location::{find_all, is_present};
use crate::reader::{Findings, Place, Section};
use crate::text_file;

/// A configuration file that was read. It is read once: a pipe has its text only once.
#[derive(Debug)]
pub struct ConfigFile {
    path: PathBuf,
    text: String,
}

impl ConfigFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// It cannot be read, or is too large.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let origin = path.display().to_string();
        let unreadable = |error| ConfigError::unreadable(&origin, &error);
        let length = std::fs::metadata(path).map_err(unreadable)?.len();
        if length > FILE_BYTES_MAX {
            return Err(ConfigError::too_large(&origin, length));
        }
        let text = text_file::read(path).map_err(unreadable)?;
        Ok(Self { path: path.to_owned(), text })
    }

    /// Its configuration and the problems of that: settings with problems have their defaults.
    ///
    /// # Errors
    /// The file is empty or not TOML.
    pub fn parse(&self) -> Result<(Config, Option<ConfigError>), ConfigError> {
        let (origin, text) = (self.origin(), self.text());
        // The program that should have written it has failed, or the disk was full.
        if self.is_empty() {
            return Err(ConfigError::empty(&origin));
        }
        let rejected = |problems| ConfigError::rejected(&origin, text, problems);
        let (mut config, problems) = read(text).map_err(|problems| {
            if has_section_of_nfd(text) {
                ConfigError::nfd_conf(&origin)
            } else {
                rejected(problems)
            }
        })?;
        let directory = self.path.parent().unwrap_or(Path::new(""));
        config.management.resolve_paths(directory);
        config.caching.vip.signers.resolve_paths(directory);
        Ok((config, (!problems.is_empty()).then(|| rejected(problems))))
    }

    /// Whether it is a configuration of NFD.
    pub fn is_nfd_conf(&self) -> bool {
        read(&self.text).is_err() && has_section_of_nfd(&self.text)
    }

    /// The path from which it was read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The error of a conflict in it, with the line of the first of its settings that the file has.
    pub fn locate(&self, conflict: &Conflict) -> ConfigError {
        ConfigError::located(&self.origin(), &self.text, &conflict.keys, &conflict.reason)
    }

    /// As [`Self::locate`], of a warning.
    pub fn locate_warning(&self, warning: &Warning) -> ConfigError {
        let keys = std::slice::from_ref(&warning.key);
        ConfigError::located(&self.origin(), &self.text, keys, &warning.reason)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn origin(&self) -> String {
        self.path.display().to_string()
    }

    /// Whether it is a file without content, and not an empty pipe or device.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.path.is_file()
    }
}

/// Reads and checks the configuration file at `path`.
///
/// # Errors
/// The file cannot be read, is too large, is not TOML, or has unknown keys, bad values or conflicts.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    match ConfigFile::read(path)?.parse()? {
        (config, None) => Ok(config),
        (_, Some(error)) => Err(error),
    }
}

/// Reads and checks configuration text; `origin` names it in error messages.
///
/// # Errors
/// The text is not TOML, or has unknown keys, bad values or conflicts; all of them are listed.
pub fn parse(origin: &str, text: &str) -> Result<Config, ConfigError> {
    match read(text) {
        Ok((config, problems)) if problems.is_empty() => Ok(config),
        Ok((_, problems)) | Err(problems) => Err(ConfigError::rejected(origin, text, problems)),
    }
}

/// Reads a configuration and its problems, or the problems of its syntax.
pub(crate) fn read(text: &str) -> Result<(Config, Vec<Problem>), Vec<Problem>> {
    let findings = Findings::new(places);
    let (document, syntax_errors) = DeTable::parse_recoverable(text);
    for error in &syntax_errors {
        let (span, message) = (error.span().unwrap_or(0..0), error.message().trim_end());
        // The message does not name it.
        let message = match text.get(span.clone()).filter(|_| message == "duplicate key") {
            Some(key) => format!("the key `{key}` occurs twice"),
            None => message.to_owned(),
        };
        findings.report(span, message, None);
    }
    if !syntax_errors.is_empty() {
        return Err(findings.into_parts().0);
    }
    let mut config = Config::default();
    read_table(Section::root(&findings, &document), &mut config);
    let (mut problems, items) = findings.into_parts();
    for conflict in config.conflicts_in_file(&|key| is_present(&document, key)) {
        // The problem is reported at the last of its settings, with the lines of the others.
        let mut related = find_all(&document, &conflict.keys, &items);
        related.sort_by_key(|span| span.start);
        let (span, message) = (related.pop(), conflict.reason);
        problems.push(Problem { span, related, message, help: None });
    }
    Ok((config, problems))
}

/// The settings and tables of the configuration.
fn places() -> Vec<Place> {
    fn add(places: &mut Vec<Place>, described: Described) {
        let Described { path, description, .. } = described;
        let (shown, is_table, entries) = match description {
            Description::Setting { .. } => (path.clone(), false, Vec::new()),
            Description::Table { is_item: true, entries, .. } => {
                (format!("[[{path}]]"), true, entries)
            }
            Description::Table { entries, .. } => (format!("[{path}]"), true, entries),
            Description::Entries { .. } => (format!("[{path}]"), true, Vec::new()),
        };
        places.push(Place { path, shown, is_table });
        entries.into_iter().for_each(|entry| add(places, entry));
    }
    let mut places = Vec::new();
    let tables = describe_table("", &Config::initial());
    tables.into_iter().for_each(|table| add(&mut places, table));
    places
}

/// Whether a text that is not TOML is a configuration of NFD: one of its sections opens, as in the INFO format, which may have
/// errors of its own.
fn has_section_of_nfd(text: &str) -> bool {
    const SECTIONS: [&str; 8] =
        ["general", "log", "forwarder", "tables", "face_system", "authorizations", "rib", "mw-nfd"];
    let lines = text.lines().map(|line| line.split_once(';').map_or(line, |(line, _)| line).trim());
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let mut pairs = lines.iter().zip(lines.iter().skip(1).chain([&""]));
    pairs.any(|(line, next)| {
        let section = SECTIONS.iter().find_map(|section| line.strip_prefix(section));
        section
            .map(str::trim_start)
            .is_some_and(|rest| rest.starts_with('{') || rest.is_empty() && next.starts_with('{'))
    })
}
