//! The application's connection to a forwarder.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use ndn_management::TopPrefix;
use ndn_packet::{Data, Name};
use ndn_security::{DigestSigner, Signer, VerifyError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::address::{AddressError, Candidates, ForwarderAddress};
use crate::connection::Connection;
use crate::content::Content;
use crate::express::{ExpressError, InterestRequest};
use crate::fetch::{
    CacheBypass, FetchError, FetchOptions, FoundObject, ObjectStream, PacketStream, Verification,
    discover, express_verified, fetch, fetch_segment, learn_certificates,
};
use crate::handle::{Common, Handle};
use crate::manage::Management;
use crate::pending::ReceivedData;
use crate::publish::{PublishError, PublishOptions, PublishedObject, SegmentedObject};
use crate::register::{RegisterError, Registration, register_again};
use crate::shared::{ConnectionState, Handler, Shared};
use crate::transport::{ConnectError, Socket};

/// Default MTU for datagrams, as for NFD's UDP faces.
const MTU_DEFAULT: usize = 8800;

/// Why an endpoint cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configured forwarder address is invalid.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// No forwarder answers at the address.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// Connection options.
#[derive(Clone)]
pub struct EndpointOptions {
    /// The forwarder's address; `None`: as configured by the environment and `client.conf`.
    pub address: Option<ForwarderAddress>,
    /// Signs management commands. Forwarders accept DigestSha256 from local applications by default.
    pub command_signer: Arc<dyn Signer>,
    /// Larger packets are fragmented over UDP.
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

/// A connection to a forwarder, to express and serve Interests. Cheap to clone; when the last clone
/// is dropped, queued output is written and the connection ends.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) handle: Handle,
}

/// The connection.
impl Endpoint {
    /// Connects to the forwarder configured by the environment or `client.conf`, or to the default
    /// sockets. A connection lost later is re-established, and prefixes are registered again.
    ///
    /// # Errors
    /// When the address is invalid or no forwarder answers; the message lists what was tried.
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
        Ok(Self::start(Some(socket), Some(candidates), Some(address), &options))
    }

    /// As [`Self::connect`]. If no forwarder answers, the result has the reason, too, and the endpoint connects once there is one.
    ///
    /// # Errors
    /// When the address is invalid.
    pub async fn connect_or_later(
        options: EndpointOptions,
    ) -> Result<(Self, Option<ConnectError>), OpenError> {
        let given = options.address.clone().map(Candidates::given);
        match Self::connect(options.clone()).await {
            Ok(endpoint) => Ok((endpoint, None)),
            Err(OpenError::Connect(reason)) => {
                let candidates = given.map_or_else(Candidates::from_environment, Ok)?;
                Ok((Self::start(None, Some(candidates), None, &options), Some(reason)))
            }
            Err(error @ OpenError::Address(_)) => Err(error),
        }
    }

    /// Runs over a connected byte stream. When it ends, the endpoint is closed.
    pub fn from_stream(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        options: &EndpointOptions,
    ) -> Self {
        Self::start(Some(Socket::of_stream(reader, writer)), None, None, options)
    }

    /// As [`Self::from_stream`], where the stream leads to the forwarder of `options.address`.
    pub fn from_stream_to_address(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        options: &EndpointOptions,
    ) -> Self {
        Self::start(Some(Socket::of_stream(reader, writer)), None, options.address.clone(), options)
    }

    fn start(
        socket: Option<Socket>,
        candidates: Option<Candidates>,
        address: Option<ForwarderAddress>,
        options: &EndpointOptions,
    ) -> Self {
        let state = match socket {
            Some(_) => ConnectionState::Connected,
            None => ConnectionState::Reconnecting,
        };
        let shared = Shared::new(state);
        shared.lock().output.set_connected(socket.is_some());
        shared.set_process(socket.as_ref().and_then(Socket::process));
        let is_local = match &socket {
            Some(Socket::Stream(..) | Socket::Memif(_)) => true,
            Some(Socket::Datagram(_) | Socket::Frames { .. }) => false,
            None => candidates.iter().flat_map(|candidates| &candidates.addresses).all(|address| {
                matches!(
                    address,
                    ForwarderAddress::Unix(_)
                        | ForwarderAddress::Tcp { .. }
                        | ForwarderAddress::Memif(_)
                )
            }),
        };
        let top = if is_local { TopPrefix::Localhost } else { TopPrefix::Localhop };
        let common = Arc::new(Common {
            shared: Arc::clone(&shared),
            command_signer: Arc::clone(&options.command_signer),
            command_prefix: top.to_name(),
            last_command_ms: AtomicU64::new(0),
            command_turn: tokio::sync::Mutex::default(),
            address,
        });
        let weak = Arc::downgrade(&common);
        let connection = Connection {
            shared,
            candidates,
            mtu: options.mtu,
            has_received: AtomicBool::new(false),
            on_reconnect: Box::new(move || {
                if let Some(common) = weak.upgrade() {
                    tokio::spawn(register_again(Handle::new(common)));
                }
            }),
        };
        let handle = Handle::new(common);
        tokio::spawn(connection.run(socket));
        Self { handle }
    }

    /// The forwarder's address of the first connection; `None` for a stream given by the caller.
    #[must_use]
    pub fn address(&self) -> Option<&ForwarderAddress> {
        self.handle.address()
    }

    /// Whether the last datagram to the forwarder was refused: no process listens on its port.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.handle.shared().is_refused()
    }

    /// The process of the forwarder of the present connection, or of the last one, if the connection is a Unix socket and the system
    /// reports it.
    #[must_use]
    pub fn forwarder_process(&self) -> Option<i32> {
        self.handle.shared().process()
    }

    /// The state of the connection, and its changes. It becomes closed when no handle is left and
    /// all output is written; over WebTransport, when the peer has been notified, too.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<ConnectionState> {
        self.handle.shared().state.subscribe()
    }

    /// The number of consecutive connections that ended before anything was received, and its
    /// changes. A forwarder that has reached its face limit accepts a connection and closes it at
    /// once, as does one that refuses this application.
    #[must_use]
    pub fn turned_away(&self) -> watch::Receiver<u32> {
        self.handle.shared().turned_away.subscribe()
    }

    /// Number of pending Interests.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.handle.shared().lock().pending.len()
    }

    /// Commands and datasets of the forwarder.
    #[must_use]
    pub fn management(&self) -> Management {
        Management::new(&self.handle)
    }
}

