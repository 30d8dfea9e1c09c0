//! Correction of throughput: answers of overloaded runs over those of the model.

use libm::{exp, sqrt};
use serde::{Deserialize, Serialize};

use super::order_statistics::median;
use crate::special::{normal_quantile, student_t_quantile};

/// Runs from which on there is a correction.
const RUNS_MIN: usize = 4;

/// Answers of runs with more load than they can satisfy, over those of the model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Runs that were compared.
    pub runs: usize,
    /// Their median ratio; 1 with too few runs.
    pub factor: f64,
    /// Standard deviation of the logarithm of a run around it; 0 with too few runs.
    pub deviation: f64,
}

impl Default for Throughput {
    fn default() -> Self {
        Self { runs: 0, factor: 1.0, deviation: 0.0 }
    }
}

impl Throughput {
    /// From the logarithms of the ratios.
    pub(super) fn of(logs: &[f64]) -> Self {
        if logs.len() < RUNS_MIN {
            return Self { runs: logs.len(), ..Self::default() };
        }
        let middle = median(logs.to_vec());
        let squares: f64 = logs.iter().map(|log| (log - middle) * (log - middle)).sum();
        let deviation = sqrt(squares / (logs.len() - 1) as f64);
        Self { runs: logs.len(), factor: exp(middle), deviation }
    }

    /// Standard deviation of a normal variable whose interval with probability `confidence` is as wide as that of a further
    /// run: Student's, as the deviation and the middle come from few runs.
    pub(super) fn deviation_at(&self, confidence: f64) -> f64 {
        if self.runs < RUNS_MIN {
            return self.deviation;
        }
        // Both quantiles are 0 in the middle, and infinite at the end.
        let level = (0.5 + 0.5 * confidence).clamp(0.6, 1.0 - 1e-9);
        let runs = self.runs as f64;
        let quantiles = student_t_quantile(level, runs - 1.0) / normal_quantile(level);
        quantiles * sqrt(1.0 + 1.0 / runs) * self.deviation
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::calibrate::Calibration;
    use crate::calibrate::test_campaign::{campaign, rig};

    #[test]
    fn throughput_of_few_runs_has_a_wider_interval() {
        let known = Throughput { runs: 4, factor: 1.0, deviation: 0.1 };
        // Student's quantile with three degrees of freedom is 3.182.
        let expected = 0.1 * 3.182_446 / 1.959_964 * sqrt(1.25);
        assert!((known.deviation_at(0.95) - expected).abs() < 1e-5);
        let many = Throughput { runs: 100_000, ..known };
        assert!((many.deviation_at(0.95) - 0.1).abs() < 1e-4);
        assert!(known.deviation_at(0.0).is_finite() && known.deviation_at(1.0).is_finite());
        assert!(Throughput::default().deviation_at(0.95).abs() < f64::EPSILON);
        let calibration = Calibration::of(&campaign(), &rig(64, 8)).unwrap();
        for deviation in [-0.1, f64::NAN, f64::INFINITY] {
            let throughput = [known, Throughput { deviation, ..known }];
            let wrong = Calibration { throughput, ..calibration.clone() };
            assert!(wrong.fault().is_some_and(|fault| fault.starts_with("throughput")));
        }
    }
}
