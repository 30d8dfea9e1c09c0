//! `namewire get`: fetches a segmented object.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use namewire_http::ProgramMetric;
use ndn_client::fetch::{Discovery, FetchConfig, FetchOptions, FetchProgress, WindowMode};
use ndn_client::{ConnectionState, Endpoint};
use ndn_files::{LIST, REPLICAS_MAX, Workers, fetch_index};
use ndn_packet::{Convention, Name};
use ndn_sys::peer::StoppedProcess;
use serde_json::json;

use super::arguments::{
    FILE_COMPONENTS_MAX, at_least_one, name, object_name, positive_duration, too_deep,
    with_components,
};
use super::connect::{ConnectOptions, block_on};
use super::connection::while_connected;
use super::diagnose::{note_early, with_early_cause};
use super::failure::{Failure, Outcome};
use super::fetch_file::{Already, Fetched, Listing, Policy, abandon, fetch, while_served};
use super::file_name::with_number_as_file;
use super::keys;
use super::output::{self, bytes_for_people, counted, grouped};

use super::progress::{Notes, fitting, now};
use super::scrape::MetricsOptions;
use super::target::Target;
use super::{diagnose, range};

/// Fetch a segmented object
///
/// Finds the latest version of NAME by its RDR metadata or, without metadata, by an Interest for the prefix, and
/// fetches its segments with a window that adapts to loss and congestion. Typed components (`v=7/seg=0`) and markers of
/// older programs (`%FD%07/%00%00`) are supported; metadata, the first segment or the version in NAME show which are
/// used.
///
/// A file gets its name when it is complete and verified. As with curl and cp, an existing file is replaced, then and not
/// before, and keeps its mode; the summary says so. An interrupted fetch leaves
/// the received part as .FILE.part with a description in .FILE.part.json, and the same command resumes it. The fetch
/// starts again if there is a newer version, --verify or --range differ, the object has other segments, or the part is
/// damaged. A resumed part is not verified again.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Name of the object, with or without version
    #[arg(value_parser = object_name)]
    name: Name,
    /// Output file, which appears when it is complete and replaces an existing one, or `-` for standard output
    ///
    /// Its directory is created.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Method of finding the version
    #[arg(long, hide_short_help = true, value_enum, default_value = "auto")]
    discover: Discover,
    /// Fetch a directory of a file server with its contents into the directory -o
    ///
    /// Many files are fetched at a time. A file that cannot be fetched is reported, and the others continue; the exit
    /// status is that of the first failure. If the server does not answer any more, the fetch ends with status 4. Files
    /// that are complete and unchanged are skipped, and interrupted files are resumed. Files and directories get the server's times of modification, new ones also its permissions, as far
    /// as the umask allows users other than the owner.
    #[arg(long, short, conflicts_with_all = ["range", "discover"])]
    recursive: bool,
    /// Fetch the list of entries of NAME, a directory of a file server
    ///
    /// Each entry ends with a zero byte, that of a directory with a slash and a zero byte.
    #[arg(long, hide_short_help = true, conflicts_with_all = ["range", "recursive"])]
    listing: bool,
    /// Fetch only the bytes from A to B, counted from 0, both included; `A-` means up to the end
    ///
    /// Only for files of a file server (`namewire serve`): objects of `namewire put` do not state their length.
    #[arg(long, value_name = "A-B", value_parser = range::parse)]
    range: Option<range::ByteRange>,
    /// Also fetch from this name, under which the same file is served; may be repeated
    ///
    /// All are used at the same time, in proportion to their rates. The manifest of NAME, as --verify demands it, verifies
    /// the segments of each. A replica that fails, is silent for too long or sends other content is left and named.
    #[arg(long, hide_short_help = true, help_heading = "Replicas", value_name = "NAME", value_parser = name, requires = "output", conflicts_with_all = ["range", "recursive", "listing"])]
    replica: Vec<Name>,
    /// Also fetch from the replicas that the catalogue of this name lists, below which NAME is
    #[arg(long, hide_short_help = true, help_heading = "Replicas", value_name = "NAME", value_parser = name, requires = "output", conflicts_with_all = ["range", "recursive", "listing"])]
    catalogue: Option<Name>,
    /// Time without an answer after which a replica is left
    #[arg(long, hide_short_help = true, help_heading = "Replicas", value_parser = positive_duration, default_value = "5s", value_name = "DURATION")]
    replica_timeout: Duration,
    #[command(flatten)]
    pub(super) fetch: FetchArguments,
}

