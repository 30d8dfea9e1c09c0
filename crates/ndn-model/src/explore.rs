//! Sweeps over factors of a model, with effort where the answer is undecided.
//!
//! All points use the same trace numbers under the same seed: common random numbers, so that differences
//! between points are differences of the designs. The order of the tasks depends on results only, not on
//! the threads that ran them.
//!
//! The error holds for each point by itself ([`ERROR_SCOPE`]): of n points with error e, up to n e answers
//! are wrong on average. Common random numbers make these faults dependent, so that they may come together.

use crate::check::{CheckError, CheckResult, Checker, Method, Runner};
use crate::file::{FileError, Model};
use crate::property::{Property, PropertyError};

/// One factor: a key of the model file and the values that it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factor {
    /// Dotted key, such as `forwarder.workers`.
    pub key: String,
    /// Values, as in the file; quotes may be left out.
    pub values: Vec<String>,
}

/// The scope of the error of a sweep, for reports.
pub const ERROR_SCOPE: &str =
    "the error holds for each point by itself, not for all points at once";

/// More points than this are refused.
pub const POINTS_MAX: usize = 10_000;

/// Why there is no sweep.
#[derive(Debug, Clone, PartialEq)]
pub enum ExploreError {
    /// The model file, with the changes of a point.
    File(FileError),
    /// The property.
    Property(PropertyError),
    /// The method.
    Check(CheckError),
    /// The factors.
    Factors(String),
}

impl core::fmt::Display for ExploreError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::File(error) => write!(f, "{error}"),
            Self::Property(error) => write!(f, "{error}"),
            Self::Check(error) => write!(f, "{error}"),
            Self::Factors(reason) => f.write_str(reason),
        }
    }
}

impl core::error::Error for ExploreError {}

impl From<FileError> for ExploreError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl From<PropertyError> for ExploreError {
    fn from(error: PropertyError) -> Self {
        Self::Property(error)
    }
}

impl From<CheckError> for ExploreError {
    fn from(error: CheckError) -> Self {
        Self::Check(error)
    }
}

/// One combination of the factors' values.
#[derive(Debug)]
pub struct Point {
    /// Keys and values.
    pub changes: Vec<(String, String)>,
    /// The model with them.
    pub model: Model,
    /// The property, read for this model.
    pub property: Property,
    checker: Checker,
    /// Observations in order of the trace number: what a sweep is resumed from.
    values: Vec<f64>,
}

/// Traces of one point that are to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// The point.
    pub point: usize,
    /// First trace.
    pub first: u32,
    /// Number of traces.
    pub count: u32,
}

/// All combinations of the factors' values.
#[derive(Debug)]
pub struct Sweep {
    points: Vec<Point>,
    traces_max: u32,
}

impl Sweep {
    /// A sweep of the model in `text` over `factors`, at most `traces_max` traces per point.
    ///
    /// # Errors
    /// [`ExploreError`]: every point is read before any is run.
    pub fn new(
        text: &str,
        factors: &[Factor],
        property: &str,
        (method, error): (Method, f64),
        traces_max: u32,
    ) -> Result<Self, ExploreError> {
        let count = factors.iter().try_fold(1usize, |count, factor| {
            if factor.values.is_empty() {
                return Err(ExploreError::Factors(format!("`{}` has no values", factor.key)));
            }
            Ok(count.saturating_mul(factor.values.len()))
        })?;
        if count > POINTS_MAX {
            return Err(ExploreError::Factors(format!(
                "{count} points are more than {POINTS_MAX}"
            )));
        }
        let points = (0..count).map(|index| {
            let changes = combination(factors, index);
            let model = Model::parse_with(text, &changes)?;
            let property = Property::parse(property, &model)?;
            let checker = Checker::new(&property, method, error)?;
            Ok(Point { changes, model, property, checker, values: Vec::new() })
        });
        Ok(Self { points: points.collect::<Result<_, ExploreError>>()?, traces_max })
    }

    /// The points, the last factor fastest.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The tasks of the next round: up to `batch` traces of each point that is undecided. None are left
    /// when all points are decided or have had their traces.
    #[must_use]
    pub fn next_tasks(&self, batch: u32) -> Vec<Task> {
        let open = self.points.iter().enumerate().filter(|(_, point)| !point.is_complete());
        open.filter_map(|(index, point)| {
            let first = point.values.len() as u32;
            let count = batch.min(self.traces_max.saturating_sub(first));
            (count > 0).then_some(Task { point: index, first, count })
        })
        .collect()
    }

