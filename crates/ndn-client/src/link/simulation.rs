//! Fetches that share a link, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Passage, SimulatedLink, SimulatedLinkOptions};
use crate::fetch::{FetchConfig, FetchProgress, FetchState};

/// A fetch that lasts for the whole simulation.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedFlow {
    /// Configuration of the fetch.
    pub config: FetchConfig,
    /// When it starts.
    pub start: Duration,
    /// Delay of its Interests to the producer: they are small and do not queue.
    pub delay: Duration,
}

/// Result of a flow.
#[derive(Debug, Clone, Copy)]
pub struct FlowResult {
    /// Segments since the beginning of the measurement, each counted once.
    pub segments: u64,
    /// Counters at the end.
    pub progress: FetchProgress,
}

/// Result of a simulation.
#[derive(Debug, Clone)]
pub struct SimulationResult {
    /// By flow.
    pub flows: Vec<FlowResult>,
    /// Queueing times of packets during the measurement, ascending.
    pub queue_delays: Vec<Duration>,
    /// Packets dropped by the queue during the measurement.
    pub overflows: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Interest { segment: u64 },
    Data { segment: u64, marked: bool },
    Wake,
}

struct Flow {
    start: Duration,
    delay: Duration,
    state: FetchState,
    /// The earliest scheduled wake-up.
    wakes_at: Option<Duration>,
    /// Interests stay in order.
    last_arrival: Duration,
    received: u64,
}

impl Flow {
    fn new(flow: &SimulatedFlow) -> Self {
        Self {
            start: flow.start,
            delay: flow.delay,
            state: FetchState::new(flow.config, 0, None),
            wakes_at: None,
            last_arrival: Duration::ZERO,
            received: 0,
        }
    }
}

struct Simulation {
    now: Duration,
    link: SimulatedLink,
    /// Random processing times of the producer, up to the transmission time of a packet. Without
    /// them, flows would stay in phase, and some would find the queue full every time (Floyd and
    /// Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways", 1992).
    random: StdRng,
    packet_len: u64,
    flows: Vec<Flow>,
    events: BinaryHeap<Reverse<(Duration, u64, usize, Event)>>,
    count: u64,
    measured_from: Duration,
    result: SimulationResult,
}

/// Runs `flows` over a link on which Data of `packet_len` bytes queue, until `end`; what happens
/// before `measured_from` does not count.
#[must_use]
pub fn simulate(
    link: SimulatedLinkOptions,
    packet_len: u64,
    flows: &[SimulatedFlow],
    measured_from: Duration,
    end: Duration,
) -> SimulationResult {
    let mut simulation = Simulation {
        now: Duration::ZERO,
        link: SimulatedLink::new(link),
        random: StdRng::seed_from_u64(link.seed.wrapping_add(1)),
        packet_len,
        flows: flows.iter().map(Flow::new).collect(),
        events: BinaryHeap::new(),
        count: 0,
        measured_from,
        result: SimulationResult { flows: Vec::new(), queue_delays: Vec::new(), overflows: 0 },
    };
    simulation.run(end);
    simulation.result
}

