//! What a worker does while others have hardly any room for what it has to send them.
//!
//! What is not read waits in the kernel, which holds back whoever sends by a stream. What has been read
//! waits until the others have taken something. Meanwhile the worker takes what they have sent, so that
//! two workers which wait for each other both go on. All of that has an end: for a worker that takes
//! nothing nobody waits for long.

use std::time::Duration;

use ndn_forwarding::{BURST_SIZE, PacketKind};
use ndn_table::Timestamp;

use super::Worker;
use crate::exchange::KINDS;

/// How long a worker waits for others to take something, before it goes on and drops packets.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long it only lets others run, before it sleeps a little each time.
const YIELD_TIME: Duration = Duration::from_millis(1);
pub(super) const PAUSE: Duration = Duration::from_micros(100);

/// The kinds of answers, and of what they cause.
const ANSWERS: [PacketKind; 2] = [PacketKind::Data, PacketKind::Nack];

/// What has to have room for what comes of such packets: answers do not wait for Interests.
fn caused_by(kind: PacketKind) -> &'static [PacketKind] {
    match kind {
        PacketKind::Data | PacketKind::Nack => &ANSWERS,
        PacketKind::Interest => &KINDS,
    }
}

impl Worker {
    /// Notes at the beginning of a round whether others have room.
    pub(super) fn note_room(&mut self, now: Timestamp) {
        let Some(crew) = &self.crew else { return };
        if crew.exchange.is_crowded(&KINDS) {
            self.state.crowded_since.get_or_insert(now);
        } else {
            self.state.crowded_since = None;
        }
    }

    /// Whether to read no more for the time being, from where mostly packets of this kind come.
    #[inline]
    pub(super) fn holds_back(&mut self, now: Timestamp, kind: PacketKind) -> bool {
        let Some(crew) = &self.crew else { return false };
        if !crew.exchange.is_crowded(caused_by(kind)) {
            return false;
        }
        now.since(*self.state.crowded_since.get_or_insert(now)) < PATIENCE
    }

    /// After a round in which there was no room for more: lets others run.
    pub(super) fn let_others_run(&mut self, now: Timestamp) {
        self.wake_others();
        if self.is_stepped {
            return;
        }
        pause(self.state.crowded_since.map_or(Duration::ZERO, |since| now.since(since)));
    }

    /// How many of `waiting` messages of a kind may be taken, so that there is room for what comes of
    /// them.
    pub(super) fn taken_room(&self, now: Timestamp, kind: PacketKind, waiting: usize) -> usize {
        let Some(crew) = &self.crew else { return 0 };
        let outbound = &crew.exchange.outbound;
        let rooms = caused_by(kind).iter().map(|&kind| outbound.least_room(kind, waiting));
        let room = rooms.min().unwrap_or(usize::MAX);
        let since = self.state.crowded_since.unwrap_or(now);
        if now.since(since) < PATIENCE { room } else { room.max(BURST_SIZE) }
    }

    /// Waits until others have room for what a burst may cause, in the middle of a read that has
    /// brought packets of this kind last.
    #[inline]
    pub(super) fn make_room(&mut self, kind: PacketKind) {
        if !self.has_burst_room(kind) {
            self.wait_for_room(kind);
        }
    }

    #[cold]
    fn wait_for_room(&mut self, kind: PacketKind) {
        if self.is_stepped {
            // The others take something only in steps of their own. What has no room is dropped and counted.
            return;
        }
        // A round may take long.
        let begin = self.now();
        let since = *self.state.crowded_since.get_or_insert(begin);
        let mut at = begin;
        while at.since(since) < PATIENCE {
            self.pool.settle();
            self.wake_others();
            self.state.has_crossed |= self.trade(at);
            if self.has_burst_room(kind) {
                self.state.crowded_since = None;
                return;
            }
            pause(at.since(begin));
            at = self.now();
        }
    }

    /// Whether others have room for what a burst may cause.
    fn has_burst_room(&self, kind: PacketKind) -> bool {
        let Some(crew) = &self.crew else { return true };
        let outbound = &crew.exchange.outbound;
        caused_by(kind).iter().all(|&kind| outbound.least_room(kind, BURST_SIZE) >= BURST_SIZE)
    }

    /// Takes the frames that have come while a face was being read.
    pub(super) fn take_frames(&mut self, now: Timestamp) {
        let Some(crew) = &mut self.crew else { return };
        if crew.frames.is_empty() {
            return;
        }
        let mut frames = std::mem::take(&mut crew.frames);
        for frame in frames.drain(..) {
            self.take_frame(now, frame);
        }
        if let Some(crew) = &mut self.crew {
            // Its memory, to be used again.
            frames.append(&mut crew.frames);
            crew.frames = frames;
        }
    }
}

/// Lets others run, of a worker that has had nothing to do for so long.
fn pause(idle: Duration) {
    if idle < YIELD_TIME { std::thread::yield_now() } else { std::thread::sleep(PAUSE) }
}
