//! What is to be written, as frames and as slices.

use std::borrow::Cow;
use std::io::IoSlice;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::output::Piece;

/// Packets written with one call, if they do not lie one behind the other.
const SLICES_MAX: usize = 64;

/// Cuts packets that lie one behind the other into frames of at most `mtu` bytes.
pub(super) fn cut_all<'a>(
    bytes: &'a [u8],
    mtu: usize,
    sequence: &mut u64,
    frames: &mut Vec<Cow<'a, [u8]>>,
) {
    let mut rest = bytes;
    while let Ok(Some(length)) = ndn_packet::tlv::frame_len(rest) {
        let Some((frame, tail)) = rest.split_at_checked(length) else {
            break;
        };
        rest = tail;
        if frame.len() <= mtu {
            frames.push(Cow::Borrowed(frame));
            continue;
        }
        if let Err(error) = ndn_packet::lp::fragment_frame(frame, mtu, sequence, |piece| {
            frames.push(Cow::Owned(piece.to_vec()))
        }) {
            tracing::debug!(%error, "a packet to be sent is malformed");
        }
    }
}

/// All that is to be written.
pub(super) fn parts_of(pieces: &[Piece]) -> Vec<&[u8]> {
    pieces.iter().flat_map(Piece::parts).filter(|part| !part.is_empty()).collect()
}

/// Writes all parts, many with one call.
pub(super) async fn write_parts(
    writer: &mut (impl AsyncWrite + Unpin),
    parts: &[&[u8]],
) -> std::io::Result<()> {
    for some in parts.chunks(SLICES_MAX) {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        for (slice, part) in slices.iter_mut().zip(some) {
            *slice = IoSlice::new(part);
        }
        let mut rest = &mut slices[..some.len()];
        while !rest.is_empty() {
            let written = writer.write_vectored(rest).await?;
            if written == 0 {
                return Err(std::io::ErrorKind::WriteZero.into());
            }
            IoSlice::advance_slices(&mut rest, written);
        }
    }
    Ok(())
}
