//! The virtual plane of one forwarder: objects by name, neighbours by number, and the exchange with them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ndn_packet::{Name, NameRef};
use ndn_types::{Now, Timestamp};

use crate::exchange::{Acknowledged, Receiver, Reception, Reported, Sender};
use crate::message::{Acknowledgement, Entry, MessageError, OBJECT_NAME_LEN_MAX, Report};
use crate::plane::{Amount, NeighbourId, ObjectId, REQUEST, Settings, VirtualPlane};

/// Sizes of objects that Data shows and neighbours report are accepted within these bounds, in bytes. With the first, no more
/// VIPs are accepted from a link than it carries Data packets.
const OBJECT_BYTES: std::ops::RangeInclusive<u64> = 8192..=1 << 40;
/// Slots after which all counts are reported again.
const REFRESH_SLOTS: u64 = 64;

/// Settings of a [`Node`].
#[derive(Debug, Clone)]
pub struct NodeSettings {
    /// Settings of the equations.
    pub plane: Settings,
    /// Maximum number of objects.
    pub objects_max: usize,
    /// Maximum number of neighbours.
    pub neighbours_max: usize,
    /// Size of objects whose size is unknown, in bytes.
    pub object_bytes: u64,
}

/// Where Interests for an object can go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectRoutes {
    /// An application of this host answers them.
    pub is_source: bool,
    /// Neighbours that are next hops.
    pub neighbours: Vec<u64>,
}

impl ObjectRoutes {
    fn is_empty(&self) -> bool {
        !self.is_source && self.neighbours.is_empty()
    }
}

/// A report to be sent, as the ApplicationParameters of a signed Interest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmission {
    /// The receiver.
    pub neighbour: u64,
    /// The encoded report.
    pub report: Vec<u8>,
}

/// The reason why a message of a neighbour had no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportRefusal {
    /// The sender is not a neighbour.
    #[error("the sender is not a neighbour")]
    UnknownNeighbour,
    /// The message was not decoded.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The neighbour has slots of another duration.
    #[error("the neighbour has slots of {0} ms, this forwarder of {1} ms")]
    SlotDuration(u64, u64),
    /// The report is of a session that a later one has replaced.
    #[error("the session is older than the one that is known")]
    OldSession,
}

/// Sums since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// Reports that were transmitted, with repetitions.
    pub reports_sent: u64,
    /// Reports whose entries were applied.
    pub reports_received: u64,
    /// Reports that were received before.
    pub reports_repeated: u64,
    /// Reports that were refused: malformed, of an old session, of other slots, or too many.
    pub reports_refused: u64,
    /// Entries that were refused: no route leads to the object, or there is no room for it.
    pub entries_refused: u64,
    /// Objects that were removed to make room for others.
    pub objects_evicted: u64,
    /// Local requests for objects for which there was no room, or no route.
    pub requests_refused: u64,
    /// VIPs that left, and that no neighbour has confirmed, in millionths of a request.
    pub unconfirmed: Amount,
}

/// Where the name of an object came from first: its place is charged to this reporter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ReportedBy {
    /// A neighbour that is gone.
    Gone,
    /// A neighbour.
    Neighbour(u64),
    /// Local applications.
    Local,
}

/// Accuracy of a size that Data shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accuracy {
    /// Computed from the number of segments and the length of one.
    Estimate,
    /// The length in the metadata of a file.
    Exact,
}

#[derive(Debug)]
struct Known {
    name: Name,
    size_bytes: u64,
    /// The size was learned from Data, or a neighbour has reported it.
    is_sized: bool,
    /// The size was learned from metadata.
    is_exact: bool,
    reported_by: ReportedBy,
    is_source: bool,
}

/// The objects by name, and their counts at the start of the slot.
#[derive(Debug, Default)]
struct Objects {
    /// By [`ObjectId`]; `None` of a removed one.
    known: Vec<Option<Known>>,
    ids: BTreeMap<Name, ObjectId>,
    counts: Vec<Amount>,
}

impl Objects {
    fn find(&self, id: ObjectId) -> Option<&Known> {
        self.known.get(id)?.as_ref()
    }

