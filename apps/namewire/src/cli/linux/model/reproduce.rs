//! `namewire model reproduce`: the paper's experiments under stated assumptions.

use std::fs;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ndn_lab::figure::{Lines, Point, Series};
use ndn_model::assembly::Placement;
use ndn_model::reproduce::{Assumptions, Cell, findings};
use serde_json::{Value, json};

use super::question::{usage, write_figure};
use crate::cli::arguments::{at_least_one, duration};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{self, Table};

#[derive(Args, Debug)]
pub(super) struct Options {
    /// Time to forward an Interest and its Data, with seven name components
    #[arg(long, value_name = "DURATION", default_value = "2700ns", value_parser = duration)]
    exchange: Duration,
    /// Time for each name component more
    #[arg(long, value_name = "DURATION", default_value = "60ns", value_parser = duration)]
    component: Duration,
    /// Factor on service times with packets in remote memory
    #[arg(long, default_value_t = Assumptions::default().remote_factor)]
    remote_factor: f64,
    /// Balance the dispatch table, instead of dispatching by hashes
    #[arg(long)]
    balanced: bool,
    /// Traces of each experiment
    #[arg(long, default_value = "2", value_parser = at_least_one::<NonZeroU32>)]
    traces: NonZeroU32,
    /// Threads; the result does not depend on them [default: all processors]
    #[arg(long, value_parser = at_least_one::<NonZeroU32>)]
    threads: Option<NonZeroU32>,
    /// Write all experiments as CSV to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the experiments into this SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Options {
    fn assumptions(&self) -> Outcome<Assumptions> {
        let shortest = self.exchange.saturating_sub(self.component.saturating_mul(4));
        if shortest.is_zero() || self.exchange >= Duration::from_millis(1) {
            let reason = "--exchange is below 1ms, and above 0 also for names of three components";
            return Err(usage(reason));
        }
        if !(self.remote_factor.is_finite() && self.remote_factor > 0.0) {
            return Err(usage("--remote-factor is above 0"));
        }
        Ok(Assumptions {
            exchange_us: self.exchange.as_secs_f64() * 1e6,
            component_us: self.component.as_secs_f64() * 1e6,
            remote_factor: self.remote_factor,
            is_balanced: self.balanced,
        })
    }
}

pub(super) fn run(options: &Options) -> Outcome {
    let assumptions = options.assumptions()?;
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = options.threads.map_or(processors, |threads| threads.get() as usize);
    let cells = Cell::all();
    let traces = options.traces.get();
    // Each thread takes a part of the experiments; their order in the result is that of the list.
    let mut done: Vec<(usize, Vec<f64>)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let own = cells.iter().enumerate().skip(thread).step_by(threads);
                let satisfied =
                    |(index, cell): (usize, &Cell)| (index, cell.satisfied(&assumptions, traces));
                scope.spawn(move || own.map(satisfied).collect::<Vec<_>>())
            })
            .collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap_or_default()).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    let mean = |shares: &[f64]| shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    let results: Vec<(Cell, f64)> =
        done.iter().map(|(index, shares)| (cells[*index], mean(shares))).collect();
    if let Some(path) = &options.csv {
        let mut text =
            "interval_ns,components,placement,threads,capacity,satisfied,least,most\n".to_owned();
        for (index, shares) in &done {
            let cell = cells[*index];
            let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
            let most = shares.iter().copied().fold(0.0, f64::max);
            text.push_str(&format!(
                "{},{},{:?},{},{},{},{least},{most}\n",
                cell.interval_ns,
                cell.components,
                cell.placement,
                cell.threads,
                cell.capacity,
                mean(shares)
            ));
        }
        fs::write(path, text).map_err(|error| Failure::file(path.display(), &error))?;
    }
    if let Some(path) = &options.svg {
        let title = "Interests satisfied, mean and range of the traces";
        write_figure(path, title, panels(&done, &cells), 3)?;
    }
    let findings = findings(&results);
    if options.json {
        let cells: Vec<Value> = results
            .iter()
            .map(|(cell, share)| {
                json!({
                    "interval_ns": cell.interval_ns, "components": cell.components,
                    "placement": format!("{:?}", cell.placement), "threads": cell.threads,
                    "capacity": cell.capacity, "satisfied": share,
                })
            })
            .collect();
        let findings: Vec<Value> = findings
            .iter()
            .map(|one| json!({ "claim": one.claim, "appears": one.appears, "evidence": one.evidence }))
            .collect();
        return Ok(output::print_json(&json!({
            "assumptions": {
                "exchange_us": assumptions.exchange_us, "component_us": assumptions.component_us,
                "remote_factor": assumptions.remote_factor, "balanced": assumptions.is_balanced,
            },
            "traces": traces, "findings": findings, "experiments": cells,
        }))?);
    }
    print(&results)?;
    let mut table = Table::new(&["FINDING OF THE PAPER", "APPEARS", "HERE"]);
    for finding in &findings {
        let appears = if finding.appears { "yes" } else { "no" };
        table.row(vec![finding.claim.to_owned(), appears.to_owned(), finding.evidence.clone()]);
    }
    table.print("no findings")?;
    Ok(())
}

