//! One socket of a generator: batches of packets in and out.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use ndn_packet::tlv::frame_len;
use ndn_sys::packet::{LinkAddress, PacketSocket, PacketSocketOptions};
use ndn_sys::udp::{UdpOptions, UdpSocket};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::datagram::{DatagramInput, DatagramOutput};
use super::fragments::{self, Fragmenter, PacketReassembler};
use super::frames::{self, FrameOutput};
use super::memif::{MemifOutput, MemifSocket};

const READ_BUFFER: usize = 256 * 1024;
/// The EtherType of NDN.
const ETHER_TYPE: u16 = 0x8624;
/// Memory for unread frames.
const FRAME_RING: usize = 16 << 20;

/// A connected, non-blocking stream or datagram socket, or one for the frames of a station.
#[derive(Debug)]
pub struct Endpoint {
    socket: Socket,
    input: Input,
    output: Output,
    pieces: PacketReassembler,
    calls: Calls,
}

#[derive(Debug)]
enum Socket {
    Stream(OwnedFd),
    Datagram(UdpSocket),
    Frames(PacketSocket),
    Memif(MemifSocket),
}

/// The receiving half.
#[derive(Debug)]
enum Input {
    Stream {
        buffer: Vec<u8>,
        filled: usize,
    },
    Datagram(DatagramInput),
    /// Frames are read in place.
    Frames,
    /// Frames are read in place.
    Memif,
}

/// The sending half: packets queued since the last flush.
#[derive(Debug)]
pub struct Output {
    queue: OutputQueue,
    fragmenter: Fragmenter,
}

#[derive(Debug)]
enum OutputQueue {
    /// Unix, TCP, or a session: a byte stream, and the start of the last packet.
    Stream { bytes: Vec<u8>, sent: usize, last: usize },
    /// UDP: bytes and the end of each packet.
    Datagram(DatagramOutput),
    /// Ethernet.
    Frames(FrameOutput),
    /// Shared memory.
    Memif(MemifOutput),
}

/// System calls and the packets that they moved, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Receiving system calls.
    pub receive_calls: u64,
    /// Packets received by them.
    pub received_frames: u64,
    /// System calls that sent.
    pub send_calls: u64,
    /// Packets that they took.
    pub sent_frames: u64,
}

impl Calls {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            receive_calls: self.receive_calls + other.receive_calls,
            received_frames: self.received_frames + other.received_frames,
            send_calls: self.send_calls + other.send_calls,
            sent_frames: self.sent_frames + other.sent_frames,
        }
    }
}

impl Endpoint {
    /// Takes over a connected stream socket.
    ///
    /// # Errors
    /// When the socket cannot be made non-blocking.
    pub fn stream(socket: OwnedFd) -> io::Result<Self> {
        Self::stream_of_frames(socket, Arc::new(AtomicUsize::new(usize::MAX)))
    }

