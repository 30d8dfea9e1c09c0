//! Ready-made networks: the forwarders `ndn-dpdk` and `namewire` with their traffic.

use libm::pow;
use serde::{Deserialize, Serialize};

use crate::network::{
    CodelReset, Consumer, Face, Flush, Link, Network, Peer, Queue, QueueManagement, Services,
    Shard, Shed, Stage, Station,
};

/// The load that is offered to the forwarder.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Consumers, each on its own face.
    pub consumers: Vec<Consumer>,
    /// Links of consumers: towards the forwarder, and back.
    pub consumer_links: [Link; 2],
    /// Producers, each on its own face; prefix p belongs to producer p mod count.
    pub producers: usize,
    /// Links of producers: towards the forwarder, and back.
    pub producer_links: [Link; 2],
    /// Interests that a producer holds at most.
    pub producer_capacity: usize,
    /// Interest lifetime.
    pub lifetime_ps: u64,
    /// Probability that the producer answers with a Nack.
    pub producer_nack_ratio: f64,
}

/// Entries of the Name Dispatch Table.
const NDT_ENTRIES: u64 = 1 << 16;

/// The assignment of prefixes to shards by the Name Dispatch Table.
#[derive(Debug, Clone, PartialEq)]
pub enum Dispatch {
    /// By a hash of the first two name components, 2^16 entries, entry e to shard e mod count. The salt
    /// selects the names: 255 prefixes over 8 shards are 32 ± 5 each.
    Hash {
        /// Selects the names.
        salt: u64,
    },
    /// Largest load first, to the shard with the least load: what balancing reaches.
    Balanced,
    /// The operator's assignment, one shard per prefix.
    Given(Vec<u16>),
}

impl Dispatch {
    /// The shard of each prefix.
    fn shards(&self, loads: &[f64], count: usize) -> Vec<u16> {
        match self {
            Self::Given(shards) => shards.clone(),
            Self::Hash { salt } => (0..loads.len() as u64)
                .map(|prefix| (mix(prefix ^ mix(*salt)) % NDT_ENTRIES % count as u64) as u16)
                .collect(),
            Self::Balanced => {
                let mut order: Vec<usize> = (0..loads.len()).collect();
                order.sort_by(|a, b| loads[*b].total_cmp(&loads[*a]));
                let mut total = vec![0.0; count];
                let mut shards = vec![0; loads.len()];
                for prefix in order {
                    let least = (0..count).min_by(|a, b| f64::total_cmp(&total[*a], &total[*b]));
                    let shard = least.unwrap_or(0);
                    total[shard] += loads[prefix];
                    shards[prefix] = shard as u16;
                }
                shards
            }
        }
    }
}

/// The finalizer of SplitMix64: stands for the hash of a name.
const fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// On which NUMA nodes the faces and the forwarder's threads are, in the paper's numbering.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// All on one node.
    #[default]
    P1,
    /// Client faces and threads on one node, server faces on another.
    P2,
    /// Client faces on one node, threads and server faces on another.
    P3,
    /// Both kinds of faces on one node, threads on another.
    P4,
}

impl Placement {
    /// Whether packets of client faces, and of server faces, are in remote memory for the threads.
    #[must_use]
    pub const fn is_remote(self) -> [bool; 2] {
        match self {
            Self::P1 => [false, false],
            Self::P2 => [false, true],
            Self::P3 => [true, false],
            Self::P4 => [true, true],
        }
    }

    /// Factors on service times for client and server faces, where remote memory costs `remote`.
    #[must_use]
    pub fn factors(self, remote: f64) -> [f64; 2] {
        self.is_remote().map(|is_remote| if is_remote { remote } else { 1.0 })
    }
}

/// Parameters of both forwarders.
#[derive(Debug, Clone, PartialEq)]
pub struct Common {
    /// Service times.
    pub services: Services,
    /// Placement of faces and threads.
    pub placement: Placement,
    /// Factor on service times with packets in remote memory.
    pub remote_factor: f64,
    /// Assignment of prefixes to shards.
    pub dispatch: Dispatch,
    /// PIT entries per shard; unlimited if none.
    pub pit_capacity: Option<usize>,
    /// Probability that the Content Store answers.
    pub hit_ratio: f64,
    /// Time of a poll that finds packets.
    pub poll_ps: u64,
    /// Packets of a NIC ring.
    pub nic_capacity: usize,
    /// Packets taken from a NIC ring at once.
    pub nic_burst: usize,
}

