//! The Interests in flight: a fixed number of slots, found by the PIT token of an answer.
//!
//! The slots of one pattern form a list in sending order. All have the same lifetime, so the first
//! is the first to time out.

/// Null slot.
const NONE: u32 = u32::MAX;

/// Bytes of a PIT token. `ndnd` ends when it has to return one of another length than its own.
pub(crate) const TOKEN_LEN: usize = 6;
/// Slots and generations have three bytes in a token.
const THREE_BYTES: u32 = 0xff_ffff;

/// A slot and its generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    slot: u32,
    generation: u32,
}

impl Ticket {
    pub(crate) fn to_token(self) -> [u8; TOKEN_LEN] {
        let [_, a, b, c] = self.slot.to_be_bytes();
        let [_, d, e, f] = self.generation.to_be_bytes();
        [a, b, c, d, e, f]
    }

    pub(crate) fn from_token(token: &[u8]) -> Option<Self> {
        let [a, b, c, d, e, f] = *<&[u8; TOKEN_LEN]>::try_from(token).ok()?;
        let slot = u32::from_be_bytes([0, a, b, c]);
        Some(Self { slot, generation: u32::from_be_bytes([0, d, e, f]) })
    }
}

/// An Interest in flight.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pending {
    /// Scheduled time of sending.
    pub(crate) scheduled_ns: u64,
    /// Time-out.
    pub(crate) expires_ns: u64,
    /// Number of its pattern.
    pub(crate) pattern: u16,
    /// The face it was sent on.
    pub(crate) face: u16,
    /// An earlier Interest for the same name on the same face.
    pub(crate) older: Option<Ticket>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    pending: Pending,
    generation: u32,
    open: bool,
    previous: u32,
    next: u32,
}

/// First and last slot of a pattern.
#[derive(Debug, Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

/// All Interests in flight.
#[derive(Debug)]
pub(crate) struct Outstanding {
    slots: Vec<Slot>,
    free: Vec<u32>,
    lists: Vec<Ends>,
}

impl Outstanding {
    /// Room for `capacity` Interests of `patterns` patterns.
    pub(crate) fn new(capacity: u32, patterns: usize) -> Self {
        let pending = Pending::default();
        let slot = Slot { pending, generation: 0, open: false, previous: NONE, next: NONE };
        Self {
            slots: vec![slot; capacity as usize],
            free: (0..capacity).rev().collect(),
            lists: vec![Ends { first: NONE, last: NONE }; patterns],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Allocates a slot; `None` when all are in use.
    pub(crate) fn open(&mut self, pending: Pending) -> Option<Ticket> {
        let index = self.free.pop()?;
        let list = &mut self.lists[usize::from(pending.pattern)];
        let previous = std::mem::replace(&mut list.last, index);
        if previous == NONE {
            list.first = index;
        } else {
            self.slots[previous as usize].next = index;
        }
        let slot = &mut self.slots[index as usize];
        slot.generation = (slot.generation + 1) & THREE_BYTES;
        (slot.pending, slot.open, slot.previous, slot.next) = (pending, true, previous, NONE);
        Some(Ticket { slot: index, generation: slot.generation })
    }

    /// Whether it is still in flight.
    pub(crate) fn is_open(&self, ticket: Ticket) -> bool {
        let slot = self.slots.get(ticket.slot as usize);
        slot.is_some_and(|slot| slot.open && slot.generation == ticket.generation)
    }

    /// Ends an Interest if it is in flight on this face.
    pub(crate) fn close(&mut self, ticket: Ticket, face: u16) -> Option<Pending> {
        if !self.is_open(ticket) || self.slots[ticket.slot as usize].pending.face != face {
            return None;
        }
        Some(self.remove(ticket.slot))
    }

    /// Ends the first Interest of a pattern if it has expired.
    pub(crate) fn expire(&mut self, pattern: usize, now_ns: u64) -> Option<Pending> {
        let first = self.lists[pattern].first;
        let slot = self.slots.get(first as usize)?;
        (slot.pending.expires_ns <= now_ns).then(|| self.remove(first))
    }

    /// The next time-out.
    pub(crate) fn next_expiry(&self) -> Option<u64> {
        let firsts = self.lists.iter().filter_map(|list| self.slots.get(list.first as usize));
        firsts.map(|slot| slot.pending.expires_ns).min()
    }

    fn remove(&mut self, index: u32) -> Pending {
        let slot = &mut self.slots[index as usize];
        slot.open = false;
        let (pending, previous, next) = (slot.pending, slot.previous, slot.next);
        let list = &mut self.lists[usize::from(pending.pattern)];
        match self.slots.get_mut(previous as usize) {
            Some(before) => before.next = next,
            None => list.first = next,
        }
        match self.slots.get_mut(next as usize) {
            Some(after) => after.previous = previous,
            None => list.last = previous,
        }
        self.free.push(index);
        pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Random operations, against a plain list of Interests in flight.
    #[test]
    fn agrees_with_a_list() {
        let mut random = Random::new(11);
        let mut table = Outstanding::new(16, 3);
        let mut model: Vec<(Ticket, Pending)> = Vec::new();
        let mut gone: Vec<Ticket> = Vec::new();
        for now in 0..20_000_u64 {
            match random.below(3) {
                0 => {
                    let pattern = u16::try_from(random.below(3)).unwrap();
                    let expires_ns = now + 10 * (u64::from(pattern) + 1);
                    let pending = Pending { expires_ns, pattern, ..Pending::default() };
                    let opened = table.open(pending);
                    assert_eq!(opened.is_some(), model.len() < 16);
                    model.extend(opened.map(|ticket| (ticket, pending)));
                }
                1 if !model.is_empty() => {
                    let at = random.below(u32::try_from(model.len()).unwrap()) as usize;
                    let (ticket, pending) = model.remove(at);
                    assert_eq!(Ticket::from_token(&ticket.to_token()), Some(ticket));
                    assert!(table.close(ticket, 1).is_none(), "another face");
                    let closed = table.close(ticket, 0).unwrap();
                    assert_eq!(closed.expires_ns, pending.expires_ns);
                    gone.push(ticket);
                }
                _ => {
                    for pattern in 0..3 {
                        while let Some(expired) = table.expire(pattern, now) {
                            let of =
                                |(_, one): &(Ticket, Pending)| usize::from(one.pattern) == pattern;
                            let at = model.iter().position(of).unwrap();
                            let (ticket, pending) = model.remove(at);
                            assert_eq!(expired.expires_ns, pending.expires_ns);
                            gone.push(ticket);
                        }
                    }
                    assert!(model.iter().all(|(_, one)| one.expires_ns > now));
                }
            }
            assert_eq!(table.len(), model.len());
            assert_eq!(table.next_expiry(), model.iter().map(|(_, one)| one.expires_ns).min());
            if let Some(ticket) = gone.last() {
                assert!(table.close(*ticket, 0).is_none(), "ended twice");
            }
        }
        assert!(gone.len() > 1000);
    }
}
