//! Service: from a batch of requests for one path to their answers. Runs on the server's threads.

use std::ffi::OsStr;
use std::io::IoSliceMut;
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ndn_client::{AnswerBatch, Request};
use ndn_packet::{ContentType, DataBuilder, Name};
use ndn_security::{DigestSigner, Sha256Digest, SignError, Signer, sha256_each, sign_data};
use ndn_types::Timestamp;

use crate::cache::{Key, Lru};
use crate::counters::{Counters, Event, Observer};
use crate::listing::encode_listing;
use crate::manifest::{
    BuildFailure, Built, DigestDirectory, Hashing, SegmentDigests, Source, Store, build, build_of,
    digests_of_leaf, leaf_fanout, leaves_name, manifest_name, signed_leaf, store_for,
};
use crate::metadata::{FileMetadata, SignedLeaves};
use crate::not_served::{NotServed, Reason, not_served};
use crate::packet::{Layout, PacketLimits, PreparedSigner, Slot, hash_packets};
use crate::path::path_of;
use crate::preparations::{Building, Preparations};
use crate::refusal_reason::nack_content;
use crate::request::{LIST, Requested};
use crate::schedule::{Limits, Schedule};
use crate::source::{FileSource, ListFailure, OpenFailure, Opened};
use crate::stat::{FileKind, FileStat};
use crate::versions::{Origin, Versions};

/// Number of attempts if a file changes while it is read.
pub(crate) const ATTEMPTS_MAX: usize = 2;
/// Files of at most this many segments have the root of their manifest in their metadata.
const METADATA_ROOT_SEGMENTS_MAX: u64 = 8;
/// Maximum number of bytes of a metadata packet besides the file's name, the content and the
/// signature, including the link header of forwarders.
const METADATA_REST: usize = 128;
/// Memory of a manifest besides its nodes and digests.
const WEIGHT_REST: usize = 1024;
/// Digests of files of fewer segments are collected in memory before they are stored: 4 MiB.
const PREPARED_IN_MEMORY_MAX: u64 = 1 << 16;
/// Bytes of signed leaves in memory.
const SIGNED_LEAVES_BYTES_MAX: usize = 4 << 20;
/// Digests of files whose manifests are not complete: for a million segments, 8 GiB at the default length.
const SEGMENT_DIGESTS_BYTES_MAX: usize = 65 << 20;
/// Signed leaves of one file that are made before another file has its turn.
const SIGNED_LEAVES_BATCH: usize = 4;
/// A manifest that is ready within this time is not announced as being prepared.
const PREPARATION_MS_MIN: u64 = 1000;

/// Outcome of the preparation of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// Its digests are stored.
    Stored,
    /// There is no room for its digests beside those in use; it was not hashed.
    NoRoom,
    /// The file cannot be read, or its digests cannot be stored.
    Failed,
    /// It changed meanwhile, or another thread is preparing it: the next walk finds it again.
    Later,
}

/// A queued request.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) request: Request,
    pub(crate) mount: Arc<MountPoint>,
    /// Number of components of the mount and of the path.
    pub(crate) path_end: usize,
    pub(crate) requested: Requested,
}

/// A directory under a prefix, or a file of it.
#[derive(Debug)]
pub(crate) struct MountPoint {
    pub(crate) prefix: Name,
    pub(crate) source: Arc<dyn FileSource>,
    pub(crate) origin: Origin,
    /// The file that the prefix names.
    pub(crate) file: Option<PathBuf>,
    pub(crate) limits: PacketLimits,
}

/// An open regular file, with the segments of one version.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) opened: Opened,
    version: u64,
    pub(crate) layout: Layout,
    checked: Timestamp,
}

/// State shared by the server's threads.
pub(crate) struct Service {
    /// Signs everything but the segments of files.
    pub(crate) signer: Arc<dyn Signer>,
    /// Signs the segments of files: DigestSha256 where there are manifests.
    pub(crate) segment_signer: Arc<dyn Signer>,
    pub(crate) manifests: Option<ManifestCache>,
    versions: Versions,
    pub(crate) counters: Counters,
    pub(crate) preparations: Preparations,
    pub(crate) not_served: NotServed,
    /// Is given the name and the outcome of each Interest for metadata, and of each that was refused.
    pub(crate) observer: Option<Observer>,
    pub(crate) metadata_freshness_ms: u64,
    /// Time for which an open file is used without checking its path.
    pub(crate) stat_validity: Duration,
    files: Mutex<Lru<Arc<OpenFile>>>,
    listings: Mutex<Lru<Arc<Listing>>>,
}

/// Buffers of one thread.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) answers: AnswerBatch,
    pub(crate) signature: Vec<u8>,
}

impl Service {
    pub(crate) fn new(
        signer: Arc<dyn Signer>,
        manifests: Option<ManifestCache>,
        versions: Versions,
        metadata_freshness_ms: u64,
        stat_validity: Duration,
        files_max: usize,
        listing_bytes_max: usize,
    ) -> Self {
        let segment_signer: Arc<dyn Signer> = match manifests {
            Some(_) => Arc::new(DigestSigner),
            None => Arc::clone(&signer),
        };
        Self {
            signer,
            segment_signer,
            manifests,
            versions,
            counters: Counters::default(),
            preparations: Preparations::default(),
            not_served: NotServed::default(),
            observer: None,
            metadata_freshness_ms,
            stat_validity,
            files: Mutex::new(Lru::new(files_max)),
            listings: Mutex::new(Lru::new(listing_bytes_max)),
        }
    }

