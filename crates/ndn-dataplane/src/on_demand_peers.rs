//! On-demand faces, limited by peer.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// The address that counts as one peer: an IPv4 address, or the /64 prefix of an IPv6 address.
#[must_use]
pub fn peer_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// On-demand faces, counted by peer.
#[derive(Debug)]
pub struct OnDemandPeers<Face> {
    per_peer_max: usize,
    by_peer: HashMap<IpAddr, usize>,
    peers: HashMap<Face, IpAddr>,
}

impl<Face: Eq + std::hash::Hash> OnDemandPeers<Face> {
    /// No faces yet; each peer may have `per_peer_max`.
    #[must_use]
    pub fn new(per_peer_max: usize) -> Self {
        Self { per_peer_max, by_peer: HashMap::new(), peers: HashMap::new() }
    }

    /// Whether the peer at this address may have one more face.
    #[must_use]
    pub fn has_room(&self, address: IpAddr) -> bool {
        self.by_peer.get(&peer_key(address)).is_none_or(|count| *count < self.per_peer_max)
    }

    /// Counts a face for the peer at this address.
    pub fn add(&mut self, face: Face, address: IpAddr) {
        let peer = peer_key(address);
        if self.peers.insert(face, peer).is_none() {
            *self.by_peer.entry(peer).or_default() += 1;
        }
    }

    /// Stops counting a face, which has closed or is no longer on-demand. Other faces have no effect.
    pub fn remove(&mut self, face: &Face) {
        let Some(peer) = self.peers.remove(face) else { return };
        if let Some(count) = self.by_peer.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.by_peer.remove(&peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_has_its_own_limit() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut peers = OnDemandPeers::new(2);
        for (face, from) in [(1, "192.0.2.1"), (2, "::ffff:192.0.2.1"), (3, "192.0.2.2")] {
            assert!(peers.has_room(address(from)), "{from}");
            peers.add(face, address(from));
        }
        assert!(!peers.has_room(address("192.0.2.1")));
        assert!(peers.has_room(address("192.0.2.2")));
        peers.remove(&9);
        peers.remove(&1);
        peers.remove(&1);
        assert!(peers.has_room(address("192.0.2.1")));
        peers.add(4, address("2001:db8::1"));
        peers.add(5, address("2001:db8::ffff:2"));
        assert!(!peers.has_room(address("2001:db8::3")), "the same link");
        assert!(peers.has_room(address("2001:db8:0:1::3")));
        for face in 2..=5 {
            peers.remove(&face);
        }
        assert!(peers.by_peer.is_empty() && peers.peers.is_empty());
    }
}
