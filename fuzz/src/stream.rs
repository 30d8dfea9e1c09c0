//! Streams of two principals through the real framer, in pieces.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ndn_face::{FaceCounters, FaceOptions, FaceSet, FaceSetOptions, NewStream, Progress, RxSink};
use ndn_forwarding::{FaceProperties, LpFields, RxFace};
use ndn_packet::{MAX_PACKET_SIZE, tlv, types};
use ndn_ring::{FillBlock, PacketHandle, PacketPool};
use ndn_sys::poll::{Event, Events};
use ndn_sys::stream as unix;
use ndn_table::FaceIndex;
use ndn_types::{Persistency, PrincipalKey, Scope, Timestamp};

/// Longest frame on a stream.
const FRAME_LENGTH_MAX: usize = MAX_PACKET_SIZE + 256;
/// Memory for incomplete messages: a few, so that principals displace each other's.
const REASSEMBLY_BYTES: usize = 32 << 10;

/// Takes the bytes as pieces that the peers of two streams write: for each, one byte for the stream, two bytes of
/// length, and the piece.
///
/// Every frame up to the first byte that starts none arrives, and nothing behind it.
pub(crate) fn stream(mut bytes: &[u8]) {
    let Some(mut worker) = Worker::take() else { return };
    let mut peers: [Option<Peer>; 2] = [None, None];
    let mut expected = [Expected::default(), Expected::default()];
    while let Some((head, rest)) = bytes.split_first_chunk::<3>() {
        let length = usize::from(u16::from_be_bytes([head[1], head[2]])).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        bytes = rest;
        let slot = head[0] & 1;
        let place = usize::from(slot);
        if peers[place].is_none() {
            peers[place] = Peer::new(&mut worker.set, u32::from(slot), NewStream::Plain);
        }
        let Some(peer) = &mut peers[place] else { return };
        if worker.set.contains(peer.face) {
            peer.write(piece);
            expected[place].add(peer);
            worker.receive(peer);
        }
        for (peer, expected) in peers.iter().zip(&expected) {
            let Some(peer) = peer else { continue };
            assert_eq!(peer.counters.in_frames.value(), expected.frames);
            assert_eq!(worker.set.contains(peer.face), !expected.has_ended);
        }
    }
    worker.end(peers.into_iter().flatten());
}

/// The arrivals that a stream must have led to.
#[derive(Default)]
struct Expected {
    /// Its whole frames.
    frames: u64,
    /// Bytes of them.
    length: usize,
    /// It was closed for what follows them.
    has_ended: bool,
}

impl Expected {
    fn add(&mut self, peer: &Peer) {
        let mut bytes = &peer.written[self.length..];
        while let Some(first) = bytes.first()
            && !self.has_ended
        {
            match tlv::frame_len(bytes) {
                _ if !types::starts_frame(*first) => self.has_ended = true,
                Ok(Some(length)) if length > FRAME_LENGTH_MAX => self.has_ended = true,
                Ok(Some(length)) if length <= bytes.len() => {
                    bytes = &bytes[length..];
                    self.length += length;
                    self.frames += 1;
                }
                Ok(_) => return,
                Err(_) => self.has_ended = true,
            }
        }
    }
}

/// The far end of a stream face.
pub(crate) struct Peer {
    pub(crate) face: FaceIndex,
    pub(crate) counters: Arc<FaceCounters>,
    slot: u32,
    stream: OwnedFd,
    pub(crate) written: Vec<u8>,
}

impl Peer {
    pub(crate) fn new(
        set: &mut FaceSet,
        slot: u32,
        kind: fn(OwnedFd) -> NewStream,
    ) -> Option<Self> {
        let (near, stream) = unix::unix_pair().ok()?;
        let face = FaceIndex::new(slot, 1);
        let mut properties = FaceProperties::point_to_point(u64::from(slot) + 256, Scope::NonLocal);
        properties.principal = PrincipalKey::Neighbour { face_id: u64::from(slot) };
        let options = FaceOptions::stream(properties, Persistency::OnDemand);
        let counters = set.open(Timestamp::ZERO, face, kind(near), &options).ok()?;
        Some(Self { face, counters, slot, stream, written: Vec::new() })
    }

    /// A stream that was closed takes nothing more.
    pub(crate) fn write(&mut self, piece: &[u8]) {
        let written = unix::write_vectored(self.stream.as_fd(), &[std::io::IoSlice::new(piece)]);
        if let Ok(length) = written {
            self.written.extend_from_slice(&piece[..length]);
        }
    }
}

pub(crate) struct Worker {
    pub(crate) set: FaceSet,
    pool: PacketPool,
    /// Those of the faces, by their slots.
    tokens: [u64; 2],
}

thread_local! {
    /// Making one takes longer than all the rest.
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

impl Worker {
    /// A worker without faces. It is used again after its [end](Self::end).
    pub(crate) fn take() -> Option<Self> {
        WORKER.take().or_else(Self::new)
    }

    fn new() -> Option<Self> {
        let options =
            FaceSetOptions { reassembly_bytes_max: REASSEMBLY_BYTES, ..FaceSetOptions::default() };
        let (set, pool) = (FaceSet::new(&options).ok()?, PacketPool::new(8).ok()?);
        let mut worker = Self { set, pool, tokens: [0; 2] };
        let mut events = Events::with_capacity(1);
        for slot in [0, 1] {
            let mut peer = Peer::new(&mut worker.set, slot, NewStream::Plain)?;
            peer.write(&[5]);
            worker.set.poller().wait(&mut events, Some(Duration::ZERO)).ok()?;
            worker.tokens[slot as usize] = events.iter().next()?.token;
            worker.set.remove(peer.face, &worker.pool);
        }
        Some(worker)
    }

    /// Removes the faces; all memory is given back.
    pub(crate) fn end(mut self, peers: impl IntoIterator<Item = Peer>) {
        for peer in peers {
            self.set.remove(peer.face, &self.pool);
        }
        self.set.release_blocks(&self.pool);
        self.pool.reclaim();
        assert_eq!(self.pool.counters().blocks_in_use(), 0);
        assert!(self.set.memory().is_zero());
        WORKER.set(Some(self));
    }

    /// Handles the event that something can be read from a peer. The poller would take two system calls to say so.
    pub(crate) fn receive(&mut self, peer: &Peer) {
        let token = self.tokens[peer.slot as usize];
        let event = Event { token, readable: true, writable: false, closed: false };
        let (now, pool) = (Timestamp::ZERO, &self.pool);
        loop {
            let mut sink = Sink::default();
            let mut progress = self.set.handle_event(now, &event, pool, &mut sink);
            let is_done = progress == Progress::Done && !self.set.report().has_more;
            while progress == Progress::SinkFull {
                sink.release(pool);
                progress = self.set.resume(now, pool, &mut sink);
            }
            sink.release(pool);
            while self.set.poll_event().is_some() {}
            self.set.flush(now, pool);
            if is_done || !self.set.contains(peer.face) {
                return;
            }
        }
    }
}

/// Room for three packets, so that events are suspended.
#[derive(Default)]
struct Sink(Vec<PacketHandle>);

impl Sink {
    fn release(&mut self, pool: &PacketPool) {
        self.0.drain(..).for_each(|handle| pool.release(handle));
    }
}

impl RxSink for Sink {
    fn is_full(&self) -> bool {
        self.0.len() == 3
    }

    fn receive(&mut self, _: &RxFace, block: &mut FillBlock, length: usize, _: &LpFields) {
        self.0.push(block.carve(length));
    }
}
