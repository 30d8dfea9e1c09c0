//! Reliable links on virtual time: two ends, and a link between them that loses frames.
#![allow(clippy::cast_possible_truncation, reason = "small numbers in tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ndn_forwarding::TxPacket;
use ndn_packet::LpHeader;
use ndn_ring::PacketHandle;
use ndn_table::FaceIndex;
use ndn_types::PrincipalKey;
use proptest::prelude::*;

use super::announcement_tests::announcement;
use super::tests::{Frames, OWNER, at, memory, packet, wire};
use super::*;
use crate::LinkDropReason as Reason;
use crate::memory::{FaceMemory, Holder, MemoryKind};

fn reliable(mtu: usize) -> LinkService {
    let options = LinkOptions { reliability: true, ..LinkOptions::datagram(mtu) };
    // Sequences and TxSequences run over on the way.
    LinkService::new(options, Arc::default(), u64::MAX - 3)
}

fn send(end: &mut LinkService, now: Timestamp, data: &[u8]) -> Vec<Vec<u8>> {
    let mut sink = Frames::default();
    end.send(now, &packet(data), &mut sink).unwrap();
    sink.frames
}

fn resend(end: &mut LinkService, now: Timestamp) -> Vec<Vec<u8>> {
    let mut sink = Frames::default();
    end.resend(now, &mut sink);
    sink.frames
}

/// The contents of `frame`: the packet, or nothing, or a reason.
fn receive(end: &mut LinkService, now: Timestamp, frame: &[u8]) -> Result<Option<Vec<u8>>, Reason> {
    match end.receive(now, frame, &mut memory().reassembly(OWNER)) {
        Ok(Received::Packet { offset, .. }) => Ok(Some(frame[offset..].to_vec())),
        Ok(Received::Reassembled { packet, .. }) => Ok(Some(packet.to_vec())),
        Ok(Received::Nothing) => Ok(None),
        Err(reason) => Err(reason),
    }
}

fn tx_sequence(frame: &[u8]) -> u64 {
    LpPacket::parse(frame).unwrap().tx_sequence().unwrap()
}

fn acks(frame: &[u8]) -> Vec<u64> {
    LpPacket::parse(frame).unwrap().acks().collect()
}

fn ack(tx_sequences: &[u64]) -> Vec<u8> {
    let header = LpHeader { acks: tx_sequences, ..LpHeader::default() };
    let mut frame = vec![0; header.encoded_len_idle()];
    header.write_idle(&mut frame).unwrap();
    frame
}

#[test]
fn idle_acknowledgement_is_sent_after_5_ms() {
    let (mut near, mut far) = (reliable(1400), reliable(1400));
    let data = wire(300, 1);
    let frames = send(&mut near, at(0), &data);
    assert_eq!(frames.len(), 1);
    assert_eq!(near.next_deadline(), Some(at(1000)), "the first timeout");
    assert_eq!(receive(&mut far, at(10), &frames[0]), Ok(Some(data)));
    assert_eq!(far.next_deadline(), Some(at(15)));
    assert!(resend(&mut far, at(14)).is_empty());
    let idle = resend(&mut far, at(15));
    assert_eq!(idle.len(), 1);
    assert_eq!(acks(&idle[0]), [tx_sequence(&frames[0])]);
    assert_eq!(far.counters().out_frames.value(), 1);
    let forgotten = at(4010).plus_nanos(1);
    assert_eq!(far.next_deadline(), Some(forgotten), "the last retransmission of the peer");
    assert!(resend(&mut far, forgotten).is_empty());
    assert_eq!(far.next_deadline(), None);
    assert_eq!(receive(&mut near, at(25), &idle[0]), Ok(None));
    assert_eq!((near.next_deadline(), near.counters().out_acknowledged.value()), (None, 1));
    assert!(resend(&mut near, at(60_000)).is_empty());
}

#[test]
fn acknowledgements_are_piggybacked() {
    let (mut near, mut far) = (reliable(1400), reliable(1400));
    let sent: Vec<_> = (0..100).flat_map(|seed| send(&mut near, at(0), &wire(50, seed))).collect();
    for frame in &sent {
        receive(&mut far, at(1), frame).unwrap();
    }
    let long = send(&mut far, at(2), &wire(1300, 7));
    let short = send(&mut far, at(2), &wire(100, 7));
    assert!(long[0].len() <= 1400 && short[0].len() <= 1400);
    let carried: Vec<_> = [&long[0], &short[0]].into_iter().flat_map(|frame| acks(frame)).collect();
    assert!(carried.len() > 60, "{}", carried.len());
    let idle = resend(&mut far, at(6));
    let all: Vec<_> =
        carried.into_iter().chain(idle.iter().flat_map(|frame| acks(frame))).collect();
    assert_eq!(all, sent.iter().map(|frame| tx_sequence(frame)).collect::<Vec<_>>());
}

