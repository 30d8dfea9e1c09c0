//! The face table of a shard.

use std::collections::HashMap;

use ndn_table::FaceIndex;

use crate::{FaceProperties, LinkType, PitTokenPolicy, Scope};

/// Face properties that the pipelines use, in one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FaceFlags(u8);

impl FaceFlags {
    const EXISTS: u8 = 1;
    const LOCAL: u8 = 1 << 1;
    const POINT_TO_POINT: u8 = 1 << 2;
    const AD_HOC: u8 = 1 << 3;
    const SENDS_TOKENS: u8 = 1 << 4;
    const LEARNS_TOKENS: u8 = 1 << 5;
    const LOCAL_FIELDS: u8 = 1 << 6;
    const PENDING_QUOTA: u8 = 1 << 7;

    fn new(properties: &FaceProperties) -> Self {
        let mut flags = Self::EXISTS;
        let mut set = |flag, condition| flags |= if condition { flag } else { 0 };
        set(Self::LOCAL, properties.scope == Scope::Local);
        set(Self::POINT_TO_POINT, properties.link_type == LinkType::PointToPoint);
        set(Self::AD_HOC, properties.link_type == LinkType::AdHoc);
        set(Self::SENDS_TOKENS, properties.pit_tokens == PitTokenPolicy::Always);
        set(Self::LEARNS_TOKENS, properties.pit_tokens == PitTokenPolicy::WhenSeen);
        set(Self::LOCAL_FIELDS, properties.local_fields);
        set(Self::PENDING_QUOTA, properties.pending_quota);
        Self(flags)
    }

    fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn is_local(self) -> bool {
        self.has(Self::LOCAL)
    }

    pub(crate) fn is_point_to_point(self) -> bool {
        self.has(Self::POINT_TO_POINT)
    }

    pub(crate) fn is_ad_hoc(self) -> bool {
        self.has(Self::AD_HOC)
    }

    /// Whether outgoing Interests carry a PIT token of this forwarder.
    pub(crate) fn sends_tokens(self) -> bool {
        self.has(Self::SENDS_TOKENS)
    }

    pub(crate) fn has_local_fields(self) -> bool {
        self.has(Self::LOCAL_FIELDS)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    face_id: u64,
    /// Number of PIT entries that the face owns.
    entries: u32,
    generation: u16,
    flags: FaceFlags,
}

const _: () = assert!(size_of::<Slot>() == 16 && FaceIndex::GENERATION_COUNT <= 1 << 16);

impl Slot {
    fn is_live(&self, index: FaceIndex) -> bool {
        u32::from(self.generation) == index.generation() && self.flags != FaceFlags::default()
    }
}

/// The faces of the forwarder, as one shard knows them.
///
/// Indexed by the slot of [`FaceIndex`]; an index of an earlier generation is not found. Only
/// messages of the control thread make the table grow.
#[derive(Debug, Default)]
pub struct FaceTable {
    slots: Vec<Slot>,
    /// Bytes of long Interests in the PIT entries of each slot.
    long_bytes: Vec<usize>,
    /// Faces by FaceId.
    by_id: HashMap<u64, FaceIndex>,
    count: usize,
    /// Number of faces that own a PIT entry.
    owner_count: usize,
}

impl FaceTable {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a face, or changes its properties. Replaces a face of another generation in the same
    /// slot.
    pub fn insert(&mut self, index: FaceIndex, properties: &FaceProperties) {
        let position = index.slot() as usize;
        if position >= self.slots.len() {
            self.slots.resize(position + 1, Slot::default());
            self.long_bytes.resize(position + 1, 0);
        }
        let slot = &mut self.slots[position];
        self.count += usize::from(slot.flags == FaceFlags::default());
        // Entries of an earlier face in the slot no longer count for anyone.
        let entries = if slot.is_live(index) { slot.entries } else { 0 };
        self.owner_count -= usize::from(slot.entries > 0 && entries == 0);
        if !slot.is_live(index) {
            self.long_bytes[position] = 0;
        }
        let old_id = slot.face_id;
        *slot = Slot {
            face_id: properties.face_id,
            entries,
            generation: u16::try_from(index.generation()).unwrap_or_default(),
            flags: FaceFlags::new(properties),
        };
        self.forget_id(old_id, index.slot());
        self.by_id.insert(properties.face_id, index);
    }

    /// Removes a FaceId, unless it has moved to another slot.
    fn forget_id(&mut self, face_id: u64, slot: u32) {
        if self.by_id.get(&face_id).is_some_and(|found| found.slot() == slot) {
            self.by_id.remove(&face_id);
        }
    }

