//! Faces as tables, fields and JSON: one, and lists of them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use ndn_client::Endpoint;
use ndn_management::{Dataset, FaceProperties, FaceQueryFilter, FaceStatus, face_flag};
use serde_json::{Value, json};

use crate::cli::connect::block_on;
use crate::cli::control_queries;
use crate::cli::failure::Outcome;
use crate::cli::manage::{CommonOptions, words_of};
use crate::cli::output::{self, Table, bytes_for_people, bytes_in_four, grouped, span_for_people};
use namewire_control::{LinkCounters, LinkDown, LocalProcess, WaitingFace};

/// Link counters by FaceId.
type CountersByFace = BTreeMap<u64, LinkCounters>;

/// Options of `face list`.
#[derive(Args, Debug)]
pub(super) struct ListOptions {
    /// Only faces of this URI scheme, such as udp4 or unix
    #[arg(long)]
    scheme: Option<String>,
    /// Also show local addresses, persistency, packets, retransmissions and drivers
    #[arg(long, short)]
    long: bool,
    #[command(flatten)]
    common: CommonOptions,
}

/// Lists faces.
pub(super) fn run_list(options: &ListOptions) -> Outcome {
    block_on(async {
        let endpoint = options.common.connect.open_as_operator().await?;
        let dataset = match &options.scheme {
            None => Dataset::FaceList,
            Some(scheme) => Dataset::FaceQuery(FaceQueryFilter {
                uri_scheme: Some(scheme.clone()),
                ..FaceQueryFilter::default()
            }),
        };
        let mut faces: Vec<FaceStatus> = endpoint.management().dataset(&dataset).await?;
        faces.sort_by_key(|face| face.properties.face_id);
        let links = control_queries::links(&endpoint);
        let of_scheme = |face: &WaitingFace| {
            let scheme = options.scheme.as_deref();
            scheme.is_none_or(|scheme| face.remote_uri.starts_with(&format!("{scheme}:")))
        };
        let mut waiting = control_queries::waiting_faces(&endpoint);
        waiting.retain(of_scheme);
        if options.common.json {
            let faces = faces.iter().map(|face| json_of(face, &links));
            let faces = faces.chain(waiting.iter().map(json_of_waiting)).collect();
            return Ok(output::print_json(&faces)?);
        }
        let nothing = match &options.scheme {
            Some(scheme) if faces.is_empty() => others(&endpoint, scheme).await?,
            Some(_) | None => "no faces".to_owned(),
        };
        let table =
            if options.long { long_table(&faces, &links) } else { short_table(&faces, &links) };
        table.print(&nothing)?;
        for face in &faces {
            let link = links.get(&face.properties.face_id);
            if let Some(down) = link.and_then(|link| link.down.as_ref()) {
                let (face_id, uri) = (face.properties.face_id, &face.properties.remote_uri);
                output::print_text(&format!(
                    "face {face_id} to {uri} is {}",
                    down_for_people(down)
                ))?;
            }
        }
        waiting.iter().try_for_each(|face| output::print_text(&waiting_line(face)))?;
        Ok(())
    })
}

/// Reports that there is no face with a scheme, and the schemes of the existing faces.
async fn others(endpoint: &Endpoint, scheme: &str) -> Outcome<String> {
    let faces: Vec<FaceStatus> = endpoint.management().dataset(&Dataset::FaceList).await?;
    let uris =
        faces.iter().flat_map(|face| [&face.properties.remote_uri, &face.properties.local_uri]);
    let mut schemes: Vec<&str> =
        uris.filter_map(|uri| uri.split_once(':').map(|(scheme, _)| scheme)).collect();
    schemes.sort_unstable();
    schemes.dedup();
    Ok(format!(
        "no faces with --scheme {scheme}; the schemes of existing faces are {}",
        schemes.join(", ")
    ))
}

/// The peer of a face for people: its URI. Of an application on a Unix socket, the number of a descriptor identifies nobody:
/// that is its process, or the URI of the socket if it is not known.
fn peer_of(face: &FaceProperties, link: Option<&LinkCounters>) -> String {
    if !face.remote_uri.starts_with("fd://") {
        return face.remote_uri.clone();
    }
    let process = link.and_then(|link| link.process.as_ref());
    process.map_or_else(|| face.local_uri.clone(), process_for_people)
}

/// The peers of faces for people, by FaceId.
pub(in crate::cli) fn peers(faces: &[FaceStatus], links: &CountersByFace) -> BTreeMap<u64, String> {
    let faces = faces.iter().map(|face| &face.properties);
    faces.map(|face| (face.face_id, peer_of(face, links.get(&face.face_id)))).collect()
}

