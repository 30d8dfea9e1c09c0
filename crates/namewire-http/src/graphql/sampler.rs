//! One sampler of counters for all subscriptions.
//!
//! It reads while there are subscriptions, at the shortest interval that one of them asks for; what some of them ask for
//! only, at their shortest interval. Samples are queued for each subscription in a bounded queue; one that reads too slowly
//! loses the oldest, and is sent their number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use namewire_control::{LedgerStatus, LinkCounters, Operations};
use serde_json::{Map, Value};
use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;

use super::management::Sample;
use crate::calls::{Calls, unix_ms};

/// Shortest interval between samples.
pub(super) const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// The same of samples with a [`Part`]: the control thread and the workers have to answer.
pub(super) const PART_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Longest interval between samples.
pub(super) const INTERVAL_MAX: Duration = Duration::from_secs(3600);
/// Maximum number of subscriptions, of all clients together.
const SUBSCRIPTIONS_MAX: usize = 256;
/// Samples that wait for a slow subscription.
const QUEUE_LEN: usize = 16;
/// Maximum number of faces of a subscription: those with the lowest FaceIds, unless it chooses them.
pub(super) const FACES_MAX: usize = 1000;
/// Maximum number of faces that all subscriptions together have chosen.
const CHOSEN_MAX: usize = 4000;
/// Maximum number of principals in a sample: those that hold the largest parts of a table.
pub(super) const PRINCIPALS_MAX: usize = 100;

/// A part of a sample that is read for the subscriptions that request it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Limits, and the places that principals hold.
    Limits,
    /// The dispatch of names to workers.
    Dispatch,
}

impl Part {
    pub(super) const ALL: [Self; 2] = [Self::Limits, Self::Dispatch];

    /// Its fields of a sample.
    pub(super) const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Limits => &["limits", "principals"],
            Self::Dispatch => &["dispatch"],
        }
    }

    fn of_field(field: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.fields().contains(&field))
    }
}

/// The faces whose counters a subscription asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Faces {
    None,
    /// Those with the lowest FaceIds.
    First,
    /// These, of those that there are.
    Chosen(BTreeSet<u64>),
}

/// A sample and its time.
#[derive(Debug)]
struct Taken {
    /// When the sampler began to read it: by this time the next one is due, for the sampler and for subscriptions.
    at: Instant,
    /// A [`Sample`].
    json: Value,
    /// The parts beside the counters.
    parts: Vec<Part>,
}

/// The parameters of a subscription.
#[derive(Debug, Clone)]
struct Requested {
    interval: Duration,
    faces: Faces,
    parts: Vec<Part>,
    /// It has no sample yet, and gets the first one as soon as others permit.
    is_new: bool,
}

impl Requested {
    /// The interval in which a sample is due.
    fn due_in(&self) -> Duration {
        if self.is_new { INTERVAL_MIN } else { self.interval }
    }

    /// The same of a sample with its parts.
    fn parts_due_in(&self) -> Duration {
        if self.is_new { PART_INTERVAL_MIN } else { self.interval }
    }
}

/// Requests of all subscriptions together.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Due {
    /// The number of the last subscription that this includes.
    last: u64,
    interval: Duration,
    with_first: bool,
    chosen: BTreeSet<u64>,
    /// Read together, so that a subscription to several of them gets a sample with all.
    parts: BTreeSet<Part>,
    /// The shortest interval of a subscription with parts.
    parts_interval: Duration,
}

impl Due {
    /// Leaves out the parts if they are not due; they were read last at this time.
    fn retain_parts(&mut self, now: Instant, read: Option<Instant>) {
        if read.is_some_and(|at| now < at + earliest(self.parts_interval)) {
            self.parts.clear();
        }
    }
}

/// The time after which the next sample of an interval may come: the sampler is never exactly in time.
fn earliest(interval: Duration) -> Duration {
    interval.mul_f32(0.9)
}

/// The sampler.
#[derive(Debug, Clone)]
pub(crate) struct Sampler(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    requested: Mutex<(u64, BTreeMap<u64, Requested>)>,
    changed: Notify,
    samples: broadcast::Sender<Arc<Taken>>,
}

impl Sampler {
    pub(crate) fn new() -> Self {
        let samples = broadcast::Sender::new(QUEUE_LEN);
        Self(Arc::new(Shared { requested: Mutex::default(), changed: Notify::new(), samples }))
    }

