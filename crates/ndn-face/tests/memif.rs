//! Faces over shared memory, between two workers of one process.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::time::Duration;

use ndn_face::{
    CloseReason, FaceChange, FaceEvent, FaceOptions, LinkDropReason, MemifClient, MemifEnd,
    Progress as Reading, WORKER_TOKEN_MIN,
};
use ndn_memif::{
    Address, ClientOptions, Connection, DisconnectReason, HandshakeError, Progress, Refusal,
    Secret, ServerHandshake, ServerOptions,
};
use ndn_sys::interrupt::Interrupter;
use ndn_sys::poll::{Event, Events, Interest, Waker};
use ndn_sys::stream::{AcceptError, Listener};
use ndn_table::FaceIndex;
use ndn_types::{Persistency, Scope};
use support::{Sink, Worker, properties, tlv};

/// A server's socket in a directory of its own.
struct Server {
    listener: Listener,
    directory: tempfile::TempDir,
}

impl Server {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = Listener::unix_messages(&directory.path().join("memif"), 0o600).unwrap();
        Self { listener, directory }
    }

    fn address(&self) -> Address {
        Address { socket: self.directory.path().join("memif"), id: Some(1) }
    }

    /// Accepts a client that `worker` has, whose face is then up.
    fn accept(&mut self, worker: &mut Worker) -> Connection {
        self.admit(worker, |_| Ok(())).unwrap()
    }

    /// As [`accept`](Self::accept), if the client knows the right secret.
    fn admit(
        &mut self,
        worker: &mut Worker,
        admit: impl Fn(&Secret) -> Result<(), Refusal>,
    ) -> Result<Connection, HandshakeError> {
        let accepted = loop {
            match self.listener.accept() {
                Ok(accepted) => break accepted.stream,
                Err(AcceptError::WouldBlock) => assert!(worker.poll(support::TIMEOUT)),
                Err(error) => panic!("{error:?}"),
            }
        };
        let mut handshake = ServerHandshake::new(accepted, ServerOptions::default()).unwrap();
        loop {
            worker.settle();
            let progress = handshake.advance(|_, secret| admit(secret));
            worker.settle();
            handshake = match progress? {
                Progress::Waiting(handshake) => handshake,
                Progress::Done(link) => return Ok(*link),
            };
        }
    }
}

fn options(persistency: Persistency) -> FaceOptions {
    let options = FaceOptions::datagram(properties(Scope::Local), persistency, 8800);
    FaceOptions { idle_timeout: None, ..options }
}

fn add_client(
    worker: &mut Worker,
    server: &Server,
    options: ClientOptions,
    of: Persistency,
) -> FaceIndex {
    let index = worker.next_index();
    let client = MemifClient::connect(server.address(), options).unwrap();
    let end = MemifEnd::Client(Box::new(client));
    worker.faces.open(worker.now, index, end, &self::options(of)).unwrap();
    let down = worker.faces.poll_event().unwrap();
    assert!(matches!(down.change, FaceChange::Down(_)), "{down:?}");
    index
}

/// Two workers and a face of each.
fn connected(client_options: ClientOptions) -> (Worker, FaceIndex, Worker, FaceIndex, Server) {
    let (mut near, mut far, mut server) = (Worker::new(), Worker::new(), Server::new());
    let (client, accepted) = connect(&mut near, &mut far, &mut server, client_options);
    (near, client, far, accepted, server)
}

/// Another face of each.
fn connect(
    near: &mut Worker,
    far: &mut Worker,
    server: &mut Server,
    client_options: ClientOptions,
) -> (FaceIndex, FaceIndex) {
    let client = add_client(near, server, client_options, Persistency::Permanent);
    let link = server.accept(near);
    let accepted = far.next_index();
    let end = MemifEnd::Accepted(Box::new(link));
    far.faces.open(far.now, accepted, end, &options(Persistency::OnDemand)).unwrap();
    assert_eq!(near.faces.poll_event(), Some(FaceEvent { face: client, change: FaceChange::Up }));
    assert_eq!(far.faces.poll_event(), None);
    (client, accepted)
}

#[test]
fn packets_of_all_lengths_travel_in_both_directions() {
    for buffer_length in [None, Some(700)] {
        let options = ClientOptions { buffer_length, ..ClientOptions::default() };
        let (mut near, client, mut far, accepted, _server) = connected(options);
        for length in [2, 100, 254, 699, 700, 701, 1500, 8000, 8800] {
            let wire = tlv(6, length, 7);
            near.send(client, &wire);
            near.flush();
            assert_eq!(far.receive().1, wire);
            let wire = tlv(5, length, 9);
            far.send(accepted, &wire);
            far.flush();
            let (face, received, _) = near.receive();
            assert_eq!((face, received), (client, wire));
        }
        near.finish();
        far.finish();
    }
}

