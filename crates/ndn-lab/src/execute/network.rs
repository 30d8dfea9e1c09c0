//! Runs of networks of whole forwarders: simulated, or as processes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use namewire_config::VipScore;
use ndn_cache_sim::engine::{WARM_UP_SHARE, sources};
use ndn_cache_sim::topology::{LinkProperties, Topology};
use ndn_cache_sim::trace::{Request, Trace};
use ndn_caching::PolicyKind;
use ndn_client::fetch::WindowMode;
use ndn_model::calibrate::{Calibration, PacketTimes};
use ndn_model::random::{StreamId, TraceRandom};
use ndn_sys::clock::Clock;

use super::inputs::Inputs;
use super::networks;
use super::outcome::{CLOCK_ERROR, RunFailure, RunResult};
use super::remote::RemoteRun;
use crate::experiment::{Experiment, NETWORK_KINDS, Network as Executor, SeededRun, Values};
use crate::hosts::{Assignment, Hosts};
use crate::network::packets::{NAME_COMPONENTS_MAX, NAME_COMPONENTS_MIN};
use crate::network::{CPU, CsPolicy, Measures, Network, OwnCache};
use crate::progress::RunProgress;
use crate::render::{self, Form};
use crate::simulation::{self, cache_memory, server};
use crate::testbed::{self, NodeProgram, Place, Program, Testbed, Workload};

/// The pattern in which each consumer requests one object at a random time within the first second: the first consumer the
/// first object, and so on, and after the last object the first one again. All requests are measured.
const ONE_EACH: &str = "one-each";
/// The pattern of the workload `traffic` in which all names differ.
const UNIQUE: &str = "unique";
/// Stream of the random numbers that are times of requests.
const STARTS: StreamId = StreamId(2);
/// Largest content of a Data.
const SEGMENT_BYTES_MAX: u64 = 8192;
/// Largest capacity of a Content Store in packets.
const CS_PACKETS_MAX: usize = 1 << 30;
/// Memory of a route, estimated.
const ROUTE_BYTES: u64 = 1024;
/// Largest window in segments.
const WINDOW_MAX: u32 = 1 << 20;

/// Settings of a cell, checked.
struct Settings {
    topology: Topology,
    pattern: String,
    segment_bytes: u64,
    cs_packets: Option<u64>,
    own_caches: BTreeMap<usize, OwnCache>,
    name_components: usize,
    has_object_routes: bool,
    window: WindowMode,
    strategy: String,
    cs_policy: CsPolicy,
    loss: f64,
    /// Times of simulated forwarders for packets.
    calibration: Option<Calibration>,
    /// `None` for a simulation.
    testbed: Option<Testbed>,
}

pub(super) fn check(
    (experiment, hosts): (&Experiment, Option<&Hosts>),
    inputs: &mut Inputs,
    executor: &Executor,
    values: &Values,
) -> Result<(), String> {
    networks::read(inputs, &executor.topology.fill(values))?;
    if let Some(file) = calibration_file(executor, values) {
        inputs.read(&file)?;
    }
    let settings = settings(inputs, executor, values)?;
    let (mut names, mut of_nodes) = match &settings.testbed {
        Some(testbed) => testbed::names(testbed.workload),
        None => (Measures::NAMES.to_vec(), Measures::NODE_NAMES.to_vec()),
    };
    if settings.calibration.is_some() {
        names.extend([CPU, simulation::SLEEP]);
        of_nodes.extend([CPU, simulation::SLEEP]);
    }
    if settings.testbed.as_ref().is_some_and(|testbed| testbed.place == Place::Hosts) {
        names.push(CLOCK_ERROR);
    }
    networks::check_node_responses(experiment, &names, &of_nodes, &settings.topology.nodes)?;
    if let Some(testbed) = &settings.testbed {
        testbed.check(&settings.network(&Load::default(), 0))?;
        if experiment.responses.iter().any(|response| response.name == Testbed::ENERGY) {
            testbed.check_energy()?;
        }
        let programs = testbed.programs(settings.topology.nodes.len());
        if testbed.place == Place::Hosts {
            let hosts =
                hosts.ok_or_else(|| "hosts: the kind 'ssh' needs names of hosts".to_owned())?;
            // The memory is that of the hosts, which check their parts.
            return programs
                .into_iter()
                .try_for_each(|program| check_hosts(inputs, hosts, program));
        }
        for program in programs {
            inputs.add_version(program)?;
        }
    }
    settings.extrapolations(0)?.into_iter().for_each(|note| inputs.note(note));
    check_memory(&settings, settings.topology.nodes.len())
}

