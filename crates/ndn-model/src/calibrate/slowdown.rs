//! Slowness of the machine during a run, by its reference load and its transfers, compared with the campaign.

use libm::pow;

use super::calibration::Calibration;
use super::effects::{TRANSFER, regressors};
use super::run::{Run, Setting};
use super::transfer::excess_ns;

/// Factors on the times of a calibration: above 1 on a slower machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowdown {
    /// On the times of the forwarder.
    pub forwarder: f64,
    /// On the times of the generator.
    pub generator: f64,
}

impl Slowdown {
    /// The machine as it is calibrated.
    pub const NONE: Self = Self { forwarder: 1.0, generator: 1.0 };

    /// The machine during a run.
    #[must_use]
    pub fn of(calibration: &Calibration, run: &Run) -> Self {
        let setting = &run.setting;
        let reference = of_reference_load(calibration, run.host.reference_ns());
        let transfer_ns = excess_ns(run, &calibration.transfers);
        let usual_ns = calibration.saturated_ns(setting, None);
        let forwarder = 1.0 + transfer_effect(calibration, setting) * transfer_ns / usual_ns;
        let [idle, per_sent, per_satisfied] = calibration.generator;
        let usual_ns = (idle / setting.rate + per_sent + per_satisfied).max(1.0);
        let generator = 1.0 + calibration.generator_transfer * transfer_ns / usual_ns;
        Self {
            forwarder: reference * forwarder.max(FACTOR_MIN),
            generator: reference * generator.max(FACTOR_MIN),
        }
    }
}

/// Lower bound of the factors by transfers, which are a part of the time only.
const FACTOR_MIN: f64 = 0.2;

/// Factor on all times while the reference load takes `reference_ns`; 1 if that is not known.
fn of_reference_load(calibration: &Calibration, reference_ns: f64) -> f64 {
    if reference_ns > 0.0 && calibration.reference_ns > 0.0 {
        pow(reference_ns / calibration.reference_ns, calibration.slowdown_exponent)
    } else {
        1.0
    }
}

