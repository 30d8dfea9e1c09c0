//! Networks of forwarders that run as processes of this machine, on sockets and in real time.
//!
//! Consumers and producers are in this process. The face of a link leads to a socket of the emulator (`links`), or to the
//! other forwarder.

pub(crate) mod applications;
mod driver;
mod links;
mod management;
mod namespaces;
mod node;
mod part;
pub(crate) mod place;
mod program;
mod routing;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use ndn_client::link::SimulatedLinkOptions;
use ndn_sys::clock::Clock;
use ndn_sys::energy::EnergyMeter;

use crate::leftovers;
use crate::network::packets::NAME_COMPONENTS_MIN;
use crate::network::{CPU, Measures, Network, TRAFFIC_NAMES};
use links::{Direction, Links};
use namespaces::Namespaces;
use ndn_types::Timestamp;
#[cfg(test)]
pub(crate) use part::Reading;
pub(crate) use part::{Driven, Part};
use place::Addresses;
pub(crate) use place::Endpoints;
pub use program::Program;
pub(crate) use program::Sockets;
pub use settings::{NodeProgram, Place, Testbed, Workload};

/// Time between the start of the clients and the first request.
const LEAD: Duration = Duration::from_millis(20);

/// Measurements of a node over time. `QUANTITY.NODE@MS` is the mean since the reading before.
pub(crate) const TIME_LINES: [&str; 2] = ["packets_per_s", "cpu_share"];
/// Measurement: processor time of the consumers and producers of the lab over the time.
const CLIENTS_CPU_SHARE: &str = "clients_cpu_share";

/// A run that failed.
#[derive(Debug)]
pub struct TestbedError {
    /// Why.
    pub reason: String,
    /// The last output of the forwarders.
    pub log: String,
}

