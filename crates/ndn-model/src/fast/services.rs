//! Service times of the fast engine: most are drawn as the Interests are generated.

use crate::distribution::{Distribution, to_ps};
use crate::network::{Kind, Network, Stage, streams};
use crate::random::{StreamId, TraceRandom};

/// No times that are drawn ahead.
const NONE: u32 = u32::MAX;

/// Service times of one stage and kind of packet at one place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Service<'n> {
    /// The service time if it is constant, else 0.
    constant_ps: u64,
    /// Index of its times that are drawn with the Interests; or they are drawn when needed.
    ahead: u32,
    law: &'n Distribution,
    factor: f64,
    stream: StreamId,
}

/// Times of one stage and kind of packet, drawn for all Interests as they are generated: independent draws side
/// by side take less time than each between two decisions.
#[derive(Debug)]
struct Ahead<'n> {
    law: &'n Distribution,
    factor: f64,
    stream: StreamId,
    times_ps: Vec<u64>,
}

impl<'n> Service<'n> {
    fn new(law: &'n Distribution, factor: f64, stream: StreamId) -> Self {
        let constant_ps =
            if let Distribution::Constant(value) = law { to_ps(value * factor) } else { 0 };
        Self { constant_ps, ahead: NONE, law, factor, stream }
    }

    /// Draws the times with the Interests, unless they are constant.
    fn draw_ahead(&mut self, ahead: &mut Vec<Ahead<'n>>) {
        if self.constant_ps != 0 {
            return;
        }
        let (law, factor, stream) = (self.law, self.factor, self.stream);
        let is_same = |other: &Ahead<'_>| {
            other.stream == stream && other.factor.to_bits() == factor.to_bits()
        };
        let index = ahead.iter().position(is_same).unwrap_or_else(|| {
            ahead.push(Ahead { law, factor, stream, times_ps: Vec::new() });
            ahead.len() - 1
        });
        self.ahead = index as u32;
    }
}

#[derive(Debug)]
pub(super) struct Services<'n> {
    /// By face and kind.
    pub input: Vec<[Service<'n>; 3]>,
    pub output: Vec<[Service<'n>; 3]>,
    /// By shard, whether the packet came from a producer, and kind.
    pub forward: Vec<[[Service<'n>; 3]; 2]>,
    /// By shard.
    pub hit: Vec<Service<'n>>,
    pub produce: Service<'n>,
    ahead: Vec<Ahead<'n>>,
}

impl<'n> Services<'n> {
    pub(super) fn new(network: &'n Network) -> Self {
        const KINDS: [Kind; 3] = [Kind::Interest, Kind::Data, Kind::Nack];
        let services = &network.services;
        let by_kind = |laws: &'n [Distribution; 3], factor, stage| {
            KINDS.map(|kind| {
                Service::new(&laws[kind as usize], factor, streams::service(stage, kind))
            })
        };
        let faces = network.faces.iter();
        let shards = network.shards.iter();
        let mut all = Self {
            input: faces
                .clone()
                .map(|face| by_kind(&services.input, face.input_factor, Stage::Input))
                .collect(),
            output: faces
                .map(|face| by_kind(&services.output, face.output_factor, Stage::Output))
                .collect(),
            forward: shards
                .clone()
                .map(|shard| {
                    shard
                        .forward_factor
                        .map(|factor| by_kind(&services.forward, factor, Stage::Forward))
                })
                .collect(),
            hit: shards
                .map(|shard| {
                    let factor = shard.forward_factor[0];
                    Service::new(&services.forward_hit, factor, streams::SERVICE_OF_HIT)
                })
                .collect(),
            produce: Service::new(
                &services.produce,
                1.0,
                streams::service(Stage::Produce, Kind::Interest),
            ),
            ahead: Vec::new(),
        };
        all.draw_ahead(network.consumers.len(), network.hit_ratio < 0.5);
        all
    }

    /// Every Interest needs these, and most of their answers; Nacks and hits are drawn when needed.
    fn draw_ahead(&mut self, consumers: usize, needs_answers: bool) {
        let ahead = &mut self.ahead;
        let (interest, data) = (Kind::Interest as usize, Kind::Data as usize);
        for face in 0..self.input.len() {
            // Interests come from consumers and leave to producers.
            let is_producer = face >= consumers;
            let (at_input, at_output) =
                if is_producer { (data, interest) } else { (interest, data) };
            if at_input == interest || needs_answers {
                self.input[face][at_input].draw_ahead(ahead);
            }
            if at_output == interest || needs_answers {
                self.output[face][at_output].draw_ahead(ahead);
            }
        }
        for [from_consumer, from_producer] in &mut self.forward {
            from_consumer[interest].draw_ahead(ahead);
            if needs_answers {
                from_producer[data].draw_ahead(ahead);
            }
        }
        self.produce.draw_ahead(ahead);
    }

    pub(super) fn reset(&mut self) {
        for ahead in &mut self.ahead {
            ahead.times_ps.clear();
        }
    }

    /// Draws the times of the Interests `first` to `first + count - 1`.
    pub(super) fn extend(&mut self, random: TraceRandom, first: u64, count: usize) {
        for Ahead { law, factor, stream, times_ps } in &mut self.ahead {
            let begin = times_ps.len();
            times_ps.resize(begin + count, 0);
            let pairs = times_ps[begin..].iter_mut().zip(random.draws(*stream, first, count));
            if let Distribution::Empirical(table) = law {
                // The usual case, without a choice between distributions in the loop.
                pairs.for_each(|(time_ps, mut draw)| {
                    *time_ps = to_ps(table.sample(&mut draw) * *factor);
                });
            } else {
                pairs.for_each(|(time_ps, mut draw)| *time_ps = law.sample_ps(&mut draw, *factor));
            }
        }
    }

    #[inline]
    pub(super) fn time_ps(&self, service: &Service<'_>, random: TraceRandom, interest: u32) -> u64 {
        if service.constant_ps != 0 {
            return service.constant_ps;
        }
        if let Some(ahead) = self.ahead.get(service.ahead as usize) {
            return ahead.times_ps[interest as usize];
        }
        service.draw(random, interest)
    }
}

impl Service<'_> {
    #[inline(never)]
    fn draw(&self, random: TraceRandom, interest: u32) -> u64 {
        self.law.sample_ps(&mut random.draw(self.stream, u64::from(interest)), self.factor)
    }
}
