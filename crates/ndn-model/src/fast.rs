//! The fast engine: departure recursions over merged streams, without an event heap.
//!
//! Each station is advanced burst by burst. Between two polls of a station its queues only grow, so
//! what a queue accepted and dropped follows at the next poll from the merged, monotone streams of
//! arrivals. Services and links take at least one picosecond: if the station with the earliest next poll
//! goes first, all arrivals up to that poll are known.
//!
//! Per packet, results are the same bits as those of [`reference`](crate::reference).

use std::collections::VecDeque;

use crate::codel::Codel;
use crate::distribution::Distribution;
use crate::network::{
    ArrivalClock, CLASSES_MAX, CodelReset, Consumer, Flush, Kind, Link, Network, Outcome, Peer,
    QueueRecord, Record, Shed, Stage, TraceResult, streams,
};
use crate::random::TraceRandom;

/// Interests that are generated ahead at once.
const ARRIVALS_AHEAD: usize = 64;
const NEVER: u64 = u64::MAX;

/// Runs traces of one network. Buffers are kept from trace to trace.
#[derive(Debug)]
pub struct FastEngine<'n> {
    network: &'n Network,
    stations: Vec<StationState>,
    /// When each station polls next; the last entry is when the next Interest is generated.
    next_ps: Vec<u64>,
    queues: Vec<QueueState>,
    channels: Vec<Channel>,
    /// Channel from a station to a queue.
    channel_of: Vec<Vec<Option<usize>>>,
    /// Incoming and outgoing link of each face.
    links: Vec<[LinkState; 2]>,
    shards: Vec<ShardState>,
    sources: Vec<SourceState>,
    /// Expiry of each Interest's PIT entry; 0 without one.
    pit_expiry_ps: Vec<u64>,
    /// Positions of the queues of each station that anything can enter.
    fed: Vec<Vec<usize>>,
    /// For each consumer, where the search for a prefix begins.
    guides: Vec<Vec<usize>>,
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
    kind: Kind,
    is_refusal: bool,
}

#[derive(Debug, Clone, Copy)]
enum Exit {
    Queue(usize),
    Link { face: usize, outgoing: bool },
    Gone,
}

#[derive(Debug, Default)]
struct StationState {
    free_ps: u64,
    /// Position of the queue that was polled last, per class.
    last: [usize; CLASSES_MAX],
}

#[derive(Debug)]
struct QueueState {
    upstream: Vec<usize>,
    packets: VecDeque<Packet>,
    marks: Option<Codel>,
    sheds: Option<Codel>,
}

#[derive(Debug)]
struct Channel {
    station: usize,
    packets: VecDeque<Packet>,
}

#[derive(Debug)]
struct LinkState {
    channel: Option<usize>,
    sent_ps: u64,
    /// Ends of the last transmissions, as many as the link holds packets.
    recent_ps: VecDeque<u64>,
}

#[derive(Debug, Default)]
struct ShardState {
    live: usize,
    /// Expiry and Interest of the entries in order of insertion; kept where the PIT is limited.
    entries: VecDeque<(u64, u32)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct SourceState {
    clock: ArrivalClock,
    next_ps: u64,
}

impl<'n> FastEngine<'n> {
    /// An engine for traces of `network`.
    #[must_use]
    pub fn new(network: &'n Network) -> Self {
        let mut engine = Self {
            network,
            stations: network.stations.iter().map(|_| StationState::default()).collect(),
            next_ps: vec![NEVER; network.stations.len() + 1],
            queues: network.queues.iter().map(|_| QueueState::new()).collect(),
            channels: Vec::new(),
            channel_of: vec![vec![None; network.queues.len()]; network.stations.len()],
            links: Vec::new(),
            shards: network.shards.iter().map(|_| ShardState::default()).collect(),
            sources: vec![SourceState::default(); network.consumers.len()],
            pit_expiry_ps: Vec::new(),
            fed: Vec::new(),
            guides: network.consumers.iter().map(guide).collect(),
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
            let mut earliest = 0;
            for station in 1..=generate {
                if self.next_ps[station] < self.next_ps[earliest] {
                    earliest = station;
                }
            }
            let now_ps = self.next_ps[earliest];
            if now_ps == NEVER {
                return &self.results;
            }
            if earliest == generate {
                self.generate();
            } else {
                self.poll(earliest, now_ps);
            }
        }
    }

