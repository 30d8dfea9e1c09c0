//! Serving manifests: those that are made at once, the others after a thread of their own made them.

use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cache::{Key, Lru};
use crate::counters::Event;
use crate::manifest::{BuildFailure, Built, DiskCache, build, store_for};
use crate::packet::Layout;
use crate::place::{Place, Refused, failed_to_stat};
use crate::request::Wanted;
use crate::schedule::{Limits, Schedule};
use crate::serve::{Job, OpenFile, Scratch, Service};
use crate::stat::FileStat;

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
        let packet = match built.packet(node) {
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
        let now = FileStat::of(&file.opened.file).map_err(failed_to_stat)?;
        if !now.is_same_content(&file.opened.stat) {
            return Err(Refused::silently(Event::Changed));
        }
        let stored = disk.map(|disk| built.store(disk, layout, &now)).transpose();
        if let Err(error) = stored {
            tracing::warn!(name = %layout.name, %error, "the digests cannot be stored");
        }
        let from_disk = built.is_from_disk();
        self.counters.add(if from_disk { Event::ManifestLoaded } else { Event::ManifestBuilt }, 1);
        let key: Key = Arc::from(file.layout.name.value());
        let weight = built.weight();
        manifests.built().insert(&key, (now, Arc::new(built)), weight);
        Ok(())
    }
}
