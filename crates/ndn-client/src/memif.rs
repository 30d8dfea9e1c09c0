//! Shared memory connection to the forwarder.

use std::env::VarError;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
pub(crate) use ndn_memif::Ended;
use ndn_memif::{
    Address, ClientHandshake, ClientOptions, Connection, DisconnectReason, Fault, HandshakeError,
    Progress, Received, Receiver, Secret, Sender, Sent,
};
use ndn_sys::clock;
use ndn_sys::interrupt::Interrupter;
use rand::RngExt;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Frames are received into slices of a buffer of this size.
const BUFFER_LENGTH: usize = 256 * 1024;
/// Longest frame.
const FRAME_LENGTH_MAX: usize = 64 * 1024;
/// Number of times to yield while a ring is full, before sleeping.
const YIELDS: u32 = 16;
/// Sleep time while a ring is full: there is no notification of free slots.
const PAUSE: Duration = Duration::from_millis(1);
/// Maximum time to poll a ring before waiting.
const POLL_NS_MAX: u64 = 50_000;
/// Minimum time to poll; with a smaller budget, polling is skipped.
const POLL_NS_MIN: u64 = 5_000;

/// Environment variable with the secret of the interface. The secret is not part of the address,
/// because addresses are displayed.
pub(crate) const MEMIF_SECRET_VARIABLE: &str = "NDN_CLIENT_MEMIF_SECRET";

/// The secret in the environment, or none.
///
/// # Errors
/// If it is too long or not UTF-8; the message does not contain it.
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

/// A refusal by the forwarder, with advice.
#[derive(Debug, thiserror::Error)]
#[error("it rejects the connection: {reason}{advice}")]
pub(crate) struct MemifRefusal {
    reason: DisconnectReason,
    advice: String,
}

/// Explains a failed handshake to the user who requested this interface with this secret.
///
/// Errors other than a refused handshake are returned unchanged.
#[must_use]
pub fn explain_memif(error: io::Error, address: &Address, secret: &Secret) -> io::Error {
    let reason = match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(HandshakeError::Refused(reason)) => *reason,
        _ => return error,
    };
    let advice = if reason.mentions_secret() && secret.is_none() {
        format!(". Set {MEMIF_SECRET_VARIABLE} to the secret of this interface.")
    } else if reason.mentions_secret() {
        format!(". What {MEMIF_SECRET_VARIABLE} holds is not the secret of this interface.")
    } else if reason.mentions_other_client() {
        let Address { socket, id } = address;
        let id = id.map_or_else(String::new, |id| format!(" {id}"));
        let free = socket.display();
        format!(". Interface{id} has a client: without a number, memif://{free} takes a free one.")
    } else {
        String::new()
    };
    io::Error::new(io::ErrorKind::ConnectionRefused, MemifRefusal { reason, advice })
}

/// A shared memory connection.
pub(crate) struct MemifSocket {
    /// Closed after the descriptors below, which are duplicates of its own.
    link: Box<Connection>,
    socket: AsyncFd<OwnedFd>,
    interrupt: AsyncFd<OwnedFd>,
    interrupter: Interrupter,
}

/// The two directions of a connection.
pub(crate) struct Halves<'a> {
    pub(crate) reader: Reader<'a>,
    pub(crate) writer: Writer<'a>,
}

/// Receives frames.
pub(crate) struct Reader<'a> {
    receiver: &'a mut Receiver,
    socket: &'a AsyncFd<OwnedFd>,
    interrupt: &'a AsyncFd<OwnedFd>,
    buffer: BytesMut,
    poll_budget: PollBudget,
    /// The forwarder raises no interrupts.
    is_polled: bool,
}

/// Time for which a ring is polled before waiting, adapted to what saves time. A wait costs the forwarder an interrupt
/// and this side a wake-up; polling costs processor time.
#[derive(Debug, Default)]
struct PollBudget {
    budget_ns: u64,
}

/// Sends frames.
pub(crate) struct Writer<'a> {
    sender: &'a mut Sender,
    interrupter: &'a mut Interrupter,
    /// Maximum frame length to send.
    pub(crate) frame_length_max: usize,
}

