//! A session and a stream: each datagram is one NDNLPv2 frame, which the stream carries one behind the
//! other. So is each stream of QUIC, by which longer frames go.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use ndn_packet::MAX_PACKET_SIZE;
use ndn_packet::tlv::frame_len;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use wtransport::endpoint::endpoint_side::Client;
use wtransport::quinn::{self, SendDatagramError, TransportConfig};
use wtransport::{Connection, Endpoint, VarInt};

use crate::counters::Counters;
use crate::frame::{FRAME_LENGTH_MAX, is_frame, varint};
use crate::path::PathMtu;
use crate::streams::{self, ANNOUNCEMENT, ReceiveStreams, SendStreams};

/// Longest UDP payload that every path takes which takes QUIC (RFC 9000, section 14).
const UDP_PAYLOAD_MIN: usize = 1200;
/// Peers that take shorter datagrams only are of no use.
pub(crate) const MTU_MIN: usize = 256;
/// Bytes of datagrams that wait to be sent. What does not fit waits in the stream, where the face sees
/// it and marks packets.
const SEND_BUFFER: usize = 64 * 1024;
/// Bytes of received datagrams that wait; the oldest give way.
const RECEIVE_BUFFER: usize = 1024 * 1024;
/// Streams of HTTP/3 in each direction, by which nothing much goes.
const CONTROL_STREAMS_MAX: u32 = 8;
const READ_LENGTH: usize = 64 * 1024;
/// Timeout for the end of a session, from the end of its stream.
pub(crate) const END_TIMEOUT: Duration = Duration::from_millis(1_200);
/// Interval between checks of the path. QUIC probes for longer datagrams at the start, and every ten minutes.
const PATH_POLL_INTERVAL: Duration = Duration::from_secs(1);
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Timeouts of the steps in which a session ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// For pending output, and `linger` in addition; once more for the peer's answer to the end.
    pub drain: Duration,
    /// The peer, to read what it has received, before the end takes that from it.
    pub linger: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { drain: Duration::from_millis(500), linger: Duration::from_millis(200) }
    }
}

/// A session with a peer, as client or server.
pub struct Session {
    connection: Connection,
    /// The endpoint of a session that was opened here; it has one of its own.
    endpoint: Option<Endpoint<Client>>,
    /// The address that the peer had when the session began.
    pub remote: SocketAddr,
    /// The own address.
    pub local: SocketAddr,
    /// Longest frame: at first what every path takes, then what this one does, and any packet as soon as the peer
    /// has said that it reads streams.
    pub mtu: PathMtu,
    /// Longest frame in a datagram, as far as is known.
    datagram_length: AtomicUsize,
    peer_reads_streams: AtomicBool,
    /// Room for datagrams that wait to be sent, while none does.
    datagram_room: usize,
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { remote, local, mtu, .. } = self;
        let mut shown = formatter.debug_struct("Session");
        shown.field("remote", remote).field("local", local).field("mtu", mtu);
        shown.finish_non_exhaustive()
    }
}

/// Why a session has ended.
#[derive(Debug, Error)]
pub(crate) enum End {
    /// The stream was closed.
    #[error("it was closed here")]
    Closed,
    /// The stream could not be read to its end.
    #[error("its stream has failed: {0}")]
    Failed(io::Error),
    /// The received bytes are not a sequence of TLV elements.
    #[error("what was to be sent is no sequence of frames")]
    Frames,
    /// The peer has ended it, or is gone.
    #[error("{0}")]
    Peer(String),
}

impl Session {
    /// Takes a connection that is a session.
    ///
    /// # Errors
    /// The peer takes no datagrams, or only short ones.
    pub(crate) fn new(connection: Connection, local: SocketAddr) -> Result<Self, Connection> {
        let quic = connection.quic_connection();
        // What is being looked for with frames on their way is known later.
        let longer = usize::from(quic.stats().path.current_mtu).saturating_sub(UDP_PAYLOAD_MIN);
        let mtu = connection.max_datagram_size().map_or(0, |length| length.saturating_sub(longer));
        let mtu = mtu.min(MAX_PACKET_SIZE);
        if mtu < MTU_MIN {
            return Err(connection);
        }
        let datagram_room = connection.quic_connection().datagram_send_buffer_space();
        Ok(Self {
            remote: connection.remote_address(),
            connection,
            endpoint: None,
            local,
            mtu: PathMtu::new(mtu),
            datagram_length: AtomicUsize::new(mtu),
            peer_reads_streams: AtomicBool::new(false),
            datagram_room,
        })
    }

