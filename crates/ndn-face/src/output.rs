//! The output queue of a stream face, and the interface of all output queues.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use ndn_ring::{PacketHandle, PacketPool};
use ndn_sys::stream;

use crate::counters::{CallCounters, LinkDropReason};
use crate::memory::Account;

/// Packets of at least this length are written from their pool block; shorter ones are copied, so that
/// one system call writes many of them as one run of bytes.
pub(crate) const LARGE_PACKET: usize = 2048;
/// Slices per system call.
const SLICES_MAX: usize = 64;
/// Written bytes at the front of a blocked queue after which it is compacted.
const COMPACT_BYTES: usize = 64 * 1024;

/// The output queue of a transport.
pub trait FrameSink {
    /// Bytes in the queue, for congestion marking: here, and in the kernel as far as known.
    fn queued_bytes(&self) -> usize;

    /// Adds the frame `header` + `payload`. If there is a `handle`, it names the bytes of
    /// `payload`, and the queue may retain it instead of copying them.
    ///
    /// # Errors
    /// Why the frame is dropped instead.
    fn push_frame(
        &mut self,
        header: &[u8],
        payload: &[u8],
        handle: Option<&PacketHandle>,
    ) -> Result<(), LinkDropReason>;
}

/// A packet that is not copied.
#[derive(Debug)]
struct Large {
    /// Position in `bytes` before which it is written.
    position: usize,
    handle: PacketHandle,
}

/// Frames that a queue dropped to give memory back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shed {
    /// Frames dropped.
    pub(crate) dropped: u64,
    /// There are frames that could be dropped, too.
    pub(crate) has_more: bool,
}

/// Frames to be written, in order.
///
/// Between two flushes, large packets may stay in their pool blocks. What a flush cannot write is
/// copied, so that a slow peer holds no blocks.
#[derive(Debug, Default)]
pub(crate) struct OutputQueue {
    bytes: Vec<u8>,
    /// Bytes at the front of `bytes` that are written.
    written: usize,
    large: Vec<Large>,
    large_bytes: usize,
    /// Lengths of the frames in the queue, in order; the first may be written in part.
    frames: VecDeque<u32>,
    /// Bytes of the first frame that are written.
    first_written: usize,
    /// The kernel did not take everything.
    blocked: bool,
    /// Bytes in the send buffer of the kernel then.
    kernel_bytes: usize,
    /// Bytes charged to the budget; 0 unless blocked.
    charged: usize,
}

/// Result of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// The queue is empty.
    All,
    /// The kernel has no room.
    Blocked,
}

impl OutputQueue {
    /// Bytes in this queue.
    #[inline]
    pub(crate) fn pending_bytes(&self) -> usize {
        self.bytes.len() - self.written + self.large_bytes
    }

