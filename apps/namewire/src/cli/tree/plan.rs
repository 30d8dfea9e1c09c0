//! The plan of a copy: its directories, and the action for each file.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ndn_client::Endpoint;
use ndn_client::fetch::{Discovery, FetchConfig, FetchOptions, FoundObject};
use ndn_files::{
    Attributes, FileMetadata, ListingEntry, Origin, has_changed, has_content, is_reserved_name,
    is_unchanged, newer_version, parse_listing,
};
use ndn_packet::Name;
use tokio::task::JoinSet;

use super::fetched::{Fetched, Transfer, TreeProgress, watched_or_failed};
use super::local::local_path;
use super::root::Root;
use super::rules::{Mode, Rules};
use super::server::Server;

use crate::cli::arguments::too_deep;
use crate::cli::diagnose;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::fetch_file::{Policy, failure, manifest_of, with_reason};

const NOTHING_COPIED: &str = "nothing is copied; run the same command again";

/// Maximum number of files and directories of a tree.
const ENTRIES_MAX: usize = 1 << 22;
/// Maximum size of a listing, in bytes.
const LISTING_LEN_MAX: usize = 64 << 20;

/// The directories and files of a tree.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Each after the one above it. The first is the root.
    pub(super) directories: Vec<PlannedDirectory>,
    pub(super) files: Vec<PlannedFile>,
    /// Relative paths, and whether they are directories; those of files that could not be examined, too.
    pub(super) paths: HashMap<Vec<u8>, bool>,
    /// The server lists hidden entries.
    pub(super) lists_hidden: bool,
    /// The root has no entries.
    pub(super) is_empty: bool,
}

/// A directory of the tree.
#[derive(Debug)]
pub(super) struct PlannedDirectory {
    /// Relative to the root.
    pub(super) path: PathBuf,
    pub(super) attributes: Attributes,
    /// Version of the listing.
    pub(super) origin: Origin,
    /// The entry of the copy.
    pub(super) local: Option<fs::Metadata>,
    /// Not [`Decision::SameContent`].
    pub(super) decision: Decision,
}

/// A file of the tree.
#[derive(Debug)]
pub(super) struct PlannedFile {
    pub(super) name: Name,
    /// Relative to the root.
    pub(super) path: PathBuf,
    pub(super) found: FoundObject,
    pub(super) size: Option<u64>,
    pub(super) attributes: Option<Attributes>,
    /// The entry of the copy.
    pub(super) local: Option<fs::Metadata>,
    /// The copy was fetched, and somebody has changed it since.
    pub(super) has_changed: bool,
    pub(super) decision: Decision,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// It was fetched before, and neither it nor its copy has changed; a directory exists.
    Unchanged,
    /// The copy has its content, but not its state.
    SameContent,
    /// There is no copy.
    Add,
    /// There is another file, or an entry of another kind.
    Replace,
    /// The entry there may not be replaced.
    Blocked,
}

/// A directory to be listed, or a file to be examined.
type Waiting = Vec<(Name, PathBuf)>;

impl Plan {
    /// Device and inode of the entries that the copy has.
    pub(super) fn present(&self) -> HashSet<(u64, u64)> {
        let directories = self.directories.iter().map(|directory| directory.local.as_ref());
        let local = directories.chain(self.files.iter().map(|file| file.local.as_ref()));
        local.flatten().map(|local| (local.dev(), local.ino())).collect()
    }

    /// The entries of another kind than in the tree, which are in the way.
    pub(super) fn obstacles(&mut self) -> impl Iterator<Item = Obstacle<'_>> {
        let directories = self.directories.iter_mut().map(|directory| Obstacle {
            path: &directory.path,
            local: directory.local.as_ref(),
            is_for_directory: true,
            decision: &mut directory.decision,
        });
        let files = self.files.iter_mut().map(|file| Obstacle {
            path: &file.path,
            local: file.local.as_ref(),
            is_for_directory: false,
            decision: &mut file.decision,
        });
        let all = directories.chain(files);
        all.filter(|one| {
            let is_right = |local: &fs::Metadata| {
                if one.is_for_directory { local.is_dir() } else { local.is_file() }
            };
            one.local.is_some_and(|local| !is_right(local))
        })
    }
}

