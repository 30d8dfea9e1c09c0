//! Capture of frames.

use std::fmt;

use ndn_table::FaceIndex;
use ndn_types::Timestamp;

/// Which way a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Received by the forwarder.
    In,
    /// Put into the output queue of a face.
    Out,
}

/// Receives a copy of every frame of a worker's faces, on the worker's thread: it must be quick and not block.
pub trait FrameTap: fmt::Debug + Send {
    /// A frame was received or queued; it consists of `header`, followed by `payload`.
    fn frame(
        &mut self,
        now: Timestamp,
        face: FaceIndex,
        direction: Direction,
        header: &[u8],
        payload: &[u8],
    );
}

/// The tap of a worker, if there is one, for frames that one face sends.
#[derive(Debug)]
pub(crate) struct TapPoint<'a> {
    pub(crate) tap: Option<&'a mut (dyn FrameTap + 'static)>,
    pub(crate) now: Timestamp,
    pub(crate) face: FaceIndex,
}

impl TapPoint<'_> {
    #[inline]
    pub(crate) fn sent(&mut self, header: &[u8], payload: &[u8]) {
        if let Some(tap) = &mut self.tap {
            tap.frame(self.now, self.face, Direction::Out, header, payload);
        }
    }
}
