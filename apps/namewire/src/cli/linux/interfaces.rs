//! `namewire interfaces`: network interfaces and the drivers for them.

use clap::Args;
use namewire_control::NetworkInterface;
use namewire_daemon::network_interfaces::network_interfaces;

use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{self, Table};

/// Show network interfaces and the drivers that Namewire can use on them
///
/// For each interface: carrier, MAC address, MTU, queues, NUMA node, available drivers, and the driver that Namewire
/// would use and why. For AF_XDP, the number of workers that can have queues of the interface is shown if it is more
/// than one; queues are assigned to workers in turn, and the forwarder's log shows the assignment. The command inspects
/// this machine with the rights of this user; it needs no forwarder.
#[derive(Args, Debug)]
pub(in crate::cli) struct Options {
    /// Show only this interface
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(options: &Options) -> Outcome {
    let mut all = network_interfaces().map_err(Failure::Failed)?;
    if let Some(name) = &options.name {
        all.retain(|found| found.name == *name);
        if all.is_empty() {
            return Err(Failure::Failed(format!("there is no network interface {name}")));
        }
    }
    if options.json {
        return Ok(output::print_json(&serde_json::json!(all))?);
    }
    let headings = [
        "INTERFACE",
        "LINK",
        "MAC",
        ">MTU",
        ">QUEUES",
        ">NODE",
        "DRIVERS",
        "AF_XDP",
        "PICK",
        "WHY",
    ];
    let mut table = Table::new(&headings);
    for found in all {
        let NetworkInterface { receive_queues: receive, transmit_queues: transmit, .. } = found;
        let dash = || "-".to_owned();
        let af_xdp = found.af_xdp;
        table.row(vec![
            found.name,
            found.link,
            found.mac.unwrap_or_else(dash),
            found.mtu_bytes.to_string(),
            if receive == transmit { receive.to_string() } else { format!("{receive}/{transmit}") },
            found.numa_node.map_or_else(dash, |node| node.to_string()),
            if found.drivers.is_empty() { dash() } else { found.drivers.join(" ") },
            match af_xdp.workers_max {
                _ if af_xdp.program.is_some() => "in use".to_owned(),
                workers if workers > 1 => format!("{}, {workers} workers", af_xdp.kernel),
                _ => af_xdp.kernel,
            },
            found.pick.unwrap_or_else(dash),
            found.why,
        ]);
    }
    Ok(table.print("no network interfaces")?)
}
