//! Reads `nfd.conf` of NFD 24.07, with what MW-NFD adds, as a configuration of this program.
//!
//! A setting without a counterpart is reported with file and line. A setting that would grant more than the file
//! does is rejected. An absent section means what it means to NFD: no listener, no privilege.

mod faces;
mod key_locations;
mod mw_nfd;
mod security;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use ndn_caching::PolicyKind;
use ndn_packet::Name;
use ndn_security::info::{InfoError, Node};

pub use faces::FreePorts;
pub use key_locations::KeyLocations;

use crate::config::Config;
use crate::error::FILE_IS_EMPTY;
use crate::faces::{StrategyChoice, StrategyName, check_depth};
use crate::file::ConfigFile;
use crate::log::{Counterpart, LogLevel, counterpart_of};
use crate::management::TrustRules;
use crate::tables::{TABLE_ENTRIES_MAX, UnsolicitedPolicy};

/// The configuration that an nfd.conf becomes.
#[derive(Debug)]
pub struct NfdConf {
    /// The settings.
    pub config: Config,
    /// Settings without effect, in the order of the file.
    pub warnings: Vec<Warning>,
    /// The locations of settings that may be invalid on this machine.
    pub locations: KeyLocations,
}

/// A message about a line of the file: `file:line: text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(InfoError);

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A rejected file: all of its problems, one on each line.
#[derive(Debug)]
pub struct NfdConfError {
    problems: Vec<String>,
}

impl fmt::Display for NfdConfError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for NfdConfError {}

/// Reads the file at `path`. Free ports for port 0 are selected from `ports`.
///
/// # Errors
/// The file cannot be read, is not in the INFO format, or has settings that are invalid or not supported.
pub fn load(path: &Path, ports: &FreePorts) -> Result<NfdConf, NfdConfError> {
    let file = ConfigFile::read(path);
    parse_file(&file.map_err(|error| NfdConfError { problems: vec![error.to_string()] })?, ports)
}

/// Reads a file with this text.
///
/// # Errors
/// As [`load`].
pub fn parse_file(file: &ConfigFile, ports: &FreePorts) -> Result<NfdConf, NfdConfError> {
    let (origin, text) = (file.origin(), file.text());
    let wrong = |reason: &str| NfdConfError { problems: vec![format!("{origin}: {reason}")] };
    if file.is_empty() {
        return Err(wrong(FILE_IS_EMPTY));
    }
    if text.parse::<toml::Table>().is_ok_and(|table| !table.is_empty()) {
        return Err(wrong(
            "this is TOML, not a configuration of NFD: `namewire run --config FILE` uses it, `namewire config check FILE` \
             checks it",
        ));
    }
    let path = std::path::absolute(file.path()).unwrap_or_else(|_| file.path().to_owned());
    let directory = path.parent().unwrap_or(Path::new(""));
    parse(&origin, text, directory, ports, &mut |included| {
        let included = ConfigFile::read(&directory.join(included));
        included.map(|file| file.text().to_owned()).map_err(|error| error.to_string())
    })
}

/// Reads the text of a file; relative paths in it begin at `directory`.
///
/// # Errors
/// As [`load`].
pub fn parse(
    origin: &str,
    text: &str,
    directory: &Path,
    ports: &FreePorts,
    include: ndn_security::info::Include<'_>,
) -> Result<NfdConf, NfdConfError> {
    let root = Node::parse(origin, text, include)
        .map_err(|error| NfdConfError { problems: vec![error.to_string()] })?;
    let mut reader = Reader::new(directory, ports);
    root.children.iter().for_each(|section| reader.read_section(section));
    reader.finish(origin)
}

/// Reads an nfd.conf.
struct Reader<'d> {
    directory: &'d Path,
    ports: &'d FreePorts,
    config: Config,
    warnings: Vec<Warning>,
    errors: Vec<Warning>,
    locations: KeyLocations,
}

