//! Error numbers.

use fuser::Errno;
use ndn_access::ErrorKind;

/// The error number of a failed operation.
pub(crate) fn errno(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::NotFound => Errno::ENOENT,
        ErrorKind::IsDirectory => Errno::EISDIR,
        ErrorKind::NotDirectory => Errno::ENOTDIR,
        ErrorKind::Changed => Errno::ESTALE,
        ErrorKind::Unanswered => Errno::ETIMEDOUT,
        ErrorKind::Unreachable => Errno::ENETUNREACH,
        ErrorKind::Disconnected => Errno::EHOSTDOWN,
        ErrorKind::Busy => Errno::EAGAIN,
        ErrorKind::Unverified | ErrorKind::Unusable => Errno::EIO,
        ErrorKind::Denied | ErrorKind::Refused(_) => Errno::EACCES,
        ErrorKind::Invalid => Errno::EINVAL,
        ErrorKind::Interrupted => Errno::EINTR,
    }
}

/// Whether the error number leaves out what the operator of the mount has to know.
pub(crate) fn is_reported(kind: ErrorKind) -> bool {
    match kind {
        ErrorKind::NotFound
        | ErrorKind::Denied
        | ErrorKind::IsDirectory
        | ErrorKind::NotDirectory
        | ErrorKind::Changed
        | ErrorKind::Interrupted => false,
        ErrorKind::Unanswered
        | ErrorKind::Unreachable
        | ErrorKind::Disconnected
        | ErrorKind::Busy
        | ErrorKind::Unverified
        | ErrorKind::Unusable
        | ErrorKind::Refused(_)
        | ErrorKind::Invalid => true,
    }
}
