//! Consumers and producers of a network, without sockets and clock.

use std::collections::BTreeMap;
use std::time::Duration;

use ndn_cache_sim::trace::Request;
use ndn_client::fetch::{DataOutcome, FetchConfig, FetchState};
use ndn_model::random::{StreamId, TraceRandom};

use super::packets::{Received, SegmentName, data, interest, parse};
use super::{Measures, Network, NetworkCounts};

/// Stream of the random numbers that are Nonces.
const NONCES: StreamId = StreamId(1);

/// A request that is being performed.
#[derive(Debug)]
struct Fetch {
    state: FetchState,
    request: Request,
    begin: Duration,
    end: Option<Duration>,
    /// The earliest scheduled wake-up.
    wakes_at: Option<Duration>,
}

/// Counts since the start.
#[derive(Debug, Default, Clone)]
struct Counts {
    interests: u64,
    retransmissions: u64,
    /// By node: bytes of content that its producer sent.
    origin_bytes: Vec<u64>,
    network: NetworkCounts,
}

/// All consumers and producers. Each node with consumers has one face for them; so has each source.
#[derive(Debug)]
pub(crate) struct Clients<'a> {
    network: &'a Network<'a>,
    /// The begin of the load.
    origin: Duration,
    fetches: Vec<Fetch>,
    /// By node and object: fetches that are not complete.
    active: BTreeMap<(u32, u32), Vec<usize>>,
    random: TraceRandom,
    counts: Counts,
    /// Counts at the end of the warm-up.
    warm: Option<Counts>,
}

impl<'a> Clients<'a> {
    /// Clients before the first request; times of requests count from `origin`.
    pub(crate) fn new(network: &'a Network<'a>, origin: Duration) -> Self {
        let nodes = network.topology.nodes.len();
        Self {
            network,
            origin,
            fetches: Vec::new(),
            active: BTreeMap::new(),
            random: TraceRandom::new(network.seed, 1),
            counts: Counts { origin_bytes: vec![0; nodes], ..Counts::default() },
            warm: None,
        }
    }

    /// Time at which a request begins.
    pub(crate) fn begin_of(&self, request: &Request) -> Duration {
        self.origin + Duration::from_secs_f64(request.time_s)
    }

    /// Time from which on requests are measured.
    pub(crate) fn warm_up_end(&self) -> Duration {
        self.origin + self.network.warm_up
    }

    /// Keeps the counts at the end of the warm-up; later calls have no effect.
    pub(crate) fn end_warm_up(&mut self, network: NetworkCounts) {
        if self.warm.is_none() {
            self.warm = Some(Counts { network, ..self.counts.clone() });
        }
    }

    /// Returns whether the warm-up has ended.
    pub(crate) fn is_warm(&self) -> bool {
        self.warm.is_some()
    }

    /// Returns whether all requests are complete.
    pub(crate) fn is_done(&self) -> bool {
        self.fetches.len() == self.network.requests.len() && self.active.is_empty()
    }

    /// Begins a request, and returns the number of its fetch, which transmits next.
    pub(crate) fn begin(&mut self, now: Duration, request: Request) -> usize {
        let config = FetchConfig {
            window: self.network.window,
            retransmissions_max: u32::MAX,
            ..FetchConfig::default()
        };
        let last = self.network.last_segment(request.object);
        let state = FetchState::new(config, 0, Some(last));
        let fetch = self.fetches.len();
        self.fetches.push(Fetch { state, request, begin: now, end: None, wakes_at: None });
        self.active.entry((request.node, request.object)).or_default().push(fetch);
        fetch
    }

