//! A worker whose service times are measured.

use std::sync::Arc;

use ndn_forwarding::{Burst, Ingress, LpFields, RxFace, ServiceTimer, Shard, TxSink};
use ndn_ring::{FillBlock, PacketPool};
use ndn_table::Timestamp;

use super::Worker;
use crate::exchange::RoutedSink;

/// The timer, if the burst that is being received is measured.
#[inline]
pub(super) fn measuring(timer: &mut Option<Box<ServiceTimer>>) -> Option<&mut ServiceTimer> {
    timer.as_deref_mut().filter(|timer| timer.is_measuring())
}

/// Parses the packet at the front of `block` into the burst.
#[cold]
#[inline(never)]
pub(super) fn receive(
    timer: &mut ServiceTimer,
    ingress: &mut Ingress,
    burst: &mut Burst,
    pool: &PacketPool,
    (block, length): (&mut FillBlock, usize),
    fields: &LpFields,
    face: &RxFace,
) {
    let (index, begin_ns) = (burst.len(), timer.now_ns());
    // What is dropped is counted by the ingress.
    if ingress.push(burst, pool, block, length, fields, face).is_ok() {
        timer.received(index, begin_ns);
    }
}

/// Takes a burst through the shard, and releases it.
#[cold]
#[inline(never)]
pub(super) fn forward(
    timer: &mut ServiceTimer,
    now: Timestamp,
    shard: &mut Shard,
    burst: &mut Burst,
    pool: &PacketPool,
    sink: &mut impl TxSink,
) {
    timer.begin();
    shard.process_burst_timed(now, burst, pool, sink, timer);
    burst.release(pool);
    shard.end_burst();
    timer.finish_forwarding();
}

impl Worker {
    /// Measures service times from now on, or no more.
    pub(super) fn trace(&mut self, is_on: bool) {
        let Self { clock, service_times, .. } = &*self;
        self.timer = is_on.then(|| {
            let clock = clock.clone();
            Box::new(ServiceTimer::new(Arc::clone(service_times), move || clock.now_ns()))
        });
    }

    /// Takes the burst through the shard while service times are measured: this one, or others.
    #[cold]
    #[inline(never)]
    pub(super) fn forward_traced(&mut self, now: Timestamp) {
        let count = self.burst.len();
        let Some(timer) = &mut self.timer else { return };
        let is_measured = timer.is_measuring();
        if is_measured {
            timer.begin();
            if let Some(crew) = &self.crew {
                crew.dispatcher.prefetch(&self.burst);
            }
            for index in 0..count {
                let kind = self.burst.kind(index);
                if let Some(crew) = &mut self.crew {
                    crew.dispatch_one(&mut self.burst, index, &self.pool);
                }
                timer.lap(index, kind);
            }
            timer.finish_dispatch();
        } else if let Some(crew) = &mut self.crew {
            crew.dispatch(&mut self.burst, &self.pool);
        }
        let mut sink = RoutedSink {
            faces: self.faces.sink(now, &self.pool),
            outbound: self.crew.as_mut().map(|crew| &mut crew.exchange.outbound),
            pool: &self.pool,
        };
        if is_measured {
            forward(timer, now, &mut self.shard, &mut self.burst, &self.pool, &mut sink);
        } else {
            self.shard.process_burst(now, &mut self.burst, &self.pool, &mut sink);
            self.burst.release(&self.pool);
            self.shard.end_burst();
        }
        timer.next_burst(now);
        self.count_forwarded(now, count);
    }
}
