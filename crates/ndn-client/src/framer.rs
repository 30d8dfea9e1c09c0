//! Splits a byte stream into packets.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ndn_packet::tlv::frame_len;
use thiserror::Error;

/// Maximum length of a packet from a stream: an NDNLPv2 packet around a Data of the largest
/// practical size (8800 bytes), with room for peers that send larger ones.
pub(crate) const FRAME_LEN_MAX: usize = 64 * 1024;

/// Size of read buffers, so that one system call reads many packets.
const BUFFER_LEN: usize = 256 * 1024;

/// Maximum number of spare buffers.
const SPARES_MAX: usize = 64;
/// Packets up to this many bytes are copied out of the buffer.
const COPY_MAX: usize = 16 * 1024;

/// Why a stream cannot be parsed further.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum FrameError {
    /// The bytes at the start of a packet are not a TLV.
    #[error("the forwarder sent bytes that are not TLV: {0}")]
    NotTlv(#[source] ndn_packet::DecodeError),
    /// A packet exceeds the maximum length.
    #[error("the forwarder sent a packet of {0} bytes, at most {FRAME_LEN_MAX} are accepted")]
    TooLong(usize),
}

/// Buffers are reused when no packet in them is referenced any more. New ones cost the kernel a
/// page at a time.
#[derive(Debug, Default)]
struct Pool {
    spares: Mutex<Vec<Vec<u8>>>,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<u8> {
        self.lock().pop().unwrap_or_else(|| vec![0; BUFFER_LEN])
    }
}

/// A buffer that returns to its pool when dropped.
struct Pooled {
    buffer: Vec<u8>,
    pool: Arc<Pool>,
}

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let mut spares = self.pool.lock();
        if spares.len() < SPARES_MAX {
            spares.push(std::mem::take(&mut self.buffer));
        }
    }
}

/// The bytes of a stream that were read and not taken.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    /// The read buffer; empty before the first read.
    buffer: Vec<u8>,
    filled: usize,
    /// Whole packets, to be taken.
    whole: Bytes,
    pool: Arc<Pool>,
}

impl Framer {
    /// The space to read into, with room for at least one packet. Only after [`Self::next_frame`]
    /// has returned `None`.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer = self.pool.take();
        }
        &mut self.buffer[self.filled..]
    }

    /// Adds `count` bytes that were read into [`Self::space`].
    pub(crate) fn read(&mut self, count: usize) {
        self.filled = (self.filled + count).min(self.buffer.len());
    }

    /// The next whole packet; it shares the memory of the read buffer.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        if self.whole.is_empty() {
            self.split_frames()?;
        }
        match frame_len(&self.whole) {
            Ok(Some(length)) if length <= self.whole.len() => Ok(Some(self.whole.split_to(length))),
            _ => Ok(None),
        }
    }

    /// Splits off the whole packets. An error is reported when its packet is the next.
    fn split_frames(&mut self) -> Result<(), FrameError> {
        let read = &self.buffer[..self.filled];
        let mut end = 0;
        let next = loop {
            match frame_len(&read[end..]) {
                Ok(Some(length)) if length > FRAME_LEN_MAX => {
                    break Err(FrameError::TooLong(length));
                }
                Ok(Some(length)) if length <= read.len() - end => end += length,
                Ok(_) => break Ok(()),
                Err(error) => break Err(FrameError::NotTlv(error)),
            }
        };
        if end == 0 {
            return next;
        }
        if end <= COPY_MAX {
            // Too small to keep a whole buffer alive.
            self.whole = Bytes::copy_from_slice(&read[..end]);
            self.buffer.copy_within(end..self.filled, 0);
        } else {
            let mut other = self.pool.take();
            other[..self.filled - end].copy_from_slice(&read[end..]);
            let buffer = std::mem::replace(&mut self.buffer, other);
            let pool = Arc::clone(&self.pool);
            self.whole = Bytes::from_owner(Pooled { buffer, pool }).slice(..end);
        }
        self.filled -= end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn feed(framer: &mut Framer, bytes: &[u8]) {
        framer.space()[..bytes.len()].copy_from_slice(bytes);
        framer.read(bytes.len());
    }

    fn frame(length: usize) -> Vec<u8> {
        let mut out = Vec::new();
        ndn_packet::tlv::append_tlv(&mut out, 6, &vec![0x5a; length]);
        out
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_packets(
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
                feed(&mut framer, head);
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
    fn malformed_and_oversized_packets_end_the_stream() {
        let mut framer = Framer::default();
        feed(&mut framer, &[0, 0]);
        assert!(matches!(framer.next_frame(), Err(FrameError::NotTlv(_))));
        let mut framer = Framer::default();
        feed(&mut framer, &[6, 0xfe, 0, 1, 0, 0]);
        assert_eq!(framer.next_frame(), Err(FrameError::TooLong(65_536 + 6)));
    }
}