    /// Adds a subscription; `None` if there are too many, or too many faces were chosen.
    pub(super) fn subscribe(
        &self,
        interval: Duration,
        faces: Faces,
        parts: Vec<Part>,
    ) -> Option<Subscription> {
        let mut requested = self.0.requested.lock().unwrap_or_else(PoisonError::into_inner);
        if requested.1.len() >= SUBSCRIPTIONS_MAX {
            return None;
        }
        if let Faces::Chosen(own) = &faces
            && chosen(requested.1.values()).union(own).count() > CHOSEN_MAX
        {
            return None;
        }
        requested.0 += 1;
        let number = requested.0;
        let (is_new, own_faces, own_parts) = (true, faces.clone(), parts.clone());
        let own = Requested { interval, faces: own_faces, parts: own_parts, is_new };
        requested.1.insert(number, own);
        let samples = self.0.samples.subscribe();
        self.0.changed.notify_one();
        let sampler = self.clone();
        Some(Subscription { sampler, number, interval, faces, parts, samples, next: None, lost: 0 })
    }

    /// The shortest interval, and the faces of all; `None` without subscriptions.
    fn requested(&self) -> Option<Due> {
        let requested = self.0.requested.lock().unwrap_or_else(PoisonError::into_inner);
        let interval = requested.1.values().map(Requested::due_in).min()?;
        let with_first = requested.1.values().any(|one| one.faces == Faces::First);
        let with_parts = || requested.1.values().filter(|one| !one.parts.is_empty());
        let parts = with_parts().flat_map(|one| &one.parts).copied().collect();
        let parts_interval = with_parts().map(Requested::parts_due_in).min();
        let parts_interval = parts_interval.unwrap_or(INTERVAL_MAX);
        let (last, chosen) = (requested.0, chosen(requested.1.values()));
        Some(Due { last, interval, with_first, chosen, parts, parts_interval })
    }

    /// Notes that a sample with these parts is taken for the subscriptions up to this number.
    fn note_taken(&self, parts: &[Part], last: u64) {
        let mut requested = self.0.requested.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, one) in requested.1.range_mut(..=last) {
            one.is_new &= one.parts.iter().any(|part| !parts.contains(part));
        }
    }

    /// Takes samples, forever.
    pub(crate) async fn run(&self, calls: &Calls) {
        let mut last: Option<Instant> = None;
        let mut parts_read: Option<Instant> = None;
        loop {
            let changed = self.0.changed.notified();
            let Some(mut requested) = self.requested() else {
                changed.await;
                continue;
            };
            let due = last.map_or_else(Instant::now, |last| last + requested.interval);
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                () = changed => continue,
            }
            let now = Instant::now();
            last = Some(now);
            requested.retain_parts(now, parts_read);
            let parts: Vec<Part> = requested.parts.iter().copied().collect();
            if !parts.is_empty() {
                // Also if they cannot be read: subscriptions without parts get their samples meanwhile.
                parts_read = Some(now);
            }
            let newest = requested.last;
            let read = calls.call(move |operations| read(operations, &requested)).await;
            match read {
                Ok(json) => {
                    self.note_taken(&parts, newest);
                    // Without a receiver, the sample is not needed any more.
                    let _ = self.0.samples.send(Arc::new(Taken { at: now, json, parts }));
                }
                Err(error) => tracing::debug!(%error, "counters were not sampled"),
            }
        }
    }
}

/// The faces that subscriptions have chosen.
fn chosen<'a>(requested: impl Iterator<Item = &'a Requested>) -> BTreeSet<u64> {
    let chosen = requested.filter_map(|one| match &one.faces {
        Faces::Chosen(own) => Some(own),
        Faces::None | Faces::First => None,
    });
    chosen.flatten().copied().collect()
}

