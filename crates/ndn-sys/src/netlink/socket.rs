//! Asking the kernel, and taking its answer.

use std::io;
use std::time::Duration;

use rustix::net::{RecvFlags, recv};
use socket2::{Domain, Protocol, Socket, Type};

use crate::netlink::message::{Message, Request, messages, read_u32};

/// Message types and flags that every family of netlink has.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const FLAG_MULTI: u16 = 2;
const FLAG_DUMP_INTERRUPTED: u16 = 0x10;
/// Requests are marked as such.
pub(super) const FLAG_REQUEST: u16 = 1;
/// Everything there is of a kind.
pub(super) const FLAG_DUMP: u16 = 0x300;

/// Timeout of an answer, which the kernel sends immediately.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The kernel fills at most 32 KiB at a time.
const BUFFER_LENGTH: usize = 64 << 10;
/// Maximum attempts for a dump that was interrupted by a change.
const ATTEMPTS: usize = 8;

/// A netlink socket of one family.
#[derive(Debug)]
pub(super) struct NetlinkSocket {
    socket: Socket,
    sequence: u32,
}

impl NetlinkSocket {
    /// A socket of the family `NETLINK_*`.
    pub(super) fn new(family: libc::c_int) -> io::Result<Self> {
        let kind = Type::RAW.cloexec();
        let socket =
            Socket::new(Domain::from(libc::AF_NETLINK), kind, Some(Protocol::from(family)))?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends the request, and gives each message of the answer to `take`; repeats that if the list
    /// has changed meanwhile.
    pub(super) fn call<T>(
        &mut self,
        request: impl Fn() -> Request,
        take: impl Fn(&Message<'_>) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        for _ in 0..ATTEMPTS {
            self.sequence += 1;
            self.socket.send(&request().finish(self.sequence))?;
            if let Some(found) = self.answer(&take)? {
                return Ok(found);
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// None if the list was not consistent.
    fn answer<T>(&self, take: impl Fn(&Message<'_>) -> Option<T>) -> io::Result<Option<Vec<T>>> {
        let mut found = Vec::new();
        let mut is_consistent = true;
        let mut buffer = vec![0; BUFFER_LENGTH];
        loop {
            let (length, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            let mut is_multi = false;
            for message in messages(&buffer[..length]) {
                if message.sequence != self.sequence {
                    continue;
                }
                is_multi |= message.flags & FLAG_MULTI != 0;
                is_consistent &= message.flags & FLAG_DUMP_INTERRUPTED == 0;
                match message.kind {
                    DONE => return Ok(is_consistent.then_some(found)),
                    ERROR => {
                        // A negated error number; 0 acknowledges.
                        let code = read_u32(message.payload, 0).unwrap_or(0).cast_signed();
                        if code != 0 {
                            return Err(io::Error::from_raw_os_error(-code));
                        }
                    }
                    _ => found.extend(take(&message)),
                }
            }
            if !is_multi && !found.is_empty() {
                return Ok(Some(found));
            }
        }
    }
}
