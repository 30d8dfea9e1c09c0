//! The files of a part: hidden names, locks, ownership.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use ndn_security::sha256;

use super::error::PartError;
use super::progress::Progress;

/// Longest file name that is part of its hidden name; file systems allow 255 bytes.
const FILE_NAME_LEN_MAX: usize = 215;

/// Maximum length of a sidecar: it contains a name, and little more.
const SIDECAR_LEN_MAX: u64 = 1 << 20;
/// Mode of sidecars.
pub(super) const SIDECAR_MODE: u32 = 0o600;

/// The hidden names of the part and of the sidecar of `path`.
pub(super) fn hidden_names(path: &Path) -> Result<(PathBuf, PathBuf), PartError> {
    let file_name = path.file_name().ok_or_else(|| PartError::NoFileName(path.to_owned()))?;
    let mut hidden = std::ffi::OsString::from(".");
    if file_name.len() > FILE_NAME_LEN_MAX {
        hidden.push(hex(&sha256(file_name.as_bytes())));
    } else {
        hidden.push(file_name);
    }
    hidden.push(".part");
    let part = path.with_file_name(&hidden);
    hidden.push(".json");
    Ok((part, path.with_file_name(hidden)))
}

/// Whether a file of this name could be taken for the part or sidecar of another file: names chosen
/// by others must not be written there.
///
/// Covers more than the names in use, for file systems that fold names or drop dots and spaces at
/// the end.
#[must_use]
pub fn is_reserved_name(file_name: &[u8]) -> bool {
    const PART: &[u8] = b".part";
    let end =
        file_name.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |at| at + 1);
    let file_name = file_name[..end].to_ascii_lowercase();
    let inside = |name: &[u8]| name.windows(PART.len() + 1).any(|bytes| bytes == b".part.");
    file_name.starts_with(b".") && (file_name.ends_with(PART) || inside(&file_name))
}

/// Opens the part, which must belong to the user, and locks it. Returns whether it is new.
pub(super) fn open_locked(part: &Path, path: &Path) -> Result<(File, bool), PartError> {
    let failed = |error: io::Error| PartError::io(part, error);
    let before = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
    let mode = before.map_or(0o666, |metadata| metadata.mode() & 0o666);
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(mode).custom_flags(no_follow());
    // The previous holder of the lock may just have renamed the file.
    for _ in 0..16 {
        let (file, is_new) = match options.clone().create_new(true).open(part) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let opened = options.clone().create(true).truncate(false).open(part);
                (opened.map_err(|error| cannot_be_made(path, &error))?, false)
            }
            Err(error) => return Err(cannot_be_made(path, &error)),
        };
        let own = || -> io::Result<_> {
            let metadata = file.metadata()?;
            check_own(&metadata).map(|()| metadata)
        };
        // A file of another user is not even locked.
        let before = (!is_new).then(own).transpose().map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(PartError::Busy(path.to_owned()));
            }
            // A file system without locks.
            Err(fs::TryLockError::Error(_)) => {}
        }
        let opened = before.map_or_else(own, Ok).map_err(failed)?;
        let same = |found: fs::Metadata| (found.dev(), found.ino()) == (opened.dev(), opened.ino());
        if fs::symlink_metadata(part).is_ok_and(same) {
            // Another fetch may have written to it before it was locked.
            return Ok((file, is_new && opened.len() == 0));
        }
    }
    Err(PartError::Replaced(part.to_owned()))
}

/// Why no file can be created at `path`, in terms of its directory.
fn cannot_be_made(path: &Path, error: &io::Error) -> PartError {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent.display().to_string(),
        _ => "the current directory".to_owned(),
    };
    let exists = path.parent().is_some_and(Path::is_dir);
    let reason = if error.kind() == io::ErrorKind::NotFound && exists {
        // Such as /proc.
        format!("no files can be made in {directory}")
    } else if error.kind() == io::ErrorKind::NotFound {
        format!("there is no directory {directory}")
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        format!("no permission to make files in {directory}")
    } else {
        error.to_string()
    };
    PartError::CannotBeMade { path: path.to_owned(), reason }
}

/// Neither follows a link nor waits for the other end of a pipe.
fn no_follow() -> i32 {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    i32::try_from(flags.bits()).unwrap_or_default()
}

/// Rejects a file that another user may have created.
fn check_own(metadata: &fs::Metadata) -> io::Result<()> {
    let own = metadata.is_file()
        && metadata.nlink() == 1
        && metadata.uid() == rustix::process::geteuid().as_raw();
    if own {
        return Ok(());
    }
    let reason = "it is in the way and is not a part that you have left here";
    Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
}

/// The content of the sidecar, if no other user can have written it. Other files of this user
/// (copies, fetched files) rarely have a mode as narrow as that of sidecars.
pub(super) fn read_sidecar(path: &Path) -> Option<Progress> {
    let file = OpenOptions::new().read(true).custom_flags(no_follow()).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    check_own(&metadata).ok()?;
    if metadata.mode() & !SIDECAR_MODE & 0o777 != 0 {
        return None;
    }
    let mut text = String::new();
    file.take(SIDECAR_LEN_MAX).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Gives `file` the mode of another file, and its owner where permitted.
pub(super) fn take_after(file: &File, before: &fs::Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
        let _ = fchown(file, Some(before.uid()), Some(before.gid()));
    }
    file.set_permissions(Permissions::from_mode(before.mode() & 0o7777))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
