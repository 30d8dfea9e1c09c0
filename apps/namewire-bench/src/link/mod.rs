//! The link of `ndn_client::link` as a program: a relay between UDP sockets with rate, delay, queue, loss, reordering
//! and duplication, in real time. It does not parse NDN packets.

mod direction;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ndn_client::link::SimulatedLinkOptions;
use ndn_sys::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use serde::Serialize;

use self::direction::Direction;
pub use self::direction::LinkCounters;

/// Maximum peers at the near end; datagrams of further ones are dropped.
const PEERS_MAX: usize = 64;
/// Maximum datagrams read from one socket before the others.
const READ_BATCH: usize = 64;
/// Maximum datagram length.
const DATAGRAM_LEN_MAX: usize = 65_535;
/// Kernel's buffers of the sockets, which are no part of the link and should never be full.
const SOCKET_BUFFER_LEN: usize = 8 << 20;
/// Poll interval for the stop flag.
const TIMEOUT: Duration = Duration::from_millis(100);

/// A link between two UDP addresses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkRelayOptions {
    /// Address of the near end, to which peers send.
    pub listen: SocketAddr,
    /// Address of the far end.
    pub to: SocketAddr,
    /// From the near to the far end.
    pub there: SimulatedLinkOptions,
    /// From the far to the near end.
    pub back: SimulatedLinkOptions,
}

/// Counters of the link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LinkReport {
    /// From the near to the far end.
    pub there: LinkCounters,
    /// From the far to the near end.
    pub back: LinkCounters,
    /// Datagrams of peers beyond the limit.
    pub of_further_peers: u64,
    /// Arrived datagrams that the kernel did not accept.
    pub not_taken: u64,
}

/// A peer at the near end, with its socket towards the far end.
struct Peer {
    address: SocketAddr,
    far: UdpSocket,
}

/// The relay.
pub struct LinkRelay {
    near: UdpSocket,
    to: SocketAddr,
    peers: Vec<Peer>,
    there: Direction,
    back: Direction,
    of_further_peers: u64,
    not_taken: u64,
    start_ns: u64,
}

impl std::fmt::Debug for LinkRelay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkRelay").field("near", &self.near).field("to", &self.to).finish()
    }
}

impl LinkRelay {
    /// Opens the near end.
    ///
    /// # Errors
    /// The address is not available.
    pub fn bind(options: &LinkRelayOptions) -> io::Result<Self> {
        let direction = |options| {
            Direction::new(options).ok_or_else(|| io::Error::other("no histogram can be made"))
        };
        Ok(Self {
            near: open(options.listen)?,
            to: options.to,
            peers: Vec::new(),
            there: direction(options.there)?,
            back: direction(options.back)?,
            of_further_peers: 0,
            not_taken: 0,
            start_ns: clock::now(),
        })
    }

