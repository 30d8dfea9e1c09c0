//! The server: mounts, threads, registrations.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ndn_client::{Endpoint, ForwarderAddress, Handler, RegisterError, Registration, Request};
use ndn_packet::{MAX_PACKET_SIZE, Name};
use ndn_security::{DigestSigner, Signer};
use ndn_types::duration_ms;

use crate::catalogue::{Catalogued, Cataloguer, PublishedCatalogue};
use crate::counters::{Counters, Event, Observer};
use crate::manifest::DigestDirectory;
use crate::packet::PacketLimits;
use crate::preparations::Preparation;
use crate::prepare::Preparer;
use crate::request::classify;
use crate::root::{Root, RootOptions};
use crate::schedule::{Limits, Schedule};
use crate::serve::ManifestCache;
use crate::serve::{Job, MountPoint, Scratch, Service};
use crate::source::FileSource;
use crate::versions::{Origin, Versions};

/// Content length of a segment where packets may have the maximum length.
const SEGMENT_LEN_DEFAULT: usize = 8192;
/// UDP payload that fits an Ethernet frame, over IPv6. Not the path MTU at start: after a change of
/// the route, the segments of a version would differ under the same names.
const UDP_PACKET_LEN: usize = 1452;
/// Requests of one file that are served together.
const BATCH: usize = 64;
/// Requests of one remote file that one thread serves together: others read further parts at the same time.
const REMOTE_BATCH: usize = 16;
/// Default maximum number of threads.
const THREADS_MAX_DEFAULT: usize = 16;
/// Threads that wait for remote sources.
const REMOTE_THREADS: usize = 16;

/// A directory or a file to be served.
#[derive(Debug)]
pub struct Mount {
    /// Name of the directory, or of the file.
    pub prefix: Name,
    /// The directory.
    pub source: Arc<dyn FileSource>,
    /// Content length of each segment; `None`: chosen for the transport. Long names and small
    /// packets reduce it.
    pub segment_len: Option<usize>,
    /// Other names under which the same files are served, for the catalogue; `None`: there is no catalogue.
    pub catalogue: Option<Vec<Name>>,
    /// The file of the directory that alone is served, as `prefix`.
    pub file: Option<PathBuf>,
}

impl Mount {
    /// Opens `directory` to be served as `prefix`.
    ///
    /// # Errors
    /// Those of [`Root::open`].
    pub fn open(prefix: Name, directory: &Path, options: RootOptions) -> std::io::Result<Self> {
        Ok(Self::of(prefix, Arc::new(Root::open(directory, options)?)))
    }

    /// A source to be served as `prefix`.
    #[must_use]
    pub fn of(prefix: Name, source: Arc<dyn FileSource>) -> Self {
        Self { prefix, source, segment_len: None, catalogue: None, file: None }
    }

    /// Opens the directory of `file`, which alone is served, as `name`. Its manifest is made when it is requested.
    ///
    /// # Errors
    /// Those of [`Root::open`], and of finding the file.
    pub fn open_file(name: Name, file: &Path) -> std::io::Result<Self> {
        let file = file.canonicalize()?;
        if !file.metadata()?.is_file() {
            let text = format!("{} is not a regular file", file.display());
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text));
        }
        let (directory, file_name) = (file.parent(), file.file_name());
        let mount = Self::open(name, directory.unwrap_or(&file), RootOptions::default())?;
        Ok(Self { file: file_name.map(PathBuf::from), ..mount })
    }
}

