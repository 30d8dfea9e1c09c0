//! The output queue of a UDP socket, or of the socket of a network device.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use hashbrown::HashMap;
use ndn_ring::{PacketHandle, PacketPool};
use ndn_sys::packet::{FramePort, FrameRefusal, FrameTransmitted, LinkAddress};
use ndn_sys::udp::{MESSAGE_LENGTH_MAX, SEGMENTS_MAX, SendBatch, SendBuilder};
use ndn_sys::xdp::XdpPort;
use ndn_table::FaceIndex;
use ndn_types::{PrincipalIndex, Timestamp};
use rustix::io::Errno;

use crate::counters::{CallCounters, ChannelCounters, LinkDropReason};
use crate::output::FrameSink;
use crate::output::{Flushed, LARGE_PACKET};
use crate::tap::TapPoint;

/// Messages per system call.
const MESSAGES_MAX: usize = 64;
/// Slices per system call: the kernel takes 1024 per message.
const SLICES_MAX: usize = 1024;
/// A queue that has become longer than this gives its memory back when it is empty.
const KEPT_BYTES: usize = 1 << 20;

/// Time after which the kernel forgets a path MTU that it has learned (`net.ipv4.route.mtu_expires`).
const PATH_MTU_LIFETIME: Duration = Duration::from_mins(10);
/// Faces whose paths are remembered as narrow.
const NARROW_PATHS_MAX: usize = 4096;

/// An Ethernet frame has no less payload than this.
const PAYLOAD_MIN: usize = 46;
const PADDING: [u8; PAYLOAD_MIN] = [0; PAYLOAD_MIN];

/// Where a frame goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Destination {
    pub(crate) face: FaceIndex,
    /// The principal that the face is charged to.
    pub(crate) principal: PrincipalIndex,
    pub(crate) target: Target,
}

impl Destination {
    /// Whether the socket has other peers, too.
    fn is_shared(&self) -> bool {
        !matches!(self.target, Target::Connected)
    }
}

/// An address that frames are sent to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// The peer of a connected socket.
    Connected,
    /// A UDP peer or group.
    Internet(SocketAddr),
    /// A station or group behind a network device.
    Link(LinkAddress),
}

impl Target {
    /// The peer of a UDP face.
    #[inline]
    pub(crate) fn of(peer: Option<SocketAddr>) -> Self {
        peer.map_or(Self::Connected, Self::Internet)
    }
}

/// Counters of a flush.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendCounters<'a> {
    pub(crate) channel: &'a ChannelCounters,
    pub(crate) calls: &'a CallCounters,
}

/// One queued frame.
#[derive(Debug)]
struct Datagram {
    to: Destination,
    /// Frames of one length go together: by this, longest first. All fragments of a packet have
    /// the length of the first here, so that they stay together; all frames of a face in order have 0.
    first_length: usize,
    /// Frames that were pushed before it since the queue was empty.
    serial: u64,
    /// Position of its copied bytes in the queue's buffer.
    start: usize,
    copied: usize,
    /// The payload, if that is not copied.
    large: Option<PacketHandle>,
}

impl Datagram {
    fn length(&self) -> usize {
        self.copied + self.large.as_ref().map_or(0, PacketHandle::len)
    }
}

/// Frames to be sent by one socket.
#[derive(Debug)]
pub(crate) struct DatagramQueue {
    bytes: Vec<u8>,
    datagrams: Vec<Datagram>,
    pending_bytes: usize,
    /// Frames that were pushed since the queue was empty.
    pushed: u64,
    /// Frames at the front whose order is final.
    ordered: usize,
    /// The other frames differ in face or length.
    mixed: bool,
    blocked: bool,
    /// While it is blocked: bytes of each principal to peers that share the socket.
    held: HashMap<PrincipalIndex, usize>,
    /// Frames are reordered for long runs.
    sorts: bool,
    /// Frames may be sent in runs (GSO).
    segments: bool,
    narrow_paths: NarrowPaths,
    /// The kernel has reported that the peer of a connected socket refused a frame sent earlier.
    was_refused: bool,
}

/// Faces to whose peers the kernel rejected a run: GSO fails for datagrams that exceed the path MTU, which differs
/// between the peers of a socket. Of each, the longest datagram to send in a run, and until when that holds.
#[derive(Debug, Default)]
struct NarrowPaths {
    faces: HashMap<FaceIndex, (usize, Timestamp)>,
    /// No entry ends earlier.
    next_end: Timestamp,
    /// Faces behind a network card that cannot send runs, since the last run that was sent.
    unable: usize,
    /// Until when no runs are sent at all.
    stopped_until: Option<Timestamp>,
}

