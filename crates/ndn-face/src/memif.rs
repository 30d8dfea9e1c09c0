//! Faces over shared memory.

mod queue;

use std::io;
use std::os::fd::AsFd;

use ndn_memif::{Address, ClientHandshake, ClientOptions, Fault, Link, Sent};
use ndn_sys::interrupt::Interrupter;
use ndn_sys::poll::{Interest, Poller};
use ndn_table::Timestamp;

use crate::reconnect::Reconnect;
use crate::{Budget, CloseReason, LinkDropReason};

pub(crate) use queue::FrameQueue;

/// How a memif face comes to its rings.
#[derive(Debug)]
pub enum MemifEnd {
    /// A client has connected to a socket of ours, and its handshake is done.
    Accepted(Box<Link>),
    /// We connect to a server, and have begun to.
    Client(Box<MemifClient>),
    /// We have connected to a server, and the handshake is done.
    Connected(Box<MemifConnection>),
}

impl MemifEnd {
    /// Tells the peer that there will be no face.
    pub fn turn_away(&self, reason: &str) {
        match self {
            Self::Accepted(link) => link.bid_farewell(reason),
            Self::Client(client) => ndn_memif::turn_away(client.handshake.as_fd(), reason),
            Self::Connected(connection) => connection.link.bid_farewell(reason),
        }
    }
}

/// A server to connect to.
#[derive(Debug)]
pub struct MemifClient {
    /// Where it is.
    pub address: Address,
    /// What to ask for.
    pub options: ClientOptions,
    /// The handshake that has begun.
    pub handshake: ClientHandshake,
}

/// A server that we are connected to.
#[derive(Debug)]
pub struct MemifConnection {
    /// Where it is.
    pub address: Address,
    /// What was asked for, and will be again when the connection is lost.
    pub options: ClientOptions,
    /// The connection.
    pub link: Box<Link>,
}

impl MemifClient {
    /// Begins to connect.
    ///
    /// # Errors
    /// Those of `connect(2)`.
    pub fn connect(address: Address, options: ClientOptions) -> io::Result<Self> {
        let handshake = ClientHandshake::connect(&address.socket, options.clone())?;
        Ok(Self { address, options, handshake })
    }
}

/// The rings of a face, or what it does to have some.
#[derive(Debug)]
pub(crate) enum Rings {
    /// Frames travel.
    Up(Box<Link>),
    /// The server and we are still talking.
    Connecting { handshake: Box<ClientHandshake>, reconnect: Reconnect<()> },
    /// The next attempt comes later.
    Waiting(Reconnect<()>),
}

/// The transport of a memif face.
#[derive(Debug)]
pub(crate) struct MemifTransport {
    pub(crate) rings: Rings,
    /// The server, if we are its client.
    pub(crate) server: Option<(Address, ClientOptions)>,
    /// Frames that the rings have no room for.
    pub(crate) queue: FrameQueue,
    /// When to look for room: nobody tells.
    pub(crate) look_again: Option<Timestamp>,
    /// The peer has done what it may not; the face closes with the next flush.
    pub(crate) fault: Option<Fault>,
    /// What was told last of attempts to connect that came to nothing.
    pub(crate) told: Option<CloseReason>,
    /// Frames left to take for the current event.
    pub(crate) frames_left: usize,
    /// The peer raises no interrupts: its rings are looked at all the time.
    pub(crate) is_polled: bool,
    /// The current event is one of the kernel, and no look into the rings.
    pub(crate) was_interrupted: bool,
}

impl MemifTransport {
    pub(crate) fn new(rings: Rings, server: Option<(Address, ClientOptions)>) -> Self {
        let queue = FrameQueue::default();
        let (look_again, fault, told) = (None, None, None);
        Self {
            rings,
            server,
            queue,
            look_again,
            fault,
            told,
            frames_left: 0,
            is_polled: false,
            was_interrupted: false,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self.rings, Rings::Up(_))
    }

    /// Longest frame that the peer should be sent.
    pub(crate) fn frame_length_max(&self) -> Option<usize> {
        let Rings::Up(link) = &self.rings else { return None };
        usize::try_from(link.frame_length_max).ok()
    }

