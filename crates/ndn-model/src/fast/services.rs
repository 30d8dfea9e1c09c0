//! Service times of the fast engine: most are drawn as the Interests are generated.

use crate::distribution::{Distribution, QuantileTable, to_ps};
use crate::network::{Kind, Network, Stage, order, streams};
use crate::random::{SplicedRandom, StreamId, TraceRandom, to_unit};

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
    /// When an Interest needs it.
    order: u8,
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
    /// When an Interest needs it.
    order: u8,
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
    const fn new(law: &'n Distribution, factor: f64, stream: StreamId, order: u8) -> Self {
        Self { place: NONE, stride: 0, law, factor, stream, order }
    }

    #[inline(never)]
    fn draw(&self, random: TraceRandom, interest: u32) -> u64 {
        self.law.sample_ps(&mut random.draw(self.stream, u64::from(interest)), self.factor)
    }

    /// Whether its times are those of `other` for each Interest.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.stream == other.stream
            && self.factor.to_bits() == other.factor.to_bits()
            && self.law == other.law
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
                let stream = streams::service(stage, kind);
                Service::new(&laws[kind as usize], factor, stream, order::service(stage, kind))
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
                    Service::new(&services.forward_hit, factor, streams::SERVICE_OF_HIT, order::HIT)
                })
                .collect(),
            produce: Service::new(
                &services.produce,
                1.0,
                streams::service(Stage::Produce, Kind::Interest),
                order::service(Stage::Produce, Kind::Interest),
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
            let stream = service.stream;
            let factor = service.factor;
            let is_same = |other: &Column<'_>| {
                other.stream == stream && other.factor.to_bits() == factor.to_bits()
            };
            let column = self.columns.iter().position(is_same).unwrap_or_else(|| {
                self.columns.push(Column::new(service));
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

    /// Draws the times of the Interests `first` to `first + count - 1`, which are of one part of the random numbers.
    pub(super) fn extend(&mut self, spliced: &SplicedRandom, first: u32, count: usize) {
        let stride = self.columns.len();
        if stride == 0 {
            return;
        }
        let random = spliced.at(first).random;
        let begin = self.times_ps.len();
        self.times_ps.resize(begin + count * stride, 0);
        self.words.resize(count, 0);
        for (number, column) in self.columns.iter().enumerate() {
            let rows = self.times_ps[begin..].chunks_exact_mut(stride);
            let places = rows.map(|row| &mut row[number]);
            let put = |place: &mut u64, time_ps| *place = time_ps;
            column.draw(random, u64::from(first), &mut self.words, places, put);
        }
        for waited in spliced.waited(first, first + count as u32) {
            let row = begin + (waited.interest - first) as usize * stride;
            for (number, column) in self.columns.iter().enumerate() {
                if column.order >= waited.order {
                    let mut draw = waited.random.draw(column.stream, u64::from(waited.interest));
                    self.times_ps[row + number] = column.law.sample_ps(&mut draw, column.factor);
                }
            }
        }
    }

    #[inline]
    pub(super) fn time_ps(
        &self,
        service: &Service<'_>,
        random: &SplicedRandom,
        interest: u32,
    ) -> u64 {
        match self.times_ps.get(service.place + service.stride * interest as usize) {
            Some(time_ps) => *time_ps,
            None => service.draw(random.of(interest, service.order), interest),
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

impl<'n> Column<'n> {
    fn new(service: &Service<'n>) -> Self {
        let Service { law, factor, stream, order, .. } = *service;
        Self { law, factor, stream, order, cells: Cells::of(law) }
    }

    /// Draws the times of the Interests from `first` on, one for each of `words`, and gives each to its place by `put`.
    #[inline]
    fn draw<P>(
        &self,
        random: TraceRandom,
        first: u64,
        words: &mut [u64],
        places: impl Iterator<Item = P>,
        put: impl Fn(P, u64),
    ) {
        random.first_words(self.stream, first, words);
        let each = (first..).zip(words.iter()).zip(places);
        if let Some(cells) = &self.cells {
            // The usual case, without a choice between distributions in the loop.
            each.for_each(|((index, word), place)| {
                let position = to_unit(*word) * cells.scale;
                // Positions are below 2^52: signed numbers are converted in one instruction.
                let cell = position as i64;
                let duration = match cells.cells.get(cell as usize) {
                    Some((low, width)) => low + width * (position - cell as f64),
                    None => cells.tail(random, self.stream, index),
                };
                put(place, to_ps(duration * self.factor));
            });
        } else {
            each.for_each(|((index, word), place)| {
                let mut draw = random.draw_from(self.stream, index, *word);
                put(place, self.law.sample_ps(&mut draw, self.factor));
            });
        }
    }
}

/// The time of several services in a row.
#[derive(Debug, Default)]
pub(super) struct Sum<'n> {
    constant_ps: u64,
    columns: Vec<Column<'n>>,
}

impl<'n> Sum<'n> {
    pub(super) fn new(services: &[&Service<'n>]) -> Self {
        let mut sum = Self::default();
        for service in services {
            if let Distribution::Constant(value) = service.law {
                sum.constant_ps += to_ps(value * service.factor);
            } else {
                sum.columns.push(Column::new(service));
            }
        }
        sum
    }

    /// Draws the times of the Interests from `first` on. `words` is as long as `times_ps`.
    pub(super) fn draw(
        &self,
        random: TraceRandom,
        first: u64,
        words: &mut [u64],
        times_ps: &mut [u64],
    ) {
        times_ps.fill(self.constant_ps);
        for column in &self.columns {
            let places = times_ps.iter_mut();
            column.draw(random, first, words, places, |place, time_ps| *place += time_ps);
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
