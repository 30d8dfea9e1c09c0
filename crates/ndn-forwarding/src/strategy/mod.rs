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
mod registry;
mod retransmission;
mod rtt;
mod self_learning;
mod spread;
mod strategy_ref;
#[cfg(feature = "vip")]
mod vip;

use std::fmt::Debug;

use ndn_packet::NackReason;
use ndn_table::{FaceIndex, PitIndex};

use crate::packet::RxPacket;

pub use crate::pending_interest::PendingInterest;
pub(crate) use best_route::BestRoute;
pub use context::Context;
pub(crate) use context::{DIRECTED, other_nonce};
pub use measurements::Measurements;
pub use parameters::ParameterError;
pub use registry::{KnownStrategy, StrategyError, StrategyTable, known_strategies};

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
    fn before_satisfy(&self, _: &mut Context<'_>, _entry: PitIndex, _: &RxPacket<'_>) {}

    /// An upstream returned a Nack for the Interest of `entry`, recorded in its out-record. If no
    /// upstream is pending after this call, the entry ends.
    fn after_receive_nack(&self, _: &mut Context<'_>, _entry: PitIndex, _: &ArrivedNack) {}

    /// The time set with [`Context::set_timer`] has come, and the entry is still pending.
    /// `interest` is that of the first downstream that is still waiting.
    fn on_timer(&self, _: &mut Context<'_>, _interest: &PendingInterest<'_>) {}
}