/// Options of all commands that fetch objects into files.
#[derive(Args, Debug)]
pub(super) struct FetchArguments {
    #[arg(long, value_name = "KEY", default_value = "digest", help = keys::VERIFY_HELP, long_help = keys::VERIFY_LONG_HELP)]
    verify: String,
    /// Fixed window, in Interests, instead of an adaptive one
    #[arg(long, hide_short_help = true, help_heading = "Congestion control", value_name = "SEGMENTS", value_parser = at_least_one::<u32>)]
    window: Option<u32>,
    /// Congestion control algorithm
    #[arg(
        long,
        hide_short_help = true,
        help_heading = "Congestion control",
        value_enum,
        default_value = "cubic",
        conflicts_with = "window"
    )]
    congestion: CongestionControl,
    /// Maximum window, in Interests
    #[arg(long, hide_short_help = true, help_heading = "Congestion control", value_name = "SEGMENTS", conflicts_with = "window", value_parser = at_least_one::<u32>)]
    window_max: Option<u32>,
    /// InterestLifetime
    #[arg(long, short, value_parser = positive_duration, default_value = "4s", value_name = "DURATION")]
    lifetime: Duration,
    /// Lifetimes to wait for an answer, beyond the first
    ///
    /// The fetch fails after (RETRIES + 1) lifetimes without an answer or without a forwarder. Before, finding the
    /// version fails after four Interests (RETRIES + 1, if that is less), one a second, and the lifetime of the last.
    /// After a forwarder has restarted, a missing route counts only after ten seconds.
    #[arg(long, default_value_t = FetchConfig::default().retransmissions_max)]
    retries: u32,
    /// Ignore the part of an interrupted fetch and start again
    #[arg(long)]
    restart: bool,
    /// Accept an older version than the one that FILE was fetched with before, with a key
    #[arg(long, hide_short_help = true)]
    allow_older: bool,
    /// Do not flush files to the disk before they get their names
    ///
    /// Faster for many small files. After a power failure a file may be incomplete.
    #[arg(long, hide_short_help = true)]
    no_sync: bool,
    /// Do not show progress
    #[arg(long, short)]
    pub(super) quiet: bool,
    /// Print results as JSON at the end (on standard error if the object goes to standard output)
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) metrics: MetricsOptions,
    #[command(flatten)]
    pub(super) connect: ConnectOptions,
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

impl Options {
    /// The directory to copy and the one to copy it to; `None` without `--recursive`.
    pub(super) fn directories(&self) -> Outcome<Option<(&Name, &Path)>> {
        if self.name.is_empty() {
            return Err(Failure::Usage(
                "/: an object has a name of one component or more".to_owned(),
            ));
        }
        self.check_depth()?;
        if !self.recursive {
            return Ok(None);
        }
        let output = self.output.as_deref().filter(|path| path.as_os_str() != "-");
        let output = output.ok_or_else(|| {
            Failure::Usage("a directory needs an output directory: use -o DIRECTORY".to_owned())
        })?;
        Ok(Some((&self.name, output)))
    }

    /// Refuses a name to which the answers would add too many components: those of metadata, or a version and a segment.
    fn check_depth(&self) -> Outcome {
        let is_of_file = self.recursive || self.listing || self.range.is_some();
        let is_auto = self.discover == Discover::Auto;
        let has_version = is_auto && self.name.as_ref().ends_in_version();
        let components_max = if is_of_file || self.discover == Discover::Metadata {
            FILE_COMPONENTS_MAX + usize::from(has_version)
        } else if is_auto && !has_version {
            FILE_COMPONENTS_MAX + 1
        } else {
            // The parser has checked it.
            return Ok(());
        };
        match with_components(self.name.clone(), components_max) {
            Ok(_) => Ok(()),
            Err(reason) => Err(Failure::Usage(format!("{}: {reason}", self.name))),
        }
    }
}