    /// Removes a face. Returns whether there was one.
    pub fn remove(&mut self, index: FaceIndex) -> bool {
        let exists = self.find(index).is_some();
        if exists {
            let slot = std::mem::take(&mut self.slots[index.slot() as usize]);
            self.owner_count -= usize::from(slot.entries > 0);
            self.count -= 1;
            self.forget_id(slot.face_id, index.slot());
        }
        exists
    }

    /// Number of faces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// FaceId of a face.
    #[must_use]
    pub fn face_id(&self, index: FaceIndex) -> Option<u64> {
        self.slot(index).map(|slot| slot.face_id)
    }

    /// The face with this FaceId, for NextHopFaceId.
    #[must_use]
    pub fn find_by_id(&self, face_id: u64) -> Option<FaceIndex> {
        self.by_id.get(&face_id).copied()
    }

    /// The first non-local face at slot `position` or after it, and the next slot to continue from.
    pub(crate) fn next_remote(&self, position: usize) -> Option<(usize, FaceIndex)> {
        let behind = self.slots.iter().enumerate().skip(position);
        let mut remote =
            behind.filter(|(_, slot)| slot.flags != FaceFlags::default() && !slot.flags.is_local());
        let (at, slot) = remote.next()?;
        let face = FaceIndex::new(u32::try_from(at).ok()?, u32::from(slot.generation));
        Some((at + 1, face))
    }

    /// Properties of a face; `None` if it has been removed.
    #[inline]
    pub(crate) fn find(&self, index: FaceIndex) -> Option<FaceFlags> {
        self.slot(index).map(|slot| slot.flags)
    }

    /// Records that the peer of a face sends PIT tokens, and so understands them. Returns whether
    /// this changes the policy of the face.
    #[inline]
    pub(crate) fn note_token(&mut self, index: FaceIndex) -> bool {
        if let Some(slot) = self.slot_mut(index)
            && slot.flags.has(FaceFlags::LEARNS_TOKENS)
        {
            let is_news = !slot.flags.sends_tokens();
            slot.flags.0 |= FaceFlags::SENDS_TOKENS;
            return is_news;
        }
        false
    }

    /// Counts a PIT entry owned by a face.
    #[inline]
    pub(crate) fn add_entry(&mut self, index: FaceIndex) {
        if let Some(slot) = self.slot_mut(index) {
            slot.entries += 1;
            let is_first = slot.entries == 1;
            self.owner_count += usize::from(is_first);
        }
    }

    /// Counts the end of a PIT entry owned by a face, unless the face has been removed.
    #[inline]
    pub(crate) fn subtract_entry(&mut self, index: FaceIndex) {
        if let Some(slot) = self.slot_mut(index)
            && slot.entries > 0
        {
            slot.entries -= 1;
            let was_last = slot.entries == 0;
            self.owner_count -= usize::from(was_last);
        }
    }

    /// Counts the bytes of a long Interest in a PIT entry owned by a face.
    #[cold]
    pub(crate) fn add_long_bytes(&mut self, index: FaceIndex, bytes: usize) {
        if self.slot(index).is_some() {
            self.long_bytes[index.slot() as usize] += bytes;
        }
    }

    /// Counts the end of such an Interest, unless the face has been removed.
    #[cold]
    pub(crate) fn subtract_long_bytes(&mut self, index: FaceIndex, bytes: usize) {
        if self.slot(index).is_some() {
            let held = &mut self.long_bytes[index.slot() as usize];
            *held = held.saturating_sub(bytes);
        }
    }

    /// Bytes of the long Interests in PIT entries owned by a face.
    pub(crate) fn long_bytes_held(&self, index: FaceIndex) -> usize {
        self.slot(index).map_or(0, |_| self.long_bytes[index.slot() as usize])
    }

    /// Whether a face with a quota owns at least `quota` PIT entries.
    #[inline]
    pub(crate) fn has_used_quota(&self, index: FaceIndex, quota: u32) -> bool {
        self.slot(index)
            .is_some_and(|slot| slot.entries >= quota && slot.flags.has(FaceFlags::PENDING_QUOTA))
    }

    /// Number of PIT entries owned by a face.
    pub(crate) fn entries_held(&self, index: FaceIndex) -> usize {
        self.slot(index).map_or(0, |slot| slot.entries as usize)
    }

    /// Number of faces that own a PIT entry.
    pub(crate) fn owner_count(&self) -> usize {
        self.owner_count
    }

    #[inline]
    fn slot_mut(&mut self, index: FaceIndex) -> Option<&mut Slot> {
        self.slots.get_mut(index.slot() as usize).filter(|slot| slot.is_live(index))
    }

