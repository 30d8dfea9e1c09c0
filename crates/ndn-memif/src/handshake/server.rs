//! The server: maps the memory of the client, which it does not trust.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use ndn_sys::interrupt::Interrupt;
use ndn_sys::seqpacket;
use ndn_sys::shared_memory::SharedMemory;

use super::{
    HandshakeError, MODE_ETHERNET, PROGRAM, Progress, Refusal, VERSION, buffer_length,
    frame_length_max, is_own, next_message, none, report, single,
};
use crate::budget::MemoryBudget;
use crate::connection::Connection;
use crate::limits::{LOG2_RING_SIZE_MAX, MEMORY_MAX, REGIONS_MAX, RINGS_MAX};
use crate::message::{Message, Name};
use crate::receive::Receiver;
use crate::regions::{Region, Regions};
use crate::ring::Ring;
use crate::secret::Secret;
use crate::send::Sender;

/// A ring that the client has added.
#[derive(Debug)]
struct Added {
    region: u16,
    offset: u32,
    log2_size: u8,
    interrupt: Interrupt,
}

/// The parts of a link, except the socket.
struct Agreed {
    id: u32,
    peer: Name,
    interface: Name,
    receivers: Vec<Receiver>,
    senders: Vec<Sender>,
}

/// Options of a server.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// Maximum bytes to send in one buffer; the default depends on the program of the client.
    pub buffer_length: Option<u32>,
    /// Clients accept frames in several buffers, even if their programs are unknown.
    pub chains: bool,
    /// Limit on the memory of all clients together; by default there is only that of each client.
    pub memory: Option<Arc<MemoryBudget>>,
}

/// A client that is connecting to this server.
#[derive(Debug)]
pub struct ServerHandshake {
    socket: OwnedFd,
    options: ServerOptions,
    /// The interface and the program of the client, after INIT.
    client: Option<(u32, Name)>,
    regions: Vec<Region>,
    to_server: Vec<Added>,
    to_client: Vec<Added>,
}

