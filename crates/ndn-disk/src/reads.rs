//! Reads in progress: one per record, with the Interests that wait for it.

use std::collections::HashMap;

use ndn_types::Timestamp;

use crate::erasures::Position;
use crate::format::{BLOCK, PACKET_BYTES_MAX, Record, UNIT};
use crate::index::Place;
use crate::request::Buffer;

/// Maximum number of different Interests that wait for one read. Further ones go upstream.
pub const WAITERS_MAX: usize = 4;

/// Maximum number of reads of packets that are to be written again.
pub(crate) const SURVIVOR_READS_MAX: usize = 8;

/// The purpose of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Interests wait for it.
    Serve,
    /// The packet is to be written again, because its segment is the next to be overwritten.
    Survive,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) hash: u64,
    pub(crate) place: Place,
    pub(crate) position: Position,
    pub(crate) purpose: Purpose,
    pub(crate) began: Timestamp,
    pub(crate) waiters: [u64; WAITERS_MAX],
    pub(crate) waiter_count: usize,
}

/// Number of reads of each purpose is limited; buffers are reserved at the start.
#[derive(Debug)]
pub(crate) struct Reads {
    slots: Vec<Option<Read>>,
    free: Vec<u32>,
    buffers: Vec<Buffer>,
    /// Reads that Interests wait for, by hash.
    serving: HashMap<u64, u32>,
    serve_max: usize,
    survivors: usize,
}

impl Reads {
    pub(crate) fn new(serve_max: usize) -> Self {
        let count = serve_max + SURVIVOR_READS_MAX;
        let length = (Record::units_of(PACKET_BYTES_MAX) * UNIT + BLOCK).next_multiple_of(BLOCK);
        Self {
            slots: vec![None; count],
            free: (0..u32::try_from(count).unwrap_or(0)).collect(),
            buffers: (0..count).map(|_| Buffer::new(length)).collect(),
            serving: HashMap::with_capacity(serve_max * 2),
            serve_max,
            survivors: 0,
        }
    }

    /// Begins a read; `None` if too many of its purpose are in progress.
    pub(crate) fn begin(&mut self, read: Read) -> Option<(u32, Buffer)> {
        let is_full = match read.purpose {
            Purpose::Serve => self.serving.len() >= self.serve_max,
            Purpose::Survive => self.survivors >= SURVIVOR_READS_MAX,
        };
        if is_full || self.free.is_empty() {
            return None;
        }
        let buffer = self.buffers.pop()?;
        let ticket = self.free.pop()?;
        match read.purpose {
            Purpose::Serve => drop(self.serving.insert(read.hash, ticket)),
            Purpose::Survive => self.survivors += 1,
        }
        self.slots[ticket as usize] = Some(read);
        Some((ticket, buffer))
    }

    /// Ends a read.
    pub(crate) fn end(&mut self, ticket: u32) -> Option<Read> {
        let read = self.slots.get_mut(ticket as usize)?.take()?;
        self.free.push(ticket);
        match read.purpose {
            Purpose::Serve => drop(self.serving.remove(&read.hash)),
            Purpose::Survive => self.survivors -= 1,
        }
        Some(read)
    }

    /// Returns the buffer of a read that has ended.
    pub(crate) fn recycle(&mut self, buffer: Buffer) {
        self.buffers.push(buffer);
    }

    /// The ticket of a read in progress.
    pub(crate) fn any(&self) -> Option<u32> {
        let slot = self.slots.iter().position(Option::is_some)?;
        u32::try_from(slot).ok()
    }

    /// The read of a hash that Interests wait for.
    pub(crate) fn serving_mut(&mut self, hash: u64) -> Option<&mut Read> {
        let ticket = *self.serving.get(&hash)?;
        self.slots.get_mut(ticket as usize)?.as_mut()
    }
}

impl Read {
    /// Adds a waiter; false if there are too many.
    pub(crate) fn add_waiter(&mut self, waiter: u64) -> bool {
        if self.waiters().contains(&waiter) {
            return true;
        }
        let Some(place) = self.waiters.get_mut(self.waiter_count) else { return false };
        *place = waiter;
        self.waiter_count += 1;
        true
    }

    /// Removes a waiter.
    pub(crate) fn remove_waiter(&mut self, waiter: u64) {
        if let Some(position) = self.waiters().iter().position(|&one| one == waiter) {
            self.waiter_count -= 1;
            self.waiters.swap(position, self.waiter_count);
        }
    }

    pub(crate) fn waiters(&self) -> &[u64] {
        &self.waiters[..self.waiter_count]
    }
}
