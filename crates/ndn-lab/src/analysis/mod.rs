//! From observations to effects, intervals and findings.

pub mod effects;
mod numerics;
mod observation;
pub mod residuals;
pub mod transform;
pub mod tukey;

use ndn_model::screen::{self, Screening};

use crate::design::{Design, Kind};
pub use numerics::{CONFIDENCE, digits, holm};
pub use observation::{AnalysisError, Observation};

use effects::{Effect, Effects};
use residuals::Residuals;
use transform::{BoxCox, Transform};
use tukey::Pair;

/// Factors with more levels than this are not compared in pairs.
const PAIR_LEVELS_MAX: usize = 20;

/// Result of the analysis of one response.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// Scale on which effects are additive; all else is on that scale.
    pub transform: Transform,
    /// Box–Cox estimate from cells with replications, if responses are positive.
    pub box_cox: Option<BoxCox>,
    /// Effects of a two-level design.
    pub effects: Option<Effects>,
    /// Analysis of variance of a design with more levels.
    pub variance: Option<Screening>,
    /// Pairs of levels by factor, of a design with more levels.
    pub pairs: Vec<(usize, Vec<Pair>)>,
    /// Residuals around the means of cells or the fitted model, and checks of them.
    pub residuals: Residuals,
    /// Findings as sentences.
    pub findings: Vec<String>,
}

impl Analysis {
    /// An effect with the sign of the change of the response, which is not that of its value on a decreasing scale.
    #[must_use]
    pub fn q(&self, effect: &Effect) -> f64 {
        if self.transform.is_decreasing() { -effect.value } else { effect.value }
    }
}

/// Analyses the responses of a design; `name` and `unit` are those of the response.
///
/// # Errors
/// Cells without responses, or too few responses.
pub fn analyse(
    design: &Design,
    observations: &[Observation],
    name: &str,
    unit: &str,
) -> Result<Analysis, AnalysisError> {
    if let Some(one) = observations.iter().find(|one| !one.value.is_finite()) {
        return Err(AnalysisError::NotFinite(design.describe(one.cell)));
    }
    let box_cox = transform::box_cox(observations);
    let transform = box_cox.map_or(Transform::None, |one| one.advice());
    let scaled: Vec<Observation> = observations
        .iter()
        .map(|one| Observation { value: transform.apply(one.value), ..*one })
        .collect();
    let mut findings = Vec::new();
    if transform != Transform::None {
        let signs = match design.is_two_level() && transform.is_decreasing() {
            true => format!(", with the sign of the change of {name}"),
            false => String::new(),
        };
        findings.push(format!(
            "The scatter of {name} changes with its size: effects and intervals are those of {}{signs}, and means are \
             transformed back.",
            transform.name(name)
        ));
    }
    let (mut effects, mut variance, mut pairs) = (None, None, Vec::new());
    let residuals;
    if design.is_two_level() {
        let found = effects::effects(design, &scaled)?;
        findings.extend(found.findings(design, transform, (name, unit)));
        residuals = residuals::check(
            &scaled,
            &fit_of_cells(&scaled, design.cells().len()),
            found.parameters,
        );
        effects = Some(found);
    } else {
        let runs: Vec<screen::Observation> = scaled
            .iter()
            .map(|one| screen::Observation {
                levels: design.cells()[one.cell].clone(),
                value: one.value,
            })
            .collect();
        let has_pairs = !matches!(design.kind(), Kind::LatinSquare | Kind::OneAtATime);
        let found = screen::screen_terms(design.factors(), &runs, has_pairs)
            .map_err(AnalysisError::Screen)?;
        findings.extend(found.findings(&transform.unit(unit)));
        let parameters = found.runs - found.residual.1;
        residuals = residuals::check(&scaled, &found.fitted, parameters);
        for (number, factor) in design.factors().iter().enumerate() {
            let matters = found.terms.iter().any(|term| term.factors == [number] && term.matters);
            if matters && (3..=PAIR_LEVELS_MAX).contains(&factor.levels.len()) {
                let compared = tukey::pairs(&found, number);
                findings.extend(tukey::findings(&compared, factor));
                pairs.push((number, compared));
            }
        }
        variance = Some(found);
    }
    findings.extend(residuals.findings());
    Ok(Analysis { transform, box_cox, effects, variance, pairs, residuals, findings })
}

