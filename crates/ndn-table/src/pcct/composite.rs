//! [`Pcct`]: the PIT and the Content Store behind one hash index, as a shard calls them.

use std::sync::Arc;

use ndn_caching::{ObjectScores, PolicyKind};
use ndn_packet::NameRef;
use ndn_types::{Limits, PrincipalIndex, Timestamp};

use super::config::{CsCounters, CsError, PcctConfig, PitError};
use super::cs::{Cs, EraseResult, EraseSearch, NewData};
use super::cs_entry::CsIndex;
use super::cs_replacement::CsReplacement;
use super::data_match::{OnlyMatch, PitMatches};
use super::pit::{Pit, PlainInterest, Victim};
use super::pit_entry::{PitEntry, PitIndex};
use super::records::{InRecord, InRecordSearch, OutRecord, RecordPlace};
use crate::hash_index::HashIndex;
use crate::{DataKey, FaceIndex, InterestKey, Ledger, NameHasher, Resource, Token};

/// PIT-CS composite table of one shard.
///
/// See the crate's README for the order in which a burst calls the `prefetch_*` stages. All of them
/// are hints that may be left out, repeated or given stale keys.
#[derive(Debug)]
pub struct Pcct {
    index: HashIndex,
    pit: Pit,
    pub(super) cs: Cs,
}

impl Pcct {
    /// Tables of the given sizes. `hasher` is the hasher of all keys.
    ///
    /// # Panics
    /// When a size exceeds the range of the indices.
    #[must_use]
    pub fn new(config: &PcctConfig, hasher: NameHasher) -> Self {
        let items = config.pit_entries_max as usize + config.cs_packets_max as usize;
        Self {
            index: HashIndex::new(items),
            pit: Pit::new(config, hasher),
            cs: Cs::new(config, hasher),
        }
    }

    /// Plants a fault: cached Data stay fresh. Returns whether there are any whose freshness ends.
    #[cfg(feature = "planted-faults")]
    pub fn keep_fresh(&mut self, now: Timestamp) -> bool {
        self.cs.keep_fresh(now)
    }

    /// The time at which [`Self::pop_expired`] or [`Self::poll_cs`] next has work.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        [self.pit.next_deadline(), self.cs.next_deadline()].into_iter().flatten().min()
    }
}

/// Prefetch stages of a burst. All are hints that may be left out, repeated or given stale keys.
impl Pcct {
    /// First stage for an Interest.
    #[inline]
    pub fn prefetch_interest_buckets(&self, key: &InterestKey<'_>) {
        self.index.prefetch(key.name_hash());
        if key.has_digest {
            self.index.prefetch(key.data_hash());
        }
        if key.can_be_prefix {
            self.cs.tree.prefetch_search_buckets(key.hashes);
        }
    }

    /// Second stage for an Interest: the entries in its bucket. Returns whether the third stage may
    /// find something.
    #[inline]
    pub fn prefetch_interest_entries(&self, key: &InterestKey<'_>) -> bool {
        let mut has_cached = self.prefetch_entries(key.name_hash());
        if key.has_digest {
            has_cached |= self.prefetch_entries(key.data_hash());
        }
        if key.can_be_prefix {
            self.cs.tree.prefetch_search_nodes(key.hashes);
        }
        has_cached || key.can_be_prefix
    }

    /// Third stage for an Interest: the start of a cached Data.
    #[inline]
    pub fn prefetch_interest_payload(&self, key: &InterestKey<'_>) {
        self.index.for_each(key.data_hash(), |reference| {
            if !Pit::owns(reference) {
                self.cs.prefetch_packet(reference);
            }
        });
        if key.can_be_prefix
            && let Some(entry) = self.cs.tree.likely_entry(&self.cs.entries, key.hashes)
        {
            self.cs.prefetch(entry);
        }
    }

    /// First stage for an Interest without CanBePrefix and without an implicit digest, by the hash of its name.
    #[inline]
    pub fn prefetch_exact_bucket(&self, name_hash: u64) {
        self.index.prefetch(name_hash);
    }

    /// Second stage for such an Interest. Returns whether the third stage may find something.
    #[inline]
    pub fn prefetch_exact_entries(&self, name_hash: u64) -> bool {
        self.prefetch_entries(name_hash)
    }

