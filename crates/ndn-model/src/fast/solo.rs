//! The loop for a forwarder of one worker that does everything, as long as nothing unusual happens.
//!
//! Queues are arrays of arrival times, each in order: what a poll finds are comparisons of the first entries, and a table
//! has the queue that is polled. The times of all stages that an Interest, or its Data, passes in the worker are one sum,
//! drawn as the Interest is generated. Nothing is dropped, refused, marked, late or answered by the Content Store: where
//! that could happen, [`Solo::run`] gives up and the general loop simulates the trace again.

use super::link::Link;
use super::packet::NEVER;
use super::pauses::{Pauses, Processor};
use super::producer::Producer;
use super::services::{Services, Sum};
use super::traffic::Traffic;
use crate::network::{
    Face, Flush, Kind, Network, Outcome, QueueRecord, Record, Stage, Station, TraceResult,
};
use crate::random::TraceRandom;

/// Queues of the worker, at most.
const QUEUES_MAX: usize = 4;
/// Traces that the general loop simulates after one in which something unusual has happened.
const TRACES_OFF: u32 = 16;
/// Interests that are generated at once.
const BLOCK: usize = 256;

const INTEREST: usize = Kind::Interest as usize;
const DATA: usize = Kind::Data as usize;

/// State of the loop, kept from trace to trace.
#[derive(Debug)]
pub(super) struct Solo<'n> {
    /// One queue for each face, then unused ones: 2 queues in all, or [`QUEUES_MAX`] with more than two faces.
    queues: Vec<Arrivals>,
    /// Incoming and outgoing link of each face.
    links: Vec<[Link; 2]>,
    producers: Vec<Producer>,
    consumers: usize,
    /// The queue of each face.
    queue_of: Vec<usize>,
    rows: Vec<Row>,
    interest: Sum<'n>,
    answer: Sum<'n>,
    produce: Sum<'n>,
    /// By state and set of queues with packets: the queue that is polled, and the next state.
    turns: Vec<[(u8, u8); 1 << QUEUES_MAX]>,
    pauses: Pauses<'n>,
    /// Of the worker.
    processor: Processor,
    poll_ps: u64,
    lifetime_ps: u64,
    /// Traces until the next try.
    pub off: u32,
}

/// Times and faces of an Interest.
#[derive(Debug, Clone, Copy)]
struct Row {
    interest_ps: u64,
    answer_ps: u64,
    produce_ps: u64,
    consumer: u16,
    producer: u16,
}

/// A queue with all packets that ever arrive.
#[derive(Debug, Default)]
struct Arrivals {
    /// Its number in the network.
    id: usize,
    /// The face whose incoming link leads to it.
    face: usize,
    /// In order; [`NEVER`] beyond the last one.
    times_ps: Vec<u64>,
    ids: Vec<u32>,
    head: usize,
    end: usize,
    burst: usize,
    capacity: usize,
    /// Management takes notice of packets that waited as long as this.
    target_ps: u64,
    record: QueueRecord,
}

impl Arrivals {
    #[inline(always)]
    fn first_ps(&self) -> u64 {
        self.times_ps[self.head]
    }

    #[inline(always)]
    fn push(&mut self, time_ps: u64, id: u32) {
        self.times_ps[self.end] = time_ps;
        self.ids[self.end] = id;
        self.end += 1;
    }

    /// Takes a burst at `now_ps`; returns its range.
    #[inline(always)]
    fn take(&mut self, now_ps: u64) -> Result<core::ops::Range<usize>, Unusual> {
        let times_ps = &self.times_ps[self.head..];
        let mut waited_ps = now_ps - times_ps[0];
        if waited_ps >= self.target_ps {
            return Err(Unusual);
        }
        let mut count = 1;
        while count < self.burst && times_ps[count] <= now_ps {
            waited_ps += now_ps - times_ps[count];
            count += 1;
        }
        let mut length = count;
        if count == self.burst {
            length += times_ps[count..].iter().take_while(|time_ps| **time_ps <= now_ps).count();
        }
        if length > self.capacity {
            return Err(Unusual);
        }
        let first = self.head;
        self.head += count;
        self.record.entered += count as u64;
        self.record.length_max = self.record.length_max.max(length);
        self.record.waited_ps += u128::from(waited_ps);
        Ok(first..self.head)
    }
}

/// Something unusual has happened.
struct Unusual;

