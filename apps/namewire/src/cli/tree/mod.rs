//! Copies a directory of a file server: `namewire sync` and `namewire get --recursive`.
//!
//! A plan is made first: the entries of all directories, and the metadata of all files. Then files are fetched,
//! and at last extra files are deleted and the times of directories set.

mod filter;
mod local;
mod plan;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ndn_client::Endpoint;
use ndn_client::fetch::{Discovery, FetchOptions, FetchProgress};
use ndn_files::{Attributes, FileMetadata, ListingEntry, PartFile, Workers, parse_listing, record};
use ndn_packet::Name;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::failure::{Failure, Outcome};
use super::fetch_file::{Already, Policy, failure, fetch_found};
use super::output::{self, bytes_for_people};
use super::target::Target;
pub(super) use filter::Filter;
pub(super) use local::umask;
use local::{Extra, shown};
use plan::{Decision, Plan, PlannedFile};

/// Default number of files that are fetched at a time.
pub(super) const JOBS_DEFAULT: u16 = 64;
/// Maximum size of a listing, in bytes.
const LISTING_LEN_MAX: usize = 64 << 20;

/// What a copy contains, and what is done to make it one.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) filter: Filter,
    /// Deletes what the tree does not have.
    pub(super) delete: bool,
    /// Compares the contents of all files.
    pub(super) checksum: bool,
    pub(super) mode: Mode,
    /// Number of files at a time.
    pub(super) jobs: u16,
    /// The user's umask, if existing files get the permissions of the server.
    pub(super) umask: Option<u32>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            delete: false,
            checksum: false,
            mode: Mode::Copy,
            jobs: JOBS_DEFAULT,
            umask: None,
        }
    }
}

/// What is done with the differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Copy,
    /// They are only reported.
    Preview,
    /// They are reported after all contents were compared.
    Verify,
}

/// A difference between the tree and its copy.
#[derive(Debug)]
pub(super) struct Change {
    action: Action,
    path: PathBuf,
    /// Where the content of a renamed file is.
    from: Option<PathBuf>,
    bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// There is no such file.
    Add,
    /// The file is another one.
    Replace,
    Rename,
    Delete,
    /// For [`Mode::Verify`]: there is no such file, it is another one, or the tree does not have it.
    Missing,
    Differs,
    Extra,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Rename => "rename",
            Self::Delete => "delete",
            Self::Missing => "missing",
            Self::Differs => "differs",
            Self::Extra => "extra",
        }
    }
}

impl Change {
    pub(super) fn json(&self) -> Value {
        json!({
            "action": self.action.word(),
            "path": self.path.to_string_lossy(),
            "from": self.from.as_ref().map(|from| from.to_string_lossy()),
            "bytes": self.bytes,
        })
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:<7}  ", self.action.word())?;
        if let Some(from) = &self.from {
            write!(formatter, "{} -> ", shown(from))?;
        }
        formatter.write_str(&shown(&self.path))?;
        match self.bytes {
            Some(bytes) if self.action != Action::Rename => {
                write!(formatter, "  ({})", bytes_for_people(bytes))
            }
            _ => Ok(()),
        }
    }
}

/// Result of the copy.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    /// Number of complete files.
    pub(super) files: u64,
    /// Number of these that were complete before and are unchanged.
    pub(super) unchanged: u64,
    /// Number of files that were at another place in the copy.
    pub(super) renamed: u64,
    /// Number of files and directories that were deleted.
    pub(super) deleted: u64,
    pub(super) directories: u64,
    /// Number of content bytes fetched.
    pub(super) bytes: u64,
    /// Number of files and directories that could not be fetched, or have an invalid name.
    pub(super) failed: u64,
    /// Number of files and directories that do not have the server's time and permissions.
    pub(super) without_attributes: u64,
    /// The differences that were found.
    pub(super) changes: Vec<Change>,
    /// The first failure.
    pub(super) failure: Option<Failure>,
}

impl Fetched {
    fn take(&mut self, result: Result<Outcome<u64>, tokio::task::JoinError>) {
        let result = result.unwrap_or_else(|error| Err(Failure::Failed(error.to_string())));
        match result {
            Ok(bytes) => {
                self.files += 1;
                self.bytes += bytes;
            }
            Err(failure) => self.fail(failure),
        }
    }

    fn fail(&mut self, failure: Failure) {
        output::note(&format_args!("namewire: {failure}"));
        self.failed += 1;
        self.failure.get_or_insert(failure);
    }
}

