//! End-to-end and interoperability tests of the namewire binary.
#![forbid(unsafe_code)]
