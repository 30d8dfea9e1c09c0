//! Single packets: Interests that are expressed and answered, for asyncio.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ndn_client::{ReceivedData, Registration, Request};
use ndn_files::FileServer;
use ndn_packet::{DataBuilder, NackReason, Name};
use ndn_security::Signer;
use ndn_sys::signal::SignalMask;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::arguments::{duration, name_of};
use crate::error::Failure;
use crate::interpreter;

/// A Data packet that was received and verified.
#[pyclass(frozen, module = "namewire", name = "Data")]
#[derive(Debug)]
pub(crate) struct ReceivedPacket {
    received: ReceivedData,
}

impl ReceivedPacket {
    pub(crate) fn new(received: ReceivedData) -> Self {
        Self { received }
    }
}

#[pymethods]
impl ReceivedPacket {
    /// Name of the packet.
    #[getter]
    fn name(&self) -> String {
        self.received.data().name().to_uri()
    }

    /// Content.
    #[getter]
    fn content<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.received.content())
    }

    /// ContentType; 0 is a blob, 3 an application Nack.
    #[getter]
    fn content_type(&self) -> u64 {
        self.received.data().content_type().0
    }

    /// FreshnessPeriod in seconds.
    #[getter]
    fn freshness(&self) -> f64 {
        Duration::from_millis(self.received.data().freshness_ms().unwrap_or(0)).as_secs_f64()
    }

    /// The whole packet.
    #[getter]
    fn wire<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.received.wire())
    }

    fn __repr__(&self) -> String {
        format!("<namewire.Data {}>", self.name())
    }
}

/// An Interest that waits for an answer.
#[pyclass(frozen, module = "namewire", name = "Interest")]
pub(crate) struct ReceivedInterest {
    request: Request,
    signer: Arc<dyn Signer>,
}

impl std::fmt::Debug for ReceivedInterest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceivedInterest")
            .field("name", &self.request.name())
            .finish_non_exhaustive()
    }
}

impl ReceivedInterest {
    pub(crate) fn new(request: Request, signer: Arc<dyn Signer>) -> Self {
        Self { request, signer }
    }
}

#[pymethods]
impl ReceivedInterest {
    /// Name of the Interest.
    #[getter]
    fn name(&self) -> String {
        self.request.name().to_uri()
    }

    /// Whether Data with a longer name is accepted.
    #[getter]
    fn can_be_prefix(&self) -> bool {
        self.request.interest().can_be_prefix()
    }

    /// Whether only fresh Data is accepted.
    #[getter]
    fn must_be_fresh(&self) -> bool {
        self.request.interest().must_be_fresh()
    }

    /// InterestLifetime in seconds.
    #[getter]
    fn lifetime(&self) -> f64 {
        Duration::from_millis(self.request.interest().lifetime_ms()).as_secs_f64()
    }

    /// ApplicationParameters, if there are any.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.request.interest().parameters().map(|parameters| PyBytes::new(py, parameters))
    }

    /// Answer with Data, signed by the key of the prefix. `name` is that of the Interest by default.
    #[pyo3(signature = (content, *, name = None, freshness = 0.0, content_type = 0, final_segment = None))]
    fn answer(
        &self,
        py: Python<'_>,
        content: Vec<u8>,
        name: Option<&str>,
        freshness: f64,
        content_type: u64,
        final_segment: Option<u64>,
    ) -> PyResult<()> {
        let freshness = duration("freshness", freshness)?;
        let name = match name {
            Some(uri) => name_of(uri)?,
            None => self.request.name().to_name(),
        };
        py.detach(|| {
            let freshness_ms = u64::try_from(freshness.as_millis()).unwrap_or(u64::MAX);
            let mut data = DataBuilder::new(&name).content(&content).freshness_ms(freshness_ms);
            if content_type != 0 {
                data = data.content_type(ndn_packet::ContentType(content_type));
            }
            if let Some(segment) = final_segment {
                data = data.final_segment(segment);
            }
            self.request.answer_with(&data, self.signer.as_ref())
        })
        .map_err(|error| PyValueError::new_err(format!("{}: {error}", name.to_uri())))
    }

    /// Answer with a Nack of reason NoRoute.
    fn nack(&self) {
        self.request.nack(NackReason::NO_ROUTE);
    }

    fn __repr__(&self) -> String {
        format!("<namewire.Interest {}>", self.name())
    }
}

