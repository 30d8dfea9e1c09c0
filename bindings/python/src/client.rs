//! The connection to a forwarder.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use ndn_access::{AccessOptions, Blocking, DiskCacheOptions, OwnConnection, Stat};
use ndn_client::fetch::FetchOptions;
use ndn_client::{
    ConnectionState, EndpointOptions, ExpressError, InterestRequest, PublishOptions, Request,
};
use ndn_files::{FileServer, ListingEntry, Mount, RootOptions, ServerOptions};
use ndn_sys::signal::SignalMask;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tokio::sync::mpsc;

use crate::arguments::{SignArgument, VerifyArgument, duration, name_of};
use crate::control::NativeControl;
use crate::describe::describe;
use crate::error::{Failure, wait, without_lock};
use crate::file::NativeFile;
use crate::packets::{
    Content, ReceivedInterest, ReceivedPacket, Running, Served, Service, pass_on, start,
};

/// A file name and what `stat` states of the entry; nothing of a directory.
type DescribedEntry<'py> = (Bound<'py, PyBytes>, Option<Bound<'py, PyDict>>);

/// Interests that wait for the event loop of a program; more are dropped.
const INTERESTS_MAX: usize = 4096;

/// A connection to a forwarder.
///
/// It may be used by many threads.
#[pyclass(frozen, module = "namewire", name = "NativeClient")]
#[derive(Debug)]
pub(crate) struct Client {
    blocking: Blocking,
    options: AccessOptions,
}

