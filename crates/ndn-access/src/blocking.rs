//! Access for threads without a runtime.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ndn_client::{Endpoint, EndpointOptions, OpenError};
use ndn_files::ListingEntry;
use ndn_packet::Name;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::access::{Access, AccessOptions};
use crate::error::{AccessError, ErrorKind};
use crate::file::File;
use crate::stat::Stat;

/// Threads of the runtime: one has the connection, the other verifies.
const THREADS: usize = 2;
/// Interval at which a wait asks whether it is interrupted.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Ends waits: returns true once the caller does not want the result any more.
type Interrupted<'a> = &'a mut dyn FnMut() -> bool;

/// [`Access`] whose methods block, with a runtime of its own. May be used by many threads. A process that was forked from the
/// one that made it cannot use it, because it has none of its threads.
#[derive(Debug)]
pub struct Blocking {
    access: OnRuntime<Access>,
}

/// A value whose tasks run on the runtime of a connection, which ends after it. In a process that was forked it cannot be used.
#[derive(Debug)]
pub struct OnRuntime<T> {
    // Dropped before the runtime.
    value: Option<T>,
    runtime: Arc<OwnRuntime>,
}

impl<T> OnRuntime<T> {
    fn new(value: T, runtime: Arc<OwnRuntime>) -> Self {
        Self { value: Some(value), runtime }
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &T {
        self.value.as_ref().expect("it is taken when this is dropped")
    }

    fn wait<'a, R, E, W>(
        &'a self,
        interrupted: Interrupted<'_>,
        work: impl FnOnce(&'a T) -> W,
    ) -> Result<R, E>
    where
        E: From<AccessError>,
        W: Future<Output = Result<R, E>>,
    {
        self.runtime.check_process()?;
        self.runtime.wait(interrupted, work(self.value()))
    }

    /// Waits for `work`, which ends the value.
    ///
    /// # Errors
    /// Those of `work`; `Disconnected` in a process that was forked from the one that made the value.
    pub fn end<R, E, W>(mut self, work: impl FnOnce(T) -> W) -> Result<R, E>
    where
        E: From<AccessError>,
        W: Future<Output = Result<R, E>>,
    {
        self.runtime.check_process()?;
        let value = self.value.take().expect("it is taken here or when this is dropped");
        self.runtime.wait(&mut || false, async move { work(value).await })
    }
}

impl<T> Drop for OnRuntime<T> {
    fn drop(&mut self) {
        let Some(value) = self.value.take() else { return };
        if self.runtime.check_process().is_err() {
            // Locks may be held by threads that are in the other process only.
            std::mem::forget(value);
            return;
        }
        // What ends may start tasks.
        let _entered = self.runtime.runtime.as_ref().map(Runtime::enter);
        drop(value);
    }
}

#[derive(Debug)]
struct OwnRuntime {
    runtime: Option<Runtime>,
    process: u32,
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if self.check_process().is_ok() {
            // The owner may be a thread of another runtime, which may not wait.
            runtime.shutdown_background();
        } else {
            // Its threads are in the other process.
            std::mem::forget(runtime);
        }
    }
}

impl OwnRuntime {
    /// An error in a process that was forked from the one that made it.
    fn check_process(&self) -> Result<(), AccessError> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let text = "opened before this process was forked: open it again here";
        Err(AccessError::new(ErrorKind::Disconnected, text))
    }

    fn wait<T, E: From<AccessError>>(
        &self,
        interrupted: Interrupted<'_>,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let Some(runtime) = &self.runtime else {
            return Err(ended().into());
        };
        runtime.block_on(async {
            let mut work = std::pin::pin!(work);
            loop {
                match tokio::time::timeout(POLL_INTERVAL, &mut work).await {
                    Ok(result) => return result,
                    Err(_) if interrupted() => {
                        return Err(AccessError::new(ErrorKind::Interrupted, "interrupted").into());
                    }
                    Err(_) => {}
                }
            }
        })
    }
}

fn ended() -> AccessError {
    AccessError::new(ErrorKind::Disconnected, "the connection has ended")
}

impl Blocking {
    /// Connects to a forwarder. With a cache on disk, which has content without one, a forwarder that is not there is a warning of
    /// the cache: it is awaited.
    ///
    /// # Errors
    /// `Disconnected`: no forwarder, and where it was looked for.
    pub fn connect(
        connection: EndpointOptions,
        options: AccessOptions,
    ) -> Result<Self, AccessError> {
        Self::connect_unless(connection, options, &mut || false)
    }

    /// As [`Self::connect`].
    ///
    /// # Errors
    /// As [`Self::connect`], and `Interrupted`.
    pub fn connect_unless(
        connection: EndpointOptions,
        options: AccessOptions,
        interrupted: Interrupted<'_>,
    ) -> Result<Self, AccessError> {
        let disconnected = |text: String| AccessError::new(ErrorKind::Disconnected, text);
        let mut builder = Builder::new_multi_thread();
        // They are threads of the program, too, which may leave SIGPIPE as it is, and has functions that handle signals.
        builder.worker_threads(THREADS).on_thread_start(ndn_sys::signal::block_in_thread);
        let runtime = builder.enable_all().build();
        let runtime = runtime.map_err(|error| disconnected(format!("no threads: {error}")))?;
        let runtime = OwnRuntime { runtime: Some(runtime), process: std::process::id() };
        let waits = options.disk_cache.is_some();
        let access = runtime.wait(interrupted, async {
            let failed = |error: OpenError| disconnected(error.to_string());
            if !waits {
                let endpoint = Endpoint::connect(connection).await.map_err(failed)?;
                return Ok(Access::new(endpoint, options));
            }
            let opened = Endpoint::connect_or_later(connection).await;
            let (endpoint, missing) = opened.map_err(failed)?;
            let access = Access::new(endpoint, options);
            if let Some(reason) = missing {
                access.warn(&format!("only what is cached on disk can be read: {reason}"));
            }
            Ok::<_, AccessError>(access)
        })?;
        Ok(Self { access: OnRuntime::new(access, Arc::new(runtime)) })
    }

