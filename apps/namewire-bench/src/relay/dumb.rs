//! The dumb relay: the sockets and system calls of a forwarder without NDN processing.
//!
//! It is the reference of `bench relay`: the cost of moving the bytes of an exchange through one process on one core.
//! It delimits packets and reads the consumer's number at a fixed offset.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

use ndn_traffic::io::{Calls, Endpoint};
use rustix::event::{PollFd, PollFlags, poll};

use super::statistics::CallFigures;
use super::wire;

/// Suffix of the producer's socket path; consumers use the path itself.
pub(super) const PRODUCER_SUFFIX: &str = ".producer";

/// Relays between Unix stream sockets: `consumers` connections on `path`, then one producer. Reports its counters to
/// clients of `statistics`.
///
/// # Errors
/// A socket cannot be created or fails; a peer that closes ends the relay.
pub fn relay_unix(path: &Path, consumers: usize, statistics: &Path) -> io::Result<()> {
    let statistics = listen(statistics)?;
    let consumer_listener = UnixListener::bind(path)?;
    let mut producer_path = path.as_os_str().to_owned();
    producer_path.push(PRODUCER_SUFFIX);
    let producer_listener = listen(Path::new(&producer_path))?;
    let producer = Endpoint::stream(OwnedFd::from(producer_listener.accept()?.0))?;
    let mut endpoints = Vec::with_capacity(consumers);
    for _ in 0..consumers {
        endpoints.push(Endpoint::stream(OwnedFd::from(consumer_listener.accept()?.0))?);
    }
    relay(endpoints, producer, &statistics)
}

/// A listener whose file appears when it accepts connections: between `bind` and `listen` they are refused.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let mut unready = path.as_os_str().to_owned();
    unready.push(".unready");
    let listener = UnixListener::bind(&unready)?;
    std::fs::rename(&unready, path)?;
    Ok(listener)
}

/// Relays between TCP sockets: the producer connects to the port after that of `address`, then `consumers`
/// connections arrive at `address`. Reports its counters to clients of `statistics`.
///
/// # Errors
/// A socket cannot be created or fails; a peer that closes ends the relay.
pub fn relay_tcp(address: SocketAddr, consumers: usize, statistics: &Path) -> io::Result<()> {
    let statistics = listen(statistics)?;
    let producer_address = SocketAddr::new(address.ip(), address.port() + 1);
    let producer_listener = TcpListener::bind(producer_address)?;
    let consumer_listener = TcpListener::bind(address)?;
    let accept = |listener: &TcpListener| {
        let stream = listener.accept()?.0;
        stream.set_nodelay(true)?;
        Endpoint::stream(OwnedFd::from(stream))
    };
    let producer = accept(&producer_listener)?;
    let mut endpoints = Vec::with_capacity(consumers);
    for _ in 0..consumers {
        endpoints.push(accept(&consumer_listener)?);
    }
    relay(endpoints, producer, &statistics)
}

/// Relays between UDP sockets, each given by its own address and that of its only peer: the producer's, then the
/// consumers'. Reports its counters to clients of `statistics` once it relays.
///
/// # Errors
/// A socket cannot be created or fails.
pub fn relay_udp(sockets: &[(SocketAddr, SocketAddr)], statistics: &Path) -> io::Result<()> {
    let mut endpoints = Vec::with_capacity(sockets.len());
    for &(local, remote) in sockets {
        endpoints.push(Endpoint::connected_datagram(local, remote)?);
    }
    if endpoints.is_empty() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let producer = endpoints.remove(0);
    relay(endpoints, producer, &listen(statistics)?)
}

fn relay(
    mut consumers: Vec<Endpoint>,
    mut producer: Endpoint,
    statistics: &UnixListener,
) -> io::Result<()> {
    loop {
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(consumers.len() + 1);
        for endpoint in std::iter::once(&producer).chain(&consumers) {
            let mut flags = PollFlags::IN;
            if endpoint.backlog() > 0 {
                flags |= PollFlags::OUT;
            }
            fds.push(PollFd::from_borrowed_fd(endpoint.fd(), flags));
        }
        fds.push(PollFd::new(statistics, PollFlags::IN));
        poll(&mut fds, None)?;
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[0] {
            producer.receive(|tlv, _| {
                if let Some(consumer) =
                    wire::face_number(tlv).and_then(|face| consumers.get_mut(face as usize))
                {
                    consumer.push(|out| out.extend_from_slice(tlv));
                }
            })?;
            for consumer in consumers.iter_mut().filter(|consumer| consumer.backlog() > 0) {
                consumer.flush()?;
            }
        }
        for (consumer, _) in consumers.iter_mut().zip(&ready[1..]).filter(|(_, ready)| **ready) {
            consumer.receive(|tlv, _| producer.push(|out| out.extend_from_slice(tlv)))?;
            consumer.flush()?;
        }
        producer.flush()?;
        if ready.last() == Some(&true) {
            let endpoints = std::iter::once(&producer).chain(&consumers);
            let calls = endpoints.map(Endpoint::calls).fold(Calls::default(), Calls::plus);
            // The client may have gone.
            let _ = calls.answer(&statistics.accept()?.0);
        }
    }
}
