//! CoDel (RFC 8289) on simulated time: says which packets that leave a queue are signalled.

/// The state of CoDel for one queue. Times are in picoseconds.
///
/// The owner of the queue decides what a signal is: NDN-DPDK marks the packet, Namewire marks or refuses
/// it, RFC 8289 drops it and takes the next packet, which gets its own verdict.
#[derive(Debug, Clone, Copy)]
pub struct Codel {
    target_ps: u64,
    interval_ps: u64,
    /// When the sojourn time will have been above the target for an interval; none while it is below.
    first_above_ps: Option<u64>,
    is_signalling: bool,
    next_signal_ps: u64,
    count: u32,
    count_at_last_start: u32,
}

impl Codel {
    /// A controller that tolerates `target_ps` of waiting, and more in bursts shorter than `interval_ps`.
    #[must_use]
    pub const fn new(target_ps: u64, interval_ps: u64) -> Self {
        Self {
            target_ps,
            interval_ps,
            first_above_ps: None,
            is_signalling: false,
            next_signal_ps: 0,
            count: 0,
            count_at_last_start: 0,
        }
    }

    /// A packet leaves the queue after `sojourn_ps`; returns true if it is to be signalled. `is_last`:
    /// nothing is left behind it, so that the queue cannot be too long (RFC 8289, section 5.5: at most
    /// one packet in the queue); always false where the queue resets by [`note_empty`](Self::note_empty).
    pub fn leave(&mut self, now_ps: u64, sojourn_ps: u64, is_last: bool) -> bool {
        let ok_to_signal = self.is_above_for_an_interval(now_ps, sojourn_ps, is_last);
        if self.is_signalling {
            if !ok_to_signal {
                self.is_signalling = false;
                return false;
            }
            if now_ps < self.next_signal_ps {
                return false;
            }
            self.count = self.count.saturating_add(1);
            self.next_signal_ps = self.after_pause(self.next_signal_ps);
            return true;
        }
        if !ok_to_signal {
            return false;
        }
        self.is_signalling = true;
        let reached = self.count - self.count_at_last_start;
        let is_recent = now_ps < self.next_signal_ps.saturating_add(16 * self.interval_ps);
        self.count = if reached > 1 && is_recent { reached } else { 1 };
        self.count_at_last_start = self.count;
        self.next_signal_ps = self.after_pause(now_ps);
        true
    }

    /// The queue is empty.
    pub const fn note_empty(&mut self) {
        self.first_above_ps = None;
        self.is_signalling = false;
    }

    /// Whether the last packet did not wait too long, and nothing is signalled.
    #[must_use]
    pub const fn is_calm(&self) -> bool {
        self.first_above_ps.is_none() && !self.is_signalling
    }

    fn is_above_for_an_interval(&mut self, now_ps: u64, sojourn_ps: u64, is_last: bool) -> bool {
        if sojourn_ps < self.target_ps || is_last {
            self.first_above_ps = None;
            return false;
        }
        match self.first_above_ps {
            None => {
                self.first_above_ps = Some(now_ps + self.interval_ps);
                false
            }
            Some(first_above_ps) => now_ps >= first_above_ps,
        }
    }

    /// The control law: `from` plus the interval over the square root of the count.
    fn after_pause(&self, from_ps: u64) -> u64 {
        from_ps + (self.interval_ps as f64 / f64::from(self.count.max(1)).sqrt()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{StreamId, TraceRandom};
    use std::collections::VecDeque;

    /// The pseudocode of RFC 8289, sections 5.5 and 5.6, word by word, with a packet's size as MTU.
    struct Rfc8289 {
        queue: VecDeque<u64>,
        target: f64,
        interval: f64,
        first_above_time: f64,
        drop_next: f64,
        count: u32,
        lastcount: u32,
        dropping: bool,
        dropped: Vec<u64>,
    }

    impl Rfc8289 {
        fn dodequeue(&mut self, now: f64) -> (Option<u64>, bool) {
            let Some(enqueued) = self.queue.pop_front() else {
                self.first_above_time = 0.0;
                return (None, false);
            };
            let sojourn = now - enqueued as f64;
            if sojourn < self.target || self.queue.is_empty() {
                self.first_above_time = 0.0;
                return (Some(enqueued), false);
            }
            if self.first_above_time == 0.0 {
                self.first_above_time = now + self.interval;
                return (Some(enqueued), false);
            }
            (Some(enqueued), now >= self.first_above_time)
        }

        fn control_law(&self, t: f64) -> f64 {
            t + (self.interval / f64::from(self.count).sqrt()).floor()
        }

        fn dequeue(&mut self, now: f64) -> Option<u64> {
            let (mut packet, mut ok_to_drop) = self.dodequeue(now);
            if self.dropping {
                if !ok_to_drop {
                    self.dropping = false;
                }
                while now >= self.drop_next && self.dropping {
                    self.dropped.extend(packet);
                    self.count += 1;
                    (packet, ok_to_drop) = self.dodequeue(now);
                    if ok_to_drop {
                        self.drop_next = self.control_law(self.drop_next);
                    } else {
                        self.dropping = false;
                    }
                }
            } else if ok_to_drop {
                self.dropped.extend(packet);
                (packet, _) = self.dodequeue(now);
                self.dropping = true;
                let delta = self.count - self.lastcount;
                self.count = if delta > 1 && now - self.drop_next < 16.0 * self.interval {
                    delta
                } else {
                    1
                };
                self.drop_next = self.control_law(now);
                self.lastcount = self.count;
            }
            packet
        }
    }

    #[test]
    fn drops_are_those_of_the_rfc_on_random_traces() {
        let mut total = 0;
        for trace in 0..60 {
            let random = TraceRandom::new(8289, trace);
            let mut draw = random.draw(StreamId(0), 0);
            let (target, interval) = (5_000, 100_000);
            let mut rfc = Rfc8289 {
                queue: VecDeque::new(),
                target: target as f64,
                interval: interval as f64,
                first_above_time: 0.0,
                drop_next: 0.0,
                count: 0,
                lastcount: 0,
                dropping: false,
                dropped: Vec::new(),
            };
            let mut codel = Codel::new(target, interval);
            let mut queue = VecDeque::new();
            let mut dropped = Vec::new();
            let mut now = 1_000;
            let mut load = 1.3;
            for step in 0..6000u64 {
                now += 1 + draw.below(1000);
                if step % 700 == 0 {
                    load = 0.6 + draw.unit();
                }
                if draw.unit() < load / (1.0 + load) {
                    rfc.queue.push_back(now);
                    queue.push_back(now);
                    continue;
                }
                let expected = rfc.dequeue(now as f64);
                let mut actual = None;
                while let Some(enqueued) = queue.pop_front() {
                    if codel.leave(now, now - enqueued, queue.is_empty()) {
                        dropped.push(enqueued);
                    } else {
                        actual = Some(enqueued);
                        break;
                    }
                }
                assert_eq!(actual, expected, "trace {trace} step {step}");
                assert_eq!(dropped, rfc.dropped, "trace {trace} step {step}");
            }
            total += dropped.len();
        }
        assert!(total > 1000, "{total} drops: the traces have to exercise the controller");
    }

    #[test]
    fn signals_quicken_with_the_square_root_of_their_count() {
        let mut codel = Codel::new(5, 100);
        let signals: Vec<u64> = (0..400).filter(|now| codel.leave(*now, 6, false)).collect();
        assert_eq!(signals[..5], [100, 200, 270, 327, 377]);
    }
}
