//! Streams over real sockets.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::io::{ErrorKind, IoSlice};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use ndn_sys::poll::{Events, Interest, Poller};
use ndn_sys::stream::{self, AcceptError, Accepted, Listener};

const DEADLINE: Option<Duration> = Some(Duration::from_secs(10));

fn wait_for(descriptor: impl AsFd, interest: Interest) {
    let poller = Poller::new().unwrap();
    poller.add(&descriptor, 0, interest).unwrap();
    let mut events = Events::with_capacity(1);
    poller.wait(&mut events, DEADLINE).unwrap();
    assert_eq!(events.len(), 1, "nothing happened in time");
}

fn accept(listener: &mut Listener) -> Accepted {
    wait_for(listener.as_fd(), Interest::Readable);
    listener.accept().unwrap()
}

#[test]
fn unix_listener_is_open_to_all_users_and_cleans_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.sock");
    let mut listener = Listener::unix(&path, 0o666).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    assert_eq!(listener.path(), Some(path.as_path()));
    assert!(matches!(listener.accept(), Err(AcceptError::WouldBlock)));

    let client = stream::connect_unix(&path).unwrap();
    let accepted = accept(&mut listener);
    assert_eq!(accepted.peer, None);
    let slices = [IoSlice::new(b"half "), IoSlice::new(b"and half")];
    assert_eq!(stream::write_vectored(client.as_fd(), &slices).unwrap(), 13);
    assert!(stream::unsent_bytes(client.as_fd()).unwrap() > 0);
    let mut buffer = [0; 64];
    assert_eq!(stream::read(accepted.stream.as_fd(), &mut buffer).unwrap(), 13);
    assert_eq!(&buffer[..13], b"half and half");
    assert_eq!(stream::unsent_bytes(client.as_fd()).unwrap(), 0);
    let nothing = stream::read(accepted.stream.as_fd(), &mut buffer).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    drop(client);
    assert_eq!(stream::read(accepted.stream.as_fd(), &mut buffer).unwrap(), 0);

    drop(listener);
    assert!(!path.exists());
}

#[test]
fn unix_socket_never_has_more_permissions_than_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.control.sock");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut widest = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                if let Ok(found) = std::fs::metadata(&path) {
                    widest |= found.permissions().mode() & 0o777;
                }
            }
            widest
        });
        // Hundreds of times, since the moment between bind(2) and chmod(2) would be short.
        for _ in 0..500 {
            let (socket, _) = stream::listen_unix(&path, 0o600).unwrap();
            drop(socket);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(watcher.join().unwrap(), 0o600);
    });
}

#[test]
fn socket_mode_is_not_applied_to_a_replaced_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mode = |name: &str| std::fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
    let bind = |name: &str| std::os::unix::net::UnixListener::bind(path(name)).unwrap();
    std::fs::write(path("secret"), "").unwrap();
    let _sockets = (bind("plain"), bind("private"));
    for name in ["secret", "plain", "private"] {
        std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    std::os::unix::fs::symlink(path("secret"), path("to secret")).unwrap();
    std::os::unix::fs::symlink(path("plain"), path("to plain")).unwrap();
    std::fs::hard_link(path("private"), path("second name")).unwrap();
    for planted in ["to secret", "to plain", "second name", "secret"] {
        let refused = stream::set_socket_mode(&path(planted), 0o666).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{planted}");
        assert_eq!(mode(planted), 0o600, "{planted}");
    }
    let identity = stream::set_socket_mode(&path("plain"), 0o666).unwrap();
    assert_eq!(mode("plain"), 0o666);
    assert_eq!(identity, ndn_sys::file::FileIdentity::of(&path("plain")).unwrap());
    assert_ne!(identity, ndn_sys::file::FileIdentity::of(&path("to plain")).unwrap());
}

#[test]
fn unix_listener_replaces_only_stale_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.sock");

    let first = Listener::unix(&path, 0o666).unwrap();
    let second = Listener::unix(&path, 0o666).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::AddrInUse);
    assert!(second.to_string().contains("another process listens on"), "{second}");
    drop(first);

    // A process that was killed leaves the file behind: the standard listener does too.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let third = Listener::unix(&path, 0o666).unwrap();
    stream::connect_unix(&path).unwrap();

    // Somebody replaces our file: it is not ours to remove.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    drop(third);
    let refused = Listener::unix(&path, 0o666).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn tcp_connects_without_waiting() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let mut listener = match Listener::tcp(address.parse().unwrap()) {
            Ok(listener) => listener,
            Err(error) => {
                assert!(address.starts_with('['), "{error}");
                eprintln!("skipped: no IPv6 here ({error})");
                continue;
            }
        };
        let local = listener.local_address().unwrap();
        let client = stream::connect_tcp(local).unwrap();
        wait_for(client.as_fd(), Interest::Writable);
        stream::take_error(client.as_fd()).unwrap();
        let accepted = accept(&mut listener);
        let (ours, theirs) = stream::tcp_addresses(client.as_fd()).unwrap();
        assert_eq!((accepted.peer, theirs), (Some(ours), local));
    }
}

#[test]
fn tcp_connection_refused_is_reported() {
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_address().unwrap();
    drop(listener);
    let client = stream::connect_tcp(address).unwrap();
    wait_for(client.as_fd(), Interest::Writable);
    let error = stream::take_error(client.as_fd()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert!(stream::tcp_addresses(client.as_fd()).is_err());
}

#[test]
fn full_stream_does_not_block_others() {
    let (near, far) = stream::unix_pair().unwrap();
    let chunk = vec![7; 64 * 1024];
    let mut written = 0;
    let error = loop {
        match stream::write_vectored(near.as_fd(), &[IoSlice::new(&chunk)]) {
            Ok(length) => written += length,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let mut buffer = vec![0; 1 << 20];
    let mut read = 0;
    while let Ok(length) = stream::read(far.as_fd(), &mut buffer) {
        read += length;
    }
    assert_eq!(read, written);
}

#[test]
fn tcp_peers_that_vanish_are_noticed() {
    let mut listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = stream::connect_tcp(listener.local_address().unwrap()).unwrap();
    let accepted = accept(&mut listener);
    for socket in [&client, &accepted.stream] {
        let socket = socket2::SockRef::from(socket);
        assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(60));
    }
}