/// Path of the calibration of a simulation; `None` without one. Processes take the time that they take.
fn calibration_file(executor: &Executor, values: &Values) -> Option<String> {
    let is_simulation = executor.place.fill(values) == "simulation";
    Some(executor.calibration.fill(values)).filter(|path| is_simulation && !path.is_empty())
}

fn calibration(
    inputs: &Inputs,
    executor: &Executor,
    values: &Values,
) -> Result<Option<Calibration>, String> {
    let Some(path) = calibration_file(executor, values) else { return Ok(None) };
    let calibration = Calibration::parse(inputs.text(&path)?);
    calibration.map(Some).map_err(|error| format!("calibration: {path}: {error}"))
}

/// Checks that all hosts have the same version of a forwarder.
fn check_hosts(inputs: &mut Inputs, hosts: &Hosts, program: Program) -> Result<(), String> {
    let mut agents = hosts.take()?;
    let versions: Result<BTreeSet<String>, String> =
        agents.iter_mut().map(|agent| agent.version(program.name())).collect();
    let versions = versions?;
    hosts.give_back(agents);
    if versions.len() > 1 {
        let versions: Vec<String> = versions.into_iter().collect();
        return Err(format!(
            "the hosts have different versions of {}: {}",
            program.name(),
            versions.join("; ")
        ));
    }
    versions.into_iter().for_each(|version| inputs.set_version(program, version));
    Ok(())
}

/// Refuses networks of which `nodes` nodes take more than half of the memory.
fn check_memory(settings: &Settings, nodes: usize) -> Result<(), String> {
    let topology = &settings.topology;
    let (own, all) = (nodes as u64, topology.nodes.len() as u64);
    let caches = cache_memory(&settings.network(&Load::default(), 0)).saturating_mul(own) / all;
    let routes = match settings.has_object_routes {
        true => own * topology.load.objects as u64 * ROUTE_BYTES,
        false => 0,
    };
    let forwarders = settings.testbed.as_ref().map_or(0, |_| Testbed::memory(nodes)) + routes;
    match available_memory() {
        Some(available) if caches > available / 2 => Err(format!(
            "the Content Stores take up to {} MiB, more than half of the {} MiB that are available: cache_bytes is too \
             large for forwarders that store the packets",
            caches >> 20,
            available >> 20
        )),
        Some(available) if caches + forwarders > available / 2 => Err(format!(
            "{nodes} forwarders take up to {} MiB, more than half of the {} MiB that are available",
            (caches + forwarders) >> 20,
            available >> 20
        )),
        _ => Ok(()),
    }
}

/// Memory that programs can get without swapping, in bytes (proc(5): `MemAvailable`).
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// A whole number within limits.
fn whole(key: &str, text: &str, range: std::ops::RangeInclusive<usize>) -> Result<usize, String> {
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        format!("{key}: '{text}' is not a number from {} to {}", range.start(), range.end())
    })
}

/// Forwarders have penalties in thousandths of a request.
fn check_penalties(topology: &Topology) -> Result<(), String> {
    let load = &topology.load;
    for (key, requests) in
        [("read_penalty", load.read_penalty), ("write_penalty", load.write_penalty)]
    {
        let thousandths: f64 = requests * 1000.0;
        if (thousandths - thousandths.round()).abs() > 1e-6 {
            return Err(format!("{key}: '{requests}' is not a multiple of 0.001"));
        }
    }
    Ok(())
}

