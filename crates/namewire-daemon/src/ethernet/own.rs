//! Devices with a driver in this process, unknown to the kernel.

use std::fmt;
use std::sync::Arc;

use ndn_dataplane::{Command, NewPort, PortChange};
use ndn_face::PortSocket;
use ndn_management::FaceDriver;
use ndn_sys::packet::FramePort;
use tracing::info;

use super::port::{Port, change, station_options};
use super::{Context, Device, EthernetPorts, Purpose};
use crate::config::Driver;

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

impl EthernetPorts {
    /// Adds a device with a driver in this process. It stays until the forwarder stops.
    pub(crate) fn add_own(&mut self, own: OwnPort, context: &mut Context<'_>) {
        let OwnPort { name, interface, mac, mtu, accepts, group, is_up: probe, socket } = own;
        let Some(id) = self.free_number() else { return };
        let is_up = probe.0();
        info!(interface = name, accepts, is_up, "using a device");
        context.dataplane.send(Command::AddPort(Box::new(NewPort {
            port: id,
            name: Arc::from(name.as_str()),
            is_up,
            accepts,
            sockets: vec![PortSocket::Own(socket)],
            stations: station_options(mtu, context.config),
        })));
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
            kept_until_ns: 0,
            busy_count: 0,
            own: Some(probe),
        };
        port.add_group(&name, context);
        self.ports.insert(name, port);
    }
}

impl Port {
    /// Polls the link of a device unknown to the kernel. Returns false if `name` is no such device.
    pub(super) fn follow_own(&mut self, name: &str, context: &mut Context<'_>) -> bool {
        let Some(LinkProbe(probe)) = &self.own else { return false };
        let is_up = probe();
        if std::mem::replace(&mut self.is_up, is_up) != is_up {
            info!(interface = name, is_up, "the link of a device");
            change(context.dataplane, self.id, PortChange::Link(is_up));
        }
        true
    }
}
