//! Distributions from measured durations: independence first, then families ranked by what they predict.
//!
//! Goodness-of-fit p-values are not offered: they are not valid with estimated parameters, and with
//! millions of samples they reject every family.

use libm::{exp, log, pow, sqrt};

use crate::distribution::{Distribution, ErlangBranch, QuantileTable, ln_sum_exp};
use crate::network::ArrivalClock;
use crate::network::Arrivals;
use crate::ppcc::{self, PpccFit};
use crate::random::{StreamId, TraceRandom};
use crate::smc::quantile::sample_quantile;
use crate::special::digamma;

/// Fewer samples are refused.
pub const SAMPLES_MIN: usize = 200;
/// Fewer effectively independent samples are refused.
pub const EFFECTIVE_MIN: f64 = 50.0;
/// Fewer samples beyond a quantile make its error meaningless.
const TAIL_SAMPLES_MIN: f64 = 10.0;

/// Why nothing is fitted.
#[derive(Debug, Clone, PartialEq)]
pub enum FitError {
    /// A sample is not a finite duration above zero.
    NotADuration {
        /// Its position, from 0.
        position: usize,
        /// The sample.
        value: f64,
    },
    /// There are too few.
    TooFewSamples {
        /// Number of samples.
        count: usize,
    },
    /// They depend on each other so much that they are worth too few.
    TooFewEffective {
        /// Effective number of independent samples.
        effective: f64,
    },
    /// All are equal: a constant.
    NoVariation {
        /// The value.
        value: f64,
    },
}

impl core::fmt::Display for FitError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotADuration { position, value } => {
                write!(f, "sample {}: {value} is no duration above zero", position + 1)
            }
            Self::TooFewSamples { count } => {
                write!(f, "{count} samples are too few: at least {SAMPLES_MIN} are needed")
            }
            Self::TooFewEffective { effective } => write!(
                f,
                "the samples are correlated: they are worth {effective:.0} independent ones, and at least \
                 {EFFECTIVE_MIN:.0} are needed"
            ),
            Self::NoVariation { value } => write!(f, "all samples are {value}: use a constant"),
        }
    }
}

impl core::error::Error for FitError {}

/// The sample autocorrelation at lags 1 to `lags`.
#[must_use]
pub fn autocorrelation(sample: &[f64], lags: usize) -> Vec<f64> {
    let n = sample.len();
    let mean = sample.iter().sum::<f64>() / n as f64;
    let covariance = |lag: usize| -> f64 {
        let pairs = sample.iter().zip(&sample[lag..]);
        pairs.map(|(a, b)| (a - mean) * (b - mean)).sum()
    };
    let variance = covariance(0);
    (1..=lags.min(n.saturating_sub(1)))
        .map(|lag| if variance > 0.0 { covariance(lag) / variance } else { 0.0 })
        .collect()
}

/// Number of independent samples whose mean has the same variance (Geyer's initial positive sequence, Statistical
/// Science 1992).
#[must_use]
pub fn effective_sample_size(sample: &[f64]) -> f64 {
    let n = sample.len() as f64;
    let lags = (sample.len() / 4).min(2000);
    let rho = autocorrelation(sample, lags);
    // Sums of neighbours ρ(2k) + ρ(2k+1) are positive for a reversible chain: stop at the first that is not.
    let at = |lag: usize| if lag == 0 { 1.0 } else { rho[lag - 1] };
    let pairs = (0..rho.len() / 2).map(|k| at(2 * k) + at(2 * k + 1));
    let time = 2.0 * pairs.take_while(|pair| *pair > 0.0).sum::<f64>() - 1.0;
    (n / time.max(1.0 / n)).min(n)
}

/// A family fitted to one part of the samples, and judged by the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Name of the family.
    pub family: &'static str,
    /// The fitted distribution.
    pub distribution: Distribution,
    /// Mean log-likelihood of the held-out samples; the higher, the better.
    pub held_out_ln_likelihood: f64,
    /// Relative error of quantiles against the held-out samples: level and error. Levels with too few
    /// samples beyond are left out.
    pub tail_errors: Vec<(f64, f64)>,
    /// The same bounded queue driven by the held-out samples and by the fit.
    pub queue: QueueComparison,
}

