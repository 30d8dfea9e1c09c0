//! Network interfaces of this machine, and the drivers that a forwarder can use on them.

use std::path::Path;

use namewire_control::{AfXdpState, NetworkInterface, XdpProcess};
use ndn_management::FaceDriver;
use ndn_sys::device::Device;
use ndn_sys::interface;
use ndn_sys::netlink::{self, NetworkDevice, XdpSupport};
use ndn_sys::packet;
use ndn_sys::xdp::{self, XdpHolder};

use crate::frames::Facts;

/// A driver of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Driver {
    /// AF_XDP: Ethernet faces.
    AfXdp,
    /// AF_PACKET: Ethernet faces.
    AfPacket,
    /// IP sockets of the kernel: UDP and TCP faces.
    Sockets,
}

impl Driver {
    fn name(self) -> &'static str {
        match self {
            Self::AfXdp => "af_xdp",
            Self::AfPacket => "af_packet",
            Self::Sockets => "sockets",
        }
    }
}

/// The properties of one interface.
#[derive(Debug)]
struct Found {
    link: NetworkDevice,
    device: Device,
    has_address: bool,
    /// None if the kernel does not report it.
    xdp: Option<XdpSupport>,
    master: Option<String>,
    /// The owner of the attached XDP program, if there is one.
    holder: Option<XdpHolder>,
    facts: Facts,
}

/// Reasons why this user cannot use drivers.
#[derive(Debug, Clone, Copy, Default)]
struct Refused<'a> {
    packet: Option<&'a str>,
    xdp: Option<&'a str>,
}

/// The drivers that Namewire would use on an interface.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    /// The drivers that it can use, the selected one first; AF_XDP even if a forwarder uses it
    /// already.
    usable: Vec<Driver>,
    /// The selected driver.
    pick: Option<Driver>,
    why: String,
}

/// Selects the driver of an interface.
fn choose(found: &Found, refused: Refused<'_>) -> Choice {
    let link = &found.link;
    let packet_refused = refused.packet;
    let mut usable = Vec::new();
    let (best, why_best) = found.facts.pick();
    if link.is_ethernet() && packet_refused.is_none() && found.master.is_none() {
        usable.push(Driver::AfPacket);
        if refused.xdp.is_none() && !found.facts.is_taken {
            let place = if best == FaceDriver::Xdp { 0 } else { 1 };
            usable.insert(place, Driver::AfXdp);
        }
    }
    if found.has_address {
        usable.push(Driver::Sockets);
    }
    let none = |why: String| Choice { usable: usable.clone(), pick: None, why };
    if !link.state.is_running() {
        return none(format!("the link is {}", link.state.name()));
    }
    if let Some(master) = &found.master {
        return none(format!("it is a port of {master}, which receives its frames"));
    }
    let holder = link.xdp_program.zip(found.holder.as_ref());
    if let Some((program, holder)) = holder.filter(|(_, holder)| holder.is_own()) {
        let why = holder_for_people(program, holder);
        // The forwarder that has it.
        usable.insert(0, Driver::AfXdp);
        return Choice { usable, pick: Some(Driver::AfXdp), why };
    }
    let with = |pick: Driver, why: &str| Choice {
        usable: usable.clone(),
        pick: Some(pick),
        why: match holder {
            Some((program, holder)) => holder_for_people(program, holder),
            None => why.to_owned(),
        },
    };
    match usable.first() {
        Some(Driver::AfXdp) => with(Driver::AfXdp, why_best),
        Some(Driver::AfPacket) => match refused.xdp {
            Some(refused) if best == FaceDriver::Xdp => {
                with(Driver::AfPacket, &format!("AF_XDP is refused: {refused}"))
            }
            _ => with(Driver::AfPacket, why_best),
        },
        Some(Driver::Sockets) if link.is_loopback() => {
            with(Driver::Sockets, "the loopback interface")
        }
        Some(Driver::Sockets) => match packet_refused {
            Some(refused) if link.is_ethernet() => {
                with(Driver::Sockets, &format!("packet sockets are refused: {refused}"))
            }
            _ => with(Driver::Sockets, "no Ethernet link, but it has an IP address"),
        },
        None => match packet_refused {
            Some(refused) if link.is_ethernet() => {
                none(format!("it has no IP address, and packet sockets are refused: {refused}"))
            }
            _ => none("it has no IP address, and is no Ethernet link".to_owned()),
        },
    }
}