    /// Takes over a connected stream socket whose other end takes frames of at most `mtu` bytes at the moment.
    ///
    /// # Errors
    /// As [`Self::stream`].
    pub fn stream_of_frames(socket: OwnedFd, mtu: Arc<AtomicUsize>) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        let bytes = Vec::with_capacity(READ_BUFFER);
        Ok(Self {
            socket: Socket::Stream(socket),
            input: Input::Stream { buffer: vec![0; READ_BUFFER], filled: 0 },
            output: Output {
                queue: OutputQueue::Stream { bytes, sent: 0, last: 0 },
                fragmenter: Fragmenter::following(mtu),
            },
            pieces: PacketReassembler::default(),
            calls: Calls::default(),
        })
    }

    /// A UDP socket between two ports of the loopback interface.
    ///
    /// # Errors
    /// As [`Self::connected_datagram`].
    pub fn datagram(local_port: u16, remote_port: u16) -> io::Result<Self> {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self::connected_datagram(loopback(local_port), loopback(remote_port))
    }

    /// A UDP socket at `local` (port 0: any) for datagrams from and to `remote`.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn connected_datagram(local: SocketAddr, remote: SocketAddr) -> io::Result<Self> {
        let options = UdpOptions { remote: Some(remote), ..UdpOptions::bound_to(local) };
        let socket = UdpSocket::new(&options)?;
        Ok(Self {
            socket: Socket::Datagram(socket),
            input: Input::Datagram(DatagramInput::default()),
            output: Output::new(OutputQueue::Datagram(DatagramOutput::default()), usize::MAX),
            pieces: PacketReassembler::default(),
            calls: Calls::default(),
        })
    }

    /// A socket for the frames of NDN from and to the station `peer` on a network device, by the kernel's
    /// number, that takes payloads of `mtu` bytes.
    ///
    /// # Errors
    /// Without the capability `CAP_NET_RAW`, or when there is no such device.
    pub fn frames(interface: u32, mtu: usize, peer: [u8; 6]) -> io::Result<Self> {
        let socket = PacketSocket::open(&PacketSocketOptions {
            interface,
            protocol: ETHER_TYPE,
            group: None,
            payload_max: mtu,
            ring_bytes: FRAME_RING,
        })?;
        let to = LinkAddress { interface, protocol: ETHER_TYPE, mac: peer };
        Ok(Self {
            socket: Socket::Frames(socket),
            input: Input::Frames,
            output: Output::new(OutputQueue::Frames(FrameOutput::new(to)), mtu),
            pieces: PacketReassembler::default(),
            calls: Calls::default(),
        })
    }

    /// Shared memory, by way of a forwarder's memif socket. Without a number of an interface in the
    /// `address`, that of `id` is taken.
    ///
    /// # Errors
    /// When nobody answers there, or the interface is not to be had.
    pub fn memif(
        address: &ndn_memif::Address,
        id: u32,
        secret: ndn_memif::Secret,
    ) -> io::Result<Self> {
        let socket = MemifSocket::connect(address, id, secret)?;
        let mtu = socket.frame_length_max();
        Ok(Self {
            socket: Socket::Memif(socket),
            input: Input::Memif,
            output: Output::new(OutputQueue::Memif(MemifOutput::default()), mtu),
            pieces: PacketReassembler::default(),
            calls: Calls::default(),
        })
    }

    /// Maximum number of packets in a message that the kernel segments (default: its maximum). With 1, the peer
    /// receives packets one by one at any rate. No effect on a stream.
    pub fn set_packets_per_message(&mut self, packets: usize) {
        if let OutputQueue::Datagram(output) = &mut self.output.queue {
            output.set_run_max(packets);
        }
    }

    /// Longest frame in bytes on UDP; longer packets are fragmented (default: none).
    pub fn set_mtu(&mut self, mtu: usize) {
        if let OutputQueue::Datagram(_) = self.output.queue {
            self.output.fragmenter = Fragmenter::new(mtu);
        }
    }

    /// Messages that the kernel has dropped so far because this socket was not read in time.
    #[must_use]
    pub fn receive_drops(&self) -> u64 {
        match &self.input {
            Input::Stream { .. } | Input::Frames | Input::Memif => 0,
            Input::Datagram(input) => u64::from(input.drops()),
        }
    }

    /// Queues one packet that `write` appends.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.calls.sent_frames += 1;
        self.output.push(write);
    }

    /// Our address and port, of a datagram socket.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Stream(_) | Socket::Frames(_) | Socket::Memif(_) => None,
            Socket::Datagram(socket) => socket.local_address().ok(),
        }
    }

    /// System calls so far, and packets: those given to [`push`](Self::push) count as sent.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.calls
    }

    /// Sends what it can; true when nothing is left.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn flush(&mut self) -> io::Result<bool> {
        let calls = &mut self.calls.send_calls;
        match (&mut self.socket, &mut self.output.queue) {
            (Socket::Stream(socket), OutputQueue::Stream { bytes, sent, .. }) => {
                flush_stream(socket, bytes, sent, calls)
            }
            (Socket::Datagram(socket), OutputQueue::Datagram(output)) => {
                output.flush(socket, calls)
            }
            (Socket::Frames(socket), OutputQueue::Frames(output)) => output.flush(socket, calls),
            (Socket::Memif(socket), OutputQueue::Memif(output)) => output.flush(socket),
            _ => unreachable!("both halves are of the socket's kind"),
        }
    }

    /// Reads once and hands over every whole packet and the sending half; false when there was
    /// nothing to read. What the handler appends to the sending half is not in the count of packets
    /// sent.
    ///
    /// # Errors
    /// When the socket fails or the other side closes it, or sends malformed TLV.
    pub fn receive(&mut self, mut handle: impl FnMut(&[u8], &mut Output)) -> io::Result<bool> {
        let output = &mut self.output;
        // Frames lie in a ring that is shared with the kernel.
        self.calls.receive_calls += u64::from(!matches!(self.input, Input::Frames));
        let (received, pieces) = (&mut self.calls.received_frames, &mut self.pieces);
        let mut handle = |frame: &[u8]| {
            *received += 1;
            if !fragments::may_be_fragment(frame) {
                return handle(frame, output);
            }
            if let Some(packet) = pieces.handle(frame) {
                handle(&packet, output);
            }
        };
        match (&mut self.socket, &mut self.input) {
            (Socket::Stream(socket), Input::Stream { buffer, filled }) => {
                receive_stream(socket, buffer, filled, &mut handle)
            }
            (Socket::Datagram(socket), Input::Datagram(input)) => {
                input.receive(socket, &mut handle)
            }
            (Socket::Frames(socket), Input::Frames) => Ok(frames::receive(socket, &mut handle)),
            (Socket::Memif(socket), Input::Memif) => socket.receive(&mut handle),
            _ => unreachable!("both halves are of the socket's kind"),
        }
    }

    /// Bytes waiting to be sent.
    #[must_use]
    pub fn backlog(&self) -> usize {
        match &self.output.queue {
            OutputQueue::Stream { bytes, sent, .. } => bytes.len() - sent,
            OutputQueue::Datagram(output) => output.backlog(),
            OutputQueue::Frames(output) => output.backlog(),
            OutputQueue::Memif(output) => output.backlog(),
        }
    }

    /// To be called before each wait for [`fd`](Self::fd), if at all: until then the peer of shared memory need not
    /// raise interrupts. True if there is something to receive already.
    ///
    /// # Errors
    /// When the other side does not keep to the protocol.
    pub fn prepare_to_wait(&mut self) -> io::Result<bool> {
        match &mut self.socket {
            Socket::Stream(_) | Socket::Datagram(_) | Socket::Frames(_) => Ok(false),
            Socket::Memif(socket) => socket.prepare_to_wait(),
        }
    }

    /// The descriptor to wait on: the socket, or the eventfd of shared memory, which is always writable.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Stream(socket) => socket.as_fd(),
            Socket::Datagram(socket) => socket.as_fd(),
            Socket::Frames(socket) => socket.as_fd(),
            Socket::Memif(socket) => socket.fd(),
        }
    }
}

