//! The question that `model check` and `explore` answer: arguments, method, and the answer in words.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use ndn_lab::figure::{Lines, Panel};
use ndn_model::assembly::Placement;
use ndn_model::check::{CheckResult, Method};
use ndn_model::property::{Number, Property};
use ndn_model::smc::Verdict;
use serde_json::{Value, json};

use crate::cli::arguments::at_least_one;
use crate::cli::failure::{Failure, Outcome};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum MethodName {
    /// Confidence sequence for P, betting for E, DKW for Q
    Default,
    /// Beta-binomial confidence sequence: valid at all numbers of traces at once
    Sequence,
    /// Number of traces by the Okamoto (Chernoff) bound
    Okamoto,
    /// Exact interval after --traces traces
    ClopperPearson,
    /// Wald's sequential test, indifferent within --margin
    Sprt,
    /// Single sampling plan, indifferent within --margin
    SamplingPlan,
    /// Betting confidence sequence for a mean within --bounds
    Betting,
    /// Empirical Bernstein interval after --traces traces, for a mean within --bounds
    EmpiricalBernstein,
    /// Dvoretzky-Kiefer-Wolfowitz interval of a quantile
    Dkw,
    /// Importance splitting over the length of --queue, for rare losses: P, or E(share(..))
    Splitting,
}

/// On which NUMA nodes faces and workers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PlacementName {
    /// All on one node
    #[value(name = "P1")]
    P1,
    /// Faces of consumers and workers on one node, faces of producers on another
    #[value(name = "P2")]
    P2,
    /// Faces of consumers on one node, workers and faces of producers on another
    #[value(name = "P3")]
    P3,
    /// All faces on one node, workers on another
    #[value(name = "P4")]
    P4,
}

impl PlacementName {
    pub(super) const fn placement(self) -> Placement {
        match self {
            Self::P1 => Placement::P1,
            Self::P2 => Placement::P2,
            Self::P3 => Placement::P3,
            Self::P4 => Placement::P4,
        }
    }

    pub(super) const fn meaning(self) -> &'static str {
        match self {
            Self::P1 => "all on one NUMA node",
            Self::P2 => "faces of producers on another NUMA node",
            Self::P3 => "faces of consumers on another NUMA node",
            Self::P4 => "all faces on another NUMA node",
        }
    }
}

#[derive(Args, Debug)]
pub(super) struct Question {
    /// Model file
    pub(super) model: PathBuf,
    /// Property to check
    #[arg(long)]
    pub(super) property: String,
    /// Method
    #[arg(long, value_enum, default_value = "default")]
    pub(super) method: MethodName,
    /// Confidence in per cent, such as 99%
    #[arg(long, default_value = "99%", value_parser = percent)]
    pub(super) confidence: f64,
    /// Largest distance from the estimate to an end of its interval
    #[arg(long, default_value_t = 0.01)]
    pub(super) precision: f64,
    /// Half of the indifference region of a test
    #[arg(long, default_value_t = 0.005)]
    pub(super) margin: f64,
    /// Traces of a method with a fixed number, or replications of splitting [default of splitting: 30]
    #[arg(long, value_parser = at_least_one::<NonZeroU32>)]
    pub(super) traces: Option<NonZeroU32>,
    /// Bounds of an observed number, such as 0,1
    #[arg(long, value_parser = bounds)]
    pub(super) bounds: Option<(f64, f64)>,
    /// Give up after this many traces
    #[arg(long, default_value = "100000", value_parser = at_least_one::<NonZeroU32>)]
    pub(super) traces_max: NonZeroU32,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Threads; the result does not depend on them [default: all processors]
    #[arg(long, value_parser = at_least_one::<NonZeroU32>)]
    pub(super) threads: Option<NonZeroU32>,
}

/// Parses a percentage, which has its sign: 0.99 may mean 99% or 0.99%.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%');
    let value = number.unwrap_or(text).trim().parse::<f64>();
    match (value, number) {
        (Ok(value), Some(_)) if value > 0.0 && value < 100.0 => Ok(value / 100.0),
        (Ok(value), None) if value > 0.0 && value < 1.0 => {
            Err(format!("it has no %: write {}%", per_cent(value)))
        }
        (Ok(value), None) if (1.0..100.0).contains(&value) => {
            Err(format!("it has no %: write {value}%"))
        }
        _ => Err("it is a percentage between 0% and 100%, such as 99%".to_owned()),
    }
}