    /// First stage for a Data, by the hash of its name. Returns whether [`Self::prefetch_prefix_buckets`] is worth calling, too.
    #[inline(always)]
    pub fn prefetch_data_bucket(&self, name_hash: u64) -> bool {
        self.index.prefetch(name_hash);
        self.pit.prefix_lengths.mask != 0
    }

    /// First stage for a Data that carries a PIT token of this shard.
    #[inline(always)]
    pub fn prefetch_entry_of(&self, token: Token) {
        self.pit.prefetch_entry(token.entry);
    }

    /// First stage for a Data whose name has these prefix hashes, while Interests with CanBePrefix are pending.
    #[inline(never)]
    pub fn prefetch_prefix_buckets(&self, hashes: &[u64]) {
        let mut lengths = self.pit.prefix_lengths_below(hashes.len() - 1);
        while lengths != 0 {
            self.index.prefetch(hashes[lengths.trailing_zeros() as usize]);
            lengths &= lengths - 1;
        }
    }

    /// Second stage for a Data that carries no token of this shard: the entries in its bucket. With a token, the first
    /// stage has prefetched the PIT entry already.
    #[inline]
    pub fn prefetch_data_entries(&self, name_hash: u64) {
        self.prefetch_entries(name_hash);
    }

    /// Prefetches the entries in a bucket. Returns whether any of them is cached Data.
    #[inline(always)]
    fn prefetch_entries(&self, hash: u64) -> bool {
        let mut has_cached = false;
        if self.index.excludes(hash) {
            return false;
        }
        self.index.for_each(hash, |reference| {
            if Pit::owns(reference) {
                self.pit.prefetch(reference);
            } else {
                self.cs.prefetch(reference);
                has_cached = true;
            }
        });
        has_cached
    }
}

/// PIT operations.
impl Pcct {
    /// Number of PIT entries.
    #[must_use]
    pub fn pit_len(&self) -> usize {
        self.pit.len()
    }

    /// Maximum number of PIT entries.
    #[must_use]
    #[inline]
    pub fn pit_capacity(&self) -> usize {
        self.pit.capacity()
    }

    /// Number of in-records and out-records beyond the first of their entry.
    #[must_use]
    pub fn extra_record_counts(&self) -> (usize, usize) {
        self.pit.side_counts()
    }

    /// Creates the entry of an Interest for which [`Self::find_interest`] has just returned `None`,
    /// charged to `principal`. `wire` is the whole Interest TLV, of which the entry keeps a copy.
    ///
    /// # Errors
    /// When a limit is reached; nothing is changed then.
    #[inline]
    pub fn insert_new_interest(
        &mut self,
        key: &InterestKey<'_>,
        wire: &[u8],
        principal: PrincipalIndex,
    ) -> Result<PitIndex, PitError> {
        debug_assert!(self.find_interest(key).is_none(), "there is an entry already");
        self.pit.insert(&mut self.index, key, wire, principal)
    }

    /// [`Self::insert_new_interest`] with an in-record, which was renewed now and has a short token. The entry is charged to its
    /// principal, and expires with it. Returns the entry, too.
    ///
    /// # Errors
    /// When a limit is reached; nothing is changed then.
    #[inline(always)]
    pub fn insert_plain_interest(
        &mut self,
        new: &PlainInterest<'_>,
        record: InRecord,
    ) -> Result<(PitIndex, &PitEntry), PitError> {
        self.pit.insert_plain(&mut self.index, new, record)
    }

    /// Whether it is certain that there is neither an entry nor cached Data under the hash of a name.
    #[must_use]
    #[inline(always)]
    pub fn excludes(&self, name_hash: u64) -> bool {
        self.index.excludes(name_hash)
    }

    /// Finds the entry of an Interest: the same name, CanBePrefix and MustBeFresh.
    #[must_use]
    #[inline]
    pub fn find_interest(&self, key: &InterestKey<'_>) -> Option<PitIndex> {
        self.pit.find(&self.index, key)
    }

    /// The entry that a returning token identifies, if its generation is current. The caller must
    /// compare the name, because the token came from the network.
    #[must_use]
    pub fn find_token(&self, token: Token) -> Option<PitIndex> {
        self.pit.find_token(token)
    }

    /// Whether a token of this shard identifies an entry that exists.
    #[must_use]
    #[inline]
    pub fn is_token_of(&self, token: Token, index: PitIndex) -> bool {
        index.0 == token.entry && self.pit.entry(index).generation == token.generation
    }

    /// The token that identifies an entry upstream.
    #[must_use]
    pub fn token(&self, index: PitIndex, shard: u8) -> Token {
        self.pit.token(index, shard)
    }

