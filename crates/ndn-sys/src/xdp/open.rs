//! Opening a device: options, the result, and a socket for each queue.

use std::io;

use crate::mapping::PageKind;
use crate::xdp::bpf::{self, SocketMap, XdpMode};
use crate::xdp::error::{XdpError, XdpStep};
use crate::xdp::program;
use crate::xdp::socket::{self, Binding, Socket};
use crate::xdp::umem::{Layout, Umem};

/// Maximum number of queues; frames of others go to the kernel.
pub const QUEUES_MAX: u32 = 64;
/// Options of an [`XdpPort`](super::XdpPort).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpOptions {
    /// The network device, by its interface index.
    pub interface: u32,
    /// The EtherType of the frames to receive.
    pub protocol: u16,
    /// The device's address.
    pub mac: [u8; 6],
    /// A group to join.
    pub group: Option<[u8; 6]>,
    /// Longest payload of a frame to receive, bytes: the device's MTU.
    pub payload_max: usize,
    /// Receive queues of the device, at most.
    pub queue_count: u32,
    /// Approximate memory for received frames, bytes.
    pub ring_bytes: usize,
    /// The only mode to try; none for native, else generic.
    pub mode: Option<XdpMode>,
}

/// The result of opening a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpSetup {
    /// Where the program runs.
    pub mode: XdpMode,
    /// Zero-copy mode.
    pub zero_copy: bool,
    /// A frame may have several buffers.
    pub multi_buffer: bool,
    /// Longest payload of a frame that can be received and sent, bytes; that of the device may be longer.
    pub payload_max: usize,
    /// Queues that are received from.
    pub queue_count: u32,
    /// The pages of the memory.
    pub pages: PageKind,
}

/// The queues of one part of a device, and their UMEM.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) layout: Layout,
    pub(super) umem: Umem,
    /// A bound socket for each queue that is in use, with its chunks in the fill ring; the first one sends.
    pub(super) sockets: Vec<Socket>,
    numbers: Vec<u32>,
    /// Frames may have several buffers.
    pub(super) multi_buffer: bool,
}

impl Opened {
    /// The sockets with the numbers of their queues.
    pub(super) fn queues(&self) -> impl Iterator<Item = (u32, &Socket)> {
        self.numbers.iter().copied().zip(&self.sockets)
    }
}