    /// Bytes in this queue, and in the kernel if its buffer is known to be full.
    #[inline]
    pub(crate) fn queued_bytes(&self) -> usize {
        self.pending_bytes() + self.kernel_bytes
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Adds a frame, or refuses it if the queue would exceed `bytes_max` or, when it is blocked, what the principal of
    /// the face may hold.
    #[inline]
    pub(crate) fn push(
        &mut self,
        header: &[u8],
        payload: &[u8],
        handle: Option<&PacketHandle>,
        pool: &PacketPool,
        account: &mut Account<'_>,
        bytes_max: usize,
    ) -> Result<(), LinkDropReason> {
        let length = header.len() + payload.len();
        let pending = self.pending_bytes() + length;
        if pending > bytes_max {
            return Err(LinkDropReason::QueueFull);
        }
        if self.blocked {
            self.charge(length, account)?;
        }
        self.bytes.extend_from_slice(header);
        match handle {
            Some(handle) if payload.len() >= LARGE_PACKET && !self.blocked => {
                debug_assert_eq!(handle.len(), payload.len());
                let handle = pool.retain(handle);
                self.large.push(Large { position: self.bytes.len(), handle });
                self.large_bytes += payload.len();
            }
            Some(_) | None => self.bytes.extend_from_slice(payload),
        }
        // A frame is at most a packet and its headers.
        self.frames.push_back(u32::try_from(length).unwrap_or(u32::MAX));
        Ok(())
    }

    #[cold]
    fn charge(&mut self, length: usize, account: &mut Account<'_>) -> Result<(), LinkDropReason> {
        if !account.take(length) {
            return Err(LinkDropReason::QueueFull);
        }
        self.charged += length;
        if self.written >= COMPACT_BYTES && self.written > self.bytes.len() / 2 {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
        Ok(())
    }

    /// Writes as much as the kernel takes. `scratch` may hold anything before and after.
    pub(crate) fn flush(
        &mut self,
        stream: BorrowedFd<'_>,
        pool: &PacketPool,
        account: &mut Account<'_>,
        scratch: &mut Vec<u8>,
        calls: &CallCounters,
    ) -> io::Result<Flushed> {
        while self.pending_bytes() > 0 {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let plan = self.plan(pool, &mut slices);
            calls.send_calls.increment();
            let written = match stream::write_vectored(stream, &slices[..plan.slices]) {
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            calls.sent_bytes.add(written as u64);
            if written < plan.bytes {
                calls.sent_frames.add(self.remove_written(written));
                self.keep_rest(written, pool, scratch);
                self.blocked = true;
                self.kernel_bytes = stream::unsent_bytes(stream).unwrap_or(0);
                self.recharge(account);
                return Ok(Flushed::Blocked);
            }
            self.written = plan.position;
            for large in self.large.drain(..plan.large) {
                self.large_bytes -= large.handle.len();
                pool.release(large.handle);
            }
            if self.pending_bytes() > 0 {
                calls.sent_frames.add(self.remove_written(written));
            }
        }
        calls.sent_frames.add(self.frames.len() as u64);
        self.reset(account);
        Ok(Flushed::All)
    }

    /// Lays out the next system call.
    fn plan<'a>(&'a self, pool: &'a PacketPool, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> Plan {
        let mut plan = Plan { slices: 0, bytes: 0, large: 0, position: self.written };
        let mut add = |plan: &mut Plan, bytes: &'a [u8]| {
            if !bytes.is_empty() {
                slices[plan.slices] = IoSlice::new(bytes);
                plan.slices += 1;
                plan.bytes += bytes.len();
            }
        };
        for large in &self.large {
            if plan.slices + 2 > SLICES_MAX {
                return plan;
            }
            let copied = &self.bytes[plan.position..large.position];
            add(&mut plan, copied);
            add(&mut plan, pool.bytes(&large.handle));
            plan.position = large.position;
            plan.large += 1;
        }
        if plan.slices < SLICES_MAX {
            let copied = &self.bytes[plan.position..];
            add(&mut plan, copied);
            plan.position = self.bytes.len();
        }
        plan
    }

    /// Drops the first `skipped` bytes of the queue, and copies the rest into one run.
    fn keep_rest(&mut self, mut skipped: usize, pool: &PacketPool, scratch: &mut Vec<u8>) {
        if self.large.is_empty() {
            self.written += skipped;
            return;
        }
        scratch.clear();
        let mut append = |bytes: &[u8]| {
            let cut = skipped.min(bytes.len());
            skipped -= cut;
            scratch.extend_from_slice(&bytes[cut..]);
        };
        let mut position = self.written;
        for large in self.large.drain(..) {
            append(&self.bytes[position..large.position]);
            append(pool.bytes(&large.handle));
            position = large.position;
            pool.release(large.handle);
        }
        append(&self.bytes[position..]);
        std::mem::swap(&mut self.bytes, scratch);
        self.written = 0;
        self.large_bytes = 0;
    }

    /// Records that `written` more bytes were written; returns the number of frames that are complete now.
    fn remove_written(&mut self, written: usize) -> u64 {
        self.first_written += written;
        let mut frames = 0;
        while let Some(&length) = self.frames.front()
            && length as usize <= self.first_written
        {
            self.first_written -= length as usize;
            self.frames.pop_front();
            frames += 1;
        }
        frames
    }

    /// Drops the last frames of a blocked queue while the principal of the face holds more than `keeps` bytes, but not the
    /// rest of a frame that is written in part.
    pub(crate) fn shed(&mut self, account: &mut Account<'_>, keeps: u32) -> Shed {
        let mut shed = Shed::default();
        if !self.blocked {
            return shed;
        }
        debug_assert!(self.large.is_empty(), "a blocked queue holds copies");
        let kept = usize::from(self.first_written > 0);
        while self.frames.len() > kept && account.principal_exceeds(keeps) {
            let length = self.frames.pop_back().map_or(0, |length| length as usize);
            self.bytes.truncate(self.bytes.len() - length);
            self.charged -= length;
            account.give_back(length);
            shed.dropped += 1;
        }
        shed.has_more = self.frames.len() > kept;
        self.bytes.drain(..self.written);
        self.written = 0;
        self.bytes.shrink_to(LARGE_PACKET);
        shed
    }

    fn recharge(&mut self, account: &mut Account<'_>) {
        account.give_back(self.charged);
        self.charged = self.pending_bytes();
        account.force(self.charged);
    }

    /// Resets an empty queue, except for its memory.
    fn reset(&mut self, account: &mut Account<'_>) {
        account.give_back(self.charged);
        self.charged = 0;
        self.bytes.clear();
        self.written = 0;
        self.frames.clear();
        self.first_written = 0;
        self.blocked = false;
        self.kernel_bytes = 0;
    }

    /// Drops all frames.
    pub(crate) fn discard(&mut self, pool: &PacketPool, account: &mut Account<'_>) {
        for large in self.large.drain(..) {
            pool.release(large.handle);
        }
        self.large_bytes = 0;
        self.reset(account);
    }
}

/// One system call: the number of slices, bytes and large packets, and the position up to which copied bytes are
/// written.
#[derive(Debug, Clone, Copy)]
struct Plan {
    slices: usize,
    bytes: usize,
    large: usize,
    position: usize,
}

/// Queues that no face uses, with limited memory.
#[derive(Debug, Default)]
pub(crate) struct SpareQueues {
    #[expect(clippy::vec_box, reason = "faces take the box as it is")]
    queues: Vec<Box<OutputQueue>>,
    bytes: usize,
}

impl SpareQueues {
    /// More faces than a worker sends to between two flushes.
    const QUEUES_MAX: usize = 1024;
    /// Enough for a few queues that were long.
    const BYTES_MAX: usize = 8 << 20;
    /// More than is sent between two flushes: a queue with more room was blocked for some time.
    const QUEUE_BYTES_MAX: usize = 1 << 20;

    /// An empty queue, the one that was used last if there is one.
    #[inline]
    pub(crate) fn take(&mut self) -> Box<OutputQueue> {
        let queue = self.queues.pop().unwrap_or_default();
        self.bytes -= queue.bytes.capacity();
        queue
    }

    /// Keeps an empty queue for the next face, and its memory within the limit.
    #[inline]
    pub(crate) fn put(&mut self, queue: Option<Box<OutputQueue>>) {
        let Some(mut queue) = queue else { return };
        debug_assert_eq!(queue.pending_bytes(), 0);
        if self.queues.len() == Self::QUEUES_MAX {
            return;
        }
        let capacity = queue.bytes.capacity();
        if capacity > Self::QUEUE_BYTES_MAX || self.bytes + capacity > Self::BYTES_MAX {
            queue.bytes = Vec::new();
            queue.frames = VecDeque::new();
        }
        self.bytes += queue.bytes.capacity();
        self.queues.push(queue);
    }
}
