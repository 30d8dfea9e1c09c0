//! The connection to a forwarder.

use bytes::Bytes;
use ndn_access::keys::verification;
use ndn_access::{AccessError, AccessOptions, Blocking, ErrorKind};
use ndn_client::fetch::{FetchOptions, Verification};
use ndn_client::{
    Endpoint, EndpointOptions, ExpressError, InterestRequest, PublishError, PublishOptions,
    RegisterError, Request,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tokio::sync::mpsc;

use crate::arguments::{duration, name_of, signing, unusable};
use crate::describe::describe;
use crate::error::{exception, wait};
use crate::file::NativeFile;
use crate::packets::{
    Content, ReceivedInterest, ReceivedPacket, Running, Served, Service, pass_on, report,
};

/// Interests that wait for the event loop of a program; more are dropped.
const INTERESTS_MAX: usize = 4096;

/// A connection to a forwarder.
///
/// It may be used by many threads.
#[pyclass(frozen, module = "namewire")]
#[derive(Debug)]
pub(crate) struct Client {
    blocking: Blocking,
    verification: Verification,
}

impl Client {
    /// Starts a task, which calls `done` with its result and its exception, one of which is None.
    fn start<T>(
        &self,
        done: Py<PyAny>,
        work: impl Future<Output = Result<T, AccessError>> + Send + 'static,
    ) -> PyResult<Running>
    where
        T: for<'py> IntoPyObject<'py> + Send + 'static,
    {
        let runtime = self.blocking.runtime().map_err(|error| exception(&error))?;
        let task = runtime.spawn(async move { report(done, work.await).await });
        Ok(Running { handle: task.abort_handle() })
    }

    fn endpoint(&self) -> Endpoint {
        self.blocking.access().endpoint().clone()
    }
}

fn refused(error: &RegisterError) -> AccessError {
    let is_own = matches!(error, RegisterError::InUse(_));
    let kind = if is_own { ErrorKind::Invalid } else { ErrorKind::Unusable };
    AccessError::new(kind, error.to_string())
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (transport = None, *, verify = "digest", timeout = 60.0, lifetime = 4.0, metadata_lifetime = 2.0,
        cache_bytes = 256 << 20, read_ahead_bytes = 16 << 20, allow_older = false))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        transport: Option<&str>,
        verify: &str,
        timeout: f64,
        lifetime: f64,
        metadata_lifetime: f64,
        cache_bytes: usize,
        read_ahead_bytes: u64,
        allow_older: bool,
    ) -> PyResult<Self> {
        let address = transport.map(str::parse).transpose();
        let address = address.map_err(|error| PyValueError::new_err(format!("{error}")))?;
        let verification = verification(verify).map_err(|error| unusable(&error))?;
        let fetching = FetchOptions {
            lifetime: duration("lifetime", lifetime)?,
            verification: verification.clone(),
            ..FetchOptions::default()
        };
        let options = AccessOptions {
            fetching,
            metadata_lifetime: duration("metadata_lifetime", metadata_lifetime)?,
            allow_older,
            cache_bytes_max: cache_bytes,
            read_ahead_bytes_max: read_ahead_bytes,
            deadline: duration("timeout", timeout)?,
        };
        let connection = EndpointOptions { address, ..EndpointOptions::default() };
        let blocking = wait(py, |_| Blocking::connect(connection, options))?;
        Ok(Self { blocking, verification })
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

    /// Express an Interest; the Data that answers it is verified.
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    #[pyo3(signature = (name, done, *, can_be_prefix, must_be_fresh, lifetime, retransmissions, parameters))]
    fn start_express(
        &self,
        name: &str,
        done: Py<PyAny>,
        can_be_prefix: bool,
        must_be_fresh: bool,
        lifetime: f64,
        retransmissions: u32,
        parameters: Option<Vec<u8>>,
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
        let (endpoint, verification) = (self.endpoint(), self.verification.clone());
        self.start(done, async move {
            let received = endpoint.express(&request).await?;
            let verified = endpoint.verify(&received.data(), &verification, lifetime).await;
            verified.map_err(|reason| {
                let name = received.data().name().to_uri();
                AccessError::from(ExpressError::Verification { name, reason })
            })?;
            Ok(ReceivedPacket::new(received))
        })
    }

    /// Fetch the current version of a whole file.
    fn start_fetch(&self, name: &str, done: Py<PyAny>) -> PyResult<Running> {
        let (access, name) = (self.blocking.access().clone(), name_of(name)?);
        self.start(done, async move {
            let file = access.open(&name).await?;
            let content = file.read_at(0, file.size()).await?;
            Ok(Content(content))
        })
    }

    /// Serve the Interests below a prefix: `receive` is called with lists of them, on a thread of this client.
    #[pyo3(signature = (prefix, receive, done, *, sign))]
    fn start_serve(
        &self,
        prefix: &str,
        receive: Py<PyAny>,
        done: Py<PyAny>,
        sign: &str,
    ) -> PyResult<Running> {
        let (prefix, signing) = (name_of(prefix)?, signing(sign)?);
        let endpoint = self.endpoint();
        let (sender, receiver) = mpsc::channel(INTERESTS_MAX);
        self.start(done, async move {
            tokio::task::spawn_blocking(move || pass_on(receiver, &receive));
            let handler = move |request: Request| {
                // A full queue drops: the consumer asks again.
                let _ = sender.try_send(ReceivedInterest::new(request, signing.clone()));
            };
            let served = endpoint.produce(&prefix, handler).await;
            let served = served.map_err(|error| refused(&error))?;
            Ok(Served::new(prefix, Service::Prefix(served)))
        })
    }

    /// Publish a version of an object in segments.
    #[pyo3(signature = (name, content, done, *, version, segment_size, freshness, sign))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn start_publish(
        &self,
        name: &str,
        content: Vec<u8>,
        done: Py<PyAny>,
        version: Option<u64>,
        segment_size: usize,
        freshness: f64,
        sign: &str,
    ) -> PyResult<Running> {
        let name = name_of(name)?;
        let options = PublishOptions {
            version,
            segment_len: segment_size,
            freshness: duration("freshness", freshness)?,
            signer: signing(sign)?.0,
            ..PublishOptions::default()
        };
        let content = ndn_client::Content::Bytes(Bytes::from(content));
        let endpoint = self.endpoint();
        self.start(done, async move {
            let published = endpoint.publish(&name, content, &options).await;
            let published = published.map_err(|error| {
                if let PublishError::Register(error) = &error {
                    return refused(error);
                }
                AccessError::new(ErrorKind::Invalid, error.to_string())
            })?;
            let versioned = published.versioned_name().clone();
            Ok(Served::new(versioned, Service::Object(published)))
        })
    }

    /// Stop serving; `done` is called once the route is removed.
    fn start_end(&self, served: &Served, done: Py<PyAny>) -> PyResult<Running> {
        let service = served.take();
        self.start(done, async move {
            match service {
                Some(service) => service.end().await,
                None => Ok(()),
            }
        })
    }

    /// Number of bytes in the cache.
    #[getter]
    fn cached_bytes(&self) -> usize {
        self.blocking.access().cached_bytes()
    }

    fn __repr__(&self) -> String {
        match self.blocking.access().endpoint().address() {
            Some(address) => format!("<namewire.Client of {address}>"),
            None => "<namewire.Client>".to_owned(),
        }
    }
}
