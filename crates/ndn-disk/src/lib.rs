//! Disk tier of a Content Store: a log of segments, an index in memory, and recovery. A state machine without I/O.
//!
//! | module | contents |
//! |---|---|
//! | `format` | [`Superblock`], [`Record`] and the other parts of the file |
//! | `index` | hash of a name → place of its record |
//! | `ghosts` | names that were evicted once |
//! | `log` | segments that are filled and written, and the turn of the oldest |
//! | `erasures` | erased prefixes |
//! | `reads` | reads in progress |
//! | `share` | [`Share`]: the disk tier of one shard |
//! | `request` | [`Request`], [`Completion`], [`Storage`]: the I/O that others carry out |
//! | `recovery` | [`recover`]: a share from what is on the disk |
//! | `counters` | [`DiskCounters`] |
#![forbid(unsafe_code)]

mod counters;
mod erasures;
mod format;
mod ghosts;
mod index;
mod log;
mod reads;
mod recovery;
mod request;
mod share;

pub use counters::{DiskCounters, DiskValues};
pub use format::{
    BLOCK, CONTENTS_CHECK_BYTES, DATA_OFFSET, DirectoryEntry, FirstBlock, PACKET_BYTES_MAX, Record,
    RecordError, SegmentId, Superblock, TooSmall, Trailer, UNIT, name_of,
};
pub use reads::WAITERS_MAX;
pub use recovery::recover;
pub use request::{Buffer, Completion, ReadFault, ReadRecord, Request, Storage};
pub use share::{Admission, Lookup, Packet, ReadResult, Share, ShareOptions};
