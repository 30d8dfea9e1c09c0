//! Executors: what performs a run.

use std::net::Ipv4Addr;

use ndn_cache_sim::topology::Load;

use super::reader::{Fault, Section};
use super::template::{Template, Values};

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
    /// Whether routers have a route for each source or for each object.
    pub routes: Template,
    /// Congestion control: cubic, delay, or a constant window in segments.
    pub window: Template,
    /// Strategy of all forwarders; empty for that of the replacement policy.
    pub strategy: Template,
    /// Replacement policy of all Content Stores, none, or vip2.
    pub cs_policy: Template,
    /// Share of the frames that each link loses.
    pub loss: Template,
    /// File with the calibration that gives simulated forwarders times for packets; empty for no time.
    pub calibration: Template,
    /// The forwarder of all nodes.
    pub forwarder: Template,
    /// Forwarding threads of each.
    pub workers: Template,
    /// Whether links are emulated or direct.
    pub links: Template,
    /// Consumers and producers.
    pub workload: Template,
    /// Whether the lab computes routes, or daemons do.
    pub routing: Template,
    /// Settings of nodes that differ from those of all.
    pub nodes: Vec<OwnSettings>,
    /// Whether the forwarders are read once a second.
    pub time_lines: bool,
    /// Machines of the kind `ssh`.
    pub hosts: Vec<Host>,
    /// By node: the host on which it runs. Nodes without one are dealt out in turn.
    pub placement: Vec<(String, String)>,
    /// Options of `ssh`.
    pub ssh: Vec<String>,
    /// Whether this program is copied to the hosts.
    pub copy: bool,
}

/// Settings of a node that differ from those of all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnSettings {
    /// Name of the node.
    pub node: String,
    /// By key, one of [`Self::KEYS`].
    values: Vec<(&'static str, Template)>,
}

impl OwnSettings {
    /// Known keys.
    pub const KEYS: [&'static str; 5] =
        ["forwarder", "workers", "cs_packets", "cs_policy", "processors"];

    /// The value of a key; `None` for that of all nodes. Processors are separated by commas.
    #[must_use]
    pub fn value(&self, key: &str, values: &Values) -> Option<String> {
        let (_, template) = self.values.iter().find(|(known, _)| *known == key)?;
        Some(template.fill(values))
    }
}

/// A machine that runs forwarders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name for `ssh`.
    pub name: String,
    /// Its address for the forwarders of other hosts; `None` for the one that `ssh` connects to.
    pub address: Option<Ipv4Addr>,
}

/// Kinds of executors that run networks of whole forwarders: on virtual time, as processes on the loopback interface, as
/// processes in network namespaces, and as processes of other machines.
pub const NETWORK_KINDS: [&str; 4] = ["simulation", "processes", "namespaces", "ssh"];

