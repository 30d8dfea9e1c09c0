//! Segments that did not verify: each is asked for again, past the cache that may hold the wrong packet.

use std::collections::HashMap;

use ndn_client::fetch::{CacheBypass, ReceivedSegment};
use ndn_security::Sha256Digest;
use tokio::task::JoinSet;

/// Segments that are asked for again at a time: more at once are no accident.
const SEGMENTS_MAX: usize = 256;
/// Times that one segment may not verify.
const REFUSED_MAX: u32 = 3;

/// A segment, and why it is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) segment: u64,
    pub(super) reason: String,
}

/// Those that are on their way.
pub(super) struct Again {
    cache_bypass: CacheBypass,
    asked: JoinSet<Result<ReceivedSegment, Refusal>>,
    /// How often each did not verify.
    counts: HashMap<u64, u32>,
    refused: u64,
}

impl Again {
    pub(super) fn new(cache_bypass: CacheBypass) -> Self {
        Self { cache_bypass, asked: JoinSet::new(), counts: HashMap::new(), refused: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Packets that did not verify.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Asks for a segment again; gives the refusal back if that has been tried often enough.
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
            // That nobody has another one is no reason of its own.
            let came = cache_bypass.fetch(segment, expected.as_ref()).await;
            came.map(|data| (segment, data)).map_err(|_| refusal)
        });
        Ok(())
    }

    /// The next answer, or why there is none; `None` if nothing is asked for.
    pub(super) async fn next(&mut self) -> Option<Result<ReceivedSegment, Refusal>> {
        loop {
            // A task fails only if the runtime ends, and this with it.
            if let Ok(came) = self.asked.join_next().await? {
                return Some(came);
            }
        }
    }
}
