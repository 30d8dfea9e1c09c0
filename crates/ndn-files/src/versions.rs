//! Versions of files and directories.
//!
//! The version is the modification time. A change that keeps it (`cp -p`, `tar x`, `touch -r`) changes the ctime, which no
//! program can set: the server records the state of which it has announced a version, and announces a higher version of
//! another state whose modification time may have been a version before. A server without records announces the modification
//! time, and so the same version as other servers of the file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use ndn_packet::NameRef;
use ndn_security::{Sha256, Sha256Digest};
use rustix::fs::{FlockOperation, flock};

use crate::cache::{Key, Lru};
use crate::source::FileSource;
use crate::stat::{FileStat, Identity};

/// The file of records in the directory for digests.
const FILE_NAME: &str = "versions";
const KEY_LEN: usize = 16;
const RECORD_LEN: usize = 80;
/// Records whose keys begin alike; one page.
const BUCKET_LEN: usize = 4096;
const BUCKET_RECORDS: usize = BUCKET_LEN / RECORD_LEN;
/// 128 MiB, with room for a million records, which differ in number from bucket to bucket.
const BUCKETS: u64 = 1 << 15;
/// Records of a server without directory, in memory.
const IN_MEMORY_MAX: usize = 1 << 16;

/// Key of a record: a name below one source.
type RecordKey = [u8; KEY_LEN];

/// The state of a file or directory of which a version was announced last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Record {
    identity: Identity,
    version: u64,
    /// No version of another state was lower.
    lowest: u64,
    highest: u64,
}

impl Record {
    /// Whether `stat` is of the recorded state. The number of the device does not count: it can be another one after a restart
    /// of the machine. That of the inode does: files that change within one tick of the clock can have the same ctime.
    fn is_of(&self, stat: &FileStat) -> bool {
        let (size, mtime, ctime, _, inode) = self.identity;
        let now = stat.identity();
        (size, mtime, ctime, inode) == (now.0, now.1, now.2, now.4)
    }

    fn new(stat: &FileStat) -> Self {
        let version = stat.mtime_ns;
        Self { identity: stat.identity(), version, lowest: version, highest: version }
    }

    /// The record of another state. Its version is the modification time, or the next one if that may have been announced of
    /// an earlier state. It is the recorded one if the content `is_same` as that of the recorded state.
    fn next(&self, stat: &FileStat, is_same: impl FnOnce(&FileStat) -> bool) -> Self {
        let recorded = stat.with_identity(self.identity);
        let is_alike = (recorded.size, recorded.mtime_ns) == (stat.size, stat.mtime_ns);
        let version = if is_alike && is_same(&recorded) {
            self.version
        } else if (self.lowest..=self.highest).contains(&stat.mtime_ns) {
            self.highest.saturating_add(1)
        } else {
            stat.mtime_ns
        };
        let (lowest, highest) = (self.lowest.min(version), self.highest.max(version));
        Self { identity: stat.identity(), version, lowest, highest }
    }

    fn is_modification_time(&self) -> bool {
        self.version == self.identity.1
    }

    fn encode(&self, key: &RecordKey) -> [u8; RECORD_LEN] {
        let (size, mtime, ctime, (major, minor), inode) = self.identity;
        let device = u64::from(major) << 32 | u64::from(minor);
        let mut out = [0; RECORD_LEN];
        let (start, rest) = out.split_at_mut(KEY_LEN);
        start.copy_from_slice(key);
        let versions = [self.version, self.lowest, self.highest];
        let numbers = [size, mtime, ctime, device, inode].into_iter().chain(versions);
        for (number, out) in numbers.zip(rest.chunks_mut(size_of::<u64>())) {
            out.copy_from_slice(&number.to_be_bytes());
        }
        out
    }

    /// A record with its key; `None` if there is none.
    fn decode(bytes: &[u8; RECORD_LEN]) -> Option<(RecordKey, Self)> {
        let (key, numbers) = bytes.split_first_chunk()?;
        let (numbers, _) = numbers.as_chunks();
        let number = |index: usize| numbers.get(index).map(|bytes| u64::from_be_bytes(*bytes));
        let device = number(3)?;
        let half = |half: u64| u32::try_from(half & u64::from(u32::MAX)).ok();
        let device = (half(device >> 32)?, half(device)?);
        let identity = (number(0)?, number(1)?, number(2)?, device, number(4)?);
        let (version, lowest, highest) = (number(5)?, number(6)?, number(7)?);
        (*key != [0; KEY_LEN]).then_some((*key, Self { identity, version, lowest, highest }))
    }
}

