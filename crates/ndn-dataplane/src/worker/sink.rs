//! From received bytes to the burst.

use ndn_face::{RxSink, Sender, SocketDelay};
use ndn_forwarding::{Burst, Dispatcher, Ingress, LpFields, RxFace, ServiceTimer};
use ndn_ring::{FillBlock, PacketPool};
use ndn_table::{FaceIndex, Timestamp};

use super::{Overload, timing};
use crate::exchange::{Frame, Message, Outbound, TYPE_INTEREST};
use crate::overload::Verdict;

/// Puts received packets into the burst.
pub(super) struct IngressSink<'a> {
    pub(super) burst: &'a mut Burst,
    pub(super) ingress: &'a mut Ingress,
    pub(super) pool: &'a PacketPool,
    /// Where packets for other workers go, if there are any, and what finds out which are.
    pub(super) others: Option<(&'a mut Outbound, &'a Dispatcher)>,
    /// If this burst is measured.
    pub(super) timer: Option<&'a mut ServiceTimer>,
    /// The time, and what becomes of Interests that have waited for too long.
    pub(super) late: Option<(Timestamp, &'a mut Overload)>,
}

impl RxSink for IngressSink<'_> {
    #[inline]
    fn is_full(&self) -> bool {
        self.burst.is_full()
    }

    #[inline]
    fn receive(&mut self, face: &RxFace, block: &mut FillBlock, length: usize, fields: &LpFields) {
        if let Some(timer) = self.timer.as_deref_mut() {
            return timing::receive(
                timer,
                self.ingress,
                self.burst,
                self.pool,
                (block, length),
                fields,
                face,
            );
        }
        // What is dropped is counted by the ingress.
        let _ = self.ingress.push(self.burst, self.pool, block, length, fields, face);
        if let Some((_, dispatcher)) = &self.others {
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
        let mut verdict = Verdict::Pass;
        if is_interest && let Some((now, overload)) = &mut self.late {
            verdict = overload.leaves_socket(*now, waited);
            overload.note(verdict);
        }
        if verdict == Verdict::Drop {
            return block.skip(length);
        }
        let index = self.burst.len();
        self.receive(face, block, length, fields);
        if self.burst.len() > index {
            match verdict {
                Verdict::Nack => self.burst.refuse(index),
                Verdict::Mark => self.burst.mark_congestion(index),
                Verdict::Pass | Verdict::Drop => {}
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
        let Some((outbound, _)) = &mut self.others else { return false };
        let to = outbound.owner_of(face);
        let frame = Frame::carve(face, sender, block, length);
        outbound.send(to, Message::Frame(frame), self.pool);
        true
    }
}
