//! PIT and Content Store of one shard, in one hash table.
//!
//! | module | what it holds |
//! |---|---|
//! | `config` | [`PcctConfig`], [`PitError`], [`CsError`], [`CsCounters`] |
//! | `stages` | the prefetch stages of a burst |
//! | `pit_interface`, `cs_interface` | what a shard calls |
//! | `pit_entry`, `records` | [`PitEntry`], [`InRecord`], [`OutRecord`] |
//! | `pit`, `pit_records` | find, insert, erase, expire |
//! | `data_match` | which pending Interests a Data satisfies |
//! | `cs_entry` | the 64-byte header of a cached Data and the eviction queues |
//! | `cs` | find, insert |
//! | `eviction` | which Data makes way, and that its lines are in the cache by then |
//! | `prefix_tree`, `node_memo`, `prefix_search` | CanBePrefix |
//! | `erase` | erase by prefix |
//!
//! An Interest and the Data that answers it have the same name and so the same hash: the bucket
//! that the Interest brought into the cache holds both the pending entry and, later, the cached
//! Data.

mod config;
mod cs;
mod cs_entry;
mod cs_interface;
mod data_match;
mod erase;
mod eviction;
mod node_memo;
mod pit;
mod pit_entry;
mod pit_interface;
mod pit_records;
mod prefix_search;
mod prefix_tree;
mod records;
mod stages;

pub use config::{CsCounters, CsError, CsPolicy, PcctConfig, PitError};
pub use cs::{CACHED_PACKET_LENGTH_MAX, CS_VARIANTS_PER_NAME_MAX, EVICTIONS_PER_INSERT_MAX};
pub use cs_entry::CsIndex;
pub use data_match::{PIT_MATCHES_MAX, PitMatches};
pub use erase::EraseResult;
pub use pit_entry::{PIT_INTEREST_INLINE_MAX, PitEntry, PitIndex, PitPhase};
pub use pit_interface::PitInsert;
pub use prefix_search::FRESH_SEARCH_STEPS_MAX;
pub use records::{
    IN_RECORDS_PER_ENTRY_MAX, InRecord, InRecordInsert, OUT_RECORDS_PER_ENTRY_MAX, OutRecord,
    PIT_TOKEN_LENGTH_MAX,
};

use std::cell::Cell;

use crate::hash_index::HashIndex;
use crate::{NameHasher, Timestamp};
use cs::Cs;
use pit::Pit;

/// PIT-CS composite table of one shard.
///
/// See the crate's README for the order in which a burst calls the `prefetch_*` stages; all of
/// them are hints that may be left out, repeated or given stale keys.
#[derive(Debug)]
pub struct Pcct {
    index: HashIndex,
    pit: Pit,
    cs: Cs,
    absent: AbsentMemo,
}

/// What the last search for PIT entries saw of the Content Store: that nothing is cached under a
/// hash. The search for the Data that follows it then need not read the bucket again.
#[derive(Debug, Default)]
struct AbsentMemo(Cell<Option<u64>>);

impl AbsentMemo {
    /// After a search that saw every item of `hash`.
    #[inline(always)]
    fn note(&self, hash: u64, is_absent: bool) {
        self.0.set(is_absent.then_some(hash));
    }

    /// Whether nothing of `hash` is cached, as far as is known.
    #[inline(always)]
    fn knows(&self, hash: u64) -> bool {
        self.0.get() == Some(hash)
    }

    /// The Content Store gets something.
    #[inline(always)]
    fn forget(&self) {
        self.0.set(None);
    }
}

impl Pcct {
    /// Tables of the given sizes. `hasher` is the one that all keys are made with.
    ///
    /// # Panics
    /// When a size is beyond what the indices can name.
    #[must_use]
    pub fn new(config: &PcctConfig, hasher: NameHasher) -> Self {
        let items = config.pit_entries_max as usize + config.cs_packets_max as usize;
        Self {
            index: HashIndex::new(items),
            pit: Pit::new(config, hasher),
            cs: Cs::new(config, hasher),
            absent: AbsentMemo::default(),
        }
    }

    /// Ends a burst: the memory that its last eviction left for the next Data is free for others.
    pub fn end_burst(&mut self) {
        self.cs.end_burst();
    }

    /// The time at which [`Self::pop_expired`] or [`Self::poll_cs`] next has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        [self.pit.next_deadline(), self.cs.next_deadline()].into_iter().flatten().min()
    }
}

/// Value of the Name that starts the value of a valid Interest or Data.
#[inline(always)]
fn packet_name(wire: &[u8]) -> &[u8] {
    let name = value_start(wire, 0);
    let start = value_start(wire, name);
    let length = match wire.get(name + 1..start) {
        Some(&[length]) => usize::from(length),
        Some(&[_, high, low]) => usize::from(u16::from_be_bytes([high, low])),
        _ => 0,
    };
    wire.get(start..start + length).unwrap_or_default()
}

/// Whether `name` is the value of the Name that starts the value of a valid Interest or Data.
#[inline(always)]
fn packet_has_name(wire: &[u8], name: &[u8]) -> bool {
    let start = value_start(wire, 0);
    // A short name and its length, compared at once.
    match (wire.get(start + 1..start + 2 + name.len()), u8::try_from(name.len())) {
        (Some([length, value @ ..]), Ok(expected)) if *length < 0xFD => {
            *length == expected && value == name
        }
        _ => packet_name(wire) == name,
    }
}

/// Where the value of the element at `start` begins; its type is one byte and its length one or
/// three.
#[inline(always)]
fn value_start(wire: &[u8], start: usize) -> usize {
    match wire.get(start + 1) {
        Some(0xFD) => start + 4,
        _ => start + 2,
    }
}