/// As [`peers`]. The forwarder is asked about applications only, as a URI does not identify them.
pub(in crate::cli) async fn peers_of(
    endpoint: &Endpoint,
    faces: Vec<FaceStatus>,
) -> BTreeMap<u64, String> {
    let uris = peers(&faces, &CountersByFace::new());
    let of_application = |face: &&FaceStatus| face.properties.remote_uri.starts_with("fd://");
    let asked = faces.iter().filter(of_application).map(|face| face.properties.face_id);
    let asked: Vec<u64> = asked.collect();
    if asked.is_empty() {
        return uris;
    }
    // The service that has the names of users may be slow, too.
    let query =
        move |client: &mut _| Some(peers(&faces, &control_queries::links_of(client, asked)));
    control_queries::soon(endpoint, query).await.unwrap_or(uris)
}

/// The name of a user, or the number of one without. It is looked up once.
fn user_name(user_id: u32) -> String {
    static NAMES: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());
    let look_up = || {
        #[cfg(target_os = "linux")]
        return ndn_sys::privileges::user_name(user_id);
        #[cfg(not(target_os = "linux"))]
        user_id.to_string()
    };
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.entry(user_id).or_insert_with(look_up).clone()
}

/// `process 4711 (namewire) of alice`.
fn process_for_people(process: &LocalProcess) -> String {
    let user = user_name(process.user_id);
    let Some(process_id) = process.process_id else { return format!("a process of {user}") };
    let command = process.command.as_ref();
    let command = command.map(|name| format!(" ({})", output::without_control(name)));
    format!("process {process_id}{} of {user}", command.unwrap_or_default())
}

/// Peers, states and bytes: with an IPv6 address of any length, a line has 80 characters at most.
fn short_table(faces: &[FaceStatus], links: &CountersByFace) -> Table {
    let mut table = Table::new(&["FACE", "STATE", "PEER", ">IN", ">OUT"]).whole();
    for face in faces {
        let (properties, counters) = (&face.properties, &face.counters);
        table.row(vec![
            properties.face_id.to_string(),
            state_word(links.get(&properties.face_id)).unwrap_or("-").to_owned(),
            peer_of(properties, links.get(&properties.face_id)),
            bytes_in_four(counters.in_bytes),
            bytes_in_four(counters.out_bytes),
        ]);
    }
    table
}

fn long_table(faces: &[FaceStatus], links: &CountersByFace) -> Table {
    // Only some faces have one.
    let has_drivers = links.values().any(|link| link.driver.is_some());
    let has_processes = links.values().any(|link| link.process.is_some());
    let mut headings = vec![
        "FACE",
        "REMOTE",
        "LOCAL",
        "PERSISTENCY",
        "STATE",
        ">IN I",
        ">IN D",
        ">OUT I",
        ">OUT D",
        ">IN",
        ">OUT",
        ">RESENT",
    ];
    if has_drivers {
        headings.push("DRIVER");
    }
    if has_processes {
        headings.push("APPLICATION");
    }
    let mut table = Table::new(&headings);
    for face in faces {
        let (properties, counters) = (&face.properties, &face.counters);
        let link = links.get(&properties.face_id);
        let mut cells = vec![
            properties.face_id.to_string(),
            properties.remote_uri.clone(),
            properties.local_uri.clone(),
            properties.persistency.to_string(),
            state_word(link).unwrap_or("-").to_owned(),
            grouped(counters.in_interests),
            grouped(counters.in_data),
            grouped(counters.out_interests),
            grouped(counters.out_data),
            bytes_for_people(counters.in_bytes),
            bytes_for_people(counters.out_bytes),
            link.filter(|_| properties.flags & face_flag::LP_RELIABILITY != 0)
                .map_or_else(|| "-".to_owned(), |link| grouped(link.counters.out_retransmissions)),
        ];
        if has_drivers {
            let driver = link.and_then(|link| link.driver.clone());
            cells.push(driver.unwrap_or_else(|| "-".to_owned()));
        }
        if has_processes {
            let process = link.and_then(|link| link.process.as_ref());
            cells.push(process.map_or_else(|| "-".to_owned(), process_for_people));
        }
        table.row(cells);
    }
    table
}

/// Whether a face is up, if the forwarder reports it.
fn state_word(link: Option<&LinkCounters>) -> Option<&'static str> {
    link.map(|link| if link.down.is_some() { "down" } else { "up" })
}

/// The time since a face is down, and the reason.
pub(in crate::cli) fn down_for_people(down: &LinkDown) -> String {
    format!("down for {}: {}", span_for_people(down.for_ms), down.reason)
}

