//! Transports to the forwarder.

use std::io::{self, ErrorKind, IoSlice};
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::num::NonZeroI32;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ndn_memif::DisconnectReason;
use ndn_webtransport::{Attached, PathMtu};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::{TcpStream, UdpSocket, UnixStream, lookup_host};
use tokio::task::JoinHandle;

use crate::address::{AddressSource, Candidates, Family, ForwarderAddress};
use crate::framer::FrameError;
use crate::memif::{MemifRefusal, MemifSocket};

/// Time limit of one connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Idle time-out of a WebTransport session.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Receive buffer of a UDP socket.
const DATAGRAM_BUFFER_LEN: usize = 8 * 1024 * 1024;

/// Send buffer of a Unix socket.
const STREAM_BUFFER_LEN: usize = 1024 * 1024;

/// Why the connection failed.
#[derive(Debug, Error)]
#[error(
    "{begin} {tried}{source_text}: {error}{advice}",
    begin = ConnectFailure::of(.error).words(),
    tried = .tried.iter().map(ToString::to_string).collect::<Vec<_>>().join(", nor at "),
    source_text = origin(.source),
    advice = advice(.source, .error)
)]
pub struct ConnectError {
    /// Addresses tried.
    pub tried: Vec<ForwarderAddress>,
    /// Their origin.
    pub source: AddressSource,
    /// The error of the last attempt, or the most specific one.
    #[source]
    pub error: io::Error,
}

/// Kind of a connection failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectFailure {
    /// No answer, or not from a forwarder.
    Unreachable,
    /// The forwarder refused this program, with a reason.
    Refused,
    /// The configured address or secret is invalid.
    Unusable,
}

impl ConnectFailure {
    /// Classifies an error of [`ConnectError`] or [`explain_memif`](crate::explain_memif).
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        let is_own = error.get_ref().is_some();
        if error.get_ref().is_some_and(|inner| inner.is::<MemifRefusal>()) {
            Self::Refused
        } else if is_own && error.kind() == ErrorKind::InvalidInput {
            Self::Unusable
        } else {
            Self::Unreachable
        }
    }

    /// Beginning of its message, before the address.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Unreachable => "no forwarder can be reached at",
            Self::Refused => "there is no connection to",
            Self::Unusable => "cannot connect to",
        }
    }
}

/// The origin of an address, in parentheses; empty for one given by the caller.
fn origin(source: &AddressSource) -> String {
    if *source == AddressSource::Given { String::new() } else { format!(" ({source})") }
}

fn advice(source: &AddressSource, error: &io::Error) -> String {
    // The error says itself what to do.
    let is_informed = matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::InvalidInput);
    if is_informed || ConnectFailure::of(error) != ConnectFailure::Unreachable {
        return String::new();
    }
    format!(". {}", next_step(source, error))
}

