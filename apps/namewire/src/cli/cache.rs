//! `namewire cache simulate`: networks of caches under policies, routings and joint methods.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{Args, Subcommand};
use ndn_cache_sim::InputError;
use ndn_cache_sim::engine::{Method, Metrics, Run};
use ndn_cache_sim::report::{self, Estimate, QUANTITIES, Row};
use ndn_cache_sim::topology::{FILES, Topology};
use ndn_cache_sim::trace::{Pattern, Trace};

use super::arguments::at_least_one;
use super::failure::{Failure, Outcome};
use super::input;
use super::output::{self, Table, counted};
use super::progress::Progress;

/// Compare cache policies in simulated networks
#[derive(Args, Debug)]
pub(super) struct Options {
    #[command(subcommand)]
    pub(super) what: CacheCommand,
}

#[derive(Subcommand, Debug)]
pub(super) enum CacheCommand {
    /// Simulate networks of caches
    ///
    /// Each method runs with each seed; the table has means and 95 % intervals. Methods are a cache policy and a routing,
    /// such as lru/shortest-path, or the joint methods vip, vip2 and min-delay. These are patented in the United States (US
    /// 12155738 B2, US 11336473) and are in programs only that were built with the cargo feature 'vip'.
    Simulate(Box<SimulateOptions>),
}

#[derive(Args, Debug)]
pub(super) struct SimulateOptions {
    /// Topologies: abilene, geant, tree, grid, line, sc22, or TOML files [default: all known]
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',')]
    topology: Vec<String>,
    /// Methods: full names, policies or routings [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    method: Vec<String>,
    /// Requests: zipf, drift (popularity changes), one-hit (half of the objects are requested once), datasets (files in order)
    #[arg(long, default_value = "zipf", value_parser = pattern)]
    pattern: Pattern,
    /// Requests from a file instead: lines 'seconds,node,object,bytes'
    #[arg(long, value_name = "FILE", conflicts_with = "pattern")]
    trace: Option<PathBuf>,
    /// Change a setting of `load` of the topologies, for example requests_per_s=20
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Number of seeds
    #[arg(long, value_name = "N", default_value = "30", value_parser = at_least_one::<NonZeroU32>)]
    seeds: NonZeroU32,
    /// First seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    first_seed: u64,
    /// Threads; the result does not depend on them [default: all processors]
    #[arg(long, value_parser = at_least_one::<NonZeroU32>)]
    threads: Option<NonZeroU32>,
    /// Write all runs as CSV to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write means and intervals as CSV to this file
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Write a chart of each topology as SVG into this directory
    #[arg(long, value_name = "DIRECTORY")]
    svg: Option<PathBuf>,
}

fn pattern(name: &str) -> Result<Pattern, String> {
    let found = Pattern::ALL.into_iter().find(|(_, known)| *known == name);
    found.map(|(pattern, _)| pattern).ok_or_else(|| {
        let known: Vec<_> = Pattern::ALL.iter().map(|(_, known)| *known).collect();
        format!("known: {}", known.join(", "))
    })
}

pub(super) fn run(what: &CacheCommand) -> Outcome {
    let CacheCommand::Simulate(options) = what;
    let topologies = options.topologies()?;
    let methods = options.methods()?;
    let traces: Vec<Trace> = match &options.trace {
        Some(path) => {
            let text = input::read_text(path)?;
            let origin = path.display().to_string();
            let parse = |topology| Trace::parse(&text, &origin, topology).map_err(usage);
            topologies.iter().map(parse).collect::<Outcome<_>>()?
        }
        None => Vec::new(),
    };
    let start_ns = ndn_sys::clock::now();
    let rows = simulate(options, &topologies, &traces, &methods)?;
    let duration_s = (ndn_sys::clock::now() - start_ns) as f64 / 1e9;
    write(options.csv.as_deref(), || report::runs_csv(&rows, options.first_seed))?;
    write(options.summary.as_deref(), || report::summary_csv(&rows))?;
    if let Some(directory) = &options.svg {
        fs::create_dir_all(directory)
            .map_err(|error| Failure::file(directory.display(), &error))?;
        for topology in &topologies {
            let path = directory.join(format!("{}.svg", topology.name));
            write(Some(&path), || report::svg(&rows, &topology.name))?;
        }
    }
    print(&rows)?;
    let requests: u64 = rows.iter().flat_map(|row| &row.runs).map(|run| run.requests).sum();
    output::note(&format_args!("{} in {duration_s:.1} s", counted(requests, "measured request")));
    Ok(())
}

impl SimulateOptions {
    fn topologies(&self) -> Outcome<Vec<Topology>> {
        let names = if self.topology.is_empty() {
            FILES.iter().map(|(name, _)| (*name).to_owned()).collect()
        } else {
            self.topology.clone()
        };
        let topologies: Vec<Topology> =
            names.iter().map(|name| self.topology(name)).collect::<Outcome<_>>()?;
        for (number, topology) in topologies.iter().enumerate() {
            if topologies[..number].iter().any(|other| other.name == topology.name) {
                return Err(Failure::Usage(format!("topology '{}' occurs twice", topology.name)));
            }
        }
        Ok(topologies)
    }

