//! `namewire bench page`: the benchmark page, and its benchmark without a browser.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use namewire::cli::output::{self, Table};
use namewire::cli::shared::{Failure, Outcome, on_interrupt};
use namewire_http::{FIRST_NAME, Role, SiteServer, Token};
use serde::de::DeserializeOwned;

use super::common::print_json;
use crate::page::{
    self, ApiOptions, BenchSite, CongestionKind, ConsumerKind, Elsewhere, History, InterestPattern,
    PageTransport, Peers, Plan, ProducerKind, Progress, Record, RemoteOptions, State, Statistic,
    Summary, Traffic, microseconds, run_trials,
};

/// A line of three nodes, A–F–B, with live figures and a history, as a page or without a browser
///
/// Three nodes are processes of this machine: F is a forwarder, A and B produce and fetch content through it, as in
/// NDN-DPDK's benchmark. Goodput counts the content of each Data once. Without --headless, prints the address of a page
/// on this host, with a token in its fragment; benchmarks and their figures stay in the history.
///
///   namewire bench page
///   namewire bench page --headless --trials 5 --json
///   namewire bench page --headless --transport udp --delay-ms 5 --loss 0.001 --congestion delay
///   namewire bench page --headless --transport tcp --peers all --export report.html
///   namewire bench page --headless --transport udp --producer files --payload 1200 --verify --peers transfer
///   namewire bench page --headless --producer files --file-count 16 --consumer get --workers 2 --flows 2
///   namewire bench page --headless --transport udp --forwarder udp://router:6363 --api https://router:6380 --token-file token
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(super) struct Options {
    /// Run one benchmark with the inputs below, without a page
    #[arg(long)]
    headless: bool,
    /// Address of the page, on loopback; port 0 takes a free one
    #[arg(
        long,
        value_name = "IP:PORT",
        default_value = "127.0.0.1:6381",
        conflicts_with = "headless"
    )]
    listen: SocketAddr,
    /// File of the history, in SQLite [default: namewire/bench.sqlite in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Measure this Namewire forwarder on another host as F: udp://host:port or tcp://host:port; its setting
    /// management.localhop_rib must admit the producer
    #[arg(long, value_name = "URI", requires = "api")]
    forwarder: Option<String>,
    /// Address of the HTTP API of that forwarder, such as https://host:6380
    #[arg(long, value_name = "URL", requires_all = ["forwarder", "token_file"])]
    api: Option<String>,
    /// File with a token of role operate for that API
    #[arg(long, value_name = "FILE", requires = "api")]
    token_file: Option<PathBuf>,
    /// Run node A as tasks of the Namewire forwarder with this HTTP API, which has this version; they reach F by --forwarder
    #[arg(long, value_name = "URL", requires_all = ["forwarder", "token_file_a"])]
    node_a: Option<String>,
    /// File with a token of role operate for the API of node A
    #[arg(long, value_name = "FILE", requires = "node_a")]
    token_file_a: Option<PathBuf>,
    /// Run node B as tasks of the Namewire forwarder with this HTTP API, as node A
    #[arg(long, value_name = "URL", requires_all = ["forwarder", "token_file_b"])]
    node_b: Option<String>,
    /// File with a token of role operate for the API of node B
    #[arg(long, value_name = "FILE", requires = "node_b")]
    token_file_b: Option<PathBuf>,
    #[command(flatten)]
    inputs: Inputs,
    /// Print JSON: with --headless the benchmark, otherwise the address of the page
    #[arg(long)]
    json: bool,
    /// With --headless, print progress and live figures as lines of JSON on standard error
    #[arg(long, requires = "headless")]
    progress: bool,
    /// With --headless, also write the benchmark to this file: its ending csv, json, svg or html selects the form; may be repeated
    #[arg(long, value_name = "FILE", requires = "headless")]
    export: Vec<PathBuf>,
}

