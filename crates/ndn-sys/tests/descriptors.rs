//! A listener when the process has run out of descriptors. A program of its own, because the
//! limit is the whole process's.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs::File;

use ndn_sys::stream::{self, AcceptError, Listener};

#[test]
fn peers_are_rejected_without_free_descriptors() {
    let limit = rustix::process::Rlimit { current: Some(64), maximum: Some(64) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.sock");
    let mut listener = Listener::unix(&path, 0o666).unwrap();
    let clients: Vec<_> = (0..3).map(|_| stream::connect_unix(&path).unwrap()).collect();
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }

    for _ in &clients {
        assert!(matches!(listener.accept(), Err(AcceptError::DescriptorsExhausted)));
    }
    assert!(matches!(listener.accept(), Err(AcceptError::WouldBlock)));

    files.truncate(files.len() - 2);
    let _client = stream::connect_unix(&path).unwrap();
    let accepted = listener.accept().unwrap();

    // A listener that found no descriptor to keep cannot even turn a peer away.
    drop((accepted, clients));
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    files.pop();
    let mut listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_address().unwrap();
    files.pop();
    let _client = std::net::TcpStream::connect(address).unwrap();
    for _ in 0..2 {
        assert!(matches!(listener.accept(), Err(AcceptError::NoResources(_))));
    }
    files.clear();
    listener.accept().unwrap();
}