#[test]
fn frames_are_queued_while_a_ring_is_full() {
    let options = ClientOptions { log2_ring_size: Some(3), ..ClientOptions::default() };
    let (mut near, client, mut far, _accepted, _server) = connected(options);
    let wires: Vec<_> = (0..100_u8).map(|seed| tlv(6, 1000 + usize::from(seed), seed)).collect();
    for wire in &wires {
        near.send(client, wire);
    }
    near.flush();
    for wire in &wires {
        while far.received.is_empty() {
            // A sender is not notified of room: it polls every millisecond.
            near.advance(Duration::from_millis(1));
            far.poll(Duration::from_millis(1));
        }
        assert_eq!(far.receive().1, *wire);
    }
    near.finish();
    far.finish();
}

#[test]
fn rings_are_polled_until_the_worker_sleeps() {
    let (mut near, client, mut far, accepted, _server) = connected(ClientOptions::default());
    far.faces.enable_polling();
    let mut send = |seed| {
        near.send(client, &tlv(6, 100, seed));
        near.flush();
    };
    let mut events = Events::with_capacity(4);
    for round in 0..3 {
        send(3 * round);
        assert_eq!(far.receive().1, tlv(6, 100, 3 * round));
        assert!(far.faces.has_polled());
        far.faces.poll(&mut events);
        assert!(events.is_empty(), "there is nothing in the ring");
        send(3 * round + 1);
        far.faces.poller().wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty(), "an interrupt was raised for a peer that polls");
        far.faces.poll(&mut events);
        assert_eq!(events.iter().count(), 1);
        events.clear();
        // It is there before the worker sleeps.
        assert!(far.faces.stop_polling());
        assert_eq!(far.receive().1, tlv(6, 100, 3 * round + 1));
        far.settle();
        assert!(!far.faces.has_polled());
        send(3 * round + 2);
        far.faces.poller().wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(!events.is_empty(), "nobody wakes a worker that sleeps");
        events.clear();
        assert_eq!(far.receive().1, tlv(6, 100, 3 * round + 2));
    }
    // A closed face is not polled any more.
    far.faces.remove(accepted, &far.pool);
    far.faces.poll(&mut events);
    assert!(events.is_empty() && !far.faces.has_polled());
    near.finish();
    far.finish();
}

#[test]
fn frames_are_published_early_to_polling_peers_only() {
    let (mut near, watched, mut busy, busy_face, mut server) = connected(ClientOptions::default());
    let mut asleep = Worker::new();
    let (sleeping, _) = connect(&mut near, &mut asleep, &mut server, ClientOptions::default());
    let (stream, _, stream_far) = near.add_stream();
    // Both poll the rings between them, as busy workers do.
    near.faces.enable_polling();
    busy.faces.enable_polling();
    busy.send(busy_face, &tlv(6, 100, 1));
    busy.flush();
    assert_eq!(near.receive().1, tlv(6, 100, 1));
    near.send(watched, &tlv(6, 100, 2));
    near.flush();
    assert_eq!(busy.receive().1, tlv(6, 100, 2));
    assert!(near.faces.has_polled() && busy.faces.has_polled());

    for face in [stream, sleeping, watched] {
        near.send(face, &tlv(6, 100, 3));
    }
    near.faces.publish(near.now, &near.pool);
    let mut events = Events::with_capacity(4);
    busy.faces.poll(&mut events);
    assert_eq!(events.len(), 1, "it has to wait for the flush");
    assert!(!asleep.poll(Duration::ZERO), "it is woken for every burst");
    assert!(support::read_available(&stream_far).is_empty());
    near.flush();
    for peer in [&mut busy, &mut asleep] {
        assert_eq!(peer.receive().1, tlv(6, 100, 3));
        peer.settle();
        assert!(peer.received.is_empty(), "it came twice");
    }
    assert_eq!(near.read_exactly(&stream_far, 100), tlv(6, 100, 3));
    for worker in [near, busy, asleep] {
        worker.finish();
    }
}

