//! When workers share one thread, and when each has its own: a state machine of the control thread.
//!
//! A second thread pays where the first is busy all the time and a processor has nothing to do. Whether it
//! really does depends on what else runs and on what a crossing costs, so it is tried: what forwards more
//! stays. Where it does not, the next try is later each time.

use std::time::Duration;

use ndn_table::Timestamp;

/// A thread that is busy for so much of the time may be what limits.
const SATURATED: f64 = 0.8;
/// Processors that have to be idle for threads of their own to be worth a try: who shares one with others
/// forwards hardly more than before, as crossings cost both sides.
const IDLE_MIN: f64 = 0.8;
/// Work for no more than this part of one thread is one thread's.
const LITTLE: f64 = 0.5;
/// For so many looks in a row.
const LITTLE_LOOKS: u32 = 4;
/// Processors for which the threads of workers wait, and those that are idle, where there are too few.
const WAITING_MIN: f64 = 0.2;
const IDLE_MAX: f64 = 0.1;
/// Threads of their own have to forward so many times what one does, and one so much of what they do.
const GAIN_MIN: f64 = 1.3;
const KEPT_MIN: f64 = 0.95;
/// Looks after a change before anything is counted, and those that count.
const SETTLING_LOOKS: u32 = 1;
const COUNTED_LOOKS: u32 = 2;
/// Time to the next try after one that was in vain, which doubles each time, and the longest.
const PAUSE_MIN: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// What happened over a longer time than this is no load of now.
const PERIOD_MAX: Duration = Duration::from_secs(2);

/// What there was up to some time, since the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Load {
    pub(crate) at: Timestamp,
    /// Packets forwarded.
    pub(crate) packets: u64,
    /// Time of the workers in which they did not wait.
    pub(crate) busy: Duration,
    /// Time in which their threads waited for a processor.
    pub(crate) waiting: Duration,
    /// Time in which processors that the workers may use had nothing to do.
    pub(crate) idle: Duration,
}

/// What there was between two looks: packets per second, and the rest as shares of the time, of one thread
/// or processor each.
#[derive(Debug, Clone, Copy)]
struct Share {
    packets: f64,
    busy: f64,
    waiting: f64,
    idle: f64,
}

/// The other arrangement is being tried.
#[derive(Debug)]
struct Trial {
    /// Packets per second before.
    rate: f64,
    looks: u32,
    /// Packets per second since, added up.
    sum: f64,
}

/// Decides who shares a thread.
#[derive(Debug)]
pub(crate) struct Policy {
    are_together: bool,
    trial: Option<Trial>,
    last: Load,
    /// Looks in a row at which there was little to do.
    little: u32,
    pause: Duration,
    /// No try before.
    next_trial: Timestamp,
}

impl Policy {
    /// Of workers that are together, as long as nobody knows what there is to do.
    pub(crate) fn new() -> Self {
        Self {
            are_together: true,
            trial: None,
            last: Load::default(),
            little: 0,
            pause: PAUSE_MIN,
            next_trial: Timestamp::ZERO,
        }
    }

    /// Looks at what there was to do since the last look. Says whether the workers are to be together from now
    /// on, if that is something else than before.
    pub(crate) fn look(&mut self, load: Load) -> Option<bool> {
        let last = std::mem::replace(&mut self.last, load);
        let were_together = self.are_together;
        if load.at.since(last.at) <= PERIOD_MAX {
            let share = Share::between(&last, &load);
            match self.trial.take() {
                Some(trial) => self.go_on(trial, &share, load.at),
                None => self.decide(&share, load.at),
            }
        } else if self.trial.take().is_some() {
            // Nothing is known, and nothing was to do for a while.
            self.are_together = true;
        }
        (self.are_together != were_together).then_some(self.are_together)
    }

    fn decide(&mut self, share: &Share, now: Timestamp) {
        let is_little = !self.are_together && share.busy <= LITTLE;
        self.little = if is_little { self.little + 1 } else { 0 };
        if self.little >= LITTLE_LOOKS {
            (self.are_together, self.little) = (true, 0);
            return;
        }
        let is_worth_a_try = match self.are_together {
            true => share.busy >= SATURATED && share.idle >= IDLE_MIN,
            false => share.waiting >= WAITING_MIN && share.idle <= IDLE_MAX,
        };
        if is_worth_a_try && now >= self.next_trial {
            self.trial = Some(Trial { rate: share.packets, looks: 0, sum: 0.0 });
            self.are_together = !self.are_together;
        }
    }

