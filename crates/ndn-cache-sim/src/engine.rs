//! One run: requests through a network of caches.
//!
//! A request follows its Interest from node to node until a cache or a source has the object; Data returns on the
//! same path and is offered to every cache on it (leave copy everywhere). Data waits for the links: each direction
//! sends one object at a time, in the order of the requests. A request for an object that is on its way to the node
//! is aggregated and waits for it. Interests take the delay of the links and no capacity.
//!
//! Interests go only to neighbours that are closer to the source by delay, so there are no loops.

use ndn_caching::{Cache, Capacity, Object, PolicyKind};
use ndn_types::random::Random;

use crate::InputError;
#[cfg(feature = "vip")]
use crate::min_delay;
use crate::topology::{Hop, Topology};
use crate::trace::{Request, Trace};
#[cfg(feature = "vip")]
use crate::virtual_network::VirtualNetwork;
#[cfg(feature = "vip")]
use ndn_vip::Score;

/// Share of the duration before requests are measured.
pub const WARM_UP_SHARE: f64 = 0.25;
/// Windows in which convergence is measured.
const WINDOWS: usize = 40;

/// Choice of the next hop of an Interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// The shortest path by delay.
    ShortestPath,
    /// Neighbours that are closer to the source, in turn.
    RoundRobin,
    /// Of these, the one with the shortest last response time.
    LeastResponseTime,
}

/// A method that is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// A cache policy at every cache, and a routing.
    Separate(PolicyKind, Routing),
    /// No caches.
    NoCache(Routing),
    /// VIP with the score V.
    #[cfg(feature = "vip")]
    Vip,
    /// VIP with the mean of arrivals as the score.
    #[cfg(feature = "vip")]
    Vip2,
    /// Placement and next hops that minimise the delay of known rates (Mahdian, Yeh: "MinDelay: Low-Latency Joint
    /// Caching and Forwarding for Multi-Hop Networks", IEEE ICC 2018), by the conditional gradient.
    #[cfg(feature = "vip")]
    MinDelay,
}

impl Method {
    /// Whether caching and forwarding are decided together.
    #[must_use]
    pub fn is_joint(self) -> bool {
        !matches!(self, Self::Separate(..) | Self::NoCache(_))
    }

    /// The name, for example `lru/shortest-path`.
    #[must_use]
    pub fn name(self) -> String {
        let routing = |routing| match routing {
            Routing::ShortestPath => "shortest-path",
            Routing::RoundRobin => "round-robin",
            Routing::LeastResponseTime => "least-response-time",
        };
        match self {
            Self::Separate(policy, by) => format!("{policy}/{}", routing(by)),
            Self::NoCache(by) => format!("none/{}", routing(by)),
            #[cfg(feature = "vip")]
            Self::Vip => "vip".to_owned(),
            #[cfg(feature = "vip")]
            Self::Vip2 => "vip2".to_owned(),
            #[cfg(feature = "vip")]
            Self::MinDelay => "min-delay".to_owned(),
        }
    }

    /// All methods: policies × routings, none × routings, and joint methods.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let routings = [Routing::ShortestPath, Routing::RoundRobin, Routing::LeastResponseTime];
        let separate = PolicyKind::ALL
            .into_iter()
            .flat_map(|policy| routings.map(|routing| Self::Separate(policy, routing)));
        #[cfg(feature = "vip")]
        let joint = [Self::Vip, Self::Vip2, Self::MinDelay];
        #[cfg(not(feature = "vip"))]
        let joint = [];
        routings.map(Self::NoCache).into_iter().chain(separate).chain(joint).collect()
    }

    /// The methods that a pattern names: a name, or its part before or after the `/`.
    ///
    /// # Errors
    ///
    /// No method has the name.
    pub fn parse(name: &str) -> Result<Vec<Self>, InputError> {
        let matches = |method: &Self| {
            let full = method.name();
            full == name || full.split('/').any(|part| part == name)
        };
        let found: Vec<Self> = Self::all().into_iter().filter(matches).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        if cfg!(not(feature = "vip")) && ["vip", "vip2", "min-delay"].contains(&name) {
            return Err(InputError(format!(
                "method '{name}' is patented in the United States: build with the cargo feature 'vip' to enable it"
            )));
        }
        let known: Vec<String> = Self::all().into_iter().map(Self::name).collect();
        Err(InputError(format!("unknown method '{name}'; known: {}", known.join(", "))))
    }
}