/// The source of a mount, for the keys of its records: a path means something else on another host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin(Sha256Digest);

impl Origin {
    pub(crate) fn of(source: &dyn FileSource) -> Self {
        let mut digest = Sha256::new();
        digest.update(rustix::system::uname().nodename().to_bytes_with_nul());
        let location = source.location();
        match std::path::absolute(&location) {
            Ok(path) => digest.update(path.as_os_str().as_bytes()),
            Err(_) => digest.update(location.as_bytes()),
        }
        Self(digest.finish())
    }

    fn key(&self, name: NameRef<'_>) -> RecordKey {
        let mut digest = Sha256::new();
        digest.update(&self.0);
        digest.update(name.value());
        let mut key = [0; KEY_LEN];
        key.copy_from_slice(&digest.finish()[..KEY_LEN]);
        key
    }
}

#[derive(Debug)]
enum Records {
    Memory(Lru<Record>),
    /// Several servers may use the file.
    Disk(File),
}

/// The versions that were announced.
#[derive(Debug)]
pub(crate) struct Versions {
    records: Mutex<Records>,
    /// Failures are logged once: they concern every file.
    failure: Once,
}

impl Versions {
    /// Those recorded in `directory`, or none, to be recorded in memory.
    pub(crate) fn open(directory: Option<&Path>) -> io::Result<Self> {
        let records = match directory {
            Some(directory) => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).create(true).truncate(false).mode(0o600);
                Records::Disk(options.open(directory.join(FILE_NAME))?)
            }
            None => Records::Memory(Lru::new(IN_MEMORY_MAX)),
        };
        Ok(Self { records: Mutex::new(records), failure: Once::new() })
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        // No invariant spans a panic.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, key: &RecordKey) -> Option<Record> {
        let found = self.records().find(key);
        found.inspect_err(|error| self.log(error)).ok()?
    }

    fn log(&self, error: &io::Error) {
        self.failure.call_once(|| {
            tracing::warn!(%error, "the versions of files cannot be recorded");
        });
    }

    /// The version of a file or directory in the state `stat`, if it was announced last.
    pub(crate) fn announced(
        &self,
        origin: &Origin,
        name: NameRef<'_>,
        stat: &FileStat,
    ) -> Option<u64> {
        let record = self.find(&origin.key(name));
        record.filter(|record| record.is_of(stat)).map(|record| record.version)
    }

    /// The version to announce of a file or directory in the state `stat`. `is_same` compares the content with that of an
    /// earlier state, given with its version.
    pub(crate) fn announce(
        &self,
        origin: &Origin,
        name: NameRef<'_>,
        stat: &FileStat,
        is_same: impl Fn(&FileStat, u64) -> bool,
    ) -> u64 {
        let key = origin.key(name);
        loop {
            let found = self.find(&key);
            let record = match found {
                Some(found) if found.is_of(stat) => return found.version,
                Some(found) => found.next(stat, |former| is_same(former, found.version)),
                None => Record::new(stat),
            };
            // The comparison takes a while: another thread may have announced a version meanwhile.
            match self.records().replace(&key, found, record) {
                Ok(true) => return record.version,
                Ok(false) => {}
                Err(error) => {
                    self.log(&error);
                    return record.version;
                }
            }
        }
    }
}

impl Records {
    fn find(&mut self, key: &RecordKey) -> io::Result<Option<Record>> {
        Ok(match self {
            Self::Memory(records) => records.find(key).copied(),
            Self::Disk(file) => find_in(&read_bucket(file, bucket_offset(key))?, key),
        })
    }

