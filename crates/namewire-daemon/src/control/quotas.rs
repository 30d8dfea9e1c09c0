//! Faces that exceed their quotas: rate limit and log.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::time::Duration;

use ndn_dataplane::Command;
use ndn_face::LinkDropReason;
use ndn_management::{Handled, Now};
use ndn_table::FaceIndex;
use ndn_types::duration_ns;
use tracing::{info, warn};

use super::Control;
use crate::addresses;
use crate::config::Limits;
use crate::faces::KnownFace;

/// Poll interval for exceeded quotas.
const PERIOD: Duration = Duration::from_secs(5);
/// Minimum interval between log lines of one face, and the period of the limit for all faces.
const PAUSE: Duration = Duration::from_secs(60);
const FACES_TOLD_MAX: u32 = 10;

/// Burst of refused commands, in seconds of their rate.
const REFUSED_AHEAD: Duration = Duration::from_secs(10);
/// Time without a violation after which the rate limit ends.
const HELD: Duration = Duration::from_secs(10);

/// Token bucket for refused commands of a face, stored as the time at which it will be full again.
#[derive(Debug, Default, Clone, Copy)]
struct RefusedCommands {
    full_at_ns: u64,
    /// End of the rate limit after a violation.
    held_until_ns: Option<u64>,
}

impl RefusedCommands {
    /// Counts a refused command; returns true if the rate limit starts now.
    fn note(&mut self, now_ns: u64, per_second: NonZeroU32) -> bool {
        let full_at_ns = self.full_at_ns.max(now_ns);
        if full_at_ns <= now_ns.saturating_add(duration_ns(REFUSED_AHEAD)) {
            self.full_at_ns =
                full_at_ns + duration_ns(Duration::from_secs(1)) / u64::from(per_second.get());
            return false;
        }
        self.held_until_ns.replace(now_ns.saturating_add(duration_ns(HELD))).is_none()
    }

    /// Ends the rate limit if its time is over; returns true if it ended.
    fn is_over(&mut self, now_ns: u64) -> bool {
        self.held_until_ns.take_if(|until_ns| *until_ns <= now_ns).is_some()
    }
}

/// Interests of a face refused because of its quotas.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Excess {
    /// Refused because too many were pending. The face counts those beyond its rate.
    pub(crate) pending: u64,
    commands: RefusedCommands,
    /// Counts already logged.
    told: Line,
    next_line_ns: u64,
}

/// Counts to log for a face.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Line {
    pending: u64,
    rate: u64,
    management: u64,
}

impl Excess {
    /// Returns the counts since the last log line, if there are any and the interval has passed.
    fn line(&mut self, now_ns: u64, rate: u64, management: u64) -> Option<Line> {
        let (all, told) = (Line { pending: self.pending, rate, management }, self.told);
        if all == told || now_ns < self.next_line_ns {
            return None;
        }
        let line = Line {
            pending: all.pending - told.pending,
            rate: all.rate - told.rate,
            management: all.management - told.management,
        };
        self.told = all;
        self.next_line_ns = now_ns.saturating_add(duration_ns(PAUSE));
        Some(line)
    }
}

/// Polls the faces for exceeded quotas.
#[derive(Debug, Default)]
pub(super) struct QuotaWatch {
    next_poll_ns: u64,
    /// End of the period of the limit for all faces.
    pause_ends_ns: u64,
    told: u32,
    /// FaceIds by face index: workers report the index.
    places: HashMap<FaceIndex, u64>,
    /// FaceIds under the rate limit; some may be gone.
    held: Vec<u64>,
}

impl QuotaWatch {
    /// Time of the next [`look`](Self::look).
    pub(super) fn next_deadline_ns(&self, limits: &Limits) -> Option<u64> {
        let has_quotas = limits.pending_interests_per_face.is_some()
            || limits.interests_per_second.is_some()
            || limits.refused_commands_per_second.is_some();
        has_quotas.then_some(self.next_poll_ns)
    }

