//! Padding of short Ethernet frames.

use ndn_packet::tlv;

/// The length of the packet at the start of an Ethernet payload, by its outermost TLV: a frame has at least 46
/// bytes of payload, so padding may follow. `None` if the packet exceeds the frame, or is no TLV.
#[must_use]
pub fn without_padding(payload: &[u8]) -> Option<usize> {
    let length = tlv::frame_len(payload).ok()??;
    (length <= payload.len()).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_removed() {
        let packet = [5, 3, 7, 1, 8];
        for padding in [0, 1, 41, 1000] {
            let mut payload = packet.to_vec();
            payload.resize(packet.len() + padding, 0);
            assert_eq!(without_padding(&payload), Some(packet.len()));
        }
        // Padding need not be zeros, and what it holds does not count.
        assert_eq!(without_padding(&[5, 0, 6, 0xff, 0xff]), Some(2));
        let long = [&[0x64, 0xfd, 1, 0][..], &[1; 300]].concat();
        assert_eq!(without_padding(&long), Some(260));
    }

    #[test]
    fn packet_longer_than_the_frame_is_rejected() {
        for payload in [
            &[][..],
            &[0; 46],
            &[5],
            &[5, 3, 7, 1],
            &[0x64, 0xfd, 1],
            &[0x64, 0xfd, 0, 1, 0],
            &[5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2],
        ] {
            assert_eq!(without_padding(payload), None, "{payload:?}");
        }
    }
}
