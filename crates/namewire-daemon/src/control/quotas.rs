//! Faces that exceed their quotas: rate limit and log.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use ndn_face::LinkDropReason;
use ndn_management::RequestOutcome;
use ndn_types::{PrincipalKey, Timestamp};
use tracing::{info, warn};

use super::commands::FaceCommands;
use super::refusals::{LineLimit, Refusals};
use super::service::{CONTROL_SOCKET, Cx, Deadline, Event, Reason, Service, ServiceName};
use crate::addresses;

/// Poll interval for exceeded quotas.
const PERIOD: Duration = Duration::from_secs(5);
/// The same while faces wait to be reported as down or up: the period of the limit of these reports.
const REPORT_PERIOD: Duration = Duration::from_secs(1);
/// Minimum interval between log lines of one face, and the period of the limit of all faces.
const PAUSE: Duration = Duration::from_secs(60);
/// Maximum log lines of all faces in that period; principals share them.
const FACES_LOGGED_MAX: u32 = 10;

/// Burst of refused commands, in seconds of their rate.
const REFUSED_AHEAD: Duration = Duration::from_secs(10);
/// Time without a violation after which the rate limit ends.
const HELD: Duration = Duration::from_secs(10);

/// Token bucket for refused commands of a face, stored as the time at which it will be full again.
#[derive(Debug, Default, Clone, Copy)]
struct RefusedCommands {
    full_at: Timestamp,
    /// End of the rate limit after a violation.
    held_until: Option<Timestamp>,
}

impl RefusedCommands {
    /// Counts a refused command; returns true if the rate limit starts now.
    fn note(&mut self, now: Timestamp, per_second: NonZeroU32) -> bool {
        let full_at = self.full_at.max(now);
        if full_at <= now + REFUSED_AHEAD {
            self.full_at = full_at + Duration::from_secs(1) / per_second.get();
            return false;
        }
        self.held_until.replace(now + HELD).is_none()
    }

    /// Ends the rate limit if its time is over; returns true if it ended.
    fn is_over(&mut self, now: Timestamp) -> bool {
        self.held_until.take_if(|until| *until <= now).is_some()
    }
}

/// Commands and packets of a face refused because of its quotas.
#[derive(Debug, Default, Clone, Copy)]
struct Excess {
    commands: RefusedCommands,
    /// Counts already logged.
    reported: Line,
    next_line: Timestamp,
}

/// Counts to log for a face.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Line {
    rate: u64,
    management: u64,
}

impl Excess {
    /// Whether there is something to log since the last line, and the interval has passed.
    fn is_due(&self, now: Timestamp, all: Line) -> bool {
        all != self.reported && now >= self.next_line
    }

    /// The counts since the last log line.
    fn line(&mut self, now: Timestamp, all: Line) -> Line {
        let reported = self.reported;
        let line = Line {
            rate: all.rate - reported.rate,
            management: all.management - reported.management,
        };
        self.reported = all;
        self.pause(now);
        line
    }

    /// Delays the next log line.
    fn pause(&mut self, now: Timestamp) {
        self.next_line = now + PAUSE;
    }
}

/// Polls the faces for exceeded quotas.
#[derive(Debug)]
pub(super) struct Quotas {
    /// By FaceId, since its first refused command or log line.
    excess: BTreeMap<u64, Excess>,
    /// The limit of log lines of all faces.
    lines: LineLimit,
    /// FaceIds under the rate limit; some may be gone.
    held: Vec<u64>,
    /// Log of refused commands.
    refusals: Refusals,
    /// Time of the next poll.
    next_poll: Option<Timestamp>,
}

impl Service for Quotas {
    type Dataplane = dyn FaceCommands;
    const NAME: ServiceName = ServiceName::Quotas;

    #[expect(clippy::wildcard_enum_match_arm, reason = "`Event::receivers` is exhaustive")]
    fn handle_event(&mut self, cx: &mut Cx<'_>, event: Event) -> Option<Event> {
        match event {
            Event::Handled { face_id, handled } => {
                self.note_handled(cx, face_id, handled);
                return None;
            }
            Event::FaceUnreported => {
                let at = cx.after(REPORT_PERIOD);
                self.next_poll = Some(self.next_poll.map_or(at, |next| next.min(at)));
                return None;
            }
            Event::FaceClosed { face_id, .. } => drop(self.excess.remove(&face_id)),
            Event::Reloaded => self.schedule(cx, cx.now().monotonic),
            other => return other.unhandled(),
        }
        Some(event)
    }