/// How far a recursive fetch is.
#[derive(Debug, Default)]
pub(super) struct TreeProgress {
    /// Files of the listings so far.
    pub(super) files_found: AtomicU64,
    pub(super) files_done: AtomicU64,
    /// Bytes of the files that have to be fetched, as far as their sizes are known.
    pub(super) bytes_found: AtomicU64,
    pub(super) bytes_done: AtomicU64,
    /// The metadata of all files is known.
    pub(super) is_planned: AtomicBool,
    /// Complete files whose time or permissions could not be set.
    without_attributes: AtomicU64,
}

/// Bytes kept of incomplete files.
#[derive(Debug, Default)]
pub(super) struct Kept {
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Kept {
    /// Reports that the same command resumes the fetch.
    pub(super) fn report(&self) {
        let files = self.files.load(Ordering::Relaxed);
        if files > 0 {
            let bytes = bytes_for_people(self.bytes.load(Ordering::Relaxed));
            output::note(&format_args!(
                "namewire: {bytes} of {files} incomplete files are kept; the same command goes on from \
                 there"
            ));
        }
    }
}

/// A file that is being fetched. If it is dropped after a failure or an interrupt, its part is
/// kept.
struct Unfinished {
    target: Option<Target>,
    kept: Arc<Kept>,
}

impl Unfinished {
    fn complete(mut self) -> Outcome<bool> {
        self.target.take().map_or(Ok(true), Target::complete)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(bytes) = self.target.take().and_then(Target::keep) {
            self.kept.files.fetch_add(1, Ordering::Relaxed);
            self.kept.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

/// A copy of a directory of a file server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) policy: &'a Policy,
    pub(super) workers: &'a Arc<Workers>,
    pub(super) kept: &'a Arc<Kept>,
    pub(super) progress: &'a Arc<TreeProgress>,
    pub(super) rules: &'a Rules,
}

impl Tree<'_> {
    /// Copies the directory `name` to `output`, which is created if it does not exist.
    pub(super) async fn copy(self, name: &Name, output: &Path) -> Outcome<Fetched> {
        if output.is_file() {
            return Err(Failure::Usage(format!(
                "{} is a file: a directory is copied to a directory",
                output.display()
            )));
        }
        let mut fetched = Fetched::default();
        let mut plan = self.plan(name, output, &mut fetched).await?;
        let mut extras = if self.rules.delete && !plan.is_partial {
            let extras = local::extras(output, &plan.paths, &self.rules.filter);
            extras.map_err(|error| Failure::Failed(error.to_string()))?
        } else {
            Vec::new()
        };
        if self.rules.delete && plan.is_partial {
            output::note(
                &"namewire: nothing is deleted, because not all directories could be listed",
            );
        }
        let renames = self.renames(&plan, &mut extras, output).await;
        self.progress.is_planned.store(true, Ordering::Relaxed);
        fetched.changes = changes(&plan, &renames, &extras, self.rules.mode);
        fetched.directories = plan.directories.len() as u64;
        if self.rules.mode != Mode::Copy {
            return Ok(fetched);
        }
        let (in_the_way, extras) =
            extras.into_iter().partition(|extra| is_in_the_way(extra, &plan));
        delete(output, in_the_way, &mut fetched);
        self.check_space(&plan, &renames, output)?;
        let visited = create_directories(&plan, output)?;
        self.apply(&mut plan, renames, output, &mut fetched).await;
        delete(output, extras, &mut fetched);
        // Each file changes the time of its directory.
        for (created, attributes) in visited.iter().rev() {
            let is_root = visited.first().is_some_and(|(root, _)| root == created);
            let umask = self.rules.umask.filter(|_| !is_root);
            let permitted =
                umask.map_or(Ok(()), |umask| local::set_permissions(created, attributes, umask));
            let is_without = set_time(created, attributes).is_err() || permitted.is_err();
            fetched.without_attributes += u64::from(is_without);
        }
        fetched.without_attributes += self.progress.without_attributes.load(Ordering::Relaxed);
        Ok(fetched)
    }

    /// Files of the plan that have their content in an extra, by their positions; these are no extras any more. A file
    /// that was renamed keeps its size and time.
    async fn renames(
        self,
        plan: &Plan,
        extras: &mut Vec<Extra>,
        output: &Path,
    ) -> HashMap<usize, PathBuf> {
        let mut candidates = HashMap::<_, Vec<PathBuf>>::new();
        for extra in extras.iter().filter(|extra| !is_in_the_way(extra, plan)) {
            if let Some(content) = extra.content {
                candidates.entry(content).or_default().push(extra.path.clone());
            }
        }
        if self.rules.mode == Mode::Verify {
            candidates.clear();
        }
        let mut pairs = Vec::new();
        for (position, file) in plan.files.iter().enumerate() {
            let time = file.attributes.and_then(|attributes| attributes.modified());
            let content = file.size.filter(|size| *size > 0).zip(time);
            let is_new = file.decision == Decision::Add;
            let from =
                content.filter(|_| is_new).and_then(|content| candidates.get_mut(&content)?.pop());
            pairs.extend(from.map(|from| (position, from)));
        }
        let mut comparing = JoinSet::new();
        let mut renames = HashMap::new();
        let mut pairs = pairs.into_iter();
        loop {
            while comparing.len() < self.rules.jobs.into()
                && let Some((position, from)) = pairs.next()
            {
                let (endpoint, policy) = (self.endpoint.clone(), self.policy.clone());
                let (found, path) = (plan.files[position].found.clone(), output.join(&from));
                comparing.spawn(async move {
                    let same = plan::has_content_of(&endpoint, &found, &policy, &path).await;
                    (position, from, matches!(same, Ok(Some(true))))
                });
            }
            let Some(compared) = comparing.join_next().await else { break };
            if let Ok((position, from, true)) = compared {
                renames.insert(position, from);
            }
        }
        let moved: HashSet<&PathBuf> = renames.values().collect();
        extras.retain(|extra| !moved.contains(&extra.path));
        renames
    }

    /// Refuses a copy that does not fit, before anything is written.
    fn check_space(self, plan: &Plan, renames: &HashMap<usize, PathBuf>, output: &Path) -> Outcome {
        let mut needed: u64 = 0;
        let mut replaced: u64 = 0;
        for (_, file) in
            plan.files.iter().enumerate().filter(|(position, _)| !renames.contains_key(position))
        {
            if !matches!(file.decision, Decision::Add | Decision::Replace) {
                continue;
            }
            let path = output.join(&file.path);
            let size = file.size.unwrap_or(0);
            self.progress.bytes_found.fetch_add(size, Ordering::Relaxed);
            needed = needed.saturating_add(size.saturating_sub(PartFile::space_of_part(&path)));
            replaced = replaced.saturating_add(fs::metadata(&path).map_or(0, |file| file.len()));
        }
        let needed = needed.saturating_sub(replaced);
        match local::free_bytes(output) {
            Some(free) if free < needed => Err(Failure::Failed(format!(
                "{}: {} are needed, and {} are free on its file system",
                output.display(),
                bytes_for_people(needed),
                bytes_for_people(free)
            ))),
            Some(_) | None => Ok(()),
        }
    }

    /// Renames and fetches files, and sets the attributes of those that have their contents.
    async fn apply(
        self,
        plan: &mut Plan,
        mut renames: HashMap<usize, PathBuf>,
        output: &Path,
        fetched: &mut Fetched,
    ) {
        let mut fetching = JoinSet::new();
        for (position, planned) in std::mem::take(&mut plan.files).into_iter().enumerate() {
            let path = output.join(&planned.path);
            let file = self.file(planned, path);
            let is_complete = match (renames.remove(&position), file.planned.decision) {
                (Some(from), _) => {
                    let renamed = fs::rename(output.join(&from), &file.path).is_ok();
                    fetched.renamed += u64::from(renamed);
                    renamed
                }
                (None, Decision::Unchanged | Decision::SameContent) => {
                    fetched.unchanged += 1;
                    true
                }
                (None, Decision::Add | Decision::Replace) => false,
            };
            if is_complete {
                fetched.files += 1;
                file.take_attributes();
                self.progress.files_done.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            while fetching.len() >= self.rules.jobs.into() {
                if let Some(result) = fetching.join_next().await {
                    fetched.take(result);
                }
            }
            fetching.spawn(file.fetch());
        }
        while let Some(result) = fetching.join_next().await {
            fetched.take(result);
        }
    }

    fn file(self, planned: PlannedFile, path: PathBuf) -> OneFile {
        OneFile {
            endpoint: self.endpoint.clone(),
            planned,
            path,
            policy: self.policy.clone(),
            umask: self.rules.umask,
            workers: Arc::clone(self.workers),
            kept: Arc::clone(self.kept),
            progress: Arc::clone(self.progress),
        }
    }
}

/// A file where the plan has a directory, a directory where it has a file, or what is in that.
fn is_in_the_way(extra: &Extra, plan: &Plan) -> bool {
    extra.path.ancestors().any(|path| plan.paths.get(path.as_os_str().as_bytes()) == Some(&false))
        || plan.paths.contains_key(extra.path.as_os_str().as_bytes())
}

/// All differences, in the order of the paths.
fn changes(
    plan: &Plan,
    renames: &HashMap<usize, PathBuf>,
    extras: &[Extra],
    mode: Mode,
) -> Vec<Change> {
    let of_file = |(position, file): (usize, &PlannedFile)| {
        let from = renames.get(&position).cloned();
        let action = match (&from, file.decision) {
            (Some(_), _) => Action::Rename,
            (None, Decision::Add) if mode == Mode::Verify => Action::Missing,
            (None, Decision::Replace) if mode == Mode::Verify => Action::Differs,
            (None, Decision::Add) => Action::Add,
            (None, Decision::Replace) => Action::Replace,
            (None, Decision::Unchanged | Decision::SameContent) => return None,
        };
        Some(Change { action, path: file.path.clone(), from, bytes: file.size })
    };
    let of_extra = |extra: &Extra| Change {
        action: if mode == Mode::Verify { Action::Extra } else { Action::Delete },
        path: extra.path.clone(),
        from: None,
        bytes: extra.content.map(|(size, _)| size),
    };
    let files = plan.files.iter().enumerate().filter_map(of_file);
    let mut changes: Vec<_> = files.chain(extras.iter().map(of_extra)).collect();
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes
}

fn delete(output: &Path, extras: Vec<Extra>, fetched: &mut Fetched) {
    for extra in extras {
        match local::remove(output, &extra) {
            Ok(()) => fetched.deleted += 1,
            Err(error) => fetched.fail(Failure::file(output.join(&extra.path).display(), &error)),
        }
    }
}

fn create_directories(plan: &Plan, output: &Path) -> Outcome<Vec<(PathBuf, Attributes)>> {
    let create = |(path, attributes): &(PathBuf, Attributes)| {
        let path = output.join(path);
        let created = create_directory(&path, attributes);
        let created = created.map_err(|error| Failure::file(path.display(), &error))?;
        Ok((created, *attributes))
    };
    plan.directories.iter().map(create).collect()
}

/// A file to be fetched.
struct OneFile {
    endpoint: Endpoint,
    planned: PlannedFile,
    path: PathBuf,
    policy: Policy,
    umask: Option<u32>,
    workers: Arc<Workers>,
    kept: Arc<Kept>,
    progress: Arc<TreeProgress>,
}

impl OneFile {
    /// Sets time and permissions of a file that has its content, and records its version.
    fn take_attributes(&self) {
        let Some(attributes) = &self.planned.attributes else { return };
        let timed = match self.planned.decision {
            Decision::Unchanged => Ok(()),
            Decision::SameContent | Decision::Add | Decision::Replace => {
                let timed = fs::File::open(&self.path).and_then(|file| attributes.set_time(&file));
                record(&self.path, &self.policy.origin(&self.planned.found));
                timed
            }
        };
        let is_without = timed.is_err() || self.set_permissions().is_err();
        self.progress.without_attributes.fetch_add(u64::from(is_without), Ordering::Relaxed);
    }

    fn set_permissions(&self) -> io::Result<()> {
        let Some((umask, attributes)) = self.umask.zip(self.planned.attributes) else {
            return Ok(());
        };
        local::set_permissions(&self.path, &attributes, umask)
    }

    /// Fetches it; returns the number of bytes fetched.
    async fn fetch(mut self) -> Outcome<u64> {
        let progress = Arc::clone(&self.progress);
        let mut fetched = self.fetch_version().await;
        if fetched.is_err() {
            // It may have changed since it was found.
            let finding =
                FetchOptions { discovery: Discovery::Metadata, ..self.policy.fetching.clone() };
            if let Ok(found) = self.endpoint.find(&self.planned.name, &finding).await
                && found.name() != self.planned.found.name()
            {
                let metadata =
                    found.metadata().and_then(|content| FileMetadata::decode(content).ok());
                self.planned.attributes = metadata.as_ref().map(Attributes::of);
                self.planned.found = found;
                fetched = self.fetch_version().await;
            }
        }
        progress.files_done.fetch_add(1, Ordering::Relaxed);
        fetched
    }

    async fn fetch_version(&self) -> Outcome<u64> {
        let Self { endpoint, planned, path, policy, workers, kept, progress, .. } = self;
        let mut target = Target::open(Some(path))?;
        target.set_durable(policy.durable);
        if let Some(attributes) = planned.attributes {
            target.set_attributes(attributes);
        }
        let mut unfinished = Unfinished { target: Some(target), kept: Arc::clone(kept) };
        let Some(target) = &mut unfinished.target else { return Ok(0) };
        let mut counted = 0;
        let observe = |fetched: &FetchProgress, already: Already| {
            let bytes = already.bytes + fetched.bytes;
            let new = bytes.saturating_sub(std::mem::replace(&mut counted, bytes));
            progress.bytes_done.fetch_add(new, Ordering::Relaxed);
        };
        let found = planned.found.clone();
        let fetched = fetch_found(endpoint, found, policy, target, workers, observe).await?;
        let bytes = fetched.progress.bytes;
        let has_attributes = if target.waits_for_disk() {
            let complete = tokio::task::spawn_blocking(move || unfinished.complete());
            complete.await.unwrap_or_else(|error| Err(Failure::Failed(error.to_string())))?
        } else {
            unfinished.complete()?
        };
        let is_without = !has_attributes || self.set_permissions().is_err();
        progress.without_attributes.fetch_add(u64::from(is_without), Ordering::Relaxed);
        Ok(bytes)
    }
}

/// Creates a directory and those above it; returns its path without symbolic links. An existing one keeps its
/// permissions, because its user may have restricted them.
fn create_directory(path: &Path, attributes: &Attributes) -> io::Result<PathBuf> {
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    match fs::DirBuilder::new().mode(attributes.permissions()).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        created => created?,
    }
    path.canonicalize()
}

/// Sets the time of a directory, but not of one that a symbolic link has replaced.
fn set_time(path: &Path, attributes: &Attributes) -> io::Result<()> {
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    attributes.set_time(&fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?)
}

/// Reads a directory: its metadata and entries.
pub(super) async fn list(
    endpoint: &Endpoint,
    name: &Name,
    fetching: &FetchOptions,
) -> Outcome<(FileMetadata, Vec<ListingEntry>)> {
    let fetching = FetchOptions { discovery: Discovery::Metadata, ..fetching.clone() };
    let found = endpoint.find(name, &fetching).await.map_err(failure)?;
    let metadata = found.metadata().and_then(|content| FileMetadata::decode(content).ok());
    let Some(metadata) = metadata.filter(FileMetadata::is_directory) else {
        return Err(Failure::Failed(format!(
            "{name} is not a directory of a file server: `namewire get {name}` fetches a file"
        )));
    };
    let listing = endpoint.fetch_found(found, 0, &fetching);
    let listing = listing.collect(LISTING_LEN_MAX).await.map_err(failure)?;
    let entries = parse_listing(&listing).ok_or_else(|| {
        Failure::Failed(format!("{name}: the listing has an entry that is not a file name"))
    })?;
    Ok((metadata, entries))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn attributes(mode: u64) -> Attributes {
        Attributes::of(&FileMetadata {
            name: "/tree/v=1".parse().unwrap(),
            mode: 0o040_000 | mode,
            mtime_ns: Some(1_000_000_000),
            ..FileMetadata::default()
        })
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn directory_is_created_with_permissions_of_the_server_and_group_of_its_parent() {
        let directory = tempfile::tempdir().unwrap();
        let above = directory.path().join("above");
        fs::create_dir(&above).unwrap();
        fs::set_permissions(&above, fs::Permissions::from_mode(0o2755)).unwrap();
        let path = above.join("a/private");
        create_directory(&path, &attributes(0o700)).unwrap();
        assert_eq!(mode(&path), 0o2700);
        // One that exists keeps its permissions, so that an interrupted fetch can be resumed.
        create_directory(&path, &attributes(0o755)).unwrap();
        assert_eq!(mode(&path), 0o2700);
        fs::write(above.join("file"), "").unwrap();
        assert!(create_directory(&above.join("file"), &attributes(0o755)).is_err());
    }

    #[test]
    fn time_is_set_for_directories_but_not_through_links() {
        let directory = tempfile::tempdir().unwrap();
        let (other, path) = (directory.path().join("other"), directory.path().join("path"));
        let created = create_directory(&path, &attributes(0o755)).unwrap();
        set_time(&created, &attributes(0o755)).unwrap();
        let time = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        assert_eq!(time(&path), old);
        fs::create_dir(&other).unwrap();
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(set_time(&created, &attributes(0o755)).is_err());
        assert_ne!(time(&other), old);
    }
}
