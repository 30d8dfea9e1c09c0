//! Connections of the blocking interface, which users in one process share.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

use ndn_client::{
    Candidates, ConnectionState, Endpoint, EndpointOptions, ForwarderAddress, OpenError,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::OnceCell;

use crate::error::{AccessError, ErrorKind};

/// Threads of the runtime: one has the connection, the other verifies.
const THREADS: usize = 2;
/// Interval at which a wait asks whether it is interrupted.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Attempts of a forked process to lock the list of open connections.
const ATTEMPTS_MAX: usize = 100;

/// Ends waits: returns true once the caller does not want the result any more.
pub(crate) type Interrupted<'a> = &'a mut dyn FnMut() -> bool;

/// A connection that only requests, with its threads. It ends with its last user.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Both are there until this is dropped.
    endpoint: Option<Endpoint>,
    runtime: Option<Runtime>,
    process: u32,
}

impl Drop for Connection {
    fn drop(&mut self) {
        let (endpoint, runtime) = (self.endpoint.take(), self.runtime.take());
        if self.check_process().is_err() {
            // Their threads are in the other process, and may have held locks.
            std::mem::forget((endpoint, runtime));
            return;
        }
        drop(endpoint);
        // The owner may be a thread of another runtime, which may not wait.
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}

impl Connection {
    /// The connection of this process to the forwarder, or a new one. If `waits`, a forwarder that is not there is awaited, and the
    /// result has the reason.
    pub(crate) fn of_process(
        options: EndpointOptions,
        waits: bool,
        interrupted: Interrupted<'_>,
    ) -> Result<(Arc<Self>, Option<String>), AccessError> {
        let given = options.address.clone().map(Candidates::given);
        let candidates = given.map_or_else(Candidates::from_environment, Ok);
        let addresses = candidates.map_err(|error| failed(&error.into()))?.addresses;
        let key = ConnectionKey { addresses, mtu: options.mtu };
        let (connection, missing) = match OPEN.find(&key, waits) {
            Some(connection) => (connection, None),
            None => {
                let (opened, missing) = Self::open(options, waits, interrupted)?;
                (OPEN.add(key, Arc::new(opened)), missing)
            }
        };
        let reason = || missing.unwrap_or_else(|| "the forwarder is not connected".to_owned());
        let missing = (!connection.is_in(ConnectionState::Connected)).then(reason);
        Ok((connection, missing))
    }

    fn open(
        options: EndpointOptions,
        waits: bool,
        interrupted: Interrupted<'_>,
    ) -> Result<(Self, Option<String>), AccessError> {
        let mut builder = Builder::new_multi_thread();
        // They are threads of the program, too, which has functions that handle signals.
        builder.worker_threads(THREADS).on_thread_start(ndn_sys::signal::block_in_thread);
        let runtime = builder.enable_all().build().map_err(|error| {
            AccessError::new(ErrorKind::Disconnected, format!("no threads: {error}"))
        })?;
        let process = std::process::id();
        let mut connection = Self { endpoint: None, runtime: Some(runtime), process };
        let connecting = async {
            let opened = match waits {
                false => Endpoint::connect(options).await.map(|endpoint| (endpoint, None)),
                true => Endpoint::connect_or_later(options).await,
            };
            opened.map_err(|error| failed(&error))
        };
        let (endpoint, missing) = connection.wait(interrupted, connecting)?;
        connection.endpoint = Some(endpoint);
        Ok((connection, missing.map(|reason| reason.to_string())))
    }

    /// An error in a process that was forked from the one that opened it.
    pub(crate) fn check_process(&self) -> Result<(), AccessError> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let text = "opened before this process was forked: open it again here";
        Err(AccessError::new(ErrorKind::Disconnected, text))
    }

    pub(crate) fn endpoint(&self) -> Result<&Endpoint, AccessError> {
        self.endpoint.as_ref().ok_or_else(ended)
    }

    pub(crate) fn runtime(&self) -> Result<&Runtime, AccessError> {
        self.runtime.as_ref().ok_or_else(ended)
    }

    fn is_in(&self, state: ConnectionState) -> bool {
        self.endpoint.as_ref().is_some_and(|endpoint| *endpoint.state().borrow() == state)
    }

    /// Waits for `work` on the calling thread.
    pub(crate) fn wait<T, E: From<AccessError>>(
        &self,
        interrupted: Interrupted<'_>,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.check_process()?;
        let runtime = self.runtime()?;
        // Work that ends early may start tasks.
        let _entered = runtime.enter();
        let mut work = std::pin::pin!(work);
        loop {
            let next = async { tokio::time::timeout(POLL_INTERVAL, work.as_mut()).await };
            match runtime.block_on(next) {
                Ok(result) => return result,
                // Asked outside of `block_on`: it may run a function of the program, which waits itself.
                Err(_) if interrupted() => {
                    return Err(AccessError::new(ErrorKind::Interrupted, "interrupted").into());
                }
                Err(_) => {}
            }
        }
    }
}

fn failed(error: &OpenError) -> AccessError {
    AccessError::new(ErrorKind::Disconnected, error.to_string())
}

fn ended() -> AccessError {
    AccessError::new(ErrorKind::Disconnected, "the connection has ended")
}

/// The open connections of this process.
static OPEN: OpenConnections = OpenConnections::new();

/// The open connections of a process. One that was forked opens new ones.
#[derive(Debug)]
struct OpenConnections {
    /// The process that locked the list last; 0 before the first one.
    process: AtomicU32,
    list: Mutex<Vec<OpenConnection>>,
}

#[derive(Debug)]
struct OpenConnection {
    key: ConnectionKey,
    process: u32,
    connection: Weak<Connection>,
}

