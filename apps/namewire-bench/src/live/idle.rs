//! What a forwarder costs that has nothing to do.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::Serialize;

use super::Live;
use crate::Machine;
use crate::relay::clock;

/// How to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleOptions {
    /// Workers of the forwarder.
    pub workers: usize,
    /// Connected applications that say nothing.
    pub faces: usize,
    /// For how long.
    pub duration: Duration,
}

impl Default for IdleOptions {
    fn default() -> Self {
        Self { workers: 2, faces: 100, duration: Duration::from_secs(20) }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdleReport {
    /// Where.
    pub machine: Machine,
    /// Workers of the forwarder.
    pub workers: usize,
    /// Silent faces.
    pub faces: usize,
    /// How long it was watched.
    pub seconds: f64,
    /// CPU time that it took meanwhile, the kernel's included.
    pub cpu_ms: f64,
    /// The same as a part of one processor.
    pub cpu_share: f64,
}

/// Starts a forwarder, connects the faces, and waits.
///
/// # Errors
/// When the forwarder cannot be started, or a face not be connected.
pub fn run_idle(options: &IdleOptions) -> anyhow::Result<IdleReport> {
    let live = Live::start(options.workers)?;
    let connect = |_| UnixStream::connect(live.socket());
    let silent: Vec<UnixStream> = (0..options.faces).map(connect).collect::<Result<_, _>>()?;
    // Faces are made, and what the start has left to do is done.
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
