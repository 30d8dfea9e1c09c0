//! Settings that are looked at together: faces and strategies that are there twice, and quotas with what
//! they are parts of.

use ndn_forwarding::strategy::StrategyTable;
use ndn_management::{FaceUri, PREFIX_DEPTH_MAX};
use ndn_packet::Name;
use toml::de::DeValue;

use super::place::Place;
use super::reader::{FromToml, Section};
use super::types::*;

pub(super) fn read(root: &mut Section<'_>, config: &mut Config) {
    read_strategy_choices(root, config);
    read_static_faces(root, config);
    read_static_routes(root, config);
    check_quotas(root, config);
}

fn read_strategy_choices(root: &mut Section<'_>, config: &mut Config) {
    let mut seen: Vec<(Place, StrategyChoice)> = Vec::new();
    for section in root.sections("strategy_choices") {
        let place = section.place("strategy");
        let Some(choice) = read_strategy_choice(section) else { continue };
        let earlier = seen.iter().find(|(_, other)| other.prefix == choice.prefix);
        if let Some((earlier, _)) = earlier.filter(|(_, other)| other.strategy != choice.strategy) {
            place.object_beside(earlier, &format!("{} has two strategies", choice.prefix));
        }
        seen.push((place, choice));
    }
    config.strategy_choices = seen.into_iter().map(|(_, choice)| choice).collect();
}

fn read_strategy_choice(mut section: Section<'_>) -> Option<StrategyChoice> {
    let prefix = section.read_required_checked("prefix", check_depth);
    let strategy = section.read_required_checked("strategy", |name: &StrategyName| {
        let known = StrategyTable::default().insert(name.0.as_ref());
        known.map(|_| ()).map_err(|error| error.to_string())
    });
    section.finish();
    Some(StrategyChoice { prefix: prefix?, strategy: strategy?.0 })
}

/// Prefixes of routes and strategies are not longer than management takes them.
pub(super) fn check_depth(prefix: &Name) -> Result<(), String> {
    match prefix.len() {
        0..=PREFIX_DEPTH_MAX => Ok(()),
        depth => {
            Err(format!("a prefix of {depth} components is too long: at most {PREFIX_DEPTH_MAX}"))
        }
    }
}

fn read_static_faces(root: &mut Section<'_>, config: &mut Config) {
    let mut seen: Vec<(Place, StaticFace)> = Vec::new();
    for section in root.sections("static_faces") {
        let place = section.place("uri");
        let Some(face) = read_static_face(section) else { continue };
        let is_same =
            |other: &StaticFace| other.uri == face.uri && other.interface == face.interface;
        let earlier = seen.iter().find(|(_, other)| is_same(other));
        if let Some((earlier, _)) = earlier {
            let reason = format!("{} is there twice: a peer has one face", face.uri);
            place.object_beside(earlier, &reason);
        }
        seen.push((place, face));
    }
    config.static_faces = seen.into_iter().map(|(_, face)| face).collect();
}

/// A route is known by its prefix and its face: of two that differ, one would count without a word.
fn read_static_routes(root: &mut Section<'_>, config: &mut Config) {
    let mut seen: Vec<(Place, StaticRoute)> = Vec::new();
    for section in root.sections("static_routes") {
        let place = section.place("prefix");
        let Some(route) = read_static_route(section) else { continue };
        let is_same =
            |other: &StaticRoute| other.prefix == route.prefix && other.face == route.face;
        let earlier = seen.iter().find(|(_, other)| is_same(other));
        if let Some((earlier, _)) = earlier.filter(|(_, other)| *other != route) {
            let reason = format!("{} by {} has two routes that differ", route.prefix, route.face);
            place.object_beside(earlier, &reason);
        }
        seen.push((place, route));
    }
    config.static_routes = seen.into_iter().map(|(_, route)| route).collect();
}

fn read_static_route(mut section: Section<'_>) -> Option<StaticRoute> {
    let prefix = section.read_required_checked("prefix", check_depth);
    let face = section.read_required_checked("face", check_peer);
    let (mut cost, mut child_inherit, mut capture) = (0, true, false);
    section.read("cost", &mut cost);
    section.read("child_inherit", &mut child_inherit);
    section.read("capture", &mut capture);
    section.finish();
    Some(StaticRoute { prefix: prefix?, face: face?, cost, child_inherit, capture })
}

/// A peer is one host, not a group.
fn check_peer(uri: &FaceUri) -> Result<(), String> {
    match uri.socket_address() {
        Some(address) if address.ip().is_multicast() => {
            Err(format!("{uri} is a group, and no peer: `[listeners.multicast]` has groups"))
        }
        _ => check_zone(uri),
    }
}

/// A link-local peer is one of a link.
fn check_zone(uri: &FaceUri) -> Result<(), String> {
    match uri.lacks_zone() {
        true => Err(format!(
            "{uri} is on a link that is not said: its interface belongs to the address, such as {}",
            uri.with_zone("eth0")
        )),
        false => Ok(()),
    }
}

/// Quotas that are set have to be less than what they are parts of; those that are not set give way.
fn check_quotas(root: &mut Section<'_>, config: &Config) {
    let (limits, pit) = (&config.limits, config.tables.pit_capacity);
    let per_face = limits.pending_interests_per_face;
    let per_face = per_face.and_then(|most| usize::try_from(most).ok()).unwrap_or(0);
    let parts = [
        ("limits", "faces_per_peer", limits.faces_per_peer, "limits", "faces", limits.faces),
        ("limits", "pending_interests_per_face", per_face, "tables", "pit_capacity", pit),
    ];
    for (section, key, part, whole_section, whole_key, whole) in parts {
        let quotas = root.section(section);
        if part <= whole || !quotas.has(key) {
            continue;
        }
        let reason = format!("{part} is more than {whole_section}.{whole_key}, which is {whole}");
        let of = root.section(whole_section);
        match of.has(whole_key) {
            true => quotas.place(key).object_beside(&of.place(whole_key), &reason),
            false => quotas.object(key, &reason),
        }
    }
}

fn read_static_face(mut section: Section<'_>) -> Option<StaticFace> {
    let uri: Option<FaceUri> = section.read_required_checked("uri", check_peer);
    let mut interface = None;
    section.read_optional("interface", &mut interface);
    let is_ethernet = uri.as_ref().is_some_and(|uri| uri.scheme() == "ether");
    if is_ethernet && interface.is_none() {
        section.object("uri", "an Ethernet face needs an `interface`, such as \"eth1\"");
    } else if !is_ethernet && interface.is_some() {
        section.object("interface", "only Ethernet faces have one");
    }
    let mut persistency = Persistency::Permanent;
    section.read("persistency", &mut persistency);
    let mut mtu = None;
    section.read_optional_in("mtu", &mut mtu, MTU_MIN..=MTU_MAX);
    let mut pit_tokens = PitTokens::Auto;
    section.read("pit_tokens", &mut pit_tokens);
    section.finish();
    Some(StaticFace { uri: uri?, interface, persistency, mtu, pit_tokens })
}

/// A strategy; `multicast` stands for `/localhost/nfd/strategy/multicast`.
struct StrategyName(Name);

impl FromToml for StrategyName {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let text = String::from_toml(value)?;
        if text.starts_with('/') {
            return Name::from_toml(value).map(Self);
        }
        let full = format!("/localhost/nfd/strategy/{text}");
        let name =
            Name::from_uri(&full).map_err(|error| format!("`{text}` is no strategy: {error}"));
        name.map(Self)
    }

    fn kind() -> String {
        "strategy, such as `\"multicast\"` or its full name".to_owned()
    }
}
