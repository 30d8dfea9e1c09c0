//! Digests of segments on disk, so that a restarted server need not hash everything again.
//!
//! Only the digests are stored; nodes are rebuilt and the root is signed again. An attacker who can
//! write these files can make the server sign other content: the directory must belong to the
//! server.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ndn_security::{SHA256_LEN, Sha256, Sha256Digest, sha256};

use crate::packet::{Hashed, Layout};
use crate::stat::FileStat;

/// Magic number of the files: format and version.
const MAGIC: &[u8; 8] = b"NWMANI\0\x01";
const MAGIC_LEN: u64 = MAGIC.len() as u64;
const DIGEST_LEN: u64 = SHA256_LEN as u64;
/// Stored digests are noted as in use at most this often.
const IN_USE_NOTED: Duration = Duration::from_secs(600);
/// Stored digests that were noted within this time are in use.
const IN_USE_KEPT: Duration = Duration::from_secs(1200);
/// Suffix of the file names.
const EXTENSION: &str = "manifest";

/// Digests cannot be stored in their directory.
#[derive(Debug)]
pub(crate) struct DirectoryFailure {
    directory: PathBuf,
    error: io::Error,
}

impl DirectoryFailure {
    fn of(directory: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self { directory: directory.to_owned(), error }
    }
}

impl fmt::Display for DirectoryFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { directory, error } = self;
        write!(formatter, "the directory of manifests {}: ", directory.display())?;
        if error.kind() == io::ErrorKind::StorageFull {
            formatter.write_str("its file system is full")
        } else if error.kind() == io::ErrorKind::QuotaExceeded {
            formatter.write_str("the quota is used up")
        } else {
            error.fmt(formatter)
        }
    }
}

impl std::error::Error for DirectoryFailure {}

/// Digests being stored, segment by segment; removed if not finished.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) file: File,
    segments: u64,
    unfinished: PathBuf,
    path: PathBuf,
}

impl Unfinished {
    /// Stores the digests of the segments from `first` on.
    pub(super) fn write(&self, first: u64, hashed: &Hashed) -> Result<(), DirectoryFailure> {
        let (signatures, digests) = hashed;
        let at = MAGIC_LEN + first * DIGEST_LEN;
        let write = |digests: &[u8], at| self.file.write_all_at(digests, at);
        write(signatures.as_flattened(), at)
            .and_then(|()| write(digests.as_flattened(), at + self.segments * DIGEST_LEN))
            .map_err(self.failed())
    }

    /// Renames the file, now that it is complete.
    pub(super) fn finish(self) -> Result<(), DirectoryFailure> {
        let length = stored_len(self.segments) - DIGEST_LEN;
        let finish = || -> io::Result<()> {
            self.file.write_all_at(MAGIC, 0)?;
            self.file.write_all_at(&digest_of(&self.file, length)?, length)?;
            fs::rename(&self.unfinished, &self.path)
        };
        finish().map_err(self.failed())
    }

    fn failed(&self) -> impl Fn(io::Error) -> DirectoryFailure {
        DirectoryFailure::of(self.path.parent().unwrap_or(Path::new("")))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Gone already, if it was finished.
        let _ = fs::remove_file(&self.unfinished);
    }
}

/// Size of the stored digests of `segments` segments.
fn stored_len(segments: u64) -> u64 {
    MAGIC_LEN.saturating_add(segments.saturating_mul(2 * DIGEST_LEN)).saturating_add(DIGEST_LEN)
}

/// Offset of the implicit digests.
pub(super) fn offset_of_digests(segments: u64) -> u64 {
    MAGIC_LEN + segments * DIGEST_LEN
}

/// SHA-256 of the first `length` bytes.
fn digest_of(file: &File, length: u64) -> io::Result<Sha256Digest> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < length {
        let left = usize::try_from(length - offset).unwrap_or(usize::MAX).min(buffer.len());
        file.read_exact_at(&mut buffer[..left], offset)?;
        digest.update(&buffer[..left]);
        offset += u64::try_from(left).unwrap_or(0);
    }
    Ok(digest.finish())
}

/// Creates a directory for digests if it is missing, and checks that it can be used.
///
/// # Errors
/// It cannot be created, or another user may write to it.
pub fn check_manifest_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let metadata = fs::metadata(directory)?;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    if !own || metadata.mode() & 0o022 != 0 {
        let reason = "others may write to this directory: they could forge files";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    Ok(())
}

/// A directory of digests.
#[derive(Debug)]
pub(crate) struct DigestDirectory {
    directory: PathBuf,
    bytes_max: u64,
}

impl DigestDirectory {
    /// Uses `directory`, which is created if missing, for at most `bytes_max` bytes.
    ///
    /// # Errors
    /// It cannot be created, or another user may write to it.
    pub(crate) fn open(directory: &Path, bytes_max: u64) -> io::Result<Self> {
        check_manifest_directory(directory)?;
        remove_abandoned(directory)?;
        Ok(Self { directory: directory.to_owned(), bytes_max })
    }

