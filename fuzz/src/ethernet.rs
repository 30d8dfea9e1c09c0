//! Ethernet frames: headers, padding behind a packet, several senders in a group, and UDP in IP.

use std::sync::Arc;

use ndn_face::{
    ETHER_TYPE, FaceCounters, FaceMemory, Holder, LinkOptions, LinkService, MemoryKind, Received,
    Sender, without_padding,
};
use ndn_packet::MAX_PACKET_SIZE;
use ndn_sys::packet::{Delivery, FrameReader};
use ndn_types::{Reserves, Timestamp};

/// Bytes of fragments that may wait; little, so that a short input reaches it.
const MEMORY: usize = 8 * 1024;
/// A frame has at least so much payload.
const PAYLOAD_MIN: usize = 46;

const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0x17, 0xaa];
const READER: FrameReader =
    FrameReader { interface: 1, protocol: ETHER_TYPE, mac: OWN, group: Some(GROUP) };

/// Checks the header decoder of AF_XDP with arbitrary bytes; with AF_PACKET, the kernel decodes them.
fn check_header(frame: &[u8]) {
    let Some(read) = READER.read(frame) else { return };
    // What is read lies in the frame, behind what says of what kind it is.
    let header = frame.len() - read.payload.len();
    assert!(header == 14 || header == 18 && frame[12..14] == [0x81, 0]);
    assert_eq!(frame[header - 2..header], ETHER_TYPE.to_be_bytes());
    assert!(frame[header..] == *read.payload && read.vlan < 4096);
    assert_eq!(read.source.as_ref().map(|source| &source[..]), frame.get(6..12));
    let expected = match &frame[..6] {
        to if to == OWN => Delivery::Host,
        to if to == GROUP => Delivery::Group,
        _ => Delivery::Other,
    };
    assert_eq!(read.delivery, expected);
}

/// Takes the bytes as the payloads of frames that arrive one after the other at the face of a group: for
/// each, one byte for the sender, two bytes of length, and what the sender wrote.
pub(crate) fn ethernet(mut bytes: &[u8]) {
    check_header(bytes);
    let counters = Arc::new(FaceCounters::default());
    let mut service = LinkService::new(LinkOptions::datagram(1500), Arc::clone(&counters), 0);
    let mut memory = FaceMemory::new(0, MEMORY, Reserves::NONE);
    let mut frames = 0;
    while let Some((head, rest)) = bytes.split_first_chunk::<3>() {
        let length = usize::from(u16::from_be_bytes([head[1], head[2]])).min(rest.len());
        let (written, rest) = rest.split_at(length);
        bytes = rest;
        let header = [&GROUP[..], &[2, 0, 0, 0, 0, head[0]], &ETHER_TYPE.to_be_bytes()].concat();
        let whole = [&header, written].concat();
        check_header(&whole);
        let framed = READER.read(&whole).map(|frame| frame.payload);
        assert_eq!(framed, Some(written), "what is sent is received");
        let mut payload = written.to_vec();
        payload.resize(payload.len().max(PAYLOAD_MIN), 0);
        let Some(length) = without_padding(&payload) else { continue };
        assert!((2..=payload.len()).contains(&length));
        // More padding changes nothing, and a byte less than the packet leaves none.
        payload.push(0xff);
        assert_eq!(without_padding(&payload), Some(length));
        assert_eq!(without_padding(&payload[..length]), Some(length));
        assert_eq!(without_padding(&payload[..length - 1]), None);
        let sender = Sender::Station([2, 0, 0, 0, 0, head[0]]);
        frames += 1;
        let now = Timestamp::from_millis(frames);
        match service.receive_from(
            now,
            Some(sender),
            &payload[..length],
            &mut memory.reassembly(Holder::UNACCOUNTED),
        ) {
            Ok(Received::Packet { offset, .. }) => assert!(offset < length),
            Ok(Received::Reassembled { packet, fields }) => {
                let announcement = usize::from(fields.announcement_length);
                assert!(packet.len() - announcement <= MAX_PACKET_SIZE);
            }
            Ok(Received::Nothing) | Err(_) => {}
        }
        assert!(memory.used(MemoryKind::Reassembly) <= MEMORY);
    }
    assert_eq!(counters.in_frames.value(), frames);
    service.close(&mut memory.reassembly(Holder::UNACCOUNTED));
    assert_eq!(memory.used(MemoryKind::Reassembly), 0);
}
