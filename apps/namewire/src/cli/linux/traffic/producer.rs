//! `namewire traffic producer`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use clap::builder::RangedU64ValueParser;
use namewire_http::ProgramMetric;
use ndn_client::ForwarderAddress;
use ndn_packet::{MAX_PACKET_SIZE, Name};
use ndn_traffic::io::{Endpoint, RunFigures, divide, run_producers};
use ndn_traffic::{Producer, ProducerCounters, ProducerPattern, ProducerScenario};
use serde::Deserialize;
use serde_json::json;

use super::common::{check_named, ratio, read_file, report_all, stop_flag, wrong_scenario};
use super::faces;
use crate::cli::arguments::{duration, name, published_name, size};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{self, Table, counted, grouped};
use crate::cli::scrape::MetricsOptions;

/// Respond to the Interests of a traffic consumer
///
/// Registers the prefixes and answers until interrupted. With several faces to a forwarder, prefixes are registered on
/// the faces in turn. Data has a Null signature without --digest. A scenario file has a `[[pattern]]` for each prefix,
/// with the keys prefix, payload (a list of sizes such as "1kB"), freshness (such as "10s"), nack_ratio, silence_ratio,
/// suffix and digest.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Prefixes to answer, all with the given options
    #[arg(value_parser = published_name)]
    prefixes: Vec<Name>,
    /// Read patterns from a TOML file
    #[arg(long, value_name = "FILE", conflicts_with = "prefixes")]
    scenario: Option<PathBuf>,
    /// Size of the content; from several, one is drawn for each Data
    #[arg(long, value_delimiter = ',', default_value = "1000B", value_name = "SIZE,..", value_parser = size(0..=MAX_PACKET_SIZE))]
    payload: Vec<usize>,
    /// FreshnessPeriod [default: none]
    #[arg(long, value_parser = freshness, default_value = "0", hide_default_value = true, value_name = "DURATION")]
    freshness: u32,
    /// Proportion of Interests that get a Nack
    #[arg(long, default_value_t = 0.0, value_name = "RATIO")]
    nack: f64,
    /// Share of Interests that get no answer
    #[arg(long, default_value_t = 0.0, value_name = "RATIO")]
    silence: f64,
    /// Append this to the names of Data for CanBePrefix Interests
    #[arg(long, value_parser = name)]
    suffix: Option<Name>,
    /// Sign Data with their SHA-256 digest, so that consumers can verify them
    #[arg(long)]
    digest: bool,
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
    /// Number of threads; faces are divided between them
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    threads: usize,
    /// Forwarder at which to create UDP faces and their routes, because management does not answer over UDP [default:
    /// the default forwarder]
    #[arg(long, value_name = "URI", value_parser = crate::cli::connect::transport)]
    management: Option<ForwarderAddress>,
    /// Register the prefixes over UDP, under /localhop/nfd, at a forwarder whose setting management.localhop_rib allows it
    #[arg(long, conflicts_with = "management")]
    localhop: bool,
    #[command(flatten)]
    metrics: MetricsOptions,
    /// Print the results as JSON at the end
    #[arg(long)]
    json: bool,
}

/// A FreshnessPeriod in milliseconds.
fn freshness(text: &str) -> Result<u32, String> {
    let freshness_ms = duration(text)?.as_millis();
    u32::try_from(freshness_ms).map_err(|_| "it is at most 4294967295ms".to_owned())
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    pattern: Vec<ProducerPattern>,
}