/// Measurements of a run after its warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Metrics {
    /// Requests.
    pub requests: u64,
    /// Share that caches answered.
    pub hit_share: f64,
    /// Share that the cache at the first node with a cache answered.
    pub first_hit_share: f64,
    /// Share that waited for an object on its way.
    pub aggregated_share: f64,
    /// Bytes that sources sent, over bytes requested.
    pub origin_share: f64,
    /// Mean delay in milliseconds.
    pub delay_ms: f64,
    /// 99th percentile of the delay in milliseconds.
    pub delay_p99_ms: f64,
    /// Links that Interests took, over those of the shortest paths.
    pub stretch: f64,
    /// Objects that were written to caches, by request.
    pub writes_per_request: f64,
    /// Start of the first of 40 windows in which the hit share reached 95 % of that of the last ten, in seconds.
    pub convergence_s: f64,
}

/// Sums that become [`Metrics`].
#[derive(Debug, Default)]
struct Sums {
    hits: u64,
    first_hits: u64,
    aggregated: u64,
    writes: u64,
    bytes: f64,
    origin_bytes: f64,
    hops: u64,
    shortest_hops: u64,
    delays_s: Vec<f64>,
    windows: Vec<(u64, u64)>,
}

/// Where a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Hit,
    Aggregated,
    Origin,
}

#[derive(Debug)]
enum Chooser {
    Separate(Routing),
    #[cfg(feature = "vip")]
    Virtual(Box<VirtualNetwork>),
    #[cfg(feature = "vip")]
    Planned(min_delay::Plan, Random),
}

/// A network under one method.
#[derive(Debug)]
pub struct Run<'a> {
    topology: &'a Topology,
    trace: &'a Trace,
    /// Source of each object.
    sources: Vec<u32>,
    /// By source: per node the closer neighbours, the one on the shortest path first.
    closer: Vec<Vec<Vec<Hop>>>,
    shortest_hops: Vec<Vec<u32>>,
    caches: Vec<Option<Cache>>,
    chooser: Chooser,
    /// Largest common unit of the sizes that keeps weights in 32 bits.
    weight_bytes: u64,
    bytes_per_s: Vec<f64>,
    /// By link direction: when it is free.
    free_s: Vec<f64>,
    /// By node and object: when it arrived or will arrive there.
    ready_s: Vec<f64>,
    /// By node: number of the last choice, and last response time by neighbour.
    turns: Vec<usize>,
    responses_s: Vec<Vec<f64>>,
    path: Vec<(usize, Hop)>,
    /// Objects that were written to caches.
    writes: u64,
}

impl<'a> Run<'a> {
    /// A network in its initial state. Sources of objects are drawn from the seed.
    #[must_use]
    pub fn new(topology: &'a Topology, trace: &'a Trace, method: Method, seed: u64) -> Self {
        let nodes = topology.nodes.len();
        let sources = sources(topology, trace.sizes.len(), seed);
        let weight_bytes = common_unit(&trace.sizes);
        let capacity = Capacity {
            weight: topology.load.cache_bytes / weight_bytes,
            entries: entries_max(topology.load.cache_bytes, &trace.sizes),
        };
        let closer: Vec<_> = (0..nodes).map(|source| closer_hops(topology, source)).collect();
        let shortest_hops = closer.iter().map(|closer| count_hops(closer)).collect();
        let build = |node: usize, cache: &dyn Fn() -> Cache| topology.has_cache[node].then(cache);
        let (caches, chooser) = match method {
            Method::NoCache(routing) => {
                ((0..nodes).map(|_| None).collect(), Chooser::Separate(routing))
            }
            Method::Separate(policy, routing) => {
                let caches = (0..nodes).map(|node| build(node, &|| Cache::new(policy, capacity)));
                (caches.collect(), Chooser::Separate(routing))
            }
            #[cfg(feature = "vip")]
            Method::Vip | Method::Vip2 => {
                let score = if method == Method::Vip { Score::Count } else { Score::Arrivals };
                let planes = VirtualNetwork::new(topology, &trace.sizes, &sources, &closer, score);
                let caches = (0..nodes).map(|node| build(node, &|| planes.cache(node, capacity)));
                (caches.collect(), Chooser::Virtual(Box::new(planes)))
            }
            #[cfg(feature = "vip")]
            Method::MinDelay => {
                let plan = min_delay::Plan::new(topology, trace, &sources, &closer);
                let caches = (0..nodes)
                    .map(|node| build(node, &|| plan.cache(node, capacity, weight_bytes, trace)));
                (caches.collect(), Chooser::Planned(plan, Random::new(seed, 3)))
            }
        };
        Self {
            topology,
            trace,
            caches,
            chooser,
            weight_bytes,
            bytes_per_s: topology.bytes_per_s(),
            free_s: vec![0.0; topology.links],
            ready_s: vec![0.0; nodes * trace.sizes.len()],
            turns: vec![0; nodes],
            responses_s: topology.hops.iter().map(|hops| vec![0.0; hops.len()]).collect(),
            sources,
            closer,
            shortest_hops,
            path: Vec::new(),
            writes: 0,
        }
    }

