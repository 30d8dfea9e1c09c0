//! Directory listings: names in order, each terminated by a zero byte, preceded by `/` for
//! directories.

use std::collections::HashSet;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, Dir, FileType, accessat};
use rustix::io::Errno;

use crate::not_served::LOGGED_MAX;
use crate::root::Root;
use crate::source::{ListFailure, OpenFailure, SourceEntry};
use crate::stat::FileKind;

/// Maximum length of a listing in bytes. A larger directory is not listed.
pub(crate) const LISTING_LEN_MAX: usize = 64 << 20;
/// Maximum number of entries of a listing that is parsed.
const ENTRIES_MAX: usize = 1 << 22;

/// An entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingEntry {
    /// The file name: not empty, `.` or `..`, and without `/` and zero bytes.
    pub file_name: Vec<u8>,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// Parses a listing. It is untrusted input: an entry that is not a plain file name, and could lead
/// out of the directory, a name that is given twice and more than 2^22 entries make the whole listing
/// invalid (`None`).
#[must_use]
pub fn parse_listing(listing: &[u8]) -> Option<Vec<ListingEntry>> {
    let Some(listing) = listing.strip_suffix(&[0]) else {
        return listing.is_empty().then(Vec::new);
    };
    let mut entries = Vec::new();
    let mut names = HashSet::new();
    for entry in listing.split(|byte| *byte == 0) {
        let (file_name, is_directory) = match entry.strip_suffix(b"/") {
            Some(file_name) => (file_name, true),
            None => (entry, false),
        };
        if matches!(file_name, b"" | b"." | b"..") || file_name.contains(&b'/') {
            return None;
        }
        if !names.insert(file_name) || entries.len() >= ENTRIES_MAX {
            return None;
        }
        entries.push(ListingEntry { file_name: file_name.to_vec(), is_directory });
    }
    Some(entries)
}

/// The entries of a directory that are served, and the names of others.
#[derive(Debug, Default)]
pub(crate) struct ListedEntries {
    pub(crate) entries: Vec<SourceEntry>,
    /// Those that this process may not read. They are entries, too: the consumer that copies the directory learns that the
    /// copy is not complete, and deletes nothing.
    pub(crate) unreadable: Vec<Vec<u8>>,
    /// Pipes, sockets and devices, as many as are logged.
    pub(crate) special: Vec<Vec<u8>>,
}

/// The entries of the open directory at `path` that `root` serves.
pub(crate) fn read_directory(
    root: &Root,
    path: &Path,
    directory: &File,
) -> Result<ListedEntries, ListFailure> {
    let mut listed = ListedEntries::default();
    let mut length = 0;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") || (!root.options().hidden && name.starts_with(b".")) {
            continue;
        }
        let kind = match kind(root, path, name, entry.file_type())? {
            Some(FileKind::Special) => {
                if listed.special.len() < LOGGED_MAX {
                    listed.special.push(name.to_vec());
                }
                continue;
            }
            None => continue,
            Some(kind) => kind,
        };
        let is_directory = kind == FileKind::Directory;
        if !is_readable(directory, entry.file_name(), is_directory) {
            listed.unreadable.push(name.to_vec());
        }
        length += name.len() + 1 + usize::from(is_directory);
        if length > LISTING_LEN_MAX {
            return Err(ListFailure::TooLong);
        }
        listed.entries.push(SourceEntry { file_name: name.to_vec(), is_directory, stat: None });
    }
    Ok(listed)
}

/// Whether this process may read an entry of a directory. Any other failure is left to the one who opens it.
fn is_readable(directory: &File, name: &CStr, is_directory: bool) -> bool {
    let rights = if is_directory { Access::READ_OK | Access::EXEC_OK } else { Access::READ_OK };
    !matches!(accessat(directory, name, rights, AtFlags::EACCESS), Err(Errno::ACCESS))
}

/// A listing of entries; `None` if it is too long.
pub(crate) fn encode_listing(mut entries: Vec<SourceEntry>) -> Option<Vec<u8>> {
    entries.sort_unstable_by(|one, other| {
        (&one.file_name, one.is_directory).cmp(&(&other.file_name, other.is_directory))
    });
    // The kernel returns an entry twice if it is renamed meanwhile; a bucket can have an object and a directory of one name.
    entries.dedup_by(|one, other| one.file_name == other.file_name);
    let mut listing = Vec::new();
    for entry in entries {
        listing.extend_from_slice(&entry.file_name);
        listing.extend_from_slice(if entry.is_directory { b"/\0" } else { b"\0" });
        if listing.len() > LISTING_LEN_MAX {
            return None;
        }
    }
    Some(listing)
}

