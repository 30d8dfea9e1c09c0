//! Unix and TCP stream sockets, all of them non-blocking.

use std::fs;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use socket2::{Protocol, Socket, TcpKeepalive, Type};

use crate::file::FileIdentity;
use crate::socket::{internet_address, local_address, new_socket};

/// Connections that the kernel completes before they are accepted.
const BACKLOG: i32 = 1024;
/// Send buffer of a Unix connection: the kernel's default holds two dozen large packets, so that most
/// bursts would find it full.
const UNIX_SEND_BUFFER_LEN: usize = 1 << 20;

/// Idle time after which TCP keepalive probes begin.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
/// Interval of keepalive probes; after the system's number of probes the connection fails.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Slices that one [`write_vectored`] takes at most (`IOV_MAX` of Linux).
pub const WRITE_SLICES_MAX: usize = 1024;

/// Reads available bytes, at most `buffer.len()`. 0 is the end of the stream.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if there is nothing yet, else those of `read(2)`.
#[inline]
pub fn read(stream: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match rustix::io::read(stream, &mut *buffer) {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Writes as much of `slices` (at most [`WRITE_SLICES_MAX`]) as there is room for.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if there is no room, else those of `writev(2)`.
#[inline]
pub fn write_vectored(stream: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    loop {
        match rustix::io::writev(stream, slices) {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Bytes that were written and that the peer (Unix) or the peer's kernel (TCP) has not taken yet.
///
/// # Errors
/// Those of `ioctl(2)`.
pub fn unsent_bytes(stream: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: `SIOCOUTQ`, the same number as `TIOCOUTQ`, stores one integer.
    let result = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 {
        Ok(usize::try_from(bytes).unwrap_or(0))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The error that is pending on a socket, such as that of a connection attempt; cleared by this.
///
/// # Errors
/// The pending error, or those of `getsockopt(2)`.
pub fn take_error(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::sockopt::socket_error(socket)??)
}

/// Starts to connect to a Unix socket. Unlike TCP this succeeds or fails at once.
///
/// # Errors
/// Those of `connect(2)`; [`io::ErrorKind::WouldBlock`] if the listener's queue is full.
pub fn connect_unix(path: &Path) -> io::Result<OwnedFd> {
    let socket = unix_socket(SocketType::STREAM)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Starts to connect to `remote` by TCP. The socket becomes writable when the attempt has ended;
/// [`take_error`] then returns the result.
///
/// # Errors
/// If the attempt cannot even be started.
pub fn connect_tcp(remote: SocketAddr) -> io::Result<OwnedFd> {
    let socket = new_socket(remote, Type::STREAM, Protocol::TCP)?;
    prepare_tcp(&socket)?;
    match socket.connect(&remote.into()) {
        Ok(()) => Ok(socket.into()),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(socket.into()),
        Err(error) => Err(error),
    }
}

/// The two addresses of a connected TCP socket: ours, and the peer's.
///
/// # Errors
/// If the socket is not connected.
pub fn tcp_addresses(socket: BorrowedFd<'_>) -> io::Result<(SocketAddr, SocketAddr)> {
    let peer = rustix::net::getpeername(socket)?.and_then(internet_address);
    Ok((local_address(socket)?, peer.ok_or(io::ErrorKind::NotConnected)?))
}

/// Two connected Unix sockets.
///
/// # Errors
/// Those of `socketpair(2)`.
pub fn unix_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// A connection that a listener has accepted; non-blocking.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: OwnedFd,
    /// The peer, for TCP.
    pub peer: Option<SocketAddr>,
}

/// Why there is no connection to take.
#[derive(Debug)]
pub enum AcceptError {
    /// No connection is waiting.
    WouldBlock,
    /// A waiting peer was rejected, because the process or the system has no
    /// descriptors left. Others may be waiting.
    DescriptorsExhausted,
    /// A connection keeps waiting, because there is no memory or descriptor for it: the listener
    /// stays readable. Try again after a while.
    NoResources(io::Error),
    /// The peer gave up, or the network failed for it. Others may be waiting.
    ConnectionLost(io::Error),
    /// The listener does not work any more.
    Listener(io::Error),
}

/// A listening stream socket that survives the exhaustion of descriptors.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// A descriptor to give up when none is left, so that a waiting peer can be accepted and
    /// closed instead of keeping the listener readable for ever.
    reserve: Option<OwnedFd>,
    /// The file of a Unix socket, removed on drop.
    file: Option<SocketFile>,
}

impl Listener {
    /// Listens on `address`. Port 0 chooses one; see [`local_address`](Self::local_address).
    ///
    /// # Errors
    /// Those of `bind(2)` and `listen(2)`, such as an address that is in use.
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        let socket = new_socket(address, Type::STREAM, Protocol::TCP)?;
        socket.set_reuse_address(true)?;
        // Accepted connections inherit it.
        prepare_tcp(&socket)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(Self { socket: socket.into(), reserve: reserve_descriptor(), file: None })
    }

    /// Listens on the Unix socket `path`, with the permission bits `mode`. A socket file that
    /// without a listener is replaced. The file is removed when the listener is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if another process listens on it,
    /// [`io::ErrorKind::AlreadyExists`] if the path is something else than a socket, and those
    /// of `bind(2)`.
    pub fn unix(path: &Path, mode: u32) -> io::Result<Self> {
        Self::unix_of(SocketType::STREAM, path, mode)
    }

    /// As [`unix`](Self::unix), for connections that keep the limits of messages (`SOCK_SEQPACKET`).
    ///
    /// # Errors
    /// As for [`unix`](Self::unix).
    pub fn unix_messages(path: &Path, mode: u32) -> io::Result<Self> {
        Self::unix_of(SocketType::SEQPACKET, path, mode)
    }

    fn unix_of(kind: SocketType, path: &Path, mode: u32) -> io::Result<Self> {
        let (socket, file) = listen_at(kind, path, mode)?;
        Ok(Self { socket, reserve: reserve_descriptor(), file: Some(file) })
    }

    /// Takes one connection.
    ///
    /// # Errors
    /// See [`AcceptError`].
    pub fn accept(&mut self) -> Result<Accepted, AcceptError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::acceptfrom_with(&self.socket, flags) {
            Ok((stream, peer)) => {
                let peer = peer.and_then(internet_address);
                if peer.is_none() {
                    // The kernel tunes the buffers of TCP by itself.
                    let _ = rustix::net::sockopt::set_socket_send_buffer_size(
                        &stream,
                        UNIX_SEND_BUFFER_LEN,
                    );
                }
                Ok(Accepted { stream, peer })
            }
            Err(Errno::WOULDBLOCK) => Err(AcceptError::WouldBlock),
            Err(Errno::MFILE | Errno::NFILE) => Err(self.reject_connection()),
            Err(error @ (Errno::NOBUFS | Errno::NOMEM)) => {
                Err(AcceptError::NoResources(error.into()))
            }
            // Errors of the new connection, not of the listener (accept(2), "Error handling").
            Err(
                error @ (Errno::INTR
                | Errno::CONNABORTED
                | Errno::PERM
                | Errno::PROTO
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NOPROTOOPT
                | Errno::OPNOTSUPP),
            ) => Err(AcceptError::ConnectionLost(error.into())),
            Err(error) => Err(AcceptError::Listener(error.into())),
        }
    }

    /// Accepts and closes one connection with the descriptor that was kept for it.
    fn reject_connection(&mut self) -> AcceptError {
        self.reserve = None;
        let accepted = rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC);
        let result = match accepted {
            Ok(peer) => {
                drop(peer);
                AcceptError::DescriptorsExhausted
            }
            Err(Errno::WOULDBLOCK) => AcceptError::WouldBlock,
            // Another thread was faster to take the descriptor, or there was none to give up.
            Err(error) => AcceptError::NoResources(error.into()),
        };
        self.reserve = reserve_descriptor();
        result
    }

    /// The address that a TCP listener is bound to.
    ///
    /// # Errors
    /// For a Unix listener, or if `getsockname(2)` fails.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        local_address(self.socket.as_fd())
    }

    /// The path of a Unix listener.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    /// Which file the socket of a Unix listener is.
    #[must_use]
    pub fn file_identity(&self) -> Option<FileIdentity> {
        self.file.as_ref().map(|file| file.identity)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A socket file of ours. Dropping it removes the file.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// To leave alone a file that has replaced ours.
    identity: FileIdentity,
}

impl SocketFile {
    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its identity while it exists.
    #[must_use]
    pub const fn identity(&self) -> FileIdentity {
        self.identity
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if FileIdentity::of(&self.path).is_ok_and(|now| now == self.identity) {
            // Nothing to do about a failure: the next start finds a stale file and replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A non-blocking stream socket that listens on `path`, and its file, which has the permission bits `mode` from the
/// moment it exists. See [`Listener::unix`].
///
/// # Errors
/// As for [`Listener::unix`].
pub fn listen_unix(path: &Path, mode: u32) -> io::Result<(OwnedFd, SocketFile)> {
    listen_at(SocketType::STREAM, path, mode)
}

fn listen_at(kind: SocketType, path: &Path, mode: u32) -> io::Result<(OwnedFd, SocketFile)> {
    let address = SocketAddrUnix::new(path)?;
    let socket = unix_socket(kind)?;
    // Linux gives the file the mode of the socket's inode, less the umask: it is never open to more users than `mode`
    // permits, not even before the next call.
    rustix::fs::fchmod(&socket, Mode::from_bits_truncate(mode))?;
    match rustix::net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE) => {
            remove_stale(path)?;
            rustix::net::bind(&socket, &address)?;
        }
        result => result?,
    }
    let identity = set_socket_mode(path, mode)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok((socket, SocketFile { path: path.into(), identity }))
}

/// Sets the permission bits of the socket file `path` that this process has just bound, and says which
/// file that is. Nothing else is changed, whatever the owner of the directory: no link is followed, and a socket
/// of another user or with a second name is refused.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] if something else is there, and those of `open(2)` and `chmod(2)`.
pub fn set_socket_mode(path: &Path, mode: u32) -> io::Result<FileIdentity> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::open(path, flags, Mode::empty())?;
    let state = rustix::fs::fstat(&found)?;
    let is_ours = rustix::fs::FileType::from_raw_mode(state.st_mode).is_socket()
        && state.st_uid == rustix::process::geteuid().as_raw()
        && state.st_nlink == 1;
    if !is_ours {
        let text = format!("{} is not the socket that was made there", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    if state.st_mode & 0o7777 != mode & 0o7777 {
        // chmod(2) takes no such descriptor, but this leads to the file that it stands for.
        let file = format!("/proc/self/fd/{}", found.as_raw_fd());
        fs::set_permissions(file, fs::Permissions::from_mode(mode))?;
    }
    FileIdentity::of_descriptor(&found)
}

/// No waiting for more to send, and an end to connections whose peer has vanished.
fn prepare_tcp(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME).with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&keepalive)
}

pub(crate) fn unix_socket(kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

fn reserve_descriptor() -> Option<OwnedFd> {
    fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

/// Removes the socket file `path` if it has no listener.
fn remove_stale(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        let text = format!("{} exists and is not a socket", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    match connect_unix(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // Connected, or a full queue: there is a listener.
        Ok(_) | Err(_) => {
            let text = format!("another process listens on {}", path.display());
            Err(io::Error::new(io::ErrorKind::AddrInUse, text))
        }
    }
}
