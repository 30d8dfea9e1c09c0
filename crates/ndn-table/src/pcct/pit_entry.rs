//! PIT entry: 256 bytes.

use ndn_types::{PrincipalIndex, Timestamp};

use super::interest_store::{StoredInterest, blocks_of};
use super::records::{InRecord, OutRecord, RecordList};
use crate::{Resource, Token};

/// Interests up to this many bytes are stored in the entry.
pub const PIT_INTEREST_INLINE_MAX: usize = 128;

/// Identifies a PIT entry until it is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PitIndex(pub(super) u32);

/// An Interest that was received and is not yet satisfied or expired.
///
/// Four cache lines: the fields that a lookup reads, the first records, and the Interest (two
/// lines, of which a short Interest uses one). Records, Interest and name are accessed through
/// [`Pcct`](crate::Pcct), which stores what does not fit.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct PitEntry {
    /// Hash under which the entry is indexed.
    pub(super) hash: u64,
    pub(super) expiry: Timestamp,
    /// Deadline of the earliest record of this slot in the timer wheel, `MAX` for none.
    pub(super) timer: Timestamp,
    /// For the strategy of this Interest; 0 in a new entry.
    pub strategy_state: u64,
    /// The number of the strategy that forwards this Interest; 0 in a new entry.
    pub strategy_id: u32,
    pub(super) stored: StoredInterest,
    pub(super) in_list: RecordList,
    pub(super) out_list: RecordList,
    pub(super) flags: PitFlags,
    pub(super) name_components: u8,
    pub(super) generation: u16,
    pub(super) wire_length: u16,
    pub(super) principal: PrincipalIndex,
    /// Number of timer records of this slot; kept when the slot is reused.
    pub(super) timer_count: u8,
    /// Second line.
    pub(super) in_first: InRecord,
    pub(super) out_first: OutRecord,
    /// Third and fourth line.
    pub(super) inline: [u8; PIT_INTEREST_INLINE_MAX],
}

const _: () =
    assert!(size_of::<PitEntry>() == 256 && std::mem::offset_of!(PitEntry, in_first) == 64);

/// Selectors of the Interest and state of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PitFlags(pub(super) u8);

impl PitFlags {
    pub(super) const CAN_BE_PREFIX: u8 = 1;
    pub(super) const MUST_BE_FRESH: u8 = 2;
    pub(super) const HAS_DIGEST: u8 = 4;
    pub(super) const IN_USE: u8 = 8;
    pub(super) const HELD: u8 = 16;
    pub(super) const LINGERING: u8 = 32;
    /// In the table of short-prefix Interests.
    pub(super) const PUBLISHED: u8 = 64;
    /// The bits that distinguish entries of one name.
    pub(super) const SELECTORS: u8 = Self::CAN_BE_PREFIX | Self::MUST_BE_FRESH | Self::HAS_DIGEST;

    #[inline(always)]
    pub(super) fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }
}

/// Life cycle of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PitPhase {
    /// Waiting for Data.
    Pending,
    /// Data has arrived and is held back for a while; the downstreams still wait.
    Held,
    /// Satisfied, and kept for late answers.
    Lingering,
}

impl PitEntry {
    pub(super) const EMPTY: Self = Self {
        hash: 0,
        expiry: Timestamp::MAX,
        timer: Timestamp::MAX,
        strategy_state: 0,
        strategy_id: 0,
        stored: StoredInterest::NONE,
        in_list: RecordList::EMPTY,
        out_list: RecordList::EMPTY,
        flags: PitFlags(0),
        name_components: 0,
        generation: 0,
        wire_length: 0,
        principal: PrincipalIndex::OTHER,
        timer_count: 0,
        in_first: InRecord::EMPTY,
        out_first: OutRecord::EMPTY,
        inline: [0; PIT_INTEREST_INLINE_MAX],
    };

    /// When the entry expires, [`Timestamp::MAX`] before the first
    /// [`Pcct::set_expiry`](crate::Pcct::set_expiry).
    #[must_use]
    pub fn expiry(&self) -> Timestamp {
        self.expiry
    }

