//! `fio` with the pattern of the bench.

use std::process::Command;

use serde::Serialize;
use serde_json::Value;

use super::options::DiskOptions;

/// Reads at random by `fio`, per second.
#[derive(Debug, Clone, Serialize)]
pub struct FioReport {
    /// Reads per second, in the way in which the forwarder read: by one thread and io_uring, or by threads that read one block
    /// at a time.
    pub iops: f64,
    /// Bytes of a read.
    pub block_bytes: usize,
}

/// Bytes that are read for most packets.
pub(super) fn block_bytes(packet_bytes: usize) -> usize {
    (packet_bytes + 32).next_multiple_of(4096)
}

/// Runs `fio` on the file, which reads by io_uring if there are no `threads`; `None` without it.
pub(super) fn run(
    options: &DiskOptions,
    threads: Option<usize>,
    block: usize,
    note: &mut impl FnMut(String),
) -> Option<FioReport> {
    let engine = match threads {
        Some(threads) => format!("--ioengine=psync --thread --numjobs={threads}"),
        None => format!("--ioengine=io_uring --iodepth={}", options.depth),
    };
    let iops = measure(options, block, &engine);
    if iops.is_none() {
        note("fio is not installed, or failed".to_owned());
    }
    Some(FioReport { iops: iops?, block_bytes: block })
}

fn measure(options: &DiskOptions, block: usize, engine: &str) -> Option<f64> {
    let mut command = Command::new("fio");
    command.args(["--name=disk", "--rw=randread", "--direct=1", "--readonly", "--time_based"]);
    command.args(["--group_reporting", "--output-format=json", "--allow_file_create=0"]);
    command.arg(format!("--filename={}", options.path.display()));
    command.arg(format!("--bs={block}")).arg(format!("--size={}", options.bytes));
    command.arg(format!("--runtime={}ms", options.duration.as_millis()));
    command.args(engine.split(' '));
    let ended = command.output().ok().filter(|ended| ended.status.success())?;
    let text = String::from_utf8(ended.stdout).ok()?;
    let json: Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    json["jobs"][0]["read"]["iops"].as_f64()
}
