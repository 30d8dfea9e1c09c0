//! Streams of two principals through the real framer, in pieces.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ndn_face::{FaceCounters, FaceOptions, FaceSet, FaceSetOptions, NewStream, Progress, RxSink};
use ndn_forwarding::{FaceProperties, LpFields, RxFace};
use ndn_packet::{MAX_PACKET_SIZE, tlv, types};
use ndn_ring::{FillBlock, PacketHandle, PacketPool};
use ndn_sys::poll::Events;
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
pub fn stream(mut bytes: &[u8]) {
    let Some(mut worker) = Worker::take() else { return };
    let peers = [0, 1].map(|slot| Peer::new(&mut worker.set, slot, NewStream::Plain));
    let Some(mut peers) = peers.into_iter().collect::<Option<Vec<_>>>() else { return };
    while let Some((head, rest)) = bytes.split_first_chunk::<3>() {
        let length = usize::from(u16::from_be_bytes([head[1], head[2]])).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        bytes = rest;
        let peer = &mut peers[usize::from(head[0] & 1)];
        if worker.set.contains(peer.face) {
            peer.write(piece);
        }
        worker.receive_all();
        for peer in &peers {
            let (frames, is_open) = frames_of(&peer.written);
            assert_eq!(peer.counters.in_frames.value(), frames);
            assert_eq!(worker.set.contains(peer.face), is_open);
        }
    }
    worker.end(&peers);
}

/// The number of whole frames that a stream starts with, and whether it may go on.
fn frames_of(mut bytes: &[u8]) -> (u64, bool) {
    let mut frames = 0;
    while let Some(first) = bytes.first() {
        if !types::starts_frame(*first) {
            return (frames, false);
        }
        match tlv::frame_len(bytes) {
            Ok(Some(length)) if length > FRAME_LENGTH_MAX => return (frames, false),
            Ok(Some(length)) if length <= bytes.len() => bytes = &bytes[length..],
            Ok(_) => break,
            Err(_) => return (frames, false),
        }
        frames += 1;
    }
    (frames, true)
}

/// The far end of a stream face.
pub(crate) struct Peer {
    pub(crate) face: FaceIndex,
    pub(crate) counters: Arc<FaceCounters>,
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
        Some(Self { face, counters, stream, written: Vec::new() })
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
        Some(Self { set: FaceSet::new(&options).ok()?, pool: PacketPool::new(8).ok()? })
    }

    /// Removes the faces; all memory is given back.
    pub(crate) fn end(mut self, peers: &[Peer]) {
        for peer in peers {
            self.set.remove(peer.face, &self.pool);
        }
        self.set.release_blocks(&self.pool);
        self.pool.reclaim();
        assert_eq!(self.pool.counters().blocks_in_use(), 0);
        assert!(self.set.memory().is_zero());
        WORKER.set(Some(self));
    }

    pub(crate) fn receive_all(&mut self) {
        let mut events = Events::with_capacity(4);
        loop {
            let waited = self.set.poller().wait(&mut events, Some(Duration::ZERO));
            if waited.is_err() || events.iter().next().is_none() {
                return;
            }
            for event in events.iter() {
                let mut sink = Sink::default();
                let (now, pool) = (Timestamp::ZERO, &self.pool);
                let mut progress = self.set.handle_event(now, &event, pool, &mut sink);
                while progress == Progress::SinkFull {
                    sink.release(pool);
                    progress = self.set.resume(now, pool, &mut sink);
                }
                sink.release(pool);
            }
            while self.set.poll_event().is_some() {}
            self.set.flush(Timestamp::ZERO, &self.pool);
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
