//! A forwarder within the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use namewire_daemon::{Environment, Forwarder, Hooks};
use ndn_dataplane::MemoryFaceOptions;
use ndn_types::{LinkType, Persistency, Scope};
use pyo3::exceptions::{PyConnectionError, PyValueError};
use pyo3::prelude::*;

/// Frames that wait in each direction of a link between two forwarders.
const LINK_FRAMES_MAX: usize = 4096;

/// A running forwarder.
#[pyclass(frozen, module = "namewire")]
#[derive(Debug)]
pub(crate) struct NativeForwarder {
    running: Mutex<Option<Arc<Forwarder>>>,
    process: u32,
}

impl NativeForwarder {
    fn take(&self) -> Option<Arc<Forwarder>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn running(&self) -> PyResult<Arc<Forwarder>> {
        if self.process != std::process::id() {
            let text = "the forwarder runs in the process that this one was forked from";
            return Err(PyConnectionError::new_err(text));
        }
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        running.ok_or_else(|| PyConnectionError::new_err("the forwarder is stopped"))
    }
}

impl Drop for NativeForwarder {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // Its threads are in the other process.
            std::mem::forget(self.take());
        }
    }
}

#[pymethods]
impl NativeForwarder {
    /// Start a forwarder with these settings, as in a configuration file, in JSON.
    #[new]
    fn new(py: Python<'_>, settings: &str) -> PyResult<Self> {
        let invalid = |text: String| PyValueError::new_err(text);
        let table: toml::Table = serde_json::from_str(settings)
            .map_err(|error| invalid(format!("settings: {error}")))?;
        let text =
            toml::to_string(&table).map_err(|error| invalid(format!("settings: {error}")))?;
        let config = namewire_config::parse("settings", &text);
        let config = config.map_err(|error| invalid(error.to_string()))?;
        let running = py.detach(|| {
            let hooks = Hooks::none().map_err(|error| error.to_string())?;
            let started = Forwarder::start(&config, Environment::system(), hooks);
            started.map_err(|error| format!("{error:#}"))
        });
        let running = running.map_err(PyConnectionError::new_err)?;
        Ok(Self { running: Mutex::new(Some(Arc::new(running))), process: std::process::id() })
    }

    /// Stop, and wait until the threads have ended. In a process that was forked, nothing happens.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        if self.process != std::process::id() {
            return Ok(());
        }
        let stopped = py.detach(|| match self.take().map(Arc::try_unwrap) {
            Some(Ok(forwarder)) => forwarder.shut_down().map_err(|error| format!("{error:#}")),
            // Another thread connects it just now, and ends it.
            Some(Err(_)) | None => Ok(()),
        });
        stopped.map_err(PyConnectionError::new_err)
    }

    /// Connect this forwarder and another one by a link in memory; returns the FaceIds, of this forwarder first.
    fn connect(&self, py: Python<'_>, other: &Self, mtu: usize) -> PyResult<[u64; 2]> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let (here, there) = (self.running()?, other.running()?);
        let options = MemoryFaceOptions {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            scope: Scope::NonLocal,
            link_type: LinkType::PointToPoint,
            principal: None,
            persistency: Persistency::Persistent,
            mtu,
            queue_frames_max: LINK_FRAMES_MAX,
        };
        let connected = py.detach(move || here.connect(&there, options));
        connected.map_err(|error| PyConnectionError::new_err(error.to_string()))
    }

    /// Whether it runs, and in this process.
    #[getter]
    fn is_running(&self) -> bool {
        self.running().is_ok()
    }
}
