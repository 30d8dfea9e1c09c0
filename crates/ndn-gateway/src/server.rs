//! Connections of HTTP clients, and their limits.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use ndn_client::Endpoint;
use ndn_client::fetch::FetchOptions;
use ndn_packet::Name;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::access_log::{AccessLog, Counters, Record};
use crate::body::GatewayBody;
use crate::catalog::Catalog;
use crate::peers::{Peer, Peers};
use crate::respond::{Client, Shared, respond};
use crate::stall_guard::StallGuard;

/// Longest head of a request, and what is written at once, in bytes.
const HEAD_LEN_MAX: usize = 128 << 10;
/// Pause after connections could not be accepted, because no descriptors were left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What clients may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time; further ones wait to be accepted.
    pub connections: usize,
    /// Transfers at a time; further ones wait, and are refused after 30 s.
    pub transfers: usize,
    /// Segments that are fetched ahead of each client.
    pub read_ahead_segments: u32,
    /// How long the head of a request may take, and a connection may be silent between requests.
    pub head_time: Duration,
    /// Connections of one address at a time; further ones are closed.
    pub connections_per_address: usize,
    /// Transfers of one address at a time; further ones wait, and are refused after 30 s.
    pub transfers_per_address: usize,
    /// How long a client may take less than `rate_min` of what waits for it.
    pub stall_time: Duration,
    /// Bytes in each second that a client has to take of what waits for it, on an average over
    /// `stall_time`; 0 for any.
    pub rate_min: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            transfers: 64,
            read_ahead_segments: 256,
            head_time: Duration::from_secs(30),
            connections_per_address: 256,
            transfers_per_address: 16,
            stall_time: Duration::from_secs(60),
            rate_min: 1024,
        }
    }
}

/// What a gateway offers, and how.
#[derive(Debug, Clone)]
pub struct GatewayOptions {
    /// Name of what the path `/` stands for.
    pub prefix: Name,
    /// How files are fetched and verified.
    pub fetching: FetchOptions,
    /// How long metadata counts without being asked for again.
    pub metadata_lifetime: Duration,
    /// Whether an older version is served than one that a key has vouched for before. Otherwise it is
    /// refused for as long as the gateway lives.
    pub allow_older: bool,
    /// What clients may take.
    pub limits: Limits,
    /// Host names accepted over loopback, beside those of this machine.
    pub hosts: Vec<String>,
    /// Where requests are written down.
    pub log: AccessLog,
}

/// A gateway from HTTP to the file service.
#[derive(Debug)]
pub struct Gateway {
    shared: Arc<Shared>,
    limits: Limits,
    peers: Peers,
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
            log,
        } = options;
        fetching.config.buffer_segments = limits.read_ahead_segments.max(1);
        let catalog = Catalog::new(endpoint.clone(), &fetching, metadata_lifetime, allow_older);
        let transfers = Arc::new(Semaphore::new(limits.transfers.max(1)));
        let shared = Arc::new(Shared { endpoint, prefix, catalog, hosts, transfers });
        let peers = Peers::new(limits.connections_per_address, limits.transfers_per_address);
        Self { shared, limits, peers, log, counters: Arc::default() }
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Serves clients of `listener`, without an end. Dropped, it ends their connections.
    pub async fn serve(&self, listener: TcpListener) {
        let permits = Arc::new(Semaphore::new(self.limits.connections.max(1)));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    self.counters.count_connection();
                    // An address at its limit gets no response: that would use more of it.
                    let Some((share, own)) = self.peers.admit(peer) else {
                        tracing::debug!(%peer, "the address has as many connections as it may");
                        continue;
                    };
                    connections.spawn(self.connection(stream, peer, share, [permit, own]));
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
        peer: SocketAddr,
        share: Arc<Peer>,
        permits: [OwnedSemaphorePermit; 2],
    ) -> impl Future<Output = ()> + Send + 'static {
        let (shared, log) = (Arc::clone(&self.shared), self.log.clone());
        let (counters, limits) = (Arc::clone(&self.counters), self.limits);
        async move {
            // What is written in one go is sent at once.
            let _ = stream.set_nodelay(true);
            let is_local =
                stream.local_addr().is_ok_and(|own| own.ip().to_canonical().is_loopback());
            let client = Client { share, is_local };
            let service = service_fn(move |request: Request<Incoming>| {
                let record = Record::new(&log, &counters, peer, ndn_sys::clock::wall_clock());
                let (shared, client) = (Arc::clone(&shared), client.clone());
                async move {
                    // Bodies of requests are of no use here, and are not read.
                    let (head, _) = request.into_parts();
                    let response = respond(&shared, &client, &head, record).await;
                    Ok::<Response<GatewayBody>, Infallible>(response)
                }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.head_time)
                .max_buf_size(HEAD_LEN_MAX)
                .serve_connection(
                    TokioIo::new(StallGuard::new(stream, limits.stall_time, limits.rate_min)),
                    service,
                );
            if let Err(error) = served.await {
                tracing::debug!(%peer, %error, "a connection ended early");
            }
            drop(permits);
        }
    }
}
