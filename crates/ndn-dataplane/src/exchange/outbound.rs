//! The sending ends.

use std::sync::Arc;
use std::time::Duration;

use ndn_face::FaceSink;
use ndn_forwarding::{
    BURST_SIZE, Burst, PacketKind, PitToken, ShardMessage, ShortToken, TxPacket, TxSink,
};
use ndn_ring::{CopyBlock, FreeSlot, PacketPool, Producer};
use ndn_table::FaceIndex;
use ndn_types::Timestamp;

use super::message::{Message, Queued, RemoteFrame, RemoteTx, kind_of};
use super::rings::{ExchangeCounters, RING_KINDS, Rings, Sleeper, ring_index};

/// Number of messages (a burst) for which a sleeping worker is woken.
const WAKE_MESSAGES: usize = 64;
/// Age of the first message from which it is woken for fewer. Waking takes both sides some microseconds, and a
/// worker that is woken for a few packets soon sleeps again.
const WAKE_DELAY: Duration = Duration::from_micros(50);

/// The sending ends of a worker.
#[derive(Debug)]
pub struct Outbound {
    own: usize,
    /// The bits of a face, of its slot, that name its worker.
    worker_mask: u32,
    /// By worker; none to this one.
    rings: Box<[Option<Rings<Producer<Queued>>>]>,
    /// An eighth of the slots of a ring, by kind. The last eighth is for messages that result from crossed ones: two
    /// workers that flood each other can still take from each other. The one before it is for the
    /// [parts](Self::grant) of principals.
    eighths: Rings<usize>,
    /// Whether the packets of the current burst leave these two eighths free: those that this worker has received.
    leaves_reserve: bool,
    /// Messages that the read in progress may still send into the eighth for parts.
    part: usize,
    /// Slots that packets of the current burst leave free, by kind: two eighths, one with a part, or none.
    kept: Rings<usize>,
    /// The same for packets that leave by a face: answers end Interests of others; a forwarded Interest is one more.
    kept_by_outgoing: Rings<usize>,
    sleepers: Box<[Arc<Sleeper>]>,
    /// Workers that were sent something since the last wake-up, a bit each.
    touched: u64,
    /// Messages published since then, and the time of the first.
    unannounced: usize,
    unannounced_since: Timestamp,
    /// The time of what is sent.
    now: Timestamp,
    /// For packets that lie in no pool.
    copies: CopyBlock,
    counters: Arc<ExchangeCounters>,
}

/// Distance between the slots of faces of one worker.
pub(crate) fn slot_stride(worker_count: usize) -> u32 {
    u32::try_from(worker_count.next_power_of_two()).unwrap_or(u32::MAX)
}

impl Outbound {
    pub(super) fn new(
        own: usize,
        rings: Vec<Option<Rings<Producer<Queued>>>>,
        sleepers: &[Arc<Sleeper>],
        counters: Arc<ExchangeCounters>,
    ) -> Self {
        // All rings of a kind have one length.
        let eighth = |kind: PacketKind| {
            let ring = rings.iter().flatten().next().map(|rings| &rings[ring_index(kind)]);
            ring.map_or(0, |ring| ring.capacity() / 8)
        };
        Self {
            own,
            worker_mask: (slot_stride(rings.len()) - 1) & (FaceIndex::SLOT_COUNT_MAX - 1),
            eighths: RING_KINDS.map(eighth),
            leaves_reserve: false,
            part: 0,
            kept: [0; RING_KINDS.len()],
            kept_by_outgoing: [0; RING_KINDS.len()],
            rings: rings.into_boxed_slice(),
            sleepers: sleepers.into(),
            touched: 0,
            unannounced: 0,
            unannounced_since: Timestamp::default(),
            now: Timestamp::default(),
            copies: CopyBlock::default(),
            counters,
        }
    }

    #[inline]
    pub(crate) fn own(&self) -> usize {
        self.own
    }

    /// The worker that has a face.
    #[inline]
    pub(crate) fn owner_of(&self, face: FaceIndex) -> usize {
        (face.to_bits() & self.worker_mask) as usize
    }

    /// Sends a message that results from a packet. Returns false if there was no room and it was dropped and counted.
    pub fn send(&mut self, to: usize, message: Message, pool: &PacketPool) -> bool {
        let kind = message.kind();
        let is_sent = self.send_leaving(0, to, message, pool);
        if is_sent && self.part > 0 {
            self.charge_burst(to, kind);
        }
        is_sent
    }