/// Loss and p99 of the sojourn time of a queue at 90 % load with 64 places.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueComparison {
    /// Loss with the measured service times, in their order.
    pub measured_loss: f64,
    /// Loss with the fit.
    pub fitted_loss: f64,
    /// p99 with the measured service times.
    pub measured_p99: f64,
    /// p99 with the fit.
    pub fitted_p99: f64,
}

/// All fits, best first, and how independent the samples are.
#[derive(Debug, Clone, PartialEq)]
pub struct FitReport {
    /// Number of samples.
    pub samples: usize,
    /// Autocorrelation at lag 1.
    pub lag_one: f64,
    /// Effective number of independent samples.
    pub effective: f64,
    /// Families by held-out log-likelihood, best first.
    pub fits: Vec<Fit>,
}

/// Samples that can be fitted, a part to train and a part to judge.
///
/// Even-numbered blocks of a hundredth of the samples train, odd ones judge: neighbours, which may be
/// correlated, are mostly on the same side.
struct Halves {
    training: Vec<f64>,
    judge: Judge,
    effective: f64,
}

impl Halves {
    fn of(sample: &[f64]) -> Result<Self, FitError> {
        if let Some(position) = sample.iter().position(|x| !(x.is_finite() && *x > 0.0)) {
            return Err(FitError::NotADuration { position, value: sample[position] });
        }
        if sample.len() < SAMPLES_MIN {
            return Err(FitError::TooFewSamples { count: sample.len() });
        }
        if sample.iter().all(|x| *x == sample[0]) {
            return Err(FitError::NoVariation { value: sample[0] });
        }
        let effective = effective_sample_size(sample);
        if effective < EFFECTIVE_MIN {
            return Err(FitError::TooFewEffective { effective });
        }
        let block = (sample.len() / 100).max(1);
        let side = |odd: bool| -> Vec<f64> {
            let numbered = sample.iter().enumerate();
            numbered.filter(|(index, _)| (index / block % 2 == 1) == odd).map(|(_, x)| *x).collect()
        };
        Ok(Self { training: side(false), judge: Judge::new(sample, side(true)), effective })
    }
}

/// Fits all families to durations in picoseconds, in the order in which they were measured.
///
/// # Errors
/// [`FitError`] when the samples cannot support a fit.
pub fn fit(sample: &[f64]) -> Result<FitReport, FitError> {
    let Halves { training, judge, effective } = Halves::of(sample)?;
    let mut sorted = training.clone();
    sorted.sort_by(f64::total_cmp);
    let candidates = [
        ("empirical quantiles with tail", Some(fit_empirical(&sorted))),
        ("hyper-Erlang", fit_hyper_erlang(&sorted)),
        ("Weibull", fit_weibull(&training)),
        ("Gamma", fit_gamma(&training)),
        ("Lognormal", fit_lognormal(&training)),
    ];
    let mut fits: Vec<Fit> = candidates
        .into_iter()
        .filter_map(|(family, fitted)| fitted.map(|fitted| judge.judge(family, fitted)))
        .collect();
    fits.sort_by(|a, b| b.held_out_ln_likelihood.total_cmp(&a.held_out_ln_likelihood));
    let lag_one = autocorrelation(sample, 1)[0];
    Ok(FitReport { samples: sample.len(), lag_one, effective, fits })
}

/// The procedure of the paper, judged like the other fits.
#[derive(Debug, Clone, PartialEq)]
pub struct PpccReport {
    /// Fits by their probability plots, the highest coefficient first, and what they predict.
    pub fits: Vec<(PpccFit, Fit)>,
    /// Held-out samples and as many variates of the first fit: lower end of each cell, shares.
    pub bihistogram: Vec<(f64, f64, f64)>,
}

/// Cells of the bihistogram.
const BIHISTOGRAM_CELLS: usize = 24;

/// Fits by probability plots, as "Performance Evaluation of the NDN Data Plane Using Statistical Model Checking" does, to
/// the same part of the samples as [`fit`].
///
/// # Errors
/// [`FitError`] when the samples cannot support a fit.
pub fn fit_by_ppcc(sample: &[f64]) -> Result<PpccReport, FitError> {
    let Halves { mut training, judge, .. } = Halves::of(sample)?;
    training.sort_by(f64::total_cmp);
    let fits = ppcc::fit(&training);
    let variates: Vec<f64> = fits.first().map_or_else(Vec::new, |first| {
        let draw = |index| TraceRandom::new(0, 1).draw(StreamId(u32::MAX), index);
        let variate = |index| first.distribution.sample(&mut draw(index));
        (0..judge.held_out.len() as u64).map(variate).collect()
    });
    let bihistogram = ppcc::bihistogram(&judge.held_out, &variates, BIHISTOGRAM_CELLS);
    let judged = |one: PpccFit| {
        let fit = judge.judge(one.family, one.distribution.clone());
        (one, fit)
    };
    Ok(PpccReport { fits: fits.into_iter().map(judged).collect(), bihistogram })
}

