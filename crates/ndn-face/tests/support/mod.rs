//! One worker's faces, driven by a test.
#![allow(dead_code, unreachable_pub, reason = "not every test program uses all of it")]
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, missing_docs, reason = "test code")]

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ndn_face::{
    FaceCounters, FaceOptions, FaceSet, FaceSetOptions, NewStream, NewTransport, PeerKey, Progress,
    RxSink,
};
use ndn_forwarding::{FaceProperties, LpFields, RxFace, TxKind, TxPacket, TxSink};
use ndn_ring::{FillBlock, PacketHandle, PacketPool};
use ndn_sys::poll::Events;
use ndn_sys::stream;
use ndn_table::FaceIndex;
use ndn_types::{Persistency, Scope, Timestamp};

/// A packet that the faces have received.
#[derive(Debug)]
pub struct Packet {
    pub face: FaceIndex,
    pub handle: PacketHandle,
    pub fields: LpFields,
}

/// A burst of few packets, so that it fills often.
#[derive(Debug, Default)]
pub struct Sink {
    pub burst: Vec<Packet>,
}

const BURST: usize = 7;

impl RxSink for Sink {
    fn is_full(&self) -> bool {
        self.burst.len() == BURST
    }

    fn receive(&mut self, face: &RxFace, block: &mut FillBlock, length: usize, fields: &LpFields) {
        assert!(self.burst.len() < BURST, "has_room was not called");
        let handle = block.carve(length);
        self.burst.push(Packet { face: face.index, handle, fields: *fields });
    }
}

/// The faces, the pool and virtual time. Packets received wait in `received`.
#[derive(Debug)]
pub struct Worker {
    pub faces: FaceSet,
    pub pool: PacketPool,
    pub now: Timestamp,
    pub received: VecDeque<Packet>,
    /// Peers without a face that have been reported.
    pub unknown_peers: Vec<PeerKey>,
    /// Options of faces to make for them, if at all.
    pub accept_unknown_peers: Option<FaceOptions>,
    /// Token of the last event.
    pub last_token: u64,
    events: Events,
    next_slot: u32,
}

/// Time for which a test waits for the kernel before it fails.
pub const TIMEOUT: Duration = Duration::from_secs(10);

impl Worker {
    pub fn new() -> Self {
        Self::with_options(&FaceSetOptions::default())
    }

    pub fn with_options(options: &FaceSetOptions) -> Self {
        Self {
            faces: FaceSet::new(options).unwrap(),
            pool: PacketPool::new(64).unwrap(),
            now: Timestamp::from_millis(1000),
            received: VecDeque::new(),
            unknown_peers: Vec::new(),
            accept_unknown_peers: None,
            last_token: u64::MAX,
            events: Events::with_capacity(4),
            next_slot: 0,
        }
    }

    pub fn next_index(&mut self) -> FaceIndex {
        self.next_slot += 1;
        FaceIndex::new(self.next_slot, 3)
    }

    /// A stream face on one end of a socket pair; returns the other end.
    pub fn add_stream(&mut self) -> (FaceIndex, Arc<FaceCounters>, OwnedFd) {
        let (near, far) = stream::unix_pair().unwrap();
        let (index, counters) = self.add_stream_of(near, &local_stream());
        (index, counters, far)
    }

    pub fn add_stream_of(
        &mut self,
        stream: OwnedFd,
        options: &FaceOptions,
    ) -> (FaceIndex, Arc<FaceCounters>) {
        self.open(NewStream::Plain(stream), options)
    }

    /// A face of any kind.
    pub fn open(
        &mut self,
        transport: impl Into<NewTransport>,
        options: &FaceOptions,
    ) -> (FaceIndex, Arc<FaceCounters>) {
        let index = self.next_index();
        let counters = self.faces.open(self.now, index, transport, options).unwrap();
        (index, counters)
    }

    /// Sends Data until the kernel takes no more and the output queue of the face has some.
    pub fn fill_queue(&mut self, face: FaceIndex, counters: &FaceCounters) {
        while counters.queued_bytes.value() == 0 {
            self.send(face, &tlv(6, 8000, 0));
            self.flush();
        }
    }

