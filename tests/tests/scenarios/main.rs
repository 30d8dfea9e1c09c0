//! The classic scenarios of forwarding, over links between network namespaces.
//!
//! One topology serves many scenarios: each has names of its own. Names of one scenario share their
//! first two components, so that one worker forwards them, in their order. Over UDP, packets of
//! different lengths may overtake each other: where the order counts, names have the same length.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod diamond;
mod line;