    /// The methods that do not block.
    #[must_use]
    pub fn access(&self) -> &Access {
        self.access.value()
    }

    /// The runtime of the connection, for tasks that use [`Access::endpoint`].
    ///
    /// # Errors
    /// `Disconnected` in a process that was forked from the one that connected.
    pub fn runtime(&self) -> Result<Handle, AccessError> {
        self.access.runtime.check_process()?;
        let runtime = self.access.runtime.runtime.as_ref();
        runtime.map(|runtime| runtime.handle().clone()).ok_or_else(ended)
    }

    /// Waits for `work`, whose result uses the runtime of the connection, such as something that is served.
    ///
    /// # Errors
    /// Those of `work`; `Disconnected` in a process that was forked from the one that connected; `Interrupted`.
    pub fn start<'a, T, E, W>(
        &'a self,
        interrupted: Interrupted<'_>,
        work: impl FnOnce(&'a Access) -> W,
    ) -> Result<OnRuntime<T>, E>
    where
        E: From<AccessError>,
        W: Future<Output = Result<T, E>>,
    {
        let started = self.access.wait(interrupted, work)?;
        Ok(OnRuntime::new(started, Arc::clone(&self.access.runtime)))
    }

    /// As [`Access::open`].
    ///
    /// # Errors
    /// As [`Access::open`]; `Interrupted` once `interrupted` returns true, which is asked every 50 ms.
    pub fn open(
        &self,
        name: &Name,
        interrupted: Interrupted<'_>,
    ) -> Result<BlockingFile, AccessError> {
        let file = self.access.wait(interrupted, |access| access.open(name))?;
        Ok(BlockingFile { file: OnRuntime::new(file, Arc::clone(&self.access.runtime)) })
    }

    /// As [`Access::stat`].
    ///
    /// # Errors
    /// As [`Self::open`], but directories are described, too.
    pub fn stat(&self, name: &Name, interrupted: Interrupted<'_>) -> Result<Stat, AccessError> {
        self.access.wait(interrupted, |access| access.stat(name))
    }

    /// As [`Access::list`].
    ///
    /// # Errors
    /// As [`Access::list`], and `Interrupted`.
    pub fn list(
        &self,
        name: &Name,
        interrupted: Interrupted<'_>,
    ) -> Result<Vec<ListingEntry>, AccessError> {
        self.access.wait(interrupted, |access| access.list(name))
    }

    /// As [`Access::describe_each`].
    ///
    /// # Errors
    /// The first failure of a name, and `Interrupted`.
    pub fn describe_each(
        &self,
        names: Vec<Name>,
        interrupted: Interrupted<'_>,
    ) -> Result<Vec<Option<Stat>>, AccessError> {
        self.access.wait(interrupted, |access| async move {
            access.describe_each(names).await.into_iter().collect()
        })
    }

    /// As [`Access::list_described`].
    ///
    /// # Errors
    /// As [`Access::list_described`], and `Interrupted`.
    pub fn list_described(
        &self,
        name: &Name,
        directories: bool,
        interrupted: Interrupted<'_>,
    ) -> Result<Vec<(ListingEntry, Option<Stat>)>, AccessError> {
        self.access.wait(interrupted, |access| access.list_described(name, directories))
    }
}

/// [`File`] whose methods block. May be used by many threads.
#[derive(Debug)]
pub struct BlockingFile {
    file: OnRuntime<File>,
}

impl BlockingFile {
    /// The methods that do not block.
    #[must_use]
    pub fn file(&self) -> &File {
        self.file.value()
    }

    /// As [`File::read_into`].
    ///
    /// # Errors
    /// As [`File::read_into`], and `Interrupted`.
    pub fn read_into(
        &self,
        offset: u64,
        buffer: &mut [u8],
        interrupted: Interrupted<'_>,
    ) -> Result<usize, AccessError> {
        self.file.wait(interrupted, |file| file.read_into(offset, buffer))
    }

    /// As [`File::read_parts`].
    ///
    /// # Errors
    /// As [`File::read_parts`], and `Interrupted`.
    pub fn read_parts(
        &self,
        offset: u64,
        length: u64,
        interrupted: Interrupted<'_>,
    ) -> Result<Vec<Bytes>, AccessError> {
        self.file.wait(interrupted, |file| file.read_parts(offset, length))
    }

    /// As [`File::read_vectored`].
    ///
    /// # Errors
    /// As [`File::read_vectored`], and `Interrupted`.
    pub fn read_vectored(
        &self,
        ranges: &[Range<u64>],
        interrupted: Interrupted<'_>,
    ) -> Result<Vec<Bytes>, AccessError> {
        self.file.wait(interrupted, |file| file.read_vectored(ranges))
    }
}
