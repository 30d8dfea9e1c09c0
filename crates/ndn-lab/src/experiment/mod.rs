//! Experiment files: factors, levels, responses, design, replications, budget and executor, in TOML.

mod executor;
mod reader;
mod template;

use ndn_model::random::{StreamId, TraceRandom};
use serde::{Deserialize, Serialize};

use crate::design::{Design, DesignError, Factor, Generator, Kind, RUNS_MAX, Run};
pub use executor::{Cache, Command, Executor, Host, Model, NETWORK_KINDS, Network};
pub use reader::Fault;
use reader::{Section, read_file};
pub use template::{Template, Values};

/// Largest number of responses.
pub const RESPONSES_MAX: usize = 100;
/// Longest time of a run of processes if the file states none.
pub const RUN_TIME_MS: u64 = 600_000;
/// Names that templates have beside those of factors.
const RESERVED: [&str; 2] = ["seed", "replication"];
/// Stream of the random numbers that are seeds of runs; those of [`Design::plan`] are numbers of blocks.
const SEEDS: StreamId = StreamId(u32::MAX);

/// A designed experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// The question that it answers.
    pub question: String,
    /// Determines the order and the seeds of the runs.
    pub seed: u64,
    /// Factors and cells.
    pub design: Design,
    /// Runs of each cell.
    pub replications: usize,
    /// Whether each replication is a block in time.
    pub is_blocked: bool,
    /// Whether all cells of a replication have the same seed (common random numbers).
    pub has_common_seeds: bool,
    /// Quantities that each run measures.
    pub responses: Vec<Response>,
    /// Limits.
    pub budget: Budget,
    /// Performs the runs.
    pub executor: Executor,
    /// The file.
    pub text: String,
}

/// A quantity that each run measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Its name.
    pub name: String,
    /// Its unit; empty for a number without one.
    pub unit: String,
    /// The property of a capacity model.
    pub property: Option<String>,
}

/// Limits of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Largest number of runs.
    pub runs_max: usize,
    /// Longest time of a run of processes.
    pub run_time_ms: u64,
    /// No run starts after this time of running, over all sessions.
    pub time_ms: Option<u64>,
}

/// A run of the plan with its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeededRun {
    /// Cell, replication and block.
    pub run: Run,
    /// Its seed.
    pub seed: u32,
}

