//! Options of the bench.

use std::path::PathBuf;
use std::time::Duration;

/// Options of the bench.
#[derive(Debug, Clone)]
pub struct DiskOptions {
    /// The file, which is created and removed, or a block device that is blank or was formatted for this.
    pub path: PathBuf,
    /// Bytes of it.
    pub bytes: u64,
    /// Length of a packet.
    pub packet_bytes: usize,
    /// Packets offered, in multiples of those that the disk holds.
    pub rounds: f64,
    /// Reads in progress.
    pub depth: usize,
    /// Threads that read, in place of io_uring.
    pub threads: Option<usize>,
    /// Time of the reads.
    pub duration: Duration,
}

impl DiskOptions {
    /// Turns in which packets are read, and blocks by `fio`.
    pub const TURNS: u32 = 3;
}
