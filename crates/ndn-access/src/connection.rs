//! Connections of the blocking interface, which contexts of a process share.

use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::time::Duration;

use ndn_client::{
    Candidates, ConnectError, ConnectionState, Endpoint, EndpointOptions, ForwarderAddress,
    OpenError,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::OnceCell;

use crate::error::{AccessError, ErrorKind};
use crate::event_loop::EventLoop;

/// Threads of the runtime, which verify; another one has the connection.
const THREADS: usize = 2;
/// Interval at which a wait asks whether it is interrupted.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Attempts to lock the list of open connections.
const ATTEMPTS_MAX: usize = 100;

/// Ends waits: returns true once the caller does not want the result any more.
pub(crate) type Interrupted<'a> = &'a mut dyn FnMut() -> bool;

/// The open connections of this process. A process that was forked, perhaps while a thread held the lock, opens new ones.
static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

struct Open {
    way: Way,
    process: u32,
    connection: Weak<Connection>,
}

/// Properties by which connections are shared.
#[derive(PartialEq)]
struct Way {
    addresses: Vec<ForwarderAddress>,
    mtu: usize,
}

/// A connection that only requests, with its threads. It ends with its last user.
#[derive(Debug)]
pub(crate) struct Connection {
    /// All three are there until this is dropped.
    endpoint: Option<Endpoint>,
    runtime: Option<Runtime>,
    /// Runs the tasks of the connection.
    event_loop: Option<Arc<EventLoop>>,
    process: u32,
}

impl Drop for Connection {
    fn drop(&mut self) {
        let parts = (self.endpoint.take(), self.runtime.take(), self.event_loop.take());
        if self.check_process().is_err() {
            // Their threads are in the other process, and may have held locks.
            std::mem::forget(parts);
            return;
        }
        let (endpoint, runtime, event_loop) = parts;
        drop(endpoint);
        // The owner may be a thread of another runtime, which may not wait.
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
        if let Some(event_loop) = event_loop {
            event_loop.end();
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
    ) -> Result<(Arc<Self>, Option<ConnectError>), AccessError> {
        let given = options.address.clone().map(Candidates::given);
        let candidates = given.map_or_else(Candidates::from_environment, Ok);
        let addresses = candidates.map_err(|error| failed(&error.into()))?.addresses;
        let way = Way { addresses, mtu: options.mtu };
        if let Some(connection) = find(&way) {
            return Ok((connection, None));
        }
        let (connection, missing) = Self::open(options, waits, interrupted)?;
        let connection = Arc::new(connection);
        keep(way, &connection);
        Ok((connection, missing))
    }

    fn open(
        options: EndpointOptions,
        waits: bool,
        interrupted: Interrupted<'_>,
    ) -> Result<(Self, Option<ConnectError>), AccessError> {
        let no_threads = |error: std::io::Error| {
            AccessError::new(ErrorKind::Disconnected, format!("no threads: {error}"))
        };
        let event_loop = EventLoop::start().map_err(no_threads)?;
        let mut connection = Self {
            endpoint: None,
            runtime: None,
            event_loop: Some(event_loop),
            process: std::process::id(),
        };
        let mut builder = Builder::new_multi_thread();
        // As in the event loop.
        builder.worker_threads(THREADS).on_thread_start(ndn_sys::signal::block_in_thread);
        connection.runtime = Some(builder.enable_all().build().map_err(no_threads)?);
        let connecting = async {
            let opened = match waits {
                false => Endpoint::connect(options).await.map(|endpoint| (endpoint, None)),
                true => Endpoint::connect_or_later(options).await,
            };
            opened.map_err(|error| failed(&error))
        };
        // The tasks of the connection belong to the event loop, all others to the runtime.
        let (endpoint, missing) = connection.event_loop()?.run(unless(interrupted, connecting))?;
        connection.event_loop()?.serves(endpoint.state());
        connection.endpoint = Some(endpoint);
        Ok((connection, missing))
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

    pub(crate) fn event_loop(&self) -> Result<&Arc<EventLoop>, AccessError> {
        self.event_loop.as_ref().ok_or_else(ended)
    }

    /// Waits for `work` on the calling thread.
    pub(crate) fn wait<T, E: From<AccessError>>(
        &self,
        interrupted: Interrupted<'_>,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.check_process()?;
        let _held = self.event_loop()?.hold();
        self.runtime()?.block_on(unless(interrupted, work))
    }

    /// As [`Self::wait`], for a read of a few packets: if nothing else goes on, the calling thread has the connection meanwhile.
    pub(crate) fn wait_alone<T>(
        &self,
        interrupted: Interrupted<'_>,
        work: impl Future<Output = Result<T, AccessError>>,
    ) -> Result<T, AccessError> {
        self.check_process()?;
        match self.event_loop()?.is_free() {
            true => self.event_loop()?.run(unless(interrupted, work)),
            false => self.wait(interrupted, work),
        }
    }
}

fn failed(error: &OpenError) -> AccessError {
    AccessError::new(ErrorKind::Disconnected, error.to_string())
}

fn ended() -> AccessError {
    AccessError::new(ErrorKind::Disconnected, "the connection has ended")
}

/// The result of `work`, unless it is interrupted.
async fn unless<T, E: From<AccessError>>(
    interrupted: Interrupted<'_>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(POLL_INTERVAL, &mut work).await {
            Ok(result) => return result,
            Err(_) if interrupted() => {
                return Err(AccessError::new(ErrorKind::Interrupted, "interrupted").into());
            }
            Err(_) => {}
        }
    }
}

/// Runs `work` on the open connections. It does not wait: after a fork, nobody may be there to release the lock.
fn with_open<T>(work: impl FnOnce(&mut Vec<Open>) -> T) -> Option<T> {
    for _ in 0..ATTEMPTS_MAX {
        match OPEN.try_lock() {
            Ok(mut open) => return Some(work(&mut open)),
            Err(TryLockError::Poisoned(open)) => return Some(work(&mut open.into_inner())),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}

/// An open connection of this process, unless it is lost.
fn find(way: &Way) -> Option<Arc<Connection>> {
    let process = std::process::id();
    let of_process = |open: &mut Vec<Open>| -> Vec<_> {
        let same = open.iter().filter(|one| one.process == process && one.way == *way);
        same.filter_map(|one| one.connection.upgrade()).collect()
    };
    // They are dropped without the lock.
    with_open(of_process)?.into_iter().find(|connection| {
        let endpoint = connection.endpoint.as_ref();
        endpoint.is_some_and(|endpoint| *endpoint.state().borrow() == ConnectionState::Connected)
    })
}

fn keep(way: Way, connection: &Arc<Connection>) {
    let process = connection.process;
    let added = Open { way, process, connection: Arc::downgrade(connection) };
    with_open(|open| {
        open.retain(|one| one.process == process && one.connection.strong_count() > 0);
        open.push(added);
    });
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
