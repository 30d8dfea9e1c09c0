//! A file that is not complete yet: it has a hidden name in the same directory, and a sidecar in
//! JSON with its state, so that an interrupted fetch can be resumed.
//!
//! Both are trusted only if they belong to the user: in a shared directory, others could create
//! them. The content on disk is verified with a checksum, because a crash may have left less than
//! the sidecar states.

mod error;
mod files;
pub(super) mod progress;
mod version;

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ndn_client::ReceivedData;
use ndn_client::fetch::Verification;
use ndn_packet::Name;

pub use self::error::PartError;
pub use self::files::is_reserved_name;
use self::files::{SIDECAR_MODE, hidden_names, open_locked, read_sidecar, take_after};
pub(in crate::download) use self::progress::Stored;
pub use self::progress::{EarlierFetch, Extent, Origin, Progress, Unusable};
pub use self::version::{has_changed, is_unchanged, newer_version, record};
use super::checksum::{Chain, xxh64};
use super::recheck::check;
use crate::metadata::FileMetadata;

/// Bytes buffered before they are written to a file.
const WRITE_BUFFER_LEN: usize = 1 << 20;
/// Bytes after which the sidecar is rewritten, in case the program is killed: this many at first,
/// then as many as have been written, and at most this many.
const CHECKPOINT_LEN: (u64, u64) = (128 << 10, 16 << 20);

/// A segment has another length than those before: the position of its content is unknown until all
/// others have been received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Irregular;

/// The file under its hidden name, locked against other processes.
#[derive(Debug)]
pub struct PartFile {
    file: Arc<File>,
    /// For contents received in order.
    writer: BufWriter<Arc<File>>,
    /// Its final name.
    path: PathBuf,
    part: PathBuf,
    sidecar: PathBuf,
    /// Whether the content belongs to this fetch; until then it belongs to an earlier one, and is
    /// kept.
    begun: bool,
    /// The part was created by this fetch and is empty.
    is_new: bool,
    /// A sidecar may exist.
    has_sidecar: bool,
    durable: bool,
    /// Of the complete file; `None` keeps those of an existing one.
    attributes: Option<Attributes>,
    /// `None`: cannot be resumed.
    origin: Option<Origin>,
    /// The part of the object to fetch, if not all.
    extent: Option<Extent>,
    segment_len: u64,
    segments: u64,
    bytes: u64,
    /// Checksum of the content, if all segments have checksums.
    chain: Option<Chain>,
    /// State of the segments from `segments` on.
    ahead: VecDeque<Option<Stored>>,
    checkpoint: u64,
}

/// Attributes of a file or directory that is a copy of one of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits.
    permissions: u32,
    modified: Option<SystemTime>,
}

impl Attributes {
    /// Those of `metadata`. The owner can always read and write; there are no set-user-ID, set-group-ID and sticky bits.
    #[must_use]
    pub fn of(metadata: &FileMetadata) -> Self {
        // Nine bits.
        let bits = u32::try_from(metadata.mode & 0o777).unwrap_or(0);
        let owner = if metadata.is_directory() { 0o700 } else { 0o600 };
        let modified = metadata.mtime_ns.map(Duration::from_nanos);
        Self {
            permissions: bits | owner,
            modified: modified.and_then(|time| SystemTime::UNIX_EPOCH.checked_add(time)),
        }
    }

    /// The permission bits, for mkdir(2), which applies the user's umask.
    #[must_use]
    pub fn permissions(&self) -> u32 {
        self.permissions
    }

    /// Sets the time of an open file or directory.
    ///
    /// # Errors
    /// The file system refuses it.
    pub fn set_time(&self, file: &File) -> io::Result<()> {
        self.modified.map_or(Ok(()), |modified| file.set_modified(modified))
    }

    /// The permission bits that a user with this umask gives a copy; the owner can always read and write.
    #[must_use]
    pub fn permissions_within(&self, umask: u32) -> u32 {
        self.permissions & (!umask | 0o600)
    }