/// The inputs of a benchmark without a page.
#[derive(Args, Debug)]
#[command(next_help_heading = "Inputs, with --headless")]
struct Inputs {
    /// Workers of F
    #[arg(long, default_value_t = Plan::default().workers, value_name = "NUMBER", requires = "headless")]
    workers: u32,
    /// Transport of the faces: unix, udp, tcp, memif, or veth (UDP between network namespaces; takes root)
    #[arg(long, default_value = "unix", value_parser = named::<PageTransport>, value_name = "TRANSPORT", requires = "headless")]
    transport: PageTransport,
    /// Direction of the content: a-to-b, b-to-a or both
    #[arg(long, default_value = "a-to-b", value_parser = named::<Traffic>, value_name = "DIRECTION", requires = "headless")]
    traffic: Traffic,
    /// Fetches at a time in each direction; their names are divided between the workers
    #[arg(long, default_value_t = Plan::default().flows, value_name = "NUMBER", requires = "headless")]
    flows: u32,
    /// Components of the names of Interests, the segment included
    #[arg(long, default_value_t = Plan::default().components, value_name = "NUMBER", requires = "headless")]
    components: u32,
    /// Content bytes of a Data
    #[arg(long, default_value_t = Plan::default().payload, value_name = "BYTES", requires = "headless")]
    payload: u32,
    /// Send Interests with CanBePrefix, which Data with one component more answer (generator only)
    #[arg(long, requires = "headless")]
    prefix_match: bool,
    /// Segments that fetches ask for: distinct, or repeated (every second fetch asks for what the one before it has received)
    #[arg(long, default_value = "distinct", value_parser = named::<InterestPattern>, value_name = "PATTERN", requires = "headless")]
    interests: InterestPattern,
    /// Verify the digest of each Data
    #[arg(long, requires = "headless")]
    verify: bool,
    /// Congestion control: cubic, delay or fixed
    #[arg(long, default_value = "cubic", value_parser = named::<CongestionKind>, value_name = "ALGORITHM", requires = "headless")]
    congestion: CongestionKind,
    /// Window of each fetch with --congestion fixed, in Interests
    #[arg(long, default_value_t = Plan::default().window, value_name = "NUMBER", requires = "headless")]
    window: u32,
    /// Producer: generator, or files (a file server)
    #[arg(long, default_value = "generator", value_parser = named::<ProducerKind>, value_name = "KIND", requires = "headless")]
    producer: ProducerKind,
    /// Length of each file of a file server, in MiB
    #[arg(long, default_value_t = Plan::default().file_mib, value_name = "NUMBER", requires = "headless")]
    file_mib: u32,
    /// Files of each fetch from a file server, fetched in turn, again and again
    #[arg(long, default_value_t = Plan::default().file_count, value_name = "NUMBER", requires = "headless")]
    file_count: u32,
    /// Consumer: fetcher (the state machine of `get`, over the sockets of `traffic`), get (`namewire get` into the null
    /// device; with --producer files), or get-file (the same into files in memory)
    #[arg(long, default_value = "fetcher", value_parser = named::<ConsumerKind>, value_name = "KIND", requires = "headless")]
    consumer: ConsumerKind,
    /// Delay of a link between F and B in each direction, in milliseconds (udp only)
    #[arg(long, default_value_t = Plan::default().delay_ms, value_name = "NUMBER", requires = "headless")]
    delay_ms: f64,
    /// Rate of that link, in Mbit/s; 0: not limited
    #[arg(long, default_value_t = Plan::default().rate_mbit, value_name = "NUMBER", requires = "headless")]
    rate_mbit: u32,
    /// Share of datagrams that this link loses
    #[arg(long, default_value_t = Plan::default().loss, value_name = "SHARE", requires = "headless")]
    loss: f64,
    /// Measured in turn with it: nfd, ndnd or all (programs on PATH in the place of F), or transfer (whole fetches of the
    /// file through the same nodes, as `bench transfer` measures them; with --producer files)
    #[arg(long, default_value = "none", value_parser = named::<Peers>, value_name = "PROGRAMS", requires = "headless")]
    peers: Peers,
    /// Measured time of each trial, in seconds
    #[arg(long, default_value_t = Plan::default().duration_s, value_name = "SECONDS", requires = "headless")]
    duration: u32,
    /// Number of trials
    #[arg(long, default_value_t = Plan::default().trials, value_name = "NUMBER", requires = "headless")]
    trials: u32,
}

/// Parses a value by its name in JSON, with hyphens.
fn named<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let name = serde_json::Value::String(text.replace('-', "_"));
    serde_json::from_value(name).map_err(|error| error.to_string().replace('_', "-"))
}

impl Inputs {
    fn plan(&self) -> Plan {
        let Self { workers, transport, traffic, flows, components, payload, prefix_match, .. } =
            *self;
        let Self { interests, verify, congestion, window, producer, file_mib, .. } = *self;
        let Self { file_count, consumer, .. } = *self;
        let Self { delay_ms, rate_mbit, loss, peers, duration: duration_s, trials, .. } = *self;
        Plan {
            workers,
            transport,
            traffic,
            flows,
            components,
            payload,
            prefix_match,
            interests,
            verify,
            congestion,
            window,
            producer,
            file_mib,
            file_count,
            consumer,
            delay_ms,
            rate_mbit,
            loss,
            peers,
            duration_s,
            trials,
        }
    }
}

impl Options {
    /// The nodes on other hosts.
    fn elsewhere(&self) -> Outcome<Elsewhere> {
        let api = api_of(self.api.as_ref(), self.token_file.as_deref())?;
        let forwarder = self.forwarder.clone().zip(api);
        let forwarder = forwarder.map(|(transport, api)| RemoteOptions { transport, api });
        let a = api_of(self.node_a.as_ref(), self.token_file_a.as_deref())?;
        let b = api_of(self.node_b.as_ref(), self.token_file_b.as_deref())?;
        Ok(Elsewhere { forwarder, a, b })
    }
}

