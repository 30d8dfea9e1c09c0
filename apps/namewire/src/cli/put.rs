//! `namewire put`: publishes a file as a segmented object.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use namewire_http::ProgramMetric;
use ndn_client::{Content, PublishError, PublishOptions, PublishedObject, split_version};
use ndn_packet::{MAX_PACKET_SIZE, Name};
use serde_json::json;

use super::arguments::{check_served, duration, positive_duration, published_object, size};
use super::connect::{ConnectOptions, block_on_until_done, unless_turned_away};
use super::connection::{open_within, while_connected};
use super::diagnose::note_other_producers;
use super::failure::{Failure, Outcome};
use super::interrupt::interrupted;
use super::keys;
use super::output::{self, bytes_for_people, counted};
use super::progress::Notes;
use super::scrape::MetricsOptions;

/// Publish a file or standard input as a segmented, signed object
///
/// The object is named NAME/VERSION/SEGMENT. RDR metadata under NAME contains the version, so that consumers ask for
/// NAME. Serves until interrupted. A second `put` is a new version unless --version is given, so an interrupted fetch
/// starts again; with `namewire serve`, the version of a file is its modification time.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Name of the object. A version at its end is the version of the object, as --version is
    #[arg(value_parser = published_object)]
    name: Name,
    /// The file, `-` for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Content of each segment; the packet with name and signature has at most 8800B
    #[arg(long, short, value_name = "SIZE", default_value = "8000B", value_parser = size(1..=MAX_PACKET_SIZE))]
    segment_size: usize,
    /// Version [default: milliseconds since 1970]
    #[arg(long)]
    version: Option<u64>,
    /// FreshnessPeriod of the segments
    #[arg(long, short = 'x', value_parser = duration, default_value = "10s", value_name = "DURATION")]
    freshness: Duration,
    #[arg(long, value_name = "KEY", default_value = "digest", conflicts_with = "identity", help = keys::SIGN_HELP, long_help = keys::SIGN_LONG_HELP)]
    sign: String,
    /// Exit after every segment was sent and none was requested for this time
    #[arg(long, value_parser = positive_duration, value_name = "DURATION")]
    until_idle: Option<Duration>,
    /// Fail after this time without a forwarder [default: at once at the start, never later]
    #[arg(long, value_parser = positive_duration, value_name = "DURATION")]
    wait: Option<Duration>,
    /// Publish also under `/`, which attracts the Interests of all names, or a name of the forwarder's management, which only
    /// an operator may register
    #[arg(long)]
    force: bool,
    /// Print the version component on standard output, and other lines on standard error
    #[arg(long, conflicts_with = "json")]
    print_version: bool,
    /// Print nothing but errors, and what --print-version prints
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    metrics: MetricsOptions,
    #[command(flatten)]
    connect: ConnectOptions,
}

pub(super) fn run(options: &Options) -> Outcome {
    let (name, version) = split_version(&options.name, options.version).map_err(failure)?;
    check_served(&name, options.force).map_err(Failure::Usage)?;
    let publishing = PublishOptions {
        version,
        segment_len: options.segment_size,
        freshness: options.freshness,
        signer: options.connect.data_signer(&options.sign)?,
        ..PublishOptions::default()
    };
    let certificates = options.connect.certificates()?;
    super::serve::log_warnings(&["ndn_client::publish"]);
    let content = content(&options.file)?;
    let size = content.len();
    block_on_until_done(async {
        let endpoint = open_within(&options.connect, options.wait).await?;
        let publish =
            async { endpoint.publish(&name, content, &publishing).await.map_err(failure) };
        let object = Arc::new(unless_turned_away(publish).await?);
        let certificates = super::certificates::serve_of_signer(&endpoint, certificates).await;
        let scraped = Arc::clone(&object);
        let metrics = options.metrics.serve(move || object_metrics(&scraped))?;
        report_published(options, &name, &object, size)?;
        let serving = async {
            tokio::select! {
                signal = interrupted() => signal.map_err(|error| Failure::Failed(error.to_string())),
                () = until_idle(&object, options.until_idle) => Ok(()),
                () = note_other_producers(&endpoint, std::slice::from_ref(&name)) => Ok(()),
            }
        };
        let time_limit = options.wait.unwrap_or(Duration::MAX);
        while_connected(&endpoint, time_limit, &Notes::default(), serving).await?;
        if !options.json {
            let (segments, bytes) = (object.segments_served(), object.bytes_served());
            let line =
                format!("{} sent, {}", counted(segments, "segment"), bytes_for_people(bytes));
            report_line(options, &line)?;
        }
        drop((metrics, certificates));
        if let Some(object) = Arc::into_inner(object) {
            // The forwarder removes the route with the connection, even if it does not respond now.
            let _ = object.unpublish().await;
        }
        Ok(())
    })
}

/// The counters of a published object as metrics.
#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
fn object_metrics(object: &PublishedObject) -> Vec<ProgramMetric> {
    let counter = |name, help, value: u64| ProgramMetric::counter(name, help, value as f64);
    let segments = object.segments_served();
    vec![
        counter("namewire_put_segments", "Segments sent.", segments),
        counter("namewire_put_content_bytes", "Content sent.", object.bytes_served()),
    ]
}

fn content(file: &std::path::Path) -> Outcome<Content> {
    if file.as_os_str() == "-" {
        return Ok(Content::Bytes(super::input::read("-")?.into()));
    }
    if file.is_dir() {
        let path = file.display();
        return Err(Failure::Input(format!(
            "{path} is a directory: `namewire serve {path} --prefix NAME` serves its files"
        )));
    }
    Content::open(file).map_err(|error| Failure::input(file.display(), error))
}

fn report_published(
    options: &Options,
    name: &Name,
    object: &PublishedObject,
    size: u64,
) -> Outcome {
    let segments = object.final_segment() + 1;
    if options.json {
        return Ok(output::print_json(&json!({
            "name": name.to_string(),
            "versioned_name": object.versioned_name().to_string(),
            "bytes": size,
            "segments": segments,
        }))?);
    }
    let versioned = object.versioned_name();
    if options.print_version
        && let Some(version) = versioned.as_ref().last()
    {
        output::print_line(&version.to_string())?;
    }
    let size = bytes_for_people(size);
    let segments = counted(segments, "segment");
    report_line(options, &format!("published {versioned}: {size} in {segments}"))
}

/// Prints a line about the progress, unless it is suppressed.
fn report_line(options: &Options, line: &str) -> Outcome {
    if options.print_version && !options.quiet {
        output::note(&line);
    } else if !options.quiet {
        output::print_line(line)?;
    }
    Ok(())
}

/// Returns once all segments were sent and no Interest has arrived for `idle`; never without
/// `idle`.
async fn until_idle(object: &PublishedObject, idle: Option<Duration>) {
    let Some(idle) = idle else {
        return std::future::pending().await;
    };
    let mut before = object.segments_served();
    loop {
        tokio::time::sleep(idle).await;
        let now = object.segments_served();
        if now == before && now > object.final_segment() {
            return;
        }
        before = now;
    }
}

fn failure(error: PublishError) -> Failure {
    if let PublishError::Register(error) = error {
        error.into()
    } else if matches!(error, PublishError::SegmentTooLong { .. }) {
        Failure::Usage(format!("--segment-size: {error}"))
    } else if let PublishError::OtherVersion { name, own, other } = error {
        Failure::Usage(format!("{name}: its version is {own}, that of --version {other}"))
    } else {
        Failure::Usage(error.to_string())
    }
}
