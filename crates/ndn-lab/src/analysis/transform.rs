//! Transformations of responses whose scatter changes with their size (Box and Cox: "An Analysis of Transformations",
//! JRSS B 26(2), 1964).

use libm::{exp, expm1, log, pow};

use super::observation::Observation;

/// Half of the quantile 0.95 of chi-squared with one degree of freedom.
const HALF_CHI_SQUARED: f64 = 1.920_729_410_347_062;
const LAMBDA_MAX: f64 = 3.0;

/// A scale of analysis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Transform {
    /// As measured.
    None,
    /// Natural logarithm.
    Log,
    /// A power other than 0 and 1.
    Power(f64),
}

impl Transform {
    /// A response on this scale.
    #[must_use]
    pub fn apply(self, value: f64) -> f64 {
        match self {
            Self::None => value,
            Self::Log => log(value),
            Self::Power(lambda) => pow(value, lambda),
        }
    }

    /// The response whose value on this scale is `value`.
    #[must_use]
    pub fn invert(self, value: f64) -> f64 {
        match self {
            Self::None => value,
            Self::Log => exp(value),
            // Ends of intervals may lie beyond the scale.
            Self::Power(lambda) => pow(value.max(0.0), 1.0 / lambda),
        }
    }

    /// Whether a greater response has a smaller value on this scale.
    #[must_use]
    pub fn is_decreasing(self) -> bool {
        matches!(self, Self::Power(lambda) if lambda < 0.0)
    }

    /// Name of a response on this scale.
    #[must_use]
    pub fn name(self, response: &str) -> String {
        match self {
            Self::None => response.to_owned(),
            Self::Log => format!("ln {response}"),
            Self::Power(lambda) => format!("{response}^{lambda}"),
        }
    }

    /// Unit of a response on this scale.
    #[must_use]
    pub fn unit(self, unit: &str) -> String {
        match self {
            Self::None => unit.to_owned(),
            Self::Log => format!("(ln {unit})"),
            Self::Power(lambda) => format!("({unit}^{lambda})"),
        }
    }
}

/// The power that makes the scatter within cells most normal and equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoxCox {
    /// Maximum likelihood.
    pub lambda: f64,
    /// Its 95 % interval.
    pub interval: (f64, f64),
}

impl BoxCox {
    /// The simplest scale in the interval: no change, logarithm, square root, reciprocal, else a tenth.
    #[must_use]
    pub fn advice(self) -> Transform {
        let (low, high) = self.interval;
        let holds = |lambda: f64| (low..=high).contains(&lambda);
        if holds(1.0) {
            Transform::None
        } else if holds(0.0) {
            Transform::Log
        } else if let Some(lambda) = [0.5, -1.0, -0.5, 2.0].into_iter().find(|one| holds(*one)) {
            Transform::Power(lambda)
        } else {
            match libm::round(10.0 * self.lambda) / 10.0 {
                0.0 => Transform::Log,
                lambda => Transform::Power(lambda),
            }
        }
    }
}

/// The estimate over cells with replications; `None` if responses are not all positive, hardly vary, or are too few.
#[must_use]
pub fn box_cox(observations: &[Observation]) -> Option<BoxCox> {
    let values = || observations.iter().map(|one| one.value);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let cells = observations.iter().map(|one| one.cell).max()? + 1;
    let mut counts = vec![0usize; cells];
    observations.iter().for_each(|one| counts[one.cell] += 1);
    let freedom: usize = counts.iter().map(|count| count.saturating_sub(1)).sum();
    if least <= 0.0 || most / least < 1.01 || freedom < 8 {
        return None;
    }
    let likelihood = Likelihood::new(observations, &counts);
    likelihood.of(1.0).is_finite().then_some(())?;
    // The likelihood has one maximum in practice: a grid, then golden section around its best point.
    let grid = (-30..=30).map(|step| 0.1 * f64::from(step));
    let best = grid.max_by(|a, b| likelihood.of(*a).total_cmp(&likelihood.of(*b)))?;
    let (mut low, mut high) = (best - 0.1, best + 0.1);
    for _ in 0..60 {
        let third = (high - low) / 3.0;
        if likelihood.of(low + third) < likelihood.of(high - third) {
            low += third;
        } else {
            high -= third;
        }
    }
    let lambda = (0.5 * (low + high)).clamp(-LAMBDA_MAX, LAMBDA_MAX);
    let floor = likelihood.of(lambda) - HALF_CHI_SQUARED;
    let edge = |mut outside: f64| {
        if likelihood.of(outside) > floor {
            return outside;
        }
        let mut inside = lambda;
        for _ in 0..60 {
            let middle = 0.5 * (inside + outside);
            *(if likelihood.of(middle) > floor { &mut inside } else { &mut outside }) = middle;
        }
        inside
    };
    Some(BoxCox { lambda, interval: (edge(-LAMBDA_MAX), edge(LAMBDA_MAX)) })
}

