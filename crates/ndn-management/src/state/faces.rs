//! Faces as management knows them, and the `faces/*` commands.

use std::collections::{BTreeMap, BTreeSet};

use ndn_packet::{MAX_PACKET_SIZE, Name};

use super::action::{
    Action, CreatedFace, FaceCapabilities, FaceCreationError, FaceRecord, FaceSpecification, Ticket,
};
use super::pending::{Pending, Work};
use super::{Executing, Outcome};
use crate::dataset::{DatasetItem, FaceProperties, FaceQueryFilter, FaceStatus};
use crate::listing::Listing;
use crate::request::FaceOptions;
use crate::response::{ControlResponse, status};
use crate::types::{
    FACE_ID_CONTENT_STORE, FACE_ID_INTERNAL, FACE_ID_NULL, FACE_ID_RESERVED_MAX, LinkType, MTU_MIN,
    Persistency, Scope, face_flag,
};
use crate::{ControlParameters, ControlState, Now, Telemetry};

impl FaceRecord {
    /// One of the faces inside the forwarder, e.g. `internal://`, as NFD shows them.
    fn reserved(face_id: u64, uri: &str) -> Self {
        let is_internal = face_id == FACE_ID_INTERNAL;
        Self {
            properties: FaceProperties {
                face_id,
                remote_uri: uri.to_owned(),
                local_uri: uri.to_owned(),
                scope: Scope::Local,
                persistency: Persistency::Permanent,
                link_type: LinkType::PointToPoint,
                flags: if is_internal { face_flag::LOCAL_FIELDS } else { 0 },
            },
            base_congestion_marking_interval_ns: is_internal.then_some(100_000_000),
            default_congestion_threshold: is_internal.then_some(65_536),
            mtu: Some(MAX_PACKET_SIZE as u64),
            capabilities: FaceCapabilities::default(),
        }
    }

    const fn mtu_on_wire(&self) -> Option<u64> {
        match self.mtu {
            Some(mtu) if mtu < MAX_PACKET_SIZE as u64 => Some(mtu),
            Some(_) => Some(MAX_PACKET_SIZE as u64),
            None => None,
        }
    }

    /// The body of the response to `faces/update`.
    fn update_response(&self) -> ControlParameters {
        ControlParameters {
            face_id: Some(self.properties.face_id),
            face_persistency: Some(self.properties.persistency.number()),
            flags: Some(self.properties.flags),
            base_congestion_marking_interval_ns: self.base_congestion_marking_interval_ns,
            default_congestion_threshold: self.default_congestion_threshold,
            mtu: self.mtu_on_wire(),
            ..ControlParameters::default()
        }
    }

    /// The body of the response to `faces/create`.
    pub(super) fn create_response(&self) -> ControlParameters {
        ControlParameters {
            uri: Some(self.properties.remote_uri.clone()),
            local_uri: Some(self.properties.local_uri.clone()),
            ..self.update_response()
        }
    }

    pub(super) fn already_exists(&self) -> ControlResponse {
        ControlResponse::new(status::CONFLICT, "Face with remote URI already exists")
            .with_body(&self.create_response())
    }

    pub(super) fn status(&self, telemetry: &dyn Telemetry) -> FaceStatus {
        let activity = telemetry.face(self.properties.face_id);
        FaceStatus {
            properties: self.properties.clone(),
            expiration_period_ms: activity.expiration_period_ms,
            base_congestion_marking_interval_ns: self.base_congestion_marking_interval_ns,
            default_congestion_threshold: self.default_congestion_threshold,
            mtu: self.mtu_on_wire(),
            counters: activity.counters,
        }
    }

    /// What of a wanted change is not possible on this face: the body of the 409 response.
    fn conflicts(
        &self,
        persistency: Option<u64>,
        options: &FaceOptions,
    ) -> Option<ControlParameters> {
        let mut conflicts = ControlParameters::default();
        if options.local_fields == Some(true) && self.properties.scope != Scope::Local {
            conflicts.set_flag(face_flag::LOCAL_FIELDS, true);
        }
        conflicts.face_persistency = persistency.filter(|number| {
            let unchanged = *number == self.properties.persistency.number();
            let known = Persistency::from_number(*number).is_some();
            !(unchanged || known && self.capabilities.change_persistency)
        });
        conflicts.mtu = options.mtu.filter(|mtu| !self.capabilities.override_mtu || *mtu < MTU_MIN);
        (conflicts != ControlParameters::default()).then_some(conflicts)
    }

