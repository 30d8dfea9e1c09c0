//! What the FIB knows about a name prefix.

use std::fmt;
use std::sync::Arc;

use ndn_packet::NameRef;

use crate::FaceIndex;

/// Prefixes up to this many bytes lie in the entry itself.
const INLINE_PREFIX_LENGTH: usize = 46;

/// Next hops that lie in the entry itself.
const INLINE_NEXT_HOPS: usize = 3;

/// Number of a strategy instance (a strategy with its parameters) in the forwarder's registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StrategyId(pub u32);

/// A face that leads towards the producers of a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextHop {
    /// The face.
    pub face: FaceIndex,
    /// Its cost; smaller is better.
    pub cost: u64,
}

/// Place of an entry in a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FibSlot(pub(super) u32);

impl FibSlot {
    /// The entry of `/`.
    pub const ROOT: Self = Self(0);

    /// As an array index: below the number of entries the FIB ever had at once.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A name prefix that has next hops or a strategy choice of its own, with what it inherits from
/// shorter prefixes already filled in.
///
/// A pure marker (a prefix that only directs the search) is of this type too, but a search never
/// ends at one.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct FibEntry {
    // First line: what the end of a search compares.
    prefix: Prefix,
    pub(super) slot: FibSlot,
    /// The entry that a search which ends here means: this one, or for a marker the longest real
    /// one above it.
    pub(super) best: FibSlot,
    generation: u32,
    pub(super) depth: u8,
    next_hops_depth: u8,
    // Second line: what it is looked up for.
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
    /// A place without an entry.
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

    /// Starts a new life of this place, for another prefix.
    pub(super) fn reset(&mut self, slot: FibSlot, prefix: NameRef<'_>) {
        let value = prefix.value();
        let mut inline = [0; INLINE_PREFIX_LENGTH];
        self.prefix = match (inline.get_mut(..value.len()), u8::try_from(value.len())) {
            (Some(place), Ok(length)) => {
                place.copy_from_slice(value);
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
            (Some(place), Ok(count)) => {
                place.copy_from_slice(next_hops);
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

    /// Next hops of the longest prefix that has any, sorted by cost and then by face; empty when
    /// not even `/` has.
    #[must_use]
    #[inline]
    pub fn next_hops(&self) -> &[NextHop] {
        match &self.next_hops {
            NextHops::Inline(count, next_hops) => &next_hops[..usize::from(*count)],
            NextHops::Shared(next_hops) => next_hops,
        }
    }

    /// Number of components of the prefix that the next hops come from: that of the entry itself,
    /// or less when they are inherited.
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

    /// Place of the entry. It stays the same as long as the entry exists, in all later snapshots.
    #[must_use]
    #[inline]
    pub fn slot(&self) -> FibSlot {
        self.slot
    }

    /// Tells this entry from earlier ones in the same place: a shard that keeps state by slot
    /// compares it and starts over when it differs.
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
