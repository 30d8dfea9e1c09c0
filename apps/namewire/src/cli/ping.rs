//! `namewire ping` and `namewire ping-server`.

use std::time::Duration;

use clap::Args;
use ndn_client::{PingOutcome, PingServer, Pinger};
use ndn_packet::{DataBuilder, MAX_PACKET_SIZE, NackReason, Name};
use ndn_security::{Signer, data_len_max};
use serde_json::json;
use tokio::task::JoinSet;

use super::arguments::{at_least_one, duration, name, pinged_prefix, positive_duration, size};
use super::connect::{ConnectOptions, block_on_until_done, unless_turned_away};
use super::diagnose::note_other_producers;
use super::failure::{Failure, Outcome};
use super::interrupt::interrupted;
use super::keys;
use super::output;

/// Measure the round-trip time to a ping server
///
/// Uses the protocol of ndnping: Interests for PREFIX/ping/NUMBER. Runs until interrupted, or until COUNT pings are
/// sent; the exit status is 4 if none was answered, or, with --require-all, if one was not.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Prefix of the ping server
    #[arg(value_parser = name)]
    prefix: Name,
    /// Number of pings
    #[arg(long, short, value_parser = at_least_one::<u64>)]
    count: Option<u64>,
    /// Interval between pings
    #[arg(long, short, value_parser = positive_duration, default_value = "1s", value_name = "DURATION")]
    interval: Duration,
    /// Timeout of each ping
    #[arg(long, short, value_parser = positive_duration, default_value = "4s", value_name = "DURATION")]
    timeout: Duration,
    /// Number of the first ping [default: random]
    #[arg(long, short = 'n')]
    start: Option<u64>,
    /// Component between `ping` and the number, to distinguish several clients
    #[arg(long)]
    identifier: Option<String>,
    /// Allow answers from caches
    #[arg(long, short = 'a')]
    allow_cached: bool,
    /// Print the time before each line, in seconds since 1970
    #[arg(long)]
    timestamp: bool,
    /// Fail unless all pings are answered
    #[arg(long)]
    require_all: bool,
    /// Print only the statistics
    #[arg(long, short)]
    quiet: bool,
    /// Print the statistics as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectOptions,
}

/// Respond to pings
///
/// Serves PREFIX/ping until interrupted; compatible with ndnpingserver.
#[derive(Args, Debug)]
pub(super) struct ServerOptions {
    /// Prefix to serve, of at most 31 components
    #[arg(value_parser = pinged_prefix)]
    prefix: Name,
    /// Content of each response [default: a short text]
    #[arg(long, short, value_name = "SIZE", value_parser = size(0..=MAX_PACKET_SIZE))]
    size: Option<usize>,
    /// End after this number of responses; 0: never
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    count: u64,
    /// FreshnessPeriod of the responses
    #[arg(long, short = 'x', value_parser = duration, default_value = "1s", value_name = "DURATION")]
    freshness: Duration,
    #[arg(long, value_name = "KEY", default_value = "digest", conflicts_with = "identity", help = keys::SIGN_HELP, long_help = keys::SIGN_LONG_HELP)]
    sign: String,
    #[command(flatten)]
    connect: ConnectOptions,
}

/// Sends pings; with `as_ndnping`, prints as that does, for programs that read its output.
pub(super) fn run(options: &Options, as_ndnping: bool) -> Outcome {
    block_on_until_done(async {
        let endpoint = options.connect.open().await?;
        let identifier = options.identifier.as_deref();
        let mut pinger = Pinger::new(&endpoint, &options.prefix, identifier, options.timeout);
        if options.allow_cached {
            pinger = pinger.allow_stale();
        }
        let mut statistics = Statistics::default();
        if !options.quiet && !options.json {
            let begun = if as_ndnping { "PING" } else { "pinging" };
            output::print_line(&format!("{begun} {}", options.prefix))?;
        }
        let ended = tokio::select! {
            ended = ping_all(options, as_ndnping, std::sync::Arc::new(pinger), &mut statistics) => ended,
            () = super::connection::report_losses(&endpoint) => Ok(()),
        };
        if options.json {
            output::print_json(&statistics.json())?;
        } else {
            output::print_line(&statistics.summary(&options.prefix, as_ndnping))?;
        }
        ended?;
        let mut name = options.prefix.clone();
        name.push_generic("ping");
        super::diagnose::explained(
            statistics.verdict(&options.prefix, options.require_all),
            &endpoint,
            &name,
        )
        .await
    })
}

