//! Faces over shared memory (memif).

mod queue;

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use ndn_memif::{
    Address, ClientHandshake, ClientOptions, Connection, Ended, Fault, HandshakeError,
    Progress as HandshakeProgress, Received, Receiver, Sent,
};
use ndn_ring::{FillBlock, PacketPool};
use ndn_sys::interrupt::Interrupter;
use ndn_sys::poll::{Event, Events, Interest, Poller};
use ndn_table::FaceIndex;
use ndn_types::Timestamp;

use crate::counters::LinkDropReason;
use crate::event::{CloseReason, FaceChange};
use crate::face::{Face, HasState, TransportFaces};
use crate::memory::{Account, Holder};
use crate::output::{FrameSink, Shed};
use crate::padding::without_padding;
use crate::receive::{Progress, ReceivedFrame, RxSink};
use crate::reconnect::{Reconnect, ReconnectAction};
use crate::source::Source;
use crate::tap::TapPoint;
use crate::transport::{NoPeer, SendRequest, Shared, Transport, TransportContext, failed};

use queue::FrameQueue;

/// Frames taken for one event, even if the worker asks for fewer.
const FRAMES_PER_EVENT_MIN: usize = 64;
/// Longest frame: the longest packet, with room for headers.
const FRAME_LENGTH_MAX: usize = 9216;
/// Time until the next attempt when a ring is full.
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// The origin of the rings of a memif face.
#[derive(Debug)]
pub enum MemifEnd {
    /// A client has connected to our socket, and the handshake is done.
    Accepted(Box<Connection>),
    /// We are connecting to a server.
    Client(Box<MemifClient>),
    /// We have connected to a server, and the handshake is done.
    Connected(Box<MemifConnection>),
}

/// A server to connect to.
#[derive(Debug)]
pub struct MemifClient {
    /// Where it is.
    pub address: Address,
    /// The requested rings.
    pub options: ClientOptions,
    /// The handshake in progress.
    pub handshake: ClientHandshake,
}

/// A server that we are connected to.
#[derive(Debug)]
pub struct MemifConnection {
    /// Where it is.
    pub address: Address,
    /// The requested rings, also of the next connection when this one is lost.
    pub options: ClientOptions,
    /// The connection.
    pub link: Box<Connection>,
}

impl MemifClient {
    /// Begins to connect.
    ///
    /// # Errors
    /// Those of `connect(2)`.
    pub fn connect(address: Address, options: ClientOptions) -> io::Result<Self> {
        let handshake = ClientHandshake::connect(&address.socket, options.clone())?;
        Ok(Self { address, options, handshake })
    }
}

/// The rings of a face, or how it is getting them.
#[derive(Debug)]
enum Rings {
    Up(Box<Connection>),
    /// The handshake with the server is in progress.
    Connecting {
        handshake: Box<ClientHandshake>,
        reconnect: Reconnect<()>,
    },
    /// The next attempt comes later.
    Waiting(Reconnect<()>),
}

/// The state of one memif face.
#[derive(Debug)]
pub struct MemifState {
    rings: Rings,
    /// The server, if we are its client.
    server: Option<(Address, ClientOptions)>,
    /// Frames that the rings have no room for.
    queue: FrameQueue,
    /// When to check a full ring for room, which no event reports.
    retry_at: Option<Timestamp>,
    /// The peer has violated the protocol; the face closes with the next flush.
    fault: Option<Fault>,
    /// The last failure to connect that was reported.
    reported: Option<CloseReason>,
    /// Frames left for the current event.
    frames_left: usize,
    /// The peer raises no interrupts: its rings are polled.
    is_polled: bool,
    /// The current event is an interrupt, not a poll.
    was_interrupted: bool,
}

/// All memif faces of a worker.
#[derive(Debug, Default)]
pub(crate) struct Memifs {
    /// Raises interrupts at peers, once there is a memif face.
    interrupter: Option<Interrupter>,
    /// Whether faces that bring frames are polled from then on, without interrupts.
    polls: bool,
    /// The faces that are polled.
    polled: Vec<FaceIndex>,
    unflushed: Vec<FaceIndex>,
    /// Where the search of `unflushed` for peers that poll continues.
    publish_from: usize,
}

impl Transport for Memifs {
    type State = Box<MemifState>;
    type New = MemifEnd;
    type Peer = NoPeer;

    const KIND: u8 = 3;

