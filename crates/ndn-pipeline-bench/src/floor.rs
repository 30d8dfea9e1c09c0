//! The least that any forwarder has to do for an exchange on this machine.
//!
//! For each exchange of one Interest and one Data: copy both packets, the Data into a rotating
//! store as large as the Content Store; hash both names once with SipHash-1-3; and read six
//! random cache lines, prefetched, over arrays as large as the tables of the forwarder. Nothing is parsed,
//! looked up or decided. This file is the yardstick of `bench pipeline`: its code is not to be
//! changed together with the forwarder's.

use std::hash::Hasher;

use ndn_ring::{advise_huge_pages, prefetch_slice};
use siphasher::sip::SipHasher13;

/// Random cache lines per exchange.
pub(crate) const LINES_PER_EXCHANGE: usize = 6;

/// Exchanges whose lines are asked for before the first is used.
pub(crate) const BATCH: usize = 32;

/// Where copies of Interests go: a buffer that stays in the cache, as an output buffer does.
const OUTPUT_BYTES: usize = 256 * 1024;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

/// The packets of one exchange, and where their names lie in them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange<'a> {
    pub(crate) interest: &'a [u8],
    pub(crate) interest_name: &'a [u8],
    pub(crate) data: &'a [u8],
    pub(crate) data_name: &'a [u8],
}

pub(crate) struct Floor {
    tables: [Vec<Line>; LINES_PER_EXCHANGE],
    store: Vec<u8>,
    slot_bytes: usize,
    next_slot: usize,
    output: Vec<u8>,
    output_position: usize,
}

impl Floor {
    /// Arrays of `table_bytes`, and a store of `slots` Data of at most `data_bytes`. Every page is
    /// touched here.
    pub(crate) fn new(
        table_bytes: [usize; LINES_PER_EXCHANGE],
        slots: usize,
        data_bytes: usize,
    ) -> Self {
        let slot_bytes = data_bytes.next_multiple_of(64);
        Self {
            tables: table_bytes.map(|bytes| filled(Line([1; 8]), bytes / size_of::<Line>())),
            store: filled(1, slots * slot_bytes),
            slot_bytes,
            next_slot: 0,
            output: vec![1; OUTPUT_BYTES],
            output_position: 0,
        }
    }

    /// Does the least for up to [`BATCH`] exchanges. The result depends on everything that was
    /// read, so that nothing is left out.
    pub(crate) fn run(&mut self, exchanges: &[Exchange<'_>]) -> u64 {
        let mut places = [[0; LINES_PER_EXCHANGE]; BATCH];
        for (exchange, places) in exchanges.iter().zip(&mut places) {
            let mut random = hash(exchange.interest_name) ^ hash(exchange.data_name).rotate_left(1);
            for (table, place) in self.tables.iter().zip(places) {
                random = random.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
                *place = scale(random, table.len());
                prefetch_slice(table, *place);
            }
        }
        let mut sum = 0_u64;
        for (exchange, places) in exchanges.iter().zip(&places) {
            for (table, &place) in self.tables.iter().zip(places) {
                sum = sum.wrapping_add(table[place].0[0]);
            }
            self.copy_to_output(exchange.interest);
            self.copy_to_store(exchange.data);
        }
        sum
    }

    fn copy_to_output(&mut self, packet: &[u8]) {
        if self.output_position + packet.len() > self.output.len() {
            self.output_position = 0;
        }
        let end = self.output_position + packet.len();
        self.output[self.output_position..end].copy_from_slice(packet);
        self.output_position = end;
    }

    fn copy_to_store(&mut self, packet: &[u8]) {
        let start = self.next_slot * self.slot_bytes;
        self.store[start..start + packet.len()].copy_from_slice(packet);
        self.next_slot += 1;
        if (self.next_slot + 1) * self.slot_bytes > self.store.len() {
            self.next_slot = 0;
        }
    }
}

/// Memory as the tables have it, in huge pages where the kernel gives them; all of it touched.
fn filled<T: Clone>(value: T, count: usize) -> Vec<T> {
    let mut memory = Vec::with_capacity(count);
    advise_huge_pages(memory.spare_capacity_mut());
    memory.resize(count, value);
    memory
}

/// `random` as an index below `length`, without a division.
fn scale(random: u64, length: usize) -> usize {
    let scaled = (u128::from(random) * length as u128) >> 64;
    usize::try_from(scaled).unwrap_or(0)
}

fn hash(name: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(1, 2);
    hasher.write(name);
    hasher.finish()
}