impl ServerHandshake {
    /// Sends HELLO on an accepted, non-blocking socket.
    ///
    /// # Errors
    /// If the client is gone.
    pub fn new(socket: OwnedFd, options: ServerOptions) -> Result<Self, HandshakeError> {
        let hello = Message::Hello {
            name: Name::new(PROGRAM),
            versions: (VERSION, VERSION),
            region_max: REGIONS_MAX - 1,
            ring_to_client_max: RINGS_MAX - 1,
            ring_to_server_max: RINGS_MAX - 1,
            log2_ring_size_max: LOG2_RING_SIZE_MAX,
        };
        seqpacket::send(socket.as_fd(), &hello.encode(), None)?;
        let (regions, to_server, to_client) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { socket, options, client: None, regions, to_server, to_client })
    }

    /// The interface that the client has requested and was admitted to.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.client.map(|(id, _)| id)
    }

    /// Processes the messages of the client, and answers. `admit` decides whether a client with this secret may use
    /// an interface.
    ///
    /// # Errors
    /// See [`HandshakeError`]; the connection cannot be used then.
    pub fn advance(
        mut self,
        admit: impl Fn(u32, &Secret) -> Result<(), Refusal>,
    ) -> Result<Progress<Self>, HandshakeError> {
        match self.process_messages(admit) {
            Ok(None) => Ok(Progress::Waiting(self)),
            Ok(Some(Agreed { id, peer, interface, receivers, senders })) => {
                let socket = self.socket;
                let ring_size = senders.iter().map(Sender::ring_size).min().unwrap_or(1);
                let buffer_length = buffer_length(self.options.buffer_length, &peer);
                let takes_chains = self.options.chains || is_own(&peer);
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

    fn process_messages(
        &mut self,
        admit: impl Fn(u32, &Secret) -> Result<(), Refusal>,
    ) -> Result<Option<Agreed>, HandshakeError> {
        while let Some((message, descriptors)) = next_message(self.socket.as_fd())? {
            match (message, self.client) {
                (Message::Init { version, id, mode, secret, name }, None) => {
                    none(&descriptors)?;
                    check(version, mode)?;
                    let admitted = admit(id, &secret);
                    admitted.map_err(|refusal| HandshakeError::NotAdmitted {
                        id,
                        client: name,
                        refusal,
                    })?;
                    self.client = Some((id, name));
                }
                (Message::AddRegion { index, size }, Some(_)) => {
                    self.add_region(index, size, single(descriptors)?)?;
                }
                (Message::AddRing { to_server, index, region, offset, log2_size }, Some(_)) => {
                    let interrupt = Interrupt::adopt(single(descriptors)?)?;
                    let added = Added { region, offset, log2_size, interrupt };
                    self.add_ring(to_server, index, added)?;
                }
                (Message::Connect { interface }, Some((id, peer))) => {
                    none(&descriptors)?;
                    let link = self.link(id, peer, interface)?;
                    let connected = Message::Connected { interface: Name::new("namewire") };
                    seqpacket::send(self.socket.as_fd(), &connected.encode(), None)?;
                    return Ok(Some(link));
                }
                _ => return Err(HandshakeError::Protocol("Unexpected message")),
            }
            seqpacket::send(self.socket.as_fd(), &Message::Ack.encode(), None)?;
        }
        Ok(None)
    }

    fn add_region(&mut self, index: u16, size: u64, file: OwnedFd) -> Result<(), HandshakeError> {
        if index >= REGIONS_MAX || usize::from(index) != self.regions.len() {
            return Err(HandshakeError::Protocol("Invalid region index"));
        }
        let used: u64 = self.regions.iter().map(|region| region.memory.len() as u64).sum();
        if used.saturating_add(size) > MEMORY_MAX {
            return Err(HandshakeError::Protocol("Too much shared memory"));
        }
        let memory = SharedMemory::adopt(file.as_fd(), size).map_err(|_| {
            HandshakeError::Protocol("Unusable region: not sealed memory, or short")
        })?;
        self.regions.push(Region { memory, charge: None });
        Ok(())
    }

    /// Charges all regions. Before, they are mapped and not accessed, so that an unfinished handshake takes no memory
    /// from others.
    fn charge(&mut self, id: u32, client: Name) -> Result<(), HandshakeError> {
        let Some(budget) = &self.options.memory else { return Ok(()) };
        let user = seqpacket::user_of_peer(self.socket.as_fd())?;
        for region in &mut self.regions {
            let charge = budget.charge(user, region.memory.len() as u64);
            let refusal = Refusal::MemoryUsedUp;
            let charge = charge.ok_or(HandshakeError::NotAdmitted { id, client, refusal })?;
            region.charge = Some(charge);
        }
        Ok(())
    }

    fn add_ring(
        &mut self,
        to_server: bool,
        index: u16,
        added: Added,
    ) -> Result<(), HandshakeError> {
        let rings = if to_server { &mut self.to_server } else { &mut self.to_client };
        if index >= RINGS_MAX || usize::from(index) != rings.len() {
            return Err(HandshakeError::Protocol("Invalid ring index"));
        }
        if added.log2_size > LOG2_RING_SIZE_MAX {
            return Err(HandshakeError::Protocol("Invalid ring size"));
        }
        rings.push(added);
        Ok(())
    }

    /// Checks the rings and makes the parts of the link.
    fn link(&mut self, id: u32, peer: Name, interface: Name) -> Result<Agreed, HandshakeError> {
        if self.to_server.is_empty() || self.to_client.is_empty() {
            return Err(HandshakeError::Protocol("Missing rings"));
        }
        self.charge(id, peer)?;
        let regions = Regions::new(std::mem::take(&mut self.regions));
        let open = |added: Added| {
            let Added { region, offset, log2_size, interrupt } = added;
            let ring = Ring::new(regions.clone(), region, offset, log2_size)?;
            if !ring.has_cookie()? {
                return Err(HandshakeError::Protocol("Wrong ring"));
            }
            Ok((ring, interrupt))
        };
        let (mut receivers, mut senders) = (Vec::new(), Vec::new());
        for added in self.to_server.drain(..) {
            let (ring, interrupt) = open(added)?;
            receivers.push(Receiver::of_server(ring, interrupt));
        }
        for added in self.to_client.drain(..) {
            let (ring, interrupt) = open(added)?;
            senders.push(Sender::of_server(ring, interrupt));
        }
        Ok(Agreed { id, peer, interface, receivers, senders })
    }
}

impl AsFd for ServerHandshake {
    /// The socket: readable when [`advance`](Self::advance) has something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn check(version: u16, mode: u8) -> Result<(), HandshakeError> {
    if version != VERSION {
        return Err(HandshakeError::Protocol("Incompatible memif version"));
    }
    if mode != MODE_ETHERNET {
        return Err(HandshakeError::Protocol("Only ethernet mode supported"));
    }
    Ok(())
}