/// Nanoseconds of an Interest and its Data for each by which a transfer is longer than usual.
pub(super) fn transfer_effect(calibration: &Calibration, setting: &Setting) -> f64 {
    let x = regressors(setting, setting.hit_ratio, 0.0, false, 1.0);
    calibration.transfers.iter().zip(&x[TRANSFER..]).map(|(own, x)| own.effect * x).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::calibrate::test_campaign::{campaign, rig};
    use crate::calibrate::{Host, TransferInfluence, Uncertainty, calibrate};

    #[test]
    fn slower_machine_is_seen_by_the_reference_load() {
        // Three of seven runs were on a machine that was slower by a tenth for the reference load.
        let slowed = |(number, run): (usize, Run)| {
            let reference = if number % 7 < 3 { 11.0 } else { 10.0 };
            let factor = pow(reference / 10.0, 0.7);
            let cpu_ns = run.cpu_ns.iter().map(|ns| (*ns as f64 * factor) as u64).collect();
            let host = Host { reference_ns: [reference; 2], ..Host::default() };
            Run { cpu_ns, host, ..run }
        };
        let runs: Vec<Run> = campaign().into_iter().enumerate().map(slowed).collect();
        let calibration = calibrate(&runs, &rig(1024, 2)).unwrap();
        assert!((calibration.slowdown_exponent - 0.7).abs() < 0.15, "{calibration:?}");
        assert!(calibration.residual < 0.02, "{}", calibration.residual);
        assert!((of_reference_load(&calibration, 11.0) / pow(1.1, 0.7) - 1.0).abs() < 0.02);
        assert!((of_reference_load(&calibration, 0.0) - 1.0).abs() < f64::EPSILON, "not measured");
        // Runs without a reference load do not hide what is usual.
        let partly = runs.iter().enumerate().map(|(number, run)| {
            let host = if number % 3 == 0 { run.host } else { Host::default() };
            Run { host, ..run.clone() }
        });
        let partly = calibrate(&partly.collect::<Vec<_>>(), &rig(1024, 2)).unwrap();
        assert!((partly.reference_ns - 10.0).abs() < 1e-9, "{}", partly.reference_ns);
        // A reference load that says nothing about the forwarder changes nothing.
        let unrelated = |(number, run): (usize, Run)| {
            let host = Host { reference_ns: [10.0 + (number % 5) as f64; 2], ..Host::default() };
            Run { host, ..run }
        };
        let runs: Vec<Run> = campaign().into_iter().enumerate().map(unrelated).collect();
        let calibration = calibrate(&runs, &rig(1024, 2)).unwrap();
        assert!(calibration.slowdown_exponent < 0.05, "{}", calibration.slowdown_exponent);
    }

    #[test]
    fn influence_of_transfers_between_processors_is_recovered() {
        // Two of seven runs have processors that are further from each other.
        let moved = |(number, run): (usize, Run)| {
            let transfer_ns = if number % 7 < 2 { 300.0 } else { 100.0 };
            let frames = 0.5 * (2.0 - run.setting.hit_ratio);
            let crossing = f64::from(u8::from(run.setting.workers > 1));
            let more = (transfer_ns - 100.0) * frames * (1.8 + 2.0 * crossing);
            let cpu_ns = run.cpu_ns.iter().map(|ns| ns + (more * run.interests as f64) as u64);
            let sent = 40_000 + 500 * number as u64;
            let satisfied = sent - 100 * (number as u64 % 5);
            let per_sent = 300.0 + 2.0 * (transfer_ns - 100.0);
            let generator_cpu_ns = 50_000_000 + (per_sent * sent as f64) as u64 + 200 * satisfied;
            let host = Host { transfer_ns, ..Host::default() };
            Run { cpu_ns: cpu_ns.collect(), sent, satisfied, generator_cpu_ns, host, ..run }
        };
        let runs = campaign();
        let near = calibrate(&runs, &rig(1024, 4)).unwrap();
        let runs: Vec<Run> = runs.into_iter().enumerate().map(moved).collect();
        let calibration = calibrate(&runs, &rig(1024, 4)).unwrap();
        let [one, several] = calibration.transfers;
        assert!((one.effect - 1.8).abs() < 0.2, "{one:?}");
        assert!((several.effect - 3.8).abs() < 0.3, "{several:?}");
        assert!((calibration.generator_transfer - 2.0).abs() < 0.1, "{calibration:?}");
        assert!((one.usual_ns - 100.0).abs() < 1e-9, "{one:?}");
        // A run without the time does not hide it.
        let mut partly = runs.clone();
        partly[6].host.transfer_ns = 0.0;
        let [without, _] = calibrate(&partly, &rig(1024, 4)).unwrap().transfers;
        assert!((without.effect - one.effect).abs() < 0.2, "{without:?}");
        // Nine runs with the time, of one worker and of two, show no effect.
        let few = |(number, run): (usize, &Run)| {
            let host = if number < 18 { run.host } else { Host::default() };
            Run { host, ..run.clone() }
        };
        let few: Vec<Run> = runs.iter().enumerate().map(few).collect();
        let few = calibrate(&few, &rig(1024, 4)).unwrap();
        assert_eq!(
            (few.transfers, few.generator_transfer),
            ([TransferInfluence::default(); 2], 0.0)
        );
        assert!(calibration.residual < 1.2 * near.residual, "{}", calibration.residual);
        let setting = Setting { workers: 1, ..runs[0].setting };
        let usual_ns = near.saturated_ns(&setting, None);
        assert!((calibration.saturated_ns(&setting, None) / usual_ns - 1.0).abs() < 0.02);
        let far = Slowdown::of(&calibration, &Run { setting, ..runs[0].clone() });
        let expected = 1.0 + 200.0 * 1.8 / usual_ns;
        assert!((far.forwarder / expected - 1.0).abs() < 0.05, "{far:?} {expected}");
        let deviation = Uncertainty::of(&calibration, &setting).transfer_deviation();
        assert!((0.02..0.3).contains(&deviation), "{deviation}");
        // Runs without it, and transfers that hardly vary, have no effect.
        assert_eq!(near.transfers, [TransferInfluence::default(); 2]);
        assert_eq!(Slowdown::of(&near, &runs[0]), Slowdown::NONE);
    }
}
