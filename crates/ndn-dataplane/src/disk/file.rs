//! A file or block device with the shares of all workers.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ndn_disk::{BLOCK, Buffer, CONTENTS_CHECK_BYTES, FirstBlock, Storage, Superblock, TooSmall};
use rustix::fs::{FallocateFlags, FlockOperation, OFlags};

/// Reason why a file or device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// Another forwarder uses it.
    #[error("{} is in use by another forwarder", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// It has contents of another program.
    #[error(
        "{} has other contents, which are not overwritten: choose another file, or erase its first 128 KiB", path.display()
    )]
    OtherContents {
        /// The path.
        path: PathBuf,
    },
    /// It is too small for the workers.
    #[error("{}: {bytes} bytes are too few for {shares} workers, which need {needed}", path.display())]
    TooSmall {
        /// The path.
        path: PathBuf,
        /// Its size, or the configured one.
        bytes: u64,
        /// Number of workers.
        shares: u32,
        /// Bytes that are needed.
        needed: u64,
    },
    /// It is neither a file nor a block device.
    #[error("{} is neither a file nor a block device", path.display())]
    Kind {
        /// The path.
        path: PathBuf,
    },
    /// It cannot be opened.
    #[error("cannot open {}: {error}", path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// It can be opened, and not be read, written or extended.
    #[error("cannot use {}: {error}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}

impl DiskError {
    /// Whether the disk failed. The forwarder goes on without it; other errors are those of the configuration.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Io { .. })
    }
}

/// An open, locked file or device. It is read and written without the page cache, unless the file system cannot.
#[derive(Debug)]
pub struct DiskFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    is_direct: bool,
    first_block: FirstBlock,
}

impl DiskFile {
    /// Opens or creates a file, or opens a device, and locks it. `bytes` is the size of a file, and the part of a
    /// device to be used, all of it by default.
    ///
    /// # Errors
    /// See [`DiskError`].
    pub fn open(path: &Path, bytes: Option<u64>, shares: u32) -> Result<Self, DiskError> {
        let owned = || path.to_owned();
        let (file, is_direct) =
            open(path).map_err(|error| DiskError::Open { path: owned(), error })?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(DiskError::InUse { path: owned() }),
            Err(error) => return Err(DiskError::Open { path: owned(), error: error.into() }),
        }
        let failed = |error: io::Error| DiskError::Io { path: owned(), error };
        let kind = file.metadata().map_err(failed)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(DiskError::Kind { path: owned() });
        }
        let length = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0));
        let length = length.map_err(|error| failed(error.into()))?;
        let bytes = match bytes {
            Some(bytes) if kind.is_block_device() => bytes.min(length),
            Some(bytes) => bytes,
            None => length,
        } / BLOCK as u64
            * BLOCK as u64;
        if let Err(TooSmall { needed }) = Superblock::plan(bytes, shares) {
            return Err(DiskError::TooSmall { path: owned(), bytes, shares, needed });
        }
        let mut disk =
            Self { path: owned(), file, bytes, is_direct, first_block: FirstBlock::Blank };
        disk.first_block = disk.read_first_block(length).map_err(failed)?;
        if disk.first_block == FirstBlock::OtherContents {
            return Err(DiskError::OtherContents { path: owned() });
        }
        if kind.is_file() && length < bytes {
            disk.allocate().map_err(failed)?;
        }
        Ok(disk)
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the page cache is bypassed.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// The superblock, if the file was formatted for as many shares and this size.
    #[must_use]
    pub fn superblock(&self, shares: u32) -> Option<Superblock> {
        let FirstBlock::Valid(superblock) = self.first_block else { return None };
        let is_fitting = superblock.shares == shares
            && Superblock::plan(self.bytes, shares)
                == Ok((superblock.segments, superblock.segment_bytes));
        is_fitting.then_some(superblock)
    }

    /// Whether the file was formatted, for whatever size and number of shares.
    #[must_use]
    pub fn was_formatted(&self) -> bool {
        self.first_block != FirstBlock::Blank
    }

    /// Formats the file: what it has is lost.
    ///
    /// # Errors
    /// [`DiskError::Io`] and [`DiskError::TooSmall`].
    pub fn format(
        &mut self,
        shares: u32,
        format_id: u64,
        hash_key: [u8; 16],
        hash_check: u64,
    ) -> Result<Superblock, DiskError> {
        let (path, bytes) = (self.path.clone(), self.bytes);
        let (segments, segment_bytes) = match Superblock::plan(bytes, shares) {
            Ok(plan) => plan,
            Err(TooSmall { needed }) => {
                return Err(DiskError::TooSmall { path, bytes, shares, needed });
            }
        };
        let superblock =
            Superblock { format_id, hash_key, hash_check, shares, segments, segment_bytes };
        let mut buffer = Buffer::new(BLOCK);
        buffer.bytes_mut().copy_from_slice(&superblock.encode());
        let written = self.write_at(buffer.bytes(), 0).and_then(|()| self.file.sync_data());
        written.map_err(|error| DiskError::Io { path, error })?;
        self.first_block = FirstBlock::Valid(superblock);
        Ok(superblock)
    }

    fn read_first_block(&self, length: u64) -> io::Result<FirstBlock> {
        let known = usize::try_from(length).unwrap_or(usize::MAX).min(CONTENTS_CHECK_BYTES);
        let mut buffer = Buffer::new(CONTENTS_CHECK_BYTES);
        let mut read = 0;
        while read < known {
            let rest = &mut buffer.bytes_mut()[read..];
            match self.file.read_at(rest, read as u64) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let bytes = buffer.bytes();
        let found = Superblock::decode(&bytes[..BLOCK], length);
        let has_contents = found == FirstBlock::Blank && bytes.iter().any(|&byte| byte != 0);
        Ok(if has_contents { FirstBlock::OtherContents } else { found })
    }

    /// Allocates the whole file, so that a full file system is noticed now and not later.
    fn allocate(&self) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, self.bytes) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                self.file.set_len(self.bytes)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Storage for DiskFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }
}

