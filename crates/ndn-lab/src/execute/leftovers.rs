//! Processes and directories of runs, found by a mark: they end with the run, or at the next start if this program was
//! killed.
//!
//! All programs of a run have the environment variable [`MARK`] with the identifier of the experiment, cell and replication,
//! and so have the programs that these start. Temporary directories have the identifier in their names.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Name of the environment variable.
pub(super) const MARK: &str = "NAMEWIRE_LAB_EXPERIMENT";
/// Rounds of the search for processes: one that is being ended may have started another.
const ROUNDS: u32 = 10;
/// Time for a killed process to end. One that waits for a device takes longer.
const END_TIMEOUT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Prefix of the names of temporary directories.
fn prefix(id: &str) -> String {
    format!("namewire-lab-{id}-")
}

/// A temporary directory of a run; removed when dropped.
///
/// # Errors
/// It cannot be created.
pub(super) fn directory(id: &str) -> std::io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix(&prefix(id)).tempdir()
}

/// Kills all processes with this mark, or one that begins with it and a hyphen, and returns how many.
pub(super) fn end_processes(mark: &str) -> usize {
    let mut ended = 0;
    for _ in 0..ROUNDS {
        let found = processes(mark);
        if found.is_empty() {
            break;
        }
        for process in found {
            ended += usize::from(kill(process, mark));
        }
    }
    ended
}

/// Removes directories of runs of the experiment that was killed, and returns how many.
pub(super) fn remove_directories(id: &str) -> usize {
    let prefix = prefix(id);
    let is_own = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&prefix)
    };
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    let own = entries.map(|entry| entry.path()).filter(is_own);
    own.filter(|path| fs::remove_dir_all(path).is_ok()).count()
}

/// Processes with the mark, but for this one and zombies.
fn processes(mark: &str) -> Vec<Pid> {
    let own = rustix::process::getpid();
    let number = |path: &Path| path.file_name()?.to_str()?.parse().ok().and_then(Pid::from_raw);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = entries.filter_map(|entry| number(&entry.path()));
    all.filter(|process| *process != own && has_mark(*process, mark)).collect()
}

fn has_mark(process: Pid, mark: &str) -> bool {
    let environment = format!("/proc/{}/environ", process.as_raw_nonzero());
    let variable = format!("{MARK}={mark}");
    let is_own = |other: &[u8]| {
        let rest = other.strip_prefix(variable.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'-')
    };
    fs::read(environment).unwrap_or_default().split(|byte| *byte == 0).any(is_own)
}

/// Kills a process with the mark, and waits for its end: by a descriptor, so that no other process of the same number is
/// killed.
fn kill(process: Pid, mark: &str) -> bool {
    let Ok(descriptor) = pidfd_open(process, PidfdFlags::empty()) else { return false };
    let is_killed = has_mark(process, mark) && pidfd_send_signal(&descriptor, Signal::KILL).is_ok();
    if is_killed {
        let mut end = [PollFd::new(&descriptor, PollFlags::IN)];
        // A signal that interrupts the wait leaves the process to the next round.
        let _ = poll(&mut end, Some(&END_TIMEOUT));
    }
    is_killed
}
