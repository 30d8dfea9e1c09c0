//! Faces on byte streams: Unix and TCP, and WebSocket on them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ndn_packet::MAX_PACKET_SIZE;
use ndn_packet::tlv::frame_len;
use ndn_packet::types;
use ndn_ring::{FillBlock, PacketHandle, PacketPool};
use ndn_sys::netlink::user_of_tcp_peer;
use ndn_sys::poll::{Event, Interest};
use ndn_sys::stream;
use ndn_table::FaceIndex;
use ndn_types::{PrincipalKey, Timestamp};

use crate::counters::LinkDropReason;
use crate::event::{CloseReason, FaceChange};
use crate::face::Face;
use crate::memory::{Account, Holder};
use crate::output::FrameSink;
use crate::output::{Flushed, OutputQueue, Shed, SpareQueues};
use crate::receive::{Progress, ReceivedFrame, RxSink};
use crate::reconnect::{Reconnect, ReconnectAction};
use crate::source::Source;
use crate::tap::TapPoint;
use crate::transport::{NoPeer, SendRequest, Shared, Transport, TransportContext, failed};
use crate::websocket::{
    CONTROL_LENGTH_MAX, CloseCode, Due, HEAD_LENGTH_MAX, Head, Opcode, WebSocket, unmask,
    write_head,
};

/// A receive block with less room than this is replaced before a stream is read into it.
const READ_ROOM_MIN: usize = 32 * 1024;
/// Buffers for partial frames to keep for faces that need one.
const SPARE_PARTIALS_MAX: usize = 64;
/// Longest frame on a stream: the largest packet behind the largest header that makes sense.
pub(crate) const FRAME_LENGTH_MAX: usize = MAX_PACKET_SIZE + 256;
/// Headers up to this length are joined on the stack: that of a message and NDNLPv2's of most frames.
const JOINED_HEADERS_SHORT: usize = 192;

/// The state of one stream face.
#[derive(Debug)]
pub struct StreamState {
    connection: Connection,
    /// The beginning of a frame whose end has not been read.
    partial: Vec<u8>,
    /// Taken from the spare queues when something is sent, returned when all of it is written.
    output: Option<Box<OutputQueue>>,
    /// Frames travel in WebSocket messages.
    websocket: Option<Box<WebSocket>>,
}

impl StreamState {
    /// Bytes that the partial frame lacks; 0 if its header is not complete.
    fn missing_bytes(&self) -> usize {
        if self.partial.is_empty() {
            return 0;
        }
        let length = match &self.websocket {
            None => frame_len(&self.partial).ok().flatten(),
            Some(_) => {
                let head = Head::parse(&self.partial, FRAME_LENGTH_MAX).ok().flatten();
                head.map(|head| head.total())
            }
        };
        length.map_or(0, |length| length.saturating_sub(self.partial.len()))
    }
}

/// The connection of a stream face.
#[derive(Debug)]
enum Connection {
    Up(OwnedFd),
    Down { reconnect: Reconnect, attempt: Option<OwnedFd> },
}

/// A connected, non-blocking stream for a new face.
#[derive(Debug)]
pub enum NewStream {
    /// Packets lie behind each other.
    Plain(OwnedFd),
    /// A stream on which a WebSocket handshake was made, with this host as the server.
    WebSocket(OwnedFd),
}

/// All stream faces of a worker.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Output queues that no face uses.
    spare_queues: SpareQueues,
    /// Buffers for partial frames that no face uses.
    spare_partials: Vec<Vec<u8>>,
    /// Where a partial write puts the rest; only its capacity lasts.
    scratch: Vec<u8>,
    unflushed: Vec<FaceIndex>,
}

impl Transport for Streams {
    type State = StreamState;
    type New = NewStream;
    type Peer = NoPeer;

    const KIND: u8 = 0;

    fn open(
        &mut self,
        shared: &mut Shared,
        now: Timestamp,
        index: FaceIndex,
        new: NewStream,
    ) -> io::Result<StreamState> {
        let (stream, websocket) = match new {
            NewStream::Plain(stream) => (stream, None),
            NewStream::WebSocket(stream) => (stream, Some(Box::new(WebSocket::new(now)))),
        };
        shared.poller.add(&stream, Source::Face(index).token(), Interest::Readable)?;
        let connection = Connection::Up(stream);
        Ok(StreamState { connection, partial: Vec::new(), output: None, websocket })
    }

