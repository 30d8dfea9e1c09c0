//! `namewire get --range`: some bytes of a file.

use ndn_client::Endpoint;
use ndn_client::fetch::FetchProgress;
use ndn_files::FileMetadata;
use ndn_packet::Name;

use super::failure::{Failure, Outcome};
use super::fetch_file::{Already, Fetched, Known, Policy, failure, under_manifest};
use super::target::Target;

/// Bytes of a file, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteRange {
    first: u64,
    /// The last one; `None`: that of the file.
    last: Option<u64>,
}

/// Reads `A-B` or `A-`.
pub(super) fn parse(text: &str) -> Result<ByteRange, String> {
    let malformed = || format!("`{text}` is not a range: write the first and the last byte, 0-99");
    let (first, last) = text.split_once('-').ok_or_else(malformed)?;
    let first = first.parse().map_err(|_| malformed())?;
    let last = match last {
        "" => None,
        last => Some(last.parse().map_err(|_| malformed())?),
    };
    if last.is_some_and(|last| last < first) {
        return Err(format!("`{text}` ends before it begins"));
    }
    Ok(ByteRange { first, last })
}

/// Fetches the segments that hold the bytes, and writes those.
pub(super) async fn fetch(
    endpoint: &Endpoint,
    name: &Name,
    range: ByteRange,
    policy: &Policy,
    target: &mut Target,
) -> Outcome<Fetched> {
    let found = endpoint.find(name, &policy.fetching).await.map_err(failure)?;
    let metadata = found.metadata().and_then(|content| FileMetadata::decode(content).ok());
    let layout = metadata.and_then(|metadata| metadata.segment_size.zip(metadata.size));
    let Some((segment_size, size)) = layout else {
        let unknown = format!("{name}: only files of a file server can be fetched in part");
        return Err(Failure::Failed(unknown));
    };
    if range.first >= size {
        return Err(Failure::Usage(format!("{name} has {size} bytes: there is no such range")));
    }
    let end = range.last.map_or(size, |last| last.saturating_add(1).min(size));
    let Known { found, mut fetching, .. } =
        under_manifest(endpoint, found, &policy.fetching).await?;
    let first_segment = range.first / segment_size;
    fetching.config.last_wanted = Some((end - 1) / segment_size);
    if let Target::File(part) = target {
        // A part of a file is no beginning of it.
        part.begin(None)?;
    }
    let mut stream = endpoint.fetch_found(found, first_segment, &fetching);
    let progress = stream.progress();
    let mut offset = first_segment * segment_size;
    while offset < end {
        let chunk = stream.next().await.map_err(failure)?;
        let chunk = chunk.ok_or_else(|| Failure::Failed(format!("{name} ends too early")))?;
        let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        let within = |position: u64| {
            usize::try_from(position.saturating_sub(offset).min(length)).unwrap_or(chunk.len())
        };
        target.write(&chunk[within(range.first)..within(end)])?;
        offset += length;
    }
    let name = stream.name().clone();
    // What was asked for, not the segments that it lies in.
    let progress = FetchProgress { bytes: end - range.first, ..*progress.borrow() };
    Ok(Fetched { name, already: Already::default(), progress, refused: progress.refused })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_a_beginning_and_perhaps_an_end() {
        assert_eq!(parse("0-99"), Ok(ByteRange { first: 0, last: Some(99) }));
        assert_eq!(parse("5-"), Ok(ByteRange { first: 5, last: None }));
        for wrong in ["", "-", "-5", "7", "9-3", "a-b", "1-2-3"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