    fn apply(&mut self, persistency: Option<Persistency>, options: &FaceOptions) {
        let properties = &mut self.properties;
        properties.persistency = persistency.unwrap_or(properties.persistency);
        for (bit, wanted) in [
            (face_flag::LOCAL_FIELDS, options.local_fields),
            (face_flag::LP_RELIABILITY, options.lp_reliability),
            (face_flag::CONGESTION_MARKING, options.congestion_marking),
        ] {
            match wanted {
                Some(true) => properties.flags |= bit,
                Some(false) => properties.flags &= !bit,
                None => {}
            }
        }
        if options.base_congestion_marking_interval_ns.is_some() {
            self.base_congestion_marking_interval_ns = options.base_congestion_marking_interval_ns;
        }
        if options.default_congestion_threshold.is_some() {
            self.default_congestion_threshold = options.default_congestion_threshold;
        }
        self.mtu = options.mtu.or(self.mtu);
    }
}

/// Faces that a query names, and that are looked at in one go.
const NAMED_FACES_MAX: usize = 64;

/// Every face, by number and by remote URI.
#[derive(Debug)]
pub(super) struct FaceTable {
    faces: BTreeMap<u64, FaceRecord>,
    /// Several faces may have the same.
    by_remote_uri: BTreeSet<(String, u64)>,
    /// By FaceId, as eight bytes that sort like the number.
    pub(super) listing: Listing,
    /// Answers to queries in the making.
    pub(super) queries: Vec<FaceQuery>,
}

/// Some of the faces, as they are asked for.
#[derive(Debug)]
pub(super) struct FaceQuery {
    /// What it was asked for as.
    pub(super) prefix: Name,
    filter: FaceQueryFilter,
    pub(super) listing: Listing,
    /// Slices until it is ended in one go.
    pub(super) slices_left: usize,
}

impl FaceQuery {
    /// Nothing of it is made yet.
    pub(super) fn new(prefix: Name, filter: FaceQueryFilter, slices_left: usize) -> Self {
        let mut listing = Listing::default();
        listing.begin();
        Self { prefix, filter, listing, slices_left }
    }
}

impl FaceTable {
    /// Only the faces inside the forwarder.
    pub(super) fn new() -> Self {
        let faces = [
            (FACE_ID_INTERNAL, "internal://"),
            (FACE_ID_CONTENT_STORE, "contentstore://"),
            (FACE_ID_NULL, "null://"),
        ]
        .map(|(face_id, uri)| (face_id, FaceRecord::reserved(face_id, uri)));
        let uris =
            faces.iter().map(|(face_id, face)| (face.properties.remote_uri.clone(), *face_id));
        let by_remote_uri = uris.collect();
        let (listing, queries) = Default::default();
        Self { faces: BTreeMap::from(faces), by_remote_uri, listing, queries }
    }

    pub(super) fn get(&self, face_id: u64) -> Option<&FaceRecord> {
        self.faces.get(&face_id)
    }

    /// A face that is about to be changed.
    fn change(&mut self, face_id: u64) -> Option<&mut FaceRecord> {
        self.changed(face_id);
        self.faces.get_mut(&face_id)
    }

