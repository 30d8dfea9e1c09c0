//! Scenarios: what to send and how to answer, read from a TOML file.

use std::fmt;
use std::time::Duration;

use ndn_packet::Name;
use ndn_types::{ByteSize, duration_of_number, parse_duration, size_of_number};
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};
use thiserror::Error;

/// Maximum number of patterns in a scenario.
const PATTERNS_MAX: usize = 1024;
/// Maximum number of distinct names of a repeating pattern.
const NAMES_MAX: u32 = 1 << 20;
/// Maximum number of Interests in flight, in a closed or an open loop.
const OUTSTANDING_MAX: u32 = 1 << 20;
/// Maximum number of Interests in a burst.
const BURST_MAX: u32 = 1024;
/// Maximum number of components of a name, so that a template has room.
const COMPONENTS_MAX: usize = 64;
/// Maximum content length, so that Data fits a packet.
const PAYLOAD_MAX: usize = 8000;
/// Maximum length of a prefix in bytes.
const PREFIX_LEN_MAX: usize = 400;

/// Why a scenario is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScenarioError {
    /// Too few or too many patterns.
    #[error("a scenario has 1 to {PATTERNS_MAX} patterns")]
    PatternCount,
    /// The prefix of a pattern is not a name, or too long.
    #[error("{0:?} is not a name of up to {PREFIX_LEN_MAX} bytes")]
    Prefix(String),
    /// A number is out of range.
    #[error("pattern {prefix}: {what}")]
    Pattern {
        /// Prefix of the pattern.
        prefix: String,
        /// The allowed range.
        what: &'static str,
    },
    /// The load is invalid.
    #[error("{0}")]
    Load(&'static str),
}

/// When Interests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Number of Interests in flight over all faces; each end makes room for the next.
    Window(u32),
    /// Open loop: a fixed rate, independent of answers.
    Rate {
        /// Interests per second.
        per_second: f64,
        /// Distribution in time.
        arrivals: Arrivals,
    },
}

/// Distribution in time of the Interests of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// At even intervals.
    #[default]
    Fixed,
    /// A Poisson process.
    Poisson,
}

/// The last component of each name.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Names {
    /// No name is repeated.
    #[default]
    Unique,
    /// Drawn from `count` names, rank r with a frequency proportional to r^-exponent.
    Zipf {
        /// Number of distinct names.
        count: u32,
        /// Exponent, not negative.
        exponent: f64,
    },
    /// `count` names in turn.
    Repeated {
        /// Number of distinct names.
        count: u32,
    },
}

/// Interests of one kind.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConsumerPattern {
    /// Prefix of the names.
    pub prefix: String,
    /// Share of the Interests, relative to the other patterns.
    pub weight: f64,
    /// Components of a whole name; 0: those of the prefix, and one.
    pub components: usize,
    /// The last component.
    pub names: Names,
    /// CanBePrefix.
    pub can_be_prefix: bool,
    /// MustBeFresh.
    pub must_be_fresh: bool,
    /// InterestLifetime in milliseconds, after which an Interest times out. In a file `lifetime`, with its unit.
    #[serde(rename = "lifetime", deserialize_with = "milliseconds")]
    pub lifetime_ms: u32,
    /// HopLimit.
    pub hop_limit: Option<u8>,
}

impl Default for ConsumerPattern {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            weight: 1.0,
            components: 0,
            names: Names::Unique,
            can_be_prefix: false,
            must_be_fresh: false,
            lifetime_ms: 4000,
            hop_limit: None,
        }
    }
}

/// Scenario of a consumer.
#[derive(Debug, Clone, PartialEq)]
pub struct ConsumerScenario {
    /// Kinds of Interests.
    pub patterns: Vec<ConsumerPattern>,
    /// When to send.
    pub load: Load,
    /// Faces over which the Interests are distributed in turn.
    pub faces: u32,
    /// Interests of an open loop that are due at one time, sent on one face unless that accepts
    /// nothing: 1, or a train as sent by a fetcher with a window.
    pub burst: u32,
    /// Maximum number of Interests in flight in an open loop; at the limit, the schedule waits (and
    /// latency counts).
    pub outstanding_max: u32,
    /// Stop after this many Interests.
    pub count: Option<u64>,
}

