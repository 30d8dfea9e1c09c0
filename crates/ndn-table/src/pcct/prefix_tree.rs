//! The tree of name prefixes above the cached Data, for Interests with CanBePrefix.
//!
//! Every Data hangs on the node of its name without the last component; missing nodes are made up
//! to the first that exists, and go with their last child. A run of segments under one prefix
//! therefore costs one lookup of a node that is in the cache, and a prefix finds a Data by walking
//! down first children, without a scan.
//!
//! A node is known by its depth and 64-bit hash and stores no name. Should two prefixes share a
//! hash they share a node, and the search, which compares the name of every Data it returns,
//! passes over the Data of the other.

use ndn_ring::prefetch_slice;

use super::cs_entry::CsEntry;
use crate::Timestamp;
use crate::arena::{Arena, NONE};
use crate::hash_index::HashIndex;

/// Nodes and Data that one search with MustBeFresh looks at, most recent first, before it gives
/// up. Subtrees that hold nothing fresh are passed over by their root alone, but one node may have
/// a million stale Data.
pub const FRESH_SEARCH_STEPS_MAX: u32 = 256;

/// The root's place in the arena.
const ROOT: u32 = 0;

/// Bounds of freshness are rounded up to this, so that they seldom change on the way to the root.
const BOUND_GRANULARITY_NANOS: u64 = 1 << 30;

/// The arena or the index of the nodes is full.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NodesFull;

/// A proper prefix of the name of at least one cached Data.
#[derive(Debug)]
#[repr(C, align(64))]
struct Node {
    hash: u64,
    /// No Data below is fresh after this.
    fresh_bound: Timestamp,
    parent: u32,
    /// Newest Data directly below.
    first_entry: u32,
    /// Newest node directly below.
    first_node: u32,
    /// Neighbours among the nodes of the parent.
    newer: u32,
    older: u32,
    /// Data and nodes directly below.
    child_count: u32,
    depth: u8,
}

const _: () = assert!(size_of::<Node>() == 64);

/// The nodes of one Content Store.
#[derive(Debug)]
pub(super) struct PrefixTree {
    nodes: Arena<Node>,
    index: HashIndex,
    /// Node of the last insertion: most Data come in runs.
    last: u32,
}

impl PrefixTree {
    pub(super) fn new(nodes_max: usize) -> Self {
        let mut nodes = Arena::new(nodes_max + 1);
        let root = nodes.allocate(|| Node::new(0, NONE, 0));
        debug_assert_eq!(root, Some(ROOT));
        Self { nodes, index: HashIndex::new(nodes_max), last: ROOT }
    }

    /// Nodes in use, without the root.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Whether `count` nodes can be made.
    #[inline(always)]
    pub(super) fn has_room(&self, count: usize) -> bool {
        self.nodes.len() + count <= self.nodes.capacity()
    }

