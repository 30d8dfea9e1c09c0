//! The tree of name prefixes above Data that has been cached for long, for Interests with CanBePrefix. What arrived lately is
//! in the [log of arrivals](super::arrival_log).
//!
//! A compressed trie: a Data hangs on the node of the longest proper prefix that it shares with
//! another Data, and a prefix without a branch has no node. A hash index holds each child of a node
//! under its *edge*: the hash of the prefix one component longer than the node, which no other
//! child of the node has. The child that covers a prefix is thus found by trying the lengths up
//! from the prefix until one hits, without a scan.
//!
//! A Data exactly one component longer than its node is not indexed, because the prefix at its edge
//! is its own name, under which it is found anyway. This makes the two common cases cheap: a run of
//! segments touches only the node they share, and a Data that shares its prefix with no other adds
//! one item to the index and no node.
//!
//! Nodes are identified by their 64-bit hash and store no name. If two prefixes share a hash, a
//! Data may hang in a wrong place and not be found by a prefix; no Data is ever returned for a name
//! that it does not have, because the search compares names.

use ndn_ring::prefetch_slice;
use ndn_types::Timestamp;

use super::cs_entry::CsEntry;
use super::packet_name::packet_name;
use crate::NameHasher;
use crate::arena::{Arena, NONE};
use crate::byte_slab::ByteSlab;
use crate::hash_index::HashIndex;
use crate::name_hash::component_end;

/// Maximum number of nodes and Data that one search with MustBeFresh visits, most recent first.
/// Subtrees without fresh Data are skipped at their root, but one node may have a million stale
/// Data.
const FRESH_SEARCH_STEPS_MAX: u32 = 256;

/// Slot of the root.
pub(super) const ROOT: u32 = 0;

/// Marks a reference in the index as one to a node; others refer to Data.
const NODE_BIT: u32 = 1 << 31;

/// Freshness bounds are rounded up to this, so that they seldom change on the way to the root.
const BOUND_GRANULARITY_NANOS: u64 = 1 << 30;

/// All nodes are in use, or the buckets of an edge in the index are full.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TreeFull;

/// A name prefix at which the names of cached Data branch (or once branched).
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Node {
    /// Hash of the prefix.
    pub(super) hash: u64,
    /// Hash under which the node is indexed.
    edge: u64,
    /// No Data below is fresh after this time.
    pub(super) fresh_bound: Timestamp,
    pub(super) parent: u32,
    /// Newest Data directly below.
    pub(super) first_entry: u32,
    /// Newest node directly below.
    pub(super) first_node: u32,
    /// Neighbours among the nodes of the parent.
    newer: u32,
    pub(super) older: u32,
    /// Data and nodes directly below.
    child_count: u32,
    pub(super) depth: u8,
}

const _: () = assert!(size_of::<Node>() == 64);

/// The target of a reference of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Child {
    Node(u32),
    Entry(u32),
}

impl Child {
    pub(super) fn of(reference: u32) -> Self {
        if reference & NODE_BIT == 0 {
            Self::Entry(reference)
        } else {
            Self::Node(reference & !NODE_BIT)
        }
    }

    fn reference(self) -> u32 {
        match self {
            Self::Node(slot) => slot | NODE_BIT,
            Self::Entry(slot) => slot,
        }
    }
}

/// The nodes of one Content Store.
#[derive(Debug)]
pub(super) struct PrefixTree {
    pub(super) nodes: Arena<Node>,
    pub(super) index: HashIndex,
    hasher: NameHasher,
    /// Node of the last insertion: Data often come in runs.
    last: u32,
}

impl PrefixTree {
    pub(super) fn new(entries_max: usize, nodes_max: usize, hasher: NameHasher) -> Self {
        let mut nodes = Arena::new(nodes_max + 1);
        let root = nodes.allocate(|| Node::new(0, 0, NONE, 0));
        debug_assert_eq!(root, Some(ROOT));
        // Either most Data are indexed, or there are nodes; hardly both.
        let index = HashIndex::new(entries_max + entries_max / 4);
        Self { nodes, index, hasher, last: ROOT }
    }

