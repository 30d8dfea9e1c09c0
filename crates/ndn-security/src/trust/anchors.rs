//! Trust anchors, which can be refreshed from files (ndn-cxx: `DynamicTrustAnchorGroup`).

use std::sync::Arc;

use crate::Certificate;

const SECOND_NS: u64 = 1_000_000_000;

/// The location of trust anchors; paths are as in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnchorSource<'a> {
    /// One certificate.
    File(&'a str),
    /// A directory of certificates.
    Directory(&'a str),
}

/// Reads certificates from their location; returns the reason of a failure.
pub type LoadAnchors<'l> =
    &'l mut dyn FnMut(AnchorSource<'_>) -> Result<Vec<Arc<Certificate>>, String>;

/// The location of refreshed anchors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kept {
    File(String),
    Directory(String),
}

impl Kept {
    fn source(&self) -> AnchorSource<'_> {
        match self {
            Self::File(path) => AnchorSource::File(path),
            Self::Directory(path) => AnchorSource::Directory(path),
        }
    }

    fn path(&self) -> &str {
        match self {
            Self::File(path) | Self::Directory(path) => path,
        }
    }
}

/// A change of refreshed anchors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnchorChange {
    /// The anchors have changed.
    Changed {
        /// The file or directory.
        path: String,
        /// Number of its anchors.
        count: usize,
    },
    /// The location could not be read; the anchors stay as they were.
    Unreadable {
        /// The file or directory.
        path: String,
        /// The reason.
        reason: String,
    },
}

/// The anchors of one location.
#[derive(Debug, Clone)]
pub(super) struct AnchorGroup {
    anchors: Vec<Arc<Certificate>>,
    /// The location and the refresh period.
    refresh: Option<(Kept, u64)>,
    /// The next refresh, on the monotonic clock; unknown before the first call.
    due_ns: Option<u64>,
    /// The last refresh failed.
    is_unreadable: bool,
}

impl AnchorGroup {
    /// Anchors without refresh.
    pub(super) fn fixed(anchors: Vec<Arc<Certificate>>) -> Self {
        Self { anchors, refresh: None, due_ns: None, is_unreadable: false }
    }

    /// Anchors that were just read, with a refresh period in seconds.
    pub(super) fn new(kept: Kept, refresh_s: Option<u64>, anchors: Vec<Arc<Certificate>>) -> Self {
        let refresh = refresh_s.map(|seconds| (kept, seconds.saturating_mul(SECOND_NS)));
        Self { refresh, ..Self::fixed(anchors) }
    }

    pub(super) fn anchors(&self) -> &[Arc<Certificate>] {
        &self.anchors
    }

    /// The time of the next call of [`refresh`](Self::refresh); at once before the first call.
    pub(super) fn next_refresh_ns(&self) -> Option<u64> {
        self.refresh.as_ref().map(|_| self.due_ns.unwrap_or(0))
    }

    /// Checks whether the anchors can be read.
    ///
    /// # Errors
    /// The reason why they cannot be read, if they are refreshed.
    pub(super) fn check(&self, load: LoadAnchors<'_>) -> Result<(), String> {
        let Some((kept, _)) = &self.refresh else { return Ok(()) };
        load(kept.source()).map(drop)
    }

    /// Reads the anchors if their refresh is due.
    pub(super) fn refresh(&mut self, now_ns: u64, load: LoadAnchors<'_>) -> Option<AnchorChange> {
        let (kept, period_ns) = self.refresh.as_ref()?;
        let is_due = self.due_ns.is_some_and(|due_ns| due_ns <= now_ns);
        if self.due_ns.is_none() || is_due {
            self.due_ns = Some(now_ns.saturating_add(*period_ns));
        }
        if !is_due {
            return None;
        }
        let path = kept.path().to_owned();
        match load(kept.source()) {
            Ok(anchors) => {
                let is_same = self.anchors.len() == anchors.len()
                    && self.anchors.iter().zip(&anchors).all(|(a, b)| a.wire() == b.wire());
                self.is_unreadable = false;
                let count = anchors.len();
                self.anchors = anchors;
                (!is_same).then_some(AnchorChange::Changed { path, count })
            }
            Err(reason) => {
                let was_unreadable = std::mem::replace(&mut self.is_unreadable, true);
                (!was_unreadable).then_some(AnchorChange::Unreadable { path, reason })
            }
        }
    }
}
