//! `namewire face`: the faces of a forwarder.

mod show;

use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use ndn_client::Endpoint;
use ndn_management::{ControlParameters, Dataset, FaceDriver, RibEntry, Verb, face_flag, status};
use ndn_types::{FaceUri, Persistency};
use serde_json::{Value, json};

use super::arguments::size;
use super::connect::block_on;
use super::control_queries;
use super::failure::{Failure, Outcome};
use super::manage::{
    CommonOptions, FaceArgument, Switch, command, face_uri, find_existing_face, json_of_route,
    no_face, note_own_listener, refused, several_faces,
};
use super::output;
use super::resolve::canonical;
use crate::config::{MTU_MAX, MTU_MIN};
use namewire_control::WaitingFace;
use show::{ListOptions, flag_words, run_list, show, show_waiting};
pub(super) use show::{down_for_people, peers, peers_of};

/// Larger tables are not fetched for a report.
pub(super) const ENTRIES_MAX: u64 = 10_000;
/// Maximum time to fetch them.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// List, show, create, update and destroy faces
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: ListOptions,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List faces (same as `namewire face`)
    ///
    /// With --json, faces that are being created or reconnected are included: their `state` is `waiting`, and their
    /// `face_id` is null until they have one.
    #[command(aliases = ["ls"])]
    List(ListOptions),
    /// Show one face with all its counters
    ///
    /// Of a face that is being created or reconnected, shows when that is tried next, and the reason of the last failure.
    Show {
        /// FaceId, or the URI of the peer
        face: FaceArgument,
        #[command(flatten)]
        common: CommonOptions,
    },
    /// Create a face to a peer, or show the existing one
    #[command(aliases = ["add", "new", "connect"])]
    Create {
        /// The peer, such as udp4://192.0.2.1:6363, tcp4://192.0.2.1 or udp://router.example
        #[arg(value_parser = face_uri)]
        uri: FaceUri,
        /// Network interface of an Ethernet face (`ether://[08:00:27:01:02:03]`): dev://eth1
        local: Option<FaceUri>,
        /// persistent (destroyed on an error) or permanent (kept and reconnected; over https a new face takes over its
        /// routes)
        #[arg(long, value_parser = persistency_of_new_face(), default_value = "persistent")]
        persistency: Persistency,
        /// Driver of the interface of an Ethernet face: packet (AF_PACKET) or xdp (AF_XDP)
        #[arg(long, value_parser = driver())]
        driver: Option<FaceDriver>,
        #[command(flatten)]
        settings: Settings,
        #[command(flatten)]
        common: CommonOptions,
    },
    /// Change a face
    Update {
        /// FaceId, or the URI of the peer
        face: FaceArgument,
        /// persistent, on-demand or permanent
        #[arg(long, value_parser = persistency())]
        persistency: Option<Persistency>,
        #[command(flatten)]
        settings: Settings,
        #[command(flatten)]
        common: CommonOptions,
    },
    /// Destroy a face
    #[command(aliases = ["rm", "del", "delete", "remove"])]
    Destroy {
        /// FaceId, or the URI of the peer
        face: FaceArgument,
        #[command(flatten)]
        common: CommonOptions,
    },
}

#[derive(Args, Debug)]
struct Settings {
    /// Maximum size of a frame
    #[arg(long, value_name = "SIZE", value_parser = size(MTU_MIN..=MTU_MAX))]
    mtu: Option<u64>,
    /// Link reliability (NDNLPv2): retransmit lost frames
    #[arg(long, value_enum)]
    reliability: Option<Switch>,
    /// Mark packets when the send queue is congested
    #[arg(long, value_enum)]
    congestion_marking: Option<Switch>,
    /// Queue length above which packets are marked
    #[arg(long, value_name = "SIZE", value_parser = size(0..=u64::MAX))]
    congestion_threshold: Option<u64>,
    /// Exchange FaceIds with the peer (IncomingFaceId, NextHopFaceId)
    #[arg(long, value_enum)]
    local_fields: Option<Switch>,
}

impl Settings {
    fn apply(&self, parameters: &mut ControlParameters) {
        parameters.mtu = self.mtu;
        parameters.default_congestion_threshold = self.congestion_threshold;
        Switch::apply(self.reliability, face_flag::LP_RELIABILITY, parameters);
        Switch::apply(self.congestion_marking, face_flag::CONGESTION_MARKING, parameters);
        Switch::apply(self.local_fields, face_flag::LOCAL_FIELDS, parameters);
    }
}

