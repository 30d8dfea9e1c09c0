//! VIP: the exchange of counts with neighbours over a face of its own, and its results for the workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use namewire_control::{VipNeighbour, VipObject, VipStatus};
use ndn_caching::{ObjectScores, Penalties, Worth};
use ndn_dataplane::Dataplane;
use ndn_face::InternalEnd;
use ndn_forwarding::{VipDecisions, VipRequests};
use ndn_management::{FaceRecord, Route, route_flag, route_origin};
use ndn_packet::{
    Data, DataBuilder, Interest, InterestBuilder, LpPacket, Name, NameRef, SignatureInfo,
};
use ndn_security::{sha256, sign_data};
use ndn_sys::poll::Waker;
use ndn_table::{FibSnapshot, NameHasher, ObjectRules, PREFIX_HASHES_MAX};
use ndn_types::random::Random;
use ndn_types::{FaceUri, LinkType, Now, Persistency, Scope, Timestamp};
use ndn_vip::{Accuracy, Node, ObjectRoutes, Transmission, prefix};
use tracing::{debug, warn};

use super::commands::VipCommands;
use super::face_table::FaceTable;
use super::management::{interest_frame, reply_frame};
use super::service::{Deadline, Event, Reason, Service, ServiceName};
use super::setup::own_face;
use super::tokens::TOKEN_VIP;
use crate::config::{Config, VipLink};
use crate::vip::{Keys, node_settings, object_rules, penalties};

/// Capacity of the face, in frames per direction.
const QUEUE: usize = 1024;
/// Maximum number of packets handled per round.
const PACKETS_PER_ROUND: usize = 64;
/// Maximum number of neighbours with on-demand faces.
const ON_DEMAND_MAX: usize = 32;
/// Reports in a slot whose signatures are verified although their senders are no neighbours.
const JOINS_PER_SLOT_MAX: usize = 64;
/// Maximum number of objects in a status.
const OBJECTS_REPORTED_MAX: usize = 1000;
/// Lifetime of the Interests that carry reports, in milliseconds.
const LIFETIME_MS: u64 = 2000;
/// TLV-TYPE of Interest (first byte).
const INTEREST_TYPE: u8 = 5;

/// The view of this service.
type Cx<'a> = super::service::Cx<'a, dyn VipCommands>;

/// The service; without a participant, VIP is not enabled.
#[derive(Debug)]
pub(super) struct Vip(Option<Box<Participant>>);

/// The participant in the exchange.
#[derive(Debug)]
struct Participant {
    node: Node,
    keys: Keys,
    end: InternalEnd,
    face_id: u64,
    prefix: Name,
    hasher: NameHasher,
    rules: Arc<ObjectRules>,
    /// Scores that cached objects cost.
    penalties: Penalties,
    fib: Option<Arc<FibSnapshot>>,
    /// Rate of links in bytes per second, and of those that have one of their own.
    link_bytes_per_s: u64,
    links: Vec<VipLink>,
    /// Neighbours with on-demand faces.
    on_demand: Vec<u64>,
    /// Reports of others whose signatures are still verified in this slot.
    joins_left: usize,
    objects_max: usize,
    /// The last SignatureTime; each report has a later one.
    time_ms: u64,
    /// Nonces: forwarders that start at one time have different ones.
    nonces: Random,
    /// Packets are left in the face.
    is_behind: bool,
}

impl Service for Vip {
    type Dataplane = dyn VipCommands;
    const NAME: ServiceName = ServiceName::Vip;

    #[expect(clippy::wildcard_enum_match_arm, reason = "`Event::receivers` is exhaustive")]
    fn handle_event(&mut self, cx: &mut Cx<'_>, event: Event) -> Option<Event> {
        let Some(participant) = &mut self.0 else { return Some(event) };
        match event {
            Event::Ready(TOKEN_VIP) => {
                participant.end.reset();
                participant.is_behind = true;
                return None;
            }
            Event::VipRequests(requests) => {
                participant.count(cx, &requests);
                return None;
            }
            Event::TablesPublished(fib) => {
                participant.fib = Some(fib);
                return None;
            }
            Event::Reloaded => {
                if let Err(error) = participant.keys.reload(cx.config()) {
                    warn!("the signers stay as they were: {error:#}");
                }
            }
            Event::FaceAdded { ref record, .. } => participant.face_added(cx, record),
            Event::FaceClosed { face_id, .. } => {
                participant.node.remove_neighbour(face_id);
                participant.on_demand.retain(|other| *other != face_id);
            }
            other => return other.unhandled(),
        }
        participant.send_reports(cx);
        Some(event)
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let participant = self.0.as_ref()?;
        let at =
            if participant.is_behind { Timestamp::ZERO } else { participant.node.next_deadline() };
        Some((at, Reason::Vip))
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>, _: Reason) {
        let Some(participant) = &mut self.0 else { return };
        participant.receive(cx);
        let routes = Routes::new(cx.faces(), participant.fib.as_deref(), participant.hasher);
        if participant.node.handle_timeout(cx.now(), |name| routes.find(name)) {
            participant.publish(cx);
        }
        participant.send_reports(cx);
    }
}

