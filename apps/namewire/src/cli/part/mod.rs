//! A file that is not complete yet: it has a hidden name beside its own, and a sidecar in JSON tells
//! what is in it, so that an interrupted `get` can go on.
//!
//! Both are trusted only as far as they are the user's own: in a directory where others may write,
//! somebody could put them there. What is on the disk is checked against a digest, because a crash
//! may have left less than the sidecar says.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use ndn_packet::Name;
use ndn_security::{Sha256, sha256};
use serde::{Deserialize, Serialize};

use super::failure::{Failure, Outcome};

/// Bytes gathered before they are written to a file.
const WRITE_BUFFER_LEN: usize = 1 << 20;
/// Bytes after which the sidecar is written anew, for the case that the program is killed.
const CHECKPOINT_LEN: u64 = 256 << 20;
/// Longest file name that gets a hidden name with itself in it; file systems allow 255 bytes.
const FILE_NAME_LEN_MAX: usize = 220;

/// What the content is of: parts of something else are not gone on with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    /// Name of the object with its version.
    pub(super) name: String,
    /// How its segments are verified; see `keys::identity`.
    pub(super) verification: String,
}

/// What the sidecar says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    #[serde(flatten)]
    pub(super) origin: Origin,
    /// Content bytes of the first segment, which all others but the last have, too.
    pub(super) segment_len: u64,
    /// The segments before this one are there.
    pub(super) segments: u64,
    /// Content bytes of those.
    pub(super) bytes: u64,
    /// Digest of those.
    sha256: String,
}

/// The file under its hidden name, locked against other processes.
pub(super) struct PartFile {
    writer: BufWriter<File>,
    /// What will be its name.
    path: PathBuf,
    part: PathBuf,
    sidecar: PathBuf,
    /// `None`: cannot be gone on with.
    origin: Option<Origin>,
    segment_len: u64,
    segments: u64,
    bytes: u64,
    digest: Sha256,
    checkpoint: u64,
}

impl PartFile {
    /// Opens the part of `path`, or makes an empty one. What is in it stays until [`Self::begin`].
    pub(super) fn open(path: PathBuf) -> Outcome<Self> {
        let (part, sidecar) = hidden_names(&path)?;
        let file = open_locked(&part, &path)?;
        Ok(Self {
            writer: BufWriter::with_capacity(WRITE_BUFFER_LEN, file),
            path,
            part,
            sidecar,
            origin: None,
            segment_len: 0,
            segments: 0,
            bytes: 0,
            digest: Sha256::new(),
            checkpoint: 0,
        })
    }

    /// What an interrupted fetch of `origin` left here, if it is whole; the next bytes follow it.
    pub(super) fn resume(&mut self, origin: &Origin) -> Outcome<Option<Progress>> {
        let Some(progress) = read_sidecar(&self.sidecar) else {
            return Ok(None);
        };
        if progress.origin != *origin || progress.segments == 0 {
            return Ok(None);
        }
        let file = self.writer.get_mut();
        let digest = digest_of(file, progress.bytes).map_err(|error| self.error(&error))?;
        let Some(digest) = digest.filter(|digest| hex(digest.clone()) == progress.sha256) else {
            return Ok(None);
        };
        let file = self.writer.get_mut();
        let moved = file
            .set_len(progress.bytes)
            .and_then(|()| file.seek(io::SeekFrom::Start(progress.bytes)));
        moved.map_err(|error| self.error(&error))?;
        self.origin = Some(origin.clone());
        self.segment_len = progress.segment_len;
        self.segments = progress.segments;
        self.bytes = progress.bytes;
        self.checkpoint = progress.bytes;
        self.digest = digest;
        Ok(Some(progress))
    }

    /// The first `length` bytes of what is there.
    pub(super) fn head(&mut self, length: usize) -> Outcome<Vec<u8>> {
        let mut head = vec![0; length];
        let file = self.writer.get_ref();
        std::os::unix::fs::FileExt::read_exact_at(file, &mut head, 0)
            .map_err(|error| self.error(&error))?;
        Ok(head)
    }

