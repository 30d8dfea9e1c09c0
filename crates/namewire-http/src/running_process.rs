//! A process that has not been waited for.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal};

/// A process that has not been waited for.
#[derive(Debug)]
pub(crate) struct RunningProcess {
    id: Pid,
    #[cfg(target_os = "linux")]
    handle: OwnedFd,
}

impl RunningProcess {
    /// Opens it.
    ///
    /// # Errors
    /// Those of `pidfd_open(2)`.
    pub(crate) fn of(child: &Child) -> io::Result<Self> {
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::other("a process without a number"))?;
        #[cfg(target_os = "linux")]
        let handle = rustix::process::pidfd_open(id, rustix::process::PidfdFlags::empty())?;
        Ok(Self {
            id,
            #[cfg(target_os = "linux")]
            handle,
        })
    }

    /// Sends it a signal, unless it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        #[cfg(target_os = "linux")]
        let sent = rustix::process::pidfd_send_signal(&self.handle, signal);
        #[cfg(not(target_os = "linux"))]
        let sent = rustix::process::kill_process(self.id, signal);
        // It may have ended on its own meanwhile.
        let _ = sent;
    }

    /// The processor time that it has used, if the system reports it.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        #[cfg(target_os = "linux")]
        return ndn_sys::cpu::process_time(self.id.as_raw_nonzero().get().cast_unsigned()).ok();
        #[cfg(not(target_os = "linux"))]
        None
    }
}