fn settings(inputs: &Inputs, executor: &Executor, values: &Values) -> Result<Settings, String> {
    let topology = networks::topology(inputs, (&executor.topology, &executor.load), values)?;
    check_penalties(&topology)?;
    let pattern = executor.pattern.fill(values);
    let testbed = testbed(executor, values, &topology)?;
    let workload = testbed.as_ref().map_or(Workload::Distribution, |testbed| testbed.workload);
    let is_traffic = workload == Workload::Traffic;
    match pattern.as_str() {
        UNIQUE | "zipf" if is_traffic => {}
        _ if is_traffic => {
            return Err(format!(
                "pattern: '{pattern}': the workload 'traffic' has zipf and {UNIQUE}"
            ));
        }
        ONE_EACH => {}
        _ => {
            networks::pattern(&pattern).map_err(|error| format!("{error}, {ONE_EACH}"))?;
        }
    }
    let segment_bytes = whole(
        "segment_bytes",
        &executor.segment_bytes.fill(values),
        1..=SEGMENT_BYTES_MAX as usize,
    )?;
    let cs_packets = match executor.cs_packets.fill(values).as_str() {
        "" => None,
        text => Some(whole("cs_packets", text, 0..=CS_PACKETS_MAX)? as u64),
    };
    let name_components = whole(
        "name_components",
        &executor.name_components.fill(values),
        NAME_COMPONENTS_MIN..=NAME_COMPONENTS_MAX,
    )?;
    let has_object_routes = match executor.routes.fill(values).as_str() {
        "sources" => false,
        "objects" if workload != Workload::Distribution => {
            return Err(
                "routes: names of objects are those of the workload 'distribution'".to_owned()
            );
        }
        "objects" if testbed.as_ref().is_some_and(|testbed| testbed.has_routing_daemons) => {
            return Err("routes: routing daemons announce sources".to_owned());
        }
        "objects" => true,
        other => return Err(format!("routes: '{other}' is none of sources and objects")),
    };
    let text = executor.window.fill(values);
    let window = match (text.as_str(), text.parse()) {
        ("cubic", _) => WindowMode::CUBIC,
        ("delay", _) => WindowMode::DELAY,
        (_, Ok(segments)) if (1..=WINDOW_MAX).contains(&segments) => WindowMode::Fixed(segments),
        _ => {
            return Err(format!(
                "window: '{text}' is none of cubic, delay and a number of segments"
            ));
        }
    };
    let text = executor.loss.fill(values);
    let loss = text.parse().ok().filter(|loss| (0.0..=LinkProperties::LOSS_MAX).contains(loss));
    let loss = loss.ok_or_else(|| format!("loss: '{text}' is not a share from 0 to 0.5"))?;
    let cs_policy = cs_policy(&executor.cs_policy.fill(values))?;
    // Without a Content Store, no policy decides.
    let cs_packets = if cs_policy.is_some() { cs_packets } else { Some(0) };
    let cs_policy = cs_policy.unwrap_or(CsPolicy::LRU);
    let strategy = match executor.strategy.fill(values) {
        own if !own.is_empty() => own,
        _ if cs_policy.kind == PolicyKind::Vip => "vip".to_owned(),
        _ => "best-route".to_owned(),
    };
    check_strategy(&strategy)?;
    let own_caches = own_caches(executor, values, &topology, cs_policy)?;
    let mut losses = topology.hops.iter().flatten().filter_map(|hop| hop.properties.loss);
    if (loss > 0.0 || losses.any(|loss| loss > 0.0))
        && testbed.as_ref().is_some_and(|testbed| !testbed.is_emulated)
    {
        return Err("loss: direct links lose nothing on purpose".to_owned());
    }
    let settings = Settings {
        topology,
        pattern,
        segment_bytes: segment_bytes as u64,
        cs_packets,
        own_caches,
        name_components,
        has_object_routes,
        window,
        strategy,
        cs_policy,
        loss,
        calibration: calibration(inputs, executor, values)?,
        testbed,
    };
    settings.check_policies()?;
    Ok(settings)
}