    fn changed(&mut self, face_id: u64) {
        let queries = self.queries.iter_mut().map(|query| &mut query.listing);
        for listing in queries.chain([&mut self.listing]) {
            listing.changed(&face_id.to_be_bytes());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.faces.len()
    }

    /// Goes on with the listing, about `work` bytes; true if it is what the table is.
    pub(super) fn go_on_listing(&mut self, work: usize, telemetry: &dyn Telemetry) -> bool {
        let Self { faces, listing, .. } = self;
        go_on_listing(faces, listing, work, telemetry, |_| true)
    }

    /// Goes on with an answer to a query; true if it is what the table is.
    pub(super) fn go_on_query(
        &mut self,
        number: usize,
        work: usize,
        telemetry: &dyn Telemetry,
    ) -> bool {
        let Self { faces, queries, .. } = self;
        let FaceQuery { filter, listing, .. } = &mut queries[number];
        go_on_listing(faces, listing, work, telemetry, |face| filter.matches(&face.properties))
    }

    /// The answer to a query that has a FaceId, or a remote URI that few faces have.
    pub(super) fn answer_at_once(
        &self,
        filter: &FaceQueryFilter,
        telemetry: &dyn Telemetry,
    ) -> Option<Vec<u8>> {
        let named: Vec<&FaceRecord> = if let Some(face_id) = filter.face_id {
            self.get(face_id).into_iter().collect()
        } else {
            let remote_uri = filter.remote_uri.as_deref()?;
            self.with_remote_uri(remote_uri).take(NAMED_FACES_MAX + 1).collect()
        };
        if named.len() > NAMED_FACES_MAX {
            return None;
        }
        let mut content = Vec::new();
        for face in named.into_iter().filter(|face| filter.matches(&face.properties)) {
            face.status(telemetry).encode(&mut content);
        }
        Some(content)
    }

    /// In ascending order of their FaceIds.
    fn with_remote_uri(&self, remote_uri: &str) -> impl DoubleEndedIterator<Item = &FaceRecord> {
        let range = (remote_uri.to_owned(), 0)..=(remote_uri.to_owned(), u64::MAX);
        self.by_remote_uri.range(range).filter_map(|(_, face_id)| self.faces.get(face_id))
    }

    /// The face between two ends, the near one of which may be any: the last one then.
    fn find(&self, remote_uri: &str, local_uri: Option<&str>) -> Option<&FaceRecord> {
        let mut faces = self.with_remote_uri(remote_uri);
        let Some(local_uri) = local_uri else { return faces.next_back() };
        faces.find(|face| face.properties.local_uri == local_uri)
    }

    pub(super) fn insert(&mut self, record: FaceRecord) {
        self.changed(record.properties.face_id);
        let properties = &record.properties;
        self.by_remote_uri.insert((properties.remote_uri.clone(), properties.face_id));
        self.faces.insert(properties.face_id, record);
    }

    pub(super) fn resize(&mut self, face_id: u64, mtu: u64) {
        if let Some(record) = self.change(face_id) {
            record.mtu = Some(mtu);
        }
    }

    pub(super) fn remove(&mut self, face_id: u64) -> Option<FaceRecord> {
        let record = self.faces.remove(&face_id)?;
        self.changed(face_id);
        self.by_remote_uri.remove(&(record.properties.remote_uri.clone(), face_id));
        Some(record)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &FaceRecord> {
        self.faces.values()
    }
}

/// Encodes faces that are wanted, about `work` bytes of them.
fn go_on_listing(
    faces: &BTreeMap<u64, FaceRecord>,
    listing: &mut Listing,
    work: usize,
    telemetry: &dyn Telemetry,
    is_wanted: impl Fn(&FaceRecord) -> bool,
) -> bool {
    let from = |start: &[u8]| {
        let start = start.try_into().map_or(0, u64::from_be_bytes);
        faces.range(start..).map(|(face_id, face)| (face_id.to_be_bytes(), face))
    };
    listing.go_on(work, from, |out, _, face| {
        if !is_wanted(face) {
            return false;
        }
        face.status(telemetry).encode(out);
        // Its counters are different the next time.
        true
    })
}

impl ControlState {
    pub(super) fn create_face(
        &mut self,
        executing: Executing<'_>,
        specification: FaceSpecification,
    ) -> Outcome {
        if let Err(reason) = check_protocol(&specification, &self.config.face_schemes) {
            return Outcome::reply(status::NOT_ACCEPTABLE, reason);
        }
        let remote_uri = specification.remote.to_string();
        let local_uri = specification.local.as_ref().map(ToString::to_string);
        if let Some(existing) = self.faces.find(&remote_uri, local_uri.as_deref()) {
            return Outcome::Reply(existing.already_exists());
        }
        // The same station may be behind several interfaces.
        let remote_uri = local_uri.map_or(remote_uri.clone(), |local| remote_uri + " " + &local);
        match self.pending.join_face(&remote_uri, executing.name) {
            Some(true) => return Outcome::Deferred,
            Some(false) => return Outcome::busy(),
            None => {}
        }
        let work = Work::CreateFace { remote_uri };
        let Some(ticket) = self.pending.add(Pending::new(executing, work)) else {
            return Outcome::busy();
        };
        let specification = Box::new(specification);
        self.actions.push_back(Action::CreateFace { ticket, specification });
        Outcome::Deferred
    }

    /// Tells how [`Action::CreateFace`] ended. [`ControlState::face_created`] may have been called
    /// for the face before, and need not be.
    pub fn face_creation_done(
        &mut self,
        now: Now,
        ticket: Ticket,
        result: Result<CreatedFace, FaceCreationError>,
    ) {
        let requesters =
            self.pending.take(ticket).map(|pending| pending.requesters).unwrap_or_default();
        let (record, mut is_new) = match result {
            Ok(CreatedFace::New(record)) => (record, true),
            Ok(CreatedFace::Existing(record)) => (record, false),
            Err(error) => {
                let response = ControlResponse::new(error.code, error.reason);
                requesters.iter().for_each(|name| self.respond(name.as_ref(), &response));
                return;
            }
        };
        let created = ControlResponse::new(status::OK, "OK").with_body(&record.create_response());
        let exists = record.already_exists();
        self.face_created(now, record);
        for name in &requesters {
            self.respond(name.as_ref(), if is_new { &created } else { &exists });
            is_new = false;
        }
    }

    pub(super) fn update_face(
        &mut self,
        face_id: u64,
        persistency: Option<u64>,
        options: FaceOptions,
    ) -> Outcome {
        let Some(face) = self.faces.change(face_id) else {
            return Outcome::reply(status::NOT_FOUND, "Specified face does not exist");
        };
        if let Some(conflicts) = face.conflicts(persistency, &options) {
            let response = ControlResponse::new(status::CONFLICT, "Invalid properties specified");
            return Outcome::Reply(response.with_body(&conflicts));
        }
        let persistency = persistency.and_then(Persistency::from_number);
        face.apply(persistency, &options);
        let response = ControlResponse::new(status::OK, "OK").with_body(&face.update_response());
        // That of management is told of as it is wanted, and stays as it has to be: without the incoming face
        // of each Interest nobody could be answered, and nobody acknowledges behind it.
        if face_id > FACE_ID_RESERVED_MAX {
            self.actions.push_back(Action::UpdateFace { face_id, persistency, options });
        }
        Outcome::Reply(response)
    }

    /// Keeps a face that a peer brought about as if it had been made on purpose: from now on it has
    /// `persistency`. A face that is not on demand stays as it is.
    pub fn adopt_face(&mut self, face_id: u64, persistency: Persistency) {
        let Some(face) = self.faces.change(face_id) else { return };
        if face.properties.persistency == Persistency::OnDemand {
            face.properties.persistency = persistency;
            let (persistency, options) = (Some(persistency), FaceOptions::default());
            self.actions.push_back(Action::UpdateFace { face_id, persistency, options });
        }
    }

    pub(super) fn destroy_face(&mut self, face_id: u64, success: ControlResponse) -> Outcome {
        if face_id <= FACE_ID_RESERVED_MAX {
            // NFD would close its own internal face here and be deaf from then on.
            return Outcome::reply(status::CONFLICT, "Reserved faces cannot be destroyed");
        }
        // One that is gone may be on its way back.
        self.actions.push_back(Action::DestroyFace { face_id });
        Outcome::Reply(success)
    }
}

/// The same for faces of stations on a network interface.
fn check_ethernet(wanted: &FaceSpecification) -> Result<(), String> {
    let is_device = wanted.local.as_ref().is_some_and(|local| local.scheme() == "dev");
    let is_group = wanted.remote.ethernet_address().is_none_or(|mac| mac[0] & 1 != 0);
    if !is_device {
        Err("Creation of unicast Ethernet faces requires a LocalUri with dev:// scheme".to_owned())
    } else if wanted.persistency == Persistency::OnDemand {
        Err("Outgoing Ethernet faces do not support on-demand persistency".to_owned())
    } else if is_group {
        Err("Cannot create multicast Ethernet faces".to_owned())
    } else if wanted.options.local_fields == Some(true) {
        Err("Local fields can only be enabled on faces with local scope".to_owned())
    } else if wanted.options.mtu.is_some_and(|mtu| mtu < MTU_MIN) {
        Err(format!("Override MTU cannot be less than {MTU_MIN}"))
    } else {
        Ok(())
    }
}

/// What every kind of face refuses, in NFD's order and words.
fn check_protocol(wanted: &FaceSpecification, schemes: &[String]) -> Result<(), String> {
    let scheme = wanted.remote.scheme();
    if !schemes.iter().any(|known| known == scheme) {
        return Err("Unsupported protocol".to_owned());
    }
    if scheme == "ether" {
        return check_ethernet(wanted);
    }
    let address = wanted.remote.socket_address().map(|address| address.ip());
    let is_udp = matches!(scheme, "udp4" | "udp6");
    let is_tcp = matches!(scheme, "tcp4" | "tcp6");
    if !is_udp && !is_tcp {
        return Ok(());
    }
    let kind = if is_udp { "UDP" } else { "TCP" };
    let local_fields = wanted.options.local_fields == Some(true);
    let is_local = is_tcp && address.is_some_and(|address| address.is_loopback());
    if wanted.local.is_some() {
        Err(format!("Unicast {kind} faces cannot be created with a LocalUri"))
    } else if wanted.persistency == Persistency::OnDemand {
        Err(format!("Outgoing {kind} faces do not support on-demand persistency"))
    } else if address.is_some_and(|address| address.is_multicast()) {
        Err(format!("Cannot create multicast {kind} faces"))
    } else if let Some(why) = wanted.remote.unreachable_reason() {
        Err(format!("Cannot create {kind} faces to {}: {why}", wanted.remote))
    } else if local_fields && !is_local {
        Err("Local fields can only be enabled on faces with local scope".to_owned())
    } else if is_tcp && wanted.options.mtu.is_some() {
        Err("TCP faces do not support MTU overrides".to_owned())
    } else if wanted.options.mtu.is_some_and(|mtu| mtu < MTU_MIN) {
        Err(format!("Override MTU cannot be less than {MTU_MIN}"))
    } else {
        Ok(())
    }
}
