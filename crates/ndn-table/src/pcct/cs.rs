//! Content Store: lookup, admission, eviction.

use super::cs_entry::{CsEntry, CsIndex, QueueKind, Queues};
use super::eviction::TIMERS_PER_ENTRY_MAX;
use super::pit::Pit;
use super::prefix_tree::{PrefixTree, TreeFull};
use super::{CsCounters, CsError, CsPolicy, PcctConfig, packet_has_name, packet_name};
use crate::arena::{Arena, NONE};
use crate::byte_slab::{BLOCK_SIZE_MAX, BlockRef, ByteSlab};
use crate::hash_index::HashIndex;
use crate::timer_wheel::TimerWheel;
use crate::{DataKey, InterestKey, NameHasher, Timestamp};

/// Different Data of one name that are kept; the one that is fresh the shortest makes way.
pub const CS_VARIANTS_PER_NAME_MAX: usize = 4;

/// Data evicted to make room for one at most. More than one is needed when the size class of the
/// new packet has no block left, or after the capacity was lowered.
pub const EVICTIONS_PER_INSERT_MAX: usize = 16;

/// The digest is remembered in the block, behind the packet.
const DIGEST_LENGTH: usize = 32;

/// Largest packet that can be cached.
pub const CACHED_PACKET_LENGTH_MAX: usize = BLOCK_SIZE_MAX - DIGEST_LENGTH;

/// A Data on its way in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    /// The whole packet.
    pub(super) wire: &'a [u8],
    /// FreshnessPeriod, 0 when absent.
    pub(super) freshness_ms: u64,
    /// A PIT entry asked for it.
    pub(super) solicited: bool,
    /// Nothing is cached under its hash.
    pub(super) is_absent: bool,
}

/// The Content Store of one shard. It shares the hash index with the PIT.
#[derive(Debug)]
pub(super) struct Cs {
    pub(super) entries: Arena<CsEntry>,
    pub(super) tree: PrefixTree,
    pub(super) queues: Queues,
    pub(super) blocks: ByteSlab,
    pub(super) wheel: TimerWheel,
    pub(super) policy: CsPolicy,
    pub(super) capacity: usize,
    pub(super) admit: bool,
    pub(super) serve: bool,
    /// Entries of the victims' queue that lie about a dozen and two dozen before its end; [`NONE`] when the position was lost.
    pub(super) header_cursor: u32,
    pub(super) lines_cursor: u32,
    pub(super) counters: CsCounters,
}

