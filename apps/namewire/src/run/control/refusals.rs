//! The log of management commands and of connections: refused ones are warnings, so many a second.

use std::net::SocketAddr;

use ndn_management::{Handled, Now};
use ndn_memif::HandshakeError;
use tracing::{debug, warn};

/// Refusals that are told each second; the others are counted.
const PER_SECOND: u32 = 10;
const SECOND_NS: u64 = 1_000_000_000;

/// Keeps a flood of refused commands from becoming a flood of lines.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    second: u64,
    told: u32,
    untold: u64,
}

impl Refusals {
    /// Whether one more may be told now, and how many were not since the last one that was.
    fn admit(&mut self, now_ns: u64) -> Option<u64> {
        let second = now_ns / SECOND_NS;
        if second != self.second {
            (self.second, self.told) = (second, 0);
        }
        if self.told == PER_SECOND {
            self.untold += 1;
            return None;
        }
        self.told += 1;
        Some(std::mem::take(&mut self.untold))
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
                    if untold > 0 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_a_second_and_the_rest_is_counted() {
        let mut refusals = Refusals::default();
        let told = (0..1000).filter(|_| refusals.admit(5 * SECOND_NS).is_some()).count();
        assert_eq!(told, 10);
        assert_eq!(refusals.admit(6 * SECOND_NS), Some(990));
        assert_eq!(refusals.admit(6 * SECOND_NS), Some(0));
    }
}
