//! One sampler of counters for all subscriptions.
//!
//! It reads while there are subscriptions, at the shortest interval that one of them asks for. Samples are queued for
//! each subscription in a bounded queue; one that reads too slowly loses the oldest, and is sent their number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use namewire_control::{LinkCounters, Operations};
use serde_json::Value;
use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;

use super::management::Sample;
use crate::calls::{Calls, unix_ms};

/// Shortest interval between samples.
pub(super) const INTERVAL_MIN: Duration = Duration::from_millis(100);
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
    at: Instant,
    /// A [`Sample`].
    json: Value,
}

/// The parameters of a subscription.
#[derive(Debug, Clone)]
struct Requested {
    interval: Duration,
    faces: Faces,
}

/// Requests of all subscriptions together.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Due {
    interval: Duration,
    with_first: bool,
    chosen: BTreeSet<u64>,
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
    pub(super) fn subscribe(&self, interval: Duration, faces: Faces) -> Option<Subscription> {
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
        requested.1.insert(number, Requested { interval, faces: faces.clone() });
        let samples = self.0.samples.subscribe();
        self.0.changed.notify_one();
        let sampler = self.clone();
        Some(Subscription { sampler, number, interval, faces, samples, next: None, lost: 0 })
    }

    /// The shortest interval, and the faces of all; `None` without subscriptions.
    fn requested(&self) -> Option<Due> {
        let requested = self.0.requested.lock().unwrap_or_else(PoisonError::into_inner);
        let interval = requested.1.values().map(|one| one.interval).min()?;
        let with_first = requested.1.values().any(|one| one.faces == Faces::First);
        Some(Due { interval, with_first, chosen: chosen(requested.1.values()) })
    }

    /// Takes samples, forever.
    pub(crate) async fn run(&self, calls: &Calls) {
        let mut last: Option<Instant> = None;
        loop {
            let changed = self.0.changed.notified();
            let Some(requested) = self.requested() else {
                changed.await;
                continue;
            };
            let due = last.map_or_else(Instant::now, |last| last + requested.interval);
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                () = changed => continue,
            }
            last = Some(Instant::now());
            let read = calls.call(move |operations| read(operations, &requested)).await;
            match read {
                Ok(json) => {
                    // Without a receiver, the sample is not needed any more.
                    let _ = self.0.samples.send(Arc::new(Taken { at: Instant::now(), json }));
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
    let sample = Sample { unix_ms, lost: 0, workers, faces };
    serde_json::to_value(sample).map_err(|error| error.to_string())
}

/// A subscription, which ends when it is dropped.
#[derive(Debug)]
pub(super) struct Subscription {
    sampler: Sampler,
    number: u64,
    interval: Duration,
    faces: Faces,
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
                Ok(taken) => {
                    // The sampler is never exactly in time.
                    self.next = Some(taken.at + self.interval.mul_f32(0.9));
                    let mut json = taken.json.clone();
                    json["lost"] = self.lost.into();
                    self.select(&mut json);
                    return Some(json);
                }
                Err(broadcast::error::RecvError::Lagged(count)) => self.lost += count,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

impl Subscription {
    /// Leaves the faces of this subscription in a sample.
    fn select(&self, sample: &mut Value) {
        let Some(faces) = sample.get_mut("faces").and_then(Value::as_object_mut) else { return };
        match &self.faces {
            Faces::None => faces.clear(),
            Faces::Chosen(own) => {
                faces.retain(|face_id, _| {
                    face_id.parse().is_ok_and(|face_id| own.contains(&face_id))
                });
            }
            Faces::First => {
                let mut numbers: Vec<u64> = faces.keys().filter_map(|id| id.parse().ok()).collect();
                numbers.sort_unstable();
                for beyond in numbers.iter().skip(FACES_MAX) {
                    faces.remove(&beyond.to_string());
                }
            }
        }
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
    use super::*;

    fn taken(value: u64) -> Arc<Taken> {
        Arc::new(Taken { at: Instant::now(), json: serde_json::json!({ "unix_ms": value }) })
    }

    #[tokio::test(start_paused = true)]
    async fn slow_subscription_loses_the_oldest_samples_and_receives_their_number() {
        let sampler = Sampler::new();
        let mut slow = sampler.subscribe(INTERVAL_MIN, Faces::None).unwrap();
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
        let mut each = sampler.subscribe(INTERVAL_MIN, Faces::None).unwrap();
        let mut third = sampler.subscribe(INTERVAL_MIN * 3, Faces::First).unwrap();
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
        assert_eq!(sampler.requested().unwrap().interval, INTERVAL_MIN * 3);
        drop(third);
        assert!(sampler.requested().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn subscriptions_get_the_faces_that_they_have_chosen() {
        let sampler = Sampler::new();
        let of = |numbers: &[u64]| Faces::Chosen(numbers.iter().copied().collect());
        let mut one = sampler.subscribe(INTERVAL_MIN, of(&[300, 301])).unwrap();
        let mut other = sampler.subscribe(INTERVAL_MIN, of(&[301, 9000])).unwrap();
        let requested = sampler.requested().unwrap();
        assert_eq!((requested.with_first, requested.chosen), (false, [300, 301, 9000].into()));
        let json = serde_json::json!({ "faces": { "300": 1, "301": 2, "9000": 3 } });
        sampler.0.samples.send(Arc::new(Taken { at: Instant::now(), json })).unwrap();
        let faces = |sample: Value| sample["faces"].clone();
        assert_eq!(faces(one.next().await.unwrap()), serde_json::json!({ "300": 1, "301": 2 }));
        assert_eq!(faces(other.next().await.unwrap()), serde_json::json!({ "301": 2, "9000": 3 }));
        let many = Faces::Chosen((0..CHOSEN_MAX as u64).collect());
        assert!(sampler.subscribe(INTERVAL_MIN, many.clone()).is_none(), "9000 is one more");
        drop(other);
        assert!(sampler.subscribe(INTERVAL_MIN, many).is_some());
    }

    #[test]
    fn number_of_subscriptions_is_limited() {
        let sampler = Sampler::new();
        let all: Vec<_> =
            (0..SUBSCRIPTIONS_MAX).map(|_| sampler.subscribe(INTERVAL_MIN, Faces::None)).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(sampler.subscribe(INTERVAL_MIN, Faces::None).is_none());
        drop(all);
        assert!(sampler.subscribe(INTERVAL_MIN, Faces::None).is_some());
    }
}