/// Opens the queues below `queue_count` that are in use, distributed over `part_count` parts; fewer if there are not
/// as many queues. All are bound in the same way.
pub(super) fn open_parts(
    options: &XdpOptions,
    queue_count: u32,
    part_count: u32,
    wants_segments: bool,
) -> Result<Vec<Opened>, XdpError> {
    let all = [
        Binding { segments: true, copies: false },
        Binding { segments: true, copies: true },
        Binding { segments: false, copies: false },
        Binding { segments: false, copies: true },
    ];
    let mut bindings = if wants_segments { &all[..] } else { &all[2..] };
    let mut parts = Vec::new();
    for numbers in deal(queue_count, part_count) {
        let opened = open_part(options, queue_count, numbers, bindings);
        match opened {
            Ok((part, at)) => {
                bindings = &bindings[at..=at];
                parts.push(part);
            }
            // Fewer queues are in use than the device has.
            Err(error) if !parts.is_empty() && is_no_queue(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(parts)
}

/// The numbers of the queues of each part.
pub(super) fn deal(queue_count: u32, part_count: u32) -> impl Iterator<Item = Vec<u32>> {
    let part_count = part_count.clamp(1, queue_count.max(1));
    let step = part_count as usize;
    (0..part_count).map(move |part| (part..queue_count).step_by(step).collect())
}

fn is_no_queue(error: &XdpError) -> bool {
    error.step == XdpStep::Bind && error.error.raw_os_error() == Some(libc::EINVAL)
}

/// Opens the queues with these numbers; also returns the index of the binding that the kernel has accepted.
fn open_part(
    options: &XdpOptions,
    queue_count: u32,
    numbers: Vec<u32>,
    bindings: &[Binding],
) -> Result<(Opened, usize), XdpError> {
    let XdpOptions { interface, .. } = *options;
    let own_count = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
    // Each queue has the same share.
    let bytes = options.ring_bytes.saturating_mul(numbers.len()) / queue_count.max(1) as usize;
    let layout = Layout::new(options.payload_max, bytes, own_count);
    let umem = Umem::new(layout.length()).map_err(XdpStep::Memory.failed())?;
    let mut sockets: Vec<Socket> = Vec::new();
    let mut accepted = 0;
    for (place, &queue) in (0..).zip(&numbers) {
        let next = open_queue(layout, place, sockets.is_empty().then_some(&umem))?;
        let bindings = if sockets.is_empty() { bindings } else { &bindings[accepted..=accepted] };
        let mut refused = None;
        let bound = bindings.iter().position(|binding| {
            let bound = with_retries(|| next.bind(interface, queue, *binding, sockets.first()));
            bound.map_err(|error| refused = Some(error)).is_ok()
        });
        match bound {
            Some(at) => {
                accepted += at;
                sockets.push(next);
            }
            None => {
                let error = refused.unwrap_or_else(|| io::ErrorKind::Unsupported.into());
                let error = XdpStep::Bind.failed()(error);
                // Fewer queues are in use than the device has.
                if !sockets.is_empty() && is_no_queue(&error) {
                    break;
                }
                return Err(error);
            }
        }
    }
    let multi_buffer = bindings.get(accepted).is_some_and(|binding| binding.segments);
    Ok((Opened { layout, umem, sockets, numbers, multi_buffer }, accepted))
}

/// Opens the socket of the queue with this position in a part. The first one registers the memory.
fn open_queue(layout: Layout, place: u32, umem: Option<&Umem>) -> Result<Socket, XdpError> {
    let unbound = socket::open().map_err(XdpStep::Socket.failed())?;
    if let Some(umem) = umem {
        unbound.register(umem, layout).map_err(XdpStep::Rings.failed())?;
    }
    let mut socket = unbound.with_rings(layout, umem.is_some()).map_err(XdpStep::Rings.failed())?;
    for chunk in layout.receive_chunks(place) {
        let pushed = socket.fill.push(chunk);
        debug_assert!(pushed, "a fill ring has room for the chunks of its queue");
    }
    socket.fill.commit();
    Ok(socket)
}

/// Retries for a tenth of a second while a resource is busy: the kernel releases the queue of a closed socket with a
/// delay.
pub(super) fn with_retries<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
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

/// Checks whether this process may use AF_XDP: opens a socket, and loads a program without attaching it.
///
/// # Errors
/// The step that failed.
pub fn may_use() -> Result<(), XdpError> {
    socket::open().map_err(XdpStep::Socket.failed())?;
    let map = SocketMap::new(1).map_err(XdpStep::Map.failed())?;
    let code = program::program(0x8624, map.as_fd());
    bpf::load(&code, false).map_err(XdpStep::Program.failed())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_is_in_one_part_and_no_part_is_empty() {
        for (queues, parts, expected) in [(1, 4, 1), (4, 1, 1), (4, 2, 2), (5, 3, 3), (64, 64, 64)]
        {
            let dealt: Vec<_> = deal(queues, parts).collect();
            assert_eq!(dealt.len(), expected, "{queues} over {parts}");
            assert!(dealt.iter().all(|part| !part.is_empty()));
            // A part sends by its first queue: a device may have fewer transmit than receive queues.
            let first: Vec<u32> = dealt.iter().map(|part| part[0]).collect();
            assert!(first.iter().copied().eq(0..u32::try_from(expected).unwrap_or(0)));
            let mut all = dealt.concat();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..queues));
        }
    }
}
