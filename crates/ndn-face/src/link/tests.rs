//! The link service on virtual time: a sender, a receiver, and a link that misbehaves.
#![allow(clippy::cast_possible_truncation, reason = "small numbers in tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ndn_forwarding::{TxKind, TxPacket};
use ndn_packet::{LpHeader, NackReason};
use ndn_ring::PacketHandle;
use proptest::prelude::*;

use super::*;
use crate::LinkDropReason as Reason;
use crate::memory::{FaceMemory, Holder, MemoryKind};
use crate::options::{CONGESTION_INTERVAL, CONGESTION_THRESHOLD};
use ndn_types::Reserves;

pub(super) fn service(mtu: Option<usize>) -> LinkService {
    let options = LinkOptions { mtu, local_fields: true, ..LinkOptions::stream() };
    // Numbers run over on the way.
    LinkService::new(options, Arc::default(), u64::MAX - 3)
}

/// The account of all faces in these tests.
pub(super) const OWNER: Holder = Holder::UNACCOUNTED;

pub(super) fn memory() -> FaceMemory {
    FaceMemory::new(1 << 20, 1 << 20, Reserves::NONE)
}

pub(super) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A Data-like TLV; the link service reads only the type.
pub(super) fn wire(length: usize, seed: u8) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|at| (at as u8).wrapping_mul(31) ^ seed).collect();
    bytes[0] = 6;
    bytes
}

pub(super) fn packet(wire: &[u8]) -> TxPacket<'_> {
    TxPacket {
        kind: TxKind::Data,
        wire,
        handle: None,
        pit_token: &[],
        congestion_mark: 0,
        incoming_face_id: None,
        non_discovery: false,
        prefix_announcement: &[],
    }
}

/// An output queue that takes everything.
#[derive(Default)]
pub(super) struct Frames {
    pub(super) frames: Vec<Vec<u8>>,
    queued_bytes: usize,
}

impl FrameSink for Frames {
    fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    fn push_frame(
        &mut self,
        header: &[u8],
        payload: &[u8],
        _handle: Option<&PacketHandle>,
    ) -> Result<(), Reason> {
        self.frames.push([header, payload].concat());
        Ok(())
    }
}

pub(super) fn frames(service: &mut LinkService, packet: &TxPacket<'_>) -> Vec<Vec<u8>> {
    let mut sink = Frames::default();
    service.send(at(0), packet, &mut sink).unwrap();
    sink.frames
}

/// The result of `receive` for forwarding.
pub(super) fn deliver(
    service: &mut LinkService,
    now: Timestamp,
    frame: &[u8],
    memory: &mut Account<'_>,
) -> Option<(Vec<u8>, LpFields)> {
    match service.receive(now, frame, memory) {
        Ok(Received::Packet { offset, fields }) => Some((frame[offset..].to_vec(), fields)),
        Ok(Received::Reassembled { packet, fields }) => Some((packet.to_vec(), fields)),
        Ok(Received::Nothing) | Err(_) => None,
    }
}

pub(super) fn fragment(sequence: Option<u64>, index: u64, count: u64, payload: &[u8]) -> Vec<u8> {
    let header = LpHeader {
        sequence,
        frag_index: Some(index),
        frag_count: Some(count),
        ..LpHeader::default()
    };
    let mut frame = vec![0; header.encoded_len(payload.len()) + payload.len()];
    header.write(payload, &mut frame).unwrap();
    frame
}

#[test]
fn packet_without_fields_has_no_header() {
    let data = wire(300, 1);
    let sent = frames(&mut service(Some(1400)), &packet(&data));
    assert_eq!(sent, std::slice::from_ref(&data));
    let (bytes, fields) =
        deliver(&mut service(None), at(0), &sent[0], &mut memory().reassembly(OWNER)).unwrap();
    assert_eq!(bytes, data);
    assert!(fields.pit_token.as_bytes().is_empty() && fields.nack.is_none());
}

