//! What the control socket of a forwarder of this kind tells beside management, if it is where it usually is
//! and open to this user; else nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use ndn_client::{Endpoint, ForwarderAddress};
use ndn_packet::Name;

use crate::control_socket::{
    ControlClient, FaceLimit, LinkCounters, MemifStatus, Request, WaitingFace,
};

/// How long an explanation may take.
const PATIENCE: Duration = Duration::from_secs(1);

fn connect(endpoint: &Endpoint) -> Option<ControlClient> {
    let Some(ForwarderAddress::Unix(path)) = endpoint.address() else { return None };
    ControlClient::connect(&path.with_extension("control.sock")).ok()
}

/// What the links of faces count, by FaceId.
pub(super) fn links(endpoint: &Endpoint) -> BTreeMap<u64, LinkCounters> {
    let mut links = BTreeMap::new();
    let Some(mut client) = connect(endpoint) else { return links };
    let mut after = None;
    loop {
        let answer = client.call::<BTreeMap<u64, LinkCounters>>(&Request::Links { after });
        match answer {
            Ok(some) if !some.is_empty() => links.extend(some),
            Ok(_) | Err(_) => return links,
        }
        after = links.keys().next_back().copied();
    }
}

/// What the links of all faces that there are have discarded, by reason.
pub(super) fn discarded(links: &BTreeMap<u64, LinkCounters>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (reason, count) in links.values().flat_map(|link| &link.drops) {
        *sums.entry(reason.clone()).or_default() += count;
    }
    sums
}

/// How many faces there are and may be.
pub(super) fn face_limit(endpoint: &Endpoint) -> Option<FaceLimit> {
    connect(endpoint)?.call(&Request::FaceLimit).ok()
}

/// Whether the forwarder at this address has as many faces as it may. It is asked for a moment only: it may be
/// one that hangs.
pub(super) fn is_full(address: &ForwarderAddress) -> Option<FaceLimit> {
    let ForwarderAddress::Unix(path) = address else { return None };
    let mut client = ControlClient::connect(&path.with_extension("control.sock")).ok()?;
    let limit: FaceLimit = client.call_within(&Request::FaceLimit, PATIENCE).ok()?;
    limit.is_reached().then_some(limit)
}

/// Asks a forwarder that has as many faces as it may to let the next connection of this process in all the same.
///
/// # Errors
/// Why not, in words.
pub(super) fn let_in(address: &ForwarderAddress) -> Result<(), String> {
    let ForwarderAddress::Unix(path) = address else { return Err(String::new()) };
    let client = ControlClient::connect(&path.with_extension("control.sock"));
    let asked =
        client.and_then(|mut client| client.call_within::<FaceLimit>(&Request::LetIn, PATIENCE));
    asked.map(drop).map_err(|error| error.to_string())
}

/// What the memif listener does, if there is one.
pub(super) fn memif(endpoint: &Endpoint) -> Option<MemifStatus> {
    let status: MemifStatus = connect(endpoint)?.call(&Request::Memif).ok()?;
    status.is_listening.then_some(status)
}

/// Those of [`waiting_faces`] that Interests with this name would go to.
pub(super) fn waiting_for(endpoint: &Endpoint, name: &Name) -> Vec<WaitingFace> {
    let request = Request::WaitingFor { name: name.to_string() };
    let client = connect(endpoint);
    client.and_then(|mut client| client.call(&request).ok()).unwrap_or_default()
}

/// Faces that are to be there and are being made, or made again.
pub(super) fn waiting_faces(endpoint: &Endpoint) -> Vec<WaitingFace> {
    let client = connect(endpoint);
    client.and_then(|mut client| client.call(&Request::WaitingFaces).ok()).unwrap_or_default()
}