/// A face that does not exist at the moment.
fn waiting_line(face: &WaitingFace) -> String {
    let WaitingFace { face_id, remote_uri, last_failure, next_attempt_ms } = face;
    let what = match face_id {
        Some(face_id) => format!("{remote_uri} (was face {face_id}) is being reconnected"),
        None => format!("{remote_uri} is being created"),
    };
    let next = match next_attempt_ms {
        Some(0) | None => ", now".to_owned(),
        Some(milliseconds) => format!(", next in {}", span_for_people(*milliseconds)),
    };
    let failure = last_failure.as_ref().map_or_else(String::new, |why| format!("; last: {why}"));
    format!("{what}{next}{failure}")
}

/// Shows a face that does not exist at the moment.
pub(super) fn show_waiting(face: &WaitingFace, json: bool) -> Outcome {
    if json {
        return Ok(output::print_json(&json_of_waiting(face))?);
    }
    Ok(output::print_fields(&waiting_fields(face))?)
}

fn waiting_fields(face: &WaitingFace) -> [(&'static str, String); 5] {
    let (number, state) = match face.face_id {
        Some(face_id) => (format!("none (was {face_id})"), "waiting: it is being reconnected"),
        None => ("none".to_owned(), "waiting: it is being created"),
    };
    let next = match face.next_attempt_ms {
        Some(0) | None => "now".to_owned(),
        Some(milliseconds) => format!("in {}", span_for_people(milliseconds)),
    };
    [
        ("face", number),
        ("remote", face.remote_uri.clone()),
        ("state", state.to_owned()),
        ("next attempt", next),
        ("last failure", face.last_failure.clone().unwrap_or_else(|| "none".to_owned())),
    ]
}

/// Shows one face.
pub(super) fn show(face: &FaceStatus, links: &CountersByFace, json: bool) -> Outcome {
    if json {
        return Ok(output::print_json(&json_of(face, links))?);
    }
    let (properties, counters) = (&face.properties, &face.counters);
    let packets = |received: u64, sent: u64| {
        format!("{} received, {} sent", grouped(received), grouped(sent))
    };
    let mut fields = vec![
        ("face", properties.face_id.to_string()),
        ("remote", properties.remote_uri.clone()),
        ("local", properties.local_uri.clone()),
        ("scope", properties.scope.to_string()),
        ("link type", properties.link_type.to_string()),
        ("persistency", properties.persistency.to_string()),
    ];
    if let Some(link) = links.get(&properties.face_id) {
        let state = link.down.as_ref().map_or_else(|| "up".to_owned(), down_for_people);
        fields.push(("state", state));
        fields.extend(link.driver.clone().map(|driver| ("driver", driver)));
        let process = link.process.as_ref().map(process_for_people);
        fields.extend(process.map(|process| ("application", process)));
    }
    fields.push(("flags", flags_for_people(properties.flags)));
    if let Some(mtu) = face.mtu {
        fields.push(("MTU", format!("{} bytes", grouped(mtu))));
    }
    if let Some(threshold) = face.default_congestion_threshold {
        fields.push(("congestion threshold", bytes_for_people(threshold)));
    }
    if let Some(interval_ns) = face.base_congestion_marking_interval_ns {
        fields.push(("marking interval", span_for_people(interval_ns / 1_000_000)));
    }
    if let Some(expires_ms) = face.expiration_period_ms {
        fields.push(("closes if idle for", span_for_people(expires_ms)));
    }
    fields.extend([
        ("Interests", packets(counters.in_interests, counters.out_interests)),
        ("Data", packets(counters.in_data, counters.out_data)),
        ("Nacks", packets(counters.in_nacks, counters.out_nacks)),
        ("bytes", packets(counters.in_bytes, counters.out_bytes)),
    ]);
    if let Some(link) = links.get(&properties.face_id) {
        fields.push(("frames", packets(link.counters.in_frames, link.counters.out_frames)));
        if properties.flags & face_flag::LP_RELIABILITY != 0 {
            let (again, done) = (link.counters.out_retransmissions, link.counters.out_acknowledged);
            let text = format!("{} acknowledged, {} retransmitted", grouped(done), grouped(again));
            fields.push(("reliability", text));
        }
        fields.push(("congestion marks", grouped(link.counters.out_marks)));
        let drops = link.drops.iter().map(|(reason, count)| {
            format!("{} {}", grouped(*count), output::reason_in_words(reason))
        });
        let drops = drops.collect::<Vec<_>>().join(", ");
        fields.push(("dropped", if drops.is_empty() { "none".to_owned() } else { drops }));
    }
    Ok(output::print_fields(&fields)?)
}

fn flags_for_people(flags: u64) -> String {
    match flag_words(flags).as_slice() {
        [] => "none".to_owned(),
        words => words.join(", "),
    }
}

/// The names of the flags of a face.
pub(super) fn flag_words(flags: u64) -> Vec<&'static str> {
    let named = [
        (face_flag::LOCAL_FIELDS, "local-fields"),
        (face_flag::LP_RELIABILITY, "reliability"),
        (face_flag::CONGESTION_MARKING, "congestion-marking"),
    ];
    words_of(flags, &named)
}

