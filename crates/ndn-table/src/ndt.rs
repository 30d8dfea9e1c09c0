//! Name dispatch table (NDT): maps names to shards.
//!
//! Shared by all workers. Only the control thread changes it; workers read it once per packet, with
//! relaxed loads. Changes need no ordering against packets, because for a while after a change both
//! shards are visited ([`NdtRoute::previous`]).

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use ndn_packet::NameRef;
use ndn_ring::prefetch_slice;

use crate::name_hash::{DIGEST_COMPONENT_LENGTH, component_end};

/// Entries of the table.
pub const NDT_ENTRIES: usize = 1 << 16;

/// Maximum number of shards: a set of shards fits one word.
pub const SHARDS_MAX: usize = 64;

/// Result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdtRoute {
    /// The shard that owns the name.
    pub shard: u8,
    /// The previous owner, visited first while it differs from `shard`.
    pub previous: u8,
    /// The name is shorter than the dispatch depth below it: with CanBePrefix, it can match Data
    /// that belong to other shards.
    pub is_short_name: bool,
    /// The table entry used.
    pub entry: u16,
}

/// The owners of entries, as far as one hash determines them.
#[derive(Clone, Copy, Debug)]
pub struct SettledEntries<'a>(&'a [AtomicU8; NDT_ENTRIES]);

impl SettledEntries<'_> {
    /// The shard of names whose first [`depth`](Ndt::depth) components have this hash and that do not end in an implicit digest;
    /// [`UNSETTLED`] if they need a full lookup by [`Ndt::find`].
    #[inline(always)]
    #[must_use]
    pub fn owner(self, hash: u64) -> u8 {
        self.0[usize::from(index_of(hash))].load(Ordering::Relaxed)
    }

    /// The entry of these names.
    #[inline(always)]
    #[must_use]
    pub fn entry(self, hash: u64) -> u16 {
        index_of(hash)
    }
}

/// Stored instead of a shard for an entry that needs a full lookup.
pub const UNSETTLED: u8 = u8::MAX;

const _: () = assert!(SHARDS_MAX <= UNSETTLED as usize);

/// Segments that stay together, as a power of two: a run is read from one upstream and cached in
/// one shard.
const RUN_BITS: u32 = 6;

/// One entry in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Entry {
    shard: u8,
    previous: u8,
    /// Dispatch depth of this entry's names, if greater than the table's depth.
    depth: u8,
    /// Longer names were dispatched by the table's depth until recently.
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

/// One entry, for display and for load balancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdtEntry {
    /// The owner shard.
    pub shard: u8,
    /// The previous owner; equal to `shard` if the entry is settled.
    pub previous: u8,
    /// Dispatch depth of its names if the entry was split, else 0.
    pub depth: u8,
    /// No move or split of the entry is in progress.
    pub is_settled: bool,
}

/// Why a change of the table was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdtError {
    /// There is no such shard.
    NoSuchShard,
    /// There is no such entry.
    NoSuchEntry,
    /// A change of the entry, or of an entry it would be split into, has not settled.
    Unsettled,
    /// The depth of a split must be greater than the table's and within the longest name.
    Depth,
}

impl std::fmt::Display for NdtError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoSuchShard => "there is no such worker",
            Self::NoSuchEntry => "there is no such entry",
            Self::Unsettled => "the previous change has not settled yet",
            Self::Depth => "the entry cannot be split at that depth",
        })
    }
}

impl std::error::Error for NdtError {}

/// The table: 65,536 words, and beside each a byte that suffices for almost every lookup. It is
/// read for each packet: the bytes take 16 pages, the words 64, more than the TLB of a busy worker
/// holds.
///
/// The entry of a name is selected by the keyed hash of its first `depth` components, or of all of
/// them if it has fewer (without trailing implicit digests). An entry that was split redirects
/// longer names to the entry of a longer prefix.
#[derive(Debug)]
pub struct Ndt {
    entries: Box<[AtomicU32; NDT_ENTRIES]>,
    /// Shards of settled entries that are not split; [`UNSETTLED`] for the others.
    settled: Box<[AtomicU8; NDT_ENTRIES]>,
    depth: u8,
    shard_count: u8,
    /// The shards that own names.
    members: Box<[u8]>,
    /// Number of splits in progress.
    splitting: AtomicU32,
}

