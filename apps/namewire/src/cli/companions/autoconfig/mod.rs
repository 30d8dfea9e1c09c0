//! `namewire autoconfig`: finds a hub and connects to it, by the procedure of ndn-autoconfig.

mod dns;
mod fch;
mod multicast;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ndn_client::Endpoint;
use ndn_keychain::Access;
use ndn_management::{ControlParameters, Verb, route_origin};
use ndn_packet::{Name, NameRef};
use ndn_sys::interface::interfaces;
use ndn_types::FaceUri;

use self::dns::Resolver;
use super::super::arguments::name;
use super::super::connect::{ConnectOptions, block_on, block_on_until_done};
use super::super::failure::{Failure, Outcome};
use super::super::interrupt::or_interrupted;
use super::super::key_chain;
use super::super::manage::{FaceArgument, find_or_create_face};
use super::super::output;

/// Cost of the routes to the hub.
const COST: u64 = 100;
/// Prefixes of the routes to the hub: the default route, and the prefix that enables prefix
/// propagation.
const PREFIXES: [&str; 2] = ["/", "/localhop/nfd"];
/// Interval at which a daemon searches the hub again; it also does so when the network changes.
const AGAIN_AFTER: Duration = Duration::from_secs(3600);
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The domain of the research testbed with the hubs of its sites.
const HOME_HUB_DOMAIN: &str = "_homehub._autoconf.named-data.net";

/// Find a hub and add routes to it, as ndn-autoconfig does
///
/// Queries, in this order: the link, by the forwarder's multicast faces; the DNS, for _ndn._udp in the search domains;
/// a web server, with --ndn-fch-url; the DNS, for the home hub of the default identity, with --home-hub. The last two
/// query servers outside the site, and only if the option is given. The hub becomes a face with routes for / and
/// /localhop/nfd.
#[derive(Args, Debug)]
pub(in crate::cli) struct Options {
    /// Keep running: search again every hour, and when addresses of this host change
    #[arg(long, short)]
    daemon: bool,
    /// Configuration file of ndn-autoconfig; exits unless it contains `enabled = true`
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Web server to query for the closest hub (NDN-FCH, http:// only)
    #[arg(long, value_name = "URL")]
    ndn_fch_url: Option<fch::Url>,
    /// Query the DNS of named-data.net for the hub of the site of the default identity
    #[arg(long)]
    home_hub: bool,
    /// DNS server; may be repeated [default: those of /etc/resolv.conf]
    #[arg(long, value_name = "ADDRESS", value_parser = server)]
    dns: Vec<SocketAddr>,
    /// Search domain; may be repeated [default: those of /etc/resolv.conf]
    #[arg(long, value_name = "DOMAIN")]
    search: Vec<String>,
    #[command(flatten)]
    connect: ConnectOptions,
}

/// An address, with or without a port.
fn server(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53));
    address.or_else(|_| text.parse()).map_err(|_| "it is not an address".to_owned())
}

pub(in crate::cli) fn run(options: &Options) -> Outcome {
    if let Some(path) = &options.config {
        let text = crate::cli::input::read_text(path)?;
        if !is_enabled(&text) {
            output::note(&format_args!("namewire: {} has no `enabled = true`", path.display()));
            return Ok(());
        }
    }
    if options.daemon {
        let work = or_interrupted(poll_forever(options));
        return match block_on_until_done(work) {
            Err(Failure::Interrupted) => Ok(()),
            other => other,
        };
    }
    block_on(async { find(&options.connect.open_as_usual().await?, options).await })
}

/// Whether a configuration file, with lines of `key = value`, enables autoconfig.
fn is_enabled(text: &str) -> bool {
    let settings = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let mut settings = settings.filter_map(|line| line.split_once('='));
    settings.any(|(key, value)| key.trim() == "enabled" && value.trim() == "true")
}

async fn poll_forever(options: &Options) -> Outcome {
    let endpoint = options.connect.open_as_usual().await?;
    loop {
        let addresses = interfaces().unwrap_or_default();
        if let Err(failure) = find(&endpoint, options).await {
            output::note(&format_args!("namewire: {failure}"));
        }
        // NFD's daemon exits with the forwarder; this one waits until it is restarted.
        let deadline = tokio::time::Instant::now() + AGAIN_AFTER;
        while tokio::time::Instant::now() < deadline {
            tokio::time::sleep(POLL_INTERVAL).await;
            if interfaces().is_ok_and(|now| now != addresses) {
                break;
            }
        }
    }
}

