//! An open file: reads at offsets.

use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use ndn_packet::Name;

use crate::error::{AccessError, ErrorKind};
use crate::object::Object;
use crate::pattern::{Ahead, Detector, Pattern};
use crate::sequence::{Flight, Sequence};
use crate::stat::Stat;

/// Number of segments from which on a single read begins a fetch that later reads may continue.
const LONG_READ_SEGMENTS: u64 = 64;
/// Parts of a vectored read that are fetched at a time.
const PARTS_AT_A_TIME: usize = 32;
/// Reads that may be under way before the one that precedes them, as those of a kernel that reads ahead.
const READS_OUT_OF_ORDER_MAX: u64 = 16;
/// Maximum length in bytes of a read whose buffer is allocated here.
const READ_LEN_MAX: u64 = 1 << 30;
/// Maximum number of bytes of segments that one read holds at a time.
const HELD_BYTES_MAX: u64 = 16 << 20;
/// Reads fetched ahead at a time by one file.
const AHEAD_AT_A_TIME: usize = 16;

/// A file in one version: what is published later does not change what it returns. Reads may run concurrently.
#[derive(Debug)]
pub struct File {
    object: Arc<Object>,
    /// Maximum time of a read.
    deadline: Duration,
    /// Maximum number of bytes that are fetched before they are asked for.
    read_ahead: u64,
    detector: Mutex<Detector>,
    /// The fetch that reads in order continue.
    sequence: tokio::sync::Mutex<Option<Sequence>>,
    /// Segments that this fetch has requested, for which other reads wait.
    flight: Mutex<Weak<Flight>>,
    ahead: Arc<AtomicUsize>,
}

impl File {
    pub(crate) fn new(object: Arc<Object>, deadline: Duration, read_ahead: u64) -> Self {
        Self {
            object,
            deadline,
            read_ahead,
            detector: Mutex::default(),
            sequence: tokio::sync::Mutex::default(),
            flight: Mutex::default(),
            ahead: Arc::default(),
        }
    }