impl MemifSocket {
    /// Connects to the forwarder's socket.
    pub(crate) async fn connect(address: &Address) -> io::Result<Self> {
        let id = address.id.unwrap_or_else(|| rand::rng().random());
        let secret = memif_secret()?;
        let options = ClientOptions { id, secret, ..ClientOptions::default() };
        let mut handshake = ClientHandshake::connect(&address.socket, options)?;
        let socket = handshake.as_fd().try_clone_to_owned()?;
        let socket = register(socket)?;
        let link = loop {
            let mut ready = socket.readable().await?;
            ready.clear_ready();
            let advanced = handshake.advance().map_err(io::Error::other);
            handshake = match advanced.map_err(|error| explain_memif(error, address, &secret))? {
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
        let Connection { receivers, senders, frame_length_max, .. } = &mut **link;
        let (Some(receiver), Some(sender)) = (receivers.first_mut(), senders.first_mut()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let frame_length_max = usize::try_from(*frame_length_max).unwrap_or(usize::MAX);
        Ok(Halves {
            reader: Reader {
                receiver,
                socket,
                interrupt,
                buffer: BytesMut::new(),
                poll_budget: PollBudget::default(),
                is_polled: false,
            },
            writer: Writer { sender, interrupter, frame_length_max },
        })
    }
}

impl PollBudget {
    /// Polling found a frame.
    fn found(&mut self) {
        self.budget_ns = POLL_NS_MAX;
    }

    /// Polling found nothing in time.
    fn missed(&mut self) {
        self.budget_ns = Some(self.budget_ns / 2).filter(|&half| half >= POLL_NS_MIN).unwrap_or(0);
    }

    /// A frame arrived this long after the ring was empty, whether polled or waited for. Polling is
    /// enabled only if the longest poll would have found it: otherwise each frame would cost a
    /// useless poll and a wait.
    fn woken(&mut self, gap_ns: u64) {
        if gap_ns < POLL_NS_MAX {
            self.found();
        }
    }
}

impl Reader<'_> {
    /// Waits until there may be frames, or returns how the forwarder disconnected. While they
    /// arrive in short intervals, polls for them first.
    #[expect(clippy::disallowed_methods, reason = "polls in real time")]
    pub(crate) async fn readable(&mut self) -> io::Result<Option<Ended>> {
        let begun_ns = clock::now();
        if self.poll_ring().await.map_err(broken)? {
            return Ok(None);
        }
        let ended = self.wait().await?;
        self.poll_budget.woken(clock::now().saturating_sub(begun_ns));
        Ok(ended)
    }

    /// Polls for frames for a time; returns false if there are none and the forwarder raises
    /// interrupts.
    #[expect(clippy::disallowed_methods, reason = "polls in real time")]
    async fn poll_ring(&mut self) -> Result<bool, Fault> {
        let end_ns = clock::now() + self.poll_budget.budget_ns;
        if self.poll_budget.budget_ns > 0 {
            if !self.is_polled {
                self.receiver.set_interrupts(false)?;
                self.is_polled = true;
            }
            while self.receiver.is_empty()? && clock::now() < end_ns {
                // Let the sender and other tasks run.
                tokio::task::yield_now().await;
            }
            if !self.receiver.is_empty()? {
                self.poll_budget.found();
                return Ok(true);
            }
            self.poll_budget.missed();
        }
        if self.is_polled {
            self.receiver.set_interrupts(true)?;
            self.is_polled = false;
        }
        // Frames that arrived before interrupts were enabled.
        Ok(!self.receiver.is_empty()?)
    }

    async fn wait(&mut self) -> io::Result<Option<Ended>> {
        loop {
            tokio::select! {
                biased;
                ready = self.interrupt.readable() => {
                    ready?.clear_ready();
                    // Before the ring is polled.
                    self.receiver.clear_interrupt();
                    return Ok(None);
                }
                ready = self.socket.readable() => {
                    ready?.clear_ready();
                    // Only its end is of interest.
                    let ended = ndn_memif::ended(self.socket.get_ref().as_fd());
                    if ended.is_some() {
                        return Ok(ended);
                    }
                }
            }
        }
    }

    /// The next available frame.
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

    /// Releases the buffers of the frames taken.
    pub(crate) fn release(&mut self) -> io::Result<()> {
        self.receiver.release().map_err(broken)
    }
}

impl Writer<'_> {
    /// Writes a frame to the ring, waiting while it is full.
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

    /// Publishes the written frames to the forwarder.
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
    use crate::transport::ConnectFailure;

    #[test]
    fn poll_budget_shrinks_to_zero_when_nothing_is_found() {
        let mut poll_budget = PollBudget::default();
        assert_eq!(poll_budget.budget_ns, 0);
        poll_budget.woken(POLL_NS_MAX);
        assert_eq!(poll_budget.budget_ns, 0, "frames come in long intervals");
        poll_budget.woken(POLL_NS_MAX - 1);
        let mut polled_ns = 0;
        while poll_budget.budget_ns > 0 {
            polled_ns += poll_budget.budget_ns;
            poll_budget.missed();
        }
        assert!((POLL_NS_MAX..2 * POLL_NS_MAX).contains(&polled_ns), "{polled_ns}");
        poll_budget.missed();
        assert_eq!(poll_budget.budget_ns, 0);
        poll_budget.found();
        assert_eq!(poll_budget.budget_ns, POLL_NS_MAX);
    }

    /// Time spent polling and number of waits for frames at such intervals, after some at short
    /// ones.
    fn spent_on(gap_ns: u64, frames: u32) -> (u64, u32) {
        let mut poll_budget = PollBudget::default();
        poll_budget.found();
        let (mut polled_ns, mut waits) = (0, 0);
        for _ in 0..frames {
            let budget_ns = poll_budget.budget_ns;
            polled_ns += budget_ns.min(gap_ns);
            if gap_ns < budget_ns {
                poll_budget.found();
                continue;
            }
            if budget_ns > 0 {
                poll_budget.missed();
            }
            waits += 1;
            poll_budget.woken(gap_ns);
        }
        (polled_ns, waits)
    }

    #[test]
    fn useless_polling_is_avoided() {
        assert_eq!(spent_on(20_000, 1000), (20_000 * 1000, 0));
        for gap_ns in [55_000, 80_000, 120_000, 150_000] {
            let (polled_ns, waits) = spent_on(gap_ns, 1000);
            assert!(polled_ns < 2 * POLL_NS_MAX, "{gap_ns}: {polled_ns}");
            assert_eq!(waits, 1000, "{gap_ns}");
        }
    }

    #[test]
    fn refusal_includes_advice() {
        let explained = |output: &str, uri: &str, secret: &str| {
            let refused = HandshakeError::Refused(DisconnectReason::new(0, output));
            let secret = Secret::new(secret).unwrap_or_default();
            let error = io::Error::other(refused);
            explain_memif(error, &uri.parse().unwrap(), &secret)
        };
        for (output, uri, secret, advice) in [
            ("A secret is required", "memif:///run/a", "", "Set NDN_CLIENT_MEMIF_SECRET to"),
            ("Incorrect secret", "memif:///run/a/1", "", "Set NDN_CLIENT_MEMIF_SECRET to"),
            ("Incorrect secret", "memif:///run/a/1", "x", "NDN_CLIENT_MEMIF_SECRET holds is not"),
            ("Already connected", "memif:///run/a/1", "x", "Interface 1 has a client"),
            ("tired", "memif:///run/a", "", "\"tired\""),
        ] {
            let error = explained(output, uri, secret);
            assert!(error.to_string().contains(advice), "{error}");
            assert_eq!(ConnectFailure::of(&error), ConnectFailure::Refused);
        }
        let other = io::Error::other(HandshakeError::Closed);
        let other = explain_memif(other, &"memif:///run/a".parse().unwrap(), &Secret::default());
        assert_eq!(ConnectFailure::of(&other), ConnectFailure::Unreachable);
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(ConnectFailure::of(&refused), ConnectFailure::Unreachable);
    }

    #[test]
    fn secret_from_the_environment_is_not_displayed() {
        let secret = Secret::new("swordfish").unwrap();
        assert_eq!(secret_of(Ok("swordfish".to_owned())).unwrap(), secret);
        assert!(secret_of(Ok(String::new())).unwrap().is_none());
        assert!(secret_of(Err(VarError::NotPresent)).unwrap().is_none());
        let too_long = "swordfish-swordfish-swordfish";
        let error = secret_of(Ok(too_long.to_owned())).unwrap_err().to_string();
        assert!(error.contains("at most 24 bytes") && !error.contains("swordfish"), "{error}");
    }
}
