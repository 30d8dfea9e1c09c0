//! `namewire autoreg`: adds routes for peers that connect, like nfd-autoreg.

use std::net::IpAddr;
use std::time::Duration;

use clap::{ArgGroup, Args};
use ndn_client::{ConnectionState, Endpoint};
use ndn_management::{
    ControlParameters, Dataset, FaceEventKind, FaceProperties, FaceStatus, Verb, route_origin,
};
use ndn_packet::Name;
use ndn_types::{FaceUri, Persistency, Scope};

use super::face_events::FaceEvents;
use super::network::Network;
use crate::cli::arguments::prefix_name;
use crate::cli::connect::{ConnectOptions, block_on_until_done};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::interrupt::interrupted;
use crate::cli::output;

/// Delay after a failed query of the faces.
const PAUSE: Duration = Duration::from_secs(1);

/// Add routes for peers that connect, as nfd-autoreg does
///
/// Existing UDP and TCP faces get the routes too. Runs until interrupted.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("prefixes").required(true).multiple(true)
    .args(["prefix", "all_faces_prefix"]))]
pub(in crate::cli) struct Options {
    /// Add a route for this prefix to every on-demand peer; may be repeated
    #[arg(long, short = 'i', value_parser = prefix_name)]
    prefix: Vec<Name>,
    /// Add a route for this prefix to every peer, regardless of --blacklist and --whitelist; may be repeated
    #[arg(long, short = 'a', value_parser = prefix_name, value_name = "PREFIX")]
    all_faces_prefix: Vec<Name>,
    /// Network, such as 192.0.2.0/24, whose peers get no routes; may be repeated
    #[arg(long, short = 'b', value_name = "NETWORK")]
    blacklist: Vec<Network>,
    /// Network whose peers get routes; may be repeated [default: all]
    #[arg(long, short = 'w', value_name = "NETWORK")]
    whitelist: Vec<Network>,
    /// Cost of the routes
    #[arg(long, short = 'c', default_value_t = 255)]
    cost: u64,
    #[command(flatten)]
    connect: ConnectOptions,
}

impl Options {
    /// The prefixes of the routes to a peer.
    fn prefixes_for(&self, face: &FaceProperties) -> Vec<&Name> {
        let Some(address) = address_of(face) else { return Vec::new() };
        let mut prefixes: Vec<_> = self.all_faces_prefix.iter().collect();
        let in_any =
            |networks: &[Network]| networks.iter().any(|network| network.contains(address));
        let is_requested =
            !in_any(&self.blacklist) && (self.whitelist.is_empty() || in_any(&self.whitelist));
        if face.persistency == Persistency::OnDemand && is_requested {
            prefixes.extend(&self.prefix);
        }
        prefixes
    }
}

/// The address of a remote peer.
fn address_of(face: &FaceProperties) -> Option<IpAddr> {
    let uri = FaceUri::parse(&face.remote_uri).ok()?;
    let is_peer =
        matches!(uri.scheme(), "udp4" | "udp6" | "tcp4" | "tcp6") && face.scope == Scope::NonLocal;
    let address = uri.socket_address()?.ip();
    (is_peer && !address.is_multicast()).then_some(address)
}

pub(in crate::cli) fn run(options: &Options) -> Outcome {
    block_on_until_done(async {
        let endpoint = options.connect.open_as_usual().await?;
        tokio::select! {
            signal = interrupted() => signal.map_err(|error| Failure::Failed(error.to_string())),
            () = crate::cli::connection::report_losses(&endpoint) => Ok(()),
            outcome = serve(&endpoint, options) => outcome,
        }
    })
}

