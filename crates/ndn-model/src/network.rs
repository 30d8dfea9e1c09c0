//! The network that both engines simulate: faces, links, queues, threads and tables of one forwarder, and the packets'
//! way through them.
//!
//! An Interest passes Input (receive, parse, dispatch), Forward (PIT and Content Store of its shard) and
//! Output (transmit) of the forwarder, then the producer; its Data or Nack comes back through Input,
//! Forward of the same shard and Output. Each stage belongs to a station, which is a thread that polls its
//! queues. A packet whose next stage belongs to the station it is at runs to completion there; else it
//! is put into the next station's queue.
//!
//! # Time
//!
//! Times are whole picoseconds. Every service and every link takes at least one, so that what happens at
//! an instant depends only on what happened before it. At one instant pauses begin first, services end in spite of them,
//! and packets arrive before any station polls; arrivals at one queue from several places are in order of stations, then of links.

use crate::distribution::{Distribution, to_ps};
use crate::random::{StreamId, TraceRandom};

/// Kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// An Interest.
    Interest = 0,
    /// A Data.
    Data = 1,
    /// A Nack.
    Nack = 2,
}

/// A stage of the packets' way; each station has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Stage {
    /// Receives, parses and dispatches.
    Input = 0,
    /// Applies PIT and Content Store.
    Forward = 1,
    /// Transmits on a face.
    Output = 2,
    /// Answers an Interest: not a part of the forwarder.
    Produce = 3,
}

/// Index of a station in [`Network::stations`].
pub type StationId = usize;
/// Index of a queue in [`Network::queues`].
pub type QueueId = usize;

/// Classes of queues.
pub const CLASSES_MAX: usize = 16;

/// When a consumer sends Interests.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Independent intervals: constant for a fixed rate, exponential for Poisson arrivals.
    Renewal(Distribution),
    /// Fixed intervals during on-periods, silence during off-periods.
    OnOff {
        /// Interval between Interests while on.
        interval_ps: u64,
        /// Length of an on-period.
        on: Distribution,
        /// Length of an off-period.
        off: Distribution,
    },
    /// Given times, ascending.
    Trace(Vec<u64>),
    /// As answers allow: at most a window of Interests is in flight.
    Window(Window),
}

/// A window of Interests in flight. With control it grows by an Interest for each Data in slow start, by an Interest per
/// window above the threshold, and falls by a factor after a mark, a Nack or a timeout, once per window (AIMD of
/// `ndncatchunks`: conservative window adaptation). There is no retransmission: the consumer continues with new Interests.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Interests in flight at the beginning.
    pub initial: f64,
    /// Interests in flight at most.
    pub most: f64,
    /// Whether the window is controlled; else it is constant.
    pub is_controlled: bool,
    /// Window at which slow start ends at the beginning.
    pub threshold: f64,
    /// Factor after congestion.
    pub decrease: f64,
    /// Time between two Interests at least; at least 1.
    pub pace_ps: u64,
    /// An Interest without an answer for this time is no longer in flight.
    pub timeout_ps: u64,
}

/// Window after congestion at least (`ndncatchunks`: `MIN_SSTHRESH`).
pub const WINDOW_LEAST: f64 = 2.0;

impl Window {
    fn fault(&self) -> Option<&'static str> {
        let is_sound = self.initial >= 1.0
            && self.most >= self.initial
            && self.most.is_finite()
            && self.threshold >= 0.0
            && self.decrease > 0.0
            && self.decrease <= 1.0
            && self.pace_ps > 0
            && self.timeout_ps > 0;
        (!is_sound).then_some(
            "a window has at least one Interest, a maximum not below, a factor above 0 up to 1, times above zero",
        )
    }
}

/// A consumer: one face of the forwarder, on which Interests arrive.
#[derive(Debug, Clone, PartialEq)]
pub struct Consumer {
    /// When it sends.
    pub arrivals: Arrivals,
    /// First prefix number of its names.
    pub first_prefix: u32,
    /// Cumulative probabilities of its prefixes; one entry for one prefix.
    pub prefix_cdf: Vec<f64>,
}

