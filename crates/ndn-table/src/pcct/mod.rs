//! PIT and Content Store of one shard, in one hash table.
//!
//! | module | what it holds |
//! |---|---|
//! | `config` | [`PcctConfig`], [`PitError`], [`CsError`], [`CsCounters`] |
//! | `pit_entry`, `records` | [`PitEntry`], [`InRecord`], [`OutRecord`] |
//! | `pit` | insert, find, match a Data, expire |
//! | `cs_entry` | the 64-byte header of a cached Data and the eviction queues |
//! | `cs` | find, insert, evict |
//! | `prefix_tree` | CanBePrefix |
//! | `erase` | erase by prefix |
//!
//! An Interest and the Data that answers it have the same name and so the same hash: the bucket
//! that the Interest brought into the cache holds both the pending entry and, later, the cached
//! Data.

mod config;
mod cs;
mod cs_entry;
mod erase;
mod pit;
mod pit_entry;
mod prefix_tree;
mod records;

pub use config::{CsCounters, CsError, CsPolicy, PcctConfig, PitError};
pub use cs::{CACHED_PACKET_LENGTH_MAX, CS_VARIANTS_PER_NAME_MAX, EVICTIONS_PER_INSERT_MAX};
pub use cs_entry::{CachedWire, CsIndex};
pub use erase::EraseResult;
pub use pit::{PIT_MATCHES_MAX, PitMatches};
pub use pit_entry::{PitEntry, PitIndex};
pub use prefix_tree::FRESH_SEARCH_STEPS_MAX;
pub use records::{
    IN_RECORDS_PER_ENTRY_MAX, InRecord, OUT_RECORDS_PER_ENTRY_MAX, OutRecord, PIT_TOKEN_LENGTH_MAX,
};

use ndn_packet::NameRef;

use crate::hash_index::HashIndex;
use crate::{DataKey, FaceIndex, InterestKey, Timestamp, Token};
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
}

/// What [`Pcct::insert_interest`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PitInsert {
    /// The entry of the Interest.
    pub index: PitIndex,
    /// Whether the entry was made by this call; then it has no records and no expiry yet.
    pub is_new: bool,
}

impl Pcct {
    /// Tables of the given sizes.
    ///
    /// # Panics
    /// When a size is beyond what the indices can name.
    #[must_use]
    pub fn new(config: &PcctConfig) -> Self {
        let items = config.pit_entries_max as usize + config.cs_packets_max as usize;
        Self { index: HashIndex::new(items), pit: Pit::new(config), cs: Cs::new(config) }
    }

    /// Ends a burst: bytes of cached Data handed out in it may be used again.
    pub fn end_burst(&mut self) {
        self.cs.end_burst();
    }

    /// The time at which [`Self::pop_expired`] or [`Self::poll_cs`] next has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        [self.pit.next_deadline(), self.cs.next_deadline()].into_iter().flatten().min()
    }
}

/// Stages of a burst.
impl Pcct {
    /// First stage for an Interest.
    #[inline]
    pub fn prefetch_interest_buckets(&self, key: &InterestKey<'_>) {
        self.index.prefetch(key.table_hash());
        if key.can_be_prefix {
            self.cs.tree.prefetch_bucket(key.table_hash());
        }
    }

    /// Second stage for an Interest: the entries that its bucket names.
    #[inline]
    pub fn prefetch_interest_entries(&self, key: &InterestKey<'_>) {
        self.prefetch_entries(key.table_hash());
        if key.can_be_prefix {
            self.cs.tree.prefetch_node(key.table_hash());
        }
    }

    /// Third stage for an Interest: the start of a cached Data.
    #[inline]
    pub fn prefetch_interest_payload(&self, key: &InterestKey<'_>) {
        self.index.for_each(key.table_hash(), |reference| {
            if !Pit::owns(reference) {
                self.cs.prefetch_packet(reference);
            }
        });
        if key.can_be_prefix
            && let Some(entry) = self.cs.tree.newest_entry(key.table_hash(), key.depth())
        {
            self.cs.prefetch(entry);
        }
    }

