//! Watching frames go by.

use std::fmt;

use ndn_table::{FaceIndex, Timestamp};

/// Which way a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Received by the forwarder.
    In,
    /// Put into the output queue of a face.
    Out,
}

/// Sees every frame of a worker's faces, on the worker's thread: it must be quick and not block.
pub trait FrameTap: fmt::Debug + Send {
    /// A frame goes by; it consists of `header` and, right behind, `payload`.
    fn frame(
        &mut self,
        now: Timestamp,
        face: FaceIndex,
        direction: Direction,
        header: &[u8],
        payload: &[u8],
    );
}
