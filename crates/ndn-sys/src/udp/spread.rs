//! Distribution of the datagrams of different peers over sockets of one address.
//!
//! By itself the kernel spreads them over all sockets that share an address, connected ones included,
//! and passes what those do not take on to the next in its list. With sockets of neighbours beside
//! those that listen, the listeners get unequal parts. A filter that chooses among the listeners
//! alone, by the address and port of the sender, does not know the others.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use crate::udp::socket::UdpSocket;

/// Of `linux/filter.h`: offsets from the network header, when added to an absolute load.
const NETWORK_HEADER: u32 = 0xFFF0_0000;
/// Where an IPv4 header has the address of the sender, and UDP behind one without options its port.
const IPV4_SOURCE: u32 = NETWORK_HEADER + 12;
const IPV4_SOURCE_PORT: u32 = NETWORK_HEADER + 20;
/// The same for IPv6 without extension headers.
const IPV6_SOURCE: u32 = NETWORK_HEADER + 8;
const IPV6_SOURCE_PORT: u32 = NETWORK_HEADER + 40;

/// Instructions of the larger filter.
const LENGTH_MAX: usize = 32;

/// Spreads datagrams over sockets of one address by a keyed hash of the sender's address and port.
///
/// The hash is what a filter of the kernel can compute with few instructions. Its key keeps peers from
/// choosing their socket, unless they can watch where their datagrams go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSpread {
    /// Odd factors.
    factors: [u32; 2],
    /// Sockets, at least 1.
    sockets: u32,
}

impl PeerSpread {
    /// A spread over this number of sockets (1 to 65,535).
    #[must_use]
    pub fn new(key: u64, sockets: usize) -> Self {
        let halves = [key >> 32, key & u64::from(u32::MAX)];
        let factors = halves.map(|half| u32::try_from(half).unwrap_or(0) | 1);
        Self { factors, sockets: u32::from(u16::try_from(sockets).unwrap_or(u16::MAX).max(1)) }
    }

    /// The index of the socket for datagrams of `peer`, as the filter computes it.
    #[must_use]
    pub fn socket_of(&self, peer: SocketAddr) -> usize {
        let [first, second] = self.factors;
        let words: &[u32] = &match peer.ip() {
            IpAddr::V4(address) => vec![address.to_bits()],
            IpAddr::V6(address) => address
                .octets()
                .as_chunks()
                .0
                .iter()
                .map(|word| u32::from_be_bytes(*word))
                .collect(),
        };
        let mut hash = u32::from(peer.port());
        for word in words {
            hash = hash.wrapping_mul(first) ^ word;
        }
        hash = hash.wrapping_mul(second);
        hash = (hash ^ (hash >> 15)).wrapping_mul(first);
        hash ^= hash >> 13;
        (hash % self.sockets) as usize
    }

    /// Makes the kernel distribute the packets to the address of these sockets in this way. They are the first
    /// that were bound to the address to be shared, in this order.
    ///
    /// # Errors
    /// Those of `setsockopt(2)`: the kernel then spreads as it does by itself.
    pub fn attach(&self, sockets: &[UdpSocket]) -> io::Result<()> {
        let socket = sockets.first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut filter = self.filter(socket.local_address()?.is_ipv6());
        let program = libc::sock_fprog {
            len: u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
            filter: filter.as_mut_ptr(),
        };
        let length = libc::socklen_t::try_from(size_of::<libc::sock_fprog>()).unwrap_or(0);
        // SAFETY: the program is a live structure of the given length; its pointer and count are those of
        // `filter`, which lives until the call returns. The kernel copies and checks the instructions.
        let result = unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_REUSEPORT_CBPF,
                std::ptr::from_ref(&program).cast(),
                length,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// [`socket_of`](Self::socket_of) in the kernel's language. X holds the hash between words.
    fn filter(&self, is_ipv6: bool) -> Vec<libc::sock_filter> {
        let [first, second] = self.factors;
        let (port, words) = match is_ipv6 {
            true => (IPV6_SOURCE_PORT, (0..4).map(|word| IPV6_SOURCE + 4 * word).collect()),
            false => (IPV4_SOURCE_PORT, vec![IPV4_SOURCE]),
        };
        let mut filter = Vec::with_capacity(LENGTH_MAX);
        let mut add = |code: u32, k: u32| filter.push(instruction(code, k));
        add(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, port);
        for word in words {
            add(libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, first);
            add(libc::BPF_MISC | libc::BPF_TAX, 0);
            add(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, word);
            add(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0);
        }
        add(libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, second);
        for (shift, factor) in [(15, Some(first)), (13, None)] {
            add(libc::BPF_MISC | libc::BPF_TAX, 0);
            add(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, shift);
            add(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0);
            if let Some(factor) = factor {
                add(libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, factor);
            }
        }
        add(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, self.sockets);
        add(libc::BPF_RET | libc::BPF_A, 0);
        filter
    }
}

fn instruction(code: u32, k: u32) -> libc::sock_filter {
    // All codes fit.
    libc::sock_filter { code: u16::try_from(code).unwrap_or(u16::MAX), jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "tests")]
    use super::*;

    /// Peers behind one address, and many with the same port.
    #[test]
    fn peers_are_spread_evenly() {
        for sockets in [2, 3, 8] {
            for key in [0, 1, 0x0123_4567_89AB_CDEF, u64::MAX, 0x9E37_79B9_85EB_CA6B] {
                let spread = PeerSpread::new(key, sockets);
                let ports = (20_000..24_000).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
                let hosts = (0..4000_u32).map(|host| {
                    SocketAddr::from((std::net::Ipv4Addr::from_bits(0x0A00_0000 + host), 6363))
                });
                let hosts6 = (0..4000_u16)
                    .map(|host| SocketAddr::from(([0x2001, 0xDB8, 0, 0, 0, 0, 0, host], 6363)));
                let groups: [Vec<SocketAddr>; 3] =
                    [ports.collect(), hosts.collect(), hosts6.collect()];
                // Keys without bits spread less evenly, and need not.
                for group in groups.iter().filter(|_| key.count_ones() > 8) {
                    let mut counts = vec![0_u32; sockets];
                    group.iter().for_each(|peer| counts[spread.socket_of(*peer)] += 1);
                    let most = *counts.iter().max().unwrap();
                    let over_mean = f64::from(most) * sockets as f64 / group.len() as f64;
                    assert!(over_mean < 1.15, "{over_mean} of {sockets}: {counts:?}, {key:x}");
                }
            }
        }
    }

    /// Short enough for the kernel and for the reserved memory.
    #[test]
    fn reuseport_filter_has_few_instructions() {
        let kernel_max = usize::try_from(libc::BPF_MAXINSNS).unwrap();
        for is_ipv6 in [false, true] {
            let length = PeerSpread::new(7, 3).filter(is_ipv6).len();
            assert!(length <= LENGTH_MAX.min(kernel_max), "{length} instructions");
        }
    }
}