fn persistency() -> impl TypedValueParser<Value = Persistency> {
    PossibleValuesParser::new(["persistent", "on-demand", "permanent"]).try_map(|word| {
        Persistency::from_word(&word).ok_or_else(|| format!("{word} is not a persistency"))
    })
}

/// A face to a peer is not made on demand, which the error says.
fn persistency_of_new_face() -> impl TypedValueParser<Value = Persistency> {
    let values = [
        PossibleValue::new("persistent"),
        PossibleValue::new("permanent"),
        PossibleValue::new("on-demand").hide(true),
    ];
    PossibleValuesParser::new(values).try_map(|word| match Persistency::from_word(&word) {
        None => Err(format!("{word} is not a persistency")),
        Some(Persistency::OnDemand) => Err(
            "only the face of a peer that connects by itself is on-demand; a face that you create is persistent or \
             permanent"
                .to_owned(),
        ),
        Some(persistency) => Ok(persistency),
    })
}

fn driver() -> impl TypedValueParser<Value = FaceDriver> {
    PossibleValuesParser::new(["packet", "xdp"]).try_map(|word| {
        FaceDriver::from_word(&word).ok_or_else(|| format!("{word} is not a driver"))
    })
}

pub(super) fn run(options: &Options) -> Outcome {
    match &options.command {
        None => run_list(&options.list),
        Some(Command::List(list)) => run_list(list),
        Some(Command::Show { face, common }) => block_on(async {
            let endpoint = common.connect.open_as_operator().await?;
            match find_existing_face(&endpoint, face).await? {
                Some(found) => show(&found, &control_queries::links(&endpoint), common.json),
                None => show_waiting(&find_waiting(&endpoint, face).await?, common.json),
            }
        }),
        Some(Command::Create { uri, local, persistency, driver, settings, common }) => {
            let ends = (uri, local.as_ref());
            block_on(create(ends, *persistency, *driver, settings, common))
        }
        Some(Command::Update { face, persistency, settings, common }) => {
            block_on(update(face, *persistency, settings, common))
        }
        Some(Command::Destroy { face, common }) => block_on(destroy(face, common)),
    }
}

async fn create(
    (uri, local): (&FaceUri, Option<&FaceUri>),
    persistency: Persistency,
    driver: Option<FaceDriver>,
    settings: &Settings,
    common: &CommonOptions,
) -> Outcome {
    let canonical = canonical(uri).await?;
    if canonical.scheme() == "ether" && local.is_none() {
        return Err(Failure::Usage(format!(
            "{canonical} needs the network interface that leads there: `namewire face create {canonical} dev://eth1` \
             (`namewire interfaces` shows which there are)"
        )));
    }
    let local = match local {
        Some(local) => Some(local.canonize().map_err(|error| Failure::Usage(error.to_string()))?),
        None => None,
    };
    let mut parameters = ControlParameters {
        uri: Some(canonical.to_string()),
        local_uri: local.map(|local| local.to_string()),
        persistency: Some(persistency.number()),
        driver: driver.map(FaceDriver::number),
        ..ControlParameters::default()
    };
    settings.apply(&mut parameters);
    let endpoint = common.connect.open_as_operator().await?;
    let response = endpoint.management().respond(Verb::FaceCreate, &parameters).await?;
    let face = response.parameters().ok().filter(|parameters| parameters.face_id.is_some());
    match (face, response.code) {
        (Some(face), 200) => {
            note_own_listener(&endpoint, &face).await;
            report(&face, common, "created")
        }
        // The body names the existing face; the other properties are requested by an update.
        (Some(face), 409) => {
            if driver.is_some() {
                return Err(Failure::Failed(format!(
                    "{canonical}: face {} exists already; its interface keeps its driver. Destroy the face \
                     first, or set listeners.ethernet.driver",
                    face.face_id.unwrap_or(0)
                )));
            }
            let asked =
                ControlParameters { persistency: None, uri: None, local_uri: None, ..parameters };
            let known = face.persistency.and_then(Persistency::from_number);
            let longer = known.is_none_or(|known| lasts_longer(persistency, known));
            if !longer && asked == ControlParameters::default() {
                return report(&face, common, "exists already");
            }
            let change = ControlParameters {
                face_id: face.face_id,
                persistency: longer.then(|| persistency.number()),
                ..asked
            };
            let accepted = command(&endpoint, Verb::FaceUpdate, &change).await?;
            let uri = accepted.uri.or(face.uri);
            report(&ControlParameters { uri, ..accepted }, common, "existed already, updated")
        }
        (_, status::CONNECT_FAILED) if persistency == Persistency::Permanent => {
            Err(Failure::Failed(format!(
                "{}. No face was created; add the peer to `[[static_faces]]` of the configuration, and the forwarder tries until \
                 it is there",
                refused(&canonical, &response)
            )))
        }
        _ => Err(refused(&canonical, &response)),
    }
}

