//! The fast engine: departure recursions over merged streams, without an event heap.
//!
//! Each station is advanced burst by burst. Between two polls of a station its queues only grow, so
//! what a queue accepted and dropped follows at the next poll that serves it from the stream of its
//! arrivals. A producer has one stream of arrivals and takes one packet at a time: when its packets leave
//! follows from the stream alone, without polls.
//!
//! A station may poll as long as all arrivals up to the poll are known. What is still to come from another
//! station arrives after that station's next poll and the shortest services and links in between: the
//! lookahead (Chandy, Misra: "Distributed Simulation", 1979; here without messages). So a
//! station makes many polls before another one gets its turn, in a loop that the compiler has made for the
//! stages of this station.
//!
//! Per packet, results are the same bits as those of [`reference`](crate::reference).

mod link;
mod lookahead;
mod packet;
mod pauses;
mod producer;
mod queue;
mod services;
mod solo;
mod traffic;

use std::collections::VecDeque;

use crate::network::{
    Arrivals, CLASSES_MAX, Consumer, Flush, Kind, Network, Outcome, QueueId, QueueRecord, Record,
    Stage, TraceResult, order,
};
use crate::random::{SplicedRandom, TraceRandom};
use link::Link;
use lookahead::Lookahead;
use packet::{Form, NEVER, Packet};
use pauses::{Pauses, Processor};
use producer::Producer;
pub use queue::Peak;
use queue::{Decision, Queue};
use services::Services;
use solo::Solo;
use traffic::Traffic;

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
    /// When each of them is free.
    free_ps: Vec<u64>,
    lookahead: Lookahead,
    /// The loop for one worker, if the network is such a one.
    solo: Option<Solo<'n>>,
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
    pauses: Pauses<'n>,
    shards: Vec<Shard>,
    traffic: Traffic<'n>,
    services: Services<'n>,
    interests: Vec<Interest>,
    /// Face of the producer and shard of each prefix.
    routes: Vec<(u16, u16)>,
    has_digests: bool,
    /// Packets that leave at the end of the burst.
    leaving: Vec<(Packet, Exit)>,
    random: SplicedRandom,
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

/// A station and, if it reads it from another one, a queue.
#[derive(Debug, Clone, Copy)]
struct Place {
    station: usize,
    queue: usize,
}

/// The station that processes a packet.
#[derive(Debug, Clone, Copy)]
struct Own {
    /// Its index here.
    index: usize,
    /// Its number in the network.
    id: usize,
    processor: Processor,
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

/// The stages of a station, for which its loop is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// All stages of all packets, in a row.
    Whole,
    /// Input only.
    Input,
    /// Forward only.
    Forward,
    /// Output only.
    Output,
    /// Anything else.
    Mixed,
}

const WHOLE: u8 = Work::Whole as u8;
const INPUT: u8 = Work::Input as u8;
const FORWARD: u8 = Work::Forward as u8;
const OUTPUT: u8 = Work::Output as u8;
const MIXED: u8 = Work::Mixed as u8;

#[derive(Debug)]
struct Station {
    /// Its number in the network.
    id: usize,
    processor: Processor,
    work: Work,
    poll_ps: u64,
    is_each: bool,
    /// Range of its queues.
    queues: (usize, usize),
    /// Whether no two of them have the same class.
    is_ordered: bool,
    /// Whether the controllers of all of them are calm.
    is_calm: bool,
    /// Position of the queue that was polled last, per class.
    last: [usize; CLASSES_MAX],
}

#[derive(Debug, Default)]
struct Shard {
    /// Entries it holds at most; unlimited if none.
    capacity: Option<usize>,
    live: usize,
    /// Expiry and Interest of the entries in order of insertion; kept where the PIT is limited.
    entries: VecDeque<(u64, u32)>,
}