/// Number of a node with settings of its own.
fn own_node(topology: &Topology, name: &str) -> Result<usize, String> {
    let node = topology.nodes.iter().position(|known| known == name);
    node.ok_or_else(|| format!("nodes.{name}: there is no node '{name}'"))
}

/// Content Stores with settings of their own.
fn own_caches(
    executor: &Executor,
    values: &Values,
    topology: &Topology,
    of_all: CsPolicy,
) -> Result<BTreeMap<usize, OwnCache>, String> {
    let mut all = BTreeMap::new();
    for own in &executor.nodes {
        let failed = |error: String| format!("nodes.{}.{error}", own.node);
        let packets = own.value("cs_packets", values);
        let packets = packets.map(|text| whole("cs_packets", &text, 0..=CS_PACKETS_MAX));
        let packets = packets.transpose().map_err(failed)?.map(|packets| packets as u64);
        let mut cache = OwnCache { packets, policy: None };
        if let Some(text) = own.value("cs_policy", values) {
            match cs_policy(&text).map_err(failed)? {
                // A node without a Content Store is possible among those with VIP.
                None => cache.packets = Some(0),
                Some(policy)
                    if policy != of_all
                        && [policy.kind, of_all.kind].contains(&PolicyKind::Vip) =>
                {
                    let reason = "cs_policy: VIP is the policy of all nodes or none";
                    return Err(failed(reason.to_owned()));
                }
                Some(policy) => cache.policy = Some(policy.kind),
            }
        }
        all.insert(own_node(topology, &own.node)?, cache);
    }
    Ok(all)
}

/// The replacement policy of this name; `None` for no Content Store.
fn cs_policy(name: &str) -> Result<Option<CsPolicy>, String> {
    let (name, vip_score) = match name {
        "none" => return Ok(None),
        "vip2" => ("vip", VipScore::Arrivals),
        name => (name, VipScore::Count),
    };
    if name == "vip" && cfg!(not(feature = "vip")) {
        return Err(format!(
            "cs_policy: '{name}' is patented in the United States (US 12155738 B2): build with the cargo feature 'vip' to \
             enable it"
        ));
    }
    let kind = name.parse::<PolicyKind>();
    let kind = kind.map_err(|error| format!("cs_policy: {error}, vip2, none"))?;
    Ok(Some(CsPolicy { kind, vip_score }))
}

fn check_strategy(strategy: &str) -> Result<(), String> {
    // Their names end in the strategy and its version.
    let short = |known: &ndn_forwarding::strategy::KnownStrategy| {
        let components = known.name.components().count();
        let component = known.name.component(components.saturating_sub(2));
        component.map(|one| String::from_utf8_lossy(one.value()).into_owned()).unwrap_or_default()
    };
    let known: Vec<String> =
        ndn_forwarding::strategy::known_strategies().map(|known| short(&known)).collect();
    match known.iter().any(|one| one == strategy) {
        true => Ok(()),
        false => Err(format!("unknown strategy '{strategy}'; known: {}", known.join(", "))),
    }
}

