//! Stream faces over real sockets.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "test code")]

mod support;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use ndn_face::{
    CloseReason, FaceChange, FaceCounters, FaceEvent, FaceOptions, FaceSetOptions, LinkDropReason,
    LinkOptions, NewStream,
};
use ndn_forwarding::{TxKind, TxPacket};
use ndn_packet::{LpHeader, LpPacket, NackReason};
use ndn_sys::stream;
use ndn_types::{PrincipalClass, PrincipalKey};
use support::{Sink, Worker, local_stream, plain, read_available, tlv, write_all};

const NOW: Duration = Duration::ZERO;

#[test]
fn packets_split_anywhere_are_received() {
    let packets: Vec<_> = [2, 3, 100, 254, 257, 1000, 2047, 2048, 8800]
        .into_iter()
        .enumerate()
        .map(|(index, length)| tlv(5 + index as u8 % 2, length, index as u8))
        .collect();
    let bytes = packets.concat();
    for cut in [1, 3, 7, 1000, 8801, bytes.len()] {
        let mut worker = Worker::new();
        let (face, counters, far) = worker.add_stream();
        for piece in bytes.chunks(cut) {
            write_all(&mut worker, &far, piece);
            worker.settle();
        }
        for packet in &packets {
            let (from, wire, fields) = worker.receive();
            assert_eq!((from, &wire), (face, packet), "in pieces of {cut}");
            assert!(fields.nack.is_none() && fields.pit_token.as_bytes().is_empty());
        }
        assert_eq!(counters.in_interests.value(), 5);
        assert_eq!(counters.in_data.value(), 4);
        assert_eq!(counters.in_frames.value(), 9);
        assert_eq!(counters.in_bytes.value(), bytes.len() as u64);
        assert_eq!(counters.dropped_total(), 0);
        worker.finish();
    }
}

/// Such a face comes before those that bring Interests, and is read until it is empty.
#[test]
fn face_that_brings_data_leads_upstream_if_it_was_asked_for() {
    for is_asked in [false, true] {
        let mut worker = Worker::new();
        let (face, _, far) = worker.add_stream();
        for number in 0..100 {
            if is_asked {
                worker.send_packet(
                    face,
                    &TxPacket { kind: TxKind::Interest, ..plain(&tlv(5, 50, 1)) },
                );
                worker.flush();
            }
            write_all(&mut worker, &far, &tlv(6, 100, number));
            worker.settle();
            let token = worker.last_token;
            worker.faces.note_direction(token, true);
            assert_eq!(worker.faces.is_upstream(token), is_asked);
        }
        worker.finish();
    }
}

/// The bytes of the frame that have arrived are not written into the packet pool again with each further one.
#[test]
fn frame_in_many_pieces_takes_the_room_of_one() {
    let mut worker = Worker::new();
    let (_, _, far) = worker.add_stream();
    let packets = [tlv(5, 100, 1), tlv(6, 8000, 2), tlv(5, 100, 3)];
    for byte in packets.concat() {
        write_all(&mut worker, &far, &[byte]);
        worker.settle();
    }
    assert_eq!(worker.received.len(), packets.len());
    assert_eq!(worker.pool.counters().blocks_in_use_max(), 1);
    for packet in &packets {
        assert_eq!(worker.receive().1, *packet);
    }
    worker.finish();
}

#[test]
fn partial_frames_of_faces_do_not_mix() {
    let mut worker = Worker::new();
    let ends: Vec<_> = (0..20_u8).map(|_| worker.add_stream()).collect();
    let packet = |seed: u8| tlv(6, 5000 + usize::from(seed), seed);
    for part in 0..5 {
        for (seed, (_, _, far)) in (0_u8..).zip(&ends) {
            let packet = packet(seed);
            let fifth = packet.len() / 5;
            let end = if part == 4 { packet.len() } else { (part + 1) * fifth };
            write_all(&mut worker, far, &packet[part * fifth..end]);
        }
        worker.settle();
    }
    for _ in &ends {
        let (from, wire, _) = worker.receive();
        let seed = ends.iter().position(|(face, _, _)| *face == from).unwrap() as u8;
        assert_eq!(wire, packet(seed));
    }
    worker.finish();
}