/// Server options.
#[derive(Clone)]
pub struct ServerOptions {
    /// Signs everything.
    pub signer: Arc<dyn Signer>,
    /// FreshnessPeriod of segments.
    pub freshness: Duration,
    /// FreshnessPeriod of metadata and of Nacks.
    pub metadata_freshness: Duration,
    /// Time for which an open file is used without checking its path. Each read checks that the file itself is
    /// unchanged.
    pub stat_validity: Duration,
    /// Threads; `None`: as many as there are processors, 16 at most.
    pub threads: Option<usize>,
    /// Maximum number of open files.
    pub open_files_max: usize,
    /// Maximum size of cached directory listings.
    pub listing_bytes_max: usize,
    /// Maximum number of queued requests; more are dropped.
    pub requests_max: usize,
    /// Maximum number of queued requests for one file; more are dropped.
    pub requests_per_file_max: usize,
    /// Whether files have manifests, signed by `signer`; their segments then have DigestSha256.
    /// Otherwise, `signer` signs every segment.
    pub manifests: bool,
    /// Maximum size of manifests in memory. Larger ones are served from `manifest_directory`;
    /// without it, such files have no manifest.
    pub manifest_bytes_max: usize,
    /// Directory for stored digests, writable by this user only.
    pub manifest_directory: Option<PathBuf>,
    /// Bytes of digests that are kept there.
    pub manifest_directory_bytes_max: u64,
    /// Whether the manifests of all files are built before they are requested; with `manifest_directory` only.
    pub prepare_manifests: bool,
    /// Whether this includes files of remote sources, which are read whole for it.
    pub prepare_remote: bool,
    /// Called with the name and the outcome of each Interest for metadata, which begins a fetch, and of each Interest that
    /// was refused; not for segments. It must not block.
    pub observer: Option<Observer>,
    /// Longest packet; `None`: what fits the transport.
    pub packet_len_max: Option<usize>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            signer: Arc::new(DigestSigner),
            freshness: Duration::from_secs(10),
            metadata_freshness: Duration::from_millis(10),
            stat_validity: Duration::from_secs(1),
            threads: None,
            open_files_max: 256,
            listing_bytes_max: 64 << 20,
            requests_max: 16_384,
            requests_per_file_max: 4096,
            manifests: true,
            manifest_bytes_max: 256 << 20,
            manifest_directory: None,
            manifest_directory_bytes_max: 32 << 30,
            prepare_manifests: false,
            prepare_remote: false,
            observer: None,
            packet_len_max: None,
        }
    }
}