impl NarrowPaths {
    /// Longest datagram to send to the peer of a face in a run.
    #[inline]
    fn segment_length_max(&self, face: FaceIndex) -> usize {
        if self.stopped_until.is_some() {
            return 0;
        }
        self.faces.get(&face).map_or(MESSAGE_LENGTH_MAX, |&(length, _)| length)
    }

    /// Notes that the network card on the way to the peer of a face cannot send runs. Where that holds for more faces in a row than
    /// can be remembered, it is that of all.
    fn note_unable(&mut self, now: Timestamp, face: FaceIndex) {
        self.note(now, face, 0);
        self.unable += 1;
        if self.unable >= NARROW_PATHS_MAX {
            let stopped_until = Some(now.plus(PATH_MTU_LIFETIME));
            *self = Self { stopped_until, ..Self::default() };
        }
    }

    fn note(&mut self, now: Timestamp, face: FaceIndex, segment_length_max: usize) {
        if self.faces.len() >= NARROW_PATHS_MAX {
            // Each costs one rejected call to be found again.
            self.faces.clear();
        }
        let until = now.plus(PATH_MTU_LIFETIME);
        if self.faces.is_empty() {
            self.next_end = until;
        }
        self.faces.insert(face, (segment_length_max, until));
    }

    /// Forgets paths that may have become wider.
    #[inline]
    fn expire(&mut self, now: Timestamp) {
        if self.stopped_until.is_some_and(|until| until <= now) {
            self.stopped_until = None;
        }
        if !self.faces.is_empty() && self.next_end <= now {
            self.faces.retain(|_, (_, until)| *until > now);
            self.next_end = self.faces.values().map(|(_, until)| *until).min().unwrap_or(now);
        }
    }
}

/// Buffers for `sendmmsg`, which the sockets of one kind share.
#[derive(Debug)]
pub(crate) struct DatagramWriter {
    batch: SendBatch,
    /// Frames in each message of a system call.
    runs: Vec<usize>,
}

impl Default for DatagramWriter {
    fn default() -> Self {
        Self {
            batch: SendBatch::with_capacity(MESSAGES_MAX, SLICES_MAX),
            runs: Vec::with_capacity(MESSAGES_MAX),
        }
    }
}

impl DatagramQueue {
    pub(crate) fn new(segments: bool) -> Self {
        Self {
            bytes: Vec::new(),
            datagrams: Vec::new(),
            pending_bytes: 0,
            pushed: 0,
            ordered: 0,
            mixed: false,
            blocked: false,
            held: HashMap::new(),
            sorts: true,
            segments,
            narrow_paths: NarrowPaths::default(),
            was_refused: false,
        }
    }

    /// A queue that sends frames one by one, in order.
    pub(crate) fn in_order() -> Self {
        Self { sorts: false, ..Self::new(false) }
    }

    #[inline]
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Whether the peer of a connected socket has refused a frame since the last call.
    pub(crate) fn take_refusal(&mut self) -> bool {
        std::mem::take(&mut self.was_refused)
    }