#[test]
fn small_packets_are_coalesced_and_large_ones_not_copied() {
    let mut worker = Worker::new();
    let (input, _, input_far) = worker.add_stream();
    let (output, counters, far) = worker.add_stream();
    let large = tlv(6, 8000, 9);
    write_all(&mut worker, &input_far, &large);
    worker.run_until(|worker| !worker.received.is_empty());
    let packet = worker.received.pop_front().unwrap();
    assert_eq!(packet.face, input);

    let small = tlv(6, 100, 1);
    worker.send(output, &small);
    for _ in 0..70 {
        let wire = worker.pool.bytes(&packet.handle);
        let sent = TxPacket { handle: Some(&packet.handle), ..plain(wire) };
        worker.faces.sink(worker.now, &worker.pool).send_both(output, &sent, &small);
    }
    worker.pool.release(packet.handle);
    worker.flush();
    let bytes = worker.read_exactly(&far, 100 + 70 * 8100);
    let mut expected = small.clone();
    for _ in 0..70 {
        expected.extend_from_slice(&large);
        expected.extend_from_slice(&small);
    }
    assert!(bytes == expected);
    assert_eq!(counters.out_data.value(), 141);
    assert_eq!(counters.out_bytes.value(), expected.len() as u64);
    worker.finish();
}

