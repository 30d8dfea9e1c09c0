//! Answers that are made on threads of the application and sent many at a time.

use std::ops::Range;
use std::sync::Arc;

use ndn_packet::LpHeader;

use crate::produce::Request;
use crate::shared::Shared;
use ndn_packet::lp::append_packet;

/// Bytes at which a batch is sent, however many answers it holds.
const BATCH_BYTES: usize = 256 * 1024;

/// Answers to Interests, gathered so that they take the lock of their connection once. For threads
/// that may block: a batch waits while the output of its connection is full.
#[derive(Default)]
pub struct Answers {
    bytes: Vec<u8>,
    shared: Option<Arc<Shared>>,
}

impl Answers {
    /// A batch without answers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an encoded Data packet as the answer to `request`. Sends what was gathered before if
    /// that was for another connection, or is much.
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

    /// A buffer for [`Self::send_buffer`], with whatever was in it when it was used before.
    #[must_use]
    pub fn buffer(request: &Request) -> Vec<u8> {
        request.shared().lock().output.spare()
    }

    /// Sends what was gathered before, and then the packets that lie at `packets` in `buffer`, each
    /// with its link header ([`Request::write_header`]): they are written from where they are. All
    /// answer Interests that came over the connection of `request`.
    pub fn send_buffer(&mut self, request: &Request, buffer: Vec<u8>, packets: Vec<Range<usize>>) {
        self.send();
        let shared = request.shared();
        let mut tables = shared.lock_with_space();
        tables.output.push_buffer(buffer, packets);
        drop(tables);
        shared.output_ready.notify_one();
    }

    /// Sends all that was gathered, once the output of the connection has room.
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

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answers").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}
