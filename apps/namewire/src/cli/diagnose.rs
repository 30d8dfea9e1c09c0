//! Diagnoses an Interest without a response from the tables of the local forwarder: no route, or a
//! face that is down.

use std::collections::BTreeMap;
use std::time::Duration;

use ndn_client::{Endpoint, ForwarderAddress};
use ndn_management::{Dataset, FaceStatus, FibEntry};
use ndn_packet::Name;

use super::control_queries;
use super::face::{down_for_people, peer_of};
use super::failure::{Failure, Outcome};
use namewire_control::{LinkCounters, WaitingFace};

/// Larger tables are not fetched for a diagnosis.
const ENTRIES_MAX: u64 = 10_000;
/// Maximum time for an explanation.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Adds the reason to a failure without an answer, if the forwarder knows it.
pub(super) async fn explained<T>(
    outcome: Outcome<T>,
    endpoint: &Endpoint,
    name: &Name,
) -> Outcome<T> {
    let (kind, text): (fn(String) -> Failure, _) = match outcome {
        Err(Failure::NoAnswer(text)) => (Failure::NoAnswer, text),
        Err(Failure::Nacked(text)) => (Failure::Nacked, text),
        other => return other,
    };
    let why = tokio::time::timeout(TIMEOUT, find(endpoint, name)).await;
    let why = why.ok().flatten();
    let failure = kind(String::new());
    Err(kind(joined(text, matches!(failure, Failure::Nacked(_)), name, why.as_deref())))
}

/// Why there is no route.
const NO_ROUTE: &str = "no producer on this forwarder and no neighbour for it";

/// A failure with its reason. A Nack for lack of a route names what the user asked for.
fn joined(text: String, is_nack: bool, name: &Name, why: Option<&str>) -> String {
    let has_no_route = why.is_some_and(|why| why.starts_with(NO_ROUTE));
    let text = match is_nack && (has_no_route || text.contains("no route to ")) {
        true => format!("no route to {name}"),
        false => text,
    };
    match why {
        None => text,
        Some(why) if is_nack && has_no_route => format!("{text}: {why}"),
        Some(why) => format!("{text} ({why})"),
    }
}

/// The path without next hops.
pub(super) const NO_ROUTE_PATH: &str = "without a route";

/// The faces that Interests for a name are sent to, from the tables of a local forwarder: `via face 288 (udp4://…)`.
pub(super) async fn path(endpoint: &Endpoint, name: &Name) -> Option<String> {
    let found = tokio::time::timeout(TIMEOUT, async {
        if !matches!(endpoint.address()?, ForwarderAddress::Unix(_)) {
            return None;
        }
        let management = endpoint.management();
        if management.forwarder_status().await.ok()?.fib_entries > ENTRIES_MAX {
            return None;
        }
        let entries: Vec<FibEntry> = management.dataset(&Dataset::FibList).await.ok()?;
        let faces: Vec<FaceStatus> = management.dataset(&Dataset::FaceList).await.ok()?;
        Some(via(name, &entries, &peers(&faces)))
    });
    found.await.ok().flatten()
}

/// The URIs of peers by FaceId.
fn peers(faces: &[FaceStatus]) -> BTreeMap<u64, String> {
    let faces = faces.iter().map(|face| &face.properties);
    faces.map(|face| (face.face_id, peer_of(face).to_owned())).collect()
}

/// The next hops of a name; the first ones, if there are several.
fn via(name: &Name, entries: &[FibEntry], uris: &BTreeMap<u64, String>) -> String {
    const SHOWN_MAX: usize = 2;
    let Some(entry) = route_of(name, entries) else { return NO_ROUTE_PATH.to_owned() };
    let hops = entry.next_hops.iter().take(SHOWN_MAX).map(|hop| {
        let uri = uris.get(&hop.face_id).map_or("its peer", String::as_str);
        format!("face {} ({uri})", hop.face_id)
    });
    let hops = hops.collect::<Vec<_>>().join(", ");
    let more = if entry.next_hops.len() > SHOWN_MAX { ", …" } else { "" };
    format!("via {hops}{more}")
}

/// The entry with next hops that applies to a name.
fn route_of<'a>(name: &Name, entries: &'a [FibEntry]) -> Option<&'a FibEntry> {
    let leads = entries.iter().filter(|entry| !entry.next_hops.is_empty());
    let leads = leads.filter(|entry| name.starts_with(entry.name.as_ref()));
    leads.max_by_key(|entry| entry.name.len())
}

/// The diagnosis from the tables of the forwarder, if it is local.
async fn find(endpoint: &Endpoint, name: &Name) -> Option<String> {
    let address = endpoint.address()?;
    if endpoint.is_refused() {
        return Some(format!("no socket listens at {address}: datagrams to it are refused"));
    }
    if !matches!(address, ForwarderAddress::Unix(_)) {
        return None;
    }
    if let Some(limit) = control_queries::is_full(address) {
        return Some(format!(
            "the forwarder has reached its limit of faces: {}",
            super::connect::for_people(&limit)
        ));
    }
    let management = endpoint.management();
    if management.forwarder_status().await.ok()?.fib_entries > ENTRIES_MAX {
        return None;
    }
    let entries: Vec<FibEntry> = management.dataset(&Dataset::FibList).await.ok()?;
    let faces: Vec<FaceStatus> = management.dataset(&Dataset::FaceList).await.ok()?;
    explain(
        name,
        &entries,
        &peers(&faces),
        &control_queries::links(endpoint),
        &control_queries::waiting_for(endpoint, name),
    )
}

