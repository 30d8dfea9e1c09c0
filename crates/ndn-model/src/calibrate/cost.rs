//! Processor time of the workers and of the generator per Interest, by least squares over runs.

use libm::{log, pow, sqrt};

use super::effects::{COLUMNS, EFFECT_COUNT, Effects, TRANSFER, regressors};
use super::error::CalibrateError;
use super::least_squares::{Row, dot, least_squares, least_squares_without_negative, varied};
use super::run::Run;
use super::transfer::{TransferInfluence, excess_ns};
use crate::random::{StreamId, TraceRandom};

/// Replicates of the bootstrap, each with as many runs as the campaign has.
const BOOTSTRAP_REPLICATES: u32 = 200;

/// Rounds in which the exponent of slowdowns is refined, at most.
const EXPONENT_ROUNDS: u32 = 8;

/// The reference load of a run over the usual one; 1 if not measured.
fn slowdown(run: &Run, reference_ns: f64) -> f64 {
    let own = run.host.reference_ns();
    if own > 0.0 && reference_ns > 0.0 { own / reference_ns } else { 1.0 }
}

/// The slope of the errors of a fit over the slowdown of the runs, both as logarithms, from 0 to 1.5: 0 if the
/// reference load hardly varies, or says nothing about the forwarder.
fn slowdown_slope(rows: &[Row<COLUMNS>], effects: &Effects, slowdowns: &[f64]) -> f64 {
    const VARIES: f64 = 0.01;
    let x: Vec<f64> = slowdowns.iter().map(|slowdown| log(*slowdown)).collect();
    let y: Vec<f64> = rows.iter().map(|(row, cost)| log(cost / dot(row, effects))).collect();
    let count = x.len() as f64;
    let (mean_x, mean_y) = (x.iter().sum::<f64>() / count, y.iter().sum::<f64>() / count);
    let pairs = || x.iter().zip(&y).map(|(x, y)| (x - mean_x, y - mean_y));
    let (squares, products) = pairs().fold((0.0, 0.0), |(s, p), (x, y)| (s + x * x, p + x * y));
    let slope = products / squares;
    if squares < count * VARIES * VARIES || !slope.is_finite() {
        return 0.0;
    }
    // Two standard errors: below, a slope may be chance.
    let rest: f64 = pairs().map(|(x, y)| (y - slope * x) * (y - slope * x)).sum();
    let error = sqrt(rest / (count - 2.0).max(1.0) / squares);
    if slope > 2.0 * error { slope.min(1.5) } else { 0.0 }
}

/// Effects on the processor time of the workers per Interest.
pub(super) struct CostFit {
    /// Number of runs.
    pub(super) runs: usize,
    /// Nanoseconds of each column.
    pub(super) effects: Effects,
    /// Relative standard deviation of a run around them.
    pub(super) residual: f64,
    /// Those of bootstrap replicates, without transfers.
    pub(super) replicates: Vec<Vec<f64>>,
    /// Times follow the reference load to the power of this.
    pub(super) slowdown_exponent: f64,
}

impl CostFit {
    pub(super) fn of(
        runs: &[&Run],
        transfers: &[TransferInfluence; 2],
        reference_ns: f64,
    ) -> Result<Self, CalibrateError> {
        let mut rows: Vec<Row<COLUMNS>> = runs
            .iter()
            .map(|run| {
                let (hits, sleeps) = (run.measured_hit_ratio(), run.sleeps_per_interest());
                let transfer_ns = excess_ns(run, transfers);
                let is_traced = run.services.is_some();
                (regressors(&run.setting, hits, sleeps, is_traced, transfer_ns), run.cost_ns())
            })
            .collect();
        let mut varied = varied(&rows);
        let needed = 2 * varied.len() + 2;
        if rows.len() < needed {
            return Err(CalibrateError::TooFewRuns { runs: rows.len(), needed });
        }
        let undetermined =
            || CalibrateError::Undetermined("the runs do not determine the effects".to_owned());
        let all: Vec<usize> = (0..rows.len()).collect();
        // Longer transfers make nothing faster.
        let fit = |rows: &[Row<COLUMNS>], varied: &mut Vec<usize>| {
            least_squares_without_negative(rows, &all, varied, TRANSFER).ok_or_else(undetermined)
        };
        let mut effects = fit(&rows, &mut varied)?;
        let slowdowns: Vec<f64> = runs.iter().map(|run| slowdown(run, reference_ns)).collect();
        let mut slowdown_exponent = 0.0;
        // The effects take a part of the slope where slow runs have their settings in common; the rounds converge to the fit
        // of both.
        for _ in 0..EXPONENT_ROUNDS {
            let change = slowdown_slope(&rows, &effects, &slowdowns);
            if change == 0.0 {
                break;
            }
            slowdown_exponent += change;
            for ((_, y), slowdown) in rows.iter_mut().zip(&slowdowns) {
                *y /= pow(*slowdown, change);
            }
            effects = fit(&rows, &mut varied)?;
        }
        let squares: f64 = rows
            .iter()
            .map(|(x, y)| {
                let error = y / dot(x, &effects) - 1.0;
                error * error
            })
            .sum();
        let residual = sqrt(squares / (rows.len() - varied.len()) as f64);
        let replicates = (0..BOOTSTRAP_REPLICATES)
            .filter_map(|replicate| {
                let random = TraceRandom::new(0x6361_6c69, replicate);
                let drawn: Vec<usize> = (0..rows.len() as u64)
                    .map(|index| random.draw(StreamId(0), index).below(rows.len() as u64) as usize)
                    .collect();
                let effects = least_squares(&rows, &drawn, &varied);
                effects.map(|effects| effects[..EFFECT_COUNT].to_vec())
            })
            .collect();
        Ok(Self { runs: rows.len(), effects, residual, replicates, slowdown_exponent })
    }
}

/// Processor time of the generator in nanoseconds: per second, per Interest and per answer; and per Interest for each nanosecond
/// by which a transfer is longer than usual. None is negative.
pub(super) fn generator(runs: &[&Run], transfers: &[TransferInfluence; 2]) -> ([f64; 3], f64) {
    let row = |run: &&Run| {
        let sent = run.sent as f64;
        let x = [run.seconds, sent, run.satisfied as f64, sent * excess_ns(run, transfers)];
        (x, (run.generator_cpu_ns as f64).max(1.0))
    };
    let rows: Vec<Row<4>> = runs.iter().map(row).collect();
    let all: Vec<usize> = (0..rows.len()).collect();
    let mut used = varied(&rows);
    let [idle, per_sent, per_satisfied, per_transfer_ns] =
        least_squares_without_negative(&rows, &all, &mut used, 0).unwrap_or_default();
    ([idle, per_sent, per_satisfied], per_transfer_ns)
}
