//! Model files: TOML with units. Every error names a line and a reason.

use core::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_spanned::Spanned;

use crate::assembly::{
    Common, Dispatch, ForwardingQueues, Namewire, NdnDpdk, Placement, Traffic, namewire_overload,
    zipf_cdf,
};
use crate::distribution::{Distribution, ErlangBranch, QuantileTable};
use crate::fast::FastEngine;
use crate::network::{
    Arrivals, Consumer, Kind, Link, Network, PausedTraffic, Pauses, QueueManagement, Services,
    Shed, Stage, Window,
};
use crate::units;

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

/// An error in a model file, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// Line from 1, if known.
    pub line: Option<usize>,
    /// Column from 1, if known.
    pub column: Option<usize>,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => {
                write!(f, "line {line}, column {column}: {}", self.reason)
            }
            _ => f.write_str(&self.reason),
        }
    }
}

impl core::error::Error for FileError {}

impl FileError {
    fn at(text: &str, span: Option<core::ops::Range<usize>>, reason: impl Into<String>) -> Self {
        let place = span.map(|span| {
            let before = &text[..span.start.min(text.len())];
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
            (line, column)
        });
        Self { line: place.map(|p| p.0), column: place.map(|p| p.1), reason: reason.into() }
    }
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

macro_rules! quantity {
    ($name:ident, $parse:path, $least:expr, $most:expr, $reason:literal) => {
        #[derive(Debug, Clone, Copy, PartialEq)]
        struct $name(f64);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let value = $parse(&text).map_err(de::Error::custom)?;
                if !($least..=$most).contains(&value) {
                    return Err(de::Error::custom(format!("\"{text}\": {}", $reason)));
                }
                Ok(Self(value))
            }
        }
    };
}

quantity!(Duration, units::duration_ps, 0.0, TIME_MAX, "a duration is below 11 days");
quantity!(Rate, units::rate, 1e-6, 1e12, "a rate is above zero, at most 1000 G/s");
quantity!(BitRate, units::bit_rate, 1.0, 1e15, "a bit rate is at least 1 bit/s");
quantity!(Size, units::size, 0.0, 1e6, "a size is at most 1 MB");

/// A number of things, at least one.
#[derive(Debug, Clone, Copy)]
struct Count<const MAX: usize = 100_000_000>(usize);

/// A number of threads, producers or phases: each of them takes memory, or time.
type FewCount = Count<PARTS_MAX>;

/// Threads, consumers and producers at most; their numbers have 16 bits.
const PARTS_MAX: usize = 1000;
/// Prefixes of a consumer at most, and numbers of prefixes.
const PREFIXES_MAX: usize = 1 << 20;

impl<'de, const MAX: usize> Deserialize<'de> for Count<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = i64::deserialize(deserializer)?;
        match usize::try_from(value) {
            Ok(count) if (1..=MAX).contains(&count) => Ok(Self(count)),
            _ => Err(de::Error::custom(format!("{value} is not a count from 1 to {MAX}"))),
        }
    }
}

/// The count at a key of the file, or what it is without one.
fn count<const MAX: usize>(value: &Option<Spanned<Count<MAX>>>, default: usize) -> usize {
    value.as_ref().map_or(default, |spanned| spanned.get_ref().0)
}

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, Default)]
struct Ratio(f64);

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        if !(0.0..=1.0).contains(&value) {
            return Err(de::Error::custom(format!("{value} is not a ratio from 0 to 1")));
        }
        Ok(Self(value))
    }
}

