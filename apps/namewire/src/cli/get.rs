//! `namewire get`: fetches a segmented object.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use ndn_client::fetch::{
    Discovery, FetchConfig, FetchError, FetchFailure, FetchOptions, FetchProgress, ObjectStream,
    WindowMode,
};
use ndn_packet::Name;
use serde_json::json;

use super::connect::{ConnectOptions, block_on, kind_of, name, positive_duration};
use super::failure::{Failure, Outcome};
use super::keys;
use super::output::{bytes_for_people, grouped};
use super::target::Target;

/// Segments written at once.
const BATCH: usize = 256;

/// Fetch a segmented object
///
/// Finds the latest version of NAME by its RDR metadata or, where there is none, by an Interest for
/// the prefix, and fetches its segments with a window that adapts to loss and congestion.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Name of the object, with or without version
    #[arg(value_parser = name)]
    name: Name,
    /// Where to write it: a file, which appears when it is complete, or `-` for standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[arg(long, value_name = "KEY", default_value = "digest", help = keys::VERIFY_HELP)]
    verify: String,
    /// How the version is found
    #[arg(long, value_enum, default_value = "auto")]
    discover: Discover,
    /// Keep so many Interests outstanding, instead of adapting
    #[arg(long, value_name = "SEGMENTS")]
    window: Option<u32>,
    /// Let the window grow up to so many Interests
    #[arg(long, value_name = "SEGMENTS", conflicts_with = "window")]
    window_max: Option<u32>,
    /// InterestLifetime
    #[arg(long, short, value_parser = positive_duration, default_value = "4s", value_name = "DURATION")]
    lifetime: Duration,
    /// Give up after asking for a segment so many times again
    #[arg(long, default_value_t = FetchConfig::default().retransmissions_max)]
    retries: u32,
    /// Do not show progress
    #[arg(long, short)]
    quiet: bool,
    /// Print figures as JSON at the end (on standard error if the object goes to standard output)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Discover {
    /// By the version at the end of NAME, else by metadata, else by prefix
    Auto,
    /// By RDR metadata
    Metadata,
    /// By an Interest for NAME that any longer name answers
    Prefix,
    /// Not at all: segments follow NAME
    None,
}

pub(super) fn run(options: &Options) -> Outcome {
    let fetching = fetch_options(options)?;
    let mut target = Target::open(options.output.as_deref())?;
    let fetched = block_on(async {
        let endpoint = options.connect.open().await?;
        let started = now();
        let stream = endpoint.fetch(&options.name, &fetching).await.map_err(failure)?;
        receive(stream, &mut target, options, started).await
    });
    let report = match fetched {
        Ok(report) => report,
        Err(failure) => {
            target.discard();
            return Err(failure);
        }
    };
    let on_stdout = target.is_stdout();
    target.complete()?;
    report.print(options, on_stdout)
}

fn fetch_options(options: &Options) -> Outcome<FetchOptions> {
    let mut fetching = FetchOptions {
        discovery: match options.discover {
            Discover::Auto => Discovery::Auto,
            Discover::Metadata => Discovery::Metadata,
            Discover::Prefix => Discovery::Prefix,
            Discover::None => Discovery::None,
        },
        lifetime: options.lifetime,
        verification: keys::verification(&options.verify)?,
        ..FetchOptions::default()
    };
    fetching.config.retransmissions_max = options.retries;
    // Interests are repeated at least as often as they end: a segment that nobody has is given up
    // after a minute, not after five.
    let rto = &mut fetching.config.rto;
    rto.max = rto.max.min(options.lifetime);
    rto.min = rto.min.min(rto.max);
    rto.initial = rto.initial.min(rto.max);
    if let Some(window) = options.window {
        fetching.config.window = WindowMode::Fixed(window.max(1));
    }
    if let (Some(limit), WindowMode::Cubic { initial, .. }) =
        (options.window_max, fetching.config.window)
    {
        let max = limit.max(1);
        fetching.config.window = WindowMode::Cubic { initial: initial.min(max), max };
    }
    Ok(fetching)
}

/// Writes the object as it comes.
async fn receive(
    mut stream: ObjectStream,
    target: &mut Target,
    options: &Options,
    started: Instant,
) -> Outcome<Report> {
    let progress = stream.progress();
    let bar = progress_bar(options);
    let mut chunks = Vec::with_capacity(BATCH);
    while stream.next_batch(&mut chunks, BATCH).await.map_err(failure)? > 0 {
        for chunk in chunks.drain(..) {
            target.write(&chunk)?;
        }
        update(&bar, &progress.borrow(), started);
    }
    bar.finish_and_clear();
    let elapsed = now() - started;
    let name = stream.name().clone();
    let progress = *progress.borrow();
    Ok(Report { name, progress, elapsed })
}