/// A worker that does not read a face yet handles what it may write only. Polled rings and closed connections are writable.
#[test]
fn event_that_is_not_readable_takes_no_frames() {
    let (mut near, client, mut far, _accepted, _server) = connected(ClientOptions::default());
    far.faces.enable_polling();
    let mut send = |seed| {
        near.send(client, &tlv(6, 100, seed));
        near.flush();
    };
    send(1);
    assert_eq!(far.receive().1, tlv(6, 100, 1));
    send(2);
    let mut events = Events::with_capacity(4);
    far.faces.poll(&mut events);
    let event = events.event(0);
    assert!(event.readable && event.writable);
    let mut sink = Sink::default();
    for closed in [false, true] {
        let event = Event { readable: false, closed, ..event };
        let progress = far.faces.handle_event(far.now, &event, &far.pool, &mut sink);
        assert_eq!((progress, sink.burst.len()), (Reading::Done, 0));
    }
    assert_eq!(far.receive().1, tlv(6, 100, 2));
    near.finish();
    far.finish();
}

/// However few find room, and however much the kernel has to report.
#[test]
fn polled_rings_are_served_in_turn() {
    let (mut near, mut far, mut server) = (Worker::new(), Worker::new(), Server::new());
    far.faces.enable_polling();
    let clients =
        [(); 3].map(|()| connect(&mut near, &mut far, &mut server, ClientOptions::default()).0);
    for seed in 0..2 {
        for client in clients {
            near.send(client, &tlv(6, 100, seed));
        }
        near.flush();
        if seed == 0 {
            far.run_until(|far| far.received.len() == 3);
        }
    }
    let waker = Waker::new().unwrap();
    far.faces.poller().add(&waker, WORKER_TOKEN_MIN, Interest::Readable).unwrap();
    waker.wake();
    let mut events = Events::with_capacity(1);
    let mut turns = Vec::new();
    for _ in 0..6 {
        far.faces.poller().wait(&mut events, None).unwrap();
        assert_eq!(events.iter().map(|event| event.token).collect::<Vec<_>>(), [WORKER_TOKEN_MIN]);
        far.faces.poll(&mut events);
        turns.push(events.iter().skip(1).map(|event| event.token).collect::<Vec<_>>());
    }
    assert!(turns.iter().all(|turn| turn.len() == 1), "{turns:?}");
    assert_eq!(turns[..3], turns[3..], "one after the other");
    assert!(turns[0] != turns[1] && turns[1] != turns[2] && turns[2] != turns[0], "{turns:?}");
    near.finish();
    far.finish();
}

#[test]
fn permanent_client_reconnects() {
    let (mut near, client, mut far, accepted, mut server) = connected(ClientOptions::default());
    far.faces.remove(accepted, &far.pool);
    near.settle();
    let reason = DisconnectReason::new(0, "the face is closed");
    let change = FaceChange::Down(CloseReason::Left(reason));
    assert_eq!(near.faces.poll_event(), Some(FaceEvent { face: client, change }));
    near.send(client, &tlv(6, 100, 1));
    near.flush();
    near.advance(Duration::from_secs(2));
    let link = server.accept(&mut near);
    let accepted = far.next_index();
    let end = MemifEnd::Accepted(Box::new(link));
    far.faces.open(far.now, accepted, end, &options(Persistency::OnDemand)).unwrap();
    assert_eq!(near.faces.poll_event(), Some(FaceEvent { face: client, change: FaceChange::Up }));
    near.send(client, &tlv(6, 200, 2));
    near.flush();
    assert_eq!(far.receive().1, tlv(6, 200, 2));
    // The accepted peer closes.
    near.faces.remove(client, &near.pool);
    far.settle();
    let change = FaceChange::Closed(CloseReason::Left(reason));
    assert_eq!(far.faces.poll_event(), Some(FaceEvent { face: accepted, change }));
    near.finish();
    far.finish();
}

#[test]
fn failed_attempts_are_repeated_only_by_permanent_faces() {
    let (mut near, server) = (Worker::new(), Server::new());
    let options = ClientOptions::default;
    let permanent = add_client(&mut near, &server, options(), Persistency::Permanent);
    let persistent = add_client(&mut near, &server, options(), Persistency::Persistent);
    // Nobody says a word.
    near.advance(Duration::from_secs(5));
    let change = FaceChange::Closed(CloseReason::Failed(std::io::ErrorKind::TimedOut));
    assert_eq!(near.faces.poll_event(), Some(FaceEvent { face: persistent, change }));
    assert!(near.faces.contains(permanent) && !near.faces.contains(persistent));
    // Nor is anybody there.
    drop(server);
    for _ in 0..5 {
        near.advance(Duration::from_secs(70));
        near.settle();
    }
    assert!(near.faces.contains(permanent));
    assert_eq!(near.faces.poll_event(), None);
    near.finish();
}