    /// Channels in the order in which arrivals at one instant enter a queue: stations, then links.
    fn connect(&mut self) {
        for station in 0..self.stations.len() {
            for queue in 0..self.queues.len() {
                if self.network.can_feed(station, queue) {
                    self.channel_of[station][queue] = Some(self.open_channel(queue));
                }
            }
        }
        for face in &self.network.faces {
            let outgoing = match face.peer {
                Peer::Producer(queue) => Some(queue),
                Peer::Consumer(_) => None,
            };
            let ends = [Some(face.input_queue), outgoing];
            let links = ends.map(|queue| LinkState {
                channel: queue.map(|queue| self.open_channel(queue)),
                sent_ps: 0,
                recent_ps: VecDeque::new(),
            });
            self.links.push(links);
        }
        for station in &self.network.stations {
            let positions = 0..station.queues.len();
            let is_fed =
                |position: &usize| !self.queues[station.queues[*position]].upstream.is_empty();
            self.fed.push(positions.filter(is_fed).collect());
        }
    }

    fn open_channel(&mut self, queue: usize) -> usize {
        let station = self.network.queues[queue].station;
        self.channels.push(Channel { station, packets: VecDeque::new() });
        self.queues[queue].upstream.push(self.channels.len() - 1);
        self.channels.len() - 1
    }

    fn reset(&mut self, random: TraceRandom, horizon_ps: u64) {
        (self.random, self.horizon_ps) = (random, horizon_ps);
        self.results.records.clear();
        self.pit_expiry_ps.clear();
        self.results.queues.clear();
        self.results.queues.resize(self.queues.len(), QueueRecord::default());
        self.results.pit_max.clear();
        self.results.pit_max.resize(self.shards.len(), 0);
        self.next_ps.fill(NEVER);
        for (state, spec) in self.stations.iter_mut().zip(&self.network.stations) {
            *state = StationState::default();
            state.last.fill(spec.queues.len().saturating_sub(1));
        }
        for (state, spec) in self.queues.iter_mut().zip(&self.network.queues) {
            let interval_ps = spec.management.map_or(0, |m| m.interval_ps);
            let mark_after = spec.management.and_then(|m| m.mark_after_ps);
            let shed_after = spec.management.and_then(|m| m.shed_after_ps);
            state.marks = mark_after.map(|after_ps| Codel::new(after_ps, interval_ps));
            state.sheds = shed_after.map(|(after_ps, _)| Codel::new(after_ps, interval_ps));
        }
        for link in self.links.iter_mut().flatten() {
            link.sent_ps = 0;
            link.recent_ps.clear();
        }
        for shard in &mut self.shards {
            shard.live = 0;
            shard.entries.clear();
        }
        for consumer in 0..self.sources.len() {
            self.sources[consumer] = SourceState::default();
            self.advance_source(consumer);
        }
        self.schedule_generation();
    }

    fn advance_source(&mut self, consumer: usize) {
        let arrivals = &self.network.consumers[consumer].arrivals;
        let source = &mut self.sources[consumer];
        let next_ps = source.clock.next(arrivals, consumer, self.random);
        source.next_ps = next_ps.filter(|next_ps| *next_ps < self.horizon_ps).unwrap_or(NEVER);
    }

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
        for _ in 0..ARRIVALS_AHEAD {
            let (consumer, time_ps) = self.earliest_source();
            if time_ps == NEVER {
                break;
            }
            let id = self.results.records.len() as u32;
            self.results.records.push(Record::new(time_ps));
            self.pit_expiry_ps.push(0);
            let spec = &self.network.consumers[consumer];
            let prefix = if spec.prefix_cdf.len() == 1 {
                spec.first_prefix
            } else {
                let unit = self.random.draw(streams::PREFIX, u64::from(id)).unit();
                guided_prefix(spec, &self.guides[consumer], unit)
            };
            let packet = Packet {
                time_ps,
                id,
                prefix,
                consumer: consumer as u16,
                face: consumer as u16,
                shard: 0,
                kind: Kind::Interest,
                is_refusal: false,
            };
            self.transmit(packet, consumer, false);
            self.advance_source(consumer);
        }
        self.schedule_generation();
    }

