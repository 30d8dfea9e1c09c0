//! Faces in memory: that of the forwarder's own management, and those of the embedding program.

use std::io;
use std::sync::Arc;

use ndn_ring::PacketPool;
use ndn_sys::poll::Interest;
use ndn_table::{FaceIndex, Timestamp};

use super::read_stream::FRAME_LENGTH_MAX;
use super::receive::{Pending, Progress, RxSink, block_with_room};
use super::{FaceSet, face_in, token_of};
use crate::face::{Face, Transport};
use crate::internal::InternalEnd;
use crate::{CloseReason, FaceCounters, FaceOptions, LinkDropReason};

impl FaceSet {
    /// Makes the face of the forwarder's management of one end of a pair; the other end belongs to the control
    /// thread. It is read within [`set_internal_bytes_left`](Self::set_internal_bytes_left).
    ///
    /// # Errors
    /// If the slot of `index` is taken, or the poller does not take the waker.
    pub fn add_internal(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        mut end: InternalEnd,
        options: &FaceOptions,
    ) -> io::Result<Arc<FaceCounters>> {
        end.is_limited = true;
        self.add_memory(now, index, end, options)
    }

    /// Makes a face of one end of a pair; the other end belongs to the embedding program. Packets are
    /// fragmented to the MTU of `options`, as on a datagram face.
    ///
    /// # Errors
    /// If the slot of `index` is taken, or the poller does not take the waker.
    pub fn add_memory(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        end: InternalEnd,
        options: &FaceOptions,
    ) -> io::Result<Arc<FaceCounters>> {
        self.check_vacant(index)?;
        self.poller.add(&end, token_of(index), Interest::Readable)?;
        Ok(self.insert(now, index, Transport::Internal(end), options))
    }

    /// Limits what is read from internal faces from now on, in bytes of frames; the last frame may go
    /// beyond. What is not read is told of again by an event after the next call with more than nothing.
    /// Without a call there is no limit.
    #[inline]
    pub fn set_internal_bytes_left(&mut self, bytes: usize) {
        self.internal_bytes_left = bytes;
        if bytes > 0 && !self.unread_internals.is_empty() {
            self.remind_of_internals();
        }
    }

    #[cold]
    fn remind_of_internals(&mut self) {
        while let Some(index) = self.unread_internals.pop() {
            if let Some((end, _)) = internal_end(&mut self.faces, index) {
                end.remind();
            }
        }
    }

    /// Whether something was left unread because of the limit.
    #[must_use]
    #[inline]
    pub fn has_unread_internals(&self) -> bool {
        !self.unread_internals.is_empty()
    }

    /// What is left of the last limit.
    #[must_use]
    #[inline]
    pub fn internal_bytes_left(&self) -> usize {
        self.internal_bytes_left
    }

    /// An internal face has become readable.
    pub(super) fn handle_internal_event(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        if let Some((end, _)) = internal_end(&mut self.faces, index) {
            end.reset();
        }
        self.pending = Some(Pending::Internal(index));
        self.take_internal(now, index, pool, sink)
    }

    /// Takes frames out of the queue of an internal face.
    pub(super) fn take_internal(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        let mut is_limited = false;
        loop {
            let Some((end, counters)) = internal_end(&mut self.faces, index) else { break };
            is_limited = end.is_limited;
            if is_limited && self.internal_bytes_left == 0 {
                break;
            }
            if sink.is_full() {
                return Progress::SinkFull;
            }
            let Some(frame) = end.receive() else {
                if end.is_closed() {
                    self.lose_connection(now, index, CloseReason::PeerClosed, pool);
                }
                break;
            };
            counters.last_received_ns.set(now.as_nanos());
            if frame.len() > FRAME_LENGTH_MAX {
                counters.dropped(LinkDropReason::TooLong).increment();
                continue;
            }
            if block_with_room(&mut self.stream_block, frame.len(), pool).is_none() {
                counters.dropped(LinkDropReason::NoBuffer).increment();
                continue;
            }
            if is_limited {
                self.internal_bytes_left = self.internal_bytes_left.saturating_sub(frame.len());
            }
            let Some(mut block) = self.stream_block.take() else { break };
            block.spare_mut()[..frame.len()].copy_from_slice(&frame);
            block.commit(frame.len());
            self.deliver(now, index.into(), &mut block, frame.len(), pool, sink);
            self.stream_block = Some(block);
        }
        // Not by a descriptor that stays readable: nobody would sleep until there is more to be read.
        if is_limited && self.internal_bytes_left == 0 && !self.unread_internals.contains(&index) {
            self.unread_internals.push(index);
        }
        self.pending = None;
        Progress::Done
    }
}

fn internal_end(
    faces: &mut [Option<Box<Face>>],
    index: FaceIndex,
) -> Option<(&mut InternalEnd, &FaceCounters)> {
    match face_in(faces, index) {
        Some(Face { transport: Transport::Internal(end), link, .. }) => {
            Some((end, link.counters()))
        }
        _ => None,
    }
}
