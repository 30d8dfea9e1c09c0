//! Runs random scenarios, shrinks those that fail, and replays single ones.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program reports on standard output")]
#![expect(clippy::disallowed_methods, reason = "a program measures its rate in real time")]

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Args, Parser, Subcommand};
use ndn_ring::POOLS_MAX;
use ndn_sim::{
    Attack, AttackFault, AttackOutcome, Element, Limits, PlantedFault, Scenario, ScenarioOutcome,
    Simulation, shrink, start_faulty_forwarder,
};

/// Simulate networks of Namewire forwarders on virtual time
#[derive(Parser)]
#[command(version)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one scenario for each seed; shrink and print the first that fails
    Run {
        /// First seed, to continue an interrupted run
        #[arg(long, visible_alias = "from", default_value_t = 0)]
        first: u64,
        /// Number of scenarios
        #[arg(long, default_value_t = 1000)]
        count: u64,
        /// Scenarios that run at the same time, at most as many as the packet pools of a process allow
        #[arg(long, default_value_t = 1)]
        jobs: usize,
        #[command(flatten)]
        size: Size,
    },
    /// Run the scenario of one seed twice and compare; print how it ends
    Replay {
        /// The seed
        seed: u64,
        /// Elements to keep, separated by commas, as printed by `run`; the others are left out
        #[arg(long, value_delimiter = ',')]
        only: Option<Vec<Element>>,
        #[command(flatten)]
        size: Size,
    },
    /// Run one attack for each seed: up to ten addresses, or users of the host, with many ports against one forwarder;
    /// shrink and print the first that fails
    Attack {
        /// First seed
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Number of attacks
        #[arg(long, default_value_t = 1000)]
        count: u64,
        /// Attacks that run at the same time
        #[arg(long, default_value_t = 1)]
        jobs: usize,
        /// Moves of the attacks to keep, separated by commas; the others are left out
        #[arg(long, value_delimiter = ',')]
        only: Option<Vec<usize>>,
        /// Fault to plant in the forwarder, to verify that it is found
        #[arg(long)]
        plant: Option<AttackFault>,
    },
}

/// Size of random scenarios; a seed stands for the same scenario only with the same size.
#[derive(Args)]
struct Size {
    /// Fewest forwarders
    #[arg(long, default_value_t = Limits::default().nodes_min)]
    nodes_min: usize,
    /// Most forwarders
    #[arg(long, default_value_t = Limits::default().nodes_max)]
    nodes_max: usize,
    /// Most forwarding workers of a forwarder
    #[arg(long, default_value_t = Limits::default().workers_max)]
    workers_max: usize,
    /// Interests of consumers
    #[arg(long, default_value_t = Limits::default().requests)]
    requests: usize,
    /// Fault to plant in the forwarders, to verify that it is found
    #[arg(long)]
    plant: Option<PlantedFault>,
}

impl Size {
    fn limits(&self) -> Result<Limits, String> {
        if self.nodes_min < 2 || self.nodes_min > self.nodes_max {
            return Err("--nodes-min is at least 2 and at most --nodes-max".to_owned());
        }
        if self.workers_max == 0 {
            return Err("--workers-max is at least 1".to_owned());
        }
        Ok(Limits {
            nodes_min: self.nodes_min,
            nodes_max: self.nodes_max,
            workers_max: self.workers_max,
            requests: self.requests,
            ..Limits::default()
        })
    }
}

/// Scenarios between two lines about the progress.
const PROGRESS_INTERVAL: u64 = 10_000;
/// Simulations that shrinking runs at most.
const SHRINK_RUNS_MAX: usize = 1000;

