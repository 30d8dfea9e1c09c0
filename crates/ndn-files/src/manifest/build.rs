//! Builds manifests: every segment is read, encoded as its packet and hashed, on all processors.

use std::borrow::Cow;
use std::io::{self, IoSliceMut};
use std::num::NonZero;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ndn_packet::{ContentType, DataBuilder, Name};
use ndn_security::{DigestSigner, SHA256_LEN, Sha256Digest, Signer, sign_data};

use super::disk::{DigestDirectory, DirectoryFailure, Unfinished, offset_of_digests};
use super::nodes::{BuildFailure, Leaves, NodeForm, Nodes};
use super::root::{Root, leaves_name, manifest_name};
use super::segments::{Claim, SegmentDigests};
use super::tree::{FANOUT_MAX, Tree};
use crate::counters::Counters;
use crate::packet::{Hashed, Layout, PacketLimits, PreparedSigner, Slot, hash_packets};
use crate::source::Opened;
use crate::stat::FileStat;

/// Segments that a thread takes at a time.
const RUN: u64 = 32;
/// The root must fit a packet.
const ROOT_LEN_MAX: u64 = ndn_packet::MAX_PACKET_SIZE as u64;

/// The manifest of a version, as packets, and the DigestSha256 of its segments.
#[derive(Debug)]
pub(crate) struct Built {
    nodes: Nodes,
    /// Empty if they are on disk.
    signatures: Vec<Sha256Digest>,
    unstored: Unstored,
    from_disk: bool,
}

/// Digests that are not stored on disk yet.
#[derive(Debug)]
enum Unstored {
    None,
    /// Digests of the segments; their signatures are in memory.
    Digests(Vec<Sha256Digest>),
    /// All are in the file, which is not renamed yet.
    File(Unfinished),
}

impl Built {
    /// Stores the digests on disk, if there is one for them, unless they were loaded from there.
    pub(crate) fn store(
        &mut self,
        disk: Option<&DigestDirectory>,
        layout: &Layout,
        stat: &FileStat,
    ) -> Result<(), DirectoryFailure> {
        let unstored = std::mem::replace(&mut self.unstored, Unstored::None);
        let Some(disk) = disk else { return Ok(()) };
        match unstored {
            Unstored::None => Ok(()),
            Unstored::Digests(digests) => {
                disk.store(layout, stat, &(self.signatures.clone(), digests))
            }
            Unstored::File(unfinished) => unfinished.finish(),
        }
    }

    /// Whether the digests were loaded from disk.
    pub(crate) fn is_from_disk(&self) -> bool {
        self.from_disk
    }

    /// The packet of a node; the root is signed by `signer`.
    ///
    /// # Errors
    /// It cannot be rebuilt from disk, or cannot be signed.
    pub(crate) fn packet(
        &self,
        node: u64,
        signer: &dyn Signer,
    ) -> io::Result<Option<Cow<'_, [u8]>>> {
        self.nodes.packet(node, signer)
    }

    /// Digests of the segments that a leaf lists, if the leaf is in memory.
    pub(crate) fn digests_of_leaf(&self, leaf: u64) -> Option<Vec<Sha256Digest>> {
        self.nodes.digests_of_leaf(leaf)
    }

    /// Content of the root, if there are no other nodes.
    pub(crate) fn only_root(&self) -> Option<&[u8]> {
        self.nodes.only_root()
    }

    /// SignatureValue of a segment, if it is in memory.
    pub(crate) fn signature(&self, segment: u64) -> Option<&Sha256Digest> {
        self.signatures.get(usize::try_from(segment).ok()?)
    }

    /// Bytes of memory.
    pub(crate) fn weight(&self) -> usize {
        self.nodes.weight() + self.signatures.len() * SHA256_LEN
    }
}

/// Minimum number of digests in a node.
const FANOUT_MIN: u64 = 2;
/// Maximum length of a node, whatever the length of segments.
const NODE_LEN_MIN: usize = 512;

/// Storage of the digests of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    /// In memory.
    Memory,
    /// On disk, except those of the nodes.
    Disk,
}