    fn insert(&mut self, id: ObjectId, known: Known) {
        if self.known.len() <= id {
            self.known.resize_with(id + 1, || None);
            self.counts.resize(id + 1, 0);
        }
        self.ids.insert(known.name.clone(), id);
        self.known[id] = Some(known);
        self.counts[id] = 0;
    }

    fn remove(&mut self, id: ObjectId) -> Option<Known> {
        let known = self.known.get_mut(id)?.take()?;
        self.ids.remove(&known.name);
        self.counts[id] = 0;
        Some(known)
    }

    fn iter(&self) -> impl Iterator<Item = (ObjectId, &Known)> {
        let known = self.known.iter().enumerate();
        known.filter_map(|(id, known)| Some((id, known.as_ref()?)))
    }
}

impl Reported for Objects {
    fn objects(&self) -> usize {
        self.known.len()
    }

    fn count(&self, object: ObjectId) -> Amount {
        self.counts.get(object).copied().unwrap_or(0)
    }

    fn entry(&self, object: ObjectId, count: Amount, sent: Amount) -> Option<Entry> {
        let Known { name, size_bytes, is_sized, .. } = self.find(object)?;
        let size_bytes = if *is_sized { *size_bytes } else { 0 };
        Some(Entry { name: name.clone(), size_bytes, count, sent })
    }
}

#[derive(Debug)]
struct Peer {
    id: NeighbourId,
    sender: Sender,
    receiver: Receiver,
}

/// An object, for operators and for the packet path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectStatus {
    /// Name.
    pub name: Name,
    /// Size, in bytes.
    pub size_bytes: u64,
    /// `V`, in millionths of a request.
    pub count: Amount,
    /// Score, in millionths of a request.
    pub score: Amount,
    /// The virtual cache has it.
    pub is_cached: bool,
    /// This node is a source of it.
    pub is_source: bool,
    /// VIPs sent over the window, by neighbour; of those that were sent any.
    pub sent: Vec<(u64, Amount)>,
    /// The last `V` that neighbours reported, if it is not 0.
    pub neighbour_counts: Vec<(u64, Amount)>,
}

/// A neighbour, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourStatus {
    /// Number.
    pub neighbour: u64,
    /// It has acknowledged a report of this session.
    pub is_connected: bool,
    /// A report of it has arrived lately.
    pub is_reporting: bool,
    /// VIPs on the way to it, in millionths of a request.
    pub unconfirmed: Amount,
}

/// The virtual plane of one forwarder. The owner calls [`handle_timeout`](Self::handle_timeout) at
/// [`next_deadline`](Self::next_deadline) and then sends what [`poll_transmission`](Self::poll_transmission) returns.
///
/// The number of a session is the time of its start, in microseconds since 1970.
#[derive(Debug)]
pub struct Node {
    settings: NodeSettings,
    plane: VirtualPlane,
    objects: Objects,
    peers: BTreeMap<u64, Peer>,
    transmissions: VecDeque<Transmission>,
    next_slot: Timestamp,
    slots: u64,
    /// The number of the last session.
    session: u64,
    counters: NodeCounters,
}

impl Node {
    /// A node without objects and neighbours, whose first slot starts at `now`.
    #[must_use]
    pub fn new(settings: NodeSettings, now: Timestamp) -> Self {
        let slot_ms = settings.plane.slot_ms.max(1);
        let plane = Settings { slot_ms, ..settings.plane.clone() };
        let settings = NodeSettings {
            object_bytes: settings.object_bytes.max(1),
            plane: plane.clone(),
            ..settings
        };
        Self {
            plane: VirtualPlane::new(plane),
            settings,
            objects: Objects::default(),
            peers: BTreeMap::new(),
            transmissions: VecDeque::new(),
            next_slot: now.plus_millis(slot_ms),
            slots: 0,
            session: 0,
            counters: NodeCounters::default(),
        }
    }