    /// Sends as much as the kernel accepts. Calls `refused` for frames that it rejects.
    pub(crate) fn flush(
        &mut self,
        now: Timestamp,
        socket: &impl AsFd,
        pool: &PacketPool,
        writer: &mut DatagramWriter,
        counters: SendCounters<'_>,
        mut refused: impl FnMut(FaceIndex, io::ErrorKind),
    ) -> Flushed {
        self.order();
        self.narrow_paths.expire(now);
        let mut done = 0;
        let mut retried = false;
        while done < self.datagrams.len() {
            let mut builder = writer.batch.start();
            writer.runs.clear();
            self.plan(done, pool, &mut builder, &mut writer.runs);
            counters.channel.send_calls.increment();
            counters.calls.send_calls.increment();
            match builder.send(socket.as_fd()) {
                Ok(messages) => {
                    let frames = writer.runs[..messages].iter().sum::<usize>();
                    if frames > messages {
                        self.narrow_paths.unable = 0;
                    }
                    counters.calls.sent_frames.add(frames as u64);
                    let sent = self.datagrams[done..done + frames].iter();
                    counters.calls.sent_bytes.add(sent.map(|one| one.length() as u64).sum());
                    done += frames;
                    retried = false;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.keep_rest(done, pool);
                    return Flushed::Blocked;
                }
                // About something sent earlier; reported once.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && !retried => {
                    (retried, self.was_refused) = (true, true);
                }
                Err(error) => {
                    let run = writer.runs[0];
                    if !self.shorten_runs(now, run, done, &error) {
                        let frames = &self.datagrams[done..done + run];
                        frames.iter().for_each(|datagram| refused(datagram.to.face, error.kind()));
                        done += run;
                    }
                }
            }
        }
        self.release(self.datagrams.len(), pool);
        self.reset();
        Flushed::All
    }

    /// As [`flush`](Self::flush), for drivers that copy frames to their own memory.
    pub(crate) fn flush_frames(
        &mut self,
        port: &mut (impl FrameSender + ?Sized),
        pool: &PacketPool,
        counters: SendCounters<'_>,
        mut refused: impl FnMut(FaceIndex),
    ) -> Flushed {
        self.order();
        let mut done = 0;
        let mut is_full = false;
        while let Some(datagram) = self.datagrams.get(done) {
            match self.send_frame(datagram, port, pool) {
                Ok(()) => {
                    counters.calls.sent_frames.increment();
                    counters.calls.sent_bytes.add(datagram.length() as u64);
                    (done, is_full) = (done + 1, false);
                }
                Err(FrameRefusal::TooLong) => {
                    refused(datagram.to.face);
                    done += 1;
                }
                Err(FrameRefusal::Full) if is_full => {
                    self.keep_rest(done, pool);
                    return Flushed::Blocked;
                }
                Err(FrameRefusal::Full) => {
                    is_full = true;
                    if transmit(port, counters).is_none() {
                        break;
                    }
                }
            }
        }
        let transmitted = transmit(port, counters);
        if transmitted.is_none() {
            // The device is down. Frames that the kernel has may be sent when it is up again.
            self.datagrams[done..].iter().for_each(|datagram| refused(datagram.to.face));
        }
        self.release(self.datagrams.len(), pool);
        self.reset();
        match transmitted {
            Some(false) => Flushed::Blocked,
            Some(true) | None => Flushed::All,
        }
    }

    fn send_frame(
        &self,
        datagram: &Datagram,
        port: &mut (impl FrameSender + ?Sized),
        pool: &PacketPool,
    ) -> Result<(), FrameRefusal> {
        let copied = &self.bytes[datagram.start..][..datagram.copied];
        let large = datagram.large.as_ref().map_or(&[][..], |handle| pool.bytes(handle));
        match datagram.to.target {
            Target::Link(address) => port.send(&address, &[copied, large]),
            Target::Connected | Target::Internet(_) => Err(FrameRefusal::TooLong),
        }
    }

    /// Sorts frames so that those which can be sent as one message (GSO) are adjacent: UDP does not keep order, and
    /// one call for each frame costs more than everything else. Frames of one face and length keep their order.
    fn order(&mut self) {
        if std::mem::take(&mut self.mixed) && self.sorts {
            self.datagrams[self.ordered..]
                .sort_unstable_by_key(|one| (one.to.face, Reverse(one.first_length), one.serial));
        }
        self.ordered = self.datagrams.len();
    }

    /// Prepares the messages of the next system call, from frame `first` on.
    fn plan<'d>(
        &'d self,
        first: usize,
        pool: &'d PacketPool,
        builder: &mut SendBuilder<'_, 'd>,
        runs: &mut Vec<usize>,
    ) {
        let mut next = first;
        while next < self.datagrams.len() {
            let run = self.run_at(next);
            if !builder.has_room(2 * run + 1) {
                return;
            }
            let frames = &self.datagrams[next..next + run];
            let mut copied = frames[0].start..frames[0].start;
            for datagram in frames {
                if copied.end != datagram.start {
                    push_slice(builder, &self.bytes[copied]);
                    copied = datagram.start..datagram.start;
                }
                copied.end += datagram.copied;
                if let Some(handle) = &datagram.large {
                    push_slice(builder, &self.bytes[copied.clone()]);
                    push_slice(builder, pool.bytes(handle));
                    copied = copied.end..copied.end;
                }
            }
            push_slice(builder, &self.bytes[copied]);
            let segment = (run > 1).then(|| u16::try_from(frames[0].length()).unwrap_or(0));
            match frames[0].to.target {
                Target::Connected => builder.end_message(None, segment),
                Target::Internet(peer) => builder.end_message(Some(peer), segment),
                Target::Link(address) => {
                    // Cards pad short frames, virtual devices do not, and NFD takes no short ones.
                    let missing = PAYLOAD_MIN.saturating_sub(frames[0].length());
                    push_slice(builder, &PADDING[..missing]);
                    builder.end_frame(&address);
                }
            }
            runs.push(run);
            next += run;
        }
    }

    /// Frames from `first` on that can be sent as one message: to one peer and of one length, except
    /// the last, which may be shorter.
    pub(super) fn run_at(&self, first: usize) -> usize {
        let (face, length) = (self.datagrams[first].to.face, self.datagrams[first].length());
        if !self.segments || length > self.narrow_paths.segment_length_max(face) {
            return 1;
        }
        let mut total = length;
        let mut run = 1;
        for next in self.datagrams[first + 1..].iter().take(SEGMENTS_MAX - 1) {
            let next_length = next.length();
            total += next_length;
            if next.to.face != face || next_length > length || total > MESSAGE_LENGTH_MAX {
                break;
            }
            run += 1;
            if next_length < length {
                break;
            }
        }
        run
    }

    /// After the kernel rejected a run: whether the same frames may be sent one by one.
    pub(super) fn shorten_runs(
        &mut self,
        now: Timestamp,
        run: usize,
        first: usize,
        error: &io::Error,
    ) -> bool {
        if run == 1 {
            return false;
        }
        let datagram = &self.datagrams[first];
        let (face, length) = (datagram.to.face, datagram.length());
        match Errno::from_io_error(error) {
            // The datagrams are longer than the path to this peer takes; the kernel fragments single ones.
            Some(Errno::INVAL | Errno::MSGSIZE) => self.narrow_paths.note(now, face, length - 1),
            // The network card on the way to this peer cannot.
            Some(Errno::IO | Errno::OPNOTSUPP) => self.narrow_paths.note_unable(now, face),
            Some(_) | None => return false,
        }
        true
    }

    /// Drops the first `done` frames, and copies the payloads of the others out of pool blocks.
    fn keep_rest(&mut self, done: usize, pool: &PacketPool) {
        self.release(done, pool);
        self.ordered = self.datagrams.len();
        if !self.blocked {
            self.blocked = true;
            for datagram in self.datagrams.iter().filter(|one| one.to.is_shared()) {
                *self.held.entry(datagram.to.principal).or_default() += datagram.length();
            }
        }
        let keeps_bytes = self.bytes.len() <= 2 * self.pending_bytes + KEPT_BYTES;
        if keeps_bytes && self.datagrams.iter().all(|one| one.large.is_none()) {
            // Copying the whole queue after each partial send would cost more than sending it.
            return;
        }
        let mut rest = Vec::with_capacity(self.pending_bytes);
        for datagram in &mut self.datagrams {
            let start = rest.len();
            rest.extend_from_slice(&self.bytes[datagram.start..][..datagram.copied]);
            if let Some(handle) = datagram.large.take() {
                rest.extend_from_slice(pool.bytes(&handle));
                pool.release(handle);
            }
            datagram.start = start;
            datagram.copied = rest.len() - start;
        }
        self.bytes = rest;
    }

    /// Removes the first `count` frames.
    fn release(&mut self, count: usize, pool: &PacketPool) {
        for datagram in self.datagrams.drain(..count) {
            self.pending_bytes -= datagram.length();
            if self.blocked
                && datagram.to.is_shared()
                && let Some(held) = self.held.get_mut(&datagram.to.principal)
            {
                *held -= datagram.length();
            }
            if let Some(handle) = datagram.large {
                pool.release(handle);
            }
        }
    }

    /// Resets an empty queue, except for memory that is worth keeping.
    fn reset(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
        self.pushed = 0;
        self.ordered = 0;
        self.mixed = false;
        self.blocked = false;
        self.held.clear();
    }

    /// Charges a frame to its principal while the queue waits for the kernel. Returns false if the principal would hold more
    /// bytes than remain free: so a principal alone gets half.
    #[inline]
    fn charge(&mut self, to: Destination, length: usize, bytes_max: usize) -> bool {
        if !self.blocked || !to.is_shared() {
            return true;
        }
        let held = self.held.entry(to.principal).or_default();
        let has_room = *held + self.pending_bytes + length <= bytes_max;
        *held += if has_room { length } else { 0 };
        has_room
    }

    /// Forgets the path of a face that closes.
    pub(crate) fn forget_path(&mut self, face: FaceIndex) {
        self.narrow_paths.faces.remove(&face);
    }

    /// Drops all frames.
    pub(crate) fn discard(&mut self, pool: &PacketPool) {
        self.release(self.datagrams.len(), pool);
        self.reset();
    }
}