impl Consumer {
    /// The prefix that a uniform number selects.
    #[inline]
    #[must_use]
    pub fn prefix(&self, unit: f64) -> u32 {
        let index = self.prefix_cdf.partition_point(|p| *p <= unit).min(self.prefix_cdf.len() - 1);
        self.first_prefix + index as u32
    }
}

/// The Interests of one consumer, in order of time.
#[derive(Debug, Clone, Copy, Default)]
pub struct ArrivalClock {
    count: u64,
    last_ps: u64,
    period: u64,
    on_end_ps: u64,
}

impl ArrivalClock {
    /// Times that [`extend`](Self::extend) appends at most.
    pub(crate) const BLOCK: usize = 64;

    /// When the next Interest is sent; none after the end of a trace, nor with a window.
    #[inline]
    pub fn next(
        &mut self,
        arrivals: &Arrivals,
        consumer: usize,
        random: TraceRandom,
    ) -> Option<u64> {
        let time_ps = match arrivals {
            Arrivals::Renewal(Distribution::Constant(interval)) => self.last_ps + to_ps(*interval),
            Arrivals::Renewal(interval) => {
                let mut draw = random.draw(streams::interval(consumer), self.count);
                self.last_ps + interval.sample_ps(&mut draw, 1.0)
            }
            Arrivals::OnOff { interval_ps, on, off } => {
                let period = |period: u64, length: &Distribution| {
                    length.sample_ps(&mut random.draw(streams::period(consumer), period), 1.0)
                };
                if self.period == 0 {
                    self.on_end_ps = period(0, on);
                    self.period = 1;
                }
                let mut next_ps = self.last_ps + interval_ps;
                while next_ps >= self.on_end_ps {
                    let on_begin_ps = self.on_end_ps + period(self.period, off);
                    self.on_end_ps = on_begin_ps + period(self.period + 1, on);
                    self.period += 2;
                    next_ps = on_begin_ps;
                }
                next_ps
            }
            Arrivals::Trace(times) => *times.get(self.count as usize)?,
            Arrivals::Window(_) => return None,
        };
        self.count += 1;
        self.last_ps = time_ps;
        Some(time_ps)
    }

    /// Appends the times of the next Interests: those of `count` calls of [`next`](Self::next), or fewer if one is not before
    /// the end of `range`. The first one is not before its begin: random intervals that end earlier are drawn again.
    pub(crate) fn extend(
        &mut self,
        arrivals: &Arrivals,
        consumer: usize,
        random: TraceRandom,
        (count, range): (usize, core::ops::Range<u64>),
        times_ps: &mut Vec<u64>,
    ) {
        let mut words = [0; Self::BLOCK];
        let words = &mut words[..count.min(Self::BLOCK)];
        let (stream, first) = (streams::interval(consumer), self.count);
        let interval = match arrivals {
            Arrivals::Renewal(Distribution::Constant(_))
            | Arrivals::OnOff { .. }
            | Arrivals::Trace(_)
            | Arrivals::Window(_) => None,
            Arrivals::Renewal(interval) => {
                random.first_words(stream, first, words);
                Some(interval)
            }
        };
        for (index, word) in (first..).zip(words) {
            let time_ps = if let Some(interval) = interval {
                let mut draw = random.draw_from(stream, index, *word);
                let mut time_ps = self.last_ps + interval.sample_ps(&mut draw, 1.0);
                while index == first && time_ps < range.start {
                    time_ps = self.last_ps + interval.sample_ps(&mut draw, 1.0);
                }
                self.count += 1;
                self.last_ps = time_ps;
                Some(time_ps)
            } else {
                self.next(arrivals, consumer, random)
            };
            match time_ps.filter(|time_ps| *time_ps < range.end) {
                Some(time_ps) => times_ps.push(time_ps),
                None => return,
            }
        }
    }
}

/// A link in one direction: a transmitter with a bounded queue, a delay, random loss.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Time to transmit an Interest, a Data, a Nack.
    pub transmit_ps: [u64; 3],
    /// Propagation delay; at least 1.
    pub delay_ps: u64,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Packets that may wait for or be in transmission; unlimited if none.
    pub capacity: Option<usize>,
    /// The sender sends at multiples of the first time, the receiver receives at multiples of the second one; 1: at any time.
    pub turns_ps: [u64; 2],
}

