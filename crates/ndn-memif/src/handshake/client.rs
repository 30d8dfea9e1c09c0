//! The client: allocates the memory and shares it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use ndn_sys::interrupt::Interrupt;
use ndn_sys::seqpacket;
use ndn_sys::shared_memory::SharedMemory;

use super::{
    HandshakeError, MODE_ETHERNET, PROGRAM, Progress, VERSION, buffer_length, frame_length_max,
    is_own, next_message, none, report,
};
use crate::connection::Connection;
use crate::limits::{LOG2_RING_SIZE_MAX, MEMORY_MAX, RINGS_MAX, log2_ring_size};
use crate::message::{Message, Name};
use crate::receive::Receiver;
use crate::regions::Regions;
use crate::ring::{Buffers, Fault, Ring, ring_length};
use crate::secret::Secret;
use crate::send::Sender;

/// `EPROTOTYPE`: a socket of another type, such as the Unix stream socket of a forwarder.
const PROTOCOL_WRONG_TYPE: i32 = 91;

/// The parameters that a client requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOptions {
    /// The interface of the server.
    pub id: u32,
    /// The secret of the interface.
    pub secret: Secret,
    /// Rings of each direction, at most 8.
    pub rings: u16,
    /// Binary logarithm of the size of each; the default depends on the length of the buffers.
    pub log2_ring_size: Option<u8>,
    /// Bytes of a buffer; the default depends on the program of the server. Longer frames take several.
    pub buffer_length: Option<u32>,
    /// The server accepts frames in several buffers, even if its program is unknown.
    pub chains: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            id: 0,
            secret: Secret::default(),
            rings: 1,
            log2_ring_size: None,
            buffer_length: None,
            chains: false,
        }
    }
}

/// The memory of a client before it is connected.
#[derive(Debug)]
struct Prepared {
    receivers: Vec<Receiver>,
    senders: Vec<Sender>,
    /// Messages still to be sent, one after each acknowledgement.
    messages: VecDeque<(Message, Option<OwnedFd>)>,
    buffer_length: u32,
}

/// A client that is connecting.
#[derive(Debug)]
pub struct ClientHandshake {
    socket: OwnedFd,
    options: ClientOptions,
    peer: Name,
    prepared: Option<Prepared>,
}

/// Explains errors of `connect(2)` that come from an invalid interface number: it is taken for a part of the path.
fn explain(path: &Path, error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(PROTOCOL_WRONG_TYPE) {
        let reason = "it is a socket of another kind; that of memif has a place of its own";
        return io::Error::new(io::ErrorKind::InvalidInput, reason);
    }
    let is_socket = |path: &Path| {
        path.metadata()
            .is_ok_and(|found| std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()))
    };
    let last = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_like_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let is_behind_socket = is_like_number || path.parent().is_some_and(is_socket);
    if error.kind() != io::ErrorKind::NotADirectory || !is_behind_socket {
        return error;
    }
    let reason = not_an_interface(last);
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

/// Why the last part of a path is no interface number.
fn not_an_interface(last: &str) -> String {
    let most = u32::MAX;
    format!(
        "{last} is no number of an interface: those are from 0 to {most}, written without leading zeros"
    )
}

impl ClientHandshake {
    /// Connects to the server that listens on `path`.
    ///
    /// # Errors
    /// Those of `connect(2)`.
    pub fn connect(path: &Path, options: ClientOptions) -> io::Result<Self> {
        let socket = seqpacket::connect(path).map_err(|error| explain(path, error))?;
        Ok(Self::new(socket, options))
    }

    /// Begins on a connected, non-blocking socket.
    #[must_use]
    pub fn new(socket: OwnedFd, options: ClientOptions) -> Self {
        Self { socket, options, peer: Name::default(), prepared: None }
    }

    /// Processes the messages of the server, and answers.
    ///
    /// # Errors
    /// See [`HandshakeError`]; the connection cannot be used then.
    pub fn advance(mut self) -> Result<Progress<Self>, HandshakeError> {
        match self.process_messages() {
            Ok(None) => Ok(Progress::Waiting(self)),
            Ok(Some((interface, Prepared { receivers, senders, buffer_length, .. }))) => {
                let Self { socket, options: ClientOptions { id, chains, .. }, peer, .. } = self;
                let ring_size = senders.iter().map(Sender::ring_size).min().unwrap_or(1);
                let takes_chains = chains || is_own(&peer);
                let frame_length_max = frame_length_max(buffer_length, ring_size, takes_chains);
                let link = Connection {
                    socket,
                    id,
                    peer,
                    interface,
                    frame_length_max,
                    receivers,
                    senders,
                };
                Ok(Progress::Done(Box::new(link)))
            }
            Err(error) => {
                report(self.socket.as_fd(), &error);
                Err(error)
            }
        }
    }

