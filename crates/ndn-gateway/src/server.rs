//! Connections of HTTP clients, and their limits.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use ndn_access::Catalog;
use ndn_client::Endpoint;
use ndn_client::fetch::FetchOptions;
use ndn_packet::Name;
use ndn_types::PrincipalKey;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::access::Tokens;
use crate::access_log::{AccessLog, Counters, Record};
use crate::body::GatewayBody;
use crate::connections::{Connection, Connections};
use crate::lookups::Lookups;
use crate::respond::{Client, Shared, respond};
use crate::shares::principal_of;
use crate::stall_guard::StallGuard;
use crate::transfers::Transfers;

/// Maximum length of a request's head, and of one write, in bytes.
const HEAD_LEN_MAX: usize = 128 << 10;
/// Maximum length of a request body that is read, in bytes.
const BODY_LEN_MAX: usize = 64 << 10;
/// Pause after connections could not be accepted for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Limits on clients.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of connections. A further one takes the place of one of the address with the most; if its own
    /// address has its share, it is closed.
    pub connections: usize,
    /// Maximum number of transfers. A further one takes the place of one of the address with the most; if its own
    /// address has its share, it waits, and is rejected after 30 s.
    pub transfers: usize,
    /// Maximum number of segments fetched ahead per client.
    pub read_ahead_segments: u32,
    /// Maximum time to receive the head of a request, and of silence between requests.
    pub head_time: Duration,
    /// Period over which `rate_min` is averaged.
    pub stall_time: Duration,
    /// Minimum rate at which a client must receive available data, in bytes per second, averaged
    /// over `stall_time`; 0 for no minimum.
    pub rate_min: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            transfers: 64,
            read_ahead_segments: 256,
            head_time: Duration::from_secs(30),
            stall_time: Duration::from_secs(60),
            rate_min: 1024,
        }
    }
}

/// Options of a gateway.
#[derive(Debug, Clone)]
pub struct GatewayOptions {
    /// Name of the path `/`.
    pub prefix: Name,
    /// Parameters of the fetching and verification of files.
    pub fetching: FetchOptions,
    /// Lifetime of cached metadata.
    pub metadata_lifetime: Duration,
    /// Whether to serve a version older than one verified before. Otherwise it is rejected for the
    /// life of the gateway.
    pub allow_older: bool,
    /// Limits on clients.
    pub limits: Limits,
    /// Further host names allowed over loopback.
    pub hosts: Vec<String>,
    /// The name under which the prefix is a bucket of S3; `None`: no S3.
    pub bucket: Option<String>,
    /// Tokens of clients; without any, everybody may read.
    pub tokens: Tokens,
    /// Certificate and key of TLS; `None`: no TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// The access log.
    pub log: AccessLog,
}

/// A gateway from HTTP to the NDN file service.
#[derive(Debug)]
pub struct Gateway {
    shared: Arc<Shared>,
    limits: Limits,
    tls: Option<Arc<ServerConfig>>,
    connections: Arc<Connections>,
    log: AccessLog,
    counters: Arc<Counters>,
}

impl Gateway {
    /// A gateway over `endpoint`.
    #[must_use]
    pub fn new(endpoint: Endpoint, options: GatewayOptions) -> Self {
        let GatewayOptions {
            prefix,
            mut fetching,
            metadata_lifetime,
            allow_older,
            limits,
            hosts,
            bucket,
            tokens,
            tls,
            log,
        } = options;
        fetching.config.buffer_segments = limits.read_ahead_segments.max(1);
        let catalog = Catalog::new(endpoint.clone(), &fetching, metadata_lifetime, allow_older);
        let transfers = Transfers::new(limits.transfers);
        let lookups = Lookups::new(ndn_access::LOOKUPS_MAX);
        let shared =
            Shared { endpoint, prefix, catalog, hosts, bucket, tokens, transfers, lookups };
        let shared = Arc::new(shared);
        let connections = Connections::new(limits.connections);
        Self { shared, limits, tls, connections, log, counters: Arc::default() }
    }

    /// Counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Serves clients of `listener` forever. Dropping the future ends their connections.
    pub async fn serve(&self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, peer)) => {
                    self.counters.count_connection();
                    // An address that has used up its share gets no answer: that would use more.
                    let principal = principal_of(stream.as_fd(), peer);
                    let Some(own) = self.connections.admit(principal) else {
                        tracing::debug!(%peer, "the address has its share of the connections");
                        continue;
                    };
                    connections.spawn(self.connection(stream, (peer, principal), own));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn connection(
        &self,
        stream: TcpStream,
        (peer, principal): (SocketAddr, PrincipalKey),
        own: Connection,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (shared, log) = (Arc::clone(&self.shared), self.log.clone());
        let (counters, limits) = (Arc::clone(&self.counters), self.limits);
        let tls = self.tls.clone().map(TlsAcceptor::from);
        async move {
            // Data of one write is sent at once.
            let _ = stream.set_nodelay(true);
            let is_local =
                stream.local_addr().is_ok_and(|own| own.ip().to_canonical().is_loopback());
            let (end, own) = (Arc::clone(own.end()), Arc::new(own));
            let client = Client { principal, end: Arc::clone(&end), is_local };
            let served = Arc::clone(&own);
            let service = service_fn(move |request: Request<Incoming>| {
                let record = Record::new(&log, &counters, peer, unix_time());
                let (shared, client) = (Arc::clone(&shared), client.clone());
                let busy = served.begin_request();
                async move {
                    let _busy = busy;
                    // Request bodies are not used.
                    let (head, body) = request.into_parts();
                    let drained = tokio::time::timeout(limits.head_time, drain(body)).await;
                    if drained.is_err() {
                        tracing::debug!(%peer, "a request body arrives too slowly");
                    }
                    let response = respond(&shared, &client, &head, record).await;
                    Ok::<Response<GatewayBody>, Infallible>(response)
                }
            });
            let mut builder = http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(limits.head_time)
                .max_buf_size(HEAD_LEN_MAX);
            let stream = StallGuard::new(stream, limits.stall_time, limits.rate_min);
            let served = async {
                let Some(tls) = tls else {
                    return builder.serve_connection(TokioIo::new(stream), service).await;
                };
                match tokio::time::timeout(limits.head_time, tls.accept(stream)).await {
                    Ok(Ok(stream)) => builder.serve_connection(TokioIo::new(stream), service).await,
                    Ok(Err(error)) => {
                        tracing::debug!(%peer, %error, "no session of TLS");
                        Ok(())
                    }
                    Err(_) => Ok(()),
                }
            };
            tokio::select! {
                result = served => if let Err(error) = result {
                    tracing::debug!(%peer, %error, "a connection ended early");
                },
                () = end.notified() => {
                    tracing::debug!(%peer, "the connection ended: another address has fewer");
                }
            }
            drop(own);
        }
    }
}

/// Reads a short request body, such as that of PROPFIND; a longer one is left, and its connection ends.
async fn drain(mut body: Incoming) {
    let mut left = BODY_LEN_MAX;
    while let Some(Ok(frame)) =
        std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
    {
        let length = frame.data_ref().map_or(0, Bytes::len);
        let Some(rest) = left.checked_sub(length) else { return };
        left = rest;
    }
}

/// Time since 1970, for the log of requests.
#[expect(clippy::disallowed_methods, reason = "a server of HTTP, in real time")]
fn unix_time() -> Duration {
    ndn_sys::clock::wall_clock()
}
