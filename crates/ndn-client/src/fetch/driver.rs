//! An object as a stream: contents are verified and delivered in order.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use ndn_packet::{Data, Name};
use ndn_security::VerifyError;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::discovery::FoundObject;
use super::requester::{EVENT_BATCH, Requester};
use super::{FetchError, FetchOptions, FetchProgress, UncheckedSignature, Verification};
use crate::handle::Handle;
use crate::pending::{FlowEvent, ReceivedData};

/// Segments queued for the application; further ones stay in the reorder buffer.
const OUTPUT_CAPACITY: usize = 256;

/// The content of an object, in order.
#[derive(Debug)]
pub struct ObjectStream {
    name: Name,
    chunks: mpsc::Receiver<Bytes>,
    task: Option<JoinHandle<Result<(), FetchError>>>,
    progress: watch::Receiver<FetchProgress>,
    unchecked: Arc<OnceLock<UncheckedSignature>>,
}

impl ObjectStream {
    /// Fetches the segments from `first_segment` on in its own task.
    pub(crate) fn start(
        handle: &Handle,
        found: FoundObject,
        first_segment: u64,
        options: &FetchOptions,
    ) -> Self {
        let (sender, chunks) = mpsc::channel(OUTPUT_CAPACITY);
        let (progress_sender, progress) = watch::channel(FetchProgress::default());
        let name = found.prefix.clone();
        let unchecked = Arc::default();
        let driver = Driver {
            requester: Requester::new(handle, &found, first_segment, options),
            verification: options.verification.clone(),
            contents: VecDeque::new(),
            next_output: first_segment,
            bytes: 0,
            output: sender,
            progress: progress_sender,
            unchecked: Arc::clone(&unchecked),
        };
        let task = if found.whole {
            let content = found.data.map(|data| data.content()).unwrap_or_default();
            tokio::spawn(driver.deliver_whole(content))
        } else {
            tokio::spawn(driver.run(found.data))
        };
        Self { name, chunks, task: Some(task), progress, unchecked }
    }

    /// Name of the object with its version.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The next chunk; `None` at the end.
    ///
    /// # Errors
    /// The failure of the fetch, once all earlier chunks were taken.
    pub async fn next(&mut self) -> Result<Option<Bytes>, FetchError> {
        match self.chunks.recv().await {
            Some(chunk) => Ok(Some(chunk)),
            None => self.result().await.map(|()| None),
        }
    }

    /// Appends up to `limit` chunks to `chunks`; returns their number, 0 at the end.
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

    /// Counters and estimates, updated during the fetch.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<FetchProgress> {
        self.progress.clone()
    }

    /// The signature of a segment that was accepted unchecked, if there is one among those that have arrived.
    #[must_use]
    pub fn unchecked(&self) -> Option<&UncheckedSignature> {
        self.unchecked.get()
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
    requester: Requester,
    verification: Verification,
    /// Contents of the segments from `next_output` on.
    contents: VecDeque<Option<Bytes>>,
    next_output: u64,
    bytes: u64,
    output: mpsc::Sender<Bytes>,
    progress: watch::Sender<FetchProgress>,
    unchecked: Arc<OnceLock<UncheckedSignature>>,
}

impl Driver {
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
            // Only the first segment can arrive before it is requested.
            let now = self.requester.now();
            self.verification.load(0..=0).await?;
            let checked = self.verification.check(&data.data());
            self.handle_event(now, FlowEvent::Data(data), Some(checked));
        }
        let sleep = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(sleep);
        let mut events = Vec::with_capacity(EVENT_BATCH);
        let output = self.output.clone();
        loop {
            // Delivered segments make room for further Interests.
            self.deliver();
            let now = self.requester.now();
            self.requester.transmit(now);
            self.report();
            if let Some(failure) = self.requester.failure() {
                return Err(failure);
            }
            if self.requester.state.is_complete() && self.contents.is_empty() {
                return Ok(());
            }
            let armed = self.requester.arm(sleep.as_mut());
            let deliverable = matches!(self.contents.front(), Some(Some(_)));
            tokio::select! {
                biased;
                count = self.requester.flow.receive(&mut events, EVENT_BATCH) => {
                    if count == 0 {
                        return Err(FetchError::Closed);
                    }
                    // Before the wait for digests, which is not part of the round-trip time.
                    let now = self.requester.now();
                    if let Some(segments) = self.requester.segments_of(&events) {
                        self.verification.load(segments).await?;
                    }
                    let mut checked = self.check(&events).into_iter();
                    for event in events.drain(..) {
                        let is_data = matches!(event, FlowEvent::Data(_));
                        let checked = if is_data { checked.next() } else { None };
                        self.handle_event(now, event, checked);
                    }
                }
                permit = output.reserve(), if deliverable => match permit {
                    Ok(permit) => {
                        if let Some(Some(chunk)) = self.contents.pop_front() {
                            permit.send(chunk);
                            self.next_output += 1;
                        }
                    }
                    // The receiver was dropped.
                    Err(_) => return Ok(()),
                },
                () = sleep.as_mut(), if armed => {
                    let now = self.requester.now();
                    self.requester.state.handle_timeout(now);
                }
            }
        }
    }

    /// Verifies the Data among these events, side by side; the results are in their order.
    fn check(&self, events: &[FlowEvent]) -> Vec<Result<(), VerifyError>> {
        let data = events.iter().filter_map(|event| match event {
            FlowEvent::Data(received) => Some(received.data()),
            FlowEvent::Nack { .. } => None,
        });
        self.verification.check_each(&data.collect::<Vec<_>>())
    }

    /// Handles an event; for Data, with the result of its verification.
    fn handle_event(
        &mut self,
        now: Duration,
        event: FlowEvent,
        checked: Option<Result<(), VerifyError>>,
    ) {
        let check = |_: &Data<'_>| match checked {
            Some(checked) => checked.map_err(|reason| reason.to_string()),
            None => Err("it was not verified".to_owned()),
        };
        let Some((segment, received)) = self.requester.handle_event(now, event, check) else {
            return;
        };
        if self.unchecked.get().is_none()
            && let Some(unchecked) = self.verification.unchecked(&received.data())
        {
            let _ = self.unchecked.set(unchecked);
        }
        let content = received.content();
        self.bytes += u64::try_from(content.len()).unwrap_or(0);
        let Ok(index) = usize::try_from(segment - self.next_output) else {
            return;
        };
        if self.contents.len() <= index {
            self.contents.resize(index + 1, None);
        }
        self.contents[index] = Some(content);
    }

    /// Delivers complete contents, as far as the application takes them.
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
        self.requester.state.set_consumed(self.next_output);
    }

    fn report(&self) {
        let progress = FetchProgress { bytes: self.bytes, ..self.requester.state.progress() };
        self.progress.send_replace(progress);
    }
}