    fn files(&self) -> MutexGuard<'_, Lru<Arc<OpenFile>>> {
        lock(&self.files)
    }

    pub(crate) fn listings(&self) -> MutexGuard<'_, Lru<Arc<Listing>>> {
        lock(&self.listings)
    }

    /// Answers `jobs`, all for the path `key`.
    pub(crate) fn serve(&self, key: &Key, jobs: &mut Vec<Job>, scratch: &mut Scratch) {
        let Some(first) = jobs.first() else { return };
        let target = Target::of(first, key);
        let mut segments: Vec<(u64, u64, Job)> = Vec::with_capacity(jobs.len());
        for job in jobs.drain(..) {
            match job.requested {
                Requested::Segment { version, segment } => segments.push((version, segment, job)),
                Requested::First { version } => match self.version_of(&target, version) {
                    Some(version) => segments.push((version, 0, job)),
                    // Such as a directory.
                    None => self.counters.add(Event::Unrecognised, 1),
                },
                Requested::Metadata | Requested::ListMetadata => {
                    let content = target.as_ref().map_err(|refused| *refused);
                    let content = content.and_then(|target| self.metadata(target, job.requested));
                    self.answer_metadata(&job, content, scratch);
                }
                Requested::MissingCatalogue => {
                    self.answer_metadata(&job, Err(OpenFailure::NotFound.into()), scratch);
                }
                Requested::Manifest { version, node } => {
                    let target = target.as_ref().map_err(|refused| *refused);
                    self.answer_node(target, version, node, job, scratch);
                }
                Requested::Leaf { version, leaf } => {
                    let target = target.as_ref().map_err(|refused| *refused);
                    self.queue_leaf(target, version, leaf, job, scratch);
                }
                Requested::ListSegment { version, segment } => {
                    if let Err(refused) =
                        target.as_ref().map_err(|refused| *refused).and_then(|target| {
                            self.list_segment(target, version, segment, &job, scratch)
                        })
                    {
                        self.refuse(&job.request, refused, scratch);
                    }
                }
            }
        }
        match target {
            Ok(target) => self.segments(&target, segments, scratch),
            Err(refused) => {
                for (_, _, job) in segments {
                    self.refuse(&job.request, Rejection::silently(refused.event), scratch);
                }
            }
        }
        scratch.answers.send();
    }

    /// `result` of the source of a target, after it was logged that the target cannot be read, if that is so.
    fn noted<T, E: Into<ListFailure> + Copy>(
        &self,
        target: &Target<'_>,
        result: Result<T, E>,
    ) -> Result<T, E> {
        result.inspect_err(|failure| {
            if (*failure).into() == ListFailure::Open(OpenFailure::Denied) {
                let source = target.mount.source.as_ref();
                self.not_served.note(source, &target.path, Reason::Denied);
            }
        })
    }

    /// The given version, or that of the file; `None` without a file.
    fn version_of(
        &self,
        target: &Result<Target<'_>, Rejection>,
        version: Option<u64>,
    ) -> Option<u64> {
        let current = || Some(self.file(target.as_ref().ok()?, None).ok()?.version);
        version.or_else(current)
    }

    /// Counts a rejection, and sends an application Nack if requested.
    pub(crate) fn refuse(&self, request: &Request, refused: Rejection, scratch: &mut Scratch) {
        self.counters.add(refused.event, 1);
        self.observe(request, refused.event);
        if refused.sends_nack {
            let name = request.name().to_name();
            let reason = nack_content(refused.event);
            self.answer_with(request, &name, ContentType::NACK, reason, scratch);
        }
    }

    fn observe(&self, request: &Request, event: Event) {
        if let Some(observer) = &self.observer {
            observer(request.name(), event);
        }
    }

    /// Signs and sends a Data that is not a segment.
    fn answer_with(
        &self,
        request: &Request,
        name: &Name,
        content_type: ContentType,
        content: &[u8],
        scratch: &mut Scratch,
    ) {
        let data = DataBuilder::new(name)
            .content_type(content_type)
            .freshness_ms(self.metadata_freshness_ms)
            .content(content);
        let data = match name.as_ref().last().and_then(|last| last.as_segment()) {
            Some(0) if content_type != ContentType::NACK => data.final_segment(0),
            _ => data,
        };
        match sign_data(&data, self.signer.as_ref()) {
            Ok(packet) if packet.len() <= ndn_packet::MAX_PACKET_SIZE => {
                let nack = content_type == ContentType::NACK;
                self.counters.add(if nack { Event::Nack } else { Event::Metadata }, 1);
                scratch.answers.push(request, &packet);
            }
            Ok(_) => self.counters.add(Event::Failed, 1),
            Err(error) => {
                self.counters.add(Event::Failed, 1);
                tracing::warn!(%name, %error, "an answer cannot be made");
            }
        }
    }

    fn answer_metadata(
        &self,
        job: &Job,
        metadata: Result<FileMetadata, Rejection>,
        scratch: &mut Scratch,
    ) {
        // The Interest's name ends in 32=metadata.
        let mut name = job.request.name().to_name();
        name.push_version(crate::real_time::unix_ns()).push_segment(0);
        match metadata {
            Ok(metadata) => {
                let content = metadata.encode();
                self.observe(&job.request, Event::Metadata);
                self.answer_with(&job.request, &name, ContentType::BLOB, &content, scratch);
            }
            Err(refused) => {
                self.counters.add(refused.event, 1);
                self.observe(&job.request, refused.event);
                if refused.sends_nack {
                    let reason = nack_content(refused.event);
                    self.answer_with(&job.request, &name, ContentType::NACK, reason, scratch);
                }
            }
        }
    }

    fn metadata(
        &self,
        target: &Target<'_>,
        requested: Requested,
    ) -> Result<FileMetadata, Rejection> {
        let stat = self.noted(target, target.mount.source.stat(&target.path))?;
        if stat.kind == FileKind::Directory {
            // A listing that cannot be read is never announced, either.
            self.noted(target, target.mount.source.check_directory(&target.path))?;
            // Both kinds of metadata name the listing.
            let version = self.version(&target.mount, &target.name, &stat);
            return Ok(FileMetadata::new(target.listing_name(version), &stat, None));
        }
        if requested == Requested::ListMetadata {
            return Err(OpenFailure::NotFound.into());
        }
        // Opened, so that a version that cannot be read is never announced.
        let file = self.file(target, Some(&stat))?;
        let segment_size = u64::try_from(file.layout.segment_len).unwrap_or(u64::MAX);
        let segments = (segment_size, file.layout.final_segment);
        let name = file.layout.name.clone();
        let manifest = self.has_manifest(&file.layout).then(|| manifest_name(&name));
        let preparation_ms = manifest.as_ref().and_then(|_| self.preparation_ms(&file));
        let limits = &target.mount.limits;
        let lacks_manifest = preparation_ms.is_some() || manifest.is_none();
        let signed_leaves = lacks_manifest.then(|| self.signed_leaves(&file, limits)).flatten();
        let metadata = FileMetadata::new(name, &file.opened.stat, Some(segments));
        let metadata = FileMetadata { manifest, preparation_ms, signed_leaves, ..metadata };
        Ok(self.with_root(metadata, &file, &target.mount.limits))
    }

    /// The open file at a target. `now` is what its path refers to now, if known.
    pub(crate) fn file(
        &self,
        target: &Target<'_>,
        now: Option<&FileStat>,
    ) -> Result<Arc<OpenFile>, Rejection> {
        let cached = self.files().find(target.key).map(Arc::clone);
        let checked = crate::real_time::now();
        if let Some(file) = cached {
            let recent = checked - file.checked < self.stat_validity;
            let same = match now {
                Some(now) => now.is_same_content(&file.opened.stat),
                None if recent => true,
                None => target.mount.source.stat(&target.path)?.is_same_content(&file.opened.stat),
            };
            if same && recent {
                return Ok(file);
            }
            self.files().remove(target.key);
        }
        let opened = self.noted(target, target.mount.source.open_file(&target.path))?;
        self.counters.add(Event::Opened, 1);
        let version = self.version(&target.mount, &target.name, &opened.stat);
        let layout = self
            .layout(&target.mount, &target.name, version, opened.stat.size)
            .ok_or(Rejection { event: Event::RefusedPath, sends_nack: true })?;
        let file = Arc::new(OpenFile { opened, version, layout, checked });
        self.files().insert(target.key, Arc::clone(&file), 1);
        Ok(file)
    }

    /// The open file at a target, if it is of this version.
    fn file_of_version(
        &self,
        target: &Target<'_>,
        version: u64,
    ) -> Result<Arc<OpenFile>, Rejection> {
        let file = self.file(target, None)?;
        let current = file.version;
        if version == current { Ok(file) } else { Err(Rejection::wrong_version(version, current)) }
    }

    /// The segments of a version of a file; `None` if its name is too long.
    pub(crate) fn layout(
        &self,
        point: &MountPoint,
        name: &Name,
        version: u64,
        size: u64,
    ) -> Option<Layout> {
        let mut name = name.clone();
        name.push_version(version);
        Layout::new(name, size, &point.limits, &self.segment_seal().ok()?)
    }

    pub(crate) fn seal(&self) -> Result<PreparedSigner<'_>, Rejection> {
        PreparedSigner::new(self.signer.as_ref()).map_err(|_| Rejection::silently(Event::Failed))
    }

    fn segment_seal(&self) -> Result<PreparedSigner<'_>, Rejection> {
        PreparedSigner::new(self.segment_signer.as_ref())
            .map_err(|_| Rejection::silently(Event::Failed))
    }

    /// Answers the segments of one file, together.
    fn segments(
        &self,
        target: &Target<'_>,
        mut requests: Vec<(u64, u64, Job)>,
        scratch: &mut Scratch,
    ) {
        if requests.is_empty() {
            return;
        }
        requests.sort_by_key(|(version, segment, _)| (*version, *segment));
        for _ in 0..ATTEMPTS_MAX {
            let file = match self.file(target, None) {
                Ok(file) => file,
                Err(refused) => {
                    // A missing file may come back in the same version.
                    let refused = Rejection::silently(refused.event);
                    requests
                        .iter()
                        .for_each(|(_, _, job)| self.refuse(&job.request, refused, scratch));
                    return;
                }
            };
            self.refuse_others(&file, &mut requests, scratch);
            match self.read_and_send(&file, &requests, scratch) {
                Ok(true) => return,
                Ok(false) => {
                    // It has changed.
                    self.counters.add(Event::Changed, 1);
                    self.files().remove(target.key);
                }
                Err(refused) => {
                    requests
                        .iter()
                        .for_each(|(_, _, job)| self.refuse(&job.request, refused, scratch));
                    return;
                }
            }
        }
    }

    /// Rejects requests for segments that the file does not have.
    fn refuse_others(
        &self,
        file: &OpenFile,
        requests: &mut Vec<(u64, u64, Job)>,
        scratch: &mut Scratch,
    ) {
        let current = file.version;
        requests.retain(|(version, segment, job)| {
            let refused = if *version != current {
                Rejection::wrong_version(*version, current)
            } else if *segment > file.layout.final_segment {
                // A fetcher that does not know the end yet requests segments beyond it.
                Rejection::silently(Event::BeyondEnd)
            } else {
                return true;
            };
            self.refuse(&job.request, refused, scratch);
            false
        });
    }

    /// Reads, checks that the file has not changed, signs, sends; returns false if it has changed.
    fn read_and_send(
        &self,
        file: &OpenFile,
        requests: &[(u64, u64, Job)],
        scratch: &mut Scratch,
    ) -> Result<bool, Rejection> {
        let failed = |_| Rejection::silently(Event::Failed);
        let seal = self.segment_seal()?;
        let Some((_, _, first)) = requests.first() else {
            return Ok(true);
        };
        // Packets are built in the send buffer, each with room for its link header.
        let mut buffer = AnswerBatch::buffer(&first.request);
        let stride = Request::HEADER_LEN_MAX + file.layout.packet_len_max(&seal);
        if buffer.len() < stride * requests.len() {
            buffer.resize(stride * requests.len(), 0);
        }
        let mut slots = Vec::with_capacity(requests.len());
        for ((_, segment, _), out) in requests.iter().zip(buffer.chunks_mut(stride)) {
            let out = &mut out[Request::HEADER_LEN_MAX..];
            slots.push((*segment, file.layout.lay_out(*segment, &seal, out).map_err(failed)?));
        }
        if let Err(error) = fill(file, &slots, stride, &mut buffer) {
            if error.kind() == std::io::ErrorKind::UnexpectedEof {
                return Ok(false);
            }
            tracing::warn!(name = %file.layout.name, %error, "a file cannot be read");
            return Err(Rejection::silently(Event::Failed));
        }
        match still_same(file) {
            Ok(_) => {}
            Err(refused) if refused.event == Event::Changed => return Ok(false),
            Err(refused) => return Err(refused),
        }
        let signatures = self.signatures(file, &slots, stride, &mut buffer).map_err(|error| {
            tracing::warn!(name = %file.layout.name, %error, "segments cannot be signed");
            Rejection::silently(Event::Failed)
        })?;
        let mut content_bytes = 0;
        let mut packets = Vec::with_capacity(requests.len());
        let starts = (0..).step_by(stride);
        for ((((_, slot), known), (_, _, job)), (start, out)) in
            slots.iter().zip(&signatures).zip(requests).zip(starts.zip(buffer.chunks_mut(stride)))
        {
            let packet = &mut out[Request::HEADER_LEN_MAX..];
            let closed = match known {
                Some(known) => seal.close_with(slot, packet, &mut scratch.signature, known),
                None => seal.close(slot, packet, &mut scratch.signature),
            };
            let range = closed.map_err(|error| {
                tracing::warn!(name = %file.layout.name, %error, "a segment cannot be signed");
                Rejection::silently(Event::Failed)
            })?;
            let before = Request::HEADER_LEN_MAX + range.start;
            let header =
                job.request.write_header(range.len(), &mut out[..before]).map_err(failed)?;
            packets.push(start + before - header..start + before + range.len());
            content_bytes += u64::try_from(slot.content.len()).unwrap_or(0);
        }
        // Counted before they are sent, so that the counter includes every answer received.
        self.counters.add(Event::Segment, u64::try_from(requests.len()).unwrap_or(0));
        self.counters.add_content(content_bytes);
        scratch.answers.send_buffer(&first.request, buffer, packets);
        Ok(true)
    }

    /// Signatures of the segments in `buffer` that are digests: those that are known, and the others hashed together. `None`
    /// each if a key signs segments.
    fn signatures(
        &self,
        file: &OpenFile,
        slots: &[(u64, Slot)],
        stride: usize,
        buffer: &mut [u8],
    ) -> Result<Vec<Option<Sha256Digest>>, SignError> {
        let Some(manifests) = &self.manifests else { return Ok(vec![None; slots.len()]) };
        let mut signatures = vec![None; slots.len()];
        if let Some(built) = self.built(file) {
            let segments = signatures.iter_mut().zip(slots);
            segments.for_each(|(known, (segment, _))| *known = built.signature(*segment).copied());
        } else if let Some(digests) = manifests.segment_digests(&file.layout, &file.opened.stat)
            && let Some(shared) = self.share_digests(&digests, slots, stride, buffer)?
        {
            signatures = shared.into_iter().map(Some).collect();
        }
        let packets = slots.iter().zip(buffer.chunks(stride));
        let unknown: Vec<&[u8]> = signatures
            .iter()
            .zip(packets)
            .filter(|(known, _)| known.is_none())
            .map(|(_, ((_, slot), out))| slot.signed(&out[Request::HEADER_LEN_MAX..]))
            .collect();
        let mut hashed = sha256_each(&unknown).into_iter();
        for (signature, (_, slot)) in signatures.iter_mut().zip(slots) {
            if signature.is_none() {
                *signature = hashed.next();
                self.counters.add_signed(u64::try_from(slot.content.len()).unwrap_or(0));
            }
        }
        Ok(signatures)
    }

    /// Signatures of the segments in `buffer` from the digests of a file that has no manifest yet. Segments that no other
    /// thread has hashed, or is hashing, are hashed here, for the manifest, too.
    fn share_digests(
        &self,
        digests: &SegmentDigests,
        slots: &[(u64, Slot)],
        stride: usize,
        buffer: &mut [u8],
    ) -> Result<Option<Vec<Sha256Digest>>, SignError> {
        let seal = PreparedSigner::new(&DigestSigner).map_err(SignError::Encode)?;
        let segments = || slots.iter().map(|(segment, _)| *segment);
        for _ in 0..ATTEMPTS_MAX {
            let claim = digests.claim(segments());
            let packets = slots.iter().zip(buffer.chunks_mut(stride));
            let packets =
                packets.map(|((_, slot), out)| (slot, &mut out[Request::HEADER_LEN_MAX..]));
            let hashed = hash_packets(&seal, claim.select(packets), &self.counters)?;
            claim.finish(hashed);
            if let Some(signatures) = digests.signatures(segments()) {
                return Ok(Some(signatures));
            }
        }
        Ok(None)
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("counters", &self.counters).finish_non_exhaustive()
    }
}

