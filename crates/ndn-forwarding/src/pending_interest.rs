//! An Interest in the PIT, as strategies and the outgoing Interest pipeline see it.

use ndn_ring::PacketHandle;
use ndn_table::{FaceIndex, NextHop, PitIndex};

/// An Interest that a strategy may send.
#[derive(Debug, Clone, Copy)]
pub struct PendingInterest<'a> {
    /// The PIT entry.
    pub entry: PitIndex,
    /// The arrival face.
    pub face: FaceIndex,
    /// Next hops of the ForwardingHint or of the name, cheapest first.
    pub next_hops: &'a [NextHop],
    /// Number of components of the prefix that the strategy's measurements are kept for: that of the FIB prefix that the
    /// next hops come from. For those of a ForwardingHint, see `hinted_depth`.
    pub next_hops_depth: usize,
    /// Hashes of the prefixes of its name, the empty prefix first.
    pub prefix_hashes: &'a [u64],
    /// The network packet as it leaves.
    pub(crate) wire: &'a [u8],
    /// The pool buffer of the same bytes, if any.
    pub(crate) handle: Option<&'a PacketHandle>,
    /// Congestion mark; 0 for none.
    pub(crate) congestion_mark: u16,
    pub(crate) non_discovery: bool,
    pub(crate) nonce: u32,
    pub(crate) lifetime_ms: u32,
    /// HopLimit is present and 0.
    pub(crate) is_at_hop_limit: bool,
    /// Its scope permits local faces only: `/localhost`, or `/localhop` of another host.
    pub(crate) is_for_local: bool,
}

/// Components of the prefix for which the measurements of Interests with a ForwardingHint are kept. Data that comes back
/// names no hint, so it has to be a prefix of the name; it is not the empty one, so that unanswered Interests for one name
/// say nothing about the next hops of all others.
const HINTED_DEPTH: usize = 2;

/// Number of components of the prefix that measurements of a hinted Interest are kept for, by the hashes of the prefixes
/// of its name.
pub(crate) fn hinted_depth(prefix_hashes: &[u64]) -> usize {
    HINTED_DEPTH.min(prefix_hashes.len().saturating_sub(1))
}

impl PendingInterest<'_> {
    /// The hash of the FIB prefix, the key of the strategy's measurements.
    pub(crate) fn namespace(&self) -> u64 {
        self.prefix_hashes.get(self.next_hops_depth).copied().unwrap_or_default()
    }
}
