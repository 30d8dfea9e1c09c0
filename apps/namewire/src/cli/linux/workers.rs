//! `namewire workers`: the activity of the workers of a running forwarder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use crate::cli::control::{ControlOptions, span};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{self, Table, grouped};
use namewire_control::{ControlClient, Statistics, WorkerStatistics};
use ndn_counters::QueueDepthValues;

/// A counter.
type Figure = fn(&WorkerStatistics) -> u64;

/// A queue of messages from other workers.
type DepthOf = fn(&WorkerStatistics) -> &QueueDepthValues;

/// The queues, with the kinds of packets that are in them.
const QUEUES: [(&str, DepthOf); 3] = [
    ("data", |worker| &worker.queued_data),
    ("nacks", |worker| &worker.queued_nacks),
    ("interests", |worker| &worker.queued_interests),
];

/// Show the activity of each worker of a running forwarder
///
/// Values are those of an interval: load (busy), packets forwarded and mean burst length, bytes of its sockets,
/// messages sent to and taken from other workers, mean number of waiting messages (queued), messages dropped because a
/// ring to another worker was full (ring full), wake-ups of other workers, and packets dropped by reason. PIT and CS are
/// the numbers of entries at its end.
#[derive(Args, Debug)]
pub(in crate::cli) struct Options {
    /// Length of the interval
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = span)]
    duration: Duration,
    /// Show the workers and processors that `namewire run` would use with this configuration file
    #[arg(long, value_name = "FILE", conflicts_with = "duration")]
    plan: Option<PathBuf>,
    #[command(flatten)]
    control: ControlOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One worker over an interval.
struct Interval {
    before: WorkerStatistics,
    after: WorkerStatistics,
    seconds: f64,
}

impl Interval {
    #[expect(clippy::cast_precision_loss, reason = "a rate for display")]
    fn rate(&self, figure: fn(&WorkerStatistics) -> u64) -> f64 {
        self.difference(figure) as f64 / self.seconds
    }

    fn difference(&self, figure: fn(&WorkerStatistics) -> u64) -> u64 {
        figure(&self.after).saturating_sub(figure(&self.before))
    }

    /// Part of the interval in which it was busy.
    fn busy(&self) -> f64 {
        (1.0 - self.rate(|worker| worker.work.waited_ns) / 1e9).clamp(0.0, 1.0)
    }

    /// Mean number of queued messages of other workers when the worker polls.
    #[expect(clippy::cast_precision_loss, reason = "a mean for display")]
    fn queued(&self, queue: DepthOf) -> f64 {
        let (before, after) = (queue(&self.before), queue(&self.after));
        let polls = after.polls.saturating_sub(before.polls);
        after.sum.saturating_sub(before.sum) as f64 / polls.max(1) as f64
    }

    /// Bursts by their maximum number of packets.
    fn burst_sizes(&self) -> Vec<(u64, u64)> {
        let pairs = self.after.burst_sizes.iter().zip(&self.before.burst_sizes).enumerate();
        pairs.map(|(class, (after, before))| (1 << class, after.saturating_sub(*before))).collect()
    }

    /// Packets dropped in the shard, between workers, and by the kernel before they were read, by
    /// reason.
    fn drops(&self) -> BTreeMap<String, u64> {
        let before = |reason: &String| self.before.drops.get(reason).copied().unwrap_or(0);
        let drops = self.after.drops.iter();
        let mut drops: BTreeMap<String, u64> = drops
            .map(|(reason, count)| (reason.clone(), count.saturating_sub(before(reason))))
            .collect();
        let crossings: [(&str, Figure); 9] = [
            ("shared_socket_drops", |worker| worker.calls.shared_socket_drops),
            ("own_socket_drops", |worker| worker.calls.own_socket_drops),
            ("bad_remote_frames", |worker| worker.calls.bad_remote_frames),
            ("destroyed_face", |worker| worker.calls.destroyed_face),
            ("other_protocol", |worker| worker.calls.other_protocol),
            ("ring_full_data", |worker| worker.exchange.ring_full_data),
            ("ring_full_nacks", |worker| worker.exchange.ring_full_nacks),
            ("ring_full_interests", |worker| worker.exchange.ring_full_interests),
            ("crossing_no_buffer", |worker| worker.exchange.crossing_no_buffer),
        ];
        for (reason, figure) in crossings {
            drops.insert(reason.to_owned(), self.difference(figure));
        }
        drops.retain(|_, count| *count > 0);
        drops
    }

