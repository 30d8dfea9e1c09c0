//! The text formats of metrics: that of Prometheus (version 0.0.4) and OpenMetrics (version 1.0.0).
//!
//! They differ in the names of families of counters, in units and in the last line. `promtool check metrics` knows the
//! first only; Prometheus scrapes both.

use std::fmt::{Display, Write};

use ndn_types::{CounterInfo, CounterKind, CounterValues, Unit};

/// A text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Prometheus,
    OpenMetrics,
}

impl Format {
    /// The format for the value of an Accept field.
    pub(crate) fn accepted(accept: &str) -> Self {
        match accept.to_ascii_lowercase().contains("application/openmetrics-text") {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Counter,
    Gauge,
    Histogram,
}

impl Type {
    const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Labels of a sample, as pairs of name and value.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

/// Writes families of metrics. The samples of a family follow its [`family`](Self::family).
#[derive(Debug)]
pub(crate) struct Exposition {
    format: Format,
    text: String,
    /// Name of the samples of the current family.
    sample: String,
}

impl Exposition {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, text: String::with_capacity(32 << 10), sample: String::new() }
    }

    /// Begins a family. `name` has the unit as its ending, if there is one, and no `_total`.
    pub(crate) fn family(&mut self, name: &str, kind: Type, help: &str) {
        let total = if kind == Type::Counter { "_total" } else { "" };
        self.sample = format!("{name}{total}");
        let family = match self.format {
            Format::Prometheus => &self.sample,
            Format::OpenMetrics => name,
        };
        let help = escaped(help, self.format == Format::OpenMetrics);
        let text = &mut self.text;
        let _ = writeln!(text, "# HELP {family} {help}\n# TYPE {family} {}", kind.name());
        let unit = BASE_UNITS.into_iter().find(|unit| name.ends_with(&format!("_{unit}")));
        if let (Format::OpenMetrics, Some(unit)) = (self.format, unit) {
            let _ = writeln!(text, "# UNIT {family} {unit}");
        }
    }

    /// Writes a sample of the current family.
    pub(crate) fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.sample_of("", labels, value);
    }

