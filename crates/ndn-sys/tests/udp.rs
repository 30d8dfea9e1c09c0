//! UDP batches over loopback.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "test code")]

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use ndn_sys::poll::{Events, Interest, Poller};
use ndn_sys::udp::{PeerSpread, ReceiveBatch, ReceivedMessage, SendBatch, UdpOptions, UdpSocket};

fn localhost() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn bound() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::new(&UdpOptions::bound_to(localhost())).unwrap();
    let address = socket.local_address().unwrap();
    (socket, address)
}

fn connected(remote: SocketAddr) -> UdpSocket {
    let options = UdpOptions { remote: Some(remote), ..UdpOptions::bound_to(localhost()) };
    UdpSocket::new(&options).unwrap()
}

fn wait_readable(socket: &UdpSocket) {
    let poller = Poller::new().unwrap();
    poller.add(socket, 0, Interest::Readable).unwrap();
    let mut events = Events::with_capacity(1);
    poller.wait(&mut events, Some(Duration::from_secs(10))).unwrap();
    assert_eq!(events.len(), 1, "nothing arrived in time");
}

/// Receives until `count` datagrams have come, in buffers of `lengths`; each datagram with its
/// sender.
fn receive(socket: &UdpSocket, lengths: [usize; 2], count: usize) -> Vec<(Vec<u8>, SocketAddr)> {
    let mut batch = ReceiveBatch::with_capacity(4);
    let mut datagrams = Vec::new();
    while datagrams.len() < count {
        wait_readable(socket);
        let mut buffers = vec![(vec![0; lengths[0]], vec![0; lengths[1]]); 4];
        let pairs = buffers.iter_mut().map(|(first, second)| [&mut first[..], &mut second[..]]);
        let received = batch.receive(socket.as_fd(), pairs).unwrap();
        assert!(received > 0);
        for (index, (first, second)) in buffers.iter().enumerate().take(received) {
            let message = batch.message(index);
            assert!(!message.truncated);
            let bytes = [&first[..], &second[..]].concat();
            let segment = message.segment_length.unwrap_or(message.length).max(1);
            for datagram in bytes[..message.length].chunks(segment) {
                datagrams.push((datagram.to_vec(), message.peer.unwrap()));
            }
        }
    }
    datagrams
}

/// Distinguishes runs of equal size from single datagrams, if the kernel joins datagrams at all.
#[test]
fn datagrams_of_equal_length_are_sent_and_received_as_one_message() {
    let (receiver, receiver_address) = bound();
    let (sender, sender_address) = bound();
    assert!(sender.can_segment(), "this kernel cannot segment UDP");
    // 20 datagrams of 100 bytes and a shorter one, gathered from odd slices.
    let bytes: Vec<u8> = (0..2037_u32).map(|index| (index / 100) as u8).collect();
    let mut batch = SendBatch::with_capacity(2, 8);
    let mut builder = batch.start();
    builder.push_slice(&bytes[..250]);
    builder.push_slice(&bytes[250..]);
    builder.end_message(Some(receiver_address), Some(100));
    builder.push_slice(b"single");
    builder.end_message(Some(receiver_address), None);
    assert_eq!(builder.len(), 2);
    assert!(!builder.has_room(0));
    assert_eq!(builder.send(sender.as_fd()).unwrap(), 2);

    // The first buffer is short, so that a message goes over into the second.
    let datagrams = receive(&receiver, [130, 65_535], 22);
    assert_eq!(datagrams.len(), 22);
    assert!(datagrams.iter().all(|(_, peer)| *peer == sender_address));
    for (index, (datagram, _)) in datagrams[..20].iter().enumerate() {
        assert_eq!(*datagram, vec![index as u8; 100]);
    }
    assert_eq!(datagrams[20].0, vec![20; 37]);
    assert_eq!(datagrams[21].0, b"single");
}

