//! Workers: receive, dispatch, forward, transmit.
#![forbid(unsafe_code)]
