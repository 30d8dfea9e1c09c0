//! One socket: its rings, and the queue of a device that it is bound to (`<linux/if_xdp.h>`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{NonNull, null, null_mut};

use crate::mapping::Mapping;
use crate::socket::set_option;
use crate::xdp::rings::{
    CompletionRing, Consumer, Descriptor, FillRing, Producer, ReceiveRing, RingMemory, TransmitRing,
};
use crate::xdp::umem::{Layout, Umem};

const SOL_XDP: libc::c_int = 283;
/// Options of that level.
const MMAP_OFFSETS: libc::c_int = 1;
const RECEIVE_RING: libc::c_int = 2;
const TRANSMIT_RING: libc::c_int = 3;
const REGISTER_UMEM: libc::c_int = 4;
const FILL_RING: libc::c_int = 5;
const COMPLETION_RING: libc::c_int = 6;
const STATISTICS: libc::c_int = 7;
const OPTIONS: libc::c_int = 8;
const FRAMES_PER_CALL: libc::c_int = 9;
/// Offsets for mapping the rings.
const AT_RECEIVE: u64 = 0;
const AT_TRANSMIT: u64 = 0x8000_0000;
const AT_FILL: u64 = 0x1_0000_0000;
const AT_COMPLETION: u64 = 0x1_8000_0000;
/// Flags of binding.
const SHARED_UMEM: u16 = 1;
const COPY: u16 = 1 << 1;
const USE_NEED_WAKEUP: u16 = 1 << 3;
const USE_SEGMENTS: u16 = 1 << 4;
/// Send buffer, bytes, including the overhead of the kernel.
const SEND_BUFFER: libc::c_int = 1 << 20;
const FAMILY: u16 = 44;
const _: () = assert!(libc::AF_XDP == FAMILY as i32);

/// `struct xdp_umem_reg`, as far as every kernel knows it.
#[repr(C)]
struct UmemRegistration {
    address: u64,
    length: u64,
    chunk_length: u32,
    headroom: u32,
}

/// `struct sockaddr_xdp`.
#[repr(C)]
struct Address {
    family: u16,
    flags: u16,
    interface: u32,
    queue: u32,
    shared_with: u32,
}

/// `struct xdp_ring_offset`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct RingOffsets {
    producer: u64,
    consumer: u64,
    entries: u64,
    flags: u64,
}

/// `struct xdp_mmap_offsets`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Offsets {
    receive: RingOffsets,
    transmit: RingOffsets,
    fill: RingOffsets,
    completion: RingOffsets,
}

/// `struct xdp_statistics`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Statistics {
    received_dropped: u64,
    received_invalid: u64,
    transmit_invalid: u64,
    receive_ring_full: u64,
    fill_ring_empty: u64,
    transmit_ring_empty: u64,
}

/// Options of the bind of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Binding {
    /// Frames may have several buffers.
    pub(super) segments: bool,
    /// Copy mode only.
    pub(super) copies: bool,
}

/// A socket that is not bound yet.
#[derive(Debug)]
pub(super) struct Unbound {
    socket: OwnedFd,
}

/// A socket with its rings.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) receive: ReceiveRing,
    pub(super) fill: FillRing,
    /// Only one socket of a device sends.
    pub(super) transmit: Option<TransmitRing>,
    pub(super) completion: CompletionRing,
    socket: OwnedFd,
    /// The mappings of the rings; dropped after them.
    _memory: Vec<Mapping>,
}

/// An AF_XDP socket.
pub(super) fn open() -> io::Result<Unbound> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: it takes numbers only.
    let socket = unsafe { libc::socket(libc::AF_XDP, kind, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for this call.
    Ok(Unbound { socket: unsafe { OwnedFd::from_raw_fd(socket) } })
}

impl Unbound {
    /// Registers the UMEM, which must outlive the socket.
    pub(super) fn register(&self, umem: &Umem, layout: Layout) -> io::Result<()> {
        let registration = UmemRegistration {
            address: umem.address(),
            length: layout.length() as u64,
            chunk_length: u32::try_from(layout.chunk_length).unwrap_or(0),
            headroom: 0,
        };
        set_structure(self.socket.as_fd(), REGISTER_UMEM, &registration)
    }

    /// Creates the rings, including those for sending if it `sends`.
    pub(super) fn with_rings(self, layout: Layout, sends: bool) -> io::Result<Socket> {
        let socket = self.socket;
        let (received, sent) = (layout.receive_count, layout.transmit_count);
        // A socket that does not send needs a completion ring, too.
        let completed = if sends { sent } else { 1 };
        let mut sizes =
            vec![(FILL_RING, received), (COMPLETION_RING, completed), (RECEIVE_RING, received)];
        if sends {
            sizes.push((TRANSMIT_RING, sent));
            let _ = set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER);
            // Kernels before 6.18 take 32 frames per call.
            let at_once = sent.min(1024).cast_signed();
            let _ = set_option(socket.as_fd(), SOL_XDP, FRAMES_PER_CALL, at_once);
        }
        for (name, size) in sizes {
            set_option(socket.as_fd(), SOL_XDP, name, size.cast_signed())?;
        }
        let offsets: Offsets = structure(socket.as_fd(), MMAP_OFFSETS)?;
        let mut memory = Vec::with_capacity(4);
        let mut map = |at, offsets, capacity, entry_length| {
            map_ring(socket.as_fd(), at, offsets, capacity, entry_length, &mut memory)
        };
        let descriptor_length = size_of::<Descriptor>();
        let receive = map(AT_RECEIVE, offsets.receive, received, descriptor_length)?;
        let fill = map(AT_FILL, offsets.fill, received, size_of::<u64>())?;
        let completion = map(AT_COMPLETION, offsets.completion, completed, size_of::<u64>())?;
        let transmit = match sends {
            true => Some(map(AT_TRANSMIT, offsets.transmit, sent, descriptor_length)?),
            false => None,
        };
        // SAFETY: the kernel has told where the parts of its rings lie and follows the protocol; there
        // is one of each; the mappings are dropped after the rings; capacities are powers of two.
        unsafe {
            Ok(Socket {
                receive: Consumer::new(receive.of()),
                fill: Producer::new(fill.of()),
                transmit: transmit.map(|ring| Producer::new(ring.of())),
                completion: Consumer::new(completion.of()),
                socket,
                _memory: memory,
            })
        }
    }
}

