//! A block for copies of packets.

use crate::{BLOCK_SIZE, FillBlock, PacketHandle, PacketPool};

/// A block that packets are copied into one behind the other, replaced when it is full.
#[derive(Debug, Default)]
pub struct CopyBlock(Option<FillBlock>);

impl CopyBlock {
    /// The block, with room for at least `length` bytes; `None` if the pool has no free block or no block is so large.
    pub fn with_room(&mut self, length: usize, pool: &PacketPool) -> Option<&mut FillBlock> {
        if length > BLOCK_SIZE {
            return None;
        }
        if self.0.as_ref().is_none_or(|block| block.remaining() < length) {
            let fresh = pool.allocate_block()?;
            if let Some(used_up) = self.0.replace(fresh) {
                pool.finish(used_up);
            }
        }
        self.0.as_mut()
    }

    /// The block as it is, if there is one.
    pub fn current(&mut self) -> Option<&mut FillBlock> {
        self.0.as_mut()
    }

    /// Copies the parts of one packet; `None` if the pool has no free block or the packet is longer than one.
    pub fn copy<const N: usize>(
        &mut self,
        parts: [&[u8]; N],
        pool: &PacketPool,
    ) -> Option<PacketHandle> {
        let length = parts.iter().map(|part| part.len()).sum();
        let block = self.with_room(length, pool)?;
        let mut rest = block.spare_mut().get_mut(..length)?;
        for part in parts {
            let (front, back) = rest.split_at_mut(part.len());
            front.copy_from_slice(part);
            rest = back;
        }
        block.commit(length);
        Some(block.carve(length))
    }

    /// Gives the block back to its pool.
    pub fn release(&mut self, pool: &PacketPool) {
        self.0.take().into_iter().for_each(|block| pool.finish(block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_lie_in_one_block_until_it_is_full() {
        let pool = PacketPool::new(2).unwrap();
        let mut copies = CopyBlock::default();
        let first = copies.copy([b"ab", b"c"], &pool).unwrap();
        assert_eq!(pool.bytes(&first), b"abc");
        let large = vec![7; BLOCK_SIZE - 3];
        let second = copies.copy([&large], &pool).unwrap();
        assert_eq!(pool.counters().blocks_in_use(), 1);
        let third = copies.copy([b"d"], &pool).unwrap();
        assert_eq!((pool.bytes(&third), pool.counters().blocks_in_use()), (&b"d"[..], 2));
        assert!(copies.copy([&large, b"more"], &pool).is_none(), "longer than a block");
        [first, second, third].into_iter().for_each(|handle| pool.release(handle));
        copies.release(&pool);
        assert_eq!(pool.counters().blocks_in_use(), 0);
    }
}
