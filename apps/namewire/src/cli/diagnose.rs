//! Diagnoses an Interest without a response from the tables of the local forwarder: no route, or a
//! face that is down.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use ndn_client::{Endpoint, ForwarderAddress};
use ndn_management::{Dataset, FaceStatus, FibEntry};
use ndn_packet::Name;
use ndn_sys::peer::StoppedProcess;
use ndn_types::Scope;

use super::control_queries;
use super::face::{ENTRIES_MAX, down_for_people, peers, peers_of};
use super::failure::{Failure, Outcome};
use super::output;
use namewire_control::{FaceLimit, LinkCounters, WaitingFace};

/// Maximum time for an explanation.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Time without an answer after which the cause is looked for: longer than most answers take.
const EARLY: Duration = Duration::from_secs(1);

/// Adds the cause to a failure without an answer, if the forwarder knows it.
pub(super) async fn explained<T>(
    outcome: Outcome<T>,
    endpoint: &Endpoint,
    name: &Name,
) -> Outcome<T> {
    match outcome {
        Err(failure) if failure.is_unanswered() => {
            let cause = cause(endpoint, name).await;
            Err(joined(failure, name, cause.as_ref()))
        }
        other => other,
    }
}

/// Waits for the answer to Interests for a name. Reports why there is none as soon as the forwarder knows it: the end of the
/// wait may be many seconds away. Only while `is_silent`.
pub(super) async fn with_early_cause<T>(
    endpoint: &Endpoint,
    name: &Name,
    is_silent: impl Fn() -> bool,
    answer: impl Future<Output = T>,
) -> T {
    let note = |text: &str| output::note(&text);
    tokio::select! {
        answer = answer => answer,
        never = note_early(name, cause(endpoint, name), is_silent, note) => match never {},
    }
}

/// Reports the cause of a silence with `note` after [`EARLY`], if there is one and `is_silent` still. Does not end.
pub(super) async fn note_early(
    name: &Name,
    cause: impl Future<Output = Option<impl fmt::Display>>,
    is_silent: impl Fn() -> bool,
    note: impl Fn(&str),
) -> Infallible {
    tokio::time::sleep(EARLY).await;
    if is_silent()
        && let Some(cause) = cause.await
        && is_silent()
    {
        note(&format!("namewire: no answer to {name} yet: {cause}"));
    }
    std::future::pending().await
}

/// Why Interests for a name have no answer, if the forwarder knows it.
pub(super) async fn cause(endpoint: &Endpoint, name: &Name) -> Option<Cause> {
    // It is large, and rarely needed.
    tokio::time::timeout(TIMEOUT, Box::pin(find(endpoint, name))).await.ok().flatten()
}

/// Why Interests for a name have no answer.
#[derive(Debug)]
pub(super) enum Cause {
    /// Datagrams to the forwarder at this address are refused.
    NotListening(ForwarderAddress),
    /// A signal has stopped the forwarder.
    Stopped(StoppedProcess),
    /// The forwarder has reached its limit of faces.
    FacesFull(FaceLimit),
    /// The forwarder has no route; faces to these peers of its configuration do not exist.
    NoRoute { missing_faces: Vec<String> },
    /// All next hops of the route with this prefix are down, as described.
    AllDown { prefix: Name, next_hops: Vec<String> },
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotListening(address) => {
                write!(formatter, "no socket listens at {address}: datagrams to it are refused")
            }
            Self::Stopped(stopped) => write!(formatter, "the forwarder does not run: {stopped}"),
            Self::FacesFull(limit) => {
                let limit = super::connect::for_people(limit);
                write!(formatter, "the forwarder has reached its limit of faces: {limit}")
            }
            Self::NoRoute { missing_faces } => {
                formatter.write_str("no producer on this forwarder and no neighbour for it")?;
                match missing_faces.is_empty() {
                    true => Ok(()),
                    false => write!(
                        formatter,
                        ", and {} does not exist: see `namewire face list`",
                        missing_faces.join(", ")
                    ),
                }
            }
            Self::AllDown { prefix, next_hops } => write!(
                formatter,
                "all next hops of the route {prefix} are down: {}",
                next_hops.join("; ")
            ),
        }
    }
}

/// A failure with its cause. A Nack for lack of a route names what the user asked for.
fn joined(failure: Failure, name: &Name, cause: Option<&Cause>) -> Failure {
    let with_cause = |text: String| match cause {
        Some(cause) => format!("{text} ({cause})"),
        None => text,
    };
    match (failure, cause) {
        (Failure::Nacked(_) | Failure::NoRoute(_), Some(cause @ Cause::NoRoute { .. })) => {
            Failure::NoRoute(format!("no route to {name}: {cause}"))
        }
        (Failure::NoRoute(_), _) => Failure::NoRoute(with_cause(format!("no route to {name}"))),
        (Failure::Nacked(text), _) => Failure::Nacked(with_cause(text)),
        (Failure::NoAnswer(text), _) => Failure::NoAnswer(with_cause(text)),
        (other, _) => other,
    }
}

/// Number of next hops that are shown.
const SHOWN_MAX: usize = 2;
/// The path without next hops.
pub(super) const NO_ROUTE_PATH: &str = "without a route";

