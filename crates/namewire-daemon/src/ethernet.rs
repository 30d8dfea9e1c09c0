//! Ethernet faces, created and removed with network interfaces.

mod driver;
mod port;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use ndn_dataplane::{NewFace, NewPort, PortChange};
use ndn_face::{NewStation, PortId, PortSocket};
use ndn_management::FaceDriver;
use ndn_sys::interface::{Interface, interfaces};
use ndn_sys::netlink::{NetworkDevice, network_devices};
use ndn_types::{FaceUri, PrincipalKey, Scope, Timestamp};
use tracing::{info, warn};

#[cfg(feature = "dpdk")]
pub(super) use self::port::LinkProbe;
pub(super) use self::port::{Context, OwnPort};

use self::driver::{Opened, Refusal};
use self::port::{Device, InterfaceList, Port, Purpose, asked, face_options, on_demand_settings};
use super::faces::FaceSpec;
use crate::config::{Config, Driver};

/// Poll interval without notifications of the kernel.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum interval between polls after notifications, so that a flapping interface costs little.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Time for which a requested interface is kept while its face is being created.
const FACE_IN_THE_MAKING: Duration = Duration::from_secs(10);

/// The interfaces with Ethernet faces, by name.
#[derive(Debug, Default)]
pub(super) struct EthernetPorts {
    ports: BTreeMap<String, Port>,
    /// Interfaces without a socket: index at the failed attempt, and whether a retry can succeed.
    refused: BTreeMap<String, (u32, bool)>,
    next_poll: Timestamp,
    last_poll: Timestamp,
    /// Interfaces whose MTU has changed, with the previous MTU.
    resized: Vec<(String, usize)>,
}

/// An interface whose MTU has changed.
#[derive(Debug)]
pub(super) struct Resized {
    pub(super) name: String,
    before: usize,
    after: usize,
}

impl Resized {
    /// Returns the new frame length of a face on the interface if it has to change: the MTU is its maximum, and a
    /// face that used the full MTU continues to do so.
    pub(super) fn frame_length(&self, length: Option<usize>) -> Option<usize> {
        length.filter(|&length| length > self.after || length == self.before).map(|_| self.after)
    }
}

impl EthernetPorts {
    /// Time of the next [`poll`](Self::poll).
    pub(super) fn next_deadline(&self, config: &Config) -> Option<Timestamp> {
        self.is_used(config).then_some(self.next_poll)
    }

    fn is_used(&self, config: &Config) -> bool {
        config.listeners.ethernet.enabled || !self.ports.is_empty()
    }

    /// Schedules a poll after an interface notification.
    pub(super) fn poll_soon(&mut self) {
        self.refused.clear();
        self.next_poll = self.next_poll.min(self.last_poll + RETRY_INTERVAL);
    }