/// Reads contents into their positions, runs of segments together.
fn fill(
    file: &OpenFile,
    slots: &[(u64, Slot)],
    stride: usize,
    packets: &mut [u8],
) -> std::io::Result<()> {
    let mut contents =
        slots.iter().zip(packets.chunks_mut(stride)).map(|((segment, slot), out)| {
            let packet = &mut out[Request::HEADER_LEN_MAX..];
            (*segment, IoSliceMut::new(&mut packet[slot.content.clone()]))
        });
    let mut run = Vec::with_capacity(slots.len());
    let Some((mut first, buffer)) = contents.next() else {
        return Ok(());
    };
    run.push(buffer);
    let mut last = first;
    for (segment, buffer) in contents {
        if segment != last + 1 {
            file.opened.file.read(file.layout.extent(first).0, &mut run)?;
            run.clear();
            first = segment;
        }
        run.push(buffer);
        last = segment;
    }
    file.opened.file.read(file.layout.extent(first).0, &mut run)
}

/// Versions.
impl Service {
    /// The version to announce of a file or directory in this state.
    pub(crate) fn version(&self, point: &MountPoint, name: &Name, stat: &FileStat) -> u64 {
        // The times of remote files contain their entity tags.
        if point.source.is_remote() {
            return stat.mtime_ns;
        }
        self.versions.announce(&point.origin, name.as_ref(), stat, crate::real_time::unix_ns())
    }