impl Vip {
    /// The service, and its face, if VIP is enabled.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub(super) fn new(
        config: &Config,
        keys: Option<Keys>,
        dataplane: &mut Dataplane,
        now: Now,
    ) -> std::io::Result<Self> {
        let Some(keys) = keys else { return Ok(Self(None)) };
        let (end, far) = InternalEnd::pair(QUEUE)?;
        let face_id = dataplane.allocate_face_id();
        VipCommands::add_vip_face(dataplane, own_face(face_id, FaceUri::memory(face_id), far));
        let settings = node_settings(config);
        let objects_max = settings.objects_max;
        let (prefix, hasher) = (prefix(), dataplane.hasher());
        let rules = Arc::new(object_rules(config, hasher));
        let decisions = VipDecisions::new(Arc::clone(&rules), ObjectScores::new());
        let requests = Box::new(VipRequests::with_capacity(objects_max));
        dataplane.exchange_vip(Arc::new(decisions), requests);
        let nonces = Random::new(hasher.hash_value(prefix.value()), 0);
        Ok(Self(Some(Box::new(Participant {
            node: Node::new(settings, now.monotonic),
            keys,
            end,
            face_id,
            prefix,
            hasher,
            rules,
            penalties: penalties(config),
            fib: None,
            link_bytes_per_s: config.caching.vip.link_rate.0,
            links: config.caching.vip.links.clone(),
            on_demand: Vec::new(),
            joins_left: JOINS_PER_SLOT_MAX,
            objects_max,
            time_ms: 0,
            nonces,
            is_behind: false,
        }))))
    }

    /// Readable when packets have arrived.
    pub(super) fn waker(&self) -> Option<&Waker> {
        self.0.as_ref().map(|participant| participant.end.waker())
    }

    /// Counts and scores for operators, if VIP is enabled.
    pub(super) fn status(&self) -> Option<VipStatus> {
        self.0.as_ref().map(|participant| status(&participant.node))
    }
}

impl Participant {
    fn face_added(&mut self, cx: &mut Cx<'_>, record: &FaceRecord) {
        let face_id = record.properties.face_id;
        if face_id == self.face_id {
            let route = Route {
                face_id,
                origin: route_origin::APP,
                cost: 0,
                flags: route_flag::CHILD_INHERIT,
                expires_at: None,
            };
            cx.post(Event::AddRoute { prefix: self.prefix.clone(), route });
        }
        let options = cx.faces().get(face_id).map(|face| face.options);
        let is_neighbour = options.is_some_and(|options| {
            is_link(cx.faces(), face_id) && options.persistency != Persistency::OnDemand
        });
        if is_neighbour {
            self.add_neighbour(cx, face_id);
        }
    }

    fn add_neighbour(&mut self, cx: &Cx<'_>, face_id: u64) {
        let remote = cx.faces().get(face_id).map(|face| &face.remote);
        let own = self.links.iter().find(|link| Some(&link.uri) == remote);
        let rate = own.map_or(self.link_bytes_per_s, |link| link.rate.0);
        self.node.add_neighbour(face_id, rate, cx.now());
    }

    /// Whether the signature of a report from the peer of an on-demand face, which is no neighbour yet, is verified: a
    /// valid one makes it a neighbour.
    fn admits_on_demand(&mut self, cx: &Cx<'_>, face_id: u64) -> bool {
        if self.joins_left == 0
            || self.on_demand.len() >= ON_DEMAND_MAX
            || !is_link(cx.faces(), face_id)
        {
            return false;
        }
        self.joins_left -= 1;
        true
    }

    fn count(&mut self, cx: &Cx<'_>, requests: &VipRequests) {
        let routes = Routes::new(cx.faces(), self.fib.as_deref(), self.hasher);
        for (object, count) in requests.iter() {
            self.node.request(object, count, |name| routes.find(name));
        }
        for size in requests.sizes() {
            let accuracy = if size.is_exact { Accuracy::Exact } else { Accuracy::Estimate };
            self.node.learn_size(size.object, size.size_bytes, accuracy);
        }
        self.node.note_uncounted(requests.uncounted());
    }

