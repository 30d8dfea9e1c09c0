//! The application's handle to the network.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ndn_management::TopPrefix;
use ndn_packet::Name;
use ndn_security::{DigestSigner, Signer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::address::{AddressError, Candidates, ForwarderAddress};
use crate::connection::Connection;
use crate::manage::{Management, register_again};
use crate::pending::{FlowEvent, Key};
use crate::produce::Handler;
use crate::register::{RegisterError, Registration};
use crate::shared::{ConnectionState, Shared};
use crate::transport::{ConnectError, Socket};

/// Largest datagram that is sent by default: what NFD takes as the MTU of its UDP faces.
const MTU_DEFAULT: usize = 8800;

/// Why there is no endpoint.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// What names the forwarder is not an address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// No forwarder answers there.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// How an endpoint connects.
#[derive(Clone)]
pub struct EndpointOptions {
    /// Where the forwarder is; `None`: as the environment and `client.conf` say.
    pub address: Option<ForwarderAddress>,
    /// Signs management commands. Forwarders accept DigestSha256 from local applications by default.
    pub command_signer: Arc<dyn Signer>,
    /// Larger packets are fragmented when they go by UDP.
    pub mtu: usize,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self { address: None, command_signer: Arc::new(DigestSigner), mtu: MTU_DEFAULT }
    }
}

impl std::fmt::Debug for EndpointOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointOptions").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What all handles of one endpoint have in common.
pub(crate) struct Common {
    pub(crate) shared: Arc<Shared>,
    pub(crate) command_signer: Arc<dyn Signer>,
    /// `/localhost/nfd`, or `/localhop/nfd` where the forwarder does not take us for local.
    pub(crate) command_prefix: Name,
    /// SignatureTime of the last command; each is later than the one before.
    last_command_ms: AtomicU64,
    address: Option<ForwarderAddress>,
}

impl Common {
    /// Time for the next command, in milliseconds since 1970.
    pub(crate) fn next_command_ms(&self) -> u64 {
        let now = unix_ms();
        let step = |last: u64| Some(now.max(last + 1));
        match self.last_command_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
            Ok(last) | Err(last) => now.max(last + 1),
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    u64::try_from(ndn_sys::clock::wall_clock().as_millis()).unwrap_or(u64::MAX)
}

/// A connection to a forwarder, over which Interests are expressed and served. Cheap to clone; when
/// the last clone is dropped, what is queued is written and the connection ends.
pub struct Endpoint {
    common: Arc<Common>,
}

impl Endpoint {
    /// Connects to the forwarder that the environment or `client.conf` names, or to the usual
    /// sockets. Later, a lost connection is set up again, and prefixes are registered again.
    ///
    /// # Errors
    /// When the address is malformed or nobody answers there; the message says what was tried.
    pub async fn open() -> Result<Self, OpenError> {
        Self::connect(EndpointOptions::default()).await
    }

    /// As [`Self::open`], with options.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn connect(options: EndpointOptions) -> Result<Self, OpenError> {
        let candidates = match &options.address {
            Some(address) => Candidates::given(address.clone()),
            None => Candidates::from_environment()?,
        };
        let (socket, address) = Socket::connect(&candidates).await?;
        tracing::debug!(%address, "connected to the forwarder");
        Ok(Self::start(socket, Some(candidates), Some(address), &options))
    }

    /// Runs over a byte stream that is connected already. When it ends, the endpoint is closed.
    pub fn from_stream(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        options: &EndpointOptions,
    ) -> Self {
        Self::start(Socket::of_stream(reader, writer), None, None, options)
    }

