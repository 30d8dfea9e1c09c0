//! `namewire traffic consumer`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use namewire_http::ProgramMetric;
use ndn_client::ForwarderAddress;
use ndn_packet::Name;
use ndn_sys::clock;
use ndn_table::NAME_COMPONENTS_MAX;
use ndn_traffic::io::{Endpoint, RunFigures, divide, run_consumers};
use ndn_traffic::{
    Arrivals, Consumer, ConsumerPattern, ConsumerScenario, ConsumerTotals, Load, NackCounts, Names,
    PatternCounters,
};
use ndn_types::duration_ns;
use serde::Deserialize;
use serde_json::{Value, json};

use super::common::{
    check_named, lifetime, lock, ratio, read_file, report_all, stop_flag, wrong_scenario,
};
use super::faces;
use crate::cli::arguments::{at_least_one, name, positive_duration, size};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{self, Table, grouped};
use crate::cli::scrape::MetricsOptions;

const WINDOW_DEFAULT: u32 = 64;
const OUTSTANDING_DEFAULT: u32 = 1 << 16;

/// Send Interests and measure rates, latencies and losses
///
/// With --window a closed loop; with --rate an open loop, which does not wait for answers and measures latency from the
/// scheduled time of each Interest. Stops after --count, --duration or an interrupt, when all Interests are answered or
/// have timed out; the exit status is 4 if none was answered. A scenario file has the keys window, rate, arrivals
/// (fixed or poisson), burst and outstanding_max, and a `[[pattern]]` for each kind of Interest with prefix, weight,
/// components, names (unique, { zipf = { count, exponent } } or { repeated = { count } }), can_be_prefix,
/// must_be_fresh, lifetime (such as "4s") and hop_limit. Options on the command line have precedence.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Prefixes of the Interests, with equal shares
    #[arg(value_parser = name)]
    prefixes: Vec<Name>,
    /// Read load and patterns from a TOML file
    #[arg(long, value_name = "FILE", conflicts_with = "prefixes")]
    scenario: Option<PathBuf>,
    /// Interests in flight over all faces [default: 64]
    #[arg(long, value_name = "NUMBER", conflicts_with = "rate", value_parser = at_least_one::<u32>)]
    window: Option<u32>,
    /// Interests per second over all faces, regardless of answers
    #[arg(long, value_name = "NUMBER")]
    rate: Option<f64>,
    /// Send at the times of a Poisson process instead of regular intervals
    #[arg(long, conflicts_with = "window")]
    poisson: bool,
    /// Interests sent at the same time in an open loop [default: 1]
    #[arg(long, conflicts_with = "window", value_name = "NUMBER")]
    burst: Option<u32>,
    /// Stop sending after this time
    #[arg(long, value_parser = positive_duration, value_name = "DURATION")]
    duration: Option<Duration>,
    /// Number of Interests to send
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
    /// Components of each name, prefix included [default: one more than the prefix]
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "NUMBER")]
    components: usize,
    /// Number of names, used repeatedly
    #[arg(long, value_name = "NUMBER")]
    repeat: Option<u32>,
    /// Draw the names of --repeat by Zipf's law with this exponent, instead of in turn
    #[arg(long, value_name = "EXPONENT", requires = "repeat")]
    zipf: Option<f64>,
    /// CanBePrefix
    #[arg(long)]
    can_be_prefix: bool,
    /// MustBeFresh
    #[arg(long)]
    must_be_fresh: bool,
    /// InterestLifetime
    #[arg(long, value_parser = lifetime, default_value = "4s", value_name = "DURATION")]
    lifetime: u32,
    /// HopLimit
    #[arg(long, value_name = "NUMBER")]
    hop_limit: Option<u8>,
    /// Forwarder to connect to: unix:///path or a path, tcp://host:port, udp://host:port,
    /// memif:///socket or https://host:port/ndn (WebTransport); may be repeated
    #[arg(long, value_name = "URI", value_parser = crate::cli::connect::transport)]
    transport: Vec<ForwarderAddress>,
    /// Maximum size of a frame over UDP; larger packets are fragmented
    #[arg(long, default_value = "8800B", value_name = "SIZE", value_parser = size(256..=faces::MTU_DEFAULT))]
    mtu: usize,
    /// Faces to each forwarder
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    faces: u32,
    /// Number of threads; faces and load are divided between them
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    threads: usize,
    /// Seed of random choices and of unique names
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    #[command(flatten)]
    metrics: MetricsOptions,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    window: Option<u32>,
    rate: Option<f64>,
    arrivals: Arrivals,
    burst: Option<u32>,
    outstanding_max: Option<u32>,
    pattern: Vec<ConsumerPattern>,
}

/// Other forwarders may accept names that this one drops.
fn warn_of_long_names(patterns: &[ConsumerPattern]) {
    let is_long = |pattern: &&ConsumerPattern| pattern.components > NAME_COMPONENTS_MAX;
    for ConsumerPattern { prefix, components, .. } in patterns.iter().filter(is_long) {
        output::warn(&format_args!(
            "names below {prefix} have {components} components: forwarders of this kind take \
             {NAME_COMPONENTS_MAX} at most, and drop their Interests"
        ));
    }
}