#[test]
fn refusal_of_a_server_is_reported_once() {
    let (mut near, mut server) = (Worker::new(), Server::new());
    let secret = Secret::new("right").unwrap();
    let check =
        |output: &Secret| if *output == secret { Ok(()) } else { Err(Refusal::SecretWrong) };
    let refused = CloseReason::Refused(DisconnectReason::new(0, "Incorrect secret"));
    let options = |text| ClientOptions { secret: Secret::new(text).unwrap(), ..Default::default() };
    let persistent = add_client(&mut near, &server, options("wrong"), Persistency::Persistent);
    server.admit(&mut near, check).unwrap_err();
    let change = FaceChange::Closed(refused);
    assert_eq!(near.faces.poll_event(), Some(FaceEvent { face: persistent, change }));
    // A permanent one goes on trying, and says so once.
    let permanent = add_client(&mut near, &server, options("false"), Persistency::Permanent);
    server.admit(&mut near, check).unwrap_err();
    let change = FaceChange::Down(refused);
    assert_eq!(near.faces.poll_event(), Some(FaceEvent { face: permanent, change }));
    near.advance(Duration::from_secs(70));
    server.admit(&mut near, check).unwrap_err();
    assert_eq!(near.faces.poll_event(), None);
    near.advance(Duration::from_secs(70));
    server.admit(&mut near, |_| Err(Refusal::Taken)).unwrap_err();
    let change =
        FaceChange::Down(CloseReason::Refused(DisconnectReason::new(0, "Already connected")));
    assert_eq!(near.faces.poll_event(), Some(FaceEvent { face: permanent, change }));
    // A server that does not ask takes it.
    near.advance(Duration::from_secs(70));
    let _link = server.accept(&mut near);
    let change = FaceChange::Up;
    assert_eq!(near.faces.poll_event(), Some(FaceEvent { face: permanent, change }));
    let right = add_client(&mut near, &server, options("right"), Persistency::Persistent);
    let _other = server.admit(&mut near, check).unwrap();
    assert_eq!(near.faces.poll_event(), Some(FaceEvent { face: right, change }));
    near.finish();
}

#[test]
fn malformed_frames_are_dropped_and_faults_close() {
    let (mut near, mut far, mut server) = (Worker::new(), Worker::new(), Server::new());
    let client = add_client(&mut near, &server, ClientOptions::default(), Persistency::Persistent);
    let mut link = server.accept(&mut near);
    near.faces.poll_event();
    let mut interrupter = Interrupter::new().unwrap();
    let padded = [tlv(6, 20, 3), vec![0; 26]].concat();
    for frame in [&[0_u8; 64][..], &[6], &[6, 200, 1], &[1; 9217], &padded] {
        link.senders[0].send(&[frame]).unwrap();
    }
    link.senders[0].publish(&mut interrupter).unwrap();
    assert_eq!(near.receive().1, tlv(6, 20, 3));
    assert_eq!(near.faces.report().frames, 5);
    near.faces.remove(client, &near.pool);
    drop(link);

    // A client that goes beyond its ring.
    let index = far.next_index();
    let (link, mut peer) = {
        let (one, other) = ndn_sys::seqpacket::pair().unwrap();
        let mut client = ndn_memif::ClientHandshake::new(one, ClientOptions::default());
        let mut accepted = ServerHandshake::new(other, ServerOptions::default()).unwrap();
        loop {
            let Progress::Waiting(waiting) = client.advance().unwrap() else { panic!() };
            client = waiting;
            accepted = match accepted.advance(|_, _| Ok(())).unwrap() {
                Progress::Waiting(accepted) => accepted,
                Progress::Done(link) => {
                    let Progress::Done(peer) = client.advance().unwrap() else { panic!() };
                    break (link, peer);
                }
            };
        }
    };
    let options = options(Persistency::OnDemand);
    let end = MemifEnd::Accepted(link);
    let counters = far.faces.open(far.now, index, end, &options).unwrap();
    peer.senders[0].send(&[b"no packet"]).unwrap();
    peer.senders[0].publish(&mut interrupter).unwrap();
    far.settle();
    assert_eq!(counters.dropped(LinkDropReason::Malformed).value(), 1);
    // It keeps the eventfd, and makes it readable after the face is gone.
    far.faces.remove(index, &far.pool);
    peer.senders[0].send(&[b"no packet"]).unwrap();
    peer.senders[0].publish(&mut interrupter).unwrap();
    assert!(!far.poll(Duration::ZERO), "nobody waits for it any more");
    near.finish();
    far.finish();
}
