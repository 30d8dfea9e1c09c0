//! Networks of forwarders that run as processes of this machine, on sockets and in real time.
//!
//! Consumers and producers are in this process. The face of a link leads to a socket of the emulator (`links`), or to the
//! other forwarder.

mod driver;
mod links;
mod management;
mod namespaces;
mod node;
mod place;
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use ndn_cache_sim::engine::closer_hops;
use ndn_cache_sim::topology::Topology;
use ndn_client::link::LinkOptions;
use ndn_sys::clock::Clock;
use ndn_sys::cpu::CpuTimes;

use crate::leftovers;
use crate::network::packets::prefix;
use crate::network::{Clients, Measures, Network, NetworkCounts};
use crate::simulation::node::NodeSettings;
use driver::{ClientFace, Driver, WarmUp};
use links::{Direction, Links};
use namespaces::Namespaces;
use node::{Node, NodeCounts};
use place::Addresses;
pub use program::Program;
use program::Sockets;

/// Time between the start of the clients and the first request.
const LEAD: Duration = Duration::from_millis(20);

/// Settings of a testbed beside those of its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Testbed {
    /// The forwarder of all nodes.
    pub program: Program,
    /// Forwarding threads of each.
    pub workers: usize,
    /// Whether each node has a network namespace of its own.
    pub has_namespaces: bool,
    /// Whether links have the rates, delays and losses of the network; otherwise those of the loopback interface.
    pub is_emulated: bool,
}

/// A run that failed.
#[derive(Debug)]
pub struct TestbedError {
    /// Why.
    pub reason: String,
    /// The last output of the forwarders.
    pub log: String,
}

/// A run of an experiment, for the marks of what it starts.
#[derive(Debug, Clone, Copy)]
pub struct RunMark<'a> {
    /// Identifier of the experiment.
    pub id: &'a str,
    /// Mark of the processes of the run; it begins with the identifier.
    pub mark: &'a str,
}

