//! `dpdk-testpmd` as the dumb relay: it copies frames from each of two ports to the other.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::link::{Link, MTU, Side};
use super::programs::Addresses;

/// What it says when it runs.
pub(super) const READY: &str = "Press enter to exit";
/// Room for a frame in its ring: the least power of two that holds the longest.
const FRAME_LENGTH: usize = (MTU + 128).next_power_of_two();
/// Buffers for frames: each has to hold what a place in the ring can, and the headroom.
const BUFFERS: usize = 8192;
const BUFFER_LENGTH: usize = FRAME_LENGTH + 256;
/// Of the rings: a block holds several frames.
const BLOCK_LENGTH: usize = 4 * FRAME_LENGTH;
const FRAMES: usize = 2048;
const DESCRIPTORS: usize = 1024;

/// Relays between the devices of the link, on the first of these processors.
///
/// # Errors
/// Without a link or a processor.
pub(super) fn command(
    executable: &Path,
    addresses: &Addresses,
    cpus: &[usize],
) -> anyhow::Result<Command> {
    let link = addresses.link.as_ref().context("testpmd takes devices")?;
    let cpu = cpus.first().context("testpmd takes a processor")?;
    // So that what it says can be read when it says it.
    let mut command = link.inside("stdbuf");
    command.arg("-oL").arg(executable);
    // The first of the two threads only waits.
    command.arg("--lcores").arg(format!("0@{cpu},1@{cpu}"));
    // Several may run at once.
    command.arg(format!("--file-prefix=namewire-bench-{}-{}", std::process::id(), link.number()));
    command.args(["--no-huge", "-m", "512", "--no-pci", "--no-shconf", "--no-telemetry"]);
    for (number, side) in [Side::Consumer, Side::Producer].into_iter().enumerate() {
        let device = Link::far_device(side);
        command.arg(format!(
            "--vdev=net_af_packet{number},iface={device},\
             blocksz={BLOCK_LENGTH},framesz={FRAME_LENGTH},framecnt={FRAMES}"
        ));
    }
    command.args(["--", "--forward-mode=io", "--auto-start", "--nb-cores=1"]);
    command.arg(format!("--total-num-mbufs={BUFFERS}"));
    command.arg(format!("--mbuf-size={BUFFER_LENGTH}"));
    command.arg(format!("--rxd={DESCRIPTORS}")).arg(format!("--txd={DESCRIPTORS}"));
    Ok(command)
}