/// Queues in front of a forwarding thread of NDN-DPDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardingQueues {
    /// One queue for all kinds of packets, as in the paper.
    Shared {
        /// Packets it holds.
        capacity: usize,
        /// Packets taken at once.
        burst: usize,
    },
    /// Queues for Interests, Data and Nacks, polled in turn, as NDN-DPDK has today.
    ByKind {
        /// Packets each holds.
        capacity: usize,
        /// Packets taken at once: 48, 64 and 64 there.
        bursts: [usize; 3],
        /// CoDel marks.
        management: Option<QueueManagement>,
    },
}

/// NDN-DPDK: input threads, forwarding threads, output threads.
#[derive(Debug, Clone, PartialEq)]
pub struct NdnDpdk {
    /// Parameters of both forwarders.
    pub common: Common,
    /// Input threads; face f is read by thread f mod count.
    pub input_threads: usize,
    /// Forwarding threads: one shard each.
    pub forwarding_threads: usize,
    /// Output threads; face f is written by thread f mod count.
    pub output_threads: usize,
    /// Queues of a forwarding thread.
    pub queues: ForwardingQueues,
    /// Packets of an output queue (one per face).
    pub output_capacity: usize,
    /// Packets taken from an output queue at once.
    pub output_burst: usize,
}

/// Namewire: workers that run to completion, rings between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Namewire {
    /// Parameters of both forwarders.
    pub common: Common,
    /// Workers; face f belongs to worker f mod the number of those with faces.
    pub workers: usize,
    /// Workers at the beginning that have faces and no shard; 0: all have both.
    pub input_workers: usize,
    /// Packets of a ring between workers.
    pub ring_capacity: usize,
    /// Packets taken from a ring at once.
    pub ring_burst: usize,
    /// Management of queues of Interests; `None`: none.
    pub overload: Option<QueueManagement>,
    /// Whether Data and Nacks are taken before Interests.
    pub answers_first: bool,
}

/// Namewire's defaults: marks after 5 ms, Nacks after 20 ms, interval 100 ms.
#[must_use]
pub const fn namewire_overload() -> QueueManagement {
    const MS: u64 = 1_000_000_000;
    QueueManagement {
        mark_after_ps: Some(5 * MS),
        shed_after_ps: Some((20 * MS, Shed::Nack)),
        interval_ps: 100 * MS,
    }
}

/// Cumulative probabilities of `count` prefixes whose popularity falls with rank^-`exponent` (Zipf); 0 is
/// uniform.
#[must_use]
pub fn zipf_cdf(count: usize, exponent: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=count).map(|rank| pow(rank as f64, -exponent)).collect();
    let total: f64 = weights.iter().sum();
    let mut sum = 0.0;
    weights
        .iter()
        .map(|weight| {
            sum += weight / total;
            sum
        })
        .collect()
}

impl Traffic {
    /// Probability of each prefix, summed over consumers.
    fn prefix_loads(&self) -> Vec<f64> {
        let end = |c: &Consumer| c.first_prefix as usize + c.prefix_cdf.len();
        let mut loads = vec![0.0; self.consumers.iter().map(end).max().unwrap_or(0)];
        for consumer in &self.consumers {
            let mut before = 0.0;
            for (offset, cumulative) in consumer.prefix_cdf.iter().enumerate() {
                loads[consumer.first_prefix as usize + offset] += cumulative - before;
                before = *cumulative;
            }
        }
        loads
    }

    fn face_count(&self) -> usize {
        self.consumers.len() + self.producers
    }
}

/// Collects the parts of a network.
struct Assembler<'a> {
    traffic: &'a Traffic,
    common: &'a Common,
    queues: Vec<Queue>,
    stations: Vec<Station>,
}

impl<'a> Assembler<'a> {
    const fn new(traffic: &'a Traffic, common: &'a Common) -> Self {
        Self { traffic, common, queues: Vec::new(), stations: Vec::new() }
    }

    fn station(&mut self, name: String, flush: Flush, poll_ps: u64) -> usize {
        self.stations.push(Station { name, queues: Vec::new(), flush, poll_ps });
        self.stations.len() - 1
    }

    /// Adds a queue to a station, after its queues of the same class.
    fn queue(&mut self, queue: Queue) -> usize {
        let index = self.queues.len();
        let order = &mut self.stations[queue.station].queues;
        let position = order.partition_point(|other| self.queues[*other].class <= queue.class);
        order.insert(position, index);
        self.queues.push(queue);
        index
    }