impl Client {
    /// Starts a task, which calls `done` with its result and its exception, one of which is None.
    fn start<T>(
        &self,
        py: Python<'_>,
        done: Py<PyAny>,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> PyResult<Running>
    where
        T: for<'py> IntoPyObject<'py> + Send + 'static,
    {
        let runtime = self.blocking.runtime();
        let runtime = runtime.map_err(|error| Failure::from(error).exception(py))?;
        Ok(start(&runtime, done, work))
    }

    /// The connection for services and commands.
    fn own(&self, py: Python<'_>) -> PyResult<Arc<OwnConnection>> {
        self.blocking.own().map_err(|error| Failure::from(error).exception(py))
    }

    /// The parameters of fetches, with another verification if there is one.
    fn fetching(
        &self,
        py: Python<'_>,
        verify: Option<&VerifyArgument<'_>>,
    ) -> PyResult<FetchOptions> {
        let mut fetching = self.options.fetching.clone();
        if let Some(verify) = verify {
            fetching.verification = verify.verification(py)?;
        }
        Ok(fetching)
    }
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (transport, *, verify, sign_commands, timeout, lifetime, metadata_lifetime, cache_bytes, cache_dir,
        cache_dir_size, read_ahead_bytes, allow_older))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        transport: Option<&str>,
        verify: VerifyArgument<'_>,
        sign_commands: SignArgument<'_>,
        timeout: f64,
        lifetime: f64,
        metadata_lifetime: f64,
        cache_bytes: usize,
        cache_dir: Option<PathBuf>,
        cache_dir_size: Option<&str>,
        read_ahead_bytes: u64,
        allow_older: bool,
    ) -> PyResult<Self> {
        let address = transport.map(str::parse).transpose();
        let address = address.map_err(|error| PyValueError::new_err(format!("{error}")))?;
        let disk_cache = cache_dir.map(|at| DiskCacheOptions::from_words(at, cache_dir_size));
        let disk_cache =
            disk_cache.transpose().map_err(|error| Failure::from(error).exception(py))?;
        let fetching = FetchOptions {
            lifetime: duration("lifetime", lifetime)?,
            verification: verify.verification(py)?,
            ..FetchOptions::default()
        };
        let options = AccessOptions {
            fetching,
            metadata_lifetime: duration("metadata_lifetime", metadata_lifetime)?,
            allow_older,
            cache_bytes_max: cache_bytes,
            disk_cache,
            read_ahead_bytes_max: read_ahead_bytes,
            deadline: duration("timeout", timeout)?,
        };
        let command_signer = sign_commands.signer(py)?;
        let connection = EndpointOptions { address, command_signer, ..EndpointOptions::default() };
        let own = options.clone();
        let blocking =
            wait(py, |interrupted| Blocking::connect_unless(connection, own, interrupted))?;
        Ok(Self { blocking, options })
    }

    /// Open the current version of a file.
    fn open_file(&self, py: Python<'_>, name: &str) -> PyResult<NativeFile> {
        let name = name_of(name)?;
        let file = wait(py, |interrupted| self.blocking.open(&name, interrupted))?;
        Ok(NativeFile::new(file))
    }

    /// Describe the current version of a file or directory: a dictionary with name, type, size, mtime and mode.
    fn stat<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        let name = name_of(name)?;
        let stat = wait(py, |interrupted| self.blocking.stat(&name, interrupted))?;
        describe(py, &stat)
    }

    /// The entries of a directory: file names as bytes, and whether each is a directory.
    fn entries<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> PyResult<Vec<(Bound<'py, PyBytes>, bool)>> {
        let name = name_of(name)?;
        let entries = wait(py, |interrupted| self.blocking.list(&name, interrupted))?;
        let entries = entries.iter();
        Ok(entries.map(|entry| (PyBytes::new(py, &entry.file_name), entry.is_directory)).collect())
    }

    /// The entries of a directory with what `stat` states of each; nothing of directories.
    fn described_entries<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> PyResult<Vec<DescribedEntry<'py>>> {
        let name = name_of(name)?;
        let entries =
            wait(py, |interrupted| self.blocking.list_described(&name, false, interrupted))?;
        let describe = |(entry, stat): &(ListingEntry, Option<Stat>)| {
            let stat = stat.as_ref().map(|stat| describe(py, stat)).transpose()?;
            Ok((PyBytes::new(py, &entry.file_name), stat))
        };
        entries.iter().map(describe).collect()
    }

    /// Express an Interest; the Data that answers it is verified.
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    #[pyo3(signature = (name, done, *, can_be_prefix, must_be_fresh, lifetime, retransmissions, parameters, verify))]
    fn start_express(
        &self,
        py: Python<'_>,
        name: &str,
        done: Py<PyAny>,
        can_be_prefix: bool,
        must_be_fresh: bool,
        lifetime: f64,
        retransmissions: u32,
        parameters: Option<Vec<u8>>,
        verify: Option<VerifyArgument<'_>>,
    ) -> PyResult<Running> {
        let lifetime = duration("lifetime", lifetime)?;
        let mut request = InterestRequest::new(name_of(name)?)
            .can_be_prefix(can_be_prefix)
            .must_be_fresh(must_be_fresh)
            .lifetime(lifetime)
            .retransmissions(retransmissions);
        if let Some(parameters) = parameters {
            request = request.parameters(parameters);
        }
        let verification = self.fetching(py, verify.as_ref())?.verification;
        let endpoint = self.blocking.access().endpoint().clone();
        self.start(py, done, async move {
            let failed = |error| Failure::from(ndn_access::AccessError::from(error));
            let received = endpoint.express(&request).await.map_err(failed)?;
            let verified = endpoint.verify(&received.data(), &verification, lifetime).await;
            verified.map_err(|reason| {
                let name = received.data().name().to_uri();
                failed(ExpressError::Verification { name, reason })
            })?;
            Ok(ReceivedPacket::new(received))
        })
    }

    /// Fetch the current version of a whole file.
    #[pyo3(signature = (name, done, *, verify))]
    fn start_fetch(
        &self,
        py: Python<'_>,
        name: &str,
        done: Py<PyAny>,
        verify: Option<VerifyArgument<'_>>,
    ) -> PyResult<Running> {
        let name = name_of(name)?;
        // Content that was verified otherwise is not taken from the cache.
        let access = match verify {
            None => self.blocking.access().clone(),
            Some(verify) => self.blocking.access().verified_by(verify.verification(py)?),
        };
        self.start(py, done, async move {
            let file = access.open(&name).await?;
            let content = file.read_at(0, file.size()).await?;
            Ok(Content(content))
        })
    }

    /// Serve the Interests below a prefix: `receive` is called with lists of them, on a thread of this client.
    #[pyo3(signature = (prefix, receive, done, *, sign))]
    fn start_serve(
        &self,
        py: Python<'_>,
        prefix: &str,
        receive: Py<PyAny>,
        done: Py<PyAny>,
        sign: SignArgument<'_>,
    ) -> PyResult<Running> {
        let (prefix, signer) = (name_of(prefix)?, sign.signer(py)?);
        let own = self.own(py)?;
        let (sender, receiver) = mpsc::channel(INTERESTS_MAX);
        let mask = SignalMask::of_thread();
        self.start(py, done, async move {
            tokio::task::spawn_blocking(move || pass_on(receiver, &receive, &mask));
            let handler = move |request: Request| {
                // A full queue drops: the consumer asks again.
                let _ = sender.try_send(ReceivedInterest::new(request, signer.clone()));
            };
            let served = own.endpoint().await?.produce(&prefix, handler).await?;
            Ok(Served::new(prefix, Service::Prefix(served)))
        })
    }

    /// Publish a version of an object in segments, each signed.
    #[pyo3(signature = (name, content, done, *, version, segment_size, freshness, sign))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn start_publish(
        &self,
        py: Python<'_>,
        name: &str,
        content: Vec<u8>,
        done: Py<PyAny>,
        version: Option<u64>,
        segment_size: usize,
        freshness: f64,
        sign: SignArgument<'_>,
    ) -> PyResult<Running> {
        let name = name_of(name)?;
        let options = PublishOptions {
            version,
            segment_len: segment_size,
            freshness: duration("freshness", freshness)?,
            signer: sign.signer(py)?,
            ..PublishOptions::default()
        };
        let content = ndn_client::Content::Bytes(Bytes::from(content));
        let own = self.own(py)?;
        self.start(py, done, async move {
            let published = own.endpoint().await?.publish(&name, content, &options).await?;
            let versioned = published.versioned_name().clone();
            Ok(Served::new(versioned, Service::Object(published)))
        })
    }

    /// Serve a directory, or a file, with manifests unless segments are to be signed.
    #[pyo3(signature = (prefix, path, done, *, is_file, segment_size, freshness, sign, sign_segments, hidden, symlinks,
        other_file_systems, manifest_directory))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn start_serve_files(
        &self,
        py: Python<'_>,
        prefix: &str,
        path: PathBuf,
        done: Py<PyAny>,
        is_file: bool,
        segment_size: Option<usize>,
        freshness: f64,
        sign: SignArgument<'_>,
        sign_segments: bool,
        hidden: bool,
        symlinks: bool,
        other_file_systems: bool,
        manifest_directory: Option<PathBuf>,
    ) -> PyResult<Running> {
        let name = name_of(prefix)?;
        let root = RootOptions { symlinks, other_file_systems, hidden };
        let mount = without_lock(py, || {
            let mount = match is_file {
                true => Mount::open_file(name.clone(), &path),
                false => Mount::open(name.clone(), &path, root),
            };
            let mount = mount.map_err(|error| Failure::of_path(&path, &error))?;
            // Segments longer than a packet can contain are shortened.
            let segment_len = segment_size.map(|length| length.clamp(1, 1 << 16));
            Ok(Mount { segment_len, ..mount })
        })?;
        let options = ServerOptions {
            signer: sign.signer(py)?,
            freshness: duration("freshness", freshness)?,
            manifests: !sign_segments,
            prepare_manifests: manifest_directory.is_some(),
            manifest_directory,
            ..ServerOptions::default()
        };
        let own = self.own(py)?;
        self.start(py, done, async move {
            let server = FileServer::start(own.endpoint().await?, vec![mount], &options).await?;
            Ok(Served::new(name, Service::Files(server)))
        })
    }

    /// Stop serving; `done` is called once the route is removed.
    fn start_end(&self, py: Python<'_>, served: &Served, done: Py<PyAny>) -> PyResult<Running> {
        let service = served.take();
        let own = self.own(py)?;
        self.start(py, done, async move {
            let Some(service) = service else { return Ok(()) };
            let mut state = own.endpoint().await?.state();
            tokio::select! {
                ended = service.end() => ended,
                // The forwarder has removed the route with the connection.
                _ = state.wait_for(|state| *state != ConnectionState::Connected) => Ok(()),
            }
        })
    }

    /// Management of the forwarder.
    fn control(&self, py: Python<'_>) -> PyResult<NativeControl> {
        let runtime = self.blocking.runtime();
        let runtime = runtime.map_err(|error| Failure::from(error).exception(py))?;
        Ok(NativeControl::new(self.own(py)?, runtime))
    }

    /// Number of bytes in memory.
    #[getter]
    fn cached_bytes(&self) -> usize {
        self.blocking.access().cached_bytes()
    }

    /// Counters of the cache on disk; None without one.
    fn disk_cache<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(counters) = self.blocking.access().disk_cache() else { return Ok(None) };
        let dictionary = PyDict::new(py);
        for (key, count) in [
            ("hits", counters.hits),
            ("misses", counters.misses),
            ("damaged", counters.damaged),
            ("stored", counters.stored),
            ("dropped", counters.dropped),
            ("evicted_bytes", counters.evicted_bytes),
        ] {
            dictionary.set_item(key, count)?;
        }
        dictionary.set_item("warning", counters.warning)?;
        Ok(Some(dictionary))
    }
}
