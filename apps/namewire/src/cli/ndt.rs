//! `namewire ndt`: the assignment of names to workers.

use clap::{Args, Subcommand};

use ndn_packet::Name;

use super::arguments::name;
use super::control::ControlOptions;
use super::failure::{Failure, Outcome};
use super::output::{self, Table, counted, grouped};
use namewire_control::Dispatch;

/// Number of entries shown without --all.
const ENTRIES_SHOWN: usize = 10;

/// Show or change the dispatch table of a running forwarder: which worker owns which names
///
/// Names are dispatched by the hash of their first components, through a table of 65,536 entries.
#[derive(Args, Debug)]
pub(super) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Show the load of the workers and the entries with the highest load
    ///
    /// Load is the number of sampled packets in the last seconds. For each entry: the worker that owns it, the previous
    /// owner while exchanges that began there are pending, and the number of components that its names are dispatched
    /// by, if the entry was split.
    List {
        /// Show all entries that the forwarder reports, not only the busiest ten
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Move a name, and all names of the same entry, to a worker
    ///
    /// An entry contains the names with the same first components (`ndt list` shows how many), and others with the same
    /// hash. The balancer may move the entry again.
    Set {
        /// The name, with at least as many components as the dispatch depth
        #[arg(value_parser = name)]
        name: Name,
        /// Number of the worker, from 0
        worker: u8,
        #[command(flatten)]
        common: Common,
    },
    /// Balance the load of the workers now
    Balance(Common),
}

#[derive(Args, Debug)]
struct Common {
    #[command(flatten)]
    control: ControlOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Outcome {
    let (Action::List { common, .. } | Action::Balance(common) | Action::Set { common, .. }) =
        &options.action;
    let mut client = common.control.connect()?;
    let dispatch = match &options.action {
        Action::List { .. } => client.dispatch(),
        Action::Balance(_) => client.balance_dispatch(),
        Action::Set { name, worker, .. } => client.set_dispatch(name.clone(), *worker),
    }?;
    if let Action::Set { name, .. } = &options.action {
        warn_of_short_name(name, dispatch.depth);
    }
    if common.json {
        let value = serde_json::to_value(&dispatch);
        output::print_json(&value.map_err(|error| Failure::Failed(error.to_string()))?)?;
        return Ok(());
    }
    match &options.action {
        Action::List { all, .. } => print(&dispatch, *all),
        Action::Set { name, worker, .. } => {
            let below =
                if name.components().count() < dispatch.depth { "" } else { "and names below it " };
            let prefix = name.as_ref().prefix(dispatch.depth).to_uri();
            Ok(output::print_line(&format!("{prefix} {below}assigned to worker {worker}"))?)
        }
        Action::Balance(_) => {
            let Dispatch { moved, split, .. } = dispatch;
            let text = match (moved, split) {
                (0, 0) => "no entries moved: the load is balanced, or there is none".to_owned(),
                _ => format!("entries moved to other workers: {moved}, split: {split}"),
            };
            Ok(output::print_line(&text)?)
        }
    }
}

/// Names below a name that is shorter than the dispatch depth have entries of their own.
fn warn_of_short_name(name: &Name, depth: usize) {
    let count = name.components().count();
    if count < depth {
        output::warn(&format!(
            "{name} has {}, but names are dispatched by {depth}: only packets \
             for exactly this name are moved, none of those below it",
            counted(count as u64, "component")
        ));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a percentage for display")]
fn share(load: u64, total: u64) -> String {
    format!("{:.1} %", load as f64 * 100.0 / total.max(1) as f64)
}

fn print(dispatch: &Dispatch, all: bool) -> Outcome {
    output::print_line(&format!(
        "names are dispatched by {} components, the first ones; load is packets of late, counted \
         by sample.",
        dispatch.depth
    ))?;
    let total = dispatch.loads.iter().sum();
    let mut loads = Table::new(&["WORKER", ">LOAD", ">SHARE"]);
    for (worker, load) in dispatch.loads.iter().enumerate() {
        loads.row(vec![worker.to_string(), grouped(*load), share(*load, total)]);
    }
    loads.print("no workers")?;
    let shown =
        if all { dispatch.entries.len() } else { ENTRIES_SHOWN.min(dispatch.entries.len()) };
    let mut entries =
        Table::new(&[">ENTRY", "WORKER", ">LOAD", ">SHARE", "MOVES FROM", "SPLIT BY"]);
    for entry in &dispatch.entries[..shown] {
        let load = u64::from(entry.load);
        entries.row(vec![
            entry.entry.to_string(),
            entry.worker.to_string(),
            grouped(load),
            share(load, total),
            entry.previous.map_or_else(|| "-".to_owned(), |worker| format!("worker {worker}")),
            entry.depth.map_or_else(|| "-".to_owned(), |depth| format!("{depth} components")),
        ]);
    }
    entries.print("no entry has load, and none was moved")?;
    if shown < dispatch.entries.len() {
        let more = dispatch.entries.len() - shown;
        output::print_line(&format!("and {more} with less (--all, --json)"))?;
    }
    Ok(())
}
