//! Which factors of a campaign matter: main effects, interactions of two factors, analysis of variance.
//!
//! A design that lost runs is not balanced, so sums of squares are those of type II (Fisher; Langsrud: "ANOVA for
//! Unbalanced Data: Use Type II Instead of Type III Sums of Squares", 2003): what a term explains beyond all terms that
//! do not contain it. F and p assume independent runs with normal errors of the same variance; runs in random order are
//! independent. With many terms some p are small by chance: an influence is named where p is below
//! [`LEVEL`] divided by the number of terms (Bonferroni).

use libm::sqrt;

use crate::special::regularized_beta;

/// Probability that any influence is named although there is none.
pub const LEVEL: f64 = 0.05;

/// A factor and its levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factor {
    /// Its name.
    pub name: String,
    /// Names of its levels, two or more.
    pub levels: Vec<String>,
}

/// A run: the level of each factor, and what was observed.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Index of the level of each factor.
    pub levels: Vec<usize>,
    /// The response.
    pub value: f64,
}

/// Why there is no screening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScreenError {
    /// Nothing varies.
    NoFactors,
    /// Not more runs than parameters.
    TooFewRuns {
        /// Runs.
        runs: usize,
        /// Parameters of main effects.
        parameters: usize,
    },
    /// All runs show the same value, or the terms explain all.
    NoResidual,
    /// A value is not a finite number.
    NotFinite {
        /// Index of the run.
        run: usize,
    },
}

impl core::fmt::Display for ScreenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoFactors => f.write_str("no factor of the campaign has two levels"),
            Self::TooFewRuns { runs, parameters } => write!(
                f,
                "{runs} runs are too few: main effects have {parameters} parameters, and some runs have to be left \
                 for the error"
            ),
            Self::NoResidual => {
                f.write_str("runs do not differ beyond the effects: no error to compare with")
            }
            Self::NotFinite { run } => write!(f, "run {}: the value is not a number", run + 1),
        }
    }
}

impl core::error::Error for ScreenError {}

/// Mean of the runs at a level.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelMean {
    /// Number of runs.
    pub runs: usize,
    /// Their mean; not a number without runs.
    pub mean: f64,
    /// Standard error of the mean, by the residual of the whole model.
    pub error: f64,
}

/// Means of two factors together.
#[derive(Debug, Clone, PartialEq)]
pub struct PairMeans {
    /// The factors.
    pub factors: (usize, usize),
    /// By level of the first, then of the second.
    pub means: Vec<Vec<LevelMean>>,
}

/// A row of the analysis of variance.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// One factor, or two for their interaction.
    pub factors: Vec<usize>,
    /// Sum of squares that the term explains (type II).
    pub squares: f64,
    /// Degrees of freedom.
    pub freedom: usize,
    /// Mean square over that of the residual.
    pub f: f64,
    /// Probability of such an F without influence.
    pub p: f64,
    /// Share of the sum of squares around the mean.
    pub share: f64,
    /// Whether p is below [`LEVEL`] over the number of terms.
    pub matters: bool,
}

/// Result of a screening.
#[derive(Debug, Clone, PartialEq)]
pub struct Screening {
    /// The factors.
    pub factors: Vec<Factor>,
    /// Means by factor and level.
    pub means: Vec<Vec<LevelMean>>,
    /// Means by pair of factors, in the order of the interactions.
    pub pair_means: Vec<PairMeans>,
    /// Main effects, then interactions where the runs suffice for them.
    pub terms: Vec<Term>,
    /// Sum of squares that no term explains, and its degrees of freedom.
    pub residual: (f64, usize),
    /// Fitted value of each run.
    pub fitted: Vec<f64>,
    /// Sum of squares around the mean.
    pub total: f64,
    /// Number of runs.
    pub runs: usize,
}

/// Columns of a term: an indicator for each combination of levels but the first.
fn columns(factors: &[Factor], observations: &[Observation], term: &[usize]) -> Vec<Vec<f64>> {
    let mut combinations: Vec<Vec<usize>> = vec![Vec::new()];
    for factor in term {
        combinations = combinations
            .into_iter()
            .flat_map(|before| {
                (1..factors[*factor].levels.len())
                    .map(move |level| before.iter().copied().chain([level]).collect())
            })
            .collect();
    }
    let column = |levels: &Vec<usize>| {
        let is_at = |one: &Observation| term.iter().zip(levels).all(|(f, l)| one.levels[*f] == *l);
        observations.iter().map(|one| f64::from(u8::from(is_at(one)))).collect()
    };
    combinations.iter().map(column).collect()
}