    fn poll(&mut self, station: usize, now_ps: u64) {
        let spec = &self.network.stations[station];
        // A station that waits polls all the time: it found all its queues empty.
        let has_idled = now_ps > self.stations[station].free_ps;
        for index in 0..self.fed[station].len() {
            let queue = spec.queues[self.fed[station][index]];
            self.admit(queue, now_ps);
            if self.network.queues[queue].reset == CodelReset::EmptyPoll {
                self.queues[queue].note_poll(has_idled);
            }
        }
        let mut time_ps = now_ps;
        if let Some(position) = self.choose(station) {
            let queue = spec.queues[position];
            let class = usize::from(self.network.queues[queue].class);
            self.stations[station].last[class] = position;
            time_ps = self.serve(station, queue, now_ps);
        }
        self.stations[station].free_ps = time_ps;
        self.next_ps[station] = self.next_poll(station, time_ps);
    }

    /// Moves arrivals up to `now_ps` into the queue, as far as it has room; no packet left it meanwhile.
    #[inline]
    fn admit(&mut self, queue: usize, now_ps: u64) {
        if let [channel] = self.queues[queue].upstream[..] {
            while self.channels[channel].packets.front().is_some_and(|p| p.time_ps <= now_ps) {
                self.admit_first(queue, channel);
            }
            return;
        }
        loop {
            let mut first = (NEVER, 0);
            for channel in &self.queues[queue].upstream {
                if let Some(packet) = self.channels[*channel].packets.front()
                    && packet.time_ps < first.0
                {
                    first = (packet.time_ps, *channel);
                }
            }
            if first.0 > now_ps {
                return;
            }
            self.admit_first(queue, first.1);
        }
    }

    #[inline]
    fn admit_first(&mut self, queue: usize, channel: usize) {
        let Some(packet) = self.channels[channel].packets.pop_front() else { return };
        let state = &mut self.queues[queue];
        let record = &mut self.results.queues[queue];
        if state.packets.len() >= self.network.queues[queue].capacity {
            record.dropped += 1;
            self.end(packet.id, packet.time_ps, Outcome::QueueFull(queue as u16));
            return;
        }
        state.packets.push_back(packet);
        record.entered += 1;
        record.length_max = record.length_max.max(state.packets.len());
    }

    /// The first queue with packets: of the lowest class, in cyclic order after the last one.
    #[inline]
    fn choose(&self, station: usize) -> Option<usize> {
        let queues = &self.network.stations[station].queues;
        let waits = |position: &usize| !self.queues[queues[*position]].packets.is_empty();
        let fed = &self.fed[station];
        let first = fed.iter().copied().find(waits)?;
        if fed.len() == 1 {
            return Some(first);
        }
        let class = self.network.queues[queues[first]].class;
        let last = self.stations[station].last[usize::from(class)];
        let in_class = |position: &usize| self.network.queues[queues[*position]].class == class;
        let after = fed.iter().copied().filter(|p| *p > last).filter(in_class).find(waits);
        after.or(Some(first))
    }

    fn next_poll(&self, station: usize, free_ps: u64) -> u64 {
        let mut earliest_ps = NEVER;
        let queues = &self.network.stations[station].queues;
        for position in &self.fed[station] {
            let state = &self.queues[queues[*position]];
            if !state.packets.is_empty() {
                return free_ps;
            }
            for channel in &state.upstream {
                if let Some(packet) = self.channels[*channel].packets.front() {
                    earliest_ps = earliest_ps.min(packet.time_ps);
                }
            }
        }
        earliest_ps.max(free_ps)
    }