    fn handle_event(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        stream: &mut StreamState,
        event: &Event,
        sink: &mut impl RxSink,
    ) -> Result<Progress<NoPeer>, CloseReason> {
        if matches!(stream.connection, Connection::Down { .. }) {
            connection_attempted(cx, face, stream);
            return Ok(Progress::Done);
        }
        if event.writable && stream.output.as_ref().is_some_and(|queue| queue.is_blocked()) {
            self.flush(cx, face, stream)?;
        }
        match event.readable {
            true => self.read(cx, face, stream, sink),
            false => Ok(Progress::Done),
        }
    }

    fn resume(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        stream: &mut StreamState,
        sink: &mut impl RxSink,
    ) -> Result<Progress<NoPeer>, CloseReason> {
        let mut blocks = std::mem::take(&mut cx.shared.receive_block);
        let Some(block) = blocks.current() else { return Ok(Progress::Done) };
        let result = match stream.websocket.is_some() {
            true => self.take_messages(cx, face, stream, block, sink),
            false => self.take_frames(cx, face, stream, block, sink),
        };
        cx.shared.receive_block = blocks;
        if !matches!(result, Ok(Progress::SinkFull)) {
            cx.shared.skip_received();
        }
        result
    }

    #[inline]
    fn send(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        stream: &mut StreamState,
        outgoing: SendRequest<'_, '_>,
    ) {
        if !matches!(stream.connection, Connection::Up(_)) {
            return outgoing.drop_while_down(&mut face.link, cx.now);
        }
        let queue = stream.output.get_or_insert_with(|| self.spare_queues.take());
        let Shared { memory, tap, .. } = &mut *cx.shared;
        let mut sink = StreamSink {
            queue,
            pool: cx.pool,
            account: memory.output(face.holder),
            bytes_max: face.link.options().queue_bytes_max,
            is_websocket: stream.websocket.is_some(),
            tap: TransportContext::tap_point(tap, cx.now, face.index),
        };
        outgoing.encode(&mut face.link, cx.now, &mut sink);
        list(&mut self.unflushed, face, queue);
    }

    fn next_unflushed(&mut self) -> Option<FaceIndex> {
        self.unflushed.pop()
    }

    fn flush(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        stream: &mut StreamState,
    ) -> Result<(), CloseReason> {
        let (Connection::Up(connection), Some(queue)) = (&stream.connection, &mut stream.output)
        else {
            return Ok(());
        };
        let was_blocked = queue.is_blocked();
        let Shared { memory, calls, poller, .. } = &mut *cx.shared;
        let account = &mut memory.output(face.holder);
        let result = queue.flush(connection.as_fd(), cx.pool, account, &mut self.scratch, calls);
        face.link.counters().queued_bytes.set(queue.pending_bytes() as u64);
        let interest = match result.map_err(|error| failed(&error))? {
            Flushed::All => {
                self.spare_queues.put(stream.output.take());
                Interest::Readable
            }
            Flushed::Blocked => Interest::ReadableAndWritable,
        };
        let is_blocked = interest == Interest::ReadableAndWritable;
        if is_blocked != was_blocked {
            let modified = poller.modify(connection, Source::Face(face.index).token(), interest);
            debug_assert!(modified.is_ok(), "a face's stream is in the poller");
        }
        Ok(())
    }

    fn next_deadline(stream: &StreamState) -> Option<Timestamp> {
        let reconnect = match &stream.connection {
            Connection::Down { reconnect, .. } => Some(reconnect.deadline()),
            Connection::Up(_) => None,
        };
        let websocket = stream.websocket.as_ref().map(|websocket| websocket.next_deadline());
        [reconnect, websocket].into_iter().flatten().min()
    }

    fn handle_timeout(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        stream: &mut StreamState,
    ) -> Result<(), CloseReason> {
        let websocket = stream.websocket.as_mut();
        match websocket.map_or(Due::Nothing, |websocket| websocket.poll(cx.now)) {
            Due::Nothing => {}
            Due::Ping => self.send_control(cx, face, stream, Opcode::Ping, &[]),
            Due::Silence => return Err(CloseReason::Silent),
            Due::Unfinished => {
                return Err(self.end_websocket(cx, face, stream, CloseCode::Unfinished));
            }
        }
        poll_reconnect(cx, face, stream);
        Ok(())
    }