    /// Counts Interests refused because too many of the face were pending.
    pub(super) fn refused(
        &self,
        faces: &mut BTreeMap<u64, KnownFace>,
        face: FaceIndex,
        count: u64,
    ) {
        let known = self.places.get(&face).and_then(|face_id| faces.get_mut(face_id));
        if let Some(known) = known {
            known.excess.pending += count;
        }
    }

    pub(super) fn face_added(&mut self, face: FaceIndex, face_id: u64) {
        self.places.insert(face, face_id);
    }

    /// The index may already belong to another face.
    pub(super) fn face_removed(&mut self, face: FaceIndex, face_id: u64) {
        if self.places.get(&face) == Some(&face_id) {
            self.places.remove(&face);
        }
    }

    /// Logs the faces that have exceeded their quotas, if the interval has passed.
    pub(super) fn look(&mut self, now_ns: u64, faces: &mut BTreeMap<u64, KnownFace>) {
        if now_ns < self.next_poll_ns {
            return;
        }
        self.next_poll_ns = now_ns.saturating_add(duration_ns(PERIOD));
        for (face_id, face) in faces {
            if !self.may_tell(now_ns) {
                return;
            }
            let rate = face.counters.dropped(LinkDropReason::InterestRate).value();
            let management = face.counters.dropped(LinkDropReason::ManagementRate).value();
            if let Some(line) = face.excess.line(now_ns, rate, management) {
                let Line { pending, rate, management } = line;
                self.told += 1;
                warn!(
                    face_id,
                    remote = %addresses::named(&face.remote),
                    pending,
                    rate,
                    management,
                    "Interests refused: too many pending, or too many per second, of all or to management (see [limits])"
                );
            }
        }
    }

    fn may_tell(&mut self, now_ns: u64) -> bool {
        if now_ns >= self.pause_ends_ns {
            (self.pause_ends_ns, self.told) = (now_ns.saturating_add(duration_ns(PAUSE)), 0);
        }
        self.told < FACES_TOLD_MAX
    }
}

impl Control {
    /// Logs the outcome of a management Interest, and limits the rate of a face whose commands are refused too often.
    pub(super) fn note_handled(&mut self, now: Now, face_id: u64, handled: Handled) {
        if is_refused(&handled)
            && let Some(per_second) = self.config.limits.refused_commands_per_second
            && let Some(face) = self.faces.get_mut(&face_id)
            && face.excess.commands.note(now.monotonic_ns, per_second)
        {
            warn!(
                face_id,
                remote = %addresses::named(&face.remote),
                limit = per_second,
                "too many commands refused: the face is held to so many per second"
            );
            self.quotas.held.push(face_id);
            self.hold_back(face_id, Some(per_second));
        }
        self.refusals.report(now, face_id, handled);
    }

    /// Ends the rate limit of faces without recent violations.
    pub(super) fn poll_quotas(&mut self, now: Now) {
        if now.monotonic_ns >= self.quotas.next_poll_ns {
            for face_id in std::mem::take(&mut self.quotas.held) {
                let Some(face) = self.faces.get_mut(&face_id) else { continue };
                if face.excess.commands.is_over(now.monotonic_ns) {
                    info!(face_id, "the face is not held back any more");
                    self.hold_back(face_id, None);
                } else {
                    self.quotas.held.push(face_id);
                }
            }
        }
        self.quotas.look(now.monotonic_ns, &mut self.faces);
    }

    fn hold_back(&mut self, face_id: u64, management_per_second: Option<NonZeroU32>) {
        let Some(face) = self.faces.get_mut(&face_id) else { return };
        face.options.link.management_per_second = management_per_second;
        let options = Box::new(face.options);
        self.dataplane.send(Command::UpdateFace { face_id, options });
    }
}

