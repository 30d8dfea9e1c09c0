//! The records of faces.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use ndn_types::Persistency;

use super::action::{FaceRecord, FaceSpecification, Telemetry};
use super::dataset_requests::DatasetRequest;
use crate::dataset::{DatasetItem, FaceQueryFilter};
use crate::listing::Listing;
use crate::types::{FACE_ID_CONTENT_STORE, FACE_ID_INTERNAL, FACE_ID_NULL, MTU_MIN};

/// Maximum number of faces of one remote URI that a query is answered for in one step.
const NAMED_FACES_MAX: usize = 64;

/// The records of all faces, by FaceId and by remote URI, and how far lists of them are encoded.
#[derive(Debug)]
pub(super) struct FaceRecords {
    faces: BTreeMap<u64, FaceRecord>,
    /// Several faces may have the same remote URI.
    by_remote_uri: BTreeSet<(String, u64)>,
    /// Keys are FaceIds as eight bytes, big-endian.
    pub(super) listing: Listing,
    /// Queries that are being answered.
    pub(super) queries: Vec<FaceQuery>,
}

/// A query that is being answered in slices.
#[derive(Debug)]
pub(super) struct FaceQuery {
    /// The request.
    pub(super) request: DatasetRequest,
    filter: FaceQueryFilter,
    pub(super) listing: Listing,
    /// Slices until it is completed in one step.
    pub(super) slices_left: usize,
    /// The number of the slice, of all queries, that its principal got last.
    pub(super) served: u64,
}

impl FaceQuery {
    /// A query of which nothing is encoded.
    pub(super) fn new(
        request: DatasetRequest,
        filter: FaceQueryFilter,
        slices_left: usize,
    ) -> Self {
        let mut listing = Listing::default();
        listing.begin();
        Self { request, filter, listing, slices_left, served: 0 }
    }
}

impl FaceRecords {
    /// The faces inside the forwarder.
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

    /// Those with higher FaceIds, in their order.
    pub(super) fn after(&self, after: Option<u64>) -> impl Iterator<Item = &FaceRecord> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.faces.range((start, Bound::Unbounded)).map(|(_, face)| face)
    }

    /// A face to be changed.
    pub(super) fn change(&mut self, face_id: u64) -> Option<&mut FaceRecord> {
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

    /// Encodes about `work` bytes of the listing; true if it is complete.
    pub(super) fn continue_listing(&mut self, work: usize, telemetry: &dyn Telemetry) -> bool {
        let Self { faces, listing, .. } = self;
        continue_listing(faces, listing, work, telemetry, |_| true)
    }

    /// Encodes about `work` bytes of the answer to a query; true if it is complete.
    pub(super) fn continue_query(
        &mut self,
        number: usize,
        work: usize,
        telemetry: &dyn Telemetry,
    ) -> bool {
        let Self { faces, queries, .. } = self;
        let FaceQuery { filter, listing, .. } = &mut queries[number];
        continue_listing(faces, listing, work, telemetry, |face| filter.matches(&face.properties))
    }

    /// The answer to a query that has a FaceId, or the remote URI of few faces.
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

    /// The face with these URIs; without a local URI, the newest face with this remote URI.
    pub(super) fn find(&self, remote_uri: &str, local_uri: Option<&str>) -> Option<&FaceRecord> {
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

/// Encodes about `work` bytes of the faces that are wanted.
fn continue_listing(
    faces: &BTreeMap<u64, FaceRecord>,
    listing: &mut Listing,
    work: usize,
    telemetry: &dyn Telemetry,
    is_advertised: impl Fn(&FaceRecord) -> bool,
) -> bool {
    let from = |start: &[u8]| {
        let start = start.try_into().map_or(0, u64::from_be_bytes);
        faces.range(start..).map(|(face_id, face)| (face_id.to_be_bytes(), face))
    };
    listing.continue_encoding(work, from, |out, _, face| {
        if !is_advertised(face) {
            return false;
        }
        face.status(telemetry).encode(out);
        // Its counters change with time.
        true
    })
}

/// The reason why an Ethernet face of this specification is refused.
fn check_ethernet(requested: &FaceSpecification) -> Result<(), String> {
    let is_device = requested.local.as_ref().is_some_and(|local| local.scheme() == "dev");
    let is_group = requested.remote.ethernet_address().is_none_or(|mac| mac[0] & 1 != 0);
    if !is_device {
        Err("Creation of unicast Ethernet faces requires a LocalUri with dev:// scheme".to_owned())
    } else if requested.persistency == Persistency::OnDemand {
        Err("Outgoing Ethernet faces do not support on-demand persistency".to_owned())
    } else if is_group {
        Err("Cannot create multicast Ethernet faces".to_owned())
    } else if requested.options.local_fields == Some(true) {
        Err("Local fields can only be enabled on faces with local scope".to_owned())
    } else if requested.options.mtu.is_some_and(|mtu| mtu < MTU_MIN) {
        Err(format!("Override MTU cannot be less than {MTU_MIN}"))
    } else {
        Ok(())
    }
}

/// The reason why a face of this specification is refused, in NFD's order and words.
pub(super) fn check_protocol(
    requested: &FaceSpecification,
    schemes: &[String],
) -> Result<(), String> {
    let scheme = requested.remote.scheme();
    if !schemes.iter().any(|known| known == scheme) {
        return Err("Unsupported protocol".to_owned());
    }
    if scheme == "ether" {
        return check_ethernet(requested);
    }
    let address = requested.remote.socket_address().map(|address| address.ip());
    let is_udp = matches!(scheme, "udp4" | "udp6");
    let is_tcp = matches!(scheme, "tcp4" | "tcp6");
    if !is_udp && !is_tcp {
        return Ok(());
    }
    let kind = if is_udp { "UDP" } else { "TCP" };
    let local_fields = requested.options.local_fields == Some(true);
    let is_local = is_tcp && address.is_some_and(|address| address.is_loopback());
    if requested.local.is_some() {
        Err(format!("Unicast {kind} faces cannot be created with a LocalUri"))
    } else if requested.persistency == Persistency::OnDemand {
        Err(format!("Outgoing {kind} faces do not support on-demand persistency"))
    } else if address.is_some_and(|address| address.is_multicast()) {
        Err(format!("Cannot create multicast {kind} faces"))
    } else if let Some(why) = requested.remote.unreachable_reason() {
        Err(format!("Cannot create {kind} faces to {}: {why}", requested.remote))
    } else if local_fields && !is_local {
        Err("Local fields can only be enabled on faces with local scope".to_owned())
    } else if is_tcp && requested.options.mtu.is_some() {
        Err("TCP faces do not support MTU overrides".to_owned())
    } else if requested.options.mtu.is_some_and(|mtu| mtu < MTU_MIN) {
        Err(format!("Override MTU cannot be less than {MTU_MIN}"))
    } else {
        Ok(())
    }
}
