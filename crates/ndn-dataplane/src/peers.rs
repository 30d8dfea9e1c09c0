//! Which worker has the face of whom, where the sockets and queues of several workers hear the same.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ndn_face::PortId;
use ndn_table::FaceIndex;

/// Who has a face on something that several workers hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Party {
    /// The local address that the face is on, and a UDP peer.
    Peer(SocketAddr, SocketAddr),
    /// The network device that the face is on, and a station; none is the group of the device.
    Station(PortId, Option<[u8; 6]>),
}

impl Party {
    /// Whoever has this address, which may be that of a group.
    pub(crate) fn station(port: PortId, mac: [u8; 6]) -> Self {
        Self::Station(port, (mac[0] & 1 == 0).then_some(mac))
    }
}

/// The UDP peers and stations of all workers. Only asked for those that a worker does not know.
#[derive(Debug, Default)]
pub(crate) struct PeerRegistry(Mutex<Peers>);

#[derive(Debug, Default)]
struct Peers {
    faces: HashMap<Party, (FaceIndex, u64)>,
    keys: HashMap<FaceIndex, Party>,
}

impl PeerRegistry {
    /// Enters a face.
    ///
    /// # Errors
    /// The face that there is already, with its FaceId.
    pub(crate) fn claim(
        &self,
        party: Party,
        face: FaceIndex,
        face_id: u64,
    ) -> Result<(), (FaceIndex, u64)> {
        let mut peers = self.lock();
        if let Some(&existing) = peers.faces.get(&party) {
            return Err(existing);
        }
        peers.faces.insert(party, (face, face_id));
        peers.keys.insert(face, party);
        Ok(())
    }

    /// A face, with its FaceId.
    pub(crate) fn find(&self, party: Party) -> Option<(FaceIndex, u64)> {
        self.lock().faces.get(&party).copied()
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
        let peer = |local| Party::Peer(address(local), address(9));
        let (first, second) = (FaceIndex::new(1, 0), FaceIndex::new(2, 0));
        assert_eq!(registry.claim(peer(1), first, 300), Ok(()));
        assert_eq!(registry.claim(peer(1), second, 301), Err((first, 300)));
        assert_eq!(registry.claim(peer(2), second, 301), Ok(()));
        registry.release(first);
        registry.release(first);
        assert_eq!(registry.find(peer(1)), None);
        assert_eq!(registry.find(peer(2)), Some((second, 301)));
    }

    #[test]
    fn a_device_has_a_face_for_each_station_and_one_for_its_group() {
        let registry = PeerRegistry::default();
        let station = |port, last| Party::station(PortId(port), [2, 0, 0, 0, 0, last]);
        let group = |last| Party::station(PortId(1), [1, 0, 0x5e, 0, 0x17, last]);
        let face = |slot| FaceIndex::new(slot, 0);
        assert_eq!(registry.claim(station(1, 7), face(1), 301), Ok(()));
        assert_eq!(registry.claim(station(2, 7), face(2), 302), Ok(()));
        assert_eq!(registry.claim(station(1, 8), face(3), 303), Ok(()));
        assert_eq!(registry.claim(group(0xaa), face(4), 304), Ok(()));
        assert_eq!(registry.claim(group(0xab), face(5), 305), Err((face(4), 304)));
        assert_eq!(registry.find(Party::Station(PortId(1), None)), Some((face(4), 304)));
        registry.release(face(4));
        assert_eq!(registry.claim(group(0xab), face(5), 305), Ok(()));
    }
}
