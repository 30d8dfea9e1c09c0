//! UDP multicast faces, created and removed with network interfaces.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use ndn_dataplane::NewFace;
use ndn_face::{FaceOptions, NewDatagram};
use ndn_forwarding::{FaceProperties, PitTokenPolicy};
use ndn_sys::interface::{Interface, interfaces};
use ndn_sys::udp::{MulticastOptions, UdpSocket};
use ndn_types::{FaceUri, LinkType, Persistency, PrincipalKey, Scope};
use tracing::{info, warn};

use super::control::commands::FaceCommands;
use super::settings;
use crate::config::{Config, Multicast};

/// Key of a face; an operator may have destroyed the face since its interface appeared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    interface: String,
    index: u32,
    /// Source address.
    source: IpAddr,
    group: SocketAddr,
    ad_hoc: bool,
}

/// The UDP multicast faces.
#[derive(Debug, Default)]
pub(super) struct MulticastFaces {
    /// FaceIds; `None` if no socket could be opened.
    faces: BTreeMap<Place, Option<u64>>,
}

impl MulticastFaces {
    /// Removes the faces that the configuration no longer requires.
    fn keep(&mut self, spec: &[Place], dataplane: &mut dyn FaceCommands) {
        self.faces.retain(|place, face_id| {
            let stays = spec.contains(place);
            if !stays && let Some(face_id) = *face_id {
                info!(interface = place.interface, group = %place.group, "leaving a UDP group");
                dataplane.remove_face(face_id);
            }
            stays
        });
    }

    /// Creates faces on new interfaces and removes those of removed interfaces. Returns whether interfaces have to be
    /// polled again.
    pub(super) fn poll(&mut self, config: &Config, dataplane: &mut dyn FaceCommands) -> bool {
        if !config.listeners.multicast.enabled {
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
        let spec = places(&config.listeners.multicast, &all);
        self.keep(&spec, dataplane);
        for place in spec {
            if let Entry::Vacant(vacant) = self.faces.entry(place) {
                let face_id = add(vacant.key(), config, dataplane);
                vacant.insert(face_id);
            }
        }
        true
    }
}

/// Returns the interfaces and addresses that need a face.
fn places(config: &Multicast, all: &[Interface]) -> Vec<Place> {
    let is_requested = |interface: &&Interface| {
        let can = interface.is_running && interface.can_multicast && !interface.is_loopback;
        can && config.interfaces.iter().any(|rule| rule.matches(interface))
            && !config.except.iter().any(|rule| rule.matches(interface))
    };
    let mut places = Vec::new();
    for interface in all.iter().filter(is_requested) {
        for &group in &config.groups {
            // A link-local group requires a link-local source address.
            let is_source = |address: &&IpAddr| match address {
                IpAddr::V4(_) => group.is_ipv4(),
                IpAddr::V6(address) => group.is_ipv6() && address.is_unicast_link_local(),
            };
            if let Some(&source) = interface.addresses.iter().find(is_source) {
                let (interface, index) = (interface.name.clone(), interface.index);
                places.push(Place { interface, index, source, group, ad_hoc: config.ad_hoc });
            }
        }
    }
    places
}

/// Creates a face, or logs the reason of the failure.
fn add(place: &Place, config: &Config, dataplane: &mut dyn FaceCommands) -> Option<u64> {
    let source = match place.source {
        IpAddr::V4(source) => Some(source),
        IpAddr::V6(_) => None,
    };
    let options = MulticastOptions { group: place.group, interface: place.index, source };
    let socket = match UdpSocket::multicast(&options) {
        Ok(socket) => socket,
        Err(error) => {
            warn!(interface = place.interface, group = %place.group, %error, "cannot join a UDP group");
            return None;
        }
    };
    let zoned = |address: IpAddr| match address {
        IpAddr::V4(_) => SocketAddr::new(address, place.group.port()),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, place.group.port(), 0, place.index).into(),
    };
    let group = zoned(place.group.ip());
    let face_id = dataplane.allocate_face_id();
    let properties = FaceProperties {
        link_type: if place.ad_hoc { LinkType::AdHoc } else { LinkType::MultiAccess },
        // All stations on the link would receive the tokens, which only this forwarder can use.
        pit_tokens: PitTokenPolicy::Never,
        // Any host on the link may send to the group.
        principal: PrincipalKey::remote(group),
        ..FaceProperties::point_to_point(face_id, Scope::NonLocal)
    };
    let mtu = settings::mtu(&config.faces);
    let options = FaceOptions {
        link: settings::datagram_link(&config.faces, &config.limits),
        ..FaceOptions::datagram(properties, Persistency::Permanent, mtu)
    };
    dataplane.add_face(NewFace {
        ticket: None,
        transport: NewDatagram::Group(socket, group).into(),
        options,
        remote: FaceUri::udp(group),
        local: FaceUri::udp(zoned(place.source)),
    });
    info!(interface = place.interface, %group, "joining a UDP group");
    Some(face_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_follow_the_lists_and_the_interface_flags() {
        let interface = |name: &str, addresses: &[&str]| Interface {
            name: name.to_owned(),
            index: 3,
            is_running: true,
            can_multicast: true,
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            ..Interface::default()
        };
        let all = [
            interface("eth0", &["192.0.2.1", "2001:db8::1", "fe80::1"]),
            interface("eth1", &["2001:db8::2"]),
            interface("wlan0", &["192.0.2.2"]),
            Interface { is_loopback: true, ..interface("lo", &["127.0.0.1"]) },
            Interface { is_running: false, ..interface("down", &["192.0.2.3"]) },
            Interface { can_multicast: false, ..interface("tun0", &["192.0.2.4"]) },
        ];
        let chosen = |config: &Multicast| -> Vec<String> {
            let places = places(config, &all);
            places.iter().map(|place| format!("{} {}", place.interface, place.source)).collect()
        };
        let config = Multicast::default();
        assert_eq!(chosen(&config), ["eth0 192.0.2.1", "eth0 fe80::1", "wlan0 192.0.2.2"]);
        let except = vec!["eth*".parse().unwrap()];
        assert_eq!(chosen(&Multicast { except, ..config.clone() }), ["wlan0 192.0.2.2"]);
        let interfaces = vec!["192.0.2.1/32".parse().unwrap()];
        let groups = vec![config.groups[0]];
        assert_eq!(chosen(&Multicast { interfaces, groups, ..config }), ["eth0 192.0.2.1"]);
    }
}
