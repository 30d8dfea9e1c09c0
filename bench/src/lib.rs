//! Benchmarks of the pipeline and of the whole forwarder.
#![forbid(unsafe_code)]
