//! FIB, PIT and CS composite table, dead nonce list, timer wheel.
#![forbid(unsafe_code)]