impl<'n> FastEngine<'n> {
    /// The reason why this engine cannot simulate `network`, if there is one: the reference engine can.
    #[must_use]
    pub fn refusal(network: &Network) -> Option<&'static str> {
        let has_window = |consumer: &Consumer| matches!(consumer.arrivals, Arrivals::Window(_));
        network.consumers.iter().any(has_window).then_some(
            "the Interests of a consumer with a window depend on their answers: no recurrence draws them ahead",
        )
    }

    /// An engine for traces of `network`, which has no [`fault`](Network::fault).
    ///
    /// # Panics
    /// If there is a [`refusal`](Self::refusal).
    #[must_use]
    pub fn new(network: &'n Network) -> Self {
        assert_eq!(Self::refusal(network), None, "a network for the fast engine");
        let producers = Producer::all(network);
        let pauses = Pauses::new(network);
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
                processor: pauses.of_station(id),
                work: Work::Mixed,
                poll_ps: spec.poll_ps,
                is_each: spec.flush == Flush::EachPacket,
                queues: (begin, queues.len()),
                is_ordered: own.windows(2).all(|pair| pair[0].class < pair[1].class),
                is_calm: true,
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
        let output_at: Vec<Place> =
            network.faces.iter().map(|face| place(face.output_queue)).collect();
        let forward_at: Vec<[Place; 3]> =
            network.shards.iter().map(|shard| shard.queues.map(place)).collect();
        for (index, station) in stations.iter_mut().enumerate() {
            let own = &queues[station.queues.0..station.queues.1];
            station.work = Work::of(index, own, &forward_at, &output_at);
        }
        let services = Services::new(network);
        let route = |(shard, prefix): (&u16, u32)| (network.producer_face(prefix) as u16, *shard);
        let input_at: Vec<usize> =
            network.faces.iter().map(|face| queue_of[face.input_queue]).collect();
        Self {
            network,
            solo: Solo::new(network, &services),
            next_ps: vec![NEVER; stations.len() + 1],
            free_ps: vec![0; stations.len()],
            lookahead: Lookahead::new(network, &services, &station_of, stations.len()),
            ready_ps: vec![NEVER; queues.len()],
            links: links.collect(),
            input_at,
            output_at,
            forward_at,
            stations,
            queues,
            producers,
            pauses,
            shards: network.shards.iter().map(shard).collect(),
            traffic: Traffic::new(network),
            services,
            interests: Vec::new(),
            routes: network.shard_of_prefix.iter().zip(0..).map(route).collect(),
            has_digests: true,
            leaving: Vec::new(),
            random: SplicedRandom::default(),
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
        let spliced = random.into();
        // It leaves out digests.
        if !self.has_digests
            && let Some(mut solo) = self.solo.take_if(Solo::is_on)
        {
            self.reset_results();
            self.traffic.reset(&spliced, horizon_ps);
            let is_done = solo.run(&mut self.traffic, random, &mut self.results);
            self.solo = Some(solo);
            if is_done {
                return &self.results;
            }
        }
        self.run_spliced(&spliced, horizon_ps)
    }

    /// Keeps the [`peaks`](Self::peaks) of a queue from now on; returns false if no station polls it: that of a producer, or
    /// one that nothing enters.
    pub fn watch(&mut self, queue: QueueId) -> bool {
        let watched = self.queues.iter_mut().find(|own| own.id == queue);
        watched.map(|own| own.peaks = Some(Vec::new())).is_some()
    }

    /// Of a watched queue, each length from 2 on above all before in the last trace. Only of
    /// [`run_spliced`](Self::run_spliced).
    #[must_use]
    pub fn peaks(&self, queue: QueueId) -> &[Peak] {
        let watched = self.queues.iter().find(|own| own.id == queue);
        watched.and_then(|own| own.peaks.as_deref()).unwrap_or_default()
    }

    /// The records of the last trace.
    #[must_use]
    pub const fn results(&self) -> &TraceResult {
        &self.results
    }

    /// Runs one trace with random numbers in parts.
    pub fn run_spliced(&mut self, random: &SplicedRandom, horizon_ps: u64) -> &TraceResult {
        self.reset(random, horizon_ps);
        self.run_stations();
        for queue in &self.queues {
            self.results.queues[queue.id] = queue.record;
        }
        for producer in &self.producers {
            self.results.queues[producer.queue] = *producer.record();
        }
        &self.results
    }

    /// Runs a trace after [`reset`](Self::reset).
    fn run_stations(&mut self) {
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
                continue;
            }
            let bound_ps = self.lookahead.bound_ps(earliest, &self.next_ps);
            match self.stations[earliest].work {
                Work::Whole => self.advance::<WHOLE>(earliest, bound_ps),
                Work::Input => self.advance::<INPUT>(earliest, bound_ps),
                Work::Forward => self.advance::<FORWARD>(earliest, bound_ps),
                Work::Output => self.advance::<OUTPUT>(earliest, bound_ps),
                Work::Mixed => self.advance::<MIXED>(earliest, bound_ps),
            }
        }
    }

    fn reset_results(&mut self) {
        self.results.records.clear();
        self.results.queues.clear();
        self.results.queues.resize(self.network.queues.len(), QueueRecord::default());
        self.results.pit_max.clear();
        self.results.pit_max.resize(self.shards.len(), 0);
    }

    fn reset(&mut self, random: &SplicedRandom, horizon_ps: u64) {
        self.random.clone_from(random);
        self.reset_results();
        self.traffic.reset(random, horizon_ps);
        self.interests.clear();
        self.services.reset();
        self.next_ps.fill(NEVER);
        self.free_ps.fill(0);
        self.ready_ps.fill(NEVER);
        for station in &mut self.stations {
            station.is_calm = true;
            let queues = self.network.stations[station.id].queues.len();
            station.last.fill(queues.saturating_sub(1));
        }
        self.queues.iter_mut().for_each(Queue::reset);
        self.links.iter_mut().flatten().for_each(Link::reset);
        self.producers.iter_mut().for_each(Producer::reset);
        // Where random numbers change within a trace, the pauses are those of its begin.
        self.pauses.reset(random.at(0).random);
        for shard in &mut self.shards {
            shard.live = 0;
            shard.entries.clear();
        }
        self.schedule_generation();
    }

    fn schedule_generation(&mut self) {
        let generate = self.stations.len();
        self.next_ps[generate] = self.traffic.next_ps();
    }

    /// Puts the next Interests of all consumers on their links, in order of time.
    fn generate(&mut self) {
        let first = self.results.records.len();
        let fresh = self.traffic.draw(first as u32, ARRIVALS_AHEAD);
        self.results.records.extend(fresh.iter().map(|fresh| Record::new(fresh.time_ps)));
        self.services.extend(&self.random, first as u32, fresh.len());
        self.interests.extend(fresh.iter().map(|fresh| {
            let (producer, shard) = self.routes[fresh.prefix as usize];
            let consumer = fresh.consumer as u16;
            Interest { expiry_ps: 0, consumer, producer, shard, is_in_pit: false }
        }));
        for id in first..self.results.records.len() {
            let time_ps = self.results.records[id].created_ps;
            let consumer = usize::from(self.interests[id].consumer);
            let sent_ps = self.pauses.resume_ps(self.pauses.of_consumer(consumer), time_ps);
            self.receive(Packet::new(sent_ps, id as u32, 0, Form::new(Kind::Interest)), consumer);
        }
        self.schedule_generation();
    }

    /// Polls a station until `bound_ps`: arrivals before are known.
    fn advance<const WORK: u8>(&mut self, index: usize, bound_ps: u64) {
        let mut now_ps = self.next_ps[index];
        while now_ps < bound_ps {
            self.poll::<WORK>(index, now_ps);
            now_ps = self.next_ps[index];
        }
    }

    #[inline]
    fn poll<const WORK: u8>(&mut self, index: usize, now_ps: u64) {
        let station = &self.stations[index];
        let (begin, end) = station.queues;
        let (is_ordered, processor) = (station.is_ordered, station.processor);
        if !station.is_calm {
            self.note_empty_polls(index, now_ps);
        }
        let mut queue = begin;
        while queue + 1 < end && self.ready_ps[queue] > now_ps {
            queue += 1;
        }
        if !is_ordered {
            queue = self.choose(index, queue, now_ps);
        }
        let free_ps = match self.queues[queue].take_only(now_ps) {
            Some(packet) => self.serve_one::<WORK>(index, queue, packet, now_ps),
            None => self.serve::<WORK>(index, queue, now_ps),
        };
        self.ready_ps[queue] = self.queues[queue].ready_ps();
        let free_ps = self.pauses.resume_ps(processor, free_ps);
        self.free_ps[index] = free_ps;
        let ready_ps = self.ready_ps[begin..end].iter().fold(NEVER, |a, b| a.min(*b));
        self.next_ps[index] = self.pauses.resume_ps(processor, ready_ps.max(free_ps));
    }

    #[inline(never)]
    fn note_empty_polls(&mut self, index: usize, now_ps: u64) {
        let station = &mut self.stations[index];
        let (begin, end) = station.queues;
        // A station that waits polls all the time: it found all its queues empty.
        let has_idled = now_ps > self.free_ps[index];
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
    fn serve_one<const WORK: u8>(
        &mut self,
        index: usize,
        queue: usize,
        packet: Packet,
        now_ps: u64,
    ) -> u64 {
        let Station { id, processor, poll_ps, .. } = self.stations[index];
        let own = Own { index, id, processor };
        let stage = self.queues[queue].stage;
        let begun = packet.at(self.pauses.work_ps(processor, now_ps, poll_ps));
        let (packet, exit) = self.process::<WORK>(own, stage, begun);
        self.leave(id, packet, exit);
        packet.time_ps
    }

    /// Takes a burst from the queue at `now_ps`; returns when its last packet is processed.
    #[inline]
    fn serve<const WORK: u8>(&mut self, index: usize, queue: usize, now_ps: u64) -> u64 {
        let Station { id, processor, mut poll_ps, is_each, .. } = self.stations[index];
        let own = Own { index, id, processor };
        let (state, records) = (&mut self.queues[queue], &mut self.results.records);
        let length = state.admit(now_ps, |queue_id, packet| {
            let record = &mut records[packet.id() as usize];
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
            if state.is_noticed(sojourn_ps, is_full) {
                match self.manage(index, queue, packet, (now_ps, is_full)) {
                    Some(form) => packet = packet.with_form(form),
                    None => continue,
                }
            }
            let begun = packet.at(self.pauses.work_ps(processor, time_ps, poll_ps));
            poll_ps = 0;
            let (packet, exit) = self.process::<WORK>(own, stage, begun);
            time_ps = packet.time_ps;
            if is_each {
                self.leave(id, packet, exit);
            } else if exit != Exit::GONE {
                self.leaving.push((packet, exit));
            }
        }
        if !is_each {
            for number in 0..self.leaving.len() {
                let (packet, exit) = self.leaving[number];
                self.leave(id, packet.at(time_ps), exit);
            }
            self.leaving.clear();
        }
        self.queues[queue].rewind();
        time_ps
    }

    /// Applies the management of a queue to a packet that leaves it; returns its form, none if it is dropped.
    #[inline(never)]
    fn manage(
        &mut self,
        index: usize,
        queue: usize,
        packet: Packet,
        (now_ps, is_full): (u64, bool),
    ) -> Option<Form> {
        let state = &mut self.queues[queue];
        let (decision, is_calm) = state.manage(packet, now_ps, is_full);
        self.stations[index].is_calm &= is_calm;
        match decision {
            Decision::Pass => {}
            Decision::Mark => self.results.records[packet.id() as usize].is_marked = true,
            Decision::Refuse => return Some(Form::REFUSAL),
            Decision::Drop => {
                let queue = state.id as u16;
                self.end(packet.id(), now_ps, Outcome::Shed(queue));
                return None;
            }
        }
        Some(packet.form())
    }

    /// Runs the packet through its stages as far as they belong to this station.
    #[inline(always)]
    fn process<const WORK: u8>(
        &mut self,
        own: Own,
        stage: Stage,
        mut packet: Packet,
    ) -> (Packet, Exit) {
        let id = packet.id();
        let Interest { consumer, producer, shard, .. } = self.interests[id as usize];
        let (mut form, shard) = (packet.form(), usize::from(shard));
        let is_from_producer = form.is_from_producer();
        if WORK == WHOLE || WORK == INPUT || (WORK == MIXED && stage == Stage::Input) {
            let face = if is_from_producer { producer } else { consumer };
            let service = &self.services.input[usize::from(face)][form.index()];
            let service_ps = self.services.time_ps(service, &self.random, id);
            packet.time_ps = self.pauses.work_ps(own.processor, packet.time_ps, service_ps);
            self.pass(own.id, Stage::Input, packet);
            if WORK != WHOLE {
                let place = self.forward_at[shard][form.index()];
                if WORK == INPUT || place.station != own.index {
                    return (packet, Exit::queue(place.queue));
                }
            }
        }
        let leaves_on =
            |form: Form| usize::from(if form.is_interest() { producer } else { consumer });
        if WORK == WHOLE || WORK == FORWARD || (WORK == MIXED && stage != Stage::Output) {
            let is_hit = form.is_interest()
                && self.network.is_hit(self.random.of(id, order::HIT), u64::from(id));
            let service = if is_hit {
                &self.services.hit[shard]
            } else {
                &self.services.forward[shard][usize::from(is_from_producer)][form.index()]
            };
            let service_ps = self.services.time_ps(service, &self.random, id);
            packet.time_ps = self.pauses.work_ps(own.processor, packet.time_ps, service_ps);
            self.pass(own.id, Stage::Forward, packet);
            if is_hit {
                form = Form::new(Kind::Data);
                packet = packet.with_form(form);
            } else if !self.forward(packet) {
                return (packet, Exit::GONE);
            }
            if WORK != WHOLE {
                let place = self.output_at[leaves_on(form)];
                if WORK == FORWARD || place.station != own.index {
                    return (packet, Exit::queue(place.queue));
                }
            }
        }
        let face = leaves_on(form);
        let service = &self.services.output[face][form.index()];
        let service_ps = self.services.time_ps(service, &self.random, id);
        packet.time_ps = self.pauses.work_ps(own.processor, packet.time_ps, service_ps);
        self.pass(own.id, Stage::Output, packet);
        (packet, Exit::link(face))
    }

    #[inline]
    fn pass(&mut self, station: usize, stage: Stage, packet: Packet) {
        if self.has_digests {
            self.results.records[packet.id() as usize].pass(station, stage, packet.time_ps);
        }
    }

    /// The PIT; returns false if the packet ends here.
    #[inline(always)]
    fn forward(&mut self, packet: Packet) -> bool {
        let interest = &mut self.interests[packet.id() as usize];
        let shard = &mut self.shards[usize::from(interest.shard)];
        if packet.form().is_interest() {
            interest.expiry_ps = packet.time_ps + self.network.lifetime_ps;
            return shard.capacity.is_none() || self.insert_pit_entry(packet);
        }
        if packet.form() == Form::REFUSAL {
            return true;
        }
        if interest.expiry_ps <= packet.time_ps {
            self.end(packet.id(), packet.time_ps, Outcome::Late);
            return false;
        }
        // In a shard without limit, none is in the PIT.
        shard.live -= usize::from(interest.is_in_pit);
        interest.is_in_pit = false;
        true
    }

    /// Makes room by the entries that expired; returns false if the PIT is full nevertheless.
    #[inline(never)]
    fn insert_pit_entry(&mut self, packet: Packet) -> bool {
        let Interest { expiry_ps: own_expiry_ps, shard: index, .. } =
            self.interests[packet.id() as usize];
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
            self.end(packet.id(), packet.time_ps, Outcome::PitFull(index));
            return false;
        }
        shard.entries.push_back((own_expiry_ps, packet.id()));
        shard.live += 1;
        self.interests[packet.id() as usize].is_in_pit = true;
        let pit_max = &mut self.results.pit_max[usize::from(index)];
        *pit_max = (*pit_max).max(shard.live);
        true
    }

    #[inline(always)]
    fn leave(&mut self, station: usize, packet: Packet, exit: Exit) {
        if exit == Exit::GONE {
            return;
        }
        let Some(face) = exit.face() else {
            return self.push(exit.0 as usize, packet.with_origin(station as u16));
        };
        let Some(packet) = self.cross(packet, face, true) else { return };
        if face < self.network.consumers.len() {
            let received_ps = self.pauses.resume_ps(self.pauses.of_consumer(face), packet.time_ps);
            self.reach_consumer(packet.at(received_ps));
        } else {
            self.produce(packet, face);
        }
    }

    #[inline(always)]
    fn push(&mut self, queue: usize, packet: Packet) {
        let state = &mut self.queues[queue];
        state.push(packet);
        let ready_ps = &mut self.ready_ps[queue];
        if packet.time_ps < *ready_ps {
            *ready_ps = packet.time_ps;
            let processor = self.stations[state.station].processor;
            let ready_ps = packet.time_ps.max(self.free_ps[state.station]);
            let poll_ps = self.pauses.resume_ps(processor, ready_ps);
            let next_ps = &mut self.next_ps[state.station];
            *next_ps = (*next_ps).min(poll_ps);
        }
    }

    /// Puts the packet on the link of a face to the forwarder.
    #[inline(always)]
    fn receive(&mut self, packet: Packet, face: usize) {
        if let Some(packet) = self.cross(packet, face, false) {
            let origin = (self.network.stations.len() + face) as u16;
            self.push(self.input_at[face], packet.with_origin(origin));
        }
    }

    /// Puts the packet on a link at its time; returns it at the time when it comes out, if it does.
    #[inline(always)]
    fn cross(&mut self, packet: Packet, face: usize, outgoing: bool) -> Option<Packet> {
        let link = &mut self.links[face][usize::from(outgoing)];
        if link.is_limited {
            return self.cross_limited(packet, face, outgoing);
        }
        Some(packet.at(link.pass(packet.time_ps, packet.form().index())))
    }

    #[inline(never)]
    fn cross_limited(&mut self, packet: Packet, face: usize, outgoing: bool) -> Option<Packet> {
        let link = &mut self.links[face][usize::from(outgoing)];
        let Some(end_ps) = link.pass_limited(packet.time_ps, packet.form().index()) else {
            self.end(packet.id(), packet.time_ps, Outcome::LinkFull(face as u16));
            return None;
        };
        let (packet, id) = (packet.at(end_ps), packet.id());
        let is_lost = |random| self.network.is_lost(random, face, outgoing, u64::from(id));
        let order = order::loss(face < self.network.consumers.len(), outgoing);
        if link.has_loss && is_lost(self.random.of(id, order)) {
            self.end(packet.id(), packet.time_ps, Outcome::LinkLoss(face as u16));
            return None;
        }
        Some(packet)
    }

    /// The packet has reached the producer of the face, which answers on the same one.
    #[inline(always)]
    fn produce(&mut self, packet: Packet, face: usize) {
        let producer = &mut self.producers[face - self.network.consumers.len()];
        let services = &self.services;
        let id = packet.id();
        let service_ps = services.time_ps(&services.produce, &self.random, id);
        let Some(done_ps) = producer.take(packet.time_ps, service_ps, &mut self.pauses) else {
            let queue = producer.queue as u16;
            return self.end(id, packet.time_ps, Outcome::QueueFull(queue));
        };
        if self.has_digests {
            self.results.records[id as usize].pass(producer.station, Stage::Produce, done_ps);
        }
        let form = Form::new(self.network.answer(self.random.of(id, order::ANSWER), u64::from(id)));
        self.receive(packet.at(done_ps).with_form(form), face);
    }

    #[inline(always)]
    fn reach_consumer(&mut self, packet: Packet) {
        let record = &mut self.results.records[packet.id() as usize];
        let is_in_time = packet.time_ps <= record.created_ps + self.network.lifetime_ps;
        record.ended_ps = packet.time_ps;
        record.outcome = match packet.form().kind() {
            Kind::Nack => Outcome::Nacked,
            Kind::Interest | Kind::Data if is_in_time => Outcome::Satisfied,
            Kind::Interest | Kind::Data => Outcome::Late,
        };
    }

    #[inline]
    fn end(&mut self, id: u32, time_ps: u64, outcome: Outcome) {
        let record = &mut self.results.records[id as usize];
        record.ended_ps = time_ps;
        record.outcome = outcome;
    }
}