/// Mean of the cell of each observation.
fn fit_of_cells(observations: &[Observation], cells: usize) -> Vec<f64> {
    let mut sums = vec![(0.0, 0usize); cells];
    for one in observations {
        sums[one.cell].0 += one.value;
        sums[one.cell].1 += 1;
    }
    observations.iter().map(|one| sums[one.cell].0 / sums[one.cell].1 as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::Factor;
    use ndn_model::random::{StreamId, TraceRandom};

    #[test]
    fn holm_is_that_of_statsmodels() {
        // statsmodels 0.15: multipletests([0.01, 0.04, 0.03, 0.005, 0.5], method='holm')[1].
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005, 0.5]);
        let expected = [0.04, 0.09, 0.09, 0.025, 0.5];
        assert!(
            corrected.iter().zip(expected).all(|(p, q)| (p - q).abs() < 1e-12),
            "{corrected:?}"
        );
    }

    #[test]
    fn numbers_have_four_digits() {
        let shown = [0.0, 12345.6, 1.0, 0.012_345_6, -40.126, 1e-7, 100.0].map(digits);
        assert_eq!(shown, ["0", "12346", "1", "0.01235", "-40.13", "1.000e-7", "100"]);
    }

    fn design(sizes: &[usize], kind: Kind) -> Design {
        let factor = |(number, size): (usize, &usize)| Factor {
            name: format!("f{number}"),
            levels: (0..*size).map(|level| level.to_string()).collect(),
        };
        Design::new(sizes.iter().enumerate().map(factor).collect(), kind).unwrap()
    }

    fn runs(
        design: &Design,
        replications: usize,
        value: impl Fn(&[usize], f64) -> f64,
    ) -> Vec<Observation> {
        let random = TraceRandom::new(9, 0);
        let plan = design.plan(replications, true, 3).unwrap();
        let observe = |(number, run): (usize, &crate::design::Run)| {
            let noise = random.draw(StreamId(1), number as u64).normal();
            Observation {
                cell: run.cell,
                block: run.block,
                value: value(&design.cells()[run.cell], noise),
            }
        };
        plan.iter().enumerate().map(observe).collect()
    }

    #[test]
    fn multiplied_factors_are_analysed_by_logarithms() {
        let design = design(&[2, 2, 2], Kind::Factorial);
        let observed = runs(&design, 4, |cell, noise| {
            libm::exp(3.0 + 2.0 * cell[0] as f64 + cell[2] as f64 + 0.1 * noise)
        });
        let found = analyse(&design, &observed, "time", "s").unwrap();
        assert_eq!(found.transform, Transform::Log);
        let effects = found.effects.unwrap().effects;
        let named: Vec<_> = effects.iter().filter(|one| one.matters).map(|one| &one.name).collect();
        assert_eq!(named, ["f0", "f2"], "no interaction on this scale");
        assert!(found.findings[0].contains("ln time"), "{:?}", found.findings);
        // e^3.5 and e^5.5 but for the noise.
        let line = &found.findings[2];
        assert!(line.contains("1 instead of 0 raises the mean of time from 32."), "{line}");
    }

    #[test]
    fn reciprocal_scales_do_not_turn_the_direction_round() {
        let design = design(&[2, 2], Kind::Factorial);
        let observed = runs(&design, 10, |cell, noise| {
            let rate = 1.0 + 4.0 * cell[0] as f64 + 0.1 * noise;
            1.0 / (rate * rate)
        });
        let found = analyse(&design, &observed, "delay", "s").unwrap();
        assert_eq!(found.transform, Transform::Power(-0.5));
        let line = &found.findings[2];
        assert!(line.contains("f0: 1 instead of 0 lowers the mean of delay from"), "{line}");
        let effect = &found.effects.as_ref().unwrap().effects[0];
        assert!(effect.name == "f0" && effect.value > 0.0 && found.q(effect) < 0.0, "{effect:?}");
        assert!(found.findings[0].contains("with the sign of the change of delay"), "{found:?}");
    }

    #[test]
    fn levels_of_a_latin_square_are_compared_in_pairs() {
        let design = design(&[4, 4, 4], Kind::LatinSquare);
        let observed = runs(&design, 2, |cell, noise| {
            50.0 + 10.0 * f64::from(cell[2] == 3) + cell[0] as f64 + 0.5 * noise
        });
        let found = analyse(&design, &observed, "rate", "kpps").unwrap();
        let variance = found.variance.unwrap();
        assert_eq!(variance.terms.iter().map(|one| one.freedom).collect::<Vec<_>>(), [3, 3, 3]);
        assert_eq!(variance.residual.1, 32 - 10);
        let (_, pairs) = found.pairs.iter().find(|(factor, _)| *factor == 2).unwrap();
        let differing: Vec<_> =
            pairs.iter().filter(|pair| pair.p < 0.01).map(|pair| pair.levels).collect();
        assert_eq!(differing, [(0, 3), (1, 3), (2, 3)]);
    }

    #[test]
    fn responses_that_are_no_numbers_are_named_with_their_cell() {
        let design = design(&[2, 2], Kind::Factorial);
        let bad = runs(&design, 2, |cell, _| if cell == [1, 0] { f64::NAN } else { 1.0 });
        let error = analyse(&design, &bad, "x", "s").unwrap_err();
        assert_eq!(error, AnalysisError::NotFinite("f0=1 f1=0".to_owned()));
    }
}
