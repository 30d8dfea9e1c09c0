//! Reads of a file by every interface to applications, beside the same over HTTP and from XRootD's own storage.

mod options;
mod plan;
mod programs;
mod reader;
mod ways;

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use ndn_security::sha256_parts;
use serde::Serialize;

use options::hex;
pub use options::{AccessBenchOptions, MissingWay};
use plan::Plan;
use programs::Programs;
pub use reader::{ReaderSource, run_reader};
use ways::Way;

/// One way and one pattern: medians over the rounds.
#[derive(Debug, Clone, Serialize)]
pub struct AccessCase {
    /// The interface.
    pub way: String,
    /// The pattern of reads.
    pub pattern: String,
    /// Reads in a round.
    pub reads: usize,
    /// Content bytes per second of reading, in MB.
    pub mb_per_s: f64,
    /// Median time of a read, µs.
    pub p50_us: f64,
    /// 99th percentile, µs.
    pub p99_us: f64,
}

/// A way beside its measure.
#[derive(Debug, Clone, Serialize)]
pub struct AccessRatio {
    /// The two ways and the pattern.
    pub ratio: String,
    /// Median over the rounds of both ways.
    pub value: f64,
    /// The goal: at least this value, or at most if `at_most`.
    pub goal: f64,
    /// Whether the goal is an upper limit.
    pub at_most: bool,
}

/// All that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct AccessReport {
    /// Length of the file, bytes.
    pub bytes: u64,
    /// Rounds.
    pub rounds: usize,
    /// Load average of the machine after the run.
    pub load: f64,
    /// Cases.
    pub cases: Vec<AccessCase>,
    /// Comparisons.
    pub ratios: Vec<AccessRatio>,
    /// Ways that were not measured.
    pub missing: Vec<MissingWay>,
}

/// The times of the reads of one round, nanoseconds.
type Times = Vec<u64>;

/// Measures every way that the machine has. For each way and pattern, each round starts the reader anew, and the mount or the
/// server that it reads from, so that their caches are empty. The forwarder has the content in its Content Store after the first
/// read, and nginx and XRootD's own storage in the page cache. Every byte is compared.
///
/// # Errors
/// A program cannot be started, or a way fails or returns other bytes.
pub fn run_access(
    options: &AccessBenchOptions,
    mut note: impl FnMut(&str),
) -> anyhow::Result<AccessReport> {
    ensure!(options.bytes >= 16 << 20, "the file has at least 16 MiB");
    let programs = Programs::start(options.bytes)?;
    let content = std::fs::read(programs.file()).context("the served file")?;
    let plans = Plan::all(options.bytes, options.reads);
    let (ways, missing) = ways::available(&programs, options);
    for one in &missing {
        note(&format!("{} is not measured: {}", one.way, one.reason));
    }
    let mut measured: BTreeMap<(usize, usize), Vec<Times>> = BTreeMap::new();
    for round in 0..options.rounds {
        note(&format!("round {} of {}", round + 1, options.rounds));
        for (number, plan) in plans.iter().enumerate() {
            let file = programs.write_plan(plan)?;
            let expected = digest(&content, plan)?;
            for (index, way) in ways.iter().enumerate().filter(|(_, way)| way.does(plan)) {
                let read = way.read(&programs, plan, &file);
                let read = read.with_context(|| format!("{}, {}", way.name(), plan.pattern))?;
                if let Some(digest) = read.digest {
                    ensure!(digest == expected, "{} returned other bytes", way.name());
                }
                measured.entry((index, number)).or_default().push(read.times);
            }
        }
    }
    let cases: Vec<_> = measured
        .iter()
        .map(|(&(way, plan), rounds)| case(&ways[way], &plans[plan], rounds))
        .collect();
    let ratios = ratios(&cases);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
    Ok(AccessReport { bytes: options.bytes, rounds: options.rounds, load, cases, ratios, missing })
}

fn digest(content: &[u8], plan: &Plan) -> anyhow::Result<String> {
    let part = |part: &std::ops::Range<u64>| {
        let (start, end) = (usize::try_from(part.start)?, usize::try_from(part.end)?);
        content.get(start..end).context("a part beyond the end of the file")
    };
    let parts: Vec<_> = plan.reads.iter().flatten().map(part).collect::<Result<_, _>>()?;
    Ok(hex(&sha256_parts(&parts)))
}

fn case(way: &Way, plan: &Plan, rounds: &[Times]) -> AccessCase {
    let of_rounds = |value: &dyn Fn(&Times) -> f64| median(rounds.iter().map(value).collect());
    let bytes = plan.bytes();
    AccessCase {
        way: way.name().to_owned(),
        pattern: plan.pattern.clone(),
        reads: rounds[0].len(),
        mb_per_s: of_rounds(&|times| float(bytes) * 1e3 / float(times.iter().sum::<u64>().max(1))),
        p50_us: of_rounds(&|times| percentile(times, 50) / 1e3),
        p99_us: of_rounds(&|times| percentile(times, 99) / 1e3),
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes and times far below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}

fn percentile(times: &[u64], percent: usize) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(rank).map_or(0.0, |time| float(*time))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The comparisons that have goals, as far as both sides were measured.
fn ratios(cases: &[AccessCase]) -> Vec<AccessRatio> {
    let find = |way: &str, pattern: &str| {
        cases.iter().find(|case| case.way == way && case.pattern == pattern)
    };
    let mut found = Vec::new();
    for (way, goal) in [("python", 0.8), ("fuse", 0.6), ("xrootd", 0.6)] {
        if let Some((case, get)) = find(way, "sequential").zip(find("get", "sequential")) {
            let value = case.mb_per_s / get.mb_per_s;
            let ratio = format!("sequential, {way} to get");
            found.push(AccessRatio { ratio, value, goal, at_most: false });
        }
    }
    for way in ["core", "c", "python"] {
        let pattern = "random 4 KiB";
        if let Some((case, exchange)) = find(way, pattern).zip(find("exchange", pattern)) {
            let (value, ratio) =
                (case.p50_us / exchange.p50_us, format!("{pattern}, {way} to exchange"));
            found.push(AccessRatio { ratio, value, goal: 3.0, at_most: true });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(way: &str, pattern: &str, mb_per_s: f64, p50_us: f64) -> AccessCase {
        let (way, pattern) = (way.to_owned(), pattern.to_owned());
        AccessCase { way, pattern, reads: 1, mb_per_s, p50_us, p99_us: 0.0 }
    }

    #[test]
    fn ratios_compare_what_was_measured() {
        let cases = [
            case("get", "sequential", 100.0, 0.0),
            case("python", "sequential", 90.0, 0.0),
            case("exchange", "random 4 KiB", 0.0, 50.0),
            case("core", "random 4 KiB", 0.0, 100.0),
        ];
        let ratios = ratios(&cases);
        let values: Vec<_> = ratios.iter().map(|one| (one.ratio.as_str(), one.value)).collect();
        let expected =
            [("sequential, python to get", 0.9), ("random 4 KiB, core to exchange", 2.0)];
        assert_eq!(values, expected);
    }

    #[test]
    fn percentiles_are_ranks() {
        let times: Vec<u64> = (1..=100).rev().collect();
        assert!((percentile(&times, 50) - 50.0).abs() < 1e-9);
        assert!((percentile(&times, 99) - 99.0).abs() < 1e-9);
        assert!((percentile(&[7], 99) - 7.0).abs() < 1e-9);
        assert!(percentile(&[], 50).abs() < 1e-9);
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
    }
}
