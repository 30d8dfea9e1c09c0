//! The face table of a shard.

use std::collections::HashMap;

use ndn_table::FaceIndex;
use ndn_types::{LinkType, PrincipalIndex, Scope, Timestamp};

use crate::{FaceProperties, PitTokenPolicy};

/// Minimum time between two probes of a face that is in doubt or whose link has returned.
const PROBE_INTERVAL_MS: u64 = 100;

/// Face properties that the pipelines use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FaceFlags(u16);

/// An event of the link of a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEvent {
    /// Nothing can be sent: the connection or the network device has no link.
    Lost,
    /// The link is back. Whether the peer answers is not known yet.
    Restored,
    /// The kernel reports that packets do not reach the peer. It may be wrong: anybody can forge an ICMP message.
    Doubted,
    /// The peer has sent something since.
    Reached,
}

/// The state of the link of a face, the best one last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LinkState {
    /// It has no link.
    Down,
    /// The peer may be gone.
    Doubted,
    /// Its link is back, and it brought no Data since.
    Returning,
    /// It is up.
    Up,
}

impl FaceFlags {
    const EXISTS: u16 = 1;
    const LOCAL: u16 = 1 << 1;
    const POINT_TO_POINT: u16 = 1 << 2;
    const AD_HOC: u16 = 1 << 3;
    const SENDS_TOKENS: u16 = 1 << 4;
    const LEARNS_TOKENS: u16 = 1 << 5;
    const LOCAL_FIELDS: u16 = 1 << 6;
    const DOWN: u16 = 1 << 7;
    const RETURNING: u16 = 1 << 8;
    const DOUBTED: u16 = 1 << 9;
    /// State that is not a property.
    const LINK_STATE: u16 = Self::DOWN | Self::RETURNING | Self::DOUBTED;

    fn new(properties: &FaceProperties) -> Self {
        let mut flags = Self::EXISTS;
        let mut set = |flag, condition| flags |= if condition { flag } else { 0 };
        set(Self::LOCAL, properties.scope == Scope::Local);
        set(Self::POINT_TO_POINT, properties.link_type == LinkType::PointToPoint);
        set(Self::AD_HOC, properties.link_type == LinkType::AdHoc);
        set(Self::SENDS_TOKENS, properties.pit_tokens == PitTokenPolicy::Always);
        set(Self::LEARNS_TOKENS, properties.pit_tokens == PitTokenPolicy::WhenSeen);
        set(Self::LOCAL_FIELDS, properties.local_fields);
        Self(flags)
    }

    /// State that stays when the face gets other properties.
    fn kept_by(self, new: Self) -> u16 {
        let learns = self.has(Self::LEARNS_TOKENS) && new.has(Self::LEARNS_TOKENS);
        self.0 & (Self::LINK_STATE | if learns { Self::SENDS_TOKENS } else { 0 })
    }