fn read(operations: &dyn Operations, due: &Due) -> Result<Value, String> {
    let workers = operations.statistics()?.workers;
    let unix_ms = unix_ms(operations);
    let mut faces: BTreeMap<u64, LinkCounters> = BTreeMap::new();
    while due.with_first && faces.len() < FACES_MAX {
        let more = operations.links(faces.keys().next_back().copied())?;
        if more.is_empty() {
            break;
        }
        faces.extend(more);
    }
    let mut next = 0;
    while let Some(&face_id) = due.chosen.range(next..).find(|id| !faces.contains_key(id)) {
        // Each answer has some faces from this one on.
        let found = operations.links(face_id.checked_sub(1))?;
        let Some(&covered) = found.keys().next_back() else { break };
        faces.extend(found.into_iter().filter(|(face_id, _)| due.chosen.contains(face_id)));
        next = covered.max(face_id).saturating_add(1);
    }
    let has = |part| due.parts.contains(&part);
    let limits = has(Part::Limits).then(|| operations.limits()).transpose()?;
    let (limits, principals) = limits.map(largest).unzip();
    // One worker has all names.
    let is_dispatched = has(Part::Dispatch) && workers.len() > 1;
    let dispatch = is_dispatched.then(|| operations.dispatch()).transpose()?;
    let sample = Sample { unix_ms, lost: 0, workers, faces, limits, principals, dispatch };
    serde_json::to_value(sample).map_err(|error| error.to_string())
}

/// Limits with the principals that hold the largest parts of a table, and the number of all.
fn largest(mut limits: LedgerStatus) -> (LedgerStatus, u64) {
    let LedgerStatus { tables, principals } = &mut limits;
    let count = principals.len() as u64;
    // In parts of a million, which are whole numbers.
    let part = |(table, held): (&String, &u64)| {
        let capacity = tables.get(table).map_or(0, |table| table.capacity).max(1);
        u128::from(*held) * 1_000_000 / u128::from(capacity)
    };
    principals.sort_by_cached_key(|one| {
        let largest = one.held.iter().map(part).max().unwrap_or(0);
        (std::cmp::Reverse(largest), one.principal.clone())
    });
    principals.truncate(PRINCIPALS_MAX);
    (limits, count)
}

/// A subscription, which ends when it is dropped.
#[derive(Debug)]
pub(super) struct Subscription {
    sampler: Sampler,
    number: u64,
    interval: Duration,
    faces: Faces,
    parts: Vec<Part>,
    samples: broadcast::Receiver<Arc<Taken>>,
    /// Samples before this time are for subscriptions with shorter intervals.
    next: Option<Instant>,
    lost: u64,
}

impl Subscription {
    /// Waits for the next sample; `None` when the server ends.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            match self.samples.recv().await {
                Ok(taken) if self.next.is_some_and(|next| taken.at < next) => {}
                Ok(taken) if self.parts.iter().any(|part| !taken.parts.contains(part)) => {}
                Ok(taken) => {
                    self.next = Some(taken.at + earliest(self.interval));
                    return Some(self.selected(&taken.json));
                }
                Err(broadcast::error::RecvError::Lagged(count)) => self.lost += count,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

impl Subscription {
    /// A sample with what this subscription has asked for.
    fn selected(&self, sample: &Value) -> Value {
        let fields = sample.as_object().into_iter().flatten();
        let of = |(field, value): (&String, &Value)| {
            let own = match field.as_str() {
                "lost" => self.lost.into(),
                "faces" => self.faces_of(value),
                name if Part::of_field(name).is_some_and(|part| !self.parts.contains(&part)) => {
                    Value::Null
                }
                _ => value.clone(),
            };
            (field.clone(), own)
        };
        Value::Object(fields.map(of).collect())
    }

