//! The distance bench: fetches over a link of 1 Gbit/s in virtual time, at the three distances of
//! NDN-DPDK's published file-server table, with short and long queues, with and without loss, one
//! fetch and two. No sockets and no clock: it is exact, and the same on every machine.

use std::time::Duration;

use ndn_client::fetch::{FetchConfig, WindowMode};
use ndn_client::link::{SimulatedFlow, SimulatedLinkOptions, simulate};
use serde::Serialize;

/// Bits per second of the link.
const RATE: u64 = 1_000_000_000;
/// Bytes of a Data with 8192 bytes of content.
const PACKET_LEN: u64 = 8300;
/// Round-trip times without queue, in microseconds.
const ROUND_TRIPS_US: [u64; 3] = [200, 10_000, 50_000];
/// Random loss rates.
const LOSSES: [f64; 3] = [0.0, 0.0001, 0.01];
/// Minimum queue length, in packets.
const QUEUE_PACKETS_MIN: u64 = 32;
/// When the second fetch starts.
const SECOND_START: Duration = Duration::from_secs(2);

/// Options of the bench.
#[derive(Debug, Clone)]
pub struct DistanceOptions {
    /// Measured seconds of virtual time, after a warm-up of the same length.
    pub seconds: u64,
    /// Random seed.
    pub seed: u64,
}

impl Default for DistanceOptions {
    fn default() -> Self {
        Self { seconds: 20, seed: 1 }
    }
}

/// One controller at one distance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DistanceCase {
    /// `cubic`, `delay` or `fixed`.
    pub controller: &'static str,
    /// Round-trip time without queue.
    pub round_trip_ms: f64,
    /// Random loss rate.
    pub loss: f64,
    /// Time to drain a full queue.
    pub queue_ms: f64,
    /// Fetches sharing the link.
    pub flows: usize,
    /// Packets received once, as a share of the link's capacity.
    pub share_of_link: f64,
    /// Jain's index of the shares of the fetches.
    pub fairness: f64,
    /// Time in the queue, median.
    pub queue_delay_p50_ms: f64,
    /// Time in the queue, 99th percentile.
    pub queue_delay_p99_ms: f64,
    /// Retransmitted Interests, as a share of all.
    pub sent_again: f64,
}

/// All cases.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DistanceReport {
    /// `distance`.
    pub bench: &'static str,
    /// Bits per second of the link.
    pub rate: u64,
    /// Measured seconds.
    pub seconds: u64,
    /// Random seed.
    pub seed: u64,
    /// The cases.
    pub cases: Vec<DistanceCase>,
}

/// A link of one distance.
#[derive(Debug, Clone, Copy)]
struct Path {
    round_trip: Duration,
    queue_packets: u64,
    loss: f64,
}

/// Bandwidth-delay product, in packets.
fn product(round_trip: Duration) -> u64 {
    let bits = u128::from(RATE) * round_trip.as_nanos() / 1_000_000_000;
    u64::try_from(bits).unwrap_or(u64::MAX) / 8 / PACKET_LEN
}

/// Runs all cases; calls `print` with a line for each distance.
pub fn run_distance(options: &DistanceOptions, mut print: impl FnMut(&str)) -> DistanceReport {
    let mut cases = Vec::new();
    for round_trip in ROUND_TRIPS_US.map(Duration::from_micros) {
        let product = product(round_trip);
        // A quarter of the bandwidth-delay product, and twice as much: short and long.
        for queue_packets in
            [product / 4, product * 2].map(|packets| packets.max(QUEUE_PACKETS_MIN))
        {
            for loss in LOSSES {
                let path = Path { round_trip, queue_packets, loss };
                // A window configured for exactly this path.
                let fixed = u32::try_from(product + QUEUE_PACKETS_MIN / 2).unwrap_or(u32::MAX);
                for (controller, window) in [
                    ("cubic", WindowMode::CUBIC),
                    ("delay", WindowMode::DELAY),
                    ("fixed", WindowMode::Fixed(fixed)),
                ] {
                    for flows in [1, 2] {
                        cases.push(run(options, path, controller, window, flows));
                    }
                }
            }
        }
        print(&format!("round trips of {} ms done", milliseconds(round_trip)));
    }
    let DistanceOptions { seconds, seed } = *options;
    DistanceReport { bench: "distance", rate: RATE, seconds, seed, cases }
}

fn run(
    options: &DistanceOptions,
    path: Path,
    controller: &'static str,
    window: WindowMode,
    flows: usize,
) -> DistanceCase {
    let link = SimulatedLinkOptions {
        rate: RATE,
        delay: path.round_trip / 2,
        queue_bytes: path.queue_packets * PACKET_LEN,
        loss: path.loss,
        seed: options.seed,
        ..SimulatedLinkOptions::default()
    };
    let flow = |start| SimulatedFlow {
        config: FetchConfig { window, ..FetchConfig::default() },
        start,
        delay: path.round_trip / 2,
    };
    let started: Vec<_> =
        [Duration::ZERO, SECOND_START].into_iter().take(flows).map(flow).collect();
    let measured = Duration::from_secs(options.seconds.max(1));
    let result =
        simulate(link, PACKET_LEN, &started, SECOND_START + measured, SECOND_START + measured * 2);
    let whole = measured.as_secs_f64() * float(RATE) / 8.0 / float(PACKET_LEN);
    let shares: Vec<f64> = result.flows.iter().map(|flow| float(flow.segments) / whole).collect();
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let interests: u64 = result.flows.iter().map(|flow| flow.progress.interests).sum();
    let again: u64 = result.flows.iter().map(|flow| flow.progress.retransmissions).sum();
    let at = |part: usize| {
        let place = result.queue_delays.len() * part / 100;
        milliseconds(result.queue_delays.get(place).copied().unwrap_or_default())
    };
    DistanceCase {
        controller,
        round_trip_ms: milliseconds(path.round_trip),
        loss: path.loss,
        queue_ms: float(path.queue_packets * PACKET_LEN * 8 * 1000) / float(RATE),
        flows,
        share_of_link: sum,
        fairness: if squares > 0.0 {
            sum * sum / (float(u64::try_from(flows).unwrap_or(1)) * squares)
        } else {
            0.0
        },
        queue_delay_p50_ms: at(50),
        queue_delay_p99_ms: at(99),
        sent_again: float(again) / float(interests.max(1)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of packets and bits of less than a minute")]
fn float(count: u64) -> f64 {
    count as f64
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_reports_the_use_of_the_link() {
        let path = Path { round_trip: Duration::from_millis(10), queue_packets: 100, loss: 0.0 };
        let options = DistanceOptions { seconds: 1, seed: 1 };
        let case = run(&options, path, "fixed", WindowMode::Fixed(75), 1);
        assert!((0.45..0.55).contains(&case.share_of_link), "{case:?}");
        assert!(case.queue_delay_p99_ms < 1.0 && case.sent_again == 0.0, "{case:?}");
    }
}
