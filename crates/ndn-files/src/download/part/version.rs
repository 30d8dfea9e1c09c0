//! The version of a file, stored in an extended attribute.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use ndn_packet::Name;
use rustix::fs::{OFlags, XattrFlags};

use super::progress::Origin;

const ATTRIBUTE: &str = "user.namewire.object";
/// The state of the file when it was complete, and how it was verified.
const STATE: &str = "user.namewire.state";
/// Longer names are not stored.
const URI_LEN_MAX: usize = 4096;

pub(super) fn read(path: &Path) -> Option<Name> {
    let mut buffer = [0; URI_LEN_MAX];
    let length = rustix::fs::getxattr(path, ATTRIBUTE, &mut buffer[..]).ok()?;
    Name::from_uri(std::str::from_utf8(buffer.get(..length)?).ok()?).ok()
}

/// Records that `file`, which is complete, is `origin`. Best effort: not all file systems support
/// extended attributes.
pub(super) fn write(file: &File, origin: &Origin) {
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

/// Records that the file at `path` has the content of `origin`, so that [`is_unchanged`] finds it. Best effort: not all
/// file systems support extended attributes.
pub fn record(path: &Path, origin: &Origin) {
    if let Ok(file) = open_without_waiting(path) {
        write(&file, origin);
    }
}

fn state(metadata: &fs::Metadata, origin: &Origin) -> String {
    let Origin { verification, .. } = origin;
    let (size, mtime, nanoseconds) = (metadata.size(), metadata.mtime(), metadata.mtime_nsec());
    format!("{size} {mtime}.{nanoseconds:09} {verification}")
}

/// Opens a file without waiting for the writer of a pipe.
fn open_without_waiting(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Whether the file at `path` is `origin`, of `size` bytes, verified as it would be now, and
/// unchanged since. False where the file system cannot tell.
#[must_use]
pub fn is_unchanged(path: &Path, origin: &Origin, size: u64) -> bool {
    let found = || -> io::Result<bool> {
        let file = open_without_waiting(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(false);
        }
        let mut there = [0; URI_LEN_MAX];
        let length = rustix::fs::fgetxattr(&file, ATTRIBUTE, &mut there[..])?;
        let same_object = there.get(..length) == Some(origin.name.as_bytes());
        let length = rustix::fs::fgetxattr(&file, STATE, &mut there[..])?;
        let same_state = there.get(..length) == Some(state(&metadata, origin).as_bytes());
        Ok(metadata.size() == size && same_object && same_state)
    };
    found().unwrap_or(false)
}
