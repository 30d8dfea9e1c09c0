//! The engine for a network: the fast one, or the reference engine for what it refuses.

use std::sync::Arc;

use crate::fast::FastEngine;
use crate::network::{Network, TraceResult};
use crate::random::TraceRandom;
use crate::reference;

/// Runs traces of one network.
#[derive(Debug)]
pub enum Engine<'n> {
    /// Without digests.
    Fast(Box<FastEngine<'n>>),
    /// For networks that the fast engine refuses ([`FastEngine::refusal`]).
    Reference(Arc<Network>, TraceResult),
}

impl<'n> Engine<'n> {
    /// The engine for `network`, which has no [`fault`](Network::fault).
    #[must_use]
    pub fn new(network: &'n Network) -> Self {
        if FastEngine::refusal(network).is_some() {
            Self::Reference(Arc::new(network.clone()), TraceResult::default())
        } else {
            Self::Fast(Box::new(FastEngine::without_digests(network)))
        }
    }

    /// Runs one trace: every consumer sends until `horizon_ps`, and all packets end.
    pub fn run(&mut self, random: TraceRandom, horizon_ps: u64) -> &TraceResult {
        match self {
            Self::Fast(engine) => engine.run(random, horizon_ps),
            Self::Reference(network, result) => {
                *result = reference::run(network, random, horizon_ps);
                result
            }
        }
    }
}