/// Programs of the nodes with settings of their own.
fn own_programs(
    executor: &Executor,
    values: &Values,
    topology: &Topology,
    common: &NodeProgram,
) -> Result<BTreeMap<usize, NodeProgram>, String> {
    let mut all = BTreeMap::new();
    for own in &executor.nodes {
        let failed = |error: String| format!("nodes.{}.{error}", own.node);
        let mut program = common.clone();
        if let Some(text) = own.value("forwarder", values) {
            program.program =
                Program::parse(&text).map_err(|error| failed(format!("forwarder: {error}")))?;
        }
        if let Some(text) = own.value("workers", values) {
            program.workers = whole("workers", &text, 1..=usize::MAX).map_err(failed)?;
        }
        let processors = own.value("processors", values).unwrap_or_default();
        let processors = processors.split(',').filter(|text| !text.is_empty());
        let number = |text: &str| whole("processors", text.trim(), 0..=usize::MAX);
        program.processors = processors.map(number).collect::<Result<_, _>>().map_err(failed)?;
        all.insert(own_node(topology, &own.node)?, program);
    }
    all.retain(|_, own| own != common);
    Ok(all)
}

/// The testbed of a run; `None` for a simulation.
fn testbed(
    executor: &Executor,
    values: &Values,
    topology: &Topology,
) -> Result<Option<Testbed>, String> {
    let place = executor.place.fill(values);
    let program = Program::parse(&executor.forwarder.fill(values))?;
    let workers = whole("workers", &executor.workers.fill(values), 1..=usize::MAX)?;
    let common = NodeProgram { program, workers, processors: Vec::new() };
    let own = own_programs(executor, values, topology, &common)?;
    let is_emulated = match executor.links.fill(values).as_str() {
        "emulated" => true,
        "direct" => false,
        other => return Err(format!("links: '{other}' is none of emulated and direct")),
    };
    let text = executor.workload.fill(values);
    let known = Workload::ALL.into_iter().find(|(_, name)| *name == text);
    let (workload, _) = known.ok_or_else(|| {
        let known = Workload::ALL.map(|(_, name)| name).join(", ");
        format!("workload: '{text}' is unknown; known: {known}")
    })?;
    let has_time_lines = executor.time_lines;
    let has_routing_daemons = match executor.routing.fill(values).as_str() {
        "computed" => false,
        "ndnd-dv" => true,
        other => return Err(format!("routing: '{other}' is none of computed and ndnd-dv")),
    };
    let has_own = !own.is_empty();
    let testbed = |place| Testbed {
        common,
        own,
        place,
        workload,
        has_time_lines,
        has_routing_daemons,
        is_emulated,
    };
    match place.as_str() {
        "simulation" if workload != Workload::Distribution => {
            Err("workload: a simulation starts no programs".to_owned())
        }
        "simulation" if has_routing_daemons => {
            Err("routing: a simulation starts no programs".to_owned())
        }
        "simulation" if program != Program::Namewire || workers != 1 || has_own || !is_emulated => {
            Err("a simulation runs namewire with one worker and emulated links only".to_owned())
        }
        "simulation" => Ok(None),
        "processes" => Ok(Some(testbed(Place::Loopback))),
        "namespaces" => Ok(Some(testbed(Place::Namespaces))),
        "ssh" => Ok(Some(testbed(Place::Hosts))),
        _ => Err(format!("unknown kind '{place}'; known: {}", NETWORK_KINDS.join(", "))),
    }
}

/// Requests, objects and their sources.
#[derive(Default)]
struct Load {
    requests: Vec<Request>,
    sizes: Vec<u64>,
    sources: Vec<u32>,
    warm_up: Duration,
}

impl Settings {
    fn is_traffic(&self) -> bool {
        self.testbed.as_ref().is_some_and(|testbed| testbed.workload == Workload::Traffic)
    }

    /// Refuses policies that forwarders do not have.
    fn check_policies(&self) -> Result<(), String> {
        let Some(testbed) = &self.testbed else { return Ok(()) };
        let load = Load::default();
        let network = self.network(&load, 0);
        for node in 0..self.topology.nodes.len() {
            let program = testbed.of_node(node).program;
            if program != Program::Namewire && network.cs_policy_of(node) != PolicyKind::Lru {
                let reason = "cs_policy: other forwarders than namewire have lru and none";
                return Err(reason.to_owned());
            }
        }
        Ok(())
    }