    fn next_deadline(&self) -> Option<Deadline> {
        self.next_poll.map(|at| (at, Reason::Quotas))
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>, _: Reason) {
        cx.report_changes();
        self.end_rate_limits(cx);
        self.log(cx);
        let period = if cx.faces().has_unreported() { REPORT_PERIOD } else { PERIOD };
        self.schedule(cx, cx.after(period));
    }
}

impl Quotas {
    /// Starts the polls if there are quotas.
    pub(super) fn new(cx: &Cx<'_>) -> Self {
        let lines = LineLimit::new(FACES_LOGGED_MAX, PAUSE);
        let (excess, held, refusals) = (BTreeMap::new(), Vec::new(), Refusals::default());
        let mut quotas = Self { excess, lines, held, refusals, next_poll: None };
        quotas.schedule(cx, Timestamp::ZERO);
        quotas
    }

    /// Polls at this time if anything has to be polled.
    fn schedule(&mut self, cx: &Cx<'_>, at: Timestamp) {
        let limits = &cx.config().limits;
        let has_quotas = limits.interests_per_second.is_some()
            || limits.refused_commands_per_second.is_some()
            || cx.faces().has_unreported()
            || !self.held.is_empty();
        self.next_poll = has_quotas.then_some(at);
    }

    /// Logs the outcome of a management Interest, and limits the rate of a face whose commands are refused too often.
    fn note_handled(&mut self, cx: &mut Cx<'_>, face_id: u64, handled: RequestOutcome) {
        let principal = principal_of(cx, face_id);
        if is_refused(&handled)
            && let Some(per_second) = cx.config().limits.refused_commands_per_second
            && let Some(face) = cx.faces().get(face_id)
            && self.excess.entry(face_id).or_default().commands.note(cx.now().monotonic, per_second)
        {
            if let Some(unlogged) = self.refusals.admit(cx.now().monotonic, principal) {
                warn!(
                    face_id,
                    remote = %addresses::named(&face.remote),
                    limit = per_second,
                    unlogged,
                    "too many commands rejected: the rate of commands of the face is limited from now on"
                );
            }
            self.held.push(face_id);
            limit_management(cx, face_id, Some(per_second));
        }
        self.refusals.report(cx.now(), face_id, principal, handled);
    }

    /// Ends the rate limit of faces without recent violations.
    fn end_rate_limits(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now().monotonic;
        let Self { held, excess, refusals, .. } = self;
        held.retain(|face_id| {
            // A face that is gone has no excess any more.
            let Some(excess) = excess.get_mut(face_id) else { return false };
            let is_over = excess.commands.is_over(now);
            if is_over {
                if let Some(unlogged) = refusals.admit(now, principal_of(cx, *face_id)) {
                    info!(
                        face_id,
                        unlogged, "face no longer limited: its commands are below the quota"
                    );
                }
                limit_management(cx, *face_id, None);
            }
            !is_over
        });
    }

    /// Logs the faces that have exceeded their quotas.
    fn log(&mut self, cx: &Cx<'_>) {
        let now = cx.now().monotonic;
        for (face_id, face) in cx.faces().all() {
            let all = Line {
                rate: face.counters.dropped(LinkDropReason::InterestRate).value(),
                management: face.counters.dropped(LinkDropReason::ManagementRate).value(),
            };
            if all == Line::default() {
                continue;
            }
            let excess = self.excess.entry(*face_id).or_default();
            if !excess.is_due(now, all) {
                continue;
            }
            let Some(unlogged) = self.lines.admit(now, face.options.properties.principal) else {
                excess.pause(now);
                continue;
            };
            let Line { rate, management } = excess.line(now, all);
            warn!(
                face_id,
                remote = %addresses::named(&face.remote),
                rate,
                management,
                unlogged,
                "Interests refused: too many per second, of all or to management (see [limits])"
            );
        }
    }
}

fn principal_of(cx: &Cx<'_>, face_id: u64) -> PrincipalKey {
    if face_id == CONTROL_SOCKET {
        return PrincipalKey::Management;
    }
    let face = cx.faces().get(face_id);
    face.map_or(PrincipalKey::OTHER, |face| face.options.properties.principal)
}

/// Limits the management Interests of a face.
fn limit_management(cx: &mut Cx<'_>, face_id: u64, per_second: Option<NonZeroU32>) {
    cx.change_face(face_id, |options| options.link.management_per_second = per_second);
}

