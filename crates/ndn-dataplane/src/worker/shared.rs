//! A burst whose packets belong to workers of one thread: each shard takes its own where they lie, and what
//! leaves goes to the faces at once, without a message.

use std::collections::VecDeque;

use ndn_face::FaceSink;
use ndn_forwarding::{Burst, TxPacket, TxSink};
use ndn_ring::PacketPool;
use ndn_table::{FaceIndex, SHARDS_MAX, Timestamp};

use super::Worker;
use crate::exchange::Outbound;
use crate::threads::Hosted;

/// Where a shard sends whose worker shares its thread: to the faces of all workers of the thread, or to the
/// worker that has the face.
struct SharedSink<'a> {
    /// The faces of the shard's worker.
    faces: FaceSink<'a>,
    outbound: &'a mut Outbound,
    pool: &'a PacketPool,
    /// The worker that has received the burst, if that is another one.
    receiver: Option<(usize, FaceSink<'a>)>,
    partners: &'a mut VecDeque<Box<Hosted>>,
    now: Timestamp,
}

impl TxSink for SharedSink<'_> {
    #[inline]
    fn send(&mut self, face: FaceIndex, packet: TxPacket<'_>) {
        let owner = self.outbound.owner_of(face);
        if owner == self.outbound.own() {
            return self.faces.send(face, packet);
        }
        if let Some((number, faces)) = &mut self.receiver
            && *number == owner
        {
            return faces.send(face, packet);
        }
        match self.partners.iter_mut().find(|one| one.number() == owner) {
            Some(partner) => partner.worker.send_for_partner(self.now, face, packet),
            None => self.outbound.send_by_face(face, &packet, self.pool),
        }
    }
}

impl Worker {
    /// Takes the burst through this shard and those of the workers that share the thread, and sends the rest
    /// to others.
    pub(super) fn forward_shared(&mut self, now: Timestamp) {
        let Self { burst, crew: Some(crew), pool, faces, shard, partners, .. } = self else {
            return;
        };
        let (count, own) = (burst.len(), crew.exchange.own());
        // By shard, the positions of its packets.
        let mut chosen = [0_u64; SHARDS_MAX];
        for index in 0..count {
            let to = usize::from(crew.dispatcher.dispatch(burst, index, pool));
            chosen[to % SHARDS_MAX] |= 1 << index;
        }
        for partner in partners.iter_mut() {
            partner.worker.overload.mark_data(burst);
        }
        if chosen[own] != 0 {
            let outbound = &mut crew.exchange.outbound;
            let faces = faces.sink(now, pool);
            let mut sink = SharedSink { faces, outbound, pool, receiver: None, partners, now };
            shard.process_chosen(now, burst, chosen[own], pool, &mut sink);
            shard.end_burst();
        }
        chosen[own] = 0;
        for _ in 0..partners.len() {
            let Some(mut partner) = partners.pop_front() else { break };
            let positions = std::mem::take(&mut chosen[partner.number() % SHARDS_MAX]);
            if positions != 0 {
                let receiver = Some((own, faces.sink(now, pool)));
                let worker = &mut partner.worker;
                worker.process_for_partner(now, burst, positions, receiver, partners);
            }
            partners.push_back(partner);
        }
        for (to, positions) in chosen.iter().enumerate().filter(|(_, positions)| **positions != 0) {
            for index in (0..count).filter(|index| positions >> index & 1 == 1) {
                crew.exchange.outbound.send_packet(to, burst, index, pool);
            }
        }
        // The sinks have copied or retained what they need.
        burst.release(pool);
        faces.show_rings(now, pool);
        self.count_forwarded(now, count);
        for partner in &mut self.partners {
            partner.worker.flush_if_due(now);
        }
    }

    /// Takes some packets of a burst that a partner has received through this shard.
    fn process_for_partner<'a>(
        &'a mut self,
        now: Timestamp,
        burst: &mut Burst,
        positions: u64,
        receiver: Option<(usize, FaceSink<'a>)>,
        partners: &'a mut VecDeque<Box<Hosted>>,
    ) {
        // What a worker says of its faces, it says before packets come from them.
        self.handle_notices();
        let Self { crew: Some(crew), pool, faces, shard, .. } = self else { return };
        let (outbound, faces) = (&mut crew.exchange.outbound, faces.sink(now, pool));
        outbound.set_time(now);
        let mut sink = SharedSink { faces, outbound, pool, receiver, partners, now };
        shard.process_chosen(now, burst, positions, pool, &mut sink);
        shard.end_burst();
        self.faces.show_rings(now, &self.pool);
        let count = positions.count_ones() as usize;
        self.send_crossings(now);
        self.counters.count_burst(count);
        self.count_unflushed(now, count);
    }

    /// Sends a packet of a partner's shard by a face of this worker.
    fn send_for_partner(&mut self, now: Timestamp, face: FaceIndex, packet: TxPacket<'_>) {
        self.state.unflushed += 1;
        self.faces.sink(now, &self.pool).send(face, packet);
    }
}
