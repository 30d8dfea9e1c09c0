//! MinDelay: placement and next hops for known request rates, by the conditional gradient of the total delay
//! (Mahdian, Yeh: "MinDelay: Low-Latency Joint Caching and Forwarding for Multi-Hop Networks", IEEE ICC 2018).
//!
//! The delay of a link that carries F bytes/s of C is that of M/M/1, with the two delays of the link. In every step,
//! each node moves towards caching the objects with the largest product of traffic and marginal delay, and towards
//! forwarding the others to the neighbour with the smallest marginal delay. The plan is what is reached after
//! [`STEPS`] steps, with the cached shares rounded: the objects with the largest shares are cached, in advance.

use ndn_caching::{Cache, Capacity, Object, Policy, Slot};

use crate::topology::{Hop, Topology};
use crate::trace::Trace;

const STEPS: u32 = 150;
/// Load of a link above which its delay continues linearly.
const LOAD_MAX: f64 = 0.98;

#[derive(Debug)]
pub(crate) struct Plan {
    objects: usize,
    /// By node and object: the cached share.
    cached: Vec<f64>,
    /// By node and object: shares of the closer neighbours.
    forwarded: Vec<Vec<f64>>,
}

/// The problem while it is solved.
struct Problem<'a> {
    topology: &'a Topology,
    sizes: &'a [u64],
    sources: &'a [u32],
    closer: &'a [Vec<Vec<Hop>>],
    /// By source: nodes, the farthest first.
    order: Vec<Vec<usize>>,
    rates: Vec<f64>,
    /// By link direction.
    bytes_per_s: Vec<f64>,
}

impl Plan {
    pub(crate) fn new(
        topology: &Topology,
        trace: &Trace,
        sources: &[u32],
        closer: &[Vec<Vec<Hop>>],
    ) -> Self {
        let nodes = topology.nodes.len();
        let order = (0..nodes).map(|source| {
            let distances = topology.distances(source);
            let mut order: Vec<usize> = (0..nodes).collect();
            order.sort_by(|a, b| distances[*b].total_cmp(&distances[*a]));
            order
        });
        let problem = Problem {
            topology,
            sizes: &trace.sizes,
            sources,
            closer,
            order: order.collect(),
            rates: rates(trace, topology),
            bytes_per_s: topology.bytes_per_s(),
        };
        problem.solve()
    }

    /// The cache of a node, filled.
    pub(crate) fn cache(&self, node: usize, capacity: Capacity, unit: u64, trace: &Trace) -> Cache {
        let mut cache = Cache::with_policy(Box::new(Fixed), capacity);
        let mut order: Vec<usize> = (0..self.objects).collect();
        let share = |object: &usize| self.cached[node * self.objects + object];
        order.retain(|object| share(object) > 0.0);
        order.sort_by(|a, b| share(b).total_cmp(&share(a)).then(a.cmp(b)));
        for object in order {
            let weight = (trace.sizes[object] / unit).max(1) as u32;
            cache.store(Object::sized(object as u64, weight), |_| ());
        }
        cache
    }

    /// Number of the closer neighbour, for a uniform number in (0, 1).
    pub(crate) fn next_hop(&self, node: usize, object: usize, unit: f64) -> usize {
        let shares = &self.forwarded[node * self.objects + object];
        let mut rest = unit * shares.iter().sum::<f64>();
        for (position, share) in shares.iter().enumerate() {
            rest -= share;
            if rest < 0.0 {
                return position;
            }
        }
        0
    }
}

