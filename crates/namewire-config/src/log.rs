//! Settings of the log: levels, and the modules that log.

use std::collections::BTreeMap;
use std::fmt;

use crate::declaration::RestartReason::OneLogFormat;
use crate::declaration::{Reload, entries, live, restart, settings};
use crate::reader::closest;
use crate::value::words;

settings! {
    /// The log.
    pub struct Log {
        /// Level of all modules that `[log.modules]` does not list.
        level: LogLevel = LogLevel::Info => live(),
        /// Form of the lines: `text` for people, `json` for programs.
        format: LogFormat = LogFormat::Text => restart(OneLogFormat),
        /// Levels of single modules. `namewire log` changes them while the forwarder runs.
        modules: BTreeMap<String, LogLevel> = BTreeMap::new() =>
            entries(Reload::Live, describe_modules, check_module, "ndn_dataplane = \"debug\""),
    }
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Time, level, module and message.
    Text,
    /// An object for each line, with the fields of the message.
    Json,
}

words!(LogFormat {
    "text" => Self::Text,
    "json" => Self::Json,
});

/// A log level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Failures.
    Error,
    /// Probable mistakes.
    Warn,
    /// Changes that concern an operator: listeners, faces, routes.
    Info,
    /// Single requests.
    Debug,
    /// Single packets.
    Trace,
}

words!(LogLevel {
    "off" => Self::Off,
    "error" => Self::Error,
    "warn" => Self::Warn,
    "info" => Self::Info,
    "debug" => Self::Debug,
    "trace" => Self::Trace,
});