    /// Writes a sample with an ending of its name, such as `_bucket`.
    fn sample_of(&mut self, ending: &str, labels: Labels<'_>, value: impl Display) {
        let text = &mut self.text;
        let _ = write!(text, "{}{ending}", self.sample);
        for (at, (name, value)) in labels.iter().enumerate() {
            let mark = if at == 0 { '{' } else { ',' };
            let _ = write!(text, "{mark}{name}=\"{}\"", escaped(value, true));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(text, "{end} {value}");
    }

    /// Writes a family with a single sample.
    pub(crate) fn single(&mut self, name: &str, kind: Type, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    /// Writes a histogram of the current family: counts by upper bound, and the sum of the observed values.
    pub(crate) fn histogram(&mut self, label: (&str, &str), buckets: &[(u64, u64)], sum: u64) {
        let mut count = 0;
        for (bound, bucket) in buckets {
            count += bucket;
            self.sample_of("_bucket", &[label, ("le", &bound.to_string())], count);
        }
        self.sample_of("_bucket", &[label, ("le", "+Inf")], count);
        self.sample_of("_sum", &[label], sum);
        self.sample_of("_count", &[label], count);
    }

    /// Writes a family for each counter of a declared set, with a sample of each of `all`.
    pub(crate) fn declared<V: CounterValues>(
        &mut self,
        prefix: &str,
        all: &[(&[(&str, &str)], V)],
    ) {
        for (at, info) in V::declarations().into_iter().enumerate() {
            let kind = match info.kind {
                CounterKind::Monotone => Type::Counter,
                CounterKind::Gauge => Type::Gauge,
            };
            self.family(&family_name(prefix, info), kind, info.help);
            for (labels, values) in all {
                let mut values = *values;
                let value = *values.entries()[at].1;
                if info.unit == Unit::Nanoseconds {
                    self.sample(labels, seconds(value));
                } else {
                    self.sample(labels, value);
                }
            }
        }
    }

    /// The whole text.
    pub(crate) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// Units of which the names of metrics have the ending.
const BASE_UNITS: [&str; 2] = ["seconds", "bytes"];

/// The name of a declared counter as a metric: the base unit comes last.
fn family_name(prefix: &str, info: &CounterInfo) -> String {
    let (word, unit) = if info.unit == Unit::Nanoseconds {
        ("ns", "_seconds")
    } else if info.unit == Unit::Bytes {
        ("bytes", "_bytes")
    } else {
        ("", "")
    };
    let words = info.name.split('_').filter(|part| *part != word);
    words.fold(prefix.to_owned(), |name, word| name + "_" + word) + unit
}

/// Nanoseconds in seconds.
pub(crate) fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
}

fn escaped(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { text.replace('"', "\\\"") } else { text }
}

#[cfg(test)]
mod tests {
    #![allow(unreachable_pub, reason = "the macro declares public items")]
    use super::*;

    ndn_types::counters! {
        /// Counters of a test.
        #[derive(Debug, Default)]
        pub struct TestCounters, TestValues {
            /// Packets received.
            received: Monotone(Packets),
            /// Time waited.
            waited_ns: Monotone(Nanoseconds),
            /// Bytes in huge pages.
            packet_bytes_huge: Gauge(Bytes),
        }
    }

    fn written(format: Format) -> String {
        let mut exposition = Exposition::new(format);
        let counters = TestCounters::default();
        counters.received.add(3);
        counters.waited_ns.add(1_500_000_000);
        counters.packet_bytes_huge.set(7);
        exposition.declared("t", &[(&[("worker", "0")], counters.values())]);
        exposition.finish()
    }

    #[test]
    fn families_follow_from_declarations_with_base_units_last() {
        let expected = "# HELP t_received_total Packets received.\n\
            # TYPE t_received_total counter\n\
            t_received_total{worker=\"0\"} 3\n\
            # HELP t_waited_seconds_total Time waited.\n\
            # TYPE t_waited_seconds_total counter\n\
            t_waited_seconds_total{worker=\"0\"} 1.500000000\n\
            # HELP t_packet_huge_bytes Bytes in huge pages.\n\
            # TYPE t_packet_huge_bytes gauge\n\
            t_packet_huge_bytes{worker=\"0\"} 7\n";
        assert_eq!(written(Format::Prometheus), expected);
    }

    #[test]
    fn openmetrics_has_units_and_an_end() {
        let text = written(Format::OpenMetrics);
        assert!(
            text.contains("# TYPE t_waited_seconds counter\n# UNIT t_waited_seconds seconds\n")
        );
        assert!(text.contains("\nt_waited_seconds_total{worker=\"0\"} 1.500000000\n"), "{text}");
        assert!(text.ends_with("\n# EOF\n"), "{text}");
    }

    #[test]
    fn label_values_are_escaped() {
        let mut exposition = Exposition::new(Format::Prometheus);
        exposition.family("t", Type::Gauge, "A \"help\"\nof \\ two lines.");
        exposition.sample(&[("uri", "a\"b\\c\nd")], 1);
        let expected = "# HELP t A \"help\"\\nof \\\\ two lines.\n# TYPE t gauge\nt{uri=\"a\\\"b\\\\c\\nd\"} 1\n";
        assert_eq!(exposition.finish(), expected);
    }

    #[test]
    fn histograms_are_cumulative() {
        let mut exposition = Exposition::new(Format::Prometheus);
        exposition.family("t", Type::Histogram, "Sizes.");
        exposition.histogram(("worker", "1"), &[(1, 4), (2, 3)], 10);
        let expected = "t_bucket{worker=\"1\",le=\"1\"} 4\nt_bucket{worker=\"1\",le=\"2\"} 7\n\
            t_bucket{worker=\"1\",le=\"+Inf\"} 7\nt_sum{worker=\"1\"} 10\nt_count{worker=\"1\"} 7\n";
        assert!(exposition.finish().ends_with(expected));
    }

    #[test]
    fn format_is_negotiated() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        for other in ["", "*/*", "text/plain"] {
            assert_eq!(Format::accepted(other), Format::Prometheus);
        }
    }
}