    /// The time of modification, if known.
    #[must_use]
    pub fn modified(&self) -> Option<SystemTime> {
        self.modified
    }

    /// Sets the permissions of a new file, which was created with all permissions to read and write that the user's
    /// umask allows: others who may not read it may not execute it either.
    fn set_permissions(&self, file: &File) -> io::Result<()> {
        let created = file.metadata()?.permissions().mode() & 0o666;
        let allowed = created | ((created & 0o444) >> 2);
        file.set_permissions(fs::Permissions::from_mode(self.permissions & allowed))
    }
}

impl PartFile {
    /// Opens the part of `path`, or creates an empty one. Its content is kept until
    /// [`Self::begin`].
    ///
    /// # Errors
    /// All but `DiskFull` and `Older`.
    pub fn open(path: PathBuf) -> Result<Self, PartError> {
        if path.file_name().is_some_and(|name| is_reserved_name(name.as_bytes())) {
            return Err(PartError::Reserved(path));
        }
        let (part, sidecar) = hidden_names(&path)?;
        let (file, is_new) = open_locked(&part, &path)?;
        let file = Arc::new(file);
        Ok(Self {
            writer: BufWriter::with_capacity(WRITE_BUFFER_LEN, Arc::clone(&file)),
            file,
            path,
            part,
            sidecar,
            begun: false,
            is_new,
            has_sidecar: true,
            durable: true,
            attributes: None,
            origin: None,
            extent: None,
            segment_len: 0,
            segments: 0,
            bytes: 0,
            chain: Some(Chain::default()),
            ahead: VecDeque::new(),
            checkpoint: 0,
        })
    }

    /// The name of the complete file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name until it is complete; that of the sidecar has `.json` after it.
    #[must_use]
    pub fn part_path(&self) -> &Path {
        &self.part
    }

    /// Bytes on disk that the part of `path` takes, or that are reserved for it; 0 if there is none.
    #[must_use]
    pub fn space_of_part(path: &Path) -> u64 {
        let Ok((part, _)) = hidden_names(path) else { return 0 };
        // In blocks of 512 bytes, whatever the file system has.
        fs::symlink_metadata(part).map_or(0, |part| part.blocks().saturating_mul(512))
    }

    /// Leaves it to the system when the content is written to disk: faster, but after a power
    /// failure the file may be incomplete.
    pub fn set_durable(&mut self, durable: bool) {
        self.durable = durable;
    }

    /// Gives the complete file these attributes, instead of those of an existing one.
    pub fn set_attributes(&mut self, attributes: Attributes) {
        self.attributes = Some(attributes);
    }

    /// Fetches only these bytes of the object: segments are counted from the one with the first of
    /// them, and [`Self::write_segment`] takes the bytes within.
    pub fn set_extent(&mut self, extent: Extent) {
        self.extent = Some(extent);
    }

    /// Returns the state that an interrupted fetch of `origin` left here, if it is consistent: see [`Self::resume`].
    #[must_use]
    pub fn earlier_fetch(&self, origin: &Origin) -> EarlierFetch {
        if self.is_new {
            return EarlierFetch::Nothing;
        }
        let Some(progress) = read_sidecar(&self.sidecar).filter(|left| left.segments > 0) else {
            // A fetch killed before the first checkpoint has left a file without state.
            let is_empty = self.begun || self.file.metadata().is_ok_and(|file| file.len() == 0);
            return if is_empty { EarlierFetch::Nothing } else { EarlierFetch::WithoutSidecar };
        };
        if progress.origin.name != origin.name {
            return EarlierFetch::Unusable { progress, reason: Unusable::OfAnother };
        }
        if progress.extent != self.extent {
            return EarlierFetch::Unusable { progress, reason: Unusable::OtherExtent };
        }
        if progress.origin != *origin {
            return EarlierFetch::Unusable { progress, reason: Unusable::OtherVerification };
        }
        EarlierFetch::Resumable(progress)
    }

