//! Means and intervals over runs; CSV and SVG.

use std::fmt::Write as _;

use crate::engine::{Method, Metrics};

/// Runs of one method in one network, one for each seed, in the order of the seeds.
#[derive(Debug, Clone)]
pub struct Row {
    /// Name of the topology.
    pub topology: String,
    /// Method.
    pub method: Method,
    /// One for each seed.
    pub runs: Vec<Metrics>,
}

/// A quantity of [`Metrics`].
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    /// Column of the CSV.
    pub name: &'static str,
    /// Title of the chart.
    pub title: &'static str,
    /// Its value.
    pub of: fn(&Metrics) -> f64,
}

/// All quantities.
pub const QUANTITIES: [Quantity; 9] = [
    Quantity { name: "delay_ms", title: "Mean delay, ms", of: |run| run.delay_ms },
    Quantity {
        name: "delay_p99_ms",
        title: "Delay, 99th percentile, ms",
        of: |run| run.delay_p99_ms,
    },
    Quantity {
        name: "origin_share",
        title: "Bytes from the origin, share",
        of: |run| run.origin_share,
    },
    Quantity { name: "hit_share", title: "Hits, share of requests", of: |run| run.hit_share },
    Quantity {
        name: "first_hit_share",
        title: "Hits at the first cache, share",
        of: |run| run.first_hit_share,
    },
    Quantity {
        name: "aggregated_share",
        title: "Aggregated requests, share",
        of: |run| run.aggregated_share,
    },
    Quantity { name: "stretch", title: "Path stretch", of: |run| run.stretch },
    Quantity { name: "convergence_s", title: "Convergence, s", of: |run| run.convergence_s },
    Quantity {
        name: "writes_per_request",
        title: "Writes to caches per request",
        of: |run| run.writes_per_request,
    },
];

/// A mean and the half-width of its 95 % interval (Student's t over independent runs; infinite for one run).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Mean.
    pub mean: f64,
    /// Half-width.
    pub half_width: f64,
}

impl Estimate {
    /// Of independent values.
    #[must_use]
    pub fn new(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        if values.len() < 2 {
            return Self { mean, half_width: f64::INFINITY };
        }
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let half_width = t_quantile(values.len() - 1) * (squares / (count - 1.0) / count).sqrt();
        Self { mean, half_width }
    }
}

/// 97.5 % quantile of Student's t: exact for 1 and 2 degrees of freedom, to 1e-3 above (Cornish–Fisher expansion in
/// 1/degrees; Abramowitz, Stegun 26.7.5).
fn t_quantile(degrees: usize) -> f64 {
    const Z: f64 = 1.959_963_984_540_054;
    match degrees {
        0 => f64::INFINITY,
        1 => 12.706_204_736,
        2 => 4.302_652_730,
        3 => 3.182_446_305,
        4 => 2.776_445_105,
        _ => {
            let (z, n) = (Z, degrees as f64);
            let z2 = z * z;
            z + z * (z2 + 1.0) / (4.0 * n)
                + z * ((5.0 * z2 + 16.0) * z2 + 3.0) / (96.0 * n * n)
                + z * (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / (384.0 * n * n * n)
                + z * ((((79.0 * z2 + 776.0) * z2 + 1482.0) * z2 - 1920.0) * z2 - 945.0)
                    / (92_160.0 * n * n * n * n)
        }
    }
}

impl Row {
    /// Mean and interval of a quantity.
    #[must_use]
    pub fn estimate(&self, quantity: Quantity) -> Estimate {
        Estimate::new(&self.runs.iter().map(quantity.of).collect::<Vec<_>>())
    }
}

/// A joint method against the best of the separate ones in the same network, seed by seed.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Name of the topology.
    pub topology: String,
    /// The joint method.
    pub method: Method,
    /// The separate method with the smallest mean.
    pub best: Method,
    /// Difference, relative to the mean of `best`; negative: the joint method is better.
    pub difference: Estimate,
}

/// Compares the joint methods in `quantity`, of which less is better.
#[must_use]
pub fn compare(rows: &[Row], quantity: Quantity) -> Vec<Comparison> {
    let compare = |row: &Row| {
        let others =
            rows.iter().filter(|other| other.topology == row.topology && !other.method.is_joint());
        let mean = |row: &Row| row.estimate(quantity).mean;
        let best = others.min_by(|a, b| mean(a).total_cmp(&mean(b)))?;
        let pairs = row.runs.iter().zip(&best.runs);
        let differences: Vec<f64> =
            pairs.map(|(a, b)| (quantity.of)(a) - (quantity.of)(b)).collect();
        let Estimate { mean: difference, half_width } = Estimate::new(&differences);
        let scale = mean(best);
        Some(Comparison {
            topology: row.topology.clone(),
            method: row.method,
            best: best.method,
            difference: Estimate { mean: difference / scale, half_width: half_width / scale },
        })
    };
    rows.iter().filter(|row| row.method.is_joint()).filter_map(compare).collect()
}