    /// Packets in a burst.
    #[expect(clippy::cast_precision_loss, reason = "a mean for display")]
    fn burst(&self) -> f64 {
        let bursts = self.difference(|worker| worker.work.bursts).max(1);
        self.difference(|worker| worker.work.packets) as f64 / bursts as f64
    }
}

pub(in crate::cli) fn run(options: &Options) -> Outcome {
    if let Some(file) = &options.plan {
        return plan(file, options.json);
    }
    let span = options.duration;
    let mut client = options.control.connect()?;
    let before = statistics(&mut client)?;
    let begin = ndn_sys::clock::now();
    std::thread::sleep(span);
    let after = statistics(&mut client)?;
    let seconds = Duration::from_nanos(ndn_sys::clock::now() - begin).as_secs_f64();
    let workers = before.workers.into_iter().zip(after.workers);
    let workers: Vec<Interval> =
        workers.map(|(before, after)| Interval { before, after, seconds }).collect();
    if options.json { print_json(&workers) } else { print(&workers) }
}

/// The workers of a configuration.
fn plan(file: &Path, json: bool) -> Outcome {
    let (config, source) = super::config::load(file)?;
    let places = namewire_daemon::placement::plan(&config.forwarder);
    let places = places.map_err(|fault| Failure::Usage(source.describe(&fault)))?;
    if json {
        let rows = places.iter().enumerate().map(|(number, place)| {
            json!({
                "worker": number,
                "clients": place.roles.clients,
                "servers": place.roles.servers,
                "forwards": place.roles.forwards,
                "cpu": place.cpu,
                "node": place.node,
            })
        });
        return Ok(output::print_json(&rows.collect::<serde_json::Value>())?);
    }
    let mut table = Table::new(&["worker", "faces", "forwards", "processor", "NUMA node"]);
    for (number, place) in places.iter().enumerate() {
        let faces = match (place.roles.clients, place.roles.servers) {
            (true, true) => "all",
            (true, false) => "of clients",
            (false, true) => "of servers",
            (false, false) => "none",
        };
        let shown = |number: Option<usize>| {
            number.map_or_else(|| "any".to_owned(), |number| number.to_string())
        };
        table.row(vec![
            number.to_string(),
            faces.to_owned(),
            if place.roles.forwards { "yes" } else { "no" }.to_owned(),
            shown(place.cpu),
            shown(place.node),
        ]);
    }
    Ok(table.print("no workers")?)
}

fn statistics(client: &mut ControlClient) -> Outcome<Statistics> {
    Ok(client.statistics()?)
}

fn print(workers: &[Interval]) -> Outcome {
    let mut table = Table::new(&[
        "worker",
        ">busy",
        ">packets/s",
        ">per burst",
        ">in MB/s",
        ">out MB/s",
        ">sent/s",
        ">taken/s",
        ">queued",
        ">ring full",
        ">wakes/s",
        ">PIT",
        ">CS",
    ]);
    for (number, worker) in workers.iter().enumerate() {
        table.row(vec![
            number.to_string(),
            format!("{:.1} %", worker.busy() * 100.0),
            format!("{:.0}", worker.rate(|one| one.work.packets)),
            format!("{:.1}", worker.burst()),
            format!("{:.2}", worker.rate(|one| one.calls.received_bytes) / 1e6),
            format!("{:.2}", worker.rate(|one| one.calls.sent_bytes) / 1e6),
            format!("{:.0}", worker.rate(|one| one.exchange.crossings_sent)),
            format!("{:.0}", worker.rate(|one| one.exchange.crossings_taken)),
            format!("{:.1}", QUEUES.iter().map(|(_, queue)| worker.queued(*queue)).sum::<f64>()),
            grouped(worker.difference(|one| one.ring_full)),
            format!("{:.0}", worker.rate(|one| one.exchange.wakes)),
            grouped(worker.after.shard.pit_entries),
            grouped(worker.after.shard.cs_entries),
        ]);
    }
    table.print("no workers")?;
    for line in buffers(workers) {
        output::print_text(&line)?;
    }
    for (number, worker) in workers.iter().enumerate() {
        let drops = worker.drops();
        if !drops.is_empty() {
            let drops = drops.iter().map(|(reason, count)| {
                format!("{} {}", grouped(*count), output::reason_in_words(reason))
            });
            let drops = drops.collect::<Vec<_>>().join(", ");
            output::print_text(&format!("worker {number} dropped: {drops}"))?;
        }
    }
    Ok(())
}

