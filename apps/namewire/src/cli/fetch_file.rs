//! Fetches one object into a target: version, manifest, and resuming an interrupted fetch.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use ndn_client::fetch::{
    Discovery, FetchError, FetchOptions, FetchProgress, FoundObject, PacketStream,
    UncheckedSignature,
};
use ndn_client::{Endpoint, ReceivedData};
use ndn_files::{
    EarlierFetch, FileMetadata, LIST, Manifest, ManifestError, Origin, PartFile, Progress,
    ReceiveError, Received, ReplicaError, ReplicaReport, ReplicaStream, SegmentStream, Workers,
    is_denial, receive, refusal_reason,
};
use ndn_packet::{Convention, Name};

use super::connect::{kind_of, kind_of_fetch};
use super::failure::{Failure, Outcome};
use super::file_name::{numbers_as_files, with_number_as_file};
use super::output::{bytes_for_people, without_control};
use super::progress::Notes;
use super::target::Target;

/// Time to wait for metadata that is not needed to find the version.
const METADATA_TIMEOUT: Duration = Duration::from_secs(1);
/// After this time without a segment, the server is asked whether it has the file, and again after the same time.
const ASKING_INTERVAL: Duration = Duration::from_secs(1);
/// Number of times in a row that the server has no such file, after which a fetch ends: a file that is replaced may be
/// missing for a moment.
const MISSING_MIN: u32 = 2;
/// Number of segments to write at once in sequential order.
const BATCH: usize = 256;

/// Options of a fetch and of its verification.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) fetching: FetchOptions,
    /// The identity of `--verify`; see `keys::identity`.
    pub(super) identity: String,
    pub(super) allow_older: bool,
    /// Start over instead of resuming.
    pub(super) restart: bool,
    /// For many files: counts those whose interrupted fetch has left nothing to resume, in place of a message for each.
    pub(super) restarted: Option<Arc<AtomicU64>>,
    /// Whether to fetch the listing of a directory.
    pub(super) listing: Listing,
    /// Whether files are synced to disk before they are renamed.
    pub(super) durable: bool,
    /// Further names of the object, without version.
    pub(super) replicas: Vec<Name>,
    /// The time for which one of several replicas may be silent.
    pub(super) replica_timeout: Duration,
    /// Notes while the progress is shown.
    pub(super) notes: Notes,
}

/// Whether to fetch the listing of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// The content of a file.
    No,
    /// NAME is that of a listing.
    Named,
    /// Only the listing.
    Demanded,
}

impl Policy {
    /// Identifies the fetch, so that a later one can resume it.
    pub(super) fn origin(&self, found: &FoundObject) -> Origin {
        Origin { name: found.name().to_uri(), verification: self.identity.clone() }
    }
}

/// Keeps the part that a later fetch can resume, whatever the failure: the part was verified, and one wrong packet
/// must not discard it. Returns the failure with that.
pub(super) fn abandon(target: Target, failure: Failure) -> Failure {
    let is_gone = matches!(failure, Failure::VersionGone(_));
    let kept = target.keep().map(|(bytes, part)| kept_text(bytes, &part, is_gone));
    failure.leaving(kept)
}

/// A version that is gone may come back, or be elsewhere: a file may be moved, and caches and other servers may have the rest.
fn kept_text(bytes: u64, part: &Path, is_gone: bool) -> String {
    let (kept, part) = (bytes_for_people(bytes), without_control(&part.display().to_string()));
    if is_gone {
        return format!(
            "{kept} of this version are kept in {part}, in case it comes back; a fetch of another version replaces them. To \
             give them up, remove this file and {part}.json"
        );
    }
    format!("{kept} are kept; run the same command to resume")
}

/// The segments of an interrupted fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Already {
    pub(super) segments: u64,
    pub(super) bytes: u64,
}

/// The fetched object.
#[derive(Debug)]
pub(super) struct Fetched {
    /// Name of the object with its version.
    pub(super) name: Name,
    /// The convention of its segment components.
    pub(super) convention: Convention,
    pub(super) already: Already,
    pub(super) progress: FetchProgress,
    /// Packets that failed verification and were retransmitted.
    pub(super) refused: u64,
    /// A signature of the object that was not checked.
    pub(super) unchecked: Option<UncheckedSignature>,
    /// The replicas with the numbers of their segments, if there were several.
    pub(super) replicas: Vec<ReplicaReport>,
}

