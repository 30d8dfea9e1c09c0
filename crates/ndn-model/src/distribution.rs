//! Distributions of service times and intervals, in picoseconds.

use libm::{exp, log, pow, sqrt};

use crate::random::{Draw, to_unit};
use crate::special::{ln_gamma, normal_cdf, regularized_gamma};

/// A distribution of a duration. All durations are in picoseconds.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(f64),
    /// Exponential.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// Uniform between two bounds.
    Uniform {
        /// Lower bound.
        low: f64,
        /// Upper bound.
        high: f64,
    },
    /// Weibull.
    Weibull {
        /// Shape; 1 is exponential.
        shape: f64,
        /// Scale.
        scale: f64,
    },
    /// Gamma.
    Gamma {
        /// Shape.
        shape: f64,
        /// Scale: the mean is shape × scale.
        scale: f64,
    },
    /// The exponential of a normal variate.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// A mixture of Erlang distributions.
    HyperErlang(Vec<ErlangBranch>),
    /// Quantiles of measurements with an explicit tail.
    Empirical(QuantileTable),
}

/// One branch of a hyper-Erlang distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErlangBranch {
    /// Probability of the branch.
    pub weight: f64,
    /// Number of exponential phases.
    pub phases: u32,
    /// Mean of the branch.
    pub mean: f64,
}

/// Equally likely cells between quantiles, and an exponential tail beyond the last one.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantileTable {
    /// The quantiles at levels 0, (1 - tail)/m, …, 1 - tail, for m cells.
    pub quantiles: Vec<f64>,
    /// Probability of the tail.
    pub tail_probability: f64,
    /// Mean excess over the last quantile, in the tail.
    pub tail_mean: f64,
}

impl Distribution {
    /// One variate, at least one picosecond: time always advances.
    #[inline]
    #[must_use]
    pub fn sample_ps(&self, draw: &mut Draw, factor: f64) -> u64 {
        to_ps(self.sample(draw) * factor)
    }

