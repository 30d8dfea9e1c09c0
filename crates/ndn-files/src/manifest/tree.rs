//! The tree of digests: how many nodes, and how they are numbered.

/// Most digests in one node; more do not fit a packet.
pub(super) const FANOUT_MAX: u64 = 1024;
/// Most segments of a version; a client holds 32 bytes for each.
pub(super) const SEGMENTS_MAX: u64 = 1 << 26;

/// A tree whose leaves list `segments` digests, each node `fanout` of them at most.
///
/// Node 0 is the root; then follow the levels from the top down, each from left to right. So the
/// digests that the nodes list, one node after the other, are those of the nodes 1, 2, 3, …, and then
/// those of the segments 0, 1, 2, ….
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) segments: u64,
    pub(super) fanout: u64,
    /// Nodes of each level below the root, from the leaves up.
    pub(super) levels: Vec<u64>,
}

impl Tree {
    /// `None` for a tree that there cannot be.
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

    /// Nodes, with the root.
    pub(super) fn nodes(&self) -> u64 {
        1 + self.levels.iter().sum::<u64>()
    }

    /// Number of the first node of a level.
    pub(super) fn first_of(&self, level: usize) -> u64 {
        1 + self.levels.iter().skip(level + 1).sum::<u64>()
    }

    /// Digests that the root lists.
    pub(super) fn root_digests(&self) -> u64 {
        self.levels.last().copied().unwrap_or(self.segments)
    }

    /// Digests that a node lists.
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
        fn the_nodes_list_each_other_and_all_segments(segments in 1_u64..5000, fanout in 2_u64..40) {
            let tree = Tree::new(segments, fanout).unwrap();
            let listed: u64 = (0..tree.nodes()).map(|node| tree.digests_of(node)).sum();
            prop_assert_eq!(listed, tree.nodes() - 1 + segments);
            prop_assert!((0..tree.nodes()).all(|node| (1..=fanout).contains(&tree.digests_of(node))));
            // A node is listed before it comes itself.
            let mut known = 0;
            for node in 0..tree.nodes() {
                prop_assert!(node <= known);
                known += tree.digests_of(node);
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (segments, fanout) in [(0, 10), (10, 1), (10, 0), (u64::MAX, 256), (10, u64::MAX)] {
            assert_eq!(Tree::new(segments, fanout), None);
        }
        assert_eq!(Tree::new(1, 2).unwrap().nodes(), 1);
        assert_eq!(Tree::new(131_072, 252).unwrap().levels, [521, 3]);
    }
}
