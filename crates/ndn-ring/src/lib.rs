//! Packet buffers and the handles that travel instead of packets.
//!
//! | module | what it holds |
//! |---|---|
//! | [`handle`](PacketHandle) | the 8-byte name of one packet |
//! | [`pool`](PacketPool) | blocks of 64 KiB, reference counts, the free list |
//! | [`fill`](FillBlock) | the one writer of a block that is being received into |
//! | `home` | how a handle released on another thread finds its way back |
//! | `away` | references to a block of another pool, counted there many at a time |
//! | `directory` | which pool a handle belongs to, for the whole process |
//! | `memory`, [`pages`](PagePreference) | the address space behind a pool, and of what pages it is made |
//! | [`prefetch_read`], [`prefetch_slice`] | cache hints behind a safe function |
//! | [`ring()`] | a bounded queue from one thread to another |
//! | [`SleepFlag`] | when a thread that sleeps has to be woken |
//! | [`AesHasher`] | keyed hashes of all prefixes of a string |
//! | [`equal_lanes`] | sixteen bytes compared at once |
//! | [`advise_huge_pages`] | large pages for large tables |

mod aes_hash;
mod away;
mod directory;
mod fill;
mod handle;
mod home;
mod huge_pages;
mod lanes;
mod memory;
mod pages;
mod pool;
mod prefetch;
mod ring;
mod sleep;
mod sync;

#[cfg(all(test, loom))]
mod loom_ring_tests;
#[cfg(all(test, loom))]
mod loom_tests;

pub use aes_hash::{AES_HASHER_BLOCK, AES_HASHER_KEYS, AesHasher, Section};
pub use fill::FillBlock;
pub use handle::PacketHandle;
pub use huge_pages::advise_huge_pages;
pub use lanes::{LANES, equal_lanes};
pub use memory::BLOCK_SIZE;
pub use pages::{HUGE_PAGE_BYTES, PagePreference, PoolPages, free_huge_bytes};
pub use pool::{PacketPool, PoolCounters, PoolError};
pub use prefetch::{prefetch_read, prefetch_slice};
pub use ring::{Consumer, Producer, ring};
pub use sleep::SleepFlag;
