//! Application library: endpoint, producer, segmented objects, RDR.
#![forbid(unsafe_code)]

pub mod fetch;
