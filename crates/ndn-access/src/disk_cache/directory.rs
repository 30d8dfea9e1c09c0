//! The files of the cache, and the limit of their size.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ndn_files::check_manifest_directory;
use ndn_security::Sha256Digest;

/// Directory of this format; nothing beside it is touched.
const FORMAT: &str = "blocks-1";
/// File with the properties of an object, beside its segments.
const RECORD: &str = "object";
/// Programs for backups leave out directories with this file (<https://bford.info/cachedir/>).
const TAG: (&str, &str) = ("CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n");
/// Unit of `st_blocks` in bytes.
const BLOCK_UNIT: u64 = 512;
/// Share of the limit that may be written before the directory is measured again.
const MEASURED_AFTER: u64 = 16;

/// The directory of a cache.
#[derive(Debug)]
pub(super) struct Directory {
    given: PathBuf,
    root: PathBuf,
    bytes_max: u64,
}

/// A file with segments.
struct Measured {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl Directory {
    pub(super) fn new(given: &Path, bytes_max: u64) -> Self {
        Self { given: given.to_owned(), root: given.join(FORMAT), bytes_max }
    }

    pub(super) fn path(&self) -> &Path {
        &self.given
    }

    /// Makes it, and checks that this process can write to it and no other user.
    pub(super) fn create(&self) -> io::Result<()> {
        check_manifest_directory(&self.given)?;
        make(&self.root)?;
        let (name, text) = TAG;
        // Also shows whether anything can be written. A full disk may have room later.
        match write(&self.root.join(name), text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::StorageFull => Err(error),
            _ => Ok(()),
        }
    }

    /// The directory of an object.
    pub(super) fn of_object(&self, key: &Sha256Digest) -> PathBuf {
        let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let (first, rest) = digits.split_at(2);
        self.root.join(first).join(rest)
    }

    /// Removes the files that were used least recently, until what is left and an allowance are below the limit; returns the number
    /// of bytes that were removed, and the allowance: those that may be written before it is called again. It is smaller, and 0 at
    /// the limit, if files cannot be removed.
    pub(super) fn keep_limit(&self) -> (u64, u64) {
        let (mut files, mut total) = self.measure();
        let allowance = self.bytes_max / MEASURED_AFTER;
        let goal = self.bytes_max - allowance;
        if total <= goal {
            return (0, allowance);
        }
        files.sort_unstable_by_key(|file| file.used);
        let mut removed = 0;
        for file in files {
            if total <= goal {
                break;
            }
            if let Err(error) = fs::remove_file(&file.path) {
                if error.kind() == io::ErrorKind::NotFound {
                    // Another process has removed it.
                    total = total.saturating_sub(file.bytes);
                }
                continue;
            }
            let beside = file.path.parent().map_or(0, remove_if_empty);
            total = total.saturating_sub(file.bytes + beside);
            removed += file.bytes + beside;
        }
        (removed, allowance.min(self.bytes_max.saturating_sub(total)))
    }

    /// All files with segments, and the bytes of everything.
    fn measure(&self) -> (Vec<Measured>, u64) {
        let (mut files, mut total) = (Vec::new(), 0);
        for object in entries(&self.root).iter().flat_map(|part| entries(part)) {
            total += bytes_of(&object);
            for path in entries(&object) {
                let Ok(metadata) = fs::metadata(&path) else { continue };
                let bytes = metadata.blocks() * BLOCK_UNIT;
                total += bytes;
                if !path.ends_with(RECORD) {
                    let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    files.push(Measured { path, bytes, used });
                }
            }
        }
        (files, total)
    }
}

/// Bytes on the disk.
fn bytes_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.blocks() * BLOCK_UNIT)
}

/// The record of an object in its directory.
pub(super) fn record_path(object: &Path) -> PathBuf {
    object.join(RECORD)
}

/// Makes a directory for this user only, with those above it.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Writes a file for this user only.
pub(super) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(content)
}

/// Removes the directory of an object without segments; returns its bytes.
fn remove_if_empty(object: &Path) -> u64 {
    if !entries(object).iter().all(|path| path.ends_with(RECORD)) {
        return 0;
    }
    let record = record_path(object);
    let bytes = bytes_of(&record) + bytes_of(object);
    let _ = fs::remove_file(record);
    // It is not empty if another process has stored something meanwhile. That has a record again with its next file.
    let _ = fs::remove_dir(object);
    bytes
}

/// Paths in a directory; none if it cannot be read.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}
