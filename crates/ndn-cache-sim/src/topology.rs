//! Nodes, links and load.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

use crate::InputError;

/// Largest number of requests of a trace.
pub(crate) const REQUESTS_MAX: usize = 200_000_000;

/// Largest number of nodes of a file.
const NODES_MAX: usize = 1000;
/// Largest number of objects of a file.
const OBJECTS_MAX: usize = 10_000_000;
/// Largest penalty, in requests.
const PENALTY_MAX: f64 = 1e6;

/// The topologies that come with the crate: name and file.
pub const FILES: [(&str, &str); 6] = [
    ("abilene", include_str!("../topologies/abilene.toml")),
    ("geant", include_str!("../topologies/geant.toml")),
    ("tree", include_str!("../topologies/tree.toml")),
    ("grid", include_str!("../topologies/grid.toml")),
    ("line", include_str!("../topologies/line.toml")),
    ("sc22", include_str!("../topologies/sc22.toml")),
];

/// Requests, objects and capacities.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Requests per second and consumer.
    pub requests_per_s: f64,
    /// Exponent of the Zipf distribution of requests over objects.
    pub zipf: f64,
    /// Number of objects.
    pub objects: usize,
    /// Size of an object.
    pub object_bytes: u64,
    /// Size of each cache.
    pub cache_bytes: u64,
    /// Capacity of each link, per direction.
    pub link_mbit_per_s: f64,
    /// Rate at which a cache is read (VIP).
    pub cache_read_mbit_per_s: f64,
    /// Score that each object in a cache costs, in requests (VIP).
    #[serde(default)]
    pub read_penalty: f64,
    /// Score that writing an object to a cache costs, in requests (VIP).
    #[serde(default)]
    pub write_penalty: f64,
    /// Simulated time.
    pub duration_s: f64,
}

impl Load {
    /// The names of the settings.
    pub const SETTINGS: [&str; 10] = [
        "requests_per_s",
        "zipf",
        "objects",
        "object_bytes",
        "cache_bytes",
        "link_mbit_per_s",
        "cache_read_mbit_per_s",
        "read_penalty",
        "write_penalty",
        "duration_s",
    ];

    fn change(&mut self, change: &str) -> Result<(), InputError> {
        let invalid = |reason: &str| InputError(format!("'{change}': {reason}"));
        let (name, value) = change.split_once('=').ok_or_else(|| invalid("expected name=value"))?;
        let number = || value.parse().map_err(|_| invalid("the value is not a number"));
        let whole = || value.parse().map_err(|_| invalid("the value is not a whole number"));
        match name {
            "requests_per_s" => self.requests_per_s = number()?,
            "zipf" => self.zipf = number()?,
            "objects" => self.objects = usize::try_from(whole()?).unwrap_or(usize::MAX),
            "object_bytes" => self.object_bytes = whole()?,
            "cache_bytes" => self.cache_bytes = whole()?,
            "link_mbit_per_s" => self.link_mbit_per_s = number()?,
            "cache_read_mbit_per_s" => self.cache_read_mbit_per_s = number()?,
            "read_penalty" => self.read_penalty = number()?,
            "write_penalty" => self.write_penalty = number()?,
            "duration_s" => self.duration_s = number()?,
            _ => return Err(invalid("there is no such setting in [load]")),
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    source: String,
    nodes: Vec<String>,
    links: Vec<Spanned<LinkEntry>>,
    consumers: Option<Vec<String>>,
    producers: Option<Vec<String>>,
    caches: Option<Vec<String>>,
    load: Load,
}

/// Properties of a link, the same in both directions. Those that are absent are the values for all links.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LinkProperties {
    /// Capacity per direction, instead of [`Load::link_mbit_per_s`].
    pub mbit_per_s: Option<f64>,
    /// Longest queue of each direction, in bytes.
    pub queue_bytes: Option<u64>,
    /// Share of the frames that are lost.
    pub loss: Option<f64>,
}

impl LinkProperties {
    /// Largest share of the frames that a link can lose.
    pub const LOSS_MAX: f64 = 0.5;

