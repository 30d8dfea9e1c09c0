//! A benchmark as CSV, SVG and HTML.

use std::fmt::Write;

use super::fetch_node::Latency;
use super::figures::Trial;
use super::record::{OWN, PUBLISHED, Record, State, Statistic};

/// The trials as CSV, with a line of headings.
#[must_use]
pub(crate) fn csv(record: &Record) -> String {
    let mut out = String::from(
        "run,trial,unix_ms,seconds,data_per_s,goodput_bit_per_s,producer,direction_data_per_s,direction_goodput_bit_per_s,\
         content_bytes,interests,retransmissions,loss,p50_us,p90_us,p99_us,p999_us,max_us,cpu_a_us,cpu_f_us,cpu_b_us,program,\
         cache_hits\n",
    );
    for (program, number, trial) in record.all_trials() {
        let hits = trial.cache_hits.map(|hits| hits.to_string()).unwrap_or_default();
        for direction in &trial.directions {
            let (latency, cpu) = (direction.latency, trial.cpu_per_data);
            let _ = writeln!(
                out,
                "{},{number},{},{:.3},{:.1},{:.0},{},{:.1},{:.0},{},{},{},{:.6},{},{},{},{},{},{:.3},{:.3},{:.3},{program},{hits}",
                record.id,
                trial.unix_ms,
                trial.seconds,
                trial.data_per_s,
                trial.goodput_bit_per_s,
                direction.producer,
                direction.data_per_s,
                direction.goodput_bit_per_s,
                direction.content_bytes,
                direction.interests,
                direction.retransmissions,
                direction.loss,
                latency.p50_us,
                latency.p90_us,
                latency.p99_us,
                latency.p999_us,
                latency.max_us,
                cpu.a_us,
                cpu.f_us,
                cpu.b_us,
            );
        }
    }
    out
}

/// Colours of the bars of programs.
const COLOURS: [&str; 3] = ["#1257b0", "#1a6b35", "#6b3fa0"];

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
/// The area inside the axes: left, top, right, bottom.
const FRAME: (f64, f64, f64, f64) = (80.0, 40.0, 620.0, 250.0);

/// A bar for the goodput of each trial of each program, with mean and confidence interval of this one, as SVG.
#[must_use]
pub(crate) fn svg(record: &Record) -> String {
    let of = |trials: &[Trial]| -> Vec<f64> {
        trials.iter().map(|trial| trial.goodput_bit_per_s).collect()
    };
    let rates = of(&record.trials);
    let mut series = vec![(OWN, rates.clone())];
    series.extend(record.peers.iter().map(|peer| (peer.program.as_str(), of(&peer.trials))));
    let statistic = Statistic::of(&rates);
    let upper = statistic.map_or(0.0, |one| one.mean + one.interval.unwrap_or(0.0));
    let all = series.iter().flat_map(|(_, rates)| rates.iter().copied());
    let top = all.fold(upper, f64::max).max(1.0) * 1.1;
    let y = |rate: f64| FRAME.3 - (FRAME.3 - FRAME.1) * (rate / top).clamp(0.0, 1.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Goodput of {} trials\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{}\" y=\"22\" font-size=\"14\" font-weight=\"bold\">Goodput by trial, benchmark {}</text>\n",
        rates.len(),
        FRAME.0,
        record.id
    );
    for step in 0..=4 {
        let rate = top * f64::from(step) / 4.0;
        let at = y(rate);
        let _ = writeln!(
            out,
            "<line x1=\"{}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#d5dae2\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#5a6475\">{}</text>",
            FRAME.0,
            FRAME.2,
            FRAME.0 - 8.0,
            at + 4.0,
            bits(rate)
        );
    }
    let step = (FRAME.2 - FRAME.0) / float(rates.len().max(1));
    let width = step * 0.7 / float(series.len());
    for (place, (program, rates)) in series.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        for (number, rate) in rates.iter().enumerate() {
            let x = FRAME.0 + step * (float(number) + 0.15) + width * float(place);
            let at = y(*rate);
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{at:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{colour}\"><title>{program}, trial {}: {}</title></rect>",
                FRAME.3 - at,
                number + 1,
                bits(*rate)
            );
        }
        if series.len() > 1 {
            // From the right, the last one first.
            let x = FRAME.2 - 90.0 * float(series.len() - 1 - place);
            let _ = writeln!(
                out,
                "<text x=\"{x}\" y=\"22\" text-anchor=\"end\" fill=\"{colour}\" font-weight=\"bold\">{program}</text>"
            );
        }
    }
    for number in 0..rates.len() {
        // Every number while they fit.
        if rates.len() <= 30 || (number + 1) % 10 == 0 {
            let middle = FRAME.0 + step * (float(number) + 0.5);
            let _ = writeln!(
                out,
                "<text x=\"{middle:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#5a6475\">{}</text>",
                FRAME.3 + 16.0,
                number + 1
            );
        }
    }
    if let Some(Statistic { mean, interval, .. }) = statistic {
        let half = interval.unwrap_or(0.0);
        let (low, at, high) = (y(mean - half), y(mean), y(mean + half));
        let _ = writeln!(
            out,
            "<rect x=\"{}\" y=\"{high:.1}\" width=\"{}\" height=\"{:.1}\" fill=\"#a8480a\" fill-opacity=\"0.2\"/>\
             <line x1=\"{}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#a8480a\" stroke-width=\"2\"/>\n\
             <text x=\"{}\" y=\"{}\" fill=\"#a8480a\">{}mean {}{}</text>",
            FRAME.0,
            FRAME.2 - FRAME.0,
            low - high,
            FRAME.0,
            FRAME.2,
            FRAME.0,
            HEIGHT - 12.0,
            if series.len() > 1 { "namewire: " } else { "" },
            bits(mean),
            interval
                .map(|half| format!(", 95 % confidence interval ± {}", bits(half)))
                .unwrap_or_default()
        );
    }
    out.push_str("</svg>\n");
    out
}