/// Residuals and rank of the regression on a constant and these columns, by orthogonalization. Columns that depend on
/// others are left out.
fn regress(values: &[f64], columns: impl Iterator<Item = Vec<f64>>) -> (Vec<f64>, usize) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let subtract = |from: &mut [f64], unit: &[f64]| {
        let along = dot(from, unit);
        from.iter_mut().zip(unit).for_each(|(value, unit)| *value -= along * unit);
    };
    let mut rest = values.to_vec();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for mut column in [vec![1.0; values.len()]].into_iter().chain(columns) {
        let before = sqrt(dot(&column, &column));
        // Twice: once leaves rounding errors of the order of the angle.
        for _ in 0..2 {
            basis.iter().for_each(|unit| subtract(&mut column, unit));
        }
        let length = sqrt(dot(&column, &column));
        if length <= 1e-8 * before {
            continue;
        }
        column.iter_mut().for_each(|value| *value /= length);
        subtract(&mut rest, &column);
        basis.push(column);
    }
    (rest, basis.len())
}

fn mean_of(values: impl Iterator<Item = f64>, residual_variance: f64) -> LevelMean {
    let (runs, sum) = values.fold((0, 0.0), |(runs, sum), value| (runs + 1, sum + value));
    let n = runs as f64;
    LevelMean { runs, mean: sum / n, error: sqrt(residual_variance / n) }
}

/// Analyses the influence of all factors with two levels or more, and of pairs of them where the runs suffice.
///
/// # Errors
/// Nothing varies, or there are too few runs.
pub fn screen(factors: &[Factor], observations: &[Observation]) -> Result<Screening, ScreenError> {
    screen_terms(factors, observations, true)
}

/// Analyses the influence of all factors, and of pairs of them `with_pairs` where the runs suffice. A design that
/// confounds pairs with factors, as a Latin square does, is analysed without.
///
/// # Errors
/// Nothing varies, or there are too few runs.
pub fn screen_terms(
    factors: &[Factor],
    observations: &[Observation],
    with_pairs: bool,
) -> Result<Screening, ScreenError> {
    if factors.is_empty() || factors.iter().any(|factor| factor.levels.len() < 2) {
        return Err(ScreenError::NoFactors);
    }
    if let Some(run) = observations.iter().position(|one| !one.value.is_finite()) {
        return Err(ScreenError::NotFinite { run });
    }
    let runs = observations.len();
    let parameters = 1 + factors.iter().map(|factor| factor.levels.len() - 1).sum::<usize>();
    if runs < parameters + 2 {
        return Err(ScreenError::TooFewRuns { runs, parameters });
    }
    let values: Vec<f64> = observations.iter().map(|one| one.value).collect();
    let main: Vec<Vec<usize>> = (0..factors.len()).map(|factor| vec![factor]).collect();
    let pairs: Vec<(usize, usize)> =
        (0..factors.len()).flat_map(|a| (a + 1..factors.len()).map(move |b| (a, b))).collect();
    let residuals = |terms: &[Vec<usize>]| {
        regress(&values, terms.iter().flat_map(|term| columns(factors, observations, term)))
    };
    let fit = |terms: &[Vec<usize>]| {
        let (rest, rank) = residuals(terms);
        (rest.iter().map(|one| one * one).sum::<f64>(), rank)
    };
    let mut terms = main.clone();
    if with_pairs {
        terms.extend(pairs.iter().map(|(a, b)| vec![*a, *b]));
    }
    let (mut squares, mut rank) = fit(&terms);
    if runs < rank + 2 {
        terms = main;
        (squares, rank) = fit(&terms);
    }
    let (rest, _) = residuals(&terms);
    let fitted = values.iter().zip(&rest).map(|(value, rest)| value - rest).collect();
    let freedom = runs.saturating_sub(rank);
    let (total, _) = fit(&[]);
    let around_zero: f64 = values.iter().map(|value| value * value).sum();
    if freedom == 0 || squares <= 1e-12 * total || total <= 1e-24 * around_zero {
        return Err(ScreenError::NoResidual);
    }
    let variance = squares / freedom as f64;
    let count = terms.len() as f64;
    let rows = terms.iter().map(|term| {
        let contains = |other: &&Vec<usize>| term.iter().all(|factor| other.contains(factor));
        let others: Vec<Vec<usize>> =
            terms.iter().filter(|other| !contains(other)).cloned().collect();
        let (without, rank_without) = fit(&others);
        let mut all = others;
        all.push(term.clone());
        let (with, rank_with) = fit(&all);
        let (explained, own) = ((without - with).max(0.0), rank_with - rank_without);
        let f = if own == 0 { 0.0 } else { explained / own as f64 / variance };
        let (d1, d2) = (own as f64, freedom as f64);
        let p =
            if own == 0 { 1.0 } else { regularized_beta(d2 / (d2 + d1 * f), d2 / 2.0, d1 / 2.0) };
        let share = explained / total;
        Term {
            factors: term.clone(),
            squares: explained,
            freedom: own,
            f,
            p,
            share,
            matters: p < LEVEL / count,
        }
    });
    let terms = rows.collect();
    let at = |levels: &[(usize, usize)]| {
        let is_at = |one: &&Observation| levels.iter().all(|(f, l)| one.levels[*f] == *l);
        mean_of(observations.iter().filter(is_at).map(|one| one.value), variance)
    };
    let means = factors.iter().enumerate();
    let means = means.map(|(f, factor)| (0..factor.levels.len()).map(|l| at(&[(f, l)])).collect());
    let pair_means = pairs.iter().map(|(a, b)| {
        let row = |l| (0..factors[*b].levels.len()).map(|m| at(&[(*a, l), (*b, m)])).collect();
        PairMeans { factors: (*a, *b), means: (0..factors[*a].levels.len()).map(row).collect() }
    });
    Ok(Screening {
        factors: factors.to_vec(),
        means: means.collect(),
        pair_means: pair_means.collect(),
        terms,
        residual: (squares, freedom),
        fitted,
        total,
        runs,
    })
}

