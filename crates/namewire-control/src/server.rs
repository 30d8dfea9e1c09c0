//! Server of the control socket.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ndn_sys::file::FileIdentity;
use ndn_sys::peer::user_of_peer;
use ndn_sys::privileges::user_name;
use ndn_sys::stream::{SocketFile, listen_unix};

use super::protocol::{LINE_LEN_MAX, Response};
use super::requests::{Operations, Request};
use super::streams::{ResponseBody, respond};

/// Maximum concurrent connections; further ones are closed at once.
const CONNECTIONS_MAX: usize = 16;
/// Timeout of a blocked write and of an incomplete request. An idle connection stays open.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time in which connections end by themselves once the socket is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection being served, and its thread.
type Connection = (UnixStream, JoinHandle<()>);

/// Number of connections that are being served.
#[derive(Debug, Default)]
struct Open {
    count: Mutex<usize>,
    /// Notified when a connection ends.
    ended: Condvar,
}

impl Open {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a connection while it exists.
struct OpenConnection(Arc<Open>);

impl OpenConnection {
    fn new(open: &Arc<Open>) -> Self {
        *open.count() += 1;
        Self(Arc::clone(open))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        *self.0.count() -= 1;
        self.0.ended.notify_one();
    }
}

/// A served control socket. Dropping it ends its threads and removes the socket file.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    /// `None` once it is removed: a further socket at the path may have its inode.
    file: Option<SocketFile>,
    stopping: Arc<AtomicBool>,
    /// Returns the connections at its end.
    accepting: Option<JoinHandle<Vec<Connection>>>,
    /// The connections when no further ones are accepted.
    connections: Vec<Connection>,
    open: Arc<Open>,
}

/// A bound socket that is not served yet: connections wait in the backlog.
#[derive(Debug)]
pub struct ControlListener {
    listener: UnixListener,
    file: SocketFile,
}

impl ControlListener {
    /// Opens the socket at `path` for its owner only. Replaces a socket file without a listener.
    ///
    /// # Errors
    /// Another process listens there (`AddrInUse`), or the file system reports an error.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (socket, file) = listen_unix(path, 0o600)?;
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(false)?;
        Ok(Self { listener, file })
    }

    /// Returns the identity of the socket file.
    #[must_use]
    pub const fn file(&self) -> FileIdentity {
        self.file.identity()
    }

    /// Serves the socket on separate threads.
    ///
    /// # Errors
    /// There is no descriptor or no thread left.
    pub fn serve(self, operations: Arc<dyn Operations>) -> io::Result<ControlSocket> {
        let Self { listener, file } = self;
        let accepted = listener.try_clone()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let open = Arc::<Open>::default();
        let (stops, opened) = (Arc::clone(&stopping), Arc::clone(&open));
        let connections = Vec::new();
        let acceptor = Acceptor { operations, connections, stopping: stops, open: opened };
        let accepting = std::thread::Builder::new()
            .name("control-socket".to_owned())
            .spawn(move || acceptor.accept_all(&accepted))?;
        let (accepting, connections) = (Some(accepting), Vec::new());
        let (path, file) = (file.path().to_owned(), Some(file));
        Ok(ControlSocket { listener, path, file, stopping, accepting, connections, open })
    }
}

impl ControlSocket {
    /// Opens the socket at `path` and serves it.
    ///
    /// # Errors
    /// As [`ControlListener::open`] and [`ControlListener::serve`].
    pub fn serve(path: &Path, operations: Arc<dyn Operations>) -> io::Result<Self> {
        ControlListener::open(path)?.serve(operations)
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts no further connections and removes the socket file. Requests of existing connections are still answered.
    pub fn close(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Wakes the accepting thread with an error, even if the socket file is gone.
        let woken = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both).is_ok();
        if let Some(accepting) = self.accepting.take().filter(|_| woken) {
            // A panic of that thread has been reported there.
            self.connections = accepting.join().unwrap_or_default();
        }
        self.file = None;
    }
}

