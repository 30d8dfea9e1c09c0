//! The driver of the state machine: sends its Interests, feeds it, passes contents on in order.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use ndn_packet::{ContentType, InterestBuilder, NackReason, Name};
use rand::RngExt;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};

use super::discovery::FoundObject;
use super::state::{DataOutcome, FetchState};
use super::{FetchError, FetchFailure, FetchOptions, FetchProgress};
use crate::endpoint::{Endpoint, Flow};
use crate::pending::{FlowEvent, ReceivedData};

/// Events that a fetch takes before it sends again.
const EVENT_BATCH: usize = 256;
/// Segments that wait for the application; more stay in the reorder buffer.
const OUTPUT_CAPACITY: usize = 256;

/// The content of an object, in order.
#[derive(Debug)]
pub struct ObjectStream {
    name: Name,
    chunks: mpsc::Receiver<Bytes>,
    task: Option<JoinHandle<Result<(), FetchError>>>,
    progress: watch::Receiver<FetchProgress>,
}

impl ObjectStream {
    /// Fetches the segments from `first_segment` on in a task of its own.
    pub(super) fn start(
        endpoint: &Endpoint,
        found: FoundObject,
        first_segment: u64,
        options: &FetchOptions,
    ) -> Self {
        let (sender, chunks) = mpsc::channel(OUTPUT_CAPACITY);
        let (progress_sender, progress) = watch::channel(FetchProgress::default());
        let name = found.prefix.clone();
        let options = options.clone();
        let driver = Driver::new(endpoint, &found, first_segment, options, sender, progress_sender);
        let task = if found.whole {
            let content = found.data.map(|data| data.content()).unwrap_or_default();
            tokio::spawn(driver.deliver_whole(content))
        } else {
            tokio::spawn(driver.run(found.data))
        };
        Self { name, chunks, task: Some(task), progress }
    }

    /// Name of the object with its version.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// Why the fetch cannot go on, once all before was taken.
    pub async fn next(&mut self) -> Result<Option<Bytes>, FetchError> {
        match self.chunks.recv().await {
            Some(chunk) => Ok(Some(chunk)),
            None => self.result().await.map(|()| None),
        }
    }

    /// Appends the next pieces, at most `limit`, to `chunks`; returns how many, 0 at the end.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn next_batch(
        &mut self,
        chunks: &mut Vec<Bytes>,
        limit: usize,
    ) -> Result<usize, FetchError> {
        match self.chunks.recv_many(chunks, limit).await {
            0 => self.result().await.map(|()| 0),
            count => Ok(count),
        }
    }

    /// All of the content, at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Self::next`], and `TooLong`.
    pub async fn collect(mut self, limit: usize) -> Result<Vec<u8>, FetchError> {
        let mut content = Vec::new();
        while let Some(chunk) = self.next().await? {
            if content.len() + chunk.len() > limit {
                return Err(FetchError::TooLong { limit });
            }
            content.extend_from_slice(&chunk);
        }
        Ok(content)
    }

    /// Counters and estimates, updated as the fetch goes on.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<FetchProgress> {
        self.progress.clone()
    }

    async fn result(&mut self) -> Result<(), FetchError> {
        match self.task.take() {
            Some(task) => task.await.unwrap_or(Err(FetchError::Closed)),
            None => Ok(()),
        }
    }
}

impl Drop for ObjectStream {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

struct Driver {
    flow: Flow,
    state: FetchState,
    options: FetchOptions,
    start: Instant,
    /// Prefix of the segments; a segment number is put behind it for each Interest.
    name: Name,
    /// Contents of the segments from `next_output` on.
    contents: VecDeque<Option<Bytes>>,
    next_output: u64,
    bytes: u64,
    output: mpsc::Sender<Bytes>,
    progress: watch::Sender<FetchProgress>,
}

impl Driver {
    fn new(
        endpoint: &Endpoint,
        found: &FoundObject,
        first_segment: u64,
        options: FetchOptions,
        output: mpsc::Sender<Bytes>,
        progress: watch::Sender<FetchProgress>,
    ) -> Self {
        let capacity = usize::try_from(options.config.buffer_segments).unwrap_or(usize::MAX);
        Self {
            flow: endpoint.open_flow(&found.prefix, capacity.clamp(EVENT_BATCH, 1 << 20)),
            state: FetchState::new(options.config, first_segment, found.final_segment),
            options,
            start: Instant::now(),
            name: found.prefix.clone(),
            contents: VecDeque::new(),
            next_output: first_segment,
            bytes: 0,
            output,
            progress,
        }
    }

    async fn deliver_whole(self, content: Bytes) -> Result<(), FetchError> {
        let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let progress = FetchProgress {
            bytes,
            segments: 1,
            final_segment: Some(0),
            ..FetchProgress::default()
        };
        self.progress.send_replace(progress);
        let _ = self.output.send(content).await;
        Ok(())
    }