    /// The address of the near end.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.near.local_addr()
    }

    /// Relays until `stop` is set.
    ///
    /// # Errors
    /// A socket fails.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<LinkReport> {
        let mut buffer = vec![0; DATAGRAM_LEN_MAX];
        let mut ready = Vec::with_capacity(PEERS_MAX + 1);
        while !stop.load(Ordering::Relaxed) {
            self.wait(&mut ready)?;
            if ready.first() == Some(&true) {
                self.read_near(&mut buffer)?;
            }
            for peer in (0..self.peers.len()).filter(|peer| ready.get(peer + 1) == Some(&true)) {
                self.read_far(peer, &mut buffer)?;
            }
            self.write_arrived()?;
        }
        Ok(LinkReport {
            there: self.there.counters(),
            back: self.back.counters(),
            of_further_peers: self.of_further_peers,
            not_taken: self.not_taken,
        })
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(clock::now().saturating_sub(self.start_ns))
    }

    /// Waits for datagrams, or until the next arrival.
    fn wait(&self, ready: &mut Vec<bool>) -> io::Result<()> {
        let next = self.there.next_arrival().into_iter().chain(self.back.next_arrival()).min();
        let now = self.now();
        let wait = next.map_or(TIMEOUT, |at| at.saturating_sub(now)).min(TIMEOUT);
        let timeout = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let sockets = std::iter::once(&self.near).chain(self.peers.iter().map(|peer| &peer.far));
        let mut fds: Vec<_> = sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        ready.clear();
        ready.extend(fds.iter().map(|fd| !fd.revents().is_empty()));
        Ok(())
    }

    fn read_near(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        for _ in 0..READ_BATCH {
            let Some((length, from)) = received(self.near.recv_from(buffer))? else {
                return Ok(());
            };
            let known = self.peers.iter().position(|peer| peer.address == from);
            let peer = match known {
                Some(peer) => peer,
                None if self.peers.len() == PEERS_MAX => {
                    self.of_further_peers += 1;
                    continue;
                }
                None => {
                    let any: IpAddr = match self.to {
                        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                    };
                    let far = open((any, 0).into())?;
                    far.connect(self.to)?;
                    self.peers.push(Peer { address: from, far });
                    self.peers.len() - 1
                }
            };
            let now = self.now();
            self.there.send(now, peer, &buffer[..length]);
        }
        Ok(())
    }

    fn read_far(&mut self, peer: usize, buffer: &mut [u8]) -> io::Result<()> {
        for _ in 0..READ_BATCH {
            let read = self.peers[peer].far.recv(buffer).map(|length| (length, self.to));
            let Some((length, _)) = received(read)? else {
                return Ok(());
            };
            let now = self.now();
            self.back.send(now, peer, &buffer[..length]);
        }
        Ok(())
    }

    /// Forwards the datagrams that have arrived.
    fn write_arrived(&mut self) -> io::Result<()> {
        let now = self.now();
        while let Some((peer, bytes)) = self.there.arrive(now) {
            self.not_taken += u64::from(!taken(self.peers[peer].far.send(&bytes))?);
        }
        while let Some((peer, bytes)) = self.back.arrive(now) {
            let sent = self.near.send_to(&bytes, self.peers[peer].address);
            self.not_taken += u64::from(!taken(sent)?);
        }
        Ok(())
    }
}

fn open(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    // The kernel may limit the size.
    let _ = set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_LEN);
    let _ = set_socket_send_buffer_size(&socket, SOCKET_BUFFER_LEN);
    Ok(socket)
}

/// Returns the received datagram, if any; a refused connection at the far end does not end the link.
fn received(read: io::Result<(usize, SocketAddr)>) -> io::Result<Option<(usize, SocketAddr)>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if is_of_peer(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn taken(sent: io::Result<usize>) -> io::Result<bool> {
    match sent {
        Ok(_) => Ok(true),
        Err(error) if is_of_peer(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_of_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock
            | ErrorKind::ConnectionRefused
            | ErrorKind::Interrupted
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
    ) || error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::Arc;

    use super::*;

    #[test]
    fn datagrams_are_relayed_to_the_far_end_and_back_to_their_sender() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let link = SimulatedLinkOptions {
            delay: Duration::from_millis(1),
            ..SimulatedLinkOptions::default()
        };
        let options = LinkRelayOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            to: far.local_addr().unwrap(),
            there: link,
            back: SimulatedLinkOptions { duplication: 1.0, ..link },
        };
        let mut relay = LinkRelay::bind(&options).unwrap();
        let near = relay.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let running = std::thread::spawn(move || relay.run(&stopped));
        let open = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(near).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            socket
        };
        far.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let peers = [open(), open()];
        let mut buffer = [0; 100];
        for (peer, text) in peers.iter().zip(["one", "other"]) {
            peer.send(text.as_bytes()).unwrap();
            let (length, from) = far.recv_from(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], text.as_bytes());
            far.send_to(&buffer[..length], from).unwrap();
        }
        for (peer, text) in peers.iter().zip(["one", "other"]) {
            for _ in 0..2 {
                let length = peer.recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..length], text.as_bytes());
            }
        }
        stop.store(true, Ordering::Relaxed);
        let report = running.join().unwrap().unwrap();
        assert_eq!((report.there.sent, report.there.arrived), (2, 2));
        assert_eq!((report.back.sent, report.back.arrived, report.back.duplicated), (2, 4, 2));
        assert_eq!((report.of_further_peers, report.not_taken), (0, 0));
    }
}
