//! A short way to the nodes of the prefix tree.

use super::prefix_tree::{Node, ROOT};
use crate::arena::Arena;

/// Where some nodes are, by their hash: a hint that is small enough to stay in the cache, while a
/// look-up in the index is likely to miss it.
#[derive(Debug)]
pub(super) struct NodeMemo(Box<[u32]>);

/// Nodes that a memo has room for at most.
const MEMO_PLACES_MAX: usize = 1 << 15;

impl NodeMemo {
    pub(super) fn new(nodes_max: usize) -> Self {
        let places = nodes_max.next_power_of_two().min(MEMO_PLACES_MAX);
        Self(vec![ROOT; places].into_boxed_slice())
    }

    pub(super) fn note(&mut self, hash: u64, place: u32) {
        let position = self.position(hash);
        self.0[position] = place;
    }

    /// The node of a prefix of `depth` components, if it was noted and is still there.
    #[inline(always)]
    pub(super) fn find(&self, nodes: &Arena<Node>, hash: u64, depth: usize) -> Option<u32> {
        let place = self.0[self.position(hash)];
        let node = &nodes[place];
        (node.hash == hash && usize::from(node.depth) == depth).then_some(place)
    }

    /// What [`Self::find`] may find, without a look at it.
    #[inline(always)]
    pub(super) fn likely(&self, hash: u64) -> u32 {
        self.0[self.position(hash)]
    }

    /// The lower bits of the hash; the length is a power of two.
    #[inline(always)]
    fn position(&self, hash: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "masked to the length")]
        let position = hash as usize & (self.0.len() - 1);
        position
    }
}
