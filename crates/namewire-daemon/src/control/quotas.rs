//! Faces that send more than their quotas allow: what is told of them.

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

/// Time between two looks at what faces have exceeded.
const PERIOD: Duration = Duration::from_secs(5);
/// A face is told of so often at most, and of all faces so many in that time.
const PAUSE: Duration = Duration::from_secs(60);
const FACES_TOLD_MAX: u32 = 10;

/// Refused commands that a face may be ahead of their rate: so many seconds of it.
const REFUSED_AHEAD: Duration = Duration::from_secs(10);
/// How long a face keeps to that rate before it is let go.
const HELD: Duration = Duration::from_secs(10);

/// Commands of a face that management has refused, against the rate of that: a bucket, written down as
/// the time at which it will be full again.
#[derive(Debug, Default, Clone, Copy)]
struct RefusedCommands {
    full_at_ns: u64,
    /// Beyond the rate, the face is held to it until then.
    held_until_ns: Option<u64>,
}

impl RefusedCommands {
    /// One more; true if the face is to be held from now on.
    fn note(&mut self, now_ns: u64, per_second: NonZeroU32) -> bool {
        let full_at_ns = self.full_at_ns.max(now_ns);
        if full_at_ns <= now_ns.saturating_add(duration_ns(REFUSED_AHEAD)) {
            self.full_at_ns =
                full_at_ns + duration_ns(Duration::from_secs(1)) / u64::from(per_second.get());
            return false;
        }
        self.held_until_ns.replace(now_ns.saturating_add(duration_ns(HELD))).is_none()
    }

    /// Whether the face is to be let go.
    fn is_over(&mut self, now_ns: u64) -> bool {
        self.held_until_ns.take_if(|until_ns| *until_ns <= now_ns).is_some()
    }
}

/// Interests of a face that its quotas have refused.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Excess {
    /// Because too many of it were pending. Those beyond its rate are counted by its link.
    pub(crate) pending: u64,
    commands: RefusedCommands,
    /// Of each, what the log has been told.
    told: Line,
    next_line_ns: u64,
}

/// What is to be told of a face.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Line {
    pending: u64,
    rate: u64,
    management: u64,
}

impl Excess {
    /// What was refused since the log was told last, if there is anything and it is time.
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

/// Looks at what faces have exceeded.
#[derive(Debug, Default)]
pub(super) struct QuotaWatch {
    next_poll_ns: u64,
    /// When so many faces may be told of again.
    pause_ends_ns: u64,
    told: u32,
    /// The faces by their places in the worker, which reports them by those.
    places: HashMap<FaceIndex, u64>,
    /// Faces that are held to the rate of refused commands, and some that are gone.
    held: Vec<u64>,
}

impl QuotaWatch {
    /// When to call [`look`](Self::look), if ever.
    pub(super) fn next_deadline_ns(&self, limits: &Limits) -> Option<u64> {
        let has_quotas = limits.pending_interests_per_face.is_some()
            || limits.interests_per_second.is_some()
            || limits.refused_commands_per_second.is_some();
        has_quotas.then_some(self.next_poll_ns)
    }

    /// Interests of a face were refused because too many of it were pending.
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

    /// Another face may have its place already.
    pub(super) fn face_removed(&mut self, face: FaceIndex, face_id: u64) {
        if self.places.get(&face) == Some(&face_id) {
            self.places.remove(&face);
        }
    }

    /// Logs what faces have exceeded, if it is time to look.
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
    /// Logs what became of an Interest to management, and holds a face back whose commands are refused too
    /// often.
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

    /// Lets faces go that have kept to their rate.
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

/// Whether an Interest to management was refused or is never answered. An event that is still to come is
/// what its readers wait for.
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
    fn what_is_left_unanswered_counts_and_what_is_answered_does_not() {
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
    fn a_place_is_that_of_its_last_face() {
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
    fn a_face_is_told_of_once_a_minute_with_all_that_was_refused() {
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
    fn a_face_is_held_while_its_commands_are_refused_beyond_the_rate() {
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
    fn so_many_faces_are_told_of_in_a_minute() {
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
