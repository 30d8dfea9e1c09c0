//! Which worker has the face of which UDP peer.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ndn_table::FaceIndex;

/// A peer, and the local address that it has its face on.
type Key = (SocketAddr, SocketAddr);

/// The UDP peers of all workers. Only asked for peers that a worker does not know.
#[derive(Debug, Default)]
pub(crate) struct PeerRegistry(Mutex<Peers>);

#[derive(Debug, Default)]
struct Peers {
    faces: HashMap<Key, (FaceIndex, u64)>,
    keys: HashMap<FaceIndex, Key>,
}

impl PeerRegistry {
    /// Enters the face of a peer.
    ///
    /// # Errors
    /// The face that it has already, with its FaceId.
    pub(crate) fn claim(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
        face: FaceIndex,
        face_id: u64,
    ) -> Result<(), (FaceIndex, u64)> {
        let mut peers = self.lock();
        let key = (local, peer);
        if let Some(&existing) = peers.faces.get(&key) {
            return Err(existing);
        }
        peers.faces.insert(key, (face, face_id));
        peers.keys.insert(face, key);
        Ok(())
    }

    /// The face of a peer, with its FaceId.
    pub(crate) fn find(&self, local: SocketAddr, peer: SocketAddr) -> Option<(FaceIndex, u64)> {
        self.lock().faces.get(&(local, peer)).copied()
    }

    /// Forgets a face that is gone.
    pub(crate) fn release(&self, face: FaceIndex) {
        let mut peers = self.lock();
        if let Some(key) = peers.keys.remove(&face) {
            peers.faces.remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Peers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_one_face_for_each_local_address() {
        let registry = PeerRegistry::default();
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let (first, second) = (FaceIndex::new(1, 0), FaceIndex::new(2, 0));
        assert_eq!(registry.claim(address(1), address(9), first, 300), Ok(()));
        assert_eq!(registry.claim(address(1), address(9), second, 301), Err((first, 300)));
        assert_eq!(registry.claim(address(2), address(9), second, 301), Ok(()));
        registry.release(first);
        registry.release(first);
        assert_eq!(registry.find(address(1), address(9)), None);
        assert_eq!(registry.find(address(2), address(9)), Some((second, 301)));
    }
}
