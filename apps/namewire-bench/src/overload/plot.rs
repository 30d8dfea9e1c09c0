//! The report as an SVG picture.

use std::fmt::Write;

use super::report::{OverloadCase, OverloadReport, OverloadRun};

/// Width of a panel.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 380.0;
/// The area inside the axes of a panel: left, top, right, bottom.
const FRAME: (f64, f64, f64, f64) = (70.0, 46.0, 540.0, 326.0);
/// Maximum panels side by side.
const COLUMNS_MAX: usize = 2;

/// Maps values to positions in a panel.
struct Scale {
    ratio_max: f64,
    rate_max: f64,
}

impl Scale {
    fn x(&self, ratio: f64) -> f64 {
        FRAME.0 + (FRAME.2 - FRAME.0) * ratio / self.ratio_max
    }

    fn y(&self, rate: f64) -> f64 {
        FRAME.3 - (FRAME.3 - FRAME.1) * rate / self.rate_max
    }
}

/// Draws satisfied against offered rate, with and without priority of answers, as SVG: one panel per run.
#[must_use]
pub fn plot(report: &OverloadReport) -> String {
    let columns = report.runs.len().clamp(1, COLUMNS_MAX);
    let rows = report.runs.len().div_ceil(columns).max(1);
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>",
        WIDTH * float(columns),
        HEIGHT * float(rows),
    );
    for (number, run) in report.runs.iter().enumerate() {
        let (column, row) = (number % columns, number / columns);
        let _ = writeln!(
            svg,
            "<g transform=\"translate({} {})\">",
            WIDTH * float(column),
            HEIGHT * float(row)
        );
        panel(&mut svg, run);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, run: &OverloadRun) {
    let most = |figure: fn(&OverloadCase) -> f64| run.cases.iter().map(figure).fold(1.0, f64::max);
    let rate_max = most(|case| case.satisfied_per_s).max(run.sustainable_per_s);
    let scale = Scale { ratio_max: most(|case| case.ratio), rate_max: rate_max * 1.08 };
    let middle = f64::midpoint(FRAME.0, FRAME.2);
    let _ = writeln!(
        svg,
        "<text x=\"{middle}\" y=\"24\" text-anchor=\"middle\" font-size=\"14\">\
         Satisfied Interests, {} worker{}, {} B ({:.0}/s {})</text>\n\
         <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">\
         offered rate, in multiples of the sustainable one</text>",
        run.workers,
        if run.workers == 1 { "" } else { "s" },
        run.payload,
        run.sustainable_per_s,
        if run.valid { "sustainable" } else { "found sustainable, but not: invalid" },
        HEIGHT - 18.0,
    );
    grid(svg, &scale);
    // The line of a forwarder without limits.
    let ideal =
        [(0.0, 0.0), (1.0, run.sustainable_per_s), (scale.ratio_max, run.sustainable_per_s)];
    line(svg, &scale, &ideal, "#999", "4 4");
    for (answers_first, colour, legend_y) in [(true, "#0a6ebd", 66.0), (false, "#c43c2b", 84.0)] {
        let rows = run.cases.iter().filter(|row| row.answers_first == answers_first);
        let points: Vec<(f64, f64)> = rows.map(|row| (row.ratio, row.satisfied_per_s)).collect();
        line(svg, &scale, &points, colour, "none");
        for &(ratio, rate) in &points {
            let (x, y) = (scale.x(ratio), scale.y(rate));
            let _ =
                writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let legend = if answers_first { "Data and Nacks first" } else { "as it comes" };
        let x = FRAME.0 + 14.0;
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{legend_y}\" fill=\"{colour}\">{legend}</text>");
    }
}

fn line(svg: &mut String, scale: &Scale, points: &[(f64, f64)], colour: &str, dashes: &str) {
    let places: Vec<String> = points
        .iter()
        .map(|&(ratio, rate)| format!("{:.1},{:.1}", scale.x(ratio), scale.y(rate)))
        .collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
         stroke-dasharray=\"{dashes}\"/>",
        places.join(" ")
    );
}

fn grid(svg: &mut String, scale: &Scale) {
    let (left, top, right, bottom) = FRAME;
    let mut tick =
        |from: (f64, f64), to: (f64, f64), at: (f64, f64), anchor: &str, text: String| {
            let _ = writeln!(
                svg,
                "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{text}</text>",
                from.0, from.1, to.0, to.1, at.0, at.1
            );
        };
    let mut ratio = 0.0;
    while ratio <= scale.ratio_max + 1e-9 {
        let x = scale.x(ratio);
        tick((x, top), (x, bottom), (x, bottom + 18.0), "middle", format!("{ratio:.1}"));
        ratio += 0.5;
    }
    let step = nice_step(scale.rate_max / 5.0);
    let mut rate = 0.0;
    while rate <= scale.rate_max {
        let y = scale.y(rate);
        let text = format!("{:.0} k/s", rate / 1000.0);
        tick((left, y), (right, y), (left - 8.0, y + 4.0), "end", text);
        rate += step;
    }
}

/// Returns the smallest of 1, 2 and 5 times a power of ten that is not less than `step`.
fn nice_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.max(1.0).log10().floor());
    let nice = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power);
    nice.into_iter().find(|nice| *nice >= step).unwrap_or(step)
}

#[expect(clippy::cast_precision_loss, reason = "a few panels")]
fn float(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::overload::Losses;

    pub(in crate::overload) fn case(
        answers_first: bool,
        ratio: f64,
        satisfied_per_s: f64,
    ) -> OverloadCase {
        OverloadCase {
            answers_first,
            ratio,
            offered_per_s: ratio * 1e5,
            satisfied_per_s,
            of_peak: Some(1.0),
            satisfied: 1.0,
            nacked_per_s: 0.0,
            answers_lost: 0.0,
            losses: Losses::default(),
            p50_ms: 1.0,
            p99_ms: 2.0,
            forwarder_busy: 1.0,
            producer_busy: 0.1,
            generator_bound: false,
            rounds_discarded: 0,
        }
    }

    #[test]
    fn points_lie_inside_the_axes_of_their_panel() {
        let cases = vec![case(true, 1.0, 1e5), case(true, 3.0, 95e3), case(false, 3.0, 3e4)];
        let run = OverloadRun {
            workers: 1,
            payload: 100,
            valid: true,
            satisfied_at_1: None,
            sustainable_per_s: 1e5,
            closed_loop_per_s: 2e5,
            generator_per_s: 1e6,
            modes: Vec::new(),
            cases,
        };
        let report = OverloadReport {
            bench: "overload",
            machine: ndn_pipeline_bench::Machine::read(),
            cpus: vec![0, 1, 2],
            burst: 1,
            runs: vec![run; 3],
        };
        let svg = plot(&report);
        assert_eq!(svg.matches("<circle").count(), 9, "{svg}");
        assert_eq!(svg.matches("<polyline").count(), 9, "{svg}");
        assert_eq!(svg.matches("<circle cx=\"540.0\"").count(), 6, "3.0 is the right end: {svg}");
        assert!(svg.contains("viewBox=\"0 0 1120 760\""), "two by two: {svg}");
        assert!(svg.contains("translate(0 380)"), "{svg}");
        assert_eq!((nice_step(17.0), nice_step(20.0), nice_step(600.0)), (20.0, 20.0, 1000.0));
    }
}