/// A face that does not exist: it has no FaceId and is not in the dataset of management.
fn json_of_waiting(face: &WaitingFace) -> Value {
    json!({
        "face_id": null,
        "remote_uri": face.remote_uri,
        "local_uri": null,
        "scope": null,
        "persistency": null,
        "state": "waiting",
        "link_type": null,
        "flags": null,
        "mtu_bytes": null,
        "congestion_threshold_bytes": null,
        "congestion_marking_interval_ns": null,
        "expiration_period_ms": null,
        "counters": null,
        "link": null,
        "was_face_id": face.face_id,
        "last_failure": face.last_failure,
        "next_attempt_ms": face.next_attempt_ms,
    })
}

fn json_of(face: &FaceStatus, links: &CountersByFace) -> Value {
    let (properties, counters) = (&face.properties, &face.counters);
    json!({
        "face_id": properties.face_id,
        "remote_uri": properties.remote_uri,
        "local_uri": properties.local_uri,
        "scope": properties.scope.as_str(),
        "persistency": properties.persistency.as_str(),
        "state": state_word(links.get(&properties.face_id)),
        "link_type": properties.link_type.as_str(),
        "flags": flag_words(properties.flags),
        "mtu_bytes": face.mtu,
        "congestion_threshold_bytes": face.default_congestion_threshold,
        "congestion_marking_interval_ns": face.base_congestion_marking_interval_ns,
        "expiration_period_ms": face.expiration_period_ms,
        "counters": {
            "in_interests": counters.in_interests,
            "in_data": counters.in_data,
            "in_nacks": counters.in_nacks,
            "in_bytes": counters.in_bytes,
            "out_interests": counters.out_interests,
            "out_data": counters.out_data,
            "out_nacks": counters.out_nacks,
            "out_bytes": counters.out_bytes,
        },
        "link": links.get(&properties.face_id),
        "was_face_id": null,
        "last_failure": null,
        "next_attempt_ms": null,
    })
}

#[cfg(test)]
mod tests {
    use ndn_management::FaceCounters;
    use ndn_types::{LinkType, Persistency, Scope};

    use super::*;

    #[test]
    fn faces_that_wait_have_the_fields_of_others_in_json() {
        let fields =
            |value: Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
        let waiting = WaitingFace {
            remote_uri: "tcp4://192.0.2.1:6363".to_owned(),
            ..WaitingFace::default()
        };
        let up = face(300, "tcp4://192.0.2.1:6363", "tcp4://192.0.2.2:40000");
        let up = json_of(&up, &CountersByFace::default());
        assert_eq!(fields(json_of_waiting(&waiting)), fields(up));
    }

    fn face(face_id: u64, remote: &str, local: &str) -> FaceStatus {
        FaceStatus {
            properties: FaceProperties {
                face_id,
                remote_uri: remote.to_owned(),
                local_uri: local.to_owned(),
                scope: Scope::NonLocal,
                persistency: Persistency::Permanent,
                link_type: LinkType::PointToPoint,
                flags: 0,
            },
            expiration_period_ms: None,
            base_congestion_marking_interval_ns: None,
            default_congestion_threshold: None,
            mtu: None,
            counters: FaceCounters {
                in_bytes: u64::MAX,
                out_bytes: 1023 << 30,
                ..FaceCounters::default()
            },
        }
    }

    #[test]
    fn list_fits_80_columns_with_whole_addresses() {
        let peer = "udp6://[2001:db8:1234:5678:9abc:def0:1234:5678]:56363";
        let faces = [
            face(10_257, peer, "udp6://[::1]:6363"),
            face(3, "fd://24", "unix:///run/nfd/nfd.sock"),
        ];
        let process = |command: Option<&str>, process_id| LocalProcess {
            user_id: 0,
            process_id,
            command: command.map(str::to_owned),
        };
        let of_application = |process| {
            let link = LinkCounters { process: Some(process), ..LinkCounters::default() };
            CountersByFace::from([(3, link)])
        };
        for (links, application) in [
            (CountersByFace::new(), "unix:///run/nfd/nfd.sock"),
            (
                of_application(process(Some("name-of-15-long"), Some(4_194_304))),
                "process 4194304 (name-of-15-long) of root",
            ),
            (of_application(process(None, Some(77))), "process 77 of root"),
            (of_application(process(None, None)), "a process of root"),
        ] {
            let expected = [(3, application.to_owned()), (10_257, peer.to_owned())];
            assert_eq!(peers(&faces, &links), BTreeMap::from(expected));
            let text = short_table(&faces, &links).render(Some(80));
            assert!(text.contains(peer) && text.contains(application), "{text}");
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }
}
