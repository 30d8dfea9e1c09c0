//! `namewire sync`: makes a directory a copy of one of a file server. `namewire get --recursive` is its simple form.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use namewire_http::ProgramMetric;
use ndn_client::Endpoint;
use ndn_client::fetch::{Discovery, FetchProgress};
use ndn_packet::Name;
use serde_json::json;

use super::arguments::directory_name;
use super::connect::block_on;
use super::connection::while_connected;
use super::diagnose::{cause, note_early};
use super::failure::{Failure, Outcome};
use super::fetch_file::{Already, Listing};
use super::get::{
    self, BAR, FetchArguments, Recent, Silence, UPDATE_INTERVAL, message_columns, per_second,
    start_workers,
};
use super::output::{self, bytes_for_people, counted, grouped};
use super::progress::{Notes, fitting, now};
use super::tree::{self, Fetched, Filter, JOBS_DEFAULT, Mode, Rules, TreeProgress};

/// Make a directory a copy of one of a file server
///
/// Copies the contents of SOURCE, a directory of `namewire serve` or another file server, into DIRECTORY. What is
/// complete and unchanged is skipped, interrupted files are resumed, and a file of the same size is compared by its
/// digests before it is fetched. Files and directories get the server's times of modification and its permissions, as far
/// as the umask allows; DIRECTORY itself keeps its permissions.
///
/// Before anything is written, all directories are listed and the free space is checked. A file or directory that cannot be
/// copied is reported, and the others continue; the exit status is that of the first failure. If the server does not answer
/// any more, the copy ends with status 4. Symbolic links in DIRECTORY are not followed, and only one copy to it is made at a
/// time.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Name of the directory of the file server
    #[arg(value_parser = directory_name)]
    source: Name,
    /// The copy, which is created if it does not exist
    directory: PathBuf,
    /// Delete files and directories that SOURCE does not have
    ///
    /// They are deleted at the end, and only if nothing has failed. A file with the content of one that would be fetched is
    /// renamed instead, so that a renamed directory is not fetched again. An entry of another kind than in SOURCE is
    /// replaced; without this option it is a failure.
    ///
    /// Files that --exclude leaves out are kept, and entries that a server may leave out: symbolic links, special files
    /// and, if SOURCE lists none, entries that begin with a period.
    #[arg(long)]
    delete: bool,
    /// Delete nothing if it were more than NUMBER files
    ///
    /// By default half of the files of DIRECTORY, at least 10, and nothing if SOURCE is empty.
    #[arg(long, value_name = "NUMBER", requires = "delete")]
    max_delete: Option<u64>,
    #[command(flatten)]
    filter: Filter,
    /// Copy into the root directory of this machine
    ///
    /// Without this option that is refused, because an empty variable in a script (`"$DIRECTORY/"`) means it.
    #[arg(long, hide_short_help = true)]
    allow_root: bool,
    /// Print what would be done, and write nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Compare the contents of all files with their digests, also of those that seem to be unchanged
    #[arg(long, short = 'c')]
    checksum: bool,
    /// Compare the contents of all files with their digests, print differences, and write nothing
    ///
    /// The exit status is 1 if a file is missing or differs, and, with --delete, if there is one that SOURCE does not have.
    #[arg(long, conflicts_with_all = ["dry_run", "checksum", "restart"])]
    verify_only: bool,
    /// Number of files at a time
    #[arg(long, short, default_value_t = JOBS_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: u16,
    #[command(flatten)]
    fetch: FetchArguments,
}

pub(super) fn run(options: &Options) -> Outcome {
    let mode = match (options.dry_run, options.verify_only) {
        (_, true) => Mode::Verify,
        (true, false) => Mode::Preview,
        (false, false) => Mode::Copy,
    };
    if mode == Mode::Copy && !options.allow_root {
        refuse_root(&options.directory)?;
    }
    let rules = Rules {
        filter: options.filter.clone(),
        delete: options.delete,
        max_delete: options.max_delete,
        checksum: options.checksum || options.verify_only,
        mode,
        jobs: options.jobs,
        umask: Some(tree::umask()),
    };
    copy(&options.source, &options.directory, &options.fetch, &rules)
}