    /// One variate.
    #[inline]
    #[must_use]
    pub fn sample(&self, draw: &mut Draw) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Exponential { mean } => -mean * log(draw.unit()),
            Self::Uniform { low, high } => low + (high - low) * draw.unit(),
            Self::Empirical(table) => table.sample(draw),
            Self::Weibull { .. }
            | Self::Gamma { .. }
            | Self::Lognormal { .. }
            | Self::HyperErlang(_) => self.sample_family(draw),
        }
    }

    fn sample_family(&self, draw: &mut Draw) -> f64 {
        match self {
            Self::Weibull { shape, scale } => scale * pow(-log(draw.unit()), 1.0 / shape),
            Self::Gamma { shape, scale } => scale * sample_gamma(*shape, draw),
            Self::Lognormal { mu, sigma } => exp(mu + sigma * draw.normal()),
            Self::HyperErlang(branches) => {
                let mut rest = draw.unit();
                let last = branches.len() - 1;
                let branch = branches.iter().enumerate().find(|(index, branch)| {
                    rest -= branch.weight;
                    rest < 0.0 || *index == last
                });
                let Some((_, branch)) = branch else { return 0.0 };
                let phases: f64 = (0..branch.phases).map(|_| -log(draw.unit())).sum();
                phases * branch.mean / f64::from(branch.phases)
            }
            Self::Constant(_)
            | Self::Exponential { .. }
            | Self::Uniform { .. }
            | Self::Empirical(_) => self.sample(draw),
        }
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Exponential { mean } => *mean,
            Self::Uniform { low, high } => 0.5 * (low + high),
            Self::Weibull { shape, scale } => scale * exp(ln_gamma(1.0 + 1.0 / shape)),
            Self::Gamma { shape, scale } => shape * scale,
            Self::Lognormal { mu, sigma } => exp(mu + 0.5 * sigma * sigma),
            Self::HyperErlang(branches) => branches.iter().map(|b| b.weight * b.mean).sum(),
            Self::Empirical(table) => table.mean(),
        }
    }

    /// No variate is below this.
    #[must_use]
    pub fn minimum(&self) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Uniform { low, .. } => *low,
            Self::Empirical(table) => table.quantiles[0],
            Self::Exponential { .. }
            | Self::Weibull { .. }
            | Self::Gamma { .. }
            | Self::Lognormal { .. }
            | Self::HyperErlang(_) => 0.0,
        }
    }

    /// The second moment.
    #[must_use]
    pub fn second_moment(&self) -> f64 {
        match self {
            Self::Constant(value) => value * value,
            Self::Exponential { mean } => 2.0 * mean * mean,
            Self::Uniform { low, high } => (low * low + low * high + high * high) / 3.0,
            Self::Weibull { shape, scale } => scale * scale * exp(ln_gamma(1.0 + 2.0 / shape)),
            Self::Gamma { shape, scale } => shape * (shape + 1.0) * scale * scale,
            Self::Lognormal { mu, sigma } => exp(2.0 * mu + 2.0 * sigma * sigma),
            Self::HyperErlang(branches) => branches
                .iter()
                .map(|b| b.weight * b.mean * b.mean * (1.0 + 1.0 / f64::from(b.phases)))
                .sum(),
            Self::Empirical(table) => table.second_moment(),
        }
    }

    /// The logarithm of the density at `x`; minus infinity where there is none.
    #[must_use]
    pub fn ln_density(&self, x: f64) -> f64 {
        if x <= 0.0 && !matches!(self, Self::Uniform { .. } | Self::Empirical(_)) {
            return f64::NEG_INFINITY;
        }
        match self {
            Self::Constant(_) => f64::NEG_INFINITY,
            Self::Exponential { mean } => -log(*mean) - x / mean,
            Self::Uniform { low, high } => {
                if (*low..=*high).contains(&x) {
                    -log(high - low)
                } else {
                    f64::NEG_INFINITY
                }
            }
            Self::Weibull { shape, scale } => {
                let ratio = x / scale;
                log(shape / scale) + (shape - 1.0) * log(ratio) - pow(ratio, *shape)
            }
            Self::Gamma { shape, scale } => ln_gamma_density(x, *shape, *scale),
            Self::Lognormal { mu, sigma } => {
                let z = (log(x) - mu) / sigma;
                -0.5 * z * z - log(x * sigma) - 0.918_938_533_204_672_8
            }
            Self::HyperErlang(branches) => ln_sum_exp(branches.iter().map(|b| {
                let phases = f64::from(b.phases);
                log(b.weight) + ln_gamma_density(x, phases, b.mean / phases)
            })),
            Self::Empirical(table) => table.ln_density(x),
        }
    }

    /// P(X <= x).
    #[must_use]
    pub fn cdf(&self, x: f64) -> f64 {
        match self {
            Self::Constant(value) => f64::from(u8::from(x >= *value)),
            Self::Exponential { mean } => 1.0 - exp(-x.max(0.0) / mean),
            Self::Uniform { low, high } => ((x - low) / (high - low)).clamp(0.0, 1.0),
            Self::Weibull { shape, scale } => 1.0 - exp(-pow(x.max(0.0) / scale, *shape)),
            Self::Gamma { shape, scale } => regularized_gamma(*shape, x / scale),
            Self::Lognormal { mu, sigma } => {
                if x <= 0.0 {
                    0.0
                } else {
                    normal_cdf((log(x) - mu) / sigma)
                }
            }
            Self::HyperErlang(branches) => branches
                .iter()
                .map(|b| {
                    let phases = f64::from(b.phases);
                    b.weight * regularized_gamma(phases, x * phases / b.mean)
                })
                .sum(),
            Self::Empirical(table) => table.cdf(x),
        }
    }

    /// The first reason why the parameters make no distribution of a duration.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let positive = |value: &f64| value.is_finite() && *value > 0.0;
        match self {
            Self::Constant(value) if !(value.is_finite() && *value >= 0.0) => {
                Some("a constant is finite and not negative")
            }
            Self::Exponential { mean } if !positive(mean) => {
                Some("a mean is finite and above zero")
            }
            Self::Uniform { low, high } if !(*low >= 0.0 && high.is_finite() && low < high) => {
                Some("bounds are finite, not negative and in order")
            }
            Self::Weibull { shape, scale } | Self::Gamma { shape, scale }
                if !(positive(shape) && positive(scale)) =>
            {
                Some("shape and scale are finite and above zero")
            }
            Self::Lognormal { mu, sigma } if !(mu.is_finite() && positive(sigma)) => {
                Some("mu is finite and sigma above zero")
            }
            Self::HyperErlang(branches) => {
                let weights: f64 = branches.iter().map(|b| b.weight).sum();
                let sound =
                    branches.iter().all(|b| b.weight >= 0.0 && b.phases > 0 && positive(&b.mean));
                (!sound || (weights - 1.0).abs() > 1e-9)
                    .then_some("weights add up to 1, phases and means are above zero")
            }
            Self::Empirical(table) => table.fault(),
            Self::Constant(_)
            | Self::Exponential { .. }
            | Self::Uniform { .. }
            | Self::Weibull { .. }
            | Self::Gamma { .. }
            | Self::Lognormal { .. } => None,
        }
    }
}

