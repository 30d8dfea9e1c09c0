//! The output of a descriptor that several faces share: a UDP socket or a network device.

use std::io;
use std::os::fd::AsFd;

use ndn_ring::PacketPool;
use ndn_sys::poll::Interest;
use ndn_table::FaceIndex;

use crate::counters::ChannelCounters;
use crate::datagram_queue::{DatagramQueue, DatagramWriter, SendCounters};
use crate::output::Flushed;
use crate::source::Source;
use crate::transport::TransportContext;

/// The frames that a descriptor is to send, and why they wait: it is listed for the next flush, or the kernel has no room.
#[derive(Debug)]
pub(crate) struct SharedOutput {
    pub(crate) queue: DatagramQueue,
    /// The descriptor is registered for writability.
    waits_writable: bool,
    /// The descriptor is listed for the next flush.
    is_listed: bool,
}

impl SharedOutput {
    pub(crate) fn new(queue: DatagramQueue) -> Self {
        Self { queue, waits_writable: false, is_listed: false }
    }

    /// Whether the kernel had no room at the last flush.
    pub(crate) fn waits_writable(&self) -> bool {
        self.waits_writable
    }

    /// Lists the descriptor for the next flush, unless it waits for room in the kernel.
    #[inline]
    pub(crate) fn list<N>(&mut self, number: N, unflushed: &mut Vec<N>) {
        if !self.is_listed && !self.waits_writable {
            self.is_listed = true;
            unflushed.push(number);
        }
    }

    /// Notes that the descriptor is not listed any more.
    pub(crate) fn unlist(&mut self) {
        self.is_listed = false;
    }

    /// Sends what waits. While the kernel has no room, the socket is registered for writability. `refused` receives the
    /// face of each frame that is dropped, and the error.
    pub(crate) fn flush(
        &mut self,
        cx: &TransportContext<'_>,
        (socket, source): (&impl AsFd, Source),
        writer: &mut DatagramWriter,
        channel: &ChannelCounters,
        refused: impl FnMut(FaceIndex, io::ErrorKind),
    ) {
        self.unlist();
        let counters = SendCounters { channel, calls: &cx.shared.calls };
        let flushed = self.queue.flush(cx.now, socket, cx.pool, writer, counters, refused);
        let is_blocked = flushed == Flushed::Blocked;
        if is_blocked != self.waits_writable {
            self.waits_writable = is_blocked;
            let interest =
                if is_blocked { Interest::ReadableAndWritable } else { Interest::Readable };
            let modified = cx.shared.poller.modify(socket, source.token(), interest);
            debug_assert!(modified.is_ok(), "the socket is in the poller");
        }
    }

    /// Discards what waits, before the descriptor is closed or replaced.
    pub(crate) fn discard(&mut self, pool: &PacketPool) {
        self.queue.discard(pool);
        self.waits_writable = false;
    }
}