    /// Gives it an endpoint of its own, which lasts until the peer knows of the end.
    pub(crate) fn with_endpoint(self, endpoint: Endpoint<Client>) -> Self {
        Self { endpoint: Some(endpoint), ..self }
    }

    /// Carries frames both ways until one end is gone, and closes the other.
    pub(crate) async fn carry(
        &self,
        reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + Unpin,
        counters: &Counters,
        timeouts: Timeouts,
    ) -> End {
        let mut outgoing = SendStreams::new(&self.connection, counters);
        let end = tokio::select! {
            end = self.receive(writer, counters) => end,
            end = self.send(reader, &mut outgoing, counters) => end,
            end = self.announce_and_follow_path() => end,
        };
        // A stream may have failed because it was not read to its end.
        if matches!(end, End::Closed | End::Failed(_)) {
            let drained = async {
                tokio::join!(self.drain(), outgoing.drain());
                let closed = self.connection.quic_connection().closed();
                let _ = tokio::time::timeout(timeouts.linger, closed).await;
            };
            let _ = tokio::time::timeout(timeouts.drain, drained).await;
        }
        drop(outgoing);
        self.connection.close(VarInt::from_u32(0), b"");
        if let Some(endpoint) = &self.endpoint {
            let _ = tokio::time::timeout(timeouts.drain, endpoint.wait_idle()).await;
        }
        end
    }

    /// Says that streams are read here, and looks now and then what the path has turned out to take.
    async fn announce_and_follow_path(&self) -> End {
        let polls = async {
            let mut polls = tokio::time::interval(PATH_POLL_INTERVAL);
            loop {
                polls.tick().await;
                let length = self.connection.max_datagram_size();
                // A path that takes less than peers have to is broken: what is sent is counted as too long.
                let length =
                    length.map_or(MTU_MIN, |length| length.clamp(MTU_MIN, MAX_PACKET_SIZE));
                self.datagram_length.store(length, Ordering::Relaxed);
                self.publish_length();
            }
        };
        tokio::join!(streams::announce(&self.connection), polls).1
    }

    fn publish_length(&self) {
        self.mtu.set(match self.peer_reads_streams() {
            true => MAX_PACKET_SIZE,
            false => self.datagram_length.load(Ordering::Relaxed),
        });
    }

    fn peer_reads_streams(&self) -> bool {
        self.peer_reads_streams.load(Ordering::Relaxed)
    }

    async fn receive(&self, writer: impl AsyncWrite + Unpin, counters: &Counters) -> End {
        let mut taker = FrameWriter(Some(writer));
        let mut incoming = ReceiveStreams::default();
        let mut streams_come = true;
        loop {
            tokio::select! {
                datagram = self.connection.receive_datagram() => match datagram {
                    Ok(datagram) if is_frame(&datagram) => taker.take(&datagram).await,
                    Ok(_) => counters.malformed_datagrams.increment(),
                    Err(error) => {
                        self.receive_rest(taker, incoming, counters).await;
                        return End::Peer(error.to_string());
                    }
                },
                stream = self.connection.accept_uni(), if streams_come => {
                    // Datagrams tell the end.
                    streams_come = stream.map(|stream| incoming.add(stream)).is_ok();
                }
                Some(frame) = incoming.next(counters) => {
                    self.take_frame(&frame, &mut taker, counters).await;
                }
            }
        }
    }

    /// Packets received by streams before the peer closed the session.
    async fn receive_rest(
        &self,
        mut taker: FrameWriter<impl AsyncWrite + Unpin>,
        mut incoming: ReceiveStreams,
        counters: &Counters,
    ) {
        while let Ok(stream) = self.connection.accept_uni().await {
            incoming.add(stream);
        }
        while let Some(frame) = incoming.next(counters).await {
            self.take_frame(&frame, &mut taker, counters).await;
        }
    }

    /// Accepts a packet received by a stream of its own.
    async fn take_frame(
        &self,
        frame: &[u8],
        taker: &mut FrameWriter<impl AsyncWrite + Unpin>,
        counters: &Counters,
    ) {
        if *frame == ANNOUNCEMENT {
            self.peer_reads_streams.store(true, Ordering::Relaxed);
            self.publish_length();
            return;
        }
        counters.received_streams.increment();
        taker.take(frame).await;
    }

