//! A range of one version, in order.

use std::ops::Range;

use bytes::Bytes;
use ndn_client::Endpoint;
use ndn_client::fetch::ObjectStream;

use crate::catalog::Resource;
use crate::error::{AccessError, ErrorKind};

/// Reads a range of a resource in order, at the rate of the caller. The fetch ends when it is dropped.
#[derive(Debug)]
pub struct RangeReader {
    stream: ObjectStream,
    layout: Option<(u64, u64)>,
    /// The bytes that are still to be returned.
    left: Range<u64>,
    /// Start of the next segment.
    offset: u64,
}

impl RangeReader {
    /// Begins to fetch `range`, or everything. A resource without layout is read whole.
    #[must_use]
    pub fn open(endpoint: &Endpoint, resource: &Resource, range: Option<Range<u64>>) -> Self {
        let mut fetching = resource.fetching.clone();
        let layout = resource.layout();
        let mut first_segment = 0;
        if let (Some((_, segment_size)), Some(range)) = (layout, &range) {
            first_segment = range.start / segment_size;
            fetching.config.last_segment_needed = Some(range.end.saturating_sub(1) / segment_size);
        }
        let offset = layout.map_or(0, |(_, segment_size)| first_segment * segment_size);
        let left = range.unwrap_or(0..layout.map_or(u64::MAX, |(size, _)| size));
        let stream = endpoint.fetch_found(resource.found.clone(), first_segment, &fetching);
        Self { stream, layout, left, offset }
    }

    /// The next bytes of the range; `None` at its end.
    ///
    /// # Errors
    /// The failure of the fetch; `Unusable` if a segment has another length than the metadata says.
    pub async fn next(&mut self) -> Result<Option<Bytes>, AccessError> {
        let Some((size, segment_size)) = self.layout else {
            return Ok(self.stream.next().await?);
        };
        if self.offset >= self.left.end.min(size) {
            return Ok(None);
        }
        let chunk = self.stream.next().await?;
        let expected = segment_size.min(size - self.offset);
        let chunk = regular(chunk, expected, &self.stream)?;
        let position = |byte: u64| usize::try_from(byte.min(expected)).unwrap_or(chunk.len());
        let start = position(self.left.start.saturating_sub(self.offset));
        let end = position(self.left.end - self.offset);
        self.offset += expected;
        Ok(Some(chunk.slice(start..end)))
    }
}

/// The next segment of a stream, if it has the expected length.
pub(crate) fn regular(
    chunk: Option<Bytes>,
    expected: u64,
    stream: &ObjectStream,
) -> Result<Bytes, AccessError> {
    match chunk {
        Some(chunk) if u64::try_from(chunk.len()) == Ok(expected) => Ok(chunk),
        _ => Err(irregular(&stream.name().to_uri())),
    }
}

pub(crate) fn irregular(name: &str) -> AccessError {
    let text = format!("{name}: a segment has another length than the metadata says");
    AccessError::new(ErrorKind::Unusable, text)
}
