//! Pending Interest Table: entries, records, expiry.

use ndn_packet::NameRef;

use super::pit_entry::{INLINE_INTEREST_LENGTH, PitEntry, PitFlags, PitIndex};
use super::records::{
    IN_RECORDS_PER_ENTRY_MAX, InRecord, OUT_RECORDS_PER_ENTRY_MAX, OutRecord, RecordStore,
    TokenStore,
};
use super::{PcctConfig, PitError, packet_name};
use crate::arena::Arena;
use crate::byte_slab::{BlockRef, ByteSlab};
use crate::hash_index::HashIndex;
use crate::name_hash::PREFIX_HASHES_MAX;
use crate::timer_wheel::{Step, TimerWheel};
use crate::{DataKey, FaceIndex, InterestKey, Timestamp, Token};

/// Marks a reference in the common index as one to a PIT entry.
const PIT_BIT: u32 = 1 << 31;

/// Records in the timer wheel for one slot at most. One is the rule; a second is needed when a
/// slot gets a deadline earlier than the record that is already there.
const TIMERS_PER_ENTRY_MAX: u8 = 3;

/// No record of the wheel lies further ahead. A longer deadline is reached in several steps, so
/// that an entry that already has [`TIMERS_PER_ENTRY_MAX`] records is at most this late.
const TIMER_AHEAD_MAX_NANOS: u64 = 8_000_000_000;

/// The PIT of one shard. It shares the hash index with the Content Store.
#[derive(Debug)]
pub(super) struct Pit {
    entries: Arena<PitEntry>,
    in_store: RecordStore<InRecord>,
    out_store: RecordStore<OutRecord>,
    tokens: TokenStore,
    blocks: ByteSlab,
    wheel: TimerWheel,
    prefix_lengths: PrefixLengths,
}

/// Which name lengths have entries with CanBePrefix.
#[derive(Debug)]
struct PrefixLengths {
    mask: u64,
    counts: [u32; PREFIX_HASHES_MAX],
}

impl PrefixLengths {
    fn add(&mut self, length: usize) {
        self.counts[length] += 1;
        self.mask |= 1 << length;
    }

    fn subtract(&mut self, length: usize) {
        self.counts[length] -= 1;
        if self.counts[length] == 0 {
            self.mask &= !(1 << length);
        }
    }
}