/// Producers.
impl Endpoint {
    /// Serves `prefix` and registers it with the forwarder. A prefix has one handler; of nested
    /// prefixes, the longest match gets the Interest.
    ///
    /// Over UDP, where the forwarder cannot detect the end of an application, the route expires
    /// after a minute and is renewed while the registration exists.
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
        self.attach(prefix, handler)?.register().await
    }

    /// Serves `prefix` without registration, for prefixes that are routed here by other means.
    ///
    /// # Errors
    /// `InUse` if this endpoint serves the prefix already.
    pub fn attach(
        &self,
        prefix: &Name,
        handler: impl Handler,
    ) -> Result<Registration, RegisterError> {
        Registration::attach(&self.handle, prefix, handler)
    }

    /// Publishes `content` as `<name>/<version>/<segment>` with RDR metadata, and registers `name`. A version at the end of `name`
    /// is that of the object.
    ///
    /// # Errors
    /// Those of [`SegmentedObject::new`], and `Register`.
    pub async fn publish(
        &self,
        name: &Name,
        content: Content,
        options: &PublishOptions,
    ) -> Result<PublishedObject, PublishError> {
        let object = SegmentedObject::new(name, content, options)?;
        PublishedObject::start(&self.handle, object).await
    }
}

/// Single packets.
impl Endpoint {
    /// Sends an Interest and waits for its Data. Dropping the future cancels.
    ///
    /// # Errors
    /// See [`ExpressError`].
    pub async fn express(&self, request: &InterestRequest) -> Result<ReceivedData, ExpressError> {
        self.handle.express(request).await
    }

