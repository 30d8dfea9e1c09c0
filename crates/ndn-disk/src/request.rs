//! Requests of a share, which other threads carry out on a [`Storage`].

use std::io;
use std::ops::Range;

use crate::format::{BLOCK, Record, SegmentId, UNIT};

/// A file or device. Offsets and lengths are multiples of [`BLOCK`], and buffers are aligned to it.
pub trait Storage: Send + Sync {
    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// Those of the device, or its end was reached.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes `bytes` to `offset`.
    ///
    /// # Errors
    /// Those of the device, such as that it is full.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

/// Memory aligned to [`BLOCK`], as direct I/O needs it.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    /// A buffer of zeros.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let bytes = vec![0; length + BLOCK];
        let start = bytes.as_ptr().align_offset(BLOCK).min(BLOCK);
        Self { bytes, start, length }
    }

    /// The contents.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    /// The contents, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }

    /// Takes the memory out, and the position of the contents in it, until it is [returned](Self::return_memory).
    pub fn take_memory(&mut self) -> (Vec<u8>, usize) {
        (std::mem::take(&mut self.bytes), self.start)
    }

    /// Returns the memory.
    pub fn return_memory(&mut self, memory: Vec<u8>) {
        self.bytes = memory;
    }
}

/// A read or write for another thread.
#[derive(Debug)]
pub enum Request {
    /// Read a record and check it.
    Read {
        /// Returned with the completion.
        ticket: u32,
        /// Segment of the record.
        segment: SegmentId,
        /// Unit of the segment at which it begins.
        unit: u32,
        /// Hash of its name.
        hash: u64,
        /// First byte of the read, in the file.
        offset: u64,
        /// Length of the read.
        length: usize,
        /// Distance of the record from the begin of the read.
        skip: usize,
        /// Memory for the bytes.
        buffer: Buffer,
    },
    /// Write a part of a segment. Writes are carried out in the order of the requests.
    Write {
        /// Sequence number of the segment.
        sequence: u64,
        /// Bytes of the segment that are written after this.
        end: usize,
        /// First byte of the write, in the file.
        offset: u64,
        /// Length of the write.
        length: usize,
        /// The bytes.
        buffer: Buffer,
    },
}

/// A record that was read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRecord {
    /// Place of the packet in the buffer.
    pub packet: Range<usize>,
    /// End of freshness, in milliseconds since 1970; 0 for Data that was never fresh.
    pub fresh_until_ms: u64,
}

/// Reason why a read has no result.
#[derive(Debug)]
pub enum ReadFault {
    /// The device reported an error.
    Io(io::Error),
    /// The bytes are not those that were written.
    Checksum,
    /// The record is another one.
    Other,
}

/// Result of a [`Request`].
#[derive(Debug)]
pub enum Completion {
    /// A read has ended.
    Read {
        /// The ticket of the request.
        ticket: u32,
        /// The record, or why there is none.
        result: Result<ReadRecord, ReadFault>,
        /// The buffer of the request.
        buffer: Buffer,
    },
    /// A write has ended.
    Write {
        /// Sequence number of the segment.
        sequence: u64,
        /// [`Request::Write::end`].
        end: usize,
        /// Bytes written.
        length: usize,
        /// Whether it succeeded.
        result: io::Result<()>,
        /// The buffer of the request.
        buffer: Buffer,
    },
}

impl Request {
    /// Whether this is a write.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Write { .. })
    }

    /// First byte in the file, and length, of what is read or written.
    #[must_use]
    pub fn extent(&self) -> (u64, usize) {
        match *self {
            Self::Read { offset, length, .. } | Self::Write { offset, length, .. } => {
                (offset, length)
            }
        }
    }

    /// The memory of the bytes.
    pub fn buffer_mut(&mut self) -> &mut Buffer {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } => buffer,
        }
    }

    /// Carries out the request, and checks what was read. Blocks.
    pub fn perform(mut self, storage: &dyn Storage) -> Completion {
        let (is_write, (offset, length)) = (self.is_write(), self.extent());
        let bytes = &mut self.buffer_mut().bytes_mut()[..length];
        let result = match is_write {
            true => storage.write_at(bytes, offset),
            false => storage.read_at(bytes, offset),
        };
        self.complete(result)
    }

    /// The end of a request whose bytes were read into its buffer, or written. Checks what was read.
    pub fn complete(self, result: io::Result<()>) -> Completion {
        match self {
            Self::Write { sequence, end, length, buffer, .. } => {
                Completion::Write { sequence, end, length, result, buffer }
            }
            Self::Read { ticket, segment, unit, hash, length, skip, buffer, .. } => {
                let bytes = &buffer.bytes()[..length];
                let result = result.map_err(ReadFault::Io);
                let result = result.and_then(|()| find(bytes, skip, segment, unit, hash));
                Completion::Read { ticket, result, buffer }
            }
        }
    }
}

fn find(
    bytes: &[u8],
    skip: usize,
    segment: SegmentId,
    unit: u32,
    hash: u64,
) -> Result<ReadRecord, ReadFault> {
    let record = bytes.get(skip..).unwrap_or_default();
    let record = Record::decode(record, segment, unit).map_err(|_| ReadFault::Checksum)?;
    if record.is_erasure || record.hash != hash {
        return Err(ReadFault::Other);
    }
    let start = skip + crate::format::RECORD_HEADER;
    let packet = start..start + record.bytes.len();
    Ok(ReadRecord { packet, fresh_until_ms: record.fresh_until_ms })
}

/// The blocks that contain some units: first byte, length, and distance of the units from it.
pub(crate) fn blocks(first_unit: u64, units: usize) -> (u64, usize, usize) {
    let start = first_unit * UNIT as u64;
    let aligned = start / BLOCK as u64 * BLOCK as u64;
    let skip = usize::try_from(start - aligned).unwrap_or(0);
    (aligned, (skip + units * UNIT).next_multiple_of(BLOCK), skip)
}
