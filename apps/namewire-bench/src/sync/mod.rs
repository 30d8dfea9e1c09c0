//! Copies of a directory tree: `namewire sync` beside rsync and rclone, each from its own server over loopback.

mod programs;
mod tree;

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, ensure};
use serde::Serialize;

use crate::started::Folder;
use programs::{Copier, Programs};
use tree::Tree;

/// Options of [`run_sync`].
#[derive(Debug, Clone, Copy)]
pub struct SyncBenchOptions {
    /// Files of the tree, in directories of 50.
    pub files: u64,
    /// Length of all files together, bytes.
    pub bytes: u64,
    /// Rounds that are measured, after one that is not.
    pub rounds: usize,
    /// Whether `namewire sync` verifies every file by trust rules.
    pub rules: bool,
}

/// Work of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    First,
    Unchanged,
    ChangedFile,
    RenamedDirectory,
}

impl Step {
    const ALL: [Self; 4] =
        [Self::First, Self::Unchanged, Self::ChangedFile, Self::RenamedDirectory];

    const fn name(self) -> &'static str {
        match self {
            Self::First => "first copy",
            Self::Unchanged => "second copy",
            Self::ChangedFile => "one changed file",
            Self::RenamedDirectory => "one renamed directory",
        }
    }
}

/// The times of a step.
#[derive(Debug, Clone, Serialize)]
pub struct SyncCase {
    /// Change since the copy before.
    pub step: String,
    /// The program beside `namewire sync`.
    pub program: String,
    /// Its time over that of `namewire sync`, median over the rounds; above 1, `namewire sync` was faster.
    pub ratio: f64,
    /// The least and the greatest of these ratios.
    pub ratio_range: [f64; 2],
    /// The times of `namewire sync` by round, seconds.
    pub namewire_s: Vec<f64>,
    /// The times of the program by round, seconds.
    pub program_s: Vec<f64>,
}

/// All that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct SyncReport {
    /// Files of the tree.
    pub files: u64,
    /// Length of all files together, bytes.
    pub bytes: u64,
    /// Rounds.
    pub rounds: usize,
    /// Whether `namewire sync` verified every file by trust rules.
    pub rules: bool,
    /// Programs that are not installed.
    pub missing: Vec<String>,
    /// Cases.
    pub cases: Vec<SyncCase>,
}

/// Times in seconds of each step and program, by round.
type Times = BTreeMap<(Step, Copier), Vec<f64>>;

/// Measures the steps: in each round, every program makes a new copy, repeats it without a change, then after a change of
/// one file, and after one directory was renamed. The programs take turns at each step, in another order in each round.
/// All servers run during the whole bench; their caches, that of the forwarder, and the page cache are warm, since the
/// first round is not measured. Every copy is compared with the tree.
///
/// # Errors
/// A program cannot be started or fails, or a copy differs from the tree.
pub fn run_sync(
    options: &SyncBenchOptions,
    mut note: impl FnMut(&str),
) -> anyhow::Result<SyncReport> {
    ensure!(options.bytes >= options.files, "every file has a byte");
    let folder = Folder::new(&format!("namewire-sync-{}", std::process::id()))?;
    let copies = folder.path().join("copies");
    let mut tree = Tree::create(folder.path().join("tree"), options.files, options.bytes)?;
    let programs = Programs::start(folder, tree.root(), options.rules)?;
    let copiers = programs.copiers();
    ensure!(copiers.contains(&Copier::Namewire), "the program `namewire` was not found");
    let mut times = Times::new();
    for round in 0..=options.rounds {
        note(&match round {
            0 => "a round that is not measured".to_owned(),
            round => format!("round {round} of {}", options.rounds),
        });
        for step in Step::ALL {
            match step {
                Step::First | Step::Unchanged => {}
                Step::ChangedFile => tree.change_file()?,
                Step::RenamedDirectory => tree.rename_directory()?,
            }
            for turn in 0..copiers.len() {
                let copier = copiers[(turn + round) % copiers.len()];
                let copy = copies.join(copier.name());
                if step == Step::First {
                    fs::create_dir_all(&copy)?;
                }
                let context = || format!("{}, {}", copier.name(), step.name());
                let time = programs.copy(copier, &copy).with_context(context)?;
                tree.check(&copy).with_context(context)?;
                if round > 0 {
                    times.entry((step, copier)).or_default().push(time.as_secs_f64());
                }
            }
        }
        fs::remove_dir_all(&copies)?;
    }
    let missing = Copier::ALL.iter().filter(|one| !copiers.contains(one));
    Ok(SyncReport {
        files: options.files,
        bytes: options.bytes,
        rounds: options.rounds,
        rules: options.rules,
        missing: missing.map(|one| one.name().to_owned()).collect(),
        cases: cases(&times),
    })
}

fn cases(times: &Times) -> Vec<SyncCase> {
    let others = times.iter().filter(|((_, copier), _)| *copier != Copier::Namewire);
    let case = |(&(step, copier), program_s): (&(Step, Copier), &Vec<f64>)| {
        let namewire_s = times.get(&(step, Copier::Namewire)).cloned().unwrap_or_default();
        let pairs = program_s.iter().zip(&namewire_s);
        let mut ratios: Vec<f64> = pairs.map(|(other, own)| other / own).collect();
        ratios.sort_by(f64::total_cmp);
        let (least, greatest) = (ratios.first().copied(), ratios.last().copied());
        SyncCase {
            step: step.name().to_owned(),
            program: copier.name().to_owned(),
            ratio: median(&ratios),
            ratio_range: [least, greatest].map(|end| end.unwrap_or(f64::NAN)),
            namewire_s,
            program_s: program_s.clone(),
        }
    };
    others.map(case).collect()
}

/// The median of sorted values.
fn median(sorted: &[f64]) -> f64 {
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => f64::NAN,
        (count, middle) if count.is_multiple_of(2) => (sorted[middle - 1] + sorted[middle]) / 2.0,
        (_, middle) => sorted[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_the_same_round() {
        let mut times = Times::new();
        times.insert((Step::First, Copier::Namewire), vec![1.0, 2.0, 4.0]);
        times.insert((Step::First, Copier::Rsync), vec![2.0, 3.0, 4.0]);
        let cases = cases(&times);
        assert_eq!(cases.len(), 1);
        let case = &cases[0];
        assert_eq!((case.program.as_str(), case.step.as_str()), ("rsync", "first copy"));
        assert_eq!((case.ratio, case.ratio_range), (1.5, [1.0, 2.0]));
        assert_eq!(median(&[1.0, 2.0]), 1.5);
    }
}