impl QuantileTable {
    pub(crate) fn sample(&self, draw: &mut Draw) -> f64 {
        let position = draw.unit() * self.scale();
        let cell = position as usize;
        if cell + 1 >= self.quantiles.len() {
            return self.sample_tail(draw);
        }
        let (low, high) = (self.quantiles[cell], self.quantiles[cell + 1]);
        low + (high - low) * (position - cell as f64)
    }

    /// A variate of the tail, by the second word of the draw.
    pub(crate) fn sample_tail(&self, draw: &mut Draw) -> f64 {
        self.last() - self.tail_mean * log(to_unit(draw.bits()))
    }

    /// A uniform number times this is a position among the cells, or beyond them in the tail.
    pub(crate) fn scale(&self) -> f64 {
        (self.quantiles.len() - 1) as f64 / (1.0 - self.tail_probability)
    }

    fn cell_probability(&self) -> f64 {
        (1.0 - self.tail_probability) / (self.quantiles.len() - 1) as f64
    }

    fn last(&self) -> f64 {
        self.quantiles[self.quantiles.len() - 1]
    }

    fn mean(&self) -> f64 {
        let cells: f64 = self.quantiles.windows(2).map(|w| 0.5 * (w[0] + w[1])).sum();
        cells * self.cell_probability() + self.tail_probability * (self.last() + self.tail_mean)
    }

    fn second_moment(&self) -> f64 {
        let cells: f64 = self
            .quantiles
            .windows(2)
            .map(|w| (w[0] * w[0] + w[0] * w[1] + w[1] * w[1]) / 3.0)
            .sum();
        let (last, excess) = (self.last(), self.tail_mean);
        cells * self.cell_probability()
            + self.tail_probability * (last * last + 2.0 * last * excess + 2.0 * excess * excess)
    }

    fn ln_density(&self, x: f64) -> f64 {
        let last = self.last();
        if x > last {
            return log(self.tail_probability / self.tail_mean) - (x - last) / self.tail_mean;
        }
        if x < self.quantiles[0] {
            return f64::NEG_INFINITY;
        }
        // Repeated quantiles are an atom: all its cells share the resolution of the clock, 1 ps.
        let begin = self.quantiles.partition_point(|q| *q < x).saturating_sub(1);
        let end = self
            .quantiles
            .partition_point(|q| *q <= x)
            .min(self.quantiles.len() - 1)
            .max(begin + 1);
        let width = (self.quantiles[end] - self.quantiles[begin]).max(1.0);
        log((end - begin) as f64 * self.cell_probability() / width)
    }

    fn cdf(&self, x: f64) -> f64 {
        let last = self.last();
        if x >= last {
            return 1.0 - self.tail_probability * exp(-(x - last) / self.tail_mean);
        }
        let above = self.quantiles.partition_point(|q| *q <= x);
        if above == 0 {
            return 0.0;
        }
        let (low, high) = (self.quantiles[above - 1], self.quantiles[above]);
        self.cell_probability() * ((above - 1) as f64 + (x - low) / (high - low))
    }

    fn fault(&self) -> Option<&'static str> {
        let sorted = self.quantiles.windows(2).all(|w| w[0] <= w[1]);
        let finite = self.quantiles.iter().all(|q| q.is_finite() && *q >= 0.0);
        if self.quantiles.len() < 2 || !sorted || !finite {
            return Some("quantiles are two or more finite durations in ascending order");
        }
        let tail = (0.0..1.0).contains(&self.tail_probability)
            && self.tail_mean.is_finite()
            && (self.tail_mean > 0.0 || self.tail_probability == 0.0);
        (!tail).then_some("the tail has a probability below 1 and a mean above zero")
    }
}

/// A variate is cut off here, at 1000 s: sums of times stay far from the end of 64 bits.
const VARIATE_MAX: f64 = 1e15;

/// Rounds to whole picoseconds, at least one.
#[inline]
#[must_use]
pub fn to_ps(duration: f64) -> u64 {
    // Above 2^52 the unit of a number's last bit is one: a sum has the rounded duration in its fraction. A
    // conversion by `as` would need more instructions, because it checks for NaN. Durations are never NaN.
    const ONE: f64 = (1u64 << 52) as f64;
    ((duration.clamp(1.0, VARIATE_MAX) + ONE).to_bits() & ((1 << 52) - 1)).max(1)
}

