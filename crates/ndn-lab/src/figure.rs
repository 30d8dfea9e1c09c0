//! Figures: panels of lines with intervals, bars and distributions, as SVG.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "pixels, digits and positions: small numbers"
)]

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

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

/// One diagram.
#[derive(Debug)]
pub enum Panel {
    /// Lines with intervals over named positions.
    Lines(Lines),
    /// Horizontal bars.
    Bars(Bars),
    /// Cumulative distributions.
    Distributions(Distributions),
    /// Single points, some of them named.
    Scatter(Scatter),
}

/// A line for each series, over named positions.
#[derive(Debug)]
pub struct Lines {
    /// Above the diagram.
    pub title: String,
    /// Below it.
    pub x: String,
    /// Beside it.
    pub y: String,
    /// Names of the positions.
    pub positions: Vec<String>,
    /// The lines.
    pub series: Vec<Series>,
}

/// A line.
#[derive(Debug)]
pub struct Series {
    /// For the legend; empty without one.
    pub name: String,
    /// Its points.
    pub points: Vec<Point>,
}

/// A value at a position, with its interval.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Index of the position.
    pub position: usize,
    /// The value; not drawn unless it is finite.
    pub value: f64,
    /// Ends of the interval.
    pub interval: Option<(f64, f64)>,
}

/// Horizontal bars from 0, the first one on top.
#[derive(Debug)]
pub struct Bars {
    /// Above the diagram.
    pub title: String,
    /// Below it.
    pub x: String,
    /// Names and lengths.
    pub bars: Vec<(String, f64)>,
}

/// Shares of values that are not greater than the value on the x axis.
#[derive(Debug)]
pub struct Distributions {
    /// Above the diagram.
    pub title: String,
    /// Below it.
    pub x: String,
    /// Names and values in any order.
    pub series: Vec<(String, Vec<f64>)>,
}

/// Points over a continuous axis.
#[derive(Debug)]
pub struct Scatter {
    /// Above the diagram.
    pub title: String,
    /// Below it.
    pub x: String,
    /// Beside it.
    pub y: String,
    /// Name, which may be empty, and place of each point.
    pub points: Vec<(String, (f64, f64))>,
}

/// Draws panels in rows of `columns` under a title, which may be empty. The same figure is the same text.
///
/// # Errors
/// The figure cannot be drawn.
pub fn draw(title: &str, panels: &[Panel], columns: usize) -> Result<String, String> {
    let columns = columns.clamp(1, panels.len().max(1));
    let rows = panels.len().div_ceil(columns);
    let title_height = if title.is_empty() { 0 } else { TITLE_HEIGHT };
    let size = (PANEL.0 * columns as u32, PANEL.1 * rows as u32 + title_height);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(|error| error.to_string())?;
        let root = match title {
            "" => root,
            title => root.titled(title, (FONT, 18)).map_err(|error| error.to_string())?,
        };
        for (area, panel) in root.split_evenly((rows, columns)).iter().zip(panels) {
            let drawn = match panel {
                Panel::Lines(lines) => draw_lines(area, lines),
                Panel::Bars(bars) => draw_bars(area, bars),
                Panel::Distributions(distributions) => draw_distributions(area, distributions),
                Panel::Scatter(scatter) => draw_scatter(area, scatter),
            };
            drawn.map_err(|error| error.to_string())?;
        }
        root.present().map_err(|error| error.to_string())?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type DrawError<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// Splits off a legend at the right, if a name is not empty; returns the rest of the area.
fn draw_legend<'a>(area: &Area<'a>, names: &[&str]) -> Result<Area<'a>, DrawError<'a>> {
    let legend = match names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as i32 {
        0 => 0,
        longest => 26 + 7 * longest,
    };
    let (area, right) = area.split_horizontally(PANEL.0 as i32 - legend.min(PANEL.0 as i32 / 2));
    for (index, name) in names.iter().enumerate().filter(|_| legend > 0) {
        let (y, colour) = (40 + 16 * index as i32, COLOURS[index % COLOURS.len()]);
        right.draw(&PathElement::new(vec![(2, y), (16, y)], colour.stroke_width(2)))?;
        right.draw(&Text::new((*name).to_owned(), (20, y - 5), (FONT, 11)))?;
    }
    Ok(area)
}

fn draw_bars<'a>(area: &Area<'a>, panel: &Bars) -> Result<(), DrawError<'a>> {
    let longest = panel.bars.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) as u32;
    let largest = panel.bars.iter().map(|(_, value)| *value).filter(|value| value.is_finite());
    let largest = largest.fold(0.0, f64::max).max(1e-9);
    let count = panel.bars.len().max(1);
    // The first one is on top.
    let at = |index: usize| count as f64 - index as f64 - 0.5;
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FONT, 14))
        .margin(8)
        .x_label_area_size(38)
        .y_label_area_size((12 + 6 * longest).min(PANEL.0 / 2))
        .build_cartesian_2d(0.0..largest * 1.15, 0.0..count as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .y_labels(0)
        .x_labels(5)
        .x_label_formatter(&|value| tick(*value))
        .x_desc(&panel.x)
        .label_style((FONT, 11))
        .axis_desc_style((FONT, 12))
        .draw()?;
    for (index, (name, value)) in panel.bars.iter().enumerate().filter(|(_, bar)| bar.1.is_finite())
    {
        let (low, high) = (at(index) - 0.35, at(index) + 0.35);
        chart.draw_series([Rectangle::new([(0.0, low), (*value, high)], COLOURS[0].filled())])?;
        let style = (FONT, 11).into_font().color(&BLACK);
        let right = style.pos(Pos::new(HPos::Right, VPos::Center));
        let left = (FONT, 11).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
        let name = EmptyElement::at((0.0, at(index))) + Text::new(name.clone(), (-6, 0), right);
        chart.plotting_area().draw(&name)?;
        let value = EmptyElement::at((*value, at(index))) + Text::new(tick(*value), (4, 0), left);
        chart.plotting_area().draw(&value)?;
    }
    Ok(())
}

