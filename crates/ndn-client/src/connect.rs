//! Opens an endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use ndn_management::TopPrefix;
use ndn_security::{DigestSigner, Signer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::address::{AddressError, Candidates, ForwarderAddress};
use crate::connection::Connection;
use crate::endpoint::{Common, Endpoint};
use crate::register::register_again;
use crate::shared::{ConnectionState, Shared};
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
        Ok(Self::start(socket, Some(candidates), Some(address), &options))
    }

    /// Runs over a connected byte stream. When it ends, the endpoint is closed.
    pub fn from_stream(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        options: &EndpointOptions,
    ) -> Self {
        Self::start(Socket::of_stream(reader, writer), None, None, options)
    }

    /// As [`Self::from_stream`], where the stream leads to the forwarder of `options.address`.
    pub fn from_stream_to_address(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        options: &EndpointOptions,
    ) -> Self {
        Self::start(Socket::of_stream(reader, writer), None, options.address.clone(), options)
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
            Socket::Stream(..) | Socket::Memif(_) => TopPrefix::Localhost,
            Socket::Datagram(_) | Socket::Frames { .. } => TopPrefix::Localhop,
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
            has_received: AtomicBool::new(false),
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
}
