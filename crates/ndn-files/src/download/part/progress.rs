//! State of a part, as stored in its sidecar.

use serde::{Deserialize, Serialize};

/// Maximum segment length in a sidecar; packets are much shorter.
pub(in crate::download) const SEGMENT_LEN_MAX: usize = 1 << 20;

/// Identity of the content: parts of another object cannot be resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Name of the object with its version.
    pub name: String,
    /// The verification of its segments, as the application describes it.
    pub verification: String,
}

/// A byte range of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// The first byte.
    pub first: u64,
    /// One past the last byte.
    pub end: u64,
}

/// Content of the sidecar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The object.
    #[serde(flatten)]
    pub origin: Origin,
    /// The byte range to fetch; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extent: Option<Extent>,
    /// Content bytes of each segment but the last.
    pub segment_len: u64,
    /// Number of leading segments of the object, or of the extent, in the file.
    pub segments: u64,
    /// Content bytes of those.
    pub bytes: u64,
    /// Checksum of those, unless the digests of their packets are known whenever the fetch is
    /// resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::download) xxh64: Option<String>,
}

impl Progress {
    /// Whether the part has a checksum, so that it is checked without digests of packets.
    #[must_use]
    pub fn has_checksum(&self) -> bool {
        self.xxh64.is_some()
    }

    /// Whether the values are consistent, so that reading the content takes no more memory than any
    /// fetch.
    pub(in crate::download) fn is_possible(&self) -> bool {
        let extent = self.extent.unwrap_or(Extent { first: 0, end: u64::MAX });
        (1..=SEGMENT_LEN_MAX as u64).contains(&self.segment_len)
            && self.bytes <= extent.end.saturating_sub(extent.first)
            && (self.bytes.saturating_add(self.skipped())).div_ceil(self.segment_len)
                == self.segments
    }

    /// Bytes of the first segment before the extent.
    pub(in crate::download) fn skipped(&self) -> u64 {
        self.extent.map_or(0, |extent| extent.first.checked_rem(self.segment_len).unwrap_or(0))
    }
}

/// The state that an earlier fetch has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EarlierFetch {
    /// Nothing.
    Nothing,
    /// Content without a sidecar: the fetch was killed before the first checkpoint.
    WithoutSidecar,
    /// The leading segments: the fetch can be resumed.
    Resumable(Progress),
    /// Content that cannot be resumed.
    Unusable {
        /// The state found.
        progress: Progress,
        /// The reason.
        reason: Unusable,
    },
}

impl EarlierFetch {
    /// The state, if the fetch can be resumed.
    #[must_use]
    pub fn progress(self) -> Option<Progress> {
        match self {
            Self::Resumable(progress) => Some(progress),
            Self::Nothing | Self::WithoutSidecar | Self::Unusable { .. } => None,
        }
    }
}

/// Why existing content cannot be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It belongs to another object, or another version.
    OfAnother,
    /// It is another byte range.
    OtherExtent,
    /// It was verified differently.
    OtherVerification,
    /// It is incomplete or has changed.
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

/// A segment in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::download) struct Stored {
    pub(in crate::download) segment: u64,
    pub(in crate::download) length: u64,
    /// `None`: it is verified by the digest of its packet.
    pub(in crate::download) checksum: Option<u64>,
}