#[test]
fn truncated_message_is_marked() {
    let (receiver, address) = bound();
    let sender = connected(address);
    let mut batch = SendBatch::with_capacity(1, 1);
    let mut builder = batch.start();
    builder.push_slice(&[1; 100]);
    builder.end_message(None, None);
    assert_eq!(builder.send(sender.as_fd()).unwrap(), 1);
    wait_readable(&receiver);
    let mut batch = ReceiveBatch::with_capacity(1);
    let (mut first, mut second) = ([0; 60], [0; 30]);
    let pairs = [[&mut first[..], &mut second[..]]];
    assert_eq!(batch.receive(receiver.as_fd(), pairs).unwrap(), 1);
    let expected = ReceivedMessage {
        length: 90,
        segment_length: None,
        truncated: true,
        peer: Some(sender.local_address().unwrap()),
        dropped: batch.message(0).dropped,
        received_at: None,
    };
    assert_eq!(batch.message(0), expected);
}

#[test]
fn drops_of_a_full_receive_buffer_are_counted() {
    let options = UdpOptions { receive_buffer: 1, ..UdpOptions::bound_to(localhost()) };
    let receiver = UdpSocket::new(&options).unwrap();
    let sender = connected(receiver.local_address().unwrap());
    let mut batch = SendBatch::with_capacity(1, 1);
    for _ in 0..200 {
        let mut builder = batch.start();
        builder.push_slice(&[7; 1000]);
        builder.end_message(None, None);
        assert_eq!(builder.send(sender.as_fd()).unwrap(), 1);
    }
    let mut received = ReceiveBatch::with_capacity(1);
    let mut buffer = vec![0; 65_535];
    let mut receive_one = || {
        let pairs = [[&mut buffer[..], &mut []]];
        received.receive(receiver.as_fd(), pairs).map(|_| received.message(0).dropped)
    };
    // The count comes with the datagrams that are queued after the drops.
    while receive_one().is_ok() {}
    let mut builder = batch.start();
    builder.push_slice(b"last");
    builder.end_message(None, None);
    builder.send(sender.as_fd()).unwrap();
    wait_readable(&receiver);
    assert!(receive_one().unwrap().unwrap() > 0);
}

