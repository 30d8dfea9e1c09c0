//! The connection task: reads and dispatches, writes, reconnects.

use std::borrow::Cow;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ndn_packet::{Interest, Packet};
use ndn_webtransport::PathMtu;
use rand::RngExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::time::Instant;

use crate::address::Candidates;
use crate::framer::Framer;
use crate::lp::{Incoming, Reassembler};
use crate::memif::{Ended, Halves, Reader, Writer};
use crate::output::Piece;
use crate::shared::{ConnectionState, OUTPUT_HIGH, Shared};
use crate::shared::{Handler, Request};
use crate::transport::{ConnectionError, Socket};

/// Maximum number of non-contiguous packets per write call.
const SLICES_MAX: usize = 64;

/// First and longest pause between attempts to reconnect. A failed attempt costs almost nothing,
/// and a producer is unreachable during the pause.
const RECONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// Datagrams are received into slices of a buffer of this size.
const DATAGRAM_BUFFER_LEN: usize = 256 * 1024;
/// Largest datagram.
const DATAGRAM_LEN_MAX: usize = 65_536;
/// Number of datagrams received or packets dispatched before the writer runs.
const BATCH_MAX: usize = 256;
/// Maximum time for the peer of a session to acknowledge its end.
const END_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Maximum time for the output to drain after the last handle is dropped.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Configuration of a connection.
pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    /// Addresses to reconnect to; `None` for a stream given by the caller.
    pub(crate) candidates: Option<Candidates>,
    /// Maximum length of a datagram.
    pub(crate) mtu: usize,
    /// Something was received on the current connection.
    pub(crate) has_received: AtomicBool,
    /// Called after each reconnection.
    pub(crate) on_reconnect: Box<dyn Fn() + Send + Sync>,
}

impl Connection {
    /// Serves `socket`, and its successors, until the last handle is dropped or the connection ends
    /// for good. Without a socket, it connects first.
    pub(crate) async fn run(self, socket: Option<Socket>) {
        let mut pause = RECONNECT_PAUSE.0;
        let mut next = match socket {
            Some(socket) => Some(socket),
            None => self.reconnect(&mut pause).await,
        };
        while let Some(socket) = next.take() {
            self.has_received.store(false, Ordering::Relaxed);
            let ended = self.serve(socket).await;
            self.shared.lock().output.set_connected(false);
            self.shared.announce_space();
            match ended {
                None => break,
                Some(error) => tracing::info!(%error, "connection to the forwarder lost"),
            }
            // A connection that was closed before anything was received does not count as success.
            if self.has_received.load(Ordering::Relaxed) {
                pause = RECONNECT_PAUSE.0;
                self.shared.turned_away.send_replace(0);
            } else {
                self.shared.turned_away.send_modify(|count| *count = count.saturating_add(1));
            }
            next = self.reconnect(&mut pause).await;
        }
        self.shared.set_state(ConnectionState::Closed);
        let routes = {
            let mut tables = self.shared.lock();
            tables.pending.close();
            tables.routes.take_all()
        };
        drop(routes);
    }

    /// Serves one socket; `None` when the last handle has been dropped.
    async fn serve(&self, socket: Socket) -> Option<ConnectionError> {
        match socket {
            Socket::Stream(mut reader, mut writer, _) => {
                let read = self.read_stream(&mut reader);
                self.until_done(read, self.write_stream(&mut writer)).await
            }
            Socket::Frames { mut reader, mut writer, mtu, end } => {
                let read = self.read_stream(&mut reader);
                let ended = self.until_done(read, self.write_frames(&mut writer, &mtu)).await;
                // Without the stream the session ends, and the peer's end of the session follows.
                drop((reader, writer));
                if ended.is_none() {
                    let _ = tokio::time::timeout(END_TIMEOUT, end).await;
                }
                ended
            }
            Socket::Datagram(socket) => {
                let read = self.read_datagrams(&socket);
                self.until_done(read, self.write_datagrams(&socket)).await
            }
            Socket::Memif(mut socket) => match socket.split() {
                Ok(Halves { mut reader, mut writer }) => {
                    let read = self.read_memif(&mut reader);
                    self.until_done(read, self.write_memif(&mut writer)).await
                }
                Err(error) => Some(error.into()),
            },
        }
    }

    async fn until_done(
        &self,
        read: impl Future<Output = ConnectionError>,
        write: impl Future<Output = ConnectionError>,
    ) -> Option<ConnectionError> {
        tokio::pin!(read, write);
        tokio::select! {
            biased;
            ended = &mut read => Some(ended),
            ended = &mut write => Some(ended),
            () = self.shared.no_handles.notified() => {
                // Output queued before the last handle was dropped is still written.
                let drained = async {
                    while self.shared.lock().output.len() > 0 {
                        self.shared.output_space.notified().await;
                    }
                };
                tokio::select! {
                    _ = write => {}
                    _ = tokio::time::timeout(DRAIN_TIMEOUT, drained) => {}
                }
                None
            }
        }
    }