impl Experiment {
    /// Parses an experiment file.
    ///
    /// # Errors
    /// Names line, key and reason.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let experiment = read_file(text, Self::read)?;
        Ok(Self { text: text.to_owned(), ..experiment })
    }

    fn read(file: &Section<'_>) -> Result<Self, Fault> {
        const KEYS: [&str; 8] =
            ["name", "question", "seed", "factors", "responses", "design", "budget", "executor"];
        file.only(&KEYS)?;
        let name = file.required_text("name")?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
            let reason =
                "consists of letters, digits, '-', '_' and '.', and does not begin with '.'";
            return Err(file.fault("name", reason));
        }
        let factors = read_factors(&file.required_section("factors")?)?;
        let executor_section = file.required_section("executor")?;
        let executor = Executor::read(&executor_section)?;
        check_templates(&executor_section, &executor, &factors)?;
        let responses = read_responses(&file.required_section("responses")?, &executor)?;
        let design_section = file.section("design")?;
        let design = read_design(file, design_section.as_ref(), factors)?;
        let (mut replications, mut is_blocked, mut has_common_seeds) = (1, true, false);
        if let Some(section) = &design_section {
            replications = section.count("replications", 1..=RUNS_MAX as u64)?.unwrap_or(1);
            is_blocked = section.flag("blocks")?.unwrap_or(true);
            has_common_seeds = section.flag("common_seeds")?.unwrap_or(false);
        }
        let experiment = Self {
            name,
            question: file.text("question")?.unwrap_or_default(),
            seed: file.count("seed", 0..=(1 << 53) - 1)?.unwrap_or(1),
            design,
            replications: replications as usize,
            is_blocked,
            has_common_seeds,
            responses,
            budget: read_budget(file.section("budget")?.as_ref(), &executor)?,
            executor,
            text: String::new(),
        };
        let runs = experiment.design.cells().len().saturating_mul(experiment.replications);
        if runs > experiment.budget.runs_max {
            let reason = format!(
                "{} cells with {} replications are {runs} runs, more than {}",
                experiment.design.cells().len(),
                experiment.replications,
                experiment.budget.runs_max
            );
            let budget = file.section("budget")?;
            return Err(budget.as_ref().unwrap_or(file).fault("runs", reason));
        }
        Ok(experiment)
    }

    /// All runs in the order in which they start. The seed of a run depends on its cell and replication, or its replication
    /// only: more replications keep the runs of fewer.
    ///
    /// # Errors
    /// There are too many runs.
    pub fn plan(&self) -> Result<Vec<SeededRun>, DesignError> {
        let runs = self.design.plan(self.replications, self.is_blocked, self.seed)?;
        let random = TraceRandom::new(self.seed, 0);
        let cells = self.design.cells().len();
        let seeded = |run: Run| {
            let number = match self.has_common_seeds {
                true => run.replication,
                false => run.replication * cells + run.cell,
            };
            let bits = random.draw(SEEDS, number as u64).bits();
            SeededRun { run, seed: (bits >> 32) as u32 }
        };
        Ok(runs.into_iter().map(seeded).collect())
    }

    /// Values of the templates of a run: levels of the factors, `seed` and `replication`.
    #[must_use]
    pub fn values(&self, run: SeededRun) -> Values {
        let mut values = self.levels(run.run.cell);
        values.insert("seed".to_owned(), run.seed.to_string());
        values.insert("replication".to_owned(), run.run.replication.to_string());
        values
    }

    /// Level of each factor of a cell.
    #[must_use]
    pub fn levels(&self, cell: usize) -> Values {
        let levels = self.design.factors().iter().zip(&self.design.cells()[cell]);
        levels.map(|(factor, level)| (factor.name.clone(), factor.levels[*level].clone())).collect()
    }

    /// The key of the file in which `other` differs so that its results are not results of this experiment. Replications, budget,
    /// question and units may differ.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        let measured = |one: &Self| -> Vec<_> {
            let response = |one: &Response| (one.name.clone(), one.property.clone());
            one.responses.iter().map(response).collect()
        };
        [
            ("name", self.name != other.name),
            ("seed", self.seed != other.seed),
            ("factors", self.design.factors() != other.design.factors()),
            (
                "design",
                self.design != other.design
                    || self.is_blocked != other.is_blocked
                    || self.has_common_seeds != other.has_common_seeds,
            ),
            ("responses", measured(self) != measured(other)),
            ("executor", self.executor != other.executor),
        ]
        .into_iter()
        .find_map(|(key, differs)| differs.then_some(key))
    }
}

fn read_factors(section: &Section<'_>) -> Result<Vec<Factor>, Fault> {
    let mut factors = Vec::new();
    for name in section.keys() {
        if RESERVED.contains(&name) {
            return Err(
                section.fault(name, "the name is taken: executors have a value of this name")
            );
        }
        if name.is_empty() || name.contains(['{', '}', '*']) || name.contains(char::is_whitespace) {
            return Err(section.fault(name, "a name has no braces, asterisks and white space"));
        }
        let levels = section.scalars(name)?.unwrap_or_default();
        factors.push(Factor { name: name.to_owned(), levels });
    }
    Ok(factors)
}

/// Refuses values that do not exist, and factors that no run would notice.
fn check_templates(
    section: &Section<'_>,
    executor: &Executor,
    factors: &[Factor],
) -> Result<(), Fault> {
    let names: Vec<&str> = factors.iter().map(|factor| factor.name.as_str()).collect();
    let templates = executor.templates();
    for (key, template) in &templates {
        let is_unknown = |name: &&str| !names.contains(name) && !RESERVED.contains(name);
        if let Some(unknown) = template.names().find(is_unknown) {
            let known = [&names[..], &RESERVED].concat().join(", ");
            return Err(
                section.fault(key, format!("unknown value '{{{unknown}}}'; known: {known}"))
            );
        }
    }
    // A command reads all factors from standard input.
    let is_used = |name: &str| templates.iter().any(|(_, one)| one.names().any(|own| own == name));
    let is_command = matches!(executor, Executor::Command(_));
    match names.into_iter().find(|name| !is_command && !is_used(name)) {
        Some(name) => {
            let reason = format!("the factor '{name}' is not used: no value contains '{{{name}}}'");
            Err(section.fault("", reason))
        }
        None => Ok(()),
    }
}

