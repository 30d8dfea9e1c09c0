//! The fetch of a run of segments as a state machine without I/O and clock.
//!
//! Times are durations since an arbitrary moment. The driver calls `poll_transmit` until it gives
//! nothing, sends those Interests, and feeds answers to `handle_*`; when `poll_timeout` is due it
//! calls `handle_timeout`. Contents stay with the driver, which reports through `set_consumed` how
//! far it has passed them on.

mod early;
mod refused;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use super::config::FetchConfig;
use super::congestion::{Answer, Congestion, Controller};
use super::rtt::RttEstimator;
use super::segments::{Segments, Slot, Status};
use super::{FetchFailure, FetchProgress};
pub use refused::{PastCacheBy, Refused};

/// Smallest distance in sending order at which an unanswered Interest counts as lost.
const REORDER_MIN: u64 = 3;
/// Largest such distance that reordering may teach.
const REORDER_MAX: u64 = 4096;
/// Largest factor by which losses that were none stretch the tolerance for reordering.
const PATIENCE_MAX: u32 = 4;
/// Interests given up at one time-out. They probe whether the others are lost too: an answer to a
/// probe overtakes those, while after a mere stall their answers come and nothing is sent twice.
const TIMEOUT_PROBES: u32 = 2;
/// Pause before a segment that was refused with a Nack is asked for again, per attempt.
const NACK_PAUSE: Duration = Duration::from_millis(50);

/// One Interest to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Segment number.
    pub segment: u64,
    /// 1 for the first time.
    pub attempt: u32,
    /// A Data of this segment did not verify: whoever holds that one is not to answer.
    pub past_cache: Option<PastCacheBy>,
}

/// What an answer was good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataOutcome {
    /// The first content of this segment: keep it.
    New,
    /// The segment was there already.
    Duplicate,
    /// The segment was not asked for, or lies beyond the end.
    Unexpected,
}

/// Why `handle_timeout` is to be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadlineReason {
    /// An Interest has been unanswered for the retransmission time-out.
    Timeout,
    /// An Interest that later ones overtook has been unanswered long enough to count as lost.
    Loss,
    /// The pause after a Nack ends.
    NackPause,
}

/// One transmission, in sending order.
#[derive(Debug, Clone, Copy)]
struct Sent {
    sequence: u64,
    segment: u64,
    at: Duration,
}

/// The state machine.
#[derive(Debug)]
pub struct FetchState {
    config: FetchConfig,
    window: Box<dyn Controller>,
    rtt: RttEstimator,
    segments: Segments,
    /// One past the final segment, once known.
    end: Option<u64>,
    /// All segments before were passed on by the driver.
    consumed: u64,
    /// Segments to send again, lowest first; entries may be out of date.
    lost: BinaryHeap<Reverse<u64>>,
    /// Segments to send again after a pause, by time; entries may be out of date.
    paused: BinaryHeap<Reverse<(Duration, u64)>>,
    sent: VecDeque<Sent>,
    next_sequence: u64,
    highest_answered: Option<u64>,
    reorder_distance: u64,
    /// How many times the usual tolerance an overtaken Interest is waited for.
    patience: u32,
    /// Congestion is acted on again when a transmission from here on meets it.
    recovery_end: u64,
    /// Transmissions since the last decrease that were given up and were not lost, and all that were given
    /// up: the decrease was a mistake if they are as many.
    doubts: (u32, u32),
    /// Why segments were asked for again that did not verify.
    refusals: BTreeMap<u64, FetchFailure>,
    failure: Option<FetchFailure>,
    /// Since when Interests come too early.
    early_since: Option<Duration>,
    progress: FetchProgress,
}

impl FetchState {
    /// A fetch of the segments from `first` on; `last` is the final segment if it is known.
    #[must_use]
    pub fn new(config: FetchConfig, first: u64, last: Option<u64>) -> Self {
        Self {
            window: config.window.controller(),
            rtt: RttEstimator::new(config.rto),
            config,
            segments: Segments::new(first),
            end: last.map(|last| last.saturating_add(1)),
            consumed: first,
            lost: BinaryHeap::new(),
            paused: BinaryHeap::new(),
            sent: VecDeque::new(),
            next_sequence: 0,
            highest_answered: None,
            reorder_distance: REORDER_MIN,
            patience: 1,
            recovery_end: 0,
            doubts: (0, 0),
            refusals: BTreeMap::new(),
            failure: None,
            early_since: None,
            progress: FetchProgress::default(),
        }
    }

