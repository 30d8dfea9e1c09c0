//! The tree of digests: number and numbering of nodes.

/// Maximum number of digests in one node; more do not fit a packet.
pub(super) const FANOUT_MAX: u64 = 1024;
/// Maximum number of segments of a version; a client holds 32 bytes for each.
pub(super) const SEGMENTS_MAX: u64 = 1 << 26;

/// A tree whose leaves list `segments` digests, at most `fanout` per node.
///
/// Node 0 is the root; the levels follow from the top down, each from left to right. The digests
/// listed by the nodes in order are therefore those of the nodes 1, 2, 3, …, and then those of the
/// segments 0, 1, 2, ….
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) segments: u64,
    pub(super) fanout: u64,
    /// Nodes of each level below the root, from the leaves up.
    pub(super) levels: Vec<u64>,
}

impl Tree {
    /// `None` for an impossible tree.
    pub(super) fn new(segments: u64, fanout: u64) -> Option<Self> {
        if segments == 0 || segments > SEGMENTS_MAX || !(2..=FANOUT_MAX).contains(&fanout) {
            return None;
        }
        let mut levels = Vec::new();
        let mut count = segments;
        while count > fanout {
            count = count.div_ceil(fanout);
            levels.push(count);
        }
        Some(Self { segments, fanout, levels })
    }

    /// Number of nodes, including the root.
    pub(super) fn nodes(&self) -> u64 {
        1 + self.levels.iter().sum::<u64>()
    }

    /// Number of the first node of a level.
    pub(super) fn first_of(&self, level: usize) -> u64 {
        1 + self.levels.iter().skip(level + 1).sum::<u64>()
    }

    /// Number of leaves; the root is the only one where it lists the segments.
    pub(super) fn leaves(&self) -> u64 {
        self.levels.first().copied().unwrap_or(1)
    }

    /// Number of the node that is this leaf.
    pub(super) fn leaf_node(&self, leaf: u64) -> u64 {
        if self.levels.is_empty() { 0 } else { self.first_of(0) + leaf }
    }

    /// The node that lists a node, and the position in its list; `None` for the root.
    pub(super) fn parent_of(&self, node: u64) -> Option<(u64, u64)> {
        let level = (0..self.levels.len()).find(|level| node >= self.first_of(*level))?;
        let index = node - self.first_of(level);
        let above = level + 1;
        if above == self.levels.len() {
            return Some((0, index));
        }
        Some((self.first_of(above) + index / self.fanout, index % self.fanout))
    }

    /// Number of digests in the root.
    pub(super) fn root_digests(&self) -> u64 {
        self.levels.last().copied().unwrap_or(self.segments)
    }

    /// Number of digests in a node.
    pub(super) fn digests_of(&self, node: u64) -> u64 {
        for (level, count) in self.levels.iter().enumerate() {
            let first = self.first_of(level);
            if node >= first {
                let below = match level.checked_sub(1) {
                    Some(below) => self.levels[below],
                    None => self.segments,
                };
                debug_assert!(node - first < *count);
                return below.saturating_sub((node - first) * self.fanout).min(self.fanout);
            }
        }
        self.root_digests()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nodes_list_all_nodes_and_segments(segments in 1_u64..5000, fanout in 2_u64..40) {
            let tree = Tree::new(segments, fanout).unwrap();
            let listed: u64 = (0..tree.nodes()).map(|node| tree.digests_of(node)).sum();
            prop_assert_eq!(listed, tree.nodes() - 1 + segments);
            prop_assert!((0..tree.nodes()).all(|node| (1..=fanout).contains(&tree.digests_of(node))));
            // A node is listed before its own position.
            let mut known = 0;
            for node in 0..tree.nodes() {
                prop_assert!(node <= known);
                known += tree.digests_of(node);
            }
            // The parent's list is the part of the sequence that has the node.
            let mut listed_before = 0;
            for parent in 0..tree.nodes() {
                for index in 0..tree.digests_of(parent) {
                    let node = listed_before + index + 1;
                    if node < tree.nodes() {
                        prop_assert_eq!(tree.parent_of(node), Some((parent, index)));
                    } else {
                        let segment = node - tree.nodes();
                        prop_assert_eq!(tree.leaf_node(segment / fanout), parent);
                        prop_assert_eq!(segment % fanout, index);
                    }
                }
                listed_before += tree.digests_of(parent);
            }
            prop_assert_eq!(tree.parent_of(0), None);
        }
    }

    #[test]
    fn impossible_trees_are_rejected() {
        for (segments, fanout) in [(0, 10), (10, 1), (10, 0), (u64::MAX, 256), (10, u64::MAX)] {
            assert_eq!(Tree::new(segments, fanout), None);
        }
        assert_eq!(Tree::new(1, 2).unwrap().nodes(), 1);
        assert_eq!(Tree::new(131_072, 252).unwrap().levels, [521, 3]);
    }
}