    /// Runs the trace.
    #[must_use]
    pub fn metrics(mut self) -> Metrics {
        let trace = self.trace;
        let duration_s = trace.requests.last().map_or(0.0, |request| request.time_s);
        let warm_up_s = duration_s * WARM_UP_SHARE;
        let window_s = duration_s / WINDOWS as f64;
        let mut sums = Sums { windows: vec![(0, 0); WINDOWS], ..Default::default() };
        for request in &trace.requests {
            self.advance(request.time_s);
            let writes = self.writes;
            let (end, delay_s, first_cache_hit) = self.request(*request);
            let window = ((request.time_s / window_s) as usize).min(WINDOWS - 1);
            sums.windows[window].0 += u64::from(end == End::Hit);
            sums.windows[window].1 += 1;
            if request.time_s < warm_up_s {
                continue;
            }
            let bytes = trace.sizes[request.object as usize] as f64;
            sums.hits += u64::from(end == End::Hit);
            sums.first_hits += u64::from(first_cache_hit);
            sums.aggregated += u64::from(end == End::Aggregated);
            sums.writes += self.writes - writes;
            sums.bytes += bytes;
            sums.origin_bytes += if end == End::Origin { bytes } else { 0.0 };
            sums.hops += self.path.len() as u64;
            let source = self.sources[request.object as usize] as usize;
            sums.shortest_hops += u64::from(self.shortest_hops[source][request.node as usize]);
            sums.delays_s.push(delay_s);
        }
        sums.metrics(window_s)
    }

    /// Lets slots of the virtual plane pass.
    fn advance(&mut self, time_s: f64) {
        #[cfg(feature = "vip")]
        if let Chooser::Virtual(planes) = &mut self.chooser
            && planes.advance(time_s)
        {
            self.caches.iter_mut().flatten().for_each(Cache::rescore);
        }
        let _ = time_s;
    }

    /// One request: where it ended, its delay, and whether the first cache on its path had it. `path` holds the links
    /// that it took.
    fn request(&mut self, request: Request) -> (End, f64, bool) {
        let object = request.object as usize;
        let source = self.sources[object] as usize;
        let cached = Object::sized(
            u64::from(request.object),
            (self.trace.sizes[object] / self.weight_bytes).max(1) as u32,
        );
        let mut node = request.node as usize;
        let mut time_s = request.time_s;
        let mut caches_passed = 0;
        #[cfg(feature = "vip")]
        if let Chooser::Virtual(planes) = &mut self.chooser {
            planes.request(node, object);
        }
        self.path.clear();
        let end = loop {
            if node == source {
                break End::Origin;
            }
            let ready_s = self.ready_s[node * self.trace.sizes.len() + object];
            if let Some(cache) = &mut self.caches[node] {
                if cache.lookup(cached) && ready_s <= time_s {
                    break End::Hit;
                }
                caches_passed += 1;
            }
            if ready_s > time_s {
                time_s = ready_s;
                break End::Aggregated;
            }
            let hop = self.next_hop(node, object, source);
            self.path.push((node, hop));
            time_s += hop.delay_s;
            node = hop.to;
        };
        self.deliver(request, cached, time_s, end, caches_passed)
    }

    /// Data returns.
    fn deliver(
        &mut self,
        request: Request,
        cached: Object,
        mut time_s: f64,
        end: End,
        caches_passed: u32,
    ) -> (End, f64, bool) {
        let object = request.object as usize;
        let bytes = self.trace.sizes[object] as f64;
        for position in (0..self.path.len()).rev() {
            let (node, hop) = self.path[position];
            let transmission_s = bytes / self.bytes_per_s[hop.link];
            let start_s = time_s.max(self.free_s[hop.link]);
            self.free_s[hop.link] = start_s + transmission_s;
            time_s = start_s + transmission_s + hop.delay_s;
            self.ready_s[node * self.trace.sizes.len() + object] = time_s;
            self.respond(node, hop, time_s - request.time_s);
            if let Some(cache) = &mut self.caches[node] {
                self.writes += u64::from(cache.store(cached, |_| ()));
            }
        }
        (end, time_s - request.time_s, end == End::Hit && caches_passed == 0)
    }

