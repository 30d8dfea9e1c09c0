//! PIT and Content Store of one shard, in one hash table.
//!
//! | module | what it holds |
//! |---|---|
//! | `config` | [`PcctConfig`], [`PitError`], [`CsError`], [`CsCounters`] |
//! | `composite` | [`Pcct`]: what a shard calls, with the prefetch stages of a burst |
//! | `pit_entry`, `records` | [`PitEntry`], [`InRecord`], [`OutRecord`] |
//! | `interest_store` | Interests that are too long for their entry |
//! | `packet_name` | the name in the bytes of a packet |
//! | `pit` | the PIT: find, insert, erase, expire, records, Data match |
//! | `data_match` | [`PitMatches`], and the filters that show quickly that no entry matches |
//! | `cs_entry` | the 64-byte header of a cached Data and the eviction queues |
//! | `cs` | the Content Store: find, insert, evict, erase |
//! | `cs_replacement` | [`CsReplacement`]: the policy in force |
//! | `cs_policy` | policies of `ndn-caching`, and the change of policy at run time |
//! | `arrival_log` | CanBePrefix: the latest arrivals |
//! | `prefix_tree` | CanBePrefix: Data that has been cached for longer |
//! | `disk` | the disk tier of the Content Store |
//!
//! An Interest and the Data that answers it have the same name and so the same hash: the bucket
//! that the Interest brought into the cache holds both the pending entry and, later, the cached
//! Data.

mod arrival_log;
mod composite;
mod config;
mod cs;
mod cs_entry;
mod cs_policy;
mod cs_replacement;
mod data_match;
mod disk;
mod interest_store;
mod packet_name;
mod pit;
mod pit_entry;
mod prefix_tree;
mod records;

pub use composite::Pcct;
pub use config::{CsCounters, CsError, PcctConfig, PitError};
pub use cs::{
    CS_VARIANTS_PER_NAME_MAX, EVICTIONS_PER_INSERT_MAX, EraseRest, EraseResult, EraseSearch,
};
pub use cs_entry::CsIndex;
pub use cs_replacement::{CsObjects, CsReplacement};
pub use data_match::{OnlyMatch, PitMatches};
pub use disk::DiskLookup;
pub use pit::{PlainInterest, VICTIM_STEPS, Victim};
pub use pit_entry::{PIT_INTEREST_INLINE_MAX, PitEntry, PitIndex, PitPhase, long_blocks};
pub use records::{
    IN_RECORDS_PER_ENTRY_MAX, InRecord, InRecordSearch, OutRecord, PIT_TOKEN_INLINE_MAX,
    RecordPlace,
};