impl Work {
    fn of(station: usize, queues: &[Queue], forward: &[[Place; 3]], output: &[Place]) -> Self {
        let is_all = |stage: Stage| queues.iter().all(|queue| queue.stage == stage);
        let is_own = |place: &Place| place.station == station;
        let forwards = forward.as_flattened();
        match () {
            () if is_all(Stage::Input) && forwards.iter().chain(output).all(is_own) => Self::Whole,
            () if is_all(Stage::Input) && !forwards.iter().any(is_own) => Self::Input,
            () if is_all(Stage::Forward) && !output.iter().any(is_own) => Self::Forward,
            () if is_all(Stage::Output) => Self::Output,
            () => Self::Mixed,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::Arc;

    use super::*;
    use crate::assembly::{Common, Dispatch, Namewire, Placement, Traffic, zipf_cdf};
    use crate::distribution::{Distribution, QuantileTable};
    use crate::network::{self, PausedTraffic, QueueManagement, Services};
    use crate::random::{Draw, StreamId};
    use crate::reference;

    /// A forwarder of one worker with one or two consumers and producers, busy for half of the time to always.
    fn network(draw: &mut Draw) -> Network {
        let mut below = |count: u64| draw.below(count) as usize;
        let laws = [
            Distribution::Constant(200.0),
            Distribution::Exponential { mean: 250.0 },
            Distribution::Uniform { low: 50.0, high: 300.0 },
            Distribution::Empirical(QuantileTable {
                quantiles: vec![50.0, 100.0, 150.0, 400.0],
                tail_probability: 0.1,
                tail_mean: 200.0,
            }),
        ];
        let constant = || Distribution::Constant(10.0);
        let link = |delay_ps: u64, transmit_ps: u64| network::Link {
            transmit_ps: [transmit_ps, 2 * transmit_ps, transmit_ps],
            delay_ps,
            loss: 0.0,
            capacity: None,
            turns_ps: [1; 2],
        };
        let turn_ps = [1, 700][below(2)];
        let in_turns = |link: network::Link| network::Link { turns_ps: [turn_ps; 2], ..link };
        let consumers = (0..=below(2)).map(|number| Consumer {
            arrivals: Arrivals::Renewal(match below(3) {
                0 => Distribution::Constant(600.0),
                1 => Distribution::Exponential { mean: 1100.0 },
                _ => Distribution::Constant(1350.0),
            }),
            first_prefix: 2 * number as u32,
            prefix_cdf: zipf_cdf(1 + below(4), 0.5),
        });
        let traffic = Traffic {
            consumers: consumers.collect(),
            consumer_links: [in_turns(link(1, 0)), in_turns(link(500, 10))],
            producers: 1 + below(2),
            producer_links: [link([1, 3000][below(2)], 20), link(1, 0)],
            producer_capacity: [2, 50][below(2)],
            lifetime_ps: 30_000,
            producer_nack_ratio: 0.0,
        };
        let overload =
            QueueManagement { mark_after_ps: Some(1500), shed_after_ps: None, interval_ps: 3000 };
        let forwarder = Namewire {
            common: Common {
                services: Services {
                    input: [constant(), constant(), constant()],
                    forward: [laws[below(4)].clone(), laws[below(4)].clone(), constant()],
                    forward_hit: constant(),
                    output: [constant(), laws[below(4)].clone(), constant()],
                    produce: laws[below(4)].clone(),
                },
                placement: Placement::P2,
                remote_factor: 1.5,
                dispatch: Dispatch::Balanced,
                pit_capacity: None,
                hit_ratio: 0.0,
                poll_ps: [0, 70][below(2)],
                nic_capacity: 3 + below(30),
                nic_burst: 1 + below(8),
            },
            workers: 1,
            input_workers: 0,
            ring_capacity: 10,
            ring_burst: 8,
            overload: (below(3) == 0).then_some(overload),
            answers_first: below(2) == 0,
        };
        let mut network = forwarder.assemble(&traffic);
        if below(2) == 0 {
            let length = [300.0, 3000.0][below(2)];
            let laws = (
                Distribution::Exponential { mean: 9000.0 },
                Distribution::Uniform { low: 0.2 * length, high: length },
            );
            let outside = [PausedTraffic::Own, PausedTraffic::Shared][below(2)];
            network.pauses = Some(network::Pauses::of_threads(&network, laws, false, outside));
        }
        network
    }

    #[test]
    fn traces_are_those_of_the_reference_engine() {
        let (mut done, mut unusual) = (0, 0);
        for composition in 0..250 {
            let random = TraceRandom::new(77, composition);
            let network = Arc::new(network(&mut random.draw(StreamId(u32::MAX), 0)));
            assert_eq!(network.fault(), None);
            let mut expected = reference::run(&network, random, 100_000);
            expected.records.iter_mut().for_each(|record| record.digest = 0);
            let mut engine = FastEngine::without_digests(&network);
            assert_eq!(engine.run(random, 100_000), &expected, "composition {composition}");
            let solo = engine.solo.as_mut().unwrap();
            if solo.off == 0 {
                done += 1;
            } else {
                unusual += 1;
            }
            // What happened in one trace leaves nothing for the next one.
            solo.off = 0;
            engine.run(TraceRandom::new(78, composition), 50_000);
            engine.solo.as_mut().unwrap().off = 0;
            assert_eq!(engine.run(random, 100_000), &expected, "composition {composition}");
        }
        assert!(done >= 40 && unusual >= 40, "{done} {unusual}");
    }
}