impl Testbed {
    /// Names of the measurements of the whole network beside those of [`Measures`] and [`Self::ENERGY`].
    pub const NAMES: [&'static str; 5] =
        [CPU, "memory_mib", "start_ms", CLIENTS_CPU_SHARE, "link_overflows"];
    /// Measurement: energy of the processors of the hosts, where it is counted.
    pub const ENERGY: &'static str = "energy_j";
    /// Names of the measurements of a node beside those of [`Measures`]; that of the node follows after a dot.
    pub const NODE_NAMES: [&'static str; 4] = [CPU, "memory_mib", "packets_per_s", "mbit_per_s"];

    /// Checks that the energy of the processors of this machine is counted, if it runs the network.
    ///
    /// # Errors
    /// It is not, or this user may not read it.
    pub fn check_energy(&self) -> Result<(), String> {
        if self.place == Place::Hosts {
            return Ok(());
        }
        EnergyMeter::open(Path::new("/")).map(drop).map_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                let reason = "this machine does not count the energy of its processors (RAPL)";
                return format!("{}: {reason}", Self::ENERGY);
            }
            format!("{}: the energy of the processors: {error}", Self::ENERGY)
        })
    }

    /// Checks that the forwarder is there and can run the network.
    ///
    /// # Errors
    /// Names the setting.
    pub fn check(&self, network: &Network<'_>) -> Result<(), String> {
        let nodes = network.topology.nodes.len();
        if self.place != Place::Hosts {
            for program in self.programs(nodes) {
                program.locate().map_err(|error| format!("forwarder: {error}"))?;
            }
        }
        if self.workload == Workload::Transfer && network.name_components != NAME_COMPONENTS_MIN {
            return Err(
                "name_components: names of the workload 'transfer' are those of the file server"
                    .to_owned(),
            );
        }
        if self.has_routing_daemons {
            if self.place != Place::Hosts {
                Program::Ndnd.locate().map_err(|error| format!("routing: {error}"))?;
            }
            if self.workload != Workload::Distribution {
                return Err(
                    "routing: programs of the other workloads do not announce their prefixes"
                        .to_owned(),
                );
            }
        }
        if self.place == Place::Namespaces {
            namespaces::check(network.topology)?;
        }
        for node in 0..nodes {
            self.check_node(node, network.cs_packets_of(node) as usize)?;
        }
        if !self.is_emulated {
            let mut links = BTreeSet::new();
            for (first, second) in place::ends(network.topology) {
                if !links.insert((first.min(second), first.max(second))) {
                    let nodes = &network.topology.nodes;
                    return Err(format!(
                        "links: direct: there are two links between '{}' and '{}'",
                        nodes[first], nodes[second]
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_node(&self, node: usize, cs_packets: usize) -> Result<(), String> {
        let NodeProgram { program, workers, processors } = self.of_node(node);
        if !(1..=program::WORKERS_MAX).contains(workers) {
            return Err(format!(
                "workers: {workers} is not a number from 1 to {}",
                program::WORKERS_MAX
            ));
        }
        if self.place != Place::Hosts && !processors.is_empty() {
            let allowed = ndn_sys::cpu::allowed_cpus().map_err(|error| error.to_string())?;
            if let Some(absent) = processors.iter().find(|one| !allowed.contains(one)) {
                return Err(format!("processors: there is no processor {absent}"));
            }
        }
        program.check(cs_packets, *workers)
    }

    /// Memory of forwarders beside their Content Stores, in bytes.
    #[must_use]
    pub fn memory(nodes: usize) -> u64 {
        nodes as u64 * program::NODE_BYTES
    }

    /// Starts the network, performs its requests and ends it. It fails if requests are not complete within `limit`. Processes
    /// of the run have `mark`, which begins with the identifier of the experiment.
    ///
    /// # Errors
    /// A forwarder does not start, ends or refuses a command, or a request does not end.
    pub fn run(
        &self,
        network: &Network<'_>,
        mark: &str,
        clock: &Clock,
        limit: Duration,
    ) -> Result<BTreeMap<String, f64>, TestbedError> {
        let plain = |reason: String| TestbedError { reason, log: String::new() };
        let end = clock.now().since(Timestamp::ZERO) + limit;
        let permission = leftovers::starting();
        let directory = leftovers::directory(&permission);
        drop(permission);
        let directory =
            directory.map_err(|error| plain(format!("temporary directory: {error}")))?;
        let mut part = Part::new(self.clone(), network, clock);
        let outcome = self.perform(network, (directory.path(), mark, &mut part), clock, end);
        let log = outcome.as_ref().map_or_else(|_| part.log(), |_| String::new());
        drop(part);
        // Programs that forwarders started, and forwarders that were not stored.
        leftovers::end_processes(mark);
        // Blocks if the forwarders were ended by an interrupt.
        drop(leftovers::starting());
        outcome.map_err(|reason| TestbedError { reason, log })
    }

    fn perform(
        &self,
        network: &Network<'_>,
        (directory, mark, part): (&Path, &str, &mut Part<'_>),
        clock: &Clock,
        end: Duration,
    ) -> Result<BTreeMap<String, f64>, String> {
        let begin = clock.now();
        let topology = network.topology;
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Removed after the forwarders have ended, when this returns.
        let (namespaces, addresses) = if self.place == Place::Namespaces {
            let made = Namespaces::make(&name, topology, self.is_emulated);
            let (namespaces, addresses) = made.map_err(|error| format!("namespaces: {error}"))?;
            (Some(namespaces), addresses)
        } else {
            let addresses = place::on_loopback(topology, self.is_emulated, network.seed);
            (None, addresses.map_err(|error| format!("addresses: {error}"))?)
        };
        let all: BTreeSet<usize> = (0..topology.nodes.len()).collect();
        let endpoints = addresses.endpoints.clone();
        let links = self.start_links(network, addresses, clock)?;
        part.start(&all, (directory, mark), &endpoints, namespaces.as_ref())?;
        let start_ms = (clock.now() - begin).as_secs_f64() * 1e3;
        part.read()?;
        let overflows = links.as_ref().map_or(0, Links::overflows);
        let origin = clock.now().since(Timestamp::ZERO) + LEAD;
        let driven = part.drive(origin, end, || true)?;
        let overflows = links.as_ref().map_or(0, Links::overflows) - overflows;
        measures(network, &driven, (start_ms, overflows))
    }

    /// Starts the emulator, if links are emulated.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn start_links(
        &self,
        network: &Network<'_>,
        addresses: Addresses,
        clock: &Clock,
    ) -> Result<Option<Links>, String> {
        if !self.is_emulated {
            return Ok(None);
        }
        let mut options = vec![SimulatedLinkOptions::default(); network.topology.links];
        for hop in network.topology.hops.iter().flatten() {
            options[hop.link] = link_options(network, hop);
        }
        let sockets = addresses.sockets.into_iter().zip(addresses.locals).zip(options);
        let directions =
            sockets.map(|((socket, node), options)| Direction { socket, node, options }).collect();
        let links = Links::start(directions, clock);
        links.map(Some).map_err(|error| format!("links: {error}"))
    }
}

/// All measurements of a load, by name.
pub(crate) fn measures(
    network: &Network<'_>,
    driven: &Driven,
    (start_ms, overflows): (f64, u64),
) -> Result<BTreeMap<String, f64>, String> {
    let record = &driven.record;
    let mut all = match record.flows[..] {
        [] => record.measures(network)?.named(),
        _ => record.traffic(network)?,
    };
    let elapsed_s = driven.elapsed.as_secs_f64().max(1e-9);
    let (mut cpu_ms_of_all, mut memory_mib_of_all) = (0.0, 0.0);
    for (number, name) in network.topology.nodes.iter().enumerate() {
        let from = driven.baseline.get(&number).copied().unwrap_or_default().counts;
        let until = driven.until.get(&number).copied().unwrap_or_default();
        let per_s = |from: u64, until: u64| until.saturating_sub(from) as f64 / elapsed_s;
        let cpu_ms = until.counts.cpu.saturating_sub(from.cpu).as_secs_f64() * 1e3;
        let memory_mib = until.memory_bytes as f64 / f64::from(1 << 20);
        cpu_ms_of_all += cpu_ms;
        memory_mib_of_all += memory_mib;
        let values = [
            cpu_ms,
            memory_mib,
            per_s(from.link_packets, until.counts.link_packets),
            per_s(from.link_bytes, until.counts.link_bytes) * 8e-6,
        ];
        let names = Testbed::NODE_NAMES.map(|quantity| format!("{quantity}.{name}"));
        all.extend(names.into_iter().zip(values));
        let mut last = (Duration::ZERO, from);
        for (at, readings) in &driven.samples {
            let Some(reading) = readings.get(&number) else { continue };
            let span_s = at.saturating_sub(last.0).as_secs_f64().max(1e-9);
            let packets = reading.counts.link_packets.saturating_sub(last.1.link_packets);
            let cpu = reading.counts.cpu.saturating_sub(last.1.cpu);
            let values = [packets as f64 / span_s, cpu.as_secs_f64() / span_s];
            let names = TIME_LINES.map(|line| format!("{line}.{name}@{}", at.as_millis()));
            all.extend(names.into_iter().zip(values));
            last = (*at, reading.counts);
        }
    }
    let values = [
        cpu_ms_of_all,
        memory_mib_of_all / network.topology.nodes.len() as f64,
        start_ms,
        driven.used.as_secs_f64() / elapsed_s,
        overflows as f64,
    ];
    all.extend(Testbed::NAMES.map(str::to_owned).into_iter().zip(values));
    if let Some(energy_uj) = driven.energy_uj {
        all.insert(Testbed::ENERGY.to_owned(), energy_uj as f64 / 1e6);
    }
    if driven.used == Duration::ZERO {
        // The clients were other programs.
        all.remove(CLIENTS_CPU_SHARE);
    }
    Ok(all)
}

/// The link of a hop, as a simulation has it.
pub(crate) fn link_options(
    network: &Network<'_>,
    hop: &ndn_cache_sim::topology::Hop,
) -> SimulatedLinkOptions {
    let (properties, default) = (hop.properties, SimulatedLinkOptions::default());
    SimulatedLinkOptions {
        rate: (network.topology.mbit_per_s(hop) * 1e6) as u64,
        delay: Duration::from_secs_f64(hop.delay_s),
        queue_bytes: properties.queue_bytes.unwrap_or(default.queue_bytes),
        loss: properties.loss.unwrap_or(network.loss),
        seed: network.seed.wrapping_add(hop.link as u64),
        ..default
    }
}

/// Names of all measurements of the whole network, and of a node.
#[must_use]
pub fn names(workload: Workload) -> (Vec<&'static str>, Vec<&'static str>) {
    let of_clients = match workload {
        Workload::Distribution | Workload::Transfer => &Measures::NAMES[..],
        Workload::Traffic => &TRAFFIC_NAMES,
    };
    let mut names = [of_clients, &Testbed::NAMES, &[Testbed::ENERGY]].concat();
    names.retain(|name| *name != CLIENTS_CPU_SHARE || workload == Workload::Distribution);
    (names, [&Measures::NODE_NAMES[..], &Testbed::NODE_NAMES].concat())
}
