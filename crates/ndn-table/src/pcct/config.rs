//! Limits, errors and counters of the composite table.

use std::fmt;

use ndn_caching::PolicyKind;
use ndn_types::{Reserves, Timestamp};

use crate::byte_slab::bytes_for_largest;

/// Limits of a [`Pcct`](super::Pcct). All memory is reserved at construction; except for the hash
/// indices, it is touched on first use.
#[derive(Clone, Debug)]
pub struct PcctConfig {
    /// Maximum number of PIT entries, at most
    /// [`Token::ENTRY_COUNT_MAX`](crate::Token::ENTRY_COUNT_MAX). An entry takes 256 bytes.
    pub pit_entries_max: u32,
    /// Bytes for Interests longer than 128 bytes.
    pub pit_bytes_max: usize,
    /// Maximum number of in-records beyond the first of their entry; the same limit applies to
    /// out-records and to PIT tokens longer than 8 bytes.
    pub extra_records_max: u32,
    /// Shares of the tables of the PIT that are reserved for classes of principals.
    pub reserves: Reserves,
    /// Maximum number of cached packets. This is also the highest capacity that can be set later.
    pub cs_packets_max: u32,
    /// Bytes of cached packets, rounded up to their size class.
    pub cs_bytes_max: usize,
    /// Maximum number of name prefixes at which the names of cached packets branch.
    pub cs_prefix_nodes_max: u32,
    /// Eviction policy at the start.
    pub cs_policy: PolicyKind,
    /// The time of construction.
    pub now: Timestamp,
}

impl Default for PcctConfig {
    /// 65,536 cached packets in at most 587 MiB, 65,536 PIT entries.
    fn default() -> Self {
        Self::with_capacity(65_536, 65_536, Timestamp::ZERO)
    }
}

impl PcctConfig {
    /// Sizes in proportion to a PIT of `pit_entries` and a Content Store of `cs_packets`, of any length.
    #[must_use]
    pub fn with_capacity(pit_entries: u32, cs_packets: u32, now: Timestamp) -> Self {
        Self {
            pit_entries_max: pit_entries,
            pit_bytes_max: (pit_entries as usize * 512).max(1 << 20),
            extra_records_max: pit_entries.max(1024),
            reserves: Reserves::default(),
            cs_packets_max: cs_packets,
            cs_bytes_max: bytes_for_largest(cs_packets as usize),
            cs_prefix_nodes_max: cs_packets.max(1024),
            cs_policy: PolicyKind::Lru,
            now,
        }
    }
}

/// Why an Interest could not be recorded: a limit of [`PcctConfig`] or of the crate was reached,
/// and the Interest is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PitError {
    /// All PIT entries are in use.
    Full,
    /// No memory for an Interest longer than 128 bytes.
    BytesFull,
    /// All buckets within reach of the hash are full.
    IndexFull,
    /// The packet is longer than any block.
    TooLong,
    /// No memory for another in-record or out-record, or the entry has the maximum number.
    RecordsFull,
    /// The PIT token is longer than 32 bytes, or there is no memory for one longer than 8.
    TokensFull,
}

impl fmt::Display for PitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the PIT is full",
            Self::BytesFull => "the memory for long Interests is full",
            Self::IndexFull => "a neighbourhood of the hash index is full",
            Self::TooLong => "the Interest is too long",
            Self::RecordsFull => "the memory for in- or out-records is full",
            Self::TokensFull => "the memory for long PIT tokens is full",
        })
    }
}

impl std::error::Error for PitError {}

/// Why a Data was not cached. It is forwarded nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsError {
    /// Admission is disabled, or the capacity is 0.
    NotAdmitted,
    /// Longer than the largest block of the store.
    TooLong,
    /// No room, not even after [`EVICTIONS_PER_INSERT_MAX`](super::EVICTIONS_PER_INSERT_MAX)
    /// evictions.
    Full,
    /// The policy keeps what is cached instead.
    Refused,
}

impl fmt::Display for CsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAdmitted => "the Content Store admits no Data",
            Self::TooLong => "the Data is too long to be cached",
            Self::Full => "the Content Store has no room",
            Self::Refused => "the Content Store keeps other Data instead",
        })
    }
}

impl std::error::Error for CsError {}

/// Counters of the Content Store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CsCounters {
    /// Data inserted.
    pub insertions: u64,
    /// Data removed for any reason except an erase command.
    pub evictions: u64,
}