    /// Runs a task; may be called on any thread.
    #[must_use]
    pub fn run(&self, task: Task, seed: u64) -> Vec<f64> {
        let point = &self.points[task.point];
        let mut runner = Runner::new(&point.model, &point.property, seed);
        (task.first..task.first + task.count).map(|trace| runner.observe(trace)).collect()
    }

    /// Takes the observations of a task, in the order in which [`next_tasks`](Self::next_tasks) gave them, or
    /// those of an interrupted sweep.
    ///
    /// # Errors
    /// An observation that the method does not take.
    pub fn take(&mut self, point: usize, values: &[f64]) -> Result<(), CheckError> {
        let Some(point) = self.points.get_mut(point) else { return Ok(()) };
        for value in values {
            if point.checker.is_complete() {
                // An earlier trace decided: the rest of the batch changes nothing.
                break;
            }
            point.checker.observe(*value)?;
            point.values.push(*value);
        }
        Ok(())
    }
}

impl Point {
    /// The answer so far.
    ///
    /// # Errors
    /// A parameter of the method out of range.
    pub fn answer(&self) -> Result<CheckResult, CheckError> {
        self.checker.answer()
    }

    /// The observations so far.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Whether the method has enough.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.checker.is_complete()
    }
}

/// The values of combination `index`, the last factor fastest.
fn combination(factors: &[Factor], mut index: usize) -> Vec<(String, String)> {
    let mut changes: Vec<(String, String)> = factors
        .iter()
        .rev()
        .map(|factor| {
            let value = factor.values[index % factor.values.len()].clone();
            index /= factor.values.len();
            (factor.key.clone(), value)
        })
        .collect();
    changes.reverse();
    changes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::file::tests::EXAMPLE;
    use crate::smc::Verdict;

    fn sweep() -> Sweep {
        let text = EXAMPLE.replace("10 ms", "300 us").replace("1 ms", "20 us");
        let factors = [
            Factor { key: "forwarder.workers".into(), values: vec!["1".into(), "2".into()] },
            Factor {
                key: "consumers.0.rate".into(),
                values: vec!["0.5 M/s".into(), "\"6 M/s\"".into()],
            },
        ];
        let method = Method::ConfidenceSequence { precision: 0.01 };
        let property = "P(quantile(latency, 0.9) < 60 us) >= 0.9";
        Sweep::new(&text, &factors, property, (method, 0.01), 500).unwrap()
    }

    fn finish(sweep: &mut Sweep, batch: u32) {
        loop {
            let tasks = sweep.next_tasks(batch);
            if tasks.is_empty() {
                break;
            }
            for task in tasks {
                let values = sweep.run(task, 9);
                sweep.take(task.point, &values).unwrap();
            }
        }
    }

    #[test]
    fn points_are_decided_alike_whatever_the_batches_and_after_a_break() {
        let mut small = sweep();
        let mut large = sweep();
        finish(&mut small, 7);
        finish(&mut large, 64);
        let mut resumed = sweep();
        let values: Vec<f64> = small.points()[0].values()[..10].to_vec();
        resumed.take(0, &values).unwrap();
        finish(&mut resumed, 16);
        let verdicts = |sweep: &Sweep| -> Vec<_> {
            sweep.points().iter().map(|point| point.answer().unwrap()).collect()
        };
        assert_eq!(verdicts(&small), verdicts(&large));
        assert_eq!(verdicts(&small), verdicts(&resumed));
        let verdicts: Vec<_> = verdicts(&small).iter().map(|answer| answer.verdict).collect();
        let (holds, fails) = (Some(Verdict::Holds), Some(Verdict::Fails));
        assert_eq!(verdicts, [holds, fails, holds, fails]);
        assert!(small.points().iter().all(|point| point.values().len() < 500));
    }

    #[test]
    fn impossible_sweeps_are_refused_before_they_run() {
        let method = Method::ConfidenceSequence { precision: 0.01 };
        let new = |key: &str, values: &[&str]| {
            let values = values.iter().map(ToString::to_string).collect();
            let factors = [Factor { key: key.into(), values }];
            Sweep::new(EXAMPLE, &factors, "P(all(satisfied))", (method, 0.01), 10).map(|_| ())
        };
        assert!(matches!(new("forwarder.workers", &[]), Err(ExploreError::Factors(_))));
        assert!(matches!(new("forwarder.workers", &["0"]), Err(ExploreError::File(_))));
        assert!(new("forwarder.workers", &["3"]).is_ok());
    }
}
