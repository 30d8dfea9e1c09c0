//! Runs of a forwarder in this process: the measurements that a model is calibrated and validated with.
//!
//! Consumers and producers are one thread, or one on the processor of each worker. They reach the forwarder through faces in memory: on a machine with few
//! processors, generators with sockets would take more time than the forwarder. The workers are those of any
//! forwarder; the kernel's part of sending and receiving on sockets is not in the measurement.

#![allow(
    clippy::cast_possible_truncation,
    reason = "small counts, and times below 2^53 nanoseconds"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use namewire_control::{ControlClient, ServiceTimesReport, Statistics};
use namewire_daemon::{DISPATCH_DEPTH, Environment, Forwarder, Hooks, Management};
use ndn_dataplane::MemoryFaceOptions;
use ndn_face::InternalEnd;
use ndn_model::assembly::Placement;
use ndn_model::calibrate::{
    Disturbance, FACES, Histogram, Host, PREFIXES, QueueLength, QueueLengths, Run, ServiceTimes,
    Setting, Stalls,
};
use ndn_packet::Name;
use ndn_sys::clock;
use ndn_sys::cpu::{
    CpuTimes, allowed_cpus, pin_thread, raise_priority, set_slice, set_timer_slack,
};
use ndn_sys::topology::{Processor, Topology};
use ndn_table::{NameHasher, Ndt, PREFIX_HASHES_MAX};
use ndn_traffic::{
    Arrivals, Consumer, ConsumerPattern, ConsumerScenario, Load, Names, PatternCounters, Producer,
    ProducerPattern, ProducerScenario,
};
use ndn_types::{Persistency, Scope};
use tempfile::TempDir;

use super::host::{Counters, Yardstick, delayed_ns, reference_load, watch_pauses};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output;

/// Packets of the queue of a face.
pub(super) const QUEUE: usize = 4096;
/// Names that the Content Store answers, of all prefixes: it has room for more.
const REPEATED: usize = 16 * PREFIXES;
const CS_PACKETS: usize = 4096;
const LIFETIME_MS: u32 = 400;
/// Time between two turns of the generator, whatever it has to do. One that went on as long as there is work would send to a busy
/// forwarder packet by packet, and to another one in bursts: those cost it less, so that a forwarder that is late once stays
/// late at rates far below its capacity.
pub(super) const TURN_NS: u64 = 250_000;
/// Interests sent in a turn, and packets answered and received on a face: 8 million per second, enough for loads of twice the
/// capacity. The next turn of a generator that is late begins at once.
const TURN_PACKETS: usize = 2048;
/// The shortest slice that Linux grants.
const GENERATOR_SLICE: Duration = Duration::from_micros(100);
/// Counters are read this many seconds before the window: threads that read them take processors, and Interests that wait
/// meanwhile are not those of the window.
const BEFORE_WINDOW: f64 = 0.02;
/// A try is discarded if the intended rate was not reached to this share.
const SENT_MIN: f64 = 0.97;
const TRIES: usize = 4;
/// Begin of the names of the threads of generators.
const GENERATOR: &str = "generator-";

/// Duration of a run, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Window {
    /// Before the window.
    pub(super) warm_up: f64,
    /// Its length.
    pub(super) seconds: f64,
}

/// The processors that this process may use.
pub(super) fn processors() -> Outcome<Vec<usize>> {
    allowed_cpus().map_err(|error| Failure::Failed(format!("processors: {error}")))
}

/// The processors of the workers, and those of the generators, whose node has the packets: one that no worker has, or those of all
/// workers, so that they are slowed alike.
pub(super) fn places(workers: usize, placement: Placement) -> Outcome<(Vec<usize>, Vec<usize>)> {
    let topology = Topology::of_machine();
    let topology = topology.map_err(|error| Failure::Failed(format!("processors: {error}")))?;
    places_of(topology.processors(), workers, placement).map_err(Failure::Usage)
}

fn places_of(
    processors: &[Processor],
    workers: usize,
    placement: Placement,
) -> Result<(Vec<usize>, Vec<usize>), String> {
    let home = processors.first().map(|first| first.node);
    let (mut cpus, away): (Vec<&Processor>, Vec<&Processor>) =
        processors.iter().partition(|processor| Some(processor.node) == home);
    let generator = match (placement, away.last()) {
        (Placement::P1, _) if workers <= cpus.len() => cpus.last(),
        // More workers than one node has: they take those of others.
        (Placement::P1, last) => last.or(cpus.last()),
        (Placement::P4, Some(last)) if workers <= cpus.len() => Some(last),
        (Placement::P4, Some(_)) => {
            let count = cpus.len();
            return Err(format!("P4: {workers} workers, but a NUMA node has {count} processors"));
        }
        (Placement::P4, None) => {
            return Err("P4 needs a processor on a second NUMA node: this machine has one".into());
        }
        (Placement::P2 | Placement::P3, _) => {
            return Err("consumers and producers are one thread, on one NUMA node: P1 or P4".into());
        }
    };
    let generator = generator.map_or(0, |processor| processor.cpu);
    cpus.extend(&away);
    if workers == 0 || workers > cpus.len() {
        let text = format!("{workers} workers on {} processors", cpus.len());
        return Err(format!("{text}: each needs a processor of its own"));
    }
    let own: Vec<usize> = cpus[..workers].iter().map(|processor| processor.cpu).collect();
    let generators = if own.contains(&generator) { own.clone() } else { vec![generator] };
    Ok((own, generators))
}

fn failed(what: &str) -> impl Fn(&dyn std::fmt::Display) -> Failure + '_ {
    move |error| Failure::Failed(format!("{what}: {error}"))
}

