//! How soon skewed traffic is spread evenly over the workers.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::Live;
use crate::Machine;
use crate::relay::clock;
use crate::started::Process;

/// Prefixes of the Zipf case.
const PREFIXES: usize = 1000;

/// How to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkewOptions {
    /// Workers of the forwarder.
    pub workers: usize,
    /// Interests in flight.
    pub window: usize,
    /// How long each case takes.
    pub duration: Duration,
    /// Length of the intervals in which the load is compared.
    pub interval: Duration,
}

impl Default for SkewOptions {
    fn default() -> Self {
        Self {
            workers: 2,
            window: 64,
            duration: Duration::from_secs(8),
            interval: Duration::from_millis(500),
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SkewReport {
    /// Where.
    pub machine: Machine,
    /// Workers of the forwarder.
    pub workers: usize,
    /// Each kind of traffic.
    pub cases: Vec<SkewCase>,
}

/// One kind of traffic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SkewCase {
    /// Its name.
    pub case: String,
    /// Largest load of a shard over the mean, in each interval from the first Interests on.
    pub imbalance: Vec<f64>,
    /// Seconds at the end of each interval.
    pub seconds: Vec<f64>,
    /// The same over all that came later than five seconds after the first Interests.
    pub after_5_s: f64,
    /// Interests sent.
    pub sent: u64,
    /// Of them, answered by Data.
    pub satisfied: u64,
    /// Of them, lost: neither Data nor Nack came.
    pub timed_out: u64,
}

/// Runs the cases, one after the other; `progress` is told of each.
///
/// # Errors
/// When a program cannot be started, or fails.
pub fn run_skew(
    options: &SkewOptions,
    mut progress: impl FnMut(String),
) -> anyhow::Result<SkewReport> {
    let mut cases = Vec::new();
    for (name, patterns) in [("zipf", zipf_patterns()), ("one-prefix", one_prefix())] {
        progress(format!("{name}: {} s", options.duration.as_secs()));
        cases.push(run_case(name, &patterns, options)?);
    }
    Ok(SkewReport { machine: Machine::read(), workers: options.workers, cases })
}

/// Unique names below prefixes that are drawn by Zipf's law with exponent 1.
fn zipf_patterns() -> String {
    let mut patterns = String::new();
    for rank in 1..=PREFIXES {
        let weight = 1.0 / f64::from(u32::try_from(rank).unwrap_or(u32::MAX));
        // A String takes everything.
        let _ = writeln!(patterns, "[[pattern]]\nprefix = \"/skew/p{rank}\"\nweight = {weight:.6}");
    }
    patterns
}

/// Unique names below a single prefix.
fn one_prefix() -> String {
    "[[pattern]]\nprefix = \"/skew/hot\"\n".to_owned()
}

/// What of the consumer's report is of interest.
#[derive(Debug, Deserialize)]
struct Found {
    patterns: Vec<PatternFound>,
}

#[derive(Debug, Deserialize)]
struct PatternFound {
    sent: u64,
    satisfied: u64,
    timed_out: u64,
}

fn run_case(name: &str, patterns: &str, options: &SkewOptions) -> anyhow::Result<SkewCase> {
    let live = Live::start(options.workers)?;
    let scenario = live.folder.path().join("scenario.toml");
    fs::write(&scenario, patterns)?;
    let _producer =
        live.spawn("producer", &["traffic", "producer", "/skew", "--payload", "100"])?;
    while !has_route(&live)? {
        clock::pause(Duration::from_millis(10));
    }
    let scenario = scenario.display().to_string();
    let (window, duration) =
        (options.window.to_string(), format!("{}ms", options.duration.as_millis()));
    let mut consumer = live.spawn(
        "consumer",
        &[
            "traffic",
            "consumer",
            "--scenario",
            &scenario,
            "--window",
            &window,
            "--duration",
            &duration,
            "--json",
        ],
    )?;
    let samples = sample(&live, &mut consumer, options.interval)?;
    let text = fs::read_to_string(live.folder.path().join("consumer.out"))?;
    let found: Found = serde_json::from_str(&text)?;
    let sum = |figure: fn(&PatternFound) -> u64| found.patterns.iter().map(figure).sum();
    let intervals = samples.windows(2).map(|pair| imbalance(&pair[0].1, &pair[1].1));
    let later = samples.iter().find(|(seconds, _)| *seconds >= 5.0);
    let after_5_s = match (later, samples.last()) {
        (Some((_, first)), Some((_, last))) => imbalance(first, last),
        _ => f64::NAN,
    };
    Ok(SkewCase {
        case: name.to_owned(),
        imbalance: intervals.collect(),
        seconds: samples.iter().skip(1).map(|(seconds, _)| *seconds).collect(),
        after_5_s,
        sent: sum(|one| one.sent),
        satisfied: sum(|one| one.satisfied),
        timed_out: sum(|one| one.timed_out),
    })
}

fn has_route(live: &Live) -> anyhow::Result<bool> {
    let output = live.command(&["route", "list"]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).contains("/skew"))
}

/// Seconds since the first Interests, and what each shard has had then, until the consumer ends.
fn sample(
    live: &Live,
    consumer: &mut Process,
    interval: Duration,
) -> anyhow::Result<Vec<(f64, Vec<u64>)>> {
    let before = live.interests()?;
    let total = |shards: &[u64]| shards.iter().sum::<u64>();
    // The route was asked for by a few Interests too.
    while total(&live.interests()?) < total(&before) + 1000 {
        ensure!(consumer.try_wait()?.is_none(), "the consumer ended at once");
    }
    let begin = clock::monotonic_ns();
    let mut samples: Vec<(f64, Vec<u64>)> = Vec::new();
    loop {
        let seconds = Duration::from_nanos(clock::monotonic_ns() - begin).as_secs_f64();
        let interests = live.interests()?;
        match consumer.try_wait()? {
            // The last interval is not a whole one.
            Some(status) => {
                ensure!(status.success(), "the consumer: {status}");
                return Ok(samples);
            }
            // The consumer waits for the last answers only.
            None if samples.last().is_some_and(|(_, last)| *last == interests) => {}
            None => samples.push((seconds, interests)),
        }
        clock::pause(interval);
    }
}

/// Largest load over the mean between two samples.
#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
fn imbalance(earlier: &[u64], later: &[u64]) -> f64 {
    let loads: Vec<u64> = earlier.iter().zip(later).map(|(before, after)| after - before).collect();
    let most = loads.iter().copied().max().unwrap_or(0) as f64;
    most * loads.len() as f64 / loads.iter().sum::<u64>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_load_is_compared_with_the_mean() {
        assert!((imbalance(&[0, 10], &[30, 20]) - 1.5).abs() < 1e-9);
        assert!((imbalance(&[0, 0], &[5, 5]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_first_prefix_has_a_thousand_times_the_weight_of_the_last() {
        let patterns = zipf_patterns();
        assert!(patterns.contains("/skew/p1\"\nweight = 1.000000"));
        assert!(patterns.contains("/skew/p1000\"\nweight = 0.001000"));
    }
}