/// The kind of an entry, or of the target of a link; `None` if that is not served.
///
/// # Errors
/// A transient error: a listing without the entry would tell clients to delete it.
fn kind(
    root: &Root,
    path: &Path,
    name: &[u8],
    kind: FileType,
) -> Result<Option<FileKind>, OpenFailure> {
    match kind {
        FileType::RegularFile => Ok(Some(FileKind::Regular)),
        FileType::Directory => Ok(Some(FileKind::Directory)),
        // The target of a link counts, if links may be followed.
        FileType::Symlink | FileType::Unknown => {
            of_target(root.stat(&path.join(OsStr::from_bytes(name))).map(|stat| stat.kind))
        }
        FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice => {
            Ok(Some(FileKind::Special))
        }
    }
}

fn of_target(found: Result<FileKind, OpenFailure>) -> Result<Option<FileKind>, OpenFailure> {
    match found {
        Ok(kind) => Ok(Some(kind)),
        Err(OpenFailure::Special) => Ok(Some(FileKind::Special)),
        Err(failure @ OpenFailure::Other(_)) => Err(failure),
        Err(
            OpenFailure::NotFound
            | OpenFailure::Outside
            | OpenFailure::Symlink
            | OpenFailure::Denied,
        ) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::RootOptions;

    #[test]
    fn listings_are_parsed() {
        let entry =
            |name: &str, is_directory| ListingEntry { file_name: name.into(), is_directory };
        let read = parse_listing(b"a/\0b c\0");
        assert_eq!(read, Some(vec![entry("a", true), entry("b c", false)]));
        assert_eq!(parse_listing(b""), Some(Vec::new()));
    }

    #[test]
    fn name_given_twice_invalidates_the_listing() {
        for listing in [&b"a\0a\0"[..], b"a/\0a\0", b"a\0b\0a/\0"] {
            assert_eq!(parse_listing(listing), None, "{}", String::from_utf8_lossy(listing));
        }
    }

    #[test]
    fn transient_error_fails_the_listing_instead_of_omitting_the_entry() {
        use rustix::io::Errno;
        for errno in [Errno::MFILE, Errno::NFILE, Errno::IO, Errno::NOMEM] {
            let failure = OpenFailure::from(errno);
            assert_eq!(of_target(Err(failure)), Err(failure), "{errno}");
        }
        assert_eq!(of_target(Err(Errno::NOENT.into())), Ok(None));
        assert_eq!(of_target(Err(OpenFailure::Special)), Ok(Some(FileKind::Special)));
        assert_eq!(of_target(Ok(FileKind::Directory)), Ok(Some(FileKind::Directory)));
    }

    #[test]
    fn special_files_and_links_to_them_are_not_listed() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let listed = || {
            let options = RootOptions { symlinks: true, ..RootOptions::default() };
            let root = Root::open(directory.path(), options).unwrap();
            read_directory(&root, Path::new("."), &File::open(directory.path()).unwrap()).unwrap()
        };
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        symlink("socket", path("link")).unwrap();
        symlink("/dev/null", path("outside")).unwrap();
        std::fs::write(path("file"), "").unwrap();
        let ListedEntries { entries, mut special, .. } = listed();
        special.sort_unstable();
        assert_eq!(special, [b"link".to_vec(), b"socket".to_vec()]);
        assert_eq!(encode_listing(entries).unwrap(), b"file\0");
        for number in 0..LOGGED_MAX {
            symlink("socket", path(&number.to_string())).unwrap();
        }
        assert_eq!(listed().special.len(), LOGGED_MAX);
    }

    #[test]
    fn entries_that_leave_the_directory_invalidate_the_listing() {
        for attack in [
            &b"../\0"[..],
            b"..\0",
            b".\0",
            b"./\0",
            b"/\0",
            b"\0",
            b"a\0\0b\0",
            b"/etc/passwd\0",
            b"a/b\0",
            b"../../etc/passwd\0",
            b"a//\0",
            b"no end",
        ] {
            assert_eq!(parse_listing(attack), None, "{}", String::from_utf8_lossy(attack));
        }
    }
}