    /// Sends a received frame to the worker of its face. Without room it is dropped and counted.
    pub(crate) fn send_frame(&mut self, to: usize, frame: RemoteFrame, pool: &PacketPool) {
        let message = Message::RemoteFrame(frame);
        let kind = message.kind();
        let kept = if self.part > 0 { 1 } else { 2 } * self.eighths[ring_index(kind)];
        if self.send_leaving(kept, to, message, pool) && self.part > 0 {
            self.charge(to, kind);
        }
    }

    fn send_leaving(
        &mut self,
        reserve: usize,
        to: usize,
        message: Message,
        pool: &PacketPool,
    ) -> bool {
        let kind = message.kind();
        let mut message = Some(message);
        if self.send_with(to, kind, reserve, || message.take().unwrap_or(Message::Taken)) {
            return true;
        }
        message.into_iter().for_each(|message| message.release(pool));
        self.count_drop(to, kind);
        false
    }

    /// Begins a read of which this number of messages may go into the eighth of the rings that is kept for parts.
    pub(crate) fn grant(&mut self, part: usize) {
        self.part = part;
        self.keep();
    }

    /// Ends the read. Returns what is left of its part.
    pub(crate) fn revoke(&mut self) -> usize {
        let left = std::mem::take(&mut self.part);
        self.keep();
        left
    }

    /// Sets whether the packets of a burst leave two eighths of each ring free: received ones do, crossed ones and those of
    /// crossed frames do not.
    #[inline]
    pub(crate) fn leave_reserve(&mut self, leaves_reserve: bool) {
        self.leaves_reserve = leaves_reserve;
        self.keep();
    }

    fn keep(&mut self) {
        let kept = match (self.leaves_reserve, self.part) {
            (false, _) => 0,
            (true, 0) => 2,
            (true, _) => 1,
        };
        self.kept = self.eighths.map(|eighth| kept * eighth);
        let interest = ring_index(PacketKind::Interest);
        self.kept_by_outgoing[interest] = self.kept[interest];
    }

    /// Takes a message that was sent from the part, if it is one of a received burst.
    #[cold]
    fn charge_burst(&mut self, to: usize, kind: PacketKind) {
        if self.leaves_reserve {
            self.charge(to, kind);
        }
    }

    /// Takes a message that was sent from the part, if it lies in what is kept for others.
    #[cold]
    fn charge(&mut self, to: usize, kind: PacketKind) {
        let kept = 2 * self.eighths[ring_index(kind)];
        let rings = self.rings.get(to).and_then(Option::as_ref);
        if rings.is_some_and(|rings| rings[ring_index(kind)].room_up_to(kept) < kept) {
            self.part -= 1;
            self.keep();
        }
    }

    /// Sends packet `index` of a burst to the shard of a worker. Without room, which is counted, an Interest keeps its
    /// place and is [refused](Burst::refuse), and another packet is dropped.
    #[inline]
    pub fn send_packet(&mut self, to: usize, burst: &mut Burst, index: usize, pool: &PacketPool) {
        let Some(packet) = burst.leaving(index) else {
            return self.send_packet_with_token(to, burst, index, pool);
        };
        let (kind, since) = (packet.kind(), self.now);
        let kept = self.kept[ring_index(kind)];
        let Some(slot) = free_slot(&mut self.rings, to, kind, kept) else {
            return self.refuse_packet(to, burst, index, pool);
        };
        slot.write(Queued { message: Message::Shard(ShardMessage::Packet(packet.take())), since });
        self.note_sent(to, kind);
    }

    /// Sends a packet with a long PIT token. A function of its own: with a single way to make the message, the compiler builds it in
    /// its slot.
    #[cold]
    #[inline(never)]
    fn send_packet_with_token(
        &mut self,
        to: usize,
        burst: &mut Burst,
        index: usize,
        pool: &PacketPool,
    ) {
        let kind = burst.kind(index);
        let kept = self.kept[ring_index(kind)];
        let make = || Message::Shard(ShardMessage::Packet(burst.take_packet(index)));
        if self.send_with(to, kind, kept, make) {
            self.note_sent(to, kind);
        } else {
            self.refuse_packet(to, burst, index, pool);
        }
    }

