//! The loop for a forwarder of one worker that does everything, as long as nothing unusual happens.
//!
//! Queues are arrays of arrival times, each in order: what a poll finds are comparisons of the first entries, and a table
//! has the queue that is polled. Nothing is dropped, refused, marked, late or answered by the Content Store: where that
//! could happen, [`run`](FastEngine::run_solo) gives up and the general loop simulates the trace again.

use super::packet::NEVER;
use super::queue::Queue;
use super::{FastEngine, Fresh, Link, Station, Work};
use crate::network::{Kind, Network, Outcome, QueueRecord};

/// Queues of the worker, at most.
const QUEUES_MAX: usize = 4;
/// Traces that the general loop simulates after one in which something unusual has happened.
const TRACES_OFF: u32 = 16;
/// Entries behind the last packet of a queue that say that none arrives.
const PADDING: usize = 2;

/// State of the loop, kept from trace to trace.
#[derive(Debug)]
pub(super) struct Solo {
    arrivals: [Arrivals; QUEUES_MAX],
    /// By state and set of queues with packets: the queue that is polled, and the next state.
    turns: Vec<[(u8, u8); 1 << QUEUES_MAX]>,
    poll_ps: u64,
    /// Traces until the next try.
    off: u32,
}

/// A queue with all packets that ever arrive.
#[derive(Debug, Default)]
struct Arrivals {
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
    #[inline]
    fn push(&mut self, time_ps: u64, id: u32) {
        self.times_ps[self.end] = time_ps;
        self.ids[self.end] = id;
        self.end += 1;
    }
}

/// Something unusual has happened.
struct Unusual;

impl Solo {
    /// The loop for this network, if it is one for it.
    pub(super) fn new(network: &Network, stations: &[Station], queues: &[Queue]) -> Option<Self> {
        let is_plain = |link: &crate::network::Link| link.loss <= 0.0 && link.capacity.is_none();
        let mut links = network.faces.iter().flat_map(|face| [&face.incoming, &face.outgoing]);
        // One station does everything: all queues are those of faces, one each.
        let station = stations.iter().find(|station| station.queues.0 < station.queues.1)?;
        let is_usual = station.work == Work::Whole
            && !station.is_each
            && station.queues == (0, queues.len())
            && queues.len() == network.faces.len()
            && queues.len() <= QUEUES_MAX
            && queues.iter().all(|queue| queue.full_at() == usize::MAX)
            && links.all(is_plain)
            && network.shards.iter().all(|shard| shard.pit_capacity.is_none())
            && network.hit_ratio <= 0.0
            && network.producer_nack_ratio <= 0.0;
        if !is_usual {
            return None;
        }
        let mut arrivals: [Arrivals; QUEUES_MAX] = Default::default();
        for (own, queue) in arrivals.iter_mut().zip(queues) {
            (own.burst, own.capacity) = (queue.burst, queue.capacity());
            own.target_ps = queue.target_ps();
        }
        let classes: Vec<u8> = queues.iter().map(|queue| queue.class).collect();
        Some(Self { arrivals, turns: turns(&classes), poll_ps: station.poll_ps, off: 0 })
    }

    /// Whether the loop is to be tried with this trace.
    pub(super) const fn is_on(&mut self) -> bool {
        let is_on = self.off == 0;
        self.off = self.off.saturating_sub(1);
        is_on
    }

    fn reset(&mut self) {
        for queue in &mut self.arrivals {
            queue.times_ps.clear();
            queue.ids.clear();
            (queue.head, queue.end) = (0, 0);
            queue.record = QueueRecord::default();
        }
    }

