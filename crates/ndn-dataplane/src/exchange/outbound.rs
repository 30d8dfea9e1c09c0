//! The sending ends.

use std::sync::Arc;
use std::time::Duration;

use ndn_face::FaceSink;
use ndn_forwarding::{Burst, Content, PacketKind, PitToken, TxPacket, TxSink};
use ndn_ring::{FillBlock, PacketHandle, PacketPool, Producer};
use ndn_table::{FaceIndex, Timestamp};

use super::message::{Queued, kind_of};
use super::{ExchangeCounters, Message, Outgoing, Rings, Sleeper, place};

/// Who sleeps is woken for so many messages (a burst), ...
const WAKE_MESSAGES: u32 = 64;
/// ... when the first of them has waited for so long, or when the sender has nothing else to do. Waking
/// takes both sides some microseconds, and who is woken for a few packets soon sleeps again.
const WAKE_DELAY: Duration = Duration::from_micros(50);

/// What a worker sends to the others.
#[derive(Debug)]
pub struct Outbound {
    own: usize,
    /// The bits of a face's slot that name its worker.
    worker_mask: u32,
    /// By worker; none to this one.
    rings: Box<[Option<Rings<Producer<Queued>>>]>,
    sleepers: Box<[Arc<Sleeper>]>,
    /// Workers that were sent something since the last wake-up, a bit each.
    touched: u64,
    /// Messages since then, and the time of the first.
    unannounced: u32,
    unannounced_since: Timestamp,
    /// The time of what is sent.
    now: Timestamp,
    /// Where packets are copied that lie in no pool.
    copy_block: Option<FillBlock>,
    counters: Arc<ExchangeCounters>,
}