/// The only station that polls queues of packets for the forwarder, with its number, if it does everything.
fn only_station(network: &Network) -> Option<(usize, &Station)> {
    let is_fed = |queue: &usize| network.is_fed(*queue);
    let forwards = |(_, station): &(usize, &Station)| {
        let mut queues = station.queues.iter().filter(|queue| is_fed(queue));
        queues.any(|queue| network.queues[*queue].stage != Stage::Produce)
    };
    let mut stations = network.stations.iter().enumerate().filter(forwards);
    let (number, station) = stations.next()?;
    let is_own = |queue: &usize| station.queues.contains(queue);
    let does_all = network.faces.iter().all(|face| is_own(&face.output_queue))
        && network.shards.iter().all(|shard| shard.queues.iter().all(is_own));
    (does_all && stations.next().is_none()).then_some((number, station))
}

impl<'n> Solo<'n> {
    /// The loop for this network, if it is one for it.
    pub(super) fn new(network: &'n Network, services: &Services<'n>) -> Option<Self> {
        let is_plain = |link: &crate::network::Link| link.loss <= 0.0 && link.capacity.is_none();
        let mut links = network.faces.iter().flat_map(|face| [&face.incoming, &face.outgoing]);
        let (number, station) = only_station(network)?;
        let pauses = Pauses::new(network);
        // All queues are those of faces, one each.
        let fed: Vec<usize> =
            station.queues.iter().copied().filter(|queue| network.is_fed(*queue)).collect();
        let face_of = |queue: &usize| {
            let reads = |face: &Face| face.input_queue == *queue;
            network.faces.iter().position(reads)
        };
        let faces: Vec<usize> = fed.iter().map(face_of).collect::<Option<_>>()?;
        let consumers = network.consumers.len();
        // Times depend on the kind of the face only.
        let is_alike = |face: usize| {
            let first = if face < consumers { 0 } else { consumers };
            let (input, output) = (&services.input, &services.output);
            [INTEREST, DATA].into_iter().all(|kind| {
                input[face][kind].is_same(&input[first][kind])
                    && output[face][kind].is_same(&output[first][kind])
            })
        };
        let is_usual = station.flush == Flush::EndOfBurst
            && faces.len() == network.faces.len()
            && faces.len() <= QUEUES_MAX
            && (0..faces.len()).all(is_alike)
            && fed.iter().all(|queue| network.queues[*queue].full_at.is_none())
            && links.all(is_plain)
            && network.shards.len() == 1
            && network.shards[0].pit_capacity.is_none()
            && network.hit_ratio <= 0.0
            && network.producer_nack_ratio <= 0.0;
        if !is_usual {
            return None;
        }
        let mut queues: Vec<Arrivals> = Vec::new();
        for (queue, face) in fed.iter().zip(&faces) {
            let spec = &network.queues[*queue];
            let targets = spec.management.map(|management| {
                let shed = management.shed_after_ps.map_or(NEVER, |(after_ps, _)| after_ps);
                management.mark_after_ps.unwrap_or(NEVER).min(shed)
            });
            let (id, face, target_ps) = (*queue, *face, targets.unwrap_or(NEVER));
            let (burst, capacity) = (spec.burst, spec.capacity);
            queues.push(Arrivals { id, face, burst, capacity, target_ps, ..Arrivals::default() });
        }
        let classes: Vec<u8> = fed.iter().map(|queue| network.queues[*queue].class).collect();
        let queue_of = |face| faces.iter().position(|own| *own == face).unwrap_or(0);
        let queue_of = (0..faces.len()).map(queue_of).collect();
        queues.resize_with(if faces.len() > 2 { QUEUES_MAX } else { 2 }, Arrivals::default);
        let [from_consumer, from_producer] = &services.forward[0];
        let (consumer, producer) = (0, consumers);
        Some(Self {
            queues,
            links: network
                .faces
                .iter()
                .map(|face| [Link::new(&face.incoming), Link::new(&face.outgoing)])
                .collect(),
            producers: Producer::all(network),
            consumers,
            queue_of,
            rows: Vec::new(),
            interest: Sum::new(&[
                &services.input[consumer][INTEREST],
                &from_consumer[INTEREST],
                &services.output[producer][INTEREST],
            ]),
            answer: Sum::new(&[
                &services.input[producer][DATA],
                &from_producer[DATA],
                &services.output[consumer][DATA],
            ]),
            produce: Sum::new(&[&services.produce]),
            turns: turns(&classes),
            processor: pauses.of_station(number),
            pauses,
            poll_ps: station.poll_ps,
            lifetime_ps: network.lifetime_ps,
            off: 0,
        })
    }

    /// Whether the loop is to be tried with the next trace.
    pub(super) const fn is_on(&mut self) -> bool {
        let is_on = self.off == 0;
        self.off = self.off.saturating_sub(1);
        is_on
    }

