//! Pending Interest Table: entries, records, expiry, Data match.

use ndn_packet::NameRef;

use super::config::{PcctConfig, PitError};
use super::data_match::{DigestWaiters, PitMatches, PrefixLengths};
use super::packet_name::{packet_has_name, packet_name};
use super::pit_entry::{PIT_INTEREST_INLINE_MAX, PitEntry, PitFlags, PitIndex};
use super::records::{
    IN_RECORDS_PER_ENTRY_MAX, InRecord, InRecordInsert, OUT_RECORDS_PER_ENTRY_MAX, OutRecord,
    RecordList, RecordStore, TokenStore,
};
use crate::arena::Arena;
use crate::byte_slab::{BlockRef, ByteSlab};
use crate::hash_index::HashIndex;
use crate::name_hash::DIGEST_COMPONENT_LENGTH;
use crate::timer_wheel::{Step, TimerWheel};
use crate::{DataKey, FaceIndex, InterestKey, NameHasher, Timestamp, Token};

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
    blocks: ByteSlab,
    wheel: TimerWheel,
    pub(super) prefix_lengths: PrefixLengths,
    pub(super) digest_waiters: DigestWaiters,
    pub(super) hasher: NameHasher,
}

impl Pit {
    pub(super) fn new(config: &PcctConfig, hasher: NameHasher) -> Self {
        let entries = config.pit_entries_max as usize;
        assert!(config.pit_entries_max <= Token::ENTRY_COUNT_MAX, "a token names 2^24 entries");
        Self {
            entries: Arena::new(entries),
            in_store: RecordStore::new(config.extra_records_max as usize),
            in_records_len: 0,
            out_store: RecordStore::new(config.extra_records_max as usize),
            tokens: TokenStore::new(config.extra_records_max as usize),
            blocks: ByteSlab::new(config.pit_bytes_max),
            wheel: TimerWheel::new(entries * usize::from(TIMERS_PER_ENTRY_MAX), config.now),
            prefix_lengths: PrefixLengths::EMPTY,
            digest_waiters: DigestWaiters::new(entries),
            hasher,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Bytes in use for Interests that do not fit their entry, and the limit.
    pub(super) fn bytes(&self) -> (usize, usize) {
        (self.blocks.bytes_in_use(), self.blocks.limit())
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
        if entry.block == BlockRef::NONE {
            &entry.inline[..length]
        } else {
            self.blocks.bytes(entry.block, length)
        }
    }

    pub(super) fn name(&self, index: PitIndex) -> NameRef<'_> {
        let count = u16::from(self.entries[index.0].name_components);
        NameRef::from_validated(packet_name(self.interest(index)), count)
    }

    /// The entry of an Interest. If there is none, sets `has_cached` if anything is cached under
    /// the hash.
    #[inline]
    pub(super) fn find(
        &self,
        index: &HashIndex,
        key: &InterestKey<'_>,
        has_cached: &mut bool,
    ) -> Option<PitIndex> {
        let selectors = selectors_of(key);
        let found = index.find(key.name_hash(), |reference| {
            if !Self::owns(reference) {
                *has_cached = true;
                return false;
            }
            let slot = PitIndex(reference & !PIT_BIT);
            let entry = &self.entries[slot.0];
            entry.flags.0 & PitFlags::SELECTORS == selectors
                && packet_has_name(self.interest_of(entry), key.name.value())
        })?;
        Some(PitIndex(found & !PIT_BIT))
    }

    #[inline]
    pub(super) fn insert(
        &mut self,
        index: &mut HashIndex,
        key: &InterestKey<'_>,
        wire: &[u8],
    ) -> Result<PitIndex, PitError> {
        debug_assert_eq!(packet_name(wire), key.name.value());
        let wire_length = u16::try_from(wire.len()).map_err(|_| PitError::TooLong)?;
        let block = if wire.len() <= PIT_INTEREST_INLINE_MAX {
            BlockRef::NONE
        } else {
            let block = self.blocks.allocate(wire.len()).ok_or(PitError::BytesFull)?;
            self.blocks.bytes_mut(block, wire.len()).copy_from_slice(wire);
            block
        };
        let Some(slot) = self.entries.allocate(|| PitEntry::EMPTY) else {
            self.release_block(block);
            return Err(PitError::Full);
        };
        if index.insert(key.name_hash(), slot | PIT_BIT).is_err() {
            self.release_block(block);
            self.entries.release(slot);
            return Err(PitError::IndexFull);
        }
        let entry = &mut self.entries[slot];
        entry.hash = key.name_hash();
        entry.expiry = Timestamp::MAX;
        entry.strategy_state = 0;
        entry.user_data = 0;
        entry.owner = FaceIndex::default();
        entry.block = block;
        entry.flags = PitFlags(selectors_of(key) | PitFlags::IN_USE);
        entry.name_components = u8::try_from(key.hashes.len() - 1).unwrap_or(u8::MAX);
        entry.wire_length = wire_length;
        if block == BlockRef::NONE {
            entry.inline[..wire.len()].copy_from_slice(wire);
        }
        if key.has_digest {
            self.digest_waiters.add(key.data_hash());
        } else if key.can_be_prefix {
            self.prefix_lengths.add(key.depth());
        }
        Ok(PitIndex(slot))
    }

    #[inline]
    pub(super) fn erase(&mut self, index: &mut HashIndex, slot: PitIndex) {
        if self.entries[slot.0].flags.has(PitFlags::HAS_DIGEST) {
            self.forget_digest(slot);
        }
        let entry = &mut self.entries[slot.0];
        debug_assert!(entry.flags.has(PitFlags::IN_USE), "an entry is erased once");
        if entry.flags.0 & (PitFlags::HAS_DIGEST | PitFlags::CAN_BE_PREFIX)
            == PitFlags::CAN_BE_PREFIX
        {
            self.prefix_lengths.subtract(usize::from(entry.name_components));
        }
        let (hash, block) = (entry.hash, entry.block);
        entry.flags = PitFlags(0);
        entry.generation = entry.generation.wrapping_add(1);
        if entry.in_list.count == 1 {
            self.in_records_len -= 1;
            self.tokens.release(&mut entry.in_first);
            entry.in_list = RecordList::EMPTY;
        }
        self.out_store.clear(&mut entry.out_list);
        if entry.in_list.count > 1 {
            self.clear_in_records(slot);
        }
        let removed = index.remove(hash, slot.0 | PIT_BIT);
        debug_assert!(removed);
        self.release_block(block);
        self.entries.release(slot.0);
    }

    #[cold]
    fn forget_digest(&mut self, slot: PitIndex) {
        let name = packet_name(self.interest(slot));
        let data_name = &name[..name.len() - DIGEST_COMPONENT_LENGTH];
        self.digest_waiters.subtract(self.hasher.hash_value(data_name));
    }

    fn release_block(&mut self, block: BlockRef) {
        if block != BlockRef::NONE {
            self.blocks.release(block);
        }
    }

    pub(super) fn token(&self, slot: PitIndex, shard: u8) -> Token {
        Token { shard, entry: slot.0, generation: self.entries[slot.0].generation }
    }

    pub(super) fn find_token(&self, token: Token) -> Option<PitIndex> {
        let entry = self.entries.slots().get(token.entry as usize)?;
        let is_alive = entry.generation == token.generation && entry.flags.has(PitFlags::IN_USE);
        is_alive.then_some(PitIndex(token.entry))
    }

    #[inline]
    pub(super) fn set_expiry(&mut self, slot: PitIndex, deadline: Timestamp, now: Timestamp) {
        let entry = &mut self.entries[slot.0];
        entry.expiry = deadline;
        let is_last = entry.timer_count + 1 >= TIMERS_PER_ENTRY_MAX;
        let ahead = if is_last { LAST_TIMER_AHEAD_MAX_NANOS } else { TIMER_AHEAD_MAX_NANOS };
        let wanted = deadline.min(now.plus_nanos(ahead));
        if wanted < entry.timer && entry.timer_count < TIMERS_PER_ENTRY_MAX {
            // The wheel has room for TIMERS_PER_ENTRY_MAX records of every slot.
            if self.wheel.schedule(u64::from(slot.0), wanted).is_ok() {
                entry.timer = wanted;
                entry.timer_count += 1;
            }
        }
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
        self.in_store.iter(&entry.in_first, entry.in_list)
    }

    pub(super) fn token_bytes<'a>(&'a self, record: &'a InRecord) -> &'a [u8] {
        self.tokens.token(record)
    }

    #[inline]
    pub(super) fn insert_in_record(
        &mut self,
        slot: PitIndex,
        new: InRecord,
        token: &[u8],
    ) -> Result<InRecordInsert, PitError> {
        let entry = &mut self.entries[slot.0];
        let list = &mut entry.in_list;
        if let Some(record) = self.in_store.find_mut(&mut entry.in_first, *list, new.face) {
            if !self.tokens.set(record, token) {
                return Err(PitError::TokensFull);
            }
            record.nonce = new.nonce;
            record.renewed = new.renewed;
            record.lifetime_ms = new.lifetime_ms;
            return Ok(InRecordInsert::Renewed);
        }
        if list.count >= IN_RECORDS_PER_ENTRY_MAX {
            return Err(PitError::RecordsFull);
        }
        let mut record = new;
        if !self.tokens.set(&mut record, token) {
            return Err(PitError::TokensFull);
        }
        if !self.in_store.push(&mut entry.in_first, list, record) {
            self.tokens.release(&mut record);
            return Err(PitError::RecordsFull);
        }
        self.in_records_len += 1;
        Ok(InRecordInsert::Added)
    }

    pub(super) fn in_record_mut(
        &mut self,
        slot: PitIndex,
        face: FaceIndex,
    ) -> Option<&mut InRecord> {
        let entry = &mut self.entries[slot.0];
        self.in_store.find_mut(&mut entry.in_first, entry.in_list, face)
    }

    pub(super) fn remove_in_record(&mut self, slot: PitIndex, face: FaceIndex) -> bool {
        let entry = &mut self.entries[slot.0];
        match self.in_store.remove(&mut entry.in_first, &mut entry.in_list, face) {
            Some(mut record) => {
                self.tokens.release(&mut record);
                self.in_records_len -= 1;
                true
            }
            None => false,
        }
    }

    #[inline]
    pub(super) fn clear_in_records(&mut self, slot: PitIndex) {
        let entry = &mut self.entries[slot.0];
        if entry.in_list.count == 0 {
            return;
        }
        self.in_records_len -= usize::from(entry.in_list.count);
        self.tokens.release(&mut entry.in_first);
        if entry.in_list.count > 1 {
            for record in self.in_store.iter(&entry.in_first, entry.in_list).skip(1) {
                self.tokens.release(&mut { *record });
            }
        }
        self.in_store.clear(&mut entry.in_list);
    }

    pub(super) fn out_records(&self, slot: PitIndex) -> impl Iterator<Item = &OutRecord> {
        let entry = &self.entries[slot.0];
        self.out_store.iter(&entry.out_first, entry.out_list)
    }

    #[inline]
    pub(super) fn insert_out_record(
        &mut self,
        slot: PitIndex,
        new: OutRecord,
    ) -> Result<(), PitError> {
        let entry = &mut self.entries[slot.0];
        let list = &mut entry.out_list;
        if let Some(record) = self.out_store.find_mut(&mut entry.out_first, *list, new.face) {
            *record = OutRecord { strategy_state: record.strategy_state, ..new };
            return Ok(());
        }
        if list.count >= OUT_RECORDS_PER_ENTRY_MAX
            || !self.out_store.push(&mut entry.out_first, list, new)
        {
            return Err(PitError::RecordsFull);
        }
        Ok(())
    }

    pub(super) fn out_record_mut(
        &mut self,
        slot: PitIndex,
        face: FaceIndex,
    ) -> Option<&mut OutRecord> {
        let entry = &mut self.entries[slot.0];
        self.out_store.find_mut(&mut entry.out_first, entry.out_list, face)
    }

    pub(super) fn remove_out_record(&mut self, slot: PitIndex, face: FaceIndex) -> bool {
        let entry = &mut self.entries[slot.0];
        self.out_store.remove(&mut entry.out_first, &mut entry.out_list, face).is_some()
    }

    pub(super) fn clear_out_records(&mut self, slot: PitIndex) {
        let entry = &mut self.entries[slot.0];
        self.out_store.clear(&mut entry.out_list);
    }
}

/// Data match.
impl Pit {
    /// Finds every entry that a Data satisfies. Returns whether anything is cached under its hash.
    #[inline]
    pub(super) fn matches(
        &self,
        index: &HashIndex,
        key: &DataKey<'_>,
        digest: impl FnOnce() -> [u8; 32],
        found: &mut PitMatches,
    ) -> bool {
        found.clear();
        let name = key.name.value();
        let depth = key.hashes.len() - 1;
        let mut has_cached = false;
        index.for_each(key.hashes[depth], |reference| {
            if !Self::owns(reference) {
                has_cached = true;
                return;
            }
            let slot = reference & !PIT_BIT;
            let entry = &self.entries[slot];
            if !entry.flags.has(PitFlags::HAS_DIGEST)
                && packet_has_name(self.interest_of(entry), name)
            {
                found.push(PitIndex(slot));
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
        has_cached
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
                && let Some(wanted) = packet_name(self.interest(slot)).strip_prefix(name)
                && wanted.len() == DIGEST_COMPONENT_LENGTH
                && wanted.ends_with(digest)
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

#[inline(always)]
fn selectors_of(key: &InterestKey<'_>) -> u8 {
    (u8::from(key.can_be_prefix) * PitFlags::CAN_BE_PREFIX)
        | (u8::from(key.must_be_fresh) * PitFlags::MUST_BE_FRESH)
        | (u8::from(key.has_digest) * PitFlags::HAS_DIGEST)
}
