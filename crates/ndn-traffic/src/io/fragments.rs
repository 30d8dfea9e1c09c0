//! Fragmentation of packets that are too long for one frame (NDNLPv2).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ndn_packet::LpPacket;
use ndn_packet::lp::{Reassembler, fragment_frame};
use ndn_sys::clock;

/// Sequence, the first field in the header of a fragment.
const LP_SEQUENCE: u8 = 0x51;

/// Fragments outgoing packets.
#[derive(Debug)]
pub(super) struct Fragmenter {
    /// The owner of the transport may change it.
    mtu: Arc<AtomicUsize>,
    sequence: u64,
}

impl Fragmenter {
    pub(super) fn new(mtu: usize) -> Self {
        Self::following(Arc::new(AtomicUsize::new(mtu)))
    }

    /// Fragments packets longer than the current value of `mtu`.
    pub(super) fn following(mtu: Arc<AtomicUsize>) -> Self {
        Self { mtu, sequence: 0 }
    }

    /// Maximum frame length in bytes.
    #[inline]
    pub(super) fn mtu(&self) -> usize {
        self.mtu.load(Ordering::Relaxed)
    }

    /// Passes on `packet` in frames of at most the MTU.
    #[cold]
    pub(super) fn fragment(&mut self, packet: &[u8], send: impl FnMut(&[u8])) {
        let result = fragment_frame(packet, self.mtu(), &mut self.sequence, send);
        debug_assert!(result.is_ok(), "generators write valid packets");
    }
}

/// Whether this is an LpPacket that may contain a fragment.
#[inline]
pub(super) fn may_be_fragment(frame: &[u8]) -> bool {
    // The type and the length take 2, 4, 6 or 10 bytes.
    let first_field = match frame {
        [0x64, ..=0xFC, first, ..] | [0x64, 0xFD, _, _, first, ..] => *first,
        _ => return false,
    };
    first_field == LP_SEQUENCE
}

/// Reassembles received packets.
#[derive(Debug, Default)]
pub(super) struct PacketReassembler(Reassembler);

impl PacketReassembler {
    /// Handles a frame; returns a whole packet, in its frame.
    #[cold]
    pub(super) fn handle(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let packet = LpPacket::parse(frame).ok()?;
        if packet.frag_count() <= 1 {
            return Some(frame.to_vec());
        }
        self.0.add(Duration::from_nanos(clock::now()), &packet)
    }
}

#[cfg(test)]
mod tests {
    use ndn_packet::LpHeader;
    use ndn_packet::lp::append_packet;

    use super::*;

    #[test]
    fn fragments_are_distinguished_from_packets() {
        let data = [&[6, 0xFD, 0x07, 0xD0][..], &[0; 2000]].concat();
        let mut frames = Vec::new();
        Fragmenter::new(900).fragment(&data, |frame| frames.push(frame.to_vec()));
        assert_eq!(frames.len(), 3);
        let mut reassembler = PacketReassembler::default();
        let found: Vec<_> = frames
            .iter()
            .filter_map(|frame| {
                assert!(may_be_fragment(frame));
                reassembler.handle(frame)
            })
            .collect();
        assert_eq!(found, std::slice::from_ref(&data));
        assert!(!may_be_fragment(&data));
        let mut with_token = Vec::new();
        let header = LpHeader { pit_token: &[1; 8], ..LpHeader::default() };
        append_packet(&mut with_token, &header, &data);
        assert!(!may_be_fragment(&with_token));
        // A frame with a Sequence only for reliability is a whole packet.
        let mut numbered = Vec::new();
        let header = LpHeader { sequence: Some(5), ..LpHeader::default() };
        append_packet(&mut numbered, &header, &data[..]);
        assert!(may_be_fragment(&numbered));
        assert_eq!(reassembler.handle(&numbered), Some(numbered));
    }
}
