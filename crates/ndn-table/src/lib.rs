//! FIB, PIT and CS composite table, dead nonce list, timer wheel.
//!
//! | module | what it holds |
//! |---|---|
//! | `timestamp`, `face_index`, `token` | [`Timestamp`], [`FaceIndex`], [`Token`] |
#![forbid(unsafe_code)]

mod face_index;
mod timestamp;
mod token;

pub use face_index::FaceIndex;
pub use timestamp::{NANOS_PER_MILLI, Timestamp};
pub use token::{TOKEN_LENGTH, Token};
