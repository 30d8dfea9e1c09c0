//! Name dispatch table: which shard a name belongs to.
//!
//! Shared by all workers. The control thread alone changes it; workers read it once per packet,
//! with ordinary loads: nothing orders a change against packets, and nothing has to, because for
//! a while after a change both shards are visited ([`NdtRoute::previous`]).

mod dispatch_name;

use std::sync::atomic::{AtomicU32, Ordering};

pub use dispatch_name::dispatch_components;

/// Entries of the table.
pub const NDT_ENTRIES: usize = 1 << 16;

/// Shards at most: a set of them fits one word.
pub const SHARDS_MAX: usize = 64;

/// Where a name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdtRoute {
    /// The shard that the name belongs to.
    pub shard: u8,
    /// The shard that it belonged to until lately, and that is visited first as long as it
    /// differs from `shard`.
    pub previous: u8,
    /// The name is shorter than those below it are dispatched by: with CanBePrefix, it can match
    /// Data that belong to other shards.
    pub is_short: bool,
}

/// One entry in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Entry {
    shard: u8,
    previous: u8,
    /// Components that names of this entry are dispatched by, if more than the table's depth.
    depth: u8,
    /// What is below was dispatched by the table's depth until lately.
    is_splitting: bool,
}

impl Entry {
    fn unpack(word: u32) -> Self {
        let [shard, previous, depth, is_splitting] = word.to_le_bytes();
        Self { shard, previous, depth, is_splitting: is_splitting != 0 }
    }

    fn pack(self) -> u32 {
        u32::from_le_bytes([self.shard, self.previous, self.depth, u8::from(self.is_splitting)])
    }
}

/// Why the table was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdtError {
    /// There is no such shard.
    NoSuchShard,
    /// There is no such entry.
    NoSuchEntry,
    /// A change of the entry, or of what it would be split into, has not settled.
    Unsettled,
    /// A split has to go deeper than the table, and at most to the longest name.
    Depth,
}

/// The table: 65,536 words.
///
/// The entry of a name is found by the keyed hash of its first `depth` components, or of all of
/// them if it has fewer (without implicit digests at its end, see [`dispatch_components`]). An
/// entry that was split sends longer names on to the entry of a longer prefix.
#[derive(Debug)]
pub struct Ndt {
    entries: Box<[AtomicU32]>,
    depth: u8,
    shard_count: u8,
}

impl Ndt {
    /// A table over `shard_count` shards in turn, by the first `depth` components.
    ///
    /// # Panics
    /// If there are no shards or more than [`SHARDS_MAX`], or `depth` is 0 or beyond any name.
    #[must_use]
    pub fn new(shard_count: usize, depth: usize) -> Self {
        assert!((1..=SHARDS_MAX).contains(&shard_count), "1 to {SHARDS_MAX} shards");
        assert!((1..=crate::NAME_COMPONENTS_MAX).contains(&depth), "a depth that names have");
        let entry = |index: usize| {
            let shard = u8::try_from(index % shard_count).unwrap_or(0);
            AtomicU32::new(Entry { shard, previous: shard, ..Entry::default() }.pack())
        };
        Self {
            entries: (0..NDT_ENTRIES).map(entry).collect(),
            depth: u8::try_from(depth).unwrap_or(u8::MAX),
            shard_count: u8::try_from(shard_count).unwrap_or(u8::MAX),
        }
    }

