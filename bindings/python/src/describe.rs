//! Properties of files and directories as dictionaries.

use ndn_access::Stat;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A file or directory as a dictionary.
pub(crate) fn describe<'py>(py: Python<'py>, stat: &Stat) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    found.set_item("name", stat.name.to_uri())?;
    found.set_item("version", stat.version())?;
    found.set_item("type", if stat.is_directory { "directory" } else { "file" })?;
    found.set_item("size", stat.size)?;
    found.set_item("mtime_ns", stat.modified_ns)?;
    found.set_item("mode", stat.permissions)?;
    Ok(found)
}
