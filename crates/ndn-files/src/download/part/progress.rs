//! What is in a part, as its sidecar tells it, and whether that is so.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use ndn_client::ReceivedData;
use ndn_client::fetch::Verification;
use serde::{Deserialize, Serialize};

use super::super::checksum::{Chain, xxh64};
use super::super::recheck::{Template, count_verified};

/// Most bytes that are read at a time.
const READ_BUFFER_LEN: usize = 1 << 20;
/// Longest content of a segment that a sidecar may tell of; packets are shorter by far.
const SEGMENT_LEN_MAX: u64 = READ_BUFFER_LEN as u64;

/// What the content is of: parts of something else are not gone on with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Name of the object with its version.
    pub name: String,
    /// How its segments are verified, in the words of the application.
    pub verification: String,
}

/// Bytes of an object, counted from 0: what is fetched of it, if that is not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// The first one.
    pub first: u64,
    /// One past the last one.
    pub end: u64,
}

/// What the sidecar says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What it is of.
    #[serde(flatten)]
    pub origin: Origin,
    /// Which bytes of it are fetched; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extent: Option<Extent>,
    /// Content bytes of each segment but the last.
    pub segment_len: u64,
    /// So many segments are there: the first ones of the object, or of the extent.
    pub segments: u64,
    /// Content bytes of those.
    pub bytes: u64,
    /// Checksum of those, unless the digests of their packets are known wherever the fetch goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) xxh64: Option<String>,
}

impl Progress {
    /// Whether the figures fit together, so that reading what is there takes no more memory than that of
    /// any fetch.
    fn is_possible(&self) -> bool {
        let extent = self.extent.unwrap_or(Extent { first: 0, end: u64::MAX });
        (1..=SEGMENT_LEN_MAX).contains(&self.segment_len)
            && self.bytes <= extent.end.saturating_sub(extent.first)
            && (self.bytes.saturating_add(self.skipped())).div_ceil(self.segment_len)
                == self.segments
    }

    /// Bytes of the first segment that are not wanted.
    fn skipped(&self) -> u64 {
        self.extent.map_or(0, |extent| extent.first.checked_rem(self.segment_len).unwrap_or(0))
    }
}

/// What an earlier fetch has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing.
    Nothing,
    /// Something, of which nothing tells what it is: the fetch was ended before it could write that down.
    Untold,
    /// The first segments: the next ones follow it.
    GoesOn(Progress),
    /// Something that cannot be gone on with.
    Unusable {
        /// What was there.
        progress: Progress,
        /// Why not.
        reason: Unusable,
    },
}

impl Left {
    /// What can be gone on with.
    #[must_use]
    pub fn progress(self) -> Option<Progress> {
        match self {
            Self::GoesOn(progress) => Some(progress),
            Self::Nothing | Self::Untold | Self::Unusable { .. } => None,
        }
    }
}

/// Why what is there cannot be gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is of another object, or another version.
    OfAnother,
    /// It is another part of it.
    OtherExtent,
    /// It was verified otherwise.
    OtherVerification,
    /// There is less than there should be, or something else.
    Damaged,
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::OfAnother => {
                "it is of another object, or of another version of it than is there now"
            }
            Self::OtherExtent => "it is another part",
            Self::OtherVerification => "it was verified otherwise",
            Self::Damaged => "it is damaged",
        })
    }
}

/// A segment that is in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::download) struct Stored {
    pub(in crate::download) segment: u64,
    pub(in crate::download) length: u64,
    /// `None`: it is checked by the digest of its packet.
    pub(in crate::download) checksum: Option<u64>,
}

/// As much of what is there as is whole, with its checksum if it has one.
pub(super) fn check(
    file: &File,
    progress: &Progress,
    segment: Option<&ReceivedData>,
    verification: &Verification,
) -> io::Result<Option<(Option<Chain>, Progress)>> {
    if !progress.is_possible() {
        return Ok(None);
    }
    if let Some(checksum) = &progress.xxh64 {
        let chain = chain_of(file, progress)?.filter(|chain| chain.to_hex() == *checksum);
        return Ok(chain.map(|chain| (Some(chain), progress.clone())));
    }
    // Packets are made again from whole contents.
    let segment = segment.filter(|_| progress.extent.is_none());
    let Some(template) = segment.and_then(|segment| Template::of(&segment.data())) else {
        return Ok(None);
    };
    let segments = count_verified(file, progress, &template, verification)?;
    let bytes = segments.saturating_mul(progress.segment_len).min(progress.bytes);
    Ok((segments > 0).then(|| (None, Progress { segments, bytes, ..progress.clone() })))
}

/// Checksum of what is in the file; `None` if there is less than the sidecar says.
fn chain_of(file: &File, progress: &Progress) -> io::Result<Option<Chain>> {
    let mut chain = Chain::default();
    let Ok(segment_len) = usize::try_from(progress.segment_len) else {
        return Ok(None);
    };
    if file.metadata()?.len() < progress.bytes {
        return Ok(None);
    }
    let mut buffer = vec![0; READ_BUFFER_LEN / segment_len * segment_len];
    let mut offset = 0;
    // The first segment may be shorter, and then is read by itself.
    let skipped = usize::try_from(progress.skipped()).unwrap_or(0);
    let mut room = if skipped > 0 { segment_len - skipped } else { buffer.len() };
    while offset < progress.bytes {
        let left = usize::try_from(progress.bytes - offset).unwrap_or(usize::MAX);
        let length = left.min(room);
        file.read_exact_at(&mut buffer[..length], offset)?;
        for segment in buffer[..length].chunks(segment_len) {
            chain.push(xxh64(segment, 0));
        }
        offset += u64::try_from(length).unwrap_or(0);
        room = buffer.len();
    }
    Ok(Some(chain))
}
