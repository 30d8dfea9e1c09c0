//! The link service: frames from anybody, in any order, at any time.

use std::sync::Arc;

use ndn_face::{
    FaceCounters, FaceMemory, FrameSink, Holder, LinkDropReason, LinkOptions, LinkService,
    MemoryKind, Received,
};
use ndn_forwarding::{LpFields, TxKind, TxPacket};
use ndn_packet::MAX_PACKET_SIZE;
use ndn_ring::PacketHandle;
use ndn_types::{Reserves, Timestamp};

/// Bytes of fragments that may wait; little, so that a short input reaches it.
const MEMORY: usize = 8 * 1024;

/// Takes the bytes as frames that arrive one after the other: for each, one byte of time since the
/// one before (units of 4 ms), two bytes of length, and the frame. What arrives whole is sent over
/// a second link with a small MTU, where it must arrive too.
pub(crate) fn link(mut bytes: &[u8]) {
    let counters = Arc::new(FaceCounters::default());
    let mut service = LinkService::new(LinkOptions::stream(), Arc::clone(&counters), 0);
    let mut memory = FaceMemory::new(0, MEMORY, Reserves::NONE);
    let mut millis = 0;
    let (mut frames, mut delivered, mut refused) = (0, 0, 0);
    while let Some((head, rest)) = bytes.split_first_chunk::<3>() {
        let length = usize::from(u16::from_be_bytes([head[1], head[2]])).min(rest.len());
        let (frame, rest) = rest.split_at(length);
        bytes = rest;
        millis += u64::from(head[0]) * 4;
        let now = Timestamp::from_millis(millis);
        frames += 1;
        match service.receive(now, frame, &mut memory.reassembly(Holder::UNACCOUNTED)) {
            Ok(Received::Packet { offset, fields }) => {
                delivered += 1;
                forward(&frame[offset..], &fields, usize::from(head[2]));
            }
            Ok(Received::Reassembled { packet, fields }) => {
                delivered += 1;
                forward(packet, &fields, usize::from(head[2]));
            }
            Ok(Received::Nothing) => {}
            Err(_) => refused += 1,
        }
        assert!(memory.used(MemoryKind::Reassembly) <= MEMORY);
        if service.next_deadline().is_some_and(|deadline| deadline <= now) {
            service.handle_timeout(now, &mut memory.reassembly(Holder::UNACCOUNTED));
        }
    }
    assert_eq!(counters.in_frames.value(), frames);
    let kinds = [&counters.in_interests, &counters.in_data, &counters.in_nacks];
    assert_eq!(kinds.map(|kind| kind.value()).iter().sum::<u64>(), delivered);
    let given_up = counters.dropped(LinkDropReason::ReassemblyTimeout).value();
    assert!(counters.dropped_total() >= refused && given_up <= frames);
    service.close(&mut memory.reassembly(Holder::UNACCOUNTED));
    assert_eq!(memory.used(MemoryKind::Reassembly), 0);
}

/// Sends a delivered packet in frames of at most `mtu` bytes and receives it again.
fn forward(packet: &[u8], fields: &LpFields, mtu: usize) {
    let end = packet.len() - usize::from(fields.announcement_length);
    let (packet, announcement) = packet.split_at(end);
    assert!(!packet.is_empty() && packet.len() <= MAX_PACKET_SIZE);
    let kind = match (packet[0], fields.nack) {
        (5, Some(reason)) => TxKind::Nack(reason),
        (5, None) => TxKind::Interest,
        (6, _) => TxKind::Data,
        (other, _) => panic!("a packet of type {other}"),
    };
    let sent = TxPacket {
        kind,
        wire: packet,
        handle: None,
        pit_token: fields.pit_token.as_bytes(),
        congestion_mark: fields.congestion_mark,
        incoming_face_id: None,
        non_discovery: fields.non_discovery,
        prefix_announcement: announcement,
    };
    let mut link = Link { bytes: Vec::new(), ends: Vec::new(), mtu };
    let mut sender = LinkService::new(LinkOptions::datagram(mtu), Arc::default(), u64::MAX - 1);
    if sender.send(Timestamp::ZERO, &sent, &mut link).is_err() {
        assert!(link.ends.is_empty());
        return;
    }
    let mut receiver = LinkService::new(LinkOptions::stream(), Arc::default(), 0);
    let mut memory = FaceMemory::new(1 << 20, 1 << 20, Reserves::NONE);
    let (mut start, count) = (0, link.ends.len());
    for end in &link.ends[..count.checked_sub(1).expect("something was sent")] {
        let frame = &link.bytes[start..*end];
        start = *end;
        let received =
            receiver.receive(Timestamp::ZERO, frame, &mut memory.reassembly(Holder::UNACCOUNTED));
        assert!(matches!(received, Ok(Received::Nothing)));
    }
    let last = &link.bytes[start..];
    let (got, got_fields) = match receiver.receive(
        Timestamp::ZERO,
        last,
        &mut memory.reassembly(Holder::UNACCOUNTED),
    ) {
        Ok(Received::Packet { offset, fields }) => (&last[offset..], fields),
        Ok(Received::Reassembled { packet, fields }) => (packet, fields),
        other => panic!("{other:?} for the last frame"),
    };
    assert_eq!(got, packet);
    assert_eq!(got_fields.pit_token, fields.pit_token);
    assert_eq!(got_fields.congestion_mark, fields.congestion_mark);
    assert_eq!(got_fields.nack, if packet[0] == 5 { fields.nack } else { None });
}

/// A link that loses nothing.
struct Link {
    /// All frames, one behind the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    mtu: usize,
}

impl FrameSink for Link {
    fn queued_bytes(&self) -> usize {
        0
    }

    fn push_frame(
        &mut self,
        header: &[u8],
        payload: &[u8],
        _handle: Option<&PacketHandle>,
    ) -> Result<(), LinkDropReason> {
        assert!(header.len() + payload.len() <= self.mtu);
        self.bytes.extend_from_slice(header);
        self.bytes.extend_from_slice(payload);
        self.ends.push(self.bytes.len());
        Ok(())
    }
}
