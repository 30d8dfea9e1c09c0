//! Content Store: lookup, admission, eviction, erase.

use ndn_caching::{Object, PolicyKind};
use ndn_disk::{Packet, Share};
use ndn_types::Timestamp;

use super::arrival_log::{ArrivalLog, Search};
use super::config::{CsCounters, CsError, PcctConfig};
use super::cs_entry::{CsEntry, CsIndex, QUEUE_KINDS, QueueKind, Queues};
use super::cs_replacement::{CsReplacement, Replacement, TIMERS_PER_ENTRY_MAX};
use super::packet_name::{packet_has_name, packet_name};
use super::pit::Pit;
use super::prefix_tree::PrefixTree;
use crate::arena::{Arena, NONE};
use crate::byte_slab::{BLOCK_SIZE_MAX, BlockRef, ByteSlab, DIGEST_LENGTH};
use crate::hash_index::{HashIndex, ItemPlace};
use crate::timer_wheel::{Step, TimerWheel};
use crate::{DataKey, InterestKey, NameHasher, PREFIX_HASHES_MAX};

/// Maximum number of different Data of one name; the one whose freshness ends first is evicted.
pub const CS_VARIANTS_PER_NAME_MAX: usize = 4;

/// Maximum number of Data evicted to insert one. More than one is needed when the size class of the
/// new packet has no free block, or after the capacity was lowered.
pub const EVICTIONS_PER_INSERT_MAX: usize = 16;

/// Largest packet that can be cached.
const CACHED_PACKET_LENGTH_MAX: usize = BLOCK_SIZE_MAX - DIGEST_LENGTH;

/// Maximum distance of a timer record. A longer freshness is reached in several steps, so that an
/// entry that already has [`TIMERS_PER_ENTRY_MAX`] records is found stale at most this late.
const TIMER_AHEAD_MAX_NANOS: u64 = 64_000_000_000;

/// Prefetch distance of the victims' lines, in evictions: first the header, then the lines that the
/// header refers to.
const HEADER_AHEAD: u32 = 24;
const LINES_AHEAD: u32 = 12;

/// A Data to be inserted.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewData<'a> {
    /// The whole packet.
    pub(super) wire: &'a [u8],
    /// FreshnessPeriod, 0 when absent.
    pub(super) freshness_ms: u64,
    /// A PIT entry was pending for it.
    pub(super) solicited: bool,
}

/// The Content Store of one shard. It shares the hash index with the PIT.
#[derive(Debug)]
pub(super) struct Cs {
    pub(super) entries: Arena<CsEntry>,
    /// The latest arrivals, for searches by prefix.
    pub(super) log: ArrivalLog,
    /// Data that is still cached when its place in the log is reused.
    pub(super) tree: PrefixTree,
    pub(super) hasher: NameHasher,
    pub(super) queues: Queues,
    pub(super) blocks: ByteSlab,
    pub(super) wheel: TimerWheel,
    pub(super) replacement: Replacement,
    pub(super) capacity: usize,
    pub(super) admit: bool,
    pub(super) serve: bool,
    /// Entries about a dozen and two dozen before the end of the eviction queue, whose lines are
    /// being prefetched; [`NONE`] when the position was lost.
    pub(super) header_cursor: u32,
    pub(super) lines_cursor: u32,
    pub(super) counters: CsCounters,
    /// Takes the packets that are evicted.
    pub(super) disk: Option<Box<Share>>,
}