    /// Takes a burst from the queue at `now_ps`; returns when its last packet is processed.
    fn serve(&mut self, station: usize, queue: usize, now_ps: u64) -> u64 {
        let spec = &self.network.queues[queue];
        let is_each = self.network.stations[station].flush == Flush::EachPacket;
        let length = self.queues[queue].packets.len();
        let is_full = spec.full_at.is_some_and(|full_at| length >= full_at);
        let count = spec.burst.min(length);
        let mut time_ps = now_ps;
        let mut poll_ps = self.network.stations[station].poll_ps;
        // Management looks at the queue as it is at the poll: verdicts come before any processing, and
        // processing does not touch the queue.
        for _ in 0..count {
            let Some(mut packet) = self.queues[queue].packets.pop_front() else { break };
            self.results.queues[queue].waited_ps += u128::from(now_ps - packet.time_ps);
            if spec.management.is_some() && !self.manage(queue, &mut packet, now_ps, is_full) {
                continue;
            }
            packet.time_ps = time_ps + poll_ps;
            poll_ps = 0;
            let exit = self.process(station, spec.stage, &mut packet);
            time_ps = packet.time_ps;
            if is_each {
                self.leave(station, packet, exit);
            } else if !matches!(exit, Exit::Gone) {
                self.leaving.push((packet, exit));
            }
        }
        if !is_each {
            let mut leaving = std::mem::take(&mut self.leaving);
            for (mut packet, exit) in leaving.drain(..) {
                packet.time_ps = time_ps;
                self.leave(station, packet, exit);
            }
            self.leaving = leaving;
        }
        time_ps
    }

    /// Applies the queue's management to a packet that leaves it; returns false if it is dropped.
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
        let sheds = packet.kind == Kind::Interest
            && state.sheds.as_mut().is_some_and(|c| c.leave(now_ps, sojourn_ps, is_last));
        match (sheds, shed_after_ps) {
            (true, Some((_, Shed::Drop))) => {
                self.end(packet.id, now_ps, Outcome::Shed(queue as u16));
                return false;
            }
            (true, Some((_, Shed::Nack))) => {
                packet.kind = Kind::Nack;
                packet.is_refusal = true;
            }
            (true, None) | (false, _) => {
                self.results.records[packet.id as usize].is_marked |= marks;
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
                && packet.kind == Kind::Interest
                && network.is_hit(self.random, u64::from(packet.id));
            packet.time_ps += self.service_ps(stage, packet, is_hit);
            if self.has_digests {
                self.results.records[packet.id as usize].pass(station, stage, packet.time_ps);
            }
            let queue = match stage {
                Stage::Input => {
                    packet.shard = network.shard_of_prefix[packet.prefix as usize];
                    stage = Stage::Forward;
                    network.shards[usize::from(packet.shard)].queues[packet.kind as usize]
                }
                Stage::Forward => {
                    let Some(face) = self.forward(packet, is_hit) else { return Exit::Gone };
                    packet.face = face as u16;
                    stage = Stage::Output;
                    network.faces[face].output_queue
                }
                Stage::Output => {
                    return Exit::Link { face: usize::from(packet.face), outgoing: true };
                }
                Stage::Produce => {
                    packet.kind = network.answer(self.random, u64::from(packet.id));
                    return Exit::Link { face: usize::from(packet.face), outgoing: false };
                }
            };
            if network.queues[queue].station != station {
                return Exit::Queue(queue);
            }
        }
    }