impl Link {
    /// The next turn from `time_ps` on.
    #[inline(always)]
    pub(crate) const fn turn_after(time_ps: u64, turn_ps: u64) -> u64 {
        if turn_ps > 1 { time_ps.next_multiple_of(turn_ps) } else { time_ps }
    }
}

/// Where a face leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// The consumer with this number.
    Consumer(usize),
    /// A producer that reads this queue.
    Producer(QueueId),
}

/// A face: its station for input and output, and its links. Consumers' faces come first, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Face {
    /// Where it leads to.
    pub peer: Peer,
    /// Queue (NIC ring) that received packets enter.
    pub input_queue: QueueId,
    /// Queue for packets to transmit, of the station that transmits.
    pub output_queue: QueueId,
    /// Towards the forwarder.
    pub incoming: Link,
    /// Away from the forwarder.
    pub outgoing: Link,
    /// Factor on the service times of Input (placement).
    pub input_factor: f64,
    /// Factor on the service times of Output (placement).
    pub output_factor: f64,
}

/// A partition of PIT and Content Store.
#[derive(Debug, Clone, PartialEq)]
pub struct Shard {
    /// Queues of Interests, Data, Nacks; all of one station, and equal for a shared queue.
    pub queues: [QueueId; 3],
    /// PIT entries; unlimited if none.
    pub pit_capacity: Option<usize>,
    /// Factor on the service times of packets that came from consumers' faces, and from producers'.
    pub forward_factor: [f64; 2],
}

/// The fate of an Interest that waited too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shed {
    /// It is answered with a Nack.
    Nack,
    /// It is dropped.
    Drop,
}

/// CoDel on a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueManagement {
    /// Packets are marked when they waited longer.
    pub mark_after_ps: Option<u64>,
    /// Interests are refused when they waited longer.
    pub shed_after_ps: Option<(u64, Shed)>,
    /// For how long the wait has to be too long.
    pub interval_ps: u64,
}

/// When CoDel regards a queue as short although packets waited in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodelReset {
    /// When the last packet leaves it (RFC 8289, section 5.5; NDN-DPDK).
    LastPacket,
    /// When a poll of its station finds it empty (Namewire).
    EmptyPoll,
}

/// A bounded first-in first-out queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// Name, for reports and properties.
    pub name: String,
    /// The station that polls it.
    pub station: StationId,
    /// The stage of the packets of this station.
    pub stage: Stage,
    /// Packets it holds at most.
    pub capacity: usize,
    /// Packets taken at one poll at most.
    pub burst: usize,
    /// Queues of a lower class are polled first.
    pub class: u8,
    /// CoDel, if any.
    pub management: Option<QueueManagement>,
    /// When CoDel resets.
    pub reset: CodelReset,
    /// A poll that finds this many packets regards them as having waited long enough to be refused; never if
    /// none.
    pub full_at: Option<usize>,
}

/// When the packets of a burst leave a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Each when it is processed.
    EachPacket,
    /// All when the last is processed.
    EndOfBurst,
}

/// A thread that polls queues: of the lowest class that has packets, in cyclic order.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// Name, for reports.
    pub name: String,
    /// Its queues in polling order; those of one class are adjacent.
    pub queues: Vec<QueueId>,
    /// When packets leave.
    pub flush: Flush,
    /// Time of a poll that finds packets, before the first of them.
    pub poll_ps: u64,
}

/// Service times of the stages, before factors.
#[derive(Debug, Clone, PartialEq)]
pub struct Services {
    /// Input of an Interest, a Data, a Nack.
    pub input: [Distribution; 3],
    /// Forward of an Interest, a Data, a Nack.
    pub forward: [Distribution; 3],
    /// Forward of an Interest that the Content Store answers.
    pub forward_hit: Distribution,
    /// Output of an Interest, a Data, a Nack.
    pub output: [Distribution; 3],
    /// The producer's time for an Interest.
    pub produce: Distribution,
}

