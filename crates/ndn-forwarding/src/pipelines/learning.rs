//! Data held until its prefix announcement is found.

use ndn_packet::Data;
use ndn_table::{FaceIndex, PitIndex, PitPhase, Token};
use ndn_types::Timestamp;

use crate::descriptor::Flags;
use crate::learning::{Held, LearningRequest};
use crate::strategy::{ArrivedData, Context};
use crate::{TxKind, TxPacket};

/// Maximum time that a Data is held, as in NFD.
const HOLD_MS: u64 = 1000;

impl Context<'_> {
    /// Queues a request to the control thread.
    pub(crate) fn request_control(&mut self, request: LearningRequest) {
        if !self.tables.learning.ask(request) {
            self.tables.counters.learning_refused.increment();
        }
    }

    /// Holds a Data from the downstreams of `entry` until its announcement is found. If that is not
    /// possible, sends it without one.
    pub(crate) fn hold_data(&mut self, entry: PitIndex, data: &ArrivedData<'_>) {
        let rx = data.rx;
        let Ok(view) = Data::parse(rx.wire()) else { return };
        let held = Held {
            face: data.face,
            may_go_back: rx.has(Flags::FROM_AD_HOC),
            wire: rx.wire().into(),
            congestion_mark: u64::from(rx.descriptor.congestion_mark),
            is_localhost: rx.has(Flags::LOCALHOST),
            incoming_face_id: self.tables.faces.face_id(data.face),
            freshness_ms: view.freshness_ms().unwrap_or(0),
        };
        let ticket = self.tables.pcct.token(entry, self.tables.shard);
        if !self.tables.learning.hold(ticket, view.name().to_name(), held) {
            self.tables.counters.learning_refused.increment();
            return;
        }
        self.tables.pcct.entry_mut(entry).set_phase(PitPhase::Held);
        self.extend(entry, HOLD_MS);
    }

    /// Keeps an entry satisfied by a Data of `face` for `wait_ms`, to measure the answers of other
    /// upstreams.
    pub(crate) fn linger(&mut self, entry: PitIndex, face: FaceIndex, wait_ms: u64) {
        // The FreshnessPeriod of that Data is not known when the entry ends.
        if self.tables.pcct.entry(entry).must_be_fresh() {
            self.remember_nonces(entry);
        }
        self.tables.pcct.remove_out_record(entry, face);
        self.tables.pcct.entry_mut(entry).set_phase(PitPhase::Lingering);
        self.extend(entry, wait_ms);
    }

    fn extend(&mut self, entry: PitIndex, wait_ms: u64) {
        let expiry = self.now.plus_millis(wait_ms);
        self.tables.pcct.set_expiry(entry, expiry, self.now);
        if let Some(peers) = &mut self.tables.peers {
            peers.note_expiry(expiry);
        }
    }

    /// Sends a held Data to its pending downstreams, except the face it arrived on (unless that is
    /// ad-hoc).
    pub(crate) fn release_data(&mut self, ticket: Token, announcement: &[u8]) {
        let Some(held) = self.tables.learning.take(ticket) else { return };
        let Some(entry) = self.tables.pcct.find_token(ticket) else { return };
        if self.tables.pcct.entry(entry).phase() != PitPhase::Held {
            return;
        }
        let data = TxPacket {
            congestion_mark: held.congestion_mark,
            incoming_face_id: held.incoming_face_id,
            prefix_announcement: announcement,
            ..TxPacket::new(TxKind::Data, &held.wire, None)
        };
        let tables = &*self.tables;
        for record in tables.pcct.in_records(entry) {
            let is_origin = record.face == held.face && !held.may_go_back;
            if record.expiry() > self.now && !is_origin {
                let token = tables.pcct.token_bytes(record);
                tables.outgoing_data(self.tx, data, held.is_localhost, record.face, token);
            }
        }
        self.tables.pcct.entry_mut(entry).set_phase(PitPhase::Pending);
        self.finalize_satisfied(entry, held.freshness_ms);
    }

    /// Drops the held Data of an entry that ends.
    pub(crate) fn drop_held(&mut self, entry: PitIndex) {
        let ticket = self.tables.pcct.token(entry, self.tables.shard);
        self.tables.learning.take(ticket);
    }
}

impl crate::Shard {
    /// Next request of self-learning to the control thread. To be called after each burst.
    #[inline]
    pub fn poll_learning(&mut self) -> Option<LearningRequest> {
        self.tables.learning.next_request()
    }

    /// Answers [`LearningRequest::Find`]: sends the held Data with `announcement`, or without one
    /// if there is none.
    pub fn answer_learning(
        &mut self,
        now: Timestamp,
        ticket: Token,
        announcement: Option<&[u8]>,
        tx: &mut impl crate::TxSink,
    ) {
        let Self { tables, fib, .. } = self;
        let mut context =
            Context { now, tables, fib, tx, strategy: ndn_table::StrategyId::default() };
        context.release_data(ticket, announcement.unwrap_or_default());
    }
}
