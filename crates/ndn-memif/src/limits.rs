//! Limits of a connection.

/// Rings of each direction.
pub(crate) const RINGS_MAX: u16 = 8;
/// Regions of shared memory.
pub(crate) const REGIONS_MAX: u16 = 16;
/// Bytes of all regions together.
pub(crate) const MEMORY_MAX: u64 = 1 << 30;
/// Largest ring, as the binary logarithm of its descriptors (that of libmemif and DPDK).
pub(crate) const LOG2_RING_SIZE_MAX: u8 = 14;
/// Default size of rings (that of DPDK and NDN-DPDK).
pub(crate) const LOG2_RING_SIZE_DEFAULT: u8 = 10;
/// Size of rings of long buffers: buffers of two rings, which are filled in turn, should fit the cache
/// (bench/notebook/README.md).
const LOG2_RING_SIZE_LONG: u8 = 8;
/// Minimum, maximum and default bytes of a buffer (those of NDN-DPDK).
pub const BUFFER_LENGTH_MIN: u32 = 512;
/// See [`BUFFER_LENGTH_MIN`].
pub const BUFFER_LENGTH_MAX: u32 = 65_535;
/// See [`BUFFER_LENGTH_MIN`].
pub(crate) const BUFFER_LENGTH_DEFAULT: u32 = 2048;
/// Bytes of a buffer between two instances of this program: every packet fits one.
pub(crate) const BUFFER_LENGTH_OWN: u32 = 9216;
/// Distance of prefetching, in frames.
pub(crate) const AHEAD: u16 = 6;
/// Maximum buffers of a sent frame.
pub(crate) const CHAIN_MAX: usize = CHAIN_MAX_PIECES as usize;
/// See [`CHAIN_MAX`].
pub(crate) const CHAIN_MAX_PIECES: u32 = 32;
// The longest packet fits the shortest buffers.
const _: () = assert!(CHAIN_MAX_PIECES * BUFFER_LENGTH_MIN >= BUFFER_LENGTH_OWN);
/// Maximum buffers of a received frame: those of the longest frame in the shortest buffers. It bounds the work for
/// each frame.
pub(crate) const CHAIN_RECEIVED_MAX: usize = (BUFFER_LENGTH_MAX / BUFFER_LENGTH_MIN) as usize + 1;

/// Size of rings whose buffers have this length, as the binary logarithm of descriptors.
pub(crate) const fn log2_ring_size(buffer_length: u32) -> u8 {
    if buffer_length < BUFFER_LENGTH_OWN { LOG2_RING_SIZE_DEFAULT } else { LOG2_RING_SIZE_LONG }
}
