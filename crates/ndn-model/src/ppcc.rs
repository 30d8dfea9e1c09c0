//! The fitting procedure of "Performance Evaluation of the NDN Data Plane Using Statistical Model Checking": the
//! probability plot correlation coefficient (PPCC) of the normal distribution and of families, the Box–Cox
//! transformation, the bihistogram.
//!
//! A probability plot has the samples in order over the medians of order statistics of a distribution; its correlation
//! coefficient is 1 for a perfect fit (Filliben: "The Probability Plot Correlation Coefficient Test for Normality",
//! 1975). Location and scale are the line through the plot, the shape is the one with the highest coefficient (NIST/SEMATECH
//! e-Handbook, 1.3.3.22 and 1.3.3.23). A coefficient says little about the tail that queues depend on: compare the errors
//! of quantiles and of the driven queue.

use libm::{exp, log, pow, sqrt};

use crate::distribution::{Distribution, QuantileTable};
use crate::special::{normal_quantile, regularized_gamma};

/// Order statistics of a plot: of more samples, as many at equal steps are taken.
pub const POINTS_MAX: usize = 1000;
/// Cells of a fitted table, and the probability beyond them.
const CELLS: u32 = 512;
const TAIL: f64 = 0.01;

/// A family and its fit by the highest PPCC.
#[derive(Debug, Clone, PartialEq)]
pub struct PpccFit {
    /// Name of the family.
    pub family: &'static str,
    /// Name and value of the shape, or λ of Box–Cox; none for the normal distribution.
    pub shape: Option<(&'static str, f64)>,
    /// Correlation coefficient of its probability plot.
    pub ppcc: f64,
    /// The distribution, as quantiles: families have a location here.
    pub distribution: Distribution,
}

/// Medians of the order statistics of `count` uniform numbers, by Filliben's approximation.
fn medians(count: usize) -> Vec<f64> {
    let n = count as f64;
    let last = pow(0.5, 1.0 / n);
    (1..=count)
        .map(|i| match i {
            1 => 1.0 - last,
            i if i == count => last,
            i => (i as f64 - 0.3175) / (n + 0.365),
        })
        .collect()
}

/// Correlation of two rows of numbers, and intercept and slope of the second over the first.
fn line(x: &[f64], y: &[f64]) -> (f64, f64, f64) {
    let n = x.len() as f64;
    let (mx, my) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        xx += (x - mx) * (x - mx);
        xy += (x - mx) * (y - my);
        yy += (y - my) * (y - my);
    }
    let slope = xy / xx;
    (xy / sqrt(xx * yy), my - slope * mx, slope)
}

/// The argument between `low` and `high` with the largest value: a scan, then golden sections around the best.
fn argmax(low: f64, high: f64, value: impl Fn(f64) -> f64) -> f64 {
    const STEPS: u32 = 60;
    let at = |step: u32| low + (high - low) * f64::from(step) / f64::from(STEPS);
    let best = (0..=STEPS).max_by(|a, b| value(at(*a)).total_cmp(&value(at(*b)))).unwrap_or(0);
    let ratio = 0.5 * (sqrt(5.0) - 1.0);
    let (mut left, mut right) = (at(best.saturating_sub(1)), at((best + 1).min(STEPS)));
    let mut inner = [right - ratio * (right - left), left + ratio * (right - left)];
    let mut values = inner.map(&value);
    while right - left > 1e-9 * (1.0 + left.abs()) {
        if values[0] >= values[1] {
            right = inner[1];
            inner = [right - ratio * (right - left), inner[0]];
            values = [value(inner[0]), values[0]];
        } else {
            left = inner[0];
            inner = [inner[1], left + ratio * (right - left)];
            values = [values[1], value(inner[1])];
        }
    }
    0.5 * (left + right)
}

/// The quantile of a gamma distribution with scale 1: bisection in the logarithm.
fn gamma_quantile(shape: f64, level: f64) -> f64 {
    let (mut low, mut high) = (-700.0, log(shape + 40.0 * sqrt(shape) + 60.0));
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if regularized_gamma(shape, exp(middle)) < level { low = middle } else { high = middle }
    }
    exp(0.5 * (low + high))
}

/// At most [`POINTS_MAX`] of sorted samples, at equal steps.
fn points(sorted: &[f64]) -> Vec<f64> {
    let count = sorted.len().min(POINTS_MAX);
    (0..count).map(|i| sorted[(2 * i + 1) * sorted.len() / (2 * count)]).collect()
}

