//! `namewire trace`: service times in a running forwarder.

use std::time::Duration;

use clap::{Args, Subcommand};
use ndn_types::duration_ms;
use serde_json::{Value, json};

use super::arguments::duration;
use super::control::{ControlOptions, span};
use super::failure::{Failure, Outcome};
use super::output::{self, Table, grouped};
use namewire_control::{Request, ServiceTimesReport, TimeHistogram, WorkerServiceTimes};

/// Measure service times in a running forwarder
#[derive(Args, Debug)]
pub(super) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Show the distributions of service times
    ///
    /// Times to dispatch packets (decoding, hashing, dispatch table) and to forward them (tables, pipelines, strategy),
    /// without the system calls that receive and send. Workers measure randomly chosen bursts while the command runs.
    Latency {
        /// Length of the measurement
        #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
        duration: Duration,
        /// Length of the interval in seconds, such as 0.5
        #[arg(long, value_name = "SECONDS", conflicts_with = "duration")]
        seconds: Option<f64>,
        #[command(flatten)]
        control: ControlOptions,
        /// Print JSON, with the histograms
        #[arg(long)]
        json: bool,
    },
}

/// Columns of the table: heading, part of all packets.
const QUANTILES: [(&str, f64); 5] =
    [(">p10", 0.1), (">p50", 0.5), (">p90", 0.9), (">p99", 0.99), (">p99.9", 0.999)];

pub(super) fn run(options: &Options) -> Outcome {
    let What::Latency { duration, seconds, control, json } = &options.what;
    let span = span(*duration, *seconds)?;
    let milliseconds = duration_ms(span);
    let mut client = control.connect()?;
    let report: ServiceTimesReport = client.call(&Request::TraceLatency { milliseconds })?;
    let mut total = WorkerServiceTimes::default();
    report.workers.iter().for_each(|worker| total.add(worker));
    if *json { print_json(&report, &total) } else { print(&report, &total) }
}

fn stages(worker: &WorkerServiceTimes) -> [(&'static str, &TimeHistogram); 4] {
    [
        ("Interest dispatch", &worker.interest_dispatch),
        ("Data dispatch", &worker.data_dispatch),
        ("Interest forwarding", &worker.interest_forwarding),
        ("Data forwarding", &worker.data_forwarding),
    ]
}

fn print(report: &ServiceTimesReport, total: &WorkerServiceTimes) -> Outcome {
    let mut headings = vec!["WORKER", "NANOSECONDS FOR", ">MEASURED", ">MEAN"];
    headings.extend(QUANTILES.map(|(heading, _)| heading));
    let mut table = Table::new(&headings);
    let mut rows = |name: &str, worker: &WorkerServiceTimes| {
        for (stage, times) in stages(worker) {
            let mean = times.mean_ns().map_or_else(|| "-".to_owned(), |mean| format!("{mean:.0}"));
            let mut row = vec![name.to_owned(), stage.to_owned(), grouped(times.count), mean];
            row.extend(QUANTILES.map(|(_, quantile)| {
                times.quantile_ns(quantile).map_or_else(|| "-".to_owned(), grouped)
            }));
            table.row(row);
        }
    };
    for (number, worker) in report.workers.iter().enumerate() {
        rows(&number.to_string(), worker);
    }
    if report.workers.len() > 1 {
        rows("all", total);
    }
    Ok(table.print("no workers")?)
}

fn print_json(report: &ServiceTimesReport, total: &WorkerServiceTimes) -> Outcome {
    let workers = report.workers.iter().enumerate().map(|(number, worker)| {
        let mut value = worker_json(worker)?;
        value["worker"] = json!(number);
        Ok(value)
    });
    let workers = workers.collect::<Outcome<Vec<Value>>>()?;
    #[expect(clippy::cast_precision_loss, reason = "a time")]
    let seconds = report.nanoseconds as f64 / 1e9;
    let report = json!({ "seconds": seconds, "workers": workers, "total": worker_json(total)? });
    Ok(output::print_json(&report)?)
}

/// The histograms, with summary values in addition to their buckets.
fn worker_json(worker: &WorkerServiceTimes) -> Outcome<Value> {
    let value = serde_json::to_value(worker);
    let mut value = value.map_err(|error| Failure::Failed(error.to_string()))?;
    for (stage, times) in stages(worker) {
        let histogram = &mut value[stage.to_lowercase().replace(' ', "_")];
        histogram["mean_ns"] = json!(times.mean_ns());
        for (heading, quantile) in QUANTILES {
            let key = format!("{}_ns", heading.trim_start_matches('>').replace('.', "_"));
            histogram[key] = json!(times.quantile_ns(quantile));
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_histogram_is_printed_under_its_own_name() {
        let value = worker_json(&WorkerServiceTimes::default()).unwrap();
        let histograms = value.as_object().unwrap().values().filter(|one| one.is_object());
        assert_eq!(histograms.clone().count(), 4);
        for histogram in histograms {
            assert!(histogram["p99_9_ns"].is_null() && histogram["buckets"].is_array());
        }
    }
}