    /// The version that [`Self::version`] has announced of a file in this state last.
    pub(crate) fn announced(
        &self,
        point: &MountPoint,
        name: &Name,
        stat: &FileStat,
    ) -> Option<u64> {
        if point.source.is_remote() {
            return Some(stat.mtime_ns);
        }
        self.versions.announced(&point.origin, name.as_ref(), stat)
    }
}

/// Directory listings.
impl Service {
    pub(crate) fn list_segment(
        &self,
        target: &Target<'_>,
        version: u64,
        segment: u64,
        job: &Job,
        scratch: &mut Scratch,
    ) -> Result<(), Rejection> {
        let listing = self.listing(target, version)?;
        if segment > listing.layout.final_segment {
            return Err(Rejection::silently(Event::BeyondEnd));
        }
        let seal = self.seal()?;
        let failed = || Rejection::silently(Event::Failed);
        let mut packet = vec![0; listing.layout.packet_len_max(&seal)];
        let slot = listing.layout.lay_out(segment, &seal, &mut packet).map_err(|_| failed())?;
        let (offset, length) = listing.layout.extent(segment);
        let offset = usize::try_from(offset).map_err(|_| failed())?;
        let content = listing.bytes.get(offset..offset + length).ok_or_else(failed)?;
        packet[slot.content.clone()].copy_from_slice(content);
        let range = seal.close(&slot, &mut packet, &mut scratch.signature).map_err(|_| failed())?;
        scratch.answers.push(&job.request, &packet[range]);
        self.counters.add(Event::Segment, 1);
        self.counters.add_content(u64::try_from(length).unwrap_or(0));
        Ok(())
    }