impl Screening {
    /// Name of a term.
    #[must_use]
    pub fn name(&self, term: &Term) -> String {
        let names: Vec<&str> =
            term.factors.iter().map(|factor| self.factors[*factor].name.as_str()).collect();
        names.join(" × ")
    }

    /// The findings as sentences; `unit` is that of the response.
    #[must_use]
    pub fn findings(&self, unit: &str) -> Vec<String> {
        let mut order: Vec<&Term> = self.terms.iter().collect();
        order.sort_by(|a, b| b.share.total_cmp(&a.share));
        let of_variance = |term: &Term| format!("{:.1} % of the variance", 100.0 * term.share);
        let mut lines: Vec<String> = order
            .iter()
            .filter(|term| term.matters)
            .map(|term| match term.factors[..] {
                [factor] => {
                    let (low, high) = self.extremes(factor);
                    let names = &self.factors[factor].levels;
                    let means = &self.means[factor];
                    format!(
                        "{} matters: from {:.4} {unit} at {} to {:.4} {unit} at {}; {}",
                        self.name(term),
                        means[low].mean,
                        names[low],
                        means[high].mean,
                        names[high],
                        of_variance(term)
                    )
                }
                _ => format!(
                    "{}: the influence of one depends on the other; {}",
                    self.name(term),
                    of_variance(term)
                ),
            })
            .collect();
        let silent: Vec<&str> = (0..self.factors.len())
            .filter(|factor| {
                !self.terms.iter().any(|term| term.matters && term.factors.contains(factor))
            })
            .map(|factor| self.factors[factor].name.as_str())
            .collect();
        if !silent.is_empty() {
            lines.push(format!("no influence is visible of {}", silent.join(", ")));
        }
        let rest = 100.0 * self.residual.0 / self.total;
        lines.push(format!("{rest:.1} % of the variance is explained by no term"));
        lines
    }