/// Pauses of processors, in which their threads do nothing: the host of a virtual machine has them run something else.
///
/// A service goes on after a pause where it was. A thread does not poll during a pause. A consumer sends what was due
/// in a pause at its end, and receives then. Pauses are an alternating renewal process of each processor, which begins
/// with an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Pauses {
    /// From the end of a pause to the begin of the next one.
    pub interval: Distribution,
    /// Length of a pause.
    pub length: Distribution,
    /// The processor of each station; none never pauses. All on one processor pause at once.
    pub stations: Vec<Option<usize>>,
    /// The processor of each consumer; none never pauses.
    pub consumers: Vec<Option<usize>>,
}

/// Processors of consumers and producers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PausedTraffic {
    /// They never pause.
    #[default]
    Never,
    /// All are on one processor of their own.
    Own,
    /// They are on the processors of the forwarder's threads in turn: the first consumer on that of the first thread, the first
    /// producer on that of the second one.
    Shared,
}

impl Pauses {
    /// Pauses of all threads of the forwarder: each on its processor, or all on one (`are_together`).
    #[must_use]
    pub fn of_threads(
        network: &Network,
        (interval, length): (Distribution, Distribution),
        are_together: bool,
        traffic: PausedTraffic,
    ) -> Self {
        let is_producer = |station: StationId| {
            network.faces.iter().any(|face| match face.peer {
                Peer::Producer(queue) => network.queues[queue].station == station,
                Peer::Consumer(_) => false,
            })
        };
        let threads = (0..network.stations.len()).filter(|id| !is_producer(*id)).count();
        let outside = |number: usize| match traffic {
            PausedTraffic::Never => None,
            PausedTraffic::Own | PausedTraffic::Shared if are_together => Some(0),
            PausedTraffic::Own => Some(threads),
            PausedTraffic::Shared => Some(number % threads.max(1)),
        };
        let mut next = 0..threads;
        let mut producers = 0..;
        let station = |id| match is_producer(id) {
            true => outside(producers.next().unwrap_or_default() + 1),
            false => next.next().map(|own| if are_together { 0 } else { own }),
        };
        Self {
            interval,
            length,
            stations: (0..network.stations.len()).map(station).collect(),
            consumers: (0..network.consumers.len()).map(outside).collect(),
        }
    }

    /// Number of processors.
    #[must_use]
    pub fn processors(&self) -> usize {
        let used = self.stations.iter().chain(&self.consumers).flatten();
        used.max().map_or(0, |last| last + 1)
    }

    /// The share of the time that they take.
    #[must_use]
    pub fn share(&self) -> f64 {
        let length = self.length.mean();
        length / (length + self.interval.mean())
    }

    fn fault(&self, network: &Network) -> Option<&'static str> {
        let has_window = |(consumer, processor): (&Consumer, &Option<usize>)| {
            processor.is_some() && matches!(consumer.arrivals, Arrivals::Window(_))
        };
        if self.stations.len() != network.stations.len()
            || self.consumers.len() != network.consumers.len()
        {
            return Some("pauses say the processor of each station and consumer");
        }
        if network.consumers.iter().zip(&self.consumers).any(has_window) {
            return Some("a consumer with a window does not pause");
        }
        self.interval.fault().or_else(|| self.length.fault())
    }
}

/// A whole model.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Consumers; number i uses face i.
    pub consumers: Vec<Consumer>,
    /// Consumers' faces, then producers'.
    pub faces: Vec<Face>,
    /// Bounded queues.
    pub queues: Vec<Queue>,
    /// Threads, and producers.
    pub stations: Vec<Station>,
    /// Partitions of PIT and Content Store.
    pub shards: Vec<Shard>,
    /// Service times.
    pub services: Services,
    /// Shard of each prefix: the Name Dispatch Table's choice.
    pub shard_of_prefix: Vec<u16>,
    /// Interest lifetime.
    pub lifetime_ps: u64,
    /// Probability that the Content Store answers.
    pub hit_ratio: f64,
    /// Probability that the producer answers with a Nack.
    pub producer_nack_ratio: f64,
    /// Pauses of processors, if any.
    pub pauses: Option<Pauses>,
}