    /// The listing in `version`: cached, or read from the directory if that is its version.
    fn listing(&self, target: &Target<'_>, version: u64) -> Result<Arc<Listing>, Rejection> {
        let name = target.listing_name(version);
        let key: Key = Arc::from(name.value());
        if let Some(listing) = self.listings().find(&key) {
            return Ok(Arc::clone(listing));
        }
        for _ in 0..ATTEMPTS_MAX {
            let stat = target.mount.source.stat(&target.path)?;
            let current = self.version(&target.mount, &target.name, &stat);
            if version != current {
                return Err(Rejection::wrong_version(version, current));
            }
            let listing = match self.noted(target, target.mount.source.list(&target.path)) {
                Ok(listing) if listing.stat.is_same_content(&stat) => listing,
                Ok(_) | Err(ListFailure::Changed) => {
                    self.counters.add(Event::Changed, 1);
                    continue;
                }
                Err(failure) => return Err(failure.into()),
            };
            self.counters.add(Event::Opened, 1);
            let source = target.mount.source.as_ref();
            for (file_name, reason) in not_served(&listing) {
                let path = target.path.join(OsStr::from_bytes(file_name));
                self.not_served.note(source, &path, reason);
            }
            let bytes = encode_listing(listing.entries).ok_or(ListFailure::TooLong)?;
            let seal = self.seal()?;
            let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            let layout = Layout::new(name.clone(), size, &target.mount.limits, &seal)
                .ok_or(Rejection { event: Event::RefusedPath, sends_nack: true })?;
            let weight = bytes.len() + key.len();
            let listing = Arc::new(Listing { bytes, layout });
            self.listings().insert(&key, Arc::clone(&listing), weight);
            return Ok(listing);
        }
        Err(Rejection::silently(Event::Changed))
    }
}

/// Manifests.
impl Service {
    /// Whether a file has a manifest.
    pub(crate) fn has_manifest(&self, layout: &Layout) -> bool {
        self.manifests.as_ref().is_some_and(|manifests| {
            store_for(layout, manifests.bytes_max, manifests.disk.as_ref()).is_some()
        })
    }

    /// Whether a file of this state should have digests on disk before it is requested, and has none.
    pub(crate) fn wants_preparation(&self, layout: &Layout, stat: &FileStat) -> bool {
        let disk = self.manifests.as_ref().and_then(|manifests| manifests.disk.as_ref());
        layout.final_segment >= METADATA_ROOT_SEGMENTS_MAX
            && self.has_manifest(layout)
            && disk.is_some_and(|disk| !disk.has(layout, stat))
    }

    /// Estimated time until the manifest of a file is ready, in milliseconds; `None` if that is soon.
    fn preparation_ms(&self, file: &OpenFile) -> Option<u64> {
        let manifests = self.manifests.as_ref()?;
        let stored = || {
            manifests.disk.as_ref().is_some_and(|disk| disk.has(&file.layout, &file.opened.stat))
        };
        let key: Key = Arc::from(file.layout.name.as_ref().parent().value());
        let estimate_ms = self.preparations.estimate_ms(&key, file.opened.stat.size);
        let is_long = estimate_ms >= PREPARATION_MS_MIN;
        (is_long && self.built(file).is_none() && !stored()).then_some(estimate_ms)
    }

    /// Notes that the stored digests of a file are in use.
    pub(crate) fn note_in_use(&self, layout: &Layout, stat: &FileStat) {
        let disk = self.manifests.as_ref().and_then(|manifests| manifests.disk.as_ref());
        if let Some(disk) = disk.filter(|_| layout.final_segment >= METADATA_ROOT_SEGMENTS_MAX) {
            disk.note_in_use(layout, stat);
        }
    }

    /// Builds and stores the manifest of a file that was not requested yet.
    pub(crate) fn prepare_target(&self, target: &Target<'_>) -> Prepared {
        let Some(manifests) = &self.manifests else { return Prepared::Failed };
        let opened = self.noted(target, target.mount.source.open_file(&target.path));
        let (Some(disk), Ok(opened)) = (&manifests.disk, opened) else {
            return Prepared::Failed;
        };
        let version = self.version(&target.mount, &target.name, &opened.stat);
        let layout = self.layout(&target.mount, &target.name, version, opened.stat.size);
        let Some(layout) = layout.filter(|layout| self.wants_preparation(layout, &opened.stat))
        else {
            return Prepared::Later;
        };
        let Some(building) = self.preparations.begin(target.key, opened.stat.size) else {
            return Prepared::Later;
        };
        let has_room = disk.make_room_unless_in_use(&layout);
        let prepared = match has_room {
            Ok(true) => self.hash_ahead(&target.mount.limits, disk, &opened, &layout, &building),
            Ok(false) => Ok(Prepared::NoRoom),
            Err(error) => Err(error.into()),
        };
        let is_hashed = matches!(prepared, Ok(Prepared::Stored));
        self.preparations.end(target.key, is_hashed);
        prepared.unwrap_or_else(|error| {
            tracing::warn!(name = %layout.name, %error, "a manifest cannot be prepared");
            Prepared::Failed
        })
    }

    /// Hashes a file and stores its digests.
    fn hash_ahead(
        &self,
        limits: &PacketLimits,
        disk: &DigestDirectory,
        opened: &Opened,
        layout: &Layout,
        building: &Building,
    ) -> Result<Prepared, BuildFailure> {
        // Requests come first.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = NonZero::new(processors / 2).unwrap_or(NonZero::<usize>::MIN);
        let hashing = Hashing { threads, done: &building.done };
        let manifests = self.manifests.as_ref();
        // Those of a file that is being fetched.
        let shared = manifests.and_then(|all| all.segment_digests(layout, &opened.stat));
        let source = self.source(opened, layout, shared.as_deref());
        // A tree without leaves is built in memory only.
        let is_small = layout.final_segment < PREPARED_IN_MEMORY_MAX;
        let store = if is_small { Store::Memory } else { Store::Disk };
        let built = build(&source, limits, self.signer.as_ref(), hashing, Some(disk), store);
        if matches!(built, Err(BuildFailure::Changed)) {
            return Ok(Prepared::Later);
        }
        let mut built = built?;
        let unchanged = opened.file.is_unchanged(&opened.stat);
        if !unchanged.map_err(std::io::Error::other)? {
            return Ok(Prepared::Later);
        }
        built.store(Some(disk), layout, &opened.stat)?;
        self.counters.add(Event::ManifestBuilt, 1);
        Ok(Prepared::Stored)
    }

    /// The manifest of a version, if it is built.
    pub(crate) fn built(&self, file: &OpenFile) -> Option<Arc<Built>> {
        let mut manifests = self.manifests.as_ref()?.built();
        let (stat, built) = manifests.find(file.layout.name.value())?;
        // Another file may have the same modification time.
        stat.is_same_content(&file.opened.stat).then(|| Arc::clone(built))
    }

    /// The metadata of a small file, with the content of the root of its manifest: a client that
    /// verifies the metadata needs no further packet and signature. Omitted if it does not fit the
    /// packet.
    pub(crate) fn with_root(
        &self,
        metadata: FileMetadata,
        file: &OpenFile,
        limits: &PacketLimits,
    ) -> FileMetadata {
        let manifest_root = self.only_root(file, limits);
        let with_root = FileMetadata { manifest_root, ..metadata };
        let content_len = with_root.encode().len();
        let fits = self.seal().is_ok_and(|seal| {
            let rest = METADATA_REST + file.layout.name.value().len() + seal.len_max();
            content_len + rest <= limits.packet_len_max
        });
        if fits { with_root } else { FileMetadata { manifest_root: None, ..with_root } }
    }