/// Tries the stages in order until one finds a hub.
async fn find(endpoint: &Endpoint, options: &Options) -> Outcome {
    let resolver = resolver(options);
    let mut reasons = Vec::new();
    for stage in [Stage::Link, Stage::SearchDomains, Stage::WebServer, Stage::HomeHub] {
        let found = match stage {
            Stage::Link => multicast::ask(endpoint).await.map(|hub| vec![hub]),
            Stage::SearchDomains => by_search_domains(&resolver).await,
            Stage::WebServer => match &options.ndn_fch_url {
                Some(url) => fch::closest_hub(url).await.and_then(|host| Ok(vec![uri(&host)?])),
                None => continue,
            },
            Stage::HomeHub if options.home_hub => by_identity(&resolver).await,
            Stage::HomeHub => continue,
        };
        let hubs = found.unwrap_or_else(|failure| {
            reasons.push(format!("{}: {failure}", stage.name()));
            Vec::new()
        });
        for hub in hubs {
            match connect(endpoint, &hub).await {
                Ok(face_id) => {
                    let line =
                        format!("connected to hub {hub} by {} (face {face_id})", stage.name());
                    return Ok(output::print_line(&line)?);
                }
                Err(failure) => reasons.push(format!("{}: {hub}: {failure}", stage.name())),
            }
        }
    }
    Err(Failure::NoAnswer(format!("no hub found\n  {}", reasons.join("\n  "))))
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Link,
    SearchDomains,
    WebServer,
    HomeHub,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Link => "multicast",
            Self::SearchDomains => "DNS",
            Self::WebServer => "NDN-FCH",
            Self::HomeHub => "home hub",
        }
    }
}

fn resolver(options: &Options) -> Resolver {
    let mut resolver = Resolver::of_system();
    if !options.dns.is_empty() {
        resolver.servers.clone_from(&options.dns);
    }
    if !options.search.is_empty() {
        resolver.domains.clone_from(&options.search);
    }
    resolver
}

fn uri(authority: &str) -> Outcome<FaceUri> {
    FaceUri::parse(&format!("udp://{authority}"))
        .map_err(|error| Failure::Failed(format!("{authority}: {error}")))
}

/// The hubs of a name.
async fn by_name(resolver: &Resolver, name: &str) -> Outcome<Vec<FaceUri>> {
    let services = resolver.services(name).await?;
    services.iter().map(|found| uri(&format!("{}:{}", found.host, found.port))).collect()
}

async fn by_search_domains(resolver: &Resolver) -> Outcome<Vec<FaceUri>> {
    let mut last = Failure::NoAnswer("this host has no search domain".to_owned());
    for domain in &resolver.domains {
        match by_name(resolver, &format!("_ndn._udp.{domain}")).await {
            Ok(hubs) if hubs.is_empty() => {
                last = Failure::NoAnswer(format!("{domain} has no service _ndn._udp"));
            }
            Ok(hubs) => return Ok(hubs),
            Err(failure) => last = failure,
        }
    }
    Err(last)
}

async fn by_identity(resolver: &Resolver) -> Outcome<Vec<FaceUri>> {
    let chain = key_chain::open(Access::Read)?;
    let identity = chain.default_identity().map_err(key_chain::failure)?;
    let domain = domain_of(identity.as_ref())
        .ok_or_else(|| Failure::Failed(format!("{identity} is not a name in the DNS")))?;
    let name = format!("_ndn._udp.{domain}.{HOME_HUB_DOMAIN}");
    let hubs = by_name(resolver, &name).await?;
    match hubs.is_empty() {
        true => Err(Failure::NoAnswer(format!("{name} does not exist"))),
        false => Ok(hubs),
    }
}

/// `/ndn/edu/ucla` as `ucla.edu.ndn`.
fn domain_of(identity: NameRef<'_>) -> Option<String> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let mut labels = Vec::new();
    for component in identity.components() {
        let label = std::str::from_utf8(component.value()).ok()?;
        if label.is_empty() || !label.as_bytes().iter().all(is_plain) {
            return None;
        }
        labels.insert(0, label);
    }
    (!labels.is_empty()).then(|| labels.join("."))
}

/// Creates a face to the hub and its routes.
async fn connect(endpoint: &Endpoint, hub: &FaceUri) -> Outcome<u64> {
    let face_id = find_or_create_face(endpoint, &FaceArgument::Uri(hub.clone())).await?;
    for prefix in PREFIXES {
        let prefix: Name = name(prefix).map_err(Failure::Failed)?;
        let parameters = ControlParameters {
            name: Some(prefix),
            face_id: Some(face_id),
            origin: Some(route_origin::AUTOCONF),
            cost: Some(COST),
            ..ControlParameters::default()
        };
        endpoint.management().command(Verb::RibRegister, &parameters).await?;
    }
    Ok(face_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_must_enable_autoconfig() {
        assert!(is_enabled("# comment\n enabled = true\n"));
        assert!(is_enabled("enabled=true"));
        for text in ["", "# enabled = true", "enabled = false", "enabled", "other = true"] {
            assert!(!is_enabled(text), "{text}");
        }
    }

    #[test]
    fn identities_become_domain_names() {
        let domain = |uri: &str| domain_of(name(uri).unwrap().as_ref());
        assert_eq!(domain("/ndn/edu/ucla/alice").unwrap(), "alice.ucla.edu.ndn");
        assert_eq!(domain("/"), None);
        assert_eq!(domain("/ndn/alice@example"), None);
        assert_eq!(server("192.0.2.53").unwrap().port(), 53);
        assert_eq!(server("[::1]:5353").unwrap().port(), 5353);
        assert!(server("dns.example").is_err());
    }
}
