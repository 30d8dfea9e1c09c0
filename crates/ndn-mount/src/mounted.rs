//! Mounting and unmounting.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use ndn_access::{Access, AccessError};
use ndn_packet::Name;
use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::mount::{UnmountFlags, unmount};
use tokio::sync::oneshot;

use crate::file_system::{FileSystem, Owner, find_root};
use crate::reports::{Report, Reports};

/// Type of the file system, which follows `fuse.` in the tables of the kernel.
const SUBTYPE: &str = "ndn";
/// Beginning of the source of the file system in these tables, before the name.
const SOURCE: &str = "ndn:";

/// Distance of the kernel's read-ahead: the longest request of FUSE.
const READ_AHEAD_KIB: u32 = 1024;

/// Why a name cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The name is no directory that can be reached.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The directory to mount on cannot be used.
    #[error("{}: {error}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A file system whose program has ended is mounted on the directory.
    #[error(
        "{path}: a file system is mounted here whose program has ended (`umount {path}` or `fusermount3 -u {path}` removes it)"
    )]
    Abandoned {
        /// The directory.
        path: String,
    },
    /// The kernel, or fusermount3, refuses.
    #[error("{}: {reason}", path.display())]
    Refused {
        /// The directory.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// Options of a mount.
#[derive(Clone)]
pub struct MountOptions {
    /// Lifetime of directory entries in the kernel: a new version of a file is seen after this time.
    pub entry_lifetime: Duration,
    /// Whether other users may use the mount.
    pub allow_other: bool,
    /// Receives failures that error numbers do not explain.
    pub report: Report,
}

impl std::fmt::Debug for MountOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MountOptions")
            .field("entry_lifetime", &self.entry_lifetime)
            .field("allow_other", &self.allow_other)
            .finish_non_exhaustive()
    }
}

/// A mounted file system; it is unmounted when this is dropped.
#[derive(Debug)]
pub struct Mounted {
    path: PathBuf,
    device: Device,
    unmounter: Option<SessionUnmounter>,
    ended: oneshot::Receiver<io::Result<()>>,
}

/// Number of the device of a mounted file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Device {
    major: u32,
    minor: u32,
}

impl Device {
    /// Lets the kernel read further ahead than its default of 128 KiB, in requests of that length. Only root may change it.
    fn read_ahead(self) {
        let Self { major, minor } = self;
        let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
        let _ = std::fs::write(setting, READ_AHEAD_KIB.to_string());
    }
}

impl Mounted {
    /// Mounts the directory `name` on `path`. To be called on a tokio runtime with several threads, as the kernel waits for
    /// answers while it mounts.
    ///
    /// # Errors
    /// `name` cannot be reached or is not a directory; `path` is not a directory; the kernel refuses.
    pub async fn new(
        access: Access,
        name: &Name,
        path: &Path,
        options: MountOptions,
    ) -> Result<Self, MountError> {
        let in_directory = |error: io::Error| match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::NOTCONN.raw_os_error() => {
                MountError::Abandoned { path: path.display().to_string() }
            }
            _ => MountError::Directory { path: path.to_owned(), error },
        };
        let path_found = path.canonicalize().map_err(in_directory)?;
        if !path_found.metadata().map_err(in_directory)?.is_dir() {
            return Err(in_directory(rustix::io::Errno::NOTDIR.into()));
        }
        let root = find_root(&access, name).await?;
        let owner = Owner {
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
        };
        let reports = Reports::new(options.report);
        let file_system = FileSystem::new(access, root, owner, options.entry_lifetime, reports);
        let mut config = Config::default();
        config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
        config.mount_options = vec![
            MountOption::RO,
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::DefaultPermissions,
            MountOption::FSName(format!("{SOURCE}{}", name.to_uri().replace([',', '\\'], "_"))),
            MountOption::Subtype(SUBTYPE.to_owned()),
        ];
        let at = path_found.clone();
        let session = tokio::task::spawn_blocking(move || Session::new(file_system, at, &config));
        let refused = |error: io::Error| MountError::Refused {
            path: path.to_owned(),
            reason: explain(&error),
        };
        let session = session.await.map_err(io::Error::other).map_err(refused)?;
        let mut session = session.map_err(refused)?;
        let unmounter = session.unmount_callable();
        let (sender, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("fuse".to_owned());
        thread
            .spawn(move || {
                let _ = sender.send(session.run());
            })
            .map_err(refused)?;
        let at = path_found.clone();
        let device = tokio::task::spawn_blocking(move || device_at(&at));
        let device = device.await.map_err(io::Error::other).map_err(refused)?.map_err(refused)?;
        device.read_ahead();
        Ok(Self { path: path_found, device, unmounter: Some(unmounter), ended })
    }

