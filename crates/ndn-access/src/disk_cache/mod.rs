//! Verified segments in a directory, up to a number of bytes, for later processes and for those that run at the same time.
//!
//! Segments are found by the name with its version and the verification that accepted them. Each is stored with a digest, which is
//! checked when it is read: what was cut, overwritten or damaged is a miss. So files need no locks, and a process that is killed
//! while it writes leaves nothing behind that has to be repaired.

mod blocks;
mod directory;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use ndn_packet::Name;
use ndn_security::Sha256Digest;
use ndn_types::ByteSize;

use crate::error::{AccessError, ErrorKind};
use crate::object::Layout;
use crate::stat::Stat;
use blocks::{Blocks, Record, Stored};
use directory::Directory;
use writer::{Message, Writer};

/// Segments that wait for being written; further ones are not stored.
const QUEUE_LEN: usize = 4096;

/// Receives failures of the cache, which are no failures of reads.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// A directory for verified content.
#[derive(Clone)]
pub struct DiskCacheOptions {
    /// The directory; it is made if it does not exist. Processes may share it.
    pub directory: PathBuf,
    /// Maximum number of bytes that it takes on the disk; at least 32 MiB. Each further process that writes to it at the same time
    /// may exceed it by a sixteenth.
    pub bytes_max: u64,
    /// Receives what cannot be stored, and why.
    pub warn: Warn,
}

impl DiskCacheOptions {
    /// Default of `bytes_max`.
    pub const BYTES_MAX: u64 = 10 << 30;
    /// Smallest `bytes_max`.
    pub const BYTES_MIN: u64 = 32 << 20;

    /// A cache in `directory`, with warnings in the log.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        let warn: Warn = Arc::new(|text| tracing::warn!("{text}"));
        Self { directory, bytes_max: Self::BYTES_MAX, warn }
    }

    /// A cache as the options `cache_dir` and `cache_dir_size` of programs state it; the size is a text such as `20GiB`.
    ///
    /// # Errors
    /// `Invalid`: the size is no size, or less than the smallest one.
    pub fn from_words(directory: PathBuf, size: Option<&str>) -> Result<Self, AccessError> {
        let usual = Self::new(directory);
        let Some(size) = size else { return Ok(usual) };
        let invalid = |text: String| AccessError::new(ErrorKind::Invalid, text);
        let ByteSize(bytes_max) =
            size.parse().map_err(|error| invalid(format!("cache_dir_size: {error}")))?;
        if bytes_max < Self::BYTES_MIN {
            let least = ByteSize(Self::BYTES_MIN);
            return Err(invalid(format!("cache_dir_size: {size} is less than {least}")));
        }
        Ok(Self { bytes_max, ..usual })
    }
}

impl std::fmt::Debug for DiskCacheOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskCacheOptions")
            .field("directory", &self.directory)
            .field("bytes_max", &self.bytes_max)
            .finish_non_exhaustive()
    }
}

/// Counts of segments, since this process opened the cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskCacheCounters {
    /// Read from the cache.
    pub hits: u64,
    /// Looked for and not there, or damaged.
    pub misses: u64,
    /// Damaged, or of other content than the manifest lists now.
    pub damaged: u64,
    /// Written.
    pub stored: u64,
    /// Not written: they arrived faster than the disk takes them, a write failed shortly before, or too little can be removed to
    /// keep the limit.
    pub dropped: u64,
    /// Bytes that were removed to keep the limit.
    pub evicted_bytes: u64,
    /// The last failure.
    pub warning: Option<String>,
}

#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    damaged: AtomicU64,
    stored: AtomicU64,
    dropped: AtomicU64,
    evicted_bytes: AtomicU64,
}

/// Common part of readers and the writer.
struct Shared {
    directory: Directory,
    counts: Counts,
    warn: Warn,
    warning: Mutex<Option<String>>,
}

impl Shared {
    fn warn(&self, text: &str) {
        *self.warning.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned());
        (self.warn)(text);
    }
}

/// A cache of verified segments in a directory. What is still to be written is written when it is dropped.
pub(crate) struct DiskCache {
    shared: Arc<Shared>,
    /// `None` if nothing can be stored.
    writer: Option<(SyncSender<Message>, JoinHandle<()>)>,
}

impl DiskCache {
    /// Opens a cache. A directory that cannot be used is a warning, and a cache without content.
    pub(crate) fn open(options: &DiskCacheOptions) -> Self {
        let bytes_max = options.bytes_max.max(DiskCacheOptions::BYTES_MIN);
        let directory = Directory::new(&options.directory, bytes_max);
        let shared = Arc::new(Shared {
            directory,
            counts: Counts::default(),
            warn: Arc::clone(&options.warn),
            warning: Mutex::default(),
        });
        let refuse = |reason: &dyn Display| {
            let at = options.directory.display();
            shared.warn(&format!("{at}: no content is cached on disk: {reason}"));
        };
        let writer = match shared.directory.create() {
            Ok(()) => {
                let (sender, receiver) = sync_channel(QUEUE_LEN);
                let writer = Writer::new(Arc::clone(&shared));
                let thread = std::thread::Builder::new().name("disk-cache".to_owned());
                let started = thread.spawn(move || {
                    ndn_sys::signal::block_in_thread();
                    writer.run(&receiver);
                });
                started.map(|thread| (sender, thread)).inspect_err(|error| refuse(error)).ok()
            }
            Err(error) => {
                refuse(&error);
                None
            }
        };
        Self { shared, writer }
    }

