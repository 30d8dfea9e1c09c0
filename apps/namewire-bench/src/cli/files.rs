//! Tables of the file transfer benches.

use crate::{DistanceReport, Quartiles, TransferReport};

use namewire::cli::output::{self, Table};
use namewire::cli::shared::Outcome;

pub(super) fn print_distance(report: &DistanceReport) -> Outcome {
    let headings = [
        "CONTROLLER",
        ">RTT ms",
        ">LOSS %",
        ">QUEUE ms",
        ">FLOWS",
        ">OF LINK",
        ">FAIRNESS",
        ">p50 ms",
        ">p99 ms",
        ">RESENT %",
    ];
    let mut table = Table::new(&headings);
    for case in &report.cases {
        table.row(vec![
            case.controller.to_owned(),
            format!("{:.1}", case.round_trip_ms),
            format!("{}", case.loss * 100.0),
            format!("{:.1}", case.queue_ms),
            case.flows.to_string(),
            format!("{:.3}", case.share_of_link),
            format!("{:.3}", case.fairness),
            format!("{:.2}", case.queue_delay_p50_ms),
            format!("{:.2}", case.queue_delay_p99_ms),
            format!("{:.2}", case.sent_again * 100.0),
        ]);
    }
    Ok(table.print("no cases")?)
}

pub(super) fn print_transfer(report: &TransferReport) -> Outcome {
    let headings = [
        "CASE",
        "VERIFIED BY",
        ">MiB",
        ">MB/s",
        ">FROM",
        ">TO",
        ">BOUND",
        ">SHARE",
        ">SERVER s",
        ">FORWARDER s",
        ">FETCHER s",
    ];
    let mut table = Table::new(&headings);
    for case in &report.cases {
        let (from, to) = case.spread;
        table.row(vec![
            case.case.clone(),
            case.verified.to_owned(),
            (case.bytes >> 20).to_string(),
            format!("{:.0}", case.goodput_mb_per_s),
            format!("{from:.0}"),
            format!("{to:.0}"),
            case.cpu_bound_mb_per_s.map_or_else(String::new, |bound| format!("{bound:.0}")),
            case.share_of_cpu_bound.map_or_else(String::new, |share| format!("{share:.2}")),
            format!("{:.2}", case.cpu_s.server),
            format!("{:.2}", case.cpu_s.forwarder),
            format!("{:.2}", case.cpu_s.fetcher),
        ]);
    }
    table.print("no case matches the filter")?;
    for ratio in &report.ratios {
        let Quartiles { lower, median, upper, .. } = ratio.ratio;
        let (case, over) = (&ratio.case, &ratio.over);
        output::print_line(&format!("{case} over {over}: {median:.2} ({lower:.2}-{upper:.2})"))?;
    }
    Ok(output::print_line(&format!("{:.0} s", report.seconds))?)
}
