//! `namewire workers`: what the workers of a running forwarder do.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::control::ControlOptions;
use super::failure::{Failure, Outcome};
use super::output::{self, Table, grouped};
use crate::control_socket::{ControlClient, Request, Statistics, WorkerStatistics};

/// Show what each worker of a running forwarder does
///
/// Figures are those of an interval: how busy the worker was, how many packets it forwarded, and what
/// crossed between it and the others.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Length of the interval
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,
    #[command(flatten)]
    control: ControlOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One worker between two looks.
struct Interval {
    before: WorkerStatistics,
    after: WorkerStatistics,
    seconds: f64,
}

impl Interval {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    fn rate(&self, figure: fn(&WorkerStatistics) -> u64) -> f64 {
        self.difference(figure) as f64 / self.seconds
    }

    fn difference(&self, figure: fn(&WorkerStatistics) -> u64) -> u64 {
        figure(&self.after).saturating_sub(figure(&self.before))
    }

    /// Part of the interval in which it did not wait.
    fn busy(&self) -> f64 {
        (1.0 - self.rate(|worker| worker.waited_ns) / 1e9).clamp(0.0, 1.0)
    }

    /// Packets in a burst.
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    fn burst(&self) -> f64 {
        let bursts = self.difference(|worker| worker.bursts).max(1);
        self.difference(|worker| worker.packets) as f64 / bursts as f64
    }
}

pub(super) fn run(options: &Options) -> Outcome {
    if !(0.01..=3600.0).contains(&options.seconds) {
        return Err(Failure::Usage("--seconds is from 0.01 to 3600".to_owned()));
    }
    let mut client = options.control.connect()?;
    let before = statistics(&mut client)?;
    let begin = ndn_sys::clock::now();
    std::thread::sleep(Duration::from_secs_f64(options.seconds));
    let after = statistics(&mut client)?;
    let seconds = Duration::from_nanos(ndn_sys::clock::now() - begin).as_secs_f64();
    let workers = before.workers.into_iter().zip(after.workers);
    let workers: Vec<Interval> =
        workers.map(|(before, after)| Interval { before, after, seconds }).collect();
    if options.json { print_json(&workers) } else { print(&workers) }
}

fn statistics(client: &mut ControlClient) -> Outcome<Statistics> {
    client.call(&Request::Statistics).map_err(|error| Failure::Failed(error.to_string()))
}

fn print(workers: &[Interval]) -> Outcome {
    let mut table = Table::new(&[
        "worker",
        "busy",
        "packets/s",
        "per burst",
        "sent/s",
        "taken/s",
        "lost",
        "wakes/s",
        "PIT",
        "CS",
    ]);
    for (number, worker) in workers.iter().enumerate() {
        table.row(vec![
            number.to_string(),
            format!("{:.1} %", worker.busy() * 100.0),
            format!("{:.0}", worker.rate(|one| one.packets)),
            format!("{:.1}", worker.burst()),
            format!("{:.0}", worker.rate(|one| one.crossings_sent)),
            format!("{:.0}", worker.rate(|one| one.crossings_taken)),
            grouped(worker.difference(|one| one.crossings_dropped)),
            format!("{:.0}", worker.rate(|one| one.wakes)),
            grouped(worker.after.pit_entries),
            grouped(worker.after.cs_entries),
        ]);
    }
    table.print("no workers")?;
    Ok(())
}

fn print_json(workers: &[Interval]) -> Outcome {
    let rows = workers.iter().enumerate().map(|(number, worker)| {
        json!({
            "worker": number,
            "seconds": worker.seconds,
            "busy": worker.busy(),
            "packets_per_second": worker.rate(|one| one.packets),
            "packets_per_burst": worker.burst(),
            "total": worker.after,
        })
    });
    output::print_json(&rows.collect::<Vec<_>>().into())?;
    Ok(())
}