fn read_responses(section: &Section<'_>, executor: &Executor) -> Result<Vec<Response>, Fault> {
    let is_model = matches!(executor, Executor::Model(_));
    let mut responses = Vec::new();
    for name in section.keys() {
        let (unit, property) = if section.is_section(name) {
            let below = section.required_section(name)?;
            below.only(&["unit", "property"])?;
            (below.text("unit")?.unwrap_or_default(), below.text("property")?)
        } else {
            (section.required_text(name)?, None)
        };
        if property.is_some() != is_model {
            let reason = if is_model {
                "a response of a model needs a property: { unit = \"share\", property = \"E(share(satisfied))\" }"
            } else {
                "a property is for the executor 'model' only"
            };
            return Err(section.fault(name, reason));
        }
        responses.push(Response { name: name.to_owned(), unit, property });
    }
    if responses.is_empty() || responses.len() > RESPONSES_MAX {
        let reason = format!("{} responses; 1 to {RESPONSES_MAX} are possible", responses.len());
        return Err(section.fault("", reason));
    }
    Ok(responses)
}

fn read_design(
    file: &Section<'_>,
    section: Option<&Section<'_>>,
    factors: Vec<Factor>,
) -> Result<Design, Fault> {
    let mut kind = Kind::Factorial;
    if let Some(section) = section {
        section.only(&["kind", "generators", "cells", "replications", "blocks", "common_seeds"])?;
        let name = section.text("kind")?.unwrap_or_else(|| "factorial".to_owned());
        let mut own_key = "";
        kind = match name.as_str() {
            "factorial" => Kind::Factorial,
            "fractional" => {
                own_key = "generators";
                Kind::Fractional(read_generators(section, &factors)?)
            }
            "one-at-a-time" => Kind::OneAtATime,
            "latin-square" => Kind::LatinSquare,
            "custom" => {
                own_key = "cells";
                Kind::Custom(read_cells(section, &factors)?)
            }
            _ => {
                let known = "factorial, fractional, one-at-a-time, latin-square, custom";
                return Err(section.fault("kind", format!("unknown kind '{name}'; known: {known}")));
            }
        };
        let is_other = |key: &&&str| **key != own_key && section.keys().contains(*key);
        if let Some(key) = ["generators", "cells"].iter().find(is_other) {
            return Err(section.fault(key, format!("a design of kind '{name}' has none")));
        }
    }
    let is_factorial = kind == Kind::Factorial;
    Design::new(factors, kind).map_err(|error| {
        // Faults of factors name the factor; all others are those of the kind.
        match section.filter(|_| !is_factorial) {
            Some(section) => section.fault("kind", error.0),
            None => file.fault("factors", error.0),
        }
    })
}

/// Generators such as `d = a * b * c` or `e = -a * b`.
fn read_generators(section: &Section<'_>, factors: &[Factor]) -> Result<Vec<Generator>, Fault> {
    let texts = section.scalars("generators")?.unwrap_or_default();
    let parse = |text: &String| {
        let wrong = |reason: String| section.fault("generators", format!("\"{text}\": {reason}"));
        let find = |name: &str| {
            let name = name.trim();
            let found = factors.iter().position(|factor| factor.name == name);
            found.ok_or_else(|| wrong(format!("there is no factor '{name}'")))
        };
        let (factor, product) =
            text.split_once('=').ok_or_else(|| wrong("expected \"d = a * b\"".to_owned()))?;
        let (is_negative, product) = match product.trim().strip_prefix(['-', '−']) {
            Some(rest) => (true, rest),
            None => (false, product),
        };
        Ok(Generator {
            factor: find(factor)?,
            product: product.split('*').map(find).collect::<Result<_, _>>()?,
            is_negative,
        })
    };
    texts.iter().map(parse).collect()
}

/// Cells as tables with a level of each factor.
fn read_cells(section: &Section<'_>, factors: &[Factor]) -> Result<Vec<Vec<usize>>, Fault> {
    let cells = section.sections("cells")?.unwrap_or_default();
    if cells.is_empty() {
        return Err(section.fault("cells", "a custom design needs cells: [{ factor = level, … }]"));
    }
    let names: Vec<&str> = factors.iter().map(|factor| factor.name.as_str()).collect();
    let read = |cell: &Section<'_>| {
        cell.only(&names)?;
        let level = |factor: &Factor| {
            let text = cell.scalar(&factor.name)?;
            let text = text.ok_or_else(|| cell.fault(&factor.name, "the level is missing"))?;
            let found = factor.levels.iter().position(|level| *level == text);
            found.ok_or_else(|| {
                let reason = format!("'{text}' is not a level of the factor '{}'", factor.name);
                cell.fault(&factor.name, reason)
            })
        };
        factors.iter().map(level).collect()
    };
    cells.iter().map(read).collect()
}