    #[inline]
    fn service_ps(&self, stage: Stage, packet: &Packet, is_hit: bool) -> u64 {
        let network = self.network;
        let services = &network.services;
        let kind = packet.kind as usize;
        let (distribution, factor): (&Distribution, f64) = match stage {
            Stage::Input => {
                (&services.input[kind], network.faces[usize::from(packet.face)].input_factor)
            }
            Stage::Forward => {
                let factors = &network.shards[usize::from(packet.shard)].forward_factor;
                let is_from_producer = packet.kind != Kind::Interest && !packet.is_refusal;
                let own = if is_hit { &services.forward_hit } else { &services.forward[kind] };
                (own, factors[usize::from(is_from_producer)])
            }
            Stage::Output => {
                (&services.output[kind], network.faces[usize::from(packet.face)].output_factor)
            }
            Stage::Produce => (&services.produce, 1.0),
        };
        let stream =
            if is_hit { streams::SERVICE_OF_HIT } else { streams::service(stage, packet.kind) };
        distribution.sample_ps(&mut self.random.draw(stream, u64::from(packet.id)), factor)
    }

    /// PIT and Content Store: the face that the packet goes to; none if it ends here.
    #[inline]
    fn forward(&mut self, packet: &mut Packet, is_hit: bool) -> Option<usize> {
        let now_ps = packet.time_ps;
        let id = packet.id as usize;
        if is_hit {
            packet.kind = Kind::Data;
            return Some(usize::from(packet.consumer));
        }
        if packet.is_refusal {
            return Some(usize::from(packet.consumer));
        }
        if packet.kind == Kind::Interest {
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
            Exit::Queue(queue) => {
                if let Some(channel) = self.channel_of[station][queue] {
                    self.push(channel, packet);
                }
            }
            Exit::Link { face, outgoing } => self.transmit(packet, face, outgoing),
            Exit::Gone => {}
        }
    }

    #[inline]
    fn push(&mut self, channel: usize, packet: Packet) {
        let channel = &mut self.channels[channel];
        let station = channel.station;
        let poll_ps = packet.time_ps.max(self.stations[station].free_ps);
        self.next_ps[station] = self.next_ps[station].min(poll_ps);
        channel.packets.push_back(packet);
    }

    /// Puts the packet on a link at its time; it comes out at the other end.
    #[inline]
    fn transmit(&mut self, mut packet: Packet, face: usize, outgoing: bool) {
        let spec = &self.network.faces[face];
        let link: &Link = if outgoing { &spec.outgoing } else { &spec.incoming };
        let state = &mut self.links[face][usize::from(outgoing)];
        let sent_ps = state.sent_ps.max(packet.time_ps) + link.transmit_ps[packet.kind as usize];
        if let Some(capacity) = link.capacity {
            if state.recent_ps.len() == capacity {
                if state.recent_ps[0] > packet.time_ps {
                    return self.end(packet.id, packet.time_ps, Outcome::LinkFull(face as u16));
                }
                state.recent_ps.pop_front();
            }
            state.recent_ps.push_back(sent_ps);
        }
        state.sent_ps = sent_ps;
        let channel = state.channel;
        packet.time_ps = sent_ps + link.delay_ps;
        if self.network.is_lost(self.random, face, outgoing, u64::from(packet.id)) {
            return self.end(packet.id, packet.time_ps, Outcome::LinkLoss(face as u16));
        }
        match channel {
            Some(channel) => {
                // Input finds the face on the packet; the producer answers on the same one.
                packet.face = face as u16;
                self.push(channel, packet);
            }
            None => self.reach_consumer(packet),
        }
    }

    #[inline]
    fn reach_consumer(&mut self, packet: Packet) {
        let created_ps = self.results.records[packet.id as usize].created_ps;
        let is_in_time = packet.time_ps <= created_ps + self.network.lifetime_ps;
        let outcome = match packet.kind {
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

impl QueueState {
    const fn new() -> Self {
        Self { upstream: Vec::new(), packets: VecDeque::new(), marks: None, sheds: None }
    }

    /// Resets CoDel if this poll, or one since the last packet left, finds the queue empty.
    #[inline]
    fn note_poll(&mut self, has_idled: bool) {
        if has_idled || self.packets.is_empty() {
            self.marks.iter_mut().chain(&mut self.sheds).for_each(Codel::note_empty);
        }
    }
}
