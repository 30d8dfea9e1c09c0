//! The thread on which listeners and clients of a program run.

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ndn_sys::clock::Clock;
use ndn_types::LedgerReport;
use tokio::runtime;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use wtransport::quinn::{Endpoint, VarInt};

use crate::certificate::{CertificateHash, Identity};
use crate::client::{self, Target};
use crate::counters::Counters;
use crate::rotation::Rotation;
use crate::server::{Accepted, Places, Rules, Server, stream_pair};
use crate::session::{END_TIMEOUT, Timeouts};

/// Interval between checks whether a certificate has to be renewed.
const POLL_INTERVAL: Duration = Duration::from_secs(600);
/// Maximum number of commands that wait for the thread. An attempt to connect beyond it fails.
const COMMANDS_MAX: usize = 1024;
const TOO_MANY_COMMANDS: &str = "too many requests wait for the thread of WebTransport";
/// Time in which peers are notified of the end.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Parameters of the listeners.
pub struct Listen {
    /// Where to listen, as [`bind`](crate::bind) makes them.
    pub sockets: Vec<UdpSocket>,
    /// The certificate; without one, self-signed ones are made and renewed.
    pub identity: Option<Identity>,
    /// The file that keeps self-signed ones from one start to the next; its directory is made.
    pub kept_in: Option<PathBuf>,
    /// Judges and dates self-signed certificates.
    pub clock: Clock,
    /// Who may connect.
    pub rules: Rules,
    /// Told of each session, on the thread of the service.
    pub on_accepted: Box<dyn Fn(Accepted) + Send + Sync>,
}

impl fmt::Debug for Listen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Listen").field("sockets", &self.sockets).finish_non_exhaustive()
    }
}

/// Told how an attempt to connect has ended, on the thread of the service.
pub type OnConnected = Box<dyn FnOnce(Result<Accepted, String>) + Send>;

/// An attempt to connect; it ends when this is dropped, and its result is not reported then.
#[must_use]
#[derive(Debug)]
pub struct Connecting {
    _given_up: oneshot::Sender<()>,
}

/// A session to be opened.
struct Request {
    target: Target,
    addresses: Vec<SocketAddr>,
    idle_timeout: Duration,
    on_connected: OnConnected,
    given_up: oneshot::Receiver<()>,
}

enum Command {
    Connect(Request),
    SetIdentity(Identity),
}

/// The thread, as long as this is there.
pub struct Service {
    commands: Option<Sender<Command>>,
    counters: Arc<Counters>,
    hashes: Arc<Mutex<Vec<CertificateHash>>>,
    /// The handshakes and sessions of the listeners, if there are any.
    places: Option<Arc<Mutex<Places>>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Service").field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl Service {
    /// Starts the thread, and listens if that is wanted.
    ///
    /// # Errors
    /// No thread, or no certificate can be made, or the sockets cannot be used.
    pub fn start(listen: Option<Listen>) -> io::Result<Self> {
        Self::start_with(listen, Timeouts::default())
    }