impl Ndt {
    /// A table whose entries are assigned to `shard_count` shards round-robin, by the first `depth`
    /// components.
    ///
    /// # Panics
    /// If there are no shards or more than [`SHARDS_MAX`], or `depth` is 0 or greater than that of
    /// the longest name.
    #[must_use]
    pub fn new(shard_count: usize, depth: usize) -> Self {
        assert!((1..=SHARDS_MAX).contains(&shard_count), "1 to {SHARDS_MAX} shards");
        let all: Vec<u8> = (0..=u8::MAX).take(shard_count).collect();
        Self::with_members(shard_count, &all, depth)
    }

    /// A table for `shard_count` shards of which only `members` own names.
    ///
    /// # Panics
    /// As [`Self::new`], and if `members` is empty or contains an invalid shard.
    #[must_use]
    pub fn with_members(shard_count: usize, members: &[u8], depth: usize) -> Self {
        assert!((1..=SHARDS_MAX).contains(&shard_count), "1 to {SHARDS_MAX} shards");
        let is_shard = |member: &u8| usize::from(*member) < shard_count;
        assert!(!members.is_empty() && members.iter().all(is_shard), "members are existing shards");
        assert!(
            (1..=crate::NAME_COMPONENTS_MAX).contains(&depth),
            "depth is 1 to NAME_COMPONENTS_MAX"
        );
        let entry = |&shard: &u8| Entry { shard, previous: shard, ..Entry::default() };
        let words: Vec<u32> = members.iter().map(|member| entry(member).pack()).collect();
        Self {
            entries: repeated(&words, AtomicU32::new),
            settled: repeated(members, AtomicU8::new),
            depth: u8::try_from(depth).unwrap_or(u8::MAX),
            shard_count: u8::try_from(shard_count).unwrap_or(u8::MAX),
            members: members.into(),
            splitting: AtomicU32::new(0),
        }
    }

    /// The shards that own names.
    #[must_use]
    pub fn members(&self) -> &[u8] {
        &self.members
    }

    /// Number of shards.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        usize::from(self.shard_count)
    }

    /// Dispatch depth of names whose entry was not split.
    #[must_use]
    pub fn depth(&self) -> usize {
        usize::from(self.depth)
    }

    /// Prefetches what [`SettledEntries::owner`] reads for a name whose first [`depth`](Self::depth) components have this hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch_slice(&self.settled[..], usize::from(index_of(hash)));
    }

    /// The settled entries.
    #[inline]
    #[must_use]
    pub fn settled(&self) -> SettledEntries<'_> {
        SettledEntries(&self.settled)
    }

    /// The route of a name. `hashes` are its prefix hashes.
    #[inline]
    #[must_use]
    pub fn find(&self, name: NameRef<'_>, hashes: &[u64]) -> NdtRoute {
        let components = dispatch_components(name);
        let depth = self.depth().min(components);
        let index = index_of(hashes[depth]);
        let entry = self.entry(usize::from(index));
        if usize::from(entry.depth) <= depth {
            let is_short_name = components < self.depth();
            return NdtRoute {
                shard: entry.shard,
                previous: entry.previous,
                is_short_name,
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
        let index = index_of(split_hash(name, hashes, depth.min(components)));
        let second = self.entry(usize::from(index));
        let previous = if first.is_splitting { first.shard } else { second.previous };
        NdtRoute { shard: second.shard, previous, is_short_name: components < depth, entry: index }
    }

    /// The entry of a name before any split: the one to split.
    #[must_use]
    pub fn first_entry(&self, name: NameRef<'_>, hashes: &[u64]) -> usize {
        usize::from(index_of(hashes[self.depth().min(dispatch_components(name))]))
    }

    /// State of an entry; `None` if there is no such entry.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<NdtEntry> {
        let entry = Entry::unpack(self.entries.get(index)?.load(Ordering::Relaxed));
        let Entry { shard, previous, depth, .. } = entry;
        Some(NdtEntry { shard, previous, depth, is_settled: !entry.is_moving() })
    }

    /// Moves an entry to another shard. The previous owner is visited first until
    /// [`settle`](Self::settle). Rejected while a split is in progress, because a split determines
    /// itself which shard is visited first.
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

    /// Splits an entry: dispatches its names by their first `depth` components from now on. The
    /// owner of the entry is visited first until [`settle`](Self::settle). Rejected while a move is
    /// in progress, because longer names may lead to any entry and only one shard can be visited
    /// first.
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

    /// Ends the period in which the previous owner of an entry is visited, once nothing pending
    /// there matters. Returns whether there was such a period.
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

    /// The shard, if the entry is settled and not split.
    fn settled(self) -> u8 {
        if self.is_moving() || self.depth != 0 { UNSETTLED } else { self.shard }
    }
}

