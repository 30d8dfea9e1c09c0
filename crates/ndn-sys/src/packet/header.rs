//! Ethernet frames with their headers, for programs that receive them without the kernel's help (IEEE 802.3 and
//! 802.1Q).

use crate::packet::ring::{Delivery, Frame};

/// Destination, source and type.
pub(crate) const HEADER_LENGTH: usize = 14;
/// A VLAN tag, between the source and the type, and the bits of it that are the number of the VLAN.
const TAG_LENGTH: usize = 4;
const TAGGED: u16 = 0x8100;
const VLAN_MASK: u16 = 0x0fff;
/// A frame has no fewer bytes than this, without its checksum.
pub(crate) const FRAME_MIN: usize = 60;

/// The receiver of frames: device, EtherType and addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameReader {
    /// The device, by the kernel's number.
    pub interface: u32,
    /// The EtherType.
    pub protocol: u16,
    /// The device's address.
    pub mac: [u8; 6],
    /// The group that was joined.
    pub group: Option<[u8; 6]>,
}

impl FrameReader {
    /// The frame in `bytes`, from its destination to its padding; nothing if it is too short or of
    /// another EtherType.
    #[must_use]
    #[inline]
    pub fn read<'f>(&self, bytes: &'f [u8]) -> Option<Frame<'f>> {
        let (header, mut payload) = bytes.split_first_chunk::<HEADER_LENGTH>()?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *header;
        let destination = [d0, d1, d2, d3, d4, d5];
        let mut protocol = u16::from_be_bytes([t0, t1]);
        let mut vlan = 0;
        if protocol == TAGGED {
            let (tag, rest) = payload.split_first_chunk::<TAG_LENGTH>()?;
            vlan = u16::from_be_bytes([tag[0], tag[1]]) & VLAN_MASK;
            protocol = u16::from_be_bytes([tag[2], tag[3]]);
            payload = rest;
        }
        if protocol != self.protocol {
            return None;
        }
        let delivery = if destination == self.mac {
            Delivery::Host
        } else if Some(destination) == self.group {
            Delivery::Group
        } else {
            Delivery::Other
        };
        Some(Frame {
            payload,
            source: Some([s0, s1, s2, s3, s4, s5]),
            delivery,
            interface: self.interface,
            vlan,
            is_truncated: false,
            follows_loss: false,
        })
    }

    /// The header of a frame from this device.
    #[must_use]
    pub fn header(&self, to: [u8; 6]) -> [u8; HEADER_LENGTH] {
        let mut header = [0; HEADER_LENGTH];
        header[..6].copy_from_slice(&to);
        header[6..12].copy_from_slice(&self.mac);
        header[12..].copy_from_slice(&self.protocol.to_be_bytes());
        header
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];
    const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0x17, 0xaa];
    const READER: FrameReader =
        FrameReader { interface: 4, protocol: 0x8624, mac: OWN, group: Some(GROUP) };

    #[test]
    fn encoded_header_is_decoded() {
        for (to, delivery) in
            [(OWN, Delivery::Host), (GROUP, Delivery::Group), ([0xff; 6], Delivery::Other)]
        {
            let sender = FrameReader { mac: OTHER, ..READER };
            let bytes = [&sender.header(to)[..], b"payload"].concat();
            let frame = READER.read(&bytes).unwrap();
            assert_eq!((frame.payload, frame.source), (&b"payload"[..], Some(OTHER)));
            assert_eq!((frame.delivery, frame.interface, frame.vlan), (delivery, 4, 0));
        }
        let nobody = FrameReader { group: None, ..READER };
        let bytes = READER.header(GROUP);
        assert_eq!(nobody.read(&bytes).unwrap().delivery, Delivery::Other);
    }

    #[test]
    fn vlan_is_read_from_the_tag() {
        let tagged = |tag: u16, protocol: u16| {
            let mut bytes = READER.header(OWN).to_vec();
            bytes.splice(12..12, [&[0x81, 0][..], &tag.to_be_bytes()].concat());
            bytes[16..18].copy_from_slice(&protocol.to_be_bytes());
            bytes.extend(b"ab");
            bytes
        };
        let read =
            |bytes: &[u8]| READER.read(bytes).map(|frame| (frame.vlan, frame.payload.to_vec()));
        assert_eq!(read(&tagged(0xe000, 0x8624)), Some((0, b"ab".to_vec())));
        assert_eq!(read(&tagged(0x2007, 0x8624)), Some((7, b"ab".to_vec())));
        assert_eq!(read(&tagged(0, 0x0800)), None);
        assert_eq!(read(&tagged(0, 0x8100)), None, "a second tag");
    }

    #[test]
    fn headers_of_any_length_never_panic() {
        let mut bytes = READER.header(OWN).to_vec();
        for length in 0..HEADER_LENGTH {
            assert_eq!(READER.read(&bytes[..length]), None);
        }
        assert!(READER.read(&bytes).unwrap().payload.is_empty());
        bytes[12..14].copy_from_slice(&[0x81, 0]);
        bytes.extend([0, 0, 0x86]);
        for length in 0..bytes.len() {
            assert_eq!(READER.read(&bytes[..length]), None);
        }
    }
}
