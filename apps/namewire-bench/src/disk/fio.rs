//! `fio` with the pattern of the bench.

use std::process::Command;

use ndn_disk::{BLOCK, Record, UNIT};
use serde::Serialize;
use serde_json::Value;

use super::options::DiskOptions;

/// Reads at random by `fio`, per second.
#[derive(Debug, Clone, Serialize)]
pub struct FioReport {
    /// Reads per second, in the way in which the forwarder read: by one thread and io_uring, or by threads that read one block
    /// at a time.
    pub iops: f64,
    /// Bytes of most reads.
    pub block_bytes: usize,
    /// Share of the reads that are one block longer, percent.
    pub longer_percent: usize,
}

/// Lengths of the reads of packets of one length, which begin at any unit of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadLengths {
    block_bytes: usize,
    longer_percent: usize,
}

impl ReadLengths {
    pub(super) fn of(packet_bytes: usize) -> Self {
        let length = Record::units_of(packet_bytes) * UNIT;
        let block_bytes = length.next_multiple_of(BLOCK);
        let places = BLOCK / UNIT;
        let longer = (0..places).filter(|place| place * UNIT + length > block_bytes).count();
        Self { block_bytes, longer_percent: longer * 100 / places }
    }
}

/// Runs `fio` on the file, which reads by io_uring if there are no `threads`; `None` without it.
pub(super) fn run(
    options: &DiskOptions,
    threads: Option<usize>,
    lengths: ReadLengths,
    note: &mut impl FnMut(String),
) -> Option<FioReport> {
    let engine = match threads {
        Some(threads) => format!("--ioengine=psync --thread --numjobs={threads}"),
        None => format!("--ioengine=io_uring --iodepth={}", options.depth),
    };
    let iops = measure(options, lengths, &engine);
    if iops.is_none() {
        note("fio is not installed, or failed".to_owned());
    }
    let ReadLengths { block_bytes, longer_percent } = lengths;
    Some(FioReport { iops: iops?, block_bytes, longer_percent })
}

fn measure(options: &DiskOptions, lengths: ReadLengths, engine: &str) -> Option<f64> {
    let mut command = Command::new("fio");
    command.args(["--name=disk", "--rw=randread", "--direct=1", "--readonly", "--time_based"]);
    command.args(["--group_reporting", "--output-format=json", "--allow_file_create=0"]);
    command.arg(format!("--filename={}", options.path.display()));
    let ReadLengths { block_bytes: bytes, longer_percent: longer } = lengths;
    command.arg(format!("--bssplit={bytes}/{}:{}/{longer}", 100 - longer, bytes + BLOCK));
    command.arg(format!("--blockalign={BLOCK}")).arg(format!("--size={}", options.bytes));
    command.arg(format!("--runtime={}ms", (options.duration / DiskOptions::TURNS).as_millis()));
    command.args(engine.split(' '));
    let ended = command.output().ok().filter(|ended| ended.status.success())?;
    let text = String::from_utf8(ended.stdout).ok()?;
    let json: Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    json["jobs"][0]["read"]["iops"].as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_longer_where_a_packet_crosses_a_block() {
        let lengths = |block_bytes, longer_percent| ReadLengths { block_bytes, longer_percent };
        assert_eq!(ReadLengths::of(1100), lengths(4096, 26));
        assert_eq!(ReadLengths::of(8000), lengths(8192, 95));
        assert_eq!(ReadLengths::of(1), lengths(4096, 0));
    }
}
