//! The log of management commands and of connections: refused ones are warnings, so many a second.

use std::io;
use std::net::SocketAddr;

use ndn_management::{Handled, Now};
use ndn_memif::HandshakeError;
use tracing::{debug, warn};

/// Refusals that are told each second; the others are counted.
const PER_SECOND: u32 = 10;
const SECOND_NS: u64 = 1_000_000_000;
/// How often it is told that nobody else gets a face: applications try again and again.
const FULL_PAUSE_NS: u64 = 10 * SECOND_NS;

/// Keeps a flood of refused commands from becoming a flood of lines.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    second: u64,
    told: u32,
    untold: u64,
}

impl Refusals {
    /// Whether one more may be told now, and how many were not since the last one that was, if any.
    fn admit(&mut self, now_ns: u64) -> Option<Option<u64>> {
        let second = now_ns / SECOND_NS;
        if second != self.second {
            (self.second, self.told) = (second, 0);
        }
        if self.told == PER_SECOND {
            self.untold += 1;
            return None;
        }
        self.told += 1;
        Some(take_untold(&mut self.untold))
    }

    /// Logs that a connection was closed, because there are as many faces of its peer as there may
    /// be.
    pub(super) fn peer_refused(&mut self, now: Now, peer: SocketAddr) {
        if let Some(untold) = self.admit(now.monotonic_ns) {
            warn!(%peer, untold, "a connection was closed: its peer has as many faces as it may");
        }
    }

    /// Logs that a memif client, which is told here with its interface, has become no face, and why.
    pub(super) fn memif_refused(&mut self, now: Now, client: &str, reason: &HandshakeError) {
        if let Some(untold) = self.admit(now.monotonic_ns) {
            warn!(client, %reason, untold, "a memif client was refused");
        }
    }

    /// Logs that a memif client was turned away before it could say anything, as so many are connecting.
    pub(super) fn memif_turned_away(&mut self, now: Now, user: u32, limit: usize) {
        if let Some(untold) = self.admit(now.monotonic_ns) {
            warn!(user, limit, untold, "a memif client was turned away: too many connect");
        }
    }

    /// Logs that so many segments of datasets have been dropped, because as many wait as may.
    pub(super) fn segment_dropped(&mut self, now: Now, dropped: u64) {
        if self.admit(now.monotonic_ns).is_some() {
            warn!(dropped, "segments of lists were dropped: more are asked for than are read");
        }
    }

    /// Logs what became of an Interest to management.
    pub(super) fn report(&mut self, now: Now, face_id: u64, handled: Handled) {
        match handled {
            Handled::Command { verb, signer, code } => {
                debug!(face_id, %verb, signer, ?code, "management command");
            }
            Handled::Refused { verb, signer, code, reason } => {
                if let Some(untold) = self.admit(now.monotonic_ns) {
                    warn!(face_id, %verb, signer, code, reason, "management command refused");
                    if let Some(untold) = untold {
                        warn!(untold, "more management commands were refused before");
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

/// Connections that come while there is no room for them.
#[derive(Debug, Default)]
pub(super) struct FaceLimitLog {
    refused: u64,
    /// Lines are told of each cause by itself: the second is no news of the first.
    of_faces: Pauses,
    of_descriptors: Pauses,
    of_memory: Pauses,
    of_others: Pauses,
}

impl FaceLimitLog {
    /// Connections that were closed because there are as many faces as there may be.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Logs that a connection was closed, because there are as many faces as there may be.
    pub(super) fn connection_refused(&mut self, now: Now, limit: usize) {
        self.refused += 1;
        if let Some(untold) = self.of_faces.admit(now.monotonic_ns) {
            warn!(
                limit,
                untold, "a connection was closed: there are as many faces as there may be"
            );
        }
    }

    /// Logs that a connection has become no face after all: for want of room, or for another reason.
    pub(super) fn face_refused(&mut self, now: Now, face_id: u64, error: &io::Error) {
        let is_full = error.kind() == io::ErrorKind::QuotaExceeded;
        self.refused += u64::from(is_full);
        let pauses = if is_full { &mut self.of_faces } else { &mut self.of_others };
        if let Some(untold) = pauses.admit(now.monotonic_ns) {
            warn!(face_id, %error, untold, "a face was not made");
        }
    }

    /// Logs that a connection was closed for want of a file descriptor.
    pub(super) fn no_descriptor(&mut self, now: Now) {
        if let Some(untold) = self.of_descriptors.admit(now.monotonic_ns) {
            warn!(untold, "a connection was closed: no file descriptors are left");
        }
    }

    /// Logs that the kernel has no memory for connections.
    pub(super) fn no_memory(&mut self, now: Now, error: &io::Error) {
        if let Some(untold) = self.of_memory.admit(now.monotonic_ns) {
            warn!(%error, untold, "a connection has to wait");
        }
    }
}

/// One line in so many seconds.
#[derive(Debug, Default)]
struct Pauses {
    untold: u64,
    quiet_until_ns: u64,
}

impl Pauses {
    /// As [`Refusals::admit`].
    fn admit(&mut self, now_ns: u64) -> Option<Option<u64>> {
        if now_ns < self.quiet_until_ns {
            self.untold += 1;
            return None;
        }
        self.quiet_until_ns = now_ns + FULL_PAUSE_NS;
        Some(take_untold(&mut self.untold))
    }
}

fn take_untold(untold: &mut u64) -> Option<u64> {
    Some(std::mem::take(untold)).filter(|untold| *untold > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_a_second_and_the_rest_is_counted() {
        let mut refusals = Refusals::default();
        let told = (0..1000).filter(|_| refusals.admit(5 * SECOND_NS).is_some()).count();
        assert_eq!(told, 10);
        assert_eq!(refusals.admit(6 * SECOND_NS), Some(Some(990)));
        assert_eq!(refusals.admit(6 * SECOND_NS), Some(None));
    }

    #[test]
    fn that_there_is_no_room_is_told_every_ten_seconds() {
        let mut pauses = Pauses::default();
        let mut lines = Vec::new();
        for second in 0..25 {
            lines.extend((0..20).filter_map(|_| pauses.admit(second * SECOND_NS)));
        }
        assert_eq!(lines, [None, Some(199), Some(199)]);
    }

    #[test]
    fn causes_are_told_and_counted_by_themselves() {
        let mut full = FaceLimitLog::default();
        let now = Now { monotonic_ns: SECOND_NS, ..Now::default() };
        let no_room = io::Error::new(io::ErrorKind::QuotaExceeded, "full");
        for error in [&no_room, &no_room, &io::Error::other("another reason")] {
            full.face_refused(now, 300, error);
        }
        full.connection_refused(now, 3);
        full.no_descriptor(now);
        assert_eq!(full.refused(), 3, "one was not refused for want of room");
        let untold = [&full.of_faces, &full.of_others, &full.of_descriptors, &full.of_memory];
        assert_eq!(untold.map(|pauses| pauses.untold), [2, 0, 0, 0], "each begins with a line");
        assert_eq!(full.of_memory.admit(now.monotonic_ns), Some(None));
        assert_eq!(full.of_others.admit(now.monotonic_ns), None);
    }
}
