//! Outgoing Interest, Data and Nack pipelines.

use ndn_packet::{Interest, NackReason};
use ndn_table::{FaceIndex, InRecord, PitIndex};

use crate::descriptor::Flags;
use crate::face_table::FaceFlags;
use crate::packet::RxPacket;
use crate::strategy::{Context, PendingInterest};
use crate::tables::Tables;
use crate::{DropReason, TxKind, TxPacket, TxSink};

impl Tables {
    /// Sends a Data to a downstream with the downstream's PIT token. `is_localhost` is that of its name.
    #[inline]
    pub(crate) fn outgoing_data(
        &self,
        tx: &mut dyn TxSink,
        data: TxPacket<'_>,
        is_localhost: bool,
        face: FaceIndex,
        pit_token: &[u8],
    ) {
        if let Some(flags) = self.find_downstream(is_localhost, face) {
            self.counters.out_data.increment();
            let incoming_face_id = data.incoming_face_id.filter(|_| flags.has_local_fields());
            tx.send(face, &TxPacket { pit_token, incoming_face_id, ..data });
        }
    }

    /// [`Self::outgoing_data`] of an arrived packet.
    #[inline(always)]
    pub(super) fn outgoing_arrived_data(
        &self,
        tx: &mut dyn TxSink,
        rx: &RxPacket<'_>,
        face: FaceIndex,
        pit_token: &[u8],
    ) {
        if let Some(flags) = self.find_downstream(rx.has(Flags::LOCALHOST), face) {
            self.counters.out_data.increment();
            let incoming_face_id = match flags.has_local_fields() {
                true => self.faces.face_id(rx.descriptor.face),
                false => None,
            };
            let data = rx.tx_packet(TxKind::Data);
            tx.send(face, &TxPacket { pit_token, incoming_face_id, ..data });
        }
    }

    /// The properties of a face to which a Data may be sent; counts a drop if it may not.
    #[inline(always)]
    fn find_downstream(&self, is_localhost: bool, face: FaceIndex) -> Option<FaceFlags> {
        let Some(flags) = self.faces.find(face) else {
            self.counters.drop_packet(DropReason::EgressFaceGone);
            return None;
        };
        if is_localhost && !flags.is_local() {
            self.counters.drop_packet(DropReason::EgressLocalhostScope);
            return None;
        }
        Some(flags)
    }
}

impl Context<'_> {
    /// Records an Interest in the out-record of `face` and sends it.
    #[inline]
    pub(crate) fn outgoing_interest(
        &mut self,
        interest: &PendingInterest<'_>,
        face: FaceIndex,
    ) -> Result<(), DropReason> {
        let flags = self.tables.faces.find(face).ok_or(DropReason::EgressFaceGone)?;
        if interest.is_at_hop_limit && !flags.is_local() {
            return Err(DropReason::HopLimitReached);
        }
        self.admit_out_record(interest.entry, face)?;
        let tables = &mut *self.tables;
        tables
            .pcct
            .insert_out_record(interest.entry, face, interest.nonce, interest.lifetime_ms, self.now)
            .map_err(|_| DropReason::OutRecordsFull)?;
        let token = tables.pcct.token(interest.entry, tables.shard).encode();
        let incoming_face_id =
            if flags.has_local_fields() { tables.faces.face_id(interest.face) } else { None };
        tables.counters.out_interests.increment();
        let pit_token = if flags.sends_tokens() { &token[..] } else { &[] };
        self.tx.send(face, &TxPacket { pit_token, incoming_face_id, ..interest.packet });
        Ok(())
    }

    /// Sends a Nack to a downstream of `entry`, unless its Interest has expired, and removes its
    /// in-record. Returns whether the in-record was removed: only point-to-point faces get Nacks.
    pub(crate) fn outgoing_nack(
        &mut self,
        entry: PitIndex,
        face: FaceIndex,
        reason: NackReason,
        congestion_mark: u16,
    ) -> bool {
        let tables = &mut *self.tables;
        if !tables.faces.find(face).is_some_and(|flags| flags.is_point_to_point()) {
            return false;
        }
        let Some(record) = tables.pcct.in_records(entry).find(|record| record.face == face) else {
            return false;
        };
        let record = *record;
        if record.expiry() > self.now {
            tables.counters.in_records_nacked.increment();
            self.send_nack_for(entry, &record, reason, congestion_mark);
        } else {
            tables.counters.in_records_expired.increment();
        }
        self.tables.pcct.remove_in_record(entry, face);
        true
    }

    /// Sends a Nack to the downstream of an in-record, which stays.
    pub(super) fn send_nack_for(
        &mut self,
        entry: PitIndex,
        record: &InRecord,
        reason: NackReason,
        congestion_mark: u16,
    ) {
        let tables = &mut *self.tables;
        let interest = tables.pcct.interest(entry);
        let Some(copy) = tables.scratch.get_mut(..interest.len()) else {
            tables.counters.drop_packet(DropReason::NackTooLong);
            return;
        };
        copy.copy_from_slice(interest);
        // The downstream identifies its Interest by the Nonce that it sent.
        let nonce_offset = Interest::parse(interest).ok().and_then(|view| view.nonce_offset());
        if let Some(offset) = nonce_offset {
            copy[offset..offset + 4].copy_from_slice(&record.nonce.to_be_bytes());
        }
        let packet = TxPacket {
            pit_token: tables.pcct.token_bytes(record),
            congestion_mark: u64::from(congestion_mark),
            ..TxPacket::new(TxKind::Nack(reason), copy, None)
        };
        tables.counters.out_nacks.increment();
        self.tx.send(record.face, &packet);
    }
}
