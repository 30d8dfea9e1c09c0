//! A network interface in use: applies changes of the interface to its socket and faces.

use std::fmt;

use ndn_dataplane::{NewFace, PortChange};
use ndn_face::{FaceOptions, NewStation, OnDemandSettings, PortId};
use ndn_forwarding::{FaceProperties, PitTokenPolicy};
use ndn_management::FaceDriver;
use ndn_sys::interface::Interface;
use ndn_sys::netlink::NetworkDevice;
use ndn_sys::packet::FramePort;
use ndn_types::{FaceUri, LinkType, Persistency, PrincipalKey, Scope, Timestamp};
use tracing::{info, warn};

use super::driver::{Opened, Refusal, Request};
use crate::config::{Config, Driver, Ethernet};
use crate::control::commands::PortCommands;
use crate::settings;

/// Maximum retries while a just released interface is busy; another driver is used after them, because another
/// process then holds the interface.
const BUSY_MAX: u32 = 10;

/// Maximum received frame: the largest packet with its link header, and a reserve.
const PAYLOAD_MAX: u32 = 16 << 10;

/// Use of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Purpose {
    /// Stations that send get on-demand faces.
    pub(super) accepts: bool,
    /// The multicast group that is joined and has a face.
    pub(super) group: Option<[u8; 6]>,
}

impl Purpose {
    pub(super) fn of(config: &Ethernet, interface: &Interface) -> Self {
        Self { accepts: config.listens_on(interface), group: config.group_on(interface) }
    }

    pub(super) fn is_none(self) -> bool {
        !self.accepts && self.group.is_none()
    }
}

/// The network interface of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) index: u32,
    pub(super) mtu: usize,
}

impl Device {
    pub(super) fn of(link: &NetworkDevice) -> Self {
        Self { index: link.index, mtu: link.mtu.min(PAYLOAD_MAX) as usize }
    }
}

/// Time, settings and data plane for operations on ports.
pub(crate) struct Context<'a> {
    pub(crate) now: Timestamp,
    pub(crate) config: &'a Config,
    pub(crate) dataplane: &'a mut (dyn PortCommands + 'static),
}

/// Reports the link state of a device that the kernel does not know.
pub(crate) struct LinkProbe(pub(crate) Box<dyn Fn() -> bool + Send>);

impl fmt::Debug for LinkProbe {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LinkProbe")
    }
}

/// A device with a driver in this process, for Ethernet faces.
#[derive(Debug)]
pub(crate) struct OwnPort {
    /// Name in `dev://name`.
    pub(crate) name: String,
    /// Index outside the range of the kernel's interface indexes.
    pub(crate) interface: u32,
    /// MAC address.
    pub(crate) mac: [u8; 6],
    /// Maximum frame payload, bytes.
    pub(crate) mtu: usize,
    /// Stations that send get on-demand faces.
    pub(crate) accepts: bool,
    /// Multicast group that it receives and that has a face.
    pub(crate) group: Option<[u8; 6]>,
    /// Link state.
    pub(crate) is_up: LinkProbe,
    /// The driver.
    pub(crate) socket: Box<dyn FramePort>,
}

/// A network interface in use.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) id: PortId,
    pub(super) purpose: Purpose,
    /// `None` while the interface does not exist: permanent faces wait for it.
    pub(super) device: Option<Device>,
    pub(super) mac: Option<[u8; 6]>,
    /// The requested driver, and the driver in use.
    pub(super) asked: Driver,
    pub(super) driver: FaceDriver,
    /// Driver chosen by an operator.
    pub(super) chosen: Option<FaceDriver>,
    /// Maximum frame payload that the driver supports, bytes.
    pub(super) payload_max: usize,
    /// The socket is closed to make room for another one.
    pub(super) is_suspended: bool,
    pub(super) is_up: bool,
    /// FaceId of the group face, also after an operator has destroyed it.
    pub(super) group_face: Option<u64>,
    /// The socket has joined another group than configured.
    pub(super) is_stale: bool,
    /// Retries since the interface was released.
    pub(super) busy_count: u32,
    /// No socket could be opened, and the failure was logged.
    pub(super) is_refused: bool,
    /// The interface is kept until then without a face.
    pub(super) kept_until: Timestamp,
    /// Link probe of a device with a driver in this process, which the kernel does not know.
    pub(super) own: Option<LinkProbe>,
}

