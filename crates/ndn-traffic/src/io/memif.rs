//! Batches of packets through shared memory, one packet per frame.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use ndn_memif::{
    Address, ClientHandshake, ClientOptions, Connection, Fault, Progress, Received, Secret, Sender,
    Sent,
};
use ndn_sys::interrupt::Interrupter;
use ndn_sys::poll::{Events, Interest, Poller};

/// Time limit of a handshake.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of frames taken at a time: few enough to keep the peer busy meanwhile.
const FRAMES_PER_CALL: usize = 64;
const BUFFER_LENGTH: usize = 65_536;

/// A connection to a forwarder.
#[derive(Debug)]
pub(super) struct MemifSocket {
    link: Box<Connection>,
    interrupter: Interrupter,
    buffer: Vec<u8>,
    /// Whether the caller announces its waits.
    announces_waits: bool,
    /// The forwarder raises no interrupts.
    is_polled: bool,
}

impl MemifSocket {
    /// Connects; if the address has no interface number, to interface `id`.
    pub(super) fn connect(address: &Address, id: u32, secret: Secret) -> io::Result<Self> {
        let id = address.id.unwrap_or(id);
        let options = ClientOptions { id, secret, ..ClientOptions::default() };
        let mut handshake = ClientHandshake::connect(&address.socket, options)?;
        let poller = Poller::new()?;
        poller.add(&handshake, 0, Interest::Readable)?;
        let mut events = Events::with_capacity(1);
        loop {
            poller.wait(&mut events, Some(TIMEOUT))?;
            if events.is_empty() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            handshake = match handshake.advance().map_err(io::Error::other)? {
                Progress::Waiting(handshake) => handshake,
                Progress::Done(link) => {
                    let interrupter = Interrupter::new()?;
                    return Ok(Self {
                        link,
                        interrupter,
                        buffer: vec![0; BUFFER_LENGTH],
                        announces_waits: false,
                        is_polled: false,
                    });
                }
            };
        }
    }

    /// Maximum frame length that the peer accepts.
    pub(super) fn frame_length_max(&self) -> usize {
        usize::try_from(self.link.frame_length_max).unwrap_or(usize::MAX)
    }

    /// Readable when there may be frames.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.link.receivers.first().map_or_else(|| self.link.as_fd(), AsFd::as_fd)
    }

    /// Enables interrupts of the forwarder. Returns true if frames are available already.
    pub(super) fn prepare_to_wait(&mut self) -> io::Result<bool> {
        self.announces_waits = true;
        let Some(receiver) = self.link.receivers.first_mut() else { return Ok(false) };
        if std::mem::take(&mut self.is_polled) {
            receiver.set_interrupts(true).map_err(broken)?;
        }
        Ok(!receiver.is_empty().map_err(broken)?)
    }

    /// Passes on every available frame; returns false when there was none.
    pub(super) fn receive(&mut self, mut handle: impl FnMut(&[u8])) -> io::Result<bool> {
        let Some(receiver) = self.link.receivers.first_mut() else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut count = 0;
        while count < FRAMES_PER_CALL {
            match receiver.receive(&mut self.buffer).map_err(broken)? {
                Received::Nothing => {
                    if !self.is_polled {
                        receiver.rest(&mut self.interrupter).map_err(broken)?;
                    }
                    break;
                }
                Received::Frame(length) => handle(&self.buffer[..length]),
                Received::TooLong | Received::Malformed => {}
            }
            count += 1;
        }
        receiver.release().map_err(broken)?;
        if count > 0 && self.announces_waits && !self.is_polled {
            receiver.set_interrupts(false).map_err(broken)?;
            // The available frames are known.
            receiver.clear_interrupt();
            self.is_polled = true;
        }
        if count == 0
            && let Some(ended) = self.link.ended()
        {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, ended.to_string()));
        }
        Ok(count > 0)
    }

    fn sender(&mut self) -> io::Result<(&mut Sender, &mut Interrupter)> {
        let sender = self.link.senders.first_mut().ok_or(io::ErrorKind::InvalidData)?;
        Ok((sender, &mut self.interrupter))
    }
}

fn broken(fault: Fault) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, fault)
}

/// Queued packets.
#[derive(Debug, Default)]
pub(super) struct MemifOutput {
    bytes: Vec<u8>,
    packets: Vec<Range<usize>>,
    /// Packets before this one have been sent.
    first: usize,
}

impl MemifOutput {
    /// Queues the packet that `write` appends; returns its length.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.packets.push(start..self.bytes.len());
        self.bytes.len() - start
    }

    /// Removes the packet queued last.
    pub(super) fn take_last(&mut self) -> Vec<u8> {
        let Some(packet) = self.packets.pop() else { return Vec::new() };
        self.bytes.split_off(packet.start)
    }

    /// Bytes waiting to be sent.
    pub(super) fn backlog(&self) -> usize {
        let start = self.packets.get(self.first).map_or(self.bytes.len(), |packet| packet.start);
        self.bytes.len() - start
    }

    /// Sends what the ring has room for; returns true when nothing is left.
    pub(super) fn flush(&mut self, socket: &mut MemifSocket) -> io::Result<bool> {
        let (sender, interrupter) = socket.sender()?;
        while let Some(packet) = self.packets.get(self.first) {
            match sender.send(&[&self.bytes[packet.clone()]]).map_err(broken)? {
                Sent::Queued => self.first += 1,
                Sent::Full => break,
                Sent::TooLong => return Err(io::ErrorKind::InvalidInput.into()),
            }
        }
        sender.publish(interrupter).map_err(broken)?;
        let is_empty = self.first == self.packets.len();
        if is_empty {
            self.bytes.clear();
            self.packets.clear();
            self.first = 0;
        }
        Ok(is_empty)
    }
}
