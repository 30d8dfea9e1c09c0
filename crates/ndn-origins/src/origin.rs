//! An origin as a source of the file service.

use std::io::{self, IoSliceMut};
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ndn_files::{
    FileSource, FileStat, ListFailure, OpenFailure, Opened, SourceEntry, SourceFile, SourceListing,
};
use ndn_types::Now;
use object_store::path::Path as ObjectPath;
use object_store::{GetOptions, ListResult, ObjectMeta, ObjectStore};
use rustix::io::Errno;

use crate::address::Address;
use crate::blocks::{BLOCK_LEN, Blocks, Limits, Object, ReadFailure};
use crate::connect::{Connected, connect};
use crate::directories::Directories;
use crate::error::{OpenError, failure};
use crate::real_time;
use crate::runtime::Runtime;
use crate::version::stat_of;

/// Time for the state of an object.
const STAT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for the listing of a directory, which may take many requests.
const LIST_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of entries of a directory.
const ENTRIES_MAX: usize = 1 << 20;

/// Options of an origin.
#[derive(Debug, Clone, Copy)]
pub struct OriginOptions {
    /// Whether objects with a part of their name that begins with a period are served.
    pub hidden: bool,
    /// Bytes of content in memory.
    pub cache_bytes_max: u64,
    /// Requests for content in flight.
    pub reads_max: usize,
    /// Time for one block of content.
    pub read_timeout: Duration,
}

impl Default for OriginOptions {
    fn default() -> Self {
        Self {
            hidden: false,
            cache_bytes_max: 128 << 20,
            reads_max: 16,
            read_timeout: Duration::from_secs(30),
        }
    }
}

/// A bucket, or a tree of a web server.
#[derive(Debug)]
pub struct Origin {
    location: String,
    connected: Connected,
    hidden: bool,
    blocks: Arc<Blocks>,
    directories: Directories,
    runtime: Runtime,
}

impl Origin {
    /// Connects to the origin at `address`, and checks that it can be read. Waits for the answer; not for tasks of a runtime.
    ///
    /// # Errors
    /// The origin does not answer, does not exist, or accepts no credentials of the environment.
    pub fn open(address: &Address, options: &OriginOptions) -> Result<Self, OpenError> {
        let runtime = Runtime::start().map_err(OpenError::Runtime)?;
        let connected = connect(address, &runtime)?;
        Ok(Self::of(address.to_string(), connected, options, runtime))
    }

    pub(crate) fn of(
        location: String,
        connected: Connected,
        options: &OriginOptions,
        runtime: Runtime,
    ) -> Self {
        let blocks_max = usize::try_from(options.cache_bytes_max / BLOCK_LEN).unwrap_or(usize::MAX);
        // Less than what is read ahead for one file would read everything twice.
        let blocks_max = NonZero::new(blocks_max.max(16)).unwrap_or(NonZero::<usize>::MIN);
        let limits = Limits {
            blocks_max,
            reads_max: options.reads_max.max(1),
            timeout: options.read_timeout,
        };
        let store = Arc::clone(&connected.store);
        let blocks = Arc::new(Blocks::new(store, runtime.handle().clone(), limits));
        let directories = Directories::default();
        Self { location, connected, hidden: options.hidden, blocks, directories, runtime }
    }

    /// Whether directories can be listed; otherwise, objects are found by their names only.
    #[must_use]
    pub fn lists(&self) -> bool {
        self.connected.lists
    }

    fn store(&self) -> &dyn ObjectStore {
        self.connected.store.as_ref()
    }

    /// The object at a path; `None` if no object can have such a name.
    fn object_path(&self, path: &Path) -> Option<ObjectPath> {
        let below = path.to_str()?;
        let below = below.strip_prefix("./").unwrap_or(below);
        let base = self.connected.base.as_ref();
        let whole = match (base, below) {
            (base, "." | "") => base.to_owned(),
            ("", below) => below.to_owned(),
            (base, below) => format!("{base}/{below}"),
        };
        // What is written otherwise is another object.
        ObjectPath::parse(&whole).ok().filter(|parsed| parsed.as_ref() == whole)
    }

    fn is_base(&self, path: &Path) -> bool {
        self.object_path(path).is_some_and(|path| path == self.connected.base)
    }

    fn head(&self, path: &Path) -> Result<Object, OpenFailure> {
        let location = self.object_path(path).ok_or(OpenFailure::NotFound)?;
        if location == self.connected.base {
            return Err(OpenFailure::NotFound);
        }
        let options = GetOptions { head: true, ..GetOptions::default() };
        let answer = self.runtime.wait(STAT_TIMEOUT, self.store().get_opts(&location, options));
        let meta = self.answered(&location, answer)?.meta;
        let Some(stat) = stat_of(&meta) else {
            let object = location.as_ref();
            tracing::warn!(origin = self.location, object, "no Last-Modified: it has no version");
            return Err(OpenFailure::Denied);
        };
        Ok(Object { meta, stat })
    }

    fn answered<T>(
        &self,
        location: &ObjectPath,
        answer: Option<object_store::Result<T>>,
    ) -> Result<T, OpenFailure> {
        let Some(answer) = answer else {
            let object = location.as_ref();
            tracing::warn!(origin = self.location, object, "no answer in time");
            return Err(OpenFailure::Other(Errno::TIMEDOUT));
        };
        answer.map_err(|error| failure(&self.location, location.as_ref(), &error))
    }

