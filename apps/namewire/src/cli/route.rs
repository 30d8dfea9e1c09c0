//! `namewire route`: the routes (RIB) and the forwarding entries (FIB) of a forwarder.

use std::cell::Cell;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use futures_util::{StreamExt as _, future, stream};
use ndn_client::Endpoint;
use ndn_management::{
    ControlParameters, Dataset, FaceStatus, FibEntry, RibEntry, RouteRecord, Verb, route_flag,
    route_origin, route_origin_from_text, route_origin_text,
};
use ndn_packet::Name;
use ndn_types::duration_ms;
use serde_json::json;

use super::arguments::{name, positive_duration, prefix_name, wrong_value};
use super::connect::block_on;
use super::control_queries;
use super::face::peers;
use super::failure::{Failure, Outcome};
use super::manage::{
    CommonOptions, FaceArgument, command, find_face, find_or_create_face, json_of_route,
    route_flag_words,
};
use super::output::{self, Table, span_for_people};

/// Commands of a batch that wait for their answers. The forwarder publishes its tables once for those that arrive together.
const COMMANDS_AT_A_TIME: usize = 32;

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
    ///
    /// With a prefix that has no entry at or below it, shows the entry that Interests for it use: the one of the longest
    /// prefix.
    Fib(ListArguments),
    /// Add or change a route
    ///
    /// With --batch, the routes of a file: each line has the arguments of this command, PREFIX NEXTHOP and options. Empty
    /// lines and lines that begin with `#` are skipped. All lines are checked before the first route is added.
    #[command(
        override_usage = "namewire route add [OPTIONS] <PREFIX> <NEXTHOP>\n       namewire route add [OPTIONS] --batch <FILE>"
    )]
    Add {
        #[command(flatten)]
        route: Option<RouteArguments>,
        /// Add the routes of a file, `-` for standard input
        #[arg(long, value_name = "FILE", conflicts_with_all = ["prefix", "nexthop", "cost", "origin", "no_inherit", "capture", "expires"])]
        batch: Option<String>,
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

/// A route of `route add`, or of a line of its batch.
#[derive(Args, Debug)]
struct RouteArguments {
    /// The name prefix, of at most 32 components
    #[arg(value_parser = prefix_name)]
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
}

impl RouteArguments {
    /// The command, without a face.
    fn parameters(&self) -> ControlParameters {
        let mut flags = if self.no_inherit { 0 } else { route_flag::CHILD_INHERIT };
        flags |= if self.capture { route_flag::CAPTURE } else { 0 };
        ControlParameters {
            name: Some(self.prefix.clone()),
            origin: Some(self.origin),
            cost: Some(self.cost),
            flags: Some(flags),
            expiration_period_ms: self.expires.map(duration_ms),
            ..ControlParameters::default()
        }
    }
}

/// A line of a batch.
#[derive(Parser, Debug)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct BatchLine {
    #[command(flatten)]
    route: RouteArguments,
}

