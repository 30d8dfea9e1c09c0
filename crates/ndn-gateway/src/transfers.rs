//! Shares of client addresses in the transfers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ndn_types::{PrincipalIndex, PrincipalKey};
use tokio::sync::{Notify, oneshot};

use crate::shares::{KEPT, Shares};

/// The transfers of all clients.
///
/// If there is no room, an address below its share takes one from the address with the most: the connection of its
/// latest transfer ends. So the oldest transfers of an address, as many as its share, are not ended, whatever others do.
#[derive(Debug)]
pub(crate) struct Transfers(Mutex<State>);

#[derive(Debug)]
struct State {
    shares: Shares,
    free: usize,
    /// Of each address, its transfers, the oldest first.
    running: HashMap<PrincipalIndex, VecDeque<Running>>,
    /// In the order of arrival.
    waiting: Vec<Waiting>,
    next_id: u64,
}

#[derive(Debug)]
struct Running {
    id: u64,
    /// Ends the connection.
    end: Arc<Notify>,
}

#[derive(Debug)]
struct Waiting {
    address: PrincipalIndex,
    /// A transfer of another address ends for it, and it counts already.
    is_promised: bool,
    end: Arc<Notify>,
    answer: oneshot::Sender<TransferPermit>,
}

/// The right to one transfer.
#[derive(Debug)]
pub(crate) struct TransferPermit {
    transfers: Arc<Transfers>,
    address: PrincipalIndex,
    id: u64,
}

