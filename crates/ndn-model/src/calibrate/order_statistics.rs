//! Statistics by rank, which single outliers do not change.

/// Half of the range that contains the middle 68.27 % of the values: the standard deviation of normal ones, which a
/// replicate that hardly determines an effect does not change.
#[must_use]
pub fn half_width(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1) as f64;
    let at = |level: f64| values.get((level * last).round() as usize).copied().unwrap_or(0.0);
    0.5 * (at(0.841_345) - at(0.158_655))
}

/// The median; 0 without values.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::normal_quantile;

    #[test]
    fn half_width_is_the_deviation_of_normal_values_and_ignores_outliers() {
        let mut values: Vec<f64> =
            (1..1000).map(|i| normal_quantile(f64::from(i) / 1000.0)).collect();
        assert!((half_width(values.clone()) - 1.0).abs() < 0.01);
        values.extend([1e9, -1e9]);
        assert!((half_width(values) - 1.0).abs() < 0.02);
        assert!(half_width(Vec::new()).abs() < f64::EPSILON);
    }
}