/// The faces that Interests for a name are sent to, from the tables of a local forwarder: `via face 288 (udp4://…)`.
pub(super) async fn path(endpoint: &Endpoint, name: &Name) -> Option<String> {
    let (entries, mut faces) = tables(endpoint).await?;
    let Some(entry) = route_of(name, &entries) else { return Some(NO_ROUTE_PATH.to_owned()) };
    faces.retain(|face| shown(entry).any(|face_id| face_id == face.properties.face_id));
    Some(via(entry, &peers_of(endpoint, faces).await))
}

/// Notes for served prefixes that have several producers on this host, by the tables of a local forwarder. Does not end.
pub(super) async fn note_other_producers(endpoint: &Endpoint, prefixes: &[Name]) {
    if let Some((entries, mut faces)) = tables(endpoint).await {
        faces.retain(|face| face.properties.scope == Scope::Local);
        let local = faces.iter().map(|face| face.properties.face_id).collect();
        for prefix in prefixes {
            if let Some(entry) = of_several_producers(prefix, &entries, &local) {
                let mut faces = faces.clone();
                faces.retain(|face| shown(&entry).any(|id| id == face.properties.face_id));
                output::note(&producers_text(&entry, &peers_of(endpoint, faces).await));
            }
        }
    }
    std::future::pending().await
}

/// The entry of a prefix with several next hops on this host, the `local` faces; one of them is this program. It has only those:
/// others are the network.
fn of_several_producers(
    prefix: &Name,
    entries: &[FibEntry],
    local: &BTreeSet<u64>,
) -> Option<FibEntry> {
    let mut entry = entries.iter().find(|entry| entry.name == *prefix)?.clone();
    entry.next_hops.retain(|hop| local.contains(&hop.face_id));
    (entry.next_hops.len() > 1).then_some(entry)
}

/// The note on an entry of several producers.
fn producers_text(entry: &FibEntry, uris: &BTreeMap<u64, String>) -> String {
    let (prefix, count) = (&entry.name, entry.next_hops.len());
    let path = via(entry, uris);
    format!(
        "namewire: {prefix} has {count} producers on this host, {path}: the strategy decides which of them an Interest reaches"
    )
}

/// The FIB and the faces of a local forwarder.
async fn tables(endpoint: &Endpoint) -> Option<(Vec<FibEntry>, Vec<FaceStatus>)> {
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
        Some((entries, faces))
    });
    found.await.ok().flatten()
}

/// The faces of the next hops that [`via`] shows.
fn shown(entry: &FibEntry) -> impl Iterator<Item = u64> {
    entry.next_hops.iter().take(SHOWN_MAX).map(|hop| hop.face_id)
}

