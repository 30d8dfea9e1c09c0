//! The receive ring (TPACKET_V2, `packet_mmap.txt` of the kernel).
//!
//! Slots of one size lie in blocks of one size. A slot starts with a word that says whose it is: the
//! kernel fills its slots in order and gives each to us; we give it back when its frame is taken.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::packet::address::KernelLinkAddress;
use crate::prefetch::prefetch_line;

/// Bits of the word: the slot is ours; frames were lost before it; there is a VLAN tag.
const STATUS_USER: u32 = 1;
const STATUS_LOSING: u32 = 1 << 2;
const STATUS_VLAN: u32 = 1 << 4;
const STATUS_KERNEL: u32 = 0;

/// The header of a slot (`struct tpacket2_hdr`), then the sender's address.
const AT_LENGTH: usize = 4;
const AT_CAPTURED: usize = 8;
const AT_NETWORK: usize = 14;
const AT_VLAN: usize = 24;
const AT_ADDRESS: usize = 32;
/// Where the payload of a frame starts in its slot, for a socket that does without link headers.
pub(super) const PAYLOAD_OFFSET: usize = 80;
/// Bytes of a line of the cache.
const LINE: usize = 64;
/// Distance of prefetching, in slots: header, sender and a short packet.
const SLOTS_AHEAD: usize = 4;
const LINES_AHEAD: usize = 3;
/// Bits of a VLAN tag that are its number.
const VLAN_MASK: u16 = 0xfff;

/// Arrangement of the slots in the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) slot_length: usize,
    pub(super) block_length: usize,
    pub(super) block_count: usize,
}

impl Layout {
    /// Of about `bytes` bytes, for payloads of up to `payload_max` bytes.
    pub(super) fn new(bytes: usize, payload_max: usize) -> Self {
        // A slot starts on a cache line, and a block is a power of two of pages.
        let slot_length = (PAYLOAD_OFFSET + payload_max).next_multiple_of(LINE);
        let block_length = (4 * slot_length).next_power_of_two().max(64 << 10);
        Self { slot_length, block_length, block_count: (bytes / block_length).max(1) }
    }

    pub(super) fn slots_per_block(self) -> usize {
        self.block_length / self.slot_length
    }

    pub(super) fn slot_count(self) -> usize {
        self.slots_per_block() * self.block_count
    }

    pub(super) fn length(self) -> usize {
        self.block_length * self.block_count
    }

    #[cfg(test)]
    fn offset(self, slot: usize) -> usize {
        let (block, place) = (slot / self.slots_per_block(), slot % self.slots_per_block());
        block * self.block_length + place * self.slot_length
    }
}

/// To whom a frame was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// To this host.
    Host,
    /// To a group.
    Group,
    /// Broadcast, to another host, or from this host.
    Other,
}

/// A received frame, in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The payload of the Ethernet frame, including padding.
    pub payload: &'a [u8],
    /// The sender, if it has an address of six bytes.
    pub source: Option<[u8; 6]>,
    /// To whom it was sent.
    pub delivery: Delivery,
    /// The device that received it.
    pub interface: u32,
    /// The VLAN that it is for and that no device here is for; 0 is none.
    pub vlan: u16,
    /// It was longer than a slot, and its end is lost.
    pub is_truncated: bool,
    /// Frames were lost before it because no slot was free.
    pub follows_loss: bool,
}

impl Frame<'_> {
    /// An empty frame that is not for this host.
    #[must_use]
    pub fn nothing(interface: u32) -> Self {
        Self {
            payload: &[],
            source: None,
            delivery: Delivery::Other,
            interface,
            vlan: 0,
            is_truncated: false,
            follows_loss: false,
        }
    }
}

/// The slots, and which of them is next.
#[derive(Debug)]
pub(super) struct Ring {
    memory: NonNull<u8>,
    layout: Layout,
    slots_per_block: usize,
    /// The next slot: its block, its place in that, and where it starts. Kept, since to divide costs more
    /// than to look.
    block: usize,
    place: usize,
    offset: usize,
}

