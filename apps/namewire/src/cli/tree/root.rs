//! The directory of a copy. The kernel resolves every path below it, with `openat2`: through no symbolic links. Other systems than
//! Linux have no such call: nothing is copied there.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ndn_files::Attributes;
use rustix::fs::{Access, AtFlags, Dir, Mode, OFlags, RawMode, RenameFlags};
use rustix::io::Errno;

use crate::cli::failure::{Failure, Outcome};

/// Opens a path, not its content.
#[cfg(target_os = "linux")]
const PATH: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PATH: OFlags = OFlags::empty();

/// The identity of a file and of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
    /// Size and time of modification; those of a directory change with its entries.
    content: Option<(u64, i64, i64)>,
}

impl Identity {
    pub(super) fn of(metadata: &fs::Metadata) -> Self {
        let content = (metadata.len(), metadata.mtime(), metadata.mtime_nsec());
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            content: (!metadata.is_dir()).then_some(content),
        }
    }
}

/// The directory of a copy, which may have to be created. Paths are relative to it.
#[derive(Debug, Clone)]
pub(super) struct Root {
    path: PathBuf,
    directory: Option<Arc<File>>,
}

impl Root {
    /// Opens the directory, if it exists. `is_exclusive`: other copies to it are refused until this is dropped.
    ///
    /// # Errors
    /// It is no directory, cannot be read, or another copy is being made there.
    pub(super) fn open(path: &Path, is_exclusive: bool) -> Outcome<Self> {
        if cfg!(not(target_os = "linux")) {
            return Err(Failure::Failed("directories are copied on Linux only".to_owned()));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(directory) => Some(File::from(directory)),
            Err(Errno::NOENT) => None,
            Err(Errno::NOTDIR) if path.exists() => {
                return Err(Failure::Usage(format!(
                    "{} is a file: a directory is copied to a directory",
                    path.display()
                )));
            }
            Err(errno) => return Err(Failure::file(path.display(), &errno.into())),
        };
        if let Some(directory) = directory.as_ref().filter(|_| is_exclusive) {
            lock(path, directory)?;
        }
        Ok(Self { path: path.to_owned(), directory: directory.map(Arc::new) })
    }

    /// Creates the directory, if it did not exist.
    ///
    /// # Errors
    /// It was created in the meantime, or cannot be.
    pub(super) fn create(&mut self, attributes: &Attributes) -> Outcome {
        if self.directory.is_some() {
            return Ok(());
        }
        let create = || {
            if let Some(above) = self.path.parent() {
                fs::create_dir_all(above)?;
            }
            rustix::fs::mkdir(&self.path, mode(attributes))?;
            File::open(&self.path)
        };
        let directory = create().map_err(|error| Failure::file(self.path.display(), &error))?;
        lock(&self.path, &directory)?;
        self.directory = Some(Arc::new(directory));
        Ok(())
    }

    /// The path of an entry, for messages and for what is done beside it.
    pub(super) fn join(&self, path: &Path) -> PathBuf {
        self.path.join(path)
    }

