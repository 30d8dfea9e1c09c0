//! Executors: what performs a run.

use super::reader::{Fault, Section};
use super::template::Template;

/// Performs the runs of an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Executor {
    /// Starts a program for each run.
    Command(Command),
    /// Simulates a network of caches in this process.
    Cache(Cache),
    /// Runs a network of whole forwarders: simulated in this process, or as processes.
    Network(Box<Network>),
    /// Runs traces of a capacity model in this process.
    Model(Model),
}

/// A program that is started for each run. It reads a JSON object with seed and factors from standard input, and prints a
/// JSON object with the responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments.
    pub words: Vec<Template>,
    /// Variables of the environment.
    pub environment: Vec<(String, Template)>,
}

/// A network of caches (`namewire cache simulate`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// Name or file of the topology.
    pub topology: Template,
    /// Policy and routing, or a joint method.
    pub method: Template,
    /// Pattern of requests.
    pub pattern: Template,
    /// Other values of settings of the load.
    pub load: Vec<(String, Template)>,
}

/// A network of whole forwarders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Where it runs: a name of [`NETWORK_KINDS`].
    pub place: Template,
    /// Name or file of the topology.
    pub topology: Template,
    /// Pattern of requests.
    pub pattern: Template,
    /// Other values of settings of the load.
    pub load: Vec<(String, Template)>,
    /// Longest content of a Data in bytes.
    pub segment_bytes: Template,
    /// Capacity of each Content Store in packets; empty for that of the load in bytes.
    pub cs_packets: Template,
    /// Components of the names of Data.
    pub name_components: Template,
    /// Congestion control: cubic, delay, or a constant window in segments.
    pub window: Template,
    /// Strategy of all forwarders; empty for that of the replacement policy.
    pub strategy: Template,
    /// Replacement policy of all Content Stores, none, or vip2.
    pub cs_policy: Template,
    /// Share of the frames that each link loses.
    pub loss: Template,
    /// The forwarder of all nodes.
    pub forwarder: Template,
    /// Forwarding threads of each.
    pub workers: Template,
    /// Whether links are emulated or direct.
    pub links: Template,
}

/// Kinds of executors that run networks of whole forwarders: on virtual time, as processes on the loopback interface, and as
/// processes in network namespaces.
pub const NETWORK_KINDS: [&str; 3] = ["simulation", "processes", "namespaces"];

/// A capacity model (`namewire model check`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Model file.
    pub file: Template,
    /// Traces of a run; a response is the mean of its property over them.
    pub traces: u32,
    /// Other values of keys of the model.
    pub set: Vec<(String, Template)>,
}

/// Largest number of traces of a run of a model.
const TRACES_MAX: u64 = 10_000;

impl Executor {
    pub(super) fn read(section: &Section<'_>) -> Result<Self, Fault> {
        let kind = section.required_text("kind")?;
        match kind.as_str() {
            "command" => {
                section.only(&["kind", "command", "environment"])?;
                let words = section.scalars("command")?;
                let words = words.ok_or_else(|| section.fault("command", "is missing"))?;
                if words.first().is_none_or(String::is_empty) {
                    return Err(section.fault("command", "names no program"));
                }
                let words = words.iter().map(|word| Template::parse(word));
                let words = words.collect::<Result<_, _>>();
                Ok(Self::Command(Command {
                    words: words.map_err(|reason| section.fault("command", reason))?,
                    environment: templates(section, "environment")?,
                }))
            }
            "cache" => {
                section.only(&["kind", "topology", "method", "pattern", "load"])?;
                Ok(Self::Cache(Cache {
                    topology: required(section, "topology")?,
                    method: required(section, "method")?,
                    pattern: template_or(section, "pattern", "zipf")?,
                    load: templates(section, "load")?,
                }))
            }
            "model" => {
                section.only(&["kind", "file", "traces", "set"])?;
                let traces = section.count("traces", 1..=TRACES_MAX)?.unwrap_or(1);
                Ok(Self::Model(Model {
                    file: required(section, "file")?,
                    traces: traces as u32,
                    set: templates(section, "set")?,
                }))
            }
            // The kind may be a factor.
            name if NETWORK_KINDS.contains(&name) || name.contains('{') => {
                Network::read(section, name).map(|one| Self::Network(Box::new(one)))
            }
            _ => Err(section.fault(
                "kind",
                format!(
                    "unknown kind '{kind}'; known: command, cache, model, {}",
                    NETWORK_KINDS.join(", ")
                ),
            )),
        }
    }

