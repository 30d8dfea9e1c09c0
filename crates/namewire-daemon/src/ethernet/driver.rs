//! Opens a network interface with the configured or the most suitable driver.

use std::fmt;
use std::io;

use ndn_face::{ETHER_TYPE, PortSocket};
use ndn_management::FaceDriver;
use ndn_sys::device::queues;
use ndn_sys::netlink::{NetworkDevice, xdp_support};
use ndn_sys::packet::{PacketSocket, PacketSocketOptions};
use ndn_sys::privileges::raise_locked_memory;
use ndn_sys::xdp::{XdpError, XdpOptions, XdpPort, XdpSetup};
use tracing::{info, warn};

use crate::config::{Driver, Ethernet};
use crate::frames::{Facts, has_vlans};

/// Request to open an interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) link: &'a NetworkDevice,
    /// All interfaces.
    pub(super) all: &'a [NetworkDevice],
    pub(super) has_address: bool,
    pub(super) group: Option<[u8; 6]>,
    /// Maximum useful frame payload, bytes.
    pub(super) payload_max: usize,
    pub(super) driver: Driver,
    /// Do not fall back to another driver if the suitable one is busy.
    pub(super) retries: bool,
    /// Number of workers that queues may be distributed over.
    pub(super) workers: usize,
    pub(super) config: &'a Ethernet,
}

/// An opened interface.
#[derive(Debug)]
pub(super) struct Opened {
    /// Sockets, at most one per worker.
    pub(super) sockets: Vec<PortSocket>,
    pub(super) driver: FaceDriver,
    /// Maximum frame payload that the driver supports, bytes.
    pub(super) payload_max: usize,
}

/// Reason why an interface could not be opened.
#[derive(Debug)]
pub(super) struct Refusal {
    text: String,
    /// Another process uses the interface and may release it.
    pub(super) is_busy: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl From<XdpError> for Refusal {
    fn from(error: XdpError) -> Self {
        Self { text: error.to_string(), is_busy: error.is_busy() }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
        let hint = if is_denied { " (CAP_NET_RAW is missing)" } else { "" };
        Self { text: format!("cannot open a packet socket: {error}{hint}"), is_busy: false }
    }
}

impl Request<'_> {
    /// Opens the interface with the requested driver; with [`Driver::Auto`], with the most suitable driver that the
    /// process has the rights for.
    pub(super) fn open(&self) -> Result<Opened, Refusal> {
        match self.driver {
            Driver::Packet => self.open_packet(),
            Driver::Xdp => {
                let (link, opened) = (self.link, self.open_xdp()?);
                if has_vlans(link, self.all) {
                    warn!(
                        interface = link.name,
                        "it has VLANs: where its driver takes their tags off, their frames are taken for its own"
                    );
                }
                Ok(opened)
            }
            Driver::Auto => self.open_by_itself(),
        }
    }

    /// Opens the interface with the most suitable driver.
    fn open_by_itself(&self) -> Result<Opened, Refusal> {
        let link = self.link;
        let support = xdp_support().ok();
        let support = support.map(|all| all.get(&link.index).copied().unwrap_or_default());
        let facts = Facts::of(link, self.all, support, self.has_address);
        // The attached program may be this process's own.
        let facts = Facts { is_taken: facts.is_taken && !self.retries, ..facts };
        match facts.pick() {
            (FaceDriver::Packet, _) => self.open_packet(),
            (FaceDriver::Xdp, why) => self.open_xdp().or_else(|refusal| {
                if self.retries && refusal.is_busy {
                    return Err(refusal);
                }
                info!(interface = link.name, why, %refusal, "AF_XDP was tried");
                self.open_packet()
            }),
        }
    }

    fn ring_bytes(&self) -> usize {
        usize::try_from(self.config.ring.0).unwrap_or(usize::MAX)
    }

    fn open_packet(&self) -> Result<Opened, Refusal> {
        let socket = PacketSocket::open(&PacketSocketOptions {
            interface: self.link.index,
            protocol: ETHER_TYPE,
            group: self.group,
            payload_max: self.payload_max,
            ring_bytes: self.ring_bytes(),
        })?;
        let payload_max = self.payload_max;
        Ok(Opened { sockets: vec![socket.into()], driver: FaceDriver::Packet, payload_max })
    }

    fn open_xdp(&self) -> Result<Opened, Refusal> {
        let link = self.link;
        raise_locked_memory();
        let (receive_queues, transmit_queues) = queues(&link.name).unwrap_or(link.queues);
        let options = XdpOptions {
            interface: link.index,
            protocol: ETHER_TYPE,
            mac: link.mac.unwrap_or_default(),
            group: self.group,
            payload_max: self.payload_max,
            queue_count: receive_queues,
            ring_bytes: self.ring_bytes(),
            mode: None,
        };
        // Each worker needs a transmit queue.
        let workers = u32::try_from(self.workers).unwrap_or(u32::MAX).min(transmit_queues);
        let parts = XdpPort::open_parts(&options, workers)?;
        let Some(first) = parts.first() else { return Err(no_queue().into()) };
        let XdpSetup { mode, zero_copy, multi_buffer, payload_max, pages, .. } = first.setup();
        let queues: Vec<u32> = parts.iter().map(|part| part.setup().queue_count).collect();
        info!(
            interface = link.name,
            ?mode,
            zero_copy,
            multi_buffer,
            payload_max,
            queues_of_workers = ?queues,
            ?pages,
            "AF_XDP"
        );
        if payload_max < self.payload_max {
            warn!(
                interface = link.name,
                payload_max,
                "longer frames of others are lost: give their faces, or the interface, that MTU"
            );
        }
        let sockets = parts.into_iter().map(PortSocket::from).collect();
        Ok(Opened { sockets, driver: FaceDriver::Xdp, payload_max })
    }
}

fn no_queue() -> io::Error {
    io::ErrorKind::NotFound.into()
}