#[test]
fn packet_is_dropped_after_three_retransmissions() {
    let mut near = reliable(500);
    let frames = send(&mut near, at(0), &wire(1200, 1));
    assert_eq!(frames.len(), 3);
    // All but the second arrive.
    receive(&mut near, at(100), &ack(&[tx_sequence(&frames[0]), tx_sequence(&frames[2])])).unwrap();
    // 100 ms, then + 4 * 37.5 ms of variation, then without a measurement as before.
    let mut now = near.next_deadline().unwrap();
    assert_eq!(now, Timestamp::from_nanos(250_000_000));
    let mut seen = BTreeSet::from([tx_sequence(&frames[1])]);
    for _ in 0..3 {
        let again = resend(&mut near, now);
        assert_eq!(again.len(), 1);
        assert!(seen.insert(tx_sequence(&again[0])), "a TxSequence of its own");
        let (old, new) =
            (LpPacket::parse(&frames[1]).unwrap(), LpPacket::parse(&again[0]).unwrap());
        assert_eq!(old.fragment(), new.fragment());
        assert_eq!(old.sequence(), new.sequence());
        assert_eq!((old.frag_index(), old.frag_count()), (new.frag_index(), new.frag_count()));
        now = near.next_deadline().unwrap();
    }
    assert!(resend(&mut near, now).is_empty());
    assert_eq!(near.next_deadline(), None);
    assert_eq!(near.counters().out_retransmissions.value(), 3);
    assert_eq!(near.counters().dropped(Reason::RetransmissionsExhausted).value(), 1);
}

#[test]
fn dropping_a_packet_removes_only_its_fragments() {
    let mut near = reliable(500);
    let mut lost = send(&mut near, at(0), &wire(1200, 1));
    for round in 1..=3 {
        lost = resend(&mut near, at(round * 1000));
        assert_eq!(lost.len(), 3);
        if round == 3 {
            send(&mut near, at(3001), &wire(100, 2));
        }
    }
    assert!(resend(&mut near, at(4000)).is_empty());
    assert_eq!(near.counters().dropped(Reason::RetransmissionsExhausted).value(), 1);
    assert_eq!(near.next_deadline(), Some(at(4001)), "the other packet");
    receive(&mut near, at(4000), &ack(&[tx_sequence(&lost[0])])).unwrap();
    assert_eq!(near.counters().out_acknowledged.value(), 0);
}

#[test]
fn frames_of_a_dead_peer_are_retransmitted_in_portions() {
    let mut near = reliable(1400);
    let count = 3 * reliability::TIMEOUTS_PER_CALL;
    for seed in 0..count {
        send(&mut near, at(0), &wire(50, seed as u8));
    }
    let portions: Vec<usize> = (0..4).map(|_| resend(&mut near, at(1000)).len()).collect();
    let portion = reliability::TIMEOUTS_PER_CALL;
    assert_eq!(portions, [portion, portion, portion, 0]);
    // Those that three later acknowledgements show to be lost, too.
    let sent: Vec<_> =
        (0..count).flat_map(|seed| send(&mut near, at(1001), &wire(50, seed as u8))).collect();
    let newest: Vec<u64> = sent[count - 3..].iter().rev().map(|frame| tx_sequence(frame)).collect();
    receive(&mut near, at(1002), &ack(&newest)).unwrap();
    assert_eq!(near.next_deadline(), Some(Timestamp::ZERO));
    let portions: Vec<usize> = (0..7).map(|_| resend(&mut near, at(1002)).len()).collect();
    assert_eq!(portions.iter().sum::<usize>(), 2 * count - 3);
    assert!(
        portions[..5].iter().all(|frames| *frames == portion) && portions[6] == 0,
        "{portions:?}"
    );
}