    /// Writes to `found` every entry that a Data satisfies: those of its own name, those of its
    /// full name, and those with CanBePrefix of each shorter name. `digest` computes the SHA-256 of
    /// the packet; it is called only if an entry may be pending for an implicit digest of this
    /// name.
    #[inline]
    pub fn find_pit_matches(
        &self,
        key: &DataKey<'_>,
        digest: impl FnOnce() -> [u8; 32],
        found: &mut PitMatches,
    ) {
        self.pit.matches(&self.index, key, digest, found);
    }

    /// The entry that a Data satisfies, if it is certain without a search that there is exactly one and that no Data of the
    /// name is cached: the usual case.
    #[must_use]
    #[inline(always)]
    pub fn find_only_match(&self, key: &DataKey<'_>) -> Option<OnlyMatch> {
        self.pit.only_match(&self.index, key)
    }

    /// An entry.
    #[must_use]
    #[inline]
    pub fn entry(&self, index: PitIndex) -> &PitEntry {
        self.pit.entry(index)
    }

    /// An entry, to change the fields of the strategy and the forwarder.
    #[inline]
    pub fn entry_mut(&mut self, index: PitIndex) -> &mut PitEntry {
        self.pit.entry_mut(index)
    }

    /// The whole packet of the Interest that created the entry.
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

    /// Number of in-records of all entries.
    #[must_use]
    pub fn in_records_len(&self) -> usize {
        self.pit.in_records_len
    }

    /// The in-records of an entry.
    #[inline]
    pub fn in_records(&self, index: PitIndex) -> impl Iterator<Item = &InRecord> {
        self.pit.in_records(index)
    }

    /// The in-record of a face.
    #[inline]
    pub fn in_record_mut(&mut self, index: PitIndex, face: FaceIndex) -> Option<&mut InRecord> {
        self.pit.in_record_mut(index, face)
    }

    /// The PIT token of the downstream's last Interest; empty for none.
    #[must_use]
    #[inline]
    pub fn token_bytes<'a>(&'a self, record: &'a InRecord) -> &'a [u8] {
        self.pit.token_bytes(record)
    }

    /// Where the in-record of a face is.
    #[must_use]
    #[inline]
    pub fn find_in_record(&self, index: PitIndex, face: FaceIndex) -> Option<RecordPlace> {
        self.pit.find_in_record(index, face)
    }

    /// Searches the in-records of an entry for an Interest that would have the in-record `new`.
    #[must_use]
    #[inline]
    pub fn search_in_records(&self, index: PitIndex, new: &InRecord) -> InRecordSearch {
        self.pit.search_in_records(index, new)
    }

    /// Whether the in-record in a place has a token of more than 8 bytes.
    #[must_use]
    pub fn has_long_token(&self, index: PitIndex, place: RecordPlace) -> bool {
        self.pit.in_record_at(index, place).has_long_token()
    }

    /// Renews the in-record in a place, and charges it to the principal of `record`.
    ///
    /// # Errors
    /// [`PitError::TokensFull`]. Nothing is changed then: the record keeps its Nonce, its lifetime and its token.
    #[inline]
    pub fn renew_in_record(
        &mut self,
        index: PitIndex,
        place: RecordPlace,
        record: InRecord,
        token: &[u8],
    ) -> Result<(), PitError> {
        self.pit.renew_in_record(index, place, record, token)
    }

    /// Adds the in-record of a face that has none. The first one of an entry determines who is charged for it.
    ///
    /// # Errors
    /// [`PitError::RecordsFull`] and [`PitError::TokensFull`]; nothing is changed then.
    #[inline]
    pub fn add_in_record(
        &mut self,
        index: PitIndex,
        record: InRecord,
        token: &[u8],
    ) -> Result<RecordPlace, PitError> {
        self.pit.add_in_record(index, record, token)
    }

    /// Charges an entry to the principal of one of its in-records.
    #[inline]
    pub fn charge_to(&mut self, index: PitIndex, place: RecordPlace) {
        self.pit.charge_to(index, place);
    }

    /// Charges an entry to the principal of the in-record that expires last, and returns when it does;
    /// `None` if there is no in-record.
    #[cold]
    pub fn charge_to_latest(&mut self, index: PitIndex) -> Option<Timestamp> {
        let (place, expiry) = self.pit.latest_in_record(index)?;
        self.pit.charge_to(index, place);
        Some(expiry)
    }