/// Fetches one object; with `as_ndncatchunks`, prints the statistics as that does, for programs that read them.
pub(super) fn run(options: &Options, as_ndncatchunks: bool) -> Outcome {
    let discovery = match options.discover {
        Discover::Auto => Discovery::Auto,
        Discover::Metadata => Discovery::Metadata,
        Discover::Prefix => Discovery::Prefix,
        Discover::None => Discovery::None,
    };
    let listing = match options.listing {
        true => Listing::Demanded,
        false if options.name.components().any(|part| part == LIST) => Listing::Named,
        false => Listing::No,
    };
    let mut policy = options.fetch.policy(discovery, listing)?;
    policy.replicas.clone_from(&options.replica);
    policy.replica_timeout = options.replica_timeout;
    if options.output.as_deref().is_some_and(|path| path.as_os_str() == "-")
        && (!options.replica.is_empty() || options.catalogue.is_some())
    {
        let reason = "--replica and --catalogue: the output is a file, not `-`";
        return Err(Failure::Usage(reason.to_owned()));
    }
    let mut target = Target::open(options.output.as_deref())?;
    let replaces = target.replaces();
    target.set_durable(policy.durable);
    let workers = start_workers()?;
    let started = now();
    let latest = Arc::new(Mutex::new(FetchProgress::default()));
    let scraped = Arc::clone(&latest);
    let _metrics = options.fetch.metrics.serve(move || fetch_metrics(&lock(&scraped)))?;
    let fetched = block_on(async {
        let endpoint = options.fetch.connect.open().await?;
        if let Some(prefix) = &options.catalogue {
            policy.replicas.extend(replicas(&endpoint, &options.name, prefix, &policy).await?);
        }
        if policy.replicas.len() >= REPLICAS_MAX {
            let most = REPLICAS_MAX - 1;
            return Err(Failure::Usage(format!("a file is fetched from at most {most} replicas")));
        }
        // The content would be mixed with a bar on the same terminal; a range has none.
        let bar = match target.is_on_terminal() || options.range.is_some() {
            true => ProgressBar::hidden(),
            false => options.fetch.progress_bar(),
        };
        policy.notes = Notes::above(&bar);
        let policy = policy;
        let fetched = while_connected(&endpoint, options.fetch.timeout(), &policy.notes, async {
            if let Some(range) = options.range {
                let target = &mut target;
                let observe = |progress: &FetchProgress| *lock(&latest) = *progress;
                let (name, arrived) = (&options.name, || lock(&latest).segments);
                let fetching = range::fetch(&endpoint, name, range, &policy, (target, observe));
                let is_silent = || !options.fetch.quiet && arrived() == 0;
                let fetching = with_early_cause(&endpoint, name, is_silent, fetching);
                return while_served(&endpoint, (name, &[]), &policy.fetching, arrived, fetching)
                    .await;
            }
            let shown = Shown::new(bar.clone(), options.fetch.quiet);
            let observe = |progress: &FetchProgress, already| {
                *lock(&latest) = *progress;
                shown.observe(progress, already);
            };
            let (name, target) = (&options.name, &mut target);
            let fetching = Box::pin(fetch(&endpoint, name, &policy, target, &workers, observe));
            tokio::select! {
                fetched = fetching => fetched,
                never = shown.keep_current(&endpoint, &options.name) => match never {},
                never = shown.note_early_cause(&endpoint, &options.name) => match never {},
            }
        })
        .await;
        bar.finish_and_clear();
        let fetched = diagnose::explained(fetched, &endpoint, &options.name).await;
        fetched.map_err(|failure| match options.discover {
            Discover::Auto => with_depth(with_file_name(failure, &options.name), &options.name),
            Discover::Metadata | Discover::Prefix | Discover::None => failure,
        })
    });
    // All writes to the target have finished.
    drop(workers);
    match fetched {
        Ok(fetched) => {
            let (on_stdout, is_within_line) = (target.is_stdout(), target.is_within_line());
            target.complete()?;
            if is_within_line && !options.fetch.quiet {
                output::print_line("")?;
            }
            let report = Report { fetched, elapsed: now() - started, replaces };
            report.print(options, as_ndncatchunks, on_stdout)
        }
        Err(failure) => Err(abandon(target, failure)),
    }
}

/// The failure to fetch or list something, with the name of a file that is called as the version at the end of the name.
pub(super) fn with_file_name(failure: Failure, name: &Name) -> Failure {
    let note = with_number_as_file(name).filter(|_| name.as_ref().ends_in_version());
    match (failure, note) {
        (Failure::NoAnswer(text), Some(note)) => Failure::NoAnswer(format!("{text} ({note})")),
        (failure, _) => failure,
    }
}

/// The failure to fetch an object, with the limit of names that metadata have if that may be the reason.
fn with_depth(failure: Failure, name: &Name) -> Failure {
    let reason = too_deep(name).filter(|_| !name.as_ref().ends_in_version());
    match (failure, reason) {
        (Failure::NoAnswer(text), Some(reason)) => Failure::NoAnswer(format!("{text} ({reason})")),
        (failure, _) => failure,
    }
}

