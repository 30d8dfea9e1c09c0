//! From received bytes to the burst.

use ndn_face::{RxSink, Sender, SocketDelay};
use ndn_forwarding::{Burst, Dispatcher, Ingress, LpFields, RxFace, ServiceTimer};
use ndn_ring::{FillBlock, PacketPool};
use ndn_table::FaceIndex;
use ndn_types::Timestamp;

use super::overload::Overload;
use crate::exchange::{Outbound, RemoteFrame, TYPE_INTEREST};
use crate::overload::QueueVerdict;

/// Parses received packets into the burst.
pub(super) struct IngressSink<'a> {
    pub(super) burst: &'a mut Burst,
    pub(super) ingress: &'a mut Ingress,
    pub(super) pool: &'a PacketPool,
    /// Sends frames to the worker of their face, and prefetches the dispatch table; none with a single
    /// worker.
    pub(super) inter_worker: Option<(&'a mut Outbound, &'a Dispatcher)>,
    /// Set if this burst is measured.
    pub(super) timer: Option<&'a mut ServiceTimer>,
    /// The time, and the queue management of sockets.
    pub(super) overload: Option<(Timestamp, &'a mut Overload)>,
}

impl IngressSink<'_> {
    /// Parses the packet at the front of `block`, and measures that.
    #[cold]
    #[inline(never)]
    fn receive_measured(
        &mut self,
        face: &RxFace,
        block: &mut FillBlock,
        length: usize,
        fields: &LpFields,
    ) {
        let Self { burst, ingress, pool, timer: Some(timer), .. } = self else { return };
        let (index, begin_ns) = (burst.len(), timer.now_ns());
        // The ingress counts drops.
        if ingress.push(burst, pool, block, length, fields, face).is_ok() {
            timer.received(index, begin_ns);
        }
    }
}

impl RxSink for IngressSink<'_> {
    #[inline]
    fn is_full(&self) -> bool {
        self.burst.is_full()
    }

    #[inline]
    fn receive(&mut self, face: &RxFace, block: &mut FillBlock, length: usize, fields: &LpFields) {
        if self.timer.is_some() {
            return self.receive_measured(face, block, length, fields);
        }
        // The ingress counts drops.
        let _ = self.ingress.push(self.burst, self.pool, block, length, fields, face);
        if let Some((_, dispatcher)) = &self.inter_worker {
            dispatcher.prefetch_last(self.burst);
        }
    }

    #[cold]
    fn receive_delayed(
        &mut self,
        face: &RxFace,
        block: &mut FillBlock,
        length: usize,
        fields: &LpFields,
        waited: SocketDelay,
    ) {
        let is_interest = fields.nack.is_none() && block.filled().first() == Some(&TYPE_INTEREST);
        let mut verdict = QueueVerdict::Pass;
        if is_interest && let Some((now, overload)) = &mut self.overload {
            verdict = overload.dequeue_from_socket(*now, waited);
            overload.count(verdict);
        }
        if verdict == QueueVerdict::Drop {
            return block.skip(length);
        }
        let index = self.burst.len();
        self.receive(face, block, length, fields);
        if self.burst.len() > index {
            match verdict {
                QueueVerdict::Nack => self.burst.refuse(index),
                QueueVerdict::Mark => self.burst.mark_congestion(index),
                QueueVerdict::Pass | QueueVerdict::Drop => {}
            }
        }
    }

    fn receive_remote(
        &mut self,
        face: FaceIndex,
        sender: Option<Sender>,
        block: &mut FillBlock,
        length: usize,
    ) -> bool {
        let Some((outbound, _)) = &mut self.inter_worker else { return false };
        let to = outbound.owner_of(face);
        let frame = RemoteFrame::carve(face, sender, block, length);
        outbound.send_frame(to, frame, self.pool);
        true
    }
}
