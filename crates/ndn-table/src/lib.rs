//! FIB, PIT and CS composite table, dead nonce list, timer wheel.
//!
//! | module | what it holds |
//! |---|---|
//! | `face_index`, `token` | [`FaceIndex`], [`Token`] |
//! | `ledger` | [`Ledger`]: who holds how much of the PIT |
//! | `name_hash`, `sip`, `key` | [`NameHasher`], [`InterestKey`], [`DataKey`] |
//! | `fib` | [`FibWriter`], [`FibSnapshot`]: routes and strategy choice |
//! | `pcct` | [`Pcct`]: PIT and Content Store |
//! | `dead_nonce_list` | [`DeadNonceList`] |
//! | `ndt` | [`Ndt`]: the shard of a name |
//! | `object_rules` | [`ObjectRules`]: the object that a name belongs to |
//! | `short_prefix_interests` | [`ShortPrefixInterests`]: pending Interests that Data of other shards may satisfy |
//! | `timer_wheel` | [`TimerWheel`] |
//! | `bucket`, `hash_index`, `arena`, `byte_slab` | building blocks of the tables |
#![forbid(unsafe_code)]

mod arena;
mod bucket;
mod byte_slab;
mod dead_nonce_list;
mod face_index;
mod fib;
mod hash_index;
mod key;
mod ledger;
mod name_hash;
mod ndt;
mod object_rules;
mod pcct;
mod short_prefix_interests;
mod sip;
mod timer_wheel;
mod token;

pub use dead_nonce_list::DeadNonceList;
pub use face_index::FaceIndex;
pub use fib::{
    FibConfig, FibEntry, FibError, FibSearch, FibSlot, FibSnapshot, FibWriter, NextHop, StrategyId,
};
pub use key::{DataKey, InterestKey};
pub use ledger::{Ledger, LedgerReport, PrincipalReport, Resource};
pub use name_hash::{NAME_COMPONENTS_MAX, NameHasher, PREFIX_HASHES_MAX};
pub use ndt::{
    NDT_ENTRIES, Ndt, NdtEntry, NdtError, NdtRoute, SHARDS_MAX, SettledEntries, UNSETTLED,
};
pub use object_rules::{NamedObject, OBJECT_RULES_MAX, ObjectDivision, ObjectRules, SegmentBlock};
pub use pcct::{
    CS_VARIANTS_PER_NAME_MAX, CsCounters, CsError, CsIndex, CsObjects, CsReplacement, DiskLookup,
    EVICTIONS_PER_INSERT_MAX, EraseRest, EraseResult, EraseSearch, IN_RECORDS_PER_ENTRY_MAX,
    InRecord, InRecordSearch, OnlyMatch, OutRecord, PIT_INTEREST_INLINE_MAX, PIT_TOKEN_INLINE_MAX,
    Pcct, PcctConfig, PitEntry, PitError, PitIndex, PitMatches, PitPhase, PlainInterest,
    RecordPlace, VICTIM_STEPS, Victim, long_blocks,
};
pub use short_prefix_interests::{ShortPrefixInterests, ShortPrefixInterestsFull};
pub use timer_wheel::{Step, TimerWheel, WheelFull};
pub use token::{TOKEN_LENGTH, Token};
