//! What one shard remembers.

use std::sync::Arc;

use ndn_packet::MAX_PACKET_SIZE;
use ndn_table::{DeadNonceList, NameHasher, Pcct, TimerWheel};

use crate::strategy::Measurements;
use crate::{Counters, FaceTable, UnsolicitedPolicy};

/// The tables of a shard: everything that its pipelines and strategies read and write, except for
/// the FIB, which the control thread owns.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Number of the shard, as in the PIT tokens that it originates.
    pub(crate) shard: u8,
    pub(crate) hasher: NameHasher,
    pub(crate) pcct: Pcct,
    pub(crate) dead_nonces: DeadNonceList,
    pub(crate) dead_nonce_lifetime_ms: u64,
    pub(crate) faces: FaceTable,
    pub(crate) unsolicited: UnsolicitedPolicy,
    /// Timers of strategies: the PIT entry by its token.
    pub(crate) strategy_timers: TimerWheel,
    pub(crate) measurements: Measurements,
    pub(crate) counters: Arc<Counters>,
    /// Where an Interest is copied to be changed into a Nack.
    pub(crate) scratch: Box<[u8; MAX_PACKET_SIZE]>,
    /// Where an Interest is copied that a timer sends again.
    pub(crate) timer_scratch: Vec<u8>,
}
