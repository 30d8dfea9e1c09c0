//! Properties of files and directories.

use ndn_packet::Name;

use crate::catalog::Details;

/// Properties of a file or directory, known without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Name with version.
    pub name: Name,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Length in bytes; `None` for directories, and for objects whose metadata does not state it.
    pub size: Option<u64>,
    /// Time of the last change, in nanoseconds since 1970.
    pub modified_ns: Option<u64>,
    /// Permissions as in `st_mode`; `None` if they are not stated.
    pub permissions: Option<u16>,
}

impl Stat {
    pub(crate) fn of(details: &Details) -> Self {
        let permissions = u16::try_from(details.mode & 0o7777).ok();
        Self {
            name: details.name.clone(),
            is_directory: details.is_directory,
            size: details.size,
            modified_ns: details.modified_ns,
            permissions: permissions.filter(|_| details.mode != 0),
        }
    }

    /// The version, if the name has one.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        self.name.as_ref().last().and_then(|last| last.as_version_or_marked())
    }
}
