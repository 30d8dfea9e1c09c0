//! Serving: from a batch of requests for one path to their answers. Runs on the server's threads.

use std::io::IoSliceMut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ndn_client::{AnswerBatch, Request};
use ndn_packet::{ContentType, DataBuilder, Name};
use ndn_security::{DigestSigner, Signer, sign_data};

use crate::cache::{Key, Lru};
use crate::counters::{Counters, Event};
use crate::manifest::manifest_name;
use crate::metadata::FileMetadata;
use crate::packet::{Layout, PacketLimits, Seal, Slot};
use crate::place::{Place, Refused, failed_to_stat};
use crate::read::read_run;
use crate::request::Wanted;
use crate::root::{OpenFailure, Opened, Root};
use crate::serve_list::Listing;
use crate::serve_manifest::ManifestCache;
use crate::stat::{FileKind, FileStat};

/// Attempts at what changes while it is being read.
pub(crate) const ATTEMPTS_MAX: usize = 2;

/// A request that waits to be served.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) request: Request,
    pub(crate) mount: Arc<MountPoint>,
    /// Number of components of the mount and of the path.
    pub(crate) path_end: usize,
    pub(crate) wanted: Wanted,
}

/// A directory under a prefix.
#[derive(Debug)]
pub(crate) struct MountPoint {
    pub(crate) prefix: Name,
    pub(crate) root: Root,
    pub(crate) limits: PacketLimits,
}

/// A regular file that is open, with one version's segments.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) opened: Opened,
    pub(crate) layout: Layout,
    checked_ns: u64,
}