    /// Removes the in-record of `face`; returns false when there was none.
    pub fn remove_in_record(&mut self, index: PitIndex, face: FaceIndex) -> bool {
        self.pit.remove_in_record(index, face)
    }

    /// The in-record after the one in a place; the first without a place.
    #[must_use]
    pub fn next_in_record(
        &self,
        index: PitIndex,
        after: Option<RecordPlace>,
    ) -> Option<(RecordPlace, InRecord)> {
        self.pit.next_in_record(index, after)
    }

    /// Removes the in-records for which `keep` returns false; returns their number.
    pub fn retain_in_records(
        &mut self,
        index: PitIndex,
        keep: impl Fn(&Ledger, &InRecord) -> bool,
    ) -> usize {
        self.pit.retain_in_records(index, keep)
    }

    /// Removes all in-records.
    pub fn clear_in_records(&mut self, index: PitIndex) {
        self.pit.clear_in_records(index);
    }

    /// The out-records of an entry.
    #[inline]
    pub fn out_records(&self, index: PitIndex) -> impl Iterator<Item = &OutRecord> {
        self.pit.out_records(index)
    }

    /// The out-record of a face.
    #[inline]
    pub fn out_record_mut(&mut self, index: PitIndex, face: FaceIndex) -> Option<&mut OutRecord> {
        self.pit.out_record_mut(index, face)
    }

    /// Adds the out-record of `face` to an entry without out-records; returns false if it has any.
    #[inline(always)]
    pub fn insert_first_out_record(
        &mut self,
        index: PitIndex,
        face: FaceIndex,
        nonce: u32,
        lifetime_ms: u32,
        now: Timestamp,
    ) -> bool {
        let record = OutRecord { face, nonce, renewed: now, lifetime_ms, ..OutRecord::EMPTY };
        self.pit.insert_first_out_record(index, record)
    }

    /// Adds or renews the out-record of `face`. A renewed record loses its Nack and keeps its
    /// `strategy_state` and `measured_depth`. Returns the Nonce that a renewed record had.
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
    ) -> Result<Option<u32>, PitError> {
        let record = OutRecord { face, nonce, renewed: now, lifetime_ms, ..OutRecord::EMPTY };
        self.pit.insert_out_record(index, record)
    }

    /// Removes the out-record of `face`; returns false when there was none.
    pub fn remove_out_record(&mut self, index: PitIndex, face: FaceIndex) -> bool {
        self.pit.remove_out_record(index, face)
    }

    /// Removes all out-records.
    pub fn clear_out_records(&mut self, index: PitIndex) {
        self.pit.clear_out_records(index);
    }

    /// Sets the time at which [`Self::pop_expired`] returns the entry.
    #[inline]
    pub fn set_expiry(&mut self, index: PitIndex, deadline: Timestamp, now: Timestamp) {
        self.pit.set_expiry(index, deadline, now);
    }

    /// Removes an entry with all its records, and invalidates its index.
    #[inline]
    pub fn erase(&mut self, index: PitIndex) {
        self.pit.erase(&mut self.index, index);
    }

    /// The next entry whose expiry has passed, for the caller to erase (or to set a new expiry; it
    /// is not returned again otherwise). Each timer record checked takes one from `budget`; `None`
    /// with `budget` at 0 means that more may be due.
    ///
    /// An entry is returned at most about 1 ms after its expiry, or at most 250 ms later than that
    /// when its slot had its deadline moved earlier repeatedly.
    #[inline]
    pub fn pop_expired(&mut self, now: Timestamp, budget: &mut u32) -> Option<PitIndex> {
        self.pit.pop_expired(now, budget)
    }
}

/// Charges of the PIT.
impl Pcct {
    /// The places of the tables of the PIT that each principal holds.
    #[must_use]
    #[inline]
    pub fn ledger(&self) -> &Ledger {
        &self.pit.ledger
    }

