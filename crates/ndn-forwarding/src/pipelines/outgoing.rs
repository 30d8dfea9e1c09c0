//! Outgoing Interest, Data and Nack pipelines.

use ndn_packet::{Interest, NackReason};
use ndn_ring::PacketHandle;
use ndn_table::{FaceIndex, InRecord, PitIndex};

use crate::descriptor::Flags;
use crate::packet::RxPacket;
use crate::strategy::{Context, PendingInterest};
use crate::{Counters, DropReason, FaceTable, TxKind, TxPacket, TxSink};

/// An outgoing Data, for one or several downstreams.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutgoingData<'a> {
    pub(crate) wire: &'a [u8],
    pub(crate) handle: Option<&'a PacketHandle>,
    pub(crate) congestion_mark: u16,
    pub(crate) is_localhost: bool,
    /// FaceId of its origin.
    pub(crate) incoming_face_id: u64,
    /// PrefixAnnouncement; empty for none.
    pub(crate) announcement: &'a [u8],
}

impl<'a> OutgoingData<'a> {
    /// A received Data.
    #[inline]
    pub(crate) fn of(rx: &RxPacket<'a>, incoming_face_id: u64) -> Self {
        Self {
            wire: rx.wire(),
            handle: rx.handle(),
            congestion_mark: rx.descriptor.congestion_mark,
            is_localhost: rx.has(Flags::LOCALHOST),
            incoming_face_id,
            announcement: rx.announcement(),
        }
    }

    /// Sends the Data to a downstream with the downstream's PIT token.
    #[inline]
    pub(crate) fn send(
        &self,
        faces: &FaceTable,
        counters: &Counters,
        tx: &mut dyn TxSink,
        face: FaceIndex,
        pit_token: &[u8],
    ) {
        let Some(flags) = faces.find(face) else {
            counters.drop_packet(DropReason::EgressFaceGone);
            return;
        };
        if self.is_localhost && !flags.is_local() {
            counters.drop_packet(DropReason::EgressLocalhostScope);
            return;
        }
        counters.out_data.increment();
        let packet = TxPacket {
            kind: TxKind::Data,
            wire: self.wire,
            handle: self.handle,
            pit_token,
            congestion_mark: u64::from(self.congestion_mark),
            incoming_face_id: flags.has_local_fields().then_some(self.incoming_face_id),
            non_discovery: false,
            prefix_announcement: self.announcement,
        };
        tx.send(face, packet);
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
        let packet = &interest.packet;
        let flags = self.tables.faces.find(face).ok_or(DropReason::EgressFaceGone)?;
        if packet.is_at_hop_limit && !flags.is_local() {
            return Err(DropReason::HopLimitReached);
        }
        self.admit_out_record(interest.entry, face)?;
        let tables = &mut *self.tables;
        tables
            .pcct
            .insert_out_record(interest.entry, face, packet.nonce, packet.lifetime_ms, self.now)
            .map_err(|_| DropReason::OutRecordsFull)?;
        let token = tables.pcct.token(interest.entry, tables.shard).encode();
        let incoming_face_id =
            if flags.has_local_fields() { tables.faces.face_id(interest.face) } else { None };
        tables.counters.out_interests.increment();
        self.tx.send(
            face,
            TxPacket {
                kind: TxKind::Interest,
                wire: packet.wire,
                handle: packet.handle,
                pit_token: if flags.sends_tokens() { &token } else { &[] },
                congestion_mark: u64::from(packet.congestion_mark),
                incoming_face_id,
                non_discovery: packet.non_discovery,
                prefix_announcement: &[],
            },
        );
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
            kind: TxKind::Nack(reason),
            wire: copy,
            handle: None,
            pit_token: tables.pcct.token_bytes(record),
            congestion_mark: u64::from(congestion_mark),
            incoming_face_id: None,
            non_discovery: false,
            prefix_announcement: &[],
        };
        tables.counters.out_nacks.increment();
        self.tx.send(record.face, packet);
    }
}