    /// Expresses an Interest and verifies its answer according to `options`. After a failure it is
    /// sent again with MustBeFresh, a few times: when the FreshnessPeriod of the answer is over, or
    /// after a second, so that caches with the wrong packet do not answer. `request` has `timeout`
    /// for all of that.
    ///
    /// # Errors
    /// `Verification` for the first answer, if no other verifies; otherwise as [`Self::express`].
    pub async fn express_verified(
        &self,
        request: InterestRequest,
        timeout: Duration,
        options: &FetchOptions,
    ) -> Result<ReceivedData, ExpressError> {
        express_verified(&self.handle, request, timeout, options).await
    }

    /// Verifies received Data, and fetches missing certificates with this InterestLifetime.
    ///
    /// # Errors
    /// The reason why it does not verify.
    pub async fn verify(
        &self,
        data: &Data<'_>,
        verification: &Verification,
        lifetime: Duration,
    ) -> Result<(), VerifyError> {
        verification.check_fetching(&self.handle, lifetime, data).await
    }
}

/// Objects.
impl Endpoint {
    /// Finds the latest version of the object `name` and fetches it in its own task, which ends
    /// when the stream is dropped.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub async fn fetch(
        &self,
        name: &Name,
        options: &FetchOptions,
    ) -> Result<ObjectStream, FetchError> {
        fetch(&self.handle, name, options).await
    }

    /// Fetches the certificates needed for the segments of an object, if trust rules verify them:
    /// verification of many segments then need not wait for certificates.
    ///
    /// # Errors
    /// As [`Self::fetch_segment`], for the first segment.
    pub async fn learn_certificates(
        &self,
        found: &FoundObject,
        options: &FetchOptions,
    ) -> Result<(), FetchError> {
        learn_certificates(&self.handle, found, options).await
    }

    /// Finds the latest version of the object `name`.
    ///
    /// # Errors
    /// `Discovery`, `NotFound`, `MalformedMetadata`, `Verification`.
    pub async fn find(
        &self,
        name: &Name,
        options: &FetchOptions,
    ) -> Result<FoundObject, FetchError> {
        discover(&self.handle, name, options).await
    }

    /// Fetches the segments of an object from `first_segment` on, in its own task, which ends when
    /// the stream is dropped. An object without segments is delivered whole.
    #[must_use]
    pub fn fetch_found(
        &self,
        found: FoundObject,
        first_segment: u64,
        options: &FetchOptions,
    ) -> ObjectStream {
        ObjectStream::start(&self.handle, found, first_segment, options)
    }

    /// Fetches the packets of a segmented object from `first_segment` on, in its own task, which
    /// ends when the stream is dropped. The packets are not verified: the caller must do that.
    #[must_use]
    pub fn fetch_packets(
        &self,
        found: FoundObject,
        first_segment: u64,
        options: &FetchOptions,
    ) -> PacketStream {
        PacketStream::start(&self.handle, found, first_segment, options)
    }

    /// Fetches one segment of an object.
    ///
    /// # Errors
    /// `Failed` if there is no answer, a Nack, or an answer that fails verification.
    pub async fn fetch_segment(
        &self,
        found: &FoundObject,
        segment: u64,
        options: &FetchOptions,
    ) -> Result<ReceivedData, FetchError> {
        fetch_segment(&self.handle, found, segment, options).await
    }

    /// Requests segments that failed verification again, bypassing caches.
    #[must_use]
    pub fn cache_bypass(&self, found: &FoundObject, options: &FetchOptions) -> CacheBypass {
        CacheBypass::new(&self.handle, found, options)
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("address", &self.address()).finish_non_exhaustive()
    }
}
