//! The log of management commands and connections: refusals are warnings, limited per second.

use std::io;
use std::net::SocketAddr;

use ndn_management::{Handled, Now};
use ndn_memif::HandshakeError;
use tracing::{debug, warn};

/// Maximum logged refusals per second; the others are counted.
const PER_SECOND: u32 = 10;
const SECOND_NS: u64 = 1_000_000_000;
/// Minimum interval between log lines about the face limit: applications retry continuously.
const FULL_PAUSE_NS: u64 = 10 * SECOND_NS;

/// Limits the log lines that refused commands cause.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    second: u64,
    reported: u32,
    unlogged: u64,
}

impl Refusals {
    /// Returns `None` if the rate limit suppresses the line; otherwise the number of lines suppressed since the last
    /// one, if any.
    fn admit(&mut self, now_ns: u64) -> Option<Option<u64>> {
        let second = now_ns / SECOND_NS;
        if second != self.second {
            (self.second, self.reported) = (second, 0);
        }
        if self.reported == PER_SECOND {
            self.unlogged += 1;
            return None;
        }
        self.reported += 1;
        Some(take_unlogged(&mut self.unlogged))
    }

    /// Logs a connection closed at the face limit per peer.
    pub(super) fn peer_refused(&mut self, now: Now, peer: SocketAddr) {
        if let Some(unlogged) = self.admit(now.monotonic_ns) {
            warn!(%peer, unlogged, "a connection was closed: its peer has as many faces as it may");
        }
    }

    /// Logs a rejected memif client with its interface and the reason.
    pub(super) fn memif_refused(&mut self, now: Now, client: &str, reason: &HandshakeError) {
        if let Some(unlogged) = self.admit(now.monotonic_ns) {
            warn!(client, %reason, unlogged, "a memif client was refused");
        }
    }

    /// Logs a memif client rejected before its handshake, at the limit of concurrent handshakes.
    pub(super) fn memif_turned_away(&mut self, now: Now, user: u32, limit: usize) {
        if let Some(unlogged) = self.admit(now.monotonic_ns) {
            warn!(user, limit, unlogged, "memif client rejected: too many connect");
        }
    }

    /// Logs dataset segments dropped at the limit of waiting segments.
    pub(super) fn segment_dropped(&mut self, now: Now, dropped: u64) {
        if self.admit(now.monotonic_ns).is_some() {
            warn!(dropped, "segments of lists were dropped: more are asked for than are read");
        }
    }

    /// Logs the outcome of a management Interest.
    pub(super) fn report(&mut self, now: Now, face_id: u64, handled: Handled) {
        match handled {
            Handled::Command { verb, signer, code } => {
                debug!(face_id, %verb, signer, ?code, "management command");
            }
            Handled::Refused { verb, signer, code, reason } => {
                if let Some(unlogged) = self.admit(now.monotonic_ns) {
                    warn!(face_id, %verb, signer, code, reason, "management command refused");
                    if let Some(unlogged) = unlogged {
                        warn!(unlogged, "more management commands were refused before");
                    }
                }
            }
            Handled::Data { .. } | Handled::Event { .. } => {}
            Handled::Ignored(reason) => debug!(face_id, %reason, "management Interest ignored"),
            Handled::Malformed => debug!(face_id, "not an Interest"),
            Handled::UnknownFace => debug!(face_id, "management Interest from a face that is gone"),
        }
    }
}

/// Connections rejected for lack of resources.
#[derive(Debug, Default)]
pub(super) struct FaceLimitLog {
    refused: u64,
    /// Each cause has a rate limit of its own.
    of_faces: Pauses,
    of_descriptors: Pauses,
    of_memory: Pauses,
    of_others: Pauses,
}

impl FaceLimitLog {
    /// Number of connections closed at the face limit.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Logs a connection closed at the face limit.
    pub(super) fn connection_refused(&mut self, now: Now, limit: usize) {
        self.refused += 1;
        if let Some(unlogged) = self.of_faces.admit(now.monotonic_ns) {
            warn!(
                limit,
                unlogged, "a connection was closed: there are as many faces as there may be"
            );
        }
    }

    /// Logs a connection that became no face, at the face limit or for another reason.
    pub(super) fn face_refused(&mut self, now: Now, face_id: u64, error: &io::Error) {
        let is_full = error.kind() == io::ErrorKind::QuotaExceeded;
        self.refused += u64::from(is_full);
        let pauses = if is_full { &mut self.of_faces } else { &mut self.of_others };
        if let Some(unlogged) = pauses.admit(now.monotonic_ns) {
            warn!(face_id, %error, unlogged, "a face was not made");
        }
    }

    /// Logs that a connection was closed because no file descriptor was left.
    pub(super) fn no_descriptor(&mut self, now: Now) {
        if let Some(unlogged) = self.of_descriptors.admit(now.monotonic_ns) {
            warn!(unlogged, "a connection was closed: no file descriptors are left");
        }
    }

    /// Logs that the kernel has no memory for connections.
    pub(super) fn no_memory(&mut self, now: Now, error: &io::Error) {
        if let Some(unlogged) = self.of_memory.admit(now.monotonic_ns) {
            warn!(%error, unlogged, "a connection has to wait");
        }
    }
}

/// Allows one log line per interval.
#[derive(Debug, Default)]
struct Pauses {
    unlogged: u64,
    quiet_until_ns: u64,
}

impl Pauses {
    /// As [`Refusals::admit`].
    fn admit(&mut self, now_ns: u64) -> Option<Option<u64>> {
        if now_ns < self.quiet_until_ns {
            self.unlogged += 1;
            return None;
        }
        self.quiet_until_ns = now_ns + FULL_PAUSE_NS;
        Some(take_unlogged(&mut self.unlogged))
    }
}

fn take_unlogged(unlogged: &mut u64) -> Option<u64> {
    Some(std::mem::take(unlogged)).filter(|unlogged| *unlogged > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_rate_are_counted() {
        let mut refusals = Refusals::default();
        let reported = (0..1000).filter(|_| refusals.admit(5 * SECOND_NS).is_some()).count();
        assert_eq!(reported, 10);
        assert_eq!(refusals.admit(6 * SECOND_NS), Some(Some(990)));
        assert_eq!(refusals.admit(6 * SECOND_NS), Some(None));
    }

    #[test]
    fn face_limit_is_logged_every_ten_seconds() {
        let mut pauses = Pauses::default();
        let mut lines = Vec::new();
        for second in 0..25 {
            lines.extend((0..20).filter_map(|_| pauses.admit(second * SECOND_NS)));
        }
        assert_eq!(lines, [None, Some(199), Some(199)]);
    }

    #[test]
    fn causes_are_logged_and_counted_separately() {
        let mut full = FaceLimitLog::default();
        let now = Now { monotonic_ns: SECOND_NS, ..Now::default() };
        let no_room = io::Error::new(io::ErrorKind::QuotaExceeded, "full");
        for error in [&no_room, &no_room, &io::Error::other("another reason")] {
            full.face_refused(now, 300, error);
        }
        full.connection_refused(now, 3);
        full.no_descriptor(now);
        assert_eq!(full.refused(), 3, "one was refused for another reason than the limit");
        let unlogged = [&full.of_faces, &full.of_others, &full.of_descriptors, &full.of_memory];
        assert_eq!(unlogged.map(|pauses| pauses.unlogged), [2, 0, 0, 0], "each begins with a line");
        assert_eq!(full.of_memory.admit(now.monotonic_ns), Some(None));
        assert_eq!(full.of_others.admit(now.monotonic_ns), None);
    }
}