    /// Runs a trace into empty results, without digests; returns false if something unusual happens in it.
    pub(super) fn run(
        &mut self,
        traffic: &mut Traffic<'_>,
        random: TraceRandom,
        results: &mut TraceResult,
    ) -> bool {
        self.reset();
        self.pauses.reset(random);
        let end = if self.queues.len() == 2 {
            self.run_with::<2>(traffic, random, &mut results.records)
        } else {
            self.run_with::<QUEUES_MAX>(traffic, random, &mut results.records)
        };
        if end.is_err() {
            self.off = TRACES_OFF;
            return false;
        }
        for queue in self.queues.iter().take(self.links.len()) {
            results.queues[queue.id] = queue.record;
        }
        for producer in &self.producers {
            results.queues[producer.queue] = *producer.record();
        }
        true
    }

    fn reset(&mut self) {
        self.rows.clear();
        for queue in &mut self.queues {
            queue.times_ps.clear();
            queue.times_ps.push(NEVER);
            queue.ids.clear();
            (queue.head, queue.end) = (0, 0);
            queue.record = QueueRecord::default();
        }
        self.links.iter_mut().flatten().for_each(Link::reset);
        self.producers.iter_mut().for_each(Producer::reset);
    }

    fn run_with<const QUEUES: usize>(
        &mut self,
        traffic: &mut Traffic<'_>,
        random: TraceRandom,
        records: &mut Vec<Record>,
    ) -> Result<(), Unusual> {
        let (mut state, mut free_ps) = (0, 0);
        loop {
            let bound_ps = self.generate(traffic, random, records);
            loop {
                let Some(queues) = self.queues.first_chunk::<QUEUES>() else { return Err(Unusual) };
                let first_ps = queues.each_ref().map(Arrivals::first_ps);
                let earliest_ps = first_ps.iter().fold(NEVER, |a, b| a.min(*b));
                let ready_ps = earliest_ps.max(free_ps);
                let now_ps = self.pauses.resume_ps(self.processor, ready_ps);
                if now_ps >= bound_ps {
                    break;
                }
                let waits = |queue: usize| usize::from(first_ps[queue] <= now_ps) << queue;
                let set = (0..QUEUES).fold(0, |set, queue| set | waits(queue));
                let (queue, next_state) = self.turns[state][set];
                state = usize::from(next_state);
                let queue = usize::from(queue);
                let burst = self.queues[queue].take(now_ps)?;
                free_ps = if self.queues[queue].face < self.consumers {
                    self.forward_interests(queue, burst, now_ps)?
                } else {
                    self.forward_answers(queue, burst, now_ps, records)?
                };
            }
            if bound_ps == NEVER {
                return Ok(());
            }
        }
    }

    /// Forwards Interests, which reach the producer and come back as Data.
    #[inline(always)]
    fn forward_interests(
        &mut self,
        queue: usize,
        burst: core::ops::Range<usize>,
        now_ps: u64,
    ) -> Result<u64, Unusual> {
        let ids = &self.queues[queue].ids[burst.clone()];
        let work_ps =
            ids.iter().fold(self.poll_ps, |sum, id| sum + self.rows[*id as usize].interest_ps);
        let time_ps = self.pauses.work_ps(self.processor, now_ps, work_ps);
        for place in burst {
            let id = self.queues[queue].ids[place];
            let row = self.rows[id as usize];
            let face = usize::from(row.producer);
            let [incoming, outgoing] = &mut self.links[face];
            let arrival_ps = outgoing.pass(time_ps, INTEREST);
            let producer = &mut self.producers[face - self.consumers];
            let done_ps = producer.take(arrival_ps, row.produce_ps, &mut self.pauses);
            let done_ps = done_ps.ok_or(Unusual)?;
            let back_ps = incoming.pass(done_ps, DATA);
            self.queues[self.queue_of[face]].push(back_ps, id);
        }
        Ok(time_ps)
    }

    /// Forwards Data, which reach the consumer. One that is in time there was in time for its PIT entry, which was made
    /// after the Interest was sent.
    #[inline(always)]
    fn forward_answers(
        &mut self,
        queue: usize,
        burst: core::ops::Range<usize>,
        now_ps: u64,
        records: &mut [Record],
    ) -> Result<u64, Unusual> {
        let ids = &self.queues[queue].ids[burst];
        let work_ps =
            ids.iter().fold(self.poll_ps, |sum, id| sum + self.rows[*id as usize].answer_ps);
        let time_ps = self.pauses.work_ps(self.processor, now_ps, work_ps);
        let mut is_late = false;
        for id in ids {
            let face = usize::from(self.rows[*id as usize].consumer);
            let arrival_ps = self.links[face][1].pass(time_ps, DATA);
            let ended_ps = self.pauses.resume_ps(self.pauses.of_consumer(face), arrival_ps);
            let record = &mut records[*id as usize];
            record.ended_ps = ended_ps;
            is_late |= ended_ps - record.created_ps > self.lifetime_ps;
        }
        if is_late { Err(Unusual) } else { Ok(time_ps) }
    }

