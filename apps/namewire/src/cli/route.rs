//! `namewire route`: the routes (RIB) and the forwarding entries (FIB) of a forwarder.

use std::time::Duration;

use clap::{Args, Subcommand};
use ndn_management::{
    ControlParameters, Dataset, FaceStatus, FibEntry, RibEntry, RouteRecord, Verb, route_flag,
    route_origin, route_origin_from_text, route_origin_text,
};
use ndn_packet::Name;
use ndn_types::duration_ms;
use serde_json::{Value, json};

use super::arguments::{name, positive_duration};
use super::connect::block_on;
use super::failure::Outcome;
use super::manage::{
    CommonOptions, FaceArgument, command, find_face, find_or_create_face, words_of,
};
use super::output::{self, Table, span_for_people};

/// List, add and remove routes
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
    /// List routes (same as `namewire route`)
    #[command(aliases = ["ls"])]
    List(ListArguments),
    /// List the FIB: prefixes and next hops
    Fib(ListArguments),
    /// Add or change a route
    Add {
        /// The name prefix
        #[arg(value_parser = name)]
        prefix: Name,
        /// FaceId, or the URI of the peer; a UDP or TCP face is created if there is none
        nexthop: FaceArgument,
        /// Cost; routes of lower cost are preferred
        #[arg(long, default_value_t = 0)]
        cost: u64,
        /// Origin of the route: static, app, client, nlsr, ... or a number
        #[arg(long, value_parser = origin, default_value = "static")]
        origin: u64,
        /// Do not let longer prefixes inherit the route
        #[arg(long)]
        no_inherit: bool,
        /// Hide the routes of shorter prefixes (Capture)
        #[arg(long)]
        capture: bool,
        /// Lifetime of the route, such as 30s or 10min
        #[arg(long, value_parser = positive_duration, value_name = "DURATION")]
        expires: Option<Duration>,
        #[command(flatten)]
        common: CommonOptions,
    },
    /// Remove a route
    #[command(aliases = ["rm", "del", "delete"])]
    Remove {
        /// The name prefix
        #[arg(value_parser = name)]
        prefix: Name,
        /// FaceId, or the URI of the peer
        nexthop: FaceArgument,
        /// Origin of the route
        #[arg(long, value_parser = origin, default_value = "static")]
        origin: u64,
        #[command(flatten)]
        common: CommonOptions,
    },
}

#[derive(Args, Debug)]
struct ListOptions {
    /// Show only this prefix and longer ones
    #[arg(long, value_parser = name)]
    prefix: Option<Name>,
    #[command(flatten)]
    common: CommonOptions,
}

#[derive(Args, Debug)]
struct ListArguments {
    /// Show only this prefix and longer ones
    #[arg(value_name = "PREFIX", value_parser = name, conflicts_with = "prefix")]
    only: Option<Name>,
    #[command(flatten)]
    options: ListOptions,
}

impl ListArguments {
    fn prefix(&self) -> Option<&Name> {
        self.only.as_ref().or(self.options.prefix.as_ref())
    }
}

fn origin(text: &str) -> Result<u64, String> {
    route_origin_from_text(text).ok_or_else(|| {
        let known = [
            route_origin::APP,
            route_origin::AUTOREG,
            route_origin::CLIENT,
            route_origin::AUTOCONF,
            route_origin::NLSR,
            route_origin::PREFIX_ANNOUNCEMENT,
            route_origin::STATIC,
        ];
        format!("it is a number or one of {}", known.map(route_origin_text).join(", "))
    })
}

