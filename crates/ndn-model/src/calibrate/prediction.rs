//! Prediction of runs: simulation of the model of a setting, counted as runs are.

use libm::sqrt;

use super::calibration::Calibration;
use super::error::CalibrateError;
use super::latency::latency_ratio_near;
use super::model_text::model_text;
use super::order_statistics::median;
use super::packet_times::NS;
use super::run::Setting;
use super::slowdown::Slowdown;
use crate::fast::FastEngine;
use crate::file::{FileError, Model};
use crate::network::{Network, Outcome, Record};
use crate::random::TraceRandom;

/// Largest share of a worker's processor that a generator takes, which has priority.
const GENERATOR_SHARE_MAX: f64 = 0.95;

/// Traces that are simulated to predict a run or the capacity of runs with one law of pauses.
pub(super) const TRACES_OF_LAW: u32 = 3;

/// The predicted result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Answers in the window over the Interests sent in it: the median of the traces.
    pub satisfied: f64,
    /// Interests that were lost in the window over those sent in it: the median of the traces.
    pub unsatisfied: f64,
    /// Standard deviation of the mean satisfied share.
    pub deviation: f64,
    /// Latency at p50 and p99: medians of the traces.
    pub latency_ns: [f64; 2],
}

/// The counts that a run with the same packets as a trace would have.
struct RunCounts {
    satisfied: f64,
    unsatisfied: f64,
    latency_ns: [f64; 2],
}

impl RunCounts {
    /// Counts as a run does: an Interest where it was sent, its answer or loss where that came, both within the window. While a
    /// queue grows, those that are sent in the window are not those that end in it.
    fn of(records: &[Record], (from_ps, to_ps): (u64, u64)) -> Self {
        let window = from_ps..to_ps;
        let sent = records.iter().filter(|record| window.contains(&record.created_ps)).count();
        let (mut latencies, mut lost) = (Vec::new(), 0_usize);
        for record in records.iter().filter(|record| window.contains(&record.ended_ps)) {
            if record.outcome == Outcome::Satisfied {
                latencies.push(record.ended_ps - record.created_ps);
            }
            lost += usize::from(record.outcome.is_lost());
        }
        let share = |count: usize| count as f64 / sent.max(1) as f64;
        let (satisfied, unsatisfied) = (share(latencies.len()), share(lost));
        let latency_ns = [0.5, 0.99].map(|level| {
            let last = latencies.len().saturating_sub(1);
            let index = ((level * latencies.len() as f64) as usize).min(last);
            let found = (!latencies.is_empty()).then(|| *latencies.select_nth_unstable(index).1);
            found.map_or(0.0, |ps| ps as f64 / NS)
        });
        Self { satisfied, unsatisfied, latency_ns }
    }
}

/// The model of a run: of a setting, on a machine as slow as it is then.
#[derive(Debug, Clone, Copy)]
pub struct ModelOfRun<'c> {
    /// The calibrated parameters.
    pub calibration: &'c Calibration,
    /// The setting.
    pub setting: Setting,
    /// The machine during the run.
    pub slowdown: Slowdown,
    /// Seconds of the warm-up and of the window.
    pub times: (f64, f64),
}