impl std::fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerOptions").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Two mounts of one name.
    #[error("{0} is mounted twice")]
    MountedTwice(String),
    /// The directory for digests cannot be used.
    #[error("{0}: {1}")]
    ManifestDirectory(String, #[source] std::io::Error),
    /// A thread cannot be started.
    #[error("a thread cannot be started: {0}")]
    Thread(#[source] std::io::Error),
    /// A prefix cannot be served.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

struct Inner {
    service: Service,
    /// Requests for files of local sources.
    schedule: Schedule<Job>,
    /// Requests for files of remote sources, which have threads of their own: local files do not wait for them.
    remote: Schedule<Job>,
}

/// Serves directories over one connection. Dropped, it ends.
pub struct FileServer {
    inner: Arc<Inner>,
    registrations: Vec<Registration>,
    /// Handlers of catalogues, below the registered prefixes.
    catalogues: Vec<Registration>,
    threads: Vec<JoinHandle<()>>,
}

impl FileServer {
    /// Serves `mounts` over `endpoint`, and registers their prefixes.
    ///
    /// # Errors
    /// `MountedTwice`, `Thread`, `Register`.
    pub async fn start(
        endpoint: &Endpoint,
        mounts: Vec<Mount>,
        options: &ServerOptions,
    ) -> Result<Self, StartError> {
        let limits = Limits {
            total: options.requests_max.max(1),
            per_file: options.requests_per_file_max.max(1),
            batch: BATCH,
        };
        let disk = options.manifest_directory.as_ref().map(|directory| {
            DigestDirectory::open(directory, options.manifest_directory_bytes_max).map_err(
                |error| StartError::ManifestDirectory(directory.display().to_string(), error),
            )
        });
        let disk = disk.transpose()?;
        let directory = options.manifest_directory.as_deref();
        let versions = Versions::open(directory).map_err(|error| {
            let directory = directory.map(|directory| directory.display().to_string());
            StartError::ManifestDirectory(directory.unwrap_or_default(), error)
        })?;
        let manifests =
            options.manifests.then(|| ManifestCache::new(options.manifest_bytes_max, limits, disk));
        let mut service = Service::new(
            Arc::clone(&options.signer),
            manifests,
            versions,
            duration_ms(options.metadata_freshness),
            options.stat_validity,
            options.open_files_max.max(1),
            options.listing_bytes_max,
        );
        service.observer = options.observer.clone();
        let inner = Arc::new(Inner {
            service,
            schedule: Schedule::new(limits),
            remote: Schedule::new(Limits { batch: REMOTE_BATCH, ..limits }),
        });
        let mut server =
            Self { inner, registrations: Vec::new(), catalogues: Vec::new(), threads: Vec::new() };
        let has_remote = mounts.iter().any(|mount| mount.source.is_remote());
        server.start_threads(options, has_remote)?;
        let packet_len_max = options.packet_len_max.unwrap_or_else(|| packet_len_of(endpoint));
        let mut served = Vec::new();
        let mut catalogued = Vec::new();
        for mount in mounts {
            let limits = PacketLimits {
                segment_len: mount.segment_len.unwrap_or(SEGMENT_LEN_DEFAULT),
                packet_len_max: packet_len_max.min(MAX_PACKET_SIZE),
                freshness_ms: duration_ms(options.freshness),
            };
            let prefix = mount.prefix.clone();
            let replicas = mount.catalogue;
            let Mount { prefix: name, source, file, .. } = mount;
            let origin = Origin::of(source.as_ref());
            let mount = Arc::new(MountPoint { prefix: name, source, origin, file, limits });
            let is_prepared = options.prepare_remote || !mount.source.is_remote();
            if is_prepared && mount.file.is_none() {
                served.push(Arc::clone(&mount));
            }
            if let Some(replicas) = replicas {
                let signer = Arc::clone(&options.signer);
                let published =
                    PublishedCatalogue::new(prefix.clone(), replicas, signer, packet_len_max);
                let published = Arc::new(published);
                let answering = Arc::clone(&published);
                let name = published.name();
                let answer = move |request: Request| answering.handle(request);
                server.catalogues.push(endpoint.attach(&name, answer)?);
                catalogued.push(Catalogued { mount: Arc::clone(&mount), published });
            }
            let handler = MountHandler { inner: Arc::clone(&server.inner), mount };
            let registered = endpoint.produce(&prefix, handler).await;
            let registration = registered.map_err(|error| {
                if let RegisterError::InUse(name) = error {
                    StartError::MountedTwice(name)
                } else {
                    StartError::Register(error)
                }
            })?;
            server.registrations.push(registration);
        }
        if !catalogued.is_empty() {
            let (directory, remote) = (options.manifest_directory.clone(), options.prepare_remote);
            server.start_thread("files-catalogue".to_owned(), move |inner| {
                let directory = directory.as_deref();
                Cataloguer::new(&inner.service, directory, remote).run(&catalogued);
            })?;
        }
        if options.prepare_manifests && options.manifests && options.manifest_directory.is_some() {
            server.start_thread("files-prepare".to_owned(), move |inner| {
                Preparer::new(&inner.service, &served).run();
            })?;
        }
        Ok(server)
    }

    fn start_threads(
        &mut self,
        options: &ServerOptions,
        has_remote: bool,
    ) -> Result<(), StartError> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let count = options.threads.unwrap_or(processors.min(THREADS_MAX_DEFAULT)).max(1);
        for number in 0..count {
            self.start_thread(format!("files-{number}"), |inner| inner.work(&inner.schedule))?;
        }
        for number in 0..if has_remote { REMOTE_THREADS } else { 0 } {
            self.start_thread(format!("origin-{number}"), |inner| inner.work(&inner.remote))?;
        }
        if self.inner.service.manifests.is_some() {
            self.start_thread("files-manifest".to_owned(), Inner::work_on_manifests)?;
            self.start_thread("files-leaves".to_owned(), Inner::work_on_leaves)?;
        }
        Ok(())
    }

    fn start_thread(
        &mut self,
        name: String,
        work: impl FnOnce(&Inner) + Send + 'static,
    ) -> Result<(), StartError> {
        let inner = Arc::clone(&self.inner);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            ndn_sys::signal::block_in_thread();
            work(&inner);
        });
        self.threads.push(thread.map_err(StartError::Thread)?);
        Ok(())
    }

    /// The counters of the server.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.inner.service.counters
    }

    /// Progress of the preparation of manifests.
    #[must_use]
    pub fn preparation(&self) -> Preparation {
        self.inner.service.preparations.progress()
    }

    /// Ends, and waits until the forwarder has removed the routes.
    ///
    /// # Errors
    /// The forwarder refuses, or does not answer.
    pub async fn stop(mut self) -> Result<(), ndn_client::CommandError> {
        for registration in self.registrations.drain(..) {
            registration.unregister().await?;
        }
        Ok(())
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        self.registrations.clear();
        self.catalogues.clear();
        // Threads end with what they are at. They are not waited for: one may wait for a connection.
        self.inner.schedule.close();
        self.inner.remote.close();
        self.inner.service.preparations.close();
        if let Some(manifests) = &self.inner.service.manifests {
            manifests.waiting.close();
            manifests.waiting_for_leaf.close();
        }
    }
}

