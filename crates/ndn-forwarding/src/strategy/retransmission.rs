//! Retransmission suppression with exponential back-off.

use ndn_types::Timestamp;

use super::parameters::{ParameterError, Parameters};

/// Decision about an Interest that joins a pending one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retransmission {
    /// Nothing is pending upstream: handle it as a new Interest.
    New,
    /// Send it.
    Forward,
    /// Drop it: too soon after the last one.
    Suppress,
}

/// The exponential suppression of NFD's best-route and multicast strategies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Suppression {
    initial_ms: u32,
    max_ms: u32,
    multiplier: f32,
}

impl Default for Suppression {
    fn default() -> Self {
        Self { initial_ms: 10, max_ms: 250, multiplier: 2.0 }
    }
}

impl Suppression {
    /// Reads `retx-suppression-{initial,max,multiplier}`.
    pub(crate) fn from_parameters(parameters: &mut Parameters) -> Result<Self, ParameterError> {
        let default = Self::default();
        let initial = "retx-suppression-initial";
        let max = "retx-suppression-max";
        let initial_ms = parameters.take_u64(initial, u64::from(default.initial_ms))?;
        let max_ms = parameters.take_u64(max, u64::from(default.max_ms))?;
        let multiplier = parameters.take_f32("retx-suppression-multiplier", default.multiplier)?;
        let refuse = |name, value: &dyn ToString, reason| {
            Err(ParameterError::Value { name, value: value.to_string(), reason })
        };
        let Ok(max_ms) = u32::try_from(max_ms) else {
            return refuse(max, &max_ms, "it is longer than the lifetime of any Interest");
        };
        match u32::try_from(initial_ms) {
            Ok(0) => refuse(initial, &0, "it must be more than 0"),
            Ok(initial_ms) if initial_ms <= max_ms => {
                if multiplier >= 1.0 && multiplier.is_finite() {
                    return Ok(Self { initial_ms, max_ms, multiplier });
                }
                refuse("retx-suppression-multiplier", &multiplier, "it must be at least 1")
            }
            Ok(_) | Err(_) => refuse(initial, &initial_ms, "it is more than retx-suppression-max"),
        }
    }

    /// Decides on a retransmission at `now` when the last one was sent at `last_sent`, and
    /// increases the interval if it is forwarded. `interval_ms` is 0 before the first.
    pub(crate) fn decide(
        &self,
        now: Timestamp,
        last_sent: Timestamp,
        interval_ms: &mut u32,
    ) -> Retransmission {
        let current_ms = self.current_ms(*interval_ms);
        if last_sent.plus_millis(u64::from(current_ms)) > now {
            return Retransmission::Suppress;
        }
        *interval_ms = self.next_ms(current_ms);
        Retransmission::Forward
    }

    fn current_ms(&self, interval_ms: u32) -> u32 {
        if interval_ms == 0 { self.initial_ms } else { interval_ms }
    }

    fn next_ms(&self, interval_ms: u32) -> u32 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "whole milliseconds are meant, and too large a product saturates"
        )]
        let next_ms = (interval_ms as f32 * self.multiplier) as u32;
        next_ms.min(self.max_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suppression_interval_doubles_up_to_its_maximum() {
        let suppression = Suppression::default();
        let (mut now, mut interval_ms, mut intervals) = (Timestamp::ZERO, 0, Vec::new());
        for _ in 0..7 {
            let last_sent = now;
            while suppression.decide(now, last_sent, &mut interval_ms) == Retransmission::Suppress {
                now = now.plus_millis(1);
            }
            intervals.push(now.since(last_sent).as_millis());
        }
        assert_eq!(intervals, [10, 20, 40, 80, 160, 250, 250]);
    }
}