#[test]
fn three_later_acknowledgements_trigger_retransmission() {
    let mut near = reliable(1400);
    let sent: Vec<_> = (0..5).flat_map(|seed| send(&mut near, at(0), &wire(50, seed))).collect();
    let later: Vec<_> = sent[1..].iter().map(|frame| tx_sequence(frame)).collect();
    // The same one twice counts once; one that was never sent does not count.
    receive(&mut near, at(10), &ack(&[later[0], later[0], later[1], 77])).unwrap();
    assert!(resend(&mut near, at(10)).is_empty());
    receive(&mut near, at(10), &ack(&[later[2]])).unwrap();
    assert_eq!(near.next_deadline(), Some(Timestamp::ZERO), "at once");
    let again = resend(&mut near, at(10));
    assert_eq!(again.len(), 1);
    let lp = LpPacket::parse(&again[0]).unwrap();
    assert_eq!(lp.fragment(), Some(&wire(50, 0)[..]));
    assert_eq!(lp.tx_sequence(), Some(later[3].wrapping_add(1)));
}

/// They have arrived together; only their order on the way differs.
#[test]
fn order_of_acknowledgements_in_one_header_is_no_loss() {
    let mut near = reliable(1400);
    let sent: Vec<_> = (0..5).flat_map(|seed| send(&mut near, at(0), &wire(50, seed))).collect();
    let mut all: Vec<_> = sent.iter().map(|frame| tx_sequence(frame)).collect();
    all.rotate_left(1);
    receive(&mut near, at(10), &ack(&all)).unwrap();
    assert_eq!(near.next_deadline(), None);
    assert!(resend(&mut near, at(10)).is_empty());
    assert_eq!(near.counters().out_acknowledged.value(), 5);
}

#[test]
fn late_acknowledgement_stops_the_retransmission() {
    let mut near = reliable(1400);
    let sent: Vec<_> = (0..9).flat_map(|seed| send(&mut near, at(0), &wire(50, seed))).collect();
    let sequences: Vec<_> = sent.iter().map(|frame| tx_sequence(frame)).collect();
    // The first four are lost, and then two of them are not.
    receive(&mut near, at(10), &ack(&sequences[4..])).unwrap();
    for late in [2, 0, 2] {
        receive(&mut near, at(11), &ack(&[sequences[late]])).unwrap();
    }
    assert_eq!(near.counters().out_acknowledged.value(), 7);
    let again = resend(&mut near, at(11));
    let fragments: Vec<_> =
        again.iter().map(|frame| LpPacket::parse(frame).unwrap().fragment().unwrap()).collect();
    assert_eq!(fragments, [wire(50, 1), wire(50, 3)]);
    let again: Vec<_> = again.iter().map(|frame| tx_sequence(frame)).collect();
    receive(&mut near, at(12), &ack(&again)).unwrap();
    assert_eq!(near.next_deadline(), None, "no bytes are left");
    assert!(resend(&mut near, at(60_000)).is_empty());
}

#[test]
fn duplicate_frame_is_acknowledged_and_dropped() {
    let (mut near, mut far) = (reliable(1400), reliable(1400));
    let first = send(&mut near, at(0), &wire(50, 1));
    let again = resend(&mut near, at(1000));
    assert!(receive(&mut far, at(1000), &first[0]).unwrap().is_some());
    assert_eq!(receive(&mut far, at(1001), &again[0]), Err(Reason::DuplicateSequence));
    assert_eq!(far.counters().in_data.value(), 1);
    let idle = resend(&mut far, at(1005));
    assert_eq!(acks(&idle[0]), [tx_sequence(&first[0]), tx_sequence(&again[0])]);
    // Long after that, the number may be another frame's.
    assert!(receive(&mut far, at(6000), &first[0]).unwrap().is_some());
}

#[test]
fn fields_survive_a_retransmission() {
    let mut near = reliable(1400);
    near.set_options(LinkOptions { local_fields: true, ..*near.options() });
    let (data, announcement) = (wire(50, 1), announcement(400));
    let sent = TxPacket {
        pit_token: &[9; 32],
        congestion_mark: 2,
        incoming_face_id: Some(260),
        prefix_announcement: &announcement,
        ..packet(&data)
    };
    near.send(at(0), &sent, &mut Frames::default()).unwrap();
    let again = resend(&mut near, at(1000));
    let lp = LpPacket::parse(&again[0]).unwrap();
    assert_eq!(lp.pit_token(), Some(&[9; 32][..]));
    assert_eq!((lp.congestion_mark(), lp.incoming_face_id()), (Some(2), Some(260)));
    assert_eq!(lp.prefix_announcement(), Some(&announcement[..]));
}

