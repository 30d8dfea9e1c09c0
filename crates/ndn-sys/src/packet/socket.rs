//! The socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use socket2::{Domain, Socket, Type};

use crate::mapping::Mapping;
use crate::packet::address::{KernelLinkAddress, LinkAddress};
use crate::packet::filter;

use crate::packet::ring::{Frame, Layout, Ring};
use crate::socket::set_option;

/// Options of the level `SOL_PACKET`.
const SOL_PACKET: libc::c_int = 263;
const PACKET_ADD_MEMBERSHIP: libc::c_int = 1;
const PACKET_RX_RING: libc::c_int = 5;
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VERSION: libc::c_int = 10;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const TPACKET_V2: libc::c_int = 1;
const MEMBERSHIP_GROUP: u16 = 0;
/// Frames that wait to be sent, bytes with the kernel's own.
const SEND_BUFFER: libc::c_int = 4 << 20;

/// Options of a [`PacketSocket`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketSocketOptions {
    /// The network device, by the kernel's number.
    pub interface: u32,
    /// The EtherType of the frames to receive.
    pub protocol: u16,
    /// A group to join. Frames to other groups are not received.
    pub group: Option<[u8; 6]>,
    /// Longest payload of a frame to receive, bytes: the device's MTU.
    pub payload_max: usize,
    /// Memory for received frames, bytes, about.
    pub ring_bytes: usize,
}

/// Statistics of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketStatistics {
    /// Frames received, lost ones included.
    pub received: u32,
    /// Frames lost because no slot was free.
    pub lost: u32,
}

/// A socket for the frames of one EtherType on one network device, without their link headers: the
/// kernel adds and removes them.
///
/// Frames that this host sends are not received. While the device is down nothing comes; when it is up again, frames
/// do. When it is gone, so is the use of the socket.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    /// Dropped before the memory that it reads.
    ring: Ring,
    _memory: Mapping,
    interface: u32,
}

/// `struct tpacket_req`.
#[repr(C)]
struct RingRequest {
    block_length: u32,
    block_count: u32,
    slot_length: u32,
    slot_count: u32,
}

/// `struct packet_mreq`.
#[repr(C)]
struct Membership {
    interface: i32,
    kind: u16,
    length: u16,
    address: [u8; 8],
}

impl PacketSocket {
    /// Opens a socket.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] without the capability `CAP_NET_RAW`, otherwise those of the
    /// kernel, such as no memory for the ring or no such device.
    pub fn open(options: &PacketSocketOptions) -> io::Result<Self> {
        // Bound to no protocol yet, so that nothing comes before everything is set up.
        let socket = unbound()?;
        set_option(socket.as_fd(), SOL_PACKET, PACKET_VERSION, TPACKET_V2)?;
        // A kernel without it gives own frames only to sockets of all protocols.
        let _ = set_option(socket.as_fd(), SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
        let _ = set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER);
        filter::attach(socket.as_fd(), &filter::program(options.interface, options.group))?;
        let (layout, memory) = make_ring(socket.as_fd(), options)?;
        // SAFETY: the memory has the length that the kernel was asked for, starts on a page, and lasts
        // as long as the ring, which is dropped first. The kernel writes its own slots only.
        let ring = unsafe { Ring::new(memory.start(), layout) };
        if let Some(group) = options.group {
            join(socket.as_fd(), options.interface, group)?;
        }
        let PacketSocketOptions { interface, protocol, .. } = *options;
        bind(socket.as_fd(), &LinkAddress { interface, protocol, mac: [0; 6] })?;
        Ok(Self { socket, ring, _memory: memory, interface })
    }

    /// The network device.
    #[must_use]
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// The next received frame; it stays the next one until it is [released](Self::release).
    #[must_use]
    #[inline]
    pub fn peek(&self) -> Option<Frame<'_>> {
        self.ring.peek()
    }

    /// Is done with the next received frame. Without one it does nothing.
    #[inline]
    pub fn release(&mut self) {
        self.ring.release();
    }

    /// The statistics since the last call.
    ///
    /// # Errors
    /// Those of `getsockopt(2)`.
    pub fn take_statistics(&self) -> io::Result<PacketStatistics> {
        let mut counts = [0_u32; 2];
        let mut length = libc::socklen_t::try_from(size_of_val(&counts)).unwrap_or(0);
        // SAFETY: the kernel writes no more than the given length to a live place.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                SOL_PACKET,
                PACKET_STATISTICS,
                counts.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let [received, lost] = counts;
        Ok(PacketStatistics { received, lost })
    }

    /// Takes the error that makes the socket ready, such as that its device went down.
    ///
    /// # Errors
    /// The pending error, or those of `getsockopt(2)`.
    pub fn take_error(&self) -> io::Result<()> {
        rustix::net::sockopt::socket_error(&self.socket)??;
        Ok(())
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Membership of a device in a group until this is dropped, for receivers other than a packet socket.
#[derive(Debug)]
pub struct GroupMembership {
    _socket: OwnedFd,
}

impl GroupMembership {
    /// Joins `group` on a device.
    ///
    /// # Errors
    /// As for [`PacketSocket::open`].
    pub fn join(interface: u32, group: [u8; 6]) -> io::Result<Self> {
        // Bound to no protocol: it receives nothing.
        let socket = unbound()?;
        join(socket.as_fd(), interface, group)?;
        Ok(Self { _socket: socket })
    }
}

/// Whether this process may open packet sockets.
///
/// # Errors
/// Why not.
pub fn may_open() -> io::Result<()> {
    unbound().map(drop)
}

fn unbound() -> io::Result<OwnedFd> {
    let kind = Type::DGRAM.nonblocking().cloexec();
    Ok(Socket::new(Domain::PACKET, kind, None)?.into())
}

fn make_ring(
    socket: BorrowedFd<'_>,
    options: &PacketSocketOptions,
) -> io::Result<(Layout, Mapping)> {
    let mut layout = Layout::new(options.ring_bytes, options.payload_max);
    loop {
        let number = |size: usize| u32::try_from(size).map_err(|_| io::ErrorKind::InvalidInput);
        let request = RingRequest {
            block_length: number(layout.block_length)?,
            block_count: number(layout.block_count)?,
            slot_length: number(layout.slot_length)?,
            slot_count: number(layout.slot_count())?,
        };
        match set_structure(socket, PACKET_RX_RING, &request) {
            Ok(()) => return Ok((layout, Mapping::of_socket(socket, layout.length(), 0)?)),
            // A smaller one is better than none.
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory && layout.block_count > 1 => {
                layout.block_count /= 2;
            }
            Err(error) => return Err(error),
        }
    }
}

fn join(socket: BorrowedFd<'_>, interface: u32, group: [u8; 6]) -> io::Result<()> {
    let mut address = [0; 8];
    address[..6].copy_from_slice(&group);
    let interface = interface.cast_signed();
    let membership = Membership { interface, kind: MEMBERSHIP_GROUP, length: 6, address };
    set_structure(socket, PACKET_ADD_MEMBERSHIP, &membership)
}

/// Sets an option of `SOL_PACKET` whose value is a C structure without padding.
fn set_structure<T>(socket: BorrowedFd<'_>, name: libc::c_int, value: &T) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    // SAFETY: the value is live and has the given length.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            SOL_PACKET,
            name,
            std::ptr::from_ref(value).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn bind(socket: BorrowedFd<'_>, address: &LinkAddress) -> io::Result<()> {
    let address = KernelLinkAddress::new(address);
    // SAFETY: the address is live and has the given length.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            KernelLinkAddress::LENGTH,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