    fn open(
        &mut self,
        shared: &mut Shared,
        now: Timestamp,
        index: FaceIndex,
        end: MemifEnd,
    ) -> io::Result<Box<MemifState>> {
        if self.interrupter.is_none() {
            self.interrupter = Some(Interrupter::new()?);
        }
        let token = Source::Face(index).token();
        let poller = &shared.poller;
        let (rings, server) = match end {
            MemifEnd::Accepted(link) => {
                attach(&link, poller, token)?;
                (Rings::Up(link), None)
            }
            MemifEnd::Connected(connection) => {
                let MemifConnection { address, options, link } = *connection;
                attach(&link, poller, token)?;
                (Rings::Up(link), Some((address, options)))
            }
            MemifEnd::Client(client) => {
                let MemifClient { address, options, handshake } = *client;
                poller.add(handshake.as_fd(), token, Interest::Readable)?;
                let reconnect = Reconnect::begun(now, (), shared.reconnect_waits);
                let handshake = Box::new(handshake);
                (Rings::Connecting { handshake, reconnect }, Some((address, options)))
            }
        };
        Ok(Box::new(MemifState::new(rings, server)))
    }

    fn reject(end: &MemifEnd, reason: &str) {
        match end {
            MemifEnd::Accepted(link) => link.send_disconnect(reason),
            MemifEnd::Client(client) => {
                ndn_memif::send_disconnect(client.handshake.as_fd(), reason);
            }
            MemifEnd::Connected(connection) => connection.link.send_disconnect(reason),
        }
    }

    fn handle_event(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        memif: &mut Box<MemifState>,
        event: &Event,
        sink: &mut impl RxSink,
    ) -> Result<Progress<NoPeer>, CloseReason> {
        match &memif.rings {
            Rings::Waiting(_) => return Ok(Progress::Done),
            Rings::Connecting { .. } => {
                continue_handshake(cx, face, memif)?;
                return Ok(Progress::Done);
            }
            Rings::Up(_) => {}
        }
        if !event.readable {
            return Ok(Progress::Done);
        }
        memif.frames_left = cx.shared.frames_per_event.max(FRAMES_PER_EVENT_MIN);
        memif.was_interrupted = !event.writable;
        cx.shared.calls.receive_calls.increment();
        let progress = self.resume(cx, face, memif, sink)?;
        // Frames that were in the rings before the peer left are taken first.
        if event.closed && progress == Progress::Done && !cx.shared.report.has_more {
            return Err(memif.reason_of_end());
        }
        Ok(progress)
    }

    /// Takes frames out of the rings.
    fn resume(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        memif: &mut Box<MemifState>,
        sink: &mut impl RxSink,
    ) -> Result<Progress<NoPeer>, CloseReason> {
        let progress = loop {
            if memif.frames_left == 0 {
                cx.shared.report.has_more = true;
                break Progress::Done;
            }
            if sink.is_full() {
                break Progress::SinkFull;
            }
            let blocks = &mut cx.shared.receive_block;
            let Some(block) = blocks.with_room(FRAME_LENGTH_MAX, cx.pool) else {
                break Progress::NoBlock;
            };
            memif.frames_left -= 1;
            let received = memif.receive(block, self.interrupter.as_mut());
            match received.map_err(|fault| memif.fail(fault))? {
                Received::Nothing => {
                    cx.shared.report.has_more = false;
                    break Progress::Done;
                }
                Received::Frame(length) => take_frame(cx, face, length, sink),
                Received::TooLong => discard(cx, face, LinkDropReason::Truncated),
                Received::Malformed => discard(cx, face, LinkDropReason::Malformed),
            }
        };
        memif.release_buffers().map_err(|fault| memif.fail(fault))?;
        if self.polls && !memif.is_polled && memif.set_interrupts(false).is_ok() {
            memif.is_polled = true;
            // The entry of an earlier connection may still be there.
            if !self.polled.contains(&face.index) {
                self.polled.push(face.index);
            }
        }
        Ok(progress)
    }

    #[inline]
    fn send(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        memif: &mut Box<MemifState>,
        outgoing: SendRequest<'_, '_>,
    ) {
        let Shared { memory, tap, .. } = &mut *cx.shared;
        let account = memory.output(face.holder);
        let bytes_max = face.link.options().queue_bytes_max;
        let tap = TransportContext::tap_point(tap, cx.now, face.index);
        outgoing.encode(&mut face.link, cx.now, &mut MemifSink { memif, account, bytes_max, tap });
        face.list_unflushed(&mut self.unflushed);
    }

    fn next_unflushed(&mut self) -> Option<FaceIndex> {
        self.unflushed.pop()
    }

