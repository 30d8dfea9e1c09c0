//! The experiments of "Performance Evaluation of the NDN Data Plane Using Statistical Model Checking", under stated
//! assumptions.
//!
//! The paper does not publish its service times. [`Assumptions`] are chosen so that three threads just carry one
//! Interest per microsecond, as the paper reports; whether its other findings follow is what [`findings`] shows.

use crate::assembly::{Common, Dispatch, ForwardingQueues, NdnDpdk, Placement, Traffic, zipf_cdf};
use crate::distribution::Distribution;
use crate::fast::FastEngine;
use crate::network::{Arrivals, Consumer, Link, Network, Outcome, Services};
use crate::random::TraceRandom;

/// Picoseconds of a microsecond and a nanosecond.
const US: f64 = 1e6;
const NS: f64 = 1e3;
/// Length of a trace: queues of 4096 packets have time to fill. Interests of the first half are not counted.
const TRACE_PS: u64 = 200_000_000_000;
const PREFIXES: usize = 255;
const LIFETIME_PS: u64 = 4_000_000_000_000;

/// Parameters that the paper does not state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assumptions {
    /// Forwarding an Interest and a Data of a name with seven components, together, in microseconds.
    pub exchange_us: f64,
    /// The same for each component more.
    pub component_us: f64,
    /// Factor on service times with packets in remote memory.
    pub remote_factor: f64,
    /// Whether the dispatch table is balanced, or follows hashes.
    pub is_balanced: bool,
}

impl Default for Assumptions {
    fn default() -> Self {
        Self { exchange_us: 2.7, component_us: 0.06, remote_factor: 1.5, is_balanced: false }
    }
}

/// One experiment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Forwarding threads.
    pub threads: usize,
    /// Placement of faces and threads.
    pub placement: Placement,
    /// Name components.
    pub components: usize,
    /// Interval between Interests.
    pub interval_ns: f64,
    /// Packets of the queue of a thread.
    pub capacity: usize,
}

impl Cell {
    /// The experiments of the paper's figures: one to eight threads, four placements, three lengths of names, intervals
    /// of 500, 700 and 1000 ns.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for interval_ns in [500.0, 700.0, 1000.0] {
            for components in [3, 7, 13] {
                for placement in [Placement::P1, Placement::P2, Placement::P3, Placement::P4] {
                    for threads in 1..=8 {
                        let capacity = 4096;
                        cells.push(Self { threads, placement, components, interval_ns, capacity });
                    }
                }
            }
        }
        // Dimensioning of queues.
        for threads in 1..=8 {
            let (placement, components) = (Placement::P1, 7);
            let interval_ns = 700.0;
            cells.push(Self { threads, placement, components, interval_ns, capacity: 256 });
        }
        cells
    }

    /// The model of the experiment.
    #[must_use]
    pub fn network(&self, assumptions: &Assumptions, salt: u64) -> Network {
        let exchange =
            assumptions.exchange_us + assumptions.component_us * (self.components as f64 - 7.0);
        let gamma = |mean_us: f64| Distribution::Gamma { shape: 4.0, scale: mean_us * US / 4.0 };
        let fixed = |ns: f64| Distribution::Constant(ns * NS);
        let three = |ns: f64| [fixed(ns), fixed(ns), fixed(ns)];
        let wire = || Link {
            transmit_ps: [0; 3],
            delay_ps: 1_000_000,
            loss: 0.0,
            capacity: None,
            turns_ps: [1; 2],
        };
        let consumer = Consumer {
            arrivals: Arrivals::Renewal(fixed(self.interval_ns)),
            first_prefix: 0,
            prefix_cdf: zipf_cdf(PREFIXES, 0.0),
        };
        let forwarder = NdnDpdk {
            common: Common {
                services: Services {
                    input: three(50.0),
                    forward: [
                        gamma(0.55 * exchange),
                        gamma(0.45 * exchange),
                        gamma(0.3 * exchange),
                    ],
                    forward_hit: gamma(0.5 * exchange),
                    output: three(50.0),
                    produce: fixed(10.0),
                },
                placement: self.placement,
                remote_factor: assumptions.remote_factor,
                dispatch: if assumptions.is_balanced {
                    Dispatch::Balanced
                } else {
                    Dispatch::Hash { salt }
                },
                pit_capacity: None,
                hit_ratio: 0.0,
                poll_ps: 0,
                nic_capacity: 4096,
                nic_burst: 64,
            },
            input_threads: 2,
            forwarding_threads: self.threads,
            output_threads: 2,
            queues: ForwardingQueues::Shared { capacity: self.capacity, burst: 64 },
            output_capacity: 4096,
            output_burst: 64,
        };
        forwarder.assemble(&Traffic {
            consumers: vec![consumer],
            consumer_links: [wire(), wire()],
            producers: 1,
            producer_links: [wire(), wire()],
            producer_capacity: 1 << 20,
            lifetime_ps: LIFETIME_PS,
            producer_nack_ratio: 0.0,
        })
    }

    /// Share of the satisfied Interests of each of some traces; each has other names, and so another dispatch.
    #[must_use]
    pub fn satisfied(&self, assumptions: &Assumptions, traces: u32) -> Vec<f64> {
        (0..traces)
            .map(|trace| {
                let network = self.network(assumptions, u64::from(trace));
                let mut engine = FastEngine::without_digests(&network);
                let result = engine.run(TraceRandom::new(1, trace), TRACE_PS);
                let counted = result.records.iter().filter(|r| r.created_ps >= TRACE_PS / 2);
                let all = counted.clone().count().max(1);
                counted.filter(|r| r.outcome == Outcome::Satisfied).count() as f64 / all as f64
            })
            .collect()
    }
}

