//! The files of one object: segments with their digests, and a record of its properties.
//!
//! A file has about 1 MiB of neighbouring segments: first an entry for each, which is zero while the segment is not there, then
//! their contents at fixed places, so that the file is sparse. An entry has the digest of the packet, if it was known, and a digest
//! that covers the object, its layout, the number of the segment, the digest of the packet, and the content.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use ndn_packet::Name;
use ndn_security::{Sha256Digest, sha256_each, sha256_parts};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use super::directory::{Directory, make, record_path, write};
use crate::object::Layout;
use crate::stat::Stat;

/// Bytes of content in a file, about.
const FILE_BYTES: u64 = 1 << 20;
/// Segments in a file at most.
const FILE_SEGMENTS_MAX: u64 = 1024;
/// Unit of files on the disk in bytes.
const PAGE_LEN: u64 = 4096;
/// Attempts to make a file.
const ATTEMPTS_MAX: u32 = 8;
/// Length of an entry: two digests.
const ENTRY_LEN: usize = 64;
/// Beginning of a record.
const MAGIC: [u8; 8] = *b"NDNOBJ1\0";
/// Length of a record without its digest: magic, length, segment length, time, permissions.
const RECORD_LEN: usize = 40;
/// A time or permissions that are not known.
const UNKNOWN: u64 = u64::MAX;

/// A segment to be stored.
pub(super) struct Block {
    pub(super) segment: u64,
    /// Digest of its packet; zeros if it is not known.
    pub(super) expected: Sha256Digest,
    pub(super) content: Bytes,
}

/// State of a segment in the cache.
pub(super) enum Stored {
    Nothing,
    /// It does not have the digest that was stored with it, or that is expected.
    Damaged,
    Content(Bytes),
}

impl Stored {
    pub(super) fn content(self) -> Option<Bytes> {
        match self {
            Self::Content(content) => Some(content),
            Self::Nothing | Self::Damaged => None,
        }
    }
}

/// The properties of a version of an object that are needed to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    layout: Layout,
    modified_ns: Option<u64>,
    permissions: Option<u16>,
}

impl Record {
    pub(super) fn new(stat: &Stat, layout: Layout) -> Self {
        Self { layout, modified_ns: stat.modified_ns, permissions: stat.permissions }
    }

    /// The record of an object that was stored.
    pub(super) fn read(directory: &Directory, trust: &Sha256Digest, name: &Name) -> Option<Self> {
        let key = key_of(trust, name);
        Self::read_from(&directory.of_object(&key), &key)
    }

    fn read_from(object: &Path, key: &Sha256Digest) -> Option<Self> {
        let bytes = fs::read(record_path(object)).ok()?;
        let (content, digest) = bytes.split_at_checked(RECORD_LEN)?;
        if digest != sha256_parts(&[key, content]) {
            return None;
        }
        let (magic, numbers) = content.split_first_chunk()?;
        let (numbers, _) = numbers.as_chunks::<8>();
        let &[size, segment_size, modified, permissions] = numbers else { return None };
        let [size, segment_size, modified, permissions] =
            [size, segment_size, modified, permissions].map(u64::from_be_bytes);
        (*magic == MAGIC && segment_size > 0).then(|| Self {
            layout: Layout { size, segment_size },
            modified_ns: Some(modified).filter(|modified| *modified != UNKNOWN),
            permissions: u16::try_from(permissions).ok(),
        })
    }

    pub(super) fn describe(self, name: &Name) -> (Stat, Layout) {
        let Self { layout, modified_ns, permissions } = self;
        let size = Some(layout.size);
        let stat = Stat { name: name.clone(), is_directory: false, size, modified_ns, permissions };
        (stat, layout)
    }

    fn to_bytes(self, key: &Sha256Digest) -> Vec<u8> {
        let Self { layout, modified_ns, permissions } = self;
        let modified = modified_ns.unwrap_or(UNKNOWN);
        let permissions = permissions.map_or(UNKNOWN, u64::from);
        let mut bytes = MAGIC.to_vec();
        for number in [layout.size, layout.segment_size, modified, permissions] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        let digest = sha256_parts(&[key, &bytes]);
        bytes.extend_from_slice(&digest);
        bytes
    }
}

