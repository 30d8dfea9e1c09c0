//! The fast engine: departure recursions over merged streams, without an event heap.
//!
//! Each station is advanced burst by burst. Between two polls of a station its queues only grow, so
//! what a queue accepted and dropped follows at the next poll from the merged, monotone streams of
//! arrivals. Services and links take at least one picosecond: if the station with the earliest next poll
//! goes first, all arrivals up to that poll are known. A producer has one stream of arrivals and takes one
//! packet at a time: when its packets leave follows from the stream alone, without polls.
//!
//! Per packet, results are the same bits as those of [`reference`](crate::reference).

use std::collections::VecDeque;

use crate::codel::Codel;
use crate::distribution::{Distribution, to_ps};
use crate::network::{
    ArrivalClock, CLASSES_MAX, CodelReset, Consumer, Flush, Kind, Network, Outcome, Peer,
    QueueRecord, Record, Shed, Stage, TraceResult, streams,
};
use crate::random::{StreamId, TraceRandom};

/// Interests that are generated ahead at once.
const ARRIVALS_AHEAD: usize = 64;
const NEVER: u64 = u64::MAX;

/// Runs traces of one network. Buffers are kept from trace to trace.
#[derive(Debug)]
pub struct FastEngine<'n> {
    network: &'n Network,
    /// The stations that poll: all but the producers.
    stations: Vec<Station>,
    /// When each of them polls next; the last entry is when the next Interest is generated.
    next_ps: Vec<u64>,
    /// All queues; those of producers are not used.
    queues: Vec<Queue>,
    /// Streams of arrivals, those of one queue adjacent, in the order in which arrivals at one instant enter
    /// it: stations, then links.
    channels: Vec<Channel>,
    /// When the first packet of each channel arrives.
    heads_ps: Vec<u64>,
    /// Channel from a station to a queue.
    channel_of: Vec<Vec<Option<usize>>>,
    /// Incoming and outgoing link of each face.
    links: Vec<[Link; 2]>,
    producers: Vec<Producer>,
    shards: Vec<Shard>,
    sources: Vec<Source>,
    services: Services<'n>,
    /// Expiry of each Interest's PIT entry; 0 without one.
    pit_expiry_ps: Vec<u64>,
    /// For each consumer, where the search for a prefix begins.
    guides: Vec<Vec<usize>>,
    /// Whether anything depends on the prefix of an Interest.
    needs_prefixes: bool,
    has_digests: bool,
    /// Packets that leave at the end of the burst.
    leaving: Vec<(Packet, Exit)>,
    random: TraceRandom,
    horizon_ps: u64,
    results: TraceResult,
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    time_ps: u64,
    id: u32,
    prefix: u32,
    consumer: u16,
    face: u16,
    shard: u16,
    form: Form,
}

/// Kind of a packet, and whether it is a Nack that the forwarder itself has made. Without invalid values: the
/// compiler copies packets whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form(u16);

impl Form {
    const REFUSAL: Self = Self(3);

    const fn new(kind: Kind) -> Self {
        Self(kind as u16)
    }

    #[inline]
    const fn kind(self) -> Kind {
        match self.0 {
            0 => Kind::Interest,
            1 => Kind::Data,
            _ => Kind::Nack,
        }
    }
}

/// Where a packet goes from a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Exit(u32);

impl Exit {
    const GONE: Self = Self(u32::MAX);
    /// On the link of its face.
    const LINK: Self = Self(u32::MAX - 1);

    const fn queue(queue: usize) -> Self {
        Self(queue as u32)
    }
}

#[derive(Debug)]
struct Station {
    /// Its number in the network.
    id: usize,
    poll_ps: u64,
    is_each: bool,
    /// Queues that anything can enter, with their positions at the station, in order of class.
    fed: Vec<(usize, usize)>,
    free_ps: u64,
    /// Position of the queue that was polled last, per class.
    last: [usize; CLASSES_MAX],
}

#[derive(Debug)]
struct Queue {
    stage: Stage,
    class: u8,
    resets_at_empty_poll: bool,
    is_managed: bool,
    capacity: usize,
    burst: usize,
    full_at: usize,
    /// Range of its channels.
    channels: (usize, usize),
    /// When the next packet arrives, of all its channels.
    next_arrival_ps: u64,
    packets: VecDeque<Packet>,
    marks: Option<Codel>,
    sheds: Option<Codel>,
    record: QueueRecord,
}

