//! The fast engine: departure recursions over merged streams, without an event heap.
//!
//! Each station is advanced burst by burst. Between two polls of a station its queues only grow, so
//! what a queue accepted and dropped follows at the next poll that serves it from the stream of its
//! arrivals. Services and links take at least one picosecond: if the station with the earliest next poll
//! goes first, all arrivals up to that poll are known. A producer has one stream of arrivals and takes one
//! packet at a time: when its packets leave follows from the stream alone, without polls.
//!
//! Per packet, results are the same bits as those of [`reference`](crate::reference).

mod packet;
mod queue;
mod services;

use std::collections::VecDeque;

use crate::network::{
    ArrivalClock, CLASSES_MAX, Consumer, Flush, Kind, Network, Outcome, Peer, QueueRecord, Record,
    Stage, TraceResult, streams,
};
use crate::random::TraceRandom;
use packet::{Form, NEVER, Packet};
use queue::{Decision, Queue};
use services::Services;

/// Interests that are generated ahead at once.
const ARRIVALS_AHEAD: usize = 64;

/// Runs traces of one network. Buffers are kept from trace to trace.
#[derive(Debug)]
pub struct FastEngine<'n> {
    network: &'n Network,
    /// The stations that poll: all but the producers.
    stations: Vec<Station>,
    /// When each of them polls next; the last entry is when the next Interest is generated.
    next_ps: Vec<u64>,
    /// The queues that anything can enter and stations poll, those of a station adjacent and in its order.
    queues: Vec<Queue>,
    /// When a station that is free finds packets in each of them: 0 if some wait.
    ready_ps: Vec<u64>,
    /// Incoming and outgoing link of each face.
    links: Vec<[Link; 2]>,
    /// The queue that a face's incoming link leads to.
    input_at: Vec<usize>,
    /// Where Output takes place, by face.
    output_at: Vec<Place>,
    /// Where Forward takes place, by shard and kind.
    forward_at: Vec<[Place; 3]>,
    producers: Vec<Producer>,
    shards: Vec<Shard>,
    sources: Vec<Source>,
    services: Services<'n>,
    interests: Vec<Interest>,
    /// For each consumer, where the search for a prefix begins.
    guides: Vec<Vec<usize>>,
    /// The Interests that are generated at once.
    fresh: Vec<Fresh>,
    /// Whether anything depends on the prefix of an Interest.
    needs_prefixes: bool,
    has_digests: bool,
    /// Packets that leave at the end of the burst.
    leaving: Vec<(Packet, Exit)>,
    random: TraceRandom,
    horizon_ps: u64,
    results: TraceResult,
}

/// The fields of an Interest that stay constant on its way, except for the PIT flag.
#[derive(Debug, Clone, Copy)]
struct Interest {
    /// When its PIT entry expires.
    expiry_ps: u64,
    /// Face of the consumer.
    consumer: u16,
    /// Face of the producer.
    producer: u16,
    shard: u16,
    /// Whether it has a PIT entry, in a shard that is limited.
    is_in_pit: bool,
}

impl Interest {
    /// The face that Output transmits this form on.
    #[inline]
    const fn leaves_on(&self, form: Form) -> usize {
        (if form.is_interest() { self.producer } else { self.consumer }) as usize
    }
}

/// A station and, if it reads it from another one, a queue.
#[derive(Debug, Clone, Copy)]
struct Place {
    station: usize,
    queue: usize,
}

/// Where a packet goes from a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Exit(u32);

impl Exit {
    const GONE: Self = Self(u32::MAX);
    /// Set for a link, in front of the number of its face.
    const LINK: u32 = 1 << 30;

    #[inline]
    const fn link(face: usize) -> Self {
        Self(Self::LINK | face as u32)
    }

    #[inline]
    const fn face(self) -> Option<usize> {
        if self.0 & Self::LINK == 0 { None } else { Some((self.0 ^ Self::LINK) as usize) }
    }

    #[inline]
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
    /// Range of its queues.
    queues: (usize, usize),
    /// Whether no two of them have the same class.
    is_ordered: bool,
    /// Whether the controllers of all of them are calm.
    is_calm: bool,
    free_ps: u64,
    /// Position of the queue that was polled last, per class.
    last: [usize; CLASSES_MAX],
}