impl Simulation {
    fn push(&mut self, at: Duration, flow: usize, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, flow, event)));
    }

    fn run(&mut self, end: Duration) {
        for flow in 0..self.flows.len() {
            self.push(self.flows[flow].start, flow, Event::Wake);
        }
        while let Some(Reverse((at, _, number, event))) = self.events.pop()
            && at < end
        {
            self.now = at;
            let flow = &mut self.flows[number];
            match event {
                Event::Interest { segment } => {
                    self.answer(number, segment);
                    continue;
                }
                Event::Data { segment, marked } => {
                    let before = flow.state.progress().segments;
                    flow.state.handle_data(at, segment, None, marked);
                    if at >= self.measured_from {
                        flow.received += flow.state.progress().segments - before;
                    }
                    flow.state.set_consumed(flow.state.first_missing());
                }
                Event::Wake => {
                    flow.wakes_at = flow.wakes_at.filter(|wakes_at| *wakes_at > at);
                    if flow.state.poll_timeout().is_some_and(|(due, _)| due <= at) {
                        flow.state.handle_timeout(at);
                    }
                }
            }
            self.transmit(number);
        }
        let results = self.flows.iter();
        self.result.flows = results
            .map(|flow| FlowResult { segments: flow.received, progress: flow.state.progress() })
            .collect();
        self.result.queue_delays.sort_unstable();
    }

    /// The producer answers an Interest.
    fn answer(&mut self, flow: usize, segment: u64) {
        let counts = self.now >= self.measured_from;
        match self.link.send(self.now, self.packet_len) {
            Passage::Arrives { at, again_at, waited, marked } => {
                if counts {
                    self.result.queue_delays.push(waited);
                }
                for at in std::iter::once(at).chain(again_at) {
                    self.push(at, flow, Event::Data { segment, marked });
                }
            }
            Passage::Overflow => self.result.overflows += u64::from(counts),
            Passage::Lost => {}
        }
    }

    fn transmit(&mut self, number: usize) {
        let now = self.now;
        let flow = &mut self.flows[number];
        let mut segments = Vec::new();
        while let Some(transmit) = flow.state.poll_transmit(now) {
            segments.push(transmit.segment);
        }
        let due = flow.state.poll_timeout().map(|(due, _)| due.max(now));
        // A flow woken too early checks again at its deadline.
        let wake = due.filter(|due| flow.wakes_at.is_none_or(|wakes_at| *due < wakes_at));
        flow.wakes_at = wake.or(flow.wakes_at);
        let processing = self.link.sending(self.packet_len);
        for segment in segments {
            let jitter = processing.mul_f64(self.random.random());
            let flow = &mut self.flows[number];
            flow.last_arrival = flow.last_arrival.max(now + flow.delay + jitter);
            let arrival = flow.last_arrival;
            self.push(arrival, number, Event::Interest { segment });
        }
        if let Some(at) = wake {
            self.push(at, number, Event::Wake);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "small numbers of a test")]

    use super::*;
    use crate::fetch::WindowMode;

    const MS: Duration = Duration::from_millis(1);
    const PACKET_LEN: u64 = 8300;

    /// Fraction of a 1 Gbit/s link used by each of `flows`.
    fn shares(
        round_trip: Duration,
        queue: Duration,
        loss: f64,
        windows: &[WindowMode],
    ) -> (Vec<f64>, SimulationResult) {
        let rate = 1_000_000_000;
        let queue_bytes = rate / 8 * u64::try_from(queue.as_micros()).unwrap() / 1_000_000;
        let link = SimulatedLinkOptions {
            rate,
            delay: round_trip / 2,
            queue_bytes,
            loss,
            ..SimulatedLinkOptions::default()
        };
        let flows: Vec<_> = windows
            .iter()
            .zip(0..)
            .map(|(window, number)| SimulatedFlow {
                config: FetchConfig { window: *window, ..FetchConfig::default() },
                start: 500 * MS * number,
                delay: round_trip / 2,
            })
            .collect();
        // Long enough for a later flow to have probed for the shortest round trip.
        let from = Duration::from_secs(if windows.len() > 1 { 12 } else { 4 });
        let end = from + Duration::from_secs(4);
        let result = simulate(link, PACKET_LEN, &flows, from, end);
        let whole = 1e9 / 8.0 * (end - from).as_secs_f64() / PACKET_LEN as f64;
        (result.flows.iter().map(|flow| flow.segments as f64 / whole).collect(), result)
    }

    #[test]
    fn both_controllers_fill_a_link_without_loss() {
        for window in [WindowMode::CUBIC, WindowMode::DELAY] {
            for (round_trip, queue) in [(MS / 5, 2 * MS), (50 * MS, 20 * MS)] {
                let (share, _) = shares(round_trip, queue, 0.0, &[window]);
                assert!(share[0] > 0.85, "{window:?} {round_trip:?}: {share:?}");
            }
        }
    }

    #[test]
    fn delay_controller_keeps_queues_short() {
        let (share, result) = shares(10 * MS, 100 * MS, 0.0, &[WindowMode::DELAY]);
        let median = result.queue_delays[result.queue_delays.len() / 2];
        assert!(share[0] > 0.9 && median < 6 * MS, "{share:?} {median:?}");
        let (_, result) = shares(10 * MS, 100 * MS, 0.0, &[WindowMode::CUBIC]);
        let median = result.queue_delays[result.queue_delays.len() / 2];
        assert!(median > 20 * MS, "{median:?}");
    }

    #[test]
    fn delay_controller_tolerates_a_lossy_link() {
        let (share, _) = shares(50 * MS, 20 * MS, 0.01, &[WindowMode::DELAY]);
        assert!(share[0] > 0.7, "{share:?}");
        let (share, _) = shares(50 * MS, 20 * MS, 0.01, &[WindowMode::CUBIC]);
        assert!(share[0] < 0.3, "a reason to have another: {share:?}");
    }

    #[test]
    fn two_flows_share_fairly() {
        for (window, round_trip, queue) in [
            (WindowMode::CUBIC, 10 * MS, 2 * MS),
            // The second flow finds the queue full, and later round trips are shorter than its
            // first ones.
            (WindowMode::CUBIC, MS / 5, MS),
            (WindowMode::CUBIC, MS / 5, 2 * MS),
            (WindowMode::CUBIC, MS, 4 * MS),
            (WindowMode::DELAY, 10 * MS, 2 * MS),
            (WindowMode::DELAY, 50 * MS, 50 * MS),
        ] {
            let (share, _) = shares(round_trip, queue, 0.0, &[window, window]);
            let sum: f64 = share.iter().sum();
            let squares: f64 = share.iter().map(|share| share * share).sum();
            let jain = sum * sum / (2.0 * squares);
            assert!(jain >= 0.9 && sum > 0.8, "{window:?} {round_trip:?} {queue:?}: {share:?}");
        }
    }
}