    /// When to look at the face for its transport's sake.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        match &self.rings {
            Rings::Up(_) => self.look_again,
            Rings::Connecting { reconnect, .. } | Rings::Waiting(reconnect) => {
                Some(reconnect.deadline())
            }
        }
    }

    /// Waits for interrupts, and for the end of the socket.
    pub(crate) fn attach(link: &Link, poller: &Poller, token: u64) -> io::Result<()> {
        let added = poller.add(link, token, Interest::Closed).and_then(|()| {
            let mut receivers = link.receivers.iter();
            receivers.try_for_each(|one| poller.add(one, token, Interest::Readable))
        });
        if added.is_err() {
            Self::detach(link, poller);
        }
        added
    }

    /// Waits no more. Closing is not enough: the peer may have the same eventfds open.
    fn detach(link: &Link, poller: &Poller) {
        let receivers = link.receivers.iter().map(AsFd::as_fd);
        for descriptor in receivers.chain([link.as_fd()]) {
            // One that was never added is nothing to remove.
            let _ = poller.remove(descriptor);
        }
    }

    /// Gives the rings up, and what waits for them.
    pub(crate) fn leave(&mut self, poller: &Poller, budget: &mut Budget) {
        match &self.rings {
            Rings::Up(link) => {
                Self::detach(link, poller);
                match self.fault {
                    Some(fault) => link.bid_farewell(&fault.to_string()),
                    None => link.bid_farewell("the face is closed"),
                }
            }
            Rings::Connecting { handshake, .. } => {
                ndn_memif::turn_away(
                    handshake.as_fd(),
                    "the face is closed, or waited for too long",
                );
                let _ = poller.remove(handshake.as_fd());
            }
            Rings::Waiting(_) => {}
        }
        self.queue.clear(budget);
        self.look_again = None;
        self.fault = None;
        self.is_polled = false;
    }

    /// Has the peer raise interrupts, or none.
    pub(crate) fn set_interrupts(&mut self, wanted: bool) -> Result<(), Fault> {
        let Rings::Up(link) = &mut self.rings else { return Ok(()) };
        link.receivers.iter_mut().try_for_each(|receiver| receiver.set_interrupts(wanted))
    }

    /// Whether there is something to take, or a fault to find.
    #[inline]
    pub(crate) fn has_frames(&mut self) -> bool {
        let Rings::Up(link) = &mut self.rings else { return false };
        link.receivers.iter_mut().any(|receiver| receiver.is_empty() != Ok(true))
    }

    /// Whether the peer looks into all its rings by itself, so that it need not be woken.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        let Rings::Up(link) = &self.rings else { return false };
        link.senders.iter().all(|sender| sender.wakes_peer() == Ok(false))
    }

    /// Puts a frame into a ring with room, or into the queue.
    #[inline]
    pub(crate) fn push(
        &mut self,
        header: &[u8],
        payload: &[u8],
        budget: &mut Budget,
        bytes_max: usize,
    ) -> Result<(), LinkDropReason> {
        let Rings::Up(link) = &mut self.rings else { return Err(LinkDropReason::Down) };
        if self.fault.is_some() {
            return Err(LinkDropReason::Down);
        }
        if !self.queue.is_empty() {
            return self.queue.push(header, payload, budget, bytes_max);
        }
        match send(link, &[header, payload]) {
            Ok(Sent::Queued) => Ok(()),
            Ok(Sent::Full) => self.queue.push(header, payload, budget, bytes_max),
            Ok(Sent::TooLong) => Err(LinkDropReason::OverMtu),
            Err(fault) => {
                self.fault = Some(fault);
                Err(LinkDropReason::Down)
            }
        }
    }

    /// Shows the peer what was sent, after what has waited. Says how many frames were dropped that do not
    /// fit its ring at all.
    pub(crate) fn flush(
        &mut self,
        interrupter: &mut Interrupter,
        budget: &mut Budget,
    ) -> Result<u64, Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let Rings::Up(link) = &mut self.rings else { return Ok(0) };
        let mut dropped = 0;
        while let Some(frame) = self.queue.first() {
            match send(link, &frame)? {
                Sent::Queued => {}
                Sent::TooLong => dropped += 1,
                Sent::Full => break,
            }
            self.queue.pop(budget);
        }
        for sender in &mut link.senders {
            sender.publish(interrupter)?;
        }
        Ok(dropped)
    }
}

/// Into the first ring with room, so that frames keep their order while there is some.
#[inline]
fn send(link: &mut Link, parts: &[&[u8]]) -> Result<Sent, Fault> {
    let mut outcome = Sent::Full;
    for sender in &mut link.senders {
        outcome = sender.send(parts)?;
        if outcome != Sent::Full {
            break;
        }
    }
    Ok(outcome)
}
