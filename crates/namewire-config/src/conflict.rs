//! Settings that exclude each other, and settings that may not do what they seem to.

use std::fmt;

/// Settings that cannot be used together, or not on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The settings as dotted paths, with the number of a table in an array of tables; the setting at fault first.
    pub keys: Vec<String>,
    /// The reason.
    pub reason: String,
}

/// A setting that is valid, but probably not what was intended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The setting as a dotted path, with the number of a table in an array of tables.
    pub key: String,
    /// The reason for the warning.
    pub reason: String,
}

impl Conflict {
    /// A conflict between settings; the setting at fault comes first.
    pub fn new(keys: &[&str], reason: impl Into<String>) -> Self {
        Self { keys: keys.iter().map(|key| (*key).to_owned()).collect(), reason: reason.into() }
    }

    /// Settings that cannot be used on this machine because of an error.
    pub fn from_error(keys: &[&str], error: &anyhow::Error) -> Self {
        Self::new(keys, format!("{error:#}"))
    }
}

impl std::error::Error for Conflict {}

impl fmt::Display for Conflict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)
    }
}
