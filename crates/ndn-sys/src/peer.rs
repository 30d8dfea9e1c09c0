//! User and process at the other end of a Unix socket.

use std::io;
use std::os::unix::net::UnixStream;

/// The user who connected, or listens.
///
/// # Errors
/// Those of `SO_PEERCRED`.
#[cfg(target_os = "linux")]
pub fn user_of_peer(stream: &UnixStream) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(stream)?.uid.as_raw())
}

/// The user who connected, or listens.
///
/// # Errors
/// Those of `getpeereid(3)`.
#[cfg(not(target_os = "linux"))]
pub fn user_of_peer(stream: &UnixStream) -> io::Result<u32> {
    use std::os::fd::AsRawFd;
    let (mut user, mut group) = (0, 0);
    // SAFETY: both are live places for a number.
    match unsafe { libc::getpeereid(stream.as_raw_fd(), &raw mut user, &raw mut group) } {
        0 => Ok(user),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The process id, if the system reports it.
#[must_use]
pub fn process_of_peer(stream: &UnixStream) -> Option<i32> {
    #[cfg(target_os = "linux")]
    return Some(rustix::net::sockopt::socket_peercred(stream).ok()?.pid.as_raw_nonzero().get());
    #[cfg(not(target_os = "linux"))]
    {
        let _ = stream;
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn peer_within_the_process_has_its_user_and_number() {
        let (near, _far) = UnixStream::pair().unwrap();
        assert_eq!(user_of_peer(&near).unwrap(), rustix::process::geteuid().as_raw());
        let process = process_of_peer(&near).and_then(|id| u32::try_from(id).ok());
        assert_eq!(process, cfg!(target_os = "linux").then(std::process::id));
    }
}