#[derive(Debug)]
struct Channel {
    station: usize,
    queue: usize,
    packets: VecDeque<Packet>,
}

/// Where a link leads to.
#[derive(Debug, Clone, Copy)]
enum End {
    Channel(usize),
    Producer,
    Consumer,
}

#[derive(Debug)]
struct Link {
    transmit_ps: [u64; 3],
    delay_ps: u64,
    has_loss: bool,
    capacity: usize,
    end: End,
    sent_ps: u64,
    /// Ends of the last transmissions, as many as the link holds packets; kept where that is limited.
    recent_ps: VecDeque<u64>,
}

/// A producer: a station with one queue, from which it takes one packet at a time.
#[derive(Debug)]
struct Producer {
    station: usize,
    queue: usize,
    poll_ps: u64,
    capacity: usize,
    free_ps: u64,
    /// When the packets that may still be in the queue leave it.
    starts_ps: VecDeque<u64>,
    record: QueueRecord,
}

#[derive(Debug, Default)]
struct Shard {
    live: usize,
    /// Expiry and Interest of the entries in order of insertion; kept where the PIT is limited.
    entries: VecDeque<(u64, u32)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Source {
    clock: ArrivalClock,
    next_ps: u64,
}

/// Service times of one stage and kind of packet at one place.
#[derive(Debug, Clone, Copy)]
struct Service<'n> {
    law: &'n Distribution,
    factor: f64,
    stream: StreamId,
    /// The service time if it is constant, else 0.
    constant_ps: u64,
    /// Index of its variates that are drawn with the Interests; none: they are drawn when needed.
    ahead: Option<usize>,
}

/// Variates of one stage and kind of packet, drawn for all Interests as they are generated: independent draws
/// side by side take less time than each between two decisions.
#[derive(Debug)]
struct Ahead<'n> {
    law: &'n Distribution,
    stream: StreamId,
    variates: Vec<f64>,
}

impl<'n> Service<'n> {
    fn new(law: &'n Distribution, factor: f64, stream: StreamId) -> Self {
        let constant_ps =
            if let Distribution::Constant(value) = law { to_ps(value * factor) } else { 0 };
        Self { law, factor, stream, constant_ps, ahead: None }
    }

    /// Draws the variates with the Interests, unless they are constant.
    fn draw_ahead(&mut self, ahead: &mut Vec<Ahead<'n>>) {
        if self.constant_ps != 0 {
            return;
        }
        let known = ahead.iter().position(|other| other.stream == self.stream);
        self.ahead = known.or(Some(ahead.len()));
        if known.is_none() {
            ahead.push(Ahead { law: self.law, stream: self.stream, variates: Vec::new() });
        }
    }

