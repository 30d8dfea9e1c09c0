//! The requests of the kernel.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};
use ndn_access::{Access, AccessError, ErrorKind, File, Stat};
use ndn_packet::Name;
use tokio::runtime::Handle;

use crate::directory::Directory;
use crate::errno::{errno, is_reported};
use crate::inodes::{Inode, Inodes};
use crate::reports::Reports;

/// Lifetime of the attributes of a file: those of a version do not change.
const FILE_ATTRIBUTE_LIFETIME: Duration = Duration::from_secs(3600);
/// Extended attribute with the name, and the version, of a file or directory.
const NAME_ATTRIBUTE: &str = "user.ndn.name";
/// Inode number of listed entries that were not looked up.
const INODE_UNKNOWN: INodeNo = INodeNo(0xffff_ffff);
/// Maximum length of a file name in bytes (`NAME_MAX`).
const NAME_LEN_MAX: usize = 255;
/// Preferred length of reads, as `st_blksize` states it.
const BLOCK_LEN: u32 = 128 << 10;
/// Unit of `st_blocks` in bytes.
const BLOCK_UNIT: u64 = 512;

/// The user and group of all files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// Answers the requests of the kernel, each in a task.
#[derive(Debug, Clone)]
pub(crate) struct FileSystem {
    shared: Arc<Shared>,
    runtime: Handle,
}

#[derive(Debug)]
struct Shared {
    access: Access,
    inodes: Inodes,
    files: Handles<File>,
    directories: Handles<Directory>,
    owner: Owner,
    /// Lifetime of directory entries in the kernel.
    entry_lifetime: Duration,
    reports: Reports,
}

impl FileSystem {
    /// Shows what is below the directory `root`. To be called on a tokio runtime.
    pub(crate) fn new(
        access: Access,
        root: Inode,
        owner: Owner,
        entry_lifetime: Duration,
        reports: Reports,
    ) -> Self {
        let inodes = Inodes::new(root);
        let (files, directories) = (Handles::default(), Handles::default());
        let shared = Shared { access, inodes, files, directories, owner, entry_lifetime, reports };
        Self { shared: Arc::new(shared), runtime: Handle::current() }
    }

    fn spawn<W>(&self, work: impl FnOnce(Arc<Shared>) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        self.runtime.spawn(work(Arc::clone(&self.shared)));
    }
}

impl Shared {
    /// The error number of a failure, which is reported if the number does not explain it.
    fn errno(&self, error: &AccessError) -> Errno {
        if is_reported(error.kind()) {
            self.reports.report(&error.to_string());
        }
        errno(error.kind())
    }

    fn inode(&self, number: INodeNo) -> Result<Arc<Inode>, Errno> {
        self.inodes.find(number).ok_or(Errno::ESTALE)
    }

    async fn look_up(&self, parent: INodeNo, name: &OsStr) -> Result<Option<FileAttr>, Errno> {
        let parent = self.inode(parent)?;
        if name.len() > NAME_LEN_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let mut child = parent.name.clone();
        child.push_generic(name.as_bytes());
        let stat = self.access.describe(&child).await.map_err(|error| self.errno(&error))?;
        let Some(stat) = stat else { return Ok(None) };
        let number = self.inodes.look_up(Inode { name: child, stat: stat.clone() });
        Ok(Some(self.attributes(number, &stat)))
    }

    async fn attributes_of(&self, number: INodeNo) -> Result<(FileAttr, Duration), Errno> {
        let inode = self.inode(number)?;
        if !inode.stat.is_directory {
            return Ok((self.attributes(number, &inode.stat), FILE_ATTRIBUTE_LIFETIME));
        }
        let stat = match self.access.describe(&inode.name).await {
            Ok(Some(stat)) => stat,
            // The root stays, whatever the state of its server.
            Ok(None) | Err(_) if number == INodeNo::ROOT => inode.stat.clone(),
            Ok(None) => return Err(Errno::ESTALE),
            Err(error) => return Err(self.errno(&error)),
        };
        Ok((self.attributes(number, &stat), self.entry_lifetime))
    }

