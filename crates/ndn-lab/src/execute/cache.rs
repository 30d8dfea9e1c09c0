//! Runs that simulate networks of caches.

use ndn_cache_sim::engine::{Method, Run};
use ndn_cache_sim::report::QUANTITIES;
use ndn_cache_sim::topology::{FILES, Topology};
use ndn_cache_sim::trace::{Pattern, Trace};

use super::inputs::Inputs;
use super::outcome::Outcome;
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
    for response in &experiment.responses {
        if !QUANTITIES.iter().any(|quantity| quantity.name == response.name) {
            let known: Vec<_> = QUANTITIES.iter().map(|quantity| quantity.name).collect();
            let (name, known) = (&response.name, known.join(", "));
            return Err(format!("unknown response '{name}'; known: {known}"));
        }
    }
    let name = cache.topology.fill(values);
    if is_file(&name) {
        inputs.read(&name)?;
    }
    settings(inputs, cache, values).map(|_| ())
}

fn is_file(topology: &str) -> bool {
    topology.contains(['/', '.'])
}

fn settings(inputs: &Inputs, cache: &Cache, values: &Values) -> Result<Settings, String> {
    let name = cache.topology.fill(values);
    let known = FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    let text = match known {
        Some(text) => text,
        None if is_file(&name) => inputs.text(&name)?,
        None => {
            let known: Vec<_> = FILES.iter().map(|(known, _)| *known).collect();
            return Err(format!(
                "unknown topology '{name}'; known: {}, or a path of a TOML file",
                known.join(", ")
            ));
        }
    };
    let load: Vec<String> =
        cache.load.iter().map(|(key, value)| format!("{key}={}", value.fill(values))).collect();
    let topology = Topology::parse_with(text, &name, &load).map_err(|error| error.0)?;
    let name = cache.method.fill(values);
    let methods = Method::parse(&name).map_err(|error| error.0)?;
    let [method] = methods[..] else {
        let names: Vec<String> = methods.iter().map(|method| method.name()).collect();
        return Err(format!("'{name}' is more than one method: {}", names.join(", ")));
    };
    let name = cache.pattern.fill(values);
    let pattern = Pattern::ALL.into_iter().find(|(_, known)| *known == name);
    let (pattern, _) = pattern.ok_or_else(|| {
        let known: Vec<_> = Pattern::ALL.iter().map(|(_, known)| *known).collect();
        format!("unknown pattern '{name}'; known: {}", known.join(", "))
    })?;
    Ok(Settings { topology, method, pattern })
}

pub(super) fn run(inputs: &Inputs, cache: &Cache, run: SeededRun, values: &Values) -> Outcome {
    let Settings { topology, method, pattern } = settings(inputs, cache, values)?;
    let seed = u64::from(run.seed);
    let trace = Trace::generate(&topology, pattern, seed).map_err(|error| error.0)?;
    let metrics = Run::new(&topology, &trace, method, seed).metrics();
    Ok(QUANTITIES.iter().map(|one| (one.name.to_owned(), (one.of)(&metrics))).collect())
}
