//! The tree of name prefixes above the cached Data, for Interests with CanBePrefix.
//!
//! A compressed trie: a Data hangs on the node of the longest proper prefix that it shares with
//! another Data, and a prefix without a branch has no node. Each child of a node is filed in a hash
//! index under its *edge*: the hash of the prefix one component longer than the node, which no
//! other child of the node has. So the child that covers a prefix is found by trying the lengths
//! up from the prefix until one hits, without a scan.
//!
//! A Data exactly one component longer than its node is not filed, since the prefix at its edge is
//! its own name, under which it is found anyway. The two common cases are cheap therefore: a run of
//! segments touches only the node they share, and a Data that shares its prefix with nobody adds
//! one item to the index and no node.
//!
//! Nodes are known by their 64-bit hash and store no name. Should two prefixes share a hash, a Data
//! may hang in a wrong place and not be found by a prefix; no Data is ever returned for a name that
//! it does not have, because the search compares.

use super::cs_entry::CsEntry;
use super::node_memo::NodeMemo;
use super::packet_name;
use crate::arena::{Arena, NONE};
use crate::byte_slab::ByteSlab;
use crate::hash_index::HashIndex;
use crate::name_hash::component_end;
use crate::{NameHasher, Timestamp};

/// The root's place in the arena.
pub(super) const ROOT: u32 = 0;

/// Marks a reference in the index as one to a node; others are to Data.
const NODE_BIT: u32 = 1 << 31;

/// Bounds of freshness are rounded up to this, so that they seldom change on the way to the root.
const BOUND_GRANULARITY_NANOS: u64 = 1 << 30;

/// Why a Data cannot be hung into the tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TreeFull {
    /// There is no node left; there will be, once other Data go.
    Nodes,
    /// The neighbourhood of its edge in the index is full, whatever goes elsewhere.
    Index,
}

/// A name prefix at which the names of cached Data part (or once parted).
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Node {
    /// Hash of the prefix.
    pub(super) hash: u64,
    /// Hash that the node is filed under.
    edge: u64,
    /// No Data below is fresh after this.
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

/// What a reference of the index names.
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
            Self::Node(place) => place | NODE_BIT,
            Self::Entry(place) => place,
        }
    }
}

/// The nodes of one Content Store.
#[derive(Debug)]
pub(super) struct PrefixTree {
    pub(super) nodes: Arena<Node>,
    pub(super) index: HashIndex,
    hasher: NameHasher,
    /// Node of the last insertion: many Data come in runs.
    last: u32,
    pub(super) memo: NodeMemo,
}

impl PrefixTree {
    pub(super) fn new(entries_max: usize, nodes_max: usize, hasher: NameHasher) -> Self {
        let mut nodes = Arena::new(nodes_max + 1);
        let root = nodes.allocate(|| Node::new(0, 0, NONE, 0));
        debug_assert_eq!(root, Some(ROOT));
        // Either most Data are filed, or there are nodes; hardly both.
        let index = HashIndex::new(entries_max + entries_max / 4);
        Self { nodes, index, hasher, last: ROOT, memo: NodeMemo::new(nodes_max) }
    }

    /// Nodes in use, without the root.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    /// What is filed under the edge with this hash.
    #[inline]
    pub(super) fn find_edge(&self, entries: &Arena<CsEntry>, edge: u64) -> Option<Child> {
        let found = self.index.find(edge, |reference| match Child::of(reference) {
            Child::Node(place) => self.nodes[place].edge == edge,
            Child::Entry(place) => entries[place].edge == edge,
        })?;
        Some(Child::of(found))
    }

    /// Hangs a Data with these prefix hashes into the tree.
    #[inline]
    pub(super) fn link(
        &mut self,
        entries: &mut Arena<CsEntry>,
        blocks: &ByteSlab,
        place: u32,
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
        let is_filed = edge_depth < depth;
        let edge = if is_filed { hashes[edge_depth] } else { 0 };
        if is_filed && self.index.insert(edge, place).is_err() {
            return Err(TreeFull::Index);
        }
        self.last = parent;
        let entry = &mut entries[place];
        entry.edge = edge;
        entry.is_filed = is_filed;
        let fresh_until = entry.fresh_until;
        self.attach_entry(entries, parent, place);
        self.raise_bound(parent, fresh_until);
        Ok(())
    }

