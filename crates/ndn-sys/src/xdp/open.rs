//! Opening: what is asked for, what is got, and a socket for each queue.

use std::io;

use crate::mapping::PageKind;
use crate::xdp::bpf::{self, SocketMap, XdpMode};
use crate::xdp::error::{XdpError, XdpStep};
use crate::xdp::program;
use crate::xdp::socket::{self, Binding, Socket};
use crate::xdp::umem::{Layout, Umem};

/// Queues that are used at most; frames of others go to the kernel.
pub const QUEUES_MAX: u32 = 64;
/// How to open an [`XdpPort`](super::XdpPort).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpOptions {
    /// The network device, by the kernel's number.
    pub interface: u32,
    /// The EtherType of the frames to receive.
    pub protocol: u16,
    /// The device's address.
    pub mac: [u8; 6],
    /// A group to join.
    pub group: Option<[u8; 6]>,
    /// Longest payload of a frame to receive, bytes: the device's MTU.
    pub payload_max: usize,
    /// Receive queues of the device; those that are not in use do not matter.
    pub queue_count: u32,
    /// Memory for received frames, bytes, about.
    pub ring_bytes: usize,
    /// The only mode to try; none for native, else generic.
    pub mode: Option<XdpMode>,
    /// UDP to take, too. In generic mode it stays with the kernel, which may have joined datagrams by then.
    pub udp: Option<XdpUdp>,
}

/// UDP that is taken: whole datagrams that fit a chunk, by IPv4 without options or IPv6 without extension
/// headers, to one port of [addresses](super::XdpPort::addresses) of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpUdp {
    /// The port.
    pub port: u16,
    /// The device is virtual: the kernel of the other end leaves the checksum to a card that there is not, so
    /// that of the addresses and the length alone is as good.
    pub is_virtual: bool,
}

/// What was got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpSetup {
    /// Who runs the program.
    pub mode: XdpMode,
    /// Frames are not copied between the device and our memory.
    pub zero_copy: bool,
    /// A frame may consist of several pieces.
    pub multi_buffer: bool,
    /// Longest payload of a frame that can be received and sent, bytes; that of the device may be longer.
    pub payload_max: usize,
    /// Queues that are received from.
    pub queue_count: u32,
    /// What the memory is made of.
    pub pages: PageKind,
    /// UDP is taken as well.
    pub takes_udp: bool,
}

/// A bound socket for each queue that is in use, with its chunks in the fill ring, and whether frames may
/// come in several pieces.
pub(super) fn open_queues(
    options: &XdpOptions,
    layout: Layout,
    umem: &Umem,
    wants_segments: bool,
) -> Result<(Vec<Socket>, bool), XdpError> {
    let XdpOptions { interface, .. } = *options;
    let first = open_queue(layout, 0, Some(umem))?;
    let bindings: &[Binding] = &[
        Binding { segments: true, copies: false },
        Binding { segments: true, copies: true },
        Binding { segments: false, copies: false },
        Binding { segments: false, copies: true },
    ];
    let bindings = if wants_segments { bindings } else { &bindings[2..] };
    let mut refused = None;
    let mut bound = None;
    for binding in bindings {
        match patiently(|| first.bind(interface, 0, *binding, None)) {
            Ok(()) => {
                bound = Some(*binding);
                break;
            }
            Err(error) => refused = Some(error),
        }
    }
    let Some(binding) = bound else {
        let error = refused.unwrap_or_else(|| io::ErrorKind::Unsupported.into());
        return Err(XdpStep::Bind.failed()(error));
    };
    let mut queues = vec![first];
    for queue in 1..layout.queue_count {
        let next = open_queue(layout, queue, None)?;
        match patiently(|| next.bind(interface, queue, binding, queues.first())) {
            Ok(()) => queues.push(next),
            // There are fewer queues in use than there might be.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
            Err(error) => return Err(XdpStep::Bind.failed()(error)),
        }
    }
    Ok((queues, binding.segments))
}

fn open_queue(layout: Layout, queue: u32, umem: Option<&Umem>) -> Result<Socket, XdpError> {
    let unbound = socket::open().map_err(XdpStep::Socket.failed())?;
    if let Some(umem) = umem {
        unbound.register(umem, layout).map_err(XdpStep::Rings.failed())?;
    }
    let mut socket = unbound.with_rings(layout, umem.is_some()).map_err(XdpStep::Rings.failed())?;
    for chunk in layout.receive_chunks(queue) {
        let pushed = socket.fill.push(chunk);
        debug_assert!(pushed, "a fill ring has room for the chunks of its queue");
    }
    socket.fill.commit();
    Ok(socket)
}

/// Tries again for a moment while what is wanted is busy: the kernel takes its time to give a queue free
/// whose socket was closed.
pub(super) fn patiently<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..10 {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            result => return result,
        }
    }
    attempt()
}

/// Whether this process may use AF_XDP: opens a socket and loads a program that is attached nowhere.
///
/// # Errors
/// Why not.
pub fn may_use() -> Result<(), XdpError> {
    socket::open().map_err(XdpStep::Socket.failed())?;
    let map = SocketMap::new(1).map_err(XdpStep::Map.failed())?;
    let code = program::program(0x8624, map.as_fd(), None);
    bpf::load(&code, false).map_err(XdpStep::Program.failed())?;
    Ok(())
}
