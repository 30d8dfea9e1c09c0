//! Diagnoses an Interest without a response from the tables of the local forwarder: no route, or a
//! face that is down.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ndn_client::{Endpoint, ForwarderAddress};
use ndn_management::{Dataset, FaceStatus, FibEntry};
use ndn_packet::Name;
use ndn_sys::peer::StoppedProcess;
use ndn_types::Scope;

use super::control_queries;
use super::face::{down_for_people, peers};
use super::failure::{Failure, Outcome};
use super::output;
use namewire_control::{FaceLimit, LinkCounters, WaitingFace};

/// Larger tables are not fetched for a diagnosis.
const ENTRIES_MAX: u64 = 10_000;
/// Maximum time for an explanation.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Time without an answer after which the cause is looked for: longer than most answers take.
pub(super) const EARLY: Duration = Duration::from_secs(1);

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
/// wait may be many seconds away.
pub(super) async fn with_early_cause<T>(
    endpoint: &Endpoint,
    name: &Name,
    answer: impl Future<Output = T>,
) -> T {
    with_early_note(name, cause(endpoint, name), answer).await
}

/// As [`with_early_cause`], with another way to find the cause.
pub(super) async fn with_early_note<T>(
    name: &Name,
    cause: impl Future<Output = Option<impl fmt::Display>>,
    answer: impl Future<Output = T>,
) -> T {
    let mut answer = std::pin::pin!(answer);
    let early = async {
        tokio::time::sleep(EARLY).await;
        cause.await
    };
    tokio::select! {
        answer = &mut answer => return answer,
        cause = early => {
            if let Some(cause) = cause {
                output::note(&early_text(name, &cause));
            }
        }
    }
    answer.await
}

/// The note of a cause before the end of the wait.
pub(super) fn early_text(name: &Name, cause: &dyn fmt::Display) -> String {
    format!("namewire: no answer to {name} yet: {cause}")
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
            Self::Stopped(stopped) => {
                write!(formatter, "the forwarder does not answer: {stopped}")
            }
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

/// The path without next hops.
pub(super) const NO_ROUTE_PATH: &str = "without a route";

/// The faces that Interests for a name are sent to, from the tables of a local forwarder: `via face 288 (udp4://…)`.
pub(super) async fn path(endpoint: &Endpoint, name: &Name) -> Option<String> {
    let (entries, faces) = tables(endpoint).await?;
    Some(via(name, &entries, &peers(&faces, &control_queries::links(endpoint))))
}

/// Notes for served prefixes that have several producers on this host, by the tables of a local forwarder. Does not end.
pub(super) async fn note_other_producers(endpoint: &Endpoint, prefixes: &[Name]) {
    if let Some((entries, mut faces)) = tables(endpoint).await {
        faces.retain(|face| face.properties.scope == Scope::Local);
        let notes = |peers: &BTreeMap<u64, String>| {
            let notes =
                prefixes.iter().filter_map(|prefix| other_producers(prefix, &entries, peers));
            notes.collect::<Vec<_>>()
        };
        // The processes are of interest only if there are several.
        if !notes(&peers(&faces, &BTreeMap::new())).is_empty() {
            notes(&peers(&faces, &control_queries::links(endpoint)))
                .iter()
                .for_each(|note| output::note(note));
        }
    }
    std::future::pending().await
}

/// A note on next hops on this host, with these `uris`; one of them is this program. Others are the network.
fn other_producers(
    prefix: &Name,
    entries: &[FibEntry],
    uris: &BTreeMap<u64, String>,
) -> Option<String> {
    let mut entry = entries.iter().find(|entry| entry.name == *prefix)?.clone();
    entry.next_hops.retain(|hop| uris.contains_key(&hop.face_id));
    let count = entry.next_hops.len();
    (count > 1).then(|| {
        format!(
            "namewire: {prefix} has {count} producers on this host, {}: the strategy decides which of them an Interest reaches",
            via(prefix, &[entry], uris)
        )
    })
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

/// The cause from the tables of the forwarder, if it is local.
async fn find(endpoint: &Endpoint, name: &Name) -> Option<Cause> {
    let address = endpoint.address()?;
    if endpoint.is_refused() {
        return Some(Cause::NotListening(address.clone()));
    }
    let ForwarderAddress::Unix(path) = address else { return None };
    if let Some(stopped) = control_queries::stopped(path) {
        return Some(Cause::Stopped(stopped));
    }
    if let Some(limit) = control_queries::is_full(address) {
        return Some(Cause::FacesFull(limit));
    }
    let management = endpoint.management();
    if management.forwarder_status().await.ok()?.fib_entries > ENTRIES_MAX {
        return None;
    }
    let entries: Vec<FibEntry> = management.dataset(&Dataset::FibList).await.ok()?;
    let faces: Vec<FaceStatus> = management.dataset(&Dataset::FaceList).await.ok()?;
    let links = control_queries::links(endpoint);
    let waiting = control_queries::waiting_for(endpoint, name);
    of_tables(name, &entries, &peers(&faces, &links), &links, &waiting)
}

/// Why Interests for a name are not forwarded. None if they are.
fn of_tables(
    name: &Name,
    entries: &[FibEntry],
    uris: &BTreeMap<u64, String>,
    links: &BTreeMap<u64, LinkCounters>,
    waiting: &[WaitingFace],
) -> Option<Cause> {
    let Some(entry) = route_of(name, entries) else {
        let missing_faces = waiting.iter().map(|face| face.remote_uri.clone()).collect();
        return Some(Cause::NoRoute { missing_faces });
    };
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
    fn other_producers_on_this_host_are_noted() {
        let uris = [288, 289].map(|face_id| (face_id, format!("unix:///run/{face_id}")));
        let uris = BTreeMap::from(uris);
        let entries = [entry("/a", &[288, 289, 300]), entry("/b", &[288, 300]), entry("/c", &[])];
        let note = |uri: &str| other_producers(&uri.parse().unwrap(), &entries, &uris);
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
        let found = |entries: &[FibEntry], waiting: &[WaitingFace]| {
            of_tables(&"/a/b".parse().unwrap(), entries, &uris, &links, waiting)
        };
        let shown = |entries: &[FibEntry]| found(entries, &[]).map(|cause| cause.to_string());
        let other = entry("/x", &[301]);
        let none = found(&[other.clone(), entry("/a", &[])], &[]).unwrap();
        assert_eq!(none.to_string(), "no producer on this forwarder and no neighbour for it");
        let none = found(&[other], &[waiting("tcp4://192.0.2.2:6363")]).unwrap();
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
