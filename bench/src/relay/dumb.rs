//! The dumb relay: the same sockets and system calls as a forwarder, and no NDN work at all.
//!
//! It is the yardstick of `bench relay`: what it costs to move the bytes of an exchange through
//! one process on one core. It frames packets and reads the consumer's number at a fixed place.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

use ndn_traffic::io::{Calls, Endpoint};
use rustix::event::{PollFd, PollFlags, poll};

use super::statistics::CallFigures;
use super::wire;

/// A consumer connects here, the producer to the same path with this suffix.
pub(super) const PRODUCER_SUFFIX: &str = ".producer";

/// Relays between Unix stream sockets: `consumers` connections on `path`, then one producer. It
/// tells its figures to whoever connects to `statistics`.
///
/// # Errors
/// When a socket cannot be made or fails; a peer that closes ends the relay.
pub fn relay_unix(path: &Path, consumers: usize, statistics: &Path) -> io::Result<()> {
    let statistics = UnixListener::bind(statistics)?;
    let consumer_listener = UnixListener::bind(path)?;
    let mut producer_path = path.as_os_str().to_owned();
    producer_path.push(PRODUCER_SUFFIX);
    let producer_listener = UnixListener::bind(&producer_path)?;
    let producer = Endpoint::stream(OwnedFd::from(producer_listener.accept()?.0))?;
    let mut endpoints = Vec::with_capacity(consumers);
    for _ in 0..consumers {
        endpoints.push(Endpoint::stream(OwnedFd::from(consumer_listener.accept()?.0))?);
    }
    relay(endpoints, producer, &statistics)
}

/// Relays between UDP sockets: consumer `i` sends from port `consumer_ports[i]` to port
/// `listen_port + i`; the producer is at `producer_port`. It tells its figures to whoever connects to
/// `statistics`, from when it relays.
///
/// # Errors
/// When a socket cannot be made or fails.
pub fn relay_udp(
    listen_port: u16,
    consumer_ports: &[u16],
    producer_port: u16,
    statistics: &Path,
) -> io::Result<()> {
    let mut endpoints = Vec::with_capacity(consumer_ports.len());
    for (offset, &port) in (0u16..).zip(consumer_ports) {
        endpoints.push(Endpoint::datagram(listen_port + 1 + offset, port)?);
    }
    let producer = Endpoint::datagram(listen_port, producer_port)?;
    relay(endpoints, producer, &UnixListener::bind(statistics)?)
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
            // Whoever asked may be gone already.
            let _ = calls.answer(&statistics.accept()?.0);
        }
    }
}