/// The existing network interfaces.
#[derive(Debug, Clone, Copy)]
pub(super) struct InterfaceList<'a> {
    pub(super) all: &'a [NetworkDevice],
    pub(super) addresses: &'a [Interface],
}

impl<'a> InterfaceList<'a> {
    pub(super) fn request(
        &self,
        link: &'a NetworkDevice,
        purpose: Purpose,
        driver: Driver,
        context: &Context<'a>,
    ) -> Request<'a> {
        let (config, workers) = (context.config, context.dataplane.port_workers());
        let has_address =
            self.addresses.iter().any(|one| one.index == link.index && !one.addresses.is_empty());
        let payload_max = Device::of(link).mtu;
        let config = &config.listeners.ethernet;
        let (all, group) = (self.all, purpose.group);
        let retries = false;
        Request { link, all, has_address, group, payload_max, driver, retries, workers, config }
    }
}

/// Returns the driver to request: an operator's choice precedes the configuration.
pub(super) fn asked(chosen: Option<FaceDriver>, config: &Config) -> Driver {
    match chosen {
        Some(FaceDriver::Packet) => Driver::Packet,
        Some(FaceDriver::Xdp) => Driver::Xdp,
        None => config.listeners.ethernet.driver,
    }
}

impl Port {
    /// Returns the maximum frame payload while the interface exists.
    pub(super) fn mtu(&self) -> Option<usize> {
        self.device.map(|device| device.mtu.min(self.payload_max))
    }

    /// Replaces the socket.
    fn use_socket(&mut self, opened: Opened, device: Device, context: &mut Context<'_>) {
        let Opened { sockets, driver, payload_max } = opened;
        (self.driver, self.payload_max, self.device) = (driver, payload_max, Some(device));
        (self.is_refused, self.is_stale, self.is_suspended) = (false, false, false);
        self.busy_count = 0;
        let on_demand = on_demand_settings(device.mtu.min(payload_max), context.config);
        context.dataplane.change_port(self.id, PortChange::Sockets(sockets, on_demand));
    }

    /// Changes the driver if the interface can be opened with it.
    pub(super) fn change_driver(
        &mut self,
        driver: FaceDriver,
        link: &NetworkDevice,
        found: &InterfaceList<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        let asked = asked(Some(driver), context.config);
        let opened = found.request(link, self.purpose, asked, context).open()?;
        info!(interface = link.name, %driver, "another driver");
        (self.chosen, self.asked) = (Some(driver), asked);
        self.use_socket(opened, Device::of(link), context);
        Ok(())
    }

    /// Changes the purpose of the port. Faces of stations stay.
    pub(super) fn set_purpose(&mut self, purpose: Purpose, context: &mut Context<'_>) {
        let before = std::mem::replace(&mut self.purpose, purpose);
        if before == purpose {
            return;
        }
        let leaves_group = before.group != purpose.group;
        let accepts = purpose.accepts;
        context.dataplane.change_port(self.id, PortChange::Purpose { accepts, leaves_group });
        if leaves_group {
            self.group_face = None;
            // Receive settings are bound to the socket: `follow` opens another one.
            self.is_stale = true;
        }
    }