    /// First stage for a Data. `token` is the PIT token it carries, if it is one of this shard's.
    #[inline]
    pub fn prefetch_data_buckets(&self, key: &DataKey<'_>, token: Option<Token>) {
        self.index.prefetch(key.name_hash());
        if let Some(token) = token {
            self.pit.prefetch_entry(token.entry);
        }
        let depth = key.hashes.len() - 1;
        self.cs.tree.prefetch_bucket(key.hashes[depth.saturating_sub(1)]);
        let mut lengths = self.pit.prefix_lengths_below(depth);
        while lengths != 0 {
            self.index.prefetch(key.hashes[lengths.trailing_zeros() as usize]);
            lengths &= lengths - 1;
        }
    }

    /// Second stage for a Data: the entries that its buckets name.
    #[inline]
    pub fn prefetch_data_entries(&self, key: &DataKey<'_>) {
        self.prefetch_entries(key.name_hash());
        let depth = key.hashes.len() - 1;
        self.cs.tree.prefetch_node(key.hashes[depth.saturating_sub(1)]);
    }

    #[inline(always)]
    fn prefetch_entries(&self, hash: u64) {
        self.index.for_each(hash, |reference| {
            if Pit::owns(reference) {
                self.pit.prefetch(reference);
            } else {
                self.cs.prefetch(reference);
            }
        });
    }
}

/// The PIT.
impl Pcct {
    /// PIT entries in use.
    #[must_use]
    pub fn pit_len(&self) -> usize {
        self.pit.len()
    }

    /// In-records and out-records beyond the first of their entry.
    #[must_use]
    pub fn extra_record_counts(&self) -> (usize, usize) {
        self.pit.side_counts()
    }

    /// Finds the entry of an Interest (same name, CanBePrefix and MustBeFresh) or makes one with a
    /// copy of the packet. `wire` is the whole Interest TLV.
    ///
    /// # Errors
    /// When a limit is reached; nothing is changed then.
    #[inline]
    pub fn insert_interest(
        &mut self,
        key: &InterestKey<'_>,
        wire: &[u8],
    ) -> Result<PitInsert, PitError> {
        if let Some(index) = self.pit.find(&self.index, key) {
            return Ok(PitInsert { index, is_new: false });
        }
        let index = self.pit.insert(&mut self.index, key, wire)?;
        Ok(PitInsert { index, is_new: true })
    }

    /// Finds the entry of an Interest.
    #[must_use]
    #[inline]
    pub fn find_interest(&self, key: &InterestKey<'_>) -> Option<PitIndex> {
        self.pit.find(&self.index, key)
    }

    /// The entry that a returning token names, if it is still that one. Whoever uses it compares
    /// the name, because the token came from the network.
    #[must_use]
    pub fn find_token(&self, token: Token) -> Option<PitIndex> {
        self.pit.find_token(token)
    }

    /// The token that names an entry upstream.
    #[must_use]
    pub fn token(&self, index: PitIndex, shard: u8) -> Token {
        self.pit.token(index, shard)
    }

    /// Writes to `found` every entry that a Data satisfies: those of its own name, those of its
    /// full name, and those with CanBePrefix of each shorter name. `digest` computes the SHA-256
    /// of the packet and is called only if an entry asks for an implicit digest of this name.
    #[inline]
    pub fn find_pit_matches(
        &self,
        key: &DataKey<'_>,
        digest: impl FnOnce() -> [u8; 32],
        found: &mut PitMatches,
    ) {
        self.pit.matches(&self.index, key, digest, found);
    }

    /// An entry.
    #[must_use]
    #[inline]
    pub fn entry(&self, index: PitIndex) -> &PitEntry {
        self.pit.entry(index)
    }

    /// An entry, to set what belongs to the strategy and the forwarder.
    #[inline]
    pub fn entry_mut(&mut self, index: PitIndex) -> &mut PitEntry {
        self.pit.entry_mut(index)
    }

    /// The Interest that made the entry, the whole packet.
    #[must_use]
    #[inline]
    pub fn interest(&self, index: PitIndex) -> &[u8] {
        self.pit.interest(index)
    }

