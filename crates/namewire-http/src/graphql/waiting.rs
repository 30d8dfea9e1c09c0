//! WebSocket connections that have not shown a valid token yet.
//!
//! Their number is limited. A further one takes the place of the one that has waited longest, so that connections that
//! never show a token keep nobody out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Maximum number of connections that wait.
const WAITING_MAX: usize = 64;

/// The connections that wait, the oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting(Arc<Mutex<VecDeque<Arc<Notify>>>>);

impl Waiting {
    /// A place for a connection. If there is none left, the oldest has to end.
    pub(super) fn enter(&self) -> WaitingPlace {
        let displaced = Arc::<Notify>::default();
        let mut waiting = self.lock();
        if waiting.len() >= WAITING_MAX
            && let Some(oldest) = waiting.pop_front()
        {
            oldest.notify_one();
        }
        waiting.push_back(Arc::clone(&displaced));
        WaitingPlace { waiting: self.clone(), displaced }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct WaitingPlace {
    waiting: Waiting,
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
        self.waiting.lock().retain(|other| !Arc::ptr_eq(other, &self.displaced));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn oldest_connection_gives_way_when_there_is_no_place() {
        let waiting = Waiting::default();
        let mut places: Vec<_> = (0..WAITING_MAX).map(|_| waiting.enter()).collect();
        let _further = waiting.enter();
        places[0].displaced().notified().await;
        assert_eq!(waiting.lock().len(), WAITING_MAX);
        // One that has shown its token leaves its place, and nobody has to give way.
        drop(places.remove(1));
        let _another = waiting.enter();
        assert_eq!(waiting.lock().len(), WAITING_MAX);
        let second = places[1].displaced();
        assert!(waiting.lock().iter().any(|other| Arc::ptr_eq(other, &second)));
    }
}
