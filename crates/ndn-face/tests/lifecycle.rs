//! Creation, removal and reconnection of faces; internal faces; events that are suspended meanwhile.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "test code")]

mod support;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ndn_face::{
    CloseReason, Direction, FaceChange, FaceEvent, FaceOptions, FaceSet, FaceSetOptions, FrameTap,
    InternalEnd, Internals, LinkDropReason, MemoryKind, NewStream, Progress, ReconnectWaits,
};
use ndn_ring::PacketPool;
use ndn_sys::poll::{Event, Events, Interest, Poller};
use ndn_sys::stream::{self, AcceptError, Listener};
use ndn_table::FaceIndex;
use ndn_types::{Persistency, PrincipalKey, PrincipalReport, Scope, Timestamp};
use support::{Sink, TIMEOUT, Worker, local_stream, plain, properties, read_available, tlv};

fn event(worker: &mut Worker) -> FaceEvent {
    let mut event = None;
    worker.run_until(|worker| {
        event = worker.faces.poll_event();
        event.is_some()
    });
    event.unwrap()
}

fn accept(listener: &mut Listener) -> std::os::fd::OwnedFd {
    let poller = Poller::new().unwrap();
    poller.add(listener.as_fd(), 0, Interest::Readable).unwrap();
    poller.wait(&mut Events::with_capacity(1), Some(TIMEOUT)).unwrap();
    listener.accept().unwrap().stream
}

#[test]
fn permanent_face_reconnects() {
    let waits =
        ReconnectWaits { first: Duration::from_millis(500), longest: Duration::from_secs(4) };
    let mut worker =
        Worker::with_options(&FaceSetOptions { reconnect_waits: waits, ..Default::default() });
    let mut listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let remote = listener.local_address().unwrap();
    let permanent = FaceOptions {
        reconnect_to: Some(remote),
        ..FaceOptions::stream(properties(Scope::NonLocal), Persistency::Permanent)
    };
    let connected = stream::connect_tcp(remote).unwrap();
    let peer = accept(&mut listener);
    let (face, counters) = worker.add_stream_of(connected, &permanent);
    // Half a packet is lost with the connection.
    support::write_all(&mut worker, &peer, &tlv(6, 1000, 1)[..500]);
    worker.settle();
    drop(peer);
    let change = FaceChange::Down(CloseReason::PeerClosed);
    assert_eq!(event(&mut worker), FaceEvent { face, change });
    assert!(worker.faces.contains(face));
    worker.send(face, &tlv(5, 100, 2));
    worker.flush();
    assert_eq!(counters.dropped(LinkDropReason::Down).value(), 1);
    assert_eq!(worker.faces.next_deadline(), Some(worker.now.plus(waits.first)));

    worker.advance(waits.first);
    let peer = accept(&mut listener);
    assert_eq!(event(&mut worker), FaceEvent { face, change: FaceChange::Up });
    worker.send(face, &tlv(5, 100, 3));
    worker.flush();
    assert_eq!(worker.read_exactly(&peer, 100), tlv(5, 100, 3));
    support::write_all(&mut worker, &peer, &tlv(6, 1000, 4));
    assert_eq!(worker.receive().1, tlv(6, 1000, 4));

    // Nobody listens any more: it goes on trying, ever less often.
    drop(listener);
    drop(peer);
    event(&mut worker);
    for millis in [500, 1000, 2000, 4000, 4000] {
        let wait = Duration::from_millis(millis);
        assert!(worker.faces.next_deadline().unwrap() <= worker.now.plus(wait));
        worker.advance(wait - Duration::from_nanos(1));
        assert!(!worker.poll(Duration::ZERO), "an attempt too early");
        worker.advance(Duration::from_nanos(1));
        assert!(worker.poll(TIMEOUT), "no attempt");
        // Why it stays down is what the last attempt has failed with.
        let refused = CloseReason::Failed(io::ErrorKind::ConnectionRefused);
        assert_eq!(event(&mut worker), FaceEvent { face, change: FaceChange::Down(refused) });
        assert_eq!(worker.faces.poll_event(), None);
    }
    assert!(worker.faces.remove(face, &worker.pool));
    assert_eq!(worker.faces.next_deadline(), None);
    worker.finish();
}