    /// Notes that a message was written to a ring, and takes it from the part if there is one.
    #[inline(always)]
    fn note_sent(&mut self, to: usize, kind: PacketKind) {
        self.touched |= 1 << to;
        if self.part > 0 {
            self.charge_burst(to, kind);
        }
    }

    #[cold]
    fn refuse_packet(&mut self, to: usize, burst: &mut Burst, index: usize, pool: &PacketPool) {
        let kind = burst.kind(index);
        self.count_drop(to, kind);
        match kind {
            PacketKind::Interest => burst.refuse(index),
            PacketKind::Data | PacketKind::Nack => burst.take_packet(index).release(pool),
        }
    }

    #[cold]
    #[inline(never)]
    fn count_drop(&mut self, to: usize, kind: PacketKind) {
        if self.rings.get(to).is_some_and(Option::is_some) {
            self.counters.ring_full(kind).increment();
        }
    }

    /// Makes a message in its slot if there is room beside the reserve.
    #[inline(always)]
    fn send_with(
        &mut self,
        to: usize,
        kind: PacketKind,
        reserve: usize,
        make: impl FnOnce() -> Message,
    ) -> bool {
        let Some(slot) = free_slot(&mut self.rings, to, kind, reserve) else { return false };
        slot.write(Queued { message: make(), since: self.now });
        self.touched |= 1 << to;
        true
    }

    /// Room for messages of a kind to a worker.
    #[must_use]
    pub fn room(&self, to: usize, kind: PacketKind) -> usize {
        self.rings
            .get(to)
            .and_then(Option::as_ref)
            .map_or(0, |rings| rings[ring_index(kind)].room())
    }

    /// Room for messages of a kind to every other worker that has not ended. Exact below `enough`; there may
    /// be more room than a larger result says.
    #[inline]
    pub(crate) fn least_room(&self, kind: PacketKind, enough: usize) -> usize {
        let rings = self.rings.iter().flatten().map(|rings| &rings[ring_index(kind)]);
        let room = |ring: &Producer<Queued>| match ring.room_up_to(enough) {
            // A worker that has ended takes nothing.
            room if room < enough && ring.is_closed() => usize::MAX,
            room => room,
        };
        rings.map(room).min().unwrap_or(usize::MAX)
    }

    /// Room for messages of a kind that is missing for a burst of received packets to any other worker.
    #[inline]
    pub(crate) fn missing_room(&self, kind: PacketKind) -> usize {
        let eighth = self.eighths[ring_index(kind)];
        let enough = 2 * eighth + BURST_SIZE - self.part.min(eighth);
        enough.saturating_sub(self.least_room(kind, enough))
    }

    /// Sets the time of the messages sent from now on.
    pub(crate) fn set_time(&mut self, now: Timestamp) {
        // What was sent before keeps its time.
        self.publish();
        self.now = now;
    }

    /// Marks every other worker as sent to, and the wake-up as due.
    pub(super) fn touch_all(&mut self) {
        let all = (0..self.rings.len()).filter(|&worker| worker != self.own);
        self.touched |= all.fold(0, |set, worker| set | 1 << worker);
        // Notices are few and urgent.
        self.unannounced = self.unannounced.max(WAKE_MESSAGES);
    }

    /// Publishes and counts what was sent since the last time, and wakes no worker.
    #[inline]
    pub fn publish(&mut self) {
        let (mut touched, mut sent) = (self.touched, 0);
        while touched != 0 {
            let worker = touched.trailing_zeros() as usize;
            touched &= touched - 1;
            sent += self.rings[worker].iter_mut().flatten().map(Producer::publish).sum::<usize>();
        }
        if sent > 0 {
            if self.unannounced == 0 {
                self.unannounced_since = self.now;
            }
            self.unannounced += sent;
            self.counters.crossings_sent.add(sent as u64);
        }
    }

    /// Publishes what was sent since the last time, and wakes the receivers that sleep if it is much or was
    /// sent some time ago. Call it again, or [`wake`](Self::wake), before this worker waits. `clock` is read if
    /// needed.
    #[inline]
    pub(crate) fn wake_if_due(&mut self, clock: impl FnOnce() -> Timestamp) {
        if self.touched == 0 {
            return;
        }
        self.publish();
        if self.unannounced >= WAKE_MESSAGES || clock().since(self.unannounced_since) >= WAKE_DELAY
        {
            self.wake_touched();
        }
    }

    /// Publishes what was sent since the last time, and wakes the receivers that sleep.
    #[inline]
    pub fn wake(&mut self) {
        self.publish();
        self.wake_touched();
    }

