//! Division of the time of an Interest and its Data between stages, and between packets.

use super::calibration::Calibration;
use super::effects::SLEEP;
use super::error::CalibrateError;
use super::run::Setting;
use crate::assembly::Placement;
use crate::distribution::{Distribution, to_ps};
use crate::random::Draw;

/// Picoseconds of a nanosecond.
pub(super) const NS: f64 = 1e3;

/// The shortest time of a stage, in nanoseconds.
pub(super) const NS_MIN: f64 = 0.001;

/// Mean times of the stages of a worker, in nanoseconds. `miss` is that of all stages for an Interest and its Data.
pub(super) struct Stages {
    pub(super) miss: f64,
    pub(super) input_interest: f64,
    pub(super) forward_interest: f64,
    pub(super) input_data: f64,
    pub(super) forward_data: f64,
    pub(super) forward_hit: f64,
    pub(super) output: f64,
}

/// The time of a worker for a packet, from the input to the output.
#[derive(Debug, Clone, PartialEq)]
pub struct PacketTime {
    /// Picoseconds of input and output.
    handling: f64,
    forwarding: Distribution,
}

impl PacketTime {
    /// One variate, in picoseconds.
    #[must_use]
    pub fn sample_ps(&self, draw: &mut Draw) -> u64 {
        to_ps(self.handling + self.forwarding.sample(draw))
    }

    /// The mean, in nanoseconds.
    #[cfg(test)]
    fn mean_ns(&self) -> f64 {
        (self.handling + self.forwarding.mean()) / NS
    }
}

/// The times of a worker for packets by their kind.
#[derive(Debug, Clone, PartialEq)]
pub struct PacketTimes {
    /// An Interest that the Content Store does not answer.
    pub interest: PacketTime,
    /// A Data.
    pub data: PacketTime,
    /// An Interest that the Content Store answers.
    pub hit: PacketTime,
    /// Nanoseconds that a worker takes in addition when it waited in the kernel before.
    pub sleep_ns: f64,
}

impl Stages {
    /// Divides the time of an Interest and its Data between the stages.
    pub(super) fn of(calibration: &Calibration, setting: &Setting) -> Result<Self, CalibrateError> {
        let miss = calibration.at(setting, 0.0, Placement::P1);
        if !(miss > 0.0 && miss.is_finite()) {
            let reason = format!(
                "the time of an Interest would be {miss:.0} ns: too far from what was measured"
            );
            return Err(CalibrateError::Undetermined(reason));
        }
        if let Some(fault) = calibration.shapes.iter().find_map(|shape| shape.table().fault()) {
            return Err(CalibrateError::Undetermined(format!("shapes: {fault}")));
        }
        let [dispatch_i, forward_interest, dispatch_d, forward_data, rest] =
            calibration.shares.map(|share| share * miss);
        let (input_interest, output) = (dispatch_i + 0.25 * rest, 0.25 * rest);
        let hit = calibration.at(setting, 1.0, Placement::P1);
        Ok(Self {
            miss,
            input_interest,
            forward_interest,
            input_data: dispatch_d + 0.25 * rest,
            forward_data,
            forward_hit: (hit - input_interest - output).max(0.01 * miss),
            output,
        })
    }
}

impl PacketTimes {
    /// The time that a worker takes for packets in a setting, without pauses. The share of hits and the rate of the
    /// setting have no influence.
    ///
    /// # Errors
    /// A cost that is not positive: the setting is too far from what was measured.
    pub fn of(calibration: &Calibration, setting: &Setting) -> Result<Self, CalibrateError> {
        let stages = Stages::of(calibration, setting)?;
        let time = |input: f64, forwarding: Distribution| PacketTime {
            handling: (input + stages.output) * NS,
            forwarding,
        };
        let [of_interest, of_data] = &calibration.shapes;
        Ok(Self {
            interest: time(
                stages.input_interest,
                of_interest.scaled(stages.forward_interest.max(NS_MIN) * NS),
            ),
            data: time(stages.input_data, of_data.scaled(stages.forward_data.max(NS_MIN) * NS)),
            hit: time(stages.input_interest, Distribution::Constant(stages.forward_hit * NS)),
            sleep_ns: calibration.effects[SLEEP].max(0.0),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::calibrate::Shape;
    use crate::calibrate::calibrate;
    use crate::calibrate::test_campaign::{TRUE, campaign, rig};
    use crate::random::{StreamId, TraceRandom};

    #[test]
    fn times_of_packets_add_up_to_those_of_interests() {
        let calibration = calibrate(&campaign(), &rig(1024, 2)).unwrap();
        let setting = Setting { workers: 1, hit_ratio: 0.0, ..campaign()[6].setting };
        let times = PacketTimes::of(&calibration, &setting).unwrap();
        let near = |found: f64, expected: f64| {
            assert!((found / expected - 1.0).abs() < 1e-3, "{found} {expected}");
        };
        near(
            times.interest.mean_ns() + times.data.mean_ns(),
            calibration.saturated_ns(&setting, None),
        );
        assert!((times.sleep_ns - TRUE[SLEEP]).abs() < 0.05 * TRUE[SLEEP], "{}", times.sleep_ns);
        let hits = Setting { hit_ratio: 1.0, ..setting };
        near(times.hit.mean_ns(), calibration.saturated_ns(&hits, None));
        let random = TraceRandom::new(1, 0);
        let sample = |index| times.interest.sample_ps(&mut random.draw(StreamId(1), index)) as f64;
        let mean = (0..100_000).map(sample).sum::<f64>() / 1e5;
        assert!((mean / times.interest.mean_ns() / NS - 1.0).abs() < 0.02, "{mean}");
        // Other names and contents take other times.
        let longer = Setting { components: 40, payload: 8000, ..setting };
        let longer = PacketTimes::of(&calibration, &longer).unwrap();
        assert!(longer.interest.mean_ns() > 1.2 * times.interest.mean_ns());
        let negative = Calibration { effects: vec![0.0, -1.0], ..calibration.clone() };
        let error = PacketTimes::of(&negative, &setting).unwrap_err();
        assert!(error.to_string().contains("too far from what was measured"), "{error}");
        let [interest, data] = calibration.shapes.clone();
        let shapes = [Shape { quantiles: Vec::new(), ..interest }, data];
        let error = PacketTimes::of(&Calibration { shapes, ..calibration }, &setting).unwrap_err();
        assert!(error.to_string().contains("two or more"), "{error}");
    }
}