/// Sends pings at their scheduled times until the count is reached and all are answered or have
/// timed out, or until an interrupt.
async fn ping_all(
    options: &Options,
    as_ndnping: bool,
    pinger: std::sync::Arc<Pinger>,
    statistics: &mut Statistics,
) -> Outcome {
    let mut number = options.start.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let mut clock = tokio::time::interval(options.interval.max(Duration::from_millis(1)));
    let mut waiting: JoinSet<(u64, Result<PingOutcome, ndn_client::ExpressError>)> = JoinSet::new();
    let stop = interrupted();
    tokio::pin!(stop);
    loop {
        let all_sent = options.count.is_some_and(|count| statistics.sent >= count);
        if all_sent && waiting.is_empty() {
            return Ok(());
        }
        tokio::select! {
            _ = &mut stop => return Ok(()),
            _ = clock.tick(), if !all_sent => {
                let pinger = std::sync::Arc::clone(&pinger);
                let this = number;
                number = number.wrapping_add(1);
                statistics.sent += 1;
                waiting.spawn(async move { (this, pinger.ping(this).await) });
            }
            Some(joined) = waiting.join_next() => {
                let (number, outcome) = joined.map_err(|error| Failure::Failed(error.to_string()))?;
                let line = statistics.add(&options.prefix, number, outcome?);
                if !options.quiet && !options.json && options.timestamp {
                    output::print_line(&format!("{}{line}", timestamp(as_ndnping)))?;
                } else if !options.quiet && !options.json {
                    output::print_line(&line)?;
                }
            }
        }
    }
}

/// Rejects responses that do not fit into a packet.
fn check_answer_size(options: &ServerOptions, signer: &dyn Signer) -> Outcome {
    let Some(size) = options.size else { return Ok(()) };
    let mut longest = options.prefix.clone();
    longest.push_generic("ping").push_generic(u64::MAX.to_string());
    let payload = vec![0; size];
    let length = data_len_max(&DataBuilder::new(&longest).content(&payload), signer);
    if length > MAX_PACKET_SIZE {
        return Err(Failure::Usage(format!(
            "--size {size}B: the answer would have {length} bytes; a packet has at most \
             {MAX_PACKET_SIZE}"
        )));
    }
    Ok(())
}

pub(super) fn run_server(options: &ServerOptions) -> Outcome {
    let signer = options.connect.data_signer(&options.sign)?;
    check_answer_size(options, signer.as_ref())?;
    block_on_until_done(async {
        let endpoint = options.connect.open().await?;
        let start =
            PingServer::start(&endpoint, &options.prefix, options.freshness, options.size, signer);
        let server = unless_turned_away(async { Ok(start.await?) }).await?;
        output::print_line(&format!("responding to pings for {}; Ctrl-C ends it", options.prefix))?;
        tokio::select! {
            signal = interrupted() => signal.map_err(|error| Failure::Failed(error.to_string()))?,
            () = server.until_answered(options.count), if options.count > 0 => (),
            () = super::connection::report_losses(&endpoint) => (),
            () = note_other_producers(&endpoint, std::slice::from_ref(server.prefix())) => (),
        }
        output::print_line(&format!("{} answered", output::counted(server.answered(), "ping")))?;
        // The forwarder removes the route with the connection, even if it does not respond now.
        let _ = server.stop().await;
        Ok(())
    })
}

#[derive(Debug, Default)]
struct Statistics {
    sent: u64,
    nacks: u64,
    /// Those of `nacks` for lack of a route.
    unrouted: u64,
    timeouts: u64,
    round_trips: Vec<Duration>,
}

