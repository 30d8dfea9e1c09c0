//! Probabilities of test statistics, their correction for several comparisons, and how numbers are written.

use ndn_model::special::regularized_beta;

/// Probability of an interval to contain the true value, and 1 minus the probability of a false finding.
pub const CONFIDENCE: f64 = 0.95;

/// P(|T| > |t|) for Student's t.
pub(crate) fn student_t_p(t: f64, freedom: f64) -> f64 {
    regularized_beta(freedom / (freedom + t * t), 0.5 * freedom, 0.5)
}

/// P(X > f) for Fisher's F.
pub(crate) fn fisher_p(f: f64, freedom: f64, freedom_of_error: f64) -> f64 {
    let x = freedom_of_error / (freedom_of_error + freedom * f);
    regularized_beta(x, 0.5 * freedom_of_error, 0.5 * freedom)
}

/// Holm's correction: probabilities that hold for all of these comparisons together.
#[must_use]
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut corrected = vec![0.0; probabilities.len()];
    let mut least = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        let factor = (probabilities.len() - rank) as f64;
        least = least.max((probabilities[index] * factor).min(1.0));
        corrected[index] = least;
    }
    corrected
}

/// A number with four significant digits.
#[must_use]
pub fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = libm::floor(libm::log10(value.abs())) as i32;
    if !(-4..9).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let places = (3 - magnitude).max(0) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