/// Runs a setting until the host does not disturb the forwarder, a few times at most: then the try with the least
/// disturbance counts.
pub(super) fn measure(
    number: usize,
    setting: &Setting,
    window: Window,
    seed: u64,
    is_traced: bool,
    yardstick: &mut Yardstick,
) -> Outcome<Run> {
    let mut tries: Vec<Try> = Vec::new();
    loop {
        let run = run_once(number, setting, window, seed + tries.len() as u64, is_traced)?;
        let (disturbance, excess) = yardstick.disturbance(&run.host, run.delayed());
        yardstick.note(&run.host);
        let is_sent = run.sent as f64 >= SENT_MIN * setting.rate * run.seconds;
        // An overloaded generator is worse than any disturbance.
        let (disturbance, excess) = if is_sent {
            (disturbance, excess)
        } else {
            (Disturbance::RateNotReached, 1e3 + excess)
        };
        let is_usable = excess <= 1.0;
        tries.push(Try { disturbance, excess, run });
        if is_usable || tries.len() >= TRIES {
            return Ok(least_disturbed(tries));
        }
    }
}

/// A run of a setting.
struct Try {
    /// The largest disturbance, and its size over the size that is allowed.
    disturbance: Disturbance,
    excess: f64,
    run: Run,
}

/// The run with the least disturbance, with what disturbed the others.
fn least_disturbed(mut tries: Vec<Try>) -> Run {
    let least = (0..tries.len()).min_by(|a, b| tries[*a].excess.total_cmp(&tries[*b].excess));
    let best = tries.remove(least.unwrap_or(0));
    Run {
        discarded: tries.len(),
        discarded_for: tries.iter().map(|other| other.disturbance).collect(),
        disturbed_by: (best.excess > 1.0).then_some(best.disturbance),
        ..best.run
    }
}

/// A forwarder with its faces.
struct Subject {
    forwarder: Forwarder,
    control: PathBuf,
    ends: Ends,
    /// Of the control socket.
    _directory: TempDir,
}

/// The generator's ends of the faces of a forwarder.
struct Ends {
    /// The prefixes of the names that are sent.
    prefixes: Vec<String>,
    /// Those of the names that are answered.
    answered: Vec<String>,
    consumers: Vec<InternalEnd>,
    producers: Vec<InternalEnd>,
}

impl Ends {
    /// Parts for generators: to each, the faces of consumers of one worker, those of producers of the next one, and prefixes of names of
    /// all workers. So each has as much to do with every worker, and its readings are transfers between processors.
    fn divided(self, count: usize) -> Vec<Self> {
        let Self { prefixes, answered, consumers, producers } = self;
        let mut parts: Vec<Self> = (0..count)
            .map(|_| Self {
                prefixes: Vec::new(),
                answered: answered.clone(),
                consumers: Vec::new(),
                producers: Vec::new(),
            })
            .collect();
        for (number, prefix) in prefixes.into_iter().enumerate() {
            parts[number / count % count].prefixes.push(prefix);
        }
        for (number, end) in consumers.into_iter().enumerate() {
            parts[number % count].consumers.push(end);
        }
        for (number, end) in producers.into_iter().enumerate() {
            parts[(number + 1) % count].producers.push(end);
        }
        parts
    }
}

/// Prefixes of names: at least one for each worker and each generator.
fn prefix_count(workers: usize) -> usize {
    PREFIXES.max(workers * workers)
}

/// Prefixes of which each has an entry of the dispatch table of its own. All names of an entry move together, and not a second time
/// before Interests that were pending have ended.
fn distinct_prefixes(hasher: &NameHasher, table: &Ndt, count: usize) -> Vec<String> {
    let mut entries = BTreeSet::new();
    let mut is_distinct = |uri: &str| {
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let name = Name::from_uri(uri).ok()?;
        let count = hasher.hash_prefixes(name.as_ref(), &mut hashes)?;
        Some(entries.insert(table.first_entry(name.as_ref(), &hashes[..count])))
    };
    (0..)
        .map(|number: u32| format!("/m/{number}"))
        .filter(|uri| is_distinct(uri) == Some(true))
        .take(count)
        .collect()
}

/// A forwarder with a worker on each of these processors, without management of queues and quotas.
fn configuration(control: &Path, cpus: &[usize]) -> Outcome<namewire_config::Config> {
    let text = format!(
        "control.path = {control:?}\n\
         [forwarder]\nworkers = {workers}\ncpus = {cpus:?}\nspin = \"0ms\"\n\
         [overload]\nshed = \"never\"\nmark_after = \"10s\"\n\
         [limits]\ninterests_per_second = 0\n\
         [pool]\ncapacity = \"64MiB\"\npages = \"ordinary\"\n\
         [tables.cs]\ncapacity_packets = {CS_PACKETS}\n\
         [listeners]\nudp.enabled = false\ntcp.enabled = false\nwebsocket.enabled = false\n\
         multicast.enabled = false\n",
        workers = cpus.len(),
    );
    namewire_config::parse("the forwarder to measure", &text)
        .map_err(|error| Failure::Failed(format!("the forwarder to measure: {error:?}")))
}

impl Subject {
    fn start(setting: &Setting, environment: Environment) -> Outcome<Self> {
        let directory = tempfile::tempdir()
            .map_err(|error| Failure::file(std::env::temp_dir().display(), &error))?;
        let control = directory.path().join("control.sock");
        let (cpus, _) = places(setting.workers, setting.placement)?;
        let mut config = configuration(&control, &cpus)?;
        // A file without listeners would be refused.
        config.listeners.unix.enabled = false;
        let hooks = Hooks::none().map_err(|error| failed("a forwarder")(&error))?;
        let hasher = NameHasher::new(environment.seeds.name_hash_key);
        let table = Ndt::new(setting.workers, DISPATCH_DEPTH);
        let prefixes = distinct_prefixes(&hasher, &table, prefix_count(setting.workers));
        let forwarder = Forwarder::start(&config, environment, hooks)
            .map_err(|error| failed("a forwarder")(&error))?;
        let answered = prefixes.clone();
        let ends = Ends { prefixes, answered, consumers: Vec::new(), producers: Vec::new() };
        let mut subject = Self { forwarder, control, ends, _directory: directory };
        subject.attach(setting)?;
        Ok(subject)
    }