impl Problem<'_> {
    fn solve(&self) -> Plan {
        let (nodes, objects) = (self.topology.nodes.len(), self.sizes.len());
        let shortest = |node: usize, object: usize| {
            let closer = &self.closer[self.sources[object] as usize][node];
            (0..closer.len()).map(|position| f64::from(u8::from(position == 0))).collect()
        };
        let mut plan = Plan {
            objects,
            cached: vec![0.0; nodes * objects],
            forwarded: (0..nodes * objects)
                .map(|at| shortest(at / objects, at % objects))
                .collect(),
        };
        for step in 0..STEPS {
            let (traffic, flows) = self.traffic(&plan);
            let link_s = self.link_marginals(&flows);
            let marginals = self.marginals(&plan, &link_s);
            let part = 2.0 / (f64::from(step) + 2.0);
            for node in 0..nodes {
                self.improve(&mut plan, node, part, &traffic, &link_s, &marginals);
            }
        }
        plan
    }

    /// Requests per second by node and object, and bytes per second by link.
    fn traffic(&self, plan: &Plan) -> (Vec<f64>, Vec<f64>) {
        let objects = self.sizes.len();
        let mut traffic = self.rates.clone();
        let mut flows = vec![0.0; self.topology.links];
        for object in 0..objects {
            let source = self.sources[object] as usize;
            for &node in &self.order[source] {
                let shares = &plan.forwarded[node * objects + object];
                for (share, hop) in shares.iter().zip(&self.closer[source][node]) {
                    let rate = traffic[node * objects + object] * share;
                    traffic[hop.to * objects + object] += rate;
                    flows[hop.link] += rate * self.sizes[object] as f64;
                }
            }
        }
        (traffic, flows)
    }

    /// Increase of the number of waiting objects by a byte per second on each link.
    fn link_marginals(&self, flows: &[f64]) -> Vec<f64> {
        let marginal = |(flow, bytes_per_s): (&f64, &f64)| {
            let load = flow / bytes_per_s;
            let idle = 1.0 - load.min(LOAD_MAX);
            let beyond = (load - LOAD_MAX).max(0.0);
            (1.0 / (idle * idle) + 2.0 * beyond / (idle * idle * idle)) / bytes_per_s
        };
        flows.iter().zip(&self.bytes_per_s).map(marginal).collect()
    }

    /// Delay of one more request per second for `object` over `hop` and beyond.
    fn over(&self, hop: &Hop, object: usize, link_s: &[f64], marginals: &[f64]) -> f64 {
        link_s[hop.link] * self.sizes[object] as f64
            + 2.0 * hop.delay_s
            + marginals[hop.to * self.sizes.len() + object]
    }

    /// Delay of one more request per second at each node for each object.
    fn marginals(&self, plan: &Plan, link_s: &[f64]) -> Vec<f64> {
        let objects = self.sizes.len();
        let mut marginals = vec![0.0; self.topology.nodes.len() * objects];
        for object in 0..objects {
            let source = self.sources[object] as usize;
            for &node in self.order[source].iter().rev() {
                let hops =
                    plan.forwarded[node * objects + object].iter().zip(&self.closer[source][node]);
                let delays =
                    hops.map(|(share, hop)| share * self.over(hop, object, link_s, &marginals));
                marginals[node * objects + object] = delays.sum();
            }
        }
        marginals
    }

    /// Moves a node by `part` towards the best placement and next hops under the marginal delays.
    fn improve(
        &self,
        plan: &mut Plan,
        node: usize,
        part: f64,
        traffic: &[f64],
        link_s: &[f64],
        marginals: &[f64],
    ) {
        let objects = self.sizes.len();
        // Gain per byte, object, best neighbour.
        let mut gains: Vec<(f64, usize, usize)> = Vec::with_capacity(objects);
        for object in 0..objects {
            let closer = &self.closer[self.sources[object] as usize][node];
            let delays = closer.iter().map(|hop| self.over(hop, object, link_s, marginals));
            if let Some((best, delay_s)) = delays.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)) {
                let gain = traffic[node * objects + object] * delay_s / self.sizes[object] as f64;
                gains.push((gain, object, best));
            }
        }
        gains.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut room =
            if self.topology.has_cache[node] { self.topology.load.cache_bytes } else { 0 };
        for (gain, object, best) in gains {
            let is_cached = gain > 0.0 && self.sizes[object] <= room;
            room -= if is_cached { self.sizes[object] } else { 0 };
            let at = node * objects + object;
            plan.cached[at] += part * (f64::from(u8::from(is_cached)) - plan.cached[at]);
            for (position, share) in plan.forwarded[at].iter_mut().enumerate() {
                let target = f64::from(u8::from(!is_cached && position == best));
                *share += part * (target - *share);
            }
        }
    }
}

/// Requests per second by node and object: those of the pattern, or their means over the trace.
fn rates(trace: &Trace, topology: &Topology) -> Vec<f64> {
    let objects = trace.sizes.len();
    let mut rates = vec![0.0; topology.nodes.len() * objects];
    if let Some(by_object) = &trace.rates {
        for &node in &topology.consumers {
            rates[node * objects..][..objects].copy_from_slice(by_object);
        }
        return rates;
    }
    let duration_s = trace.requests.last().map_or(1.0, |request| request.time_s.max(1.0));
    for request in &trace.requests {
        rates[request.node as usize * objects + request.object as usize] += 1.0 / duration_s;
    }
    rates
}

/// Replaces nothing.
#[derive(Debug)]
struct Fixed;

impl Policy for Fixed {
    fn hit(&mut self, _slot: Slot) {}

    fn evict(&mut self, _incoming: Option<Object>) -> Option<Slot> {
        None
    }

    fn insert(&mut self, _slot: Slot, _object: Object) {}

    fn remove(&mut self, _slot: Slot) {}
}