    /// Puts the next Interests into the queues; returns the time until which all arrivals are known then.
    fn generate(
        &mut self,
        traffic: &mut Traffic<'_>,
        random: TraceRandom,
        records: &mut Vec<Record>,
    ) -> u64 {
        let first = records.len();
        let fresh = traffic.draw(first as u32, BLOCK);
        let count = fresh.len();
        let mut words = [0; BLOCK];
        let mut times_ps = [[0; BLOCK]; 3];
        let sums = [&self.interest, &self.answer, &self.produce];
        for (sum, times_ps) in sums.into_iter().zip(&mut times_ps) {
            sum.draw(random, first as u64, &mut words[..count], &mut times_ps[..count]);
        }
        for queue in &mut self.queues {
            queue.times_ps.resize(first + count + 1, NEVER);
            queue.ids.resize(first + count + 1, 0);
        }
        let [interests_ps, answers_ps, produces_ps] = &times_ps;
        let times_ps = interests_ps.iter().zip(answers_ps).zip(produces_ps);
        for ((fresh, id), times_ps) in fresh.iter().zip(first as u32..).zip(times_ps) {
            let ((interest_ps, answer_ps), produce_ps) = times_ps;
            let producer = self.consumers + fresh.prefix as usize % self.producers.len();
            self.rows.push(Row {
                interest_ps: *interest_ps,
                answer_ps: *answer_ps,
                produce_ps: *produce_ps,
                consumer: fresh.consumer as u16,
                producer: producer as u16,
            });
            // All are satisfied, or the trace is simulated again.
            let outcome = Outcome::Satisfied;
            records.push(Record { outcome, ..Record::new(fresh.time_ps) });
            let processor = self.pauses.of_consumer(fresh.consumer);
            let sent_ps = self.pauses.resume_ps(processor, fresh.time_ps);
            let arrival_ps = self.links[fresh.consumer][0].pass(sent_ps, INTEREST);
            self.queues[self.queue_of[fresh.consumer]].push(arrival_ps, id);
        }
        let delays_ps =
            self.links[..self.consumers].iter().map(|[incoming, _]| incoming.delay_ps());
        (traffic.next_ps() + delays_ps.min().unwrap_or(0)).min(NEVER)
    }
}

/// The order in which queues of these classes, ascending, are polled: the lowest class first, in turn within a class.
fn turns(classes: &[u8]) -> Vec<[(u8, u8); 1 << QUEUES_MAX]> {
    // Of each class, the queue that was polled last: at the beginning, the last one.
    let last_of = |queue: usize| classes.iter().rposition(|class| *class == classes[queue]);
    let mut states: Vec<Vec<usize>> =
        vec![(0..classes.len()).map(|queue| last_of(queue).unwrap_or(queue)).collect()];
    let mut turns = Vec::new();
    while turns.len() < states.len() {
        let state = states[turns.len()].clone();
        let mut row = [(0, 0); 1 << QUEUES_MAX];
        for (set, turn) in row.iter_mut().enumerate().take(1 << classes.len()).skip(1) {
            let waits = |queue: usize| set >> queue & 1 == 1;
            let first = set.trailing_zeros() as usize;
            let same = |queue: &usize| classes[*queue] == classes[first] && waits(*queue);
            let queue = (state[first] + 1..classes.len()).find(same).unwrap_or(first);
            let mut next = state.clone();
            for (last, class) in next.iter_mut().zip(classes) {
                if *class == classes[queue] {
                    *last = queue;
                }
            }
            let number = states.iter().position(|known| *known == next).unwrap_or(states.len());
            if number == states.len() {
                states.push(next);
            }
            *turn = (queue as u8, number as u8);
        }
        turns.push(row);
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_have_their_turn_within_the_lowest_class() {
        let turns = turns(&[0, 1, 1, 2]);
        let polled = |sets: &[usize]| {
            let mut state = 0;
            let queues = sets.iter().map(|set| {
                let (queue, next) = turns[state][*set];
                state = usize::from(next);
                queue
            });
            queues.collect::<Vec<u8>>()
        };
        assert_eq!(polled(&[0b1111, 0b1110, 0b1110, 0b1110]), [0, 1, 2, 1]);
        assert_eq!(polled(&[0b0100, 0b0110, 0b0010, 0b0110, 0b1000]), [2, 1, 1, 2, 3]);
    }
}
