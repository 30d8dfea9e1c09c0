//! Hierarchical timer wheel without cancellation.

use ndn_types::Timestamp;

use crate::arena::{Arena, NONE};

/// Resolution: about a millisecond. A record is returned at most one tick late and never early.
const TICK_NANOS: u64 = 1 << TICK_SHIFT;

const TICK_SHIFT: u32 = 20;

/// Slots of a level, as a power of two.
const SLOT_BITS: usize = 8;
const SLOTS: usize = 1 << SLOT_BITS;

/// Levels of 0.27 s, 69 s, 4.9 h and 52 days; later deadlines wait in the last slot and are
/// scheduled again from there.
const LEVELS: usize = 4;

/// Records in a block: records of a slot are stored together rather than linked one by one.
const BLOCK_RECORDS: usize = 15;

/// Every block of the wheel is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WheelFull;

impl std::fmt::Display for WheelFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the timer wheel is full")
    }
}

impl std::error::Error for WheelFull {}

#[derive(Clone, Copy, Debug)]
struct Record {
    key: u64,
    deadline: Timestamp,
}

#[derive(Debug)]
struct Block {
    records: [Record; BLOCK_RECORDS],
    len: u32,
    next: u32,
}

const EMPTY_BLOCK: Block = Block {
    records: [Record { key: 0, deadline: Timestamp::ZERO }; BLOCK_RECORDS],
    len: 0,
    next: NONE,
};

/// One level: the first block of each slot, and which slots have any.
#[derive(Debug)]
struct Level {
    heads: [u32; SLOTS],
    occupied: [u64; SLOTS / 64],
}

/// Hierarchical timing wheel (Varghese and Lauck, 1987) of records that are never cancelled.
///
/// The owner of the object that a record refers to stores the true deadline there. When a record is
/// returned, the owner checks the object: it may be gone, or have a later deadline and get a new
/// record. An object that is renewed often thus costs one record per period, not one per renewal.
#[derive(Debug)]
pub struct TimerWheel {
    levels: Box<[Level; LEVELS]>,
    blocks: Arena<Block>,
    /// The next tick to process: all earlier records have been returned or are in `due`.
    tick: u64,
    /// A search for work finds none before this tick.
    idle_until: u64,
    /// Records whose tick has come.
    due: u32,
    len: usize,
}

impl TimerWheel {
    /// A wheel for at least `records_max` records, starting at `now`.
    #[must_use]
    pub fn new(records_max: usize, now: Timestamp) -> Self {
        // Every slot may hold one block that is not full.
        let blocks = records_max / BLOCK_RECORDS + LEVELS * SLOTS + 2;
        let level = || Level { heads: [NONE; SLOTS], occupied: [0; SLOTS / 64] };
        Self {
            levels: Box::new([level(), level(), level(), level()]),
            blocks: Arena::new(blocks),
            tick: now.as_nanos() >> TICK_SHIFT,
            idle_until: 0,
            due: NONE,
            len: 0,
        }
    }

    /// Records in the wheel.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the wheel holds no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a record that is returned once `deadline` has passed, at most a tick later.
    ///
    /// # Errors
    /// [`WheelFull`] when there is no memory for it.
    #[inline]
    pub fn schedule(&mut self, key: u64, deadline: Timestamp) -> Result<(), WheelFull> {
        self.add(Record { key, deadline })?;
        self.len += 1;
        Ok(())
    }

    /// Removes one record whose deadline is not after `now`; returns `None` when there is none
    /// left.
    pub fn pop(&mut self, now: Timestamp) -> Option<(u64, Timestamp)> {
        loop {
            match self.step(now) {
                Step::Record(key, deadline) => return Some((key, deadline)),
                Step::Moved => {}
                Step::Nothing => return None,
            }
        }
    }

    /// One bounded step: removes a record whose deadline is not after `now`, or moves one block of
    /// records to finer levels.
    #[inline]
    pub fn step(&mut self, now: Timestamp) -> Step {
        if self.due != NONE {
            return self.pop_due();
        }
        let now_tick = now.as_nanos() >> TICK_SHIFT;
        if self.len == 0 || now_tick < self.idle_until {
            self.tick = self.tick.max(now_tick + 1);
            return Step::Nothing;
        }
        self.advance(now_tick)
    }

