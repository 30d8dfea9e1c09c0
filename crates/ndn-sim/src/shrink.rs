//! The smallest part of a scenario that still fails.

use crate::scenario::{Element, Scenario};
use crate::simulation::{Failure, Simulation, Start};

/// A scenario that fails, reduced.
#[derive(Debug)]
pub struct Shrunk {
    /// The shrunken scenario.
    pub scenario: Scenario,
    /// The elements that were left out.
    pub removed: Vec<Element>,
    /// Its failure.
    pub failure: Failure,
}

/// The kind of failure: its reason without the names and numbers that differ between parts of a scenario.
fn kind(failure: &Failure) -> String {
    let is_word = |word: &&str| word.chars().all(char::is_alphabetic);
    failure.reason.split_whitespace().filter(is_word).collect::<Vec<_>>().join(" ")
}

/// Leaves out whatever the failure does not need (delta debugging; Zeller and Hildebrandt, "Simplifying
/// and Isolating Failure-Inducing Input", 2002). Runs at most `runs_max` simulations. `None` if the
/// scenario does not fail.
pub fn shrink(scenario: &Scenario, start: &mut Start<'_>, runs_max: usize) -> Option<Shrunk> {
    let failure = Simulation::run(scenario, start).err()?;
    let requested = kind(&failure);
    let mut shrunk = Shrunk { scenario: scenario.clone(), removed: Vec::new(), failure };
    let mut runs = 0;
    let mut chunk = shrunk.scenario.elements().len().div_ceil(2).max(1);
    loop {
        let elements = shrunk.scenario.elements();
        let mut is_smaller = false;
        for removed in elements.chunks(chunk) {
            if runs == runs_max {
                return Some(shrunk);
            }
            runs += 1;
            let candidate = shrunk.scenario.without(removed);
            let outcome = Simulation::run(&candidate, start);
            if let Err(failure) = outcome
                && kind(&failure) == requested
            {
                shrunk.scenario = candidate;
                shrunk.removed.extend_from_slice(removed);
                shrunk.failure = failure;
                is_smaller = true;
            }
        }
        if chunk == 1 && !is_smaller {
            shrunk.removed.sort_unstable();
            return Some(shrunk);
        }
        chunk = chunk.div_ceil(2).max(1);
    }
}