    fn nic_ring(
        &mut self,
        face: usize,
        station: usize,
        class: u8,
        management: Option<QueueManagement>,
        reset: CodelReset,
    ) -> usize {
        self.queue(Queue {
            name: format!("nic {face}"),
            station,
            stage: Stage::Input,
            capacity: self.common.nic_capacity,
            burst: self.common.nic_burst,
            class,
            management,
            reset,
            full_at: None,
        })
    }

    /// Adds the producers and finishes the network. `faces` are input and output queue of each face.
    fn finish(mut self, faces: &[(usize, usize)], shard_queues: &[[usize; 3]]) -> Network {
        let (traffic, common) = (self.traffic, self.common);
        let factors = common.placement.factors(common.remote_factor);
        let faces = faces.iter().enumerate().map(|(index, (input_queue, output_queue))| {
            let is_client = index < traffic.consumers.len();
            let (peer, links) = if is_client {
                (Peer::Consumer(index), &traffic.consumer_links)
            } else {
                let number = index - traffic.consumers.len();
                let station = self.station(format!("producer {number}"), Flush::EachPacket, 0);
                let queue = self.queue(Queue {
                    name: format!("producer {number}"),
                    station,
                    stage: Stage::Produce,
                    capacity: traffic.producer_capacity,
                    burst: 1,
                    class: 0,
                    management: None,
                    reset: CodelReset::LastPacket,
                    full_at: None,
                });
                (Peer::Producer(queue), &traffic.producer_links)
            };
            let factor = factors[usize::from(!is_client)];
            Face {
                peer,
                input_queue: *input_queue,
                output_queue: *output_queue,
                incoming: links[0].clone(),
                outgoing: links[1].clone(),
                input_factor: factor,
                output_factor: factor,
            }
        });
        let faces = faces.collect();
        let shards = shard_queues.iter().map(|queues| Shard {
            queues: *queues,
            pit_capacity: common.pit_capacity,
            forward_factor: factors,
        });
        Network {
            consumers: traffic.consumers.clone(),
            faces,
            shards: shards.collect(),
            queues: self.queues,
            stations: self.stations,
            services: common.services.clone(),
            shard_of_prefix: common.dispatch.shards(&traffic.prefix_loads(), shard_queues.len()),
            lifetime_ps: traffic.lifetime_ps,
            hit_ratio: common.hit_ratio,
            producer_nack_ratio: traffic.producer_nack_ratio,
            pauses: None,
        }
    }
}

impl NdnDpdk {
    /// The network of this forwarder with `traffic`.
    #[must_use]
    pub fn assemble(&self, traffic: &Traffic) -> Network {
        let poll_ps = self.common.poll_ps;
        let mut parts = Assembler::new(traffic, &self.common);
        let inputs: Vec<usize> = (0..self.input_threads)
            .map(|number| parts.station(format!("input {number}"), Flush::EachPacket, poll_ps))
            .collect();
        let forwards: Vec<usize> = (0..self.forwarding_threads)
            .map(|number| parts.station(format!("forwarding {number}"), Flush::EachPacket, poll_ps))
            .collect();
        let outputs: Vec<usize> = (0..self.output_threads)
            .map(|number| parts.station(format!("output {number}"), Flush::EndOfBurst, poll_ps))
            .collect();
        let shard_queues: Vec<[usize; 3]> =
            forwards.iter().map(|station| self.forwarding_queues(&mut parts, *station)).collect();
        let faces: Vec<(usize, usize)> = (0..traffic.face_count())
            .map(|face| {
                let station = inputs[face % inputs.len()];
                let input = parts.nic_ring(face, station, 0, None, CodelReset::LastPacket);
                let output = parts.queue(Queue {
                    name: format!("output {face}"),
                    station: outputs[face % outputs.len()],
                    stage: Stage::Output,
                    capacity: self.output_capacity,
                    burst: self.output_burst,
                    class: 0,
                    management: None,
                    reset: CodelReset::LastPacket,
                    full_at: None,
                });
                (input, output)
            })
            .collect();
        parts.finish(&faces, &shard_queues)
    }