/// The output queue of a socket, for the link service of one face.
#[derive(Debug)]
pub(crate) struct DatagramSink<'a> {
    queue: &'a mut DatagramQueue,
    to: Destination,
    pool: &'a PacketPool,
    bytes_max: usize,
    tap: TapPoint<'a>,
    /// Length of the first frame of the packet: its other fragments are sorted by that.
    first_length: Option<usize>,
}

impl<'a> DatagramSink<'a> {
    #[inline]
    pub(crate) fn new(
        queue: &'a mut DatagramQueue,
        to: Destination,
        pool: &'a PacketPool,
        bytes_max: usize,
        tap: TapPoint<'a>,
    ) -> Self {
        Self { queue, to, pool, bytes_max, tap, first_length: None }
    }

    /// Keeps the order of all frames of the face: with link reliability, the peer takes frames that arrive after later
    /// ones for lost.
    #[inline]
    pub(crate) fn in_order(self, is_ordered: bool) -> Self {
        Self { first_length: is_ordered.then_some(0), ..self }
    }
}

impl FrameSink for DatagramSink<'_> {
    #[inline]
    fn queued_bytes(&self) -> usize {
        self.queue.pending_bytes()
    }

    #[inline]
    fn push_frame(
        &mut self,
        header: &[u8],
        payload: &[u8],
        handle: Option<&PacketHandle>,
    ) -> Result<(), LinkDropReason> {
        let Self { queue, to, pool, bytes_max, tap, first_length } = self;
        let length = header.len() + payload.len();
        let first_length = *first_length.get_or_insert(length);
        if queue.pending_bytes + length > *bytes_max || !queue.charge(*to, length, *bytes_max) {
            return Err(LinkDropReason::QueueFull);
        }
        let start = queue.bytes.len();
        queue.bytes.extend_from_slice(header);
        let large = match handle {
            Some(handle) if payload.len() >= LARGE_PACKET && !queue.blocked => {
                Some(pool.retain(handle))
            }
            Some(_) | None => {
                queue.bytes.extend_from_slice(payload);
                None
            }
        };
        let copied = queue.bytes.len() - start;
        let (to, serial) = (*to, queue.pushed);
        queue.mixed |= queue
            .datagrams
            .get(queue.ordered)
            .is_some_and(|first| first.to.face != to.face || first.first_length != first_length);
        queue.datagrams.push(Datagram { to, first_length, serial, start, copied, large });
        queue.pushed += 1;
        queue.pending_bytes += length;
        tap.sent(header, payload);
        Ok(())
    }
}

