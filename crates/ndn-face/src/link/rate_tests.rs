//! Interests of a face beyond the rates that it is held to.

use std::sync::Arc;

use ndn_packet::LpHeader;

use super::tests::OWNER;
use super::*;
use crate::memory::FaceMemory;
use ndn_types::{Reserves, Timestamp};

#[test]
fn interests_beyond_the_rate_are_dropped_and_counted() {
    let interests_per_second = std::num::NonZeroU32::new(8);
    let options = LinkOptions { interests_per_second, ..LinkOptions::stream() };
    let mut link = LinkService::new(options, Arc::default(), 0);
    let mut budget = FaceMemory::new(0, 0, Reserves::NONE);
    let now = Timestamp::from_nanos(1_000_000_000);
    let mut receive =
        |frame: &[u8]| link.receive(now, frame, &mut budget.reassembly(OWNER)).map(|_| ());
    let interest = [5, 8, 7, 3, 8, 1, b'a', 10, 1, 0];
    // A quarter of a second's worth, and the one that empties the bucket.
    for _ in 0..3 {
        assert_eq!(receive(&interest), Ok(()));
    }
    assert_eq!(receive(&interest), Err(LinkDropReason::InterestRate));
    let data = [6, 5, 7, 3, 8, 1, b'a'];
    let nack = [&[0x64, 16, 0xfd, 3, 0x20, 0, 0x50, 10][..], &interest].concat();
    assert_eq!((receive(&data), receive(&nack)), (Ok(()), Ok(())));
    assert_eq!(link.counters().dropped(LinkDropReason::InterestRate).value(), 1);
    assert_eq!(link.counters().in_nacks.value(), 1);
}

#[test]
fn interests_to_management_beyond_their_rate_are_dropped_and_counted_and_no_others() {
    let mut link = LinkService::new(LinkOptions::stream(), Arc::default(), 0);
    let mut budget = FaceMemory::new(0, 0, Reserves::NONE);
    let now = Timestamp::from_nanos(1_000_000_000);
    let interest = |uri: &str| {
        let name = ndn_packet::Name::from_uri(uri).unwrap();
        ndn_packet::InterestBuilder::new(&name).nonce(1).to_vec().unwrap()
    };
    let (command, other) = (interest("/localhost/nfd/cs/erase/x"), interest("/localhost/x"));
    let framed = |packet: &[u8]| {
        let mut frame = vec![0; 100];
        let length = LpHeader { pit_token: b"t", ..LpHeader::default() }.write(packet, &mut frame);
        frame.truncate(length.unwrap());
        frame
    };
    let mut receive = |link: &mut LinkService, frame: &[u8]| {
        link.receive(now, frame, &mut budget.reassembly(OWNER)).map(|_| ())
    };
    for _ in 0..100 {
        assert_eq!(receive(&mut link, &command), Ok(()), "nothing is limited");
    }
    let management_per_second = std::num::NonZeroU32::new(8);
    link.set_options(LinkOptions { management_per_second, ..*link.options() });
    for _ in 0..3 {
        assert_eq!(receive(&mut link, &command), Ok(()));
    }
    for frame in [&command, &framed(&command)] {
        assert_eq!(receive(&mut link, frame), Err(LinkDropReason::ManagementRate));
    }
    for frame in [&other, &framed(&other)] {
        assert_eq!(receive(&mut link, frame), Ok(()));
    }
    assert_eq!(link.counters().dropped(LinkDropReason::ManagementRate).value(), 2);
    link.set_options(LinkOptions { management_per_second: None, ..*link.options() });
    assert_eq!(receive(&mut link, &command), Ok(()));
}
