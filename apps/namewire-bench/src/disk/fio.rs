//! `fio` with the pattern of the bench.

use std::process::Command;

use serde::Serialize;
use serde_json::Value;

use super::options::DiskOptions;

/// Reads at random by `fio`, per second.
#[derive(Debug, Clone, Serialize)]
pub struct FioReport {
    /// By threads that read one block at a time, as the forwarder does.
    pub threads_iops: f64,
    /// By one thread with io_uring and as many reads in progress; `None` if the kernel refuses io_uring.
    pub uring_iops: Option<f64>,
    /// Bytes of a read.
    pub block_bytes: usize,
}

/// Bytes that are read for most packets.
pub(super) fn block_bytes(packet_bytes: usize) -> usize {
    (packet_bytes + 32).next_multiple_of(4096)
}

/// Runs `fio` on the file; `None` without it.
pub(super) fn run(
    options: &DiskOptions,
    block: usize,
    note: &mut impl FnMut(String),
) -> Option<FioReport> {
    let threads = options.threads.to_string();
    let depth = options.depth.to_string();
    let by_threads =
        measure(options, block, &["--ioengine=psync", "--thread", "--numjobs", &threads]);
    let Some(threads_iops) = by_threads else {
        note("fio is not installed, or failed".to_owned());
        return None;
    };
    let uring_iops = measure(options, block, &["--ioengine=io_uring", "--iodepth", &depth]);
    Some(FioReport { threads_iops, uring_iops, block_bytes: block })
}

fn measure(options: &DiskOptions, block: usize, more: &[&str]) -> Option<f64> {
    let mut command = Command::new("fio");
    command.args(["--name=disk", "--rw=randread", "--direct=1", "--readonly", "--time_based"]);
    command.args(["--group_reporting", "--output-format=json", "--allow_file_create=0"]);
    command.arg(format!("--filename={}", options.path.display()));
    command.arg(format!("--bs={block}")).arg(format!("--size={}", options.bytes));
    command.arg(format!("--runtime={}ms", options.duration.as_millis())).args(more);
    let ended = command.output().ok().filter(|ended| ended.status.success())?;
    let text = String::from_utf8(ended.stdout).ok()?;
    let json: Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    json["jobs"][0]["read"]["iops"].as_f64()
}
