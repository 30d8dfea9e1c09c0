//! Observation of bursts: how long packets take in dispatch and in the shard, and what the shard decides about them.

use std::sync::Arc;

use ndn_forwarding::{Burst, Observers, PacketTracer, ServiceTimer, ServiceTimes};
use ndn_ring::PacketPool;
use ndn_sys::clock::Clock;
use ndn_types::Timestamp;

use super::inter_worker::Dispatch;

/// The observation of the bursts of one worker: their service times, and the decisions about their packets.
#[derive(Debug)]
pub(crate) struct ServiceMeter {
    times: Arc<ServiceTimes>,
    /// While an operator observes.
    active: Option<Box<Active>>,
}

/// At least one of these is present.
#[derive(Debug, Default)]
struct Active {
    timer: Option<ServiceTimer>,
    tracer: Option<PacketTracer>,
}

impl ServiceMeter {
    pub(crate) fn new(times: Arc<ServiceTimes>) -> Self {
        Self { times, active: None }
    }

    /// Starts or stops measuring.
    pub(super) fn set_enabled(&mut self, is_enabled: bool, clock: &Clock) {
        let timer = is_enabled.then(|| {
            let clock = clock.clone();
            ServiceTimer::new(Arc::clone(&self.times), move || clock.now().as_nanos())
        });
        self.change(|active| active.timer = timer);
    }

    /// Starts or stops the trace of decisions.
    pub(super) fn set_tracer(&mut self, tracer: Option<PacketTracer>) {
        self.change(|active| active.tracer = tracer);
    }

    fn change(&mut self, change: impl FnOnce(&mut Active)) {
        let mut active = self.active.take().unwrap_or_default();
        change(&mut active);
        self.active = Some(active).filter(|one| one.timer.is_some() || one.tracer.is_some());
    }

    /// The timer, if the burst that is being received is measured.
    #[inline]
    pub(super) fn receiving(&mut self) -> Option<&mut ServiceTimer> {
        self.active.as_deref_mut()?.timer.as_mut().filter(|timer| timer.is_measuring())
    }

    /// The observers of a burst in the shard, if there are any: of one that this worker has received, or of one that
    /// `is_crossed`, because other workers have received it.
    #[inline]
    pub(super) fn observers(&mut self, now: Timestamp, is_crossed: bool) -> Option<Observers<'_>> {
        let Active { timer, tracer } = self.active.as_deref_mut()?;
        let is_measured = |timer: &mut ServiceTimer| match is_crossed {
            true => timer.choose(now),
            false => timer.is_measuring(),
        };
        let timer = timer.as_mut().and_then(|timer| is_measured(timer).then_some(timer));
        let observers = Observers { timer, tracer: tracer.as_mut() };
        (observers.timer.is_some() || observers.tracer.is_some()).then_some(observers)
    }

    /// Decides whether the burst that is received next is measured.
    #[inline]
    pub(super) fn next_burst(&mut self, now: Timestamp) {
        if let Some(timer) = self.active.as_deref_mut().and_then(|active| active.timer.as_mut()) {
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