/// Identifies an object: a version whose segments one verification accepted.
fn key_of(trust: &Sha256Digest, name: &Name) -> Sha256Digest {
    sha256_parts(&[b"namewire blocks 1", trust, name.value()])
}

/// The files of one object. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    shared: Arc<Shape>,
}

#[derive(Debug)]
struct Shape {
    key: Sha256Digest,
    /// Digest of the key and the layout.
    identity: Sha256Digest,
    record: Record,
    /// Segments in a file.
    count: u64,
}

impl Blocks {
    pub(super) fn new(trust: &Sha256Digest, name: &Name, record: Record) -> Self {
        let key = key_of(trust, name);
        let Layout { size, segment_size } = record.layout;
        let identity = sha256_parts(&[&key, &size.to_be_bytes(), &segment_size.to_be_bytes()]);
        let count = (FILE_BYTES / segment_size.max(1)).clamp(1, FILE_SEGMENTS_MAX);
        Self { shared: Arc::new(Shape { key, identity, record, count }) }
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.shared.identity == other.shared.identity
    }

    /// Whether `next` follows `segment` in one file.
    pub(super) fn are_neighbours(&self, segment: u64, next: u64) -> bool {
        segment.checked_add(1) == Some(next) && self.neighbours(segment).contains(&next)
    }

    /// The segments of the file that has this one.
    pub(super) fn neighbours(&self, segment: u64) -> RangeInclusive<u64> {
        let first = segment - segment % self.shared.count;
        first..=first.saturating_add(self.shared.count - 1)
    }

    /// The contents of these segments; `expected` has the digests of their packets, where these are known.
    pub(super) fn read(
        &self,
        directory: &Directory,
        segments: RangeInclusive<u64>,
        expected: &[Option<Sha256Digest>],
    ) -> Vec<Stored> {
        let object = directory.of_object(&self.shared.key);
        let mut found = Vec::new();
        let mut next = *segments.start();
        while next <= *segments.end() {
            let last = (*self.neighbours(next).end()).min(*segments.end());
            let of_file = expected.get(found.len()..).unwrap_or_default();
            found.extend(self.read_file(&object, next..=last, of_file));
            next = last + 1;
        }
        found
    }

    /// As [`Self::read`], of segments in one file.
    fn read_file(
        &self,
        object: &Path,
        segments: RangeInclusive<u64>,
        expected: &[Option<Sha256Digest>],
    ) -> Vec<Stored> {
        let nothing = || segments.clone().map(|_| Stored::Nothing).collect();
        let Ok(file) = File::open(object.join(self.file_name(*segments.start()))) else {
            return nothing();
        };
        let count = usize::try_from(segments.end() - segments.start() + 1).unwrap_or(0);
        let entries = read_up_to(&file, count * ENTRY_LEN, self.entry_offset(*segments.start()));
        let entries: Vec<_> = entries.chunks_exact(ENTRY_LEN).map(Entry::read).collect();
        let is_there = |index: &usize| entries.get(*index).is_some_and(Entry::is_there);
        let Some(first) = (0..count).find(is_there) else { return nothing() };
        let end = (0..count).rfind(is_there).map_or(first, |last| last + 1);
        let segment_of = |index: usize| segments.start() + u64::try_from(index).unwrap_or(0);
        let length_of = |index| {
            usize::try_from(self.shared.record.layout.length_of(segment_of(index))).unwrap_or(0)
        };
        let length = (first..end).map(length_of).sum();
        let contents = read_up_to(&file, length, self.content_offset(segment_of(first)));
        let mut left = contents.as_slice();
        let mut parts = Vec::new();
        for index in first..end {
            let (content, after) = left.split_at(length_of(index).min(left.len()));
            left = after;
            parts.push(content);
        }
        let digests = sha256_each(&parts);
        let mut found: Vec<Stored> = nothing();
        for ((index, content), digest) in (first..end).zip(parts).zip(digests) {
            let Some(entry) = entries.get(index).filter(|entry| entry.is_there()) else { continue };
            let listed = expected.get(index).copied().flatten();
            let is_whole = content.len() == length_of(index)
                && listed.is_none_or(|listed| listed == entry.expected)
                && self.digest(segment_of(index), &entry.expected, &digest) == entry.digest;
            found[index] = match is_whole {
                true => Stored::Content(Bytes::copy_from_slice(content)),
                false => Stored::Damaged,
            };
        }
        if found.iter().any(|stored| matches!(stored, Stored::Content(_))) {
            // The time of the last use. The file may belong to a disk that is read only.
            let [omit, now] = [UTIME_OMIT, UTIME_NOW];
            let time = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
            let times = Timestamps { last_access: time(omit), last_modification: time(now) };
            let _ = rustix::fs::futimens(&file, &times);
        }
        found
    }

