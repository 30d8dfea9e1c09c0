//! Received frames of several queues.

use crate::xdp::rings::Descriptor;
use crate::xdp::socket::Socket;
use crate::xdp::umem::{Layout, Umem};

/// Frames that are released before their chunks are returned to the kernel.
const TAKEN_MAX: u32 = 16;
/// With fewer free entries than this, the kernel may have found none.
const FREE_MIN: u32 = 16;

/// Distance of prefetching, in frames.
const FRAMES_AHEAD: u32 = 4;

/// The bytes of a frame.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// In the chunk that the kernel has written.
    Chunk(Descriptor),
    /// Copied together from several chunks.
    Scratch,
}

/// The prepared frame.
#[derive(Debug, Clone, Copy)]
struct Current {
    place: Place,
    /// Its number of descriptors.
    count: u32,
}

/// The position of the next frame.
#[derive(Debug, Default)]
pub(super) struct Received {
    queue: usize,
    current: Option<Current>,
    /// Frames of the queue that were released and not committed to its ring.
    taken: u32,
    /// The ring was almost full when it was read.
    was_full: bool,
    scratch: Vec<u8>,
}

impl Received {
    /// Prepares the next frame, from the queue of the last one first; false if all queues are empty.
    #[inline]
    pub(super) fn prepare(&mut self, queues: &mut [Socket], umem: &Umem) -> bool {
        if self.current.is_some() {
            return true;
        }
        for _ in 0..queues.len() {
            let Some(socket) = queues.get_mut(self.queue) else { break };
            if socket.receive.known() == 0 {
                self.give_back(socket);
                let known = socket.receive.refresh();
                self.was_full = known + FREE_MIN > socket.receive.capacity();
            }
            self.current = self.poll(socket, umem);
            if self.current.is_some() {
                return true;
            }
            self.queue = (self.queue + 1) % queues.len();
        }
        false
    }

    fn poll(&mut self, socket: &Socket, umem: &Umem) -> Option<Current> {
        let first = socket.receive.entry(0)?;
        if let Some(later) = socket.receive.entry(FRAMES_AHEAD) {
            umem.prefetch(later.address);
        }
        if !first.continues() {
            return Some(Current { place: Place::Chunk(first), count: 1 });
        }
        self.scratch.clear();
        let mut count = 0;
        loop {
            // All pieces of a frame become visible at once.
            let piece = socket.receive.entry(count)?;
            // SAFETY: the kernel has given the chunk to us with this descriptor, which is taken when
            // the frame is released.
            let bytes = unsafe { umem.bytes(piece.address, piece.length as usize) };
            self.scratch.extend_from_slice(bytes);
            count += 1;
            if !piece.continues() {
                return Some(Current { place: Place::Scratch, count });
            }
        }
    }

    /// The prepared frame.
    #[inline]
    pub(super) fn bytes<'m>(&'m self, umem: &'m Umem) -> Option<&'m [u8]> {
        match self.current?.place {
            Place::Chunk(chunk) => {
                // SAFETY: the kernel has given the chunk to us with this descriptor. It gets it back by
                // `release`, for which neither this nor the memory may be borrowed.
                Some(unsafe { umem.bytes(chunk.address, chunk.length as usize) })
            }
            Place::Scratch => Some(&self.scratch),
        }
    }

    /// Whether frames may have been lost before this one.
    #[inline]
    pub(super) fn may_follow_loss(&self) -> bool {
        self.was_full
    }

    /// Releases the prepared frame.
    #[inline]
    pub(super) fn release(&mut self, queues: &mut [Socket], layout: Layout) {
        let (Some(current), Some(socket)) = (self.current.take(), queues.get_mut(self.queue))
        else {
            return;
        };
        self.was_full = false;
        for _ in 0..current.count {
            if let Some(descriptor) = socket.receive.entry(0) {
                let pushed = socket.fill.push(layout.chunk_of(descriptor.address));
                debug_assert!(pushed, "a fill ring has room for the chunks of its queue");
                socket.receive.advance();
            }
        }
        self.taken += current.count;
        if self.taken >= TAKEN_MAX {
            self.give_back(socket);
        }
    }

    fn give_back(&mut self, socket: &mut Socket) {
        if std::mem::take(&mut self.taken) == 0 {
            return;
        }
        socket.receive.commit();
        socket.fill.commit();
        if socket.fill.needs_wakeup() {
            socket.wake_to_receive();
        }
    }
}
