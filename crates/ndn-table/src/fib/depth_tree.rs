//! The order in which prefix lengths are tried: binary search over the lengths 1 to 32.
//!
//! Waldvogel, Varghese, Turner and Plattner, "Scalable High Speed IP Routing Lookups" (SIGCOMM
//! 1997), with name components in the place of address bits.

use crate::PREFIX_HASHES_MAX;

/// Longest prefix that the FIB accepts, in components (NFD refuses longer ones with status 414).
pub(crate) const FIB_DEPTH_MAX: usize = 32;

/// A position in the binary search: the length to try next.
///
/// Lengths 1 to 31 form a complete binary tree of five levels with 16 at its root; 32 hangs below
/// 31, so that only where prefixes of 32 components exist a search can take a sixth step.
#[derive(Clone, Copy, Debug)]
pub(super) struct DepthSearch {
    depth: u8,
    step: u8,
}

impl DepthSearch {
    pub(super) const START: Self = Self { depth: 16, step: 8 };
    pub(super) const OVER: Self = Self { depth: 0, step: 0 };

    /// The length to try, 0 when the search is over.
    #[inline(always)]
    pub(super) fn depth(self) -> usize {
        usize::from(self.depth)
    }

    /// [`Self::depth`], as stored in an entry.
    #[inline(always)]
    pub(super) fn entry_depth(self) -> u8 {
        self.depth
    }

    /// After a hit whose reference says that longer prefixes exist.
    #[inline(always)]
    pub(super) fn longer(self) -> Self {
        match (self.depth, self.step) {
            (31, 0) => Self { depth: 32, step: 0 },
            (_, 0) => Self::OVER,
            (depth, step) => Self { depth: depth + step, step: step / 2 },
        }
    }

    /// After a miss.
    #[inline(always)]
    pub(super) fn shorter(self) -> Self {
        if self.step == 0 || self.depth == 32 {
            return Self::OVER;
        }
        Self { depth: self.depth - self.step, step: self.step / 2 }
    }

    /// Advances to the next length that is in `depths` (one bit per length); lengths that are not
    /// count as misses. [`Self::depth`] is 0 when the search is over.
    #[inline(always)]
    pub(super) fn skip_to(mut self, depths: u64) -> Self {
        while self.depth != 0 && depths >> self.depth & 1 == 0 {
            self = self.shorter();
        }
        self
    }
}

/// The lengths in `depths` (one bit per length) that are worth trying for a name of `components`, at most [`FIB_DEPTH_MAX`].
#[inline(always)]
pub(super) fn depths_up_to(depths: u64, components: usize) -> u64 {
    depths & ((2 << components) - 1)
}

/// Where the search begins, by the number of components of the name, if these lengths have prefixes.
pub(super) fn first_probes(depths: u64) -> [DepthSearch; PREFIX_HASHES_MAX] {
    std::array::from_fn(|components| {
        let components = components.min(FIB_DEPTH_MAX);
        DepthSearch::START.skip_to(depths_up_to(depths, components))
    })
}

/// The lengths at which a prefix of `depth` components needs markers: those where the search for it
/// continues with longer ones.
pub(super) fn marker_depths(depth: usize) -> impl Iterator<Item = usize> {
    let mut search = DepthSearch::START;
    std::iter::from_fn(move || {
        while search.depth() != depth && search.depth() != 0 {
            let tried = search.depth();
            if tried < depth {
                search = search.longer();
                return Some(tried);
            }
            search = search.shorter();
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_reaches_every_depth_within_six_steps() {
        for depth in 1..=FIB_DEPTH_MAX {
            let mut search = DepthSearch::START;
            let mut steps = 1;
            while search.depth() != depth {
                assert_ne!(search.depth(), 0, "{depth} is never tried");
                search = if search.depth() < depth { search.longer() } else { search.shorter() };
                steps += 1;
            }
            assert!(steps <= if depth == 32 { 6 } else { 5 });
            assert!(marker_depths(depth).count() < steps);
        }
        assert_eq!(marker_depths(32).collect::<Vec<_>>(), [16, 24, 28, 30, 31]);
        assert_eq!(marker_depths(3).collect::<Vec<_>>(), [2]);
        assert_eq!(marker_depths(0).count(), 0);
    }

    #[test]
    fn lengths_without_prefixes_are_skipped() {
        assert_eq!(DepthSearch::START.skip_to(1 << 2).depth(), 2);
        assert_eq!(DepthSearch::START.skip_to(1 << 3).depth(), 0);
        assert_eq!(DepthSearch::START.skip_to(0).depth(), 0);
        assert_eq!(DepthSearch::START.skip_to(1 << 2).longer().skip_to(1 << 3).depth(), 3);
    }
}