    fn is_down(stream: &StreamState) -> bool {
        matches!(stream.connection, Connection::Down { .. })
    }

    fn disconnect(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &Face,
        stream: &mut StreamState,
    ) -> bool {
        let Some(remote) = face.options.reconnect_to.filter(|_| face.is_permanent()) else {
            return false;
        };
        stream.partial = Vec::new();
        self.discard_output(cx.shared, cx.pool, face.holder, stream);
        let reconnect = Reconnect::new(cx.now, remote, cx.shared.reconnect_waits);
        // Closes the old connection, which removes it from the poller.
        stream.connection = Connection::Down { reconnect, attempt: None };
        true
    }

    fn shed(
        &mut self,
        shared: &mut Shared,
        face: &mut Face,
        stream: &mut StreamState,
        keeps: u32,
    ) -> Shed {
        let Some(queue) = &mut stream.output else { return Shed::default() };
        let shed = queue.shed(&mut shared.memory.output(face.holder), keeps);
        face.link.counters().queued_bytes.set(queue.pending_bytes() as u64);
        shed
    }

    fn close(
        &mut self,
        shared: &mut Shared,
        pool: &PacketPool,
        face: &Face,
        stream: &mut StreamState,
    ) {
        self.discard_output(shared, pool, face.holder, stream);
        if let Some(websocket) = &stream.websocket {
            shared.memory.reassembly(face.holder).give_back(websocket.message.len());
        }
    }
}

impl Streams {
    /// Reads once.
    fn read(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        stream: &mut StreamState,
        sink: &mut impl RxSink,
    ) -> Result<Progress<NoPeer>, CloseReason> {
        let Connection::Up(connection) = &stream.connection else { return Ok(Progress::Done) };
        let Shared { receive_block, calls, report, .. } = &mut *cx.shared;
        let Some(block) = receive_block.with_room(READ_ROOM_MIN, cx.pool) else {
            return Ok(Progress::NoBlock);
        };
        let partial = stream.partial.len();
        let spare = block.spare_mut();
        calls.receive_calls.increment();
        let length = match stream::read(connection.as_fd(), &mut spare[partial..]) {
            Ok(0) => return Err(CloseReason::PeerClosed),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Progress::Done),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                return Err(CloseReason::PeerClosed);
            }
            Err(error) => return Err(failed(&error)),
        };
        report.has_more = partial + length == spare.len();
        face.note_arrival(cx.now, None);
        if length < stream.missing_bytes() {
            // Each byte of a frame is kept once, however small the pieces are in which it arrives.
            stream.partial.extend_from_slice(&spare[partial..partial + length]);
            return Ok(Progress::Done);
        }
        spare[..partial].copy_from_slice(&stream.partial);
        block.commit(partial + length);
        stream.partial.clear();
        self.resume(cx, face, stream, sink)
    }

    /// Takes frames out of the receive block.
    fn take_frames(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        stream: &mut StreamState,
        block: &mut FillBlock,
        sink: &mut impl RxSink,
    ) -> Result<Progress<NoPeer>, CloseReason> {
        loop {
            let filled = block.filled();
            // At the first byte, before the rest of it has arrived: a stream of another protocol must not be searched
            // for frames.
            if let Some(first) = filled.first().filter(|first| !types::starts_frame(**first)) {
                return Err(other_protocol(cx, *first));
            }
            let length = match frame_len(filled) {
                Ok(Some(length)) if length > FRAME_LENGTH_MAX => {
                    return Err(CloseReason::FrameTooLong);
                }
                Ok(Some(length)) if length <= filled.len() => length,
                Ok(_) => {
                    self.keep_partial(stream, filled);
                    return Ok(Progress::Done);
                }
                Err(_) => return Err(CloseReason::MalformedFrame),
            };
            if sink.is_full() {
                return Ok(Progress::SinkFull);
            }
            cx.note_frame(length);
            cx.deliver(face, ReceivedFrame::of(length), block, sink);
        }
    }

    /// Keeps the beginning of a frame until the rest of it arrives. Only a face with a partial frame holds memory for
    /// one.
    fn keep_partial(&mut self, stream: &mut StreamState, bytes: &[u8]) {
        if bytes.is_empty() {
            let partial = std::mem::take(&mut stream.partial);
            if partial.capacity() > 0 && self.spare_partials.len() < SPARE_PARTIALS_MAX {
                self.spare_partials.push(partial);
            }
            return;
        }
        if stream.partial.capacity() == 0 {
            stream.partial = self.spare_partials.pop().unwrap_or_default();
        }
        stream.partial.extend_from_slice(bytes);
    }

    fn discard_output(
        &mut self,
        shared: &mut Shared,
        pool: &PacketPool,
        holder: Holder,
        stream: &mut StreamState,
    ) {
        if let Some(queue) = &mut stream.output {
            queue.discard(pool, &mut shared.memory.output(holder));
        }
        self.spare_queues.put(stream.output.take());
    }
}

