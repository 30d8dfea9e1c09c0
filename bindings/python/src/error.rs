//! Errors as exceptions.

use ndn_access::{AccessError, ErrorKind};
use pyo3::create_exception;
use pyo3::exceptions::{
    PyBlockingIOError, PyConnectionError, PyFileNotFoundError, PyIsADirectoryError,
    PyKeyboardInterrupt, PyNotADirectoryError, PyOSError, PyTimeoutError, PyValueError,
};
use pyo3::prelude::*;

create_exception!(namewire, VerificationError, PyOSError, "Data that does not verify.");
create_exception!(namewire, UnreachableError, PyOSError, "No route, or congestion.");
create_exception!(namewire, ChangedError, PyOSError, "The version that is open no longer exists.");

/// The exception of a failed operation.
pub(crate) fn exception(error: &AccessError) -> PyErr {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::NotFound => PyFileNotFoundError::new_err(text),
        ErrorKind::IsDirectory => PyIsADirectoryError::new_err(text),
        ErrorKind::NotDirectory => PyNotADirectoryError::new_err(text),
        ErrorKind::Changed => ChangedError::new_err(text),
        ErrorKind::Unanswered => PyTimeoutError::new_err(text),
        ErrorKind::Unreachable => UnreachableError::new_err(text),
        ErrorKind::Disconnected => PyConnectionError::new_err(text),
        ErrorKind::Busy => PyBlockingIOError::new_err(text),
        ErrorKind::Unverified => VerificationError::new_err(text),
        ErrorKind::Unusable => PyOSError::new_err(text),
        ErrorKind::Invalid => PyValueError::new_err(text),
        ErrorKind::Interrupted => PyKeyboardInterrupt::new_err(text),
    }
}

/// Runs `work` without the interpreter's lock. `work` gets a function that says whether a signal handler of Python raised an
/// exception, which is then the result.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<T, AccessError> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let result = py.detach(|| {
        let mut interrupted = || {
            raised = Python::attach(|py| py.check_signals()).err();
            raised.is_some()
        };
        work(&mut interrupted)
    });
    match (result, raised) {
        (Ok(result), _) => Ok(result),
        (Err(_), Some(raised)) => Err(raised),
        (Err(error), None) => Err(exception(&error)),
    }
}
