//! The drivers of network devices behind one interface.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use ndn_sys::packet::{Frame, FramePort, PacketSocket};
use ndn_sys::xdp::XdpPort;

/// The driver of a network device.
#[derive(Debug)]
pub enum PortSocket {
    /// AF_PACKET: the kernel puts headers on and takes them off.
    Packet(PacketSocket),
    /// AF_XDP: frames bypass the network stack.
    Xdp(Box<XdpPort>),
    /// A driver outside the kernel (DPDK).
    Own(Box<dyn FramePort>),
}

impl From<PacketSocket> for PortSocket {
    fn from(socket: PacketSocket) -> Self {
        Self::Packet(socket)
    }
}

impl From<XdpPort> for PortSocket {
    fn from(port: XdpPort) -> Self {
        Self::Xdp(Box::new(port))
    }
}

impl PortSocket {
    /// The network device, by the kernel's number.
    #[inline]
    pub(crate) fn interface(&self) -> u32 {
        match self {
            Self::Packet(socket) => socket.interface(),
            Self::Xdp(port) => port.interface(),
            Self::Own(port) => port.interface(),
        }
    }

    /// The descriptors to poll. The first one sends.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (single, xdp) = match self {
            Self::Packet(socket) => (Some(socket.as_fd()), None),
            Self::Xdp(port) => (None, Some(port.descriptors())),
            Self::Own(port) => (Some(port.descriptor()), None),
        };
        single.into_iter().chain(xdp.into_iter().flatten())
    }

    /// Prepares the next frame for [`peek`](Self::peek).
    #[inline]
    pub(crate) fn prepare(&mut self) {
        match self {
            Self::Packet(_) => {}
            Self::Xdp(port) => {
                port.prepare();
            }
            Self::Own(port) => {
                port.prepare();
            }
        }
    }

    /// The next frame; it stays the next one until it is released.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Frame<'_>> {
        match self {
            Self::Packet(socket) => socket.peek(),
            Self::Xdp(port) => port.peek(),
            Self::Own(port) => port.peek(),
        }
    }

    /// Releases the next frame.
    #[inline]
    pub(crate) fn release(&mut self) {
        match self {
            Self::Packet(socket) => socket.release(),
            Self::Xdp(port) => port.release(),
            Self::Own(port) => port.release(),
        }
    }

    /// Frames lost since the last call because the ring was full.
    pub(crate) fn take_lost(&mut self) -> u64 {
        match self {
            Self::Packet(socket) => {
                socket.take_statistics().map_or(0, |counted| u64::from(counted.lost))
            }
            Self::Xdp(port) => port.take_lost(),
            Self::Own(port) => port.take_lost(),
        }
    }

    /// The same while there is no frame, at the intervals of the driver.
    pub(crate) fn take_lost_when_idle(&mut self) -> u64 {
        match self {
            Self::Packet(_) | Self::Xdp(_) => 0,
            Self::Own(port) => port.take_lost_when_idle(),
        }
    }

    /// Takes the pending error, such as that the device went down.
    pub(crate) fn take_error(&self) -> io::Result<()> {
        match self {
            Self::Packet(socket) => socket.take_error(),
            Self::Xdp(port) => port.take_error(),
            Self::Own(_) => Ok(()),
        }
    }

    /// The device has another address.
    pub(crate) fn set_mac(&mut self, mac: [u8; 6]) {
        match self {
            // The kernel knows.
            Self::Packet(_) => {}
            Self::Xdp(port) => port.set_mac(mac),
            Self::Own(port) => port.set_mac(mac),
        }
    }
}