#[test]
fn down_face_closes_when_no_longer_permanent() {
    let mut worker = Worker::new();
    let mut listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let remote = listener.local_address().unwrap();
    let of = |persistency| FaceOptions {
        reconnect_to: Some(remote),
        ..FaceOptions::stream(properties(Scope::NonLocal), persistency)
    };
    let connected = stream::connect_tcp(remote).unwrap();
    let peer = accept(&mut listener);
    let (face, _) = worker.add_stream_of(connected, &of(Persistency::Persistent));
    // While it is up, any change is only a change.
    for persistency in [Persistency::OnDemand, Persistency::Persistent, Persistency::Permanent] {
        assert!(worker.faces.update(face, &of(persistency), &worker.pool));
        assert_eq!(worker.faces.poll_event(), None);
    }
    drop(peer);
    let change = FaceChange::Down(CloseReason::PeerClosed);
    assert_eq!(event(&mut worker), FaceEvent { face, change });
    assert!(worker.faces.update(face, &of(Persistency::Permanent), &worker.pool));
    assert!(worker.faces.contains(face) && worker.faces.next_deadline().is_some());

    assert!(worker.faces.update(face, &of(Persistency::Persistent), &worker.pool));
    let change = FaceChange::Closed(CloseReason::NotPermanent);
    assert_eq!(worker.faces.poll_event(), Some(FaceEvent { face, change }));
    assert!(!worker.faces.contains(face));
    assert_eq!(worker.faces.next_deadline(), None, "nothing tries to connect any more");
    worker.finish();
}

#[test]
fn queue_of_a_face_is_charged_to_its_new_principal() {
    let mut worker = Worker::new();
    let (face, counters, _far) = worker.add_stream();
    worker.fill_queue(face, &counters);
    let mut options = local_stream();
    options.properties.principal = PrincipalKey::Neighbour { face_id: 7000 };
    assert!(worker.faces.update(face, &options, &worker.pool));
    let report = worker.faces.memory();
    let holds = |principal: &&PrincipalReport<{ MemoryKind::COUNT }>| {
        principal.held != [0; MemoryKind::COUNT]
    };
    let holders: Vec<_> = report.principals.iter().filter(holds).collect();
    assert_eq!(holders.len(), 1);
    assert_eq!((holders[0].key, holders[0].faces), (options.properties.principal, 1));
    assert!(worker.faces.remove(face, &worker.pool));
    assert!(worker.faces.memory().is_zero());
    worker.finish();
}

#[test]
fn persistent_stream_face_closes_with_its_connection() {
    let mut worker = Worker::new();
    let (near, far) = stream::unix_pair().unwrap();
    let options = FaceOptions { persistency: Persistency::Persistent, ..local_stream() };
    let (face, _) = worker.add_stream_of(near, &options);
    drop(far);
    let change = FaceChange::Closed(CloseReason::PeerClosed);
    assert_eq!(event(&mut worker), FaceEvent { face, change });
    worker.finish();
}

#[test]
fn close_of_a_blocked_peer_is_detected() {
    let mut worker = Worker::new();
    let (face, counters, far) = worker.add_stream();
    worker.fill_queue(face, &counters);
    drop(far);
    let gone = event(&mut worker);
    assert!(matches!(gone.change, FaceChange::Closed(_)) && gone.face == face);
    worker.finish();
}

#[test]
fn stale_index_is_rejected() {
    let mut worker = Worker::new();
    let (face, _, _far) = worker.add_stream();
    let (near, _) = stream::unix_pair().unwrap();
    let next = FaceIndex::new(face.slot(), face.generation() + 1);
    assert!(worker.faces.open(worker.now, next, NewStream::Plain(near), &local_stream()).is_err());
    assert!(worker.faces.remove(face, &worker.pool));
    assert!(!worker.faces.remove(face, &worker.pool));
    assert!(!worker.faces.update(face, &local_stream(), &worker.pool));
    let (near, far) = stream::unix_pair().unwrap();
    worker.faces.open(worker.now, next, NewStream::Plain(near), &local_stream()).unwrap();
    worker.send(face, &tlv(6, 100, 1));
    worker.send(next, &tlv(6, 100, 2));
    worker.flush();
    assert_eq!(read_available(&far), tlv(6, 100, 2));
    worker.finish();
}