impl ModelOfRun<'_> {
    /// Predicts the run: the median of some traces.
    ///
    /// # Errors
    /// A setting too far from what was measured, or a fault of the model.
    pub fn predict(&self, traces: u32) -> Result<Prediction, CalibrateError> {
        self.predict_traces(0..traces)
    }

    pub(super) fn predict_traces(
        &self,
        traces: core::ops::Range<u32>,
    ) -> Result<Prediction, CalibrateError> {
        /// Change of the satisfied share at which the time of the generator is known.
        const SATISFIED_TOLERANCE: f64 = 0.02;
        let Self { calibration, setting, .. } = self;
        let model = self.model()?;
        // Generators take time from the workers, the more the more they send and receive.
        let mut satisfied = f64::min(1.0, 1.0 / self.load());
        let mut prediction = self.simulate(&model, satisfied, traces.clone());
        for _ in 0..2 {
            if !calibration.is_shared(setting)
                || (prediction.satisfied - satisfied).abs() <= SATISFIED_TOLERANCE
            {
                break;
            }
            satisfied = prediction.satisfied;
            prediction = self.simulate(&model, satisfied, traces.clone());
        }
        let ratio = latency_ratio_near(
            &calibration.discrepancies,
            calibration.is_shared(setting),
            self.load(),
        );
        for (latency_ns, ratio) in prediction.latency_ns.iter_mut().zip(ratio) {
            *latency_ns *= ratio;
        }
        Ok(prediction)
    }

    /// Rate over the rate at which the workers are always busy.
    pub(super) fn load(&self) -> f64 {
        let saturated_ns = self.calibration.saturated_ns(&self.setting, None);
        let busy = self.setting.rate * self.slowdown.forwarder * saturated_ns / 1e9;
        busy / self.setting.workers as f64
    }

    /// The rate at which the busiest worker has no time left, over that of the setting.
    pub(super) fn headroom(&self) -> f64 {
        (1.0 - self.generator_share(1.0)) / self.load()
    }

    /// The part of each worker's time that a generator takes, on the same processor, if this share of the Interests is answered.
    fn generator_share(&self, satisfied: f64) -> f64 {
        if !self.calibration.is_shared(&self.setting) {
            return 0.0;
        }
        let [idle, per_sent, per_satisfied] = self.calibration.generator;
        let busy = idle + self.setting.rate * (per_sent + per_satisfied * satisfied);
        let paused = self.calibration.pauses.as_ref().map_or(0.0, |pauses| pauses.share);
        let each = busy / self.setting.workers as f64;
        (self.slowdown.generator * each / 1e9 / (1.0 - paused)).min(GENERATOR_SHARE_MAX)
    }

    /// The model of the setting and of its run.
    pub(super) fn model(&self) -> Result<Model, CalibrateError> {
        let Self { calibration, setting, times: (warm_up, seconds), .. } = self;
        let text = model_text(calibration, setting, *warm_up, *seconds)?;
        let fault = |error: FileError| CalibrateError::Undetermined(error.to_string());
        Model::parse(&text).map_err(fault)
    }

    /// The network of the model, of which generators take their part if this share of the Interests is answered.
    pub(super) fn network(&self, model: &Model, satisfied: f64) -> Network {
        let mut network = model.network.clone();
        let share = self.generator_share(satisfied);
        let workers = self.setting.workers;
        for worker in 0..workers {
            scale_service_times(&mut network, worker, self.slowdown.forwarder / (1.0 - share));
        }
        self.set_turns(&mut network);
        network
    }

    /// `satisfied`: the share of the Interests that is answered.
    fn simulate(&self, model: &Model, satisfied: f64, traces: core::ops::Range<u32>) -> Prediction {
        let network = self.network(model, satisfied);
        let mut engine = FastEngine::without_digests(&network);
        let window_ps = (model.warm_up_ps, model.horizon_ps);
        let mut counts = Vec::new();
        for trace in traces {
            let result = engine.run(TraceRandom::new(1, trace), model.horizon_ps);
            counts.push(RunCounts::of(&result.records, window_ps));
        }
        let count = counts.len().max(1) as f64;
        let of = |part: fn(&RunCounts) -> f64| counts.iter().map(part).collect::<Vec<f64>>();
        let satisfied = of(|one| one.satisfied);
        let mean = satisfied.iter().sum::<f64>() / count;
        let variance = satisfied.iter().map(|s| (s - mean) * (s - mean)).sum::<f64>();
        let unsatisfied = of(|one| one.unsatisfied);
        Prediction {
            satisfied: median(satisfied),
            unsatisfied: median(unsatisfied),
            deviation: sqrt(variance / (count * (count - 1.0)).max(1.0)),
            latency_ns: [median(of(|one| one.latency_ns[0])), median(of(|one| one.latency_ns[1]))],
        }
    }

    /// The generator sends, and receives, in turns; Interests that were due during a pause leave one by one, as fast as it
    /// sends. A worker takes some time to wake up.
    fn set_turns(&self, network: &mut Network) {
        const BUSY_SHARE_MAX: f64 = 0.9;
        let faces = network.consumers.len();
        let calibration = self.calibration;
        let per_sent_ns = (self.slowdown.generator * calibration.generator[1])
            .min(BUSY_SHARE_MAX * 1e9 / self.setting.rate);
        for face in network.faces.iter_mut().take(faces) {
            face.incoming.transmit_ps[0] = (faces as f64 * per_sent_ns * NS) as u64;
        }
        if calibration.turn_ns == 0 {
            return;
        }
        let turn_ps = calibration.turn_ns * NS as u64;
        for (number, face) in network.faces.iter_mut().enumerate() {
            // An answer leaves in the turn in which its Interest was received.
            face.incoming.turns_ps = [if number < faces { turn_ps } else { 1 }, 1];
            face.incoming.delay_ps = (calibration.wake_up_ns * NS) as u64 + 1;
            face.outgoing.turns_ps = [1, turn_ps];
            face.outgoing.delay_ps = 1;
        }
    }
}

/// Multiplies all service times of a worker.
fn scale_service_times(network: &mut Network, worker: usize, factor: f64) {
    for shard in &mut network.shards {
        if network.queues[shard.queues[0]].station == worker {
            shard.forward_factor = shard.forward_factor.map(|own| own * factor);
        }
    }
    for face in &mut network.faces {
        if network.queues[face.input_queue].station == worker {
            face.input_factor *= factor;
            face.output_factor *= factor;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::calibrate::calibrate;
    use crate::calibrate::test_campaign::{campaign, rig};

    /// While a queue grows, all that is sent in the window is satisfied later, but a run counts the answers within the window.
    #[test]
    fn predicted_runs_are_counted_as_measured_ones() {
        let record =
            |created_ps, ended_ps, outcome| Record { ended_ps, outcome, ..Record::new(created_ps) };
        let records = [
            record(50, 120, Outcome::Satisfied),
            record(60, 90, Outcome::Satisfied),
            record(100, 110, Outcome::Satisfied),
            record(110, 115, Outcome::QueueFull(0)),
            record(150, 200, Outcome::Satisfied),
            record(199, 250, Outcome::Satisfied),
        ];
        let counts = RunCounts::of(&records, (100, 200));
        assert!((counts.satisfied - 0.5).abs() < 1e-9 && (counts.unsatisfied - 0.25).abs() < 1e-9);
        assert!((counts.latency_ns[1] - 0.07).abs() < 1e-9, "{:?}", counts.latency_ns);
        // At 1.25 times the capacity a queue of 4096 is not full within 60 ms, and a fifth of the answers is not there yet.
        let calibration = calibrate(&campaign(), &rig(4096, 8)).unwrap();
        let near = Setting { workers: 1, hit_ratio: 0.0, ..campaign()[0].setting };
        let rate = 1.25e9 / calibration.saturated_ns(&near, None);
        let run = ModelOfRun {
            calibration: &calibration,
            setting: Setting { rate, ..near },
            slowdown: Slowdown::NONE,
            times: (0.01, 0.05),
        }
        .predict(1)
        .unwrap();
        assert!(run.unsatisfied < 1e-9, "{run:?}");
        assert!((run.satisfied - 0.8).abs() < 0.02, "{run:?}");
    }
}
