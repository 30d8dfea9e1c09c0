//! Residuals, and what they show about the assumptions: independent normal errors of equal variance.

use libm::{exp, log, sqrt};
use ndn_model::special::{normal_cdf, student_t_quantile};

use super::numerics::{CONFIDENCE, fisher_p, student_t_p};
use super::observation::Observation;

/// A check fails below this probability.
const LEVEL: f64 = 0.01;
/// Fewer residuals are not checked.
const CHECKED_MIN: usize = 8;

/// Residuals and checks of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Residuals {
    /// Fitted values, in the order of the runs.
    pub fitted: Vec<f64>,
    /// Observed minus fitted.
    pub residuals: Vec<f64>,
    /// Indices of outliers: kept in the analysis.
    pub outliers: Vec<usize>,
    /// P of the Anderson–Darling test for normal residuals.
    pub normality: Option<f64>,
    /// P of the Brown–Forsythe test for the same variance at small and at large fitted values.
    pub same_variance: Option<f64>,
    /// P of Spearman's rank correlation between residuals and the order of the runs.
    pub no_trend: Option<f64>,
}

/// Residuals of observations around fitted values of a model with `parameters`.
pub(crate) fn check(observations: &[Observation], fitted: &[f64], parameters: usize) -> Residuals {
    let residuals: Vec<f64> =
        observations.iter().zip(fitted).map(|(one, fitted)| one.value - fitted).collect();
    let squares: f64 = residuals.iter().map(|value| value * value).sum();
    let size: f64 = observations.iter().map(|one| one.value * one.value).sum();
    let freedom = residuals.len().saturating_sub(parameters);
    let mut result = Residuals {
        fitted: fitted.to_vec(),
        residuals,
        outliers: Vec::new(),
        normality: None,
        same_variance: None,
        no_trend: None,
    };
    if freedom < 3 || result.residuals.len() < CHECKED_MIN || squares <= 1e-20 * size {
        return result;
    }
    result.outliers = outliers(&result.residuals, parameters, freedom, squares);
    result.normality = Some(anderson_darling(&result.residuals));
    result.same_variance = brown_forsythe(&result.residuals, fitted);
    result.no_trend = Some(trend(&result.residuals));
    result
}

/// Residuals beyond the quantile of Student's t, divided among all of them (Bonferroni), with the variance of the others.
fn outliers(residuals: &[f64], parameters: usize, freedom: usize, squares: f64) -> Vec<usize> {
    let n = residuals.len() as f64;
    let leverage = parameters as f64 / n;
    let rest = freedom as f64 - 1.0;
    let limit = student_t_quantile(1.0 - 0.5 * (1.0 - CONFIDENCE) / n, rest);
    let is_outlier = |residual: f64| {
        let scaled = residual * residual / (1.0 - leverage);
        let others = (squares - scaled).max(f64::MIN_POSITIVE) / rest;
        sqrt(scaled / others) > limit
    };
    (0..residuals.len()).filter(|index| is_outlier(residuals[*index])).collect()
}

/// P of the Anderson–Darling test with estimated mean and variance (D'Agostino and Stephens: Goodness-of-Fit Techniques,
/// 1986, table 4.9).
fn anderson_darling(residuals: &[f64]) -> f64 {
    let n = residuals.len() as f64;
    let mean = residuals.iter().sum::<f64>() / n;
    let variance = residuals.iter().map(|one| (one - mean) * (one - mean)).sum::<f64>() / (n - 1.0);
    let mut scaled: Vec<f64> = residuals.iter().map(|one| (one - mean) / sqrt(variance)).collect();
    scaled.sort_by(f64::total_cmp);
    let tail = |x: f64| log(normal_cdf(x).max(f64::MIN_POSITIVE));
    let sum: f64 = (0..scaled.len())
        .map(|i| (2.0 * i as f64 + 1.0) * (tail(scaled[i]) + tail(-scaled[scaled.len() - 1 - i])))
        .sum();
    let a = (-n - sum / n) * (1.0 + 0.75 / n + 2.25 / (n * n));
    let p = if a < 0.2 {
        1.0 - exp(-13.436 + 101.14 * a - 223.73 * a * a)
    } else if a < 0.34 {
        1.0 - exp(-8.318 + 42.796 * a - 59.938 * a * a)
    } else if a < 0.6 {
        exp(0.9177 - 4.279 * a - 1.38 * a * a)
    } else {
        exp(1.2937 - 5.709 * a + 0.0186 * a * a)
    };
    p.clamp(0.0, 1.0)
}