    /// Shows the peer what was sent.
    fn flush(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        memif: &mut Box<MemifState>,
    ) -> Result<(), CloseReason> {
        let Some(interrupter) = &mut self.interrupter else { return Ok(()) };
        cx.shared.calls.send_calls.increment();
        let flushed = memif.flush(interrupter, &mut cx.shared.memory.output(face.holder));
        let queued = memif.queue.bytes();
        memif.retry_at = (queued > 0).then(|| cx.now.plus(RETRY_AFTER));
        face.link.counters().queued_bytes.set(queued as u64);
        let dropped = flushed.map_err(|fault| memif.fail(fault))?;
        face.link.counters().dropped(LinkDropReason::OverMtu).add(dropped);
        cx.shared.deadlines.arm(face, memif.retry_at);
        Ok(())
    }

    fn next_deadline(memif: &Box<MemifState>) -> Option<Timestamp> {
        match &memif.rings {
            Rings::Up(_) => memif.retry_at,
            Rings::Connecting { reconnect, .. } | Rings::Waiting(reconnect) => {
                Some(reconnect.deadline())
            }
        }
    }

    fn handle_timeout(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        memif: &mut Box<MemifState>,
    ) -> Result<(), CloseReason> {
        match &mut memif.rings {
            Rings::Up(_) => {
                if memif.retry_at.is_some_and(|at| at <= cx.now) {
                    self.flush(cx, face, memif)?;
                }
            }
            Rings::Connecting { reconnect, .. } => {
                if reconnect.poll(cx.now) == ReconnectAction::GiveUp {
                    let reason = CloseReason::Failed(io::ErrorKind::TimedOut);
                    attempt_failed(cx, face, memif, reason)?;
                }
            }
            Rings::Waiting(reconnect) => {
                if let ReconnectAction::Connect(()) = reconnect.poll(cx.now) {
                    connect(cx, face, memif)?;
                }
            }
        }
        Ok(())
    }

    fn is_down(memif: &Box<MemifState>) -> bool {
        !memif.is_up()
    }

    /// Longest frame that the peer should be sent.
    fn frame_length_max(memif: &Box<MemifState>) -> Option<usize> {
        let Rings::Up(link) = &memif.rings else { return None };
        usize::try_from(link.frame_length_max).ok()
    }

    fn disconnect(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &Face,
        memif: &mut Box<MemifState>,
    ) -> bool {
        if memif.server.is_none() || !face.is_permanent() {
            return false;
        }
        memif.leave(face.holder, cx.shared);
        memif.rings = Rings::Waiting(Reconnect::new(cx.now, (), cx.shared.reconnect_waits));
        true
    }

    fn shed(
        &mut self,
        shared: &mut Shared,
        face: &mut Face,
        memif: &mut Box<MemifState>,
        keeps: u32,
    ) -> Shed {
        memif.queue.shed(&mut shared.memory.output(face.holder), keeps)
    }

    fn enable_polling(&mut self) {
        self.polls = true;
    }

    #[inline]
    fn has_polled(&self) -> bool {
        !self.polled.is_empty()
    }

    /// Faces left out come first the next time.
    #[inline]
    fn poll<T: HasState<Box<MemifState>>>(
        &mut self,
        faces: &mut TransportFaces<T>,
        events: &mut Events,
    ) {
        let (mut kept, mut left_out) = (0, None);
        self.polled.retain(|&index| {
            let Some(memif) = polled(faces, index) else { return false };
            if memif.has_frames() && !events.push(Source::Face(index).token()) {
                left_out.get_or_insert(kept);
            }
            kept += 1;
            true
        });
        self.polled.rotate_left(left_out.unwrap_or(0));
    }

    fn stop_polling<T: HasState<Box<MemifState>>>(
        &mut self,
        faces: &mut TransportFaces<T>,
    ) -> bool {
        let mut has_frames = false;
        for &index in &self.polled {
            let Some(memif) = polled(faces, index) else { continue };
            // A fault is found when frames are taken.
            has_frames |= memif.set_interrupts(true).is_err() || memif.has_frames();
        }
        if has_frames {
            for &index in &self.polled {
                if let Some(memif) = polled(faces, index) {
                    // An error shows as a fault when frames are taken.
                    let _ = memif.set_interrupts(false);
                }
            }
            return true;
        }
        for index in self.polled.drain(..) {
            if let Some(memif) = faces.state_mut(index) {
                memif.is_polled = false;
            }
        }
        false
    }

