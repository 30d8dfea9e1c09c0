//! Effects of two-level designs (Jain, chapters 17 to 19).
//!
//! q_j = 2^−k Σ s_ij ȳ_i; SS_j = 2^k r q_j²; s_e² = SSE / (2^k (r − 1)). Where replications were lost, means of cells
//! have the same weight (unweighted means) and r is their harmonic mean: effects stay unbiased, and with equal
//! replications these are Jain's formulas. With one replication, Lenth's method (Lenth: "Quick and Easy Analysis of
//! Unreplicated Factorials", Technometrics 31(4), 1989) takes the place of the error.

use libm::{pow, sqrt};
use ndn_model::special::{normal_quantile, student_t_quantile};

use super::numerics::{CONFIDENCE, digits, holm, student_t_p};
use super::observation::{AnalysisError, Observation};
use super::transform::Transform;
use crate::design::{Design, Word};

/// Effects with a smaller share of the variation are counted in the findings, not named.
const SHARE_MIN: f64 = 0.005;

/// An effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Factors of the product.
    pub word: Word,
    /// Their names.
    pub name: String,
    /// Names of the effects that are confounded with it.
    pub aliases: Vec<String>,
    /// q: half the difference between the high and the low level.
    pub value: f64,
    /// Sum of squares.
    pub squares: f64,
    /// Share of the total variation.
    pub share: f64,
    /// Half the width of its confidence interval; without replications, Lenth's margin of error.
    pub half_width: f64,
    /// Probability of such an effect without influence; `None` without replications.
    pub p: Option<f64>,
    /// The same after Holm's correction over all effects.
    pub p_corrected: Option<f64>,
    /// Whether an influence is shown, corrected over all effects.
    pub matters: bool,
    /// Quantile of the half-normal distribution for its rank by magnitude.
    pub half_normal: f64,
}

/// Error of a design with replications.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExperimentalError {
    /// Sum of squares.
    pub squares: f64,
    /// Degrees of freedom.
    pub freedom: usize,
    /// Standard deviation of a response.
    pub deviation: f64,
}

/// Lenth's estimates of a design without replications.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lenth {
    /// Pseudo standard error.
    pub error: f64,
    /// Margin of error of a single effect.
    pub margin: f64,
    /// Simultaneous margin of error of all effects.
    pub simultaneous_margin: f64,
}

/// Effects of a two-level design.
#[derive(Debug, Clone, PartialEq)]
pub struct Effects {
    /// q0: mean of the means of cells.
    pub mean: f64,
    /// Half the width of its confidence interval, with replications.
    pub mean_half_width: Option<f64>,
    /// Effects, those of few factors first.
    pub effects: Vec<Effect>,
    /// SST: sum of squares around the mean.
    pub total: f64,
    /// Sum of squares between blocks, and their degrees of freedom.
    pub blocks: Option<(f64, usize)>,
    /// Error, with replications.
    pub error: Option<ExperimentalError>,
    /// Estimates without replications.
    pub lenth: Option<Lenth>,
    /// Fitted parameters, the mean included.
    pub parameters: usize,
}

