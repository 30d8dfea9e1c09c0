//! The memory of a connection.

use std::sync::Arc;

use ndn_sys::shared_memory::{OutOfRange, SharedMemory};

use crate::budget::Charge;

/// All regions, by their index.
#[derive(Debug, Clone)]
pub(crate) struct Regions(Arc<[Region]>);

/// One region, and its charge once the client is connected. The charge is dropped after the memory.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) memory: SharedMemory,
    pub(crate) charge: Option<Charge>,
}

impl Regions {
    pub(crate) fn new(regions: Vec<Region>) -> Self {
        Self(regions.into())
    }

    /// A region of this process.
    pub(crate) fn own(memory: SharedMemory) -> Self {
        Self::new(vec![Region { memory, charge: None }])
    }

    /// Bytes of all.
    #[cfg(test)]
    pub(crate) fn length(&self) -> u64 {
        self.0.iter().map(|region| region.memory.len() as u64).sum()
    }

    #[inline]
    pub(crate) fn region(&self, index: u16) -> Result<&SharedMemory, OutOfRange> {
        self.0.get(usize::from(index)).map(|region| &region.memory).ok_or(OutOfRange)
    }

    /// Prefetches the start of a buffer.
    #[inline]
    pub(crate) fn prefetch(&self, region: u16, offset: u32, to_write: bool) {
        if let (Ok(region), Ok(offset)) = (self.region(region), place(offset)) {
            region.prefetch(offset, to_write);
        }
    }

    #[inline]
    pub(crate) fn copy_out(
        &self,
        region: u16,
        offset: u32,
        buffer: &mut [u8],
    ) -> Result<(), OutOfRange> {
        self.region(region)?.copy_out(place(offset)?, buffer)
    }

    #[inline]
    pub(crate) fn copy_in(&self, region: u16, offset: u32, bytes: &[u8]) -> Result<(), OutOfRange> {
        self.region(region)?.copy_in(place(offset)?, bytes)
    }

    /// Whether `length` bytes lie at `offset` of `region`.
    #[inline]
    pub(crate) fn contain(&self, region: u16, offset: u32, length: u32) -> bool {
        let end = u64::from(offset) + u64::from(length);
        self.region(region).is_ok_and(|region| end <= region.len() as u64)
    }
}

#[inline]
fn place(offset: u32) -> Result<usize, OutOfRange> {
    usize::try_from(offset).map_err(|_| OutOfRange)
}
