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

/// What the content is of: parts of something else are not gone on with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Name of the object with its version.
    pub name: String,
    /// How its segments are verified, in the words of the application.
    pub verification: String,
}

/// What the sidecar says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What it is of.
    #[serde(flatten)]
    pub origin: Origin,
    /// Content bytes of each segment but the last.
    pub segment_len: u64,
    /// The segments before this one are there.
    pub segments: u64,
    /// Content bytes of those.
    pub bytes: u64,
    /// Checksum of those, unless the digests of their packets are known wherever the fetch goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) xxh64: Option<String>,
}

/// What an earlier fetch has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing.
    Nothing,
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
            Self::Nothing | Self::Unusable { .. } => None,
        }
    }
}

/// Why what is there cannot be gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is of another object, or another version.
    OfAnother,
    /// It was verified otherwise.
    OtherVerification,
    /// There is less than there should be, or something else.
    Damaged,
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::OfAnother => "it is of another version",
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
    if let Some(checksum) = &progress.xxh64 {
        let chain = chain_of(file, progress)?.filter(|chain| chain.to_hex() == *checksum);
        return Ok(chain.map(|chain| (Some(chain), progress.clone())));
    }
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
    if segment_len == 0 || progress.bytes.div_ceil(progress.segment_len) != progress.segments {
        return Ok(None);
    }
    if file.metadata()?.len() < progress.bytes || segment_len > READ_BUFFER_LEN {
        return Ok(None);
    }
    let mut buffer = vec![0; READ_BUFFER_LEN / segment_len * segment_len];
    let mut offset = 0;
    while offset < progress.bytes {
        let left = usize::try_from(progress.bytes - offset).unwrap_or(usize::MAX);
        let length = left.min(buffer.len());
        file.read_exact_at(&mut buffer[..length], offset)?;
        for segment in buffer[..length].chunks(segment_len) {
            chain.push(xxh64(segment, 0));
        }
        offset += u64::try_from(length).unwrap_or(0);
    }
    Ok(Some(chain))
}
