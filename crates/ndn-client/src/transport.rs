//! Sockets to the forwarder.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ndn_memif::DisconnectReason;
use ndn_webtransport::{Attached, PathMtu};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UdpSocket, UnixStream, lookup_host};
use tokio::task::JoinHandle;

use crate::address::{AddressSource, Candidates, Family, ForwarderAddress};
use crate::framer::FrameError;
use crate::memif::{MemifRefusal, MemifSocket};

/// How long one attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// After how long without a sign of life a WebTransport session has ended.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Receive buffer of a UDP socket.
const DATAGRAM_BUFFER_LEN: usize = 8 * 1024 * 1024;

/// Send buffer of a Unix socket.
const STREAM_BUFFER_LEN: usize = 1024 * 1024;

/// Why there is no connection to a forwarder.
#[derive(Debug, Error)]
#[error(
    "{begin} {tried}{source_text}: {error}{advice}",
    begin = ConnectFailure::of(.error).words(),
    tried = .tried.iter().map(ToString::to_string).collect::<Vec<_>>().join(", nor at "),
    source_text = origin(.source),
    advice = advice(.source, .error)
)]
pub struct ConnectError {
    /// Addresses that were tried.
    pub tried: Vec<ForwarderAddress>,
    /// Where they come from.
    pub source: AddressSource,
    /// What the last attempt, or the most telling one, failed with.
    #[source]
    pub error: io::Error,
}

/// What kind of failure it is that there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectFailure {
    /// Nobody answers, or not as a forwarder would.
    Unreachable,
    /// There is a forwarder, and it does not want this program; it says why.
    Refused,
    /// What was asked for, in an address or in the environment, cannot be.
    Unusable,
}

impl ConnectFailure {
    /// Of an error of [`ConnectError`], or one of [`explain_memif`](crate::explain_memif).
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        let is_own = error.get_ref().is_some();
        if error.get_ref().is_some_and(|inner| inner.is::<MemifRefusal>()) {
            Self::Refused
        } else if is_own && error.kind() == io::ErrorKind::InvalidInput {
            Self::Unusable
        } else {
            Self::Unreachable
        }
    }

    /// How its text begins, before the address.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Unreachable => "no forwarder can be reached at",
            Self::Refused => "there is no connection to",
            Self::Unusable => "cannot connect to",
        }
    }
}

/// Where an address comes from, beside it; who has given it knows.
fn origin(source: &AddressSource) -> String {
    if *source == AddressSource::Given { String::new() } else { format!(" ({source})") }
}

fn advice(source: &AddressSource, error: &io::Error) -> String {
    // It says what is to be done: there is somebody, or an address that cannot be.
    let is_told = matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput);
    if is_told || ConnectFailure::of(error) != ConnectFailure::Unreachable {
        return String::new();
    }
    format!(". {}", next_step(source, error))
}

fn next_step(source: &AddressSource, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return "This user may not open the socket: run as another user, or change the socket's mode in \
                the forwarder's configuration."
            .to_owned();
    }
    match source {
        AddressSource::Given => "Is the forwarder running there?".to_owned(),
        AddressSource::Environment => {
            "Is the forwarder running there? Otherwise change or unset the variable.".to_owned()
        }
        AddressSource::File(path) => {
            format!("Is the forwarder running there? Otherwise change {}.", path.display())
        }
        AddressSource::Default => {
            "Start one (namewire run), or name another with NDN_CLIENT_TRANSPORT=unix:///path, or with \
             transport=… in ~/.ndn/client.conf."
                .to_owned()
        }
    }
}