/// The owner of a program that is attached to an interface.
fn holder_for_people(program: u32, holder: &XdpHolder) -> String {
    let process = holder.process.as_ref();
    let process = process.map(|(process, name)| format!("process {process} ({name})"));
    let name = holder.program.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    match (holder.is_own(), process) {
        (true, Some(process)) => format!("a forwarder uses it by AF_XDP: {process}"),
        (true, None) => "a forwarder uses it by AF_XDP".to_owned(),
        (false, Some(process)) => {
            format!("XDP program {program}{name} is attached to it, of {process}")
        }
        (false, None) if name.is_empty() => format!(
            "XDP program {program} is attached to it: a forwarder uses it by AF_XDP, or it is of another program \
             (root is told which)"
        ),
        (false, None) => format!("XDP program {program}{name} is attached to it"),
    }
}

fn find(root: &Path) -> Result<Vec<Found>, String> {
    let failed = |what: &str, error: &std::io::Error| format!("{what}: {error}");
    let links = netlink::network_devices()
        .map_err(|error| failed("network interfaces cannot be listed", &error))?;
    let with_addresses = interface::interfaces()
        .map_err(|error| failed("addresses of interfaces cannot be listed", &error))?;
    let xdp = netlink::xdp_support().ok();
    let name_of = |index: u32| links.iter().find(|link| link.index == index);
    let support = |index| xdp.as_ref().map(|all| all.get(&index).copied().unwrap_or_default());
    let has_address =
        |index| with_addresses.iter().any(|one| one.index == index && !one.addresses.is_empty());
    let found = links.iter().map(|link| Found {
        device: Device::read(root, &link.name),
        has_address: has_address(link.index),
        xdp: support(link.index),
        facts: Facts::of(link, &links, support(link.index), has_address(link.index)),
        master: link.master.map(|index| {
            name_of(index).map_or_else(|| format!("interface {index}"), |one| one.name.clone())
        }),
        holder: link.xdp_program.map(XdpHolder::of),
        link: link.clone(),
    });
    Ok(found.collect())
}

/// The network interfaces, with the drivers that this process may use.
///
/// # Errors
/// The kernel does not list them; the reason.
pub fn network_interfaces() -> Result<Vec<NetworkInterface>, String> {
    let refused = packet::may_open().err().map(|error| {
        if error.kind() == std::io::ErrorKind::PermissionDenied {
            "CAP_NET_RAW is missing (run as root)".to_owned()
        } else {
            error.to_string()
        }
    });
    let xdp_refused = xdp::may_use().err().map(|error| error.to_string());
    let refused = Refused { packet: refused.as_deref(), xdp: xdp_refused.as_deref() };
    let found = find(Path::new("/"))?;
    Ok(found.into_iter().map(|found| report(found, refused)).collect())
}

/// The number of workers that can have AF_XDP queues of it; queues are assigned to workers in turn.
fn workers_max(found: &Found) -> u64 {
    let (receive, transmit) = queues_of(found);
    if found.link.is_ethernet() { receive.min(transmit).min(xdp::QUEUES_MAX.into()) } else { 0 }
}

/// The queues in use, or otherwise all queues.
fn queues_of(found: &Found) -> (u64, u64) {
    let (receive, transmit) = found.link.queues;
    let of_link = (u64::from(receive), u64::from(transmit));
    found.device.queues.map_or(of_link, |(receive, transmit)| (receive as u64, transmit as u64))
}

fn mac_text([a, b, c, d, e, f]: [u8; 6]) -> String {
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

/// The AF_XDP support of an interface, as the kernel reports it.
fn xdp_text(found: &Found) -> &'static str {
    match found.xdp {
        _ if !found.link.is_ethernet() => "no",
        None => "unknown",
        Some(XdpSupport { native: false, .. }) => "generic",
        Some(XdpSupport { zero_copy: false, .. }) => "native",
        Some(_) => "zero-copy",
    }
}