    fn attach(&mut self, setting: &Setting) -> Outcome {
        let mut faces = Vec::new();
        let count = FACES.max(setting.workers);
        for number in 0..2 * count as u64 {
            let options = MemoryFaceOptions {
                number,
                scope: Scope::NonLocal,
                link_type: ndn_types::LinkType::PointToPoint,
                principal: None,
                persistency: Persistency::Permanent,
                mtu: 8800,
                queue_frames_max: QUEUE,
            };
            let (face_id, end) = self
                .forwarder
                .add_memory_face(options)
                .map_err(|error| failed("a face")(&error))?;
            if (number as usize) < count {
                self.ends.consumers.push(end);
            } else {
                self.ends.producers.push(end);
                faces.push(face_id);
            }
        }
        let prefixes = &self.ends.prefixes;
        let others = (prefixes.len()..setting.routes).map(|number| format!("/r/{number}"));
        for (number, uri) in prefixes.iter().cloned().chain(others).enumerate() {
            let name = Name::from_uri(&uri).map_err(|error| failed(&uri)(&error))?;
            let mut forwarder = &self.forwarder;
            forwarder
                .add_route(&name, faces[number % count], 0)
                .map_err(|error| failed(&uri)(&error))?;
        }
        if setting.workers > 1 {
            let mut client = self.client()?;
            for (number, uri) in prefixes.iter().enumerate() {
                let worker = u8::try_from(number % setting.workers).unwrap_or(0);
                let name = Name::from_uri(uri).map_err(|error| failed(uri)(&error))?;
                client.set_dispatch(name, worker).map_err(|error| failed("ndt set")(&error))?;
            }
        }
        Ok(())
    }

    fn client(&self) -> Outcome<ControlClient> {
        ControlClient::connect(&self.control).map_err(|error| failed("the control socket")(&error))
    }
}

/// Counters of the workers at one time.
#[derive(Debug, Clone)]
struct Snapshot {
    time_ns: u64,
    cpu_ns: Vec<u64>,
    delayed_ns: Vec<u64>,
    /// Processor time of the generators.
    generators_ns: Vec<u64>,
    statistics: Statistics,
}

impl Snapshot {
    fn take(client: &mut ControlClient, workers: usize) -> Outcome<Self> {
        let statistics: Statistics =
            client.statistics().map_err(|error| failed("statistics")(&error))?;
        let time_ns = clock::now();
        let (mut cpu_ns, mut delayed_ns) = (vec![0; workers], vec![0; workers]);
        let mut generators_ns = vec![0; workers];
        for (name, cpu, delayed) in threads()? {
            let number = |kind| {
                let number = name.strip_prefix(kind)?.parse::<usize>().ok();
                number.filter(|number| *number < workers)
            };
            if let Some(number) = number("worker-") {
                cpu_ns[number] += cpu;
                delayed_ns[number] += delayed;
            } else if let Some(number) = number(GENERATOR) {
                generators_ns[number] += cpu;
            }
        }
        Ok(Self { time_ns, cpu_ns, delayed_ns, generators_ns, statistics })
    }
}

/// Name, processor time and time spent waiting for a processor of each thread of this process.
fn threads() -> Outcome<Vec<(String, u64, u64)>> {
    let place = "/proc/self/task";
    let entries = fs::read_dir(place).map_err(|error| Failure::file(place, &error))?;
    let mut all = Vec::new();
    for entry in entries.flatten() {
        // A thread may end meanwhile.
        let Ok(name) = fs::read_to_string(entry.path().join("comm")) else { continue };
        let Ok(times) = fs::read_to_string(entry.path().join("schedstat")) else { continue };
        let mut fields = times.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0));
        all.push((name.trim().to_owned(), fields.next().unwrap_or(0), fields.next().unwrap_or(0)));
    }
    Ok(all)
}

/// Counts of a thread that sends, answers and receives, in the window.
struct Generated {
    /// Interests that were due, whether the forwarder took them or not.
    offered: u64,
    satisfied: u64,
    refused: u64,
    cpu_ns: u64,
    delayed_ns: u64,
    seconds: f64,
    latencies_ns: hdrhistogram::Histogram<u64>,
    /// Those of the faces.
    queues: QueueLengths,
    readings: ReadingTimes,
    stalls: Stalls,
}

impl Generated {
    /// Adds those of another thread in the same window.
    fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.satisfied += other.satisfied;
        self.refused += other.refused;
        self.cpu_ns += other.cpu_ns;
        self.delayed_ns = self.delayed_ns.max(other.delayed_ns);
        // The bounds are the same.
        let _ = self.latencies_ns.add(&other.latencies_ns);
        self.queues.add(&other.queues);
        self.readings.add(&other.readings);
        self.stalls = core::cmp::max_by_key(self.stalls, other.stalls, |one| one.total_ns);
    }
}

/// Gives this thread its processor and the attributes of a generator.
fn prepare_generator_thread(cpu: usize, waiting: Waiting) -> Outcome {
    pin_thread(cpu).map_err(|error| failed("a processor")(&error))?;
    // On the processor of a worker, it would wait for the end of each slice of that, and get half of the time at most. A kernel
    // that does not know or grant this measures without. One that spins would keep other programs from its processor.
    if waiting == Waiting::Sleep {
        let _ = raise_priority();
    }
    let _ = set_slice(GENERATOR_SLICE);
    set_timer_slack(Duration::ZERO).map_err(|error| failed("timers")(&error))
}