    fn go_on(&mut self, mut trial: Trial, share: &Share, now: Timestamp) {
        trial.looks += 1;
        if trial.looks > SETTLING_LOOKS {
            trial.sum += share.packets;
        }
        if trial.looks < SETTLING_LOOKS + COUNTED_LOOKS {
            self.trial = Some(trial);
            return;
        }
        let wanted = trial.rate * if self.are_together { KEPT_MIN } else { GAIN_MIN };
        if trial.sum / f64::from(COUNTED_LOOKS) >= wanted {
            self.pause = PAUSE_MIN;
        } else {
            self.are_together = !self.are_together;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        self.next_trial = now.plus(self.pause);
    }
}

impl Share {
    fn between(last: &Load, load: &Load) -> Self {
        let seconds = load.at.since(last.at).as_secs_f64().max(1e-3);
        let share =
            |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64() / seconds;
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let packets = load.packets.saturating_sub(last.packets) as f64 / seconds;
        Self {
            packets,
            busy: share(load.busy, last.busy),
            waiting: share(load.waiting, last.waiting),
            idle: share(load.idle, last.idle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time between two looks.
    const PERIOD: Duration = Duration::from_millis(500);

    /// A machine, and workers whose packets are limited by what is offered and by the threads.
    struct Machine {
        policy: Policy,
        load: Load,
        are_together: bool,
        /// Packets per second: offered, and what the workers forward together and apart at most.
        offered: u32,
        together: u32,
        apart: u32,
        /// Idle processors while the workers are together, and apart.
        idle: (f64, f64),
        changes: u32,
    }

    impl Machine {
        fn new(offered: u32, together: u32, apart: u32, idle: (f64, f64)) -> Self {
            let load = Load { at: Timestamp::from_millis(1000), ..Load::default() };
            let mut policy = Policy::new();
            assert_eq!(policy.look(load), None);
            Self { policy, load, are_together: true, offered, together, apart, idle, changes: 0 }
        }

        fn run(&mut self, seconds: u32) {
            for _ in 0..2 * seconds {
                let limit = if self.are_together { self.together } else { self.apart };
                let rate = self.offered.min(limit);
                // Threads of their own take half as much again.
                let cost = if self.are_together { 1.0 } else { 1.5 } / f64::from(self.together);
                let idle = if self.are_together { self.idle.0 } else { self.idle.1 };
                let load = &mut self.load;
                load.at = load.at.plus(PERIOD);
                load.packets += u64::from(rate / 2);
                load.busy += PERIOD.mul_f64((f64::from(rate) * cost).min(2.0));
                load.idle += PERIOD.mul_f64(idle);
                let is_short = !self.are_together && idle <= IDLE_MAX;
                load.waiting += PERIOD.mul_f64(if is_short { 0.5 } else { 0.0 });
                if let Some(are_together) = self.policy.look(*load) {
                    self.are_together = are_together;
                    self.changes += 1;
                }
            }
        }
    }

    #[test]
    fn little_is_one_threads_work() {
        let mut machine = Machine::new(500_000, 1_000_000, 2_000_000, (1.5, 1.3));
        machine.run(60);
        assert!(machine.are_together && machine.changes == 0);
    }

    #[test]
    fn much_is_everybodys_as_long_as_it_is_much() {
        let mut machine = Machine::new(10_000_000, 1_000_000, 1_400_000, (1.0, 0.3));
        machine.run(60);
        assert!(!machine.are_together);
        assert_eq!(machine.changes, 1);
        machine.offered = 300_000;
        machine.run(10);
        assert!(machine.are_together);
        assert_eq!(machine.changes, 2);
    }

    #[test]
    fn without_an_idle_processor_nobody_spreads() {
        let mut machine = Machine::new(10_000_000, 1_000_000, 1_400_000, (0.7, 0.0));
        machine.run(60);
        assert!(machine.are_together && machine.changes == 0);
    }

    #[test]
    fn what_does_not_pay_is_tried_less_and_less() {
        let mut machine = Machine::new(10_000_000, 1_000_000, 1_200_000, (0.9, 0.0));
        machine.run(60);
        let changes = machine.changes;
        assert!(machine.are_together && (2..=8).contains(&changes), "{changes}");
        machine.run(600);
        assert!(machine.changes - changes <= 24, "{changes}, then {}", machine.changes);
    }

    #[test]
    fn who_waits_for_processors_goes_together_if_that_forwards_as_much() {
        let mut machine = Machine::new(10_000_000, 1_000_000, 1_400_000, (1.0, 0.5));
        machine.run(30);
        assert!(!machine.are_together);
        // Other programs need the processors now.
        (machine.apart, machine.idle) = (900_000, (0.0, 0.0));
        machine.run(30);
        assert!(machine.are_together, "{:?}", machine.policy);
        // And where being apart still is better, it stays, but for tries.
        let mut machine = Machine::new(10_000_000, 1_000_000, 1_400_000, (1.0, 0.0));
        machine.run(300);
        let mut apart = 0;
        for _ in 0..100 {
            machine.run(1);
            apart += u32::from(!machine.are_together);
        }
        assert!(apart >= 95, "{apart}");
    }

    #[test]
    fn what_nobody_looked_at_is_not_judged() {
        let mut machine = Machine::new(10_000_000, 1_000_000, 1_400_000, (1.0, 0.5));
        machine.load.at = machine.load.at.plus(Duration::from_secs(60));
        assert_eq!(machine.policy.look(machine.load), None);
        machine.run(1);
        assert!(!machine.are_together, "a trial");
        machine.load.at = machine.load.at.plus(Duration::from_secs(60));
        assert_eq!(machine.policy.look(machine.load), Some(true));
    }
}
