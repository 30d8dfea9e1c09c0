//! Copies a directory of a file server: `namewire sync` and `namewire get --recursive`.
//!
//! A plan is made first: the entries of all directories, and the metadata of all files. Then files are fetched,
//! and at last extra files are deleted and the times of directories set.

mod fetched;
mod filter;
mod local;
mod plan;
mod root;
mod rules;
mod server;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use ndn_client::Endpoint;
use ndn_client::fetch::{FetchProgress, UncheckedSignature};
use ndn_files::{Attributes, PartFile, Workers, record};
use ndn_packet::Name;
use tokio::task::JoinSet;

use super::failure::{Failure, Outcome};
use super::fetch_file::{Already, Policy, fetch_found, no_space};
use super::output::{bytes_for_people, counted, grouped};
use super::progress::Notes;
use super::target::Target;
use fetched::{Action, FetchedFile, Transfer};
pub(super) use fetched::{Change, Fetched, TreeProgress};
pub(super) use filter::{Filter, Pattern};
pub(super) use local::umask;
use local::{Extra, local_path};
pub(super) use plan::list;
use plan::{Decision, Plan, PlannedFile, Planner, find_file, has_content_of};
use root::{Identity, Root};
pub(super) use rules::{JOBS_DEFAULT, Mode, Rules};
use server::Server;

/// Bytes kept of incomplete files, by path.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<HashMap<PathBuf, u64>>);

impl Kept {
    /// Describes the parts that the same command resumes, if there are any.
    pub(super) fn in_words(&self) -> Option<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_empty() {
            return None;
        }
        let bytes = bytes_for_people(kept.values().sum());
        let files = counted(kept.len() as u64, "incomplete file");
        Some(format!("{bytes} of {files} are kept; the same command goes on from there"))
    }

    /// Notes what is kept of a file after a fetch: `None` if nothing is, as after one that is complete.
    fn note(&self, path: &Path, bytes: Option<u64>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match bytes {
            Some(bytes) => kept.insert(path.to_owned(), bytes),
            None => kept.remove(path),
        };
    }
}

/// A file that is being fetched. If it is dropped after a failure or an interrupt, its part is
/// kept.
struct Unfinished {
    target: Option<Target>,
    /// The path in the copy.
    path: PathBuf,
    kept: Arc<Kept>,
}

impl Unfinished {
    fn complete(mut self) -> Outcome<bool> {
        self.target.take().map_or(Ok(true), Target::complete)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let kept = self.target.take().and_then(Target::keep);
        self.kept.note(&self.path, kept.map(|(bytes, _)| bytes));
    }
}

/// A copy of a directory of a file server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree<'a> {
    pub(super) endpoint: &'a Endpoint,
    /// Name of the directory.
    pub(super) name: &'a Name,
    pub(super) policy: &'a Policy,
    pub(super) workers: &'a Arc<Workers>,
    pub(super) kept: &'a Arc<Kept>,
    pub(super) progress: &'a Arc<TreeProgress>,
    pub(super) rules: &'a Rules,
}