/// An entry in the way.
#[derive(Debug)]
pub(super) struct Obstacle<'a> {
    pub(super) path: &'a Path,
    pub(super) local: Option<&'a fs::Metadata>,
    /// The tree has a directory there, else a file.
    pub(super) is_for_directory: bool,
    pub(super) decision: &'a mut Decision,
}

/// Finds out what a copy needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planner<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) policy: &'a Policy,
    pub(super) progress: &'a Arc<TreeProgress>,
    pub(super) rules: &'a Rules,
    pub(super) server: Server<'a>,
}

impl Planner<'_> {
    /// Reads all directories and the metadata of all files. Failures are counted in `fetched`.
    ///
    /// # Errors
    /// The root cannot be listed, or the tree is too large.
    pub(super) async fn plan(self, root: &Root, fetched: &mut Fetched) -> Outcome<Plan> {
        let mut plan = Plan::default();
        let files = self.list_all(root, &mut plan, fetched).await?;
        self.progress.is_listed.store(true, Ordering::Relaxed);
        let mut waiting = files.into_iter();
        let mut examining = JoinSet::new();
        loop {
            while examining.len() < self.rules.jobs.into()
                && let Some((file, path)) = waiting.next()
            {
                let examination = Examination {
                    endpoint: self.endpoint.clone(),
                    policy: self.policy.clone(),
                    progress: Arc::clone(self.progress),
                    root: root.clone(),
                    compares_all: self.rules.checksum,
                    must_compare: self.rules.mode == Mode::Verify,
                    name: file,
                    path,
                };
                examining.spawn(Transfer::begin(self.progress).watch(examination.run()));
            }
            let Some(examined) = examining.join_next().await else { break };
            let (examined, outage) = watched_or_failed(examined);
            let outage = outage.filter(|_| !examining.is_empty() || waiting.len() > 0);
            if let Some(outage) = self.server.confirmed(outage).await {
                return Err(self.server.failure(outage, NOTHING_COPIED).await);
            }
            match examined {
                Ok(file) => plan.files.push(file),
                Err(failure) => fetched.fail(failure),
            }
        }
        // In the order of the paths.
        plan.files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(plan)
    }

    /// Lists all directories; returns the names and relative paths of the files.
    async fn list_all(
        self,
        root: &Root,
        plan: &mut Plan,
        fetched: &mut Fetched,
    ) -> Outcome<Waiting> {
        let name = self.server.directory;
        let listed = list(self.endpoint, name, &self.policy.fetching).await;
        let (metadata, entries) = diagnose::explained(listed, self.endpoint, name).await?;
        let top = self.directory(PathBuf::new(), &metadata, root)?;
        plan.is_empty = entries.is_empty();
        let mut files = Vec::new();
        let mut directories = Vec::new();
        let mut listing = JoinSet::new();
        let mut listed = Some((name.clone(), top, entries));
        loop {
            if let Some((name, directory, entries)) = listed.take() {
                for entry in entries {
                    if plan.paths.len() >= ENTRIES_MAX {
                        return Err(Failure::Failed(format!(
                            "{name}: too many directories or files"
                        )));
                    }
                    let added = self.add(&name, &directory.path, &entry, plan);
                    match added {
                        Ok(Some(below)) if entry.is_directory => directories.push(below),
                        Ok(Some(below)) => {
                            self.progress.files_found.fetch_add(1, Ordering::Relaxed);
                            files.push(below);
                        }
                        Ok(None) => {}
                        Err(failure) => fetched.fail(failure),
                    }
                }
                plan.directories.push(directory);
                self.progress.directories_listed.fetch_add(1, Ordering::Relaxed);
            }
            while listing.len() < self.rules.jobs.into()
                && let Some((name, path)) = directories.pop()
            {
                let (endpoint, fetching) = (self.endpoint.clone(), self.policy.fetching.clone());
                let transfer = Transfer::begin(self.progress);
                listing.spawn(async move {
                    let listed = transfer.watch(list(&endpoint, &name, &fetching)).await;
                    (name, path, listed)
                });
            }
            let Some(result) = listing.join_next().await else { return Ok(files) };
            let (name, path, (result, outage)) =
                result.map_err(|error| Failure::Failed(error.to_string()))?;
            let are_more = !listing.is_empty() || !directories.is_empty() || !files.is_empty();
            if let Some(outage) = self.server.confirmed(outage.filter(|_| are_more)).await {
                return Err(self.server.failure(outage, NOTHING_COPIED).await);
            }
            let result = match result {
                Err(Failure::Input(_)) => Err(Failure::Failed(format!(
                    "{name} was listed as a directory, and is none now"
                ))),
                other => other,
            };
            let result = result.and_then(|(metadata, entries)| {
                Ok((name, self.directory(path, &metadata, root)?, entries))
            });
            match result {
                Ok(directory) => listed = Some(directory),
                Err(failure) => fetched.fail(failure),
            }
        }
    }

    /// A directory of the tree, and what the copy has there.
    fn directory(
        self,
        path: PathBuf,
        metadata: &FileMetadata,
        root: &Root,
    ) -> Outcome<PlannedDirectory> {
        let local = root.entry(&path);
        let local = local.map_err(|error| Failure::file(root.join(&path).display(), &error))?;
        let decision = match &local {
            None => Decision::Add,
            Some(local) if local.is_dir() => Decision::Unchanged,
            Some(_) => Decision::Replace,
        };
        let is_by_key = self.policy.fetching.verification.is_by_key();
        if is_by_key
            && !self.policy.allow_older
            && let Ok(directory) = root.read(&path)
            && let Some(there) = newer_version(&directory, &metadata.name)
        {
            return Err(Failure::Unverified(format!(
                "{}: {} is older than {there}, which was copied before (--allow-older accepts it)",
                local_path(&root.join(&path)),
                metadata.name
            )));
        }
        let verification = self.policy.identity.clone();
        let origin = Origin { name: metadata.name.to_uri(), verification };
        let attributes = Attributes::of(metadata);
        Ok(PlannedDirectory { path, attributes, origin, local, decision })
    }

    /// Adds an entry of a directory to the plan; returns its name and path, unless it is left out.
    fn add(
        self,
        directory: &Name,
        path: &Path,
        entry: &ListingEntry,
        plan: &mut Plan,
    ) -> Outcome<Option<(Name, PathBuf)>> {
        let path = path.join(OsStr::from_bytes(&entry.file_name));
        plan.lists_hidden |= entry.file_name.starts_with(b".");
        if self.rules.filter.excludes(path.as_os_str().as_bytes(), entry.is_directory) {
            return Ok(None);
        }
        let mut name = directory.clone();
        name.push_generic(&entry.file_name);
        // A later fetch would regard it as its own verified part.
        if is_reserved_name(&entry.file_name) {
            return Err(Failure::Failed(format!(
                "{name} is not fetched: its name is reserved for incomplete files"
            )));
        }
        plan.paths.insert(path.as_os_str().as_bytes().to_vec(), entry.is_directory);
        if let Some(reason) = too_deep(&name) {
            return Err(Failure::Failed(reason));
        }
        Ok(Some((name, path)))
    }
}

