//! Figures of an analysis.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use libm::sqrt;
use ndn_model::special::student_t_quantile;

use crate::analysis::transform::Transform;
use crate::analysis::{Analysis, CONFIDENCE, Observation};
use crate::design::{Design, Factor};
use crate::figure::{Bars, Distributions, Lines, Panel, Point, Scatter, Series};
use crate::testbed::TIME_LINES;

/// Interactions that are drawn, the greatest first.
const INTERACTIONS_MAX: usize = 6;
/// Bars of a Pareto chart.
const BARS_MAX: usize = 12;

/// A figure: file name, caption and panels.
pub(super) struct Figure {
    pub(super) file: &'static str,
    pub(super) caption: String,
    pub(super) panels: Vec<Panel>,
}

/// Lines of a diagram of nodes over time: the busiest nodes.
const NODES_MAX: usize = 7;

/// Nodes over time in a run: for each quantity the seconds of its samples, and the values of the busiest nodes.
pub(super) fn time_lines(responses: &BTreeMap<String, f64>) -> Vec<Panel> {
    let mut panels = Vec::new();
    for quantity in TIME_LINES {
        let mut nodes: BTreeMap<&str, BTreeMap<u64, f64>> = BTreeMap::new();
        for (name, value) in responses {
            let below = name.strip_prefix(quantity).and_then(|rest| rest.strip_prefix('.'));
            let Some((node, at_ms)) = below.and_then(|rest| rest.split_once('@')) else { continue };
            let Ok(at_ms) = at_ms.parse() else { continue };
            nodes.entry(node).or_default().insert(at_ms, *value);
        }
        let times: BTreeSet<u64> = nodes.values().flat_map(BTreeMap::keys).copied().collect();
        let times: Vec<u64> = times.into_iter().collect();
        let mut nodes: Vec<_> = nodes.into_iter().collect();
        let sum = |samples: &BTreeMap<u64, f64>| samples.values().sum::<f64>();
        nodes.sort_by(|a, b| sum(&b.1).total_cmp(&sum(&a.1)));
        let line = |(node, samples): (&str, BTreeMap<u64, f64>)| {
            let point = |(position, at_ms): (usize, &u64)| {
                let value = samples.get(at_ms).copied().unwrap_or(f64::NAN);
                Point { position, value, interval: None }
            };
            let points = times.iter().enumerate().map(point).collect();
            Series { name: node.to_owned(), points }
        };
        if times.len() > 1 {
            panels.push(Panel::Lines(Lines {
                title: quantity.to_owned(),
                x: "seconds".to_owned(),
                y: if quantity == "cpu_share" { "processors" } else { "1/s" }.to_owned(),
                series: nodes.into_iter().take(NODES_MAX).map(line).collect(),
                positions: times.iter().map(|at_ms| (at_ms / 1000).to_string()).collect(),
            }));
        }
    }
    panels
}

/// Shares of the variation: names and shares, the greatest first.
pub(super) fn shares(analysis: &Analysis) -> Vec<(Vec<usize>, String, f64)> {
    let mut shares: Vec<(Vec<usize>, String, f64)> = Vec::new();
    if let Some(effects) = &analysis.effects {
        let share = |one: &crate::analysis::effects::Effect| {
            (one.word.members().collect(), one.name.clone(), one.share)
        };
        shares.extend(effects.effects.iter().map(share));
    }
    if let Some(variance) = &analysis.variance {
        let share =
            |one: &ndn_model::screen::Term| (one.factors.clone(), variance.name(one), one.share);
        shares.extend(variance.terms.iter().map(share));
    }
    shares.sort_by(|a, b| b.2.total_cmp(&a.2));
    shares
}