/// All runs: a line for each.
#[must_use]
pub fn runs_csv(rows: &[Row], first_seed: u64) -> String {
    let names: Vec<_> = QUANTITIES.iter().map(|quantity| quantity.name).collect();
    let mut csv = format!("topology,method,seed,requests,{}\n", names.join(","));
    for row in rows {
        for (seed, run) in (first_seed..).zip(&row.runs) {
            let _ = write!(csv, "{},{},{seed},{}", row.topology, row.method.name(), run.requests);
            for quantity in QUANTITIES {
                let _ = write!(csv, ",{}", (quantity.of)(run));
            }
            csv.push('\n');
        }
    }
    csv
}

/// Means and half-widths of 95 % intervals: a line for each method.
#[must_use]
pub fn summary_csv(rows: &[Row]) -> String {
    let names = QUANTITIES.map(|quantity| format!("{0},{0}_half_width", quantity.name));
    let mut csv = format!("topology,method,runs,{}\n", names.join(","));
    for row in rows {
        let _ = write!(csv, "{},{},{}", row.topology, row.method.name(), row.runs.len());
        for quantity in QUANTITIES {
            let Estimate { mean, half_width } = row.estimate(quantity);
            let _ = write!(csv, ",{mean},{half_width}");
        }
        csv.push('\n');
    }
    csv
}

/// Bars of delay, origin share and hits of the methods in one network, with intervals.
#[must_use]
pub fn svg(rows: &[Row], topology: &str) -> String {
    const PANEL: f64 = 260.0;
    const LABEL: f64 = 210.0;
    const BAR: f64 = 16.0;
    const TOP: f64 = 56.0;
    let rows: Vec<&Row> = rows.iter().filter(|row| row.topology == topology).collect();
    let panels = [QUANTITIES[0], QUANTITIES[2], QUANTITIES[3]];
    let (width, height) = (LABEL + 3.0 * (PANEL + 20.0), TOP + BAR * rows.len() as f64 + 20.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"15\">{}</text>\n",
        escape(topology)
    );
    for (number, row) in rows.iter().enumerate() {
        let y = TOP + BAR * number as f64 + 11.0;
        let name = escape(&row.method.name());
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{y}\" text-anchor=\"end\">{name}</text>",
            LABEL - 8.0
        );
    }
    for (panel, quantity) in panels.into_iter().enumerate() {
        let left = LABEL + panel as f64 * (PANEL + 20.0);
        let estimates: Vec<Estimate> = rows.iter().map(|row| row.estimate(quantity)).collect();
        let upper = |estimate: &Estimate| estimate.mean + finite(estimate.half_width);
        let largest = estimates.iter().map(upper).fold(f64::MIN_POSITIVE, f64::max);
        // Room for the numbers at the ends of the bars.
        let x = |value: f64| left + value / largest * (PANEL - 50.0);
        let _ = writeln!(svg, "<text x=\"{left}\" y=\"{}\">{}</text>", TOP - 10.0, quantity.title);
        for (number, (estimate, row)) in estimates.iter().zip(&rows).enumerate() {
            let y = TOP + BAR * number as f64;
            let colour = if row.method.is_joint() { "#c44e52" } else { "#4c72b0" };
            let (mean, half_width) = (estimate.mean, finite(estimate.half_width));
            let (from, to) = (x((mean - half_width).max(0.0)), x(mean + half_width));
            let _ = writeln!(
                svg,
                "<rect x=\"{left}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{}\" fill=\"{colour}\"/>",
                y + 2.0,
                x(mean) - left,
                BAR - 4.0,
            );
            let middle = y + BAR / 2.0;
            let _ = writeln!(
                svg,
                "<line x1=\"{from:.2}\" x2=\"{to:.2}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"black\"/>\n\
                 <text x=\"{:.2}\" y=\"{:.1}\" font-size=\"9\">{}</text>",
                to + 3.0,
                y + 11.0,
                short(mean),
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// Three significant digits.
fn short(value: f64) -> String {
    let digits =
        if value >= 100.0 { 0 } else { 2 - (value.max(1e-3).log10().floor() as i32).min(2) };
    format!("{value:.0$}", digits.clamp(0, 4) as usize)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_student() {
        // scipy.stats.t.ppf(0.975, n)
        let known = [
            (1, 12.706_205),
            (2, 4.302_653),
            (4, 2.776_445),
            (5, 2.570_582),
            (9, 2.262_157),
            (29, 2.045_230),
        ];
        for (degrees, quantile) in known {
            assert!(
                (t_quantile(degrees) - quantile).abs() < 1e-3,
                "{degrees}: {}",
                t_quantile(degrees)
            );
        }
        let estimate = Estimate::new(&[1.0, 2.0, 3.0]);
        assert!((estimate.mean - 2.0).abs() < 1e-12);
        assert!((estimate.half_width - 4.302_653 / 3f64.sqrt()).abs() < 1e-5);
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(["1234", "12.3", "1.23", "0.123"], [1234.0, 12.3, 1.23, 0.123].map(short)[..]);
    }
}