    fn next_unflushed_polling<T: HasState<Box<MemifState>>>(
        &mut self,
        faces: &mut TransportFaces<T>,
    ) -> Option<FaceIndex> {
        while let Some(&index) = self.unflushed.get(self.publish_from) {
            let memif: Option<&mut Box<MemifState>> = faces.state_mut(index);
            if memif.is_some_and(|memif| memif.peer_polls()) {
                // The last face of the list takes this position.
                return Some(self.unflushed.swap_remove(self.publish_from));
            }
            self.publish_from += 1;
        }
        self.publish_from = 0;
        None
    }

    fn close(
        &mut self,
        shared: &mut Shared,
        _pool: &PacketPool,
        face: &Face,
        memif: &mut Box<MemifState>,
    ) {
        memif.leave(face.holder, shared);
    }
}

/// The state of a face that is polled.
fn polled<T: HasState<Box<MemifState>>>(
    faces: &mut TransportFaces<T>,
    index: FaceIndex,
) -> Option<&mut Box<MemifState>> {
    faces.state_mut(index).filter(|memif| memif.is_polled)
}

/// Counts a frame that is dropped.
fn discard(cx: &mut TransportContext<'_>, face: &mut Face, reason: LinkDropReason) {
    cx.note_discarded();
    face.note_arrival(cx.now, Some(reason));
}

/// Delivers the frame of `length` bytes behind the filled part of the receive block.
fn take_frame(
    cx: &mut TransportContext<'_>,
    face: &mut Face,
    length: usize,
    sink: &mut impl RxSink,
) {
    let mut blocks = std::mem::take(&mut cx.shared.receive_block);
    let Some(block) = blocks.current() else { return };
    // A bridge on the way may have padded it.
    match without_padding(&block.spare_mut()[..length]) {
        None => discard(cx, face, LinkDropReason::Malformed),
        Some(length) => {
            block.commit(length);
            face.note_arrival(cx.now, None);
            cx.note_frame(length);
            cx.deliver(face, ReceivedFrame::of(length), block, sink);
        }
    }
    cx.shared.receive_block = blocks;
}

/// Begins another attempt to connect.
fn connect(
    cx: &mut TransportContext<'_>,
    face: &mut Face,
    memif: &mut MemifState,
) -> Result<(), CloseReason> {
    let (Rings::Waiting(reconnect), Some((address, options))) = (&memif.rings, &memif.server)
    else {
        return Ok(());
    };
    let token = Source::Face(face.index).token();
    let begun = ClientHandshake::connect(&address.socket, options.clone());
    let added = begun.and_then(|handshake| {
        cx.shared.poller.add(handshake.as_fd(), token, Interest::Readable)?;
        Ok(handshake)
    });
    match added {
        Ok(handshake) => {
            let (handshake, reconnect) = (Box::new(handshake), *reconnect);
            memif.rings = Rings::Connecting { handshake, reconnect };
            Ok(())
        }
        Err(error) => attempt_failed(cx, face, memif, failed(&error)),
    }
}

/// The server has sent a message.
fn continue_handshake(
    cx: &mut TransportContext<'_>,
    face: &mut Face,
    memif: &mut MemifState,
) -> Result<(), CloseReason> {
    let Rings::Connecting { reconnect, .. } = &memif.rings else { return Ok(()) };
    let reconnect = *reconnect;
    let before = std::mem::replace(&mut memif.rings, Rings::Waiting(reconnect));
    let Rings::Connecting { handshake, .. } = before else { return Ok(()) };
    match handshake.advance() {
        Ok(HandshakeProgress::Waiting(handshake)) => {
            memif.rings = Rings::Connecting { handshake: Box::new(handshake), reconnect };
        }
        Ok(HandshakeProgress::Done(link)) => {
            // From here on it is registered with other descriptors.
            let _ = cx.shared.poller.remove(link.as_fd());
            if attach(&link, &cx.shared.poller, Source::Face(face.index).token()).is_err() {
                let reason = CloseReason::Failed(io::ErrorKind::Other);
                return attempt_failed(cx, face, memif, reason);
            }
            let longest = usize::try_from(link.frame_length_max).ok();
            memif.rings = Rings::Up(link);
            memif.reported = None;
            face.set_link_options(longest);
            cx.shared.report_change(face.index, FaceChange::Up);
        }
        // The socket is closed, and so out of the poller.
        Err(error) => return attempt_failed(cx, face, memif, reason_of(&error)),
    }
    Ok(())
}

