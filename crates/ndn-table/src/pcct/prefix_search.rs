//! Finding cached Data by a prefix of their name.

use ndn_ring::prefetch_slice;

use super::cs_entry::CsEntry;
use super::prefix_tree::{Child, Node, PrefixTree, ROOT};
use crate::Timestamp;
use crate::arena::{Arena, NONE};

/// Nodes and Data that one search with MustBeFresh looks at, most recent first, before it gives
/// up. Subtrees that hold nothing fresh are passed over by their root alone, but one node may have
/// a million stale Data.
pub const FRESH_SEARCH_STEPS_MAX: u32 = 256;

impl PrefixTree {
    /// Any Data that `accept` takes among those whose name starts with the prefix that has these
    /// hashes and is shorter than them, most recent first. With `fresh_at`, only subtrees that may hold
    /// Data fresh at that time are entered, and the search ends after [`FRESH_SEARCH_STEPS_MAX`]
    /// steps. `accept` compares the name.
    pub(super) fn find_below(
        &self,
        entries: &Arena<CsEntry>,
        hashes: &[u64],
        fresh_at: Option<Timestamp>,
        accept: impl FnMut(u32, &CsEntry) -> bool,
    ) -> Option<u32> {
        let depth = hashes.len() - 1;
        if depth == 0 {
            return self.search(entries, ROOT, fresh_at, accept);
        }
        let mut accept = accept;
        let child = (1..=depth).rev().find_map(|edge| self.find_edge(entries, hashes[edge]))?;
        match child {
            Child::Entry(place) => accept(place, &entries[place]).then_some(place),
            // A node above the prefix: its child that covers the prefix would have been found.
            Child::Node(place) if usize::from(self.nodes[place].depth) < depth => None,
            Child::Node(place) => self.search(entries, place, fresh_at, accept),
        }
    }

    fn search(
        &self,
        entries: &Arena<CsEntry>,
        start: u32,
        fresh_at: Option<Timestamp>,
        mut accept: impl FnMut(u32, &CsEntry) -> bool,
    ) -> Option<u32> {
        let may_enter = |node: &Node| fresh_at.is_none_or(|now| now <= node.fresh_bound);
        let mut steps = 0;
        let mut place = start;
        loop {
            let node = &self.nodes[place];
            let mut next = NONE;
            if may_enter(node) {
                let mut entry = node.first_entry;
                while entry != NONE {
                    if accept(entry, &entries[entry]) {
                        return Some(entry);
                    }
                    steps += 1;
                    if steps >= FRESH_SEARCH_STEPS_MAX {
                        return None;
                    }
                    entry = entries[entry].sibling_older;
                }
                next = node.first_node;
            }
            steps += 1;
            if steps >= FRESH_SEARCH_STEPS_MAX {
                return None;
            }
            while next == NONE {
                if place == start {
                    return None;
                }
                next = self.nodes[place].older;
                if next == NONE {
                    place = self.nodes[place].parent;
                }
            }
            place = next;
        }
    }

    /// Asks for the lines where a Data with these prefix hashes will be hung.
    #[inline(always)]
    pub(super) fn prefetch_parent_buckets(&self, hashes: &[u64]) {
        // One of the two nearly always is where the search for the parent ends.
        if let [.., grandparent, parent, _] = hashes {
            self.index.prefetch(*parent);
            self.index.prefetch(*grandparent);
        }
    }

    /// Asks for the nodes that those lines name.
    #[inline(always)]
    pub(super) fn prefetch_parents(&self, hashes: &[u64]) {
        if let [.., grandparent, parent, _] = hashes
            && !self.prefetch_items(*parent)
        {
            self.prefetch_items(*grandparent);
        }
    }

    /// Asks for the lines that lead to what is below a prefix.
    pub(super) fn prefetch_search_buckets(&self, hashes: &[u64]) {
        for &hash in &hashes[1..] {
            self.index.prefetch(hash);
        }
    }

    /// Asks for the nodes that those lines name.
    pub(super) fn prefetch_search_nodes(&self, hashes: &[u64]) {
        for &hash in &hashes[1..] {
            self.prefetch_items(hash);
        }
    }

    /// The Data that a search below a prefix is likely to return; for hints.
    pub(super) fn likely_entry(&self, entries: &Arena<CsEntry>, hashes: &[u64]) -> Option<u32> {
        let depth = hashes.len() - 1;
        let child = (1..=depth).rev().find_map(|edge| self.find_edge(entries, hashes[edge]))?;
        let entry = match child {
            Child::Entry(place) => place,
            Child::Node(place) => self.nodes[place].first_entry,
        };
        (entry != NONE).then_some(entry)
    }

    /// Asks for a node.
    #[inline(always)]
    pub(super) fn prefetch_node(&self, place: u32) {
        prefetch_slice(self.nodes.slots(), place as usize);
    }

    /// Asks for the nodes filed under a hash; whether there is anything.
    #[inline(always)]
    fn prefetch_items(&self, hash: u64) -> bool {
        let mut any = false;
        self.index.for_each(hash, |reference| {
            any = true;
            if let Child::Node(place) = Child::of(reference) {
                self.prefetch_node(place);
            }
        });
        any
    }
}
