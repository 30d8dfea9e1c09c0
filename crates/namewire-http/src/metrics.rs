//! `/metrics`: the counters of the forwarder for Prometheus.
//!
//! Counters that are declared with `ndn_types::counters!` appear by themselves, under the name, unit and help text of
//! the declaration. The number of series is bounded: labels have values of enumerations, numbers of workers, and
//! FaceIds of at most [`FACES_MAX`] faces that were created by configuration or command.

use std::time::Duration;

use namewire_control::{LinkCounters, Operations, WorkerStatistics};
use ndn_counters::LinkDropReason;
use ndn_forwarding::DropReason;
use ndn_management::{
    CallError, Dataset, FACE_ID_RESERVED_MAX, FaceQueryFilter, FaceStatus, Management,
};
use ndn_types::{CounterValues, Persistency};
use ndn_webtransport::WebTransportValues;
use rustix::time::{ClockId, clock_gettime};

use crate::calls::ManagementBy;
use crate::counters::HttpValues;
use crate::exposition::{Exposition, Format, Type, seconds};

/// Maximum number of faces with metrics of their own.
pub(crate) const FACES_MAX: usize = 256;
/// Upper bounds of the sizes of bursts.
const BURST_BOUNDS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Reads everything and writes it as text.
///
/// # Errors
/// The forwarder does not answer; the text is the reason.
pub(crate) fn metrics(
    operations: &dyn Operations,
    http: HttpValues,
    format: Format,
) -> Result<String, String> {
    let mut out = Exposition::new(format);
    write_forwarder(&mut out, operations)?;
    write_workers(&mut out, &operations.statistics()?.workers);
    write_tables(&mut out, operations)?;
    write_faces(&mut out, operations)?;
    write_listeners(&mut out, operations)?;
    write_process(&mut out);
    out.declared("namewire_http", &[(&[], http)]);
    Ok(out.finish())
}

fn write_forwarder(out: &mut Exposition, operations: &dyn Operations) -> Result<(), String> {
    let status = ManagementBy(operations).status().map_err(|error| error.to_string())?;
    let version = env!("CARGO_PKG_VERSION");
    out.family("namewire_build_info", Type::Gauge, "Version of the program; always 1.");
    out.sample(&[("version", version)], 1);
    let help = "Start of the forwarder, in seconds since 1970.";
    let start = seconds(status.start_timestamp_ms.saturating_mul(1_000_000));
    out.single("namewire_start_time_seconds", Type::Gauge, help, start);
    let help = "Names with next hops.";
    out.single("namewire_fib_entries", Type::Gauge, help, status.fib_entries);
    let limit = operations.face_limit()?;
    out.single("namewire_faces", Type::Gauge, "Faces that count towards the limit.", limit.faces);
    let help = "Maximum number of faces (limits.faces).";
    out.single("namewire_faces_limit", Type::Gauge, help, limit.faces_max);
    let help =
        "Connections closed because the maximum number of faces, or a share of it, was reached.";
    out.single("namewire_faces_refused", Type::Counter, help, limit.refused);
    let waiting = operations.waiting_faces()?.len();
    let help = "Required faces that are missing: being created, or reconnected.";
    out.single("namewire_faces_waiting", Type::Gauge, help, waiting);
    Ok(())
}

