//! Shares of client addresses in the transfers.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

/// The transfers of all clients, divided between addresses by max-min fairness.
///
/// While there is room, an address may have as many as its limit. If there is none, an address with at least two fewer
/// than another takes one from the address with the most: the connection of its oldest transfer ends.
#[derive(Debug)]
pub(crate) struct Transfers {
    /// Maximum number for each address.
    each_max: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// Transfers that were taken away and have not ended yet.
    ending: usize,
    /// Of each address, its transfers, the oldest first.
    running: HashMap<IpAddr, VecDeque<Running>>,
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
    address: IpAddr,
    end: Arc<Notify>,
    answer: oneshot::Sender<TransferPermit>,
}

/// The right to one transfer.
#[derive(Debug)]
pub(crate) struct TransferPermit {
    transfers: Arc<Transfers>,
    address: IpAddr,
    id: u64,
}

impl Transfers {
    pub(crate) fn new(transfers_max: usize, each_max: usize) -> Arc<Self> {
        let state = State {
            free: transfers_max.max(1),
            ending: 0,
            running: HashMap::new(),
            waiting: Vec::new(),
            next_id: 0,
        };
        Arc::new(Self { each_max: each_max.max(1), state: Mutex::new(state) })
    }

    /// Waits for a transfer of a connection from `address`. `end` is notified if the connection has to end because an
    /// address with fewer transfers needs one.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        address: IpAddr,
        end: Arc<Notify>,
    ) -> TransferPermit {
        loop {
            let (answer, granted) = oneshot::channel();
            let end = Arc::clone(&end);
            self.lock().waiting.push(Waiting { address, end, answer });
            self.dispatch();
            if let Ok(permit) = granted.await {
                return permit;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants what is free, and takes away what is due to others.
    fn dispatch(self: &Arc<Self>) {
        let granted = self.lock().dispatch(self.each_max);
        for (waiting, id) in granted {
            let permit =
                TransferPermit { transfers: Arc::clone(self), address: waiting.address, id };
            // A client that has gone meanwhile returns it.
            drop(waiting.answer.send(permit));
        }
    }
}

impl State {
    fn dispatch(&mut self, each_max: usize) -> Vec<(Waiting, u64)> {
        let mut granted = Vec::new();
        self.waiting.retain(|waiting| !waiting.answer.is_closed());
        while self.free > 0 {
            let eligible = self.waiting.iter().enumerate();
            let eligible = eligible.map(|(at, waiting)| (self.count(waiting.address), at));
            let next = eligible.filter(|(count, _)| *count < each_max).min();
            let Some((_, at)) = next else { return granted };
            let waiting = self.waiting.remove(at);
            self.free -= 1;
            self.next_id += 1;
            let running = Running { id: self.next_id, end: Arc::clone(&waiting.end) };
            self.running.entry(waiting.address).or_default().push_back(running);
            granted.push((waiting, self.next_id));
        }
        // One for each that waits, and those that end already count.
        loop {
            let largest = self.running.values().map(VecDeque::len).max().unwrap_or(0);
            let mut promised: HashMap<IpAddr, usize> = HashMap::new();
            let is_short = |waiting: &&Waiting| {
                let more = promised.entry(waiting.address).or_default();
                let is_short = self.count(waiting.address) + *more + 1 < largest;
                *more += usize::from(is_short);
                is_short
            };
            if self.waiting.iter().filter(is_short).count() <= self.ending {
                return granted;
            }
            let holder = self.running.values_mut().max_by_key(|running| running.len());
            let Some(oldest) = holder.and_then(VecDeque::pop_front) else { return granted };
            oldest.end.notify_one();
            self.ending += 1;
        }
    }

    fn count(&self, address: IpAddr) -> usize {
        self.running.get(&address).map_or(0, VecDeque::len)
    }

    fn release(&mut self, address: IpAddr, id: u64) {
        self.free += 1;
        let running = self.running.get_mut(&address);
        let at = running.as_ref().and_then(|running| running.iter().position(|one| one.id == id));
        match (running, at) {
            (Some(running), Some(at)) => _ = running.remove(at),
            _ => self.ending -= 1,
        }
        self.running.retain(|_, running| !running.is_empty());
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

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
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
        (1..=9).map(|last| state.count(address(last))).filter(|count| *count > 0).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn address_has_its_limit_while_there_is_room() {
        let transfers = Transfers::new(8, 3);
        for _ in 0..3 {
            assert!(start(&transfers, 1).await);
        }
        assert!(!start(&transfers, 1).await);
        assert_eq!((counts(&transfers), transfers.lock().free), (vec![3], 5));
        assert!(
            transfers.lock().waiting.is_empty() || transfers.lock().waiting[0].answer.is_closed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn address_with_fewer_takes_from_the_one_with_most() {
        let transfers = Transfers::new(8, 4);
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
    async fn permits_of_clients_that_left_are_free_again() {
        let transfers = Transfers::new(2, 2);
        let end = || Arc::new(Notify::new());
        let first = transfers.acquire(address(1), end()).await;
        let second = transfers.acquire(address(1), end()).await;
        {
            let left = tokio::time::timeout(Duration::ZERO, transfers.acquire(address(1), end()));
            assert!(left.await.is_err());
        }
        drop((first, second));
        let state = transfers.lock();
        assert_eq!((state.free, state.ending, state.running.len()), (2, 0, 0));
    }
}