    /// The file for one state of a file, with segments as in `layout`.
    fn path(&self, layout: &Layout, stat: &FileStat) -> PathBuf {
        let mut digest = Sha256::new();
        digest.update(layout.name.value());
        // All other parameters that the packets, and so their digests, depend on.
        digest.update(format!("{:?}", stat.identity()).as_bytes());
        digest.update(format!(" {} ", layout.segment_len).as_bytes());
        digest.update(layout.meta_info());
        let name: String = digest.finish().iter().map(|byte| format!("{byte:02x}")).collect();
        self.directory.join(name).with_extension(EXTENSION)
    }

    /// The stored digests; `None` if there are none, or if they are damaged.
    pub(super) fn load(&self, layout: &Layout, stat: &FileStat) -> Option<Hashed> {
        let segments = usize::try_from(layout.final_segment + 1).ok()?;
        let length = MAGIC.len() + segments.checked_mul(2 * SHA256_LEN)? + SHA256_LEN;
        let mut file = File::open(self.path(layout, stat)).ok()?;
        if file.metadata().ok()?.len() != u64::try_from(length).ok()? {
            return None;
        }
        let mut bytes = Vec::with_capacity(length);
        file.read_to_end(&mut bytes).ok()?;
        let (content, check) = bytes.split_last_chunk::<SHA256_LEN>()?;
        if sha256(content) != *check {
            return None;
        }
        let (digests, rest) = content.strip_prefix(MAGIC)?.as_chunks::<SHA256_LEN>();
        if !rest.is_empty() || digests.len() != 2 * segments {
            return None;
        }
        let (signatures, digests) = digests.split_at(segments);
        Some((signatures.to_vec(), digests.to_vec()))
    }

    /// Whether there are stored digests of this state of a file. They are not verified.
    pub(crate) fn has(&self, layout: &Layout, stat: &FileStat) -> bool {
        fs::metadata(self.path(layout, stat))
            .is_ok_and(|metadata| metadata.len() == stored_len(layout.final_segment + 1))
    }

    /// Notes that stored digests are in use, so that they make no room for others that are prepared.
    pub(crate) fn note_in_use(&self, layout: &Layout, stat: &FileStat) {
        let Ok(file) = File::open(self.path(layout, stat)) else { return };
        let Ok(metadata) = file.metadata() else { return };
        let now = crate::real_time::unix();
        let age = metadata.modified().ok().and_then(|noted| now.duration_since(noted).ok());
        if age.is_none_or(|age| age >= IN_USE_NOTED) {
            // Without the note, they are the first to go.
            let _ = file.set_modified(now);
        }
    }

    /// Makes room for the digests of a file, from those that no walk has found in use for a while; false if that is not
    /// enough.
    pub(crate) fn make_room_unless_in_use(
        &self,
        layout: &Layout,
    ) -> Result<bool, DirectoryFailure> {
        let kept_from = crate::real_time::unix() - IN_USE_KEPT;
        let removed = self.remove_oldest(stored_len(layout.final_segment + 1), Some(kept_from));
        removed.map_err(DirectoryFailure::of(&self.directory))
    }

    /// Whether there may be room for the digests of `segments` segments.
    pub(super) fn can_hold(&self, segments: u64) -> bool {
        stored_len(segments) <= self.bytes_max
    }

    /// The file of stored digests, verified without loading it; `None` if there is none, or if it
    /// is damaged.
    pub(super) fn open_stored(&self, layout: &Layout, stat: &FileStat) -> Option<File> {
        let file = File::open(self.path(layout, stat)).ok()?;
        let length = stored_len(layout.final_segment + 1);
        if file.metadata().ok()?.len() != length {
            return None;
        }
        let (mut magic, mut check) = ([0; MAGIC.len()], [0; SHA256_LEN]);
        file.read_exact_at(&mut magic, 0).ok()?;
        file.read_exact_at(&mut check, length - DIGEST_LEN).ok()?;
        let is_whole = digest_of(&file, length - DIGEST_LEN).ok()? == check;
        (magic == *MAGIC && is_whole).then_some(file)
    }

    /// Creates a file for the digests of all segments, and removes the oldest files that no longer
    /// fit.
    pub(super) fn create(
        &self,
        layout: &Layout,
        stat: &FileStat,
    ) -> Result<Unfinished, DirectoryFailure> {
        let segments = layout.final_segment + 1;
        let path = self.path(layout, stat);
        let create = || -> io::Result<_> {
            self.make_room(stored_len(segments))?;
            let (file, unfinished) = open_unfinished(&path)?;
            file.set_len(stored_len(segments))?;
            Ok((file, unfinished))
        };
        let (file, unfinished) = create().map_err(DirectoryFailure::of(&self.directory))?;
        Ok(Unfinished { file, segments, unfinished, path })
    }

