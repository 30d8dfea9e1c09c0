//! Counters of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ndn_packet::NameRef;

use crate::path::Refusal;
use crate::source::OpenFailure;

/// Outcomes of Interests, and events of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[non_exhaustive]
pub enum Event {
    /// A segment of a file or of a listing was sent.
    Segment,
    /// Metadata was sent.
    Metadata,
    /// An application Nack was sent.
    Nack,
    /// The name is not one of the file service.
    Unrecognised,
    /// The path is not served.
    RefusedPath,
    /// The path leads out of the mount, or through a symbolic link.
    RefusedEscape,
    /// A device, a pipe, a socket.
    RefusedSpecial,
    /// The file exists, but this process may not read it.
    Denied,
    /// No such file or version.
    NotFound,
    /// A segment behind the last one, as consumers request that do not know the end yet.
    BeyondEnd,
    /// The version differs from that of the file.
    WrongVersion,
    /// The file changed while it was being read.
    Changed,
    /// Too many Interests were queued, for this file or in total.
    Overload,
    /// Reading failed, or an answer could not be encoded.
    Failed,
    /// A file was opened; all other uses found it open.
    Opened,
    /// A node of a manifest was sent.
    ManifestNode,
    /// A manifest was built; all other uses found it built.
    ManifestBuilt,
    /// A manifest was built from digests on disk.
    ManifestLoaded,
    /// A node of a manifest was requested while the manifest was being prepared.
    Preparing,
    /// A leaf of a manifest that is not built was hashed and signed.
    SignedLeaf,
}

/// Observes Interests: their names, and what was done.
pub type Observer = Arc<dyn Fn(NameRef<'_>, Event) + Send + Sync>;

impl Event {
    /// All events with their names.
    pub const ALL: [(Self, &'static str); 20] = [
        (Self::Segment, "segments"),
        (Self::Metadata, "metadata"),
        (Self::Nack, "nacks"),
        (Self::Unrecognised, "unrecognised"),
        (Self::RefusedPath, "refused_path"),
        (Self::RefusedEscape, "refused_escape"),
        (Self::RefusedSpecial, "refused_special"),
        (Self::Denied, "denied"),
        (Self::NotFound, "not_found"),
        (Self::BeyondEnd, "beyond_end"),
        (Self::WrongVersion, "wrong_version"),
        (Self::Changed, "changed"),
        (Self::Overload, "overload"),
        (Self::Failed, "failed"),
        (Self::Opened, "opened"),
        (Self::ManifestNode, "manifest_nodes"),
        (Self::ManifestBuilt, "manifests_built"),
        (Self::ManifestLoaded, "manifests_loaded"),
        (Self::Preparing, "manifests_preparing"),
        (Self::SignedLeaf, "signed_leaves"),
    ];
}

impl From<Refusal> for Event {
    fn from(_: Refusal) -> Self {
        Self::RefusedPath
    }
}

impl From<OpenFailure> for Event {
    fn from(failure: OpenFailure) -> Self {
        match failure {
            OpenFailure::NotFound => Self::NotFound,
            OpenFailure::Outside | OpenFailure::Symlink => Self::RefusedEscape,
            OpenFailure::Special => Self::RefusedSpecial,
            OpenFailure::Denied => Self::Denied,
            OpenFailure::Other(_) => Self::Failed,
        }
    }
}

/// Counters of a server.
#[derive(Debug, Default)]
pub struct Counters {
    events: [AtomicU64; Event::ALL.len()],
    content_bytes: AtomicU64,
    signed_bytes: AtomicU64,
    digested_bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn add(&self, event: Event, count: u64) {
        self.events[event as usize].fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn add_content(&self, bytes: u64) {
        self.content_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_signed(&self, bytes: u64) {
        self.signed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_digested(&self, bytes: u64) {
        self.digested_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Number of occurrences.
    #[must_use]
    pub fn count(&self, event: Event) -> u64 {
        self.events[event as usize].load(Ordering::Relaxed)
    }

    /// Content bytes sent.
    #[must_use]
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes.load(Ordering::Relaxed)
    }

    /// Content bytes of segments that were hashed for their DigestSha256.
    #[must_use]
    pub fn signed_bytes(&self) -> u64 {
        self.signed_bytes.load(Ordering::Relaxed)
    }

    /// Content bytes of segments that were hashed for their implicit digests, which manifests list.
    #[must_use]
    pub fn digested_bytes(&self) -> u64 {
        self.digested_bytes.load(Ordering::Relaxed)
    }
}