/// Parses a share: a number from 0 to 1, or a percentage with its sign.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%');
    let value = number.unwrap_or(text).trim().parse::<f64>();
    match (value, number) {
        (Ok(value), Some(_)) if (0.0..=100.0).contains(&value) => Ok(value / 100.0),
        (Ok(value), None) if (0.0..=1.0).contains(&value) => Ok(value),
        (Ok(value), None) if (1.0..=100.0).contains(&value) => {
            Err(format!("it has no %: write {value}%"))
        }
        _ => Err("it is a share from 0 to 1, or a percentage, such as 0.5 or 50%".to_owned()),
    }
}

/// A share in per cent, without the digits that a binary fraction adds: 0.99 for 0.0099.
pub(super) fn per_cent(share: f64) -> f64 {
    (share * 1e12).round() / 1e10
}

pub(super) fn bounds(text: &str) -> Result<(f64, f64), String> {
    let parse = |part: &str| part.trim().parse::<f64>().ok();
    match text.split_once(',').map(|(low, high)| (parse(low), parse(high))) {
        Some((Some(low), Some(high))) => Ok((low, high)),
        _ => Err("two numbers with a comma, such as 0,1".to_owned()),
    }
}

pub(super) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("KEY=VALUE, such as forwarder.workers=4".to_owned()),
    }
}

pub(super) fn read(path: &Path) -> Outcome<String> {
    crate::cli::input::read_text(path)
}

/// Writes panels in rows of `columns` under a title.
pub(super) fn write_figure(
    path: &Path,
    title: &str,
    panels: Vec<Lines>,
    columns: usize,
) -> Outcome {
    let panels: Vec<Panel> = panels.into_iter().map(Panel::Lines).collect();
    let text = ndn_lab::figure::draw(title, &panels, columns).map_err(|error| {
        Failure::Failed(format!("{}: the figure cannot be drawn: {error}", path.display()))
    })?;
    fs::write(path, text).map_err(|error| Failure::file(path.display(), &error))
}

pub(super) fn usage(error: impl std::fmt::Display) -> Failure {
    Failure::Usage(error.to_string())
}

/// Replications of splitting.
const REPLICATIONS: u32 = 30;

impl Question {
    pub(super) fn method(&self, property: &Property) -> Outcome<Method> {
        let fixed = || -> Outcome<u32> {
            let traces = self.traces.ok_or_else(|| usage("this method needs --traces"))?;
            Ok(traces.get())
        };
        let bounds = || {
            self.bounds.or_else(|| property.natural_bounds()).ok_or_else(|| {
                usage("--bounds are needed: an interval of a mean covers only if values cannot lie outside")
            })
        };
        let (precision, margin) = (self.precision, self.margin);
        let name = match (self.method, property) {
            (MethodName::Default, Property::ProbabilityAtLeast(..) | Property::Probability(_)) => {
                MethodName::Sequence
            }
            (MethodName::Default, Property::Expectation(_)) => MethodName::Betting,
            (MethodName::Default, Property::Quantile(..)) => MethodName::Dkw,
            (name, _) => name,
        };
        Ok(match name {
            MethodName::Default | MethodName::Sequence => Method::ConfidenceSequence { precision },
            MethodName::Okamoto => Method::Okamoto { precision },
            MethodName::ClopperPearson => Method::ClopperPearson { traces: fixed()? },
            MethodName::Sprt => Method::Sprt { margin },
            MethodName::SamplingPlan => Method::SamplingPlan { margin },
            MethodName::Betting => Method::Betting { precision, bounds: bounds()? },
            MethodName::EmpiricalBernstein => {
                Method::EmpiricalBernstein { traces: fixed()?, bounds: bounds()? }
            }
            MethodName::Dkw => Method::Dkw { traces: self.traces.map(NonZeroU32::get) },
            MethodName::Splitting => {
                let replications = self.traces.map_or(REPLICATIONS, NonZeroU32::get);
                Method::Splitting { replications }
            }
        })
    }

    pub(super) fn threads(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.threads.map_or(processors, |threads| threads.get() as usize)
    }
}

pub(super) fn verdict_text(answer: &CheckResult) -> &'static str {
    match answer.verdict {
        Some(Verdict::Holds) => "holds",
        Some(Verdict::Fails) => "fails",
        Some(Verdict::Undecided) => "undecided",
        None => "estimate",
    }
}