/// Fetches the missing segments of an object into `target`. `observe` is called periodically.
pub(super) async fn fetch(
    endpoint: &Endpoint,
    name: &Name,
    policy: &Policy,
    target: &mut Target,
    workers: &Workers,
    observe: impl FnMut(&FetchProgress, Already),
) -> Outcome<Fetched> {
    let found = endpoint.find(name, &policy.fetching).await.map_err(failure)?;
    let is_directory = is_directory(&found);
    if policy.listing == Listing::No && is_directory == Some(true) {
        return Err(Failure::Input(format!(
            "{name} is a directory: use --recursive to fetch its files, --listing to fetch the list of its entries"
        )));
    }
    if policy.listing == Listing::Demanded && is_directory == Some(false) {
        return Err(Failure::Input(format!(
            "{name} is not a directory of a file server: fetch it without --listing"
        )));
    }
    if let Target::File(part, _) = &*target {
        check_space(part.path(), size_of(&found), free_space)?;
    }
    fetch_found(endpoint, found, policy, target, workers, observe).await
}

/// The size of a file of a file server, if it is known.
fn size_of(found: &FoundObject) -> Option<u64> {
    FileMetadata::decode(found.metadata()?).ok()?.size
}

/// Refuses a file that does not fit, before anything is written. One that it replaces stays until it is complete.
fn check_space(path: &Path, size: Option<u64>, free: impl Fn(&Path) -> Option<u64>) -> Outcome {
    let needed = size.unwrap_or(0).saturating_sub(PartFile::space_of_part(path));
    let directory = path.parent().filter(|above| !above.as_os_str().is_empty());
    match free(directory.unwrap_or(Path::new("."))) {
        Some(free) if needed > free => Err(no_space(&path.display(), needed, free)),
        Some(_) | None => Ok(()),
    }
}