/// A report that needs no other file and no network.
#[must_use]
pub(crate) fn html(record: &Record) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Benchmark {0} of Namewire</title>\n<style>{STYLE}</style>\n\
         <h1>Benchmark {0} of Namewire {1}</h1>\n<p>{2}, {3}.</p>\n",
        record.id,
        escaped(&record.version),
        time(record.unix_ms),
        match (record.state, &record.reason) {
            (State::Running, _) => "still running".to_owned(),
            (State::Done, _) => "all trials ended".to_owned(),
            (State::Stopped, _) => "stopped early".to_owned(),
            (State::Failed, reason) =>
                format!("failed: {}", escaped(reason.as_deref().unwrap_or("no reason"))),
        }
    );
    out.push_str(&svg(record));
    out.push_str("<h2>Statistics</h2>\n<div class=wide tabindex=0 role=region aria-label=Statistics><table><tr><th>program<th>figure<th>mean\
                  <th>standard deviation<th>95 % interval</tr>\n");
    for (program, summary) in record.all_summaries() {
        for (name, one, show) in [
            ("Data packets/s", summary.data_per_s, count as fn(f64) -> String),
            ("Goodput", summary.goodput_bit_per_s, bits),
        ] {
            let or_dash = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), show);
            let _ = writeln!(
                out,
                "<tr><th>{program}<td>{name}<td>{}<td>{}<td>± {}</tr>",
                show(one.mean),
                or_dash(one.standard_deviation),
                or_dash(one.interval)
            );
        }
    }
    out.push_str("</table></div>\n");
    for (over, Statistic { mean, interval, .. }) in record.ratios_to_transfers() {
        let half = interval.map(|half| format!(" ± {half:.3} (95 % interval)")).unwrap_or_default();
        let _ = writeln!(out, "<p>Goodput over that of {over}: {mean:.3}{half}.</p>");
    }
    for peer in &record.peers {
        if let Some(reason) = &peer.reason {
            let _ = writeln!(out, "<p>{}: {}</p>", escaped(&peer.program), escaped(reason));
        }
    }
    out.push_str("<h3>Published elsewhere, on other machines</h3>\n<ul>\n");
    for one in PUBLISHED {
        let _ =
            writeln!(out, "<li>{}: {} ({}). {}.", one.program, one.figure, one.machine, one.source);
    }
    out.push_str("</ul>\n");
    out.push_str("<h2>Trials</h2>\n<div class=wide tabindex=0 role=region aria-label=Trials><table><tr><th>program<th>trial<th>time (UTC)<th>seconds<th>Data/s<th>goodput<th>direction\
                  <th>loss<th>p50 µs<th>p99 µs<th>CPU of A, F, B in µs/Data</tr>\n");
    for (program, number, trial) in record.all_trials() {
        trial_rows(&mut out, (program, number), trial);
    }
    out.push_str("</table></div>\n<h2>Inputs</h2>\n<table>\n");
    for (title, value) in [
        ("", serde_json::to_value(record.plan).unwrap_or_default()),
        ("machine: ", record.machine.clone()),
    ] {
        for (name, value) in value.as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let (name, value) = (escaped(name), escaped(&value));
            let _ = writeln!(out, "<tr><th>{title}{name}<td>{value}</tr>");
        }
    }
    out.push_str(
        "</table>\n<p>Goodput counts the content of each Data once: no names, signatures, headers or retransmissions. \
         Loss is the share of Interests that were sent again.</p>\n</html>\n",
    );
    out
}

