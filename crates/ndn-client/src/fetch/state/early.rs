//! Interests that came before their producer had come back.

use std::cmp::Reverse;
use std::time::Duration;

use super::FetchState;
use crate::fetch::segments::{Slot, Status};

/// Least and longest pause before an Interest that came too early is sent again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

impl FetchState {
    /// Takes note that an Interest came before its producer had come back: it is sent again after a
    /// pause that grows with the time that this has taken, and does not count.
    pub fn handle_too_early(&mut self, now: Duration, segment: u64) {
        let is_out = |slot: &Slot| slot.status == Status::InFlight;
        if !self.segments.slot(segment).is_some_and(is_out) {
            return;
        }
        self.segments.update(segment, |slot| {
            slot.status = Status::Waiting;
            slot.attempts = slot.attempts.saturating_sub(1);
        });
        self.progress.nacks += 1;
        let since = *self.early_since.get_or_insert(now);
        let pause = now.saturating_sub(since).clamp(PAUSE.0, PAUSE.1);
        self.paused.push(Reverse((now + pause, segment)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::FetchConfig;

    #[test]
    fn what_comes_too_early_does_not_count_and_is_sent_again_ever_more_slowly() {
        let config = FetchConfig { retransmissions_max: 0, ..FetchConfig::default() };
        let mut state = FetchState::new(config, 0, Some(0));
        let (mut now, mut pauses) = (Duration::ZERO, Vec::new());
        for _ in 0..12 {
            assert!(state.poll_transmit(now).is_some());
            state.handle_too_early(now, 0);
            assert!(state.poll_transmit(now).is_none());
            let (at, _) = state.poll_timeout().expect("it is to be sent again");
            pauses.push((at - now).as_millis());
            now = at;
            state.handle_timeout(now);
        }
        assert_eq!(pauses[..6], [50, 50, 100, 200, 400, 800]);
        assert_eq!(pauses[6..], [1000; 6]);
        assert!(state.failure().is_none());
        assert!(state.poll_transmit(now).is_some());
        state.handle_data(now, 0, Some(0), false);
        assert!(state.is_complete());
    }
}
