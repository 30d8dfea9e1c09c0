//! What the datasets hold at the moment.
//!
//! The FIB, the RIB and the faces may be many: what has changed in them since their last version is encoded
//! a slice at a time, and other requests are served between slices ([`Listings`]). What faces count has
//! always changed.

use ndn_packet::{Name, NameRef};

use super::faces::FaceQuery;
use super::{ControlState, Telemetry};
use crate::dataset::{
    ChannelStatus, CsInfo, DatasetItem, FaceQueryFilter, ForwarderStatus, NextHopRecord,
    RouteRecord, StrategyChoice, append_entry,
};
use crate::dispatch::Dataset;
use crate::listing::Listing;
use crate::publisher::Content;
use crate::types::cs_flag;
use crate::{NextHop, Now, Route};

/// What is encoded at a time, bytes: one or two milliseconds.
const SLICE: usize = 256 << 10;
/// Where tables change faster than slices follow, a version is ended in one go after so many slices
/// more than one pass over the table takes.
const SLICES_MORE_MAX: usize = 256;

/// What an entry of the FIB or the RIB takes, bytes; with long names more, but not many times as much.
const ENTRY_LENGTH: usize = 64;
/// The same for a face.
const FACE_LENGTH: usize = 256;

/// Queries of faces that are answered a slice at a time; more are not answered until one of them is.
const QUERIES_MAX: usize = 64;

/// Large tables, as their datasets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listed {
    Fib,
    Rib,
    Faces,
}

/// A version that is being made.
#[derive(Debug)]
struct Unfinished {
    /// What it was asked for as.
    prefix: Name,
    /// Slices until it is ended in one go.
    slices_left: usize,
}

/// Versions of large tables: one of each is made at a time, for all who ask meanwhile. It is what the
/// table is in the moment in which it is complete, so whoever has seen a command succeed before asking
/// finds it there.
#[derive(Debug, Default)]
pub(super) struct Listings {
    fib: Option<Unfinished>,
    rib: Option<Unfinished>,
    faces: Option<Unfinished>,
    /// When one of them was last asked for; forgotten when that is long ago.
    used_ns: u64,
}

impl Listings {
    const fn of(&mut self, listed: Listed) -> &mut Option<Unfinished> {
        match listed {
            Listed::Fib => &mut self.fib,
            Listed::Rib => &mut self.rib,
            Listed::Faces => &mut self.faces,
        }
    }
}

impl ControlState {
    /// Publishes a new version of a dataset, unless the last one still holds, and sends its first
    /// segment; that of a large table later, see [`ControlState::go_on_listing`].
    pub(super) fn publish(
        &mut self,
        now: Now,
        dataset: &Dataset,
        prefix: NameRef<'_>,
        telemetry: &dyn Telemetry,
    ) {
        let generation = self.generation_of(dataset);
        if let Some(segment) =
            generation.and_then(|current| self.publisher.reuse(now, prefix, current))
        {
            let wire = self.collaborators.signer.sign(&segment.data());
            return self.send(wire, false);
        }
        let content = match dataset {
            Dataset::FibList => return self.begin_listing(now, Listed::Fib, prefix, telemetry),
            Dataset::RibList => return self.begin_listing(now, Listed::Rib, prefix, telemetry),
            Dataset::FaceList => return self.begin_listing(now, Listed::Faces, prefix, telemetry),
            Dataset::FaceQuery(filter) => return self.begin_query(now, prefix, filter, telemetry),
            Dataset::ForwarderStatus => self.forwarder_status(now, telemetry).to_vec(),
            Dataset::ChannelList => encode_all(
                telemetry.channels().into_iter().map(|local_uri| ChannelStatus { local_uri }),
            ),
            Dataset::CsInfo => self.cs_info(telemetry).to_vec(),
            Dataset::StrategyChoiceList => {
                encode_all(self.strategy_choices.iter().map(|(name, strategy)| StrategyChoice {
                    name: name.clone(),
                    strategy: strategy.clone(),
                }))
            }
        };
        self.publish_content(now, prefix, content.into(), generation);
    }