    /// Shards that names are spread over.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        usize::from(self.shard_count)
    }

    /// Components that a name is dispatched by, unless its entry was split.
    #[must_use]
    pub fn depth(&self) -> usize {
        usize::from(self.depth)
    }

    /// Where the name leads that has these prefix hashes, of which the first `components`
    /// components count: see [`dispatch_components`].
    #[inline]
    #[must_use]
    pub fn find(&self, hashes: &[u64], components: usize) -> NdtRoute {
        let depth = self.depth().min(components);
        let entry = self.entry(index_of(hashes[depth]));
        if usize::from(entry.depth) <= depth {
            let is_short = components < self.depth();
            return NdtRoute { shard: entry.shard, previous: entry.previous, is_short };
        }
        self.find_split(entry, hashes, components)
    }

    /// The index of the entry that counts the load of a name: of the first entry on its way.
    #[inline]
    #[must_use]
    pub fn entry_index(&self, hashes: &[u64], components: usize) -> usize {
        index_of(hashes[self.depth().min(components)])
    }

    #[cold]
    fn find_split(&self, first: Entry, hashes: &[u64], components: usize) -> NdtRoute {
        let depth = usize::from(first.depth);
        let second = self.entry(index_of(hashes[depth.min(components)]));
        let previous = if first.is_splitting { first.shard } else { second.previous };
        NdtRoute { shard: second.shard, previous, is_short: components < depth }
    }

    /// Shard, previous shard and depth of an entry; the depth is 0 unless it was split.
    #[must_use]
    pub fn entry_parts(&self, index: usize) -> Option<(u8, u8, u8)> {
        let word = self.entries.get(index)?.load(Ordering::Relaxed);
        let entry = Entry::unpack(word);
        Some((entry.shard, entry.previous, entry.depth))
    }

    /// Gives an entry to another shard. The shard that had it is visited first until
    /// [`settle`](Self::settle).
    ///
    /// # Errors
    /// See [`NdtError`]; nothing is changed then.
    pub fn move_entry(&self, index: usize, shard: u8) -> Result<(), NdtError> {
        if shard >= self.shard_count {
            return Err(NdtError::NoSuchShard);
        }
        let entry = self.checked(index)?;
        let previous = entry.shard;
        self.store(index, Entry { shard, previous, ..entry });
        Ok(())
    }

    /// Dispatches the names of an entry by their first `depth` components from now on. The shard
    /// that has the entry is visited first until [`settle`](Self::settle). No other change may be
    /// unsettled, since longer names may lead to any entry.
    ///
    /// # Errors
    /// See [`NdtError`]; nothing is changed then.
    pub fn split_entry(&self, index: usize, depth: usize) -> Result<(), NdtError> {
        if depth <= self.depth() || depth > crate::NAME_COMPONENTS_MAX {
            return Err(NdtError::Depth);
        }
        let entry = self.checked(index)?;
        if entry.depth != 0 {
            return Err(NdtError::Depth);
        }
        if (0..NDT_ENTRIES).any(|other| self.entry(other).is_moving()) {
            return Err(NdtError::Unsettled);
        }
        let depth = u8::try_from(depth).map_err(|_| NdtError::Depth)?;
        self.store(index, Entry { depth, is_splitting: true, ..entry });
        Ok(())
    }

    /// Ends the time in which the previous shard of an entry is visited: nothing that is pending
    /// there is of interest any more. Says whether there was any such time.
    pub fn settle(&self, index: usize) -> bool {
        let Some(word) = self.entries.get(index) else { return false };
        let entry = Entry::unpack(word.load(Ordering::Relaxed));
        let settled = Entry { previous: entry.shard, is_splitting: false, ..entry };
        self.store(index, settled);
        settled != entry
    }

    fn checked(&self, index: usize) -> Result<Entry, NdtError> {
        let word = self.entries.get(index).ok_or(NdtError::NoSuchEntry)?;
        let entry = Entry::unpack(word.load(Ordering::Relaxed));
        if entry.is_moving() { Err(NdtError::Unsettled) } else { Ok(entry) }
    }

    #[inline]
    fn entry(&self, index: usize) -> Entry {
        Entry::unpack(self.entries[index].load(Ordering::Relaxed))
    }

    fn store(&self, index: usize, entry: Entry) {
        self.entries[index].store(entry.pack(), Ordering::Relaxed);
    }
}

impl Entry {
    fn is_moving(self) -> bool {
        self.shard != self.previous || self.is_splitting
    }
}

/// The entry of a hash. These bits say nothing about the buckets of a shard's tables.
#[inline]
fn index_of(hash: u64) -> usize {
    (hash >> 24) as usize & (NDT_ENTRIES - 1)
}

#[cfg(test)]
mod tests;