    /// Nodes in use, without the root.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    /// The child indexed under the edge with this hash.
    #[inline]
    pub(super) fn find_edge(&self, entries: &Arena<CsEntry>, edge: u64) -> Option<Child> {
        if self.index.excludes(edge) {
            return None;
        }
        let found = self.index.find(edge, |reference| match Child::of(reference) {
            Child::Node(slot) => self.nodes[slot].edge == edge,
            Child::Entry(slot) => entries[slot].edge == edge,
        })?;
        Some(Child::of(found))
    }

    /// Adds a Data with these prefix hashes to the tree.
    #[inline]
    pub(super) fn link(
        &mut self,
        entries: &mut Arena<CsEntry>,
        blocks: &ByteSlab,
        slot: u32,
        name: &[u8],
        hashes: &[u64],
    ) -> Result<(), TreeFull> {
        let depth = hashes.len() - 1;
        let last = &self.nodes[self.last];
        let parent = if usize::from(last.depth) + 1 == depth && last.hash == hashes[depth - 1] {
            self.last
        } else {
            self.find_parent(entries, blocks, name, hashes)?
        };
        let edge_depth = usize::from(self.nodes[parent].depth) + 1;
        let is_indexed = edge_depth < depth;
        let edge = if is_indexed { hashes[edge_depth] } else { 0 };
        if is_indexed && self.index.insert(edge, slot).is_err() {
            return Err(TreeFull);
        }
        self.last = parent;
        let entry = &mut entries[slot];
        entry.edge = edge;
        entry.is_indexed = is_indexed;
        let fresh_until = entry.fresh_until;
        self.attach_entry(entries, parent, slot);
        self.raise_bound(parent, fresh_until);
        Ok(())
    }

    /// Removes a Data, and the nodes above that have no other child.
    #[inline]
    pub(super) fn unlink(&mut self, entries: &mut Arena<CsEntry>, slot: u32) {
        let CsEntry { edge, is_indexed, node: parent, .. } = entries[slot];
        if is_indexed {
            let removed = self.index.remove(edge, slot);
            debug_assert!(removed);
        }
        self.detach_entry(entries, parent, slot);
        if self.nodes[parent].child_count == 0 {
            self.prune(parent);
        }
    }

    /// Raises the freshness bounds of `slot` and the nodes above it to `fresh_until`.
    #[inline]
    pub(super) fn raise_bound(&mut self, mut slot: u32, fresh_until: Timestamp) {
        if fresh_until == Timestamp::ZERO {
            return;
        }
        let nanos = fresh_until.as_nanos() | (BOUND_GRANULARITY_NANOS - 1);
        let bound = Timestamp::from_nanos(nanos);
        while slot != NONE && self.nodes[slot].fresh_bound < bound {
            self.nodes[slot].fresh_bound = bound;
            slot = self.nodes[slot].parent;
        }
    }

    /// The parent of a new Data: the deepest node whose prefix its name has, or a new node where
    /// its name diverges from the existing Data.
    fn find_parent(
        &mut self,
        entries: &mut Arena<CsEntry>,
        blocks: &ByteSlab,
        name: &[u8],
        hashes: &[u64],
    ) -> Result<u32, TreeFull> {
        let depth = hashes.len() - 1;
        for edge_depth in (1..depth).rev() {
            let Some(child) = self.find_edge(entries, hashes[edge_depth]) else { continue };
            if let Child::Node(slot) = child {
                let node = &self.nodes[slot];
                if hashes[..depth].get(usize::from(node.depth)) == Some(&node.hash) {
                    return Ok(slot);
                }
            }
            if let Some(split) = self.split(entries, blocks, child, name, hashes, edge_depth)? {
                return Ok(split);
            }
        }
        Ok(ROOT)
    }