fn connect(control: &Path) -> Outcome<ControlClient> {
    ControlClient::connect(control).map_err(|error| failed("the control socket")(&error))
}

/// Measurements of a run of the generators.
struct Measured {
    generated: Generated,
    /// At the begin and the end of the window.
    before: Snapshot,
    after: Snapshot,
    /// Time that the host took meanwhile, and preemptions.
    taken: (u64, u64),
    services: Option<ServiceTimesReport>,
}

/// Sends, answers and receives on the ends of a forwarder until its window is over, with a generator on each of the processors.
fn generate(
    setting: &Setting,
    window: Window,
    seed: u64,
    ends: Ends,
    (own, generator_cpus): (&[usize], &[usize]),
    (mut watching, mut tracing): (ControlClient, ControlClient),
    is_traced: bool,
) -> Outcome<Measured> {
    let begin_ns = clock::now();
    let at = |seconds: f64| begin_ns + Duration::from_secs_f64(seconds).as_nanos() as u64;
    let (from_ns, to_ns) = (at(window.warm_up), at(window.warm_up + window.seconds));
    let count = generator_cpus.len();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let start = |(number, (&cpu, ends)): (usize, (&usize, Ends))| {
            let waiting = if own.contains(&cpu) { Waiting::Sleep } else { Waiting::Spin };
            let setting = Setting { rate: setting.rate / count as f64, ..*setting };
            // Tries have consecutive seeds.
            let seed = seed + ((number as u64) << 8);
            let is_over = &is_over;
            let run = move || {
                prepare_generator_thread(cpu, waiting)?;
                Generator::new(&setting, seed, ends, begin_ns)?
                    .run(waiting, from_ns, to_ns, is_over)
            };
            let thread = thread::Builder::new().name(format!("{GENERATOR}{number}"));
            thread.spawn_scoped(scope, run).map_err(|error| failed("a generator")(&error))
        };
        let parts = ends.divided(count);
        let generating: Vec<_> = generator_cpus.iter().zip(parts).enumerate().map(start).collect();
        let tracing = scope.spawn(|| -> Outcome<Option<ServiceTimesReport>> {
            sleep_until(at(window.warm_up - BEFORE_WINDOW));
            if !is_traced {
                return Ok(None);
            }
            let seconds = BEFORE_WINDOW + window.seconds;
            let milliseconds = Duration::from_secs_f64(seconds).as_millis() as u64;
            let report = tracing.measure_service_times(milliseconds);
            report.map(Some).map_err(|error| failed("trace latency")(&error))
        });
        sleep_until(at(window.warm_up - BEFORE_WINDOW));
        let counters = Counters::read(own);
        let before = Snapshot::take(&mut watching, setting.workers);
        sleep_until(to_ns);
        let after = Snapshot::take(&mut watching, setting.workers);
        let taken = Counters::read(own).since(&counters);
        // Until here there are threads whose times can be read.
        is_over.store(true, Ordering::Relaxed);
        let all: Vec<Outcome<Generated>> =
            generating.into_iter().map(|one| one.and_then(joined)).collect();
        let services = joined(tracing)?;
        let mut all = all.into_iter().collect::<Outcome<Vec<Generated>>>()?.into_iter();
        let mut generated = all.next().ok_or_else(|| failed("the generator")(&"no processor"))?;
        all.for_each(|one| generated.add(&one));
        Ok(Measured { generated, before: before?, after: after?, taken, services })
    })
}

fn run_once(
    number: usize,
    setting: &Setting,
    window: Window,
    seed: u64,
    is_traced: bool,
) -> Outcome<Run> {
    let (own, generator_cpus) = places(setting.workers, setting.placement)?;
    let own = own.as_slice();
    let is_shared = generator_cpus.iter().any(|cpu| own.contains(cpu));
    let mut watched = own.to_vec();
    watched.extend(generator_cpus.iter().filter(|cpu| !own.contains(cpu)));
    let origin_ns = clock::now();
    let mut pauses = watch_pauses(&watched, origin_ns)?;
    let reference_before_ns = reference_load(own)?;
    let subject = Subject::start(setting, Environment::system())?;
    let Subject { forwarder, control, ends, _directory } = subject;
    let clients = (connect(&control)?, connect(&control)?);
    let measured =
        generate(setting, window, seed, ends, (own, &generator_cpus), clients, is_traced);
    forwarder.shut_down().map_err(|error| failed("the forwarder")(&error))?;
    let Measured { generated, before, after, taken, services } = measured?;
    let (stolen_ns, preemptions) = taken;
    let host = Host {
        reference_ns: [reference_before_ns, reference_load(own)?],
        stolen: stolen_ns as f64 / ((BEFORE_WINDOW + window.seconds) * 1e9),
        preemptions,
        transfer_ns: generated.readings.mean_ns(),
        transfer_change: generated.readings.change(),
    };
    pauses.extend(watch_pauses(&watched, origin_ns)?);
    let difference = |later: &[u64], earlier: &[u64]| {
        let each = later.iter().zip(earlier);
        each.map(|(later, earlier)| later.saturating_sub(*earlier)).collect::<Vec<u64>>()
    };
    let generators_ns = difference(&after.generators_ns, &before.generators_ns);
    let total = |of: fn(&namewire_control::WorkerStatistics) -> u64| {
        let sum = |one: &Snapshot| one.statistics.workers.iter().map(of).sum::<u64>();
        sum(&after).saturating_sub(sum(&before))
    };
    Ok(Run {
        number,
        setting: *setting,
        discarded: 0,
        discarded_for: Vec::new(),
        disturbed_by: None,
        host,
        pauses,
        seconds: generated.seconds,
        counted_seconds: Duration::from_nanos(after.time_ns - before.time_ns).as_secs_f64(),
        sent: generated.offered,
        satisfied: generated.satisfied,
        refused: generated.refused
            + total(|one| one.exchange.ring_full_interests + one.exchange.ring_full_data),
        // A shard counts what it passes on to the owner of the name, too.
        interests: total(|one| one.interests.entered - one.interests.passed_on),
        hits: total(|one| one.interests.answered),
        bursts: total(|one| one.work.bursts),
        sleeps: total(|one| one.work.sleeps),
        cpu_ns: difference(&after.cpu_ns, &before.cpu_ns),
        delayed_ns: if is_shared {
            difference(&difference(&after.delayed_ns, &before.delayed_ns), &generators_ns)
        } else {
            difference(&after.delayed_ns, &before.delayed_ns)
        },
        generator_cpu_ns: generated.cpu_ns,
        // Its delays on the processor of a worker are those of its wake-ups, and of the kernel.
        generator_delayed_ns: if is_shared { 0 } else { generated.delayed_ns },
        generator_stalls: generated.stalls,
        pit_entries: after.statistics.workers.iter().map(|one| one.shard.pit_entries).sum(),
        queues: QueueLengths { rings: ring_lengths(&before, &after), ..generated.queues },
        latency_ns: [0.5, 0.9, 0.99].map(|level| generated.latencies_ns.value_at_quantile(level)),
        services: services.map(service_times),
    })
}