impl Output {
    fn new(queue: OutputQueue, mtu: usize) -> Self {
        Self { queue, fragmenter: Fragmenter::new(mtu) }
    }

    /// Queues one packet that `write` appends. What is too long for one frame goes in several.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let Self { queue, fragmenter } = self;
        if queue.push(write) > fragmenter.mtu() {
            let packet = queue.take_last();
            fragmenter.fragment(&packet, |frame| {
                queue.push(|out| out.extend_from_slice(frame));
            });
        }
    }
}

impl OutputQueue {
    /// Queues what `write` appends; returns its length.
    #[inline]
    fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        match self {
            Self::Stream { bytes, last, .. } => {
                *last = bytes.len();
                write(bytes);
                bytes.len() - *last
            }
            Self::Datagram(output) => output.push(write),
            Self::Frames(output) => output.push(write),
            Self::Memif(output) => output.push(write),
        }
    }

    /// Takes back what was queued last.
    fn take_last(&mut self) -> Vec<u8> {
        match self {
            Self::Stream { bytes, last, .. } => bytes.split_off(*last),
            Self::Datagram(output) => output.take_last(),
            Self::Frames(output) => output.take_last(),
            Self::Memif(output) => output.take_last(),
        }
    }
}

fn flush_stream(
    socket: &OwnedFd,
    bytes: &mut Vec<u8>,
    sent: &mut usize,
    calls: &mut u64,
) -> io::Result<bool> {
    while *sent < bytes.len() {
        *calls += 1;
        match rustix::io::write(socket, &bytes[*sent..]) {
            Ok(count) => *sent += count,
            Err(Errno::AGAIN) => {
                // Once what was sent is the larger part, so that each byte moves once at most.
                if *sent >= bytes.len() / 2 {
                    bytes.drain(..*sent);
                    *sent = 0;
                }
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
    }
    bytes.clear();
    *sent = 0;
    Ok(true)
}

fn receive_stream(
    socket: &OwnedFd,
    buffer: &mut [u8],
    filled: &mut usize,
    mut handle: impl FnMut(&[u8]),
) -> io::Result<bool> {
    let count = match rustix::io::read(socket, &mut buffer[*filled..]) {
        Ok(0) => {
            let reason = "the forwarder closed the connection";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason));
        }
        Ok(count) => count,
        Err(Errno::AGAIN) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    *filled += count;
    let mut at = 0;
    // A packet that is not complete yet ends the loop, and so does one that never will be: it fills
    // the buffer.
    while let Ok(Some(length)) = frame_len(&buffer[at..*filled]) {
        if buffer.len() < at + length || *filled < at + length {
            break;
        }
        handle(&buffer[at..at + length]);
        at += length;
    }
    if at == 0 && *filled == buffer.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the forwarder sends no packets"));
    }
    buffer.copy_within(at..*filled, 0);
    *filled -= at;
    Ok(true)
}
