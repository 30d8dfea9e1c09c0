//! The version of a file, stored in an extended attribute.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ndn_packet::Name;
use rustix::fs::XattrFlags;

use super::progress::Origin;

const ATTRIBUTE: &str = "user.namewire.object";
/// The state of the file when it was complete, and how it was verified.
const STATE: &str = "user.namewire.state";
/// Longer names are not stored.
const URI_LEN_MAX: usize = 4096;

/// The version of the file at `path`; a symbolic link has none.
pub(super) fn read(path: &Path) -> Option<Name> {
    let mut buffer = [0; URI_LEN_MAX];
    let length = rustix::fs::lgetxattr(path, ATTRIBUTE, &mut buffer[..]).ok()?;
    Name::from_uri(std::str::from_utf8(buffer.get(..length)?).ok()?).ok()
}

/// Records that `file`, which is complete, is `origin`, so that [`is_unchanged`] finds it. Best effort: not all file
/// systems support extended attributes.
pub fn record(file: &File, origin: &Origin) {
    let uri = &origin.name;
    if uri.len() > URI_LEN_MAX {
        return;
    }
    let _ = rustix::fs::fsetxattr(file, ATTRIBUTE, uri.as_bytes(), XattrFlags::empty());
    if let Ok(metadata) = file.metadata() {
        let state = state(&metadata, origin);
        let _ = rustix::fs::fsetxattr(file, STATE, state.as_bytes(), XattrFlags::empty());
    }
}

fn state(metadata: &fs::Metadata, origin: &Origin) -> String {
    format!("{}{}", content_state(metadata), origin.verification)
}

/// The part of the state that a change of the content changes.
fn content_state(metadata: &fs::Metadata) -> String {
    let (size, mtime, nanoseconds) = (metadata.size(), metadata.mtime(), metadata.mtime_nsec());
    format!("{size} {mtime}.{nanoseconds:09} ")
}

/// Whether `file` was fetched and has changed since, other than by a fetch. False where the file system cannot tell.
#[must_use]
pub fn has_changed(file: &File) -> bool {
    let found = || -> io::Result<bool> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(false);
        }
        let mut there = [0; URI_LEN_MAX];
        let length = rustix::fs::fgetxattr(file, STATE, &mut there[..])?;
        let recorded = there.get(..length).unwrap_or_default();
        Ok(!recorded.starts_with(content_state(&metadata).as_bytes()))
    };
    found().unwrap_or(false)
}

/// Whether `file` is `origin`, of `size` bytes, verified as it would be now, and
/// unchanged since. False where the file system cannot tell.
#[must_use]
pub fn is_unchanged(file: &File, origin: &Origin, size: u64) -> bool {
    let found = || -> io::Result<bool> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(false);
        }
        let mut there = [0; URI_LEN_MAX];
        let length = rustix::fs::fgetxattr(file, ATTRIBUTE, &mut there[..])?;
        let same_object = there.get(..length) == Some(origin.name.as_bytes());
        let length = rustix::fs::fgetxattr(file, STATE, &mut there[..])?;
        let same_state = there.get(..length) == Some(state(&metadata, origin).as_bytes());
        Ok(metadata.size() == size && same_object && same_state)
    };
    found().unwrap_or(false)
}

/// The version recorded for `file`, a file or directory, if it is a newer one of the same object than `name`: an attacker
/// who replays old packets must not be able to restore an old version.
#[must_use]
pub fn newer_version(file: &File, name: &Name) -> Option<Name> {
    let mut buffer = [0; URI_LEN_MAX];
    let length = rustix::fs::fgetxattr(file, ATTRIBUTE, &mut buffer[..]).ok()?;
    let there = Name::from_uri(std::str::from_utf8(buffer.get(..length)?).ok()?).ok()?;
    is_older(name, &there).then_some(there)
}

/// Whether `name` is an older version of the object `there`.
pub(super) fn is_older(name: &Name, there: &Name) -> bool {
    let version = |name: &Name| name.as_ref().last().and_then(|last| last.as_version_or_marked());
    there.as_ref().parent() == name.as_ref().parent() && version(name) < version(there)
}