    fn wake_touched(&mut self) {
        self.unannounced = 0;
        while self.touched != 0 {
            let worker = self.touched.trailing_zeros() as usize;
            self.touched &= self.touched - 1;
            if self.sleepers[worker].flag.take_wake() {
                self.counters.wakes.increment();
                self.sleepers[worker].waker.wake();
            }
        }
    }

    /// Sends a packet to the worker that has its face.
    // It calls no function that returns to it, so that it needs no registers that such functions keep.
    pub(crate) fn send_by_face(
        &mut self,
        to: usize,
        face: FaceIndex,
        packet: &TxPacket<'_>,
        pool: &PacketPool,
    ) {
        let Some(handle) = packet.handle.filter(|_| packet.prefix_announcement.is_empty()) else {
            return self.send_uncommon(to, face, packet, pool);
        };
        let kind = kind_of(packet.kind);
        let kept = self.kept_by_outgoing[ring_index(kind)];
        let Some(slot) = free_slot(&mut self.rings, to, kind, kept) else {
            return self.count_drop(to, kind);
        };
        // The token last, when what the ring takes no longer occupies registers.
        let Some(token) = ShortToken::new(packet.pit_token) else {
            return self.send_uncommon(to, face, packet, pool);
        };
        let Some(handle) = pool.retain_at_hand(handle) else {
            return self.send_uncommon(to, face, packet, pool);
        };
        let message = RemoteTx::new(face, packet, handle, PitToken::from_short(token), 0);
        slot.write(Queued { message: Message::RemoteTx(message), since: self.now });
        self.note_sent(to, kind);
    }

    /// Sends a packet that lies in no buffer alone, or in one of which no reference is at hand, or has a long token.
    #[cold]
    #[inline(never)]
    fn send_uncommon(
        &mut self,
        to: usize,
        face: FaceIndex,
        packet: &TxPacket<'_>,
        pool: &PacketPool,
    ) {
        let announcement = packet.prefix_announcement;
        let mut handle = match packet.handle {
            Some(handle) if announcement.is_empty() => Some(pool.retain(handle)),
            Some(_) | None => self.copies.copy([packet.wire, announcement], pool),
        };
        if handle.is_none() {
            self.counters.crossing_no_buffer.increment();
            return;
        }
        let pit_token = PitToken::new(packet.pit_token).expect("a token that a face has received");
        let length = u16::try_from(announcement.len()).expect("its copy fits a block");
        let kind = kind_of(packet.kind);
        let kept = self.kept_by_outgoing[ring_index(kind)];
        let make = || match handle.take() {
            Some(handle) => {
                Message::RemoteTx(RemoteTx::new(face, packet, handle, pit_token, length))
            }
            None => Message::Taken,
        };
        if self.send_with(to, kind, kept, make) {
            self.note_sent(to, kind);
        } else {
            handle.into_iter().for_each(|handle| pool.release(handle));
            self.count_drop(to, kind);
        }
    }

    pub(super) fn release(&mut self, pool: &PacketPool) {
        self.copies.release(pool);
    }
}

/// The next free slot of a ring, if there is one beside the last `reserve`.
#[inline(always)]
fn free_slot(
    rings: &mut [Option<Rings<Producer<Queued>>>],
    to: usize,
    kind: PacketKind,
    reserve: usize,
) -> Option<FreeSlot<'_, Queued>> {
    rings.get_mut(to)?.as_mut()?[ring_index(kind)].free_slot(reserve)
}

/// The sink of a shard: the faces of its worker, and the workers of other faces.
#[derive(Debug)]
pub struct RoutedSink<'a, F = FaceSink<'a>> {
    /// The faces of the worker.
    pub faces: F,
    /// The others; none if there is only one worker.
    pub outbound: Option<&'a mut Outbound>,
    /// The worker's pool, for copies of packets that lie in no pool.
    pub pool: &'a PacketPool,
}

impl<F: TxSink> TxSink for RoutedSink<'_, F> {
    #[inline]
    fn send(&mut self, face: FaceIndex, packet: &TxPacket<'_>) {
        match &mut self.outbound {
            Some(outbound) => match outbound.owner_of(face) {
                own if own == outbound.own => self.faces.send(face, packet),
                to => outbound.send_by_face(to, face, packet, self.pool),
            },
            None => self.faces.send(face, packet),
        }
    }
}
