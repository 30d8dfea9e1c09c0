//! Distribution of skewed traffic over the workers.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::Live;
use crate::relay::clock;
use crate::started::Process;
use ndn_pipeline_bench::Machine;

/// Prefixes of the Zipf case.
const PREFIXES: usize = 1000;

/// Options of the measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkewOptions {
    /// Workers of the forwarder.
    pub workers: usize,
    /// Interests in flight.
    pub window: usize,
    /// Duration of each case.
    pub duration: Duration,
    /// Length of the intervals in which loads are compared.
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

/// Result of the measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SkewReport {
    /// The machine.
    pub machine: Machine,
    /// Workers of the forwarder.
    pub workers: usize,
    /// One row per kind of traffic.
    pub cases: Vec<SkewCase>,
}

/// One kind of traffic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SkewCase {
    /// Its name.
    pub case: String,
    /// Largest load of a shard over the mean, per interval since the first Interests.
    pub imbalance: Vec<f64>,
    /// Seconds at the end of each interval.
    pub seconds: Vec<f64>,
    /// The same over all intervals later than five seconds after the first Interests.
    pub after_5_s: f64,
    /// Interests sent.
    pub sent: u64,
    /// Interests satisfied by Data.
    pub satisfied: u64,
    /// Interests timed out without Data or Nack.
    pub timed_out: u64,
}

/// Runs the cases one after the other; calls `progress` for each.
///
/// # Errors
/// A program cannot be started, or fails.
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

/// Unique names below prefixes drawn by Zipf's law with exponent 1.
fn zipf_patterns() -> String {
    let mut patterns = String::new();
    for rank in 1..=PREFIXES {
        let weight = 1.0 / f64::from(u32::try_from(rank).unwrap_or(u32::MAX));
        // Writing to a String cannot fail.
        let _ = writeln!(patterns, "[[pattern]]\nprefix = \"/skew/p{rank}\"\nweight = {weight:.6}");
    }
    patterns
}

/// Unique names below a single prefix.
fn one_prefix() -> String {
    "[[pattern]]\nprefix = \"/skew/hot\"\n".to_owned()
}

/// Evaluated part of the consumer's report.
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
        live.spawn("producer", &["traffic", "producer", "/skew", "--payload", "100B"])?;
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

/// Samples, until the consumer ends, the seconds since the first Interests and the load of each shard.
fn sample(
    live: &Live,
    consumer: &mut Process,
    interval: Duration,
) -> anyhow::Result<Vec<(f64, Vec<u64>)>> {
    let before = live.interests()?;
    let total = |shards: &[u64]| shards.iter().sum::<u64>();
    // Requesting the route takes a few Interests too.
    while total(&live.interests()?) < total(&before) + 1000 {
        ensure!(consumer.try_wait()?.is_none(), "the consumer ended at once");
    }
    let begin = clock::monotonic_ns();
    let mut samples: Vec<(f64, Vec<u64>)> = Vec::new();
    loop {
        let seconds = Duration::from_nanos(clock::monotonic_ns() - begin).as_secs_f64();
        let interests = live.interests()?;
        match consumer.try_wait()? {
            // The last interval is incomplete.
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
    fn imbalance_is_the_largest_load_over_the_mean() {
        assert!((imbalance(&[0, 10], &[30, 20]) - 1.5).abs() < 1e-9);
        assert!((imbalance(&[0, 0], &[5, 5]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn zipf_weight_is_inversely_proportional_to_rank() {
        let patterns = zipf_patterns();
        assert!(patterns.contains("/skew/p1\"\nweight = 1.000000"));
        assert!(patterns.contains("/skew/p1000\"\nweight = 0.001000"));
    }
}