/// The order of persistencies, as in nfdc.
fn lasts_longer(one: Persistency, other: Persistency) -> bool {
    let rank = |persistency| match persistency {
        Persistency::OnDemand => 0,
        Persistency::Persistent => 1,
        Persistency::Permanent => 2,
    };
    rank(one) > rank(other)
}

/// The face of the argument, which does not exist, among those that are being created or reconnected.
async fn find_waiting(endpoint: &Endpoint, argument: &FaceArgument) -> Outcome<WaitingFace> {
    let canonical = match argument {
        FaceArgument::Uri(uri) => canonical(uri).await.ok().map(FaceArgument::Uri),
        FaceArgument::Id(_) => None,
    };
    let mut waiting = control_queries::waiting_faces(endpoint);
    waiting.retain(|face| {
        let is_named = |argument: &FaceArgument| argument.names(face.face_id, &face.remote_uri);
        is_named(argument) || canonical.as_ref().is_some_and(is_named)
    });
    match (waiting.pop(), waiting.len()) {
        (None, _) => Err(no_face(argument)),
        (Some(face), 0) => Ok(face),
        (Some(_), more) => Err(several_faces(more + 1, argument)),
    }
}

async fn update(
    argument: &FaceArgument,
    persistency: Option<Persistency>,
    settings: &Settings,
    common: &CommonOptions,
) -> Outcome {
    let mut parameters = ControlParameters {
        persistency: persistency.map(Persistency::number),
        ..ControlParameters::default()
    };
    settings.apply(&mut parameters);
    if parameters == ControlParameters::default() {
        return Err(Failure::Usage(
            "nothing to change: give --persistency, --mtu, --reliability, --congestion-marking, \
             --congestion-threshold or --local-fields"
                .to_owned(),
        ));
    }
    let endpoint = common.connect.open_as_operator().await?;
    let Some(face) = find_existing_face(&endpoint, argument).await? else {
        let WaitingFace { remote_uri, .. } = find_waiting(&endpoint, argument).await?;
        return Err(Failure::Failed(format!(
            "the face to {remote_uri} waits for its peer, and cannot be changed until it is up"
        )));
    };
    parameters.face_id = Some(face.properties.face_id);
    let accepted = command(&endpoint, Verb::FaceUpdate, &parameters).await?;
    let uri = accepted.uri.or(Some(face.properties.remote_uri));
    report(&ControlParameters { uri, ..accepted }, common, "updated")
}

async fn destroy(argument: &FaceArgument, common: &CommonOptions) -> Outcome {
    let endpoint = common.connect.open_as_operator().await?;
    // In the protocol, destroying a face that does not exist succeeds; here it is an error, as the
    // number may be mistyped.
    let (face_id, peer) = match find_existing_face(&endpoint, argument).await? {
        Some(face) => {
            let face_id = face.properties.face_id;
            let peer = peers_of(&endpoint, vec![face]).await.remove(&face_id);
            (face_id, peer.unwrap_or_default())
        }
        // A permanent face without a session is not in the list, but can be destroyed.
        None => {
            let WaitingFace { face_id, remote_uri, .. } = find_waiting(&endpoint, argument).await?;
            (face_id.ok_or_else(|| no_face(argument))?, remote_uri)
        }
    };
    let entries = tokio::time::timeout(REPORT_TIMEOUT, routes_to(&endpoint, face_id)).await;
    let entries = entries.ok().flatten();
    let parameters = ControlParameters { face_id: Some(face_id), ..ControlParameters::default() };
    command(&endpoint, Verb::FaceDestroy, &parameters).await?;
    if common.json {
        let routes = entries.as_deref().map(json_of_routes);
        return Ok(output::print_json(
            &json!({ "face_id": face_id, "what": "destroyed", "routes": routes }),
        )?);
    }
    let routes = entries.as_deref().map(routes_for_people).unwrap_or_default();
    Ok(output::print_line(&format!("face {face_id} to {peer} destroyed{routes}"))?)
}