#[test]
fn fields_arrive_with_and_without_fragmentation() {
    let interest = [&[5, 198][..], &[1; 198]].concat();
    for mtu in [None, Some(128)] {
        let sent = TxPacket {
            kind: TxKind::Nack(NackReason::NO_ROUTE),
            pit_token: &[9; 32],
            congestion_mark: 2,
            incoming_face_id: Some(260),
            ..packet(&interest)
        };
        let mut sent = frames(&mut service(mtu), &sent);
        assert_eq!(sent.len() > 1, mtu.is_some());
        // The fields are those of the first fragment, whenever it comes.
        sent.rotate_left(1);
        let (mut receiver, mut memory) = (service(None), memory());
        let mut got: Vec<_> = sent
            .iter()
            .filter_map(|frame| deliver(&mut receiver, at(0), frame, &mut memory.reassembly(OWNER)))
            .collect();
        let (bytes, fields) = got.pop().unwrap();
        assert!(got.is_empty());
        assert_eq!(bytes, interest);
        assert_eq!(fields.pit_token.as_bytes(), [9; 32]);
        assert_eq!(fields.nack, Some(NackReason::NO_ROUTE));
        assert_eq!(fields.congestion_mark, 2);
        assert_eq!(receiver.counters().in_nacks.value(), 1);
        assert_eq!(receiver.counters().in_interests.value(), 0);
        assert_eq!(receiver.counters().in_frames.value(), sent.len() as u64);
        assert_eq!(memory.used(MemoryKind::Reassembly), 0);
    }
}

#[test]
fn received_fields_reach_forwarding() {
    let interest = [5, 2, 7, 0];
    let header = LpHeader {
        incoming_face_id: Some(5),
        next_hop_face_id: Some(300),
        cache_policy: Some(NO_CACHE),
        acks: &[1, 2],
        tx_sequence: Some(9),
        non_discovery: true,
        ..LpHeader::default()
    };
    let mut frame = [0; 128];
    let length = header.write(&interest, &mut frame).unwrap();
    let (_, fields) =
        deliver(&mut service(None), at(0), &frame[..length], &mut memory().reassembly(OWNER))
            .unwrap();
    assert_eq!(fields.next_hop_face_id, Some(300));
    assert!(fields.no_cache && fields.non_discovery);
}

#[test]
fn incoming_face_id_is_sent_only_with_local_fields() {
    let mut sender = service(None);
    sender.set_options(LinkOptions { local_fields: false, ..*sender.options() });
    let data = wire(300, 1);
    let sent = frames(&mut sender, &TxPacket { incoming_face_id: Some(1), ..packet(&data) });
    assert_eq!(sent, [data]);
}

#[test]
fn no_frame_exceeds_the_mtu_and_counters_agree() {
    for mtu in [128, 200, 576, 1400, 8800] {
        for length in [100, mtu - 1, mtu, mtu + 1, 2 * mtu, 8800] {
            let data = wire(length.min(8800), 7);
            let mut sender = service(Some(mtu));
            let sent = frames(&mut sender, &TxPacket { pit_token: &[1; 6], ..packet(&data) });
            assert!(sent.iter().all(|frame| frame.len() <= mtu));
            let bytes: usize = sent.iter().map(Vec::len).sum();
            assert_eq!(sender.counters().out_bytes.value(), bytes as u64);
            assert_eq!(sender.counters().out_frames.value(), sent.len() as u64);
            assert_eq!(sender.counters().out_data.value(), 1);
            let (mut receiver, mut memory) = (service(None), memory());
            let got: Vec<_> = sent
                .iter()
                .filter_map(|frame| {
                    deliver(&mut receiver, at(0), frame, &mut memory.reassembly(OWNER))
                })
                .collect();
            assert_eq!(got.len(), 1);
            assert_eq!(got[0].0, data);
            assert_eq!(receiver.counters().in_bytes.value(), bytes as u64);
        }
    }
}