/// Properties by which connections are shared.
#[derive(Debug, PartialEq)]
struct ConnectionKey {
    addresses: Vec<ForwarderAddress>,
    mtu: usize,
}

impl OpenConnections {
    const fn new() -> Self {
        Self { process: AtomicU32::new(0), list: Mutex::new(Vec::new()) }
    }

    /// A connection of this process that is connected; if `waits` and there is none, one that is to be connected again.
    fn find(&self, key: &ConnectionKey, waits: bool) -> Option<Arc<Connection>> {
        let process = std::process::id();
        let found = same(&self.lock(process)?, key, process);
        usable(&found, waits)
    }

    /// Makes others find `opened`. Returns a connection that another thread has added meanwhile, if that is as good.
    fn add(&self, key: ConnectionKey, opened: Arc<Connection>) -> Arc<Connection> {
        let process = opened.process;
        let Some(mut list) = self.lock(process) else { return opened };
        let others = same(&list, &key, process);
        let other = usable(&others, !opened.is_in(ConnectionState::Connected));
        if other.is_none() {
            list.retain(|one| one.process == process && one.connection.strong_count() > 0);
            list.push(OpenConnection { key, process, connection: Arc::downgrade(&opened) });
        }
        // No connection ends while it is locked.
        drop(list);
        other.unwrap_or(opened)
    }

    /// The list. A process that was forked from the one that locked it last does not wait for the lock, which a thread of the other
    /// process may have held at the fork.
    fn lock(&self, process: u32) -> Option<MutexGuard<'_, Vec<OpenConnection>>> {
        let order = Ordering::Relaxed;
        let _ = self.process.compare_exchange(0, process, order, order);
        for _ in 0..ATTEMPTS_MAX {
            if self.process.load(order) == process {
                return Some(self.list.lock().unwrap_or_else(PoisonError::into_inner));
            }
            let list = match self.list.try_lock() {
                Ok(list) => list,
                Err(TryLockError::Poisoned(list)) => list.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    std::thread::yield_now();
                    continue;
                }
            };
            self.process.store(process, order);
            return Some(list);
        }
        None
    }
}

/// The connections of a process that have this key.
fn same(list: &[OpenConnection], key: &ConnectionKey, process: u32) -> Vec<Arc<Connection>> {
    let same = list.iter().filter(|one| one.process == process && one.key == *key);
    same.filter_map(|one| one.connection.upgrade()).collect()
}

/// One that is connected; if `waits` and there is none, one that is to be connected again.
fn usable(found: &[Arc<Connection>], waits: bool) -> Option<Arc<Connection>> {
    let first_in = |state| found.iter().find(|connection| connection.is_in(state));
    let usable = first_in(ConnectionState::Connected)
        .or_else(|| first_in(ConnectionState::Reconnecting).filter(|_| waits));
    usable.cloned()
}

/// A connection of one user alone, which is opened when it is first needed: for what is served, whose Interests the forwarder
/// never returns to the connection that they come from, and for commands, which are signed by a key of the user.
#[derive(Debug)]
pub struct OwnConnection {
    options: EndpointOptions,
    endpoint: OnceCell<Endpoint>,
}

impl OwnConnection {
    pub(crate) fn new(options: EndpointOptions) -> Self {
        Self { options, endpoint: OnceCell::new() }
    }

    /// The connection. A forwarder that is not there is awaited.
    ///
    /// # Errors
    /// `Disconnected`: the configured address is invalid.
    pub async fn endpoint(&self) -> Result<&Endpoint, AccessError> {
        let connect = || async {
            let opened = Endpoint::connect_or_later(self.options.clone()).await;
            opened.map(|(endpoint, _)| endpoint).map_err(|error| failed(&error))
        };
        self.endpoint.get_or_try_init(connect).await
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::Path;
    use std::sync::Barrier;

    use super::*;

    fn options(socket: &Path) -> EndpointOptions {
        let address = format!("unix://{}", socket.display()).parse().unwrap();
        EndpointOptions { address: Some(address), ..EndpointOptions::default() }
    }

    #[test]
    fn threads_that_connect_together_share_a_connection() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let together = Barrier::new(8);
        let connect = || {
            together.wait();
            Connection::of_process(options(&socket), false, &mut || false).unwrap()
        };
        let connections: Vec<_> = std::thread::scope(|scope| {
            let threads = [(); 8].map(|()| scope.spawn(connect));
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (first, missing) = &connections[0];
        assert_eq!(*missing, None);
        assert!(connections.iter().all(|(one, _)| Arc::ptr_eq(one, first)));
    }

    #[test]
    fn users_that_await_a_forwarder_share_a_connection() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let connect = |waits| Connection::of_process(options(&socket), waits, &mut || false);
        let [(first, reason), (second, later_reason)] = [(); 2].map(|()| connect(true).unwrap());
        assert!(reason.unwrap().contains("socket"));
        assert_eq!(later_reason.unwrap(), "the forwarder is not connected");
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(connect(false).unwrap_err().kind(), ErrorKind::Disconnected);
        // One that must be connected is a new one, which others then use.
        let _listener = UnixListener::bind(&socket).unwrap();
        let connected = connect(false).unwrap().0;
        assert!(connected.is_in(ConnectionState::Connected));
        assert!(connect(true).unwrap().1.is_none());
    }

    #[test]
    fn forked_process_does_not_await_the_lock_of_its_parent() {
        let open = OpenConnections::new();
        assert!(open.lock(1).is_some());
        let held = open.lock(1);
        assert!(open.lock(2).is_none());
        drop(held);
        assert!(open.lock(2).is_some());
        assert_eq!(open.process.load(Ordering::Relaxed), 2);
    }
}
