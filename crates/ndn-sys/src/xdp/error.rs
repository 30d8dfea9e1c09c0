//! Errors of AF_XDP, with advice.

use std::fmt;
use std::io;

/// The step that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpStep {
    /// Allocating memory for frames.
    Memory,
    /// Opening a socket.
    Socket,
    /// Registering the memory and creating the rings.
    Rings,
    /// Creating the map from queues to sockets.
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

/// An error of the kernel in one step.
#[derive(Debug)]
pub struct XdpError {
    /// The step.
    pub step: XdpStep,
    /// The error.
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
    /// Whether another program uses the device, or used it until a moment ago.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.error.kind() == io::ErrorKind::ResourceBusy
            || self.error.kind() == io::ErrorKind::AlreadyExists
    }

    /// Whether capabilities are missing.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.error.kind() == io::ErrorKind::PermissionDenied
    }

    /// Advice, if there is some.
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
    fn missing_capabilities_are_named() {
        let text = |step: XdpStep, error: i32| {
            step.failed()(io::Error::from_raw_os_error(error)).to_string()
        };
        assert!(text(XdpStep::Program, libc::EPERM).contains("CAP_BPF and CAP_NET_ADMIN"));
        assert!(text(XdpStep::Socket, libc::EPERM).contains("CAP_NET_RAW"));
        assert!(text(XdpStep::Attach, libc::EPERM).contains("CAP_NET_ADMIN"));
        assert!(text(XdpStep::Attach, libc::EBUSY).contains("ip link show"));
        assert!(text(XdpStep::Attach, libc::EEXIST).contains("ip link show"));
        assert!(text(XdpStep::Rings, libc::ENOBUFS).contains("ulimit -l"));
        assert!(!text(XdpStep::Memory, libc::ENOMEM).contains("missing"));
    }
}
