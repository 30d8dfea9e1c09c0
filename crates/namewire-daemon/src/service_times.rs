//! Measurement of service times, enabled while at least one client requests it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ndn_dataplane::WorkerCounters;
use ndn_forwarding::ServiceTimes;
use ndn_sys::clock::Clock;

use namewire_control::{
    ServiceTimesBefore, ServiceTimesReport, ServiceTimesTrace, WorkerServiceTimes,
};
use ndn_types::Timestamp;

/// Switches the measurement on the workers.
#[derive(Debug, Clone)]
pub(super) struct TraceSwitch {
    /// Number of clients.
    users: Arc<Mutex<usize>>,
    switch: Switch,
    clock: Clock,
}

/// Starts and stops the measurement.
#[derive(Clone)]
struct Switch(Arc<dyn Fn(bool) + Send + Sync>);

impl fmt::Debug for Switch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Switch")
    }
}

/// Measurements and counters of one worker.
#[derive(Debug, Clone)]
pub(super) struct TracedWorker {
    pub(super) times: Arc<ServiceTimes>,
    pub(super) rounds: Arc<WorkerCounters>,
}

/// An active measurement; it ends on drop.
#[derive(Debug)]
struct Trace {
    switch: TraceSwitch,
    begin: Timestamp,
    workers: Vec<(TracedWorker, ServiceTimesBefore, (u64, u64))>,
}

impl TraceSwitch {
    pub(super) fn new(switch: impl Fn(bool) + Send + Sync + 'static, clock: Clock) -> Self {
        Self { users: Arc::default(), switch: Switch(Arc::new(switch)), clock }
    }

    /// Adds a client.
    pub(super) fn begin(
        &self,
        workers: impl Iterator<Item = TracedWorker>,
    ) -> Box<dyn ServiceTimesTrace> {
        let workers = workers.map(|worker| {
            let before = ServiceTimesBefore::of(&worker.times);
            let counts = worker.counts();
            (worker, before, counts)
        });
        let workers = workers.collect();
        self.count(|users| users + 1);
        Box::new(Trace { switch: self.clone(), begin: self.clock.now(), workers })
    }

    /// Changes the number of clients; notifies the workers at the first and after the last one.
    fn count(&self, change: impl Fn(usize) -> usize) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *users;
        *users = change(before);
        if (before == 0) != (*users == 0) {
            // Sent under the lock, so that the last message is the current state. If the control thread has ended, so
            // have the workers.
            (self.switch.0)(*users > 0);
        }
    }
}

impl TracedWorker {
    fn counts(&self) -> (u64, u64) {
        (self.rounds.bursts.value(), self.rounds.packets.value())
    }
}

impl ServiceTimesTrace for Trace {
    fn report(&self) -> ServiceTimesReport {
        let report = |(worker, before, counts): &(TracedWorker, ServiceTimesBefore, (u64, u64))| {
            let (bursts, packets) = worker.counts();
            let (bursts, packets) = (bursts - counts.0, packets - counts.1);
            before.until_now(&worker.times, bursts, packets)
        };
        let workers: Vec<WorkerServiceTimes> = self.workers.iter().map(report).collect();
        ServiceTimesReport { nanoseconds: self.switch.clock.now().nanos_since(self.begin), workers }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.switch.count(|users| users - 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use ndn_forwarding::{PacketKind, ServiceTimer};

    use super::*;
    use crate::environment::Environment;

    #[test]
    fn workers_measure_while_a_client_exists() {
        let (sender, requests) = channel();
        let switch =
            TraceSwitch::new(move |is_on| sender.send(is_on).unwrap(), Environment::system().clock);
        let worker = TracedWorker { times: Arc::default(), rounds: Arc::default() };
        let mut timer = ServiceTimer::new(Arc::clone(&worker.times), || 0);
        let mut measure = || {
            timer.begin();
            timer.lap(0, PacketKind::Interest);
            timer.finish_forwarding();
            worker.rounds.bursts.increment();
        };
        measure();
        let first = switch.begin(std::iter::once(worker.clone()));
        measure();
        let second = switch.begin(std::iter::once(worker.clone()));
        measure();
        let count = |trace: &dyn ServiceTimesTrace| {
            let [worker] = &trace.report().workers[..] else { panic!("one worker") };
            (worker.interest_forwarding.count, worker.bursts)
        };
        assert_eq!((count(&*first), count(&*second)), ((2, 2), (1, 1)));
        drop(first);
        assert_eq!(requests.try_recv(), Ok(true));
        assert!(requests.try_recv().is_err(), "another one is there");
        drop(second);
        assert_eq!(requests.try_recv(), Ok(false));
    }
}