    /// Resumes an interrupted fetch of `origin`, as far as its content is valid. The content is
    /// verified by checksum, or against the digests that `verification` knows of packets like
    /// `segment`, one of the object. Blocks until all of it has been read.
    ///
    /// # Errors
    /// `Io`.
    pub fn resume(
        &mut self,
        origin: &Origin,
        segment: Option<&ReceivedData>,
        verification: &Verification,
    ) -> Result<EarlierFetch, PartError> {
        let progress = match self.earlier_fetch(origin) {
            EarlierFetch::Resumable(progress) => progress,
            other @ (EarlierFetch::Nothing
            | EarlierFetch::WithoutSidecar
            | EarlierFetch::Unusable { .. }) => {
                return Ok(other);
            }
        };
        let checked = check(&self.file, &progress, segment, verification);
        let Some((chain, progress)) = checked.map_err(|error| self.error(error))? else {
            return Ok(EarlierFetch::Unusable { progress, reason: Unusable::Damaged });
        };
        self.begun = true;
        self.file.set_len(progress.bytes).map_err(|error| self.error(error))?;
        self.origin = Some(origin.clone());
        self.segment_len = progress.segment_len;
        self.segments = progress.segments;
        self.bytes = progress.bytes;
        self.checkpoint = progress.bytes;
        self.chain = chain;
        self.ahead.clear();
        Ok(EarlierFetch::Resumable(progress))
    }

    /// The first `length` bytes of the content.
    ///
    /// # Errors
    /// `Io`.
    pub fn head(&self, length: usize) -> Result<Vec<u8>, PartError> {
        let mut head = vec![0; length];
        self.file.read_exact_at(&mut head, 0).map_err(|error| self.error(error))?;
        Ok(head)
    }

    /// Starts with an empty file. With an `origin`, the fetch can be resumed after an interruption.
    ///
    /// # Errors
    /// `Io`.
    pub fn begin(&mut self, origin: Option<Origin>) -> Result<(), PartError> {
        self.begun = true;
        self.remove_sidecar();
        if !std::mem::take(&mut self.is_new) {
            let emptied = self.file.set_len(0).and_then(|()| (&*self.file).rewind());
            emptied.map_err(|error| self.error(error))?;
        }
        self.origin = origin;
        (self.segment_len, self.segments, self.bytes, self.checkpoint) = (0, 0, 0, 0);
        self.chain = Some(Chain::default());
        self.ahead.clear();
        Ok(())
    }

