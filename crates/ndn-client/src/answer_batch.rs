//! Batches of answers, for application threads.

use std::ops::Range;
use std::sync::Arc;

use ndn_packet::LpHeader;

use crate::shared::Request;
use crate::shared::Shared;
use ndn_packet::lp::append_packet;

/// Batch size in bytes at which it is sent.
const BATCH_BYTES: usize = 256 * 1024;

/// A batch of answers to Interests, which takes the lock of the connection once. For threads that
/// may block: sending waits while the output of the connection is full.
#[derive(Default)]
pub struct AnswerBatch {
    bytes: Vec<u8>,
    shared: Option<Arc<Shared>>,
}

impl AnswerBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an encoded Data packet as the answer to `request`. Sends the current batch first if it
    /// is for another connection, or has reached its maximum size.
    pub fn push(&mut self, request: &Request, data: &[u8]) {
        let header = LpHeader { pit_token: request.token().as_bytes(), ..LpHeader::default() };
        self.push_packet(request, &header, data);
    }

    fn push_packet(&mut self, request: &Request, header: &LpHeader<'_>, packet: &[u8]) {
        let shared = request.shared();
        let other = self.shared.as_ref().is_some_and(|current| !Arc::ptr_eq(current, shared));
        if other || self.bytes.len() >= BATCH_BYTES {
            self.send();
        }
        if self.shared.is_none() {
            self.shared = Some(Arc::clone(shared));
        }
        append_packet(&mut self.bytes, header, packet);
    }

    /// A buffer for [`Self::send_buffer`], with arbitrary content.
    #[must_use]
    pub fn buffer(request: &Request) -> Vec<u8> {
        request.shared().lock().output.spare()
    }

    /// Sends the current batch, and then the packets at `packets` in `buffer`, each with its link
    /// header ([`Request::write_header`]), without copying them. All answer Interests received on
    /// the connection of `request`.
    pub fn send_buffer(&mut self, request: &Request, buffer: Vec<u8>, packets: Vec<Range<usize>>) {
        self.send();
        let shared = request.shared();
        let mut tables = shared.lock_with_space();
        tables.output.push_buffer(buffer, packets);
        drop(tables);
        shared.output_ready.notify_one();
    }

    /// Sends the batch, once the output of the connection has room.
    pub fn send(&mut self) {
        let Some(shared) = self.shared.take() else {
            return;
        };
        let mut tables = shared.lock_with_space();
        tables.output.push_encoded(&self.bytes);
        drop(tables);
        shared.output_ready.notify_one();
        self.bytes.clear();
    }
}

impl std::fmt::Debug for AnswerBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerBatch").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}