    /// Content of the root of a small file's manifest, built if necessary; `None` without a
    /// manifest, with further nodes, or if the file has just changed.
    fn only_root(&self, file: &OpenFile, limits: &PacketLimits) -> Option<Vec<u8>> {
        let layout = &file.layout;
        if layout.final_segment >= METADATA_ROOT_SEGMENTS_MAX || !self.has_manifest(layout) {
            return None;
        }
        if let Some(built) = self.built(file) {
            return built.only_root().map(<[u8]>::to_vec);
        }
        let hashing = Hashing { threads: NonZero::<usize>::MIN, done: &AtomicU64::new(0) };
        let (signer, source) = (self.signer.as_ref(), self.source(&file.opened, layout, None));
        // So short a file is as fast to read again as its digests.
        let built = build(&source, limits, signer, hashing, None, Store::Memory).ok()?;
        let root = built.only_root().map(<[u8]>::to_vec);
        self.keep(file, built).ok()?;
        root
    }

    /// Removes the cached manifest of a version.
    fn forget(&self, file: &OpenFile) {
        if let Some(manifests) = &self.manifests {
            manifests.built().remove(file.layout.name.value());
        }
    }

    /// Answers with a node, or queues the request until the manifest is built.
    pub(crate) fn answer_node(
        &self,
        target: Result<&Target<'_>, Rejection>,
        version: u64,
        node: u64,
        job: Job,
        scratch: &mut Scratch,
    ) {
        match target.and_then(|target| self.node(target, version, node, &job, scratch)) {
            Ok(true) => {}
            Ok(false) => {
                let manifests = self.manifests.as_ref();
                let key = job.request.name().prefix(job.path_end).to_name();
                match manifests.map(|manifests| &manifests.waiting) {
                    Some(waiting) if waiting.push(key.value(), job).is_ok() => waiting.wake(),
                    _ => self.counters.add(Event::Overload, 1),
                }
            }
            Err(refused) => self.refuse(&job.request, refused, scratch),
        }
    }

    /// Answers with a node; returns false if the manifest is not built yet.
    fn node(
        &self,
        target: &Target<'_>,
        version: u64,
        node: u64,
        job: &Job,
        scratch: &mut Scratch,
    ) -> Result<bool, Rejection> {
        let file = self.file_of_version(target, version)?;
        if !self.has_manifest(&file.layout) {
            return Err(Rejection { event: Event::NotFound, sends_nack: true });
        }
        let Some(built) = self.built(&file) else {
            return Ok(false);
        };
        let packet = match built.packet(node, self.signer.as_ref()) {
            Ok(packet) => packet.ok_or(Rejection::silently(Event::NotFound))?,
            Err(error) => {
                tracing::warn!(name = %file.layout.name, node, %error, "a node cannot be made");
                // It is rebuilt for the next request.
                self.forget(&file);
                return Err(Rejection::silently(Event::Failed));
            }
        };
        scratch.answers.push(&job.request, &packet);
        self.counters.add(Event::ManifestNode, 1);
        Ok(true)
    }

    /// Builds the manifest that `jobs` wait for, unless it is built already, and answers them.
    pub(crate) fn serve_after_building(
        &self,
        key: &Key,
        jobs: &mut Vec<Job>,
        scratch: &mut Scratch,
    ) {
        let Some(first) = jobs.first() else { return };
        let target = Target::of(first, key);
        let made = target.as_ref().map_err(|refused| *refused).and_then(|target| self.make(target));
        for job in jobs.drain(..) {
            let Requested::Manifest { version, node } = job.requested else { continue };
            let answered = made.and_then(|()| {
                let target = target.as_ref().map_err(|refused| *refused)?;
                self.node(target, version, node, &job, scratch)
            });
            match answered {
                Ok(true) => {}
                // It changed again: the consumer will request the new version.
                Ok(false) => self.counters.add(Event::Changed, 1),
                Err(refused) => self.refuse(&job.request, refused, scratch),
            }
        }
        scratch.answers.send();
    }

    /// Name and fan-out of the signed leaves of a file, for its metadata.
    fn signed_leaves(&self, file: &OpenFile, limits: &PacketLimits) -> Option<SignedLeaves> {
        self.manifests.as_ref()?;
        let fanout = leaf_fanout(&file.layout, limits, self.signer.as_ref())?;
        Some(SignedLeaves { name: leaves_name(&file.layout.name), fanout })
    }

    /// Queues a request for a signed leaf: hashing its segments takes a while. The segments that are sent from now on are
    /// hashed for it, too.
    fn queue_leaf(
        &self,
        target: Result<&Target<'_>, Rejection>,
        version: u64,
        leaf: u64,
        job: Job,
        scratch: &mut Scratch,
    ) {
        let Some(manifests) = &self.manifests else {
            self.counters.add(Event::Unrecognised, 1);
            return;
        };
        let file =
            target.and_then(|target| Ok((target, self.file_with_leaf(target, version, leaf)?)));
        match file {
            Ok((target, file)) => {
                if manifests.waiting_for_leaf.push(target.key, job).is_err() {
                    self.counters.add(Event::Overload, 1);
                    return;
                }
                if self.built(&file).is_none() {
                    manifests.segment_digests_or_new(&file.layout, &file.opened.stat);
                }
                manifests.waiting_for_leaf.wake();
            }
            Err(refused) => self.refuse(&job.request, refused, scratch),
        }
    }

    /// The open file at a target, if it is of this version and has this leaf.
    fn file_with_leaf(
        &self,
        target: &Target<'_>,
        version: u64,
        leaf: u64,
    ) -> Result<Arc<OpenFile>, Rejection> {
        let file = self.file_of_version(target, version)?;
        let fanout = leaf_fanout(&file.layout, &target.mount.limits, self.signer.as_ref());
        let fanout =
            fanout.ok_or_else(|| Self::not_built(&file.layout, &BuildFailure::TooLarge))?;
        if leaf > file.layout.final_segment / fanout {
            return Err(Rejection::silently(Event::BeyondEnd));
        }
        Ok(file)
    }