    /// Stores digests, and removes the oldest files that no longer fit.
    pub(super) fn store(
        &self,
        layout: &Layout,
        stat: &FileStat,
        hashed: &Hashed,
    ) -> Result<(), DirectoryFailure> {
        let mut content = MAGIC.to_vec();
        content.extend_from_slice(hashed.0.as_flattened());
        content.extend_from_slice(hashed.1.as_flattened());
        content.extend_from_slice(&sha256(&content));
        let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
        if length > self.bytes_max {
            return Ok(());
        }
        let store = || -> io::Result<()> {
            self.make_room(length)?;
            let path = self.path(layout, stat);
            let (mut file, unfinished) = open_unfinished(&path)?;
            let written = file.write_all(&content).and_then(|()| fs::rename(&unfinished, &path));
            written.inspect_err(|_| drop(fs::remove_file(&unfinished)))
        };
        store().map_err(DirectoryFailure::of(&self.directory))
    }

    fn make_room(&self, length: u64) -> io::Result<()> {
        self.remove_oldest(length, None).map(|_| ())
    }

    /// Removes the oldest files until `length` bytes fit, but none that was stored or noted after `kept_from`; returns
    /// whether they fit.
    fn remove_oldest(&self, length: u64, kept_from: Option<SystemTime>) -> io::Result<bool> {
        if length > self.bytes_max {
            return Ok(false);
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                let metadata = entry.metadata()?;
                files.push((metadata.modified()?, metadata.len(), path));
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|file| file.1).sum();
        for (stored, freed, path) in files {
            if total + length <= self.bytes_max || kept_from.is_some_and(|kept| stored >= kept) {
                break;
            }
            fs::remove_file(path)?;
            total -= freed;
        }
        Ok(total + length <= self.bytes_max)
    }
}