impl Pit {
    pub(super) fn new(config: &PcctConfig) -> Self {
        let entries = config.pit_entries_max as usize;
        assert!(config.pit_entries_max <= Token::ENTRY_COUNT_MAX, "a token names 2^24 entries");
        Self {
            entries: Arena::new(entries),
            in_store: RecordStore::new(config.extra_records_max as usize),
            out_store: RecordStore::new(config.extra_records_max as usize),
            tokens: TokenStore::new(config.extra_records_max as usize),
            blocks: ByteSlab::new(config.pit_bytes_max),
            wheel: TimerWheel::new(entries * usize::from(TIMERS_PER_ENTRY_MAX), config.now),
            prefix_lengths: PrefixLengths { mask: 0, counts: [0; PREFIX_HASHES_MAX] },
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether a reference of the index is one to a PIT entry.
    #[inline(always)]
    pub(super) fn owns(reference: u32) -> bool {
        reference & PIT_BIT != 0
    }

    /// Asks for the lines of an entry that a lookup and an update read.
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
        let entry = &self.entries[index.0];
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

    #[inline]
    pub(super) fn find(&self, index: &HashIndex, key: &InterestKey<'_>) -> Option<PitIndex> {
        let selectors = selectors_of(key);
        let found = index.find(key.table_hash(), |reference| {
            if !Self::owns(reference) {
                return false;
            }
            let place = PitIndex(reference & !PIT_BIT);
            self.entries[place.0].flags.0 & PitFlags::SELECTORS == selectors
                && packet_name(self.interest(place)) == key.name.value()
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
        let block = if wire.len() <= INLINE_INTEREST_LENGTH {
            BlockRef::NONE
        } else {
            let block = self.blocks.allocate(wire.len()).ok_or(PitError::BytesFull)?;
            self.blocks.bytes_mut(block, wire.len()).copy_from_slice(wire);
            block
        };
        let Some(place) = self.entries.allocate(|| PitEntry::EMPTY) else {
            self.release_block(block);
            return Err(PitError::Full);
        };
        if index.insert(key.table_hash(), place | PIT_BIT).is_err() {
            self.release_block(block);
            self.entries.release(place);
            return Err(PitError::IndexFull);
        }
        let entry = &mut self.entries[place];
        entry.hash = key.table_hash();
        entry.expiry = Timestamp::MAX;
        entry.strategy_state = 0;
        entry.user_data = 0;
        entry.block = block;
        entry.flags = PitFlags(selectors_of(key) | PitFlags::IN_USE);
        entry.name_components = u8::try_from(key.hashes.len() - 1).unwrap_or(u8::MAX);
        entry.wire_length = wire_length;
        if block == BlockRef::NONE {
            entry.inline[..wire.len()].copy_from_slice(wire);
        }
        if key.can_be_prefix && !key.has_digest {
            self.prefix_lengths.add(key.depth());
        }
        Ok(PitIndex(place))
    }

    #[inline]
    pub(super) fn erase(&mut self, index: &mut HashIndex, place: PitIndex) {
        let entry = &mut self.entries[place.0];
        debug_assert!(entry.flags.has(PitFlags::IN_USE), "an entry is erased once");
        if entry.flags.0 & (PitFlags::CAN_BE_PREFIX | PitFlags::HAS_DIGEST)
            == PitFlags::CAN_BE_PREFIX
        {
            self.prefix_lengths.subtract(usize::from(entry.name_components));
        }
        let (hash, block) = (entry.hash, entry.block);
        entry.flags = PitFlags(0);
        entry.generation = entry.generation.wrapping_add(1);
        let removed = index.remove(hash, place.0 | PIT_BIT);
        debug_assert!(removed);
        self.clear_in_records(place);
        let entry = &mut self.entries[place.0];
        self.out_store.clear(&mut entry.out_list);
        self.release_block(block);
        self.entries.release(place.0);
    }

    fn release_block(&mut self, block: BlockRef) {
        if block != BlockRef::NONE {
            self.blocks.release(block);
        }
    }

    /// Shows every entry that a Data satisfies.
    #[inline]
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
        let mut digest = LazyDigest::Pending(digest);
        index.for_each(key.hashes[depth], |reference| {
            if !Self::owns(reference) {
                return;
            }
            let place = PitIndex(reference & !PIT_BIT);
            let wanted = packet_name(self.interest(place));
            let is_match = if self.entries[place.0].flags.has(PitFlags::HAS_DIGEST) {
                wanted.len() == name.len() + 34
                    && wanted.starts_with(name)
                    && wanted[name.len() + 2..] == digest.value()
            } else {
                wanted == name
            };
            if is_match {
                found.push(place);
            }
        });
        let mut lengths = self.prefix_lengths.mask & ((1 << depth) - 1);
        while lengths != 0 {
            let length = lengths.trailing_zeros() as usize;
            lengths &= lengths - 1;
            index.for_each(key.hashes[length], |reference| {
                if !Self::owns(reference) {
                    return;
                }
                let place = PitIndex(reference & !PIT_BIT);
                let entry = &self.entries[place.0];
                if entry.flags.0 & (PitFlags::CAN_BE_PREFIX | PitFlags::HAS_DIGEST)
                    == PitFlags::CAN_BE_PREFIX
                    && usize::from(entry.name_components) == length
                    && name.starts_with(packet_name(self.interest(place)))
                {
                    found.push(place);
                }
            });
        }
    }

    /// Name lengths below `depth` that have entries with CanBePrefix, a bit each.
    #[inline(always)]
    pub(super) fn prefix_lengths_below(&self, depth: usize) -> u64 {
        self.prefix_lengths.mask & ((1 << depth) - 1)
    }

    pub(super) fn token(&self, place: PitIndex, shard: u8) -> Token {
        Token { shard, entry: place.0, generation: self.entries[place.0].generation }
    }

    pub(super) fn find_token(&self, token: Token) -> Option<PitIndex> {
        let entry = self.entries.slots().get(token.entry as usize)?;
        let is_alive = entry.generation == token.generation && entry.flags.has(PitFlags::IN_USE);
        is_alive.then_some(PitIndex(token.entry))
    }

    pub(super) fn in_records(&self, place: PitIndex) -> impl Iterator<Item = &InRecord> {
        let entry = &self.entries[place.0];
        self.in_store.iter(&entry.in_first, entry.in_list)
    }

    pub(super) fn token_bytes<'a>(&'a self, record: &'a InRecord) -> &'a [u8] {
        self.tokens.token(record)
    }

    #[inline]
    pub(super) fn insert_in_record(
        &mut self,
        place: PitIndex,
        new: InRecord,
        token: &[u8],
    ) -> Result<(), PitError> {
        let entry = &mut self.entries[place.0];
        let list = &mut entry.in_list;
        if let Some(record) = self.in_store.find_mut(&mut entry.in_first, *list, new.face) {
            record.nonce = new.nonce;
            record.renewed = new.renewed;
            record.lifetime_ms = new.lifetime_ms;
            return if self.tokens.set(record, token) { Ok(()) } else { Err(PitError::TokensFull) };
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
        Ok(())
    }

    pub(super) fn in_record_mut(
        &mut self,
        place: PitIndex,
        face: FaceIndex,
    ) -> Option<&mut InRecord> {
        let entry = &mut self.entries[place.0];
        self.in_store.find_mut(&mut entry.in_first, entry.in_list, face)
    }

    pub(super) fn remove_in_record(&mut self, place: PitIndex, face: FaceIndex) -> bool {
        let entry = &mut self.entries[place.0];
        match self.in_store.remove(&mut entry.in_first, &mut entry.in_list, face) {
            Some(mut record) => {
                self.tokens.release(&mut record);
                true
            }
            None => false,
        }
    }

    #[inline]
    pub(super) fn clear_in_records(&mut self, place: PitIndex) {
        let entry = &mut self.entries[place.0];
        if entry.in_list.count == 0 {
            return;
        }
        self.tokens.release(&mut entry.in_first);
        if entry.in_list.count > 1 {
            for record in self.in_store.iter(&entry.in_first, entry.in_list).skip(1) {
                self.tokens.release(&mut { *record });
            }
        }
        self.in_store.clear(&mut entry.in_list);
    }

    pub(super) fn out_records(&self, place: PitIndex) -> impl Iterator<Item = &OutRecord> {
        let entry = &self.entries[place.0];
        self.out_store.iter(&entry.out_first, entry.out_list)
    }

    #[inline]
    pub(super) fn insert_out_record(
        &mut self,
        place: PitIndex,
        new: OutRecord,
    ) -> Result<(), PitError> {
        let entry = &mut self.entries[place.0];
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
        place: PitIndex,
        face: FaceIndex,
    ) -> Option<&mut OutRecord> {
        let entry = &mut self.entries[place.0];
        self.out_store.find_mut(&mut entry.out_first, entry.out_list, face)
    }

    pub(super) fn remove_out_record(&mut self, place: PitIndex, face: FaceIndex) -> bool {
        let entry = &mut self.entries[place.0];
        self.out_store.remove(&mut entry.out_first, &mut entry.out_list, face).is_some()
    }

    pub(super) fn clear_out_records(&mut self, place: PitIndex) {
        let entry = &mut self.entries[place.0];
        self.out_store.clear(&mut entry.out_list);
    }

    #[inline]
    pub(super) fn set_expiry(&mut self, place: PitIndex, deadline: Timestamp, now: Timestamp) {
        let entry = &mut self.entries[place.0];
        entry.expiry = deadline;
        let wanted = deadline.min(now.plus_nanos(TIMER_AHEAD_MAX_NANOS));
        if wanted < entry.timer && entry.timer_count < TIMERS_PER_ENTRY_MAX {
            // The wheel has room for TIMERS_PER_ENTRY_MAX records of every slot.
            if self.wheel.schedule(u64::from(place.0), wanted).is_ok() {
                entry.timer = wanted;
                entry.timer_count += 1;
            }
        }
    }

    /// Takes steps until an entry has expired, nothing is due, or `budget` steps are used up.
    #[inline]
    pub(super) fn pop_expired(&mut self, now: Timestamp, budget: &mut u32) -> Option<PitIndex> {
        while *budget > 0 {
            *budget -= 1;
            match self.wheel.step(now) {
                Step::Nothing => return None,
                Step::Moved => {}
                Step::Record(key, deadline) => {
                    let place = PitIndex(u32::try_from(key).ok()?);
                    let entry = &mut self.entries[place.0];
                    entry.timer_count -= 1;
                    if entry.timer == deadline || entry.timer_count == 0 {
                        entry.timer = Timestamp::MAX;
                    }
                    if !entry.flags.has(PitFlags::IN_USE) || entry.expiry == Timestamp::MAX {
                        continue;
                    }
                    if entry.expiry <= now {
                        return Some(place);
                    }
                    let expiry = entry.expiry;
                    self.set_expiry(place, expiry, now);
                }
            }
        }
        None
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.wheel.next_deadline()
    }

    /// Records and tokens that lie in the side arrays.
    pub(super) fn side_counts(&self) -> (usize, usize) {
        (self.in_store.len(), self.out_store.len())
    }
}

#[inline(always)]
fn selectors_of(key: &InterestKey<'_>) -> u8 {
    u8::from(key.can_be_prefix) * PitFlags::CAN_BE_PREFIX
        | u8::from(key.must_be_fresh) * PitFlags::MUST_BE_FRESH
        | u8::from(key.has_digest) * PitFlags::HAS_DIGEST
}

/// The digest of a Data, computed when first asked for.
enum LazyDigest<F> {
    Pending(F),
    Known([u8; 32]),
    Computing,
}

impl<F: FnOnce() -> [u8; 32]> LazyDigest<F> {
    fn value(&mut self) -> [u8; 32] {
        let digest = match std::mem::replace(self, Self::Computing) {
            Self::Pending(compute) => compute(),
            Self::Known(digest) => digest,
            Self::Computing => [0; 32],
        };
        *self = Self::Known(digest);
        digest
    }
}

/// PIT entries that one Data can satisfy at most: eight at its own name (CanBePrefix or not,
/// MustBeFresh or not, with the digest or without), two at each shorter length.
pub const PIT_MATCHES_MAX: usize = 8 + 2 * (PREFIX_HASHES_MAX - 1);

/// The PIT entries that a Data satisfies; made once and used again for every Data.
#[derive(Debug)]
pub struct PitMatches {
    entries: [PitIndex; PIT_MATCHES_MAX],
    len: usize,
}

impl Default for PitMatches {
    fn default() -> Self {
        Self { entries: [PitIndex(0); PIT_MATCHES_MAX], len: 0 }
    }
}

impl PitMatches {
    /// The entries found by the last search, those of the longest name first.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[PitIndex] {
        &self.entries[..self.len]
    }

    fn clear(&mut self) {
        self.len = 0;
    }

    fn push(&mut self, place: PitIndex) {
        self.entries[self.len] = place;
        self.len += 1;
    }
}
