//! Pending Interest Table: entries, records, expiry, Data match.

use std::collections::BTreeMap;

use ndn_packet::NameRef;
use ndn_types::{Capacity, Limits, PrincipalIndex, Resources as _, Timestamp};

use super::config::{PcctConfig, PitError};
use super::data_match::{DigestWaiters, OnlyMatch, PitMatches, PrefixLengths};
use super::interest_store::{INTEREST_BLOCKS_MAX, InterestStore, StoredInterest};
use super::packet_name::{packet_has_name, packet_name};
use super::pit_entry::{PIT_INTEREST_INLINE_MAX, PitEntry, PitFlags, PitIndex, long_blocks};
use super::records::{
    IN_RECORDS_PER_ENTRY_MAX, InRecord, InRecordSearch, OUT_RECORDS_PER_ENTRY_MAX, OutRecord,
    RecordList, RecordPlace, RecordStore, TokenStore,
};
use crate::arena::{Arena, NONE};
use crate::hash_index::HashIndex;
use crate::name_hash::DIGEST_COMPONENT_LENGTH;
use crate::short_prefix_interests::SHORT_PREFIX_INTERESTS_MAX;
use crate::timer_wheel::{Step, TimerWheel};
use crate::{DataKey, FaceIndex, InterestKey, Ledger, NameHasher, Resource, StrategyId, Token};

/// Marks a reference in the shared index as one to a PIT entry.
pub(super) const PIT_BIT: u32 = 1 << 31;

/// Maximum number of timer records for one slot. Usually there is one; another is needed whenever
/// the slot gets a deadline earlier than all its records.
const TIMERS_PER_ENTRY_MAX: u8 = 3;

/// Maximum distance of a timer record: a longer deadline is reached in several steps, so that stale
/// records of moved or met deadlines leave the wheel soon.
const TIMER_AHEAD_MAX_NANOS: u64 = 8_000_000_000;

/// Maximum distance of the last record that a slot may have. When deadlines are moved earlier
/// still, there is no record left for them, and they are checked when that one is due: at most this
/// late.
const LAST_TIMER_AHEAD_MAX_NANOS: u64 = 250_000_000;

/// The PIT of one shard. It shares the hash index with the Content Store.
#[derive(Debug)]
pub(super) struct Pit {
    pub(super) entries: Arena<PitEntry>,
    pub(super) in_store: RecordStore<InRecord>,
    /// In-records of all entries.
    pub(super) in_records_len: usize,
    pub(super) out_store: RecordStore<OutRecord>,
    pub(super) tokens: TokenStore,
    interests: InterestStore,
    wheel: TimerWheel,
    pub(super) prefix_lengths: PrefixLengths,
    pub(super) digest_waiters: DigestWaiters,
    pub(super) hasher: NameHasher,
    pub(super) ledger: Ledger,
    /// Where [`Self::next_victim`] continues in each table.
    clock_hands: [usize; Resource::COUNT],
    /// A bit for each slot whose entry is in the table of short-prefix Interests.
    published: Box<[u64]>,
}

/// An entry or record to be evicted for others, see [`Pcct::next_victim`](super::Pcct::next_victim).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The PIT entry.
    pub entry: PitIndex,
    /// The face of the in-record or out-record; `None` if it is the entry.
    pub face: Option<FaceIndex>,
}

/// An Interest whose PIT entry is plain at first: with neither CanBePrefix nor an implicit digest, of at most
/// [`PIT_INTEREST_INLINE_MAX`] bytes.
#[derive(Clone, Copy, Debug)]
pub struct PlainInterest<'a> {
    /// The whole packet, of which the entry keeps a copy.
    pub wire: &'a [u8],
    /// Hash of the name.
    pub name_hash: u64,
    /// Number of components of the name.
    pub name_components: u8,
    /// MustBeFresh.
    pub must_be_fresh: bool,
    /// The strategy that forwards it.
    pub strategy: StrategyId,
    /// The upstream that it is sent to at once, which gets an out-record.
    pub upstream: Option<FaceIndex>,
}

/// Where the value of the name begins in an Interest that is stored in its entry.
const INLINE_NAME: usize = 4;

/// Number of places of a table that are checked for each place that is asked for, so that the cost of
/// a packet is bounded. Each table has enough spare places for the requests that check it once; by then
/// all that is above the shares is found.
pub const VICTIM_STEPS: u32 = 256;

/// At most this part of a small table is spare.
const SPARE_PART_MIN: usize = 8;

