//! Runs that simulate networks of whole forwarders.

use std::time::Duration;

use ndn_cache_sim::engine::{WARM_UP_SHARE, sources};
use ndn_cache_sim::topology::Topology;
use ndn_cache_sim::trace::{Request, Trace};
use ndn_client::fetch::WindowMode;
use ndn_model::random::{StreamId, TraceRandom};

use super::inputs::Inputs;
use super::networks;
use super::outcome::Outcome;
use crate::experiment::{Experiment, SeededRun, Simulation, Values};
use crate::simulation::{Measures, Network, cache_memory, simulate};

/// The pattern in which each consumer requests one object at a random time within the first second: the first consumer the
/// first object, and so on, and after the last object the first one again. All requests are measured.
const ONE_EACH: &str = "one-each";
/// Stream of the random numbers that are times of requests.
const STARTS: StreamId = StreamId(2);
/// Largest content of a Data.
const SEGMENT_BYTES_MAX: u64 = 8192;

struct Settings {
    topology: Topology,
    segment_bytes: u64,
    window: WindowMode,
    strategy: String,
    loss: f64,
}

pub(super) fn check(
    experiment: &Experiment,
    inputs: &mut Inputs,
    simulation: &Simulation,
    values: &Values,
) -> Result<(), String> {
    networks::check_responses(experiment, &Measures::NAMES)?;
    networks::read(inputs, &simulation.topology.fill(values))?;
    let settings = settings(inputs, simulation, values)?;
    let pattern = simulation.pattern.fill(values);
    if pattern != ONE_EACH {
        networks::pattern(&pattern).map_err(|error| format!("{error}, {ONE_EACH}"))?;
    }
    let needed = cache_memory(&settings.topology, settings.segment_bytes);
    match available_memory() {
        Some(available) if needed > available / 2 => Err(format!(
            "the Content Stores take up to {} MiB, more than half of the {} MiB that are available: cache_bytes is too \
             large for forwarders that store the packets",
            needed >> 20,
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

fn settings(inputs: &Inputs, simulation: &Simulation, values: &Values) -> Result<Settings, String> {
    let topology = networks::topology(inputs, (&simulation.topology, &simulation.load), values)?;
    let text = simulation.segment_bytes.fill(values);
    let segment_bytes = text.parse().ok().filter(|bytes| (1..=SEGMENT_BYTES_MAX).contains(bytes));
    let segment_bytes = segment_bytes.ok_or_else(|| {
        format!("segment_bytes: '{text}' is not a number from 1 to {SEGMENT_BYTES_MAX}")
    })?;
    let text = simulation.window.fill(values);
    let window = match (text.as_str(), text.parse()) {
        ("cubic", _) => WindowMode::CUBIC,
        ("delay", _) => WindowMode::DELAY,
        (_, Ok(segments)) if segments > 0 => WindowMode::Fixed(segments),
        _ => {
            return Err(format!(
                "window: '{text}' is none of cubic, delay and a number of segments"
            ));
        }
    };
    let text = simulation.loss.fill(values);
    let loss = text.parse().ok().filter(|loss| (0.0..=0.5).contains(loss));
    let loss = loss.ok_or_else(|| format!("loss: '{text}' is not a share from 0 to 0.5"))?;
    let strategy = simulation.strategy.fill(values);
    // Their names end in the strategy and its version.
    let short = |known: &ndn_forwarding::strategy::KnownStrategy| {
        let components = known.name.components().count();
        let component = known.name.component(components.saturating_sub(2));
        component.map(|one| String::from_utf8_lossy(one.value()).into_owned()).unwrap_or_default()
    };
    let known: Vec<String> =
        ndn_forwarding::strategy::known_strategies().map(|known| short(&known)).collect();
    if !known.contains(&strategy) {
        return Err(format!("unknown strategy '{strategy}'; known: {}", known.join(", ")));
    }
    Ok(Settings { topology, segment_bytes, window, strategy, loss })
}

pub(super) fn run(
    inputs: &Inputs,
    simulation: &Simulation,
    run: SeededRun,
    values: &Values,
) -> Outcome {
    let Settings { topology, segment_bytes, window, strategy, loss } =
        settings(inputs, simulation, values)?;
    let seed = u64::from(run.seed);
    let pattern = simulation.pattern.fill(values);
    let (trace, warm_up_s) = if pattern == ONE_EACH {
        (one_each(&topology, seed), 0.0)
    } else {
        let trace = Trace::generate(&topology, networks::pattern(&pattern)?, seed);
        let trace = trace.map_err(|error| error.0)?;
        let last_s = trace.requests.last().map_or(0.0, |request| request.time_s);
        (trace, last_s * WARM_UP_SHARE)
    };
    let network = Network {
        topology: &topology,
        requests: &trace.requests,
        sizes: &trace.sizes,
        sources: &sources(&topology, trace.sizes.len(), seed),
        segment_bytes,
        window,
        strategy: &strategy,
        loss,
        warm_up: Duration::from_secs_f64(warm_up_s),
        seed,
    };
    let measures = simulate(&network)?;
    Ok(measures.named().into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
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