/// An attempt to connect has failed: a permanent face stays.
fn attempt_failed(
    cx: &mut TransportContext<'_>,
    face: &mut Face,
    memif: &mut MemifState,
    reason: CloseReason,
) -> Result<(), CloseReason> {
    if !face.is_permanent() {
        return Err(reason);
    }
    // An absent server is what a permanent face waits for; a refusal is reported, once.
    let is_news = matches!(reason, CloseReason::Refused(_) | CloseReason::Misbehaved);
    if is_news && memif.reported != Some(reason) {
        memif.reported = Some(reason);
        cx.shared.report_change(face.index, FaceChange::Down(reason));
    }
    memif.leave(face.holder, cx.shared);
    if let Rings::Connecting { reconnect, .. } | Rings::Waiting(reconnect) = &memif.rings {
        let mut reconnect = *reconnect;
        reconnect.handle_failure(cx.now);
        memif.rings = Rings::Waiting(reconnect);
        cx.shared.deadlines.arm(face, Some(reconnect.deadline()));
    }
    Ok(())
}

/// Why a handshake has failed.
fn reason_of(error: &HandshakeError) -> CloseReason {
    match error {
        HandshakeError::Refused(disconnect) => CloseReason::Refused(*disconnect),
        HandshakeError::Closed => CloseReason::PeerClosed,
        HandshakeError::Io(error) => failed(error),
        HandshakeError::Message(_)
        | HandshakeError::Protocol(_)
        | HandshakeError::NotAdmitted { .. }
        | HandshakeError::Memory(_) => CloseReason::Misbehaved,
    }
}

impl MemifState {
    fn new(rings: Rings, server: Option<(Address, ClientOptions)>) -> Self {
        Self {
            rings,
            server,
            queue: FrameQueue::default(),
            retry_at: None,
            fault: None,
            reported: None,
            frames_left: 0,
            is_polled: false,
            was_interrupted: false,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self.rings, Rings::Up(_))
    }

    /// Notes a fault of the peer, which is sent to it when the connection closes.
    fn fail(&mut self, fault: Fault) -> CloseReason {
        self.fault = Some(fault);
        CloseReason::Misbehaved
    }

    /// Why the peer has closed the connection.
    fn reason_of_end(&self) -> CloseReason {
        match &self.rings {
            Rings::Up(link) => match link.ended() {
                Some(Ended::Disconnected(disconnect)) => CloseReason::Left(disconnect),
                Some(Ended::Closed) | None => CloseReason::PeerClosed,
            },
            Rings::Connecting { .. } | Rings::Waiting(_) => CloseReason::PeerClosed,
        }
    }

    /// Receives the next frame into the unfilled part of `block`.
    #[inline]
    fn receive(
        &mut self,
        block: &mut FillBlock,
        interrupter: Option<&mut Interrupter>,
    ) -> Result<Received, Fault> {
        let Rings::Up(link) = &mut self.rings else { return Ok(Received::Nothing) };
        let buffer = &mut block.spare_mut()[..FRAME_LENGTH_MAX];
        for receiver in &mut link.receivers {
            let received = receiver.receive(buffer)?;
            if received != Received::Nothing {
                return Ok(received);
            }
        }
        // Without interrupts there are none to clear, except those that were raised before.
        if (self.was_interrupted || !self.is_polled)
            && let Some(interrupter) = interrupter
        {
            link.receivers.iter_mut().try_for_each(|receiver| receiver.rest(interrupter))?;
        }
        Ok(Received::Nothing)
    }

    /// Gives the peer its buffers back.
    fn release_buffers(&mut self) -> Result<(), Fault> {
        let Rings::Up(link) = &mut self.rings else { return Ok(()) };
        link.receivers.iter_mut().try_for_each(Receiver::release)
    }

    /// Gives up the rings, and the frames that wait for room in them.
    fn leave(&mut self, holder: Holder, shared: &mut Shared) {
        match &self.rings {
            Rings::Up(link) => {
                detach(link, &shared.poller);
                match self.fault {
                    Some(fault) => link.send_disconnect(&fault.to_string()),
                    None => link.send_disconnect("the face is closed"),
                }
            }
            Rings::Connecting { handshake, .. } => {
                ndn_memif::send_disconnect(
                    handshake.as_fd(),
                    "the face is closed, or waited for too long",
                );
                let _ = shared.poller.remove(handshake.as_fd());
            }
            Rings::Waiting(_) => {}
        }
        self.queue.clear(&mut shared.memory.output(holder));
        self.retry_at = None;
        self.fault = None;
        self.is_polled = false;
    }

