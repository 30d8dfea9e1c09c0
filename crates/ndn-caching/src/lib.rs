//! Cache replacement policies, and a cache that runs one.
//!
//! | module | what it holds |
//! |---|---|
//! | [`policy`] | the trait [`Policy`] and the policies |
//! | [`cache`] | objects by key under a capacity and a policy |
//! | [`random`] | the generator of random numbers |
//! | [`sketch`] | the frequency sketch of W-TinyLFU |
//!
//! With the cargo feature `vip`, the module `vip` has the virtual plane of VIP, which is patented in the United
//! States (US 12155738 B2).
#![forbid(unsafe_code)]

pub mod cache;
mod ghosts;
mod heap;
pub mod policy;
mod queue;
pub mod random;
pub mod sketch;
#[cfg(feature = "vip")]
pub mod vip;

pub use cache::Cache;
pub use policy::{Capacity, Class, Object, ObjectScores, Policy, PolicyKind, Slot};