    fn attributes(&self, number: INodeNo, stat: &Stat) -> FileAttr {
        let modified = stat.modified_ns.map_or(UNIX_EPOCH, |ns| {
            UNIX_EPOCH.checked_add(Duration::from_nanos(ns)).unwrap_or(UNIX_EPOCH)
        });
        let size = stat.size.unwrap_or(0);
        // Everybody who may use the mount may read; whether a file is a program is kept.
        let executable = stat.permissions.unwrap_or(0) & 0o111;
        let (kind, perm, nlink) = match stat.is_directory {
            true => (FileType::Directory, 0o555, 2),
            false => (FileType::RegularFile, 0o444 | executable, 1),
        };
        FileAttr {
            ino: number,
            size,
            blocks: size.div_ceil(BLOCK_UNIT),
            atime: modified,
            mtime: modified,
            ctime: modified,
            crtime: modified,
            kind,
            perm,
            nlink,
            uid: self.owner.user,
            gid: self.owner.group,
            rdev: 0,
            blksize: BLOCK_LEN,
            flags: 0,
        }
    }

    async fn open(&self, number: INodeNo) -> Result<(FileHandle, FopenFlags), Errno> {
        let inode = self.inode(number)?;
        let failed = |error: AccessError| self.errno(&error);
        let mut file = self.access.open(&inode.name).await.map_err(failed)?;
        if file.name() != &inode.stat.name {
            // The metadata that was cached may be older than the look-up.
            self.access.forget(&inode.name);
            file = self.access.open(&inode.name).await.map_err(failed)?;
        }
        if file.name() != &inode.stat.name {
            // The kernel looks the name up again.
            return Err(Errno::ESTALE);
        }
        // Without a version, the content under the name may be another one.
        let keeps = inode.stat.version().is_some();
        let flags = if keeps { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() };
        Ok((self.files.insert(Arc::new(file)), flags))
    }

    async fn read(&self, handle: FileHandle, offset: u64, size: u32) -> Result<Bytes, Errno> {
        let file = self.files.find(handle).ok_or(Errno::EBADF)?;
        file.read_at(offset, size.into()).await.map_err(|error| self.errno(&error))
    }

    async fn open_directory(&self, number: INodeNo) -> Result<FileHandle, Errno> {
        let inode = self.inode(number)?;
        let entries = self.access.list(&inode.name).await.map_err(|error| self.errno(&error))?;
        Ok(self.directories.insert(Directory::new(inode.name.clone(), entries)))
    }