    /// Handles packets of the face.
    fn receive(&mut self, cx: &mut Cx<'_>) {
        for _ in 0..PACKETS_PER_ROUND {
            let Some(frame) = self.end.receive() else {
                self.is_behind = false;
                return;
            };
            let Ok(packet) = LpPacket::parse(&frame) else { continue };
            let (Some(wire), Some(face_id), None) =
                (packet.fragment(), packet.incoming_face_id(), packet.nack())
            else {
                continue;
            };
            let result = if wire.first() == Some(&INTEREST_TYPE) {
                self.handle_interest(cx, face_id, wire)
            } else {
                self.handle_data(cx, face_id, wire)
            };
            if let Err(reason) = result {
                debug!(face_id, %reason, "message of VIP rejected");
            }
        }
    }

    fn handle_interest(&mut self, cx: &Cx<'_>, face_id: u64, wire: &[u8]) -> Result<(), String> {
        let interest = Interest::parse(wire).map_err(|error| error.to_string())?;
        let report = interest.parameters().ok_or("the Interest has no parameters")?;
        if interest.name().parent() != self.prefix.as_ref() {
            return Err("the Interest has another name".to_owned());
        }
        let is_neighbour = self.node.has_neighbour(face_id);
        // Before the signature, whose verification takes time.
        let is_admitted = if is_neighbour {
            self.node.admits_report(face_id)
        } else {
            self.admits_on_demand(cx, face_id)
        };
        if !is_admitted {
            return Err("the sender is no neighbour, or sends too many reports".to_owned());
        }
        self.keys.accepted.accept(cx.now(), &interest)?;
        if !is_neighbour {
            self.on_demand.push(face_id);
            self.add_neighbour(cx, face_id);
        }
        let routes = Routes::new(cx.faces(), self.fib.as_deref(), self.hasher);
        let answer =
            self.node.handle_report(face_id, report, cx.now().monotonic, |name| routes.find(name));
        let content = answer.map_err(|refusal| refusal.to_string())?.to_vec();
        let data = DataBuilder::new(interest.name()).content(&content);
        let data = sign_data(&data, &*self.keys.own).map_err(|error| error.to_string())?;
        // Without room, the neighbour sends its report again.
        drop(self.end.send(reply_frame(&data, false)));
        Ok(())
    }

    fn handle_data(&mut self, cx: &Cx<'_>, face_id: u64, wire: &[u8]) -> Result<(), String> {
        let data = Data::parse(wire).map_err(|error| error.to_string())?;
        let content = data.content().ok_or("the Data has no Content")?;
        // Before the signature, whose verification takes time.
        if !self.node.admits_acknowledgement(face_id, content) {
            return Err("the acknowledgement is not awaited, or there are too many".to_owned());
        }
        self.keys.accepted.accept_answer(cx.now(), &data)?;
        let result = self.node.handle_acknowledgement(face_id, content, cx.now());
        result.map_err(|refusal| refusal.to_string())
    }

    /// Sends the reports that are due.
    fn send_reports(&mut self, cx: &Cx<'_>) {
        while let Some(Transmission { neighbour, report }) = self.node.poll_transmission() {
            match self.sign(cx, &report) {
                // Without room, it is sent again.
                Some(wire) => drop(self.end.send(interest_frame(&wire, Some(neighbour)))),
                None => debug!(face_id = neighbour, "a report could not be signed"),
            }
        }
    }

    fn sign(&mut self, cx: &Cx<'_>, report: &[u8]) -> Option<Vec<u8>> {
        self.time_ms = cx.now().unix_ms().max(self.time_ms + 1);
        let signer = &*self.keys.own;
        let nonce = self.nonces.bits().to_be_bytes();
        let info = SignatureInfo {
            nonce: Some(&nonce),
            time_ms: Some(self.time_ms),
            ..signer.signature_info()
        };
        let [.., a, b, c, d] = nonce;
        let sign = |parts: &[&[u8]], out: &mut [u8]| signer.sign(parts, out).ok();
        InterestBuilder::new(&self.prefix)
            .must_be_fresh(true)
            .nonce(u32::from_be_bytes([a, b, c, d]))
            .lifetime_ms(LIFETIME_MS)
            .parameters(report)
            .to_vec_signed(&info, signer.signature_len_max(), sign, sha256)
            .ok()
    }