    /// The directory that it is mounted on.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until somebody unmounts it.
    ///
    /// # Errors
    /// The connection to the kernel failed.
    pub async fn ended(&mut self) -> io::Result<()> {
        (&mut self.ended).await.unwrap_or(Ok(()))
    }

    /// Starts `program` with `arguments`, the path and the number of the device, to call [`unmount_abandoned`] with them once
    /// its standard input ends: when this process ends, however it does.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn watch_with(&self, program: &Path, arguments: &[&str]) -> io::Result<Watcher> {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(program);
        command.args(arguments).arg(&self.path);
        command.arg(format!("{}:{}", self.device.major, self.device.minor));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Signals of the terminal are for the process that it watches.
        command.process_group(0).current_dir("/");
        Ok(Watcher { process: command.spawn()? })
    }

    /// Unmounts. A busy file system is detached: it is gone from the tree, and its open files fail.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn unmount(mut self) -> io::Result<bool> {
        self.unmount_now()
    }

    /// Returns whether it was busy.
    fn unmount_now(&mut self) -> io::Result<bool> {
        let Some(mut unmounter) = self.unmounter.take() else { return Ok(false) };
        match unmounter.unmount() {
            Ok(()) => Ok(false),
            Err(_) => detach(&self.path).map(|()| true),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.unmount_now();
    }
}

/// A process that unmounts if the one that mounted does not.
#[derive(Debug)]
pub struct Watcher {
    process: std::process::Child,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Unmounts the file system of `device` (`major:minor`) from `path`, if it is still mounted there.
///
/// # Errors
/// The tables of the kernel cannot be read, or it refuses.
pub fn unmount_abandoned(path: &Path, device: &str) -> io::Result<()> {
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    match is_mounted(&table, path, device) {
        true => detach(path),
        false => Ok(()),
    }
}

/// Whether `table` (proc_pid_mountinfo(5)) has a file system of this program and device on `path`.
fn is_mounted(table: &str, path: &Path, device: &str) -> bool {
    let path = escape(&path.to_string_lossy());
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let separator = fields.iter().position(|field| *field == "-");
        let source = separator.and_then(|at| fields.get(at + 2));
        fields.get(2) == Some(&device)
            && fields.get(4) == Some(&path.as_str())
            && source.is_some_and(|source| source.starts_with(SOURCE))
    })
}

/// Spaces and the like are octal in the tables of the kernel.
fn escape(path: &str) -> String {
    let escaped = path.chars().map(|c| match c {
        ' ' | '\t' | '\n' | '\\' => format!("\\{:03o}", u32::from(c)),
        _ => c.to_string(),
    });
    escaped.collect()
}

/// Removes the mount from the tree. Users that are not root need fusermount3 for it.
fn detach(path: &Path) -> io::Result<()> {
    match unmount(path, UnmountFlags::DETACH) {
        Err(rustix::io::Errno::PERM) => {
            let mut command = Command::new("fusermount3");
            let output = command.args(["-u", "-z", "--"]).arg(path).output()?;
            match output.status.success() {
                true => Ok(()),
                false => {
                    let text = String::from_utf8_lossy(&output.stderr);
                    Err(io::Error::other(text.trim().to_owned()))
                }
            }
        }
        result => Ok(result?),
    }
}

fn device_at(path: &Path) -> io::Result<Device> {
    let found = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::BASIC_STATS)?;
    Ok(Device { major: found.stx_dev_major, minor: found.stx_dev_minor })
}

/// The reason of a refused mount, and how to remove it.
fn explain(error: &io::Error) -> String {
    let is_root = rustix::process::geteuid().is_root();
    let is = |kind| error.kind() == kind;
    let advice = if is(io::ErrorKind::NotFound) && Path::new("/dev/fuse").exists() {
        "fusermount3 is missing (package fuse3), which mounts for users that are not root"
    } else if is(io::ErrorKind::NotFound) {
        "there is no /dev/fuse: the kernel has no FUSE (modprobe fuse), or this is a container without it"
    } else if is(io::ErrorKind::PermissionDenied) && is_root {
        "the kernel does not allow to mount here (in a container, CAP_SYS_ADMIN and /dev/fuse are needed)"
    } else {
        return error.to_string().trim().to_owned();
    };
    advice.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "29 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        150 29 0:61 / /mnt/a\\040b ro,nosuid,nodev shared:3 - fuse.ndn ndn:/x ro,user_id=0\n\
        151 29 0:62 / /mnt/other rw - fuse.sshfs host: rw\n";

    #[test]
    fn own_mounts_are_recognised() {
        let is_mounted = |path: &str, device| is_mounted(TABLE, Path::new(path), device);
        assert!(is_mounted("/mnt/a b", "0:61"));
        assert!(!is_mounted("/mnt/a b", "0:62"));
        assert!(!is_mounted("/mnt/a", "0:61"));
        assert!(!is_mounted("/mnt/other", "0:62"));
    }
}
