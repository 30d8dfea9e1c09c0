//! What a copy of a tree needs: its directories, and what is to be done with each file.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use ndn_client::Endpoint;
use ndn_client::fetch::{Discovery, FetchOptions, FoundObject};
use ndn_files::{
    Attributes, FileMetadata, ListingEntry, has_content, is_reserved_name, is_unchanged,
};
use ndn_packet::Name;
use tokio::task::JoinSet;

use super::{Fetched, Tree, list};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::fetch_file::{Policy, failure, manifest_of};

/// Maximum number of files and directories of a tree.
const ENTRIES_MAX: usize = 1 << 22;
/// Maximum depth of directories.
const DEPTH_MAX: usize = 128;

/// The directories and files of a tree.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Relative to the root, each after the one above it. The first is the root.
    pub(super) directories: Vec<(PathBuf, Attributes)>,
    pub(super) files: Vec<PlannedFile>,
    /// Relative paths, and whether they are directories; those of files that could not be examined, too.
    pub(super) paths: HashMap<Vec<u8>, bool>,
    /// Not all directories could be listed.
    pub(super) is_partial: bool,
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
    pub(super) decision: Decision,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// It was fetched before, and neither it nor its copy has changed.
    Unchanged,
    /// The copy has its content, but not its state.
    SameContent,
    /// There is no copy.
    Add,
    Replace,
}

