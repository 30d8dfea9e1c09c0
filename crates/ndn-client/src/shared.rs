//! What the connection's task and the handles share: tables, output, state.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ndn_packet::{Name, NameRef};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::output::Output;
use crate::pending::PendingTable;
use crate::produce::Handler;

/// Above this many bytes of output, no further Interests are served until some are written.
pub(crate) const OUTPUT_HIGH: usize = 1024 * 1024;

/// So long after a reconnection applications are still registering their prefixes again, and that there is
/// no route means nothing yet.
const SETTLING: Duration = Duration::from_secs(10);

/// Whether there is a connection to the forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// Connected.
    Connected,
    /// Lost; connecting again.
    Reconnecting,
    /// Ended for good.
    Closed,
}

/// Prefixes that are served, with the longest-prefix match over them.
#[derive(Default)]
pub(crate) struct Routes {
    next_id: u64,
    handlers: HashMap<Box<[u8]>, Route>,
    lengths: BTreeMap<usize, usize>,
}

pub(crate) struct Route {
    id: u64,
    prefix: Name,
    handler: Arc<dyn Handler>,
    /// Whether the forwarder is told to send Interests here.
    registered: bool,
}

impl Routes {
    /// Adds a handler; `None` if the prefix has one already.
    pub(crate) fn insert(&mut self, prefix: &Name, handler: Arc<dyn Handler>) -> Option<u64> {
        if self.handlers.contains_key(prefix.value()) {
            return None;
        }
        self.next_id += 1;
        let route = Route { id: self.next_id, prefix: prefix.clone(), handler, registered: false };
        self.handlers.insert(prefix.value().into(), route);
        *self.lengths.entry(prefix.len()).or_default() += 1;
        Some(self.next_id)
    }

    /// Removes a handler and returns it, to be dropped outside the lock: what it owns may lock too.
    #[must_use]
    pub(crate) fn remove(&mut self, prefix: &Name, id: u64) -> Option<Route> {
        if self.handlers.get(prefix.value()).is_none_or(|route| route.id != id) {
            return None;
        }
        let removed = self.handlers.remove(prefix.value());
        if let Some(count) = self.lengths.get_mut(&prefix.len()) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&prefix.len());
            }
        }
        removed
    }

    pub(crate) fn set_registered(&mut self, prefix: &Name) {
        if let Some(route) = self.handlers.get_mut(prefix.value()) {
            route.registered = true;
        }
    }

    pub(crate) fn registered(&self) -> Vec<Name> {
        let registered = self.handlers.values().filter(|route| route.registered);
        registered.map(|route| route.prefix.clone()).collect()
    }

    pub(crate) fn find(&self, name: NameRef<'_>) -> Option<Arc<dyn Handler>> {
        self.lengths.range(..=name.len()).rev().find_map(|(length, _)| {
            let route = self.handlers.get(name.prefix(*length).value())?;
            Some(Arc::clone(&route.handler))
        })
    }

    /// Removes all handlers, to be dropped outside the lock.
    #[must_use]
    pub(crate) fn take_all(&mut self) -> Self {
        std::mem::take(self)
    }
}

/// All that is under the lock.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) pending: PendingTable,
    pub(crate) routes: Routes,
    pub(crate) output: Output,
    /// When the forwarder came back last.
    pub(crate) reconnected_at: Option<Instant>,
}

/// Shared between the connection's task and the handles.
pub(crate) struct Shared {
    tables: Mutex<Tables>,
    /// Wakes the writer.
    pub(crate) output_ready: Notify,
    /// Wakes the reader that waits for the output to shrink.
    pub(crate) output_space: Notify,
    /// Wakes blocking threads that wait for the output to shrink.
    blocking_space: Condvar,
    pub(crate) state: watch::Sender<ConnectionState>,
    /// Handles of the application; at zero the connection ends.
    handles: AtomicUsize,
    pub(crate) no_handles: Notify,
    /// The last datagram was refused: nobody has that port.
    is_refused: AtomicBool,
    /// How many connections in a row have ended before anything came by them.
    pub(crate) turned_away: watch::Sender<u32>,
}

impl Shared {
    pub(crate) fn new(state: ConnectionState) -> Arc<Self> {
        Arc::new(Self {
            tables: Mutex::default(),
            output_ready: Notify::new(),
            output_space: Notify::new(),
            blocking_space: Condvar::new(),
            state: watch::Sender::new(state),
            handles: AtomicUsize::new(0),
            no_handles: Notify::new(),
            is_refused: AtomicBool::new(false),
            turned_away: watch::Sender::new(0),
        })
    }

    /// Locks the tables, for a short time and never across an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Tables> {
        // No invariant spans a panic: handlers run outside the lock.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the tables once the output is below its bound; for blocking threads only.
    pub(crate) fn lock_with_space(&self) -> MutexGuard<'_, Tables> {
        let tables = self.lock();
        self.blocking_space
            .wait_while(tables, |tables| tables.output.len() >= OUTPUT_HIGH)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends to the output and wakes the writer.
    pub(crate) fn send<T>(&self, push: impl FnOnce(&mut Output) -> T) -> T {
        let result = push(&mut self.lock().output);
        self.output_ready.notify_one();
        result
    }

    /// Tells all that wait for it that the output has shrunk.
    pub(crate) fn announce_space(&self) {
        self.output_space.notify_one();
        self.blocking_space.notify_all();
    }

    pub(crate) fn add_handle(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_handle(&self) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.no_handles.notify_one();
        }
    }

    /// Whether the forwarder came back a short time ago, so that routes may be missing still.
    pub(crate) fn is_settling(&self) -> bool {
        self.lock().reconnected_at.is_some_and(|at| at.elapsed() < SETTLING)
    }

    /// Notes whether somebody has the port that datagrams are sent to.
    pub(crate) fn set_refused(&self, is_refused: bool) {
        self.is_refused.store(is_refused, Ordering::Relaxed);
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    pub(crate) fn set_state(&self, state: ConnectionState) {
        self.state.send_replace(state);
    }
}