impl LogLevel {
    /// The levels' names in configuration files and on the command line, quietest first.
    pub const NAMES: [&'static str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    const ALL: [Self; 6] =
        [Self::Off, Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// The level's name.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The level of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Modules with events of the log.
const LOG_MODULES: [&str; 72] = [
    "namewire::cli::control_queries",
    "namewire::process",
    "namewire::process::privileges",
    "namewire::process::service_manager",
    "namewire_control::server",
    "namewire_daemon::balance",
    "namewire_daemon::bound",
    "namewire_daemon::control",
    "namewire_daemon::control::connector",
    "namewire_daemon::control::face_table",
    "namewire_daemon::control::listening",
    "namewire_daemon::control::management",
    "namewire_daemon::control::memif",
    "namewire_daemon::control::operator",
    "namewire_daemon::control::path_mtu",
    "namewire_daemon::control::quotas",
    "namewire_daemon::control::refusals",
    "namewire_daemon::control::service",
    "namewire_daemon::control::sessions",
    "namewire_daemon::control::vip",
    "namewire_daemon::control::websocket",
    "namewire_daemon::destinations",
    "namewire_daemon::disk",
    "namewire_daemon::dpdk",
    "namewire_daemon::ethernet",
    "namewire_daemon::ethernet::driver",
    "namewire_daemon::ethernet::port",
    "namewire_daemon::forwarder",
    "namewire_daemon::identities",
    "namewire_daemon::listeners",
    "namewire_daemon::machine",
    "namewire_daemon::memory",
    "namewire_daemon::multicast",
    "namewire_daemon::reload",
    "namewire_daemon::static_setup",
    "namewire_daemon::streams",
    "namewire_http::connections",
    "namewire_http::graphql::access",
    "namewire_http::graphql::sampler",
    "namewire_http::respond",
    "namewire_http::tls",
    "namewire_http::tokens",
    "ndn_access::disk_cache",
    "ndn_access::file",
    "ndn_client::connection",
    "ndn_client::endpoint",
    "ndn_client::manage",
    "ndn_client::memif",
    "ndn_client::ping",
    "ndn_client::publish",
    "ndn_client::register",
    "ndn_client::rules",
    "ndn_client::shared",
    "ndn_client::trust",
    "ndn_dataplane::disk::port",
    "ndn_dataplane::port_workers",
    "ndn_dataplane::start",
    "ndn_dataplane::worker",
    "ndn_files::catalogue::fetch",
    "ndn_files::catalogue::update",
    "ndn_files::not_served",
    "ndn_files::serve",
    "ndn_files::versions",
    "ndn_gateway::access_log",
    "ndn_gateway::server",
    "ndn_origins::connect",
    "ndn_origins::error",
    "ndn_origins::origin",
    "ndn_webtransport::client",
    "ndn_webtransport::rotation",
    "ndn_webtransport::server",
    "ndn_webtransport::service",
];

/// Libraries that log. Their messages of the levels debug and trace are logged only if the library is named.
pub const LOG_LIBRARIES: [&str; 7] =
    ["h3", "quinn", "quinn_proto", "quinn_udp", "rustls", "tokio", "wtransport"];

/// The crates of this project that log.
pub fn log_crates() -> Vec<&'static str> {
    let mut crates: Vec<_> = LOG_MODULES.iter().map(|path| first_segment(path)).collect();
    crates.dedup();
    crates
}

fn first_segment(path: &str) -> &str {
    path.split("::").next().unwrap_or_default()
}

/// The modules, for the reference.
fn describe_modules() -> String {
    format!(
        "{}, or a part of one, such as `\"ndn_dataplane::worker\"`; libraries, whose messages below info are logged only if \
         named here: {}",
        log_crates().join(", "),
        LOG_LIBRARIES.join(", ")
    )
}

/// Checks that a text names a module that logs, or that contains one, such as `ndn_dataplane::worker`. The modules of
/// libraries are not known; their crate has to be.
///
/// # Errors
/// The reason why it does not, with the module of the nearest name, or the crates that log.
pub fn check_module(text: &str) -> Result<(), String> {
    if let Some(counterpart) = counterpart_of(text) {
        return Err(match counterpart {
            Counterpart::Module(ours) => {
                format!("`{text}` is a module of NFD; the corresponding module is {ours}")
            }
            Counterpart::None(why) => {
                format!("`{text}` is a module of NFD without a counterpart: {why}")
            }
        });
    }
    let contains = |path: &str| {
        path.strip_prefix(text).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let is_of_library = is_module(text) && LOG_LIBRARIES.contains(&first_segment(text));
    if is_of_library || !text.is_empty() && LOG_MODULES.iter().any(|path| contains(path)) {
        return Ok(());
    }
    let crates = log_crates();
    let (first, rest) = text.split_once("::").unwrap_or((text, ""));
    let hint = if crates.contains(&first) {
        let parts = LOG_MODULES.iter().filter_map(|path| path.strip_prefix(first));
        let parts: Vec<_> = parts.filter_map(|part| part.strip_prefix("::")).collect();
        match closest(rest, &parts) {
            Some(near) => format!("did you mean `{first}::{near}`?"),
            None => format!("parts of {first} that log are {}", parts.join(", ")),
        }
    } else {
        match closest(first, &[&crates[..], &LOG_LIBRARIES].concat()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "those that log are {}, parts of them, such as ndn_dataplane::worker, and the libraries {}",
                crates.join(", "),
                LOG_LIBRARIES.join(", ")
            ),
        }
    };
    Err(format!("`{text}` is not the name of a module that logs ({hint})"))
}

/// The counterpart of a log module of NFD or ndn-cxx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counterpart {
    /// A module of Namewire.
    Module(&'static str),
    /// None, and the reason.
    None(&'static str),
}

const PACKETS: Counterpart = Counterpart::None(
    "packets are counted (namewire workers, namewire face show) and captured (namewire capture), not logged",
);
const CONTROL: Counterpart = Counterpart::Module("namewire_daemon::control");
const ETHERNET: Counterpart = Counterpart::Module("namewire_daemon::ethernet");

/// The counterpart of a module that `nfd --modules` lists, or of a module with a similar name in another version.
/// Names without a dot are those of NFD, as in its configuration.
pub(crate) fn counterpart_of(module: &str) -> Option<Counterpart> {
    if let Some(of_library) = module.strip_prefix("ndn.") {
        return Some(match of_library {
            "NetworkMonitor" => Counterpart::Module("namewire_daemon"),
            "mgmt.Dispatcher" => CONTROL,
            _ if of_library.starts_with("security.") => Counterpart::Module("ndn_client::rules"),
            _ => Counterpart::None("it is part of the library that NFD is built on"),
        });
    }
    let name = module.strip_prefix("nfd.").unwrap_or(module);
    let ends_with = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    Some(match name {
        "Main" | "Nfd" => Counterpart::Module("namewire_daemon"),
        "PrivilegeHelper" => Counterpart::Module("namewire::process::privileges"),
        "NetdevBound" => Counterpart::Module("namewire_daemon::bound"),
        "MulticastUdpTransport" | "UdpFactory" => Counterpart::Module("namewire_daemon::multicast"),
        "AsfProbingModule" | "ContentStore" | "Cs" | "CsPolicy" | "DeadNonceList" | "Fib"
        | "Forwarder" | "Measurements" | "Pit" | "ProcessNackTraits" => PACKETS,
        "RibEntry" | "RibService" | "StrategyChoice" | "FaceTable" | "FaceSystem" => CONTROL,
        _ if name.starts_with("NameTree") || name.starts_with("Lp") => PACKETS,
        _ if ends_with(&["Strategy", "LinkService"]) => PACKETS,
        _ if name.contains("Ethernet") => ETHERNET,
        _ if ends_with(&["Manager", "Authenticator", "FibUpdater", "Rib", "Readvertise"]) => {
            CONTROL
        }
        _ if ends_with(&["ReadvertiseDestination", "Transport", "Channel", "Factory"]) => CONTROL,
        _ => return None,
    })
}

/// Whether a text has the form of a module path, such as `ndn_dataplane` or `ndn_dataplane::worker`.
fn is_module(text: &str) -> bool {
    let is_word = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    text.split("::").all(is_word)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// The output of `nfd --modules`, NFD 24.07 with ndn-cxx 0.9.0.
    const OF_NFD: &str = "ndn.Face ndn.NetworkMonitor ndn.TcpTransport ndn.UnixTransport ndn.mgmt.Dispatcher \
        ndn.security.CertificateBundleFetcher ndn.security.CertificateCache ndn.security.CertificateContainer \
        ndn.security.CertificateFetcher ndn.security.Identity ndn.security.IdentityContainer ndn.security.Key \
        ndn.security.KeyChain ndn.security.KeyContainer ndn.security.Pib ndn.security.TrustAnchorGroup \
        ndn.security.ValidationState ndn.security.Validator ndn.security.validator_config.Rule \
        nfd.AccessStrategy nfd.AsfProbingModule nfd.AsfStrategy nfd.BestRouteStrategy \
        nfd.CommandAuthenticator nfd.ContentStore nfd.CsPolicy nfd.DeadNonceList nfd.EthernetChannel \
        nfd.EthernetFactory nfd.EthernetTransport nfd.FaceManager nfd.FaceSystem nfd.FaceTable nfd.FibManager \
        nfd.FibUpdater nfd.Forwarder nfd.GenericLinkService nfd.InternalClientTransport \
        nfd.InternalForwarderTransport nfd.LinkService nfd.LpFragmenter nfd.LpReassembler nfd.LpReliability \
        nfd.Main nfd.MulticastEthernetTransport nfd.MulticastStrategy nfd.MulticastUdpTransport nfd.NameTree \
        nfd.NameTreeHashtable nfd.NameTreeIterator nfd.NetdevBound nfd.Nfd nfd.NfdRibReadvertiseDestination \
        nfd.NullTransport nfd.PrivilegeHelper nfd.ProcessNackTraits nfd.RandomStrategy nfd.Readvertise \
        nfd.ReadvertiseDestination nfd.Rib nfd.RibEntry nfd.RibManager nfd.RibService nfd.SelfLearningStrategy \
        nfd.Strategy nfd.StrategyChoice nfd.StrategyChoiceManager nfd.TcpChannel nfd.TcpFactory \
        nfd.TcpTransport nfd.Transport nfd.UdpChannel nfd.UdpFactory nfd.UnicastEthernetTransport \
        nfd.UnicastUdpTransport nfd.UnixStreamChannel nfd.UnixStreamFactory nfd.UnixStreamTransport";

    #[test]
    fn every_nfd_module_has_a_counterpart_that_logs() {
        for module in OF_NFD.split_whitespace() {
            let Some(counterpart) = counterpart_of(module) else { panic!("{module}") };
            if let Counterpart::Module(ours) = counterpart {
                assert_eq!(check_module(ours), Ok(()), "{module}");
            }
            let reason = check_module(module).unwrap_err();
            assert!(reason.contains("of NFD"), "{reason}");
        }
        assert_eq!(counterpart_of("FibManager"), Some(CONTROL), "as in its configuration");
        assert_eq!(counterpart_of("nfd.EthernetTransport"), Some(ETHERNET));
        assert_eq!(counterpart_of("BestRouteStrategy"), Some(PACKETS));
        assert_eq!(counterpart_of("namewire_daemon::control"), None);
    }

    /// The words of a text that can be names of modules.
    fn words(text: &str) -> Vec<&str> {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect()
    }

    #[test]
    fn reference_lists_all_modules() {
        let reference = crate::reference();
        let of_log = reference.split("### `[log.modules]`").nth(1).unwrap();
        let of_log = words(of_log.split("###").next().unwrap());
        for module in log_crates().iter().chain(&LOG_LIBRARIES) {
            assert!(of_log.contains(module), "{module}");
        }
    }

    /// Adds the modules below `directory` whose file has an event of the log.
    fn add_logging(directory: &Path, path: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let file = entry.unwrap().path();
            let stem = file.file_stem().unwrap().to_str().unwrap();
            let module = match stem {
                "lib" | "main" | "mod" => path.to_owned(),
                _ => format!("{path}::{stem}"),
            };
            if stem == "tests" {
                continue;
            }
            if file.is_dir() {
                add_logging(&file, &module, found);
            } else if file.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&file).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                let levels = ["error", "warn", "info", "debug", "trace"];
                let imports: String =
                    code.lines().filter(|line| line.starts_with("use tracing::")).collect();
                let logs = |level: &&str| {
                    code.contains(&format!("tracing::{level}!(")) || words(&imports).contains(level)
                };
                if levels.iter().any(logs) {
                    found.insert(module);
                }
            }
        }
    }

