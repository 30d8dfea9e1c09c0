//! In place of shared memory connections, on systems other than Linux: there are none.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use ndn_memif::{Address, DisconnectReason};

/// A shared memory connection.
pub(crate) struct MemifSocket(Infallible);

/// A refusal by the forwarder.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct MemifRefusal(Infallible);

/// The end of a connection by the forwarder.
#[expect(dead_code, reason = "as on Linux")]
pub(crate) enum Ended {
    Disconnected(DisconnectReason),
    Closed,
}

/// The two directions of a connection.
pub(crate) struct Halves<'a> {
    pub(crate) reader: Reader<'a>,
    pub(crate) writer: Writer<'a>,
}

/// Receives frames.
pub(crate) struct Reader<'a>(&'a Infallible);

/// Sends frames.
pub(crate) struct Writer<'a> {
    never: &'a Infallible,
    pub(crate) frame_length_max: usize,
}

impl MemifSocket {
    /// Fails.
    #[expect(clippy::unused_async, reason = "as on Linux")]
    pub(crate) async fn connect(_: &Address) -> io::Result<Self> {
        let reason = "shared memory (memif) is for Linux: use another transport";
        Err(io::Error::new(io::ErrorKind::Unsupported, reason))
    }

    pub(crate) fn split(&mut self) -> io::Result<Halves<'_>> {
        match self.0 {}
    }
}

impl Reader<'_> {
    #[expect(clippy::unused_async, reason = "as on Linux")]
    pub(crate) async fn readable(&mut self) -> io::Result<Option<Ended>> {
        match *self.0 {}
    }

    pub(crate) fn next_frame(&mut self) -> io::Result<Option<Bytes>> {
        match *self.0 {}
    }

    pub(crate) fn release(&mut self) -> io::Result<()> {
        match *self.0 {}
    }
}

impl Writer<'_> {
    #[expect(clippy::unused_async, reason = "as on Linux")]
    pub(crate) async fn send(&mut self, _: &[u8]) -> io::Result<()> {
        match *self.never {}
    }

    pub(crate) fn publish(&mut self) -> io::Result<()> {
        match *self.never {}
    }
}