    /// Stores segments that follow each other in one file.
    pub(super) fn write(&self, directory: &Directory, blocks: &[&Block]) -> io::Result<()> {
        let Some(first) = blocks.first().map(|block| block.segment) else { return Ok(()) };
        let contents: Vec<&[u8]> = blocks.iter().map(|block| &block.content[..]).collect();
        let mut entries = Vec::with_capacity(blocks.len() * ENTRY_LEN);
        for (block, digest) in blocks.iter().zip(sha256_each(&contents)) {
            entries.extend_from_slice(&block.expected);
            entries.extend_from_slice(&self.digest(block.segment, &block.expected, &digest));
        }
        let contents = contents.concat();
        let object = directory.of_object(&self.shared.key);
        let path = object.join(self.file_name(first));
        let mut attempts = 0;
        let file = loop {
            attempts += 1;
            match self.open_to_write(&object, &path) {
                // Another process has removed the directory meanwhile.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && attempts < ATTEMPTS_MAX => {}
                opened => break opened?,
            }
        };
        file.write_all_at(&contents, self.content_offset(first))?;
        file.write_all_at(&entries, self.entry_offset(first))
    }

    fn open_to_write(&self, object: &Path, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(object)?;
                self.write_record(object)?;
                // Another process may have made it meanwhile, with the same content.
                options.create(true).truncate(false).open(path)
            }
            opened => opened,
        }
    }

    /// Writes the record beside the first file, and beside each that is made later, as the record goes with the last file. One that
    /// is written in part is no record.
    fn write_record(&self, object: &Path) -> io::Result<()> {
        let Shape { key, record, .. } = &*self.shared;
        match Record::read_from(object, key) {
            Some(same) if same == *record => Ok(()),
            _ => write(&record_path(object), &record.to_bytes(key)),
        }
    }

    fn file_name(&self, segment: u64) -> String {
        (segment / self.shared.count).to_string()
    }

    fn entry_offset(&self, segment: u64) -> u64 {
        segment % self.shared.count * ENTRY_LEN as u64
    }

    fn content_offset(&self, segment: u64) -> u64 {
        let entries = (self.shared.count * ENTRY_LEN as u64).next_multiple_of(PAGE_LEN);
        entries + segment % self.shared.count * self.shared.record.layout.segment_size
    }

    /// The digest of a segment, from that of its content.
    fn digest(
        &self,
        segment: u64,
        expected: &Sha256Digest,
        content: &Sha256Digest,
    ) -> Sha256Digest {
        sha256_parts(&[&self.shared.identity, &segment.to_be_bytes(), expected, content])
    }
}

struct Entry {
    expected: Sha256Digest,
    digest: Sha256Digest,
}

impl Entry {
    fn read(bytes: &[u8]) -> Self {
        let (expected, digest) = bytes.split_at(ENTRY_LEN / 2);
        let half = |half: &[u8]| half.try_into().unwrap_or_default();
        Self { expected: half(expected), digest: half(digest) }
    }

    fn is_there(&self) -> bool {
        self.digest != Sha256Digest::default()
    }
}

/// Up to `length` bytes: fewer at the end of the file, or at what cannot be read.
fn read_up_to(file: &File, length: usize, offset: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        let at = offset + u64::try_from(filled).unwrap_or(0);
        match file.read_at(&mut bytes[filled..], at) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    bytes.truncate(filled);
    bytes
}
