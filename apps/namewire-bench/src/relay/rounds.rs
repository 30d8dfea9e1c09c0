//! Starts the programs of one layout and measures its cases alternately.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use ndn_traffic::io::Calls;

use crate::started::Folder;

use super::addresses::Addresses;
use super::generator::{Generator, Stretch};
use super::layout::{CaseShape, Layout, MeasuredProgram};
use super::link::Link;
use super::program::Program;
use super::programs::Running;
use super::report::{RelayCase, RelayOptions};
use super::statistics::{CallFigures, Quartiles, to_f64};
use super::transport::Transport;
use super::{connect, wire};

/// Window while a cache is filled.
const WARM_WINDOW: u32 = 256;
/// Minimum turns of the window before and during a measurement: some programs forward all packets of one peer before
/// they poll another.
const SETTLE_TURNS: u64 = 2;
const STRETCH_TURNS: u64 = 8;
/// A generator busier than this may be the limit.
const BUSY_MAX: f64 = 0.8;
/// A generator shown to be this much faster with the dumb relay is not the limit.
const HEADROOM_MIN: f64 = 1.5;
/// Maximum steal time of a valid round, as a share.
const STEAL_MAX: f64 = 0.01;
/// Polling time of shared memory rings before the generator waits.
const RING_POLLING: Duration = Duration::from_micros(100);

/// One program with its sockets.
#[derive(Debug)]
struct Subject {
    program: Program,
    workers: usize,
    /// Processors that it runs on.
    cpus: Vec<usize>,
    running: Running,
    /// Removed after the end of the program.
    _link: Option<Arc<Link>>,
    generator: Generator,
    _folder: Folder,
    /// Socket on which it reports its counters.
    statistics: Option<PathBuf>,
    /// Bytes of content in the cached Data.
    cached_payload: usize,
}

/// Result of one round of one program.
#[derive(Debug, Clone, Copy)]
struct Round {
    exchanges_per_s: f64,
    cpu_us: f64,
    packets_per_call: Option<(f64, f64)>,
    loss: f64,
    p50_us: f64,
    p99_us: f64,
    busy: f64,
    steal: f64,
}

/// Measures every case of `layout` for every program.
pub(super) fn run_layout(
    options: &RelayOptions,
    layout: &Layout,
    contenders: &[MeasuredProgram],
    progress: &mut impl FnMut(&str),
) -> anyhow::Result<Vec<RelayCase>> {
    pin(options.cpus.1)?;
    let mut subjects = Vec::new();
    for (number, contender) in (0_u8..).zip(contenders) {
        let name = contender.name();
        progress(&format!("{} {name}: start and warm", layout.transport.name()));
        let subject = start(options, layout, number, contender)
            .with_context(|| format!("{name} over {}", layout.transport.name()))?;
        subjects.push(subject);
    }
    let mut cases = Vec::new();
    for &shape in &layout.cases {
        let rows = run_case(options, layout, shape, &mut subjects)?;
        for row in &rows {
            progress(&format!(
                "{:<20} workers {} window {:>4} faces {:>3}{} {:>9.0}/s {:>6.2} us/exchange",
                row.case,
                row.workers,
                row.window,
                row.faces,
                if row.mixed { " mixed" } else { "" },
                row.exchanges_per_s,
                row.cpu_us_per_exchange
            ));
        }
        cases.extend(rows);
    }
    Ok(cases)
}

pub(super) fn pin(cpu: usize) -> anyhow::Result<()> {
    let mut only = rustix::thread::CpuSet::new();
    only.set(cpu);
    rustix::thread::sched_setaffinity(None, &only)
        .with_context(|| format!("cannot run on CPU {cpu}"))
}

