//! Manifests built before they are requested, and how far that is.
//!
//! A manifest takes as long as reading the file does. A thread walks the mounts and stores the digests of every file
//! that has none on disk; a file that has changed is found by the next walk. What is being built, by this thread or for
//! a request, is registered (`preparations.rs`), so that nothing is hashed twice at a time and consumers learn when to
//! ask again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ndn_packet::Name;

use crate::cache::Key;
use crate::serve::{MountPoint, Prepared, Service};
use crate::stat::FileStat;
use crate::walk::{WalkedFile, walk as walk_files};

/// A file that was changed less than this ago may still be being written.
pub(crate) const SETTLED_NS: u64 = 2_000_000_000;
/// Maximum number of files found by one walk; the next walk finds others.
const FILES_PER_WALK_MAX: usize = 100_000;

/// A file without stored digests.
struct Missing {
    mount: usize,
    name: Name,
    path: PathBuf,
    stat: FileStat,
}

/// The result of a walk.
#[derive(Default)]
struct Walk {
    missing: Vec<Missing>,
    /// Files whose digests could not be stored by an earlier walk, in these states: they are not hashed again.
    failed: HashMap<Name, FileStat>,
}

/// Builds the manifests of all files of a service.
pub(crate) struct Preparer<'a> {
    service: &'a Service,
    mounts: &'a [Arc<MountPoint>],
}

impl<'a> Preparer<'a> {
    pub(crate) fn new(service: &'a Service, mounts: &'a [Arc<MountPoint>]) -> Self {
        Self { service, mounts }
    }

    /// Prepares the manifests of all files, until the server ends.
    pub(crate) fn run(&self) {
        let preparations = &self.service.preparations;
        let mut failed = HashMap::new();
        loop {
            let mut walk = Walk::default();
            for (mount, point) in self.mounts.iter().enumerate() {
                self.walk(point, mount, &failed, &mut walk);
            }
            failed = walk.failed;
            let bytes: u64 = walk.missing.iter().map(|one| one.stat.size).sum();
            preparations.files_total.fetch_add(walk.missing.len() as u64, Ordering::Relaxed);
            preparations.bytes_total.fetch_add(bytes, Ordering::Relaxed);
            let mut without_room = 0;
            for Missing { mount, name, path, stat } in walk.missing {
                if preparations.is_closed() {
                    return;
                }
                let key: Key = Arc::from(name.value());
                let prepared = self.prepare(&self.mounts[mount], key, name.clone(), path);
                if prepared == Prepared::Stored {
                    preparations.files.fetch_add(1, Ordering::Relaxed);
                    preparations.bytes.fetch_add(stat.size, Ordering::Relaxed);
                    continue;
                }
                preparations.files_total.fetch_sub(1, Ordering::Relaxed);
                preparations.bytes_total.fetch_sub(stat.size, Ordering::Relaxed);
                match prepared {
                    Prepared::Failed => {
                        failed.insert(name, stat);
                    }
                    Prepared::NoRoom => without_room += 1,
                    Prepared::Stored | Prepared::Later => {}
                }
            }
            let left_out = failed.len() as u64 + without_room;
            preparations.files_left_out.store(left_out, Ordering::Relaxed);
            preparations.walks.fetch_add(1, Ordering::Relaxed);
            if !preparations.wait() {
                return;
            }
        }
    }

    /// Adds the files of a mount that have no stored digests and are worth it.
    fn walk(
        &self,
        point: &Arc<MountPoint>,
        mount: usize,
        failed: &HashMap<Name, FileStat>,
        walk: &mut Walk,
    ) {
        let now_ns = crate::real_time::unix_ns();
        let preparations = &self.service.preparations;
        let is_closed = || preparations.is_closed();
        let leave_out = |path: &Path, reason| {
            self.service.not_served.note(point.source.as_ref(), path, reason);
        };
        walk_files(
            point.source.as_ref(),
            &point.prefix,
            is_closed,
            |WalkedFile { name, path, stat }| {
                let is_settled = now_ns.saturating_sub(stat.mtime_ns) >= SETTLED_NS;
                if !is_settled || !self.is_unprepared(point, &name, &stat) {
                    return;
                }
                if failed.get(&name).is_some_and(|failed| failed.is_same_content(&stat)) {
                    walk.failed.insert(name, stat);
                } else if walk.missing.len() < FILES_PER_WALK_MAX {
                    walk.missing.push(Missing { mount, name, path, stat });
                }
            },
            leave_out,
        );
    }

    /// Whether a file needs digests on disk, and has none. Those that it has are noted as in use.
    fn is_unprepared(&self, point: &MountPoint, name: &Name, stat: &FileStat) -> bool {
        // The version of a state that is new is determined when the file is open.
        let version = self.service.announced(point, name, stat).unwrap_or(stat.mtime_ns);
        let layout = self.service.layout(point, name, version, stat.size);
        let Some(layout) = layout else { return false };
        let is_unprepared = self.service.wants_preparation(&layout, stat);
        if !is_unprepared {
            self.service.note_in_use(&layout, stat);
        }
        is_unprepared
    }

    /// Builds and stores the manifest of a file. Failures are left to the first request, which reports them.
    fn prepare(&self, point: &Arc<MountPoint>, key: Key, name: Name, path: PathBuf) -> Prepared {
        let target = crate::serve::Target { key: &key, mount: Arc::clone(point), name, path };
        self.service.prepare_target(&target)
    }
}