    /// Inserts a node between a child and its parent, at the length up to which the names below the
    /// child agree with `name`. Returns `None` if they do not agree up to the child's edge: two
    /// prefixes share a hash.
    #[cold]
    fn split(
        &mut self,
        entries: &mut Arena<CsEntry>,
        blocks: &ByteSlab,
        child: Child,
        name: &[u8],
        hashes: &[u64],
        edge_depth: usize,
    ) -> Result<Option<u32>, TreeFull> {
        let (child_depth, parent, bound) = match child {
            Child::Node(slot) => {
                let node = &self.nodes[slot];
                (usize::from(node.depth), node.parent, node.fresh_bound)
            }
            Child::Entry(slot) => {
                let entry = &entries[slot];
                (usize::from(entry.name_components), entry.node, Timestamp::ZERO)
            }
        };
        let below = &entries[self.any_entry(child)];
        let other = packet_name(blocks.bytes(below.block, usize::from(below.wire_length)));
        let common = common_depth(name, other);
        let depth = common.min(hashes.len() - 2).min(child_depth - 1);
        if depth < edge_depth {
            return Ok(None);
        }
        let is_indexed = matches!(child, Child::Node(_)) || child_depth > depth + 1;
        let edge = self.hasher.hash_value(prefix_value(other, depth + 1));
        let (new_depth, old_edge) = (u8::try_from(depth).unwrap_or(u8::MAX), hashes[edge_depth]);
        let fresh = || Node::new(hashes[depth], old_edge, parent, new_depth);
        let slot = self.nodes.allocate(fresh).ok_or(TreeFull)?;
        if is_indexed && self.index.insert(edge, child.reference()).is_err() {
            self.nodes.release(slot);
            return Err(TreeFull);
        }
        self.nodes[slot] = fresh();
        self.nodes[slot].fresh_bound = bound;
        let replaced =
            self.index.replace(old_edge, child.reference(), Child::Node(slot).reference());
        debug_assert!(replaced);
        match child {
            Child::Node(child) => {
                self.detach_node(child);
                self.nodes[child].edge = edge;
                self.attach_node(slot, child);
            }
            Child::Entry(child) => {
                self.detach_entry(entries, parent, child);
                entries[child].edge = edge;
                entries[child].is_indexed = is_indexed;
                self.attach_entry(entries, slot, child);
                self.raise_bound(slot, entries[child].fresh_until);
            }
        }
        self.attach_node(parent, slot);
        Ok(Some(slot))
    }

    /// Any Data at or below a child.
    pub(super) fn any_entry(&self, child: Child) -> u32 {
        let mut slot = match child {
            Child::Entry(slot) => return slot,
            Child::Node(slot) => slot,
        };
        while self.nodes[slot].first_entry == NONE {
            slot = self.nodes[slot].first_node;
        }
        self.nodes[slot].first_entry
    }

    /// Removes a node without children, and then its parent if it has none left.
    fn prune(&mut self, mut slot: u32) {
        while slot != ROOT && self.nodes[slot].child_count == 0 {
            let Node { edge, parent, .. } = self.nodes[slot];
            let removed = self.index.remove(edge, Child::Node(slot).reference());
            debug_assert!(removed);
            self.detach_node(slot);
            self.nodes[slot].depth = u8::MAX;
            if self.last == slot {
                self.last = ROOT;
            }
            self.nodes.release(slot);
            slot = parent;
        }
    }

    #[inline]
    fn attach_entry(&mut self, entries: &mut Arena<CsEntry>, parent: u32, slot: u32) {
        let node = &mut self.nodes[parent];
        let older = std::mem::replace(&mut node.first_entry, slot);
        node.child_count += 1;
        let entry = &mut entries[slot];
        entry.node = parent;
        entry.sibling_newer = NONE;
        entry.sibling_older = older;
        if older != NONE {
            entries[older].sibling_newer = slot;
        }
    }

    #[inline]
    fn detach_entry(&mut self, entries: &mut Arena<CsEntry>, parent: u32, slot: u32) {
        let CsEntry { sibling_newer, sibling_older, .. } = entries[slot];
        let node = &mut self.nodes[parent];
        node.child_count -= 1;
        if sibling_newer == NONE {
            node.first_entry = sibling_older;
        } else {
            entries[sibling_newer].sibling_older = sibling_older;
        }
        if sibling_older != NONE {
            entries[sibling_older].sibling_newer = sibling_newer;
        }
    }