fn read_budget(section: Option<&Section<'_>>, executor: &Executor) -> Result<Budget, Fault> {
    let mut budget = Budget { runs_max: RUNS_MAX, run_time_ms: RUN_TIME_MS, time_ms: None };
    if let Some(section) = section {
        section.only(&["runs", "run-time", "time"])?;
        let has_run_time = match executor {
            Executor::Command(_) => true,
            Executor::Network(_) => executor.kind() != "simulation",
            Executor::Cache(_) | Executor::Model(_) => false,
        };
        if section.keys().contains(&"run-time") && !has_run_time {
            let reason = "is for the executor 'command' and for processes of forwarders only";
            return Err(section.fault("run-time", reason));
        }
        let runs_max = section.count("runs", 1..=RUNS_MAX as u64)?;
        budget.runs_max = runs_max.map_or(RUNS_MAX, |runs| runs as usize);
        budget.run_time_ms = section.duration_ms("run-time")?.unwrap_or(RUN_TIME_MS);
        budget.time_ms = section.duration_ms("time")?;
    }
    Ok(budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"name = "caching"
question = "What matters?"
seed = 7

[factors]
objects = [100, 1_000]
policy = ["lru", "lfu"]
zipf = [0.7, 1.1]

[responses]
hit_share = "share"
delay_ms = { unit = "ms" }

[design]
kind = "fractional"
generators = ["zipf = -objects * policy"]
replications = 3
blocks = false

[budget]
runs = 12
# At most two minutes in all.
time = "2 min"

[executor]
kind = "cache"
topology = "abilene"
method = "{policy}/shortest-path"
load = { objects = "{objects}", zipf = "{zipf}", duration_s = 10 }
"#;

    #[test]
    fn example_file_is_a_valid_experiment() {
        let experiment = Experiment::parse(FILE).unwrap();
        let names: Vec<&str> =
            experiment.design.factors().iter().map(|factor| factor.name.as_str()).collect();
        assert_eq!(names, ["objects", "policy", "zipf"]);
        assert_eq!(experiment.design.factors()[0].levels, ["100", "1000"]);
        assert_eq!(experiment.design.cells().len(), 4);
        assert!(
            experiment.design.cells().iter().all(|cell| cell[2] == 1 ^ (1 ^ cell[0] ^ cell[1]))
        );
        assert_eq!(experiment.responses[1].unit, "ms");
        assert_eq!((experiment.replications, experiment.is_blocked), (3, false));
        let budget = Budget { runs_max: 12, run_time_ms: RUN_TIME_MS, time_ms: Some(120_000) };
        assert_eq!(experiment.budget, budget);
        let Executor::Cache(cache) = &experiment.executor else { panic!("another executor") };
        let run = experiment.plan().unwrap()[0];
        let values = experiment.values(run);
        let policy = &values["policy"];
        assert_eq!(cache.method.fill(&values), format!("{policy}/shortest-path"));
        assert_eq!(values["seed"], run.seed.to_string());
    }

    #[test]
    fn a_run_keeps_its_seed_with_more_replications() {
        let experiment = Experiment::parse(FILE).unwrap();
        let mut fewer = experiment.clone();
        fewer.replications = 1;
        let seeds = |one: &Experiment| -> Vec<_> {
            let plan = one.plan().unwrap();
            plan.iter().map(|run| (run.run.replication, run.run.cell, run.seed)).collect()
        };
        let (all, few) = (seeds(&experiment), seeds(&fewer));
        assert_eq!((all.len(), few.len()), (12, 4));
        assert!(few.iter().all(|run| all.contains(run)));
        let mut different: Vec<u32> = all.iter().map(|run| run.2).collect();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 12);
        assert_eq!(experiment.difference(&fewer), None);
    }

    #[test]
    fn cells_with_common_seeds_differ_between_replications_only() {
        let text = FILE.replace("blocks = false", "blocks = false\ncommon_seeds = true");
        let plan = Experiment::parse(&text).unwrap().plan().unwrap();
        let mut seeds: Vec<_> = plan.iter().map(|run| (run.run.replication, run.seed)).collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 3);
        assert!(seeds[0].1 != seeds[1].1 && seeds[1].1 != seeds[2].1);
    }

    #[test]
    fn results_of_another_experiment_are_distinguished() {
        let experiment = Experiment::parse(FILE).unwrap();
        for (from, to, key) in [
            ("seed = 7", "seed = 8", Some("seed")),
            ("[0.7, 1.1]", "[0.7, 1.2]", Some("factors")),
            ("-objects", "objects", Some("design")),
            ("blocks = false", "blocks = false\ncommon_seeds = true", Some("design")),
            ("delay_ms =", "stretch =", Some("responses")),
            ("abilene", "geant", Some("executor")),
            ("unit = \"ms\"", "unit = \"s\"", None),
            ("What matters?", "Which?", None),
        ] {
            let other = FILE.replace(from, to);
            assert_ne!(other, FILE);
            assert_eq!(experiment.difference(&Experiment::parse(&other).unwrap()), key, "{to}");
        }
    }

    #[test]
    fn faults_name_line_key_and_reason() {
        for (from, to, expected) in [
            ("seed = 7", "sed = 7", "line 3: sed: unknown key"),
            ("seed = 7", "seed = -7", "line 3: seed: expected a whole number"),
            ("seed = 7", "seed = ", "line 3: "),
            ("\"caching\"", "\"a/b\"", "line 1: name: consists of"),
            ("[0.7, 1.1]", "0.7", "line 8: factors.zipf: expected a list"),
            ("[0.7, 1.1]", "[0.7, 0.7]", "factor 'zipf' has a level twice"),
            ("zipf = [", "seed = [", "line 8: factors.seed: the name is taken"),
            (
                "delay_ms = {",
                "delay_ms = { property = \"x\",",
                "line 12: responses.delay_ms: a property",
            ),
            ("unit =", "units =", "line 12: responses.delay_ms.units: unknown key"),
            ("\"fractional\"", "\"half\"", "line 15: design.kind: unknown kind 'half'"),
            ("\"fractional\"", "\"factorial\"", "line 16: design.generators: a design of kind"),
            (
                "* policy\"",
                "* x\"",
                "line 16: design.generators: \"zipf = -objects * x\": there is no factor 'x'",
            ),
            ("replications = 3", "replications = 0", "line 17: design.replications: expected"),
            (
                "runs = 12",
                "runs = 11",
                "line 21: budget.runs: 4 cells with 3 replications are 12 runs",
            ),
            ("\"2 min\"", "\"2\"", "line 23: budget.time: expected a duration"),
            (
                "time = \"2",
                "run-time = \"2",
                "line 23: budget.run-time: is for the executor 'command' and",
            ),
            ("\"cache\"", "\"cash\"", "line 26: executor.kind: unknown kind 'cash'"),
            ("topology =", "topologie =", "line 27: executor.topologie: unknown key"),
            (
                "{policy}/",
                "{policies}/",
                "line 28: executor.method: unknown value '{policies}'; known: objects",
            ),
            ("\"{zipf}\"", "\"{zipf\"", "executor.load.zipf: \"{zipf\": '{' without"),
            (
                "duration_s = 10",
                "seconds = 10",
                "line 29: executor.load.seconds: unknown key; known: requests_per_s, zipf, objects",
            ),
            (", zipf = \"{zipf}\"", "", "line 25: executor: the factor 'zipf' is not used"),
            ("[responses]", "[reactions]", "line 10: reactions: unknown key"),
        ] {
            let text = FILE.replace(from, to);
            assert_ne!(text, FILE, "{from}");
            let fault = Experiment::parse(&text).unwrap_err().to_string();
            assert!(fault.contains(expected), "{to}: {fault}");
        }
        let fault = Experiment::parse("name = \"x\"").unwrap_err().to_string();
        assert_eq!(fault, "factors: the table is missing");
    }

    #[test]
    fn cells_of_a_custom_design_name_levels() {
        let custom = |cells: &str| {
            let from = "kind = \"fractional\"\ngenerators = [\"zipf = -objects * policy\"]";
            Experiment::parse(&FILE.replace(from, &format!("kind = \"custom\"\ncells = [{cells}]")))
        };
        let cell = "{ objects = 1000, policy = \"lfu\", zipf = 0.7 }";
        let other = "{ zipf = 1.1, objects = 100, policy = \"lru\" }";
        let experiment = custom(&format!("{cell}, {other}")).unwrap();
        assert_eq!(experiment.design.cells(), [[1, 1, 0], [0, 0, 1]]);
        let refused = |cells: &str, part: &str| {
            let fault = custom(cells).unwrap_err().to_string();
            assert!(fault.contains(part), "{fault}");
        };
        refused("", "design.cells: a custom design needs cells");
        refused("{ objects = 100 }", "line 16: design.cells[0].policy: the level is missing");
        refused(&cell.replace("lfu", "fifo"), "'fifo' is not a level of the factor 'policy'");
        refused(&format!("{cell}, {cell}"), "cell 2 occurs twice");
    }
}