impl AsFd for DiskFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Opens for direct I/O, or without it where the file system has none.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let options = |flags: OFlags| {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(flags.bits().cast_signed());
        options
    };
    match options(OFlags::DIRECT).open(path) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Ok((options(OFlags::empty()).open(path)?, false))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const SIZE: u64 = 8 << 20;

    #[test]
    fn file_is_locked_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let mut first = DiskFile::open(&path, Some(SIZE), 1).unwrap();
        assert_eq!((first.superblock(1), first.was_formatted()), (None, false));
        let superblock = first.format(1, 5, [6; 16], 7).unwrap();
        let error = DiskFile::open(&path, Some(SIZE), 1).unwrap_err();
        assert!(matches!(error, DiskError::InUse { .. }), "{error}");
        assert!(error.to_string().ends_with("disk is in use by another forwarder"), "{error}");
        drop(first);
        let again = DiskFile::open(&path, Some(SIZE), 1).unwrap();
        assert_eq!(again.superblock(1), Some(superblock));
        assert_eq!(again.superblock(2), None);
        drop(again);
        let larger = DiskFile::open(&path, Some(2 * SIZE), 1).unwrap();
        assert_eq!((larger.superblock(1), larger.was_formatted()), (None, true));
    }

    #[test]
    fn other_contents_are_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        for position in [0, 4096, 65_536 + 64] {
            let mut contents = vec![0; 200_000];
            contents[position] = 1;
            std::fs::write(&path, &contents).unwrap();
            let error = DiskFile::open(&path, Some(SIZE), 1).unwrap_err();
            assert!(matches!(error, DiskError::OtherContents { .. }), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), contents);
        }
    }

    #[test]
    fn errors_name_the_file() {
        let directory = tempfile::tempdir().unwrap();
        for (path, bytes, words) in [
            (directory.path().join("small"), Some(1 << 20), "too few for 1 workers"),
            (directory.path().to_owned(), None, "cannot open"),
            (directory.path().join("none/disk"), Some(SIZE), "cannot open"),
        ] {
            let error = DiskFile::open(&path, bytes, 1).unwrap_err();
            let message = error.to_string();
            assert!(
                message.contains(words) && message.contains(path.to_str().unwrap()),
                "{message}"
            );
            assert!(!error.is_failure());
        }
    }
}
