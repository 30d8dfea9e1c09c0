//! Model files: TOML with units. Every error names a line and a reason.

mod consumer;
mod error;
mod forwarder;
mod law;
mod load;
mod quantity;

use serde::Deserialize;
use serde_spanned::Spanned;

use crate::assembly::{Traffic, zipf_cdf};
use crate::distribution::Distribution;
use crate::fast::FastEngine;
use crate::network::{Consumer, Link, Network, PausedTraffic, Pauses, Services};
use consumer::ConsumerTable;
pub use error::FileError;
use forwarder::ForwarderTable;
use law::DurationLaw;
pub use law::law;
pub use load::offered_load;
use load::{longest_time, too_many_pauses, total_rate, warnings};
use quantity::{
    BitRate, Count, Duration, FewCount, PARTS_MAX, PREFIXES_MAX, Ratio, Size, TIME_MAX,
};

/// A model with the length of its traces.
#[derive(Debug, Clone)]
pub struct Model {
    /// The simulated network.
    pub network: Network,
    /// Consumers send until then.
    pub horizon_ps: u64,
    /// Interests sent before are not counted.
    pub warm_up_ps: u64,
    /// Doubts about the model that a reader of the results has to know.
    pub warnings: Vec<String>,
}

impl Model {
    /// Reads a model file.
    ///
    /// # Errors
    /// [`FileError`] with line and reason.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let file: ModelFile = toml::from_str(text)
            .map_err(|error| FileError::at(text, error.span(), error.message().to_owned()))?;
        file.build(text)
    }

    /// Reads a model file with other values at some keys, such as `forwarder.workers` and `4`. A number
    /// selects an element: `consumers.0.rate`.
    ///
    /// # Errors
    /// [`FileError`], also for a key that is not there to be changed.
    pub fn parse_with(text: &str, changes: &[(String, String)]) -> Result<Self, FileError> {
        if changes.is_empty() {
            return Self::parse(text);
        }
        let mut table: toml::Table = toml::from_str(text)
            .map_err(|error| FileError::at(text, error.span(), error.message().to_owned()))?;
        for (key, value) in changes {
            change(&mut table, key, value)?;
        }
        let changed =
            toml::to_string(&table).map_err(|error| FileError::at("", None, error.to_string()))?;
        Self::parse(&changed).map_err(|error| {
            let list: Vec<String> =
                changes.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            FileError {
                line: None,
                column: None,
                reason: format!("with {}: {}", list.join(", "), error.reason),
            }
        })
    }
}