    fn next_hop(&mut self, node: usize, object: usize, source: usize) -> Hop {
        let closer = &self.closer[source][node];
        #[cfg(not(feature = "vip"))]
        let _ = object;
        match &mut self.chooser {
            Chooser::Separate(Routing::ShortestPath) => closer[0],
            Chooser::Separate(Routing::RoundRobin) => {
                self.turns[node] += 1;
                closer[self.turns[node] % closer.len()]
            }
            Chooser::Separate(Routing::LeastResponseTime) => {
                let hops = &self.topology.hops[node];
                let responses = &self.responses_s[node];
                let response_s = |hop: &Hop| {
                    let place = hops.iter().position(|other| other.link == hop.link);
                    place.map_or(f64::INFINITY, |place| responses[place])
                };
                let fastest = closer.iter().min_by(|a, b| response_s(a).total_cmp(&response_s(b)));
                fastest.copied().unwrap_or(closer[0])
            }
            #[cfg(feature = "vip")]
            Chooser::Virtual(planes) => planes.next_hop(node, object, closer).unwrap_or(closer[0]),
            #[cfg(feature = "vip")]
            Chooser::Planned(plan, random) => closer[plan.next_hop(node, object, random.unit())],
        }
    }

    fn respond(&mut self, node: usize, hop: Hop, duration_s: f64) {
        let place = self.topology.hops[node].iter().position(|other| other.link == hop.link);
        let Some(place) = place else { return };
        self.responses_s[node][place] = duration_s;
        #[cfg(feature = "vip")]
        if let Chooser::Virtual(planes) = &mut self.chooser {
            planes.response(node, place, duration_s);
        }
    }
}

impl Sums {
    fn metrics(mut self, window_s: f64) -> Metrics {
        let requests = self.delays_s.len() as u64;
        let count = requests.max(1) as f64;
        self.delays_s.sort_by(f64::total_cmp);
        let p99 = self.delays_s.get((0.99 * count) as usize).copied().unwrap_or_default();
        let share = |windows: &[(u64, u64)]| {
            let (hits, all) =
                windows.iter().fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
            hits as f64 / all.max(1) as f64
        };
        let last = share(&self.windows[WINDOWS * 3 / 4..]);
        let converged = self.windows.iter().position(|window| share(&[*window]) >= 0.95 * last);
        Metrics {
            requests,
            hit_share: self.hits as f64 / count,
            first_hit_share: self.first_hits as f64 / count,
            aggregated_share: self.aggregated as f64 / count,
            origin_share: self.origin_bytes / self.bytes.max(1.0),
            delay_ms: 1000.0 * self.delays_s.iter().sum::<f64>() / count,
            delay_p99_ms: 1000.0 * p99,
            stretch: self.hops as f64 / self.shortest_hops.max(1) as f64,
            writes_per_request: self.writes as f64 / count,
            convergence_s: converged.unwrap_or(WINDOWS) as f64 * window_s,
        }
    }
}

/// Nodes that are the sources of objects, drawn from the seed.
#[must_use]
pub fn sources(topology: &Topology, objects: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed, 2);
    let producers = &topology.producers;
    (0..objects).map(|_| producers[random.below(producers.len() as u64) as usize] as u32).collect()
}

/// Neighbours of every node that are closer to `source` by delay; the one on the shortest path first.
#[must_use]
pub fn closer_hops(topology: &Topology, source: usize) -> Vec<Vec<Hop>> {
    let distances = topology.distances(source);
    let closer = |node: usize| {
        let hops = topology.hops[node].iter().copied();
        let mut closer: Vec<Hop> = hops.filter(|hop| distances[hop.to] < distances[node]).collect();
        closer.sort_by(|a, b| {
            (distances[a.to] + a.delay_s)
                .total_cmp(&(distances[b.to] + b.delay_s))
                .then(a.to.cmp(&b.to))
        });
        closer
    };
    (0..topology.nodes.len()).map(closer).collect()
}

/// Links of the shortest path from every node.
fn count_hops(closer: &[Vec<Hop>]) -> Vec<u32> {
    let count = |mut node: usize| {
        let mut hops = 0;
        while let Some(hop) = closer[node].first() {
            node = hop.to;
            hops += 1;
        }
        hops
    };
    (0..closer.len()).map(count).collect()
}

/// A unit of weights in bytes: the common size, or one that keeps the largest in 31 bits.
fn common_unit(sizes: &[u64]) -> u64 {
    let largest = sizes.iter().copied().max().unwrap_or(1);
    if sizes.iter().all(|size| *size == largest) { largest } else { (largest >> 31) + 1 }
}

fn entries_max(cache_bytes: u64, sizes: &[u64]) -> u32 {
    let smallest = sizes.iter().copied().min().unwrap_or(1);
    let entries = (cache_bytes / smallest).min(sizes.len() as u64);
    u32::try_from(entries).unwrap_or(u32::MAX - 1)
}
