//! Which version a file is: kept beside it by file systems that have extended attributes.

use std::fs::File;
use std::path::Path;

use ndn_packet::Name;
use rustix::fs::XattrFlags;

const ATTRIBUTE: &str = "user.namewire.object";
/// Longer names are not kept.
const URI_LEN_MAX: usize = 4096;

pub(super) fn read(path: &Path) -> Option<Name> {
    let mut buffer = [0; URI_LEN_MAX];
    let length = rustix::fs::getxattr(path, ATTRIBUTE, &mut buffer[..]).ok()?;
    Name::from_uri(std::str::from_utf8(buffer.get(..length)?).ok()?).ok()
}

/// Best effort: not all file systems have a place for it.
pub(super) fn write(file: &File, uri: &str) {
    if uri.len() <= URI_LEN_MAX {
        let _ = rustix::fs::fsetxattr(file, ATTRIBUTE, uri.as_bytes(), XattrFlags::empty());
    }
}
