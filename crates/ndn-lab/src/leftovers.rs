//! Processes and directories of runs, found by a mark: they end with the run, or at the next start if this program was
//! killed.
//!
//! All programs of a run have the environment variable [`MARK`] with the identifier of the experiment, cell and replication,
//! and so have the programs that these start; [`OWNER`] names the process of the lab. The names of temporary directories and
//! network namespaces contain the owner, so they have one from the beginning, where `/proc` can be read.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Name of the environment variable with the mark of a run.
const MARK: &str = "NAMEWIRE_LAB_EXPERIMENT";
/// Name of the environment variable with the process of the lab.
const OWNER: &str = "NAMEWIRE_LAB_OWNER";
/// Prefix of the names of temporary directories. The owner and a hyphen follow.
pub(crate) const PREFIX: &str = "namewire-lab-";
/// Rounds of the search for processes, and of the removal of a directory: a process that is being ended may have started
/// another one, and another lab may remove the same directory.
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
    _permission: &MutexGuard<'static, ()>,
) -> std::io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix(&format!("{PREFIX}{}-", own_identity())).tempdir()
}

/// Place, number and start time of a process, in hexadecimal digits: no other one has had the same. The place is the boot
/// of the machine and the namespace of process numbers. Shells compute the same ([`SHELL_IDENTITY`]). `None` for a zombie.
///
/// # Errors
/// Files of `/proc` cannot be read: [`std::io::ErrorKind::NotFound`] if there is no such process.
fn identity(process: &str) -> std::io::Result<Option<String>> {
    let stat = match fs::read_to_string(format!("/proc/{process}/stat")) {
        // It has ended between the opening and the reading.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        stat => stat?,
    };
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let namespace = fs::read_link("/proc/self/ns/pid")?;
    identity_of(&stat, &boot, &namespace.to_string_lossy())
        .ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

/// The identity by the contents of these files of `/proc`; `None` if they are not as expected.
fn identity_of(stat: &str, boot: &str, namespace: &str) -> Option<Option<String>> {
    let boot = u64::from_str_radix(boot.get(..8)?, 16).ok()?;
    let digits = namespace.chars().filter(char::is_ascii_digit);
    let namespace: u64 = digits.collect::<String>().parse().ok()?;
    // proc(5): the second field, a name in parentheses, may contain anything. The start time is the 22nd, the state the third.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return Some(None);
    }
    let start: u64 = fields.nth(18)?.parse().ok()?;
    let number: u64 = stat.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Some(format!("{:x}.{number:x}.{start:x}", boot ^ namespace)))
}

/// Commands of a POSIX shell that set `o` to the identity of the shell.
pub(crate) const SHELL_IDENTITY: &str = "b=$(head -c 8 /proc/sys/kernel/random/boot_id); \
    n=$(readlink /proc/self/ns/pid | tr -dc 0-9); s=$(cat /proc/$$/stat); set -- ${s##*)}; \
    o=$(printf %x.%x.%x $((0x$b ^ $n)) $$ ${20})";

fn own_identity() -> String {
    identity("self").ok().flatten().unwrap_or_default()
}

/// Returns whether a process of this place has ended. Those of other places (machines, containers) are not known, nor one of
/// which the state cannot be read.
fn has_ended(owner: &str) -> bool {
    let own = own_identity();
    let place = |identity: &str| identity.split('.').next().map(str::to_owned);
    let number = owner.split('.').nth(1).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let Some(number) = number else { return false };
    let has_other_owner = || match identity(&number.to_string()) {
        Ok(found) => found.as_deref() != Some(owner),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    place(owner) == place(&own) && has_other_owner()
}

/// The owner in the name of a temporary directory or a namespace.
fn owner_of(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)?.split('-').next()
}

/// Ends what labs left that were killed, whatever their experiment: processes, and temporary directories. Returns how many
/// processes.
pub(crate) fn end_orphans() -> usize {
    end_owned(has_ended)
}

/// Ends what this process has started, and removes its temporary directories.
pub(crate) fn end_own() {
    let own = own_identity();
    // What has no owner may belong to anybody.
    if !own.is_empty() {
        end_owned(|owner| owner == own);
    }
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
    let is_left = |name: &str| owner_of(name).is_some_and(&is_meant);
    remove_namespaces(is_left);
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if is_left(&entry.file_name().to_string_lossy()) {
            remove_directory(&entry.path());
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

/// Removes a directory, also if others remove it at the same time.
fn remove_directory(path: &Path) {
    for _ in 0..ROUNDS {
        if fs::remove_dir_all(path).is_ok() || !path.exists() {
            break;
        }
    }
}

/// Removes the network namespaces for whose names this holds. Those of a run begin with the name of its directory.
pub(crate) fn remove_namespaces(is_meant: impl Fn(&str) -> bool) {
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name();
        if is_meant(&name.to_string_lossy()) {
            // Another lab may be doing the same, and those of other users stay.
            let mut command = Command::new("ip");
            let _ = command.args(["netns", "delete"]).arg(&name).stderr(Stdio::null()).status();
        }
    }
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
    use std::io::{BufRead, BufReader};

    use super::*;

    #[test]
    fn running_owner_is_recognized() {
        let own = own_identity();
        assert!(!has_ended(&own), "{own}");
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let identity = identity(&child.id().to_string()).unwrap().unwrap();
        assert!(!has_ended(&identity), "{identity}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(has_ended(&identity), "{identity}");
        // Another place, and names without an owner.
        assert!(!has_ended(&format!("1{identity}")), "{identity}");
        assert!(!has_ended("") && !has_ended("0123456789abcdef"));
    }

    #[test]
    fn owners_are_read_from_names() {
        let directory = directory(&starting()).unwrap();
        let name = directory.path().file_name().unwrap().to_str().unwrap().to_owned();
        for name in [&name, &format!("{name}-3"), &format!("{name}-hub")] {
            assert_eq!(owner_of(name).unwrap(), own_identity(), "{name}");
        }
        assert_eq!(owner_of("other"), None);
    }

    #[test]
    fn identity_of_a_shell_is_that_of_its_process() {
        let script = format!("{SHELL_IDENTITY}; echo $o; read line");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), identity(&child.id().to_string()).unwrap().unwrap());
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
