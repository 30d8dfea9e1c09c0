//! Service times of the fast engine: most are drawn as the Interests are generated.

use crate::distribution::{Distribution, QuantileTable, to_ps};
use crate::network::{Kind, Network, Stage, streams};
use crate::random::{StreamId, TraceRandom, to_unit};

/// Where the times of a stage and kind of packet are, in the table of times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Service<'n> {
    /// Its time for the first Interest. Beyond the table if times are drawn when needed.
    place: usize,
    /// Distance to that of the next Interest: 0 if the time is constant.
    stride: usize,
    law: &'n Distribution,
    factor: f64,
    stream: StreamId,
}

/// No times that are drawn ahead.
const NONE: usize = usize::MAX / 2;

/// A column of the table: times drawn for all Interests as they are generated. Independent draws side by side take less
/// time than each between two decisions.
#[derive(Debug)]
struct Column<'n> {
    law: &'n Distribution,
    factor: f64,
    stream: StreamId,
    cells: Option<Cells<'n>>,
}

/// A quantile table with the width of each cell beside its begin.
#[derive(Debug)]
struct Cells<'n> {
    table: &'n QuantileTable,
    scale: f64,
    cells: Vec<(f64, f64)>,
}

impl<'n> Service<'n> {
    const fn new(law: &'n Distribution, factor: f64, stream: StreamId) -> Self {
        Self { place: NONE, stride: 0, law, factor, stream }
    }

    #[inline(never)]
    fn draw(&self, random: TraceRandom, interest: u32) -> u64 {
        self.law.sample_ps(&mut random.draw(self.stream, u64::from(interest)), self.factor)
    }

    /// The shortest time.
    pub(super) fn minimum_ps(&self) -> u64 {
        // Rounded like any other time: a product and its rounding are monotone.
        to_ps(self.law.minimum() * self.factor)
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
    columns: Vec<Column<'n>>,
    /// Constant times; then, for each Interest, a row of a time of each column.
    times_ps: Vec<u64>,
    constants: usize,
    words: Vec<u64>,
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
            columns: Vec::new(),
            times_ps: Vec::new(),
            constants: 0,
            words: Vec::new(),
        };
        all.lay_out(network.consumers.len(), network.hit_ratio < 0.5);
        all
    }

    /// Chooses the columns: every Interest needs most of these times, and most Interests those of answers. Nacks and
    /// hits are drawn when needed.
    fn lay_out(&mut self, consumers: usize, needs_answers: bool) {
        let (interest, data) = (Kind::Interest as usize, Kind::Data as usize);
        let mut ahead = Vec::new();
        place(&mut self.produce, true, &mut self.times_ps, &mut ahead);
        for (face, (input, output)) in self.input.iter_mut().zip(&mut self.output).enumerate() {
            // Interests come from consumers and leave to producers.
            let is_producer = face >= consumers;
            let (at_input, at_output) =
                if is_producer { (data, interest) } else { (interest, data) };
            for (service, kind) in input.iter_mut().zip(0..) {
                let is_ahead = kind == at_input && (kind == interest || needs_answers);
                place(service, is_ahead, &mut self.times_ps, &mut ahead);
            }
            for (service, kind) in output.iter_mut().zip(0..) {
                let is_ahead = kind == at_output && (kind == interest || needs_answers);
                place(service, is_ahead, &mut self.times_ps, &mut ahead);
            }
        }
        for [from_consumer, from_producer] in &mut self.forward {
            for (service, kind) in from_consumer.iter_mut().zip(0..) {
                place(service, kind == interest, &mut self.times_ps, &mut ahead);
            }
            for (service, kind) in from_producer.iter_mut().zip(0..) {
                let is_ahead = kind == data && needs_answers;
                place(service, is_ahead, &mut self.times_ps, &mut ahead);
            }
        }
        for service in &mut self.hit {
            place(service, false, &mut self.times_ps, &mut ahead);
        }
        self.constants = self.times_ps.len();
        for service in ahead {
            let (law, factor, stream) = (service.law, service.factor, service.stream);
            let is_same = |other: &Column<'_>| {
                other.stream == stream && other.factor.to_bits() == factor.to_bits()
            };
            let column = self.columns.iter().position(is_same).unwrap_or_else(|| {
                self.columns.push(Column { law, factor, stream, cells: Cells::of(law) });
                self.columns.len() - 1
            });
            service.place = self.constants + column;
        }
        let stride = self.columns.len();
        let input = self.input.iter_mut().chain(&mut self.output).flatten();
        let all = input.chain(self.forward.iter_mut().flatten().flatten());
        for service in all.chain([&mut self.produce]) {
            if service.place != NONE && service.place >= self.constants {
                service.stride = stride;
            }
        }
    }

    pub(super) fn reset(&mut self) {
        self.times_ps.truncate(self.constants);
    }

    /// Draws the times of the Interests `first` to `first + count - 1`.
    pub(super) fn extend(&mut self, random: TraceRandom, first: u64, count: usize) {
        let stride = self.columns.len();
        if stride == 0 {
            return;
        }
        let begin = self.times_ps.len();
        self.times_ps.resize(begin + count * stride, 0);
        self.words.resize(count, 0);
        for (number, column) in self.columns.iter().enumerate() {
            random.first_words(column.stream, first, &mut self.words);
            let rows = self.times_ps[begin..].chunks_exact_mut(stride).map(|row| &mut row[number]);
            column.draw(random, first, &self.words, rows);
        }
    }

    #[inline]
    pub(super) fn time_ps(&self, service: &Service<'_>, random: TraceRandom, interest: u32) -> u64 {
        match self.times_ps.get(service.place + service.stride * interest as usize) {
            Some(time_ps) => *time_ps,
            None => service.draw(random, interest),
        }
    }
}