    /// Settings of nodes of which the calibration does not know the times, in words. The objects are those of a run with this seed.
    fn extrapolations(&self, seed: u64) -> Result<BTreeSet<String>, String> {
        let Some(calibration) = &self.calibration else { return Ok(BTreeSet::new()) };
        let load = self.load(seed)?;
        let mut notes = BTreeSet::new();
        for setting in server::settings(calibration, &self.network(&load, seed)) {
            // A setting without times is refused.
            PacketTimes::of(calibration, &setting)
                .map_err(|error| format!("calibration: {error}"))?;
            let all = calibration.extrapolations(&setting).into_iter();
            notes.extend(all.map(|note| format!("calibration: {note}")));
        }
        Ok(notes)
    }

    fn load(&self, seed: u64) -> Result<Load, String> {
        let (trace, warm_up_s) = if self.is_traffic() {
            // The traffic generators have requests of their own.
            let sizes = vec![self.topology.load.object_bytes; self.topology.load.objects];
            (Trace { requests: Vec::new(), sizes, rates: None }, 0.0)
        } else if self.pattern == ONE_EACH {
            (one_each(&self.topology, seed), 0.0)
        } else {
            let trace = Trace::generate(&self.topology, networks::pattern(&self.pattern)?, seed);
            let trace = trace.map_err(|error| error.0)?;
            let last_s = trace.requests.last().map_or(0.0, |request| request.time_s);
            (trace, last_s * WARM_UP_SHARE)
        };
        Ok(Load {
            sources: sources(&self.topology, trace.sizes.len(), seed),
            requests: trace.requests,
            sizes: trace.sizes,
            warm_up: Duration::from_secs_f64(warm_up_s),
        })
    }

    fn network<'a>(&'a self, load: &'a Load, seed: u64) -> Network<'a> {
        Network {
            topology: &self.topology,
            requests: &load.requests,
            sizes: &load.sizes,
            sources: &load.sources,
            segment_bytes: self.segment_bytes,
            cs_packets: self.cs_packets,
            own_caches: &self.own_caches,
            name_components: self.name_components,
            has_object_routes: self.has_object_routes,
            window: self.window,
            has_popular_names: self.pattern != UNIQUE,
            strategy: &self.strategy,
            cs_policy: self.cs_policy,
            loss: self.loss,
            warm_up: load.warm_up,
            calibration: self.calibration.as_ref(),
            seed,
            progress: None,
        }
    }
}

pub(super) fn run(
    (experiment, hosts): (&Experiment, Option<&Hosts>),
    inputs: &Inputs,
    executor: &Executor,
    (run, id, progress): (SeededRun, &str, &RunProgress),
) -> RunResult {
    let values = &experiment.values(run);
    let settings = settings(inputs, executor, values)?;
    let seed = u64::from(run.seed);
    let load = settings.load(seed)?;
    let network = Network { progress: Some(progress), ..settings.network(&load, seed) };
    let Some(testbed) = &settings.testbed else {
        return Ok(simulation::simulate(&network)?.named());
    };
    let limit = Duration::from_millis(experiment.budget.run_time_ms);
    if testbed.place == Place::Hosts {
        let hosts = hosts.ok_or_else(|| "hosts: the kind 'ssh' needs names of hosts".to_owned())?;
        let places = hosts.places(&network.topology.nodes, &executor.placement);
        let assignment = Assignment {
            text: experiment.text.clone(),
            inputs: inputs.texts(),
            cell: run.run.cell,
            replication: run.run.replication,
            seed: run.seed,
            id: id.to_owned(),
            host: 0,
            nodes: BTreeSet::new(),
            limit_ms: experiment.budget.run_time_ms,
        };
        return perform_on(
            hosts,
            &RemoteRun { testbed, network: &network, places, assignment, limit },
        );
    }
    let mark = format!("{id}-{}-{}", run.run.cell, run.run.replication);
    perform(testbed, &network, &mark, limit)
}

