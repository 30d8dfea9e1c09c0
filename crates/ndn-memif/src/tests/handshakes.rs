use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use ndn_sys::poll::{Events, Interest, Poller};

use super::*;
use crate::{
    DisconnectReason, Ended, MESSAGE_LENGTH, MemoryBudget, Message, Name, Refusal, Secret,
};

#[test]
fn frames_cross_in_both_directions() {
    let mut interrupter = Interrupter::new().unwrap();
    for (rings, log2_ring_size, buffer_length) in
        [(1, 0, Some(512)), (3, 4, None), (8, 10, Some(600))]
    {
        let options = ClientOptions {
            id: 7,
            rings,
            log2_ring_size: Some(log2_ring_size),
            buffer_length,
            ..Default::default()
        };
        let (mut client, mut server) = connect(options);
        assert_eq!((client.id, server.id), (7, 7));
        assert_eq!(client.receivers.len(), usize::from(rings));
        assert_eq!(server.senders.len(), usize::from(rings));
        assert!(server.peer.to_string().starts_with("Namewire "));
        for number in 0..3_usize << log2_ring_size {
            let frame: Vec<u8> = (0..number % 500 + 1).map(|byte| byte as u8).collect();
            let expected = Received::Frame(frame.len());
            assert_eq!(transfer(&mut interrupter, &mut client, &mut server, &frame), expected);
            assert_eq!(transfer(&mut interrupter, &mut server, &mut client, &frame), expected);
        }
    }
}

#[test]
fn long_frames_take_several_buffers() {
    let mut interrupter = Interrupter::new().unwrap();
    let options =
        ClientOptions { log2_ring_size: Some(3), buffer_length: Some(1024), ..Default::default() };
    let (mut client, mut server) = connect(options);
    for length in [0, 1, 1023, 1024, 1025, 2048, 5000, 8192] {
        let frame: Vec<u8> = (0..length).map(|at: u32| (at * 7) as u8).collect();
        for _ in 0..5 {
            let expected = Received::Frame(frame.len());
            assert_eq!(transfer(&mut interrupter, &mut client, &mut server, &frame), expected);
            assert_eq!(transfer(&mut interrupter, &mut server, &mut client, &frame), expected);
        }
    }
    // Longer than the whole ring.
    for link in [&mut client, &mut server] {
        assert_eq!(link.senders[0].send(&[&[0; 8193]]).unwrap(), Sent::TooLong);
        assert!(!link.senders[0].is_unpublished());
    }
    let (mut client, _server) =
        connect(ClientOptions { buffer_length: Some(512), ..Default::default() });
    assert_eq!(client.senders[0].send(&[&[0; 32 * 512 + 1]]).unwrap(), Sent::TooLong);
}

#[test]
fn frames_longer_than_the_buffer_are_skipped() {
    let (mut client, mut server) = connect(ClientOptions::default());
    let mut interrupter = Interrupter::new().unwrap();
    for frame in [&[1_u8; 5000][..], &[2; 10]] {
        client.senders[0].send(&[frame]).unwrap();
    }
    client.senders[0].publish(&mut interrupter).unwrap();
    let mut buffer = [0; 3000];
    assert_eq!(server.receivers[0].receive(&mut buffer).unwrap(), Received::TooLong);
    assert_eq!(server.receivers[0].receive(&mut buffer).unwrap(), Received::Frame(10));
    assert_eq!(server.receivers[0].receive(&mut buffer).unwrap(), Received::Nothing);
}

#[test]
fn polling_receiver_gets_no_interrupts() {
    let (mut client, mut server) = connect(ClientOptions::default());
    let mut interrupter = Interrupter::new().unwrap();
    let poller = Poller::new().unwrap();
    poller.add(&server.receivers[0], 1, Interest::Readable).unwrap();
    let mut events = Events::with_capacity(1);
    let mut is_raised = || {
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        !events.is_empty()
    };
    for polls in [false, true, false] {
        server.receivers[0].set_interrupts(!polls).unwrap();
        client.senders[0].send(&[b"frame"]).unwrap();
        assert!(!is_raised());
        client.senders[0].publish(&mut interrupter).unwrap();
        assert_eq!(is_raised(), !polls);
        server.receivers[0].clear_interrupt();
        assert!(!is_raised() && !server.receivers[0].is_empty().unwrap());
        // A reader that stops before the ring is empty is woken again.
        server.receivers[0].rest(&mut interrupter).unwrap();
        assert!(is_raised());
        assert_eq!(server.receivers[0].receive(&mut [0; 9]).unwrap(), Received::Frame(5));
        assert!(server.receivers[0].is_empty().unwrap());
        server.receivers[0].rest(&mut interrupter).unwrap();
        assert!(!is_raised());
        server.receivers[0].release().unwrap();
    }
}