/// Storage for the manifest of a file, of which `bytes_max` bytes may be in memory; `None` if there
/// is no room for it.
pub(crate) fn store_for(
    layout: &Layout,
    bytes_max: usize,
    disk: Option<&DigestDirectory>,
) -> Option<Store> {
    let segments = layout.final_segment + 1;
    let fits = |bytes: u64| usize::try_from(bytes).is_ok_and(|bytes| bytes <= bytes_max);
    if fits(segments.saturating_mul(2 * 32 + 2)) {
        return Some(Store::Memory);
    }
    // For each leaf its digest, twice, and a root. A leaf has at least as much room as half a
    // segment.
    let fanout = u64::try_from(layout.segment_len / (2 * SHA256_LEN)).unwrap_or(u64::MAX);
    let leaves = segments / fanout.clamp(2, FANOUT_MAX);
    let in_memory = leaves.saturating_mul(2 * 32 + 2).saturating_add(ROOT_LEN_MAX);
    let on_disk = disk.is_some_and(|disk| disk.can_hold(segments));
    (fits(in_memory) && on_disk).then_some(Store::Disk)
}

/// A file whose manifest, or a leaf of it, is built.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a Opened,
    /// Its segments.
    pub(crate) layout: &'a Layout,
    /// Digests of its segments that other threads know, and compute, too.
    pub(crate) shared: Option<&'a SegmentDigests>,
    pub(crate) counters: &'a Counters,
}

/// Threads that hash a file, and their progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hashing<'a> {
    pub(crate) threads: NonZero<usize>,
    /// Bytes of which the digests are known.
    pub(crate) done: &'a AtomicU64,
}

/// Builds the manifest of a file, with the digests of `disk`
/// if available. The caller must check whether the file has changed meanwhile, and then store the
/// digests ([`Built::store`]).
pub(crate) fn build(
    source: &Source<'_>,
    limits: &PacketLimits,
    signer: &dyn Signer,
    hashing: Hashing<'_>,
    disk: Option<&DigestDirectory>,
    store: Store,
) -> Result<Built, BuildFailure> {
    let (file, layout) = (source.file, source.layout);
    if store == Store::Disk {
        let form = form(layout, limits, signer)?;
        let disk = disk.ok_or(BuildFailure::TooLarge)?;
        return build_on_disk(source, form, hashing, disk);
    }
    if let Some(hashed) = disk.and_then(|disk| disk.load(layout, &file.stat)) {
        let built = build_of(layout, limits, signer, hashed)?;
        return Ok(Built { unstored: Unstored::None, from_disk: true, ..built });
    }
    build_of(layout, limits, signer, hash_segments(source, hashing)?)
}

/// The manifest of a file with these digests, in memory.
pub(crate) fn build_of(
    layout: &Layout,
    limits: &PacketLimits,
    signer: &dyn Signer,
    (signatures, digests): Hashed,
) -> Result<Built, BuildFailure> {
    let form = form(layout, limits, signer)?;
    let nodes = form.nodes_from(layout, 0, digests.clone())?;
    let (nodes, unstored) = (Nodes::new(form, nodes, None), Unstored::Digests(digests));
    Ok(Built { nodes, signatures, unstored, from_disk: false })
}

fn form(
    layout: &Layout,
    limits: &PacketLimits,
    signer: &dyn Signer,
) -> Result<NodeForm, BuildFailure> {
    let name = manifest_name(&layout.name);
    let fanout = fanout(&name, layout, limits, signer).ok_or(BuildFailure::TooLarge)?;
    let tree = Tree::new(layout.final_segment + 1, fanout).ok_or(BuildFailure::TooLarge)?;
    Ok(NodeForm { name, freshness_ms: limits.freshness_ms, tree })
}

/// Number of segments that each leaf of a file's manifest lists; `None` if no digests fit a packet.
pub(crate) fn leaf_fanout(
    layout: &Layout,
    limits: &PacketLimits,
    signer: &dyn Signer,
) -> Option<u64> {
    let fanout = fanout(&manifest_name(&layout.name), layout, limits, signer)?;
    Tree::new(layout.final_segment + 1, fanout).map(|tree| tree.fanout)
}

/// Segments that a leaf of a file's manifest lists; `None` if there is no such leaf.
fn segments_of_leaf(tree: &Tree, leaf: u64) -> Option<Range<u64>> {
    (leaf < tree.leaves())
        .then(|| leaf * tree.fanout..((leaf + 1) * tree.fanout).min(tree.segments))
}