    /// Gives the workers the next hops and scores of the slot, and takes their counts.
    fn publish(&mut self, cx: &mut Cx<'_>) {
        self.joins_left = JOINS_PER_SLOT_MAX;
        let mut scores = ObjectScores::new();
        let mut sent_by_object = Vec::new();
        for object in self.node.objects() {
            let key = self.rules.object_key(object.name.as_ref(), self.hasher);
            let Some(key) = key else { continue };
            // The Data of a source is at hand without a cache.
            let worth = Worth::new(object.score, object.size_bytes, self.penalties);
            if worth.kept > 0 && !object.is_source {
                scores.insert(key, worth);
            }
            let sent = object
                .sent
                .iter()
                .filter_map(|&(face_id, amount)| Some((cx.faces().get(face_id)?.index, amount)));
            let sent: Vec<_> = sent.collect();
            sent_by_object.extend((!sent.is_empty()).then_some((key, sent)));
        }
        let mut decisions = VipDecisions::new(Arc::clone(&self.rules), scores);
        sent_by_object.into_iter().for_each(|(key, sent)| decisions.insert(key, sent));
        let requests = Box::new(VipRequests::with_capacity(self.objects_max));
        cx.dataplane().exchange_vip(Arc::new(decisions), requests);
    }
}

fn status(node: &Node) -> VipStatus {
    let (sums, own) = (node.plane().counters(), node.counters());
    let counters = [
        ("requested", sums.requested),
        ("received", sums.received),
        ("sent", sums.sent),
        ("drained", sums.drained),
        ("absorbed", sums.absorbed),
        ("lost", sums.lost),
        ("unconfirmed", own.unconfirmed),
        ("reports_sent", own.reports_sent),
        ("reports_received", own.reports_received),
        ("reports_repeated", own.reports_repeated),
        ("reports_refused", own.reports_refused),
        ("entries_refused", own.entries_refused),
        ("objects_evicted", own.objects_evicted),
        ("requests_refused", own.requests_refused),
    ];
    let mut objects: Vec<VipObject> = node
        .objects()
        .map(|object| VipObject {
            name: object.name.to_uri(),
            size_bytes: object.size_bytes,
            count: object.count,
            score: object.score,
            is_cached: object.is_cached,
            is_source: object.is_source,
            sent: object.sent.into_iter().collect(),
            neighbour_counts: object.neighbour_counts.into_iter().collect(),
        })
        .collect();
    let objects_count = objects.len() as u64;
    objects.sort_by(|a, b| b.score.cmp(&a.score).then_with(|| a.name.cmp(&b.name)));
    objects.truncate(OBJECTS_REPORTED_MAX);
    let neighbours = node.neighbours().map(|one| VipNeighbour {
        face_id: one.neighbour,
        is_connected: one.is_connected,
        is_reporting: one.is_reporting,
        unconfirmed: one.unconfirmed,
    });
    VipStatus {
        slot_ms: node.slot_ms(),
        slots: node.slots(),
        counters: counters.map(|(name, value)| (name.to_owned(), value)).into(),
        neighbours: neighbours.collect(),
        objects,
        objects_count,
    }
}

/// Whether a face leads to a single other forwarder.
fn is_link(faces: &FaceTable, face_id: u64) -> bool {
    faces.get(face_id).is_some_and(|face| {
        let properties = face.options.properties;
        properties.scope == Scope::NonLocal && properties.link_type == LinkType::PointToPoint
    })
}

/// The next hops of objects in the FIB.
struct Routes<'a> {
    fib: Option<&'a FibSnapshot>,
    hasher: NameHasher,
    /// FaceId and scope, by index.
    faces: BTreeMap<u32, (u64, Scope)>,
}

impl<'a> Routes<'a> {
    fn new(faces: &FaceTable, fib: Option<&'a FibSnapshot>, hasher: NameHasher) -> Self {
        let faces = faces.all().iter().map(|(&face_id, face)| {
            (face.index.to_bits(), (face_id, face.options.properties.scope))
        });
        Self { fib, hasher, faces: faces.collect() }
    }

    fn find(&self, object: NameRef<'_>) -> ObjectRoutes {
        let mut routes = ObjectRoutes::default();
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let (Some(fib), Some(count)) = (self.fib, self.hasher.hash_prefixes(object, &mut hashes))
        else {
            return routes;
        };
        let entry = fib.entry(fib.find_longest_prefix(object, &hashes[..count]));
        for hop in entry.next_hops() {
            match self.faces.get(&hop.face.to_bits()) {
                Some((face_id, Scope::NonLocal)) => routes.neighbours.push(*face_id),
                Some((_, Scope::Local)) => routes.is_source = true,
                None => {}
            }
        }
        routes
    }
}