    fn has(self, flag: u16) -> bool {
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

    #[inline]
    pub(crate) fn link_state(self) -> LinkState {
        if self.0 & Self::LINK_STATE == 0 {
            LinkState::Up
        } else if self.has(Self::DOWN) {
            LinkState::Down
        } else if self.has(Self::DOUBTED) {
            LinkState::Doubted
        } else {
            LinkState::Returning
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    face_id: u64,
    /// The face; one of another slot while there is none.
    index: FaceIndex,
    /// The principal that its packets are charged to.
    principal: PrincipalIndex,
    flags: FaceFlags,
}

const _: () = assert!(size_of::<Slot>() == 16);

impl Slot {
    /// The slot of this number without a face.
    fn vacant(number: u32) -> Self {
        let index = FaceIndex::new(number ^ 1, 0);
        Self { face_id: 0, index, principal: PrincipalIndex::OTHER, flags: FaceFlags::default() }
    }

    #[inline]
    fn is_live(&self, index: FaceIndex) -> bool {
        self.index == index
    }
}

/// The faces of the forwarder, as one shard knows them.
///
/// Indexed by the slot of [`FaceIndex`]; an index of an earlier generation is not found. The table grows when a face is
/// added, up to the limit of faces.
#[derive(Debug, Default)]
pub struct ShardFaces {
    slots: Vec<Slot>,
    /// Faces by FaceId.
    by_id: HashMap<u64, FaceIndex>,
    count: usize,
    uncertain: Vec<UncertainFace>,
}

/// A face in state [`LinkState::Returning`] or [`LinkState::Doubted`].
#[derive(Debug, Clone, Copy)]
struct UncertainFace {
    face: FaceIndex,
    since: Timestamp,
    next_probe: Timestamp,
}

impl ShardFaces {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a face, or changes its properties. Replaces a face of another generation in the same
    /// slot. Returns the principal of the face that was in the slot.
    pub fn insert(
        &mut self,
        index: FaceIndex,
        properties: &FaceProperties,
        principal: PrincipalIndex,
    ) -> Option<PrincipalIndex> {
        let position = index.slot() as usize;
        if position >= self.slots.len() {
            let first = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
            self.slots.extend((first..=index.slot()).map(Slot::vacant));
        }
        let slot = &mut self.slots[position];
        let is_free = slot.flags == FaceFlags::default();
        let flags = FaceFlags::new(properties);
        let kept = if slot.is_live(index) { slot.flags.kept_by(flags) } else { 0 };
        let previous = (!is_free).then_some(slot.principal);
        self.count += usize::from(is_free);
        let old_id = slot.face_id;
        *slot = Slot {
            face_id: properties.face_id,
            index,
            principal,
            flags: FaceFlags(flags.0 | kept),
        };
        self.uncertain.retain(|one| one.face.slot() != index.slot() || one.face == index);
        self.forget_id(old_id, index.slot());
        self.by_id.insert(properties.face_id, index);
        previous
    }

    /// Removes a FaceId, unless it has moved to another slot.
    fn forget_id(&mut self, face_id: u64, slot: u32) {
        if self.by_id.get(&face_id).is_some_and(|found| found.slot() == slot) {
            self.by_id.remove(&face_id);
        }
    }

    /// Removes a face. Returns its principal; `None` if there was no such face.
    pub fn remove(&mut self, index: FaceIndex) -> Option<PrincipalIndex> {
        let slot = std::mem::replace(self.slot_mut(index)?, Slot::vacant(index.slot()));
        self.count -= 1;
        self.forget_id(slot.face_id, index.slot());
        self.uncertain.retain(|one| one.face != index);
        Some(slot.principal)
    }

    /// Records an event of the link of a face. Returns whether Interests that wait for the face may have
    /// to be sent elsewhere.
    pub(crate) fn set_link(&mut self, index: FaceIndex, event: LinkEvent, now: Timestamp) -> bool {
        let Some(slot) = self.slot_mut(index) else { return false };
        let before = slot.flags.0 & FaceFlags::LINK_STATE;
        let after = match event {
            LinkEvent::Lost => before & FaceFlags::DOUBTED | FaceFlags::DOWN,
            LinkEvent::Restored if before & FaceFlags::DOWN != 0 => {
                before & FaceFlags::DOUBTED | FaceFlags::RETURNING
            }
            LinkEvent::Restored => before,
            LinkEvent::Doubted => before | FaceFlags::DOUBTED,
            LinkEvent::Reached => before & !FaceFlags::DOUBTED,
        };
        if after == before {
            return false;
        }
        slot.flags.0 = slot.flags.0 & !FaceFlags::LINK_STATE | after;
        self.note_state(index, now);
        matches!(event, LinkEvent::Lost | LinkEvent::Doubted)
    }

    /// Begins or ends the uncertainty about a face.
    fn note_state(&mut self, index: FaceIndex, now: Timestamp) {
        self.uncertain.retain(|one| one.face != index);
        let link_state = self.find(index).map(FaceFlags::link_state);
        if matches!(link_state, Some(LinkState::Returning | LinkState::Doubted)) {
            self.uncertain.push(UncertainFace {
                face: index,
                since: now,
                next_probe: Timestamp::ZERO,
            });
        }
    }

    /// Since when a face is in state [`LinkState::Returning`] or [`LinkState::Doubted`], if it is.
    #[inline]
    pub(crate) fn uncertain_since(&self, index: FaceIndex) -> Option<Timestamp> {
        self.uncertain.iter().find(|one| one.face == index).map(|one| one.since)
    }

    /// Whether a face is in state [`LinkState::Returning`] or [`LinkState::Doubted`].
    #[inline]
    pub(crate) fn has_uncertain(&self) -> bool {
        !self.uncertain.is_empty()
    }

    /// Whether such a face may be probed now. If so, the next probe has to wait.
    pub(crate) fn take_probe(&mut self, index: FaceIndex, now: Timestamp) -> bool {
        let found =
            self.uncertain.iter_mut().find(|one| one.face == index && one.next_probe <= now);
        found.map(|one| one.next_probe = now.plus_millis(PROBE_INTERVAL_MS)).is_some()
    }

    /// Records that Data came from a face: one that returns is up. Whether the doubt in a face is over is known to its
    /// worker: this Data may have arrived there before.
    #[cold]
    pub(crate) fn note_answer(&mut self, index: FaceIndex, now: Timestamp) {
        if let Some(slot) = self.slot_mut(index)
            && slot.flags.link_state() == LinkState::Returning
        {
            slot.flags.0 &= !FaceFlags::RETURNING;
            self.note_state(index, now);
        }
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
        Some((at + 1, slot.index))
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

    /// The principal of a face.
    #[inline]
    pub(crate) fn principal(&self, index: FaceIndex) -> Option<PrincipalIndex> {
        self.slot(index).map(|slot| slot.principal)
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

    fn put(table: &mut ShardFaces, index: FaceIndex, face_id: u64) {
        table.insert(index, &properties(face_id), PrincipalIndex::OTHER);
    }

    #[test]
    fn stale_generation_finds_nothing() {
        let mut table = ShardFaces::new();
        let (old, new) = (FaceIndex::new(3, 1), FaceIndex::new(3, 2));
        put(&mut table, old, 300);
        assert_eq!(table.face_id(old), Some(300));
        put(&mut table, new, 301);
        assert_eq!((table.face_id(old), table.face_id(new)), (None, Some(301)));
        for vacant in (0..3).flat_map(|slot| [0, 1, 2].map(|one| FaceIndex::new(slot, one))) {
            assert_eq!(table.face_id(vacant), None, "{vacant}");
        }
        assert!(table.remove(old).is_none());
        assert!(table.remove(new).is_some());
        assert!(table.is_empty() && table.find(new).is_none());
        assert_eq!(table.find_by_id(301), None);
    }

    #[test]
    fn tokens_are_learned_only_if_the_policy_allows() {
        let mut table = ShardFaces::new();
        let policies = [PitTokenPolicy::Never, PitTokenPolicy::Always, PitTokenPolicy::WhenSeen];
        for (slot, pit_tokens) in (0..).zip(policies) {
            let properties = FaceProperties { pit_tokens, ..properties(256) };
            table.insert(FaceIndex::new(slot, 0), &properties, PrincipalIndex::OTHER);
        }
        let sends = |table: &ShardFaces| {
            [0, 1, 2].map(|slot| table.find(FaceIndex::new(slot, 0)).unwrap().sends_tokens())
        };
        assert_eq!(sends(&table), [false, true, false]);
        for slot in 0..3 {
            assert_eq!(table.note_token(FaceIndex::new(slot, 0)), slot == 2);
            assert!(!table.note_token(FaceIndex::new(slot, 0)), "it is known by now");
        }
        assert_eq!(sends(&table), [false, true, true]);
    }

    /// An upstream that sends no Interests has no further occasion to send a token.
    #[test]
    fn changed_face_keeps_learned_tokens_if_the_policy_allows() {
        use PitTokenPolicy::{Always, Never, WhenSeen};
        let mut table = ShardFaces::new();
        let (face, other) = (FaceIndex::new(3, 1), FaceIndex::new(3, 2));
        let set = |table: &mut ShardFaces, face, pit_tokens, local_fields| {
            let properties = FaceProperties { pit_tokens, local_fields, ..properties(300) };
            table.insert(face, &properties, PrincipalIndex::OTHER);
            table.find(face).unwrap().sends_tokens()
        };
        assert!(!set(&mut table, face, WhenSeen, false));
        assert!(table.note_token(face));
        assert!(set(&mut table, face, WhenSeen, true));
        assert!(!set(&mut table, face, Never, true));
        assert!(!set(&mut table, face, WhenSeen, true), "it was not seen since");
        assert!(table.note_token(face));
        assert!(!set(&mut table, other, WhenSeen, true), "another face in the slot");
        assert!(set(&mut table, other, Always, true));
    }

    #[test]
    fn doubt_ends_with_an_arrival_and_loss_with_an_answer() {
        let mut table = ShardFaces::new();
        let face = FaceIndex::new(3, 1);
        put(&mut table, face, 300);
        let at = Timestamp::from_nanos;
        let events = [
            (LinkEvent::Reached, LinkState::Up, false),
            (LinkEvent::Restored, LinkState::Up, false),
            (LinkEvent::Doubted, LinkState::Doubted, true),
            (LinkEvent::Doubted, LinkState::Doubted, false),
            (LinkEvent::Lost, LinkState::Down, true),
            (LinkEvent::Restored, LinkState::Doubted, false),
            (LinkEvent::Reached, LinkState::Returning, false),
        ];
        for (now, (event, expected, sends_again)) in (1..).zip(events) {
            assert_eq!(table.set_link(face, event, at(now)), sends_again, "{event:?} {now}");
            assert_eq!(table.find(face).unwrap().link_state(), expected, "{event:?} {now}");
            let is_uncertain = matches!(expected, LinkState::Doubted | LinkState::Returning);
            assert_eq!(table.has_uncertain(), is_uncertain);
            table.note_answer(face, at(now));
            let is_answered = expected == LinkState::Returning;
            let after = if is_answered { LinkState::Up } else { expected };
            assert_eq!(table.find(face).unwrap().link_state(), after, "{event:?} {now}");
        }
        assert!(!table.has_uncertain());
    }

    #[test]
    fn finds_a_face_by_its_id() {
        let mut table = ShardFaces::new();
        put(&mut table, FaceIndex::new(0, 0), 256);
        put(&mut table, FaceIndex::new(7, 5), 999);
        assert_eq!(table.find_by_id(999), Some(FaceIndex::new(7, 5)));
        assert_eq!(table.find_by_id(0), None);
        assert_eq!(table.len(), 2);
        // Another FaceId for the face, another face in the slot, and the FaceId in another slot.
        put(&mut table, FaceIndex::new(7, 5), 1000);
        assert_eq!(table.find_by_id(999), None);
        put(&mut table, FaceIndex::new(7, 6), 1001);
        assert_eq!(table.find_by_id(1000), None);
        put(&mut table, FaceIndex::new(8, 1), 1001);
        assert!(table.remove(FaceIndex::new(7, 6)).is_some());
        assert_eq!(table.find_by_id(1001), Some(FaceIndex::new(8, 1)));
        assert!(table.remove(FaceIndex::new(8, 1)).is_some());
        assert_eq!(table.find_by_id(1001), None);
        assert_eq!(table.by_id.len(), table.len());
    }
}