impl Tree<'_> {
    /// Reads all directories and the metadata of all files. Failures are counted in `fetched`.
    ///
    /// # Errors
    /// The root cannot be listed, or the tree is too large.
    pub(super) async fn plan(
        self,
        root: &Name,
        output: &Path,
        fetched: &mut Fetched,
    ) -> Outcome<Plan> {
        let mut plan = Plan::default();
        let files = self.list_all(root, &mut plan, fetched).await?;
        let mut waiting = files.into_iter();
        let mut examining = JoinSet::new();
        loop {
            while examining.len() < self.rules.jobs.into()
                && let Some((name, path)) = waiting.next()
            {
                let examination = Examination {
                    endpoint: self.endpoint.clone(),
                    policy: self.policy.clone(),
                    target: output.join(&path),
                    compares_all: self.rules.checksum,
                    must_compare: self.rules.mode == super::Mode::Verify,
                    name,
                    path,
                };
                examining.spawn(examination.run());
            }
            let Some(examined) = examining.join_next().await else { break };
            match examined.unwrap_or_else(|error| Err(Failure::Failed(error.to_string()))) {
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
        root: &Name,
        plan: &mut Plan,
        fetched: &mut Fetched,
    ) -> Outcome<Vec<(Name, PathBuf)>> {
        let (metadata, entries) = list(self.endpoint, root, &self.policy.fetching).await?;
        let mut files = Vec::new();
        let mut directories = Vec::new();
        let mut listing = JoinSet::new();
        let mut listed = Some((root.clone(), PathBuf::new(), metadata, entries));
        loop {
            if let Some((name, path, metadata, entries)) = listed.take() {
                plan.directories.push((path.clone(), Attributes::of(&metadata)));
                for entry in entries {
                    self.add(&name, &path, &entry, plan, fetched, &mut directories, &mut files);
                }
                if plan.paths.len() > ENTRIES_MAX
                    || directories
                        .iter()
                        .any(|(below, _): &(Name, _)| below.len() > root.len() + DEPTH_MAX)
                {
                    return Err(Failure::Failed(format!("{root}: too many directories or files")));
                }
            }
            while listing.len() < self.rules.jobs.into()
                && let Some((name, path)) = directories.pop()
            {
                let (endpoint, fetching) = (self.endpoint.clone(), self.policy.fetching.clone());
                listing.spawn(async move {
                    let listed = list(&endpoint, &name, &fetching).await;
                    (name, path, listed)
                });
            }
            let Some(result) = listing.join_next().await else { return Ok(files) };
            let (name, path, result) =
                result.map_err(|error| Failure::Failed(error.to_string()))?;
            match result {
                Ok((metadata, entries)) => listed = Some((name, path, metadata, entries)),
                Err(failure) => {
                    plan.is_partial = true;
                    fetched.fail(failure);
                }
            }
        }
    }

    /// Adds an entry of a directory to the plan, unless it is left out.
    #[expect(clippy::too_many_arguments, reason = "the state of one traversal")]
    fn add(
        self,
        directory: &Name,
        path: &Path,
        entry: &ListingEntry,
        plan: &mut Plan,
        fetched: &mut Fetched,
        directories: &mut Vec<(Name, PathBuf)>,
        files: &mut Vec<(Name, PathBuf)>,
    ) {
        let path = path.join(OsStr::from_bytes(&entry.file_name));
        if self.rules.filter.excludes(path.as_os_str().as_bytes(), entry.is_directory) {
            return;
        }
        let mut name = directory.clone();
        name.push_generic(&entry.file_name);
        // A later fetch would regard it as its own verified part.
        if is_reserved_name(&entry.file_name) {
            fetched.fail(Failure::Failed(format!(
                "{name} is not fetched: its name is reserved for incomplete files"
            )));
            return;
        }
        plan.paths.insert(path.as_os_str().as_bytes().to_vec(), entry.is_directory);
        if entry.is_directory {
            directories.push((name, path));
        } else {
            self.progress.files_found.fetch_add(1, Ordering::Relaxed);
            files.push((name, path));
        }
    }
}

/// Finds out what is to be done with a file.
struct Examination {
    endpoint: Endpoint,
    policy: Policy,
    name: Name,
    path: PathBuf,
    target: PathBuf,
    /// Files that seem to be unchanged are compared, too.
    compares_all: bool,
    /// A file that cannot be compared is a failure.
    must_compare: bool,
}

impl Examination {
    async fn run(self) -> Outcome<PlannedFile> {
        let Self { endpoint, policy, name, path, target, compares_all, must_compare } = self;
        // A file server has metadata of every file: wait for it.
        let finding = FetchOptions { discovery: Discovery::Metadata, ..policy.fetching.clone() };
        let found = endpoint.find(&name, &finding).await.map_err(failure)?;
        let metadata = found.metadata().and_then(|content| FileMetadata::decode(content).ok());
        let size = metadata.as_ref().and_then(|metadata| metadata.size);
        let local = fs::metadata(&target).ok();
        let has_size =
            local.as_ref().is_some_and(|local| local.is_file() && Some(local.len()) == size);
        let unchanged = |size| is_unchanged(&target, &policy.origin(&found), size);
        let decision = if local.is_none() {
            Decision::Add
        } else if !has_size || policy.restart {
            Decision::Replace
        } else if !compares_all && size.is_some_and(unchanged) {
            Decision::Unchanged
        } else {
            let same = has_content_of(&endpoint, &found, &policy, &target).await;
            match same {
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
        };
        let attributes = metadata.as_ref().map(Attributes::of);
        Ok(PlannedFile { name, path, found, size, attributes, decision })
    }
}

/// Whether the file at `path` has the content of an object, according to its manifest; `None` if there is none.
pub(super) async fn has_content_of(
    endpoint: &Endpoint,
    found: &FoundObject,
    policy: &Policy,
    path: &Path,
) -> Outcome<Option<bool>> {
    let Some(manifest) = manifest_of(endpoint, found, &policy.fetching).await? else {
        return Ok(None);
    };
    let file = fs::File::open(path).map_err(|error| Failure::file(path.display(), &error))?;
    let verification = manifest.verification();
    let fetching = FetchOptions { verification: verification.clone(), ..policy.fetching.clone() };
    let first =
        endpoint.fetch_segment(&manifest.to_found(), 0, &fetching).await.map_err(failure)?;
    let (size, segment_len) = (manifest.size(), manifest.segment_size());
    let compare = move || has_content(&file, size, segment_len, &first, &verification);
    let compared = tokio::task::spawn_blocking(compare).await;
    let compared = compared.map_err(|error| Failure::Failed(error.to_string()))?;
    compared.map(Some).map_err(|error| Failure::file(path.display(), &error))
}
