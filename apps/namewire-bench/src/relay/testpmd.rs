//! `dpdk-testpmd` as the dumb relay: it passes frames from each of two ports to the other.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::Transport;
use super::link::{Link, MTU_MAX, Side};
use super::programs::{Addresses, Program};

/// What it says when it runs.
pub(super) const READY: &str = "Press enter to exit";
/// Room for a frame in its ring: the least power of two that holds the longest.
const FRAME_LENGTH: usize = (MTU_MAX + 128).next_power_of_two();
/// Buffers for frames: each has to hold what a place in the ring can, and the headroom.
const BUFFERS: usize = 8192;
const BUFFER_LENGTH: usize = FRAME_LENGTH + 256;
/// Of the rings: a block holds several frames.
const BLOCK_LENGTH: usize = 4 * FRAME_LENGTH;
const FRAMES: usize = 2048;
const DESCRIPTORS: usize = 1024;
/// A frame of AF_XDP lies in a buffer of the pool itself, of the usual length. Its rings hold more of
/// them.
const XDP_BUFFERS: usize = 16_384;
const XDP_BUFFER_LENGTH: usize = 2176;

/// Relays between the devices of the link, on the first of these processors.
///
/// # Errors
/// Without a link or a processor.
pub(super) fn command(
    executable: &Path,
    addresses: &Addresses,
    cpus: &[usize],
) -> anyhow::Result<Command> {
    let cpu = cpus.first().context("testpmd takes a processor")?;
    // So that what it says can be read when it says it.
    let mut command = addresses.command("stdbuf".as_ref());
    command.arg("-oL").arg(executable);
    // The first of the two threads only waits.
    command.arg("--lcores").arg(format!("0@{cpu},1@{cpu}"));
    // Several may run at once.
    let (pid, transport) = (std::process::id(), addresses.transport);
    command.arg(format!("--file-prefix=namewire-bench-{pid}-{}", transport.name()));
    command.args(["--no-huge", "-m", "512", "--no-pci", "--no-shconf", "--no-telemetry"]);
    for (number, side) in [Side::Consumer, Side::Producer].into_iter().enumerate() {
        command.arg(port(addresses, number, side));
    }
    command.args(["--", "--forward-mode=io", "--auto-start", "--nb-cores=1"]);
    let (buffers, length) = match transport {
        Transport::Xdp => (XDP_BUFFERS, XDP_BUFFER_LENGTH),
        Transport::Unix
        | Transport::Tcp
        | Transport::Udp
        | Transport::UdpVeth
        | Transport::Ether
        | Transport::Memif => (BUFFERS, BUFFER_LENGTH),
    };
    command.arg(format!("--total-num-mbufs={buffers}"));
    command.arg(format!("--mbuf-size={length}"));
    if transport == Transport::Memif {
        // Nobody has connected yet.
        command.arg("--disable-link-check");
    }
    if transport != Transport::Xdp {
        command.arg(format!("--rxd={DESCRIPTORS}")).arg(format!("--txd={DESCRIPTORS}"));
    }
    Ok(command)
}

/// One of the ports that it passes frames between.
fn port(addresses: &Addresses, number: usize, side: Side) -> String {
    let device = Link::far_device(side);
    match addresses.transport {
        Transport::Memif => {
            let socket = addresses.memif(Program::Testpmd, side).socket;
            let socket = socket.display();
            format!("--vdev=net_memif{number},role=server,id=0,socket={socket},socket-abstract=no")
        }
        Transport::Xdp => format!("--vdev=net_af_xdp{number},iface={device}"),
        Transport::Unix
        | Transport::Tcp
        | Transport::Udp
        | Transport::UdpVeth
        | Transport::Ether => format!(
            "--vdev=net_af_packet{number},iface={device},\
             blocksz={BLOCK_LENGTH},framesz={FRAME_LENGTH},framecnt={FRAMES}"
        ),
    }
}