#[test]
fn removed_face_leaves_no_packets() {
    let mut worker = Worker::new();
    let (face, _, far) = worker.add_stream();
    let bytes: Vec<_> = (0..20).flat_map(|seed| tlv(5, 100, seed)).collect();
    support::write_all(&mut worker, &far, &bytes);
    let mut sink = Sink::default();
    let event =
        Event { token: u64::from(face.to_bits()), readable: true, writable: false, closed: false };
    let progress = worker.faces.handle_event(worker.now, &event, &worker.pool, &mut sink);
    assert_eq!(progress, Progress::SinkFull);
    worker.received.extend(sink.burst.drain(..));
    assert!(worker.faces.remove(face, &worker.pool));
    let progress = worker.faces.resume(worker.now, &worker.pool, &mut sink);
    assert_eq!(progress, Progress::Done);
    assert!(sink.burst.is_empty());
    let (other, _, far) = worker.add_stream();
    support::write_all(&mut worker, &far, &tlv(5, 100, 77));
    worker.received.drain(..).for_each(|packet| worker.pool.release(packet.handle));
    let (from, wire, _) = worker.receive();
    assert_eq!((from, wire), (other, tlv(5, 100, 77)));
    worker.finish();
}

#[test]
fn reads_are_deferred_while_no_block_is_free() {
    let pool = PacketPool::new(1).unwrap();
    let mut faces = FaceSet::new(&FaceSetOptions::default()).unwrap();
    let (near, far) = stream::unix_pair().unwrap();
    let index = FaceIndex::new(1, 1);
    let now = Timestamp::ZERO;
    faces.open(now, index, NewStream::Plain(near), &local_stream()).unwrap();
    let taken = pool.allocate_block().unwrap();
    stream::write_vectored(far.as_fd(), &[io::IoSlice::new(&tlv(5, 100, 1))]).unwrap();
    let mut events = Events::with_capacity(1);
    let mut sink = Sink::default();
    for expected in [Progress::NoBlock, Progress::NoBlock] {
        faces.poller().wait(&mut events, Some(TIMEOUT)).unwrap();
        assert_eq!(faces.handle_event(now, &events.event(0), &pool, &mut sink), expected);
    }
    pool.finish(taken);
    faces.poller().wait(&mut events, Some(TIMEOUT)).unwrap();
    assert_eq!(faces.handle_event(now, &events.event(0), &pool, &mut sink), Progress::Done);
    assert_eq!(pool.bytes(&sink.burst[0].handle), tlv(5, 100, 1));
}

fn internal(worker: &mut Worker, capacity: usize) -> (FaceIndex, InternalEnd) {
    let (near, far) = InternalEnd::pair(capacity).unwrap();
    let index = worker.next_index();
    let options = FaceOptions {
        persistency: Persistency::Permanent,
        ..FaceOptions::stream(properties(Scope::Local), Persistency::Permanent)
    };
    worker.faces.open(worker.now, index, near.limited(), &options).unwrap();
    (index, far)
}

