//! Faces over shared memory: making them, receiving, and their connections.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use ndn_memif::{
    ClientHandshake, Ended, Fault, HandshakeError, Progress as Handshaken, Received, Receiver,
};
use ndn_ring::PacketPool;
use ndn_sys::interrupt::Interrupter;
use ndn_sys::poll::{Event, Events, Interest};
use ndn_table::{FaceIndex, Timestamp};

use crate::ether::without_padding;
use crate::face::{Face, Transport};
use crate::memif::{MemifClient, MemifConnection, MemifEnd, MemifTransport, Rings};
use crate::reconnect::{Reconnect, ReconnectAction};
use crate::set::receive::{Pending, Progress, RxSink, block_with_room};
use crate::set::{FaceSet, face_in, token_of};
use crate::{CloseReason, FaceChange, FaceCounters, FaceEvent, FaceOptions, LinkDropReason};

/// Frames taken for one event, however few the worker asks for.
const FRAMES_PER_EVENT_MIN: usize = 64;
/// Longest frame: the longest packet, with room for headers.
const FRAME_LENGTH_MAX: usize = 9216;
/// How soon to look again for room in a ring that is full.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

impl FaceSet {
    /// Makes a face of shared memory, or of a connection that has begun to be made. The latter is down
    /// at first.
    ///
    /// # Errors
    /// If the slot of `index` is taken, the poller does not take the descriptors, or the system has no
    /// means to raise interrupts.
    pub fn add_memif(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        end: MemifEnd,
        options: &FaceOptions,
    ) -> io::Result<Arc<FaceCounters>> {
        self.check_vacant(index)?;
        if self.interrupter.is_none() {
            self.interrupter = Some(Interrupter::new()?);
        }
        let transport = match end {
            MemifEnd::Accepted(link) => {
                MemifTransport::attach(&link, &self.poller, token_of(index))?;
                MemifTransport::new(Rings::Up(link), None)
            }
            MemifEnd::Connected(connection) => {
                let MemifConnection { address, options, link } = *connection;
                MemifTransport::attach(&link, &self.poller, token_of(index))?;
                MemifTransport::new(Rings::Up(link), Some((address, options)))
            }
            MemifEnd::Client(client) => {
                let MemifClient { address, options, handshake } = *client;
                self.poller.add(handshake.as_fd(), token_of(index), Interest::Readable)?;
                let reconnect = Reconnect::begun(now, (), self.reconnect_waits);
                let handshake = Box::new(handshake);
                let rings = Rings::Connecting { handshake, reconnect };
                MemifTransport::new(rings, Some((address, options)))
            }
        };
        let is_up = transport.is_up();
        let counters = self.insert(now, index, Transport::Memif(Box::new(transport)), options);
        if let Some(face) = face_in(&mut self.faces, index) {
            face.set_link_options();
        }
        if !is_up {
            let change = FaceChange::Down(CloseReason::Failed(io::ErrorKind::NotConnected));
            self.events.push_back(FaceEvent { face: index, change });
        }
        Ok(counters)
    }

    /// From now on memif faces that bring frames want no interrupts until
    /// [`sleep_on_rings`](Self::sleep_on_rings): whoever waits looks at their rings by
    /// [`look_into_rings`](Self::look_into_rings) meanwhile.
    pub fn poll_rings(&mut self) {
        self.polls_rings = true;
    }

    /// Whether there are rings to look at.
    #[must_use]
    #[inline]
    pub fn has_polled_rings(&self) -> bool {
        !self.polled.is_empty()
    }

    /// Adds an event for each face whose rings are looked at and hold something, as long as there is
    /// room. Those left out come first the next time.
    #[inline]
    pub fn look_into_rings(&mut self, events: &mut Events) {
        let Self { polled, faces, .. } = self;
        let (mut kept, mut left_out) = (0, None);
        polled.retain(|&index| {
            let Some(memif) = memif_in(faces, index).filter(|memif| memif.is_polled) else {
                return false;
            };
            if memif.has_frames() && !events.push(token_of(index)) {
                left_out.get_or_insert(kept);
            }
            kept += 1;
            true
        });
        polled.rotate_left(left_out.unwrap_or(0));
    }

