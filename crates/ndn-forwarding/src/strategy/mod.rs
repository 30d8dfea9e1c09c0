//! Forwarding strategies: where to send an Interest, and how to react to a Nack.
//!
//! A [`Strategy`] holds parameters only, and one instance serves all shards. Its state is in the
//! tables of the shard: a few words per PIT entry and out-record, and [`Measurements`] by name
//! prefix.

mod access;
mod asf;
mod best_route;
mod context;
#[cfg(feature = "planted-faults")]
mod forgetful;
mod measurements;
mod multicast;
mod nack;
mod parameters;
mod probe;
mod registry;
mod retransmission;
mod rtt;
mod self_learning;
mod spread;

use std::fmt::Debug;
use std::sync::Arc;

use ndn_packet::NackReason;
use ndn_table::{FaceIndex, NextHop, PitIndex};

use crate::TxPacket;
use crate::packet::RxPacket;

pub use context::Context;
pub(crate) use context::DIRECTED;
pub use measurements::Measurements;
pub use parameters::ParameterError;
pub(crate) use probe::other_nonce;
pub use registry::{KnownStrategy, StrategyError, StrategyTable, known_strategies};

/// An instance shared by all shards.
pub(crate) type StrategyRef = Arc<dyn Strategy>;

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
    /// The Interest as it leaves, without PIT token and IncomingFaceId.
    pub(crate) packet: TxPacket<'a>,
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
    fn namespace(&self) -> u64 {
        self.prefix_hashes.get(self.next_hops_depth).copied().unwrap_or_default()
    }
}

/// A Data that satisfies a PIT entry.
#[derive(Debug, Clone, Copy)]
pub struct ArrivedData<'a> {
    /// The arrival face.
    pub face: FaceIndex,
    /// Hashes of the prefixes of its name, the empty prefix first.
    pub prefix_hashes: &'a [u64],
    pub(crate) rx: &'a RxPacket<'a>,
}

/// A Nack that matches an out-record of a PIT entry.
#[derive(Debug, Clone, Copy)]
pub struct ArrivedNack {
    /// The arrival face.
    pub face: FaceIndex,
    /// Its reason.
    pub reason: NackReason,
    pub(crate) congestion_mark: u16,
}

/// A forwarding strategy. See the NFD developer's guide, "Forwarding Strategy".
pub trait Strategy: Debug + Send + Sync {
    /// An Interest missed the CS: a new one, one from a further downstream, or a retransmission.
    /// Its in-record has been inserted.
    fn after_receive_interest(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>);

    /// Data is about to satisfy `entry`; all its records still exist.
    fn before_satisfy(&self, _: &mut Context<'_>, _entry: PitIndex, _: &ArrivedData<'_>) {}

    /// An upstream returned a Nack for the Interest of `entry`, recorded in its out-record. If no
    /// upstream is pending, the entry ends after this call.
    fn after_receive_nack(&self, _: &mut Context<'_>, _entry: PitIndex, _: &ArrivedNack) {}

    /// The time set with [`Context::set_timer`] has come, and the entry is still pending.
    /// `interest` is the Interest from the face for which the timer was set.
    fn on_timer(&self, _: &mut Context<'_>, _interest: &PendingInterest<'_>) {}
}