fn start(
    options: &RelayOptions,
    layout: &Layout,
    number: u8,
    contender: &MeasuredProgram,
) -> anyhow::Result<Subject> {
    let MeasuredProgram { program, ref executable, workers } = *contender;
    let folder = Folder::new(&format!(
        "namewire-relay-{}-{}-{}-{workers}",
        std::process::id(),
        layout.transport.name(),
        program.name()
    ))?;
    // Ports of one program: its own and those that the dumb relay binds per consumer, the producer's, the consumers'.
    let first = options.first_port + u16::from(number) * 512;
    let faces = u16::try_from(layout.faces)?;
    let addresses = Addresses {
        folder: folder.path().to_owned(),
        udp_port: first,
        producer_port: first + 200,
        consumer_ports: (0..faces).map(|face| first + 201 + face).collect(),
        transport: layout.transport,
        link: layout
            .transport
            .needs_devices()
            .then(|| Link::new(number, layout.mtu))
            .transpose()?
            .map(Arc::new),
        settings: "",
        cs_packets: options.cs_packets,
        workers,
    };
    let cpus = forwarder_cpus(options, workers)?;
    let running = Running::start(program, executable, &addresses, &cpus)?;
    let (consumers, producer) = connect::connect(program, &addresses, layout.prefixes)?;
    let mut generator = Generator::new(consumers, producer, layout.prefixes);
    if layout.transport == Transport::Memif {
        generator.set_polling(RING_POLLING);
    }
    // All programs see the same names; every start uses new ones.
    let cached_payload = layout.cases.first().map_or(0, |shape| shape.payload);
    generator.reshape(WARM_WINDOW, cached_payload, false);
    generator.run(Duration::ZERO, warm_turns(options))?;
    let statistics = addresses.statistics_socket(program);
    running.set_paused(true);
    let link = addresses.link;
    Ok(Subject {
        program,
        workers,
        cpus,
        running,
        _link: link,
        generator,
        _folder: folder,
        statistics,
        cached_payload,
    })
}

/// Turns of the window until the cache has evicted twice its capacity.
fn warm_turns(options: &RelayOptions) -> u64 {
    3 * u64::from(options.cs_packets.div_ceil(WARM_WINDOW))
}

/// Processors of a forwarder with `workers` workers: its own, then unused ones, and the generator's last.
fn forwarder_cpus(options: &RelayOptions, workers: usize) -> anyhow::Result<Vec<usize>> {
    let (own, generator) = options.cpus;
    let others = ndn_sys::cpu::allowed_cpus()?;
    let others = others.into_iter().filter(|cpu| ![own, generator].contains(cpu));
    Ok([own].into_iter().chain(others).chain([generator]).cycle().take(workers).collect())
}

fn run_case(
    options: &RelayOptions,
    layout: &Layout,
    shape: CaseShape,
    subjects: &mut [Subject],
) -> anyhow::Result<Vec<RelayCase>> {
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); subjects.len()];
    for _ in 0..options.rounds {
        for (subject, rounds) in subjects.iter_mut().zip(&mut rounds) {
            let name = subject.program.name();
            subject.running.set_paused(false);
            let round = run_round(options, shape, subject);
            // Some programs poll and would occupy the processor of the next one.
            subject.running.set_paused(true);
            let round = round.with_context(|| format!("{name} in {}", layout.case_name(shape)))?;
            rounds.push(round);
        }
    }
    let mut rows: Vec<RelayCase> = Vec::new();
    let is_one = |subject: &Subject| subject.program == Program::Namewire && subject.workers == 1;
    let one = subjects.iter().position(is_one);
    for (subject, own) in subjects.iter().zip(&rounds) {
        let mut row = row(options, layout, shape, subject, own);
        if subject.workers > 1 {
            row.cpu_of_one_worker = one.and_then(|one| cpu_of_one_worker(own, &rounds[one]));
        }
        rows.push(row);
    }
    let dumb = subjects
        .iter()
        .position(|subject| subject.program.is_dumb())
        .map(|index| rows[index].exchanges_per_s);
    for row in &mut rows {
        row.share_of_dumb = dumb.map(|dumb| row.exchanges_per_s / dumb);
        let headroom = row.share_of_dumb.is_some_and(|share| share * HEADROOM_MIN <= 1.0);
        row.generator_bound = row.generator_busy >= BUSY_MAX && !headroom;
    }
    Ok(rows)
}