/// The packet buffers of each NUMA node: number, page size, and use.
fn buffers(workers: &[Interval]) -> Vec<String> {
    let mut nodes: BTreeMap<Option<usize>, Vec<&WorkerStatistics>> = BTreeMap::new();
    for worker in workers.iter().map(|worker| &worker.after) {
        // An older forwarder does not report it.
        if worker.pool.packet_blocks_capacity > 0 {
            nodes.entry(worker.node).or_default().push(worker);
        }
    }
    let line = |(node, workers): (&Option<usize>, &Vec<&WorkerStatistics>)| {
        let sum = |figure: Figure| workers.iter().map(|one| figure(one)).sum::<u64>();
        let pages: [(Figure, &str); 3] = [
            (|one| one.pool.packet_bytes_huge, "in huge pages"),
            (
                |one| one.pool.packet_bytes_transparent,
                "for which transparent huge pages were requested",
            ),
            (|one| one.pool.packet_bytes_ordinary, "in ordinary pages"),
        ];
        let pages = pages.iter().map(|(figure, name)| (sum(*figure) >> 20, name));
        let pages = pages.filter(|(mebibytes, _)| *mebibytes > 0);
        let pages: Vec<_> = pages.map(|(size, name)| format!("{size} MiB {name}")).collect();
        let place = node.map_or_else(String::new, |node| format!(" of NUMA node {node}"));
        format!(
            "packet buffers{place}: {}; {} of {} blocks in use, none free {} times",
            pages.join(", "),
            grouped(sum(|one| one.pool.packet_blocks)),
            grouped(sum(|one| one.pool.packet_blocks_capacity)),
            grouped(sum(|one| one.pool.packet_block_failures)),
        )
    };
    nodes.iter().map(line).collect()
}

fn print_json(workers: &[Interval]) -> Outcome {
    let rows = workers.iter().enumerate().map(|(number, worker)| {
        json!({
            "worker": number,
            "elapsed_ms": worker.seconds * 1000.0,
            "busy": worker.busy(),
            "packets_per_s": worker.rate(|one| one.work.packets),
            "packets_per_burst": worker.burst(),
            "bursts_by_size": worker.burst_sizes().iter().map(|(most, bursts)| {
                json!({ "packets_max": most, "bursts": bursts })
            }).collect::<Vec<_>>(),
            "received_frames_per_s": worker.rate(|one| one.calls.received_frames),
            "received_bytes_per_s": worker.rate(|one| one.calls.received_bytes),
            "sent_frames_per_s": worker.rate(|one| one.calls.sent_frames),
            "sent_bytes_per_s": worker.rate(|one| one.calls.sent_bytes),
            "queued": QUEUES.iter().map(|&(kind, queue)| (kind.to_owned(), json!({
                "mean": worker.queued(queue),
                "last": queue(&worker.after).last,
                "most_ever": queue(&worker.after).most,
            }))).collect::<serde_json::Map<_, _>>(),
            "drops": worker.drops(),
            "total": worker.after,
        })
    });
    output::print_json(&rows.collect::<Vec<_>>().into())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use ndn_ring::PoolValues;

    use super::*;

    #[test]
    fn packet_buffers_are_shown_by_node_and_page_size() {
        let worker = |node, huge: u64, ordinary: u64| {
            let pool = PoolValues {
                packet_blocks: 5,
                packet_blocks_capacity: 2048,
                packet_block_failures: 1,
                packet_bytes_huge: huge << 20,
                packet_bytes_ordinary: ordinary << 20,
                ..PoolValues::default()
            };
            let after = WorkerStatistics { node, pool, ..WorkerStatistics::default() };
            Interval { before: WorkerStatistics::default(), after, seconds: 1.0 }
        };
        let workers = [worker(Some(1), 128, 0), worker(Some(0), 0, 128), worker(Some(1), 64, 64)];
        assert_eq!(
            buffers(&workers),
            [
                format!(
                    "packet buffers of NUMA node 0: 128 MiB in ordinary pages; 5 of {} blocks in use, \
                     none free 1 times",
                    grouped(2048)
                ),
                format!(
                    "packet buffers of NUMA node 1: 192 MiB in huge pages, 64 MiB in ordinary pages; \
                     10 of {} blocks in use, none free 2 times",
                    grouped(4096)
                ),
            ]
        );
        let old = Interval {
            before: WorkerStatistics::default(),
            after: WorkerStatistics::default(),
            seconds: 1.0,
        };
        assert_eq!(buffers(&[old]), Vec::<String>::new());
    }
}
