//! Blocks of `fib/list`, `rib/list`, `strategy-choice/list` and `cs/info`.

use ndn_packet::tlv;
use ndn_packet::{Name, NameRef};

use super::DatasetItem;
use super::declare::dataset;
use crate::numbers;
use crate::types::{cs_flag, route_flag, route_origin};

dataset! {
    /// One next hop of a [`FibEntry`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct NextHopRecord = NESTED_RECORD {
        /// FaceId.
        pub face_id: u64 = FACE_ID,
        /// Cost; lower is preferred.
        pub cost: u64 = COST,
    }
}

dataset! {
    /// One entry of `fib/list`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FibEntry = DATASET_ITEM {
        /// Prefix.
        pub name: Name = NAME,
        /// Next hops in ascending cost.
        pub next_hops: Vec<NextHopRecord> = NESTED_RECORD,
    }
}

dataset! {
    /// One route of a [`RibEntry`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RouteRecord = NESTED_RECORD {
        /// FaceId.
        pub face_id: u64 = FACE_ID,
        /// Origin: a word such as `app`, or a number.
        pub origin: u64 = ORIGIN as route_origin::WORD,
        /// Cost; lower is preferred.
        pub cost: u64 = COST,
        /// [`route_flag`] bits.
        pub flags: u64 = FLAGS as route_flag::FLAGS,
        /// Time until the route expires, milliseconds; absent: never.
        pub expiration_period_ms: Option<u64> = EXPIRATION_PERIOD,
    }
}

dataset! {
    /// One entry of `rib/list`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RibEntry = DATASET_ITEM {
        /// Prefix.
        pub name: Name = NAME,
        /// Routes in the order of their registration.
        pub routes: Vec<RouteRecord> = NESTED_RECORD,
    }
}

/// Appends a [`FibEntry`] or [`RibEntry`] without an intermediate value: tables are large.
pub(crate) fn append_entry<T: DatasetItem>(
    out: &mut Vec<u8>,
    name: NameRef<'_>,
    records: impl Iterator<Item = T>,
) {
    tlv::append_nested(out, numbers::DATASET_ITEM, |out| {
        tlv::append_name(out, name);
        records.for_each(|record| record.encode(out));
    });
}

dataset! {
    /// One entry of `strategy-choice/list`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct StrategyChoice = DATASET_ITEM {
        /// Prefix.
        pub name: Name = NAME,
        /// Strategy, with version and parameters.
        pub strategy: Name = STRATEGY,
    }
}

dataset! {
    /// `cs/info`.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct CsInfo = DATASET_ITEM {
        /// Capacity, packets.
        pub capacity: u64 = CAPACITY,
        /// [`cs_flag`] bits.
        pub flags: u64 = FLAGS as cs_flag::FLAGS,
        /// Packets held.
        pub entries: u64 = N_CS_ENTRIES,
        /// Interests answered from the Content Store.
        pub hits: u64 = N_HITS,
        /// Interests that the Content Store could not answer.
        pub misses: u64 = N_MISSES,
    }
}
