//! User and process at the other end of a Unix socket.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
#[cfg(target_os = "linux")]
use std::path::Path;

#[cfg(target_os = "linux")]
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The user who connected, or listens.
///
/// # Errors
/// Those of `SO_PEERCRED`.
#[cfg(target_os = "linux")]
pub fn user_of_peer(stream: &UnixStream) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(stream)?.uid.as_raw())
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

/// The process id, if the system reports it.
#[must_use]
pub fn process_of_peer(stream: &UnixStream) -> Option<i32> {
    #[cfg(target_os = "linux")]
    return Some(rustix::net::sockopt::socket_peercred(stream).ok()?.pid.as_raw_nonzero().get());
    #[cfg(not(target_os = "linux"))]
    {
        let _ = stream;
        None
    }
}

/// The process that listens at this path. Does not block, though nobody may accept the connection.
#[cfg(target_os = "linux")]
#[must_use]
pub fn process_that_listens(path: &Path) -> Option<i32> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = socket.ok()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).ok()?).ok()?;
    process_of_peer(&socket.into())
}

/// The process that listens at this path, which is not known here.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn process_that_listens(_: &std::path::Path) -> Option<i32> {
    None
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

    /// The process at the other end, if it is stopped.
    #[must_use]
    pub fn of_peer(stream: &UnixStream) -> Option<Self> {
        process_of_peer(stream).and_then(Self::with_id)
    }
}

impl fmt::Display for StoppedProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(process) = self;
        write!(formatter, "process {process} is stopped; `kill -CONT {process}` continues it")
    }
}

/// Whether a line of /proc/PID/stat belongs to a stopped process (proc_pid_stat(5)).
fn is_stopped(stat: &str) -> bool {
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| state.starts_with(['T', 't']))
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
        assert!(!is_stopped(""));
        let text = StoppedProcess(17).to_string();
        assert_eq!(text, "process 17 is stopped; `kill -CONT 17` continues it");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn process_of_a_listener_is_found_without_its_accepting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        assert_eq!(process_that_listens(&path), None, "no file");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let own = i32::try_from(std::process::id()).ok();
        assert_eq!(process_that_listens(&path), own);
        drop(listener);
        assert_eq!(process_that_listens(&path), None, "it was left behind");
        assert_eq!(StoppedProcess::with_id(own.unwrap()), None);
    }
}