/// Allocates an array that has the values again and again.
fn repeated<T: Copy, U: std::fmt::Debug>(
    values: &[T],
    cell: impl Fn(T) -> U,
) -> Box<[U; NDT_ENTRIES]> {
    let mut all = values.repeat(NDT_ENTRIES.div_ceil(values.len()));
    all.truncate(NDT_ENTRIES);
    let all: Box<[U]> = all.into_iter().map(cell).collect();
    all.try_into().unwrap_or_else(|_| unreachable!("there are NDT_ENTRIES"))
}

/// The entry of a hash, from bits that choose neither a bucket of a shard's tables (the lower 32)
/// nor a tag there (the highest 8): with those bits a shard would use only a part of its tables.
#[inline]
fn index_of(hash: u64) -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "a part of the hash")]
    let index = (hash >> 32) as u16;
    index
}

const _: () = assert!(NDT_ENTRIES == 1 << u16::BITS);

/// Number of components of `name` used by dispatch: all but trailing implicit digests.
///
/// An Interest for the full name of a Data has one component more than the Data, and must be
/// dispatched to the same shard. The last component of a Data's own name may look like a digest
/// too, so all trailing ones are left out.
#[inline]
fn dispatch_components(name: NameRef<'_>) -> usize {
    let value = name.value();
    let may_end_in_digest = value
        .len()
        .checked_sub(DIGEST_COMPONENT_LENGTH)
        .is_some_and(|start| value[start] == 1 && value[start + 1] == 32);
    if may_end_in_digest { components_without_digests(value) } else { name.len() }
}

#[cold]
fn components_without_digests(value: &[u8]) -> usize {
    let (mut start, mut count, mut kept) = (0, 0, 0);
    while start < value.len() {
        let Some(end) = component_end(value, start) else { break };
        count += 1;
        let is_digest =
            end - start == DIGEST_COMPONENT_LENGTH && value[start..start + 2] == [1, 32];
        if !is_digest {
            kept = count;
        }
        start = end;
    }
    kept
}

/// The hash of the first `depth` components of a name. If the last of them is a Segment or a
/// ByteOffset, its number counts in runs of 64.
fn split_hash(name: NameRef<'_>, hashes: &[u64], depth: usize) -> u64 {
    let last = depth.checked_sub(1).and_then(|last| Some((last, name.component(last)?)));
    let Some((parent, component)) = last else { return hashes[depth] };
    let number = component.as_segment().or_else(|| component.as_byte_offset());
    match number {
        Some(number) => mix(hashes[parent], number >> RUN_BITS),
        None => hashes[depth],
    }
}

