//! Fetch of a range of segments as a state machine without I/O and clock.
//!
//! Times are durations since an arbitrary origin. The driver calls `poll_transmit` until it returns
//! `None`, sends those Interests, and passes answers to `handle_*`; at the deadline of
//! `poll_timeout` it calls `handle_timeout`. Contents stay with the driver, which reports delivery
//! through `set_consumed`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use ndn_packet::NackReason;

use super::congestion::{AnsweredSegment, Congestion, Controller, WindowMode};
use super::rtt::{RtoBounds, RttEstimator};
use super::segments::{Segments, Slot, Status};
use super::{FetchFailure, FetchProgress};

/// Limits of a fetch.
#[derive(Debug, Clone, Copy)]
pub struct FetchConfig {
    /// Congestion control.
    pub window: WindowMode,
    /// Bounds of the retransmission time-out.
    pub rto: RtoBounds,
    /// Number of lifetimes to wait longer than one: the fetch fails once a segment was not answered for `rto.max` times
    /// one more than this since it was first sent, however often it was retransmitted, or once no Data has come for this time
    /// after Nacks that began after the first Data. Also the maximum number of retransmissions after Nacks before it.
    pub retransmissions_max: u32,
    /// Maximum distance between the first segment not yet consumed and the last one requested:
    /// bounds the reorder memory.
    pub buffer_segments: u32,
    /// The last segment to fetch; `None`: up to the final segment.
    pub last_segment_needed: Option<u64>,
    /// Whether the first segment is requested alone. Objects that mostly have one segment cause no Interests for others then,
    /// which nobody answers; those with more take one more round trip.
    pub first_alone: bool,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self {
            window: WindowMode::default(),
            rto: RtoBounds::default(),
            retransmissions_max: 15,
            buffer_segments: 4096,
            last_segment_needed: None,
            first_alone: false,
        }
    }
}

/// Minimum and maximum pause between Interests that probe for a producer that may come back.
const OUTAGE_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Maximum number of verification failures of one segment.
const REFUSED_MAX: u32 = 3;
/// Number of retransmissions when bypassing caches.
const BYPASS_RETRANSMISSIONS_MAX: u32 = 3;
/// Maximum number of verification failures of one fetch.
const REFUSED_ALTOGETHER_MAX: u64 = 256;

/// The rejected answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A Data with content.
    Content,
    /// An application Nack. A missing segment has no other answer, so requesting by digest alone
    /// would end only by timeout.
    Nack,
}

/// Method of bypassing caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BypassBy {
    /// By the digest of the packet where it is known, otherwise as `Fresh`.
    Digest,
    /// With MustBeFresh.
    Fresh,
}

/// An Interest that is older than the longest time-out and this was not sent again because the process was stopped.
const STOP_MIN: Duration = Duration::from_secs(1);

/// Minimum distance in sending order at which an unanswered Interest counts as lost.
const REORDER_MIN: u64 = 3;
/// Maximum such distance learned from reordering.
const REORDER_MAX: u64 = 4096;
/// Maximum factor by which spurious losses extend the tolerance for reordering.
const REORDER_FACTOR_MAX: u32 = 4;
/// Interests declared lost at one time-out. They probe whether the others are lost too: an answer
/// to a probe overtakes those, while after a mere stall their answers arrive and nothing is sent
/// twice.
const TIMEOUT_PROBES: u32 = 2;
/// Pause before a segment is requested again after a Nack, per attempt, while no Data has come.
const NACK_PAUSE: Duration = Duration::from_millis(50);

/// One Interest to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Segment number.
    pub segment: u64,
    /// 1 for the first transmission.
    pub attempt: u32,
    /// Set if a Data of this segment failed verification: how to bypass caches.
    pub cache_bypass: Option<BypassBy>,
}

/// Result of a Data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataOutcome {
    /// The first content of this segment: keep it.
    New,
    /// The segment was received before.
    Duplicate,
    /// The segment was not requested, or lies beyond the end.
    Unexpected,
}

/// Why `handle_timeout` is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadlineReason {
    /// An Interest has reached the retransmission time-out.
    Timeout,
    /// An Interest overtaken by later ones has been unanswered long enough to count as lost.
    Loss,
    /// The pause after a Nack ends, or the timeout of an outage.
    NackPause,
}

/// A transmission, in sending order.
#[derive(Debug, Clone, Copy)]
struct Sent {
    sequence: u64,
    segment: u64,
    at: Duration,
}

