//! `namewire status`: the state of a forwarder.

use std::collections::BTreeMap;

use clap::Args;
use ndn_management::{ChannelStatus, CsInfo, Dataset, FaceStatus, ForwarderStatus};
use ndn_types::{CounterKind, CounterValues, Unit};
use serde_json::json;

use super::connect::{ConnectOptions, block_on};
use super::control_queries;
use super::face::down_for_people;
use super::failure::Outcome;
use super::output::{self, bytes_for_people, counted, grouped, span_for_people};
use crate::config::text::transport_uri;
use namewire_control::{
    FaceLimit, LinkCounters, LinkDown, MemifStatus, WaitingFace, WorkerStatistics,
};

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
        let endpoint = options.connect.open_as_operator().await?;
        let status = endpoint.management().forwarder_status().await?;
        let faces: Vec<FaceStatus> = endpoint.management().dataset(&Dataset::FaceList).await?;
        let channels: Vec<ChannelStatus> =
            endpoint.management().dataset(&Dataset::ChannelList).await?;
        let cs = endpoint.management().cs_info().await?;
        let links = control_queries::links(&endpoint);
        let found = Found {
            status,
            down: down(&faces, &links),
            ethernet: ethernet(&faces, &links),
            faces,
            channels,
            cs,
            workers: control_queries::workers(&endpoint),
            dropped: control_queries::dropped(&links),
            waiting: control_queries::waiting_faces(&endpoint),
            memif: control_queries::memif(&endpoint),
            limit: control_queries::face_limit(&endpoint),
        };
        if options.json { found.print_json() } else { found.print() }
    })
}

/// The state of a forwarder.
struct Found {
    status: ForwarderStatus,
    faces: Vec<FaceStatus>,
    channels: Vec<ChannelStatus>,
    cs: CsInfo,
    /// Empty without access to the control socket.
    workers: Vec<WorkerStatistics>,
    /// Packets dropped by the links of its faces, by reason.
    dropped: BTreeMap<String, u64>,
    /// Faces that are being created.
    waiting: Vec<WaitingFace>,
    /// The memif listener, if there is one.
    memif: Option<MemifStatus>,
    /// The limit of faces. Unknown without access to the control socket, as from another host.
    limit: Option<FaceLimit>,
    /// Permanent faces that are down.
    down: Vec<DownFace>,
    /// Network interfaces with Ethernet faces, by their names.
    ethernet: BTreeMap<String, Ethernet>,
}

/// A network interface with Ethernet faces.
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize)]
struct Ethernet {
    /// The driver, if the forwarder reports it.
    driver: Option<String>,
    faces: u64,
}

fn ethernet(
    faces: &[FaceStatus],
    links: &BTreeMap<u64, LinkCounters>,
) -> BTreeMap<String, Ethernet> {
    let mut interfaces: BTreeMap<String, Ethernet> = BTreeMap::new();
    for FaceStatus { properties, .. } in faces {
        let Some(interface) = properties.local_uri.strip_prefix("dev://") else { continue };
        let found = interfaces.entry(interface.to_owned()).or_default();
        found.faces += 1;
        let link = links.get(&properties.face_id);
        found.driver = found.driver.take().or_else(|| link?.driver.clone());
    }
    interfaces
}

/// A permanent face that is down.
struct DownFace {
    face_id: u64,
    remote_uri: String,
    down: LinkDown,
}

fn down(faces: &[FaceStatus], links: &BTreeMap<u64, LinkCounters>) -> Vec<DownFace> {
    let down = faces.iter().filter_map(|face| {
        let face_id = face.properties.face_id;
        let down = links.get(&face_id)?.down.clone()?;
        Some(DownFace { face_id, remote_uri: face.properties.remote_uri.clone(), down })
    });
    down.collect()
}

/// Blocks of packet memory, of 64 KiB each.
#[expect(clippy::cast_precision_loss, reason = "a size for display")]
fn blocks_to_mebibytes(blocks: u64) -> f64 {
    blocks as f64 / 16.0
}

#[expect(clippy::cast_precision_loss, reason = "a size for display")]
fn memif_for_people(memif: &MemifStatus) -> String {
    let MemifStatus { clients, memory_bytes, memory_bytes_max, refused, .. } = memif;
    let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let refused = refused.iter().map(|(reason, count)| {
        format!("; {} rejected, {}", grouped(*count), output::reason_in_words(reason))
    });
    format!(
        "{}, with {} of {}{}",
        grouped(*clients),
        mebibytes(*memory_bytes),
        mebibytes(*memory_bytes_max),
        refused.collect::<String>(),
    )
}

