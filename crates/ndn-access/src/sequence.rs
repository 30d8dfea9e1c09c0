//! A fetch in order, which later reads continue.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use ndn_client::fetch::{FetchProgress, ObjectStream};
use tokio::sync::watch;

use crate::error::AccessError;
use crate::object::Object;

/// Segments that are taken from the fetch at a time.
const BATCH_MAX: usize = 64;

/// A fetch of segments in order.
#[derive(Debug)]
pub(crate) struct Sequence {
    stream: ObjectStream,
    /// Contents that have arrived, from `next` on.
    arrived: std::vec::IntoIter<Bytes>,
    flight: Arc<Flight>,
}

/// The segments that a fetch has requested and its readers have not taken.
#[derive(Debug)]
pub(crate) struct Flight {
    first: u64,
    /// The segment that is taken next.
    next: AtomicU64,
    progress: watch::Receiver<FetchProgress>,
}

impl Flight {
    /// Whether all of these are requested already.
    pub(crate) fn has(&self, segments: &RangeInclusive<u64>) -> bool {
        let progress = self.progress.borrow();
        let in_flight = u64::try_from(progress.in_flight).unwrap_or(0);
        let end = self.first + progress.segments + in_flight;
        *segments.start() >= self.next.load(Ordering::Relaxed) && *segments.end() < end
    }
}

impl Sequence {
    /// Begins to fetch from `first` on, at most `ahead` bytes more than is taken.
    pub(crate) async fn begin(
        object: &Object,
        first: u64,
        ahead: u64,
    ) -> Result<Self, AccessError> {
        let stream = object.stream(first, ahead).await?;
        let (next, progress) = (AtomicU64::new(first), stream.progress());
        let flight = Arc::new(Flight { first, next, progress });
        Ok(Self { stream, arrived: Vec::new().into_iter(), flight })
    }

    pub(crate) fn flight(&self) -> &Arc<Flight> {
        &self.flight
    }

    /// The segment that [`Self::take`] returns.
    pub(crate) fn next(&self) -> u64 {
        self.flight.next.load(Ordering::Relaxed)
    }

    /// The next segment, which becomes cached.
    pub(crate) async fn take(&mut self, object: &Object) -> Result<Bytes, AccessError> {
        if self.arrived.len() == 0 {
            let mut batch = Vec::with_capacity(BATCH_MAX);
            self.stream.next_batch(&mut batch, BATCH_MAX).await?;
            self.arrived = batch.into_iter();
        }
        let next = self.next();
        let content = object.accept(self.arrived.next(), next, &self.stream).await?;
        self.flight.next.store(next + 1, Ordering::Relaxed);
        Ok(content)
    }
}