/// Why a connection ended.
#[derive(Debug, Error)]
pub(crate) enum ConnectionError {
    #[error("the forwarder closed the connection")]
    Closed,
    #[error("the forwarder has left: {0}")]
    Left(DisconnectReason),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Frame(#[from] FrameError),
}

/// A connected socket.
pub(crate) enum Socket {
    /// Packets follow one another in a byte stream.
    Stream(Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>),
    /// Frames follow one another in a byte stream, none longer than the session takes.
    Frames {
        reader: Box<dyn AsyncRead + Send + Unpin>,
        writer: Box<dyn AsyncWrite + Send + Unpin>,
        mtu: PathMtu,
        /// Done once the other side knows of the end.
        end: JoinHandle<()>,
    },
    /// Each datagram is one packet.
    Datagram(UdpSocket),
    /// Frames travel through shared memory.
    Memif(Box<MemifSocket>),
}

impl Socket {
    /// Wraps the two directions of a stream.
    pub(crate) fn of_stream(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::Stream(Box::new(reader), Box::new(writer))
    }

    /// Tries the candidates in turn; returns the socket and the address that worked.
    pub(crate) async fn connect(
        candidates: &Candidates,
    ) -> Result<(Self, ForwarderAddress), ConnectError> {
        let mut kept: Option<io::Error> = None;
        for address in &candidates.addresses {
            let attempt = tokio::time::timeout(CONNECT_TIMEOUT, Self::open(address)).await;
            match attempt.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(socket) => return Ok((socket, address.clone())),
                // A socket that is there and refuses tells more than one that is not there.
                Err(error) => {
                    if kept.as_ref().is_none_or(|kept| kept.kind() == io::ErrorKind::NotFound) {
                        kept = Some(error);
                    }
                }
            }
        }
        Err(ConnectError {
            tried: candidates.addresses.clone(),
            source: candidates.source.clone(),
            error: kept.unwrap_or_else(|| io::ErrorKind::NotFound.into()),
        })
    }

    async fn open(address: &ForwarderAddress) -> io::Result<Self> {
        match address {
            ForwarderAddress::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                // The kernel's default holds two dozen packets: each write would be cut in pieces.
                let _ = socket2::SockRef::from(&stream).set_send_buffer_size(STREAM_BUFFER_LEN);
                let (reader, writer) = stream.into_split();
                Ok(Self::of_stream(reader, writer))
            }
            ForwarderAddress::Memif(address) => {
                Ok(Self::Memif(Box::new(MemifSocket::connect(address).await?)))
            }
            ForwarderAddress::WebTransport(target) => {
                let attached = ndn_webtransport::attach(target, SESSION_IDLE_TIMEOUT).await;
                let Attached { stream, mtu, end } = attached.map_err(|error| match error {
                    ndn_webtransport::ConnectError::NotTrusted(_) => {
                        io::Error::new(io::ErrorKind::InvalidData, error)
                    }
                    ndn_webtransport::ConnectError::Failed(_) => io::Error::other(error),
                })?;
                let (reader, writer) = tokio::io::split(stream);
                let (reader, writer) = (Box::new(reader), Box::new(writer));
                Ok(Self::Frames { reader, writer, mtu, end })
            }
            ForwarderAddress::Tcp { host, port, family } => {
                let stream = TcpStream::connect(&*resolve(host, *port, *family).await?).await?;
                stream.set_nodelay(true)?;
                let (reader, writer) = stream.into_split();
                Ok(Self::of_stream(reader, writer))
            }
            ForwarderAddress::Udp { host, port, family } => {
                let remotes = resolve(host, *port, *family).await?;
                let local: SocketAddr = match remotes.first() {
                    Some(SocketAddr::V6(_)) => ([0; 16], 0).into(),
                    _ => ([0; 4], 0).into(),
                };
                let socket = UdpSocket::bind(local).await?;
                // As much as the kernel allows: a window of Data comes in one burst.
                let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(DATAGRAM_BUFFER_LEN);
                socket.connect(&*remotes).await?;
                Ok(Self::Datagram(socket))
            }
        }
    }
}

async fn resolve(host: &str, port: u16, family: Option<Family>) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<_> = lookup_host((host, port))
        .await?
        .filter(|address| match family {
            Some(Family::V4) => address.is_ipv4(),
            Some(Family::V6) => address.is_ipv6(),
            None => true,
        })
        .collect();
    if found.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            format!("{host} has no address of the demanded family"),
        ));
    }
    Ok(found)
}