    fn start_with(listen: Option<Listen>, timeouts: Timeouts) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (commands, requests) = channel(COMMANDS_MAX);
        let (counters, hashes) = (Arc::<Counters>::default(), Arc::default());
        let listening = {
            let _entered = runtime.enter();
            let listening = |listen| Listening::new(listen, timeouts, &counters, &hashes);
            listen.map(listening).transpose()?
        };
        let places = listening.as_ref().map(|one| Arc::clone(one.server.places()));
        let of_clients = Arc::clone(&counters);
        let run = move || runtime.block_on(serve(listening, requests, of_clients, timeouts));
        let thread = std::thread::Builder::new().name("webtransport".to_owned()).spawn(run)?;
        Ok(Self { commands: Some(commands), counters, hashes, places, thread: Some(thread) })
    }

    /// Opens a session with a listener at one of these addresses, and reports the result to `on_connected`. If there are no
    /// addresses, the host is looked up: a look-up cannot be ended, and waits for those before it.
    pub fn connect(
        &self,
        target: Target,
        addresses: Vec<SocketAddr>,
        idle_timeout: Duration,
        on_connected: OnConnected,
    ) -> Connecting {
        let (sender, given_up) = oneshot::channel();
        let request = Request { target, addresses, idle_timeout, on_connected, given_up };
        self.command(Command::Connect(request));
        Connecting { _given_up: sender }
    }

    /// Presents this certificate to new connections.
    pub fn set_identity(&self, identity: Identity) {
        self.command(Command::SetIdentity(identity));
    }

    /// The hash of the certificate, and of the one that will follow it where they are self-signed.
    #[must_use]
    pub fn hashes(&self) -> Vec<CertificateHash> {
        self.hashes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counters of listeners and sessions.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// The handshakes and the accepted sessions that peers hold, if there are listeners.
    #[must_use]
    pub fn place_reports(&self) -> Option<(LedgerReport<1>, LedgerReport<1>)> {
        let places = self.places.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(places.reports())
    }

    fn command(&self, command: Command) {
        if let Some(commands) = &self.commands {
            queue(commands, command);
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The thread ends when nobody can ask it for anything.
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Queues a command for the thread, or rejects it.
fn queue(commands: &Sender<Command>, command: Command) {
    match commands.try_send(command) {
        Err(TrySendError::Full(Command::Connect(request))) => {
            (request.on_connected)(Err(TOO_MANY_COMMANDS.to_owned()));
        }
        Err(TrySendError::Full(Command::SetIdentity(_))) => {
            tracing::warn!("the certificate of WebTransport stays as it was: {TOO_MANY_COMMANDS}");
        }
        Ok(()) | Err(TrySendError::Closed(_)) => {}
    }
}

/// The listeners of the thread.
struct Listening {
    server: Arc<Server>,
    endpoints: Vec<Endpoint>,
    rotation: Option<Rotation>,
    clock: Clock,
    hashes: Arc<Mutex<Vec<CertificateHash>>>,
}

impl Listening {
    fn new(
        listen: Listen,
        timeouts: Timeouts,
        counters: &Arc<Counters>,
        hashes: &Arc<Mutex<Vec<CertificateHash>>>,
    ) -> io::Result<Self> {
        let Listen { sockets, identity, kept_in, clock, rules, on_accepted } = listen;
        let server = Arc::new(Server::new(rules, Arc::clone(counters), timeouts, on_accepted));
        let rotation = match identity {
            Some(_) => None,
            None => Some(
                Rotation::new(kept_in, clock.unix_time().as_secs()).map_err(io::Error::other)?,
            ),
        };
        let first = identity.as_ref().or(rotation.as_ref().map(Rotation::current));
        let first = first.ok_or(io::ErrorKind::InvalidInput)?;
        let config = server.config(first)?;
        let endpoints = sockets
            .into_iter()
            .map(|socket| Server::endpoint(socket, config.clone()))
            .collect::<io::Result<_>>()?;
        let hash = first.hash();
        let listening = Self { server, endpoints, rotation, clock, hashes: Arc::clone(hashes) };
        listening.notify(listening.rotation.as_ref().map_or(vec![hash], Rotation::hashes));
        Ok(listening)
    }

    fn notify(&self, hashes: Vec<CertificateHash>) {
        *self.hashes.lock().unwrap_or_else(PoisonError::into_inner) = hashes;
    }

    fn install(&self, identity: &Identity) {
        match self.server.config(identity) {
            Ok(config) => {
                for endpoint in &self.endpoints {
                    endpoint.set_server_config(Some(config.clone()));
                }
            }
            Err(error) => tracing::warn!(%error, "the certificate of WebTransport stays as it was"),
        }
    }

    fn set_identity(&mut self, identity: &Identity) {
        self.rotation = None;
        self.install(identity);
        self.notify(vec![identity.hash()]);
    }

    fn poll(&mut self) {
        let Some(rotation) = &mut self.rotation else { return };
        match rotation.poll(self.clock.unix_time().as_secs()) {
            Ok(false) => {}
            Ok(true) => {
                let (current, hashes) = (rotation.current().clone(), rotation.hashes());
                for hash in &hashes {
                    tracing::info!(sha256 = %hash, "a certificate of WebTransport");
                }
                self.install(&current);
                self.notify(hashes);
            }
            Err(error) => tracing::warn!(%error, "the certificate of WebTransport is not renewed"),
        }
    }
}

async fn serve(
    mut listening: Option<Listening>,
    mut commands: Receiver<Command>,
    counters: Arc<Counters>,
    timeouts: Timeouts,
) {
    for endpoint in listening.iter().flat_map(|listening| &listening.endpoints) {
        let server = listening.as_ref().map(|listening| Arc::clone(&listening.server));
        if let Some(server) = server {
            tokio::spawn(server.listen(endpoint.clone()));
        }
    }
    let mut polls = tokio::time::interval(POLL_INTERVAL);
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            _ = polls.tick() => {
                if let Some(listening) = &mut listening {
                    listening.poll();
                }
            }
            Some(_) = clients.join_next() => {}
            command = commands.recv() => match command {
                Some(Command::Connect(request)) => {
                    clients.spawn(run_client(request, Arc::clone(&counters), timeouts));
                }
                Some(Command::SetIdentity(identity)) => {
                    if let Some(listening) = &mut listening {
                        listening.set_identity(&identity);
                    }
                }
                None => break,
            }
        }
    }
    for endpoint in listening.iter().flat_map(|listening| &listening.endpoints) {
        endpoint.close(VarInt::from_u32(0), b"");
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, endpoint.wait_idle()).await;
    }
    // Their streams have ended, or nobody reads them any more.
    let _ =
        tokio::time::timeout(END_TIMEOUT, async { while clients.join_next().await.is_some() {} })
            .await;
}

async fn run_client(request: Request, counters: Arc<Counters>, timeouts: Timeouts) {
    let Request { target, addresses, idle_timeout, on_connected, given_up } = request;
    let connected = tokio::select! {
        biased;
        _ = given_up => return,
        connected = client::connect_at(&target, addresses, idle_timeout) => connected,
    };
    let session = match connected {
        Ok(session) => session,
        Err(error) => return on_connected(Err(error.to_string())),
    };
    let (near, far) = match stream_pair() {
        Ok(pair) => pair,
        Err(error) => return on_connected(Err(error.to_string())),
    };
    let (remote, local, mtu) = (session.remote, session.local, session.mtu.clone());
    on_connected(Ok(Accepted { stream: far, remote, local, mtu, origin: None }));
    let (reader, writer) = near.into_split();
    let end = session.carry(reader, writer, &counters, timeouts).await;
    tracing::debug!(%target, %end, "a WebTransport session has ended");
}

#[cfg(test)]
mod tests;
