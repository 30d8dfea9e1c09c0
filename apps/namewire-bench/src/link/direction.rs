//! One direction of an emulated link: datagrams in transit and their arrival times. No sockets and no clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use hdrhistogram::Histogram;
use ndn_client::link::{Passage, SimulatedLink, SimulatedLinkOptions};
use serde::Serialize;

/// Maximum recorded queue delay: one hour.
const QUEUE_DELAY_MAX_US: u64 = 3_600_000_000;

/// Counters of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LinkCounters {
    /// Datagrams offered to the link.
    pub sent: u64,
    /// Datagrams that arrived, second copies included.
    pub arrived: u64,
    /// Bytes of those.
    pub arrived_bytes: u64,
    /// Datagrams lost at random.
    pub lost: u64,
    /// Datagrams dropped because the queue was full.
    pub overflowed: u64,
    /// Duplicates.
    pub duplicated: u64,
    /// Datagrams that arrived after a later one.
    pub overtaken: u64,
    /// Time in the queue, median.
    pub queue_delay_p50_ms: f64,
    /// Time in the queue, 99th percentile.
    pub queue_delay_p99_ms: f64,
}

/// A datagram in transit, with the number of its peer.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Datagram {
    at: Duration,
    number: u64,
    peer: usize,
    bytes: Vec<u8>,
}

/// One direction.
#[derive(Debug)]
pub(super) struct Direction {
    link: SimulatedLink,
    under_way: BinaryHeap<Reverse<Datagram>>,
    next_number: u64,
    highest_arrived: Option<u64>,
    counters: LinkCounters,
    /// Microseconds.
    queue_delays: Histogram<u64>,
}

impl Direction {
    /// Creates an empty direction.
    pub(super) fn new(options: SimulatedLinkOptions) -> Option<Self> {
        Some(Self {
            link: SimulatedLink::new(options),
            under_way: BinaryHeap::new(),
            next_number: 0,
            highest_arrived: None,
            counters: LinkCounters::default(),
            queue_delays: Histogram::new_with_bounds(1, QUEUE_DELAY_MAX_US, 3).ok()?,
        })
    }

    /// Sends a datagram at `now`; times do not decrease.
    pub(super) fn send(&mut self, now: Duration, peer: usize, bytes: &[u8]) {
        self.counters.sent += 1;
        match self.link.send(now, u64::try_from(bytes.len()).unwrap_or(u64::MAX)) {
            Passage::Overflow => self.counters.overflowed += 1,
            Passage::Lost => self.counters.lost += 1,
            Passage::Arrives { at, again_at, waited, .. } => {
                let waited_us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
                self.queue_delays.saturating_record(waited_us);
                let number = self.next_number;
                self.next_number += 1;
                for at in [Some(at), again_at].into_iter().flatten() {
                    let bytes = bytes.to_vec();
                    self.under_way.push(Reverse(Datagram { at, number, peer, bytes }));
                }
                self.counters.duplicated += u64::from(again_at.is_some());
            }
        }
    }

    /// Returns the time of the next arrival.
    pub(super) fn next_arrival(&self) -> Option<Duration> {
        self.under_way.peek().map(|Reverse(next)| next.at)
    }

    /// Returns a datagram that has arrived by `now`, and its peer.
    pub(super) fn arrive(&mut self, now: Duration) -> Option<(usize, Vec<u8>)> {
        if self.next_arrival()? > now {
            return None;
        }
        let Reverse(datagram) = self.under_way.pop()?;
        self.counters.arrived += 1;
        self.counters.arrived_bytes += u64::try_from(datagram.bytes.len()).unwrap_or(0);
        self.counters.overtaken += u64::from(self.highest_arrived > Some(datagram.number));
        self.highest_arrived = self.highest_arrived.max(Some(datagram.number));
        Some((datagram.peer, datagram.bytes))
    }

    /// Returns the counters.
    pub(super) fn counters(&self) -> LinkCounters {
        let milliseconds = |quantile| {
            let microseconds = self.queue_delays.value_at_quantile(quantile);
            Duration::from_micros(microseconds).as_secs_f64() * 1000.0
        };
        LinkCounters {
            queue_delay_p50_ms: milliseconds(0.5),
            queue_delay_p99_ms: milliseconds(0.99),
            ..self.counters
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn datagrams_arrive_after_the_delay_of_the_link() {
        // 1 MB/s: 1000 bytes take 1 ms.
        let options = SimulatedLinkOptions {
            rate: 8_000_000,
            delay: 5 * MS,
            ..SimulatedLinkOptions::default()
        };
        let mut direction = Direction::new(options).unwrap();
        assert_eq!(direction.next_arrival(), None);
        direction.send(Duration::ZERO, 3, &[1; 1000]);
        direction.send(Duration::ZERO, 4, &[2; 500]);
        assert_eq!(direction.next_arrival(), Some(6 * MS));
        assert_eq!(direction.arrive(6 * MS - Duration::from_nanos(1)), None);
        assert_eq!(direction.arrive(6 * MS), Some((3, vec![1; 1000])));
        assert_eq!(direction.arrive(6 * MS), None);
        assert_eq!(direction.arrive(7 * MS), Some((4, vec![2; 500])));
        let counters = direction.counters();
        assert_eq!((counters.sent, counters.arrived, counters.arrived_bytes), (2, 2, 1500));
        assert!((0.9..1.1).contains(&counters.queue_delay_p99_ms), "{counters:?}");
    }

    /// Every datagram is lost, dropped, or delivered the expected number of times; the same seed gives the same
    /// result.
    #[test]
    fn all_datagrams_are_accounted_for() {
        let run = |seed| {
            let mut direction = Direction::new(SimulatedLinkOptions {
                rate: 8_000_000,
                delay: 2 * MS,
                queue_bytes: 20_000,
                loss: 0.1,
                reordering: 0.2,
                reordering_delay: 3 * MS,
                duplication: 0.1,
                mark_above: None,
                seed,
            })
            .unwrap();
            let mut arrived = Vec::new();
            let mut take = |direction: &mut Direction, now| {
                while let Some((peer, bytes)) = direction.arrive(now) {
                    arrived.push((peer, bytes));
                }
            };
            for number in 0..5000_u32 {
                let now = number * MS * 9 / 10;
                take(&mut direction, now);
                let mut bytes = number.to_be_bytes().to_vec();
                bytes.resize(1000, 7);
                direction.send(now, 0, &bytes);
            }
            take(&mut direction, Duration::MAX);
            (arrived, direction.counters())
        };
        let (arrived, counters) = run(1);
        assert!(run(1).0 == arrived && run(2).0 != arrived);
        assert_eq!(counters.sent, 5000);
        assert_eq!(counters.sent - counters.lost - counters.overflowed + counters.duplicated, {
            u64::try_from(arrived.len()).unwrap()
        });
        assert_eq!(counters.arrived, u64::try_from(arrived.len()).unwrap());
        for (count, from, to) in [
            (counters.lost, 380, 560),
            (counters.overflowed, 200, 700),
            (counters.duplicated, 320, 520),
            (counters.overtaken, 400, 1100),
        ] {
            assert!((from..to).contains(&count), "{counters:?}");
        }
    }
}
