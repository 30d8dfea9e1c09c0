//! Processes and directories of runs, found by a mark: they end with the run, or at the next start if this program was
//! killed.
//!
//! All programs of a run have the environment variable [`MARK`] with the identifier of the experiment, cell and replication,
//! and so have the programs that these start; [`OWNER`] names the process of the lab. Temporary directories have the
//! identifier in their names, and the owner in a file.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Name of the environment variable with the mark of a run.
const MARK: &str = "NAMEWIRE_LAB_EXPERIMENT";
/// Name of the environment variable with the process of the lab.
const OWNER: &str = "NAMEWIRE_LAB_OWNER";
/// Name of the file with the process of the lab in a temporary directory.
const OWNER_FILE: &str = "owner";
/// Prefix of the names of temporary directories.
pub(crate) const PREFIX: &str = "namewire-lab-";
/// Rounds of the search for processes: one that is being ended may have started another.
const ROUNDS: u32 = 10;
/// Time for a killed process to end. One that waits for a device takes longer.
const END_TIMEOUT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Held while something is started, and for ever by [`abandon`].
static STARTING: Mutex<()> = Mutex::new(());

/// Permission to start programs and to make directories. Nobody gets it after [`abandon`].
pub(crate) fn starting() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks all runs where they start something and where their end is noticed: none of them starts another program, or takes
/// the end of one for a result. The caller ends the programs and exits.
pub(crate) fn abandon() {
    std::mem::forget(starting());
}

/// Starts a program with this mark.
///
/// # Errors
/// Those of the operating system.
pub(crate) fn spawn(
    command: &mut Command,
    mark: &str,
    _permission: &MutexGuard<'static, ()>,
) -> std::io::Result<Child> {
    command.env(MARK, mark).env(OWNER, own_identity());
    command.spawn()
}

/// A temporary directory of a run; removed when dropped.
///
/// # Errors
/// It cannot be created.
pub(crate) fn directory(
    id: &str,
    _permission: &MutexGuard<'static, ()>,
) -> std::io::Result<tempfile::TempDir> {
    let directory = tempfile::Builder::new().prefix(&format!("{PREFIX}{id}-")).tempdir()?;
    let mut file = fs::File::create_new(directory.path().join(OWNER_FILE))?;
    file.write_all(own_identity().as_bytes())?;
    Ok(directory)
}

/// Namespace of process numbers, number and start time of a process: no other one has had the same.
fn identity(process: &str) -> Option<String> {
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // proc(5): the second field, a name in parentheses, may contain anything. The start time is the 22nd, the state the third.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let start = fields.nth(18)?;
    let number = stat.split_ascii_whitespace().next()?;
    Some(format!("{} {number} {start}", namespace.display()))
}

fn own_identity() -> String {
    identity("self").unwrap_or_default()
}

/// Returns whether a process of this namespace has ended. Those of other namespaces (containers) are not known.
fn has_ended(owner: &str) -> bool {
    let own = own_identity();
    let namespace = |identity: &str| identity.split_once(' ').map(|(first, _)| first.to_owned());
    let Some(number) = owner.split(' ').nth(1) else { return false };
    namespace(owner) == namespace(&own) && identity(number).as_deref() != Some(owner)
}

/// Marks a temporary directory as one of this process. Its name begins with [`PREFIX`].
///
/// # Errors
/// The mark cannot be written.
pub(crate) fn adopt(directory: &Path) -> std::io::Result<()> {
    fs::write(directory.join(OWNER_FILE), own_identity())
}

/// Ends what labs left that were killed, whatever their experiment: processes, and temporary directories. Returns how many
/// processes.
pub(crate) fn end_orphans() -> usize {
    end_owned(has_ended)
}

/// Ends what this process has started, and removes its temporary directories.
pub(crate) fn end_own() {
    let own = own_identity();
    end_owned(|owner| owner == own);
}

