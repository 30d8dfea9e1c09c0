//! Making manifests: every segment is read, made into its packet and hashed, on all processors.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ndn_packet::{ContentType, DataBuilder, EncodeError, Name};
use ndn_security::{DigestSigner, SHA256_LEN, Sha256Digest, SignError, Signer, sha256, sign_data};

use super::disk::{DiskCache, Hashed};
use super::root::{Root, manifest_name};
use super::tree::{FANOUT_MAX, Tree};
use crate::packet::{Layout, PacketLimits, Seal};
use crate::read::read_run;
use crate::root::Opened;
use crate::stat::FileStat;

/// Segments that a thread takes at a time.
const RUN: u64 = 32;

/// Why there is no manifest.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildFailure {
    #[error("reading: {0}")]
    Read(#[from] io::Error),
    #[error("signing: {0}")]
    Sign(#[from] SignError),
    /// Too many segments, or names so long that no two digests fit a packet.
    #[error("the file is too large for a manifest, or its name too long")]
    TooLarge,
}

impl From<EncodeError> for BuildFailure {
    fn from(error: EncodeError) -> Self {
        Self::Sign(SignError::Encode(error))
    }
}

/// The manifest of a version, as packets, and the DigestSha256 of its segments.
#[derive(Debug)]
pub(crate) struct Built {
    /// Nodes by their numbers.
    packets: Vec<Vec<u8>>,
    signatures: Vec<Sha256Digest>,
    /// Digests of the segments, if they are still to be stored.
    unstored: Option<Vec<Sha256Digest>>,
    from_disk: bool,
}

impl Built {
    /// Stores the digests on disk, unless they come from there.
    pub(crate) fn store(
        &mut self,
        disk: &DiskCache,
        layout: &Layout,
        stat: &FileStat,
    ) -> io::Result<()> {
        match self.unstored.take() {
            Some(digests) => disk.store(layout, stat, &(self.signatures.clone(), digests)),
            None => Ok(()),
        }
    }

    /// Whether the digests come from disk.
    pub(crate) fn is_from_disk(&self) -> bool {
        self.from_disk
    }

    /// The packet of a node.
    pub(crate) fn packet(&self, node: u64) -> Option<&[u8]> {
        self.packets.get(usize::try_from(node).ok()?).map(Vec::as_slice)
    }

    /// SignatureValue of a segment.
    pub(crate) fn signature(&self, segment: u64) -> Option<&Sha256Digest> {
        self.signatures.get(usize::try_from(segment).ok()?)
    }

    /// Bytes of memory.
    pub(crate) fn weight(&self) -> usize {
        self.packets.iter().map(Vec::len).sum::<usize>() + self.signatures.len() * SHA256_LEN
    }
}

/// Bytes that the manifest of a file takes, about.
pub(crate) fn weight_of(layout: &Layout) -> u64 {
    (layout.final_segment + 1).saturating_mul(2 * 32 + 2)
}

/// Makes the manifest of `file`, whose segments are those of `layout`, with the digests of `disk` if it
/// has them. Whether the file has changed under way is for the caller to find out, and then to store
/// the digests ([`Built::store`]).
pub(crate) fn build(
    file: &Opened,
    layout: &Layout,
    limits: &PacketLimits,
    signer: &dyn Signer,
    threads: NonZero<usize>,
    disk: Option<&DiskCache>,
) -> Result<Built, BuildFailure> {
    let name = manifest_name(&layout.name);
    let fanout = fanout(&name, layout, limits, signer).ok_or(BuildFailure::TooLarge)?;
    let tree = Tree::new(layout.final_segment + 1, fanout).ok_or(BuildFailure::TooLarge)?;
    let stored = disk.and_then(|disk| disk.load(layout, &file.stat));
    let from_disk = stored.is_some();
    let hashed = match stored {
        Some(hashed) => hashed,
        None => hash_segments(&file.file, layout, threads)?,
    };
    let packets = nodes(&name, layout, limits, signer, &tree, hashed.1.clone())?;
    let unstored = (disk.is_some() && !from_disk).then_some(hashed.1);
    Ok(Built { packets, signatures: hashed.0, unstored, from_disk })
}

/// Digests that fit a packet, the root with its other elements and its signature.
fn fanout(name: &Name, layout: &Layout, limits: &PacketLimits, signer: &dyn Signer) -> Option<u64> {
    let seal = Seal::new(signer).ok()?;
    let room = Layout::new(name.clone(), u64::MAX, limits, &seal)?.segment_len;
    let empty = Root {
        name: layout.name.clone(),
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
fn hash_segments(
    file: &File,
    layout: &Layout,
    threads: NonZero<usize>,
) -> Result<Hashed, BuildFailure> {
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let runs = Mutex::new(BTreeMap::new());
    let work = || -> Result<(), BuildFailure> {
        let seal = Seal::new(&DigestSigner)?;
        let mut scratch = Scratch::new(layout, &seal);
        while !failed.load(Ordering::Relaxed) {
            let first = next.fetch_add(RUN, Ordering::Relaxed);
            if first > layout.final_segment {
                break;
            }
            let last = (first + RUN - 1).min(layout.final_segment);
            match scratch.hash_run(file, layout, &seal, first, last) {
                Ok(hashed) => {
                    runs.lock().unwrap_or_else(PoisonError::into_inner).insert(first, hashed);
                }
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    return Err(error);
                }
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
    })?;
    let runs = runs.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut signatures, mut digests) = (Vec::new(), Vec::new());
    for (_, (run_signatures, run_digests)) in runs {
        signatures.extend(run_signatures);
        digests.extend(run_digests);
    }
    Ok((signatures, digests))
}

/// Buffers of a thread that hashes.
struct Scratch {
    packets: Vec<u8>,
    stride: usize,
    signature: Vec<u8>,
}

impl Scratch {
    fn new(layout: &Layout, seal: &Seal<'_>) -> Self {
        let stride = layout.packet_len_max(seal);
        let count = usize::try_from(RUN.min(layout.final_segment + 1)).unwrap_or(1);
        Self { packets: vec![0; stride * count], stride, signature: Vec::new() }
    }

    fn hash_run(
        &mut self,
        file: &File,
        layout: &Layout,
        seal: &Seal<'_>,
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
        read_run(file, layout.extent(first).0, &mut contents)?;
        let (mut signatures, mut digests) = (Vec::new(), Vec::new());
        for (slot, out) in slots.iter().zip(self.packets.chunks_mut(self.stride)) {
            let range = seal.close(slot, out, &mut self.signature)?;
            let packet = &out[range];
            // The value of DigestSha256 ends the packet.
            let signature = packet.last_chunk::<SHA256_LEN>().copied().unwrap_or_default();
            signatures.push(signature);
            digests.push(sha256(packet));
        }
        Ok((signatures, digests))
    }
}

/// Makes the nodes from the leaves up.
fn nodes(
    name: &Name,
    layout: &Layout,
    limits: &PacketLimits,
    signer: &dyn Signer,
    tree: &Tree,
    mut digests: Vec<Sha256Digest>,
) -> Result<Vec<Vec<u8>>, BuildFailure> {
    let packet = |number: u64, content: &[u8], signer: &dyn Signer| {
        let mut full = name.clone();
        full.push_segment(number);
        let data = DataBuilder::new(&full)
            .content_type(ContentType::MANIFEST)
            .freshness_ms(limits.freshness_ms)
            .final_segment(tree.nodes() - 1)
            .content(content);
        sign_data(&data, signer)
    };
    let too_large = |_| BuildFailure::TooLarge;
    let mut packets = vec![Vec::new(); usize::try_from(tree.nodes()).map_err(too_large)?];
    let fanout = usize::try_from(tree.fanout).map_err(too_large)?;
    for level in 0..tree.levels.len() {
        let mut above = Vec::new();
        for (number, listed) in (tree.first_of(level)..).zip(digests.chunks(fanout)) {
            let node = packet(number, listed.as_flattened(), &DigestSigner)?;
            above.push(sha256(&node));
            packets[usize::try_from(number).map_err(too_large)?] = node;
        }
        digests = above;
    }
    let root = Root {
        name: layout.name.clone(),
        size: layout.size,
        segment_size: u64::try_from(layout.segment_len).map_err(too_large)?,
        fanout: tree.fanout,
        digests,
    };
    packets[0] = packet(0, &root.encode(), signer)?;
    Ok(packets)
}
