//! Comparison of all pairs of levels (Tukey; Kramer for unequal numbers of runs).

use libm::{exp, lgamma, log, pow, sqrt};
use ndn_model::screen::Screening;
use ndn_model::special::normal_cdf;

use super::numerics::{CONFIDENCE, digits};
use crate::design::Factor;

/// Two levels of a factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Indices of the levels.
    pub levels: (usize, usize),
    /// Mean of the second minus that of the first.
    pub difference: f64,
    /// Half the width of its interval; intervals of all pairs hold together.
    pub half_width: f64,
    /// Probability of such a difference without influence, over all pairs.
    pub p: f64,
}

/// Nodes and weights of Gauss–Legendre integration with 16 points, for the half of positive nodes.
const NODES: [(f64, f64); 8] = [
    (0.095_012_509_837_637_44, 0.189_450_610_455_068_5),
    (0.281_603_550_779_258_9, 0.182_603_415_044_923_6),
    (0.458_016_777_657_227_4, 0.169_156_519_395_002_5),
    (0.617_876_244_402_643_7, 0.149_595_988_816_576_7),
    (0.755_404_408_355_003, 0.124_628_971_255_533_9),
    (0.865_631_202_387_831_7, 0.095_158_511_682_492_8),
    (0.944_575_023_073_232_6, 0.062_253_523_938_647_9),
    (0.989_400_934_991_649_9, 0.027_152_459_411_754_1),
];

fn integrate(low: f64, high: f64, panels: u32, f: impl Fn(f64) -> f64) -> f64 {
    let half = 0.5 * (high - low) / f64::from(panels);
    let panel = |number: u32| {
        let center = low + half * f64::from(2 * number + 1);
        NODES.iter().map(|(x, w)| w * (f(center - half * x) + f(center + half * x))).sum::<f64>()
    };
    half * (0..panels).map(panel).sum::<f64>()
}

/// P(range of k standard normal variates <= w).
fn range_cdf(w: f64, k: f64) -> f64 {
    let density = |z: f64| exp(-0.5 * z * z) / sqrt(2.0 * core::f64::consts::PI);
    let value = integrate(-8.0, 8.0, 8, |z| {
        density(z) * pow((normal_cdf(z) - normal_cdf(z - w)).max(0.0), k - 1.0)
    });
    (k * value).min(1.0)
}

/// P(Q <= q) of the studentized range of `k` means with `freedom` degrees of freedom of the error.
#[must_use]
pub fn studentized_range_cdf(q: f64, k: usize, freedom: f64) -> f64 {
    if q <= 0.0 {
        return 0.0;
    }
    let k = k as f64;
    if freedom > 25_000.0 {
        return range_cdf(q, k);
    }
    // s = √(χ²/ν), density 2 (ν/2)^(ν/2) / Γ(ν/2) s^(ν−1) e^(−ν s²/2).
    let constant = log(2.0) + 0.5 * freedom * log(0.5 * freedom) - lgamma(0.5 * freedom);
    let spread = 8.0 / sqrt(2.0 * freedom);
    let (low, high) = ((1.0 - spread).max(0.0), 1.0 + spread);
    let value = integrate(low, high, 16, |s| {
        if s <= 0.0 {
            return 0.0;
        }
        exp(constant + (freedom - 1.0) * log(s) - 0.5 * freedom * s * s) * range_cdf(q * s, k)
    });
    value.clamp(0.0, 1.0)
}

/// The q with P(Q <= q) = p.
#[must_use]
pub fn studentized_range_quantile(p: f64, k: usize, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 8.0);
    while studentized_range_cdf(high, k, freedom) < p && high < 1e4 {
        high *= 2.0;
    }
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        *(if studentized_range_cdf(middle, k, freedom) < p { &mut low } else { &mut high }) =
            middle;
    }
    0.5 * (low + high)
}

/// Compares the levels of a factor by their means.
pub(crate) fn pairs(screening: &Screening, factor: usize) -> Vec<Pair> {
    let means = &screening.means[factor];
    let (squares, freedom) = screening.residual;
    let freedom = freedom as f64;
    let variance = squares / freedom;
    let with_runs: Vec<usize> = (0..means.len()).filter(|level| means[*level].runs > 0).collect();
    let quantile = studentized_range_quantile(CONFIDENCE, with_runs.len(), freedom);
    let mut pairs = Vec::new();
    for (number, low) in with_runs.iter().enumerate() {
        for high in &with_runs[number + 1..] {
            let difference = means[*high].mean - means[*low].mean;
            let inverse = 1.0 / means[*low].runs as f64 + 1.0 / means[*high].runs as f64;
            let error = sqrt(0.5 * variance * inverse);
            let p = 1.0 - studentized_range_cdf(difference.abs() / error, with_runs.len(), freedom);
            pairs.push(Pair { levels: (*low, *high), difference, half_width: quantile * error, p });
        }
    }
    pairs
}

/// Findings as sentences.
pub(crate) fn findings(pairs: &[Pair], factor: &Factor) -> Vec<String> {
    let level = |index: usize| &factor.levels[index];
    let (differing, same): (Vec<&Pair>, Vec<&Pair>) =
        pairs.iter().partition(|pair| pair.p < 1.0 - CONFIDENCE);
    let mut lines: Vec<String> = differing
        .iter()
        .map(|pair| {
            format!(
                "{}: {} differs from {} by {} ± {} (Tukey).",
                factor.name,
                level(pair.levels.1),
                level(pair.levels.0),
                digits(pair.difference),
                digits(pair.half_width)
            )
        })
        .collect();
    if !same.is_empty() {
        let same: Vec<String> = same
            .iter()
            .map(|pair| format!("{} and {}", level(pair.levels.0), level(pair.levels.1)))
            .collect();
        lines.push(format!("{}: no difference is shown between {}.", factor.name, same.join(", ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// scipy 1.17: `scipy.stats.studentized_range.cdf(q, k, df)` and `.ppf(0.95, k, df)`.
    #[test]
    fn the_studentized_range_is_that_of_scipy() {
        for (q, k, freedom, expected) in [
            (3.0, 3, 10.0, 0.865_016_584_810),
            (4.5, 5, 20.0, 0.966270505814),
            (1.0, 2, 4.0, 0.481481481481),
            (6.0, 8, 3.0, 0.863124759641),
            (3.5, 4, 120.0, 0.930919858893),
            (10.0, 3, 5.0, 0.997953821233),
        ] {
            let value = studentized_range_cdf(q, k, freedom);
            assert!((value - expected).abs() < 1e-8, "{q} {k} {freedom}: {value} {expected}");
        }
        for (k, freedom, expected) in [
            (3, 10.0, 3.876776750),
            (4, 24.0, 3.901262197),
            (6, 8.0, 5.167152344),
            (10, 60.0, 4.646323963),
        ] {
            let value = studentized_range_quantile(0.95, k, freedom);
            assert!(
                (value - expected).abs() < 1e-6 * expected,
                "{k} {freedom}: {value} {expected}"
            );
        }
    }
}
