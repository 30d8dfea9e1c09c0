//! The parameters of a forwarder on one machine, and their file.

use serde::{Deserialize, Serialize};

use super::effects::{EFFECT_COUNT, PROBE, REMOTE, regressors};
use super::latency::Discrepancy;
use super::least_squares::dot;
use super::ranges::Ranges;
use super::run::Setting;
use super::selection::LeftOut;
use super::service_times::Shape;
use super::throughput::Throughput;
use super::transfer::TransferInfluence;
use crate::assembly::Placement;
use crate::pauses::PauseProcess;

/// Largest effect that is accepted.
const EFFECT_MAX_NS: f64 = 1e9;

/// Largest deviation from 1 of the sum of the shares, which are rounded in files, and of the mean of a shape.
const DEVIATION_MAX: f64 = 0.01;

/// The parameters of the forwarder on one machine, estimated from measured runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Calibration {
    /// Runs that were used.
    pub runs: usize,
    /// Tries that were discarded because the host disturbed the forwarder.
    pub discarded: usize,
    /// Runs that some estimates leave out, and why.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// Median time of a step of the reference load over the runs, in nanoseconds; 0 if not measured.
    pub reference_ns: f64,
    /// If the reference load takes x times as long, the forwarder takes x to the power of this.
    pub slowdown_exponent: f64,
    /// Transfers of cache lines between processors, with one worker and with several.
    #[serde(default)]
    pub transfers: [TransferInfluence; 2],
    /// Nanoseconds of each of [`EFFECTS`](super::EFFECTS); zero where the campaign does not vary it.
    pub effects: Vec<f64>,
    /// Relative standard deviation of a run around the linear model.
    pub residual: f64,
    /// Effects of bootstrap replicates over runs.
    pub replicates: Vec<Vec<f64>>,
    /// Shares of the time of a miss: dispatch and forwarding of Interests, of Data, and the rest (system calls).
    pub shares: [f64; 5],
    /// Quantiles of the forwarding time of an Interest and of a Data over its mean, and the mean excess of the tail.
    pub shapes: [Shape; 2],
    /// Processor time of the generator: per second, per Interest sent, per Interest satisfied, in nanoseconds.
    pub generator: [f64; 3],
    /// Nanoseconds of the generator per Interest for each by which a transfer is longer than usual.
    #[serde(default)]
    pub generator_transfer: f64,
    /// Latency outside of the forwarder at p50 and p99, in nanoseconds.
    pub latency_ns: [f64; 2],
    /// Pauses of processors; none if there were none, or they were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pauses: Option<PauseProcess>,
    /// Share of the measured time in service times that are as long as pauses, of runs in which no worker shares its processor
    /// with the generator; compared with the share of pauses.
    #[serde(default)]
    pub pauses_in_services: f64,
    /// Corrections of throughput, where the generator has a processor alone and where it shares that of a worker.
    #[serde(default)]
    pub throughput: [Throughput; 2],
    /// Time between two turns of the generator, in nanoseconds; 0 if it has none.
    #[serde(default)]
    pub turn_ns: u64,
    /// Time from the arrival of packets until a worker that sleeps takes them, in nanoseconds.
    #[serde(default)]
    pub wake_up_ns: f64,
    /// Corrections of latencies, by load.
    pub discrepancies: Vec<Discrepancy>,
    /// Standard deviation of the logarithm of p99 around its prediction, each run predicted by the others.
    pub latency_residual: f64,
    /// Packets of the queue of a face.
    pub queue: usize,
    /// Processors of the machine; [`usize::MAX`] if consumers and producers are on others.
    pub processors: usize,
    /// The ranges of the factors that were measured.
    pub ranges: Ranges,
}

/// A file of `namewire model calibrate`; its other keys state the origin of the calibration.
#[derive(Deserialize)]
struct CalibrationFile {
    calibration: Calibration,
}

impl Calibration {
    /// Reads a file of `namewire model calibrate`.
    ///
    /// # Errors
    /// Malformed TOML, a key that is absent, or a [fault](Self::fault).
    pub fn parse(text: &str) -> Result<Self, String> {
        let file = toml::from_str::<CalibrationFile>(text);
        let calibration = file.map_err(|error| error.message().to_owned())?.calibration;
        match calibration.fault() {
            Some(fault) => Err(fault),
            None => Ok(calibration),
        }
    }

