//! Access for threads without a runtime.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use ndn_client::EndpointOptions;
use ndn_files::ListingEntry;
use ndn_packet::Name;
use tokio::runtime::{Handle, Runtime};

use crate::access::{Access, AccessOptions};
use crate::connection::{Connection, Interrupted, OwnConnection};
use crate::error::AccessError;
use crate::file::File;
use crate::stat::Stat;

/// [`Access`] whose methods block. May be used by many threads. All of a process with the same forwarder share one connection and
/// its threads. A process that was forked from the one that made it cannot use it, because it has none of these threads.
#[derive(Debug)]
pub struct Blocking {
    access: OnRuntime<Access>,
    own: OnRuntime<Arc<OwnConnection>>,
}

/// A value whose tasks run on the runtime of a connection, which ends after it. In a process that was forked it cannot be used.
#[derive(Debug)]
pub struct OnRuntime<T> {
    // Dropped before the connection.
    value: Option<T>,
    connection: Arc<Connection>,
}

impl<T> OnRuntime<T> {
    fn new(value: T, connection: &Arc<Connection>) -> Self {
        Self { value: Some(value), connection: Arc::clone(connection) }
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
        self.connection.wait(interrupted, work(self.value()))
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
        self.connection.check_process()?;
        let value = self.value.take().expect("it is taken here or when this is dropped");
        self.connection.wait(&mut || false, async move { work(value).await })
    }
}

impl<T> Drop for OnRuntime<T> {
    fn drop(&mut self) {
        let Some(value) = self.value.take() else { return };
        if self.connection.check_process().is_err() {
            // Locks may be held by threads that are in the other process only.
            std::mem::forget(value);
            return;
        }
        // What ends may start tasks.
        let _entered = self.connection.runtime().ok().map(Runtime::enter);
        drop(value);
    }
}

impl Blocking {
    /// Connects to a forwarder, unless this process has a connection to it. With a cache on disk, which has content without one, a
    /// forwarder that is not there is a warning of the cache: it is awaited.
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
        let own = Arc::new(OwnConnection::new(connection.clone()));
        let waits = options.disk_cache.is_some();
        let (shared, missing) = Connection::of_process(connection, waits, interrupted)?;
        let entered = shared.runtime()?.enter();
        let access = Access::new(shared.endpoint()?.clone(), options);
        drop(entered);
        if let Some(reason) = missing {
            access.warn(&format!("only what is cached on disk can be read: {reason}"));
        }
        Ok(Self { access: OnRuntime::new(access, &shared), own: OnRuntime::new(own, &shared) })
    }

    /// The methods that do not block.
    #[must_use]
    pub fn access(&self) -> &Access {
        self.access.value()
    }

    /// The connection of this user alone, for services and commands.
    ///
    /// # Errors
    /// `Disconnected` in a process that was forked from the one that connected.
    pub fn own(&self) -> Result<Arc<OwnConnection>, AccessError> {
        self.own.connection.check_process()?;
        Ok(Arc::clone(self.own.value()))
    }

    /// The runtime of the connection, for tasks that use [`Access::endpoint`] or [`Self::own`].
    ///
    /// # Errors
    /// `Disconnected` in a process that was forked from the one that connected.
    pub fn runtime(&self) -> Result<Handle, AccessError> {
        self.access.connection.check_process()?;
        Ok(self.access.connection.runtime()?.handle().clone())
    }

    /// Waits for `work`, whose result uses the connection of this user alone, such as something that is served.
    ///
    /// # Errors
    /// Those of `work`; `Disconnected` in a process that was forked from the one that connected; `Interrupted`.
    pub fn start<T, E, W>(
        &self,
        interrupted: Interrupted<'_>,
        work: impl FnOnce(Arc<OwnConnection>) -> W,
    ) -> Result<OnRuntime<T>, E>
    where
        E: From<AccessError>,
        W: Future<Output = Result<T, E>>,
    {
        let started = self.own.wait(interrupted, |own| work(Arc::clone(own)))?;
        Ok(OnRuntime::new(started, &self.own.connection))
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
        Ok(BlockingFile { file: OnRuntime::new(file, &self.access.connection) })
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