impl<'a> Tree<'a> {
    fn planner(self) -> Planner<'a> {
        let Self { endpoint, policy, progress, rules, .. } = self;
        Planner { endpoint, policy, progress, rules, server: self.server() }
    }

    fn server(self) -> Server<'a> {
        let Self { endpoint, name, policy, progress, .. } = self;
        Server { endpoint, directory: name, fetching: &policy.fetching, progress }
    }

    /// Copies the directory to `output`, which is created if it does not exist.
    pub(super) async fn copy(self, output: &Path) -> Outcome<Fetched> {
        let mode = self.rules.mode;
        let mut root = Root::open(output, mode == Mode::Copy)?;
        let mut fetched = Fetched::new(self.policy.notes.clone());
        let mut plan = self.planner().plan(&root, &mut fetched).await?;
        let mut extras = self.extras(&plan, &root, &mut fetched);
        let renames = self.renames(&plan, &mut extras, &root).await;
        if mode != Mode::Verify {
            self.limit(&plan, &mut extras, &mut fetched);
            self.block(&mut plan, &mut extras, &root, &mut fetched);
        }
        self.progress.is_planned.store(true, Ordering::Relaxed);
        fetched.changes = changes(&plan, &renames, &extras, mode);
        fetched.directories = plan.directories.len() as u64;
        match (mode, self.check_space(&plan, &renames, &root)) {
            (Mode::Copy, checked) => checked?,
            (Mode::Preview, Err(failure)) => fetched.fail(failure),
            (Mode::Preview | Mode::Verify, _) => {}
        }
        if mode == Mode::Copy {
            if let Some(top) = plan.directories.first() {
                root.create(&top.attributes)?;
            }
            self.apply(plan, renames, extras, &root, &mut fetched).await;
        }
        let files = self.progress.files_found.load(Ordering::Relaxed);
        if let Some((outage, consequence)) = fetched.finish(files) {
            fetched.failure = Some(self.server().failure(outage, &consequence).await);
        }
        Ok(fetched)
    }

    /// Entries of the copy that the tree does not have; none if they are to be kept, or not known for certain.
    fn extras(self, plan: &Plan, root: &Root, fetched: &mut Fetched) -> Vec<Extra> {
        if !self.rules.delete {
            return Vec::new();
        }
        if fetched.failed > 0 {
            self.policy.notes.write(&NOTHING_DELETED);
            return Vec::new();
        }
        let present = plan.present();
        let expected = local::Expected {
            planned: &plan.paths,
            present: &present,
            filter: &self.rules.filter,
            lists_hidden: plan.lists_hidden,
        };
        local::extras(root, &expected).unwrap_or_else(|error| {
            fetched.fail(Failure::Failed(error.to_string()));
            Vec::new()
        })
    }

    /// Files of the plan that have their content in an extra, by their positions; these are no extras any more. A file
    /// that was renamed keeps its size and time.
    async fn renames(
        self,
        plan: &Plan,
        extras: &mut Vec<Extra>,
        root: &Root,
    ) -> HashMap<usize, Extra> {
        let mut candidates = HashMap::<_, Vec<&Extra>>::new();
        if self.rules.mode != Mode::Verify {
            for extra in extras.iter().filter(|extra| !is_in_the_way(extra, plan)) {
                if let Some(content) = extra.content {
                    candidates.entry(content).or_default().push(extra);
                }
            }
        }
        let mut pairs = Vec::new();
        for (position, file) in plan.files.iter().enumerate() {
            let time = file.attributes.and_then(|attributes| attributes.modified());
            let content = file.size.filter(|size| *size > 0).zip(time);
            let is_new = file.decision == Decision::Add;
            let from =
                content.filter(|_| is_new).and_then(|content| candidates.get_mut(&content)?.pop());
            pairs.extend(from.map(|from| (position, from.clone())));
        }
        let mut comparing = JoinSet::new();
        let mut renames = HashMap::new();
        let mut pairs = pairs.into_iter();
        loop {
            while comparing.len() < self.rules.jobs.into()
                && let Some((position, from)) = pairs.next()
            {
                let Ok(file) = root.read(&from.path) else { continue };
                let (endpoint, policy) = (self.endpoint.clone(), self.policy.clone());
                let progress = Arc::clone(self.progress);
                let found = plan.files[position].found.clone();
                comparing.spawn(async move {
                    let same = has_content_of(&endpoint, &found, &policy, &progress, file).await;
                    (position, from, matches!(same, Ok(Some(true))))
                });
            }
            let Some(compared) = comparing.join_next().await else { break };
            if let Ok((position, from, true)) = compared {
                renames.insert(position, from);
            }
        }
        let moved: HashSet<&PathBuf> = renames.values().map(|from| &from.path).collect();
        extras.retain(|extra| !moved.contains(&extra.path));
        renames
    }

    /// Refuses to delete more files than allowed: the tree may be an empty one that another file system was mounted on.
    fn limit(self, plan: &Plan, extras: &mut Vec<Extra>, fetched: &mut Fetched) {
        let deleted = extras.iter().filter(|extra| !extra.is_directory).count() as u64;
        let kept = plan.files.iter().filter(|file| file.local.is_some()).count() as u64;
        let failure = match self.rules.max_delete {
            None if plan.is_empty && !extras.is_empty() => {
                "the served directory is empty: nothing is deleted".to_owned()
            }
            limit if deleted > limit.unwrap_or_else(|| deletions_max(deleted + kept)) => format!(
                "{deleted} of {} files would be deleted: nothing is deleted",
                deleted + kept
            ),
            Some(_) | None => return,
        };
        fetched.fail(Failure::Failed(format!("{failure} (--max-delete {deleted} accepts it)")));
        extras.clear();
    }

    /// Decides about entries of another kind than in the tree: they are replaced if all that is in them is deleted.
    fn block(self, plan: &mut Plan, extras: &mut Vec<Extra>, root: &Root, fetched: &mut Fetched) {
        let deleted: HashSet<&Path> = extras.iter().map(|extra| extra.path.as_path()).collect();
        let are_replaced = plan.obstacles().all(|obstacle| deleted.contains(obstacle.path));
        for obstacle in plan.obstacles() {
            if are_replaced {
                continue;
            }
            *obstacle.decision = Decision::Blocked;
            let kind = obstacle.local.map_or("an entry", kind_of);
            let hint = match (self.rules.delete, deleted.contains(obstacle.path)) {
                (false, _) => "`namewire sync --delete` replaces it",
                (true, false) => "nothing is deleted, or something in it is kept",
                (true, true) => "nothing is deleted, because another entry is in the way",
            };
            let path = root.join(obstacle.path);
            fetched.fail(Failure::Failed(format!(
                "{}: {kind} is in the way: {hint}",
                local_path(&path)
            )));
        }
        if fetched.failed > 0 && !extras.is_empty() {
            self.policy.notes.write(&NOTHING_DELETED);
            extras.clear();
        }
    }

    /// Refuses a copy that does not fit, before anything is written. While a file is replaced, there are both.
    fn check_space(self, plan: &Plan, renames: &HashMap<usize, Extra>, root: &Root) -> Outcome {
        /// Space of a file system, and the bytes to be written to it.
        struct Device {
            free: u64,
            growth: u64,
            /// Bytes of the files that are replaced, as far as these take the place of others.
            replaced: Vec<u64>,
        }
        let mut devices = HashMap::<u64, Device>::new();
        let mut of_directories = HashMap::<&Path, Option<u64>>::new();
        for (position, file) in plan.files.iter().enumerate() {
            let is_fetched = matches!(file.decision, Decision::Add | Decision::Replace);
            if !is_fetched || renames.contains_key(&position) {
                continue;
            }
            let size = file.size.unwrap_or(0);
            self.progress.bytes_found.fetch_add(size, Ordering::Relaxed);
            let directory = file.path.parent().unwrap_or(Path::new(""));
            let device = *of_directories.entry(directory).or_insert_with(|| {
                let (device, free) = root.space_in(directory)?;
                let new = Device { free, growth: 0, replaced: Vec::new() };
                devices.entry(device).or_insert(new);
                Some(device)
            });
            let Some(device) = device.and_then(|device| devices.get_mut(&device)) else { continue };
            let needed = size.saturating_sub(PartFile::space_of_part(&root.join(&file.path)));
            let replaced =
                file.local.as_ref().filter(|local| local.is_file() && local.nlink() == 1);
            let replaced = replaced.map_or(0, |local| local.blocks().saturating_mul(512));
            device.growth = device.growth.saturating_add(needed.saturating_sub(replaced));
            device.replaced.push(needed.min(replaced));
        }
        for device in devices.values_mut() {
            device.replaced.sort_unstable_by(|one, other| other.cmp(one));
            let at_once = device.replaced.iter().take(self.rules.jobs.into());
            let needed = at_once.fold(device.growth, |sum, bytes| sum.saturating_add(*bytes));
            if needed > device.free {
                let top = local_path(&root.join(Path::new("")));
                return Err(no_space(&top, needed, device.free));
            }
        }
        Ok(())
    }

    /// Makes the copy; deletes at the end, and only if all has succeeded.
    async fn apply(
        self,
        mut plan: Plan,
        renames: HashMap<usize, Extra>,
        mut extras: Vec<Extra>,
        root: &Root,
        fetched: &mut Fetched,
    ) {
        let (unwritable, mut unusable) =
            unwritable(&plan, &extras, root, self.rules.umask, fetched);
        let moved = move_obstacles(&mut plan, &mut extras, root, &mut unusable, fetched);
        for directory in &plan.directories {
            if is_below(&directory.path, &unusable) {
                continue;
            }
            let created = match directory.decision {
                Decision::Unchanged | Decision::SameContent => Ok(()),
                Decision::Add | Decision::Replace if directory.path.as_os_str().is_empty() => {
                    Ok(())
                }
                Decision::Add | Decision::Replace => {
                    root.create_directory(&directory.path, &directory.attributes)
                }
                Decision::Blocked => {
                    unusable.insert(directory.path.clone());
                    continue;
                }
            };
            if let Err(error) = created {
                fetched.fail(Failure::file(root.join(&directory.path).display(), &error));
                unusable.insert(directory.path.clone());
            }
        }
        let files = std::mem::take(&mut plan.files);
        self.fetch_files(files, renames, root, &unusable, fetched).await;
        if fetched.failed == 0 {
            for extra in extras {
                match root.remove(&extra.path, &extra.identity) {
                    Ok(removed) => fetched.deleted += u64::from(removed),
                    Err(error) => {
                        fetched.fail(Failure::file(root.join(&extra.path).display(), &error));
                    }
                }
            }
        } else if !extras.is_empty() {
            move_back(moved, root, &self.policy.notes);
            self.policy.notes.write(&NOTHING_DELETED);
        }
        // Each file changes the time of its directory.
        for (position, directory) in plan.directories.iter().enumerate().rev() {
            if is_below(&directory.path, &unusable) {
                continue;
            }
            let umask = self.rules.umask.filter(|_| position > 0);
            let set = || -> io::Result<()> {
                let file = root.read(&directory.path)?;
                if fetched.failed == 0 {
                    record(&file, &directory.origin);
                }
                directory.attributes.set_time(&file)?;
                umask.map_or(Ok(()), |umask| {
                    local::set_permissions(&file, &directory.attributes, umask)
                })
            };
            // That one was reported.
            let is_counted = set().is_err() && !unwritable.contains(&directory.path);
            fetched.without_attributes += u64::from(is_counted);
        }
        fetched.without_attributes += self.progress.without_attributes.load(Ordering::Relaxed);
    }

    /// Fetches and renames files; none in directories that are unusable. Ends if nothing arrives any more.
    async fn fetch_files(
        self,
        files: Vec<PlannedFile>,
        mut renames: HashMap<usize, Extra>,
        root: &Root,
        unusable: &HashSet<PathBuf>,
        fetched: &mut Fetched,
    ) {
        let mut fetching = JoinSet::new();
        let (mut outage, mut not_begun) = (None, 0);
        for (position, planned) in files.into_iter().enumerate() {
            if planned.decision == Decision::Blocked || is_below(&planned.path, unusable) {
                continue;
            }
            let file = self.file(planned, root.clone());
            let is_complete = match (renames.remove(&position), file.planned.decision) {
                (Some(from), _) => {
                    let renamed = root.rename(&from.path, &file.planned.path, &from.identity);
                    fetched.renamed += u64::from(renamed.is_ok());
                    renamed.is_ok()
                }
                (None, Decision::Unchanged | Decision::SameContent) => {
                    fetched.unchanged += 1;
                    true
                }
                (None, Decision::Add | Decision::Replace | Decision::Blocked) => false,
            };
            if is_complete {
                fetched.files += 1;
                file.take_attributes();
                self.progress.files_done.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            while outage.is_none()
                && fetching.len() >= self.rules.jobs.into()
                && let Some(result) = fetching.join_next().await
            {
                outage = self.server().confirmed(fetched.take(result)).await;
            }
            if outage.is_some() {
                not_begun += 1;
                continue;
            }
            let transfer = Transfer::begin(self.progress);
            fetching.spawn(transfer.clone().watch(file.fetch(transfer)));
        }
        while outage.is_none()
            && let Some(result) = fetching.join_next().await
        {
            let failed_in = fetched.take(result).filter(|_| !fetching.is_empty());
            outage = self.server().confirmed(failed_in).await;
        }
        let unfinished = fetching.len() as u64;
        fetching.shutdown().await;
        if let Some(outage) = outage.filter(|_| unfinished + not_begun > 0) {
            fetched.give_up(outage, unfinished, not_begun);
        }
    }

    fn file(self, planned: PlannedFile, root: Root) -> OneFile {
        OneFile {
            endpoint: self.endpoint.clone(),
            planned,
            root,
            policy: self.policy.clone(),
            umask: self.rules.umask,
            workers: Arc::clone(self.workers),
            kept: Arc::clone(self.kept),
            progress: Arc::clone(self.progress),
        }
    }
}