/// Free bytes of the file system of a directory.
fn free_space(directory: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(directory).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

/// The failure of a copy that does not fit.
pub(super) fn no_space(path: &dyn fmt::Display, needed: u64, free: u64) -> Failure {
    let [needed, free] = [needed, free].map(bytes_for_people);
    Failure::Failed(format!("{path}: {needed} are needed, and {free} are free"))
}

/// Whether it is a directory of a file server; unknown without metadata.
fn is_directory(found: &FoundObject) -> Option<bool> {
    let metadata = FileMetadata::decode(found.metadata()?);
    Some(metadata.is_ok_and(|metadata| metadata.is_directory()))
}

/// Fetches the missing segments of the object that was found into `target`.
pub(super) async fn fetch_found(
    endpoint: &Endpoint,
    found: FoundObject,
    policy: &Policy,
    target: &mut Target,
    workers: &Workers,
    mut observe: impl FnMut(&FetchProgress, Already),
) -> Outcome<Fetched> {
    if let Target::File(part, _) = target
        && policy.fetching.verification.is_by_key()
        && !policy.allow_older
    {
        part.refuse_older(found.name())?;
    }
    let name = found.name().clone();
    let arrived = AtomicU64::new(0);
    let observe = |progress: &FetchProgress, already: Already| {
        arrived.store(progress.segments, Ordering::Relaxed);
        observe(progress, already);
    };
    let receiving = async {
        if !policy.replicas.is_empty() {
            let known = for_replicas(endpoint, found, policy).await?;
            return receive_known(endpoint, known, None, policy, target, workers, observe).await;
        }
        let early = match target {
            Target::File(part, _) => early(endpoint, &found, policy, part),
            Target::Stdout { .. } | Target::InPlace { .. } => None,
        };
        let known = under_manifest(endpoint, found, policy).await?;
        let lacks_manifest = known.lacks_manifest;
        let received = receive_known(endpoint, known, early, policy, target, workers, observe);
        let without = |failure: Failure| failure.without_manifest();
        received.await.map_err(|failure| if lacks_manifest { without(failure) } else { failure })
    };
    let arrived = || arrived.load(Ordering::Relaxed);
    let names = (&name, &*policy.replicas);
    while_served(endpoint, names, &policy.fetching, arrived, receiving).await
}

/// Runs a fetch, but ends it if the servers of an object and of its replicas state that they have no such file any more.
/// Segments of such a file have no answer, as forwarders would keep one. `arrived` counts the segments.
pub(super) async fn while_served<T>(
    endpoint: &Endpoint,
    (name, replicas): (&Name, &[Name]),
    fetching: &FetchOptions,
    arrived: impl Fn() -> u64,
    fetch: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    let outcome = tokio::select! {
        outcome = fetch => outcome,
        failure = missing(endpoint, (name, replicas), fetching, &arrived) => Err(failure),
    };
    match outcome {
        Ok(fetched) => Ok(fetched),
        Err(failure) => {
            let has_begun = arrived() > 0;
            Err(with_reason(endpoint, (name, has_begun), fetching, failure).await)
        }
    }
}

/// The failure of a fetch, with the present version if another one was refused. A version that was refused, but is still the
/// present one, is not gone. `has_begun`: segments of the version have arrived.
pub(super) async fn with_reason(
    endpoint: &Endpoint,
    (version, has_begun): (&Name, bool),
    fetching: &FetchOptions,
    failure: Failure,
) -> Failure {
    if !matches!(failure, Failure::VersionGone(_)) {
        return failure;
    }
    let file = without_version(version);
    match endpoint.find(&file, &asking(fetching)).await {
        Ok(present) if present.name() == version => Failure::Failed(format!(
            "{version} is the present version, but the server refuses to send it: it probably cannot read it, and its log has \
             the reason"
        )),
        Ok(present) if without_version(present.name()) == file => {
            let present = present.name().as_ref().last().map(|version| version.to_string());
            version_text(version, has_begun, &present.unwrap_or_default())
        }
        Ok(_) | Err(_) => failure,
    }
}

/// The failure to fetch a version while the file has another one. Whether there ever was one of this number is known only if a
/// part of it has arrived.
fn version_text(version: &Name, has_begun: bool, present: &str) -> Failure {
    let what = if version.components().any(|part| part == LIST) {
        "Run the same command again"
    } else {
        "The same command, with a name without version, fetches that from the start"
    };
    let state = if has_begun { "is not served any more" } else { "is not served" };
    Failure::VersionGone(format!("{version} {state}: the present version is {present}. {what}"))
}

/// The name of a file, from one with or without version.
fn without_version(name: &Name) -> Name {
    let name = name.as_ref();
    if name.ends_in_version() { name.parent() } else { name }.to_name()
}

/// Options of one Interest for metadata.
pub(super) fn asking(fetching: &FetchOptions) -> FetchOptions {
    FetchOptions {
        discovery: Discovery::Metadata,
        discovery_retransmissions: 0,
        lifetime: fetching.lifetime.min(METADATA_TIMEOUT),
        ..fetching.clone()
    }
}

/// Asks for the metadata of a file while none of its segments arrive; returns once neither its server nor those of its replicas
/// have such a file, or if it is a directory, which has no versions.
async fn missing(
    endpoint: &Endpoint,
    (name, replicas): (&Name, &[Name]),
    fetching: &FetchOptions,
    arrived: &impl Fn() -> u64,
) -> Failure {
    let (file, asking) = (without_version(name), asking(fetching));
    let files: Vec<Name> =
        std::iter::once(file.clone()).chain(replicas.iter().map(without_version)).collect();
    let is_listing = name.components().any(|part| part == LIST);
    let (mut earlier, mut times) = (0, 0);
    while times < MISSING_MIN {
        tokio::time::sleep(ASKING_INTERVAL).await;
        let is_silent = arrived() == std::mem::replace(&mut earlier, arrived());
        if !is_silent {
            times = 0;
            continue;
        }
        let answers = join_all(files.iter().map(|file| endpoint.find(file, &asking))).await;
        let is_gone = |answer: &Result<_, _>| matches!(answer, Err(FetchError::NotFound { .. }));
        let is_missing = answers.iter().all(is_gone) && arrived() == earlier;
        times = if is_missing { times + 1 } else { 0 };
        let is_of_directory = |answer: &Result<FoundObject, _>| {
            answer.as_ref().is_ok_and(|found| is_directory(found) == Some(true))
        };
        if arrived() == 0 && !is_listing && answers.iter().all(is_of_directory) {
            let note = with_number_as_file(name);
            let note = note.map_or_else(String::new, |note| format!(" ({note})"));
            return Failure::Failed(format!(
                "{file} is a directory: fetch it with --recursive and without version{note}"
            ));
        }
    }
    let state = if arrived() > 0 { "is not there any more" } else { "is not there" };
    Failure::VersionGone(format!("{file} {state}: its server has no such file"))
}

/// Fetches the missing segments of an object whose verification is known.
async fn receive_known(
    endpoint: &Endpoint,
    known: ObjectToFetch,
    early: Option<PacketStream>,
    policy: &Policy,
    target: &mut Target,
    workers: &Workers,
    mut observe: impl FnMut(&FetchProgress, Already),
) -> Outcome<Fetched> {
    if let Target::File(part, _) = target
        && known.found.is_segmented()
    {
        let positional =
            positional(endpoint, &known, early, policy, part, workers, &mut observe).await?;
        if let Some(fetched) = positional {
            return Ok(fetched);
        }
    }
    if let Target::File(part, _) = target {
        part.begin(None)?;
    }
    let already = Already::default();
    let convention = known.found.convention();
    let mut stream = endpoint.fetch_found(known.found, 0, &known.fetching);
    let progress = stream.progress();
    let mut chunks = Vec::with_capacity(BATCH);
    while stream.next_batch(&mut chunks, BATCH).await.map_err(failure)? > 0 {
        for chunk in chunks.drain(..) {
            target.write(&chunk)?;
        }
        observe(&progress.borrow(), already);
    }
    let progress = *progress.borrow();
    let refused = progress.refused;
    let name = stream.name().clone();
    let unchecked = known.unchecked.or_else(|| stream.unchecked().cloned());
    let replicas = Vec::new();
    Ok(Fetched { name, convention, already, progress, refused, unchecked, replicas })
}

/// Segments requested before their manifest has arrived, if the metadata states their number and there is no part to
/// resume. They wait, up to a limit, for the digests.
fn early(
    endpoint: &Endpoint,
    found: &FoundObject,
    policy: &Policy,
    part: &PartFile,
) -> Option<PacketStream> {
    let metadata = FileMetadata::decode(found.metadata()?).ok()?;
    let is_new = policy.restart
        || matches!(part.earlier_fetch(&policy.origin(found)), EarlierFetch::Nothing);
    if !is_new || !policy.fetching.verification.is_by_key() || metadata.manifest.is_none() {
        return None;
    }
    let object = FoundObject::known(metadata.name, metadata.final_segment?);
    Some(endpoint.fetch_packets(object, 0, &policy.fetching))
}

/// Writes segments to their offsets, in any order; `None` if that is impossible because their
/// lengths differ.
async fn positional(
    endpoint: &Endpoint,
    known: &ObjectToFetch,
    early: Option<PacketStream>,
    policy: &Policy,
    part: &mut PartFile,
    workers: &Workers,
    observe: &mut impl FnMut(&FetchProgress, Already),
) -> Outcome<Option<Fetched>> {
    let mut found = known.found.clone();
    let fetching = &known.fetching;
    let mut already = Already::default();
    let origin = policy.origin(&found);
    let resumed = if policy.restart {
        None
    } else {
        resume(endpoint, &mut found, (fetching, policy), part, &origin).await?
    };
    match resumed {
        Some(progress) => {
            already = Already { segments: progress.segments, bytes: progress.bytes };
        }
        None => part.begin(Some(origin))?,
    }
    if let Some((size, _)) = known.layout {
        part.reserve(size)?;
    }
    // The manifest and the metadata may describe different objects.
    let mut early = early.filter(|early| {
        let is_same = early.name() == found.name() && early.last_segment() == found.final_segment();
        is_same && already.segments == 0 && known.layout.is_some()
    });
    let segment_len = known.layout.map(|(_, segment_len)| segment_len);
    loop {
        let is_early = early.is_some();
        let mut reports: Option<Box<dyn Fn() -> Vec<ReplicaReport> + Send + Sync>> = None;
        let stream = match (&known.manifest, early.take()) {
            (Some(manifest), _) => {
                let stream = from_replicas(endpoint, manifest, part.segments(), policy).await?;
                reports = Some(Box::new(stream.watch_reports()));
                SegmentStream::from(stream)
            }
            (None, Some(early)) => early.into(),
            (None, None) => endpoint.fetch_packets(found.clone(), part.segments(), fetching).into(),
        };
        let (progress, name) = (stream.progress(), stream.name().clone());
        let received = receive(stream, part, &fetching.verification, segment_len, workers, || {
            observe(&progress.borrow(), already);
        });
        let received = received.await;
        let replicas = reports.map(|reports| reports()).unwrap_or_default();
        note_left(&policy.notes, &replicas);
        match received {
            Ok(Received { refused, unchecked }) => {
                let progress = *progress.borrow();
                let convention = found.convention();
                let unchecked = known.unchecked.clone().or(unchecked);
                let fetched =
                    Fetched { name, convention, already, progress, refused, unchecked, replicas };
                return Ok(Some(fetched));
            }
            Err(ReceiveError::Irregular(_)) => return Ok(None),
            // Without digests, segments cannot be requested by digest past a wrong packet in a cache.
            Err(ReceiveError::Fetch(_)) if is_early => {
                already = Already { segments: part.segments(), bytes: part.bytes() };
            }
            Err(ReceiveError::Fetch(error)) => return Err(failure(error)),
            Err(ReceiveError::Part(error)) => return Err(error.into()),
            Err(error) => return Err(Failure::Failed(error.to_string())),
        }
    }
}

/// An object and its fetch options.
pub(super) struct ObjectToFetch {
    pub(super) found: FoundObject,
    pub(super) fetching: FetchOptions,
    /// Its length and that of a segment, from a manifest.
    layout: Option<(u64, u64)>,
    /// It is a file of a server that offers no manifest for it.
    pub(super) lacks_manifest: bool,
    /// The signature of the Data by which it was found, if it was not checked.
    pub(super) unchecked: Option<UncheckedSignature>,
    /// Its manifest, if it is fetched from several replicas.
    manifest: Option<Arc<Manifest>>,
}

/// An object whose manifest verifies the segments of replicas.
async fn for_replicas(
    endpoint: &Endpoint,
    found: FoundObject,
    policy: &Policy,
) -> Outcome<ObjectToFetch> {
    let fetching = &policy.fetching;
    let found = with_metadata(endpoint, found, fetching).await;
    let manifest = manifest_of(endpoint, &found, policy).await?.ok_or_else(|| {
        Failure::Usage(format!(
            "{} has no manifest, which verifies the segments of replicas: fetch it without --replica and --catalogue",
            found.name()
        ))
    })?;
    let verification = manifest.verification();
    Ok(ObjectToFetch {
        unchecked: found.unchecked().cloned(),
        found: manifest.to_found(),
        fetching: FetchOptions { verification, ..fetching.clone() },
        layout: Some((manifest.size(), manifest.segment_size())),
        lacks_manifest: false,
        manifest: Some(manifest),
    })
}

/// Begins to fetch an object from all its names.
async fn from_replicas(
    endpoint: &Endpoint,
    manifest: &Arc<Manifest>,
    first_segment: u64,
    policy: &Policy,
) -> Outcome<ReplicaStream> {
    let timeout = policy.replica_timeout;
    let (replicas, options) = (&policy.replicas, &policy.fetching);
    let started =
        ReplicaStream::start(endpoint, manifest, first_segment, replicas, timeout, options).await;
    started.map_err(|error| {
        if let ReplicaError::Fetch(error) = error {
            return failure(error);
        }
        Failure::Usage(error.to_string())
    })
}

/// Names the replicas that were left.
fn note_left(notes: &Notes, replicas: &[ReplicaReport]) {
    for replica in replicas {
        if let Some(reason) = &replica.left {
            notes.write(&format_args!("namewire: replica {} was left: {reason}", replica.name));
        }
    }
}

/// With a key and a manifest, the key verifies the manifest, and the manifest the segments.
pub(super) async fn under_manifest(
    endpoint: &Endpoint,
    found: FoundObject,
    policy: &Policy,
) -> Outcome<ObjectToFetch> {
    let fetching = &policy.fetching;
    let without = |found: FoundObject, lacks_manifest| {
        let (fetching, unchecked) = (fetching.clone(), found.unchecked().cloned());
        let (layout, manifest) = (None, None);
        Ok(ObjectToFetch { found, fetching, layout, lacks_manifest, unchecked, manifest })
    };
    if !fetching.verification.is_by_key() {
        return without(found, false);
    }
    let found = with_metadata(endpoint, found, fetching).await;
    let manifest = fetch_manifest(endpoint, &found, policy).await;
    match manifest {
        // Metadata of other services does not describe files.
        Ok(None) | Err(ManifestError::Metadata(_)) => {
            endpoint.learn_certificates(&found, fetching).await.map_err(failure)?;
            let lacks_manifest = manifest.is_ok() && is_directory(&found) == Some(false);
            without(found, lacks_manifest)
        }
        Ok(Some(manifest)) => {
            let verification = manifest.verification();
            let fetching = FetchOptions { verification, ..fetching.clone() };
            let layout = Some((manifest.size(), manifest.segment_size()));
            let found = manifest.to_found();
            Ok(ObjectToFetch {
                found,
                fetching,
                layout,
                lacks_manifest: false,
                unchecked: None,
                manifest: None,
            })
        }
        Err(error) => Err(manifest_failure(&error)),
    }
}

/// The manifest of an object with metadata; `None` if the server offers none.
pub(super) async fn manifest_of(
    endpoint: &Endpoint,
    found: &FoundObject,
    policy: &Policy,
) -> Outcome<Option<Arc<Manifest>>> {
    match fetch_manifest(endpoint, found, policy).await {
        // Metadata of other services does not describe files.
        Err(ManifestError::Metadata(_)) => Ok(None),
        manifest => manifest.map_err(|error| manifest_failure(&error)),
    }
}

/// Fetches a manifest, and reports that the server prepares it.
async fn fetch_manifest(
    endpoint: &Endpoint,
    found: &FoundObject,
    policy: &Policy,
) -> Result<Option<Arc<Manifest>>, ManifestError> {
    let (name, notes) = (found.name().to_uri(), &policy.notes);
    let mut notes = PreparationNotes { name, called: 0, notes };
    let on_preparation = |left| notes.print(left);
    ndn_files::fetch_manifest(endpoint, found, &policy.fetching, on_preparation).await
}

/// Messages about a manifest that the server prepares.
struct PreparationNotes<'a> {
    name: String,
    called: u32,
    notes: &'a Notes,
}