pub(super) fn run(options: &Options) -> Outcome {
    check_named(options.scenario.is_some() || !options.prefixes.is_empty())?;
    let file: File = read_file(options.scenario.as_deref())?;
    let mut patterns = file.pattern;
    patterns.extend(options.prefixes.iter().map(|prefix| options.pattern(prefix)));
    let mut producers = Vec::new();
    for _ in 0..options.threads {
        let scenario = ProducerScenario { patterns: patterns.clone() };
        let producer = Producer::new(&scenario, rand::random());
        producers.push(producer.map_err(|error| wrong_scenario(&error))?);
    }
    let prefixes: Vec<Name> =
        patterns.iter().filter_map(|pattern| Name::from_uri(&pattern.prefix).ok()).collect();
    let stop = stop_flag()?;
    let mut sessions = None;
    let mut faces = faces::connect(&options.transport, options.faces, options.mtu, &mut sessions)?;
    if options.threads > faces.len() {
        let text = format!("--threads {}: each thread needs a face (--faces)", options.threads);
        return Err(Failure::Usage(text));
    }
    let routes = match options.localhop {
        true => faces::register_over_links(&mut faces, &prefixes).map(|()| None)?,
        false => faces::register(&mut faces, &prefixes, options.management.as_ref(), &stop)?,
    };
    let endpoints: Vec<Endpoint> = faces.into_iter().map(|(endpoint, _)| endpoint).collect();
    if !options.json {
        output::print_line("responding; Ctrl-C ends it")?;
    }
    let progress = indicatif::ProgressBar::new_spinner();
    let running = producers.iter_mut().zip(divide(endpoints, options.threads)).collect();
    let latest = Arc::new(AtomicU64::new(0));
    let scraped = Arc::clone(&latest);
    let metrics = options.metrics.serve(move || producer_metrics(&scraped))?;
    let ended = run_producers(running, &stop, |interests| {
        latest.store(interests, Ordering::Relaxed);
        progress.set_message(counted(interests, "Interest"));
        progress.tick();
    });
    progress.finish_and_clear();
    drop(metrics);
    drop(routes);
    report_all(ended, |figures| report(options, &patterns, &producers, figures))
}

/// The Interests of all threads as a metric; it is updated once a second.
#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
fn producer_metrics(interests: &AtomicU64) -> Vec<ProgramMetric> {
    let help = "Interests received.";
    let value = interests.load(Ordering::Relaxed) as f64;
    vec![ProgramMetric::counter("namewire_traffic_received_interests", help, value)]
}

fn report(
    options: &Options,
    patterns: &[ProducerPattern],
    producers: &[Producer],
    figures: &RunFigures,
) -> Outcome {
    let mut found = vec![ProducerCounters::default(); patterns.len()];
    for producer in producers {
        found.iter_mut().zip(producer.counters()).for_each(|(sum, one)| *sum = sum.plus(*one));
    }
    let interests: u64 = found.iter().map(|one| one.interests).sum();
    let cpu_us = ratio(figures.cpu.as_secs_f64() * 1e6, interests);
    if options.json {
        let patterns = patterns.iter().zip(&found).map(|(pattern, counters)| {
            json!({
                "prefix": pattern.prefix,
                "interests": counters.interests,
                "data": counters.data,
                "nacks": counters.nacks,
                "silent": counters.interests - counters.data - counters.nacks,
            })
        });
        output::print_json(&json!({
            "patterns": patterns.collect::<Vec<_>>(),
            "unexpected": producers.iter().map(Producer::unexpected).sum::<u64>(),
            "elapsed_ms": figures.wall.as_secs_f64() * 1000.0,
            "cpu_us_per_interest": cpu_us,
        }))?;
        return Ok(());
    }
    let mut table = Table::new(&["prefix", ">Interests", ">Data", ">Nacks"]);
    for (pattern, counters) in patterns.iter().zip(&found) {
        let numbers = [counters.interests, counters.data, counters.nacks].map(grouped);
        table.row([vec![pattern.prefix.clone()], numbers.to_vec()].concat());
    }
    table.print("no patterns")?;
    output::print_line(&format!("{cpu_us:.3} µs of CPU time per Interest"))?;
    Ok(())
}

impl Options {
    fn pattern(&self, prefix: &Name) -> ProducerPattern {
        ProducerPattern {
            prefix: prefix.to_uri(),
            payload: self.payload.clone(),
            freshness_ms: self.freshness,
            nack_ratio: self.nack,
            silence_ratio: self.silence,
            suffix: self.suffix.as_ref().map(Name::to_uri).unwrap_or_default(),
            digest: self.digest,
        }
    }
}