/// Computes the effects of observations on the scale of the analysis.
///
/// # Errors
/// A cell has no observation.
pub fn effects(design: &Design, observations: &[Observation]) -> Result<Effects, AnalysisError> {
    let cells = design.cells();
    let mut values = vec![Vec::new(); cells.len()];
    for one in observations {
        values[one.cell].push(one.value);
    }
    if let Some(cell) = values.iter().position(Vec::is_empty) {
        return Err(AnalysisError::EmptyCell(design.describe(cell)));
    }
    let n = cells.len() as f64;
    let means: Vec<f64> =
        values.iter().map(|values| values.iter().sum::<f64>() / values.len() as f64).collect();
    let inverse_replications = values.iter().map(|one| 1.0 / one.len() as f64).sum::<f64>() / n;
    let replications = 1.0 / inverse_replications;
    let mean = means.iter().sum::<f64>() / n;
    let within: f64 = values
        .iter()
        .zip(&means)
        .flat_map(|(values, mean)| values.iter().map(move |value| (value - mean) * (value - mean)))
        .sum();
    let blocks = block_squares(observations, cells.len());
    let (block_squares, block_freedom) = blocks.unwrap_or((0.0, 0));
    let freedom =
        observations.len() - cells.len() - block_freedom.min(observations.len() - cells.len());
    let squares = (within - block_squares).max(0.0);
    let error = (freedom > 0).then(|| ExperimentalError {
        squares,
        freedom,
        deviation: sqrt(squares / freedom as f64),
    });
    let words = design.effects();
    let contrasts: Vec<f64> = words
        .iter()
        .map(|(word, _)| {
            cells.iter().zip(&means).map(|(cell, mean)| word.sign(cell) * mean).sum::<f64>() / n
        })
        .collect();
    let lenth = error.is_none().then(|| lenth(&contrasts)).flatten();
    let explained: f64 = contrasts.iter().map(|q| n * replications * q * q).sum();
    let total = explained + within;
    let standard_error = error.map(|error| error.deviation / sqrt(n * replications));
    let t =
        |error: ExperimentalError| student_t_quantile(0.5 + 0.5 * CONFIDENCE, error.freedom as f64);
    let half_width = error.zip(standard_error).map(|(error, standard)| t(error) * standard);
    let probabilities: Option<Vec<f64>> = error.zip(standard_error).map(|(error, standard)| {
        contrasts.iter().map(|q| student_t_p(q / standard, error.freedom as f64)).collect()
    });
    let corrected = probabilities.as_deref().map(holm);
    let half_normals = half_normal_quantiles(&contrasts);
    let effects = words.into_iter().enumerate().map(|(number, (word, aliases))| {
        let value = contrasts[number];
        let squares = n * replications * value * value;
        let p_corrected = corrected.as_ref().map(|all| all[number]);
        let margin = lenth.map_or(f64::INFINITY, |lenth| lenth.simultaneous_margin);
        Effect {
            name: design.name(word),
            aliases: aliases.iter().map(|alias| design.name(*alias)).collect(),
            word,
            value,
            squares,
            share: if total > 0.0 { squares / total } else { 0.0 },
            half_width: half_width.or(lenth.map(|lenth| lenth.margin)).unwrap_or(f64::INFINITY),
            p: probabilities.as_ref().map(|all| all[number]),
            p_corrected,
            matters: p_corrected.map_or(value.abs() > margin, |p| p < 1.0 - CONFIDENCE),
            half_normal: half_normals[number],
        }
    });
    let effects: Vec<Effect> = effects.collect();
    Ok(Effects {
        mean,
        mean_half_width: half_width,
        parameters: effects.len() + 1,
        effects,
        total,
        blocks,
        error,
        lenth,
    })
}

/// Sum of squares between blocks, if there are several and each has each cell once.
fn block_squares(observations: &[Observation], cells: usize) -> Option<(f64, usize)> {
    let blocks = observations.iter().map(|one| one.block).max()? + 1;
    let mut sums = vec![(0.0, vec![false; cells]); blocks];
    for one in observations {
        let (sum, is_taken) = &mut sums[one.block];
        if core::mem::replace(&mut is_taken[one.cell], true) {
            return None;
        }
        *sum += one.value;
    }
    if blocks < 2 || observations.len() != blocks * cells {
        return None;
    }
    let n = cells as f64;
    let mean = sums.iter().map(|(sum, _)| sum / n).sum::<f64>() / blocks as f64;
    let squares = sums.iter().map(|(sum, _)| n * (sum / n - mean) * (sum / n - mean)).sum();
    Some((squares, blocks - 1))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { 0.5 * (values[middle - 1] + values[middle]) }
}

/// Lenth's estimates; `None` for fewer than three effects.
#[must_use]
pub fn lenth(contrasts: &[f64]) -> Option<Lenth> {
    if contrasts.len() < 3 {
        return None;
    }
    let absolute: Vec<f64> = contrasts.iter().map(|q| q.abs()).collect();
    let first = 1.5 * median(absolute.clone());
    let small: Vec<f64> = absolute.into_iter().filter(|q| *q < 2.5 * first).collect();
    let error = if small.is_empty() { 0.0 } else { 1.5 * median(small) };
    let count = contrasts.len() as f64;
    let quantile = |p| student_t_quantile(p, count / 3.0);
    let simultaneous = 0.5 * (1.0 + pow(CONFIDENCE, 1.0 / count));
    Some(Lenth {
        error,
        margin: quantile(0.5 + 0.5 * CONFIDENCE) * error,
        simultaneous_margin: quantile(simultaneous) * error,
    })
}

