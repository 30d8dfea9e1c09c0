//! Status datasets and the stream of face events.
//!
//! The FIB, the RIB and the faces can be large: what has changed in them since their last version is encoded in slices,
//! between which management serves other requests. The counters of faces have always changed.

use std::fmt;
use std::time::Duration;

use ndn_packet::{Interest, NameRef};
use ndn_types::{
    Capacity, LedgerReport, Now, PrincipalIndex, PrincipalKey, RankedLedger, Reserves,
    ShareVerdict, Timestamp, duration_ms,
};

use super::action::{CsConfiguration, FaceRecord, Telemetry};
use super::config::ControlConfig;
use super::dataset_requests::{DatasetPlaces, DatasetRequest, WAITING_MAX};
use super::faces::{FaceQuery, FaceRecords};
use super::outbox::Outbox;
use super::routes::RoutingTables;
use super::strategies::StrategyChoices;
use crate::command::TopPrefix;
use crate::dataset::{
    ChannelStatus, CsInfo, DatasetItem, FaceEventNotification, FaceQueryFilter, ForwarderStatus,
    NextHopRecord, RouteRecord, StrategyChoice, append_entry,
};
use crate::dispatch::Dataset;
use crate::listing::Listing;
use crate::notification::NotificationStream;
use crate::publisher::{Content, DatasetPublisher, PublishedResource, PublisherLimits};
use crate::rib::{NextHop, Route};
use crate::types::{FaceEventKind, cs_flag};

/// Bytes encoded per slice: one or two milliseconds of work.
const SLICE: usize = 256 << 10;
/// Slices in excess of one pass over the table after which a version is completed in one step, where tables change faster
/// than slices follow.
const EXTRA_SLICES_MAX: usize = 256;

/// Typical length of an entry of the FIB or the RIB, bytes.
const ENTRY_LENGTH: usize = 64;
/// Typical length of a face's entry, bytes.
const FACE_LENGTH: usize = 256;

/// The tables that datasets show.
pub(super) struct Tables<'a> {
    pub(super) config: &'a ControlConfig,
    pub(super) routes: &'a mut RoutingTables,
    pub(super) faces: &'a mut FaceRecords,
    pub(super) strategies: &'a StrategyChoices,
    pub(super) cs: CsConfiguration,
    pub(super) telemetry: &'a dyn Telemetry,
}

/// The tables that are encoded in slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlicedTable {
    Fib,
    Rib,
    Faces,
}

/// A version that is being encoded.
#[derive(Debug)]
struct Unfinished {
    requests: Vec<DatasetRequest>,
    /// Slices until it is completed in one step.
    slices_left: usize,
}

/// Versions of large tables: one of each is encoded at a time, for all requests meanwhile. It shows the table at the moment
/// of its completion, so that the effect of a command whose success was seen before the request is in it.
#[derive(Debug, Default)]
struct Listings {
    fib: Option<Unfinished>,
    rib: Option<Unfinished>,
    faces: Option<Unfinished>,
    /// The time of the last request; the encoded tables are dropped a while after it.
    used_at: Timestamp,
}

impl Listings {
    const fn of(&mut self, listed: SlicedTable) -> &mut Option<Unfinished> {
        match listed {
            SlicedTable::Fib => &mut self.fib,
            SlicedTable::Rib => &mut self.rib,
            SlicedTable::Faces => &mut self.faces,
        }
    }
}

/// A receiver of events of faces in this process. It returns false when it needs no further events, and does not wait.
pub type FaceEventSink = Box<dyn FnMut(&FaceEventNotification) -> bool + Send>;

/// The receivers of events of faces in this process.
#[derive(Default)]
struct Sinks(Vec<FaceEventSink>);

impl fmt::Debug for Sinks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Sinks").field(&self.0.len()).finish()
    }
}

/// Answers requests for datasets and for face events.
#[derive(Debug)]
pub(super) struct DatasetService {
    publisher: DatasetPublisher,
    idle: Duration,
    listings: Listings,
    /// The places of requests.
    places: RankedLedger<DatasetPlaces, 1>,
    /// Slices of queries so far.
    query_slices: u64,
    events: NotificationStream,
    sinks: Sinks,
    /// Versions published.
    published: u64,
}