/// Sets the value at a dotted key; its parent has to exist.
fn change(table: &mut toml::Table, key: &str, value: &str) -> Result<(), FileError> {
    let unknown = || FileError::at("", None, format!("the model has no `{key}` to change"));
    let parsed: toml::Value = match toml::from_str::<toml::Table>(&format!("v = {value}")) {
        Ok(mut table) => table.remove("v").ok_or_else(unknown)?,
        // Not a TOML value: text without quotes, such as 2 M/s.
        Err(_) => toml::Value::String(value.to_owned()),
    };
    let (parents, last) = key.rsplit_once('.').ok_or_else(unknown)?;
    let mut parts = parents.split('.');
    let first = parts.next().ok_or_else(unknown)?;
    let mut place = table.get_mut(first).ok_or_else(unknown)?;
    for part in parts {
        place = match place {
            toml::Value::Table(table) => table.get_mut(part).ok_or_else(unknown)?,
            toml::Value::Array(array) => {
                let index: usize = part.parse().map_err(|_| unknown())?;
                array.get_mut(index).ok_or_else(unknown)?
            }
            toml::Value::String(_)
            | toml::Value::Integer(_)
            | toml::Value::Float(_)
            | toml::Value::Boolean(_)
            | toml::Value::Datetime(_) => return Err(unknown()),
        };
    }
    let toml::Value::Table(table) = place else { return Err(unknown()) };
    table.insert(last.to_owned(), parsed);
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ModelFile {
    forwarder: Spanned<ForwarderTable>,
    services: ServicesTable,
    consumers: Vec<Spanned<ConsumerTable>>,
    #[serde(default)]
    producers: ProducersTable,
    #[serde(default)]
    links: LinksTable,
    #[serde(default)]
    packets: PacketsTable,
    pauses: Option<Spanned<PausesTable>>,
    run: Spanned<RunTable>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ServicesTable {
    input: KindsTable,
    forward: ForwardTable,
    output: KindsTable,
    produce: Option<DurationLaw>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KindsTable {
    interest: DurationLaw,
    data: DurationLaw,
    nack: Option<DurationLaw>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForwardTable {
    interest: DurationLaw,
    data: DurationLaw,
    nack: Option<DurationLaw>,
    hit: Option<DurationLaw>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ProducersTable {
    count: Option<FewCount>,
    capacity: Option<Count>,
    #[serde(default)]
    nack_ratio: Ratio,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct LinksTable {
    consumer: Option<LinkTable>,
    producer: Option<LinkTable>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    rate: Option<BitRate>,
    delay: Option<Duration>,
    #[serde(default)]
    loss: Ratio,
    capacity: Option<Count>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct PacketsTable {
    interest: Option<Size>,
    data: Option<Size>,
    nack: Option<Size>,
    lifetime: Option<Duration>,
}

impl PacketsTable {
    fn lifetime_ps(&self) -> u64 {
        self.lifetime.map_or(4_000_000_000_000, |time| time.0 as u64)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PausesTable {
    #[serde(default = "yes")]
    enabled: bool,
    interval: DurationLaw,
    length: DurationLaw,
    #[serde(default)]
    together: bool,
    #[serde(default)]
    traffic: TrafficProcessor,
}

const fn yes() -> bool {
    true
}

/// The processor of consumers and producers.
#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "kebab-case")]
enum TrafficProcessor {
    #[default]
    Elsewhere,
    Own,
    Shared,
}

impl PausesTable {
    fn pauses(&self, network: &Network) -> Option<Pauses> {
        let traffic = match self.traffic {
            TrafficProcessor::Elsewhere => PausedTraffic::Never,
            TrafficProcessor::Own => PausedTraffic::Own,
            TrafficProcessor::Shared => PausedTraffic::Shared,
        };
        let laws = (self.interval.0.clone(), self.length.0.clone());
        self.enabled.then(|| Pauses::of_threads(network, laws, self.together, traffic))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RunTable {
    horizon: Duration,
    warm_up: Option<Duration>,
}

/// Interests of one trace at most: records are kept of all.
const INTERESTS_MAX: f64 = 20e6;

impl ModelFile {
    fn build(self, text: &str) -> Result<Model, FileError> {
        let run = self.run.get_ref();
        let horizon_ps = run.horizon.0 as u64;
        let warm_up_ps = run.warm_up.map_or(0, |warm_up| warm_up.0 as u64);
        if horizon_ps == 0 || horizon_ps > u64::MAX / 1000 || warm_up_ps >= horizon_ps {
            let reason = "a run has a horizon above zero, below 200 days, and a warm-up before it";
            return Err(FileError::at(text, Some(self.run.span()), reason));
        }
        let traffic = self.traffic(text)?;
        let common = self.forwarder.get_ref().common(self.services.services(), text)?;
        let mut network =
            self.forwarder.get_ref().assemble(&self.forwarder, common, &traffic, text)?;
        if let Some(fault) = network.fault() {
            return Err(FileError::at(text, Some(self.forwarder.span()), fault));
        }
        if let Some(spanned) = &self.pauses {
            network.pauses = spanned.get_ref().pauses(&network);
            let fault = network.fault().or_else(|| too_many_pauses(&network, horizon_ps));
            if let Some(fault) = fault {
                return Err(FileError::at(text, Some(spanned.span()), fault));
            }
        }
        let interests = total_rate(&network) * horizon_ps as f64;
        if interests > INTERESTS_MAX {
            let most = if FastEngine::refusal(&network).is_some() { "up to " } else { "" };
            let reason = format!(
                "a trace has {most}{interests:.0} Interests: at most {INTERESTS_MAX:.0} are kept"
            );
            return Err(FileError::at(text, Some(self.run.span()), reason));
        }
        let longest = longest_time(&network);
        if longest * interests.max(1.0) > TIME_MAX {
            let reason =
                "services, links or periods are too long: times of the trace exceed 11 days";
            return Err(FileError::at(text, Some(self.run.span()), reason));
        }
        let warnings = warnings(&network, interests);
        Ok(Model { network, horizon_ps, warm_up_ps, warnings })
    }

    fn traffic(&self, text: &str) -> Result<Traffic, FileError> {
        let sizes = [
            self.packets.interest.map_or(100.0, |size| size.0),
            self.packets.data.map_or(1300.0, |size| size.0),
            self.packets.nack.map_or(110.0, |size| size.0),
        ];
        let mut next_prefix = 0;
        let mut consumers = Vec::new();
        for spanned in &self.consumers {
            let table = spanned.get_ref();
            let wrong = |reason: &str| FileError::at(text, Some(spanned.span()), reason);
            let first_prefix = table.first_prefix.unwrap_or(next_prefix);
            let count = table.prefixes.map_or(1, |count| count.0);
            let zipf = table.zipf.unwrap_or(0.0);
            if !(zipf.is_finite() && zipf >= 0.0) {
                return Err(wrong("the exponent of zipf is not negative"));
            }
            if first_prefix as usize + count > PREFIXES_MAX {
                return Err(wrong("the numbers of prefixes are below 2^20"));
            }
            next_prefix = first_prefix + count as u32;
            let arrivals = table.arrivals(self.packets.lifetime_ps(), &wrong)?;
            consumers.push(Consumer { arrivals, first_prefix, prefix_cdf: zipf_cdf(count, zipf) });
        }
        if !(1..=PARTS_MAX).contains(&consumers.len()) {
            let reason = format!("a model has 1 to {PARTS_MAX} consumers");
            return Err(FileError::at(text, None, reason));
        }
        let link = |table: &Option<LinkTable>| {
            table.as_ref().map_or_else(LinkTable::wire, Clone::clone).link(sizes)
        };
        let [consumer_link, producer_link] =
            [link(&self.links.consumer), link(&self.links.producer)];
        Ok(Traffic {
            consumers,
            consumer_links: [consumer_link.clone(), consumer_link],
            producers: self.producers.count.map_or(1, |count| count.0),
            producer_links: [producer_link.clone(), producer_link],
            producer_capacity: self.producers.capacity.map_or(1 << 20, |count| count.0),
            lifetime_ps: self.packets.lifetime_ps(),
            producer_nack_ratio: self.producers.nack_ratio.0,
        })
    }
}

impl ServicesTable {
    fn services(&self) -> Services {
        let or_interest = |nack: &Option<DurationLaw>, interest: &DurationLaw| {
            nack.as_ref().unwrap_or(interest).0.clone()
        };
        let kinds = |table: &KindsTable| {
            [
                table.interest.0.clone(),
                table.data.0.clone(),
                or_interest(&table.nack, &table.interest),
            ]
        };
        let forward = &self.forward;
        Services {
            input: kinds(&self.input),
            forward: [
                forward.interest.0.clone(),
                forward.data.0.clone(),
                or_interest(&forward.nack, &forward.data),
            ],
            forward_hit: or_interest(&forward.hit, &forward.interest),
            output: kinds(&self.output),
            produce: self.produce.as_ref().map_or(Distribution::Constant(0.0), |law| law.0.clone()),
        }
    }
}

impl LinkTable {
    const fn wire() -> Self {
        Self { rate: None, delay: None, loss: Ratio(0.0), capacity: None }
    }

    fn link(&self, sizes: [f64; 3]) -> Link {
        let transmit =
            |bytes: f64| self.rate.map_or(0, |rate| (bytes * 8e12 / rate.0).round() as u64);
        Link {
            transmit_ps: sizes.map(transmit),
            delay_ps: self.delay.map_or(1, |delay| (delay.0 as u64).max(1)),
            loss: self.loss.0,
            capacity: self.capacity.map(|count| count.0),
            turns_ps: [1; 2],
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::distribution::{ErlangBranch, QuantileTable};

    pub(crate) const EXAMPLE: &str = r#"
[forwarder]
kind = "namewire"
workers = 2
hit-ratio = 0.1

[services]
produce = "10 ns"
[services.input]
interest = "100 ns"
data = "100 ns"
[services.forward]
interest = { exponential = "300 ns" }
data = { quantiles = ["100 ns", "200 ns", "400 ns"], tail = { probability = 0.01, mean = "1 us" } }
hit = "200 ns"
[services.output]
interest = "50 ns"
data = "50 ns"

[[consumers]]
rate = "1 M/s"
arrivals = "poisson"
prefixes = 64
zipf = 0.7

[links.producer]
rate = "100 Gbit/s"
delay = "20 us"

[run]
horizon = "10 ms"
warm-up = "1 ms"
"#;

    #[test]
    fn example_file_is_a_valid_model() {
        let page = include_str!("../../../../docs/model/reference.md");
        assert!(page.contains(EXAMPLE), "the page has another example");
        let model = Model::parse(EXAMPLE).unwrap();
        assert_eq!(model.network.stations.len(), 3);
        assert_eq!(model.horizon_ps, 10_000_000_000);
        assert_eq!(model.network.faces[1].outgoing.transmit_ps[1], 104_000);
        assert_eq!(model.warnings, Vec::<String>::new());
        let load = offered_load(&model.network);
        assert!(load.iter().all(|load| *load < 0.6), "{load:?}");
    }

    fn refused(from: &str, to: &str) -> FileError {
        assert!(EXAMPLE.contains(from), "{from}");
        Model::parse(&EXAMPLE.replacen(from, to, 1)).unwrap_err()
    }

    #[test]
    fn faults_have_a_line_and_a_reason() {
        let line =
            |needle: &str| EXAMPLE.lines().position(|line| line.contains(needle)).unwrap() + 1;
        for (from, to, place, reason) in [
            ("workers = 2", "worker = 2", "workers", "unknown field"),
            ("workers = 2", "workers = 0", "workers", "0 is not a count"),
            ("workers = 2", "workers = 1001", "workers", "a count from 1 to 1000"),
            (
                "rate = \"1 M/s\"",
                "rate = \"1 M/s\"\nfirst-prefix = 4294967295",
                "[[consumers]]",
                "below 2^20",
            ),
            ("hit-ratio = 0.1", "hit-ratio = nan", "hit-ratio", "not a ratio"),
            ("\"10 ns\"", "\"10 B\"", "produce", "unit \"B\""),
            ("\"10 ns\"", "10", "produce", "a duration such as"),
            ("exponential = \"300 ns\"", "exponential = \"0 ns\"", "exponential", "above zero"),
            ("\"200 ns\", \"400 ns\"", "\"500 ns\", \"400 ns\"", "quantiles", "ascending"),
            (
                "rate = \"1 M/s\"",
                "rate = \"1 M/s\"\ninterval = \"3 us\"",
                "[[consumers]]",
                "contradict",
            ),
            ("rate = \"1 M/s\"", "", "[[consumers]]", "a rate or an interval"),
            ("warm-up = \"1 ms\"", "warm-up = \"20 ms\"", "[run]", "warm-up before it"),
            ("horizon = \"10 ms\"", "horizon = \"1000 s\"", "[run]", "at most"),
            ("\"10 ns\"", "\"1000 s\"", "[run]", "exceed 11 days"),
            (
                "exponential = \"300 ns\"",
                "exponential = \"1e30 s\"",
                "exponential",
                "below 11 days",
            ),
            ("workers = 2", "workers = 2\ninput-threads = 1", "hit-ratio", "does not belong"),
        ] {
            let error = refused(from, to);
            assert!(error.reason.contains(reason), "{to}: {error}");
            assert_eq!(error.line, Some(line(place)), "{to}: {error}");
        }
    }

    #[test]
    fn pauses_are_those_of_the_file() {
        let with = |lines: &str| Model::parse(&format!("{EXAMPLE}\n[pauses]\n{lines}"));
        let both = "interval = { exponential = \"20 ms\" }\nlength = \"1.4 ms\"\n";
        let pauses = |lines: &str| with(&format!("{both}{lines}")).unwrap().network.pauses;
        let own = pauses("").unwrap();
        assert_eq!(own.interval, Distribution::Exponential { mean: 20e9 });
        assert_eq!(own.length, Distribution::Constant(1.4e9));
        assert_eq!((own.stations, own.consumers), (vec![Some(0), Some(1), None], vec![None]));
        let shared = pauses("traffic = \"shared\"").unwrap();
        let expected = (vec![Some(0), Some(1), Some(1)], vec![Some(0)]);
        assert_eq!((shared.stations, shared.consumers), expected);
        let together = pauses("together = true\ntraffic = \"own\"").unwrap();
        assert_eq!((together.stations, together.consumers), (vec![Some(0); 3], vec![Some(0)]));
        assert_eq!(pauses("enabled = false"), None);
        let changed = [("pauses.enabled".to_owned(), "false".to_owned())];
        let text = format!("{EXAMPLE}\n[pauses]\n{both}");
        assert_eq!(Model::parse_with(&text, &changed).unwrap().network.pauses, None);

        let first = EXAMPLE.lines().count() + 2;
        for (lines, line, reason) in [
            ("interval = \"20 ms\"\n", first, "missing field `length`"),
            ("interval = \"20 ms\"\nlength = \"1 B\"\n", first + 2, "unit \"B\""),
            ("interval = \"20 ms\"\nlength = 3\n", first + 2, "a duration such as"),
            ("interval = \"1 ns\"\nlength = \"1 ps\"\n", first, "pauses: at most"),
            ("interval = { exponential = \"0 s\" }\nlength = \"1 ms\"\n", first + 1, "above zero"),
            ("between = \"20 ms\"\n", first + 1, "unknown field"),
            (
                "interval = \"20 ms\"\nlength = \"1 ms\"\ntraffic = \"first\"\n",
                first + 3,
                "unknown variant",
            ),
        ] {
            let error = with(lines).unwrap_err();
            assert!(error.reason.contains(reason), "{lines}: {error}");
            assert_eq!(error.line, Some(line), "{lines}: {error}");
        }
        let window = EXAMPLE.replace(
            "rate = \"1 M/s\"\narrivals = \"poisson\"",
            "arrivals = \"window\"\npace = \"1 us\"",
        );
        let error = Model::parse(&format!("{window}\n[pauses]\n{both}traffic = \"own\"\n"));
        let error = error.unwrap_err();
        assert!(error.reason.contains("window does not pause"), "{error}");
        assert_eq!(error.line, Some(window.lines().count() + 2));
    }

    #[test]
    fn load_counts_what_pauses_take() {
        let paused = format!("{EXAMPLE}\n[pauses]\ninterval = \"1 ms\"\nlength = \"2 ms\"\n");
        let warnings = Model::parse(&paused).unwrap().warnings;
        assert!(warnings.iter().any(|warning| warning.contains("unstable")), "{warnings:?}");
    }

    #[test]
    fn an_overloaded_model_carries_a_warning() {
        let model = Model::parse(&EXAMPLE.replace("1 M/s", "9 M/s")).unwrap();
        assert!(model.warnings.iter().any(|w| w.contains("unstable")), "{:?}", model.warnings);
    }

    #[test]
    fn keys_can_be_changed_for_a_sweep() {
        let change = |key: &str, value: &str| {
            Model::parse_with(EXAMPLE, &[(key.to_owned(), value.to_owned())])
        };
        assert_eq!(change("forwarder.workers", "4").unwrap().network.shards.len(), 4);
        let faster = change("consumers.0.rate", "2 M/s").unwrap();
        assert!((total_rate(&faster.network) - 2e-6).abs() < 1e-12);
        assert!(change("forwarder.nothing", "4").unwrap_err().reason.contains("unknown field"));
        assert!(
            change("nothing.workers", "4").unwrap_err().reason.contains("no `nothing.workers`")
        );
        assert!(change("consumers.7.rate", "2 M/s").is_err());
    }

    #[test]
    fn a_fit_is_printed_as_a_model_file_reads_it() {
        let laws = [
            Distribution::Constant(400e3),
            Distribution::Exponential { mean: 400e3 },
            Distribution::Gamma { shape: 2.5, scale: 100e3 },
            Distribution::Weibull { shape: 1.5, scale: 100e3 },
            Distribution::Lognormal { mu: 12.0, sigma: 0.5 },
            Distribution::HyperErlang(vec![
                ErlangBranch { weight: 0.25, phases: 2, mean: 100e3 },
                ErlangBranch { weight: 0.75, phases: 1, mean: 300e3 },
            ]),
            Distribution::Empirical(QuantileTable {
                quantiles: vec![100e3, 200e3, 400e3],
                tail_probability: 0.01,
                tail_mean: 100e3,
            }),
        ];
        for distribution in laws {
            let text = format!(
                "[forwarder]\nkind = \"ndn-dpdk\"\n[services]\ninput = {{ interest = {law}, data = \"1 ns\" }}\n\
                 forward = {{ interest = \"1 ns\", data = \"1 ns\" }}\n\
                 output = {{ interest = \"1 ns\", data = \"1 ns\" }}\n\
                 [[consumers]]\nrate = \"1 M/s\"\n[run]\nhorizon = \"1 ms\"\n",
                law = law(&distribution)
            );
            let read = Model::parse(&text).unwrap().network.services.input[0].clone();
            assert!(
                (read.mean() / distribution.mean() - 1.0).abs() < 1e-4,
                "{distribution:?} {read:?}"
            );
        }
    }
}
