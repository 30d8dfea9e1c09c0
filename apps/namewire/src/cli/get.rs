//! `namewire get`: fetches a segmented object.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use ndn_client::fetch::{Discovery, FetchConfig, FetchOptions, FetchProgress, WindowMode};
use ndn_files::{LIST, Workers};
use ndn_packet::{Convention, Name};
use serde_json::json;

use super::arguments::{name, positive_duration};
use super::connect::{ConnectOptions, block_on};
use super::connection::while_connected;
use super::failure::{Failure, Outcome};
use super::fetch_file::{Already, Fetched, Listing, Policy, abandon, fetch};
use super::keys;
use super::output::{self, bytes_for_people, counted, grouped};

use super::target::Target;
use super::{diagnose, range, tree};

/// Fetch a segmented object
///
/// Finds the latest version of NAME by its RDR metadata or, without metadata, by an Interest for the prefix, and
/// fetches its segments with a window that adapts to loss and congestion. Typed components (`v=7/seg=0`) and markers of
/// older programs (`%FD%07/%00%00`) are supported; metadata, the first segment or the version in NAME show which are
/// used.
///
/// A file gets its name when it is complete and verified; an existing file keeps its mode. An interrupted fetch leaves
/// the received part as .FILE.part with a description in .FILE.part.json, and the same command resumes it. The fetch
/// starts again if there is a newer version, --verify or --range differ, the object has other segments, or the part is
/// damaged. A resumed part is not verified again.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Name of the object, with or without version
    #[arg(value_parser = name)]
    name: Name,
    /// Output file, which appears when it is complete, or `-` for standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[arg(long, value_name = "KEY", default_value = "digest", help = keys::VERIFY_HELP)]
    verify: String,
    /// How to find the version
    #[arg(long, value_enum, default_value = "auto")]
    discover: Discover,
    /// Fixed window, in Interests, instead of an adaptive one
    #[arg(long, value_name = "SEGMENTS", value_parser = clap::value_parser!(u32).range(1..))]
    window: Option<u32>,
    /// Congestion control algorithm
    #[arg(long, value_enum, default_value = "cubic", conflicts_with = "window")]
    congestion: CongestionControl,
    /// Maximum window, in Interests
    #[arg(long, value_name = "SEGMENTS", conflicts_with = "window", value_parser = clap::value_parser!(u32).range(1..))]
    window_max: Option<u32>,
    /// InterestLifetime
    #[arg(long, short, value_parser = positive_duration, default_value = "4s", value_name = "DURATION")]
    lifetime: Duration,
    /// Retransmissions of a segment before giving up
    ///
    /// The fetch fails after (RETRIES + 1) lifetimes without an answer or without a forwarder. Finding the version may
    /// take as long again, at most four lifetimes. After a forwarder has restarted, a missing route counts only after
    /// ten seconds.
    #[arg(long, default_value_t = FetchConfig::default().retransmissions_max)]
    retries: u32,
    /// Fetch a directory of a file server with its contents into the directory -o
    ///
    /// Many files are fetched at a time. A file that cannot be fetched is reported, and the others continue; the exit
    /// status is that of the first failure. Files that are complete and unchanged are skipped, and interrupted files
    /// are resumed.
    #[arg(long, short, conflicts_with_all = ["range", "discover"])]
    recursive: bool,
    /// Fetch the list of entries of NAME, a directory of a file server
    ///
    /// Each entry ends with a zero byte, that of a directory with a slash and a zero byte.
    #[arg(long, conflicts_with_all = ["range", "recursive"])]
    listing: bool,
    /// Fetch only the bytes from A to B, counted from 0, both included; `A-` means up to the end
    ///
    /// Only for files of a file server (`namewire serve`): objects of `namewire put` do not state their length.
    #[arg(long, value_name = "A-B", value_parser = range::parse)]
    range: Option<range::ByteRange>,
    /// Ignore the part of an interrupted fetch and start again
    #[arg(long)]
    restart: bool,
    /// Accept an older version than the one that FILE was fetched with before, with a key
    #[arg(long)]
    allow_older: bool,
    /// Do not flush files to the disk before they get their names
    ///
    /// Faster for many small files. After a power failure a file may be incomplete.
    #[arg(long)]
    no_sync: bool,
    /// Do not show progress
    #[arg(long, short)]
    quiet: bool,
    /// Print results as JSON at the end (on standard error if the object goes to standard output)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Discover {
    /// By the version at the end of NAME, then metadata, then prefix
    Auto,
    /// By RDR metadata
    Metadata,
    /// By an Interest for NAME with CanBePrefix
    Prefix,
    /// No version: NAME is followed by segment components
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CongestionControl {
    /// CUBIC: reacts to losses and congestion marks; takes its share against other loss-based flows
    Cubic,
    /// Delay-based: keeps queues short and tolerates some losses
    Delay,
}