trait SendBoth {
    fn send_both(&mut self, face: ndn_table::FaceIndex, first: &TxPacket<'_>, second: &[u8]);
}

impl<T: ndn_forwarding::TxSink> SendBoth for T {
    fn send_both(&mut self, face: ndn_table::FaceIndex, first: &TxPacket<'_>, second: &[u8]) {
        self.send(face, first);
        self.send(face, &plain(second));
    }
}

#[test]
fn header_fields_are_sent_and_received() {
    let mut worker = Worker::new();
    let mut options = local_stream();
    options.properties.local_fields = true;
    let options = FaceOptions::stream(options.properties, options.persistency);
    let (near, far) = stream::unix_pair().unwrap();
    let (face, counters) = worker.add_stream_of(near, &options);
    let interest = tlv(5, 50, 1);
    let packet = TxPacket {
        kind: TxKind::Nack(NackReason::NO_ROUTE),
        pit_token: &[7; 32],
        congestion_mark: 2,
        incoming_face_id: Some(400),
        ..plain(&interest)
    };
    worker.send_packet(face, &packet);
    worker.flush();
    let frame = read_available(&far);
    let lp = LpPacket::parse(&frame).unwrap();
    assert_eq!(lp.nack(), Some(NackReason::NO_ROUTE));
    assert_eq!(lp.pit_token(), Some(&[7; 32][..]));
    assert_eq!(lp.congestion_mark(), Some(2));
    assert_eq!(lp.incoming_face_id(), Some(400));
    assert_eq!(lp.fragment(), Some(&interest[..]));
    assert_eq!(counters.out_nacks.value(), 1);

    // What was sent is what is received.
    write_all(&mut worker, &far, &frame);
    let (_, wire, fields) = worker.receive();
    assert_eq!(wire, interest);
    assert_eq!(fields.nack, Some(NackReason::NO_ROUTE));
    assert_eq!(fields.pit_token.as_bytes(), [7; 32]);
    assert_eq!(fields.congestion_mark, 2);
    assert_eq!(counters.in_nacks.value(), 1);
    worker.finish();
}

fn closed(worker: &mut Worker, face: ndn_table::FaceIndex, reason: CloseReason) {
    let mut event = None;
    worker.run_until(|worker| {
        event = worker.faces.poll_event();
        event.is_some()
    });
    assert_eq!(event, Some(FaceEvent { face, change: FaceChange::Closed(reason) }));
    assert!(!worker.faces.contains(face));
    assert_eq!(worker.faces.poll_event(), None);
}

#[test]
fn malformed_framing_closes_the_face_with_the_reason() {
    let too_long = [6, 253, 0x40, 0];
    let number_too_long = [6, 254, 0, 0, 0x10, 0];
    let huge = [6, 255, 255, 255, 255, 255, 255, 255, 255, 255];
    let long_form = [253, 0, 6, 0];
    for (bytes, reason) in [
        (&too_long[..], CloseReason::FrameTooLong),
        (&number_too_long, CloseReason::MalformedFrame),
        (&huge, CloseReason::MalformedFrame),
        (&[0, 0], CloseReason::OtherProtocol(0)),
        (&long_form, CloseReason::OtherProtocol(253)),
        // The type of NDNLPv1, and the first letter of an HTTP request.
        (b"P", CloseReason::OtherProtocol(b'P')),
        (&[], CloseReason::PeerClosed),
    ] {
        let mut worker = Worker::new();
        let (bad, _, bad_far) = worker.add_stream();
        let (good, _, good_far) = worker.add_stream();
        // A packet before the nonsense still counts.
        write_all(&mut worker, &bad_far, &tlv(5, 20, 1));
        write_all(&mut worker, &bad_far, bytes);
        if bytes.is_empty() {
            drop(bad_far);
        }
        closed(&mut worker, bad, reason);
        assert_eq!(worker.receive().0, bad);
        write_all(&mut worker, &good_far, &tlv(5, 20, 2));
        assert_eq!(worker.receive().0, good);
        worker.send(bad, &tlv(6, 20, 3));
        worker.flush();
        worker.finish();
    }
}

/// A web page can send an HTTP request with any body to any port.
#[test]
fn http_request_with_an_interest_in_its_body_brings_no_packet() {
    let interest = tlv(5, 40, 1);
    for head in ["POST / HTTP/1.1\r\nContent-Length: 40\r\n\r\n", "GET /", "\x16\x03\x01"] {
        let mut worker = Worker::new();
        let (face, counters, far) = worker.add_stream();
        write_all(&mut worker, &far, &[head.as_bytes(), &interest].concat());
        closed(&mut worker, face, CloseReason::OtherProtocol(head.as_bytes()[0]));
        assert_eq!(worker.faces.call_counters().other_protocol.value(), 1);
        assert!(worker.received.is_empty());
        assert_eq!(counters.in_interests.value(), 0);
        worker.finish();
    }
}

#[test]
fn malformed_frames_are_counted_and_skipped() {
    let mut worker = Worker::new();
    let (_, counters, far) = worker.add_stream();
    write_all(&mut worker, &far, &[100, 5, 80, 3, 0x80, 1, 9]);
    write_all(&mut worker, &far, &[100, 3, 80, 2, 0]);
    write_all(&mut worker, &far, &[100, 4, 81, 2, 0, 0]);
    write_all(&mut worker, &far, &tlv(6, 8801, 0));
    write_all(&mut worker, &far, &[100, 0]);
    write_all(&mut worker, &far, &tlv(5, 10, 0));
    assert_eq!(worker.receive().1, tlv(5, 10, 0));
    let dropped = |reason| counters.dropped(reason).value();
    assert_eq!(dropped(LinkDropReason::UnknownType), 1);
    assert_eq!(dropped(LinkDropReason::TooLong), 1);
    assert_eq!(dropped(LinkDropReason::Malformed), 2);
    assert_eq!(counters.dropped_total(), 4);
    worker.finish();
}

#[test]
fn stalled_peer_does_not_block_others() {
    let mut worker = Worker::new();
    let (_, _, stalled) = worker.add_stream();
    let (good, _, far) = worker.add_stream();
    let packet = tlv(6, 8800, 1);
    write_all(&mut worker, &stalled, &packet[..5000]);
    for seed in 0..100 {
        write_all(&mut worker, &far, &tlv(5, 1000, seed));
        assert_eq!(worker.receive().0, good);
    }
    write_all(&mut worker, &stalled, &packet[5000..]);
    assert_eq!(worker.receive().1, packet);
    worker.finish();
}

#[test]
fn packets_to_a_blocked_peer_are_dropped() {
    let link = LinkOptions { queue_bytes_max: 100_000, ..LinkOptions::stream() };
    let options = FaceOptions { link, ..local_stream() };
    let mut worker = Worker::new();
    let (near, deaf) = stream::unix_pair().unwrap();
    let (face, counters) = worker.add_stream_of(near, &options);
    let (good, _, far) = worker.add_stream();
    let mut sent = 0;
    while counters.dropped(LinkDropReason::QueueFull).value() == 0 {
        worker.send(face, &tlv(6, 1000, sent as u8));
        worker.flush();
        sent += 1;
    }
    assert!(counters.queued_bytes.value() <= 100_000);
    assert_eq!(counters.out_data.value(), sent - 1);
    for seed in 0..50 {
        worker.send(face, &tlv(6, 1000, 0));
        worker.send(good, &tlv(6, 500, seed));
        worker.flush();
        worker.poll(NOW);
        assert_eq!(read_available(&far), tlv(6, 500, seed));
    }
    // It reads at last, and gets all that was queued, in order and whole.
    let bytes = worker.read_exactly(&deaf, counters.out_bytes.value() as usize);
    for (index, packet) in bytes.chunks(1000).enumerate() {
        assert_eq!(packet, tlv(6, 1000, index as u8));
    }
    worker.send(face, &tlv(6, 1000, 77));
    worker.flush();
    assert_eq!(read_available(&deaf), tlv(6, 1000, 77));
    worker.finish();
}

#[test]
fn output_budget_bounds_all_queues() {
    let budget = 200_000;
    let set = FaceSetOptions { output_bytes_max: budget, ..FaceSetOptions::default() };
    let mut worker = Worker::with_options(&set);
    let deaf: Vec<_> = (0..10).map(|_| worker.add_stream()).collect();
    for _ in 0..1000 {
        for (face, _, _) in &deaf {
            worker.send(*face, &tlv(6, 4000, 0));
        }
        worker.flush();
    }
    let queued: u64 = deaf.iter().map(|(_, counters, _)| counters.queued_bytes.value()).sum();
    assert!(queued > 0);
    for (_, counters, _) in &deaf {
        assert!(counters.dropped(LinkDropReason::QueueFull).value() > 0);
    }
    // All faces have one principal. Of a frame that is written in part, the rest stays; so does one burst.
    let total: u64 = deaf
        .iter()
        .map(|(_, counters, far)| counters.out_bytes.value() - read_available(far).len() as u64)
        .sum();
    assert!(total as usize <= budget + 10 * (16 * 1024 + 4000), "{total} bytes queued");
    for (face, _, _) in &deaf {
        assert!(worker.faces.remove(*face, &worker.pool));
    }
    worker.finish();
}

/// A stream face of an on-demand peer at this address.
fn add_remote(worker: &mut Worker, last: u8) -> (ndn_table::FaceIndex, Arc<FaceCounters>, OwnedFd) {
    let mut options = local_stream();
    options.properties.principal = PrincipalKey::remote(([192, 0, 2, last], 6363).into());
    let (near, far) = stream::unix_pair().unwrap();
    let (face, counters) = worker.add_stream_of(near, &options);
    (face, counters, far)
}

#[test]
fn queue_of_a_face_above_its_share_is_cut_to_the_share() {
    let set = FaceSetOptions { output_bytes_max: 1 << 20, ..FaceSetOptions::default() };
    let mut worker = Worker::with_options(&set);
    let (hog, _, far) = add_remote(&mut worker, 1);
    let count = 400;
    for number in 0..count {
        worker.send(hog, &tlv(6, 4000, u8::try_from(number % 200).unwrap()));
        worker.flush();
    }
    let queued = |worker: &Worker| {
        let report = worker.faces.memory();
        let key = PrincipalKey::remote(([192, 0, 2, 1], 6363).into());
        let of_hog = report.principals.iter().find(|principal| principal.key == key);
        of_hog.map_or(0, |principal| principal.held[0])
    };
    // 69 % of the memory is open to remote peers.
    assert!(queued(&worker) > 700_000);
    let (other, of_other, _kept) = add_remote(&mut worker, 2);
    for _ in 0..110 {
        worker.send(other, &tlv(6, 4000, 1));
        worker.flush();
    }
    assert_eq!(of_other.dropped(LinkDropReason::QueueFull).value(), 0);
    // Half of what is open is the share of each. A sixteenth more is freed at once.
    let queued = queued(&worker);
    assert!((300_000..600_000).contains(&queued), "{queued} bytes are left of its queue");
    // The frames that are left are the first ones, and whole.
    let mut bytes = Vec::new();
    loop {
        let more = read_available(&far);
        if more.is_empty() {
            break;
        }
        bytes.extend(more);
        worker.settle();
        worker.flush();
    }
    assert!(bytes.len().is_multiple_of(4000), "{} bytes", bytes.len());
    for (number, packet) in (0..).zip(bytes.chunks(4000)) {
        assert_eq!(packet, tlv(6, 4000, u8::try_from(number % 200).unwrap()), "{number}");
    }
    for face in [hog, other] {
        assert!(worker.faces.remove(face, &worker.pool));
    }
    worker.finish();
}

#[test]
fn peer_that_reads_nothing_takes_no_output_memory_of_others() {
    let set = FaceSetOptions { output_bytes_max: 1 << 20, ..FaceSetOptions::default() };
    let mut worker = Worker::with_options(&set);
    // One address with many connections takes all of it.
    let hogs: Vec<_> = (0..8).map(|_| add_remote(&mut worker, 1)).collect();
    for _ in 0..400 {
        for (face, _, _) in &hogs {
            worker.send(*face, &tlv(6, 8000, 1));
        }
        worker.flush();
    }
    let dropped = |counters: &FaceCounters| counters.dropped(LinkDropReason::QueueFull).value();
    assert!(hogs.iter().all(|(_, counters, _)| dropped(counters) > 100));
    // A bystander that pauses may queue half of what is open to remote peers, and gets everything in order.
    let (face, counters, far) = add_remote(&mut worker, 2);
    let sent = 110_u8;
    for number in 0..sent {
        worker.send(face, &tlv(6, 4000, number));
        worker.flush();
    }
    assert!(counters.queued_bytes.value() > 0);
    assert_eq!(dropped(&counters), 0);
    let bytes = worker.read_exactly(&far, 4000 * usize::from(sent));
    for (number, packet) in (0..).zip(bytes.chunks(4000)) {
        assert_eq!(packet, tlv(6, 4000, number));
    }
    // What the others get later is whole as well, although some was dropped from the middle.
    let (face, counters, far) = &hogs[0];
    let length = |bytes: &[u8]| ndn_packet::tlv::frame_len(bytes).unwrap();
    let mut bytes = Vec::new();
    loop {
        let more = read_available(far);
        if more.is_empty() {
            break;
        }
        bytes.extend(more);
        worker.settle();
        worker.flush();
    }
    worker.send(*face, &tlv(6, 100, 9));
    worker.flush();
    bytes.extend(read_available(far));
    let mut rest = &bytes[..];
    while let Some(length) = length(rest) {
        rest = &rest[length..];
    }
    assert!(rest.is_empty() && bytes.ends_with(&tlv(6, 100, 9)));
    assert!(dropped(counters) > 0);
    for (face, _, _) in &hogs {
        assert!(worker.faces.remove(*face, &worker.pool));
    }
    worker.finish();
}

/// The first of two fragments, or the second.
fn fragment(message: u64, index: u64, count: u64, payload: &[u8]) -> Vec<u8> {
    let header = LpHeader {
        sequence: Some(message * 1000 + index),
        frag_index: Some(index),
        frag_count: Some(count),
        ..LpHeader::default()
    };
    let mut buffer = [0; 64];
    let length = header.write_prefix(payload.len(), &mut buffer).unwrap();
    [&buffer[..length], payload].concat()
}

#[test]
fn first_fragments_of_one_address_leave_room_for_those_of_others() {
    let set = FaceSetOptions { reassembly_bytes_max: 1 << 20, ..FaceSetOptions::default() };
    let mut worker = Worker::with_options(&set);
    let hogs: Vec<_> = (0..34).map(|_| add_remote(&mut worker, 1)).collect();
    let (bystander, counters, far) = add_remote(&mut worker, 2);
    let packet = tlv(5, 2000, 7);
    for message in 0..20 {
        for (_, _, hog) in &hogs {
            for own in 0..4 {
                let number = message * 4 + own;
                write_all(&mut worker, hog, &fragment(number, 0, 2, &tlv(5, 8000, 1)[..8000]));
            }
        }
        worker.settle();
        worker.flush();
        write_all(&mut worker, &far, &fragment(message, 0, 2, &packet[..1000]));
        worker.settle();
        worker.flush();
        for (_, _, hog) in &hogs {
            write_all(&mut worker, hog, &fragment(100_000 + message, 0, 2, &[5; 8000]));
        }
        worker.settle();
        worker.flush();
        write_all(&mut worker, &far, &fragment(message, 1, 2, &packet[1000..]));
        let (from, wire, _) = worker.receive();
        assert_eq!((from, &wire), (bystander, &packet), "message {message}");
    }
    assert_eq!(counters.dropped_total(), 0);
    let evicted =
        |counters: &FaceCounters| counters.dropped(LinkDropReason::ReassemblyFull).value();
    assert!(hogs.iter().map(|(_, counters, _)| evicted(counters)).sum::<u64>() > 1000);
    worker.finish();
}

#[test]
fn packets_are_marked_while_the_queue_is_above_threshold() {
    let mut worker = Worker::new();
    let (face, counters, far) = worker.add_stream();
    for _ in 0..1000 {
        worker.send(face, &tlv(6, 2000, 0));
        worker.flush();
        worker.advance(Duration::from_millis(1));
    }
    assert!(counters.out_marks.value() >= 5);
    let mut bytes = worker.read_exactly(&far, counters.out_bytes.value() as usize);
    let mut marks = 0;
    while !bytes.is_empty() {
        let length = ndn_packet::tlv::frame_len(&bytes).unwrap().unwrap();
        marks += u64::from(LpPacket::parse(&bytes[..length]).unwrap().congestion_mark() == Some(1));
        bytes.drain(..length);
    }
    assert_eq!(marks, counters.out_marks.value());
    worker.finish();
}

/// A WebSocket frame of a client that begins a message with this payload.
fn first_part(payload: &[u8]) -> Vec<u8> {
    let [high, low] = (payload.len() as u16).to_be_bytes();
    // The mask changes nothing.
    [&[0x02, 0x80 | 126, high, low, 0, 0, 0, 0], payload].concat()
}

#[test]
fn websocket_message_in_parts_without_a_free_buffer_is_counted() {
    let mut worker = Worker::new();
    let (near, far) = stream::unix_pair().unwrap();
    let (face, counters) = worker.open(NewStream::WebSocket(near), &local_stream());
    let packet = tlv(5, 1000, 1);
    let last = [&[0x80, 0x80 | 126, 1, 244, 0, 0, 0, 0], &packet[500..]].concat();
    write_all(&mut worker, &far, &first_part(&packet[..500]));
    worker.settle();
    let held: Vec<_> = std::iter::from_fn(|| worker.pool.allocate_block()).collect();
    write_all(&mut worker, &far, &last);
    worker.settle();
    assert_eq!(counters.dropped(LinkDropReason::NoBuffer).value(), 1);
    held.into_iter().for_each(|block| worker.pool.finish(block));
    write_all(&mut worker, &far, &[first_part(&packet[..500]), last].concat());
    let (from, wire, _) = worker.receive();
    assert_eq!((from, wire), (face, packet));
    assert!(worker.faces.remove(face, &worker.pool));
    worker.finish();
}

#[test]
fn unfinished_websocket_messages_of_one_address_leave_room_for_fragments_of_others() {
    let set = FaceSetOptions { reassembly_bytes_max: 1 << 20, ..FaceSetOptions::default() };
    let mut worker = Worker::with_options(&set);
    let mut hogs = Vec::new();
    let packet = tlv(5, 8000, 1);
    for _ in 0..120 {
        let mut options = local_stream();
        options.properties.principal = PrincipalKey::remote(([192, 0, 2, 1], 6363).into());
        let (near, far) = stream::unix_pair().unwrap();
        let index = worker.next_index();
        worker.faces.open(worker.now, index, NewStream::WebSocket(near), &options).unwrap();
        write_all(&mut worker, &far, &first_part(&packet[..8000]));
        worker.settle();
        worker.flush();
        hogs.push((index, far));
    }
    let is_open =
        |worker: &Worker| hogs.iter().filter(|(at, _)| worker.faces.contains(*at)).count();
    // All that is open to remote peers; what was refused is closed.
    assert!((70..100).contains(&is_open(&worker)), "{}", is_open(&worker));
    let (bystander, counters, far) = add_remote(&mut worker, 2);
    for message in 0..60 {
        write_all(&mut worker, &far, &fragment(message, 0, 2, &packet[..7000]));
        worker.settle();
        worker.flush();
    }
    // They were forgotten because of the limit of the face, not for lack of memory.
    let kept = 32;
    for message in 60 - kept..60 {
        write_all(&mut worker, &far, &fragment(message, 1, 2, &packet[7000..]));
        worker.settle();
        let (from, wire, _) = worker.receive();
        assert_eq!((from, &wire), (bystander, &packet), "message {message}");
    }
    assert_eq!(counters.dropped(LinkDropReason::ReassemblyFull).value(), 60 - kept);
    assert!((45..70).contains(&is_open(&worker)), "{} keep their share", is_open(&worker));
    assert!(worker.faces.memory().principals.len() >= 2);
    worker.finish();
}

#[test]
fn remote_peers_leave_the_reserve_of_applications_to_them() {
    let set = FaceSetOptions { output_bytes_max: 1 << 20, ..FaceSetOptions::default() };
    let mut worker = Worker::with_options(&set);
    let hogs: Vec<_> = (1..=100).map(|last| add_remote(&mut worker, last)).collect();
    for _ in 0..100 {
        for (face, _, _) in &hogs {
            worker.send(*face, &tlv(6, 8000, 1));
        }
        worker.flush();
    }
    let of_class = |worker: &Worker, class: PrincipalClass| {
        worker.faces.memory().resources[0].used[class.index()] as usize
    };
    let used = of_class(&worker, PrincipalClass::Remote);
    assert!(used > 600_000 && used <= (1 << 20) * 69 / 100, "{used}");
    let before: u64 = hogs.iter().map(|(_, counters, _)| counters.queued_bytes.value()).sum();
    let mut options = local_stream();
    options.properties.principal = PrincipalKey::LocalApplication { uid: 1, pid: 7 };
    let (near, far) = stream::unix_pair().unwrap();
    let (face, counters) = worker.add_stream_of(near, &options);
    while of_class(&worker, PrincipalClass::Local) < 90_000 {
        worker.send(face, &tlv(6, 1000, 2));
        worker.flush();
    }
    assert_eq!(counters.dropped_total(), 0);
    let after: u64 = hogs.iter().map(|(_, counters, _)| counters.queued_bytes.value()).sum();
    assert_eq!(before, after, "no queue gave way");
    drop(far);
    for (face, _, _) in &hogs {
        assert!(worker.faces.remove(*face, &worker.pool));
    }
    worker.finish();
}

#[test]
fn frames_that_other_workers_have_received_are_no_part_of_an_event() {
    let mut worker = Worker::new();
    let (_, _, stream) = worker.add_stream();
    let (other, _, _other_stream) = worker.add_stream();
    let packets = [tlv(5, 20, 1), tlv(5, 20, 2), tlv(5, 20, 3)];
    write_all(&mut worker, &stream, &packets.concat());
    worker.run_until(|worker| worker.received.len() == 3);
    let calls = Arc::clone(worker.faces.call_counters());
    assert_eq!((worker.faces.report().frames, calls.received_frames.value()), (3, 3));
    let mut sink = Sink::default();
    for packet in &packets {
        worker.faces.receive_frame(worker.now, other, None, packet, &worker.pool, &mut sink);
    }
    assert_eq!(sink.burst.len(), 3);
    worker.received.extend(sink.burst);
    assert_eq!((worker.faces.report().frames, calls.received_frames.value()), (3, 3));
    worker.finish();
}
