//! The side of a ring that takes frames.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{Ordering, fence};

use ndn_sys::interrupt::{Interrupt, Interrupter};

use crate::limits::{AHEAD, CHAIN_RECEIVED_MAX};
use crate::ring::{Buffers, Descriptor, FLAG_NEXT, Fault, Ring};

/// What [`Receiver::receive`] has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The ring is empty.
    Nothing,
    /// A frame with its length in bytes.
    Frame(usize),
    /// A frame that was longer than the buffer, passed over.
    TooLong,
    /// A frame whose descriptors lead nowhere or do not end, passed over.
    Malformed,
}

/// Takes frames out of one ring.
#[derive(Debug)]
pub struct Receiver {
    ring: Ring,
    interrupt: Interrupt,
    /// The next descriptor to read.
    position: u16,
    /// Those before this one hold frames, as the peer has said last.
    filled: u16,
    /// Up to here the peer has heard what was taken.
    released: u16,
    /// Buffers that are given to the peer to fill, if this is the client.
    buffers: Option<Buffers>,
}

impl Receiver {
    /// Of a server.
    pub(crate) fn of_server(ring: Ring, interrupt: Interrupt) -> Self {
        Self { ring, interrupt, position: 0, filled: 0, released: 0, buffers: None }
    }

    /// Of a client.
    pub(crate) fn of_client(ring: Ring, interrupt: Interrupt, buffers: Buffers) -> Self {
        let buffers = Some(buffers);
        Self { ring, interrupt, position: 0, filled: 0, released: 0, buffers }
    }

    #[cfg(test)]
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    #[cfg(test)]
    pub(crate) fn is_of_client(&self) -> bool {
        self.buffers.is_some()
    }

    /// Gives the server all buffers, once it is ready.
    pub(crate) fn start(&mut self) -> Result<(), Fault> {
        let size = self.ring.size();
        self.offer(0, size)?;
        self.released = size;
        Ok(())
    }