fn next_step(source: &AddressSource, error: &io::Error) -> String {
    if error.kind() == ErrorKind::PermissionDenied {
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
            "Start one (namewire start), or name another with NDN_CLIENT_TRANSPORT=unix:///path, or with \
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
    /// Packets in a byte stream, and the process at its other end if that is known.
    Stream(
        Box<dyn AsyncRead + Send + Unpin>,
        Box<dyn AsyncWrite + Send + Unpin>,
        Option<NonZeroI32>,
    ),
    /// Frames in a byte stream, limited to what the session accepts.
    Frames {
        reader: Box<dyn AsyncRead + Send + Unpin>,
        writer: Box<dyn AsyncWrite + Send + Unpin>,
        mtu: PathMtu,
        /// Completes once the peer has been notified of the end.
        end: JoinHandle<()>,
    },
    /// Each datagram is one packet.
    Datagram(UdpSocket),
    /// Frames in shared memory.
    Memif(Box<MemifSocket>),
}

impl Socket {
    /// Wraps the two directions of a stream.
    pub(crate) fn of_stream(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::Stream(Box::new(reader), Box::new(writer), None)
    }

    /// The process at the other end, if it is known.
    pub(crate) const fn process(&self) -> Option<NonZeroI32> {
        if let Self::Stream(_, _, process) = self { *process } else { None }
    }

    /// Tries the candidates in order; returns the socket and the address that worked.
    pub(crate) async fn connect(
        candidates: &Candidates,
    ) -> Result<(Self, ForwarderAddress), ConnectError> {
        let mut kept: Option<io::Error> = None;
        for address in &candidates.addresses {
            let attempt = tokio::time::timeout(CONNECT_TIMEOUT, Self::open(address)).await;
            match attempt.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())) {
                Ok(socket) => return Ok((socket, address.clone())),
                // A refusal is more specific than a missing socket.
                Err(error) => {
                    if kept.as_ref().is_none_or(|kept| kept.kind() == ErrorKind::NotFound) {
                        kept = Some(error);
                    }
                }
            }
        }
        Err(ConnectError {
            tried: candidates.addresses.clone(),
            source: candidates.source.clone(),
            error: kept.unwrap_or_else(|| ErrorKind::NotFound.into()),
        })
    }

    async fn open(address: &ForwarderAddress) -> io::Result<Self> {
        match address {
            ForwarderAddress::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                // The kernel's default holds two dozen packets: each write would be split.
                let _ = socket2::SockRef::from(&stream).set_send_buffer_size(STREAM_BUFFER_LEN);
                let process = ndn_sys::peer::process_of_peer(&stream).and_then(NonZeroI32::new);
                let (reader, writer) = stream.into_split();
                let (reader, writer) = (Box::new(reader), Box::new(QuietWriter::new(writer)));
                Ok(Self::Stream(reader, writer, process))
            }
            ForwarderAddress::Memif(address) => {
                Ok(Self::Memif(Box::new(MemifSocket::connect(address).await?)))
            }
            ForwarderAddress::WebTransport(target) => {
                let attached = ndn_webtransport::attach(target, SESSION_IDLE_TIMEOUT).await;
                let Attached { stream, mtu, end } = attached.map_err(|error| match error {
                    ndn_webtransport::ConnectError::NotTrusted(_) => {
                        io::Error::new(ErrorKind::InvalidData, error)
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
                Ok(Self::of_stream(reader, QuietWriter::new(writer)))
            }
            ForwarderAddress::Udp { host, port, family } => {
                let remotes = resolve(host, *port, *family).await?;
                let local: SocketAddr = match remotes.first() {
                    Some(SocketAddr::V6(_)) => ([0; 16], 0).into(),
                    _ => ([0; 4], 0).into(),
                };
                let socket = UdpSocket::bind(local).await?;
                // As much as the kernel allows: a window of Data arrives in one burst.
                let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(DATAGRAM_BUFFER_LEN);
                socket.connect(&*remotes).await?;
                Ok(Self::Datagram(socket))
            }
        }
    }
}

/// Where the kernel has this flag; macOS has an option of sockets instead, SO_NOSIGPIPE, which mio sets.
#[cfg(not(target_vendor = "apple"))]
const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
const SEND_FLAGS: SendFlags = SendFlags::empty();

/// The writing half of a stream. It raises no SIGPIPE when the peer has closed the connection: the thread that writes may be one of
/// a program that leaves this signal as it is.
struct QuietWriter<H, S> {
    half: H,
    stream: PhantomData<fn() -> S>,
}

impl<H: AsRef<S>, S: QuietStream> QuietWriter<H, S> {
    fn new(half: H) -> Self {
        Self { half, stream: PhantomData }
    }
}

/// A stream of the kernel.
trait QuietStream: AsFd {
    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn try_write_by(&self, write: impl FnOnce() -> io::Result<usize>) -> io::Result<usize>;

    fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let send =
            || rustix::net::sendmsg(self, slices, &mut SendAncillaryBuffer::default(), SEND_FLAGS);
        self.try_write_by(|| Ok(send()?))
    }
}

impl QuietStream for UnixStream {
    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_ready(context)
    }

    fn try_write_by(&self, write: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        self.try_io(Interest::WRITABLE, write)
    }
}

impl QuietStream for TcpStream {
    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_ready(context)
    }

    fn try_write_by(&self, write: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        self.try_io(Interest::WRITABLE, write)
    }
}

impl<H, S> AsyncWrite for QuietWriter<H, S>
where
    H: AsyncWrite + AsRef<S> + Unpin,
    S: QuietStream,
{
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = self.half.as_ref();
        loop {
            ready!(stream.poll_writable(context))?;
            match stream.try_send(slices) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.half).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.half).poll_shutdown(context)
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
            ErrorKind::AddrNotAvailable,
            format!("{host} has no address of the required family"),
        ));
    }
    Ok(found)
}

/// Waits until a datagram can be received, or an ICMP error about an earlier one has arrived, which
/// is returned.
pub(crate) async fn readable(socket: &UdpSocket) -> io::Result<Option<io::Error>> {
    loop {
        let ready = socket.ready(Interest::READABLE | Interest::ERROR).await?;
        if ready.is_error() {
            let error = socket.take_error()?;
            // The readiness was not used: wait again.
            let _ = socket.try_io(Interest::ERROR, || Err::<(), _>(ErrorKind::WouldBlock.into()));
            if error.is_some() {
                return Ok(error);
            }
        }
        if ready.is_readable() || ready.is_read_closed() {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[tokio::test]
    async fn icmp_errors_are_reported_one_by_one_with_data_between() {
        // Not in the range where other tests look for free ports.
        let peer = UdpSocket::bind("127.77.0.1:0").await.unwrap();
        let address = peer.local_addr().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(address).await.unwrap();
        let own = socket.local_addr().unwrap();
        drop(peer);
        for _ in 0..3 {
            socket.send(&[1]).await.unwrap();
            let error = readable(&socket).await.unwrap().unwrap();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        }
        let peer = UdpSocket::bind(address).await.unwrap();
        peer.send_to(&[2], own).await.unwrap();
        assert!(readable(&socket).await.unwrap().is_none());
        let mut buffer = [0; 8];
        assert_eq!(socket.try_recv(&mut buffer).unwrap(), 1);
    }
}
