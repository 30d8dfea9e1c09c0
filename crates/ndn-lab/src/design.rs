//! Designs: which combinations of levels run, how often, and in which order.

use ndn_model::random::{StreamId, TraceRandom};
pub use ndn_model::screen::Factor;
use serde::{Deserialize, Serialize};

/// Largest number of factors.
pub const FACTORS_MAX: usize = 20;
/// Largest number of runs: cells times replications.
pub const RUNS_MAX: usize = 100_000;

/// Kind of a design.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Each combination of levels. With two levels for each factor: 2^k, or 2^k·r with replications.
    Factorial,
    /// 2^(k−p): each generator defines the levels of a factor by those of others.
    Fractional(Vec<Generator>),
    /// The first level of each factor, and each other level of one factor at a time.
    OneAtATime,
    /// Three factors of n levels in n² cells: each level of the third once in each row and column.
    LatinSquare,
    /// These cells: indices of levels.
    Custom(Vec<Vec<usize>>),
}

/// The levels of a factor of a fractional design as product of other factors, with levels −1 and +1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generator {
    /// Index of the factor that is defined.
    pub factor: usize,
    /// Indices of the factors of the product.
    pub product: Vec<usize>,
    /// Whether the product has the sign −.
    pub is_negative: bool,
}

/// Why a design is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesignError(pub String);

impl core::fmt::Display for DesignError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for DesignError {}

/// A set of factors as bits, with a sign: a product of columns of −1 and +1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// Bit i: factor i is in the product.
    pub factors: u32,
    /// Whether its sign is −.
    pub is_negative: bool,
}

impl Word {
    fn times(self, other: Self) -> Self {
        Self {
            factors: self.factors ^ other.factors,
            is_negative: self.is_negative != other.is_negative,
        }
    }

    /// Indices of its factors.
    pub fn members(self) -> impl Iterator<Item = usize> {
        (0..32).filter(move |bit| self.factors >> bit & 1 == 1)
    }

    /// Its value, −1 or +1, in a cell with two levels for each factor.
    #[must_use]
    pub fn sign(self, levels: &[usize]) -> f64 {
        let low = self.members().filter(|factor| levels[*factor] == 0).count();
        if (low % 2 == 1) == self.is_negative { 1.0 } else { -1.0 }
    }
}

/// A run of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Index of the cell.
    pub cell: usize,
    /// Number of the replication, from 0.
    pub replication: usize,
    /// Block in time, from 0.
    pub block: usize,
}

/// Factors and cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Design {
    factors: Vec<Factor>,
    kind: Kind,
    cells: Vec<Vec<usize>>,
}

impl Design {
    /// The cells of a design over factors.
    ///
    /// # Errors
    /// The factors do not suit the kind of design; names the factor.
    pub fn new(factors: Vec<Factor>, kind: Kind) -> Result<Self, DesignError> {
        check_factors(&factors)?;
        let sizes: Vec<usize> = factors.iter().map(|factor| factor.levels.len()).collect();
        let cells = match &kind {
            Kind::Factorial => combinations(&sizes)?,
            Kind::Fractional(generators) => fractional(&factors, generators)?,
            Kind::OneAtATime => {
                let base = vec![0; sizes.len()];
                let mut cells = vec![base.clone()];
                for (factor, size) in sizes.iter().enumerate() {
                    cells.extend((1..*size).map(|level| {
                        let mut cell = base.clone();
                        cell[factor] = level;
                        cell
                    }));
                }
                cells
            }
            Kind::LatinSquare => latin_square(&sizes)?,
            Kind::Custom(cells) => custom(&factors, cells)?,
        };
        Ok(Self { factors, kind, cells })
    }

