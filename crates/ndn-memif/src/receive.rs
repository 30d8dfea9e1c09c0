//! The receiving side of a ring.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{Ordering, fence};

use ndn_sys::interrupt::{Interrupt, Interrupter};

use crate::limits::{AHEAD, CHAIN_RECEIVED_MAX};
use crate::ring::{Buffers, Descriptor, FLAG_NEXT, Fault, Ring};

/// The result of [`Receiver::receive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The ring is empty.
    Nothing,
    /// A frame of this length, bytes.
    Frame(usize),
    /// A frame longer than the buffer, skipped.
    TooLong,
    /// A frame with invalid descriptors, skipped.
    Malformed,
}

/// Receives frames from one ring.
#[derive(Debug)]
pub struct Receiver {
    ring: Ring,
    interrupt: Interrupt,
    /// The next descriptor to be read.
    position: u16,
    /// Descriptors before this one hold frames, as last published by the peer.
    filled: u16,
    /// Descriptors before this one were released to the peer.
    released: u16,
    /// On the client, the buffers that the peer fills.
    buffers: Option<Buffers>,
}

impl Receiver {
    /// The receiver of a server.
    pub(crate) fn of_server(ring: Ring, interrupt: Interrupt) -> Self {
        Self { ring, interrupt, position: 0, filled: 0, released: 0, buffers: None }
    }

    /// The receiver of a client.
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

    /// Returns to the position after the handshake. The owner does the same with the memory.
    #[cfg(fuzzing)]
    pub fn restart(&mut self) {
        self.released = if self.buffers.is_some() { self.ring.size() } else { 0 };
        (self.position, self.filled) = (0, 0);
    }

    /// Gives the server all buffers, after the handshake.
    pub(crate) fn start(&mut self) -> Result<(), Fault> {
        let size = self.ring.size();
        self.offer(0, size)?;
        self.released = size;
        Ok(())
    }

    /// Copies the next frame to `buffer`. The content of `buffer` behind the frame is undefined.
    ///
    /// Buffers go back to the peer with [`release`](Self::release).
    ///
    /// # Errors
    /// If the peer violates the protocol.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, Fault> {
        if self.position == self.filled && !self.poll_peer()? {
            return Ok(Received::Nothing);
        }
        self.prefetch(AHEAD);
        let mut length = 0;
        let mut outcome = None;
        for _ in 0..CHAIN_RECEIVED_MAX {
            let found = self.ring.descriptor(self.position)?;
            // A client uses its own buffer addresses, whatever the descriptor says.
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
            // The frame continues beyond what the peer has published.
            if self.position == self.filled {
                return Ok(Received::Malformed);
            }
        }
        Err(Fault::Chain)
    }

    /// Appends the buffer of a descriptor to the frame; fails if it is outside of the memory.
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

    /// Reads the position of the peer; false if it has not advanced.
    #[inline]
    fn poll_peer(&mut self) -> Result<bool, Fault> {
        // Acquire: the descriptors and buffers were written before.
        let (filled, given) = match self.buffers {
            None => (self.ring.head()?.load(Ordering::Acquire), self.ring.size()),
            // It cannot fill more buffers than it has.
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

    /// Prefetches the buffer `AHEAD` descriptors ahead, if it holds a frame.
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

    /// Whether all frames of the ring were read.
    ///
    /// # Errors
    /// If the peer violates the protocol.
    pub fn is_empty(&mut self) -> Result<bool, Fault> {
        Ok(self.position == self.filled && !self.poll_peer()?)
    }

    /// Releases the buffers of all frames that were read to the peer.
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

    /// Clears pending interrupts. Receive all frames after this, not before.
    pub fn clear_interrupt(&self) {
        self.interrupt.clear();
    }

    /// Clears pending interrupts after the ring was found empty. If the peer has added frames meanwhile, raises one
    /// in its place, so that no frame is left without an interrupt.
    ///
    /// # Errors
    /// If the peer violates the protocol, or the interrupt cannot be raised.
    pub fn rest(&mut self, interrupter: &mut Interrupter) -> Result<(), Fault> {
        self.interrupt.clear();
        if self.is_empty()? {
            return Ok(());
        }
        interrupter.raise(&self.interrupt).map_err(|_| Fault::Interrupt)
    }

    /// Sets whether the peer raises interrupts. After switching them on, check the ring once more before waiting.
    ///
    /// # Errors
    /// None that the peer could cause.
    pub fn set_interrupts(&mut self, requested: bool) -> Result<(), Fault> {
        self.ring.set_interrupts(requested)?;
        // Orders the flag before the following read of the ring: a peer that has not seen the flag has added its frame
        // before.
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