impl DatasetService {
    pub(super) fn new(limits: PublisherLimits, reserves: Reserves) -> Self {
        let mut events = TopPrefix::Localhost.to_name();
        events.push_generic("faces").push_generic("events");
        Self {
            publisher: DatasetPublisher::new(limits, reserves),
            idle: limits.idle,
            listings: Listings::default(),
            places: RankedLedger::new([Capacity::of(WAITING_MAX)], reserves),
            query_slices: 0,
            events: NotificationStream::new(events, NotificationStream::RECENT_MAX_DEFAULT),
            sinks: Sinks::default(),
            published: 0,
        }
    }

    /// Returns the places for requests, and the versions and bytes, that each principal holds.
    pub(super) fn reports(&self) -> (LedgerReport<1>, LedgerReport<{ PublishedResource::COUNT }>) {
        (self.places.report(), self.publisher.report())
    }

    /// The number of versions published.
    pub(super) const fn published(&self) -> u64 {
        self.published
    }

    /// Posts an event of a face, and sends it if an Interest for it is pending.
    pub(super) fn notify(
        &mut self,
        now: Now,
        kind: FaceEventKind,
        face: &FaceRecord,
        outbox: &mut Outbox,
    ) {
        let notification = FaceEventNotification { kind, properties: face.properties.clone() };
        self.sinks.0.retain_mut(|sink| sink(&notification));
        if let Some(notification) = self.events.post(now, notification.to_vec()) {
            outbox.send_data(&notification.data(), false);
        }
    }

    /// Adds a receiver of the events from now on.
    pub(super) fn add_sink(&mut self, sink: FaceEventSink) {
        self.sinks.0.push(sink);
    }

    /// Sends the event that an Interest requests; false if it is not there.
    pub(super) fn send_event(
        &mut self,
        now: Now,
        interest: &Interest<'_>,
        outbox: &mut Outbox,
    ) -> bool {
        let Some(notification) = self.events.find(now, interest) else { return false };
        outbox.send_data(&notification.data(), false);
        true
    }