/// An API with the token in a file.
fn api_of(url: Option<&String>, file: Option<&Path>) -> Outcome<Option<ApiOptions>> {
    let Some((url, file)) = url.zip(file) else { return Ok(None) };
    let token =
        std::fs::read_to_string(file).map_err(|error| Failure::input(file.display(), error))?;
    Ok(Some(ApiOptions { url: url.clone(), token: token.trim().to_owned() }))
}

/// A part of the history, as JSON.
#[derive(Args, Debug)]
pub(super) struct HistoryOptions {
    /// File of the history [default: as of `bench page`]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// List the latest 50 benchmarks before this number
    #[arg(long, value_name = "NUMBER")]
    before: Option<i64>,
    /// Compare the second with this benchmark
    #[arg(long, value_name = "NUMBER", requires = "second", conflicts_with = "before")]
    first: Option<i64>,
    /// Compare this benchmark with the first
    #[arg(long, value_name = "NUMBER", requires = "first")]
    second: Option<i64>,
}

/// Prints the benchmarks of the history, or two of them compared.
pub(super) fn run_history(options: &HistoryOptions) -> Outcome {
    let history = open(options.history.clone())?;
    let Some((first, second)) = options.first.zip(options.second) else {
        let before = options.before.unwrap_or(i64::MAX);
        let runs = page::listed(&history.list(before, page::LIST_LEN).map_err(failed)?);
        return print_json(&serde_json::json!({ "runs": runs, "defaults": Plan::default() }));
    };
    let find = |id| {
        let found = history.find(id).map_err(failed)?;
        found.ok_or_else(|| Failure::Failed(format!("there is no benchmark {id}")))
    };
    let compared = page::compared(&find(first)?, &find(second)?);
    print_json(&compared.ok_or_else(|| Failure::Failed("a benchmark has no trials".to_owned()))?)
}

/// The history in this file, by default in the usual one.
fn open(file: Option<PathBuf>) -> Outcome<History> {
    let file = file.or_else(page::default_file).ok_or_else(|| {
        Failure::Usage("there is no home directory: give --history FILE".to_owned())
    })?;
    History::open(&file).map_err(failed)
}

#[expect(clippy::needless_pass_by_value, reason = "the argument of map_err")]
fn failed(error: anyhow::Error) -> Failure {
    Failure::Failed(format!("{error:#}"))
}

pub(super) fn run(options: &Options) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    let (interrupt, interrupted) = std::sync::mpsc::channel();
    let stopped = Arc::clone(&stop);
    on_interrupt(move || {
        stopped.store(true, Ordering::Relaxed);
        // A headless run does not wait for it.
        let _ = interrupt.send(());
    })?;
    let history = open(options.history.clone())?;
    if options.headless {
        return run_headless(options, &history, &stop);
    }
    history.end_abandoned().map_err(failed)?;
    let made = Token::new(FIRST_NAME, Role::Admin, None);
    let token = made.map_err(|error| Failure::Failed(format!("a token: {error}")))?.secret;
    let site = Arc::new(BenchSite::new(history, options.elsewhere()?, token.clone()));
    let server = SiteServer::start(options.listen, site)
        .map_err(|error| Failure::Failed(error.to_string()))?;
    let url = format!("http://{}/#token={token}", server.address());
    match options.json {
        true => output::print_json(&serde_json::json!({ "url": url }))?,
        false => output::print_line(&format!("benchmark page: {url}"))?,
    }
    // An error means that no interrupt can arrive any more.
    let _ = interrupted.recv();
    // Ends a benchmark that runs.
    drop(server);
    Ok(())
}

fn run_headless(options: &Options, history: &History, stop: &AtomicBool) -> Outcome {
    let plan = options.inputs.plan();
    plan.check().map_err(Failure::Usage)?;
    let elsewhere = options.elsewhere()?;
    elsewhere.check(&plan).map_err(Failure::Usage)?;
    for file in &options.export {
        form_of(file)?;
    }
    let unix_ms = page::unix_ms();
    let mut record = Record::new(plan, &elsewhere, unix_ms);
    history.add(&mut record).map_err(failed)?;
    let mut stored = Ok(());
    let ended = run_trials(&plan, &elsewhere, stop, &mut |progress| {
        if record.note(&progress) {
            stored = history.update(&record);
        }
        if options.progress {
            output::note(&record.message(&progress));
        } else if !options.json {
            note(&plan, &progress);
        }
    });
    record.state = match &ended {
        Ok(_) => State::Done,
        Err(_) if stop.load(Ordering::Relaxed) => State::Stopped,
        Err(_) => State::Failed,
    };
    if record.state == State::Failed {
        record.reason = ended.as_ref().err().map(|error| format!("{error:#}"));
    }
    stored.and_then(|()| history.update(&record)).map_err(failed)?;
    for file in &options.export {
        let text = form_of(file)?(&record);
        std::fs::write(file, text)
            .map_err(|error| Failure::Failed(format!("{}: {error}", file.display())))?;
    }
    match (record.state, ended) {
        (State::Stopped, _) => return Err(Failure::Interrupted),
        (_, Err(error)) => return Err(failed(error)),
        (_, Ok(_)) => {}
    }
    if options.json { print_json(&record.to_json()) } else { print(&record) }
}