fn ln_gamma_density(x: f64, shape: f64, scale: f64) -> f64 {
    (shape - 1.0) * log(x / scale) - x / scale - ln_gamma(shape) - log(scale)
}

/// ln Σ exp(term), without overflow.
pub(crate) fn ln_sum_exp(terms: impl Iterator<Item = f64> + Clone) -> f64 {
    let top = terms.clone().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + log(terms.map(|term| exp(term - top)).sum())
}

/// A gamma variate with scale 1 (Marsaglia, Tsang: "A Simple Method for Generating Gamma Variables", 2000).
fn sample_gamma(shape: f64, draw: &mut Draw) -> f64 {
    if shape < 1.0 {
        let boost = pow(draw.unit(), 1.0 / shape);
        return boost * sample_gamma(shape + 1.0, draw);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / sqrt(9.0 * d);
    loop {
        let normal = draw.normal();
        let v = 1.0 + c * normal;
        if v <= 0.0 {
            continue;
        }
        let cube = v * v * v;
        if log(draw.unit()) < 0.5 * normal * normal + d - d * cube + d * log(cube) {
            return d * cube;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{StreamId, TraceRandom};

    fn families() -> Vec<Distribution> {
        vec![
            Distribution::Constant(700.0),
            Distribution::Exponential { mean: 700.0 },
            Distribution::Uniform { low: 100.0, high: 900.0 },
            Distribution::Weibull { shape: 1.7, scale: 500.0 },
            Distribution::Gamma { shape: 2.5, scale: 300.0 },
            Distribution::Gamma { shape: 0.6, scale: 300.0 },
            Distribution::Lognormal { mu: 6.0, sigma: 0.5 },
            Distribution::HyperErlang(vec![
                ErlangBranch { weight: 0.7, phases: 4, mean: 300.0 },
                ErlangBranch { weight: 0.3, phases: 1, mean: 2000.0 },
            ]),
            Distribution::Empirical(QuantileTable {
                quantiles: vec![100.0, 200.0, 300.0, 500.0, 1000.0],
                tail_probability: 0.05,
                tail_mean: 800.0,
            }),
        ]
    }

    #[test]
    fn samples_have_the_stated_moments_and_distribution() {
        for family in families() {
            assert_eq!(family.fault(), None);
            let count = 40_000u32;
            let random = TraceRandom::new(5, 0);
            let sample: Vec<f64> = (0..count)
                .map(|index| family.sample(&mut random.draw(StreamId(3), u64::from(index))))
                .collect();
            assert!(sample.iter().all(|x| *x >= family.minimum()), "{family:?}");
            let n = f64::from(count);
            let mean = sample.iter().sum::<f64>() / n;
            let second = sample.iter().map(|x| x * x).sum::<f64>() / n;
            let sigma = (second - mean * mean).max(0.0).sqrt();
            assert!((mean - family.mean()).abs() <= 5.0 * sigma / n.sqrt() + 1e-9, "{family:?}");
            assert!((second / family.second_moment() - 1.0).abs() < 0.12, "{family:?} {second}");
            for x in [150.0, 400.0, 800.0, 1500.0] {
                let observed = sample.iter().filter(|value| **value <= x).count() as f64 / n;
                assert!((observed - family.cdf(x)).abs() < 0.012, "{family:?} at {x}");
            }
        }
    }

    #[test]
    fn densities_integrate_to_the_distribution_function() {
        for family in families().into_iter().skip(1) {
            let steps = 200_000;
            let (low, high) = (0.01, 1200.0);
            let width = (high - low) / f64::from(steps);
            let integral: f64 = (0..steps)
                .map(|i| exp(family.ln_density(low + (f64::from(i) + 0.5) * width)) * width)
                .sum();
            let expected = family.cdf(high) - family.cdf(low);
            assert!((integral - expected).abs() < 2e-3, "{family:?}: {integral} {expected}");
        }
    }

    #[test]
    fn impossible_parameters_are_named() {
        assert!(Distribution::Exponential { mean: 0.0 }.fault().is_some());
        assert!(Distribution::Constant(f64::NAN).fault().is_some());
        assert!(Distribution::Uniform { low: 2.0, high: 1.0 }.fault().is_some());
        assert!(Distribution::HyperErlang(vec![]).fault().is_some());
        assert_eq!([to_ps(0.0), to_ps(-1.0), to_ps(1.2), to_ps(2.6)], [1, 1, 1, 3]);
        assert_eq!(to_ps(123_456_789_012.3), 123_456_789_012);
        assert_eq!(to_ps(f64::INFINITY), 1_000_000_000_000_000);
    }
}
