//! The sending side of a ring.

use std::sync::atomic::{Ordering, fence};

use ndn_sys::interrupt::{Interrupt, Interrupter};

use crate::limits::{AHEAD, CHAIN_MAX};
use crate::ring::{Buffers, Descriptor, FLAG_NEXT, Fault, Ring};

/// The result of [`Sender::send`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The frame is in the ring; [`Sender::publish`] shows it to the peer.
    Queued,
    /// The ring is full.
    Full,
    /// The frame exceeds the buffers of the ring.
    TooLong,
}

/// Puts frames into one ring.
#[derive(Debug)]
pub struct Sender {
    ring: Ring,
    interrupt: Interrupt,
    /// The next descriptor to be written.
    position: u16,
    /// Descriptors before this one are free, as last published by the peer.
    limit: u16,
    /// Descriptors before this one were shown to the peer.
    published: u16,
    /// On the client, its buffers; a server fills those of the client.
    buffers: Option<Buffers>,
}

impl Sender {
    /// The sender of a server.
    pub(crate) fn of_server(ring: Ring, interrupt: Interrupt) -> Self {
        Self { ring, interrupt, position: 0, limit: 0, published: 0, buffers: None }
    }

    /// The sender of a client.
    pub(crate) fn of_client(ring: Ring, interrupt: Interrupt, buffers: Buffers) -> Self {
        let limit = ring.size();
        Self { ring, interrupt, position: 0, limit, published: 0, buffers: Some(buffers) }
    }

    /// Returns to the position after the handshake. The owner does the same with the memory.
    #[cfg(fuzzing)]
    pub fn restart(&mut self) {
        self.limit = if self.buffers.is_some() { self.ring.size() } else { 0 };
        (self.position, self.published) = (0, 0);
    }

    /// Number of buffers of the ring.
    pub(crate) fn ring_size(&self) -> u16 {
        self.ring.size()
    }

    /// Writes the frame that consists of `parts` to the ring, in as many buffers as it needs.
    ///
    /// # Errors
    /// If the peer violates the protocol.
    #[inline]
    pub fn send(&mut self, parts: &[&[u8]]) -> Result<Sent, Fault> {
        self.prefetch();
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if let Some(sent) = self.send_short(length, parts)? {
            return Ok(sent);
        }
        let mut chain = [None; CHAIN_MAX];
        let mut room = 0;
        let mut count: u16 = 0;
        // An empty frame takes a buffer, too.
        for place in &mut chain {
            // The ring has no more.
            if count == self.ring.size() {
                break;
            }
            if self.position.wrapping_add(count) == self.limit && !self.poll_peer(count)? {
                return Ok(Sent::Full);
            }
            let buffer = self.buffer(self.position.wrapping_add(count))?;
            room += usize::try_from(buffer.length).unwrap_or(usize::MAX).min(length - room);
            *place = Some(buffer);
            count += 1;
            if room == length {
                self.fill(chain.iter().flatten(), parts)?;
                self.position = self.position.wrapping_add(count);
                return Ok(Sent::Queued);
            }
        }
        Ok(Sent::TooLong)
    }

    /// As [`send`](Self::send), for a frame that fits one buffer, as nearly all do.
    #[inline]
    fn send_short(&mut self, length: usize, parts: &[&[u8]]) -> Result<Option<Sent>, Fault> {
        if self.position == self.limit && !self.poll_peer(0)? {
            return Ok(Some(Sent::Full));
        }
        let buffer = self.buffer(self.position)?;
        if usize::try_from(buffer.length).is_ok_and(|room| room < length) {
            return Ok(None);
        }
        self.fill(std::iter::once(&buffer), parts)?;
        self.position = self.position.wrapping_add(1);
        Ok(Some(Sent::Queued))
    }

    /// Prefetches a buffer that will be written soon.
    #[inline]
    fn prefetch(&self) {
        if self.limit.wrapping_sub(self.position) <= AHEAD {
            return;
        }
        let position = self.position.wrapping_add(AHEAD);
        let place = match self.buffers {
            Some(buffers) => Ok(buffers.descriptor(position, self.ring.size(), 0)),
            None => self.ring.descriptor(position),
        };
        if let Ok(Descriptor { region, offset, .. }) = place {
            self.ring.regions().prefetch(region, offset, true);
        }
    }