    /// Takes the next frame into `buffer`. What it holds behind the frame is of no meaning.
    ///
    /// Buffers go back to the peer with [`release`](Self::release).
    ///
    /// # Errors
    /// If the peer does not keep to the protocol.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, Fault> {
        if self.position == self.filled && !self.look()? {
            return Ok(Received::Nothing);
        }
        self.prefetch(AHEAD);
        let mut length = 0;
        let mut outcome = None;
        for _ in 0..CHAIN_RECEIVED_MAX {
            let found = self.ring.descriptor(self.position)?;
            // The positions of a client's own buffers are its own.
            let place = self.buffers.map_or(found, |buffers| {
                buffers.descriptor(self.position, self.ring.size(), found.length)
            });
            self.position = self.position.wrapping_add(1);
            if outcome.is_none() {
                outcome = self.append(place, buffer, &mut length);
            }
            if found.flags & FLAG_NEXT == 0 {
                return Ok(outcome.unwrap_or(Received::Frame(length)));
            }
            // The peer has said that its frames end here.
            if self.position == self.filled {
                return Ok(Received::Malformed);
            }
        }
        Err(Fault::Chain)
    }

    /// Copies what `place` names to the end of the frame; says if that cannot be.
    #[inline]
    fn append(&self, place: Descriptor, buffer: &mut [u8], length: &mut usize) -> Option<Received> {
        let Descriptor { region, length: more, offset, .. } = place;
        let in_buffer = self.buffers.is_none_or(|buffers| more <= buffers.length);
        if !in_buffer || !self.ring.regions().contain(region, offset, more) {
            return Some(Received::Malformed);
        }
        let end = usize::try_from(more).ok().and_then(|more| length.checked_add(more));
        let Some(room) = end.and_then(|end| buffer.get_mut(*length..end)) else {
            return Some(Received::TooLong);
        };
        *length += room.len();
        let copied = self.ring.regions().copy_out(region, offset, room);
        copied.is_err().then_some(Received::Malformed)
    }

    /// Looks how far the peer is; false if it is not further.
    #[inline]
    fn look(&mut self) -> Result<bool, Fault> {
        // What the peer has written into descriptors and buffers is seen after this.
        let (filled, given) = match self.buffers {
            None => (self.ring.head()?.load(Ordering::Acquire), self.ring.size()),
            // It can fill no more buffers than it was given.
            Some(_) => {
                let given = self.released.wrapping_sub(self.position);
                (self.ring.tail()?.load(Ordering::Acquire), given)
            }
        };
        if filled.wrapping_sub(self.position) > given {
            return Err(Fault::Positions);
        }
        self.filled = filled;
        (0..AHEAD).for_each(|ahead| self.prefetch(ahead));
        Ok(self.position != filled)
    }

    /// Asks for the buffer that is so far ahead, if there is a frame in it.
    #[inline]
    fn prefetch(&self, ahead: u16) {
        if self.filled.wrapping_sub(self.position) <= ahead {
            return;
        }
        let position = self.position.wrapping_add(ahead);
        let place = match self.buffers {
            Some(buffers) => Ok(buffers.descriptor(position, self.ring.size(), 0)),
            None => self.ring.descriptor(position),
        };
        if let Ok(Descriptor { region, offset, .. }) = place {
            self.ring.regions().prefetch(region, offset, false);
        }
    }

    /// Whether nothing is in the ring that was not taken.
    ///
    /// # Errors
    /// If the peer does not keep to the protocol.
    pub fn is_empty(&mut self) -> Result<bool, Fault> {
        Ok(self.position == self.filled && !self.look()?)
    }

    /// Lets the peer use the buffers of all frames that were taken.
    ///
    /// # Errors
    /// None that the peer could cause.
    #[inline]
    pub fn release(&mut self) -> Result<(), Fault> {
        if self.buffers.is_none() {
            if self.released != self.position {
                self.released = self.position;
                self.ring.tail()?.store(self.position, Ordering::Release);
            }
            return Ok(());
        }
        let size = self.ring.size();
        let end = self.position.wrapping_add(size);
        if self.released != end {
            self.offer(self.released, end)?;
            self.released = end;
        }
        Ok(())
    }

    /// Gives the server the buffers of a client from `start` to `end`.
    fn offer(&self, start: u16, end: u16) -> Result<(), Fault> {
        let Some(buffers) = self.buffers else { return Ok(()) };
        let mut position = start;
        while position != end {
            let offered = buffers.descriptor(position, self.ring.size(), buffers.length);
            self.ring.set_descriptor(position, offered)?;
            position = position.wrapping_add(1);
        }
        self.ring.head()?.store(end, Ordering::Release);
        Ok(())
    }

    /// The interrupts that have come are known. Take all frames after this, not before.
    pub fn clear_interrupt(&self) {
        self.interrupt.clear();
    }

    /// Clears received interrupts after the ring was found empty. If the peer has written frames meanwhile, raises one
    /// instead: a reader that stops before the ring is empty is woken for the rest.
    ///
    /// # Errors
    /// If the peer does not keep to the protocol, or the interrupt cannot be raised.
    pub fn rest(&mut self, interrupter: &mut Interrupter) -> Result<(), Fault> {
        self.interrupt.clear();
        if self.is_empty()? {
            return Ok(());
        }
        interrupter.raise(&self.interrupt).map_err(|_| Fault::Interrupt)
    }

    /// Whether the peer should raise interrupts. After enabling them, and before sleeping again, the reader polls the
    /// ring once more.
    ///
    /// # Errors
    /// None that the peer could cause.
    pub fn set_interrupts(&mut self, wanted: bool) -> Result<(), Fault> {
        self.ring.set_interrupts(wanted)?;
        // Before the ring is polled: a peer that has not seen the flag has written its frame before.
        fence(Ordering::SeqCst);
        Ok(())
    }
}

impl AsFd for Receiver {
    /// Readable when the peer has raised an interrupt.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.interrupt.as_fd()
    }
}