/// Digests of the segments that a leaf of a file's manifest lists: those that no thread knows are read and hashed. `None` if
/// there is no such leaf. The caller must check whether the file has changed meanwhile.
pub(crate) fn digests_of_leaf(
    source: &Source<'_>,
    limits: &PacketLimits,
    signer: &dyn Signer,
    leaf: u64,
) -> Result<Option<Vec<Sha256Digest>>, BuildFailure> {
    let tree = form(source.layout, limits, signer)?.tree;
    let Some(segments) = segments_of_leaf(&tree, leaf) else { return Ok(None) };
    let own = || SegmentDigests::new(segments.clone()).ok_or(BuildFailure::TooLarge);
    let own = if source.shared.is_none() { Some(own()?) } else { None };
    let digests = source.shared.or(own.as_ref()).ok_or(BuildFailure::TooLarge)?;
    let mut scratch = Scratch::new(source.layout)?;
    let mut first = segments.start;
    while first < segments.end {
        let last = (first + RUN).min(segments.end) - 1;
        scratch.complete(source, digests, first..=last)?;
        first = last + 1;
    }
    digests.digests(segments).map(Some).ok_or(BuildFailure::Changed)
}

/// One leaf of a file's manifest as a packet of its own, with what the root states, signed by `signer`.
pub(crate) fn signed_leaf(
    layout: &Layout,
    limits: &PacketLimits,
    signer: &dyn Signer,
    leaf: u64,
    digests: Vec<Sha256Digest>,
) -> Result<Vec<u8>, BuildFailure> {
    let tree = form(layout, limits, signer)?.tree;
    let root = Root {
        name: layout.name.clone(),
        size: layout.size,
        segment_size: u64::try_from(layout.segment_len).map_err(|_| BuildFailure::TooLarge)?,
        fanout: tree.fanout,
        digests,
    };
    let mut name = leaves_name(&layout.name);
    name.push_segment(leaf);
    let content = root.encode();
    let data = DataBuilder::new(&name)
        .content_type(ContentType::MANIFEST)
        .freshness_ms(limits.freshness_ms)
        .final_segment(tree.leaves() - 1)
        .content(&content);
    Ok(sign_data(&data, signer)?)
}

/// As [`build`], with the digests of segments on disk only.
fn build_on_disk(
    source: &Source<'_>,
    form: NodeForm,
    hashing: Hashing<'_>,
    disk: &DigestDirectory,
) -> Result<Built, BuildFailure> {
    let (file, layout) = (source.file, source.layout);
    let (digests, unstored) = match disk.open_stored(layout, &file.stat) {
        Some(stored) => (stored, Unstored::None),
        None => {
            let unfinished = disk.create(layout, &file.stat)?;
            for_each_run(source.layout, hashing, |scratch, run| {
                let first = *run.start();
                scratch.read(source, run)?;
                Ok(unfinished.write(first, &scratch.hash(None, source.counters)?)?)
            })?;
            (unfinished.file.try_clone()?, Unstored::File(unfinished))
        }
    };
    let offset = offset_of_digests(layout.final_segment + 1);
    let leaves = Leaves::new(form.clone(), digests, offset)?;
    let nodes = form.nodes_from(layout, 1, leaves.digests().to_vec())?;
    let from_disk = matches!(unstored, Unstored::None);
    let nodes = Nodes::new(form, nodes, Some(leaves));
    Ok(Built { nodes, signatures: Vec::new(), unstored, from_disk })
}

/// Number of digests that fit a packet; for the root with its other elements and its signature.
fn fanout(name: &Name, layout: &Layout, limits: &PacketLimits, signer: &dyn Signer) -> Option<u64> {
    let seal = PreparedSigner::new(signer).ok()?;
    let of = |limits: &PacketLimits| {
        let room = Layout::new(name.clone(), u64::MAX, limits, &seal)?.segment_len;
        digests_within(room, &layout.name).filter(|fanout| *fanout >= FANOUT_MIN)
    };
    // Nodes are no longer than segments, unless segments are very short.
    let longer = PacketLimits { segment_len: NODE_LEN_MIN.max(limits.segment_len), ..*limits };
    of(limits).or_else(|| of(&longer))
}

/// Number of digests in a root of `room` bytes.
fn digests_within(room: usize, name: &Name) -> Option<u64> {
    let empty = Root {
        name: name.clone(),
        size: u64::MAX,
        segment_size: u64::MAX,
        fanout: u64::MAX,
        digests: Vec::new(),
    };
    // The length of the digests takes two bytes more than that of none. MetaInfo has a ContentType.
    let rest = room.checked_sub(empty.encode().len() + 2 + 3)?;
    u64::try_from(rest / SHA256_LEN).ok().map(|fanout| fanout.min(FANOUT_MAX))
}

/// DigestSha256 and implicit digest of every segment.
fn hash_segments(source: &Source<'_>, hashing: Hashing<'_>) -> Result<Hashed, BuildFailure> {
    let own = || SegmentDigests::new(0..source.layout.final_segment + 1);
    let own = if source.shared.is_none() { own() } else { None };
    let digests = source.shared.or(own.as_ref()).ok_or(BuildFailure::TooLarge)?;
    for_each_run(source.layout, hashing, |scratch, run| scratch.complete(source, digests, run))?;
    digests.all().ok_or(BuildFailure::Changed)
}