/// Largest number of hosts.
const HOSTS_MAX: usize = 1000;

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
                    load: load(section)?,
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
        const KEYS: [&str; 13] = [
            "kind",
            "nodes",
            "topology",
            "pattern",
            "load",
            "segment_bytes",
            "cs_packets",
            "name_components",
            "routes",
            "window",
            "strategy",
            "cs_policy",
            "loss",
        ];
        const OF_TESTBEDS: [&str; 6] =
            ["forwarder", "workers", "links", "workload", "routing", "time_lines"];
        const OF_HOSTS: [&str; 10] = [
            "forwarder",
            "workers",
            "links",
            "workload",
            "routing",
            "time_lines",
            "hosts",
            "placement",
            "ssh",
            "copy",
        ];
        const OF_SIMULATIONS: [&str; 1] = ["calibration"];
        let of_kind = match kind {
            "simulation" => OF_SIMULATIONS.to_vec(),
            "processes" | "namespaces" => OF_TESTBEDS.to_vec(),
            "ssh" => OF_HOSTS.to_vec(),
            _ => [&OF_HOSTS[..], &OF_SIMULATIONS].concat(),
        };
        section.only(&[&KEYS[..], &of_kind].concat())?;
        let hosts = hosts(section)?;
        if kind == "ssh" && hosts.is_empty() {
            return Err(section.fault("hosts", "the kind 'ssh' needs names of hosts"));
        }
        Ok(Self {
            place: required(section, "kind")?,
            topology: required(section, "topology")?,
            pattern: template_or(section, "pattern", "zipf")?,
            load: load(section)?,
            segment_bytes: template_or(section, "segment_bytes", "8000")?,
            cs_packets: template_or(section, "cs_packets", "")?,
            name_components: template_or(section, "name_components", "3")?,
            routes: template_or(section, "routes", "sources")?,
            window: template_or(section, "window", "cubic")?,
            strategy: template_or(section, "strategy", "")?,
            cs_policy: template_or(section, "cs_policy", "lru")?,
            loss: template_or(section, "loss", "0")?,
            calibration: template_or(section, "calibration", "")?,
            forwarder: template_or(section, "forwarder", "namewire")?,
            workers: template_or(section, "workers", "1")?,
            links: template_or(section, "links", "emulated")?,
            workload: template_or(section, "workload", "distribution")?,
            routing: template_or(section, "routing", "computed")?,
            nodes: own_settings(section)?,
            time_lines: section.flag("time_lines")?.unwrap_or(false),
            placement: placement(section, &hosts)?,
            hosts,
            ssh: section.scalars("ssh")?.unwrap_or_default(),
            copy: section.flag("copy")?.unwrap_or(false),
        })
    }

    /// Its kind; "network" if that differs between runs.
    fn kind(&self) -> &'static str {
        let name = self.place.fill(&Values::new());
        NETWORK_KINDS.into_iter().find(|kind| *kind == name).unwrap_or("network")
    }

    fn templates(&self) -> Vec<(String, &Template)> {
        let own = self.nodes.iter().flat_map(|own| {
            let key = move |key: &str| format!("nodes.{}.{key}", own.node);
            own.values.iter().map(move |(name, template)| (key(name), template))
        });
        let of_all = [
            ("kind", &self.place),
            ("topology", &self.topology),
            ("pattern", &self.pattern),
            ("segment_bytes", &self.segment_bytes),
            ("cs_packets", &self.cs_packets),
            ("name_components", &self.name_components),
            ("routes", &self.routes),
            ("window", &self.window),
            ("strategy", &self.strategy),
            ("cs_policy", &self.cs_policy),
            ("loss", &self.loss),
            ("calibration", &self.calibration),
            ("forwarder", &self.forwarder),
            ("workers", &self.workers),
            ("links", &self.links),
            ("workload", &self.workload),
            ("routing", &self.routing),
        ]
        .map(|(key, template)| (key.to_owned(), template));
        of_all.into_iter().chain(own).collect()
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

/// Hosts: `NAME` or `NAME=ADDRESS`.
fn hosts(section: &Section<'_>) -> Result<Vec<Host>, Fault> {
    let mut hosts: Vec<Host> = Vec::new();
    for text in section.scalars("hosts")?.unwrap_or_default() {
        let (name, address) = match text.split_once('=') {
            Some((name, address)) => (name, Some(address)),
            None => (text.as_str(), None),
        };
        let fault = |reason: String| section.fault("hosts", reason);
        let parse = |text: &str| {
            let wrong = |_| fault(format!("\"{text}\" is not an IPv4 address"));
            text.trim().parse::<Ipv4Addr>().map_err(wrong)
        };
        let (name, address) = (name.trim().to_owned(), address.map(parse).transpose()?);
        if name.is_empty() || name.starts_with('-') {
            return Err(fault(format!("\"{text}\": expected \"NAME\" or \"NAME=ADDRESS\"")));
        }
        if hosts.iter().any(|known| known.name == name) {
            return Err(fault(format!("'{name}' occurs twice")));
        }
        hosts.push(Host { name, address });
    }
    match hosts.len() > HOSTS_MAX {
        true => Err(section.fault("hosts", format!("more than {HOSTS_MAX} hosts"))),
        false => Ok(hosts),
    }
}

/// Hosts of nodes.
fn placement(section: &Section<'_>, hosts: &[Host]) -> Result<Vec<(String, String)>, Fault> {
    let Some(below) = section.section("placement")? else { return Ok(Vec::new()) };
    let place = |node: &str| {
        let host = below.required_text(node)?;
        match hosts.iter().any(|known| known.name == host) {
            true => Ok((node.to_owned(), host)),
            false => Err(below.fault(node, format!("'{host}' is not one of hosts"))),
        }
    };
    below.keys().into_iter().map(place).collect()
}

/// Settings of nodes that differ from those of all.
fn own_settings(section: &Section<'_>) -> Result<Vec<OwnSettings>, Fault> {
    let Some(nodes) = section.section("nodes")? else { return Ok(Vec::new()) };
    let own = |node: &str| {
        let keys = nodes.required_section(node)?;
        keys.only(&OwnSettings::KEYS)?;
        let mut values = Vec::new();
        for key in OwnSettings::KEYS {
            let template = if key == "processors" {
                let list = keys.scalars(key)?.map(|list| Template::parse(&list.join(",")));
                list.transpose().map_err(|reason| keys.fault(key, reason))?
            } else {
                template(&keys, key)?
            };
            values.extend(template.map(|template| (key, template)));
        }
        Ok(OwnSettings { node: node.to_owned(), values })
    };
    nodes.keys().into_iter().map(own).collect()
}

/// Other values of settings of the load.
fn load(section: &Section<'_>) -> Result<Vec<(String, Template)>, Fault> {
    if let Some(load) = section.section("load")? {
        load.only(&Load::SETTINGS)?;
    }
    templates(section, "load")
}

/// A table of templates.
fn templates(section: &Section<'_>, key: &str) -> Result<Vec<(String, Template)>, Fault> {
    let Some(below) = section.section(key)? else { return Ok(Vec::new()) };
    below.keys().into_iter().map(|key| Ok((key.to_owned(), required(&below, key)?))).collect()
}
