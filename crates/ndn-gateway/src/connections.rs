//! Shares of client addresses in the connections.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ndn_types::{PrincipalIndex, PrincipalKey};
use tokio::sync::Notify;

use crate::shares::Shares;

/// The connections of all clients.
///
/// If there is no room, an address below its share takes the place of a connection of the address with the most: the
/// oldest one without a request, or the latest.
#[derive(Debug)]
pub struct Connections(Mutex<State>);

#[derive(Debug)]
struct State {
    shares: Shares,
    /// Of each address, its connections, the oldest first.
    open: HashMap<PrincipalIndex, VecDeque<Open>>,
    next_id: u64,
}

#[derive(Debug)]
struct Open {
    id: u64,
    requests: Arc<AtomicUsize>,
    end: Arc<Notify>,
}

/// The right to one connection.
#[derive(Debug)]
pub struct Connection {
    connections: Arc<Connections>,
    address: PrincipalIndex,
    id: u64,
    requests: Arc<AtomicUsize>,
    end: Arc<Notify>,
}

/// A request of a connection, until its answer is sent.
#[derive(Debug)]
pub struct Busy(Arc<AtomicUsize>);

impl Connections {
    /// Room for this number of connections.
    #[must_use]
    pub fn new(connections_max: usize) -> Arc<Self> {
        let shares = Shares::new(connections_max);
        Arc::new(Self(Mutex::new(State { shares, open: HashMap::new(), next_id: 0 })))
    }

    /// Counts a connection of a client; `None` if there is no room and the client has its share.
    pub fn admit(self: &Arc<Self>, client: PrincipalKey) -> Option<Connection> {
        let mut state = self.lock();
        let address = state.shares.enter(client);
        if state.shares.has_room(address) {
            state.shares.take(address);
        } else {
            let Some(payer) = state.shares.payer_for(address) else {
                state.shares.leave(address);
                return None;
            };
            if !state.shares.take_from(payer, address) {
                state.end_one(payer);
            }
        }
        Some(self.open(&mut state, address))
    }

    /// Counts a connection of a client that has its share, in place of its oldest one without a request; `None` if all have
    /// requests.
    pub fn admit_in_place_of_own(self: &Arc<Self>, client: PrincipalKey) -> Option<Connection> {
        let mut state = self.lock();
        let address = state.shares.enter(client);
        if !state.end_idle(address) {
            state.shares.leave(address);
            return None;
        }
        Some(self.open(&mut state, address))
    }

    /// Adds a connection of an address, which has taken a place.
    fn open(self: &Arc<Self>, state: &mut State, address: PrincipalIndex) -> Connection {
        state.next_id += 1;
        let (id, requests, end) = (state.next_id, Arc::default(), Arc::new(Notify::new()));
        let open = Open { id, requests: Arc::clone(&requests), end: Arc::clone(&end) };
        state.open.entry(address).or_default().push_back(open);
        Connection { connections: Arc::clone(self), address, id, requests, end }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Ends a connection of an address that has some. It does not count from now on.
    fn end_one(&mut self, address: PrincipalIndex) {
        if !self.end_idle(address)
            && let Some(latest) = self.open.get_mut(&address).and_then(VecDeque::pop_back)
        {
            latest.end.notify_one();
        }
    }

    /// Ends the oldest connection of an address without a request, if there is one. It does not count from now on.
    fn end_idle(&mut self, address: PrincipalIndex) -> bool {
        let Some(open) = self.open.get_mut(&address) else { return false };
        let idle = open.iter().position(|one| one.requests.load(Ordering::Relaxed) == 0);
        let ended = idle.and_then(|at| open.remove(at));
        if let Some(ended) = &ended {
            ended.end.notify_one();
        }
        ended.is_some()
    }
}

impl Connection {
    /// Notified when the connection has to end because an address with fewer needs its place.
    #[must_use]
    pub fn end(&self) -> &Arc<Notify> {
        &self.end
    }

    /// Notes that a request has begun.
    #[must_use]
    pub fn begin_request(&self) -> Busy {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(&self.requests))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.connections.lock();
        let open = state.open.entry(self.address).or_default();
        let at = open.iter().position(|one| one.id == self.id);
        if at.and_then(|at| open.remove(at)).is_some() {
            state.shares.give_back(self.address);
        }
        if state.open.get(&self.address).is_some_and(VecDeque::is_empty) {
            state.open.remove(&self.address);
        }
        state.shares.leave(self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::KEPT;

    fn peer(last: u8) -> PrincipalKey {
        PrincipalKey::remote(([192, 0, 2, last], 4000).into())
    }

    fn is_ended(connection: &Connection) -> bool {
        let state = connection.connections.lock();
        let open = state.open.get(&connection.address);
        !open.is_some_and(|open| open.iter().any(|one| one.id == connection.id))
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_of_the_largest_address_give_way() {
        let connections = Connections::new(6);
        let held: Vec<_> = (0..6).map(|_| connections.admit(peer(1)).unwrap()).collect();
        assert!(connections.admit(peer(1)).is_none(), "it has all of them");
        let _busy = [0, 1, 3].map(|at| held[at].begin_request());
        let others: Vec<_> = (0..3).map(|_| connections.admit(peer(2)).unwrap()).collect();
        let ended: Vec<_> = held.iter().map(is_ended).collect();
        assert_eq!(ended, [false, false, true, false, true, true]);
        assert!(connections.admit(peer(2)).is_none(), "both have their shares");
        assert!(connections.admit(peer(3)).is_some());
        drop((held, others));
        tokio::time::sleep(KEPT).await;
        let mut state = connections.lock();
        assert!(state.shares.is_unused() && state.open.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn reconnecting_address_ends_one_connection_of_another_only() {
        let connections = Connections::new(6);
        let held: Vec<_> = (0..6).map(|_| connections.admit(peer(1)).unwrap()).collect();
        let _busy: Vec<_> = held.iter().map(Connection::begin_request).collect();
        for _ in 0..100 {
            drop(connections.admit(peer(2)).unwrap());
        }
        let ended: Vec<_> = held.iter().map(is_ended).collect();
        assert_eq!(ended, [false, false, false, false, false, true], "the latest");
        tokio::time::sleep(KEPT).await;
        assert!(connections.admit(peer(1)).is_some(), "it is kept no longer");
    }

    #[tokio::test(start_paused = true)]
    async fn address_replaces_its_own_idle_connection() {
        let connections = Connections::new(3);
        let held: Vec<_> = (0..3).map(|_| connections.admit(peer(1)).unwrap()).collect();
        let busy = held[0].begin_request();
        assert!(connections.admit(peer(1)).is_none());
        let next = connections.admit_in_place_of_own(peer(1)).unwrap();
        assert_eq!(held.iter().map(is_ended).collect::<Vec<_>>(), [false, true, false]);
        let _all = [held[2].begin_request(), next.begin_request()];
        assert!(connections.admit_in_place_of_own(peer(1)).is_none(), "all have requests");
        assert!(connections.admit_in_place_of_own(peer(2)).is_none(), "it has none");
        drop((busy, held, next));
        let mut state = connections.lock();
        assert!(state.shares.is_unused() && state.open.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn every_address_gets_a_connection_while_another_has_several() {
        let connections = Connections::new(16);
        let mut held: Vec<_> =
            (1..=4).flat_map(|last| [last; 4]).map(|last| connections.admit(peer(last))).collect();
        held.extend((5..=16).map(|last| connections.admit(peer(last))));
        assert!(held.iter().all(Option::is_some));
        assert!(connections.admit(peer(17)).is_none(), "sixteen addresses have one each");
    }
}
