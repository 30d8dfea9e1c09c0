//! Shared memory to the forwarder.

use std::env::VarError;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ndn_memif::{
    Address, ClientHandshake, ClientOptions, Ended, Fault, Link, Progress, Received, Receiver,
    Secret, Sender, Sent,
};
use ndn_sys::interrupt::Interrupter;
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

/// Environment variable that holds what has to be said for an interface, where that has a secret. It is no part
/// of an address, as those are shown.
pub const MEMIF_SECRET_VARIABLE: &str = "NDN_CLIENT_MEMIF_SECRET";

/// The secret in the environment, or none.
///
/// # Errors
/// If it is too long, or no UTF-8; it is not shown.
pub fn memif_secret() -> io::Result<Secret> {
    secret_of(std::env::var(MEMIF_SECRET_VARIABLE))
}

fn secret_of(variable: Result<String, VarError>) -> io::Result<Secret> {
    let fault = |reason: &dyn std::fmt::Display| {
        let reason = format!("{MEMIF_SECRET_VARIABLE}: {reason}");
        io::Error::new(io::ErrorKind::InvalidInput, reason)
    };
    match variable {
        Ok(text) if text.is_empty() => Ok(Secret::default()),
        Ok(text) => Secret::new(&text).map_err(|error| fault(&error)),
        Err(VarError::NotPresent) => Ok(Secret::default()),
        Err(VarError::NotUnicode(_)) => Err(fault(&"a secret is written in UTF-8")),
    }
}

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
        let options = ClientOptions { id, secret: memif_secret()?, ..ClientOptions::default() };
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
    /// Waits until there may be frames, or says how the forwarder has left.
    pub(crate) async fn readable(&mut self) -> io::Result<Option<Ended>> {
        loop {
            tokio::select! {
                biased;
                ready = self.interrupt.readable() => {
                    ready?.clear_ready();
                    // Before anybody looks into the ring.
                    self.receiver.clear_interrupt();
                    return Ok(None);
                }
                ready = self.socket.readable() => {
                    ready?.clear_ready();
                    // Nothing but its end is of interest there.
                    let ended = ndn_memif::ended(self.socket.get_ref().as_fd());
                    if ended.is_some() {
                        return Ok(ended);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_may_hold_a_secret_that_is_not_shown() {
        let secret = Secret::new("swordfish").unwrap();
        assert_eq!(secret_of(Ok("swordfish".to_owned())).unwrap(), secret);
        assert!(secret_of(Ok(String::new())).unwrap().is_none());
        assert!(secret_of(Err(VarError::NotPresent)).unwrap().is_none());
        let too_long = "swordfish-swordfish-swordfish";
        let error = secret_of(Ok(too_long.to_owned())).unwrap_err().to_string();
        assert!(error.contains("at most 24 bytes") && !error.contains("swordfish"), "{error}");
    }
}
