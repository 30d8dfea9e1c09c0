//! Common parts of the management commands: sending commands, faces by FaceId or URI.

use clap::Args;
use ndn_client::{CommandError, Endpoint};
use ndn_management::{
    ChannelStatus, ControlParameters, ControlResponse, Dataset, FaceQueryFilter, FaceStatus,
    RouteRecord, Verb, route_flag, route_origin_text,
};
use ndn_packet::Name;
use ndn_types::FaceUri;
use serde_json::{Value, json};

use super::connect::{ConnectOptions, hint_of_code};
use super::failure::{Failure, Outcome};
use super::output;
use super::resolve::canonical;

/// Options of every management command.
#[derive(Args, Debug)]
pub(super) struct CommonOptions {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) connect: ConnectOptions,
}

/// The names of the bits that are set.
pub(super) fn words_of(flags: u64, named: &[(u64, &'static str)]) -> Vec<&'static str> {
    named.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, word)| *word).collect()
}

/// The names of the flags of a route.
pub(super) fn route_flag_words(flags: u64) -> Vec<&'static str> {
    let named = [(route_flag::CHILD_INHERIT, "child-inherit"), (route_flag::CAPTURE, "capture")];
    words_of(flags, &named)
}

/// A route as JSON.
pub(super) fn json_of_route(prefix: &Name, route: &RouteRecord) -> Value {
    json!({
        "prefix": prefix.to_string(),
        "face_id": route.face_id,
        "origin": route_origin_text(route.origin),
        "cost": route.cost,
        "flags": route_flag_words(route.flags),
        "expiration_period_ms": route.expiration_period_ms,
    })
}

/// Sends a command; a refusal is a failure with the message of the forwarder.
pub(super) async fn command(
    endpoint: &Endpoint,
    verb: Verb,
    parameters: &ControlParameters,
) -> Outcome<ControlParameters> {
    accepted(&endpoint.management().command(verb, parameters).await?)
}

/// The parameters in the response to a successful command.
pub(super) fn accepted(response: &ControlResponse) -> Outcome<ControlParameters> {
    response.parameters().map_err(|error| {
        Failure::Failed(format!("the response of the forwarder is invalid: {error}"))
    })
}

/// A face URI on the command line.
pub(super) fn face_uri(text: &str) -> Result<FaceUri, String> {
    match (hint_of_form(text), FaceUri::parse(text)) {
        (hint, Err(error)) => Err(format!("{error}{}", hint.unwrap_or_default())),
        (Some(hint), Ok(_)) => Err(format!("malformed face URI {text:?}{hint}")),
        (None, Ok(uri)) => Ok(uri),
    }
}

/// A suggestion for a text that lacks a scheme, or the brackets of an address.
fn hint_of_form(text: &str) -> Option<String> {
    let Some((scheme, host)) = text.split_once("://") else {
        if is_address(text) {
            return Some(format!(" (use udp://{text} for UDP, tcp://{text} for TCP)"));
        }
        let is_interface = !text.is_empty()
            && !text.contains('/')
            && std::path::Path::new("/sys/class/net").join(text).exists();
        return is_interface.then(|| format!(" (use dev://{text} for the network interface)"));
    };
    let is_ip = matches!(scheme, "udp" | "udp4" | "udp6" | "tcp" | "tcp4" | "tcp6");
    let bare = host.split('%').next().unwrap_or(host);
    if is_ip && bare.parse::<std::net::Ipv6Addr>().is_ok() {
        let family = scheme.trim_end_matches(['4', '6']);
        return Some(format!(" (an IPv6 address has brackets: {family}6://[{host}])"));
    }
    let parts: Vec<&str> = host.split(':').collect();
    let is_octet = |part: &&str| part.len() == 2 && u8::from_str_radix(part, 16).is_ok();
    let is_mac = parts.len() == 6 && parts.iter().all(is_octet);
    (scheme == "ether" && is_mac)
        .then(|| format!(" (an Ethernet address has brackets: ether://[{host}])"))
}

/// Whether this is an address, or a host name with dots, with or without a port.
fn is_address(text: &str) -> bool {
    let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
    let is_host_name = host.contains('.')
        && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
    is_host_name || text.parse::<std::net::IpAddr>().is_ok() || host.starts_with('[')
}

/// A face on the command line: its FaceId, or the URI of its peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FaceArgument {
    Id(u64),
    Uri(FaceUri),
}