impl<'d> Reader<'d> {
    /// The configuration of NFD with an empty file.
    fn new(directory: &'d Path, ports: &'d FreePorts) -> Self {
        let mut config = Config::default();
        config.listeners.unix.enabled = false;
        config.listeners.tcp.enabled = false;
        config.listeners.udp.enabled = false;
        config.listeners.websocket.enabled = false;
        config.management.authorizations = Vec::new();
        config.management.localhost_rib = TrustRules::Nobody;
        config.management.localhop_rib = TrustRules::Nobody;
        config.management.prefix_announcements = TrustRules::Nobody;
        let (warnings, errors) = (Vec::new(), Vec::new());
        Self { directory, ports, config, warnings, errors, locations: KeyLocations::default() }
    }

    fn finish(self, origin: &str) -> Result<NfdConf, NfdConfError> {
        let Self { config, warnings, errors, locations, .. } = self;
        let mut problems: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let conflicts = config.conflicts();
        problems.extend(conflicts.iter().map(|conflict| locations.describe(origin, conflict)));
        if problems.is_empty() {
            Ok(NfdConf { config, warnings, locations })
        } else {
            Err(NfdConfError { problems })
        }
    }

    fn read_section(&mut self, section: &Node) {
        match section.key.as_str() {
            "general" => self.read_general(section),
            "log" => self.read_log(section),
            "forwarder" => self.read_forwarder(section),
            "tables" => self.read_tables(section),
            "face_system" => self.read_face_system(section),
            "authorizations" => self.read_authorizations(section),
            "rib" => self.read_rib(section),
            "mw-nfd" => self.read_mw_nfd(section),
            _ => self.refuse_unknown(section, "the file"),
        }
    }

    fn warn(&mut self, node: &Node, text: impl Into<String>) {
        self.warnings.push(Warning(node.error(text)));
    }

    fn refuse(&mut self, node: &Node, text: impl Into<String>) {
        self.errors.push(Warning(node.error(text)));
    }

    fn refuse_unknown(&mut self, node: &Node, place: &str) {
        self.refuse(node, format!("unknown key `{}` in {place}", node.key));
    }

    fn no_effect(&mut self, node: &Node, why: &str) {
        self.warn(node, format!("`{}` has no effect: {why}", node.key));
    }

    fn yes_no(&mut self, node: &Node) -> bool {
        match node.value.as_str() {
            "yes" => true,
            "no" => false,
            other => {
                self.refuse(node, format!("`{}` must be yes or no, not `{other}`", node.key));
                false
            }
        }
    }

    fn number(&mut self, node: &Node, min: u64, max: u64) -> Option<u64> {
        let number = node.value.parse().ok().filter(|number| (min..=max).contains(number));
        if number.is_none() {
            let text = format!("`{}` must be a number between {min} and {max}", node.key);
            self.refuse(node, text);
        }
        number
    }

    fn name(&mut self, node: &Node, uri: &str) -> Option<Name> {
        match Name::from_uri(uri) {
            Ok(name) => Some(name),
            Err(error) => {
                self.refuse(node, format!("`{uri}` is not a name: {error}"));
                None
            }
        }
    }

    fn read_general(&mut self, section: &Node) {
        for node in &section.children {
            match node.key.as_str() {
                "user" | "group" if node.value.is_empty() => {
                    self.refuse(node, format!("`{}` is empty", node.key));
                }
                "user" => {
                    self.locations.add("privileges.user", node);
                    self.config.privileges.user = Some(node.value.clone());
                }
                "group" => {
                    self.locations.add("privileges.group", node);
                    self.config.privileges.group = Some(node.value.clone());
                }
                _ => self.no_effect(node, "NFD ignores it, too"),
            }
        }
    }

    fn read_log(&mut self, section: &Node) {
        for node in &section.children {
            let level = match node.value.as_str() {
                "NONE" => LogLevel::Off,
                "FATAL" | "ERROR" => LogLevel::Error,
                "WARN" => LogLevel::Warn,
                "INFO" => LogLevel::Info,
                "DEBUG" => LogLevel::Debug,
                "TRACE" | "ALL" => LogLevel::Trace,
                other => {
                    self.refuse(node, format!("`{other}` is not a log level"));
                    continue;
                }
            };
            match (node.key.as_str(), counterpart_of(&node.key)) {
                // The level of all modules takes precedence, wherever it is.
                ("default_level", _) if section.children.iter().any(is_of_all) => {}
                ("default_level" | "nfd.*" | "*", _) => self.config.log.level = level,
                (_, Some(Counterpart::None(why))) => self.no_effect(node, why),
                (_, Some(Counterpart::Module(module))) => {
                    let of_module =
                        self.config.log.modules.entry(module.to_owned()).or_insert(level);
                    *of_module = (*of_module).max(level);
                }
                (_, None) => self.no_effect(node, "there is no such module"),
            }
        }
    }