const STYLE: &str = ":root{color-scheme:light}body{font:16px/1.45 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
    color:#1c2330}table{border-collapse:collapse;font-variant-numeric:tabular-nums}th,td{text-align:left;padding:.2rem .8rem;\
    border-bottom:1px solid #d5dae2;white-space:nowrap}svg{max-width:100%}.wide{overflow-x:auto}";

fn trial_rows(out: &mut String, (program, number): (&str, u32), trial: &Trial) {
    for direction in &trial.directions {
        let cpu = trial.cpu_per_data;
        let _ = writeln!(
            out,
            "<tr><td>{program}<td>{number}<td>{:.8}<td>{:.1}<td>{}<td>{}<td>{} → {}<td>{:.3} %<td>{}<td>{}<td>{:.1}, {:.1}, {:.1}</tr>",
            // The time of day in a date of HTTP.
            time(trial.unix_ms).get(17..).unwrap_or_default(),
            trial.seconds,
            count(direction.data_per_s),
            bits(direction.goodput_bit_per_s),
            direction.producer,
            direction.consumer,
            direction.loss * 100.0,
            microseconds(direction.latency, |latency| latency.p50_us),
            microseconds(direction.latency, |latency| latency.p99_us),
            cpu.a_us,
            cpu.f_us,
            cpu.b_us,
        );
    }
}

/// A part of a latency for people; a dash if it was not measured.
pub(crate) fn microseconds(latency: Latency, part: fn(Latency) -> u64) -> String {
    if latency.max_us == 0 { "–".to_owned() } else { part(latency).to_string() }
}

/// A rate in bit/s for people.
pub(super) fn bits(rate: f64) -> String {
    scaled(rate) + "bit/s"
}

/// A rate of packets for people.
pub(super) fn count(rate: f64) -> String {
    scaled(rate).trim_end().to_owned()
}

fn scaled(value: f64) -> String {
    let prefixes = ["", "k", "M", "G", "T"];
    let mut scaled = value;
    let mut at = 0;
    while scaled.abs() >= 1000.0 && at + 1 < prefixes.len() {
        scaled /= 1000.0;
        at += 1;
    }
    let digits = if scaled.abs() >= 100.0 {
        0
    } else if scaled.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{scaled:.digits$} {}", prefixes[at])
}

/// Date and time in UTC.
fn time(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let date = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    httpdate::fmt_http_date(date)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[expect(clippy::cast_precision_loss, reason = "a number of trials")]
fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn csv_has_a_row_for_each_direction_of_each_trial() {
        let text = csv(&record(&[1000.0, 2000.0]));
        let lines: Vec<_> = text.lines().collect();
        let columns = |line: &str| line.split(',').count();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| columns(line) == columns(lines[0])), "{text}");
        assert!(
            lines[2].starts_with("7,2,1700000005000,5.000,2000.0,64000000,A,2000.0,"),
            "{text}"
        );
    }

    #[test]
    fn picture_and_report_show_all_trials_and_nothing_from_elsewhere() {
        let mut one = record(&[1000.0, 2000.0, 1500.0]);
        one.state = State::Failed;
        one.reason = Some("<script>".to_owned());
        let picture = svg(&one);
        assert_eq!(picture.matches("<title>namewire, trial ").count(), 3);
        assert!(picture.contains("mean 48.0 Mbit/s, 95 % confidence interval"), "{picture}");
        let report = html(&one);
        assert!(
            report.contains("failed: &lt;script&gt;") && !report.contains("<script"),
            "{report}"
        );
        assert!(report.contains("Tue, 14 Nov 2023 22:13:20 GMT"), "{report}");
        let external = ["src=", "href=", "url("];
        assert!(external.iter().all(|part| !report.contains(part)), "{report}");
        assert!(report.contains("<h3>Published elsewhere, on other machines</h3>"), "{report}");
        // Other programs have bars and rows of their own.
        let (program, figures) = ("nfd", one.trials[0].clone());
        one.note(&super::super::trial::Progress::Ended { trial: 1, program, figures });
        assert_eq!(svg(&one).matches("<title>").count(), 4);
        assert!(html(&one).contains("<tr><td>nfd<td>1<td>"), "{}", html(&one));
        assert!(csv(&one).lines().last().unwrap().ends_with(",nfd,0"), "{}", csv(&one));
        // Without trials there is still a picture.
        assert!(svg(&record(&[])).ends_with("</svg>\n"));
    }

    #[test]
    fn rates_have_unit_prefixes() {
        for (rate, text) in [
            (0.0, "0.00 bit/s"),
            (999.0, "999 bit/s"),
            (12_340.0, "12.3 kbit/s"),
            (1e9, "1.00 Gbit/s"),
        ] {
            assert_eq!(bits(rate), text);
        }
        assert_eq!(count(5.0), "5.00");
    }
}