    /// Name with version.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.object.stat.name
    }

    /// Length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.object.layout.size
    }

    /// Properties of the version.
    #[must_use]
    pub fn stat(&self) -> Stat {
        Stat { size: Some(self.size()), ..self.object.stat.clone() }
    }

    /// Reads up to `length` bytes at `offset`: fewer at the end of the file, none beyond it.
    ///
    /// # Errors
    /// The failure of the fetch; `Changed` if the version no longer exists; `Unanswered` at the deadline, which is that of each
    /// 16 MiB; `Invalid` for more than 1 GiB.
    pub async fn read_at(&self, offset: u64, length: u64) -> Result<Bytes, AccessError> {
        let left = self.size().saturating_sub(offset).min(length);
        if left > READ_LEN_MAX {
            let text = format!("a read of {left} bytes: {READ_LEN_MAX} is the most of one");
            return Err(AccessError::new(ErrorKind::Invalid, text));
        }
        if self.object.layout.segments_of(offset, left).is_some_and(|one| one.start() == one.end())
        {
            let contents = self.contents(offset, left).await?;
            let bounds = self.bounds(offset, left);
            let slice = contents.first().zip(bounds);
            return Ok(
                slice.map_or(Bytes::new(), |(content, (start, end))| content.slice(start..end))
            );
        }
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(usize::MAX)];
        let read = self.read_into(offset, &mut bytes).await?;
        bytes.truncate(read);
        Ok(bytes.into())
    }

    /// Reads into `buffer` at `offset`; returns the number of bytes, which is smaller at the end of the file. At most 16 MiB are
    /// held besides the buffer.
    ///
    /// # Errors
    /// As [`Self::read_at`], for buffers of any length.
    pub async fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, AccessError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let [read, left] = [filled, buffer.len() - filled].map(|length| length as u64);
            let parts = self.read_parts(offset.saturating_add(read), left).await?;
            if parts.is_empty() {
                break;
            }
            for part in parts {
                buffer[filled..filled + part.len()].copy_from_slice(&part);
                filled += part.len();
            }
        }
        Ok(filled)
    }

    /// The next bytes at `offset`, up to `length` and 16 MiB of them, in the segments that have them: nothing is copied. None
    /// at the end of the file.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    pub async fn read_parts(&self, offset: u64, length: u64) -> Result<Vec<Bytes>, AccessError> {
        let length = length.min(HELD_BYTES_MAX);
        let contents = self.contents(offset, length).await?;
        let Some((start, end)) = self.bounds(offset, length) else { return Ok(Vec::new()) };
        let mut left = start..end;
        let parts = contents.iter().map(|content| content.slice_ref(part(content, &mut left)));
        Ok(parts.filter(|part| !part.is_empty()).collect())
    }

    /// Reads several ranges, which may be in any order and overlap; each part is shorter at the end of the file.
    ///
    /// # Errors
    /// As [`Self::read_at`], for the first part that fails.
    pub async fn read_vectored(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, AccessError> {
        if let Some(wrong) = ranges.iter().find(|range| range.end < range.start) {
            let text = format!("a range ends at {} and begins at {}", wrong.end, wrong.start);
            return Err(AccessError::new(ErrorKind::Invalid, text));
        }
        let length_of = |range: &Range<u64>| range.end.min(self.size()).saturating_sub(range.start);
        let bytes = ranges.iter().map(length_of).fold(0, u64::saturating_add);
        if bytes > READ_LEN_MAX {
            let text = format!("a read of {bytes} bytes: {READ_LEN_MAX} is the most of one");
            return Err(AccessError::new(ErrorKind::Invalid, text));
        }
        let mut parts = Vec::with_capacity(ranges.len());
        let mut rest = ranges;
        while !rest.is_empty() {
            let (together, after) = rest.split_at(self.count_together(rest));
            parts.extend(self.read_together(together).await?);
            rest = after;
        }
        // Parts of a table's columns, such as those of this read, are at distances that repeat.
        let pattern = {
            let mut detector = self.detector();
            for range in ranges {
                detector.note(range.start, length_of(range), 0);
            }
            detector.pattern()
        };
        if let Pattern::Periodic(ahead) = pattern
            && !ranges.is_empty()
        {
            self.fetch_ahead(ahead);
        }
        Ok(parts)
    }

    /// The number of ranges, at least one, whose segments may be held at a time.
    fn count_together(&self, ranges: &[Range<u64>]) -> usize {
        let layout = self.object.layout;
        let mut held = 0_u64;
        let fits = ranges.iter().take_while(|range| {
            let segments = layout.segments_of(range.start, range.end - range.start);
            let count = segments.map_or(0, |segments| segments.end() - segments.start() + 1);
            held = held.saturating_add(count.saturating_mul(layout.segment_size));
            held <= HELD_BYTES_MAX
        });
        fits.count().max(1)
    }

    /// Reads ranges whose segments are held at the same time.
    async fn read_together(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, AccessError> {
        self.within_deadline(async {
            // Neighbouring parts first become one run: they are in the cache, or held here, when the parts are put together.
            let layout = self.object.layout;
            let segments = ranges
                .iter()
                .filter_map(|range| layout.segments_of(range.start, range.end - range.start));
            let runs = merged(segments.collect());
            let runs = runs.into_iter().map(|run| async move {
                let contents = self.object.segments(run.clone()).await?;
                Ok::<_, AccessError>((run, contents))
            });
            let runs: Vec<_> =
                futures_util::stream::iter(runs).buffered(PARTS_AT_A_TIME).try_collect().await?;
            Ok(ranges.iter().map(|range| self.part_of(&runs, range)).collect())
        })
        .await
    }

    fn part_of(&self, runs: &[(RangeInclusive<u64>, Vec<Bytes>)], range: &Range<u64>) -> Bytes {
        let length = range.end - range.start;
        let segments = self.object.layout.segments_of(range.start, length);
        let Some((segments, (start, end))) = segments.zip(self.bounds(range.start, length)) else {
            return Bytes::new();
        };
        let holds = |run: &RangeInclusive<u64>| run.contains(segments.start());
        let Some((run, contents)) = runs.iter().find(|(run, _)| holds(run)) else {
            return Bytes::new();
        };
        let skipped = usize::try_from(segments.start() - run.start()).unwrap_or(0);
        let contents = &contents[skipped..];
        if end <= contents[0].len() {
            return contents[0].slice(start..end);
        }
        let (mut bytes, mut left) = (Vec::with_capacity(end - start), start..end);
        for content in contents {
            bytes.extend_from_slice(part(content, &mut left));
        }
        bytes.into()
    }

    /// The first and the last byte, counted from the beginning of the first segment, of a read.
    fn bounds(&self, offset: u64, length: u64) -> Option<(usize, usize)> {
        let layout = self.object.layout;
        let first = *layout.segments_of(offset, length)?.start() * layout.segment_size;
        let end = offset.saturating_add(length).min(layout.size);
        usize::try_from(offset - first).ok().zip(usize::try_from(end - first).ok())
    }

    /// The contents of the segments of a read.
    async fn contents(&self, offset: u64, length: u64) -> Result<Vec<Bytes>, AccessError> {
        let Some(segments) = self.object.layout.segments_of(offset, length) else {
            return Ok(Vec::new());
        };
        let slack = length.saturating_mul(READS_OUT_OF_ORDER_MAX);
        let pattern = {
            let mut detector = self.detector();
            detector.note(offset, length, slack);
            detector.pattern()
        };
        let contents = match self.cached(&segments) {
            Some(cached) => cached,
            None => self.read(segments, pattern == Pattern::Sequential).await?,
        };
        // Not before: the read itself comes first.
        if let Pattern::Periodic(ahead) = pattern {
            self.fetch_ahead(ahead);
        }
        Ok(contents)
    }

    /// Reads segments that are not all in memory.
    async fn read(
        &self,
        segments: RangeInclusive<u64>,
        is_in_order: bool,
    ) -> Result<Vec<Bytes>, AccessError> {
        let count = segments.end() - segments.start() + 1;
        let is_sequential = is_in_order || count >= LONG_READ_SEGMENTS;
        let joins = is_sequential || self.is_in_flight(&segments);
        self.within_deadline(async {
            match joins && self.read_ahead > 0 {
                true => self.next_of_sequence(segments).await,
                false => self.object.segments(segments).await,
            }
        })
        .await
    }

    fn detector(&self) -> MutexGuard<'_, Detector> {
        self.detector.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cached(&self, segments: &RangeInclusive<u64>) -> Option<Vec<Bytes>> {
        segments.clone().map(|segment| self.object.cached(segment)).collect()
    }

    /// Reads these segments from the fetch that earlier reads began, or begins one.
    async fn next_of_sequence(
        &self,
        segments: RangeInclusive<u64>,
    ) -> Result<Vec<Bytes>, AccessError> {
        let mut held = self.sequence.lock().await;
        let slack = self.read_ahead / self.object.layout.segment_size;
        let next = held.as_ref().map(Sequence::next);
        let (start, last) = (*segments.start(), *segments.end());
        let continues =
            |first: u64| next.is_some_and(|next| first >= next && first - next <= slack);
        // The first segments are in the cache if the read before ended within them, and all of them if another one, which
        // began later, overtook this one. What the fetch has requested is not looked for on disk.
        let mut known: Vec<Option<Bytes>> = match continues(start) {
            true => segments.map_while(|segment| self.object.cached(segment)).map(Some).collect(),
            false => self.object.held(segments).await,
        };
        let known_first = known.iter().take_while(|content| content.is_some()).count();
        let others = known.split_off(known_first);
        let mut contents: Vec<Bytes> = known.into_iter().flatten().collect();
        let first = start + u64::try_from(contents.len()).unwrap_or(u64::MAX);
        if first > last {
            return Ok(contents);
        }
        if next.is_some_and(|next| first < next && next - first <= slack) {
            // The fetch has passed them, and they are in the cache no more.
            drop(held);
            contents.extend(self.object.complete(first..=last, others).await?);
            return Ok(contents);
        }
        let mut sequence = match held.take().filter(|_| continues(first)) {
            Some(sequence) => sequence,
            None => {
                let sequence = Sequence::begin(&self.object, first, self.read_ahead).await?;
                *self.lock_flight() = Arc::downgrade(sequence.flight());
                sequence
            }
        };
        while sequence.next() <= last {
            let segment = sequence.next();
            let content = sequence.take(&self.object).await?;
            if segment >= first {
                contents.push(content);
            }
        }
        if sequence.next() <= self.object.layout.last_segment() {
            *held = Some(sequence);
        }
        Ok(contents)
    }

    /// Whether the fetch in order has requested these segments already: then a single read waits for them.
    fn is_in_flight(&self, segments: &RangeInclusive<u64>) -> bool {
        let flight = self.lock_flight().upgrade();
        flight.is_some_and(|flight| flight.has(segments))
    }

    fn lock_flight(&self) -> MutexGuard<'_, Weak<Flight>> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches reads that are expected into the cache. Reads do not wait for it, unless they need the same segments, and neither
    /// memory nor the disk has these.
    fn fetch_ahead(&self, ahead: Ahead) {
        let mut affordable = self.read_ahead;
        for (offset, length) in ahead {
            let Some(left) = affordable.checked_sub(length) else { return };
            affordable = left;
            let Some(segments) = self.object.layout.segments_of(offset, length) else { return };
            let is_under_way =
                |segment| self.object.is_cached(segment) || self.object.is_running(segment);
            if segments.clone().all(is_under_way) {
                continue;
            }
            if self.ahead.fetch_add(1, Ordering::Relaxed) >= AHEAD_AT_A_TIME {
                self.ahead.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            let (object, ahead) = (Arc::clone(&self.object), Arc::clone(&self.ahead));
            let deadline = self.deadline;
            tokio::spawn(async move {
                // The read itself reports what fails.
                let fetched = tokio::time::timeout(deadline, object.fetch_ahead(segments)).await;
                if let Ok(Err(error)) = fetched {
                    tracing::debug!(%error, "fetching ahead failed");
                }
                ahead.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }

    async fn within_deadline<T>(
        &self,
        work: impl Future<Output = Result<T, AccessError>>,
    ) -> Result<T, AccessError> {
        let done = tokio::time::timeout(self.deadline, work).await.unwrap_or_else(|_| {
            let text = format!("{} was not answered within {:?}", self.name(), self.deadline);
            Err(AccessError::new(ErrorKind::Unanswered, text))
        });
        done.map_err(|error| error.of(|| self.name().to_uri()))
    }
}

/// The part of `content` that `left` begins with; `left` is moved to the beginning of the next content.
fn part<'a>(content: &'a Bytes, left: &mut Range<usize>) -> &'a [u8] {
    let length = content.len();
    let part = &content[left.start.min(length)..left.end.min(length)];
    *left = left.start.saturating_sub(length)..left.end.saturating_sub(length);
    part
}

/// Runs that cover `segments`; neighbouring ones become one.
fn merged(mut segments: Vec<RangeInclusive<u64>>) -> Vec<RangeInclusive<u64>> {
    segments.sort_unstable_by_key(|run| *run.start());
    let mut runs: Vec<RangeInclusive<u64>> = Vec::new();
    for run in segments {
        match runs.last_mut() {
            Some(last) if *run.start() <= last.end() + 1 => {
                *last = *last.start()..=(*last.end()).max(*run.end());
            }
            _ => runs.push(run),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_runs_are_merged() {
        assert_eq!(merged(vec![7..=9, 0..=1, 2..=3, 5..=5, 8..=8]), [0..=3, 5..=5, 7..=9]);
        assert_eq!(merged(Vec::new()), []);
    }
}