    /// Adds a neighbour, which may or may not take part in the exchange, with the rate at which its link carries Data in each
    /// direction. No effect beyond the maximum number of neighbours.
    pub fn add_neighbour(&mut self, neighbour: u64, link_bytes_per_s: u64, now: Now) {
        if self.peers.contains_key(&neighbour) || self.peers.len() >= self.settings.neighbours_max {
            return;
        }
        let id = self.plane.add_neighbour(link_bytes_per_s, link_bytes_per_s);
        self.plane.set_present(id, false);
        self.plane.set_reached(id, false);
        let session = self.next_session(now);
        let sender = Sender::new(session, self.settings.plane.slot_ms, now.monotonic);
        self.peers.insert(neighbour, Peer { id, sender, receiver: Receiver::new() });
        self.transmit(neighbour, now);
    }

    /// Whether this is a neighbour.
    #[must_use]
    pub fn has_neighbour(&self, neighbour: u64) -> bool {
        self.peers.contains_key(&neighbour)
    }

    /// Removes a neighbour.
    pub fn remove_neighbour(&mut self, neighbour: u64) {
        let Some(peer) = self.peers.remove(&neighbour) else { return };
        self.note_unconfirmed(peer.sender.unconfirmed());
        self.plane.remove_neighbour(peer.id);
        for known in self.objects.known.iter_mut().flatten() {
            if known.reported_by == ReportedBy::Neighbour(neighbour) {
                known.reported_by = ReportedBy::Gone;
            }
        }
        self.transmissions.retain(|transmission| transmission.neighbour != neighbour);
    }

    fn next_session(&mut self, now: Now) -> u64 {
        self.session = now.unix_us().max(self.session.saturating_add(1));
        self.session
    }

    fn note_unconfirmed(&mut self, amount: Amount) {
        self.counters.unconfirmed = self.counters.unconfirmed.saturating_add(amount);
    }