    fn publish_content(
        &mut self,
        now: Now,
        prefix: NameRef<'_>,
        content: Content,
        generation: Option<u64>,
    ) {
        self.counters.datasets += 1;
        let segment = self.publisher.publish(now, prefix, content, generation);
        let wire = self.collaborators.signer.sign(&segment.data());
        self.send(wire, false);
    }

    /// Begins with a version, unless one is being made: that will do for this request, too.
    fn begin_listing(
        &mut self,
        now: Now,
        listed: Listed,
        prefix: NameRef<'_>,
        telemetry: &dyn Telemetry,
    ) {
        self.listings.used_ns = now.monotonic_ns;
        if self.listings.of(listed).is_some() {
            return;
        }
        let slices_left = match listed {
            Listed::Fib => {
                self.fib.listing.begin();
                slices_max(self.fib.len(), ENTRY_LENGTH)
            }
            Listed::Rib => {
                self.rib.listing.begin();
                slices_max(self.rib.route_count(), ENTRY_LENGTH)
            }
            Listed::Faces => {
                self.faces.listing.begin();
                slices_max(self.faces.len(), FACE_LENGTH)
            }
        };
        *self.listings.of(listed) = Some(Unfinished { prefix: prefix.to_name(), slices_left });
        self.slice(now, listed, telemetry);
    }

    /// Begins with the answer to a query, unless it is being made; where the query says which faces it can
    /// be about, that is all of it.
    fn begin_query(
        &mut self,
        now: Now,
        prefix: NameRef<'_>,
        filter: &FaceQueryFilter,
        telemetry: &dyn Telemetry,
    ) {
        if let Some(content) = self.faces.answer_at_once(filter, telemetry) {
            return self.publish_content(now, prefix, content.into(), None);
        }
        let slices_left = slices_max(self.faces.len(), FACE_LENGTH);
        let queries = &mut self.faces.queries;
        if queries.len() >= QUERIES_MAX || queries.iter().any(|query| query.prefix == prefix) {
            return;
        }
        let number = queries.len();
        queries.push(FaceQuery::new(prefix.to_name(), filter.clone(), slices_left));
        self.slice_query(now, number, telemetry);
    }

    /// Encodes one slice of the answer to a query; true if that was the last.
    fn slice_query(&mut self, now: Now, number: usize, telemetry: &dyn Telemetry) -> bool {
        let query = &mut self.faces.queries[number];
        let work = if query.slices_left == 0 { usize::MAX } else { SLICE };
        query.slices_left = query.slices_left.saturating_sub(1);
        let is_complete = self.faces.go_on_query(number, work, telemetry);
        if is_complete {
            let query = self.faces.queries.remove(number);
            let content = query.listing.runs().collect();
            self.publish_content(now, query.prefix.as_ref(), content, None);
        }
        is_complete
    }

    /// Encodes one slice of each version that is being made; to be called while
    /// [`is_listing`](Self::is_listing), between other work.
    pub fn go_on_listing(&mut self, now: Now, telemetry: &dyn Telemetry) {
        for listed in [Listed::Fib, Listed::Rib, Listed::Faces] {
            self.slice(now, listed, telemetry);
        }
        // One of them at a time, the one that was asked for first.
        if !self.faces.queries.is_empty() {
            self.slice_query(now, 0, telemetry);
        }
    }

    /// Whether a version of a large table is being made.
    #[must_use]
    pub fn is_listing(&self) -> bool {
        let Listings { fib, rib, faces, .. } = &self.listings;
        fib.is_some() || rib.is_some() || faces.is_some() || !self.faces.queries.is_empty()
    }

    /// Forgets what nobody has asked for of late.
    pub(super) fn forget_listings(&mut self, now: Now) {
        if self.listings_deadline_ns().is_some_and(|deadline| deadline <= now.monotonic_ns)
            && !self.is_listing()
        {
            self.fib.listing.forget();
            self.rib.listing.forget();
            self.faces.listing.forget();
        }
    }

