//! Packets longer than a datagram: each goes by a unidirectional stream of its own, to peers that have said that
//! they read them.
//!
//! A peer says so by a stream with an empty LpPacket. QUIC sends again what gets lost of a stream, and streams
//! come in any order; datagrams overtake them.

use std::io::ErrorKind;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ndn_packet::tlv::frame_len;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinSet;
use wtransport::quinn::{self, WriteError};
use wtransport::stream::RecvStream;
use wtransport::{Connection, VarInt};

use crate::counters::Counters;
use crate::frame::{FRAME_LENGTH_MAX, is_frame, varint};

/// An LpPacket without a fragment: its sender reads streams.
pub(crate) const ANNOUNCEMENT: [u8; 2] = [0x64, 0];
/// Streams that a peer may have open at one time.
pub(crate) const INCOMING_MAX: u32 = 128;
/// Bytes of all streams of a session that wait to be read, and that are on their way to a peer.
pub(crate) const WINDOW: u32 = 1024 * 1024;
/// Bytes of one stream that wait to be read: a frame and what stands before it.
pub(crate) const STREAM_WINDOW: u32 = 16 * 1024;
/// Bytes of the first buffer of a stream.
const FIRST_BUFFER: usize = 64;
/// Timeout of a stream until its end.
const OVERDUE: Duration = Duration::from_secs(10);
/// Bytes that may be in flight in streams beyond the congestion window; more waits where the face sees it and marks
/// packets.
const SURPLUS: usize = 64 * 1024;
/// Error code for a stream that is not read to its end (H3_REQUEST_CANCELLED: RFC 9114, section 8.1).
const REFUSED: VarInt = VarInt::from_u32(0x010c);
/// The type of unidirectional streams of WebTransport (draft-ietf-webtrans-http3, section 4.1).
const STREAM_TYPE: u64 = 0x54;

/// Streams on their way to the peer.
pub(crate) struct SendStreams<'a> {
    quic: &'a quinn::Connection,
    /// The header of each stream, before the frame.
    head: Vec<u8>,
    /// Those that are not confirmed: how many bytes, and whether all of them arrived in the end.
    under_way: JoinSet<(usize, bool)>,
    bytes: usize,
    counters: &'a Counters,
}

impl<'a> SendStreams<'a> {
    pub(crate) fn new(connection: &'a Connection, counters: &'a Counters) -> Self {
        let session_id = connection.session_id().into_u64();
        let head = [varint(STREAM_TYPE), varint(session_id)].concat();
        let quic = connection.quic_connection();
        Self { quic, head, under_way: JoinSet::new(), bytes: 0, counters }
    }

    /// Sends a frame as soon as there is room for it.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) async fn send(&mut self, frame: &[u8]) -> Result<(), String> {
        while let Some(settled) = self.under_way.try_join_next() {
            self.settle(settled.ok());
        }
        while self.bytes > 0 && self.bytes + frame.len() > self.room() {
            let settled = self.under_way.join_next().await;
            self.settle(settled.and_then(Result::ok));
        }
        let mut stream = self.quic.open_uni().await.map_err(|error| error.to_string())?;
        let bytes: Bytes = [&self.head, frame].concat().into();
        match stream.write_chunk(bytes).await {
            Ok(()) => {}
            Err(WriteError::ConnectionLost(error)) => {
                self.counters.lost_streams.increment();
                return Err(error.to_string());
            }
            Err(
                WriteError::Stopped(_) | WriteError::ClosedStream | WriteError::ZeroRttRejected,
            ) => {
                self.counters.lost_streams.increment();
                return Ok(());
            }
        }
        let _ = stream.finish();
        self.counters.sent_streams.increment();
        self.bytes += frame.len();
        let (length, confirmed) = (frame.len(), stream.stopped());
        self.under_way.spawn(async move { (length, matches!(confirmed.await, Ok(None))) });
        Ok(())
    }

    /// Bytes that may be on their way.
    fn room(&self) -> usize {
        let of_path = usize::try_from(self.quic.stats().path.cwnd).unwrap_or(usize::MAX);
        of_path.saturating_add(SURPLUS).min(WINDOW as usize)
    }

    fn settle(&mut self, settled: Option<(usize, bool)>) {
        // Nothing cancels these tasks, and they do not panic.
        let (length, has_arrived) = settled.unwrap_or((self.bytes, false));
        self.bytes -= length;
        if !has_arrived {
            self.counters.lost_streams.increment();
        }
    }

    /// Waits until the peer has what is on its way.
    pub(crate) async fn drain(&mut self) {
        while let Some(settled) = self.under_way.join_next().await {
            self.settle(settled.ok());
        }
    }
}

