//! The part of a network that runs on one host: forwarders, and the consumers and producers of their nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use ndn_cache_sim::trace::Request;
use ndn_sys::clock::Clock;
use ndn_sys::cpu::{self, CpuTimes};
use ndn_sys::energy::{EnergyMeter, EnergyReading};
use ndn_types::{Timestamp, duration_ms};
use serde::{Deserialize, Serialize};

use super::applications::{self, Consumer, Producer};
use super::driver::{ClientFace, Driver, WarmUp};
use super::namespaces::Namespaces;
use super::node::{Node, NodeCounts};
use super::place::{self, Endpoints};
use super::program::Sockets;
use super::routing::{self, Daemon};
use super::settings::{NodeProgram, Testbed, Workload};
use crate::leftovers;
use crate::network::packets::prefix;
use crate::network::{Clients, Counts, Download, Network, NetworkCounts, Record, Routes};
use crate::simulation::node::NodeSettings;

/// Time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Largest number of samples of a run.
const SAMPLES_MAX: usize = 1000;
/// Time for routing daemons to find all routes.
const CONVERGENCE_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest wait, so that the limit of time and messages are noticed.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// Counts and memory of a forwarder.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reading {
    pub(crate) counts: NodeCounts,
    /// Largest resident memory so far, in bytes.
    pub(crate) memory_bytes: u64,
}

/// Readings by the number of the node.
pub(crate) type Readings = BTreeMap<usize, Reading>;

/// The counts of a network with `nodes` nodes; those without a reading have none.
fn network_counts(nodes: usize, readings: &Readings) -> NetworkCounts {
    let counts =
        |node: usize| readings.get(&node).map_or_else(NodeCounts::default, |one| one.counts);
    NetworkCounts {
        cs_hits: (0..nodes).map(|node| counts(node).cs_hits).collect(),
        link_interests: (0..nodes).map(|node| counts(node).link_interests).sum(),
    }
}

/// The outcome of a load.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Driven {
    /// Observations of the clients.
    pub(crate) record: Record,
    /// Readings before and after the load.
    pub(crate) baseline: Readings,
    pub(crate) until: Readings,
    /// Time from the begin of the load to the last segment.
    pub(crate) elapsed: Duration,
    /// Processor time of the consumers and producers.
    pub(crate) used: Duration,
    /// Readings during the load, with their times since its begin.
    pub(crate) samples: Vec<(Duration, Readings)>,
    /// Energy of the processors of all hosts from the begin of the load to the last segment, if each of them counts it.
    pub(crate) energy_uj: Option<u64>,
}

impl Driven {
    /// A network without parts, to which they are added.
    pub(crate) fn none() -> Self {
        Self { energy_uj: Some(0), ..Self::default() }
    }

    /// Adds another part of the network.
    pub(crate) fn add(&mut self, other: Self) {
        self.record.add(&other.record);
        self.baseline.extend(other.baseline);
        self.until.extend(other.until);
        self.elapsed = self.elapsed.max(other.elapsed);
        // Each part has a thread for its clients; the busiest one limits the network.
        self.used = self.used.max(other.used);
        self.samples.extend(other.samples);
        // A sum without that of a host would not show that it lacks one.
        self.energy_uj = self.energy_uj.zip(other.energy_uj).map(|(own, others)| own + others);
    }
}

/// Programs that `start` starts run on these processors only, as their first threads inherit those of this one. Fails, before it
/// starts anything, if one of the processors is not allowed to this thread.
fn on_processors<T>(processors: &[usize], start: impl FnOnce() -> T) -> std::io::Result<T> {
    let all = cpu::allowed_cpus()?;
    if let Some(absent) = processors.iter().find(|one| !all.contains(one)) {
        return Err(std::io::Error::other(format!("there is no processor {absent}")));
    }
    cpu::allow_cpus(processors)?;
    let started = start();
    cpu::allow_cpus(&all)?;
    Ok(started)
}

/// Energy of the processors of this host while something runs, if it is counted.
struct Energy(Option<(EnergyMeter, EnergyReading)>);

impl Energy {
    fn begin() -> Self {
        let begin = EnergyMeter::open(Path::new("/")).and_then(|meter| {
            let reading = meter.read()?;
            Ok((meter, reading))
        });
        Self(begin.ok())
    }

    fn used_uj(&self) -> Option<u64> {
        let (meter, begin) = self.0.as_ref()?;
        Some(meter.between_uj(begin, &meter.read().ok()?))
    }
}