impl Statistics {
    /// Counts an outcome and describes it.
    fn add(&mut self, prefix: &Name, number: u64, outcome: PingOutcome) -> String {
        match outcome {
            PingOutcome::Answer(round_trip) => {
                self.round_trips.push(round_trip);
                format!("content from {prefix}: seq={number} time={} ms", milliseconds(round_trip))
            }
            PingOutcome::Nack(reason, after) => {
                self.nacks += 1;
                self.unrouted += u64::from(reason == NackReason::NO_ROUTE);
                format!(
                    "nack from {prefix}: seq={number} time={} ms reason={reason}",
                    milliseconds(after)
                )
            }
            PingOutcome::Timeout => {
                self.timeouts += 1;
                format!("timeout from {prefix}: seq={number}")
            }
        }
    }

    fn summary(&self, prefix: &Name, as_ndnping: bool) -> String {
        let (sent, answered, nacks) = (self.sent, self.round_trips.len(), self.nacks);
        let mut text = format!("\n--- {prefix} ping statistics ---\n");
        text.push_str(&match as_ndnping {
            false => format!(
                "{sent} sent, {answered} answered, {nacks} refused, {:.1}% lost",
                self.percent(self.lost(false))
            ),
            true => format!(
                "{sent} packets transmitted, {answered} received, {nacks} nacked, {}% lost, {}% nacked, time {} ms",
                rounded(self.percent(self.lost(true))),
                rounded(self.percent(nacks)),
                milliseconds(self.round_trips.iter().sum()),
            ),
        });
        if let Some([min, average, max, deviation]) = self.times() {
            text.push_str(&format!(
                "\nrtt min/avg/max/mdev = {min:.3}/{average:.3}/{max:.3}/{deviation:.3} ms"
            ));
        }
        text
    }

    /// The failure if no ping was answered, or, with `all_needed`, if one was not.
    fn verdict(&self, prefix: &Name, all_needed: bool) -> Outcome {
        let unanswered = self.sent - u64::try_from(self.round_trips.len()).unwrap_or(self.sent);
        if !self.round_trips.is_empty() && all_needed && unanswered > 0 {
            let lost = output::counted(unanswered, "ping");
            return Err(Failure::NoAnswer(format!("{lost} for {prefix} without an answer")));
        }
        if !self.round_trips.is_empty() {
            return Ok(());
        }
        Err(match self.sent > 0 && self.nacks == self.sent {
            true if self.unrouted == self.sent => Failure::NoRoute(format!("no route to {prefix}")),
            true => Failure::Nacked(format!("Nack for all pings for {prefix}")),
            false if prefix.as_ref().last().is_some_and(|last| last.value() == b"ping") => {
                let server = prefix.as_ref().parent();
                Failure::NoAnswer(format!(
                    "no response from {prefix} (pings are for {prefix}/ping: for a server of {server}, ping {server})"
                ))
            }
            false => Failure::NoAnswer(format!("no response from {prefix}")),
        })
    }

    fn json(&self) -> serde_json::Value {
        let times = self.times();
        let time = |index: usize| times.map(|times| times[index]);
        json!({
            "sent": self.sent,
            "answered": self.round_trips.len(),
            "nacks": self.nacks,
            "timeouts": self.timeouts,
            "loss_percent": self.percent(self.lost(false)),
            "rtt_min_ms": time(0),
            "rtt_mean_ms": time(1),
            "rtt_max_ms": time(2),
            "rtt_deviation_ms": time(3),
        })
    }

    /// Pings without an answer. For ndnping, a Nack is one.
    fn lost(&self, as_ndnping: bool) -> u64 {
        let answered = u64::try_from(self.round_trips.len()).unwrap_or(0);
        self.sent.saturating_sub(answered + if as_ndnping { self.nacks } else { 0 })
    }

    #[expect(clippy::cast_precision_loss, reason = "shown with few decimals")]
    fn percent(&self, count: u64) -> f64 {
        match self.sent {
            0 => 0.0,
            sent => count as f64 * 100.0 / sent as f64,
        }
    }