fn main() -> ExitCode {
    let result = match Program::parse().command {
        Command::Run { first, count, jobs, size } => {
            size.limits().and_then(|limits| run(first, count, jobs, &limits, &size))
        }
        Command::Replay { seed, only, size } => {
            size.limits().and_then(|limits| replay(seed, only.as_deref(), &limits, size.plant))
        }
        Command::Attack { first, count, jobs, only, plant } => {
            attack(first, count, jobs, only.as_deref(), plant)
        }
    };
    match result {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    first: u64,
    count: u64,
    jobs: usize,
    limits: &Limits,
    size: &Size,
) -> Result<String, String> {
    let workers_max = limits.nodes_max.saturating_mul(limits.workers_max);
    if workers_max > POOLS_MAX {
        return Err(format!("--nodes-max times --workers-max is at most {POOLS_MAX}"));
    }
    let jobs = jobs.clamp(1, POOLS_MAX / workers_max);
    let next = AtomicU64::new(first);
    let (total, progress) = (Mutex::new(ScenarioOutcome::default()), Progress::new(first, count));
    let failed = Mutex::new(None::<u64>);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let is_stopped = failed.lock().is_ok_and(|failed| failed.is_some());
                    if seed >= first.saturating_add(count) || is_stopped {
                        return;
                    }
                    progress.begin(seed);
                    let scenario = Scenario::random(seed, limits);
                    match Simulation::run(&scenario, &mut start_faulty_forwarder(size.plant)) {
                        Ok(outcome) => {
                            add(&total, &outcome);
                            progress.end(seed);
                        }
                        Err(_) => {
                            if let Ok(mut failed) = failed.lock() {
                                *failed = Some(failed.map_or(seed, |other| other.min(seed)));
                            }
                        }
                    }
                }
            });
        }
    });
    if let Some(seed) = failed.into_inner().unwrap_or_default() {
        return Err(describe_failure(seed, limits, size));
    }
    let ScenarioOutcome { frames, satisfied, unsatisfied, pressure, .. } =
        total.into_inner().unwrap_or_default();
    Ok(format!(
        "{count} scenarios passed: {frames} frames, {satisfied} Interests satisfied, {unsatisfied} not, \
         {} dropped by full PITs, at most {} in a ring",
        pressure.pit_full, pressure.ring_depth_max
    ))
}

/// Prints the progress of a long run, and how to continue it.
struct Progress {
    first: u64,
    count: u64,
    begun_ns: u64,
    /// Seeds that run, and the number of those that have passed.
    state: Mutex<(BTreeSet<u64>, u64)>,
}

impl Progress {
    fn new(first: u64, count: u64) -> Self {
        Self { first, count, begun_ns: ndn_sys::clock::now(), state: Mutex::default() }
    }

    fn begin(&self, seed: u64) {
        if let Ok(mut state) = self.state.lock() {
            state.0.insert(seed);
        }
    }

    fn end(&self, seed: u64) {
        let Ok(mut state) = self.state.lock() else { return };
        let (running, passed) = &mut *state;
        running.remove(&seed);
        *passed += 1;
        if passed.is_multiple_of(PROGRESS_INTERVAL) && *passed < self.count {
            let seconds = (ndn_sys::clock::now() - self.begun_ns) as f64 / 1e9;
            // All seeds below it have passed.
            let next = running.first().copied().unwrap_or(self.first + *passed);
            let left = self.count - (next - self.first);
            println!(
                "{passed} of {} scenarios passed, {:.1} per second; continue with --first {next} --count {left}",
                self.count,
                *passed as f64 / seconds
            );
        }
    }
}

fn add(total: &Mutex<ScenarioOutcome>, outcome: &ScenarioOutcome) {
    if let Ok(mut total) = total.lock() {
        total.frames += outcome.frames;
        total.satisfied += outcome.satisfied;
        total.unsatisfied += outcome.unsatisfied;
        total.pressure.add(outcome.pressure);
    }
}

