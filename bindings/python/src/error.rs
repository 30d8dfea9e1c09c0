//! Errors as exceptions.

use ndn_access::keys::KeysError;
use ndn_access::{AccessError, ErrorKind};
use ndn_client::{CommandError, FaceUriError, PublishError, RegisterError};
use ndn_files::StartError;
use ndn_keychain::KeyChainError;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::interpreter;

/// A failed operation, before it is an exception, which takes the interpreter.
#[derive(Debug)]
pub(crate) struct Failure {
    class: Class,
    text: String,
    /// Name of the packet or object.
    name: Option<String>,
}

#[derive(Debug)]
enum Class {
    Value,
    Interrupt,
    /// A class of `namewire._errors`.
    Error(&'static str),
    /// A command that the forwarder refused, with its status code.
    Refused(u32),
    /// An error of the operating system with its number.
    System(i32),
}

impl Failure {
    pub(crate) fn value(text: impl Into<String>) -> Self {
        Self { class: Class::Value, text: text.into(), name: None }
    }

    fn unusable(text: String) -> Self {
        Self { class: Class::Error("UnusableError"), text, name: None }
    }

    /// Of a file or directory of this host.
    pub(crate) fn of_path(path: &std::path::Path, error: &std::io::Error) -> Self {
        let path = path.display().to_string();
        let Some(number) = error.raw_os_error() else {
            return Self::value(format!("{path}: {error}"));
        };
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default().to_owned();
        Self { class: Class::System(number), text, name: Some(path) }
    }

    pub(crate) fn exception(self, py: Python<'_>) -> PyErr {
        let Self { class, text, name } = self;
        let made = py.import("namewire._errors").and_then(|errors| match class {
            Class::Value => Err(PyValueError::new_err(text)),
            Class::Interrupt => Err(PyKeyboardInterrupt::new_err(text)),
            // OSError makes its subclass of the number.
            Class::System(number) => Err(PyOSError::new_err((number, text, name))),
            Class::Error(class) => errors.getattr(class)?.call1((text, name)),
            Class::Refused(code) => errors.getattr("RefusedError")?.call1((text, name, code)),
        });
        made.map_or_else(|error| error, PyErr::from_value)
    }
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Self {
        let class = match error.kind() {
            ErrorKind::NotFound => Class::Error("NotFoundError"),
            ErrorKind::Denied => Class::Error("DeniedError"),
            ErrorKind::IsDirectory => Class::Error("DirectoryError"),
            ErrorKind::NotDirectory => Class::Error("NotDirectoryError"),
            ErrorKind::Changed => Class::Error("ChangedError"),
            ErrorKind::Unanswered => Class::Error("UnansweredError"),
            ErrorKind::Unreachable => Class::Error("UnreachableError"),
            ErrorKind::Disconnected => Class::Error("DisconnectedError"),
            ErrorKind::Busy => Class::Error("BusyError"),
            ErrorKind::Unverified => Class::Error("VerificationError"),
            ErrorKind::Unusable => Class::Error("UnusableError"),
            ErrorKind::Refused(code) => Class::Refused(code),
            ErrorKind::Invalid => Class::Value,
            ErrorKind::Interrupted => Class::Interrupt,
        };
        Self { class, text: error.to_string(), name: error.name().map(str::to_owned) }
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        AccessError::from(error).into()
    }
}

impl From<RegisterError> for Failure {
    fn from(error: RegisterError) -> Self {
        AccessError::from(error).into()
    }
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        AccessError::from(error).into()
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        if let StartError::ManifestDirectory(path, error) = &error {
            return Self::of_path(path.as_ref(), error);
        }
        if matches!(error, StartError::Thread(_)) {
            return Self::unusable(error.to_string());
        }
        AccessError::from(error).into()
    }
}

impl From<FaceUriError> for Failure {
    fn from(error: FaceUriError) -> Self {
        match error {
            FaceUriError::Invalid(text) => Self::value(text),
            FaceUriError::NoHost(text) => {
                Self { class: Class::Error("UnreachableError"), text, name: None }
            }
        }
    }
}

impl From<KeyChainError> for Failure {
    fn from(error: KeyChainError) -> Self {
        if let KeyChainError::File { path, source } = &error {
            return Self::of_path(path, source);
        }
        let text = error.to_string();
        let class = Class::Error("KeyChainError");
        Self { class, text, name: None }
    }
}

impl From<KeysError> for Failure {
    fn from(error: KeysError) -> Self {
        if let KeysError::Read { path, reason } = &error {
            return Self::of_path(path, reason);
        }
        Self::value(error.to_string())
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
        let mut interrupted = || match interpreter::call(|py| py.check_signals()) {
            Some(checked) => {
                raised = checked.err();
                raised.is_some()
            }
            // The interpreter has ended.
            None => true,
        };
        work(&mut interrupted)
    });
    match (result, raised) {
        (Ok(result), _) => Ok(result),
        (Err(_), Some(raised)) => Err(raised),
        (Err(error), None) => Err(Failure::from(error).exception(py)),
    }
}

/// Runs `work`, which takes a moment, without the interpreter's lock.
pub(crate) fn without_lock<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    py.detach(work).map_err(|failure| failure.exception(py))
}