impl FaceArgument {
    /// Whether it is the face with this FaceId, if it has one, and remote URI.
    pub(super) fn names(&self, face_id: Option<u64>, remote_uri: &str) -> bool {
        match self {
            Self::Id(id) => Some(*id) == face_id,
            Self::Uri(uri) => uri.to_string() == remote_uri,
        }
    }
}

impl std::str::FromStr for FaceArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        let uri = FaceUri::parse(text).map_err(|_| {
            format!(
                "it is neither a FaceId nor a face URI{}",
                hint_of_form(text).unwrap_or_default()
            )
        });
        uri.map(Self::Uri)
    }
}

impl std::fmt::Display for FaceArgument {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => write!(formatter, "{id}"),
            Self::Uri(uri) => write!(formatter, "{uri}"),
        }
    }
}

/// The face of the argument.
pub(super) async fn find_face(endpoint: &Endpoint, argument: &FaceArgument) -> Outcome<FaceStatus> {
    find_existing_face(endpoint, argument).await?.ok_or_else(|| no_face(argument))
}

/// As [`find_face`], but the lack of such a face is no failure.
pub(super) async fn find_existing_face(
    endpoint: &Endpoint,
    argument: &FaceArgument,
) -> Outcome<Option<FaceStatus>> {
    let filter = match argument {
        FaceArgument::Id(id) => {
            FaceQueryFilter { face_id: Some(*id), ..FaceQueryFilter::default() }
        }
        FaceArgument::Uri(uri) => {
            let remote_uri = match has_canonical_form(uri) {
                true => canonical(uri).await?.to_string(),
                false => uri.to_string(),
            };
            FaceQueryFilter { remote_uri: Some(remote_uri), ..FaceQueryFilter::default() }
        }
    };
    let mut faces: Vec<FaceStatus> =
        endpoint.management().dataset(&Dataset::FaceQuery(filter)).await?;
    match (faces.pop(), faces.len()) {
        (Some(_), more @ 1..) => Err(several_faces(more + 1, argument)),
        (found, _) => Ok(found),
    }
}

/// The failure of an argument that names no face.
pub(super) fn no_face(argument: &FaceArgument) -> Failure {
    Failure::Failed(format!("there is no face {argument}{}", hint_of_scheme(argument)))
}

/// The failure of a URI that several faces have.
pub(super) fn several_faces(count: usize, argument: &FaceArgument) -> Failure {
    Failure::Failed(format!("{count} faces have the URI {argument}: use a FaceId"))
}

/// Why a URI whose scheme is unknown names no face.
fn hint_of_scheme(argument: &FaceArgument) -> String {
    let FaceArgument::Uri(uri) = argument else { return String::new() };
    match uri.has_known_scheme() {
        true => String::new(),
        false => {
            format!(" (unknown scheme `{}`; known: {})", uri.scheme(), FaceUri::SCHEMES.join(", "))
        }
    }
}

/// URIs of application faces, such as fd://20, have no canonical form.
fn has_canonical_form(uri: &FaceUri) -> bool {
    FaceUri::IP_SCHEMES.contains(&uri.scheme()) || uri.scheme() == "ether"
}

/// The FaceId of the argument; for a UDP or TCP URI without a face, one is created.
pub(super) async fn find_or_create_face(
    endpoint: &Endpoint,
    argument: &FaceArgument,
) -> Outcome<u64> {
    match argument {
        FaceArgument::Id(id) => Ok(*id),
        // A face to an Ethernet station would need an interface, too.
        FaceArgument::Uri(uri) if has_canonical_form(uri) && uri.scheme() != "ether" => {
            let uri = canonical(uri).await?;
            let parameters =
                ControlParameters { uri: Some(uri.to_string()), ..ControlParameters::default() };
            match endpoint.management().create_face(&parameters).await {
                Ok((face, is_new)) => {
                    if is_new {
                        note_own_listener(endpoint, &face).await;
                    }
                    Ok(face.face_id.unwrap_or(0))
                }
                Err(CommandError::Refused { code, text, .. }) => {
                    Err(refused(&uri, &ControlResponse::new(code, text)))
                }
                Err(error) => Err(error.into()),
            }
        }
        FaceArgument::Uri(_) => Ok(find_face(endpoint, argument).await?.properties.face_id),
    }
}