struct Judge {
    held_out: Vec<f64>,
    sorted: Vec<f64>,
    resolution: f64,
    mean: f64,
}

impl Judge {
    fn new(all: &[f64], held_out: Vec<f64>) -> Self {
        let mut values = all.to_vec();
        values.sort_by(f64::total_cmp);
        let gaps = values.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0);
        let resolution = gaps.fold(f64::INFINITY, f64::min);
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let mut sorted = held_out.clone();
        sorted.sort_by(f64::total_cmp);
        Self { held_out, sorted, resolution, mean }
    }

    fn judge(&self, family: &'static str, distribution: Distribution) -> Fit {
        let n = self.held_out.len() as f64;
        let likelihood =
            self.held_out.iter().map(|x| self.ln_likelihood(&distribution, *x)).sum::<f64>();
        let tail_errors = [0.5, 0.9, 0.99, 0.999, 0.9999]
            .into_iter()
            .filter(|level| (1.0 - level) * n >= TAIL_SAMPLES_MIN)
            .filter_map(|level| {
                let measured = sample_quantile(&self.sorted, level)?;
                Some((level, quantile(&distribution, level) / measured - 1.0))
            })
            .collect();
        let queue = self.drive_queue(&distribution);
        let held_out_ln_likelihood = likelihood / n;
        Fit { family, distribution, held_out_ln_likelihood, tail_errors, queue }
    }

    /// The likelihood of a measurement is the probability of its cell of the clock's resolution: so that
    /// repeated values do not make a table look infinitely good. A millionth of weight goes to an
    /// exponential, so that one value outside a table's range does not decide alone.
    fn ln_likelihood(&self, distribution: &Distribution, x: f64) -> f64 {
        const FLOOR: f64 = 1e-6;
        let half = 0.5 * self.resolution;
        let cell = if self.resolution < 1e-5 * self.mean {
            exp(distribution.ln_density(x)) * self.resolution
        } else {
            distribution.cdf(x + half) - distribution.cdf(x - half)
        };
        let floor = exp(-x / self.mean) * self.resolution / self.mean;
        log((1.0 - FLOOR) * cell.max(0.0) + FLOOR * floor)
    }

    fn drive_queue(&self, distribution: &Distribution) -> QueueComparison {
        let random = TraceRandom::new(0, 0);
        let measured = queue_of(self.mean, self.held_out.iter().copied());
        let fitted = queue_of(
            self.mean,
            (0..self.held_out.len() as u64)
                .map(|index| distribution.sample(&mut random.draw(StreamId(u32::MAX), index))),
        );
        QueueComparison {
            measured_loss: measured.0,
            fitted_loss: fitted.0,
            measured_p99: measured.1,
            fitted_p99: fitted.1,
        }
    }
}

/// Loss and p99 of the sojourn time with Poisson arrivals at 90 % of capacity and 64 places.
fn queue_of(mean: f64, services: impl Iterator<Item = f64>) -> (f64, f64) {
    const PLACES: usize = 64;
    let arrivals = Arrivals::Renewal(Distribution::Exponential { mean: mean / 0.9 });
    let mut clock = ArrivalClock::default();
    let mut departures = vec![0u64; PLACES];
    let (mut accepted, mut lost, mut free_ps) = (0usize, 0usize, 0u64);
    let mut sojourns = Vec::new();
    for service in services {
        let Some(now_ps) = clock.next(&arrivals, 0, TraceRandom::new(1, 0)) else { break };
        let slot = accepted % PLACES;
        if departures[slot] > now_ps {
            lost += 1;
            continue;
        }
        free_ps = free_ps.max(now_ps) + crate::distribution::to_ps(service);
        departures[slot] = free_ps;
        accepted += 1;
        sojourns.push((free_ps - now_ps) as f64);
    }
    sojourns.sort_by(f64::total_cmp);
    let p99 = sample_quantile(&sojourns, 0.99).unwrap_or(0.0);
    (lost as f64 / (lost + accepted).max(1) as f64, p99)
}