pub(super) fn run(options: &Options) -> Outcome {
    check_named(options.scenario.is_some() || !options.prefixes.is_empty())?;
    let file: File = read_file(options.scenario.as_deref())?;
    let load = options.load(&file)?;
    let mut patterns = file.pattern;
    patterns.extend(options.prefixes.iter().map(|prefix| options.pattern(prefix)));
    warn_of_long_names(&patterns);
    let stop = stop_flag()?;
    let mut sessions = None;
    let faces = faces::connect(&options.transport, options.faces, options.mtu, &mut sessions)?;
    let endpoints: Vec<Endpoint> = faces.into_iter().map(|(endpoint, _)| endpoint).collect();
    let scenario = ConsumerScenario {
        patterns,
        load,
        faces: u32::try_from(endpoints.len()).unwrap_or(u32::MAX),
        burst: options.burst.or(file.burst).unwrap_or(1),
        outstanding_max: file.outstanding_max.unwrap_or(OUTSTANDING_DEFAULT),
        count: options.count,
    };
    let (start, seed) = (clock::now(), options.seed.unwrap_or_else(rand::random));
    let threads = f64::from(u32::try_from(options.threads).unwrap_or(u32::MAX));
    let mut parts = Vec::new();
    let (mut first, mut consumers) = (0, Vec::new());
    for (number, part) in (0_u32..).zip(divide(endpoints, options.threads)) {
        let faces = u32::try_from(part.len()).unwrap_or(u32::MAX);
        let share = scenario.part(first, faces).filter(|_| faces > 0).ok_or_else(|| {
            Failure::Usage(format!(
                "--threads {}: each thread needs a face (--faces) and a part of the window (--window)",
                options.threads
            ))
        })?;
        first += faces;
        let consumer = Consumer::new(&share, seed.wrapping_add(u64::from(number)), start)
            .map_err(|error| wrong_scenario(&error))?;
        // The threads are synchronized if they have the same number of faces.
        consumers.push(consumer.with_phase(f64::from(number) / threads));
        parts.push(part);
    }
    let nanoseconds = |time: Duration| duration_ns(time);
    let end = options.duration.map(|time| start.saturating_add(nanoseconds(time)));
    let progress = indicatif::ProgressBar::new_spinner();
    let running = consumers.iter_mut().zip(parts).collect();
    let latest = Arc::new(Mutex::new(ConsumerTotals::default()));
    let scraped = Arc::clone(&latest);
    let _metrics = options.metrics.serve(move || consumer_metrics(&lock(&scraped)))?;
    let ended = run_consumers(running, end, &stop, |totals| {
        *lock(&latest) = *totals;
        progress.set_message(live_line(totals));
        progress.tick();
    });
    progress.finish_and_clear();
    let found = Found::of(&consumers);
    report_all(ended, |figures| report(options, &scenario, &found, figures))?;
    if found.patterns.iter().all(|counters| counters.satisfied == 0) {
        return Err(Failure::NoAnswer("no Interest was answered with Data".to_owned()));
    }
    Ok(())
}

/// Results of the Interests of all threads.
struct Found {
    /// By pattern.
    patterns: Vec<PatternCounters>,
    unexpected: u64,
}

impl Found {
    fn of(consumers: &[Consumer]) -> Self {
        let unexpected = consumers.iter().map(Consumer::unexpected).sum();
        let mut patterns: Vec<PatternCounters> = Vec::new();
        for consumer in consumers {
            if patterns.is_empty() {
                patterns = consumer.counters().cloned().collect();
            } else {
                patterns.iter_mut().zip(consumer.counters()).for_each(|(sum, one)| sum.add(one));
            }
        }
        Self { patterns, unexpected }
    }
}

impl Options {
    fn load(&self, file: &File) -> Outcome<Load> {
        let (window, rate) = match (self.window, self.rate) {
            (None, None) => (file.window, file.rate),
            given => given,
        };
        let arrivals = if self.poisson { Arrivals::Poisson } else { file.arrivals };
        match (window, rate) {
            (Some(_), Some(_)) => {
                Err(Failure::Usage("a scenario has a window or a rate, not both".to_owned()))
            }
            (_, Some(per_second)) => Ok(Load::Rate { per_second, arrivals }),
            (window, None) => Ok(Load::Window(window.unwrap_or(WINDOW_DEFAULT))),
        }
    }

    fn pattern(&self, prefix: &Name) -> ConsumerPattern {
        ConsumerPattern {
            prefix: prefix.to_uri(),
            weight: 1.0,
            components: self.components,
            names: match (self.repeat, self.zipf) {
                (None, _) => Names::Unique,
                (Some(count), None) => Names::Repeated { count },
                (Some(count), Some(exponent)) => Names::Zipf { count, exponent },
            },
            can_be_prefix: self.can_be_prefix,
            must_be_fresh: self.must_be_fresh,
            lifetime_ms: self.lifetime,
            hop_limit: self.hop_limit,
        }
    }
}