    /// Records `new` in place of `found`; returns false if there is another record than that.
    fn replace(&mut self, key: &RecordKey, found: Option<Record>, new: Record) -> io::Result<bool> {
        match self {
            Self::Memory(records) => {
                let is_found = records.find(key).copied() == found;
                if is_found {
                    let is_spared = |record: &Record| !record.is_modification_time();
                    records.insert_sparing(&Key::from(key.as_slice()), new, 1, is_spared);
                }
                Ok(is_found)
            }
            Self::Disk(file) => {
                // On a file system without locks, a server can lose what another one records at the same time.
                let _ = flock(&*file, FlockOperation::LockExclusive);
                let replaced = replace_in(file, key, found, new);
                let _ = flock(&*file, FlockOperation::Unlock);
                replaced
            }
        }
    }
}

fn bucket_offset(key: &RecordKey) -> u64 {
    let [first, second, ..] = *key;
    let bucket = u64::from(u16::from_be_bytes([first, second])) % BUCKETS;
    bucket * BUCKET_LEN as u64
}

/// The records of a bucket, those written last first.
fn read_bucket(file: &File, offset: u64) -> io::Result<Vec<(RecordKey, Record)>> {
    let mut bytes = [0; BUCKET_LEN];
    let mut length = 0;
    while length < BUCKET_LEN {
        match file.read_at(&mut bytes[length..], offset + length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let (records, _) = bytes.as_chunks();
    Ok(records.iter().filter_map(Record::decode).collect())
}

fn find_in(bucket: &[(RecordKey, Record)], key: &RecordKey) -> Option<Record> {
    bucket.iter().find(|(one, _)| one == key).map(|(_, record)| *record)
}

fn replace_in(
    file: &File,
    key: &RecordKey,
    found: Option<Record>,
    new: Record,
) -> io::Result<bool> {
    let offset = bucket_offset(key);
    let mut bucket = read_bucket(file, offset)?;
    if find_in(&bucket, key) != found {
        return Ok(false);
    }
    bucket.retain(|(one, _)| one != key);
    if bucket.len() == BUCKET_RECORDS {
        // Without its record, a file gets its modification time as version: most have it anyway.
        let oldest = bucket.iter().rposition(|(_, record)| record.is_modification_time());
        bucket.remove(oldest.unwrap_or(BUCKET_RECORDS - 1));
    }
    bucket.insert(0, (*key, new));
    let mut bytes = [0; BUCKET_LEN];
    for ((key, record), out) in bucket.iter().zip(bytes.chunks_mut(RECORD_LEN)) {
        out.copy_from_slice(&record.encode(key));
    }
    file.write_all_at(&bytes, offset)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use ndn_packet::Name;
    use proptest::prelude::*;

    use super::*;
    use crate::stat::FileKind;

    fn origin(path: &str) -> Origin {
        Origin::of(&crate::Root::open(Path::new(path), crate::RootOptions::default()).unwrap())
    }

    fn stat(size: u64, mtime_ns: u64, ctime_ns: u64) -> FileStat {
        let stat = FileStat::remote(FileKind::Regular, 0, 0, b"");
        stat.with_identity((size, mtime_ns, ctime_ns, (8, 1), 77))
    }

    fn name(uri: &str) -> Name {
        Name::from_uri(uri).unwrap()
    }

    /// Announces the states of one file in turn.
    fn announced(versions: &Versions, states: &[(FileStat, bool)]) -> Vec<u64> {
        let (origin, name) = (origin("/"), name("/x/file"));
        let announce = |(stat, is_same): &(FileStat, bool)| {
            let version = versions.announce(&origin, name.as_ref(), stat, |_, _| *is_same);
            assert_eq!(versions.announced(&origin, name.as_ref(), stat), Some(version));
            version
        };
        states.iter().map(announce).collect()
    }

    #[test]
    fn other_state_of_the_same_modification_time_is_the_next_version() {
        let directory = tempfile::tempdir().unwrap();
        for directory in [None, Some(directory.path())] {
            let versions = Versions::open(directory).unwrap();
            let other_device = stat(5, 100, 11).with_identity((5, 100, 11, (9, 9), 77));
            let other_inode = stat(5, 100, 11).with_identity((5, 100, 11, (9, 9), 78));
            let states = [
                (stat(5, 100, 10), true),
                (stat(5, 100, 10), false),
                (stat(5, 100, 11), false),
                (other_device, false),
                (other_inode, false),
                // A new mode, and another length, which is no comparison.
                (stat(5, 100, 12), true),
                (stat(6, 100, 12), true),
                // A time that was announced as a version already.
                (stat(6, 101, 13), true),
                // Seen while it is written, before it gets its modification time back.
                (stat(6, 200, 14), false),
                (stat(6, 101, 15), false),
                // Older than all versions, as the file of any other server.
                (stat(6, 50, 16), false),
                (stat(6, 100, 17), false),
                (stat(6, 300, 18), false),
            ];
            let expected = [100, 100, 101, 101, 102, 102, 103, 104, 200, 201, 50, 202, 300];
            assert_eq!(announced(&versions, &states), expected, "{directory:?}");
        }
    }

    #[test]
    fn comparison_is_with_the_recorded_state() {
        let versions = Versions::open(None).unwrap();
        let (origin, name) = (origin("/"), name("/x/file"));
        announced(&versions, &[(stat(5, 100, 10), false), (stat(5, 100, 11), false)]);
        versions.announce(&origin, name.as_ref(), &stat(5, 100, 12), |former, version| {
            assert_eq!((former.identity(), version), (stat(5, 100, 11).identity(), 101));
            true
        });
    }

    #[test]
    fn records_outlive_the_server_and_are_those_of_one_source() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Versions::open(Some(directory.path())).unwrap();
        let first = open();
        announced(&first, &[(stat(5, 100, 10), false), (stat(5, 100, 11), false)]);
        let second = open();
        assert_eq!(announced(&second, &[(stat(5, 100, 11), false)]), [101]);
        assert_eq!(announced(&second, &[(stat(5, 100, 12), false)]), [102]);
        // Another server of the same directory.
        assert_eq!(announced(&first, &[(stat(5, 100, 12), false)]), [102]);
        let other = stat(5, 100, 99);
        for (path, uri) in [("/", "/y/file"), ("/proc", "/x/file")] {
            let version = first.announce(&origin(path), name(uri).as_ref(), &other, |_, _| false);
            assert_eq!(version, 100, "{path} {uri}");
        }
        // Without records, a server announces the same version as any other.
        std::fs::remove_file(directory.path().join(FILE_NAME)).unwrap();
        assert_eq!(announced(&open(), &[(stat(5, 100, 12), false)]), [100]);
    }

    #[test]
    fn full_bucket_keeps_versions_that_are_no_modification_times() {
        let file = tempfile::tempfile().unwrap();
        let key = |number: u8| {
            let mut key = [7; KEY_LEN];
            key[KEY_LEN - 1] = number;
            key
        };
        let record = |version| Record { version, ..Record::new(&stat(5, 100, 10)) };
        for number in 0..200 {
            let version = if number < 40 { 101 } else { 100 };
            assert!(replace_in(&file, &key(number), None, record(version)).unwrap());
        }
        let bucket = read_bucket(&file, bucket_offset(&key(0))).unwrap();
        let kept: Vec<u8> = bucket.iter().map(|(key, _)| key[KEY_LEN - 1]).collect();
        assert!(kept.iter().copied().eq((189..200).rev().chain((0..40).rev())), "{kept:?}");
        assert!(
            !replace_in(&file, &key(0), None, record(102)).unwrap(),
            "another thread was first"
        );
        assert_eq!(file.metadata().unwrap().len() % BUCKET_LEN as u64, 0);
    }

    proptest! {
        /// No version is announced of two contents, and one of a later time is higher.
        #[test]
        fn change_is_a_new_version(changes in prop::collection::vec((0_u64..4, 0_u8..3), 1..40)) {
            let versions = Versions::open(None).unwrap();
            let mut former: Option<(u64, u8, u64)> = None;
            let mut contents: HashMap<u64, u8> = HashMap::new();
            for (ctime, (mtime, content)) in (0..).zip(changes) {
                let is_same = former.is_some_and(|(_, former, _)| former == content);
                let version = announced(&versions, &[(stat(5, mtime, ctime), is_same)])[0];
                if let Some((former_mtime, _, former_version)) = former {
                    prop_assert!(mtime <= former_mtime || version > former_version);
                }
                prop_assert_eq!(*contents.entry(version).or_insert(content), content);
                former = Some((mtime, content, version));
            }
        }
    }
}