fn draw_distributions<'a>(area: &Area<'a>, panel: &Distributions) -> Result<(), DrawError<'a>> {
    let names: Vec<&str> = panel.series.iter().map(|(name, _)| name.as_str()).collect();
    let area = draw_legend(area, &names)?;
    let all =
        || panel.series.iter().flat_map(|(_, values)| values).filter(|value| value.is_finite());
    let range = margins(all().copied());
    let mut chart = ChartBuilder::on(&area)
        .caption(&panel.title, (FONT, 14))
        .margin(8)
        .x_label_area_size(38)
        .y_label_area_size(58)
        .build_cartesian_2d(range.clone(), 0.0..1.0)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(5)
        .x_label_formatter(&|value| tick(*value))
        .y_labels(6)
        .y_label_formatter(&|value| tick(*value))
        .x_desc(&panel.x)
        .y_desc("share of runs")
        .label_style((FONT, 11))
        .axis_desc_style((FONT, 12))
        .draw()?;
    for (index, (_, values)) in panel.series.iter().enumerate() {
        let mut values: Vec<f64> = values.iter().copied().filter(|one| one.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let share = |number: usize| number as f64 / values.len() as f64;
        let steps = values
            .iter()
            .enumerate()
            .flat_map(|(number, value)| [(*value, share(number)), (*value, share(number + 1))]);
        let ends = values.last().map(|_| (range.end, 1.0));
        let line = values.first().map(|_| (range.start, 0.0)).into_iter().chain(steps).chain(ends);
        let colour = COLOURS[index % COLOURS.len()];
        chart.draw_series(LineSeries::new(line.collect::<Vec<_>>(), colour.stroke_width(2)))?;
    }
    Ok(())
}

fn draw_scatter<'a>(area: &Area<'a>, panel: &Scatter) -> Result<(), DrawError<'a>> {
    let is_finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    let points = || panel.points.iter().filter(|(_, place)| is_finite(place));
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FONT, 14))
        .margin(8)
        .x_label_area_size(38)
        .y_label_area_size(58)
        .build_cartesian_2d(
            margins(points().map(|(_, (x, _))| *x)),
            margins(points().map(|(_, (_, y))| *y)),
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(5)
        .x_label_formatter(&|value| tick(*value))
        .y_labels(6)
        .y_label_formatter(&|value| tick(*value))
        .x_desc(&panel.x)
        .y_desc(&panel.y)
        .label_style((FONT, 11))
        .axis_desc_style((FONT, 12))
        .draw()?;
    chart.draw_series(points().map(|(_, place)| Circle::new(*place, 3, COLOURS[0].filled())))?;
    for (name, place) in points().filter(|(name, _)| !name.is_empty()) {
        let left = (FONT, 11).into_font().color(&BLACK).pos(Pos::new(HPos::Right, VPos::Center));
        let name = EmptyElement::at(*place) + Text::new(name.clone(), (-6, 0), left);
        chart.plotting_area().draw(&name)?;
    }
    Ok(())
}

fn draw_lines<'a>(area: &Area<'a>, panel: &Lines) -> Result<(), DrawError<'a>> {
    let names: Vec<&str> = panel.series.iter().map(|series| series.name.as_str()).collect();
    let area = draw_legend(area, &names)?;
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
fn range(panel: &Lines) -> std::ops::Range<f64> {
    let ends = |point: &Point| {
        let (low, high) = point.interval.unwrap_or((point.value, point.value));
        [point.value, low, high]
    };
    let points = panel.series.iter().flat_map(|series| &series.points);
    margins(points.flat_map(ends).filter(|value| value.is_finite()))
}

/// From the least to the greatest of finite values, and a margin.
fn margins(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let ends = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), ends);
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
        Panel::Lines(Lines {
            title: "a < b".to_owned(),
            x: "workers".to_owned(),
            y: "share".to_owned(),
            positions: (0..values.len()).map(|position| format!("w{position}")).collect(),
            series: vec![series],
        })
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
    fn bars_and_distributions_have_names_and_as_many_marks_as_values() {
        let bars = [("first", 50.0), ("a × b", 2.5), ("absent", f64::NAN)];
        let bars = bars.map(|(name, value)| (name.to_owned(), value)).into();
        let bars = Panel::Bars(Bars { title: "t".to_owned(), x: "%".to_owned(), bars });
        let series =
            vec![("slow".to_owned(), vec![3.0, 1.0, f64::INFINITY]), ("fast".to_owned(), vec![])];
        let distributions = Distributions { title: "d".to_owned(), x: "s".to_owned(), series };
        let text = draw("all", &[bars, Panel::Distributions(distributions)], 2).unwrap();
        for part in ["first", "a × b", "2.5", "slow", "fast", "share of runs"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            !text.contains("NaN") && !text.contains("inf") && !text.contains("absent"),
            "{text}"
        );
    }

    #[test]
    fn numbers_of_an_axis_have_no_needless_digits() {
        assert_eq!(
            [0.0, 0.5, 12.0, 1500.0, 0.00125].map(tick),
            ["0", "0.5", "12", "1500", "0.00125"]
        );
    }
}