pub(super) fn run(options: &Options) -> Outcome {
    match &options.command {
        None => block_on(list(options.list.prefix.as_ref(), &options.list.common)),
        Some(Command::List(list_of)) => block_on(list(list_of.prefix(), &list_of.options.common)),
        Some(Command::Fib(list_of)) => {
            block_on(list_fib(list_of.prefix(), &list_of.options.common))
        }
        Some(Command::Add {
            prefix,
            nexthop,
            cost,
            origin,
            no_inherit,
            capture,
            expires,
            common,
        }) => {
            let mut flags = if *no_inherit { 0 } else { route_flag::CHILD_INHERIT };
            flags |= if *capture { route_flag::CAPTURE } else { 0 };
            let parameters = ControlParameters {
                name: Some(prefix.clone()),
                origin: Some(*origin),
                cost: Some(*cost),
                flags: Some(flags),
                expiration_period_ms: expires.map(duration_ms),
                ..ControlParameters::default()
            };
            block_on(add(nexthop, parameters, common))
        }
        Some(Command::Remove { prefix, nexthop, origin, common }) => {
            block_on(remove(prefix, nexthop, *origin, common))
        }
    }
}

async fn list(prefix: Option<&Name>, common: &CommonOptions) -> Outcome {
    let endpoint = common.connect.open_as_operator().await?;
    let mut entries: Vec<RibEntry> = endpoint.management().dataset(&Dataset::RibList).await?;
    entries.retain(|entry| is_selected(&entry.name, prefix));
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    if common.json {
        let routes = entries
            .iter()
            .flat_map(|entry| entry.routes.iter().map(|route| json_of(&entry.name, route)));
        return Ok(output::print_json(&routes.collect())?);
    }
    let faces: Vec<FaceStatus> = endpoint.management().dataset(&Dataset::FaceList).await?;
    let mut table =
        Table::new(&["PREFIX", "FACE", "REMOTE", ">COST", "ORIGIN", "FLAGS", "EXPIRES"]);
    for entry in &entries {
        for route in &entry.routes {
            table.row(vec![
                entry.name.to_string(),
                route.face_id.to_string(),
                remote_of(&faces, route.face_id),
                route.cost.to_string(),
                route_origin_text(route.origin),
                flag_words(route.flags).join(","),
                route
                    .expiration_period_ms
                    .map_or("never".to_owned(), |ms| format!("in {}", span_for_people(ms))),
            ]);
        }
    }
    Ok(table.print("no routes")?)
}

async fn list_fib(prefix: Option<&Name>, common: &CommonOptions) -> Outcome {
    let endpoint = common.connect.open_as_operator().await?;
    let mut entries: Vec<FibEntry> = endpoint.management().dataset(&Dataset::FibList).await?;
    entries.retain(|entry| is_selected(&entry.name, prefix));
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    if common.json {
        let next_hop = |hop: &ndn_management::NextHopRecord| json!({ "face_id": hop.face_id, "cost": hop.cost });
        let entry = |entry: &FibEntry| {
            json!({
                "prefix": entry.name.to_string(),
                "next_hops": entry.next_hops.iter().map(next_hop).collect::<Vec<_>>(),
            })
        };
        return Ok(output::print_json(&entries.iter().map(entry).collect())?);
    }
    let faces: Vec<FaceStatus> = endpoint.management().dataset(&Dataset::FaceList).await?;
    let mut table = Table::new(&["PREFIX", "FACE", "REMOTE", ">COST"]);
    for entry in &entries {
        for hop in &entry.next_hops {
            let remote = remote_of(&faces, hop.face_id);
            table.row(vec![
                entry.name.to_string(),
                hop.face_id.to_string(),
                remote,
                hop.cost.to_string(),
            ]);
        }
    }
    Ok(table.print("the FIB is empty")?)
}

