//! The log of management commands and connections: refusals are warnings, limited per second.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ndn_dataplane::FaceRefusal;
use ndn_management::RequestOutcome;
use ndn_management::state::Learning;
use ndn_memif::HandshakeError;
use ndn_types::{Capacity, Ledger, Now, PrincipalKey, Reserves, Timestamp};
use tracing::{debug, info, warn};

use crate::local_peers::NotLocal;

/// Maximum logged events of one kind per second; the others are counted.
const PER_SECOND: u32 = 10;
/// The same for refusals: a client that tries several keys or commands has a line of each.
const REFUSALS_PER_SECOND: u32 = 20;
/// Clients of memif, whose user is not known any more when they are refused.
const MEMIF_CLIENTS: PrincipalKey = PrincipalKey::LocalApplication { uid: u32::MAX, pid: 0 };
/// Minimum interval between log lines about the same limit: applications retry continuously.
const FULL_PAUSE: Duration = Duration::from_secs(60);

ndn_types::resource! {
    /// Log lines of one period, as a resource that principals share.
    struct Lines = "log_lines";
}

/// A limit of log lines per period, which principals share: applications and neighbours have reserves, and as many lines
/// are left as one principal has.
#[derive(Debug)]
pub(super) struct LineLimit {
    period: Duration,
    per_period: u32,
    /// The number of the period that `ledger` is of.
    number: u128,
    ledger: Ledger<Lines, 1>,
    unlogged: u64,
}

impl Default for LineLimit {
    fn default() -> Self {
        Self::new(PER_SECOND, Duration::from_secs(1))
    }
}

impl LineLimit {
    pub(super) fn new(per_period: u32, period: Duration) -> Self {
        let ledger = Self::empty(per_period);
        Self { period, per_period, number: 0, ledger, unlogged: 0 }
    }

    fn empty(per_period: u32) -> Ledger<Lines, 1> {
        Ledger::new([Capacity::of(per_period as usize)], Reserves::default())
    }

    /// Returns `None` if the limit suppresses the line; otherwise the number of lines suppressed since the last one, if any.
    pub(super) fn admit(&mut self, now: Timestamp, principal: PrincipalKey) -> Option<Option<u64>> {
        if !self.has_room(now, principal) {
            self.unlogged += 1;
            return None;
        }
        let index = self.ledger.attach(principal);
        self.ledger.charge(index, Lines, 1);
        self.ledger.detach(index);
        Some(take_unlogged(&mut self.unlogged))
    }

    /// The number of the present period.
    fn number(&self, now: Timestamp) -> u128 {
        (now - Timestamp::ZERO).as_nanos() / self.period.as_nanos()
    }

    /// Whether a line would be admitted.
    pub(super) fn has_room(&mut self, now: Timestamp, principal: PrincipalKey) -> bool {
        let number = self.number(now);
        if number != self.number {
            self.number = number;
            self.ledger = Self::empty(self.per_period);
        }
        let index = self.ledger.attach(principal);
        let has_room = self.ledger.has_room_beside_others(index, Lines, 1);
        self.ledger.detach(index);
        has_room
    }
}

/// The logs of connections that become no face.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLog {
    /// Those closed at the limit of faces, or for lack of resources.
    pub(super) full: FaceLimitLog,
    /// Those closed for other reasons.
    pub(super) refused: Refusals,
    /// Those of principals at a limit.
    at_limit: LimitLog,
}

impl ConnectionLog {
    /// Logs a connection that was closed at a limit of faces, and counts it if that is the limit of all faces or a share
    /// of them.
    pub(super) fn principal_refused(
        &mut self,
        now: Now,
        principal: PrincipalKey,
        limit: FaceRefusal,
    ) {
        let is_of_all = matches!(limit, FaceRefusal::All | FaceRefusal::Share);
        self.full.refused += u64::from(is_of_all);
        if let Some(unlogged) = self.at_limit.admit(now.monotonic, principal, limit) {
            warn!(%principal, unlogged, "connection rejected: {limit}");
        }
    }
}

