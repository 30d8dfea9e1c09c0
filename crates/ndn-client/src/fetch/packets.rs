//! The packets of an object in order of arrival, for callers that verify and store them in any
//! order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ndn_packet::Name;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use super::cache_bypass::CacheBypass;
use super::discovery::FoundObject;
use super::requester::{EVENT_BATCH, Requester};
use super::{FetchError, FetchOptions, FetchProgress};
use crate::handle::Handle;
use crate::pending::ReceivedData;

/// A received segment: its number and its packet.
pub type ReceivedSegment = (u64, ReceivedData);

/// Number of segments delivered and not released.
#[derive(Debug, Default)]
struct Held {
    count: AtomicUsize,
    freed: Notify,
}

/// Releases segments of a [`PacketStream`], from any thread.
#[derive(Debug, Clone)]
pub struct Release(Arc<Held>);

impl Release {
    /// Releases `count` segments, which makes room for later ones.
    pub fn release(&self, count: usize) {
        self.0.count.fetch_sub(count, Ordering::Relaxed);
        self.0.freed.notify_one();
    }
}

/// The segments of an object in order of arrival, each once, **not verified**.
///
/// Each must be released after use: the number of segments outstanding or in flight is at most
/// [`FetchConfig::buffer_segments`](super::FetchConfig::buffer_segments).
#[derive(Debug)]
pub struct PacketStream {
    name: Name,
    segments: mpsc::UnboundedReceiver<Vec<ReceivedSegment>>,
    task: Option<JoinHandle<Result<(), FetchError>>>,
    progress: watch::Receiver<FetchProgress>,
    held: Arc<Held>,
    cache_bypass: CacheBypass,
    last_segment_needed: Option<u64>,
}

impl PacketStream {
    pub(crate) fn start(
        handle: &Handle,
        found: FoundObject,
        first_segment: u64,
        options: &FetchOptions,
    ) -> Self {
        // Bounded by the number of segments that may be held.
        let (sender, segments) = mpsc::unbounded_channel();
        let known =
            FetchProgress { final_segment: found.final_segment, ..FetchProgress::default() };
        let (progress_sender, progress) = watch::channel(known);
        let held = Arc::new(Held::default());
        let name = found.prefix.clone();
        let driver = Driver {
            requester: Requester::new(handle, &found, first_segment, options),
            first_segment,
            bytes: 0,
            held: Arc::clone(&held),
            sender,
            progress: progress_sender,
        };
        let cache_bypass = CacheBypass::new(handle, &found, options);
        let task = Some(tokio::spawn(driver.run(found.data)));
        Self {
            name,
            segments,
            task,
            progress,
            held,
            cache_bypass,
            last_segment_needed: options.config.last_segment_needed,
        }
    }

    /// The last segment to arrive, if known.
    #[must_use]
    pub fn last_segment(&self) -> Option<u64> {
        self.progress.borrow().final_segment.into_iter().chain(self.last_segment_needed).min()
    }

    /// Name of the object with its version.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The segments received since the last call, at least one; `None` at the end.
    ///
    /// # Errors
    /// The failure of the fetch, once all earlier segments were taken. Dropping the future loses
    /// nothing.
    pub async fn next(&mut self) -> Result<Option<Vec<ReceivedSegment>>, FetchError> {
        if let Some(segments) = self.segments.recv().await {
            return Ok(Some(segments));
        }
        let Some(task) = &mut self.task else {
            return Ok(None);
        };
        let ended = task.await.unwrap_or(Err(FetchError::Closed));
        self.task = None;
        ended.map(|()| None)
    }

    /// A handle to release segments.
    #[must_use]
    pub fn release(&self) -> Release {
        Release(Arc::clone(&self.held))
    }

    /// A handle to request segments that failed verification again.
    #[must_use]
    pub fn cache_bypass(&self) -> CacheBypass {
        self.cache_bypass.clone()
    }

    /// Counters and estimates, updated during the fetch.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<FetchProgress> {
        self.progress.clone()
    }
}

impl Drop for PacketStream {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

struct Driver {
    requester: Requester,
    first_segment: u64,
    bytes: u64,
    held: Arc<Held>,
    sender: mpsc::UnboundedSender<Vec<ReceivedSegment>>,
    progress: watch::Sender<FetchProgress>,
}

impl Driver {
    async fn run(mut self, first: Option<ReceivedData>) -> Result<(), FetchError> {
        let mut passed = Vec::new();
        if self.first_segment == 0
            && let Some(data) = first
        {
            // Only the first segment can arrive before it is requested.
            let now = self.requester.now();
            passed.extend(self.requester.handle_data(now, data, |_| Ok(())));
        }
        let sleep = tokio::time::sleep(std::time::Duration::ZERO);
        tokio::pin!(sleep);
        let held = Arc::clone(&self.held);
        let mut events = Vec::with_capacity(EVENT_BATCH);
        loop {
            if !self.pass_on(std::mem::take(&mut passed)) {
                // The receiver was dropped.
                return Ok(());
            }
            let state = &mut self.requester.state;
            let waiting = u64::try_from(held.count.load(Ordering::Relaxed)).unwrap_or(u64::MAX);
            state.set_consumed(state.first_missing().saturating_sub(waiting));
            // They are requested again by their digests.
            for segment in state.refused().collect::<Vec<_>>() {
                let verification = self.requester.verification.clone();
                verification.load(segment..=segment).await?;
            }
            let now = self.requester.now();
            self.requester.transmit(now);
            self.report();
            if let Some(failure) = self.requester.failure() {
                return Err(failure);
            }
            if self.requester.state.is_complete() {
                return Ok(());
            }
            let armed = self.requester.arm(sleep.as_mut());
            tokio::select! {
                biased;
                count = self.requester.flow.receive(&mut events, EVENT_BATCH) => {
                    if count == 0 {
                        return Err(FetchError::Closed);
                    }
                    let now = self.requester.now();
                    passed.reserve(count);
                    for event in events.drain(..) {
                        passed.extend(self.requester.handle_event(now, event, |_| Ok(())));
                    }
                }
                () = held.freed.notified(), if waiting > 0 => {}
                () = sleep.as_mut(), if armed => {
                    let now = self.requester.now();
                    self.requester.state.handle_timeout(now);
                }
            }
        }
    }

    fn pass_on(&mut self, segments: Vec<ReceivedSegment>) -> bool {
        if segments.is_empty() {
            return !self.sender.is_closed();
        }
        let content = segments.iter().map(|(_, data)| data.content_len()).sum::<usize>();
        self.bytes += u64::try_from(content).unwrap_or(0);
        self.held.count.fetch_add(segments.len(), Ordering::Relaxed);
        self.sender.send(segments).is_ok()
    }

    fn report(&self) {
        let progress = FetchProgress { bytes: self.bytes, ..self.requester.state.progress() };
        self.progress.send_replace(progress);
    }
}