    /// Checks the properties and the delay of a link.
    ///
    /// # Errors
    ///
    /// Names the property.
    pub fn check(&self, delay_ms: f64) -> Result<(), InputError> {
        let fail = |text: String| Err(InputError(text));
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        if !is_positive(delay_ms) {
            return fail(format!("the delay of {delay_ms} ms is not positive"));
        }
        if let Some(rate) = self.mbit_per_s.filter(|rate| !is_positive(*rate)) {
            return fail(format!("mbit_per_s = {rate}: must be positive"));
        }
        if self.queue_bytes == Some(0) {
            return fail("queue_bytes = 0: must be positive".to_owned());
        }
        if let Some(loss) = self.loss.filter(|loss| !(0.0..=Self::LOSS_MAX).contains(loss)) {
            return fail(format!("loss = {loss}: must be 0 to {}", Self::LOSS_MAX));
        }
        Ok(())
    }
}

/// A link of a file: `["a", "b", 1.0]`, or a table with properties.
struct LinkEntry {
    between: (String, String),
    delay_ms: f64,
    properties: LinkProperties,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    between: (String, String),
    delay_ms: f64,
    mbit_per_s: Option<f64>,
    queue_bytes: Option<u64>,
    loss: Option<f64>,
}

impl<'de> Deserialize<'de> for LinkEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LinkVisitor)
    }
}

struct LinkVisitor;

impl<'de> Visitor<'de> for LinkVisitor {
    type Value = LinkEntry;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(
            "a link: [\"a\", \"b\", 1.0] or { between = [\"a\", \"b\"], delay_ms = 1.0 }",
        )
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<LinkEntry, A::Error> {
        let (first, second, delay_ms) =
            <(String, String, f64)>::deserialize(SeqAccessDeserializer::new(elements))?;
        let properties = LinkProperties::default();
        Ok(LinkEntry { between: (first, second), delay_ms, properties })
    }

    fn visit_map<A: MapAccess<'de>>(self, keys: A) -> Result<LinkEntry, A::Error> {
        let LinkTable { between, delay_ms, mbit_per_s, queue_bytes, loss } =
            LinkTable::deserialize(MapAccessDeserializer::new(keys))?;
        let properties = LinkProperties { mbit_per_s, queue_bytes, loss };
        Ok(LinkEntry { between, delay_ms, properties })
    }
}

/// A link in one direction: from a node to the next towards a source. Data takes it the other way.
#[derive(Debug, Clone, Copy)]
pub struct Hop {
    /// The other node.
    pub to: usize,
    /// Delay of the link in seconds.
    pub delay_s: f64,
    /// Number of the direction.
    pub link: usize,
    /// Properties of the link.
    pub properties: LinkProperties,
}

/// A network.
#[derive(Debug, Clone)]
pub struct Topology {
    /// Name.
    pub name: String,
    /// Where it comes from.
    pub source: String,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Neighbours of each node.
    pub hops: Vec<Vec<Hop>>,
    /// Number of directions of links.
    pub links: usize,
    /// Nodes with consumers.
    pub consumers: Vec<usize>,
    /// Nodes that can be sources of objects.
    pub producers: Vec<usize>,
    /// Whether a node has a cache.
    pub has_cache: Vec<bool>,
    /// Load.
    pub load: Load,
}

impl Topology {
    /// The topology `name` that comes with the crate.
    ///
    /// # Errors
    ///
    /// The name is unknown.
    pub fn known(name: &str) -> Result<Self, InputError> {
        let Some((_, text)) = FILES.iter().find(|(known, _)| *known == name) else {
            let known: Vec<_> = FILES.iter().map(|(known, _)| *known).collect();
            return Err(InputError(format!(
                "unknown topology '{name}'; known: {}, or a file name with a '/' or '.'",
                known.join(", ")
            )));
        };
        Self::parse(text, name)
    }

