//! The log of a share: a ring of segments. One is being filled in memory, one may be on its way to the disk, and the
//! others are on the disk. The oldest makes room for the next.

use crate::erasures::Position;
use crate::format::{
    BLOCK, DIRECTORY_ENTRY, DirectoryEntry, Record, SEGMENT_HEADER, SegmentId, Superblock, Trailer,
    UNIT,
};
use crate::index::Place;
use crate::request::{Buffer, Request};

/// Length of a write, bytes. The last of a segment and one that is forced may be shorter.
pub(crate) const WRITE_BYTES: usize = 256 << 10;
/// Writes that may be in progress.
const WRITES_MAX: usize = 4;

/// A segment on the disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    /// Its sequence number, 0 if the place was never used.
    pub(crate) sequence: u64,
    /// Hashes of the names of its packets. Some of them may be elsewhere by now.
    pub(crate) hashes: Box<[u64]>,
}

/// A segment in memory.
#[derive(Debug)]
struct OpenSegment {
    id: SegmentId,
    slot: u32,
    bytes: Vec<u8>,
    /// End of the last record; the whole length once it is closed.
    end: usize,
    /// Bytes for which writes were requested, and these rounded down to blocks: the next write begins there.
    requested: usize,
    submitted: usize,
    directory: Vec<DirectoryEntry>,
}

impl OpenSegment {
    fn has_room(&self, units: usize) -> bool {
        let directory = (self.directory.len() + 1) * DIRECTORY_ENTRY;
        self.end + units * UNIT + directory + SEGMENT_HEADER <= self.bytes.len()
    }

    fn next_unit(&self) -> u32 {
        u32::try_from(self.end / UNIT).unwrap_or(u32::MAX)
    }

    /// Adds directory and trailer.
    fn close(&mut self) {
        let length = self.bytes.len();
        let trailer_at = length - SEGMENT_HEADER;
        let directory_at = trailer_at - self.directory.len() * DIRECTORY_ENTRY;
        self.bytes[self.end..directory_at].fill(0);
        let entries = self.bytes[directory_at..trailer_at].chunks_exact_mut(DIRECTORY_ENTRY);
        for (place, entry) in entries.zip(&self.directory) {
            place.copy_from_slice(&entry.encode());
        }
        let directory_checksum =
            DirectoryEntry::checksum(&self.bytes[directory_at..trailer_at], self.id);
        let count = u32::try_from(self.directory.len()).unwrap_or(u32::MAX);
        let trailer = Trailer { sequence: self.id.sequence, count, directory_checksum };
        self.bytes[trailer_at..].copy_from_slice(&trailer.encode(self.id));
        self.end = length;
    }
}

/// A record that was appended.
#[derive(Debug)]
pub(crate) struct Appended {
    pub(crate) position: Position,
    pub(crate) place: Place,
}

#[derive(Debug)]
pub(crate) struct Log {
    superblock: Superblock,
    share: u32,
    pub(crate) segments: Vec<Segment>,
    next_sequence: u64,
    open: Option<OpenSegment>,
    sealing: Option<OpenSegment>,
    spare: Vec<Vec<u8>>,
    write_buffers: Vec<Buffer>,
    /// Everything before this is on the disk.
    durable: (u64, usize),
    /// Number of hashes in `segments`.
    hash_count: usize,
}

impl Log {
    pub(crate) fn new(
        superblock: Superblock,
        share: u32,
        segments: Vec<Segment>,
        next_sequence: u64,
    ) -> Self {
        let length = superblock.segment_bytes as usize;
        let hash_count = segments.iter().map(|segment| segment.hashes.len()).sum();
        Self {
            superblock,
            share,
            segments,
            next_sequence: next_sequence.max(1),
            open: None,
            sealing: None,
            spare: (0..2).map(|_| vec![0; length]).collect(),
            write_buffers: (0..WRITES_MAX).map(|_| Buffer::new(WRITE_BYTES)).collect(),
            durable: (0, 0),
            hash_count,
        }
    }

    /// Units of a segment.
    pub(crate) fn segment_units(&self) -> u64 {
        u64::from(self.superblock.segment_bytes) / UNIT as u64
    }