    /// The first reason why these are not parameters of a forwarder; `None` if they are.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let is_one = |value: f64| (value - 1.0).abs() <= DEVIATION_MAX;
        let of_shape = |shape: &Shape| {
            let table = shape.table();
            let mean = "the mean is not 1";
            table.fault().or_else(|| (!is_one(table.mean())).then_some(mean))
        };
        let mut counts = core::iter::once(&self.effects).chain(&self.replicates).map(Vec::len);
        if let Some(count) = counts.find(|count| *count != EFFECT_COUNT) {
            return Some(format!("effects: {count} in place of {EFFECT_COUNT}"));
        }
        // Not those of replicates: single ones may be far off, or not a number.
        if !self.effects.iter().all(|ns| ns.abs() <= EFFECT_MAX_NS) {
            return Some("effects: one is not a time of at most a second".to_owned());
        }
        if self.shares.iter().any(|share| *share < 0.0) || !is_one(self.shares.iter().sum()) {
            return Some("shares: one is negative, or their sum is not 1".to_owned());
        }
        if let Some(fault) = self.shapes.iter().find_map(of_shape) {
            return Some(format!("shapes: {fault}"));
        }
        if let Some(fault) = self.throughput.iter().find_map(Throughput::fault) {
            return Some(format!("throughput: {fault}"));
        }
        if !(0.0..=EFFECT_MAX_NS).contains(&self.wake_up_ns) {
            return Some("wake-up-ns: not a time of at most a second".to_owned());
        }
        (self.queue == 0).then(|| "queue: 0 packets".to_owned())
    }

    /// The same for a machine without pauses.
    #[must_use]
    pub fn without_pauses(self) -> Self {
        Self { pauses: None, ..self }
    }

    /// The same where consumers and producers are on other machines, and every worker has a processor.
    #[must_use]
    pub fn without_generator(self) -> Self {
        Self { processors: usize::MAX, generator: [0.0; 3], turn_ns: 0, ..self }
    }

    /// Whether the generator runs on the processor of a worker.
    #[must_use]
    pub const fn is_shared(&self, setting: &Setting) -> bool {
        setting.workers >= self.processors
    }

    /// Processor time per Interest when the workers do not sleep, in nanoseconds; by the effects of a bootstrap replicate,
    /// or the calibrated ones.
    #[must_use]
    pub fn saturated_ns(&self, setting: &Setting, replicate: Option<usize>) -> f64 {
        let x = regressors(setting, setting.hit_ratio, 0.0, false, 0.0);
        let effects =
            replicate.and_then(|index| self.replicates.get(index)).unwrap_or(&self.effects);
        dot(&x, effects)
    }

    /// Time per Interest at this share of hits when the workers do not sleep, in nanoseconds, corrected by throughput.
    pub(super) fn at(&self, setting: &Setting, hit_ratio: f64, placement: Placement) -> f64 {
        let x = regressors(&Setting { placement, ..*setting }, hit_ratio, 0.0, false, 0.0);
        dot(&x, &self.effects) / self.throughput[usize::from(self.is_shared(setting))].factor
    }

    /// Whether a setting with this placement can be answered: runs with packets in remote memory were measured, or it has
    /// none.
    #[must_use]
    pub fn answers(&self, placement: Placement) -> bool {
        let remote_ns = self.effects.get(REMOTE).copied().unwrap_or(0.0);
        placement == Placement::P1 || remote_ns != 0.0
    }

    /// Where `setting` lies outside of what was measured, in words.
    #[must_use]
    pub fn extrapolations(&self, setting: &Setting) -> Vec<String> {
        self.ranges.extrapolations(setting)
    }
}

/// Share of the processor time that measuring service times takes.
#[must_use]
pub fn probe_effect(calibration: &Calibration, setting: &Setting) -> f64 {
    calibration.effects[PROBE] / calibration.saturated_ns(setting, None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::calibrate::calibrate;
    use crate::calibrate::effects::SLEEP;
    use crate::calibrate::test_campaign::{campaign, rig};

    #[test]
    fn calibrations_with_faults_are_refused() {
        let calibration = calibrate(&campaign(), &rig(1024, 2)).unwrap();
        assert_eq!(calibration.fault(), None);
        let refused = |change: fn(&mut Calibration), expected: &str| {
            let mut changed = calibration.clone();
            change(&mut changed);
            let fault = changed.fault().unwrap();
            assert!(fault.starts_with(expected), "{fault}");
        };
        refused(|one| one.effects.truncate(3), "effects: 3 in place of 11");
        refused(|one| one.replicates[0].clear(), "effects: 0 in place of 11");
        refused(|one| one.effects[SLEEP] = f64::INFINITY, "effects: one is not a time");
        refused(|one| one.effects[SLEEP] = f64::NAN, "effects: one is not a time");
        refused(|one| one.shares[0] = f64::NAN, "shares: ");
        refused(|one| one.shares = [1.0, 1.0, -1.0, 0.0, 0.0], "shares: one is negative");
        refused(|one| one.shares = [0.6; 5], "shares: one is negative, or their sum is not 1");
        refused(|one| one.shapes[1].tail_mean = 0.0, "shapes: the tail has");
        refused(|one| one.shapes[0].quantiles = vec![2.0, 2.0], "shapes: the mean is not 1");
        refused(|one| one.throughput[1].factor = 0.0, "throughput: one is not a factor");
        let former = "throughput: of a former version: `model calibrate` it again";
        refused(|one| one.throughput[0] = Throughput { runs: 4, ..Throughput::default() }, former);
        refused(|one| one.wake_up_ns = f64::NAN, "wake-up-ns: ");
        refused(|one| one.queue = 0, "queue: ");
    }

    #[test]
    fn settings_outside_of_the_measured_ones_are_named() {
        let calibration = calibrate(&campaign(), &rig(1024, 2)).unwrap();
        let inside = campaign()[1].setting;
        assert_eq!(calibration.extrapolations(&inside), Vec::<String>::new());
        let outside = Setting { workers: 8, payload: 4000, ..inside };
        let notes = calibration.extrapolations(&outside);
        assert_eq!(notes.len(), 2);
        assert_eq!(notes[0], "8 workers: 1 to 2 were measured");
    }
}
