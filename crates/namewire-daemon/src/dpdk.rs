//! DPDK ports (`[listeners.dpdk]`), if the program was built with DPDK.

use super::ethernet::OwnPort;
use crate::config::Config;

/// Rejects configured ports if the program was built without DPDK.
///
/// # Errors
/// The program was built without DPDK.
pub(super) fn check(config: &Config) -> anyhow::Result<()> {
    anyhow::ensure!(
        cfg!(feature = "dpdk") || config.listeners.dpdk.ports.is_empty(),
        "listeners.dpdk.ports: this program was built without DPDK (cargo build --features dpdk)"
    );
    Ok(())
}

/// Returns no ports.
///
/// # Errors
/// As [`check`].
#[cfg(not(feature = "dpdk"))]
pub(super) fn open(config: &Config) -> anyhow::Result<Vec<OwnPort>> {
    check(config).map(|()| Vec::new())
}

/// First interface index of the ports; the kernel counts its indexes from 1.
#[cfg(feature = "dpdk")]
const FIRST_INTERFACE: u32 = 1 << 31;

/// Starts DPDK and opens the configured ports, if any.
///
/// # Errors
/// DPDK does not start, or a port cannot be used.
#[cfg(feature = "dpdk")]
pub(super) fn open(config: &Config) -> anyhow::Result<Vec<OwnPort>> {
    use anyhow::Context as _;
    use ndn_dpdk::{DpdkOptions, DpdkPort};

    use super::ethernet::LinkProbe;

    let crate::config::Dpdk { eal, ports, listen, multicast, mtu, descriptors, buffers } =
        &config.listeners.dpdk;
    if ports.is_empty() {
        return Ok(Vec::new());
    }
    ndn_dpdk::start(eal).context("listeners.dpdk.eal")?;
    let group = multicast.then_some(config.listeners.ethernet.group.0);
    let open = |(interface, name): (u32, &String)| {
        let port = DpdkPort::open(&DpdkOptions {
            name: name.clone(),
            interface,
            protocol: ndn_face::ETHER_TYPE,
            group,
            // The configuration limits it to 16,000.
            mtu: u16::try_from(mtu.0).unwrap_or(u16::MAX),
            descriptors: *descriptors,
            buffers: *buffers,
        })
        .context("listeners.dpdk.ports")?;
        let link = port.link();
        tracing::info!(port = name, driver = port.driver(), mtu = port.mtu(), "DPDK");
        Ok(OwnPort {
            name: name.clone(),
            interface,
            mac: port.mac(),
            mtu: usize::from(port.mtu()),
            accepts: *listen,
            group,
            is_up: LinkProbe(Box::new(move || link.is_up())),
            socket: Box::new(port),
        })
    };
    (FIRST_INTERFACE..).zip(ports).map(open).collect()
}