/// Lengths of all rings between workers, at their polls between two times.
fn ring_lengths(before: &Snapshot, after: &Snapshot) -> QueueLength {
    let mut rings = QueueLength::default();
    for (of, from) in after.statistics.workers.iter().zip(&before.statistics.workers) {
        let queues = [
            (&of.queued_data, &from.queued_data),
            (&of.queued_nacks, &from.queued_nacks),
            (&of.queued_interests, &from.queued_interests),
        ];
        for (after, before) in queues {
            rings.samples += after.polls.saturating_sub(before.polls);
            rings.sum += after.sum.saturating_sub(before.sum);
            rings.most = rings.most.max(after.most);
        }
    }
    rings
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, Outcome<T>>) -> Outcome<T> {
    thread.join().unwrap_or_else(|_| Err(Failure::Failed("a thread has panicked".to_owned())))
}

fn sleep_until(time_ns: u64) {
    thread::sleep(Duration::from_nanos(time_ns.saturating_sub(clock::now())));
}

fn service_times(report: ServiceTimesReport) -> ServiceTimes {
    let mut all = namewire_control::WorkerServiceTimes::default();
    report.workers.iter().for_each(|worker| all.add(worker));
    let histogram = |times: &namewire_control::TimeHistogram| Histogram {
        count: times.count,
        sum_ns: times.sum_ns,
        buckets: times.buckets.iter().map(|b| (b.from_ns, b.below_ns, b.count)).collect(),
    };
    ServiceTimes {
        interest_dispatch: histogram(&all.interest_dispatch),
        interest_forwarding: histogram(&all.interest_forwarding),
        data_dispatch: histogram(&all.data_dispatch),
        data_forwarding: histogram(&all.data_forwarding),
        forwarding_by_burst_size: all
            .forwarding_by_burst_size
            .iter()
            .map(|size| (size.packets, size.bursts, size.sum_ns))
            .collect(),
    }
}

/// The wait of the generator for its next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// Its processor is that of a worker, too.
    Sleep,
    /// It has its processor alone: the host of a virtual machine takes one that sleeps, and is slow to give it back.
    Spin,
}

/// Consumers and producers.
struct Generator {
    consumer: Consumer,
    producer: Producer,
    consumers: Vec<InternalEnd>,
    producers: Vec<InternalEnd>,
    /// The first turn.
    begin_ns: u64,
    /// The buffer of an Interest that was refused.
    spare: Option<Vec<u8>>,
    /// Those of the faces since the begin of the window.
    queues: QueueLengths,
    /// Lengths of the queues in this turn.
    lengths: Vec<u64>,
    /// The same of the time that reading their lengths took.
    readings: ReadingTimes,
    /// Times by which turns of the window began late.
    stalls: Stalls,
}

/// Times in which the generator read the lengths of all queues. Workers have moved the positions since the last turn, so these are
/// on their processors: it is about the time of one cache line from there, as the processor reads them at once.
#[derive(Debug, Clone, Copy, Default)]
struct ReadingTimes {
    /// Number and sum in each part of the window.
    parts: [(u64, u64); Self::PARTS],
}

impl ReadingTimes {
    const PARTS: usize = 8;
    /// A longer reading was interrupted.
    const MAX_NS: u64 = 2_000;
    /// The mean of fewer readings varies by chance.
    const READINGS_MIN: u64 = 100;

    fn add(&mut self, other: &Self) {
        for (own, other) in self.parts.iter_mut().zip(&other.parts) {
            *own = (own.0 + other.0, own.1 + other.1);
        }
    }

    fn note(&mut self, part: usize, ns: u64) {
        if ns < Self::MAX_NS {
            let (count, sum_ns) = &mut self.parts[part.min(Self::PARTS - 1)];
            *count += 1;
            *sum_ns += ns;
        }
    }

    fn mean_ns(&self) -> f64 {
        let (count, sum_ns) = self.parts.iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        mean(count, sum_ns)
    }