/// For each effect, the half-normal quantile of its rank by magnitude.
fn half_normal_quantiles(contrasts: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..contrasts.len()).collect();
    order.sort_by(|a, b| contrasts[*a].abs().total_cmp(&contrasts[*b].abs()));
    let mut quantiles = vec![0.0; contrasts.len()];
    for (rank, index) in order.into_iter().enumerate() {
        let p = (rank as f64 + 0.5) / contrasts.len() as f64;
        quantiles[index] = normal_quantile(0.5 + 0.5 * p);
    }
    quantiles
}

/// Replications for a confidence interval of each effect of at most `half_width`, from a pilot's standard deviation of
/// a response.
///
/// At least 2, at most 10,000; `None` if that does not suffice.
#[must_use]
pub fn replications_for(half_width: f64, deviation: f64, cells: usize) -> Option<usize> {
    (2..=10_000).find(|r| {
        let freedom = (cells * (r - 1)) as f64;
        let t = student_t_quantile(0.5 + 0.5 * CONFIDENCE, freedom);
        t * deviation / sqrt((cells * r) as f64) <= half_width
    })
}

impl Effects {
    /// Findings as sentences. Effects are of `response` in `unit` on the scale of `transform`; means are transformed back.
    #[must_use]
    pub fn findings(
        &self,
        design: &Design,
        transform: Transform,
        (response, unit): (&str, &str),
    ) -> Vec<String> {
        let shown = |value: f64| digits(transform.invert(value));
        let interval = self.mean_half_width.map_or_else(String::new, |half| {
            let ends = [self.mean - half, self.mean + half].map(|value| transform.invert(value));
            let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
            format!(" (95 % interval {} to {})", digits(low), digits(high))
        });
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        let mut lines =
            vec![format!("The mean of {response} is {}{unit}{interval}.", shown(self.mean))];
        let mut order: Vec<&Effect> = self.effects.iter().filter(|effect| effect.matters).collect();
        order.sort_by(|a, b| b.share.total_cmp(&a.share));
        if order.is_empty() {
            lines.push(format!("No factor is shown to influence {response}."));
        }
        let named = order.iter().filter(|one| one.share >= SHARE_MIN).count();
        for effect in &order[..named] {
            let confounded = if effect.aliases.is_empty() {
                String::new()
            } else {
                let aliases = effect.aliases.join(" or ");
                format!(", or {aliases}, which the design does not distinguish")
            };
            let (name, share) = (&effect.name, 100.0 * effect.share);
            let factor = effect.word.members().next().map(|factor| &design.factors()[factor]);
            lines.push(if let (Some(factor), 1) = (factor, effect.word.factors.count_ones()) {
                let [from, to] =
                    [self.mean - effect.value, self.mean + effect.value].map(|one| transform.invert(one));
                let direction = if to > from { "raises" } else { "lowers" };
                format!(
                    "{name}{confounded}: {} instead of {} {direction} the mean of {response} from {} to {}{unit}; \
                     {share:.1} % of the variation.",
                    factor.levels[1],
                    factor.levels[0],
                    digits(from),
                    digits(to)
                )
            } else {
                format!(
                    "{name}{confounded}: the influence of one depends on the level of the others; {share:.1} % of the \
                     variation."
                )
            });
        }
        if named < order.len() {
            lines.push(format!(
                "Effects that are shown, with less than {} % of the variation each: {} more.",
                100.0 * SHARE_MIN,
                order.len() - named
            ));
        }
        let scaled = transform.name(response);
        match (&self.error, &self.lenth) {
            (Some(error), _) => lines.push(format!(
                "Experimental errors are {:.1} % of the variation; a single {scaled} has the standard deviation {}.",
                100.0 * error.squares / self.total.max(f64::MIN_POSITIVE),
                digits(error.deviation)
            )),
            (None, Some(lenth)) => lines.push(format!(
                "Each cell ran once: effects on {scaled} are compared with Lenth's margin of {} instead of an \
                 experimental error.",
                digits(lenth.simultaneous_margin)
            )),
            (None, None) => lines.push(
                "Each cell ran once and the effects are too few for Lenth's method: no error is known.".to_owned(),
            ),
        }
        if let Some((squares, _)) = self.blocks {
            let share = 100.0 * squares / self.total.max(f64::MIN_POSITIVE);
            lines.push(format!("Blocks in time explain {share:.1} % of the variation."));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::{Factor, Generator, Kind};

    fn design(names: &str, kind: Kind) -> Design {
        let levels = || vec!["low".to_owned(), "high".to_owned()];
        let factor = |name: char| Factor { name: name.to_string(), levels: levels() };
        Design::new(names.chars().map(factor).collect(), kind).unwrap()
    }

    fn observations(values: &[&[f64]]) -> Vec<Observation> {
        let mut all = Vec::new();
        for (cell, values) in values.iter().enumerate() {
            all.extend(values.iter().map(|value| Observation { cell, block: 0, value: *value }));
        }
        all
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{value} {expected}");
    }

    /// Jain, example 17.1 (memory-cache, 2^3).
    #[test]
    fn effects_of_the_textbook_without_replications() {
        let y = [14.0, 22.0, 10.0, 34.0, 46.0, 58.0, 50.0, 86.0];
        let values: Vec<&[f64]> = y.iter().map(core::slice::from_ref).collect();
        let found = effects(&design("ABC", Kind::Factorial), &observations(&values)).unwrap();
        near(found.mean, 40.0);
        let expected = [
            ("A", 10.0),
            ("B", 5.0),
            ("C", 20.0),
            ("A × B", 5.0),
            ("A × C", 2.0),
            ("B × C", 3.0),
            ("A × B × C", 1.0),
        ];
        for (effect, (name, value)) in found.effects.iter().zip(expected) {
            assert_eq!(effect.name, name);
            near(effect.value, value);
        }
        near(found.total, 4512.0);
        near(found.effects[2].share, 3200.0 / 4512.0);
        assert!(found.error.is_none());
        // |q| sorted: 1 2 3 5 5 10 20; s0 = 7.5; without 20: median 4; PSE = 6.
        near(found.lenth.unwrap().error, 6.0);
    }

    /// A share is 2^k q² over the sum of squares. The responses are made of effects q: those that the shares of a published table
    /// determine ("Performance Measurement of Content Distribution in Named Data Networking", H. Yuan, Washington University in
    /// St. Louis, 2011, Table 6), with its mean and its sum of squares, and two more for the rest. Its own responses (Table 5) are
    /// not known, so this is no check of that table, which has 5.6 % for C × D.
    #[test]
    fn shares_follow_from_effects() {
        let design = design("ABCD", Kind::Factorial);
        let y: Vec<[f64; 1]> = design
            .cells()
            .iter()
            .map(|cell| {
                let s = |factor: usize| if cell[factor] == 1 { 1.0 } else { -1.0 };
                let (b, c, d) = (s(1), s(2), s(3));
                let known = 12.625 * b + 19.0 * c + 8.25 * b * c + 8.0 * d + 6.375 * c * d;
                [40.125 + known + 3.875 * b * d + 3.75_f64.sqrt() * b * c * d]
            })
            .collect();
        let y: Vec<&[f64]> = y.iter().map(|one| &one[..]).collect();
        let found = effects(&design, &observations(&y)).unwrap();
        near(found.mean, 40.125);
        near(found.total, 11_389.75);
        for (name, percent) in
            [("A", 0.0), ("B", 22.39), ("C", 50.71), ("D", 8.99), ("B × C", 9.56), ("C × D", 5.71)]
        {
            let effect = found.effects.iter().find(|effect| effect.name == name).unwrap();
            assert!((100.0 * effect.share - percent).abs() < 0.006, "{effect:?}");
        }
    }

    /// Jain, section 18.2 (2^2 with r = 3).
    #[test]
    fn effects_of_the_textbook_with_replications() {
        let y: [&[f64]; 4] =
            [&[15.0, 18.0, 12.0], &[45.0, 48.0, 51.0], &[25.0, 28.0, 19.0], &[75.0, 75.0, 81.0]];
        let found = effects(&design("AB", Kind::Factorial), &observations(&y)).unwrap();
        near(found.mean, 41.0);
        let values: Vec<f64> = found.effects.iter().map(|effect| effect.value).collect();
        assert_eq!(values, [21.5, 9.5, 5.0]);
        near(found.total, 7032.0);
        let error = found.error.unwrap();
        near(error.squares, 102.0);
        assert_eq!(error.freedom, 8);
        // s_q = sqrt(12.75) / sqrt(12) = 1.03; t[0.975; 8] = 2.306.
        assert!((found.effects[0].half_width - 2.306_004 * 1.030_776).abs() < 1e-5);
        assert!(found.effects.iter().all(|effect| effect.matters));
    }

    #[test]
    fn a_fraction_gives_the_sum_of_confounded_effects() {
        let kind = Kind::Fractional(vec![Generator {
            factor: 3,
            product: vec![0, 1, 2],
            is_negative: true,
        }]);
        let design = design("ABCD", kind);
        // y = 10 + 3 A + 2 BC − 1.5 AD; D = −ABC, so BC = −AD.
        let y: Vec<[f64; 1]> = design
            .cells()
            .iter()
            .map(|cell| {
                let s = |factor: usize| if cell[factor] == 1 { 1.0 } else { -1.0 };
                [10.0 + 3.0 * s(0) + 2.0 * s(1) * s(2) - 1.5 * s(0) * s(3)]
            })
            .collect();
        let y: Vec<&[f64]> = y.iter().map(|one| &one[..]).collect();
        let found = effects(&design, &observations(&y)).unwrap();
        assert_eq!(found.effects.len(), 7);
        for effect in &found.effects {
            let expected = match effect.name.as_str() {
                "A" => 3.0,
                "B × C" => 3.5,
                "A × D" => -3.5,
                _ => 0.0,
            };
            near(effect.value, expected);
        }
        let pair = found.effects.iter().find(|effect| effect.value.abs() > 3.2).unwrap();
        assert!(pair.aliases.iter().any(|alias| alias.starts_with('−')), "{pair:?}");
    }

    #[test]
    fn lost_replications_keep_effects_unbiased_and_empty_cells_are_named() {
        let y: [&[f64]; 4] = [&[1.0, 1.0, 1.0], &[5.0, 5.0], &[3.0], &[7.0, 7.0, 7.0]];
        let d = design("AB", Kind::Factorial);
        let found = effects(&d, &observations(&y)).unwrap();
        let values: Vec<f64> = found.effects.iter().map(|effect| effect.value).collect();
        assert_eq!((found.mean, values), (4.0, vec![2.0, 1.0, 0.0]));
        let y: [&[f64]; 4] = [&[1.0], &[5.0], &[], &[7.0]];
        let error = effects(&d, &observations(&y)).unwrap_err();
        assert_eq!(error, AnalysisError::EmptyCell("A=low B=high".to_owned()));
    }

    #[test]
    fn blocks_take_a_drift_out_of_the_error() {
        let d = design("AB", Kind::Factorial);
        let noise = [0.1, -0.2, 0.05, 0.0, 0.2, -0.1, -0.05, 0.1, -0.1, 0.0, 0.1, -0.1];
        let mut all = Vec::new();
        for block in 0..3 {
            for cell in 0..4 {
                let value = 10.0 * block as f64 + cell as f64 + noise[block * 4 + cell];
                all.push(Observation { cell, block, value });
            }
        }
        let found = effects(&d, &all).unwrap();
        assert_eq!(found.error.unwrap().freedom, 6);
        assert!(found.error.unwrap().deviation < 0.3 && found.effects[0].matters);
        all.iter_mut().for_each(|one| one.block = 0);
        let found = effects(&d, &all).unwrap();
        assert!(found.blocks.is_none() && !found.effects[0].matters);
    }

    #[test]
    fn a_pilot_proposes_replications() {
        let r = replications_for(0.5, 2.0, 16).unwrap();
        let width = |r: usize| {
            student_t_quantile(0.975, (16 * (r - 1)) as f64) * 2.0 / sqrt((16 * r) as f64)
        };
        assert!(width(r) <= 0.5 && width(r - 1) > 0.5, "{r}");
        assert_eq!(replications_for(1e-9, 2.0, 4), None);
    }
}
