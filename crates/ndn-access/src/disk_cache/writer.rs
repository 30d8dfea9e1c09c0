//! The thread that stores segments and keeps the limit.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use bytes::Bytes;
use ndn_security::Sha256Digest;

use super::Shared;
use super::blocks::{Block, Blocks};

/// Segments that are written together at most.
const BATCH_MAX: usize = 128;
/// Segments that are not stored after a failure.
const PAUSE_SEGMENTS: u64 = 4096;

/// Pages beside the content of segments that are written together: the entries, both ends of the content, the record, and the
/// directory.
const PAGES_BESIDE: u64 = 8;
const PAGE_LEN: u64 = 4096;

/// A request to the writer.
pub(super) enum Message {
    /// Store a segment.
    Store { blocks: Blocks, segment: u64, expected: Sha256Digest, content: Bytes },
    /// Say when everything before it is stored.
    Flush(tokio::sync::oneshot::Sender<()>),
}

/// Stores segments in order.
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// Bytes that may be written before the directory is measured.
    allowance: u64,
    /// Segments that are not stored, as writing failed.
    pause: u64,
    failed: bool,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, allowance: 0, pause: 0, failed: false }
    }

    /// Runs until the last sender is gone.
    pub(super) fn run(mut self, requests: &Receiver<Message>) {
        // What is there may exceed a limit that is smaller than the one before.
        self.keep_limit();
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while let Ok(first) = requests.recv() {
            let more = requests.try_iter().take(BATCH_MAX - 1);
            let mut flushed = Vec::new();
            for message in std::iter::once(first).chain(more) {
                match message {
                    Message::Store { blocks, segment, expected, content } => {
                        batch.push((blocks, Block { segment, expected, content }));
                    }
                    Message::Flush(done) => flushed.push(done),
                }
            }
            self.store(&batch);
            batch.clear();
            for done in flushed {
                let _ = done.send(());
            }
        }
    }

    /// Stores segments; neighbours of one object, which follow each other, together.
    fn store(&mut self, batch: &[(Blocks, Block)]) {
        let together = batch.chunk_by(|(blocks, one), (of, next)| {
            blocks.is_same(of) && blocks.are_neighbours(one.segment, next.segment)
        });
        for run in together {
            let count = u64::try_from(run.len()).unwrap_or(0);
            if self.pause > 0 {
                self.pause = self.pause.saturating_sub(count);
                self.shared.counts.dropped.fetch_add(count, Ordering::Relaxed);
                continue;
            }
            let Some((blocks, _)) = run.first() else { continue };
            let run: Vec<&Block> = run.iter().map(|(_, block)| block).collect();
            let bytes = bytes_at_most(&run);
            if bytes > self.allowance {
                self.keep_limit();
            }
            let written = match self.allowance.checked_sub(bytes) {
                Some(left) => {
                    self.allowance = left;
                    blocks.write(&self.shared.directory, &run)
                }
                None => {
                    Err(io::Error::other("its limit is reached, and too little can be removed"))
                }
            };
            match written {
                Ok(()) => {
                    self.failed = false;
                    self.shared.counts.stored.fetch_add(count, Ordering::Relaxed);
                }
                Err(error) => {
                    self.shared.counts.dropped.fetch_add(count, Ordering::Relaxed);
                    self.pause = PAUSE_SEGMENTS;
                    if !std::mem::replace(&mut self.failed, true) {
                        let at = self.shared.directory.path().display();
                        self.shared.warn(&format!("{at}: content is not cached on disk: {error}"));
                    }
                }
            }
        }
    }

    fn keep_limit(&mut self) {
        let (removed, allowance) = self.shared.directory.keep_limit();
        self.shared.counts.evicted_bytes.fetch_add(removed, Ordering::Relaxed);
        self.allowance = allowance;
    }
}

/// Bytes on the disk that segments take which are written together.
fn bytes_at_most(run: &[&Block]) -> u64 {
    let content: usize = run.iter().map(|block| block.content.len()).sum();
    u64::try_from(content).unwrap_or(u64::MAX).saturating_add(PAGES_BESIDE * PAGE_LEN)
}