    /// When there is something to do: at once while a version is being made.
    pub(super) fn listings_deadline_ns(&self) -> Option<u64> {
        if self.is_listing() {
            return Some(0);
        }
        let kept = [&self.fib.listing, &self.rib.listing, &self.faces.listing];
        let is_kept = kept.into_iter().any(Listing::is_kept);
        is_kept.then(|| self.listings.used_ns.saturating_add(self.config.publisher.idle_ns))
    }

    fn slice(&mut self, now: Now, listed: Listed, telemetry: &dyn Telemetry) {
        if listed != Listed::Faces && self.is_removing() {
            return;
        }
        let Some(unfinished) = self.listings.of(listed) else { return };
        let work = if unfinished.slices_left == 0 { usize::MAX } else { SLICE };
        unfinished.slices_left = unfinished.slices_left.saturating_sub(1);
        let is_complete = match listed {
            Listed::Fib => self.fib.go_on_listing(work, append_fib_entry),
            Listed::Rib => self.rib.go_on_listing(work, |out, prefix, routes| {
                append_entry(out, prefix, routes.iter().map(|route| route_record(now, route)));
            }),
            Listed::Faces => self.faces.go_on_listing(work, telemetry),
        };
        if !is_complete {
            return;
        }
        let Some(Unfinished { prefix, .. }) = self.listings.of(listed).take() else { return };
        let (content, generation) = match listed {
            Listed::Fib => (self.fib.listing.runs().collect(), Some(self.fib.generation())),
            Listed::Rib => (self.rib.listing.runs().collect(), Some(self.rib.generation())),
            Listed::Faces => (self.faces.listing.runs().collect(), None),
        };
        self.publish_content(now, prefix.as_ref(), content, generation);
    }

    /// Sends a segment of a version that is still kept.
    pub(super) fn send_stored(&mut self, now: Now, name: NameRef<'_>) -> bool {
        let Some(segment) = self.publisher.find(now, name) else { return false };
        let wire = self.collaborators.signer.sign(&segment.data());
        self.send(wire, false);
        true
    }

    /// A number that changes with the dataset; `None` where counters change all the time.
    fn generation_of(&self, dataset: &Dataset) -> Option<u64> {
        match dataset {
            Dataset::FibList => Some(self.fib.generation()),
            Dataset::RibList => Some(self.rib.generation()),
            Dataset::StrategyChoiceList => Some(self.strategy_generation),
            Dataset::ForwarderStatus
            | Dataset::FaceList
            | Dataset::FaceQuery(_)
            | Dataset::ChannelList
            | Dataset::CsInfo => None,
        }
    }

    fn cs_info(&self, telemetry: &dyn Telemetry) -> CsInfo {
        let tables = telemetry.tables();
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

    fn forwarder_status(&self, now: Now, telemetry: &dyn Telemetry) -> ForwarderStatus {
        let tables = telemetry.tables();
        let fib_entries = self.fib.len() as u64;
        let strategy_choices = self.strategy_choices.len() as u64;
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
            counters: telemetry.forwarder(),
        }
    }
}

/// Slices after which a version of so many entries is ended in one go.
const fn slices_max(entry_count: usize, entry_length: usize) -> usize {
    entry_count * entry_length / SLICE + SLICES_MORE_MAX
}

fn append_fib_entry(out: &mut Vec<u8>, prefix: NameRef<'_>, next_hops: &[NextHop]) {
    let records =
        next_hops.iter().map(|hop| NextHopRecord { face_id: hop.face_id, cost: hop.cost });
    append_entry(out, prefix, records);
}

fn route_record(now: Now, route: &Route) -> RouteRecord {
    let remaining_ns = |expires_at_ns: u64| expires_at_ns.saturating_sub(now.monotonic_ns);
    RouteRecord {
        face_id: route.face_id,
        origin: route.origin,
        cost: route.cost,
        flags: route.flags,
        expiration_period_ms: route.expires_at_ns.map(|at| remaining_ns(at) / 1_000_000),
    }
}

fn encode_all<T: DatasetItem>(items: impl Iterator<Item = T>) -> Vec<u8> {
    let mut content = Vec::new();
    items.for_each(|item| item.encode(&mut content));
    content
}
