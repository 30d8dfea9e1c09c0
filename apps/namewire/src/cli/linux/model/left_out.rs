//! Tries that were discarded, and runs that are left out of a calibration or of a validation.

use std::collections::BTreeMap;
use std::fmt::Display;

use ndn_model::calibrate::{Disturbance, LeftOut, LeftOutReason, Run};
use serde_json::{Value, json};

/// Tries of runs that were disturbed.
#[derive(Debug, Default)]
pub(super) struct Tries {
    discarded: usize,
    discarded_for: BTreeMap<Disturbance, usize>,
    /// Runs of which all tries were disturbed.
    disturbed: BTreeMap<Disturbance, Vec<usize>>,
}

impl Tries {
    pub(super) fn of<'r>(runs: impl IntoIterator<Item = &'r Run>) -> Self {
        let mut all = Self::default();
        for run in runs {
            all.discarded += run.discarded;
            for disturbance in &run.discarded_for {
                *all.discarded_for.entry(*disturbance).or_default() += 1;
            }
            if let Some(disturbance) = run.disturbed_by {
                all.disturbed.entry(disturbance).or_default().push(run.number);
            }
        }
        all
    }

    /// Discarded tries of files that do not have the reasons.
    fn unexplained(&self) -> usize {
        self.discarded.saturating_sub(self.discarded_for.values().sum())
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let mut parts: Vec<String> = self
            .discarded_for
            .iter()
            .map(|(why, count)| format!("{count} because {why}"))
            .collect();
        if self.unexplained() > 0 {
            parts.push(format!("{} without a reason in the file", self.unexplained()));
        }
        let discarded = format!("{} tries discarded", self.discarded);
        let mut lines =
            vec![[discarded, parts.join(", ")].join(if parts.is_empty() { "" } else { ": " })];
        lines.extend(self.disturbed.iter().map(|(why, runs)| {
            let noun = if runs.len() == 1 { "run" } else { "runs" };
            let runs = numbers(runs);
            format!(
                "each try of {noun} {runs} was disturbed; the least disturbed one is used: {why}"
            )
        }));
        lines
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "discarded": self.discarded,
            "discarded_for": self.discarded_for,
            "without_a_reason": self.unexplained(),
            "disturbed_runs_by_reason": self.disturbed,
        })
    }
}

/// The runs that are left out, in a line for each reason.
pub(super) fn lines(left_out: &[LeftOut]) -> Vec<String> {
    let mut by_reason: BTreeMap<LeftOutReason, Vec<usize>> = BTreeMap::new();
    for one in left_out {
        by_reason.entry(one.reason).or_default().push(one.run);
    }
    let line = |(reason, runs): (&LeftOutReason, &Vec<usize>)| {
        let noun = if runs.len() == 1 { "run" } else { "runs" };
        format!("{} {noun} {reason}: {}", runs.len(), numbers(runs))
    };
    by_reason.iter().map(line).collect()
}

/// Numbers of runs, as the files have them.
fn numbers(runs: &[impl Display]) -> String {
    runs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_and_runs_that_are_left_out_have_their_reasons() {
        let mut tries = Tries { discarded: 7, ..Tries::default() };
        tries.discarded_for.insert(Disturbance::Moved, 1);
        tries.discarded_for.insert(Disturbance::OtherPrograms, 4);
        tries.disturbed.insert(Disturbance::Slowed, vec![3, 17]);
        assert_eq!(
            tries.lines(),
            [
                "7 tries discarded: 4 because other programs ran, 1 because the host moved a processor, 2 without a reason in \
                 the file",
                "each try of runs 3, 17 was disturbed; the least disturbed one is used: the reference load was slow, or changed",
            ]
        );
        let json = tries.json();
        assert_eq!(
            (&json["discarded_for"]["moved"], &json["without_a_reason"]),
            (&json!(1), &json!(2))
        );
        assert_eq!(json["disturbed_runs_by_reason"]["slowed"], json!([3, 17]));
        assert_eq!(Tries::default().lines(), ["0 tries discarded"]);
        let one = |run, reason| LeftOut { run, reason };
        let left_out = [
            one(5, LeftOutReason::NoAnswers),
            one(2, LeftOutReason::OtherPrograms),
            one(9, LeftOutReason::NoAnswers),
        ];
        assert_eq!(
            lines(&left_out),
            [
                "1 run not used: other programs took a processor for more than 5 % of the time: 2",
                "2 runs without latencies: no Interest was satisfied: 5, 9",
            ]
        );
    }
}
