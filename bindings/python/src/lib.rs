//! Native part of the Python package: files by name. See README.md.
#![forbid(unsafe_code)]

mod arguments;
mod client;
mod describe;
mod error;
mod file;
mod packets;

use pyo3::prelude::*;

/// The native module `namewire._namewire`.
#[pymodule(name = "_namewire")]
mod module {
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::error::{ChangedError, UnreachableError, VerificationError};
    #[pymodule_export]
    use crate::file::NativeFile;
    #[pymodule_export]
    use crate::packets::{ReceivedInterest, ReceivedPacket, Running, Served};

    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
