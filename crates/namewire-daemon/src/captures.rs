//! Active captures: frames from the workers' taps to the readers.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use ndn_face::FrameTap;
use ndn_sys::clock::Clock;
use ndn_sys::peer::command_of;
use ndn_table::FaceIndex;
use ndn_types::{Timestamp, duration_ns};

use crate::control::commands::TapCommands;
use crate::control::face_table::KnownFace;
use crate::control::service::{Cx, Deadline, Event, Reason, Service, ServiceName};
use namewire_control::CaptureStream;
use namewire_control::capture::{
    CaptureFilter, CapturedPacket, CapturedPeer, Direction, PacketIdentity,
};

/// One capture.
#[derive(Debug)]
struct Capture {
    filter: CaptureFilter,
    /// Selected packets so far, captured or not.
    seen: u64,
    /// The reader sets the FaceIds.
    packets: SyncSender<(FaceIndex, CapturedPacket)>,
    dropped: Arc<AtomicU64>,
}

/// State shared by the tap and the control thread. The packet path locks it only while a capture is active, and other
/// threads hold the lock briefly.
#[derive(Debug, Default)]
struct Shared {
    captures: Vec<Capture>,
    /// FaceIds, also of closed faces; 0 if a reader has waited for one without success.
    face_ids: HashMap<FaceIndex, u64>,
    /// Peers by FaceId, also of faces that were closed since the capture began.
    peers: HashMap<u64, Peer>,
}

/// The peer of a face: its URI, and the process of an application.
#[derive(Clone, Debug, Default)]
struct Peer {
    uri: String,
    process_id: Option<u32>,
}

impl Peer {
    /// An application is at the other end of the socket that it connected to: only that has a URI.
    fn of(face: &KnownFace) -> Self {
        let uri = if face.remote.scheme() == "fd" { &face.local } else { &face.remote };
        let process_id = face.process().and_then(|process| process.process_id);
        Self { uri: uri.to_string(), process_id }
    }

    /// It with the command of its process, which is read.
    fn described(self) -> CapturedPeer {
        let application = self.process_id.map(|process_id| match command_of(process_id) {
            Some(command) => format!("process {process_id} ({command})"),
            None => format!("process {process_id}"),
        });
        CapturedPeer { uri: self.uri, application }
    }
}

/// All active captures.
#[derive(Debug)]
pub(super) struct Captures {
    clock: Clock,
    /// Time of the next poll; `None` without captures.
    next_poll: Option<Timestamp>,
    /// When a poll found that a face had been closed, by FaceId.
    closed: BTreeMap<u64, Timestamp>,
    shared: Arc<Mutex<Shared>>,
    /// Notified of new faces.
    added: Arc<Condvar>,
}

/// Maximum packets that wait for the reader of a capture.
const QUEUE: usize = 8192;

/// Maximum time that a reader waits until the control thread knows the face of a packet: the worker forwards the
/// packet that made a face at once.
const FACE_WAIT: Duration = Duration::from_secs(1);

/// Time for which a capture knows a closed face: its last packets may wait for the reader.
const CLOSED_FACE_KEPT: Duration = Duration::from_secs(60);

/// Poll interval: a capture without a reader only costs the workers time.
const POLL: Duration = Duration::from_secs(1);

impl Service for Captures {
    type Dataplane = dyn TapCommands;
    const NAME: ServiceName = ServiceName::Captures;

    fn handle_event(&mut self, cx: &mut Cx<'_, dyn TapCommands>, event: Event) -> Option<Event> {
        if let Event::FaceAdded { index, record, .. } = &event {
            let face_id = record.properties.face_id;
            let peer = cx.faces().get(face_id).map(Peer::of).unwrap_or_default();
            self.face_added(*index, face_id, peer);
        }
        Some(event)
    }

    fn next_deadline(&self) -> Option<Deadline> {
        self.next_poll.map(|at| (at, Reason::Captures))
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_, dyn TapCommands>, _: Reason) {
        self.next_poll = self.tap().map(|_| cx.after(POLL));
        if self.next_poll.is_none() {
            cx.dataplane().set_tap(None);
            *self.lock() = Shared::default();
            self.closed.clear();
        } else {
            let now = cx.now().monotonic;
            self.forget_closed(|face_id| cx.faces().get(face_id).is_some(), now);
        }
    }
}