    /// The mean of the slowest part over that of the fastest one, less 1. Parts with few readings do not count.
    fn change(&self) -> f64 {
        let parts = self.parts.iter().filter(|part| part.0 >= Self::READINGS_MIN);
        let means = parts.map(|part| mean(part.0, part.1));
        let (least, most) =
            means.fold((f64::INFINITY, 0.0), |(least, most), one| (one.min(least), one.max(most)));
        if least < most { most / least - 1.0 } else { 0.0 }
    }
}

#[expect(clippy::cast_precision_loss, reason = "times far below 2^53 ns")]
fn mean(count: u64, sum_ns: u64) -> f64 {
    sum_ns as f64 / count.max(1) as f64
}

/// The turn after one that was due at `due_ns` and is done at `done_ns`: at once, if that is late.
const fn next_turn(due_ns: u64, done_ns: u64) -> u64 {
    let next_ns = due_ns + TURN_NS;
    if done_ns > next_ns { done_ns } else { next_ns }
}

impl Generator {
    fn new(setting: &Setting, seed: u64, ends: Ends, now_ns: u64) -> Outcome<Self> {
        let Ends { prefixes, answered, consumers, producers } = ends;
        let pattern = |prefix: &String, names: Names, weight: f64| ConsumerPattern {
            prefix: prefix.clone(),
            weight,
            components: setting.components,
            names,
            lifetime_ms: LIFETIME_MS,
            ..ConsumerPattern::default()
        };
        let mut patterns = Vec::new();
        for prefix in &prefixes {
            if setting.hit_ratio < 1.0 {
                patterns.push(pattern(prefix, Names::Unique, 1.0 - setting.hit_ratio));
            }
            if setting.hit_ratio > 0.0 {
                let names = Names::Repeated { count: (REPEATED / answered.len()).max(1) as u32 };
                patterns.push(pattern(prefix, names, setting.hit_ratio));
            }
        }
        let scenario = ConsumerScenario {
            patterns,
            load: Load::Rate { per_second: setting.rate, arrivals: Arrivals::Poisson },
            faces: consumers.len() as u32,
            burst: 1,
            outstanding_max: 1 << 20,
            count: None,
        };
        let answers = ProducerScenario {
            patterns: answered
                .into_iter()
                .map(|prefix| ProducerPattern {
                    prefix,
                    payload: vec![setting.payload],
                    ..ProducerPattern::default()
                })
                .collect(),
        };
        let invalid = |error: ndn_traffic::ScenarioError| Failure::Usage(error.to_string());
        Ok(Self {
            consumer: Consumer::new(&scenario, seed, now_ns).map_err(invalid)?,
            producer: Producer::new(&answers, seed).map_err(invalid)?,
            consumers,
            producers,
            begin_ns: now_ns,
            queues: QueueLengths::default(),
            lengths: Vec::new(),
            readings: ReadingTimes::default(),
            stalls: Stalls::default(),
            spare: None,
        })
    }

    fn refused(&self) -> u64 {
        self.consumers.iter().chain(&self.producers).map(InternalEnd::refused).sum()
    }

    fn latencies(&self) -> hdrhistogram::Histogram<u64> {
        let mut counters = self.consumer.counters();
        let first = counters.next().map(|one| one.latency_ns.clone());
        let mut all = first.unwrap_or_else(|| unreachable!("a scenario has a pattern"));
        for one in counters {
            // The bounds are the same.
            let _ = all.add(&one.latency_ns);
        }
        all
    }

    /// Sends until it `is_over`, and counts from `from_ns` to `to_ns`.
    fn run(
        mut self,
        waiting: Waiting,
        from_ns: u64,
        to_ns: u64,
        is_over: &AtomicBool,
    ) -> Outcome<Generated> {
        let cpu = || {
            let times = CpuTimes::of_thread().map_err(|error| failed("processor time")(&error))?;
            Ok::<u64, Failure>(times.total().as_nanos() as u64)
        };
        let delayed = || delayed_ns().map_err(|error| failed("processor time")(&error));
        let (mut before, mut counted) = (None, None);
        let (mut spun_ns, mut next_ns) = (0, self.begin_ns);
        let mut counters: Vec<_> =
            self.consumer.counters().map(|_| PatternCounters::zero()).collect();
        loop {
            let now_ns = clock::now();
            if before.is_none() && now_ns >= from_ns {
                // What takes long here delays Interests, which then arrive in a burst.
                self.consumer.exchange_counters(&mut counters);
                before = Some((now_ns, self.refused(), cpu()?, delayed()?));
                spun_ns = 0;
                self.queues = QueueLengths::default();
                self.readings = ReadingTimes::default();
                self.stalls = Stalls::default();
            }
            if let Some(counted) = counted.take_if(|_| is_over.load(Ordering::Relaxed)) {
                return Ok(counted);
            }
            if let Some((begin_ns, refused, cpu_begin, delayed_begin)) = &before
                && counted.is_none()
                && now_ns >= to_ns
            {
                let totals = self.consumer.totals();
                counted = Some(Generated {
                    offered: totals.sent + totals.withdrawn,
                    satisfied: totals.satisfied,
                    refused: self.refused() - refused,
                    cpu_ns: cpu()?.saturating_sub(*cpu_begin + spun_ns),
                    delayed_ns: delayed()?.saturating_sub(*delayed_begin),
                    seconds: Duration::from_nanos(now_ns - begin_ns).as_secs_f64(),
                    latencies_ns: self.latencies(),
                    queues: self.queues,
                    readings: self.readings,
                    stalls: self.stalls,
                });
            }
            let parts = ReadingTimes::PARTS as u64;
            let part = parts * now_ns.saturating_sub(from_ns) / (to_ns - from_ns);
            self.turn(now_ns, next_ns, part as usize);
            let done_ns = clock::now();
            next_ns = next_turn(next_ns, done_ns);
            match waiting {
                Waiting::Sleep => sleep_until(next_ns),
                Waiting::Spin => {
                    while clock::now() < next_ns {
                        std::hint::spin_loop();
                    }
                    spun_ns += next_ns - done_ns;
                }
            }
        }
    }