const NOTHING_DELETED: &str =
    "namewire: nothing is deleted, because not everything could be copied";

/// Number of files of which a copy may lose half without being asked.
const FEW: u64 = 10;

/// Number of files that may be deleted by default.
fn deletions_max(files: u64) -> u64 {
    (files / 2).max(FEW)
}

fn kind_of(entry: &fs::Metadata) -> &'static str {
    if entry.is_dir() {
        "a directory"
    } else if entry.is_file() {
        "a file"
    } else if entry.is_symlink() {
        "a symbolic link"
    } else {
        "a special file"
    }
}

/// Whether an extra is an entry of another kind than in the tree, or in one.
fn is_in_the_way(extra: &Extra, plan: &Plan) -> bool {
    extra.path.ancestors().any(|path| plan.paths.get(path.as_os_str().as_bytes()) == Some(&false))
        || plan.paths.contains_key(extra.path.as_os_str().as_bytes())
}

/// The directories with entries to be changed that may not be written to, and these entries. Each directory is reported once.
/// With `umask`, a directory has the permissions of the server first.
fn unwritable(
    plan: &Plan,
    extras: &[Extra],
    root: &Root,
    umask: Option<u32>,
    fetched: &mut Fetched,
) -> (HashSet<PathBuf>, HashSet<PathBuf>) {
    let is_changed = |decision| match decision {
        Decision::Add | Decision::Replace => true,
        Decision::Unchanged | Decision::SameContent | Decision::Blocked => false,
    };
    let directories = plan.directories.iter().filter(|directory| is_changed(directory.decision));
    let files = plan.files.iter().filter(|file| is_changed(file.decision));
    let paths = directories.map(|directory| &directory.path).chain(files.map(|file| &file.path));
    let mut changed = BTreeMap::<&Path, Vec<&PathBuf>>::new();
    for path in paths.chain(extras.iter().map(|extra| &extra.path)) {
        // The root has no directory above it here.
        if let Some(directory) = path.parent() {
            changed.entry(directory).or_default().push(path);
        }
    }
    let set_permissions = |path: &Path, umask: u32| -> io::Result<()> {
        let planned = plan.directories.iter().skip(1).find(|planned| planned.path == path);
        let attributes = &planned.ok_or(io::ErrorKind::NotFound)?.attributes;
        local::set_permissions(&root.read(path)?, attributes, umask)
    };
    let (mut unwritable, mut unusable) = (HashSet::new(), HashSet::new());
    for (directory, entries) in changed {
        let is_writable = root.check_writable(directory).or_else(|error| match umask {
            Some(umask) if set_permissions(directory, umask).is_ok() => {
                root.check_writable(directory)
            }
            Some(_) | None => Err(error),
        });
        if let Err(error) = is_writable {
            unwritable.insert(directory.to_owned());
            let directory = local_path(&root.join(directory));
            let count = match entries.len() {
                1 => "1 entry in it is left as it is".to_owned(),
                count => format!("{} entries in it are left as they are", grouped(count as u64)),
            };
            fetched.fail(Failure::Failed(format!("{directory}: {error}; {count}")));
            unusable.extend(entries.into_iter().cloned());
        }
    }
    (unwritable, unusable)
}