/// Notes that a new face leads to a listener of its own forwarder, to which it returns all Interests.
pub(super) async fn note_own_listener(endpoint: &Endpoint, face: &ControlParameters) {
    let (Some(remote), Some(local)) = (&face.uri, &face.local_uri) else { return };
    let channels = endpoint.management().dataset(&Dataset::ChannelList).await;
    let channels: Vec<ChannelStatus> = channels.unwrap_or_default();
    if is_own_listener(remote, local, channels.iter().map(|channel| channel.local_uri.as_str())) {
        output::note(&format_args!(
            "namewire: {remote} is a listener of this forwarder: the face returns its Interests to it, and leads nowhere"
        ));
    }
}

/// Whether a face leads to one of these listeners: its ends have one host, which is this one.
fn is_own_listener<'a>(
    remote: &str,
    local: &str,
    mut listeners: impl Iterator<Item = &'a str>,
) -> bool {
    let (Ok(remote), Ok(local)) = (FaceUri::parse(remote), FaceUri::parse(local)) else {
        return false;
    };
    let listens = |listener: FaceUri| {
        let is_any = matches!(listener.host(), "0.0.0.0" | "::");
        (listener.scheme(), listener.port()) == (remote.scheme(), remote.port())
            && (is_any || listener.host() == remote.host())
    };
    remote.host() == local.host()
        && listeners.any(|listener| FaceUri::parse(listener).is_ok_and(listens))
}

/// The failure of a refused command.
pub(super) fn refused(what: &dyn std::fmt::Display, response: &ControlResponse) -> Failure {
    let ControlResponse { code, text, .. } = response;
    Failure::Failed(format!("{what}: {code} {text}{}", hint_of_code(*code)))
}

/// The full name of a strategy: `multicast` stands for `/localhost/nfd/strategy/multicast`.
pub(super) fn strategy_name(text: &str) -> Result<Name, String> {
    let full = if text.starts_with('/') {
        text.to_owned()
    } else {
        format!("/localhost/nfd/strategy/{text}")
    };
    super::arguments::name(&full)
}

/// Whether `on` or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Switch {
    On,
    Off,
}

impl Switch {
    /// Sets a flag bit in the parameters of a command, if the option is present.
    pub(super) fn apply(switch: Option<Self>, bit: u64, parameters: &mut ControlParameters) {
        if let Some(switch) = switch {
            parameters.set_flag(bit, switch == Self::On);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn face_to_an_own_listener_is_recognized() {
        let is_own = |remote: &str, local: &str| {
            let listeners = ["udp4://0.0.0.0:6363", "tcp4://192.0.2.1:6363", "udp6://[::]:6363"];
            is_own_listener(remote, local, listeners.into_iter())
        };
        assert!(is_own("udp4://127.0.0.1:6363", "udp4://127.0.0.1:6363"));
        assert!(is_own("tcp4://192.0.2.1:6363", "tcp4://192.0.2.1:40000"));
        assert!(is_own("udp6://[::1]:6363", "udp6://[::1]:6363"));
        for (remote, local) in [
            ("udp4://127.0.0.1:7000", "udp4://127.0.0.1:6363"),
            ("udp4://192.0.2.2:6363", "udp4://192.0.2.1:6363"),
            ("tcp4://127.0.0.1:6363", "tcp4://127.0.0.1:40000"),
        ] {
            assert!(!is_own(remote, local), "{remote}");
        }
    }

    #[test]
    fn unknown_scheme_is_named_with_the_known_ones() {
        let hint = |text: &str| hint_of_scheme(&text.parse().unwrap());
        let unknown = hint("nosuch://192.0.2.1");
        assert!(unknown.contains("unknown scheme `nosuch`; known: udp, "), "{unknown}");
        for known in
            ["257", "udp4://192.0.2.1:6363", "ws://192.0.2.1", "fd://20", "udp4+dev://eth0:6363"]
        {
            assert_eq!(hint(known), "", "{known}");
        }
    }

    #[test]
    fn malformed_face_uris_are_refused_with_the_right_form() {
        for (text, hint) in [
            ("udp4://fe80::1", "udp6://[fe80::1]"),
            ("tcp://2001:db8::1%eth0", "tcp6://[2001:db8::1%eth0]"),
            ("ether://01:00:5e:00:17:aa", "ether://[01:00:5e:00:17:aa]"),
            ("lo", "dev://lo"),
            ("192.0.2.1:6363", "udp://192.0.2.1:6363"),
        ] {
            let refused = face_uri(text).unwrap_err();
            assert!(refused.contains(hint), "{refused}");
        }
        for text in ["udp6://[fe80::1%25eth0]:6363", "dev://lo", "udp4://192.0.2.1:6363", "fd://20"]
        {
            assert!(face_uri(text).is_ok(), "{text}");
        }
    }
}
