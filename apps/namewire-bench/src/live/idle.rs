//! CPU time of an idle forwarder.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::Serialize;

use super::Live;
use crate::relay::clock;
use ndn_pipeline_bench::Machine;

/// Options of the measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleOptions {
    /// Workers of the forwarder.
    pub workers: usize,
    /// Connected applications that send nothing.
    pub faces: usize,
    /// Duration.
    pub duration: Duration,
}

impl Default for IdleOptions {
    fn default() -> Self {
        Self { workers: 2, faces: 100, duration: Duration::from_secs(20) }
    }
}

/// Result of the measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdleReport {
    /// The machine.
    pub machine: Machine,
    /// Workers of the forwarder.
    pub workers: usize,
    /// Silent faces.
    pub faces: usize,
    /// Duration of the measurement.
    pub seconds: f64,
    /// CPU time of the forwarder, including the kernel.
    pub cpu_ms: f64,
    /// The same as a share of one processor.
    pub cpu_share: f64,
}

/// Starts a forwarder, connects the faces, and waits.
///
/// # Errors
/// The forwarder cannot be started, or a face cannot be connected.
pub fn run_idle(options: &IdleOptions) -> anyhow::Result<IdleReport> {
    let live = Live::start(options.workers)?;
    let connect = |_| UnixStream::connect(live.socket());
    let silent: Vec<UnixStream> = (0..options.faces).map(connect).collect::<Result<_, _>>()?;
    // Faces are created and the start is complete.
    clock::pause(Duration::from_secs(1));
    let process = live.forwarder.id();
    let (begin, before) = (clock::monotonic_ns(), ndn_sys::cpu::process_time(process)?);
    clock::pause(options.duration);
    let (end, after) = (clock::monotonic_ns(), ndn_sys::cpu::process_time(process)?);
    let seconds = Duration::from_nanos(end - begin).as_secs_f64();
    let used = after.saturating_sub(before).as_secs_f64();
    Ok(IdleReport {
        machine: Machine::read(),
        workers: options.workers,
        faces: silent.len(),
        seconds,
        cpu_ms: used * 1e3,
        cpu_share: used / seconds,
    })
}