    /// Asks for the line where the node of a prefix is filed.
    #[inline(always)]
    pub(super) fn prefetch_bucket(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// Asks for the node of a prefix, whose bucket has been asked for before.
    #[inline(always)]
    pub(super) fn prefetch_node(&self, hash: u64) {
        self.index.for_each(hash, |place| self.prefetch_place(place));
    }

    /// Asks for a node.
    #[inline(always)]
    pub(super) fn prefetch_place(&self, place: u32) {
        prefetch_slice(self.nodes.slots(), place as usize);
    }

    /// The newest Data directly below the node of a prefix; for hints.
    #[inline(always)]
    pub(super) fn newest_entry(&self, hash: u64, depth: usize) -> Option<u32> {
        let entry = self.nodes[self.find(hash, depth)?].first_entry;
        (entry != NONE).then_some(entry)
    }

    /// The node of the prefix of `depth` components with this hash.
    #[inline]
    pub(super) fn find(&self, hash: u64, depth: usize) -> Option<u32> {
        if depth == 0 {
            return Some(ROOT);
        }
        self.index.find(hash, |place| {
            let node = &self.nodes[place];
            node.hash == hash && usize::from(node.depth) == depth
        })
    }

    /// Hangs a Data with these prefix hashes below the node of its parent.
    #[inline]
    pub(super) fn link(
        &mut self,
        entries: &mut Arena<CsEntry>,
        place: u32,
        hashes: &[u64],
    ) -> Result<(), NodesFull> {
        let depth = hashes.len().saturating_sub(2);
        let last = &self.nodes[self.last];
        let parent = if last.hash == hashes[depth] && usize::from(last.depth) == depth {
            self.last
        } else {
            self.find_or_create(hashes, depth)?
        };
        self.last = parent;
        let node = &mut self.nodes[parent];
        let older = node.first_entry;
        node.first_entry = place;
        node.child_count += 1;
        let entry = &mut entries[place];
        entry.node = parent;
        entry.sibling_newer = NONE;
        entry.sibling_older = older;
        let fresh_until = entry.fresh_until;
        if older != NONE {
            entries[older].sibling_newer = place;
        }
        self.raise_bound(parent, fresh_until);
        Ok(())
    }

    /// Notes that a Data below `place` is fresh until `fresh_until`.
    #[inline]
    pub(super) fn raise_bound(&mut self, mut place: u32, fresh_until: Timestamp) {
        if fresh_until == Timestamp::ZERO {
            return;
        }
        let nanos = fresh_until.as_nanos() | (BOUND_GRANULARITY_NANOS - 1);
        let bound = Timestamp::from_nanos(nanos);
        while place != NONE && self.nodes[place].fresh_bound < bound {
            self.nodes[place].fresh_bound = bound;
            place = self.nodes[place].parent;
        }
    }

    /// Takes a Data out, and the nodes above that have no other child.
    #[inline]
    pub(super) fn unlink(&mut self, entries: &mut Arena<CsEntry>, place: u32) {
        let CsEntry { node: parent, sibling_newer, sibling_older, .. } = entries[place];
        let node = &mut self.nodes[parent];
        if sibling_newer == NONE {
            node.first_entry = sibling_older;
        } else {
            entries[sibling_newer].sibling_older = sibling_older;
        }
        if sibling_older != NONE {
            entries[sibling_older].sibling_newer = sibling_newer;
        }
        node.child_count -= 1;
        if node.child_count == 0 {
            self.prune(parent);
        }
    }

    /// Any Data at or below the node that `accept` takes, most recent first. With `fresh_at`, only
    /// subtrees that may hold Data fresh at that time are entered, and the search ends after
    /// [`FRESH_SEARCH_STEPS_MAX`] steps.
    pub(super) fn search(
        &self,
        entries: &Arena<CsEntry>,
        start: u32,
        fresh_at: Option<Timestamp>,
        mut accept: impl FnMut(u32, &CsEntry) -> bool,
    ) -> Option<u32> {
        let may_enter = |node: &Node| fresh_at.is_none_or(|now| now <= node.fresh_bound);
        if !may_enter(&self.nodes[start]) {
            return None;
        }
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

    fn find_or_create(&mut self, hashes: &[u64], depth: usize) -> Result<u32, NodesFull> {
        let mut place = self.find(hashes[depth], depth);
        if let Some(place) = place {
            return Ok(place);
        }
        let mut existing = depth;
        while place.is_none() {
            existing -= 1;
            place = self.find(hashes[existing], existing);
        }
        let mut place = place.unwrap_or(ROOT);
        if !self.has_room(depth - existing) {
            return Err(NodesFull);
        }
        for (depth, &hash) in (0..=depth).zip(hashes).skip(existing + 1) {
            match self.create(hash, place, depth) {
                Ok(child) => place = child,
                Err(full) => {
                    self.prune(place);
                    return Err(full);
                }
            }
        }
        Ok(place)
    }

    fn create(&mut self, hash: u64, parent: u32, depth: usize) -> Result<u32, NodesFull> {
        let depth = u8::try_from(depth).map_err(|_| NodesFull)?;
        let node = Node::new(hash, parent, depth);
        let place = self.nodes.allocate(|| Node::new(hash, parent, depth)).ok_or(NodesFull)?;
        if self.index.insert(hash, place).is_err() {
            self.nodes.release(place);
            return Err(NodesFull);
        }
        let older = self.nodes[parent].first_node;
        self.nodes[place] = Node { older, ..node };
        if older != NONE {
            self.nodes[older].newer = place;
        }
        self.nodes[parent].first_node = place;
        self.nodes[parent].child_count += 1;
        Ok(place)
    }

    /// Removes a node without children, and then its parent if that has none left.
    fn prune(&mut self, mut place: u32) {
        while place != ROOT && self.nodes[place].child_count == 0 {
            let Node { hash, parent, newer, older, .. } = self.nodes[place];
            if newer == NONE {
                self.nodes[parent].first_node = older;
            } else {
                self.nodes[newer].older = older;
            }
            if older != NONE {
                self.nodes[older].newer = newer;
            }
            self.nodes[parent].child_count -= 1;
            let removed = self.index.remove(hash, place);
            debug_assert!(removed);
            if self.last == place {
                self.last = ROOT;
            }
            self.nodes.release(place);
            place = parent;
        }
    }
}

impl Node {
    fn new(hash: u64, parent: u32, depth: u8) -> Self {
        Self {
            hash,
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