    /// Adds entries with their attributes from `offset` on, until the reply is full.
    async fn list_with_attributes(
        &self,
        number: INodeNo,
        directory: &Directory,
        offset: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<(), Errno> {
        let inode = self.inode(number)?;
        let lifetime = self.entry_lifetime;
        let mut has_entries = false;
        for position in offset.. {
            let next = position + 1;
            let Some(index) = position.checked_sub(2) else {
                let dots = if position == 0 { "." } else { ".." };
                let attributes = self.attributes(number, &inode.stat);
                if reply.add(number, next, dots, &lifetime, &attributes, Generation(0)) {
                    return Ok(());
                }
                continue;
            };
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            let Some(entry) = directory.entries().get(index) else { return Ok(()) };
            let stat = match directory.stat(&self.access, index).await {
                Ok(stat) => stat,
                // The kernel asks for the rest, and gets the error then.
                Err(_) if has_entries => return Ok(()),
                Err(error) => return Err(self.errno(&error)),
            };
            // It was removed since the directory was listed.
            let Some(stat) = stat else { continue };
            let name = directory.name_of(entry);
            let child = self.inodes.look_up(Inode { name, stat: stat.clone() });
            let attributes = self.attributes(child, &stat);
            let file_name = OsStr::from_bytes(&entry.file_name);
            if reply.add(child, next, file_name, &lifetime, &attributes, Generation(0)) {
                self.inodes.forget(child, 1);
                return Ok(());
            }
            has_entries = true;
        }
        Ok(())
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // An older kernel does without.
        let _ = config.add_capabilities(
            InitFlags::FUSE_DO_READDIRPLUS
                | InitFlags::FUSE_READDIRPLUS_AUTO
                | InitFlags::FUSE_PARALLEL_DIROPS,
        );
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_owned();
        self.spawn(|shared| async move {
            let lifetime = shared.entry_lifetime;
            match shared.look_up(parent, &name).await {
                Ok(Some(attributes)) => {
                    let is_file = attributes.kind == FileType::RegularFile;
                    let kept = if is_file { FILE_ATTRIBUTE_LIFETIME } else { lifetime };
                    reply.entry_with_ttls(&lifetime, &kept, &attributes, Generation(0));
                }
                Ok(None) => reply.error(Errno::ENOENT),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn forget(&self, _: &Request, number: INodeNo, look_ups: u64) {
        self.shared.inodes.forget(number, look_ups);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.spawn(|shared| async move {
            match shared.attributes_of(number).await {
                Ok((attributes, lifetime)) => reply.attr(&lifetime, &attributes),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.spawn(|shared| async move {
            match shared.open(number).await {
                Ok((handle, flags)) => reply.opened(handle, flags),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.spawn(|shared| async move {
            match shared.read(handle, offset, size).await {
                Ok(bytes) => reply.data(&bytes),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        // On the runtime, as it ends fetches.
        self.spawn(|shared| async move { shared.files.remove(handle) });
        reply.ok();
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.spawn(|shared| async move {
            match shared.open_directory(number).await {
                Ok(handle) => reply.opened(handle, FopenFlags::empty()),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let Some(directory) = self.shared.directories.find(handle) else {
            return reply.error(Errno::EBADF);
        };
        let dots = [(number, FileType::Directory, &b"."[..]), (number, FileType::Directory, b"..")];
        let entries = directory.entries().iter().map(|entry| {
            let kind = if entry.is_directory { FileType::Directory } else { FileType::RegularFile };
            (INODE_UNKNOWN, kind, entry.file_name.as_slice())
        });
        let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
        for ((number, kind, name), next) in
            dots.into_iter().chain(entries).skip(skipped).zip(offset + 1..)
        {
            if reply.add(number, next, kind, OsStr::from_bytes(name)) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.spawn(|shared| async move {
            let Some(directory) = shared.directories.find(handle) else {
                return reply.error(Errno::EBADF);
            };
            match shared.list_with_attributes(number, &directory, offset, &mut reply).await {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.shared.directories.remove(handle);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let name_len = u32::try_from(NAME_LEN_MAX).unwrap_or(u32::MAX);
        reply.statfs(0, 0, 0, 0, 0, BLOCK_LEN, name_len, BLOCK_LEN);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.shared.inode(number) {
            Ok(inode) if name == NAME_ATTRIBUTE => {
                reply_xattr(inode.stat.name.to_uri().as_bytes(), size, reply);
            }
            Ok(_) => reply.error(Errno::NO_XATTR),
            Err(errno) => reply.error(errno),
        }
    }

    fn listxattr(&self, _: &Request, _: INodeNo, size: u32, reply: ReplyXattr) {
        reply_xattr(format!("{NAME_ATTRIBUTE}\0").as_bytes(), size, reply);
    }
}

/// Answers with the value of an extended attribute, or with its length if `size` is 0.
fn reply_xattr(value: &[u8], size: u32, reply: ReplyXattr) {
    match u32::try_from(value.len()) {
        Ok(length) if size == 0 => reply.size(length),
        Ok(length) if length <= size => reply.data(value),
        Ok(_) | Err(_) => reply.error(Errno::ERANGE),
    }
}

/// Open files or directories by the numbers that the kernel uses for them.
#[derive(Debug)]
struct Handles<T> {
    open: Mutex<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { open: Mutex::default(), next: AtomicU64::new(1) }
    }
}

impl<T> Handles<T> {
    fn insert(&self, opened: Arc<T>) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, opened);
        FileHandle(number)
    }

    fn find(&self, handle: FileHandle) -> Option<Arc<T>> {
        self.lock().get(&handle.0).cloned()
    }

    fn remove(&self, handle: FileHandle) {
        let removed = self.lock().remove(&handle.0);
        drop(removed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<T>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The directory at the root of the file system.
///
/// # Errors
/// It does not exist, is not a directory, or is not answered.
pub(crate) async fn find_root(access: &Access, name: &Name) -> Result<Inode, AccessError> {
    let stat = access.stat(name).await?;
    if !stat.is_directory {
        let text = format!("{name} is not a directory");
        return Err(AccessError::new(ErrorKind::NotDirectory, text));
    }
    Ok(Inode { name: name.clone(), stat })
}
