//! Trials: all nodes are started, traffic runs for the given time, and figures are taken.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Serialize;

use super::fetch_node::Figures;
use super::figures::{
    CpuPerData, LinkLosses, LiveDirection, STOPPED, Trial, direction_figures, live_direction,
    per_data,
};
use super::nodes::{FILE, Fetcher, Forwarder, Producer};
use super::plan::{Node, Peers, Plan, ProducerKind};
use super::remote::Elsewhere;
use super::transfer::{Client, Line};
use crate::relay::clock;
use crate::relay::program::Program;
use crate::started::Folder;
use crate::transfer::MemoryFolder;

/// Poll interval for the stop flag.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
/// Time after the end of a trial in which consumers must report.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Progress of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Progress {
    /// A trial has begun.
    Trial {
        /// Its number, from 1.
        trial: u32,
        /// The program that is F.
        program: &'static str,
    },
    /// A trial runs.
    Live {
        /// Its number, from 1.
        trial: u32,
        /// The program that is F.
        program: &'static str,
        /// Time since its start.
        elapsed_s: f64,
        /// Each direction.
        directions: Vec<LiveDirection>,
        /// CPU time for a Data, since the start of the trial.
        cpu_per_data: CpuPerData,
    },
    /// A trial has ended.
    Ended {
        /// Its number, from 1.
        trial: u32,
        /// The program that was F.
        program: &'static str,
        /// Its figures.
        figures: Trial,
    },
    /// Another program does not take part any more.
    Missing {
        /// The program.
        program: &'static str,
        /// Why.
        reason: String,
    },
}

/// Runs all trials of a plan. `stop` ends them; the trials before are returned by `observe`.
///
/// # Errors
/// The plan cannot be used, a program does not start or fails, or `stop` was set.
pub(crate) fn run_trials(
    plan: &Plan,
    elsewhere: &Elsewhere,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Progress),
) -> anyhow::Result<Vec<Trial>> {
    plan.check().map_err(anyhow::Error::msg)?;
    elsewhere.check(plan).map_err(anyhow::Error::msg)?;
    let executable = crate::program::namewire()?;
    let folder = Folder::new(&format!("namewire-bench-page-{}", std::process::id()))?;
    let served = folder.path().join("served");
    std::fs::create_dir_all(&served)?;
    if plan.producer == ProducerKind::Files {
        let length = u64::from(plan.file_mib) << 20;
        crate::transfer::write_noise(&served.join(FILE), length, 0)?;
    }
    let (executable, folder) = (executable.as_path(), folder.path());
    let places = Places { executable, folder, served: &served, elsewhere };
    let mut trials = Vec::new();
    let mut peers = plan.peers.programs().to_vec();
    for trial in 1..=plan.trials {
        ensure!(!stop.load(Ordering::Relaxed), STOPPED);
        let of = |program: Program| (program, program.name());
        let (program, name) = of(Program::Namewire);
        let transfers: &[Client] = if plan.peers == Peers::Transfer { &Client::ALL } else { &[] };
        // The order alternates, so that nothing always follows the same.
        let (before, after) =
            if trial % 2 == 0 { (transfers, &[][..]) } else { (&[][..], transfers) };
        for client in before {
            transfer(plan, (trial, *client), &places, stop, observe)?;
        }
        observe(Progress::Trial { trial, program: name });
        let figures = run_trial(plan, (trial, program), &places, stop, observe)?;
        observe(Progress::Ended { trial, program: name, figures: figures.clone() });
        trials.push(figures);
        for client in after {
            transfer(plan, (trial, *client), &places, stop, observe)?;
        }
        // In turn with the others, so that what slows the machine down meets all of them.
        peers.retain(|&peer| {
            let (program, name) = of(peer);
            observe(Progress::Trial { trial, program: name });
            match run_trial(plan, (trial, program), &places, stop, observe) {
                Ok(figures) => observe(Progress::Ended { trial, program: name, figures }),
                Err(_) if stop.load(Ordering::Relaxed) => {}
                Err(error) => {
                    let reason = format!("{error:#}");
                    observe(Progress::Missing { program: name, reason });
                    return false;
                }
            }
            true
        });
    }
    ensure!(!stop.load(Ordering::Relaxed), STOPPED);
    Ok(trials)
}

/// Program and folders of a benchmark.
struct Places<'a> {
    executable: &'a Path,
    folder: &'a Path,
    served: &'a Path,
    elsewhere: &'a Elsewhere,
}

/// A trial of whole transfers.
fn transfer(
    plan: &Plan,
    (trial, client): (u32, Client),
    places: &Places<'_>,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Progress),
) -> anyhow::Result<()> {
    let program = client.name();
    observe(Progress::Trial { trial, program });
    let nodes = Nodes::start(plan, Program::Namewire, places)?;
    let (direction, producer) =
        plan.traffic.directions().first().zip(nodes.producers.first()).context("a direction")?;
    let line = Line { forwarder: &nodes.forwarder, producer: &producer.1, direction: *direction };
    let figures = line.run(plan, (client, places.executable), stop)?;
    observe(Progress::Ended { trial, program, figures });
    Ok(())
}

/// The running nodes of a trial.
struct Nodes {
    // Dropped before the forwarder.
    consumers: Vec<(Node, Fetcher)>,
    producers: Vec<(Node, Producer)>,
    forwarder: Forwarder,
}