    #[inline]
    fn slot(&self, index: FaceIndex) -> Option<&Slot> {
        self.slots.get(index.slot() as usize).filter(|slot| slot.is_live(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(face_id: u64) -> FaceProperties {
        FaceProperties::point_to_point(face_id, Scope::NonLocal)
    }

    #[test]
    fn stale_generation_finds_nothing() {
        let mut table = FaceTable::new();
        let (old, new) = (FaceIndex::new(3, 1), FaceIndex::new(3, 2));
        table.insert(old, &properties(300));
        assert_eq!(table.face_id(old), Some(300));
        table.insert(new, &properties(301));
        assert_eq!((table.face_id(old), table.face_id(new)), (None, Some(301)));
        assert!(!table.remove(old));
        assert!(table.remove(new));
        assert!(table.is_empty() && table.find(new).is_none());
        assert_eq!(table.find_by_id(301), None);
    }

    #[test]
    fn entries_are_counted_for_their_owner() {
        let mut table = FaceTable::new();
        let (a, b, next) = (FaceIndex::new(0, 1), FaceIndex::new(1, 1), FaceIndex::new(0, 2));
        table.insert(a, &properties(256));
        table.insert(b, &properties(257));
        [a, a, b].into_iter().for_each(|face| table.add_entry(face));
        table.insert(a, &properties(256));
        let held = |table: &FaceTable, face| (table.entries_held(face), table.owner_count());
        assert_eq!((held(&table, a), held(&table, b)), ((2, 2), (1, 2)));
        table.subtract_entry(a);
        assert_eq!(held(&table, a), (1, 2));
        table.insert(next, &properties(258));
        assert_eq!((held(&table, a), held(&table, next)), ((0, 1), (0, 1)));
        table.add_entry(next);
        table.subtract_entry(a);
        assert_eq!(held(&table, next), (1, 2), "the entry of the face before");
        table.remove(next);
        table.subtract_entry(b);
        table.subtract_entry(next);
        assert_eq!(held(&table, b), (0, 0));
    }

    #[test]
    fn bytes_of_long_interests_are_counted_for_their_owner() {
        let mut table = FaceTable::new();
        let (old, next) = (FaceIndex::new(2, 1), FaceIndex::new(2, 2));
        table.insert(old, &properties(256));
        table.add_long_bytes(old, 500);
        table.add_long_bytes(old, 70);
        table.subtract_long_bytes(old, 500);
        table.insert(old, &properties(256));
        assert_eq!(table.long_bytes_held(old), 70);
        table.insert(next, &properties(257));
        table.subtract_long_bytes(old, 70);
        assert_eq!((table.long_bytes_held(old), table.long_bytes_held(next)), (0, 0));
    }

    #[test]
    fn tokens_are_learned_only_if_the_policy_allows() {
        let mut table = FaceTable::new();
        let policies = [PitTokenPolicy::Never, PitTokenPolicy::Always, PitTokenPolicy::WhenSeen];
        for (slot, pit_tokens) in (0..).zip(policies) {
            table
                .insert(FaceIndex::new(slot, 0), &FaceProperties { pit_tokens, ..properties(256) });
        }
        let sends = |table: &FaceTable| {
            [0, 1, 2].map(|slot| table.find(FaceIndex::new(slot, 0)).unwrap().sends_tokens())
        };
        assert_eq!(sends(&table), [false, true, false]);
        for slot in 0..3 {
            assert_eq!(table.note_token(FaceIndex::new(slot, 0)), slot == 2);
            assert!(!table.note_token(FaceIndex::new(slot, 0)), "it is known by now");
        }
        assert_eq!(sends(&table), [false, true, true]);
    }

    #[test]
    fn finds_a_face_by_its_id() {
        let mut table = FaceTable::new();
        table.insert(FaceIndex::new(0, 0), &properties(256));
        table.insert(FaceIndex::new(7, 5), &properties(999));
        assert_eq!(table.find_by_id(999), Some(FaceIndex::new(7, 5)));
        assert_eq!(table.find_by_id(0), None);
        assert_eq!(table.len(), 2);
        // Another FaceId for the face, another face in the slot, and the FaceId in another slot.
        table.insert(FaceIndex::new(7, 5), &properties(1000));
        assert_eq!(table.find_by_id(999), None);
        table.insert(FaceIndex::new(7, 6), &properties(1001));
        assert_eq!(table.find_by_id(1000), None);
        table.insert(FaceIndex::new(8, 1), &properties(1001));
        assert!(table.remove(FaceIndex::new(7, 6)));
        assert_eq!(table.find_by_id(1001), Some(FaceIndex::new(8, 1)));
        assert!(table.remove(FaceIndex::new(8, 1)));
        assert_eq!(table.find_by_id(1001), None);
        assert_eq!(table.by_id.len(), table.len());
    }
}