/// Answers to the Interests below a prefix.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProducerPattern {
    /// Prefix of the Interests; the longest match applies.
    pub prefix: String,
    /// Bytes of content; one of the sizes is drawn for each Data. In a file with their units.
    #[serde(deserialize_with = "sizes")]
    pub payload: Vec<usize>,
    /// FreshnessPeriod in milliseconds; 0: none. In a file `freshness`, with its unit.
    #[serde(rename = "freshness", deserialize_with = "milliseconds")]
    pub freshness_ms: u32,
    /// Fraction of Interests answered by a Nack (NoRoute).
    pub nack_ratio: f64,
    /// Share of Interests that get no answer.
    pub silence_ratio: f64,
    /// Name components, such as `/v`, to append to the names of Data for CanBePrefix Interests.
    pub suffix: String,
    /// Whether Data are signed with their SHA-256 digest; otherwise they have a Null signature.
    pub digest: bool,
}

impl Default for ProducerPattern {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            payload: vec![1000],
            freshness_ms: 0,
            nack_ratio: 0.0,
            silence_ratio: 0.0,
            suffix: String::new(),
            digest: false,
        }
    }
}

/// Scenario of a producer.
#[derive(Debug, Clone, PartialEq)]
pub struct ProducerScenario {
    /// Kinds of answers.
    pub patterns: Vec<ProducerPattern>,
}

impl ConsumerScenario {
    /// The part of one of several consumers that share the load by their faces: `faces` of all
    /// `self.faces`, from `first` on. `None` if the load is too small to divide.
    #[must_use]
    pub fn part(&self, first: u32, faces: u32) -> Option<Self> {
        let share = |whole: u64| {
            let until = |face: u32| whole * u64::from(face) / u64::from(self.faces.max(1));
            until(first + faces) - until(first)
        };
        let narrow =
            |whole: u32| u32::try_from(share(u64::from(whole))).ok().filter(|one| *one > 0);
        let load = match self.load {
            Load::Window(window) => Load::Window(narrow(window)?),
            Load::Rate { per_second, arrivals } => Load::Rate {
                per_second: per_second * f64::from(faces) / f64::from(self.faces.max(1)),
                arrivals,
            },
        };
        Some(Self {
            patterns: self.patterns.clone(),
            load,
            faces,
            burst: self.burst,
            outstanding_max: narrow(self.outstanding_max)?,
            count: self.count.map(share),
        })
    }

    /// # Errors
    /// The first error.
    pub(crate) fn check(&self) -> Result<(), ScenarioError> {
        check_count(self.patterns.len())?;
        let load = |ok: bool, what| if ok { Ok(()) } else { Err(ScenarioError::Load(what)) };
        load((1..=1024).contains(&self.faces), "there are 1 to 1024 faces")?;
        load((1..=BURST_MAX).contains(&self.burst), "a burst has 1 to 1024 Interests")?;
        match self.load {
            Load::Window(window) => load(
                (1..=OUTSTANDING_MAX).contains(&window),
                "a window has 1 to 1048576 Interests",
            )?,
            Load::Rate { per_second, .. } => {
                load(
                    per_second > 0.0 && per_second <= 1e9,
                    "a rate is more than 0 and at most 1e9 per second",
                )?;
                load(
                    (1..=OUTSTANDING_MAX).contains(&self.outstanding_max),
                    "1 to 1048576 Interests may be outstanding",
                )?;
            }
        }
        self.patterns.iter().try_for_each(|pattern| pattern.check(self.faces))
    }
}

impl ConsumerPattern {
    fn check(&self, faces: u32) -> Result<(), ScenarioError> {
        let prefix = parse_name(&self.prefix)?;
        let demand = |ok: bool, what| demand(ok, &self.prefix, what);
        demand(self.weight > 0.0 && self.weight.is_finite(), "weight is a positive number")?;
        demand(self.lifetime_ms > 0, "lifetime is at least 1ms")?;
        let components = prefix.components().count();
        demand(
            self.components == 0 || (components + 1..=COMPONENTS_MAX).contains(&self.components),
            "components counts the prefix and at least one more, at most 64",
        )?;
        let count = match self.names {
            Names::Unique => return Ok(()),
            Names::Repeated { count } => count,
            Names::Zipf { count, exponent } => {
                demand((0.0..=10.0).contains(&exponent), "a Zipf exponent is from 0 to 10")?;
                count
            }
        };
        demand((1..=NAMES_MAX).contains(&count), "there are 1 to 1048576 names")?;
        let pairs = u64::from(count) * u64::from(faces);
        demand(pairs <= 1 << 24, "names times faces are at most 16777216")
    }
}