    /// The next Interest to send now, if the window allows one.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<Transmit> {
        if self.failure.is_some() || self.segments.in_flight() >= self.window.size() {
            return None;
        }
        while let Some(Reverse(segment)) = self.lost.pop() {
            if self.segments.slot(segment).is_some_and(|slot| slot.status == Status::Waiting) {
                self.progress.retransmissions += 1;
                return Some(self.transmit(now, segment));
            }
        }
        let limit = self.consumed.saturating_add(u64::from(self.config.buffer_segments));
        if self.segments.next() >= self.wanted_end().unwrap_or(u64::MAX).min(limit) {
            return None;
        }
        let segment = self.segments.next();
        self.segments.push(Status::Waiting);
        Some(self.transmit(now, segment))
    }

    /// Takes a Data that was verified. `final_segment` is the number in its FinalBlockId, `marked`
    /// whether it came with a congestion mark.
    pub fn handle_data(
        &mut self,
        now: Duration,
        segment: u64,
        final_segment: Option<u64>,
        marked: bool,
    ) -> DataOutcome {
        self.early_since = None;
        if let Some(last) = final_segment
            && !self.learn_end(segment, last)
        {
            return DataOutcome::Unexpected;
        }
        if segment < self.segments.base() {
            return DataOutcome::Duplicate;
        }
        if segment == self.segments.next() && self.end.is_none_or(|end| segment < end) {
            // Discovery brings the first segment before it was asked for.
            self.segments.push(Status::Received);
            self.progress.segments += 1;
            return DataOutcome::New;
        }
        match self.segments.slot(segment).map(|slot| slot.status) {
            None => return DataOutcome::Unexpected,
            Some(Status::Received) => return DataOutcome::Duplicate,
            Some(Status::InFlight | Status::Waiting) => {}
        }
        let in_flight = self.segments.in_flight();
        let Some(slot) = self.segments.update(segment, |slot| slot.status = Status::Received)
        else {
            return DataOutcome::Unexpected;
        };
        self.progress.segments += 1;
        let answered = self.judge_answer(now, &slot);
        self.grow(now, &slot, marked, in_flight);
        self.highest_answered = self.highest_answered.max(Some(answered));
        self.detect_losses(now);
        DataOutcome::New
    }

    /// Takes a Nack for the Interest for `segment`. It is asked for again after a pause that grows
    /// with the attempts; `congested` tells that the reason was congestion.
    pub fn handle_nack(&mut self, now: Duration, segment: u64, congested: bool) {
        let is_out = |slot: &Slot| slot.status == Status::InFlight;
        if !self.segments.slot(segment).is_some_and(is_out) {
            return;
        }
        let Some(slot) = self.segments.update(segment, |slot| slot.status = Status::Waiting) else {
            return;
        };
        self.progress.nacks += 1;
        if congested {
            self.decrease(slot.sequence, Congestion::Loss);
        }
        if self.allow_retransmission(segment, slot.attempts, FetchFailure::Nack { segment }) {
            let pause = NACK_PAUSE.saturating_mul(slot.attempts);
            self.paused.push(Reverse((now + pause, segment)));
        }
    }

    /// When [`Self::handle_timeout`] is to be called, and why.
    #[must_use]
    pub fn poll_timeout(&mut self) -> Option<(Duration, DeadlineReason)> {
        if self.failure.is_some() {
            return None;
        }
        self.drop_stale_sent();
        let timeout = self.sent.front().map(|sent| match self.loss_delay(sent.sequence) {
            Some(delay) if delay < self.rtt.rto() => (sent.at + delay, DeadlineReason::Loss),
            _ => (sent.at + self.rtt.rto(), DeadlineReason::Timeout),
        });
        let pause = self.paused.peek().map(|Reverse((at, _))| (*at, DeadlineReason::NackPause));
        match (timeout, pause) {
            (Some(timeout), Some(pause)) => Some(if pause.0 < timeout.0 { pause } else { timeout }),
            (timeout, pause) => timeout.or(pause),
        }
    }

    /// Gives Interests up whose time has come.
    pub fn handle_timeout(&mut self, now: Duration) {
        while let Some(&Reverse((at, segment))) = self.paused.peek()
            && at <= now
        {
            self.paused.pop();
            self.lost.push(Reverse(segment));
        }
        self.detect_losses(now);
        let rto = self.rtt.rto();
        let mut probes = 0;
        while probes < TIMEOUT_PROBES
            && let Some(sent) = self.first_unanswered()
            && sent.at + rto <= now
        {
            self.sent.pop_front();
            probes += 1;
            self.progress.timeouts += 1;
            self.give_up(sent, Congestion::Timeout);
        }
        if probes > 0 {
            self.rtt.back_off();
        }
    }

    /// Tells that all segments before `segment` were passed on, which makes room for later ones.
    pub fn set_consumed(&mut self, segment: u64) {
        self.consumed = self.consumed.max(segment);
    }

    /// Makes the fetch fail, for instance because a segment did not verify.
    pub fn fail(&mut self, failure: FetchFailure) {
        self.failure.get_or_insert(failure);
    }

    /// Whether every segment up to the final one, or the last that is wanted, was received.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failure.is_none() && self.wanted_end().is_some_and(|end| self.segments.base() >= end)
    }

    /// Why the fetch cannot go on.
    #[must_use]
    pub fn failure(&self) -> Option<&FetchFailure> {
        self.failure.as_ref()
    }

    /// Number of the first segment that is not received.
    #[must_use]
    pub fn first_missing(&self) -> u64 {
        self.segments.base()
    }

    /// Final segment, once known.
    #[must_use]
    pub fn final_segment(&self) -> Option<u64> {
        self.end.and_then(|end| end.checked_sub(1))
    }

    /// Interests that are out.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.segments.in_flight()
    }

    /// Counters and current estimates; bytes are counted by the driver.
    #[must_use]
    pub fn progress(&self) -> FetchProgress {
        FetchProgress {
            final_segment: self.final_segment(),
            window: self.window.size(),
            in_flight: self.segments.in_flight(),
            rtt: self.rtt.smoothed(),
            rto: self.rtt.rto(),
            ..self.progress
        }
    }

    /// One past the last segment to ask for, as far as is known.
    fn wanted_end(&self) -> Option<u64> {
        let wanted = self.config.last_wanted.map(|last| last.saturating_add(1));
        self.end.into_iter().chain(wanted).min()
    }

    fn transmit(&mut self, now: Duration, segment: u64) -> Transmit {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.progress.interests += 1;
        self.sent.push_back(Sent { sequence, segment, at: now });
        let before = self.segments.update(segment, |slot| {
            slot.status = Status::InFlight;
            slot.attempts += 1;
            slot.sequence = sequence;
            slot.sent_at = now;
        });
        Transmit {
            segment,
            attempt: before.map_or(1, |slot| slot.attempts + 1),
            past_cache: before.and_then(|slot| slot.past_cache()),
        }
    }

    /// Sequence number of the transmission that this answer belongs to. An answer that comes sooner
    /// after a retransmission than half of any round trip took belongs to the transmission before, which so
    /// was not lost: then the tolerance for reordering grows, and the decrease is taken back if nothing
    /// else was lost.
    fn judge_answer(&mut self, now: Duration, slot: &Slot) -> u64 {
        let Some((sequence, at)) = slot.given_up else {
            return slot.sequence;
        };
        let spurious = slot.status == Status::Waiting
            || self.rtt.min().is_some_and(|min| now.saturating_sub(slot.sent_at) < min / 2);
        if !spurious {
            self.rtt.end_back_off();
            // It was lost indeed: what reordering has taught is forgotten little by little.
            self.reorder_distance -= (self.reorder_distance - REORDER_MIN).div_ceil(8);
            return slot.sequence;
        }
        self.progress.spurious_losses += 1;
        let distance = self.highest_answered.map_or(0, |highest| highest.saturating_sub(sequence));
        self.reorder_distance =
            self.reorder_distance.max(distance + 1).saturating_add(1).min(REORDER_MAX);
        self.patience = (self.patience * 2).min(PATIENCE_MAX);
        self.doubts.0 += 1;
        // One late answer may be an early one to the retransmission: round trips get shorter, too.
        if self.doubts.0 >= self.doubts.1 {
            self.window.on_spurious_loss();
        }
        // The late answer is a true sample: it tells how long answers may take.
        self.rtt.add_sample(now.saturating_sub(at), self.segments.in_flight());
        sequence
    }

    fn grow(&mut self, now: Duration, slot: &Slot, marked: bool, in_flight: usize) {
        let rtt = (slot.attempts == 1).then(|| now.saturating_sub(slot.sent_at));
        if let Some(rtt) = rtt {
            self.rtt.add_sample(rtt, in_flight);
        }
        if marked {
            self.progress.congestion_marks += 1;
            self.decrease(slot.sequence, Congestion::Mark);
            return;
        }
        let size = self.window.size();
        self.window.on_answer(&Answer {
            now,
            sequence: slot.sequence,
            next_sequence: self.next_sequence,
            rtt,
            smoothed_rtt: self.rtt.smoothed().unwrap_or_default(),
            window_limited: in_flight + size / 8 >= size,
        });
    }

    /// Decreases the window unless it was decreased after `sequence` was sent.
    fn decrease(&mut self, sequence: u64, congestion: Congestion) {
        if sequence >= self.recovery_end {
            self.recovery_end = self.next_sequence;
            self.doubts = (0, 0);
            self.window.on_congestion(congestion);
            self.progress.window_decreases += 1;
        }
    }

    /// Takes the end that a Data states; false if that cannot be the Data that is waited for.
    fn learn_end(&mut self, segment: u64, last: u64) -> bool {
        let end = last.saturating_add(1);
        match self.end {
            Some(known) if known == end => return true,
            Some(known) => {
                // One that somebody made up is not to end the fetch.
                let known = known.saturating_sub(1);
                let failure = FetchFailure::FinalBlockIdChanged { known, now: last };
                self.handle_refused(segment, Refused::Content, failure);
                return false;
            }
            None if segment > last || self.segments.received_from(end) => {
                self.fail(FetchFailure::BeyondFinalBlock { segment, last });
                return true;
            }
            None => self.end = Some(end),
        }
        // Interests beyond the end are forgotten.
        self.segments.truncate(end);
        true
    }

    /// Whether `sent` is the last transmission of a segment that is still waited for.
    fn is_unanswered(&self, sent: &Sent) -> bool {
        self.segments
            .slot(sent.segment)
            .is_some_and(|slot| slot.status == Status::InFlight && slot.sequence == sent.sequence)
    }

    fn drop_stale_sent(&mut self) {
        while self.sent.front().is_some_and(|sent| !self.is_unanswered(sent)) {
            self.sent.pop_front();
        }
    }

    fn first_unanswered(&mut self) -> Option<Sent> {
        self.drop_stale_sent();
        self.sent.front().copied()
    }

    /// How long after its sending a transmission counts as lost, if so much later ones were answered
    /// that it does; longer where it may have been overtaken only as others were before.
    fn loss_delay(&self, sequence: u64) -> Option<Duration> {
        let distance = self.highest_answered?.saturating_sub(sequence);
        let delay = self.rtt.loss_delay(self.patience);
        if distance >= self.reorder_distance {
            Some(delay)
        } else {
            (distance >= REORDER_MIN).then_some(delay + delay / 4)
        }
    }

    fn detect_losses(&mut self, now: Duration) {
        while let Some(sent) = self.first_unanswered()
            && self.loss_delay(sent.sequence).is_some_and(|delay| sent.at + delay <= now)
        {
            self.sent.pop_front();
            self.progress.losses += 1;
            self.give_up(sent, Congestion::Loss);
        }
    }

    fn give_up(&mut self, sent: Sent, congestion: Congestion) {
        let before = self.segments.update(sent.segment, |slot| {
            slot.status = Status::Waiting;
            slot.given_up = Some((sent.sequence, sent.at));
        });
        let attempts = before.map_or(0, |slot| slot.attempts);
        if before.is_some_and(|slot| slot.refused > 0) {
            self.give_up_past_cache(sent.segment, attempts);
        }
        self.window.on_lost();
        self.decrease(sent.sequence, congestion);
        self.doubts.1 += 1;
        let failure = FetchFailure::Timeout { segment: sent.segment, attempts };
        if self.allow_retransmission(sent.segment, attempts, failure) {
            self.lost.push(Reverse(sent.segment));
        }
    }

    fn allow_retransmission(&mut self, segment: u64, attempts: u32, failure: FetchFailure) -> bool {
        // While the end is unknown a segment far ahead may not exist: only the first missing one
        // tells that the fetch cannot go on.
        let may_not_exist = self.end.is_none() && segment != self.segments.base();
        let allowed = attempts <= self.config.retransmissions_max || may_not_exist;
        if !allowed {
            self.fail(failure);
        }
        allowed
    }
}
