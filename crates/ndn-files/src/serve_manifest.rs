//! Serving manifests: those that are made at once, the others after a thread of their own made them.

use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cache::{Key, Lru};
use crate::counters::Event;
use crate::manifest::{BuildFailure, Built, DiskCache, Store, build, store_for};
use crate::metadata::FileMetadata;
use crate::packet::{Layout, PacketLimits};
use crate::place::{Place, Refused, failed_to_stat};
use crate::request::Wanted;
use crate::schedule::{Limits, Schedule};
use crate::serve::{Job, OpenFile, Scratch, Service};
use crate::stat::FileStat;

/// Files of at most so many segments have the root of their manifest in their metadata.
const TOLD_SEGMENTS_MAX: u64 = 8;
/// Most bytes of a packet with metadata beside the file's name, the content and the signature, and of the link
/// header that forwarders put before it.
const METADATA_REST: usize = 128;
/// Bytes of memory that a manifest takes beside its nodes and digests, however small.
const WEIGHT_REST: usize = 1024;

/// Manifests that are made, and requests for those that are not.
#[derive(Debug)]
pub(crate) struct ManifestCache {
    /// By the name with version; each with the state of the file that it is of.
    built: Mutex<Lru<(FileStat, Arc<Built>)>>,
    bytes_max: usize,
    disk: Option<DiskCache>,
    pub(crate) waiting: Schedule<Job>,
}

impl ManifestCache {
    pub(crate) fn new(bytes_max: usize, limits: Limits, disk: Option<DiskCache>) -> Self {
        let built = Mutex::new(Lru::new(bytes_max));
        Self { built, bytes_max, disk, waiting: Schedule::new(limits) }
    }

    fn built(&self) -> MutexGuard<'_, Lru<(FileStat, Arc<Built>)>> {
        self.built.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a file is like, if it has not changed since it was opened.
fn still_same(file: &OpenFile) -> Result<FileStat, Refused> {
    let now = FileStat::of(&file.opened.file).map_err(failed_to_stat)?;
    let same = now.is_same_content(&file.opened.stat);
    same.then_some(now).ok_or(Refused::silently(Event::Changed))
}

impl Service {
    /// Whether a file has a manifest.
    pub(crate) fn has_manifest(&self, layout: &Layout) -> bool {
        self.manifests.as_ref().is_some_and(|manifests| {
            store_for(layout, manifests.bytes_max, manifests.disk.as_ref()).is_some()
        })
    }

    /// The manifest of a version, if it is made.
    pub(crate) fn built(&self, file: &OpenFile) -> Option<Arc<Built>> {
        let mut manifests = self.manifests.as_ref()?.built();
        let (stat, built) = manifests.find(file.layout.name.value())?;
        // Another file may have been given the same modification time.
        stat.is_same_content(&file.opened.stat).then(|| Arc::clone(built))
    }

    /// The metadata of a small file with the content of the root of its manifest: who verifies the one has no
    /// need of a further packet with a further signature. Without, where it would not fit the packet.
    pub(crate) fn with_root(
        &self,
        metadata: FileMetadata,
        file: &OpenFile,
        limits: &PacketLimits,
    ) -> FileMetadata {
        let manifest_root = self.only_root(file, limits);
        let told = FileMetadata { manifest_root, ..metadata };
        let content_len = told.encode().len();
        let fits = self.seal().is_ok_and(|seal| {
            let rest = METADATA_REST + file.layout.name.value().len() + seal.len_max();
            content_len + rest <= limits.packet_len_max
        });
        if fits { told } else { FileMetadata { manifest_root: None, ..told } }
    }

    /// Content of the root of a small file's manifest, made if it is not there; `None` where there is no manifest,
    /// where the root is not all of it, or where the file has just changed.
    fn only_root(&self, file: &OpenFile, limits: &PacketLimits) -> Option<Vec<u8>> {
        let layout = &file.layout;
        if layout.final_segment >= TOLD_SEGMENTS_MAX || !self.has_manifest(layout) {
            return None;
        }
        if let Some(built) = self.built(file) {
            return built.only_root().map(<[u8]>::to_vec);
        }
        let (signer, one) = (self.signer.as_ref(), NonZero::<usize>::MIN);
        // So short a file is as quick to read again as its digests would be.
        let built = build(&file.opened, layout, limits, signer, one, None, Store::Memory).ok()?;
        let root = built.only_root().map(<[u8]>::to_vec);
        self.keep(file, built).ok()?;
        root
    }