    /// Reads a topology from TOML. `origin` names the input in errors.
    ///
    /// # Errors
    ///
    /// The text is not a valid topology.
    pub fn parse(text: &str, origin: &str) -> Result<Self, InputError> {
        Self::parse_with(text, origin, &[])
    }

    /// Reads a topology from TOML, with other values of settings of `[load]`: `name=value`.
    ///
    /// # Errors
    ///
    /// The text or a change is not valid.
    pub fn parse_with(text: &str, origin: &str, changes: &[String]) -> Result<Self, InputError> {
        let fail = |what: String| InputError(format!("{origin}: {what}"));
        let mut file: File = toml::from_str(text).map_err(|error| fail(error.to_string()))?;
        for change in changes {
            file.load.change(change)?;
        }
        if file.nodes.is_empty() || file.nodes.len() > NODES_MAX {
            return Err(fail(format!("{} nodes; 1 to {NODES_MAX} are possible", file.nodes.len())));
        }
        let mut numbers = HashMap::new();
        for (number, name) in file.nodes.iter().enumerate() {
            if numbers.insert(name.as_str(), number).is_some() {
                return Err(fail(format!("node '{name}' occurs twice")));
            }
        }
        let find = |name: &String, what: &str| {
            let number = numbers.get(name.as_str()).copied();
            number.ok_or_else(|| fail(format!("{what}: there is no node '{name}'")))
        };
        let find_all = |names: &Option<Vec<String>>, what: &str| match names {
            None => Ok((0..file.nodes.len()).collect()),
            Some(names) if names.is_empty() => Err(fail(format!("{what}: the list is empty"))),
            Some(names) => names.iter().map(|name| find(name, what)).collect::<Result<Vec<_>, _>>(),
        };
        let mut hops = vec![Vec::new(); file.nodes.len()];
        for (number, link) in file.links.iter().enumerate() {
            let line = text.as_bytes()[..link.span().start.min(text.len())]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count()
                + 1;
            let place = format!("line {line}: links[{number}]");
            let LinkEntry { between: (first, second), delay_ms, properties } = link.get_ref();
            let (first, second) = (find(first, &place)?, find(second, &place)?);
            if first == second {
                return Err(fail(format!("{place}: needs two nodes")));
            }
            properties.check(*delay_ms).map_err(|error| fail(format!("{place}: {error}")))?;
            let (delay_s, properties) = (delay_ms / 1000.0, *properties);
            hops[first].push(Hop { to: second, delay_s, link: 2 * number, properties });
            hops[second].push(Hop { to: first, delay_s, link: 2 * number + 1, properties });
        }
        let mut has_cache = vec![false; file.nodes.len()];
        for node in match &file.caches {
            Some(names) if names.is_empty() => Vec::new(),
            names => find_all(names, "caches")?,
        } {
            has_cache[node] = true;
        }
        let topology = Self {
            consumers: find_all(&file.consumers, "consumers")?,
            producers: find_all(&file.producers, "producers")?,
            links: 2 * file.links.len(),
            name: file.name,
            source: file.source,
            hops,
            has_cache,
            load: file.load,
            nodes: file.nodes,
        };
        topology.check().map_err(|error| fail(error.0))?;
        Ok(topology)
    }

