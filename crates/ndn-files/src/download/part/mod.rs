//! A file that is not complete yet: it has a hidden name beside its own, and a sidecar in JSON tells
//! what is in it, so that an interrupted fetch can go on.
//!
//! Both are trusted only as far as they are the user's own: in a directory where others may write,
//! somebody could put them there. What is on the disk is checked against a checksum, because a crash
//! may have left less than the sidecar says.

mod error;
mod files;
mod progress;
mod version;

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

use ndn_client::ReceivedData;
use ndn_client::fetch::Verification;
use ndn_packet::Name;
use rustix::fs::FallocateFlags;

pub use self::error::PartError;
pub use self::files::is_reserved_name;
use self::files::{SIDECAR_MODE, hidden_names, open_locked, read_sidecar, take_after};
pub(in crate::download) use self::progress::Stored;
use self::progress::check;
pub use self::progress::{Extent, Left, Origin, Progress, Unusable};
pub use self::version::is_unchanged;
use super::checksum::{Chain, xxh64};

/// Bytes gathered before they are written to a file.
const WRITE_BUFFER_LEN: usize = 1 << 20;
/// Bytes after which the sidecar is written anew, for the case that the program is killed: so many at first,
/// then as many as there are, and so many at most.
const CHECKPOINT_LEN: (u64, u64) = (128 << 10, 16 << 20);

/// A segment has another length than those before: where its content belongs is not known before all
/// others are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Irregular;

/// The file under its hidden name, locked against other processes.
#[derive(Debug)]
pub struct PartFile {
    file: Arc<File>,
    /// For contents that come in order.
    writer: BufWriter<Arc<File>>,
    /// What will be its name.
    path: PathBuf,
    part: PathBuf,
    sidecar: PathBuf,
    /// Whether what is there is of this fetch: until then it is of an earlier one, and stays.
    begun: bool,
    /// There was none before, and nothing is in it yet.
    is_new: bool,
    /// There may be a sidecar.
    has_sidecar: bool,
    durable: bool,
    /// `None`: cannot be gone on with.
    origin: Option<Origin>,
    /// What is fetched, if not all.
    extent: Option<Extent>,
    segment_len: u64,
    segments: u64,
    bytes: u64,
    /// Of what is there, if all of it has checksums.
    chain: Option<Chain>,
    /// What is there of the segments from `segments` on.
    ahead: VecDeque<Option<Stored>>,
    checkpoint: u64,
}

impl PartFile {
    /// Opens the part of `path`, or makes an empty one. What is in it stays until [`Self::begin`].
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

    /// Leaves it to the system when the content is written to the disk: quicker, and after a power
    /// failure there may be less under the final name than there was.
    pub fn set_durable(&mut self, durable: bool) {
        self.durable = durable;
    }

    /// Only these bytes of the object are fetched: segments are counted from the one that has the first of
    /// them, and [`Self::write_segment`] takes what is within.
    pub fn set_extent(&mut self, extent: Extent) {
        self.extent = Some(extent);
    }

    /// What an interrupted fetch of `origin` left here, if what is told of it fits: see
    /// [`Self::resume`].
    #[must_use]
    pub fn left(&self, origin: &Origin) -> Left {
        if self.is_new {
            return Left::Nothing;
        }
        let Some(progress) = read_sidecar(&self.sidecar).filter(|left| left.segments > 0) else {
            // Whoever was killed before the first checkpoint has left a file that nothing tells of.
            let is_empty = self.begun || self.file.metadata().is_ok_and(|file| file.len() == 0);
            return if is_empty { Left::Nothing } else { Left::Untold };
        };
        if progress.origin.name != origin.name {
            return Left::Unusable { progress, reason: Unusable::OfAnother };
        }
        if progress.extent != self.extent {
            return Left::Unusable { progress, reason: Unusable::OtherExtent };
        }
        if progress.origin != *origin {
            return Left::Unusable { progress, reason: Unusable::OtherVerification };
        }
        Left::GoesOn(progress)
    }

    /// Goes on with what an interrupted fetch of `origin` left here, as far as it is whole. It is checked
    /// by checksum, or against the digests that `verification` knows of packets like `segment`, one of
    /// the object. Blocks until it has read all of it.
    ///
    /// # Errors
    /// `Io`.
    pub fn resume(
        &mut self,
        origin: &Origin,
        segment: Option<&ReceivedData>,
        verification: &Verification,
    ) -> Result<Left, PartError> {
        let progress = match self.left(origin) {
            Left::GoesOn(progress) => progress,
            other @ (Left::Nothing | Left::Untold | Left::Unusable { .. }) => return Ok(other),
        };
        let checked = check(&self.file, &progress, segment, verification);
        let Some((chain, progress)) = checked.map_err(|error| self.error(error))? else {
            return Ok(Left::Unusable { progress, reason: Unusable::Damaged });
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
        Ok(Left::GoesOn(progress))
    }

    /// The first `length` bytes of what is there.
    ///
    /// # Errors
    /// `Io`.
    pub fn head(&self, length: usize) -> Result<Vec<u8>, PartError> {
        let mut head = vec![0; length];
        self.file.read_exact_at(&mut head, 0).map_err(|error| self.error(error))?;
        Ok(head)
    }

    /// Starts with nothing. With an `origin` the fetch can be gone on with after an interruption.
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

    /// Makes sure that the file system has room for `size` bytes in all, so that the end of a long
    /// fetch does not bring an error that the beginning could have told.
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
        // Where memory is the disk, giving out pages is all the work that there is.
        if !is_long || self.is_in_memory() {
            return Ok(());
        }
        let flags = FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&*self.file, flags, self.bytes, needed) {
            Err(error) if error == rustix::io::Errno::NOSPC => Err(self.error(error.into())),
            // Not all file systems can.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn is_in_memory(&self) -> bool {
        rustix::fs::fstatfs(&*self.file).is_ok_and(|system| system.f_type == TMPFS)
    }