/// A driver that takes whole frames.
pub(crate) trait FrameSender {
    fn send(&mut self, to: &LinkAddress, payload: &[&[u8]]) -> Result<(), FrameRefusal>;
    fn transmit(&mut self) -> io::Result<FrameTransmitted>;
}

impl FrameSender for XdpPort {
    fn send(&mut self, to: &LinkAddress, payload: &[&[u8]]) -> Result<(), FrameRefusal> {
        self.send(to.mac, payload)
    }

    fn transmit(&mut self) -> io::Result<FrameTransmitted> {
        self.transmit()
    }
}

impl FrameSender for dyn FramePort {
    fn send(&mut self, to: &LinkAddress, payload: &[&[u8]]) -> Result<(), FrameRefusal> {
        FramePort::send(self, to.mac, payload)
    }

    fn transmit(&mut self) -> io::Result<FrameTransmitted> {
        FramePort::transmit(self)
    }
}

fn push_slice<'d>(builder: &mut SendBuilder<'_, 'd>, bytes: &'d [u8]) {
    if !bytes.is_empty() {
        builder.push_slice(bytes);
    }
}

/// Transmits; returns whether everything was taken, `None` after an error.
fn transmit(port: &mut (impl FrameSender + ?Sized), counters: SendCounters<'_>) -> Option<bool> {
    let transmitted = port.transmit().ok()?;
    counters.channel.send_calls.add(transmitted.calls);
    counters.calls.send_calls.add(transmitted.calls);
    Some(transmitted.is_done)
}