impl Network {
    /// Number of faces that lead to producers.
    #[must_use]
    pub fn producer_count(&self) -> usize {
        self.faces.len() - self.consumers.len()
    }

    /// The face towards the producer of a prefix.
    #[inline]
    #[must_use]
    pub fn producer_face(&self, prefix: u32) -> usize {
        self.consumers.len() + prefix as usize % self.producer_count()
    }

    /// Whether a station can put packets into a queue: it applies the stage before.
    #[must_use]
    pub fn can_feed(&self, station: StationId, queue: QueueId) -> bool {
        let before = match self.queues[queue].stage {
            Stage::Forward => Stage::Input,
            Stage::Output => Stage::Forward,
            Stage::Input | Stage::Produce => return false,
        };
        self.queues[queue].station != station
            && self.stations[station].queues.iter().any(|own| self.queues[*own].stage == before)
    }

    /// Whether any packet can enter a queue.
    #[must_use]
    pub fn is_fed(&self, queue: QueueId) -> bool {
        let mut faces = self.faces.iter();
        let is_fed_by_stations = || (0..self.stations.len()).any(|from| self.can_feed(from, queue));
        match self.queues[queue].stage {
            Stage::Input | Stage::Produce => faces.any(|face| face.input_queue == queue),
            Stage::Forward => is_fed_by_stations(),
            Stage::Output => faces.any(|face| face.output_queue == queue) && is_fed_by_stations(),
        }
    }

    /// Whether the Content Store answers an Interest.
    #[inline]
    #[must_use]
    pub fn is_hit(&self, random: TraceRandom, interest: u64) -> bool {
        self.hit_ratio > 0.0 && self.draws_hit(random, interest)
    }

    /// Not inlined: the compiler would move the draw out of loops, to where it is not needed.
    #[inline(never)]
    fn draws_hit(&self, random: TraceRandom, interest: u64) -> bool {
        random.draw(streams::HIT, interest).unit() < self.hit_ratio
    }

    /// The producer's answer to an Interest: Data or Nack.
    #[inline]
    #[must_use]
    pub fn answer(&self, random: TraceRandom, interest: u64) -> Kind {
        let is_nack = self.producer_nack_ratio > 0.0
            && random.draw(streams::PRODUCER_NACK, interest).unit() < self.producer_nack_ratio;
        if is_nack { Kind::Nack } else { Kind::Data }
    }

    /// Whether a link loses a packet.
    #[inline]
    #[must_use]
    pub fn is_lost(&self, random: TraceRandom, face: usize, outgoing: bool, interest: u64) -> bool {
        let face_links = &self.faces[face];
        let link = if outgoing { &face_links.outgoing } else { &face_links.incoming };
        // An Interest and its answer pass a link at most once each, in opposite directions.
        link.loss > 0.0 && random.draw(streams::loss(face, outgoing), interest).unit() < link.loss
    }