/// A value of what a property asks for, with its unit.
pub(super) fn quantity(property: &Property, value: f64) -> String {
    let (Property::Expectation(number) | Property::Quantile(_, number)) = property else {
        return ratio(value);
    };
    match number {
        Number::MeanLatency | Number::QuantileLatency(_) | Number::QueueWait(_) => duration(value),
        Number::Throughput => format!("{value:.0}/s"),
        Number::Share(_) => ratio(value),
        Number::Constant(_)
        | Number::Count(_)
        | Number::QueueMax(_)
        | Number::QueueDropped(_)
        | Number::PitMax => format!("{value:.6}"),
    }
}

/// A probability or a share, with digits also close to 0 and 1.
fn ratio(value: f64) -> String {
    const CLOSE: f64 = 1e-3;
    let rest = 1.0 - value;
    if value > 0.0 && value < CLOSE {
        format!("{value:.3e}")
    } else if rest > 0.0 && rest < CLOSE {
        format!("1 - {rest:.3e}")
    } else {
        format!("{value:.6}")
    }
}

/// Picoseconds in the largest unit that leaves a digit before the point.
fn duration(ps: f64) -> String {
    if !ps.is_finite() {
        return "infinite".to_owned();
    }
    let units = [("s", 1e12), ("ms", 1e9), ("us", 1e6)];
    let fitting = units.iter().find(|(_, size)| ps >= *size);
    let (unit, size) = fitting.copied().unwrap_or(("ns", 1e3));
    format!("{:.3} {unit}", ps / size)
}

pub(super) fn answer_json(answer: &CheckResult, warnings: &[String]) -> Value {
    json!({
        "verdict": verdict_text(answer),
        "estimate": answer.estimate,
        "interval": answer.interval.map(|interval| [interval.low, interval.high]),
        "traces": answer.traces,
        "complete": answer.is_complete,
        "method": answer.caveat,
        "warnings": warnings,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn latencies_are_shown_with_their_unit() {
        let latency = Property::Quantile(0.5, Number::QuantileLatency(0.99));
        assert_eq!(quantity(&latency, 3_494_080_810.0), "3.494 ms");
        assert_eq!(quantity(&latency, 2.5e12), "2.500 s");
        assert_eq!(quantity(&latency, 999e3), "999.000 ns");
        assert_eq!(quantity(&latency, f64::INFINITY), "infinite");
        assert_eq!(quantity(&Property::Expectation(Number::Throughput), 250e3), "250000/s");
        assert_eq!(quantity(&Property::Expectation(Number::PitMax), 7.0), "7.000000");
    }

    #[test]
    fn probabilities_close_to_0_and_1_have_digits() {
        let shown = [0.0, 8.19e-8, 0.25, 0.999_999_75, 1.0].map(ratio);
        assert_eq!(shown, ["0.000000", "8.190e-8", "0.250000", "1 - 2.500e-7", "1.000000"]);
    }

    #[test]
    fn percentages_and_assignments_are_checked() {
        assert!((percent("99.9%").unwrap() - 0.999).abs() < 1e-12);
        for refused in ["100%", "0%", "x", "nan", "nan%", "0", "99%%"] {
            assert!(percent(refused).unwrap_err().contains("such as 99%"), "{refused}");
        }
        assert_eq!(percent("0.99").unwrap_err(), "it has no %: write 99%");
        assert_eq!(percent("99").unwrap_err(), "it has no %: write 99%");
        assert_eq!(["0", "0.5", "50%", "1"].map(|text| share(text).unwrap()), [0.0, 0.5, 0.5, 1.0]);
        assert_eq!(share("50").unwrap_err(), "it has no %: write 50%");
        assert!(share("-1").is_err() && share("101%").is_err() && share("nan").is_err());
        let shown = [0.99, 0.0099, 0.999, 0.07].map(|share| per_cent(share).to_string());
        assert_eq!(shown, ["99", "0.99", "99.9", "7"]);
        assert_eq!(assignment("a.b = c").unwrap(), ("a.b".to_owned(), "c".to_owned()));
        assert!(assignment("a.b").is_err() && assignment("=c").is_err());
        assert_eq!(bounds("0, 1").unwrap(), (0.0, 1.0));
    }
}