/// All figures of the analysis of a response. `label` is its name with the unit; `scaled` is its name on the scale of the
/// analysis, which is that of residuals. Means and their intervals are transformed back.
pub(super) fn figures(
    design: &Design,
    observations: &[Observation],
    analysis: &Analysis,
    (label, scaled_name): (&str, &str),
) -> Vec<Figure> {
    let scaled: Vec<Observation> = observations
        .iter()
        .map(|one| Observation { value: analysis.transform.apply(one.value), ..*one })
        .collect();
    let spread = Spread::of(analysis);
    let view = View { design, observations: &scaled, transform: analysis.transform, spread, label };
    let shares = shares(analysis);
    let mut figures = vec![Figure {
        file: "main-effects",
        caption: match spread {
            Some(_) => format!("Means of {label} by level, with 95 % intervals"),
            None => format!("Means of {label} by level"),
        },
        panels: main_effects(&view),
    }];
    let panels = interactions(&view, &shares);
    if !panels.is_empty() {
        let caption = format!(
            "Means of {label} by two factors: lines that are not parallel show an interaction"
        );
        figures.push(Figure { file: "interactions", caption, panels });
    }
    let mut bars: Vec<(String, f64)> =
        shares.iter().map(|(_, name, share)| (name.clone(), 100.0 * share)).collect();
    bars.truncate(BARS_MAX);
    let mut panels = vec![Panel::Bars(Bars {
        title: "allocation of variation".to_owned(),
        x: "% of the variation".to_owned(),
        bars,
    })];
    panels.extend(half_normal(analysis));
    figures.push(Figure {
        file: "variation",
        caption: format!("What explains the variation of {label}"),
        panels,
    });
    if let Some((factors, _, _)) = shares.iter().find(|(factors, _, _)| factors.len() == 1) {
        let caption = format!(
            "Distribution of {label} by {}, the factor of the greatest main effect; residuals",
            design.factors()[factors[0]].name
        );
        let mut panels = vec![distributions(design, observations, factors[0], label)];
        if spread.is_some() {
            panels.extend(residuals(analysis, scaled_name));
        }
        figures.push(Figure { file: "distributions", caption, panels });
    }
    figures
}

/// The error of a single response.
#[derive(Clone, Copy)]
struct Spread {
    deviation: f64,
    freedom: f64,
}

impl Spread {
    fn of(analysis: &Analysis) -> Option<Self> {
        let squares: f64 = analysis.residuals.residuals.iter().map(|one| one * one).sum();
        let runs = analysis.residuals.residuals.len();
        let parameters = match (&analysis.effects, &analysis.variance) {
            (Some(effects), _) => effects.parameters,
            (None, Some(variance)) => variance.runs - variance.residual.1,
            (None, None) => runs,
        };
        let freedom = runs.saturating_sub(parameters);
        (freedom > 0)
            .then(|| Self { deviation: sqrt(squares / freedom as f64), freedom: freedom as f64 })
    }

    fn half_width(self, runs: usize) -> f64 {
        student_t_quantile(0.5 + 0.5 * CONFIDENCE, self.freedom) * self.deviation
            / sqrt(runs as f64)
    }
}

/// Observations on the scale of the analysis, and how they are shown.
struct View<'a> {
    design: &'a Design,
    observations: &'a [Observation],
    transform: Transform,
    spread: Option<Spread>,
    label: &'a str,
}

impl View<'_> {
    /// Mean over the cells that `is_in` selects, at a position.
    fn mean(&self, position: usize, is_in: impl Fn(&[usize]) -> bool) -> Point {
        let is_in = |one: &&Observation| is_in(&self.design.cells()[one.cell]);
        let values: Vec<f64> =
            self.observations.iter().filter(is_in).map(|one| one.value).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let half = self.spread.map(|spread| spread.half_width(values.len()));
        let back = |value: f64| self.transform.invert(value);
        let interval = half.map(|half| (back(mean - half), back(mean + half)));
        Point { position, value: back(mean), interval }
    }
}

/// Names of levels, of files without their directory and extension if they still differ.
fn short_levels(factor: &Factor) -> Vec<String> {
    let short = |level: &String| match Path::new(level).file_stem() {
        Some(stem) if level.contains('/') => stem.to_string_lossy().into_owned(),
        _ => level.clone(),
    };
    let all: Vec<String> = factor.levels.iter().map(short).collect();
    match all.iter().collect::<BTreeSet<_>>().len() == all.len() {
        true => all,
        false => factor.levels.clone(),
    }
}

fn main_effects(view: &View<'_>) -> Vec<Panel> {
    let panel = |(number, factor): (usize, &Factor)| {
        let point = |level| view.mean(level, |cell| cell[number] == level);
        Panel::Lines(Lines {
            title: factor.name.clone(),
            x: factor.name.clone(),
            y: view.label.to_owned(),
            positions: short_levels(factor),
            series: vec![Series {
                name: String::new(),
                points: (0..factor.levels.len()).map(point).collect(),
            }],
        })
    };
    view.design.factors().iter().enumerate().map(panel).collect()
}

