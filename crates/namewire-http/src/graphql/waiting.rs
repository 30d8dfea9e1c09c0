//! WebSocket connections that have not shown a valid token yet.
//!
//! Their number is limited. A further one takes the place of one of the address that holds the most places, of those the
//! one that has waited longest: connections that never show a token keep out only others of their own address.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Maximum number of connections that wait.
const WAITING_MAX: usize = 64;

/// The connections that wait, the oldest first.
type Places = VecDeque<(IpAddr, Arc<Notify>)>;

/// The places of connections that wait.
#[derive(Debug, Clone, Default)]
pub(crate) struct WaitingConnections(Arc<Mutex<Places>>);

impl WaitingConnections {
    /// A place for a connection from this address. If there is none left, another one has to end.
    pub(super) fn enter(&self, peer: IpAddr) -> WaitingPlace {
        let peer = peer.to_canonical();
        let displaced = Arc::<Notify>::default();
        let mut waiting = self.lock();
        waiting.push_back((peer, Arc::clone(&displaced)));
        if waiting.len() > WAITING_MAX
            && let Some(at) = displaced_place(&waiting)
            && let Some((_, other)) = waiting.remove(at)
        {
            other.notify_one();
        }
        WaitingPlace { waiting: self.clone(), displaced }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The oldest connection of the address that has the most.
fn displaced_place(waiting: &Places) -> Option<usize> {
    let mut counts = BTreeMap::<IpAddr, usize>::new();
    for (peer, _) in waiting {
        *counts.entry(*peer).or_default() += 1;
    }
    let (most, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    waiting.iter().position(|(peer, _)| *peer == most)
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct WaitingPlace {
    waiting: WaitingConnections,
    displaced: Arc<Notify>,
}

impl WaitingPlace {
    /// Notified when another connection takes the place.
    pub(super) fn displaced(&self) -> Arc<Notify> {
        Arc::clone(&self.displaced)
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        self.waiting.lock().retain(|(_, other)| !Arc::ptr_eq(other, &self.displaced));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[tokio::test]
    async fn oldest_connection_gives_way_when_there_is_no_place() {
        let waiting = WaitingConnections::default();
        let mut places: Vec<_> = (0..WAITING_MAX).map(|_| waiting.enter(address(1))).collect();
        let _further = waiting.enter(address(1));
        places[0].displaced().notified().await;
        assert_eq!(waiting.lock().len(), WAITING_MAX);
        // One that has shown its token leaves its place, and nobody has to give way.
        drop(places.remove(1));
        let _another = waiting.enter(address(1));
        assert_eq!(waiting.lock().len(), WAITING_MAX);
        let second = places[1].displaced();
        assert!(waiting.lock().iter().any(|(_, other)| Arc::ptr_eq(other, &second)));
    }

    #[tokio::test]
    async fn address_with_many_connections_leaves_room_for_others() {
        let waiting = WaitingConnections::default();
        let other = waiting.enter(address(2));
        let flood: Vec<_> = (0..3 * WAITING_MAX).map(|_| waiting.enter(address(1))).collect();
        let late = waiting.enter(address(3));
        assert_eq!(waiting.lock().len(), WAITING_MAX);
        for place in [&other, &late, &flood[flood.len() - 1]] {
            let displaced = place.displaced();
            assert!(waiting.lock().iter().any(|(_, one)| Arc::ptr_eq(one, &displaced)));
        }
        flood[0].displaced().notified().await;
    }
}
