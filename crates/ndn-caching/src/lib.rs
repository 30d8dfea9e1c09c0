//! Cache replacement policies, and a cache that runs one.
//!
//! | module | what it holds |
//! |---|---|
//! | [`policy`] | the trait [`Policy`] and the policies |
//! | [`cache`] | objects by key under a capacity and a policy |
//! | [`sketch`] | the frequency sketch of W-TinyLFU |
//!
//! The cargo feature `vip` adds the policies of VIP, which is patented in the United States (US 12155738 B2): of a
//! Content Store (`ObjectPolicy`), and of a simulated cache (`ScorePolicy`).
#![forbid(unsafe_code)]

pub mod cache;
mod ghosts;
mod heap;
pub mod policy;
mod queue;
pub mod sketch;

pub use cache::Cache;
pub use policy::{Capacity, Class, Object, ObjectScores, Policy, PolicyKind, Slot, Worth};
#[cfg(feature = "vip")]
pub use policy::{ObjectPolicy, Penalties, ScorePolicy, Scores};
