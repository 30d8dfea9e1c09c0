//! Common parts of stream and datagram sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::net::SocketAddrAny;
use socket2::{Domain, Protocol, Socket, Type};

/// A non-blocking socket for the family of `address`. An IPv6 socket takes IPv6 only, so that
/// IPv4 has sockets of its own and no mapped addresses appear.
pub(crate) fn new_socket(
    address: SocketAddr,
    kind: Type,
    protocol: Protocol,
) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind.nonblocking(), Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Sets an integer option that the other crates do not know.
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    // SAFETY: the value is a live integer of the given length.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(&value).cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an integer option that the other crates do not know.
pub(crate) fn option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    // SAFETY: the kernel writes at most `length` bytes, to a live integer of that length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_mut(&mut value).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// The internet address in `address`, if it is one.
pub(crate) fn internet_address(address: SocketAddrAny) -> Option<SocketAddr> {
    SocketAddr::try_from(address).ok()
}

/// The address that `socket` is bound to, for an internet socket.
///
/// # Errors
/// Those of `getsockname(2)`.
pub(crate) fn local_address(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    internet_address(rustix::net::getsockname(socket)?)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not an internet socket"))
}