fn report(found: Found, refused: Refused<'_>) -> NetworkInterface {
    let Choice { usable, pick, why } = choose(&found, refused);
    let (receive_queues, transmit_queues) = queues_of(&found);
    let (kernel, workers_max) = (xdp_text(&found).to_owned(), workers_max(&found));
    let Found { link, device, has_address, master, xdp, holder, facts: _ } = found;
    let holder = holder.unwrap_or_default();
    let process = holder.process.map(|(id, name)| XdpProcess { id, name });
    let af_xdp = AfXdpState {
        kernel,
        multi_buffer: xdp.is_some_and(|xdp| xdp.multi_buffer),
        usable: usable.contains(&Driver::AfXdp),
        refused: refused.xdp.map(str::to_owned),
        program: link.xdp_program,
        program_name: holder.program,
        process,
        workers_max,
    };
    NetworkInterface {
        index: link.index,
        is_ethernet: link.is_ethernet(),
        is_loopback: link.is_loopback(),
        link: link.state.name().to_owned(),
        mac: link.mac.map(mac_text),
        mtu_bytes: link.mtu,
        vlan: link.vlan,
        kind: link.kind,
        name: link.name,
        speed_mbps: device.speed_mbps,
        kernel_driver: device.driver,
        numa_node: device.numa_node,
        receive_queues,
        transmit_queues,
        has_ip_address: has_address,
        master,
        af_xdp,
        drivers: usable.iter().map(|driver| driver.name().to_owned()).collect(),
        pick: pick.map(|driver| driver.name().to_owned()),
        why,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use ndn_sys::netlink::LinkState;

    use super::*;

    fn ethernet() -> Found {
        Found {
            link: NetworkDevice {
                name: "eth1".to_owned(),
                index: 4,
                hardware_type: 1,
                kind: None,
                mac: Some([2, 0, 0, 0, 0, 9]),
                mtu: 9000,
                state: LinkState::Up,
                can_multicast: true,
                master: None,
                lower: None,
                vlan: None,
                queues: (64, 64),
                xdp_program: None,
            },
            device: Device { queues: Some((8, 4)), numa_node: Some(1), ..Device::default() },
            has_address: true,
            xdp: Some(XdpSupport { native: true, ..XdpSupport::default() }),
            master: None,
            holder: None,
            facts: Facts { xdp: None, has_address: true, has_vlans: false, is_taken: false },
        }
    }

    fn packet_refused(why: Option<&str>) -> Refused<'_> {
        Refused { packet: why, xdp: Some("no XDP") }
    }

    #[test]
    fn driver_depends_on_link_permission_and_master() {
        let pick = |found: &Found, refused| {
            let choice = choose(found, packet_refused(refused));
            (choice.usable.len(), choice.pick, choice.why)
        };
        let found = ethernet();
        assert!(matches!(pick(&found, None), (2, Some(Driver::AfPacket), _)));
        let (count, driver, why) = pick(&found, Some("no"));
        assert_eq!((count, driver), (1, Some(Driver::Sockets)));
        assert!(why.contains("refused: no"), "{why}");
        let without = Found { has_address: false, ..ethernet() };
        assert!(matches!(pick(&without, Some("no")), (0, None, _)));
        assert!(matches!(pick(&without, None), (1, Some(Driver::AfPacket), _)));
        let part = Found { master: Some("br0".to_owned()), has_address: false, ..ethernet() };
        let (_, driver, why) = pick(&part, None);
        assert!(driver.is_none() && why.contains("br0"), "{why}");
        let mut down = ethernet();
        down.link.state = LinkState::NoCarrier;
        let (_, driver, why) = pick(&down, None);
        assert!(driver.is_none() && why.contains("no-carrier"), "{why}");
        let mut tunnel = ethernet();
        (tunnel.link.hardware_type, tunnel.link.mac) = (65534, None);
        assert!(matches!(pick(&tunnel, None), (1, Some(Driver::Sockets), _)));
    }

    #[test]
    fn af_xdp_is_selected_for_zero_copy() {
        let support = XdpSupport { native: true, zero_copy: true, multi_buffer: false };
        let facts = Facts { xdp: Some(support), has_address: false, ..ethernet().facts };
        let found = Found { has_address: false, xdp: Some(support), facts, ..ethernet() };
        let choice = choose(&found, Refused::default());
        assert_eq!(choice.usable, [Driver::AfXdp, Driver::AfPacket]);
        assert_eq!(choice.pick, Some(Driver::AfXdp));
        let refused = Refused { xdp: Some("no rights"), packet: None };
        let choice = choose(&found, refused);
        assert_eq!((choice.pick, choice.usable.len()), (Some(Driver::AfPacket), 1));
        assert!(choice.why.contains("refused: no rights"), "{}", choice.why);
        let copying = choose(&ethernet(), Refused::default());
        assert_eq!(copying.usable[..2], [Driver::AfPacket, Driver::AfXdp]);
        assert_eq!(copying.pick, Some(Driver::AfPacket));
        let mut taken = found;
        (taken.facts.is_taken, taken.link.xdp_program) = (true, Some(7));
        taken.holder = Some(XdpHolder::default());
        let choice = choose(&taken, Refused::default());
        assert_eq!(choice.usable, [Driver::AfPacket]);
        assert!(choice.why.contains("program 7 is attached"), "{}", choice.why);
        let af_xdp = report(taken, Refused::default()).af_xdp;
        assert_eq!((af_xdp.program, af_xdp.usable), (Some(7), false));
    }

    #[test]
    fn owner_of_xdp_program_is_reported() {
        let taken = |program: Option<&str>, process: Option<&str>| {
            let mut found = ethernet();
            (found.facts.is_taken, found.link.xdp_program) = (true, Some(7));
            let process = process.map(|name| (42, name.to_owned()));
            found.holder = Some(XdpHolder { program: program.map(str::to_owned), process });
            let choice = choose(&found, Refused::default());
            let af_xdp = report(found, Refused::default()).af_xdp;
            let is_usable = choice.usable.contains(&Driver::AfXdp);
            assert_eq!(is_usable, choice.pick == Some(Driver::AfXdp), "{choice:?}");
            assert_eq!(choice.usable.first(), choice.pick.as_ref(), "the selected one comes first");
            assert_eq!(af_xdp.usable, is_usable);
            (choice.pick, choice.why, af_xdp.process)
        };
        let (pick, why, process) = taken(Some("namewire_xdp"), Some("namewire"));
        let expected = XdpProcess { id: 42, name: "namewire".to_owned() };
        assert_eq!((pick, process), (Some(Driver::AfXdp), Some(expected)));
        assert!(why.contains("process 42 (namewire)"), "{why}");
        let (pick, why, _) = taken(Some("namewire_xdp"), None);
        assert_eq!((pick, why.as_str()), (Some(Driver::AfXdp), "a forwarder uses it by AF_XDP"));
        let (pick, why, _) = taken(Some("firewall"), Some("guard"));
        assert_eq!(pick, Some(Driver::AfPacket));
        assert!(why.contains("7 (firewall)") && why.contains("42 (guard)"), "{why}");
        let (_, why, process) = taken(Some("firewall"), None);
        assert!(why.contains("7 (firewall)") && process.is_none(), "{why}");
    }

    #[test]
    fn report_has_the_same_facts() {
        let found = report(ethernet(), Refused::default());
        assert_eq!((found.receive_queues, found.transmit_queues), (8, 4));
        assert_eq!((found.mac.as_deref(), found.numa_node), (Some("02:00:00:00:00:09"), Some(1)));
        assert_eq!((found.pick.as_deref(), found.mtu_bytes), (Some("af_packet"), 9000));
        assert_eq!(found.af_xdp.kernel, "native");
        assert_eq!(found.af_xdp.workers_max, 4, "each sends by a queue of its own");
        let unknown = Found { xdp: None, device: Device::default(), ..ethernet() };
        assert_eq!(xdp_text(&unknown), "unknown");
        assert_eq!(queues_of(&unknown), (64, 64));
    }

    #[test]
    fn this_machine_has_a_loopback_interface() {
        let all = find(Path::new("/")).unwrap();
        let loopback = all.iter().find(|found| found.link.is_loopback()).unwrap();
        let choice = choose(loopback, Refused::default());
        assert_ne!(choice.pick, Some(Driver::AfPacket));
    }
}
