//! One sampler of counters for all subscriptions.
//!
//! It reads while there are subscriptions, at the shortest interval that one of them asks for. Samples are queued for
//! each subscription in a bounded queue; one that reads too slowly loses the oldest, and is sent their number.

use std::collections::BTreeMap;
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
/// Maximum number of faces in a sample: those with the lowest FaceIds.
const FACES_MAX: usize = 1000;

/// A sample and its time.
#[derive(Debug)]
struct Taken {
    at: Instant,
    /// A [`Sample`].
    json: Value,
}

/// The parameters of a subscription.
#[derive(Debug, Clone, Copy)]
struct Requested {
    interval: Duration,
    with_faces: bool,
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

    /// Adds a subscription; `None` if there are too many.
    pub(super) fn subscribe(&self, interval: Duration, with_faces: bool) -> Option<Subscription> {
        let mut requested = self.0.requested.lock().unwrap_or_else(PoisonError::into_inner);
        if requested.1.len() >= SUBSCRIPTIONS_MAX {
            return None;
        }
        requested.0 += 1;
        let number = requested.0;
        requested.1.insert(number, Requested { interval, with_faces });
        let samples = self.0.samples.subscribe();
        self.0.changed.notify_one();
        let sampler = self.clone();
        Some(Subscription { sampler, number, interval, samples, next: None, lost: 0 })
    }

    /// The shortest interval, and whether counters of faces are read; `None` without subscriptions.
    fn requested(&self) -> Option<Requested> {
        let requested = self.0.requested.lock().unwrap_or_else(PoisonError::into_inner);
        let interval = requested.1.values().map(|one| one.interval).min()?;
        Some(Requested { interval, with_faces: requested.1.values().any(|one| one.with_faces) })
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
            let read = calls.call(move |operations| read(operations, requested.with_faces)).await;
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

fn read(operations: &dyn Operations, with_faces: bool) -> Result<Value, String> {
    let workers = operations.statistics()?.workers;
    let unix_ms = unix_ms(operations);
    let mut faces: BTreeMap<u64, LinkCounters> = BTreeMap::new();
    while with_faces && faces.len() < FACES_MAX {
        let more = operations.links(faces.keys().next_back().copied())?;
        if more.is_empty() {
            break;
        }
        faces.extend(more);
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
                    return Some(json);
                }
                Err(broadcast::error::RecvError::Lagged(count)) => self.lost += count,
                Err(broadcast::error::RecvError::Closed) => return None,
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
        let mut slow = sampler.subscribe(INTERVAL_MIN, false).unwrap();
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
        let mut each = sampler.subscribe(INTERVAL_MIN, false).unwrap();
        let mut third = sampler.subscribe(INTERVAL_MIN * 3, true).unwrap();
        let requested = sampler.requested().unwrap();
        assert_eq!((requested.interval, requested.with_faces), (INTERVAL_MIN, true));
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

    #[test]
    fn number_of_subscriptions_is_limited() {
        let sampler = Sampler::new();
        let all: Vec<_> =
            (0..SUBSCRIPTIONS_MAX).map(|_| sampler.subscribe(INTERVAL_MIN, false)).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(sampler.subscribe(INTERVAL_MIN, false).is_none());
        drop(all);
        assert!(sampler.subscribe(INTERVAL_MIN, false).is_some());
    }
}