/// The log of principals at a limit of faces: a line for each of them when that begins, then one a minute.
#[derive(Debug)]
struct LimitLog {
    lines: LineLimit,
    /// The period of `lines` that `logged` is of.
    number: u128,
    /// Principals with lines in this period, each with its limit.
    logged: Vec<(PrincipalKey, FaceRefusal)>,
}

impl Default for LimitLog {
    fn default() -> Self {
        let lines = LineLimit::new(REFUSALS_PER_SECOND, FULL_PAUSE);
        Self { lines, number: 0, logged: Vec::new() }
    }
}

impl LimitLog {
    /// As [`LineLimit::admit`].
    fn admit(
        &mut self,
        now: Timestamp,
        principal: PrincipalKey,
        limit: FaceRefusal,
    ) -> Option<Option<u64>> {
        let number = self.lines.number(now);
        if self.number != number {
            self.number = number;
            self.logged.clear();
        }
        if self.logged.contains(&(principal, limit)) {
            self.lines.unlogged += 1;
            return None;
        }
        let admitted = self.lines.admit(now, principal)?;
        self.logged.push((principal, limit));
        Some(admitted)
    }
}

/// The log of refused commands and connections.
#[derive(Debug)]
pub(super) struct Refusals(LineLimit);

impl Default for Refusals {
    fn default() -> Self {
        Self(LineLimit::new(REFUSALS_PER_SECOND, Duration::from_secs(1)))
    }
}

impl Refusals {
    /// As [`LineLimit::admit`].
    pub(super) fn admit(&mut self, now: Timestamp, principal: PrincipalKey) -> Option<Option<u64>> {
        self.0.admit(now, principal)
    }

    /// Logs a face that is closed for those of others.
    pub(super) fn face_given_up(&mut self, now: Now, principal: PrincipalKey, face_id: u64) {
        if let Some(unlogged) = self.admit(now.monotonic, principal) {
            info!(%principal, face_id, unlogged, "face closed for another peer: its own peer exceeds its share of the faces");
        }
    }

    /// Logs a connection from a loopback address that is not local.
    pub(super) fn not_local(
        &mut self,
        now: Now,
        principal: PrincipalKey,
        peer: Option<SocketAddr>,
        reason: &NotLocal,
    ) {
        if let Some(unlogged) = self.admit(now.monotonic, principal) {
            info!(?peer, %reason, unlogged, "the connection is not local (see local_users in [listeners.tcp])");
        }
    }

    /// Logs a rejected memif client with its interface and the reason.
    pub(super) fn memif_refused(&mut self, now: Now, client: &str, reason: &HandshakeError) {
        if let Some(unlogged) = self.admit(now.monotonic, MEMIF_CLIENTS) {
            warn!(client, %reason, unlogged, "memif client rejected");
        }
    }

    /// Logs a memif client rejected before its handshake, at the limit of concurrent handshakes.
    pub(super) fn memif_turned_away(&mut self, now: Now, user: u32, limit: usize) {
        let principal = PrincipalKey::LocalApplication { uid: user, pid: 0 };
        if let Some(unlogged) = self.admit(now.monotonic, principal) {
            warn!(
                user,
                limit, unlogged, "memif client rejected: limit of concurrent handshakes reached"
            );
        }
    }

    /// Logs dataset segments dropped at the limit of waiting segments.
    pub(super) fn segment_dropped(&mut self, now: Now, dropped: u64) {
        if self.admit(now.monotonic, PrincipalKey::Management).is_some() {
            warn!(dropped, "segments of datasets dropped: too many wait to be sent");
        }
    }

