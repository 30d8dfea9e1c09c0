//! Many messages by one `recvmmsg`.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use crate::udp::address::KernelAddress;

/// Room for the control messages of one message: segment size, drop count and time stamp.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_LENGTH]);

const CONTROL_LENGTH: usize = 96;

/// One received message: one datagram, or several of one sender that the kernel has joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// Bytes received. They fill the first buffer of the pair, then the second.
    pub length: usize,
    /// Length of each datagram in the message but the last, which may be shorter; `None` if the
    /// message is one datagram.
    pub segment_length: Option<usize>,
    /// The message did not fit its buffers and its end is lost.
    pub truncated: bool,
    /// The sender.
    pub peer: Option<SocketAddr>,
    /// Datagrams that this socket has dropped since it was made because its buffer was full
    /// (modulo 2^32), if the kernel reports it.
    pub dropped: Option<u32>,
    /// When the kernel received it, on its [wall clock](crate::clock::wall_clock), if it was
    /// [asked](crate::udp::UdpSocket::set_time_stamps) to tell.
    pub received_at: Option<Duration>,
}

/// Reusable memory for receiving up to a fixed number of messages per call.
#[derive(Debug)]
pub struct ReceiveBatch {
    headers: Box<[libc::mmsghdr]>,
    slices: Box<[[libc::iovec; 2]]>,
    addresses: Box<[KernelAddress]>,
    controls: Box<[Control]>,
}

// SAFETY: the pointers in `headers` and `slices` are used only during `receive`, which sets them
// first.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// Room for `capacity` messages.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let no_slice = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Self {
            headers: (0..capacity).map(|_| empty_header()).collect(),
            slices: (0..capacity).map(|_| [no_slice; 2]).collect(),
            addresses: (0..capacity).map(|_| KernelAddress::empty()).collect(),
            controls: (0..capacity).map(|_| Control([0; CONTROL_LENGTH])).collect(),
        }
    }

    /// Messages per call at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Receives up to one message per pair of buffers without waiting, and returns how many.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none, else those of `recvmmsg(2)`: on a
    /// connected socket also the errors that the network reported for sent datagrams.
    pub fn receive<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        buffers: impl IntoIterator<Item = [&'a mut [u8]; 2]>,
    ) -> io::Result<usize> {
        let mut count = 0;
        for (index, pair) in buffers.into_iter().take(self.capacity()).enumerate() {
            self.slices[index] = pair.map(|buffer| libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            });
            let header = &mut self.headers[index];
            header.msg_hdr.msg_name = ptr::from_mut(&mut self.addresses[index]).cast();
            header.msg_hdr.msg_namelen = KernelAddress::LENGTH;
            header.msg_hdr.msg_iov = self.slices[index].as_mut_ptr();
            header.msg_hdr.msg_iovlen = 2;
            header.msg_hdr.msg_control = self.controls[index].0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL_LENGTH as _;
            header.msg_hdr.msg_flags = 0;
            header.msg_len = 0;
            count += 1;
        }
        loop {
            // SAFETY: the first `count` headers point to exclusive buffers that live until `'a`
            // ends, and to addresses, slices and controls of `self`, with their true lengths.
            let received = unsafe {
                libc::recvmmsg(
                    socket.as_raw_fd(),
                    self.headers.as_mut_ptr(),
                    count,
                    libc::MSG_DONTWAIT as _,
                    ptr::null_mut(),
                )
            };
            if let Ok(received) = usize::try_from(received) {
                return Ok(received);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Message `index` of the last successful [`receive`](Self::receive), which must have
    /// returned more than `index`.
    #[must_use]
    pub fn message(&self, index: usize) -> ReceivedMessage {
        let header = &self.headers[index];
        let controls = read_controls(&header.msg_hdr, &self.controls[index]);
        ReceivedMessage {
            length: header.msg_len as usize,
            segment_length: controls.segment_length.filter(|length| *length > 0),
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            peer: self.addresses[index].read(header.msg_hdr.msg_namelen),
            dropped: controls.dropped,
            received_at: controls.received_at,
        }
    }
}

/// The content of the control messages of a message.
#[derive(Debug, Default, PartialEq, Eq)]
struct Controls {
    segment_length: Option<usize>,
    dropped: Option<u32>,
    received_at: Option<Duration>,
}

fn empty_header() -> libc::mmsghdr {
    // SAFETY: null pointers and zero lengths are valid in this C structure.
    unsafe { std::mem::zeroed() }
}

/// The requested control messages of a received message.
///
/// Read by hand instead of with the `CMSG_` macros, so that the bounds are checked.
fn read_controls(header: &libc::msghdr, control: &Control) -> Controls {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    let mut controls = Controls::default();
    #[allow(clippy::unnecessary_cast, reason = "the width differs between C libraries")]
    let filled = (header.msg_controllen as usize).min(CONTROL_LENGTH);
    let mut rest = &control.0[..filled];
    while rest.len() >= HEADER {
        // SAFETY: there are enough bytes, the type is plain data, and the read is unaligned.
        let message = unsafe { rest.as_ptr().cast::<libc::cmsghdr>().read_unaligned() };
        #[allow(clippy::unnecessary_cast, reason = "the width differs between C libraries")]
        let length = message.cmsg_len as usize;
        if length < HEADER || length > rest.len() {
            break;
        }
        let payload = &rest[HEADER..length];
        let integer = || payload.first_chunk().map(|value| u32::from_ne_bytes(*value));
        match (message.cmsg_level, message.cmsg_type) {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                controls.segment_length = integer().and_then(|value| usize::try_from(value).ok());
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => controls.dropped = integer(),
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                controls.received_at = read_time(payload);
            }
            _ => {}
        }
        let aligned = length.next_multiple_of(size_of::<usize>());
        rest = rest.get(aligned..).unwrap_or_default();
    }
    controls
}

/// A `timespec`: two integers of the size of a word.
fn read_time(payload: &[u8]) -> Option<Duration> {
    const WORD: usize = size_of::<libc::time_t>();
    let (seconds, rest) = payload.split_first_chunk::<WORD>()?;
    let seconds = u64::try_from(libc::time_t::from_ne_bytes(*seconds)).ok()?;
    let nanos = u32::try_from(libc::c_long::from_ne_bytes(*rest.first_chunk()?)).ok()?;
    Some(Duration::new(seconds, nanos.min(999_999_999)))
}