    /// State of an entry itself, not of what a link leads to; `None` if there is none, or a file or link on the way to it.
    ///
    /// # Errors
    /// The name is too long, a directory may not be searched, or the file system fails.
    pub(super) fn entry(&self, path: &Path) -> io::Result<Option<fs::Metadata>> {
        match self.resolve(path, PATH | OFlags::NOFOLLOW) {
            Ok(found) => Ok(Some(File::from(found).metadata()?)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens a regular file or directory for reading.
    ///
    /// # Errors
    /// It is something else, or cannot be read.
    pub(super) fn read(&self, path: &Path) -> io::Result<File> {
        // Opening a device can rewind a tape.
        let before = File::from(self.resolve(path, PATH | OFlags::NOFOLLOW)?);
        let is_plain = |metadata: fs::Metadata| metadata.is_file() || metadata.is_dir();
        if !is_plain(before.metadata()?) {
            return Err(io::Error::other("not a regular file or directory"));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(File::from(self.resolve(path, flags)?))
    }

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.read(directory)?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push(std::ffi::OsStr::from_bytes(name).to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Finds the directory that an entry is in.
    ///
    /// # Errors
    /// It does not exist, or a symbolic link is on the way to it.
    pub(super) fn check_above(&self, path: &Path) -> io::Result<()> {
        self.parent(path).map(|_| ())
    }

    /// Whether entries may be created in a directory, and removed from it. One that does not exist is not checked.
    ///
    /// # Errors
    /// Its permissions, or those of the file system, forbid it.
    pub(super) fn check_writable(&self, directory: &Path) -> io::Result<()> {
        let directory = match self.resolve(directory, PATH | OFlags::DIRECTORY) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            found => found?,
        };
        let access = Access::WRITE_OK | Access::EXEC_OK;
        Ok(rustix::fs::accessat(&directory, ".", access, AtFlags::EACCESS)?)
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// There is an entry of this name, or the file system refuses it.
    pub(super) fn create_directory(&self, path: &Path, attributes: &Attributes) -> io::Result<()> {
        let (above, name) = self.parent(path)?;
        Ok(rustix::fs::mkdirat(above, name, mode(attributes))?)
    }

    /// Removes an entry, if it is still the one of this identity. One that is gone is no error; returns whether there was
    /// one.
    ///
    /// # Errors
    /// It has changed, or the file system refuses it.
    pub(super) fn remove(&self, path: &Path, expected: &Identity) -> io::Result<bool> {
        let remove = || -> io::Result<()> {
            let (above, name) = self.parent(path)?;
            let is_directory = check(&above, name, expected)?;
            let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            Ok(rustix::fs::unlinkat(&above, name, flags)?)
        };
        match remove() {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Renames an entry, if it is still the one of this identity, to a name that is free.
    ///
    /// # Errors
    /// It has changed, or the name is not free, or the file system refuses it.
    pub(super) fn rename(&self, from: &Path, to: &Path, expected: &Identity) -> io::Result<()> {
        let (from_above, from_name) = self.parent(from)?;
        let (to_above, to_name) = self.parent(to)?;
        check(&from_above, from_name, expected)?;
        let flags = RenameFlags::NOREPLACE;
        Ok(rustix::fs::renameat_with(&from_above, from_name, &to_above, to_name, flags)?)
    }

    /// The device that a new entry in `directory`, which need not exist, takes space of, and its free bytes; `None` if the
    /// file system does not report them.
    pub(super) fn space_in(&self, directory: &Path) -> Option<(u64, u64)> {
        let root = std::path::absolute(&self.path).ok()?;
        let directory = directory
            .ancestors()
            .filter_map(|path| self.read(path).ok())
            .find(|file| file.metadata().is_ok_and(|metadata| metadata.is_dir()))
            .or_else(|| root.ancestors().find_map(|path| File::open(path).ok()))?;
        let device = directory.metadata().ok()?.dev();
        let system = rustix::fs::fstatvfs(directory).ok()?;
        Some((device, system.f_bavail.saturating_mul(system.f_frsize)))
    }

    /// The directory of an entry, and the name of the entry in it.
    fn parent<'a>(&self, path: &'a Path) -> io::Result<(OwnedFd, &'a std::ffi::OsStr)> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let above = path.parent().unwrap_or(Path::new(""));
        Ok((self.resolve(above, PATH | OFlags::DIRECTORY)?, name))
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "as on Linux")]
    fn resolve(&self, _: &Path, _: OFlags) -> Result<OwnedFd, Errno> {
        Err(Errno::NOSYS)
    }

    #[cfg(target_os = "linux")]
    fn resolve(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        use rustix::fs::ResolveFlags;
        let directory = self.directory.as_ref().ok_or(Errno::NOENT)?;
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        let flags = flags | OFlags::CLOEXEC;
        rustix::io::retry_on_intr(|| {
            rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve)
        })
    }
}

fn mode(attributes: &Attributes) -> Mode {
    Mode::from_raw_mode(attributes.permissions() as RawMode)
}

/// Refuses an entry that is not the one of this identity any more; returns whether it is a directory.
fn check(above: &OwnedFd, name: &std::ffi::OsStr, expected: &Identity) -> io::Result<bool> {
    let flags = PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = File::from(rustix::fs::openat(above.as_fd(), name, flags, Mode::empty())?);
    let found = found.metadata()?;
    if Identity::of(&found) != *expected {
        return Err(io::Error::other("it has changed since the beginning, and is kept"));
    }
    Ok(found.is_dir())
}

fn lock(path: &Path, directory: &File) -> Outcome {
    match directory.try_lock() {
        Err(fs::TryLockError::WouldBlock) => {
            Err(Failure::Failed(format!("{}: another copy is being made there", path.display())))
        }
        // A file system may have no locks.
        Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use ndn_files::FileMetadata;

    use super::*;

    fn attributes(mode: u64) -> Attributes {
        Attributes::of(&FileMetadata {
            name: "/tree/v=1".parse().unwrap(),
            mode: 0o040_000 | mode,
            mtime_ns: Some(1_000_000_000),
            ..FileMetadata::default()
        })
    }

    fn identity(root: &Root, path: &str) -> Identity {
        Identity::of(&root.entry(Path::new(path)).unwrap().unwrap())
    }

    #[test]
    fn directories_get_the_permissions_of_the_server_and_the_group_of_their_parent() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o2755)).unwrap();
        let mut root = Root::open(&directory.path().join("a/copy"), true).unwrap();
        assert!(root.entry(Path::new("file")).unwrap().is_none());
        root.create(&attributes(0o750)).unwrap();
        root.create_directory(Path::new("private"), &attributes(0o700)).unwrap();
        let mode = |path: &str| {
            fs::metadata(directory.path().join(path)).unwrap().permissions().mode() & 0o7777
        };
        assert_eq!((mode("a/copy"), mode("a/copy/private")), (0o2750, 0o2700));
        assert!(root.create_directory(Path::new("private"), &attributes(0o755)).is_err());
    }

    #[test]
    fn second_copy_to_a_directory_is_refused_until_the_first_ends() {
        let directory = tempfile::tempdir().unwrap();
        let first = Root::open(directory.path(), true).unwrap();
        assert!(matches!(Root::open(directory.path(), true), Err(Failure::Failed(_))));
        Root::open(directory.path(), false).unwrap();
        drop(first);
        Root::open(directory.path(), true).unwrap();
    }

    /// Writing, deleting and renaming below a link would change what is outside of the copy.
    #[test]
    fn links_below_the_root_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (outside, copy) = (directory.path().join("outside"), directory.path().join("copy"));
        fs::create_dir(&outside).unwrap();
        fs::create_dir(&copy).unwrap();
        fs::write(outside.join("file"), "mine").unwrap();
        symlink(&outside, copy.join("link")).unwrap();
        let through = Path::new("link/file");
        let root = Root::open(&copy, true).unwrap();
        let found = Identity::of(&fs::metadata(outside.join("file")).unwrap());
        assert!(root.entry(through).unwrap().is_none());
        assert!(root.read(through).is_err() && root.check_above(through).is_err());
        assert!(root.remove(through, &found).is_err());
        assert!(root.rename(through, Path::new("file"), &found).is_err());
        assert!(root.create_directory(Path::new("link/new"), &attributes(0o755)).is_err());
        assert!(root.read(Path::new("link")).is_err());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }

    #[test]
    fn entry_that_has_changed_is_neither_removed_nor_renamed() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path(), true).unwrap();
        let (file, other) = (Path::new("file"), Path::new("other"));
        fs::write(root.join(file), "old").unwrap();
        let found = identity(&root, "file");
        fs::write(root.join(file), "newer").unwrap();
        assert!(root.remove(file, &found).is_err());
        assert!(root.rename(file, other, &found).is_err());
        let found = identity(&root, "file");
        fs::write(root.join(other), "").unwrap();
        assert!(root.rename(file, other, &found).is_err(), "the name is not free");
        assert!(root.remove(file, &found).unwrap());
        assert!(!root.remove(file, &found).unwrap(), "it is gone already");
    }
}
