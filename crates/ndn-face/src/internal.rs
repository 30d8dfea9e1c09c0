//! Faces in memory: between the forwarder and its own management, and between the forwarder and the program
//! that embeds it.
//!
//! Two bounded queues of frames, and a waker for each side. Frames are copied into buffers of their own, which the receiver
//! can give back: otherwise each is allocated by one thread and freed by another, and both wait for the lock of the
//! allocator.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use ndn_ring::{Consumer, PacketHandle, PacketPool, Producer, ring};
use ndn_sys::poll::{Event, Waker};
use ndn_table::FaceIndex;
use ndn_types::{Reserves, Timestamp};

use crate::counters::LinkDropReason;
use crate::event::CloseReason;
use crate::face::{Face, HasState};
use crate::frame_shares::{FacePrincipals, FrameShares};
use crate::output::FrameSink;
use crate::receive::{Progress, RxSink};
use crate::source::Source;
use crate::stream::FRAME_LENGTH_MAX;
use crate::tap::TapPoint;
use crate::transport::{
    FacePlacement, NoPeer, SendRequest, Shared, Transport, TransportContext, TransportHandle,
};

/// Minimum frames per event, however few datagrams the worker reads at a time.
const FRAMES_PER_EVENT_MIN: usize = 64;
/// Empty buffers that wait for the sender, at most.
const EMPTY_BUFFERS_MAX: usize = 256;

/// One end of a face in memory. Frames are NDNLPv2 packets, or bare Interests and Data.
///
/// A frame for which the queue has no room is refused and counted. Dropping an end closes the face.
#[derive(Debug)]
pub struct InternalEnd {
    outgoing: Producer<Vec<u8>>,
    incoming: Consumer<Vec<u8>>,
    /// Buffers of received frames, to the other end.
    given_back: Producer<Vec<u8>>,
    /// Buffers of sent frames, from the other end.
    empty: Consumer<Vec<u8>>,
    /// Frames that [`send`](Self::send) refused.
    refused: u64,
    /// The worker reads this end within its limit for management.
    is_limited: bool,
    /// The division of the places of the queue, if there is one.
    shares: Option<Box<FrameShares>>,
    /// Frames left for the current event.
    frames_left: usize,
    /// Readable when there may be something in `incoming`.
    own: Arc<Waker>,
    /// Dropped last, after the queues were closed: the other end finds them closed when it wakes.
    other: WakeOnDrop,
}

/// The waker of the other end.
#[derive(Debug)]
struct WakeOnDrop(Arc<Waker>);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        self.0.wake();
    }
}

impl InternalEnd {
    /// Two connected ends, with room for `capacity` frames each way.
    ///
    /// # Errors
    /// Those of making a [`Waker`].
    pub fn pair(capacity: usize) -> io::Result<(Self, Self)> {
        let (near_wakes, far_wakes) = (Arc::new(Waker::new()?), Arc::new(Waker::new()?));
        let (near_out, far_in) = ring(capacity);
        let (far_out, near_in) = ring(capacity);
        let empty_max = capacity.min(EMPTY_BUFFERS_MAX);
        let (near_given_back, far_empty) = ring(empty_max);
        let (far_given_back, near_empty) = ring(empty_max);
        let near = Self {
            outgoing: near_out,
            incoming: near_in,
            given_back: near_given_back,
            empty: near_empty,
            refused: 0,
            is_limited: false,
            shares: None,
            frames_left: 0,
            own: Arc::clone(&near_wakes),
            other: WakeOnDrop(Arc::clone(&far_wakes)),
        };
        let far = Self {
            outgoing: far_out,
            incoming: far_in,
            given_back: far_given_back,
            empty: far_empty,
            refused: 0,
            is_limited: false,
            shares: None,
            frames_left: 0,
            own: far_wakes,
            other: WakeOnDrop(near_wakes),
        };
        Ok((near, far))
    }

    /// The same end, as the face of the forwarder's management: a worker reads it within
    /// [`set_bytes_left`](TransportHandle::set_bytes_left).
    #[must_use]
    pub fn limited(self) -> Self {
        Self { is_limited: true, ..self }
    }

    /// Divides the places for frames from this end between the principals of the faces that these come from, which the
    /// returned object takes.
    pub fn divide(&mut self, reserves: Reserves) -> Arc<FacePrincipals> {
        let shares = FrameShares::new(self.outgoing.capacity(), reserves);
        let principals = shares.principals();
        self.shares = Some(Box::new(shares));
        principals
    }

