//! Name dispatch table: which shard a name belongs to.
//!
//! Shared by all workers. The control thread alone changes it; workers read it once per packet,
//! with ordinary loads: nothing orders a change against packets, and nothing has to, because for
//! a while after a change both shards are visited ([`NdtRoute::previous`]).

mod dispatch_name;
mod split;

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use ndn_packet::NameRef;
use ndn_ring::prefetch_slice;

use dispatch_name::dispatch_components;

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
    /// The entry that says so.
    pub entry: u16,
}

/// In place of its shard, for an entry of which there is more to know.
const UNSETTLED: u8 = u8::MAX;

const _: () = assert!(SHARDS_MAX <= UNSETTLED as usize);

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

/// One entry, for people and for balancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdtEntry {
    /// Its shard.
    pub shard: u8,
    /// The shard before; the same if the entry is settled.
    pub previous: u8,
    /// Components that its names are dispatched by if it was split, else 0.
    pub depth: u8,
    /// Nothing of the entry is on its way from shard to shard.
    pub is_settled: bool,
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

impl std::fmt::Display for NdtError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoSuchShard => "there is no such worker",
            Self::NoSuchEntry => "there is no such entry",
            Self::Unsettled => "an earlier change has not settled yet",
            Self::Depth => "it cannot be split at that depth",
        })
    }
}

impl std::error::Error for NdtError {}

/// The table: 65,536 words, and beside each the byte that says nearly always all that there is to know. It
/// is read for each packet: the bytes are 16 pages, the words are 64, more than a busy worker has in the
/// translation cache of its processor.
///
/// The entry of a name is found by the keyed hash of its first `depth` components, or of all of
/// them if it has fewer (without implicit digests at its end, see `dispatch_name`). An
/// entry that was split sends longer names on to the entry of a longer prefix.
#[derive(Debug)]
pub struct Ndt {
    entries: Box<[AtomicU32; NDT_ENTRIES]>,
    /// Shards of settled entries that were not split; [`UNSETTLED`] for the others.
    settled: Box<[AtomicU8; NDT_ENTRIES]>,
    depth: u8,
    shard_count: u8,
    /// The shards that have names.
    members: Box<[u8]>,
    /// Entries that are being split.
    splitting: AtomicU32,
}

impl Ndt {
    /// A table over `shard_count` shards in turn, by the first `depth` components.
    ///
    /// # Panics
    /// If there are no shards or more than [`SHARDS_MAX`], or `depth` is 0 or beyond any name.
    #[must_use]
    pub fn new(shard_count: usize, depth: usize) -> Self {
        assert!((1..=SHARDS_MAX).contains(&shard_count), "1 to {SHARDS_MAX} shards");
        let all: Vec<u8> = (0..=u8::MAX).take(shard_count).collect();
        Self::over(shard_count, &all, depth)
    }

    /// A table for `shard_count` shards of which only `members` have names.
    ///
    /// # Panics
    /// As [`Self::new`], and if there are no members or one that is no shard.
    #[must_use]
    pub fn over(shard_count: usize, members: &[u8], depth: usize) -> Self {
        assert!((1..=SHARDS_MAX).contains(&shard_count), "1 to {SHARDS_MAX} shards");
        let is_shard = |member: &u8| usize::from(*member) < shard_count;
        assert!(!members.is_empty() && members.iter().all(is_shard), "members are shards");
        assert!((1..=crate::NAME_COMPONENTS_MAX).contains(&depth), "a depth that names have");
        let entry = |index: usize| {
            let shard = members[index % members.len()];
            Entry { shard, previous: shard, ..Entry::default() }
        };
        Self {
            entries: boxed(|index| AtomicU32::new(entry(index).pack())),
            settled: boxed(|index| AtomicU8::new(entry(index).settled())),
            depth: u8::try_from(depth).unwrap_or(u8::MAX),
            shard_count: u8::try_from(shard_count).unwrap_or(u8::MAX),
            members: members.into(),
            splitting: AtomicU32::new(0),
        }
    }

    /// The shards that have names.
    #[must_use]
    pub fn members(&self) -> &[u8] {
        &self.members
    }

