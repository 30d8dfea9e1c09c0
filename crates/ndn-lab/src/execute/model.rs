//! Runs that simulate traces of a capacity model.

use std::collections::BTreeMap;

use ndn_model::check::Runner;
use ndn_model::file::Model as ModelFile;
use ndn_model::property::Property;

use super::inputs::Inputs;
use super::outcome::RunResult;
use crate::experiment::{Experiment, Model, SeededRun, Values};

pub(super) fn check(
    experiment: &Experiment,
    inputs: &mut Inputs,
    model: &Model,
    values: &Values,
) -> Result<(), String> {
    inputs.read(&model.file.fill(values))?;
    let file = parse(inputs, model, values)?;
    properties(experiment, &file).map(|_| ())
}

fn parse(inputs: &Inputs, model: &Model, values: &Values) -> Result<ModelFile, String> {
    let path = model.file.fill(values);
    let changes: Vec<(String, String)> =
        model.set.iter().map(|(key, value)| (key.clone(), value.fill(values))).collect();
    ModelFile::parse_with(inputs.text(&path)?, &changes).map_err(|error| format!("{path}: {error}"))
}

/// The property of each response.
fn properties<'p>(
    experiment: &'p Experiment,
    file: &ModelFile,
) -> Result<Vec<(&'p str, Property)>, String> {
    let parse = |response: &'p crate::experiment::Response| {
        let text = response.property.as_deref().unwrap_or_default();
        let property = Property::parse(text, file);
        let property = property.map_err(|error| format!("{}: {text}: {error}", response.name))?;
        if matches!(property, Property::Quantile(..)) {
            return Err(format!(
                "{}: {text}: a response is a mean over the traces of a run: E(...) or P(...)",
                response.name
            ));
        }
        Ok((response.name.as_str(), property))
    };
    experiment.responses.iter().map(parse).collect()
}

pub(super) fn run(
    experiment: &Experiment,
    inputs: &Inputs,
    model: &Model,
    run: SeededRun,
) -> RunResult {
    let file = parse(inputs, model, &experiment.values(run))?;
    let mut means = BTreeMap::new();
    for (name, property) in properties(experiment, &file)? {
        let mut runner = Runner::new(&file, &property, u64::from(run.seed));
        let sum: f64 = (0..model.traces).map(|trace| runner.observe(trace)).sum();
        means.insert(name.to_owned(), sum / f64::from(model.traces));
    }
    Ok(means)
}