impl PreparationNotes<'_> {
    /// Calls between two messages, about ten seconds.
    const CALLS: u32 = 5;

    fn print(&mut self, left: Duration) {
        if self.called.is_multiple_of(Self::CALLS) {
            self.notes.write(&format_args!(
                "namewire: the server prepares the manifest of {}: ready in about {} s",
                self.name,
                left.as_secs().max(1)
            ));
        }
        self.called += 1;
    }
}

/// The object with its metadata, which names the manifest, if the given version is the current one.
async fn with_metadata(
    endpoint: &Endpoint,
    found: FoundObject,
    fetching: &FetchOptions,
) -> FoundObject {
    if found.metadata().is_some() || !found.name().as_ref().ends_in_version() {
        return found;
    }
    let asking = FetchOptions {
        discovery: Discovery::Metadata,
        // Producers without metadata do not answer; their segments may be signed.
        discovery_retransmissions: fetching.discovery_retransmissions.min(1),
        lifetime: fetching.lifetime.min(METADATA_TIMEOUT),
        ..fetching.clone()
    };
    let current = endpoint.find(&found.name().as_ref().parent().to_name(), &asking).await;
    current.ok().filter(|current| current.name() == found.name()).unwrap_or(found)
}

fn manifest_failure(error: &ManifestError) -> Failure {
    let kind = if let ManifestError::Unanswered(error) = error {
        kind_of(error)
    } else if let ManifestError::Fetch(error) = error {
        kind_of_fetch(error)
    } else if matches!(error, ManifestError::Malformed { .. }) {
        Failure::Failed
    } else {
        Failure::Unverified
    };
    kind(error.to_string())
}

