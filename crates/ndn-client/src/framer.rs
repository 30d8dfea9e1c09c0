//! Cutting a byte stream into packets.

use bytes::{Bytes, BytesMut};
use ndn_packet::tlv::frame_len;
use thiserror::Error;

/// Largest packet that is accepted from a stream: one NDNLPv2 packet around a Data of the largest
/// practical size (8800 bytes), with room for peers that send larger ones.
pub(crate) const FRAME_LEN_MAX: usize = 64 * 1024;

/// Read buffers are made in this size, so that one system call brings many packets.
const BUFFER_LEN: usize = 256 * 1024;

/// Why a stream cannot be followed any further.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum FrameError {
    /// What should be the start of a packet is not a TLV.
    #[error("the forwarder sent bytes that are not TLV: {0}")]
    NotTlv(#[source] ndn_packet::DecodeError),
    /// A packet is longer than is accepted.
    #[error("the forwarder sent a packet of {0} bytes, at most {FRAME_LEN_MAX} are accepted")]
    TooLong(usize),
}

/// The bytes of a stream that are read but not yet taken.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    buffer: BytesMut,
}

impl Framer {
    /// The buffer to read into, with room for a packet at least.
    pub(crate) fn read_buffer(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < FRAME_LEN_MAX {
            self.buffer.reserve(BUFFER_LEN);
        }
        &mut self.buffer
    }

    /// The next whole packet; it shares the memory of the read buffer.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        match frame_len(&self.buffer).map_err(FrameError::NotTlv)? {
            Some(length) if length > FRAME_LEN_MAX => Err(FrameError::TooLong(length)),
            Some(length) if length <= self.buffer.len() => {
                Ok(Some(self.buffer.split_to(length).freeze()))
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(length: usize) -> Vec<u8> {
        let mut out = Vec::new();
        ndn_packet::tlv::append_tlv(&mut out, 6, &vec![0x5a; length]);
        out
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_packets(
            lengths in proptest::collection::vec(0usize..3000, 0..20),
            cuts in proptest::collection::vec(1usize..5000, 1..50),
        ) {
            let frames: Vec<_> = lengths.into_iter().map(frame).collect();
            let stream = frames.concat();
            let mut framer = Framer::default();
            let mut found = Vec::new();
            let mut rest = stream.as_slice();
            for cut in cuts.iter().cycle() {
                let (head, tail) = rest.split_at((*cut).min(rest.len()));
                framer.read_buffer().extend_from_slice(head);
                rest = tail;
                while let Some(frame) = framer.next_frame().unwrap() {
                    found.push(frame.to_vec());
                }
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(found, frames);
        }
    }

    #[test]
    fn nonsense_and_giants_end_the_stream() {
        let mut framer = Framer::default();
        framer.read_buffer().extend_from_slice(&[0, 0]);
        assert!(matches!(framer.next_frame(), Err(FrameError::NotTlv(_))));
        let mut framer = Framer::default();
        framer.read_buffer().extend_from_slice(&[6, 0xfe, 0, 1, 0, 0]);
        assert_eq!(framer.next_frame(), Err(FrameError::TooLong(65_536 + 6)));
    }
}
