//! Serving Interests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use ndn_packet::{DataBuilder, EncodeError, Interest, LpHeader, NackReason, NameRef};
use ndn_security::{SignError, Signer, data_len_max, write_data};
use tokio::sync::Semaphore;

use crate::lp::PitToken;
use crate::shared::Shared;

/// Interests that one asynchronous handler works on at a time; more are dropped.
const REQUESTS_MAX: usize = 4096;

/// Serves the Interests under a prefix.
pub trait Handler: Send + Sync + 'static {
    /// Takes one Interest. Runs on the connection's task: it must not block. It may answer at once,
    /// or keep the request and answer later, from any thread, or never.
    fn handle(&self, request: Request);

    /// Tells that no further Interest has come for now: who wakes threads does it once for many.
    fn handle_batch_end(&self) {}
}

impl<F: Fn(Request) + Send + Sync + 'static> Handler for F {
    fn handle(&self, request: Request) {
        self(request);
    }
}

/// One Interest to be answered. Dropped without an answer, it is left to time out.
pub struct Request {
    wire: Bytes,
    token: PitToken,
    shared: Arc<Shared>,
}

impl Request {
    /// `wire` must have been parsed as an Interest.
    pub(crate) fn new(wire: Bytes, token: PitToken, shared: Arc<Shared>) -> Self {
        Self { wire, token, shared }
    }

    /// The parsed Interest.
    #[must_use]
    pub fn interest(&self) -> Interest<'_> {
        Interest::parse(&self.wire).expect("parsed when it was received")
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> NameRef<'_> {
        self.interest().name()
    }

    /// Bytes of the link header of an answer, at most.
    pub const HEADER_LEN_MAX: usize = 64;

    /// Writes the link header of an answer of `packet_len` bytes to the end of `out`, which has
    /// [`Self::HEADER_LEN_MAX`] bytes, and returns its length: 0 where none is needed.
    ///
    /// # Errors
    /// The header cannot be encoded.
    pub fn write_header(&self, packet_len: usize, out: &mut [u8]) -> Result<usize, EncodeError> {
        let header = self.header();
        if header.is_empty() {
            return Ok(0);
        }
        let length = header.encoded_len(packet_len);
        let start = out.len().checked_sub(length).ok_or(EncodeError::BufferTooSmall)?;
        header.write_prefix(packet_len, &mut out[start..])?;
        Ok(length)
    }

    pub(crate) fn token(&self) -> &PitToken {
        &self.token
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn header(&self) -> LpHeader<'_> {
        LpHeader { pit_token: self.token.as_bytes(), ..LpHeader::default() }
    }

    /// Answers with an encoded Data packet.
    pub fn answer(&self, data: &[u8]) {
        self.shared.send(|output| output.push(&self.header(), data));
    }

    /// Encodes and signs `data` as the answer, right into the connection's output.
    ///
    /// # Errors
    /// When the packet cannot be encoded or signed; then nothing is sent.
    pub fn answer_with(
        &self,
        data: &DataBuilder<'_>,
        signer: &dyn Signer,
    ) -> Result<(), SignError> {
        self.shared.send(|output| push_data(output, &self.header(), data, signer))
    }

    /// As [`Self::answer_with`], for threads that may block: signs outside the lock and waits while
    /// the output is full.
    pub(crate) fn answer_blocking(
        &self,
        data: &DataBuilder<'_>,
        signer: &dyn Signer,
        scratch: &mut Vec<u8>,
    ) -> Result<(), SignError> {
        scratch.resize(data_len_max(data, signer), 0);
        let length = write_data(data, signer, scratch)?;
        let mut tables = self.shared.lock_with_space();
        tables.output.push(&self.header(), &scratch[..length]);
        drop(tables);
        self.shared.output_ready.notify_one();
        Ok(())
    }

    /// Refuses the Interest.
    pub fn nack(&self, reason: NackReason) {
        let header = LpHeader { nack: Some(reason), ..self.header() };
        self.shared.send(|output| output.push(&header, &self.wire));
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("name", &self.name()).finish_non_exhaustive()
    }
}

fn push_data(
    output: &mut crate::output::Output,
    header: &LpHeader<'_>,
    data: &DataBuilder<'_>,
    signer: &dyn Signer,
) -> Result<(), SignError> {
    let length_max = data_len_max(data, signer);
    if header.is_empty() {
        return output.push_with(length_max, |out| write_data(data, signer, out));
    }
    // The header states the length of what follows, which the signature decides.
    let mut packet = vec![0; length_max];
    let length = write_data(data, signer, &mut packet)?;
    output.push(header, &packet[..length]);
    Ok(())
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A handler that runs an asynchronous function for each Interest.
pub struct AsyncHandler {
    run: Box<dyn Fn(Request) -> Work + Send + Sync>,
    places: Arc<Semaphore>,
}

impl AsyncHandler {
    /// Runs `function` in a task of its own for each Interest, at most 4096 at a time.
    pub fn new<F, W>(function: F) -> Self
    where
        F: Fn(Request) -> W + Send + Sync + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        let run = move |request| -> Work { Box::pin(function(request)) };
        Self { run: Box::new(run), places: Arc::new(Semaphore::new(REQUESTS_MAX)) }
    }
}

impl std::fmt::Debug for AsyncHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncHandler").finish_non_exhaustive()
    }
}

impl Handler for AsyncHandler {
    fn handle(&self, request: Request) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            tracing::debug!(name = %request.name(), "too many Interests at a time, one is dropped");
            return;
        };
        let work = (self.run)(request);
        tokio::spawn(async move {
            work.await;
            drop(place);
        });
    }
}