    fn entries(&self, found: &ListResult, directory: &ObjectPath) -> Option<Vec<SourceEntry>> {
        let name_below = |path: &ObjectPath| {
            let mut parts = path.prefix_match(directory)?;
            let name = parts.next()?.as_ref().to_owned();
            let is_served = parts.next().is_none() && (self.hidden || !name.starts_with('.'));
            is_served.then(|| name.into_bytes())
        };
        let stat = |object: &ObjectMeta| stat_of(object).filter(|_| self.connected.lists_states);
        let files = found.objects.iter().filter_map(|object| {
            let file_name = name_below(&object.location)?;
            Some(SourceEntry { file_name, is_directory: false, stat: stat(object) })
        });
        let directories = found.common_prefixes.iter().filter_map(|path| {
            Some(SourceEntry { file_name: name_below(path)?, is_directory: true, stat: None })
        });
        let entries: Vec<_> = files.chain(directories).take(ENTRIES_MAX + 1).collect();
        (entries.len() <= ENTRIES_MAX).then_some(entries)
    }
}

impl FileSource for Origin {
    fn stat(&self, path: &Path) -> Result<FileStat, OpenFailure> {
        match self.head(path) {
            Ok(object) => return Ok(object.stat),
            Err(OpenFailure::NotFound) => {}
            Err(failure) => return Err(failure),
        }
        match self.list(path) {
            Ok(listing) => Ok(listing.stat),
            Err(ListFailure::Open(failure)) => Err(failure),
            Err(_) => Err(OpenFailure::Other(Errno::FBIG)),
        }
    }

    fn open_file(&self, path: &Path) -> Result<Opened, OpenFailure> {
        let object = self.head(path)?;
        let stat = object.stat;
        let (blocks, location) = (Arc::clone(&self.blocks), self.location.clone());
        let file = OriginFile { location, object, blocks, has_changed: AtomicBool::new(false) };
        Ok(Opened { file: Box::new(file), stat })
    }

    fn list(&self, path: &Path) -> Result<SourceListing, ListFailure> {
        let begun = real_time::now();
        if let Some(listing) = self.directories.recent(path, begun.monotonic) {
            return Ok(listing);
        }
        let location = self.object_path(path).ok_or(OpenFailure::NotFound)?;
        if !self.connected.lists {
            return Err(OpenFailure::NotFound.into());
        }
        let request = self.store().list_with_delimiter(Some(&location));
        let found = self.answered(&location, self.runtime.wait(LIST_TIMEOUT, request))?;
        let entries = self.entries(&found, &location).ok_or(ListFailure::TooLong)?;
        // There are no empty directories in a bucket.
        if entries.is_empty() && !self.is_base(path) {
            return Err(OpenFailure::NotFound.into());
        }
        let unix = real_time::now().unix;
        Ok(self.directories.listed(path, entries, Now { unix, ..begun }))
    }

    fn location(&self) -> String {
        self.location.clone()
    }

    fn serves_hidden(&self) -> bool {
        self.hidden
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// An object in the state in which it was opened.
#[derive(Debug)]
struct OriginFile {
    location: String,
    object: Object,
    blocks: Arc<Blocks>,
    has_changed: AtomicBool,
}

impl SourceFile for OriginFile {
    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let length: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let end = offset.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        if end > self.object.stat.size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if length == 0 {
            return Ok(());
        }
        let blocks = self.blocks.read(&self.object, &(offset..end)).inspect_err(|failure| {
            if matches!(failure, ReadFailure::Changed)
                && !self.has_changed.swap(true, Ordering::Relaxed)
            {
                let object = self.object.meta.location.as_ref();
                tracing::warn!(
                    origin = self.location,
                    object,
                    "the object has changed: it is served as a new version"
                );
            }
        })?;
        copy(&blocks, offset % BLOCK_LEN, buffers);
        Ok(())
    }

    fn is_unchanged(&self, _: &FileStat) -> Result<bool, OpenFailure> {
        // Every block was read on condition that it is of this state.
        Ok(!self.has_changed.load(Ordering::Relaxed))
    }
}

/// Copies consecutive blocks, from `skipped` on, into consecutive buffers.
fn copy(blocks: &[Bytes], skipped: u64, buffers: &mut [IoSliceMut<'_>]) {
    let mut skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
    let mut rest = blocks.iter().map(|block| {
        let from = std::mem::take(&mut skipped).min(block.len());
        &block[from..]
    });
    let mut block: &[u8] = &[];
    for buffer in buffers {
        let mut out: &mut [u8] = buffer;
        while !out.is_empty() {
            if block.is_empty() {
                let Some(next) = rest.next() else { return };
                block = next;
                continue;
            }
            let count = block.len().min(out.len());
            let (filled, left) = out.split_at_mut(count);
            filled.copy_from_slice(&block[..count]);
            (block, out) = (&block[count..], left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_blocks_fill_consecutive_buffers() {
        let blocks =
            [Bytes::from_static(b"abcd"), Bytes::from_static(b""), Bytes::from_static(b"efgh")];
        let (mut one, mut two, mut three) = ([0; 1], [0; 0], [0; 5]);
        let mut buffers =
            [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two), IoSliceMut::new(&mut three)];
        copy(&blocks, 2, &mut buffers);
        assert_eq!((&one, &three), (b"c", b"defgh"));
    }
}