/// The routes of a batch, with the numbers of their lines.
fn parse_batch(text: &str, file: &str) -> Outcome<Vec<(usize, RouteArguments)>> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let (mut routes, mut errors) = (Vec::new(), Vec::new());
    for (number, line) in lines {
        match BatchLine::try_parse_from(line.split_whitespace()) {
            Ok(line) => routes.push((number, line.route)),
            Err(error) => {
                let text = wrong_value(&error).unwrap_or_else(|| error.to_string());
                // Arguments are listed below the reason; an empty line and the usage follow.
                let reason = text.lines().map(str::trim).take_while(|line| !line.is_empty());
                let reason = reason.collect::<Vec<_>>().join(" ");
                let reason = reason.strip_prefix("error: ").unwrap_or(&reason);
                let hint = super::words::hint_for(&error, &["route"]);
                let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
                errors.push(format!("{file}, line {number}: {reason}{hint}"));
            }
        }
    }
    match errors.is_empty() {
        true => Ok(routes),
        false => Err(Failure::Usage(super::failure::lines(&errors))),
    }
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
        Some(Command::Add { batch: Some(file), common, .. }) => block_on(add_batch(file, common)),
        Some(Command::Add { route: Some(route), common, .. }) => {
            block_on(add(&route.nexthop, route.parameters(), common))
        }
        // Refused by the parser.
        Some(Command::Add { .. }) => {
            Err(Failure::Usage("a route or --batch is missing".to_owned()))
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
            .flat_map(|entry| entry.routes.iter().map(|route| json_of_route(&entry.name, route)));
        return Ok(output::print_json(&routes.collect())?);
    }
    let peers = peers_of(&endpoint).await?;
    let mut table =
        Table::new(&["PREFIX", "FACE", "REMOTE", ">COST", "ORIGIN", "FLAGS", "EXPIRES"]);
    for entry in &entries {
        for route in &entry.routes {
            table.row(vec![
                entry.name.to_string(),
                route.face_id.to_string(),
                remote_of(&peers, route.face_id),
                route.cost.to_string(),
                route_origin_text(route.origin),
                route_flag_words(route.flags).join(","),
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
    let used = prefix.and_then(|prefix| {
        let above = entries.iter().filter(|entry| is_selected(prefix, Some(&entry.name)));
        above.max_by_key(|entry| entry.name.len()).cloned()
    });
    entries.retain(|entry| is_selected(&entry.name, prefix));
    if entries.is_empty() {
        entries.extend(used);
    }
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
    let peers = peers_of(&endpoint).await?;
    let mut table = Table::new(&["PREFIX", "FACE", "REMOTE", ">COST"]);
    for entry in &entries {
        for hop in &entry.next_hops {
            let remote = remote_of(&peers, hop.face_id);
            table.row(vec![
                entry.name.to_string(),
                hop.face_id.to_string(),
                remote,
                hop.cost.to_string(),
            ]);
        }
    }
    Ok(table.print("no FIB entry")?)
}

async fn add(
    nexthop: &FaceArgument,
    parameters: ControlParameters,
    common: &CommonOptions,
) -> Outcome {
    let endpoint = common.connect.open_as_operator().await?;
    let face_id = face_of(&endpoint, nexthop).await?;
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

async fn add_batch(file: &str, common: &CommonOptions) -> Outcome {
    let text = super::input::read_text(file)?;
    let routes = parse_batch(&text, file)?;
    let endpoint = common.connect.open_as_operator().await?;
    let mut faces = HashMap::new();
    let mut added: u64 = 0;
    let in_line = |number: usize, failure: Failure| match failure {
        Failure::Failed(text) => Failure::Failed(format!("{file}, line {number}: {text}")),
        Failure::Usage(text) => Failure::Usage(format!("{file}, line {number}: {text}")),
        other @ (Failure::Unreachable(_)
        | Failure::Input(_)
        | Failure::NoAnswer(_)
        | Failure::Nacked(_)
        | Failure::NoRoute(_)
        | Failure::Unregistered(_)
        | Failure::Reported(_)
        | Failure::Resumable { .. }
        | Failure::Unverified(_)
        | Failure::VersionGone(_)
        | Failure::Interrupted
        | Failure::OutputClosed) => other,
    };
    let mut work = async || {
        // A next hop that cannot be used is found before the first route is added.
        for (number, RouteArguments { nexthop, .. }) in &routes {
            if let Entry::Vacant(new) = faces.entry(nexthop.to_string()) {
                let found = face_of(&endpoint, nexthop).await;
                new.insert(found.map_err(|failure| in_line(*number, failure))?);
            }
        }
        let (endpoint, faces, has_failed) = (&endpoint, &faces, &Cell::new(false));
        let commands = routes.iter().map(|(number, route)| async move {
            let face_id = faces.get(&route.nexthop.to_string()).copied();
            let parameters = ControlParameters { face_id, ..route.parameters() };
            let accepted = command(endpoint, Verb::RibRegister, &parameters).await;
            accepted.map_err(|failure| in_line(*number, failure))
        });
        // After a failure, no further command is sent, and those that were are waited for.
        let mut answers = stream::iter(commands)
            .take_while(|_| future::ready(!has_failed.get()))
            .buffered(COMMANDS_AT_A_TIME);
        let mut first_failure = Ok(());
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(_) => added += 1,
                Err(failure) => {
                    has_failed.set(true);
                    first_failure = first_failure.and(Err(failure));
                }
            }
        }
        first_failure
    };
    let outcome = work().await;
    if common.json {
        output::print_json(&json!({ "routes": added }))?;
    } else {
        output::print_line(&format!("{} added or changed", output::counted(added, "route")))?;
    }
    outcome
}

/// The face of a next hop.
async fn face_of(endpoint: &Endpoint, nexthop: &FaceArgument) -> Outcome<u64> {
    match nexthop {
        // rib/register accepts faces that do not exist; here that is an error.
        FaceArgument::Id(_) => Ok(find_face(endpoint, nexthop).await?.properties.face_id),
        FaceArgument::Uri(_) => find_or_create_face(endpoint, nexthop).await,
    }
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
        return Err(Failure::Failed(format!(
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

/// The peers of all faces, for people.
async fn peers_of(endpoint: &Endpoint) -> Outcome<BTreeMap<u64, String>> {
    let faces: Vec<FaceStatus> = endpoint.management().dataset(&Dataset::FaceList).await?;
    Ok(peers(&faces, &control_queries::links(endpoint)))
}

fn remote_of(peers: &BTreeMap<u64, String>, face_id: u64) -> String {
    peers.get(&face_id).map_or("?", String::as_str).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_batch_have_the_arguments_of_the_command() {
        let text =
            "# routes\n\n/a udp4://192.0.2.1 --cost 7\n  /b 257 --no-inherit --expires 10min\n";
        let routes = parse_batch(text, "routes").unwrap();
        assert_eq!(routes.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [3, 4]);
        let parameters = routes[1].1.parameters();
        assert_eq!(parameters.name.unwrap().to_string(), "/b");
        assert_eq!((parameters.flags, parameters.cost), (Some(0), Some(0)));
        assert_eq!(parameters.expiration_period_ms, Some(600_000));
        for (text, reason) in [
            ("/a 257\n/b", "routes, line 2: "),
            ("x 257", "names begin with"),
            ("/a 257 --cost much", "much"),
            ("/a 257 --frobnicate", "--frobnicate"),
            ("/a 257 cost 5", "'cost' found (the cost is an option: --cost 5)"),
        ] {
            let failure = parse_batch(text, "routes").unwrap_err().to_string();
            assert!(failure.contains(reason), "{failure}");
        }
        let failure = parse_batch("/a\n/b 257\nx 257", "routes").unwrap_err().to_string();
        let [first, second] = failure.lines().collect::<Vec<_>>()[..] else { panic!("{failure}") };
        assert!(first.starts_with("routes, line 1: ") && first.ends_with("<NEXTHOP>"), "{first}");
        assert!(second.starts_with("namewire: routes, line 3: "), "{second}");
    }
}