/// Reads a directory: its metadata and entries.
///
/// # Errors
/// `Input` if it is no directory; otherwise it cannot be fetched, or is malformed.
pub(in crate::cli) async fn list(
    endpoint: &Endpoint,
    name: &Name,
    fetching: &FetchOptions,
) -> Outcome<(FileMetadata, Vec<ListingEntry>)> {
    // Few listings have a second segment.
    let config = FetchConfig { first_alone: true, ..fetching.config };
    let fetching = FetchOptions { config, discovery: Discovery::Metadata, ..fetching.clone() };
    let found = endpoint.find(name, &fetching).await.map_err(failure)?;
    let metadata = found.metadata().and_then(|content| FileMetadata::decode(content).ok());
    let Some(metadata) = metadata.filter(FileMetadata::is_directory) else {
        return Err(Failure::Input(format!(
            "{name} is not a directory of a file server: `namewire get {name}` fetches a file"
        )));
    };
    let version = found.name().clone();
    let listing = endpoint.fetch_found(found, 0, &fetching);
    let listing = match listing.collect(LISTING_LEN_MAX).await {
        Ok(listing) => listing,
        Err(error) => {
            return Err(with_reason(endpoint, (&version, false), &fetching, failure(error)).await);
        }
    };
    let entries = parse_listing(&listing).ok_or_else(|| {
        Failure::Failed(format!(
            "{name}: the listing is too long, has a name twice or an entry that is not a file name"
        ))
    })?;
    Ok((metadata, entries))
}