    /// Checks the load and that all nodes are connected.
    ///
    /// # Errors
    ///
    /// Names the setting.
    pub fn check(&self) -> Result<(), InputError> {
        let load = &self.load;
        let positive = [
            ("requests_per_s", load.requests_per_s),
            ("link_mbit_per_s", load.link_mbit_per_s),
            ("cache_read_mbit_per_s", load.cache_read_mbit_per_s),
            ("duration_s", load.duration_s),
        ];
        for (name, value) in positive {
            if !value.is_finite() || value <= 0.0 {
                return Err(InputError(format!("load.{name} = {value}: must be positive")));
            }
        }
        self.expected_requests()?;
        if !(0.0..=10.0).contains(&load.zipf) {
            return Err(InputError(format!("load.zipf = {}: must be 0 to 10", load.zipf)));
        }
        for (name, value) in
            [("read_penalty", load.read_penalty), ("write_penalty", load.write_penalty)]
        {
            if !(0.0..=PENALTY_MAX).contains(&value) {
                let text = format!("load.{name} = {value}: must be 0 to {PENALTY_MAX}");
                return Err(InputError(text));
            }
        }
        if load.objects == 0 || load.objects > OBJECTS_MAX {
            let text = format!("load.objects = {}: must be 1 to {OBJECTS_MAX}", load.objects);
            return Err(InputError(text));
        }
        if load.object_bytes == 0 {
            return Err(InputError("load.object_bytes = 0: must be positive".to_owned()));
        }
        if let Some(node) = self.distances(0).iter().position(|distance| distance.is_infinite()) {
            let (first, other) = (&self.nodes[0], &self.nodes[node]);
            return Err(InputError(format!("no path between the nodes '{first}' and '{other}'")));
        }
        Ok(())
    }

    /// The mean number of requests of the load.
    ///
    /// # Errors
    ///
    /// It is below one, or above the limit.
    pub(crate) fn expected_requests(&self) -> Result<f64, InputError> {
        let load = &self.load;
        let expected = load.requests_per_s * self.consumers.len() as f64 * load.duration_s;
        let text = match expected {
            _ if expected < 1.0 => format!("{expected} requests are expected; at least 1"),
            _ if expected > REQUESTS_MAX as f64 => {
                format!("{expected:.0} requests; at most {REQUESTS_MAX}")
            }
            _ => return Ok(expected),
        };
        Err(InputError(format!("load.requests_per_s, load.duration_s: {text}")))
    }

    /// Capacity of the link of a hop, per direction.
    #[must_use]
    pub fn mbit_per_s(&self, hop: &Hop) -> f64 {
        hop.properties.mbit_per_s.unwrap_or(self.load.link_mbit_per_s)
    }

    /// Capacity of each direction of a link in bytes per second, by its number.
    pub(crate) fn bytes_per_s(&self) -> Vec<f64> {
        let mut rates = vec![0.0; self.links];
        for hop in self.hops.iter().flatten() {
            rates[hop.link] = self.mbit_per_s(hop) * 125_000.0;
        }
        rates
    }