    /// The faces of this subscription.
    fn faces_of(&self, all: &Value) -> Value {
        let faces = all.as_object().into_iter().flatten();
        let numbered = faces.filter_map(|(id, face)| Some((id.parse::<u64>().ok()?, face)));
        let mut own: Vec<_> = match &self.faces {
            Faces::None => Vec::new(),
            Faces::Chosen(own) => numbered.filter(|(id, _)| own.contains(id)).collect(),
            Faces::First => numbered.collect(),
        };
        own.sort_unstable_by_key(|(id, _)| *id);
        let shown = own.into_iter().take(FACES_MAX);
        Value::Object(shown.map(|(id, face)| (id.to_string(), face.clone())).collect::<Map<_, _>>())
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut requested = self.sampler.0.requested.lock().unwrap_or_else(PoisonError::into_inner);
        requested.1.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use namewire_control::{PrincipalStatus, TableStatus};

    use super::*;

    fn taken(value: u64) -> Arc<Taken> {
        let json = serde_json::json!({ "unix_ms": value, "lost": 0 });
        Arc::new(Taken { at: Instant::now(), json, parts: Vec::new() })
    }

    #[tokio::test(start_paused = true)]
    async fn slow_subscription_loses_the_oldest_samples_and_receives_their_number() {
        let sampler = Sampler::new();
        let mut slow = sampler.subscribe(INTERVAL_MIN, Faces::None, Vec::new()).unwrap();
        for value in 0..20 {
            sampler.0.samples.send(taken(value)).unwrap();
            tokio::time::advance(INTERVAL_MIN).await;
        }
        let first = slow.next().await.unwrap();
        assert_eq!((&first["unix_ms"], &first["lost"]), (&4.into(), &4.into()));
        assert_eq!(slow.next().await.unwrap()["unix_ms"], 5);
    }

    #[tokio::test(start_paused = true)]
    async fn subscriptions_with_longer_intervals_skip_samples() {
        let sampler = Sampler::new();
        let mut each = sampler.subscribe(INTERVAL_MIN, Faces::None, Vec::new()).unwrap();
        let mut third = sampler.subscribe(INTERVAL_MIN * 3, Faces::First, Vec::new()).unwrap();
        let requested = sampler.requested().unwrap();
        assert_eq!((requested.interval, requested.with_first), (INTERVAL_MIN, true));
        for value in 0..7 {
            sampler.0.samples.send(taken(value)).unwrap();
            tokio::time::advance(INTERVAL_MIN).await;
        }
        for value in [0, 1, 2] {
            assert_eq!(each.next().await.unwrap()["unix_ms"], value);
        }
        for value in [0, 3, 6] {
            let sample = third.next().await.unwrap();
            assert_eq!((&sample["unix_ms"], &sample["lost"]), (&value.into(), &0.into()));
        }
        drop(each);
        // A new one gets its first sample early.
        assert_eq!(sampler.requested().unwrap().interval, INTERVAL_MIN);
        sampler.note_taken(&[], u64::MAX);
        assert_eq!(sampler.requested().unwrap().interval, INTERVAL_MIN * 3);
        drop(third);
        assert!(sampler.requested().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn subscriptions_get_the_faces_that_they_have_chosen() {
        let sampler = Sampler::new();
        let of = |numbers: &[u64]| Faces::Chosen(numbers.iter().copied().collect());
        let mut one = sampler.subscribe(INTERVAL_MIN, of(&[300, 301]), Vec::new()).unwrap();
        let mut other = sampler.subscribe(INTERVAL_MIN, of(&[301, 9000]), Vec::new()).unwrap();
        let requested = sampler.requested().unwrap();
        assert_eq!((requested.with_first, requested.chosen), (false, [300, 301, 9000].into()));
        let json = serde_json::json!({ "faces": { "300": 1, "301": 2, "9000": 3 } });
        sampler
            .0
            .samples
            .send(Arc::new(Taken { at: Instant::now(), json, parts: Vec::new() }))
            .unwrap();
        let faces = |sample: Value| sample["faces"].clone();
        assert_eq!(faces(one.next().await.unwrap()), serde_json::json!({ "300": 1, "301": 2 }));
        assert_eq!(faces(other.next().await.unwrap()), serde_json::json!({ "301": 2, "9000": 3 }));
        let many = Faces::Chosen((0..CHOSEN_MAX as u64).collect());
        assert!(
            sampler.subscribe(INTERVAL_MIN, many.clone(), Vec::new()).is_none(),
            "9000 is one more"
        );
        drop(other);
        assert!(sampler.subscribe(INTERVAL_MIN, many, Vec::new()).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn parts_are_read_at_their_shortest_interval() {
        let sampler = Sampler::new();
        let mut each = sampler.subscribe(INTERVAL_MIN, Faces::None, Vec::new()).unwrap();
        let second = PART_INTERVAL_MIN;
        let limits = vec![Part::Limits];
        let mut own = sampler.subscribe(second * 2, Faces::None, limits.clone()).unwrap();
        let _slower = sampler.subscribe(second * 9, Faces::None, limits).unwrap();
        let late = sampler.subscribe(second * 9, Faces::None, vec![Part::Dispatch]).unwrap();
        sampler.note_taken(&[Part::Limits], u64::MAX);
        let due = sampler.requested().unwrap();
        assert_eq!(
            (due.parts, due.parts_interval),
            (Part::ALL.into(), second),
            "one has no sample yet"
        );
        drop(late);
        let mut due = sampler.requested().unwrap();
        assert_eq!(
            (due.interval, due.parts.clone(), due.parts_interval),
            (INTERVAL_MIN, [Part::Limits].into(), second * 2)
        );
        let start = Instant::now();
        due.retain_parts(start + second * 2 - INTERVAL_MIN * 3, Some(start));
        assert!(due.parts.is_empty());
        let mut due = sampler.requested().unwrap();
        due.retain_parts(start + second * 2 - INTERVAL_MIN, Some(start));
        assert!(due.parts.contains(&Part::Limits));
        // Samples without the part are left out by a subscription that requests it, and the part by others.
        for (value, parts) in [(1, Vec::new()), (2, vec![Part::Limits])] {
            let json = serde_json::json!({ "unix_ms": value, "limits": value, "lost": 0 });
            sampler.0.samples.send(Arc::new(Taken { at: Instant::now(), json, parts })).unwrap();
            tokio::time::advance(INTERVAL_MIN).await;
        }
        assert_eq!(own.next().await.unwrap()["limits"], 2);
        for value in [1, 2] {
            let sample = each.next().await.unwrap();
            assert_eq!((&sample["unix_ms"], &sample["limits"]), (&value.into(), &Value::Null));
        }
    }

    #[test]
    fn parts_of_a_subscription_come_together() {
        let sampler = Sampler::new();
        let subscribe = |parts: &[Part]| {
            sampler.subscribe(PART_INTERVAL_MIN, Faces::None, parts.to_vec()).unwrap()
        };
        let _limits = subscribe(&[Part::Limits]);
        sampler.note_taken(&[Part::Limits], u64::MAX);
        let read = Instant::now();
        // Half an interval later, one that requests another part, too.
        let _both = subscribe(&Part::ALL);
        for (passed, is_due) in [(0.5, false), (0.8, false), (0.9, true)] {
            let mut due = sampler.requested().unwrap();
            assert_eq!(due.interval, INTERVAL_MIN, "it waits for its first sample");
            due.retain_parts(read + PART_INTERVAL_MIN.mul_f64(passed), Some(read));
            let parts: Vec<Part> = due.parts.iter().copied().collect();
            let expected = if is_due { Part::ALL.to_vec() } else { Vec::new() };
            assert_eq!(parts, expected, "after {passed} s");
            sampler.note_taken(&parts, due.last);
        }
        assert_eq!(sampler.requested().unwrap().interval, PART_INTERVAL_MIN);
    }

    #[test]
    fn samples_are_noted_for_subscriptions_that_they_include() {
        let sampler = Sampler::new();
        let _first = sampler.subscribe(INTERVAL_MAX, Faces::None, Vec::new()).unwrap();
        let read = sampler.requested().unwrap();
        // It subscribes while the sample is read.
        let late = sampler.subscribe(INTERVAL_MAX, Faces::First, Vec::new()).unwrap();
        sampler.note_taken(&[], read.last);
        assert_eq!(sampler.requested().unwrap().interval, INTERVAL_MIN);
        drop(late);
        assert_eq!(sampler.requested().unwrap().interval, INTERVAL_MAX);
    }

    #[test]
    fn principals_that_hold_the_largest_parts_come_first() {
        let table = |capacity| TableStatus { capacity, ..TableStatus::default() };
        let tables = [("small", table(10)), ("large", table(100_000))];
        let tables = tables.map(|(name, table)| (name.to_owned(), table)).into();
        let principal = |number: u64| {
            let (name, held) = if number == 7 { ("small", 9) } else { ("large", number) };
            PrincipalStatus {
                principal: number.to_string(),
                held: [(name.to_owned(), held)].into(),
                ..PrincipalStatus::default()
            }
        };
        let principals = (0..300).map(principal).collect();
        let (shown, count) = largest(LedgerStatus { tables, principals });
        let names: Vec<_> = shown.principals.iter().map(|one| one.principal.as_str()).collect();
        assert_eq!(
            (count, names.len(), &names[..3]),
            (300, PRINCIPALS_MAX, &["7", "299", "298"][..])
        );
    }

    #[test]
    fn number_of_subscriptions_is_limited() {
        let sampler = Sampler::new();
        let all: Vec<_> = (0..SUBSCRIPTIONS_MAX)
            .map(|_| sampler.subscribe(INTERVAL_MIN, Faces::None, Vec::new()))
            .collect();
        assert!(all.iter().all(Option::is_some));
        assert!(sampler.subscribe(INTERVAL_MIN, Faces::None, Vec::new()).is_none());
        drop(all);
        assert!(sampler.subscribe(INTERVAL_MIN, Faces::None, Vec::new()).is_some());
    }
}