#[test]
fn internal_face_carries_packets_in_both_directions() {
    let mut worker = Worker::new();
    let (face, mut far) = internal(&mut worker, 64);
    for seed in 0..50 {
        far.send(tlv(5, 200, seed)).unwrap();
    }
    far.send(vec![6; 100_000]).unwrap();
    far.send(Vec::new()).unwrap();
    for seed in 0..50 {
        let (from, wire, _) = worker.receive();
        assert_eq!((from, wire), (face, tlv(5, 200, seed)));
    }
    worker.settle();
    for seed in 0..100 {
        worker.send_packet(
            face,
            &ndn_forwarding::TxPacket { incoming_face_id: Some(7), ..plain(&tlv(6, 300, seed)) },
        );
    }
    let poller = Poller::new().unwrap();
    poller.add(&far, 0, Interest::Readable).unwrap();
    worker.flush();
    let mut events = Events::with_capacity(1);
    poller.wait(&mut events, Some(TIMEOUT)).unwrap();
    assert_eq!(events.len(), 1);
    far.reset();
    for seed in 0..64 {
        assert_eq!(far.receive(), Some(tlv(6, 300, seed)));
    }
    assert_eq!(far.receive(), None, "the queue is bounded");
    poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
    assert!(events.is_empty());

    drop(far);
    let change = FaceChange::Closed(CloseReason::PeerClosed);
    assert_eq!(event(&mut worker), FaceEvent { face, change });
    worker.finish();
}

#[test]
fn internal_face_is_read_within_its_limit() {
    let mut worker = Worker::new();
    let (face, mut far) = internal(&mut worker, 64);
    for seed in 0..5 {
        far.send(tlv(6, 300, seed)).unwrap();
    }
    let frame = tlv(6, 300, 0).len();
    worker.faces.transport_mut::<Internals>().set_bytes_left(2 * frame + 1);
    for seed in 0..3 {
        let (from, wire, _) = worker.receive();
        assert_eq!((from, wire), (face, tlv(6, 300, seed)), "the last may go beyond");
    }
    assert_eq!(worker.faces.transport::<Internals>().bytes_left(), 0);
    assert!(worker.faces.transport::<Internals>().has_unread());
    far.send(tlv(6, 300, 5)).unwrap();
    worker.settle();
    assert!(worker.received.is_empty(), "it is not read, and nobody is kept from sleeping");
    worker.faces.transport_mut::<Internals>().set_bytes_left(usize::MAX);
    assert!(!worker.faces.transport::<Internals>().has_unread());
    for seed in 3..6 {
        assert_eq!(worker.receive().1, tlv(6, 300, seed));
    }
    worker.faces.transport_mut::<Internals>().set_bytes_left(0);
    far.send(tlv(6, 300, 6)).unwrap();
    worker.settle();
    assert!(worker.faces.transport::<Internals>().has_unread());
    worker.faces.transport_mut::<Internals>().set_bytes_left(1);
    assert_eq!(worker.receive().1, tlv(6, 300, 6));
    // That the other end has gone is noticed, too, once something may be read.
    drop(far);
    worker.settle();
    worker.faces.transport_mut::<Internals>().set_bytes_left(1);
    let change = FaceChange::Closed(CloseReason::PeerClosed);
    assert_eq!(event(&mut worker), FaceEvent { face, change });
    worker.settle();
    worker.finish();
}

#[test]
fn other_end_detects_removal_of_an_internal_face() {
    let mut worker = Worker::new();
    let (face, mut far) = internal(&mut worker, 4);
    worker.send(face, &tlv(6, 10, 1));
    assert!(worker.faces.remove(face, &worker.pool));
    assert!(!far.is_closed());
    assert!(far.receive().is_some());
    assert!(far.is_closed());
    assert!(far.send(vec![5, 0]).is_err());
    assert!(!worker.poll(Duration::ZERO));
    worker.finish();
}

/// Direction, face and bytes of every frame.
type Seen = Arc<Mutex<Vec<(Direction, FaceIndex, Vec<u8>)>>>;

#[derive(Debug)]
struct Recorder(Seen);

impl FrameTap for Recorder {
    fn frame(
        &mut self,
        _now: Timestamp,
        face: FaceIndex,
        direction: Direction,
        header: &[u8],
        payload: &[u8],
    ) {
        self.0.lock().unwrap().push((direction, face, [header, payload].concat()));
    }
}

