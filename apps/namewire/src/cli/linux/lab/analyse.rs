//! `namewire lab analyse`: effects, intervals and findings of results or of a table.

use std::path::{Path, PathBuf};

use clap::Args;
use ndn_lab::analysis::effects::replications_for;
use ndn_lab::analysis::{Analysis, Observation, analyse, digits};
use ndn_lab::data;
use ndn_lab::design::Design;
use ndn_lab::results::observations;
use serde_json::{Value, json};

use super::results_file::{self, hint_for_experiment};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{self, Table};

/// The first bytes of an SQLite database.
const DATABASE: &[u8] = b"SQLite format 3\0";

#[derive(Args, Debug)]
pub(super) struct Options {
    /// Results of `lab run`, or comma-separated values whose first line names the columns
    data: PathBuf,
    /// Analyse this response only; of comma-separated values, the columns that are responses
    ///
    /// All other columns are factors, but for the number of a block in `block`.
    #[arg(long = "response", value_name = "NAME")]
    responses: Vec<String>,
    /// Show how many replications give effects with intervals of plus or minus this width
    #[arg(long, value_name = "NUMBER", value_parser = width)]
    half_width: Option<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn width(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a positive number".to_owned())
}

/// A design and its responses.
struct Measured {
    design: Design,
    /// Name, unit and observations.
    responses: Vec<(String, String, Vec<Observation>)>,
}

fn read(path: &Path, names: &[String]) -> Outcome<Measured> {
    let bytes = crate::cli::input::read(path)?;
    let usage = |reason: String| Failure::input(path.display(), reason);
    if bytes.starts_with(DATABASE) {
        let results = results_file::open(path)?;
        let experiment = results.experiment()?;
        let runs = results.runs()?;
        let known = |name: &&String| experiment.responses.iter().all(|one| one.name != **name);
        if let Some(unknown) = names.iter().find(known) {
            let known: Vec<&str> =
                experiment.responses.iter().map(|one| one.name.as_str()).collect();
            let known = known.join(", ");
            return Err(usage(format!("no response is called '{unknown}'; responses: {known}")));
        }
        let is_selected = |name: &String| names.is_empty() || names.contains(name);
        let responses = experiment.responses.iter().filter(|one| is_selected(&one.name));
        let responses = responses
            .map(|one| (one.name.clone(), one.unit.clone(), observations(&runs, &one.name)));
        return Ok(Measured { responses: responses.collect(), design: experiment.design });
    }
    let text = String::from_utf8(bytes).map_err(|error| usage(error.to_string()))?;
    if let Some(hint) = hint_for_experiment(&text) {
        return Err(usage(hint));
    }
    if names.is_empty() {
        let expected = "comma-separated values need --response: the columns that are responses";
        return Err(usage(expected.to_owned()));
    }
    let table = data::parse(&text, names).map_err(usage)?;
    let responses = table.responses.into_iter();
    let responses = responses.map(|(name, observed)| (name, String::new(), observed));
    Ok(Measured { design: table.design, responses: responses.collect() })
}

pub(super) fn run(options: &Options) -> Outcome {
    let measured = read(&options.data, &options.responses)?;
    let mut values = Vec::new();
    for (number, (name, unit, observed)) in measured.responses.iter().enumerate() {
        let analysis = analyse(&measured.design, observed, name, unit).map_err(|error| {
            Failure::input(options.data.display(), format_args!("{name}: {error}"))
        })?;
        let replications = options.half_width.map(|half| replications(&analysis, &measured, half));
        if options.json {
            let mut value = as_json(name, &analysis);
            value["replications_needed"] = json!(replications.flatten());
            values.push(value);
            continue;
        }
        if number > 0 {
            output::print_line("")?;
        }
        print(name, unit, &analysis)?;
        if let (Some(half), Some(replications)) = (options.half_width, replications) {
            output::print_line(&match replications {
                Some(count) => format!("  {count} replications give intervals of ± {half}."),
                None => {
                    format!("  It is not known how many replications give intervals of ± {half}.")
                }
            })?;
        }
    }
    if options.json {
        output::print_json(&Value::Array(values))?;
    }
    Ok(())
}

fn replications(analysis: &Analysis, measured: &Measured, half_width: f64) -> Option<usize> {
    let error = analysis.effects.as_ref()?.error?;
    replications_for(half_width, error.deviation, measured.design.cells().len())
}

fn print(name: &str, unit: &str, analysis: &Analysis) -> Outcome {
    let percent = |share: f64| format!("{:.2}", 100.0 * share);
    let yes = |matters: bool| if matters { "yes" } else { "no" }.to_owned();
    let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
    output::print_line(&format!("{name}{unit}:"))?;
    if let Some(effects) = &analysis.effects {
        let mut table =
            Table::new(&["EFFECT", ">q", ">±", ">SQUARES", ">VARIATION %", ">P", "MATTERS"]);
        for one in &effects.effects {
            table.row(vec![
                one.name.clone(),
                digits(analysis.q(one)),
                if one.half_width.is_finite() { digits(one.half_width) } else { String::new() },
                digits(one.squares),
                percent(one.share),
                one.p_corrected.map_or_else(String::new, |p| format!("{p:.2e}")),
                yes(one.matters),
            ]);
        }
        if let Some(error) = &effects.error {
            let share = percent(error.squares / effects.total);
            let mut row = vec!["error".to_owned(), String::new(), String::new()];
            row.extend([digits(error.squares), share, String::new(), String::new()]);
            table.row(row);
        }
        table.print("no effects")?;
    }
    if let Some(variance) = &analysis.variance {
        let mut table =
            Table::new(&["TERM", ">SQUARES", ">FREEDOM", ">F", ">P", ">VARIATION %", "MATTERS"]);
        for one in &variance.terms {
            table.row(vec![
                variance.name(one),
                digits(one.squares),
                one.freedom.to_string(),
                format!("{:.2}", one.f),
                format!("{:.2e}", one.p),
                percent(one.share),
                yes(one.matters),
            ]);
        }
        table.print("no terms")?;
    }
    for finding in &analysis.findings {
        output::print_line(&format!("  {finding}"))?;
    }
    Ok(())
}

fn as_json(name: &str, analysis: &Analysis) -> Value {
    let effects = analysis.effects.as_ref().map(|effects| {
        let one = |one: &ndn_lab::analysis::effects::Effect| {
            json!({
                "effect": one.name,
                "aliases": one.aliases,
                "q": analysis.q(one),
                "half_width": one.half_width,
                "squares": one.squares,
                "share": one.share,
                "p": one.p,
                "p_corrected": one.p_corrected,
                "matters": one.matters,
            })
        };
        json!({
            "mean": effects.mean,
            "mean_half_width": effects.mean_half_width,
            "total_squares": effects.total,
            "error_squares": effects.error.map(|error| error.squares),
            "error_freedom": effects.error.map(|error| error.freedom),
            "effects": effects.effects.iter().map(one).collect::<Vec<_>>(),
        })
    });
    let variance = analysis.variance.as_ref().map(|variance| {
        let one = |one: &ndn_model::screen::Term| {
            json!({
                "term": variance.name(one),
                "squares": one.squares,
                "freedom": one.freedom,
                "f": one.f,
                "p": one.p,
                "share": one.share,
                "matters": one.matters,
            })
        };
        json!({
            "terms": variance.terms.iter().map(one).collect::<Vec<_>>(),
            "residual_squares": variance.residual.0,
            "residual_freedom": variance.residual.1,
            "total_squares": variance.total,
        })
    });
    json!({
        "response": name,
        "scale": analysis.transform.name(name),
        "effects": effects,
        "variance": variance,
        "outliers": analysis.residuals.outliers,
        "findings": analysis.findings,
    })
}