/// The value at which the distribution function reaches `level`.
#[must_use]
pub fn quantile(distribution: &Distribution, level: f64) -> f64 {
    let mut high = distribution.mean().max(1.0);
    while distribution.cdf(high) < level && high < 1e30 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if distribution.cdf(middle) < level { low = middle } else { high = middle }
    }
    high
}

/// Quantiles at equal steps, and an exponential tail with the mean excess of the last samples.
fn fit_empirical(sorted: &[f64]) -> Distribution {
    let n = sorted.len();
    let tail_count = (n / 100).max(20).min(n / 2);
    let body = n - tail_count;
    let cells = (body / 10).clamp(8, 512);
    let quantiles: Vec<f64> = (0..=cells).map(|cell| sorted[cell * (body - 1) / cells]).collect();
    let last = sorted[body - 1];
    let excess = sorted[body..].iter().map(|x| x - last).sum::<f64>() / tail_count as f64;
    Distribution::Empirical(QuantileTable {
        quantiles,
        tail_probability: tail_count as f64 / n as f64,
        tail_mean: excess.max(1e-9 * last),
    })
}

fn mean_of(sample: &[f64], value: impl Fn(f64) -> f64) -> f64 {
    sample.iter().map(|x| value(*x)).sum::<f64>() / sample.len() as f64
}

fn fit_lognormal(sample: &[f64]) -> Option<Distribution> {
    let mu = mean_of(sample, log);
    let sigma = sqrt(mean_of(sample, |x| (log(x) - mu) * (log(x) - mu)));
    (sigma > 0.0).then_some(Distribution::Lognormal { mu, sigma })
}

/// Maximum likelihood: ln k - ψ(k) = ln mean - mean ln.
fn fit_gamma(sample: &[f64]) -> Option<Distribution> {
    let mean = mean_of(sample, |x| x);
    let gap = log(mean) - mean_of(sample, log);
    if gap <= 0.0 {
        return None;
    }
    let shape = root(|shape| gap - (log(shape) - digamma(shape)));
    Some(Distribution::Gamma { shape, scale: mean / shape })
}

/// Maximum likelihood of the shape, on samples scaled by their mean.
fn fit_weibull(sample: &[f64]) -> Option<Distribution> {
    let mean = mean_of(sample, |x| x);
    let scaled: Vec<f64> = sample.iter().map(|x| x / mean).collect();
    let mean_ln = mean_of(&scaled, log);
    let shape = root(|shape| {
        let weight = mean_of(&scaled, |x| pow(x, shape));
        mean_of(&scaled, |x| pow(x, shape) * log(x)) / weight - 1.0 / shape - mean_ln
    });
    let scale = mean * pow(mean_of(&scaled, |x| pow(x, shape)), 1.0 / shape);
    (shape.is_finite() && scale.is_finite()).then_some(Distribution::Weibull { shape, scale })
}

/// The positive root of an ascending function, by bisection of its logarithm.
fn root(value: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (log(1e-3), log(1e5));
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        let at = value(exp(middle));
        if at < 0.0 || at.is_nan() && middle < 0.0 { low = middle } else { high = middle }
    }
    exp(0.5 * (low + high))
}

/// Samples beyond which the EM algorithm works on quantiles of the sample.
const EM_POINTS: usize = 1000;

/// The best of a few numbers of phases by the Bayesian information criterion; each by EM with fixed phases
/// (Thümmler, Buchholz, Telek: "A Novel Approach for Phase-Type Fitting with the EM Algorithm", IEEE TDSC
/// 2006).
fn fit_hyper_erlang(sorted: &[f64]) -> Option<Distribution> {
    const PHASES: [&[u32]; 14] = [
        &[1],
        &[2],
        &[4],
        &[8],
        &[16],
        &[1, 1],
        &[1, 4],
        &[4, 4],
        &[2, 8],
        &[1, 16],
        &[16, 16],
        &[1, 64],
        &[64, 64],
        &[1, 8, 32],
    ];
    let points: Vec<f64> = if sorted.len() <= EM_POINTS {
        sorted.to_vec()
    } else {
        let step = sorted.len() as f64 / EM_POINTS as f64;
        (0..EM_POINTS).map(|i| sorted[((i as f64 + 0.5) * step) as usize]).collect()
    };
    let mut best: Option<(f64, Vec<ErlangBranch>)> = None;
    for phases in PHASES {
        let (branches, ln_likelihood) = expectation_maximization(&points, phases);
        let parameters = 2.0 * phases.len() as f64 - 1.0;
        let criterion = ln_likelihood - 0.5 * parameters * log(points.len() as f64);
        if criterion.is_finite() && best.as_ref().is_none_or(|(other, _)| criterion > *other) {
            best = Some((criterion, branches));
        }
    }
    best.map(|(_, branches)| Distribution::HyperErlang(branches))
}