/// Removes unfinished files of servers that have ended.
fn remove_abandoned(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let owner = path.file_stem().and_then(|stem| Path::new(stem).extension());
        let is_unfinished = path.extension().is_some_and(|extension| extension == "tmp");
        if let (true, Some(owner)) = (is_unfinished, owner)
            && !Path::new("/proc").join(owner).exists()
        {
            // Another process may have been faster.
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

/// A new file next to `path`. Several servers may use the directory.
fn open_unfinished(path: &Path) -> io::Result<(File, PathBuf)> {
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    let _ = fs::remove_file(&unfinished);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    Ok((options.open(&unfinished)?, unfinished))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use ndn_packet::Name;
    use ndn_security::DigestSigner;

    use super::*;
    use crate::packet::{PacketLimits, PreparedSigner};

    fn layout(version: u64, size: u64) -> Layout {
        let limits = PacketLimits { segment_len: 1000, packet_len_max: 8800, freshness_ms: 10 };
        let mut name = Name::from_uri("/x/file").unwrap();
        name.push_version(version);
        Layout::new(name, size, &limits, &PreparedSigner::new(&DigestSigner).unwrap()).unwrap()
    }

    fn stat() -> FileStat {
        FileStat::of(tempfile::tempfile().unwrap()).unwrap()
    }

    fn hashed(segments: usize) -> Hashed {
        (vec![[1; 32]; segments], vec![[2; 32]; segments])
    }

    #[test]
    fn stored_digests_are_found_only_for_the_same_file() {
        let directory = tempfile::tempdir().unwrap();
        let cache = DigestDirectory::open(directory.path(), 1 << 20).unwrap();
        let (layout_1, stat) = (layout(1, 5000), stat());
        assert!(cache.load(&layout_1, &stat).is_none());
        cache.store(&layout_1, &stat, &hashed(5)).unwrap();
        assert_eq!(cache.load(&layout_1, &stat), Some(hashed(5)));
        assert!(cache.load(&layout(2, 5000), &stat).is_none());
        assert!(cache.load(&layout(1, 6000), &stat).is_none());
        // Reading a file does not change it.
        let mut other = stat;
        other.atime_ns += 7;
        assert!(cache.load(&layout_1, &other).is_some());
        other.ctime_ns += 7;
        assert!(cache.load(&layout_1, &other).is_none());
    }

    #[test]
    fn damaged_files_are_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let cache = DigestDirectory::open(directory.path(), 1 << 20).unwrap();
        let (layout, stat) = (layout(1, 5000), stat());
        cache.store(&layout, &stat, &hashed(5)).unwrap();
        let path = cache.path(&layout, &stat);
        let good = fs::read(&path).unwrap();
        for at in [0, 8, 100, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, bad).unwrap();
            assert!(cache.load(&layout, &stat).is_none(), "{at}");
        }
        fs::write(&path, &good[..good.len() - 1]).unwrap();
        assert!(cache.load(&layout, &stat).is_none());
        fs::write(&path, good).unwrap();
        assert!(cache.load(&layout, &stat).is_some());
    }

    /// Storing piece by piece gives the same result as storing at once.
    #[test]
    fn digests_can_be_stored_piece_by_piece() {
        let directory = tempfile::tempdir().unwrap();
        let cache = DigestDirectory::open(directory.path(), 1 << 20).unwrap();
        let (layout, stat) = (layout(1, 5000), stat());
        let digests = |seed: u8| (0..5).map(|index| [seed + index; 32]).collect::<Vec<_>>();
        let hashed = (digests(10), digests(20));
        assert!(cache.open_stored(&layout, &stat).is_none());
        let part =
            |from: usize, to: usize| (hashed.0[from..to].to_vec(), hashed.1[from..to].to_vec());
        drop(cache.create(&layout, &stat).unwrap());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "nothing is left");
        let unfinished = cache.create(&layout, &stat).unwrap();
        unfinished.write(3, &part(3, 5)).unwrap();
        unfinished.write(0, &part(0, 3)).unwrap();
        unfinished.finish().unwrap();
        assert_eq!(cache.load(&layout, &stat), Some(hashed.clone()));
        let file = cache.open_stored(&layout, &stat).unwrap();
        let mut digest = [0; 32];
        file.read_exact_at(&mut digest, offset_of_digests(5) + 64).unwrap();
        assert_eq!(digest, hashed.1[2]);
        let path = cache.path(&layout, &stat);
        let mut bytes = fs::read(&path).unwrap();
        bytes[100] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(cache.open_stored(&layout, &stat).is_none());
        assert!(cache.can_hold(1000) && !cache.can_hold(1 << 20));
    }

    #[test]
    fn full_directory_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let unfinished = Unfinished {
            file: OpenOptions::new().write(true).open("/dev/full").unwrap(),
            segments: 1,
            unfinished: directory.path().join("a.1.tmp"),
            path: directory.path().join("a.manifest"),
        };
        let expected = format!(
            "the directory of manifests {}: its file system is full",
            directory.path().display()
        );
        assert_eq!(unfinished.write(0, &hashed(1)).unwrap_err().to_string(), expected);
        assert_eq!(unfinished.finish().unwrap_err().to_string(), expected);
    }

    #[test]
    fn oldest_digests_are_removed_for_new_ones() {
        let directory = tempfile::tempdir().unwrap();
        // Each has 8 + 64 + 32 bytes.
        let cache = DigestDirectory::open(directory.path(), 250).unwrap();
        let stat = stat();
        for version in 1..=5 {
            cache.store(&layout(version, 10), &stat, &hashed(1)).unwrap();
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
        assert!(cache.load(&layout(5, 10), &stat).is_some());
        cache.store(&layout(6, 5000), &stat, &hashed(5)).unwrap();
        assert!(cache.load(&layout(6, 5000), &stat).is_none());
    }

    #[test]
    fn digests_in_use_make_no_room_for_prepared_ones() {
        let directory = tempfile::tempdir().unwrap();
        // Each has 8 + 64 + 32 bytes.
        let cache = DigestDirectory::open(directory.path(), 250).unwrap();
        let stat = stat();
        for version in 1..=2 {
            cache.store(&layout(version, 10), &stat, &hashed(1)).unwrap();
            let file = File::open(cache.path(&layout(version, 10), &stat)).unwrap();
            file.set_modified(crate::real_time::unix() - 2 * IN_USE_KEPT).unwrap();
        }
        cache.note_in_use(&layout(1, 10), &stat);
        assert!(cache.make_room_unless_in_use(&layout(3, 10)).unwrap());
        assert!(cache.has(&layout(1, 10), &stat) && !cache.has(&layout(2, 10), &stat));
        cache.store(&layout(3, 10), &stat, &hashed(1)).unwrap();
        assert!(!cache.make_room_unless_in_use(&layout(4, 10)).unwrap());
        assert!(cache.has(&layout(1, 10), &stat) && cache.has(&layout(3, 10), &stat));
    }

    #[test]
    fn unfinished_files_of_a_killed_server_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let own = format!("a.{}.tmp", std::process::id());
        // No process has such a number (proc(5): pid_max).
        for name in ["a.4194305.tmp", "a.manifest", own.as_str()] {
            fs::write(directory.path().join(name), "digests").unwrap();
        }
        DigestDirectory::open(directory.path(), 1000).unwrap();
        assert!(!directory.path().join("a.4194305.tmp").exists());
        assert!(
            directory.path().join("a.manifest").exists() && directory.path().join(own).exists()
        );
    }

    #[test]
    fn directory_writable_by_others_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(DigestDirectory::open(directory.path(), 1000).is_err());
    }
}