#[test]
fn unreliable_link_sends_no_sequences_and_acknowledgements() {
    let (mut near, mut plain) =
        (reliable(1400), LinkService::new(LinkOptions::datagram(1400), Arc::default(), 0));
    let frames = send(&mut near, at(0), &wire(50, 1));
    assert!(receive(&mut plain, at(0), &frames[0]).unwrap().is_some());
    assert_eq!(plain.next_deadline(), None);
    let data = wire(50, 2);
    assert_eq!(send(&mut plain, at(0), &data), [data]);
    near.set_options(LinkOptions { reliability: false, ..*near.options() });
    assert!(!near.is_reliable() && near.next_deadline().is_none());
    assert!(resend(&mut near, at(5000)).is_empty());
}

#[test]
fn memory_for_a_silent_peer_is_limited() {
    let mut near = reliable(8800);
    for seed in 0..40_000_u32 {
        let frames = send(&mut near, at(0), &wire(if seed < 20_000 { 100 } else { 8000 }, 1));
        let protected = LpPacket::parse(&frames[0]).unwrap().tx_sequence().is_some();
        assert_eq!(protected, seed < 16_384, "the rest goes unprotected");
    }
    let mut sent_again = 0;
    for round in 1..=4 {
        while near.next_deadline().is_some_and(|deadline| deadline <= at(1000 * round)) {
            sent_again += resend(&mut near, at(1000 * round)).len();
        }
    }
    assert_eq!(sent_again, 3 * 16_384);
    assert_eq!(near.next_deadline(), None);
    // Nor does one that sends without end.
    let mut far = reliable(8800);
    for sequence in 0..200_000 {
        let header = LpHeader {
            sequence: Some(sequence),
            tx_sequence: Some(sequence),
            ..LpHeader::default()
        };
        let mut frame = vec![0; header.encoded_len(2) + 2];
        header.write(&[6, 0], &mut frame).unwrap();
        receive(&mut far, at(0), &frame).unwrap();
    }
    let acks: usize = resend(&mut far, at(5)).iter().map(|frame| acks(frame).len()).sum();
    assert_eq!(acks, 8192);
}

/// Faces of two principals on links whose peers acknowledge nothing.
#[test]
fn frames_of_one_principal_leave_memory_to_others() {
    const KIND: MemoryKind = MemoryKind::Reliability;
    let mut memory = memory();
    let principal = |number: usize| match number {
        0 => PrincipalKey::Neighbour { face_id: 1 },
        _ => PrincipalKey::LocalApplication { uid: 1, pid: 0 },
    };
    let mut links: Vec<(LinkService, Holder)> = (0..=20)
        .map(|number| {
            let face = FaceIndex::new(u32::try_from(number).unwrap(), 1);
            (reliable(8800), memory.attach(face, principal(number)))
        })
        .collect();
    let send = |memory: &mut FaceMemory, (link, holder): &mut (LinkService, Holder)| {
        let frames = send(link, at(0), &wire(8000, 1));
        link.settle(&mut memory.reliability(*holder));
        LpPacket::parse(&frames[0]).unwrap().tx_sequence().is_some()
    };
    // The first principal is the bystander.
    let before = (0..100).filter(|_| send(&mut memory, &mut links[0])).count();
    let protected: usize =
        (1..=20).map(|at| (0..1000).filter(|_| send(&mut memory, &mut links[at])).count()).sum();
    assert!((3900..4100).contains(&protected), "{protected} of 8 KB: 32 MiB");
    let during = (0..300).filter(|_| {
        let is_protected = send(&mut memory, &mut links[0]);
        while let Some(eviction) = memory.next_eviction(KIND) {
            let (link, holder) = &mut links[eviction.face.slot() as usize];
            assert_ne!(eviction.face.slot(), 0);
            link.forget_sent(&mut memory.reliability(*holder));
            memory.note_shed(KIND, eviction, false);
        }
        is_protected
    });
    assert_eq!((before, during.count()), (100, 300));
    for (link, holder) in &mut links {
        link.close(&mut memory.reassembly(*holder));
        memory.detach(*holder);
    }
    assert!(memory.report().is_zero());
}

#[test]
fn frame_dropped_by_a_full_queue_is_retransmitted_once() {
    struct Full;
    impl FrameSink for Full {
        fn queued_bytes(&self) -> usize {
            0
        }
        fn push_frame(
            &mut self,
            _: &[u8],
            _: &[u8],
            _: Option<&PacketHandle>,
        ) -> Result<(), Reason> {
            Err(Reason::QueueFull)
        }
    }
    let mut near = reliable(1400);
    assert_eq!(near.send(at(0), &packet(&wire(50, 1)), &mut Full), Err(Reason::QueueFull));
    assert_eq!(near.next_deadline(), None, "nobody waits for it");
    send(&mut near, at(0), &wire(50, 1));
    near.resend(at(1000), &mut Full);
    assert_eq!(near.counters().out_retransmissions.value(), 0);
    assert_eq!(resend(&mut near, at(2000)).len(), 1);
}