/// Profile likelihood of a power, given a mean for each cell.
struct Likelihood {
    logarithms: Vec<(usize, f64)>,
    counts: Vec<f64>,
    sum: f64,
}

impl Likelihood {
    fn new(observations: &[Observation], counts: &[usize]) -> Self {
        // Cells that ran once say nothing of the scatter.
        let used = observations.iter().filter(|one| counts[one.cell] > 1);
        let logarithms: Vec<(usize, f64)> = used.map(|one| (one.cell, log(one.value))).collect();
        let sum = logarithms.iter().map(|(_, value)| value).sum();
        Self { logarithms, counts: counts.iter().map(|count| *count as f64).collect(), sum }
    }

    fn of(&self, lambda: f64) -> f64 {
        let n = self.logarithms.len() as f64;
        // Relative to the geometric mean: powers stay within range.
        let center = self.sum / n;
        let scaled = |value: f64| {
            let value = value - center;
            if lambda == 0.0 { value } else { expm1(lambda * value) / lambda }
        };
        let mut means = vec![0.0; self.counts.len()];
        for (cell, value) in &self.logarithms {
            means[*cell] += scaled(*value) / self.counts[*cell];
        }
        let squares: f64 = self
            .logarithms
            .iter()
            .map(|(cell, value)| scaled(*value) - means[*cell])
            .map(|rest| rest * rest)
            .sum();
        -0.5 * n * log(squares / n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndn_model::random::{StreamId, TraceRandom};

    fn observations(scale: impl Fn(f64) -> f64) -> Vec<Observation> {
        let random = TraceRandom::new(5, 0);
        let one = |index: usize| {
            let noise = random.draw(StreamId(0), index as u64).normal();
            Observation {
                cell: index / 10,
                block: 0,
                value: scale((index / 10) as f64 + 0.3 * noise),
            }
        };
        (0..80).map(one).collect()
    }

    #[test]
    fn the_scale_of_the_errors_is_found() {
        let of = |scale: fn(f64) -> f64| box_cox(&observations(scale)).unwrap();
        assert_eq!(of(|x| 20.0 + x).advice(), Transform::None);
        assert_eq!(of(exp).advice(), Transform::Log);
        let squared = of(|x| (3.0 + x) * (3.0 + x));
        assert_eq!(squared.advice(), Transform::Power(0.5), "{squared:?}");
        assert!(squared.interval.0 < squared.lambda && squared.lambda < squared.interval.1);
        assert_eq!(box_cox(&observations(|x| x - 3.0)), None, "negative responses");
    }

    /// scipy 1.17: `scipy.stats.boxcox([1.2, 3.4, 2.2, 9.1, 4.4, 15.0, 2.9, 6.0, 1.1, 7.7, 30.0, 5.2], alpha=0.05)`.
    #[test]
    fn the_estimate_of_a_single_cell_is_that_of_scipy() {
        let values = [1.2, 3.4, 2.2, 9.1, 4.4, 15.0, 2.9, 6.0, 1.1, 7.7, 30.0, 5.2];
        let all: Vec<_> =
            values.iter().map(|value| Observation { cell: 0, block: 0, value: *value }).collect();
        let found = box_cox(&all).unwrap();
        let (lambda, low, high) = (-0.096_546_73, -0.699_825_89, 0.468_728_75);
        assert!((found.lambda - lambda).abs() < 1e-5, "{found:?}");
        assert!(
            (found.interval.0 - low).abs() < 1e-4 && (found.interval.1 - high).abs() < 1e-4,
            "{found:?}"
        );
    }
}
