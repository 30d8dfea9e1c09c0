//! FIB entry of a name prefix.

use std::fmt;
use std::sync::Arc;

use ndn_packet::NameRef;

use crate::FaceIndex;

/// Prefixes up to this many bytes are stored in the entry.
const INLINE_PREFIX_LENGTH: usize = 46;

/// Next hops that are stored in the entry.
const INLINE_NEXT_HOPS: usize = 3;

/// Number of a strategy instance (a strategy with its parameters) in the forwarder's registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StrategyId(pub u32);

/// A next hop of a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextHop {
    /// The upstream face.
    pub face: FaceIndex,
    /// Its cost; smaller is better.
    pub cost: u64,
}

/// Position of an entry in a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FibSlot(pub(super) u32);

impl FibSlot {
    /// The entry of `/`.
    pub const ROOT: Self = Self(0);

    /// As an array index: below the largest number of entries the FIB has ever had.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A name prefix with its own next hops or strategy choice; the part it does not set is filled in
/// from shorter prefixes.
///
/// A marker (a virtual entry that only directs the search) is of this type too, but no search ends
/// at one.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct FibEntry {
    // First line: read at the end of a search.
    prefix: Prefix,
    pub(super) slot: FibSlot,
    /// The result of a search that ends here: this entry, or for a marker the longest real entry
    /// above it.
    pub(super) best: FibSlot,
    generation: u32,
    pub(super) depth: u8,
    next_hops_depth: u8,
    // Second line: the result of the lookup.
    pub(super) next_hops: NextHops,
    strategy: StrategyId,
}

#[derive(Clone)]
enum Prefix {
    Inline(u8, [u8; INLINE_PREFIX_LENGTH]),
    Shared(Arc<[u8]>),
}

#[derive(Clone)]
pub(super) enum NextHops {
    Inline(u8, [NextHop; INLINE_NEXT_HOPS]),
    Shared(Arc<[NextHop]>),
}

const _: () = assert!(size_of::<FibEntry>() == 128);
const _: () = assert!(std::mem::offset_of!(FibEntry, next_hops) == 64);

impl FibEntry {
    /// A slot without an entry.
    pub(super) const VACANT: Self = Self {
        prefix: Prefix::Inline(0, [0; INLINE_PREFIX_LENGTH]),
        next_hops: NextHops::Inline(
            0,
            [NextHop { face: FaceIndex::from_bits(0), cost: 0 }; INLINE_NEXT_HOPS],
        ),
        strategy: StrategyId(0),
        generation: 0,
        slot: FibSlot(0),
        best: FibSlot(0),
        depth: 0,
        next_hops_depth: 0,
    };

    /// Reuses this slot for another prefix, with a new generation.
    pub(super) fn reset(&mut self, slot: FibSlot, prefix: NameRef<'_>) {
        let value = prefix.value();
        let mut inline = [0; INLINE_PREFIX_LENGTH];
        self.prefix = match (inline.get_mut(..value.len()), u8::try_from(value.len())) {
            (Some(target), Ok(length)) => {
                target.copy_from_slice(value);
                Prefix::Inline(length, inline)
            }
            _ => Prefix::Shared(value.into()),
        };
        self.set_next_hops(&[], 0);
        self.generation = self.generation.wrapping_add(1);
        self.slot = slot;
        self.depth = u8::try_from(prefix.len()).unwrap_or(u8::MAX);
    }

    pub(super) fn set_next_hops(&mut self, next_hops: &[NextHop], depth: u8) {
        let mut inline = [NextHop::default(); INLINE_NEXT_HOPS];
        self.next_hops = match (inline.get_mut(..next_hops.len()), u8::try_from(next_hops.len())) {
            (Some(target), Ok(count)) => {
                target.copy_from_slice(next_hops);
                NextHops::Inline(count, inline)
            }
            _ => NextHops::Shared(next_hops.into()),
        };
        self.next_hops_depth = depth;
    }

    pub(super) fn set_strategy(&mut self, strategy: StrategyId) {
        self.strategy = strategy;
    }

    /// Value of the prefix's Name TLV.
    #[inline]
    pub(super) fn prefix_value(&self) -> &[u8] {
        match &self.prefix {
            Prefix::Inline(length, bytes) => &bytes[..usize::from(*length)],
            Prefix::Shared(bytes) => bytes,
        }
    }

    /// The name prefix.
    #[must_use]
    pub fn prefix(&self) -> NameRef<'_> {
        NameRef::from_validated(self.prefix_value(), u16::from(self.depth))
    }

    /// Next hops of the longest prefix that has any, sorted by cost; empty when
    /// not even `/` has.
    #[must_use]
    #[inline]
    pub fn next_hops(&self) -> &[NextHop] {
        match &self.next_hops {
            NextHops::Inline(count, next_hops) => &next_hops[..usize::from(*count)],
            NextHops::Shared(next_hops) => next_hops,
        }
    }

    /// The first of the next hops.
    #[must_use]
    #[inline(always)]
    pub fn cheapest_next_hop(&self) -> Option<NextHop> {
        match &self.next_hops {
            NextHops::Inline(0, _) => None,
            NextHops::Inline(_, [first, ..]) => Some(*first),
            NextHops::Shared(next_hops) => next_hops.first().copied(),
        }
    }

    /// Number of components of the prefix that sets the next hops: the entry's own, or fewer when
    /// they are inherited.
    #[must_use]
    pub fn next_hops_depth(&self) -> usize {
        usize::from(self.next_hops_depth)
    }

    /// The strategy chosen for the longest prefix that has a choice.
    #[must_use]
    #[inline]
    pub fn strategy(&self) -> StrategyId {
        self.strategy
    }

    /// Slot of the entry. It is stable in all later snapshots while the entry exists.
    #[must_use]
    #[inline]
    pub fn slot(&self) -> FibSlot {
        self.slot
    }

    /// Distinguishes this entry from earlier ones in the same slot: a shard that keeps state by
    /// slot resets it when the generation differs.
    #[must_use]
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(length, bytes) => bytes[..usize::from(*length)].fmt(f),
            Self::Shared(bytes) => bytes.fmt(f),
        }
    }
}

impl fmt::Debug for NextHops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(count, next_hops) => next_hops[..usize::from(*count)].fmt(f),
            Self::Shared(next_hops) => next_hops.fmt(f),
        }
    }
}