impl std::fmt::Debug for FileServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileServer").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Inner {
    /// Serves requests until `schedule` is closed; run by each thread.
    fn work(&self, schedule: &Schedule<Job>) {
        let mut scratch = Scratch::default();
        let mut jobs = Vec::with_capacity(BATCH);
        while let Some(key) = schedule.take(&mut jobs) {
            self.service.serve(&key, &mut jobs, &mut scratch);
        }
    }
}

impl Inner {
    /// Prepares manifests, one after the other, until the queue is closed; run by one thread.
    fn work_on_manifests(&self) {
        let Some(manifests) = &self.service.manifests else {
            return;
        };
        let mut scratch = Scratch::default();
        let mut jobs = Vec::with_capacity(BATCH);
        while let Some(key) = manifests.waiting.take(&mut jobs) {
            self.service.serve_after_building(&key, &mut jobs, &mut scratch);
        }
    }
}

impl Inner {
    /// Makes signed leaves until the queue is closed; run by one thread, which bounds what requests for them can cost.
    fn work_on_leaves(&self) {
        let Some(manifests) = &self.service.manifests else {
            return;
        };
        let mut scratch = Scratch::default();
        let mut jobs = Vec::new();
        while let Some(key) = manifests.waiting_for_leaf.take(&mut jobs) {
            self.service.serve_leaves(&key, &mut jobs, &mut scratch);
        }
    }
}

/// Takes the Interests of one mount.
struct MountHandler {
    inner: Arc<Inner>,
    mount: Arc<MountPoint>,
}

impl Handler for MountHandler {
    fn handle(&self, request: Request) {
        let counters = &self.inner.service.counters;
        let Some(classified) = classify(&request.interest(), self.mount.prefix.len()) else {
            counters.add(Event::Unrecognised, 1);
            return;
        };
        let key = request.name().prefix(classified.path_end).to_name();
        let job = Job {
            request,
            mount: Arc::clone(&self.mount),
            path_end: classified.path_end,
            requested: classified.requested,
        };
        if self.schedule().push(key.value(), job).is_err() {
            counters.add(Event::Overload, 1);
        }
    }

    fn handle_batch_end(&self) {
        self.schedule().wake();
    }
}

impl MountHandler {
    fn schedule(&self) -> &Schedule<Job> {
        if self.mount.source.is_remote() { &self.inner.remote } else { &self.inner.schedule }
    }
}

/// Longest packet that needs no fragmentation on the way to the forwarder.
fn packet_len_of(endpoint: &Endpoint) -> usize {
    match endpoint.address() {
        Some(ForwarderAddress::Udp { .. }) => UDP_PACKET_LEN,
        _ => MAX_PACKET_SIZE,
    }
}
