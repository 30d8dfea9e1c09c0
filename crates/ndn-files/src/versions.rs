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
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use ndn_packet::NameRef;
use ndn_security::{Sha256, Sha256Digest, sha256};
use rustix::fs::{FlockOperation, flock};

use crate::cache::{Key, Lru};
use crate::source::FileSource;
use crate::stat::FileStat;

/// The file of records in the directory for digests.
const FILE_NAME: &str = "versions";
const KEY_LEN: usize = 16;
const CHECKSUM_LEN: usize = 4;
/// Numbers of 64 bits in a record.
const NUMBERS: usize = 8;
const RECORD_LEN: usize = 104;
/// Records whose keys begin alike; one page.
const BUCKET_LEN: usize = 4096;
const BUCKET_RECORDS: usize = BUCKET_LEN / RECORD_LEN;
/// 128 MiB, with room for a million records, which differ in number from bucket to bucket.
const BUCKETS: u64 = 1 << 15;
/// Records of a server without directory, in memory.
const IN_MEMORY_MAX: usize = 1 << 16;
/// A later change has another ctime than one that was this long ago: longer than a tick of any clock of a file system but FAT,
/// which keeps no ctime.
const SETTLED_NS: u64 = 1_000_000_000;
/// Identifies the host; systemd writes it at the first start.
const MACHINE_ID: &str = "/etc/machine-id";

/// Key of a record: a name below one source.
type RecordKey = [u8; KEY_LEN];

/// The state of a file or directory of which a version was announced last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Record {
    size: u64,
    mtime_ns: u64,
    ctime_ns: u64,
    inode: u64,
    /// 0 if the file system does not keep it.
    btime_ns: u64,
    attributes: [u32; 4],
    /// Whether a later change has another ctime.
    is_settled: bool,
    version: u64,
    /// No version of another state was lower.
    lowest: u64,
    highest: u64,
}

impl Record {
    fn new(stat: &FileStat, now_ns: u64) -> Self {
        let FileStat { size, mtime_ns, ctime_ns, inode, attributes, .. } = *stat;
        let is_settled = now_ns.saturating_sub(ctime_ns) > SETTLED_NS;
        Self {
            size,
            mtime_ns,
            ctime_ns,
            inode,
            btime_ns: stat.btime_ns.unwrap_or(0),
            attributes,
            is_settled,
            version: mtime_ns,
            lowest: mtime_ns,
            highest: mtime_ns,
        }
    }

    /// Whether `stat` is of the recorded state. The inode, which some file systems number anew, counts only if another file
    /// can have the same ctime. The device does not count: its number can be another one after a restart of the machine.
    fn is_of(&self, stat: &FileStat) -> bool {
        self.is_alike(stat)
            && self.ctime_ns == stat.ctime_ns
            && (self.is_settled || self.inode == stat.inode)
    }

    fn is_alike(&self, stat: &FileStat) -> bool {
        (self.size, self.mtime_ns) == (stat.size, stat.mtime_ns)
    }

    /// Whether new attributes explain a new ctime. A file that was created with a former inode has another creation time.
    fn has_new_attributes(&self, stat: &FileStat) -> bool {
        let is_same_file = (self.inode, self.btime_ns) == (stat.inode, stat.btime_ns.unwrap_or(0));
        is_same_file && self.is_alike(stat) && self.attributes != stat.attributes
    }

    /// The record of a state after this one. The version of another state is the modification time, or the next one if that may
    /// have been announced of an earlier state.
    fn next(&self, stat: &FileStat, now_ns: u64) -> Self {
        let is_same = self.is_of(stat);
        let version = if is_same || self.has_new_attributes(stat) {
            self.version
        } else if (self.lowest..=self.highest).contains(&stat.mtime_ns) {
            self.highest.saturating_add(1)
        } else {
            stat.mtime_ns
        };
        let (lowest, highest) = (self.lowest.min(version), self.highest.max(version));
        let new = Self::new(stat, now_ns);
        let is_settled = new.is_settled || is_same && self.is_settled;
        Self { is_settled, version, lowest, highest, ..new }
    }

    fn is_modification_time(&self) -> bool {
        self.version == self.mtime_ns
    }