    /// Reserves room for `size` bytes, so that a lack of space is reported at the beginning of a
    /// long fetch.
    ///
    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn reserve(&self, size: u64) -> Result<(), PartError> {
        let needed = size.saturating_sub(self.bytes);
        let is_long = needed >= WRITE_BUFFER_LEN as u64;
        if is_long && let Ok(system) = rustix::fs::fstatvfs(&*self.file) {
            let free = system.f_bavail.saturating_mul(system.f_frsize);
            if free < needed {
                return Err(PartError::DiskFull { path: self.path.clone(), needed, free });
            }
        }
        // Zeros at the end are not written.
        self.file.set_len(size).map_err(|error| self.error(error))?;
        // Where memory is the disk, allocating pages is all the work.
        if !is_long || self.is_in_memory() {
            return Ok(());
        }
        match allocate(&self.file, self.bytes, needed) {
            Err(error) if error == rustix::io::Errno::NOSPC => Err(self.error(error.into())),
            // Not all file systems support it.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    #[cfg(target_os = "linux")]
    fn is_in_memory(&self) -> bool {
        rustix::fs::fstatfs(&*self.file).is_ok_and(|system| system.f_type == TMPFS)
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "as on Linux")]
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Whether [`Self::complete`] waits for a disk.
    #[must_use]
    pub fn waits_for_disk(&self) -> bool {
        self.durable && !self.is_in_memory()
    }

    /// Appends content, after [`Self::begin`] without an origin: for content that arrives in order
    /// and need not be resumed.
    ///
    /// # Errors
    /// `Io`.
    pub fn append(&mut self, content: &[u8]) -> Result<(), PartError> {
        self.writer.write_all(content).map_err(|error| PartError::io(&self.path, error))?;
        self.bytes += u64::try_from(content.len()).unwrap_or(0);
        Ok(())
    }

    /// Writes the content of a segment to its position, without threads. The first segment,
    /// [`Self::set_segment_len`] or [`Self::resume`] determines the segment length.
    ///
    /// # Errors
    /// `Io`, also for a segment after a shorter one.
    pub fn write_segment(&mut self, segment: u64, content: &[u8]) -> Result<(), PartError> {
        let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
        if self.segment_len == 0 {
            self.segment_len = length.max(1);
        }
        let offset = segment.saturating_mul(self.segment_len).saturating_sub(self.skipped());
        self.file.write_all_at(content, offset).map_err(|error| self.error(error))?;
        match self.note(Stored { segment, length, checksum: Some(xxh64(content, 0)) }) {
            Err(NoteError::Irregular(_)) => Err(self.error(io::ErrorKind::InvalidInput.into())),
            Err(NoteError::Part(error)) => Err(error),
            Ok(()) => Ok(()),
        }
    }

    /// The file, to write segments at their positions.
    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub(super) fn write_error(&self, error: io::Error) -> PartError {
        self.error(error)
    }

    /// Content bytes of each segment but the last; zero while unknown.
    pub(super) fn segment_len(&self) -> u64 {
        self.segment_len
    }

    /// Sets the content length of each segment but the last.
    pub fn set_segment_len(&mut self, length: u64) {
        self.segment_len = length;
    }

    /// Bytes of the first segment before the extent.
    fn skipped(&self) -> u64 {
        let first = self.extent.map_or(0, |extent| extent.first);
        first.checked_rem(self.segment_len).unwrap_or(0)
    }

    /// First missing segment.
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.segments
    }

    /// Bytes before that segment.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records a segment that was written to its position.
    pub(super) fn note(&mut self, stored: Stored) -> Result<(), NoteError> {
        let Some(index) = stored.segment.checked_sub(self.segments) else {
            return Ok(());
        };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if self.ahead.len() <= index {
            self.ahead.resize(index.saturating_add(1), None);
        }
        self.ahead[index] = Some(stored);
        while let Some(&Some(stored)) = self.ahead.front() {
            let before = self.segments.saturating_mul(self.segment_len);
            if self.bytes != before.saturating_sub(self.skipped()) {
                // A segment follows one that is shorter.
                return Err(NoteError::Irregular(Irregular));
            }
            self.ahead.pop_front();
            self.segments += 1;
            self.bytes += stored.length;
            self.chain = self.chain.zip(stored.checksum).map(|(mut chain, checksum)| {
                chain.push(checksum);
                chain
            });
        }
        let (least, most) = CHECKPOINT_LEN;
        if self.bytes - self.checkpoint >= self.checkpoint.clamp(least, most) {
            self.checkpoint = self.bytes;
            self.write_progress().map_err(|error| NoteError::Part(self.error(error)))?;
        }
        Ok(())
    }

    /// Rejects `name` if the existing file is a newer version of the same object: an attacker who
    /// replays old packets must not be able to restore an old version.
    ///
    /// # Errors
    /// `Older`.
    pub fn refuse_older(&self, name: &Name) -> Result<(), PartError> {
        let Some(there) = version::read(&self.path) else {
            return Ok(());
        };
        if version::is_older(name, &there) {
            let (name, there) = (name.to_uri(), there.to_uri());
            return Err(PartError::Older { path: self.path.clone(), name, there });
        }
        Ok(())
    }

