//! Namewire: an NDN forwarder and data-transfer toolkit.
#![forbid(unsafe_code)]

fn main() {}