fn write_workers(out: &mut Exposition, workers: &[WorkerStatistics]) {
    let numbers: Vec<String> = (0..workers.len()).map(|number| number.to_string()).collect();
    let labels: Vec<_> = numbers.iter().map(|number| [("worker", number.as_str())]).collect();
    out.declared("namewire_worker", &of_each(&labels, workers, |worker| worker.work));
    out.declared("namewire_worker", &of_each(&labels, workers, |worker| worker.calls));
    out.declared("namewire_worker", &of_each(&labels, workers, |worker| worker.pool));
    out.declared("namewire_worker", &of_each(&labels, workers, |worker| worker.shard));
    out.declared("namewire_worker", &of_each(&labels, workers, |worker| worker.exchange));
    let interests = of_each(&labels, workers, |worker| worker.interests);
    out.declared("namewire_worker_interests", &interests);
    let queued = of_each(&labels, workers, |worker| worker.queued_data);
    out.declared("namewire_worker_queued_data", &queued);
    let queued = of_each(&labels, workers, |worker| worker.queued_nacks);
    out.declared("namewire_worker_queued_nacks", &queued);
    let queued = of_each(&labels, workers, |worker| worker.queued_interests);
    out.declared("namewire_worker_queued_interests", &queued);
    out.declared("namewire_worker_disk", &of_each(&labels, workers, |worker| worker.disk));
    let help = "Packets dropped by the shard, by reason.";
    out.family("namewire_worker_dropped_packets", Type::Counter, help);
    for (worker, number) in workers.iter().zip(&numbers) {
        for reason in DropReason::ALL.map(DropReason::name) {
            let count = worker.drops.get(reason).copied().unwrap_or(0);
            out.sample(&[("worker", number), ("reason", reason)], count);
        }
    }
    let help = "Packets in the bursts given to the shard.";
    out.family("namewire_worker_burst_packets", Type::Histogram, help);
    for (worker, number) in workers.iter().zip(&numbers) {
        let buckets: Vec<_> = BURST_BOUNDS.into_iter().zip(worker.burst_sizes).collect();
        out.histogram(("worker", number), &buckets, worker.work.packets);
    }
}

/// One set of counters of each worker, with its labels.
fn of_each<'a, V>(
    labels: &'a [[(&'a str, &'a str); 1]],
    workers: &[WorkerStatistics],
    set: impl Fn(&WorkerStatistics) -> V,
) -> Vec<(&'a [(&'a str, &'a str)], V)> {
    labels.iter().map(<[_; 1]>::as_slice).zip(workers.iter().map(set)).collect()
}

fn write_tables(out: &mut Exposition, operations: &dyn Operations) -> Result<(), String> {
    let ledger = operations.limits()?;
    let help = "Places of a table, or bytes of memory, that principals share.";
    out.family("namewire_table_capacity", Type::Gauge, help);
    for (table, status) in &ledger.tables {
        out.sample(&[("table", table)], status.capacity);
    }
    let help = "Places or bytes in use, by class of the principals that hold them.";
    out.family("namewire_table_used", Type::Gauge, help);
    for (table, status) in &ledger.tables {
        for (class, used) in &status.used_by_class {
            out.sample(&[("table", table), ("class", class)], used);
        }
    }
    let help = "Places or bytes that the principals of a class can have at most, each.";
    out.family("namewire_table_share", Type::Gauge, help);
    for (table, status) in &ledger.tables {
        for (class, share) in &status.shares {
            out.sample(&[("table", table), ("class", class)], share);
        }
    }
    Ok(())
}

fn write_faces(out: &mut Exposition, operations: &dyn Operations) -> Result<(), String> {
    let faces = permanent_faces(operations).map_err(|error| error.to_string())?;
    let (shown, omitted) = faces.split_at(faces.len().min(FACES_MAX));
    let help =
        "Permanent and persistent faces without metrics of their own: those above the first 256.";
    out.single("namewire_faces_omitted", Type::Gauge, help, omitted.len());
    let links = links_of(operations, shown)?;
    let numbers: Vec<_> =
        links.iter().map(|(face, _)| face.properties.face_id.to_string()).collect();
    let help = "Remote URI and persistency of a face; always 1.";
    out.family("namewire_face_info", Type::Gauge, help);
    for ((face, _), number) in links.iter().zip(&numbers) {
        let properties = &face.properties;
        let persistency = properties.persistency.as_str();
        let labels = [("face", number.as_str()), ("remote", &properties.remote_uri)];
        out.sample(&[labels[0], labels[1], ("persistency", persistency)], 1);
    }
    out.family("namewire_face_up", Type::Gauge, "Whether a face is up.");
    for ((_, link), number) in links.iter().zip(&numbers) {
        out.sample(&[("face", number)], u8::from(link.down.is_none()));
    }
    let labels: Vec<_> = numbers.iter().map(|number| [("face", number.as_str())]).collect();
    let counters = links.iter().map(|(_, link)| link.counters);
    let counters: Vec<_> = labels.iter().map(<[_; 1]>::as_slice).zip(counters).collect();
    out.declared("namewire_face", &counters);
    let help = "Frames and packets dropped by a face, by reason; reasons that never occurred are left out.";
    out.family("namewire_face_dropped_packets", Type::Counter, help);
    for ((_, link), number) in links.iter().zip(&numbers) {
        for reason in LinkDropReason::ALL.map(LinkDropReason::name) {
            if let Some(count) = link.drops.get(reason) {
                out.sample(&[("face", number), ("reason", reason)], count);
            }
        }
    }
    Ok(())
}