#[test]
fn disconnect_carries_the_reason() {
    let (client, server) = connect(ClientOptions::default());
    let poller = Poller::new().unwrap();
    poller.add(&server, 1, Interest::Closed).unwrap();
    let mut events = Events::with_capacity(1);
    poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
    assert!(events.is_empty());
    assert_eq!(server.ended(), None);
    client.disconnect("enough");
    poller.wait(&mut events, None).unwrap();
    assert!(events.event(0).closed);
    assert_eq!(server.ended(), Some(Ended::Disconnected(DisconnectReason::new(0, "enough"))));
    assert_eq!(server.ended(), Some(Ended::Closed));
}

/// Runs a handshake and returns the reason with which the client was disconnected, and the server's refusal.
fn refused(
    options: ClientOptions,
    serving: ServerOptions,
    admit: impl Fn(u32, &Secret) -> Result<(), Refusal>,
) -> Option<(DisconnectReason, Refusal)> {
    let (near, far) = seqpacket::pair().unwrap();
    let mut client = ClientHandshake::new(near, options);
    let mut server = ServerHandshake::new(far, serving).unwrap();
    loop {
        client = match client.advance().unwrap() {
            Progress::Waiting(client) => client,
            Progress::Done(_) => panic!("the client is done"),
        };
        server = match server.advance(&admit) {
            Ok(Progress::Waiting(server)) => server,
            Ok(Progress::Done(_)) => return None,
            Err(HandshakeError::NotAdmitted { refusal, .. }) => {
                let Err(HandshakeError::Refused(reason)) = client.advance() else {
                    panic!("the client was not told")
                };
                return Some((reason, refusal));
            }
            Err(error) => panic!("{error}"),
        };
    }
}

#[test]
fn secrets_and_interfaces_are_checked() {
    let secret = |text| Secret::new(text).unwrap();
    let options = |id, secret| ClientOptions { id, secret, ..Default::default() };
    let admit = |id, output: &Secret| match id {
        1 if output.is_none() => Err(Refusal::SecretMissing),
        1 if *output != secret("swordfish") => Err(Refusal::SecretWrong),
        2 => Err(Refusal::Taken),
        _ => Ok(()),
    };
    for (id, output, expected) in [
        (0, Secret::default(), None),
        (0, secret("nobody asks"), None),
        (1, secret("swordfish"), None),
        (1, secret("swordfis"), Some(Refusal::SecretWrong)),
        (1, secret("swordfish2"), Some(Refusal::SecretWrong)),
        (1, Secret::default(), Some(Refusal::SecretMissing)),
        (2, secret("swordfish"), Some(Refusal::Taken)),
    ] {
        let found = refused(options(id, output), ServerOptions::default(), admit);
        assert_eq!(found.map(|(_, refusal)| refusal), expected, "{id}");
        if let Some((reason, refusal)) = found {
            assert_eq!(reason, DisconnectReason::new(0, &refusal.to_string()));
        }
    }
}

#[test]
fn memory_of_all_clients_is_limited() {
    let shares = |link: &Connection| link.receivers[0].ring().regions().length();
    let own = shares(&connect(ClientOptions::default()).0);
    // Half of it is for one user: room for two, but not for three.
    let memory = MemoryBudget::new(own * 5);
    let begin = || {
        let (near, far) = seqpacket::pair().unwrap();
        let serving = ServerOptions { memory: Some(memory.clone()), ..Default::default() };
        let client = ClientHandshake::new(near, ClientOptions::default());
        (client, ServerHandshake::new(far, serving).unwrap())
    };
    let (first, second) = (finish(begin()), finish(begin()));
    assert_eq!(memory.used(), 2 * own);
    let serving = ServerOptions { memory: Some(memory.clone()), ..Default::default() };
    let third = refused(ClientOptions::default(), serving, |_, _| Ok(()));
    assert_eq!(third.unwrap().1, Refusal::MemoryUsedUp);
    assert_eq!(memory.used(), 2 * own);
    // What the server has, counts until it is given up.
    drop(first.0);
    assert_eq!(memory.used(), 2 * own);
    drop(first.1);
    assert_eq!(memory.used(), own);
    let _third = finish(begin());
    drop(second);
    assert_eq!(memory.used(), own);
    // Those that have begun, and shared their memory, count for nothing yet.
    let begun: Vec<_> = (0..8)
        .map(|_| {
            let (client, server) = begin();
            let Progress::Waiting(client) = client.advance().unwrap() else { panic!() };
            let server = serve_on(server);
            let Progress::Waiting(client) = client.advance().unwrap() else { panic!() };
            (client, serve_on(server))
        })
        .collect();
    assert_eq!(memory.used(), own);
    let _fourth = finish(begin());
    assert_eq!(memory.used(), 2 * own);
    drop(begun);
    assert_eq!(memory.used(), 2 * own);
}