fn describe_failure(seed: u64, limits: &Limits, size: &Size) -> String {
    let scenario = Scenario::random(seed, limits);
    let mut start = start_faulty_forwarder(size.plant);
    let Some(shrunk) = shrink(&scenario, &mut start, SHRINK_RUNS_MAX) else {
        return format!(
            "seed {seed} failed once and passed when it ran again: the run is not deterministic"
        );
    };
    let kept: Vec<_> = shrunk.scenario.elements().iter().map(Element::to_string).collect();
    let plant = size.plant.map(|fault| format!(" --plant {fault}")).unwrap_or_default();
    format!(
        "{}\nseed {seed} failed; replay what the failure needs:\nndn-sim replay {seed} --nodes-min {} \
         --nodes-max {} --workers-max {} --requests {}{plant} --only {}",
        shrunk.failure,
        size.nodes_min,
        size.nodes_max,
        size.workers_max,
        size.requests,
        kept.join(","),
    )
}

fn replay(
    seed: u64,
    only: Option<&[Element]>,
    limits: &Limits,
    fault: Option<PlantedFault>,
) -> Result<String, String> {
    let mut scenario = Scenario::random(seed, limits);
    if let Some(only) = only {
        let mut others = scenario.elements();
        if let Some(unknown) = only.iter().find(|element| !others.contains(element)) {
            return Err(format!("--only: the scenario has no {unknown}"));
        }
        others.retain(|element| !only.contains(element));
        scenario = scenario.without(&others);
    }
    let first = Simulation::run(&scenario, &mut start_faulty_forwarder(fault));
    let second = Simulation::run(&scenario, &mut start_faulty_forwarder(fault));
    if first != second {
        return Err("two runs differ: the run is not deterministic".to_owned());
    }
    let outcome = first.map_err(|failure| failure.to_string())?;
    Ok(format!(
        "passed: {} forwarders, {} frames, {} Interests satisfied, {} not, trace {:016x}",
        scenario.nodes.len(),
        outcome.frames,
        outcome.satisfied,
        outcome.unsatisfied,
        outcome.trace
    ))
}

fn attack(
    first: u64,
    count: u64,
    jobs: usize,
    only: Option<&[usize]>,
    fault: Option<AttackFault>,
) -> Result<String, String> {
    let of_seed = |seed| {
        let attack = Attack::random(seed);
        let others = attack.elements().into_iter();
        let left_out: Vec<_> =
            others.filter(|move_| only.is_some_and(|only| !only.contains(move_))).collect();
        attack.without(&left_out)
    };
    let next = AtomicU64::new(first);
    let total = Mutex::new((AttackOutcome::default(), None::<u64>));
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, POOLS_MAX / 4) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let is_stopped = total.lock().is_ok_and(|total| total.1.is_some());
                    if seed >= first.saturating_add(count) || is_stopped {
                        return;
                    }
                    let result = of_seed(seed).run(fault);
                    let Ok(mut total) = total.lock() else { return };
                    let (sum, failed) = &mut *total;
                    match result {
                        Ok(outcome) => sum.add(outcome),
                        Err(_) => *failed = Some(failed.map_or(seed, |other| other.min(seed))),
                    }
                }
            });
        }
    });
    let (sum, failed) = total.into_inner().unwrap_or_default();
    let Some(seed) = failed else {
        let AttackOutcome { frames, exchanges, served, refused, certificates, requests } = sum;
        return Ok(format!(
            "{count} attacks: {frames} frames, {refused} Interests refused or evicted; \
             {certificates} certificates requested; {requests} requests to management; {served} of {exchanges} exchanges of bystanders served"
        ));
    };
    let Some((smallest, failure)) = of_seed(seed).shrink(fault) else {
        return Err(format!("seed {seed} failed once and passed when it ran again"));
    };
    let moves: Vec<_> = smallest.elements().iter().map(usize::to_string).collect();
    let plant = fault.map(|fault| format!(" --plant {fault}")).unwrap_or_default();
    let lines: Vec<_> = smallest.moves.iter().flatten().map(|of| format!("  {of:?}\n")).collect();
    Err(format!(
        "{}{failure}\nseed {seed} failed; replay what the failure needs:\n\
         ndn-sim attack --first {seed} --count 1{plant} --only {}",
        lines.concat(),
        moves.join(",")
    ))
}