/// A mapped ring, whatever its entries.
#[derive(Debug, Clone, Copy)]
struct RawRing {
    producer: NonNull<u8>,
    consumer: NonNull<u8>,
    flags: NonNull<u8>,
    entries: NonNull<u8>,
    capacity: u32,
}

impl RawRing {
    fn of<T>(self) -> RingMemory<T> {
        RingMemory {
            producer: self.producer.cast(),
            consumer: self.consumer.cast(),
            flags: self.flags.cast(),
            entries: self.entries.cast(),
            capacity: self.capacity,
        }
    }
}

fn map_ring(
    socket: BorrowedFd<'_>,
    at: u64,
    offsets: RingOffsets,
    capacity: u32,
    entry_length: usize,
    memory: &mut Vec<Mapping>,
) -> io::Result<RawRing> {
    let too_far = |_| io::Error::from(io::ErrorKind::InvalidData);
    let entries = usize::try_from(offsets.entries).map_err(too_far)?;
    let length = entries + capacity as usize * entry_length;
    let mapping = Mapping::of_socket(socket, length, at)?;
    let part = |offset: u64| {
        let offset = usize::try_from(offset).map_err(too_far)?;
        if offset + size_of::<u32>() > length || !offset.is_multiple_of(size_of::<u32>()) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // SAFETY: the place lies in the mapping.
        Ok::<_, io::Error>(unsafe { mapping.start().add(offset) })
    };
    let ring = RawRing {
        producer: part(offsets.producer)?,
        consumer: part(offsets.consumer)?,
        flags: part(offsets.flags)?,
        entries: part(offsets.entries)?,
        capacity,
    };
    memory.push(mapping);
    Ok(ring)
}

impl Socket {
    /// Binds it to a queue, with the memory that it has registered or that of `other`.
    pub(super) fn bind(
        &self,
        interface: u32,
        queue: u32,
        binding: Binding,
        other: Option<&Self>,
    ) -> io::Result<()> {
        let mut flags = USE_NEED_WAKEUP;
        if binding.segments {
            flags |= USE_SEGMENTS;
        }
        if binding.copies {
            flags |= COPY;
        }
        let (flags, shared_with) = match other {
            // The rest is as it is with the other one.
            Some(other) => (SHARED_UMEM, other.socket.as_raw_fd().cast_unsigned()),
            None => (flags, 0),
        };
        let address = Address { family: FAMILY, flags, interface, queue, shared_with };
        let length = libc::socklen_t::try_from(size_of::<Address>()).unwrap_or(0);
        // SAFETY: the address is live and has the given length.
        let result = unsafe {
            libc::bind(self.socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), length)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether it is in zero-copy mode.
    pub(super) fn is_zero_copy(&self) -> bool {
        structure::<u32>(self.socket.as_fd(), OPTIONS).is_ok_and(|flags| flags & 1 != 0)
    }

    /// Received frames that were dropped because there was no room.
    pub(super) fn lost(&self) -> io::Result<u64> {
        let counts: Statistics = structure(self.socket.as_fd(), STATISTICS)?;
        Ok(counts.received_dropped + counts.receive_ring_full)
    }

    /// Wakes the kernel for the transmit ring.
    pub(super) fn wake_to_send(&self) -> io::Result<()> {
        // SAFETY: nothing is to be read or written.
        let result = unsafe {
            libc::sendto(self.socket.as_raw_fd(), null(), 0, libc::MSG_DONTWAIT, null(), 0)
        };
        if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Wakes the kernel for the fill ring.
    pub(super) fn wake_to_receive(&self) {
        // An error means that the device is down, which the owner learns by netlink.
        // SAFETY: nothing is to be read or written.
        unsafe {
            libc::recvfrom(
                self.socket.as_raw_fd(),
                null_mut(),
                0,
                libc::MSG_DONTWAIT,
                null_mut(),
                null_mut(),
            )
        };
    }

    /// Takes the pending error.
    pub(super) fn take_error(&self) -> io::Result<()> {
        rustix::net::sockopt::socket_error(&self.socket)??;
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sets an option of `SOL_XDP` whose value is a C structure without padding.
fn set_structure<T>(socket: BorrowedFd<'_>, name: libc::c_int, value: &T) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: the value is live and has the given length; memory that it names outlasts the socket.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), SOL_XDP, name, value, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option of `SOL_XDP` whose value consists of numbers; older kernels leave the last ones at 0.
fn structure<T: Copy + Default>(socket: BorrowedFd<'_>, name: libc::c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut length = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    // SAFETY: the kernel writes no more than the given length to a live place, and every value of its
    // bytes is one of the numbers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            SOL_XDP,
            name,
            std::ptr::from_mut(&mut value).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