    /// Minimum, mean, maximum and standard deviation in milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "a count of pings")]
    fn times(&self) -> Option<[f64; 4]> {
        let times: Vec<f64> =
            self.round_trips.iter().map(|time| time.as_secs_f64() * 1000.0).collect();
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count;
        let min = times.iter().copied().reduce(f64::min)?;
        let max = times.iter().copied().reduce(f64::max)?;
        Some([min, mean, max, variance.sqrt()])
    }
}

/// The time, to the microsecond: in seconds since 1970, or as ndnping prints it.
fn timestamp(as_ndnping: bool) -> String {
    let now = ndn_sys::clock::wall_clock();
    if !as_ndnping {
        return format!("[{}.{:06}] ", now.as_secs(), now.subsec_micros());
    }
    let seconds = super::nfdc::timestamp(now.as_secs() * 1000);
    format!("{seconds}.{:06} - ", now.subsec_micros())
}

/// Without zeros at the end.
fn rounded(percent: f64) -> String {
    let text = format!("{percent:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_add_up() {
        let prefix: Name = "/a".parse().unwrap();
        let mut statistics = Statistics { sent: 4, ..Statistics::default() };
        for (number, outcome) in [
            (1, PingOutcome::Answer(Duration::from_millis(1))),
            (2, PingOutcome::Answer(Duration::from_millis(3))),
            (3, PingOutcome::Timeout),
        ] {
            statistics.add(&prefix, number, outcome);
        }
        assert_eq!(
            statistics.summary(&prefix, false),
            "\n--- /a ping statistics ---\n4 sent, 2 answered, 0 refused, 50.0% lost\n\
             rtt min/avg/max/mdev = 1.000/2.000/3.000/1.000 ms"
        );
        assert_eq!(statistics.json()["rtt_mean_ms"], 2.0);
        statistics.sent = 3;
        assert!(statistics.summary(&prefix, true).starts_with(
            "\n--- /a ping statistics ---\n3 packets transmitted, 2 received, 0 nacked, 33.3333% lost, \
             0% nacked, time 4.000 ms\nrtt min"
        ));
    }

    #[test]
    fn timeouts_and_nacks_are_distinguished() {
        let prefix: Name = "/a".parse().unwrap();
        let reported = |sent, nacks| {
            let statistics = Statistics { sent, nacks, ..Statistics::default() };
            statistics.verdict(&prefix, false).unwrap_err().to_string()
        };
        assert_eq!(reported(2, 2), "Nack for all pings for /a");
        let unrouted = Statistics { sent: 2, nacks: 2, unrouted: 2, ..Statistics::default() };
        let unrouted = unrouted.verdict(&prefix, false).unwrap_err();
        assert!(matches!(&unrouted, Failure::NoRoute(_)), "{unrouted}");
        assert_eq!(reported(2, 1), "no response from /a");
        assert_eq!(reported(0, 0), "no response from /a");
        let refused = Statistics { sent: 2, nacks: 2, ..Statistics::default() };
        assert!(refused.summary(&prefix, false).contains("2 refused, 100.0% lost"));
        assert!(refused.summary(&prefix, true).contains("2 nacked, 0% lost"));
        let silent = Statistics { sent: 1, ..Statistics::default() };
        let hint = silent.verdict(&"/a/ping".parse().unwrap(), false).unwrap_err().to_string();
        assert!(
            hint.contains("(pings are for /a/ping/ping: ") && hint.ends_with(" ping /a)"),
            "{hint}"
        );
        let mut half = Statistics { sent: 2, timeouts: 1, ..Statistics::default() };
        half.round_trips.push(Duration::from_millis(1));
        assert!(half.verdict(&prefix, false).is_ok());
        let refused = half.verdict(&prefix, true).unwrap_err().to_string();
        assert_eq!(refused, "1 ping for /a without an answer");
    }

    #[test]
    fn statistics_without_responses_have_no_times() {
        let statistics = Statistics { sent: 1, ..Statistics::default() };
        assert_eq!(statistics.times(), None);
        assert!(statistics.json()["rtt_min_ms"].is_null());
    }
}