    /// Answers requests for signed leaves, all for the path `key`.
    pub(crate) fn serve_leaves(&self, key: &Key, jobs: &mut Vec<Job>, scratch: &mut Scratch) {
        let Some(first) = jobs.first() else { return };
        let target = Target::of(first, key);
        for job in jobs.drain(..) {
            let Requested::Leaf { version, leaf } = job.requested else { continue };
            let target = target.as_ref().map_err(|refused| *refused);
            match target.and_then(|target| self.leaf(target, version, leaf)) {
                Ok(packet) => {
                    scratch.answers.push(&job.request, &packet);
                    scratch.answers.send();
                }
                Err(refused) => self.refuse(&job.request, refused, scratch),
            }
        }
        scratch.answers.send();
    }

    /// A signed leaf, from memory or made from the segments that it lists.
    fn leaf(
        &self,
        target: &Target<'_>,
        version: u64,
        leaf: u64,
    ) -> Result<Arc<Vec<u8>>, Rejection> {
        let Some(manifests) = &self.manifests else {
            return Err(Rejection::silently(Event::NotFound));
        };
        let file = self.file_with_leaf(target, version, leaf)?;
        let mut name = leaves_name(&file.layout.name);
        name.push_segment(leaf);
        let key: Key = Arc::from(name.value());
        if let Some((stat, packet)) = manifests.signed_leaves().find(&key)
            && stat.is_same_content(&file.opened.stat)
        {
            return Ok(Arc::clone(packet));
        }
        let limits = &target.mount.limits;
        let failed = |error| Self::not_built(&file.layout, &error);
        let digests = self.leaf_digests(&file, limits, leaf).map_err(failed)?;
        let digests = digests.ok_or(Rejection::silently(Event::BeyondEnd))?;
        let packet = signed_leaf(&file.layout, limits, self.signer.as_ref(), leaf, digests);
        let packet = Arc::new(packet.map_err(failed)?);
        let now = still_same(&file)?;
        self.counters.add(Event::SignedLeaf, 1);
        self.complete_manifest(&file, limits)?;
        let weight = packet.len() + key.len();
        manifests.signed_leaves().insert(&key, (now, Arc::clone(&packet)), weight);
        Ok(packet)
    }

    /// Digests of the segments of a leaf: of the manifest if it is built, or computed; `None` if there is no such leaf.
    fn leaf_digests(
        &self,
        file: &OpenFile,
        limits: &PacketLimits,
        leaf: u64,
    ) -> Result<Option<Vec<Sha256Digest>>, BuildFailure> {
        let (opened, layout) = (&file.opened, &file.layout);
        if let Some(digests) = self.built(file).and_then(|built| built.digests_of_leaf(leaf)) {
            return Ok(Some(digests));
        }
        let manifests = self.manifests.as_ref();
        let shared = manifests.and_then(|all| all.segment_digests_or_new(layout, &opened.stat));
        let source = self.source(opened, layout, shared.as_deref());
        digests_of_leaf(&source, limits, self.signer.as_ref(), leaf)
    }

    /// Makes the manifest of a file if the digests of all of its leaves have just become known.
    fn complete_manifest(&self, file: &OpenFile, limits: &PacketLimits) -> Result<(), Rejection> {
        let layout = &file.layout;
        let Some(manifests) = &self.manifests else { return Ok(()) };
        let store = store_for(layout, manifests.bytes_max, manifests.disk.as_ref());
        if store != Some(Store::Memory) || self.built(file).is_some() {
            return Ok(());
        }
        let digests = manifests.segment_digests(layout, &file.opened.stat);
        let Some(all) = digests.filter(|digests| digests.is_newly_complete()) else {
            return Ok(());
        };
        let all = all.all().ok_or(Rejection::silently(Event::Failed))?;
        let built = build_of(layout, limits, self.signer.as_ref(), all);
        self.store(file, built.map_err(|error| Self::not_built(layout, &error))?)
    }

    fn source<'a>(
        &'a self,
        file: &'a Opened,
        layout: &'a Layout,
        shared: Option<&'a SegmentDigests>,
    ) -> Source<'a> {
        Source { file, layout, shared, counters: &self.counters }
    }

    /// Logs why no manifest, or leaf, of a file could be made.
    fn not_built(layout: &Layout, failure: &BuildFailure) -> Rejection {
        if matches!(failure, BuildFailure::Changed) {
            return Rejection::silently(Event::Changed);
        }
        tracing::warn!(name = %layout.name, error = %failure, "a manifest cannot be made");
        let sends_nack = matches!(failure, BuildFailure::TooLarge);
        Rejection { event: Event::Failed, sends_nack }
    }

    fn make(&self, target: &Target<'_>) -> Result<(), Rejection> {
        let file = self.file(target, None)?;
        let Some(manifests) = &self.manifests else {
            return Err(Rejection::silently(Event::NotFound));
        };
        let (bytes_max, disk) = (manifests.bytes_max, manifests.disk.as_ref());
        let Some(store) = store_for(&file.layout, bytes_max, disk) else {
            return Ok(());
        };
        if self.built(&file).is_some() {
            return Ok(());
        }
        let Some(building) = self.preparations.begin(target.key, file.opened.stat.size) else {
            return Err(Rejection::silently(Event::Preparing));
        };
        let done = self.make_from(&file, &target.mount.limits, &building, store);
        self.preparations.end(target.key, matches!(done, Ok(true)));
        done.map(|_| ())
    }

    /// Builds, stores and caches a manifest. Returns whether the file was hashed.
    fn make_from(
        &self,
        file: &OpenFile,
        limits: &PacketLimits,
        building: &Building,
        store: Store,
    ) -> Result<bool, Rejection> {
        let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        let disk = self.manifests.as_ref().and_then(|manifests| manifests.disk.as_ref());
        let (opened, layout) = (&file.opened, &file.layout);
        let hashing = Hashing { threads, done: &building.done };
        let manifests = self.manifests.as_ref().filter(|_| store == Store::Memory);
        let shared = manifests.and_then(|all| all.segment_digests_or_new(layout, &opened.stat));
        let source = self.source(opened, layout, shared.as_deref());
        let built = build(&source, limits, self.signer.as_ref(), hashing, disk, store);
        let built = built.map_err(|error| Self::not_built(layout, &error))?;
        let is_hashed = !built.is_from_disk();
        self.store(file, built)?;
        Ok(is_hashed)
    }

    /// Stores and caches a built manifest, unless the file has changed meanwhile.
    fn store(&self, file: &OpenFile, mut built: Built) -> Result<(), Rejection> {
        let disk = self.manifests.as_ref().and_then(|manifests| manifests.disk.as_ref());
        let now = still_same(file)?;
        if let Err(error) = built.store(disk, &file.layout, &now) {
            tracing::warn!(name = %file.layout.name, %error, "the digests cannot be stored");
        }
        self.keep(file, built)
    }

    /// Caches a built manifest, unless the file has changed meanwhile.
    fn keep(&self, file: &OpenFile, built: Built) -> Result<(), Rejection> {
        let Some(manifests) = &self.manifests else {
            return Err(Rejection::silently(Event::NotFound));
        };
        let now = still_same(file)?;
        let from_disk = built.is_from_disk();
        self.counters.add(if from_disk { Event::ManifestLoaded } else { Event::ManifestBuilt }, 1);
        let key: Key = Arc::from(file.layout.name.value());
        // A manifest that fills the whole cache is kept, too.
        let weight = (built.weight() + key.len() + WEIGHT_REST).min(manifests.bytes_max);
        manifests.built().insert(&key, (now, Arc::new(built)), weight);
        manifests.all_segment_digests().remove(&key);
        Ok(())
    }
}