    /// Levels with the lowest and the highest mean.
    fn extremes(&self, factor: usize) -> (usize, usize) {
        let means = &self.means[factor];
        let by_mean = |a: &usize, b: &usize| means[*a].mean.total_cmp(&means[*b].mean);
        let levels = || (0..means.len()).filter(|level| means[*level].runs > 0);
        (levels().min_by(by_mean).unwrap_or(0), levels().max_by(by_mean).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{StreamId, TraceRandom};

    fn factors() -> Vec<Factor> {
        [("a", 3), ("b", 2), ("c", 2)]
            .iter()
            .map(|(name, levels)| Factor {
                name: (*name).to_owned(),
                levels: (0..*levels).map(|level: usize| format!("{name}{level}")).collect(),
            })
            .collect()
    }

    /// An unbalanced design: of two repetitions of 3 · 2 · 2 settings, every seventh run is missing.
    fn runs() -> Vec<Observation> {
        (0..24u32)
            .filter(|run| run % 7 != 3)
            .map(|run| {
                let levels =
                    vec![(run % 3) as usize, (run / 3 % 2) as usize, (run / 6 % 2) as usize];
                let noise = f64::from(run * run * 37 % 101) / 100.0;
                let [a, b, c] = [levels[0] as f64, levels[1] as f64, levels[2] as f64];
                let value = 10.0 + 3.0 * a + 2.0 * b * a + 0.1 * c + noise;
                Observation { levels, value }
            })
            .collect()
    }

    /// statsmodels 0.15: `anova_lm(ols('y ~ (C(a) + C(b) + C(c))**2', data).fit(), typ=2)` on the same runs.
    #[test]
    fn analysis_of_an_unbalanced_design_is_that_of_statsmodels() {
        let screening = screen(&factors(), &runs()).unwrap();
        let expected = [
            (2.102_414_573_667e2, 2, 9.484_395_504_532e2, 4.837_601_490_028e-13),
            (1.978_723_555_556e1, 1, 1.785_280_318_171e2, 3.826_378_281_886e-8),
            (3.698_000_000_001e-2, 1, 3.336_477_497_356e-1, 5.751_517_315_139e-1),
            (1.156_338_752_976e1, 2, 5.216_465_966_231e1, 2.437_761_758_031e-6),
            (1.201_433_333_333e-1, 2, 5.419_896_269_928e-1, 5.963_550_865_680e-1),
            (5.070_000_000_001e-3, 1, 4.574_348_542_886e-2, 8.345_555_325_727e-1),
        ];
        assert_eq!(screening.terms.len(), expected.len());
        for (term, (squares, freedom, f, p)) in screening.terms.iter().zip(expected) {
            let name = screening.name(term);
            assert!((term.squares - squares).abs() < 1e-8 * squares, "{name}: {}", term.squares);
            assert_eq!(term.freedom, freedom, "{name}");
            assert!((term.f / f - 1.0).abs() < 1e-8, "{name}: {}", term.f);
            assert!((term.p - p).abs() < 1e-8 * p, "{name}: {}", term.p);
        }
        let (squares, freedom) = screening.residual;
        assert!((squares - 1.219_19).abs() < 1e-9, "{squares}");
        assert_eq!(freedom, 11);
    }

    #[test]
    fn findings_name_what_matters_and_what_does_not() {
        let findings = screen(&factors(), &runs()).unwrap().findings("us");
        assert!(findings[0].starts_with("a matters: from "), "{findings:?}");
        assert!(findings.iter().any(|line| line.starts_with("a × b: ")), "{findings:?}");
        assert!(findings.contains(&"no influence is visible of c".to_owned()), "{findings:?}");
    }

    #[test]
    fn influences_are_seldom_named_where_there_are_none() {
        let mut named = 0;
        for trace in 0..400 {
            let random = TraceRandom::new(3, trace);
            let noise = (0..).map(|index| random.draw(StreamId(0), index).normal());
            let runs: Vec<Observation> = runs()
                .into_iter()
                .zip(noise)
                .map(|(run, value)| Observation { value, ..run })
                .collect();
            let screening = screen(&factors(), &runs).unwrap();
            named += usize::from(screening.terms.iter().any(|term| term.matters));
        }
        // At most LEVEL; 400 · 0.05 = 20 with a deviation of 4.4.
        assert!(named <= 33, "{named} of 400");
    }

    #[test]
    fn designs_without_degrees_of_freedom_are_rejected() {
        let one = Factor { name: "a".to_owned(), levels: vec!["x".to_owned()] };
        assert_eq!(screen(&[one], &[]), Err(ScreenError::NoFactors));
        let few = screen(&factors(), &runs()[..6]);
        assert_eq!(few, Err(ScreenError::TooFewRuns { runs: 6, parameters: 5 }));
        let equal: Vec<Observation> =
            runs().into_iter().map(|run| Observation { value: 1.0, ..run }).collect();
        assert_eq!(screen(&factors(), &equal), Err(ScreenError::NoResidual));
    }
}