/// Reports the end of a trial.
fn note(plan: &Plan, progress: &Progress) {
    match progress {
        Progress::Trial { .. } | Progress::Live { .. } => {}
        Progress::Ended { trial, program, figures } => output::note(&format!(
            "{program}, trial {trial} of {}: {:.0} Data/s, {:.1} Mbit/s",
            plan.trials,
            figures.data_per_s,
            figures.goodput_bit_per_s / 1e6
        )),
        Progress::Missing { program, reason } => output::note(&format!("{program}: {reason}")),
    }
}

type Form = fn(&Record) -> String;

/// The form of a file, by its ending.
fn form_of(file: &Path) -> Outcome<Form> {
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => Ok(page::csv),
        Some("svg") => Ok(page::svg),
        Some("html") => Ok(page::html),
        Some("json") => Ok(|record| format!("{:#}\n", record.to_json())),
        Some(_) | None => Err(Failure::Usage(format!(
            "{}: the name of an export ends with .csv, .json, .svg or .html",
            file.display()
        ))),
    }
}

fn print(record: &Record) -> Outcome {
    let mut table = Table::new(&[
        "PROGRAM", ">TRIAL", "WAY", ">DATA/S", ">MBIT/S", ">LOSS %", ">p50 µs", ">p99 µs", ">A µs",
        ">F µs", ">B µs",
    ]);
    for (program, number, trial) in record.all_trials() {
        for one in &trial.directions {
            let cpu = trial.cpu_per_data;
            table.row(vec![
                program.to_owned(),
                format!("{number}"),
                format!("{} to {}", one.producer, one.consumer),
                format!("{:.0}", one.data_per_s),
                format!("{:.1}", one.goodput_bit_per_s / 1e6),
                format!("{:.3}", one.loss * 100.0),
                microseconds(one.latency, |latency| latency.p50_us),
                microseconds(one.latency, |latency| latency.p99_us),
                format!("{:.2}", cpu.a_us),
                format!("{:.2}", cpu.f_us),
                format!("{:.2}", cpu.b_us),
            ]);
        }
    }
    table.print("no trials")?;
    for (program, summary) in record.all_summaries() {
        print_summary(program, summary)?;
    }
    for (over, Statistic { mean, interval, .. }) in record.ratios_to_transfers() {
        let pairs = record.trials.len();
        let half = interval
            .map(|half| format!(" ± {half:.3} (95 % confidence interval of {pairs} pairs)"))
            .unwrap_or_default();
        output::print_line(&format!("goodput over that of {over}: {mean:.3}{half}"))?;
    }
    for peer in &record.peers {
        if let Some(reason) = &peer.reason {
            output::note(&format!("{}: {reason}", peer.program));
        }
    }
    Ok(())
}

fn print_summary(program: &str, summary: Summary) -> Outcome {
    for (name, one, unit) in
        [("Data", summary.data_per_s, 1.0), ("Mbit", summary.goodput_bit_per_s, 1e6)]
    {
        let Statistic { mean, standard_deviation, interval } = one;
        let spread = match (standard_deviation, interval) {
            (Some(deviation), Some(interval)) => format!(
                ", standard deviation {:.1}, 95 % confidence interval ± {:.1}",
                deviation / unit,
                interval / unit
            ),
            (_, _) => String::new(),
        };
        output::print_line(&format!("{program}: mean {:.1} {name}/s{spread}", mean / unit))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_command_line_are_those_of_the_page() {
        assert_eq!(named::<Traffic>("a-to-b"), Ok(Traffic::AToB));
        assert_eq!(named::<ProducerKind>("files"), Ok(ProducerKind::Files));
        let reason = named::<Traffic>("up").unwrap_err();
        assert!(reason.contains("a-to-b") && reason.contains("both"), "{reason}");
    }

    #[test]
    fn form_of_an_export_follows_from_its_name() {
        let record = Record::new(Plan::default(), &Elsewhere::default(), 0);
        assert!(form_of("a/b.csv".as_ref()).unwrap()(&record).starts_with("run,trial"));
        assert!(form_of("b.txt".as_ref()).is_err() && form_of("csv".as_ref()).is_err());
    }
}
