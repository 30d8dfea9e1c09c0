//! The state of a file, from `statx`, or from `fstat` on other systems than Linux.

use std::os::fd::AsFd;

use ndn_security::sha256;
use rustix::fs::FileType;
#[cfg(target_os = "linux")]
use rustix::fs::{AtFlags, Statx, StatxFlags, StatxTimestamp};

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A device, a pipe, a socket: never served.
    Special,
}

impl FileKind {
    fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::Regular,
            FileType::Directory => Self::Directory,
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Self::Special,
        }
    }
}

/// State of a file. Two that are equal but for the access time are of the same content, as far as the
/// file system can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    /// Its kind.
    pub kind: FileKind,
    /// Length in bytes; of a directory it means nothing.
    pub size: u64,
    /// Type and permissions as in `st_mode`.
    pub mode: u16,
    /// Last access, in nanoseconds since 1970.
    pub atime_ns: u64,
    /// Creation, in nanoseconds since 1970; `None` if the file system does not keep it.
    pub btime_ns: Option<u64>,
    /// Last change of content, owner, permissions or links, in nanoseconds since 1970.
    pub ctime_ns: u64,
    /// Last change of content, in nanoseconds since 1970.
    pub mtime_ns: u64,
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
    /// Mode, user, group, number of links: they change the ctime, but not the content. The links of a directory, which change
    /// with its content, are 0.
    pub(crate) attributes: [u32; 4],
}

impl FileStat {
    /// Asks the kernel.
    ///
    /// # Errors
    /// Those of `statx`.
    #[cfg(target_os = "linux")]
    pub fn of(file: impl AsFd) -> rustix::io::Result<Self> {
        let requested = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let found = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, requested)?;
        Ok(Self::from_statx(&found))
    }

    /// Asks the kernel.
    ///
    /// # Errors
    /// Those of `fstat`.
    #[cfg(not(target_os = "linux"))]
    pub fn of(file: impl AsFd) -> rustix::io::Result<Self> {
        let found = rustix::fs::fstat(file)?;
        let kind = FileKind::of(FileType::from_raw_mode(found.st_mode));
        let links = links_of(kind, found.st_nlink.into());
        Ok(Self {
            kind,
            size: u64::try_from(found.st_size).unwrap_or(0),
            mode: found.st_mode,
            atime_ns: nanoseconds(found.st_atime, found.st_atime_nsec),
            btime_ns: None,
            ctime_ns: nanoseconds(found.st_ctime, found.st_ctime_nsec),
            mtime_ns: nanoseconds(found.st_mtime, found.st_mtime_nsec),
            device: (found.st_dev.cast_unsigned(), 0),
            inode: found.st_ino,
            attributes: [found.st_mode.into(), found.st_uid, found.st_gid, links],
        })
    }

    /// State of a file or directory that no local file system keeps. `version_ns` is the time of its last change, and its
    /// version; `identity` distinguishes states with the same time, such as an entity tag.
    #[must_use]
    pub fn remote(kind: FileKind, size: u64, version_ns: u64, identity: &[u8]) -> Self {
        let digest = sha256(identity);
        let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| digest[at + byte]));
        Self {
            kind,
            size,
            mode: if kind == FileKind::Directory { 0o040_555 } else { 0o100_444 },
            atime_ns: version_ns,
            btime_ns: None,
            ctime_ns: version_ns,
            mtime_ns: version_ns,
            device: (word(0), word(4)),
            inode: u64::from(word(8)) << 32 | u64::from(word(12)),
            attributes: [0; 4],
        }
    }

    #[cfg(target_os = "linux")]
    fn from_statx(found: &Statx) -> Self {
        let nanoseconds = |time: StatxTimestamp| nanoseconds(time.tv_sec, time.tv_nsec.into());
        let has_btime = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        let kind = FileKind::of(FileType::from_raw_mode(found.stx_mode.into()));
        let links = links_of(kind, found.stx_nlink);
        Self {
            kind,
            size: found.stx_size,
            mode: found.stx_mode,
            atime_ns: nanoseconds(found.stx_atime),
            btime_ns: has_btime.then(|| nanoseconds(found.stx_btime)),
            ctime_ns: nanoseconds(found.stx_ctime),
            mtime_ns: nanoseconds(found.stx_mtime),
            device: (found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            attributes: [found.stx_mode.into(), found.stx_uid, found.stx_gid, links],
        }
    }

    /// Whether the content is the same now, as far as the file system can tell.
    ///
    /// Since Linux 6.13, common file systems give a change a distinct time if the previous time has been
    /// read. Before, two changes within one tick of the clock (4 ms) had the same time.
    #[must_use]
    pub fn is_same_content(&self, now: &Self) -> bool {
        self.kind == now.kind && self.identity() == now.identity()
    }

    /// The values that distinguish states of a file: size, times of change, device, inode.
    pub(crate) fn identity(&self) -> (u64, u64, u64, (u32, u32), u64) {
        (self.size, self.mtime_ns, self.ctime_ns, self.device, self.inode)
    }
}

fn links_of(kind: FileKind, links: u32) -> u32 {
    if kind == FileKind::Directory { 0 } else { links }
}

/// Times before 1970 count as 1970.
fn nanoseconds(seconds: i64, nanoseconds: i64) -> u64 {
    let [seconds, nanoseconds] =
        [seconds, nanoseconds].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}
