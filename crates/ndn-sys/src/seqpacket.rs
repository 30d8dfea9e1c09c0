//! Messages over Unix sockets that carry descriptors (`SOCK_SEQPACKET`, `SCM_RIGHTS`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::stream::unix_socket;

/// Maximum number of descriptors of one message; the kernel closes further ones.
const DESCRIPTORS_MAX: usize = 4;

/// A received message.
#[derive(Debug)]
pub struct Message {
    /// Its length, bytes; 0 is the end of the connection.
    pub length: usize,
    /// It did not fit the buffer, or carried more descriptors than the maximum.
    pub is_truncated: bool,
    /// The descriptors that accompanied it, closed on drop.
    pub descriptors: Vec<OwnedFd>,
}

/// Connects to the listener `path`; see [`Listener::unix_messages`](crate::stream::Listener::unix_messages).
/// It succeeds or fails at once.
///
/// # Errors
/// Those of `connect(2)`; [`io::ErrorKind::WouldBlock`] if the listener's queue is full.
pub fn connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = unix_socket(SocketType::SEQPACKET)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Two connected sockets.
///
/// # Errors
/// Those of `socketpair(2)`.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// The user whom the other side ran as when it connected, as the kernel knows it (`SO_PEERCRED`).
///
/// # Errors
/// Those of `getsockopt(2)`.
pub fn user_of_peer(socket: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(process_of_peer(socket)?.0)
}

/// The user ID and the process ID of the other side when it connected, as the kernel knows them (`SO_PEERCRED`). The
/// process ID is 0 if the process belongs to another PID namespace.
///
/// # Errors
/// Those of `getsockopt(2)`.
pub fn process_of_peer(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    // rustix reads the process ID as a number that is not 0, which it need not be.
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    let value = (&raw mut peer).cast();
    // SAFETY: the kernel writes at most `length` bytes to `peer`, whose fields are integers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            value,
            &mut length,
        )
    };
    match result {
        0 => Ok((peer.uid, peer.pid.cast_unsigned())),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends one message, with a descriptor or without.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if there is no room, else those of `sendmsg(2)`.
pub fn send(
    socket: BorrowedFd<'_>,
    message: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.as_slice();
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let slices = [IoSlice::new(message)];
    loop {
        match rustix::net::sendmsg(socket, &slices, &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            // A message is sent whole or not at all.
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Receives one message.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if there is none, else those of `recvmsg(2)`.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Message> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut slices = [IoSliceMut::new(buffer)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        match rustix::net::recvmsg(socket, &mut slices, &mut control, flags) {
            Err(Errno::INTR) => {}
            result => break result?,
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let is_truncated = received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    Ok(Message { length: received.bytes, is_truncated, descriptors })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn message_boundaries_are_kept_and_descriptors_passed() {
        let (near, far) = pair().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        send(near.as_fd(), b"with", Some(writer.as_fd())).unwrap();
        send(near.as_fd(), b"without", None).unwrap();
        drop(writer);
        let mut buffer = [0; 16];
        let mut first = receive(far.as_fd(), &mut buffer).unwrap();
        assert_eq!((first.length, first.is_truncated), (4, false));
        let carried = first.descriptors.pop().unwrap();
        rustix::io::write(&carried, b"x").unwrap();
        assert_eq!(rustix::io::read(&reader, &mut [0_u8; 4]).unwrap(), 1);
        let second = receive(far.as_fd(), &mut buffer).unwrap();
        assert_eq!(&buffer[..second.length], b"without");
        assert!(second.descriptors.is_empty());
        let nothing = receive(far.as_fd(), &mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        send(near.as_fd(), b"longer than four", None).unwrap();
        assert!(receive(far.as_fd(), &mut [0; 4]).unwrap().is_truncated);
        drop(near);
        assert_eq!(receive(far.as_fd(), &mut buffer).unwrap().length, 0);
    }

    #[test]
    fn listener_accepts_connections() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("messages.sock");
        let mut listener = crate::stream::Listener::unix_messages(&path, 0o600).unwrap();
        assert!(crate::stream::Listener::unix_messages(&path, 0o600).is_err());
        let client = connect(&path).unwrap();
        let accepted = listener.accept().unwrap();
        send(client.as_fd(), b"hello", None).unwrap();
        assert_eq!(receive(accepted.stream.as_fd(), &mut [0; 8]).unwrap().length, 5);
        drop(listener);
        assert!(connect(&path).is_err());
    }
}
