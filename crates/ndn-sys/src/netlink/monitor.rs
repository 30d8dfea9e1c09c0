//! Notification of changes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

/// `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR` and `RTMGRP_IPV6_IFADDR`.
const LINKS: u32 = 0x1 | 0x10 | 0x100;

/// Readable after a network device or an address was added, changed or removed.
#[derive(Debug)]
pub struct LinkMonitor {
    socket: OwnedFd,
}

impl LinkMonitor {
    /// Starts to receive notifications.
    ///
    /// # Errors
    /// Those of netlink sockets.
    pub fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // The protocol is NETLINK_ROUTE, which is 0.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, LINKS))?;
        Ok(Self { socket })
    }

    /// Makes it unreadable. Read the state after this, not before, or a change may be missed.
    pub fn reset(&self) {
        // The content does not matter, since the caller reads the whole state; so an overflow, which is reported
        // once, is no error.
        let mut buffer = [0; 8192];
        loop {
            match recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok(_) | Err(rustix::io::Errno::NOBUFS | rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn reset_of_a_monitor_does_not_block() {
        let monitor = LinkMonitor::new().unwrap();
        monitor.reset();
        monitor.reset();
    }
}