/// Executes `get`, which copies a directory with `--recursive`; with `as_ndncatchunks`, prints the statistics of an object as
/// that does.
pub(super) fn run_get(options: &get::Options, as_ndncatchunks: bool) -> Outcome {
    let Some((name, output)) = options.directories()? else {
        return get::run(options, as_ndncatchunks);
    };
    refuse_root(output)?;
    copy(name, output, &options.fetch, &Rules::default())
}

/// Rejects the root directory, however it is written.
fn refuse_root(directory: &Path) -> Outcome {
    let is_root = directory.canonicalize().is_ok_and(|path| path == Path::new("/"));
    let reason = format!(
        "{} is the root directory of this machine, as an empty variable in a script would make it: \
         `namewire sync --allow-root` copies there",
        directory.display()
    );
    if is_root { Err(Failure::Usage(reason)) } else { Ok(()) }
}

/// Copies the directory `name` of a file server to `output`, and reports the result.
fn copy(name: &Name, output: &Path, arguments: &FetchArguments, rules: &Rules) -> Outcome {
    let mut policy = arguments.policy(Discovery::Metadata, Listing::No)?;
    let restarted = Arc::<AtomicU64>::default();
    policy.restarted = Some(Arc::clone(&restarted));
    let bar = arguments.progress_bar();
    policy.notes = Notes::above(&bar);
    let workers = Arc::new(start_workers()?);
    let started = now();
    let kept = Arc::new(tree::Kept::default());
    let fetched = block_on(async {
        let endpoint = arguments.connect.open().await?;
        let progress = Arc::default();
        let scraped = Arc::clone(&progress);
        let _metrics = arguments.metrics.serve(move || tree_metrics(&scraped))?;
        let tree = tree::Tree {
            endpoint: &endpoint,
            name,
            policy: &policy,
            workers: &workers,
            kept: &kept,
            progress: &progress,
            rules,
        };
        let is_silent = || !arguments.quiet && progress.answers() == 0;
        let note = |text: &str| policy.notes.write(&text);
        let work = async {
            tokio::select! {
                fetched = tree.copy(output) => fetched,
                never = show(&bar, &progress, &endpoint, name) => match never {},
                never = note_early(name, cause(&endpoint, name), is_silent, note) => match never {},
            }
        };
        while_connected(&endpoint, arguments.timeout(), &policy.notes, work).await
    });
    bar.finish_and_clear();
    report_restarted(restarted.load(Ordering::Relaxed));
    let fetched = fetched.map_err(|failure| failure.leaving(kept.in_words()))?;
    report(name, &fetched, now() - started, arguments, rules.mode)?;
    match fetched.failure {
        Some(failure) => Err(failure.leaving(kept.in_words())),
        None if rules.mode == Mode::Verify && !fetched.changes.is_empty() => {
            Err(Failure::Failed(format!(
                "{} differs from {name}: {}",
                output.display(),
                counted(fetched.changes.len() as u64, "difference")
            )))
        }
        None => Ok(()),
    }
}

fn report(
    name: &Name,
    fetched: &Fetched,
    elapsed: Duration,
    arguments: &FetchArguments,
    mode: Mode,
) -> Outcome {
    if arguments.json {
        output::print_json(&json!({
            "name": name.to_string(),
            "files": fetched.files,
            "unchanged": fetched.unchanged,
            "renamed": fetched.renamed,
            "deleted": fetched.deleted,
            "directories": fetched.directories,
            "bytes": fetched.bytes,
            "failed": fetched.failed,
            "not_begun": fetched.not_begun,
            "unchecked_keys": fetched.unchecked_keys().map(Name::to_uri).collect::<Vec<_>>(),
            "unchecked_signatures": fetched.unchecked_signatures().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "elapsed_ms": elapsed.as_secs_f64() * 1000.0,
            "changes": fetched.changes.iter().map(tree::Change::json).collect::<Vec<_>>(),
        }))?;
        return Ok(());
    }
    if mode != Mode::Copy {
        for change in &fetched.changes {
            output::print_line(&change.to_string())?;
        }
        if fetched.changes.is_empty() && fetched.failure.is_none() && !arguments.quiet {
            output::note(&"nothing differs");
        }
        return Ok(());
    }
    if !arguments.quiet {
        output::note(&summary(fetched, elapsed, arguments.checked_in_words()));
    }
    if fetched.without_attributes > 0 {
        output::note(&format_args!(
            "namewire: time or permissions could not be set: {} files and directories",
            grouped(fetched.without_attributes)
        ));
    }
    Ok(())
}