    /// Applies changes of the interface.
    pub(super) fn follow(
        &mut self,
        name: &str,
        link: Option<&NetworkDevice>,
        found: &InterfaceList<'_>,
        context: &mut Context<'_>,
    ) {
        let device = link.map(Device::of);
        let is_other = |old: Device| device.is_none_or(|new| new.index != old.index);
        if self.device.is_some_and(is_other) {
            info!(interface = name, "an interface is gone");
            context.dataplane.change_port(self.id, PortChange::Gone);
            (self.device, self.is_up, self.group_face) = (None, false, None);
            self.is_suspended = false;
        }
        let Some((link, device)) = link.zip(device) else { return };
        let asked = asked(self.chosen, context.config);
        let is_other_driver = std::mem::replace(&mut self.asked, asked) != asked;
        if self.device != Some(device) || self.is_stale || is_other_driver {
            if self.gives_up_first(asked) {
                context.dataplane.change_port(self.id, PortChange::Suspend);
                (self.is_stale, self.is_suspended) = (true, true);
                return;
            }
            let retries = self.is_suspended && self.busy_count < BUSY_MAX;
            let request = found.request(link, self.purpose, asked, context);
            let request = Request { retries, ..request };
            let opened = match request.open() {
                Ok(opened) => opened,
                Err(error) => {
                    self.is_stale = true;
                    self.busy_count += u32::from(error.is_busy);
                    if !std::mem::replace(&mut self.is_refused, true) {
                        warn!(interface = name, %error, "an interface cannot be used");
                    }
                    return;
                }
            };
            info!(interface = name, mtu = device.mtu, driver = %opened.driver, "an interface has changed");
            self.mac = link.mac;
            self.use_socket(opened, device, context);
            self.add_group(name, context);
        }
        if std::mem::replace(&mut self.mac, link.mac) != link.mac
            && let Some(mac) = link.mac
        {
            context.dataplane.change_port(self.id, PortChange::Address(mac));
        }
        let is_up = link.state.is_running();
        if std::mem::replace(&mut self.is_up, is_up) != is_up {
            info!(interface = name, state = link.state.name(), "the link of an interface");
            context.dataplane.change_port(self.id, PortChange::Link(is_up));
        }
    }

    /// Polls the link of a device unknown to the kernel. Returns false if `name` is no such device.
    pub(super) fn follow_own(&mut self, name: &str, context: &mut Context<'_>) -> bool {
        let Some(LinkProbe(probe)) = &self.own else { return false };
        let is_up = probe();
        if std::mem::replace(&mut self.is_up, is_up) != is_up {
            info!(interface = name, is_up, "the link of a device");
            context.dataplane.change_port(self.id, PortChange::Link(is_up));
        }
        true
    }

    /// Returns whether the socket must be closed before another one can be opened: AF_XDP uses a device exclusively.
    fn gives_up_first(&self, asked: Driver) -> bool {
        let has_it = self.driver == FaceDriver::Xdp && self.device.is_some() && !self.is_suspended;
        has_it && asked != Driver::Packet
    }

    /// Creates the group face unless it was created since the interface appeared.
    pub(super) fn add_group(&mut self, name: &str, context: &mut Context<'_>) {
        let (Some(group), Some(mtu), None) = (self.purpose.group, self.mtu(), self.group_face)
        else {
            return;
        };
        let is_ad_hoc = context.config.listeners.ethernet.ad_hoc;
        let face_id = context.dataplane.allocate_face_id();
        let properties = FaceProperties {
            link_type: if is_ad_hoc { LinkType::AdHoc } else { LinkType::MultiAccess },
            // All stations on the link would receive the tokens, which only this forwarder can use.
            pit_tokens: PitTokenPolicy::Never,
            // Any station on the link may send to the group.
            principal: PrincipalKey::station(group),
            ..FaceProperties::point_to_point(face_id, Scope::NonLocal)
        };
        context.dataplane.add_face(NewFace {
            ticket: None,
            transport: NewStation { port: self.id, mac: group }.into(),
            options: face_options(properties, Persistency::Permanent, mtu, context.config),
            remote: FaceUri::ethernet(group),
            local: FaceUri::device(name),
        });
        self.group_face = Some(face_id);
    }
}

pub(super) fn on_demand_settings(mtu: usize, config: &Config) -> OnDemandSettings {
    OnDemandSettings { mtu, idle_timeout: config.listeners.ethernet.idle_timeout }
}

pub(super) fn face_options(
    properties: FaceProperties,
    persistency: Persistency,
    mtu: usize,
    config: &Config,
) -> FaceOptions {
    let mut options = FaceOptions {
        link: settings::datagram_link(&config.faces, &config.limits),
        idle_timeout: Some(config.listeners.ethernet.idle_timeout),
        ..FaceOptions::datagram(properties, persistency, mtu)
    };
    options.link.mtu = Some(mtu);
    options
}