    fn topology(&self, name: &str) -> Outcome<Topology> {
        let known = FILES.iter().find(|(known, _)| *known == name);
        let topology = match known {
            Some((_, text)) => Topology::parse_with(text, name, &self.set),
            None if name.contains(['/', '.']) => {
                Topology::parse_with(&input::read_text(name)?, name, &self.set)
            }
            None => Topology::known(name),
        };
        topology.map_err(usage)
    }

    fn methods(&self) -> Outcome<Vec<Method>> {
        if self.method.is_empty() {
            return Ok(Method::all());
        }
        let mut methods: Vec<Method> = Vec::new();
        for name in &self.method {
            for method in Method::parse(name).map_err(usage)? {
                if !methods.contains(&method) {
                    methods.push(method);
                }
            }
        }
        Ok(methods)
    }
}

/// Runs all methods with all seeds in all topologies. Threads take one seed of one topology at a time, and its trace with
/// it.
fn simulate(
    options: &SimulateOptions,
    topologies: &[Topology],
    traces: &[Trace],
    methods: &[Method],
) -> Outcome<Vec<Row>> {
    let seeds = options.seeds.get() as usize;
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = options.threads.map_or(processors, |threads| threads.get() as usize);
    let next = AtomicUsize::new(0);
    let progress = Progress::new(topologies.len() * seeds * methods.len(), "runs");
    let done: Mutex<Vec<(usize, Vec<Metrics>)>> = Mutex::new(Vec::new());
    let work = || -> Result<(), InputError> {
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            let Some(topology) = topologies.get(task / seeds) else { return Ok(()) };
            let seed = options.first_seed + (task % seeds) as u64;
            let generated;
            let trace = if let Some(trace) = traces.get(task / seeds) {
                trace
            } else {
                generated = Trace::generate(topology, options.pattern, seed)?;
                &generated
            };
            let run = |method: &Method| {
                let metrics = Run::new(topology, trace, *method, seed).metrics();
                progress.add();
                metrics
            };
            let runs = methods.iter().map(run).collect();
            if let Ok(mut done) = done.lock() {
                done.push((task, runs));
            }
        }
    };
    let ended = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    });
    progress.end();
    ended.map_err(usage)?;
    let mut done = done.into_inner().unwrap_or_default();
    if done.len() != topologies.len() * seeds {
        return Err(Failure::Failed("a run of the simulation ended early".to_owned()));
    }
    done.sort_by_key(|(task, _)| *task);
    let row = |topology: usize, method: usize| Row {
        topology: topologies[topology].name.clone(),
        method: methods[method],
        runs: done[topology * seeds..][..seeds].iter().map(|(_, runs)| runs[method]).collect(),
    };
    let all = (0..topologies.len())
        .flat_map(|topology| (0..methods.len()).map(move |method| (topology, method)));
    Ok(all.map(|(topology, method)| row(topology, method)).collect())
}

fn print(rows: &[Row]) -> Outcome {
    let mut table = Table::new(&[
        "topology",
        "method",
        ">delay ms",
        ">p99 ms",
        ">origin %",
        ">hits %",
        ">stretch",
        ">converged s",
        ">writes/request",
    ]);
    let [delay, p99, origin, hits, _, _, stretch, convergence, writes] = QUANTITIES;
    for row in rows {
        let cell = |quantity, scale: f64, digits: usize| {
            let Estimate { mean, half_width } = row.estimate(quantity);
            let mean = format!("{:.digits$}", mean * scale);
            // One run has no interval.
            if half_width.is_infinite() {
                return mean;
            }
            format!("{mean} ± {:.digits$}", half_width * scale)
        };
        table.row(vec![
            row.topology.clone(),
            row.method.name(),
            cell(delay, 1.0, 1),
            cell(p99, 1.0, 0),
            cell(origin, 100.0, 1),
            cell(hits, 100.0, 1),
            cell(stretch, 1.0, 2),
            cell(convergence, 1.0, 0),
            cell(writes, 1.0, 2),
        ]);
    }
    table.print("no methods")?;
    let comparisons = [(delay, "delay"), (origin, "origin")];
    let mut table =
        Table::new(&["topology", "method", "against the best of the others", ">difference %"]);
    for (quantity, name) in comparisons {
        for comparison in report::compare(rows, quantity) {
            let Estimate { mean, half_width } = comparison.difference;
            table.row(vec![
                comparison.topology,
                comparison.method.name(),
                format!("{name}: {}", comparison.best.name()),
                format!("{:+.1} ± {:.1}", 100.0 * mean, 100.0 * half_width),
            ]);
        }
    }
    if rows.iter().all(|row| row.runs.len() < 2) || report::compare(rows, delay).is_empty() {
        return Ok(());
    }
    output::print_line("")?;
    Ok(table.print("no joint methods")?)
}

fn usage(error: InputError) -> Failure {
    Failure::Usage(error.0)
}

fn write(path: Option<&Path>, text: impl FnOnce() -> String) -> Outcome {
    match path {
        Some(path) => {
            fs::write(path, text()).map_err(|error| Failure::file(path.display(), &error))
        }
        None => Ok(()),
    }
}