    /// Has all peers raise interrupts again, to wait for them. True if there is something in the rings
    /// already; then they go on being looked at.
    pub fn sleep_on_rings(&mut self) -> bool {
        let Self { polled, faces, .. } = self;
        let mut has_frames = false;
        for &index in &*polled {
            let Some(memif) = memif_in(faces, index).filter(|memif| memif.is_polled) else {
                continue;
            };
            // A fault is found when frames are taken.
            has_frames |= memif.set_interrupts(true).is_err() || memif.has_frames();
        }
        if has_frames {
            for &index in &*polled {
                if let Some(memif) = memif_in(faces, index).filter(|memif| memif.is_polled) {
                    // What cannot be told the peer now is found to be a fault later.
                    let _ = memif.set_interrupts(false);
                }
            }
            return true;
        }
        for index in polled.drain(..) {
            if let Some(memif) = memif_in(faces, index) {
                memif.is_polled = false;
            }
        }
        false
    }

    /// The rings of this face have brought something.
    fn poll_rings_of(&mut self, index: FaceIndex) {
        let Self { polled, faces, .. } = self;
        let Some(memif) = memif_in(faces, index) else { return };
        if !memif.is_polled && memif.set_interrupts(false).is_ok() {
            memif.is_polled = true;
            // It may be there still from before the last connection.
            if !polled.contains(&index) {
                polled.push(index);
            }
        }
    }

    /// Handles an event of a memif face.
    pub(super) fn handle_memif_event(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        event: &Event,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        let enough = self.datagrams_per_event.max(FRAMES_PER_EVENT_MIN);
        let Some(memif) = memif_in(&mut self.faces, index) else { return Progress::Done };
        match &memif.rings {
            Rings::Waiting(_) => return Progress::Done,
            Rings::Connecting { .. } => {
                self.go_on_connecting(now, index, pool);
                return Progress::Done;
            }
            Rings::Up(_) => {}
        }
        memif.frames_left = enough;
        memif.was_interrupted = !event.writable;
        self.calls.receive_calls.increment();
        let progress = self.take_memif(now, index, pool, sink);
        // What was in the rings before the peer left is taken first.
        if event.closed && progress == Progress::Done && !self.has_more {
            let reason = self.reason_of_peer(index);
            self.lose_connection(now, index, reason, pool);
        }
        progress
    }

    /// What the peer has said, now that it is gone.
    fn reason_of_peer(&mut self, index: FaceIndex) -> CloseReason {
        match memif_in(&mut self.faces, index).map(|memif| &memif.rings) {
            Some(Rings::Up(link)) => match link.ended() {
                Some(Ended::Said(farewell)) => CloseReason::Left(farewell),
                Some(Ended::Silently) | None => CloseReason::PeerClosed,
            },
            Some(Rings::Connecting { .. } | Rings::Waiting(_)) | None => CloseReason::PeerClosed,
        }
    }

    /// Takes frames out of the rings of a face.
    pub(super) fn take_memif(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        self.pending = None;
        let progress = loop {
            let Some(memif) = memif_in(&mut self.faces, index) else { return Progress::Done };
            if memif.frames_left == 0 {
                self.has_more = true;
                break Progress::Done;
            }
            if sink.is_full() {
                self.pending = Some(Pending::Memif(index));
                break Progress::SinkFull;
            }
            let block = block_with_room(&mut self.stream_block, FRAME_LENGTH_MAX, pool);
            let Some(block) = block else { break Progress::NoBlock };
            let Rings::Up(link) = &mut memif.rings else { return Progress::Done };
            let buffer = &mut block.spare_mut()[..FRAME_LENGTH_MAX];
            let mut found = link.receivers.iter_mut().map(|receiver| receiver.receive(buffer));
            let mut received = found.find(|one| *one != Ok(Received::Nothing));
            // Who looks by himself has no interrupts to clear, but those that were on their way.
            if received.is_none()
                && (memif.was_interrupted || !memif.is_polled)
                && let Some(interrupter) = &mut self.interrupter
            {
                let mut rested = link.receivers.iter_mut().map(|one| one.rest(interrupter));
                received = rested.find_map(Result::err).map(Err);
            }
            let received = received.unwrap_or(Ok(Received::Nothing));
            memif.frames_left -= 1;
            match received {
                Ok(Received::Nothing) => {
                    self.has_more = false;
                    break Progress::Done;
                }
                Ok(Received::Frame(length)) => {
                    self.take_memif_frame(now, index, length, pool, sink);
                }
                Ok(Received::TooLong) => {
                    self.note_arrival(now, index, Some(LinkDropReason::Truncated))
                }
                Ok(Received::Malformed) => {
                    self.note_arrival(now, index, Some(LinkDropReason::Malformed));
                }
                Err(fault) => {
                    self.end_for(now, index, fault, pool);
                    return Progress::Done;
                }
            }
        };
        self.release_memif(now, index, pool);
        if self.polls_rings {
            self.poll_rings_of(index);
        }
        progress
    }