/// A service: a prefix that is answered, a published object, or served files.
#[pyclass(frozen, module = "namewire", name = "NativeServed")]
#[derive(Debug)]
pub(crate) struct Served {
    name: Name,
    service: Mutex<Option<Service>>,
    runtime: Handle,
    process: u32,
}

#[derive(Debug)]
pub(crate) enum Service {
    Prefix(Registration),
    Object(ndn_client::PublishedObject),
    Files(FileServer),
}

impl Served {
    /// Within the runtime of the connection.
    pub(crate) fn new(name: Name, service: Service) -> Self {
        let (service, process) = (Mutex::new(Some(service)), std::process::id());
        Self { name, service, runtime: Handle::current(), process }
    }

    /// The service, to be ended.
    pub(crate) fn take(&self) -> Option<Service> {
        self.service.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.release();
    }
}

#[pymethods]
impl Served {
    /// The prefix, or the name with version.
    #[getter]
    fn name(&self) -> String {
        self.name.to_uri()
    }

    /// Stop serving, without waiting for the forwarder. In a process that was forked, nothing happens.
    fn release(&self) {
        if self.process != std::process::id() {
            // Locks may be held by threads that are in the other process only.
            if let Ok(mut service) = self.service.try_lock() {
                std::mem::forget(service.take());
            }
            return;
        }
        // It ends by commands, which need the runtime.
        if let Some(service) = self.take() {
            self.runtime.spawn(async move { drop(service) });
        }
    }
}

impl Service {
    pub(crate) async fn end(self) -> Result<(), Failure> {
        match self {
            Self::Prefix(registration) => registration.unregister().await?,
            Self::Object(object) => object.unpublish().await?,
            Self::Files(server) => server.stop().await?,
        }
        Ok(())
    }
}

/// Starts a task, which calls `done` with its result and its exception, one of which is None, under the signal mask of the caller.
pub(crate) fn start<T>(
    runtime: &Handle,
    done: Py<PyAny>,
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Running
where
    T: for<'py> IntoPyObject<'py> + Send + 'static,
{
    let mask = SignalMask::of_thread();
    let task = runtime.spawn(async move { report(done, work.await, mask).await });
    Running { handle: task.abort_handle() }
}

/// Something that runs, and can be cancelled.
#[pyclass(frozen, module = "namewire")]
#[derive(Debug)]
pub(crate) struct Running {
    handle: tokio::task::AbortHandle,
}

#[pymethods]
impl Running {
    fn cancel(&self) {
        self.handle.abort();
    }
}

/// The content of a file, which becomes bytes.
pub(crate) struct Content(pub(crate) bytes::Bytes);

impl<'py> IntoPyObject<'py> for Content {
    type Target = PyBytes;
    type Output = Bound<'py, PyBytes>;
    type Error = std::convert::Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(PyBytes::new(py, &self.0))
    }
}

/// Passes Interests on to `receive`, in lists and under this signal mask, until the prefix is served no more.
pub(crate) fn pass_on(
    mut receiver: mpsc::Receiver<ReceivedInterest>,
    receive: &Py<PyAny>,
    mask: &SignalMask,
) {
    let _mask = mask.enter();
    let mut waiting = Vec::new();
    loop {
        waiting.extend(receiver.blocking_recv());
        if waiting.is_empty() {
            break;
        }
        while let Ok(more) = receiver.try_recv() {
            waiting.push(more);
        }
        let interests = std::mem::take(&mut waiting);
        let called = interpreter::call(|py| receive.call1(py, (interests,)).map(drop));
        // The event loop of the program, or the interpreter, has ended.
        if called.is_none_or(|called| called.is_err()) {
            break;
        }
    }
}

/// Calls `done` with a result and an exception, one of which is None, on a thread that may wait for the interpreter.
async fn report<T>(done: Py<PyAny>, result: Result<T, Failure>, mask: SignalMask)
where
    T: for<'py> IntoPyObject<'py> + Send + 'static,
{
    let call = move || {
        let _mask = mask.enter();
        // Nobody waits for the result if the interpreter has ended.
        interpreter::call(|py| {
            let called = match result {
                Ok(value) => match value.into_py_any(py) {
                    Ok(value) => done.call1(py, (value, py.None())),
                    Err(error) => done.call1(py, (py.None(), error)),
                },
                Err(error) => done.call1(py, (py.None(), error.exception(py).into_value(py))),
            };
            // The event loop has ended: nobody waits for the result.
            if let Err(error) = called
                && !error.is_instance_of::<PyRuntimeError>(py)
            {
                error.write_unraisable(py, None);
            }
        });
    };
    let _ = tokio::task::spawn_blocking(call).await;
}