/// Names of an object at the replicas that the catalogue of `prefix` lists.
async fn replicas(
    endpoint: &Endpoint,
    name: &Name,
    prefix: &Name,
    policy: &Policy,
) -> Outcome<Vec<Name>> {
    if !name.as_ref().starts_with(prefix.as_ref()) {
        return Err(Failure::Usage(format!("--catalogue: {name} is not below {prefix}")));
    }
    let index = fetch_index(endpoint, prefix, &policy.fetching).await;
    let (index, _) = index.map_err(super::find::failed)?;
    let below = name.as_ref().suffix(prefix.len());
    // A version is that of one name.
    let below = if below.ends_in_version() { below.parent() } else { below };
    let at = |replica: &Name| {
        let mut name = replica.clone();
        below.components().for_each(|component| {
            name.push(component);
        });
        name
    };
    Ok(index.replicas.iter().map(at).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The progress of a fetch as metrics.
#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
fn fetch_metrics(progress: &FetchProgress) -> Vec<ProgramMetric> {
    let counter = |name, help, value: u64| ProgramMetric::counter(name, help, value as f64);
    let gauge = ProgramMetric::gauge;
    let help = "Interests declared lost, by the reason.";
    let lost =
        |reason, value| counter("namewire_get_lost_interests", help, value).with("reason", reason);
    vec![
        counter("namewire_get_content_bytes", "Content received, each byte once.", progress.bytes),
        counter("namewire_get_segments", "Segments received, each once.", progress.segments),
        counter("namewire_get_interests", "Interests sent for segments.", progress.interests),
        counter(
            "namewire_get_retransmissions",
            "Interests sent for a segment again.",
            progress.retransmissions,
        ),
        lost("overtaken", progress.losses),
        lost("timeout", progress.timeouts),
        counter("namewire_get_nacks", "Nacks received.", progress.nacks),
        counter(
            "namewire_get_refused_segments",
            "Segments that failed verification.",
            progress.refused,
        ),
        counter(
            "namewire_get_congestion_marks",
            "Data received with a congestion mark.",
            progress.congestion_marks,
        ),
        gauge("namewire_get_window", "Interests that may be in flight.", progress.window as f64),
        gauge("namewire_get_in_flight", "Interests in flight.", progress.in_flight as f64),
        gauge(
            "namewire_get_round_trip_seconds",
            "Smoothed round-trip time; 0 before the first answer.",
            progress.rtt.unwrap_or_default().as_secs_f64(),
        ),
    ]
}

impl FetchArguments {
    pub(super) fn policy(&self, discovery: Discovery, listing: Listing) -> Outcome<Policy> {
        let mut fetching = FetchOptions {
            discovery,
            lifetime: self.lifetime,
            verification: keys::verification(&self.verify)?,
            ..FetchOptions::default()
        };
        fetching.give_up_after(self.retries);
        fetching.config.window = match self.congestion {
            CongestionControl::Cubic => WindowMode::CUBIC,
            CongestionControl::Delay => WindowMode::DELAY,
        };
        if let Some(window) = self.window {
            fetching.config.window = WindowMode::Fixed(window);
        }
        if let Some(max) = self.window_max {
            fetching.config.window = fetching.config.window.with_max(max);
        }
        Ok(Policy {
            fetching,
            identity: keys::identity(&self.verify)?,
            allow_older: self.allow_older,
            restart: self.restart,
            restarted: None,
            durable: !self.no_sync,
            listing,
            replicas: Vec::new(),
            replica_timeout: Duration::MAX,
            notes: Notes::default(),
        })
    }

    /// The checks of signatures, for the summary.
    pub(super) fn checked_in_words(&self) -> String {
        keys::checked_in_words(&self.verify)
    }

    /// The time without a response after which a fetch fails.
    pub(super) fn timeout(&self) -> Duration {
        self.lifetime.saturating_mul(self.retries.saturating_add(1))
    }

    pub(super) fn progress_bar(&self) -> ProgressBar {
        if self.quiet || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::no_length();
        bar.set_style(bar_style());
        bar
    }
}

fn bar_style() -> ProgressStyle {
    ProgressStyle::with_template(BAR).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Columns of the terminal beside the bar.
pub(super) fn message_columns() -> usize {
    output::progress_columns().saturating_sub(BAR_COLUMNS)
}

pub(super) fn start_workers() -> Outcome<Workers> {
    Workers::start().map_err(|error| Failure::Failed(format!("no thread can be started: {error}")))
}

/// Template of the progress bar. In 80 columns there is room for the face that does not answer.
pub(super) const BAR: &str = "{bar:12} {percent:>3}% {wide_msg}";
/// Columns of the bar without its message.
const BAR_COLUMNS: usize = 18;
/// Time between two updates of the progress bar while nothing arrives.
pub(super) const UPDATE_INTERVAL: Duration = Duration::from_millis(500);
/// The rate is that of this time.
const RATE_WINDOW: Duration = Duration::from_secs(4);
/// A shorter time has no rate.
const RATE_TIME_MIN: Duration = Duration::from_millis(100);
/// After this time without a byte, that is what the bar shows.
const SHOWN_SILENCE_MIN: Duration = Duration::from_secs(2);

/// After this time without a byte, a program without a terminal says that there is no route.
const NOTED_SILENCE_MIN: Duration = Duration::from_secs(5);

/// The progress bar, and the recent rate.
struct Shown {
    bar: ProgressBar,
    state: RefCell<Recent>,
    is_quiet: bool,
    /// A cause of the silence, or the lack of a route, was noted.
    is_noted: Cell<bool>,
}

impl Shown {
    fn new(bar: ProgressBar, is_quiet: bool) -> Self {
        Self { bar, state: RefCell::new(Recent::new(now())), is_quiet, is_noted: Cell::new(false) }
    }

    fn observe(&self, progress: &FetchProgress, already: Already) {
        self.state.borrow_mut().note(now(), progress, already);
        if !self.bar.is_hidden() {
            self.update(&[]);
        }
    }

    /// Reports why the fetch gets nothing at its beginning. Does not end.
    async fn note_early_cause(&self, endpoint: &Endpoint, name: &Name) -> Infallible {
        let is_silent = || !self.is_quiet && self.state.borrow().progress.segments == 0;
        let note = |text: &str| {
            self.is_noted.set(true);
            self.bar.suspend(|| output::note(&text));
        };
        note_early(name, diagnose::cause(endpoint, name), is_silent, note).await
    }

    /// Updates the bar while nothing arrives.
    async fn keep_current(&self, endpoint: &Endpoint, name: &Name) -> Infallible {
        let mut silence = Silence::default();
        loop {
            tokio::time::sleep(UPDATE_INTERVAL).await;
            if self.bar.is_hidden() {
                let lasting = self.state.borrow().silence(now());
                let is_noted = self.is_quiet || self.is_noted.get();
                let lasting = lasting.filter(|lasting| !is_noted && *lasting >= NOTED_SILENCE_MIN);
                if let Some(lasting) = lasting
                    && diagnose::path(endpoint, name)
                        .await
                        .is_some_and(|path| path == diagnose::NO_ROUTE_PATH)
                {
                    output::note(&no_route_text(lasting, name));
                    self.is_noted.set(true);
                }
            } else {
                let lasting = self.state.borrow().silence(now());
                let silence = silence.fields(lasting, endpoint, name).await;
                self.update(&silence);
            }
        }
    }

    /// Shows these fields about a silence, or what arrived.
    fn update(&self, silence: &[String]) {
        let state = self.state.borrow();
        let (progress, already) = (&state.progress, state.already);
        if let Some(last) = progress.final_segment {
            self.bar.set_length(last + 1);
        }
        self.bar.set_message(state.message(now(), silence, message_columns()));
        self.bar.set_position(already.segments + progress.segments);
    }
}

/// Progress of a fetch and its rate in the last seconds.
pub(super) struct Recent {
    progress: FetchProgress,
    already: Already,
    /// Bytes at these times, the oldest first.
    samples: VecDeque<(Instant, u64)>,
    /// When the last byte arrived, the fetch began, or a pause ended.
    latest: Instant,
}

impl Recent {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            progress: FetchProgress::default(),
            already: Already::default(),
            samples: VecDeque::from([(now, 0)]),
            latest: now,
        }
    }

    pub(super) fn note(&mut self, now: Instant, progress: &FetchProgress, already: Already) {
        if progress.bytes > self.progress.bytes {
            self.latest = now;
        }
        (self.progress, self.already) = (*progress, already);
        let is_old = self.samples.back().is_none_or(|(at, _)| now - *at >= UPDATE_INTERVAL / 5);
        if is_old {
            self.samples.push_back((now, progress.bytes));
        }
        while self.samples.len() > 2
            && self.samples.get(1).is_some_and(|(at, _)| now - *at > RATE_WINDOW)
        {
            self.samples.pop_front();
        }
    }

    /// Nothing was awaited until now.
    pub(super) fn note_pause(&mut self, now: Instant) {
        self.latest = now;
    }

    /// Bytes per second of the last seconds; falls while nothing arrives. `None` at the beginning.
    pub(super) fn rate(&self, now: Instant) -> Option<u64> {
        let (at, bytes) = self
            .samples
            .iter()
            .rev()
            .find(|(at, _)| now - *at >= RATE_WINDOW)
            .or(self.samples.front())?;
        let elapsed = now - *at;
        (elapsed >= RATE_TIME_MIN)
            .then(|| per_second(self.progress.bytes.saturating_sub(*bytes), elapsed))
    }

    /// The time since the last byte, if it is long.
    pub(super) fn silence(&self, now: Instant) -> Option<Duration> {
        let silence = now - self.latest;
        (silence >= SHOWN_SILENCE_MIN).then_some(silence)
    }

    /// The text beside the bar, in at most `columns`.
    fn message(&self, now: Instant, silence: &[String], columns: usize) -> String {
        let Self { progress, already, .. } = self;
        let rate = self.rate(now);
        let bytes = bytes_for_people(already.bytes + progress.bytes);
        let mut fields = vec![bytes];
        fields.extend(rate.map(|rate| format!("{}/s", bytes_for_people(rate))));
        if silence.is_empty() {
            let left = progress.final_segment.zip(rate);
            let left = left.and_then(|(last, rate)| seconds_left(progress, *already, last, rate));
            fields.extend(left.map(|left| format!("{left} s left")));
            fields.push(format!("window {}", progress.window));
            let rtt = progress.rtt;
            fields.extend(rtt.map(|rtt| format!("rtt {:.1} ms", rtt.as_secs_f64() * 1000.0)));
            fields.push(format!("{} retransmitted", progress.retransmissions));
        }
        fitting(&fields, silence, columns)
    }
}

/// A time without an answer, and where the Interests go meanwhile.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// The next hops, once they were found for this silence.
    path: Option<String>,
}

