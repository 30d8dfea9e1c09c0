//! Forwarding Information Base with strategy choice.
//!
//! | module | what it holds |
//! |---|---|
//! | `entry` | [`FibEntry`], [`NextHop`], [`StrategyId`], [`FibSlot`] |
//! | `writer` | [`FibConfig`], [`FibError`], [`FibWriter`]: the control thread's records and how changes become versions |
//! | `snapshot` | [`FibSnapshot`]: longest prefix match, alone and in bursts |
//! | `depth_tree` | order of prefix lengths in a search, and where it needs markers |
//! | `paged` | arrays whose versions share pages |
//!
//! Routes and strategy choices are one table of name prefixes. A prefix with either has an entry,
//! and the writer fills in the other from the longest shorter prefix that sets it. One search thus
//! returns both the next hops *and* the strategy of a name, also where the strategy choice has a
//! longer prefix than any route.
//!
//! A search tries at most five prefix lengths (six where prefixes of 32 components exist), limited
//! to lengths that both the name and the table have: one or two in practice, whatever the number of
//! entries. The search reads hash buckets only; names are compared once, at its end.

mod depth_tree;
mod entry;
mod paged;
mod snapshot;
mod writer;

pub use entry::{FibEntry, FibSlot, NextHop, StrategyId};
pub use snapshot::{FibSearch, FibSnapshot};
pub use writer::{FibConfig, FibError, FibWriter};