/// Forwarders of some nodes with the faces of their clients; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Part<'n> {
    testbed: Testbed,
    network: &'n Network<'n>,
    clock: Clock,
    /// Producers that are programs, and routing daemons. They end before the forwarders.
    producers: Vec<Producer>,
    daemons: Vec<Daemon>,
    nodes: BTreeMap<usize, Node>,
    faces: Vec<ClientFace>,
    baseline: Readings,
    /// Mark of the processes of the run.
    mark: String,
}

impl<'n> Part<'n> {
    /// A part without forwarders.
    pub(crate) fn new(testbed: Testbed, network: &'n Network<'n>, clock: &Clock) -> Self {
        Self {
            testbed,
            network,
            clock: clock.clone(),
            producers: Vec::new(),
            daemons: Vec::new(),
            nodes: BTreeMap::new(),
            faces: Vec::new(),
            baseline: Readings::new(),
            mark: String::new(),
        }
    }

    /// Starts the forwarders of `numbers`, adds their routes, and connects their consumers and producers.
    ///
    /// # Errors
    /// A forwarder does not start, or refuses a command.
    pub(crate) fn start(
        &mut self,
        numbers: &BTreeSet<usize>,
        (directory, mark): (&Path, &str),
        endpoints: &Endpoints,
        namespaces: Option<&Namespaces>,
    ) -> Result<(), String> {
        let topology = self.network.topology;
        mark.clone_into(&mut self.mark);
        for number in numbers {
            let namespace = namespaces.map(|all| all.node(*number));
            let node =
                self.start_node(*number, (directory, mark), endpoints, namespace.as_deref())?;
            self.nodes.insert(*number, node);
        }
        for (number, node) in &mut self.nodes {
            node.await_listening()?;
            let hops = topology.hops[*number].iter();
            let uris: Vec<String> =
                hops.map(|hop| format!("udp4://{}", endpoints.remotes[hop.link])).collect();
            node.create_faces(&uris)?;
            let program = self.testbed.of_node(*number).program;
            if self.network.strategy != "best-route" && !program.has_strategy_in_configuration() {
                node.set_strategy(self.network.strategy)?;
            }
        }
        if self.testbed.has_routing_daemons {
            for (number, node) in &self.nodes {
                let hops = topology.hops[*number].iter();
                let neighbours: Vec<String> =
                    hops.map(|hop| format!("udp4://{}", endpoints.remotes[hop.link])).collect();
                let namespace = namespaces.map(|all| all.node(*number));
                let (socket, files) = (node.socket(), (directory, mark));
                let daemon =
                    Daemon::start(*number, &neighbours, socket, files, namespace.as_deref());
                self.daemons.push(daemon?);
            }
            // What is announced to a daemon without neighbours waits for half a minute.
            let all = (0..topology.nodes.len()).map(|node| (node, routing::known_daemon(node)));
            self.await_routes(&all.collect::<Vec<_>>())?;
        }
        self.connect(directory)?;
        if self.testbed.has_routing_daemons {
            let sources: BTreeSet<u32> = self.network.sources.iter().copied().collect();
            let all = sources.into_iter().map(|one| (one as usize, prefix(one).to_string()));
            self.await_routes(&all.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Waits until all forwarders have routes to these prefixes, but for those of their own nodes.
    fn await_routes(&mut self, prefixes: &[(usize, String)]) -> Result<(), String> {
        let begin = self.clock.now().since(Timestamp::ZERO);
        for (number, node) in &mut self.nodes {
            loop {
                let known = node.prefixes()?;
                let is_missing =
                    |(other, prefix): &&(usize, String)| other != number && !known.contains(prefix);
                let Some((_, missing)) = prefixes.iter().find(is_missing) else { break };
                let now = self.clock.now().since(Timestamp::ZERO);
                if now.saturating_sub(begin) > CONVERGENCE_TIMEOUT {
                    return Err(format!(
                        "the routing daemons have found no route from {} to {missing} in {CONVERGENCE_TIMEOUT:?}",
                        self.network.topology.nodes[*number]
                    ));
                }
            }
        }
        Ok(())
    }

    fn start_node(
        &self,
        number: usize,
        (directory, mark): (&Path, &str),
        endpoints: &Endpoints,
        namespace: Option<&str>,
    ) -> Result<Node, String> {
        let network = self.network;
        let NodeProgram { program, workers, processors } = self.testbed.of_node(number);
        let topology = network.topology;
        let own = directory.join(number.to_string());
        let neighbours = topology.hops[number].iter().map(|hop| endpoints.remotes[hop.link]);
        let (udp, neighbours) = (endpoints.listen[number], neighbours.collect());
        let sockets = Sockets { unix: own.join("s"), udp, neighbours };
        let settings = NodeSettings {
            has_routing_daemon: self.testbed.has_routing_daemons,
            ..NodeSettings::of(network, number)
        };
        let (name, text) = program.configuration(settings, *workers, &sockets);
        let path = own.join(name);
        let permission = leftovers::starting();
        let made = std::fs::create_dir(&own).and_then(|()| std::fs::write(&path, text));
        drop(permission);
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        let command = place::wrapped(program.command(&program.locate()?, &path), namespace);
        let name = &topology.nodes[number];
        let start = || Node::start((name, *program), command, (&own, mark), sockets, &self.clock);
        match processors.is_empty() {
            true => start(),
            false => on_processors(processors, start)
                .map_err(|error| format!("{name}: processors {processors:?}: {error}"))?,
        }
    }

    /// Adds the routes to all sources, and connects the clients.
    fn connect(&mut self, directory: &Path) -> Result<(), String> {
        let network = self.network;
        let (program, workload) = (self.testbed.common.program.name(), self.testbed.workload);
        let failed = |error: std::io::Error| format!("{program}: {error}");
        for &source in &network.sources.iter().copied().collect::<BTreeSet<u32>>() {
            let name = prefix(source);
            if let Some(node) = self.nodes.get(&(source as usize)) {
                if workload == Workload::Distribution {
                    let stream = node.connect_producer(&name)?;
                    let face = ClientFace::new(source as usize, true, stream);
                    self.faces.push(face.map_err(failed)?);
                } else {
                    let (of, files) = ((network, source), (directory, self.mark.as_str()));
                    let producer = Producer::start(workload, of, node.socket(), files, &self.clock);
                    self.producers.push(producer?);
                }
            }
        }
        if !self.testbed.has_routing_daemons {
            let routes = Routes::new(network);
            for (number, node) in &mut self.nodes {
                node.add_routes(&routes.of_node(*number))?;
            }
        }
        if workload != Workload::Distribution {
            return Ok(());
        }
        let requests = network.requests.iter();
        for &consumer in &requests.map(|request| request.node as usize).collect::<BTreeSet<_>>() {
            let Some(node) = self.nodes.get(&consumer) else { continue };
            let face = ClientFace::new(consumer, false, node.connect_consumers()?);
            self.faces.push(face.map_err(failed)?);
        }
        Ok(())
    }

    /// Reads the counts of all forwarders. The last reading before [`Self::drive`] is the one from which it counts.
    ///
    /// # Errors
    /// The management of a forwarder does not answer.
    pub(crate) fn read(&mut self) -> Result<Readings, String> {
        self.baseline = read(&mut self.nodes)?;
        Ok(self.baseline.clone())
    }

    /// Performs the requests of these nodes from `origin` on, and answers those of others until `may_end` returns true, which is
    /// called once the own requests are complete.
    ///
    /// # Errors
    /// A forwarder closes a connection, or requests are not complete at `end`.
    pub(crate) fn drive(
        &mut self,
        origin: Duration,
        end: Duration,
        may_end: impl FnMut() -> bool,
    ) -> Result<Driven, String> {
        if self.testbed.workload != Workload::Distribution {
            return self.drive_applications(origin, end, may_end);
        }
        let network = self.network;
        let count = network.topology.nodes.len();
        let mut clients = Clients::new(network, origin);
        let has_warm_up = network.warm_up > Duration::ZERO;
        if !has_warm_up {
            clients.end_warm_up(network_counts(count, &self.baseline));
        }
        let (request, requested) = mpsc::channel::<()>();
        let (send, counts) = mpsc::channel();
        let warm_up = WarmUp { request, counts };
        let is_sampling = self.testbed.has_time_lines;
        let energy = Energy::begin();
        let cpu = CpuTimes::of_thread().map_err(|error| error.to_string())?;
        let (nodes, faces, clock) = (&mut self.nodes, std::mem::take(&mut self.faces), &self.clock);
        let (driven, counted) = std::thread::scope(|scope| {
            let sampler = Sampler { clock, origin, is_sampling };
            let counting = scope.spawn(move || {
                // The driver does not take the counts if it has ended.
                sampler.run(nodes, &requested, |readings| {
                    let _ = send.send(network_counts(count, &readings));
                })
            });
            let mut driver = Driver::new(&mut clients, faces, clock, end);
            let driven = driver.run(network.requests, &warm_up, may_end);
            drop(warm_up);
            (driven, counting.join())
        });
        driven?;
        let samples =
            counted.map_err(|_| "the thread that reads counts has ended".to_owned())??;
        let elapsed = self.clock.now().since(Timestamp::ZERO).saturating_sub(origin);
        let energy_uj = energy.used_uj();
        let used = CpuTimes::of_thread().map_err(|error| error.to_string())?.total() - cpu.total();
        let until = read(&mut self.nodes)?;
        let record = clients.record(network_counts(count, &until));
        let baseline = std::mem::take(&mut self.baseline);
        Ok(Driven { record, baseline, until, elapsed, used, samples, energy_uj })
    }

    /// The same with consumers that are programs.
    fn drive_applications(
        &mut self,
        origin: Duration,
        end: Duration,
        may_end: impl FnMut() -> bool,
    ) -> Result<Driven, String> {
        let (network, workload) = (self.network, self.testbed.workload);
        let count = network.topology.nodes.len();
        let numbers: BTreeSet<usize> = self.nodes.keys().copied().collect();
        let sockets: BTreeMap<usize, std::path::PathBuf> =
            self.nodes.iter().map(|(number, node)| (*number, node.socket().to_owned())).collect();
        let socket = |node: usize| sockets.get(&node).cloned().unwrap_or_default();
        let consumers = Consumer::all(workload, network, (&numbers, origin), socket)?;
        let warm_up = (network.warm_up > Duration::ZERO).then(|| origin + network.warm_up);
        let (nodes, clock, mark) = (&mut self.nodes, &self.clock, self.mark.as_str());
        let sampler = Sampler { clock, origin, is_sampling: self.testbed.has_time_lines };
        let (request, requested) = mpsc::channel::<()>();
        let energy = Energy::begin();
        let (outcomes, counted) = std::thread::scope(|scope| {
            let counting = scope.spawn(move || {
                let mut warm = None;
                let samples = sampler.run(nodes, &requested, |readings| warm = Some(readings));
                samples.map(|samples| (samples, warm))
            });
            let limits = (clock, end, mark);
            let total = consumers.len() as u64;
            let note = |now: Duration, ended: usize| match workload {
                Workload::Traffic => {
                    let whole = Duration::from_secs_f64(network.topology.load.duration_s);
                    let passed = now.saturating_sub(origin);
                    network.note_progress(duration_ms(passed), duration_ms(whole));
                }
                Workload::Distribution | Workload::Transfer => {
                    network.note_progress(ended as u64, total);
                }
            };
            let warming = (warm_up, &request);
            let outcomes = perform(workload, consumers, limits, warming, note, may_end);
            if outcomes.is_err() {
                // Consumers that still run.
                leftovers::end_processes(mark);
            }
            drop(request);
            (outcomes, counting.join())
        });
        let outcomes = outcomes?;
        let counted = counted.map_err(|_| "the thread that reads counts has ended".to_owned())?;
        let (samples, warm) = counted?;
        let elapsed = self.clock.now().since(Timestamp::ZERO).saturating_sub(origin);
        let energy_uj = energy.used_uj();
        let until = read(&mut self.nodes)?;
        let baseline = std::mem::take(&mut self.baseline);
        let counts = |readings: &Readings| {
            // The segments that applications sent; the last one of an object may be shorter.
            let sent =
                |node: usize| readings.get(&node).map_or(0, |one| one.counts.application_data);
            Counts {
                origin_bytes: (0..count).map(|node| sent(node) * network.segment_bytes).collect(),
                network: network_counts(count, readings),
                ..Counts::default()
            }
        };
        let mut record = Record {
            from: counts(warm.as_ref().unwrap_or(&baseline)),
            until: counts(&until),
            ..Record::default()
        };
        for (begin, request, outcome) in outcomes {
            let begin = begin.saturating_sub(origin);
            let is_measured = begin >= network.warm_up;
            for counts in [Some(&mut record.until), (!is_measured).then_some(&mut record.from)] {
                let Some(counts) = counts else { continue };
                counts.interests += outcome.interests;
                counts.retransmissions += outcome.retransmissions;
            }
            match outcome.flow {
                Some(flow) => record.flows.push(flow),
                None => record.downloads.push(Download {
                    node: request.node,
                    object: request.object,
                    begin,
                    end: begin + outcome.elapsed,
                }),
            }
        }
        Ok(Driven { record, baseline, until, elapsed, used: Duration::ZERO, samples, energy_uj })
    }

    /// The last output of the forwarders.
    pub(crate) fn log(&self) -> String {
        self.nodes.values().map(Node::log).collect()
    }
}

/// Reads counts during a load.
struct Sampler<'a> {
    clock: &'a Clock,
    origin: Duration,
    /// Whether it reads them at intervals, beside those that are requested.
    is_sampling: bool,
}

impl Sampler<'_> {
    /// Reads until the other end of `requested` is dropped, and passes on the readings that are requested.
    fn run(
        &self,
        nodes: &mut BTreeMap<usize, Node>,
        requested: &mpsc::Receiver<()>,
        mut pass: impl FnMut(Readings),
    ) -> Result<Vec<(Duration, Readings)>, String> {
        let mut samples = Vec::new();
        let wait = if self.is_sampling { SAMPLE_INTERVAL } else { Duration::MAX };
        loop {
            let request = requested.recv_timeout(wait);
            if request == Err(mpsc::RecvTimeoutError::Disconnected) {
                return Ok(samples);
            }
            let readings = read(nodes)?;
            if self.is_sampling && samples.len() < SAMPLES_MAX {
                let now = self.clock.now().since(Timestamp::ZERO);
                samples.push((now.saturating_sub(self.origin), readings.clone()));
            }
            if request.is_ok() {
                pass(readings);
            }
        }
    }
}

/// A consumer that has ended: the time of its start, its request, and its results.
type Ended = (Duration, Request, applications::ConsumerMeasurements);

/// Starts consumers at their times, and waits until all have ended and until `may_end`. `note` is given the time and the number of
/// those that have ended.
fn perform(
    workload: Workload,
    consumers: Vec<Consumer>,
    (clock, end, mark): (&Clock, Duration, &str),
    (mut warm_up, request): (Option<Duration>, &mpsc::Sender<()>),
    note: impl Fn(Duration, usize),
    mut may_end: impl FnMut() -> bool,
) -> Result<Vec<Ended>, String> {
    let count = consumers.len();
    let mut consumers = consumers.into_iter().peekable();
    let mut outcomes = Vec::new();
    let (send, ended) = mpsc::channel();
    while outcomes.len() < count || !may_end() {
        let now = clock.now().since(Timestamp::ZERO);
        note(now, outcomes.len());
        if now >= end {
            let missing = count - outcomes.len();
            return Err(format!(
                "{missing} of {count} consumers had not ended at the end of run-time"
            ));
        }
        if warm_up.take_if(|at| *at <= now).is_some() {
            // The other thread ends only after this one.
            let _ = request.send(());
        }
        while let Some(consumer) = consumers.next_if(|consumer| consumer.at <= now) {
            let (request, begin) = (consumer.request, clock.now().since(Timestamp::ZERO));
            let (child, send) = (consumer.spawn(mark)?, send.clone());
            // Ends with the program, which ends at the end of the run at the latest.
            std::thread::spawn(move || send.send((begin, request, child.wait_with_output())));
        }
        let next = consumers.peek().map_or(WAIT_MAX, |consumer| consumer.at.saturating_sub(now));
        if let Ok((begin, request, output)) = ended.recv_timeout(next.min(WAIT_MAX)) {
            let outcome = applications::outcome(workload, request.node, output)?;
            outcomes.push((begin, request, outcome));
        }
    }
    Ok(outcomes)
}

fn read(nodes: &mut BTreeMap<usize, Node>) -> Result<Readings, String> {
    let reading = |(number, node): (&usize, &mut Node)| {
        let counts = node.counts()?;
        Ok((*number, Reading { counts, memory_bytes: node.memory_bytes() }))
    };
    nodes.iter_mut().map(reading).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_of_a_network_is_that_of_all_hosts_or_of_none() {
        let part = |energy_uj| Driven { energy_uj, ..Driven::default() };
        let sum = |parts: [Option<u64>; 2]| {
            let mut all = Driven::none();
            parts.into_iter().for_each(|energy_uj| all.add(part(energy_uj)));
            all.energy_uj
        };
        assert_eq!(sum([Some(2), Some(3)]), Some(5));
        assert_eq!(sum([Some(2), None]), None);
        assert_eq!(sum([None, Some(3)]), None);
    }

    #[test]
    fn programs_run_on_the_processors_of_their_node() {
        let all = cpu::allowed_cpus().unwrap();
        let last = *all.last().unwrap();
        let start = || std::process::Command::new("cat").arg("/proc/self/status").output();
        let output = on_processors(&[last], start).unwrap().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("Cpus_allowed_list:\t{last}\n")), "{text}");
        assert_eq!(cpu::allowed_cpus().unwrap(), all);
        // One that is absent is not left out.
        let error = on_processors(&[last, 999_999], || ()).unwrap_err();
        assert_eq!(error.to_string(), "there is no processor 999999");
    }
}