/// A distribution of durations: `"700 ns"`, or a table with one family.
#[derive(Debug, Clone)]
struct DurationLaw(Distribution);

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct LawTable {
    exponential: Option<Duration>,
    uniform: Option<[Duration; 2]>,
    weibull: Option<ShapeScale>,
    gamma: Option<ShapeScale>,
    lognormal: Option<MedianSigma>,
    hyper_erlang: Option<Vec<BranchTable>>,
    quantiles: Option<Vec<Duration>>,
    tail: Option<TailTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShapeScale {
    shape: f64,
    scale: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MedianSigma {
    median: Duration,
    sigma: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BranchTable {
    weight: Ratio,
    phases: FewCount,
    mean: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TailTable {
    probability: Ratio,
    mean: Duration,
}

impl<'de> Deserialize<'de> for DurationLaw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LawVisitor;
        impl<'de> Visitor<'de> for LawVisitor {
            type Value = Distribution;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"700 ns\", or a table such as { exponential = \"700 ns\" }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Distribution, E> {
                units::duration_ps(text).map(Distribution::Constant).map_err(E::custom)
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Distribution, M::Error> {
                let table = LawTable::deserialize(de::value::MapAccessDeserializer::new(map))?;
                table.distribution().map_err(de::Error::custom)
            }
        }
        let law = deserializer.deserialize_any(LawVisitor)?;
        match law.fault() {
            Some(fault) => Err(de::Error::custom(fault)),
            None => Ok(Self(law)),
        }
    }
}

impl LawTable {
    fn distribution(self) -> Result<Distribution, String> {
        let tail = self.tail.map_or((0.0, 0.0), |tail| (tail.probability.0, tail.mean.0));
        let has_quantiles = self.quantiles.is_some();
        let mut laws = Vec::new();
        laws.extend(self.exponential.map(|mean| Distribution::Exponential { mean: mean.0 }));
        laws.extend(
            self.uniform.map(|[low, high]| Distribution::Uniform { low: low.0, high: high.0 }),
        );
        laws.extend(
            self.weibull.map(|w| Distribution::Weibull { shape: w.shape, scale: w.scale.0 }),
        );
        laws.extend(self.gamma.map(|g| Distribution::Gamma { shape: g.shape, scale: g.scale.0 }));
        laws.extend(
            self.lognormal
                .map(|l| Distribution::Lognormal { mu: libm::log(l.median.0), sigma: l.sigma }),
        );
        laws.extend(self.hyper_erlang.map(|branches| {
            let branch = |b: &BranchTable| ErlangBranch {
                weight: b.weight.0,
                phases: b.phases.0 as u32,
                mean: b.mean.0,
            };
            Distribution::HyperErlang(branches.iter().map(branch).collect())
        }));
        laws.extend(self.quantiles.map(|quantiles| {
            Distribution::Empirical(QuantileTable {
                quantiles: quantiles.iter().map(|q| q.0).collect(),
                tail_probability: tail.0,
                tail_mean: tail.1,
            })
        }));
        if tail.0 > 0.0 && !has_quantiles {
            return Err("a tail belongs to quantiles".into());
        }
        match (laws.pop(), laws.is_empty()) {
            (Some(law), true) => Ok(law),
            (None, _) => {
                Err("no family is given: exponential, uniform, weibull, gamma, lognormal, \
                              hyper-erlang or quantiles"
                    .into())
            }
            (Some(_), false) => Err("more than one family is given".into()),
        }
    }
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

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum ForwarderKind {
    Namewire,
    NdnDpdk,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ForwarderTable {
    kind: ForwarderKind,
    workers: Option<Spanned<FewCount>>,
    input_workers: Option<Spanned<usize>>,
    ring_capacity: Option<Spanned<Count>>,
    ring_burst: Option<Spanned<Count>>,
    answers_first: Option<Spanned<bool>>,
    overload: Option<Spanned<ManagementTable>>,
    input_threads: Option<Spanned<FewCount>>,
    forwarding_threads: Option<Spanned<FewCount>>,
    output_threads: Option<Spanned<FewCount>>,
    queues: Option<Spanned<QueuesKind>>,
    queue_capacity: Option<Spanned<Count>>,
    bursts: Option<Spanned<[Count; 3]>>,
    burst: Option<Spanned<Count>>,
    codel: Option<Spanned<ManagementTable>>,
    output_capacity: Option<Spanned<Count>>,
    output_burst: Option<Spanned<Count>>,
    placement: Option<PlacementName>,
    remote_factor: Option<Spanned<f64>>,
    dispatch: Option<Spanned<DispatchTable>>,
    pit_capacity: Option<Count>,
    #[serde(default)]
    hit_ratio: Ratio,
    poll: Option<Duration>,
    nic_capacity: Option<Count>,
    nic_burst: Option<Count>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum QueuesKind {
    Shared,
    ByKind,
}

#[derive(Deserialize, Clone, Copy)]
enum PlacementName {
    P1,
    P2,
    P3,
    P4,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ManagementTable {
    mark_after: Option<Duration>,
    refuse_after: Option<Duration>,
    refuse_by: Option<RefuseBy>,
    interval: Duration,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum RefuseBy {
    Nack,
    Drop,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct DispatchTable {
    #[serde(default)]
    balanced: bool,
    salt: Option<u64>,
    shards: Option<Vec<u16>>,
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

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ConsumerTable {
    rate: Option<Rate>,
    interval: Option<DurationLaw>,
    #[serde(default)]
    arrivals: ArrivalsKind,
    on: Option<DurationLaw>,
    off: Option<DurationLaw>,
    times: Option<Vec<Duration>>,
    first_prefix: Option<u32>,
    prefixes: Option<Count>,
    zipf: Option<f64>,
    window: Option<Count>,
    window_max: Option<Count>,
    slow_start: Option<Count>,
    control: Option<ControlKind>,
    decrease: Option<Ratio>,
    pace: Option<Duration>,
    timeout: Option<Duration>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum ControlKind {
    Aimd,
    None,
}

#[derive(Deserialize, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum ArrivalsKind {
    #[default]
    Fixed,
    Poisson,
    OnOff,
    Trace,
    Window,
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
    Last,
}

impl PausesTable {
    fn pauses(&self, network: &Network) -> Option<Pauses> {
        let traffic = match self.traffic {
            TrafficProcessor::Elsewhere => PausedTraffic::Never,
            TrafficProcessor::Own => PausedTraffic::Own,
            TrafficProcessor::Last => PausedTraffic::Last,
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

/// Picoseconds that times may reach: 11 days.
const TIME_MAX: f64 = 1e18;

/// Interests of one trace at most: records are kept of all.
const INTERESTS_MAX: f64 = 20e6;
/// Pauses of all processors in a trace, at most.
const PAUSES_MAX: f64 = 10e6;

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
        let common = self.common(text)?;
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

    fn common(&self, text: &str) -> Result<Common, FileError> {
        let table = self.forwarder.get_ref();
        let remote_factor = table.remote_factor.as_ref().map_or(1.0, |factor| *factor.get_ref());
        if !(remote_factor.is_finite() && remote_factor > 0.0) {
            let span = table.remote_factor.as_ref().map(Spanned::span);
            return Err(FileError::at(text, span, "a factor is finite and above zero"));
        }
        let dispatch = match &table.dispatch {
            None => Dispatch::Hash { salt: 0 },
            Some(spanned) => match spanned.get_ref() {
                DispatchTable { balanced: true, salt: None, shards: None } => Dispatch::Balanced,
                DispatchTable { balanced: false, salt: Some(salt), shards: None } => {
                    Dispatch::Hash { salt: *salt }
                }
                DispatchTable { balanced: false, salt: None, shards: Some(shards) } => {
                    Dispatch::Given(shards.clone())
                }
                DispatchTable { .. } => {
                    let reason = "dispatch is one of balanced = true, salt = NUMBER, shards = [..]";
                    return Err(FileError::at(text, Some(spanned.span()), reason));
                }
            },
        };
        Ok(Common {
            services: self.services.services(),
            placement: match table.placement {
                None | Some(PlacementName::P1) => Placement::P1,
                Some(PlacementName::P2) => Placement::P2,
                Some(PlacementName::P3) => Placement::P3,
                Some(PlacementName::P4) => Placement::P4,
            },
            remote_factor,
            dispatch,
            pit_capacity: table.pit_capacity.map(|count| count.0),
            hit_ratio: table.hit_ratio.0,
            poll_ps: table.poll.map_or(0, |poll| poll.0 as u64),
            nic_capacity: table.nic_capacity.map_or(4096, |count| count.0),
            nic_burst: table.nic_burst.map_or(64, |count| count.0),
        })
    }
}

impl ForwarderTable {
    /// The first key that belongs to the other kind of forwarder.
    fn foreign_key(&self) -> Option<(&'static str, core::ops::Range<usize>)> {
        macro_rules! keys {
            ($($field:ident),*) => {
                [$((stringify!($field), self.$field.as_ref().map(Spanned::span))),*]
                    .into_iter()
                    .find_map(|(name, span)| span.map(|span| (name, span)))
            };
        }
        match self.kind {
            ForwarderKind::Namewire => keys!(
                input_threads,
                forwarding_threads,
                output_threads,
                queues,
                queue_capacity,
                bursts,
                burst,
                codel,
                output_capacity,
                output_burst
            ),
            ForwarderKind::NdnDpdk => {
                keys!(workers, input_workers, ring_capacity, ring_burst, answers_first, overload)
            }
        }
    }

    fn assemble(
        &self,
        spanned: &Spanned<Self>,
        common: Common,
        traffic: &Traffic,
        text: &str,
    ) -> Result<Network, FileError> {
        if let Some((key, span)) = self.foreign_key() {
            let reason =
                format!("`{}` does not belong to this kind of forwarder", key.replace('_', "-"));
            return Err(FileError::at(text, Some(span), reason));
        }
        let wrong = |reason: &str| FileError::at(text, Some(spanned.span()), reason);
        let prefixes =
            traffic.consumers.iter().map(|c| c.first_prefix as usize + c.prefix_cdf.len()).max();
        if let Dispatch::Given(shards) = &common.dispatch
            && Some(shards.len()) != prefixes
        {
            return Err(wrong("dispatch.shards has one shard for each prefix"));
        }
        if self.kind == ForwarderKind::NdnDpdk {
            return self.assemble_ndn_dpdk(common, traffic, text);
        }
        let workers = count(&self.workers, 1);
        let input_workers = self.input_workers.as_ref().map_or(0, |count| *count.get_ref());
        if input_workers >= workers {
            let span = self.input_workers.as_ref().map(Spanned::span);
            return Err(FileError::at(
                text,
                span,
                "some worker has to forward: input-workers is below workers",
            ));
        }
        let overload = match &self.overload {
            None => namewire_overload(),
            Some(spanned) => spanned.get_ref().management(spanned, text)?,
        };
        let namewire = Namewire {
            common,
            workers,
            input_workers,
            ring_capacity: count(&self.ring_capacity, 4096),
            ring_burst: count(&self.ring_burst, 64),
            overload: Some(overload),
            answers_first: self.answers_first.as_ref().is_none_or(|value| *value.get_ref()),
        };
        Ok(namewire.assemble(traffic))
    }

    fn assemble_ndn_dpdk(
        &self,
        common: Common,
        traffic: &Traffic,
        text: &str,
    ) -> Result<Network, FileError> {
        let capacity = count(&self.queue_capacity, 4096);
        let is_shared =
            self.queues.as_ref().is_some_and(|kind| *kind.get_ref() == QueuesKind::Shared);
        let queues = if is_shared {
            if let Some(bursts) = &self.bursts {
                return Err(FileError::at(
                    text,
                    Some(bursts.span()),
                    "a shared queue has one `burst`",
                ));
            }
            if let Some(codel) = &self.codel {
                return Err(FileError::at(text, Some(codel.span()), "a shared queue has no CoDel"));
            }
            ForwardingQueues::Shared { capacity, burst: count(&self.burst, 64) }
        } else {
            if let Some(burst) = &self.burst {
                return Err(FileError::at(
                    text,
                    Some(burst.span()),
                    "queues by kind have three `bursts`",
                ));
            }
            let bursts =
                self.bursts.as_ref().map_or([48, 64, 64], |b| b.get_ref().map(|count| count.0));
            let management = match &self.codel {
                None => None,
                Some(spanned) => Some(spanned.get_ref().management(spanned, text)?),
            };
            ForwardingQueues::ByKind { capacity, bursts, management }
        };
        let forwarder = NdnDpdk {
            common,
            input_threads: count(&self.input_threads, 1),
            forwarding_threads: count(&self.forwarding_threads, 1),
            output_threads: count(&self.output_threads, 1),
            queues,
            output_capacity: count(&self.output_capacity, 4096),
            output_burst: count(&self.output_burst, 64),
        };
        Ok(forwarder.assemble(traffic))
    }
}

impl ManagementTable {
    fn management(
        &self,
        spanned: &Spanned<Self>,
        text: &str,
    ) -> Result<QueueManagement, FileError> {
        if self.interval.0 < 1.0 || (self.refuse_by.is_some() && self.refuse_after.is_none()) {
            let reason = "an interval above zero; refuse-by only with refuse-after";
            return Err(FileError::at(text, Some(spanned.span()), reason));
        }
        let shed = match self.refuse_by {
            Some(RefuseBy::Drop) => Shed::Drop,
            Some(RefuseBy::Nack) | None => Shed::Nack,
        };
        Ok(QueueManagement {
            mark_after_ps: self.mark_after.map(|after| after.0 as u64),
            shed_after_ps: self.refuse_after.map(|after| (after.0 as u64, shed)),
            interval_ps: self.interval.0 as u64,
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

/// Window at the beginning without one in the file, as `ndncatchunks` has.
const WINDOW_INITIAL: usize = 2;
/// Interests in flight at most without a limit in the file.
const WINDOW_MAX: usize = 1024;

impl ConsumerTable {
    /// The first key that belongs to a window.
    fn window_key(&self) -> Option<&'static str> {
        let keys = [
            ("window", self.window.is_some()),
            ("window-max", self.window_max.is_some()),
            ("slow-start", self.slow_start.is_some()),
            ("control", self.control.is_some()),
            ("decrease", self.decrease.is_some()),
            ("pace", self.pace.is_some()),
            ("timeout", self.timeout.is_some()),
        ];
        keys.iter().find(|(_, is_given)| *is_given).map(|(key, _)| *key)
    }

    fn window(
        &self,
        lifetime_ps: u64,
        wrong: &impl Fn(&str) -> FileError,
    ) -> Result<Window, FileError> {
        if self.rate.is_some() || self.interval.is_some() || self.times.is_some() {
            return Err(wrong("with a window, answers set the rate: no rate, interval or times"));
        }
        let is_controlled = self.control != Some(ControlKind::None);
        if !is_controlled && (self.slow_start.is_some() || self.decrease.is_some()) {
            return Err(wrong("`slow-start` and `decrease` belong to control = \"aimd\""));
        }
        let initial = self.window.map_or(WINDOW_INITIAL, |count| count.0);
        let most = self.window_max.map_or(WINDOW_MAX.max(initial), |count| count.0);
        if most < initial {
            return Err(wrong("window-max is not below window"));
        }
        let decrease = self.decrease.map_or(0.5, |factor| factor.0);
        if decrease <= 0.0 {
            return Err(wrong("a decrease is a factor above 0, up to 1"));
        }
        let timeout_ps = self.timeout.map_or(lifetime_ps, |timeout| timeout.0 as u64);
        if timeout_ps == 0 {
            return Err(wrong("a timeout is above zero"));
        }
        Ok(Window {
            initial: initial as f64,
            most: most as f64,
            is_controlled,
            threshold: self.slow_start.map_or(most, |count| count.0) as f64,
            decrease,
            pace_ps: self.pace.map_or(1, |pace| (pace.0 as u64).max(1)),
            timeout_ps,
        })
    }

    fn arrivals(
        &self,
        lifetime_ps: u64,
        wrong: &impl Fn(&str) -> FileError,
    ) -> Result<Arrivals, FileError> {
        if self.arrivals != ArrivalsKind::OnOff && (self.on.is_some() || self.off.is_some()) {
            return Err(wrong("`on` and `off` belong to arrivals = \"on-off\""));
        }
        if self.arrivals == ArrivalsKind::Window {
            return self.window(lifetime_ps, wrong).map(Arrivals::Window);
        }
        if let Some(key) = self.window_key() {
            return Err(wrong(&format!("`{key}` belongs to arrivals = \"window\"")));
        }
        if self.arrivals == ArrivalsKind::Trace {
            let Some(times) = &self.times else { return Err(wrong("a trace has `times`")) };
            if self.rate.is_some() || self.interval.is_some() {
                return Err(wrong("a trace has neither a rate nor an interval"));
            }
            let times: Vec<u64> = times.iter().map(|time| time.0 as u64).collect();
            if !times.is_sorted() {
                return Err(wrong("the times of a trace are ascending"));
            }
            return Ok(Arrivals::Trace(times));
        }
        if self.times.is_some() {
            return Err(wrong("`times` belong to arrivals = \"trace\""));
        }
        let law = match (&self.rate, &self.interval) {
            (Some(rate), None) => Distribution::Constant(1e12 / rate.0),
            (None, Some(law)) => law.0.clone(),
            (Some(_), Some(_)) => {
                return Err(wrong("a rate and an interval contradict each other: give one"));
            }
            (None, None) => return Err(wrong("a consumer has a rate or an interval")),
        };
        if law.mean() < 1.0 {
            return Err(wrong("an interval between Interests is at least 1 ps"));
        }
        match (self.arrivals, &self.on, &self.off) {
            (ArrivalsKind::Poisson, ..) => {
                Ok(Arrivals::Renewal(Distribution::Exponential { mean: law.mean() }))
            }
            (ArrivalsKind::OnOff, Some(on), Some(off)) => Ok(Arrivals::OnOff {
                interval_ps: law.mean() as u64,
                on: on.0.clone(),
                off: off.0.clone(),
            }),
            (ArrivalsKind::OnOff, ..) => Err(wrong("on-off arrivals have `on` and `off`")),
            (ArrivalsKind::Fixed | ArrivalsKind::Trace | ArrivalsKind::Window, ..) => {
                Ok(Arrivals::Renewal(law))
            }
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

/// The longest mean service, transmission, delay, on- or off-period, or pace.
fn longest_time(network: &Network) -> f64 {
    let services = network.services.all().map(Distribution::mean);
    let links = network.faces.iter().flat_map(|face| [&face.incoming, &face.outgoing]);
    let links = links.flat_map(|link| link.transmit_ps.into_iter().chain([link.delay_ps]));
    let periods = network.consumers.iter().flat_map(|consumer| match &consumer.arrivals {
        Arrivals::OnOff { on, off, .. } => [on.mean(), off.mean()],
        Arrivals::Window(window) => [window.pace_ps as f64, 0.0],
        Arrivals::Renewal(_) | Arrivals::Trace(_) => [0.0, 0.0],
    });
    let pauses = network.pauses.iter().map(|pauses| pauses.length.mean());
    let times = services.chain(links.map(|time| time as f64)).chain(periods).chain(pauses);
    times.fold(0.0, f64::max)
}

/// The reason why pauses are too many for a trace, if they are.
fn too_many_pauses(network: &Network, horizon_ps: u64) -> Option<String> {
    let pauses = network.pauses.as_ref()?;
    let each = horizon_ps as f64 / (pauses.interval.mean() + pauses.length.mean()).max(1.0);
    let count = each * pauses.processors() as f64;
    let reason = || format!("a trace has {count:.0} pauses: at most {PAUSES_MAX:.0} are kept");
    (count > PAUSES_MAX).then(reason)
}

/// Mean Interests per picosecond of a consumer; 0 of one with a window, which sends what the others leave.
fn rate_of(arrivals: &Arrivals) -> f64 {
    match arrivals {
        Arrivals::Window(_) => 0.0,
        Arrivals::Renewal(interval) => 1.0 / interval.mean(),
        Arrivals::OnOff { interval_ps, on, off } => {
            let share = on.mean() / (on.mean() + off.mean());
            share / *interval_ps as f64
        }
        Arrivals::Trace(times) => {
            times.len() as f64 / times.last().map_or(1.0, |last| (*last).max(1) as f64)
        }
    }
}

/// Interests per picosecond of all consumers; at most, of those with a window.
fn total_rate(network: &Network) -> f64 {
    let rate = |(face, consumer): (usize, &Consumer)| match &consumer.arrivals {
        Arrivals::Window(window) => {
            let by_window = window.most / shortest_round_trip(network, face);
            by_window.min(1.0 / window.pace_ps as f64)
        }
        arrivals @ (Arrivals::Renewal(_) | Arrivals::OnOff { .. } | Arrivals::Trace(_)) => {
            rate_of(arrivals)
        }
    };
    network.consumers.iter().enumerate().map(rate).sum()
}

/// The mean time from an Interest on the face of a consumer to its Data where nobody waits, by the shortest way.
fn shortest_round_trip(network: &Network, face: usize) -> f64 {
    let services = &network.services;
    let both_ways = |face: usize| {
        let face = &network.faces[face];
        let interest = |link: &Link| (link.delay_ps + link.transmit_ps[0]) as f64;
        let data = |link: &Link| (link.delay_ps + link.transmit_ps[1]) as f64;
        match face.peer {
            crate::network::Peer::Consumer(_) => interest(&face.incoming) + data(&face.outgoing),
            crate::network::Peer::Producer(_) => interest(&face.outgoing) + data(&face.incoming),
        }
    };
    let ends = both_ways(face) + services.input[0].mean() + services.output[1].mean();
    if network.hit_ratio > 0.0 {
        return ends + services.forward_hit.mean();
    }
    let producers = network.consumers.len()..network.faces.len();
    let producer = producers.map(both_ways).fold(f64::INFINITY, f64::min);
    let forwarding = services.forward[0].mean() + services.forward[1].mean();
    let middle = services.output[0].mean() + services.produce.mean() + services.input[1].mean();
    ends + producer + forwarding + middle
}

/// Load that is offered to each station, as a fraction of its time, if nothing is lost.
#[must_use]
pub fn offered_load(network: &Network) -> Vec<f64> {
    let services = &network.services;
    let hit = network.hit_ratio;
    let answer = |kinds: &[Distribution; 3]| {
        let nack = network.producer_nack_ratio;
        (1.0 - nack) * kinds[Kind::Data as usize].mean() + nack * kinds[Kind::Nack as usize].mean()
    };
    let mut load = vec![0.0; network.stations.len()];
    for (face, consumer) in network.consumers.iter().enumerate() {
        let rate = rate_of(&consumer.arrivals);
        let mut before = 0.0;
        for (offset, cumulative) in consumer.prefix_cdf.iter().enumerate() {
            let share = rate * (cumulative - before);
            before = *cumulative;
            let prefix = consumer.first_prefix + offset as u32;
            let client = &network.faces[face];
            let server = &network.faces[network.producer_face(prefix)];
            let shard = &network.shards[usize::from(network.shard_of_prefix[prefix as usize])];
            let mut add =
                |queue: usize, time: f64| load[network.queues[queue].station] += share * time;
            let miss = 1.0 - hit;
            add(client.input_queue, services.input[0].mean() * client.input_factor);
            let interest = hit * services.forward_hit.mean() + miss * services.forward[0].mean();
            add(shard.queues[0], interest * shard.forward_factor[0]);
            add(server.output_queue, miss * services.output[0].mean() * server.output_factor);
            add(server.input_queue, miss * answer(&services.input) * server.input_factor);
            add(shard.queues[1], miss * answer(&services.forward) * shard.forward_factor[1]);
            add(client.output_queue, answer(&services.output) * client.output_factor);
            if let crate::network::Peer::Producer(queue) = server.peer {
                add(queue, miss * services.produce.mean());
            }
        }
    }
    load
}

fn warnings(network: &Network, interests: f64) -> Vec<String> {
    let mut warnings = Vec::new();
    for ((id, station), load) in network.stations.iter().enumerate().zip(offered_load(network)) {
        let pauses = network.pauses.as_ref().filter(|pauses| pauses.stations[id].is_some());
        let load = load / (1.0 - pauses.map_or(0.0, Pauses::share));
        if load >= 1.0 {
            warnings.push(format!(
                "{}: offered load {load:.2}: its queues are unstable, and results depend on the horizon",
                station.name
            ));
        }
    }
    if let Some(reason) = FastEngine::refusal(network) {
        warnings.push(format!("simulated by the reference engine, which is slower: {reason}"));
    }
    if interests < 1000.0 {
        warnings
            .push(format!("a trace has about {interests:.0} Interests: ratios of it are coarse"));
    }
    let produces = network.queues.iter().filter(|queue| queue.stage == Stage::Produce).count();
    debug_assert_eq!(produces, network.producer_count(), "each producer has a queue");
    warnings
}

/// A distribution as a model file writes it.
#[must_use]
pub fn law(distribution: &Distribution) -> String {
    let ns = |ps: f64| format!("\"{:.3} ns\"", ps / 1e3);
    match distribution {
        Distribution::Constant(value) => ns(*value),
        Distribution::Exponential { mean } => format!("{{ exponential = {} }}", ns(*mean)),
        Distribution::Uniform { low, high } => {
            format!("{{ uniform = [{}, {}] }}", ns(*low), ns(*high))
        }
        Distribution::Weibull { shape, scale } => {
            format!("{{ weibull = {{ shape = {shape:?}, scale = {} }} }}", ns(*scale))
        }
        Distribution::Gamma { shape, scale } => {
            format!("{{ gamma = {{ shape = {shape:?}, scale = {} }} }}", ns(*scale))
        }
        Distribution::Lognormal { mu, sigma } => {
            format!("{{ lognormal = {{ median = {}, sigma = {sigma:?} }} }}", ns(mu.exp()))
        }
        Distribution::HyperErlang(branches) => {
            let branch = |b: &ErlangBranch| {
                format!(
                    "{{ weight = {:?}, phases = {}, mean = {} }}",
                    b.weight,
                    b.phases,
                    ns(b.mean)
                )
            };
            let branches: Vec<String> = branches.iter().map(branch).collect();
            format!("{{ hyper-erlang = [{}] }}", branches.join(", "))
        }
        Distribution::Empirical(table) => {
            let quantiles: Vec<String> = table.quantiles.iter().map(|q| ns(*q)).collect();
            format!(
                "{{ quantiles = [{}], tail = {{ probability = {:?}, mean = {} }} }}",
                quantiles.join(", "),
                table.tail_probability,
                ns(table.tail_mean)
            )
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

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
        let page = include_str!("../../../docs/model/reference.md");
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
        let shared = pauses("traffic = \"last\"").unwrap();
        let expected = (vec![Some(0), Some(1), Some(1)], vec![Some(1)]);
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
