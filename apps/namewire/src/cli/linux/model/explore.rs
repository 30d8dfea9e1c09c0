//! `namewire model explore`: a property over all combinations of values of some keys.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use ndn_lab::figure::{Lines, Point, Series};
use ndn_model::check::CheckResult;
use ndn_model::explore::{Factor, Sweep};
use ndn_model::file::Model;
use ndn_model::property::Property;
use serde_json::{Value, json};

use super::super::engine::EngineOptions;
use super::engine::{Engine, written};
use super::question::{
    MethodName, Question, answer_json, assignment, per_cent, quantity, read, usage, verdict_text,
    write_figure,
};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{self, Table, grouped};

#[derive(Args, Debug)]
pub(super) struct Options {
    #[command(flatten)]
    question: Question,
    /// Values of a key, such as forwarder.workers=1,2,4 or consumers.0.rate=1M/s,2M/s
    #[arg(long = "vary", value_name = "KEY=VALUE,..", value_parser = assignment, required = true)]
    factors: Vec<(String, String)>,
    #[command(flatten)]
    engine: EngineOptions,
    /// Keep observations in this file, and continue from it
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Write results as CSV to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw results into this SVG file: the first factor across, a line for each value of the second
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Outcome {
    let question = &options.question;
    if question.method == MethodName::Splitting {
        return Err(usage(
            "method splitting is one of `model check`: it chooses levels for one model",
        ));
    }
    let text = read(&question.model)?;
    let in_file = |error: &dyn std::fmt::Display| {
        usage(format_args!("{}: {error}", question.model.display()))
    };
    let factors: Vec<Factor> =
        options.factors.iter().map(|(key, values)| factor(key, values)).collect();
    let first: Vec<(String, String)> =
        factors.iter().map(|factor| (factor.key.clone(), factor.values[0].clone())).collect();
    let model = Model::parse_with(&text, &first).map_err(|error| in_file(&error))?;
    let property = Property::parse(&question.property, &model).map_err(usage)?;
    let method = (question.method(&property)?, 1.0 - question.confidence);
    let mut sweep =
        Sweep::new(&text, &factors, &question.property, method, question.traces_max.get())
            .map_err(|error| in_file(&error))?;
    let key = json!({
        "model": text,
        "property": question.property,
        "factors": options.factors,
        "method": format!("{method:?}"),
        "seed": question.seed,
    });
    if let Some(path) = &options.state {
        resume(&mut sweep, path, &key)?;
    }
    let mut engine = Engine::new(&options.engine, question, &text)?;
    let progress = crate::cli::progress::Progress::new(sweep.points().len(), "points");
    loop {
        let tasks = engine.next_tasks(&sweep);
        if tasks.is_empty() {
            break;
        }
        let undecided: BTreeSet<_> = tasks.iter().map(|task| task.point).collect();
        progress.set(sweep.points().len() - undecided.len());
        for (task, values) in tasks.iter().zip(engine.run(&sweep, &tasks)?) {
            let taken = sweep.take(task.point, &values);
            taken.map_err(|error| Failure::Failed(error.to_string()))?;
        }
        if let Some(path) = &options.state {
            save(&sweep, path, &key)?;
        }
    }
    progress.end();
    report(&sweep, options)
}

/// A factor of comma-separated values. Commas inside brackets, braces and quotes belong to a value.
fn factor(key: &str, text: &str) -> Factor {
    let mut values = vec![String::new()];
    let (mut depth, mut is_quoted) = (0u32, false);
    for character in text.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            '[' | '{' if !is_quoted => depth += 1,
            ']' | '}' if !is_quoted => depth = depth.saturating_sub(1),
            ',' if !is_quoted && depth == 0 => {
                values.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(value) = values.last_mut() {
            value.push(character);
        }
    }
    let values = values.iter().map(|value| value.trim().to_owned()).collect();
    Factor { key: key.to_owned(), values }
}

fn resume(sweep: &mut Sweep, path: &Path, key: &Value) -> Outcome {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::input(path.display(), error)),
    };
    let invalid = || usage(format_args!("{}: not a state of `model explore`", path.display()));
    let state: Value = serde_json::from_str(&text).map_err(|_| invalid())?;
    if state["key"] != *key {
        let other = "its model, property, factors, method or seed differ";
        return Err(usage(format_args!("{}: the state of another sweep: {other}", path.display())));
    }
    let points = state["points"].as_array().ok_or_else(invalid)?;
    for (index, values) in points.iter().enumerate() {
        let values: Option<Vec<f64>> =
            values.as_array().and_then(|values| values.iter().map(stored_value).collect());
        let taken = sweep.take(index, &values.ok_or_else(invalid)?);
        taken.map_err(|error| Failure::Failed(error.to_string()))?;
    }
    Ok(())
}

/// Observations are kept as text: numbers of JSON are not always read as they were written.
fn stored_value(value: &Value) -> Option<f64> {
    value.as_str()?.parse().ok()
}

fn save(sweep: &Sweep, path: &Path, key: &Value) -> Outcome {
    let stored = |values: &[f64]| values.iter().copied().map(written).collect::<Vec<_>>();
    let points: Vec<_> = sweep.points().iter().map(|point| stored(point.values())).collect();
    let text = json!({ "key": key, "points": points }).to_string();
    // A reader, and a sweep that goes on, find the old state or the new one.
    let temporary = path.with_extension("part");
    let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| Failure::file(path.display(), &error))
}

