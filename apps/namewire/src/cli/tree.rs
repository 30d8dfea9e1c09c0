//! `namewire get --recursive`: fetches a directory of a file server recursively.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ndn_client::Endpoint;
use ndn_client::fetch::{Discovery, FetchOptions, FetchProgress};
use ndn_files::{
    Attributes, FileMetadata, ListingEntry, Workers, is_reserved_name, is_unchanged, parse_listing,
};
use ndn_packet::Name;
use tokio::task::JoinSet;

use super::failure::{Failure, Outcome};
use super::fetch_file::{Already, Policy, failure, fetch_found};
use super::output::{self, bytes_for_people};
use super::target::Target;

/// Number of files to fetch concurrently.
const FILES_AT_A_TIME: usize = 64;
/// Maximum size of a listing, in bytes.
const LISTING_LEN_MAX: usize = 64 << 20;
/// Maximum depth of directories.
const DEPTH_MAX: usize = 128;

/// Result of the fetch.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    /// Number of complete files.
    pub(super) files: u64,
    /// Number of these that were complete before and are unchanged.
    pub(super) unchanged: u64,
    pub(super) directories: u64,
    /// Number of content bytes fetched.
    pub(super) bytes: u64,
    /// Number of files that could not be fetched, or have an invalid name.
    pub(super) failed: u64,
    /// Number of files and directories that do not have the server's time and permissions.
    pub(super) without_attributes: u64,
    /// The first failure.
    pub(super) failure: Option<Failure>,
}