/// Whether a path, or one above it, is in a set.
fn is_below(path: &Path, set: &HashSet<PathBuf>) -> bool {
    !set.is_empty() && path.ancestors().any(|path| set.contains(path))
}

/// An entry that was in the way, and now has a hidden name.
struct Moved {
    from: PathBuf,
    to: PathBuf,
    identity: Identity,
}

/// Renames what is in the way to hidden names, but for links and special files, which a file replaces atomically. What
/// cannot be renamed is unusable.
fn move_obstacles(
    plan: &mut Plan,
    extras: &mut Vec<Extra>,
    root: &Root,
    unusable: &mut HashSet<PathBuf>,
    fetched: &mut Fetched,
) -> Vec<Moved> {
    let mut moved = Vec::new();
    let mut replaced = HashSet::new();
    for obstacle in plan.obstacles() {
        let Some(local) = obstacle.local.filter(|_| *obstacle.decision == Decision::Replace) else {
            continue;
        };
        if is_below(obstacle.path, unusable) {
            continue;
        }
        let from = obstacle.path.to_owned();
        if !obstacle.is_for_directory && !local.is_dir() {
            replaced.insert(from);
            continue;
        }
        let identity = Identity::of(local);
        let free = local::hidden_names(&from).find(|to| matches!(root.entry(to), Ok(None)));
        let to = free.unwrap_or_else(|| from.clone());
        match root.rename(&from, &to, &identity) {
            Ok(()) => moved.push(Moved { from, to, identity }),
            Err(error) => {
                fetched.fail(Failure::file(root.join(&from).display(), &error));
                unusable.insert(from);
            }
        }
    }
    extras.retain(|extra| !replaced.contains(&extra.path));
    let names: HashMap<&Path, &Path> =
        moved.iter().map(|moved| (moved.from.as_path(), moved.to.as_path())).collect();
    for extra in extras.iter_mut().filter(|_| !names.is_empty()) {
        let above = extra.path.ancestors().find_map(|above| Some((above, *names.get(above)?)));
        if let Some((from, to)) = above
            && let Ok(rest) = extra.path.strip_prefix(from)
        {
            // The path of the entry itself gets no slash.
            extra.path = to.components().chain(rest.components()).collect();
        }
    }
    moved
}

