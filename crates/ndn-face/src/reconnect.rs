//! The reconnection schedule of permanent faces.

use std::net::SocketAddr;
use std::time::Duration;

use ndn_types::Timestamp;

/// Pauses between attempts to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReconnectWaits {
    /// Before the first attempt; each next pause is twice as long.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Default for ReconnectWaits {
    /// From 1 s up to 1 min.
    fn default() -> Self {
        Self { first: Duration::from_secs(1), longest: Duration::from_secs(60) }
    }
}

/// Time limit of an attempt.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// The phase of a face without a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Until the next attempt at this time.
    Waiting(Timestamp),
    /// Connecting, until this time at most.
    Connecting(Timestamp),
}

/// The action that is due when [`Reconnect::deadline`] has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReconnectAction<Remote> {
    /// Nothing yet.
    None,
    /// Start to connect.
    Connect(Remote),
    /// The attempt has timed out.
    GiveUp,
}

/// The attempts of one face to get its connection back: a state machine without I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reconnect<Remote = SocketAddr> {
    remote: Remote,
    wait: Duration,
    wait_max: Duration,
    phase: Phase,
}

impl<Remote: Copy> Reconnect<Remote> {
    /// The connection to `remote` was lost at `now`.
    pub(crate) fn new(now: Timestamp, remote: Remote, waits: ReconnectWaits) -> Self {
        let ReconnectWaits { first, longest } = waits;
        Self { remote, wait: first, wait_max: longest, phase: Phase::Waiting(now.plus(first)) }
    }

    /// The first attempt to connect to `remote` has begun at `now`.
    pub(crate) fn begun(now: Timestamp, remote: Remote, waits: ReconnectWaits) -> Self {
        let phase = Phase::Connecting(now.plus(CONNECT_TIMEOUT));
        Self { phase, ..Self::new(now, remote, waits) }
    }

    /// When [`poll`](Self::poll) has something to do.
    pub(crate) fn deadline(&self) -> Timestamp {
        match self.phase {
            Phase::Waiting(deadline) | Phase::Connecting(deadline) => deadline,
        }
    }

    /// The action that is due at `now`.
    pub(crate) fn poll(&mut self, now: Timestamp) -> ReconnectAction<Remote> {
        if now < self.deadline() {
            return ReconnectAction::None;
        }
        match self.phase {
            Phase::Waiting(_) => {
                self.phase = Phase::Connecting(now.plus(CONNECT_TIMEOUT));
                ReconnectAction::Connect(self.remote)
            }
            Phase::Connecting(_) => {
                self.handle_failure(now);
                ReconnectAction::GiveUp
            }
        }
    }

    /// The attempt has failed.
    pub(crate) fn handle_failure(&mut self, now: Timestamp) {
        self.wait = (self.wait * 2).min(self.wait_max);
        self.phase = Phase::Waiting(now.plus(self.wait));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_maximum() {
        let remote: SocketAddr = "192.0.2.1:6363".parse().unwrap();
        let mut now = Timestamp::from_millis(5);
        let configured =
            ReconnectWaits { first: Duration::from_secs(1), longest: Duration::from_secs(300) };
        let mut reconnect = Reconnect::new(now, remote, configured);
        let mut waits = Vec::new();
        for attempt in 0..12 {
            assert_eq!(reconnect.poll(now), ReconnectAction::None);
            waits.push(reconnect.deadline().since(now).as_secs());
            now = reconnect.deadline();
            assert_eq!(reconnect.poll(now), ReconnectAction::Connect(remote));
            if attempt % 2 == 0 {
                reconnect.handle_failure(now);
            } else {
                // Nobody answers.
                now = reconnect.deadline();
                assert_eq!(reconnect.poll(now), ReconnectAction::GiveUp);
            }
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    }
}