/// The reason why Interests for a name are not forwarded. None if they are.
fn explain(
    name: &Name,
    entries: &[FibEntry],
    uris: &BTreeMap<u64, String>,
    links: &BTreeMap<u64, LinkCounters>,
    waiting: &[WaitingFace],
) -> Option<String> {
    let Some(entry) = route_of(name, entries) else {
        let waiting: Vec<&str> = waiting.iter().map(|face| &*face.remote_uri).collect();
        let waiting = match waiting.is_empty() {
            true => String::new(),
            false => {
                format!(", and {} does not exist: see `namewire face list`", waiting.join(", "))
            }
        };
        return Some(format!("{NO_ROUTE}{waiting}"));
    };
    let down = entry.next_hops.iter().map(|hop| {
        let down = links.get(&hop.face_id)?.down.as_ref()?;
        let uri = uris.get(&hop.face_id).map_or("its peer", String::as_str);
        Some(format!("face {} to {uri} is {}", hop.face_id, down_for_people(down)))
    });
    let down = down.collect::<Option<Vec<String>>>()?;
    Some(format!("all next hops of the route {} are down: {}", entry.name, down.join("; ")))
}

#[cfg(test)]
mod tests {
    use ndn_management::NextHopRecord;

    use super::*;
    use namewire_control::LinkDown;

    fn entry(prefix: &str, faces: &[u64]) -> FibEntry {
        let next_hops = faces.iter().map(|&face_id| NextHopRecord { face_id, cost: 0 });
        FibEntry { name: prefix.parse().unwrap(), next_hops: next_hops.collect() }
    }

    #[test]
    fn path_of_a_silent_fetch_names_the_next_hops() {
        let uris = BTreeMap::from([(288, "udp4://192.0.2.1:6363".to_owned())]);
        let path = |entries: &[FibEntry]| via(&"/a/b".parse().unwrap(), entries, &uris);
        assert_eq!(
            path(&[entry("/", &[1]), entry("/a", &[288])]),
            "via face 288 (udp4://192.0.2.1:6363)"
        );
        assert_eq!(path(&[entry("/x", &[288]), entry("/a", &[])]), "without a route");
        let many = path(&[entry("/a", &[288, 289, 290])]);
        assert!(many.ends_with("face 289 (its peer), …"), "{many}");
    }

    #[test]
    fn missing_route_and_down_faces_are_reported() {
        let uris = BTreeMap::from([(300, "tcp4://192.0.2.1:6363".to_owned())]);
        let down = LinkDown { reason: "closed by the peer".to_owned(), for_ms: 2000 };
        let down = LinkCounters { down: Some(down), ..LinkCounters::default() };
        let links = BTreeMap::from([(300, down), (301, LinkCounters::default())]);
        let waiting =
            |uri: &str| WaitingFace { remote_uri: uri.to_owned(), ..WaitingFace::default() };
        let reported = |entries: &[FibEntry], waiting: &[WaitingFace]| {
            explain(&"/a/b".parse().unwrap(), entries, &uris, &links, waiting)
        };
        let other = entry("/x", &[301]);
        let none = reported(&[other.clone(), entry("/a", &[])], &[]).unwrap();
        let name = "/a".parse().unwrap();
        let joined =
            |text: &str, is_nack, why: &str| joined(text.to_owned(), is_nack, &name, Some(why));
        let sentence = format!("no route to /a: {NO_ROUTE}");
        for text in
            ["the object cannot be found: no route to /a/32=metadata", "Nack for all pings for /a"]
        {
            assert_eq!(joined(text, true, &none), sentence);
        }
        let far = joined("no route to /a/32=metadata", true, "face 300 is down");
        assert_eq!(far, "no route to /a (face 300 is down)");
        let silent = joined("no response from /a", false, &none);
        assert_eq!(silent, format!("no response from /a ({NO_ROUTE})"));
        let none = reported(&[other], &[waiting("tcp4://192.0.2.2:6363")]).unwrap();
        assert!(none.contains("tcp4://192.0.2.2:6363 does not exist"), "{none}");
        let nack = joined("no route to /a", true, &none);
        assert!(
            nack.starts_with(&sentence) && nack.contains(", and tcp4://192.0.2.2:63"),
            "{nack}"
        );
        assert_eq!(
            reported(&[entry("/", &[300]), entry("/a", &[301])], &[]),
            None,
            "the longest counts"
        );
        assert_eq!(reported(&[entry("/a", &[300, 301])], &[]), None, "one of them is up");
        assert_eq!(
            reported(&[entry("/", &[301]), entry("/a", &[300])], &[]).unwrap(),
            "all next hops of the route /a are down: face 300 to tcp4://192.0.2.1:6363 is down for 2 s: closed \
             by the peer"
        );
        // A forwarder without link counters.
        assert_eq!(reported(&[entry("/a", &[302])], &[]), None);
    }
}
