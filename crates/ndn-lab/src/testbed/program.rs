//! Forwarders that a testbed can run: their limits and configurations.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;

use namewire_config::{ByteSize, Config};
use ndn_types::FaceUri;

use crate::programs::find;
use crate::simulation::node::{NodeSettings, tables};

/// Memory for packets on their way in a node of Namewire.
const POOL_BYTES: u64 = 8 << 20;
/// Largest capacity of the Content Store of a thread of ndnd: a 16-bit number in its configuration.
const NDND_CS_PACKETS_MAX: usize = u16::MAX as usize;
/// Components of names by which MW-NFD deals Interests to its workers: the source, and in short names the object.
const MW_NFD_PREFIX_COMPONENTS: usize = 2;
/// Largest number of threads of a node.
pub(super) const WORKERS_MAX: usize = 64;
/// Memory of a node beside its Content Store, estimated.
pub(super) const NODE_BYTES: u64 = 24 << 20;

/// A forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// Namewire.
    Namewire,
    /// NFD.
    Nfd,
    /// ndnd (YaNFD).
    Ndnd,
    /// MW-NFD: NFD 0.7.1 with forwarding threads.
    MwNfd,
}

/// Sockets of a node.
#[derive(Debug, Clone)]
pub(crate) struct Sockets {
    /// Path of the Unix socket.
    pub(crate) unix: PathBuf,
    /// Address of the UDP socket.
    pub(crate) udp: SocketAddrV4,
    /// Addresses to which the faces of its links lead, in the order of links; none where links are those of others.
    pub(crate) neighbours: Vec<SocketAddrV4>,
}

impl Program {
    /// All forwarders.
    pub const ALL: [Self; 4] = [Self::Namewire, Self::Nfd, Self::Ndnd, Self::MwNfd];

    /// Its name, which is that of its executable file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Namewire => "namewire",
            Self::Nfd => "nfd",
            Self::Ndnd => "ndnd",
            Self::MwNfd => "mw-nfd",
        }
    }

    /// The forwarder of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|program| program.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("unknown forwarder '{name}'; known: {known}")
        })
    }

    /// Its executable file.
    ///
    /// # Errors
    /// It is not on `PATH`.
    pub fn locate(self) -> Result<PathBuf, String> {
        find(self.name(), Path::new("/"))
    }

    /// The version that the program prints.
    ///
    /// # Errors
    /// It does not start, or prints none.
    pub fn version(self) -> Result<String, String> {
        let path = self.locate()?;
        let mut command = Command::new(&path);
        let output = command.arg("--version").output();
        let output = output.map_err(|error| format!("{}: {error}", path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|line| !line.trim().is_empty());
        let line = line.filter(|_| output.status.success()).map(|line| line.trim().to_owned());
        line.ok_or_else(|| format!("{} --version prints no version", path.display()))
    }

    /// Checks that it can run these settings.
    ///
    /// # Errors
    /// Names the setting.
    pub(super) fn check(self, cs_packets: usize, workers: usize) -> Result<(), String> {
        match self {
            Self::Nfd if workers != 1 => {
                Err(format!("workers: {workers}: nfd forwards on one thread"))
            }
            Self::Ndnd if cs_packets > NDND_CS_PACKETS_MAX => Err(format!(
                "cache_bytes: {cs_packets} packets: the Content Store of ndnd has at most {NDND_CS_PACKETS_MAX}"
            )),
            Self::MwNfd if workers > processors() => Err(format!(
                "workers: {workers}: mw-nfd binds each to a processor of its own, and there are {}",
                processors()
            )),
            Self::Namewire | Self::Nfd | Self::Ndnd | Self::MwNfd => Ok(()),
        }
    }

    /// Returns whether the strategy for all names is in its configuration.
    pub(super) fn has_strategy_in_configuration(self) -> bool {
        matches!(self, Self::Nfd | Self::MwNfd)
    }

    /// Returns whether it applies the cache policy of local producers (NDNLPv2, CachePolicy).
    pub(super) fn has_cache_policy(self) -> bool {
        self != Self::Ndnd
    }

    /// Name and text of its configuration file.
    pub(crate) fn configuration(
        self,
        settings: NodeSettings<'_>,
        workers: usize,
        sockets: &Sockets,
    ) -> (&'static str, String) {
        match self {
            Self::Namewire => ("namewire.toml", namewire(settings, workers, sockets)),
            Self::Nfd => ("nfd.conf", nfd(settings, sockets)),
            Self::Ndnd => ("ndnd.yml", ndnd(settings, workers, sockets)),
            Self::MwNfd => ("mw-nfd.conf", mw_nfd(settings, (workers, processors()), sockets)),
        }
    }

    /// The command that starts it.
    pub(super) fn command(self, executable: &Path, configuration: &Path) -> Command {
        let mut command = Command::new(executable);
        match self {
            Self::Namewire => command.args(["run", "--config"]).arg(configuration),
            Self::Nfd | Self::MwNfd => command.arg("--config").arg(configuration),
            Self::Ndnd => command.args(["fw", "run"]).arg(configuration),
        };
        command
    }
}