impl Silence {
    /// Its fields for the progress line; none while something arrives.
    pub(super) async fn fields(
        &mut self,
        lasting: Option<Duration>,
        endpoint: &Endpoint,
        name: &Name,
    ) -> Vec<String> {
        let Some(lasting) = lasting else {
            self.path = None;
            return Vec::new();
        };
        if *endpoint.state().borrow() != ConnectionState::Connected {
            self.path = None;
            let seconds = lasting.as_secs();
            let what = format!("no answer for {seconds} s: not connected");
            return vec![what, "to the forwarder".to_owned()];
        }
        if let Some(stopped) = endpoint.forwarder_process().and_then(StoppedProcess::with_id) {
            self.path = None;
            return stopped_fields(lasting, &stopped);
        }
        if self.path.is_none() {
            self.path = Some(diagnose::path(endpoint, name).await.unwrap_or_default());
        }
        silence_fields(lasting, self.path.as_deref().unwrap_or_default(), name)
    }
}

/// The note about a fetch that waits for a route.
fn no_route_text(lasting: Duration, name: &Name) -> String {
    let seconds = lasting.as_secs();
    format!("namewire: no route to {name} for {seconds} s; still trying (--retries sets how often)")
}

/// The fields about a silence while a signal has stopped the forwarder.
fn stopped_fields(lasting: Duration, stopped: &dyn fmt::Display) -> Vec<String> {
    let seconds = lasting.as_secs();
    let what = format!("no answer for {seconds} s: the forwarder does not run");
    vec![what, format!("({stopped})")]
}

