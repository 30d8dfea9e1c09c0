//! The consumer of a node with `namewire get`: a process that runs it for one file after the other, as many at a time as
//! there are fetches, and prints the figures of all as lines of JSON, as the other consumer does.
//!
//! Figures of a running `get` are those that it serves as metrics; those of one that has ended are its results.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ndn_sys::cpu::{CpuTimes, process_time};
use serde::Deserialize;

use super::fetch_node::{Figures, GetOutput, INTERVAL, Order, wait_to_begin};
use crate::relay::clock;
use crate::started::Process;

/// Maximum time to read the metrics of a `get`.
const SCRAPE_TIME: Duration = Duration::from_millis(200);
/// Time between two checks whether a process has ended whose output has.
const END_INTERVAL: Duration = Duration::from_millis(1);
/// Part of a line that `get` prints when it serves its metrics.
const METRICS: &str = "metrics at http://";

/// The results that `get` prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(super) struct GetResults {
    /// Content, each byte once.
    pub(super) bytes: u64,
    pub(super) segments: u64,
    pub(super) interests: u64,
    pub(super) retransmissions: u64,
    pub(super) nacks: u64,
    congestion_marks: u64,
    window: u64,
}

impl GetResults {
    /// Those so far, from the metrics of a `get` that runs.
    fn of_metrics(text: &str) -> Self {
        let mut results = Self::default();
        for line in text.lines() {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let name = series.split('{').next().unwrap_or_default();
            let place = match name {
                "namewire_get_content_bytes_total" => &mut results.bytes,
                "namewire_get_segments_total" => &mut results.segments,
                "namewire_get_interests_total" => &mut results.interests,
                "namewire_get_retransmissions_total" => &mut results.retransmissions,
                "namewire_get_nacks_total" => &mut results.nacks,
                "namewire_get_congestion_marks_total" => &mut results.congestion_marks,
                "namewire_get_window" => &mut results.window,
                _ => continue,
            };
            *place = value.parse().map_or(0, whole);
        }
        results
    }

