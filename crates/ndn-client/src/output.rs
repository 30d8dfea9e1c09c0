//! Output queue of a connection: packets in buffers, in order.

use std::collections::VecDeque;
use std::ops::Range;

use ndn_packet::LpHeader;

use ndn_packet::lp::append_packet;

/// Maximum number of spare buffers.
const SPARES_MAX: usize = 16;
/// Maximum size of a spare buffer.
const SPARE_LEN_MAX: usize = 1024 * 1024;

/// Packets in one buffer, possibly with gaps.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    buffer: Vec<u8>,
    /// Ranges of the packets; empty if the whole buffer consists of packets.
    packets: Vec<Range<usize>>,
}

impl Piece {
    /// The slices to be written.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let whole = self.packets.is_empty().then_some(self.buffer.as_slice());
        let parts = self.packets.iter().filter_map(|range| self.buffer.get(range.clone()));
        whole.into_iter().chain(parts)
    }

    fn len(&self) -> usize {
        self.parts().map(<[u8]>::len).sum()
    }
}

/// Packets to be written, in order.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pieces: VecDeque<Piece>,
    /// Bytes of packets in `pieces`.
    queued_len: usize,
    /// Bytes taken by the writer and not yet written.
    taken_len: usize,
    /// While there is no connection, output is discarded.
    connected: bool,
    spares: Vec<Vec<u8>>,
}

impl Output {
    pub(crate) fn len(&self) -> usize {
        self.queued_len + self.taken_len
    }

    /// The buffer that packets are appended to.
    fn tail(&mut self) -> &mut Vec<u8> {
        let full = self
            .pieces
            .back()
            .is_none_or(|last| !last.packets.is_empty() || last.buffer.len() >= SPARE_LEN_MAX);
        if full {
            let mut buffer = self.spares.pop().unwrap_or_default();
            buffer.clear();
            self.pieces.push_back(Piece { buffer, packets: Vec::new() });
        }
        let last = self.pieces.len() - 1;
        &mut self.pieces[last].buffer
    }

    /// Appends a packet with its link header.
    pub(crate) fn push(&mut self, header: &LpHeader<'_>, packet: &[u8]) {
        if self.connected {
            let tail = self.tail();
            let before = tail.len();
            append_packet(tail, header, packet);
            let added = tail.len() - before;
            self.queued_len += added;
        }
    }

    /// Appends packets that have link headers.
    pub(crate) fn push_encoded(&mut self, packets: &[u8]) {
        if self.connected && !packets.is_empty() {
            self.tail().extend_from_slice(packets);
            self.queued_len += packets.len();
        }
    }

    /// Takes a buffer with packets, including link headers, at `packets`.
    pub(crate) fn push_buffer(&mut self, buffer: Vec<u8>, packets: Vec<Range<usize>>) {
        let piece = Piece { buffer, packets };
        if self.connected && !piece.packets.is_empty() {
            self.queued_len += piece.len();
            self.pieces.push_back(piece);
        } else {
            self.put_back(piece);
        }
    }

    /// Appends a bare packet that `write` writes into a buffer of `length_max` bytes.
    pub(crate) fn push_with<E>(
        &mut self,
        length_max: usize,
        write: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let connected = self.connected;
        let tail = self.tail();
        let start = tail.len();
        tail.resize(start + length_max, 0);
        let written = write(&mut tail[start..]);
        let keep = if connected { *written.as_ref().unwrap_or(&0) } else { 0 };
        tail.truncate(start + keep);
        self.queued_len += keep;
        written.map(|_| ())
    }

    /// Moves all output into `pieces`, and takes the written pieces back.
    pub(crate) fn take(&mut self, pieces: &mut Vec<Piece>) {
        for piece in pieces.drain(..) {
            self.put_back(piece);
        }
        if self.queued_len > 0 {
            pieces.extend(self.pieces.drain(..));
            self.taken_len = std::mem::take(&mut self.queued_len);
        }
    }

    /// A buffer with arbitrary content, reused or new.
    pub(crate) fn spare(&mut self) -> Vec<u8> {
        self.spares.pop().unwrap_or_default()
    }

    fn put_back(&mut self, piece: Piece) {
        let buffer = piece.buffer;
        if self.spares.len() < SPARES_MAX && (1..=SPARE_LEN_MAX * 2).contains(&buffer.capacity()) {
            self.spares.push(buffer);
        }
    }

    pub(crate) fn set_written(&mut self) {
        self.taken_len = 0;
    }

    /// Whether there is a connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    pub(crate) fn set_connected(&mut self, connected: bool) {
        self.pieces.clear();
        (self.queued_len, self.taken_len) = (0, 0);
        self.connected = connected;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(output: &mut Output, pieces: &mut Vec<Piece>) -> Vec<u8> {
        output.take(pieces);
        let bytes = pieces.iter().flat_map(Piece::parts).flatten().copied().collect();
        assert_eq!(output.len(), pieces.iter().map(Piece::len).sum::<usize>());
        output.set_written();
        bytes
    }

    #[test]
    fn output_keeps_its_order() {
        let mut output = Output::default();
        output.set_connected(true);
        let mut pieces = Vec::new();
        for _ in 0..3 {
            output.push_encoded(b"one ");
            output.push_buffer(b"..two -three .".to_vec(), vec![2..6, 7..13]);
            output.push(&LpHeader::default(), b"four ");
            output
                .push_with(100, |out| {
                    out[..4].copy_from_slice(b"five");
                    Ok::<_, ()>(4)
                })
                .unwrap();
            assert_eq!(output.push_with(100, |_| Err(7)), Err(7));
            assert_eq!(output.len(), 23);
            assert_eq!(written(&mut output, &mut pieces), b"one two three four five");
            assert_eq!(output.len(), 0);
        }
        output.take(&mut pieces);
        assert!(pieces.is_empty());
        assert!(!output.spares.is_empty());
    }

    #[test]
    fn output_without_connection_is_discarded() {
        let mut output = Output::default();
        output.push_encoded(b"one");
        output.push_buffer(b"two".to_vec(), std::iter::once(0..3).collect());
        output.push_with(3, |_| Ok::<_, ()>(3)).unwrap();
        assert_eq!(output.len(), 0);
        assert_eq!(written(&mut output, &mut Vec::new()), b"");
    }
}