    /// Units of the share.
    pub(crate) fn units(&self) -> u64 {
        self.segment_units() * self.segments.len() as u64
    }

    /// Memory of the lists of hashes.
    pub(crate) fn bytes(&self) -> usize {
        self.hash_count * size_of::<u64>() + self.segments.len() * size_of::<Segment>()
    }

    /// The segment in which a place lies, and its unit there.
    pub(crate) fn split(&self, place: Place) -> (u32, u32) {
        let units = self.segment_units();
        let (slot, unit) = (place.location() / units, place.location() % units);
        (u32::try_from(slot).unwrap_or(u32::MAX), u32::try_from(unit).unwrap_or(u32::MAX))
    }

    /// Position in the log of a place.
    pub(crate) fn position(&self, place: Place) -> Position {
        let (slot, unit) = self.split(place);
        Position { sequence: self.segments[slot as usize].sequence, unit }
    }

    pub(crate) fn id(&self, sequence: u64) -> SegmentId {
        SegmentId { format_id: self.superblock.format_id, share: self.share, sequence }
    }

    /// First byte of the share.
    pub(crate) fn offset(&self) -> u64 {
        self.superblock.share_offset(self.share)
    }

    /// Sequence number of the oldest segment that has not been overwritten.
    pub(crate) fn oldest(&self) -> u64 {
        self.next_sequence.saturating_sub(self.segments.len() as u64)
    }

    /// The position of the next record.
    pub(crate) fn end(&self) -> Position {
        match &self.open {
            Some(open) => Position { sequence: open.id.sequence, unit: open.next_unit() },
            None => Position { sequence: self.next_sequence, unit: 0 },
        }
    }

    /// The slot that will be overwritten after the segment that is being filled.
    pub(crate) fn next_slot(&self) -> u32 {
        self.slot_of(self.next_sequence)
    }

    fn slot_of(&self, sequence: u64) -> u32 {
        u32::try_from(sequence % self.segments.len() as u64).unwrap_or(0)
    }

    /// Whether another segment must be opened for a record of `units`.
    pub(crate) fn needs_segment(&self, units: usize) -> bool {
        !self.open.as_ref().is_some_and(|open| open.has_room(units))
    }

    /// Whether another segment can be opened now.
    pub(crate) fn can_open(&self) -> bool {
        self.open.is_none() || self.sealing.is_none()
    }

    /// Closes the segment that is being filled, and opens the next one in [`next_slot`](Self::next_slot), whose
    /// packets are lost. To be called only if [`can_open`](Self::can_open).
    pub(crate) fn open_next(&mut self) {
        if let Some(mut open) = self.open.take() {
            open.close();
            let data = open.directory.iter().filter(|entry| !entry.is_erasure);
            let hashes: Box<[u64]> = data.map(|entry| entry.hash).collect();
            self.hash_count += hashes.len();
            self.segments[open.slot as usize].hashes = hashes;
            self.sealing = Some(open);
        }
        let Some(mut bytes) = self.spare.pop() else { return };
        let sequence = self.next_sequence;
        let (slot, id) = (self.slot_of(sequence), self.id(sequence));
        self.next_sequence += 1;
        let replaced = std::mem::take(&mut self.segments[slot as usize].hashes);
        self.hash_count -= replaced.len();
        self.segments[slot as usize].sequence = sequence;
        bytes[..SEGMENT_HEADER].copy_from_slice(&id.encode_header());
        let directory = Vec::with_capacity(bytes.len() / 1024);
        let end = SEGMENT_HEADER;
        self.open =
            Some(OpenSegment { id, slot, bytes, end, requested: 0, submitted: 0, directory });
    }