/// A time in which Interests are answered with Nacks after Data had come: the producer has probably
/// ended, and may come back. One Interest at a time probes for it.
#[derive(Debug)]
struct Outage {
    /// The first Nack.
    since: Duration,
    /// The reason in the last Nack.
    reason: NackReason,
    /// The last Interest sent.
    probe: Option<Sent>,
    /// The next Interest is not sent before.
    resume_at: Option<Duration>,
    /// Pause after the next Nack.
    pause: Duration,
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
    /// All segments before this one were delivered by the driver.
    consumed: u64,
    /// Segments to send again, lowest first; entries may be stale.
    lost: BinaryHeap<Reverse<u64>>,
    /// Segments of `lost` that are sent whatever the window: probes after a time-out. Of a whole window that was lost, more are
    /// counted as in flight than the window, which the time-out has decreased, allows.
    probes: u32,
    /// Segments to send again after a pause, by time; entries may be stale.
    paused: BinaryHeap<Reverse<(Duration, u64)>>,
    sent: VecDeque<Sent>,
    next_sequence: u64,
    highest_answered: Option<u64>,
    reorder_distance: u64,
    /// Factor of the tolerance for an overtaken Interest.
    reorder_factor: u32,
    /// Congestion counts again for transmissions from this sequence number on.
    recovery_end: u64,
    /// Transmissions declared lost since the last decrease: the spurious ones, and all. The
    /// decrease is undone if the two are equal.
    doubts: (u32, u32),
    /// The verification failures of segments that were requested again.
    refusals: BTreeMap<u64, FetchFailure>,
    failure: Option<FetchFailure>,
    /// Start of a period in which Interests arrive before their producer.
    early_since: Option<Duration>,
    outage: Option<Outage>,
    progress: FetchProgress,
}