/// Gives a service its place if it is constant, or puts it among those that are drawn `ahead`.
fn place<'s, 'n>(
    service: &'s mut Service<'n>,
    is_ahead: bool,
    constants_ps: &mut Vec<u64>,
    ahead: &mut Vec<&'s mut Service<'n>>,
) {
    if let Distribution::Constant(value) = service.law {
        service.place = constants_ps.len();
        constants_ps.push(to_ps(value * service.factor));
    } else if is_ahead {
        ahead.push(service);
    }
}

impl Column<'_> {
    fn draw<'t>(
        &self,
        random: TraceRandom,
        first: u64,
        words: &[u64],
        times_ps: impl Iterator<Item = &'t mut u64>,
    ) {
        let each = (first..).zip(words).zip(times_ps);
        if let Some(cells) = &self.cells {
            // The usual case, without a choice between distributions in the loop.
            each.for_each(|((index, word), time_ps)| {
                let position = to_unit(*word) * cells.scale;
                let cell = position as usize;
                let duration = match cells.cells.get(cell) {
                    Some((low, width)) => low + width * (position - cell as f64),
                    None => cells.tail(random, self.stream, index),
                };
                *time_ps = to_ps(duration * self.factor);
            });
        } else {
            each.for_each(|((index, word), time_ps)| {
                let mut draw = random.draw_from(self.stream, index, *word);
                *time_ps = self.law.sample_ps(&mut draw, self.factor);
            });
        }
    }
}

impl<'n> Cells<'n> {
    fn of(law: &'n Distribution) -> Option<Self> {
        let Distribution::Empirical(table) = law else { return None };
        let cells = table.quantiles.windows(2).map(|w| (w[0], w[1] - w[0])).collect();
        Some(Self { table, scale: table.scale(), cells })
    }

    #[cold]
    fn tail(&self, random: TraceRandom, stream: StreamId, index: u64) -> f64 {
        let mut draw = random.draw(stream, index);
        // The first word has selected the tail.
        let _ = draw.bits();
        self.table.sample_tail(&mut draw)
    }
}