    /// Starts with nothing. With an `origin` the fetch can be gone on with after an interruption.
    pub(super) fn begin(&mut self, origin: Option<Origin>) -> Outcome {
        let _ = fs::remove_file(&self.sidecar);
        let file = self.writer.get_mut();
        let emptied = file.set_len(0).and_then(|()| file.rewind());
        emptied.map_err(|error| self.error(&error))?;
        self.origin = origin;
        (self.segment_len, self.segments, self.bytes, self.checkpoint) = (0, 0, 0, 0);
        self.digest = Sha256::new();
        Ok(())
    }

    /// Appends the content of the next segment.
    pub(super) fn write_segment(&mut self, content: &[u8]) -> Outcome {
        self.writer.write_all(content).map_err(|error| self.error(&error))?;
        if self.origin.is_none() {
            return Ok(());
        }
        let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
        if self.segments == 0 {
            self.segment_len = length;
        }
        self.segments += 1;
        self.bytes += length;
        self.digest.update(content);
        if self.bytes - self.checkpoint >= CHECKPOINT_LEN {
            self.checkpoint = self.bytes;
            self.write_progress().map_err(|error| self.error(&error))?;
        }
        Ok(())
    }

    /// Refuses `name` if the file that is there is a newer version of the same object: who can replay
    /// old packets must not be able to bring an old version back.
    pub(super) fn refuse_older(&self, name: &Name) -> Outcome {
        let Some(there) = version::read(&self.path) else {
            return Ok(());
        };
        let version = |name: &Name| name.as_ref().last().and_then(|last| last.as_version());
        if there.as_ref().parent() == name.as_ref().parent() && version(name) < version(&there) {
            return Err(Failure::Unverified(format!(
                "{}: {name} is older than {there}, which is there already (--allow-older takes it)",
                self.path.display()
            )));
        }
        Ok(())
    }

    /// Gives the file its name, and the mode and the owner of the file that had it before.
    pub(super) fn complete(mut self) -> Outcome {
        let completed = self.writer.flush().and_then(|()| {
            if let Ok(before) = fs::metadata(&self.path) {
                take_after(self.writer.get_ref(), &before)?;
            }
            if let Some(origin) = &self.origin {
                version::write(self.writer.get_ref(), &origin.name);
            }
            fs::rename(&self.part, &self.path)
        });
        let _ = fs::remove_file(&self.sidecar);
        completed.map_err(|error| {
            // The error that matters is the first one.
            let _ = fs::remove_file(&self.part);
            self.error(&error)
        })
    }

    /// Leaves what a later fetch can go on with; says how many bytes, and nothing if there is none.
    pub(super) fn keep(mut self) -> Option<u64> {
        if self.origin.is_some() && self.segments > 0 && self.write_progress().is_ok() {
            return Some(self.bytes);
        }
        self.discard();
        None
    }

    /// Leaves nothing behind.
    pub(super) fn discard(self) {
        let _ = fs::remove_file(&self.sidecar);
        let _ = fs::remove_file(&self.part);
    }

    fn write_progress(&mut self) -> io::Result<()> {
        let Some(origin) = &self.origin else {
            return Ok(());
        };
        self.writer.flush()?;
        let progress = Progress {
            origin: origin.clone(),
            segment_len: self.segment_len,
            segments: self.segments,
            bytes: self.bytes,
            sha256: hex(self.digest.clone()),
        };
        // A new file: writing to one that exists would follow a link.
        let _ = fs::remove_file(&self.sidecar);
        let file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.sidecar)?;
        Ok(serde_json::to_writer_pretty(file, &progress)?)
    }

    fn error(&self, error: &io::Error) -> Failure {
        Failure::file(self.path.display(), error)
    }
}

