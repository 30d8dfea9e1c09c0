#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;

const READER: DatagramReader = DatagramReader { interface: 7, takes_unfinished: false };

fn headers(source: &str, peer: &str) -> DatagramHeaders {
    DatagramHeaders { source: source.parse().unwrap(), peer: peer.parse().unwrap() }
}

const V4: [&str; 2] = ["192.0.2.1:6363", "198.51.100.7:56363"];
const V6: [&str; 2] = ["[2001:db8::1]:6363", "[2001:db8:1::ffff:7]:56363"];

/// A frame with a datagram of two pieces, and padding.
fn frame(ends: [&str; 2], pieces: [&[u8]; 2]) -> Vec<u8> {
    let headers = headers(ends[0], ends[1]);
    let mut written = [0; DatagramHeaders::LENGTH_MAX];
    let length = headers.write(pieces, &mut written).unwrap();
    assert_eq!(length, headers.length());
    let ether = [&[2; 12][..], &headers.protocol().to_be_bytes()].concat();
    [&ether, &written[..length], pieces[0], pieces[1], &[0x55; 9]].concat()
}

#[test]
fn what_is_written_is_read() {
    let bytes: Vec<u8> = (0..=255).cycle().take(1400).collect();
    for ends in [V4, V6] {
        for (first, second) in [(0, 0), (0, 1), (1, 0), (3, 400), (4, 399), (5, 1395)] {
            let pieces = [&bytes[..first], &bytes[first..first + second]];
            let frame = frame(ends, pieces);
            let datagram = READER.read(&frame).unwrap().unwrap();
            assert_eq!(datagram.source.to_string(), ends[0]);
            assert_eq!(datagram.destination.to_string(), ends[1]);
            assert_eq!(datagram.payload, pieces.concat());
        }
    }
}

#[test]
fn checksums_are_those_of_others() {
    // As RFC 1071 tells it: a sum of pairs in the order of the network.
    let frame = frame(V4, [b"abc", b"de"]);
    let sum_of = |bytes: &[u8]| {
        let pairs = bytes
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
        let total: u32 = pairs.sum();
        !u16::try_from((total & 0xffff) + (total >> 16)).unwrap()
    };
    assert_eq!(sum_of(&frame[14..34]), 0, "of the header of IP");
    let mut covered = frame[26..34].to_vec();
    covered.extend([0, 17, 0, 13]);
    covered.extend(&frame[34..47]);
    assert_eq!(sum_of(&covered), 0, "of the datagram");
}

#[test]
fn every_bit_counts() {
    // Nothing looks at class, flow and hop limit of IPv6, and a packet may be longer than its datagram.
    let is_free = |place: usize, bit: u8| match place {
        14 => bit < 4,
        15..=19 | 21 => true,
        _ => false,
    };
    for ends in [V4, V6] {
        let right = frame(ends, [b"payload of ", b"some length"]);
        for place in 14..right.len() - 9 {
            for bit in (0..8).filter(|bit| ends == V4 || !is_free(place, *bit)) {
                let mut wrong = right.clone();
                wrong[place] ^= 1 << bit;
                assert!(READER.read(&wrong).unwrap().is_err(), "{ends:?} {place} {bit}");
            }
        }
    }
}

#[test]
fn a_datagram_may_have_no_checksum_in_ipv4_only() {
    let mut v4 = frame(V4, [b"a", b"b"]);
    v4[40..42].fill(0);
    assert_eq!(READER.read(&v4).unwrap().unwrap().payload, b"ab");
    let mut v6 = frame(V6, [b"a", b"b"]);
    v6[60..62].fill(0);
    assert_eq!(READER.read(&v6), Some(Err(DatagramFault::Checksum)));
}

#[test]
fn a_checksum_may_be_left_to_a_card() {
    for (ends, at, addresses) in [(V4, 40, 26..34), (V6, 60, 22..54)] {
        let mut frame = frame(ends, [b"payload", b""]);
        let unfinished = fold(pseudo_header(&frame[addresses], 15));
        frame[at..at + 2].copy_from_slice(&unfinished.to_ne_bytes());
        assert_eq!(READER.read(&frame), Some(Err(DatagramFault::Checksum)));
        let virtual_one = DatagramReader { takes_unfinished: true, ..READER };
        assert_eq!(virtual_one.read(&frame).unwrap().unwrap().payload, b"payload");
        frame[at] ^= 1;
        assert_eq!(virtual_one.read(&frame), Some(Err(DatagramFault::Checksum)));
    }
}

#[test]
fn addresses_of_a_link_have_its_number() {
    let frame = frame(["[fe80::1%3]:1", "[fe80::2%3]:2"], [b"", b""]);
    let datagram = READER.read(&frame).unwrap().unwrap();
    assert_eq!(datagram.source.to_string(), "[fe80::1%7]:1");
    assert_eq!(datagram.destination.to_string(), "[fe80::2%7]:2");
}

#[test]
fn senders_that_cannot_be_are_refused() {
    for source in ["0.0.0.0:9", "127.0.0.1:9", "224.0.0.1:9", "255.255.255.255:9", "192.0.2.1:0"] {
        let read = frame([source, V4[1]], [b"x", b""]);
        assert_eq!(READER.read(&read), Some(Err(DatagramFault::Malformed)), "{source}");
    }
    for source in ["[::]:9", "[::1]:9", "[ff02::1]:9", "[2001:db8::1]:0"] {
        let read = frame([source, V6[1]], [b"x", b""]);
        assert_eq!(READER.read(&read), Some(Err(DatagramFault::Malformed)), "{source}");
    }
}

#[test]
fn no_length_makes_it_panic_and_short_ones_are_refused() {
    for ends in [V4, V6] {
        let whole = frame(ends, [b"abc", b""]);
        let needed = whole.len() - 9;
        for length in 0..needed {
            let read = READER.read(&whole[..length]);
            assert!(read.is_none() || read == Some(Err(DatagramFault::Malformed)), "{length}");
        }
        assert!(READER.read(&whole[..needed]).unwrap().is_ok());
    }
    assert!(READER.read(&[0; 60]).is_none(), "no IP");
    let mut written = [0; DatagramHeaders::LENGTH_MAX];
    assert_eq!(headers(V4[0], V6[1]).write([b"", b""], &mut written), None);
    assert_eq!(headers(V4[0], V4[1]).write([&[0; 65_508], b""], &mut written), None);
    assert_eq!(headers(V4[0], V4[1]).write([&[0; 65_507], b""], &mut written), Some(28));
}