async fn serve(endpoint: &Endpoint, options: &Options) -> Outcome {
    let mut is_informed = false;
    loop {
        let mut events = FaceEvents::subscribe(endpoint).await?;
        let faces = endpoint.management().dataset::<FaceStatus>(&Dataset::FaceList).await;
        let Ok(faces) = faces.map_err(|error| output::note(&format_args!("namewire: {error}")))
        else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        for face in &faces {
            register(endpoint, options, &face.properties).await?;
        }
        if !is_informed {
            output::print_line("routing to peers that connect; Ctrl-C ends it")?;
            is_informed = true;
        }
        // A restarted forwarder starts the numbers of its events again.
        let again = connected_again(endpoint);
        tokio::pin!(again);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = &mut again => None,
            };
            let Some(event) = event else { break };
            if event.kind == FaceEventKind::Created {
                register(endpoint, options, &event.properties).await?;
            }
        }
        // Limit the rate, whatever the forwarder responds.
        tokio::time::sleep(PAUSE / 10).await;
    }
}

/// Waits until the connection was lost and restored.
async fn connected_again(endpoint: &Endpoint) {
    let mut state = endpoint.state();
    let is_connected = |state: &ConnectionState| *state == ConnectionState::Connected;
    let lost = state.wait_for(|state| !is_connected(state)).await.is_ok();
    if !(lost && state.wait_for(is_connected).await.is_ok()) {
        std::future::pending::<()>().await;
    }
}

async fn register(endpoint: &Endpoint, options: &Options, face: &FaceProperties) -> Outcome {
    for prefix in options.prefixes_for(face) {
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            face_id: Some(face.face_id),
            origin: Some(route_origin::AUTOREG),
            cost: Some(options.cost),
            ..ControlParameters::default()
        };
        let route = format!("route {prefix} to face {} ({})", face.face_id, face.remote_uri);
        match endpoint.management().command(Verb::RibRegister, &parameters).await {
            Ok(_) => output::print_line(&format!("{route} added"))?,
            Err(error) => output::note(&format_args!("namewire: {route}: {error}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use ndn_types::LinkType;

    use super::*;

    #[derive(Parser, Debug)]
    struct Program {
        #[command(flatten)]
        options: Options,
    }

    fn options(arguments: &str) -> Result<Options, clap::Error> {
        let words = std::iter::once("autoreg").chain(arguments.split_whitespace());
        Program::try_parse_from(words).map(|program| program.options)
    }

    fn face(uri: &str, persistency: Persistency) -> FaceProperties {
        FaceProperties {
            face_id: 300,
            remote_uri: uri.to_owned(),
            local_uri: "udp4://192.0.2.1:6363".to_owned(),
            scope: Scope::NonLocal,
            persistency,
            link_type: LinkType::PointToPoint,
            flags: 0,
        }
    }

    #[test]
    fn lists_decide_which_peers_get_routes() {
        let options =
            options("-i /a --prefix /b -a /all -b 192.0.2.128/25 -w 192.0.2.0/24").unwrap();
        let prefixes = |uri: &str, persistency| {
            let names = options.prefixes_for(&face(uri, persistency));
            names.into_iter().map(Name::to_uri).collect::<Vec<_>>().join(" ")
        };
        let on_demand = Persistency::OnDemand;
        assert_eq!(prefixes("udp4://192.0.2.5:6363", on_demand), "/all /a /b");
        assert_eq!(prefixes("tcp4://192.0.2.5:40000", on_demand), "/all /a /b");
        assert_eq!(prefixes("udp4://192.0.2.200:6363", on_demand), "/all");
        assert_eq!(prefixes("udp6://[2001:db8::1]:6363", on_demand), "/all");
        assert_eq!(prefixes("udp4://192.0.2.5:6363", Persistency::Permanent), "/all");
        assert_eq!(prefixes("udp4://224.0.23.170:56363", Persistency::Permanent), "");
        assert_eq!(prefixes("fd://20", on_demand), "");
        let local = FaceProperties { scope: Scope::Local, ..face("tcp4://127.0.0.1:5", on_demand) };
        assert!(options.prefixes_for(&local).is_empty());
    }

    #[test]
    fn prefix_is_required() {
        assert!(options("-c 5").is_err());
        assert_eq!(options("-a /x -c 5").unwrap().cost, 5);
        assert_eq!(options("-i /x").unwrap().cost, 255);
    }
}