#[test]
fn malformed_frames_are_counted_by_reason() {
    let (mut receiver, mut memory) = (service(None), memory());
    let mut idle = [0; 32];
    let length = LpHeader { acks: &[1, 2], ..LpHeader::default() }.write_idle(&mut idle).unwrap();
    assert!(matches!(
        receiver.receive(at(0), &idle[..length], &mut memory.reassembly(OWNER)),
        Ok(Received::Nothing)
    ));
    let long = wire(8801, 0);
    let cases: [(&[u8], Reason); 8] = [
        (&[], Reason::Malformed),
        (&[0x64], Reason::Malformed),
        (&[0x64, 5, 1], Reason::Malformed),
        (&[0x64, 2, 0x63, 0], Reason::Malformed),
        (&[0x64, 2, 0x50, 0], Reason::Malformed),
        (&[0x17, 0], Reason::UnknownType),
        (&[0x64, 4, 0x50, 2, 0x17, 0], Reason::UnknownType),
        (&long, Reason::TooLong),
    ];
    for (index, (frame, reason)) in cases.into_iter().enumerate() {
        assert_eq!(
            receiver.receive(at(0), frame, &mut memory.reassembly(OWNER)).unwrap_err(),
            reason,
            "{frame:?}"
        );
        assert_eq!(receiver.counters().dropped_total(), index as u64 + 1);
    }
    assert_eq!(receiver.counters().dropped(Reason::Malformed).value(), 5);
    assert_eq!(receiver.counters().in_data.value(), 0);
}

#[test]
fn invalid_fragments_are_counted_by_reason() {
    let (mut receiver, mut memory) = (service(None), memory());
    let payload = [6; 100];
    let cases = [
        (fragment(None, 0, 2, &payload), Reason::BadFragment),
        (fragment(Some(1), 2, 2, &payload), Reason::BadFragment),
        (fragment(Some(1), 0, 0, &payload), Reason::BadFragment),
        (fragment(Some(9), 0, 2, &[]), Reason::BadFragment),
        (fragment(Some(1), 0, 401, &payload), Reason::TooManyFragments),
        (fragment(Some(1), 0, u64::MAX, &payload), Reason::TooManyFragments),
        (fragment(Some(1), u64::MAX, u64::MAX, &payload), Reason::TooManyFragments),
    ];
    for (frame, reason) in &cases {
        let result = receiver.receive(at(0), frame, &mut memory.reassembly(OWNER)).unwrap_err();
        assert_eq!(result, *reason);
    }
    assert!(
        receiver.next_deadline().is_none() && memory.used(MemoryKind::Reassembly) == 0,
        "nothing of it was kept"
    );

    // Another count for the same message, then the same fragment twice.
    let first = fragment(Some(20), 0, 2, &payload);
    assert!(matches!(
        receiver.receive(at(0), &first, &mut memory.reassembly(OWNER)),
        Ok(Received::Nothing)
    ));
    for (frame, reason) in [
        (fragment(Some(21), 1, 3, &payload), Reason::FragmentMismatch),
        (first, Reason::DuplicateFragment),
    ] {
        assert_eq!(
            receiver.receive(at(0), &frame, &mut memory.reassembly(OWNER)).unwrap_err(),
            reason
        );
    }
    // Neither has harmed the message.
    let second = fragment(Some(21), 1, 2, &payload);
    assert!(deliver(&mut receiver, at(0), &second, &mut memory.reassembly(OWNER)).is_some());

    // Together longer than a packet may be: the whole message goes.
    let long = [6; 5000];
    assert!(
        receiver
            .receive(at(0), &fragment(Some(50), 0, 2, &long), &mut memory.reassembly(OWNER))
            .is_ok()
    );
    let frame = fragment(Some(51), 1, 2, &long);
    let result = receiver.receive(at(0), &frame, &mut memory.reassembly(OWNER)).unwrap_err();
    assert_eq!(result, Reason::ReassemblyTooLong);
    assert_eq!(memory.used(MemoryKind::Reassembly), 0);
}

#[test]
fn incomplete_message_expires() {
    let data = wire(3000, 3);
    let sent = frames(&mut service(Some(1400)), &packet(&data));
    assert_eq!(sent.len(), 3);
    let (mut receiver, mut memory) = (service(None), memory());
    assert!(deliver(&mut receiver, at(10), &sent[0], &mut memory.reassembly(OWNER)).is_none());
    assert_eq!(receiver.next_deadline(), Some(at(510)));
    assert!(deliver(&mut receiver, at(20), &sent[1], &mut memory.reassembly(OWNER)).is_none());
    assert_eq!(receiver.next_deadline(), Some(at(520)));
    let timeouts =
        |receiver: &LinkService| receiver.counters().dropped(Reason::ReassemblyTimeout).value();
    receiver.handle_timeout(at(519), &mut memory.reassembly(OWNER));
    assert_eq!(timeouts(&receiver), 0);
    receiver.handle_timeout(at(520), &mut memory.reassembly(OWNER));
    assert_eq!((timeouts(&receiver), memory.used(MemoryKind::Reassembly)), (1, 0));
    assert!(deliver(&mut receiver, at(530), &sent[2], &mut memory.reassembly(OWNER)).is_none());
    assert!(deliver(&mut receiver, at(531), &sent[0], &mut memory.reassembly(OWNER)).is_none());
    let got = deliver(&mut receiver, at(532), &sent[1], &mut memory.reassembly(OWNER));
    assert_eq!(got.unwrap().0, data, "sent again, it arrives");
    // Without work, the memory goes too.
    let idle = receiver.next_deadline().unwrap();
    assert!(idle > at(5000));
    receiver.handle_timeout(idle, &mut memory.reassembly(OWNER));
    assert_eq!(receiver.next_deadline(), None);
}

