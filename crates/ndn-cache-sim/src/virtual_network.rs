//! The virtual planes of all nodes, in slots of one second.

use std::sync::Arc;
use std::time::Duration;

use ndn_caching::{Cache, Capacity, Penalties, ScorePolicy, Scores};
use ndn_vip::{REQUEST, Score, Settings, VirtualPlane};

use crate::topology::{Hop, Topology};

const SLOT_S: f64 = 1.0;
/// As in the publications.
const WINDOW_SLOTS: usize = 100;

#[derive(Debug)]
pub(crate) struct VirtualNetwork {
    planes: Vec<VirtualPlane>,
    /// By node: the neighbours, and the node's number at each.
    neighbours: Vec<Vec<(usize, usize)>>,
    /// By node: link directions in the order of neighbours.
    links: Vec<Vec<usize>>,
    scores: Vec<Arc<Scores>>,
    penalties: Penalties,
    objects: usize,
    next_slot_s: f64,
}

/// A score in requests, in the unit of scores.
fn amount(requests: f64) -> u64 {
    (requests * REQUEST as f64).round() as u64
}

impl VirtualNetwork {
    pub(crate) fn new(
        topology: &Topology,
        sizes: &[u64],
        sources: &[u32],
        closer: &[Vec<Vec<Hop>>],
        score: Score,
    ) -> Self {
        let load = &topology.load;
        let penalties =
            Penalties { read: amount(load.read_penalty), write: amount(load.write_penalty) };
        let plane = |node: usize| {
            let mut plane = VirtualPlane::new(Settings {
                slot_ms: (SLOT_S * 1000.0) as u64,
                cache_bytes: if topology.has_cache[node] { load.cache_bytes } else { 0 },
                read_bytes_per_s: (load.cache_read_mbit_per_s * 125_000.0) as u64,
                window_slots: WINDOW_SLOTS,
                score,
                read_penalty: penalties.read,
                write_penalty: penalties.write,
            });
            for (object, &size) in sizes.iter().enumerate() {
                plane.add_object(size, sources[object] as usize == node);
            }
            for hop in &topology.hops[node] {
                let bytes_per_s = (topology.mbit_per_s(hop) * 125_000.0) as u64;
                let id = plane.add_neighbour(bytes_per_s, bytes_per_s);
                for (object, &source) in sources.iter().enumerate() {
                    let closer = &closer[source as usize][node];
                    let is_closer = closer.iter().any(|closer| closer.link == hop.link);
                    plane.set_routable(id, object, is_closer);
                }
            }
            plane
        };
        let neighbour = |hop: &Hop| {
            // The two directions of a link have numbers that differ in the last bit.
            let back = topology.hops[hop.to].iter().position(|back| back.link == hop.link ^ 1);
            (hop.to, back.unwrap_or_default())
        };
        Self {
            planes: (0..topology.nodes.len()).map(plane).collect(),
            neighbours: topology
                .hops
                .iter()
                .map(|hops| hops.iter().map(neighbour).collect())
                .collect(),
            links: topology
                .hops
                .iter()
                .map(|hops| hops.iter().map(|hop| hop.link).collect())
                .collect(),
            scores: topology.nodes.iter().map(|_| Scores::new(sizes.len())).collect(),
            penalties,
            objects: sizes.len(),
            next_slot_s: SLOT_S,
        }
    }

    pub(crate) fn cache(&self, node: usize, capacity: Capacity) -> Cache {
        let policy = ScorePolicy::new(self.scores[node].clone(), capacity, self.penalties);
        Cache::with_policy(Box::new(policy), capacity)
    }

    pub(crate) fn request(&mut self, node: usize, object: usize) {
        self.planes[node].request(object, REQUEST);
    }

    pub(crate) fn response(&mut self, node: usize, neighbour: usize, duration_s: f64) {
        self.planes[node].response(neighbour, Duration::from_secs_f64(duration_s));
    }

    pub(crate) fn next_hop(&self, node: usize, object: usize, closer: &[Hop]) -> Option<Hop> {
        let links = &self.links[node];
        let id = |hop: &Hop| links.iter().position(|link| *link == hop.link);
        let chosen = self.planes[node].next_hop(object, closer.iter().filter_map(id))?;
        closer.iter().find(|hop| hop.link == links[chosen]).copied()
    }

    /// Ends the slots before `time_s`. Returns whether scores changed.
    pub(crate) fn advance(&mut self, time_s: f64) -> bool {
        let has_passed = time_s >= self.next_slot_s;
        while time_s >= self.next_slot_s {
            self.next_slot_s += SLOT_S;
            self.slot();
        }
        has_passed
    }

    fn slot(&mut self) {
        self.planes.iter_mut().for_each(VirtualPlane::end_slot);
        for node in 0..self.planes.len() {
            let counts: Vec<_> =
                (0..self.objects).map(|object| (object, self.planes[node].count(object))).collect();
            for &(other, back) in &self.neighbours[node] {
                self.planes[other].receive_counts(back, &counts);
            }
            for object in 0..self.objects {
                self.scores[node].set(object, self.planes[node].score(object));
            }
        }
        for node in 0..self.planes.len() {
            for transfer in self.planes[node].start_slot() {
                let (other, back) = self.neighbours[node][transfer.neighbour];
                self.planes[other].receive_vips(back, transfer.object, transfer.amount);
            }
        }
    }
}