/// What the server's threads share.
pub(crate) struct Service {
    /// Signs everything but the segments of files.
    pub(crate) signer: Arc<dyn Signer>,
    /// Signs the segments of files: DigestSha256 where there are manifests.
    pub(crate) segment_signer: Arc<dyn Signer>,
    pub(crate) manifests: Option<ManifestCache>,
    pub(crate) counters: Counters,
    pub(crate) metadata_freshness_ms: u64,
    /// How long an open file is used without a look at what its path leads to.
    pub(crate) stat_validity_ns: u64,
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
        metadata_freshness_ms: u64,
        stat_validity_ns: u64,
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
            counters: Counters::default(),
            metadata_freshness_ms,
            stat_validity_ns,
            files: Mutex::new(Lru::new(files_max)),
            listings: Mutex::new(Lru::new(listing_bytes_max)),
        }
    }

    fn files(&self) -> MutexGuard<'_, Lru<Arc<OpenFile>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn listings(&self) -> MutexGuard<'_, Lru<Arc<Listing>>> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers `jobs`, which are for the one path `key`.
    pub(crate) fn serve(&self, key: &Key, jobs: &mut Vec<Job>, scratch: &mut Scratch) {
        let Some(first) = jobs.first() else { return };
        let place = Place::of(first, key);
        let mut segments: Vec<(u64, u64, Job)> = Vec::with_capacity(jobs.len());
        for job in jobs.drain(..) {
            match job.wanted {
                Wanted::Segment { version, segment } => segments.push((version, segment, job)),
                Wanted::Metadata | Wanted::ListMetadata => {
                    let content = place.as_ref().map_err(|refused| *refused);
                    let content = content.and_then(|place| self.metadata(place, job.wanted));
                    self.answer_metadata(&job, content, scratch);
                }
                Wanted::Manifest { version, node } => {
                    let place = place.as_ref().map_err(|refused| *refused);
                    self.answer_node(place, version, node, job, scratch);
                }
                Wanted::ListSegment { version, segment } => {
                    if let Err(refused) = place
                        .as_ref()
                        .map_err(|refused| *refused)
                        .and_then(|place| self.list_segment(place, version, segment, &job, scratch))
                    {
                        self.refuse(&job.request, refused, scratch);
                    }
                }
            }
        }
        match place {
            Ok(place) => self.segments(&place, segments, scratch),
            Err(refused) => {
                for (_, _, job) in segments {
                    self.refuse(&job.request, Refused::silently(refused.event), scratch);
                }
            }
        }
        scratch.answers.send();
    }

    /// Counts, and tells the consumer where that is wanted.
    pub(crate) fn refuse(&self, request: &Request, refused: Refused, scratch: &mut Scratch) {
        self.counters.add(refused.event, 1);
        if refused.tell {
            let name = request.name().to_name();
            self.answer_with(request, &name, ContentType::NACK, &[], scratch);
        }
    }

    /// Signs and sends a Data that is no segment.
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
        metadata: Result<FileMetadata, Refused>,
        scratch: &mut Scratch,
    ) {
        // The Interest's name ends in 32=metadata.
        let mut name = job.request.name().to_name();
        let now = ndn_sys::clock::wall_clock().as_nanos();
        name.push_version(u64::try_from(now).unwrap_or(u64::MAX)).push_segment(0);
        match metadata {
            Ok(metadata) => {
                let content = metadata.encode();
                self.answer_with(&job.request, &name, ContentType::BLOB, &content, scratch);
            }
            Err(refused) => {
                self.counters.add(refused.event, 1);
                if refused.tell {
                    self.answer_with(&job.request, &name, ContentType::NACK, &[], scratch);
                }
            }
        }
    }

    fn metadata(&self, place: &Place<'_>, wanted: Wanted) -> Result<FileMetadata, Refused> {
        let stat = place.mount.root.stat(&place.path)?;
        if stat.kind == FileKind::Directory {
            // Both kinds of metadata name the listing.
            return Ok(FileMetadata::new(place.listing_name(stat.mtime_ns), &stat, None));
        }
        if wanted == Wanted::ListMetadata {
            return Err(OpenFailure::NotFound.into());
        }
        // It is opened so that nobody is told of a version that cannot be read.
        let file = self.file(place, Some(&stat))?;
        let segment_size = u64::try_from(file.layout.segment_len).unwrap_or(u64::MAX);
        let segments = (segment_size, file.layout.final_segment);
        let name = file.layout.name.clone();
        let manifest = self.has_manifest(&file.layout).then(|| manifest_name(&name));
        let metadata = FileMetadata::new(name, &file.opened.stat, Some(segments));
        let metadata = FileMetadata { manifest, ..metadata };
        Ok(self.with_root(metadata, &file, &place.mount.limits))
    }

    /// The file at a place, open. `now` is what its path leads to just now, where that is known.
    pub(crate) fn file(
        &self,
        place: &Place<'_>,
        now: Option<&FileStat>,
    ) -> Result<Arc<OpenFile>, Refused> {
        let cached = self.files().find(place.key).map(Arc::clone);
        let now_ns = ndn_sys::clock::now();
        if let Some(file) = cached {
            let recent = now_ns.saturating_sub(file.checked_ns) < self.stat_validity_ns;
            let same = match now {
                Some(now) => now.is_same_content(&file.opened.stat),
                None if recent => true,
                None => place.mount.root.stat(&place.path)?.is_same_content(&file.opened.stat),
            };
            if same && recent {
                return Ok(file);
            }
            self.files().remove(place.key);
        }
        let opened = place.mount.root.open_file(&place.path)?;
        if opened.stat.kind != FileKind::Regular {
            return Err(OpenFailure::NotFound.into());
        }
        self.counters.add(Event::Opened, 1);
        let mut name = place.name.clone();
        name.push_version(opened.stat.mtime_ns);
        let seal = self.segment_seal()?;
        let layout = Layout::new(name, opened.stat.size, &place.mount.limits, &seal)
            .ok_or(Refused { event: Event::RefusedPath, tell: true })?;
        let file = Arc::new(OpenFile { opened, layout, checked_ns: now_ns });
        self.files().insert(place.key, Arc::clone(&file), 1);
        Ok(file)
    }

    pub(crate) fn seal(&self) -> Result<Seal<'_>, Refused> {
        Seal::new(self.signer.as_ref()).map_err(|_| Refused::silently(Event::Failed))
    }

    fn segment_seal(&self) -> Result<Seal<'_>, Refused> {
        Seal::new(self.segment_signer.as_ref()).map_err(|_| Refused::silently(Event::Failed))
    }

    /// Answers the segments of one file, together.
    fn segments(&self, place: &Place<'_>, mut wanted: Vec<(u64, u64, Job)>, scratch: &mut Scratch) {
        if wanted.is_empty() {
            return;
        }
        wanted.sort_by_key(|(version, segment, _)| (*version, *segment));
        for _ in 0..ATTEMPTS_MAX {
            let file = match self.file(place, None) {
                Ok(file) => file,
                Err(refused) => {
                    // A file that is gone may come back in the same version.
                    let refused = Refused::silently(refused.event);
                    wanted
                        .iter()
                        .for_each(|(_, _, job)| self.refuse(&job.request, refused, scratch));
                    return;
                }
            };
            self.refuse_others(&file, &mut wanted, scratch);
            match self.read_and_send(&file, &wanted, scratch) {
                Ok(true) => return,
                Ok(false) => {
                    // It has changed: perhaps only its owner, and the version is the same.
                    self.counters.add(Event::Changed, 1);
                    self.files().remove(place.key);
                }
                Err(refused) => {
                    wanted
                        .iter()
                        .for_each(|(_, _, job)| self.refuse(&job.request, refused, scratch));
                    return;
                }
            }
        }
    }

    /// Refuses requests for what the file does not have.
    fn refuse_others(
        &self,
        file: &OpenFile,
        wanted: &mut Vec<(u64, u64, Job)>,
        scratch: &mut Scratch,
    ) {
        let current = file.opened.stat.mtime_ns;
        wanted.retain(|(version, segment, job)| {
            let refused = if *version != current {
                // An older version does not come back; a newer one may.
                Refused { event: Event::WrongVersion, tell: *version < current }
            } else if *segment > file.layout.final_segment {
                // A fetcher that does not know the end yet asks for what may lie beyond it.
                Refused::silently(Event::NotFound)
            } else {
                return true;
            };
            self.refuse(&job.request, refused, scratch);
            false
        });
    }

    /// Reads, checks that the file is still the same, signs, sends; false if it is not the same.
    fn read_and_send(
        &self,
        file: &OpenFile,
        wanted: &[(u64, u64, Job)],
        scratch: &mut Scratch,
    ) -> Result<bool, Refused> {
        let failed = |_| Refused::silently(Event::Failed);
        let seal = self.segment_seal()?;
        let built = self.built(file);
        let Some((_, _, first)) = wanted.first() else {
            return Ok(true);
        };
        // Packets are made where they will be sent from, each with room for its link header.
        let mut buffer = AnswerBatch::buffer(&first.request);
        let stride = Request::HEADER_LEN_MAX + file.layout.packet_len_max(&seal);
        if buffer.len() < stride * wanted.len() {
            buffer.resize(stride * wanted.len(), 0);
        }
        let mut slots = Vec::with_capacity(wanted.len());
        for ((_, segment, _), out) in wanted.iter().zip(buffer.chunks_mut(stride)) {
            let out = &mut out[Request::HEADER_LEN_MAX..];
            slots.push((*segment, file.layout.lay_out(*segment, &seal, out).map_err(failed)?));
        }
        if let Err(error) = fill(file, &slots, stride, &mut buffer) {
            if error.kind() == std::io::ErrorKind::UnexpectedEof {
                return Ok(false);
            }
            tracing::warn!(name = %file.layout.name, %error, "a file cannot be read");
            return Err(Refused::silently(Event::Failed));
        }
        let now = FileStat::of(&file.opened.file).map_err(failed_to_stat)?;
        if !now.is_same_content(&file.opened.stat) {
            return Ok(false);
        }
        let mut content_bytes = 0;
        let mut packets = Vec::with_capacity(wanted.len());
        for (((segment, slot), (_, _, job)), (start, out)) in
            slots.iter().zip(wanted).zip((0..).step_by(stride).zip(buffer.chunks_mut(stride)))
        {
            let known = built.as_ref().and_then(|built| built.signature(*segment));
            let packet = &mut out[Request::HEADER_LEN_MAX..];
            let closed = match known {
                Some(known) => seal.close_with(slot, packet, &mut scratch.signature, known),
                None => seal.close(slot, packet, &mut scratch.signature),
            };
            let range = closed.map_err(|error| {
                tracing::warn!(name = %file.layout.name, %error, "a segment cannot be signed");
                Refused::silently(Event::Failed)
            })?;
            let before = Request::HEADER_LEN_MAX + range.start;
            let header =
                job.request.write_header(range.len(), &mut out[..before]).map_err(failed)?;
            packets.push(start + before - header..start + before + range.len());
            content_bytes += u64::try_from(slot.content.len()).unwrap_or(0);
        }
        // Before they are sent: whoever has an answer finds it counted.
        self.counters.add(Event::Segment, u64::try_from(wanted.len()).unwrap_or(0));
        self.counters.add_content(content_bytes);
        scratch.answers.send_buffer(&first.request, buffer, packets);
        Ok(true)
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("counters", &self.counters).finish_non_exhaustive()
    }
}

/// Reads contents into their places, runs of segments together.
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
            read_run(&file.opened.file, file.layout.extent(first).0, &mut run)?;
            run.clear();
            first = segment;
        }
        run.push(buffer);
        last = segment;
    }
    read_run(&file.opened.file, file.layout.extent(first).0, &mut run)
}