pub(super) fn run(options: &Options) -> Outcome {
    if options.name.is_empty() {
        return Err(Failure::Usage("/: an object has a name of one component or more".to_owned()));
    }
    let policy = Policy {
        fetching: fetch_options(options)?,
        identity: keys::identity(&options.verify)?,
        allow_older: options.allow_older,
        restart: options.restart,
        durable: !options.no_sync,
        listing: match options.listing {
            true => Listing::Demanded,
            false if options.name.components().any(|part| part == LIST) => Listing::Named,
            false => Listing::No,
        },
    };
    if options.recursive {
        return run_tree(options, &policy);
    }
    let mut target = Target::open(options.output.as_deref())?;
    target.set_durable(policy.durable);
    let workers = start_workers()?;
    let started = now();
    let fetched = block_on(async {
        let endpoint = options.connect.open().await?;
        let fetched = while_connected(&endpoint, timeout(options), async {
            if let Some(range) = options.range {
                return range::fetch(&endpoint, &options.name, range, &policy, &mut target).await;
            }
            let bar = progress_bar(options);
            let observe =
                |progress: &FetchProgress, already| update(&bar, progress, already, started);
            let fetched =
                fetch(&endpoint, &options.name, &policy, &mut target, &workers, observe).await;
            bar.finish_and_clear();
            fetched
        })
        .await;
        diagnose::explained(fetched, &endpoint, &options.name).await
    });
    // All writes to the target have finished.
    drop(workers);
    match fetched {
        Ok(fetched) => {
            let on_stdout = target.is_stdout();
            target.complete()?;
            Report { fetched, elapsed: now() - started }.print(options, on_stdout)
        }
        Err(failure) => {
            abandon(target);
            Err(failure)
        }
    }
}

/// Fetches a directory recursively.
fn run_tree(options: &Options, policy: &Policy) -> Outcome {
    let Some(output) = options.output.as_deref().filter(|path| path.as_os_str() != "-") else {
        return Err(Failure::Usage(
            "a directory needs an output directory: use -o DIRECTORY".to_owned(),
        ));
    };
    let workers = Arc::new(start_workers()?);
    let started = now();
    let kept = Arc::new(tree::Kept::default());
    let fetched = block_on(async {
        let endpoint = options.connect.open().await?;
        let tree = tree::Tree { endpoint: &endpoint, policy, workers: &workers, kept: &kept };
        let work = tree.fetch(&options.name, output);
        let fetched = while_connected(&endpoint, timeout(options), work).await;
        diagnose::explained(fetched, &endpoint, &options.name).await
    });
    kept.report();
    let fetched = fetched?;
    let elapsed = now() - started;
    if options.json {
        output::print_json(&json!({
            "name": options.name.to_string(),
            "files": fetched.files,
            "unchanged": fetched.unchanged,
            "directories": fetched.directories,
            "bytes": fetched.bytes,
            "failed": fetched.failed,
            "seconds": elapsed.as_secs_f64(),
        }))?;
    } else if !options.quiet {
        let (files, bytes) = (counted(fetched.files, "file"), bytes_for_people(fetched.bytes));
        let rate = bytes_for_people(per_second(fetched.bytes, elapsed));
        let unchanged = match fetched.unchanged {
            0 => String::new(),
            count => format!(" ({} unchanged)", grouped(count)),
        };
        output::note(&format_args!(
            "{files}{unchanged}, {bytes} in {:.3} s, {rate}/s",
            elapsed.as_secs_f64()
        ));
    }
    fetched.failure.map_or(Ok(()), Err)
}

/// The time without a response after which a fetch fails.
fn timeout(options: &Options) -> Duration {
    options.lifetime.saturating_mul(options.retries.saturating_add(1))
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
    fetching.give_up_after(options.retries);
    fetching.config.window = match options.congestion {
        CongestionControl::Cubic => WindowMode::CUBIC,
        CongestionControl::Delay => WindowMode::DELAY,
    };
    if let Some(window) = options.window {
        fetching.config.window = WindowMode::Fixed(window);
    }
    if let Some(max) = options.window_max {
        fetching.config.window = fetching.config.window.with_max(max);
    }
    Ok(fetching)
}

