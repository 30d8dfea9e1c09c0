//! `namewire mount`: files of the file service as a file system.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueHint};
use ndn_access::{Access, AccessError, AccessOptions, DiskCacheOptions, ErrorKind};
use ndn_client::fetch::FetchOptions;
use ndn_mount::{MountError, MountOptions, Mounted, Watcher};
use ndn_packet::Name;
use serde_json::json;

use crate::cli::arguments::{duration, object_name, positive_duration, size};
use crate::cli::connect::{ConnectOptions, block_on_threads};
use crate::cli::connection::report_losses;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::interrupt::interrupted;
use crate::cli::keys;
use crate::cli::output;

/// Type of file systems of programs (linux/magic.h).
const FUSE_SUPER_MAGIC: rustix::fs::FsWord = 0x6573_5546;
/// Name of the command that unmounts when this one was killed.
const WATCHER: &str = "unmount-abandoned";

/// Mount NDN files as a read-only file system
///
/// Shows the files below NAME, of `namewire serve` or another file server, in DIRECTORY, until it is interrupted or DIRECTORY
/// is unmounted. Data that does not verify is not returned: reading it fails (EIO), and the reason is printed. An open file
/// keeps its version. Users that are not root need fusermount3 (package fuse3).
#[derive(Args, Debug)]
pub(in crate::cli) struct Options {
    /// Name of a directory of the file server
    #[arg(value_parser = object_name)]
    name: Name,
    /// Directory to mount it on
    #[arg(value_hint = ValueHint::DirPath)]
    directory: PathBuf,
    #[arg(long, value_name = "KEY", default_value = "digest", help = keys::VERIFY_HELP, long_help = keys::VERIFY_LONG_HELP)]
    verify: String,
    /// Time after which a new version of a file is seen
    #[arg(long, value_parser = duration, default_value = "2s", value_name = "DURATION")]
    metadata_lifetime: Duration,
    /// With a key, also accept older versions than the highest that was verified since the start
    #[arg(long)]
    allow_older: bool,
    /// Memory for verified content
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size(0..=usize::MAX))]
    cache: usize,
    /// Directory for verified content, which later mounts read, too; programs may share it
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    cache_dir: Option<PathBuf>,
    /// Maximum size of this directory
    #[arg(long, value_name = "SIZE", default_value = "10GiB", requires = "cache_dir", value_parser = size(DiskCacheOptions::BYTES_MIN..=u64::MAX))]
    cache_dir_size: u64,
    /// Maximum size of what is fetched ahead of a program that reads a file in order
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = size(0..=u64::MAX))]
    read_ahead: u64,
    /// Maximum time of a read, a listing, or a look-up
    #[arg(long, value_parser = positive_duration, default_value = "30s", value_name = "DURATION")]
    timeout: Duration,
    /// InterestLifetime
    #[arg(long, value_parser = positive_duration, default_value = "4s", value_name = "DURATION")]
    lifetime: Duration,
    /// Let other users use the mount, too
    ///
    /// Users that are not root need `user_allow_other` in /etc/fuse.conf.
    #[arg(long)]
    allow_other: bool,
    /// Mount on a directory that is not empty, whose entries are hidden meanwhile
    #[arg(long)]
    nonempty: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectOptions,
}

pub(in crate::cli) fn run(options: &Options) -> Outcome {
    if !options.nonempty {
        check_empty(&options.directory)?;
    }
    let fetching = FetchOptions {
        lifetime: options.lifetime,
        verification: keys::verification(&options.verify)?,
        ..FetchOptions::default()
    };
    let access = AccessOptions {
        fetching,
        metadata_lifetime: options.metadata_lifetime,
        allow_older: options.allow_older,
        cache_bytes_max: options.cache,
        disk_cache: options.cache_dir.clone().map(|directory| DiskCacheOptions {
            directory,
            bytes_max: options.cache_dir_size,
            warn: Arc::new(|text| output::note(&format_args!("namewire: {text}"))),
        }),
        read_ahead_bytes_max: options.read_ahead,
        deadline: options.timeout,
    };
    block_on_threads(async {
        let endpoint = options.connect.open().await?;
        let access = Access::new(endpoint.clone(), access);
        let mounting = MountOptions {
            entry_lifetime: options.metadata_lifetime,
            allow_other: options.allow_other,
            report: Arc::new(|text| output::note(&format_args!("namewire: {text}"))),
        };
        let mounted = Mounted::new(access, &options.name, &options.directory, mounting);
        let mut mounted = tokio::select! {
            mounted = mounted => mounted?,
            interrupt = interrupted() => {
                interrupt.map_err(|error| Failure::Failed(error.to_string()))?;
                return Err(Failure::Interrupted);
            }
        };
        let watcher = watch(&mounted);
        report_mounted(options, &mounted)?;
        tokio::select! {
            ended = mounted.ended() => {
                ended.map_err(|error| Failure::Failed(format!("the connection to the kernel failed: {error}")))?;
            }
            () = report_losses(&endpoint) => {}
            interrupt = interrupted() => {
                interrupt.map_err(|error| Failure::Failed(error.to_string()))?;
            }
        }
        let unmounted = tokio::task::spawn_blocking(move || {
            let unmounted = mounted.unmount();
            drop(watcher);
            unmounted
        });
        match unmounted.await {
            Ok(Ok(true)) => {
                let text = "namewire: the mount was in use: it is removed, and files that are open there fail";
                output::note(&text);
                Ok(())
            }
            Ok(Ok(false)) => Ok(()),
            Ok(Err(error)) => {
                Err(Failure::Failed(format!("{}: {error}", options.directory.display())))
            }
            Err(error) => Err(Failure::Failed(error.to_string())),
        }
    })
}