/// Returns whether a management Interest was refused, or will never be answered. Interests for future notifications are
/// legitimate and do not count, nor do those for which there was no room.
const fn is_refused(handled: &RequestOutcome) -> bool {
    match handled {
        RequestOutcome::Refused { .. }
        | RequestOutcome::Ignored(_)
        | RequestOutcome::Malformed
        | RequestOutcome::UnknownFace
        | RequestOutcome::Data { answered: false } => true,
        RequestOutcome::Command { .. }
        | RequestOutcome::Dropped
        | RequestOutcome::Announcement(_)
        | RequestOutcome::Data { answered: true }
        | RequestOutcome::Event { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn unanswered_interests_count_as_refused_and_answered_ones_do_not() {
        let (verb, signer) = (ndn_management::Verb::RibRegister, String::new());
        let refused = RequestOutcome::Refused { verb, signer, code: 403, reason: String::new() };
        let unknown = RequestOutcome::Ignored(ndn_management::IgnoreReason::UnknownName);
        let nothing = RequestOutcome::Data { answered: false };
        for handled in [refused, unknown, nothing, RequestOutcome::Malformed] {
            assert!(is_refused(&handled), "{handled:?}");
        }
        let carried_out = RequestOutcome::Command { verb, signer: String::new(), code: Some(200) };
        let segment = RequestOutcome::Data { answered: true };
        let [event, awaited] = [true, false].map(|answered| RequestOutcome::Event { answered });
        for handled in [carried_out, segment, event, awaited, RequestOutcome::Dropped] {
            assert!(!is_refused(&handled), "{handled:?}");
        }
    }

    #[test]
    fn line_that_the_limit_suppresses_is_tried_again_after_the_pause() {
        let mut excess = Excess::default();
        let all = Line { rate: 7, management: 0 };
        assert!(excess.is_due(at(1), all));
        excess.pause(at(1));
        assert!(!excess.is_due(at(60), all) && excess.is_due(at(61), all));
        assert_eq!(excess.line(at(61), all), all, "nothing is lost");
    }

    #[test]
    fn refusals_of_a_face_are_logged_once_a_minute_with_their_total() {
        let mut excess = Excess::default();
        let all = |rate, management| Line { rate, management };
        let mut line = |seconds, all| {
            let now = at(seconds);
            excess.is_due(now, all).then(|| excess.line(now, all))
        };
        assert_eq!(line(1, all(0, 0)), None, "nothing was refused");
        assert_eq!(line(2, all(7, 0)), Some(all(7, 0)));
        assert_eq!(line(3, all(109, 3)), None, "it was just logged");
        assert_eq!(line(62, all(109, 4)), Some(all(102, 4)));
        assert_eq!(line(300, all(109, 4)), None, "nothing since");
        assert_eq!(line(300, all(110, 4)), Some(all(1, 0)));
        assert_eq!(line(420, all(110, 9)), Some(all(0, 5)));
    }

    #[test]
    fn face_is_rate_limited_while_refused_commands_exceed_the_rate() {
        let (mut commands, rate) = (RefusedCommands::default(), NonZeroU32::new(100).unwrap());
        let refused = |commands: &mut RefusedCommands, second: u64, count: u64| {
            let later = |number: u64| Duration::from_nanos(number * 1_000_000_000 / count);
            (0..count).filter(|number| commands.note(at(second) + later(*number), rate)).count()
        };
        for second in 0..100 {
            assert_eq!(refused(&mut commands, second, 100), 0, "the rate itself is nothing to it");
        }
        assert_eq!(refused(&mut commands, 200, 1000), 0, "nor is a burst");
        assert!(!commands.is_over(at(201)), "it is not held");
        assert_eq!(refused(&mut commands, 201, 1000), 1, "it is reported once");
        assert_eq!(refused(&mut commands, 202, 1000), 0);
        assert!(!commands.is_over(at(212)), "the last one was refused in second 202");
        assert!(commands.is_over(at(213)));
        assert!(!commands.is_over(at(213)), "it is let go once");
        assert_eq!(refused(&mut commands, 230, 10_000), 1, "and held again");
    }

    #[test]
    fn faces_logged_per_minute_are_limited() {
        let mut lines = LineLimit::new(FACES_LOGGED_MAX, PAUSE);
        for minute in 1..4 {
            let faces = 1..100_u64;
            let principals = faces.map(|face_id| PrincipalKey::Neighbour { face_id });
            let logged =
                principals.filter(|principal| lines.admit(at(minute * 60), *principal).is_some());
            assert_eq!(logged.count(), 9, "the tenth is for applications");
        }
    }
}