    /// The ledger, to attach and detach principals.
    pub fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.pit.ledger
    }

    /// Charges the place of an entry in the table of short-prefix Interests.
    pub fn note_published(&mut self, index: PitIndex) {
        self.pit.note_published(index);
    }

    /// The next thing of a table that is charged to a principal above its limit, and whose end does not
    /// end the entry `keep`. Each place of the table that is checked takes one from `budget`; the next
    /// call continues behind it. `None` with `budget` above 0 means that there is none.
    #[cold]
    pub fn next_victim(
        &mut self,
        resource: Resource,
        limits: Limits,
        keep: Option<PitIndex>,
        budget: &mut u32,
    ) -> Option<Victim> {
        self.pit.next_victim(resource, limits, keep, budget)
    }

    /// Number of slots of entries, some of them free: the range of [`Self::entry_in_slot`].
    #[must_use]
    pub fn pit_slots(&self) -> usize {
        self.pit.slot_count()
    }

    /// The entry in a slot, for passes over all entries.
    #[must_use]
    pub fn entry_in_slot(&self, slot: usize) -> Option<PitIndex> {
        self.pit.entry_in_slot(slot)
    }

    /// Whether the ledger agrees with the entries and records that exist. Visits all of them: for
    /// tests.
    #[must_use]
    pub fn ledger_is_exact(&self) -> bool {
        self.pit.ledger.agrees_with(&self.pit.recount())
    }
}

/// Content Store operations.
impl Pcct {
    /// Number of cached packets.
    #[must_use]
    pub fn cs_len(&self) -> usize {
        self.cs.len()
    }

    /// Capacity, in packets.
    #[must_use]
    pub fn cs_capacity(&self) -> usize {
        self.cs.capacity()
    }

    /// Sets the capacity in packets and returns the new value: at most the size the table was built
    /// with. [`Self::poll_cs`] and insertions evict what exceeds it.
    pub fn set_cs_capacity(&mut self, packets: usize) -> usize {
        self.cs.set_capacity(packets)
    }

    /// Sets the capacity in bytes, at most the size the table was built with.
    pub fn set_cs_bytes_max(&mut self, bytes: usize) {
        self.cs.set_bytes_max(bytes);
    }

    /// Eviction policy.
    #[must_use]
    pub fn cs_policy(&self) -> PolicyKind {
        self.cs.policy()
    }

    /// Puts another policy in force, built for at least [`PcctConfig::cs_packets_max`] packets. Nothing is evicted: what is
    /// cached is handed over in the order in which the former policy would evict it, some of it now and the rest by
    /// [`Self::poll_cs`].
    pub fn set_cs_policy(&mut self, new: CsReplacement, now: Timestamp) {
        self.cs.set_replacement(new, now);
    }

    /// Gives the policy in force other scores, if it orders objects by scores from outside.
    pub fn set_cs_scores(&mut self, scores: Arc<ObjectScores>) {
        self.cs.set_scores(scores);
    }

    /// Enables or disables admission of Data.
    pub fn set_cs_admit(&mut self, admit: bool) {
        self.cs.admit = admit;
    }

    /// Enables or disables serving; while disabled, every lookup is a miss.
    pub fn set_cs_serve(&mut self, serve: bool) {
        self.cs.serve = serve;
    }

    /// Whether Data is admitted to the Content Store, has room there, and is served from it.
    #[must_use]
    pub fn is_caching(&self) -> bool {
        self.cs.admit && self.cs.serve && self.cs.capacity > 0
    }

    /// Counters.
    #[must_use]
    pub fn cs_counters(&self) -> CsCounters {
        self.cs.counters
    }

    /// Bytes of memory that hold cached packets.
    #[must_use]
    pub fn cs_bytes_in_use(&self) -> usize {
        self.cs.bytes_in_use()
    }

    /// Number of name prefixes at which the names of cached packets branch.
    #[must_use]
    pub fn cs_prefix_node_count(&self) -> usize {
        self.cs.tree.len()
    }

    /// Number of Data in the queues: unsolicited, stale and other Data. With LRU only the last is counted; other
    /// policies but priority FIFO use queues only until a change is complete.
    #[must_use]
    pub fn cs_queue_lengths(&self) -> [u32; 3] {
        self.cs.queue_lengths()
    }

    /// Every cached packet: those of the queues in eviction order, then others. Takes time proportional to the number of packets.
    pub fn cached_packets(&self) -> impl Iterator<Item = &[u8]> {
        self.cs.packets()
    }

    /// The cached Data that satisfies an Interest. `digest` computes
    /// the SHA-256 of a packet; it is called only for an Interest with an implicit digest, and once
    /// per cached packet.
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