    fn start(
        socket: Socket,
        candidates: Option<Candidates>,
        address: Option<ForwarderAddress>,
        options: &EndpointOptions,
    ) -> Self {
        let shared = Shared::new(ConnectionState::Connected);
        shared.lock().output.set_connected(true);
        let top = match &socket {
            Socket::Stream(..) => TopPrefix::Localhost,
            Socket::Datagram(_) => TopPrefix::Localhop,
        };
        let common = Arc::new(Common {
            shared: Arc::clone(&shared),
            command_signer: Arc::clone(&options.command_signer),
            command_prefix: top.to_name(),
            last_command_ms: AtomicU64::new(0),
            address,
        });
        let weak = Arc::downgrade(&common);
        let connection = Connection {
            shared,
            candidates,
            mtu: options.mtu,
            on_reconnect: Box::new(move || {
                if let Some(common) = weak.upgrade() {
                    tokio::spawn(register_again(Self::of(common)));
                }
            }),
        };
        let endpoint = Self::of(common);
        tokio::spawn(connection.run(socket));
        endpoint
    }

    fn of(common: Arc<Common>) -> Self {
        common.shared.add_handle();
        Self { common }
    }

    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.common.shared
    }

    /// The forwarder's address that was connected to first; `None` for a stream given by the caller.
    #[must_use]
    pub fn address(&self) -> Option<&ForwarderAddress> {
        self.common.address.as_ref()
    }

    /// The state of the connection, and its changes.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<ConnectionState> {
        self.shared().state.subscribe()
    }

    /// Number of Interests that wait for an answer.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.shared().lock().pending.len()
    }

    /// Commands and datasets of the forwarder.
    #[must_use]
    pub fn management(&self) -> Management {
        Management::new(self.clone())
    }

    /// Serves `prefix` and registers it at the forwarder, so that Interests come. A prefix has one
    /// handler; of nested prefixes the longest one that matches gets the Interest.
    ///
    /// A handler that owns an `Endpoint` keeps its own connection alive until it is unregistered.
    ///
    /// # Errors
    /// `InUse` if this endpoint serves the prefix already; `Command` if the forwarder refuses.
    pub async fn produce(
        &self,
        prefix: &Name,
        handler: impl Handler,
    ) -> Result<Registration, RegisterError> {
        let registration = self.attach(prefix, handler)?;
        registration.register().await
    }

    /// Serves `prefix` without telling the forwarder, for prefixes that are routed here otherwise.
    ///
    /// # Errors
    /// `InUse` if this endpoint serves the prefix already.
    pub fn attach(
        &self,
        prefix: &Name,
        handler: impl Handler,
    ) -> Result<Registration, RegisterError> {
        let id = self.shared().lock().routes.insert(prefix, Arc::new(handler));
        let id = id.ok_or_else(|| RegisterError::InUse(prefix.to_uri()))?;
        Ok(Registration::new(self.clone(), prefix.clone(), id))
    }

    /// Opens a flow: Data exactly one component below `prefix` come through the returned receiver,
    /// at most `capacity` waiting. For who sends many Interests with names of one prefix.
    #[must_use]
    pub fn open_flow(&self, prefix: &Name, capacity: usize) -> Flow {
        let (sender, receiver) = tokio::sync::mpsc::channel(capacity.max(1));
        let key = self.shared().lock().pending.insert_flow(prefix.as_ref(), sender);
        Flow { endpoint: self.clone(), key, receiver }
    }

    /// Sends encoded Interests that lie one behind the other. Answers come only through flows.
    pub fn send_packets(&self, packets: &[u8]) {
        self.shared().send(|output| output.push(&ndn_packet::LpHeader::default(), packets));
    }
}

impl Clone for Endpoint {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.common))
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.common.shared.remove_handle();
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("address", &self.common.address).finish_non_exhaustive()
    }
}

/// The receiving end of [`Endpoint::open_flow`]; dropped, the flow ends.
#[derive(Debug)]
pub struct Flow {
    endpoint: Endpoint,
    key: Key,
    receiver: tokio::sync::mpsc::Receiver<FlowEvent>,
}

impl Flow {
    /// Waits for events and appends them to `events`, at most `limit`; returns how many came, 0 if
    /// the endpoint is closed.
    pub async fn receive(&mut self, events: &mut Vec<FlowEvent>, limit: usize) -> usize {
        self.receiver.recv_many(events, limit).await
    }

    /// The endpoint that it belongs to.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.endpoint.shared().lock().pending.remove(&self.key);
    }
}