/// Returns whether a management Interest was refused or will never be answered. Interests for future notifications
/// are legitimate and do not count.
const fn is_refused(handled: &Handled) -> bool {
    match handled {
        Handled::Refused { .. }
        | Handled::Ignored(_)
        | Handled::Malformed
        | Handled::UnknownFace
        | Handled::Data { answered: false } => true,
        Handled::Command { .. } | Handled::Data { answered: true } | Handled::Event { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: u64 = 60_000_000_000;

    #[test]
    fn unanswered_interests_count_as_refused_and_answered_ones_do_not() {
        let (verb, signer) = (ndn_management::Verb::RibRegister, String::new());
        let refused = Handled::Refused { verb, signer, code: 403, reason: String::new() };
        let unknown = Handled::Ignored(ndn_management::IgnoreReason::UnknownName);
        let nothing = Handled::Data { answered: false };
        for handled in [refused, unknown, nothing, Handled::Malformed] {
            assert!(is_refused(&handled), "{handled:?}");
        }
        let carried_out = Handled::Command { verb, signer: String::new(), code: Some(200) };
        let segment = Handled::Data { answered: true };
        let [event, awaited] = [true, false].map(|answered| Handled::Event { answered });
        for handled in [carried_out, segment, event, awaited] {
            assert!(!is_refused(&handled), "{handled:?}");
        }
    }

    #[test]
    fn face_index_belongs_to_its_latest_face() {
        let mut watch = QuotaWatch::default();
        let place = FaceIndex::default();
        watch.face_added(place, 300);
        watch.face_added(place, 301);
        watch.face_removed(place, 300);
        assert_eq!(watch.places.get(&place), Some(&301));
        watch.face_removed(place, 301);
        assert!(watch.places.is_empty());
    }

    #[test]
    fn refusals_of_a_face_are_logged_once_a_minute_with_their_total() {
        let mut excess = Excess::default();
        let line = |pending, rate, management| Some(Line { pending, rate, management });
        assert_eq!(excess.line(1, 0, 0), None, "nothing was refused");
        excess.pending = 7;
        assert_eq!(excess.line(2, 0, 0), line(7, 0, 0));
        excess.pending = 9;
        assert_eq!(excess.line(3, 100, 3), None, "it was just told of");
        assert_eq!(excess.line(2 + MINUTE_NS, 100, 4), line(2, 100, 4));
        assert_eq!(excess.line(5 * MINUTE_NS, 100, 4), None, "nothing since");
        assert_eq!(excess.line(5 * MINUTE_NS, 101, 4), line(0, 1, 0));
        assert_eq!(excess.line(7 * MINUTE_NS, 101, 9), line(0, 0, 5));
    }

    #[test]
    fn face_is_rate_limited_while_refused_commands_exceed_the_rate() {
        let (mut commands, rate) = (RefusedCommands::default(), NonZeroU32::new(100).unwrap());
        let second_ns = 1_000_000_000;
        let refused = |commands: &mut RefusedCommands, second: u64, count: u64| {
            let at = |number| second * second_ns + number * second_ns / count;
            (0..count).filter(|number| commands.note(at(*number), rate)).count()
        };
        for second in 0..100 {
            assert_eq!(refused(&mut commands, second, 100), 0, "the rate itself is nothing to it");
        }
        assert_eq!(refused(&mut commands, 200, 1000), 0, "nor is a burst");
        assert!(!commands.is_over(201 * second_ns), "it is not held");
        assert_eq!(refused(&mut commands, 201, 1000), 1, "it is told of once");
        assert_eq!(refused(&mut commands, 202, 1000), 0);
        assert!(!commands.is_over(212 * second_ns), "the last one was refused in second 202");
        assert!(commands.is_over(213 * second_ns));
        assert!(!commands.is_over(213 * second_ns), "it is let go once");
        assert_eq!(refused(&mut commands, 230, 10_000), 1, "and held again");
    }

    #[test]
    fn faces_logged_per_minute_are_limited() {
        let mut watch = QuotaWatch::default();
        for minute in 1..4 {
            let mut told = 0;
            while watch.may_tell(minute * MINUTE_NS) {
                watch.told += 1;
                told += 1;
            }
            assert_eq!(told, FACES_TOLD_MAX);
        }
    }
}
