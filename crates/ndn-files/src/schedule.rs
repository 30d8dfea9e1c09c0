//! Request queues, one per file, served round-robin.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::cache::Key;

/// Queue limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Requests in total.
    pub(crate) total: usize,
    /// Requests for one file.
    pub(crate) per_file: usize,
    /// Requests served for a file before the next file has its turn.
    pub(crate) batch: usize,
}

#[derive(Debug)]
struct Queues<T> {
    waiting: HashMap<Key, VecDeque<T>>,
    /// Files with requests, each once.
    turns: VecDeque<Key>,
    total: usize,
    closed: bool,
}

/// Requests in the order of service.
#[derive(Debug)]
pub(crate) struct Schedule<T> {
    queues: Mutex<Queues<T>>,
    ready: Condvar,
    limits: Limits,
}

impl<T> Schedule<T> {
    pub(crate) fn new(limits: Limits) -> Self {
        let queues =
            Queues { waiting: HashMap::new(), turns: VecDeque::new(), total: 0, closed: false };
        Self { queues: Mutex::new(queues), ready: Condvar::new(), limits }
    }

    fn lock(&self) -> MutexGuard<'_, Queues<T>> {
        // No invariant spans a panic.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request for the file `key`, or returns it if a limit is reached. [`Self::wake`]
    /// must be called afterwards.
    pub(crate) fn push(&self, key: &[u8], request: T) -> Result<(), T> {
        let mut queues = self.lock();
        if queues.closed || queues.total >= self.limits.total {
            return Err(request);
        }
        if let Some(queue) = queues.waiting.get_mut(key) {
            if queue.len() >= self.limits.per_file {
                return Err(request);
            }
            queue.push_back(request);
        } else {
            let key: Key = Arc::from(key);
            queues.waiting.insert(Arc::clone(&key), VecDeque::from([request]));
            queues.turns.push_back(key);
        }
        queues.total += 1;
        Ok(())
    }

    /// Wakes a thread that waits in [`Self::take`], if a request is queued: once after any number
    /// of pushes. That thread wakes the next one if there are more.
    pub(crate) fn wake(&self) {
        if !self.lock().turns.is_empty() {
            self.ready.notify_one();
        }
    }

    /// Waits for requests and moves a batch of one file into `batch`; `None` when closed.
    pub(crate) fn take(&self, batch: &mut Vec<T>) -> Option<Key> {
        let queues = self.lock();
        let mut queues = self
            .ready
            .wait_while(queues, |queues| queues.turns.is_empty() && !queues.closed)
            .unwrap_or_else(PoisonError::into_inner);
        if queues.closed {
            return None;
        }
        let key = queues.turns.pop_front()?;
        let (taken, left) = match queues.waiting.get_mut(&key) {
            Some(queue) => {
                let taken = queue.len().min(self.limits.batch);
                batch.extend(queue.drain(..taken));
                (taken, queue.len())
            }
            None => (0, 0),
        };
        queues.total -= taken;
        if left == 0 {
            queues.waiting.remove(&key);
        } else {
            queues.turns.push_back(Arc::clone(&key));
        }
        if !queues.turns.is_empty() {
            self.ready.notify_one();
        }
        Some(key)
    }

    /// Ends all waits in [`Self::take`], and drops all requests.
    pub(crate) fn close(&self) {
        let mut queues = self.lock();
        queues.closed = true;
        queues.turns.clear();
        let dropped = std::mem::take(&mut queues.waiting);
        queues.total = 0;
        drop(queues);
        // Destructors of requests may lock too.
        drop(dropped);
        self.ready.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { total: 10, per_file: 6, batch: 2 };

    fn take(schedule: &Schedule<u32>) -> (Vec<u8>, Vec<u32>) {
        let mut batch = Vec::new();
        let key = schedule.take(&mut batch).unwrap();
        (key.to_vec(), batch)
    }

    #[test]
    fn files_are_served_round_robin() {
        let schedule = Schedule::new(LIMITS);
        for request in 0..5 {
            schedule.push(b"large", request).unwrap();
        }
        schedule.push(b"small", 9).unwrap();
        assert_eq!(take(&schedule), (b"large".to_vec(), vec![0, 1]));
        assert_eq!(take(&schedule), (b"small".to_vec(), vec![9]));
        assert_eq!(take(&schedule), (b"large".to_vec(), vec![2, 3]));
        assert_eq!(take(&schedule), (b"large".to_vec(), vec![4]));
        assert!(schedule.lock().waiting.is_empty());
    }

    #[test]
    fn queue_limits_per_file_and_in_total_are_enforced() {
        let schedule = Schedule::new(LIMITS);
        let accepted = |key: &[u8]| (0..20).filter(|n| schedule.push(key, *n).is_ok()).count();
        assert_eq!(accepted(b"one"), 6);
        assert_eq!(accepted(b"two"), 4);
        assert_eq!(accepted(b"three"), 0);
        take(&schedule);
        assert_eq!(accepted(b"three"), 2);
    }

    #[test]
    fn waiting_thread_is_woken_once_per_batch() {
        let schedule = Arc::new(Schedule::<u32>::new(LIMITS));
        let other = Arc::clone(&schedule);
        let waiting = std::thread::spawn(move || {
            let mut taken = Vec::new();
            while taken.len() < 3 {
                other.take(&mut taken);
            }
            taken
        });
        schedule.push(b"one", 1).unwrap();
        schedule.push(b"two", 2).unwrap();
        schedule.push(b"one", 3).unwrap();
        schedule.wake();
        let mut taken = waiting.join().unwrap();
        taken.sort_unstable();
        assert_eq!(taken, [1, 2, 3]);
        schedule.wake();
    }

    #[test]
    fn closing_ends_all_waits() {
        let schedule = Arc::new(Schedule::<u32>::new(LIMITS));
        let other = Arc::clone(&schedule);
        let waiting = std::thread::spawn(move || other.take(&mut Vec::new()));
        schedule.close();
        assert_eq!(waiting.join().unwrap(), None);
        assert_eq!(schedule.push(b"one", 1), Err(1));
    }
}