fn serve_on(server: ServerHandshake) -> ServerHandshake {
    let Progress::Waiting(server) = server.advance(|_, _| Ok(())).unwrap() else { panic!() };
    server
}

#[test]
fn refused_client_gets_the_reason() {
    let (near, far) = seqpacket::pair().unwrap();
    let client = ClientHandshake::new(near, ClientOptions::default());
    crate::send_disconnect(far.as_fd(), "no room");
    let Err(HandshakeError::Refused(reason)) = client.advance() else { panic!() };
    assert_eq!(reason.to_string(), "\"no room\"");
}

#[test]
fn listener_creates_and_removes_its_socket_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    assert!(ClientHandshake::connect(&path, ClientOptions::default()).is_err());
    let mut listener = ndn_sys::stream::Listener::unix_messages(&path, 0o600).unwrap();
    let client = ClientHandshake::connect(&path, ClientOptions::default()).unwrap();
    let accepted = listener.accept().unwrap();
    let server = ServerHandshake::new(accepted.stream, ServerOptions::default()).unwrap();
    assert_eq!(server.id(), None);
    let Progress::Waiting(client) = client.advance().unwrap() else { panic!() };
    let Progress::Waiting(server) = server.advance(|_, _| Ok(())).unwrap() else { panic!() };
    assert_eq!(server.id(), Some(0));
    let _ = client.as_fd();
    drop(client);
    // The server sees the end of the client after its next message.
    assert!(matches!(
        server.advance(|_, _| Ok(())),
        Err(HandshakeError::Closed | HandshakeError::Io(_))
    ));
}

#[test]
fn long_frames_are_sent_only_to_peers_that_accept_chains() {
    let short = |chains| ClientOptions {
        buffer_length: Some(2048),
        log2_ring_size: Some(5),
        chains,
        ..ClientOptions::default()
    };
    // Between two of this program.
    let (client, server) = connect(short(false));
    assert_eq!((client.frame_length_max, server.frame_length_max), (9216, 9216));
    let (client, server) = connect(ClientOptions::default());
    assert_eq!((client.frame_length_max, server.frame_length_max), (9216, 9216));
    // With other programs.
    for (chains, longest) in [(false, 2048), (true, 9216)] {
        let serving = ServerOptions { chains, ..ServerOptions::default() };
        let (client, server) = connect_others(short(chains), serving);
        assert_eq!((client.frame_length_max, server.frame_length_max), (longest, longest));
    }
}

/// A client and a server that take each other for another program, as somebody in between changes their names.
fn connect_others(options: ClientOptions, serving: ServerOptions) -> (Connection, Connection) {
    let ((near, of_client), (of_server, far)) =
        (seqpacket::pair().unwrap(), seqpacket::pair().unwrap());
    let mut client = ClientHandshake::new(near, options);
    let mut server = ServerHandshake::new(far, serving).unwrap();
    let pass = |from: &OwnedFd, to: &OwnedFd| {
        let mut bytes = [0; MESSAGE_LENGTH];
        let Ok(received) = seqpacket::receive(from.as_fd(), &mut bytes) else { return };
        let mut message = Message::decode(&bytes[..received.length]).unwrap();
        if let Message::Hello { name, .. } | Message::Init { name, .. } = &mut message {
            *name = Name::new("DPDK 22.11.11");
        }
        let descriptor = received.descriptors.first().map(AsFd::as_fd);
        seqpacket::send(to.as_fd(), &message.encode(), descriptor).unwrap();
    };
    loop {
        pass(&of_server, &of_client);
        let Progress::Waiting(waiting) = client.advance().unwrap() else {
            panic!("the client is done before the server");
        };
        client = waiting;
        pass(&of_client, &of_server);
        server = match server.advance(|_, _| Ok(())).unwrap() {
            Progress::Waiting(server) => server,
            Progress::Done(server) => {
                pass(&of_server, &of_client);
                let Progress::Done(client) = client.advance().unwrap() else {
                    panic!("the client still waits");
                };
                return (*client, *server);
            }
        };
    }
}