fn namewire(settings: NodeSettings<'_>, workers: usize, sockets: &Sockets) -> String {
    let remote = |number: usize| {
        let address = *sockets.neighbours.get(number)?;
        Some(FaceUri::from_socket("udp", address.into()))
    };
    let mut config: Config = tables(settings, workers, remote);
    config.control.enabled = false;
    config.pool.capacity = ByteSize(POOL_BYTES);
    let listeners = &mut config.listeners;
    listeners.unix.path = Some(sockets.unix.clone());
    listeners.udp.addresses = vec![(*sockets.udp.ip()).into()];
    listeners.udp.port = sockets.udp.port();
    listeners.tcp.enabled = false;
    listeners.websocket.enabled = false;
    listeners.multicast.enabled = false;
    config.to_toml()
}

fn nfd(settings: NodeSettings<'_>, sockets: &Sockets) -> String {
    let capacity = format!("cs_max_packets {}", settings.cs_packets);
    nfd_sections(settings, (&capacity, "    unicast_mtu 8800\n"), sockets)
}

/// The configuration of NFD with these settings of the Content Store, and further ones of UDP.
fn nfd_sections(
    settings: NodeSettings<'_>,
    (capacity, udp): (&str, &str),
    sockets: &Sockets,
) -> String {
    let strategy = settings.strategy;
    format!(
        "log\n{{\n  default_level WARN\n}}\n\
         tables\n{{\n  {capacity}\n  cs_policy lru\n\
         \x20 strategy_choice\n  {{\n    / /localhost/nfd/strategy/{strategy}\n  }}\n\
         \x20 network_region\n  {{\n  }}\n}}\n\
         face_system\n{{\n  unix\n  {{\n    path {}\n  }}\n\
         \x20 udp\n  {{\n    listen yes\n    port {}\n    enable_v6 no\n    mcast no\n{udp}  }}\n}}\n\
         authorizations\n{{\n  authorize\n  {{\n    certfile any\n    privileges\n    {{\n\
faces\nfib\ncs\nstrategy-choice\n    }}\n  }}\n}}\n\
         rib\n{{\n  localhost_security\n  {{\n    trust-anchor\n    {{\n      type any\n    }}\n  }}\n  readvertise_nlsr {}\n}}\n",
        sockets.unix.display(),
        sockets.udp.port(),
        if settings.has_routing_daemon { "yes" } else { "no" },
    )
}

/// MW-NFD binds its main thread to the first processor, and reads names and capacities of `tables` again in each worker. The
/// Content Store for names that match exactly has the same capacity as the other one; segments are in the first.
fn mw_nfd(
    settings: NodeSettings<'_>,
    (workers, processors): (usize, usize),
    sockets: &Sockets,
) -> String {
    let packets = settings.cs_packets;
    let capacity = format!("pm_cs_max_packets {packets}\n  em_cs_max_packets {packets}");
    let first = usize::from(workers < processors);
    let all: Vec<String> = (first..first + workers).map(|number| number.to_string()).collect();
    let sections = nfd_sections(settings, (&capacity, ""), sockets);
    format!(
        "{sections}mw-nfd\n{{\n  input-thread-core-assign\n  {{\n  }}\n  forwarding-worker-core-assign {}\n\
         \x20 prefix-length-for-distribution {MW_NFD_PREFIX_COMPONENTS}\n  fib-sharding no\n}}\n",
        all.join(","),
    )
}

