//! The link service on virtual time: a sender and a receiver, and a link that misbehaves.

#![allow(clippy::cast_possible_truncation, reason = "small numbers in tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use ndn_forwarding::{NackReason, TxKind, TxPacket};
use proptest::prelude::*;

use super::*;

fn service(mtu: Option<usize>) -> LinkService {
    let options = LinkOptions { mtu, congestion: None };
    LinkService::new(options, u64::MAX - 3, Arc::default())
}

fn packet(wire: &[u8]) -> TxPacket<'_> {
    TxPacket {
        kind: TxKind::Data,
        wire,
        handle: None,
        pit_token: &[],
        congestion_mark: 0,
        incoming_face_id: None,
    }
}

/// A Data-like TLV of `length` bytes in all; the link service does not look inside.
fn wire(length: usize, seed: u8) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|at| (at as u8).wrapping_mul(31) ^ seed).collect();
    bytes[0] = 6;
    bytes
}

fn frames(service: &mut LinkService, packet: &TxPacket<'_>) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    service.send(0, 0, packet, |header, payload| frames.push([header, payload].concat())).unwrap();
    frames
}

/// What `receive` hands to forwarding.
fn delivered(service: &mut LinkService, now_ns: u64, frame: &[u8]) -> Option<(Vec<u8>, LpFields)> {
    match service.receive(now_ns, frame) {
        Received::Packet(range, fields) => Some((frame[range].to_vec(), fields)),
        Received::Reassembled(bytes, fields) => Some((bytes.to_vec(), fields)),
        Received::Nothing | Received::Dropped(_) => None,
    }
}

#[test]
fn a_packet_without_fields_goes_bare() {
    let data = wire(300, 1);
    let sent = frames(&mut service(Some(1400)), &packet(&data));
    assert_eq!(sent, std::slice::from_ref(&data));
    let (bytes, fields) = delivered(&mut service(None), 0, &sent[0]).unwrap();
    assert_eq!(bytes, data);
    assert!(fields.pit_token.as_bytes().is_empty() && fields.nack.is_none());
}

#[test]
fn fields_arrive_with_and_without_fragmentation() {
    let interest = [&[5, 98][..], &[1; 98]].concat();
    for mtu in [None, Some(128)] {
        let sent = TxPacket {
            kind: TxKind::Nack(NackReason::NO_ROUTE),
            pit_token: &[9; 32],
            congestion_mark: 2,
            incoming_face_id: Some(260),
            ..packet(&interest)
        };
        let sent = frames(&mut service(mtu), &sent);
        assert_eq!(sent.len() > 1, mtu.is_some());
        let mut receiver = service(None);
        let mut got: Vec<_> =
            sent.iter().filter_map(|frame| delivered(&mut receiver, 0, frame)).collect();
        let (bytes, fields) = got.pop().unwrap();
        assert!(got.is_empty());
        assert_eq!(bytes, interest);
        assert_eq!(fields.pit_token.as_bytes(), [9; 32]);
        assert_eq!(fields.nack, Some(NackReason::NO_ROUTE));
        assert_eq!(fields.congestion_mark, 2);
        assert_eq!(receiver.counters().in_nacks.value(), 1);
        assert_eq!(receiver.counters().in_frames.value(), sent.len() as u64);
    }
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
            let mut receiver = service(None);
            let got: Vec<_> =
                sent.iter().filter_map(|frame| delivered(&mut receiver, 0, frame)).collect();
            assert_eq!(got.len(), 1);
            assert_eq!(got[0].0, data);
        }
    }
}

#[test]
fn an_idle_packet_gives_nothing_and_garbage_is_counted() {
    let mut receiver = service(None);
    let mut idle = [0; 32];
    let length = LpHeader { acks: &[1, 2], ..LpHeader::default() }.write_idle(&mut idle).unwrap();
    assert!(matches!(receiver.receive(0, &idle[..length]), Received::Nothing));
    for garbage in [&[][..], &[0x64], &[0x64, 5, 1], &[0x17, 0], &[0x64, 2, 0x63, 0]] {
        let got = receiver.receive(0, garbage);
        assert!(
            matches!(got, Received::Dropped(LinkDropReason::MalformedHeader)),
            "{garbage:?}: {got:?}"
        );
    }
    assert_eq!(receiver.counters().drops(LinkDropReason::MalformedHeader), 5);
}