impl Captures {
    /// No captures. The packets of later ones have times of this clock.
    pub(super) fn new(clock: Clock) -> Self {
        let (shared, added) = (Arc::default(), Arc::default());
        Self { clock, next_poll: None, closed: BTreeMap::new(), shared, added }
    }

    /// Forgets faces some time after they were closed: a peer can open and close faces for as long as a capture runs.
    fn forget_closed(&mut self, is_open: impl Fn(u64) -> bool, now: Timestamp) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        for face_id in shared.peers.keys().filter(|face_id| !is_open(**face_id)) {
            self.closed.entry(*face_id).or_insert(now);
        }
        let is_kept = |closed: &Timestamp| now.since(*closed) < CLOSED_FACE_KEPT;
        if self.closed.values().all(is_kept) {
            return;
        }
        let closed = &mut self.closed;
        let stays = |face_id: &u64| closed.get(face_id).is_none_or(is_kept);
        shared.face_ids.retain(|_, face_id| stays(face_id));
        shared.peers.retain(|face_id, _| stays(face_id));
        closed.retain(|_, at| is_kept(at));
    }

    /// Starts a capture of the frames that `filter` matches.
    ///
    /// # Errors
    /// The face does not exist.
    pub(super) fn start(
        &mut self,
        cx: &mut Cx<'_, dyn TapCommands>,
        filter: CaptureFilter,
    ) -> Result<CaptureStream, String> {
        let stream = self.open(filter, cx.faces().all())?;
        if let Some(tap) = self.tap() {
            self.next_poll = Some(cx.after(POLL));
            cx.dataplane().set_tap(Some(tap));
        }
        Ok(stream)
    }

    fn open(
        &self,
        filter: CaptureFilter,
        faces: &BTreeMap<u64, KnownFace>,
    ) -> Result<CaptureStream, String> {
        if let Some(face_id) = filter.face_id
            && !faces.contains_key(&face_id)
        {
            return Err(format!("there is no face {face_id}"));
        }
        let (sender, receiver) = sync_channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&dropped);
        let mut shared = self.lock();
        shared.face_ids = faces.iter().map(|(face_id, face)| (face.index, *face_id)).collect();
        shared.peers = faces.iter().map(|(face_id, face)| (*face_id, Peer::of(face))).collect();
        let own = filter.clone();
        shared.captures.push(Capture { filter: own, seen: 0, packets: sender, dropped });
        let (known, added) = (Arc::clone(&self.shared), Arc::clone(&self.added));
        let packets = move |timeout| {
            let (face, mut packet) = receiver.recv_timeout(timeout)?;
            packet.face_id = face_id_of(&known, &added, face);
            Ok(packet)
        };
        let known = Arc::clone(&self.shared);
        let peers = move |face_id| {
            let shared = known.lock().unwrap_or_else(PoisonError::into_inner);
            let peer = shared.peers.get(&face_id).cloned();
            drop(shared);
            peer.map(Peer::described)
        };
        Ok(CaptureStream {
            filter,
            packets: Box::new(packets),
            peers: Box::new(peers),
            dropped: Box::new(move || count.load(Ordering::Relaxed)),
        })
    }

    /// Returns the tap for a worker; `None` without active captures.
    fn tap(&self) -> Option<Box<dyn FrameTap>> {
        let (shared, clock) = (Arc::clone(&self.shared), self.clock.clone());
        (!self.lock().captures.is_empty())
            .then(|| -> Box<dyn FrameTap> { Box::new(Tap { clock, shared, whole: Vec::new() }) })
    }

    fn face_added(&self, index: FaceIndex, face_id: u64, peer: Peer) {
        let mut shared = self.lock();
        if !shared.captures.is_empty() {
            shared.face_ids.insert(index, face_id);
            shared.peers.insert(face_id, peer);
            self.added.notify_all();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The FaceId of `face`, for which this waits if the control thread does not know it yet; 0 if it does not come.
fn face_id_of(shared: &Mutex<Shared>, added: &Condvar, face: FaceIndex) -> u64 {
    let shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let is_unknown = |shared: &mut Shared| !shared.face_ids.contains_key(&face);
    let waited = added.wait_timeout_while(shared, FACE_WAIT, is_unknown);
    let (mut shared, _) = waited.unwrap_or_else(PoisonError::into_inner);
    *shared.face_ids.entry(face).or_insert(0)
}

/// The worker's side of the captures.
#[derive(Debug)]
struct Tap {
    clock: Clock,
    shared: Arc<Mutex<Shared>>,
    /// The parts of a packet as one.
    whole: Vec<u8>,
}

/// A packet as one part, in `whole` if it has two.
fn joined<'a>(whole: &'a mut Vec<u8>, header: &[u8], payload: &'a [u8]) -> &'a [u8] {
    if header.is_empty() {
        return payload;
    }
    whole.clear();
    whole.extend_from_slice(header);
    whole.extend_from_slice(payload);
    whole
}

impl FrameTap for Tap {
    fn frame(
        &mut self,
        _now: Timestamp,
        face: FaceIndex,
        direction: ndn_face::Direction,
        header: &[u8],
        payload: &[u8],
    ) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let Shared { captures, face_ids, .. } = &mut *shared;
        if captures.is_empty() {
            return;
        }
        let face_id = face_ids.get(&face).copied().unwrap_or(0);
        let direction = match direction {
            ndn_face::Direction::In => Direction::Received,
            ndn_face::Direction::Out => Direction::Sent,
        };
        let unix_ns = duration_ns(self.clock.unix_time());
        let is_of_face =
            |capture: &Capture| capture.filter.face_id.is_none_or(|spec| spec == face_id);
        let is_read = |capture: &Capture| is_of_face(capture) && capture.filter.reads_packets();
        // Once for all captures: other workers wait for the lock.
        let identity = if captures.iter().any(is_read) {
            Some(PacketIdentity::of(joined(&mut self.whole, header, payload)))
        } else {
            None
        };
        captures.retain_mut(|capture| {
            if !is_of_face(capture) {
                return true;
            }
            let Capture { filter, seen, .. } = &mut *capture;
            if identity.is_some_and(|packet| !filter.selects(&packet)) {
                return true;
            }
            *seen += 1;
            if !filter.is_sampled(*seen) {
                return true;
            }
            let original_len = header.len() + payload.len();
            let mut bytes = Vec::with_capacity(original_len.min(capture.filter.snap_len));
            for part in [header, payload] {
                let room = capture.filter.snap_len.saturating_sub(bytes.len());
                bytes.extend_from_slice(&part[..part.len().min(room)]);
            }
            let packet = CapturedPacket { face_id, direction, unix_ns, bytes, original_len };
            match capture.packets.try_send((face, packet)) {
                Ok(()) => true,
                Err(TrySendError::Full(_)) => {
                    capture.dropped.fetch_add(1, Ordering::Relaxed);
                    true
                }
                Err(TrySendError::Disconnected(_)) => false,
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use namewire_control::capture::CapturedKind;
    use ndn_packet::InterestBuilder;

    use super::*;

    #[test]
    fn capture_contains_only_its_face_and_ends_with_its_reader() {
        let captures = Captures::new(crate::Environment::system().clock);
        let face = FaceIndex::new(3, 0);
        assert!(captures.tap().is_none());
        let filter = CaptureFilter::new(None, 4, None);
        let stream = captures.open(filter, &BTreeMap::new()).unwrap();
        let unknown = CaptureFilter::new(Some(9), 4, None);
        assert!(captures.open(unknown, &BTreeMap::new()).is_err());
        let (uri, own) = ("unix:///run/nfd/nfd.sock".to_owned(), std::process::id());
        captures.face_added(face, 300, Peer { uri: uri.clone(), process_id: Some(own) });
        let peer = (stream.peers)(300).unwrap();
        assert_eq!(peer.uri, uri);
        let application = peer.application.unwrap();
        assert!(application.starts_with(&format!("process {own} (")), "{application}");
        let mut tap = captures.tap().unwrap();
        let mut see = || {
            tap.frame(Timestamp::ZERO, face, ndn_face::Direction::Out, &[1, 2], &[3, 4, 5]);
        };
        see();
        let packet = (stream.packets)(Duration::ZERO).unwrap();
        assert_eq!(
            (packet.face_id, packet.bytes.as_slice(), packet.original_len),
            (300, &[1, 2, 3, 4][..], 5)
        );
        for _ in 0..QUEUE + 2 {
            see();
        }
        assert_eq!((stream.dropped)(), 2);
        drop(stream);
        see();
        assert!(captures.tap().is_none());
    }

    #[test]
    fn capture_of_a_sample_has_a_part_of_the_packets() {
        let captures = Captures::new(crate::Environment::system().clock);
        let filter = CaptureFilter::new(None, 4, Some(10));
        let stream = captures.open(filter, &BTreeMap::new()).unwrap();
        let face = FaceIndex::new(3, 0);
        captures.face_added(face, 300, Peer::default());
        let mut tap = captures.tap().unwrap();
        for number in 0..=199 {
            tap.frame(Timestamp::ZERO, face, ndn_face::Direction::In, &[], &[number]);
        }
        let packets = std::iter::from_fn(|| (stream.packets)(Duration::ZERO).ok()).count();
        assert!((8..33).contains(&packets) && (stream.dropped)() == 0, "{packets}");
    }

    #[test]
    fn packets_are_selected_before_they_are_sampled() {
        let captures = Captures::new(crate::Environment::system().clock);
        let filter = CaptureFilter {
            name: Some("/rare".parse().unwrap()),
            types: [CapturedKind::Interest].into_iter().collect(),
            ..CaptureFilter::new(None, 2, Some(4))
        };
        let stream = captures.open(filter, &BTreeMap::new()).unwrap();
        let face = FaceIndex::new(3, 0);
        captures.face_added(face, 300, Peer::default());
        let mut tap = captures.tap().unwrap();
        // More of the others than the queue holds; the name is in both parts of a frame.
        let of =
            |name: &str| InterestBuilder::new(&name.parse().unwrap()).nonce(1).to_vec().unwrap();
        let (rare, other) = (of("/rare/1"), of("/frequent/1"));
        for number in 0..100 {
            for _ in 0..QUEUE / 50 {
                tap.frame(Timestamp::ZERO, face, ndn_face::Direction::In, &[], &other);
            }
            let (header, payload) = rare.split_at(if number % 2 == 0 { 0 } else { 6 });
            tap.frame(Timestamp::ZERO, face, ndn_face::Direction::Out, header, payload);
        }
        let packets: Vec<_> =
            std::iter::from_fn(|| (stream.packets)(Duration::ZERO).ok()).collect();
        assert!((12..40).contains(&packets.len()), "{}", packets.len());
        assert!(packets.iter().all(|one| one.bytes == rare[..2] && one.original_len == rare.len()));
        assert_eq!((stream.dropped)(), 0);
    }

    #[test]
    fn closed_faces_are_forgotten_after_a_while() {
        let mut captures = Captures::new(crate::Environment::system().clock);
        let filter = CaptureFilter::new(None, 4, None);
        let stream = captures.open(filter, &BTreeMap::new()).unwrap();
        captures.face_added(FaceIndex::new(1, 0), 1, Peer::default());
        for number in 2..500 {
            captures.face_added(FaceIndex::new(2, number), number.into(), Peer::default());
            let now = Timestamp::from_nanos(u64::from(number) * 1_000_000_000);
            captures.forget_closed(|face_id| face_id == 1, now);
        }
        let known = captures.lock().peers.len();
        assert!((50..70).contains(&known) && captures.closed.len() < 70, "{known}");
        assert_eq!(captures.lock().face_ids.len(), known);
        assert!((stream.peers)(1).is_some() && (stream.peers)(2).is_none());
        assert!((stream.peers)(499).is_some());
    }

    #[test]
    fn packet_that_makes_a_face_has_its_face_id() {
        let captures = Captures::new(crate::Environment::system().clock);
        let filter = CaptureFilter::new(None, 4, None);
        let stream = captures.open(filter, &BTreeMap::new()).unwrap();
        let mut tap = captures.tap().unwrap();
        let face = FaceIndex::new(3, 0);
        tap.frame(Timestamp::ZERO, face, ndn_face::Direction::In, &[], &[1]);
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let packet = (stream.packets)(Duration::ZERO).unwrap();
                (packet.face_id, (stream.peers)(packet.face_id).unwrap().uri)
            });
            let uri = "udp4://192.0.2.1:6363".to_owned();
            captures.face_added(face, 300, Peer { uri: uri.clone(), process_id: None });
            assert_eq!(reader.join().unwrap(), (300, uri));
        });
    }
}