/// Distance between the slots of faces of one worker, of so many workers.
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
        Self {
            own,
            worker_mask: slot_stride(rings.len()) - 1,
            rings: rings.into_boxed_slice(),
            sleepers: sleepers.into(),
            touched: 0,
            unannounced: 0,
            unannounced_since: Timestamp::default(),
            now: Timestamp::default(),
            copy_block: None,
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
        (face.slot() & self.worker_mask) as usize
    }

    /// Sends a message; what has no room is dropped and counted. False if so.
    pub fn send(&mut self, to: usize, message: Message, pool: &PacketPool) -> bool {
        let kind = message.kind();
        let mut message = Some(message);
        if self.send_with(to, kind, || message.take().unwrap_or(Message::Taken)) {
            return true;
        }
        message.into_iter().for_each(|message| message.release(pool));
        false
    }

    /// Sends packet `index` of a burst to the shard of a worker; what has no room is dropped and counted.
    #[inline]
    pub fn send_packet(&mut self, to: usize, burst: &mut Burst, index: usize, pool: &PacketPool) {
        let kind = burst.kind(index);
        let make = || Message::Content(Content::Packet(burst.take_parcel(index)));
        if !self.send_with(to, kind, make) {
            burst.take_parcel(index).release(pool);
        }
    }

    /// Has a message made where it is to lie, if there is room. Otherwise one is counted that is dropped.
    #[inline(always)]
    fn send_with(&mut self, to: usize, kind: PacketKind, make: impl FnOnce() -> Message) -> bool {
        let Some(Some(rings)) = self.rings.get_mut(to) else { return false };
        let since = self.now;
        if rings[place(kind)].push_with(|| Queued { message: make(), since }) {
            self.touched |= 1 << to;
            if self.unannounced == 0 {
                self.unannounced_since = since;
            }
            self.unannounced += 1;
            self.counters.sent.increment();
            return true;
        }
        self.counters.dropped(kind).increment();
        false
    }

    /// Messages of a kind for which there is room on the way to a worker.
    #[must_use]
    pub fn room(&self, to: usize, kind: PacketKind) -> usize {
        self.rings.get(to).and_then(Option::as_ref).map_or(0, |rings| rings[place(kind)].room())
    }

    /// Messages of a kind for which there is room on the way to every other worker that still
    /// takes them, as far as `enough`: possibly more, if the answer is larger.
    #[inline]
    pub(crate) fn least_room(&self, kind: PacketKind, enough: usize) -> usize {
        let rings = self.rings.iter().flatten().map(|rings| &rings[place(kind)]);
        let room = |ring: &Producer<Queued>| match ring.room_up_to(enough) {
            // Nobody is to wait for a worker that has ended.
            room if room < enough && ring.is_closed() => usize::MAX,
            room => room,
        };
        rings.map(room).min().unwrap_or(usize::MAX)
    }

    /// What is sent from now on, is sent at this time.
    pub(crate) fn set_time(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// As if every other worker had been sent something.
    pub(super) fn touch_all(&mut self) {
        let all = (0..self.rings.len()).filter(|&worker| worker != self.own);
        self.touched |= all.fold(0, |set, worker| set | 1 << worker);
        // News are few, and somebody waits for them.
        self.unannounced = self.unannounced.max(WAKE_MESSAGES);
    }

    /// Shows the others what they were sent since the last time, and leaves those who sleep asleep.
    #[inline]
    pub fn publish(&mut self) {
        let mut touched = self.touched;
        while touched != 0 {
            let worker = touched.trailing_zeros() as usize;
            touched &= touched - 1;
            self.rings[worker].iter_mut().flatten().for_each(Producer::publish);
        }
    }

    /// Shows the others what they were sent since the last time, and wakes those of them that sleep, if it
    /// is much or was sent some time ago. To be called again, or [`wake`](Self::wake), before this worker
    /// waits for anything. `clock` is read if need be.
    #[inline]
    pub(crate) fn wake_if_due(&mut self, clock: impl FnOnce() -> Timestamp) {
        if self.touched == 0 {
            return;
        }
        if self.unannounced >= WAKE_MESSAGES || clock().since(self.unannounced_since) >= WAKE_DELAY
        {
            self.wake();
        } else {
            self.publish();
        }
    }

    /// Shows the others what they were sent since the last time, and wakes those of them that sleep.
    #[inline]
    pub fn wake(&mut self) {
        self.unannounced = 0;
        while self.touched != 0 {
            let worker = self.touched.trailing_zeros() as usize;
            self.touched &= self.touched - 1;
            self.rings[worker].iter_mut().flatten().for_each(Producer::publish);
            if self.sleepers[worker].flag.take_wake() {
                self.counters.wakes.increment();
                self.sleepers[worker].waker.wake();
            }
        }
    }

    /// Sends a packet to the worker that has its face.
    pub(crate) fn send_by_face(
        &mut self,
        face: FaceIndex,
        packet: &TxPacket<'_>,
        pool: &PacketPool,
    ) {
        let handle = match packet.handle {
            Some(handle) if packet.prefix_announcement.is_empty() => Some(pool.retain(handle)),
            Some(_) | None => self.copy(packet.wire, packet.prefix_announcement, pool),
        };
        let pit_token = PitToken::new(packet.pit_token);
        let announcement_length = u16::try_from(packet.prefix_announcement.len());
        let (Some(handle), Some(pit_token), Ok(announcement_length)) =
            (handle, pit_token, announcement_length)
        else {
            self.counters.dropped(kind_of(packet.kind)).increment();
            return;
        };
        let mut handle = Some(handle);
        let (to, kind) = (self.owner_of(face), kind_of(packet.kind));
        let make = || {
            Message::Outgoing(Outgoing {
                face,
                kind: packet.kind,
                handle: handle.take(),
                pit_token,
                congestion_mark: packet.congestion_mark,
                incoming_face_id: packet.incoming_face_id,
                non_discovery: packet.non_discovery,
                announcement_length,
            })
        };
        if !self.send_with(to, kind, make) {
            handle.into_iter().for_each(|handle| pool.release(handle));
        }
    }

    /// Copies a packet, and what is to lie behind it.
    fn copy(&mut self, wire: &[u8], behind: &[u8], pool: &PacketPool) -> Option<PacketHandle> {
        let length = wire.len() + behind.len();
        if self.copy_block.as_ref().is_none_or(|block| block.remaining() < length) {
            let fresh = pool.allocate_block()?;
            if let Some(used_up) = self.copy_block.replace(fresh) {
                pool.finish(used_up);
            }
        }
        let block = self.copy_block.as_mut()?;
        let (front, back) = block.spare_mut().get_mut(..length)?.split_at_mut(wire.len());
        front.copy_from_slice(wire);
        back.copy_from_slice(behind);
        block.commit(length);
        Some(block.carve(length))
    }

    pub(super) fn release(&mut self, pool: &PacketPool) {
        self.copy_block.take().into_iter().for_each(|block| pool.finish(block));
    }
}

/// Where the shard of one of several workers sends: to the faces of its worker, or to the worker
/// that has the face.
#[derive(Debug)]
pub struct RoutedSink<'a, F = FaceSink<'a>> {
    /// The faces of the worker.
    pub faces: F,
    /// The others; none if there is only one worker.
    pub outbound: Option<&'a mut Outbound>,
    /// Where packets are copied that lie in no pool.
    pub pool: &'a PacketPool,
}

impl<F: TxSink> TxSink for RoutedSink<'_, F> {
    #[inline]
    fn send(&mut self, face: FaceIndex, packet: TxPacket<'_>) {
        match &mut self.outbound {
            Some(outbound) if outbound.owner_of(face) != outbound.own => {
                outbound.send_by_face(face, &packet, self.pool);
            }
            Some(_) | None => self.faces.send(face, packet),
        }
    }
}