impl Drop for SendStreams<'_> {
    fn drop(&mut self) {
        while let Some(settled) = self.under_way.try_join_next() {
            self.settle(settled.ok());
        }
        for _ in 0..self.under_way.len() {
            self.counters.lost_streams.increment();
        }
    }
}

/// Announces to the peer that this end reads streams. One that does not has to keep a few bytes.
pub(crate) async fn announce(connection: &Connection) -> Option<()> {
    let stream = connection.open_uni().await.ok()?;
    let mut stream = stream.await.ok()?;
    stream.write_all(&ANNOUNCEMENT).await.ok()?;
    stream.finish().await.ok()
}

/// Why a stream was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is not one whole TLV element, or the peer has taken it back.
    Malformed,
    /// It takes too long.
    Overdue,
    /// The session has ended.
    Ended,
}

/// Streams that are being read. QUIC sees to it that they are not many.
#[derive(Debug)]
pub(crate) struct ReceiveStreams {
    overdue: Duration,
    reading: JoinSet<Result<BytesMut, Refused>>,
}

impl Default for ReceiveStreams {
    fn default() -> Self {
        Self::new(OVERDUE)
    }
}

impl ReceiveStreams {
    /// Time limit of a stream from its first byte to its last.
    pub(crate) fn new(overdue: Duration) -> Self {
        Self { overdue, reading: JoinSet::new() }
    }

    pub(crate) fn add(&mut self, stream: RecvStream) {
        self.reading.spawn(read(stream, self.overdue));
    }

    /// The next frame that is whole, if any stream is being read.
    pub(crate) async fn next(&mut self, counters: &Counters) -> Option<BytesMut> {
        loop {
            match self.reading.join_next().await?.unwrap_or(Err(Refused::Ended)) {
                Ok(frame) => return Some(frame),
                Err(Refused::Malformed) => counters.malformed_streams.increment(),
                Err(Refused::Overdue) => counters.overdue_streams.increment(),
                Err(Refused::Ended) => {}
            }
        }
    }
}

/// Reads the frame of a stream.
async fn read(mut stream: RecvStream, overdue: Duration) -> Result<BytesMut, Refused> {
    let mut frame = BytesMut::new();
    let read = tokio::time::timeout(overdue, read_frame(&mut stream, &mut frame)).await;
    let read = read.unwrap_or(Err(Refused::Overdue));
    if read.is_err() {
        stream.stop(REFUSED);
    }
    read.map(|()| frame)
}

/// Copies received bytes: a few bytes of a stream would hold the whole receive buffer. The copy grows with the received
/// bytes, whatever the announced length.
async fn read_frame(
    stream: &mut (impl AsyncRead + Unpin),
    frame: &mut BytesMut,
) -> Result<(), Refused> {
    loop {
        let length = match frame_len(frame) {
            Ok(length) => length.unwrap_or(FRAME_LENGTH_MAX),
            Err(_) => return Err(Refused::Malformed),
        };
        if length > FRAME_LENGTH_MAX || frame.len() > length {
            return Err(Refused::Malformed);
        }
        if frame.len() == frame.capacity() {
            frame.reserve(frame.len().max(FIRST_BUFFER));
        }
        match stream.read_buf(frame).await {
            Ok(0) if is_frame(frame) => return Ok(()),
            Ok(0) => return Err(Refused::Malformed),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotConnected => return Err(Refused::Ended),
            Err(_) => return Err(Refused::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams that have hardly begun take hardly any memory, whatever they announce.
    #[tokio::test]
    async fn stream_buffer_is_at_most_twice_the_received_length() {
        let whole = [&[6, 0xfd, 0x1f, 0x3c][..], &[7; 0x1f3c]].concat();
        for length in (0..200).chain((200..whole.len()).step_by(97)).chain([whole.len()]) {
            let mut frame = BytesMut::new();
            let read = read_frame(&mut &whole[..length], &mut frame).await;
            let expected = if length == whole.len() { Ok(()) } else { Err(Refused::Malformed) };
            assert_eq!((read, &frame[..]), (expected, &whole[..length]));
            let most = (2 * length).max(FIRST_BUFFER);
            assert!(frame.capacity() <= most, "{} for {length}", frame.capacity());
        }
    }
}