/// Spreads runs over all entries. The hash is keyed, so the result cannot be predicted.
fn mix(hash: u64, run: u64) -> u64 {
    let mut mixed = hash.wrapping_add(run.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

    use std::collections::BTreeMap;

    use ndn_packet::{Name, NameRef};
    use proptest::prelude::*;

    use super::*;
    use crate::{NameHasher, PREFIX_HASHES_MAX};

    fn hashes_of(name: NameRef<'_>) -> Vec<u64> {
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let hasher = NameHasher::new(*b"key of the tests");
        let count = hasher.hash_prefixes(name, &mut hashes).unwrap();
        hashes[..count].to_vec()
    }

    /// The table as a map of the entries that were changed.
    #[derive(Debug, Default)]
    struct Oracle {
        shards: BTreeMap<usize, u8>,
        previous: BTreeMap<usize, u8>,
        depths: BTreeMap<usize, usize>,
        splitting: Vec<usize>,
    }

    const SHARDS: usize = 5;
    const DEPTH: usize = 2;

    impl Oracle {
        fn shard(&self, index: usize) -> u8 {
            self.shards.get(&index).copied().unwrap_or((index % SHARDS) as u8)
        }

        fn route(&self, hashes: &[u64]) -> NdtRoute {
            let components = hashes.len() - 1;
            let first = (hashes[components.min(DEPTH)] >> 32) as usize % 65_536;
            let mut depth = DEPTH;
            let mut last = first;
            if components >= DEPTH
                && let Some(&split) = self.depths.get(&first)
            {
                depth = split;
                last = (hashes[components.min(split)] >> 32) as usize % 65_536;
            }
            let mut previous = self.previous.get(&last).copied().unwrap_or(self.shard(last));
            if depth > DEPTH && self.splitting.contains(&first) {
                previous = self.shard(first);
            }
            let (shard, entry) = (self.shard(last), last as u16);
            NdtRoute { shard, previous, is_short_name: components < depth, entry }
        }
    }

    #[derive(Debug, Clone)]
    enum Change {
        Move(usize, u8),
        Split(usize, usize),
        Settle(usize),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            (0..12_usize, 0..7_u8).prop_map(|(name, shard)| Change::Move(name, shard)),
            (0..12_usize, 0..6_usize).prop_map(|(name, depth)| Change::Split(name, depth)),
            (0..12_usize).prop_map(Change::Settle),
        ]
    }

    fn name(number: usize) -> Name {
        let uris =
            ["/a", "/b", "/a/a", "/a/b", "/a/a/a", "/a/a/b", "/a/a/a/a", "/a/b/a", "/a/b/a/a/a/a"];
        Name::from_uri(uris[number % uris.len()]).unwrap()
    }

    /// The entry of a name before any split.
    fn index(number: usize) -> usize {
        let name = name(number);
        let hashes = hashes_of(name.as_ref());
        (hashes[name.as_ref().len().min(DEPTH)] >> 32) as usize % 65_536
    }

    fn apply(table: &Ndt, oracle: &mut Oracle, change: &Change) {
        match *change {
            Change::Move(number, shard) => {
                let index = index(number);
                let settled = !oracle.previous.contains_key(&index) && oracle.splitting.is_empty();
                let result = table.move_entry(index, shard);
                if usize::from(shard) >= SHARDS {
                    assert_eq!(result, Err(NdtError::NoSuchShard));
                } else if !settled {
                    assert_eq!(result, Err(NdtError::Unsettled));
                } else {
                    assert_eq!(result, Ok(()));
                    if oracle.shard(index) != shard {
                        oracle.previous.insert(index, oracle.shard(index));
                    }
                    oracle.shards.insert(index, shard);
                }
            }
            Change::Split(number, depth) => {
                let index = index(number);
                let is_settled = oracle.previous.is_empty() && !oracle.splitting.contains(&index);
                let result = table.split_entry(index, depth);
                assert_eq!(
                    result.is_ok(),
                    depth > DEPTH && is_settled && !oracle.depths.contains_key(&index)
                );
                if result.is_ok() {
                    oracle.depths.insert(index, depth);
                    oracle.splitting.push(index);
                }
            }
            Change::Settle(number) => {
                let index = index(number);
                let before = oracle.splitting.len();
                oracle.splitting.retain(|&other| other != index);
                let was_splitting = oracle.splitting.len() != before;
                let was_moving = oracle.previous.remove(&index).is_some();
                assert_eq!(table.settle(index), was_splitting || was_moving);
            }
        }
    }

    proptest! {
        #[test]
        fn routes_agree_with_a_map(changes in proptest::collection::vec(change(), 0..40)) {
            let table = Ndt::new(SHARDS, DEPTH);
            let mut oracle = Oracle::default();
            for change in &changes {
                apply(&table, &mut oracle, change);
                for number in 0..9 {
                    let name = name(number);
                    let hashes = hashes_of(name.as_ref());
                    prop_assert_eq!(
                        table.find(name.as_ref(), &hashes),
                        oracle.route(&hashes),
                        "{} after {:?}", name, changes
                    );
                    if hashes.len() > DEPTH {
                        let route = oracle.route(&hashes);
                        let first = (hashes[DEPTH] >> 32) as usize % NDT_ENTRIES;
                        let is_settled =
                            !oracle.depths.contains_key(&first) && route.previous == route.shard;
                        let settled = table.settled();
                        prop_assert_eq!(
                            (settled.owner(hashes[DEPTH]), usize::from(settled.entry(hashes[DEPTH]))),
                            (if is_settled { route.shard } else { UNSETTLED }, first),
                            "{} after {:?}", name, changes
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn entries_are_spread_evenly_over_shards() {
        let table = Ndt::new(7, 2);
        let mut counts = [0; 7];
        for index in 0..NDT_ENTRIES {
            let entry = table.get(index).unwrap();
            assert_eq!((entry.previous, entry.depth, entry.is_settled), (entry.shard, 0, true));
            counts[usize::from(entry.shard)] += 1;
        }
        assert!(
            counts.iter().all(|&count: &usize| count.abs_diff(NDT_ENTRIES / 7) <= 1),
            "{counts:?}"
        );
        assert_eq!(table.get(NDT_ENTRIES), None);
        assert_eq!(table.move_entry(NDT_ENTRIES, 0), Err(NdtError::NoSuchEntry));
        assert!(!table.settle(NDT_ENTRIES));
    }

    #[test]
    fn trailing_digests_are_ignored() {
        let digest = [&[1, 32][..], &[9; 32]].concat();
        let component = |bytes: &[u8]| [&[8, u8::try_from(bytes.len()).unwrap()], bytes].concat();
        // A component whose value has the two bytes of a digest in the right place.
        let decoy = component(&[&[7; 10][..], &digest].concat());
        let cases: [(&[&[u8]], usize); 7] = [
            (&[], 0),
            (&[&component(b"a")], 1),
            (&[&component(b"a"), &digest], 1),
            (&[&component(b"a"), &digest, &digest], 1),
            (&[&component(b"a"), &digest, &component(b"b")], 3),
            (&[&digest], 0),
            (&[&component(b"a"), &decoy], 2),
        ];
        for (parts, expected) in cases {
            let value = parts.concat();
            let name = NameRef::from_value(&value).unwrap();
            assert_eq!(dispatch_components(name), expected, "{name:?}");
        }
    }

    #[test]
    fn split_entry_keeps_runs_of_segments_together() {
        let table = Ndt::new(8, 2);
        let file = Name::from_uri("/data/file/v=1").unwrap();
        let segment = |number: u64| {
            let mut name = file.clone();
            name.push_segment(number);
            name
        };
        let route = |name: &Name| table.find(name.as_ref(), &hashes_of(name.as_ref()));
        let first = table.first_entry(file.as_ref(), &hashes_of(file.as_ref()));
        assert_eq!(usize::from(route(&segment(0)).entry), first);
        table.split_entry(first, 4).unwrap();
        table.settle(first);
        for number in 0..64 {
            assert_eq!(route(&segment(number)), route(&segment(0)));
        }
        let shards: std::collections::BTreeSet<u8> =
            (0..64).map(|run| route(&segment(run * 64)).shard).collect();
        assert_eq!(shards.len(), 8, "one file uses all shards");
        assert!(route(&file).is_short_name);
    }
}