/// The fields about a silence. The face comes first: in a narrow terminal there is no room for its peer and the name.
fn silence_fields(lasting: Duration, path: &str, name: &Name) -> Vec<String> {
    let mut fields = vec![format!("no answer for {} s", lasting.as_secs())];
    match path.split_once(" (") {
        Some((face, peer)) => fields.extend([face.to_owned(), format!("({peer}")]),
        None if path.is_empty() => {}
        None => fields.push(path.to_owned()),
    }
    fields.push(format!("from {name}"));
    fields
}

/// The remaining time if the rate stays the same.
fn seconds_left(progress: &FetchProgress, already: Already, last: u64, rate: u64) -> Option<u64> {
    let segment_bytes = progress.bytes.checked_div(progress.segments)?;
    let segments_left = (last + 1).saturating_sub(already.segments + progress.segments);
    segments_left.saturating_mul(segment_bytes).checked_div(rate)
}

pub(super) fn per_second(amount: u64, elapsed: Duration) -> u64 {
    let nanoseconds = elapsed.as_nanos().max(1);
    u64::try_from(u128::from(amount) * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
}

struct Report {
    fetched: Fetched,
    elapsed: Duration,
    /// The output has replaced a file.
    replaces: bool,
}

impl Report {
    fn print(&self, options: &Options, as_ndncatchunks: bool, on_stdout: bool) -> Outcome {
        let text = if options.fetch.json {
            output::json_text(&self.json())
        } else if options.fetch.quiet {
            return Ok(());
        } else if as_ndncatchunks {
            self.lines_of_ndncatchunks()
        } else {
            self.line(&options.fetch.checked_in_words())
        };
        if on_stdout || !options.fetch.json {
            output::note(&text);
        } else {
            output::print_line(&text)?;
        }
        Ok(())
    }

    /// The summary; `checked` is what was checked of packets.
    fn line(&self, checked: &str) -> String {
        let Fetched { name, convention, already, progress, refused, unchecked, replicas } =
            &self.fetched;
        let used = replicas.iter().filter(|replica| replica.segments > 0);
        let replicas = match replicas.len() {
            0 => String::new(),
            _ => format!(
                ", {}",
                used.map(|replica| format!("{} from {}", grouped(replica.segments), replica.name))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        };
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
        let unchecked = unchecked.as_ref().map(keys::unchecked_in_words);
        let signer = unchecked.as_deref().unwrap_or(checked);
        let replaced = if self.replaces { ", in place of the earlier file" } else { "" };
        format!(
            "{}: {} in {:.3} s ({rate}/s), {}, {} retransmitted{replicas}{resumed}{refused}{convention}, {signer}{replaced}",
            name,
            bytes_for_people(progress.bytes),
            self.elapsed.as_secs_f64(),
            counted(progress.segments, "segment"),
            grouped(progress.retransmissions)
        )
    }

    fn lines_of_ndncatchunks(&self) -> String {
        let progress = &self.fetched.progress;
        let seconds = self.elapsed.as_secs_f64();
        let (bytes, sent) = (as_number(progress.bytes), as_number(progress.interests.max(1)));
        let rtt = progress.rtt.map_or_else(String::new, |rtt| {
            format!("\nSmoothed RTT = {:.3} ms", rtt.as_secs_f64() * 1000.0)
        });
        format!(
            "\n\nAll segments have been received.\nTime elapsed: {seconds:.6} seconds\nSegments received: {}\n\
             Transferred size: {} kB\nGoodput: {:.6} Mbit/s\nCongestion marks: {}\nTimeouts: {}\n\
             Retransmitted segments: {} ({:.4}%), skipped: 0\nWindow decreases: {}{rtt}",
            progress.segments,
            bytes / 1000.0,
            bytes * 8.0 / 1e6 / seconds.max(1e-9),
            progress.congestion_marks,
            progress.timeouts,
            progress.retransmissions,
            as_number(progress.retransmissions) * 100.0 / sent,
            progress.window_decreases,
        )
    }

    fn json(&self) -> serde_json::Value {
        let Fetched { name, convention, already, progress, refused, unchecked, replicas } =
            &self.fetched;
        let replicas: Vec<_> = replicas
            .iter()
            .map(|replica| {
                json!({
                    "name": replica.name.to_uri(),
                    "segments": replica.segments,
                    "left": replica.left,
                })
            })
            .collect();
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
            "replaced": self.replaces,
            "unchecked_key": unchecked.as_ref().and_then(|unchecked| unchecked.key_name.as_ref()).map(Name::to_string),
            "unchecked_signature": unchecked.as_ref().map(|unchecked| unchecked.signature_type.to_string()),
            "congestion_marks": progress.congestion_marks,
            "window": progress.window,
            "rtt_ms": progress.rtt.map(milliseconds),
            "replicas": replicas,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with few decimals")]
fn as_number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use ndn_client::EndpointOptions;

    use super::*;
    use crate::cli::progress::Screen;

    #[test]
    fn rate_falls_while_nothing_arrives_and_the_silence_is_shown() {
        let start = now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut recent = Recent::new(start);
        for second in 1..=10 {
            let progress = FetchProgress { bytes: second * 1000, ..FetchProgress::default() };
            recent.note(at(second * 1000), &progress, Already::default());
        }
        assert_eq!(recent.rate(at(10_000)), Some(1000));
        assert_eq!(recent.silence(at(10_500)), None);
        let mut first = Recent::new(at(0));
        let progress = FetchProgress { bytes: 1 << 30, ..FetchProgress::default() };
        first.note(at(1), &progress, Already::default());
        assert_eq!(first.rate(at(1)), None, "nothing is known of the time before");
        let line = first.message(at(1), &[], 200);
        assert!(line.starts_with("1.0 GiB  window "), "{line}");
        assert!(recent.rate(at(12_000)).unwrap() <= 700, "{:?}", recent.rate(at(12_000)));
        assert_eq!(recent.silence(at(16_000)), Some(Duration::from_secs(6)));
        let name = "/site/files/2026/run-2.csv".parse().unwrap();
        let path = "via face 288 (udp4://192.0.2.1:6363)";
        let fields = silence_fields(Duration::from_secs(6), path, &name);
        let silent = recent.message(at(16_000), &fields, 200);
        assert!(silent.contains("0 B/s  no answer for 6 s via face 288 (udp4://"), "{silent}");
        assert!(silent.ends_with("from /site/files/2026/run-2.csv"), "{silent}");
        let fields = silence_fields(Duration::from_secs(6), "", &name);
        assert_eq!(fields.join(" "), "no answer for 6 s from /site/files/2026/run-2.csv");
    }

    #[test]
    fn progress_fits_terminals() {
        let mut recent = Recent::new(now());
        let (bytes, segments, retransmissions) = (123_456_789_000, 15_000_000, 1_234);
        let progress = FetchProgress { bytes, segments, retransmissions, ..Default::default() };
        let progress = FetchProgress {
            final_segment: Some(20_000_000),
            rtt: Some(Duration::from_micros(12_345)),
            ..progress
        };
        recent.note(now(), &progress, Already::default());
        let silence = silence_fields(
            Duration::from_secs(6),
            "via face 288 (udp4://192.0.2.1:6363)",
            &"/site/files/run-2.csv".parse().unwrap(),
        );
        let at = now() + Duration::from_secs(1000);
        for (columns, end, silent_end) in [
            (110, " retransmitted", " via face 288 (udp4://192.0.2.1:6363)"),
            (80, "  rtt 12.3 ms", " via face 288"),
            (45, " MiB/s", " MiB/s"),
        ] {
            let message_columns = usize::from(columns) - BAR_COLUMNS;
            let screen = Screen::new(columns);
            let bar = screen.bar();
            bar.set_style(bar_style());
            bar.set_message(recent.message(at, &[], message_columns));
            let lines = screen.lines();
            assert!(lines.len() == 1 && lines[0].ends_with(end), "{lines:?}");
            bar.set_message(recent.message(at, &silence, message_columns));
            let lines = screen.lines();
            assert!(lines.len() == 1 && lines[0].ends_with(silent_end), "{lines:?}");
        }
    }

    #[tokio::test]
    async fn silence_without_a_forwarder_names_no_path() {
        let (stream, forwarder) = tokio::io::duplex(1 << 10);
        let (reader, writer) = tokio::io::split(stream);
        let endpoint = Endpoint::from_stream(reader, writer, &EndpointOptions::default());
        let mut silence = Silence { path: Some("via face 288".to_owned()) };
        let (lasting, name) = (Some(Duration::from_secs(6)), "/site/file".parse().unwrap());
        let fields = silence.fields(lasting, &endpoint, &name).await;
        assert_eq!(fields, ["no answer for 6 s", "via face 288", "from /site/file"]);
        drop(forwarder);
        let is_closed = |state: &ConnectionState| *state != ConnectionState::Connected;
        endpoint.state().wait_for(is_closed).await.unwrap();
        let fields = silence.fields(lasting, &endpoint, &name).await;
        assert_eq!(fields, ["no answer for 6 s: not connected", "to the forwarder"]);
        assert_eq!(silence.fields(None, &endpoint, &name).await, [""; 0]);
    }

    #[test]
    fn stopped_forwarder_is_named_in_80_columns() {
        let mut recent = Recent::new(now());
        recent.note(now(), &FetchProgress::default(), Already::default());
        let stopped = "process 4711 is stopped; `kill -CONT 4711` continues it";
        let fields = stopped_fields(Duration::from_secs(6), &stopped);
        let at = now() + Duration::from_secs(6);
        let line = |columns: usize| recent.message(at, &fields, columns - BAR_COLUMNS);
        assert_eq!(line(80), "0 B  0 B/s  no answer for 6 s: the forwarder does not run");
        assert!(line(140).ends_with(&format!(" does not run ({stopped})")), "{}", line(140));
    }

    #[test]
    fn files_that_are_called_as_a_version_are_named() {
        let explained = |name: &str| {
            let failure = Failure::NoAnswer("no answer".to_owned());
            with_file_name(failure, &name.parse().unwrap()).to_string()
        };
        assert_eq!(
            explained("/site/v=1"),
            "no answer (v=1 is a version; the name of a file that is called so is /site/v%3D1)"
        );
        assert_eq!(explained("/site/v%3D1"), "no answer");
        assert_eq!(explained("/site/file"), "no answer");
    }

    #[test]
    fn names_that_leave_no_room_for_those_of_answers_are_refused() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: Options,
        }
        let refused = |count: usize, end: &str, options: &str| {
            let line = format!("get {}{end} -o out {options}", "/a".repeat(count));
            let line = <Line as clap::Parser>::try_parse_from(line.split_whitespace()).unwrap();
            line.options.directories().is_err()
        };
        for (options, components_max) in [
            ("", 61),
            ("--discover prefix", 62),
            ("--discover none", 62),
            ("--discover metadata", 60),
            ("--listing", 60),
            ("--recursive", 60),
            ("--range 0-9", 60),
        ] {
            assert!(!refused(components_max, "", options), "{options}");
            assert!(components_max == 62 || refused(components_max + 1, "", options), "{options}");
        }
        assert!(!refused(61, "/v=1", ""));
        let explained = |count: usize| {
            let silent = Failure::NoAnswer("no answer".to_owned());
            with_depth(silent, &"/a".repeat(count).parse().unwrap()).to_string()
        };
        assert!(explained(61).contains("61 components: at most 60"), "{}", explained(61));
        assert_eq!(explained(60), "no answer");
    }

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
