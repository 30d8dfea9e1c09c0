//! Incoming Data pipeline, unsolicited Data, insertion into the Content Store.

use ndn_table::{PitIndex, PitMatches, PitPhase, StrategyId};

use super::copies::SentCopies;
use super::finalize::Ending;
use crate::DropReason;
use crate::descriptor::Flags;
use crate::packet::RxPacket;
use crate::packet::sha256;
use crate::strategy::{ArrivedData, Context, StrategyTable};

/// The PIT entries that one Data satisfies.
#[derive(Debug)]
pub(crate) struct Matches {
    found: PitMatches,
    copies: SentCopies,
}

impl Matches {
    /// An empty list with room for the maximum number of entries.
    pub(crate) fn new() -> Self {
        Self { found: PitMatches::default(), copies: SentCopies::new() }
    }

    /// The entries that have not expired.
    pub(super) fn pending(&self) -> &[PitIndex] {
        self.found.as_slice()
    }

    /// The entries that have not expired, and the downstreams that have received a copy.
    pub(super) fn parts(&mut self) -> (&[PitIndex], &mut SentCopies) {
        (self.found.as_slice(), &mut self.copies)
    }
}

impl Context<'_> {
    /// Incoming Data pipeline.
    #[inline]
    pub(crate) fn incoming_data(
        &mut self,
        rx: &RxPacket<'_>,
        matches: &mut Matches,
        strategies: &StrategyTable,
    ) {
        if self.tables.faces.has_uncertain() {
            self.tables.faces.note_answer(rx.descriptor.face, self.now);
        }
        if self.may_concern_others(rx) {
            self.cross_shard_data(rx, None, matches, strategies);
            return;
        }
        let counters = &self.tables.counters;
        counters.in_data.increment();
        if rx.has(Flags::LOCALHOST) && !rx.has(Flags::FROM_LOCAL) {
            counters.drop_packet(DropReason::DataLocalhostScope);
            return;
        }
        let Matches { found, copies } = matches;
        self.find_matches(rx, found);
        let entries = found.as_slice();
        self.count_token(rx, entries);
        if entries.is_empty() {
            self.unsolicited_data(rx);
            return;
        }
        self.store(rx, true);
        let arrived = Self::arrived_data(rx);
        for &entry in entries {
            if self.tables.pcct.entry(entry).phase() == PitPhase::Held {
                continue;
            }
            self.strategy = self.strategy_of(entry);
            if let Some(strategy) = strategies.strategy(self.strategy) {
                strategy.before_satisfy(self, entry, &arrived);
            }
        }
        self.send_to_downstreams(rx, entries, copies);
        for &entry in entries {
            self.finalize_satisfied(entry, u64::from(rx.descriptor.period_ms));
        }
    }

    /// [`Self::find_matches`], with the token counters.
    pub(super) fn find_pending_matches(&mut self, rx: &RxPacket<'_>, matches: &mut Matches) {
        let found = &mut matches.found;
        self.find_matches(rx, found);
        self.count_token(rx, found.as_slice());
    }

    /// The PIT entries that a Data satisfies, at all prefix lengths. Entries that have expired are
    /// finalized here: the result must not depend on whether their timer has fired.
    #[inline]
    fn find_matches(&mut self, rx: &RxPacket<'_>, found: &mut PitMatches) {
        self.tables.pcct.find_pit_matches(&rx.data_key(), || sha256(rx.wire()), found);
        let (pcct, now) = (&self.tables.pcct, self.now);
        if found.as_slice().iter().any(|&entry| pcct.entry(entry).expiry() <= now) {
            self.end_expired(found);
        }
    }

    /// Finalizes the entries that have expired, and removes them from `found`.
    #[cold]
    fn end_expired(&mut self, found: &mut PitMatches) {
        let mut position = 0;
        while let Some(entry) = found.get(position) {
            if self.tables.pcct.entry(entry).expiry() > self.now {
                position += 1;
            } else {
                found.remove(position);
                self.finalize_unsatisfied(entry, Ending::Expiry);
            }
        }
    }

    /// Counts a hit or miss of a token of ours.
    #[inline]
    fn count_token(&self, rx: &RxPacket<'_>, entries: &[PitIndex]) {
        let Some(token) = rx.own_token().filter(|token| token.shard == self.tables.shard) else {
            return;
        };
        let named = self.tables.pcct.find_token(token);
        let counters = &self.tables.counters;
        if named.is_some_and(|named| entries.contains(&named)) {
            counters.token_hits.increment();
        } else {
            counters.token_misses.increment();
        }
    }

    /// Data unsolicited pipeline.
    #[cold]
    pub(super) fn unsolicited_data(&mut self, rx: &RxPacket<'_>) {
        self.tables.counters.unsolicited_data.increment();
        if self.tables.unsolicited.admits(rx.has(Flags::FROM_LOCAL)) {
            self.store(rx, false);
        } else {
            self.tables.counters.drop_packet(DropReason::UnsolicitedData);
        }
    }

    /// Inserts a Data into the Content Store, unless it has CachePolicy NoCache.
    #[inline]
    pub(super) fn store(&mut self, rx: &RxPacket<'_>, solicited: bool) {
        if rx.has(Flags::NO_CACHE) {
            return;
        }
        let freshness_ms = u64::from(rx.descriptor.period_ms);
        // Not an error: the Content Store may not admit, or have no room for so large a packet.
        let _ = self.tables.pcct.insert_data(
            &rx.data_key(),
            rx.wire(),
            freshness_ms,
            solicited,
            self.now,
        );
    }

    /// A received Data, as strategies see it.
    #[inline]
    pub(super) fn arrived_data<'d>(rx: &'d RxPacket<'d>) -> ArrivedData<'d> {
        ArrivedData { face: rx.descriptor.face, prefix_hashes: rx.hashes(), rx }
    }

    /// The strategy instance of a PIT entry.
    #[inline]
    pub(super) fn strategy_of(&self, entry: PitIndex) -> StrategyId {
        StrategyId(self.tables.pcct.entry(entry).strategy_id)
    }

    /// Sends the Data to every pending downstream except the face it arrived on (unless that is
    /// ad-hoc). A downstream waiting with several PIT tokens gets one copy for each; one waiting
    /// with the same token in several entries gets one copy.
    #[inline]
    fn send_to_downstreams(
        &mut self,
        rx: &RxPacket<'_>,
        entries: &[PitIndex],
        copies: &mut SentCopies,
    ) {
        let tables = &*self.tables;
        let face = rx.descriptor.face;
        let may_go_back = rx.has(Flags::FROM_AD_HOC);
        // The downstreams of one entry are distinct faces.
        let may_repeat = entries.len() > 1;
        if may_repeat {
            copies.clear();
        }
        for &entry in entries {
            if tables.pcct.entry(entry).phase() == PitPhase::Held {
                continue;
            }
            for record in tables.pcct.in_records(entry) {
                let is_waiting = record.expiry() > self.now;
                if !is_waiting || (record.face == face && !may_go_back) {
                    continue;
                }
                let token = tables.pcct.token_bytes(record);
                if !may_repeat || copies.insert(record.face, tables.hasher.hash_value(token)) {
                    tables.outgoing_arrived_data(self.tx, rx, record.face, token);
                }
            }
        }
    }
}