/// A table of a distribution that is given by its quantiles.
fn table(quantile: impl Fn(f64) -> f64) -> Distribution {
    let at = |level: f64| quantile(level).max(0.0);
    let body = 1.0 - TAIL;
    // The ends of unbounded families stay where samples are.
    let levels = (0..=CELLS).map(|cell| (body * f64::from(cell) / f64::from(CELLS)).max(1e-4));
    let mut quantiles: Vec<f64> = levels.map(at).collect();
    for index in 1..quantiles.len() {
        quantiles[index] = quantiles[index].max(quantiles[index - 1]);
    }
    let last = at(body);
    let excess = (0..CELLS)
        .map(|step| at(body + TAIL * (f64::from(step) + 0.5) / f64::from(CELLS)) - last)
        .sum::<f64>()
        / f64::from(CELLS);
    Distribution::Empirical(QuantileTable {
        quantiles,
        tail_probability: TAIL,
        tail_mean: excess.max(1e-9 * last.max(1.0)),
    })
}

/// PPCC of the normal distribution, location and scale of the line through the plot.
#[must_use]
pub fn normal_ppcc(sorted: &[f64]) -> (f64, f64, f64) {
    let scores: Vec<f64> = medians(sorted.len()).into_iter().map(normal_quantile).collect();
    line(&scores, sorted)
}

/// The Box–Cox transformation: (x^λ - 1) / λ, and ln x for λ = 0.
#[must_use]
pub fn box_cox(x: f64, lambda: f64) -> f64 {
    if lambda == 0.0 { log(x) } else { (pow(x, lambda) - 1.0) / lambda }
}

/// Its inverse; 0 below what a transformed value can be.
#[must_use]
pub fn box_cox_inverse(y: f64, lambda: f64) -> f64 {
    if lambda == 0.0 {
        return exp(y);
    }
    let power = lambda * y + 1.0;
    if power > 0.0 {
        pow(power, 1.0 / lambda)
    } else if lambda > 0.0 {
        0.0
    } else {
        f64::MAX
    }
}

/// λ of the Box–Cox transformation whose result has the highest PPCC of the normal distribution.
#[must_use]
pub fn box_cox_lambda(sorted: &[f64]) -> f64 {
    let scores: Vec<f64> = medians(sorted.len()).into_iter().map(normal_quantile).collect();
    argmax(-4.0, 4.0, |lambda| {
        let transformed: Vec<f64> = sorted.iter().map(|x| box_cox(*x, lambda)).collect();
        line(&scores, &transformed).0
    })
}

/// Fits the normal distribution, the families and the Box–Cox transformation to sorted samples above zero, the highest
/// PPCC first.
#[must_use]
pub fn fit(sorted: &[f64]) -> Vec<PpccFit> {
    let sample = points(sorted);
    let medians = medians(sample.len());
    let (ppcc, location, scale) = normal_ppcc(&sample);
    let mut fits = vec![PpccFit {
        family: "normal",
        shape: None,
        ppcc,
        distribution: table(|level| location + scale * normal_quantile(level)),
    }];
    type Quantile = fn(f64, f64) -> f64;
    let weibull: Quantile = |shape, level| pow(-libm::log1p(-level), 1.0 / shape);
    let lognormal: Quantile = |sigma, level| exp(sigma * normal_quantile(level));
    for (family, name, quantile, low, high) in [
        ("Weibull", "shape", weibull, 0.2, 50.0),
        ("Gamma", "shape", gamma_quantile, 0.1, 500.0),
        ("Lognormal", "sigma", lognormal, 0.01, 3.0),
    ] {
        let plot = |log_shape: f64| {
            let shape = exp(log_shape);
            let scores: Vec<f64> = medians.iter().map(|level| quantile(shape, *level)).collect();
            line(&scores, &sample)
        };
        let log_shape = argmax(log(low), log(high), |log_shape| plot(log_shape).0);
        let ((ppcc, location, scale), shape) = (plot(log_shape), exp(log_shape));
        fits.push(PpccFit {
            family,
            shape: Some((name, shape)),
            ppcc,
            distribution: table(|level| location + scale * quantile(shape, level)),
        });
    }
    // In units of the median: powers of picoseconds would leave the range of numbers.
    let unit = sample[sample.len() / 2];
    let relative: Vec<f64> = sample.iter().map(|x| x / unit).collect();
    let lambda = box_cox_lambda(&relative);
    let transformed: Vec<f64> = relative.iter().map(|x| box_cox(*x, lambda)).collect();
    let (ppcc, location, scale) = normal_ppcc(&transformed);
    let largest = sorted[sorted.len() - 1];
    fits.push(PpccFit {
        family: "Box-Cox normal",
        shape: Some(("lambda", lambda)),
        ppcc,
        // A negative λ has quantiles without end: ten times the largest sample ends them.
        distribution: table(|level| {
            let back = unit * box_cox_inverse(location + scale * normal_quantile(level), lambda);
            back.min(10.0 * largest)
        }),
    });
    fits.sort_by(|a, b| b.ppcc.total_cmp(&a.ppcc));
    fits
}