#[expect(clippy::disallowed_methods, reason = "for people: how long a fetch took")]
fn now() -> Instant {
    Instant::now()
}

fn progress_bar(options: &Options) -> ProgressBar {
    if options.quiet || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:25} {percent:>3}% {wide_msg}");
    let bar = ProgressBar::no_length();
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn update(bar: &ProgressBar, progress: &FetchProgress, started: Instant) {
    if bar.is_hidden() {
        return;
    }
    let rate = per_second(progress.bytes, now() - started);
    let mut message = format!("{}  {}/s", bytes_for_people(progress.bytes), bytes_for_people(rate));
    if let Some(last) = progress.final_segment {
        bar.set_length(last + 1);
        if let Some(left) = seconds_left(progress, last, rate) {
            message.push_str(&format!("  {left} s left"));
        }
    }
    message.push_str(&format!("  window {}", progress.window));
    if let Some(rtt) = progress.rtt {
        message.push_str(&format!("  rtt {:.1} ms", rtt.as_secs_f64() * 1000.0));
    }
    message.push_str(&format!("  {} sent again", progress.retransmissions));
    bar.set_message(message);
    bar.set_position(progress.segments);
}

/// How long the rest takes if segments go on as they did.
fn seconds_left(progress: &FetchProgress, last: u64, rate: u64) -> Option<u64> {
    let segment_bytes = progress.bytes.checked_div(progress.segments)?;
    let segments_left = (last + 1).saturating_sub(progress.segments);
    segments_left.saturating_mul(segment_bytes).checked_div(rate)
}

fn per_second(amount: u64, elapsed: Duration) -> u64 {
    let nanoseconds = elapsed.as_nanos().max(1);
    u64::try_from(u128::from(amount) * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
}

struct Report {
    name: Name,
    progress: FetchProgress,
    elapsed: Duration,
}

impl Report {
    fn print(&self, options: &Options, on_stdout: bool) -> Outcome {
        let text = if options.json {
            serde_json::to_string_pretty(&self.json()).unwrap_or_default()
        } else if options.quiet {
            return Ok(());
        } else {
            self.line()
        };
        if on_stdout || !options.json {
            eprintln!("{text}");
        } else {
            super::output::print_line(&text)?;
        }
        Ok(())
    }

    fn line(&self) -> String {
        let progress = &self.progress;
        let rate = bytes_for_people(per_second(progress.bytes, self.elapsed));
        format!(
            "{}: {} in {:.3} s ({rate}/s), {} segments, {} sent again",
            self.name,
            bytes_for_people(progress.bytes),
            self.elapsed.as_secs_f64(),
            grouped(progress.segments),
            grouped(progress.retransmissions)
        )
    }

    fn json(&self) -> serde_json::Value {
        let progress = &self.progress;
        let milliseconds = |duration: Duration| duration.as_secs_f64() * 1000.0;
        json!({
            "name": self.name.to_string(),
            "bytes": progress.bytes,
            "segments": progress.segments,
            "elapsed_ms": milliseconds(self.elapsed),
            "goodput_bytes_per_s": per_second(progress.bytes, self.elapsed),
            "interests": progress.interests,
            "retransmissions": progress.retransmissions,
            "timeouts": progress.timeouts,
            "losses": progress.losses,
            "nacks": progress.nacks,
            "congestion_marks": progress.congestion_marks,
            "window": progress.window,
            "rtt_ms": progress.rtt.map(milliseconds),
        })
    }
}

fn failure(error: FetchError) -> Failure {
    let kind: fn(String) -> Failure = if let FetchError::Discovery(error) = &error {
        kind_of(error)
    } else if let FetchError::Failed { failure, .. } = &error {
        kind_of_failure(failure)
    } else if matches!(error, FetchError::Verification { .. }) {
        Failure::Unverified
    } else if matches!(error, FetchError::Closed) {
        Failure::Unreachable
    } else {
        Failure::Failed
    };
    kind(error.to_string())
}

fn kind_of_failure(failure: &FetchFailure) -> fn(String) -> Failure {
    if matches!(failure, FetchFailure::Verification { .. }) {
        Failure::Unverified
    } else if matches!(failure, FetchFailure::Timeout { .. } | FetchFailure::Nack { .. }) {
        Failure::NoAnswer
    } else {
        Failure::Failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_it_has_bytes() {
        let progress = FetchProgress { bytes: 8000, segments: 1, ..FetchProgress::default() };
        assert_eq!(seconds_left(&progress, 10, 8000), Some(10));
        assert_eq!(seconds_left(&FetchProgress::default(), 10, 8000), None);
        assert_eq!(seconds_left(&progress, 10, 0), None);
    }
}