    /// Whether [`Self::complete`] waits for a disk.
    #[must_use]
    pub fn waits_for_disk(&self) -> bool {
        self.durable && !self.is_in_memory()
    }

    /// Appends content, after [`Self::begin`] without an origin: what comes in order and does not need
    /// to be gone on with.
    ///
    /// # Errors
    /// `Io`.
    pub fn append(&mut self, content: &[u8]) -> Result<(), PartError> {
        self.writer.write_all(content).map_err(|error| PartError::io(&self.path, error))?;
        self.bytes += u64::try_from(content.len()).unwrap_or(0);
        Ok(())
    }

    /// Writes the content of a segment to its place: for who needs no threads for it. The first one,
    /// [`Self::set_segment_len`] or [`Self::resume`] tells how long segments are.
    ///
    /// # Errors
    /// `Io`, also for a segment behind one that is shorter.
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

    /// The file, to write segments at their places.
    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub(super) fn write_error(&self, error: io::Error) -> PartError {
        self.error(error)
    }

    /// Content bytes of each segment but the last; zero as long as that is not known.
    pub(super) fn segment_len(&self) -> u64 {
        self.segment_len
    }

    /// Tells how long the content of each segment but the last is.
    pub fn set_segment_len(&mut self, length: u64) {
        self.segment_len = length;
    }

    /// Bytes of the first segment that are not wanted.
    fn skipped(&self) -> u64 {
        let first = self.extent.map_or(0, |extent| extent.first);
        first.checked_rem(self.segment_len).unwrap_or(0)
    }

    /// Number of the first segment that is not there.
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.segments
    }

    /// Bytes before that segment.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes note of a segment that was written to its place.
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
                // Something follows a segment that is shorter.
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

    /// Refuses `name` if the file that is there is a newer version of the same object: who can replay
    /// old packets must not be able to bring an old version back.
    ///
    /// # Errors
    /// `Older`.
    pub fn refuse_older(&self, name: &Name) -> Result<(), PartError> {
        let Some(there) = version::read(&self.path) else {
            return Ok(());
        };
        let version =
            |name: &Name| name.as_ref().last().and_then(|last| last.as_version_or_marked());
        if there.as_ref().parent() == name.as_ref().parent() && version(name) < version(&there) {
            let (name, there) = (name.to_uri(), there.to_uri());
            return Err(PartError::Older { path: self.path.clone(), name, there });
        }
        Ok(())
    }

    /// Gives the file its name, and the mode and the owner of the file that had it before. Its content
    /// is on the disk by then, unless [`Self::set_durable`] says that it need not be.
    ///
    /// # Errors
    /// `Io`; then nothing is left.
    pub fn complete(mut self) -> Result<(), PartError> {
        let completed = self.writer.flush().and_then(|()| {
            // What was reserved may be more.
            self.file.set_len(self.bytes)?;
            if let Ok(before) = fs::metadata(&self.path) {
                take_after(&self.file, &before)?;
            }
            // A part of an object is no version of it.
            if let (Some(origin), None) = (&self.origin, self.extent) {
                version::write(&self.file, origin);
            }
            // A file system may otherwise give an empty file the name, if the power fails then.
            if self.durable {
                self.file.sync_data()?;
            }
            fs::rename(&self.part, &self.path)
        });
        self.remove_sidecar();
        completed.map_err(|error| {
            // The error that matters is the first one.
            let _ = fs::remove_file(&self.part);
            self.error(error)
        })
    }

    /// Leaves what a later fetch can go on with; says how many bytes, and nothing if there is none. That
    /// may be what an earlier fetch has left, if this one has not come to [`Self::begin`].
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
            // What lies ahead is fetched again.
            && self.file.set_len(self.bytes).is_ok()
            && self.write_progress().is_ok();
        if kept {
            return Some(self.bytes);
        }
        self.discard();
        None
    }

    /// Leaves nothing behind.
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
        // A new file: writing to one that exists would follow a link. It takes the place of the one
        // before at once, so that who is killed has one of the two.
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

/// What `statfs` says of a file system in memory.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// Why a segment cannot be taken note of.
#[derive(Debug)]
pub(super) enum NoteError {
    Irregular(Irregular),
    Part(PartError),
}

#[cfg(test)]
mod tests;
