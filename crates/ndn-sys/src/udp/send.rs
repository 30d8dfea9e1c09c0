//! Many messages by one `sendmmsg`, each of them a run of datagrams where the kernel can.

use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::packet::LinkAddress;
use crate::udp::address::KernelAddress;

/// The control message with the segment length, laid out as the kernel expects it.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
struct SegmentControl {
    length: usize,
    level: libc::c_int,
    kind: libc::c_int,
    segment_length: u16,
    padding: [u8; 6],
}

/// `CMSG_LEN` of the value, without the padding.
const SEGMENT_CONTROL_LENGTH: usize = size_of::<libc::cmsghdr>() + size_of::<u16>();
const _: () = assert!(size_of::<libc::cmsghdr>() == 16 && size_of::<SegmentControl>() == 24);

/// One message of a batch.
#[derive(Debug, Clone, Copy)]
struct Message {
    /// Its slices in the batch.
    slices: (usize, usize),
    address: KernelAddress,
    /// 0 on a connected socket.
    address_length: libc::socklen_t,
    control: SegmentControl,
}

/// Reusable memory for sending up to a fixed number of messages and slices per call.
#[derive(Debug)]
pub struct SendBatch {
    headers: Vec<libc::mmsghdr>,
    messages: Vec<Message>,
    slices: Vec<libc::iovec>,
    messages_max: usize,
    slices_max: usize,
}

// SAFETY: the pointers in `headers` and `slices` are used only while a `SendBuilder` borrows the
// batch, which starts by forgetting them.
unsafe impl Send for SendBatch {}

impl SendBatch {
    /// Room for `messages_max` messages made of `slices_max` slices in all.
    #[must_use]
    pub fn with_capacity(messages_max: usize, slices_max: usize) -> Self {
        Self {
            headers: Vec::with_capacity(messages_max),
            messages: Vec::with_capacity(messages_max),
            slices: Vec::with_capacity(slices_max),
            messages_max,
            slices_max,
        }
    }

    /// Starts a batch of messages whose bytes live for `'d`.
    pub fn start<'b, 'd>(&'b mut self) -> SendBuilder<'b, 'd> {
        self.headers.clear();
        self.messages.clear();
        self.slices.clear();
        SendBuilder { batch: self, message_start: 0, data: PhantomData }
    }
}

/// A batch of messages that is being put together.
#[derive(Debug)]
pub struct SendBuilder<'b, 'd> {
    batch: &'b mut SendBatch,
    /// First slice of the message that is not ended yet.
    message_start: usize,
    data: PhantomData<&'d [u8]>,
}

impl<'d> SendBuilder<'_, 'd> {
    /// Whether one more message of `slices` slices fits.
    #[must_use]
    pub fn has_room(&self, slices: usize) -> bool {
        self.batch.messages.len() < self.batch.messages_max
            && self.batch.slices.len() + slices <= self.batch.slices_max
    }

    /// Messages ended so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.batch.messages.len()
    }

    /// Whether no message has been ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batch.messages.is_empty()
    }

    /// Adds bytes to the message that is being put together.
    ///
    /// # Panics
    /// If the batch has no room for it.
    #[inline]
    pub fn push_slice(&mut self, bytes: &'d [u8]) {
        assert!(self.batch.slices.len() < self.batch.slices_max, "slices of a send batch");
        self.batch.slices.push(libc::iovec {
            // The kernel only reads; the C type is shared with receiving.
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        });
    }

    /// Ends a message for `peer`, `None` on a connected socket. With a `segment_length` it is cut
    /// into datagrams of that length, the last of which may be shorter; at most
    /// [`SEGMENTS_MAX`](super::SEGMENTS_MAX) of them.
    ///
    /// # Panics
    /// If the batch has no room for it.
    pub fn end_message(&mut self, peer: Option<SocketAddr>, segment_length: Option<u16>) {
        assert!(self.batch.messages.len() < self.batch.messages_max, "messages of a send batch");
        let to = peer.map_or((KernelAddress::empty(), 0), KernelAddress::new);
        self.end(to, segment_length);
    }

    /// Ends a message that is one frame, for the socket of a network device.
    ///
    /// # Panics
    /// If the batch has no room for it.
    pub fn end_frame(&mut self, to: &LinkAddress) {
        assert!(self.batch.messages.len() < self.batch.messages_max, "messages of a send batch");
        self.end(KernelAddress::of_link(to), None);
    }

    fn end(
        &mut self,
        (address, address_length): (KernelAddress, libc::socklen_t),
        segment_length: Option<u16>,
    ) {
        self.batch.messages.push(Message {
            slices: (self.message_start, self.batch.slices.len()),
            address,
            address_length,
            control: SegmentControl {
                length: SEGMENT_CONTROL_LENGTH,
                level: libc::SOL_UDP,
                kind: libc::UDP_SEGMENT,
                segment_length: segment_length.unwrap_or(0),
                padding: [0; 6],
            },
        });
        self.message_start = self.batch.slices.len();
    }

    /// Hands the messages to the kernel in order, without waiting, and returns how many it took:
    /// all of them, or those before the first that it could not take.
    ///
    /// # Errors
    /// The error of the first message: [`io::ErrorKind::WouldBlock`] if there is no room for it now, else those of
    /// `sendmmsg(2)`.
    pub fn send(self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let batch = self.batch;
        for message in &mut batch.messages {
            batch.headers.push(header_of(message, &mut batch.slices));
        }
        let count = libc::c_uint::try_from(batch.headers.len()).unwrap_or(libc::c_uint::MAX);
        loop {
            // SAFETY: the headers point to addresses, controls and slices of the batch, which is
            // borrowed, with their true lengths, and the slices to bytes that live for `'d`.
            let sent = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    batch.headers.as_mut_ptr(),
                    count,
                    (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
                )
            };
            if let Ok(sent) = usize::try_from(sent) {
                return Ok(sent);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

fn header_of(message: &mut Message, slices: &mut [libc::iovec]) -> libc::mmsghdr {
    // SAFETY: null pointers and zero lengths are valid in this C structure.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    let slices = &mut slices[message.slices.0..message.slices.1];
    header.msg_hdr.msg_iov = slices.as_mut_ptr();
    header.msg_hdr.msg_iovlen = slices.len() as _;
    if message.address_length > 0 {
        header.msg_hdr.msg_name = ptr::from_mut(&mut message.address).cast();
        header.msg_hdr.msg_namelen = message.address_length;
    }
    if message.control.segment_length > 0 {
        header.msg_hdr.msg_control = ptr::from_mut(&mut message.control).cast();
        header.msg_hdr.msg_controllen = size_of::<SegmentControl>() as _;
    }
    header
}
