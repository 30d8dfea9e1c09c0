//! The fast engine against the reference engine, packet by packet, over random compositions.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]

use std::collections::BTreeSet;
use std::sync::Arc;

use ndn_model::assembly::{
    Common, Dispatch, ForwardingQueues, Namewire, NdnDpdk, Placement, Traffic, zipf_cdf,
};
use ndn_model::distribution::{Distribution, ErlangBranch, QuantileTable};
use ndn_model::fast::FastEngine;
use ndn_model::network::{
    Arrivals, Consumer, Link, Network, Outcome, PausedTraffic, Pauses, QueueManagement, Services,
    Shed,
};
use ndn_model::random::{Draw, StreamId, TraceRandom};
use ndn_model::reference;

const COMPOSITIONS: u32 = 1000;
/// The first of them run 50 times as long, so that rings of packets grow and wrap around.
const LONG_COMPOSITIONS: u32 = 60;

/// Draws a model: both assemblies, all kinds of arrivals, queues, links and distributions.
struct Generator {
    draw: Draw,
}

impl Generator {
    fn below(&mut self, count: u64) -> usize {
        self.draw.below(count) as usize
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.draw.unit() < probability
    }

    fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below((high - low + 1) as u64)
    }

    fn distribution(&mut self, mean: f64) -> Distribution {
        match self.below(8) {
            0 | 1 => Distribution::Constant((mean / 10.0).round() * 10.0),
            2 => Distribution::Exponential { mean },
            3 => Distribution::Uniform { low: 0.5 * mean, high: 1.5 * mean },
            4 => Distribution::Weibull { shape: 1.5, scale: mean },
            5 => Distribution::Gamma { shape: 2.0, scale: 0.5 * mean },
            6 => Distribution::HyperErlang(vec![
                ErlangBranch { weight: 0.8, phases: 3, mean: 0.7 * mean },
                ErlangBranch { weight: 0.2, phases: 1, mean: 2.2 * mean },
            ]),
            _ => Distribution::Empirical(QuantileTable {
                quantiles: vec![0.2 * mean, 0.5 * mean, mean, 1.4 * mean],
                tail_probability: 0.1,
                tail_mean: mean,
            }),
        }
    }

    fn kinds(&mut self, mean: f64) -> [Distribution; 3] {
        [self.distribution(mean), self.distribution(mean), self.distribution(0.5 * mean)]
    }

    fn arrivals(&mut self, mean: f64) -> Arrivals {
        match self.below(5) {
            // Fixed intervals of round numbers: many events at the same instant.
            0 => Arrivals::Renewal(Distribution::Constant((mean / 10.0).round() * 10.0)),
            1 => Arrivals::OnOff {
                interval_ps: (0.5 * mean) as u64 + 1,
                on: self.distribution(20.0 * mean),
                off: self.distribution(20.0 * mean),
            },
            2 => {
                let mut time = 0;
                let times = (0..self.between(0, 80)).map(|_| {
                    // Several at one instant, too.
                    time += self.draw.below(2 * mean as u64) / 10 * 10;
                    time
                });
                Arrivals::Trace(times.collect())
            }
            _ => Arrivals::Renewal(self.distribution(mean)),
        }
    }

    fn link(&mut self) -> Link {
        let transmit = if self.chance(0.5) { 0 } else { self.draw.below(300) };
        Link {
            transmit_ps: [transmit, 2 * transmit, transmit],
            delay_ps: [1, 1000, 5000][self.below(3)],
            loss: if self.chance(0.7) { 0.0 } else { 0.1 },
            capacity: self.chance(0.3).then(|| self.between(1, 5)),
            turns_ps: [(); 2].map(|()| if self.chance(0.7) { 1 } else { 700 }),
        }
    }

    fn management(&mut self) -> Option<QueueManagement> {
        self.chance(0.6).then(|| QueueManagement {
            mark_after_ps: self.chance(0.7).then_some(500),
            shed_after_ps: self
                .chance(0.7)
                .then(|| (1500, if self.chance(0.5) { Shed::Nack } else { Shed::Drop })),
            interval_ps: 3000,
        })
    }

    fn traffic(&mut self) -> Traffic {
        let consumers = (0..self.between(1, 3))
            .map(|number| Consumer {
                arrivals: self.arrivals(600.0),
                first_prefix: 2 * number as u32,
                prefix_cdf: {
                    let count = self.between(1, 12);
                    let exponent = if self.chance(0.5) { 0.0 } else { 0.9 };
                    zipf_cdf(count, exponent)
                },
            })
            .collect();
        Traffic {
            consumers,
            consumer_links: [self.link(), self.link()],
            producers: self.between(1, 2),
            producer_links: [self.link(), self.link()],
            producer_capacity: self.between(1, 20),
            lifetime_ps: if self.chance(0.7) { 1_000_000 } else { 12_000 },
            producer_nack_ratio: if self.chance(0.7) { 0.0 } else { 0.2 },
        }
    }

    fn common(&mut self) -> Common {
        Common {
            services: Services {
                input: self.kinds(100.0),
                forward: self.kinds(400.0),
                forward_hit: self.distribution(200.0),
                output: self.kinds(100.0),
                produce: self.distribution(300.0),
            },
            placement: [Placement::P1, Placement::P2, Placement::P3, Placement::P4][self.below(4)],
            remote_factor: 1.5,
            dispatch: if self.chance(0.5) {
                Dispatch::Hash { salt: self.draw.bits() }
            } else {
                Dispatch::Balanced
            },
            pit_capacity: self.chance(0.4).then(|| self.between(1, 20)),
            hit_ratio: if self.chance(0.5) { 0.0 } else { 0.4 },
            poll_ps: if self.chance(0.5) { 0 } else { 70 },
            nic_capacity: self.between(1, 12),
            nic_burst: self.between(1, 8),
        }
    }

    fn network(&mut self) -> Network {
        let traffic = self.traffic();
        let common = self.common();
        if self.chance(0.5) {
            let queues = if self.chance(0.4) {
                ForwardingQueues::Shared {
                    capacity: self.between(1, 12),
                    burst: self.between(1, 8),
                }
            } else {
                ForwardingQueues::ByKind {
                    capacity: self.between(1, 12),
                    bursts: [self.between(1, 6), self.between(1, 8), self.between(1, 8)],
                    management: self.management(),
                }
            };
            let forwarder = NdnDpdk {
                common,
                input_threads: self.between(1, 3),
                forwarding_threads: self.between(1, 5),
                output_threads: self.between(1, 3),
                queues,
                output_capacity: self.between(1, 12),
                output_burst: self.between(1, 8),
            };
            return forwarder.assemble(&traffic);
        }
        let workers = self.between(1, 5);
        let forwarder = Namewire {
            common,
            workers,
            input_workers: self.below(workers as u64),
            ring_capacity: self.between(1, 12),
            ring_burst: self.between(1, 8),
            overload: self.management(),
            answers_first: self.chance(0.7),
        };
        forwarder.assemble(&traffic)
    }

    /// Pauses of some processors, now and then at the instants of other events.
    fn pauses(&mut self, network: &Network) -> Pauses {
        let laws = (self.distribution(3000.0), self.distribution(1500.0));
        let traffic = [PausedTraffic::Never, PausedTraffic::Own, PausedTraffic::Shared];
        let (are_together, traffic) = (self.chance(0.3), traffic[self.below(3)]);
        let mut pauses = Pauses::of_threads(network, laws, are_together, traffic);
        // Any threads may be on a processor, and some on one that never pauses.
        for processor in pauses.stations.iter_mut().chain(&mut pauses.consumers) {
            match self.below(8) {
                0 => *processor = None,
                1 => *processor = Some(self.below(3)),
                _ => {}
            }
        }
        pauses
    }
}