    /// When [`Self::pop`] next has work: not later than the first deadline rounded up to a tick,
    /// possibly earlier. `None` when the wheel is empty.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if self.len == 0 {
            return None;
        }
        let tick = match self.due {
            // The last search is in force.
            NONE if self.idle_until > self.tick => self.idle_until,
            NONE => self.next_work()?.0,
            _ => 0,
        };
        Some(Timestamp::from_nanos(tick.saturating_mul(TICK_NANOS)))
    }

    fn add(&mut self, record: Record) -> Result<(), WheelFull> {
        let tick = (record.deadline.as_nanos().saturating_add(TICK_NANOS - 1) >> TICK_SHIFT)
            .max(self.tick);
        // Slots are compared, not distances, so that a record never lands in the current slot of a
        // coarser level, which has been emptied already.
        let slots_ahead = |level| (tick >> shift_of(level)) - (self.tick >> shift_of(level));
        let level = (0..LEVELS).find(|&level| slots_ahead(level) < SLOTS as u64);
        let (level, tick) = level.map_or_else(
            || (LEVELS - 1, self.tick + ((SLOTS as u64 - 1) << shift_of(LEVELS - 1))),
            |level| (level, tick),
        );
        let slot = slot_of(tick, level);
        self.idle_until = self.idle_until.min(tick >> shift_of(level) << shift_of(level));
        let head = push(&mut self.blocks, self.levels[level].heads[slot], record)?;
        self.levels[level].heads[slot] = head;
        self.levels[level].occupied[slot / 64] |= 1 << (slot % 64);
        Ok(())
    }

    fn pop_due(&mut self) -> Step {
        let block = &mut self.blocks[self.due];
        block.len -= 1;
        let Record { key, deadline } = block.records[block.len as usize];
        if block.len == 0 {
            let empty = self.due;
            self.due = block.next;
            self.blocks.release(empty);
        }
        self.len -= 1;
        Step::Record(key, deadline)
    }

    /// Advances to the next tick with work, if it has come.
    fn advance(&mut self, now_tick: u64) -> Step {
        let Some((tick, level)) = self.next_work() else { return Step::Nothing };
        if tick > now_tick {
            self.idle_until = tick;
            self.tick = self.tick.max(now_tick + 1);
            return Step::Nothing;
        }
        self.tick = self.tick.max(tick);
        let slot = slot_of(tick, level);
        let head = self.levels[level].heads[slot];
        if level == 0 {
            self.clear_slot(level, slot, NONE);
            self.due = head;
            return self.pop_due();
        }
        // One block of a coarser slot moves to finer slots; the tick does not advance before the
        // slot is empty.
        let next = self.blocks[head].next;
        self.clear_slot(level, slot, next);
        let len = self.blocks[head].len as usize;
        let records = self.blocks[head].records;
        self.blocks.release(head);
        for &record in &records[..len] {
            // The block just released makes room for one, and a slot without a block has one
            // reserved.
            let added = self.add(record);
            debug_assert!(added.is_ok());
        }
        Step::Moved
    }

    fn clear_slot(&mut self, level: usize, slot: usize, head: u32) {
        self.levels[level].heads[slot] = head;
        if head == NONE {
            self.levels[level].occupied[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// The earliest tick at which a slot has to be emptied, and its level; the coarsest level first
    /// when several coincide.
    fn next_work(&self) -> Option<(u64, usize)> {
        (0..LEVELS)
            .filter_map(|level| Some((self.next_occupied(level)?, level)))
            .min_by_key(|&(tick, level)| (tick, LEVELS - level))
    }

    /// First tick of the next occupied slot of a level, from the current tick on.
    fn next_occupied(&self, level: usize) -> Option<u64> {
        let shift = shift_of(level);
        let present = self.tick >> shift;
        let start = slot_of(self.tick, level);
        let occupied = &self.levels[level].occupied;
        // The words from the current slot on, the first one without the slots before it, and
        // finally the first one again for the slots that wrapped around.
        for step in 0..=SLOTS / 64 {
            let word = (start / 64 + step) % (SLOTS / 64);
            let mut bits = occupied[word];
            if step == 0 {
                bits &= u64::MAX << (start % 64);
            } else if step == SLOTS / 64 {
                bits &= !(u64::MAX << (start % 64));
            }
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (slot + SLOTS - start) % SLOTS;
                let first = (present + ahead as u64) << shift;
                return Some(first.max(self.tick));
            }
        }
        None
    }
}

/// Outcome of [`TimerWheel::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This record's deadline has passed.
    Record(u64, Timestamp),
    /// Some records were moved; call again.
    Moved,
    /// No deadline has passed.
    Nothing,
}