#[test]
fn message_expires_although_fragments_keep_arriving() {
    let (mut receiver, mut memory) = (service(None), memory());
    let mut expired_at = None;
    for index in 0..40 {
        let now = index * 100;
        let frame = fragment(Some(1000 + index), index, 100, &[6; 10]);
        assert!(receiver.receive(at(now), &frame, &mut memory.reassembly(OWNER)).is_ok());
        let expired = receiver.counters().dropped(Reason::ReassemblyTimeout).value();
        if expired > 0 && expired_at.is_none() {
            expired_at = Some(now);
        }
    }
    assert_eq!(expired_at, Some(2000), "four times 500 ms after the first fragment");
}

#[test]
fn incomplete_messages_are_limited() {
    let (mut receiver, mut memory) = (service(None), memory());
    let mut used_max = 0;
    for message in 0..10_000 {
        let frame = fragment(Some(message * 1000), 0, 400, &[6; 1000]);
        assert!(receiver.receive(at(0), &frame, &mut memory.reassembly(OWNER)).is_ok());
        used_max = used_max.max(memory.used(MemoryKind::Reassembly));
    }
    assert!(used_max <= 32 * 3000, "{used_max} bytes");
    let given_up = receiver.counters().dropped(Reason::ReassemblyFull).value();
    assert_eq!(given_up, 10_000 - 32);
    // The latest can still be finished.
    let first = fragment(Some(1 << 40), 0, 2, &[6; 10]);
    let second = fragment(Some((1 << 40) + 1), 1, 2, &[6; 10]);
    assert!(deliver(&mut receiver, at(0), &first, &mut memory.reassembly(OWNER)).is_none());
    assert_eq!(
        deliver(&mut receiver, at(0), &second, &mut memory.reassembly(OWNER)).unwrap().0,
        [6; 20]
    );
    receiver.close(&mut memory.reassembly(OWNER));
    assert_eq!((memory.used(MemoryKind::Reassembly), receiver.next_deadline()), (0, None));
}

#[test]
fn reassembly_limits_are_configurable() {
    let timeout = Duration::from_millis(70);
    let reassembly = ReassemblyLimits { fragments_max: 3, messages_max: 2, timeout };
    let options = LinkOptions { reassembly, ..LinkOptions::stream() };
    let mut receiver = LinkService::new(options, Arc::default(), 0);
    let mut memory = memory();
    let too_many = fragment(Some(0), 0, 4, &[6; 10]);
    let result = receiver.receive(at(0), &too_many, &mut memory.reassembly(OWNER));
    assert_eq!(result.err(), Some(Reason::TooManyFragments));
    for message in 0..3 {
        let frame = fragment(Some(message * 10), 0, 3, &[6; 10]);
        assert!(receiver.receive(at(message), &frame, &mut memory.reassembly(OWNER)).is_ok());
    }
    assert_eq!(receiver.counters().dropped(Reason::ReassemblyFull).value(), 1);
    assert_eq!(receiver.next_deadline(), Some(at(71)));
}