    /// Sends the Interests that the window of a fetch allows. Returns the time at which to wake it, unless a wake-up at that
    /// time or earlier was returned before.
    pub(crate) fn transmit(
        &mut self,
        now: Duration,
        number: usize,
        mut send: impl FnMut(usize, Vec<u8>),
    ) -> Option<Duration> {
        let Request { node, object, .. } = self.fetches[number].request;
        if self.fetches[number].end.is_some() {
            return None;
        }
        let source = self.network.sources[object as usize];
        let components = self.network.name_components;
        while let Some(transmit) = self.fetches[number].state.poll_transmit(now) {
            let nonce = self.random.draw(NONCES, self.counts.interests).bits() as u32;
            self.counts.interests += 1;
            self.counts.retransmissions += u64::from(transmit.attempt > 1);
            let segment = transmit.segment;
            let name = SegmentName { source, object, segment, components };
            send(node as usize, interest(name, nonce));
        }
        let fetch = &mut self.fetches[number];
        let due = fetch.state.poll_timeout().map(|(due, _)| due.max(now));
        // A fetch that is woken too early checks again at its deadline.
        let wake = due.filter(|due| fetch.wakes_at.is_none_or(|at| *due < at));
        fetch.wakes_at = wake.or(fetch.wakes_at);
        wake
    }

    /// Handles a wake-up of a fetch, which transmits next.
    pub(crate) fn wake(&mut self, now: Duration, number: usize) {
        let fetch = &mut self.fetches[number];
        fetch.wakes_at = fetch.wakes_at.filter(|at| *at > now);
        if fetch.end.is_none() && fetch.state.poll_timeout().is_some_and(|(due, _)| due <= now) {
            fetch.state.handle_timeout(now);
        }
    }

    /// The Data with which the producer of a node answers an Interest.
    pub(crate) fn produce(&mut self, node: usize, frame: &[u8]) -> Option<Vec<u8>> {
        let (Received::Interest { object, segment }, token) = parse(frame)? else { return None };
        let size = self.network.sizes.get(object as usize).copied()?;
        let offset = segment.saturating_mul(self.network.segment_bytes);
        let len = size.saturating_sub(offset).min(self.network.segment_bytes);
        self.counts.origin_bytes[node] += len;
        let components = self.network.name_components;
        let name = SegmentName { source: node as u32, object, segment, components };
        let last = self.network.last_segment(object);
        Some(data(name, last, len as usize, token.as_deref()))
    }

    /// Handles a frame for the consumers of a node. Returns the fetches that transmit next.
    pub(crate) fn consume(&mut self, now: Duration, node: usize, frame: &[u8]) -> Vec<usize> {
        let Some((received, _)) = parse(frame) else { return Vec::new() };
        let (Received::Data { object, .. }
        | Received::Nack { object, .. }
        | Received::Interest { object, .. }) = received;
        let key = (node as u32, object);
        let numbers = self.active.get(&key).cloned().unwrap_or_default();
        for &number in &numbers {
            let fetch = &mut self.fetches[number];
            match received {
                Received::Data { segment, is_marked, .. } => {
                    if fetch.state.handle_data(now, segment, None, is_marked) == DataOutcome::New {
                        fetch.state.set_consumed(fetch.state.first_missing());
                    }
                }
                Received::Nack { segment, is_congested, .. } => {
                    fetch.state.handle_nack(now, segment, is_congested);
                }
                Received::Interest { .. } => {}
            }
            if fetch.state.is_complete() {
                fetch.end = Some(now);
            }
        }
        if let Some(active) = self.active.get_mut(&key) {
            active.retain(|number| self.fetches[*number].end.is_none());
            if active.is_empty() {
                self.active.remove(&key);
            }
        }
        numbers
    }

    /// Names a request that is not complete.
    ///
    /// # Errors
    /// There is one.
    pub(crate) fn check_complete(&self, limit: &str) -> Result<(), String> {
        match self.fetches.iter().find(|fetch| fetch.end.is_none()) {
            None if self.fetches.len() < self.network.requests.len() => {
                Err(format!("{} requests did not begin {limit}", {
                    self.network.requests.len() - self.fetches.len()
                }))
            }
            None => Ok(()),
            Some(fetch) => Err(format!(
                "a request of node {} for object {} has {} of {} segments {limit}: {:?}",
                self.network.topology.nodes[fetch.request.node as usize],
                fetch.request.object,
                fetch.state.progress().segments,
                self.network.last_segment(fetch.request.object) + 1,
                fetch.state.failure(),
            )),
        }
    }

