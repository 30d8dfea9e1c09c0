//! Metrics of a program that is no forwarder, such as a file server, while it runs.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::exposition::{Exposition, Format, Type};
use crate::site::{Site, SiteReply, SiteRequest, SiteServer};

/// A metric of a program. Names follow Prometheus' conventions: base unit at the end, and no `_total`, which counters get.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProgramMetric {
    /// Name, such as `namewire_get_content_bytes`.
    pub name: &'static str,
    /// Whether it only grows.
    pub is_counter: bool,
    /// Help text.
    pub help: &'static str,
    /// A label that distinguishes samples of one name, which follow each other.
    pub label: Option<(&'static str, &'static str)>,
    /// Value.
    pub value: f64,
}

impl ProgramMetric {
    /// A counter.
    #[must_use]
    pub fn counter(name: &'static str, help: &'static str, value: f64) -> Self {
        Self { name, is_counter: true, help, label: None, value }
    }

    /// A value that rises and falls.
    #[must_use]
    pub fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Self { is_counter: false, ..Self::counter(name, help, value) }
    }

    /// The name of its samples.
    pub(crate) fn sample_name(&self) -> String {
        let total = if self.is_counter { "_total" } else { "" };
        format!("{}{total}", self.name)
    }

    /// The same with a label.
    #[must_use]
    pub fn with(self, name: &'static str, value: &'static str) -> Self {
        Self { label: Some((name, value)), ..self }
    }
}

/// Serves the metrics that `read` returns at `/metrics` of a loopback address, with these labels on each sample.
///
/// # Errors
/// Those of [`SiteServer::start`].
pub fn serve_metrics(
    listen: SocketAddr,
    labels: Vec<(String, String)>,
    read: impl Fn() -> Vec<ProgramMetric> + Send + Sync + 'static,
) -> io::Result<SiteServer> {
    SiteServer::start(listen, Arc::new(ProgramSite { labels, read }))
}

struct ProgramSite<R> {
    labels: Vec<(String, String)>,
    read: R,
}

impl<R: Fn() -> Vec<ProgramMetric> + Send + Sync + 'static> Site for ProgramSite<R> {
    fn answer(&self, request: SiteRequest) -> SiteReply {
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            return SiteReply::text(405, "the method is not allowed here");
        }
        match request.path.as_str() {
            "/health" => SiteReply::text(200, "ok"),
            "/metrics" => {
                let format = Format::accepted(&request.accept);
                let written = written(&(self.read)(), &self.labels, format);
                SiteReply::new(200, format.content_type(), written)
            }
            _ => SiteReply::text(404, "there is nothing at this path; metrics are at /metrics"),
        }
    }
}

fn written(metrics: &[ProgramMetric], labels: &[(String, String)], format: Format) -> String {
    let mut out = Exposition::new(format);
    let mut family = "";
    for ProgramMetric { name, is_counter, help, label, value } in metrics {
        if *name != family {
            family = name;
            out.family(name, if *is_counter { Type::Counter } else { Type::Gauge }, help);
        }
        let all: Vec<(&str, &str)> = labels
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .chain(*label)
            .collect();
        out.sample(&all, value);
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_labels_of_the_run_and_their_own() {
        let metrics = [
            ProgramMetric::counter("t_data", "Data.", 3.0).with("way", "in"),
            ProgramMetric::counter("t_data", "Data.", 4.5).with("way", "out"),
            ProgramMetric::gauge("t_window", "Window.", 7.0),
        ];
        let labels = [("run".to_owned(), "a\"b".to_owned())];
        let expected = "# HELP t_data_total Data.\n# TYPE t_data_total counter\n\
                        t_data_total{run=\"a\\\"b\",way=\"in\"} 3\nt_data_total{run=\"a\\\"b\",way=\"out\"} 4.5\n\
                        # HELP t_window Window.\n# TYPE t_window gauge\nt_window{run=\"a\\\"b\"} 7\n";
        assert_eq!(written(&metrics, &labels, Format::Prometheus), expected);
        assert!(written(&metrics, &labels, Format::OpenMetrics).ends_with("# EOF\n"));
    }
}