#[derive(Debug)]
struct Link {
    transmit_ps: [u64; 3],
    delay_ps: u64,
    has_loss: bool,
    capacity: usize,
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
    /// Entries it holds at most; unlimited if none.
    capacity: Option<usize>,
    live: usize,
    /// Expiry and Interest of the entries in order of insertion; kept where the PIT is limited.
    entries: VecDeque<(u64, u32)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Source {
    clock: ArrivalClock,
    next_ps: u64,
}

/// An Interest that is generated.
#[derive(Debug, Clone, Copy)]
struct Fresh {
    time_ps: u64,
    consumer: usize,
    prefix: u32,
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
        let mut queues = Vec::new();
        let mut stations = Vec::new();
        // Of each station in the network, its index here; of each queue, too.
        let mut station_of = vec![usize::MAX; network.stations.len()];
        let mut queue_of = vec![usize::MAX; network.queues.len()];
        let polls = |id: &usize| producers.iter().all(|producer| producer.station != *id);
        for id in (0..network.stations.len()).filter(polls) {
            let spec = &network.stations[id];
            let (index, begin) = (stations.len(), queues.len());
            station_of[id] = index;
            for (position, queue) in spec.queues.iter().enumerate() {
                if network.is_fed(*queue) {
                    queue_of[*queue] = queues.len();
                    queues.push(Queue::new(*queue, index, position, &network.queues[*queue]));
                }
            }
            let own = &queues[begin..];
            stations.push(Station {
                id,
                poll_ps: spec.poll_ps,
                is_each: spec.flush == Flush::EachPacket,
                queues: (begin, queues.len()),
                is_ordered: own.windows(2).all(|pair| pair[0].class < pair[1].class),
                is_calm: true,
                free_ps: 0,
                last: [0; CLASSES_MAX],
            });
        }
        let place = |queue: usize| Place {
            station: station_of[network.queues[queue].station],
            queue: queue_of[queue],
        };
        let links = network.faces.iter();
        let links = links.map(|face| [Link::new(&face.incoming), Link::new(&face.outgoing)]);
        let shard = |spec: &crate::network::Shard| Shard {
            capacity: spec.pit_capacity,
            ..Shard::default()
        };
        Self {
            network,
            next_ps: vec![NEVER; stations.len() + 1],
            ready_ps: vec![NEVER; queues.len()],
            links: links.collect(),
            input_at: network.faces.iter().map(|face| queue_of[face.input_queue]).collect(),
            output_at: network.faces.iter().map(|face| place(face.output_queue)).collect(),
            forward_at: network.shards.iter().map(|shard| shard.queues.map(place)).collect(),
            stations,
            queues,
            producers,
            shards: network.shards.iter().map(shard).collect(),
            sources: vec![Source::default(); network.consumers.len()],
            services: Services::new(network),
            interests: Vec::new(),
            guides: network.consumers.iter().map(guide).collect(),
            fresh: Vec::new(),
            needs_prefixes: network.shards.len() > 1 || network.producer_count() > 1,
            has_digests: true,
            leaving: Vec::new(),
            random: TraceRandom::new(0, 0),
            horizon_ps: 0,
            results: TraceResult::default(),
        }
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
        self.results.queues.resize(self.network.queues.len(), QueueRecord::default());
        for queue in &self.queues {
            self.results.queues[queue.id] = queue.record;
        }
        for producer in &self.producers {
            self.results.queues[producer.queue] = producer.record;
        }
        &self.results
    }

    fn reset(&mut self, random: TraceRandom, horizon_ps: u64) {
        (self.random, self.horizon_ps) = (random, horizon_ps);
        self.results.records.clear();
        self.interests.clear();
        self.services.reset();
        self.results.pit_max.clear();
        self.results.pit_max.resize(self.shards.len(), 0);
        self.next_ps.fill(NEVER);
        self.ready_ps.fill(NEVER);
        for station in &mut self.stations {
            station.free_ps = 0;
            station.is_calm = true;
            let queues = self.network.stations[station.id].queues.len();
            station.last.fill(queues.saturating_sub(1));
        }
        self.queues.iter_mut().for_each(Queue::reset);
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
        let first = self.results.records.len();
        let mut fresh = std::mem::take(&mut self.fresh);
        while fresh.len() < ARRIVALS_AHEAD {
            let (consumer, time_ps) = self.earliest_source();
            if time_ps == NEVER {
                break;
            }
            let prefix = self.network.consumers[consumer].first_prefix;
            fresh.push(Fresh { time_ps, consumer, prefix });
            self.advance_source(consumer);
        }
        self.results.records.extend(fresh.iter().map(|fresh| Record::new(fresh.time_ps)));
        self.services.extend(self.random, first as u64, fresh.len());
        if self.needs_prefixes {
            let draws = self.random.draws(streams::PREFIX, first as u64, fresh.len());
            for (fresh, mut draw) in fresh.iter_mut().zip(draws) {
                let spec = &self.network.consumers[fresh.consumer];
                fresh.prefix = guided_prefix(spec, &self.guides[fresh.consumer], draw.unit());
            }
        }
        self.interests.extend(fresh.iter().map(|fresh| Interest {
            expiry_ps: 0,
            consumer: fresh.consumer as u16,
            producer: self.network.producer_face(fresh.prefix) as u16,
            shard: self.network.shard_of_prefix[fresh.prefix as usize],
            is_in_pit: false,
        }));
        for (id, fresh) in (first as u32..).zip(&fresh) {
            let form = Form::new(Kind::Interest);
            let packet = Packet { time_ps: fresh.time_ps, id, origin: 0, form };
            self.receive(packet, fresh.consumer);
        }
        fresh.clear();
        self.fresh = fresh;
        self.schedule_generation();
    }