impl Transfers {
    pub(crate) fn new(transfers_max: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            shares: Shares::new(transfers_max),
            free: transfers_max.max(1),
            running: HashMap::new(),
            waiting: Vec::new(),
            next_id: 0,
        })))
    }

    /// Waits for a transfer of a connection of `client`. `end` is notified if the connection has to end because an
    /// address with fewer transfers needs one.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        client: PrincipalKey,
        end: Arc<Notify>,
    ) -> TransferPermit {
        loop {
            let (answer, granted) = oneshot::channel();
            let end = Arc::clone(&end);
            {
                let mut state = self.lock();
                let address = state.shares.enter(client);
                state.waiting.push(Waiting { address, is_promised: false, end, answer });
            }
            self.dispatch();
            if let Ok(permit) = granted.await {
                return permit;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants what is free, and takes away what is due to others.
    fn dispatch(self: &Arc<Self>) {
        let Dispatched { granted, has_taken } = self.lock().dispatch();
        if has_taken {
            let transfers = Arc::clone(self);
            tokio::spawn(async move {
                tokio::time::sleep(KEPT).await;
                // What was kept and is not used is free for others.
                transfers.dispatch();
            });
        }
        for (waiting, id) in granted {
            let permit =
                TransferPermit { transfers: Arc::clone(self), address: waiting.address, id };
            // A client that has gone meanwhile returns it.
            drop(waiting.answer.send(permit));
        }
    }
}

/// Result of one dispatch.
struct Dispatched {
    /// Requests that get a transfer, with its number.
    granted: Vec<(Waiting, u64)>,
    /// A place was taken from another address.
    has_taken: bool,
}

impl State {
    fn dispatch(&mut self) -> Dispatched {
        let (mut granted, mut has_taken) = (Vec::new(), false);
        self.remove_those_that_left();
        loop {
            self.grant(&mut granted);
            // A place that nothing used is free at once.
            let mut is_unused = false;
            for at in 0..self.waiting.len() {
                let Waiting { address, is_promised, .. } = self.waiting[at];
                if !is_promised && let Some(payer) = self.shares.payer_for(address) {
                    if self.shares.take_from(payer, address) {
                        is_unused = true;
                    } else {
                        self.end_one(payer);
                    }
                    self.waiting[at].is_promised = true;
                    has_taken = true;
                }
            }
            if !is_unused {
                return Dispatched { granted, has_taken };
            }
        }
    }

    /// Grants what is free.
    fn grant(&mut self, granted: &mut Vec<(Waiting, u64)>) {
        while self.free > 0
            && let Some(at) = self.next_to_grant()
        {
            let waiting = self.waiting.remove(at);
            self.free -= 1;
            if !waiting.is_promised {
                self.shares.take(waiting.address);
            }
            self.next_id += 1;
            let running = Running { id: self.next_id, end: Arc::clone(&waiting.end) };
            self.running.entry(waiting.address).or_default().push_back(running);
            granted.push((waiting, self.next_id));
        }
    }

    fn remove_those_that_left(&mut self) {
        for gone in self.waiting.extract_if(.., |waiting| waiting.answer.is_closed()) {
            if gone.is_promised {
                self.shares.give_back(gone.address);
            }
            self.shares.leave(gone.address);
        }
    }

    /// The waiting request that gets the next free transfer: one to which it is promised, or one of the address with the fewest.
    fn next_to_grant(&mut self) -> Option<usize> {
        let promised = self.waiting.iter().position(|waiting| waiting.is_promised);
        let Self { waiting, shares, .. } = self;
        let others = || {
            let waiting = waiting.iter().enumerate();
            let with_room = waiting.filter(|(_, one)| shares.has_room(one.address));
            let with_room: Vec<_> = with_room.map(|(at, one)| (at, one.address)).collect();
            let least = with_room.into_iter().min_by_key(|(_, address)| shares.held(*address));
            least.map(|(at, _)| at)
        };
        promised.or_else(others)
    }

    /// Takes back the transfer that was promised last to an address, or, if there is none, ends its latest one.
    fn end_one(&mut self, address: PrincipalIndex) {
        let mut waiting = self.waiting.iter_mut();
        if let Some(promised) = waiting.rfind(|one| one.is_promised && one.address == address) {
            promised.is_promised = false;
        } else if let Some(latest) = self.running.get_mut(&address).and_then(VecDeque::pop_back) {
            latest.end.notify_one();
        }
    }

    fn release(&mut self, address: PrincipalIndex, id: u64) {
        self.free += 1;
        let running = self.running.entry(address).or_default();
        let at = running.iter().position(|one| one.id == id);
        // It does not count any more if it was taken away.
        if at.and_then(|at| running.remove(at)).is_some() {
            self.shares.give_back(address);
        }
        if self.running.get(&address).is_some_and(VecDeque::is_empty) {
            self.running.remove(&address);
        }
        self.shares.leave(address);
    }
}

impl Drop for TransferPermit {
    fn drop(&mut self) {
        self.transfers.lock().release(self.address, self.id);
        self.transfers.dispatch();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn address(last: u8) -> PrincipalKey {
        PrincipalKey::remote(([192, 0, 2, last], 4000).into())
    }

    /// A transfer that ends when its connection has to.
    fn hold(permit: TransferPermit, end: Arc<Notify>) {
        tokio::spawn(async move {
            end.notified().await;
            drop(permit);
        });
    }

    async fn start(transfers: &Arc<Transfers>, last: u8) -> bool {
        let end = Arc::new(Notify::new());
        let acquired = transfers.acquire(address(last), Arc::clone(&end));
        match tokio::time::timeout(Duration::from_secs(30), acquired).await {
            Ok(permit) => {
                hold(permit, end);
                true
            }
            Err(_) => false,
        }
    }

    fn counts(transfers: &Transfers) -> Vec<usize> {
        let state = transfers.lock();
        let mut counts: Vec<_> = state.running.values().map(VecDeque::len).collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        counts
    }

    #[tokio::test(start_paused = true)]
    async fn address_has_all_of_them_while_it_is_alone() {
        let transfers = Transfers::new(8);
        for _ in 0..8 {
            assert!(start(&transfers, 1).await);
        }
        assert!(!start(&transfers, 1).await);
        assert_eq!((counts(&transfers), transfers.lock().free), (vec![8], 0));
        assert!(
            transfers.lock().waiting.is_empty() || transfers.lock().waiting[0].answer.is_closed()
        );
    }

    /// A transfer that is granted without waiting for anything, and does not end when its connection has to.
    async fn at_once(transfers: &Arc<Transfers>, last: u8) -> Option<TransferPermit> {
        let acquired = transfers.acquire(address(last), Arc::new(Notify::new()));
        tokio::time::timeout(Duration::from_secs(1), acquired).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn kept_place_that_nothing_uses_is_granted_at_once() {
        let transfers = Transfers::new(8);
        let of_first = at_once(&transfers, 1).await.unwrap();
        for _ in 0..7 {
            assert!(start(&transfers, 1).await);
        }
        let mut of_second = Vec::new();
        for _ in 0..4 {
            of_second.push(at_once(&transfers, 2).await.unwrap());
        }
        drop((of_first, of_second));
        let mut of_third = Vec::new();
        for _ in 0..2 {
            of_third.push(at_once(&transfers, 3).await.unwrap());
        }
        assert_eq!(counts(&transfers), [3, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn unused_places_are_given_up_before_transfers_end() {
        let transfers = Transfers::new(8);
        for _ in 0..8 {
            assert!(start(&transfers, 1).await);
        }
        let mut of_second = Vec::new();
        for _ in 0..3 {
            of_second.push(at_once(&transfers, 2).await.unwrap());
        }
        drop(of_second);
        let of_third = at_once(&transfers, 3).await;
        assert!(of_third.is_some());
        assert_eq!(counts(&transfers), [5, 1], "the first address has more, but uses it");
    }

    #[tokio::test(start_paused = true)]
    async fn address_with_fewer_takes_from_the_one_with_most() {
        let transfers = Transfers::new(8);
        for last in [1, 1, 1, 1, 2, 2, 2, 2] {
            assert!(start(&transfers, last).await);
        }
        assert!(start(&transfers, 3).await && start(&transfers, 3).await);
        assert_eq!(counts(&transfers), [3, 3, 2]);
        // Equal shares are stable.
        assert!(!start(&transfers, 3).await && !start(&transfers, 1).await);
        assert_eq!(counts(&transfers), [3, 3, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn permits_of_disconnected_clients_are_free_again() {
        let transfers = Transfers::new(2);
        let end = || Arc::new(Notify::new());
        let first = transfers.acquire(address(1), end()).await;
        let second = transfers.acquire(address(1), end()).await;
        {
            let left = tokio::time::timeout(Duration::ZERO, transfers.acquire(address(1), end()));
            assert!(left.await.is_err());
        }
        drop((first, second));
        transfers.dispatch();
        let mut state = transfers.lock();
        assert_eq!((state.free, state.running.len()), (2, 0));
        assert!(state.shares.is_unused());
    }

    #[tokio::test(start_paused = true)]
    async fn place_reserved_for_a_disconnected_client_is_free_again() {
        let transfers = Transfers::new(4);
        let mut ends = Vec::new();
        let mut permits = Vec::new();
        for _ in 0..4 {
            let end = Arc::new(Notify::new());
            permits.push(transfers.acquire(address(1), Arc::clone(&end)).await);
            ends.push(end);
        }
        {
            let acquired = transfers.acquire(address(2), Arc::new(Notify::new()));
            assert!(tokio::time::timeout(Duration::from_secs(1), acquired).await.is_err());
        }
        // The latest was notified to end, and the place is free for others once the address keeps it no longer.
        ends[3].notified().await;
        drop(permits.remove(3));
        let began = tokio::time::Instant::now();
        assert!(start(&transfers, 1).await);
        assert_eq!(began.elapsed(), KEPT - Duration::from_secs(1));
        drop(permits);
    }

    #[tokio::test(start_paused = true)]
    async fn reconnecting_address_ends_one_transfer_of_another_only() {
        let transfers = Transfers::new(8);
        let mut permits = Vec::new();
        for _ in 0..8 {
            let end = Arc::new(Notify::new());
            let permit = transfers.acquire(address(1), Arc::clone(&end)).await;
            permits.push(Some((permit, end)));
        }
        for round in 0..200 {
            let acquired = transfers.acquire(address(2), Arc::new(Notify::new()));
            let mut acquired = std::pin::pin!(acquired);
            let is_granted = tokio::time::timeout(Duration::ZERO, &mut acquired).await.is_ok();
            assert_eq!(is_granted, round > 0, "the first waits for the transfer that ends");
            // The connections that have to end do.
            for permit in &mut permits {
                let Some((_, end)) = permit else { continue };
                if tokio::time::timeout(Duration::ZERO, end.notified()).await.is_ok() {
                    *permit = None;
                }
            }
            if !is_granted {
                drop(acquired.await);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let ended: Vec<_> = permits.iter().map(Option::is_none).collect();
        assert_eq!(ended, [false, false, false, false, false, false, false, true]);
        drop(permits);
        tokio::time::sleep(KEPT).await;
        assert!(transfers.lock().shares.is_unused());
    }
}
