//! Measurement of service times: how long packets take in dispatch and in the shard.

use std::sync::Arc;

use ndn_forwarding::{Burst, ServiceTimer, ServiceTimes};
use ndn_ring::PacketPool;
use ndn_sys::clock::Clock;
use ndn_table::Timestamp;

use super::inter_worker::Dispatch;

/// The service times of one worker, and the timer while an operator traces them.
#[derive(Debug)]
pub(crate) struct ServiceMeter {
    times: Arc<ServiceTimes>,
    timer: Option<Box<ServiceTimer>>,
}

impl ServiceMeter {
    pub(crate) fn new(times: Arc<ServiceTimes>) -> Self {
        Self { times, timer: None }
    }

    /// Starts or stops measuring.
    pub(super) fn set_enabled(&mut self, is_enabled: bool, clock: &Clock) {
        self.timer = is_enabled.then(|| {
            let clock = clock.clone();
            Box::new(ServiceTimer::new(Arc::clone(&self.times), move || clock.now_ns()))
        });
    }

    /// The timer, if the burst that is being received is measured.
    #[inline]
    pub(super) fn receiving(&mut self) -> Option<&mut ServiceTimer> {
        self.timer.as_deref_mut().filter(|timer| timer.is_measuring())
    }

    /// The timer, if a burst that other workers have received is to be measured.
    #[inline]
    pub(super) fn choose_crossed(&mut self, now: Timestamp) -> Option<&mut ServiceTimer> {
        self.timer.as_deref_mut().and_then(|timer| timer.choose(now).then_some(timer))
    }

    /// Decides whether the burst that is received next is measured.
    #[inline]
    pub(super) fn next_burst(&mut self, now: Timestamp) {
        if let Some(timer) = &mut self.timer {
            timer.next_burst(now);
        }
    }
}

/// Dispatches a burst and measures it. Without other workers, what is measured is the reception alone.
#[cold]
#[inline(never)]
pub(super) fn dispatch_measured(
    timer: &mut ServiceTimer,
    burst: &mut Burst,
    mut dispatch: Option<&mut Dispatch<'_>>,
    pool: &PacketPool,
) {
    timer.begin();
    if let Some(dispatch) = &dispatch {
        dispatch.dispatcher.prefetch(burst);
    }
    for index in 0..burst.len() {
        let kind = burst.kind(index);
        if let Some(dispatch) = &mut dispatch {
            dispatch.packet(burst, index, pool);
        }
        timer.lap(index, kind);
    }
    timer.finish_dispatch();
}