impl Testbed {
    /// Names of the measurements of the whole network beside those of [`Measures`].
    pub const NAMES: [&'static str; 5] =
        ["cpu_ms", "memory_mib", "start_ms", "clients_cpu_share", "link_overflows"];
    /// Names of the measurements of a node beside those of [`Measures`]; that of the node follows after a dot.
    pub const NODE_NAMES: [&'static str; 4] =
        ["cpu_ms", "memory_mib", "packets_per_s", "mbit_per_s"];

    /// Checks that the forwarder is there and can run the network.
    ///
    /// # Errors
    /// Names the setting.
    pub fn check(&self, network: &Network<'_>) -> Result<(), String> {
        self.program.locate().map_err(|error| format!("forwarder: {error}"))?;
        if self.has_namespaces {
            namespaces::check(network.topology)?;
        }
        if !(1..=program::WORKERS_MAX).contains(&self.workers) {
            return Err(format!(
                "workers: {} is not a number from 1 to {}",
                self.workers,
                program::WORKERS_MAX
            ));
        }
        for node in 0..network.topology.nodes.len() {
            self.program.check(network.cs_packets_of(node) as usize, self.workers)?;
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

    /// Memory of the forwarders of a network beside their Content Stores, in bytes.
    #[must_use]
    pub fn memory(topology: &Topology) -> u64 {
        topology.nodes.len() as u64 * program::NODE_BYTES
    }

    /// Starts the network, performs its requests and ends it. It fails if requests are not complete within `limit`.
    ///
    /// # Errors
    /// A forwarder does not start, ends or refuses a command, or a request does not end.
    pub fn run(
        &self,
        network: &Network<'_>,
        run: RunMark<'_>,
        clock: &Clock,
        limit: Duration,
    ) -> Result<BTreeMap<String, f64>, TestbedError> {
        let plain = |reason: String| TestbedError { reason, log: String::new() };
        let end = Duration::from_nanos(clock.now_ns()) + limit;
        let permission = leftovers::starting();
        let directory = leftovers::directory(run.id, &permission);
        drop(permission);
        let directory =
            directory.map_err(|error| plain(format!("temporary directory: {error}")))?;
        let mut nodes = Vec::new();
        let outcome = self.perform((network, run.mark), (directory.path(), &mut nodes), clock, end);
        let log: String = match &outcome {
            Ok(_) => String::new(),
            Err(_) => nodes.iter().map(Node::log).collect(),
        };
        nodes.clear();
        // Programs that forwarders started, and forwarders that were not stored.
        leftovers::end_processes(run.mark);
        // Blocks if the forwarders were ended by an interrupt.
        drop(leftovers::starting());
        outcome.map_err(|reason| TestbedError { reason, log })
    }

    fn perform(
        &self,
        (network, mark): (&Network<'_>, &str),
        (directory, nodes): (&Path, &mut Vec<Node>),
        clock: &Clock,
        end: Duration,
    ) -> Result<BTreeMap<String, f64>, String> {
        let begin_ns = clock.now_ns();
        let topology = network.topology;
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Removed after the forwarders have ended, when this returns.
        let (namespaces, addresses) = if self.has_namespaces {
            let made = Namespaces::make(&name, topology, self.is_emulated);
            let (namespaces, addresses) = made.map_err(|error| format!("namespaces: {error}"))?;
            (Some(namespaces), addresses)
        } else {
            let addresses = place::on_loopback(topology, self.is_emulated, network.seed);
            (None, addresses.map_err(|error| format!("addresses: {error}"))?)
        };
        let place = (&addresses, namespaces.as_ref());
        self.start_nodes((network, mark), directory, (place, nodes), clock)?;
        let links = self.start_links(network, addresses, clock)?;
        let faces = add_routes(network, nodes, self.program)?;
        let start_ms = (clock.now_ns() - begin_ns) as f64 / 1e6;
        let baseline = read_counts(nodes)?;
        let overflows = links.as_ref().map_or(0, Links::overflows);

        let origin = Duration::from_nanos(clock.now_ns()) + LEAD;
        let mut clients = Clients::new(network, origin);
        let has_warm_up = network.warm_up > Duration::ZERO;
        if !has_warm_up {
            clients.end_warm_up(network_counts(&baseline));
        }
        let (request, requested) = mpsc::channel::<()>();
        let (send, counts) = mpsc::channel();
        let warm_up = has_warm_up.then_some(WarmUp { request, counts });
        let cpu = CpuTimes::of_thread().map_err(|error| error.to_string())?;
        let counted_nodes = &mut *nodes;
        let (driven, counted) = std::thread::scope(|scope| {
            let counting = scope.spawn(move || -> Result<(), String> {
                if requested.recv().is_ok() {
                    // The driver does not take it if it has ended.
                    let _ = send.send(network_counts(&read_counts(counted_nodes)?));
                }
                Ok(())
            });
            let mut driver = Driver::new(&mut clients, faces, clock, end);
            let driven = driver.run(network.requests, warm_up.as_ref());
            drop(warm_up);
            (driven, counting.join())
        });
        driven?;
        counted.map_err(|_| "the thread that reads counts has ended".to_owned())??;
        let elapsed = Duration::from_nanos(clock.now_ns()).saturating_sub(origin).as_secs_f64();
        let used = CpuTimes::of_thread().map_err(|error| error.to_string())?.total() - cpu.total();
        let memory: Vec<u64> = nodes.iter().map(Node::memory_bytes).collect();
        let until = read_counts(nodes)?;
        let mut all = clients.measures(&network_counts(&until))?.named();
        add_node_measures(&mut all, topology, (&baseline, &until, &memory), elapsed);
        let overflows = links.as_ref().map_or(0, Links::overflows) - overflows;
        let count = topology.nodes.len() as f64;
        let cpu_ms: f64 =
            until.iter().zip(&baseline).map(|(until, from)| cpu_ms(from, until)).sum();
        let memory_mib = memory.iter().sum::<u64>() as f64 / count / f64::from(1 << 20);
        let values = [
            cpu_ms,
            memory_mib,
            start_ms,
            used.as_secs_f64() / elapsed.max(1e-9),
            overflows as f64,
        ];
        all.extend(Self::NAMES.map(str::to_owned).into_iter().zip(values));
        Ok(all)
    }

    fn start_nodes(
        &self,
        (network, mark): (&Network<'_>, &str),
        directory: &Path,
        ((addresses, namespaces), nodes): ((&Addresses, Option<&Namespaces>), &mut Vec<Node>),
        clock: &Clock,
    ) -> Result<(), String> {
        let topology = network.topology;
        let executable = self.program.locate()?;
        let prefixes = network.sources.iter().collect::<BTreeSet<_>>().len();
        for (number, name) in topology.nodes.iter().enumerate() {
            let own = directory.join(number.to_string());
            let permission = leftovers::starting();
            let made = std::fs::create_dir(&own);
            drop(permission);
            made.map_err(|error| format!("{}: {error}", own.display()))?;
            let sockets = Sockets { unix: own.join("s"), udp: addresses.listen[number] };
            let settings = NodeSettings {
                cs_packets: network.cs_packets_of(number) as usize,
                segment_bytes: network.segment_bytes,
                strategy: network.strategy,
                cs_policy: network.cs_policy.kind,
                vip: network.vip(),
                prefixes,
                neighbours: topology.hops[number].len(),
                has_consumers: topology.consumers.contains(&number),
                is_source: topology.producers.contains(&number),
            };
            let configuration = self.write_configuration(&own, settings, &sockets)?;
            let command = self.program.command(&executable, &configuration);
            let namespace = namespaces.map(|all| all.node(number));
            let command = place::wrapped(command, namespace.as_deref());
            nodes.push(Node::start((name, self.program), command, (&own, mark), sockets, clock)?);
        }
        for (number, node) in nodes.iter_mut().enumerate() {
            node.await_listening()?;
            let hops = topology.hops[number].iter();
            let uris: Vec<String> =
                hops.map(|hop| format!("udp4://{}", addresses.remotes[hop.link])).collect();
            node.create_faces(&uris)?;
            if network.strategy != "best-route" && self.program != Program::Nfd {
                node.set_strategy(network.strategy)?;
            }
        }
        Ok(())
    }

    fn write_configuration(
        &self,
        directory: &Path,
        settings: NodeSettings<'_>,
        sockets: &Sockets,
    ) -> Result<PathBuf, String> {
        let (name, text) = self.program.configuration(settings, self.workers, sockets);
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    fn start_links(
        &self,
        network: &Network<'_>,
        addresses: Addresses,
        clock: &Clock,
    ) -> Result<Option<Links>, String> {
        if !self.is_emulated {
            return Ok(None);
        }
        let mut options = vec![LinkOptions::default(); network.topology.links];
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

/// The link of a hop, as a simulation has it.
pub(crate) fn link_options(
    network: &Network<'_>,
    hop: &ndn_cache_sim::topology::Hop,
) -> LinkOptions {
    LinkOptions {
        rate: (network.topology.load.link_mbit_per_s * 1e6) as u64,
        delay: Duration::from_secs_f64(hop.delay_s),
        loss: network.loss,
        seed: network.seed.wrapping_add(hop.link as u64),
        ..LinkOptions::default()
    }
}

/// Adds the routes to all sources, and connects the clients.
fn add_routes(
    network: &Network<'_>,
    nodes: &mut [Node],
    program: Program,
) -> Result<Vec<ClientFace>, String> {
    let topology = network.topology;
    let failed = |error: std::io::Error| format!("{}: {error}", program.name());
    let mut faces = Vec::new();
    for &source in &network.sources.iter().copied().collect::<BTreeSet<u32>>() {
        let name = prefix(source);
        let producer = nodes[source as usize].connect_producer(&name)?;
        faces.push(ClientFace::new(source as usize, true, producer).map_err(failed)?);
        let closer = closer_hops(topology, source as usize);
        for (number, node) in nodes.iter_mut().enumerate() {
            for (rank, hop) in closer[number].iter().enumerate() {
                let place = topology.hops[number].iter().position(|one| one.link == hop.link);
                if let Some(neighbour) = place {
                    node.add_route(&name, neighbour, 1 + rank as u64)?;
                }
            }
        }
    }
    let consumers: BTreeSet<u32> = network.requests.iter().map(|request| request.node).collect();
    for &consumer in &consumers {
        let stream = nodes[consumer as usize].connect_consumers()?;
        faces.push(ClientFace::new(consumer as usize, false, stream).map_err(failed)?);
    }
    Ok(faces)
}

fn read_counts(nodes: &mut [Node]) -> Result<Vec<NodeCounts>, String> {
    nodes.iter_mut().map(Node::counts).collect()
}

fn network_counts(counts: &[NodeCounts]) -> NetworkCounts {
    NetworkCounts {
        cs_hits: counts.iter().map(|one| one.cs_hits).collect(),
        link_interests: counts.iter().map(|one| one.link_interests).sum(),
    }
}

fn cpu_ms(from: &NodeCounts, until: &NodeCounts) -> f64 {
    until.cpu.saturating_sub(from.cpu).as_secs_f64() * 1e3
}

fn add_node_measures(
    all: &mut BTreeMap<String, f64>,
    topology: &Topology,
    (baseline, until, memory): (&[NodeCounts], &[NodeCounts], &[u64]),
    elapsed_s: f64,
) {
    for (number, name) in topology.nodes.iter().enumerate() {
        let (from, until) = (&baseline[number], &until[number]);
        let per_s = |from: u64, until: u64| until.saturating_sub(from) as f64 / elapsed_s.max(1e-9);
        let values = [
            cpu_ms(from, until),
            memory[number] as f64 / f64::from(1 << 20),
            per_s(from.link_packets, until.link_packets),
            per_s(from.link_bytes, until.link_bytes) * 8e-6,
        ];
        let names = Testbed::NODE_NAMES.map(|quantity| format!("{quantity}.{name}"));
        all.extend(names.into_iter().zip(values));
    }
}

/// Names of all measurements of the whole network, and of a node.
#[must_use]
pub fn names() -> (Vec<&'static str>, Vec<&'static str>) {
    (
        [&Measures::NAMES[..], &Testbed::NAMES].concat(),
        [&Measures::NODE_NAMES[..], &Testbed::NODE_NAMES].concat(),
    )
}
