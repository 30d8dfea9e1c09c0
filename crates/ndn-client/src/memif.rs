//! Shared memory to the forwarder.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ndn_memif::{
    Address, ClientHandshake, ClientOptions, Fault, Link, MESSAGE_LENGTH, Progress, Received,
    Receiver, Sender, Sent,
};
use ndn_sys::interrupt::Interrupter;
use ndn_sys::seqpacket;
use rand::RngExt;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Frames are received into pieces of a buffer of this size.
const BUFFER_LENGTH: usize = 256 * 1024;
/// Longest frame.
const FRAME_LENGTH_MAX: usize = 64 * 1024;
/// How often to let others run while a ring is full, before waiting for longer.
const YIELDS: u32 = 16;
/// How long then: nobody tells when there is room.
const PAUSE: Duration = Duration::from_millis(1);

/// A connection by shared memory.
pub(crate) struct MemifSocket {
    /// Closed after the descriptors below, which are copies of its own.
    link: Box<Link>,
    socket: AsyncFd<OwnedFd>,
    interrupt: AsyncFd<OwnedFd>,
    interrupter: Interrupter,
}

/// The two directions of a connection.
pub(crate) struct Halves<'a> {
    pub(crate) reader: Reader<'a>,
    pub(crate) writer: Writer<'a>,
}

/// Takes frames.
pub(crate) struct Reader<'a> {
    receiver: &'a mut Receiver,
    socket: &'a AsyncFd<OwnedFd>,
    interrupt: &'a AsyncFd<OwnedFd>,
    buffer: BytesMut,
}

/// Sends frames.
pub(crate) struct Writer<'a> {
    sender: &'a mut Sender,
    interrupter: &'a mut Interrupter,
    /// Longest frame that the forwarder should be sent.
    pub(crate) frame_length_max: usize,
}

impl MemifSocket {
    /// Connects to the forwarder's socket.
    pub(crate) async fn connect(address: &Address) -> io::Result<Self> {
        let id = address.id.unwrap_or_else(|| rand::rng().random());
        let options = ClientOptions { id, ..ClientOptions::default() };
        let mut handshake = ClientHandshake::connect(&address.socket, options)?;
        let socket = handshake.as_fd().try_clone_to_owned()?;
        let socket = register(socket)?;
        let link = loop {
            let mut ready = socket.readable().await?;
            ready.clear_ready();
            handshake = match handshake.advance().map_err(io::Error::other)? {
                Progress::Waiting(handshake) => handshake,
                Progress::Done(link) => break link,
            };
        };
        let receiver = link.receivers.first().ok_or(io::ErrorKind::InvalidData)?;
        let interrupt = receiver.as_fd().try_clone_to_owned()?;
        let interrupt = register(interrupt)?;
        Ok(Self { link, socket, interrupt, interrupter: Interrupter::new()? })
    }

    pub(crate) fn split(&mut self) -> io::Result<Halves<'_>> {
        let Self { link, socket, interrupt, interrupter } = self;
        let Link { receivers, senders, frame_length_max, .. } = &mut **link;
        let (Some(receiver), Some(sender)) = (receivers.first_mut(), senders.first_mut()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let frame_length_max = usize::try_from(*frame_length_max).unwrap_or(usize::MAX);
        Ok(Halves {
            reader: Reader { receiver, socket, interrupt, buffer: BytesMut::new() },
            writer: Writer { sender, interrupter, frame_length_max },
        })
    }
}

impl Reader<'_> {
    /// Waits until there may be frames; false if the forwarder has left.
    pub(crate) async fn readable(&mut self) -> io::Result<bool> {
        loop {
            tokio::select! {
                biased;
                ready = self.interrupt.readable() => {
                    ready?.clear_ready();
                    // Before anybody looks into the ring.
                    self.receiver.clear_interrupt();
                    return Ok(true);
                }
                ready = self.socket.readable() => {
                    ready?.clear_ready();
                    // Nothing but its end is of interest there.
                    let socket = self.socket.get_ref().as_fd();
                    match seqpacket::receive(socket, &mut [0; MESSAGE_LENGTH]) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Ok(_) | Err(_) => return Ok(false),
                    }
                }
            }
        }
    }

    /// The next frame that is there.
    pub(crate) fn next_frame(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if self.buffer.len() < FRAME_LENGTH_MAX {
                self.buffer = BytesMut::zeroed(BUFFER_LENGTH);
            }
            match self.receiver.receive(&mut self.buffer).map_err(broken)? {
                Received::Nothing => return Ok(None),
                Received::Frame(length) => return Ok(Some(self.buffer.split_to(length).freeze())),
                Received::TooLong | Received::Malformed => {
                    tracing::debug!("a frame of the forwarder is malformed");
                }
            }
        }
    }

    /// The forwarder may use the buffers of what was taken.
    pub(crate) fn release(&mut self) -> io::Result<()> {
        self.receiver.release().map_err(broken)
    }
}

impl Writer<'_> {
    /// Puts a frame into the ring, and waits while that is full.
    pub(crate) async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        for attempt in 0_u32.. {
            match self.sender.send(&[frame]).map_err(broken)? {
                Sent::Queued => break,
                Sent::TooLong => {
                    tracing::debug!(length = frame.len(), "a frame is too long");
                    break;
                }
                Sent::Full => {}
            }
            self.publish()?;
            if attempt < YIELDS {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// Shows the forwarder what was sent.
    pub(crate) fn publish(&mut self) -> io::Result<()> {
        self.sender.publish(self.interrupter).map_err(broken)
    }
}

#[expect(
    deprecated,
    reason = "it is unsound for types that may close the descriptor, unlike this one"
)]
fn register(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}

fn broken(fault: Fault) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, fault)
}