    /// Makes the peer raise interrupts, or none.
    fn set_interrupts(&mut self, requested: bool) -> Result<(), Fault> {
        let Rings::Up(link) = &mut self.rings else { return Ok(()) };
        link.receivers.iter_mut().try_for_each(|receiver| receiver.set_interrupts(requested))
    }

    /// Whether there is something to take, or a fault to find.
    #[inline]
    fn has_frames(&mut self) -> bool {
        let Rings::Up(link) = &mut self.rings else { return false };
        link.receivers.iter_mut().any(|receiver| receiver.is_empty() != Ok(true))
    }

    /// Whether the peer polls all its rings, so that it needs no interrupt.
    #[inline]
    fn peer_polls(&self) -> bool {
        let Rings::Up(link) = &self.rings else { return false };
        link.senders.iter().all(|sender| sender.wakes_peer() == Ok(false))
    }

    /// Puts a frame into a ring with room, or into the queue.
    #[inline]
    fn push(
        &mut self,
        header: &[u8],
        payload: &[u8],
        account: &mut Account<'_>,
        bytes_max: usize,
    ) -> Result<(), LinkDropReason> {
        let Rings::Up(link) = &mut self.rings else { return Err(LinkDropReason::Down) };
        if self.fault.is_some() {
            return Err(LinkDropReason::Down);
        }
        if !self.queue.is_empty() {
            return self.queue.push(header, payload, account, bytes_max);
        }
        match send(link, &[header, payload]) {
            Ok(Sent::Queued) => Ok(()),
            Ok(Sent::Full) => self.queue.push(header, payload, account, bytes_max),
            Ok(Sent::TooLong) => Err(LinkDropReason::OverMtu),
            Err(fault) => {
                self.fault = Some(fault);
                Err(LinkDropReason::Down)
            }
        }
    }

    /// Shows the peer the queued frames and those in the rings. Returns how many frames were dropped because they do
    /// not fit its ring at all.
    fn flush(
        &mut self,
        interrupter: &mut Interrupter,
        account: &mut Account<'_>,
    ) -> Result<u64, Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let Rings::Up(link) = &mut self.rings else { return Ok(0) };
        let mut dropped = 0;
        while let Some(frame) = self.queue.first() {
            match send(link, &frame)? {
                Sent::Queued => {}
                Sent::TooLong => dropped += 1,
                Sent::Full => break,
            }
            self.queue.pop(account);
        }
        for sender in &mut link.senders {
            sender.publish(interrupter)?;
        }
        Ok(dropped)
    }
}

/// Adds the descriptors of the rings and their socket to the poller.
fn attach(link: &Connection, poller: &Poller, token: u64) -> io::Result<()> {
    let added = poller.add(link, token, Interest::Closed).and_then(|()| {
        let mut receivers = link.receivers.iter();
        receivers.try_for_each(|one| poller.add(one, token, Interest::Readable))
    });
    if added.is_err() {
        detach(link, poller);
    }
    added
}

/// Removes them. Closing is not enough: the peer may have the same eventfds open.
fn detach(link: &Connection, poller: &Poller) {
    let receivers = link.receivers.iter().map(AsFd::as_fd);
    for descriptor in receivers.chain([link.as_fd()]) {
        // One that was never added need not be removed.
        let _ = poller.remove(descriptor);
    }
}

/// Puts a frame into the first ring with room, so that frames keep their order while there is some.
#[inline]
fn send(link: &mut Connection, parts: &[&[u8]]) -> Result<Sent, Fault> {
    let mut outcome = Sent::Full;
    for sender in &mut link.senders {
        outcome = sender.send(parts)?;
        if outcome != Sent::Full {
            break;
        }
    }
    Ok(outcome)
}

/// The rings of a memif face, for the link service.
struct MemifSink<'a> {
    memif: &'a mut MemifState,
    account: Account<'a>,
    bytes_max: usize,
    tap: TapPoint<'a>,
}

impl FrameSink for MemifSink<'_> {
    #[inline]
    fn queued_bytes(&self) -> usize {
        self.memif.queue.bytes()
    }

    #[inline]
    fn push_frame(
        &mut self,
        header: &[u8],
        payload: &[u8],
        _handle: Option<&ndn_ring::PacketHandle>,
    ) -> Result<(), LinkDropReason> {
        self.memif.push(header, payload, &mut self.account, self.bytes_max)?;
        self.tap.sent(header, payload);
        Ok(())
    }
}
