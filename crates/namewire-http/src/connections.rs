//! Connections: accepted within limits, with or without TLS, and served one request at a time.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use ndn_gateway::{Connection, Connections, StallGuard, principal_of};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::counters::HttpCounters;
use crate::shared::Body;
use crate::tls::TlsFiles;

/// Maximum number of connections, which users of this host and addresses share. A further one takes the place of the oldest
/// connection without a request, of the one with the most or its own.
const CONNECTIONS_MAX: usize = 256;
/// Maximum length of the head of a request, and of one write, in bytes.
const HEAD_LEN_MAX: usize = 16 << 10;
/// Maximum number of fields of a request.
const FIELDS_MAX: usize = 64;
/// Maximum time of the handshake of TLS, to receive the head of a request, and of silence between requests.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Period over which a client has to receive `RATE_MIN` bytes per second.
pub(crate) const STALL_TIME: Duration = Duration::from_secs(10);
const RATE_MIN: u32 = 1024;
/// Pause after connections could not be accepted for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// State shared by connections.
#[derive(Debug, Clone)]
pub(crate) struct Accepting<R> {
    pub(crate) tls: Option<Arc<TlsFiles>>,
    pub(crate) counters: Arc<HttpCounters>,
    /// [`STALL_TIME`], unless a test has set it.
    pub(crate) stall_time: Duration,
    /// Responds to a request.
    pub(crate) respond: R,
}

impl<R, F> Accepting<R>
where
    R: Fn(SocketAddr, Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    /// Accepts and serves connections of all sockets forever. Dropping the future ends them.
    pub(crate) async fn accept_all(self, sockets: Vec<TcpListener>) {
        let places = Connections::new(CONNECTIONS_MAX);
        let mut accepting = JoinSet::new();
        for socket in sockets {
            let (own, places) = (self.clone(), Arc::clone(&places));
            accepting.spawn(async move {
                let mut connections = JoinSet::new();
                loop {
                    while connections.try_join_next().is_some() {}
                    match socket.accept().await {
                        Ok((stream, peer)) => {
                            let client = principal_of(stream.as_fd(), peer);
                            let place = places.admit(client);
                            match place.or_else(|| places.admit_in_place_of_own(client)) {
                                Some(place) => {
                                    connections.spawn(own.clone().hold(stream, peer, place));
                                }
                                None => own.note_broken(peer, &"its share of the connections is busy"),
                            }
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

    /// Serves a connection until it ends, or another client takes its place.
    async fn hold(self, stream: TcpStream, peer: SocketAddr, place: Connection) {
        let (end, place) = (Arc::clone(place.end()), Arc::new(place));
        tokio::select! {
            () = self.serve(stream, (peer, Arc::clone(&place))) => {}
            () = end.notified() => {
                tracing::debug!(%peer, "a connection to the HTTP API ended: another one needs its place");
            }
        }
    }

    async fn serve(self, stream: TcpStream, (peer, place): (SocketAddr, Arc<Connection>)) {
        self.counters.connections.increment();
        // Data of one write is sent at once.
        let _ = stream.set_nodelay(true);
        let stream = StallGuard::new(stream, self.stall_time, RATE_MIN);
        let Some(tls) = &self.tls else { return self.serve_stream(stream, peer, place).await };
        let session = TlsAcceptor::from(tls.current()).accept(stream);
        match tokio::time::timeout(HEAD_TIME, session).await {
            Ok(Ok(session)) => self.serve_stream(session, peer, place).await,
            Ok(Err(error)) => self.note_broken(peer, &error),
            Err(elapsed) => self.note_broken(peer, &elapsed),
        }
    }

    async fn serve_stream(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: SocketAddr,
        place: Arc<Connection>,
    ) {
        let respond = self.respond.clone();
        let service = service_fn(move |request| {
            let (response, busy) = (respond(peer, request), place.begin_request());
            async move {
                let _busy = busy;
                Ok::<_, Infallible>(response.await)
            }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_buf_size(HEAD_LEN_MAX)
            .max_headers(FIELDS_MAX)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
            .await;
        if let Err(error) = served {
            self.note_broken(peer, &error);
        }
    }

    fn note_broken(&self, peer: SocketAddr, error: &dyn std::fmt::Display) {
        self.counters.connections_broken.increment();
        tracing::debug!(%peer, %error, "a connection to the HTTP API ended early");
    }
}
