//! Trust anchors, which can be refreshed from files (ndn-cxx: `DynamicTrustAnchorGroup`).

use std::sync::Arc;
use std::time::Duration;

use ndn_types::Timestamp;

use crate::Certificate;

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
    refresh: Option<(Kept, Duration)>,
    /// The time of the next refresh; unknown before the first call.
    due: Option<Timestamp>,
    /// The last refresh failed.
    is_unreadable: bool,
}

impl AnchorGroup {
    /// Anchors without refresh.
    pub(super) fn fixed(anchors: Vec<Arc<Certificate>>) -> Self {
        Self { anchors, refresh: None, due: None, is_unreadable: false }
    }

    /// Anchors that were just read, with a refresh period in seconds.
    pub(super) fn new(kept: Kept, refresh_s: Option<u64>, anchors: Vec<Arc<Certificate>>) -> Self {
        let refresh = refresh_s.map(|seconds| (kept, Duration::from_secs(seconds)));
        Self { refresh, ..Self::fixed(anchors) }
    }

    pub(super) fn anchors(&self) -> &[Arc<Certificate>] {
        &self.anchors
    }

    /// The time of the next call of [`refresh`](Self::refresh); at once before the first call.
    pub(super) fn next_refresh(&self) -> Option<Timestamp> {
        self.refresh.as_ref().map(|_| self.due.unwrap_or_default())
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
    pub(super) fn refresh(
        &mut self,
        now: Timestamp,
        load: LoadAnchors<'_>,
    ) -> Option<AnchorChange> {
        let (kept, period) = self.refresh.as_ref()?;
        let is_due = self.due.is_some_and(|due| due <= now);
        if self.due.is_none() || is_due {
            self.due = Some(now + *period);
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
