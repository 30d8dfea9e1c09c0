//! Shares of clients in the look-ups of names.
//!
//! A look-up ends when it is answered or has timed out, and not before. A client therefore has at most as many at a time as
//! places are left ([`Ledger::has_room_beside_others`]): half of them if it is alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ndn_types::{Capacity, Ledger, PrincipalIndex, PrincipalKey, Reserves};
use tokio::sync::Notify;

ndn_types::resource! {
    /// Look-ups of names.
    struct Places = "lookups";
}

/// The look-ups of all clients.
#[derive(Debug)]
pub(crate) struct Lookups {
    ledger: Mutex<Ledger<Places, 1>>,
    /// Notified after each look-up.
    ended: Notify,
}

/// The right to one look-up.
#[derive(Debug)]
pub(crate) struct Lookup {
    lookups: Arc<Lookups>,
    client: PrincipalIndex,
}

impl Lookups {
    pub(crate) fn new(lookups_max: usize) -> Arc<Self> {
        let ledger = Ledger::new([Capacity::of(lookups_max)], Reserves::NONE);
        Arc::new(Self { ledger: Mutex::new(ledger), ended: Notify::new() })
    }

    /// Waits until the client may look up one name more.
    pub(crate) async fn acquire(self: &Arc<Self>, client: PrincipalKey) -> Lookup {
        loop {
            // What ends after the attempt is noticed.
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if let Some(lookup) = self.try_acquire(client) {
                return lookup;
            }
            ended.await;
        }
    }

    fn try_acquire(self: &Arc<Self>, client: PrincipalKey) -> Option<Lookup> {
        let mut ledger = self.lock();
        let client = ledger.attach(client);
        if !ledger.has_room_beside_others(client, Places, 1) {
            ledger.detach(client);
            return None;
        }
        ledger.charge(client, Places, 1);
        Some(Lookup { lookups: Arc::clone(self), client })
    }

    fn lock(&self) -> MutexGuard<'_, Ledger<Places, 1>> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        let mut ledger = self.lookups.lock();
        ledger.release(self.client, Places, 1);
        ledger.detach(self.client);
        drop(ledger);
        self.lookups.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    fn client(last: u8) -> PrincipalKey {
        PrincipalKey::remote(([192, 0, 2, last], 1).into())
    }

    #[tokio::test(start_paused = true)]
    async fn clients_whose_names_nobody_answers_leave_lookups_to_others() {
        let lookups = Lookups::new(64);
        let at_once = |last| lookups.try_acquire(client(last));
        let mut slow: Vec<Lookup> = (0..100).filter_map(|_| at_once(1)).collect();
        assert_eq!(slow.len(), 32);
        let others: Vec<Lookup> = (0..100).filter_map(|_| at_once(2)).collect();
        assert_eq!(others.len(), 16);
        assert!((3..=10).all(|last| at_once(last).is_some()));
        // A client that waits is served when one of its look-ups ends.
        let waiting = {
            let lookups = Arc::clone(&lookups);
            tokio::spawn(async move { drop(lookups.acquire(client(1)).await) })
        };
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
        drop(others);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished(), "it has half of them");
        slow.truncate(31);
        timeout(Duration::from_secs(1), waiting).await.unwrap().unwrap();
        drop(slow);
        assert!(lookups.lock().report().is_zero());
    }
}