/// The routes to a face by prefix, if the forwarder reports them and the RIB is not large.
async fn routes_to(endpoint: &Endpoint, face_id: u64) -> Option<Vec<RibEntry>> {
    let management = endpoint.management();
    if management.forwarder_status().await.ok()?.fib_entries > ENTRIES_MAX {
        return None;
    }
    let mut entries: Vec<RibEntry> = management.dataset(&Dataset::RibList).await.ok()?;
    entries.iter_mut().for_each(|entry| entry.routes.retain(|route| route.face_id == face_id));
    entries.retain(|entry| !entry.routes.is_empty());
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Some(entries)
}

fn json_of_routes(entries: &[RibEntry]) -> Vec<Value> {
    let of_entry = |entry: &RibEntry| -> Vec<Value> {
        entry.routes.iter().map(|route| json_of_route(&entry.name, route)).collect()
    };
    entries.iter().flat_map(of_entry).collect()
}

/// The routes that go with a face: their number, and the first prefixes.
fn routes_for_people(entries: &[RibEntry]) -> String {
    const SHOWN_MAX: usize = 3;
    let count: usize = entries.iter().map(|entry| entry.routes.len()).sum();
    if count == 0 {
        return String::new();
    }
    let prefixes = entries.iter().take(SHOWN_MAX).map(|entry| entry.name.to_string());
    let prefixes = prefixes.collect::<Vec<_>>().join(", ");
    let more = match entries.len().saturating_sub(SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {} more", output::grouped(more as u64)),
    };
    let routes = output::counted(count as u64, "route");
    format!(", and with it {routes}: {prefixes}{more}")
}

/// Prints a face as the forwarder's answer describes it.
fn report(face: &ControlParameters, common: &CommonOptions, what: &str) -> Outcome {
    let face_id = face.face_id.unwrap_or(0);
    let uri = face.uri.as_deref().unwrap_or("its peer");
    let persistency = face.persistency.and_then(Persistency::from_number);
    if common.json {
        return Ok(output::print_json(&json!({
            "what": what,
            "face_id": face_id,
            "remote_uri": face.uri,
            "local_uri": face.local_uri,
            "persistency": persistency.map(Persistency::as_str),
            "flags": face.flags.map(flag_words),
            "mtu_bytes": face.mtu,
        }))?);
    }
    let persistency =
        persistency.map_or_else(String::new, |persistency| format!(" ({persistency})"));
    Ok(output::print_line(&format!("face {face_id} to {uri}{persistency} {what}"))?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use ndn_client::EndpointOptions;
    use ndn_management::RouteRecord;

    use super::*;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn destroyed_routes_are_counted_and_the_first_prefixes_named() {
        let route = |origin| RouteRecord {
            face_id: 300,
            origin,
            cost: 0,
            flags: 0,
            expiration_period_ms: None,
        };
        let entry = |prefix: &str, origins: &[u64]| RibEntry {
            name: prefix.parse().unwrap(),
            routes: origins.iter().copied().map(route).collect(),
        };
        assert_eq!(routes_for_people(&[]), "");
        let one = [entry("/a", &[255])];
        assert_eq!(routes_for_people(&one), ", and with it 1 route: /a");
        let many = ["/a", "/b", "/c", "/d", "/e"].map(|prefix| entry(prefix, &[0, 255]));
        let shown = ", and with it 10 routes: /a, /b, /c and 2 more";
        assert_eq!(routes_for_people(&many), shown);
    }

    #[tokio::test]
    async fn routes_are_unknown_if_the_forwarder_does_not_report_them() {
        let (stream, forwarder) = tokio::io::duplex(1 << 10);
        let (reader, writer) = tokio::io::split(stream);
        let endpoint = Endpoint::from_stream(reader, writer, &EndpointOptions::default());
        drop(forwarder);
        assert!(routes_to(&endpoint, 300).await.is_none());
    }

    #[test]
    fn on_demand_is_refused_for_a_new_face_with_the_reason() {
        let create = |persistency| {
            let words = ["face", "create", "udp4://192.0.2.1", "--persistency", persistency];
            Line::try_parse_from(words).map(|line| line.options)
        };
        assert!(create("persistent").is_ok() && create("permanent").is_ok());
        let error = create("on-demand").unwrap_err().to_string();
        assert!(error.contains("a peer that connects by itself is on-demand"), "{error}");
        let error = create("never").unwrap_err().to_string();
        assert!(error.contains("[possible values: persistent, permanent]"), "{error}");
    }
}
