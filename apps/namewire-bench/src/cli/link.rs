//! `namewire bench link`: a link between UDP sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{LinkCounters, LinkRelay, LinkRelayOptions};
use clap::Args;
use ndn_client::link::SimulatedLinkOptions;
use serde_json::json;

use super::common::print_json;
use namewire::cli::output::{self, Table, grouped};
use namewire::cli::shared::duration;
use namewire::cli::shared::on_interrupt;
use namewire::cli::shared::{Failure, Outcome};
use namewire_config::ByteSize;

/// A link with rate, delay, queue, loss, reordering and duplication, between UDP sockets
///
/// Datagrams to the near end are relayed to the far end, and answers back. The link is that of
/// `bench distance`, in real time: with the same seed, the same datagrams are lost or delayed.
/// Lengths are those of datagrams without UDP and IP headers. Relays until interrupted, and then
/// prints how many datagrams were delivered, lost and delayed.
///
///   namewire bench link --listen 127.0.0.1:7000 --to 127.0.0.1:6363 --rate 1Gbit --delay 5ms --loss 1%
///   namewire get --transport udp://127.0.0.1:7000 /x/file -o file
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(super) struct Options {
    /// Address of the near end; port 0 takes a free one
    #[arg(long, value_name = "IP:PORT")]
    listen: SocketAddr,
    /// Address of the far end, such as a forwarder
    #[arg(long, value_name = "IP:PORT")]
    to: SocketAddr,
    /// Bits per second, such as 100Mbit or 1Gbit
    #[arg(long, value_parser = rate, default_value = "1Gbit", value_name = "RATE")]
    rate: u64,
    /// Time from the end of sending to arrival, each way
    #[arg(long, value_parser = duration, default_value = "0ms", value_name = "DURATION")]
    delay: Duration,
    /// Queue length in bytes; a datagram that does not fit is dropped
    #[arg(long, default_value = "1MiB", value_name = "SIZE")]
    queue: ByteSize,
    /// Share of datagrams lost at random, such as 0.01 or 1%
    #[arg(long, value_parser = share, default_value = "0", value_name = "SHARE")]
    loss: f64,
    /// Share of datagrams delayed additionally
    #[arg(long, value_parser = share, default_value = "0", value_name = "SHARE")]
    reorder: f64,
    /// Additional delay of reordered datagrams
    #[arg(long, value_parser = duration, default_value = "1ms", value_name = "DURATION")]
    reorder_delay: Duration,
    /// Share of datagrams duplicated
    #[arg(long, value_parser = share, default_value = "0", value_name = "SHARE")]
    duplicate: f64,
    /// Limit and lose only datagrams from the far end; those to it are only delayed
    #[arg(long)]
    back_only: bool,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON: the addresses at the start, the results at the end
    #[arg(long)]
    json: bool,
}

impl Options {
    fn relay(&self) -> LinkRelayOptions {
        let back = SimulatedLinkOptions {
            rate: self.rate,
            delay: self.delay,
            queue_bytes: self.queue.0,
            loss: self.loss,
            reordering: self.reorder,
            reordering_delay: self.reorder_delay,
            duplication: self.duplicate,
            mark_above: None,
            seed: self.seed,
        };
        let there = if self.back_only {
            let (rate, queue_bytes) = (u64::MAX, u64::MAX);
            SimulatedLinkOptions {
                delay: self.delay,
                rate,
                queue_bytes,
                ..SimulatedLinkOptions::default()
            }
        } else {
            SimulatedLinkOptions { seed: self.seed.wrapping_add(1), ..back }
        };
        LinkRelayOptions { listen: self.listen, to: self.to, there, back }
    }
}

pub(super) fn run(options: &Options) -> Outcome {
    let failed = |error: std::io::Error| Failure::Failed(format!("the link ended: {error}"));
    let mut relay = LinkRelay::bind(&options.relay())
        .map_err(|error| Failure::Failed(format!("{}: {error}", options.listen)))?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    on_interrupt(move || stopped.store(true, Ordering::Relaxed))?;
    let near = relay.local_addr().map_err(failed)?;
    match options.json {
        true => output::print_json(&json!({ "from": near, "to": options.to }))?,
        false => output::print_line(&format!("a link from {near} to {}", options.to))?,
    }
    let report = relay.run(&stop).map_err(failed)?;
    if options.json {
        return print_json(&report);
    }
    let mut table = Table::new(&[
        "WAY",
        ">SENT",
        ">ARRIVED",
        ">BYTES",
        ">LOST",
        ">DROPPED",
        ">TWICE",
        ">OVERTAKEN",
        ">p50 ms",
        ">p99 ms",
    ]);
    for (way, counters) in [("there", &report.there), ("back", &report.back)] {
        let LinkCounters { sent, arrived, arrived_bytes, lost, .. } = *counters;
        table.row(vec![
            way.to_owned(),
            grouped(sent),
            grouped(arrived),
            grouped(arrived_bytes),
            grouped(lost),
            grouped(counters.overflowed),
            grouped(counters.duplicated),
            grouped(counters.overtaken),
            format!("{:.2}", counters.queue_delay_p50_ms),
            format!("{:.2}", counters.queue_delay_p99_ms),
        ]);
    }
    table.print("")?;
    if report.not_taken + report.of_further_peers > 0 {
        output::note(&format_args!(
            "{} datagrams were not taken by the kernel, {} came from more peers than are served",
            grouped(report.not_taken),
            grouped(report.of_further_peers)
        ));
    }
    Ok(())
}

/// Parses a share, as a number up to 1 or in percent.
fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    let share = number.trim().parse::<f64>().ok().map(|number| number * unit);
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is no share such as 0.01 or 1%"))
}

/// Parses a rate in bits per second.
fn rate(text: &str) -> Result<u64, String> {
    let units = [("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("kbit", 1000), ("bit", 1)];
    let number = |(unit, bits): (&str, u64)| {
        let number = text.strip_suffix(unit)?.trim().parse::<u64>().ok()?;
        number.checked_mul(bits)
    };
    let rate = units.into_iter().find_map(number).filter(|rate| *rate > 0);
    rate.ok_or_else(|| format!("`{text}` is no rate such as 100Mbit or 1Gbit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_rates_are_parsed() {
        for (text, expected) in
            [("0", Some(0.0)), ("1%", Some(0.01)), ("0.25", Some(0.25)), ("100%", Some(1.0))]
        {
            assert_eq!(share(text).ok(), expected);
        }
        for text in ["", "-1", "101%", "1.5", "NaN", "one"] {
            assert!(share(text).is_err(), "{text}");
        }
        for (text, expected) in [
            ("1Gbit", Some(1_000_000_000)),
            ("20 Mbit", Some(20_000_000)),
            ("9kbit", Some(9000)),
            ("5bit", Some(5)),
            ("0bit", None),
            ("1", None),
            ("99999999999Gbit", None),
        ] {
            assert_eq!(rate(text).ok(), expected, "{text}");
        }
    }
}