    /// Delay in seconds from each node to `target` on the shortest path.
    #[must_use]
    pub fn distances(&self, target: usize) -> Vec<f64> {
        let mut distances = vec![f64::INFINITY; self.nodes.len()];
        let mut is_done = vec![false; self.nodes.len()];
        distances[target] = 0.0;
        loop {
            let open = (0..self.nodes.len()).filter(|node| !is_done[*node]);
            let nearest = open.min_by(|a, b| distances[*a].total_cmp(&distances[*b]));
            let Some(node) = nearest.filter(|node| distances[*node].is_finite()) else {
                return distances;
            };
            is_done[node] = true;
            for hop in &self.hops[node] {
                let distance = distances[node] + hop.delay_s;
                distances[hop.to] = distances[hop.to].min(distance);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topologies_of_the_crate_are_valid() {
        let sizes = FILES.map(|(name, text)| {
            let topology = Topology::parse(text, name).expect(name);
            assert_eq!(topology.name, name);
            (topology.nodes.len(), topology.links / 2)
        });
        assert_eq!(sizes, [(11, 14), (22, 36), (15, 14), (16, 24), (5, 4), (6, 5)]);
    }

    #[test]
    fn errors_name_the_input() {
        let text = FILES[4].1;
        let error = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            Topology::parse(&text.replace(from, to), "my.toml").expect_err("invalid").to_string()
        };
        assert!(
            error("[\"f1\", \"f2\", 10.0]", "[\"f1\", \"f9\", 10.0]")
                .contains("my.toml: line 11: links[1]: there is no node 'f9'")
        );
        assert!(error("[\"f1\", \"f2\", 10.0]", "[\"f1\", \"f2\", -1.0]").contains("links[1]"));
        assert!(
            error("[\"f1\", \"f2\", 10.0],", "")
                .contains("no path between the nodes 'consumer' and 'f2'")
        );
        assert!(error("zipf = 0.75", "zipf = nan").contains("load.zipf"));
        assert!(error("objects = 1000", "objects = 0").contains("load.objects = 0"));
        let negative = error("objects = 1000", "objects = 1000\nwrite_penalty = -1");
        assert!(negative.contains("load.write_penalty = -1"), "{negative}");
        assert!(error("duration_s = 400", "duration_s = 1e-9").contains("at least 1"));
        assert!(error("duration_s = 400", "duration_s = 1e18").contains("at most 200000000"));
        assert!(error("duration_s = 400", "durations = 400").contains("durations"));
        assert!(Topology::known("abylene").expect_err("unknown").to_string().contains("'abylene'"));
    }

    #[test]
    fn links_have_properties_of_their_own() {
        let from = "[\"f1\", \"f2\", 10.0]";
        assert!(FILES[4].1.contains(from));
        let parse = |properties: &str| {
            let to = format!("{{ between = [\"f1\", \"f2\"], delay_ms = 10.0{properties} }}");
            Topology::parse(&FILES[4].1.replace(from, &to), "my.toml")
        };
        let topology = parse(", mbit_per_s = 8, queue_bytes = 5000, loss = 0.01").expect("valid");
        let of = |from: usize, to: usize| {
            *topology.hops[from].iter().find(|hop| hop.to == to).expect("neighbours")
        };
        let properties =
            LinkProperties { mbit_per_s: Some(8.0), queue_bytes: Some(5000), loss: Some(0.01) };
        assert_eq!((of(1, 2).properties, of(2, 1).properties), (properties, properties));
        assert_eq!(of(0, 1).properties, LinkProperties::default());
        assert_eq!((topology.mbit_per_s(&of(2, 1)), topology.mbit_per_s(&of(0, 1))), (8.0, 500.0));
        assert_eq!(topology.bytes_per_s()[of(2, 1).link], 1e6);
        for (properties, expected) in [
            (", mbit_per_s = 0", "my.toml: line 11: links[1]: mbit_per_s = 0: must be positive"),
            (", mbit_per_s = inf", "line 11: links[1]: mbit_per_s = inf"),
            (", queue_bytes = 0", "line 11: links[1]: queue_bytes = 0"),
            (", queue_bytes = -1", "line 11"),
            (", loss = 0.6", "line 11: links[1]: loss = 0.6: must be 0 to 0.5"),
            (", loss = nan", "line 11: links[1]: loss = NaN"),
            (", rate = 8", "unknown field `rate`"),
            (", delay_ms = 1", "line 11"),
        ] {
            let error = parse(properties).expect_err(properties).to_string();
            assert!(error.contains(expected) && error.contains("line 11"), "{error}");
        }
    }

    #[test]
    fn settings_are_changed_and_errors_name_the_change() {
        let parse = |change: &str| Topology::parse_with(FILES[4].1, "line", &[change.to_owned()]);
        let load = parse("requests_per_s=3").expect("valid").load;
        assert!((load.requests_per_s - 3.0).abs() < 1e-12);
        for name in Load::SETTINGS {
            assert!(parse(&format!("{name}=3")).is_ok(), "{name}");
        }
        for change in ["requests=3", "objects=x", "objects", "zipf=-1"] {
            let error = parse(change).expect_err(change).to_string();
            assert!(error.contains(change) || error.contains("load.zipf = -1"), "{error}");
        }
    }

    #[test]
    fn distances_follow_the_shortest_delay() {
        let line = Topology::known("line").expect("known");
        let distances = line.distances(4);
        assert!((distances[0] - 0.031).abs() < 1e-12 && distances[4] == 0.0, "{distances:?}");
    }
}