    /// Sends what is due, answers and receives, in a turn that was due at `due_ns`, in this part of the window.
    fn turn(&mut self, now_ns: u64, due_ns: u64, part: usize) {
        let begin_ns = clock::now();
        let mut lengths = std::mem::take(&mut self.lengths);
        lengths.resize(self.consumers.len() + self.producers.len(), 0);
        let ends = self.consumers.iter().chain(&self.producers);
        for (length, end) in lengths.iter_mut().zip(ends) {
            *length = end.unreceived() as u64;
        }
        self.readings.note(part, clock::now() - begin_ns);
        let (interests, data) = lengths.split_at(self.consumers.len());
        interests.iter().for_each(|length| self.queues.interests.note(*length));
        data.iter().for_each(|length| self.queues.data.note(*length));
        self.lengths = lengths;
        self.stalls.note(now_ns.saturating_sub(due_ns));
        self.consumer.handle_timeout(now_ns);
        for _ in 0..TURN_PACKETS {
            let Some(face) = self.consumer.next_face(now_ns) else { break };
            let end = &mut self.consumers[face];
            let mut interest = self.spare.take().unwrap_or_else(|| end.buffer());
            interest.clear();
            interest.extend_from_slice(self.consumer.make_interest(now_ns));
            self.spare = end.send(interest).err();
            if self.spare.is_some() {
                self.consumer.withdraw();
            }
        }
        for end in &mut self.producers {
            for _ in 0..TURN_PACKETS {
                let Some(frame) = end.receive() else { break };
                self.producer.handle_frame(&frame, |append| {
                    let mut answer = end.buffer();
                    append(&mut answer);
                    // One that the queue has no room for is counted as refused.
                    let _ = end.send(answer);
                });
                end.give_back(frame);
            }
        }
        for (face, end) in self.consumers.iter_mut().enumerate() {
            for _ in 0..TURN_PACKETS {
                let Some(frame) = end.receive() else { break };
                self.consumer.handle_frame(face, &frame, now_ns);
                end.give_back(frame);
            }
        }
    }
}

/// Processes that want a processor, on average over the last minute.
pub(super) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(f64::NAN)
}

