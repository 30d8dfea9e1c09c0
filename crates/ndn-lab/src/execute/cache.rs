//! Runs that simulate networks of caches.

use ndn_cache_sim::engine::{Method, Run};
use ndn_cache_sim::report::QUANTITIES;
use ndn_cache_sim::topology::Topology;
use ndn_cache_sim::trace::{Pattern, Trace};

use super::inputs::Inputs;
use super::networks;
use super::outcome::RunResult;
use crate::experiment::{Cache, Experiment, SeededRun, Values};

struct Settings {
    topology: Topology,
    method: Method,
    pattern: Pattern,
}

pub(super) fn check(
    experiment: &Experiment,
    inputs: &mut Inputs,
    cache: &Cache,
    values: &Values,
) -> Result<(), String> {
    networks::check_responses(experiment, &QUANTITIES.map(|quantity| quantity.name))?;
    networks::read(inputs, &cache.topology.fill(values))?;
    settings(inputs, cache, values).map(|_| ())
}

fn settings(inputs: &Inputs, cache: &Cache, values: &Values) -> Result<Settings, String> {
    let topology = networks::topology(inputs, (&cache.topology, &cache.load), values)?;
    let name = cache.method.fill(values);
    let methods = Method::parse(&name).map_err(|error| error.0)?;
    let [method] = methods[..] else {
        let names: Vec<String> = methods.iter().map(|method| method.name()).collect();
        return Err(format!("'{name}' is more than one method: {}", names.join(", ")));
    };
    Ok(Settings { topology, method, pattern: networks::pattern(&cache.pattern.fill(values))? })
}

pub(super) fn run(inputs: &Inputs, cache: &Cache, run: SeededRun, values: &Values) -> RunResult {
    let Settings { topology, method, pattern } = settings(inputs, cache, values)?;
    let seed = u64::from(run.seed);
    let trace = Trace::generate(&topology, pattern, seed).map_err(|error| error.0)?;
    let metrics = Run::new(&topology, &trace, method, seed).metrics();
    Ok(QUANTITIES.iter().map(|one| (one.name.to_owned(), (one.of)(&metrics))).collect())
}