async fn add(
    nexthop: &FaceArgument,
    parameters: ControlParameters,
    common: &CommonOptions,
) -> Outcome {
    let endpoint = common.connect.open_as_operator().await?;
    let face_id = match nexthop {
        // rib/register accepts faces that do not exist; here that is an error.
        FaceArgument::Id(_) => find_face(&endpoint, nexthop).await?.properties.face_id,
        FaceArgument::Uri(_) => find_or_create_face(&endpoint, nexthop).await?,
    };
    let parameters = ControlParameters { face_id: Some(face_id), ..parameters };
    let entries: Vec<RibEntry> = endpoint.management().dataset(&Dataset::RibList).await?;
    let earlier = entries
        .iter()
        .filter(|entry| Some(&entry.name) == parameters.name.as_ref())
        .flat_map(|entry| &entry.routes)
        .find(|route| route.face_id == face_id && Some(route.origin) == parameters.origin);
    let what = match earlier {
        None => "added",
        Some(route) if is_the_same(route, &parameters) => "exists already",
        Some(_) => "changed",
    };
    let accepted = command(&endpoint, Verb::RibRegister, &parameters).await?;
    report(&accepted, common, what)
}

async fn remove(
    prefix: &Name,
    nexthop: &FaceArgument,
    origin: u64,
    common: &CommonOptions,
) -> Outcome {
    let endpoint = common.connect.open_as_operator().await?;
    let face_id = find_face(&endpoint, nexthop).await?.properties.face_id;
    let entries: Vec<RibEntry> = endpoint.management().dataset(&Dataset::RibList).await?;
    let is_meant = |route: &RouteRecord| route.face_id == face_id && route.origin == origin;
    // In the protocol, removing a route that does not exist succeeds; here it is an error, as the
    // name may be mistyped.
    if !entries.iter().any(|entry| entry.name == *prefix && entry.routes.iter().any(is_meant)) {
        let origin = route_origin_text(origin);
        return Err(super::failure::Failure::Failed(format!(
            "there is no route {prefix} to face {face_id} with origin {origin}"
        )));
    }
    let parameters = ControlParameters {
        name: Some(prefix.clone()),
        face_id: Some(face_id),
        origin: Some(origin),
        ..ControlParameters::default()
    };
    let accepted = command(&endpoint, Verb::RibUnregister, &parameters).await?;
    report(&accepted, common, "removed")
}

fn report(accepted: &ControlParameters, common: &CommonOptions, what: &str) -> Outcome {
    let prefix = accepted.name.as_ref().map_or_else(String::new, Name::to_string);
    let (face_id, origin) = (accepted.face_id.unwrap_or(0), accepted.origin.unwrap_or(0));
    if common.json {
        return Ok(output::print_json(&json!({
            "what": what,
            "prefix": prefix,
            "face_id": face_id,
            "origin": route_origin_text(origin),
            "cost": accepted.cost,
        }))?);
    }
    Ok(output::print_line(&format!(
        "route {prefix} to face {face_id} ({}) {what}",
        route_origin_text(origin)
    ))?)
}

/// Whether a route equals the requested one and has no expiration.
fn is_the_same(route: &RouteRecord, requested: &ControlParameters) -> bool {
    (Some(route.cost), Some(route.flags)) == (requested.cost, requested.flags)
        && route.expiration_period_ms.is_none()
        && requested.expiration_period_ms.is_none()
}

fn is_selected(name: &Name, prefix: Option<&Name>) -> bool {
    prefix.is_none_or(|prefix| name.as_ref().starts_with(prefix.as_ref()))
}

fn remote_of(faces: &[FaceStatus], face_id: u64) -> String {
    let face = faces.iter().find(|face| face.properties.face_id == face_id);
    face.map_or_else(|| "?".to_owned(), |face| face.properties.remote_uri.clone())
}

fn flag_words(flags: u64) -> Vec<&'static str> {
    let named = [(route_flag::CHILD_INHERIT, "child-inherit"), (route_flag::CAPTURE, "capture")];
    words_of(flags, &named)
}

fn json_of(prefix: &Name, route: &RouteRecord) -> Value {
    json!({
        "prefix": prefix.to_string(),
        "face_id": route.face_id,
        "origin": route_origin_text(route.origin),
        "cost": route.cost,
        "flags": flag_words(route.flags),
        "expiration_period_ms": route.expiration_period_ms,
    })
}
