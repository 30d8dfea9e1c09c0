//! Topologies, patterns and responses of simulated networks.

use ndn_cache_sim::topology::{FILES, Topology};
use ndn_cache_sim::trace::Pattern;

use super::inputs::Inputs;
use crate::experiment::{Experiment, Template, Values};

/// Refuses responses that are not measured.
pub(super) fn check_responses(experiment: &Experiment, measured: &[&str]) -> Result<(), String> {
    let unknown = experiment.responses.iter().find(|one| !measured.contains(&one.name.as_str()));
    unknown.map_or(Ok(()), |response| {
        Err(format!("unknown response '{}'; known: {}", response.name, measured.join(", ")))
    })
}

fn is_file(topology: &str) -> bool {
    topology.contains(['/', '.'])
}

/// Reads the file of a topology, if it is one.
pub(super) fn read(inputs: &mut Inputs, topology: &str) -> Result<(), String> {
    if is_file(topology) { inputs.read(topology) } else { Ok(()) }
}

/// A topology with other values of its load.
pub(super) fn topology(
    inputs: &Inputs,
    (topology, load): (&Template, &[(String, Template)]),
    values: &Values,
) -> Result<Topology, String> {
    let name = topology.fill(values);
    let known = FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    let text = match known {
        Some(text) => text,
        None if is_file(&name) => inputs.text(&name)?,
        None => {
            let known: Vec<_> = FILES.iter().map(|(known, _)| *known).collect();
            let known = known.join(", ");
            return Err(format!(
                "unknown topology '{name}'; known: {known}, or a path of a TOML file"
            ));
        }
    };
    let load: Vec<String> =
        load.iter().map(|(key, value)| format!("{key}={}", value.fill(values))).collect();
    Topology::parse_with(text, &name, &load).map_err(|error| error.0)
}

/// The pattern of this name.
pub(super) fn pattern(name: &str) -> Result<Pattern, String> {
    let pattern = Pattern::ALL.into_iter().find(|(_, known)| *known == name);
    pattern.map(|(pattern, _)| pattern).ok_or_else(|| {
        let known: Vec<_> = Pattern::ALL.iter().map(|(_, known)| *known).collect();
        format!("unknown pattern '{name}'; known: {}", known.join(", "))
    })
}
