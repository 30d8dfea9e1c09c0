//! Figures of the model's commands: panels of lines with intervals, as SVG.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "pixels, digits and positions: small numbers"
)]

use std::fs;
use std::path::Path;

use plotters::prelude::*;

use super::super::failure::{Failure, Outcome};

/// Colours that people with colour blindness distinguish (Okabe, Ito: "Color Universal Design", 2008).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];
const PANEL: (u32, u32) = (360, 270);
const TITLE_HEIGHT: u32 = 34;
const FONT: &str = "sans-serif";

/// One diagram: a line for each series, over named positions.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) x: String,
    pub(super) y: String,
    pub(super) positions: Vec<String>,
    pub(super) series: Vec<Series>,
}

#[derive(Debug)]
pub(super) struct Series {
    /// For the legend; empty without one.
    pub(super) name: String,
    pub(super) points: Vec<Point>,
}

/// A value at a position, with its interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) position: usize,
    pub(super) value: f64,
    pub(super) interval: Option<(f64, f64)>,
}

/// Writes panels in rows of `columns` under a title.
pub(super) fn write(path: &Path, title: &str, panels: &[Panel], columns: usize) -> Outcome {
    let text = draw(title, panels, columns).map_err(|error| {
        Failure::Failed(format!("{}: the figure cannot be drawn: {error}", path.display()))
    })?;
    fs::write(path, text).map_err(|error| Failure::file(path.display(), &error))
}

fn draw(title: &str, panels: &[Panel], columns: usize) -> Result<String, String> {
    let columns = columns.clamp(1, panels.len().max(1));
    let rows = panels.len().div_ceil(columns);
    let size = (PANEL.0 * columns as u32, PANEL.1 * rows as u32 + TITLE_HEIGHT);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(|error| error.to_string())?;
        let root = root.titled(title, (FONT, 18)).map_err(|error| error.to_string())?;
        for (area, panel) in root.split_evenly((rows, columns)).iter().zip(panels) {
            draw_panel(area, panel).map_err(|error| error.to_string())?;
        }
        root.present().map_err(|error| error.to_string())?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type DrawError<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn draw_panel<'a>(area: &Area<'a>, panel: &Panel) -> Result<(), DrawError<'a>> {
    let names = panel.series.iter().map(|series| series.name.chars().count());
    let legend = match names.max().unwrap_or(0) as i32 {
        0 => 0,
        longest => 26 + 7 * longest,
    };
    let (area, right) = area.split_horizontally(PANEL.0 as i32 - legend.min(PANEL.0 as i32 / 2));
    for (index, series) in panel.series.iter().enumerate().filter(|_| legend > 0) {
        let (y, colour) = (40 + 16 * index as i32, COLOURS[index % COLOURS.len()]);
        right.draw(&PathElement::new(vec![(2, y), (16, y)], colour.stroke_width(2)))?;
        right.draw(&Text::new(series.name.as_str(), (20, y - 5), (FONT, 11)))?;
    }
    let end = panel.positions.len() as f64 - 0.4;
    let mut chart = ChartBuilder::on(&area)
        .caption(&panel.title, (FONT, 14))
        .margin(8)
        .x_label_area_size(38)
        .y_label_area_size(58)
        .build_cartesian_2d(-0.6..end, range(panel))?;
    // Only whole numbers are positions.
    let name = |at: &f64| {
        let is_whole = (at - at.round()).abs() < 1e-6 && *at > -0.5;
        let position = is_whole.then(|| panel.positions.get(at.round() as usize)).flatten();
        position.cloned().unwrap_or_default()
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(panel.positions.len() + 2)
        .x_label_formatter(&name)
        .y_labels(6)
        .y_label_formatter(&|value| tick(*value))
        .x_desc(&panel.x)
        .y_desc(&panel.y)
        .label_style((FONT, 11))
        .axis_desc_style((FONT, 12))
        .draw()?;
    for (index, series) in panel.series.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points = || series.points.iter().filter(|point| point.value.is_finite());
        // Side by side, so that intervals do not hide each other.
        let offset = 0.06 * (index as f64 - 0.5 * (panel.series.len() as f64 - 1.0));
        let at = |point: &Point| point.position as f64 + offset;
        let line = points().map(|point| (at(point), point.value));
        chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
        chart.draw_series(
            points().map(|point| Circle::new((at(point), point.value), 3, colour.filled())),
        )?;
        let intervals = points().filter_map(|point| {
            let (low, high) = point.interval?;
            let is_finite = low.is_finite() && high.is_finite();
            is_finite.then(|| PathElement::new(vec![(at(point), low), (at(point), high)], colour))
        });
        chart.draw_series(intervals)?;
    }
    Ok(())
}

/// From the least to the greatest value or end of an interval, and a margin.
fn range(panel: &Panel) -> std::ops::Range<f64> {
    let ends = |point: &Point| {
        let (low, high) = point.interval.unwrap_or((point.value, point.value));
        [point.value, low, high]
    };
    let all = || {
        let points = panel.series.iter().flat_map(|series| &series.points);
        points.flat_map(ends).filter(|value| value.is_finite())
    };
    let (low, high) =
        (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    if low > high {
        return 0.0..1.0;
    }
    let margin = (0.08 * (high - low)).max(1e-3 * high.abs()).max(1e-9);
    low - margin..high + margin
}

/// A number of an axis: as many digits as it needs, at most four.
fn tick(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(values: &[f64]) -> Panel {
        let points = values.iter().enumerate().map(|(position, value)| Point {
            position,
            value: *value,
            interval: Some((value - 0.1, value + 0.1)),
        });
        let series = Series { name: "P1 & P2".to_owned(), points: points.collect() };
        Panel {
            title: "a < b".to_owned(),
            x: "workers".to_owned(),
            y: "share".to_owned(),
            positions: (0..values.len()).map(|position| format!("w{position}")).collect(),
            series: vec![series],
        }
    }

    #[test]
    fn figure_has_positions_legend_and_escaped_titles() {
        let text = draw("all", &[panel(&[0.5, 0.7]), panel(&[1.0, 2.0, 3.0])], 2).unwrap();
        for part in ["w0", "w2", "P1 &amp; P2", "a &lt; b", "workers"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text, draw("all", &[panel(&[0.5, 0.7]), panel(&[1.0, 2.0, 3.0])], 2).unwrap());
    }

    #[test]
    fn values_that_are_no_numbers_leave_the_rest() {
        let text = draw("all", &[panel(&[f64::INFINITY, 0.5]), panel(&[f64::NAN])], 2).unwrap();
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert_eq!(text.matches("<circle").count(), 1, "{text}");
    }

    #[test]
    fn numbers_of_an_axis_have_no_needless_digits() {
        assert_eq!(
            [0.0, 0.5, 12.0, 1500.0, 0.00125].map(tick),
            ["0", "0.5", "12", "1500", "0.00125"]
        );
    }
}