    /// Returns the listening interfaces for `faces/channels`.
    pub(super) fn channels(&self) -> impl Iterator<Item = String> + '_ {
        let listening = self.ports.iter().filter(|(_, port)| port.purpose.accepts);
        listening.map(|(name, _)| FaceUri::device(name).to_string())
    }

    /// Returns the maximum frame payload of an interface in use.
    pub(super) fn mtu(&self, name: &str) -> Option<usize> {
        self.ports.get(name)?.mtu()
    }

    /// Returns the driver of an interface in use.
    pub(super) fn driver(&self, name: &str) -> Option<&'static str> {
        let port = self.ports.get(name).filter(|port| port.device.is_some())?;
        Some(if port.own.is_some() { "dpdk" } else { port.driver.as_str() })
    }

    /// Returns the interfaces whose MTU has changed since the last call.
    pub(super) fn take_resized(&mut self) -> Vec<Resized> {
        let resized = std::mem::take(&mut self.resized).into_iter();
        let known = resized.filter_map(|(name, before)| {
            let after = self.mtu(&name)?;
            Some(Resized { name, before, after })
        });
        known.collect()
    }

    /// Creates ports and faces on new interfaces, and removes those of removed or unconfigured interfaces. `has_face`
    /// returns whether an interface has a face.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, has_face: impl Fn(&str) -> bool) {
        if !self.is_used(context.config) || context.now < self.next_poll {
            return;
        }
        self.last_poll = context.now;
        self.next_poll = context.now + POLL_INTERVAL;
        let (all, addresses) = match network_devices().and_then(|all| Ok((all, interfaces()?))) {
            Ok(found) => found,
            Err(error) => return warn!(%error, "network interfaces cannot be listed"),
        };
        self.update(context, &all, &addresses, has_face);
    }

    fn update(
        &mut self,
        context: &mut Context<'_>,
        all: &[NetworkDevice],
        addresses: &[Interface],
        has_face: impl Fn(&str) -> bool,
    ) {
        let usable: BTreeMap<&str, &NetworkDevice> = all
            .iter()
            .filter(|link| is_usable(link))
            .map(|link| (link.name.as_str(), link))
            .collect();
        let purpose_of = |link: &NetworkDevice| {
            let interface = as_interface(link, addresses);
            Purpose::of(&context.config.listeners.ethernet, &interface)
        };
        let now = context.now;
        let mut removed = Vec::new();
        for (name, port) in &mut self.ports {
            if port.follow_own(name, context) {
                continue;
            }
            let link = usable.get(name.as_str()).copied();
            let purpose = link.map_or(port.purpose, purpose_of);
            let is_requested = link.is_some() && !purpose.is_none();
            if !is_requested && !has_face(name) && port.kept_until <= now {
                info!(interface = name, "leaving an interface");
                context.dataplane.change_port(port.id, PortChange::Remove);
                removed.push(name.clone());
            } else {
                port.set_purpose(purpose, context);
                let before = port.mtu();
                port.follow(name, link, &InterfaceList { all, addresses }, context);
                if port.is_suspended && !port.is_refused {
                    self.next_poll = now + RETRY_INTERVAL;
                }
                let after = port.mtu();
                self.resized
                    .extend(before.filter(|_| after != before).map(|mtu| (name.clone(), mtu)));
            }
        }
        for name in removed {
            self.ports.remove(&name);
        }
        for (name, link) in usable {
            let purpose = purpose_of(link);
            let before = self.refused.get(name).filter(|(index, _)| *index == link.index);
            let is_hopeless = before.is_some_and(|(_, is_busy)| !is_busy);
            let is_new = !self.ports.contains_key(name) && !is_hopeless && !purpose.is_none();
            let was_logged = before.is_some();
            let found = InterfaceList { all, addresses };
            if is_new && let Err(error) = self.open(link, purpose, None, &found, context) {
                if !was_logged {
                    warn!(interface = name, %error, "no Ethernet faces on an interface");
                }
                self.refused.insert(name.to_owned(), (link.index, error.is_busy));
            }
        }
    }

    /// Adds a device with a driver in this process. It stays until the forwarder stops.
    pub(crate) fn add_own(&mut self, own: OwnPort, context: &mut Context<'_>) {
        let OwnPort { name, interface, mac, mtu, accepts, group, is_up: probe, socket } = own;
        let Some(id) = self.free_number() else { return };
        let is_up = probe.0();
        info!(interface = name, accepts, is_up, "using a device");
        context.dataplane.add_port(NewPort {
            port: id,
            name: Arc::from(name.as_str()),
            is_up,
            accepts,
            sockets: vec![PortSocket::Own(socket)],
            on_demand: on_demand_settings(mtu, context.config),
        });
        let mut port = Port {
            id,
            purpose: Purpose { accepts, group },
            device: Some(Device { index: interface, mtu }),
            mac: Some(mac),
            // Unused: the device has only one driver.
            asked: Driver::Auto,
            driver: FaceDriver::Packet,
            chosen: None,
            payload_max: mtu,
            is_suspended: false,
            is_up,
            group_face: None,
            is_stale: false,
            is_refused: false,
            kept_until: Timestamp::ZERO,
            busy_count: 0,
            own: Some(probe),
        };
        port.add_group(&name, context);
        self.ports.insert(name, port);
    }

    fn free_number(&self) -> Option<PortId> {
        let numbers: Vec<u32> = self.ports.values().map(|port| port.id.0).collect();
        (0..PortId::COUNT_MAX).find(|number| !numbers.contains(number)).map(PortId)
    }

    /// Opens an interface.
    fn open(
        &mut self,
        link: &NetworkDevice,
        purpose: Purpose,
        chosen: Option<FaceDriver>,
        found: &InterfaceList<'_>,
        context: &mut Context<'_>,
    ) -> Result<&mut Port, Refusal> {
        let device = Device::of(link);
        let asked = asked(chosen, context.config);
        let Opened { sockets, driver, payload_max } =
            found.request(link, purpose, asked, context).open()?;
        let free = self.free_number();
        let id = free.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::OutOfMemory))?;
        let is_up = link.state.is_running();
        let accepts = purpose.accepts;
        info!(interface = link.name, accepts, driver = %driver, "using an interface");
        context.dataplane.add_port(NewPort {
            port: id,
            name: link.name.as_str().into(),
            is_up,
            accepts,
            sockets,
            on_demand: on_demand_settings(device.mtu.min(payload_max), context.config),
        });
        let mut port = Port {
            id,
            purpose,
            device: Some(device),
            mac: link.mac,
            asked,
            driver,
            chosen,
            payload_max,
            is_suspended: false,
            busy_count: 0,
            is_up,
            group_face: None,
            is_stale: false,
            is_refused: false,
            kept_until: Timestamp::ZERO,
            own: None,
        };
        port.add_group(&link.name, context);
        Ok(match self.ports.entry(link.name.clone()) {
            Entry::Occupied(mut occupied) => {
                occupied.insert(port);
                occupied.into_mut()
            }
            Entry::Vacant(vacant) => vacant.insert(port),
        })
    }

    /// Creates a face of a station on an interface.
    ///
    /// # Errors
    /// The interface cannot be used.
    pub(super) fn new_face(
        &mut self,
        mac: [u8; 6],
        name: &str,
        spec: &FaceSpec,
        context: &mut Context<'_>,
    ) -> Result<NewFace, String> {
        let driver = spec.options.driver;
        let is_other = |port: &Port| driver.is_some_and(|driver| driver != port.driver);
        if self.ports.get(name).is_none_or(|port| port.device.is_none() || is_other(port)) {
            let all = network_devices().map_err(|error| error.to_string())?;
            let addresses = interfaces().map_err(|error| error.to_string())?;
            let link = all.iter().find(|link| link.name == name);
            let link = link.ok_or_else(|| format!("there is no interface {name}"))?;
            check_usable(link, &all)?;
            let found = InterfaceList { all: &all, addresses: &addresses };
            if let Some(port) = self.ports.get_mut(name) {
                port.follow(name, Some(link), &found, context);
                if let Some(driver) = driver.filter(|_| is_other(port)) {
                    let before = port.mtu();
                    port.change_driver(driver, link, &found, context)
                        .map_err(|refusal| refusal.to_string())?;
                    self.resized.extend(before.map(|mtu| (name.to_owned(), mtu)));
                }
            } else {
                let interface = as_interface(link, &addresses);
                let purpose = Purpose::of(&context.config.listeners.ethernet, &interface);
                self.open(link, purpose, driver, &found, context)
                    .map_err(|error| format!("{name} cannot be used: {error}"))?;
            }
        }
        let port = self.ports.get_mut(name).ok_or_else(|| format!("{name} cannot be used"))?;
        let mtu = port.mtu().ok_or_else(|| format!("{name} cannot be used"))?;
        port.kept_until = context.now + FACE_IN_THE_MAKING;
        let face_id = context.dataplane.allocate_face_id();
        let peer = PrincipalKey::station(mac);
        let properties = spec.properties(face_id, Scope::NonLocal, Some(peer));
        let mut options = face_options(properties, spec.persistency, mtu, context.config);
        spec.apply(&mut options, context.config, Some(mtu));
        Ok(NewFace {
            ticket: spec.ticket,
            transport: NewStation { port: port.id, mac }.into(),
            options,
            remote: FaceUri::ethernet(mac),
            local: FaceUri::device(name),
        })
    }
}