    /// Phase of the entry; a new entry is [`PitPhase::Pending`].
    #[must_use]
    #[inline]
    pub fn phase(&self) -> PitPhase {
        match self.flags.0 & (PitFlags::HELD | PitFlags::LINGERING) {
            0 => PitPhase::Pending,
            PitFlags::HELD => PitPhase::Held,
            _ => PitPhase::Lingering,
        }
    }

    /// Sets the phase.
    #[inline]
    pub fn set_phase(&mut self, phase: PitPhase) {
        let bits = match phase {
            PitPhase::Pending => 0,
            PitPhase::Held => PitFlags::HELD,
            PitPhase::Lingering => PitFlags::LINGERING,
        };
        self.flags.0 = self.flags.0 & !(PitFlags::HELD | PitFlags::LINGERING) | bits;
    }

    /// Whether the Interest has CanBePrefix.
    #[must_use]
    pub fn can_be_prefix(&self) -> bool {
        self.flags.has(PitFlags::CAN_BE_PREFIX)
    }

    /// Whether the Interest has MustBeFresh.
    #[must_use]
    pub fn must_be_fresh(&self) -> bool {
        self.flags.has(PitFlags::MUST_BE_FRESH)
    }

    /// The principal that the entry is charged to: that of its first in-record, see
    /// [`Pcct::charge_to_latest`](crate::Pcct::charge_to_latest).
    #[must_use]
    #[inline]
    pub fn principal(&self) -> PrincipalIndex {
        self.principal
    }

    /// Whether the Interest is in the table of short-prefix Interests.
    #[must_use]
    #[inline]
    pub fn is_published(&self) -> bool {
        self.flags.has(PitFlags::PUBLISHED)
    }

    /// Whether it is pending for one downstream, was sent to one upstream at most, and holds nothing outside of itself: the
    /// usual case.
    #[must_use]
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        const OTHERS: u8 = !(PitFlags::IN_USE | PitFlags::MUST_BE_FRESH);
        self.flags.0 & OTHERS == 0
            && self.in_list.count == 1
            && self.out_list.count <= 1
            && self.stored == StoredInterest::NONE
            && !self.in_first.has_long_token()
    }

    /// Its only in-record, if it is plain (`is_plain`).
    #[must_use]
    #[inline(always)]
    pub fn only_in_record(&self) -> Option<&InRecord> {
        self.is_plain().then_some(&self.in_first)
    }

    /// Memory of an Interest that is stored outside the entry, in blocks of
    /// [`Resource::LONG_BLOCK_BYTES`](crate::Resource::LONG_BLOCK_BYTES); 0 for others.
    #[inline]
    pub(super) fn long_blocks(&self) -> u32 {
        if self.stored == StoredInterest::NONE {
            0
        } else {
            long_blocks(usize::from(self.wire_length))
        }
    }

    /// The places that its principal is charged for.
    pub fn charges(&self) -> impl Iterator<Item = (Resource, u32)> + use<> {
        let charges = [
            (Resource::Entries, 1),
            (Resource::LongBlocks, self.long_blocks()),
            (Resource::OutRecords, u32::from(self.out_list.count.saturating_sub(1))),
            (Resource::ShortPrefixes, u32::from(self.is_published())),
        ];
        charges.into_iter().filter(|(_, count)| *count > 0)
    }

    /// The token that identifies this entry, whose index is `index`, upstream.
    #[must_use]
    #[inline(always)]
    pub fn token(&self, index: PitIndex, shard: u8) -> Token {
        Token { shard, entry: index.0, generation: self.generation }
    }

    /// Number of in-records.
    #[must_use]
    #[inline]
    pub fn in_record_count(&self) -> usize {
        usize::from(self.in_list.count)
    }

    /// Number of out-records.
    #[must_use]
    #[inline]
    pub fn out_record_count(&self) -> usize {
        usize::from(self.out_list.count)
    }
}

/// Memory of an Interest of this length, in blocks of [`Resource::LONG_BLOCK_BYTES`](crate::Resource::LONG_BLOCK_BYTES); 0 if the
/// Interest is stored in its entry.
#[must_use]
pub fn long_blocks(wire_length: usize) -> u32 {
    if wire_length <= PIT_INTEREST_INLINE_MAX {
        return 0;
    }
    blocks_of(u16::try_from(wire_length).unwrap_or(u16::MAX))
}