/// Performs the part of a run that the nodes of a host are: its network has their requests only.
pub(super) fn part<T>(
    (experiment, run): (&Experiment, SeededRun),
    inputs: &Inputs,
    executor: &Executor,
    (nodes, host): (&BTreeSet<usize>, usize),
    perform: impl FnOnce(Testbed, &Network<'_>) -> Result<T, RunFailure>,
) -> Result<T, RunFailure> {
    let settings = settings(inputs, executor, &experiment.values(run))?;
    let testbed = settings.testbed.clone();
    let testbed = testbed.ok_or_else(|| "a simulation has no hosts".to_owned())?;
    check_memory(&settings, nodes.len())?;
    let seed = u64::from(run.seed);
    let mut load = settings.load(seed)?;
    load.requests.retain(|request| nodes.contains(&(request.node as usize)));
    // Consumers of different hosts do not use the same Nonces.
    let seed = seed ^ (host as u64 + 1) << 32;
    perform(testbed, &settings.network(&load, seed))
}

/// Files of a cell for an orchestrator.
pub(super) fn render(
    (experiment, run): (&Experiment, SeededRun),
    inputs: &Inputs,
    executor: &Executor,
    (form, image): (Form, &str),
) -> Result<Vec<(String, String)>, String> {
    if form == Form::Kubernetes && !executor.nodes.is_empty() {
        return Err("nodes: the forwarders of a cluster have the same settings".to_owned());
    }
    let settings = settings(inputs, executor, &experiment.values(run))?;
    let seed = u64::from(run.seed);
    let load = settings.load(seed)?;
    let network = &settings.network(&load, seed);
    let title = format!("{}: {}", experiment.name, experiment.design.describe(run.run.cell));
    // A simulation has the same network.
    let common = NodeProgram { program: Program::Namewire, workers: 1, processors: Vec::new() };
    let of_simulation = Testbed {
        common,
        own: BTreeMap::new(),
        place: Place::Loopback,
        workload: Workload::Distribution,
        has_time_lines: false,
        has_routing_daemons: false,
        is_emulated: false,
    };
    let testbed = settings.testbed.clone().unwrap_or(of_simulation);
    render::Cell { title, network, testbed, image }.render(form)
}

#[expect(clippy::disallowed_methods, reason = "hosts take real time")]
fn perform_on(hosts: &Hosts, run: &RemoteRun<'_>) -> RunResult {
    run.perform(hosts, &Clock::system())
}

#[expect(clippy::disallowed_methods, reason = "processes and sockets take real time")]
fn perform(
    testbed: &Testbed,
    network: &Network<'_>,
    mark: &str,
    limit: Duration,
) -> Result<BTreeMap<String, f64>, RunFailure> {
    let measured = testbed.run(network, mark, &Clock::system(), limit);
    measured.map_err(|error| RunFailure { reason: error.reason, log: error.log })
}

fn one_each(topology: &Topology, seed: u64) -> Trace {
    let objects = topology.load.objects;
    let random = TraceRandom::new(seed, 0);
    let request = |(number, node): (usize, &usize)| Request {
        time_s: random.draw(STARTS, number as u64).unit(),
        node: *node as u32,
        object: (number % objects) as u32,
    };
    let mut requests: Vec<Request> = topology.consumers.iter().enumerate().map(request).collect();
    requests.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
    Trace { requests, sizes: vec![topology.load.object_bytes; objects], rates: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn penalties_are_multiples_of_thousandths() {
        let mut topology = Topology::known("abilene").unwrap();
        for (requests, is_valid) in [(0.0, true), (0.57, true), (1e6, true), (0.0004, false)] {
            topology.load.write_penalty = requests;
            assert_eq!(check_penalties(&topology).is_ok(), is_valid, "{requests}");
        }
    }
}
