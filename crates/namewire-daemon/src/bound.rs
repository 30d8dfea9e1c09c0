//! UDP faces bound to network interfaces (NFD: `netdev_bound`), created and removed with them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ndn_dataplane::NewFace;
use ndn_face::{FaceOptions, NewDatagram};
use ndn_forwarding::{FaceProperties, PitTokenPolicy};
use ndn_sys::interface::{Interface, interfaces};
use ndn_sys::udp::{UdpOptions, UdpSocket};
use ndn_types::{FaceUri, Persistency, Scope};
use tracing::{debug, info, warn};

use super::addresses::on_link;
use super::control::commands::FaceCommands;
use super::{listeners, settings};
use crate::config::{BoundFaces, Config};

/// A peer on an interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    interface: String,
    index: u32,
    remote: SocketAddr,
}

/// State of a peer on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The face was created; an operator may have destroyed it since its interface appeared.
    Made(u64),
    /// No socket could be opened, and the failure was logged.
    Failed,
}

/// The faces of all rules.
#[derive(Debug, Default)]
pub(super) struct InterfaceFaces {
    faces: BTreeMap<Place, State>,
}

impl InterfaceFaces {
    /// Removes the faces that the rules no longer require.
    fn keep(&mut self, spec: &[Place], dataplane: &mut dyn FaceCommands) {
        self.faces.retain(|place, state| {
            let stays = spec.contains(place);
            if !stays && let State::Made(face_id) = *state {
                info!(interface = place.interface, remote = %place.remote, "face closed: the rules no longer require it on this interface");
                dataplane.remove_face(face_id);
            }
            stays
        });
    }

    /// Creates faces on new interfaces and removes those of removed interfaces. Returns whether interfaces have to be
    /// polled again.
    pub(super) fn poll(&mut self, config: &Config, dataplane: &mut dyn FaceCommands) -> bool {
        if config.bound_faces.is_empty() {
            self.keep(&[], dataplane);
            return false;
        }
        let all = match interfaces() {
            Ok(all) => all,
            Err(error) => {
                warn!(%error, "network interfaces cannot be listed");
                return true;
            }
        };
        let spec = places(&config.bound_faces, &all);
        self.keep(&spec, dataplane);
        for place in spec {
            let known = self.faces.get(&place).copied();
            if !matches!(known, Some(State::Made(_))) {
                let state = add(&place, known.is_none(), config, dataplane);
                self.faces.insert(place, state);
            }
        }
        true
    }
}

/// Returns the peers and interfaces that need a face, without duplicates.
fn places(rules: &[BoundFaces], all: &[Interface]) -> Vec<Place> {
    let mut places = Vec::new();
    for rule in rules {
        let is_requested = |interface: &&Interface| {
            interface.is_running
                && rule.interfaces.iter().any(|one| one.matches(interface))
                && !rule.except.iter().any(|one| one.matches(interface))
        };
        for interface in all.iter().filter(is_requested) {
            let is_there = |uri: &&FaceUri| uri.zone().is_none_or(|zone| zone == interface.name);
            let remotes = rule.remotes.iter().filter(is_there);
            for remote in remotes.filter_map(|uri| uri.socket_address()) {
                // Sending requires a local address of the same family.
                if interface.addresses.iter().any(|own| own.is_ipv4() == remote.is_ipv4()) {
                    let (interface, index) = (interface.name.clone(), interface.index);
                    let remote = on_link(remote.ip(), remote.port(), index);
                    places.push(Place { interface, index, remote });
                }
            }
        }
    }
    places.sort();
    places.dedup();
    places
}

/// Creates a face. Logs a failure only if `news` is set.
fn add(place: &Place, news: bool, config: &Config, dataplane: &mut dyn FaceCommands) -> State {
    let Place { interface, remote, .. } = place;
    let any = match remote {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    // The listener's port, so that the peer associates both directions with one face, whichever side sends first.
    let port = config.listeners.udp.port;
    let options = UdpOptions {
        remote: Some(*remote),
        reuse_port: true,
        ..listeners::udp_options(SocketAddr::new(any, port), &config.faces)
    };
    let socket = match UdpSocket::on_interface(&options, interface) {
        Ok(socket) => socket,
        Err(error) if news => {
            warn!(interface, %remote, %error, "no face could be bound; it is tried again");
            return State::Failed;
        }
        Err(error) => {
            debug!(interface, %remote, %error, "still no face could be bound");
            return State::Failed;
        }
    };
    let face_id = dataplane.allocate_face_id();
    let properties = FaceProperties {
        pit_tokens: PitTokenPolicy::WhenSeen,
        ..FaceProperties::point_to_point(face_id, Scope::NonLocal)
    };
    let options = FaceOptions {
        link: settings::datagram_link(&config.faces, &config.limits),
        ..FaceOptions::datagram(properties, Persistency::Permanent, settings::mtu(&config.faces))
    };
    dataplane.add_face(NewFace {
        ticket: None,
        transport: NewDatagram::Connected(socket).into(),
        options,
        remote: FaceUri::udp(*remote),
        local: FaceUri::udp_device(remote.is_ipv4(), interface, port),
    });
    State::Made(face_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    #[test]
    fn each_matching_peer_and_interface_gets_one_face() {
        let interface = |name: &str, addresses: &[&str]| Interface {
            name: name.to_owned(),
            index: 7,
            is_running: true,
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            ..Interface::default()
        };
        let all = [
            interface("eth0", &["192.0.2.1", "2001:db8::1"]),
            interface("eth1", &["192.0.2.9"]),
            interface("wlan0", &["198.51.100.1"]),
            Interface { is_running: false, ..interface("eth2", &["192.0.2.3"]) },
        ];
        let chosen = |text: &str| -> Vec<String> {
            let rules = parse("test", text).unwrap().bound_faces;
            let places = places(&rules, &all);
            places.iter().map(|place| format!("{} {}", place.interface, place.remote)).collect()
        };
        let two = "remotes = [\"udp4://203.0.113.1:6363\", \"udp6://[2001:db8::9]:6363\"]";
        assert_eq!(
            chosen(&format!("[[bound_faces]]\n{two}\ninterfaces = [\"eth*\"]\n")),
            ["eth0 203.0.113.1:6363", "eth0 [2001:db8::9]:6363", "eth1 203.0.113.1:6363"]
        );
        let one = "remotes = [\"udp4://203.0.113.1:6363\"]";
        let except = format!("[[bound_faces]]\n{one}\nexcept = [\"192.0.2.0/24\"]\n");
        assert_eq!(chosen(&except), ["wlan0 203.0.113.1:6363"]);
        // Overlapping rules create one face.
        assert_eq!(chosen(&format!("{except}{except}")), ["wlan0 203.0.113.1:6363"]);
        assert!(chosen("").is_empty());
        // A link-local peer is reached through the named interface, or through each interface.
        let (any, named) = ("udp6://[fe80::9]:1", "udp6://[fe80::9%eth1]:2");
        let on_links = format!("[[bound_faces]]\nremotes = [\"{any}\", \"{named}\"]\n");
        let all = [interface("eth0", &["fe80::1"]), interface("eth1", &["fe80::2"])];
        let places = places(&parse("test", &on_links).unwrap().bound_faces, &all);
        let found: Vec<_> =
            places.iter().map(|place| format!("{} {}", place.interface, place.remote)).collect();
        assert_eq!(found, ["eth0 [fe80::9%7]:1", "eth1 [fe80::9%7]:1", "eth1 [fe80::9%7]:2"]);
    }
}