    #[inline]
    fn poll(&mut self, index: usize, now_ps: u64) {
        let station = &self.stations[index];
        let (begin, end) = station.queues;
        if !station.is_calm {
            self.note_empty_polls(index, now_ps);
        }
        let mut queue = begin;
        while queue + 1 < end && self.ready_ps[queue] > now_ps {
            queue += 1;
        }
        if !self.stations[index].is_ordered {
            queue = self.choose(index, queue, now_ps);
        }
        let free_ps = match self.queues[queue].take_only(now_ps) {
            Some(packet) => self.serve_one(index, queue, packet, now_ps),
            None => self.serve(index, queue, now_ps),
        };
        self.ready_ps[queue] = self.queues[queue].ready_ps();
        self.stations[index].free_ps = free_ps;
        let ready_ps = self.ready_ps[begin..end].iter().fold(NEVER, |a, b| a.min(*b));
        self.next_ps[index] = ready_ps.max(free_ps);
    }

    #[inline(never)]
    fn note_empty_polls(&mut self, index: usize, now_ps: u64) {
        let station = &mut self.stations[index];
        let (begin, end) = station.queues;
        // A station that waits polls all the time: it found all its queues empty.
        let has_idled = now_ps > station.free_ps;
        station.is_calm = true;
        for (queue, ready_ps) in self.queues[begin..end].iter_mut().zip(&self.ready_ps[begin..end])
        {
            if has_idled || *ready_ps > now_ps {
                queue.note_empty_poll();
            }
            station.is_calm &= queue.is_calm();
        }
    }

    /// Of the queues with packets, `first` being the first of them: of its class, in cyclic order after the last
    /// one.
    #[inline]
    fn choose(&mut self, index: usize, first: usize, now_ps: u64) -> usize {
        let station = &mut self.stations[index];
        let class = self.queues[first].class;
        let last = &mut station.last[usize::from(class)];
        let mut chosen = first;
        for queue in first..station.queues.1 {
            let state = &self.queues[queue];
            if state.class != class {
                break;
            }
            if state.position > *last && self.ready_ps[queue] <= now_ps {
                chosen = queue;
                break;
            }
        }
        *last = self.queues[chosen].position;
        chosen
    }

    /// Processes a burst of one packet; returns when it is processed.
    #[inline]
    fn serve_one(&mut self, index: usize, queue: usize, mut packet: Packet, now_ps: u64) -> u64 {
        let Station { id, poll_ps, .. } = self.stations[index];
        packet.time_ps = now_ps + poll_ps;
        let stage = self.queues[queue].stage;
        let exit = self.process((index, id), stage, &mut packet);
        self.leave(id, packet, exit);
        packet.time_ps
    }