/// Rejected connections, if there are any.
fn refused_for_people(limit: Option<FaceLimit>) -> Option<String> {
    let limit = limit?;
    let FaceLimit { faces_max, refused, .. } = limit;
    let connections = (refused > 0)
        .then(|| format!("{}: limits.faces ({faces_max}) reached", counted(refused, "connection")));
    let full = limit.is_reached().then(|| "limit reached".to_owned());
    let parts: Vec<String> = [connections, full].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The sums of the counters that are declared with a label: states, and those that occurred.
fn labelled<T: CounterValues>(workers: impl Iterator<Item = T>) -> Vec<(&'static str, String)> {
    let mut sum = T::sum(workers);
    let entries = sum.entries().into_iter();
    let shown = entries.filter_map(|(info, value)| {
        let is_shown = info.kind == CounterKind::Gauge || *value > 0;
        Some((info.label.filter(|_| is_shown)?, amount(info.unit, *value)))
    });
    shown.collect()
}

/// A value with its unit.
fn amount(unit: Unit, value: u64) -> String {
    if unit == Unit::Blocks {
        format!("{:.1} MiB", blocks_to_mebibytes(value))
    } else {
        format!("{} {}", grouped(value), unit.name())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for display")]
fn per_call(frames: u64, calls: u64) -> f64 {
    frames as f64 / calls.max(1) as f64
}

impl Found {
    fn print(&self) -> Outcome {
        let Self {
            status,
            faces,
            channels,
            cs,
            workers,
            dropped,
            waiting,
            memif,
            limit,
            down,
            ethernet,
        } = self;
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
        let memory = control_queries::cs_bytes(workers);
        fields.extend(memory.map(|bytes| ("CS memory", bytes_for_people(bytes))));
        fields.extend([
            ("CS capacity", grouped(cs.capacity)),
            ("CS lookups", format!("{} hits, {} misses", grouped(cs.hits), grouped(cs.misses))),
            ("Interests", pair(counters.in_interests, counters.out_interests)),
            ("Data", pair(counters.in_data, counters.out_data)),
            ("Nacks", pair(counters.in_nacks, counters.out_nacks)),
            ("satisfied", grouped(counters.satisfied_interests)),
            ("unsatisfied", grouped(counters.unsatisfied_interests)),
        ]);
        if !workers.is_empty() {
            let sum =
                |figure: fn(&WorkerStatistics) -> u64| workers.iter().map(figure).sum::<u64>();
            fields.push((
                "frames per call",
                format!(
                    "{:.1} received, {:.1} sent",
                    per_call(
                        sum(|one| one.calls.received_frames),
                        sum(|one| one.calls.receive_calls)
                    ),
                    per_call(sum(|one| one.calls.sent_frames), sum(|one| one.calls.send_calls)),
                ),
            ));
            fields.extend(labelled(workers.iter().map(|one| one.pool)));
            fields.extend(labelled(workers.iter().map(|one| one.calls)));
            fields.extend(labelled(workers.iter().map(|one| one.work)));
        }
        if let Some(refused) = refused_for_people(*limit) {
            fields.push(("rejected", refused));
        }
        if !dropped.is_empty() {
            let reasons = dropped.iter().map(|(reason, count)| {
                format!("{} {}", grouped(*count), output::reason_in_words(reason))
            });
            fields.push(("dropped by faces", reasons.collect::<Vec<_>>().join(", ")));
        }
        if let Some(memif) = memif {
            fields.push(("memif clients", memif_for_people(memif)));
        }
        for DownFace { face_id, remote_uri, down } in down {
            fields.push((
                "down",
                format!("face {face_id} to {remote_uri}, {}", down_for_people(down)),
            ));
        }
        for face in waiting {
            fields.push(("being made", face.remote_uri.clone()));
        }
        for channel in channels {
            fields.push(("listens on", transport_uri(&channel.local_uri)));
        }
        for (interface, Ethernet { driver, faces }) in ethernet {
            let driver = driver.as_ref().map_or_else(String::new, |driver| format!(" by {driver}"));
            let faces = counted(*faces, "face");
            fields.push(("Ethernet", format!("{interface}{driver}, {faces}")));
        }
        Ok(output::print_fields(&fields)?)
    }

    fn print_json(&self) -> Outcome {
        let counters = &self.status.counters;
        Ok(output::print_json(&json!({
            "version": self.status.version,
            "start_timestamp_ms": self.status.start_timestamp_ms,
            "current_timestamp_ms": self.status.current_timestamp_ms,
            "face_count": self.faces.len(),
            "fib_entries": self.status.fib_entries,
            "pit_entries": self.status.pit_entries,
            "cs_entries": self.status.cs_entries,
            "name_tree_entries": self.status.name_tree_entries,
            "measurements_entries": self.status.measurements_entries,
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
            "cs": super::cs::json(&self.cs, control_queries::cs_bytes(&self.workers)),
            "channels": self.channels.iter().map(|channel| &channel.local_uri).collect::<Vec<_>>(),
            "workers": self.workers,
            "dropped_by_faces": self.dropped,
            "waiting_faces": self.waiting,
            "ethernet": self.ethernet,
            "memif": self.memif,
            "face_limit": self.limit,
            "down_faces": self.down.iter().map(|DownFace { face_id, remote_uri, down }| json!({
                "face_id": face_id,
                "remote_uri": remote_uri,
                "reason": down.reason,
                "for_ms": down.for_ms,
            })).collect::<Vec<_>>(),
        }))?)
    }
}