/// Rejects a directory that has entries, or on which a file system of a program is mounted. Other errors are those of mounting.
fn check_empty(directory: &Path) -> Outcome {
    let is_mounted = || {
        let device = |path: &Path| path.metadata().ok().map(|metadata| metadata.dev());
        let file_system = rustix::fs::statfs(directory).ok()?.f_type;
        let path = directory.canonicalize().ok()?;
        Some(file_system == FUSE_SUPER_MAGIC && device(&path) != device(path.parent()?))
    };
    let reason = if is_mounted().unwrap_or(false) {
        "a file system is mounted here already"
    } else if std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some()) {
        "the directory is not empty"
    } else {
        return Ok(());
    };
    Err(Failure::Usage(format!(
        "{}: {reason}, and the mount would hide it (--nonempty accepts that)",
        directory.display()
    )))
}

/// Starts the process that unmounts if this one is killed.
fn watch(mounted: &Mounted) -> Option<Watcher> {
    // The running program, also if its file was replaced.
    let started = mounted.watch_with(Path::new("/proc/self/exe"), &[WATCHER]);
    match started {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            output::note(&format_args!(
                "namewire: nothing will unmount if this program is killed: {error}"
            ));
            None
        }
    }
}

fn report_mounted(options: &Options, mounted: &Mounted) -> Outcome {
    let (name, path) = (options.name.to_uri(), mounted.path().display().to_string());
    if options.json {
        return Ok(output::print_json(&json!({ "name": name, "directory": path }))?);
    }
    Ok(output::print_line(&format!("mounted {name} on {path}"))?)
}

/// Unmount when standard input ends
///
/// `namewire mount` starts it for the case that it is killed.
#[derive(Args, Debug)]
pub(in crate::cli) struct WatcherOptions {
    /// Directory that is mounted on
    path: PathBuf,
    /// Number of the device, MAJOR:MINOR
    device: String,
}

pub(in crate::cli) fn run_watcher(options: &WatcherOptions) -> Outcome {
    let ended = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    ended.map_err(|error| Failure::Failed(error.to_string()))?;
    ndn_mount::unmount_abandoned(&options.path, &options.device)
        .map_err(|error| Failure::Failed(format!("{}: {error}", options.path.display())))
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Self {
        let text = error.to_string();
        match error.kind() {
            ErrorKind::Unanswered | ErrorKind::Unreachable => Self::NoAnswer(text),
            ErrorKind::Disconnected => Self::Unreachable(text),
            ErrorKind::Unverified => Self::Unverified(text),
            ErrorKind::Invalid => Self::Usage(text),
            ErrorKind::IsDirectory | ErrorKind::NotDirectory => Self::Input(text),
            ErrorKind::Interrupted => Self::Interrupted,
            ErrorKind::NotFound
            | ErrorKind::Denied
            | ErrorKind::Changed
            | ErrorKind::Busy
            | ErrorKind::Refused(_)
            | ErrorKind::Unusable => Self::Failed(text),
        }
    }
}

impl From<MountError> for Failure {
    fn from(error: MountError) -> Self {
        match error {
            MountError::Access(error) => error.into(),
            MountError::Directory { .. } => Self::Input(error.to_string()),
            MountError::Abandoned { .. } | MountError::Refused { .. } => {
                Self::Failed(error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_with_entries_is_not_covered() {
        let directory = tempfile::tempdir().unwrap();
        assert!(check_empty(directory.path()).is_ok());
        // Reported when it is mounted.
        assert!(check_empty(&directory.path().join("none")).is_ok());
        std::fs::write(directory.path().join("entry"), "").unwrap();
        let refused = check_empty(directory.path()).unwrap_err();
        assert!(
            matches!(&refused, Failure::Usage(text) if text.contains("not empty")),
            "{refused}"
        );
    }
}