fn start_workers() -> Outcome<Workers> {
    Workers::start().map_err(|error| Failure::Failed(format!("no thread can be started: {error}")))
}

#[expect(clippy::disallowed_methods, reason = "for display: the duration of a fetch")]
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

fn update(bar: &ProgressBar, progress: &FetchProgress, already: Already, started: Instant) {
    if bar.is_hidden() {
        return;
    }
    let rate = per_second(progress.bytes, now() - started);
    let bytes = bytes_for_people(already.bytes + progress.bytes);
    let mut message = format!("{bytes}  {}/s", bytes_for_people(rate));
    if let Some(last) = progress.final_segment {
        bar.set_length(last + 1);
        if let Some(left) = seconds_left(progress, already, last, rate) {
            message.push_str(&format!("  {left} s left"));
        }
    }
    message.push_str(&format!("  window {}", progress.window));
    if let Some(rtt) = progress.rtt {
        message.push_str(&format!("  rtt {:.1} ms", rtt.as_secs_f64() * 1000.0));
    }
    message.push_str(&format!("  {} retransmitted", progress.retransmissions));
    bar.set_message(message);
    bar.set_position(already.segments + progress.segments);
}

/// The remaining time if the rate stays the same.
fn seconds_left(progress: &FetchProgress, already: Already, last: u64, rate: u64) -> Option<u64> {
    let segment_bytes = progress.bytes.checked_div(progress.segments)?;
    let segments_left = (last + 1).saturating_sub(already.segments + progress.segments);
    segments_left.saturating_mul(segment_bytes).checked_div(rate)
}

fn per_second(amount: u64, elapsed: Duration) -> u64 {
    let nanoseconds = elapsed.as_nanos().max(1);
    u64::try_from(u128::from(amount) * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
}

struct Report {
    fetched: Fetched,
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
            output::note(&text);
        } else {
            output::print_line(&text)?;
        }
        Ok(())
    }

    fn line(&self) -> String {
        let Fetched { name, convention, already, progress, refused } = &self.fetched;
        let rate = bytes_for_people(per_second(progress.bytes, self.elapsed));
        let resumed = match already.bytes {
            0 => String::new(),
            bytes => format!(", {} resumed", bytes_for_people(bytes)),
        };
        let refused = match refused {
            0 => String::new(),
            count => format!(", {} failed verification and were replaced", grouped(*count)),
        };
        let convention = match convention {
            Convention::Typed => "",
            Convention::Marked => ", named by the older convention",
        };
        format!(
            "{}: {} in {:.3} s ({rate}/s), {}, {} retransmitted{resumed}{refused}{convention}",
            name,
            bytes_for_people(progress.bytes),
            self.elapsed.as_secs_f64(),
            counted(progress.segments, "segment"),
            grouped(progress.retransmissions)
        )
    }

    fn json(&self) -> serde_json::Value {
        let Fetched { name, convention, already, progress, refused } = &self.fetched;
        let milliseconds = |duration: Duration| duration.as_secs_f64() * 1000.0;
        json!({
            "name": name.to_string(),
            "convention": convention.to_string(),
            "bytes": progress.bytes,
            "segments": progress.segments,
            "resumed_bytes": already.bytes,
            "resumed_segments": already.segments,
            "elapsed_ms": milliseconds(self.elapsed),
            "goodput_bytes_per_s": per_second(progress.bytes, self.elapsed),
            "interests": progress.interests,
            "retransmissions": progress.retransmissions,
            "timeouts": progress.timeouts,
            "losses": progress.losses,
            "nacks": progress.nacks,
            "refused": refused,
            "congestion_marks": progress.congestion_marks,
            "window": progress.window,
            "rtt_ms": progress.rtt.map(milliseconds),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_time_is_proportional_to_remaining_bytes() {
        let progress = FetchProgress { bytes: 8000, segments: 1, ..FetchProgress::default() };
        let none = Already::default();
        assert_eq!(seconds_left(&progress, none, 10, 8000), Some(10));
        let some = Already { segments: 4, bytes: 32_000 };
        assert_eq!(seconds_left(&progress, some, 10, 8000), Some(6));
        assert_eq!(seconds_left(&FetchProgress::default(), none, 10, 8000), None);
        assert_eq!(seconds_left(&progress, none, 10, 0), None);
    }
}