    /// All shards.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        usize::from(self.shard_count)
    }

    /// Components that a name is dispatched by, unless its entry was split.
    #[must_use]
    pub fn depth(&self) -> usize {
        usize::from(self.depth)
    }

    /// Fetches from memory what [`find_settled`](Self::find_settled) reads for a name whose first
    /// [`depth`](Self::depth) components have this hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch_slice(&self.settled[..], usize::from(index_of(hash)));
    }

    /// Where names lead whose first [`depth`](Self::depth) components have this hash, and that do not
    /// end in an implicit digest: their shard and their entry. `None` if that is not all that there is to
    /// know: ask [`find`](Self::find).
    #[inline]
    #[must_use]
    pub fn find_settled(&self, hash: u64) -> Option<(u8, u16)> {
        let index = index_of(hash);
        let shard = self.settled[usize::from(index)].load(Ordering::Relaxed);
        (shard != UNSETTLED).then_some((shard, index))
    }

    /// Where a name leads. `hashes` are its prefix hashes.
    #[inline]
    #[must_use]
    pub fn find(&self, name: NameRef<'_>, hashes: &[u64]) -> NdtRoute {
        let components = dispatch_components(name);
        let depth = self.depth().min(components);
        let index = index_of(hashes[depth]);
        let entry = self.entry(usize::from(index));
        if usize::from(entry.depth) <= depth {
            let is_short = components < self.depth();
            return NdtRoute {
                shard: entry.shard,
                previous: entry.previous,
                is_short,
                entry: index,
            };
        }
        self.find_split(entry, name, hashes, components)
    }

    #[cold]
    fn find_split(
        &self,
        first: Entry,
        name: NameRef<'_>,
        hashes: &[u64],
        components: usize,
    ) -> NdtRoute {
        let depth = usize::from(first.depth);
        let index = index_of(split::hash(name, hashes, depth.min(components)));
        let second = self.entry(usize::from(index));
        let previous = if first.is_splitting { first.shard } else { second.previous };
        NdtRoute { shard: second.shard, previous, is_short: components < depth, entry: index }
    }

    /// The entry of a name as if nothing had been split: the one to split.
    #[must_use]
    pub fn first_entry(&self, name: NameRef<'_>, hashes: &[u64]) -> usize {
        usize::from(index_of(hashes[self.depth().min(dispatch_components(name))]))
    }

    /// What an entry says; `None` if there is no such entry.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<NdtEntry> {
        let entry = Entry::unpack(self.entries.get(index)?.load(Ordering::Relaxed));
        let Entry { shard, previous, depth, .. } = entry;
        Some(NdtEntry { shard, previous, depth, is_settled: !entry.is_moving() })
    }

    /// Gives an entry to another shard. The shard that had it is visited first until
    /// [`settle`](Self::settle). No split may be unsettled, since it says itself which shard is
    /// visited first.
    ///
    /// # Errors
    /// See [`NdtError`]; nothing is changed then.
    pub fn move_entry(&self, index: usize, shard: u8) -> Result<(), NdtError> {
        if !self.members.contains(&shard) {
            return Err(NdtError::NoSuchShard);
        }
        let entry = self.checked(index)?;
        if self.splitting.load(Ordering::Relaxed) != 0 {
            return Err(NdtError::Unsettled);
        }
        let previous = entry.shard;
        self.store(index, Entry { shard, previous, ..entry });
        Ok(())
    }

    /// Dispatches the names of an entry by their first `depth` components from now on. The shard
    /// that has the entry is visited first until [`settle`](Self::settle). No move may be
    /// unsettled, since longer names may lead to any entry, and only one shard can be first.
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
        let moves = |entry: Entry| entry.shard != entry.previous;
        if (0..NDT_ENTRIES).any(|other| moves(self.entry(other))) {
            return Err(NdtError::Unsettled);
        }
        let depth = u8::try_from(depth).map_err(|_| NdtError::Depth)?;
        self.splitting.fetch_add(1, Ordering::Relaxed);
        self.store(index, Entry { depth, is_splitting: true, ..entry });
        Ok(())
    }

    /// Ends the time in which the previous shard of an entry is visited: nothing that is pending
    /// there is of interest any more. Says whether there was any such time.
    pub fn settle(&self, index: usize) -> bool {
        let Some(word) = self.entries.get(index) else { return false };
        let entry = Entry::unpack(word.load(Ordering::Relaxed));
        let settled = Entry { previous: entry.shard, is_splitting: false, ..entry };
        if entry.is_splitting {
            self.splitting.fetch_sub(1, Ordering::Relaxed);
        }
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
        self.settled[index].store(entry.settled(), Ordering::Relaxed);
    }
}

impl Entry {
    fn is_moving(self) -> bool {
        self.shard != self.previous || self.is_splitting
    }

    /// The shard, if that is all.
    fn settled(self) -> u8 {
        if self.is_moving() || self.depth != 0 { UNSETTLED } else { self.shard }
    }
}

/// All entries.
fn boxed<T: std::fmt::Debug>(entry: impl Fn(usize) -> T) -> Box<[T; NDT_ENTRIES]> {
    let entries: Box<[T]> = (0..NDT_ENTRIES).map(entry).collect();
    entries.try_into().unwrap_or_else(|_| unreachable!("so many were made"))
}

/// The entry of a hash, from bits that choose neither a bucket of a shard's tables (the lower 32) nor
/// a tag there (the highest 8): with any of them a shard would use a part of its tables only.
#[inline]
fn index_of(hash: u64) -> u16 {
    let [_, _, _, _, low, high, ..] = hash.to_le_bytes();
    u16::from_le_bytes([low, high])
}

const _: () = assert!(NDT_ENTRIES == 1 << u16::BITS);

#[cfg(test)]
mod tests;