    /// The segments of a version of an object, as far as `trust` accepted them. `None` if nothing can be stored.
    pub(crate) fn object(
        self: &Arc<Self>,
        trust: Sha256Digest,
        stat: &Stat,
        layout: Layout,
    ) -> Option<Arc<CachedObject>> {
        self.writer.as_ref()?;
        let record = Record::new(stat, layout);
        let blocks = Blocks::new(&trust, &stat.name, record);
        Some(Arc::new(CachedObject { cache: Arc::clone(self), blocks }))
    }

    /// The properties of a version that was stored, found by its name with the version.
    pub(crate) async fn find(
        self: &Arc<Self>,
        trust: Sha256Digest,
        name: &Name,
    ) -> Option<(Stat, Layout)> {
        self.writer.as_ref()?;
        let (shared, name) = (Arc::clone(&self.shared), name.clone());
        let found = tokio::task::spawn_blocking(move || {
            Record::read(&shared.directory, &trust, &name).map(|record| record.describe(&name))
        });
        found.await.ok().flatten()
    }

    pub(crate) fn warn(&self, text: &str) {
        self.shared.warn(text);
    }

    pub(crate) fn counters(&self) -> DiskCacheCounters {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { hits, misses, damaged, stored, dropped, evicted_bytes } = &self.shared.counts;
        DiskCacheCounters {
            hits: count(hits),
            misses: count(misses),
            damaged: count(damaged),
            stored: count(stored),
            dropped: count(dropped),
            evicted_bytes: count(evicted_bytes),
            warning: self.shared.warning.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Waits until everything that was offered is written.
    pub(crate) async fn flush(&self) {
        let Some((sender, _)) = &self.writer else { return };
        let (done, written) = tokio::sync::oneshot::channel();
        let sender = sender.clone();
        // The queue may be full.
        let sent = tokio::task::spawn_blocking(move || sender.send(Message::Flush(done))).await;
        if matches!(sent, Ok(Ok(()))) {
            let _ = written.await;
        }
    }
}

impl Drop for DiskCache {
    fn drop(&mut self) {
        let Some((sender, thread)) = self.writer.take() else { return };
        drop(sender);
        let _ = thread.join();
    }
}

impl std::fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskCache").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

/// The segments of one version of an object.
#[derive(Debug)]
pub(crate) struct CachedObject {
    cache: Arc<DiskCache>,
    blocks: Blocks,
}

impl CachedObject {
    /// The last segment of the file that holds `segment`, too.
    pub(crate) fn last_beside(&self, segment: u64) -> u64 {
        *self.blocks.neighbours(segment).end()
    }

    /// The contents of segments, as far as they are there. `expected` has the digests of their packets, where these are known. Only
    /// the first `asked` are counted if they are missing.
    pub(crate) async fn read(
        self: &Arc<Self>,
        segments: RangeInclusive<u64>,
        asked: usize,
        expected: Vec<Option<Sha256Digest>>,
    ) -> Vec<Option<Bytes>> {
        let own = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || {
            let shared = &own.cache.shared;
            let counts = &shared.counts;
            let found = own.blocks.read(&shared.directory, segments, &expected);
            let add = |counter: &AtomicU64, is: fn(&Stored) -> bool| {
                let count = found.iter().filter(|stored| is(stored)).count();
                counter.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
            };
            add(&counts.hits, |stored| matches!(stored, Stored::Content(_)));
            add(&counts.damaged, |stored| matches!(stored, Stored::Damaged));
            let asked = found.iter().take(asked);
            let missed = asked.filter(|stored| !matches!(stored, Stored::Content(_))).count();
            counts.misses.fetch_add(u64::try_from(missed).unwrap_or(0), Ordering::Relaxed);
            found.into_iter().map(Stored::content).collect()
        });
        read.await.unwrap_or_default()
    }

    /// Stores a segment, soon: it is not waited for. `expected` is the digest of its packet, if it is known.
    pub(crate) fn offer(
        self: &Arc<Self>,
        segment: u64,
        expected: Option<Sha256Digest>,
        content: Bytes,
    ) {
        let Some((sender, _)) = &self.cache.writer else { return };
        // The writer does not keep the cache alive, which ends it.
        let blocks = self.blocks.clone();
        let expected = expected.unwrap_or_default();
        let offered = sender.try_send(Message::Store { blocks, segment, expected, content });
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = offered {
            self.cache.shared.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
