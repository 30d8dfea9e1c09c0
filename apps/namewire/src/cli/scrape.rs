//! Metrics of a command while it runs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use namewire_http::{MetricsPush, ProgramMetric, PushTarget, SiteServer, serve_metrics};
use ndn_sys::clock::Clock;

use super::arguments::positive_duration;
use super::failure::{Failure, Outcome};
use super::output;

/// Where the metrics of a command go.
#[derive(Args, Debug, Default)]
pub(super) struct MetricsOptions {
    /// Serve metrics for Prometheus at /metrics of this loopback address and port while the command runs; port 0 takes a
    /// free one, which is printed
    #[arg(long, hide_short_help = true, help_heading = "Metrics", value_name = "IP:PORT")]
    metrics: Option<SocketAddr>,
    /// Label `run` of all metrics; they have the label `host`, too
    #[arg(long, hide_short_help = true, help_heading = "Metrics", value_name = "NAME")]
    metrics_run: Option<String>,
    /// Push metrics to this receiver of Prometheus' remote write protocol while the command runs, and at its end
    #[arg(long, hide_short_help = true, help_heading = "Metrics", value_name = "URL")]
    metrics_push: Option<String>,
    /// Time between two pushes [default: 5s]
    #[arg(long, hide_short_help = true, help_heading = "Metrics", value_name = "DURATION", value_parser = positive_duration, requires = "metrics_push")]
    metrics_interval: Option<Duration>,
    /// File with the bearer token for the receiver
    #[arg(
        long,
        hide_short_help = true,
        help_heading = "Metrics",
        value_name = "FILE",
        requires = "metrics_push"
    )]
    metrics_token: Option<PathBuf>,
}

/// Default of `--metrics-interval`.
const INTERVAL: Duration = Duration::from_secs(5);

/// Serves and pushes metrics while it exists.
#[derive(Debug)]
pub(super) struct RunningMetrics {
    _server: Option<SiteServer>,
    _push: Option<MetricsPush>,
}

impl MetricsOptions {
    /// Serves and pushes what `read` returns, as long as the result exists.
    pub(super) fn serve(
        &self,
        read: impl Fn() -> Vec<ProgramMetric> + Send + Sync + 'static,
    ) -> Outcome<RunningMetrics> {
        if self.metrics_run.is_some() && self.metrics.is_none() && self.metrics_push.is_none() {
            let reason = "--metrics-run: only with --metrics or --metrics-push";
            return Err(Failure::Usage(reason.to_owned()));
        }
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mut labels = vec![("host".to_owned(), host.clone())];
        labels.extend(self.metrics_run.clone().map(|run| ("run".to_owned(), run)));
        let read = Arc::new(read);
        let push = match &self.metrics_push {
            None => None,
            Some(url) => {
                // A scrape adds them.
                let mut labels = labels.clone();
                labels.push(("job".to_owned(), "namewire".to_owned()));
                labels.push(("instance".to_owned(), format!("{host}:{}", std::process::id())));
                let read = Arc::clone(&read);
                Some(self.push(url, labels, move || read())?)
            }
        };
        let server = match self.metrics {
            None => None,
            Some(listen) => {
                let server = serve_metrics(listen, labels, move || read()).map_err(|error| {
                    let is_usage = error.kind() == std::io::ErrorKind::InvalidInput;
                    let kind = if is_usage { Failure::Usage } else { Failure::Failed };
                    kind(format!("--metrics {error}"))
                })?;
                let address = server.address();
                output::note(&format_args!("namewire: metrics at http://{address}/metrics"));
                Some(server)
            }
        };
        Ok(RunningMetrics { _server: server, _push: push })
    }

    fn push(
        &self,
        url: &str,
        labels: Vec<(String, String)>,
        read: impl Fn() -> Vec<ProgramMetric> + Send + 'static,
    ) -> Outcome<MetricsPush> {
        let token = match &self.metrics_token {
            None => None,
            Some(path) => Some(super::input::read_text(path)?.trim().to_owned()),
        };
        let interval = self.metrics_interval.unwrap_or(INTERVAL);
        let target =
            PushTarget { url: url.to_owned(), token, interval, labels, clock: Clock::system() };
        let report = |reason: &str| {
            output::note(&format_args!("namewire: metrics are not pushed: {reason}"));
        };
        MetricsPush::start(target, read, report)
            .map_err(|error| Failure::Usage(format!("--metrics-push: {error}")))
    }
}