/// P of the Brown–Forsythe test on the halves with small and large fitted values; `None` if all values are fitted the
/// same.
fn brown_forsythe(residuals: &[f64], fitted: &[f64]) -> Option<f64> {
    let mut sorted = fitted.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = 0.5 * (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]);
    let half = |is_high: bool| -> Vec<f64> {
        let pairs = residuals.iter().zip(fitted);
        let mut half: Vec<f64> = pairs
            .filter(|(_, fitted)| (**fitted > middle) == is_high)
            .map(|(one, _)| *one)
            .collect();
        half.sort_by(f64::total_cmp);
        if let Some(median) = half.get(half.len() / 2).copied() {
            half.iter_mut().for_each(|one| *one = (*one - median).abs());
        }
        half
    };
    let halves = [half(false), half(true)];
    if halves.iter().any(|half| half.len() < 3) {
        return None;
    }
    let n = residuals.len() as f64;
    let mean = halves.iter().flatten().sum::<f64>() / n;
    let (mut between, mut within) = (0.0, 0.0);
    for half in &halves {
        let own = half.iter().sum::<f64>() / half.len() as f64;
        between += half.len() as f64 * (own - mean) * (own - mean);
        within += half.iter().map(|one| (one - own) * (one - own)).sum::<f64>();
    }
    let freedom = n - 2.0;
    Some(fisher_p(between * freedom / within.max(f64::MIN_POSITIVE), 1.0, freedom))
}

/// P of Spearman's rank correlation with the order (t approximation).
fn trend(residuals: &[f64]) -> f64 {
    let n = residuals.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| residuals[*a].total_cmp(&residuals[*b]));
    let distance: f64 = order
        .iter()
        .enumerate()
        .map(|(rank, index)| (rank as f64 - *index as f64) * (rank as f64 - *index as f64))
        .sum();
    let n = n as f64;
    let rho = 1.0 - 6.0 * distance / (n * (n * n - 1.0));
    let freedom = n - 2.0;
    student_t_p(rho * sqrt(freedom / (1.0 - rho * rho).max(1e-12)), freedom)
}

impl Residuals {
    /// The checks as sentences.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut check = |p: Option<f64>, failed: &str| {
            if let Some(p) = p.filter(|p| *p < LEVEL) {
                lines.push(format!("{failed} (p = {p:.2e})."));
            }
        };
        check(
            self.normality,
            "The residuals are not normal: intervals and probabilities are approximate",
        );
        check(self.same_variance, "The scatter is not the same at small and at large values");
        check(self.no_trend, "The residuals have a trend in the order of the runs");
        let count = self.outliers.len();
        if count > 0 {
            let runs: Vec<String> =
                self.outliers.iter().map(|index| (index + 1).to_string()).collect();
            lines.push(format!(
                "{count} of {} responses are outliers: {} in the order of the runs. They are part of the analysis.",
                self.residuals.len(),
                runs.join(", ")
            ));
        }
        if lines.is_empty() {
            lines.push(if self.normality.is_some() {
                "The residuals show no deviation from normal errors of equal variance, no trend and no outliers."
                    .to_owned()
            } else {
                "There are too few residuals to check the assumptions.".to_owned()
            });
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(count: u32) -> Vec<f64> {
        (0..count).map(|i| f64::from(i * i * 37 % 101) / 10.0 - 5.0).collect()
    }

    /// scipy 1.17, statsmodels 0.15: `normal_ad(x)[1]`, `levene(low, high, center='median').pvalue`,
    /// `spearmanr(x, range(n)).pvalue`; the halves have odd lengths, so that their medians are values.
    #[test]
    fn checks_are_those_of_scipy() {
        let x = noise(22);
        let near = |p: f64, expected: f64| assert!((p - expected).abs() < 1e-9, "{p} {expected}");
        near(anderson_darling(&x), 0.710_550_580_581_561_3);
        let fitted: Vec<f64> = (0..22).map(f64::from).collect();
        near(brown_forsythe(&x, &fitted).unwrap(), 0.455_373_485_735_609_5);
        near(trend(&x), 0.117_117_380_232_927_67);
    }

    #[test]
    fn an_outlier_is_marked_and_a_trend_reported() {
        let values: Vec<f64> = (0..30u32)
            .map(|run| f64::from(run * 17 % 13) + if run == 11 { 100.0 } else { 0.0 })
            .collect();
        let observations: Vec<_> =
            values.iter().map(|value| Observation { cell: 0, block: 0, value: *value }).collect();
        let mean = values.iter().sum::<f64>() / 30.0;
        let found = check(&observations, &[mean; 30], 1);
        assert_eq!(found.outliers, [11]);
        assert!(found.findings().iter().any(|line| line.contains("1 of 30 responses")));
        let drift: Vec<_> = observations
            .iter()
            .enumerate()
            .map(|(run, one)| Observation { value: one.value + 3.0 * run as f64, ..*one })
            .collect();
        let found = check(&drift, &[mean; 30], 1);
        assert!(
            found.findings().iter().any(|line| line.contains("trend in the order")),
            "{found:?}"
        );
    }
}
