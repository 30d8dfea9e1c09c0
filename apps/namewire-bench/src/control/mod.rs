//! The cost of the HTTP API: exchanges per second of a forwarder without subscribers, with one page open, and with 100
//! subscribers and a scrape each second. The cases take turns while one consumer fetches without pause.

mod clients;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Serialize;

use self::clients::Clients;
use crate::Quartiles;
use crate::page::{Consumer, Figures, Order, Reported, start_until};
use crate::relay::clock;
use crate::started::{Folder, Process};

/// Time after a change that is not measured.
const SETTLE: Duration = Duration::from_millis(750);
/// Subscribers of the case with many.
const SUBSCRIBERS: usize = 100;
/// Exchanges in flight.
const WINDOW: u32 = 256;

/// Options of the bench.
#[derive(Debug, Clone)]
pub struct ControlCostOptions {
    /// Rounds; each measures every case.
    pub rounds: usize,
    /// Measured time of a case in a round.
    pub duration: Duration,
    /// Set to end the run.
    pub interrupted: std::sync::Arc<AtomicBool>,
}

/// A case with its rates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControlCostCase {
    /// `none`, `page` or `100 subscribers, scrape`.
    pub case: &'static str,
    /// Exchanges per second, over the rounds.
    pub exchanges_per_s: Quartiles,
    /// Rate relative to that without subscribers, before and after it in the same round.
    pub ratio: Option<Quartiles>,
    /// Bytes that the clients received.
    pub received_bytes: u64,
}

/// Report of the bench.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControlCostReport {
    /// `control`.
    pub bench: &'static str,
    /// The machine.
    pub machine: ndn_pipeline_bench::Machine,
    /// Measured time of a case in a round, in seconds.
    pub seconds: f64,
    /// The cases.
    pub cases: Vec<ControlCostCase>,
}

/// The order of a round: number of subscribers, and whether metrics are scraped.
const ROUND: [(usize, bool); 4] = [(0, false), (1, false), (SUBSCRIBERS, true), (0, false)];

/// Measures all cases.
///
/// # Errors
/// A program does not start or fails, or clients receive nothing.
pub fn run_control_cost(
    options: &ControlCostOptions,
    mut print: impl FnMut(&str),
) -> anyhow::Result<ControlCostReport> {
    ensure!(options.rounds > 0, "there are no rounds");
    let subject = Subject::start()?;
    let total = (SETTLE + options.duration)
        .saturating_mul(u32::try_from(options.rounds * ROUND.len() + 1).unwrap_or(u32::MAX));
    let mut traffic = Traffic::start(&subject, total.saturating_add(Duration::from_secs(60)))?;
    let mut rates: Vec<[f64; ROUND.len()]> = Vec::new();
    let mut received = [0; ROUND.len()];
    for round in 1..=options.rounds {
        let mut of_round = [0.0; ROUND.len()];
        for (at, (subscribers, scrapes)) in ROUND.into_iter().enumerate() {
            ensure!(!options.interrupted.load(Ordering::Relaxed), "interrupted");
            let clients = Clients::start(subject.port, &subject.token, subscribers, scrapes)?;
            traffic.follow(SETTLE)?;
            of_round[at] = traffic.rate(options.duration)?;
            let bytes = clients.end();
            ensure!(subscribers == 0 || bytes > 0, "{subscribers} subscribers received nothing");
            received[at] += bytes;
        }
        print(&format!("round {round}: {:.0} exchanges/s without subscribers", of_round[0]));
        rates.push(of_round);
    }
    let case = |name, at: usize| {
        let own: Vec<f64> = rates.iter().map(|round| round[at]).collect();
        // The base is measured before and after.
        let ratios = rates.iter().map(|round| round[at] / ((round[0] + round[3]) / 2.0));
        Some(ControlCostCase {
            case: name,
            exchanges_per_s: Quartiles::of(own)?,
            ratio: if at == 0 { None } else { Quartiles::of(ratios.collect()) },
            received_bytes: received[at],
        })
    };
    let cases = [case("none", 0), case("page", 1), case("100 subscribers, scrape", 2)];
    Ok(ControlCostReport {
        bench: "control",
        machine: ndn_pipeline_bench::Machine::read(),
        seconds: options.duration.as_secs_f64(),
        cases: cases.into_iter().flatten().collect(),
    })
}

