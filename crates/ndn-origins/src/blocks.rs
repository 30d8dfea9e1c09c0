//! Blocks of objects: read by range requests, shared by concurrent readers, cached, read ahead.

use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use lru::LruCache;
use ndn_files::FileStat;
use object_store::{Error, GetOptions, GetRange, ObjectMeta, ObjectStore};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::error::cause;
use crate::version::{is_same, strong_tag};

/// Length of a block.
pub(crate) const BLOCK_LEN: u64 = 1 << 20;
/// Blocks that are read ahead of consecutive reads.
const AHEAD: u64 = 4;

/// Limits of the reading of blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Blocks in memory.
    pub(crate) blocks_max: NonZero<usize>,
    /// Requests in flight.
    pub(crate) reads_max: usize,
    /// Time for one block, with its wait for a place among those in flight.
    pub(crate) timeout: Duration,
}

/// Why a block cannot be read.
#[derive(Debug, Clone)]
pub(crate) enum ReadFailure {
    /// The object is not the one that was opened.
    Changed,
    /// No answer, or a useless one.
    Failed(String),
}

impl From<ReadFailure> for io::Error {
    fn from(failure: ReadFailure) -> Self {
        match failure {
            ReadFailure::Changed => {
                Self::new(io::ErrorKind::UnexpectedEof, "the object has changed")
            }
            ReadFailure::Failed(reason) => Self::other(reason),
        }
    }
}

/// One block, read or being read.
#[derive(Debug, Default)]
struct Block {
    outcome: Mutex<Option<Result<Bytes, ReadFailure>>>,
    arrived: Condvar,
}

impl Block {
    fn outcome(&self) -> MutexGuard<'_, Option<Result<Bytes, ReadFailure>>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the block, whose request has a time limit.
    fn wait(&self) -> Result<Bytes, ReadFailure> {
        let outcome = self.outcome();
        let waited = self.arrived.wait_while(outcome, |outcome| outcome.is_none());
        let ended = || ReadFailure::Failed("the read was given up".to_owned());
        waited.unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_else(|| Err(ended()))
    }

    fn end(&self, outcome: Result<Bytes, ReadFailure>) {
        *self.outcome() = Some(outcome);
        self.arrived.notify_all();
    }
}

/// Ends a block that is dropped with its task, such as at the end of the runtime.
struct Pending(Arc<Block>);

impl Drop for Pending {
    fn drop(&mut self) {
        if self.0.outcome().is_none() {
            self.0.end(Err(ReadFailure::Failed("the server ends".to_owned())));
        }
    }
}

/// A state of an object, and the number of a block of it.
type BlockKey = (String, u64, u64);

/// The blocks of an origin.
#[derive(Debug)]
pub(crate) struct Blocks {
    store: Arc<dyn ObjectStore>,
    handle: Handle,
    cached: Mutex<LruCache<BlockKey, Arc<Block>>>,
    in_flight: Arc<Semaphore>,
    limits: Limits,
}

/// An object to be read, in the state in which it was opened.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) meta: ObjectMeta,
    pub(crate) stat: FileStat,
}

impl Blocks {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, handle: Handle, limits: Limits) -> Self {
        Self {
            store,
            handle,
            cached: Mutex::new(LruCache::new(limits.blocks_max)),
            in_flight: Arc::new(Semaphore::new(limits.reads_max)),
            limits,
        }
    }

    fn cached(&self) -> MutexGuard<'_, LruCache<BlockKey, Arc<Block>>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The blocks that contain `range`, which is within the object and not empty.
    pub(crate) fn read(
        self: &Arc<Self>,
        object: &Object,
        range: &Range<u64>,
    ) -> Result<Vec<Bytes>, ReadFailure> {
        let (first, last) = (range.start / BLOCK_LEN, (range.end - 1) / BLOCK_LEN);
        let end = object.stat.size.div_ceil(BLOCK_LEN);
        let is_consecutive = first == 0 || self.cached().contains(&key(object, first - 1));
        let blocks: Vec<_> = (first..=last).map(|number| self.block(object, number)).collect();
        if is_consecutive {
            for number in last + 1..end.min(last + 1 + AHEAD) {
                self.block(object, number);
            }
        }
        let numbered = (first..=last).zip(blocks);
        numbered
            .map(|(number, block)| {
                let outcome = block.wait();
                if outcome.is_err() {
                    self.forget(&key(object, number), &block);
                }
                outcome
            })
            .collect()
    }

    /// A block that is read or being read; starts to read it if it is neither.
    fn block(self: &Arc<Self>, object: &Object, number: u64) -> Arc<Block> {
        let key = key(object, number);
        let mut cached = self.cached();
        if let Some(block) = cached.get(&key) {
            return Arc::clone(block);
        }
        let block = Arc::new(Block::default());
        cached.put(key, Arc::clone(&block));
        drop(cached);
        let (blocks, object, pending) =
            (Arc::clone(self), object.clone(), Pending(Arc::clone(&block)));
        self.handle.spawn(async move {
            let request = blocks.request(&object, number);
            let outcome = tokio::time::timeout(blocks.limits.timeout, request).await;
            let late = |_| {
                let seconds = blocks.limits.timeout.as_secs();
                Err(ReadFailure::Failed(format!("no answer within {seconds} s")))
            };
            pending.0.end(outcome.unwrap_or_else(late));
        });
        block
    }

    /// Removes a block that could not be read, so that the next reader tries again.
    fn forget(&self, key: &BlockKey, block: &Arc<Block>) {
        let mut cached = self.cached();
        if cached.peek(key).is_some_and(|known| Arc::ptr_eq(known, block)) {
            cached.pop(key);
        }
    }

    async fn request(&self, object: &Object, number: u64) -> Result<Bytes, ReadFailure> {
        let failed = |reason: String| ReadFailure::Failed(reason);
        let permit = self.in_flight.acquire().await;
        let _permit = permit.map_err(|error| failed(error.to_string()))?;
        let range = number * BLOCK_LEN..object.stat.size.min((number + 1) * BLOCK_LEN);
        let is_whole = range == (0..object.stat.size);
        let if_match = strong_tag(&object.meta);
        let options = GetOptions {
            if_unmodified_since: if_match.is_none().then_some(object.meta.last_modified),
            if_match,
            // A web server without ranges can still give whole objects.
            range: (!is_whole).then(|| GetRange::Bounded(range.clone())),
            ..GetOptions::default()
        };
        let location = &object.meta.location;
        let answer = match self.store.get_opts(location, options).await {
            Ok(answer) => answer,
            Err(Error::Precondition { .. } | Error::NotFound { .. }) => {
                return Err(ReadFailure::Changed);
            }
            Err(Error::NotSupported { .. }) => {
                return Err(failed("the server does not support range requests".to_owned()));
            }
            Err(error) => return Err(failed(cause(&error))),
        };
        // A server may ignore conditions.
        if !is_same(&object.meta, &answer.meta) || answer.range != range {
            return Err(ReadFailure::Changed);
        }
        let bytes = answer.bytes().await.map_err(|error| failed(cause(&error)))?;
        let is_complete =
            u64::try_from(bytes.len()).is_ok_and(|len| len == range.end - range.start);
        is_complete.then_some(bytes).ok_or_else(|| failed("the answer was cut".to_owned()))
    }
}

fn key(object: &Object, number: u64) -> BlockKey {
    (object.meta.location.to_string(), object.stat.mtime_ns, number)
}
