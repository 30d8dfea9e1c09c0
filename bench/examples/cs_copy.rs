//! What it takes to keep a Data in a Content Store: to copy it out of its receive buffer, which is used again
//! at once, or to retain the buffer, so that what comes next is received into another one, which no cache
//! holds. `cs_copy [packets in the store]` prints nanoseconds and resident memory per packet, by size and by
//! how many packets share a block; the kernel's copy into the buffer is one of each packet's in both cases.

use std::collections::VecDeque;
use std::hint::black_box;

use anyhow::Context;
use ndn_ring::{
    BLOCK_SIZE, FillBlock, PacketHandle, PacketPool, PagePreference, advise_huge_pages,
};

/// Blocks that a worker turns over while it copies.
const BLOCKS_IN_TURN: u32 = 16;
/// Where packets come from: read in turn, larger than a first-level cache, as a socket buffer is.
const SOURCE_BYTES: usize = 1 << 20;
const ROUNDS: usize = 7;

/// Something that keeps the packets that came last.
trait Store {
    fn keep(&mut self, pool: &PacketPool, packet: PacketHandle);
}

/// In slots of its own, one after the other.
struct Copies {
    bytes: Vec<u8>,
    slot: usize,
    next: usize,
}

impl Store for Copies {
    fn keep(&mut self, pool: &PacketPool, packet: PacketHandle) {
        let length = packet.len();
        self.bytes[self.next..self.next + length].copy_from_slice(pool.bytes(&packet));
        self.next += self.slot;
        if self.next + self.slot > self.bytes.len() {
            self.next = 0;
        }
        pool.release(packet);
    }
}

/// Where they are.
struct Retained {
    packets: VecDeque<PacketHandle>,
    capacity: usize,
}

impl Store for Retained {
    fn keep(&mut self, pool: &PacketPool, packet: PacketHandle) {
        if self.packets.len() == self.capacity
            && let Some(oldest) = self.packets.pop_front()
        {
            pool.release(oldest);
        }
        self.packets.push_back(packet);
    }
}

/// Receives `count` packets, `per_block` into each block, and keeps them.
fn receive(
    pool: &PacketPool,
    source: &[u8],
    (size, per_block): (usize, usize),
    count: usize,
    store: &mut impl Store,
) -> anyhow::Result<()> {
    let mut block: Option<FillBlock> = None;
    let mut in_block = 0;
    let mut from = 0;
    for _ in 0..count {
        if in_block == per_block {
            block.take().into_iter().for_each(|full| pool.finish(full));
            in_block = 0;
        }
        if block.is_none() {
            block = Some(pool.allocate_block().context("a block")?);
        }
        let Some(filling) = block.as_mut() else { continue };
        filling.spare_mut()[..size].copy_from_slice(&source[from..from + size]);
        filling.commit(size);
        from = if from + 2 * size > source.len() { 0 } else { from + size };
        let packet = filling.carve(size);
        // Whatever is kept was parsed before.
        black_box(pool.bytes(&packet)[0]);
        store.keep(pool, packet);
        in_block += 1;
    }
    block.into_iter().for_each(|last| pool.finish(last));
    Ok(())
}

/// Median of the nanoseconds per packet, once the store is full.
fn measure(
    pool: &PacketPool,
    shape: (usize, usize),
    count: usize,
    store: &mut impl Store,
) -> anyhow::Result<f64> {
    let source = vec![7_u8; SOURCE_BYTES];
    receive(pool, &source, shape, 2 * count, store)?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begin = ndn_sys::clock::now();
        receive(pool, &source, shape, count, store)?;
        #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
        times.push((ndn_sys::clock::now() - begin) as f64 / count as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}

#[expect(clippy::print_stdout, reason = "the output of the example")]
fn main() -> anyhow::Result<()> {
    let count: usize = std::env::args().nth(1).map_or(Ok(65_536), |text| text.parse())?;
    println!("size  per block  copied: ns  bytes  retained: ns  bytes");
    for size in [100, 1200, 8000] {
        let full = BLOCK_SIZE / size;
        for per_block in [full, full / 4, 1] {
            let slot = size.next_multiple_of(64);
            let copied = {
                let pool = PacketPool::with_pages(BLOCKS_IN_TURN, PagePreference::Best, 0)?;
                let mut bytes: Vec<u8> = Vec::with_capacity(slot * count);
                advise_huge_pages(bytes.spare_capacity_mut());
                bytes.resize(slot * count, 0);
                measure(&pool, (size, per_block), count, &mut Copies { bytes, slot, next: 0 })?
            };
            let blocks = u32::try_from(count.div_ceil(per_block))? + BLOCKS_IN_TURN;
            let pool = PacketPool::with_pages(blocks, PagePreference::Best, 0)?;
            let mut store = Retained { packets: VecDeque::with_capacity(count), capacity: count };
            let retained = measure(&pool, (size, per_block), count, &mut store)?;
            let bytes = pool.counters().blocks_in_use() as usize * BLOCK_SIZE / count;
            store.packets.drain(..).for_each(|packet| pool.release(packet));
            println!(
                "{size:4}  {per_block:9}  {copied:10.0}  {slot:5}  {retained:12.0}  {bytes:5}"
            );
        }
    }
    Ok(())
}
