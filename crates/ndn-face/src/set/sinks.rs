//! From the link services to the output queues.

use ndn_ring::{PacketHandle, PacketPool};
use ndn_table::{FaceIndex, Timestamp};

use crate::datagram::{DatagramQueue, Destination, Frame};
use crate::headers::with_joined;
use crate::internal::InternalEnd;
use crate::memif::MemifTransport;
use crate::output::OutputQueue;
use crate::tap::{Direction, FrameTap};
use crate::websocket::{HEAD_LENGTH_MAX, Opcode, write_head};
use crate::{Budget, FrameSink, LinkDropReason};

/// The tap of the set, if there is one, for frames of one face.
#[derive(Debug)]
pub(super) struct Tap<'a> {
    pub(super) tap: Option<&'a mut (dyn FrameTap + 'static)>,
    pub(super) now: Timestamp,
    pub(super) face: FaceIndex,
}

impl Tap<'_> {
    #[inline]
    fn see(&mut self, header: &[u8], payload: &[u8]) {
        if let Some(tap) = &mut self.tap {
            tap.frame(self.now, self.face, Direction::Out, header, payload);
        }
    }
}

pub(super) struct StreamSink<'a> {
    pub(super) queue: &'a mut OutputQueue,
    pub(super) pool: &'a PacketPool,
    pub(super) budget: &'a mut Budget,
    pub(super) bytes_max: usize,
    /// Frames go out as binary messages.
    pub(super) is_websocket: bool,
    pub(super) tap: Tap<'a>,
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
            self.queue.push(headers, payload, handle, self.pool, self.budget, self.bytes_max)
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
            self.queue.push(header, payload, handle, self.pool, self.budget, self.bytes_max)?;
        }
        self.tap.see(header, payload);
        Ok(())
    }
}

pub(super) struct DatagramSink<'a> {
    queue: &'a mut DatagramQueue,
    to: Destination,
    pool: &'a PacketPool,
    bytes_max: usize,
    tap: Tap<'a>,
    /// Length of the first frame of the packet, by which its other fragments travel.
    first_length: Option<usize>,
}

impl<'a> DatagramSink<'a> {
    pub(super) fn new(
        queue: &'a mut DatagramQueue,
        to: Destination,
        pool: &'a PacketPool,
        bytes_max: usize,
        tap: Tap<'a>,
    ) -> Self {
        Self { queue, to, pool, bytes_max, tap, first_length: None }
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
        let length = header.len() + payload.len();
        let first_length = *self.first_length.get_or_insert(length);
        let frame = Frame { header, payload, handle, first_length };
        self.queue.push(self.to, &frame, self.pool, self.bytes_max)?;
        self.tap.see(header, payload);
        Ok(())
    }
}

/// Where frames of a face go that is down: what is due is over with all the same.
pub(super) struct Nowhere;

impl FrameSink for Nowhere {
    fn queued_bytes(&self) -> usize {
        0
    }

    fn push_frame(
        &mut self,
        _header: &[u8],
        _payload: &[u8],
        _handle: Option<&PacketHandle>,
    ) -> Result<(), LinkDropReason> {
        Err(LinkDropReason::Down)
    }
}

pub(super) struct MemifSink<'a> {
    pub(super) memif: &'a mut MemifTransport,
    pub(super) budget: &'a mut Budget,
    pub(super) bytes_max: usize,
    pub(super) tap: Tap<'a>,
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
        _handle: Option<&PacketHandle>,
    ) -> Result<(), LinkDropReason> {
        self.memif.push(header, payload, self.budget, self.bytes_max)?;
        self.tap.see(header, payload);
        Ok(())
    }
}

pub(super) struct InternalSink<'a> {
    pub(super) end: &'a mut InternalEnd,
    pub(super) tap: Tap<'a>,
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
        self.end
            .send_quietly([header, payload].concat())
            .map_err(|_full| LinkDropReason::QueueFull)?;
        self.tap.see(header, payload);
        Ok(())
    }
}
