//! Whether the queue of a socket has been standing for some time.

use std::time::Duration;

use ndn_sys::udp::UdpSocket;
use ndn_table::Timestamp;

/// How long a socket may not have been emptied, before it is measured how long datagrams wait in it.
const WATCH_AFTER: Duration = Duration::from_millis(1);
/// How long it has to have been emptied every time, before it is no longer measured.
const FORGET_AFTER: Duration = Duration::from_secs(1);

/// How a socket keeps up with what comes.
///
/// While each read finds the end of the queue, nothing waits for long, and nothing need be known about
/// it. Only once reads have not found it for a while does the kernel put time stamps on what comes,
/// which cost it a reading of the clock each.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// When a read last found the end of the queue.
    emptied_at: Timestamp,
    /// When a read last did not.
    full_at: Timestamp,
    is_watched: bool,
}

impl Standing {
    /// A read has found the end of the queue, or not. Says whether it is measured from now on how long
    /// datagrams wait, if that changes.
    #[inline]
    pub(crate) fn note(&mut self, now: Timestamp, was_emptied: bool) -> Option<bool> {
        if was_emptied {
            self.emptied_at = now;
            if !self.is_watched {
                return None;
            }
        } else {
            self.full_at = now;
        }
        self.change(now)
    }

    #[cold]
    fn change(&mut self, now: Timestamp) -> Option<bool> {
        let is_watched = if self.is_watched {
            now.since(self.full_at) < FORGET_AFTER
        } else {
            now.since(self.emptied_at) >= WATCH_AFTER
        };
        (is_watched != self.is_watched).then(|| {
            self.is_watched = is_watched;
            is_watched
        })
    }

    /// As [`note`](Self::note), and tells the kernel.
    #[inline]
    pub(crate) fn watch(&mut self, now: Timestamp, was_emptied: bool, socket: &UdpSocket) {
        if let Some(is_watched) = self.note(now, was_emptied) {
            // A kernel that has no time stamps measures nothing, and nothing is shed early.
            let _ = socket.set_time_stamps(is_watched);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_nanos(5_000_000_000 + micros * 1000)
    }

    #[test]
    fn only_a_queue_that_stands_is_watched() {
        let mut standing = Standing::default();
        assert_eq!(standing.note(at(0), true), None);
        for micros in (100..1000).step_by(100) {
            assert_eq!(standing.note(at(micros), false), None, "a burst");
        }
        assert_eq!(standing.note(at(1000), false), Some(true));
        assert_eq!(standing.note(at(1100), false), None, "it is");
        assert_eq!(standing.note(at(500_000), true), None, "it may stand again soon");
        assert_eq!(standing.note(at(600_000), false), None);
        assert_eq!(standing.note(at(1_599_999), true), None);
        assert_eq!(standing.note(at(1_600_000), true), Some(false));
        assert_eq!(standing.note(at(1_600_100), false), None);
    }
}