/// A forwarder with the API.
struct Subject {
    _forwarder: Process,
    folder: Folder,
    executable: PathBuf,
    port: u16,
    token: String,
}

impl Subject {
    fn start() -> anyhow::Result<Self> {
        let executable = crate::program::namewire()?;
        let folder = Folder::new(&format!("namewire-bench-control-{}", std::process::id()))?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let (config, tokens) = (folder.path().join("namewire.toml"), folder.path().join("tokens"));
        let text = crate::config_text::namewire(&folder.path().join("f.sock"), &[], &[], 1024, 1);
        let http = format!(
            "[control.http]\nenabled = true\nlisten = [\"127.0.0.1:{port}\"]\ntokens = \"{}\"\n",
            tokens.display()
        );
        fs::write(&config, text + &http)?;
        let mut command = Command::new(&executable);
        command.arg("run").arg("--config").arg(&config);
        let forwarder = start_until(command, &folder.path().join("forwarder.log"), "HTTP API")?;
        let tokens = namewire_http::TokenFile::new(tokens).read()?;
        let token = tokens.into_iter().next().context("a token")?.secret;
        Ok(Self { _forwarder: forwarder, folder, executable, port, token })
    }

    fn transport(&self) -> String {
        format!("unix://{}", self.folder.path().join("f.sock").display())
    }
}

/// Exchanges without pause through the forwarder.
struct Traffic {
    // Dropped in this order.
    _consumer: Consumer,
    _producer: Process,
    reports: Receiver<Reported>,
}

impl Traffic {
    fn start(subject: &Subject, duration: Duration) -> anyhow::Result<Self> {
        let mut command = Command::new(&subject.executable);
        command.args(["traffic", "producer", "/B", "--payload", "1000B"]);
        command.args(["--transport", &subject.transport()]);
        let folder = subject.folder.path();
        let producer = start_until(command, &folder.join("producer.log"), "responding")?;
        let order = Order {
            transport: subject.transport(),
            names: vec!["/B/0".to_owned()],
            files: None,
            get: None,
            folder: None,
            can_be_prefix: false,
            is_repeated: false,
            verify: false,
            window: WINDOW.to_string(),
            duration,
        };
        let (sender, reports) = channel();
        let mut consumer = Consumer::spawn(
            Command::new(std::env::current_exe()?),
            &order,
            folder.join("consumer.log"),
            (0, sender),
        )?;
        consumer.go()?;
        Ok(Self { _consumer: consumer, _producer: producer, reports })
    }

    /// Waits; returns the first and the last figures of this time.
    fn follow(&mut self, duration: Duration) -> anyhow::Result<(Figures, Figures)> {
        let end = clock::monotonic_ns() + u64::try_from(duration.as_nanos())?;
        let mut seen: Option<(Figures, Figures)> = None;
        while let Some(left) = end.checked_sub(clock::monotonic_ns()).filter(|left| *left > 0) {
            match self.reports.recv_timeout(Duration::from_nanos(left)) {
                Ok((_, Some(figures))) => {
                    seen = Some((seen.map_or(figures, |(first, _)| first), figures));
                }
                Ok((_, None)) | Err(RecvTimeoutError::Disconnected) => bail!("the consumer ended"),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        seen.context("the consumer does not report")
    }

    /// Exchanges per second in this time.
    #[expect(clippy::cast_precision_loss, reason = "a number of packets, as a rate")]
    fn rate(&mut self, duration: Duration) -> anyhow::Result<f64> {
        let (first, last) = self.follow(duration)?;
        let seconds = (last.elapsed_ms - first.elapsed_ms) / 1e3;
        ensure!(seconds > 0.0, "a case takes a second at least");
        Ok((last.data - first.data) as f64 / seconds)
    }
}
