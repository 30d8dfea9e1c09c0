//! The interface of drivers that bring whole frames and bypass the network stack.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use crate::packet::Frame;
pub use crate::xdp::{XdpRefusal as FrameRefusal, XdpTransmitted as FrameTransmitted};

/// Frames of one EtherType of one device, to and from one thread at a time.
pub trait FramePort: fmt::Debug + Send {
    /// The device, by a number that [`Frame::interface`] repeats.
    fn interface(&self) -> u32;

    /// The descriptor to wait for, readable while there may be frames and writable while there may be room. A driver
    /// that has to be polled has one that always is.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Looks for a received frame; false if there is none. It stays the next one until it is
    /// [released](Self::release).
    fn prepare(&mut self) -> bool;

    /// The frame that [`prepare`](Self::prepare) has found. One of another EtherType is
    /// [for nobody](Frame::nothing).
    fn peek(&self) -> Option<Frame<'_>>;

    /// Is done with the frame that was found. Without one it does nothing.
    fn release(&mut self);

    /// Frames lost since the last call because the ring was full.
    fn take_lost(&mut self) -> u64;

    /// The same, called whenever there is no frame that could [report](Frame::follows_loss) a loss; a polling driver
    /// checks at intervals.
    fn take_lost_when_idle(&mut self) -> u64 {
        0
    }

    /// The device has another address.
    fn set_mac(&mut self, mac: [u8; 6]);

    /// Takes a frame to send to a station or group; its payload is in pieces, and is made as long as Ethernet
    /// wants it. It goes out with the next [`transmit`](Self::transmit).
    ///
    /// # Errors
    /// Why not now, or never.
    fn send(&mut self, to: [u8; 6], payload: &[&[u8]]) -> Result<(), FrameRefusal>;

    /// Sends queued frames, as far as there is room.
    ///
    /// # Errors
    /// The device does not send any more.
    fn transmit(&mut self) -> io::Result<FrameTransmitted>;
}