    /// Name of the Interest.
    #[must_use]
    #[inline]
    pub fn interest_name(&self, index: PitIndex) -> NameRef<'_> {
        self.pit.name(index)
    }

    /// Downstreams that wait.
    #[inline]
    pub fn in_records(&self, index: PitIndex) -> impl Iterator<Item = &InRecord> {
        self.pit.in_records(index)
    }

    /// The in-record of a face.
    #[inline]
    pub fn in_record_mut(&mut self, index: PitIndex, face: FaceIndex) -> Option<&mut InRecord> {
        self.pit.in_record_mut(index, face)
    }

    /// The PIT token that came with the downstream's last Interest, empty for none.
    #[must_use]
    #[inline]
    pub fn token_bytes<'a>(&'a self, record: &'a InRecord) -> &'a [u8] {
        self.pit.token_bytes(record)
    }

    /// Adds the in-record of `face`, or renews it.
    ///
    /// # Errors
    /// [`PitError::RecordsFull`], and no record was added; [`PitError::TokensFull`], and a record
    /// that was there before was renewed without a token.
    #[inline]
    pub fn insert_in_record(
        &mut self,
        index: PitIndex,
        face: FaceIndex,
        nonce: u32,
        lifetime_ms: u32,
        now: Timestamp,
        token: &[u8],
    ) -> Result<(), PitError> {
        let record = InRecord::new(face, nonce, lifetime_ms, now);
        self.pit.insert_in_record(index, record, token)
    }

    /// Removes the in-record of `face`; false when there was none.
    pub fn remove_in_record(&mut self, index: PitIndex, face: FaceIndex) -> bool {
        self.pit.remove_in_record(index, face)
    }

    /// Removes all in-records.
    pub fn clear_in_records(&mut self, index: PitIndex) {
        self.pit.clear_in_records(index);
    }

    /// Upstreams that were asked.
    #[inline]
    pub fn out_records(&self, index: PitIndex) -> impl Iterator<Item = &OutRecord> {
        self.pit.out_records(index)
    }

    /// The out-record of a face.
    #[inline]
    pub fn out_record_mut(&mut self, index: PitIndex, face: FaceIndex) -> Option<&mut OutRecord> {
        self.pit.out_record_mut(index, face)
    }

    /// Adds the out-record of `face`, or renews it, which forgets its Nack and keeps its
    /// `strategy_state`.
    ///
    /// # Errors
    /// [`PitError::RecordsFull`].
    #[inline]
    pub fn insert_out_record(
        &mut self,
        index: PitIndex,
        face: FaceIndex,
        nonce: u32,
        lifetime_ms: u32,
        now: Timestamp,
    ) -> Result<(), PitError> {
        let record = OutRecord { face, nonce, renewed: now, lifetime_ms, ..OutRecord::EMPTY };
        self.pit.insert_out_record(index, record)
    }

    /// Removes the out-record of `face`; false when there was none.
    pub fn remove_out_record(&mut self, index: PitIndex, face: FaceIndex) -> bool {
        self.pit.remove_out_record(index, face)
    }

    /// Removes all out-records.
    pub fn clear_out_records(&mut self, index: PitIndex) {
        self.pit.clear_out_records(index);
    }

    /// Sets when [`Self::pop_expired`] returns the entry.
    #[inline]
    pub fn set_expiry(&mut self, index: PitIndex, deadline: Timestamp, now: Timestamp) {
        self.pit.set_expiry(index, deadline, now);
    }

    /// Removes an entry with all its records. The index names nothing afterwards.
    #[inline]
    pub fn erase(&mut self, index: PitIndex) {
        self.pit.erase(&mut self.index, index);
    }

    /// The next entry whose expiry has passed, for the caller to erase (or to set a new expiry; it
    /// is not returned again otherwise). Each timer record that is looked at takes one from
    /// `budget`; `None` with `budget` at 0 means that more may be due.
    ///
    /// An entry comes at most about 1 ms after its expiry, and at most 8 s late when its slot has
    /// had its deadline moved earlier again and again.
    #[inline]
    pub fn pop_expired(&mut self, now: Timestamp, budget: &mut u32) -> Option<PitIndex> {
        self.pit.pop_expired(now, budget)
    }
}

/// The Content Store.
impl Pcct {
    /// Cached packets.
    #[must_use]
    pub fn cs_len(&self) -> usize {
        self.cs.len()
    }

    /// Highest number of cached packets.
    #[must_use]
    pub fn cs_capacity(&self) -> usize {
        self.cs.capacity()
    }

    /// Sets the capacity in packets and returns what it is now: at most what the table was built
    /// for. What is above it is evicted by [`Self::poll_cs`] and by insertions.
    pub fn set_cs_capacity(&mut self, packets: usize) -> usize {
        self.cs.set_capacity(packets)
    }