    /// The server's interface and the parts of the link, when the handshake is complete.
    fn process_messages(&mut self) -> Result<Option<(Name, Prepared)>, HandshakeError> {
        while let Some((message, descriptors)) = next_message(self.socket.as_fd())? {
            none(&descriptors)?;
            match (message, &mut self.prepared) {
                (Message::Hello { name, versions, .. }, None)
                    if versions.0 > VERSION || versions.1 < VERSION =>
                {
                    self.peer = name;
                    return Err(HandshakeError::Protocol("Incompatible memif version"));
                }
                (
                    Message::Hello {
                        name,
                        ring_to_client_max,
                        ring_to_server_max,
                        log2_ring_size_max,
                        ..
                    },
                    None,
                ) => {
                    self.peer = name;
                    let rings = ring_to_client_max.min(ring_to_server_max).saturating_add(1);
                    let rings = self.options.rings.clamp(1, RINGS_MAX).min(rings);
                    let length = buffer_length(self.options.buffer_length, &name);
                    let log2_size = self.options.log2_ring_size;
                    let log2_size = log2_size.unwrap_or_else(|| log2_ring_size(length));
                    let log2_size = log2_size.min(log2_ring_size_max);
                    self.prepared = Some(prepare(&self.options, rings, log2_size, length)?);
                    self.send_next()?;
                }
                (Message::Ack, Some(prepared)) if !prepared.messages.is_empty() => {
                    self.send_next()?;
                }
                (Message::Connected { interface }, Some(prepared))
                    if prepared.messages.is_empty() =>
                {
                    for receiver in &mut prepared.receivers {
                        receiver.start()?;
                    }
                    return Ok(self.prepared.take().map(|prepared| (interface, prepared)));
                }
                _ => return Err(HandshakeError::Protocol("Unexpected message")),
            }
        }
        Ok(None)
    }

    fn send_next(&mut self) -> Result<(), HandshakeError> {
        let next = self.prepared.as_mut().and_then(|prepared| prepared.messages.pop_front());
        let Some((message, descriptor)) = next else { return Ok(()) };
        let descriptor = descriptor.as_ref().map(AsFd::as_fd);
        Ok(seqpacket::send(self.socket.as_fd(), &message.encode(), descriptor)?)
    }
}

impl AsFd for ClientHandshake {
    /// The socket: readable when [`advance`](Self::advance) has something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Allocates the memory: the rings to the server, those from it, then the buffers of all.
fn prepare(
    options: &ClientOptions,
    rings: u16,
    log2_size: u8,
    buffer_length: u32,
) -> Result<Prepared, HandshakeError> {
    let ClientOptions { id, secret, .. } = *options;
    let (log2_size, count) = (log2_size.min(LOG2_RING_SIZE_MAX), 2 * usize::from(rings));
    let ring_bytes = ring_length(log2_size);
    let buffer_bytes = (buffer_length as usize) << log2_size;
    // Rings are multiples of cache lines, and so are buffers if their length is.
    let buffers_at = (count * ring_bytes).next_multiple_of(64);
    let size = buffers_at + count * buffer_bytes;
    if size as u64 > MEMORY_MAX {
        return Err(HandshakeError::Protocol("rings and buffers take too much memory"));
    }
    let (memory, file) = SharedMemory::create("memif", size)?;
    let regions = Regions::own(memory);
    let name = Name::new(PROGRAM);
    let init = Message::Init { version: VERSION, id, mode: MODE_ETHERNET, secret, name };
    let region = Message::AddRegion { index: 0, size: size as u64 };
    let mut messages = VecDeque::from([(init, None), (region, Some(file))]);
    let (mut receivers, mut senders) = (Vec::new(), Vec::new());
    let offset = |bytes: usize| u32::try_from(bytes).map_err(|_| Fault::Layout);
    for number in 0..2 * rings {
        let (to_server, index) = (number < rings, number % rings);
        let place = offset(usize::from(number) * ring_bytes)?;
        let start = offset(buffers_at + usize::from(number) * buffer_bytes)?;
        let buffers = Buffers { region: 0, start, length: buffer_length };
        let ring = Ring::new(regions.clone(), 0, place, log2_size)?;
        ring.initialize()?;
        let interrupt = Interrupt::new()?;
        let shared = interrupt.as_fd().try_clone_to_owned()?;
        let message = Message::AddRing { to_server, index, region: 0, offset: place, log2_size };
        messages.push_back((message, Some(shared)));
        if to_server {
            senders.push(Sender::of_client(ring, interrupt, buffers));
        } else {
            receivers.push(Receiver::of_client(ring, interrupt, buffers));
        }
    }
    messages.push_back((Message::Connect { interface: Name::new("namewire") }, None));
    Ok(Prepared { receivers, senders, messages, buffer_length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_errors_name_the_cause() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        std::fs::write(&socket, "").unwrap();
        let output = |last: &str| {
            let options = ClientOptions::default();
            ClientHandshake::connect(&socket.join(last), options).unwrap_err().to_string()
        };
        for last in ["4294967296", "007"] {
            assert!(output(last).contains("no number of an interface"), "{}", output(last));
        }
        assert!(!output("memif.sock").contains("number"));
        let stream = directory.path().join("stream");
        let _listener = std::os::unix::net::UnixListener::bind(&stream).unwrap();
        let error = ClientHandshake::connect(&stream, ClientOptions::default()).unwrap_err();
        assert!(error.to_string().contains("socket of another kind"), "{error}");
        let behind = stream.join("abc");
        let error = ClientHandshake::connect(&behind, ClientOptions::default()).unwrap_err();
        assert!(error.to_string().starts_with("abc is no number of an interface"), "{error}");
    }
}
