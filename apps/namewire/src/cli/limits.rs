//! `namewire limits`: what principals hold of scarce resources.

use std::cmp::Reverse;

use clap::Args;

use super::control::ControlOptions;
use super::failure::{Failure, Outcome};
use super::output::{self, Table, bytes_for_people, grouped};
use namewire_control::{LedgerStatus, PrincipalStatus};

/// Number of principals shown without --all.
const PRINCIPALS_SHOWN: usize = 20;

/// Show how tables and memory of a running forwarder are divided: reserves, shares, and what principals hold
///
/// A principal is management, a process on this host, a face of an operator, or an address. Its class has a reserve of each
/// resource, which others cannot take. Once a resource is full, a principal that holds more than its share gives way.
///
/// Memory has a unit (KiB, MiB); everything else is a number of places. Long Interests take places of 64 bytes
/// (long_interest_blocks). tables.pit_capacity sets the capacities of PIT entries, in-records, out-records, long tokens and
/// long Interests, tables.fib_capacity that of routes, limits.faces that of faces; most others are fixed. A few places are
/// kept for making room, so a capacity is a little below its setting. Amounts are sums over all workers, of which each
/// divides its part by itself.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Show all principals, not only the twenty that hold most
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    control: ControlOptions,
    /// Print JSON, with memory in bytes
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Outcome {
    let mut client = options.control.connect()?;
    let status = client.limits()?;
    if options.json {
        let value = serde_json::to_value(&status);
        output::print_json(&value.map_err(|error| Failure::Failed(error.to_string()))?)?;
        return Ok(());
    }
    print(&status, options.all)
}

/// Largest share of a resource that a principal holds, in parts per million.
fn largest_part(status: &LedgerStatus, principal: &PrincipalStatus) -> u64 {
    let parts = principal.held.iter().map(|(name, held)| {
        let capacity = status.tables.get(name).map_or(1, |table| table.capacity.max(1));
        held.saturating_mul(1_000_000) / capacity
    });
    parts.max().unwrap_or(0)
}

/// An amount of the resource of this name: memory in bytes, or places.
fn amount(resource: &str, amount: u64) -> String {
    if resource.ends_with("_bytes") { bytes_for_people(amount) } else { grouped(amount) }
}

fn print(status: &LedgerStatus, all: bool) -> Outcome {
    let headings = [
        "RESOURCE",
        ">USED",
        ">CAPACITY",
        ">RESERVES",
        ">SHARE OF A LOCAL",
        ">OF A NEIGHBOUR",
        ">OF A REMOTE",
    ];
    let mut tables = Table::new(&headings);
    for (name, table) in &status.tables {
        let share =
            |class: &str| amount(name, table.shares.get(class).copied().unwrap_or_default());
        tables.row(vec![
            name.clone(),
            amount(name, table.used),
            amount(name, table.capacity),
            amount(name, table.reserves.values().sum()),
            share("local"),
            share("neighbour"),
            share("remote"),
        ]);
    }
    tables.print("no tables")?;
    output::print_line("")?;
    let mut principals: Vec<&PrincipalStatus> = status.principals.iter().collect();
    principals
        .sort_by_key(|principal| (Reverse(largest_part(status, principal)), &principal.principal));
    let shown = if all { principals.len() } else { PRINCIPALS_SHOWN.min(principals.len()) };
    let mut rows = Table::new(&["PRINCIPAL", "CLASS", ">FACES", "HOLDS"]);
    for principal in &principals[..shown] {
        let held = principal.held.iter().filter(|(_, count)| **count > 0);
        let held: Vec<_> =
            held.map(|(name, count)| format!("{name} {}", amount(name, *count))).collect();
        rows.row(vec![
            principal.principal.clone(),
            principal.class.clone(),
            grouped(principal.faces),
            if held.is_empty() { "-".to_owned() } else { held.join(", ") },
        ]);
    }
    rows.print("no principals")?;
    if shown < principals.len() {
        output::print_line(&format!("and {} more (--all, --json)", principals.len() - shown))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_units() {
        assert_eq!(amount("output_bytes", 64 << 20), "64.0 MiB");
        assert_eq!(amount("pit_entries", 65_536), "65 536");
    }
}
