//! A fault that simulations plant: strategies that forget Interests.

use std::sync::atomic::{AtomicU32, Ordering};

use ndn_table::PitIndex;

use super::strategy_ref::StrategyRef;
use super::{ArrivedNack, Context, PendingInterest, Strategy};
use crate::packet::RxPacket;

/// One in this number of Interests is forgotten.
const INTERVAL: u32 = 5;

/// A strategy that does nothing about some Interests.
#[derive(Debug)]
pub(super) struct Forgetful {
    strategy: StrategyRef,
    interests: AtomicU32,
}

impl Forgetful {
    pub(super) fn new(strategy: StrategyRef) -> Self {
        Self { strategy, interests: AtomicU32::new(0) }
    }
}

impl Strategy for Forgetful {
    fn after_receive_interest(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        let before = self.interests.fetch_add(1, Ordering::Relaxed);
        if !(before + 1).is_multiple_of(INTERVAL) {
            self.strategy.after_receive_interest(context, interest);
        }
    }

    fn before_satisfy(&self, context: &mut Context<'_>, entry: PitIndex, data: &RxPacket<'_>) {
        self.strategy.before_satisfy(context, entry, data);
    }

    fn after_receive_nack(&self, context: &mut Context<'_>, entry: PitIndex, nack: &ArrivedNack) {
        self.strategy.after_receive_nack(context, entry, nack);
    }

    fn on_timer(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        self.strategy.on_timer(context, interest);
    }
}
