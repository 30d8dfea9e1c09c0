use std::os::fd::AsFd;
use std::time::Duration;

use ndn_sys::poll::{Events, Interest, Poller};

use super::*;
use crate::SECRET_LENGTH;

#[test]
fn frames_travel_in_both_directions() {
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
fn frames_that_are_too_long_for_a_buffer_are_passed_over() {
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
fn a_receiver_is_interrupted_unless_it_polls() {
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
        // Who stops before the ring is empty hears of it again.
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
fn who_is_left_hears_why() {
    let (client, server) = connect(ClientOptions::default());
    let poller = Poller::new().unwrap();
    poller.add(&server, 1, Interest::Closed).unwrap();
    let mut events = Events::with_capacity(1);
    poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
    assert!(events.is_empty());
    client.disconnect("enough");
    poller.wait(&mut events, None).unwrap();
    assert!(events.event(0).closed);
    assert_eq!(server.farewell().as_deref(), Some("enough"));
    assert_eq!(server.farewell(), None);
}

#[test]
fn secrets_and_interfaces_are_checked() {
    let refuse = |secret: Option<[u8; SECRET_LENGTH]>, options: ClientOptions| {
        let (near, far) = seqpacket::pair().unwrap();
        let mut client = ClientHandshake::new(near, options);
        let mut server =
            ServerHandshake::new(far, ServerOptions { secret, buffer_length: None }).unwrap();
        let reason = loop {
            client = match client.advance() {
                Ok(Progress::Waiting(client)) => client,
                Ok(Progress::Done(_)) => panic!("the client is done"),
                Err(HandshakeError::Refused(reason)) => break reason,
                Err(error) => panic!("{error}"),
            };
            let admit = |id| if id == 1 { Ok(()) } else { Err("ID not found") };
            server = match server.advance(admit) {
                Ok(Progress::Waiting(server)) => server,
                Ok(Progress::Done(_)) => return None,
                Err(error) => {
                    let Err(HandshakeError::Refused(reason)) = client.advance() else {
                        panic!("{error}")
                    };
                    break reason;
                }
            };
        };
        Some(reason)
    };
    let (right, wrong) = ([7; SECRET_LENGTH], [8; SECRET_LENGTH]);
    let options = |id, secret| ClientOptions { id, secret, ..Default::default() };
    assert_eq!(refuse(None, options(1, right)), None);
    assert_eq!(refuse(Some(right), options(1, right)), None);
    assert_eq!(refuse(Some(right), options(1, wrong)).unwrap(), "Incorrect secret");
    assert_eq!(refuse(None, options(2, right)).unwrap(), "ID not found");
}

#[test]
fn sockets_are_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    assert!(ClientHandshake::connect(&path, ClientOptions::default()).is_err());
    let mut listener = ndn_sys::stream::Listener::unix_messages(&path, 0o600).unwrap();
    let client = ClientHandshake::connect(&path, ClientOptions::default()).unwrap();
    let accepted = listener.accept().unwrap();
    let server = ServerHandshake::new(accepted.stream, ServerOptions::default()).unwrap();
    assert_eq!(server.id(), None);
    let Progress::Waiting(client) = client.advance().unwrap() else { panic!() };
    let Progress::Waiting(server) = server.advance(|_| Ok(())).unwrap() else { panic!() };
    assert_eq!(server.id(), Some(0));
    let _ = client.as_fd();
    drop(client);
    // It has been told of the client's end after its next word.
    assert!(matches!(
        server.advance(|_| Ok(())),
        Err(HandshakeError::Closed | HandshakeError::Io(_))
    ));
}
