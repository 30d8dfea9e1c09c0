//! Builds manifests: every segment is read, encoded as its packet and hashed, on all processors.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ndn_packet::{ContentType, DataBuilder, Name};
use ndn_security::{DigestSigner, SHA256_LEN, Sha256Digest, Signer, sha256_each, sign_data};

use super::disk::{DiskCache, Hashed, Unfinished, offset_of_digests};
use super::nodes::{BuildFailure, Leaves, NodeForm, Nodes};
use super::root::{Root, leaves_name, manifest_name};
use super::tree::{FANOUT_MAX, Tree};
use crate::packet::{Layout, PacketLimits, PreparedSigner};
use crate::source::{Opened, SourceFile};
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
        disk: Option<&DiskCache>,
        layout: &Layout,
        stat: &FileStat,
    ) -> io::Result<()> {
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
    disk: Option<&DiskCache>,
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

/// A file whose manifest is built.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a Opened,
    /// Its segments.
    pub(crate) layout: &'a Layout,
    /// Bytes that were hashed.
    pub(crate) done: &'a AtomicU64,
}

/// Builds the manifest of a file, with the digests of `disk`
/// if available. The caller must check whether the file has changed meanwhile, and then store the
/// digests ([`Built::store`]).
pub(crate) fn build(
    source: &Source<'_>,
    limits: &PacketLimits,
    signer: &dyn Signer,
    threads: NonZero<usize>,
    disk: Option<&DiskCache>,
    store: Store,
) -> Result<Built, BuildFailure> {
    let (file, layout) = (source.file, source.layout);
    if store == Store::Disk {
        let form = form(layout, limits, signer)?;
        let disk = disk.ok_or(BuildFailure::TooLarge)?;
        return build_on_disk(source, form, threads, disk);
    }
    if let Some(hashed) = disk.and_then(|disk| disk.load(layout, &file.stat)) {
        let built = build_of(layout, limits, signer, hashed)?;
        return Ok(Built { unstored: Unstored::None, from_disk: true, ..built });
    }
    build_of(layout, limits, signer, hash_segments(source, threads)?)
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

/// A leaf as a packet, and the digests of the segments that it lists.
#[derive(Debug)]
pub(crate) struct SignedLeaf {
    pub(crate) packet: Vec<u8>,
    pub(crate) hashed: Hashed,
}

/// Digests of a file whose leaves are made one by one, as they are requested.
#[derive(Debug)]
pub(crate) struct LeafDigests {
    hashed: Hashed,
    /// Segments that a leaf lists.
    fanout: usize,
    /// For each leaf, whether its digests are there.
    made: Vec<bool>,
}

impl LeafDigests {
    /// None of the digests yet; `None` if there are more than memory could hold.
    pub(crate) fn new(layout: &Layout, fanout: u64) -> Option<Self> {
        let segments = usize::try_from(layout.final_segment + 1).ok()?;
        let fanout = usize::try_from(fanout).ok()?;
        let digests = vec![[0; SHA256_LEN]; segments];
        let made = vec![false; segments.div_ceil(fanout)];
        Some(Self { hashed: (digests.clone(), digests), fanout, made })
    }

    /// Bytes of memory for the digests of a file.
    pub(crate) fn weight(layout: &Layout) -> usize {
        usize::try_from(layout.final_segment + 1)
            .map_or(usize::MAX, |segments| segments.saturating_mul(2 * SHA256_LEN))
    }

    /// Adds the digests of a leaf; returns those of the whole file once they are complete.
    pub(crate) fn add(&mut self, leaf: u64, hashed: &Hashed) -> Option<Hashed> {
        let index = usize::try_from(leaf).ok()?;
        let made = self.made.get_mut(index)?;
        let first = index * self.fanout;
        for (all, new) in [(&mut self.hashed.0, &hashed.0), (&mut self.hashed.1, &hashed.1)] {
            all.get_mut(first..first + new.len())?.copy_from_slice(new);
        }
        *made = true;
        self.made.iter().all(|made| *made).then(|| std::mem::take(&mut self.hashed))
    }

    /// SignatureValue of a segment, if it is there.
    pub(crate) fn signature(&self, segment: u64) -> Option<Sha256Digest> {
        let segment = usize::try_from(segment).ok()?;
        let is_made = self.made.get(segment / self.fanout).is_some_and(|made| *made);
        self.hashed.0.get(segment).filter(|_| is_made).copied()
    }
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

/// One leaf of a file's manifest as a packet of its own, with what the root states, signed by `signer`: only the segments that
/// it lists are read and hashed. `None` if there is no such leaf. The caller must check whether the file has changed meanwhile.
pub(crate) fn signed_leaf(
    file: &Opened,
    layout: &Layout,
    limits: &PacketLimits,
    signer: &dyn Signer,
    leaf: u64,
) -> Result<Option<SignedLeaf>, BuildFailure> {
    let fanout = leaf_fanout(layout, limits, signer).ok_or(BuildFailure::TooLarge)?;
    let tree = Tree::new(layout.final_segment + 1, fanout).ok_or(BuildFailure::TooLarge)?;
    if leaf >= tree.leaves() {
        return Ok(None);
    }
    let seal = PreparedSigner::new(&DigestSigner)?;
    let mut scratch = Scratch::new(layout, &seal);
    let (mut signatures, mut digests) = (Vec::new(), Vec::new());
    let (mut first, end) = (leaf * fanout, ((leaf + 1) * fanout).min(tree.segments));
    while first < end {
        let last = (first + RUN).min(end) - 1;
        let hashed = scratch.hash_run(file.file.as_ref(), layout, &seal, first, last)?;
        signatures.extend(hashed.0);
        digests.extend(hashed.1);
        first = last + 1;
    }
    let root = Root {
        name: layout.name.clone(),
        size: layout.size,
        segment_size: u64::try_from(layout.segment_len).map_err(|_| BuildFailure::TooLarge)?,
        fanout,
        digests: digests.clone(),
    };
    let mut name = leaves_name(&layout.name);
    name.push_segment(leaf);
    let content = root.encode();
    let data = DataBuilder::new(&name)
        .content_type(ContentType::MANIFEST)
        .freshness_ms(limits.freshness_ms)
        .final_segment(tree.leaves() - 1)
        .content(&content);
    Ok(Some(SignedLeaf { packet: sign_data(&data, signer)?, hashed: (signatures, digests) }))
}

/// As [`build`], with the digests of segments on disk only.
fn build_on_disk(
    source: &Source<'_>,
    form: NodeForm,
    threads: NonZero<usize>,
    disk: &DiskCache,
) -> Result<Built, BuildFailure> {
    let (file, layout) = (source.file, source.layout);
    let (digests, unstored) = match disk.open_stored(layout, &file.stat) {
        Some(stored) => (stored, Unstored::None),
        None => {
            let unfinished = disk.create(layout, &file.stat)?;
            hash_all(source, threads, |first, hashed| unfinished.write(first, &hashed))?;
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

/// Signature and implicit digest of every segment.
fn hash_segments(source: &Source<'_>, threads: NonZero<usize>) -> Result<Hashed, BuildFailure> {
    let runs = Mutex::new(BTreeMap::new());
    hash_all(source, threads, |first, hashed| {
        runs.lock().unwrap_or_else(PoisonError::into_inner).insert(first, hashed);
        Ok(())
    })?;
    let runs = runs.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut signatures, mut digests) = (Vec::new(), Vec::new());
    for (_, (run_signatures, run_digests)) in runs {
        signatures.extend(run_signatures);
        digests.extend(run_digests);
    }
    Ok((signatures, digests))
}

/// Hashes all segments, run by run in any order; passes the first segment of each run and its
/// result to `keep`.
fn hash_all(
    source: &Source<'_>,
    threads: NonZero<usize>,
    keep: impl Fn(u64, Hashed) -> io::Result<()> + Sync,
) -> Result<(), BuildFailure> {
    let (file, layout) = (source.file.file.as_ref(), source.layout);
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let work = || -> Result<(), BuildFailure> {
        let seal = PreparedSigner::new(&DigestSigner)?;
        let mut scratch = Scratch::new(layout, &seal);
        while !failed.load(Ordering::Relaxed) {
            let first = next.fetch_add(RUN, Ordering::Relaxed);
            if first > layout.final_segment {
                break;
            }
            let last = (first + RUN - 1).min(layout.final_segment);
            let hashed = scratch.hash_run(file, layout, &seal, first, last);
            let kept = hashed.and_then(|hashed| Ok(keep(first, hashed)?));
            let (offset, length) = layout.extent(last);
            let run_bytes = offset + length as u64 - layout.extent(first).0;
            source.done.fetch_add(run_bytes, Ordering::Relaxed);
            if kept.is_err() {
                failed.store(true, Ordering::Relaxed);
                return kept;
            }
        }
        Ok(())
    };
    let useful = usize::try_from(layout.final_segment / RUN).unwrap_or(usize::MAX) + 1;
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.get().min(useful)).map(|_| scope.spawn(work)).collect();
        let own = work();
        let others = others.into_iter().map(|thread| thread.join().unwrap_or(Ok(())));
        others.fold(own, Result::and)
    })
}

/// Buffers of a thread that hashes.
struct Scratch {
    packets: Vec<u8>,
    stride: usize,
    signature: Vec<u8>,
}

impl Scratch {
    fn new(layout: &Layout, seal: &PreparedSigner<'_>) -> Self {
        let stride = layout.packet_len_max(seal);
        let count = usize::try_from(RUN.min(layout.final_segment + 1)).unwrap_or(1);
        Self { packets: vec![0; stride * count], stride, signature: Vec::new() }
    }

    fn hash_run(
        &mut self,
        file: &dyn SourceFile,
        layout: &Layout,
        seal: &PreparedSigner<'_>,
        first: u64,
        last: u64,
    ) -> Result<Hashed, BuildFailure> {
        let mut slots = Vec::new();
        for (segment, out) in (first..=last).zip(self.packets.chunks_mut(self.stride)) {
            slots.push(layout.lay_out(segment, seal, out)?);
        }
        let contents = slots.iter().zip(self.packets.chunks_mut(self.stride));
        let mut contents: Vec<_> =
            contents.map(|(slot, out)| IoSliceMut::new(&mut out[slot.content.clone()])).collect();
        file.read(layout.extent(first).0, &mut contents)?;
        let strided = slots.iter().zip(self.packets.chunks(self.stride));
        let signed: Vec<_> = strided.map(|(slot, out)| slot.signed(out)).collect();
        let signatures = sha256_each(&signed);
        let mut packets = Vec::with_capacity(slots.len());
        let strided = slots.iter().zip(self.packets.chunks_mut(self.stride));
        for ((slot, out), signature) in strided.zip(&signatures) {
            let range = seal.close_with(slot, out, &mut self.signature, signature)?;
            packets.push(&out[range]);
        }
        let digests = sha256_each(&packets);
        Ok((signatures, digests))
    }
}
