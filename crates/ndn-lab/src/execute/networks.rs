//! Topologies, patterns and responses of simulated networks.

use ndn_cache_sim::topology::{FILES, Topology};
use ndn_cache_sim::trace::Pattern;

use super::inputs::Inputs;
use crate::experiment::{Experiment, Template, Values};
use crate::graphml;

/// Topologies beside those of `namewire cache simulate`.
const OWN_FILES: [(&str, &str); 3] = [
    ("star", include_str!("../../topologies/star.toml")),
    ("dumbbell", include_str!("../../topologies/dumbbell.toml")),
    ("a-f-b", include_str!("../../topologies/a-f-b.toml")),
];

/// Refuses responses that are not measured.
pub(super) fn check_responses(experiment: &Experiment, measured: &[&str]) -> Result<(), String> {
    check_node_responses(experiment, measured, &[], &[])
}

/// Refuses responses that are not measured, of the whole network (`hit_share`) and of nodes (`cs_hits.router`).
pub(super) fn check_node_responses(
    experiment: &Experiment,
    measured: &[&str],
    of_nodes: &[&str],
    nodes: &[String],
) -> Result<(), String> {
    let is_known = |name: &str| match name.split_once('.') {
        _ if measured.contains(&name) => true,
        Some((quantity, node)) => {
            of_nodes.contains(&quantity) && nodes.iter().any(|known| known == node)
        }
        None => false,
    };
    let unknown = experiment.responses.iter().find(|one| !is_known(&one.name));
    unknown.map_or_else(
        || check_units(experiment),
        |response| {
            let of_nodes = of_nodes.iter().map(|quantity| format!("{quantity}.NODE"));
            let known = measured.iter().map(|name| (*name).to_owned()).chain(of_nodes);
            let known = known.collect::<Vec<_>>().join(", ");
            Err(format!("unknown response '{}'; known: {known}", response.name))
        },
    )
}

/// Units by the ends of the names of quantities; those that are part of another come after it.
const UNITS: [(&str, &str); 5] = [
    ("_share", "share"),
    ("_ms", "ms"),
    ("_mib", "MiB"),
    ("mbit_per_s", "Mbit/s"),
    ("_per_s", "1/s"),
];

/// The unit of the response of this name, if its name has one.
fn unit_of(response: &str) -> Option<&'static str> {
    let quantity = response.split('.').next().unwrap_or_default();
    UNITS.iter().find(|(end, _)| quantity.ends_with(end)).map(|(_, unit)| *unit)
}

/// Refuses units in which responses are not measured.
fn check_units(experiment: &Experiment) -> Result<(), String> {
    for response in &experiment.responses {
        if let Some(unit) = unit_of(&response.name)
            && !response.unit.is_empty()
            && response.unit != unit
        {
            return Err(format!(
                "response '{}': it is measured in '{unit}', not in '{}'",
                response.name, response.unit
            ));
        }
    }
    Ok(())
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
    let files = || FILES.iter().chain(&OWN_FILES);
    let known = files().find(|(known, _)| *known == name).map(|(_, text)| *text);
    let text = match known {
        Some(text) => text,
        None if is_file(&name) => inputs.text(&name)?,
        None => {
            let known: Vec<_> = files().map(|(known, _)| *known).collect();
            let known = known.join(", ");
            return Err(format!(
                "unknown topology '{name}'; known: {known}, or a path of a TOML file"
            ));
        }
    };
    let converted;
    let text = if name.ends_with(".graphml") {
        converted = graphml::to_toml(text, &name)?;
        &converted
    } else {
        text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_responses_have_units() {
        let cases = [
            ("mbit_per_s.router", Some("Mbit/s")),
            ("goodput_mbit_per_s", Some("Mbit/s")),
            ("requests_per_s", Some("1/s")),
            ("delay_ms", Some("ms")),
            ("hops", None),
        ];
        for (response, unit) in cases {
            assert_eq!(unit_of(response), unit, "{response}");
        }
    }
}