/// A panel for each interval and length of names, and one for the dimensioning of queues.
fn panels(done: &[(usize, Vec<f64>)], cells: &[Cell]) -> Vec<Lines> {
    let series = |name: String, is_in: &dyn Fn(&Cell) -> bool| Series {
        name,
        points: done
            .iter()
            .filter(|(index, _)| is_in(&cells[*index]))
            .map(|(index, shares)| {
                let shares = || shares.iter().map(|share| 100.0 * share);
                Point {
                    position: cells[*index].threads - 1,
                    value: shares().sum::<f64>() / shares().count().max(1) as f64,
                    interval: Some((
                        shares().fold(f64::INFINITY, f64::min),
                        shares().fold(f64::NEG_INFINITY, f64::max),
                    )),
                }
            })
            .collect(),
    };
    let panel = |title: String, series: Vec<Series>| Lines {
        title,
        x: "forwarding threads".to_owned(),
        y: "% satisfied".to_owned(),
        positions: (1..=8).map(|threads: u32| threads.to_string()).collect(),
        series,
    };
    let mut panels = Vec::new();
    for interval_ns in [500.0, 700.0, 1000.0] {
        for components in [3, 7, 13] {
            let placements = [Placement::P1, Placement::P2, Placement::P3, Placement::P4];
            let all = placements.iter().map(|placement| {
                series(format!("{placement:?}"), &|cell| {
                    cell.interval_ns == interval_ns
                        && cell.components == components
                        && cell.placement == *placement
                        && cell.capacity == 4096
                })
            });
            let title = format!("{interval_ns} ns, {components} components");
            panels.push(panel(title, all.collect()));
        }
    }
    let queues = [256, 4096].map(|capacity| {
        series(format!("{capacity} packets"), &|cell| {
            cell.capacity == capacity
                && cell.interval_ns == 700.0
                && cell.components == 7
                && cell.placement == Placement::P1
        })
    });
    panels.push(panel("queues at 700 ns, 7 components, P1".to_owned(), queues.into()));
    panels
}

/// One row for each interval, length of names and placement; one column for each number of threads.
fn print(results: &[(Cell, f64)]) -> Outcome {
    let mut headings = vec![">INTERVAL", ">COMPONENTS", "PLACEMENT", ">QUEUE"];
    headings.extend([">1", ">2", ">3", ">4", ">5", ">6", ">7", ">8"]);
    let mut table = Table::new(&headings);
    for row in results.chunks(8) {
        let Some((first, _)) = row.first() else { continue };
        let mut columns = vec![
            format!("{} ns", first.interval_ns),
            first.components.to_string(),
            format!("{:?}", first.placement),
            first.capacity.to_string(),
        ];
        columns.extend(row.iter().map(|(_, share)| format!("{:.2}", 100.0 * share)));
        table.row(columns);
    }
    output::print_line("per cent of Interests satisfied, by the number of forwarding threads")?;
    Ok(table.print("no experiments")?)
}