/// Ticks of a slot of `level`, as a power of two.
const fn shift_of(level: usize) -> usize {
    SLOT_BITS * level
}

fn slot_of(tick: u64, level: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "masked to the number of slots")]
    let slot = (tick >> shift_of(level)) as usize & (SLOTS - 1);
    slot
}

/// Adds a record to the chain of blocks at `head` and returns the new head.
fn push(blocks: &mut Arena<Block>, head: u32, record: Record) -> Result<u32, WheelFull> {
    if head != NONE && (blocks[head].len as usize) < BLOCK_RECORDS {
        let block = &mut blocks[head];
        block.records[block.len as usize] = record;
        block.len += 1;
        return Ok(head);
    }
    let fresh = blocks.allocate(|| EMPTY_BLOCK).ok_or(WheelFull)?;
    let block = &mut blocks[fresh];
    block.records[0] = record;
    block.len = 1;
    block.next = head;
    Ok(fresh)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Operation {
        Schedule { nanos_ahead: u64 },
        Advance { nanos: u64 },
        JumpToDeadline,
    }

    fn operations() -> impl Strategy<Value = Vec<Operation>> {
        let distance =
            || (0..58_u32, any::<u64>()).prop_map(|(bits, value)| value & ((1 << bits) - 1));
        let one = prop_oneof![
            4 => distance().prop_map(|nanos_ahead| Operation::Schedule { nanos_ahead }),
            2 => distance().prop_map(|nanos| Operation::Advance { nanos }),
            2 => Just(Operation::JumpToDeadline),
        ];
        proptest::collection::vec(one, 0..300)
    }

    proptest! {
        /// Against an ordered map: every record is returned once, never early, and no later than a
        /// tick after its deadline when the owner polls every tick.
        #[test]
        fn records_are_returned_at_their_deadline(start in 0..1_u64 << 50, operations in operations()) {
            let mut now = Timestamp::from_nanos(start);
            let mut wheel = TimerWheel::new(300, now);
            let mut model: BTreeMap<(Timestamp, u64), Timestamp> = BTreeMap::new();
            for (key, operation) in (0..).zip(operations) {
                match operation {
                    Operation::Schedule { nanos_ahead } => {
                        let deadline = now.plus_nanos(nanos_ahead);
                        wheel.schedule(key, deadline).unwrap();
                        model.insert((deadline, key), now);
                    }
                    Operation::Advance { nanos } => now = now.plus_nanos(nanos),
                    Operation::JumpToDeadline => {
                        now = now.max(wheel.next_deadline().unwrap_or(now));
                    }
                }
                while let Some((key, deadline)) = wheel.pop(now) {
                    prop_assert!(deadline <= now);
                    prop_assert!(model.remove(&(deadline, key)).is_some());
                }
                prop_assert_eq!(wheel.len(), model.len());
                let first = model.keys().next().map(|&(deadline, _)| deadline);
                if let Some(first) = first {
                    prop_assert!(first.plus_nanos(TICK_NANOS) > now, "{first:?} is late at {now:?}");
                    prop_assert!(wheel.next_deadline().unwrap() <= first.plus_nanos(TICK_NANOS));
                }
                prop_assert_eq!(wheel.next_deadline().is_none(), model.is_empty());
            }
        }
    }

    #[test]
    fn full_wheel_rejects_records_until_one_is_taken() {
        let mut wheel = TimerWheel::new(0, Timestamp::ZERO);
        let mut accepted = 0;
        while wheel.schedule(accepted, Timestamp::from_millis(5)).is_ok() {
            accepted += 1;
        }
        assert!(accepted >= 1024);
        let now = Timestamp::from_millis(7);
        let popped = std::iter::from_fn(|| wheel.pop(now)).count();
        assert_eq!(popped as u64, accepted);
        assert_eq!(wheel.schedule(0, now), Ok(()));
    }

    #[test]
    fn far_deadline_takes_few_steps() {
        let mut wheel = TimerWheel::new(1, Timestamp::ZERO);
        let far = Timestamp::from_millis(40 * 24 * 3600 * 1000);
        wheel.schedule(7, far).unwrap();
        let mut steps = 0;
        while let Some(deadline) = wheel.next_deadline() {
            let _ = wheel.step(deadline);
            steps += 1;
        }
        assert!(steps <= LEVELS, "{steps} steps");
    }
}
