//! Shares of client addresses in connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The connections of all addresses.
#[derive(Debug)]
pub(crate) struct Peers {
    connections_each: usize,
    peers: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
}

impl Peers {
    pub(crate) fn new(connections_each: usize) -> Self {
        let connections_each = connections_each.clamp(1, Semaphore::MAX_PERMITS);
        Self { connections_each, peers: Mutex::default() }
    }

    /// Counts a connection of `address`; `None` if its share is used up.
    pub(crate) fn admit(&self, address: SocketAddr) -> Option<OwnedSemaphorePermit> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|_, peer| peer.strong_count() > 0);
        let key = key_of(address.ip());
        let peer = peers.get(&key).and_then(Weak::upgrade).unwrap_or_else(|| {
            let connections = Arc::new(Semaphore::new(self.connections_each));
            peers.insert(key, Arc::downgrade(&connections));
            connections
        });
        peer.try_acquire_owned().ok()
    }
}

/// A host has a whole IPv6 /64 network; an IPv4-mapped address is the IPv4 address.
pub(crate) fn key_of(address: IpAddr) -> IpAddr {
    let address = address.to_canonical();
    if let IpAddr::V6(address) = address
        && !address.is_loopback()
    {
        let network = u128::from(address) & !u128::from(u64::MAX);
        return IpAddr::V6(Ipv6Addr::from(network));
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 4000)
    }

    #[test]
    fn shares_are_per_address() {
        let peers = Peers::new(2);
        let one = peers.admit(address("192.0.2.1")).unwrap();
        let _mapped = peers.admit(address("::ffff:192.0.2.1")).unwrap();
        assert!(peers.admit(address("192.0.2.1")).is_none());
        assert!(peers.admit(address("192.0.2.2")).is_some());
        drop(one);
        assert!(peers.admit(address("192.0.2.1")).is_some());
        let _six = peers.admit(address("2001:db8::1")).unwrap();
        let _same = peers.admit(address("2001:db8::2:1")).unwrap();
        assert!(peers.admit(address("2001:db8::3")).is_none());
        assert!(peers.admit(address("2001:db8:0:1::3")).is_some());
    }

    #[test]
    fn disconnected_addresses_are_removed() {
        let peers = Peers::new(2);
        for last in 0..200_u8 {
            drop(peers.admit(SocketAddr::from(([192, 0, 2, last], 1))));
        }
        assert!(peers.peers.lock().unwrap().len() <= 1);
    }
}