fn live_line(totals: &ConsumerTotals) -> String {
    let ConsumerTotals { sent, satisfied, nacked, timed_out, outstanding, .. } = *totals;
    let [sent, satisfied, nacked, timed_out] = [sent, satisfied, nacked, timed_out].map(grouped);
    format!(
        "{sent} sent, {satisfied} satisfied, {nacked} Nacked, {timed_out} timed out, {outstanding} in flight"
    )
}

/// The totals of all threads as metrics; they are updated once a second.
#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
fn consumer_metrics(totals: &ConsumerTotals) -> Vec<ProgramMetric> {
    let ConsumerTotals { sent, satisfied, nacked, timed_out, outstanding, .. } = *totals;
    let help = "Interests that have ended, by the outcome.";
    let ended = |outcome, value: u64| {
        ProgramMetric::counter("namewire_traffic_ended_interests", help, value as f64)
            .with("outcome", outcome)
    };
    let help = "Interests sent.";
    vec![
        ProgramMetric::counter("namewire_traffic_sent_interests", help, sent as f64),
        ended("satisfied", satisfied),
        ended("nacked", nacked),
        ended("timed_out", timed_out),
        ProgramMetric::gauge(
            "namewire_traffic_outstanding_interests",
            "Interests in flight.",
            outstanding as f64,
        ),
    ]
}

const PERCENTILES: [(&str, f64); 4] =
    [("p50_us", 50.0), ("p90_us", 90.0), ("p99_us", 99.0), ("p999_us", 99.9)];

fn report(
    options: &Options,
    scenario: &ConsumerScenario,
    found: &Found,
    figures: &RunFigures,
) -> Outcome {
    let sent: u64 = found.patterns.iter().map(|counters| counters.sent).sum();
    let cpu_us = ratio(figures.cpu.as_secs_f64() * 1e6, sent);
    if options.json {
        let patterns = scenario.patterns.iter().zip(&found.patterns);
        let patterns: Vec<Value> =
            patterns.map(|(pattern, counters)| pattern_json(&pattern.prefix, counters)).collect();
        output::print_json(&json!({
            "patterns": patterns,
            "unexpected": found.unexpected,
            "faces": scenario.faces,
            "elapsed_ms": figures.wall.as_secs_f64() * 1000.0,
            "cpu_us_per_interest": cpu_us,
            "send_calls": figures.calls.send_calls,
            "receive_calls": figures.calls.receive_calls,
        }))?;
        return Ok(());
    }
    let mut table = Table::new(&[
        "prefix",
        ">sent",
        ">satisfied",
        ">Nacked",
        ">timed out",
        ">p50 µs",
        ">p99 µs",
        ">max µs",
    ]);
    for (pattern, counters) in scenario.patterns.iter().zip(&found.patterns) {
        let latency = &counters.latency_ns;
        let counts = [counters.sent, counters.satisfied, counters.nacked, counters.timed_out];
        let times =
            [latency.value_at_quantile(0.5), latency.value_at_quantile(0.99), latency.max()];
        let mut row = vec![pattern.prefix.clone()];
        row.extend(counts.map(grouped));
        row.extend(times.map(|time| grouped(time / 1000)));
        table.row(row);
    }
    table.print("no patterns")?;
    for (pattern, counters) in scenario.patterns.iter().zip(&found.patterns) {
        let NackCounts { congestion, no_route } = counters.nacked_for;
        if no_route > 0 {
            let prefix = &pattern.prefix;
            let count = grouped(no_route);
            output::note(&format_args!(
                "namewire: {count} Nacks for {prefix} have reason NoRoute: no producer serves it"
            ));
        }
        if congestion > 0 {
            let (prefix, count) = (&pattern.prefix, grouped(congestion));
            output::note(&format_args!(
                "namewire: {count} Nacks for {prefix} have reason Congestion: a forwarder or a link is overloaded"
            ));
        }
    }
    let seconds = figures.wall.as_secs_f64();
    output::print_line(&format!("{seconds:.3} s, {cpu_us:.3} µs of CPU time per Interest"))?;
    Ok(())
}

fn pattern_json(prefix: &str, counters: &PatternCounters) -> Value {
    let latency = &counters.latency_ns;
    let mut times = serde_json::Map::new();
    for (key, percentile) in PERCENTILES {
        times.insert(key.to_owned(), json!(microseconds(latency.value_at_percentile(percentile))));
    }
    times.insert("mean_us".to_owned(), json!(latency.mean() / 1000.0));
    times.insert("max_us".to_owned(), json!(microseconds(latency.max())));
    json!({
        "prefix": prefix,
        "sent": counters.sent,
        "satisfied": counters.satisfied,
        "nacked": counters.nacked,
        "nacked_congestion": counters.nacked_for.congestion,
        "nacked_no_route": counters.nacked_for.no_route,
        "timed_out": counters.timed_out,
        "latency": times,
    })
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a latency")]
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}
