//! The scarce tables of a shard, which its ledger divides between principals.
//!
//! The tables charge and give back themselves, so a place cannot be freed without its charge. A
//! place is charged to the principal of the downstream whose Interest took it.

use ndn_types::Resources;

/// The places of the tables of a shard that each principal holds.
pub type Ledger = ndn_types::Ledger<Resource, { Resource::COUNT }>;
/// The contents of a [`Ledger`] at one moment.
pub type LedgerReport = ndn_types::LedgerReport<{ Resource::COUNT }>;
/// The entry of one principal in a [`LedgerReport`].
pub type PrincipalReport = ndn_types::PrincipalReport<{ Resource::COUNT }>;

/// A scarce table of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Resource {
    /// PIT entries. An entry is charged to the principal of its first in-record.
    Entries,
    /// In-records beyond the first of their entry, charged to the principal of the downstream.
    InRecords,
    /// Out-records beyond the first of their entry, charged to the principal of the entry.
    OutRecords,
    /// PIT tokens that are too long for their in-record.
    LongTokens,
    /// Memory for Interests that are too long for their entry, in blocks of
    /// [`LONG_BLOCK_BYTES`](Self::LONG_BLOCK_BYTES).
    LongBlocks,
    /// Places in the table of short-prefix Interests.
    ShortPrefixes,
}

impl Resource {
    /// Number of resources.
    pub const COUNT: usize = 6;
    /// Unit of [`Self::LongBlocks`], bytes.
    pub const LONG_BLOCK_BYTES: usize = 64;
}

impl Resources<{ Resource::COUNT }> for Resource {
    const ALL: [Self; Self::COUNT] = [
        Self::Entries,
        Self::InRecords,
        Self::OutRecords,
        Self::LongTokens,
        Self::LongBlocks,
        Self::ShortPrefixes,
    ];

    #[inline]
    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Self::Entries => "pit_entries",
            Self::InRecords => "further_in_records",
            Self::OutRecords => "further_out_records",
            Self::LongTokens => "long_pit_tokens",
            Self::LongBlocks => "long_interest_blocks",
            Self::ShortPrefixes => "short_prefix_interests",
        }
    }
}