impl Nodes {
    /// Starts F and the producers.
    fn start(plan: &Plan, program: Program, places: &Places<'_>) -> anyhow::Result<Self> {
        let Places { executable, folder, served, elsewhere } = places;
        let forwarder = match (&elsewhere.forwarder, program) {
            (Some(remote), _) => Forwarder::remote(remote, folder)?,
            (None, Program::Namewire) => Forwarder::start(plan, (program, executable), folder)?,
            (None, other) => {
                let found = other.locate();
                let found = found.with_context(|| format!("{} is not on PATH", other.name()))?;
                Forwarder::start(plan, (other, &found), folder)?
            }
        };
        let mut nodes = Self { consumers: Vec::new(), producers: Vec::new(), forwarder };
        for &(producer, _) in plan.traffic.directions() {
            let place = (producer, elsewhere.node(producer));
            let started = Producer::start(plan, place, &nodes.forwarder, executable, served)?;
            nodes.producers.push((producer, started));
        }
        Ok(nodes)
    }

    /// CPU time so far of A, F and B, if consumers have printed these figures last.
    fn cpu(&self, latest: &[Figures]) -> anyhow::Result<[Duration; 3]> {
        let mut times = [Duration::ZERO, self.forwarder.cpu()?, Duration::ZERO];
        let place = |node: &Node| if *node == Node::A { 0 } else { 2 };
        for (node, producer) in &self.producers {
            times[place(node)] += producer.cpu()?;
        }
        for ((node, _), figures) in self.consumers.iter().zip(latest) {
            times[place(node)] += Duration::from_secs_f64(figures.cpu_us / 1e6);
        }
        Ok(times)
    }
}

fn run_trial(
    plan: &Plan,
    (number, program): (u32, Program),
    places: &Places<'_>,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Progress),
) -> anyhow::Result<Trial> {
    let directions = plan.traffic.directions();
    // Dropped after the consumers that write to it.
    let memory = plan.consumer.output().map(|_| MemoryFolder::new()).transpose()?;
    let memory = memory.as_ref().map(MemoryFolder::path);
    let mut nodes = Nodes::start(plan, program, places)?;
    let (sender, reports) = channel();
    for (at, &direction) in directions.iter().enumerate() {
        let (forwarder, place) = (&nodes.forwarder, places.elsewhere.node(direction.1));
        let local = (forwarder, memory);
        let started = Fetcher::start(plan, (at, direction), place, local, sender.clone())?;
        nodes.consumers.push((direction.1, started));
    }
    drop(sender);
    let mut latest = vec![Figures::default(); directions.len()];
    let unix_ms = clock::wall_ns() / 1_000_000;
    let hits_before = nodes.forwarder.cache_hits(places.executable)?;
    let before = nodes.cpu(&latest)?;
    for (_, consumer) in &mut nodes.consumers {
        consumer.go()?;
    }
    let deadline = clock::monotonic_ns()
        + u64::from(plan.duration_s) * 1_000_000_000
        + u64::try_from(END_TIMEOUT.as_nanos()).unwrap_or(0);
    let mut live = vec![None; directions.len()];
    while !latest.iter().all(|figures| figures.is_end) {
        ensure!(!stop.load(Ordering::Relaxed), STOPPED);
        let (at, figures) = match reports.recv_timeout(STOP_INTERVAL) {
            Ok((at, Some(figures))) => (at, figures),
            Ok((at, None)) if latest[at].is_end => continue,
            Ok((at, None)) => {
                let (node, consumer) = &nodes.consumers[at];
                bail!("the consumer of {} has ended: {}", node.title(), consumer.reason());
            }
            Err(RecvTimeoutError::Timeout) => {
                ensure!(clock::monotonic_ns() < deadline, "a consumer does not report");
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => bail!("the consumers have ended"),
        };
        live[at] = Some(live_direction(directions[at].0, &latest[at], &figures));
        latest[at] = figures;
        // One report for all directions.
        let all: Option<Vec<LiveDirection>> = live.iter().copied().collect();
        if let Some(directions) = all
            && !figures.is_end
        {
            live.fill(None);
            let data = latest.iter().map(|one| one.data).sum();
            let cpu_per_data = per_data(before, nodes.cpu(&latest)?, data);
            let elapsed_s = figures.elapsed_ms / 1e3;
            let (trial, program) = (number, program.name());
            observe(Progress::Live { trial, program, elapsed_s, directions, cpu_per_data });
        }
    }
    let after = nodes.cpu(&latest)?;
    let cache_hits = nodes.forwarder.cache_hits(places.executable)?;
    let cache_hits = cache_hits.zip(hits_before).map(|(after, before)| after - before);
    let link = nodes.forwarder.end_link()?.map(|report| LinkLosses {
        lost: report.there.lost + report.back.lost,
        overflowed: report.there.overflowed + report.back.overflowed,
    });
    let of = |(&(producer, consumer), figures)| direction_figures(producer, consumer, figures);
    let all: Vec<_> = directions.iter().zip(&latest).map(of).collect();
    Ok(Trial {
        unix_ms,
        seconds: latest.iter().map(|one| one.elapsed_ms / 1e3).fold(0.0, f64::max),
        data_per_s: all.iter().map(|one| one.data_per_s).sum(),
        goodput_bit_per_s: all.iter().map(|one| one.goodput_bit_per_s).sum(),
        cpu_per_data: per_data(before, after, all.iter().map(|one| one.data).sum()),
        directions: all,
        link,
        cache_hits,
    })
}