/// The faces that were created by configuration or command, in the order of their FaceIds.
fn permanent_faces(operations: &dyn Operations) -> Result<Vec<FaceStatus>, CallError> {
    let mut faces = Vec::new();
    for persistency in [Persistency::Permanent, Persistency::Persistent] {
        let persistency = Some(persistency.number());
        let filter = FaceQueryFilter { persistency, ..FaceQueryFilter::default() };
        let found = ManagementBy(operations).dataset::<FaceStatus>(&Dataset::FaceQuery(filter))?;
        faces.extend(found);
    }
    faces.retain(|face| face.properties.face_id > FACE_ID_RESERVED_MAX);
    faces.sort_unstable_by_key(|face| face.properties.face_id);
    Ok(faces)
}

/// The link counters of `faces`. Faces that have gone meanwhile are left out.
pub(crate) fn links_of<'a>(
    operations: &dyn Operations,
    faces: &'a [FaceStatus],
) -> Result<Vec<(&'a FaceStatus, LinkCounters)>, String> {
    let mut links = Vec::with_capacity(faces.len());
    let mut rest = faces;
    while let Some(first) = rest.first() {
        let mut found = operations.links(first.properties.face_id.checked_sub(1))?;
        let Some(covered) = found.keys().next_back().copied() else { break };
        let count = rest.partition_point(|face| face.properties.face_id <= covered);
        let (read, more) = rest.split_at(count.max(1));
        for face in read {
            links.extend(found.remove(&face.properties.face_id).map(|link| (face, link)));
        }
        rest = more;
    }
    Ok(links)
}

fn write_listeners(out: &mut Exposition, operations: &dyn Operations) -> Result<(), String> {
    let webtransport = operations.webtransport()?;
    if !webtransport.addresses.is_empty() {
        let mut values = WebTransportValues::default();
        for (info, value) in values.entries() {
            *value = webtransport.counters.get(info.name).copied().unwrap_or(0);
        }
        out.declared("namewire_webtransport", &[(&[], values)]);
    }
    let memif = operations.memif()?;
    if memif.is_listening {
        out.single("namewire_memif_clients", Type::Gauge, "Faces of memif clients.", memif.clients);
        let help = "Shared memory of memif clients.";
        out.single("namewire_memif_memory_bytes", Type::Gauge, help, memif.memory_bytes);
        let help = "Limit of the shared memory of memif clients.";
        out.single("namewire_memif_memory_limit_bytes", Type::Gauge, help, memif.memory_bytes_max);
        out.family("namewire_memif_refused", Type::Counter, "Rejected memif clients, by reason.");
        for (reason, count) in &memif.refused {
            out.sample(&[("reason", reason)], count);
        }
    }
    Ok(())
}

/// Processor time of the whole process, under the name that Prometheus' clients use.
fn write_process(out: &mut Exposition) {
    let help = "Processor time of the process.";
    let time = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
    let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    out.single("process_cpu_seconds", Type::Counter, help, seconds(nanoseconds));
}
