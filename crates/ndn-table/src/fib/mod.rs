//! Forwarding Information Base with strategy choice.
//!
//! | module | what it holds |
//! |---|---|
//! | `entry` | [`FibEntry`], [`NextHop`], [`StrategyId`], [`FibSlot`] |
//! | `config` | [`FibConfig`], [`FibError`] |
//! | `writer` | [`FibWriter`]: the control thread's records, and how changes become versions |
//! | `record` | what a prefix passes on to longer ones |
//! | `bucket_items` | changes of the hash table |
//! | `snapshot` | [`FibSnapshot`]: longest prefix match, alone and in bursts |
//! | `depth_tree` | which prefix lengths a search tries, and where it needs markers |
//! | `paged` | arrays whose versions share pages |
//!
//! Routes and strategy choices are one table of name prefixes. Each prefix that has either gets an
//! entry, and the writer fills in the other part from the longest prefix above that has it. One
//! search thus gives the next hops *and* the strategy of a name, also where the choice is for a
//! longer prefix than any route.
//!
//! A search tries at most five prefix lengths (six where prefixes of 32 components exist), and
//! only such as the name and the table have: one or two in practice, whatever the number of
//! entries. The hash buckets alone guide it; the names are compared once, at its end.

mod bucket_items;
mod config;
mod depth_tree;
mod entry;
mod paged;
mod record;
mod snapshot;
mod writer;

pub use config::{FibConfig, FibError};
pub use depth_tree::FIB_DEPTH_MAX;
pub use entry::{FibEntry, FibSlot, NextHop, StrategyId};
pub use snapshot::{FIB_BURST_MAX, FibSnapshot};
pub use writer::FibWriter;