/// Passes the segments of a file to `work`, run by run in any order, on several threads.
fn for_each_run(
    layout: &Layout,
    Hashing { threads, done }: Hashing<'_>,
    work: impl Fn(&mut Scratch, RangeInclusive<u64>) -> Result<(), BuildFailure> + Sync,
) -> Result<(), BuildFailure> {
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let work_on_runs = || -> Result<(), BuildFailure> {
        let mut scratch = Scratch::new(layout)?;
        while !failed.load(Ordering::Relaxed) {
            let first = next.fetch_add(RUN, Ordering::Relaxed);
            if first > layout.final_segment {
                break;
            }
            let last = (first + RUN - 1).min(layout.final_segment);
            let worked = work(&mut scratch, first..=last);
            let (offset, length) = layout.extent(last);
            let run_bytes = offset + length as u64 - layout.extent(first).0;
            done.fetch_add(run_bytes, Ordering::Relaxed);
            if worked.is_err() {
                failed.store(true, Ordering::Relaxed);
                return worked;
            }
        }
        Ok(())
    };
    let useful = usize::try_from(layout.final_segment / RUN).unwrap_or(usize::MAX) + 1;
    std::thread::scope(|scope| {
        let others = 1..threads.get().min(useful);
        let others: Vec<_> = others.map(|_| scope.spawn(work_on_runs)).collect();
        let own = work_on_runs();
        let panicked = || BuildFailure::Read(io::Error::other("a thread has panicked"));
        let others = others.into_iter();
        let others = others.map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())));
        others.fold(own, Result::and)
    })
}

/// Buffers of a thread that hashes.
struct Scratch {
    seal: PreparedSigner<'static>,
    packets: Vec<u8>,
    stride: usize,
    /// Of the segments that were read last.
    slots: Vec<Slot>,
}

impl Scratch {
    fn new(layout: &Layout) -> Result<Self, BuildFailure> {
        let seal = PreparedSigner::new(&DigestSigner)?;
        let stride = layout.packet_len_max(&seal);
        let count = usize::try_from(RUN.min(layout.final_segment + 1)).unwrap_or(1);
        Ok(Self { seal, packets: vec![0; stride * count], stride, slots: Vec::new() })
    }

    /// Reads and hashes those segments of a run that no other thread hashes, and waits for the others.
    fn complete(
        &mut self,
        source: &Source<'_>,
        digests: &SegmentDigests,
        run: RangeInclusive<u64>,
    ) -> Result<(), BuildFailure> {
        loop {
            if let Some(missing) = digests.missing(run.clone()) {
                self.read(source, missing.clone())?;
                let unchanged = source.file.file.is_unchanged(&source.file.stat);
                if !unchanged.map_err(io::Error::other)? {
                    return Err(BuildFailure::Changed);
                }
                // Claimed only now: other threads do not wait for the disk.
                let claim = digests.claim(missing);
                let hashed = self.hash(Some(&claim), source.counters)?;
                claim.finish(hashed);
            }
            if digests.signatures(run.clone()).is_some() {
                return Ok(());
            }
        }
    }

    /// Reads a run of segments into their packets.
    fn read(&mut self, source: &Source<'_>, run: RangeInclusive<u64>) -> Result<(), BuildFailure> {
        let (layout, first) = (source.layout, *run.start());
        self.slots.clear();
        for (segment, out) in run.zip(self.packets.chunks_mut(self.stride)) {
            self.slots.push(layout.lay_out(segment, &self.seal, out)?);
        }
        let contents = self.slots.iter().zip(self.packets.chunks_mut(self.stride));
        let mut contents: Vec<_> =
            contents.map(|(slot, out)| IoSliceMut::new(&mut out[slot.content.clone()])).collect();
        Ok(source.file.file.read(layout.extent(first).0, &mut contents)?)
    }

    /// Hashes the segments that were read: those that are claimed among them, or all.
    fn hash(
        &mut self,
        claim: Option<&Claim<'_>>,
        counters: &Counters,
    ) -> Result<Hashed, BuildFailure> {
        let packets = self.slots.iter().zip(self.packets.chunks_mut(self.stride));
        Ok(match claim {
            Some(claim) => hash_packets(&self.seal, claim.select(packets), counters)?,
            None => hash_packets(&self.seal, packets, counters)?,
        })
    }
}