/// Returns whether the interface receives frames itself: those of a bridge port or bond member go to the bridge or
/// bond.
fn is_usable(link: &NetworkDevice) -> bool {
    link.is_ethernet() && !link.is_loopback() && link.master.is_none()
}

/// Returns the reason why the interface receives no frames, as text.
fn check_usable(link: &NetworkDevice, all: &[NetworkDevice]) -> Result<(), String> {
    let name = &link.name;
    if is_usable(link) {
        return Ok(());
    }
    let Some(master) = link.master else { return Err(format!("{name} does not carry Ethernet")) };
    let whole = all.iter().find(|other| other.index == master);
    let whole = whole.map_or_else(|| format!("interface {master}"), |whole| whole.name.clone());
    Err(format!("{name} is a part of {whole}: make the face on that"))
}

/// Converts an interface for the configuration's rules.
fn as_interface(link: &NetworkDevice, addresses: &[Interface]) -> Interface {
    let with_addresses = addresses.iter().find(|interface| interface.index == link.index);
    Interface {
        name: link.name.clone(),
        index: link.index,
        can_multicast: link.can_multicast,
        mac: link.mac,
        ..with_addresses.cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use ndn_sys::netlink::LinkState;

    use super::*;

    #[test]
    fn faces_on_bridge_and_bond_members_are_rejected() {
        let link = |name: &str, index: u32, master: Option<u32>| NetworkDevice {
            name: name.to_owned(),
            index,
            hardware_type: 1,
            kind: None,
            mac: Some([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
            state: LinkState::Unknown,
            can_multicast: true,
            master,
            lower: None,
            vlan: None,
            queues: (1, 1),
            xdp_program: None,
        };
        let all = [link("br0", 1, None), link("eth1", 2, Some(1)), link("eth2", 3, Some(9))];
        assert_eq!(check_usable(&all[0], &all), Ok(()));
        let refused = check_usable(&all[1], &all).unwrap_err();
        assert!(refused.contains("eth1 is a part of br0"), "{refused}");
        let refused = check_usable(&all[2], &all).unwrap_err();
        assert!(refused.contains("eth2 is a part of interface 9"), "{refused}");
        let tunnel = NetworkDevice { mac: None, ..link("tun0", 4, None) };
        let refused = check_usable(&tunnel, &all).unwrap_err();
        assert!(refused.contains("does not carry Ethernet"), "{refused}");
    }
}
