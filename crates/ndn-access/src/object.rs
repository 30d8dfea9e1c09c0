//! Segments of one version: from the cache, from a fetch that runs already, or from a fetch of their own.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ndn_client::Endpoint;
use ndn_client::fetch::ObjectStream;
use tokio::sync::watch;

use crate::cache::{ObjectKey, SegmentCache};
use crate::catalog::Resource;
use crate::error::AccessError;
use crate::range_reader::{irregular, regular};

/// Missing segments with at most as many others between them are fetched together.
const GAP_MAX: u64 = 2;

/// Length and segment length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) size: u64,
    pub(crate) segment_size: u64,
}

impl Layout {
    /// Content bytes of a segment.
    pub(crate) fn length_of(self, segment: u64) -> u64 {
        self.segment_size.min(self.size.saturating_sub(segment * self.segment_size))
    }

    /// The segments of the bytes from `offset` on; `None` if there are none before the end.
    pub(crate) fn segments_of(self, offset: u64, length: u64) -> Option<RangeInclusive<u64>> {
        let end = offset.saturating_add(length).min(self.size);
        (offset < end).then(|| offset / self.segment_size..=(end - 1) / self.segment_size)
    }
}

/// One version of an object, shared by all files that are open on it.
#[derive(Debug)]
pub(crate) struct Object {
    /// The key of its segments in the cache.
    key: ObjectKey,
    pub(crate) resource: Arc<Resource>,
    pub(crate) layout: Layout,
    endpoint: Endpoint,
    cache: Arc<SegmentCache>,
    /// Segments that are being fetched, with the end of their fetch.
    running: Mutex<HashMap<u64, watch::Receiver<()>>>,
}

impl Object {
    pub(crate) fn new(
        key: ObjectKey,
        resource: Arc<Resource>,
        layout: Layout,
        endpoint: Endpoint,
        cache: Arc<SegmentCache>,
    ) -> Self {
        Self { key, resource, layout, endpoint, cache, running: Mutex::default() }
    }

    pub(crate) fn cached(&self, segment: u64) -> Option<Bytes> {
        self.cache.find(self.key, segment)
    }

    pub(crate) fn is_cached(&self, segment: u64) -> bool {
        self.cache.contains(self.key, segment)
    }

    /// Fetches from `first` on, without end; at most `ahead` bytes more than the caller takes.
    pub(crate) fn stream(&self, first: u64, ahead: u64) -> ObjectStream {
        let mut fetching = self.resource.fetching.clone();
        let segments = u32::try_from(ahead / self.layout.segment_size).unwrap_or(u32::MAX);
        fetching.config.buffer_segments = segments.clamp(1, fetching.config.buffer_segments);
        self.endpoint.fetch_found(self.resource.found.clone(), first, &fetching)
    }

    /// The next segment of a stream, which is `segment`; it is cached.
    pub(crate) async fn take(
        &self,
        stream: &mut ObjectStream,
        segment: u64,
    ) -> Result<Bytes, AccessError> {
        let chunk = stream.next().await?;
        let chunk = regular(chunk, self.layout.length_of(segment), stream)?;
        self.cache.insert(self.key, segment, chunk.clone());
        Ok(chunk)
    }

    /// The contents of these segments, in order.
    pub(crate) async fn segments(
        &self,
        requested: RangeInclusive<u64>,
    ) -> Result<Vec<Bytes>, AccessError> {
        let mut contents: Vec<Option<Bytes>> = requested.clone().map(|_| None).collect();
        let index = |segment: u64| usize::try_from(segment - *requested.start()).unwrap_or(0);
        loop {
            let mut missing = Vec::new();
            for (segment, content) in requested.clone().zip(&mut contents) {
                if content.is_none() {
                    *content = self.cached(segment);
                }
                if content.is_none() {
                    missing.push(segment);
                }
            }
            if missing.is_empty() {
                return Ok(contents.into_iter().flatten().collect());
            }
            match self.claim(&missing) {
                // Another fetch has ended meanwhile.
                Claim::Fetch(claimed) if self.is_cached(*claimed.segments.start()) => {}
                Claim::Fetch(claimed) => {
                    let run = claimed.segments.clone();
                    for (segment, content) in run.clone().zip(self.fetch(run).await?) {
                        contents[index(segment)] = Some(content);
                    }
                }
                // It ends when its sender is dropped.
                Claim::Wait(mut end) => while end.changed().await.is_ok() {},
            }
        }
    }

    /// Takes a run of missing segments for the caller to fetch, or the fetch that the first one waits for.
    fn claim(&self, missing: &[u64]) -> Claim<'_> {
        let mut running = self.lock();
        if let Some(end) = missing.first().and_then(|first| running.get(first)) {
            return Claim::Wait(end.clone());
        }
        let first = missing[0];
        let mut last = first;
        for &segment in missing {
            if segment > last + 1 + GAP_MAX || running.contains_key(&segment) {
                break;
            }
            last = segment;
        }
        let (end, receiver) = watch::channel(());
        for segment in first..=last {
            running.entry(segment).or_insert_with(|| receiver.clone());
        }
        Claim::Fetch(Claimed { object: self, segments: first..=last, receiver, _end: end })
    }

    async fn fetch(&self, run: RangeInclusive<u64>) -> Result<Vec<Bytes>, AccessError> {
        let (first, last) = (*run.start(), *run.end());
        let (found, fetching) = (&self.resource.found, &self.resource.fetching);
        if first == last && found.is_segmented() {
            let received = self.endpoint.fetch_segment(found, first, fetching).await?;
            // A copy, as the content is a small part of what was received with it.
            let content = Bytes::copy_from_slice(&received.content());
            if u64::try_from(content.len()) != Ok(self.layout.length_of(first)) {
                return Err(irregular(&found.name().to_uri()));
            }
            self.cache.insert(self.key, first, content.clone());
            return Ok(vec![content]);
        }
        let mut fetching = fetching.clone();
        fetching.config.last_segment_needed = Some(last);
        let mut stream = self.endpoint.fetch_found(found.clone(), first, &fetching);
        let mut contents = Vec::new();
        for segment in run {
            contents.push(self.take(&mut stream, segment).await?);
        }
        Ok(contents)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, watch::Receiver<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Claim<'a> {
    Fetch(Claimed<'a>),
    Wait(watch::Receiver<()>),
}

/// Segments that the owner fetches; others wait for it, until it is dropped.
struct Claimed<'a> {
    object: &'a Object,
    segments: RangeInclusive<u64>,
    receiver: watch::Receiver<()>,
    _end: watch::Sender<()>,
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        let mut running = self.object.lock();
        for segment in self.segments.clone() {
            let is_own = |end: &watch::Receiver<()>| end.same_channel(&self.receiver);
            if running.get(&segment).is_some_and(is_own) {
                running.remove(&segment);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_map_to_segments() {
        let layout = Layout { size: 2500, segment_size: 1000 };
        assert_eq!([0, 1, 2, 3].map(|segment| layout.length_of(segment)), [1000, 1000, 500, 0]);
        assert_eq!(layout.segments_of(0, 1), Some(0..=0));
        assert_eq!(layout.segments_of(999, 2), Some(0..=1));
        assert_eq!(layout.segments_of(2499, 1), Some(2..=2));
        assert_eq!(layout.segments_of(0, u64::MAX), Some(0..=2));
        assert_eq!(layout.segments_of(5, 0), None);
        assert_eq!(layout.segments_of(2500, 10), None);
        assert_eq!(layout.segments_of(u64::MAX, u64::MAX), None);
    }
}
