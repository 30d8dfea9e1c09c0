//! The connection to a forwarder.

use std::time::Duration;

use ndn_access::{AccessOptions, Blocking};
use ndn_client::fetch::{FetchOptions, Verification};
use ndn_client::{EndpointOptions, verifier_from_text};
use ndn_packet::Name;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::describe::describe;
use crate::error::wait;
use crate::file::NativeFile;

/// A connection to a forwarder.
///
/// It may be used by many threads.
#[pyclass(frozen, module = "namewire")]
#[derive(Debug)]
pub(crate) struct Client {
    blocking: Blocking,
}

/// A time in seconds.
fn duration(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{name}: {seconds} is not a time in seconds")))
}

fn name_of(uri: &str) -> PyResult<Name> {
    Name::from_uri(uri)
        .map_err(|error| PyValueError::new_err(format!("{uri:?} is not a name: {error}")))
}

fn verification(argument: &str) -> PyResult<Verification> {
    match argument {
        "digest" => Ok(Verification::Digest),
        "none" => Ok(Verification::Skip),
        file => {
            let text = std::fs::read_to_string(file).map_err(|error| {
                let reason = error.to_string();
                let reason = reason.split(" (os error").next().unwrap_or_default().to_owned();
                // OSError makes its subclass of the number.
                PyOSError::new_err((error.raw_os_error(), reason, file.to_owned()))
            })?;
            let verifier = verifier_from_text(&text)
                .map_err(|error| PyValueError::new_err(format!("{file}: {error}")))?;
            Ok(Verification::Verifier(verifier))
        }
    }
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
        let fetching = FetchOptions {
            lifetime: duration("lifetime", lifetime)?,
            verification: verification(verify)?,
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
        Ok(Self { blocking })
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
