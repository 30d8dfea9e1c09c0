//! Hearing of changes at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

/// `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR` and `RTMGRP_IPV6_IFADDR`.
const LINKS: u32 = 0x1 | 0x10 | 0x100;

/// Readable after a network device or an address of one has come, changed or gone.
#[derive(Debug)]
pub struct LinkMonitor {
    socket: OwnedFd,
}

impl LinkMonitor {
    /// Hears of changes from now on.
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

    /// Makes it unreadable. Look for changes after this, not before, or one may be missed.
    pub fn reset(&self) {
        // What has changed is asked for anyway: also after an overflow, which is an error that is
        // told once.
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
    fn a_monitor_can_be_made_and_is_not_waited_for() {
        let monitor = LinkMonitor::new().unwrap();
        monitor.reset();
        monitor.reset();
    }
}