    /// Sends the bytes written to the stream, until its end. The end of the peer does not stop it earlier: received
    /// packets may still be written to the stream, and its reader may wait until it has written.
    async fn send(
        &self,
        mut reader: impl AsyncRead + Unpin,
        outgoing: &mut SendStreams<'_>,
        counters: &Counters,
    ) -> End {
        // What stands before the payload of a datagram: the number of the session's stream, by four (RFC 9297,
        // section 2.1).
        let head = varint(self.connection.session_id().into_u64() / 4);
        let mut buffer = BytesMut::with_capacity(READ_LENGTH);
        loop {
            buffer.reserve(READ_LENGTH);
            match reader.read_buf(&mut buffer).await {
                Ok(0) => return End::Closed,
                Ok(_) => {}
                Err(error) => return End::Failed(error),
            }
            loop {
                let length = match frame_len(&buffer) {
                    Ok(Some(length)) if length > FRAME_LENGTH_MAX => return End::Frames,
                    Ok(Some(length)) if length <= buffer.len() => length,
                    Ok(_) => break,
                    Err(_) => return End::Frames,
                };
                let sent = self.send_frame(&head, &buffer[..length], outgoing, counters).await;
                buffer.advance(length);
                if let Err(reason) = sent {
                    discard(reader, buffer).await;
                    return End::Peer(reason);
                }
            }
        }
    }

    async fn send_frame(
        &self,
        head: &[u8],
        frame: &[u8],
        outgoing: &mut SendStreams<'_>,
        counters: &Counters,
    ) -> Result<(), String> {
        let reads_streams = self.peer_reads_streams();
        if reads_streams && frame.len() > self.datagram_length.load(Ordering::Relaxed) {
            return outgoing.send(frame).await;
        }
        let datagram: Bytes = [head, frame].concat().into();
        match self.connection.quic_connection().send_datagram_wait(datagram).await {
            Ok(()) => Ok(()),
            // The path has become narrower.
            Err(SendDatagramError::TooLarge) if reads_streams => outgoing.send(frame).await,
            Err(SendDatagramError::TooLarge) => {
                counters.oversized_frames.increment();
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Waits until the datagrams that were to be sent have left.
    async fn drain(&self) {
        let quic = self.connection.quic_connection();
        let room = self.datagram_room;
        while quic.close_reason().is_none() && quic.datagram_send_buffer_space() < room {
            tokio::time::sleep(DRAIN_POLL_INTERVAL).await;
        }
    }

    #[cfg(test)]
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }
}

/// Passes received frames on, until the reader is gone. Bytes written to the stream before are sent all the same, so
/// this does not end the session.
struct FrameWriter<W>(Option<W>);

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    async fn take(&mut self, frame: &[u8]) {
        if let Some(writer) = &mut self.0
            && writer.write_all(frame).await.is_err()
        {
            self.0 = None;
        }
    }
}

/// Reads what nobody gets any more.
async fn discard(mut reader: impl AsyncRead + Unpin, mut buffer: BytesMut) {
    buffer.clear();
    while let Ok(1..) = reader.read_buf(&mut buffer).await {
        buffer.clear();
    }
}

/// The configuration of connections: bounded buffers, and keep-alives.
pub(crate) fn transport_config(idle_timeout: Duration) -> TransportConfig {
    let mut config = TransportConfig::default();
    let idle = quinn::IdleTimeout::try_from(idle_timeout).ok();
    config
        .max_idle_timeout(idle)
        .keep_alive_interval(Some(idle_timeout / 3))
        .max_concurrent_bidi_streams(CONTROL_STREAMS_MAX.into())
        .max_concurrent_uni_streams((CONTROL_STREAMS_MAX + streams::INCOMING_MAX).into())
        .stream_receive_window(streams::STREAM_WINDOW.into())
        .receive_window(streams::WINDOW.into())
        .send_window(streams::WINDOW.into())
        // One packet after the other, not all of them at last.
        .send_fairness(false)
        .datagram_receive_buffer_size(Some(RECEIVE_BUFFER))
        .datagram_send_buffer_size(SEND_BUFFER);
    config
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn accepted_datagram_has_exactly_one_frame(
            datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..40),
        ) {
            let frames: Vec<_> = datagrams.into_iter().filter(|one| is_frame(one)).collect();
            let stream = frames.concat();
            let mut rest = &stream[..];
            for frame in &frames {
                let length = frame_len(rest).unwrap().unwrap();
                prop_assert_eq!(&rest[..length], &frame[..]);
                rest = &rest[length..];
            }
            prop_assert!(rest.is_empty());
        }
    }
}