#[test]
fn tap_receives_every_frame() {
    let mut worker = Worker::new();
    let (face, _, far) = worker.add_stream();
    let seen = Seen::default();
    worker.faces.set_tap(Some(Box::new(Recorder(Arc::clone(&seen)))));
    support::write_all(&mut worker, &far, &tlv(5, 100, 1));
    worker.receive();
    let data = tlv(6, 100, 2);
    let sent = ndn_forwarding::TxPacket { pit_token: &[1], ..plain(&data) };
    worker.send_packet(face, &sent);
    worker.flush();
    let frame = read_available(&far);
    let expected = [(Direction::In, face, tlv(5, 100, 1)), (Direction::Out, face, frame)];
    assert_eq!(*seen.lock().unwrap(), expected);
    worker.faces.set_tap(None);
    worker.send(face, &data);
    assert_eq!(seen.lock().unwrap().len(), 2);
    worker.finish();
}

#[test]
fn ten_thousand_connections_open_and_close() {
    // Half of the descriptors that the process may open are for the other ends.
    let limit = ndn_sys::cpu::raise_descriptor_limit().unwrap().unwrap_or(1 << 20);
    let count = 10_000.min(limit as usize / 2 - 50);
    let mut worker = Worker::new();
    let mut ends = Vec::with_capacity(count);
    for _ in 0..count {
        ends.push(worker.add_stream());
    }
    for (index, (_, _, far)) in ends.iter().enumerate().step_by(100) {
        support::write_all(&mut worker, far, &tlv(5, 100, index as u8));
    }
    for _ in 0..count.div_ceil(100) {
        let (face, wire, _) = worker.receive();
        let index = ends.iter().position(|(index, _, _)| *index == face).unwrap();
        assert_eq!(wire, tlv(5, 100, index as u8));
        worker.send(face, &wire);
    }
    worker.flush();
    for (_, _, far) in ends.iter().step_by(100) {
        assert_eq!(read_available(far).len(), 100);
    }
    let faces: Vec<_> = ends.iter().map(|(face, _, _)| *face).collect();
    drop(ends);
    let mut closed = 0;
    while closed < faces.len() {
        assert!(matches!(event(&mut worker).change, FaceChange::Closed(_)));
        closed += 1;
    }
    assert!(faces.iter().all(|face| !worker.faces.contains(*face)));
    worker.finish();
}

#[test]
fn accepted_connections_become_faces() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.sock");
    let mut listener = Listener::unix(&path, 0o666).unwrap();
    let mut worker = Worker::new();
    let client = stream::connect_unix(&path).unwrap();
    let (face, _) = worker.add_stream_of(accept(&mut listener), &local_stream());
    assert!(matches!(listener.accept(), Err(AcceptError::WouldBlock)));
    support::write_all(&mut worker, &client, &tlv(5, 60, 1));
    assert_eq!(worker.receive().0, face);
    worker.finish();
}

#[test]
fn local_face_does_not_connect_again_to_another_user() {
    let own = std::fs::metadata("/proc/self").unwrap().uid();
    for (uid, change) in [
        (own, FaceChange::Up),
        (own + 1, FaceChange::Down(CloseReason::Failed(io::ErrorKind::PermissionDenied))),
    ] {
        let waits =
            ReconnectWaits { first: Duration::from_millis(500), longest: Duration::from_secs(4) };
        let mut worker =
            Worker::with_options(&FaceSetOptions { reconnect_waits: waits, ..Default::default() });
        let mut listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let remote = listener.local_address().unwrap();
        let mut options = FaceOptions {
            reconnect_to: Some(remote),
            ..FaceOptions::stream(properties(Scope::Local), Persistency::Permanent)
        };
        options.properties.principal = PrincipalKey::LocalApplication { uid, pid: 0 };
        let connected = stream::connect_tcp(remote).unwrap();
        let peer = accept(&mut listener);
        let (face, _) = worker.add_stream_of(connected, &options);
        drop(peer);
        let down = FaceChange::Down(CloseReason::PeerClosed);
        assert_eq!(event(&mut worker), FaceEvent { face, change: down });
        worker.advance(Duration::from_secs(1));
        assert_eq!(event(&mut worker), FaceEvent { face, change });
        worker.finish();
    }
}
