//! One face per peer across workers, whose sockets and queues receive from the same peers.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ndn_face::{ON_DEMAND_STATIONS_MAX, PeerKey, PortId};
use ndn_table::FaceIndex;

/// The faces of UDP peers and stations of all workers. A worker looks up only peers without a face of its own.
#[derive(Debug, Default)]
pub(crate) struct PeerRegistry(Mutex<PeerFaces>);

#[derive(Debug, Default)]
struct PeerFaces {
    faces: HashMap<PeerKey, (FaceIndex, u64)>,
    keys: HashMap<FaceIndex, PeerKey>,
    /// Number of stations with faces, by device.
    stations: HashMap<PortId, usize>,
}

/// Why a face was not entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimError {
    /// The peer has this face already, with this FaceId.
    Exists(FaceIndex, u64),
    /// The device has its maximum of on-demand faces.
    NoRoom,
}

impl PeerRegistry {
    /// Enters a face.
    ///
    /// # Errors
    /// The face that the peer has already, with its FaceId.
    pub(crate) fn claim(
        &self,
        peer: PeerKey,
        face: FaceIndex,
        face_id: u64,
    ) -> Result<(), (FaceIndex, u64)> {
        self.lock().enter(peer, face, face_id)
    }

    /// Enters an on-demand face.
    ///
    /// # Errors
    /// See [`ClaimError`].
    pub(crate) fn claim_on_demand(
        &self,
        peer: PeerKey,
        face: FaceIndex,
        face_id: u64,
    ) -> Result<(), ClaimError> {
        let mut peers = self.lock();
        if let Some(&(other, face_id)) = peers.faces.get(&peer) {
            return Err(ClaimError::Exists(other, face_id));
        }
        if let Some(port) = peer.device()
            && peers.stations.get(&port).is_some_and(|&count| count >= ON_DEMAND_STATIONS_MAX)
        {
            return Err(ClaimError::NoRoom);
        }
        let entered = peers.enter(peer, face, face_id);
        entered.map_err(|(other, face_id)| ClaimError::Exists(other, face_id))
    }

    /// The face of a peer, with its FaceId.
    pub(crate) fn find(&self, peer: PeerKey) -> Option<(FaceIndex, u64)> {
        self.lock().faces.get(&peer).copied()
    }

    /// As [`find`](Self::find), but finds nothing instead of waiting while another worker uses the registry.
    pub(crate) fn try_find(&self, peer: PeerKey) -> Option<(FaceIndex, u64)> {
        self.0.try_lock().ok()?.faces.get(&peer).copied()
    }

    /// Removes a face that has closed.
    pub(crate) fn release(&self, face: FaceIndex) {
        let mut peers = self.lock();
        if let Some(key) = peers.keys.remove(&face) {
            peers.faces.remove(&key);
            if let Some(port) = key.device()
                && let Some(count) = peers.stations.get_mut(&port)
            {
                *count -= 1;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PeerFaces> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PeerFaces {
    fn enter(
        &mut self,
        peer: PeerKey,
        face: FaceIndex,
        face_id: u64,
    ) -> Result<(), (FaceIndex, u64)> {
        if let Some(&existing) = self.faces.get(&peer) {
            return Err(existing);
        }
        self.faces.insert(peer, (face, face_id));
        self.keys.insert(face, peer);
        if let Some(port) = peer.device() {
            *self.stations.entry(port).or_default() += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use ndn_face::{NewStation, StationPeer, UdpPeer};
    use std::net::SocketAddr;

    use super::*;

    fn station(port: u32, mac: [u8; 6]) -> PeerKey {
        PeerKey::Ethernet(NewStation { port: PortId(port), mac }.peer())
    }

    #[test]
    fn peer_has_one_face_per_local_address() {
        let registry = PeerRegistry::default();
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let peer = |local| PeerKey::Datagram(UdpPeer { local: address(local), remote: address(9) });
        let (first, second) = (FaceIndex::new(1, 0), FaceIndex::new(2, 0));
        assert_eq!(registry.claim(peer(1), first, 300), Ok(()));
        assert_eq!(registry.claim(peer(1), second, 301), Err((first, 300)));
        assert_eq!(registry.claim(peer(2), second, 301), Ok(()));
        registry.release(first);
        registry.release(first);
        assert_eq!(registry.find(peer(1)), None);
        assert_eq!(registry.find(peer(2)), Some((second, 301)));
        assert_eq!(registry.try_find(peer(2)), Some((second, 301)));
        let other_worker = registry.lock();
        assert_eq!(registry.try_find(peer(2)), None, "it does not wait");
        drop(other_worker);
    }

    #[test]
    fn device_has_one_face_per_station_and_one_for_its_group() {
        let registry = PeerRegistry::default();
        let station = |port, last| station(port, [2, 0, 0, 0, 0, last]);
        let group = |last| self::station(1, [1, 0, 0x5e, 0, 0x17, last]);
        let face = |slot| FaceIndex::new(slot, 0);
        assert_eq!(registry.claim(station(1, 7), face(1), 301), Ok(()));
        assert_eq!(registry.claim(station(2, 7), face(2), 302), Ok(()));
        assert_eq!(registry.claim(station(1, 8), face(3), 303), Ok(()));
        assert_eq!(registry.claim(group(0xaa), face(4), 304), Ok(()));
        assert_eq!(registry.claim(group(0xab), face(5), 305), Err((face(4), 304)));
        assert_eq!(
            registry.find(PeerKey::Ethernet(StationPeer { port: PortId(1), mac: None })),
            Some((face(4), 304))
        );
        registry.release(face(4));
        assert_eq!(registry.claim(group(0xab), face(5), 305), Ok(()));
    }

    #[test]
    fn on_demand_faces_are_limited_per_device_across_workers() {
        let registry = PeerRegistry::default();
        let station = |port, number: u32| {
            let [_, _, high, low] = number.to_be_bytes();
            station(port, [2, 0, 0, 0, high, low])
        };
        let max = u32::try_from(ON_DEMAND_STATIONS_MAX).unwrap();
        let face = |slot| FaceIndex::new(slot, 0);
        for number in 0..max {
            let claimed = registry.claim_on_demand(station(1, number), face(number), 300);
            assert_eq!(claimed, Ok(()), "{number}");
        }
        let next = |port| registry.claim_on_demand(station(port, max), face(max), 301);
        assert_eq!(next(1), Err(ClaimError::NoRoom));
        let known = registry.claim_on_demand(station(1, 0), face(max), 301);
        assert_eq!(known, Err(ClaimError::Exists(face(0), 300)));
        // Another device has room, and a face that is asked for has no limit.
        assert_eq!(next(2), Ok(()));
        assert_eq!(registry.claim(station(1, max + 1), face(max + 1), 302), Ok(()));
        registry.release(face(7));
        assert_eq!(registry.claim_on_demand(station(1, 7), face(7), 303), Err(ClaimError::NoRoom));
        registry.release(face(8));
        assert_eq!(registry.claim_on_demand(station(1, 7), face(7), 303), Ok(()));
    }
}