/// Gives what was in the way its name again, if nothing has taken its place.
fn move_back(moved: Vec<Moved>, root: &Root, notes: &Notes) {
    for Moved { from, to, identity } in moved {
        if root.rename(&to, &from, &identity).is_err() {
            notes.write(&format_args!(
                "namewire: what was at {} is kept as {}",
                local_path(&root.join(&from)),
                local_path(&root.join(&to))
            ));
        }
    }
}

/// All differences, in the order of the paths.
fn changes(
    plan: &Plan,
    renames: &HashMap<usize, Extra>,
    extras: &[Extra],
    mode: Mode,
) -> Vec<Change> {
    let blocked: HashSet<PathBuf> = plan
        .directories
        .iter()
        .filter(|directory| directory.decision == Decision::Blocked)
        .map(|directory| directory.path.clone())
        .collect();
    let action = |decision| match decision {
        Decision::Add if mode == Mode::Verify => Some(Action::Missing),
        Decision::Replace | Decision::Blocked if mode == Mode::Verify => Some(Action::Differs),
        Decision::Add => Some(Action::Add),
        Decision::Replace => Some(Action::Replace),
        Decision::Blocked => Some(Action::Blocked),
        Decision::Unchanged | Decision::SameContent => None,
    };
    // What is below an entry that blocks a directory is not considered.
    let is_considered = |path: &Path| path.parent().is_none_or(|above| !is_below(above, &blocked));
    let of_directories = plan.directories.iter().filter_map(|directory| {
        let path =
            if directory.path.as_os_str().is_empty() { Path::new(".") } else { &directory.path };
        let action = action(directory.decision).filter(|_| is_considered(path))?;
        Some(Change { action, path: path.to_owned(), from: None, bytes: None })
    });
    let of_file = |(position, file): (usize, &PlannedFile)| {
        let from = renames.get(&position).map(|from| from.path.clone());
        let action = if from.is_some() { Some(Action::Rename) } else { action(file.decision) };
        let action = action.filter(|_| is_considered(&file.path))?;
        Some(Change { action, path: file.path.clone(), from, bytes: file.size })
    };
    // An entry of another kind is reported as what replaces it.
    let is_deleted = |extra: &&Extra| !plan.paths.contains_key(extra.path.as_os_str().as_bytes());
    let of_extra = |extra: &Extra| Change {
        action: if mode == Mode::Verify { Action::Extra } else { Action::Delete },
        path: extra.path.clone(),
        from: None,
        bytes: extra.content.map(|(size, _)| size),
    };
    let files = plan.files.iter().enumerate().filter_map(of_file);
    let extras = extras.iter().filter(is_deleted).map(of_extra);
    let mut changes: Vec<_> = of_directories.chain(files).chain(extras).collect();
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes
}