/// The next hops of an entry; the first ones, if there are several.
fn via(entry: &FibEntry, uris: &BTreeMap<u64, String>) -> String {
    let hops = shown(entry).map(|face_id| {
        let uri = uris.get(&face_id).map_or("its peer", String::as_str);
        format!("face {face_id} ({uri})")
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

/// The cause from the tables of the forwarder, if it is local.
async fn find(endpoint: &Endpoint, name: &Name) -> Option<Cause> {
    let address = endpoint.address()?;
    if endpoint.is_refused() {
        return Some(Cause::NotListening(address.clone()));
    }
    if !matches!(address, ForwarderAddress::Unix(_)) {
        return None;
    }
    if let Some(stopped) = endpoint.forwarder_process().and_then(StoppedProcess::with_id) {
        // A failure for lack of an answer has it as its text: [`super::connect::with_stopped_forwarder`].
        return super::connect::is_noted_first().then_some(Cause::Stopped(stopped));
    }
    let limit = control_queries::soon(endpoint, |client| client.face_limit().ok()).await;
    if let Some(limit) = limit.filter(FaceLimit::is_reached) {
        return Some(Cause::FacesFull(limit));
    }
    let management = endpoint.management();
    if management.forwarder_status().await.ok()?.fib_entries > ENTRIES_MAX {
        return None;
    }
    let entries: Vec<FibEntry> = management.dataset(&Dataset::FibList).await.ok()?;
    let Some(entry) = route_of(name, &entries) else {
        return Some(without_route(&control_queries::waiting_for(endpoint, name).await));
    };
    let mut faces: Vec<FaceStatus> = management.dataset(&Dataset::FaceList).await.ok()?;
    let hops: BTreeSet<u64> = entry.next_hops.iter().map(|hop| hop.face_id).collect();
    faces.retain(|face| hops.contains(&face.properties.face_id));
    let query = move |client: &mut _| {
        let links = control_queries::links_of(client, hops);
        Some((peers(&faces, &links), links))
    };
    let (uris, links) = control_queries::soon(endpoint, query).await?;
    all_down(entry, &uris, &links)
}

/// The cause without a route; these faces to which Interests would go do not exist.
fn without_route(waiting: &[WaitingFace]) -> Cause {
    Cause::NoRoute { missing_faces: waiting.iter().map(|face| face.remote_uri.clone()).collect() }
}

/// Why Interests with this route are not forwarded. None if they are.
fn all_down(
    entry: &FibEntry,
    uris: &BTreeMap<u64, String>,
    links: &BTreeMap<u64, LinkCounters>,
) -> Option<Cause> {
    let down = entry.next_hops.iter().map(|hop| {
        let down = links.get(&hop.face_id)?.down.as_ref()?;
        let uri = uris.get(&hop.face_id).map_or("its peer", String::as_str);
        Some(format!("face {} to {uri} is {}", hop.face_id, down_for_people(down)))
    });
    let next_hops = down.collect::<Option<Vec<String>>>()?;
    Some(Cause::AllDown { prefix: entry.name.clone(), next_hops })
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
        let path =
            |entries: &[FibEntry]| Some(via(route_of(&"/a/b".parse().unwrap(), entries)?, &uris));
        assert_eq!(
            path(&[entry("/", &[1]), entry("/a", &[288])]).unwrap(),
            "via face 288 (udp4://192.0.2.1:6363)"
        );
        assert_eq!(path(&[entry("/x", &[288]), entry("/a", &[])]), None);
        let many = path(&[entry("/a", &[288, 289, 290])]).unwrap();
        assert!(many.ends_with("face 289 (its peer), …"), "{many}");
    }

    #[test]
    fn other_producers_on_this_host_are_noted() {
        let uris = [288, 289].map(|face_id| (face_id, format!("unix:///run/{face_id}")));
        let uris = BTreeMap::from(uris);
        let entries = [entry("/a", &[288, 289, 300]), entry("/b", &[288, 300]), entry("/c", &[])];
        let local = uris.keys().copied().collect();
        let note = |uri: &str| {
            let entry = of_several_producers(&uri.parse().unwrap(), &entries, &local)?;
            Some(producers_text(&entry, &uris))
        };
        let noted = note("/a").unwrap();
        let expected = "/a has 2 producers on this host, via face 288 (unix:///run/288), face 289 (unix:///run/289): ";
        assert!(noted.contains(expected), "{noted}");
        assert_eq!(["/a/b", "/b", "/c", "/d"].map(note), [const { None::<String> }; 4]);
    }

    #[test]
    fn missing_route_and_down_faces_are_reported() {
        let uris = BTreeMap::from([(300, "tcp4://192.0.2.1:6363".to_owned())]);
        let down = LinkDown { reason: "closed by the peer".to_owned(), for_ms: 2000 };
        let down = LinkCounters { down: Some(down), ..LinkCounters::default() };
        let links = BTreeMap::from([(300, down), (301, LinkCounters::default())]);
        let waiting =
            |uri: &str| WaitingFace { remote_uri: uri.to_owned(), ..WaitingFace::default() };
        let shown = |entries: &[FibEntry]| {
            let entry = route_of(&"/a/b".parse().unwrap(), entries).unwrap();
            all_down(entry, &uris, &links).map(|cause| cause.to_string())
        };
        let none = without_route(&[]);
        assert_eq!(none.to_string(), "no producer on this forwarder and no neighbour for it");
        let none = without_route(&[waiting("tcp4://192.0.2.2:6363")]);
        assert!(none.to_string().contains("tcp4://192.0.2.2:6363 does not exist"), "{none}");
        assert_eq!(shown(&[entry("/", &[300]), entry("/a", &[301])]), None, "the longest counts");
        assert_eq!(shown(&[entry("/a", &[300, 301])]), None, "one of them is up");
        assert_eq!(
            shown(&[entry("/", &[301]), entry("/a", &[300])]).unwrap(),
            "all next hops of the route /a are down: face 300 to tcp4://192.0.2.1:6363 is down for 2 s: closed \
             by the peer"
        );
        // A forwarder without link counters.
        assert_eq!(shown(&[entry("/a", &[302])]), None);
    }

    #[test]
    fn failures_have_their_cause() {
        let name: Name = "/a".parse().unwrap();
        let none = || Cause::NoRoute { missing_faces: Vec::new() };
        let down =
            || Cause::AllDown { prefix: "/".parse().unwrap(), next_hops: vec!["x".to_owned()] };
        let none_text = none().to_string();
        let metadata = || "no route to /a/32=metadata".to_owned();
        let pings = || "Nack for all pings for /a".to_owned();
        let silent = || "no response from /a".to_owned();
        for (failure, cause, expected) in [
            (Failure::NoRoute(metadata()), Some(none()), format!("no route to /a: {none_text}")),
            (Failure::Nacked(pings()), Some(none()), format!("no route to /a: {none_text}")),
            (
                Failure::NoRoute(metadata()),
                Some(down()),
                "no route to /a (all next hops of the route / are down: x)".to_owned(),
            ),
            (Failure::NoRoute(metadata()), None, "no route to /a".to_owned()),
            (Failure::Nacked(pings()), None, pings()),
            (Failure::NoAnswer(silent()), Some(none()), format!("{} ({none_text})", silent())),
            (Failure::Failed(silent()), Some(none()), silent()),
        ] {
            assert_eq!(joined(failure, &name, cause.as_ref()).to_string(), expected);
        }
    }
}
