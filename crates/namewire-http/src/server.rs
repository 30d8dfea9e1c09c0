//! The listening sockets, and the thread of the server.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use namewire_config::Http;
use namewire_control::Operations;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};

use crate::admission::{Admission, Rate};
use crate::calls::{CALLS_MAX, Calls};
use crate::connections::{Accepting, STALL_TIME};
use crate::graphql::sampler::Sampler;
use crate::graphql::schema;
use crate::graphql::waiting::WaitingConnections;
use crate::graphql::websocket::SOCKETS_MAX;
use crate::respond::respond;
use crate::shared::Shared;
use crate::tasks::{TaskPrograms, Tasks};
use crate::tls::TlsFiles;
use crate::tokens::{TokenFile, Tokens};

/// Open sockets that are not served yet: connections wait in the backlog.
#[derive(Debug)]
pub struct HttpListener {
    sockets: Vec<StdListener>,
    settings: Http,
    tls: Option<Arc<TlsFiles>>,
    is_ready: Arc<AtomicBool>,
    programs: Option<TaskPrograms>,
    stall_time: Duration,
}

impl HttpListener {
    /// Opens the configured sockets and reads the certificate; `None` if the API is off.
    ///
    /// # Errors
    /// An address or the certificate cannot be used; the error names it.
    pub fn open(settings: &Http) -> io::Result<Option<Self>> {
        if !settings.enabled {
            return Ok(None);
        }
        let open = |address: &SocketAddr| {
            let named = |error: io::Error| {
                let reason = if error.kind() == io::ErrorKind::AddrInUse {
                    format!(
                        "HTTP port {} is in use on {}; choose another with --http, or in control.http.listen",
                        address.port(),
                        address.ip()
                    )
                } else {
                    format!("control.http.listen: {address}: {error}")
                };
                io::Error::new(error.kind(), reason)
            };
            let socket = StdListener::bind(address).map_err(named)?;
            socket.set_nonblocking(true).map_err(named)?;
            Ok(socket)
        };
        let tls = match (&settings.tls_certificate, &settings.tls_key) {
            (Some(certificate), Some(key)) => {
                let opened = TlsFiles::open(certificate.clone(), key.clone());
                let named = |error: io::Error| {
                    io::Error::new(error.kind(), format!("control.http.tls_certificate: {error}"))
                };
                Some(Arc::new(opened.map_err(named)?))
            }
            (_, _) => None,
        };
        let sockets = settings.listen.iter().map(open).collect::<io::Result<_>>()?;
        let (settings, is_ready) = (settings.clone(), Arc::default());
        let (programs, stall_time) = (None, STALL_TIME);
        Ok(Some(Self { sockets, settings, tls, is_ready, programs, stall_time }))
    }

    /// Lets the API start tasks with these programs.
    #[must_use]
    pub fn with_programs(self, programs: TaskPrograms) -> Self {
        Self { programs: Some(programs), ..self }
    }

    /// Ends the connection of a client that receives almost nothing for this time, in place of 10 s.
    #[must_use]
    pub fn with_stall_time(self, stall_time: Duration) -> Self {
        Self { stall_time, ..self }
    }

    /// `https` if connections use TLS, otherwise `http`.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
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

    /// Makes the file of tokens if there is none: before the API is announced, so that a program that waits for it can
    /// read its token.
    ///
    /// # Errors
    /// The file of tokens cannot be made.
    pub fn make_tokens(&self) -> io::Result<()> {
        self.token_file()?.create()
    }

    fn token_file(&self) -> io::Result<TokenFile> {
        let file = self.settings.token_file().ok_or_else(|| {
            io::Error::other("control.http.tokens: there is no state directory; name a file")
        })?;
        Ok(TokenFile::new(file))
    }

    /// Serves the sockets on a thread, with the tokens of [`make_tokens`](Self::make_tokens).
    ///
    /// # Errors
    /// The file of tokens cannot be used, or there is no thread or descriptor left.
    pub fn serve(self, operations: Arc<dyn Operations>) -> io::Result<HttpServer> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(CALLS_MAX)
            .thread_name("http-call")
            .build()?;
        let file = self.token_file()?;
        let Http { mut hosts, origins, listen, .. } = self.settings;
        // An address in the field Host is not a name that a foreign page can have.
        let own = listen.iter().map(SocketAddr::ip).filter(|address| !address.is_unspecified());
        hosts.extend(own.map(|address| match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        }));
        let is_ready = self.is_ready;
        let (calls, sampler) = (Calls::new(operations), Sampler::new());
        let tasks = Tasks::new(self.programs);
        let shared = Arc::new(Shared {
            admission: Admission { hosts, origins },
            schema: schema(Some((calls.clone(), sampler.clone(), tasks.clone())))
                .map_err(io::Error::other)?,
            waiting: WaitingConnections::default(),
            sockets: Arc::new(Semaphore::new(SOCKETS_MAX)),
            rate: Rate::default(),
            tokens: Tokens::new(file),
            calls,
            counters: Arc::default(),
            is_ready: Arc::clone(&is_ready),
        });
        let sockets = {
            let _entered = runtime.enter();
            let sockets = self.sockets.into_iter().map(TcpListener::from_std);
            sockets.collect::<io::Result<Vec<_>>>()?
        };
        let responding = Arc::clone(&shared);
        let accepting = Accepting {
            tls: self.tls,
            counters: Arc::clone(&shared.counters),
            stall_time: self.stall_time,
            respond: move |peer, request| {
                let shared = Arc::clone(&responding);
                async move { respond(&shared, peer, request).await }
            },
        };
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let serving = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accepting.accept_all(sockets) => {}
                    () = sampler.run(&shared.calls) => {}
                    () = stopped.notified() => {}
                }
            });
            // An operation that the control thread does not answer any more must not delay the end.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(serving)?;
        Ok(HttpServer { stop, thread: Some(thread), is_ready, tasks })
    }
}

/// A running server. Dropping it ends its connections and its tasks.
#[derive(Debug)]
pub struct HttpServer {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
    is_ready: Arc<AtomicBool>,
    tasks: Tasks,
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.is_ready.store(false, Ordering::Release);
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported there.
            let _ = thread.join();
        }
        self.tasks.end_all();
    }
}