    /// Publishes a new version of a dataset, unless the last one is still valid, and sends its first segment. The segment of
    /// a large table is sent later, see [`DatasetService::continue_listings`].
    pub(super) fn publish(
        &mut self,
        now: Now,
        (requester, dataset, prefix): (PrincipalKey, &Dataset, NameRef<'_>),
        tables: &mut Tables<'_>,
        outbox: &mut Outbox,
    ) {
        let request = (requester, prefix);
        let generation = generation_of(dataset, tables);
        if let Some(segment) =
            generation.and_then(|current| self.publisher.reuse(now, request, current))
        {
            return outbox.send_data(&segment.data(), false);
        }
        let content = match dataset {
            Dataset::FibList => {
                return self.begin_listing(now, (SlicedTable::Fib, request), tables, outbox);
            }
            Dataset::RibList => {
                return self.begin_listing(now, (SlicedTable::Rib, request), tables, outbox);
            }
            Dataset::FaceList => {
                return self.begin_listing(now, (SlicedTable::Faces, request), tables, outbox);
            }
            Dataset::FaceQuery(filter) => {
                return self.begin_query(now, (filter, request), tables, outbox);
            }
            Dataset::ForwarderStatus => tables.forwarder_status(now).to_vec(),
            Dataset::ChannelList => encode_all(
                tables
                    .telemetry
                    .channels()
                    .into_iter()
                    .map(|local_uri| ChannelStatus { local_uri }),
            ),
            Dataset::CsInfo => tables.cs_info().to_vec(),
            Dataset::StrategyChoiceList => {
                encode_all(tables.strategies.iter().map(|(name, strategy)| StrategyChoice {
                    name: name.clone(),
                    strategy: strategy.clone(),
                }))
            }
        };
        self.publish_content(now, request, (content.into(), generation), outbox);
    }

    /// Sends a segment of a version that is still kept; false if it is not.
    pub(super) fn send_stored(&mut self, now: Now, name: NameRef<'_>, outbox: &mut Outbox) -> bool {
        let Some(segment) = self.publisher.find(now, name) else { return false };
        outbox.send_data(&segment.data(), false);
        true
    }

    /// Encodes one slice of each version that is being encoded.
    pub(super) fn continue_listings(
        &mut self,
        now: Now,
        tables: &mut Tables<'_>,
        outbox: &mut Outbox,
    ) {
        for listed in [SlicedTable::Fib, SlicedTable::Rib, SlicedTable::Faces] {
            self.slice(now, listed, tables, outbox);
        }
        // Principals take turns; of each, one query at a time, in the order of the requests.
        let queries = tables.faces.queries.iter().enumerate();
        if let Some((number, _)) = queries.min_by_key(|(_, query)| query.served) {
            self.slice_query(now, number, tables, outbox);
        }
    }

    /// Whether a version of a large table is being encoded.
    pub(super) fn is_listing(&self, faces: &FaceRecords) -> bool {
        let Listings { fib, rib, faces: all_faces, .. } = &self.listings;
        fib.is_some() || rib.is_some() || all_faces.is_some() || !faces.queries.is_empty()
    }

    /// Drops versions and encoded tables that were not requested for a while.
    pub(super) fn handle_timeout(
        &mut self,
        now: Now,
        routes: &mut RoutingTables,
        faces: &mut FaceRecords,
    ) {
        self.publisher.drop_idle(now);
        let is_due =
            self.listings_deadline(routes, faces).is_some_and(|deadline| deadline <= now.monotonic);
        if is_due && !self.is_listing(faces) {
            routes.fib.listing.forget();
            routes.rib.listing.forget();
            faces.listing.forget();
        }
    }

    /// The next deadline; [`Timestamp::ZERO`] while a version is being encoded.
    pub(super) fn next_deadline(
        &self,
        routes: &RoutingTables,
        faces: &FaceRecords,
    ) -> Option<Timestamp> {
        let deadlines = [self.publisher.next_deadline(), self.listings_deadline(routes, faces)];
        deadlines.into_iter().flatten().min()
    }

    fn listings_deadline(&self, routes: &RoutingTables, faces: &FaceRecords) -> Option<Timestamp> {
        if self.is_listing(faces) {
            return Some(Timestamp::ZERO);
        }
        let kept = [&routes.fib.listing, &routes.rib.listing, &faces.listing];
        let is_kept = kept.into_iter().any(Listing::is_kept);
        is_kept.then(|| self.listings.used_at + self.idle)
    }

    fn publish_content(
        &mut self,
        now: Now,
        request: (PrincipalKey, NameRef<'_>),
        (content, generation): (Content, Option<u64>),
        outbox: &mut Outbox,
    ) {
        self.published += 1;
        let segment = self.publisher.publish(now, request, content, generation);
        outbox.send_data(&segment.data(), false);
    }

    /// Takes a place for a request. If there is none, the latest request of the principal with the most gives way to one of a
    /// principal below its share.
    fn place(
        &mut self,
        (requester, prefix): (PrincipalKey, NameRef<'_>),
        faces: &mut FaceRecords,
    ) -> Option<DatasetRequest> {
        let owner = self.places.attach(requester);
        let has_room = match self.places.verdict(owner, DatasetPlaces, 1) {
            ShareVerdict::Room => true,
            ShareVerdict::Refused => false,
            ShareVerdict::Evict(limits) => {
                let victim = self.places.victim(DatasetPlaces, limits);
                victim.is_some_and(|victim| self.give_way(victim, faces))
            }
        };
        if !has_room {
            self.places.detach(owner);
            return None;
        }
        self.places.charge(owner, DatasetPlaces, 1);
        Some(DatasetRequest { prefix: prefix.to_name(), owner })
    }

    fn give_way(&mut self, victim: PrincipalIndex, faces: &mut FaceRecords) -> bool {
        let is_own = |request: &DatasetRequest| request.owner == victim;
        if let Some(at) = faces.queries.iter().rposition(|query| is_own(&query.request)) {
            let query = faces.queries.remove(at);
            self.release(&query.request);
            return true;
        }
        for listed in [SlicedTable::Fib, SlicedTable::Rib, SlicedTable::Faces] {
            let Some(unfinished) = self.listings.of(listed) else { continue };
            if let Some(at) = unfinished.requests.iter().rposition(is_own) {
                let request = unfinished.requests.remove(at);
                self.release(&request);
                return true;
            }
        }
        false
    }

    fn release(&mut self, request: &DatasetRequest) {
        self.places.release(request.owner, DatasetPlaces, 1);
        self.places.detach(request.owner);
    }

    /// Publishes the answer to a request, which gives its place back.
    fn answer(
        &mut self,
        now: Now,
        request: &DatasetRequest,
        content: (Content, Option<u64>),
        outbox: &mut Outbox,
    ) {
        let requester = self.places.key(request.owner);
        self.release(request);
        self.publish_content(now, (requester, request.prefix.as_ref()), content, outbox);
    }

    /// Begins a version, unless one is being encoded, which answers this request too. Requests differ in their prefixes
    /// if they carry parameters.
    fn begin_listing(
        &mut self,
        now: Now,
        (listed, request): (SlicedTable, (PrincipalKey, NameRef<'_>)),
        tables: &mut Tables<'_>,
        outbox: &mut Outbox,
    ) {
        self.listings.used_at = now.monotonic;
        let Self { listings, places, .. } = self;
        let requests = listings.of(listed).as_ref().map(|unfinished| &unfinished.requests);
        let is_waiting = requests.is_some();
        if requests.is_some_and(|known| known.iter().any(|one| one.is(request, places))) {
            return;
        }
        let Some(request) = self.place(request, tables.faces) else { return };
        if is_waiting && let Some(unfinished) = self.listings.of(listed) {
            return unfinished.requests.push(request);
        }
        let Tables { routes, faces, .. } = tables;
        // The version of a table of routes may be restarted once.
        let slices_left = match listed {
            SlicedTable::Fib => {
                routes.fib.listing.begin();
                slices_max(2 * routes.fib.len(), ENTRY_LENGTH)
            }
            SlicedTable::Rib => {
                routes.rib.listing.begin();
                slices_max(2 * routes.rib.route_count(), ENTRY_LENGTH)
            }
            SlicedTable::Faces => {
                faces.listing.begin();
                slices_max(faces.len(), FACE_LENGTH)
            }
        };
        *self.listings.of(listed) = Some(Unfinished { requests: vec![request], slices_left });
        self.slice(now, listed, tables, outbox);
    }

    /// Begins the answer to a query, unless it is being encoded. It is completed at once if the query names few faces.
    fn begin_query(
        &mut self,
        now: Now,
        (filter, request): (&FaceQueryFilter, (PrincipalKey, NameRef<'_>)),
        tables: &mut Tables<'_>,
        outbox: &mut Outbox,
    ) {
        if let Some(content) = tables.faces.answer_at_once(filter, tables.telemetry) {
            return self.publish_content(now, request, (content.into(), None), outbox);
        }
        let mut queries = tables.faces.queries.iter();
        if queries.any(|query| query.request.is(request, &self.places)) {
            return;
        }
        let Some(request) = self.place(request, tables.faces) else { return };
        let slices_left = slices_max(tables.faces.len(), FACE_LENGTH);
        let number = tables.faces.queries.len();
        tables.faces.queries.push(FaceQuery::new(request, filter.clone(), slices_left));
        self.slice_query(now, number, tables, outbox);
    }

    /// Encodes one slice of the answer to a query, and publishes it after the last one.
    fn slice_query(
        &mut self,
        now: Now,
        number: usize,
        tables: &mut Tables<'_>,
        outbox: &mut Outbox,
    ) {
        let Tables { faces, telemetry, .. } = tables;
        self.query_slices += 1;
        let owner = faces.queries[number].request.owner;
        for query in faces.queries.iter_mut().filter(|query| query.request.owner == owner) {
            query.served = self.query_slices;
        }
        let query = &mut faces.queries[number];
        let work = if query.slices_left == 0 { usize::MAX } else { SLICE };
        query.slices_left = query.slices_left.saturating_sub(1);
        if faces.continue_query(number, work, *telemetry) {
            let query = faces.queries.remove(number);
            let content = query.listing.runs().collect();
            self.answer(now, &query.request, (content, None), outbox);
        }
    }

    fn slice(
        &mut self,
        now: Now,
        listed: SlicedTable,
        tables: &mut Tables<'_>,
        outbox: &mut Outbox,
    ) {
        let Tables { routes, faces, telemetry, .. } = tables;
        let Some(unfinished) = self.listings.of(listed) else { return };
        let work = if unfinished.slices_left == 0 { usize::MAX } else { SLICE };
        unfinished.slices_left = unfinished.slices_left.saturating_sub(1);
        let RoutingTables { rib, fib, removals, .. } = &mut **routes;
        let is_complete = match listed {
            SlicedTable::Fib => fib.continue_listing(work, |out, prefix, hops| {
                append_fib_entry(out, prefix, removals.shown_next_hops(hops));
            }),
            SlicedTable::Rib => rib.continue_listing(work, |out, prefix, routes| {
                let shown = removals.shown_routes(now.monotonic, routes);
                append_rib_entry(out, prefix, shown, now);
            }),
            SlicedTable::Faces => faces.continue_listing(work, *telemetry),
        };
        if !is_complete {
            return;
        }
        let Some(Unfinished { requests, .. }) = self.listings.of(listed).take() else { return };
        let content: (Content, Option<u64>) = match listed {
            SlicedTable::Fib => (fib.listing.runs().collect(), fib.listed_generation()),
            SlicedTable::Rib => (rib.listing.runs().collect(), rib.listed_generation()),
            SlicedTable::Faces => (faces.listing.runs().collect(), None),
        };
        for (at, request) in requests.iter().enumerate() {
            // Several principals may have sent the same request.
            if requests[..at].iter().any(|earlier| earlier.prefix == request.prefix) {
                self.release(request);
            } else {
                self.answer(now, request, content.clone(), outbox);
            }
        }
    }
}

/// A number that changes with the dataset; `None` if it contains counters.
fn generation_of(dataset: &Dataset, tables: &Tables<'_>) -> Option<u64> {
    match dataset {
        Dataset::FibList => Some(tables.routes.fib.generation()),
        Dataset::RibList => Some(tables.routes.rib.generation()),
        Dataset::StrategyChoiceList => Some(tables.strategies.generation()),
        Dataset::ForwarderStatus
        | Dataset::FaceList
        | Dataset::FaceQuery(_)
        | Dataset::ChannelList
        | Dataset::CsInfo => None,
    }
}

impl Tables<'_> {
    fn cs_info(&self) -> CsInfo {
        let tables = self.telemetry.tables();
        let admit = if self.cs.admit { cs_flag::ADMIT } else { 0 };
        let serve = if self.cs.serve { cs_flag::SERVE } else { 0 };
        CsInfo {
            capacity: self.cs.capacity,
            flags: admit | serve,
            entries: tables.cs_entries,
            hits: tables.cs_hits,
            misses: tables.cs_misses,
        }
    }

    fn forwarder_status(&self, now: Now) -> ForwarderStatus {
        let tables = self.telemetry.tables();
        let fib_entries = self.routes.fib.len() as u64;
        let strategy_choices = self.strategies.len() as u64;
        ForwarderStatus {
            version: self.config.version.clone(),
            start_timestamp_ms: self.config.started_unix_ms,
            current_timestamp_ms: now.unix_ms(),
            name_tree_entries: fib_entries
                + strategy_choices
                + tables.pit_entries
                + tables.measurements_entries,
            fib_entries,
            pit_entries: tables.pit_entries,
            measurements_entries: tables.measurements_entries,
            cs_entries: tables.cs_entries,
            counters: self.telemetry.forwarder(),
        }
    }
}

/// Slices after which a version of `entry_count` entries is completed in one step.
const fn slices_max(entry_count: usize, entry_length: usize) -> usize {
    entry_count * entry_length / SLICE + EXTRA_SLICES_MAX
}

/// Appends an entry with these next hops, if there are any; returns whether there are.
pub(super) fn append_fib_entry<'a>(
    out: &mut Vec<u8>,
    prefix: NameRef<'_>,
    next_hops: impl Iterator<Item = &'a NextHop>,
) -> bool {
    let record = |hop: &NextHop| NextHopRecord { face_id: hop.face_id, cost: hop.cost };
    append_if_any(out, prefix, next_hops.map(record))
}

/// Appends an entry with these routes, if there are any; returns whether there are.
pub(super) fn append_rib_entry<'a>(
    out: &mut Vec<u8>,
    prefix: NameRef<'_>,
    routes: impl Iterator<Item = &'a Route>,
    now: Now,
) -> bool {
    let record = |route: &Route| RouteRecord {
        face_id: route.face_id,
        origin: route.origin,
        cost: route.cost,
        flags: route.flags,
        expiration_period_ms: route.expires_at.map(|at| duration_ms(at - now.monotonic)),
    };
    append_if_any(out, prefix, routes.map(record))
}

fn append_if_any<T: DatasetItem>(
    out: &mut Vec<u8>,
    prefix: NameRef<'_>,
    records: impl Iterator<Item = T>,
) -> bool {
    let mut records = records.peekable();
    let is_shown = records.peek().is_some();
    if is_shown {
        append_entry(out, prefix, records);
    }
    is_shown
}

fn encode_all<T: DatasetItem>(items: impl Iterator<Item = T>) -> Vec<u8> {
    let mut content = Vec::new();
    items.for_each(|item| item.encode(&mut content));
    content
}