    #[test]
    fn exactly_the_modules_that_log_are_listed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut logging = BTreeSet::new();
        add_logging(&root.join("apps/namewire/src"), "namewire", &mut logging);
        for entry in std::fs::read_dir(root.join("crates")).unwrap() {
            let directory = entry.unwrap();
            let name = directory.file_name().into_string().unwrap().replace('-', "_");
            add_logging(&directory.path().join("src"), &name, &mut logging);
        }
        let listed: BTreeSet<String> = LOG_MODULES.map(str::to_owned).into();
        assert_eq!(logging, listed, "modules that log, and modules that `namewire log` accepts");
        assert!(LOG_MODULES.is_sorted());
    }

    #[test]
    fn unknown_module_is_refused_with_the_nearest_one() {
        for (typed, expected) in [
            ("ndn_datapalne", "did you mean `ndn_dataplane`?"),
            ("ndn_dataplane::workr", "did you mean `ndn_dataplane::worker`?"),
            (
                "namewire_daemon::control::conector",
                "did you mean `namewire_daemon::control::connector`?",
            ),
            ("ndn_dataplane::nonsense", "parts of ndn_dataplane that log are disk::port, "),
            ("ndn_dataplane::peers", "parts of ndn_dataplane that log are"),
            ("serde", "those that log are namewire, "),
        ] {
            let reason = check_module(typed).unwrap_err();
            assert!(reason.contains(expected), "{reason}");
        }
    }

    #[test]
    fn only_known_modules_are_accepted() {
        for known in [
            "ndn_dataplane",
            "ndn_dataplane::worker",
            "namewire_http::graphql",
            "quinn_proto::connection",
            "ndn_webtransport",
        ] {
            assert_eq!(check_module(known), Ok(()), "{known}");
        }
        for unknown in [
            "",
            "ndn",
            "ndn_table",
            "ndn_fase",
            "ndn_dataplane::",
            "ndn_dataplane::nonsense",
            "ndn_dataplane::work",
            "ndn_dataplane:fib",
            "a b",
            "serde",
        ] {
            assert!(check_module(unknown).is_err(), "{unknown}");
        }
    }
}