    /// Adds them to figures.
    fn add_to(&self, figures: &mut Figures) {
        figures.bytes += self.bytes;
        figures.data += self.segments;
        figures.interests += self.interests;
        figures.retransmissions += self.retransmissions;
        figures.nacks += self.nacks;
        figures.marks += self.congestion_marks;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "such a conversion saturates, and counters are not negative"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

/// Adds the arguments of a `get` of a file to a command of the program.
pub(super) fn add_get_arguments(command: &mut Command, order: &Order, name: &str, output: &Path) {
    let verify = if order.verify { "digest" } else { "none" };
    command.args(["get", name, "--quiet", "--json", "--verify", verify]);
    match order.window.as_str() {
        algorithm @ ("cubic" | "delay") => command.args(["--congestion", algorithm]),
        window => command.args(["--window", window]),
    };
    command.arg("--output").arg(output).stdin(Stdio::null());
    command.env("NDN_CLIENT_TRANSPORT", &order.transport);
}

/// Runs the process. It `waits` for a line on standard input when it is ready to begin.
///
/// # Errors
/// The order cannot be used, or a `get` fails.
pub(crate) fn run_get_node(order: &Order, waits: bool) -> anyhow::Result<()> {
    let (Some(output), Some(folder)) = (order.get, &order.folder) else {
        bail!("--get and --folder are needed");
    };
    let files = usize::try_from(order.files.unwrap_or(1))?;
    let program = crate::program::namewire()?;
    let sets = order.names.chunks(files.max(1)).enumerate();
    let fetches: Vec<_> = sets
        .map(|(number, names)| Fetch {
            program: &program,
            order,
            names,
            output: match output {
                GetOutput::Null => "/dev/null".into(),
                GetOutput::File => folder.join(format!("{number}")),
            },
            log: folder.join(format!("{number}.log")),
            state: Mutex::default(),
        })
        .collect();
    let mut out = io::stdout().lock();
    if waits {
        wait_to_begin(&mut out)?;
    }
    let mut report = |figures: &Figures| -> anyhow::Result<()> {
        serde_json::to_writer(&mut out, figures)?;
        writeln!(out)?;
        Ok(out.flush()?)
    };
    let (start, stop) = (clock::monotonic_ns(), &AtomicBool::new(false));
    let elapsed = || Duration::from_nanos(clock::monotonic_ns() - start);
    let mut last = std::thread::scope(|scope| {
        let threads: Vec<_> =
            fetches.iter().map(|fetch| scope.spawn(move || fetch.run(stop))).collect();
        let mut cpu_us: f64 = 0.0;
        let followed = loop {
            let next = (elapsed() + INTERVAL).min(order.duration);
            while elapsed() < next && !threads.iter().any(|thread| thread.is_finished()) {
                clock::pause((next - elapsed().min(next)).min(INTERVAL / 10));
            }
            let figures = figures_of(&fetches, &elapsed).map(|figures| {
                // A `get` that ends while it is read is missing in its CPU time, which does not fall.
                cpu_us = cpu_us.max(figures.cpu_us);
                Figures { cpu_us, ..figures }
            });
            let is_over =
                elapsed() >= order.duration || threads.iter().any(|thread| thread.is_finished());
            match figures.and_then(|figures| match is_over {
                true => Ok(Some(figures)),
                false => report(&figures).map(|()| None),
            }) {
                Ok(None) => {}
                Ok(Some(figures)) => break Ok(figures),
                Err(error) => break Err(error),
            }
        };
        stop.store(true, Ordering::Relaxed);
        fetches.iter().for_each(Fetch::end);
        for thread in threads {
            // The reason of a fetch that has failed comes first.
            thread.join().map_err(|_| anyhow::anyhow!("a fetch has panicked"))??;
        }
        followed
    })?;
    last.cpu_us = microseconds(own_cpu()?);
    last.is_end = true;
    report(&last)
}

/// Figures of all fetches.
fn figures_of(fetches: &[Fetch<'_>], elapsed: &impl Fn() -> Duration) -> anyhow::Result<Figures> {
    // One that ends meanwhile is counted in the next line, and not twice.
    let mut cpu = own_cpu()?;
    let mut figures = Figures::default();
    for fetch in fetches {
        fetch.scrape();
        let state = fetch.lock();
        state.before.add_to(&mut figures);
        if let Some(running) = &state.running {
            running.latest.add_to(&mut figures);
            figures.window += running.latest.window;
            // It may have ended.
            cpu += process_time(running.process.id()).unwrap_or_default();
        }
    }
    figures.elapsed_ms = elapsed().as_secs_f64() * 1e3;
    figures.cpu_us = microseconds(cpu);
    Ok(figures)
}

/// CPU time of this process and of those that it has waited for.
fn own_cpu() -> io::Result<Duration> {
    Ok(process_time(std::process::id())? + CpuTimes::of_children()?.total())
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A fetch: one `get` after the other.
struct Fetch<'a> {
    program: &'a Path,
    order: &'a Order,
    /// The files, which it fetches in turn.
    names: &'a [String],
    output: PathBuf,
    /// Standard error of the `get` that runs.
    log: PathBuf,
    state: Mutex<FetchState>,
}

#[derive(Default)]
struct FetchState {
    /// Of those that have ended.
    before: GetResults,
    running: Option<Running>,
}

/// A `get` that runs.
struct Running {
    process: Process,
    /// Address of its metrics, once it is known.
    metrics: Option<SocketAddr>,
    latest: GetResults,
}

impl Fetch<'_> {
    fn lock(&self) -> MutexGuard<'_, FetchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches until `stop` is set.
    fn run(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        for name in self.names.iter().cycle() {
            let output = {
                let mut state = self.lock();
                // Running processes are ended after it is set.
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let mut process = self.start(name)?;
                let (_, output) = process.pipes();
                state.running =
                    Some(Running { process, metrics: None, latest: GetResults::default() });
                output.context("a pipe")?
            };
            let printed = io::read_to_string(output)?;
            let mut state = self.lock();
            let mut running = state.running.take().context("a process")?;
            // Its output ends with it.
            let status = loop {
                match running.process.try_wait()? {
                    Some(status) => break status,
                    None => clock::pause(END_INTERVAL),
                }
            };
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let errors = || fs::read_to_string(&self.log).unwrap_or_default();
            ensure!(status.success(), "get {name} failed ({status}): {}", errors().trim());
            let results: GetResults =
                serde_json::from_str(&printed).context("the results of get")?;
            let before = &mut state.before;
            before.bytes += results.bytes;
            before.segments += results.segments;
            before.interests += results.interests;
            before.retransmissions += results.retransmissions;
            before.nacks += results.nacks;
            before.congestion_marks += results.congestion_marks;
        }
        bail!("there are no files");
    }

    fn start(&self, name: &str) -> anyhow::Result<Process> {
        if self.output.is_file() {
            fs::remove_file(&self.output)?;
        }
        let mut command = ending_with_thread(self.program);
        add_get_arguments(&mut command, self.order, name, &self.output);
        // Versions that it remembers are of this consumer only.
        if let Some(folder) = self.log.parent() {
            command.env("HOME", folder);
        }
        command.args(["--no-sync", "--metrics", "127.0.0.1:0"]);
        command.stdout(Stdio::piped()).stderr(fs::File::create(&self.log)?);
        Process::spawn(&mut command).context("get")
    }

    /// Ends the `get` that runs.
    fn end(&self) {
        if let Some(running) = &mut self.lock().running {
            running.process.kill();
        }
    }

    /// Reads the metrics of the `get` that runs; the latest ones stay if it does not answer.
    fn scrape(&self) {
        let (id, metrics) = match &mut self.lock().running {
            Some(running) => {
                running.metrics = running.metrics.or_else(|| metrics_address(&self.log));
                (running.process.id(), running.metrics)
            }
            None => return,
        };
        let Some(results) = metrics.and_then(|address| scrape(address).ok()) else { return };
        if let Some(running) = &mut self.lock().running
            && running.process.id() == id
        {
            running.latest = results;
        }
    }
}

/// A command of a program that ends with the thread that starts it, where there is `setpriv`.
fn ending_with_thread(program: &Path) -> Command {
    let Some(setpriv) = crate::program::on_path("setpriv") else { return Command::new(program) };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// The address of metrics that a program has printed to a file.
fn metrics_address(log: &Path) -> Option<SocketAddr> {
    let printed = fs::read_to_string(log).ok()?;
    let (_, rest) = printed.split_once(METRICS)?;
    rest.split_once('/')?.0.parse().ok()
}

fn scrape(address: SocketAddr) -> io::Result<GetResults> {
    let mut stream = TcpStream::connect_timeout(&address, SCRAPE_TIME)?;
    stream.set_read_timeout(Some(SCRAPE_TIME))?;
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    match response.contains(" 200 ") {
        true => Ok(GetResults::of_metrics(&response)),
        false => Err(io::Error::other("no metrics")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_so_far_are_read_from_metrics() {
        let text = "HTTP/1.0 200 OK\r\n\r\n# TYPE namewire_get_segments_total counter\n\
                    namewire_get_segments_total{host=\"a b\"} 12\nnamewire_get_content_bytes_total{host=\"a b\"} 4.8e4\n\
                    namewire_get_window{host=\"a b\"} 64\nnamewire_get_lost_interests_total{host=\"x\",reason=\"y\"} 3\n";
        let results = GetResults::of_metrics(text);
        let expected =
            GetResults { bytes: 48_000, segments: 12, window: 64, ..GetResults::default() };
        assert_eq!(results, expected);
        let mut figures = Figures { data: 1, ..Figures::default() };
        results.add_to(&mut figures);
        assert_eq!((figures.data, figures.bytes), (13, 48_000));
    }

    #[test]
    fn process_ends_with_the_thread_that_started_it() {
        let start = || {
            let mut command = ending_with_thread(Path::new("/bin/cat"));
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut process = Process::spawn(&mut command).unwrap();
            let (input, output) = process.pipes();
            let (mut input, mut output) = (input.unwrap(), output.unwrap());
            // It runs, and has its death signal.
            input.write_all(b"x").unwrap();
            output.read_exact(&mut [0]).unwrap();
            (process, input, output)
        };
        let (mut process, _input, _output) = std::thread::spawn(start).join().unwrap();
        let start = clock::monotonic_ns();
        while process.try_wait().unwrap().is_none() {
            assert!(clock::monotonic_ns() - start < 30_000_000_000, "it still runs");
            clock::pause(END_INTERVAL);
        }
    }

    #[test]
    fn address_of_metrics_is_in_the_messages() {
        let name = format!("get-node-{}", std::process::id());
        let folder = crate::started::Folder::new(&name).unwrap();
        let log = folder.path().join("log");
        assert_eq!(metrics_address(&log), None);
        for (text, expected) in [
            ("", None),
            ("namewire: metrics at http://127.0.0.1:9", None),
            ("namewire: metrics at http://127.0.0.1:99/metrics\n", Some(99)),
        ] {
            fs::write(&log, text).unwrap();
            assert_eq!(metrics_address(&log).map(|address| address.port()), expected, "{text}");
        }
    }
}
