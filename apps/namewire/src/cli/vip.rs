//! `namewire vip`: counts and scores of VIP.

use std::collections::BTreeMap;

use clap::Args;

use super::control::ControlOptions;
use super::failure::{Failure, Outcome};
use super::output::{self, Table, grouped};
use namewire_control::{VipObject, VipStatus};

/// Number of objects shown without --all.
const OBJECTS_SHOWN: usize = 20;
/// One request, in the unit of amounts.
const REQUEST: u64 = 1_000_000;

/// Show the counts and scores of VIP, if the forwarder was built with the cargo feature `vip`
///
/// Lists objects, and the neighbours in the exchange. VIP (virtual Interest packets) is patented in the United States (US
/// 12155738 B2). Only programs built with the cargo feature `vip` have it, and only forwarders with `caching.vip.enabled` take
/// part. Amounts are in requests.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Show up to a thousand objects, not only the twenty of highest score
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    control: ControlOptions,
    /// Print JSON, with amounts in millionths of a request
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Outcome {
    let status = options.control.connect()?.vip()?;
    if options.json {
        let value = serde_json::to_value(&status);
        output::print_json(&value.map_err(|error| Failure::Failed(error.to_string()))?)?;
        return Ok(());
    }
    print(&status, options.all)
}

/// An amount in requests, with one decimal.
fn requests(amount: u64) -> String {
    format!("{}.{}", grouped(amount / REQUEST), amount % REQUEST * 10 / REQUEST)
}

fn by_face(amounts: &BTreeMap<u64, u64>) -> String {
    let faces: Vec<String> = amounts
        .iter()
        .map(|(face_id, amount)| format!("{face_id}: {}", requests(*amount)))
        .collect();
    if faces.is_empty() { "-".to_owned() } else { faces.join(", ") }
}

fn place(object: &VipObject) -> &'static str {
    match (object.is_source, object.is_cached) {
        (true, _) => "served here",
        (false, true) => "cached",
        (false, false) => "-",
    }
}

fn print(status: &VipStatus, all: bool) -> Outcome {
    let mut objects =
        Table::new(&["OBJECT", ">SCORE", ">WAITING", ">BYTES", "PLACE", "SENT TO FACES"]);
    let count = if all { status.objects.len() } else { OBJECTS_SHOWN.min(status.objects.len()) };
    for object in &status.objects[..count] {
        objects.row(vec![
            object.name.clone(),
            requests(object.score),
            requests(object.count),
            grouped(object.size_bytes),
            place(object).to_owned(),
            by_face(&object.sent),
        ]);
    }
    objects.print("no objects")?;
    let rest = status.objects_count.saturating_sub(count as u64);
    if rest > 0 {
        output::print_line(&format!("and {} more (--all, --json)", grouped(rest)))?;
    }
    let mut neighbours = Table::new(&[">FACE", "ANSWERS", "REPORTS", ">ON THE WAY"]);
    let yes = |is_so: bool| if is_so { "yes" } else { "no" }.to_owned();
    for neighbour in &status.neighbours {
        neighbours.row(vec![
            neighbour.face_id.to_string(),
            yes(neighbour.is_connected),
            yes(neighbour.is_reporting),
            requests(neighbour.unconfirmed),
        ]);
    }
    neighbours.print("no neighbours")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_in_requests() {
        assert_eq!(requests(1_234_567_890), format!("{}.5", grouped(1234)));
        assert_eq!(
            by_face(&BTreeMap::from([(300, 2_000_000), (301, 50_000)])),
            "300: 2.0, 301: 0.0"
        );
        assert_eq!(by_face(&BTreeMap::new()), "-");
    }
}