impl Pit {
    pub(super) fn new(config: &PcctConfig, hasher: NameHasher) -> Self {
        let entries = config.pit_entries_max as usize;
        assert!(config.pit_entries_max <= Token::ENTRY_COUNT_MAX, "a token names 2^24 entries");
        let interests = InterestStore::new(config.pit_bytes_max);
        let extra_records = config.extra_records_max as usize;
        let slots_of_words = entries.div_ceil(64);
        let capacities = Resource::ALL.map(|resource| {
            // Places of each table, the most steps that it takes to check all of them, and the most that
            // an Interest takes.
            let (places, steps, most) = match resource {
                Resource::Entries => (entries, entries, 1),
                Resource::InRecords | Resource::OutRecords | Resource::LongTokens => {
                    (extra_records, extra_records, 1)
                }
                Resource::LongBlocks => (interests.capacity(), entries, INTEREST_BLOCKS_MAX),
                Resource::ShortPrefixes => {
                    let steps = slots_of_words + SHORT_PREFIX_INTERESTS_MAX;
                    (SHORT_PREFIX_INTERESTS_MAX, steps, 1)
                }
            };
            let rounds = steps / VICTIM_STEPS as usize;
            let most = if rounds == 0 { 0 } else { rounds + most as usize - 1 };
            let spare = most.min(places / SPARE_PART_MIN);
            let spare = u32::try_from(spare).unwrap_or(0);
            Capacity::of(places - spare as usize).with_spare(spare)
        });
        Self {
            entries: Arena::new(entries),
            in_store: RecordStore::new(config.extra_records_max as usize),
            in_records_len: 0,
            out_store: RecordStore::new(config.extra_records_max as usize),
            tokens: TokenStore::new(config.extra_records_max as usize),
            interests,
            wheel: TimerWheel::new(entries * usize::from(TIMERS_PER_ENTRY_MAX), config.now),
            prefix_lengths: PrefixLengths::EMPTY,
            digest_waiters: DigestWaiters::new(entries),
            hasher,
            ledger: Ledger::new(capacities, config.reserves),
            clock_hands: [0; Resource::COUNT],
            published: vec![0; slots_of_words].into(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Whether a reference of the index is one to a PIT entry.
    #[inline(always)]
    pub(super) fn owns(reference: u32) -> bool {
        reference & PIT_BIT != 0
    }

    /// Prefetches the lines of an entry that a lookup and an update read.
    #[inline(always)]
    pub(super) fn prefetch(&self, reference: u32) {
        self.prefetch_entry(reference & !PIT_BIT);
    }

    #[inline(always)]
    pub(super) fn prefetch_entry(&self, index: u32) {
        if let Some(entry) = self.entries.slots().get(index as usize) {
            ndn_ring::prefetch_read(entry);
            ndn_ring::prefetch_read(&entry.in_first);
            ndn_ring::prefetch_read(&entry.inline);
        }
    }

    pub(super) fn entry(&self, index: PitIndex) -> &PitEntry {
        &self.entries[index.0]
    }

    pub(super) fn entry_mut(&mut self, index: PitIndex) -> &mut PitEntry {
        &mut self.entries[index.0]
    }

    /// The whole Interest packet of an entry.
    #[inline]
    pub(super) fn interest(&self, index: PitIndex) -> &[u8] {
        self.interest_of(&self.entries[index.0])
    }

    #[inline(always)]
    pub(super) fn interest_of<'a>(&'a self, entry: &'a PitEntry) -> &'a [u8] {
        let length = usize::from(entry.wire_length);
        if entry.stored == StoredInterest::NONE {
            &entry.inline[..length]
        } else {
            self.interests.bytes(entry.stored, length)
        }
    }

    pub(super) fn name(&self, index: PitIndex) -> NameRef<'_> {
        let count = u16::from(self.entries[index.0].name_components);
        NameRef::from_validated(packet_name(self.interest(index)), count)
    }

    /// The entry of an Interest.
    #[inline]
    pub(super) fn find(&self, index: &HashIndex, key: &InterestKey<'_>) -> Option<PitIndex> {
        if index.excludes(key.name_hash()) {
            return None;
        }
        let selectors = selectors_of(key);
        let found = index.find(key.name_hash(), |reference| {
            if !Self::owns(reference) {
                return false;
            }
            let slot = PitIndex(reference & !PIT_BIT);
            let entry = &self.entries[slot.0];
            entry.flags.0 & PitFlags::SELECTORS == selectors
                && packet_has_name(self.interest_of(entry), key.name.value())
        })?;
        Some(PitIndex(found & !PIT_BIT))
    }

    /// Adds a [plain](PitEntry::is_plain) entry.
    #[inline(always)]
    pub(super) fn insert_plain(
        &mut self,
        index: &mut HashIndex,
        new: &PlainInterest<'_>,
        record: InRecord,
    ) -> Result<(PitIndex, &PitEntry), PitError> {
        let PlainInterest { wire, name_hash, name_components, must_be_fresh, .. } = *new;
        debug_assert!(!record.has_long_token());
        if wire.len() > PIT_INTEREST_INLINE_MAX {
            return Err(PitError::TooLong);
        }
        let slot = self.entries.allocate(|| PitEntry::EMPTY).ok_or(PitError::Full)?;
        if index.insert(name_hash, slot | PIT_BIT).is_err() {
            self.entries.release(slot);
            return Err(PitError::IndexFull);
        }
        let entry = &mut self.entries[slot];
        entry.hash = name_hash;
        entry.strategy_state = 0;
        entry.strategy_id = new.strategy.0;
        entry.stored = StoredInterest::NONE;
        entry.principal = record.principal;
        entry.flags =
            PitFlags(PitFlags::IN_USE | (u8::from(must_be_fresh) * PitFlags::MUST_BE_FRESH));
        entry.name_components = name_components;
        #[expect(clippy::cast_possible_truncation, reason = "it fits the entry")]
        let wire_length = wire.len() as u16;
        entry.wire_length = wire_length;
        entry.in_first = record;
        entry.in_list = RecordList::ONE;
        if let Some(face) = new.upstream {
            let InRecord { nonce, renewed, lifetime_ms, .. } = record;
            entry.out_first = OutRecord { face, nonce, renewed, lifetime_ms, ..OutRecord::EMPTY };
            entry.out_list = RecordList::ONE;
        }
        // The record was renewed just now.
        let (expiry, now) = (record.expiry(), record.renewed);
        schedule_expiry(&mut self.wheel, entry, PitIndex(slot), expiry, now);
        self.in_records_len += 1;
        self.ledger.charge(record.principal, Resource::Entries, 1);
        // Last, because a call leaves few registers.
        entry.inline[..wire.len()].copy_from_slice(wire);
        Ok((PitIndex(slot), entry))
    }

    /// Adds an entry without records.
    #[inline]
    pub(super) fn insert(
        &mut self,
        index: &mut HashIndex,
        key: &InterestKey<'_>,
        wire: &[u8],
        principal: PrincipalIndex,
    ) -> Result<PitIndex, PitError> {
        debug_assert_eq!(packet_name(wire), key.name.value());
        let wire_length = u16::try_from(wire.len()).map_err(|_| PitError::TooLong)?;
        let slot = self.entries.allocate(|| PitEntry::EMPTY).ok_or(PitError::Full)?;
        let stored = if wire.len() <= PIT_INTEREST_INLINE_MAX {
            Ok(StoredInterest::NONE)
        } else {
            self.store_interest(slot, wire)
        };
        let stored = match stored {
            Ok(stored) => stored,
            Err(error) => {
                self.entries.release(slot);
                return Err(error);
            }
        };
        if index.insert(key.name_hash(), slot | PIT_BIT).is_err() {
            self.release_interest(stored);
            self.entries.release(slot);
            return Err(PitError::IndexFull);
        }
        let entry = &mut self.entries[slot];
        entry.hash = key.name_hash();
        entry.strategy_state = 0;
        entry.stored = stored;
        entry.principal = principal;
        entry.flags = PitFlags(selectors_of(key) | PitFlags::IN_USE);
        entry.name_components = u8::try_from(key.hashes.len() - 1).unwrap_or(u8::MAX);
        entry.wire_length = wire_length;
        entry.expiry = Timestamp::MAX;
        entry.strategy_id = 0;
        if stored == StoredInterest::NONE {
            entry.inline[..wire.len()].copy_from_slice(wire);
        }
        if key.has_digest {
            self.digest_waiters.add(key.data_hash());
        } else if key.can_be_prefix {
            self.prefix_lengths.add(key.depth());
        }
        self.charge_new(principal, wire.len());
        Ok(PitIndex(slot))
    }

    /// Charges a new entry, with an Interest of this length.
    #[inline(always)]
    fn charge_new(&mut self, principal: PrincipalIndex, wire_length: usize) {
        self.ledger.charge(principal, Resource::Entries, 1);
        if wire_length > PIT_INTEREST_INLINE_MAX {
            self.ledger.charge(principal, Resource::LongBlocks, long_blocks(wire_length));
        }
    }

    #[inline]
    pub(super) fn erase(&mut self, index: &mut HashIndex, slot: PitIndex) {
        let removed = index.remove(self.entries[slot.0].hash, slot.0 | PIT_BIT);
        debug_assert!(removed);
        self.strip_others(slot);
        self.vacate(slot);
    }

    /// [Strips](Self::strip) an entry, unless it is plain.
    #[inline(always)]
    pub(super) fn strip_others(&mut self, slot: PitIndex) {
        if !self.entries[slot.0].is_plain() {
            self.strip(slot);
        }
    }

    /// Ends an entry that is plain or stripped, and not in the index, or will be replaced there.
    #[inline(always)]
    pub(super) fn vacate(&mut self, slot: PitIndex) {
        let entry = &mut self.entries[slot.0];
        debug_assert!(entry.is_plain() || entry.in_list.count == 0, "nothing is left behind");
        debug_assert!(entry.flags.has(PitFlags::IN_USE), "an entry is erased once");
        entry.flags = PitFlags(0);
        entry.generation = entry.generation.wrapping_add(1);
        self.in_records_len -= usize::from(entry.in_list.count);
        // Without further records, there is no chain.
        entry.in_list.count = 0;
        entry.out_list.count = 0;
        self.ledger.release(entry.principal, Resource::Entries, 1);
        self.entries.release(slot.0);
    }

    /// Removes what only some entries have, except flags: more than one record, and what is stored outside of the entry.
    #[inline(never)]
    fn strip(&mut self, slot: PitIndex) {
        let entry = &self.entries[slot.0];
        let (flags, stored, principal) = (entry.flags, entry.stored, entry.principal);
        if flags.has(PitFlags::HAS_DIGEST) {
            self.forget_digest(slot);
        } else if flags.has(PitFlags::CAN_BE_PREFIX) {
            self.prefix_lengths.subtract(usize::from(entry.name_components));
        }
        self.clear_in_records(slot);
        self.clear_out_records(slot);
        if stored != StoredInterest::NONE {
            let blocks = self.entries[slot.0].long_blocks();
            self.ledger.release(principal, Resource::LongBlocks, blocks);
            self.interests.release(stored);
        }
        if flags.has(PitFlags::PUBLISHED) {
            self.published[slot.0 as usize / 64] &= !(1 << (slot.0 % 64));
            self.ledger.release(principal, Resource::ShortPrefixes, 1);
        }
    }

    /// Stores an Interest that is too long for its entry.
    fn store_interest(&mut self, slot: u32, wire: &[u8]) -> Result<StoredInterest, PitError> {
        let Self { interests, entries, .. } = self;
        interests.insert(slot, wire, |other, stored| entries[other].stored = stored)
    }

    #[cold]
    fn forget_digest(&mut self, slot: PitIndex) {
        let name = packet_name(self.interest(slot));
        let data_name = &name[..name.len() - DIGEST_COMPONENT_LENGTH];
        self.digest_waiters.subtract(self.hasher.hash_value(data_name));
    }

    fn release_interest(&mut self, stored: StoredInterest) {
        if stored != StoredInterest::NONE {
            self.interests.release(stored);
        }
    }

    pub(super) fn token(&self, slot: PitIndex, shard: u8) -> Token {
        self.entries[slot.0].token(slot, shard)
    }

    pub(super) fn find_token(&self, token: Token) -> Option<PitIndex> {
        let entry = self.entries.slots().get(token.entry as usize)?;
        let is_alive = entry.generation == token.generation && entry.flags.has(PitFlags::IN_USE);
        is_alive.then_some(PitIndex(token.entry))
    }

    #[inline]
    pub(super) fn set_expiry(&mut self, slot: PitIndex, deadline: Timestamp, now: Timestamp) {
        schedule_expiry(&mut self.wheel, &mut self.entries[slot.0], slot, deadline, now);
    }

    /// Takes timer steps until an entry has expired, nothing is due, or `budget` steps are used up.
    #[inline]
    pub(super) fn pop_expired(&mut self, now: Timestamp, budget: &mut u32) -> Option<PitIndex> {
        while *budget > 0 {
            *budget -= 1;
            match self.wheel.step(now) {
                Step::Nothing => return None,
                Step::Moved => {}
                Step::Record(key, deadline) => {
                    let slot = PitIndex(u32::try_from(key).ok()?);
                    let entry = &mut self.entries[slot.0];
                    entry.timer_count -= 1;
                    if entry.timer == deadline || entry.timer_count == 0 {
                        entry.timer = Timestamp::MAX;
                    }
                    if !entry.flags.has(PitFlags::IN_USE) || entry.expiry == Timestamp::MAX {
                        continue;
                    }
                    if entry.expiry <= now {
                        return Some(slot);
                    }
                    let expiry = entry.expiry;
                    self.set_expiry(slot, expiry, now);
                }
            }
        }
        None
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.wheel.next_deadline()
    }

    /// Number of records and tokens in the side arrays.
    pub(super) fn side_counts(&self) -> (usize, usize) {
        (self.in_store.len(), self.out_store.len())
    }
}

/// Records.
impl Pit {
    pub(super) fn in_records(&self, slot: PitIndex) -> impl Iterator<Item = &InRecord> {
        let entry = &self.entries[slot.0];
        self.in_store.iter(&entry.in_first, &entry.in_list)
    }

    #[inline(always)]
    pub(super) fn token_bytes<'a>(&'a self, record: &'a InRecord) -> &'a [u8] {
        self.tokens.token(record)
    }

    /// Where the in-record of a face is.
    #[inline]
    pub(super) fn find_in_record(&self, slot: PitIndex, face: FaceIndex) -> Option<RecordPlace> {
        let entry = &self.entries[slot.0];
        self.in_store.find(&entry.in_first, entry.in_list, face)
    }

    /// Searches the in-records for an Interest that would have the in-record `new`.
    #[inline]
    pub(super) fn search_in_records(&self, slot: PitIndex, new: &InRecord) -> InRecordSearch {
        let entry = &self.entries[slot.0];
        self.in_store.search(&entry.in_first, entry.in_list, new)
    }

    /// The in-record in a place.
    pub(super) fn in_record_at(&self, slot: PitIndex, place: RecordPlace) -> &InRecord {
        self.in_store.at(&self.entries[slot.0].in_first, place)
    }

    /// The in-record after the one in a place; the first without a place.
    pub(super) fn next_in_record(
        &self,
        slot: PitIndex,
        after: Option<RecordPlace>,
    ) -> Option<(RecordPlace, InRecord)> {
        let place = self.in_store.next_place(self.entries[slot.0].in_list, after)?;
        Some((place, *self.in_record_at(slot, place)))
    }

    /// Renews the in-record in a place.
    #[inline]
    pub(super) fn renew_in_record(
        &mut self,
        slot: PitIndex,
        place: RecordPlace,
        new: InRecord,
        token: &[u8],
    ) -> Result<(), PitError> {
        let record = self.in_store.at_mut(&mut self.entries[slot.0].in_first, place);
        if !self.tokens.set(&mut self.ledger, slot.0, record, token) {
            return Err(PitError::TokensFull);
        }
        record.nonce = new.nonce;
        record.renewed = new.renewed;
        record.lifetime_ms = new.lifetime_ms;
        if record.principal != new.principal {
            self.change_principal(slot, place, new.principal);
        }
        Ok(())
    }

    /// Charges an in-record to another principal: its face has changed.
    #[cold]
    fn change_principal(&mut self, slot: PitIndex, place: RecordPlace, principal: PrincipalIndex) {
        let record = self.in_store.at_mut(&mut self.entries[slot.0].in_first, place);
        let previous = record.principal;
        self.tokens.change_principal(&mut self.ledger, record, principal);
        if place == RecordPlace::FIRST {
            self.charge_to_first(slot);
        } else {
            self.ledger.charge(principal, Resource::InRecords, 1);
            self.ledger.release(previous, Resource::InRecords, 1);
        }
    }

    /// Adds the in-record of a face that has none.
    #[inline(always)]
    pub(super) fn add_in_record(
        &mut self,
        slot: PitIndex,
        new: InRecord,
        token: &[u8],
    ) -> Result<RecordPlace, PitError> {
        let entry = &mut self.entries[slot.0];
        let list = &mut entry.in_list;
        if list.count >= IN_RECORDS_PER_ENTRY_MAX {
            return Err(PitError::RecordsFull);
        }
        let mut record = new;
        if !self.tokens.set(&mut self.ledger, slot.0, &mut record, token) {
            return Err(PitError::TokensFull);
        }
        let Some(place) = self.in_store.push(&mut entry.in_first, list, record, slot.0) else {
            self.tokens.release(&mut self.ledger, &mut record);
            return Err(PitError::RecordsFull);
        };
        self.in_records_len += 1;
        if list.count > 1 {
            self.ledger.charge(record.principal, Resource::InRecords, 1);
        } else if entry.principal != record.principal {
            self.charge_to_first(slot);
        }
        Ok(place)
    }

    /// The in-record of an entry that expires last, and when.
    pub(super) fn latest_in_record(&self, slot: PitIndex) -> Option<(RecordPlace, Timestamp)> {
        let entry = &self.entries[slot.0];
        let places = self.in_store.places(entry.in_list);
        let expiry = |place| self.in_store.at(&entry.in_first, place).expiry();
        places.map(|place| (place, expiry(place))).max_by_key(|&(_, expiry)| expiry)
    }

    /// Charges an entry to the principal of one of its in-records, which becomes the first.
    #[inline]
    pub(super) fn charge_to(&mut self, slot: PitIndex, place: RecordPlace) {
        let entry = &self.entries[slot.0];
        if self.in_store.at(&entry.in_first, place).principal != entry.principal {
            self.exchange_first(slot, place);
        }
    }

    #[cold]
    fn exchange_first(&mut self, slot: PitIndex, place: RecordPlace) {
        let entry = &mut self.entries[slot.0];
        self.in_store.swap_with_first(&mut entry.in_first, place);
        self.ledger.charge(entry.principal, Resource::InRecords, 1);
        self.note_new_first(slot);
    }

    pub(super) fn in_record_mut(
        &mut self,
        slot: PitIndex,
        face: FaceIndex,
    ) -> Option<&mut InRecord> {
        let place = self.find_in_record(slot, face)?;
        Some(self.in_store.at_mut(&mut self.entries[slot.0].in_first, place))
    }

    pub(super) fn remove_in_record(&mut self, slot: PitIndex, face: FaceIndex) -> bool {
        let entry = &mut self.entries[slot.0];
        let is_first = entry.in_list.count > 0 && entry.in_first.face == face;
        let removed = self.in_store.remove(&mut entry.in_first, &mut entry.in_list, face);
        let Some(mut record) = removed else { return false };
        self.in_records_len -= 1;
        self.tokens.release(&mut self.ledger, &mut record);
        if !is_first {
            self.ledger.release(record.principal, Resource::InRecords, 1);
        } else if entry.in_list.count > 0 {
            self.note_new_first(slot);
        }
        true
    }

    /// Removes the in-records for which `keep` returns false; returns their number.
    pub(super) fn retain_in_records(
        &mut self,
        slot: PitIndex,
        keep: impl Fn(&Ledger, &InRecord) -> bool,
    ) -> usize {
        let Self { entries, in_store, tokens, ledger, .. } = self;
        let entry = &mut entries[slot.0];
        let before = entry.in_list.count;
        let first = entry.in_first.face;
        in_store.retain(&mut entry.in_first, &mut entry.in_list, |record| {
            let is_kept = keep(ledger, record);
            if !is_kept {
                tokens.release(ledger, &mut { *record });
                if record.face != first {
                    ledger.release(record.principal, Resource::InRecords, 1);
                }
            }
            is_kept
        });
        let removed = usize::from(before - entry.in_list.count);
        let is_first_new = entry.in_list.count > 0 && entry.in_first.face != first;
        self.in_records_len -= removed;
        if is_first_new {
            self.note_new_first(slot);
        }
        removed
    }

    /// Follows the move of an in-record from the side array to the first place of its entry.
    #[cold]
    fn note_new_first(&mut self, slot: PitIndex) {
        let principal = self.entries[slot.0].in_first.principal;
        // Without faces, the principal ends with the last that it holds.
        self.charge_to_first(slot);
        self.ledger.release(principal, Resource::InRecords, 1);
    }

    /// Charges an entry, with its Interest and its out-records, to the principal of its first
    /// in-record.
    #[cold]
    fn charge_to_first(&mut self, slot: PitIndex) {
        let entry = &mut self.entries[slot.0];
        let next = entry.in_first.principal;
        let previous = std::mem::replace(&mut entry.principal, next);
        if next == previous {
            return;
        }
        for (resource, count) in entry.charges() {
            self.ledger.charge(next, resource, count);
            self.ledger.release(previous, resource, count);
        }
    }

    #[inline]
    pub(super) fn clear_in_records(&mut self, slot: PitIndex) {
        let entry = &mut self.entries[slot.0];
        if entry.in_list.count == 0 {
            return;
        }
        self.in_records_len -= usize::from(entry.in_list.count);
        self.tokens.release(&mut self.ledger, &mut entry.in_first);
        if entry.in_list.count > 1 {
            for record in self.in_store.iter(&entry.in_first, &entry.in_list).skip(1) {
                self.tokens.release(&mut self.ledger, &mut { *record });
                self.ledger.release(record.principal, Resource::InRecords, 1);
            }
        }
        self.in_store.clear(&mut entry.in_list);
    }

    pub(super) fn out_records(&self, slot: PitIndex) -> impl Iterator<Item = &OutRecord> {
        let entry = &self.entries[slot.0];
        self.out_store.iter(&entry.out_first, &entry.out_list)
    }

    /// Adds an out-record to an entry that has none; returns false if it has any.
    #[inline(always)]
    pub(super) fn insert_first_out_record(&mut self, slot: PitIndex, new: OutRecord) -> bool {
        let entry = &mut self.entries[slot.0];
        if entry.out_list.count > 0 {
            return false;
        }
        entry.out_first = new;
        entry.out_list = RecordList::ONE;
        true
    }

    #[inline]
    pub(super) fn insert_out_record(
        &mut self,
        slot: PitIndex,
        new: OutRecord,
    ) -> Result<Option<u32>, PitError> {
        let entry = &mut self.entries[slot.0];
        let list = &mut entry.out_list;
        if let Some(place) = self.out_store.find(&entry.out_first, *list, new.face) {
            let record = self.out_store.at_mut(&mut entry.out_first, place);
            let previous = record.nonce;
            let OutRecord { strategy_state, measured_depth, .. } = *record;
            *record = OutRecord { strategy_state, measured_depth, ..new };
            return Ok(Some(previous));
        }
        if list.count >= OUT_RECORDS_PER_ENTRY_MAX
            || self.out_store.push(&mut entry.out_first, list, new, slot.0).is_none()
        {
            return Err(PitError::RecordsFull);
        }
        if list.count > 1 {
            self.ledger.charge(entry.principal, Resource::OutRecords, 1);
        }
        Ok(None)
    }

    pub(super) fn out_record_mut(
        &mut self,
        slot: PitIndex,
        face: FaceIndex,
    ) -> Option<&mut OutRecord> {
        let entry = &mut self.entries[slot.0];
        let place = self.out_store.find(&entry.out_first, entry.out_list, face)?;
        Some(self.out_store.at_mut(&mut entry.out_first, place))
    }

    pub(super) fn remove_out_record(&mut self, slot: PitIndex, face: FaceIndex) -> bool {
        let entry = &mut self.entries[slot.0];
        let removed = self.out_store.remove(&mut entry.out_first, &mut entry.out_list, face);
        if removed.is_some() && entry.out_list.count > 0 {
            self.ledger.release(entry.principal, Resource::OutRecords, 1);
        }
        removed.is_some()
    }

    #[inline(always)]
    pub(super) fn clear_out_records(&mut self, slot: PitIndex) {
        let list = &mut self.entries[slot.0].out_list;
        if list.count > 1 {
            self.clear_further_out_records(slot);
        } else {
            *list = RecordList::EMPTY;
        }
    }

    #[cold]
    fn clear_further_out_records(&mut self, slot: PitIndex) {
        let entry = &mut self.entries[slot.0];
        let further = u32::from(entry.out_list.count - 1);
        self.out_store.clear(&mut entry.out_list);
        self.ledger.release(entry.principal, Resource::OutRecords, further);
    }
}

/// Charges.
impl Pit {
    /// Charges the place of an entry in the table of short-prefix Interests.
    pub(super) fn note_published(&mut self, slot: PitIndex) {
        let entry = &mut self.entries[slot.0];
        if !entry.flags.has(PitFlags::PUBLISHED) {
            entry.flags.0 |= PitFlags::PUBLISHED;
            self.published[slot.0 as usize / 64] |= 1 << (slot.0 % 64);
            self.ledger.charge(entry.principal, Resource::ShortPrefixes, 1);
        }
    }

    /// The next thing charged to a principal above its limit whose end does not end the entry `keep`.
    /// Each place checked takes one from `budget`; the next call continues behind it.
    pub(super) fn next_victim(
        &mut self,
        resource: Resource,
        limits: Limits,
        keep: Option<PitIndex>,
        budget: &mut u32,
    ) -> Option<Victim> {
        let Self { entries, in_store, out_store, tokens, ledger, published, .. } = self;
        let clock_hand = &mut self.clock_hands[resource.index()];
        let entries = entries.slots();
        let of_entry = |number: usize| {
            let entry = entries.get(number)?;
            let holds = entry.flags.has(PitFlags::IN_USE)
                && match resource {
                    Resource::LongBlocks => entry.stored != StoredInterest::NONE,
                    Resource::ShortPrefixes => entry.flags.has(PitFlags::PUBLISHED),
                    Resource::Entries
                    | Resource::InRecords
                    | Resource::OutRecords
                    | Resource::LongTokens => true,
                };
            let number = u32::try_from(number).ok()?;
            holds.then_some((number, None, entry.principal))
        };
        let place = |number: usize| match resource {
            Resource::Entries | Resource::LongBlocks | Resource::ShortPrefixes => of_entry(number),
            Resource::InRecords => {
                let link = in_store.links().get(number)?;
                Some((link.entry, Some(link.record.face), link.record.principal))
            }
            Resource::OutRecords => {
                let link = out_store.links().get(number)?;
                let principal = entries.get(link.entry as usize)?.principal;
                Some((link.entry, Some(link.record.face), principal))
            }
            Resource::LongTokens => {
                let token = tokens.places().get(number)?;
                Some((token.entry, Some(token.face), token.principal))
            }
        };
        let count = match resource {
            Resource::Entries | Resource::LongBlocks | Resource::ShortPrefixes => entries.len(),
            Resource::InRecords => in_store.links().len(),
            Resource::OutRecords => out_store.links().len(),
            Resource::LongTokens => tokens.places().len(),
        };
        for _ in 0..count {
            if *budget == 0 {
                return None;
            }
            *budget -= 1;
            *clock_hand = if *clock_hand + 1 < count { *clock_hand + 1 } else { 0 };
            if resource == Resource::ShortPrefixes {
                // The rest of a word of bits in one step.
                let further = published[*clock_hand / 64] >> (*clock_hand % 64);
                *clock_hand += (further.trailing_zeros() as usize).min(63 - *clock_hand % 64);
            }
            let Some((entry, face, principal)) = place(*clock_hand) else { continue };
            if entry == NONE || !ledger.exceeds(principal, resource, limits) {
                continue;
            }
            let is_last = |entry: u32| entries[entry as usize].in_list.count <= 1;
            if keep != Some(PitIndex(entry)) || face.is_some() && !is_last(entry) {
                return Some(Victim { entry: PitIndex(entry), face });
            }
        }
        None
    }

    /// Slots of entries that were ever used.
    pub(super) fn slot_count(&self) -> usize {
        self.entries.slots().len()
    }

    /// The entry in a slot.
    pub(super) fn entry_in_slot(&self, slot: usize) -> Option<PitIndex> {
        let entry = self.entries.slots().get(slot)?;
        entry.flags.has(PitFlags::IN_USE).then_some(PitIndex(u32::try_from(slot).ok()?))
    }

    /// The places that the entries hold, by principal, counted anew.
    pub(super) fn recount(&self) -> BTreeMap<PrincipalIndex, [u32; Resource::COUNT]> {
        let mut held = BTreeMap::new();
        let mut add = |principal, resource: Resource, count| {
            if count > 0 {
                let of_principal = held.entry(principal).or_insert([0; Resource::COUNT]);
                of_principal[resource.index()] += count;
            }
        };
        for slot in (0..self.slot_count()).filter_map(|slot| self.entry_in_slot(slot)) {
            let entry = self.entry(slot);
            entry.charges().for_each(|(resource, count)| add(entry.principal, resource, count));
            for (position, record) in self.in_records(slot).enumerate() {
                assert!(position > 0 || record.principal == entry.principal, "of the first record");
                add(record.principal, Resource::InRecords, u32::from(position > 0));
                let is_long = u32::from(record.has_long_token());
                add(record.principal, Resource::LongTokens, is_long);
            }
        }
        held
    }
}

/// Data match.
impl Pit {
    /// The entry that a Data satisfies, see [`Pcct::find_only_match`](super::Pcct::find_only_match).
    #[inline(always)]
    pub(super) fn only_match(&self, index: &HashIndex, key: &DataKey<'_>) -> Option<OnlyMatch> {
        let hash = key.name_hash();
        let (reference, place) = index.find_only(hash)?;
        if !Self::owns(reference)
            || self.digest_waiters.may_include(hash)
            || self.prefix_lengths.mask != 0 && self.may_match_prefix(index, key.hashes)
        {
            return None;
        }
        let entry = PitIndex(reference & !PIT_BIT);
        self.is_for_name(entry, key.name.value()).then_some(OnlyMatch { entry, place })
    }

    /// Whether an entry with CanBePrefix may be pending for a shorter name than the last of these prefixes.
    #[inline(never)]
    fn may_match_prefix(&self, index: &HashIndex, hashes: &[u64]) -> bool {
        let mut lengths = self.prefix_lengths_below(hashes.len() - 1);
        while lengths != 0 {
            if !index.excludes(hashes[lengths.trailing_zeros() as usize]) {
                return true;
            }
            lengths &= lengths - 1;
        }
        false
    }

    /// Finds every entry that a Data satisfies.
    pub(super) fn matches(
        &self,
        index: &HashIndex,
        key: &DataKey<'_>,
        digest: impl FnOnce() -> [u8; 32],
        found: &mut PitMatches,
    ) {
        found.clear();
        let name = key.name.value();
        let depth = key.hashes.len() - 1;
        index.for_each(key.hashes[depth], |reference| {
            let slot = PitIndex(reference & !PIT_BIT);
            if Self::owns(reference) && self.is_for_name(slot, name) {
                found.push(slot);
            }
        });
        if self.digest_waiters.may_include(key.hashes[depth]) {
            self.matches_of_digest(index, name, &digest(), found);
        }
        let mut lengths = self.prefix_lengths_below(depth);
        while lengths != 0 {
            let length = lengths.ilog2() as usize;
            lengths ^= 1 << length;
            index.for_each(key.hashes[length], |reference| {
                if !Self::owns(reference) {
                    return;
                }
                let slot = PitIndex(reference & !PIT_BIT);
                let entry = &self.entries[slot.0];
                if entry.flags.0 & (PitFlags::CAN_BE_PREFIX | PitFlags::HAS_DIGEST)
                    == PitFlags::CAN_BE_PREFIX
                    && usize::from(entry.name_components) == length
                    && name.starts_with(packet_name(self.interest(slot)))
                {
                    found.push(slot);
                }
            });
        }
    }

    /// Whether an entry is for this name, without a digest.
    #[inline(always)]
    fn is_for_name(&self, slot: PitIndex, name: &[u8]) -> bool {
        let entry = &self.entries[slot.0];
        if entry.flags.has(PitFlags::HAS_DIGEST) {
            return false;
        }
        if entry.stored != StoredInterest::NONE {
            return packet_has_name(self.interest_of(entry), name);
        }
        // So short an Interest, and its name, have lengths of one byte.
        match entry.inline.get(INLINE_NAME - 1..INLINE_NAME + name.len()) {
            Some([length, value @ ..]) => usize::from(*length) == name.len() && value == name,
            _ => false,
        }
    }

    /// Finds every entry that names a Data by its full name.
    #[cold]
    fn matches_of_digest(
        &self,
        index: &HashIndex,
        name: &[u8],
        digest: &[u8; 32],
        found: &mut PitMatches,
    ) {
        index.for_each(self.hasher.hash_full_name(name, digest), |reference| {
            if !Self::owns(reference) {
                return;
            }
            let slot = PitIndex(reference & !PIT_BIT);
            if self.entries[slot.0].flags.has(PitFlags::HAS_DIGEST)
                && let Some(requested) = packet_name(self.interest(slot)).strip_prefix(name)
                && requested.len() == DIGEST_COMPONENT_LENGTH
                && requested.ends_with(digest)
            {
                found.push(slot);
            }
        });
    }

    /// Name lengths below `depth` that have entries with CanBePrefix, one bit each.
    #[inline(always)]
    pub(super) fn prefix_lengths_below(&self, depth: usize) -> u64 {
        self.prefix_lengths.mask & ((1 << depth) - 1)
    }
}

/// Sets the expiry of the entry in a slot, and a timer record for it, unless one is due before.
#[inline(always)]
fn schedule_expiry(
    wheel: &mut TimerWheel,
    entry: &mut PitEntry,
    slot: PitIndex,
    deadline: Timestamp,
    now: Timestamp,
) {
    entry.expiry = deadline;
    // Nearly always, the slot has a record from an earlier use.
    if deadline < entry.timer {
        add_timer(wheel, entry, slot, now);
    }
}

/// Adds a timer record for an entry that expires before those of its slot are due, if it may have another.
#[inline(never)]
fn add_timer(wheel: &mut TimerWheel, entry: &mut PitEntry, slot: PitIndex, now: Timestamp) {
    let is_last = entry.timer_count + 1 >= TIMERS_PER_ENTRY_MAX;
    let ahead = if is_last { LAST_TIMER_AHEAD_MAX_NANOS } else { TIMER_AHEAD_MAX_NANOS };
    let deadline = entry.expiry.min(now.plus_nanos(ahead));
    // The wheel has room for TIMERS_PER_ENTRY_MAX records of every slot.
    if entry.timer_count < TIMERS_PER_ENTRY_MAX
        && deadline < entry.timer
        && wheel.schedule(u64::from(slot.0), deadline).is_ok()
    {
        entry.timer = deadline;
        entry.timer_count += 1;
    }
}

#[inline(always)]
fn selectors_of(key: &InterestKey<'_>) -> u8 {
    (u8::from(key.can_be_prefix) * PitFlags::CAN_BE_PREFIX)
        | (u8::from(key.must_be_fresh) * PitFlags::MUST_BE_FRESH)
        | (u8::from(key.has_digest) * PitFlags::HAS_DIGEST)
}
