//! Open files.

use ndn_access::BlockingFile;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView, PySlice};

use crate::describe::describe;
use crate::error::wait;

/// An open version of a file: reads at offsets.
#[pyclass(frozen, module = "namewire")]
#[derive(Debug)]
pub(crate) struct NativeFile {
    file: BlockingFile,
}

impl NativeFile {
    pub(crate) fn new(file: BlockingFile) -> Self {
        Self { file }
    }
}

#[pymethods]
impl NativeFile {
    /// Length in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.file.file().size()
    }

    /// Name with version.
    #[getter]
    fn name(&self) -> String {
        self.file.file().name().to_uri()
    }

    /// As Client.stat, of this version.
    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        describe(py, &self.file.file().stat())
    }

    /// Up to `length` bytes at `offset`: fewer at the end of the file.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let length = length.min(self.size().saturating_sub(offset));
        let length = usize::try_from(length).map_err(|_| PyValueError::new_err("too long"))?;
        let mut read = 0;
        let bytes = PyBytes::new_with(py, length, |buffer| {
            read = wait(py, |interrupted| self.file.read_into(offset, buffer, interrupted))?;
            Ok(())
        })?;
        debug_assert_eq!(read, length, "the size of a version does not change");
        Ok(bytes)
    }

    /// Fills a view of bytes from `offset` on, from the verified segments; returns the number of bytes.
    fn read_into(
        &self,
        py: Python<'_>,
        offset: u64,
        buffer: &Bound<'_, PyMemoryView>,
    ) -> PyResult<usize> {
        let (length, mut filled) = (buffer.len()?, 0);
        while filled < length {
            let [at, left] = [filled, length - filled].map(|count| count as u64);
            let at = offset.saturating_add(at);
            let parts = wait(py, |interrupted| self.file.read_parts(at, left, interrupted))?;
            if parts.is_empty() {
                break;
            }
            for part in parts {
                let end = filled + part.len();
                let place = buffer.get_item(PySlice::new(py, bound(filled)?, bound(end)?, 1))?;
                PyBuffer::<u8>::get(&place)?.copy_from_slice(py, &part)?;
                filled = end;
            }
        }
        Ok(filled)
    }

    /// The bytes of ranges, given by their first bytes and their ends.
    fn read_ranges<'py>(
        &self,
        py: Python<'py>,
        ranges: Vec<(u64, u64)>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let ranges: Vec<_> = ranges.into_iter().map(|(start, end)| start..end).collect();
        let parts = wait(py, |interrupted| self.file.read_vectored(&ranges, interrupted))?;
        Ok(parts.iter().map(|part| PyBytes::new(py, part)).collect())
    }
}

/// A bound of a slice.
fn bound(position: usize) -> PyResult<isize> {
    isize::try_from(position).map_err(|_| PyValueError::new_err("too long"))
}