#[test]
fn missing_peer_is_an_error_on_a_connected_socket() {
    let (receiver, address) = bound();
    drop(receiver);
    let sender = connected(address);
    let mut batch = SendBatch::with_capacity(1, 1);
    let send = |batch: &mut SendBatch| -> io::Result<usize> {
        let mut builder = batch.start();
        builder.push_slice(b"anybody?");
        builder.end_message(None, None);
        builder.send(sender.as_fd())
    };
    send(&mut batch).unwrap();
    wait_readable(&sender);
    let mut received = ReceiveBatch::with_capacity(1);
    let mut buffer = [0; 10];
    let error = received.receive(sender.as_fd(), [[&mut buffer[..], &mut []]]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    let error = received.receive(sender.as_fd(), [[&mut buffer[..], &mut []]]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[test]
fn rejected_message_is_reported_by_position() {
    let (_receiver, address) = bound();
    let sender = connected(address);
    let long = vec![0; 65_508];
    let mut batch = SendBatch::with_capacity(3, 3);
    let mut builder = batch.start();
    builder.push_slice(b"fits");
    builder.end_message(None, None);
    builder.push_slice(&long);
    builder.end_message(None, None);
    assert_eq!(builder.send(sender.as_fd()).unwrap(), 1);
    let mut builder = batch.start();
    builder.push_slice(&long);
    builder.end_message(None, None);
    let error = builder.send(sender.as_fd()).unwrap_err();
    assert_eq!(rustix::io::Errno::from_io_error(&error), Some(rustix::io::Errno::MSGSIZE));
}

#[test]
fn connected_socket_shares_the_port_of_a_listener() {
    let shared = UdpOptions { reuse_address: true, ..UdpOptions::bound_to(localhost()) };
    let listener = UdpSocket::new(&shared).unwrap();
    let local = listener.local_address().unwrap();
    let (peer, peer_address) = bound();
    let (unknown_peer, unknown_address) = bound();
    assert_ne!(peer_address, unknown_address);
    let options = UdpOptions { local, remote: Some(peer_address), ..shared };
    let face = UdpSocket::new(&options).unwrap();
    let mut batch = SendBatch::with_capacity(1, 1);
    for (sender, receiver) in [(&peer, &face), (&unknown_peer, &listener)] {
        let mut builder = batch.start();
        builder.push_slice(b"hello");
        builder.end_message(Some(local), None);
        builder.send(sender.as_fd()).unwrap();
        let datagrams = receive(receiver, [64, 0], 1);
        assert_eq!(datagrams[0].1, sender.local_address().unwrap());
    }
}

#[test]
fn kernel_reports_receive_times_if_requested() {
    let (receiver, address) = bound();
    let sender = connected(address);
    let received = |is_asked| {
        receiver.set_time_stamps(is_asked).unwrap();
        let mut batch = SendBatch::with_capacity(1, 1);
        let mut builder = batch.start();
        builder.push_slice(&[1; 100]);
        builder.end_message(None, None);
        assert_eq!(builder.send(sender.as_fd()).unwrap(), 1);
        wait_readable(&receiver);
        let mut batch = ReceiveBatch::with_capacity(1);
        let (mut first, mut second) = ([0; 60], [0; 60]);
        let pairs = [[&mut first[..], &mut second[..]]];
        assert_eq!(batch.receive(receiver.as_fd(), pairs).unwrap(), 1);
        batch.message(0).received_at
    };
    assert_eq!(received(false), None);
    let at = received(true).unwrap();
    assert!(at > Duration::from_secs(1_700_000_000), "{at:?}");
    assert_eq!(received(false), None);
}

/// Each peer's datagrams come to the socket that the spread says, although neighbours have connected
/// sockets at the same address, and what these neighbours send comes to those.
#[test]
fn peers_are_spread_over_listening_workers_only() {
    let cases = [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("[::1]:0", "[::1]:0"),
        // Listeners at all addresses of the host.
        ("0.0.0.0:0", "127.0.0.1:0"),
        ("[::]:0", "[::1]:0"),
    ];
    for (listening, any) in cases {
        let any: SocketAddr = any.parse().unwrap();
        let local = listening.parse().unwrap();
        let options = UdpOptions { reuse_port: true, ..UdpOptions::bound_to(local) };
        // A machine without IPv6 is one.
        let Ok(first) = UdpSocket::new(&options) else { continue };
        let local = first.local_address().unwrap();
        let options = UdpOptions { local, ..options };
        let address = SocketAddr::new(any.ip(), local.port());
        let second = UdpSocket::new(&options).unwrap();
        let third = UdpSocket::new(&options).unwrap();
        let listeners = [first, second, third];
        let spread = PeerSpread::new(0x9E37_79B9_85EB_CA6B, listeners.len());
        spread.attach(&listeners).unwrap();

        let peer = || {
            let socket = std::net::UdpSocket::bind(any).unwrap();
            socket.connect(address).unwrap();
            let local = socket.local_addr().unwrap();
            (socket, local)
        };
        let neighbours: Vec<_> = (0..8).map(|_| peer()).collect();
        let mut branches = Vec::new();
        for (place, (_, local)) in neighbours.iter().enumerate() {
            branches.push(listeners[place % 3].branch(*local).unwrap());
        }
        // One that is gone leaves its place in the kernel's list to another.
        drop(branches.remove(0));
        let clients: Vec<_> = (0..200).map(|_| peer()).collect();
        let mut expected = [0; 3];
        for (socket, local) in &clients {
            assert_eq!(socket.send(&[1; 20]).unwrap(), 20);
            expected[spread.socket_of(*local)] += 1;
        }
        for (socket, _) in &neighbours[1..] {
            assert_eq!(socket.send(&[2; 20]).unwrap(), 20);
        }
        for (place, (listener, &count)) in listeners.iter().zip(&expected).enumerate() {
            for (bytes, sender) in receive(listener, [2048, 0], count) {
                assert_eq!((bytes, spread.socket_of(sender)), (vec![1; 20], place), "{sender}");
            }
        }
        for (branch, (_, local)) in branches.iter().zip(&neighbours[1..]) {
            assert_eq!(receive(branch, [2048, 0], 1), [(vec![2; 20], *local)]);
        }
    }
}