/// The summary of a copy; `checked` is what was checked of packets.
fn summary(fetched: &Fetched, elapsed: Duration, checked: String) -> String {
    let (files, bytes) = (counted(fetched.files, "file"), bytes_for_people(fetched.bytes));
    let rate = bytes_for_people(per_second(fetched.bytes, elapsed));
    let parts = [
        (fetched.unchanged, "unchanged"),
        (fetched.replaced - fetched.replaced_changed, "replaced"),
        (fetched.replaced_changed, "replaced despite local changes"),
        (fetched.renamed, "renamed"),
        (fetched.deleted, "deleted"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> = parts.map(|(count, what)| format!("{} {what}", grouped(*count))).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    let left = [(fetched.failed, "failed"), (fetched.not_begun, "not begun")];
    let left = left.iter().filter(|(count, _)| *count > 0);
    let left: String = left.map(|(count, what)| format!(", {} {what}", grouped(*count))).collect();
    let checked = fetched.unchecked_in_words().unwrap_or(checked);
    let seconds = elapsed.as_secs_f64();
    format!("{files}{parts}{left}, {bytes} in {seconds:.3} s, {rate}/s, {checked}")
}

/// Reports the files of which an earlier copy has left nothing to resume.
fn report_restarted(files: u64) {
    if files > 0 {
        let files = counted(files, "file");
        output::note(&format_args!(
            "namewire: {files} whose fetch was interrupted at its beginning started over"
        ));
    }
}

/// The progress of a copy as metrics.
#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
fn tree_metrics(progress: &TreeProgress) -> Vec<ProgramMetric> {
    let value = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
    vec![
        ProgramMetric::counter(
            "namewire_get_content_bytes",
            "Content received, each byte once.",
            value(&progress.bytes_done),
        ),
        ProgramMetric::counter("namewire_get_files", "Files done.", value(&progress.files_done)),
        ProgramMetric::gauge(
            "namewire_get_expected_bytes",
            "Length of the files that have to be fetched, as far as known.",
            value(&progress.bytes_found),
        ),
        ProgramMetric::gauge(
            "namewire_get_expected_files",
            "Files of the listings so far.",
            value(&progress.files_found),
        ),
    ]
}

/// Shows how far a copy is.
async fn show(
    bar: &ProgressBar,
    progress: &TreeProgress,
    endpoint: &Endpoint,
    name: &Name,
) -> Infallible {
    set_style(bar);
    let (mut listing, mut copying) = (Recent::new(now()), None);
    let mut silence = Silence::default();
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let recent_of = |bytes| FetchProgress { bytes, ..FetchProgress::default() };
    loop {
        tokio::time::sleep(UPDATE_INTERVAL).await;
        if bar.is_hidden() {
            continue;
        }
        let (done, found) = (load(&progress.files_done), load(&progress.files_found));
        if !progress.is_planned.load(Ordering::Relaxed) {
            let lasting = silence_of_plan(&mut listing, progress, now());
            let silence = silence.fields(lasting, endpoint, name).await;
            bar.set_message(listing_message(found, &silence, message_columns()));
            continue;
        }
        let recent = copying.get_or_insert_with(|| Recent::new(now()));
        let (bytes, bytes_found) = (load(&progress.bytes_done), load(&progress.bytes_found));
        recent.note(now(), &recent_of(bytes), Already::default());
        let silence = silence.fields(recent.silence(now()), endpoint, name).await;
        bar.set_length(bytes_found.max(1));
        bar.set_position(bytes);
        let current = progress.current_in_words(output::progress_columns());
        bar.set_prefix(current.unwrap_or_default());
        let (files, bytes) = ((done, found), (bytes, bytes_found));
        bar.set_message(message(files, bytes, recent.rate(now()), &silence, message_columns()));
    }
}

/// The files have a line of their own.
fn set_style(bar: &ProgressBar) {
    if let Ok(style) = ProgressStyle::with_template(&format!("{BAR}\n{{prefix}}")) {
        bar.set_style(style);
    }
}

/// The silence until the metadata of all files is known.
fn silence_of_plan(recent: &mut Recent, progress: &TreeProgress, now: Instant) -> Option<Duration> {
    let answers = FetchProgress { bytes: progress.answers(), ..FetchProgress::default() };
    recent.note(now, &answers, Already::default());
    if progress.awaits_nothing() {
        recent.note_pause(now);
    }
    recent.silence(now)
}

/// The text until the metadata of all files is known, in at most `columns`.
fn listing_message(found: u64, silence: &[String], columns: usize) -> String {
    fitting(&[format!("{} found", counted(found, "file"))], silence, columns)
}

/// The text beside the bar, in at most `columns`: the numbers of files and bytes are those done and found.
fn message(
    files: (u64, u64),
    bytes: (u64, u64),
    rate: Option<u64>,
    silence: &[String],
    columns: usize,
) -> String {
    let mut fields =
        vec![format!("{} of {}", bytes_for_people(bytes.0), bytes_for_people(bytes.1))];
    if silence.is_empty() {
        let left = rate.and_then(|rate| bytes.1.saturating_sub(bytes.0).checked_div(rate));
        fields.extend(rate.map(|rate| format!("{}/s", bytes_for_people(rate))));
        fields.extend(left.map(|seconds| format!("{seconds} s left")));
        fields.push(format!("{} of {}", grouped(files.0), counted(files.1, "file")));
    }
    fitting(&fields, silence, columns)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::cli::progress::Screen;

    #[test]
    fn silence_before_the_copy_is_that_of_the_server() {
        let (progress, start) = (TreeProgress::default(), now());
        let mut recent = Recent::new(start);
        let mut silence_at = |seconds| {
            let silence =
                silence_of_plan(&mut recent, &progress, start + Duration::from_secs(seconds));
            silence.map(|silence| silence.as_secs())
        };
        assert_eq!(silence_at(5), Some(5), "a listing is awaited");
        progress.is_listed.store(true, Ordering::Relaxed);
        assert_eq!(silence_at(30), None, "files are compared");
        let mut asked = Box::pin(progress.ask(std::future::pending::<Outcome>()));
        assert!((&mut asked).now_or_never().is_none());
        assert_eq!(silence_at(33), Some(3), "metadata is awaited");
        assert!(progress.ask(std::future::ready(Ok(()))).now_or_never().is_some());
        assert_eq!(silence_at(34), None, "another file has its metadata");
    }

    #[test]
    fn summary_counts_failures() {
        let mut fetched = Fetched::default();
        (fetched.files, fetched.unchanged, fetched.bytes) = (7, 3, 16);
        let mut of = |failed| {
            fetched.failed = failed;
            summary(&fetched, Duration::from_secs(1), "checked".to_owned())
        };
        assert_eq!(of(0), "7 files (3 unchanged), 16 B in 1.000 s, 16 B/s, checked");
        assert_eq!(
            of(1200),
            "7 files (3 unchanged), 1 200 failed, 16 B in 1.000 s, 16 B/s, checked"
        );
        fetched.not_begun = 3;
        let line = summary(&fetched, Duration::from_secs(1), "checked".to_owned());
        assert!(line.contains(", 1 200 failed, 3 not begun, 16 B "), "{line}");
    }

    #[test]
    fn progress_fits_terminals() {
        let (files, bytes) = ((1_234, 56_789), (123_456_789_000, 999_900_000_000));
        for (columns, end) in
            [(100, "1 234 of 56 789 files"), (80, " s left"), (40, " of 931.2 GiB")]
        {
            let screen = Screen::new(columns);
            let bar = screen.bar();
            set_style(&bar);
            // As long as that of the files can be.
            bar.set_prefix("a".repeat(columns.into()));
            // The bar and the percentage take 18.
            let shown = message(files, bytes, Some(123_456_789), &[], usize::from(columns) - 18);
            bar.set_message(shown);
            let lines = screen.lines();
            assert_eq!(lines.len(), 2, "{lines:?}");
            assert!(lines[0].ends_with(end), "{lines:?}");
        }
    }

    #[test]
    fn silence_takes_the_place_of_the_rate() {
        let silence = ["no answer for 7 s", "from /a"].map(str::to_owned);
        let line = message((1, 2), (0, 0), None, &silence, 60);
        assert_eq!(line, "0 B of 0 B  no answer for 7 s from /a");
        assert_eq!(listing_message(1, &[], 60), "1 file found");
        let line = listing_message(0, &silence, 60);
        assert_eq!(line, "0 files found  no answer for 7 s from /a");
    }
}