    /// Measurements of the requests after the warm-up, with the counts of the forwarders at the end.
    ///
    /// # Errors
    /// No request is measured.
    pub(crate) fn measures(&self, end: &NetworkCounts) -> Result<Measures, String> {
        let network = self.network;
        let none =
            Counts { origin_bytes: vec![0; self.counts.origin_bytes.len()], ..Counts::default() };
        let from = self.warm.as_ref().unwrap_or(&none);
        let until = &self.counts;
        let measured: Vec<&Fetch> =
            self.fetches.iter().filter(|fetch| fetch.begin >= self.warm_up_end()).collect();
        if measured.is_empty() {
            return Err("there are no requests after the warm-up".to_owned());
        }
        let count = measured.len() as f64;
        let duration_s =
            |fetch: &Fetch| (fetch.end.unwrap_or(fetch.begin) - fetch.begin).as_secs_f64();
        let mut delays_s: Vec<f64> = measured.iter().map(|fetch| duration_s(fetch)).collect();
        delays_s.sort_by(f64::total_cmp);
        let size = |fetch: &&Fetch| network.sizes[fetch.request.object as usize] as f64;
        let segments: u64 =
            measured.iter().map(|fetch| network.last_segment(fetch.request.object) + 1).sum();
        let bytes: f64 = measured.iter().map(size).sum();
        let mut spans: BTreeMap<u32, (Duration, Duration)> = BTreeMap::new();
        let mut of_consumers: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for fetch in &measured {
            let end = fetch.end.unwrap_or(fetch.begin);
            let span = spans.entry(fetch.request.object).or_insert((fetch.begin, end));
            *span = (span.0.min(fetch.begin), span.1.max(end));
            let own = of_consumers.entry(fetch.request.node).or_default();
            *own = (own.0 + duration_s(fetch), own.1 + 1.0);
        }
        let spans_s: f64 = spans.values().map(|(begin, end)| (*end - *begin).as_secs_f64()).sum();
        let interests = (until.interests - from.interests) as f64;
        let retransmissions = (until.retransmissions - from.retransmissions) as f64;
        let before = |node: usize| from.network.cs_hits.get(node).copied().unwrap_or(0);
        let hits = end.cs_hits.iter().enumerate();
        let hits: Vec<u64> = hits.map(|(node, hits)| hits.saturating_sub(before(node))).collect();
        let origin = until.origin_bytes.iter().zip(&from.origin_bytes);
        let origin: Vec<u64> = origin.map(|(until, from)| until - from).collect();
        let node_name = |node: usize| &network.topology.nodes[node];
        let mut of_nodes = BTreeMap::new();
        for (node, (sum_s, count)) in of_consumers {
            of_nodes
                .insert(format!("delay_ms.{}", node_name(node as usize)), 1000.0 * sum_s / count);
        }
        for (node, (hits, origin)) in hits.iter().zip(&origin).enumerate() {
            of_nodes.insert(format!("cs_hits.{}", node_name(node)), *hits as f64);
            of_nodes.insert(format!("origin_bytes.{}", node_name(node)), *origin as f64);
        }
        let link_interests = end.link_interests.saturating_sub(from.network.link_interests);
        Ok(Measures {
            hit_share: hits.iter().sum::<u64>() as f64 / segments as f64,
            origin_share: origin.iter().sum::<u64>() as f64 / bytes.max(1.0),
            delay_ms: 1000.0 * delays_s.iter().sum::<f64>() / count,
            delay_p99_ms: 1000.0 * delays_s[((0.99 * count) as usize).min(delays_s.len() - 1)],
            distribution_ms: 1000.0 * spans_s / spans.len() as f64,
            goodput_mbit_per_s: bytes * 8e-6 / delays_s.iter().sum::<f64>().max(1e-9),
            retransmission_share: retransmissions / interests.max(1.0),
            links_per_segment: link_interests as f64 / segments as f64,
            interests,
            of_nodes,
        })
    }
}
