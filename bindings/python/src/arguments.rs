//! Arguments of Python: names, times and keys.

use std::sync::Arc;
use std::time::Duration;

use ndn_access::keys::{KeysError, signer};
use ndn_packet::Name;
use ndn_security::Signer;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// A time in seconds.
pub(crate) fn duration(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{name}: {seconds} is not a time in seconds")))
}

pub(crate) fn name_of(uri: &str) -> PyResult<Name> {
    Name::from_uri(uri)
        .map_err(|error| PyValueError::new_err(format!("{uri:?} is not a name: {error}")))
}

/// The exception of keys that cannot be used: of the operating system if a file cannot be read.
pub(crate) fn unusable(error: &KeysError) -> PyErr {
    let KeysError::Read { path, reason } = error else {
        return PyValueError::new_err(error.to_string());
    };
    let text = reason.to_string();
    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
    // OSError makes its subclass of the number.
    PyOSError::new_err((reason.raw_os_error(), text, path.display().to_string()))
}

/// A key that signs.
#[derive(Clone)]
pub(crate) struct Signing(pub(crate) Arc<dyn Signer>);

pub(crate) fn signing(word: &str) -> PyResult<Signing> {
    signer(word).map(Signing).map_err(|error| unusable(&error))
}