// SAFETY: the ring is the only one that reads this memory and writes it, beside the kernel.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring of which the kernel has all slots.
    ///
    /// # Safety
    /// The memory has the length of `layout`, starts on a multiple of four, and lasts as long as the
    /// ring. Nobody but the kernel writes to it, and only to slots that are the kernel's.
    pub(super) unsafe fn new(memory: NonNull<u8>, layout: Layout) -> Self {
        let slots_per_block = layout.slots_per_block();
        Self { memory, layout, slots_per_block, block: 0, place: 0, offset: 0 }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the slot lies in the memory, as `advance` goes through all slots and back to the first,
        // and on a cache line, and only atomically is this word read and written by both sides.
        unsafe { AtomicU32::from_ptr(self.memory.add(self.offset).cast().as_ptr()) }
    }

    /// The frame in the next slot, if the kernel has filled it.
    #[inline]
    pub(super) fn peek(&self) -> Option<Frame<'_>> {
        // What the kernel has written into the slot is seen after its word.
        let status = self.status().load(Ordering::Acquire);
        if status & STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot lies in the memory. It is ours until `release`, which needs the ring alone,
        // so nothing writes to it while it is borrowed; its word is left out.
        let slot = unsafe {
            let start = self.memory.add(self.offset + AT_LENGTH);
            std::slice::from_raw_parts(start.as_ptr(), self.layout.slot_length - AT_LENGTH)
        };
        Some(frame(slot, status))
    }

    /// Gives the next slot back to the kernel, if it is ours.
    #[inline]
    pub(super) fn release(&mut self) {
        if self.status().load(Ordering::Relaxed) & STATUS_USER == 0 {
            return;
        }
        self.status().store(STATUS_KERNEL, Ordering::Release);
        self.advance();
        // Behind the last slots of a block comes another one: they are few.
        let ahead = self.offset + SLOTS_AHEAD * self.layout.slot_length;
        for line in 0..LINES_AHEAD {
            prefetch_line(self.memory.as_ptr().wrapping_add(ahead + line * LINE), false);
        }
    }

    #[inline]
    fn advance(&mut self) {
        self.place += 1;
        self.offset += self.layout.slot_length;
        if self.place == self.slots_per_block {
            self.place = 0;
            self.block = if self.block + 1 == self.layout.block_count { 0 } else { self.block + 1 };
            self.offset = self.block * self.layout.block_length;
        }
    }
}

/// The frame in a slot, of which the first word is left out. The kernel is right about the lengths; a
/// frame of which it is not would be empty.
fn frame(slot: &[u8], status: u32) -> Frame<'_> {
    let field = |at: usize| at - AT_LENGTH;
    let half = |at: usize| u16::from_ne_bytes([slot[field(at)], slot[field(at) + 1]]);
    let word = |at: usize| {
        let bytes: [u8; 4] = slot[field(at)..][..4].try_into().unwrap_or_default();
        usize::try_from(u32::from_ne_bytes(bytes)).unwrap_or(usize::MAX)
    };
    let start = usize::from(half(AT_NETWORK)).saturating_sub(AT_LENGTH);
    let captured = word(AT_CAPTURED);
    let payload = slot.get(start..).and_then(|rest| rest.get(..captured)).unwrap_or(&[]);
    let address: [u8; KernelLinkAddress::LENGTH as usize] = slot[field(AT_ADDRESS)..]
        [..KernelLinkAddress::LENGTH as usize]
        .try_into()
        .unwrap_or_default();
    let (interface, packet_type, source) = KernelLinkAddress::received(&address);
    let delivery = match packet_type {
        0 => Delivery::Host,
        2 => Delivery::Group,
        _ => Delivery::Other,
    };
    Frame {
        payload,
        source,
        delivery,
        interface,
        vlan: if status & STATUS_VLAN == 0 { 0 } else { half(AT_VLAN) & VLAN_MASK },
        is_truncated: payload.len() < word(AT_LENGTH),
        follows_loss: status & STATUS_LOSING != 0,
    }
}

#[cfg(test)]
mod tests;
