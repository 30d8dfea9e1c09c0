//! `dpdk-testpmd` as the dumb relay: forwards frames between two ports.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::addresses::Addresses;
use super::link::{Link, MTU_MAX, Side};
use super::program::Program;
use super::transport::Transport;

/// Output of a running testpmd.
pub(super) const READY: &str = "Press enter to exit";
/// Room for a frame in its ring: the smallest power of two that holds the maximum frame.
const FRAME_LENGTH: usize = (MTU_MAX + 128).next_power_of_two();
/// Number of frame buffers, each large enough for a ring slot and the headroom.
const BUFFERS: usize = 8192;
const BUFFER_LENGTH: usize = FRAME_LENGTH + 256;
/// Block length of the rings: a block holds several frames.
const BLOCK_LENGTH: usize = 4 * FRAME_LENGTH;
const FRAMES: usize = 2048;
const DESCRIPTORS: usize = 1024;
/// An AF_XDP frame lies in a pool buffer of the default length. The rings hold more of them.
const XDP_BUFFERS: usize = 16_384;
const XDP_BUFFER_LENGTH: usize = 2176;

/// Relays between the devices of the link, on the first of these processors.
///
/// # Errors
/// The link or the processor is missing.
pub(super) fn command(
    executable: &Path,
    addresses: &Addresses,
    cpus: &[usize],
) -> anyhow::Result<Command> {
    let cpu = cpus.first().context("testpmd takes a processor")?;
    // Line buffering, so that the output can be read at once.
    let mut command = addresses.command("stdbuf".as_ref());
    command.arg("-oL").arg(executable);
    // The first of the two threads only waits.
    command.arg("--lcores").arg(format!("0@{cpu},1@{cpu}"));
    // Several instances may run concurrently.
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
        // The peers have not connected yet.
        command.arg("--disable-link-check");
    }
    if transport != Transport::Xdp {
        command.arg(format!("--rxd={DESCRIPTORS}")).arg(format!("--txd={DESCRIPTORS}"));
    }
    Ok(command)
}

/// Device arguments of one of its ports.
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