    /// Connects again after `pause`, which grows with each attempt.
    async fn reconnect(&self, pause: &mut Duration) -> Option<Socket> {
        let candidates = self.candidates.as_ref()?;
        self.shared.set_state(ConnectionState::Reconnecting);
        loop {
            let wait = pause.mul_f64(rand::rng().random_range(0.5..1.0));
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.shared.no_handles.notified() => return None,
            }
            *pause = (*pause * 2).min(RECONNECT_PAUSE.1);
            match Socket::connect(candidates).await {
                Ok((socket, address)) => {
                    tracing::info!(%address, "connected to the forwarder again");
                    self.shared.set_process(socket.process());
                    {
                        let mut tables = self.shared.lock();
                        tables.output.set_connected(true);
                        tables.reconnected_at = Some(Instant::now());
                    }
                    self.shared.set_state(ConnectionState::Connected);
                    (self.on_reconnect)();
                    return Some(socket);
                }
                Err(error) => tracing::debug!(%error, "reconnecting"),
            }
        }
    }

    async fn read_stream(&self, reader: &mut (impl AsyncRead + Unpin)) -> ConnectionError {
        let mut framer = Framer::default();
        let mut reassembler = Reassembler::default();
        let start = Instant::now();
        loop {
            match reader.read(framer.space()).await {
                Ok(0) => return ConnectionError::Closed,
                Ok(count) => framer.read(count),
                Err(error) => return error.into(),
            }
            let mut batch = 0;
            let mut served = Served::default();
            let now = start.elapsed();
            loop {
                match framer.next_frame() {
                    Ok(Some(frame)) => self.dispatch(&mut reassembler, now, &frame, &mut served),
                    Ok(None) => break,
                    Err(error) => return error.into(),
                }
                batch += 1;
                if batch % BATCH_MAX == 0 {
                    served.end();
                    self.wait_for_space().await;
                }
            }
            served.end();
            self.wait_for_space().await;
        }
    }

    async fn read_datagrams(&self, socket: &UdpSocket) -> ConnectionError {
        let mut buffer = BytesMut::new();
        let mut reassembler = Reassembler::default();
        let start = Instant::now();
        loop {
            match crate::transport::readable(socket).await {
                Ok(None) => {}
                Ok(Some(error)) => _ = self.note_refusal(&error),
                Err(error) => return error.into(),
            }
            let now = start.elapsed();
            let mut served = Served::default();
            for _ in 0..BATCH_MAX {
                if buffer.capacity() < DATAGRAM_LEN_MAX {
                    buffer.reserve(DATAGRAM_BUFFER_LEN);
                }
                match socket.try_recv_buf(&mut buffer) {
                    Ok(_) => {
                        self.shared.set_refused(false);
                        let frame = buffer.split().freeze();
                        self.dispatch(&mut reassembler, now, &frame, &mut served);
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    // An ICMP error about an earlier datagram: the forwarder may come back.
                    Err(error) => {
                        self.note_refusal(&error);
                        tracing::debug!(%error, "receiving a datagram");
                        break;
                    }
                }
            }
            served.end();
            self.wait_for_space().await;
        }
    }

    async fn read_memif(&self, reader: &mut Reader<'_>) -> ConnectionError {
        let mut reassembler = Reassembler::default();
        let start = Instant::now();
        loop {
            match reader.readable().await {
                Ok(None) => {}
                Ok(Some(Ended::Disconnected(last_message))) => {
                    return ConnectionError::Left(last_message);
                }
                Ok(Some(Ended::Closed)) => return ConnectionError::Closed,
                Err(error) => return error.into(),
            }
            let mut is_empty = false;
            while !is_empty {
                let now = start.elapsed();
                let mut served = Served::default();
                for _ in 0..BATCH_MAX {
                    match reader.next_frame() {
                        Ok(Some(frame)) => {
                            self.dispatch(&mut reassembler, now, &frame, &mut served);
                        }
                        Ok(None) => {
                            is_empty = true;
                            break;
                        }
                        Err(error) => return error.into(),
                    }
                }
                if let Err(error) = reader.release() {
                    return error.into();
                }
                served.end();
                self.wait_for_space().await;
                // Let the writer run.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Waits while so much output is queued that serving further Interests would only add to it.
    async fn wait_for_space(&self) {
        while self.shared.lock().output.len() >= OUTPUT_HIGH {
            self.shared.output_space.notified().await;
        }
    }

    fn dispatch(
        &self,
        reassembler: &mut Reassembler,
        now: Duration,
        frame: &Bytes,
        served: &mut Served,
    ) {
        self.has_received.store(true, Ordering::Relaxed);
        match reassembler.handle(now, frame) {
            Ok(Some(incoming)) => self.dispatch_packet(&incoming, served),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "a link packet is malformed"),
        }
    }

    fn dispatch_packet(&self, incoming: &Incoming, served: &mut Served) {
        if let Some(reason) = incoming.nack {
            match Interest::parse(&incoming.wire) {
                Ok(interest) => {
                    self.shared.lock().pending.handle_nack(&interest, reason);
                }
                Err(error) => tracing::debug!(%error, "a Nack is malformed"),
            }
            return;
        }
        match Packet::parse(&incoming.wire) {
            Ok(Packet::Data(data)) => {
                let mark = incoming.congestion_mark;
                let mut tables = self.shared.lock();
                if !tables.pending.handle_data(&data, &incoming.wire, mark) {
                    drop(tables);
                    tracing::trace!(name = %data.name(), "a Data that nobody waits for");
                }
            }
            Ok(Packet::Interest(interest)) => {
                let found = self.shared.lock().routes.find(interest.name());
                if let Some(handler) = found {
                    let shared = Arc::clone(&self.shared);
                    handler.handle(Request::new(incoming.wire.clone(), incoming.token, shared));
                    served.note(handler);
                }
            }
            Err(error) => tracing::debug!(%error, "a packet is malformed"),
        }
    }

    /// Waits for output and takes it, in exchange for the written pieces.
    async fn next_output(&self, pieces: &mut Vec<Piece>) {
        loop {
            self.shared.lock().output.take(pieces);
            if !pieces.is_empty() {
                return;
            }
            self.shared.output_ready.notified().await;
        }
    }

    fn output_written(&self) {
        self.shared.lock().output.set_written();
        self.shared.announce_space();
    }

    async fn write_stream(&self, writer: &mut (impl AsyncWrite + Unpin)) -> ConnectionError {
        let mut pieces = Vec::new();
        loop {
            self.next_output(&mut pieces).await;
            if let Err(error) = write_slices(writer, &slices_of(&pieces)).await {
                return error.into();
            }
            self.output_written();
        }
    }

    async fn write_frames(
        &self,
        writer: &mut (impl AsyncWrite + Unpin),
        mtu: &PathMtu,
    ) -> ConnectionError {
        let mut sequence = rand::rng().random();
        let mut pieces = Vec::new();
        loop {
            self.next_output(&mut pieces).await;
            let mtu = self.mtu.min(mtu.value());
            for part in slices_of(&pieces) {
                let mut frames = Vec::new();
                fragment_all(part, mtu, &mut sequence, &mut frames);
                for frame in &frames {
                    if let Err(error) = writer.write_all(frame).await {
                        return error.into();
                    }
                }
            }
            self.output_written();
        }
    }

    async fn write_datagrams(&self, socket: &UdpSocket) -> ConnectionError {
        let mut sequence = rand::rng().random();
        let mut pieces = Vec::new();
        loop {
            self.next_output(&mut pieces).await;
            for part in slices_of(&pieces) {
                if let Err(error) = self.send_datagrams(socket, part, &mut sequence).await {
                    return error.into();
                }
            }
            self.output_written();
        }
    }

    async fn write_memif(&self, writer: &mut Writer<'_>) -> ConnectionError {
        let mut sequence = rand::rng().random();
        let mut pieces = Vec::new();
        let mtu = self.mtu.min(writer.frame_length_max);
        loop {
            self.next_output(&mut pieces).await;
            for part in slices_of(&pieces) {
                let mut frames = Vec::new();
                fragment_all(part, mtu, &mut sequence, &mut frames);
                for frame in &frames {
                    if let Err(error) = writer.send(frame).await {
                        return error.into();
                    }
                }
            }
            if let Err(error) = writer.publish() {
                return error.into();
            }
            self.output_written();
        }
    }

    async fn send_datagrams(
        &self,
        socket: &UdpSocket,
        bytes: &[u8],
        sequence: &mut u64,
    ) -> std::io::Result<()> {
        let mut frames = Vec::new();
        fragment_all(bytes, self.mtu, sequence, &mut frames);
        for frame in &frames {
            self.send_datagram(socket, frame).await?;
        }
        Ok(())
    }

    /// Sends one datagram. A refusal by the peer does not end the connection: UDP loses packets.
    async fn send_datagram(&self, socket: &UdpSocket, datagram: &[u8]) -> std::io::Result<()> {
        match socket.send(datagram).await {
            Err(error) if self.note_refusal(&error) => Ok(()),
            sent => sent.map(|_| ()),
        }
    }

    fn note_refusal(&self, error: &std::io::Error) -> bool {
        let is_refusal = error.kind() == std::io::ErrorKind::ConnectionRefused;
        if is_refusal {
            self.shared.set_refused(true);
        }
        is_refusal
    }
}

/// The handler of the last Interest, to be notified at the end of a batch.
#[derive(Default)]
struct Served(Option<Arc<dyn Handler>>);

impl Served {
    fn note(&mut self, handler: Arc<dyn Handler>) {
        if self.0.as_ref().is_none_or(|last| !Arc::ptr_eq(last, &handler)) {
            self.end();
            self.0 = Some(handler);
        }
    }

    fn end(&mut self) {
        if let Some(handler) = self.0.take() {
            handler.handle_batch_end();
        }
    }
}

/// Fragments contiguous packets into frames of at most `mtu` bytes.
fn fragment_all<'a>(
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

/// The slices to be written.
fn slices_of(pieces: &[Piece]) -> Vec<&[u8]> {
    pieces.iter().flat_map(Piece::parts).filter(|part| !part.is_empty()).collect()
}

/// Writes all slices, many per call.
async fn write_slices(
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
