//! Metrics of a command while it runs.

use std::net::SocketAddr;

use clap::Args;
use namewire_http::{ProgramMetric, SiteServer, serve_metrics};

use super::failure::{Failure, Outcome};
use super::output;

/// The scrape address of a command.
#[derive(Args, Debug, Default)]
pub(super) struct MetricsOptions {
    /// Serve metrics for Prometheus at /metrics of this loopback address and port while the command runs; port 0 takes a
    /// free one, which is printed
    #[arg(long, value_name = "IP:PORT")]
    metrics: Option<SocketAddr>,
    /// Label `run` of all metrics; they have the label `host`, too
    #[arg(long, value_name = "NAME", requires = "metrics")]
    metrics_run: Option<String>,
}

impl MetricsOptions {
    /// Whether there is an address.
    pub(super) fn is_given(&self) -> bool {
        self.metrics.is_some()
    }

    /// Serves what `read` returns, as long as the returned server exists.
    pub(super) fn serve(
        &self,
        read: impl Fn() -> Vec<ProgramMetric> + Send + Sync + 'static,
    ) -> Outcome<Option<SiteServer>> {
        let Some(listen) = self.metrics else { return Ok(None) };
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mut labels = vec![("host".to_owned(), host)];
        labels.extend(self.metrics_run.clone().map(|run| ("run".to_owned(), run)));
        let server = serve_metrics(listen, labels, read)
            .map_err(|error| Failure::Failed(format!("--metrics {error}")))?;
        output::note(&format_args!("namewire: metrics at http://{}/metrics", server.address()));
        Ok(Some(server))
    }
}