impl Fetched {
    fn take(&mut self, result: Result<Outcome<Option<u64>>, tokio::task::JoinError>) {
        let result = result.unwrap_or_else(|error| Err(Failure::Failed(error.to_string())));
        match result {
            Ok(bytes) => {
                self.files += 1;
                self.unchanged += u64::from(bytes.is_none());
                self.bytes += bytes.unwrap_or(0);
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
    /// All directories were listed.
    pub(super) is_listed: AtomicBool,
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

/// Options of a recursive fetch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) policy: &'a Policy,
    pub(super) workers: &'a Arc<Workers>,
    pub(super) kept: &'a Arc<Kept>,
    pub(super) progress: &'a Arc<TreeProgress>,
}

impl Tree<'_> {
    /// Fetches the directory `name` into `output`, which is created if it does not exist.
    pub(super) async fn fetch(self, name: &Name, output: &Path) -> Outcome<Fetched> {
        let mut fetched = Fetched::default();
        let mut fetching = JoinSet::new();
        let mut directories = vec![(name.clone(), output.to_owned())];
        let mut visited = Vec::new();
        while let Some((name, path)) = directories.pop() {
            let (metadata, entries) = list(self.endpoint, &name, &self.policy.fetching).await?;
            if path.is_file() {
                return Err(Failure::Usage(format!(
                    "{} is a file: --recursive fetches into a directory",
                    path.display()
                )));
            }
            let attributes = Attributes::of(&metadata);
            let created = create_directory(&path, &attributes);
            let created = created.map_err(|error| Failure::file(path.display(), &error))?;
            fetched.directories += 1;
            visited.push((created, attributes));
            for entry in entries {
                let mut below = name.clone();
                below.push_generic(&entry.file_name);
                // A later fetch would regard it as its own verified part.
                if is_reserved_name(&entry.file_name) {
                    fetched.fail(Failure::Failed(format!(
                        "{below} is not fetched: its name is reserved for incomplete files"
                    )));
                    continue;
                }
                let path = path.join(OsStr::from_bytes(&entry.file_name));
                if entry.is_directory {
                    directories.push((below, path));
                    continue;
                }
                while fetching.len() >= FILES_AT_A_TIME {
                    if let Some(result) = fetching.join_next().await {
                        fetched.take(result);
                    }
                }
                self.progress.files_found.fetch_add(1, Ordering::Relaxed);
                fetching.spawn(self.file(below, path).fetch());
            }
            if directories.len() > 1 << 20
                || directories.iter().any(|(below, _)| below.len() > name.len() + DEPTH_MAX)
            {
                return Err(Failure::Failed(format!("{name}: too many directories")));
            }
        }
        self.progress.is_listed.store(true, Ordering::Relaxed);
        while let Some(result) = fetching.join_next().await {
            fetched.take(result);
        }
        // Each file changes the time of its directory.
        let is_without =
            |(path, attributes): &&(PathBuf, Attributes)| set_time(path, attributes).is_err();
        fetched.without_attributes = visited.iter().filter(is_without).count() as u64
            + self.progress.without_attributes.load(Ordering::Relaxed);
        Ok(fetched)
    }

    fn file(self, name: Name, path: PathBuf) -> OneFile {
        OneFile {
            endpoint: self.endpoint.clone(),
            name,
            path,
            policy: self.policy.clone(),
            workers: Arc::clone(self.workers),
            kept: Arc::clone(self.kept),
            progress: Arc::clone(self.progress),
        }
    }
}

/// A file to be fetched.
struct OneFile {
    endpoint: Endpoint,
    name: Name,
    path: PathBuf,
    policy: Policy,
    workers: Arc<Workers>,
    kept: Arc<Kept>,
    progress: Arc<TreeProgress>,
}

impl OneFile {
    /// Fetches it; returns the number of bytes fetched, `None` if it is complete already.
    async fn fetch(self) -> Outcome<Option<u64>> {
        let progress = Arc::clone(&self.progress);
        let fetched = self.fetch_counted().await;
        progress.files_done.fetch_add(1, Ordering::Relaxed);
        fetched
    }

    async fn fetch_counted(self) -> Outcome<Option<u64>> {
        let Self { endpoint, name, path, policy, workers, kept, progress } = self;
        // A file server has metadata of every file: wait for it.
        let finding = FetchOptions { discovery: Discovery::Metadata, ..policy.fetching.clone() };
        let found = endpoint.find(&name, &finding).await.map_err(failure)?;
        let metadata = found.metadata().and_then(|content| FileMetadata::decode(content).ok());
        let size = metadata.as_ref().and_then(|metadata| metadata.size);
        let unchanged = |size| is_unchanged(&path, &policy.origin(&found), size);
        if !policy.restart && size.is_some_and(unchanged) {
            return Ok(None);
        }
        let mut target = Target::open(Some(&path))?;
        target.set_durable(policy.durable);
        if let Some(metadata) = &metadata {
            target.set_attributes(Attributes::of(metadata));
        }
        let mut unfinished = Unfinished { target: Some(target), kept };
        let Some(target) = &mut unfinished.target else { return Ok(None) };
        progress.bytes_found.fetch_add(size.unwrap_or(0), Ordering::Relaxed);
        let mut counted = 0;
        let observe = |fetched: &FetchProgress, already: Already| {
            let bytes = already.bytes + fetched.bytes;
            let new = bytes.saturating_sub(std::mem::replace(&mut counted, bytes));
            progress.bytes_done.fetch_add(new, Ordering::Relaxed);
        };
        let fetched = fetch_found(&endpoint, found, &policy, target, &workers, observe).await?;
        let bytes = fetched.progress.bytes;
        let has_attributes = if target.waits_for_disk() {
            let complete = tokio::task::spawn_blocking(move || unfinished.complete());
            complete.await.unwrap_or_else(|error| Err(Failure::Failed(error.to_string())))?
        } else {
            unfinished.complete()?
        };
        progress.without_attributes.fetch_add(u64::from(!has_attributes), Ordering::Relaxed);
        Ok(Some(bytes))
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
            final_segment: None,
            segment_size: None,
            size: None,
            mode: 0o040_000 | mode,
            atime_ns: None,
            btime_ns: None,
            ctime_ns: None,
            mtime_ns: Some(1_000_000_000),
            manifest: None,
            manifest_root: None,
            preparation_ms: None,
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