/// A file to be fetched.
struct OneFile {
    endpoint: Endpoint,
    planned: PlannedFile,
    root: Root,
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
        let take = || -> io::Result<()> {
            let file = self.root.read(&self.planned.path)?;
            if self.planned.decision != Decision::Unchanged {
                attributes.set_time(&file)?;
                record(&file, &self.policy.origin(&self.planned.found));
            }
            self.umask.map_or(Ok(()), |umask| local::set_permissions(&file, attributes, umask))
        };
        self.progress.without_attributes.fetch_add(u64::from(take().is_err()), Ordering::Relaxed);
    }

    fn set_permissions(&self) -> io::Result<()> {
        let Some((umask, attributes)) = self.umask.zip(self.planned.attributes) else {
            return Ok(());
        };
        local::set_permissions(&self.root.read(&self.planned.path)?, &attributes, umask)
    }

    /// Fetches it.
    async fn fetch(mut self, transfer: Transfer) -> Outcome<FetchedFile> {
        let progress = Arc::clone(&self.progress);
        let current = progress.fetches(&transfer, &self.planned.path);
        let mut fetched = self.fetch_version(&transfer).await;
        if fetched.is_err() {
            // It may have changed since it was found.
            let now = find_file(&self.endpoint, &self.planned.name, &self.policy).await;
            if now.is_ok() {
                progress.note_answer();
            }
            if let Ok((found, metadata)) = now
                && found.name() != self.planned.found.name()
            {
                self.planned.attributes = metadata.as_ref().map(Attributes::of);
                self.planned.found = found;
                fetched = self.fetch_version(&transfer).await;
            }
        }
        drop(current);
        progress.files_done.fetch_add(1, Ordering::Relaxed);
        let has_replaced = self.planned.decision == Decision::Replace;
        let has_replaced_changed = self.planned.has_changed;
        fetched.map(|(bytes, unchecked)| FetchedFile {
            bytes,
            has_replaced,
            has_replaced_changed,
            unchecked,
        })
    }

    /// Fetches a version; returns the number of bytes fetched, and a signature that was not checked.
    async fn fetch_version(
        &self,
        transfer: &Transfer,
    ) -> Outcome<(u64, Option<UncheckedSignature>)> {
        let Self { endpoint, planned, root, policy, workers, kept, progress, .. } = self;
        let path = root.join(&planned.path);
        root.check_above(&planned.path).map_err(|error| Failure::file(path.display(), &error))?;
        let mut target = Target::replacing(path)?;
        target.set_durable(policy.durable);
        if let Some(attributes) = planned.attributes {
            target.set_attributes(attributes);
        }
        let mut unfinished =
            Unfinished { target: Some(target), path: planned.path.clone(), kept: Arc::clone(kept) };
        let Some(target) = &mut unfinished.target else { return Ok((0, None)) };
        let (mut counted, mut segments) = (0, 0);
        let observe = |fetched: &FetchProgress, already: Already| {
            if fetched.segments > std::mem::replace(&mut segments, fetched.segments) {
                transfer.note_arrival();
            }
            let bytes = already.bytes + fetched.bytes;
            let new = bytes.saturating_sub(std::mem::replace(&mut counted, bytes));
            progress.bytes_done.fetch_add(new, Ordering::Relaxed);
        };
        let found = planned.found.clone();
        let fetched = fetch_found(endpoint, found, policy, target, workers, observe).await?;
        let has_attributes = if target.waits_for_disk() {
            let complete = tokio::task::spawn_blocking(move || unfinished.complete());
            complete.await.unwrap_or_else(|error| Err(Failure::Failed(error.to_string())))?
        } else {
            unfinished.complete()?
        };
        let is_without = !has_attributes || self.set_permissions().is_err();
        progress.without_attributes.fetch_add(u64::from(is_without), Ordering::Relaxed);
        Ok((fetched.progress.bytes, fetched.unchecked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_bytes_are_those_of_files_that_are_still_incomplete() {
        let kept = Kept::default();
        let (one, other) = (Path::new("one"), Path::new("d/other"));
        kept.note(one, Some(1000));
        kept.note(other, Some(2048));
        kept.note(other, Some(1048));
        let text = kept.in_words().unwrap();
        assert!(text.contains(" of 2 incomplete files are kept"), "{text}");
        // Its fetch started over and succeeded.
        kept.note(other, None);
        let text = kept.in_words().unwrap();
        assert!(text.contains(" of 1 incomplete file are kept"), "{text}");
        kept.note(one, None);
        assert_eq!(kept.in_words(), None);
    }
}