/// Ends processes, and removes temporary directories, of the owners for which this holds.
fn end_owned(is_meant: impl Fn(&str) -> bool) -> usize {
    let is_owned = |process: Pid| variable(process, OWNER).is_some_and(|owner| is_meant(&owner));
    let mut ended = 0;
    for _ in 0..ROUNDS {
        let found: Vec<Pid> = all_processes().into_iter().filter(|one| is_owned(*one)).collect();
        if found.is_empty() {
            break;
        }
        ended += found.into_iter().filter(|process| kill(*process, is_owned)).count();
    }
    for directory in directories(PREFIX) {
        let owner = fs::read_to_string(directory.join(OWNER_FILE)).unwrap_or_default();
        if is_meant(&owner) {
            let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
            remove_namespaces(&format!("{name}-"));
            // Another lab may be doing the same.
            let _ = fs::remove_dir_all(&directory);
        }
    }
    ended
}

/// Kills all processes with this mark, or one that begins with it and a hyphen, and returns how many.
pub(crate) fn end_processes(mark: &str) -> usize {
    let has_mark = |process: Pid| {
        let own = variable(process, MARK);
        let own = own.as_deref().and_then(|own| own.strip_prefix(mark));
        own.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let mut ended = 0;
    for _ in 0..ROUNDS {
        let found: Vec<Pid> = all_processes().into_iter().filter(|one| has_mark(*one)).collect();
        if found.is_empty() {
            break;
        }
        ended += found.into_iter().filter(|process| kill(*process, has_mark)).count();
    }
    ended
}

/// Removes directories of runs of the experiment that was killed, and returns how many.
pub(crate) fn remove_directories(id: &str) -> usize {
    remove_namespaces(&format!("{PREFIX}{id}-"));
    let own = directories(&format!("{PREFIX}{id}-"));
    own.iter().filter(|path| fs::remove_dir_all(path).is_ok()).count()
}

/// Removes the network namespaces whose names begin with this. Those of a run begin with the name of its directory.
pub(crate) fn remove_namespaces(prefix: &str) {
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with(prefix) {
            // Another lab may be doing the same.
            let _ = Command::new("ip").args(["netns", "delete"]).arg(&name).status();
        }
    }
}

/// Temporary directories whose names begin with this.
fn directories(prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    let is_own =
        |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().starts_with(prefix);
    entries.map(|entry| entry.path()).filter(is_own).collect()
}

/// All processes but this one.
fn all_processes() -> Vec<Pid> {
    let own = rustix::process::getpid();
    let number = |path: &Path| path.file_name()?.to_str()?.parse().ok().and_then(Pid::from_raw);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = entries.filter_map(|entry| number(&entry.path()));
    all.filter(|process| *process != own).collect()
}

/// A variable of the environment with which a process was started; `None` of a zombie.
fn variable(process: Pid, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{}/environ", process.as_raw_nonzero())).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|one| one.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    String::from_utf8(value.to_vec()).ok()
}

/// Kills a process for which this holds, and waits for its end: by a descriptor, so that no other process of the same number
/// is killed.
fn kill(process: Pid, is_own: impl Fn(Pid) -> bool) -> bool {
    let Ok(descriptor) = pidfd_open(process, PidfdFlags::empty()) else { return false };
    let is_killed = is_own(process) && pidfd_send_signal(&descriptor, Signal::KILL).is_ok();
    if is_killed {
        let mut end = [PollFd::new(&descriptor, PollFlags::IN)];
        // A signal that interrupts the wait leaves the process to the next round.
        let _ = poll(&mut end, Some(&END_TIMEOUT));
    }
    is_killed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_owner_is_recognized() {
        let own = own_identity();
        assert!(!has_ended(&own), "{own}");
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let identity = identity(&child.id().to_string()).unwrap();
        assert!(!has_ended(&identity), "{identity}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(has_ended(&identity), "{identity}");
        // Another namespace, and files that name no owner.
        assert!(!has_ended(&identity.replace("pid:[", "pid:[9")), "{identity}");
        assert!(!has_ended(""));
    }
}
