//! Consumers and producers of a network, without sockets and clock.

use std::collections::BTreeMap;
use std::time::Duration;

use ndn_cache_sim::trace::Request;
use ndn_client::fetch::{DataOutcome, FetchConfig, FetchState};
use ndn_model::random::{StreamId, TraceRandom};

use super::packets::{Received, SegmentName, data, interest, parse};
use super::record::{Counts, Download, Record};
use super::{Network, NetworkCounts};

/// Stream of the random numbers that are Nonces.
const NONCES: StreamId = StreamId(1);

/// A request that is being performed.
#[derive(Debug)]
struct Fetch {
    state: Box<FetchState>,
    /// The earliest scheduled wake-up.
    wakes_at: Option<Duration>,
}

/// All consumers and producers. Each node with consumers has one face for them; so has each source.
#[derive(Debug)]
pub(crate) struct Clients<'a> {
    network: &'a Network<'a>,
    /// The begin of the load.
    origin: Duration,
    /// All requests that have begun: there are millions. One that is not complete ends with its begin.
    downloads: Vec<Download>,
    /// Those that are not complete, by number.
    fetches: BTreeMap<usize, Fetch>,
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
            downloads: Vec::with_capacity(network.requests.len()),
            fetches: BTreeMap::new(),
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
        self.downloads.len() == self.network.requests.len() && self.active.is_empty()
    }

    /// Begins a request, and returns the number of its fetch, which transmits next.
    pub(crate) fn begin(&mut self, now: Duration, request: Request) -> usize {
        let config = FetchConfig {
            window: self.network.window,
            retransmissions_max: u32::MAX,
            ..FetchConfig::default()
        };
        let last = self.network.last_segment(request.object);
        let state = Box::new(FetchState::new(config, 0, Some(last)));
        let (number, begin) = (self.downloads.len(), self.since_origin(now));
        self.network.note_progress(number as u64, self.network.requests.len() as u64);
        let Request { node, object, .. } = request;
        self.downloads.push(Download { node, object, begin, end: begin });
        self.fetches.insert(number, Fetch { state, wakes_at: None });
        self.active.entry((node, object)).or_default().push(number);
        number
    }

    /// Sends the Interests that the window of a fetch allows. Returns the time at which to wake it, unless a wake-up at that
    /// time or earlier was returned before.
    pub(crate) fn transmit(
        &mut self,
        now: Duration,
        number: usize,
        mut send: impl FnMut(usize, Vec<u8>),
    ) -> Option<Duration> {
        let Fetch { state, wakes_at } = self.fetches.get_mut(&number)?;
        let Download { node, object, .. } = self.downloads[number];
        let source = self.network.sources[object as usize];
        let components = self.network.name_components;
        while let Some(transmit) = state.poll_transmit(now) {
            let nonce = self.random.draw(NONCES, self.counts.interests).bits() as u32;
            self.counts.interests += 1;
            self.counts.retransmissions += u64::from(transmit.attempt > 1);
            let segment = transmit.segment;
            let name = SegmentName { source, object, segment, components };
            send(node as usize, interest(name, nonce));
        }
        let due = state.poll_timeout().map(|(due, _)| due.max(now));
        // A fetch that is woken too early checks again at its deadline.
        let wake = due.filter(|due| wakes_at.is_none_or(|at| *due < at));
        *wakes_at = wake.or(*wakes_at);
        wake
    }

    /// Handles a wake-up of a fetch, which transmits next.
    pub(crate) fn wake(&mut self, now: Duration, number: usize) {
        let Some(Fetch { state, wakes_at }) = self.fetches.get_mut(&number) else { return };
        *wakes_at = wakes_at.filter(|at| *at > now);
        if state.poll_timeout().is_some_and(|(due, _)| due <= now) {
            state.handle_timeout(now);
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
        Some(data(name, last, len as usize, token))
    }

    /// Handles a frame for the consumers of a node. Returns the fetches that transmit next.
    pub(crate) fn consume(&mut self, now: Duration, node: usize, frame: &[u8]) -> Vec<usize> {
        let Some((received, _)) = parse(frame) else { return Vec::new() };
        let (Received::Data { object, .. }
        | Received::Nack { object, .. }
        | Received::Interest { object, .. }) = received;
        let key = (node as u32, object);
        let numbers = self.active.get(&key).cloned().unwrap_or_default();
        let end = self.since_origin(now);
        for &number in &numbers {
            let Some(Fetch { state, .. }) = self.fetches.get_mut(&number) else { continue };
            match received {
                Received::Data { segment, is_marked, .. } => {
                    if state.handle_data(now, segment, None, is_marked) == DataOutcome::New {
                        state.set_consumed(state.first_missing());
                    }
                }
                Received::Nack { segment, reason, .. } => {
                    state.handle_nack(now, segment, reason);
                }
                Received::Interest { .. } => {}
            }
            if state.is_complete() {
                self.downloads[number].end = end;
                self.fetches.remove(&number);
            }
        }
        if let Some(active) = self.active.get_mut(&key) {
            active.retain(|number| self.fetches.contains_key(number));
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
        let Some((number, Fetch { state, .. })) = self.fetches.first_key_value() else {
            return match self.network.requests.len() - self.downloads.len() {
                0 => Ok(()),
                count => Err(format!("{count} requests did not begin {limit}")),
            };
        };
        let Download { node, object, .. } = self.downloads[*number];
        Err(format!(
            "a request of node {} for object {object} has {} of {} segments {limit}: {:?}",
            self.network.topology.nodes[node as usize],
            state.progress().segments,
            self.network.last_segment(object) + 1,
            state.failure(),
        ))
    }

    /// Returns what the clients have observed, with the counts of the forwarders at the end.
    pub(crate) fn record(self, end: NetworkCounts) -> Record {
        let Self { downloads, counts, warm, .. } = self;
        let none = Counts { origin_bytes: vec![0; counts.origin_bytes.len()], ..Counts::default() };
        Record {
            downloads,
            from: warm.unwrap_or(none),
            until: Counts { network: end, ..counts },
            flows: Vec::new(),
        }
    }

    /// The time since the begin of the load.
    fn since_origin(&self, at: Duration) -> Duration {
        at.saturating_sub(self.origin)
    }
}