    fn encode(&self, key: &RecordKey) -> [u8; RECORD_LEN] {
        let versions = [self.version, self.lowest, self.highest];
        let numbers = [self.size, self.mtime_ns, self.ctime_ns, self.inode, self.btime_ns];
        let numbers = numbers.into_iter().chain(versions).flat_map(u64::to_be_bytes);
        let attributes = self.attributes.into_iter().chain([u32::from(self.is_settled)]);
        let bytes = key.iter().copied().chain(numbers);
        let bytes = bytes.chain(attributes.flat_map(u32::to_be_bytes));
        let mut out = [0; RECORD_LEN];
        let (content, checksum) = out.split_at_mut(RECORD_LEN - CHECKSUM_LEN);
        for (out, byte) in content.iter_mut().zip(bytes) {
            *out = byte;
        }
        checksum.copy_from_slice(&sha256(content)[..CHECKSUM_LEN]);
        out
    }

    /// `None` if it is damaged.
    fn decode(bytes: &[u8; RECORD_LEN]) -> Option<Self> {
        let (content, checksum) = bytes.split_at(RECORD_LEN - CHECKSUM_LEN);
        if !sha256(content).starts_with(checksum) {
            return None;
        }
        let (numbers, words) =
            content.get(KEY_LEN..)?.split_at_checked(NUMBERS * size_of::<u64>())?;
        let number = |index: usize| Some(u64::from_be_bytes(*numbers.as_chunks().0.get(index)?));
        let word = |index: usize| Some(u32::from_be_bytes(*words.as_chunks().0.get(index)?));
        Some(Self {
            size: number(0)?,
            mtime_ns: number(1)?,
            ctime_ns: number(2)?,
            inode: number(3)?,
            btime_ns: number(4)?,
            version: number(5)?,
            lowest: number(6)?,
            highest: number(7)?,
            attributes: [word(0)?, word(1)?, word(2)?, word(3)?],
            is_settled: word(4)? != 0,
        })
    }
}

/// The source of a mount, for the keys of its records: a path means something else on another host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin(Sha256Digest);

impl Origin {
    pub(crate) fn of(source: &dyn FileSource) -> Self {
        let mut digest = Sha256::new();
        // A container can have another host name at each start. Without this file, the path alone counts.
        digest.update(&std::fs::read(MACHINE_ID).unwrap_or_default());
        digest.update(&[0]);
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
    /// The file of records on disk, for messages.
    path: PathBuf,
    /// Failures are logged once: they concern every file.
    failure: Once,
}

impl Versions {
    /// Those recorded in `directory`, or none, to be recorded in memory.
    pub(crate) fn open(directory: Option<&Path>) -> io::Result<Self> {
        let path = directory.map(|directory| directory.join(FILE_NAME)).unwrap_or_default();
        let records = match directory {
            Some(_) => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).create(true).truncate(false).mode(0o600);
                Records::Disk(options.open(&path)?)
            }
            None => Records::Memory(Lru::new(IN_MEMORY_MAX)),
        };
        Ok(Self { records: Mutex::new(records), path, failure: Once::new() })
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
            let file = self.path.display();
            tracing::warn!(%file, %error, "the versions of files cannot be recorded");
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

    /// The version to announce of a file or directory in the state `stat`, as found at `now_ns` since 1970.
    pub(crate) fn announce(
        &self,
        origin: &Origin,
        name: NameRef<'_>,
        stat: &FileStat,
        now_ns: u64,
    ) -> u64 {
        let key = origin.key(name);
        loop {
            let found = self.find(&key);
            let record = match found {
                Some(found) => found.next(stat, now_ns),
                None => Record::new(stat, now_ns),
            };
            if found == Some(record) {
                return record.version;
            }
            // Another thread or server may have announced a version meanwhile.
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
        match self {
            Self::Memory(records) => Ok(records.find(key).copied()),
            Self::Disk(file) => {
                let bucket = locked(file, FlockOperation::LockShared, || {
                    read_bucket(file, bucket_offset(key))
                });
                Ok(find_in(&bucket?, key))
            }
        }
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
                locked(file, FlockOperation::LockExclusive, || replace_in(file, key, found, new))
            }
        }
    }
}

/// Runs `work` while no other server changes the file. On a file system without locks, a server can lose what another one
/// records at the same time.
fn locked<T>(file: &File, lock: FlockOperation, work: impl FnOnce() -> T) -> T {
    let _ = flock(file, lock);
    let done = work();
    let _ = flock(file, FlockOperation::Unlock);
    done
}

fn bucket_offset(key: &RecordKey) -> u64 {
    let [first, second, ..] = *key;
    let bucket = u64::from(u16::from_be_bytes([first, second])) % BUCKETS;
    bucket * BUCKET_LEN as u64
}

/// The records of a bucket, those written last first.
fn read_bucket(file: &File, offset: u64) -> io::Result<Vec<[u8; RECORD_LEN]>> {
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
    Ok(records.iter().filter(|record| !is_of_key(record, &[0; KEY_LEN])).copied().collect())
}

