//! Announcements on their way, and several senders on one link.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::tests::{OWNER, at, deliver, fragment, frames, memory, packet, service, wire};
use super::*;
use crate::LinkDropReason as Reason;
use crate::memory::MemoryKind;
use ndn_forwarding::TxPacket;
use ndn_packet::LpHeader;

/// A Data TLV of this length in bytes.
pub(super) fn announcement(length: u16) -> Vec<u8> {
    let [high, low] = (length - 4).to_be_bytes();
    let mut bytes = vec![6, 253, high, low];
    bytes.resize(usize::from(length), 9);
    bytes
}

#[test]
fn announcement_follows_its_packet() {
    let announcement = announcement(300);
    for (mtu, length) in [(None, 1000), (Some(1400), 300), (Some(1400), 8800), (Some(576), 1000)] {
        let data = wire(length, 1);
        let sent = TxPacket { prefix_announcement: &announcement, ..packet(&data) };
        let mut sent = frames(&mut service(mtu), &sent);
        sent.rotate_left(1);
        let (mut receiver, mut memory) = (service(None), memory());
        let got: Vec<_> = sent
            .iter()
            .filter_map(|frame| deliver(&mut receiver, at(0), frame, &mut memory.reassembly(OWNER)))
            .collect();
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].0, [&data[..], &announcement[..]].concat(), "{mtu:?} {length}");
        assert_eq!(usize::from(got[0].1.announcement_length), announcement.len());
        assert_eq!(receiver.counters().in_data.value(), 1);
        receiver.close(&mut memory.reassembly(OWNER));
        assert_eq!(memory.used(MemoryKind::Reassembly), 0);
    }
}

#[test]
fn announcement_that_exceeds_the_mtu_is_omitted() {
    let announcement = announcement(300);
    for (mtu, length) in [(None, 8700), (Some(400), 100)] {
        let data = wire(length, 1);
        let sent = TxPacket { prefix_announcement: &announcement, ..packet(&data) };
        assert_eq!(frames(&mut service(mtu), &sent), [data]);
    }
    let announcement = [5, 1, 0];
    let header = LpHeader { prefix_announcement: Some(&announcement), ..LpHeader::default() };
    let mut frame = [0; 64];
    let length = header.write(&[6, 1, 0], &mut frame).unwrap();
    let result =
        service(None).receive(at(0), &frame[..length], &mut memory().reassembly(OWNER)).map(|_| ());
    assert_eq!(result, Err(Reason::Malformed), "it is no Data");
}

#[test]
fn senders_of_a_group_are_distinguished() {
    let one = Some(Sender::Internet("192.0.2.1:6363".parse().unwrap()));
    let two = Some(Sender::Station([2, 0, 0, 0, 0, 2]));
    let (mut receiver, mut memory) = (service(None), memory());
    let mut got = Vec::new();
    // Both happen to use the same numbers.
    for (index, half) in [(0, 1), (1, 1)] {
        for (sender, seed) in [(one, 1), (two, 2)] {
            let mut payload = wire(100, seed);
            payload.rotate_left(index * half);
            let frame = fragment(Some(7 + index as u64), index as u64, 2, &payload);
            match receiver
                .receive_from(at(0), sender, &frame, &mut memory.reassembly(OWNER))
                .unwrap()
            {
                Received::Reassembled { packet, .. } => got.push(packet.to_vec()),
                Received::Packet { .. } | Received::Nothing => {}
            }
        }
    }
    assert_eq!(got.len(), 2);
    assert_eq!(got[0][..100], wire(100, 1));
    assert_eq!(got[1][..100], wire(100, 2));
}