    /// The factors.
    #[must_use]
    pub fn factors(&self) -> &[Factor] {
        &self.factors
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Indices of levels of each cell.
    #[must_use]
    pub fn cells(&self) -> &[Vec<usize>] {
        &self.cells
    }

    /// Whether effects are contrasts of −1 and +1: a full or fractional factorial of two levels.
    #[must_use]
    pub fn is_two_level(&self) -> bool {
        match self.kind {
            Kind::Factorial => self.factors.iter().all(|factor| factor.levels.len() == 2),
            Kind::Fractional(_) => true,
            Kind::OneAtATime | Kind::LatinSquare | Kind::Custom(_) => false,
        }
    }

    /// Words that are constant over all cells, of a fractional design: the defining relation without I.
    #[must_use]
    pub fn defining_relation(&self) -> Vec<Word> {
        let Kind::Fractional(generators) = &self.kind else { return Vec::new() };
        let identity = Word { factors: 0, is_negative: false };
        let mut group = vec![identity];
        for generator in generators {
            let more: Vec<Word> =
                group.iter().map(|word| word.times(generator_word(generator))).collect();
            group.extend(more);
        }
        group.retain(|word| word.factors != 0);
        group.sort_by_key(|word| (word.factors.count_ones(), word.factors));
        group
    }

    /// The effects that the cells distinguish, each with the words that are confounded with it; words of few factors
    /// first. Empty unless [`Self::is_two_level`].
    #[must_use]
    pub fn effects(&self) -> Vec<(Word, Vec<Word>)> {
        if !self.is_two_level() {
            return Vec::new();
        }
        let relation = self.defining_relation();
        let mut words: Vec<u32> = (1..1u32 << self.factors.len()).collect();
        words.sort_by_key(|word| (word.count_ones(), *word));
        let mut is_taken = vec![false; 1 << self.factors.len()];
        relation.iter().for_each(|word| is_taken[word.factors as usize] = true);
        let mut effects = Vec::new();
        for factors in words {
            if is_taken[factors as usize] {
                continue;
            }
            let word = Word { factors, is_negative: false };
            let mut aliases: Vec<Word> = relation.iter().map(|other| word.times(*other)).collect();
            aliases.sort_by_key(|alias| (alias.factors.count_ones(), alias.factors));
            aliases.iter().for_each(|alias| is_taken[alias.factors as usize] = true);
            effects.push((word, aliases));
        }
        effects
    }

    /// Name of a word: its factors.
    #[must_use]
    pub fn name(&self, word: Word) -> String {
        let names: Vec<&str> =
            word.members().map(|factor| self.factors[factor].name.as_str()).collect();
        let sign = if word.is_negative { "−" } else { "" };
        format!("{sign}{}", names.join(" × "))
    }

    /// The effects that the design does not distinguish, as sentences.
    #[must_use]
    pub fn confounding(&self) -> Vec<String> {
        let relation = self.defining_relation();
        let Some(shortest) = relation.first() else { return Vec::new() };
        let resolution = shortest.factors.count_ones();
        let mut lines = vec![format!(
            "The design runs {} of {} combinations, resolution {resolution}: {}",
            self.cells.len(),
            1u64 << self.factors.len(),
            match resolution {
                ..3 => "main effects are confounded with each other.",
                3 => "main effects are confounded with interactions of two factors.",
                4 =>
                    "main effects are clear of interactions of two factors, but those are confounded with \
                     each other.",
                _ =>
                    "main effects and interactions of two factors are confounded with interactions of three \
                     or more only.",
            }
        )];
        for (word, aliases) in self.effects() {
            let aliases: Vec<String> = aliases.iter().map(|alias| self.name(*alias)).collect();
            lines.push(format!(
                "The effect of {} includes that of {}.",
                self.name(word),
                aliases.join(" and ")
            ));
        }
        lines
    }

    /// The levels of a cell in words.
    #[must_use]
    pub fn describe(&self, cell: usize) -> String {
        let levels = self.factors.iter().zip(&self.cells[cell]);
        let levels: Vec<String> = levels
            .map(|(factor, level)| format!("{}={}", factor.name, factor.levels[*level]))
            .collect();
        levels.join(" ")
    }

    /// All runs in random order, the same for the same seed. With `in_blocks`, each replication is a block: all cells
    /// in random order before the next replication, so that a drift of the machine is not taken for an effect.
    ///
    /// # Errors
    /// There are too many runs, or none.
    pub fn plan(
        &self,
        replications: usize,
        in_blocks: bool,
        seed: u64,
    ) -> Result<Vec<Run>, DesignError> {
        let count = self.cells.len().saturating_mul(replications);
        if count == 0 || count > RUNS_MAX {
            return Err(DesignError(format!(
                "{} cells with {replications} replications are {count} runs; 1 to {RUNS_MAX} are possible",
                self.cells.len()
            )));
        }
        let mut runs: Vec<Run> = (0..replications)
            .flat_map(|replication| {
                let block = if in_blocks { replication } else { 0 };
                (0..self.cells.len()).map(move |cell| Run { cell, replication, block })
            })
            .collect();
        let random = TraceRandom::new(seed, 0);
        let size = if in_blocks { self.cells.len() } else { count };
        for (block, runs) in runs.chunks_mut(size).enumerate() {
            // Fisher–Yates.
            for last in (1..runs.len()).rev() {
                let other = random.draw(StreamId(block as u32), last as u64).below(last as u64 + 1);
                runs.swap(last, other as usize);
            }
        }
        Ok(runs)
    }
}

fn check_factors(factors: &[Factor]) -> Result<(), DesignError> {
    if factors.is_empty() || factors.len() > FACTORS_MAX {
        let text = format!("{} factors; 1 to {FACTORS_MAX} are possible", factors.len());
        return Err(DesignError(text));
    }
    for (number, factor) in factors.iter().enumerate() {
        let name = &factor.name;
        if factors[..number].iter().any(|other| other.name == *name) {
            return Err(DesignError(format!("factor '{name}' occurs twice")));
        }
        if factor.levels.len() < 2 {
            return Err(DesignError(format!("factor '{name}' needs two levels or more")));
        }
        let is_repeated = |(index, level): (usize, &String)| factor.levels[..index].contains(level);
        if factor.levels.iter().enumerate().any(is_repeated) {
            return Err(DesignError(format!("factor '{name}' has a level twice")));
        }
    }
    Ok(())
}

/// All combinations, the first factor fastest.
fn combinations(sizes: &[usize]) -> Result<Vec<Vec<usize>>, DesignError> {
    let count = sizes.iter().try_fold(1usize, |count, size| count.checked_mul(*size));
    let Some(count) = count.filter(|count| *count <= RUNS_MAX) else {
        let text = "the factors have more combinations than ";
        return Err(DesignError(format!("{text}{RUNS_MAX}")));
    };
    let cell = |mut number: usize| {
        sizes
            .iter()
            .map(|size| {
                let level = number % size;
                number /= size;
                level
            })
            .collect()
    };
    Ok((0..count).map(cell).collect())
}

fn generator_word(generator: &Generator) -> Word {
    let bits = generator.product.iter().chain([&generator.factor]);
    Word {
        factors: bits.fold(0, |bits, factor| bits ^ 1 << factor),
        is_negative: generator.is_negative,
    }
}

fn fractional(
    factors: &[Factor],
    generators: &[Generator],
) -> Result<Vec<Vec<usize>>, DesignError> {
    if let Some(factor) = factors.iter().find(|factor| factor.levels.len() != 2) {
        let text = format!("factor '{}' of a fractional design needs two levels", factor.name);
        return Err(DesignError(text));
    }
    let is_defined = |factor: usize| generators.iter().any(|one| one.factor == factor);
    for (number, generator) in generators.iter().enumerate() {
        let name = &factors[generator.factor].name;
        if generators[..number].iter().any(|other| other.factor == generator.factor) {
            return Err(DesignError(format!("factor '{name}' has two generators")));
        }
        let product = &generator.product;
        if let Some(other) = product.iter().find(|factor| is_defined(**factor)) {
            return Err(DesignError(format!(
                "the generator of '{name}' contains '{}', which has a generator itself",
                factors[*other].name
            )));
        }
        if product.is_empty() || (1..product.len()).any(|i| product[..i].contains(&product[i])) {
            return Err(DesignError(format!(
                "the generator of '{name}' is not a product of different factors"
            )));
        }
    }
    if generators.is_empty() {
        return Err(DesignError("a fractional design needs generators".to_owned()));
    }
    let base: Vec<usize> = (0..factors.len()).filter(|factor| !is_defined(*factor)).collect();
    let cells = combinations(&vec![2; base.len()])?.into_iter().map(|levels| {
        let mut cell = vec![0; factors.len()];
        base.iter().zip(levels).for_each(|(factor, level)| cell[*factor] = level);
        for generator in generators {
            let bits = generator.product.iter().fold(0, |bits, factor| bits | 1 << factor);
            let word = Word { factors: bits, is_negative: generator.is_negative };
            cell[generator.factor] = usize::from(word.sign(&cell) > 0.0);
        }
        cell
    });
    Ok(cells.collect())
}

fn latin_square(sizes: &[usize]) -> Result<Vec<Vec<usize>>, DesignError> {
    let &[rows, columns, letters] = sizes else {
        return Err(DesignError("a Latin square has three factors".to_owned()));
    };
    if rows != columns || rows != letters {
        return Err(DesignError(format!(
            "the factors of a Latin square have the same number of levels, not {rows}, {columns} and {letters}"
        )));
    }
    let cells = combinations(&[rows, rows])?;
    Ok(cells.into_iter().map(|cell| vec![cell[0], cell[1], (cell[0] + cell[1]) % rows]).collect())
}

fn custom(factors: &[Factor], cells: &[Vec<usize>]) -> Result<Vec<Vec<usize>>, DesignError> {
    for (number, cell) in cells.iter().enumerate() {
        let fits = cell.len() == factors.len()
            && cell.iter().zip(factors).all(|(level, factor)| *level < factor.levels.len());
        if !fits {
            return Err(DesignError(format!("cell {} does not fit the factors", number + 1)));
        }
        if cells[..number].contains(cell) {
            return Err(DesignError(format!("cell {} occurs twice", number + 1)));
        }
    }
    Ok(cells.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn two_level(names: &str) -> Vec<Factor> {
        let levels = || vec!["-1".to_owned(), "1".to_owned()];
        names.chars().map(|name| Factor { name: name.to_string(), levels: levels() }).collect()
    }

    fn sized(sizes: &[usize]) -> Vec<Factor> {
        let factor = |(number, size): (usize, &usize)| Factor {
            name: format!("f{number}"),
            levels: (0..*size).map(|level| level.to_string()).collect(),
        };
        sizes.iter().enumerate().map(factor).collect()
    }

    fn generator(factor: usize, product: &[usize]) -> Generator {
        Generator { factor, product: product.to_vec(), is_negative: false }
    }

    /// Montgomery, Design and Analysis of Experiments, the 2^(6−2) design with E = ABC, F = BCD.
    #[test]
    fn confounding_of_a_quarter_fraction_is_that_of_the_textbook() {
        let kind = Kind::Fractional(vec![generator(4, &[0, 1, 2]), generator(5, &[1, 2, 3])]);
        let design = Design::new(two_level("ABCDEF"), kind).unwrap();
        assert_eq!(design.cells().len(), 16);
        let relation: Vec<String> =
            design.defining_relation().iter().map(|word| design.name(*word)).collect();
        assert_eq!(relation, ["A × B × C × E", "B × C × D × F", "A × D × E × F"]);
        let lines = design.confounding();
        assert!(lines[0].contains("16 of 64") && lines[0].contains("resolution 4"), "{lines:?}");
        let ab = "The effect of A × B includes that of C × E and A × C × D × F and B × D × E × F.";
        assert!(lines.contains(&ab.to_owned()), "{lines:#?}");
        assert_eq!(design.effects().len(), 15);
    }

    #[test]
    fn a_word_and_its_aliases_have_the_same_column() {
        let mut negative = generator(4, &[0, 3]);
        negative.is_negative = true;
        let kind = Kind::Fractional(vec![generator(3, &[0, 1, 2]), negative]);
        // The second generator contains a factor that has one itself.
        assert!(Design::new(two_level("ABCDE"), kind).unwrap_err().0.contains("'D'"));
        let mut negative = generator(4, &[0, 2]);
        negative.is_negative = true;
        let kind = Kind::Fractional(vec![generator(3, &[0, 1, 2]), negative]);
        let design = Design::new(two_level("ABCDE"), kind).unwrap();
        for word in design.defining_relation() {
            assert!(design.cells().iter().all(|cell| word.sign(cell) > 0.0));
        }
        for (word, aliases) in design.effects() {
            let column = |word: Word| -> Vec<f64> {
                design.cells().iter().map(|cell| word.sign(cell)).collect()
            };
            assert_eq!(column(word).iter().sum::<f64>(), 0.0);
            assert!(aliases.iter().all(|alias| column(*alias) == column(word)));
        }
    }

    #[test]
    fn a_latin_square_has_each_level_once_in_each_row_and_column() {
        let design = Design::new(sized(&[4, 4, 4]), Kind::LatinSquare).unwrap();
        assert_eq!(design.cells().len(), 16);
        for (one, other) in [(0, 2), (1, 2), (0, 1)] {
            let mut pairs: Vec<_> = design.cells().iter().map(|c| (c[one], c[other])).collect();
            pairs.sort_unstable();
            pairs.dedup();
            assert_eq!(pairs.len(), 16);
        }
        assert!(Design::new(sized(&[4, 4, 3]), Kind::LatinSquare).is_err());
    }

    #[test]
    fn one_factor_at_a_time_differs_from_the_base_in_one_factor() {
        let design = Design::new(sized(&[3, 2, 4]), Kind::OneAtATime).unwrap();
        assert_eq!(design.cells().len(), 1 + 2 + 1 + 3);
        let differing = |cell: &Vec<usize>| cell.iter().filter(|level| **level > 0).count();
        assert!(design.cells()[1..].iter().all(|cell| differing(cell) == 1));
    }

    #[test]
    fn the_order_is_random_complete_and_repeatable() {
        let design = Design::new(sized(&[3, 4]), Kind::Factorial).unwrap();
        let plan = design.plan(3, true, 7).unwrap();
        assert_eq!(plan, design.plan(3, true, 7).unwrap());
        assert_ne!(plan, design.plan(3, true, 8).unwrap());
        for (block, runs) in plan.chunks(12).enumerate() {
            let mut cells: Vec<_> = runs.iter().map(|run| run.cell).collect();
            assert_ne!(cells, (0..12).collect::<Vec<_>>());
            cells.sort_unstable();
            assert_eq!(cells, (0..12).collect::<Vec<_>>());
            assert!(runs.iter().all(|run| run.block == block && run.replication == block));
        }
        let mut free = design.plan(3, false, 7).unwrap();
        assert!(free[..12].iter().any(|run| run.replication > 0), "blocks are not mixed");
        free.sort_by_key(|run| (run.replication, run.cell));
        assert_eq!(free.len(), 36);
        assert!(free.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn invalid_designs_are_refused_with_the_factor() {
        let refused = |factors, kind, part: &str| {
            let error = Design::new(factors, kind).unwrap_err().0;
            assert!(error.contains(part), "{error}");
        };
        refused(Vec::new(), Kind::Factorial, "0 factors");
        refused(sized(&[2, 1]), Kind::Factorial, "'f1' needs two levels");
        refused(two_level("AA"), Kind::Factorial, "'A' occurs twice");
        refused(sized(&[2, 3]), Kind::Fractional(vec![generator(0, &[1])]), "'f1'");
        refused(two_level("AB"), Kind::Fractional(Vec::new()), "needs generators");
        refused(sized(&[100, 100, 100]), Kind::Factorial, "more combinations");
        refused(sized(&[2, 2]), Kind::Custom(vec![vec![0, 2]]), "cell 1");
        refused(sized(&[2, 2]), Kind::Custom(vec![vec![0, 1], vec![0, 1]]), "cell 2 occurs twice");
        let design = Design::new(sized(&[2, 2]), Kind::Factorial).unwrap();
        assert!(design.plan(0, false, 1).is_err() && design.plan(RUNS_MAX, false, 1).is_err());
    }
}