    /// An empty buffer for a frame to send: one that the other end has given back, or a new one.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.empty.pop().unwrap_or_default()
    }

    /// Gives the buffer of a received frame back to the other end, which sends further frames in it.
    pub fn give_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        // Without room it is freed here.
        if self.given_back.push_with(|| buffer) {
            self.given_back.publish();
        }
    }

    /// Sends a frame and wakes the other end.
    ///
    /// # Errors
    /// The frame, if the queue is full or the other end is gone.
    pub fn send(&mut self, frame: Vec<u8>) -> Result<(), Vec<u8>> {
        if !self.takes_place(None) {
            return Err(frame);
        }
        self.enqueue(frame);
        self.wake();
        Ok(())
    }

    /// Whether there is a place for a frame that comes from this face, which is taken.
    fn takes_place(&mut self, face_id: Option<u64>) -> bool {
        // Not the exact room: for each frame, the position would move from the processor of the other end.
        let has_room = !self.outgoing.is_closed() && self.outgoing.room_up_to(1) > 0;
        let is_taken = has_room
            && match &mut self.shares {
                None => true,
                Some(shares) => {
                    let unreceived = self.outgoing.capacity() - self.outgoing.room();
                    shares.take(face_id, unreceived)
                }
            };
        self.refused += u64::from(!is_taken);
        is_taken
    }

    /// Queues a frame that has a place; [`wake`](Self::wake) wakes the other end.
    fn enqueue(&mut self, frame: Vec<u8>) {
        let is_pushed = self.outgoing.push_with(|| frame);
        debug_assert!(is_pushed, "there is room");
        self.outgoing.publish();
    }

    fn wake(&self) {
        self.other.0.wake();
    }

    /// Number of frames that this end could not send, because the queue was full or the other end was gone.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether there is room for one more frame.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.outgoing.room() > 0
    }

    /// Frames sent that the other end has not received yet.
    #[must_use]
    pub fn unreceived(&self) -> usize {
        self.outgoing.capacity() - self.outgoing.room()
    }

    /// The next frame, if there is one.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        self.incoming.pop()
    }

    /// Whether the other end is gone and everything it sent has been received.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // The other end publishes what it has sent before it closes its queues.
        self.outgoing.is_closed() && self.incoming.waiting() == 0
    }

    /// Makes the descriptor unreadable until the other end sends again. Call it before the
    /// [`receive`](Self::receive) that finds nothing, not after.
    pub fn reset(&self) {
        self.own.reset();
    }

    /// Called when there may be a frame.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.own
    }

    /// Makes the descriptor readable again if there are frames, or if the other end is gone.
    fn remind(&self) {
        if self.incoming.waiting() > 0 || self.outgoing.is_closed() {
            self.own.wake();
        }
    }
}

impl AsFd for InternalEnd {
    /// Readable when there may be a frame.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.own.as_fd()
    }
}

/// All faces in memory of a worker.
#[derive(Debug)]
pub struct Internals {
    /// Bytes that may still be read from limited ends.
    bytes_left: usize,
    /// Faces that were not read to the end because of the limit.
    unread: Vec<FaceIndex>,
    unflushed: Vec<FaceIndex>,
}

impl Default for Internals {
    fn default() -> Self {
        Self { bytes_left: usize::MAX, unread: Vec::new(), unflushed: Vec::new() }
    }
}

impl Transport for Internals {
    type State = InternalEnd;
    type New = InternalEnd;
    type Peer = NoPeer;

    const KIND: u8 = 4;

    fn open(
        &mut self,
        shared: &mut Shared,
        _now: Timestamp,
        index: FaceIndex,
        end: InternalEnd,
    ) -> io::Result<InternalEnd> {
        shared.poller.add_waker(end.waker(), Source::Face(index).token())?;
        Ok(end)
    }

    fn handle_event(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        end: &mut InternalEnd,
        event: &Event,
        sink: &mut impl RxSink,
    ) -> Result<Progress<NoPeer>, CloseReason> {
        if !event.readable {
            return Ok(Progress::Done);
        }
        end.reset();
        end.frames_left = cx.shared.frames_per_event.max(FRAMES_PER_EVENT_MIN);
        self.resume(cx, face, end, sink)
    }

    fn placement(end: &InternalEnd) -> FacePlacement {
        if end.is_limited { FacePlacement::First } else { FacePlacement::Balanced }
    }

    /// Takes frames out of the queue.
    fn resume(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        end: &mut InternalEnd,
        sink: &mut impl RxSink,
    ) -> Result<Progress<NoPeer>, CloseReason> {
        while !end.is_limited || self.bytes_left > 0 {
            if end.frames_left == 0 {
                // The next poll reports the face again.
                end.remind();
                cx.shared.report.has_more = true;
                return Ok(Progress::Done);
            }
            if sink.is_full() {
                return Ok(Progress::SinkFull);
            }
            end.frames_left -= 1;
            let received = end.receive();
            // No socket has received it: only the event counts it.
            cx.shared.report.frames += usize::from(received.is_some());
            match received {
                Some(frame) if frame.len() > FRAME_LENGTH_MAX => {
                    face.link.counters().dropped(LinkDropReason::TooLong).increment();
                }
                Some(frame) => {
                    if end.is_limited {
                        self.bytes_left = self.bytes_left.saturating_sub(frame.len());
                    }
                    cx.deliver_copy(face, &frame, None, sink);
                    end.give_back(frame);
                }
                None if end.is_closed() => return Err(CloseReason::PeerClosed),
                None => return Ok(Progress::Done),
            }
        }
        // The descriptor stays unreadable: the worker could not sleep until the limit is raised.
        if !self.unread.contains(&face.index) {
            self.unread.push(face.index);
        }
        Ok(Progress::Done)
    }