    /// Handles what is ready now. Returns whether there was anything.
    pub fn poll(&mut self, wait: Duration) -> bool {
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        let has_frames = self.faces.stop_polling();
        let wait = if has_frames { Duration::ZERO } else { wait };
        self.faces.poller().wait(&mut events, Some(wait)).unwrap();
        if has_frames {
            self.faces.poll(&mut events);
        }
        for event in events.iter() {
            self.last_token = event.token;
            let mut sink = Sink::default();
            let mut progress = self.faces.handle_event(self.now, &event, &self.pool, &mut sink);
            loop {
                self.received.extend(sink.burst.drain(..));
                match progress {
                    Progress::Done => break,
                    Progress::SinkFull => {}
                    Progress::NewPeer(peer) => {
                        self.unknown_peers.push(peer);
                        if let Some(options) = self.accept_unknown_peers
                            && let Some((transport, _)) = self.faces.on_demand(peer)
                        {
                            self.open(transport, &options);
                        }
                    }
                    Progress::NoBlock => panic!("the pool is exhausted"),
                }
                progress = self.faces.resume(self.now, &self.pool, &mut sink);
            }
        }
        let happened = !events.is_empty();
        self.events = events;
        happened
    }

    /// Handles events until `condition` holds.
    pub fn run_until(&mut self, mut condition: impl FnMut(&mut Self) -> bool) {
        while !condition(self) {
            assert!(self.poll(TIMEOUT), "nothing happened in time");
        }
    }

    /// Handles events until there are none.
    pub fn settle(&mut self) {
        while self.poll(Duration::ZERO) {}
    }

    /// Reads `length` bytes from the far end of a stream face.
    pub fn read_exactly(&mut self, far: &OwnedFd, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut quiet = 0;
        loop {
            bytes.extend(read_available(far));
            if bytes.len() >= length {
                assert_eq!(bytes.len(), length);
                return bytes;
            }
            quiet = if self.poll(Duration::from_millis(100)) { 0 } else { quiet + 1 };
            assert!(quiet < 100, "{} of {length} bytes came in time", bytes.len());
        }
    }

    /// The next received packet: from where, its bytes and its fields.
    pub fn receive(&mut self) -> (FaceIndex, Vec<u8>, LpFields) {
        self.run_until(|worker| !worker.received.is_empty());
        let packet = self.received.pop_front().unwrap();
        let bytes = self.pool.bytes(&packet.handle).to_vec();
        self.pool.release(packet.handle);
        (packet.face, bytes, packet.fields)
    }

    pub fn send(&mut self, face: FaceIndex, wire: &[u8]) {
        self.send_packet(face, &plain(wire));
    }

    pub fn send_packet(&mut self, face: FaceIndex, packet: &TxPacket<'_>) {
        self.faces.sink(self.now, &self.pool).send(face, packet);
    }

    pub fn flush(&mut self) {
        self.faces.flush(self.now, &self.pool);
    }

    pub fn advance(&mut self, duration: Duration) {
        self.now = self.now.plus(duration);
        self.faces.handle_timeouts(self.now, &self.pool);
    }

    /// Checks at the end that nothing holds a block.
    pub fn finish(mut self) {
        for packet in self.received.drain(..) {
            self.pool.release(packet.handle);
        }
        self.faces.release_blocks(&self.pool);
        self.pool.reclaim();
        assert_eq!(self.pool.counters().blocks_in_use(), 0);
    }
}

pub fn properties(scope: Scope) -> FaceProperties {
    FaceProperties::point_to_point(300, scope)
}

pub fn local_stream() -> FaceOptions {
    FaceOptions::stream(properties(Scope::Local), Persistency::OnDemand)
}

pub fn plain(wire: &[u8]) -> TxPacket<'_> {
    TxPacket {
        kind: if wire[0] == 5 { TxKind::Interest } else { TxKind::Data },
        wire,
        handle: None,
        pit_token: &[],
        congestion_mark: 0,
        incoming_face_id: None,
        non_discovery: false,
        prefix_announcement: &[],
    }
}

/// A TLV of type 5 or 6 whose whole length is `length` (not 255 or 256, which no TLV has), filled
/// with `seed`.
pub fn tlv(first: u8, length: usize, seed: u8) -> Vec<u8> {
    let mut wire = vec![first];
    if length < 255 {
        wire.push(u8::try_from(length - 2).unwrap());
    } else {
        wire.push(253);
        wire.extend(u16::try_from(length - 4).unwrap().to_be_bytes());
    }
    wire.resize(length, seed);
    wire
}

/// Writes all of `bytes`, letting `worker` read in between.
pub fn write_all(worker: &mut Worker, stream: &OwnedFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match stream::write_vectored(stream.as_fd(), &[std::io::IoSlice::new(bytes)]) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                worker.poll(TIMEOUT);
            }
        }
    }
}

/// Reads what is there.
pub fn read_available(stream: &OwnedFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = stream::read(stream.as_fd(), &mut buffer) {
        bytes.extend_from_slice(&buffer[..length]);
    }
    bytes
}