    /// Takes a burst from the queue at `now_ps`; returns when its last packet is processed.
    #[inline]
    fn serve(&mut self, index: usize, queue: usize, now_ps: u64) -> u64 {
        let Station { id, mut poll_ps, is_each, .. } = self.stations[index];
        let (state, records) = (&mut self.queues[queue], &mut self.results.records);
        let length = state.admit(now_ps, |queue_id, packet| {
            let record = &mut records[packet.id as usize];
            (record.ended_ps, record.outcome) =
                (packet.time_ps, Outcome::QueueFull(queue_id as u16));
        });
        let stage = state.stage;
        let is_full = state.is_full(length);
        let count = state.burst.min(length);
        // The end of one packet is the end of a burst of one.
        let is_each = is_each || count == 1;
        let mut time_ps = now_ps;
        // Management reads the queue as it is at the poll: decisions come before any processing, and
        // processing does not touch the queue.
        for _ in 0..count {
            let state = &mut self.queues[queue];
            let mut packet = state.pop();
            let sojourn_ps = now_ps - packet.time_ps;
            state.record.waited_ps += u128::from(sojourn_ps);
            if state.is_noticed(sojourn_ps, is_full)
                && !self.manage(index, queue, &mut packet, (now_ps, is_full))
            {
                continue;
            }
            packet.time_ps = time_ps + poll_ps;
            poll_ps = 0;
            let exit = self.process((index, id), stage, &mut packet);
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
        self.queues[queue].rewind();
        time_ps
    }

    /// Applies the management of a queue to a packet that leaves it; returns false if it is dropped.
    #[inline(never)]
    fn manage(
        &mut self,
        index: usize,
        queue: usize,
        packet: &mut Packet,
        (now_ps, is_full): (u64, bool),
    ) -> bool {
        let state = &mut self.queues[queue];
        let (decision, is_calm) = state.manage(packet, now_ps, is_full);
        self.stations[index].is_calm &= is_calm;
        match decision {
            Decision::Pass => {}
            Decision::Mark => self.results.records[packet.id as usize].is_marked = true,
            Decision::Refuse => packet.form = Form::REFUSAL,
            Decision::Drop => {
                let queue = state.id as u16;
                self.end(packet.id, now_ps, Outcome::Shed(queue));
                return false;
            }
        }
        true
    }

    /// Runs the packet through its stages as far as they belong to this station, of which `own` is the index here and
    /// the number in the network.
    #[inline]
    fn process(&mut self, own: (usize, usize), stage: Stage, packet: &mut Packet) -> Exit {
        let interest = self.interests[packet.id as usize];
        let shard = usize::from(interest.shard);
        let mut kind = packet.form.index();
        let is_from_producer = packet.form.is_from_producer();
        if stage == Stage::Input {
            let face = if is_from_producer { interest.producer } else { interest.consumer };
            let service = &self.services.input[usize::from(face)][kind];
            packet.time_ps += self.services.time_ps(service, self.random, packet.id);
            self.pass(own.1, Stage::Input, packet);
            let place = self.forward_at[shard][kind];
            if place.station != own.0 {
                return Exit::queue(place.queue);
            }
        }
        if stage != Stage::Output {
            let is_hit =
                packet.form.is_interest() && self.network.is_hit(self.random, u64::from(packet.id));
            let service = if is_hit {
                &self.services.hit[shard]
            } else {
                &self.services.forward[shard][usize::from(is_from_producer)][kind]
            };
            packet.time_ps += self.services.time_ps(service, self.random, packet.id);
            self.pass(own.1, Stage::Forward, packet);
            if is_hit {
                packet.form = Form::new(Kind::Data);
                kind = Kind::Data as usize;
            } else if !self.forward(packet) {
                return Exit::GONE;
            }
            let place = self.output_at[interest.leaves_on(packet.form)];
            if place.station != own.0 {
                return Exit::queue(place.queue);
            }
        }
        let face = interest.leaves_on(packet.form);
        let service = &self.services.output[face][kind];
        packet.time_ps += self.services.time_ps(service, self.random, packet.id);
        self.pass(own.1, Stage::Output, packet);
        Exit::link(face)
    }

    #[inline]
    fn pass(&mut self, station: usize, stage: Stage, packet: &Packet) {
        if self.has_digests {
            self.results.records[packet.id as usize].pass(station, stage, packet.time_ps);
        }
    }

    /// The PIT; returns false if the packet ends here.
    #[inline]
    fn forward(&mut self, packet: &Packet) -> bool {
        let interest = &mut self.interests[packet.id as usize];
        let shard = &mut self.shards[usize::from(interest.shard)];
        if packet.form.is_interest() {
            interest.expiry_ps = packet.time_ps + self.network.lifetime_ps;
            return shard.capacity.is_none() || self.insert_pit_entry(packet);
        }
        if packet.form == Form::REFUSAL {
            return true;
        }
        if interest.expiry_ps <= packet.time_ps {
            self.end(packet.id, packet.time_ps, Outcome::Late);
            return false;
        }
        // In a shard without limit, none is in the PIT.
        shard.live -= usize::from(interest.is_in_pit);
        interest.is_in_pit = false;
        true
    }

    /// Makes room by the entries that expired; returns false if the PIT is full nevertheless.
    #[inline(never)]
    fn insert_pit_entry(&mut self, packet: &Packet) -> bool {
        let Interest { expiry_ps: own_expiry_ps, shard: index, .. } =
            self.interests[packet.id as usize];
        let shard = &mut self.shards[usize::from(index)];
        while let Some((expiry_ps, id)) = shard.entries.front().copied()
            && expiry_ps <= packet.time_ps
        {
            shard.entries.pop_front();
            let is_in_pit = &mut self.interests[id as usize].is_in_pit;
            shard.live -= usize::from(*is_in_pit);
            *is_in_pit = false;
        }
        if shard.capacity.is_some_and(|capacity| shard.live >= capacity) {
            self.end(packet.id, packet.time_ps, Outcome::PitFull(index));
            return false;
        }
        shard.entries.push_back((own_expiry_ps, packet.id));
        shard.live += 1;
        self.interests[packet.id as usize].is_in_pit = true;
        let pit_max = &mut self.results.pit_max[usize::from(index)];
        *pit_max = (*pit_max).max(shard.live);
        true
    }

    #[inline]
    fn leave(&mut self, station: usize, mut packet: Packet, exit: Exit) {
        if exit == Exit::GONE {
            return;
        }
        if let Some(face) = exit.face() {
            if !self.cross(&mut packet, face, true) {
                return;
            }
            if face < self.sources.len() {
                self.reach_consumer(packet);
            } else {
                self.produce(packet, face);
            }
            return;
        }
        packet.origin = station as u16;
        self.push(exit.0 as usize, packet);
    }

    #[inline]
    fn push(&mut self, queue: usize, packet: Packet) {
        let state = &mut self.queues[queue];
        state.push(packet);
        let ready_ps = &mut self.ready_ps[queue];
        if packet.time_ps < *ready_ps {
            *ready_ps = packet.time_ps;
            let poll_ps = packet.time_ps.max(self.stations[state.station].free_ps);
            let next_ps = &mut self.next_ps[state.station];
            *next_ps = (*next_ps).min(poll_ps);
        }
    }

    /// Puts the packet on the link of a face to the forwarder.
    #[inline]
    fn receive(&mut self, mut packet: Packet, face: usize) {
        if self.cross(&mut packet, face, false) {
            packet.origin = (self.network.stations.len() + face) as u16;
            self.push(self.input_at[face], packet);
        }
    }

    /// Puts the packet on a link at its time, and gives it the time when it comes out; returns false if it does not.
    #[inline]
    fn cross(&mut self, packet: &mut Packet, face: usize, outgoing: bool) -> bool {
        let link = &mut self.links[face][usize::from(outgoing)];
        if link.capacity != usize::MAX || link.has_loss {
            return self.cross_limited(packet, face, outgoing);
        }
        link.sent_ps = link.sent_ps.max(packet.time_ps) + link.transmit_ps[packet.form.index()];
        packet.time_ps = link.sent_ps + link.delay_ps;
        true
    }

    #[inline(never)]
    fn cross_limited(&mut self, packet: &mut Packet, face: usize, outgoing: bool) -> bool {
        let link = &mut self.links[face][usize::from(outgoing)];
        let sent_ps = link.sent_ps.max(packet.time_ps) + link.transmit_ps[packet.form.index()];
        if link.capacity != usize::MAX {
            if link.recent_ps.len() == link.capacity {
                if link.recent_ps[0] > packet.time_ps {
                    self.end(packet.id, packet.time_ps, Outcome::LinkFull(face as u16));
                    return false;
                }
                link.recent_ps.pop_front();
            }
            link.recent_ps.push_back(sent_ps);
        }
        link.sent_ps = sent_ps;
        packet.time_ps = sent_ps + link.delay_ps;
        if link.has_loss && self.network.is_lost(self.random, face, outgoing, u64::from(packet.id))
        {
            self.end(packet.id, packet.time_ps, Outcome::LinkLoss(face as u16));
            return false;
        }
        true
    }

    /// The packet has reached the producer of the face, which answers on the same one.
    #[inline]
    fn produce(&mut self, mut packet: Packet, face: usize) {
        let producer = &mut self.producers[face - self.network.consumers.len()];
        if producer.free_ps < packet.time_ps {
            producer.starts_ps.clear();
        }
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
        let service_ps = services.time_ps(&services.produce, self.random, packet.id);
        packet.time_ps = start_ps + producer.poll_ps + service_ps;
        producer.free_ps = packet.time_ps;
        if self.has_digests {
            let record = &mut self.results.records[packet.id as usize];
            record.pass(producer.station, Stage::Produce, packet.time_ps);
        }
        packet.form = Form::new(self.network.answer(self.random, u64::from(packet.id)));
        self.receive(packet, face);
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
    fn new(spec: &crate::network::Link) -> Self {
        Self {
            transmit_ps: spec.transmit_ps,
            delay_ps: spec.delay_ps,
            has_loss: spec.loss > 0.0,
            capacity: spec.capacity.unwrap_or(usize::MAX),
            sent_ps: 0,
            recent_ps: VecDeque::new(),
        }
    }
}