    /// The first fault of the model, if any.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        if self.consumers.is_empty() || self.producer_count() == 0 || self.shards.is_empty() {
            return Some("a model has at least one consumer, one producer and one shard".into());
        }
        for queue in &self.queues {
            if queue.capacity == 0 || queue.burst == 0 {
                return Some(format!("{}: capacity and burst are at least 1", queue.name));
            }
            if usize::from(queue.class) >= CLASSES_MAX {
                return Some(format!("{}: classes are below {CLASSES_MAX}", queue.name));
            }
        }
        for (index, queue) in self.queues.iter().enumerate() {
            let station = self.stations.get(queue.station);
            if !station.is_some_and(|station| station.queues.contains(&index)) {
                return Some(format!("{}: its station does not poll it", queue.name));
            }
        }
        for face in &self.faces {
            let Peer::Producer(queue) = face.peer else { continue };
            let station = self.stations.get(self.queues[queue].station);
            if station.is_none_or(|station| station.queues.len() > 1)
                || self.queues[queue].burst > 1
                || self.queues[queue].management.is_some()
            {
                return Some("a producer takes one packet at a time from one queue".into());
            }
        }
        for station in &self.stations {
            if station.queues.windows(2).any(|w| self.queues[w[0]].class > self.queues[w[1]].class)
            {
                return Some(format!("{}: queues are in order of their classes", station.name));
            }
        }
        for link in self.faces.iter().flat_map(|face| [&face.incoming, &face.outgoing]) {
            let has_times = link.delay_ps > 0 && !link.turns_ps.contains(&0);
            let is_possible = has_times && link.capacity != Some(0);
            if !is_possible || !(0.0..=1.0).contains(&link.loss) {
                return Some(
                    "a link has a delay and a turn of at least 1 ps, a loss of 0 to 1, room for a packet"
                        .into(),
                );
            }
        }
        let consumers = self.consumers.iter();
        let prefixes = consumers.map(|c| c.first_prefix as usize + c.prefix_cdf.len()).max();
        if self.consumers.iter().any(|c| c.prefix_cdf.is_empty())
            || prefixes > Some(self.shard_of_prefix.len())
        {
            return Some("every prefix of a consumer has a shard".into());
        }
        let mut windows = self.consumers.iter().filter_map(|consumer| match &consumer.arrivals {
            Arrivals::Window(window) => window.fault(),
            Arrivals::Renewal(_) | Arrivals::OnOff { .. } | Arrivals::Trace(_) => None,
        });
        if let Some(fault) = windows.next() {
            return Some(fault.into());
        }
        if self.shard_of_prefix.iter().any(|shard| usize::from(*shard) >= self.shards.len()) {
            return Some("the dispatch table names shards that exist".into());
        }
        let in_pauses = self.pauses.as_ref().and_then(|pauses| pauses.fault(self));
        let fault = in_pauses.or_else(|| self.services.all().find_map(Distribution::fault));
        fault.map(str::to_owned)
    }
}

impl Services {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Distribution> {
        let kinds = self.input.iter().chain(&self.forward).chain(&self.output);
        kinds.chain([&self.forward_hit, &self.produce])
    }
}

/// The order in which an Interest and its answer need random numbers.
pub mod order {
    use super::{Kind, Stage};

    /// The producer's answer: Data or Nack.
    pub const ANSWER: u8 = 4;
    /// Whether the Content Store answers.
    pub const HIT: u8 = 2;

    /// Service of a stage for a kind of packet.
    #[must_use]
    pub const fn service(stage: Stage, kind: Kind) -> u8 {
        match (stage, kind) {
            (Stage::Input, Kind::Interest) => 1,
            (Stage::Forward, Kind::Interest) => HIT,
            (Stage::Output, Kind::Interest) => 3,
            (Stage::Produce, _) => ANSWER,
            (Stage::Input, Kind::Data | Kind::Nack) => 5,
            (Stage::Forward, Kind::Data | Kind::Nack) => 6,
            (Stage::Output, Kind::Data | Kind::Nack) => 7,
        }
    }

    /// Loss on a link of the face of a consumer, or of a producer; `outgoing` is away from the forwarder.
    #[must_use]
    pub const fn loss(is_consumer: bool, outgoing: bool) -> u8 {
        match (is_consumer, outgoing) {
            (true, false) => 0,
            (false, true) => 3,
            (false, false) => ANSWER,
            (true, true) => 7,
        }
    }
}

/// Streams of random numbers. Services are keyed by stage and kind, not by thread: a packet's service
/// times are the same in designs with different threads.
pub mod streams {
    use super::{Kind, Stage, StreamId};

