//! Doubly linked queues over slots: an arena of links that several queues share.

use crate::policy::Slot;

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct SlotLink {
    newer: u32,
    older: u32,
    weight: u32,
}

/// The links of all slots. A slot is in at most one queue.
#[derive(Debug)]
pub(crate) struct SlotLinks {
    links: Vec<SlotLink>,
}

impl SlotLinks {
    pub(crate) fn new(slots: u32) -> Self {
        Self { links: vec![SlotLink { newer: NONE, older: NONE, weight: 0 }; slots as usize] }
    }

    /// The weight with which a queued slot was pushed.
    #[inline]
    pub(crate) fn weight(&self, slot: Slot) -> u32 {
        self.links[slot as usize].weight
    }

    /// The next newer slot of the same queue.
    #[inline]
    pub(crate) fn newer(&self, slot: Slot) -> Option<Slot> {
        let newer = self.links[slot as usize].newer;
        (newer != NONE).then_some(newer)
    }
}

/// Slots in order of age, with their total weight.
#[derive(Debug, Clone)]
pub(crate) struct SlotQueue {
    newest: u32,
    oldest: u32,
    weight: u64,
}

impl SlotQueue {
    pub(crate) const fn new() -> Self {
        Self { newest: NONE, oldest: NONE, weight: 0 }
    }

    #[inline]
    pub(crate) fn oldest(&self) -> Option<Slot> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    #[cfg(feature = "vip")]
    #[inline]
    pub(crate) fn newest(&self) -> Option<Slot> {
        (self.newest != NONE).then_some(self.newest)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.oldest == NONE
    }

    #[inline]
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// Adds `slot` as the newest. It is in no queue.
    #[inline]
    pub(crate) fn push(&mut self, links: &mut SlotLinks, slot: Slot, weight: u32) {
        links.links[slot as usize] = SlotLink { newer: NONE, older: self.newest, weight };
        match self.newest {
            NONE => self.oldest = slot,
            newest => links.links[newest as usize].newer = slot,
        }
        self.newest = slot;
        self.weight += u64::from(weight);
    }

    /// Removes `slot`, which is in this queue.
    #[inline]
    pub(crate) fn remove(&mut self, links: &mut SlotLinks, slot: Slot) {
        let SlotLink { newer, older, weight } = links.links[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => links.links[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => links.links[older as usize].newer = newer,
        }
        self.weight -= u64::from(weight);
    }

    /// Removes the oldest slot.
    #[inline]
    pub(crate) fn pop(&mut self, links: &mut SlotLinks) -> Option<Slot> {
        let slot = self.oldest()?;
        self.remove(links, slot);
        Some(slot)
    }

    /// Makes `slot`, which is in this queue, the newest.
    #[inline]
    pub(crate) fn touch(&mut self, links: &mut SlotLinks, slot: Slot) {
        if self.newest != slot {
            let weight = links.weight(slot);
            self.remove(links, slot);
            self.push(links, slot, weight);
        }
    }
}