    /// A frame of so many bytes lies behind what is filled of the block.
    fn take_memif_frame(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        length: usize,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) {
        let Some(mut block) = self.stream_block.take() else { return };
        // Whoever carried it may have padded it.
        match without_padding(&block.spare_mut()[..length]) {
            None => self.note_arrival(now, index, Some(LinkDropReason::Malformed)),
            Some(length) => {
                block.commit(length);
                self.note_arrival(now, index, None);
                self.calls.received_frames.increment();
                self.calls.received_bytes.add(length as u64);
                self.deliver(now, index.into(), &mut block, length, pool, sink);
            }
        }
        self.stream_block = Some(block);
    }

    /// Gives the peer its buffers back.
    fn release_memif(&mut self, now: Timestamp, index: FaceIndex, pool: &PacketPool) {
        let Some(memif) = memif_in(&mut self.faces, index) else { return };
        let Rings::Up(link) = &mut memif.rings else { return };
        let mut released = link.receivers.iter_mut().map(Receiver::release);
        if let Some(fault) = released.find_map(Result::err) {
            self.end_for(now, index, fault, pool);
        }
    }

    /// Ends the connection of a face, and tells the peer what it has done.
    fn end_for(&mut self, now: Timestamp, index: FaceIndex, fault: Fault, pool: &PacketPool) {
        if let Some(memif) = memif_in(&mut self.faces, index) {
            memif.fault = Some(fault);
        }
        self.lose_connection(now, index, CloseReason::Misbehaved, pool);
    }

    /// Shows what was sent to peers that look into their rings as often as we do. That costs next to nothing,
    /// and they work while we go on. Those that have to be woken wait for [`flush`](Self::flush).
    #[inline]
    pub fn show_rings(&mut self, now: Timestamp, pool: &PacketPool) {
        if self.polled.is_empty() {
            return;
        }
        let mut at = 0;
        while let Some(&index) = self.unflushed_memifs.get(at) {
            if memif_in(&mut self.faces, index).is_some_and(|memif| memif.is_watched()) {
                self.unflushed_memifs.swap_remove(at);
                self.flush_face(now, index, pool);
            } else {
                at += 1;
            }
        }
    }

    /// Shows the peer what was sent.
    pub(super) fn flush_memif(&mut self, now: Timestamp, index: FaceIndex, pool: &PacketPool) {
        let Self { faces, interrupter, output_budget, calls, .. } = self;
        let Some(face) = face_in(faces, index) else { return };
        let (Transport::Memif(memif), Some(interrupter)) = (&mut face.transport, interrupter)
        else {
            return;
        };
        calls.send_calls.increment();
        let flushed = memif.flush(interrupter, output_budget);
        let queued = memif.queue.bytes();
        memif.look_again = (queued > 0).then(|| now.plus(LOOK_AGAIN));
        face.link.counters().queued_bytes.set(queued as u64);
        if let Ok(dropped) = flushed {
            face.link.counters().dropped(LinkDropReason::OverMtu).add(dropped);
        }
        match flushed {
            Ok(_) if queued > 0 => self.arm(index),
            Ok(_) => {}
            Err(fault) => self.end_for(now, index, fault, pool),
        }
    }

    /// The time of a memif face has come.
    pub(super) fn tend_memif(&mut self, now: Timestamp, index: FaceIndex, pool: &PacketPool) {
        let Some(memif) = memif_in(&mut self.faces, index) else { return };
        match &mut memif.rings {
            Rings::Up(_) => {
                if memif.look_again.is_some_and(|at| at <= now) {
                    self.flush_memif(now, index, pool);
                }
            }
            Rings::Connecting { reconnect, .. } => {
                if reconnect.poll(now) == ReconnectAction::GiveUp {
                    let reason = CloseReason::Failed(io::ErrorKind::TimedOut);
                    self.attempt_failed(now, index, reason, pool);
                }
            }
            Rings::Waiting(reconnect) => {
                if let ReconnectAction::Connect(()) = reconnect.poll(now) {
                    self.connect_memif(now, index, pool);
                }
            }
        }
    }

