//! What is set for a prefix, and what it passes on to longer ones.

use std::collections::BTreeMap;

use ndn_packet::NameRef;

use super::depth_tree::FIB_DEPTH_MAX;
use super::entry::{FibEntry, FibSlot, NextHop, StrategyId};
use super::paged::PagedVec;

/// What was set for a prefix, or that it is a marker.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) next_hops: Vec<NextHop>,
    pub(super) strategy: Option<StrategyId>,
    /// Prefixes below whose search leads over this one.
    pub(super) marker_count: u32,
    pub(super) slot: FibSlot,
    pub(super) depth: u8,
}

impl Record {
    pub(super) fn is_real(&self) -> bool {
        !self.next_hops.is_empty() || self.strategy.is_some()
    }
}

/// By the value of the Name TLV, whose byte order is the canonical order of names.
pub(super) type Records = BTreeMap<Box<[u8]>, Record>;

/// What a prefix passes on to longer ones.
#[derive(Clone)]
pub(super) struct Inherited<'a> {
    pub(super) best: FibSlot,
    pub(super) next_hops: &'a [NextHop],
    pub(super) next_hops_depth: u8,
    pub(super) strategy: StrategyId,
}

impl<'a> Inherited<'a> {
    /// Takes over what a longer prefix sets itself.
    pub(super) fn add(&mut self, record: &'a Record) {
        if !record.is_real() {
            return;
        }
        self.best = record.slot;
        if !record.next_hops.is_empty() {
            self.next_hops = &record.next_hops;
            self.next_hops_depth = record.depth;
        }
        if let Some(strategy) = record.strategy {
            self.strategy = strategy;
        }
    }
}

/// What a name inherits from its real proper prefixes, and perhaps from itself.
pub(super) fn inherited<'a>(
    records: &'a Records,
    name: NameRef<'_>,
    with_itself: bool,
) -> Inherited<'a> {
    let mut inherited = Inherited {
        best: FibSlot::ROOT,
        next_hops: &[],
        next_hops_depth: 0,
        strategy: StrategyId(0),
    };
    let depths = name.len() + usize::from(with_itself);
    for depth in (0..depths).take(FIB_DEPTH_MAX + 1) {
        if let Some(record) = records.get(name.prefix(depth).value()) {
            inherited.add(record);
        }
    }
    inherited
}

/// Writes what a search that ends at this record means, unless it is there already.
pub(super) fn write_entry(
    entries: &mut PagedVec<FibEntry>,
    record: &Record,
    passed_on: &Inherited<'_>,
) {
    let index = record.slot.index();
    let entry = entries.element(index);
    let is_same = entry.best == passed_on.best
        && entry.strategy() == passed_on.strategy
        && entry.next_hops_depth() == usize::from(passed_on.next_hops_depth)
        && entry.next_hops() == passed_on.next_hops;
    if !is_same {
        let entry = entries.element_mut(index);
        entry.best = passed_on.best;
        entry.set_strategy(passed_on.strategy);
        entry.set_next_hops(passed_on.next_hops, passed_on.next_hops_depth);
    }
}