impl Cs {
    pub(super) fn new(config: &PcctConfig, hasher: NameHasher) -> Self {
        let packets = config.cs_packets_max as usize;
        let timers = match config.cs_policy {
            CsPolicy::Lru => 0,
            CsPolicy::PriorityFifo => packets * usize::from(TIMERS_PER_ENTRY_MAX),
        };
        Self {
            entries: Arena::new(packets),
            tree: PrefixTree::new(packets, config.cs_prefix_nodes_max as usize, hasher),
            queues: Queues::EMPTY,
            blocks: ByteSlab::new(config.cs_bytes_max),
            wheel: TimerWheel::new(timers, config.now),
            policy: config.cs_policy,
            capacity: packets,
            admit: true,
            serve: true,
            header_cursor: NONE,
            lines_cursor: NONE,
            counters: CsCounters::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Changes the capacity, up to what the table was built for; returns the new one.
    pub(super) fn set_capacity(&mut self, packets: usize) -> usize {
        self.capacity = packets.min(self.entries.capacity());
        self.capacity
    }

    pub(super) fn policy(&self) -> CsPolicy {
        self.policy
    }

    pub(super) fn bytes_in_use(&self) -> usize {
        self.blocks.bytes_in_use()
    }

    pub(super) fn set_bytes_max(&mut self, bytes: usize) {
        self.blocks.set_limit(bytes);
    }

    /// The whole packet.
    #[inline]
    pub(super) fn packet(&self, place: u32) -> &[u8] {
        self.packet_of(&self.entries[place])
    }

    #[inline(always)]
    fn packet_of(&self, entry: &CsEntry) -> &[u8] {
        self.blocks.bytes(entry.block, usize::from(entry.wire_length))
    }

    pub(super) fn prefetch(&self, place: u32) {
        ndn_ring::prefetch_slice(self.entries.slots(), place as usize);
    }

    /// Asks for the first lines of a packet whose header has been asked for.
    pub(super) fn prefetch_packet(&self, place: u32) {
        if let Some(entry) = self.entries.slots().get(place as usize)
            && entry.block != BlockRef::NONE
        {
            let lines = usize::from(entry.wire_length).div_ceil(64).min(4);
            for line in 0..lines {
                self.blocks.prefetch(entry.block, line);
            }
        }
    }

    /// The Data that answers an Interest.
    #[inline]
    pub(super) fn find(
        &mut self,
        index: &HashIndex,
        key: &InterestKey<'_>,
        is_absent: bool,
        now: Timestamp,
        digest: impl FnMut(&[u8]) -> [u8; 32],
    ) -> Option<CsIndex> {
        let may_match = self.serve && (!is_absent || key.can_be_prefix);
        let found = if may_match { self.find_match(index, key, now, digest) } else { None };
        let Some(place) = found else {
            self.counters.misses += 1;
            return None;
        };
        self.counters.hits += 1;
        if self.policy == CsPolicy::Lru && self.entries[place].newer != NONE {
            self.requeue(place, QueueKind::Main);
        }
        Some(CsIndex(place))
    }

    fn find_match(
        &mut self,
        index: &HashIndex,
        key: &InterestKey<'_>,
        now: Timestamp,
        digest: impl FnMut(&[u8]) -> [u8; 32],
    ) -> Option<u32> {
        if let Some(place) = self.find_exact(index, key, now, digest) {
            return Some(place);
        }
        if !key.can_be_prefix || key.has_digest {
            return None;
        }
        let fresh_at = key.must_be_fresh.then_some(now);
        self.tree.find_below(&self.entries, key.hashes, fresh_at, |place| {
            packet_name(self.packet(place)).starts_with(key.name.value())
        })
    }

    /// Of several Data of the name, the one that is fresh the longest.
    #[inline]
    fn find_exact(
        &mut self,
        index: &HashIndex,
        key: &InterestKey<'_>,
        now: Timestamp,
        mut digest: impl FnMut(&[u8]) -> [u8; 32],
    ) -> Option<u32> {
        let mut best: Option<u32> = None;
        let mut wanted = [NONE; CS_VARIANTS_PER_NAME_MAX];
        let mut candidates = 0;
        let name = key.data_name();
        index.for_each(key.data_hash(), |place| {
            if Pit::owns(place) {
                return;
            }
            let entry = &self.entries[place];
            if key.must_be_fresh && !entry.is_fresh(now)
                || !packet_has_name(self.packet_of(entry), name)
            {
                return;
            }
            if key.has_digest {
                if let Some(candidate) = wanted.get_mut(candidates) {
                    *candidate = place;
                    candidates += 1;
                }
            } else if best.is_none_or(|best| self.entries[best].fresh_until < entry.fresh_until) {
                best = Some(place);
            }
        });
        if let Some(expected) = key.digest() {
            best = wanted[..candidates]
                .iter()
                .copied()
                .find(|&place| self.digest(place, &mut digest) == *expected);
        }
        best
    }

    /// The SHA-256 of a cached packet, computed once.
    fn digest(&mut self, place: u32, compute: &mut impl FnMut(&[u8]) -> [u8; 32]) -> [u8; 32] {
        let entry = &mut self.entries[place];
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

    /// Copies a Data in.
    #[inline]
    pub(super) fn insert(
        &mut self,
        index: &mut HashIndex,
        key: &DataKey<'_>,
        arrival: &Arrival<'_>,
        now: Timestamp,
    ) -> Result<CsIndex, CsError> {
        let Arrival { wire, freshness_ms, solicited, is_absent } = *arrival;
        if !self.admit || self.capacity == 0 {
            return Err(CsError::NotAdmitted);
        }
        if wire.len() > CACHED_PACKET_LENGTH_MAX {
            return Err(CsError::TooLong);
        }
        let fresh_until =
            if freshness_ms == 0 { Timestamp::ZERO } else { now.plus_millis(freshness_ms) };
        if !is_absent && let Some(place) = self.make_way_for_variant(index, key, wire) {
            self.refresh(place, fresh_until, solicited, now);
            return Ok(CsIndex(place));
        }
        let place = self.allocate(index, wire.len())?;
        let entry = &mut self.entries[place];
        entry.hash = key.name_hash();
        entry.fresh_until = fresh_until;
        entry.wire_length = u16::try_from(wire.len()).unwrap_or(u16::MAX);
        entry.name_components = u8::try_from(key.hashes.len() - 1).unwrap_or(u8::MAX);
        entry.is_in_use = true;
        entry.has_digest = false;
        let block = entry.block;
        self.link(index, key, place)?;
        self.blocks.bytes_mut(block, wire.len()).copy_from_slice(wire);
        self.enqueue(place, solicited, now);
        self.look_ahead(index);
        self.counters.insertions += 1;
        Ok(CsIndex(place))
    }

    /// Finds the same packet; otherwise removes one of the Data of the same name if they are too
    /// many.
    fn make_way_for_variant(
        &mut self,
        index: &mut HashIndex,
        key: &DataKey<'_>,
        wire: &[u8],
    ) -> Option<u32> {
        let mut same = None;
        let mut count = 0;
        let mut stalest: Option<u32> = None;
        index.for_each(key.name_hash(), |place| {
            if Pit::owns(place) {
                return;
            }
            let packet = self.packet(place);
            if packet == wire {
                same = Some(place);
            } else if packet_has_name(packet, key.name.value()) {
                count += 1;
                if stalest.is_none_or(|stalest| {
                    self.entries[place].fresh_until < self.entries[stalest].fresh_until
                }) {
                    stalest = Some(place);
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

    /// The same Data came again. One that was asked for before stays so, whoever sends it now.
    fn refresh(&mut self, place: u32, fresh_until: Timestamp, solicited: bool, now: Timestamp) {
        let entry = &mut self.entries[place];
        let solicited = solicited || entry.queue != QueueKind::Unsolicited;
        entry.fresh_until = fresh_until;
        let node = entry.node;
        self.tree.raise_bound(node, fresh_until);
        self.forget_cursor(place);
        self.queues.unlink(&mut self.entries, place);
        self.enqueue(place, solicited, now);
    }

    /// A header and a block, evicting for them what the policy names.
    #[inline]
    fn allocate(&mut self, index: &mut HashIndex, length: usize) -> Result<u32, CsError> {
        let mut evictions_left = EVICTIONS_PER_INSERT_MAX;
        loop {
            let has_room = self.entries.len() < self.capacity && !self.blocks.is_over_limit();
            if has_room && let Some(block) = self.blocks.allocate(length + DIGEST_LENGTH) {
                let Some(place) = self.entries.allocate(|| CsEntry::EMPTY) else {
                    self.blocks.release(block);
                    return Err(CsError::Full);
                };
                self.entries[place].block = block;
                return Ok(place);
            }
            if evictions_left == 0 || !self.evict(index) {
                return Err(CsError::Full);
            }
            evictions_left -= 1;
        }
    }

    /// Files a new entry in the index and the prefix tree, or gives its memory back.
    #[inline]
    fn link(
        &mut self,
        index: &mut HashIndex,
        key: &DataKey<'_>,
        place: u32,
    ) -> Result<(), CsError> {
        let name = key.name.value();
        if index.insert(key.name_hash(), place).is_ok() {
            for _ in 0..=EVICTIONS_PER_INSERT_MAX {
                let Self { tree, entries, blocks, .. } = self;
                match tree.link(entries, blocks, place, name, key.hashes) {
                    Ok(()) => return Ok(()),
                    // Prefixes that nobody else needs go with their Data.
                    Err(TreeFull::Nodes) if self.evict(index) => {}
                    Err(TreeFull::Nodes | TreeFull::Index) => break,
                }
            }
            index.remove(key.name_hash(), place);
        }
        let entry = &mut self.entries[place];
        entry.is_in_use = false;
        self.blocks.release(entry.block);
        self.entries.release(place);
        Err(CsError::Full)
    }
}