/// The hidden names of the part and of the sidecar of `path`.
fn hidden_names(path: &Path) -> Outcome<(PathBuf, PathBuf)> {
    let file_name = path
        .file_name()
        .ok_or_else(|| Failure::Usage(format!("{} is not the name of a file", path.display())))?;
    let mut hidden = std::ffi::OsString::from(".");
    if file_name.len() > FILE_NAME_LEN_MAX {
        let mut digest = Sha256::new();
        digest.update(file_name.as_bytes());
        hidden.push(hex(digest));
    } else {
        hidden.push(file_name);
    }
    hidden.push(".part");
    let part = path.with_file_name(&hidden);
    hidden.push(".json");
    Ok((part, path.with_file_name(hidden)))
}

/// Opens the part, which must be the user's own, and locks it.
fn open_locked(part: &Path, path: &Path) -> Outcome<File> {
    let failed = |error: io::Error| Failure::file(part.display(), &error);
    let mode = fs::metadata(path).map_or(0o666, |metadata| metadata.mode() & 0o666);
    // Who held the lock before may just have given the file its final name.
    for _ in 0..16 {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(mode)
            .custom_flags(no_follow())
            .open(part)
            .map_err(|error| cannot_be_made(path, &error))?;
        check_own(&file).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let busy = format!("{}: another fetch is writing this file", path.display());
                return Err(Failure::Failed(busy));
            }
            // A file system without locks.
            Err(fs::TryLockError::Error(_)) => {}
        }
        let opened = file.metadata().map_err(failed)?;
        let same = |found: fs::Metadata| (found.dev(), found.ino()) == (opened.dev(), opened.ino());
        if fs::symlink_metadata(part).is_ok_and(same) {
            return Ok(file);
        }
    }
    Err(Failure::Failed(format!("{}: somebody else keeps replacing it", part.display())))
}

/// Why there can be no file at `path`, in terms of its directory.
fn cannot_be_made(path: &Path, error: &io::Error) -> Failure {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent.display().to_string(),
        _ => "the current directory".to_owned(),
    };
    let reason = if error.kind() == io::ErrorKind::NotFound {
        format!("there is no directory {directory}")
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        format!("no permission to make files in {directory}")
    } else {
        error.to_string()
    };
    Failure::Failed(format!("{}: {reason}", path.display()))
}

fn no_follow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default()
}

/// Refuses a file that somebody else may have put there.
fn check_own(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    let own = metadata.is_file()
        && metadata.nlink() == 1
        && metadata.uid() == rustix::process::geteuid().as_raw();
    if own {
        return Ok(());
    }
    let reason = "it is in the way and is not a part that you have left here";
    Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
}

fn read_sidecar(path: &Path) -> Option<Progress> {
    let mut file = OpenOptions::new().read(true).custom_flags(no_follow()).open(path).ok()?;
    check_own(&file).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Digest of the first `length` bytes; `None` if there are less.
fn digest_of(file: &mut File, length: u64) -> io::Result<Option<Sha256>> {
    file.rewind()?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; WRITE_BUFFER_LEN];
    let mut rest = length;
    while rest > 0 {
        let wanted = usize::try_from(rest).unwrap_or(usize::MAX).min(buffer.len());
        let count = file.read(&mut buffer[..wanted])?;
        if count == 0 {
            return Ok(None);
        }
        digest.update(&buffer[..count]);
        rest -= u64::try_from(count).unwrap_or(rest);
    }
    Ok(Some(digest))
}

/// Gives `file` the mode of another, and its owner where that is allowed.
fn take_after(file: &File, before: &fs::Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
        let _ = fchown(file, Some(before.uid()), Some(before.gid()));
    }
    file.set_permissions(Permissions::from_mode(before.mode() & 0o7777))
}

fn hex(digest: Sha256) -> String {
    digest.finish().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What identifies a key in a sidecar, without giving a shared one away.
pub(super) fn fingerprint(key: &[u8]) -> String {
    sha256(key).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Which version a file is: kept beside it by file systems that have extended attributes.
mod version {
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
}

#[cfg(test)]
mod tests;
