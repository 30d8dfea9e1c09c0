//! The listening sockets, the thread of the server, and its connections.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use namewire_config::Http;
use namewire_control::Operations;
use ndn_gateway::StallGuard;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use crate::admission::{Admission, Rate};
use crate::calls::{CALLS_MAX, Calls};
use crate::counters::HttpCounters;
use crate::graphql::sampler::Sampler;
use crate::graphql::schema;
use crate::graphql::waiting::Waiting;
use crate::graphql::websocket::SOCKETS_MAX;
use crate::respond::respond;
use crate::shared::Shared;
use crate::tokens::{TokenFile, Tokens};

/// Maximum number of connections. Further ones wait until one ends.
pub(crate) const CONNECTIONS_MAX: usize = 256;
/// Maximum length of the head of a request, and of one write, in bytes.
const HEAD_LEN_MAX: usize = 16 << 10;
/// Maximum number of fields of a request.
const FIELDS_MAX: usize = 64;
/// Maximum time to receive the head of a request, and of silence between requests.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Period over which a client has to receive `RATE_MIN` bytes per second.
const STALL_TIME: Duration = Duration::from_secs(10);
const RATE_MIN: u32 = 1024;
/// Pause after connections could not be accepted for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Open sockets that are not served yet: connections wait in the backlog.
#[derive(Debug)]
pub struct HttpListener {
    sockets: Vec<StdListener>,
    settings: Http,
    is_ready: Arc<AtomicBool>,
}

impl HttpListener {
    /// Opens the configured sockets; `None` if the API is off.
    ///
    /// # Errors
    /// An address cannot be used; the error names it.
    pub fn open(settings: &Http) -> io::Result<Option<Self>> {
        if !settings.enabled {
            return Ok(None);
        }
        let open = |address: &SocketAddr| {
            let named = |error: io::Error| {
                io::Error::new(error.kind(), format!("control.http.listen: {address}: {error}"))
            };
            let socket = StdListener::bind(address).map_err(named)?;
            socket.set_nonblocking(true).map_err(named)?;
            Ok(socket)
        };
        let sockets = settings.listen.iter().map(open).collect::<io::Result<_>>()?;
        Ok(Some(Self { sockets, settings: settings.clone(), is_ready: Arc::default() }))
    }

    /// The addresses, with the ports that the kernel has chosen.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect()
    }

    /// The flag that `/ready` shows. The program sets it when the forwarder accepts connections.
    #[must_use]
    pub fn ready(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_ready)
    }

    /// Serves the sockets on a thread. The first time, this makes the file of tokens.
    ///
    /// # Errors
    /// The file of tokens cannot be made or used, or there is no thread or descriptor left.
    pub fn serve(self, operations: Arc<dyn Operations>) -> io::Result<HttpServer> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(CALLS_MAX)
            .thread_name("http-call")
            .build()?;
        let file = self.settings.token_file().ok_or_else(|| {
            io::Error::other("control.http.tokens: there is no state directory; name a file")
        })?;
        let file = TokenFile::new(file);
        file.create()?;
        let Http { hosts, origins, .. } = self.settings;
        let is_ready = self.is_ready;
        let (calls, sampler) = (Calls::new(operations), Sampler::new());
        let shared = Arc::new(Shared {
            admission: Admission { hosts, origins },
            schema: schema(Some((calls.clone(), sampler.clone()))).map_err(io::Error::other)?,
            waiting: Waiting::default(),
            sockets: Arc::new(Semaphore::new(SOCKETS_MAX)),
            rate: Rate::default(),
            tokens: Tokens::new(file),
            calls,
            counters: HttpCounters::default(),
            is_ready: Arc::clone(&is_ready),
        });
        let sockets = {
            let _entered = runtime.enter();
            let sockets = self.sockets.into_iter().map(TcpListener::from_std);
            sockets.collect::<io::Result<Vec<_>>>()?
        };
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let serving = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept_all(sockets, &shared) => {}
                    () = sampler.run(&shared.calls) => {}
                    () = stopped.notified() => {}
                }
            });
            // An operation that the control thread does not answer any more must not delay the end.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(serving)?;
        Ok(HttpServer { stop, thread: Some(thread), is_ready })
    }
}

/// A running server. Dropping it ends its connections.
#[derive(Debug)]
pub struct HttpServer {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
    is_ready: Arc<AtomicBool>,
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.is_ready.store(false, Ordering::Release);
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported there.
            let _ = thread.join();
        }
    }
}

/// Accepts and serves connections of all sockets forever. Dropping the future ends them.
async fn accept_all(sockets: Vec<TcpListener>, shared: &Arc<Shared>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut accepting = JoinSet::new();
    for socket in sockets {
        let (shared, permits) = (Arc::clone(shared), Arc::clone(&permits));
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                while connections.try_join_next().is_some() {}
                let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
                match socket.accept().await {
                    Ok((stream, peer)) => {
                        let shared = Arc::clone(&shared);
                        connections.spawn(async move {
                            serve_connection(stream, peer, shared).await;
                            drop(permit);
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection to the HTTP API cannot be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        });
    }
    while accepting.join_next().await.is_some() {}
}

async fn serve_connection(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>) {
    shared.counters.connections.increment();
    // Data of one write is sent at once.
    let _ = stream.set_nodelay(true);
    let serving = Arc::clone(&shared);
    let service = service_fn(move |request| {
        let shared = Arc::clone(&serving);
        async move { Ok::<_, Infallible>(respond(&shared, peer, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_LEN_MAX)
        .max_headers(FIELDS_MAX)
        .serve_connection(TokioIo::new(StallGuard::new(stream, STALL_TIME, RATE_MIN)), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        shared.counters.connections_broken.increment();
        tracing::debug!(%peer, %error, "a connection to the HTTP API ended early");
    }
}