    fn attach_node(&mut self, parent: u32, slot: u32) {
        let node = &mut self.nodes[parent];
        let older = std::mem::replace(&mut node.first_node, slot);
        node.child_count += 1;
        self.nodes[slot].parent = parent;
        self.nodes[slot].newer = NONE;
        self.nodes[slot].older = older;
        if older != NONE {
            self.nodes[older].newer = slot;
        }
    }

    fn detach_node(&mut self, slot: u32) {
        let Node { parent, newer, older, .. } = self.nodes[slot];
        self.nodes[parent].child_count -= 1;
        if newer == NONE {
            self.nodes[parent].first_node = older;
        } else {
            self.nodes[newer].older = older;
        }
        if older != NONE {
            self.nodes[older].newer = newer;
        }
    }
}

/// Search and prefetch.
impl PrefixTree {
    /// Any Data whose name is longer than the prefix with these hashes and starts with it (compared
    /// by `has_prefix`); most recent first. With `fresh_at`, only Data that is fresh at that time:
    /// the search enters only subtrees that may contain such Data, and ends after
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
            Child::Entry(slot) => {
                (is_fresh_enough(&entries[slot], fresh_at) && has_prefix(slot)).then_some(slot)
            }
            // A node above the prefix: its child that covers the prefix would have been found.
            Child::Node(slot) if usize::from(self.nodes[slot].depth) < depth => None,
            // The names below a node agree up to its depth, so one of them decides for all whether
            // they diverge from the prefix between the edge and the node.
            Child::Node(_) if !has_prefix(self.any_entry(child)) => None,
            Child::Node(slot) => self.search(entries, slot, fresh_at, has_prefix),
        }
    }

    fn search(
        &self,
        entries: &Arena<CsEntry>,
        start: u32,
        fresh_at: Option<Timestamp>,
        mut has_prefix: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let may_enter = |node: &Node| fresh_at.is_none_or(|now| now < node.fresh_bound);
        let mut steps = 0;
        let mut slot = start;
        loop {
            let node = &self.nodes[slot];
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
                if slot == start {
                    return None;
                }
                next = self.nodes[slot].older;
                if next == NONE {
                    slot = self.nodes[slot].parent;
                }
            }
            slot = next;
        }
    }

    /// Prefetches the buckets that lead to what is below a prefix.
    pub(super) fn prefetch_search_buckets(&self, hashes: &[u64]) {
        for &hash in &hashes[1..] {
            self.index.prefetch(hash);
        }
    }

    /// Prefetches the nodes in those buckets.
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
            Child::Entry(slot) => slot,
            Child::Node(slot) => self.nodes[slot].first_entry,
        };
        (entry != NONE).then_some(entry)
    }

    /// Prefetches the nodes indexed under a hash.
    fn prefetch_items(&self, hash: u64) {
        self.index.for_each(hash, |reference| {
            if let Child::Node(slot) = Child::of(reference) {
                prefetch_slice(self.nodes.slots(), slot as usize);
            }
        });
    }
}

impl Node {
    fn new(hash: u64, edge: u64, parent: u32, depth: u8) -> Self {
        Self {
            hash,
            edge,
            fresh_bound: Timestamp::ZERO,
            parent,
            first_entry: NONE,
            first_node: NONE,
            newer: NONE,
            older: NONE,
            child_count: 0,
            depth,
        }
    }
}

/// Number of leading components that two names have in common.
fn common_depth(name: &[u8], other: &[u8]) -> usize {
    let agree = name.iter().zip(other).take_while(|(a, b)| a == b).count();
    let mut end = 0;
    let mut depth = 0;
    while let Some(next) = component_end(name, end) {
        if next > agree {
            break;
        }
        end = next;
        depth += 1;
    }
    depth
}

/// The first `depth` components of a name.
fn prefix_value(name: &[u8], depth: usize) -> &[u8] {
    let end = (0..depth).try_fold(0, |end, _| component_end(name, end));
    &name[..end.unwrap_or(name.len())]
}

/// Whether a Data is fresh at the given time; true without a time.
#[inline(always)]
fn is_fresh_enough(entry: &CsEntry, fresh_at: Option<Timestamp>) -> bool {
    fresh_at.is_none_or(|now| entry.is_fresh(now))
}
