//! Segments that failed verification: each is requested again, bypassing the cache that may hold
//! the wrong packet.

use std::collections::HashMap;

use ndn_client::fetch::{CacheBypass, ReceivedSegment};
use ndn_security::Sha256Digest;
use tokio::task::JoinSet;

/// Maximum number of segments requested again at a time.
const SEGMENTS_MAX: usize = 256;
/// Maximum number of verification failures of one segment.
const REFUSED_MAX: u32 = 3;

/// A segment, and the reason for its rejection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) segment: u64,
    pub(super) reason: String,
}

/// Segments being requested again.
pub(super) struct Retries {
    cache_bypass: CacheBypass,
    asked: JoinSet<Result<ReceivedSegment, Refusal>>,
    /// Number of verification failures by segment.
    counts: HashMap<u64, u32>,
    refused: u64,
}

impl Retries {
    pub(super) fn new(cache_bypass: CacheBypass) -> Self {
        Self { cache_bypass, asked: JoinSet::new(), counts: HashMap::new(), refused: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Number of packets that failed verification.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Requests a segment again; returns the rejection if that was tried often enough.
    pub(super) fn ask(
        &mut self,
        refusal: Refusal,
        expected: Option<Sha256Digest>,
    ) -> Result<(), Refusal> {
        self.refused += 1;
        let count = self.counts.entry(refusal.segment).or_default();
        *count += 1;
        if *count >= REFUSED_MAX || self.asked.len() >= SEGMENTS_MAX {
            return Err(refusal);
        }
        let cache_bypass = self.cache_bypass.clone();
        self.asked.spawn(async move {
            let segment = refusal.segment;
            // The lack of another packet is not a reason of its own.
            let came = cache_bypass.fetch(segment, expected.as_ref()).await;
            came.map(|data| (segment, data)).map_err(|_| refusal)
        });
        Ok(())
    }

    /// The next answer, or why there is none; `None` if no segment is being requested.
    pub(super) async fn next(&mut self) -> Option<Result<ReceivedSegment, Refusal>> {
        loop {
            // A task fails only when the runtime ends, and this task with it.
            if let Ok(came) = self.asked.join_next().await? {
                return Some(came);
            }
        }
    }
}
