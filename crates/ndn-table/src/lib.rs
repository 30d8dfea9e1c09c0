//! FIB, PIT and CS composite table, dead nonce list, timer wheel.
//!
//! | module | what it holds |
//! |---|---|
//! | `timestamp`, `face_index`, `token` | [`Timestamp`], [`FaceIndex`], [`Token`] |
//! | `name_hash`, `sip`, `key` | [`NameHasher`], [`InterestKey`], [`DataKey`] |
//! | `bucket`, `hash_index`, `arena` | what the tables are made of |
#![forbid(unsafe_code)]

mod arena;
mod bucket;
mod byte_slab;
mod face_index;
mod hash_index;
mod key;
mod name_hash;
mod sip;
mod timer_wheel;
mod timestamp;
mod token;

pub use face_index::FaceIndex;
pub use key::{DataKey, InterestKey};
pub use name_hash::{NAME_COMPONENTS_MAX, NameHasher, PREFIX_HASHES_MAX};
pub use timer_wheel::{Step, TICK_NANOS, TimerWheel, WheelFull};
pub use timestamp::{NANOS_PER_MILLI, Timestamp};
pub use token::{TOKEN_LENGTH, Token};