    /// Takes a Data out, and the nodes above that have no other child.
    #[inline]
    pub(super) fn unlink(&mut self, entries: &mut Arena<CsEntry>, place: u32) {
        let CsEntry { edge, is_filed, node: parent, .. } = entries[place];
        if is_filed {
            let removed = self.index.remove(edge, place);
            debug_assert!(removed);
        }
        self.detach_entry(entries, parent, place);
        if self.nodes[parent].child_count == 0 {
            self.prune(parent);
        }
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

    /// The node that a new Data belongs below: the deepest one whose prefix its name has, or a new
    /// one where its name parts from that of the Data that are there.
    fn find_parent(
        &mut self,
        entries: &mut Arena<CsEntry>,
        blocks: &ByteSlab,
        name: &[u8],
        hashes: &[u64],
    ) -> Result<u32, TreeFull> {
        let depth = hashes.len() - 1;
        for edge_depth in (1..depth).rev() {
            if let Some(place) = self.memo.find(&self.nodes, hashes[edge_depth], edge_depth) {
                return Ok(place);
            }
            let Some(child) = self.find_edge(entries, hashes[edge_depth]) else { continue };
            if let Child::Node(place) = child {
                let node = &self.nodes[place];
                if hashes[..depth].get(usize::from(node.depth)) == Some(&node.hash) {
                    self.memo.note(node.hash, place);
                    return Ok(place);
                }
            }
            if let Some(split) = self.split(entries, blocks, child, name, hashes, edge_depth)? {
                return Ok(split);
            }
        }
        Ok(ROOT)
    }

    /// Puts a node between a child and its parent, at the length up to which the names below the
    /// child agree with `name`. `None` if that is not even the child's edge: two prefixes share a
    /// hash.
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
            Child::Node(place) => {
                let node = &self.nodes[place];
                (usize::from(node.depth), node.parent, node.fresh_bound)
            }
            Child::Entry(place) => {
                let entry = &entries[place];
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
        let is_filed = matches!(child, Child::Node(_)) || child_depth > depth + 1;
        let edge = self.hasher.hash_value(prefix_value(other, depth + 1));
        let (new_depth, old_edge) = (u8::try_from(depth).unwrap_or(u8::MAX), hashes[edge_depth]);
        let fresh = || Node::new(hashes[depth], old_edge, parent, new_depth);
        let place = self.nodes.allocate(fresh).ok_or(TreeFull::Nodes)?;
        if is_filed && self.index.insert(edge, child.reference()).is_err() {
            self.nodes.release(place);
            return Err(TreeFull::Index);
        }
        self.nodes[place] = fresh();
        self.nodes[place].fresh_bound = bound;
        let replaced =
            self.index.replace(old_edge, child.reference(), Child::Node(place).reference());
        debug_assert!(replaced);
        match child {
            Child::Node(child) => {
                self.detach_node(child);
                self.nodes[child].edge = edge;
                self.attach_node(place, child);
            }
            Child::Entry(child) => {
                self.detach_entry(entries, parent, child);
                entries[child].edge = edge;
                entries[child].is_filed = is_filed;
                self.attach_entry(entries, place, child);
                self.raise_bound(place, entries[child].fresh_until);
            }
        }
        self.attach_node(parent, place);
        Ok(Some(place))
    }

    /// Some Data at or below a child.
    pub(super) fn any_entry(&self, child: Child) -> u32 {
        let mut place = match child {
            Child::Entry(place) => return place,
            Child::Node(place) => place,
        };
        while self.nodes[place].first_entry == NONE {
            place = self.nodes[place].first_node;
        }
        self.nodes[place].first_entry
    }

    /// Removes a node without children, and then its parent if that has none left.
    fn prune(&mut self, mut place: u32) {
        while place != ROOT && self.nodes[place].child_count == 0 {
            let Node { edge, parent, .. } = self.nodes[place];
            let removed = self.index.remove(edge, Child::Node(place).reference());
            debug_assert!(removed);
            self.detach_node(place);
            self.nodes[place].depth = u8::MAX;
            if self.last == place {
                self.last = ROOT;
            }
            self.nodes.release(place);
            place = parent;
        }
    }

    #[inline]
    fn attach_entry(&mut self, entries: &mut Arena<CsEntry>, parent: u32, place: u32) {
        let node = &mut self.nodes[parent];
        let older = std::mem::replace(&mut node.first_entry, place);
        node.child_count += 1;
        let entry = &mut entries[place];
        entry.node = parent;
        entry.sibling_newer = NONE;
        entry.sibling_older = older;
        if older != NONE {
            entries[older].sibling_newer = place;
        }
    }

    #[inline]
    fn detach_entry(&mut self, entries: &mut Arena<CsEntry>, parent: u32, place: u32) {
        let CsEntry { sibling_newer, sibling_older, .. } = entries[place];
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

    fn attach_node(&mut self, parent: u32, place: u32) {
        let node = &mut self.nodes[parent];
        let older = std::mem::replace(&mut node.first_node, place);
        node.child_count += 1;
        self.nodes[place].parent = parent;
        self.nodes[place].newer = NONE;
        self.nodes[place].older = older;
        if older != NONE {
            self.nodes[older].newer = place;
        }
    }

    fn detach_node(&mut self, place: u32) {
        let Node { parent, newer, older, .. } = self.nodes[place];
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

/// Number of components that two names have in common at their start.
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