    fn read_forwarder(&mut self, section: &Node) {
        for node in &section.children {
            match node.key.as_str() {
                "default_hop_limit" => {
                    let limit =
                        self.number(node, 0, 255).and_then(|limit| u8::try_from(limit).ok());
                    self.config.forwarder.default_hop_limit = limit.unwrap_or(0);
                }
                _ => self.refuse_unknown(node, "forwarder"),
            }
        }
    }

    fn read_tables(&mut self, section: &Node) {
        for node in &section.children {
            match node.key.as_str() {
                "cs_max_packets" => {
                    if let Some(packets) = self.number(node, 0, u64::MAX) {
                        self.set_cs_capacity(node, packets);
                    }
                }
                "pm_cs_max_packets" | "em_cs_max_packets" => self.read_part_of_cs(section, node),
                "cs_policy" => match node.value.as_str() {
                    "lru" => self.config.tables.cs.policy = PolicyKind::Lru,
                    "priority_fifo" => self.config.tables.cs.policy = PolicyKind::PriorityFifo,
                    other => self.refuse(node, format!("unknown cs_policy `{other}`")),
                },
                "cs_unsolicited_policy" => {
                    self.config.tables.cs.unsolicited = match node.value.as_str() {
                        "drop-all" => UnsolicitedPolicy::DropAll,
                        "admit-local" => UnsolicitedPolicy::AdmitLocal,
                        "admit-network" => UnsolicitedPolicy::AdmitNetwork,
                        "admit-all" => UnsolicitedPolicy::AdmitAll,
                        other => {
                            self.refuse(node, format!("unknown cs_unsolicited_policy `{other}`"));
                            continue;
                        }
                    };
                }
                "strategy_choice" => self.read_strategy_choice(node),
                "network_region" => {
                    let regions = node.children.iter().filter_map(|n| self.name(n, &n.key));
                    self.config.tables.network_regions = regions.collect();
                }
                _ => self.refuse_unknown(node, "tables"),
            }
        }
    }

    fn set_cs_capacity(&mut self, node: &Node, packets: u64) {
        let capacity = usize::try_from(packets).unwrap_or(usize::MAX);
        if capacity > TABLE_ENTRIES_MAX {
            self.warn(node, format!("at most {TABLE_ENTRIES_MAX} packets are stored"));
        }
        self.config.tables.cs.capacity_packets = capacity.min(TABLE_ENTRIES_MAX);
    }

    fn read_strategy_choice(&mut self, section: &Node) {
        self.locations.add("strategy_choices", section);
        for node in &section.children {
            let (prefix, strategy) = (self.name(node, &node.key), self.name(node, &node.value));
            let (Some(prefix), Some(strategy)) = (prefix, strategy) else { continue };
            let strategy = with_typed_version(&strategy);
            let known =
                ndn_forwarding::strategy::StrategyTable::default().insert(strategy.as_ref());
            if let Err(error) = known {
                self.refuse(node, error.to_string());
            } else if let Err(reason) = check_depth(&prefix) {
                self.refuse(node, reason);
            } else if self.config.strategy_choices.iter().any(|other| other.prefix == prefix) {
                self.refuse(node, format!("the strategy of {prefix} is set twice"));
            } else {
                let strategy = StrategyName(strategy);
                self.config.strategy_choices.push(StrategyChoice { prefix, strategy });
            }
        }
    }
}

/// Converts version components of NFD 0.7 and older and of MW-NFD, which begin with 0xFD, to typed components.
fn with_typed_version(strategy: &Name) -> Name {
    let mut typed = Name::new();
    for component in strategy.components() {
        match component.as_version_or_marked() {
            Some(version) => typed.push_version(version),
            None => typed.push(component),
        };
    }
    typed
}

/// Whether a line sets the level of all modules of NFD.
fn is_of_all(node: &Node) -> bool {
    matches!(node.key.as_str(), "nfd.*" | "*")
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}