    /// Counts requests of local applications for an object.
    pub fn request(
        &mut self,
        object: NameRef<'_>,
        requests: u64,
        routes: impl FnOnce(NameRef<'_>) -> ObjectRoutes,
    ) {
        let id = match self.objects.ids.get(&object.to_name()) {
            Some(id) => Some(*id),
            None => self.add_object(object, 0, ReportedBy::Local, routes),
        };
        match id {
            Some(id) => self.plane.request(id, requests.saturating_mul(REQUEST)),
            None => self.note_uncounted(requests),
        }
    }

    /// Counts local requests whose objects are not known.
    pub fn note_uncounted(&mut self, requests: u64) {
        self.counters.requests_refused += requests;
    }

    /// Sets the size of an object, in bytes, as the Data that passes shows it. An estimate does not replace an exact size. No
    /// effect on unknown objects.
    pub fn learn_size(&mut self, object: NameRef<'_>, size_bytes: u64, accuracy: Accuracy) {
        let Some(&id) = self.objects.ids.get(&object.to_name()) else { return };
        let Some(Some(known)) = self.objects.known.get_mut(id) else { return };
        let is_exact = accuracy == Accuracy::Exact;
        if is_exact || !known.is_exact {
            known.is_exact = is_exact;
            self.set_size(id, size_bytes);
        }
    }

    fn set_size(&mut self, id: ObjectId, size_bytes: u64) {
        let size_bytes = size_bytes.clamp(*OBJECT_BYTES.start(), *OBJECT_BYTES.end());
        if let Some(Some(known)) = self.objects.known.get_mut(id) {
            (known.size_bytes, known.is_sized) = (size_bytes, true);
            self.plane.set_size(id, size_bytes);
        }
    }

    /// Adds an object to which a route leads, if there is room for it. A size of 0 is unknown.
    fn add_object(
        &mut self,
        name: NameRef<'_>,
        size_bytes: u64,
        reported_by: ReportedBy,
        routes: impl FnOnce(NameRef<'_>) -> ObjectRoutes,
    ) -> Option<ObjectId> {
        if name.is_empty() || name.value().len() > OBJECT_NAME_LEN_MAX {
            return None;
        }
        let routes = routes(name);
        if routes.is_empty() || !self.make_room(reported_by) {
            return None;
        }
        let (is_source, default_bytes) = (routes.is_source, self.settings.object_bytes);
        let id = self.plane.add_object(default_bytes, is_source);
        let name = name.to_name();
        let known = Known {
            name,
            size_bytes: default_bytes,
            is_sized: false,
            is_exact: false,
            reported_by,
            is_source,
        };
        self.objects.insert(id, known);
        if size_bytes > 0 {
            self.set_size(id, size_bytes);
        }
        self.set_routes(id, &routes);
        Some(id)
    }

    /// Removes an object if there is no room for an object of `reported_by`: one of the same reporter if that has its
    /// share of the places or more, otherwise one of the reporter with the most.
    fn make_room(&mut self, reported_by: ReportedBy) -> bool {
        if self.objects.ids.len() < self.settings.objects_max {
            return true;
        }
        let mut counts: BTreeMap<ReportedBy, usize> = BTreeMap::new();
        for (_, known) in self.objects.iter() {
            *counts.entry(known.reported_by).or_default() += 1;
        }
        let share = self.settings.objects_max / (self.peers.len() + 1);
        let own = counts.get(&reported_by).copied().unwrap_or(0);
        let charged = if counts.contains_key(&ReportedBy::Gone) {
            ReportedBy::Gone
        } else if own >= share.max(1) {
            reported_by
        } else {
            let most = counts.iter().max_by_key(|(_, count)| **count);
            most.map_or(reported_by, |(charged, _)| *charged)
        };
        let of_charged = self.objects.iter().filter(|(_, known)| known.reported_by == charged);
        let least = of_charged.map(|(id, _)| id).min_by_key(|&id| {
            (self.plane.is_cached(id), self.plane.score(id), self.plane.count(id))
        });
        let Some(least) = least else { return false };
        self.remove_object(least);
        self.counters.objects_evicted += 1;
        true
    }

    fn remove_object(&mut self, id: ObjectId) {
        let Some(known) = self.objects.remove(id) else { return };
        self.plane.remove_object(id);
        let mut lost: Amount = 0;
        for peer in self.peers.values_mut() {
            let entry = || Entry {
                name: known.name.clone(),
                size_bytes: if known.is_sized { known.size_bytes } else { 0 },
                count: 0,
                sent: 0,
            };
            lost = lost.saturating_add(peer.sender.remove(id, entry));
        }
        self.note_unconfirmed(lost);
    }

    fn set_routes(&mut self, id: ObjectId, routes: &ObjectRoutes) {
        self.plane.set_source(id, routes.is_source);
        if let Some(Some(known)) = self.objects.known.get_mut(id) {
            known.is_source = routes.is_source;
        }
        for (neighbour, peer) in &self.peers {
            self.plane.set_routable(peer.id, id, routes.neighbours.contains(neighbour));
        }
    }

    /// Returns whether a report of a neighbour may be verified and handled now: their number per slot is limited.
    pub fn admits_report(&mut self, neighbour: u64) -> bool {
        let is_admitted = self.peers.get_mut(&neighbour).is_some_and(|peer| peer.receiver.admit());
        self.counters.reports_refused += u64::from(!is_admitted);
        is_admitted
    }

    /// Handles a report whose signature was verified. Returns the acknowledgement.
    ///
    /// # Errors
    /// See [`ReportRefusal`]; nothing is to be answered.
    pub fn handle_report(
        &mut self,
        neighbour: u64,
        wire: &[u8],
        now: Timestamp,
        routes: impl FnMut(NameRef<'_>) -> ObjectRoutes,
    ) -> Result<Acknowledgement, ReportRefusal> {
        let result = self.receive_report(neighbour, wire, now, routes);
        self.counters.reports_refused += u64::from(result.is_err());
        result
    }

    fn receive_report(
        &mut self,
        neighbour: u64,
        wire: &[u8],
        now: Timestamp,
        mut routes: impl FnMut(NameRef<'_>) -> ObjectRoutes,
    ) -> Result<Acknowledgement, ReportRefusal> {
        let slot_ms = self.settings.plane.slot_ms;
        let peer = self.peers.get_mut(&neighbour).ok_or(ReportRefusal::UnknownNeighbour)?;
        let report = Report::parse(wire)?;
        if report.slot_ms != slot_ms {
            return Err(ReportRefusal::SlotDuration(report.slot_ms, slot_ms));
        }
        let (reception, acknowledgement) = peer.receiver.receive(&report);
        let id = peer.id;
        match reception {
            Reception::First => {
                peer.sender.hurry(now);
                self.plane.set_present(id, true);
                self.plane.receive_counts(id, &[]);
                self.counters.reports_received += 1;
            }
            Reception::Next => {
                self.plane.receive_counts(id, &[]);
                self.counters.reports_received += 1;
                for entry in &report.entries {
                    self.apply(neighbour, id, entry, &mut routes);
                }
            }
            Reception::Repeated => self.counters.reports_repeated += 1,
            Reception::Unknown | Reception::Old => {}
        }
        acknowledgement.ok_or(ReportRefusal::OldSession)
    }

    fn apply(
        &mut self,
        neighbour: u64,
        id: NeighbourId,
        entry: &Entry,
        routes: impl FnOnce(NameRef<'_>) -> ObjectRoutes,
    ) {
        let known = self.objects.ids.get(&entry.name).copied();
        let object = match known {
            Some(object) => object,
            // Nothing is known about the object, as is now reported.
            None if entry.count == 0 && entry.sent == 0 => return,
            None => {
                let reported_by = ReportedBy::Neighbour(neighbour);
                match self.add_object(entry.name.as_ref(), entry.size_bytes, reported_by, routes) {
                    Some(object) => object,
                    None => {
                        self.counters.entries_refused += 1;
                        return;
                    }
                }
            }
        };
        let is_sized = self.objects.find(object).is_some_and(|known| known.is_sized);
        if entry.size_bytes > 0 && !is_sized {
            self.set_size(object, entry.size_bytes);
        }
        self.plane.receive_counts(id, &[(object, entry.count)]);
        if entry.sent > 0 {
            self.plane.receive_vips(id, object, entry.sent);
        }
    }

    /// Returns whether the answer to a report may be verified and handled now: it would have an effect, and the number per
    /// slot is limited.
    pub fn admits_acknowledgement(&mut self, neighbour: u64, content: &[u8]) -> bool {
        let acknowledgement = Acknowledgement::parse(content);
        let peer = self.peers.get_mut(&neighbour);
        peer.zip(acknowledgement.ok()).is_some_and(|(peer, answer)| peer.sender.admit(answer))
    }

    /// Handles the answer to a report, whose signature was verified.
    ///
    /// # Errors
    /// See [`ReportRefusal`].
    pub fn handle_acknowledgement(
        &mut self,
        neighbour: u64,
        content: &[u8],
        now: Now,
    ) -> Result<(), ReportRefusal> {
        let slot_ms = self.settings.plane.slot_ms;
        let peer = self.peers.get_mut(&neighbour).ok_or(ReportRefusal::UnknownNeighbour)?;
        let acknowledgement = Acknowledgement::parse(content)?;
        match peer.sender.acknowledge(acknowledgement, &self.objects, slot_ms, now.monotonic) {
            Acknowledged::Report => {
                self.plane.set_reached(peer.id, true);
                self.transmit(neighbour, now);
            }
            Acknowledged::Lost => self.restart_session(neighbour, now),
            Acknowledged::Other => {}
        }
        Ok(())
    }

    /// Starts another session with a neighbour that has lost the former one, or does not answer.
    fn restart_session(&mut self, neighbour: u64, now: Now) {
        let session = self.next_session(now);
        let Some(peer) = self.peers.get_mut(&neighbour) else { return };
        let lost = peer.sender.unconfirmed();
        self.plane.set_reached(peer.id, false);
        peer.sender = Sender::new(session, self.settings.plane.slot_ms, now.monotonic);
        self.note_unconfirmed(lost);
        self.transmit(neighbour, now);
    }

    /// Queues the report to a neighbour that is due.
    fn transmit(&mut self, neighbour: u64, now: Now) {
        let Some(peer) = self.peers.get_mut(&neighbour) else { return };
        match peer.sender.transmit(self.settings.plane.slot_ms, now.monotonic) {
            Ok(Some(report)) => {
                self.counters.reports_sent += 1;
                self.transmissions.push_back(Transmission { neighbour, report });
            }
            Ok(None) => {}
            Err(()) => self.restart_session(neighbour, now),
        }
    }

    /// Time of the next [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    pub fn next_deadline(&self) -> Timestamp {
        let retries = self.peers.values().filter_map(|peer| peer.sender.next_deadline());
        retries.fold(self.next_slot, Timestamp::min)
    }

    /// Ends the slot, if it is time, and transmits reports that are due. `routes` returns the routes of an object. Returns
    /// whether a slot has ended.
    pub fn handle_timeout(
        &mut self,
        now: Now,
        routes: impl FnMut(NameRef<'_>) -> ObjectRoutes,
    ) -> bool {
        let is_slot = self.next_slot <= now.monotonic;
        if is_slot {
            let slot = Duration::from_millis(self.settings.plane.slot_ms);
            // Slots that were missed are not made up for.
            let next = self.next_slot + slot;
            self.next_slot = if next > now.monotonic { next } else { now.monotonic + slot };
            self.run_slot(now.monotonic, routes);
        }
        let neighbours: Vec<u64> = self.peers.keys().copied().collect();
        for neighbour in neighbours {
            self.transmit(neighbour, now);
        }
        is_slot
    }

    fn run_slot(&mut self, now: Timestamp, mut routes: impl FnMut(NameRef<'_>) -> ObjectRoutes) {
        self.slots += 1;
        self.plane.end_slot();
        let ids: Vec<ObjectId> = self.objects.iter().map(|(id, _)| id).collect();
        for id in ids {
            let Some(known) = self.objects.find(id) else { continue };
            let found = routes(known.name.as_ref());
            self.set_routes(id, &found);
            self.objects.counts[id] = self.plane.count(id);
            let is_silent = |peer: &Peer| peer.sender.is_silent_about(id);
            if self.plane.is_idle(id) && self.peers.values().all(is_silent) {
                self.remove_object(id);
            }
        }
        for transfer in self.plane.start_slot() {
            let mut peers = self.peers.values_mut();
            if let Some(peer) = peers.find(|peer| peer.id == transfer.neighbour) {
                peer.sender.add(transfer.object, transfer.amount);
            }
        }
        let slot_ms = self.settings.plane.slot_ms;
        for peer in self.peers.values_mut() {
            if peer.receiver.start_slot() {
                self.plane.set_present(peer.id, false);
            }
            if self.slots.is_multiple_of(REFRESH_SLOTS) {
                peer.sender.refresh();
            }
            peer.sender.start_slot(&self.objects, slot_ms, now);
        }
    }

    /// The next report to be sent.
    pub fn poll_transmission(&mut self) -> Option<Transmission> {
        self.transmissions.pop_front()
    }

    /// The objects, by name.
    pub fn objects(&self) -> impl Iterator<Item = ObjectStatus> {
        self.objects.ids.iter().filter_map(|(name, &id)| {
            let known = self.objects.find(id)?;
            let by_neighbour = |amount: &dyn Fn(NeighbourId) -> Amount| {
                let amounts = self.peers.iter().map(|(&number, peer)| (number, amount(peer.id)));
                amounts.filter(|(_, amount)| *amount > 0).collect()
            };
            Some(ObjectStatus {
                name: name.clone(),
                size_bytes: known.size_bytes,
                count: self.plane.count(id),
                score: self.plane.score(id),
                is_cached: self.plane.is_cached(id),
                is_source: known.is_source,
                sent: by_neighbour(&|neighbour| self.plane.sent(neighbour, id)),
                neighbour_counts: by_neighbour(&|neighbour| self.plane.reported(neighbour, id)),
            })
        })
    }

    /// The neighbours, by number.
    pub fn neighbours(&self) -> impl Iterator<Item = NeighbourStatus> {
        self.peers.iter().map(|(&neighbour, peer)| NeighbourStatus {
            neighbour,
            is_connected: peer.sender.is_connected(),
            is_reporting: peer.receiver.is_reporting(),
            unconfirmed: peer.sender.unconfirmed(),
        })
    }

    /// The virtual plane, for its counters.
    #[must_use]
    pub const fn plane(&self) -> &VirtualPlane {
        &self.plane
    }

    /// Sums since the start.
    #[must_use]
    pub const fn counters(&self) -> NodeCounters {
        self.counters
    }

    /// Duration of a slot, in milliseconds.
    #[must_use]
    pub const fn slot_ms(&self) -> u64 {
        self.settings.plane.slot_ms
    }

    /// Slots that have ended.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        self.slots
    }
}