    async fn run(mut self, first: Option<ReceivedData>) -> Result<(), FetchError> {
        if let Some(data) = first {
            // Only the first segment can be taken before it is asked for.
            self.handle_data(self.now(), &data);
        }
        let sleep = tokio::time::sleep_until(self.start);
        tokio::pin!(sleep);
        let mut events = Vec::with_capacity(EVENT_BATCH);
        let output = self.output.clone();
        loop {
            // What is passed on makes room for further Interests.
            self.deliver();
            let now = self.now();
            self.transmit(now);
            self.report();
            if let Some(failure) = self.state.failure() {
                return Err(FetchError::Failed {
                    name: self.name.to_uri(),
                    failure: failure.clone(),
                });
            }
            if self.state.is_complete() && self.contents.is_empty() {
                return Ok(());
            }
            let deadline = self.state.poll_timeout().map(|(at, _)| self.start + at);
            arm(sleep.as_mut(), deadline);
            let deliverable = matches!(self.contents.front(), Some(Some(_)));
            tokio::select! {
                biased;
                count = self.flow.receive(&mut events, EVENT_BATCH) => {
                    if count == 0 {
                        return Err(FetchError::Closed);
                    }
                    let now = self.now();
                    for event in events.drain(..) {
                        self.handle_event(now, event);
                    }
                }
                permit = output.reserve(), if deliverable => match permit {
                    Ok(permit) => {
                        if let Some(Some(chunk)) = self.contents.pop_front() {
                            permit.send(chunk);
                            self.next_output += 1;
                        }
                    }
                    // Nobody wants the rest.
                    Err(_) => return Ok(()),
                },
                () = sleep.as_mut(), if deadline.is_some() => {
                    let now = self.now();
                    self.state.handle_timeout(now);
                }
            }
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Sends all Interests that the window allows, as one piece of output.
    fn transmit(&mut self, now: Duration) {
        let mut packets = Vec::new();
        let prefix_len = self.name.len();
        let lifetime_ms = u64::try_from(self.options.lifetime.as_millis()).unwrap_or(u64::MAX);
        let mut random = rand::rng();
        while let Some(transmit) = self.state.poll_transmit(now) {
            self.name.push_segment(transmit.segment);
            let interest = InterestBuilder::new(self.name.as_ref())
                .nonce(random.random())
                .lifetime_ms(lifetime_ms);
            let start = packets.len();
            packets.resize(start + interest.encoded_len(), 0);
            let written = interest.write(&mut packets[start..]).unwrap_or(0);
            packets.truncate(start + written);
            self.name.truncate(prefix_len);
        }
        if !packets.is_empty() {
            self.flow.endpoint().send_packets(&packets);
        }
    }

    fn handle_event(&mut self, now: Duration, event: FlowEvent) {
        match event {
            FlowEvent::Data(data) => self.handle_data(now, &data),
            FlowEvent::Nack { segment, reason } => {
                self.state.handle_nack(now, segment, reason == NackReason::CONGESTION);
            }
        }
    }

    fn handle_data(&mut self, now: Duration, received: &ReceivedData) {
        let data = received.data();
        let Some(segment) = data.name().last().and_then(|last| last.as_segment()) else {
            return;
        };
        if data.content_type() == ContentType::NACK {
            return self.state.fail(FetchFailure::ApplicationNack { segment });
        }
        if segment < self.state.first_missing() {
            return;
        }
        if let Err(reason) = self.options.verification.check(&data) {
            let reason = reason.to_string();
            return self.state.fail(FetchFailure::Verification { segment, reason });
        }
        let final_segment = data.final_block_id().and_then(|last| last.as_segment());
        let mark = received.congestion_mark();
        if self.state.handle_data(now, segment, final_segment, mark) != DataOutcome::New {
            return;
        }
        let content = data.content_range().map(|range| received.wire().slice(range));
        let content = content.unwrap_or_default();
        self.bytes += u64::try_from(content.len()).unwrap_or(0);
        let Ok(index) = usize::try_from(segment - self.next_output) else {
            return;
        };
        if self.contents.len() <= index {
            self.contents.resize(index + 1, None);
        }
        self.contents[index] = Some(content);
    }

    /// Passes on what is complete, as far as the application takes it.
    fn deliver(&mut self) {
        while let Some(Some(chunk)) = self.contents.front_mut() {
            match self.output.try_send(std::mem::take(chunk)) {
                Ok(()) => {
                    self.contents.pop_front();
                    self.next_output += 1;
                }
                Err(
                    mpsc::error::TrySendError::Full(back) | mpsc::error::TrySendError::Closed(back),
                ) => {
                    *chunk = back;
                    break;
                }
            }
        }
        self.state.set_consumed(self.next_output);
    }

    fn report(&self) {
        let progress = FetchProgress { bytes: self.bytes, ..self.state.progress() };
        self.progress.send_replace(progress);
    }
}

/// Sets the timer if it would fire too late; one that fires too early costs less than setting it
/// each time.
fn arm(sleep: std::pin::Pin<&mut Sleep>, deadline: Option<Instant>) {
    if let Some(deadline) = deadline
        && (deadline < sleep.deadline() || sleep.is_elapsed())
    {
        sleep.reset(deadline);
    }
}
