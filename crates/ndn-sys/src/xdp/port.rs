//! A network device by AF_XDP: the program on it, and a socket for each of its queues.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::packet::{Frame, FrameReader, GroupMembership};
use crate::xdp::bpf::{self, SocketMap, XdpMode};
use crate::xdp::error::{XdpError, XdpStep};
use crate::xdp::open::{Opened, QUEUES_MAX, XdpOptions, XdpSetup, open_parts, with_retries};
use crate::xdp::program;
use crate::xdp::receive::Received;
use crate::xdp::rings::{CONTINUES, Descriptor};
use crate::xdp::socket::Socket;
use crate::xdp::umem::{Layout, Umem};

/// Maximum buffers of a sent frame; the limit of the kernel is 17.
const PIECES_MAX: usize = 16;

/// Why a frame was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpRefusal {
    /// No chunk is free: [`XdpPort::transmit`], then try again.
    Full,
    /// The frame exceeds the limit.
    TooLong,
}

/// The result of [`XdpPort::transmit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpTransmitted {
    /// System calls.
    pub calls: u64,
    /// The kernel has accepted all frames, or will fetch them without a call.
    pub is_done: bool,
}

/// Frames of one EtherType on one network device, with their
/// headers, by AF_XDP: those of all its queues, or a [part](XdpPort::open_parts) of them.
///
/// Other frames go to the kernel. When this is dropped, or the process ends, the program is detached. Frames that this
/// host sends are not received. While the device is down there are no frames. After the device is gone, this is of no
/// further use.
#[derive(Debug)]
pub struct XdpPort {
    /// Dropped first: frames go to the kernel again.
    _attached: Arc<Attached>,
    /// The first also sends. Dropped before the memory.
    queues: Vec<Socket>,
    umem: Umem,
    layout: Layout,
    setup: XdpSetup,
    reader: FrameReader,
    /// The state of [`prepare`](Self::prepare).
    received: Received,
    /// Free chunks for frames to be sent.
    free: Vec<u64>,
    /// Frames were pushed since the last commit.
    is_pushed: bool,
    lost: u64,
}

/// State that all parts of a device share.
#[derive(Debug)]
struct Attached {
    /// Dropped first.
    _link: OwnedFd,
    _map: SocketMap,
    _group: Option<GroupMembership>,
}

impl XdpPort {
    /// Attaches the program and opens sockets. While a previous user still holds the device, retries each step for up
    /// to a tenth of a second.
    ///
    /// # Errors
    /// The step that failed: [`XdpError`].
    pub fn open(options: &XdpOptions) -> Result<Self, XdpError> {
        let nothing = || XdpStep::Bind.failed()(io::ErrorKind::Unsupported.into());
        Self::open_parts(options, 1)?.pop().ok_or_else(nothing)
    }