#[test]
fn faces_share_the_reassembly_budget() {
    let mut memory = FaceMemory::new(10_000, 10_000, Reserves::NONE);
    let mut faces: Vec<_> = (0..100).map(|_| service(None)).collect();
    for round in 0..20 {
        for face in &mut faces {
            let frame = fragment(Some(round * 10), 0, 4, &[6; 1000]);
            let _ = face.receive(at(0), &frame, &mut memory.reassembly(OWNER));
            assert!(memory.used(MemoryKind::Reassembly) <= 10_000);
        }
    }
    let refused: u64 =
        faces.iter().map(|face| face.counters().dropped(Reason::ReassemblyFull).value()).sum();
    assert!(refused > 1000);
    for face in &mut faces {
        face.close(&mut memory.reassembly(OWNER));
    }
    assert_eq!(memory.used(MemoryKind::Reassembly), 0);
}

#[test]
fn packet_over_the_mtu_is_dropped() {
    let data = wire(8800, 1);
    for mtu in [0, 8, 24] {
        let mut sender = service(Some(mtu));
        let mut sink = Frames::default();
        let result = sender.send(at(0), &packet(&data), &mut sink);
        assert_eq!(result, Err(Reason::OverMtu));
        assert!(sink.frames.is_empty());
        assert_eq!(sender.counters().dropped(Reason::OverMtu).value(), 1);
        assert_eq!(sender.counters().out_data.value(), 0);
    }
    let long = wire(8801, 1);
    let result = service(None).send(at(0), &packet(&long), &mut Frames::default());
    assert_eq!(result, Err(Reason::TooLong));
}

#[test]
fn queue_above_threshold_marks_packets() {
    let mut sender = service(None);
    let data = wire(200, 1);
    let mut marks = Vec::new();
    let interval = CONGESTION_INTERVAL.as_millis() as u64;
    for now in [0, interval / 2, interval] {
        let mut sink = Frames { queued_bytes: CONGESTION_THRESHOLD + 1, ..Frames::default() };
        sender.send(at(now), &packet(&data), &mut sink).unwrap();
        let got =
            deliver(&mut service(None), at(now), &sink.frames[0], &mut memory().reassembly(OWNER));
        marks.push(got.unwrap().1.congestion_mark);
    }
    assert_eq!(marks, [0, 0, 1]);
    assert_eq!(sender.counters().out_marks.value(), 1);
}

proptest! {
    /// A link that loses, repeats and reorders: every packet of which all fragments arrive is
    /// delivered once, unchanged; no other is.
    #[test]
    fn reassembly_agrees_with_the_set_of_arrived_fragments(
        lengths in prop::collection::vec(200_usize..4000, 1..12),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..80),
    ) {
        let mut sender = service(Some(400));
        let packets: Vec<_> = (0u8..).zip(&lengths).map(|(seed, &len)| wire(len, seed)).collect();
        let sent: Vec<Vec<Vec<u8>>> =
            packets.iter().map(|data| frames(&mut sender, &packet(data))).collect();
        let all: Vec<(usize, usize)> = sent
            .iter()
            .enumerate()
            .flat_map(|(message, frames)| (0..frames.len()).map(move |index| (message, index)))
            .collect();
        let (mut receiver, mut memory) = (service(None), memory());
        // The oracle: fragments that have arrived of each message that is not yet whole.
        let mut arrived: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        let arrivals = order.iter().map(|at| all[at.index(all.len())]).chain(all.clone());
        for (message, index) in arrivals {
            let frame = &sent[message][index];
            let got = deliver(&mut receiver, at(0), frame, &mut memory.reassembly(OWNER)).map(|got| got.0);
            let have = arrived.entry(message).or_default();
            have.insert(index);
            let whole = have.len() == sent[message].len();
            if whole {
                arrived.remove(&message);
            }
            prop_assert_eq!(got, whole.then(|| packets[message].clone()));
        }
        receiver.close(&mut memory.reassembly(OWNER));
        prop_assert_eq!(memory.used(MemoryKind::Reassembly), 0);
    }

    #[test]
    fn arbitrary_frames_do_not_panic(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8),
    ) {
        let (mut receiver, mut memory) = (service(None), memory());
        for frame in &frames {
            if let Ok(Received::Packet { offset, .. }) =
                receiver.receive(at(0), frame, &mut memory.reassembly(OWNER))
            {
                prop_assert!(offset < frame.len());
            }
        }
        receiver.handle_timeout(Timestamp::MAX, &mut memory.reassembly(OWNER));
        prop_assert_eq!(memory.used(MemoryKind::Reassembly), 0);
    }
}