/// EM over weights and means of branches with the given phases; returns them and the log-likelihood.
fn expectation_maximization(points: &[f64], phases: &[u32]) -> (Vec<ErlangBranch>, f64) {
    let n = points.len() as f64;
    let count = phases.len();
    // Each branch starts at the mean of its part of the sorted points.
    let mut branches: Vec<ErlangBranch> = phases
        .iter()
        .enumerate()
        .map(|(index, phases)| {
            let part = &points[index * points.len() / count..(index + 1) * points.len() / count];
            ErlangBranch { weight: 1.0 / count as f64, phases: *phases, mean: mean_of(part, |x| x) }
        })
        .collect();
    let mut last = f64::NEG_INFINITY;
    for _ in 0..300 {
        let mut sums = vec![(0.0, 0.0); count];
        let mut ln_likelihood = 0.0;
        for x in points {
            let terms: Vec<f64> = branches
                .iter()
                .map(|branch| {
                    let single = ErlangBranch { weight: 1.0, ..*branch };
                    log(branch.weight) + Distribution::HyperErlang(vec![single]).ln_density(*x)
                })
                .collect();
            let total = ln_sum_exp(terms.iter().copied());
            ln_likelihood += total;
            for (sum, term) in sums.iter_mut().zip(&terms) {
                let share = exp(term - total);
                sum.0 += share;
                sum.1 += share * x;
            }
        }
        for (branch, (share, weighted)) in branches.iter_mut().zip(&sums) {
            branch.weight = (share / n).max(1e-12);
            branch.mean = (weighted / share.max(1e-300)).max(1e-3);
        }
        let total: f64 = branches.iter().map(|branch| branch.weight).sum();
        branches.iter_mut().for_each(|branch| branch.weight /= total);
        if ln_likelihood - last < 1e-7 * n {
            return (branches, ln_likelihood);
        }
        last = ln_likelihood;
    }
    (branches, last)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn sample(distribution: &Distribution, count: u64) -> Vec<f64> {
        let random = TraceRandom::new(17, 0);
        (0..count).map(|index| distribution.sample(&mut random.draw(StreamId(5), index))).collect()
    }

    #[test]
    fn parameters_of_families_are_recovered() {
        let gamma =
            fit_gamma(&sample(&Distribution::Gamma { shape: 2.5, scale: 300.0 }, 20_000)).unwrap();
        let Distribution::Gamma { shape, scale } = gamma else { panic!("{gamma:?}") };
        assert!(
            (shape / 2.5 - 1.0).abs() < 0.04 && (scale / 300.0 - 1.0).abs() < 0.04,
            "{gamma:?}"
        );

        let weibull =
            fit_weibull(&sample(&Distribution::Weibull { shape: 1.7, scale: 500.0 }, 20_000));
        let Some(Distribution::Weibull { shape, scale }) = weibull else { panic!("{weibull:?}") };
        assert!((shape / 1.7 - 1.0).abs() < 0.03 && (scale / 500.0 - 1.0).abs() < 0.03);

        let log_normal =
            fit_lognormal(&sample(&Distribution::Lognormal { mu: 13.0, sigma: 0.4 }, 20_000));
        let Some(Distribution::Lognormal { mu, sigma }) = log_normal else {
            panic!("{log_normal:?}")
        };
        assert!((mu - 13.0).abs() < 0.02 && (sigma - 0.4).abs() < 0.02);
    }

    #[test]
    fn probability_plots_find_the_family_and_are_judged_like_other_fits() {
        let weibull = Distribution::Weibull { shape: 1.7, scale: 500_000.0 };
        let report = fit_by_ppcc(&sample(&weibull, 8_000)).unwrap();
        let (first, judged) = &report.fits[0];
        assert_eq!(first.family, "Weibull");
        assert!((first.shape.unwrap().1 - 1.7).abs() < 0.1, "{first:?}");
        let p99 = judged.tail_errors.iter().find(|(level, _)| *level == 0.99).unwrap().1;
        assert!(p99.abs() < 0.05, "{p99}");
        let apart: f64 = report.bihistogram.iter().map(|(_, a, b)| (a - b).abs()).sum();
        assert!(apart < 0.15, "{apart}");
        let (_, normal) = report.fits.iter().find(|(one, _)| one.family == "normal").unwrap();
        assert!(normal.held_out_ln_likelihood < judged.held_out_ln_likelihood);
    }

    #[test]
    fn the_true_family_or_the_table_ranks_first() {
        let mixture = Distribution::HyperErlang(vec![
            ErlangBranch { weight: 0.8, phases: 16, mean: 400_000.0 },
            ErlangBranch { weight: 0.2, phases: 16, mean: 2_000_000.0 },
        ]);
        let report = fit(&sample(&mixture, 8_000)).unwrap();
        assert!(report.effective > 7_000.0, "{}", report.effective);
        assert!(report.lag_one.abs() < 0.05);
        let families: Vec<&str> = report.fits.iter().map(|fit| fit.family).collect();
        assert_eq!(families[0], "hyper-Erlang", "{families:?}");
        assert_eq!(families[1], "empirical quantiles with tail", "{families:?}");
        let best = &report.fits[0];
        assert!(
            best.tail_errors.iter().all(|(_, error)| error.abs() < 0.1),
            "{:?}",
            best.tail_errors
        );
        assert!(
            (best.queue.fitted_p99 / best.queue.measured_p99 - 1.0).abs() < 0.4,
            "{:?}",
            best.queue
        );
        let gamma = report.fits.iter().find(|fit| fit.family == "Gamma").unwrap();
        assert!(gamma.held_out_ln_likelihood < best.held_out_ln_likelihood - 0.1);
    }

    #[test]
    fn a_coarse_clock_does_not_favour_the_table() {
        // Samples rounded to a tenth of their mean: the table has atoms, the truth is smooth.
        let truth = Distribution::Gamma { shape: 3.0, scale: 100_000.0 };
        let rounded: Vec<f64> = sample(&truth, 6_000)
            .iter()
            .map(|x| ((x / 30_000.0).round() * 30_000.0).max(30_000.0))
            .collect();
        let report = fit(&rounded).unwrap();
        let of = |family: &str| {
            let fit = report.fits.iter().find(|fit| fit.family == family).unwrap();
            fit.held_out_ln_likelihood
        };
        let table = of("empirical quantiles with tail");
        assert!((of("Gamma") - table).abs() < 0.1, "{} {table}", of("Gamma"));
    }

    #[test]
    fn samples_that_support_no_fit_are_refused() {
        assert_eq!(fit(&[5.0; 10]), Err(FitError::TooFewSamples { count: 10 }));
        assert!(matches!(fit(&[5.0; 500]), Err(FitError::NoVariation { .. })));
        let mut bad = vec![5.0; 500];
        bad[7] = f64::NAN;
        assert!(matches!(fit(&bad), Err(FitError::NotADuration { position: 7, .. })));
        // A slow wave: hundreds of samples, a handful of independent ones.
        let wave: Vec<f64> = (0..500).map(|i| 10.0 + (f64::from(i) / 80.0).sin()).collect();
        assert!(matches!(fit(&wave), Err(FitError::TooFewEffective { .. })), "{:?}", fit(&wave));
    }

    #[test]
    fn effective_size_of_an_autoregression_is_as_theory_says() {
        // AR(1) with coefficient a: n (1 - a) / (1 + a).
        let mut draw = TraceRandom::new(3, 0).draw(StreamId(0), 0);
        let mut x = 0.0;
        let series: Vec<f64> = (0..20_000)
            .map(|_| {
                x = 0.6 * x + draw.normal();
                x
            })
            .collect();
        assert!((autocorrelation(&series, 1)[0] - 0.6).abs() < 0.03);
        let effective = effective_sample_size(&series);
        assert!((effective / 5_000.0 - 1.0).abs() < 0.2, "{effective}");
    }
}
