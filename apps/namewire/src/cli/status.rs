//! `namewire status`: the state of a forwarder at a glance.

use clap::Args;
use ndn_management::{ChannelStatus, CsInfo, Dataset, FaceStatus, ForwarderStatus};
use serde_json::json;

use super::connect::{ConnectOptions, block_on};
use super::failure::Outcome;
use super::output::{self, grouped, span_for_people};

/// Show the state of a forwarder: version, tables, counters
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectOptions,
}

pub(super) fn run(options: &Options) -> Outcome {
    block_on(async {
        let endpoint = options.connect.open().await?;
        let status = endpoint.management().forwarder_status().await?;
        let faces: Vec<FaceStatus> = endpoint.management().dataset(&Dataset::FaceList).await?;
        let channels: Vec<ChannelStatus> =
            endpoint.management().dataset(&Dataset::ChannelList).await?;
        let cs = endpoint.management().cs_info().await?;
        if options.json {
            print_json(&status, &faces, &channels, &cs)
        } else {
            print(&status, &faces, &channels, &cs)
        }
    })
}

fn print(
    status: &ForwarderStatus,
    faces: &[FaceStatus],
    channels: &[ChannelStatus],
    cs: &CsInfo,
) -> Outcome {
    let counters = &status.counters;
    let uptime_ms = status.current_timestamp_ms.saturating_sub(status.start_timestamp_ms);
    let pair = |received: u64, sent: u64| {
        format!("{} received, {} sent", grouped(received), grouped(sent))
    };
    let mut fields = vec![
        ("version", status.version.clone()),
        ("up", span_for_people(uptime_ms)),
        ("faces", grouped(faces.len().try_into().unwrap_or(u64::MAX))),
        ("FIB entries", grouped(status.fib_entries)),
        ("PIT entries", grouped(status.pit_entries)),
        ("CS entries", grouped(status.cs_entries)),
    ];
    fields.extend([
        ("CS capacity", grouped(cs.capacity)),
        ("CS lookups", format!("{} hits, {} misses", grouped(cs.hits), grouped(cs.misses))),
        ("Interests", pair(counters.in_interests, counters.out_interests)),
        ("Data", pair(counters.in_data, counters.out_data)),
        ("Nacks", pair(counters.in_nacks, counters.out_nacks)),
        ("satisfied", grouped(counters.satisfied_interests)),
        ("unsatisfied", grouped(counters.unsatisfied_interests)),
    ]);
    for channel in channels {
        fields.push(("listens on", channel.local_uri.clone()));
    }
    Ok(output::print_fields(&fields)?)
}

fn print_json(
    status: &ForwarderStatus,
    faces: &[FaceStatus],
    channels: &[ChannelStatus],
    cs: &CsInfo,
) -> Outcome {
    let counters = &status.counters;
    Ok(output::print_json(&json!({
        "version": status.version,
        "start_timestamp_ms": status.start_timestamp_ms,
        "current_timestamp_ms": status.current_timestamp_ms,
        "face_count": faces.len(),
        "fib_entries": status.fib_entries,
        "pit_entries": status.pit_entries,
        "cs_entries": status.cs_entries,
        "name_tree_entries": status.name_tree_entries,
        "measurements_entries": status.measurements_entries,
        "counters": {
            "in_interests": counters.in_interests,
            "in_data": counters.in_data,
            "in_nacks": counters.in_nacks,
            "out_interests": counters.out_interests,
            "out_data": counters.out_data,
            "out_nacks": counters.out_nacks,
            "satisfied_interests": counters.satisfied_interests,
            "unsatisfied_interests": counters.unsatisfied_interests,
        },
        "cs": super::cs::json(cs),
        "channels": channels.iter().map(|channel| &channel.local_uri).collect::<Vec<_>>(),
    }))?)
}