    /// Renames the file to its final name, with the mode and the owner of the file that it
    /// replaces. Its content is on disk then, unless disabled by [`Self::set_durable`].
    ///
    /// Returns whether it has the attributes of [`Self::set_attributes`]: not all file systems support them.
    ///
    /// # Errors
    /// `Io`; then nothing is left.
    pub fn complete(mut self) -> Result<bool, PartError> {
        let completed = self.writer.flush().and_then(|()| {
            // More may have been reserved.
            self.file.set_len(self.bytes)?;
            // A link or special file is replaced, and nothing of it is kept.
            let before = fs::symlink_metadata(&self.path).ok().filter(fs::Metadata::is_file);
            let is_new = before.is_none();
            if let Some(before) = before {
                take_after(&self.file, &before)?;
            }
            let has_attributes = self.attributes.is_none_or(|attributes| {
                let permitted = !is_new || attributes.set_permissions(&self.file).is_ok();
                attributes.set_time(&self.file).is_ok() && permitted
            });
            // A part of an object is not a version of it.
            if let (Some(origin), None) = (&self.origin, self.extent) {
                record(&self.file, origin);
            }
            // Otherwise a file system may give the name to an empty file if the power fails.
            if self.durable {
                self.file.sync_data()?;
            }
            fs::rename(&self.part, &self.path)?;
            Ok(has_attributes)
        });
        self.remove_sidecar();
        completed.map_err(|error| {
            // The first error is the relevant one.
            let _ = fs::remove_file(&self.part);
            self.error(error)
        })
    }

    /// Keeps the state for a later fetch; returns the number of bytes kept, `None` if there are
    /// none. That may be the state of an earlier fetch, if this one has not reached
    /// [`Self::begin`].
    pub fn keep(mut self) -> Option<u64> {
        if !self.begun {
            let left = if self.is_new { None } else { read_sidecar(&self.sidecar) };
            let left = left.filter(|left| left.segments > 0);
            if left.is_none() {
                self.discard();
            }
            return left.map(|left| left.bytes);
        }
        let kept = self.origin.is_some()
            && self.segments > 0
            // Segments ahead are fetched again.
            && self.file.set_len(self.bytes).is_ok()
            && self.write_progress().is_ok();
        if kept {
            return Some(self.bytes);
        }
        self.discard();
        None
    }

    /// Removes the part and its sidecar.
    pub fn discard(mut self) {
        self.remove_sidecar();
        let _ = fs::remove_file(&self.part);
    }

    fn remove_sidecar(&mut self) {
        if std::mem::take(&mut self.has_sidecar) {
            let _ = fs::remove_file(&self.sidecar);
        }
    }

    fn write_progress(&mut self) -> io::Result<()> {
        let Some(origin) = &self.origin else {
            return Ok(());
        };
        let progress = Progress {
            origin: origin.clone(),
            extent: self.extent,
            segment_len: self.segment_len,
            segments: self.segments,
            bytes: self.bytes,
            xxh64: self.chain.map(Chain::to_hex),
        };
        self.has_sidecar = true;
        // A new file: writing to an existing one would follow a link. It replaces the previous one
        // atomically.
        let mut new = self.sidecar.clone().into_os_string();
        new.push(".new");
        let _ = fs::remove_file(&new);
        let file = OpenOptions::new().write(true).create_new(true).mode(SIDECAR_MODE).open(&new)?;
        let written = serde_json::to_writer_pretty(file, &progress).map_err(io::Error::from);
        let written = written.and_then(|()| fs::rename(&new, &self.sidecar));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }

    fn error(&self, error: io::Error) -> PartError {
        PartError::io(&self.path, error)
    }
}

/// Reserves room on the disk beyond the end of a file.
#[cfg(target_os = "linux")]
fn allocate(file: &File, offset: u64, length: u64) -> rustix::io::Result<()> {
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, offset, length)
}

/// Other systems than Linux report a full disk when it is written to.
#[cfg(not(target_os = "linux"))]
fn allocate(_: &File, _: u64, _: u64) -> rustix::io::Result<()> {
    Ok(())
}

/// File system types in memory, as reported by `statfs`.
#[cfg(target_os = "linux")]
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// Why a segment cannot be recorded.
#[derive(Debug)]
pub(super) enum NoteError {
    Irregular(Irregular),
    Part(PartError),
}

#[cfg(test)]
mod tests;