/// Two histograms with the same cells: lower end of each cell, share of the first and of the second sample.
#[must_use]
pub fn bihistogram(first: &[f64], second: &[f64], cells: usize) -> Vec<(f64, f64, f64)> {
    let mut all: Vec<f64> = first.iter().chain(second).copied().collect();
    all.sort_by(f64::total_cmp);
    // The highest half per cent shares the last cell: one value would stretch all others into one.
    let low = all[0];
    let high = all[((all.len() - 1) as f64 * 0.995) as usize];
    let width = ((high - low) / cells as f64).max(f64::MIN_POSITIVE);
    let shares = |sample: &[f64]| {
        let mut shares = vec![0.0; cells];
        for x in sample {
            shares[(((x - low) / width) as usize).min(cells - 1)] += 1.0 / sample.len() as f64;
        }
        shares
    };
    let (first, second) = (shares(first), shares(second));
    (0..cells).map(|cell| (low + width * cell as f64, first[cell], second[cell])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not random, so that scipy can have the same numbers: quantiles of a skew distribution with a wave on them.
    fn sample() -> Vec<f64> {
        let mut sample: Vec<f64> = (1..=200)
            .map(|i| {
                let u = (f64::from(i) - 0.5) / 200.0;
                2.0 + 3.0 * pow(-log(1.0 - u), 0.7) + 0.2 * libm::sin(f64::from(i))
            })
            .collect();
        sample.sort_by(f64::total_cmp);
        sample
    }

    fn close(actual: f64, expected: f64, tolerance: f64) {
        assert!((actual - expected).abs() < tolerance, "{actual} is not {expected}");
    }

    /// scipy 1.17: `stats.probplot(x, dist='norm')[1]`.
    #[test]
    fn normal_probability_plot_is_that_of_scipy() {
        let (ppcc, location, scale) = normal_ppcc(&sample());
        close(ppcc, 0.961_541_059_715, 1e-9);
        close(location, 4.723_976_604_783, 1e-9);
        close(scale, 1.873_155_597_661, 1e-9);
    }

    /// scipy 1.17: the largest `stats.probplot(x, sparams=shape, dist=...)[1][2]` over the shape, by
    /// `optimize.minimize_scalar`, as `stats.ppcc_max` does.
    #[test]
    fn shapes_of_families_are_those_of_scipy() {
        let fits = fit(&sample());
        for (family, shape, ppcc) in [
            ("Weibull", 1.417_284_592_2, 0.999_765_377_911),
            ("Gamma", 2.573_235_541_4, 0.999_553_084_053),
            ("Lognormal", 0.398_117_586_3, 0.998_439_400_603),
        ] {
            let fitted = fits.iter().find(|one| one.family == family).unwrap();
            close(fitted.shape.unwrap().1, shape, 2e-5 * shape);
            close(fitted.ppcc, ppcc, 1e-9);
        }
        assert!(fits.windows(2).all(|pair| pair[0].ppcc >= pair[1].ppcc));
    }

    /// scipy 1.17: `stats.boxcox_normmax(x, method='pearsonr')`.
    #[test]
    fn box_cox_transformation_is_that_of_scipy() {
        close(box_cox_lambda(&sample()), -0.208_262_189_5, 1e-5);
        for lambda in [-1.5, 0.0, 0.4] {
            close(box_cox_inverse(box_cox(3.7, lambda), lambda), 3.7, 1e-12);
        }
        assert!(box_cox_inverse(-10.0, 0.5).abs() < 1e-300);
    }

    #[test]
    fn fitted_tables_have_the_quantiles_of_the_sample() {
        let sample = sample();
        for fitted in fit(&sample) {
            assert_eq!(fitted.distribution.fault(), None, "{}", fitted.family);
            let error = fitted.distribution.cdf(sample[149]) - 0.75;
            assert!(error.abs() < 0.05, "{}: {error}", fitted.family);
        }
    }

    #[test]
    fn many_samples_are_thinned_evenly() {
        let sorted: Vec<f64> = (0..100_000).map(f64::from).collect();
        let points = points(&sorted);
        assert_eq!(points.len(), POINTS_MAX);
        close(points[0], 50.0, 1e-9);
        close(points[999], 99_950.0, 1e-9);
    }

    #[test]
    fn bihistogram_counts_both_samples_in_the_same_cells() {
        let first: Vec<f64> = (0..1000).map(|i| f64::from(i) / 10.0).collect();
        let second: Vec<f64> = first.iter().map(|x| 0.5 * x).collect();
        let cells = bihistogram(&first, &second, 10);
        close(cells.iter().map(|cell| cell.1).sum(), 1.0, 1e-9);
        close(cells.iter().map(|cell| cell.2).sum(), 1.0, 1e-9);
        close(cells[0].2 / cells[0].1, 2.0, 0.05);
        close(cells[9].2, 0.0, 1e-9);
    }
}