/// WebSocket.
impl Streams {
    /// Takes messages out of the receive block.
    fn take_messages(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        stream: &mut StreamState,
        block: &mut FillBlock,
        sink: &mut impl RxSink,
    ) -> Result<Progress<NoPeer>, CloseReason> {
        loop {
            let head = match Head::parse(block.filled(), FRAME_LENGTH_MAX) {
                Ok(Some(head)) if head.total() <= block.filled().len() => head,
                Ok(_) => {
                    self.keep_partial(stream, block.filled());
                    return Ok(Progress::Done);
                }
                Err(code) => return Err(self.end_websocket(cx, face, stream, code)),
            };
            if sink.is_full() {
                return Ok(Progress::SinkFull);
            }
            let payload = head.length..head.total();
            unmask(&mut block.filled_mut()[payload.clone()], head.mask);
            let Some(websocket) = &mut stream.websocket else { return Ok(Progress::Done) };
            match accept_frame(cx, face.holder, websocket, &head, &block.filled()[payload]) {
                FrameAction::OtherProtocol(first) => {
                    self.end_websocket(cx, face, stream, CloseCode::Unsupported);
                    return Err(other_protocol(cx, first));
                }
                FrameAction::Packet => {
                    block.skip(head.length);
                    cx.note_frame(head.payload_length);
                    cx.deliver(face, ReceivedFrame::of(head.payload_length), block, sink);
                }
                FrameAction::LastPart => {
                    block.skip(head.total());
                    let message = std::mem::take(&mut websocket.message);
                    deliver_message(cx, face, &message, sink);
                }
                FrameAction::None => {
                    cx.note_discarded();
                    block.skip(head.total());
                }
                FrameAction::Pong => {
                    cx.note_discarded();
                    let mut payload = [0; CONTROL_LENGTH_MAX];
                    let payload = &mut payload[..head.payload_length];
                    payload.copy_from_slice(&block.filled()[head.length..head.total()]);
                    self.send_control(cx, face, stream, Opcode::Pong, payload);
                    block.skip(head.total());
                }
                FrameAction::Close(code) => {
                    return Err(self.end_websocket(cx, face, stream, code));
                }
            }
        }
    }

    /// Sends the peer the status code of the end (RFC 6455, section 7.1.2).
    fn end_websocket(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        stream: &mut StreamState,
        code: CloseCode,
    ) -> CloseReason {
        self.send_control(cx, face, stream, Opcode::Close, &code.number().to_be_bytes());
        // The face ends in any case.
        let _ = self.flush(cx, face, stream);
        match code {
            CloseCode::Normal => CloseReason::PeerClosed,
            CloseCode::TooLong => CloseReason::FrameTooLong,
            CloseCode::Protocol
            | CloseCode::Unsupported
            | CloseCode::Unfinished
            | CloseCode::NoMemory => CloseReason::WebSocket(code.number()),
        }
    }

    /// Queues a control frame, if there is room for it: a peer that reads nothing gets no answers.
    fn send_control(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        stream: &mut StreamState,
        opcode: Opcode,
        payload: &[u8],
    ) {
        if !matches!(stream.connection, Connection::Up(_)) {
            return;
        }
        let mut head = [0; HEAD_LENGTH_MAX];
        let length = write_head(opcode, payload.len(), &mut head);
        let bytes_max = face.link.options().queue_bytes_max;
        let queue = stream.output.get_or_insert_with(|| self.spare_queues.take());
        let account = &mut cx.shared.memory.output(face.holder);
        let _ = queue.push(&head[..length], payload, None, cx.pool, account, bytes_max);
        list(&mut self.unflushed, face, queue);
    }
}

