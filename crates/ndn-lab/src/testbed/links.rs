//! Emulated links: a thread that passes datagrams between the forwarders of a testbed with rate, delay, queue and loss.
//!
//! Each direction of each link has a UDP socket, to which the face of its first node leads. What arrives there goes through
//! the model of the link, and then from the socket of the other direction to the other node.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ndn_client::link::{Passage, SimulatedLink, SimulatedLinkOptions};
use ndn_sys::clock::Clock;
use ndn_types::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

/// Bytes that the kernel may hold for a socket.
const SOCKET_BUFFER: usize = 8 << 20;
/// Longest datagram.
const DATAGRAM_LEN_MAX: usize = 65_535;
/// Datagrams that are read from a socket before the others get their turn.
const BURST_MAX: usize = 64;
/// Longest wait, so that a request to stop is noticed.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// One direction of a link.
#[derive(Debug)]
pub(super) struct Direction {
    /// Socket to which the first node sends.
    pub(super) socket: UdpSocket,
    /// Address of the first node.
    pub(super) node: SocketAddrV4,
    /// Rate, delay, queue and loss on the way to the other node.
    pub(super) options: SimulatedLinkOptions,
}

/// Opens a socket for a direction.
///
/// # Errors
/// Those of the operating system.
pub(super) fn socket(address: Ipv4Addr, port: u16) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddrV4::new(address, port))?;
    socket.set_nonblocking(true)?;
    // Without privileges, the kernel grants fewer.
    if sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER)?;
    }
    sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER)?;
    Ok(socket)
}

/// A datagram on its way.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Datagram {
    at: Duration,
    number: u64,
    direction: usize,
    bytes: Vec<u8>,
}

/// All links of a testbed, on a thread of their own, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Links {
    stop: Arc<AtomicBool>,
    overflows: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Links {
    /// Starts the thread. Directions `2 n` and `2 n + 1` are those of a link.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(super) fn start(directions: Vec<Direction>, clock: &Clock) -> io::Result<Self> {
        let (stop, overflows) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut relay = Relay {
            models: directions.iter().map(|one| SimulatedLink::new(one.options)).collect(),
            directions,
            under_way: BinaryHeap::new(),
            number: 0,
            overflows: Arc::clone(&overflows),
        };
        let (clock, own_stop) = (clock.clone(), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("links".to_owned()).spawn(move || {
            while !own_stop.load(Ordering::Relaxed) {
                relay.turn(&clock);
            }
        })?;
        Ok(Self { stop, overflows, thread: Some(thread) })
    }

    /// Datagrams that found the queue of a link full, so far.
    pub(crate) fn overflows(&self) -> u64 {
        self.overflows.load(Ordering::Relaxed)
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

struct Relay {
    directions: Vec<Direction>,
    models: Vec<SimulatedLink>,
    under_way: BinaryHeap<Reverse<Datagram>>,
    number: u64,
    overflows: Arc<AtomicU64>,
}

impl Relay {
    /// Delivers what is due, waits until a datagram arrives or is due, and reads.
    fn turn(&mut self, clock: &Clock) {
        let now = clock.now().since(Timestamp::ZERO);
        self.deliver(now);
        let next = self.under_way.peek().map(|Reverse(next)| next.at.saturating_sub(now));
        let wait = next.unwrap_or(WAIT_MAX).min(WAIT_MAX);
        let Ok(wait) = Timespec::try_from(wait) else { return };
        let mut descriptors: Vec<PollFd<'_>> =
            self.directions.iter().map(|one| PollFd::new(&one.socket, PollFlags::IN)).collect();
        // A signal ends the wait.
        if !matches!(poll(&mut descriptors, Some(&wait)), Ok(ready) if ready > 0) {
            return;
        }
        let ready: Vec<usize> = (0..descriptors.len())
            .filter(|number| !descriptors[*number].revents().is_empty())
            .collect();
        for direction in ready {
            self.read(direction, clock);
        }
    }

    fn read(&mut self, direction: usize, clock: &Clock) {
        let mut buffer = [0; DATAGRAM_LEN_MAX];
        let now = clock.now().since(Timestamp::ZERO);
        for _ in 0..BURST_MAX {
            let Ok((len, _)) = self.directions[direction].socket.recv_from(&mut buffer) else {
                return;
            };
            match self.models[direction].send(now, len as u64) {
                Passage::Arrives { at, .. } => {
                    self.number += 1;
                    let (number, bytes) = (self.number, buffer[..len].to_vec());
                    self.under_way.push(Reverse(Datagram { at, number, direction, bytes }));
                }
                Passage::Overflow => {
                    self.overflows.fetch_add(1, Ordering::Relaxed);
                }
                Passage::Lost => {}
            }
        }
    }

    fn deliver(&mut self, now: Duration) {
        while self.under_way.peek().is_some_and(|Reverse(next)| next.at <= now)
            && let Some(Reverse(datagram)) = self.under_way.pop()
        {
            let other = &self.directions[datagram.direction ^ 1];
            // A node whose socket is full loses the datagram, as on any network.
            let _ = other.socket.send_to(&datagram.bytes, other.node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "sockets and delays are real")]
    fn datagrams_pass_in_both_directions_after_the_delay() {
        let end = || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket
        };
        let address = |socket: &UdpSocket| match socket.local_addr().unwrap() {
            std::net::SocketAddr::V4(address) => address,
            std::net::SocketAddr::V6(_) => panic!("another family"),
        };
        let (first, second) = (end(), end());
        let delay = Duration::from_millis(30);
        let direction = |node: &UdpSocket, loss| Direction {
            socket: socket(Ipv4Addr::LOCALHOST, 0).unwrap(),
            node: address(node),
            options: SimulatedLinkOptions { delay, loss, ..SimulatedLinkOptions::default() },
        };
        let directions = vec![direction(&first, 0.0), direction(&second, 1.0)];
        let to: Vec<_> = directions.iter().map(|one| address(&one.socket)).collect();
        let clock = Clock::system();
        let links = Links::start(directions, &clock).unwrap();
        let begin = clock.now();
        first.send_to(b"one", to[0]).unwrap();
        let mut buffer = [0; 100];
        let (len, from) = second.recv_from(&mut buffer).unwrap();
        assert!(clock.now() - begin >= Duration::from_millis(30));
        assert_eq!((&buffer[..len], from), (&b"one"[..], to[1].into()));
        // The other direction loses all.
        second.send_to(b"two", to[1]).unwrap();
        first.send_to(b"three", to[0]).unwrap();
        second.recv_from(&mut buffer).unwrap();
        first.set_nonblocking(true).unwrap();
        assert!(first.recv_from(&mut buffer).is_err());
        assert_eq!(links.overflows(), 0);
    }
}
