//! Incoming Nack pipeline.

use ndn_packet::NackReason;
use ndn_table::PitPhase;

use super::finalize::Ending;
use crate::DropReason;
use crate::descriptor::Flags;
use crate::packet::RxPacket;
use crate::strategy::{ArrivedNack, Context, StrategyTable};

impl Context<'_> {
    /// Incoming Nack pipeline.
    pub(crate) fn incoming_nack(&mut self, rx: &RxPacket<'_>, strategies: &StrategyTable) {
        self.tables.counters.in_nacks.increment();
        match self.accept_nack(rx, strategies) {
            Ok(()) => {}
            Err(_) if rx.has(Flags::PREVIOUS_OWNER) => self.pass_on(rx),
            Err(reason) => self.tables.counters.drop_packet(reason),
        }
    }

    fn accept_nack(
        &mut self,
        rx: &RxPacket<'_>,
        strategies: &StrategyTable,
    ) -> Result<(), DropReason> {
        if !rx.has(Flags::FROM_POINT_TO_POINT) {
            return Err(DropReason::NackLinkType);
        }
        let entry = self.find_or_expire(&rx.interest_key()).ok_or(DropReason::NackUnmatched)?;
        let pcct = &mut self.tables.pcct;
        if pcct.entry(entry).phase() == PitPhase::Held {
            // Another upstream has answered.
            return Ok(());
        }
        let record = pcct.out_record_mut(entry, rx.descriptor.face);
        let record = record.ok_or(DropReason::NackNoOutRecord)?;
        if record.nonce != rx.descriptor.nonce {
            return Err(DropReason::NackNonce);
        }
        record.nack_reason = Some(rx.descriptor.nack_reason);
        let is_waiting = self.out_records(entry).any(|record| self.is_awaited(record));
        let token = self.tables.pcct.token(entry, self.tables.shard);
        self.strategy = self.strategy_of(entry);
        let nack = ArrivedNack {
            face: rx.descriptor.face,
            reason: NackReason(u64::from(rx.descriptor.nack_reason)),
            congestion_mark: rx.descriptor.congestion_mark,
        };
        if let Some(strategy) = strategies.strategy(self.strategy) {
            strategy.after_receive_nack(self, entry, &nack);
        }
        // The strategy may have ended the entry.
        if !is_waiting && self.tables.pcct.find_token(token) == Some(entry) {
            self.finalize_unsatisfied(entry, Ending::Nack);
        }
        Ok(())
    }
}
