//! Strategy timers.

use ndn_packet::{Interest, MAX_PACKET_SIZE};
use ndn_table::{FibSnapshot, InRecord, PREFIX_HASHES_MAX, PitIndex, Token};
use ndn_types::Timestamp;

use crate::strategy::{Context, PendingInterest, Strategy, StrategyTable, hinted_depth};
use crate::{TxKind, TxPacket, scope};

impl<'a> Context<'a> {
    /// Sets the timer of [`Context::set_timer`].
    pub(crate) fn schedule_strategy_timer(&mut self, entry: PitIndex, deadline: Timestamp) {
        let tables = &mut *self.tables;
        let token = tables.pcct.token(entry, tables.shard);
        let key = u64::from(token.entry) << 16 | u64::from(token.generation);
        // Without a free timer, the strategy continues without one.
        if tables.strategy_timers.schedule(key, deadline).is_err() {
            tables.counters.strategy_timers_refused.increment();
        }
    }

    /// Runs the timer scheduled under `key`, if the entry is still pending.
    pub(crate) fn strategy_timer(&mut self, key: u64, strategies: &StrategyTable) {
        let [_, _, e0, e1, e2, e3, g0, g1] = key.to_be_bytes();
        let token = Token {
            shard: self.tables.shard,
            entry: u32::from_be_bytes([e0, e1, e2, e3]),
            generation: u16::from_be_bytes([g0, g1]),
        };
        let Some(entry) = self.tables.pcct.find_token(token) else { return };
        self.with_pending(entry, strategies, |context, strategy, interest| {
            strategy.on_timer(context, interest);
        });
    }

    /// Calls `act` with the strategy of a PIT entry and its Interest, as it came from a face that is
    /// waiting.
    pub(super) fn with_pending(
        &mut self,
        entry: PitIndex,
        strategies: &StrategyTable,
        act: impl FnOnce(&mut Self, &dyn Strategy, &PendingInterest<'_>),
    ) {
        // Copies the Interest: it must not borrow from the PIT, which the strategy changes.
        let mut copy = std::mem::take(&mut self.tables.timer_scratch);
        copy.clear();
        let wire = self.tables.pcct.interest(entry);
        if wire.len() <= MAX_PACKET_SIZE {
            copy.extend_from_slice(wire);
            self.call_strategy(entry, &copy, strategies, act);
        }
        self.tables.timer_scratch = copy;
    }

    fn call_strategy(
        &mut self,
        entry: PitIndex,
        wire: &[u8],
        strategies: &StrategyTable,
        act: impl FnOnce(&mut Self, &dyn Strategy, &PendingInterest<'_>),
    ) {
        let Ok(interest) = Interest::parse(wire) else { return };
        let waiting = self.in_records(entry).find(|record| record.expiry() > self.now);
        let Some(&InRecord { face, lifetime_ms, .. }) = waiting else { return };
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let hash_count = self.tables.hasher.hash_prefixes(interest.name(), &mut hashes);
        let Some(prefix_hashes) = hash_count.map(|count| &hashes[..count]) else { return };
        let fib: &'a FibSnapshot = self.fib;
        let (next_hops, next_hops_depth) = match interest.forwarding_hint_range() {
            Some(range) => (self.next_hops_by_hint(&wire[range]), hinted_depth(prefix_hashes)),
            None => {
                let entry = fib.entry(fib.find_longest_prefix(interest.name(), prefix_hashes));
                (entry.next_hops(), entry.next_hops_depth())
            }
        };
        let is_from_local = self.tables.faces.find(face).is_some_and(|flags| flags.is_local());
        self.strategy = self.strategy_of(entry);
        if let Some(strategy) = strategies.strategy(self.strategy) {
            let interest = PendingInterest {
                entry,
                face,
                next_hops,
                next_hops_depth,
                prefix_hashes,
                packet: TxPacket::new(TxKind::Interest, wire, None),
                nonce: interest.nonce().unwrap_or_default(),
                lifetime_ms,
                is_at_hop_limit: interest.hop_limit() == Some(0),
                is_for_local: scope::is_localhost(interest.name())
                    || (scope::is_localhop(interest.name()) && !is_from_local),
            };
            act(self, strategy, &interest);
        }
    }
}