/// The segments that the target has, if its beginning matches the object.
///
/// If all segments are present, an Interest for the next one would time out, so the final segment
/// must be known.
async fn resume(
    endpoint: &Endpoint,
    found: &mut FoundObject,
    (fetching, policy): (&FetchOptions, &Policy),
    part: &mut PartFile,
    origin: &Origin,
) -> Outcome<Option<Progress>> {
    let Some(progress) = usable(part.earlier_fetch(origin), part, policy) else {
        return Ok(None);
    };
    let mut first = endpoint.fetch_segment(found, 0, fetching).await.map_err(failure)?;
    found.note_final_segment(&first);
    if found.final_segment().is_none() {
        let last = progress.segments - 1;
        let last = endpoint.fetch_segment(found, last, fetching).await.map_err(failure)?;
        found.note_final_segment(&last);
    }
    let fits = |first: &ReceivedData| {
        let content = first.content();
        u64::try_from(content.len()) == Ok(progress.segment_len)
            && part.head(content.len()).is_ok_and(|head| head == content)
    };
    if !fits(&first) {
        // It may be forged: do not discard the part.
        let again = endpoint.cache_bypass(found, fetching).fetch(0, None).await;
        let again = again.ok().filter(|again| fetching.verification.check(&again.data()).is_ok());
        first = again.filter(fits).unwrap_or(first);
    }
    if u64::try_from(first.content_len()) != Ok(progress.segment_len) {
        report_start_over(&policy.notes, &progress, &"the object has other segments");
        return Ok(None);
    }
    if !progress.has_checksum() {
        fetching.verification.load(0..=progress.segments).await.map_err(failure)?;
    }
    let left = part.resume(origin, Some(&first), &fetching.verification)?;
    let Some(progress) = usable(left, part, policy) else {
        return Ok(None);
    };
    let first = first.content();
    if part.head(first.len())? != first {
        report_start_over(&policy.notes, &progress, &"the object has other segments");
        return Ok(None);
    }
    Ok(Some(progress))
}