/// Runs both ends until nothing is left to do. Each frame takes 10 ms, or is lost if `loses`.
fn run(packets: &[Vec<u8>], mut loses: impl FnMut() -> bool) -> (Vec<Vec<u8>>, [LinkService; 2]) {
    let mut ends = [reliable(500), reliable(500)];
    let mut memory = memory();
    let mut flying: BTreeMap<(Timestamp, usize), (usize, Vec<u8>)> = BTreeMap::new();
    let mut delivered = Vec::new();
    let mut count = 0;
    let mut launch = |flying: &mut BTreeMap<_, _>, now: Timestamp, to, frames: Vec<Vec<u8>>| {
        for frame in frames {
            count += 1;
            assert!(frame.len() <= 500);
            if !loses() {
                flying.insert((now.plus(Duration::from_millis(10)), count), (to, frame));
            }
        }
    };
    for (millis, data) in (0..).zip(packets) {
        let frames = send(&mut ends[0], at(millis), data);
        launch(&mut flying, at(millis), 1, frames);
    }
    loop {
        let arrival = flying.first_key_value().map(|((when, _), _)| *when);
        let deadlines = ends.iter().filter_map(LinkService::next_deadline);
        let Some(now) = deadlines.chain(arrival).min() else { break };
        let now = now.max(at(packets.len() as u64));
        assert!(now < at(300_000), "it comes to an end");
        while let Some(entry) = flying.first_entry().filter(|entry| entry.key().0 <= now) {
            let (to, frame) = entry.remove();
            match ends[to].receive(now, &frame, &mut memory.reassembly(OWNER)) {
                Ok(Received::Packet { offset, .. }) => delivered.push(frame[offset..].to_vec()),
                Ok(Received::Reassembled { packet, .. }) => delivered.push(packet.to_vec()),
                Ok(Received::Nothing) | Err(_) => {}
            }
        }
        for (index, end) in ends.iter_mut().enumerate() {
            end.handle_timeout(now, &mut memory.reassembly(OWNER));
            launch(&mut flying, now, 1 - index, resend(end, now));
        }
    }
    assert_eq!(memory.used(MemoryKind::Reassembly), 0);
    (delivered, ends)
}

proptest! {
    /// Whatever is lost: every packet arrives, or one of the ends knows that it was given up.
    #[test]
    fn every_packet_arrives_or_is_dropped(
        lengths in prop::collection::vec(60_usize..1500, 1..40),
        seed in any::<u64>(),
        loss_percent in 0_u64..60,
    ) {
        let packets: Vec<_> = (0u8..).zip(&lengths).map(|(seed, &len)| wire(len, seed)).collect();
        let mut state = seed | 1;
        let (delivered, [near, far]) = run(&packets, || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % 100 < loss_percent
        });
        let distinct: BTreeSet<_> = delivered.iter().collect();
        let given_up = near.counters().dropped(Reason::RetransmissionsExhausted).value();
        let in_pieces = [Reason::ReassemblyTimeout, Reason::ReassemblyFull]
            .map(|reason| far.counters().dropped(reason).value())
            .iter()
            .sum::<u64>();
        prop_assert!(distinct.iter().all(|data| packets.contains(data)));
        let all: BTreeSet<_> = packets.iter().collect();
        prop_assert!(distinct.len() + (given_up + in_pieces) as usize >= all.len());
        if loss_percent == 0 {
            prop_assert_eq!((delivered.len(), given_up), (packets.len(), 0));
            prop_assert_eq!(near.counters().out_retransmissions.value(), 0);
        }
    }
}

/// One frame in twenty is lost: with reliability all arrive, without it they do not.
#[test]
fn all_packets_are_delivered_over_a_lossy_link() {
    let packets: Vec<_> = (0..250_u8).map(|seed| wire(400, seed)).collect();
    let mut state = 1_u64;
    let loses = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33).is_multiple_of(20)
    };
    let (mut delivered, [near, _]) = run(&packets, loses);
    delivered.sort();
    let mut all = packets;
    all.sort();
    assert_eq!(delivered, all);
    assert!(near.counters().out_retransmissions.value() >= 8);
}
