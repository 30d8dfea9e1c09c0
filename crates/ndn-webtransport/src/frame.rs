//! Frames on datagrams and streams, and integers of QUIC.

use ndn_packet::MAX_PACKET_SIZE;
use ndn_packet::tlv::frame_len;
use ndn_packet::types;

/// Longest frame in the stream: a packet and its link header.
pub(crate) const FRAME_LENGTH_MAX: usize = MAX_PACKET_SIZE + 256;

/// Whether a datagram, or the content of a stream, is exactly one Interest, Data or LpPacket by its outer TLV. The
/// forwarder would close the stream of the session because of anything else.
pub(crate) fn is_frame(datagram: &[u8]) -> bool {
    datagram.len() <= FRAME_LENGTH_MAX
        && datagram.first().is_some_and(|first| types::starts_frame(*first))
        && matches!(frame_len(datagram), Ok(Some(length)) if length == datagram.len())
}

/// An integer of QUIC (RFC 9000, section 16).
pub(crate) fn varint(number: u64) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let (length, prefix) = match number {
        0..0x40 => (1, 0),
        0x40..0x4000 => (2, 0x40),
        0x4000..0x4000_0000 => (4, 0x80),
        _ => (8, 0xc0),
    };
    let mut written = bytes[8 - length..].to_vec();
    written[0] |= prefix;
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_encoded_as_in_rfc_9000() {
        assert_eq!(varint(0), [0]);
        assert_eq!(varint(37), [0x25]);
        assert_eq!(varint(0x54), [0x40, 0x54]);
        assert_eq!(varint(15_293), [0x7b, 0xbd]);
        assert_eq!(varint(494_878_333), [0x9d, 0x7f, 0x3e, 0x7d]);
        assert_eq!(varint(1 << 40), [0xc0, 0, 1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn frame_is_exactly_one_element() {
        assert!(is_frame(&[6, 2, 7, 0]));
        assert!(is_frame(&[0x64, 0]));
        assert!(is_frame(&[&[6, 0xfd, 0x22, 0x60][..], &[0; 0x2260]].concat()));
        for wrong in [
            &[][..],
            &[6],
            &[6, 2, 7],
            &[6, 2, 7, 0, 0],
            &[0, 0],
            &[0x80, 1, 9],
            &[6, 0xfd, 0, 1, 0],
            &[6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[&[6, 0xfd, 0x30, 0][..], &[0; 0x3000]].concat(),
        ] {
            assert!(!is_frame(wrong), "{wrong:?}");
        }
    }
}
