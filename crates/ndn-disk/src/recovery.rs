//! Finds the packets of a share again.
//!
//! A complete segment has a directory, which is read instead of its records. Of a segment that was being written, the
//! records are read up to the first that is not valid: the torn end is cut.

use std::io;

use crate::erasures::{Erasures, Position};
use crate::format::{
    BLOCK, DIRECTORY_ENTRY, DirectoryEntry, Record, SEGMENT_HEADER, SegmentId, Trailer, UNIT,
};
use crate::index::{Index, Place};
use crate::log::Segment;
use crate::request::{Buffer, Storage};
use crate::share::{Contents, Share, ShareOptions};

/// A record that was found.
struct FoundRecord {
    entry: DirectoryEntry,
    /// The prefix of an erasure.
    prefix: Vec<u8>,
}

/// State of a segment on the disk.
enum State {
    Unused,
    Complete(Trailer),
    Torn(u64),
}

/// Reads the directories of a share and makes its index. Blocks; reads some hundred bytes for each packet of a complete
/// segment, and all bytes of those that are not complete.
///
/// # Errors
/// The device reported an error. Contents that are not valid are no error.
pub fn recover(storage: &dyn Storage, options: ShareOptions) -> io::Result<Share> {
    let mut recovery = Recovery {
        storage,
        options,
        buffer: Buffer::new(options.superblock.segment_bytes as usize),
    };
    let count = options.superblock.segments;
    let mut states = Vec::new();
    for slot in 0..count {
        let state = recovery.state(slot)?;
        let sequence = match &state {
            State::Unused => continue,
            State::Complete(trailer) => trailer.sequence,
            State::Torn(sequence) => *sequence,
        };
        if sequence != 0 && sequence % u64::from(count) == u64::from(slot) {
            states.push((sequence, slot, state));
        }
    }
    states.sort_unstable_by_key(|&(sequence, ..)| sequence);
    let next_sequence = states.last().map_or(1, |&(sequence, ..)| sequence.saturating_add(1));
    let mut contents = Contents {
        segments: vec![Segment::default(); count as usize],
        next_sequence,
        index: Index::new(options.packets_max),
        erasures: Erasures::default(),
    };
    for (sequence, slot, state) in states {
        // Older ones should have been overwritten.
        if sequence.saturating_add(u64::from(count)) >= next_sequence {
            recovery.take(&mut contents, sequence, slot, &state)?;
        }
    }
    Ok(Share::with_contents(options, contents))
}

struct Recovery<'a> {
    storage: &'a dyn Storage,
    options: ShareOptions,
    buffer: Buffer,
}