/// A finding of the paper, and whether it follows from the assumptions.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The claim of the paper.
    pub claim: &'static str,
    /// Whether it appears.
    pub appears: bool,
    /// The numbers.
    pub evidence: String,
}

/// The paper's findings in results of [`Cell::all`]: mean shares of satisfied Interests.
#[must_use]
pub fn findings(results: &[(Cell, f64)]) -> Vec<Finding> {
    let at = |threads: usize, placement, components: usize, interval_ns: f64, capacity: usize| {
        let found = results.iter().find(|(cell, _)| {
            (cell.threads, cell.placement, cell.components, cell.capacity)
                == (threads, placement, components, capacity)
                && (cell.interval_ns - interval_ns).abs() < 1e-9
        });
        found.map_or(f64::NAN, |(_, share)| *share)
    };
    let p1 = |threads, components, interval| at(threads, Placement::P1, components, interval, 4096);
    let plateau = |components| {
        (1..=8).find(|threads| p1(8, components, 500.0) - p1(*threads, components, 500.0) < 0.02)
    };
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let number = |threads: Option<usize>| threads.map_or("none".to_owned(), |t| t.to_string());
    let three_lose = 1.0 - p1(3, 7, 1000.0);
    let five = p1(5, 7, 700.0);
    let (plateau_7, plateau_13) = (plateau(7), plateau(13));
    let gap = p1(7, 7, 500.0) - at(7, Placement::P4, 7, 500.0, 4096);
    let p3_gain = |threads| at(threads, Placement::P3, 13, 700.0, 4096) - p1(threads, 13, 700.0);
    let p3_least = (1..=3).map(p3_gain).fold(f64::INFINITY, f64::min);
    let (large, small) = (p1(1, 7, 700.0), at(1, Placement::P1, 7, 700.0, 256));
    vec![
        Finding {
            claim: "three threads at one Interest per microsecond lose about 0.02 %",
            appears: three_lose < 0.001,
            evidence: format!("they lose {}", percent(three_lose)),
        },
        Finding {
            claim: "five threads at 700 ns satisfy more than 90 %",
            appears: five > 0.9,
            evidence: percent(five),
        },
        Finding {
            claim: "at 500 ns, more than six threads add nothing",
            appears: plateau_7 == Some(6),
            evidence: format!("more than {} threads add less than 2 points", number(plateau_7)),
        },
        Finding {
            claim: "at 500 ns and with long names, more than five threads add nothing",
            appears: plateau_13 == Some(5),
            evidence: format!("more than {} threads add less than 2 points", number(plateau_13)),
        },
        Finding {
            claim: "beyond five threads, P4 is about 30 points below P1",
            appears: (0.2..0.4).contains(&gap),
            evidence: format!("{:.0} points with seven threads at 500 ns", 100.0 * gap),
        },
        Finding {
            claim: "P3 is best for long names with up to three threads",
            appears: (1..=3).all(|threads| p3_gain(threads) > 0.0),
            evidence: format!("P3 is {:+.1} points from P1, at least", 100.0 * p3_least),
        },
        Finding {
            claim: "a smaller queue is better with one overloaded thread",
            appears: small > large + 0.005,
            evidence: format!("{} with 256 packets, {} with 4096", percent(small), percent(large)),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(cell: Cell, assumptions: &Assumptions) -> f64 {
        let shares = cell.satisfied(assumptions, 2);
        shares.iter().sum::<f64>() / shares.len() as f64
    }

    #[test]
    fn published_effects_of_threads_and_remote_memory_are_reproduced() {
        let assumptions = Assumptions { is_balanced: true, ..Assumptions::default() };
        let cell = Cell {
            threads: 2,
            placement: Placement::P1,
            components: 7,
            interval_ns: 700.0,
            capacity: 4096,
        };
        let two = share(cell, &assumptions);
        // 2 threads, 2.7 us for an Interest and its Data: 741,000 of 1,429,000 per second.
        assert!((two - 0.519).abs() < 0.12, "{two}");
        let five = share(Cell { threads: 5, ..cell }, &assumptions);
        assert!(five > 0.999, "{five}");
        let remote = share(Cell { threads: 5, placement: Placement::P4, ..cell }, &assumptions);
        assert!(remote < five - 0.02, "{remote}");
    }

    #[test]
    fn findings_are_read_from_the_results() {
        let results: Vec<(Cell, f64)> = Cell::all()
            .into_iter()
            .map(|cell| {
                let limit = if cell.components == 13 { 5 } else { 6 };
                let mut share = cell.threads.min(limit) as f64 / limit as f64;
                if cell.placement == Placement::P4 {
                    share *= 0.7;
                }
                if cell.interval_ns > 900.0 && cell.threads >= 3 {
                    share = 0.9998;
                }
                if cell.interval_ns < 900.0 && cell.interval_ns > 600.0 && cell.threads >= 5 {
                    share = 0.95;
                }
                (cell, share)
            })
            .collect();
        let appears: Vec<bool> = findings(&results).iter().map(|f| f.appears).collect();
        assert_eq!(appears, [true, true, true, true, true, false, false]);
        assert!(findings(&[]).iter().all(|finding| !finding.appears));
    }
}