    /// Service of a stage for a kind of packet; indexed by the Interest's number.
    #[inline]
    #[must_use]
    pub const fn service(stage: Stage, kind: Kind) -> StreamId {
        StreamId(0x100 + 4 * stage as u32 + kind as u32)
    }
    /// Service of Forward for a Content Store hit.
    pub const SERVICE_OF_HIT: StreamId = StreamId(0x180);
    /// Which prefix an Interest has.
    pub const PREFIX: StreamId = StreamId(0x181);
    /// Whether the Content Store answers.
    pub const HIT: StreamId = StreamId(0x182);
    /// Whether the producer answers with a Nack.
    pub const PRODUCER_NACK: StreamId = StreamId(0x183);
    /// Loss on a face's link; `outgoing` is away from the forwarder.
    #[inline]
    #[must_use]
    pub const fn loss(face: usize, outgoing: bool) -> StreamId {
        StreamId(0x1_0000 + 2 * face as u32 + outgoing as u32)
    }
    /// Intervals of a consumer; indexed by the Interest's number at that consumer.
    #[inline]
    #[must_use]
    pub const fn interval(consumer: usize) -> StreamId {
        StreamId(0x2_0000 + 2 * consumer as u32)
    }
    /// From the end of a pause of a processor to the begin of the next one; indexed by the number of the latter.
    #[inline]
    #[must_use]
    pub const fn pause_interval(processor: usize) -> StreamId {
        StreamId(0x3_0000 + 2 * processor as u32)
    }
    /// Length of a pause of a processor; indexed by its number.
    #[inline]
    #[must_use]
    pub const fn pause_length(processor: usize) -> StreamId {
        StreamId(0x3_0001 + 2 * processor as u32)
    }
    /// On- and off-periods of a consumer; indexed by the period's number.
    #[inline]
    #[must_use]
    pub const fn period(consumer: usize) -> StreamId {
        StreamId(0x2_0001 + 2 * consumer as u32)
    }
}

/// The end of an Interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It has not ended.
    Pending,
    /// Its Data reached the consumer within the lifetime.
    Satisfied,
    /// Its Data reached the consumer after the lifetime, or the forwarder after the PIT entry expired.
    Late,
    /// A Nack reached the consumer.
    Nacked,
    /// It, its Data or its Nack found this queue full.
    QueueFull(u16),
    /// It was dropped by the management of this queue.
    Shed(u16),
    /// It found the PIT of its shard full.
    PitFull(u16),
    /// It, its Data or its Nack was lost on a link of this face.
    LinkLoss(u16),
    /// It, its Data or its Nack found the transmitter of a link of this face full.
    LinkFull(u16),
}

impl Outcome {
    /// Whether the Interest has ended without its Data.
    #[must_use]
    pub const fn is_lost(self) -> bool {
        match self {
            Self::Pending | Self::Satisfied => false,
            Self::Late
            | Self::Nacked
            | Self::QueueFull(_)
            | Self::Shed(_)
            | Self::PitFull(_)
            | Self::LinkLoss(_)
            | Self::LinkFull(_) => true,
        }
    }
}

/// The outcome of one Interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// When the consumer sent it.
    pub created_ps: u64,
    /// When it ended.
    pub ended_ps: u64,
    /// The outcome.
    pub outcome: Outcome,
    /// Whether a queue marked it or its Data.
    pub is_marked: bool,
    /// A digest of all stations, stages and times that it and its Data passed.
    pub digest: u64,
}

impl Record {
    /// An Interest that was sent at `created_ps`.
    #[must_use]
    pub const fn new(created_ps: u64) -> Self {
        Self { created_ps, ended_ps: 0, outcome: Outcome::Pending, is_marked: false, digest: 0 }
    }

    /// Folds a completed stage into the digest.
    #[inline]
    pub const fn pass(&mut self, station: StationId, stage: Stage, time_ps: u64) {
        let mixed =
            self.digest.rotate_left(17) ^ time_ps ^ ((station as u64) << 56 | (stage as u64) << 52);
        self.digest = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Statistics of a queue over a whole trace, warm-up and drain included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueRecord {
    /// Packets that entered.
    pub entered: u64,
    /// Packets that found it full.
    pub dropped: u64,
    /// Most packets in it.
    pub length_max: usize,
    /// Sum of the waiting times of the packets that left, in picoseconds.
    pub waited_ps: u128,
}

/// The result of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceResult {
    /// One record per Interest, in order of creation.
    pub records: Vec<Record>,
    /// One record per queue.
    pub queues: Vec<QueueRecord>,
    /// Most live PIT entries over the whole trace, per shard.
    pub pit_max: Vec<usize>,
}
