//! Why frames cannot be had by AF_XDP, in words that help.

use std::fmt;
use std::io;

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpStep {
    /// Memory for frames.
    Memory,
    /// A socket.
    Socket,
    /// Registering the memory and making the rings.
    Rings,
    /// The map from queues to sockets.
    Map,
    /// Loading the program.
    Program,
    /// Attaching the program to the device.
    Attach,
    /// Binding a socket to a queue of the device.
    Bind,
    /// Joining the group.
    Group,
}

/// A step that the kernel has refused.
#[derive(Debug)]
pub struct XdpError {
    /// Which one.
    pub step: XdpStep,
    /// The kernel's word.
    pub error: io::Error,
}

impl XdpStep {
    pub(super) fn failed(self) -> impl FnOnce(io::Error) -> XdpError {
        move |error| XdpError { step: self, error }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Memory => "cannot get memory for frames",
            Self::Socket => "cannot open an AF_XDP socket",
            Self::Rings => "cannot set up the rings of an AF_XDP socket",
            Self::Map => "cannot make a map of AF_XDP sockets",
            Self::Program => "cannot load the XDP program",
            Self::Attach => "cannot attach the XDP program",
            Self::Bind => "cannot bind an AF_XDP socket to a queue",
            Self::Group => "cannot join the group",
        }
    }
}

impl XdpError {
    /// Whether somebody else has the device, or had it a moment ago.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.error.kind() == io::ErrorKind::ResourceBusy
            || self.error.kind() == io::ErrorKind::AlreadyExists
    }

    /// Whether rights are missing.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.error.kind() == io::ErrorKind::PermissionDenied
    }

    /// What to do about it, where that is known.
    fn advice(&self) -> Option<&'static str> {
        if self.is_refused() {
            return Some(match self.step {
                XdpStep::Socket | XdpStep::Group => "CAP_NET_RAW is missing",
                XdpStep::Map | XdpStep::Program => {
                    "CAP_BPF and CAP_NET_ADMIN are missing; rights in a user namespace are not enough"
                }
                XdpStep::Memory | XdpStep::Rings | XdpStep::Attach | XdpStep::Bind => {
                    "CAP_NET_ADMIN is missing"
                }
            });
        }
        match (self.step, self.error.raw_os_error()) {
            (XdpStep::Rings, Some(libc::ENOBUFS)) => Some(
                "the limit on locked memory is too low: raise it (ulimit -l), or add CAP_IPC_LOCK",
            ),
            (XdpStep::Attach | XdpStep::Bind, _) if self.is_busy() => {
                Some("another program has the interface: see `ip link show`")
            }
            (XdpStep::Attach, Some(libc::ENOSPC)) => {
                Some("the other end of this veth sends by more queues than this end receives by")
            }
            (XdpStep::Socket, Some(libc::EAFNOSUPPORT)) => Some("this kernel has no AF_XDP"),
            (_, _) => None,
        }
    }
}

impl fmt::Display for XdpError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.step.words(), self.error)?;
        match self.advice() {
            Some(advice) => write!(formatter, " ({advice})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for XdpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<XdpError> for io::Error {
    fn from(error: XdpError) -> Self {
        Self::new(error.error.kind(), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rights_are_named() {
        let told = |step: XdpStep, error: i32| {
            step.failed()(io::Error::from_raw_os_error(error)).to_string()
        };
        assert!(told(XdpStep::Program, libc::EPERM).contains("CAP_BPF and CAP_NET_ADMIN"));
        assert!(told(XdpStep::Socket, libc::EPERM).contains("CAP_NET_RAW"));
        assert!(told(XdpStep::Attach, libc::EPERM).contains("CAP_NET_ADMIN"));
        assert!(told(XdpStep::Attach, libc::EBUSY).contains("ip link show"));
        assert!(told(XdpStep::Attach, libc::EEXIST).contains("ip link show"));
        assert!(told(XdpStep::Rings, libc::ENOBUFS).contains("ulimit -l"));
        assert!(!told(XdpStep::Memory, libc::ENOMEM).contains("missing"));
    }
}
