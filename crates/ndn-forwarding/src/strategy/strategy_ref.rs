//! An instance of a strategy.

use std::sync::Arc;

use super::Strategy;
use super::best_route::BestRoute;

/// An instance shared by all shards. The default strategy is called without a table of methods.
#[derive(Debug, Clone)]
pub(crate) enum StrategyRef {
    BestRoute(BestRoute),
    Other(Arc<dyn Strategy>),
}

impl StrategyRef {
    pub(crate) fn new(strategy: impl Strategy + 'static) -> Self {
        Self::Other(Arc::new(strategy))
    }

    pub(crate) fn as_dyn(&self) -> &dyn Strategy {
        match self {
            Self::BestRoute(strategy) => strategy,
            Self::Other(strategy) => &**strategy,
        }
    }
}