/// Number of processors of this machine.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn ndnd(settings: NodeSettings<'_>, workers: usize, sockets: &Sockets) -> String {
    // The default algorithm of its FIB compares a name with all siblings in turn.
    let (capacity, is_caching) = (settings.cs_packets, settings.cs_packets > 0);
    format!(
        "core:\n  log_level: WARN\n\
         faces:\n  queue_size: 4096\n\
         \x20 udp:\n    enabled_unicast: true\n    enabled_multicast: false\n    port_unicast: {port}\n    default_mtu: 8800\n\
         \x20 tcp:\n    enabled: false\n    port_unicast: {port}\n\
         \x20 unix:\n    enabled: true\n    socket_path: {socket}\n\
         \x20 websocket:\n    enabled: false\n\
         \x20 http3:\n    enabled: false\n\
         fw:\n  threads: {workers}\n  queue_size: 4096\n\
         tables:\n  content_store:\n    capacity: {capacity}\n    admit: {is_caching}\n    serve: {is_caching}\n\
         \x20   replacement_policy: lru\n  fib:\n    algorithm: hashtable\n  rib:\n    readvertise_nlsr: {}\n",
        settings.has_routing_daemon,
        port = sockets.udp.port(),
        socket = sockets.unix.display(),
    )
}

/// The loopback address of all nodes of a testbed without namespaces.
pub(super) const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: NodeSettings<'_> = NodeSettings {
        cs_packets: 1000,
        segment_bytes: 8000,
        strategy: "best-route",
        cs_policy: ndn_caching::PolicyKind::Lru,
        vip: None,
        prefixes: 3,
        links: &[],
        has_consumers: true,
        is_source: false,
        has_routing_daemon: false,
    };

    #[test]
    fn configuration_of_namewire_is_valid() {
        let unix = "/tmp/n.sock".into();
        let udp = SocketAddrV4::new(LOOPBACK, 20_000);
        let sockets = Sockets { unix, udp, neighbours: Vec::new() };
        for (cs_packets, workers) in [(1000, 1), (0, 2)] {
            let settings = NodeSettings { cs_packets, ..SETTINGS };
            let (_, text) = Program::Namewire.configuration(settings, workers, &sockets);
            let config = namewire_config::parse("namewire.toml", &text).unwrap();
            assert_eq!(config.tables.cs.capacity_packets, cs_packets, "{text}");
            assert_eq!(config.listeners.udp.port, 20_000, "{text}");
        }
    }

    #[test]
    fn settings_that_a_forwarder_does_not_have_are_refused() {
        assert!(Program::Nfd.check(100_000, 1).is_ok());
        assert!(Program::Nfd.check(1000, 2).unwrap_err().contains("one thread"));
        assert!(Program::Ndnd.check(65_536, 1).unwrap_err().contains("at most 65535"));
        assert!(Program::Ndnd.check(65_535, 8).is_ok());
        let refused = Program::MwNfd.check(1000, processors() + 1).unwrap_err();
        assert!(refused.contains("a processor of its own"), "{refused}");
        assert!(Program::MwNfd.check(100_000, processors()).is_ok());
        assert!(Program::parse("yanfd").unwrap_err().contains("namewire, nfd, ndnd, mw-nfd"));
    }

    /// Names of keys are those of MW-NFD's sample file, and its program fails without `tables.network_region`.
    #[test]
    fn configuration_of_mw_nfd_has_processors_for_its_workers() {
        let sockets = Sockets {
            unix: "/tmp/n.sock".into(),
            udp: SocketAddrV4::new(LOOPBACK, 20_000),
            neighbours: Vec::new(),
        };
        for (workers, processors, list) in
            [(1, 1, "0"), (1, 2, "1"), (2, 2, "0,1"), (3, 8, "1,2,3")]
        {
            let text = mw_nfd(SETTINGS, (workers, processors), &sockets);
            let line = format!("\n  forwarding-worker-core-assign {list}\n");
            assert!(text.contains(&line), "{text}");
            for part in ["pm_cs_max_packets 1000\n", "em_cs_max_packets 1000\n", "network_region"] {
                assert!(text.contains(part), "{text}");
            }
            // Keys of later versions, which it refuses.
            assert!(!text.contains("unicast_mtu") && !text.contains(" cs_max_packets"), "{text}");
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
        }
    }
}
