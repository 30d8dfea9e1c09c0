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
    /// Any Data among those whose name is longer than the prefix that has these hashes and starts
    /// with it, which `has_prefix` compares; most recent first. With `fresh_at`, only one that is
    /// fresh at that time: only subtrees that may hold such are entered, and the search ends after
    /// [`FRESH_SEARCH_STEPS_MAX`] steps.
    pub(super) fn find_below(
        &self,
        entries: &Arena<CsEntry>,
        hashes: &[u64],
        fresh_at: Option<Timestamp>,
        mut has_prefix: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let depth = hashes.len() - 1;
        if depth == 0 {
            return self.search(entries, ROOT, fresh_at, has_prefix);
        }
        let child = (1..=depth).rev().find_map(|edge| self.find_edge(entries, hashes[edge]))?;
        match child {
            Child::Entry(place) => {
                (is_fresh_enough(&entries[place], fresh_at) && has_prefix(place)).then_some(place)
            }
            // A node above the prefix: its child that covers the prefix would have been found.
            Child::Node(place) if usize::from(self.nodes[place].depth) < depth => None,
            // The names below a node agree up to its depth, so one of them tells for all whether
            // they go another way than the prefix between the edge and the node.
            Child::Node(_) if !has_prefix(self.any_entry(child)) => None,
            Child::Node(place) => self.search(entries, place, fresh_at, has_prefix),
        }
    }

    fn search(
        &self,
        entries: &Arena<CsEntry>,
        start: u32,
        fresh_at: Option<Timestamp>,
        mut has_prefix: impl FnMut(u32) -> bool,
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
                    if is_fresh_enough(&entries[entry], fresh_at) && has_prefix(entry) {
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
            self.prefetch_node(self.memo.likely(*grandparent));
        }
    }

    /// Asks for the nodes that those lines name.
    #[inline(always)]
    pub(super) fn prefetch_parents(&self, hashes: &[u64]) {
        if let [.., grandparent, parent, _] = hashes
            && !self.prefetch_items(*parent)
        {
            let place = self.memo.likely(*grandparent);
            let node = &self.nodes[place];
            if node.hash == *grandparent {
                return;
            }
            self.index.prefetch(*grandparent);
        }
    }

    /// The newest Data below the node that a Data with these prefix hashes is likely to be hung on;
    /// for hints.
    #[inline(always)]
    pub(super) fn likely_sibling(&self, hashes: &[u64]) -> Option<u32> {
        let [.., grandparent, parent, _] = hashes else { return None };
        let depth = hashes.len() - 3;
        let node = self
            .memo
            .find(&self.nodes, *grandparent, depth)
            .or_else(|| self.any_node(*parent))
            .or_else(|| self.any_node(*grandparent))?;
        Some(self.nodes[node].first_entry)
    }

    fn any_node(&self, hash: u64) -> Option<u32> {
        let is_node = |reference| matches!(Child::of(reference), Child::Node(_));
        match Child::of(self.index.find(hash, is_node)?) {
            Child::Node(place) => Some(place),
            Child::Entry(_) => None,
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

/// Whether a Data is fresh at the time, if there is one.
#[inline(always)]
fn is_fresh_enough(entry: &CsEntry, fresh_at: Option<Timestamp>) -> bool {
    fresh_at.is_none_or(|now| entry.is_fresh(now))
}

#[cfg(test)]
mod tests {
    use ndn_packet::NameRef;

    use super::*;
    use crate::pcct::{Pcct, PcctConfig, packet_name};
    use crate::{DataKey, NameHasher, PREFIX_HASHES_MAX};

    fn hasher() -> NameHasher {
        NameHasher::new(*b"key of the tests")
    }

    fn value_of(components: &[u8]) -> Vec<u8> {
        components.iter().flat_map(|&component| [8, 1, component]).collect()
    }

    fn hashes_of(value: &[u8]) -> Vec<u64> {
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let count = hasher().hash_value_prefixes(value, &mut hashes).unwrap();
        hashes[..count].to_vec()
    }

    fn insert(pcct: &mut Pcct, components: &[u8]) {
        let value = value_of(components);
        let hashes = hashes_of(&value);
        let length = u8::try_from(value.len()).unwrap();
        let wire = [&[6, length + 2, 7, length][..], &value].concat();
        let key = DataKey::new(NameRef::from_value(&value).unwrap(), &hashes);
        pcct.insert_data(&key, &wire, 0, true, Timestamp::from_millis(1)).unwrap();
    }

    #[test]
    fn names_that_go_another_way_are_not_searched_one_by_one() {
        let mut pcct = Pcct::new(&PcctConfig::with_capacity(16, 1000, Timestamp::ZERO), hasher());
        for segment in 0..200 {
            insert(&mut pcct, &[b'a', b'c', b'v', segment]);
        }
        for (prefix, is_found) in [
            (&b"a"[..], true),
            (b"ac", true),
            (b"acv", true),
            (b"ab", false),
            (b"abv", false),
            (b"acw", false),
            (b"b", false),
        ] {
            let value = value_of(prefix);
            let mut compared = 0;
            let cs = &pcct.cs;
            let found = cs.tree.find_below(&cs.entries, &hashes_of(&value), None, |place| {
                compared += 1;
                packet_name(cs.packet(place)).starts_with(&value)
            });
            assert_eq!(found.is_some(), is_found, "{prefix:?}");
            assert!(compared <= 2, "{compared} names compared for {prefix:?}");
        }
    }
}
