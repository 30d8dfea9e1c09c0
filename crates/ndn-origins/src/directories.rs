//! Listings of directories of an origin, and their versions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ndn_files::{FileKind, FileStat, SourceEntry, SourceListing};
use ndn_security::sha256;
use ndn_types::{Now, Timestamp, duration_ns};

/// Time for which a listing is used.
const VALIDITY: Duration = Duration::from_secs(5);
/// Entries of all listings in memory.
const ENTRIES_MAX: usize = 1 << 20;
/// Entries that a listing counts as besides its own.
const ENTRIES_REST: usize = 16;

/// The listings that were read last.
#[derive(Debug, Default)]
pub(crate) struct Directories(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    by_path: HashMap<PathBuf, Directory>,
    entries: usize,
}

#[derive(Debug)]
struct Directory {
    listing: SourceListing,
    digest: [u8; 32],
    listed: Timestamp,
}

impl Directories {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The listing of a directory, if it is recent.
    pub(crate) fn recent(&self, path: &Path, now: Timestamp) -> Option<SourceListing> {
        let state = self.state();
        let directory = state.by_path.get(path)?;
        let is_recent = now - directory.listed < VALIDITY;
        is_recent.then(|| directory.listing.clone())
    }

    /// The listing of `entries`. Its version is the time at which these entries were seen first: origins do not say when a
    /// directory changed.
    pub(crate) fn listed(&self, path: &Path, entries: Vec<SourceEntry>, now: Now) -> SourceListing {
        let (digest, unix_ns) = (digest_of(&entries), duration_ns(now.unix));
        let mut state = self.state();
        let known = state.by_path.remove(path);
        if let Some(known) = &known {
            state.entries -= known.listing.entries.len() + ENTRIES_REST;
        }
        let version_ns = match &known {
            Some(known) if known.digest == digest => known.listing.stat.mtime_ns,
            Some(known) => unix_ns.max(known.listing.stat.mtime_ns + 1),
            None => unix_ns,
        };
        let stat = FileStat::remote(FileKind::Directory, 0, version_ns, &digest);
        let listing = SourceListing { stat, entries, unreadable: Vec::new(), special: Vec::new() };
        let weight = listing.entries.len() + ENTRIES_REST;
        while state.entries + weight > ENTRIES_MAX && !state.by_path.is_empty() {
            state.remove_oldest();
        }
        state.entries += weight;
        let directory = Directory { listing: listing.clone(), digest, listed: now.monotonic };
        state.by_path.insert(path.to_owned(), directory);
        listing
    }
}

impl State {
    fn remove_oldest(&mut self) {
        let oldest = self.by_path.iter().min_by_key(|(_, directory)| directory.listed);
        let Some(path) = oldest.map(|(path, _)| path.clone()) else { return };
        if let Some(removed) = self.by_path.remove(&path) {
            self.entries -= removed.listing.entries.len() + ENTRIES_REST;
        }
    }
}

/// Digest of names and kinds, whatever their order.
fn digest_of(entries: &[SourceEntry]) -> [u8; 32] {
    let mut lines: Vec<&SourceEntry> = entries.iter().collect();
    lines.sort_unstable_by(|one, other| one.file_name.cmp(&other.file_name));
    let mut text = Vec::new();
    for entry in lines {
        text.extend_from_slice(&entry.file_name);
        text.extend_from_slice(if entry.is_directory { b"/\0" } else { b"\0" });
    }
    sha256(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both clocks at this number of nanoseconds.
    fn both(nanos: u64) -> Now {
        Now { monotonic: Timestamp::from_nanos(nanos), unix: Duration::from_nanos(nanos) }
    }

    fn entries(names: &[&str]) -> Vec<SourceEntry> {
        let entry = |name: &&str| SourceEntry {
            file_name: name.as_bytes().to_vec(),
            is_directory: false,
            stat: None,
        };
        names.iter().map(entry).collect()
    }

    #[test]
    fn version_changes_with_the_entries_and_not_with_their_order() {
        let directories = Directories::default();
        let at = Timestamp::from_nanos;
        let listed = |names: &[&str], at: u64| {
            directories.listed(Path::new("a"), entries(names), both(at)).stat.mtime_ns
        };
        assert_eq!(listed(&["x", "y"], 100), 100);
        assert_eq!(listed(&["y", "x"], 200), 100);
        assert_eq!(listed(&["x"], 300), 300);
        // The clock was set back.
        assert_eq!(listed(&["x", "y"], 250), 301);
        assert!(directories.recent(Path::new("a"), at(249) + VALIDITY).is_some());
        assert!(directories.recent(Path::new("a"), at(250) + VALIDITY).is_none());
        assert!(directories.recent(Path::new("b"), at(250)).is_none());
    }

    #[test]
    fn oldest_listings_are_removed() {
        let directories = Directories::default();
        let many = || (0..ENTRIES_MAX / 2).map(|n| n.to_string()).collect::<Vec<_>>();
        let (many, at) = (many(), Timestamp::from_nanos);
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (at, path) in [(1, "a"), (2, "b"), (3, "c")] {
            directories.listed(Path::new(path), entries(&many), both(at));
        }
        let kept = ["a", "b", "c"].map(|path| directories.recent(Path::new(path), at(3)).is_some());
        assert_eq!(kept, [false, false, true]);
    }
}