impl Drop for ControlSocket {
    /// The operations must not wait for the thread that drops the socket.
    fn drop(&mut self) {
        if self.accepting.is_some() {
            self.close();
        }
        let shut_down = |connections: &[Connection], how| {
            for (stream, _) in connections {
                // A connection that has ended cannot be shut down any more.
                let _ = rustix::net::shutdown(stream, how);
            }
        };
        // A capture or an answer may still be written.
        shut_down(&self.connections, rustix::net::Shutdown::Read);
        let count = self.open.count();
        let ended = self.open.ended.wait_timeout_while(count, CLOSE_TIMEOUT, |count| *count > 0);
        drop(ended);
        shut_down(&self.connections, rustix::net::Shutdown::Both);
        for (_, thread) in self.connections.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Acceptor {
    operations: Arc<dyn Operations>,
    connections: Vec<Connection>,
    stopping: Arc<AtomicBool>,
    open: Arc<Open>,
}

impl Acceptor {
    fn accept_all(mut self, listener: &UnixListener) -> Vec<Connection> {
        for stream in listener.incoming() {
            if self.stopping.load(Ordering::Acquire) {
                break;
            }
            match stream {
                Ok(stream) => self.serve_on_a_thread(stream),
                // Out of descriptors: accepting again at once would spin.
                Err(error) => {
                    tracing::warn!(%error, "the control socket cannot accept");
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
        self.connections
    }

    fn serve_on_a_thread(&mut self, stream: UnixStream) {
        self.connections.retain(|(_, thread)| !thread.is_finished());
        if self.connections.len() >= CONNECTIONS_MAX {
            tracing::warn!("the control socket has too many connections");
            return;
        }
        let operations = Arc::clone(&self.operations);
        let served = stream.try_clone().and_then(|served| {
            let open = OpenConnection::new(&self.open);
            let serving = move || {
                let _open = open;
                if let Err(error) = serve_connection(&served, operations.as_ref()) {
                    tracing::debug!(%error, "a control connection ended");
                }
                // The acceptor still has a descriptor of the connection.
                let _ = rustix::net::shutdown(&served, rustix::net::Shutdown::Both);
            };
            std::thread::Builder::new().name("control".to_owned()).spawn(serving)
        });
        match served {
            Ok(thread) => self.connections.push((stream, thread)),
            Err(error) => tracing::warn!(%error, "no thread for a control connection"),
        }
    }
}

/// The name of the user whose process is connected, or its number.
fn user_of(stream: &UnixStream) -> String {
    user_of_peer(stream).map_or_else(|_| "unknown".to_owned(), user_name)
}

fn serve_connection(stream: &UnixStream, operations: &dyn Operations) -> io::Result<()> {
    stream.set_write_timeout(Some(STALL_TIMEOUT))?;
    stream.set_read_timeout(Some(STALL_TIMEOUT))?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    let mut user = None;
    loop {
        line.clear();
        let limit = u64::try_from(LINE_LEN_MAX).unwrap_or(u64::MAX);
        match reader.by_ref().take(limit).read_line(&mut line) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && line.is_empty() => continue,
            Err(error) => return Err(error),
        }
        if !line.ends_with('\n') {
            respond(stream, &Response::Error("the request is too long or has no end".to_owned()))?;
            return Ok(());
        }
        let request: Request = match serde_json::from_str(&line) {
            Ok(request) => request,
            Err(error) => {
                respond(stream, &Response::Error(format!("not a request: {error}")))?;
                continue;
            }
        };
        let audited = request.audited();
        if let Some((operation, parameters)) = &audited {
            let user = user.get_or_insert_with(|| user_of(stream)).as_str();
            // Before it is executed, which may take long or change what is logged.
            tracing::info!(user, operation, parameters, "request by the control socket");
        }
        let executed = request.execute(operations);
        if let (Some((operation, _)), Err(reason)) = (&audited, &executed) {
            let user = user.as_deref().unwrap_or_default();
            tracing::warn!(user, operation, reason, "request by the control socket was rejected");
        }
        match executed {
            Ok(ResponseBody::Result(value)) => respond(stream, &Response::Result(value))?,
            Ok(ResponseBody::Stream(answer)) => {
                if answer(stream)?.is_break() {
                    return Ok(());
                }
            }
            Err(reason) => respond(stream, &Response::Error(reason))?,
        }
    }
}