fn is_of_key(record: &[u8; RECORD_LEN], key: &RecordKey) -> bool {
    record.starts_with(key)
}

fn find_in(bucket: &[[u8; RECORD_LEN]], key: &RecordKey) -> Option<Record> {
    bucket.iter().find(|record| is_of_key(record, key)).and_then(Record::decode)
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
    bucket.retain(|record| !is_of_key(record, key));
    if bucket.len() == BUCKET_RECORDS {
        // Without its record, a file gets its modification time as version: most have it anyway.
        let is_spare = |record: &[u8; RECORD_LEN]| {
            Record::decode(record).is_none_or(|record| record.is_modification_time())
        };
        let oldest = bucket.iter().rposition(is_spare);
        bucket.remove(oldest.unwrap_or(BUCKET_RECORDS - 1));
    }
    bucket.insert(0, new.encode(key));
    let mut bytes = [0; BUCKET_LEN];
    for (record, out) in bucket.iter().zip(bytes.chunks_mut(RECORD_LEN)) {
        out.copy_from_slice(record);
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
        let stat = FileStat::remote(FileKind::Regular, size, mtime_ns, b"");
        FileStat { ctime_ns, inode: 77, ..stat }
    }

    fn with_mode(mode: u32, stat: FileStat) -> FileStat {
        FileStat { attributes: [mode, 0, 0, 1], ..stat }
    }

    fn name(uri: &str) -> Name {
        Name::from_uri(uri).unwrap()
    }

    /// Announces the states of one file in turn, as soon as they are there.
    fn announced(versions: &Versions, states: &[FileStat]) -> Vec<u64> {
        announced_at(versions, states, 0)
    }

    fn announced_at(versions: &Versions, states: &[FileStat], now_ns: u64) -> Vec<u64> {
        let (origin, name) = (origin("/"), name("/x/file"));
        let announce = |stat: &FileStat| {
            let version = versions.announce(&origin, name.as_ref(), stat, now_ns);
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
            let other_inode = FileStat { inode: 78, ..stat(5, 100, 11) };
            let states = [
                stat(5, 100, 10),
                stat(5, 100, 10),
                stat(5, 100, 11),
                other_inode,
                stat(6, 100, 12),
                // A time that was announced as a version already.
                stat(6, 101, 13),
                // Seen while it is written, before it gets its modification time back.
                stat(6, 200, 14),
                stat(6, 101, 15),
                // Older than all versions, as the file of any other server.
                stat(6, 50, 16),
                stat(6, 100, 17),
                stat(6, 300, 18),
            ];
            let expected = [100, 100, 101, 102, 103, 104, 200, 201, 50, 202, 300];
            assert_eq!(announced(&versions, &states), expected, "{directory:?}");
        }
    }

    #[test]
    fn new_attributes_are_no_new_version() {
        let directory = tempfile::tempdir().unwrap();
        for directory in [None, Some(directory.path())] {
            let versions = Versions::open(directory).unwrap();
            let states = [
                with_mode(0o644, stat(5, 100, 10)),
                with_mode(0o640, stat(5, 100, 11)),
                with_mode(0o640, stat(5, 100, 12)),
                with_mode(0o600, stat(5, 100, 13)),
                // With another length, or another file.
                with_mode(0o644, stat(6, 100, 14)),
                FileStat { inode: 78, ..with_mode(0o640, stat(6, 100, 15)) },
                // A file that was created later, with the inode of the former one.
                FileStat { inode: 78, btime_ns: Some(16), ..with_mode(0o600, stat(6, 100, 16)) },
                // Within a tick of the clock, and a change of content after that.
                FileStat { inode: 78, btime_ns: Some(16), ..with_mode(0o644, stat(6, 100, 16)) },
                FileStat { inode: 78, btime_ns: Some(16), ..with_mode(0o644, stat(6, 100, 17)) },
            ];
            let expected = [100, 100, 101, 101, 102, 103, 104, 104, 105];
            assert_eq!(announced(&versions, &states), expected, "{directory:?}");
        }
    }

    #[test]
    fn other_inode_counts_only_while_the_ctime_may_be_that_of_another_change() {
        let directory = tempfile::tempdir().unwrap();
        for directory in [None, Some(directory.path())] {
            let versions = Versions::open(directory).unwrap();
            let renumbered = |inode, ctime_ns| FileStat { inode, ..stat(5, 100, ctime_ns) };
            let young = [renumbered(1, 10), renumbered(2, 10)];
            assert_eq!(announced_at(&versions, &young, 10 + SETTLED_NS), [100, 101]);
            let settled = [renumbered(2, 11), renumbered(3, 11), renumbered(4, 11)];
            assert_eq!(announced_at(&versions, &settled, 12 + SETTLED_NS), [102, 102, 102]);
            assert_eq!(announced_at(&versions, &[renumbered(4, 13)], 0), [103]);
        }
    }

    #[test]
    fn records_outlive_the_server_and_are_those_of_one_source() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Versions::open(Some(directory.path())).unwrap();
        let first = open();
        announced(&first, &[stat(5, 100, 10), stat(5, 100, 11)]);
        let second = open();
        assert_eq!(announced(&second, &[stat(5, 100, 11)]), [101]);
        assert_eq!(announced(&second, &[stat(5, 100, 12)]), [102]);
        // Another server of the same directory.
        assert_eq!(announced(&first, &[stat(5, 100, 12)]), [102]);
        let other = stat(5, 100, 99);
        for (path, uri) in [("/", "/y/file"), ("/proc", "/x/file")] {
            let version = first.announce(&origin(path), name(uri).as_ref(), &other, 0);
            assert_eq!(version, 100, "{path} {uri}");
        }
        // Without records, a server announces the same version as any other.
        std::fs::remove_file(directory.path().join(FILE_NAME)).unwrap();
        assert_eq!(announced(&open(), &[stat(5, 100, 12)]), [100]);
    }

    #[test]
    fn damaged_record_is_none() {
        let record = Record { version: 3, lowest: 2, ..Record::new(&stat(5, 100, 10), u64::MAX) };
        let key = [7; KEY_LEN];
        let bytes = record.encode(&key);
        assert_eq!(Record::decode(&bytes), Some(record));
        for index in 0..RECORD_LEN {
            let mut damaged = bytes;
            damaged[index] ^= 1;
            assert_eq!(Record::decode(&damaged), None, "{index}");
        }
        let file = tempfile::tempfile().unwrap();
        assert!(replace_in(&file, &key, None, record).unwrap());
        file.write_all_at(&[0xff], bucket_offset(&key) + KEY_LEN as u64).unwrap();
        assert_eq!(find_in(&read_bucket(&file, bucket_offset(&key)).unwrap(), &key), None);
        assert!(replace_in(&file, &key, None, record).unwrap());
        assert_eq!(read_bucket(&file, bucket_offset(&key)).unwrap(), [bytes]);
    }

    #[test]
    fn full_bucket_keeps_versions_that_are_no_modification_times() {
        let file = tempfile::tempfile().unwrap();
        let key = |number: u8| {
            let mut key = [7; KEY_LEN];
            key[KEY_LEN - 1] = number;
            key
        };
        let record = |version| Record { version, ..Record::new(&stat(5, 100, 10), 0) };
        for number in 0..200 {
            let version = if number < 30 { 101 } else { 100 };
            assert!(replace_in(&file, &key(number), None, record(version)).unwrap());
        }
        let bucket = read_bucket(&file, bucket_offset(&key(0))).unwrap();
        let kept: Vec<u8> = bucket.iter().map(|record| record[KEY_LEN - 1]).collect();
        let newest = 230 - u8::try_from(BUCKET_RECORDS).unwrap();
        assert!(kept.iter().copied().eq((newest..200).rev().chain((0..30).rev())), "{kept:?}");
        assert!(
            !replace_in(&file, &key(0), None, record(102)).unwrap(),
            "another thread was first"
        );
        assert_eq!(file.metadata().unwrap().len() % BUCKET_LEN as u64, 0);
    }

    proptest! {
        /// No version is announced of two contents, and one of a later time is higher.
        #[test]
        fn change_is_a_new_version(
            changes in prop::collection::vec((0_u64..4, 0_u8..3, 0_u32..2), 1..40),
        ) {
            let versions = Versions::open(None).unwrap();
            let mut former: Option<(u64, u8, u32, u64)> = None;
            let mut contents: HashMap<u64, u8> = HashMap::new();
            for (ctime, (mtime, content, mode)) in (0..).zip(changes) {
                // A change of the mode is none of the content.
                let kept = former.filter(|former| former.2 != mode).map(|former| former.1);
                let content = kept.unwrap_or(content);
                let version = announced(&versions, &[with_mode(mode, stat(5, mtime, ctime))])[0];
                if let Some((former_mtime, _, _, former_version)) = former {
                    prop_assert!(mtime <= former_mtime || version > former_version);
                }
                prop_assert_eq!(*contents.entry(version).or_insert(content), content);
                former = Some((mtime, content, mode, version));
            }
        }
    }
}