    /// Appends a record; `None` if it does not fit the segment that is being filled.
    pub(crate) fn append(&mut self, record: &Record<'_>) -> Option<Appended> {
        let segment_units = self.segment_units();
        let units = Record::units_of(record.bytes.len());
        let open = self.open.as_mut().filter(|open| open.has_room(units))?;
        let unit = open.next_unit();
        let next = open.end + units * UNIT;
        record.encode(open.id, unit, &mut open.bytes[open.end..next]);
        open.end = next;
        let (tag, may_be_fresh) = (record.tag(), record.fresh_until_ms != 0);
        let units = u8::try_from(units).ok()?;
        let Record { hash, is_erasure, .. } = *record;
        open.directory.push(DirectoryEntry { hash, unit, units, is_erasure, may_be_fresh, tag });
        let location = u64::from(open.slot) * segment_units + u64::from(unit);
        let place = Place::new(location, units, tag, may_be_fresh);
        Some(Appended { position: Position { sequence: open.id.sequence, unit }, place })
    }

    /// The bytes of a record, if its segment is in memory.
    pub(crate) fn buffered(&self, place: Place) -> Option<Record<'_>> {
        let (slot, unit) = self.split(place);
        let segments = self.open.iter().chain(&self.sealing);
        let segment = segments.into_iter().find(|segment| segment.slot == slot)?;
        let start = unit as usize * UNIT;
        let bytes = segment.bytes.get(start..start + place.units() * UNIT)?;
        Record::decode(bytes, segment.id, unit).ok()
    }

    /// The next write: of whole [`WRITE_BYTES`], or of all that is left of a closed segment. With `forces`, also
    /// the rest of the segment that is being filled.
    pub(crate) fn next_write(&mut self, forces: bool) -> Option<Request> {
        let offset = self.offset();
        let Self { sealing, open, write_buffers, superblock, .. } = self;
        let is_whole = |segment: &OpenSegment| segment.end - segment.submitted >= WRITE_BYTES;
        let has_rest = |segment: &OpenSegment| segment.end > segment.requested;
        let segment = match sealing.as_mut().filter(|segment| has_rest(segment)) {
            Some(segment) => segment,
            None => open.as_mut().filter(|one| is_whole(one) || forces && has_rest(one))?,
        };
        let from = segment.submitted;
        let to = (from + WRITE_BYTES).min(segment.end);
        let mut buffer = write_buffers.pop()?;
        // The end of a block behind the last record has no meaning yet.
        let length = (to - from).next_multiple_of(BLOCK);
        buffer.bytes_mut()[..to - from].copy_from_slice(&segment.bytes[from..to]);
        buffer.bytes_mut()[to - from..length].fill(0);
        segment.requested = to;
        segment.submitted = to / BLOCK * BLOCK;
        let at = u64::from(segment.slot) * u64::from(superblock.segment_bytes) + from as u64;
        let sequence = segment.id.sequence;
        Some(Request::Write { sequence, end: to, offset: offset + at, length, buffer })
    }

    /// A write has ended successfully, with all before it.
    pub(crate) fn note_written(&mut self, sequence: u64, end: usize) {
        self.durable = self.durable.max((sequence, end));
        let is_sealed = self
            .sealing
            .as_ref()
            .is_some_and(|sealing| (sealing.id.sequence, sealing.bytes.len()) <= self.durable);
        if is_sealed && let Some(sealing) = self.sealing.take() {
            self.spare.push(sealing.bytes);
        }
    }

    pub(crate) fn return_buffer(&mut self, buffer: Buffer) {
        self.write_buffers.push(buffer);
    }

    /// Whether all records are on the disk.
    pub(crate) fn is_flushed(&self) -> bool {
        let is_durable = |one: &OpenSegment| {
            one.end == SEGMENT_HEADER || (one.id.sequence, one.end) <= self.durable
        };
        self.sealing.is_none() && self.open.as_ref().is_none_or(is_durable)
    }

    /// Whether all records before a position are on the disk.
    pub(crate) fn is_durable(&self, position: Position) -> bool {
        (position.sequence, position.unit as usize * UNIT) <= self.durable
    }

    /// Whether records wait for a write that is not due.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.open
            .as_ref()
            .is_some_and(|open| open.end > SEGMENT_HEADER && open.end > open.requested)
    }

    /// Forgets all segments, after an error.
    pub(crate) fn clear(&mut self) {
        self.segments.iter_mut().for_each(|segment| segment.hashes = Box::default());
        self.hash_count = 0;
        (self.open, self.sealing) = (None, None);
    }
}