    /// Begins another attempt.
    fn connect_memif(&mut self, now: Timestamp, index: FaceIndex, pool: &PacketPool) {
        let Some(memif) = memif_in(&mut self.faces, index) else { return };
        let (Rings::Waiting(reconnect), Some((address, options))) = (&memif.rings, &memif.server)
        else {
            return;
        };
        let begun = ClientHandshake::connect(&address.socket, options.clone());
        let added = begun.and_then(|handshake| {
            self.poller.add(handshake.as_fd(), token_of(index), Interest::Readable)?;
            Ok(handshake)
        });
        match added {
            Ok(handshake) => {
                let (handshake, reconnect) = (Box::new(handshake), *reconnect);
                memif.rings = Rings::Connecting { handshake, reconnect };
            }
            Err(error) => {
                self.attempt_failed(now, index, CloseReason::Failed(error.kind()), pool);
            }
        }
    }

    /// The server has said something.
    fn go_on_connecting(&mut self, now: Timestamp, index: FaceIndex, pool: &PacketPool) {
        let Self { faces, poller, .. } = self;
        let Some(memif) = memif_in(faces, index) else { return };
        let Rings::Connecting { reconnect, .. } = &memif.rings else { return };
        let reconnect = *reconnect;
        let earlier = std::mem::replace(&mut memif.rings, Rings::Waiting(reconnect));
        let Rings::Connecting { handshake, .. } = earlier else { return };
        match handshake.advance() {
            Ok(Handshaken::Waiting(handshake)) => {
                memif.rings = Rings::Connecting { handshake: Box::new(handshake), reconnect };
            }
            Ok(Handshaken::Done(link)) => {
                // It is waited for in another way from now on.
                let _ = poller.remove(link.as_fd());
                if MemifTransport::attach(&link, poller, token_of(index)).is_err() {
                    let reason = CloseReason::Failed(io::ErrorKind::Other);
                    return self.attempt_failed(now, index, reason, pool);
                }
                memif.rings = Rings::Up(link);
                memif.told = None;
                if let Some(face) = face_in(faces, index) {
                    face.set_link_options();
                }
                self.events.push_back(FaceEvent { face: index, change: FaceChange::Up });
            }
            // The poller has forgotten the socket, which was ours alone.
            Err(error) => self.attempt_failed(now, index, reason_of(&error), pool),
        }
    }

    fn attempt_failed(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        reason: CloseReason,
        pool: &PacketPool,
    ) {
        let Self { faces, poller, output_budget, events, .. } = self;
        let Some(face) = face_in(faces, index) else { return };
        let is_permanent = face.options.persistency == crate::Persistency::Permanent;
        let Transport::Memif(memif) = &mut face.transport else { return };
        if !is_permanent {
            return self.close(index, reason, pool);
        }
        // That nobody is there is what a permanent face waits through; what somebody says is new.
        let is_news = matches!(reason, CloseReason::Refused(_) | CloseReason::Misbehaved);
        if is_news && memif.told != Some(reason) {
            memif.told = Some(reason);
            events.push_back(FaceEvent { face: index, change: FaceChange::Down(reason) });
        }
        memif.leave(poller, output_budget);
        if let Rings::Connecting { reconnect, .. } | Rings::Waiting(reconnect) = &memif.rings {
            let mut reconnect = *reconnect;
            reconnect.handle_failure(now);
            memif.rings = Rings::Waiting(reconnect);
        }
        self.arm(index);
    }
}

/// Why a handshake has come to nothing.
fn reason_of(error: &HandshakeError) -> CloseReason {
    match error {
        HandshakeError::Refused(farewell) => CloseReason::Refused(*farewell),
        HandshakeError::Closed => CloseReason::PeerClosed,
        HandshakeError::Io(error) => CloseReason::Failed(error.kind()),
        HandshakeError::Message(_)
        | HandshakeError::Protocol(_)
        | HandshakeError::NotAdmitted { .. }
        | HandshakeError::Memory(_) => CloseReason::Misbehaved,
    }
}

/// The transport of a memif face, if it still exists.
#[inline]
pub(super) fn memif_in(
    faces: &mut [Option<Box<Face>>],
    index: FaceIndex,
) -> Option<&mut MemifTransport> {
    match &mut face_in(faces, index)?.transport {
        Transport::Memif(memif) => Some(memif),
        Transport::Stream(_)
        | Transport::Datagram { .. }
        | Transport::Ether { .. }
        | Transport::Internal(_) => None,
    }
}
