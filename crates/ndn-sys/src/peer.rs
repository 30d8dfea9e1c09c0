//! User and process at the other end of a Unix socket.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

#[cfg(target_os = "linux")]
use crate::seqpacket;

/// The user who connected, or listens.
///
/// # Errors
/// Those of `SO_PEERCRED`.
#[cfg(target_os = "linux")]
pub fn user_of_peer(stream: &UnixStream) -> io::Result<u32> {
    seqpacket::user_of_peer(stream.as_fd())
}

/// The user who connected, or listens.
///
/// # Errors
/// Those of `getpeereid(3)`.
#[cfg(not(target_os = "linux"))]
pub fn user_of_peer(stream: &UnixStream) -> io::Result<u32> {
    use std::os::fd::AsRawFd;
    let (mut user, mut group) = (0, 0);
    // SAFETY: both are live places for a number.
    match unsafe { libc::getpeereid(stream.as_raw_fd(), &raw mut user, &raw mut group) } {
        0 => Ok(user),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The process id, if the system reports it: not that of a process of another PID namespace.
#[must_use]
pub fn process_of_peer(stream: &impl AsFd) -> Option<i32> {
    #[cfg(target_os = "linux")]
    {
        let (_, process) = seqpacket::process_of_peer(stream.as_fd()).ok()?;
        process_id(process)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = stream;
        None
    }
}

/// The kernel's number of a process; 0 stands for one of another PID namespace.
#[cfg(target_os = "linux")]
fn process_id(process: u32) -> Option<i32> {
    i32::try_from(process).ok().filter(|process| *process != 0)
}

/// The name of the command that a process executes (proc_pid_comm(5)), if the process exists.
#[must_use]
pub fn command_of(process: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{process}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

/// A process that a signal has stopped, so that it answers nothing. Its text says how to continue it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedProcess(i32);

impl StoppedProcess {
    /// The process with this id, if it is stopped.
    #[must_use]
    pub fn with_id(process: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        is_stopped(&stat).then_some(Self(process))
    }
}

impl fmt::Display for StoppedProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(process) = self;
        write!(formatter, "process {process} is stopped; `kill -CONT {process}` continues it")
    }
}

/// Whether a line of /proc/PID/stat belongs to a process that a signal has stopped (proc_pid_stat(5)). A debugger stops one, too,
/// but no signal continues it then.
fn is_stopped(stat: &str) -> bool {
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| state.starts_with('T'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn peer_within_the_process_has_its_user_and_number() {
        let (near, _far) = UnixStream::pair().unwrap();
        assert_eq!(user_of_peer(&near).unwrap(), rustix::process::geteuid().as_raw());
        let process = process_of_peer(&near).and_then(|id| u32::try_from(id).ok());
        assert_eq!(process, cfg!(target_os = "linux").then(std::process::id));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn command_of_a_process_is_its_name() {
        let own = command_of(std::process::id()).unwrap();
        assert!(!own.is_empty() && !own.contains('\n'), "{own}");
        assert_eq!(command_of(u32::MAX), None);
    }

    #[test]
    fn stopped_process_is_recognized() {
        assert!(is_stopped("17 (a) b) T 1 17 17 0"));
        assert!(!is_stopped("17 (T ) S 1 17 17 0"));
        assert!(!is_stopped("17 (a) t 1 17 17 0"), "by a debugger");
        assert!(!is_stopped(""));
        let text = StoppedProcess(17).to_string();
        assert_eq!(text, "process 17 is stopped; `kill -CONT 17` continues it");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn process_of_a_listener_is_known_without_its_accepting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let own = process_id(std::process::id());
        assert_eq!(process_of_peer(&UnixStream::connect(&path).unwrap()), own);
        assert_eq!(StoppedProcess::with_id(own.unwrap()), None);
        assert_eq!(process_id(0), None, "it belongs to another PID namespace");
    }
}