    /// As [`open`](Self::open), for `part_count` threads: the queues are distributed round-robin, and each thread has
    /// its own memory, rings and transmit queue. There are fewer parts if the device has fewer queues. The device
    /// should have one transmit queue for each part.
    ///
    /// The program stays until the last part is dropped. Frames of queues whose part is dropped go to the kernel.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_parts(options: &XdpOptions, part_count: u32) -> Result<Vec<Self>, XdpError> {
        let both = [XdpMode::Native, XdpMode::Generic];
        let chosen = options.mode.map(|mode| [mode]);
        let modes = chosen.as_ref().map_or(&both[..], |mode| &mode[..]);
        let mut refused = None;
        for mode in modes {
            match Self::open_mode(options, part_count, *mode) {
                Ok(parts) => return Ok(parts),
                // A busy device and missing capabilities are the same in every mode.
                Err(error) if error.is_busy() || error.is_refused() => return Err(error),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| XdpStep::Attach.failed()(io::ErrorKind::Unsupported.into())))
    }

    fn open_mode(
        options: &XdpOptions,
        part_count: u32,
        mode: XdpMode,
    ) -> Result<Vec<Self>, XdpError> {
        let XdpOptions { interface, protocol, mac, group, .. } = *options;
        let queue_count = options.queue_count.clamp(1, QUEUES_MAX);
        let chunk_payload_max = Layout::new(options.payload_max, 0, 1).payload_max();
        let wants_segments = options.payload_max > chunk_payload_max;
        let joined = group.map(|group| GroupMembership::join(interface, group));
        let joined = joined.transpose().map_err(XdpStep::Group.failed())?;
        let map = SocketMap::new(queue_count).map_err(XdpStep::Map.failed())?;
        let code = program::program(protocol, map.as_fd());
        // Kernels before 5.18 do not support fragments.
        let loaded = bpf::load(&code, wants_segments).or_else(|_| bpf::load(&code, false));
        let loaded = loaded.map_err(XdpStep::Program.failed())?;
        let link = with_retries(|| bpf::attach(loaded.as_fd(), interface, mode));
        let link = link.map_err(XdpStep::Attach.failed())?;
        let opened = open_parts(options, queue_count, part_count, wants_segments)?;
        for (queue, socket) in opened.iter().flat_map(Opened::queues) {
            map.set(queue, socket.as_fd()).map_err(XdpStep::Map.failed())?;
        }
        let attached = Arc::new(Attached { _link: link, _map: map, _group: joined });
        let zero_copy = opened.iter().all(|part| part.sockets.iter().all(Socket::is_zero_copy));
        let reader = FrameReader { interface, protocol, mac, group };
        let parts = opened.into_iter().map(|part| {
            let Opened { layout, umem, sockets, multi_buffer, .. } = part;
            let payload_max = match multi_buffer {
                true => options.payload_max,
                false => options.payload_max.min(chunk_payload_max),
            };
            let setup = XdpSetup {
                mode,
                zero_copy,
                multi_buffer,
                payload_max,
                queue_count: u32::try_from(sockets.len()).unwrap_or(u32::MAX),
                pages: umem.pages(),
            };
            Self {
                _attached: Arc::clone(&attached),
                queues: sockets,
                umem,
                layout,
                setup,
                reader,
                received: Received::default(),
                free: layout.transmit_chunks().collect(),
                is_pushed: false,
                lost: 0,
            }
        });
        Ok(parts.collect())
    }

    /// The result of opening.
    #[must_use]
    pub fn setup(&self) -> XdpSetup {
        self.setup
    }

    /// The network device.
    #[must_use]
    pub fn interface(&self) -> u32 {
        self.reader.interface
    }

    /// The device has another address.
    pub fn set_mac(&mut self, mac: [u8; 6]) {
        self.reader.mac = mac;
    }

    /// The descriptors to poll: the sockets of all queues. The first one is writable while its ring has room, even if
    /// no chunk is free.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.queues.iter().map(AsFd::as_fd)
    }

    /// Prepares the next received frame; false if there is none. It stays the next one until it is
    /// [released](Self::release).
    #[inline]
    pub fn prepare(&mut self) -> bool {
        self.received.prepare(&mut self.queues, &self.umem)
    }

    /// The frame of [`prepare`](Self::prepare). A frame of another EtherType is shown as an empty one that is not for
    /// this host.
    #[must_use]
    #[inline]
    pub fn peek(&self) -> Option<Frame<'_>> {
        let bytes = self.received.bytes(&self.umem)?;
        let mut frame = self.reader.read(bytes).unwrap_or(Frame::nothing(self.reader.interface));
        frame.follows_loss = self.received.may_follow_loss();
        Some(frame)
    }

    /// Releases the prepared frame, if there is one.
    #[inline]
    pub fn release(&mut self) {
        self.received.release(&mut self.queues, self.layout);
    }

    /// Received frames that were lost since the last call because the ring was full.
    pub fn take_lost(&mut self) -> u64 {
        let lost = self.queues.iter().filter_map(|socket| socket.lost().ok()).sum();
        lost - std::mem::replace(&mut self.lost, lost)
    }

    /// Takes the pending error of a socket, such as that the device went down.
    ///
    /// # Errors
    /// The pending error.
    pub fn take_error(&self) -> io::Result<()> {
        self.queues.iter().map(Socket::take_error).fold(Ok(()), Result::and)
    }

    /// Queues a frame to a station or group. The payload consists of several parts, and is padded to the minimum of
    /// Ethernet. The next [`transmit`](Self::transmit) sends it.
    ///
    /// # Errors
    /// If no chunk is free, or the frame is too long.
    pub fn send(&mut self, to: [u8; 6], payload: &[&[u8]]) -> Result<(), XdpRefusal> {
        let length: usize = payload.iter().map(|part| part.len()).sum();
        if length > self.setup.payload_max {
            return Err(XdpRefusal::TooLong);
        }
        let header = self.reader.header(to);
        let whole = (header.len() + length).max(crate::packet::FRAME_MIN);
        let count = whole.div_ceil(self.layout.chunk_length);
        if count > PIECES_MAX {
            return Err(XdpRefusal::TooLong);
        }
        let Some(first) = self.free.len().checked_sub(count) else { return Err(XdpRefusal::Full) };
        let Some(ring) = self.queues.first_mut().and_then(|socket| socket.transmit.as_mut()) else {
            return Err(XdpRefusal::Full);
        };
        let mut parts = Parts { parts: payload, head: &header };
        let mut left = whole;
        for chunk in self.free.drain(first..) {
            let piece = left.min(self.layout.chunk_length);
            left -= piece;
            // SAFETY: the chunk is free, so it is ours, and goes to the kernel below.
            parts.fill(unsafe { self.umem.bytes_mut(chunk, piece) });
            let options = if left > 0 { CONTINUES } else { 0 };
            let length = u32::try_from(piece).unwrap_or(0);
            // The ring has room for all chunks that there are.
            let pushed = ring.push(Descriptor { address: chunk, length, options });
            debug_assert!(pushed, "a transmit ring has room for all chunks");
        }
        self.is_pushed = true;
        Ok(())
    }

    /// Makes the kernel send the frames taken, as far as it can now, and takes back the chunks that it is done with.
    ///
    /// The device is down or gone; the frames taken are sent later, or never.
    pub fn transmit(&mut self) -> io::Result<XdpTransmitted> {
        let mut transmitted = XdpTransmitted { calls: 0, is_done: true };
        let Some(socket) = self.queues.first_mut() else { return Ok(transmitted) };
        let Some(ring) = &mut socket.transmit else { return Ok(transmitted) };
        if std::mem::take(&mut self.is_pushed) {
            ring.commit();
        }
        let mut pending = ring.pending();
        let mut result = Ok(());
        // A call takes a limited number of frames. Each goes on where the last one has stopped.
        while pending > 0 && socket.transmit.as_ref().is_some_and(|ring| ring.needs_wakeup()) {
            transmitted.calls += 1;
            result = socket.wake_to_send();
            let before = pending;
            pending = socket.transmit.as_mut().map_or(0, |ring| ring.pending());
            if pending == before || result.as_ref().is_err_and(is_lasting) {
                break;
            }
        }
        // In zero-copy mode, the driver fetches them asynchronously.
        transmitted.is_done = pending == 0 || self.setup.zero_copy;
        while socket.completion.refresh() > 0 {
            while let Some(address) = socket.completion.entry(0) {
                self.free.push(self.layout.chunk_of(address));
                socket.completion.advance();
            }
            socket.completion.commit();
        }
        match result {
            Err(error) if is_lasting(&error) => Err(error),
            Ok(()) | Err(_) => Ok(transmitted),
        }
    }
}

/// Whether an error is permanent.
fn is_lasting(error: &io::Error) -> bool {
    !matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR | libc::ENOMEM)
    )
}

/// A header, a payload in parts, and padding.
struct Parts<'p> {
    head: &'p [u8],
    parts: &'p [&'p [u8]],
}

impl Parts<'_> {
    fn fill(&mut self, mut place: &mut [u8]) {
        while !place.is_empty() {
            if self.head.is_empty() {
                let Some((next, rest)) = self.parts.split_first() else { return place.fill(0) };
                (self.head, self.parts) = (next, rest);
                continue;
            }
            let length = place.len().min(self.head.len());
            let (now, later) = place.split_at_mut(length);
            let (copied, rest) = self.head.split_at(length);
            now.copy_from_slice(copied);
            (place, self.head) = (later, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_of_a_chain_become_one_frame() {
        let parts = [&b"abc"[..], b"", b"defgh"];
        for piece in 1..14 {
            let mut parts = Parts { head: b"12", parts: &parts };
            let mut whole = [0xff; 12];
            whole.chunks_mut(piece).for_each(|place| parts.fill(place));
            assert_eq!(&whole, b"12abcdefgh\0\0");
        }
    }
}