/// Shows progress on standard error.
pub(super) fn note_progress(done: usize, total: usize, begin_ns: u64, what: &str) {
    let elapsed_s = (clock::now() - begin_ns) / 1_000_000_000;
    let left_s = elapsed_s * (total - done) as u64 / done.max(1) as u64;
    output::note(&format_args!("{done}/{total}, {left_s} s left: {what}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use namewire_daemon::Seeds;

    fn dispatch_entry(hasher: &NameHasher, table: &Ndt, uri: &str) -> usize {
        let name = Name::from_uri(uri).unwrap();
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let count = hasher.hash_prefixes(name.as_ref(), &mut hashes).unwrap();
        table.first_entry(name.as_ref(), &hashes[..count])
    }

    /// A key of the hash of names with which an entry of the dispatch table of two workers would have to be moved to the first
    /// one, and then to the second one, for two of the first prefixes.
    fn key_with_shared_entry(table: &Ndt) -> [u8; 16] {
        let is_shared = |key: &[u8; 16]| {
            let hasher = NameHasher::new(*key);
            let entry = |number| dispatch_entry(&hasher, table, &format!("/m/{number}"));
            let entries: Vec<usize> = (0..PREFIXES).map(entry).collect();
            let moved = (0..PREFIXES).filter(|number| entries[*number] % 2 != number % 2);
            moved.into_iter().any(|number| {
                let mut others = (number + 1..PREFIXES).step_by(2);
                others.any(|other| entries[other] == entries[number])
            })
        };
        (0_u128..).map(u128::to_le_bytes).find(is_shared).unwrap()
    }

    #[test]
    fn prefixes_have_distinct_dispatch_entries() {
        let table = Ndt::new(2, DISPATCH_DEPTH);
        let hasher = NameHasher::new(key_with_shared_entry(&table));
        let prefixes = distinct_prefixes(&hasher, &table, PREFIXES);
        let entries: BTreeSet<usize> =
            prefixes.iter().map(|uri| dispatch_entry(&hasher, &table, uri)).collect();
        assert_eq!((prefixes.len(), entries.len()), (PREFIXES, PREFIXES));
        assert!(prefixes.contains(&"/m/0".to_owned()) && !prefixes.contains(&"/m/9".to_owned()));
    }

    /// Each generator has as many prefixes of each worker, consumers of one and producers of another, and no end is lost.
    #[test]
    fn generators_have_as_much_to_do_with_every_worker() {
        for count in 1..=4_usize {
            let faces = FACES.max(count);
            let ends = || (0..faces).map(|_| InternalEnd::pair(4).unwrap().0).collect::<Vec<_>>();
            let prefixes: Vec<String> =
                (0..prefix_count(count)).map(|number| number.to_string()).collect();
            let (answered, consumers, producers) = (prefixes.clone(), ends(), ends());
            let parts = Ends { prefixes, answered, consumers, producers }.divided(count);
            assert_eq!(parts.len(), count);
            for part in &parts {
                let of_worker = |worker| {
                    let numbers = part.prefixes.iter().map(|uri| uri.parse::<usize>().unwrap());
                    numbers.filter(|number| number % count == worker).count()
                };
                let each = prefix_count(count) / (count * count);
                assert!((0..count).all(|worker| of_worker(worker) == each), "{count}");
                assert_eq!(part.answered.len(), prefix_count(count));
                assert_eq!(part.consumers.len(), faces / count);
                assert_eq!(part.producers.len(), faces / count);
            }
        }
    }

    #[test]
    fn forwarder_gives_each_prefix_to_its_worker() {
        if processors().unwrap().len() < 2 {
            eprintln!("skipped: one processor");
            return;
        }
        let table = Ndt::new(2, DISPATCH_DEPTH);
        let name_hash_key = key_with_shared_entry(&table);
        let setting = Setting {
            workers: 2,
            components: 7,
            payload: 0,
            hit_ratio: 0.0,
            routes: PREFIXES,
            rate: 1.0,
            placement: Placement::P1,
        };
        let system = Environment::system();
        let seeds = Seeds { name_hash_key, ..system.seeds };
        let subject = Subject::start(&setting, Environment { seeds, ..system }).unwrap();
        let changed = subject.client().unwrap().dispatch().unwrap().entries;
        let hasher = NameHasher::new(name_hash_key);
        for (number, uri) in subject.ends.prefixes.iter().enumerate() {
            let entry = dispatch_entry(&hasher, &table, uri);
            let found = changed.iter().find(|one| one.entry == entry);
            assert_eq!(found.map_or(entry % 2, |one| usize::from(one.worker)), number % 2, "{uri}");
        }
        subject.forwarder.shut_down().unwrap();
    }

    #[test]
    fn least_disturbed_try_counts_and_the_others_have_their_reasons() {
        let one = |number: usize, disturbance, excess| {
            let text = format!(
                r#"{{"number": {number}, "setting": {{"workers": 1, "components": 7, "payload": 0, "hit_ratio": 0.0,
                    "routes": 64, "rate": 1.0}}, "discarded": 0, "seconds": 1.0, "sent": 1, "satisfied": 1, "refused": 0,
                    "interests": 1, "hits": 0, "bursts": 1, "sleeps": 0, "cpu_ns": [1], "delayed_ns": [0],
                    "generator_cpu_ns": 0, "pit_entries": 0, "latency_ns": [1, 1, 1], "services": null}}"#
            );
            Try { disturbance, excess, run: serde_json::from_str(&text).unwrap() }
        };
        let first = || one(1, Disturbance::Moved, 3.0);
        let run = least_disturbed(vec![first(), one(2, Disturbance::Slowed, 0.5)]);
        assert_eq!((run.number, run.discarded, run.disturbed_by), (2, 1, None));
        assert_eq!(run.discarded_for, [Disturbance::Moved]);
        let others = [one(2, Disturbance::RateNotReached, 1e3), one(3, Disturbance::Stolen, 1.5)];
        let run = least_disturbed(std::iter::once(first()).chain(others).collect());
        assert_eq!((run.number, run.disturbed_by), (3, Some(Disturbance::Stolen)));
        assert_eq!(run.discarded_for, [Disturbance::Moved, Disturbance::RateNotReached]);
    }

    #[test]
    fn generator_is_on_the_node_that_the_placement_says() {
        let nodes = [0, 1, 0, 1, 0, 1];
        let processors: Vec<Processor> =
            (0..6).map(|cpu| Processor { cpu, core: cpu, node: nodes[cpu] }).collect();
        let places = |workers, placement| places_of(&processors, workers, placement);
        assert_eq!(places(2, Placement::P1), Ok((vec![0, 2], vec![4])));
        assert_eq!(places(3, Placement::P1), Ok((vec![0, 2, 4], vec![0, 2, 4])));
        assert_eq!(places(4, Placement::P1), Ok((vec![0, 2, 4, 1], vec![5])));
        assert_eq!(places(3, Placement::P4), Ok((vec![0, 2, 4], vec![5])));
        assert!(places(4, Placement::P4).unwrap_err().contains("has 3 processors"));
        assert!(places(7, Placement::P1).unwrap_err().contains("processor of its own"));
        assert!(places(1, Placement::P2).unwrap_err().contains("P1 or P4"));
        let one = &processors[..1];
        assert!(places_of(one, 1, Placement::P4).unwrap_err().contains("second NUMA node"));
        assert_eq!(places_of(one, 1, Placement::P1), Ok((vec![0], vec![0])));
    }

    #[test]
    fn transfers_are_compared_between_parts_of_a_run() {
        let mut readings = ReadingTimes::default();
        assert!(readings.mean_ns() < 1e-9 && readings.change() < 1e-9);
        for turn in 0..800 {
            readings.note(turn / 100, if turn < 600 { 100 } else { 300 });
            // An interruption is no transfer.
            readings.note(turn / 100, 50_000);
        }
        // Few readings tell nothing.
        let mut few = ReadingTimes::default();
        (0..99).for_each(|_| few.note(0, 100));
        (0..100).for_each(|_| few.note(1, 300));
        assert!(few.change() < 1e-9);
        assert!((readings.mean_ns() - 150.0).abs() < 1e-9);
        assert!((readings.change() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn turn_that_is_late_is_followed_at_once() {
        assert_eq!(next_turn(TURN_NS, TURN_NS + 1), 2 * TURN_NS);
        assert_eq!(next_turn(TURN_NS, 2 * TURN_NS), 2 * TURN_NS);
        assert_eq!(next_turn(TURN_NS, 5 * TURN_NS + 7), 5 * TURN_NS + 7);
    }

    #[test]
    fn configuration_of_the_measured_forwarder_is_accepted() {
        let config = configuration(Path::new("/run/measured.sock"), &[0, 1]).unwrap();
        assert!(!config.listeners.udp.enabled && !config.listeners.tcp.enabled);
    }
}
