//! `namewire ndt`: which worker of a running forwarder has which names.

use clap::{Args, Subcommand};

use super::control::ControlOptions;
use super::failure::{Failure, Outcome};
use super::output::{self, Table, grouped};
use crate::control_socket::{Dispatch, Request};

/// Show or change which worker of a running forwarder has which names
///
/// Names are dispatched by the hash of their first components, through a table of 65,536 entries.
#[derive(Args, Debug)]
pub(super) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Show the load of the workers, and the entries that have most of it
    List(Common),
    /// Give the entry of a name to a worker
    Set {
        /// The name
        name: String,
        /// The number of the worker
        worker: u8,
        #[command(flatten)]
        common: Common,
    },
    /// Even out the load of the workers now
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
    let (common, request) = match &options.action {
        Action::List(common) => (common, Request::NdtList),
        Action::Balance(common) => (common, Request::NdtBalance),
        Action::Set { name, worker, common } => {
            (common, Request::NdtSet { name: name.clone(), worker: *worker })
        }
    };
    let mut client = common.control.connect()?;
    let dispatch: Dispatch =
        client.call(&request).map_err(|error| Failure::Failed(error.to_string()))?;
    if common.json {
        let value = serde_json::to_value(&dispatch);
        output::print_json(&value.map_err(|error| Failure::Failed(error.to_string()))?)?;
        return Ok(());
    }
    if request == Request::NdtList {
        return print(&dispatch);
    }
    let Dispatch { moved, split, .. } = dispatch;
    output::print_line(&format!("entries moved: {moved}, split: {split}"))?;
    Ok(())
}

fn print(dispatch: &Dispatch) -> Outcome {
    let depth = u64::try_from(dispatch.depth).unwrap_or(u64::MAX);
    output::print_line(&format!(
        "names are dispatched by {}",
        output::counted(depth, "component")
    ))?;
    let mut loads = Table::new(&["worker", "load"]);
    for (worker, load) in dispatch.loads.iter().enumerate() {
        loads.row(vec![worker.to_string(), grouped(*load)]);
    }
    loads.print("no workers")?;
    let mut entries = Table::new(&["entry", "worker", "before", "depth", "load"]);
    let shown = |number: Option<u8>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    for entry in &dispatch.entries {
        entries.row(vec![
            entry.entry.to_string(),
            entry.worker.to_string(),
            shown(entry.previous),
            shown(entry.depth),
            grouped(u64::from(entry.load)),
        ]);
    }
    entries.print("no entry has any load, and none was moved")?;
    Ok(())
}