    /// Fills buffers with a frame that fits.
    #[inline]
    fn fill<'a>(
        &self,
        chain: impl Iterator<Item = &'a Descriptor>,
        parts: &[&[u8]],
    ) -> Result<(), Fault> {
        let mut left: usize = parts.iter().map(|part| part.len()).sum();
        let (mut next_part, mut part): (usize, &[u8]) = (0, &[]);
        for (position, buffer) in (0_u16..).zip(chain) {
            let room = usize::try_from(buffer.length).unwrap_or(usize::MAX).min(left);
            let mut used = 0;
            while used < room {
                while part.is_empty() {
                    part = parts.get(next_part).copied().unwrap_or(&[0]);
                    next_part += 1;
                }
                let (now, later) = part.split_at(part.len().min(room - used));
                let offset =
                    u32::try_from(used).ok().and_then(|used| buffer.offset.checked_add(used));
                let offset = offset.ok_or(Fault::Descriptor)?;
                self.ring.regions().copy_in(buffer.region, offset, now)?;
                used += now.len();
                part = later;
            }
            left -= room;
            let flags = if left > 0 { FLAG_NEXT } else { 0 };
            let length = u32::try_from(room).unwrap_or(buffer.length);
            let filled = Descriptor { flags, length, ..*buffer };
            self.ring.set_descriptor(self.position.wrapping_add(position), filled)?;
        }
        Ok(())
    }

    /// The buffer at `position`.
    #[inline]
    fn buffer(&self, position: u16) -> Result<Descriptor, Fault> {
        if let Some(buffers) = self.buffers {
            return Ok(buffers.descriptor(position, self.ring.size(), buffers.length));
        }
        let given = self.ring.descriptor(position)?;
        let Descriptor { region, offset, length, .. } = given;
        // A frame in empty buffers would never end.
        match length > 0 && self.ring.regions().contain(region, offset, length) {
            true => Ok(given),
            false => Err(Fault::Descriptor),
        }
    }

    /// Reads the position of the peer; false if there is no room beyond the next `count` descriptors.
    #[inline]
    fn poll_peer(&mut self, count: u16) -> Result<bool, Fault> {
        let size = self.ring.size();
        let limit = match self.buffers {
            Some(_) => self.ring.tail()?.load(Ordering::Acquire).wrapping_add(size),
            None => self.ring.head()?.load(Ordering::Acquire),
        };
        // The peer can neither read what was not published nor free more than the ring has.
        let room = limit.wrapping_sub(self.position);
        let unpublished = self.position.wrapping_sub(self.published);
        if room > size - unpublished.min(size) {
            return Err(Fault::Positions);
        }
        self.limit = limit;
        Ok(room > count)
    }

    /// Whether there are frames for [`publish`](Self::publish).
    #[must_use]
    pub fn is_unpublished(&self) -> bool {
        self.published != self.position
    }

    /// Whether the peer needs an interrupt: it does not poll the ring.
    ///
    /// # Errors
    /// None that the peer could cause.
    #[inline]
    pub fn wakes_peer(&self) -> Result<bool, Fault> {
        self.ring.wants_interrupts()
    }

    /// Shows the peer the frames sent since the last call, and raises an interrupt if the peer wants one.
    ///
    /// # Errors
    /// If the interrupt cannot be raised.
    #[inline]
    pub fn publish(&mut self, interrupter: &mut Interrupter) -> Result<(), Fault> {
        if !self.is_unpublished() {
            return Ok(());
        }
        self.published = self.position;
        let shown = if self.buffers.is_some() { self.ring.head()? } else { self.ring.tail()? };
        shown.store(self.position, Ordering::Release);
        // Orders the position before the read of the flag: a receiver that sets the flag and then reads the ring sees
        // the frames, or this sees the flag.
        fence(Ordering::SeqCst);
        if self.ring.wants_interrupts()? {
            interrupter.raise(&self.interrupt).map_err(|_| Fault::Interrupt)?;
        }
        Ok(())
    }
}
