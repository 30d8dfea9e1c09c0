//! Trust anchors, some of which are read again from where they are kept (ndn-cxx:
//! `DynamicTrustAnchorGroup`).

use std::sync::Arc;

use super::config::{AnchorSource, LoadAnchors};
use crate::Certificate;

const SECOND_NS: u64 = 1_000_000_000;

/// Where anchors are kept that may change.
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

/// What reading anchors again has come to, where that is worth a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnchorChange {
    /// Other certificates are anchors now.
    Changed {
        /// The file or directory.
        path: String,
        /// How many anchors it holds.
        count: usize,
    },
    /// It could not be read: the anchors stay those that there were.
    Unreadable {
        /// The file or directory.
        path: String,
        /// Why.
        reason: String,
    },
}

/// Anchors that come from one place.
#[derive(Debug, Clone)]
pub(super) struct AnchorGroup {
    anchors: Vec<Arc<Certificate>>,
    /// Where they are read again, and how often.
    refresh: Option<(Kept, u64)>,
    /// Time of the next refresh on the monotonic clock; unknown before the first check.
    due_ns: Option<u64>,
    /// The last attempt has failed.
    is_unreadable: bool,
}

impl AnchorGroup {
    /// Anchors that stay.
    pub(super) fn fixed(anchors: Vec<Arc<Certificate>>) -> Self {
        Self { anchors, refresh: None, due_ns: None, is_unreadable: false }
    }

    /// Anchors that were just read, and their refresh interval in seconds.
    pub(super) fn new(kept: Kept, refresh_s: Option<u64>, anchors: Vec<Arc<Certificate>>) -> Self {
        let refresh = refresh_s.map(|seconds| (kept, seconds.saturating_mul(SECOND_NS)));
        Self { refresh, ..Self::fixed(anchors) }
    }

    pub(super) fn anchors(&self) -> &[Arc<Certificate>] {
        &self.anchors
    }

    /// When to call [`refresh`](Self::refresh): at once where no time was known yet.
    pub(super) fn next_refresh_ns(&self) -> Option<u64> {
        self.refresh.as_ref().map(|_| self.due_ns.unwrap_or(0))
    }

    /// Whether the anchors could be read again now.
    ///
    /// # Errors
    /// Why not, if they are to be.
    pub(super) fn check(&self, load: LoadAnchors<'_>) -> Result<(), String> {
        let Some((kept, _)) = &self.refresh else { return Ok(()) };
        load(kept.source()).map(drop)
    }

    /// Reads the anchors again if it is time.
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