/// The part that can be resumed; reports why another part cannot.
pub(super) fn usable(left: EarlierFetch, part: &PartFile, policy: &Policy) -> Option<Progress> {
    match left {
        EarlierFetch::Nothing => None,
        EarlierFetch::WithoutSidecar => {
            if let Some(restarted) = &policy.restarted {
                restarted.fetch_add(1, Ordering::Relaxed);
            } else {
                policy.notes.write(&format_args!(
                    "namewire: {}: an earlier fetch was ended before it could write down what it had; the fetch starts \
                     over",
                    part.path().display()
                ));
            }
            None
        }
        EarlierFetch::Resumable(progress) => Some(progress),
        EarlierFetch::Unusable { progress, reason } => {
            report_start_over(&policy.notes, &progress, &reason);
            None
        }
    }
}

pub(super) fn report_start_over(notes: &Notes, progress: &Progress, reason: &dyn fmt::Display) {
    let there = bytes_for_people(progress.bytes);
    let name = &progress.origin.name;
    notes.write(&format_args!(
        "namewire: {there} of {name} cannot be resumed: {reason}; the fetch starts over"
    ));
}

pub(super) fn failure(error: FetchError) -> Failure {
    if let FetchError::NotFound { name, content } = &error
        && let Some(reason) = refusal_reason(content)
    {
        let name_of_path = Name::from_uri(name).ok().filter(|_| !is_denial(content));
        let note = name_of_path.as_ref().and_then(numbers_as_files);
        let note = note.map_or_else(String::new, |note| format!(" ({note})"));
        return Failure::Failed(format!("{name} is not served: {reason}{note}"));
    }
    let failure = kind_of_fetch(&error)(error.to_string());
    if let Failure::VersionGone(text) = failure {
        return Failure::VersionGone(format!(
            "{text}: the server does not serve this version. The same command, with a name without version, fetches the \
             present version from the start"
        ));
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_a_version_that_is_gone_is_named() {
        let part = Path::new("/data/.run.part");
        let text = kept_text(2048, part, false);
        assert_eq!(text, "2.0 KiB are kept; run the same command to resume");
        let text = kept_text(2048, part, true);
        assert!(
            text.starts_with("2.0 KiB of this version are kept in /data/.run.part, "),
            "{text}"
        );
        assert!(text.ends_with("remove this file and /data/.run.part.json"), "{text}");
    }

    #[test]
    fn numbers_in_a_name_explain_refused_paths_only() {
        let refused = |content: &'static [u8]| {
            let (name, content) = ("/site/t=5/secret".to_owned(), content.into());
            failure(FetchError::NotFound { name, content }).to_string()
        };
        assert!(refused(b"denied").ends_with("no permission to read it"), "{}", refused(b"denied"));
        assert!(refused(b"path").ends_with("is called so, write t%3D5)"), "{}", refused(b"path"));
    }

    #[test]
    fn file_that_does_not_fit_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let free = |within: &Path| {
            assert_eq!(within, directory.path());
            Some(1000)
        };
        assert!(check_space(&path, Some(1000), free).is_ok());
        assert!(check_space(&path, None, free).is_ok());
        let text = check_space(&path, Some(1001), free).unwrap_err().to_string();
        assert!(text.contains("file: ") && text.contains(" are needed, and "), "{text}");
        assert!(free_space(directory.path()).is_some_and(|bytes| bytes > 0));
    }
}
