//! `namewire get --recursive`: a directory of a file server with all that is in it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ndn_client::Endpoint;
use ndn_client::fetch::{Discovery, FetchOptions};
use ndn_files::{FileMetadata, ListingEntry, Workers, is_reserved_name, parse_listing};
use ndn_packet::Name;
use tokio::task::JoinSet;

use super::failure::{Failure, Outcome};
use super::fetch_file::{self, Policy, abandon, failure};
use super::target::Target;

/// Files that are fetched at a time.
const FILES_AT_A_TIME: usize = 64;
/// Longest listing in bytes.
const LISTING_LEN_MAX: usize = 64 << 20;
/// Deepest directory.
const DEPTH_MAX: usize = 128;

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    pub(super) files: u64,
    pub(super) directories: u64,
    pub(super) bytes: u64,
    /// Files that could not be fetched, and what has a name that is refused.
    pub(super) failed: u64,
    /// Why the first of them could not.
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
        super::output::note(&format_args!("namewire: {failure}"));
        self.failed += 1;
        self.failure.get_or_insert(failure);
    }
}

/// Fetches the directory `name` into `output`, which is made if it is not there.
pub(super) async fn fetch(
    endpoint: &Endpoint,
    name: &Name,
    output: &Path,
    policy: &Policy,
    workers: &Arc<Workers>,
) -> Outcome<Fetched> {
    let mut fetched = Fetched::default();
    let mut fetching = JoinSet::new();
    let mut directories = vec![(name.clone(), output.to_owned())];
    while let Some((name, path)) = directories.pop() {
        let entries = list(endpoint, &name, policy).await?;
        fs::create_dir_all(&path).map_err(|error| Failure::file(path.display(), &error))?;
        fetched.directories += 1;
        for entry in entries {
            let mut below = name.clone();
            below.push_generic(&entry.file_name);
            // A later fetch would take it for what it has itself fetched and verified before.
            if is_reserved_name(&entry.file_name) {
                fetched.fail(Failure::Failed(format!(
                    "{below} is not fetched: its name is one for fetches that are not complete"
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
            let workers = Arc::clone(workers);
            fetching.spawn(one(endpoint.clone(), below, path, policy.clone(), workers));
        }
        if directories.len() > 1 << 20
            || directories.iter().any(|(below, _)| below.len() > name.len() + DEPTH_MAX)
        {
            return Err(Failure::Failed(format!("{name}: too many directories")));
        }
    }
    while let Some(result) = fetching.join_next().await {
        fetched.take(result);
    }
    Ok(fetched)
}

/// Fetches one file; returns its length.
async fn one(
    endpoint: Endpoint,
    name: Name,
    path: PathBuf,
    policy: Policy,
    workers: Arc<Workers>,
) -> Outcome<u64> {
    let mut target = Target::open(Some(&path))?;
    match fetch_file::fetch(&endpoint, &name, &policy, &mut target, &workers, |_, _| {}).await {
        Ok(fetched) => {
            target.complete()?;
            Ok(fetched.bytes())
        }
        Err(failure) => {
            abandon(target, &failure);
            Err(failure)
        }
    }
}

/// What is in a directory.
async fn list(endpoint: &Endpoint, name: &Name, policy: &Policy) -> Outcome<Vec<ListingEntry>> {
    let fetching = FetchOptions { discovery: Discovery::Metadata, ..policy.fetching.clone() };
    let found = endpoint.find(name, &fetching).await.map_err(failure)?;
    let metadata = found.metadata().map(|content| FileMetadata::decode(content));
    if !metadata.and_then(Result::ok).is_some_and(|metadata| metadata.is_directory()) {
        return Err(Failure::Failed(format!("{name} is not a directory of a file server")));
    }
    let listing = endpoint.fetch_found(found, 0, &fetching);
    let listing = listing.collect(LISTING_LEN_MAX).await.map_err(failure)?;
    parse_listing(&listing).ok_or_else(|| {
        Failure::Failed(format!("{name}: the listing has an entry that is no file name"))
    })
}