    /// Logs the outcome of a management Interest.
    pub(super) fn report(
        &mut self,
        now: Now,
        face_id: u64,
        principal: PrincipalKey,
        handled: RequestOutcome,
    ) {
        match handled {
            RequestOutcome::Command { verb, signer, code } => {
                debug!(face_id, %verb, signer, ?code, "management command");
            }
            RequestOutcome::Refused { verb, signer, code, reason } => {
                if let Some(unlogged) = self.admit(now.monotonic, principal) {
                    warn!(face_id, %verb, signer, code, reason, "management command rejected");
                    if let Some(unlogged) = unlogged {
                        warn!(unlogged, "more management commands were rejected before");
                    }
                }
            }
            RequestOutcome::Data { .. } | RequestOutcome::Event { .. } => {}
            RequestOutcome::Ignored(reason) => {
                debug!(face_id, %reason, "management Interest ignored")
            }
            RequestOutcome::Malformed => debug!(face_id, "not an Interest"),
            RequestOutcome::UnknownFace => {
                debug!(face_id, "management Interest from a face that is gone")
            }
            RequestOutcome::Dropped => {
                debug!(face_id, "management Interest dropped: too many wait")
            }
            RequestOutcome::Announcement(Learning::Learnt(prefix)) => {
                debug!(face_id, %prefix, "a route was learnt");
            }
            RequestOutcome::Announcement(Learning::Waiting) => {}
            RequestOutcome::Announcement(Learning::Forgotten(prefix)) => {
                debug!(face_id, %prefix, "a learnt route has ended");
            }
            RequestOutcome::Announcement(Learning::Refused(reason)) => {
                debug!(face_id, reason, "an announcement was rejected");
            }
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
    of_commands: Pauses,
}

impl FaceLimitLog {
    /// Number of connections closed at the face limit, or because their principals have their shares of the faces.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Logs a connection closed at the face limit.
    pub(super) fn connection_refused(&mut self, now: Now, limit: usize) {
        self.refused += 1;
        if let Some(unlogged) = self.of_faces.admit(now.monotonic) {
            warn!(limit, unlogged, "connection rejected: limits.faces reached");
        }
    }

    /// Logs a connection that became no face, at the face limit or for another reason.
    pub(super) fn face_refused(&mut self, now: Now, face_id: u64, error: &io::Error) {
        let is_full = error.kind() == io::ErrorKind::QuotaExceeded;
        self.refused += u64::from(is_full);
        let pauses = if is_full { &mut self.of_faces } else { &mut self.of_others };
        if let Some(unlogged) = pauses.admit(now.monotonic) {
            warn!(face_id, %error, unlogged, "face not created");
        }
    }

    /// Logs a face that was not created for a command or the configuration.
    pub(super) fn command_refused(&mut self, now: Now, face_id: u64, error: &io::Error) {
        if let Some(unlogged) = self.of_commands.admit(now.monotonic) {
            warn!(face_id, %error, unlogged, "face not created");
        }
    }

    /// Logs that a connection was closed because no file descriptor was left.
    pub(super) fn no_descriptor(&mut self, now: Now) {
        if let Some(unlogged) = self.of_descriptors.admit(now.monotonic) {
            warn!(unlogged, "a connection was closed: no file descriptors are left");
        }
    }

    /// Logs that the kernel has no memory for connections.
    pub(super) fn no_memory(&mut self, now: Now, error: &io::Error) {
        if let Some(unlogged) = self.of_memory.admit(now.monotonic) {
            warn!(%error, unlogged, "connection not accepted yet: no memory in the kernel");
        }
    }
}

/// Allows one log line per interval.
#[derive(Debug, Default)]
struct Pauses {
    unlogged: u64,
    quiet_until: Timestamp,
}

impl Pauses {
    /// As [`Refusals::admit`].
    fn admit(&mut self, now: Timestamp) -> Option<Option<u64>> {
        if now < self.quiet_until {
            self.unlogged += 1;
            return None;
        }
        self.quiet_until = now + FULL_PAUSE;
        Some(take_unlogged(&mut self.unlogged))
    }
}

fn take_unlogged(unlogged: &mut u64) -> Option<u64> {
    Some(std::mem::take(unlogged)).filter(|unlogged| *unlogged > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn lines_beyond_the_rate_are_counted() {
        let mut refusals = Refusals::default();
        let [noisy, other] = [1, 2].map(|face_id| PrincipalKey::Neighbour { face_id });
        let mut lines =
            |principal| (0..1000).filter(|_| refusals.admit(at(5), principal).is_some()).count();
        assert_eq!((lines(noisy), lines(other), lines(noisy)), (9, 5, 0));
        // The first 991 were reported with the first line of the other one.
        assert_eq!(refusals.admit(at(6), noisy), Some(Some(995 + 1000)));
        assert_eq!(refusals.admit(at(6), noisy), Some(None));
    }

    #[test]
    fn many_addresses_leave_lines_to_applications_and_neighbours() {
        let mut refusals = Refusals::default();
        let mut lines =
            |principal| (0..1000).filter(|_| refusals.admit(at(1), principal).is_some()).count();
        let remote = |last: u8| PrincipalKey::remote(([192, 0, 2, last], 6363).into());
        let of_addresses: usize = (0..100).map(|last| lines(remote(last))).sum();
        assert_eq!(of_addresses, 14);
        assert_eq!(lines(PrincipalKey::LocalApplication { uid: 1, pid: 1 }), 1);
        assert_eq!([1, 2].map(|face_id| lines(PrincipalKey::Neighbour { face_id })), [2, 1]);
    }

    #[test]
    fn face_limit_is_logged_when_it_begins_and_every_minute() {
        let mut pauses = Pauses::default();
        let mut lines = Vec::new();
        for second in 0..130 {
            lines.extend((0..20).filter_map(|_| pauses.admit(at(second))));
        }
        assert_eq!(lines, [None, Some(1199), Some(1199)]);
    }

    #[test]
    fn principal_at_a_limit_is_logged_once_a_minute() {
        let mut log = LimitLog::default();
        let [one, other] = [1, 2].map(|uid| PrincipalKey::LocalApplication { uid, pid: 7 });
        let mut lines = Vec::new();
        for second in 0..90 {
            let admitted = log.admit(at(second), one, FaceRefusal::Share);
            lines.extend(admitted.map(|unlogged| (second, unlogged)));
        }
        assert_eq!(lines, [(0, None), (60, Some(59))]);
        assert_eq!(log.admit(at(91), other, FaceRefusal::Share), Some(Some(29)));
        assert_eq!(log.admit(at(91), one, FaceRefusal::All), Some(None), "another limit");
        assert_eq!(log.admit(at(91), one, FaceRefusal::All), None);
    }

    #[test]
    fn connections_beyond_the_share_of_a_principal_are_counted() {
        let mut log = ConnectionLog::default();
        let peer = PrincipalKey::remote(([192, 0, 2, 1], 6363).into());
        for (limit, refused) in
            [(FaceRefusal::PerPeer, 0), (FaceRefusal::Share, 1), (FaceRefusal::All, 2)]
        {
            log.principal_refused(Now::default(), peer, limit);
            assert_eq!(log.full.refused(), refused, "{limit}");
        }
    }

    #[test]
    fn causes_are_logged_and_counted_separately() {
        let mut full = FaceLimitLog::default();
        let now = Now { monotonic: at(1), ..Now::default() };
        let no_room = io::Error::new(io::ErrorKind::QuotaExceeded, "full");
        for error in [&no_room, &no_room, &io::Error::other("another reason")] {
            full.face_refused(now, 300, error);
        }
        full.connection_refused(now, 3);
        full.no_descriptor(now);
        assert_eq!(full.refused(), 3, "one was refused for another reason than the limit");
        let unlogged = [&full.of_faces, &full.of_others, &full.of_descriptors, &full.of_memory];
        assert_eq!(unlogged.map(|pauses| pauses.unlogged), [2, 0, 0, 0], "each begins with a line");
        assert_eq!(full.of_memory.admit(now.monotonic), Some(None));
        assert_eq!(full.of_others.admit(now.monotonic), None);
    }
}
