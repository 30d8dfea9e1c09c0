//! Faces in memory: between the forwarder and its own management, and between the forwarder and the program
//! that embeds it.
//!
//! Two bounded queues of frames, and a waker for each side. It is a cold path: frames are copied
//! into memory of their own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use ndn_ring::{Consumer, Producer, ring};
use ndn_sys::poll::Waker;

/// One end of a face in memory. Frames are NDNLPv2 packets, or bare Interests and Data.
///
/// A frame for which the queue has no room is refused and counted. Dropping an end closes the face.
#[derive(Debug)]
pub struct InternalEnd {
    outgoing: Producer<Vec<u8>>,
    incoming: Consumer<Vec<u8>>,
    /// Frames that [`send`](Self::send) refused.
    refused: u64,
    /// The worker reads this end within its limit for management.
    pub(crate) is_limited: bool,
    /// Readable when there may be something in `incoming`.
    own: Arc<Waker>,
    /// Dropped last, after the queues were closed: the other end finds them closed when it wakes.
    other: WakeOnDrop,
}

/// The waker of the other end.
#[derive(Debug)]
struct WakeOnDrop(Arc<Waker>);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        self.0.wake();
    }
}

impl InternalEnd {
    /// Two connected ends, with room for `capacity` frames each way.
    ///
    /// # Errors
    /// Those of making a [`Waker`].
    pub fn pair(capacity: usize) -> io::Result<(Self, Self)> {
        let (near_wakes, far_wakes) = (Arc::new(Waker::new()?), Arc::new(Waker::new()?));
        let (near_out, far_in) = ring(capacity);
        let (far_out, near_in) = ring(capacity);
        let near = Self {
            outgoing: near_out,
            incoming: near_in,
            refused: 0,
            is_limited: false,
            own: Arc::clone(&near_wakes),
            other: WakeOnDrop(Arc::clone(&far_wakes)),
        };
        let far = Self {
            outgoing: far_out,
            incoming: far_in,
            refused: 0,
            is_limited: false,
            own: far_wakes,
            other: WakeOnDrop(near_wakes),
        };
        Ok((near, far))
    }

    /// Sends a frame and wakes the other end.
    ///
    /// # Errors
    /// The frame, if the queue is full or the other end is gone.
    pub fn send(&mut self, frame: Vec<u8>) -> Result<(), Vec<u8>> {
        self.send_quietly(frame)?;
        self.wake();
        Ok(())
    }

    /// Sends a frame; the other end is woken by [`wake`](Self::wake).
    pub(crate) fn send_quietly(&mut self, frame: Vec<u8>) -> Result<(), Vec<u8>> {
        if self.outgoing.is_closed() || !self.has_room() {
            self.refused += 1;
            return Err(frame);
        }
        let is_pushed = self.outgoing.push_with(|| frame);
        debug_assert!(is_pushed, "there is room");
        self.outgoing.publish();
        Ok(())
    }

    pub(crate) fn wake(&self) {
        self.other.0.wake();
    }

    /// Number of frames that this end could not send, because the queue was full or the other end was gone.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether there is room for one more frame.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.outgoing.room() > 0
    }

    /// How many frames sent here the other end has not received yet.
    #[must_use]
    pub fn unreceived(&self) -> usize {
        self.outgoing.capacity() - self.outgoing.room()
    }

    /// The next frame, if there is one.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        self.incoming.pop()
    }

    /// Whether the other end is gone and everything it sent has been received.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // The other end publishes what it has sent before it closes its queues.
        self.outgoing.is_closed() && self.incoming.waiting() == 0
    }

    /// Makes the descriptor unreadable until the other end sends again. Call it before the
    /// [`receive`](Self::receive) that finds nothing, not after.
    pub fn reset(&self) {
        self.own.reset();
    }

    /// Makes the descriptor readable again, if not everything has been received, or it is not known yet that
    /// the other end is gone.
    pub(crate) fn remind(&self) {
        if self.incoming.waiting() > 0 || self.outgoing.is_closed() {
            self.own.wake();
        }
    }
}

impl AsFd for InternalEnd {
    /// Readable when there may be a frame.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.own.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_cross_in_order_and_within_the_limit() {
        let (mut near, mut far) = InternalEnd::pair(2).unwrap();
        near.send(vec![1]).unwrap();
        near.send(vec![2]).unwrap();
        assert!(!near.has_room());
        assert_eq!((near.unreceived(), far.unreceived()), (2, 0));
        assert_eq!(near.send(vec![3]), Err(vec![3]));
        assert_eq!((near.refused(), far.refused()), (1, 0));
        far.reset();
        assert_eq!(far.receive(), Some(vec![1]));
        assert_eq!(near.unreceived(), 1);
        near.send(vec![4]).unwrap();
        drop(near);
        assert!(!far.is_closed());
        assert_eq!(far.receive(), Some(vec![2]));
        assert_eq!(far.receive(), Some(vec![4]));
        assert_eq!(far.receive(), None);
        assert!(far.is_closed());
        assert_eq!(far.send(vec![5]), Err(vec![5]));
    }
}
