//! Packet buffers, handles, and rings between threads.
//!
//! | module | what it holds |
//! |---|---|
//! | [`handle`](PacketHandle) | the 8-byte handle of one packet, and the directory of all pools |
//! | [`pool`](PacketPool) | blocks of 64 KiB, reference counts, the free list |
//! | [`fill`](FillBlock) | the single writer of a block that is being received into |
//! | `return_list` | references released on other threads |
//! | `remote_references` | cached references to blocks of other pools |
//! | `memory`, [`pages`](PagePreference) | the address space of a pool and its page sizes |
//! | [`prefetch_read`], [`prefetch_slice`] | cache hints behind a safe function |
//! | [`copy_past_caches`] | a copy of bytes that are not read soon |
//! | [`ring()`] | a bounded queue from one thread to another |
//! | [`SleepFlag`] | whether a sleeping thread must be woken |
//! | [`AesHasher`] | keyed hashes of all prefixes of a string |
//! | [`equal_lanes`] | comparison of sixteen bytes at once |
//! | [`advise_huge_pages`] | huge pages for large tables |
#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux uses all of it"))]

mod aes_hash;
mod copy_block;
mod fill;
mod handle;
mod huge_pages;
mod lanes;
mod memory;
mod pages;
mod pool;
mod prefetch;
mod remote_references;
mod return_list;
mod ring;
mod sleep;
mod streaming_copy;
mod sync;

#[cfg(all(test, loom))]
mod loom_ring_tests;
#[cfg(all(test, loom))]
mod loom_tests;

pub use aes_hash::{AesHasher, Section, Sections};
pub use copy_block::CopyBlock;
pub use fill::FillBlock;
pub use handle::{POOLS_MAX, PacketHandle};
pub use huge_pages::advise_huge_pages;
pub use lanes::{LANES, equal_lanes};
pub use memory::BLOCK_SIZE;
pub use pages::{HUGE_PAGE_BYTES, PagePreference, PoolPages, free_huge_bytes};
pub use pool::{PacketPool, PoolCounters, PoolError, PoolValues};
pub use prefetch::{prefetch_read, prefetch_slice};
pub use ring::{Consumer, FreeSlot, Producer, ring};
pub use sleep::SleepFlag;
pub use streaming_copy::{STREAMS, copy_past_caches};
