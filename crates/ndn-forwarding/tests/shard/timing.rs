//! Bursts whose packets are timed.

use std::sync::Arc;

use ndn_forwarding::{Burst, Observers, ServiceTimer, Shard};
use ndn_ring::PacketPool;
use ndn_types::Timestamp;

use crate::recorder::Recorder;

/// Measures every other burst: the sent packets must not change.
#[derive(Debug)]
pub struct Timing {
    timer: ServiceTimer,
    is_measured: bool,
}

impl Default for Timing {
    fn default() -> Self {
        let timer = ServiceTimer::new(Arc::default(), || 1_000_000_000);
        Self { timer, is_measured: false }
    }
}

impl Timing {
    pub fn process(
        &mut self,
        shard: &mut Shard,
        now: Timestamp,
        burst: &mut Burst,
        pool: &PacketPool,
        sent: &mut Recorder,
    ) {
        self.is_measured = !self.is_measured;
        if !self.is_measured {
            return shard.process_burst(now, burst, pool, sent);
        }
        self.timer.begin();
        let mut observers = Observers { timer: Some(&mut self.timer), tracer: None };
        shard.process_burst_observed(now, burst, pool, sent, &mut observers);
        self.timer.finish_forwarding();
    }
}