/// A directory's listing in one version.
#[derive(Debug)]
pub(crate) struct Listing {
    bytes: Vec<u8>,
    layout: Layout,
}

/// Built manifests, and requests for those not built yet.
#[derive(Debug)]
pub(crate) struct ManifestCache {
    /// By the name with version; each with the state of its file.
    built: Mutex<Lru<(FileStat, Arc<Built>)>>,
    bytes_max: usize,
    disk: Option<DigestDirectory>,
    pub(crate) waiting: Schedule<Job>,
    /// Signed leaves by name, each with the state of its file.
    signed_leaves: Mutex<Lru<(FileStat, Arc<Vec<u8>>)>>,
    /// Digests of files whose manifests are not complete, by the name with version.
    segment_digests: Mutex<Lru<(FileStat, Arc<SegmentDigests>)>>,
    pub(crate) waiting_for_leaf: Schedule<Job>,
}

impl ManifestCache {
    pub(crate) fn new(bytes_max: usize, limits: Limits, disk: Option<DigestDirectory>) -> Self {
        let built = Mutex::new(Lru::new(bytes_max));
        let signed_leaves = Mutex::new(Lru::new(SIGNED_LEAVES_BYTES_MAX));
        let segment_digests = Mutex::new(Lru::new(SEGMENT_DIGESTS_BYTES_MAX));
        let waiting_for_leaf = Schedule::new(Limits { batch: SIGNED_LEAVES_BATCH, ..limits });
        let waiting = Schedule::new(limits);
        Self { built, bytes_max, disk, waiting, signed_leaves, segment_digests, waiting_for_leaf }
    }

    fn all_segment_digests(&self) -> MutexGuard<'_, Lru<(FileStat, Arc<SegmentDigests>)>> {
        lock(&self.segment_digests)
    }

    /// Digests of the segments of a version, while its manifest is not complete and leaves of it were requested.
    fn segment_digests(&self, layout: &Layout, stat: &FileStat) -> Option<Arc<SegmentDigests>> {
        let mut all = self.all_segment_digests();
        let (of, digests) = all.find(layout.name.value())?;
        of.is_same_content(stat).then(|| Arc::clone(digests))
    }

    /// The same, and without digests if there are none yet; `None` if they have no room.
    fn segment_digests_or_new(
        &self,
        layout: &Layout,
        stat: &FileStat,
    ) -> Option<Arc<SegmentDigests>> {
        let weight = SegmentDigests::weight(layout);
        if weight > SEGMENT_DIGESTS_BYTES_MAX {
            return None;
        }
        let mut all = self.all_segment_digests();
        if let Some((of, digests)) = all.find(layout.name.value())
            && of.is_same_content(stat)
        {
            return Some(Arc::clone(digests));
        }
        let new = Arc::new(SegmentDigests::new(0..layout.final_segment + 1)?);
        let key: Key = Arc::from(layout.name.value());
        let is_in_use = |of: &(FileStat, Arc<SegmentDigests>)| Arc::strong_count(&of.1) > 1;
        all.insert_sparing(&key, (*stat, Arc::clone(&new)), weight, is_in_use);
        Some(new)
    }

    fn signed_leaves(&self) -> MutexGuard<'_, Lru<(FileStat, Arc<Vec<u8>>)>> {
        lock(&self.signed_leaves)
    }

    fn built(&self) -> MutexGuard<'_, Lru<(FileStat, Arc<Built>)>> {
        lock(&self.built)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State of a file, if it has not changed since it was opened.
fn still_same(file: &OpenFile) -> Result<FileStat, Rejection> {
    let stat = file.opened.stat;
    let failed = |failure: OpenFailure| Rejection::silently(failure.into());
    let same = file.opened.file.is_unchanged(&stat).map_err(failed)?;
    same.then_some(stat).ok_or(Rejection::silently(Event::Changed))
}

/// Why a request gets no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) event: Event,
    /// Whether to send an application Nack.
    pub(crate) sends_nack: bool,
}

impl Rejection {
    pub(crate) fn silently(event: Event) -> Self {
        Self { event, sends_nack: false }
    }

    /// An older version does not come back; a newer one may appear.
    fn wrong_version(version: u64, current: u64) -> Self {
        Self { event: Event::WrongVersion, sends_nack: version < current }
    }
}

impl From<OpenFailure> for Rejection {
    fn from(failure: OpenFailure) -> Self {
        // Transient failures are left to the consumer's retransmission.
        Self { event: failure.into(), sends_nack: !matches!(failure, OpenFailure::Other(_)) }
    }
}

impl From<ListFailure> for Rejection {
    fn from(failure: ListFailure) -> Self {
        match failure {
            ListFailure::Open(failure) => failure.into(),
            ListFailure::TooLong => Self { event: Event::Failed, sends_nack: true },
            ListFailure::Changed => Self::silently(Event::Changed),
        }
    }
}

/// Target of a request.
pub(crate) struct Target<'a> {
    pub(crate) key: &'a Key,
    pub(crate) mount: Arc<MountPoint>,
    /// Name of the file, without version.
    pub(crate) name: Name,
    pub(crate) path: PathBuf,
}

impl<'a> Target<'a> {
    pub(crate) fn of(job: &Job, key: &'a Key) -> Result<Self, Rejection> {
        let name = job.request.name();
        let name = name.prefix(job.path_end);
        let mount = Arc::clone(&job.mount);
        let below = name.suffix(mount.prefix.len());
        let path = match &mount.file {
            Some(file) if below.is_empty() => file.clone(),
            Some(_) => return Err(OpenFailure::NotFound.into()),
            None => path_of(below, mount.source.serves_hidden())
                .map_err(|refusal| Rejection { event: refusal.into(), sends_nack: true })?,
        };
        Ok(Self { key, mount, name: name.to_name(), path })
    }

    pub(crate) fn listing_name(&self, version: u64) -> Name {
        let mut name = self.name.clone();
        name.push(LIST).push_version(version);
        name
    }
}