    #[inline]
    fn time_ps(&self, ahead: &[Ahead<'_>], random: TraceRandom, interest: u32) -> u64 {
        if self.constant_ps != 0 {
            return self.constant_ps;
        }
        if let Some(ahead) = self.ahead.and_then(|index| ahead.get(index)) {
            return to_ps(ahead.variates[interest as usize] * self.factor);
        }
        self.law.sample_ps(&mut random.draw(self.stream, u64::from(interest)), self.factor)
    }
}

#[derive(Debug)]
struct Services<'n> {
    /// By face and kind.
    input: Vec<[Service<'n>; 3]>,
    output: Vec<[Service<'n>; 3]>,
    /// By shard, whether the packet came from a producer, and kind.
    forward: Vec<[[Service<'n>; 3]; 2]>,
    /// By shard.
    hit: Vec<Service<'n>>,
    produce: Service<'n>,
    ahead: Vec<Ahead<'n>>,
}

impl<'n> Services<'n> {
    fn new(network: &'n Network) -> Self {
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
        // Every Interest needs these, and most of their answers; Nacks and hits are drawn when needed.
        let kinds = if network.hit_ratio < 0.5 { 2 } else { 1 };
        let of_faces = all.input.iter_mut().chain(&mut all.output);
        let of_shards = all.forward.iter_mut().flatten();
        for service in of_faces.chain(of_shards).flat_map(|by_kind| &mut by_kind[..kinds]) {
            service.draw_ahead(&mut all.ahead);
        }
        all.produce.draw_ahead(&mut all.ahead);
        all
    }
}

impl<'n> FastEngine<'n> {
    /// An engine for traces of `network`, which has no [`fault`](Network::fault).
    #[must_use]
    pub fn new(network: &'n Network) -> Self {
        let producer_queues = network.faces.iter().filter_map(|face| match face.peer {
            Peer::Producer(queue) => Some(queue),
            Peer::Consumer(_) => None,
        });
        let producers: Vec<Producer> = producer_queues
            .map(|queue| {
                let spec = &network.queues[queue];
                Producer {
                    station: spec.station,
                    queue,
                    poll_ps: network.stations[spec.station].poll_ps,
                    capacity: spec.capacity,
                    free_ps: 0,
                    starts_ps: VecDeque::new(),
                    record: QueueRecord::default(),
                }
            })
            .collect();
        let polls = |id: &usize| producers.iter().all(|producer| producer.station != *id);
        let stations: Vec<Station> = (0..network.stations.len())
            .filter(polls)
            .map(|id| Station {
                id,
                poll_ps: network.stations[id].poll_ps,
                is_each: network.stations[id].flush == Flush::EachPacket,
                fed: Vec::new(),
                free_ps: 0,
                last: [0; CLASSES_MAX],
            })
            .collect();
        let mut engine = Self {
            network,
            next_ps: vec![NEVER; stations.len() + 1],
            stations,
            queues: network.queues.iter().map(Queue::new).collect(),
            channels: Vec::new(),
            heads_ps: Vec::new(),
            channel_of: vec![vec![None; network.queues.len()]; network.stations.len()],
            links: Vec::new(),
            producers,
            shards: network.shards.iter().map(|_| Shard::default()).collect(),
            sources: vec![Source::default(); network.consumers.len()],
            services: Services::new(network),
            pit_expiry_ps: Vec::new(),
            guides: network.consumers.iter().map(guide).collect(),
            needs_prefixes: network.shards.len() > 1 || network.producer_count() > 1,
            has_digests: true,
            leaving: Vec::new(),
            random: TraceRandom::new(0, 0),
            horizon_ps: 0,
            results: TraceResult::default(),
        };
        engine.connect();
        engine
    }

    /// An engine that leaves the digests of the records at 0: they serve to compare engines.
    #[must_use]
    pub fn without_digests(network: &'n Network) -> Self {
        Self { has_digests: false, ..Self::new(network) }
    }

    /// Runs one trace: every consumer sends until `horizon_ps`, and all packets end.
    pub fn run(&mut self, random: TraceRandom, horizon_ps: u64) -> &TraceResult {
        self.reset(random, horizon_ps);
        let generate = self.stations.len();
        loop {
            let (mut earliest, mut now_ps) = (0, NEVER);
            for (station, next_ps) in self.next_ps.iter().enumerate() {
                if *next_ps < now_ps {
                    (earliest, now_ps) = (station, *next_ps);
                }
            }
            if now_ps == NEVER {
                break;
            }
            if earliest == generate {
                self.generate();
            } else {
                self.poll(earliest, now_ps);
            }
        }
        self.results.queues.clear();
        self.results.queues.extend(self.queues.iter().map(|queue| queue.record));
        for producer in &self.producers {
            self.results.queues[producer.queue] = producer.record;
        }
        &self.results
    }

    fn connect(&mut self) {
        let network = self.network;
        let mut incoming_channels = vec![None; network.faces.len()];
        for queue in 0..network.queues.len() {
            let begin = self.channels.len();
            let owner = network.queues[queue].station;
            let Some(station) = self.stations.iter().position(|station| station.id == owner) else {
                continue;
            };
            for from in 0..network.stations.len() {
                if network.can_feed(from, queue) {
                    self.channel_of[from][queue] = Some(self.open_channel(station, queue));
                }
            }
            for (face, spec) in network.faces.iter().enumerate() {
                if spec.input_queue == queue {
                    incoming_channels[face] = Some(self.open_channel(station, queue));
                }
            }
            self.queues[queue].channels = (begin, self.channels.len());
            if begin < self.channels.len() {
                let order = &network.stations[owner].queues;
                let position = order.iter().position(|own| *own == queue).unwrap_or(0);
                self.stations[station].fed.push((position, queue));
            }
        }
        for station in &mut self.stations {
            station.fed.sort_unstable();
        }
        for (face, spec) in network.faces.iter().enumerate() {
            let outgoing = match spec.peer {
                Peer::Producer(_) => End::Producer,
                Peer::Consumer(_) => End::Consumer,
            };
            let incoming = incoming_channels[face].map_or(End::Consumer, End::Channel);
            self.links
                .push([Link::new(&spec.incoming, incoming), Link::new(&spec.outgoing, outgoing)]);
        }
    }

    fn open_channel(&mut self, station: usize, queue: usize) -> usize {
        self.channels.push(Channel { station, queue, packets: VecDeque::new() });
        self.heads_ps.push(NEVER);
        self.channels.len() - 1
    }

    fn reset(&mut self, random: TraceRandom, horizon_ps: u64) {
        (self.random, self.horizon_ps) = (random, horizon_ps);
        self.results.records.clear();
        self.pit_expiry_ps.clear();
        for ahead in &mut self.services.ahead {
            ahead.variates.clear();
        }
        self.results.pit_max.clear();
        self.results.pit_max.resize(self.shards.len(), 0);
        self.next_ps.fill(NEVER);
        for station in &mut self.stations {
            station.free_ps = 0;
            let queues = self.network.stations[station.id].queues.len();
            station.last.fill(queues.saturating_sub(1));
        }
        for (queue, spec) in self.queues.iter_mut().zip(&self.network.queues) {
            let interval_ps = spec.management.map_or(0, |m| m.interval_ps);
            let mark_after = spec.management.and_then(|m| m.mark_after_ps);
            let shed_after = spec.management.and_then(|m| m.shed_after_ps);
            queue.marks = mark_after.map(|after_ps| Codel::new(after_ps, interval_ps));
            queue.sheds = shed_after.map(|(after_ps, _)| Codel::new(after_ps, interval_ps));
            queue.record = QueueRecord::default();
        }
        for link in self.links.iter_mut().flatten() {
            link.sent_ps = 0;
            link.recent_ps.clear();
        }
        for producer in &mut self.producers {
            producer.free_ps = 0;
            producer.starts_ps.clear();
            producer.record = QueueRecord::default();
        }
        for shard in &mut self.shards {
            shard.live = 0;
            shard.entries.clear();
        }
        for consumer in 0..self.sources.len() {
            self.sources[consumer] = Source::default();
            self.advance_source(consumer);
        }
        self.schedule_generation();
    }

    #[inline]
    fn advance_source(&mut self, consumer: usize) {
        let arrivals = &self.network.consumers[consumer].arrivals;
        let source = &mut self.sources[consumer];
        let next_ps = source.clock.next(arrivals, consumer, self.random);
        source.next_ps = next_ps.filter(|next_ps| *next_ps < self.horizon_ps).unwrap_or(NEVER);
    }

    #[inline]
    fn earliest_source(&self) -> (usize, u64) {
        let mut earliest = (0, self.sources[0].next_ps);
        for (consumer, source) in self.sources.iter().enumerate().skip(1) {
            if source.next_ps < earliest.1 {
                earliest = (consumer, source.next_ps);
            }
        }
        earliest
    }

    fn schedule_generation(&mut self) {
        let generate = self.stations.len();
        self.next_ps[generate] = self.earliest_source().1;
    }

    /// Puts the next Interests of all consumers on their links, in order of time.
    fn generate(&mut self) {
        let begin = self.results.records.len() as u64;
        for _ in 0..ARRIVALS_AHEAD {
            let (consumer, time_ps) = self.earliest_source();
            if time_ps == NEVER {
                break;
            }
            let id = self.results.records.len() as u32;
            self.results.records.push(Record::new(time_ps));
            self.pit_expiry_ps.push(0);
            let spec = &self.network.consumers[consumer];
            let prefix = if self.needs_prefixes && spec.prefix_cdf.len() > 1 {
                let unit = self.random.draw(streams::PREFIX, u64::from(id)).unit();
                guided_prefix(spec, &self.guides[consumer], unit)
            } else {
                spec.first_prefix
            };
            let packet = Packet {
                time_ps,
                id,
                prefix,
                consumer: consumer as u16,
                face: consumer as u16,
                shard: 0,
                form: Form::new(Kind::Interest),
            };
            self.transmit(packet, consumer, false);
            self.advance_source(consumer);
        }
        let end = self.results.records.len() as u64;
        for Ahead { law, stream, variates } in &mut self.services.ahead {
            variates.extend(
                (begin..end).map(|interest| law.sample(&mut self.random.draw(*stream, interest))),
            );
        }
        self.schedule_generation();
    }

    #[inline]
    fn poll(&mut self, station: usize, now_ps: u64) {
        // A station that waits polls all the time: it found all its queues empty.
        let has_idled = now_ps > self.stations[station].free_ps;
        let mut chosen: Option<(usize, usize)> = None;
        let mut has_choice = false;
        for index in 0..self.stations[station].fed.len() {
            let (position, queue) = self.stations[station].fed[index];
            if self.queues[queue].next_arrival_ps <= now_ps {
                self.admit(queue, now_ps);
            }
            let state = &mut self.queues[queue];
            if state.resets_at_empty_poll {
                state.note_poll(has_idled);
            }
            if !state.packets.is_empty() {
                has_choice |= chosen.is_some();
                chosen = chosen.or(Some((position, queue)));
            }
        }
        let mut time_ps = now_ps;
        if let Some(first) = chosen {
            let (position, queue) = if has_choice { self.choose(station, first) } else { first };
            let class = usize::from(self.queues[queue].class);
            self.stations[station].last[class] = position;
            time_ps = self.serve(station, queue, now_ps);
        }
        self.stations[station].free_ps = time_ps;
        self.next_ps[station] = self.next_poll(station, time_ps);
    }

    /// Moves arrivals up to `now_ps` into the queue, as far as it has room; no packet left it meanwhile.
    #[inline]
    fn admit(&mut self, queue: usize, now_ps: u64) {
        let (begin, end) = self.queues[queue].channels;
        loop {
            let (mut channel, mut first_ps) = (begin, self.heads_ps[begin]);
            for other in begin + 1..end {
                if self.heads_ps[other] < first_ps {
                    (channel, first_ps) = (other, self.heads_ps[other]);
                }
            }
            if first_ps > now_ps {
                self.queues[queue].next_arrival_ps = first_ps;
                return;
            }
            let waiting = &mut self.channels[channel].packets;
            let Some(packet) = waiting.pop_front() else { return };
            self.heads_ps[channel] = waiting.front().map_or(NEVER, |packet| packet.time_ps);
            let state = &mut self.queues[queue];
            if state.packets.len() >= state.capacity {
                state.record.dropped += 1;
                self.end(packet.id, packet.time_ps, Outcome::QueueFull(queue as u16));
                continue;
            }
            state.packets.push_back(packet);
            state.record.entered += 1;
            state.record.length_max = state.record.length_max.max(state.packets.len());
        }
    }

    /// Of several queues with packets, `first` being the first of them: of its class, in cyclic order after the
    /// last one.
    fn choose(&self, station: usize, first: (usize, usize)) -> (usize, usize) {
        let station = &self.stations[station];
        let class = self.queues[first.1].class;
        let last = station.last[usize::from(class)];
        let after = station.fed.iter().copied().find(|(position, queue)| {
            let state = &self.queues[*queue];
            *position > last && state.class == class && !state.packets.is_empty()
        });
        after.unwrap_or(first)
    }

    #[inline]
    fn next_poll(&self, station: usize, free_ps: u64) -> u64 {
        let mut earliest_ps = NEVER;
        for (_, queue) in &self.stations[station].fed {
            let state = &self.queues[*queue];
            if !state.packets.is_empty() {
                return free_ps;
            }
            earliest_ps = earliest_ps.min(state.next_arrival_ps);
        }
        earliest_ps.max(free_ps)
    }

    /// Takes a burst from the queue at `now_ps`; returns when its last packet is processed.
    #[inline]
    fn serve(&mut self, station: usize, queue: usize, now_ps: u64) -> u64 {
        let Station { id, mut poll_ps, is_each, .. } = self.stations[station];
        let state = &self.queues[queue];
        let (stage, is_managed) = (state.stage, state.is_managed);
        let length = state.packets.len();
        let is_full = length >= state.full_at;
        let count = state.burst.min(length);
        // The end of one packet is the end of a burst of one.
        let is_each = is_each || count == 1;
        let mut time_ps = now_ps;
        // Management reads the queue as it is at the poll: verdicts come before any processing, and
        // processing does not touch the queue.
        for _ in 0..count {
            let state = &mut self.queues[queue];
            let Some(mut packet) = state.packets.pop_front() else { break };
            state.record.waited_ps += u128::from(now_ps - packet.time_ps);
            if is_managed && !self.manage(queue, &mut packet, now_ps, is_full) {
                continue;
            }
            packet.time_ps = time_ps + poll_ps;
            poll_ps = 0;
            let exit = self.process(id, stage, &mut packet);
            time_ps = packet.time_ps;
            if is_each {
                self.leave(id, packet, exit);
            } else if exit != Exit::GONE {
                self.leaving.push((packet, exit));
            }
        }
        if !is_each {
            let mut leaving = std::mem::take(&mut self.leaving);
            for (mut packet, exit) in leaving.drain(..) {
                packet.time_ps = time_ps;
                self.leave(id, packet, exit);
            }
            self.leaving = leaving;
        }
        time_ps
    }

    /// Applies the queue's management to a packet that leaves it; returns false if it is dropped.
    #[inline]
    fn manage(&mut self, queue: usize, packet: &mut Packet, now_ps: u64, is_full: bool) -> bool {
        let spec = &self.network.queues[queue];
        let shed_after_ps = spec.management.and_then(|m| m.shed_after_ps);
        let state = &mut self.queues[queue];
        let is_last = spec.reset == CodelReset::LastPacket && state.packets.is_empty();
        let mut sojourn_ps = now_ps - packet.time_ps;
        if let (true, Some((after_ps, _))) = (is_full, shed_after_ps) {
            sojourn_ps = sojourn_ps.max(after_ps);
        }
        let marks = state.marks.as_mut().is_some_and(|c| c.leave(now_ps, sojourn_ps, is_last));
        let sheds = packet.form == Form::new(Kind::Interest)
            && state.sheds.as_mut().is_some_and(|c| c.leave(now_ps, sojourn_ps, is_last));
        match (sheds, shed_after_ps) {
            (true, Some((_, Shed::Drop))) => {
                self.end(packet.id, now_ps, Outcome::Shed(queue as u16));
                return false;
            }
            (true, Some((_, Shed::Nack))) => {
                packet.form = Form::REFUSAL;
            }
            (true, None) | (false, _) => {
                if marks {
                    self.results.records[packet.id as usize].is_marked = true;
                }
            }
        }
        true
    }

    /// Runs the packet through its stages as far as they belong to this station.
    #[inline]
    fn process(&mut self, station: usize, mut stage: Stage, packet: &mut Packet) -> Exit {
        let network = self.network;
        loop {
            let is_hit = stage == Stage::Forward
                && packet.form == Form::new(Kind::Interest)
                && network.is_hit(self.random, u64::from(packet.id));
            packet.time_ps += self.service_ps(stage, packet, is_hit);
            if self.has_digests {
                self.results.records[packet.id as usize].pass(station, stage, packet.time_ps);
            }
            let queue = match stage {
                Stage::Input => {
                    packet.shard = network.shard_of_prefix[packet.prefix as usize];
                    stage = Stage::Forward;
                    network.shards[usize::from(packet.shard)].queues[packet.form.kind() as usize]
                }
                Stage::Forward => {
                    let Some(face) = self.forward(packet, is_hit) else { return Exit::GONE };
                    packet.face = face as u16;
                    stage = Stage::Output;
                    network.faces[face].output_queue
                }
                Stage::Output | Stage::Produce => {
                    return Exit::LINK;
                }
            };
            if network.queues[queue].station != station {
                return Exit::queue(queue);
            }
        }
    }

    #[inline]
    fn service_ps(&self, stage: Stage, packet: &Packet, is_hit: bool) -> u64 {
        let kind = packet.form.kind() as usize;
        let service = match stage {
            Stage::Input => &self.services.input[usize::from(packet.face)][kind],
            Stage::Forward => {
                let shard = usize::from(packet.shard);
                let is_from_producer = kind != 0 && packet.form != Form::REFUSAL;
                if is_hit {
                    &self.services.hit[shard]
                } else {
                    &self.services.forward[shard][usize::from(is_from_producer)][kind]
                }
            }
            Stage::Output => &self.services.output[usize::from(packet.face)][kind],
            Stage::Produce => &self.services.produce,
        };
        service.time_ps(&self.services.ahead, self.random, packet.id)
    }

    /// PIT and Content Store: the face that the packet goes to; none if it ends here.
    #[inline]
    fn forward(&mut self, packet: &mut Packet, is_hit: bool) -> Option<usize> {
        let now_ps = packet.time_ps;
        let id = packet.id as usize;
        if is_hit {
            packet.form = Form::new(Kind::Data);
            return Some(usize::from(packet.consumer));
        }
        if packet.form == Form::REFUSAL {
            return Some(usize::from(packet.consumer));
        }
        if packet.form == Form::new(Kind::Interest) {
            if !self.insert_pit_entry(packet) {
                self.end(packet.id, now_ps, Outcome::PitFull(packet.shard));
                return None;
            }
            self.pit_expiry_ps[id] = now_ps + self.network.lifetime_ps;
            return Some(self.network.producer_face(packet.prefix));
        }
        if self.pit_expiry_ps[id] <= now_ps {
            self.end(packet.id, now_ps, Outcome::Late);
            return None;
        }
        self.pit_expiry_ps[id] = 0;
        self.shards[usize::from(packet.shard)].live -= 1;
        Some(usize::from(packet.consumer))
    }

    /// Makes room by the entries that expired; returns false if the PIT is full nevertheless.
    #[inline]
    fn insert_pit_entry(&mut self, packet: &Packet) -> bool {
        let index = usize::from(packet.shard);
        let shard = &mut self.shards[index];
        if let Some(capacity) = self.network.shards[index].pit_capacity {
            while let Some((expiry_ps, id)) = shard.entries.front().copied()
                && expiry_ps <= packet.time_ps
            {
                shard.entries.pop_front();
                let expiry = &mut self.pit_expiry_ps[id as usize];
                shard.live -= usize::from(*expiry != 0);
                *expiry = 0;
            }
            if shard.live >= capacity {
                return false;
            }
            shard.entries.push_back((packet.time_ps + self.network.lifetime_ps, packet.id));
            let pit_max = &mut self.results.pit_max[index];
            *pit_max = (*pit_max).max(shard.live + 1);
        }
        shard.live += 1;
        true
    }

    #[inline]
    fn leave(&mut self, station: usize, packet: Packet, exit: Exit) {
        match exit {
            Exit::GONE => {}
            Exit::LINK => {
                let face = usize::from(packet.face);
                if let Some(packet) = self.transmit(packet, face, true) {
                    self.produce(packet, face);
                }
            }
            Exit(queue) => {
                if let Some(channel) = self.channel_of[station][queue as usize] {
                    self.push(channel, packet);
                }
            }
        }
    }

    #[inline]
    fn push(&mut self, channel: usize, packet: Packet) {
        let target = &mut self.channels[channel];
        if target.packets.is_empty() {
            self.heads_ps[channel] = packet.time_ps;
            let queue = &mut self.queues[target.queue];
            queue.next_arrival_ps = queue.next_arrival_ps.min(packet.time_ps);
        }
        let poll_ps = packet.time_ps.max(self.stations[target.station].free_ps);
        let next_ps = &mut self.next_ps[target.station];
        *next_ps = (*next_ps).min(poll_ps);
        target.packets.push_back(packet);
    }

    /// Puts the packet on a link at its time; it comes out at the other end. Returns it if that is a
    /// producer.
    #[inline]
    fn transmit(&mut self, mut packet: Packet, face: usize, outgoing: bool) -> Option<Packet> {
        let link = &mut self.links[face][usize::from(outgoing)];
        let sent_ps =
            link.sent_ps.max(packet.time_ps) + link.transmit_ps[packet.form.kind() as usize];
        if link.capacity != usize::MAX {
            if link.recent_ps.len() == link.capacity {
                if link.recent_ps[0] > packet.time_ps {
                    self.end(packet.id, packet.time_ps, Outcome::LinkFull(face as u16));
                    return None;
                }
                link.recent_ps.pop_front();
            }
            link.recent_ps.push_back(sent_ps);
        }
        link.sent_ps = sent_ps;
        packet.time_ps = sent_ps + link.delay_ps;
        let end = link.end;
        if link.has_loss && self.network.is_lost(self.random, face, outgoing, u64::from(packet.id))
        {
            self.end(packet.id, packet.time_ps, Outcome::LinkLoss(face as u16));
            return None;
        }
        match end {
            End::Channel(channel) => {
                // Input finds the face on the packet.
                packet.face = face as u16;
                self.push(channel, packet);
                None
            }
            End::Producer => Some(packet),
            End::Consumer => {
                self.reach_consumer(packet);
                None
            }
        }
    }

    /// The packet has reached the producer of the face, which answers on the same one.
    #[inline]
    fn produce(&mut self, mut packet: Packet, face: usize) {
        let producer = &mut self.producers[face - self.network.consumers.len()];
        // A packet that leaves the queue at this instant is still in it.
        while producer.starts_ps.front().is_some_and(|start_ps| *start_ps < packet.time_ps) {
            producer.starts_ps.pop_front();
        }
        if producer.starts_ps.len() >= producer.capacity {
            producer.record.dropped += 1;
            let queue = producer.queue as u16;
            return self.end(packet.id, packet.time_ps, Outcome::QueueFull(queue));
        }
        let start_ps = producer.free_ps.max(packet.time_ps);
        producer.starts_ps.push_back(start_ps);
        let record = &mut producer.record;
        record.entered += 1;
        record.length_max = record.length_max.max(producer.starts_ps.len());
        record.waited_ps += u128::from(start_ps - packet.time_ps);
        let services = &self.services;
        let service_ps = services.produce.time_ps(&services.ahead, self.random, packet.id);
        packet.time_ps = start_ps + producer.poll_ps + service_ps;
        producer.free_ps = packet.time_ps;
        if self.has_digests {
            let record = &mut self.results.records[packet.id as usize];
            record.pass(producer.station, Stage::Produce, packet.time_ps);
        }
        packet.form = Form::new(self.network.answer(self.random, u64::from(packet.id)));
        self.transmit(packet, face, false);
    }

    #[inline]
    fn reach_consumer(&mut self, packet: Packet) {
        let created_ps = self.results.records[packet.id as usize].created_ps;
        let is_in_time = packet.time_ps <= created_ps + self.network.lifetime_ps;
        let outcome = match packet.form.kind() {
            Kind::Nack => Outcome::Nacked,
            Kind::Interest | Kind::Data if is_in_time => Outcome::Satisfied,
            Kind::Interest | Kind::Data => Outcome::Late,
        };
        self.end(packet.id, packet.time_ps, outcome);
    }

    #[inline]
    fn end(&mut self, id: u32, time_ps: u64, outcome: Outcome) {
        let record = &mut self.results.records[id as usize];
        record.ended_ps = time_ps;
        record.outcome = outcome;
    }
}

/// Cells of a guide.
const GUIDE_CELLS: usize = 256;

/// The first prefix that a uniform number in each of the cells may select (Chen, Asau: "On Generating Random
/// Variates from an Empirical Distribution", 1974).
fn guide(consumer: &Consumer) -> Vec<usize> {
    let at = |cell: usize| cell as f64 / GUIDE_CELLS as f64;
    (0..GUIDE_CELLS).map(|cell| consumer.prefix_cdf.partition_point(|p| *p <= at(cell))).collect()
}

/// As [`Consumer::prefix`], without a search.
#[inline]
fn guided_prefix(consumer: &Consumer, guide: &[usize], unit: f64) -> u32 {
    let last = consumer.prefix_cdf.len() - 1;
    let mut index = guide[(unit * GUIDE_CELLS as f64) as usize];
    while index < last && consumer.prefix_cdf[index] <= unit {
        index += 1;
    }
    consumer.first_prefix + index.min(last) as u32
}

impl Link {
    fn new(spec: &crate::network::Link, end: End) -> Self {
        Self {
            transmit_ps: spec.transmit_ps,
            delay_ps: spec.delay_ps,
            has_loss: spec.loss > 0.0,
            capacity: spec.capacity.unwrap_or(usize::MAX),
            end,
            sent_ps: 0,
            recent_ps: VecDeque::new(),
        }
    }
}

impl Queue {
    fn new(spec: &crate::network::Queue) -> Self {
        let is_managed = spec.management.is_some();
        Self {
            stage: spec.stage,
            class: spec.class,
            resets_at_empty_poll: is_managed && spec.reset == CodelReset::EmptyPoll,
            is_managed,
            capacity: spec.capacity,
            burst: spec.burst,
            full_at: spec.full_at.unwrap_or(usize::MAX),
            channels: (0, 0),
            next_arrival_ps: NEVER,
            packets: VecDeque::new(),
            marks: None,
            sheds: None,
            record: QueueRecord::default(),
        }
    }

    /// Resets CoDel if this poll, or one since the last packet left, finds the queue empty.
    #[inline]
    fn note_poll(&mut self, has_idled: bool) {
        if has_idled || self.packets.is_empty() {
            self.marks.iter_mut().chain(&mut self.sheds).for_each(Codel::note_empty);
        }
    }
}
