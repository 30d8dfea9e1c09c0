//! `namewire get --range`: a range of bytes of a file.

use ndn_client::Endpoint;
use ndn_client::fetch::FetchProgress;
use ndn_files::{Extent, FileMetadata, Origin, PartFile, Progress};
use ndn_packet::Name;

use super::failure::{Failure, Outcome};
use super::fetch_file::{
    Already, Fetched, ObjectToFetch, Policy, failure, report_start_over, under_manifest, usable,
};
use super::target::Target;

/// A range of bytes of a file, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteRange {
    first: u64,
    /// The last byte; `None`: that of the file.
    last: Option<u64>,
}

/// Parses `A-B` or `A-`.
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

/// Fetches the segments that contain the bytes, and writes the bytes. `observe` gets the progress after each segment.
pub(super) async fn fetch(
    endpoint: &Endpoint,
    name: &Name,
    range: ByteRange,
    policy: &Policy,
    (target, observe): (&mut Target, impl Fn(&FetchProgress)),
) -> Outcome<Fetched> {
    let found = Box::pin(endpoint.find(name, &policy.fetching)).await.map_err(failure)?;
    let metadata = found.metadata().and_then(|content| FileMetadata::decode(content).ok());
    let layout = metadata.and_then(|metadata| metadata.segment_size.zip(metadata.size));
    let Some((segment_size, size)) = layout else {
        let unknown = format!(
            "{name}: only files of a file server (`namewire serve`) can be fetched in part: others do not tell how \
             long they and their segments are"
        );
        return Err(Failure::Input(unknown));
    };
    if range.first >= size {
        return Err(Failure::Usage(format!(
            "{name} has {size} bytes: the range is beyond its end"
        )));
    }
    let end = range.last.map_or(size, |last| last.saturating_add(1).min(size));
    let ObjectToFetch { found, mut fetching, unchecked, .. } =
        under_manifest(endpoint, found, policy).await?;
    let first_segment = range.first / segment_size;
    fetching.config.last_segment_needed = Some((end - 1) / segment_size);
    let mut already = Already::default();
    if let Target::File(part, _) = target {
        part.set_extent(Extent { first: range.first, end });
        let origin = policy.origin(&found);
        match resume(part, &origin, segment_size, policy)? {
            Some(progress) => {
                already = Already { segments: progress.segments, bytes: progress.bytes };
            }
            None => {
                part.begin(Some(origin))?;
                part.set_segment_len(segment_size);
            }
        }
    }
    let mut segment = first_segment + already.segments;
    if segment * segment_size >= end {
        let progress = FetchProgress::default();
        let (name, convention) = (found.name().clone(), found.convention());
        let replicas = Vec::new();
        return Ok(Fetched {
            name,
            convention,
            already,
            progress,
            refused: 0,
            unchecked,
            replicas,
        });
    }
    let convention = found.convention();
    let mut stream = endpoint.fetch_found(found, segment, &fetching);
    let progress = stream.progress();
    while segment * segment_size < end {
        let chunk = stream.next().await.map_err(failure)?;
        let chunk = chunk
            .ok_or_else(|| Failure::Failed(format!("{name} is shorter than its metadata says")))?;
        let offset = segment * segment_size;
        let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        if length != segment_size.min(size - offset) {
            let other =
                format!("{name}: segment {segment} has another length than its metadata says");
            return Err(Failure::Failed(other));
        }
        let within = |position: u64| {
            usize::try_from(position.saturating_sub(offset).min(length)).unwrap_or(chunk.len())
        };
        let requested = &chunk[within(range.first)..within(end)];
        if let Target::File(part, _) = target {
            part.write_segment(segment - first_segment, requested)?;
        } else {
            target.write(requested)?;
        }
        segment += 1;
        observe(&progress.borrow());
    }
    let name = stream.name().clone();
    // The bytes of the range, not the segments that contain them.
    let bytes = end - range.first - already.bytes;
    let progress = FetchProgress { bytes, ..*progress.borrow() };
    let refused = progress.refused;
    let unchecked = unchecked.or_else(|| stream.unchecked().cloned());
    let replicas = Vec::new();
    Ok(Fetched { name, convention, already, progress, refused, unchecked, replicas })
}

/// The part of an interrupted fetch of the same range.
fn resume(
    part: &mut PartFile,
    origin: &Origin,
    segment_size: u64,
    policy: &Policy,
) -> Outcome<Option<Progress>> {
    if policy.restart {
        return Ok(None);
    }
    let Some(progress) = usable(part.earlier_fetch(origin), part, policy) else {
        return Ok(None);
    };
    if progress.segment_len != segment_size {
        report_start_over(&policy.notes, &progress, &"the object has other segments");
        return Ok(None);
    }
    let left = part.resume(origin, None, &policy.fetching.verification)?;
    Ok(usable(left, part, policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_a_start_and_an_optional_end() {
        assert_eq!(parse("0-99"), Ok(ByteRange { first: 0, last: Some(99) }));
        assert_eq!(parse("5-"), Ok(ByteRange { first: 5, last: None }));
        for wrong in ["", "-", "-5", "7", "9-3", "a-b", "1-2-3"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