impl ProducerScenario {
    /// # Errors
    /// The first thing that is wrong.
    pub(crate) fn check(&self) -> Result<(), ScenarioError> {
        check_count(self.patterns.len())?;
        for pattern in &self.patterns {
            parse_name(&pattern.prefix)?;
            if !pattern.suffix.is_empty() {
                parse_name(&pattern.suffix)?;
            }
            let demand = |ok: bool, what| demand(ok, &pattern.prefix, what);
            demand(
                !pattern.payload.is_empty()
                    && pattern.payload.iter().all(|size| *size <= PAYLOAD_MAX),
                "payload is a list of sizes of up to 8000B",
            )?;
            let ratio = 0.0..=1.0;
            demand(
                ratio.contains(&pattern.nack_ratio)
                    && ratio.contains(&pattern.silence_ratio)
                    && ratio.contains(&(pattern.nack_ratio + pattern.silence_ratio)),
                "nack_ratio and silence_ratio are from 0 to 1, together too",
            )?;
        }
        Ok(())
    }
}

/// Reads a duration with its unit as a number of milliseconds.
fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let read = Quantity { text: parse_duration, number: duration_of_number };
    let duration: Duration = deserializer.deserialize_any(read)?;
    u32::try_from(duration.as_millis())
        .ok()
        .filter(|_| duration.subsec_nanos().is_multiple_of(1_000_000))
        .ok_or_else(|| D::Error::custom("it is a whole number of milliseconds below 2^32"))
}

/// Reads a list of sizes with their units.
fn sizes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<usize>, D::Error> {
    let sizes: Vec<Size> = Deserialize::deserialize(deserializer)?;
    Ok(sizes.into_iter().map(|Size(size)| usize::try_from(size.0).unwrap_or(usize::MAX)).collect())
}

/// A size with its unit.
struct Size(ByteSize);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Quantity { text: str::parse, number: size_of_number };
        deserializer.deserialize_any(read).map(Self)
    }
}

/// A quantity that a file has as a string, or as a number that lacks its unit.
struct Quantity<T> {
    text: fn(&str) -> Result<T, String>,
    number: fn(&str) -> Result<T, String>,
}

impl<T> Visitor<'_> for Quantity<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number with a unit, in quotes")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.text)(text).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        (self.number)(&number.to_string()).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        (self.number)(&number.to_string()).map_err(E::custom)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        (self.number)(&number.to_string()).map_err(E::custom)
    }
}

/// Reads a name that fits a template.
pub(crate) fn parse_name(uri: &str) -> Result<Name, ScenarioError> {
    let name = Name::from_uri(uri).ok().filter(|_| uri.starts_with('/'));
    name.filter(|name| name.value().len() <= PREFIX_LEN_MAX)
        .ok_or_else(|| ScenarioError::Prefix(uri.to_owned()))
}

fn check_count(count: usize) -> Result<(), ScenarioError> {
    if (1..=PATTERNS_MAX).contains(&count) { Ok(()) } else { Err(ScenarioError::PatternCount) }
}

fn demand(ok: bool, prefix: &str, what: &'static str) -> Result<(), ScenarioError> {
    let error = || ScenarioError::Pattern { prefix: prefix.to_owned(), what };
    if ok { Ok(()) } else { Err(error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_scenario() {
        let whole = ConsumerScenario {
            patterns: vec![ConsumerPattern::default()],
            load: Load::Window(17),
            faces: 5,
            burst: 1,
            outstanding_max: 1000,
            count: Some(101),
        };
        for sizes in [vec![5], vec![2, 3], vec![1, 1, 1, 1, 1]] {
            let (mut first, mut windows, mut counts, mut most) = (0, 0, 0, 0);
            for faces in sizes {
                let part = whole.part(first, faces).unwrap();
                let Load::Window(window) = part.load else { panic!("{part:?}") };
                assert_eq!(part.faces, faces);
                first += faces;
                windows += window;
                counts += part.count.unwrap();
                most += part.outstanding_max;
            }
            assert_eq!((windows, counts, most), (17, 101, 1000));
        }
        let load = Load::Rate { per_second: 1000.0, arrivals: Arrivals::Poisson };
        let rate = ConsumerScenario { load, ..whole.clone() }.part(1, 2).unwrap().load;
        assert_eq!(rate, Load::Rate { per_second: 400.0, arrivals: Arrivals::Poisson });
        let small = ConsumerScenario { load: Load::Window(2), ..whole };
        assert_eq!(small.part(0, 1), None, "no window is left for it");
    }
}