fn fragment(sequence: Option<u64>, index: u64, count: u64, payload: &[u8]) -> Vec<u8> {
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
fn absurd_fragments_are_dropped_each_for_its_reason() {
    use LinkDropReason::{DuplicateFragment, FragmentCount, InvalidFragment, MessageLength};
    let mut receiver = service(None);
    let payload = [6; 100];
    let cases = [
        (fragment(None, 0, 2, &payload), InvalidFragment),
        (fragment(Some(1), 2, 2, &payload), InvalidFragment),
        (fragment(Some(1), 0, 0, &payload), InvalidFragment),
        (fragment(Some(1), 0, 401, &payload), FragmentCount),
        (fragment(Some(1), 0, u64::MAX, &payload), FragmentCount),
        (fragment(Some(1), u64::MAX, u64::MAX, &payload), FragmentCount),
        (fragment(Some(9), 0, 2, &[]), InvalidFragment),
    ];
    for (frame, reason) in &cases {
        let got = receiver.receive(0, frame);
        assert!(matches!(got, Received::Dropped(found) if found == *reason), "{reason:?}: {got:?}");
    }
    assert!(receiver.next_deadline().is_none(), "nothing of it was kept");
    // Another count for the same message, then the same fragment twice.
    assert!(matches!(receiver.receive(0, &fragment(Some(20), 0, 2, &payload)), Received::Nothing));
    for (frame, reason) in [
        (fragment(Some(21), 1, 3, &payload), InvalidFragment),
        (fragment(Some(20), 0, 2, &payload), DuplicateFragment),
    ] {
        let got = receiver.receive(0, &frame);
        assert!(matches!(got, Received::Dropped(found) if found == reason), "{reason:?}: {got:?}");
    }
    // Together longer than a packet may be.
    let long = [6; 5000];
    assert!(matches!(receiver.receive(0, &fragment(Some(50), 0, 2, &long)), Received::Nothing));
    let got = receiver.receive(0, &fragment(Some(51), 1, 2, &long));
    assert!(matches!(got, Received::Dropped(MessageLength)));
}

#[test]
fn a_partial_message_is_given_up_after_its_timeout() {
    let data = wire(3000, 3);
    let sent = frames(&mut service(Some(1400)), &packet(&data));
    assert_eq!(sent.len(), 3);
    let mut receiver = service(None);
    assert!(delivered(&mut receiver, 10, &sent[0]).is_none());
    assert_eq!(receiver.next_deadline(), Some(10 + REASSEMBLY_TIMEOUT_NS));
    assert!(delivered(&mut receiver, 20, &sent[1]).is_none());
    assert_eq!(receiver.next_deadline(), Some(20 + REASSEMBLY_TIMEOUT_NS));
    receiver.handle_timeout(20 + REASSEMBLY_TIMEOUT_NS - 1);
    assert_eq!(receiver.counters().drops(LinkDropReason::ReassemblyTimeout), 0);
    receiver.handle_timeout(20 + REASSEMBLY_TIMEOUT_NS);
    assert_eq!(receiver.counters().drops(LinkDropReason::ReassemblyTimeout), 1);
    assert!(delivered(&mut receiver, 30, &sent[2]).is_none());
    assert!(delivered(&mut receiver, 31, &sent[0]).is_none());
    assert_eq!(delivered(&mut receiver, 32, &sent[1]).unwrap().0, data, "sent again, it arrives");
}

#[test]
fn unfinished_messages_never_pile_up() {
    let mut receiver = service(None);
    for message in 0..10_000 {
        receiver.receive(message, &fragment(Some(message * 1000), 0, 400, &[6; 1000]));
        assert!(receiver.reassembler.len() <= PARTIAL_MESSAGES_MAX);
    }
    let given_up = receiver.counters().drops(LinkDropReason::ReassemblyFull);
    assert_eq!(given_up, 10_000 - PARTIAL_MESSAGES_MAX as u64);
    receiver.handle_timeout(u64::MAX);
    assert!(receiver.next_deadline().is_none());
}

#[test]
fn a_packet_that_cannot_be_fragmented_is_refused() {
    let mut sender = service(Some(24));
    let result = sender.send(0, 0, &packet(&wire(8800, 1)), |_, _| panic!("emitted"));
    assert_eq!(result, Err(LinkDropReason::MtuExceeded));
    assert_eq!(sender.counters().drops(LinkDropReason::MtuExceeded), 1);
}

#[test]
fn a_long_queue_marks_packets() {
    let congestion = CongestionOptions { interval_ns: 100, threshold_bytes: 1000 };
    let options = LinkOptions { mtu: None, congestion: Some(congestion) };
    let mut sender = LinkService::new(options, 0, Arc::default());
    let data = wire(200, 1);
    let mut receiver = service(None);
    let mut marks = Vec::new();
    for now in [0, 50, 100] {
        let mut frame = Vec::new();
        sender
            .send(now, 2000, &packet(&data), |header, payload| frame = [header, payload].concat())
            .unwrap();
        marks.push(delivered(&mut receiver, now, &frame).unwrap().1.congestion_mark);
    }
    assert_eq!(marks, [0, 0, 1]);
    assert_eq!(sender.counters().out_marked.value(), 1);
}

proptest! {
    /// A link that loses, repeats and reorders: every packet of which all fragments arrive is
    /// delivered once, unchanged; no other is.
    #[test]
    fn reassembly_agrees_with_the_set_of_arrived_fragments(
        lengths in prop::collection::vec(200_usize..4000, 1..12),
        order in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 0..80),
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
        let mut receiver = service(None);
        // The oracle: fragments that have arrived of each message that is not yet whole.
        let mut arrived: BTreeMap<usize, std::collections::BTreeSet<usize>> = BTreeMap::new();
        let arrivals = order.iter().map(|(at, _)| all[at.index(all.len())]).chain(all.clone());
        for (message, index) in arrivals {
            let got = delivered(&mut receiver, 0, &sent[message][index]).map(|got| got.0);
            let have = arrived.entry(message).or_default();
            have.insert(index);
            let whole = have.len() == sent[message].len();
            if whole {
                arrived.remove(&message);
            }
            prop_assert_eq!(got, whole.then(|| packets[message].clone()));
        }
    }

    #[test]
    fn arbitrary_frames_do_no_harm(frame in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut receiver = service(None);
        if let Received::Packet(range, _) = receiver.receive(0, &frame) {
            prop_assert!(range.end <= frame.len());
        }
    }
}