impl Recovery<'_> {
    fn id(&self, sequence: u64) -> SegmentId {
        let format_id = self.options.superblock.format_id;
        SegmentId { format_id, share: self.options.share, sequence }
    }

    fn segment_bytes(&self) -> usize {
        self.options.superblock.segment_bytes as usize
    }

    fn segment_units(&self) -> u32 {
        u32::try_from(self.segment_bytes() / UNIT).unwrap_or(u32::MAX)
    }

    /// Reads a range of a segment; the result begins with the block that contains `from`.
    fn read(&mut self, slot: u32, from: usize, to: usize) -> io::Result<&[u8]> {
        let superblock = self.options.superblock;
        let start = from / BLOCK * BLOCK;
        let end = to.next_multiple_of(BLOCK);
        let at = u64::from(slot) * u64::from(superblock.segment_bytes) + start as u64;
        let offset = superblock.share_offset(self.options.share) + at;
        let bytes = &mut self.buffer.bytes_mut()[..end - start];
        self.storage.read_at(bytes, offset)?;
        Ok(bytes)
    }

    fn state(&mut self, slot: u32) -> io::Result<State> {
        let (any, length) = (self.id(0), self.segment_bytes());
        let header = any.decode_header(self.read(slot, 0, BLOCK)?);
        let end = self.read(slot, length - BLOCK, length)?;
        let trailer = Trailer::decode(&end[BLOCK - SEGMENT_HEADER..], any);
        let fits = |trailer: &Trailer| {
            trailer.directory_bytes() <= length - 2 * SEGMENT_HEADER && trailer.count > 0
        };
        Ok(match (header, trailer.filter(fits)) {
            (None, None) => State::Unused,
            (Some(sequence), Some(trailer)) if trailer.sequence < sequence => State::Torn(sequence),
            (_, Some(trailer)) => State::Complete(trailer),
            (Some(sequence), None) => State::Torn(sequence),
        })
    }

    fn take(
        &mut self,
        contents: &mut Contents,
        sequence: u64,
        slot: u32,
        state: &State,
    ) -> io::Result<()> {
        let listed = match state {
            State::Unused => return Ok(()),
            State::Complete(trailer) => self.list(slot, trailer)?,
            State::Torn(_) => None,
        };
        let records = match listed {
            Some(records) => records,
            None => self.scan(slot, sequence)?,
        };
        let base = u64::from(slot) * u64::from(self.segment_units());
        let capacity = u64::from(self.segment_units()) * contents.segments.len() as u64;
        let mut hashes = Vec::with_capacity(records.len());
        for FoundRecord { entry, prefix } in records {
            let end = Position { sequence, unit: entry.unit + u32::from(entry.units) };
            if entry.is_erasure {
                if !contents.erasures.add(&prefix, end, true) {
                    contents.erasures.clear();
                    contents.erasures.add(&[], end, true);
                }
                continue;
            }
            let DirectoryEntry { hash, unit, units, may_be_fresh, tag, .. } = entry;
            let location = base + u64::from(unit);
            let place = Place::new(location, units, tag & 0x3fff, may_be_fresh);
            contents.index.insert(hash, place, location, capacity);
            hashes.push(hash);
        }
        contents.segments[slot as usize] = Segment { sequence, hashes: hashes.into() };
        Ok(())
    }

    /// The records of a complete segment by its directory; `None` if that is not valid.
    fn list(&mut self, slot: u32, trailer: &Trailer) -> io::Result<Option<Vec<FoundRecord>>> {
        let (id, units) = (self.id(trailer.sequence), self.segment_units());
        let to = self.segment_bytes() - SEGMENT_HEADER;
        let from = to - trailer.directory_bytes();
        let bytes = self.read(slot, from, to)?;
        let start = from % BLOCK;
        let directory = &bytes[start..start + trailer.directory_bytes()];
        if DirectoryEntry::checksum(directory, id) != trailer.directory_checksum {
            return Ok(None);
        }
        let entries = directory.chunks_exact(DIRECTORY_ENTRY);
        let entries = entries.map(|bytes| DirectoryEntry::decode(bytes, units));
        let Some(entries) = entries.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let mut records = Vec::with_capacity(entries.len());
        for entry in entries {
            let prefix = if entry.is_erasure { self.prefix(slot, id, &entry)? } else { Vec::new() };
            records.push(FoundRecord { entry, prefix });
        }
        Ok(Some(records))
    }

    /// The prefix of an erasure. If it cannot be read, everything is erased.
    fn prefix(&mut self, slot: u32, id: SegmentId, entry: &DirectoryEntry) -> io::Result<Vec<u8>> {
        let from = entry.unit as usize * UNIT;
        let bytes = self.read(slot, from, from + usize::from(entry.units) * UNIT)?;
        let record = Record::decode(&bytes[from % BLOCK..], id, entry.unit);
        Ok(record.map(|record| record.bytes.to_vec()).unwrap_or_default())
    }

    /// The records of a segment, one by one, up to the first that is not valid.
    fn scan(&mut self, slot: u32, sequence: u64) -> io::Result<Vec<FoundRecord>> {
        let (id, length) = (self.id(sequence), self.segment_bytes());
        let bytes = self.read(slot, 0, length)?;
        let mut records = Vec::new();
        let mut unit = 1;
        while let Some(rest) = bytes.get(unit as usize * UNIT..)
            && let Ok(record) = Record::decode(rest, id, unit)
        {
            let length = Record::units_of(record.bytes.len());
            let Ok(units) = u8::try_from(length) else { break };
            let entry = DirectoryEntry {
                hash: record.hash,
                unit,
                units,
                is_erasure: record.is_erasure,
                may_be_fresh: record.fresh_until_ms != 0,
                tag: record.tag(),
            };
            let prefix = if record.is_erasure { record.bytes.to_vec() } else { Vec::new() };
            records.push(FoundRecord { entry, prefix });
            unit += u32::from(units);
        }
        Ok(records)
    }
}
