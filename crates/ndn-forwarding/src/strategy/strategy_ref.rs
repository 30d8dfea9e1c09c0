//! An instance of a strategy.

use std::sync::Arc;

use ndn_table::PitIndex;

use super::best_route::BestRoute;
use super::{ArrivedNack, Context, PendingInterest, Strategy};
use crate::packet::RxPacket;

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
}

impl Strategy for StrategyRef {
    #[inline(always)]
    fn after_receive_interest(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        match self {
            Self::BestRoute(strategy) => strategy.after_receive_interest(context, interest),
            // A copy: for the default strategy, the Interest of the caller stays in registers.
            Self::Other(strategy) => strategy.after_receive_interest(context, &{ *interest }),
        }
    }

    #[inline(always)]
    fn before_satisfy(&self, context: &mut Context<'_>, entry: PitIndex, data: &RxPacket<'_>) {
        match self {
            Self::BestRoute(strategy) => strategy.before_satisfy(context, entry, data),
            Self::Other(strategy) => strategy.before_satisfy(context, entry, data),
        }
    }

    fn after_receive_nack(&self, context: &mut Context<'_>, entry: PitIndex, nack: &ArrivedNack) {
        match self {
            Self::BestRoute(strategy) => strategy.after_receive_nack(context, entry, nack),
            Self::Other(strategy) => strategy.after_receive_nack(context, entry, nack),
        }
    }

    fn on_timer(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        match self {
            Self::BestRoute(strategy) => strategy.on_timer(context, interest),
            Self::Other(strategy) => strategy.on_timer(context, interest),
        }
    }
}