fn interactions(view: &View<'_>, shares: &[(Vec<usize>, String, f64)]) -> Vec<Panel> {
    let pairs = shares.iter().filter(|(factors, _, _)| factors.len() == 2).take(INTERACTIONS_MAX);
    let factors = view.design.factors();
    let panel = |(pair, name, _): &(Vec<usize>, String, f64)| {
        let (first, second) = (&factors[pair[0]], &factors[pair[1]]);
        let series = |(level, level_name): (usize, &String)| {
            let point = |at| view.mean(at, |cell| cell[pair[0]] == at && cell[pair[1]] == level);
            Series {
                name: format!("{} {level_name}", second.name),
                points: (0..first.levels.len()).map(point).collect(),
            }
        };
        Panel::Lines(Lines {
            title: name.clone(),
            x: first.name.clone(),
            y: view.label.to_owned(),
            positions: short_levels(first),
            series: short_levels(second).iter().enumerate().map(series).collect(),
        })
    };
    pairs.map(panel).collect()
}

/// The half-normal plot of a design without replications (Daniel: "Use of Half-Normal Plots in Interpreting Factorial
/// Two-Level Experiments", Technometrics 1(4), 1959).
fn half_normal(analysis: &Analysis) -> Option<Panel> {
    let effects = analysis.effects.as_ref().filter(|effects| effects.error.is_none())?;
    let name = |one: &crate::analysis::effects::Effect| {
        if one.matters { one.name.clone() } else { String::new() }
    };
    let points = effects.effects.iter();
    Some(Panel::Scatter(Scatter {
        title: "half-normal plot".to_owned(),
        x: "size of the effect".to_owned(),
        y: "half-normal quantile".to_owned(),
        points: points.map(|one| (name(one), (one.value.abs(), one.half_normal))).collect(),
    }))
}

fn distributions(
    design: &Design,
    observations: &[Observation],
    factor: usize,
    label: &str,
) -> Panel {
    let one = &design.factors()[factor];
    let values = |level: usize| {
        let is_in = |one: &&Observation| design.cells()[one.cell][factor] == level;
        observations.iter().filter(is_in).map(|one| one.value).collect()
    };
    let levels = short_levels(one);
    let series = levels.iter().enumerate();
    Panel::Distributions(Distributions {
        title: format!("distribution by {}", one.name),
        x: label.to_owned(),
        series: series
            .map(|(level, name)| (format!("{} {name}", one.name), values(level)))
            .collect(),
    })
}

fn residuals(analysis: &Analysis, label: &str) -> [Panel; 2] {
    let checked = &analysis.residuals;
    let fitted = checked.fitted.iter().zip(&checked.residuals);
    let ordered = checked.residuals.iter().enumerate();
    let unnamed = |place: (f64, f64)| (String::new(), place);
    let scatter = |title: &str, x: &str, points: Vec<(String, (f64, f64))>| {
        let (title, x, y) = (title.to_owned(), x.to_owned(), format!("residual of {label}"));
        Panel::Scatter(Scatter { title, x, y, points })
    };
    [
        scatter(
            "residuals by fitted value",
            "fitted value",
            fitted.map(|(x, y)| unnamed((*x, *y))).collect(),
        ),
        scatter(
            "residuals in the order of the runs",
            "run",
            ordered.map(|(x, y)| unnamed((x as f64 + 1.0, *y))).collect(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_are_files_are_shown_by_their_names() {
        let factor = |levels: [&str; 2]| Factor {
            name: "topology".to_owned(),
            levels: levels.map(str::to_owned).to_vec(),
        };
        assert_eq!(short_levels(&factor(["star", "topologies/far.toml"])), ["star", "far"]);
        let same = ["first/star.toml", "second/star.toml"];
        assert_eq!(short_levels(&factor(same)), same);
        assert_eq!(short_levels(&factor(["0.5", "1.5"])), ["0.5", "1.5"]);
    }

    #[test]
    fn nodes_over_time_are_those_of_the_samples() {
        let mut responses: BTreeMap<String, f64> = BTreeMap::new();
        for (name, value) in [
            ("packets_per_s.a", 1.0),
            ("packets_per_s.a@1003", 10.0),
            ("packets_per_s.a@2100", 30.0),
            ("packets_per_s.b.c@1003", 90.0),
            ("cpu_share.a@1003", 0.5),
        ] {
            responses.insert(name.to_owned(), value);
        }
        let panels = time_lines(&responses);
        let [Panel::Lines(lines)] = &panels[..] else { panic!("{panels:?}") };
        assert_eq!(lines.positions, ["1", "2"]);
        let names: Vec<&str> = lines.series.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["b.c", "a"]);
        let values = |line: usize| lines.series[line].points.iter().map(|point| point.value);
        assert!(values(0).nth(1).unwrap().is_nan() && values(1).eq([10.0, 30.0]));
    }
}
