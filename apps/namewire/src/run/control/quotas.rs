//! Faces that send more than their quotas allow: what is told of them.

use std::collections::HashMap;
use std::time::Duration;

use ndn_face::LinkDropReason;
use ndn_table::FaceIndex;
use tracing::warn;

use crate::config::Limits;
use crate::run::faces::KnownFace;

/// Time between two looks at what faces have exceeded.
const PERIOD: Duration = Duration::from_secs(5);
/// A face is told of so often at most, and of all faces so many in that time.
const PAUSE: Duration = Duration::from_secs(60);
const FACES_TOLD_MAX: u32 = 10;

/// Interests of a face that its quotas have refused.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::run) struct Excess {
    /// Because too many of it were pending. Those beyond its rate are counted by its link.
    pub(in crate::run) pending: u64,
    /// Of both, what the log has been told.
    told_pending: u64,
    told_rate: u64,
    next_line_ns: u64,
}

/// What is to be told of a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    pending: u64,
    rate: u64,
}

impl Excess {
    /// What was refused since the log was told last, if there is anything and it is time.
    fn line(&mut self, now_ns: u64, rate: u64) -> Option<Line> {
        let line = Line { pending: self.pending - self.told_pending, rate: rate - self.told_rate };
        if (line.pending == 0 && line.rate == 0) || now_ns < self.next_line_ns {
            return None;
        }
        (self.told_pending, self.told_rate) = (self.pending, rate);
        self.next_line_ns = now_ns.saturating_add(nanos(PAUSE));
        Some(line)
    }
}

/// Looks at what faces have exceeded.
#[derive(Debug, Default)]
pub(super) struct QuotaWatch {
    next_look_ns: u64,
    /// When so many faces may be told of again.
    pause_ends_ns: u64,
    told: u32,
    /// The faces by their places in the worker, which reports them by those.
    places: HashMap<FaceIndex, u64>,
}

impl QuotaWatch {
    /// When to call [`look`](Self::look), if ever.
    pub(super) fn next_deadline_ns(&self, limits: &Limits) -> Option<u64> {
        let has_quotas =
            limits.pending_interests_per_face.is_some() || limits.interests_per_second.is_some();
        has_quotas.then_some(self.next_look_ns)
    }

    /// Interests of a face were refused because too many of it were pending.
    pub(super) fn refused(&self, faces: &mut HashMap<u64, KnownFace>, face: FaceIndex, count: u64) {
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
    pub(super) fn look(&mut self, now_ns: u64, faces: &mut HashMap<u64, KnownFace>) {
        if now_ns < self.next_look_ns {
            return;
        }
        self.next_look_ns = now_ns.saturating_add(nanos(PERIOD));
        for (face_id, face) in faces {
            if !self.may_tell(now_ns) {
                return;
            }
            let rate = face.counters.dropped(LinkDropReason::InterestRate).value();
            if let Some(Line { pending, rate }) = face.excess.line(now_ns, rate) {
                self.told += 1;
                warn!(
                    face_id,
                    remote = %face.remote,
                    pending,
                    rate,
                    "Interests refused: too many pending, or too many per second (see [limits])"
                );
            }
        }
    }

    fn may_tell(&mut self, now_ns: u64) -> bool {
        if now_ns >= self.pause_ends_ns {
            (self.pause_ends_ns, self.told) = (now_ns.saturating_add(nanos(PAUSE)), 0);
        }
        self.told < FACES_TOLD_MAX
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: u64 = 60_000_000_000;

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
        assert_eq!(excess.line(1, 0), None, "nothing was refused");
        excess.pending = 7;
        assert_eq!(excess.line(2, 0), Some(Line { pending: 7, rate: 0 }));
        excess.pending = 9;
        assert_eq!(excess.line(3, 100), None, "it was just told of");
        assert_eq!(excess.line(2 + MINUTE_NS, 100), Some(Line { pending: 2, rate: 100 }));
        assert_eq!(excess.line(5 * MINUTE_NS, 100), None, "nothing since");
        assert_eq!(excess.line(5 * MINUTE_NS, 101), Some(Line { pending: 0, rate: 1 }));
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