/// Action that a frame of the peer leads to.
#[derive(Debug)]
enum FrameAction {
    /// Its payload is a packet.
    Packet,
    /// It is the last part of a packet.
    LastPart,
    None,
    /// The payload is to be sent back.
    Pong,
    Close(CloseCode),
    /// The message starts with this byte, so it is no frame.
    OtherProtocol(u8),
}

/// Judges a frame by its header, and keeps the part of a message that comes in several frames.
fn accept_frame(
    cx: &mut TransportContext<'_>,
    holder: Holder,
    websocket: &mut WebSocket,
    head: &Head,
    payload: &[u8],
) -> FrameAction {
    websocket.note_frame();
    let is_data = match head.opcode {
        Opcode::Binary => !websocket.is_in_message,
        Opcode::Continuation => websocket.is_in_message,
        Opcode::Text | Opcode::Close | Opcode::Ping | Opcode::Pong => false,
    };
    if is_data
        && websocket.message.is_empty()
        && let Some(first) = payload.first().filter(|first| !types::starts_frame(**first))
    {
        return FrameAction::OtherProtocol(*first);
    }
    match (head.opcode, websocket.is_in_message) {
        (Opcode::Close, _) => FrameAction::Close(CloseCode::Normal),
        (Opcode::Ping, _) => FrameAction::Pong,
        (Opcode::Pong, _) => FrameAction::None,
        (Opcode::Text, _) => FrameAction::Close(CloseCode::Unsupported),
        (Opcode::Binary, false) if head.is_final && payload.is_empty() => FrameAction::None,
        (Opcode::Binary, false) if head.is_final => FrameAction::Packet,
        (Opcode::Binary, false) | (Opcode::Continuation, true) => {
            if websocket.message.len() + payload.len() > FRAME_LENGTH_MAX {
                return FrameAction::Close(CloseCode::TooLong);
            }
            if !cx.shared.memory.reassembly(holder).take(payload.len()) {
                return FrameAction::Close(CloseCode::NoMemory);
            }
            websocket.message.extend_from_slice(payload);
            websocket.note_part(cx.now, head.is_final);
            if head.is_final { FrameAction::LastPart } else { FrameAction::None }
        }
        (Opcode::Binary, true) | (Opcode::Continuation, false) => {
            FrameAction::Close(CloseCode::Protocol)
        }
    }
}

/// Delivers a message that came in several frames, which is rare.
fn deliver_message(
    cx: &mut TransportContext<'_>,
    face: &mut Face,
    message: &[u8],
    sink: &mut impl RxSink,
) {
    cx.shared.memory.reassembly(face.holder).give_back(message.len());
    if message.is_empty() {
        cx.note_discarded();
    } else {
        cx.note_frame(message.len());
        cx.deliver_message(face, message, sink);
    }
}

/// Counts a connection that is closed because of the first byte of a frame.
#[cold]
fn other_protocol(cx: &mut TransportContext<'_>, first: u8) -> CloseReason {
    cx.shared.calls.other_protocol.increment();
    CloseReason::OtherProtocol(first)
}

/// An attempt to connect has ended.
fn connection_attempted(cx: &mut TransportContext<'_>, face: &mut Face, stream: &mut StreamState) {
    let Connection::Down { reconnect, attempt } = &mut stream.connection else { return };
    let Some(connected) = attempt.take() else { return };
    let token = Source::Face(face.index).token();
    let result = stream::take_error(connected.as_fd())
        .and_then(|()| check_user(connected.as_fd(), face.options.properties.principal))
        .and_then(|()| cx.shared.poller.modify(&connected, token, Interest::Readable));
    match result {
        Ok(()) => {
            stream.connection = Connection::Up(connected);
            cx.shared.report_change(face.index, FaceChange::Up);
        }
        Err(error) => {
            reconnect.handle_failure(cx.now);
            cx.shared.report_change(face.index, FaceChange::Down(failed(&error)));
        }
    }
    cx.shared.deadlines.arm(face, Streams::next_deadline(stream));
}

