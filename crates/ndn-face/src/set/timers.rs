//! The deadlines of faces. None of them is exact or frequent, so an ordered set serves.

use ndn_ring::PacketPool;
use ndn_table::{FaceIndex, Timestamp};

use crate::CloseReason;
use crate::set::{FaceSet, face_in};

impl FaceSet {
    /// When [`handle_timeouts`](Self::handle_timeouts) has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let ports = self.port_deadlines.iter().map(|(deadline, _)| *deadline);
        ports.chain(self.deadlines.first().map(|(deadline, _)| *deadline)).min()
    }

    /// Does what is due: expires messages in pieces, closes idle faces, connects again.
    pub fn handle_timeouts(&mut self, now: Timestamp, pool: &PacketPool) {
        while let Some(due) = self.port_deadlines.iter().position(|(deadline, _)| *deadline <= now)
        {
            let (_, port) = self.port_deadlines.swap_remove(due);
            self.flush_port(now, port, pool);
        }
        while let Some(&(deadline, index)) = self.deadlines.first() {
            if deadline > now {
                return;
            }
            self.deadlines.pop_first();
            let Some(face) = face_in(&mut self.faces, index) else { continue };
            face.deadline = None;
            face.link.handle_timeout(now, &mut self.reassembly_budget);
            let is_reliable = face.link.is_reliable();
            if face.idle_deadline().is_some_and(|deadline| deadline <= now) {
                self.close(index, CloseReason::Idle, pool);
                continue;
            }
            if !self.tend_websocket(now, index, pool) {
                continue;
            }
            if is_reliable {
                self.resend(now, index, pool);
            }
            self.poll_reconnect(now, index);
            self.tend_memif(now, index, pool);
            self.arm(index);
        }
    }

    /// Notes the deadline of a face, if it is earlier than the one that is noted. A later one is
    /// noticed when the noted one has come.
    pub(super) fn arm(&mut self, index: FaceIndex) {
        let Some(face) = face_in(&mut self.faces, index) else { return };
        let Some(deadline) = face.next_deadline() else { return };
        if face.deadline.is_some_and(|noted| noted <= deadline) {
            return;
        }
        if let Some(noted) = face.deadline.replace(deadline) {
            self.deadlines.remove(&(noted, index));
        }
        self.deadlines.insert((deadline, index));
    }
}