fn report(sweep: &Sweep, options: &Options) -> Outcome {
    let answers: Result<Vec<CheckResult>, _> =
        sweep.points().iter().map(|point| point.answer()).collect();
    let answers = answers.map_err(|error| Failure::Failed(error.to_string()))?;
    if let Some(path) = &options.csv {
        let text = csv(sweep, &answers);
        fs::write(path, text).map_err(|error| Failure::file(path.display(), &error))?;
    }
    if let Some(path) = &options.svg {
        let confidence = per_cent(options.question.confidence);
        let title = format!("{} with {confidence} % intervals", options.question.property);
        write_figure(path, &title, panels(sweep, &answers), 3)?;
    }
    if options.json {
        let points: Vec<Value> = sweep
            .points()
            .iter()
            .zip(&answers)
            .map(|(point, answer)| {
                let mut value = answer_json(answer, &point.model.warnings);
                value["factors"] =
                    point.changes.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
                value
            })
            .collect();
        output::print_json(&json!({ "property": options.question.property, "points": points }))?;
        return Ok(());
    }
    let mut table =
        Table::new(&["FACTORS", "ANSWER", ">ESTIMATE", ">FROM", ">TO", ">TRACES", "NOTE"]);
    for (point, answer) in sweep.points().iter().zip(&answers) {
        let factors: Vec<String> =
            point.changes.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let end = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| quantity(&point.property, value))
        };
        let mut notes = point.model.warnings.clone();
        if !answer.is_complete {
            notes.push("incomplete".to_owned());
        }
        table.row(vec![
            factors.join(" "),
            verdict_text(answer).to_owned(),
            quantity(&point.property, answer.estimate),
            end(answer.interval.map(|interval| interval.low)),
            end(answer.interval.map(|interval| interval.high)),
            grouped(u64::from(answer.traces)),
            notes.join("; "),
        ]);
    }
    table.print("no points")?;
    Ok(())
}

/// The first factor across, a line for each value of the second, a panel for each combination of the others.
fn panels(sweep: &Sweep, answers: &[CheckResult]) -> Vec<Lines> {
    let mut panels: Vec<Lines> = Vec::new();
    for (point, answer) in sweep.points().iter().zip(answers) {
        let described = |(key, value): &(String, String)| format!("{key}={value}");
        let Some((first, rest)) = point.changes.split_first() else { continue };
        let (second, others) = rest.split_at(rest.len().min(1));
        let title = others.iter().map(described).collect::<Vec<_>>().join(", ");
        // The last part of a key says enough beside the lines.
        let short = |(key, value): &(String, String)| {
            format!("{} {value}", key.rsplit('.').next().unwrap_or(key))
        };
        let name = second.first().map_or_else(String::new, short);
        let index = panels.iter().position(|panel| panel.title == title).unwrap_or_else(|| {
            panels.push(Lines {
                title,
                x: first.0.clone(),
                y: "estimate".to_owned(),
                positions: Vec::new(),
                series: Vec::new(),
            });
            panels.len() - 1
        });
        let panel = &mut panels[index];
        let at = panel.positions.iter().position(|value| *value == first.1);
        let position = at.unwrap_or_else(|| {
            panel.positions.push(first.1.clone());
            panel.positions.len() - 1
        });
        let series = panel.series.iter().position(|series| series.name == name);
        let series = series.unwrap_or_else(|| {
            panel.series.push(Series { name, points: Vec::new() });
            panel.series.len() - 1
        });
        panel.series[series].points.push(Point {
            position,
            value: answer.estimate,
            interval: answer.interval.map(|interval| (interval.low, interval.high)),
        });
    }
    panels
}

fn csv(sweep: &Sweep, answers: &[CheckResult]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut lines = Vec::new();
    let keys = sweep.points().first().map_or(&[][..], |point| &point.changes);
    let mut heading: Vec<String> = keys.iter().map(|(key, _)| quoted(key)).collect();
    heading.push("answer,estimate,low,high,traces,complete,warnings".to_owned());
    lines.push(heading.join(","));
    for (point, answer) in sweep.points().iter().zip(answers) {
        let mut line: Vec<String> = point.changes.iter().map(|(_, value)| quoted(value)).collect();
        let (low, high) = answer.interval.map_or((f64::NAN, f64::NAN), |i| (i.low, i.high));
        line.push(format!(
            "{},{},{low},{high},{}",
            verdict_text(answer),
            answer.estimate,
            answer.traces
        ));
        line.push(answer.is_complete.to_string());
        line.push(quoted(&point.model.warnings.join("; ")));
        lines.push(line.join(","));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_factor_are_separated_by_commas_outside_brackets() {
        let values = |text| factor("key", text).values;
        assert_eq!(values("1, 2,4"), ["1", "2", "4"]);
        assert_eq!(values("[1, 2],[3]"), ["[1, 2]", "[3]"]);
        assert_eq!(values("{ a = 1, b = 2 },\"x,y\""), ["{ a = 1, b = 2 }", "\"x,y\""]);
    }
}
