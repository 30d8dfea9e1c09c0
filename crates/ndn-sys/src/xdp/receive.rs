//! Taking received frames out of the rings of several queues.

use crate::xdp::rings::Descriptor;
use crate::xdp::socket::Socket;
use crate::xdp::umem::{Layout, Umem};

/// Frames that are taken before the kernel gets their chunks back.
const TAKEN_MAX: u32 = 16;
/// With fewer free entries than this, the kernel may have found none.
const FREE_MIN: u32 = 16;

/// Frames ahead of the present one that the processor is asked for.
const FRAMES_AHEAD: u32 = 4;

/// Where the bytes of a frame are.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// In the chunk that the kernel has written them to.
    Chunk(Descriptor),
    /// Put together from several chunks.
    Scratch,
}

/// The frame that is being looked at.
#[derive(Debug, Clone, Copy)]
struct Current {
    place: Place,
    /// Descriptors that it takes.
    count: u32,
}

/// Which frame is next.
#[derive(Debug, Default)]
pub(super) struct Received {
    queue: usize,
    current: Option<Current>,
    /// Frames taken from the queue that its ring does not know of yet.
    taken: u32,
    /// The ring was about full when it was looked at.
    was_full: bool,
    scratch: Vec<u8>,
}

impl Received {
    /// Looks for a frame, in the queue of the last one first; false if there is none in any.
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
            self.current = self.look(socket, umem);
            if self.current.is_some() {
                return true;
            }
            self.queue = (self.queue + 1) % queues.len();
        }
        false
    }

    fn look(&mut self, socket: &Socket, umem: &Umem) -> Option<Current> {
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

    /// The frame that was found.
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

    /// Is done with the frame that was found.
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