    /// Sets how many bytes cached packets may take, at most what the table was built for.
    pub fn set_cs_bytes_max(&mut self, bytes: usize) {
        self.cs.set_bytes_max(bytes);
    }

    /// Eviction policy.
    #[must_use]
    pub fn cs_policy(&self) -> CsPolicy {
        self.cs.policy()
    }

    /// Whether Data are admitted.
    #[must_use]
    pub fn cs_admit(&self) -> bool {
        self.cs.admit
    }

    /// Switches admission of Data on or off.
    pub fn set_cs_admit(&mut self, admit: bool) {
        self.cs.admit = admit;
    }

    /// Whether Interests are served.
    #[must_use]
    pub fn cs_serve(&self) -> bool {
        self.cs.serve
    }

    /// Switches serving on or off; off, every lookup is a miss.
    pub fn set_cs_serve(&mut self, serve: bool) {
        self.cs.serve = serve;
    }

    /// Hits, misses, insertions, evictions.
    #[must_use]
    pub fn cs_counters(&self) -> CsCounters {
        self.cs.counters
    }

    /// Bytes of memory that hold cached packets.
    #[must_use]
    pub fn cs_bytes_in_use(&self) -> usize {
        self.cs.bytes_in_use()
    }

    /// Name prefixes indexed above the cached packets.
    #[must_use]
    pub fn cs_prefix_node_count(&self) -> usize {
        self.cs.tree.len()
    }

    /// Unsolicited, stale and other Data cached; only the last is counted under
    /// [`CsPolicy::Lru`].
    #[must_use]
    pub fn cs_queue_lengths(&self) -> [u32; 3] {
        self.cs.queue_lengths()
    }

    /// The cached Data that answers an Interest, counted as a hit or a miss. `digest` computes the
    /// SHA-256 of the packet it is given; it is called only for an Interest with an implicit
    /// digest, and once per cached packet.
    #[inline]
    pub fn find_data(
        &mut self,
        key: &InterestKey<'_>,
        now: Timestamp,
        digest: impl FnMut(&[u8]) -> [u8; 32],
    ) -> Option<CsIndex> {
        self.cs.find(&self.index, key, now, digest)
    }

    /// The whole packet of a cached Data.
    #[must_use]
    #[inline]
    pub fn data(&self, index: CsIndex) -> &[u8] {
        self.cs.packet(index.0)
    }

    /// Where the packet lies, for use until [`Self::end_burst`]. Only for a Data that
    /// [`Self::find_data`] returned in this burst.
    #[must_use]
    pub fn cached_wire(&self, index: CsIndex) -> CachedWire {
        self.cs.cached_wire(index)
    }

    /// The bytes behind [`Self::cached_wire`].
    #[must_use]
    pub fn wire(&self, wire: CachedWire) -> &[u8] {
        self.cs.wire(wire)
    }

    /// Copies a Data into the Content Store, evicting what the policy names. `wire` is the whole
    /// Data TLV; `freshness_ms` its FreshnessPeriod, 0 when absent; `solicited` whether a PIT
    /// entry asked for it. The same packet again counts as arriving now.
    ///
    /// # Errors
    /// When it is not cached; Data may have been evicted for it nevertheless.
    #[inline]
    pub fn insert_data(
        &mut self,
        key: &DataKey<'_>,
        wire: &[u8],
        freshness_ms: u64,
        solicited: bool,
        now: Timestamp,
    ) -> Result<CsIndex, CsError> {
        self.cs.insert(&mut self.index, key, wire, freshness_ms, solicited, now)
    }

    /// Erases up to `limit` Data whose name starts with the name of `key`.
    pub fn erase_data(&mut self, key: &DataKey<'_>, limit: usize) -> EraseResult {
        self.cs.erase(&mut self.index, key, limit)
    }

    /// Up to `limit` steps of what the Content Store does by itself: moving Data whose freshness
    /// has run out, evicting after the capacity was lowered. True when more is to do now.
    pub fn poll_cs(&mut self, now: Timestamp, limit: usize) -> bool {
        self.cs.poll(&mut self.index, now, limit)
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

/// Where the value of the element at `start` begins; its type is one byte and its length one or
/// three.
#[inline(always)]
fn value_start(wire: &[u8], start: usize) -> usize {
    match wire.get(start + 1) {
        Some(0xFD) => start + 4,
        _ => start + 2,
    }
}