fn run_round(
    options: &RelayOptions,
    shape: CaseShape,
    subject: &mut Subject,
) -> anyhow::Result<Round> {
    if subject.cached_payload != shape.payload {
        // A growing cache has other costs than a full one.
        subject.generator.reshape(WARM_WINDOW, shape.payload, shape.mixed);
        subject.generator.run(Duration::ZERO, warm_turns(options))?;
        subject.cached_payload = shape.payload;
    }
    subject.generator.reshape(shape.window, shape.payload, shape.mixed);
    // The loop settles at the new window before the measurement.
    subject.generator.run(options.stretch / 10, SETTLE_TURNS)?;
    let ask = |subject: &Subject| subject.statistics.as_deref().map(Calls::ask).transpose();
    let calls = ask(subject)?;
    let steal = ndn_pipeline_bench::steal_ns();
    let cpu = subject.running.cpu_ns()?;
    let Stretch { tally, wall_ns, generator_cpu_ns } =
        subject.generator.run(options.stretch, STRETCH_TURNS)?;
    let cpu = subject.running.cpu_ns()? - cpu;
    let steal = ndn_pipeline_bench::steal_ns().saturating_sub(steal);
    let calls = ask(subject)?.zip(calls).map(|(now, before)| now.since(before));
    let ended = tally.satisfied + tally.nacked + tally.lost;
    let satisfied = to_f64(tally.satisfied.max(1));
    Ok(Round {
        exchanges_per_s: to_f64(tally.satisfied) * 1e9 / to_f64(wall_ns),
        cpu_us: to_f64(cpu) / 1e3 / satisfied,
        loss: to_f64(tally.nacked + tally.lost) / to_f64(ended.max(1)),
        p50_us: to_f64(tally.latency_ns.value_at_quantile(0.5)) / 1e3,
        p99_us: to_f64(tally.latency_ns.value_at_quantile(0.99)) / 1e3,
        busy: to_f64(generator_cpu_ns) / to_f64(wall_ns),
        packets_per_call: calls.map(CallFigures::packets_per_call),
        steal: to_f64(steal) / to_f64(wall_ns),
    })
}

/// CPU time per exchange relative to one worker in the neighbouring round, over the undisturbed rounds, or over all
/// if none is undisturbed.
fn cpu_of_one_worker(own: &[Round], one: &[Round]) -> Option<Quartiles> {
    let pairs: Vec<(&Round, &Round)> = own.iter().zip(one).collect();
    let is_quiet = |pair: &&(&Round, &Round)| pair.0.steal.max(pair.1.steal) <= STEAL_MAX;
    let ratio = |pair: &(&Round, &Round)| pair.0.cpu_us / pair.1.cpu_us;
    let quiet: Vec<f64> = pairs.iter().filter(is_quiet).map(ratio).collect();
    Quartiles::of(if quiet.is_empty() { pairs.iter().map(ratio).collect() } else { quiet })
}

fn row(
    options: &RelayOptions,
    layout: &Layout,
    shape: CaseShape,
    subject: &Subject,
    rounds: &[Round],
) -> RelayCase {
    let quiet: Vec<Round> =
        rounds.iter().copied().filter(|round| round.steal <= STEAL_MAX).collect();
    // Without an undisturbed round, the disturbed ones are used and their number is reported.
    let kept = if quiet.is_empty() { rounds } else { &quiet };
    let median = |figure: fn(&Round) -> f64| ndn_pipeline_bench::median(kept.iter().map(figure));
    let median_of_known = |figure: fn(&(f64, f64)) -> f64| {
        let known = kept.iter().filter_map(|round| round.packets_per_call.as_ref().map(figure));
        subject.statistics.is_some().then(|| ndn_pipeline_bench::median(known))
    };
    let rates = kept.iter().map(|round| round.exchanges_per_s);
    RelayCase {
        case: format!("{}-{}-{}", subject.program.name(), layout.transport.name(), shape.payload),
        program: subject.program.name(),
        workers: subject.workers,
        cpus: subject.cpus.clone(),
        fib_entries: layout.prefixes,
        cs_packets: options.cs_packets,
        transport: layout.transport.name(),
        payload: shape.payload,
        data_gbit_per_s: median(|round| round.exchanges_per_s)
            * to_f64(wire::data_length(shape.payload, shape.mixed))
            * 8e-9,
        packets_per_s: 2.0 * median(|round| round.exchanges_per_s),
        window: shape.window,
        faces: layout.faces,
        mixed: shape.mixed,
        exchanges_per_s: median(|round| round.exchanges_per_s),
        cpu_us_per_exchange: median(|round| round.cpu_us),
        cpu_ns_per_exchange: median(|round| round.cpu_us) * 1e3,
        packets_per_read: median_of_known(|(read, _)| *read),
        packets_per_write: median_of_known(|(_, write)| *write),
        loss: median(|round| round.loss),
        p50_us: median(|round| round.p50_us),
        p99_us: median(|round| round.p99_us),
        generator_busy: median(|round| round.busy),
        generator_bound: false,
        share_of_dumb: None,
        cpu_of_one_worker: None,
        resident_mib: to_f64(subject.running.resident_bytes().unwrap_or(0)) / f64::from(1 << 20),
        spread: (rates.clone().fold(f64::INFINITY, f64::min), rates.fold(0.0, f64::max)),
        rounds_discarded: rounds.len() - quiet.len(),
    }
}