impl Cs {
    pub(super) fn new(config: &PcctConfig, hasher: NameHasher) -> Self {
        let packets = config.cs_packets_max as usize;
        let CsReplacement { kind, objects, policy, wheel } =
            CsReplacement::new(config.cs_policy, config.cs_packets_max, config.now);
        Self {
            entries: Arena::new(packets),
            log: ArrivalLog::new(packets),
            tree: PrefixTree::new(packets, config.cs_prefix_nodes_max as usize, hasher),
            hasher,
            queues: Queues::EMPTY,
            blocks: ByteSlab::new(config.cs_bytes_max),
            wheel: wheel.unwrap_or_else(|| TimerWheel::new(0, config.now)),
            replacement: Replacement::new(kind, objects, policy, packets),
            capacity: packets,
            admit: true,
            serve: true,
            header_cursor: NONE,
            lines_cursor: NONE,
            counters: CsCounters::default(),
            disk: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Changes the capacity, up to the size the table was built with; returns the new capacity.
    pub(super) fn set_capacity(&mut self, packets: usize) -> usize {
        self.capacity = packets.min(self.entries.capacity());
        self.capacity
    }

    pub(super) fn policy(&self) -> PolicyKind {
        self.replacement.kind
    }

    pub(super) fn bytes_in_use(&self) -> usize {
        self.blocks.bytes_in_use()
    }

    pub(super) fn set_bytes_max(&mut self, bytes: usize) {
        self.blocks.set_limit(bytes);
    }

    /// The whole packet.
    #[inline]
    pub(super) fn packet(&self, slot: u32) -> &[u8] {
        self.packet_of(&self.entries[slot])
    }

    #[inline(always)]
    fn packet_of(&self, entry: &CsEntry) -> &[u8] {
        self.blocks.bytes(entry.block, usize::from(entry.wire_length))
    }

    pub(super) fn prefetch(&self, slot: u32) {
        ndn_ring::prefetch_slice(self.entries.slots(), slot as usize);
    }

    /// Prefetches the first lines of a packet whose header has been prefetched.
    pub(super) fn prefetch_packet(&self, slot: u32) {
        if let Some(entry) = self.entries.slots().get(slot as usize)
            && entry.block != BlockRef::NONE
        {
            let lines = usize::from(entry.wire_length).div_ceil(64).min(4);
            for line in 0..lines {
                self.blocks.prefetch(entry.block, line);
            }
        }
    }

    /// The Data that satisfies an Interest.
    #[inline]
    pub(super) fn find(
        &mut self,
        index: &HashIndex,
        key: &InterestKey<'_>,
        now: Timestamp,
        digest: impl FnMut(&[u8]) -> [u8; 32],
    ) -> Option<CsIndex> {
        if !self.serve {
            return None;
        }
        let slot = self.find_match(index, key, now, digest)?;
        self.entries[slot].was_requested = true;
        if self.replacement.kind == PolicyKind::Lru {
            if self.entries[slot].newer != NONE {
                self.requeue(slot, QueueKind::Main);
            }
        } else if self.replacement.is_object() {
            self.note_hit(slot);
        }
        Some(CsIndex(slot))
    }

    fn find_match(
        &mut self,
        index: &HashIndex,
        key: &InterestKey<'_>,
        now: Timestamp,
        digest: impl FnMut(&[u8]) -> [u8; 32],
    ) -> Option<u32> {
        if let Some(slot) = self.find_exact(index, key, now, digest) {
            return Some(slot);
        }
        if !key.can_be_prefix || key.has_digest {
            return None;
        }
        let fresh_at = key.must_be_fresh.then_some(now);
        let mut search = self.log.search();
        self.find_below(&mut search, key.hashes, key.name.value(), fresh_at)
    }

    /// A Data whose name is longer than `prefix`, with these hashes, and starts with it; the latest arrivals first. With
    /// `fresh_at`, only Data that is fresh at that time.
    fn find_below(
        &mut self,
        search: &mut Search,
        hashes: &[u64],
        prefix: &[u8],
        fresh_at: Option<Timestamp>,
    ) -> Option<u32> {
        let Self { log, tree, entries, blocks, .. } = self;
        let has_prefix = |slot: u32| {
            let entry = &entries[slot];
            let packet = blocks.bytes(entry.block, usize::from(entry.wire_length));
            packet_name(packet).starts_with(prefix)
        };
        let is_fresh = |slot: u32| fresh_at.is_none_or(|now| entries[slot].is_fresh(now));
        log.find(search, hashes, fresh_at, |slot| is_fresh(slot) && has_prefix(slot))
            .or_else(|| tree.find_below(entries, hashes, fresh_at, has_prefix))
    }

    /// Of several Data of the name, the one whose freshness ends last.
    #[inline]
    fn find_exact(
        &mut self,
        index: &HashIndex,
        key: &InterestKey<'_>,
        now: Timestamp,
        mut digest: impl FnMut(&[u8]) -> [u8; 32],
    ) -> Option<u32> {
        let mut best: Option<u32> = None;
        let mut requested = [NONE; CS_VARIANTS_PER_NAME_MAX];
        let mut candidates = 0;
        let name = key.data_name();
        index.for_each(key.data_hash(), |slot| {
            if Pit::owns(slot) {
                return;
            }
            let entry = &self.entries[slot];
            if key.must_be_fresh && !entry.is_fresh(now)
                || !packet_has_name(self.packet_of(entry), name)
            {
                return;
            }
            if key.has_digest {
                if let Some(candidate) = requested.get_mut(candidates) {
                    *candidate = slot;
                    candidates += 1;
                }
            } else if best.is_none_or(|best| self.entries[best].fresh_until < entry.fresh_until) {
                best = Some(slot);
            }
        });
        if let Some(expected) = key.digest() {
            best = requested[..candidates]
                .iter()
                .copied()
                .find(|&slot| self.digest(slot, &mut digest) == *expected);
        }
        best
    }

    /// The SHA-256 of a cached packet, computed once.
    fn digest(&mut self, slot: u32, compute: &mut impl FnMut(&[u8]) -> [u8; 32]) -> [u8; 32] {
        let entry = &mut self.entries[slot];
        let length = usize::from(entry.wire_length);
        let bytes = self.blocks.bytes_mut(entry.block, length + DIGEST_LENGTH);
        let (packet, remembered) = bytes.split_at_mut(length);
        let mut digest = [0; DIGEST_LENGTH];
        if entry.has_digest {
            digest.copy_from_slice(remembered);
        } else {
            digest = compute(packet);
            remembered.copy_from_slice(&digest);
            entry.has_digest = true;
        }
        digest
    }

    /// Inserts a copy of a Data.
    #[inline]
    pub(super) fn insert(
        &mut self,
        index: &mut HashIndex,
        key: &DataKey<'_>,
        arrival: &NewData<'_>,
        now: Timestamp,
    ) -> Result<CsIndex, CsError> {
        let NewData { wire, solicited, .. } = *arrival;
        let fresh_until = self.check_admission(arrival, now)?;
        if let Some(slot) = self.find_same_or_evict_variant(index, key, wire) {
            self.refresh(index, key, slot, fresh_until);
            self.requeue_arrived(slot, solicited, now);
            return Ok(CsIndex(slot));
        }
        if self.replacement.is_object() {
            return self.insert_by_policy(index, key, arrival, fresh_until);
        }
        let slot = self.allocate(index, wire.len() + DIGEST_LENGTH)?;
        self.add_to_index(index, key, slot)?;
        self.fill(index, key, wire, slot, fresh_until);
        self.enqueue(slot, solicited, now);
        self.prefetch_victims(index);
        self.counters.insertions += 1;
        Ok(CsIndex(slot))
    }

    /// Inserts a copy of a Data of whose name none is cached. It takes the place of another item of the index.
    #[inline(always)]
    pub(super) fn insert_in_place(
        &mut self,
        index: &mut HashIndex,
        place: ItemPlace,
        key: &DataKey<'_>,
        arrival: NewData<'_>,
        now: Timestamp,
    ) -> Result<CsIndex, CsError> {
        let allocated = match self.check_admission(&arrival, now) {
            Ok(fresh_until) if self.replacement.is_object() => {
                index.remove_at(place);
                // Copies: in the usual case, the fields stay in registers.
                return self.insert_by_policy(index, &{ *key }, &{ arrival }, fresh_until);
            }
            Ok(fresh_until) => {
                let length = arrival.wire.len() + DIGEST_LENGTH;
                self.allocate(index, length).map(|slot| (slot, fresh_until))
            }
            Err(error) => Err(error),
        };
        let (slot, fresh_until) = match allocated {
            Ok(allocated) => allocated,
            Err(error) => {
                index.remove_at(place);
                return Err(error);
            }
        };
        index.replace_at(place, slot);
        let wire = arrival.wire;
        let log_place = self.log_arrival(index, slot, key.hashes, fresh_until);
        let entries = self.entries.slots_mut();
        let entry = &mut entries[slot as usize];
        entry.describe(key.hashes, wire.len(), fresh_until, log_place);
        entry.index_slot = place.slot();
        let block = entry.block;
        if self.replacement.kind == PolicyKind::Lru {
            self.queues.push(entries, slot, QueueKind::Main);
        } else {
            self.enqueue(slot, arrival.solicited, now);
        }
        self.prefetch_victims(index);
        self.counters.insertions += 1;
        // Last, because a call leaves few registers.
        self.blocks.write(block, wire);
        Ok(CsIndex(slot))
    }

    /// Whether a Data may be cached; returns the end of its freshness.
    #[inline(always)]
    fn check_admission(&self, arrival: &NewData<'_>, now: Timestamp) -> Result<Timestamp, CsError> {
        if !self.admit || self.capacity == 0 {
            return Err(CsError::NotAdmitted);
        }
        if arrival.wire.len() > CACHED_PACKET_LENGTH_MAX {
            return Err(CsError::TooLong);
        }
        Ok(match arrival.freshness_ms {
            0 => Timestamp::ZERO,
            freshness_ms => now.plus_millis(freshness_ms),
        })
    }

    /// Returns the entry of the same packet, if cached; otherwise removes one Data of the same name
    /// if there are too many.
    fn find_same_or_evict_variant(
        &mut self,
        index: &mut HashIndex,
        key: &DataKey<'_>,
        wire: &[u8],
    ) -> Option<u32> {
        let mut same = None;
        let mut count = 0;
        let mut stalest: Option<u32> = None;
        index.for_each(key.name_hash(), |slot| {
            if Pit::owns(slot) {
                return;
            }
            let packet = self.packet(slot);
            if packet == wire {
                same = Some(slot);
            } else if packet_has_name(packet, key.name.value()) {
                count += 1;
                if stalest.is_none_or(|stalest| {
                    self.entries[slot].fresh_until < self.entries[stalest].fresh_until
                }) {
                    stalest = Some(slot);
                }
            }
        });
        if same.is_none()
            && count >= CS_VARIANTS_PER_NAME_MAX
            && let Some(stalest) = stalest
        {
            self.remove(index, stalest);
            self.counters.evictions += 1;
        }
        same
    }

    /// The same Data arrived again.
    fn refresh(
        &mut self,
        index: &mut HashIndex,
        key: &DataKey<'_>,
        slot: u32,
        fresh_until: Timestamp,
    ) {
        self.forget_prefixes(slot);
        let place = self.log_arrival(index, slot, key.hashes, fresh_until);
        let entry = &mut self.entries[slot];
        entry.fresh_until = fresh_until;
        entry.set_place(place);
    }

    /// Puts a Data that arrived again at the end of its queue. A solicited Data stays solicited.
    fn requeue_arrived(&mut self, slot: u32, solicited: bool, now: Timestamp) {
        let queue = self.entries[slot].queue;
        if queue == QueueKind::Policy {
            if solicited {
                self.note_hit(slot);
            }
            return;
        }
        let solicited = solicited || queue != QueueKind::Unsolicited;
        self.leave_queue(slot);
        self.enqueue(slot, solicited, now);
    }

    /// Allocates a header and a block, evicting from the queues if necessary.
    #[inline(always)]
    fn allocate(&mut self, index: &mut HashIndex, length: usize) -> Result<u32, CsError> {
        let mut evictions_max = EVICTIONS_PER_INSERT_MAX;
        // The usual case, without a loop.
        if self.entries.len() == self.capacity
            && let Some(victim) = self.pop_queued()
        {
            if self.take_over(index, victim, length) {
                return Ok(victim);
            }
            evictions_max -= 1;
        }
        self.allocate_for(index, length, None, evictions_max)
    }

    /// Allocates a header and a block after at most `evictions_max` evictions. `incoming` is what they are for, if a policy object
    /// is in force.
    #[inline(never)]
    pub(super) fn allocate_for(
        &mut self,
        index: &mut HashIndex,
        length: usize,
        incoming: Option<Object>,
        evictions_max: usize,
    ) -> Result<u32, CsError> {
        let mut evictions_left = evictions_max;
        loop {
            if self.entries.len() < self.capacity
                && !self.blocks.is_over_limit()
                && let Some(block) = self.blocks.allocate(length)
            {
                let Some(slot) = self.entries.allocate(|| CsEntry::EMPTY) else {
                    self.blocks.release(block);
                    return Err(CsError::Full);
                };
                self.entries[slot].block = block;
                return Ok(slot);
            }
            evictions_left = evictions_left.checked_sub(1).ok_or(CsError::Full)?;
            let victim = self.pop_victim(incoming)?;
            if self.entries.len() > self.capacity {
                self.evict(index, victim);
                self.release(victim);
            } else if self.take_over(index, victim, length) {
                return Ok(victim);
            }
        }
    }

    /// Evicts a Data, which is not more than the capacity. Returns whether the next Data takes over its header and its block, which
    /// has the right size; otherwise both are released.
    #[inline(always)]
    fn take_over(&mut self, index: &mut HashIndex, victim: u32, length: usize) -> bool {
        let (block, wire_length) = self.evict(index, victim);
        let is_as_long = wire_length + DIGEST_LENGTH == length;
        let fits =
            !self.blocks.is_over_limit() && (is_as_long || self.blocks.has_size_of(block, length));
        if !fits {
            self.release(victim);
        }
        fits
    }

    /// Adds a header to the index; releases it, with its block, if the index is full.
    pub(super) fn add_to_index(
        &mut self,
        index: &mut HashIndex,
        key: &DataKey<'_>,
        slot: u32,
    ) -> Result<(), CsError> {
        index.insert(key.name_hash(), slot).map_err(|_| {
            self.release(slot);
            CsError::Full
        })
    }

    /// Stores a Data in a header, which is in the index, and in a block, and adds it to the log.
    #[inline]
    pub(super) fn fill(
        &mut self,
        index: &mut HashIndex,
        key: &DataKey<'_>,
        wire: &[u8],
        slot: u32,
        fresh_until: Timestamp,
    ) {
        let place = self.log_arrival(index, slot, key.hashes, fresh_until);
        let entry = &mut self.entries[slot];
        entry.describe(key.hashes, wire.len(), fresh_until, place);
        self.blocks.write(entry.block, wire);
    }

    /// Makes a Data with these prefix hashes the latest arrival; returns its place.
    #[inline(always)]
    fn log_arrival(
        &mut self,
        index: &mut HashIndex,
        slot: u32,
        hashes: &[u64],
        fresh_until: Timestamp,
    ) -> u32 {
        if let Some(oldest) = self.log.oldest_if_full() {
            self.move_to_tree(index, oldest);
        }
        self.log.append(slot, hashes, fresh_until)
    }

    /// Moves a Data from the log to the prefix tree. If that has no room, evicts the Data.
    #[cold]
    pub(super) fn move_to_tree(&mut self, index: &mut HashIndex, slot: u32) {
        self.forget_prefixes(slot);
        let Self { tree, entries, blocks, hasher, .. } = self;
        let entry = &entries[slot];
        let name = packet_name(blocks.bytes(entry.block, usize::from(entry.wire_length)));
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let count = hasher.hash_value_prefixes(name, &mut hashes).unwrap_or_default();
        if tree.link(entries, blocks, slot, name, &hashes[..count]).is_err() {
            self.remove(index, slot);
            self.counters.evictions += 1;
        }
    }

    /// Removes a Data from the log or the prefix tree.
    #[inline(always)]
    fn forget_prefixes(&mut self, slot: u32) {
        match self.entries[slot].place() {
            Some(place) => self.log.remove(place),
            None => self.tree.unlink(&mut self.entries, slot),
        }
    }
}

/// Eviction.
impl Cs {
    #[inline(never)]
    pub(super) fn enqueue(&mut self, slot: u32, solicited: bool, now: Timestamp) {
        let policy = self.replacement.kind;
        let kind = if policy == PolicyKind::Lru {
            QueueKind::Main
        } else if policy != PolicyKind::PriorityFifo {
            return self.enqueue_by_policy(slot);
        } else if !solicited {
            QueueKind::Unsolicited
        } else if !self.entries[slot].is_fresh(now) {
            QueueKind::Stale
        } else {
            self.schedule_stale(slot, now);
            QueueKind::Main
        };
        self.queues.push(self.entries.slots_mut(), slot, kind);
    }

    pub(super) fn requeue(&mut self, slot: u32, kind: QueueKind) {
        self.leave_queue(slot);
        self.queues.push(self.entries.slots_mut(), slot, kind);
    }

    pub(super) fn schedule_stale(&mut self, slot: u32, now: Timestamp) {
        let entry = &mut self.entries[slot];
        let deadline = entry.fresh_until.min(now.plus_nanos(TIMER_AHEAD_MAX_NANOS));
        if entry.timer_count < TIMERS_PER_ENTRY_MAX
            && self.wheel.schedule(u64::from(slot), deadline).is_ok()
        {
            entry.timer_count += 1;
        }
    }

    /// Takes the next victim out of its queue or policy object, to make room for `incoming` if there is one.
    fn pop_victim(&mut self, incoming: Option<Object>) -> Result<u32, CsError> {
        match self.pop_queued() {
            Some(victim) => Ok(victim),
            None => self.choose_by_policy(incoming),
        }
    }

    /// Takes the next victim out of its queue.
    #[inline(always)]
    fn pop_queued(&mut self) -> Option<u32> {
        let victim = self.queues.pop(self.entries.slots_mut())?;
        self.invalidate_cursors(victim);
        Some(victim)
    }

    #[inline(always)]
    pub(super) fn leave_queue(&mut self, slot: u32) {
        self.invalidate_cursors(slot);
        self.queues.unlink(self.entries.slots_mut(), slot);
    }

    /// Takes a victim that is in no queue out of the other structures. Its memory is the caller's; returns the block, and the
    /// length of the Data in it.
    #[inline(always)]
    fn evict(&mut self, index: &mut HashIndex, victim: u32) -> (BlockRef, usize) {
        self.counters.evictions += 1;
        if self.disk.is_some() {
            self.offer_to_disk(victim);
        }
        self.forget(index, victim)
    }

    #[cold]
    fn offer_to_disk(&mut self, victim: u32) {
        let is_scored = self.is_scored(victim);
        let Self { entries, blocks, disk: Some(disk), .. } = self else { return };
        let entry = &entries[victim];
        let wire = blocks.bytes(entry.block, usize::from(entry.wire_length));
        let packet = Packet { wire, fresh_until: entry.fresh_until };
        disk.offer(entry.hash, packet, entry.was_requested || is_scored);
    }

    /// Removes an entry from all structures and frees its memory.
    #[inline]
    pub(super) fn remove(&mut self, index: &mut HashIndex, slot: u32) {
        if self.entries[slot].queue == QueueKind::Policy {
            self.forget_by_policy(slot);
        } else {
            self.leave_queue(slot);
        }
        self.forget(index, slot);
        self.release(slot);
    }

    /// Removes an entry that is in no queue from the other structures. Returns its block, and the length of the Data in it.
    #[inline(always)]
    fn forget(&mut self, index: &mut HashIndex, slot: u32) -> (BlockRef, usize) {
        let entry = &mut self.entries[slot];
        entry.is_in_use = false;
        let CsEntry { hash, index_slot, block, wire_length, .. } = *entry;
        self.forget_prefixes(slot);
        let removed = index.remove_from(hash, slot, index_slot);
        debug_assert!(removed);
        (block, usize::from(wire_length))
    }

    /// Frees the memory of an entry that is in no structure.
    #[inline]
    fn release(&mut self, slot: u32) {
        self.blocks.release(self.entries[slot].block);
        self.entries.release(slot);
    }

    /// Moves entries that became stale, evicts what exceeds the capacity, and hands entries over after a change of
    /// policy, in at most `limit` steps. Returns whether more is to do.
    pub(super) fn poll(&mut self, index: &mut HashIndex, now: Timestamp, limit: usize) -> bool {
        for _ in 0..limit {
            let is_above = self.entries.len() > self.capacity || self.blocks.is_over_limit();
            if is_above && let Ok(victim) = self.pop_victim(None) {
                self.evict(index, victim);
                self.release(victim);
                continue;
            }
            if self.replacement.is_changing && self.hand_over(now) {
                continue;
            }
            match self.wheel.step(now) {
                Step::Record(key, _) => self.on_timer(key, now),
                Step::Moved => {}
                Step::Nothing => return false,
            }
        }
        true
    }

    fn on_timer(&mut self, key: u64, now: Timestamp) {
        let Ok(slot) = u32::try_from(key) else { return };
        let entry = &mut self.entries[slot];
        entry.timer_count -= 1;
        let is_ordered = self.replacement.kind == PolicyKind::PriorityFifo;
        if !is_ordered || !entry.is_in_use || entry.queue != QueueKind::Main {
            return;
        }
        if entry.is_fresh(now) {
            self.schedule_stale(slot, now);
        } else {
            self.requeue(slot, QueueKind::Stale);
        }
    }

    /// Plants a fault: Data whose freshness ends stay fresh for an hour. Returns whether there are any.
    #[cfg(feature = "planted-faults")]
    pub(super) fn keep_fresh(&mut self, now: Timestamp) -> bool {
        let until = now.plus_millis(3_600_000);
        let slots = u32::try_from(self.entries.slots().len()).unwrap_or(NONE);
        let mut has_fresh = false;
        for slot in 0..slots {
            let entry = &mut self.entries[slot];
            if entry.is_in_use && entry.fresh_until != Timestamp::ZERO {
                entry.fresh_until = until;
                has_fresh = true;
            }
        }
        has_fresh
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        if self.replacement.is_changing {
            return Some(Timestamp::ZERO);
        }
        self.wheel.next_deadline()
    }

    /// One step of the prefetch cursors: when an entry becomes the victim, its header, bucket and
    /// neighbours are in the cache.
    #[inline(always)]
    pub(super) fn prefetch_victims(&mut self, index: &HashIndex) {
        let entries = self.entries.slots();
        // The other cursor is behind the first, and so at an entry, too.
        if let Some(entry) = entries.get(self.header_cursor as usize)
            && let Some(next) = entries.get(self.lines_cursor as usize)
        {
            // Its line was prefetched for the Data before.
            self.header_cursor = entry.newer;
            ndn_ring::prefetch_slice(entries, entry.newer as usize);
            index.prefetch(next.hash);
            // The next Data is written to the victim's block.
            self.blocks.prefetch_lines(next.block, usize::from(next.wire_length));
            self.lines_cursor = next.newer;
        } else {
            self.reset_cursors();
        }
    }

    /// Sets the cursors, if each insertion evicts.
    #[cold]
    fn reset_cursors(&mut self) {
        if self.entries.len() + 1 < self.capacity && !self.blocks.is_over_limit() {
            return;
        }
        let Some(victim) = self.queues.victim() else { return };
        let mut slot = victim;
        for distance in 0..HEADER_AHEAD {
            if distance == LINES_AHEAD {
                self.lines_cursor = slot;
            }
            if slot != NONE {
                slot = self.entries[slot].newer;
            }
        }
        self.header_cursor = slot;
    }

    /// Invalidates the cursors if they point to an entry that leaves its position in the queue.
    #[inline]
    pub(super) fn invalidate_cursors(&mut self, slot: u32) {
        if slot == self.header_cursor || slot == self.lines_cursor {
            self.header_cursor = NONE;
            self.lines_cursor = NONE;
        }
    }

    /// Every packet: those of the queues in eviction order, then those of a policy object.
    pub(super) fn packets(&self) -> impl Iterator<Item = &[u8]> {
        let of_policy = self.slots_of_policy().map(|slot| self.packet(slot));
        let queued = QUEUE_KINDS.into_iter().flat_map(|kind| {
            let oldest = self.queues.queue(kind).oldest;
            let follow = |slot: &u32| Some(self.entries[*slot].newer).filter(|&p| p != NONE);
            std::iter::successors(Some(oldest).filter(|&slot| slot != NONE), follow)
                .map(|slot| self.packet(slot))
        });
        queued.chain(of_policy)
    }

    /// Lengths of the queues: unsolicited, stale, main.
    pub(super) fn queue_lengths(&self) -> [u32; 3] {
        QUEUE_KINDS.map(|kind| self.queues.queue(kind).len)
    }
}

/// Erase.
impl Cs {
    /// Continues to erase up to `limit` Data whose name starts with the name of `key`, for [`ERASE_STEPS`] at most.
    pub(super) fn erase(
        &mut self,
        index: &mut HashIndex,
        key: &DataKey<'_>,
        search: &mut EraseSearch,
        limit: usize,
    ) -> EraseResult {
        let begun = search.0.unwrap_or_else(|| self.log.search());
        let mut position = begun.continued(ERASE_STEPS);
        let mut erased = 0;
        let rest = loop {
            let before = position;
            let Some(slot) = self.find_under(index, key, &mut position) else {
                let has_more = position.has_more();
                break if has_more { EraseRest::NotSearched } else { EraseRest::Nothing };
            };
            if erased == limit {
                position = before;
                break EraseRest::Data;
            }
            self.remove(index, slot);
            erased += 1;
        };
        search.0 = Some(position);
        EraseResult { erased, rest }
    }

    /// Any Data at or below a name.
    fn find_under(
        &mut self,
        index: &HashIndex,
        key: &DataKey<'_>,
        search: &mut Search,
    ) -> Option<u32> {
        let name = key.name().value();
        let exact = index.find(key.name_hash(), |slot| {
            !Pit::owns(slot) && packet_name(self.packet(slot)) == name
        });
        if exact.is_some() {
            return exact;
        }
        self.find_below(search, key.hashes, name, None)
    }
}

/// Steps of the search that one call of [`Pcct::erase_data`](crate::Pcct::erase_data) may take: 64 names.
const ERASE_STEPS: u32 = 1024;

/// The part of the Content Store that an erasure has searched: nothing at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct EraseSearch(Option<Search>);

/// Result of one call of [`Pcct::erase_data`](crate::Pcct::erase_data).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EraseResult {
    /// Data erased.
    pub erased: usize,
    /// The rest of the prefix.
    pub rest: EraseRest,
}

/// The rest of a prefix after a call of [`Pcct::erase_data`](crate::Pcct::erase_data).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EraseRest {
    /// No Data that was cached when the erasure began.
    Nothing,
    /// At least one Data, which would have exceeded the limit.
    Data,
    /// Not known: a part of the Content Store is not searched yet.
    NotSearched,
}