    /// Makes room for `count` packets in each queue: there is one packet per Interest.
    fn reserve(&mut self, count: usize) {
        for queue in &mut self.arrivals {
            queue.times_ps.resize(count + PADDING, NEVER);
            queue.ids.resize(count + PADDING, 0);
        }
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

impl FastEngine<'_> {
    /// Runs a trace after [`reset`](Self::reset); returns false if something unusual happens in it.
    pub(super) fn run_solo(&mut self) -> bool {
        let Some(mut solo) = self.solo.take() else { return false };
        solo.reset();
        let is_done = self.solo_loop(&mut solo).is_ok();
        if is_done {
            let queues = self.queues.iter_mut().zip(&solo.arrivals);
            queues.for_each(|(queue, arrivals)| queue.record = arrivals.record);
        } else {
            solo.off = TRACES_OFF;
        }
        self.solo = Some(solo);
        is_done
    }

    fn solo_loop(&mut self, solo: &mut Solo) -> Result<(), Unusual> {
        let (mut state, mut free_ps) = (0, 0);
        let mut bound_ps = self.solo_generate(solo);
        loop {
            // No slice of the queues here: their times are read at the heads only.
            let first_ps = [0, 1, 2, 3].map(|queue| {
                let arrivals: &Arrivals = &solo.arrivals[queue];
                arrivals.times_ps[arrivals.head]
            });
            let earliest_ps = first_ps[0].min(first_ps[1]).min(first_ps[2].min(first_ps[3]));
            let now_ps = earliest_ps.max(free_ps);
            if now_ps >= bound_ps {
                if bound_ps == NEVER {
                    return Ok(());
                }
                bound_ps = self.solo_generate(solo);
                continue;
            }
            let waits = |queue: usize| usize::from(first_ps[queue] <= now_ps) << queue;
            let set = waits(0) | waits(1) | waits(2) | waits(3);
            let (queue, next_state) = solo.turns[state][set];
            state = usize::from(next_state);
            free_ps = self.solo_serve(solo, usize::from(queue), now_ps)?;
        }
    }

    /// Takes a burst; returns when its last packet is processed.
    #[inline(always)]
    fn solo_serve(&mut self, solo: &mut Solo, queue: usize, now_ps: u64) -> Result<u64, Unusual> {
        let arrivals = &mut solo.arrivals[queue];
        let (first, burst) = (arrivals.head, arrivals.burst);
        let times_ps = &arrivals.times_ps[first..];
        let mut waited_ps = now_ps - times_ps[0];
        if waited_ps >= arrivals.target_ps {
            return Err(Unusual);
        }
        let mut count = 1;
        while count < burst && times_ps[count] <= now_ps {
            waited_ps += now_ps - times_ps[count];
            count += 1;
        }
        let mut length = count;
        if count == burst {
            length += times_ps[count..].iter().take_while(|time_ps| **time_ps <= now_ps).count();
        }
        if length > arrivals.capacity {
            return Err(Unusual);
        }
        arrivals.head = first + count;
        let record = &mut arrivals.record;
        record.entered += count as u64;
        record.length_max = record.length_max.max(length);
        record.waited_ps += u128::from(waited_ps);
        let begin_ps = now_ps + solo.poll_ps;
        let face = self.face_of[queue];
        if face < self.sources.len() {
            self.solo_interests(solo, (queue, face), first..first + count, begin_ps)
        } else {
            self.solo_answers(solo, (queue, face), first..first + count, begin_ps)
        }
    }

    /// Forwards Interests, which reach the producer and come back as Data.
    #[inline(always)]
    fn solo_interests(
        &mut self,
        solo: &mut Solo,
        (queue, face): (usize, usize),
        burst: std::ops::Range<usize>,
        begin_ps: u64,
    ) -> Result<u64, Unusual> {
        const INTEREST: usize = Kind::Interest as usize;
        let (services, random) = (&self.services, self.random);
        let mut time_ps = begin_ps;
        for place in burst.clone() {
            let id = solo.arrivals[queue].ids[place];
            let interest = &mut self.interests[id as usize];
            let (shard, producer) = (usize::from(interest.shard), usize::from(interest.producer));
            time_ps += services.time_ps(&services.input[face][INTEREST], random, id);
            time_ps += services.time_ps(&services.forward[shard][0][INTEREST], random, id);
            interest.expiry_ps = time_ps + self.network.lifetime_ps;
            time_ps += services.time_ps(&services.output[producer][INTEREST], random, id);
        }
        for place in burst {
            let id = solo.arrivals[queue].ids[place];
            let face = usize::from(self.interests[id as usize].producer);
            let [incoming, outgoing] = &mut self.links[face];
            let arrival_ps = outgoing.pass(time_ps, INTEREST);
            let service_ps = services.time_ps(&services.produce, random, id);
            let producer = &mut self.producers[face - self.sources.len()];
            let done_ps = producer.take(arrival_ps, service_ps).ok_or(Unusual)?;
            let back_ps = incoming.pass(done_ps, Kind::Data as usize);
            solo.arrivals[self.input_at[face]].push(back_ps, id);
        }
        Ok(time_ps)
    }

    /// Forwards Data, which reach the consumer.
    #[inline(always)]
    fn solo_answers(
        &mut self,
        solo: &Solo,
        (queue, face): (usize, usize),
        burst: std::ops::Range<usize>,
        begin_ps: u64,
    ) -> Result<u64, Unusual> {
        const DATA: usize = Kind::Data as usize;
        let (services, random) = (&self.services, self.random);
        let mut time_ps = begin_ps;
        for place in burst.clone() {
            let id = solo.arrivals[queue].ids[place];
            let interest = &self.interests[id as usize];
            let (shard, consumer) = (usize::from(interest.shard), usize::from(interest.consumer));
            time_ps += services.time_ps(&services.input[face][DATA], random, id);
            time_ps += services.time_ps(&services.forward[shard][1][DATA], random, id);
            if interest.expiry_ps <= time_ps {
                return Err(Unusual);
            }
            time_ps += services.time_ps(&services.output[consumer][DATA], random, id);
        }
        for place in burst {
            let id = solo.arrivals[queue].ids[place] as usize;
            let face = usize::from(self.interests[id].consumer);
            let ended_ps = self.links[face][1].pass(time_ps, DATA);
            let record = &mut self.results.records[id];
            if ended_ps > record.created_ps + self.network.lifetime_ps {
                return Err(Unusual);
            }
            (record.ended_ps, record.outcome) = (ended_ps, Outcome::Satisfied);
        }
        Ok(time_ps)
    }

    /// Puts the next Interests into the queues; returns the time until which all arrivals are known then.
    fn solo_generate(&mut self, solo: &mut Solo) -> u64 {
        let first = self.draw_interests();
        solo.reserve(self.results.records.len());
        for (id, Fresh { time_ps, consumer, .. }) in (first..).zip(&self.fresh) {
            let arrival_ps = self.links[*consumer][0].pass(*time_ps, Kind::Interest as usize);
            solo.arrivals[self.input_at[*consumer]].push(arrival_ps, id);
        }
        self.fresh.clear();
        let (_, next_ps) = self.earliest_source();
        let delays = self.links[..self.sources.len()].iter().map(|[incoming, _]| incoming.delay_ps);
        next_ps.saturating_add(delays.min().unwrap_or(0))
    }
}

impl Link {
    /// A packet is put on the link, which loses none: when it comes out.
    #[inline]
    fn pass(&mut self, time_ps: u64, kind: usize) -> u64 {
        self.sent_ps = self.sent_ps.max(time_ps) + self.transmit_ps[kind];
        self.sent_ps + self.delay_ps
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::Arc;

    use super::*;
    use crate::assembly::{Common, Dispatch, Namewire, Placement, Traffic, zipf_cdf};
    use crate::distribution::{Distribution, QuantileTable};
    use crate::network::{Arrivals as Sending, Consumer, QueueManagement, Services};
    use crate::random::{Draw, StreamId, TraceRandom};
    use crate::reference;

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
        let link = |delay_ps: u64, transmit_ps: u64| crate::network::Link {
            transmit_ps: [transmit_ps, 2 * transmit_ps, transmit_ps],
            delay_ps,
            loss: 0.0,
            capacity: None,
        };
        let consumers = (0..=below(2)).map(|number| Consumer {
            arrivals: Sending::Renewal(match below(3) {
                0 => Distribution::Constant(600.0),
                1 => Distribution::Exponential { mean: 1100.0 },
                _ => Distribution::Constant(1350.0),
            }),
            first_prefix: 2 * number as u32,
            prefix_cdf: zipf_cdf(1 + below(4), 0.5),
        });
        let traffic = Traffic {
            consumers: consumers.collect(),
            consumer_links: [link(1, 0), link(500, 10)],
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
        forwarder.assemble(&traffic)
    }

    #[test]
    fn traces_are_those_of_the_reference_engine() {
        let (mut done, mut unusual) = (0, 0);
        for composition in 0..200 {
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