    fn forwarding_queues(&self, parts: &mut Assembler<'_>, station: usize) -> [usize; 3] {
        let name = parts.stations[station].name.clone();
        let queue = |name: String, capacity, burst, management| Queue {
            name,
            station,
            stage: Stage::Forward,
            capacity,
            burst,
            class: 0,
            management,
            reset: CodelReset::LastPacket,
            full_at: None,
        };
        match self.queues {
            ForwardingQueues::Shared { capacity, burst } => {
                [parts.queue(queue(name, capacity, burst, None)); 3]
            }
            ForwardingQueues::ByKind { capacity, bursts, management } => {
                let mut index = 0;
                ["interests", "data", "nacks"].map(|kind| {
                    let burst = bursts[index];
                    index += 1;
                    parts.queue(queue(format!("{name} {kind}"), capacity, burst, management))
                })
            }
        }
    }
}

impl Namewire {
    /// The network of this forwarder with `traffic`.
    #[must_use]
    pub fn assemble(&self, traffic: &Traffic) -> Network {
        let mut parts = Assembler::new(traffic, &self.common);
        for worker in 0..self.workers {
            parts.station(format!("worker {worker}"), Flush::EndOfBurst, self.common.poll_ps);
        }
        let with_faces = if self.input_workers == 0 { self.workers } else { self.input_workers };
        let class = |class: u8| if self.answers_first { class } else { 0 };
        let ring = |name: String, station, stage, class, management| Queue {
            name,
            station,
            stage,
            capacity: self.ring_capacity,
            burst: self.ring_burst,
            class,
            management,
            reset: CodelReset::EmptyPoll,
            full_at: Some((self.ring_capacity * 7).div_ceil(8)),
        };
        let transmit: Vec<usize> = (0..with_faces)
            .map(|w| {
                parts.queue(ring(format!("worker {w} transmit"), w, Stage::Output, class(0), None))
            })
            .collect();
        let shard_queues: Vec<[usize; 3]> = (self.input_workers..self.workers)
            .map(|w| {
                let answers = parts.queue(ring(
                    format!("worker {w} answers"),
                    w,
                    Stage::Forward,
                    class(0),
                    None,
                ));
                let name = format!("worker {w} interests");
                let interests = parts.queue(ring(name, w, Stage::Forward, class(2), self.overload));
                [interests, answers, answers]
            })
            .collect();
        let faces: Vec<(usize, usize)> = (0..traffic.face_count())
            .map(|face| {
                let worker = face % with_faces;
                let is_client = face < traffic.consumers.len();
                let (class, overload) =
                    if is_client { (class(2), self.overload) } else { (class(1), None) };
                let input = parts.nic_ring(face, worker, class, overload, CodelReset::EmptyPoll);
                (input, transmit[worker])
            })
            .collect();
        parts.finish(&faces, &shard_queues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashed_dispatch_is_as_uneven_as_the_paper_says() {
        // 255 prefixes over 8 shards: 32 each, standard deviation sqrt(255 · 7/64) = 5.3.
        let mut squares = 0.0;
        for salt in 0..200 {
            let shards = Dispatch::Hash { salt }.shards(&[1.0; 255], 8);
            for shard in 0..8u16 {
                let count = shards.iter().filter(|s| **s == shard).count() as f64;
                squares += (count - 255.0 / 8.0) * (count - 255.0 / 8.0);
            }
        }
        let deviation = (squares / 1600.0f64).sqrt();
        assert!((deviation - 5.28).abs() < 0.3, "{deviation}");
    }

    #[test]
    fn balanced_dispatch_spreads_the_load() {
        let cdf = zipf_cdf(255, 0.8);
        assert!((cdf[254] - 1.0).abs() < 1e-12);
        let loads: Vec<f64> =
            (0..255).map(|i| cdf[i] - if i > 0 { cdf[i - 1] } else { 0.0 }).collect();
        let shards = Dispatch::Balanced.shards(&loads, 4);
        for shard in 0..4u16 {
            let load: f64 =
                loads.iter().zip(&shards).filter(|(_, s)| **s == shard).map(|(l, _)| l).sum();
            assert!((load - 0.25).abs() < 0.002, "{load}");
        }
    }

    #[test]
    fn placements_make_the_right_faces_remote() {
        assert_eq!(Placement::P2.factors(1.5), [1.0, 1.5]);
        assert_eq!(Placement::P3.factors(1.5), [1.5, 1.0]);
        assert_eq!(Placement::P4.factors(1.5), [1.5, 1.5]);
        assert_eq!(Placement::P1.factors(1.5), [1.0, 1.0]);
    }
}
