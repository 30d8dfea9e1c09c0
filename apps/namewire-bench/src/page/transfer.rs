//! Whole transfers of the file, in turn with the trials of a benchmark: what `bench transfer` measures, at the nodes of a trial.
//!
//! The forwarder, transport, file server, segments and verification are those of the trial. Goodput is content bytes, each once,
//! over the time of the process that fetches, from its start to its end, as in `bench transfer`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use ndn_sys::cpu::CpuTimes;

use super::fetch_node::{Figures, Order};
use super::figures::{STOPPED, Trial, direction_figures, per_data};
use super::get_node::{GetResults, add_get_arguments};
use super::nodes::{Forwarder, Producer};
use super::plan::{Node, Plan};
use crate::relay::clock;
use crate::transfer::MemoryFolder;

/// Time after which a transfer has failed.
const TRANSFER_TIME_MAX: Duration = Duration::from_secs(600);

/// The program that fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// The consumer of the trials: a difference to them is one of the methods of measurement.
    Fetch,
    /// `namewire get`, which has other sockets, and writes the file to memory.
    Get,
}

impl Client {
    pub(super) const ALL: [Self; 2] = [Self::Fetch, Self::Get];

    /// The name of its transfers beside those of programs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Fetch => "transfer-fetch",
            Self::Get => "transfer-get",
        }
    }
}

/// The running nodes, and the direction of the content.
pub(super) struct Line<'a> {
    pub(super) forwarder: &'a Forwarder,
    pub(super) producer: &'a Producer,
    pub(super) direction: (Node, Node),
}

impl Line<'_> {
    /// Fetches the file again and again for the time of a trial, and at least once; a first fetch is not measured.
    pub(super) fn run(
        &self,
        plan: &Plan,
        (client, executable): (Client, &Path),
        stop: &AtomicBool,
    ) -> anyhow::Result<Trial> {
        let folder = MemoryFolder::new()?;
        let output = folder.path().join("fetched");
        let fetch = || match client {
            Client::Fetch => self.fetch(plan),
            Client::Get => self.get(plan, executable, &output),
        };
        fetch()?;
        let unix_ms = clock::wall_ns() / 1_000_000;
        let hits_before = self.forwarder.cache_hits(executable)?;
        let before = self.cpu()?;
        let mut figures = Figures::default();
        while figures.elapsed_ms < f64::from(plan.duration_s) * 1e3 {
            ensure!(!stop.load(Ordering::Relaxed), STOPPED);
            let start = clock::monotonic_ns();
            let fetched = fetch()?;
            figures.elapsed_ms += milliseconds(clock::monotonic_ns() - start);
            figures.data += fetched.data;
            figures.bytes += fetched.bytes;
            figures.interests += fetched.interests;
            figures.retransmissions += fetched.retransmissions;
            figures.nacks += fetched.nacks;
        }
        let after = self.cpu()?;
        let cache_hits = self.forwarder.cache_hits(executable)?;
        let (producer, consumer) = self.direction;
        let direction = direction_figures(producer, consumer, &figures);
        Ok(Trial {
            unix_ms,
            seconds: figures.elapsed_ms / 1e3,
            data_per_s: direction.data_per_s,
            goodput_bit_per_s: direction.goodput_bit_per_s,
            cpu_per_data: per_data(before, after, direction.data),
            directions: vec![direction],
            link: None,
            cache_hits: cache_hits.zip(hits_before).map(|(after, before)| after - before),
        })
    }

    /// Fetches the file by the consumer of the trials.
    fn fetch(&self, plan: &Plan) -> anyhow::Result<Figures> {
        let consumer = self.direction.1;
        let mut command = self.forwarder.at(consumer, &std::env::current_exe()?);
        let order = self.forwarder.order(plan, self.direction);
        let order = Order { duration: TRANSFER_TIME_MAX, ..order };
        command.args(["page-fetch", "--once"]).args(order.arguments());
        let printed = output_of(command)?;
        let last = printed.lines().next_back().context("figures")?;
        let figures: Figures = serde_json::from_str(last).context("figures")?;
        check_length(plan, figures.bytes)?;
        Ok(figures)
    }

    /// Fetches the file by `namewire get`.
    fn get(&self, plan: &Plan, executable: &Path, output: &Path) -> anyhow::Result<Figures> {
        let (producer, consumer) = self.direction;
        let names = plan.names(producer);
        let name = names.first().context("a name")?;
        let _ = fs::remove_file(output);
        let mut command = self.forwarder.at(consumer, executable);
        let order = self.forwarder.order(plan, self.direction);
        add_get_arguments(&mut command, &order, name, output);
        if let Some(folder) = output.parent() {
            command.env("HOME", folder);
        }
        let results: GetResults =
            serde_json::from_str(&output_of(command)?).context("the results of get")?;
        let GetResults { bytes, segments, interests, retransmissions, nacks, .. } = results;
        check_length(plan, bytes)?;
        Ok(Figures {
            bytes,
            data: segments,
            interests,
            retransmissions,
            nacks,
            ..Figures::default()
        })
    }

    /// CPU time so far of A, F and B.
    fn cpu(&self) -> anyhow::Result<[Duration; 3]> {
        let (producer, forwarder) = (self.producer.cpu()?, self.forwarder.cpu()?);
        let consumer = CpuTimes::of_children()?.total();
        Ok(match self.direction.0 {
            Node::A => [producer, forwarder, consumer],
            Node::B => [consumer, forwarder, producer],
        })
    }
}

/// Output of a program that ends well.
fn output_of(mut command: Command) -> anyhow::Result<String> {
    let ended = command.stdin(Stdio::null()).output()?;
    let errors = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "a transfer failed ({}): {}", ended.status, errors.trim());
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

fn check_length(plan: &Plan, bytes: u64) -> anyhow::Result<()> {
    let expected = u64::from(plan.file_mib) << 20;
    ensure!(bytes == expected, "a transfer has {bytes} of {expected} bytes");
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a time of less than an hour")]
fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}