    /// Name of its kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Command(_) => "command",
            Self::Cache(_) => "cache",
            Self::Network(network) => network.kind(),
            Self::Model(_) => "model",
        }
    }

    /// Its templates, each with its key.
    pub(super) fn templates(&self) -> Vec<(String, &Template)> {
        let below = |table: &str, pairs: &'_ [(String, Template)]| {
            pairs.iter().map(|(key, _)| format!("{table}.{key}")).collect::<Vec<_>>()
        };
        let (mut keys, mut templates): (Vec<String>, Vec<&Template>) = match self {
            Self::Command(one) => {
                (vec!["command".to_owned(); one.words.len()], one.words.iter().collect())
            }
            Self::Cache(one) => (
                ["topology", "method", "pattern"].map(str::to_owned).to_vec(),
                vec![&one.topology, &one.method, &one.pattern],
            ),
            Self::Network(one) => one.templates().into_iter().unzip(),
            Self::Model(one) => (vec!["file".to_owned()], vec![&one.file]),
        };
        let (table, pairs) = match self {
            Self::Command(one) => ("environment", &one.environment),
            Self::Cache(one) => ("load", &one.load),
            Self::Network(one) => ("load", &one.load),
            Self::Model(one) => ("set", &one.set),
        };
        keys.extend(below(table, pairs));
        templates.extend(pairs.iter().map(|(_, template)| template));
        keys.into_iter().zip(templates).collect()
    }
}

impl Network {
    fn read(section: &Section<'_>, kind: &str) -> Result<Self, Fault> {
        const KEYS: [&str; 11] = [
            "kind",
            "topology",
            "pattern",
            "load",
            "segment_bytes",
            "cs_packets",
            "name_components",
            "window",
            "strategy",
            "cs_policy",
            "loss",
        ];
        let of_testbeds: &[&str] = match kind {
            "simulation" => &[],
            _ => &["forwarder", "workers", "links"],
        };
        section.only(&[&KEYS, of_testbeds].concat())?;
        Ok(Self {
            place: required(section, "kind")?,
            topology: required(section, "topology")?,
            pattern: template_or(section, "pattern", "zipf")?,
            load: templates(section, "load")?,
            segment_bytes: template_or(section, "segment_bytes", "8000")?,
            cs_packets: template_or(section, "cs_packets", "")?,
            name_components: template_or(section, "name_components", "3")?,
            window: template_or(section, "window", "cubic")?,
            strategy: template_or(section, "strategy", "")?,
            cs_policy: template_or(section, "cs_policy", "lru")?,
            loss: template_or(section, "loss", "0")?,
            forwarder: template_or(section, "forwarder", "namewire")?,
            workers: template_or(section, "workers", "1")?,
            links: template_or(section, "links", "emulated")?,
        })
    }

    /// Its kind; "network" if that differs between runs.
    fn kind(&self) -> &'static str {
        let name = self.place.fill(&crate::experiment::Values::new());
        NETWORK_KINDS.into_iter().find(|kind| *kind == name).unwrap_or("network")
    }

    fn templates(&self) -> Vec<(String, &Template)> {
        [
            ("kind", &self.place),
            ("topology", &self.topology),
            ("pattern", &self.pattern),
            ("segment_bytes", &self.segment_bytes),
            ("cs_packets", &self.cs_packets),
            ("name_components", &self.name_components),
            ("window", &self.window),
            ("strategy", &self.strategy),
            ("cs_policy", &self.cs_policy),
            ("loss", &self.loss),
            ("forwarder", &self.forwarder),
            ("workers", &self.workers),
            ("links", &self.links),
        ]
        .map(|(key, template)| (key.to_owned(), template))
        .to_vec()
    }
}

fn template(section: &Section<'_>, key: &str) -> Result<Option<Template>, Fault> {
    let parse = |text: String| Template::parse(&text).map_err(|reason| section.fault(key, reason));
    section.scalar(key)?.map(parse).transpose()
}

fn template_or(section: &Section<'_>, key: &str, default: &str) -> Result<Template, Fault> {
    match template(section, key)? {
        Some(template) => Ok(template),
        None => Template::parse(default).map_err(|reason| section.fault(key, reason)),
    }
}

fn required(section: &Section<'_>, key: &str) -> Result<Template, Fault> {
    template(section, key)?.ok_or_else(|| section.fault(key, "is missing"))
}

/// A table of templates.
fn templates(section: &Section<'_>, key: &str) -> Result<Vec<(String, Template)>, Fault> {
    let Some(below) = section.section(key)? else { return Ok(Vec::new()) };
    below.keys().into_iter().map(|key| Ok((key.to_owned(), required(&below, key)?))).collect()
}