/// Finds a file: its version and metadata.
///
/// # Errors
/// There is no answer, or it is a directory by now, whose content is a listing.
pub(super) async fn find_file(
    endpoint: &Endpoint,
    name: &Name,
    policy: &Policy,
) -> Outcome<(FoundObject, Option<FileMetadata>)> {
    // A file server has metadata of every file: wait for it.
    let finding = FetchOptions { discovery: Discovery::Metadata, ..policy.fetching.clone() };
    let found = endpoint.find(name, &finding).await.map_err(failure)?;
    let metadata = found.metadata().and_then(|content| FileMetadata::decode(content).ok());
    if metadata.as_ref().is_some_and(FileMetadata::is_directory) {
        return Err(Failure::Failed(format!(
            "{name} was listed as a file, and is a directory now"
        )));
    }
    Ok((found, metadata))
}

/// Finds out what is to be done with a file.
struct Examination {
    endpoint: Endpoint,
    policy: Policy,
    progress: Arc<TreeProgress>,
    root: Root,
    name: Name,
    path: PathBuf,
    /// Files that seem to be unchanged are compared, too.
    compares_all: bool,
    /// A file that cannot be compared is a failure.
    must_compare: bool,
}

impl Examination {
    async fn run(self) -> Outcome<PlannedFile> {
        let Self { endpoint, policy, progress, root, name, path, compares_all, must_compare } =
            self;
        let (found, metadata) = progress.ask(find_file(&endpoint, &name, &policy)).await?;
        let size = metadata.as_ref().and_then(|metadata| metadata.size);
        let in_file = |error: &std::io::Error| Failure::file(root.join(&path).display(), error);
        let local = root.entry(&path).map_err(|error| in_file(&error))?;
        let same_size = local.as_ref().filter(|local| local.is_file() && Some(local.len()) == size);
        let decision = if local.is_none() {
            Decision::Add
        } else if same_size.is_none() || policy.restart {
            Decision::Replace
        } else {
            match root.read(&path) {
                Err(error) if must_compare => return Err(in_file(&error)),
                Err(_) => Decision::Replace,
                Ok(file) => {
                    let unchanged = |size| is_unchanged(&file, &policy.origin(&found), size);
                    if !compares_all && size.is_some_and(unchanged) {
                        Decision::Unchanged
                    } else {
                        match has_content_of(&endpoint, &found, &policy, &progress, file).await {
                            Ok(Some(true)) => Decision::SameContent,
                            Ok(None) if must_compare => {
                                return Err(Failure::Failed(format!(
                                    "{name} cannot be compared: the server offers no manifest for it"
                                )));
                            }
                            Err(failure) if must_compare => return Err(failure),
                            // The fetch reports why, if it fails, too.
                            Ok(_) | Err(_) => Decision::Replace,
                        }
                    }
                }
            }
        };
        let attributes = metadata.as_ref().map(Attributes::of);
        let has_changed =
            decision == Decision::Replace && root.read(&path).is_ok_and(|file| has_changed(&file));
        Ok(PlannedFile { name, path, found, size, attributes, local, has_changed, decision })
    }
}

/// Whether a file has the content of an object, according to its manifest; `None` if there is none.
pub(super) async fn has_content_of(
    endpoint: &Endpoint,
    found: &FoundObject,
    policy: &Policy,
    progress: &TreeProgress,
    file: fs::File,
) -> Outcome<Option<bool>> {
    let manifest = progress.ask(manifest_of(endpoint, found, policy)).await?;
    let Some(manifest) = manifest else { return Ok(None) };
    let verification = manifest.verification();
    let fetching = FetchOptions { verification: verification.clone(), ..policy.fetching.clone() };
    let digests = async {
        let first = endpoint.fetch_segment(&manifest.to_found(), 0, &fetching).await?;
        verification.load(0..=u64::MAX).await.map(|()| first)
    };
    let first = progress.ask(async { digests.await.map_err(failure) }).await?;
    let (size, segment_len) = (manifest.size(), manifest.segment_size());
    let compare = move || has_content(&file, size, segment_len, &first, &verification);
    let compared = tokio::task::spawn_blocking(compare).await;
    let compared = compared.map_err(|error| Failure::Failed(error.to_string()))?;
    compared.map(Some).map_err(|error| Failure::file(found.name(), &error))
}