    #[inline]
    fn send(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        end: &mut InternalEnd,
        outgoing: SendRequest<'_, '_>,
    ) {
        let tap = TransportContext::tap_point(&mut cx.shared.tap, cx.now, face.index);
        let incoming = match &outgoing {
            SendRequest::Packet(packet) => packet.incoming_face_id,
            SendRequest::Due => None,
        };
        outgoing.encode(&mut face.link, cx.now, &mut InternalSink { end, tap, incoming });
        face.list_unflushed(&mut self.unflushed);
    }

    fn next_unflushed(&mut self) -> Option<FaceIndex> {
        self.unflushed.pop()
    }

    /// Wakes the other end.
    fn flush(
        &mut self,
        _cx: &mut TransportContext<'_>,
        _face: &mut Face,
        end: &mut InternalEnd,
    ) -> Result<(), CloseReason> {
        end.wake();
        Ok(())
    }

    fn close(
        &mut self,
        shared: &mut Shared,
        _pool: &PacketPool,
        _face: &Face,
        end: &mut InternalEnd,
    ) {
        let removed = shared.poller.remove_waker(end.waker());
        debug_assert!(removed.is_ok(), "an internal face is in the poller");
    }
}

impl Internals {
    /// Whether frames were left unread because of the limit.
    #[must_use]
    #[inline]
    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Rest of the last limit, bytes.
    #[must_use]
    #[inline]
    pub fn bytes_left(&self) -> usize {
        self.bytes_left
    }
}

impl<T: HasState<InternalEnd>> TransportHandle<'_, Internals, T> {
    /// Limits the frames read from limited ends from now on, in bytes; the last frame may exceed it. Unread frames
    /// cause an event after the next call with more than 0. Without a call there is no limit.
    #[inline]
    pub fn set_bytes_left(&mut self, bytes: usize) {
        self.transport.bytes_left = bytes;
        if bytes > 0 && self.transport.has_unread() {
            self.remind();
        }
    }

    /// Makes the poller report the faces with unread frames again.
    #[cold]
    fn remind(&mut self) {
        for index in self.transport.unread.drain(..) {
            if let Some(end) = self.faces.state_mut(index) {
                end.remind();
            }
        }
    }
}

/// The queue of a face in memory, for the link service.
struct InternalSink<'a> {
    end: &'a mut InternalEnd,
    tap: TapPoint<'a>,
    /// The face that the packet came from.
    incoming: Option<u64>,
}

impl FrameSink for InternalSink<'_> {
    fn queued_bytes(&self) -> usize {
        0
    }

    fn push_frame(
        &mut self,
        header: &[u8],
        payload: &[u8],
        _handle: Option<&PacketHandle>,
    ) -> Result<(), LinkDropReason> {
        if !self.end.takes_place(self.incoming) {
            return Err(LinkDropReason::QueueFull);
        }
        let mut frame = self.end.buffer();
        frame.reserve(header.len() + payload.len());
        frame.extend_from_slice(header);
        frame.extend_from_slice(payload);
        self.end.enqueue(frame);
        self.tap.sent(header, payload);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_given_back_are_used_again() {
        let (mut near, mut far) = InternalEnd::pair(2).unwrap();
        assert_eq!(near.buffer().capacity(), 0);
        near.send(Vec::with_capacity(100)).unwrap();
        let received = far.receive().unwrap();
        far.give_back(received);
        let buffer = near.buffer();
        assert!(buffer.is_empty() && buffer.capacity() >= 100);
        assert_eq!(near.buffer().capacity(), 0);
        // More than there is room for.
        (0..5).for_each(|_| far.give_back(vec![7; 10]));
        let kept = std::iter::repeat_with(|| near.buffer()).take_while(|b| b.capacity() > 0);
        assert_eq!(kept.count(), 2);
    }

    #[test]
    fn frames_cross_in_order_and_within_the_limit() {
        let (mut near, mut far) = InternalEnd::pair(2).unwrap();
        near.send(vec![1]).unwrap();
        near.send(vec![2]).unwrap();
        assert!(!near.has_room());
        assert_eq!((near.unreceived(), far.unreceived()), (2, 0));
        assert_eq!(near.send(vec![3]), Err(vec![3]));
        assert_eq!((near.refused(), far.refused()), (1, 0));
        far.reset();
        assert_eq!(far.receive(), Some(vec![1]));
        assert_eq!(near.unreceived(), 1);
        near.send(vec![4]).unwrap();
        drop(near);
        assert!(!far.is_closed());
        assert_eq!(far.receive(), Some(vec![2]));
        assert_eq!(far.receive(), Some(vec![4]));
        assert_eq!(far.receive(), None);
        assert!(far.is_closed());
        assert_eq!(far.send(vec![5]), Err(vec![5]));
    }
}