impl FetchState {
    /// A fetch of the segments from `first` on; `last` is the final segment if known.
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
            probes: 0,
            paused: BinaryHeap::new(),
            sent: VecDeque::new(),
            next_sequence: 0,
            highest_answered: None,
            reorder_distance: REORDER_MIN,
            reorder_factor: 1,
            recovery_end: 0,
            doubts: (0, 0),
            refusals: BTreeMap::new(),
            failure: None,
            early_since: None,
            outage: None,
            progress: FetchProgress::default(),
        }
    }

    /// The next Interest to send, if the window allows one.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<Transmit> {
        let has_room = self.may_transmit();
        if self.failure.is_some() || !(has_room || self.probes > 0 && self.outage.is_none()) {
            return None;
        }
        while let Some(Reverse(segment)) = self.lost.pop() {
            if self.segments.slot(segment).is_some_and(|slot| slot.status == Status::Waiting) {
                self.progress.retransmissions += 1;
                self.probes = self.probes.saturating_sub(1);
                return Some(self.transmit(now, segment));
            }
        }
        self.probes = 0;
        if !has_room {
            return None;
        }
        let limit = self.consumed.saturating_add(u64::from(self.config.buffer_segments));
        if self.segments.next() >= self.needed_end().unwrap_or(u64::MAX).min(limit) {
            return None;
        }
        let segment = self.segments.next();
        self.segments.push(Status::Waiting);
        Some(self.transmit(now, segment))
    }

    /// Handles a verified Data. `final_segment` is the number in its FinalBlockId, `marked` whether
    /// it has a congestion mark.
    pub fn handle_data(
        &mut self,
        now: Duration,
        segment: u64,
        final_segment: Option<u64>,
        marked: bool,
    ) -> DataOutcome {
        self.early_since = None;
        self.outage = None;
        if let Some(last) = final_segment
            && !self.learn_end(segment, last)
        {
            return DataOutcome::Unexpected;
        }
        if segment < self.segments.base() {
            return DataOutcome::Duplicate;
        }
        if segment == self.segments.next() && self.end.is_none_or(|end| segment < end) {
            // Discovery may deliver the first segment before it is requested.
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
        self.refusals.remove(&segment);
        self.progress.segments += 1;
        let answered = self.judge_answer(now, &slot);
        self.grow(now, &slot, marked, in_flight);
        self.highest_answered = self.highest_answered.max(Some(answered));
        self.detect_losses(now);
        DataOutcome::New
    }

    /// Handles a Nack for the Interest for `segment`. The segment is requested again after a pause that grows with the
    /// attempts; during an outage, which a reason other than Congestion begins once Data has come, after the pause of that.
    pub fn handle_nack(&mut self, now: Duration, segment: u64, reason: NackReason) {
        let is_out = |slot: &Slot| slot.status == Status::InFlight;
        if !self.segments.slot(segment).is_some_and(is_out) {
            return;
        }
        let Some(slot) = self.segments.update(segment, |slot| slot.status = Status::Waiting) else {
            return;
        };
        self.progress.nacks += 1;
        let congested = reason == NackReason::CONGESTION;
        if congested {
            self.decrease(slot.sequence, Congestion::Loss);
        }
        if self.outage.is_some() || (!congested && self.progress.segments > 0) {
            self.wait_out(now, segment, slot.sequence, reason);
        } else if self.allow_nack(segment, reason) {
            let pause = NACK_PAUSE.saturating_mul(slot.attempts);
            self.paused.push(Reverse((now + pause, segment)));
        }
    }

    /// Deadline of the next [`Self::handle_timeout`], with its reason.
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
        let end = self.time_limit_end().map(|at| (at, DeadlineReason::Timeout));
        let timeout = timeout.into_iter().chain(end).min_by_key(|(at, _)| *at);
        let pause = self.paused.peek().map(|Reverse((at, _))| *at);
        let outage = self.outage.as_ref().and_then(|outage| outage.resume_at);
        let pause = pause.into_iter().chain(outage).min().map(|at| (at, DeadlineReason::NackPause));
        match (timeout, pause) {
            (Some(timeout), Some(pause)) => Some(if pause.0 < timeout.0 { pause } else { timeout }),
            (timeout, pause) => timeout.or(pause),
        }
    }

    /// Declares expired Interests lost, and fails if the first missing segment was not answered in time.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.check_time_limit(now);
        while let Some(&Reverse((at, segment))) = self.paused.peek()
            && at <= now
        {
            self.paused.pop();
            self.lost.push(Reverse(segment));
        }
        self.end_outage_pause(now);
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
            self.probes = probes;
        }
    }

    /// Reports that all segments before `segment` were delivered, which makes room for later ones.
    pub fn set_consumed(&mut self, segment: u64) {
        self.consumed = self.consumed.max(segment);
    }

    /// Makes the fetch fail, for example because a segment failed verification.
    pub fn fail(&mut self, failure: FetchFailure) {
        self.failure.get_or_insert(failure);
    }

    /// Whether every segment up to the final or last requested one was received.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failure.is_none() && self.needed_end().is_some_and(|end| self.segments.base() >= end)
    }

    /// The failure of the fetch, if any.
    #[must_use]
    pub fn failure(&self) -> Option<&FetchFailure> {
        self.failure.as_ref()
    }

    /// The first segment not received.
    #[must_use]
    pub fn first_missing(&self) -> u64 {
        self.segments.base()
    }

    /// Final segment, once known.
    #[must_use]
    pub fn final_segment(&self) -> Option<u64> {
        self.end.and_then(|end| end.checked_sub(1))
    }

    /// Number of outstanding Interests.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.segments.in_flight()
    }

    /// Counters and current estimates; the driver counts bytes.
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

    /// One past the last segment to request, if known.
    fn needed_end(&self) -> Option<u64> {
        let requested = self.config.last_segment_needed.map(|last| last.saturating_add(1));
        self.end.into_iter().chain(requested).min()
    }

    fn transmit(&mut self, now: Duration, segment: u64) -> Transmit {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.progress.interests += 1;
        let sent = Sent { sequence, segment, at: now };
        self.sent.push_back(sent);
        if let Some(outage) = &mut self.outage {
            outage.probe = Some(sent);
        }
        let before = self.segments.update(segment, |slot| {
            slot.status = Status::InFlight;
            slot.attempts += 1;
            slot.sequence = sequence;
            slot.sent_at = now;
            slot.unanswered_since.get_or_insert(now);
        });
        Transmit {
            segment,
            attempt: before.map_or(1, |slot| slot.attempts + 1),
            cache_bypass: before.and_then(|slot| slot.cache_bypass()),
        }
    }

    /// Sequence number of the transmission that this answer belongs to. An answer that arrives
    /// after a retransmission in less than half of any round trip belongs to the transmission
    /// before, which was therefore not lost: the tolerance for reordering grows, and the decrease
    /// is undone if nothing else was lost.
    fn judge_answer(&mut self, now: Duration, slot: &Slot) -> u64 {
        let Some((sequence, at)) = slot.given_up else {
            return slot.sequence;
        };
        let spurious = slot.status == Status::Waiting
            || self.rtt.min().is_some_and(|min| now.saturating_sub(slot.sent_at) < min / 2);
        if !spurious {
            self.rtt.end_back_off();
            // A real loss: the learned reordering tolerance decreases gradually.
            self.reorder_distance -= (self.reorder_distance - REORDER_MIN).div_ceil(8);
            return slot.sequence;
        }
        self.progress.spurious_losses += 1;
        let distance = self.highest_answered.map_or(0, |highest| highest.saturating_sub(sequence));
        self.reorder_distance =
            self.reorder_distance.max(distance + 1).saturating_add(1).min(REORDER_MAX);
        self.reorder_factor = (self.reorder_factor * 2).min(REORDER_FACTOR_MAX);
        self.doubts.0 += 1;
        // A late answer may be an early one to the retransmission: round trips can also become
        // shorter.
        if self.doubts.0 >= self.doubts.1 {
            self.window.on_spurious_loss();
        }
        // A late answer is a valid sample of how long answers may take.
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
        self.window.on_answer(&AnsweredSegment {
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

    /// Applies the end that a Data states; returns false if the Data cannot be the expected one.
    fn learn_end(&mut self, segment: u64, last: u64) -> bool {
        let end = last.saturating_add(1);
        match self.end {
            Some(known) if known == end => return true,
            Some(known) => {
                // A forged one must not end the fetch.
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
        // Interests beyond the end are dropped.
        self.segments.truncate(end);
        true
    }

    /// Whether `sent` is the last transmission of a segment that is still outstanding.
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

    /// Time after its sending at which a transmission counts as lost, if enough later ones were
    /// answered; longer if earlier ones were merely overtaken.
    fn loss_delay(&self, sequence: u64) -> Option<Duration> {
        let distance = self.highest_answered?.saturating_sub(sequence);
        let delay = self.rtt.loss_delay(self.reorder_factor);
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
            self.give_up_bypass(sent.segment, attempts);
        }
        self.window.on_lost();
        self.decrease(sent.sequence, congestion);
        self.doubts.1 += 1;
        self.lost.push(Reverse(sent.segment));
    }

    /// Counts a Nack, which fails the fetch at the maximum number.
    fn allow_nack(&mut self, segment: u64, reason: NackReason) -> bool {
        let before = self.segments.update(segment, |slot| slot.nacks += 1);
        // While the end is unknown, a segment far ahead may not exist: only the first missing one
        // decides that the fetch fails.
        let may_not_exist = self.end.is_none() && segment != self.segments.base();
        let retransmissions_max = self.config.retransmissions_max;
        let allowed = may_not_exist || before.is_none_or(|slot| slot.nacks < retransmissions_max);
        if !allowed {
            self.fail(FetchFailure::Nack { segment, reason });
        }
        allowed
    }
}

/// The limit of the time without an answer.
impl FetchState {
    fn time_limit(&self) -> Duration {
        let lifetimes = self.config.retransmissions_max.saturating_add(1);
        self.config.rto.max.saturating_mul(lifetimes)
    }

    /// When the fetch fails without an answer to the first missing segment. The later ones were first sent after it, and may not
    /// exist while the end is unknown.
    fn time_limit_end(&self) -> Option<Duration> {
        let since = self.segments.slot(self.segments.base())?.unanswered_since?;
        Some(since.saturating_add(self.time_limit()))
    }

    fn check_time_limit(&mut self, now: Duration) {
        let segment = self.segments.base();
        let is_over = self.time_limit_end().is_some_and(|end| end <= now);
        let Some(slot) = self.segments.slot(segment).filter(|_| is_over) else { return };
        let age = now.saturating_sub(slot.sent_at);
        if slot.status == Status::InFlight && age > self.config.rto.max + STOP_MIN {
            self.segments.update(segment, |slot| slot.unanswered_since = Some(now));
            return;
        }
        let (attempts, waited) = (slot.attempts, self.time_limit());
        self.fail(FetchFailure::Timeout { segment, attempts, waited });
    }
}

/// Outages.
impl FetchState {
    /// Whether the window, or the pause of an outage, allows an Interest.
    fn may_transmit(&self) -> bool {
        match &self.outage {
            None if self.config.first_alone && self.progress.segments == 0 => {
                self.segments.in_flight() == 0
            }
            None => self.segments.in_flight() < self.window.size(),
            Some(outage) => {
                let is_out = outage.probe.is_some_and(|probe| self.is_unanswered(&probe));
                outage.resume_at.is_none() && !is_out
            }
        }
    }

    /// Keeps a segment, whose transmission of this sequence number was answered with a Nack, until
    /// the outage ends or it becomes a probe. The transmission is not counted as an attempt.
    fn wait_out(&mut self, now: Duration, segment: u64, sequence: u64, reason: NackReason) {
        self.segments.update(segment, Slot::uncount);
        self.lost.push(Reverse(segment));
        let end = self.outage_end(now);
        let outage = self.outage.get_or_insert_with(|| Outage {
            since: now,
            reason,
            probe: None,
            resume_at: Some(now + OUTAGE_PAUSE.0),
            pause: OUTAGE_PAUSE.0 * 2,
        });
        outage.reason = reason;
        if outage.probe.is_some_and(|probe| probe.sequence == sequence) {
            outage.resume_at = Some((now + outage.pause).min(end));
            outage.pause = (outage.pause * 2).min(OUTAGE_PAUSE.1);
        }
    }

    /// When the fetch fails if the outage lasts: after as long as without any answer.
    fn outage_end(&self, now: Duration) -> Duration {
        let since = self.outage.as_ref().map_or(now, |outage| outage.since);
        since.saturating_add(self.time_limit())
    }

    fn end_outage_pause(&mut self, now: Duration) {
        let end = self.outage_end(now);
        let Some(outage) = self.outage.as_mut() else { return };
        if outage.resume_at.is_some_and(|at| at <= now) {
            outage.resume_at = None;
            if end <= now {
                let reason = outage.reason;
                self.fail(FetchFailure::Nack { segment: self.segments.base(), reason });
            }
        }
    }
}

/// Interests that arrive before their producer has reconnected.
impl FetchState {
    /// Handles an Interest that arrived before its producer had reconnected: it is sent again after
    /// a pause that grows with the duration of this state, and is not counted as an attempt; nor does
    /// the timeout of an outage run meanwhile.
    pub fn handle_too_early(&mut self, now: Duration, segment: u64) {
        let is_out = |slot: &Slot| slot.status == Status::InFlight;
        if !self.segments.slot(segment).is_some_and(is_out) {
            return;
        }
        let Some(slot) = self.segments.update(segment, |slot| slot.status = Status::Waiting) else {
            return;
        };
        self.progress.nacks += 1;
        if self.outage.is_some() || self.progress.segments > 0 {
            self.wait_out(now, segment, slot.sequence, NackReason::NO_ROUTE);
            if let Some(outage) = &mut self.outage {
                outage.since = now;
            }
            return;
        }
        self.segments.update(segment, Slot::uncount);
        let since = *self.early_since.get_or_insert(now);
        let pause = now.saturating_sub(since).clamp(OUTAGE_PAUSE.0, OUTAGE_PAUSE.1);
        self.paused.push(Reverse((now + pause, segment)));
    }
}

/// Segments whose packets failed verification.
impl FetchState {
    /// Handles a Data that failed verification: its segment is requested again at once, a few times
    /// before the fetch fails with `failure`. Returns whether it was outstanding.
    pub fn handle_refused(
        &mut self,
        segment: u64,
        refused: Refused,
        failure: FetchFailure,
    ) -> bool {
        let is_out = |slot: &Slot| slot.status != Status::Received;
        if !self.segments.slot(segment).is_some_and(is_out) {
            return false;
        }
        let before = self.segments.update(segment, |slot| {
            slot.status = Status::Waiting;
            slot.refused += 1;
            slot.refused_nack = refused == Refused::Nack;
            slot.attempts = 0;
            slot.unanswered_since = None;
        });
        self.progress.refused += 1;
        if before.is_some_and(|slot| slot.refused >= REFUSED_MAX)
            || self.progress.refused > REFUSED_ALTOGETHER_MAX
        {
            self.fail(failure);
        } else {
            self.refusals.insert(segment, failure);
            self.lost.push(Reverse(segment));
        }
        true
    }

    /// Segments to be requested again because their packets were refused.
    pub(super) fn refused(&self) -> impl Iterator<Item = u64> {
        self.refusals.keys().copied()
    }

    /// Ends the fetch if no holder of the right packet answers.
    pub(super) fn give_up_bypass(&mut self, segment: u64, attempts: u32) {
        if attempts > BYPASS_RETRANSMISSIONS_MAX
            && let Some(refusal) = self.refusals.remove(&segment)
        {
            self.fail(refusal);
        }
    }
}

impl Slot {
    /// Does not count the last transmission as an attempt.
    fn uncount(&mut self) {
        self.attempts = self.attempts.saturating_sub(1);
        self.unanswered_since = None;
    }

    /// Returns the method of requesting the segment again after a verification failure: after a Nack, both in turn.
    pub(super) fn cache_bypass(&self) -> Option<BypassBy> {
        let by_digest = !self.refused_nack || (self.refused + self.attempts).is_multiple_of(2);
        let by = if by_digest { BypassBy::Digest } else { BypassBy::Fresh };
        (self.refused > 0).then_some(by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_interest_is_not_counted_and_is_retried_with_back_off() {
        let config = FetchConfig { retransmissions_max: 0, ..FetchConfig::default() };
        let mut state = FetchState::new(config, 0, Some(0));
        let (mut now, mut pauses) = (Duration::ZERO, Vec::new());
        for _ in 0..12 {
            assert!(state.poll_transmit(now).is_some());
            state.handle_too_early(now, 0);
            assert!(state.poll_transmit(now).is_none());
            let (at, _) = state.poll_timeout().expect("it is to be sent again");
            pauses.push((at - now).as_millis());
            now = at;
            state.handle_timeout(now);
        }
        assert_eq!(pauses[..6], [50, 50, 100, 200, 400, 800]);
        assert_eq!(pauses[6..], [1000; 6]);
        assert!(state.failure().is_none());
        assert!(state.poll_transmit(now).is_some());
        state.handle_data(now, 0, Some(0), false);
        assert!(state.is_complete());
    }

    const MS: Duration = Duration::from_millis(1);

    /// A fetch of two segments with a lifetime of 4 s. The first is answered after 100 ms, by which the time-out is 200 ms, and
    /// the second is not until this time after it was sent. Returns also the time at which it was sent.
    fn silent_until(retries: u32, silence: Duration) -> (FetchState, Duration) {
        let mut options = super::super::FetchOptions::default();
        options.give_up_after(retries);
        options.config.first_alone = true;
        let mut state = FetchState::new(options.config, 0, Some(1));
        assert!(state.poll_transmit(Duration::ZERO).is_some());
        let begin = 50 * MS;
        state.handle_data(begin, 0, None, false);
        assert!(state.poll_transmit(begin).is_some());
        assert_eq!(state.progress().rto, 200 * MS);
        while let Some((at, _)) = state.poll_timeout().filter(|(at, _)| *at <= begin + silence) {
            state.handle_timeout(at);
            while state.poll_transmit(at).is_some() {}
        }
        (state, begin)
    }

    #[test]
    fn time_without_an_answer_is_limited_not_the_retransmissions() {
        let lifetime = Duration::from_secs(4);
        for retries in [0, 2, 15] {
            let limit = lifetime * (retries + 1);
            let (mut state, begin) = silent_until(retries, limit - MS);
            assert_eq!(state.failure(), None, "{retries}");
            let retransmissions = state.progress().retransmissions;
            assert!((4..=u64::from(retries) + 6).contains(&retransmissions), "{retransmissions}");
            assert_eq!(state.poll_timeout(), Some((begin + limit, DeadlineReason::Timeout)));
            state.handle_timeout(begin + limit);
            let attempts = u32::try_from(retransmissions).unwrap() + 1;
            let failure = FetchFailure::Timeout { segment: 1, attempts, waited: limit };
            assert_eq!(state.failure(), Some(&failure));
            let text = format!("not answered within {} s ({attempts} attempts)", limit.as_secs());
            assert!(failure.to_string().ends_with(&text), "{failure}");
        }
        let (mut state, begin) = silent_until(0, 3000 * MS);
        state.handle_data(begin + 3000 * MS, 1, None, false);
        assert!(state.is_complete());
    }

    /// Timeouts are no Nacks: after many of them, a Nack of congestion does not fail the fetch.
    #[test]
    fn timeouts_do_not_count_as_nacks() {
        let (mut state, begin) = silent_until(2, 11_000 * MS);
        for _ in 0..2 {
            state.handle_nack(begin + 11_000 * MS, 1, NackReason::CONGESTION);
            assert_eq!(state.failure(), None);
            let (at, _) = state.poll_timeout().unwrap();
            state.handle_timeout(at);
            assert!(state.poll_transmit(at).is_some());
        }
        state.handle_nack(begin + 11_900 * MS, 1, NackReason::CONGESTION);
        let reason = NackReason::CONGESTION;
        assert_eq!(state.failure(), Some(&FetchFailure::Nack { segment: 1, reason }));
    }

    #[test]
    fn time_in_which_the_process_was_stopped_is_not_counted() {
        let (mut state, begin) = silent_until(0, 1000 * MS);
        let resumed = begin + Duration::from_secs(100);
        state.handle_timeout(resumed);
        assert_eq!(state.failure(), None);
        assert!(state.poll_transmit(resumed).is_some());
        state.handle_timeout(resumed + 4000 * MS);
        assert!(matches!(state.failure(), Some(FetchFailure::Timeout { .. })));
    }

    #[test]
    fn first_segment_can_be_requested_alone() {
        let config = FetchConfig { first_alone: true, ..FetchConfig::default() };
        let mut state = FetchState::new(config, 0, None);
        let sent = |state: &mut FetchState| std::iter::from_fn(|| state.poll_transmit(MS)).count();
        assert_eq!(sent(&mut state), 1);
        state.handle_data(2 * MS, 0, Some(5), false);
        assert_eq!(sent(&mut state), 5);
    }

    /// A missing segment has no packet with its expected digest: after a Nack that fails
    /// verification, both ways are tried alternately.
    #[test]
    fn both_cache_bypasses_are_tried_after_a_forged_nack() {
        let mut state = FetchState::new(FetchConfig::default(), 0, Some(0));
        assert_eq!(state.poll_transmit(Duration::ZERO).unwrap().cache_bypass, None);
        let failure = FetchFailure::Verification { segment: 0, reason: "nobody".to_owned() };
        for by in [BypassBy::Fresh, BypassBy::Digest, BypassBy::Fresh] {
            assert!(state.handle_refused(0, Refused::Nack, failure.clone()));
            assert_eq!(state.poll_transmit(MS).unwrap().cache_bypass, Some(by));
        }
        state.handle_refused(0, Refused::Nack, failure.clone());
        assert_eq!(state.failure(), Some(&failure));
        // Without an answer one way, the other is tried.
        let mut state = FetchState::new(FetchConfig::default(), 0, Some(0));
        state.poll_transmit(Duration::ZERO).unwrap();
        state.handle_refused(0, Refused::Nack, failure.clone());
        let mut ways = Vec::new();
        while state.failure().is_none() {
            while let Some(transmit) = state.poll_transmit(MS) {
                ways.push(transmit.cache_bypass.unwrap());
            }
            let (at, _) = state.poll_timeout().unwrap();
            state.handle_timeout(at);
        }
        let (fresh, digest) = (BypassBy::Fresh, BypassBy::Digest);
        assert_eq!(ways, [fresh, digest, fresh, digest]);
        assert_eq!(state.failure(), Some(&failure));
    }

    /// Where a whole window is lost, more is in flight than the decreased window allows: probes are sent nevertheless, and
    /// their Data ends the wait.
    #[test]
    fn probes_are_sent_after_a_whole_window_is_lost() {
        let mut state = FetchState::new(FetchConfig::default(), 0, Some(10_000));
        let (mut now, mut answered) = (Duration::ZERO, 0);
        // The window grows, then no answer comes any more.
        while answered < 500 {
            let sent: Vec<u64> =
                std::iter::from_fn(|| state.poll_transmit(now).map(|sent| sent.segment)).collect();
            now += MS;
            for segment in sent {
                state.handle_data(now, segment, Some(10_000), false);
                state.set_consumed(segment + 1);
                answered += 1;
            }
        }
        while state.poll_transmit(now).is_some() {}
        let (at, reason) = state.poll_timeout().unwrap();
        assert_eq!(reason, DeadlineReason::Timeout);
        assert!(at - now < Duration::from_secs(1), "{:?}", at - now);
        state.handle_timeout(at);
        let probes = std::iter::from_fn(|| state.poll_transmit(at)).count();
        assert_eq!(probes, TIMEOUT_PROBES as usize);
    }
}