    /// Inserts a copy of a Data, evicting by policy if necessary. `wire` is the whole Data TLV;
    /// `freshness_ms` its FreshnessPeriod, 0 when absent; `solicited` whether a PIT entry was
    /// pending for it. A packet that is cached already is refreshed.
    ///
    /// # Errors
    /// When the Data is not cached; other Data may have been evicted nevertheless.
    #[inline(never)]
    pub fn insert_data(
        &mut self,
        key: &DataKey<'_>,
        wire: &[u8],
        freshness_ms: u64,
        solicited: bool,
        now: Timestamp,
    ) -> Result<CsIndex, CsError> {
        let arrival = NewData { wire, freshness_ms, solicited };
        self.cs.insert(&mut self.index, key, &arrival, now)
    }

    /// Removes all that an entry holds but its place, for [`Self::replace_by_data`].
    pub fn strip(&mut self, index: PitIndex) {
        self.pit.strip_others(index);
    }

    /// Erases the entry that a Data satisfies, and caches the Data in its place of the index, as by [`Self::erase`] and
    /// [`Self::insert_data`]. An entry without an [only in-record](PitEntry::only_in_record) has to be
    /// [stripped](Self::strip) before.
    ///
    /// # Errors
    /// When the Data is not cached; other Data may have been evicted nevertheless.
    #[inline(always)]
    pub fn replace_by_data(
        &mut self,
        only: OnlyMatch,
        key: &DataKey<'_>,
        wire: &[u8],
        freshness_ms: u64,
        now: Timestamp,
    ) -> Result<CsIndex, CsError> {
        self.pit.vacate(only.entry);
        let arrival = NewData { wire, freshness_ms, solicited: true };
        self.cs.insert_in_place(&mut self.index, only.place, key, arrival, now)
    }

    /// Erases up to `limit` Data whose name starts with the name of `key`. A call searches a part of the Content Store
    /// and erases what it finds; `search` says which part is next. Data that arrives between the calls may be erased or
    /// not.
    pub fn erase_data(
        &mut self,
        key: &DataKey<'_>,
        search: &mut EraseSearch,
        limit: usize,
    ) -> EraseResult {
        self.cs.erase(&mut self.index, key, search, limit)
    }

    /// Up to `limit` steps of background work: moving Data that became stale, evicting after the
    /// capacity was lowered, handing Data over after a change of policy. Returns true when more work is due.
    pub fn poll_cs(&mut self, now: Timestamp, limit: usize) -> bool {
        self.cs.poll(&mut self.index, now, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PREFIX_HASHES_MAX;
    use crate::pcct::packet_name::packet_name;

    fn hasher() -> NameHasher {
        NameHasher::new(*b"key of the tests")
    }

    fn value_of(components: &[u8]) -> Vec<u8> {
        components.iter().flat_map(|&component| [8, 1, component]).collect()
    }

    fn hashes_of(value: &[u8]) -> Vec<u64> {
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let count = hasher().hash_value_prefixes(value, &mut hashes).unwrap();
        hashes[..count].to_vec()
    }

    fn insert(pcct: &mut Pcct, components: &[u8]) {
        let value = value_of(components);
        let hashes = hashes_of(&value);
        let length = u8::try_from(value.len()).unwrap();
        let wire = [&[6, length + 2, 7, length][..], &value].concat();
        let key = DataKey::new(NameRef::from_value(&value).unwrap(), &hashes);
        pcct.insert_data(&key, &wire, 0, true, Timestamp::from_millis(1)).unwrap();
    }

    #[test]
    fn search_skips_names_that_diverge_from_the_prefix() {
        let mut pcct = Pcct::new(&PcctConfig::with_capacity(16, 1000, Timestamp::ZERO), hasher());
        for segment in 0..200 {
            insert(&mut pcct, &[b'a', b'c', b'v', segment]);
        }
        let Pcct { cs, index, .. } = &mut pcct;
        (0..200).for_each(|slot| cs.move_to_tree(index, slot));
        for (prefix, is_found) in [
            (&b"a"[..], true),
            (b"ac", true),
            (b"acv", true),
            (b"ab", false),
            (b"abv", false),
            (b"acw", false),
            (b"b", false),
        ] {
            let value = value_of(prefix);
            let mut compared = 0;
            let cs = &pcct.cs;
            let found = cs.tree.find_below(&cs.entries, &hashes_of(&value), None, |slot| {
                compared += 1;
                packet_name(cs.packet(slot)).starts_with(&value)
            });
            assert_eq!(found.is_some(), is_found, "{prefix:?}");
            assert!(compared <= 2, "{compared} names compared for {prefix:?}");
        }
    }
}