    /// Gives up what is kept of the manifest of a version.
    fn forget(&self, file: &OpenFile) {
        if let Some(manifests) = &self.manifests {
            manifests.built().remove(file.layout.name.value());
        }
    }

    /// Answers with a node, or lets it wait until the manifest is made.
    pub(crate) fn answer_node(
        &self,
        place: Result<&Place<'_>, Refused>,
        version: u64,
        node: u64,
        job: Job,
        scratch: &mut Scratch,
    ) {
        match place.and_then(|place| self.node(place, version, node, &job, scratch)) {
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

    /// Answers with a node; false if the manifest is not made yet.
    fn node(
        &self,
        place: &Place<'_>,
        version: u64,
        node: u64,
        job: &Job,
        scratch: &mut Scratch,
    ) -> Result<bool, Refused> {
        let file = self.file(place, None)?;
        let current = file.opened.stat.mtime_ns;
        if version != current {
            return Err(Refused { event: Event::WrongVersion, tell: version < current });
        }
        if !self.has_manifest(&file.layout) {
            return Err(Refused { event: Event::NotFound, tell: true });
        }
        let Some(built) = self.built(&file) else {
            return Ok(false);
        };
        let packet = match built.packet(node, self.signer.as_ref()) {
            Ok(packet) => packet.ok_or(Refused::silently(Event::NotFound))?,
            Err(error) => {
                tracing::warn!(name = %file.layout.name, node, %error, "a node cannot be made");
                // It is made anew for who asks next.
                self.forget(&file);
                return Err(Refused::silently(Event::Failed));
            }
        };
        scratch.answers.push(&job.request, &packet);
        self.counters.add(Event::ManifestNode, 1);
        Ok(true)
    }

    /// Makes the manifest that `jobs` wait for, unless it is made by now, and answers them.
    pub(crate) fn serve_after_building(
        &self,
        key: &Key,
        jobs: &mut Vec<Job>,
        scratch: &mut Scratch,
    ) {
        let Some(first) = jobs.first() else { return };
        let place = Place::of(first, key);
        let made = place.as_ref().map_err(|refused| *refused).and_then(|place| self.make(place));
        for job in jobs.drain(..) {
            let Wanted::Manifest { version, node } = job.wanted else { continue };
            let answered = made.and_then(|()| {
                let place = place.as_ref().map_err(|refused| *refused)?;
                self.node(place, version, node, &job, scratch)
            });
            match answered {
                Ok(true) => {}
                // It changed again: the consumer will ask for the new version.
                Ok(false) => self.counters.add(Event::Changed, 1),
                Err(refused) => self.refuse(&job.request, refused, scratch),
            }
        }
        scratch.answers.send();
    }

    fn make(&self, place: &Place<'_>) -> Result<(), Refused> {
        let file = self.file(place, None)?;
        let Some(manifests) = &self.manifests else {
            return Err(Refused::silently(Event::NotFound));
        };
        let (bytes_max, disk) = (manifests.bytes_max, manifests.disk.as_ref());
        let Some(store) = store_for(&file.layout, bytes_max, disk) else {
            return Ok(());
        };
        if self.built(&file).is_some() {
            return Ok(());
        }
        let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        let limits = &place.mount.limits;
        let (opened, layout) = (&file.opened, &file.layout);
        let built = build(opened, layout, limits, self.signer.as_ref(), threads, disk, store);
        let mut built = match built {
            Ok(built) => built,
            Err(error) => {
                tracing::warn!(name = %file.layout.name, %error, "a manifest cannot be made");
                let tell = matches!(error, BuildFailure::TooLarge);
                return Err(Refused { event: Event::Failed, tell });
            }
        };
        let now = still_same(&file)?;
        let stored = disk.map(|disk| built.store(disk, layout, &now)).transpose();
        if let Err(error) = stored {
            tracing::warn!(name = %layout.name, %error, "the digests cannot be stored");
        }
        self.keep(&file, built)
    }

    /// Keeps what was made, unless the file has changed under way.
    fn keep(&self, file: &OpenFile, built: Built) -> Result<(), Refused> {
        let Some(manifests) = &self.manifests else {
            return Err(Refused::silently(Event::NotFound));
        };
        let now = still_same(file)?;
        let from_disk = built.is_from_disk();
        self.counters.add(if from_disk { Event::ManifestLoaded } else { Event::ManifestBuilt }, 1);
        let key: Key = Arc::from(file.layout.name.value());
        // One that has all the memory to itself is kept, too.
        let weight = (built.weight() + key.len() + WEIGHT_REST).min(manifests.bytes_max);
        manifests.built().insert(&key, (now, Arc::new(built)), weight);
        Ok(())
    }
}
