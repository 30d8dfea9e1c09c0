//! Native part of the Python package. See README.md.
#![forbid(unsafe_code)]

mod arguments;
mod client;
mod control;
mod describe;
mod error;
mod file;
mod forwarder;
mod interpreter;
mod keys;
mod packets;

use pyo3::prelude::*;

/// The native module `namewire._namewire`.
#[pymodule(name = "_namewire")]
mod module {
    #[pymodule_export]
    use crate::arguments::{Signing, Verifying};
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::control::NativeControl;
    #[pymodule_export]
    use crate::file::NativeFile;
    #[pymodule_export]
    use crate::forwarder::NativeForwarder;
    #[pymodule_export]
    use crate::keys::NativeKeyChain;
    #[pymodule_export]
    use crate::packets::{ReceivedInterest, ReceivedPacket, Running, Served};

    use super::{Bound, PyAnyMethods, PyModule, PyModuleMethods, PyResult, wrap_pyfunction};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let end_calls = wrap_pyfunction!(crate::interpreter::end_calls, module)?;
        module.py().import("atexit")?.call_method1("register", (end_calls,))?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