/// A local face must find the same user again: meanwhile, another one may listen at the address of its peer.
fn check_user(connection: BorrowedFd<'_>, principal: PrincipalKey) -> io::Result<()> {
    if let PrincipalKey::LocalApplication { uid, .. } = principal
        && user_of_tcp_peer(connection)? != Some(uid)
    {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(())
}

/// Begins to connect again, or gives an attempt up, if that is due.
fn poll_reconnect(cx: &mut TransportContext<'_>, face: &Face, stream: &mut StreamState) {
    let Connection::Down { reconnect, attempt } = &mut stream.connection else { return };
    let failure = match reconnect.poll(cx.now) {
        ReconnectAction::None => return,
        ReconnectAction::GiveUp => {
            *attempt = None;
            io::ErrorKind::TimedOut
        }
        ReconnectAction::Connect(remote) => {
            let token = Source::Face(face.index).token();
            let started = stream::connect_tcp(remote).and_then(|started| {
                cx.shared.poller.add(&started, token, Interest::Writable)?;
                Ok(started)
            });
            match started {
                Ok(started) => {
                    *attempt = Some(started);
                    return;
                }
                Err(error) => {
                    reconnect.handle_failure(cx.now);
                    error.kind()
                }
            }
        }
    };
    cx.shared.report_change(face.index, FaceChange::Down(CloseReason::Failed(failure)));
}

/// Lists a face for the next flush. A blocked queue is flushed when the kernel reports room.
#[inline]
fn list(unflushed: &mut Vec<FaceIndex>, face: &mut Face, queue: &OutputQueue) {
    if !queue.is_blocked() {
        face.list_unflushed(unflushed);
    }
}

/// The output queue of a stream face, for the link service.
struct StreamSink<'a> {
    queue: &'a mut OutputQueue,
    pool: &'a PacketPool,
    account: Account<'a>,
    bytes_max: usize,
    /// Frames go out as binary messages.
    is_websocket: bool,
    tap: TapPoint<'a>,
}

impl StreamSink<'_> {
    /// Adds a frame as a message, whose header comes first.
    fn push_message(
        &mut self,
        header: &[u8],
        payload: &[u8],
        handle: Option<&PacketHandle>,
    ) -> Result<(), LinkDropReason> {
        let mut head = [0; HEAD_LENGTH_MAX];
        let length = write_head(Opcode::Binary, header.len() + payload.len(), &mut head);
        with_joined(&head[..length], header, |headers| {
            self.queue.push(headers, payload, handle, self.pool, &mut self.account, self.bytes_max)
        })
    }
}

impl FrameSink for StreamSink<'_> {
    #[inline]
    fn queued_bytes(&self) -> usize {
        self.queue.queued_bytes()
    }

    #[inline]
    fn push_frame(
        &mut self,
        header: &[u8],
        payload: &[u8],
        handle: Option<&PacketHandle>,
    ) -> Result<(), LinkDropReason> {
        if self.is_websocket {
            self.push_message(header, payload, handle)?;
        } else {
            self.queue.push(
                header,
                payload,
                handle,
                self.pool,
                &mut self.account,
                self.bytes_max,
            )?;
        }
        self.tap.sent(header, payload);
        Ok(())
    }
}

/// Calls `then` with both headers in one piece, the outer one first. Short ones need no memory.
fn with_joined<T>(outer: &[u8], inner: &[u8], then: impl FnOnce(&[u8]) -> T) -> T {
    let mut short = [0; JOINED_HEADERS_SHORT];
    let Some(both) = short.get_mut(..outer.len() + inner.len()) else {
        return then(&[outer, inner].concat());
    };
    both[..outer.len()].copy_from_slice(outer);
    both[outer.len()..].copy_from_slice(inner);
    then(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_any_length_are_joined_in_order() {
        for length in [0, 1, 189, 190, JOINED_HEADERS_SHORT, 1000] {
            let inner: Vec<u8> = (0..=255).cycle().take(length).collect();
            let joined = with_joined(&[7, 8], &inner, <[u8]>::to_vec);
            assert_eq!((&joined[..2], &joined[2..]), (&[7, 8][..], &inner[..]));
        }
    }
}