#[test]
fn fast_engine_gives_the_bits_of_the_reference_engine() {
    let mut interests = 0;
    let mut outcomes = BTreeSet::new();
    for composition in 0..COMPOSITIONS {
        let random = TraceRandom::new(21, composition);
        let mut generator = Generator { draw: random.draw(StreamId(u32::MAX), 0) };
        let mut network = generator.network();
        if generator.chance(0.5) {
            network.pauses = Some(generator.pauses(&network));
        }
        let network = Arc::new(network);
        assert_eq!(network.fault(), None, "composition {composition}");
        let horizon_ps = if composition < LONG_COMPOSITIONS { 1_000_000 } else { 20_000 };
        let expected = reference::run(&network, random, horizon_ps);
        let mut engine = FastEngine::new(&network);
        // Twice: nothing is left over from a trace before.
        engine.run(TraceRandom::new(22, 0), horizon_ps);
        let actual = engine.run(random, horizon_ps);
        assert_eq!(actual.records.len(), expected.records.len(), "composition {composition}");
        for (id, (actual, expected)) in actual.records.iter().zip(&expected.records).enumerate() {
            assert_eq!(actual, expected, "composition {composition}, Interest {id}");
            assert_ne!(
                actual.outcome,
                Outcome::Pending,
                "composition {composition}, Interest {id}"
            );
            let name = format!("{:?}", actual.outcome);
            outcomes.insert(name.split('(').next().unwrap_or_default().to_owned());
        }
        assert_eq!(actual, &expected, "composition {composition}");
        interests += actual.records.len();
        // What is not recorded makes no difference to the rest.
        let mut engine = FastEngine::without_digests(&network);
        engine.run(TraceRandom::new(22, 0), horizon_ps);
        let mut without = expected;
        without.records.iter_mut().for_each(|record| record.digest = 0);
        assert_eq!(engine.run(random, horizon_ps), &without, "composition {composition}");
    }
    assert!(interests > 30_000, "{interests}");
    assert_eq!(outcomes.len(), 8, "every way to end occurs: {outcomes:?}");
}
