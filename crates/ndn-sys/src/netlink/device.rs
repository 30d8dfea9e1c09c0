//! Network devices as `RTM_GETLINK` lists them.

use std::io;

use crate::netlink::message::{Message, Request, attributes, read_u16, read_u32, text};
use crate::netlink::socket::{FLAG_DUMP, FLAG_REQUEST, NetlinkSocket};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
/// `struct ifinfomsg`: family, type, index, flags, change.
const INFO_LENGTH: usize = 16;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_XDP: u16 = 43;
/// Attributes with program numbers: in total, and by mode.
const IFLA_XDP_PROGRAMS: std::ops::RangeInclusive<u16> = 4..=7;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_VLAN_ID: u16 = 1;
/// `ARPHRD_ETHER` and `ARPHRD_LOOPBACK`.
const TYPE_ETHERNET: u16 = 1;
const TYPE_LOOPBACK: u16 = 772;

/// The state of the link of a device (RFC 2863, `ifOperStatus`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// The driver does not report it.
    Unknown,
    /// No operator has turned it on.
    Disabled,
    /// It is on, and there is no carrier.
    NoCarrier,
    /// It is on and waits, for authentication or another device.
    Waiting,
    /// The link is operational.
    Up,
}

impl LinkState {
    fn of(flags: u32, operational: u8) -> Self {
        if flags & libc::IFF_UP.unsigned_abs() == 0 {
            return Self::Disabled;
        }
        match operational {
            6 => Self::Up,
            4 | 5 => Self::Waiting,
            1..=3 => Self::NoCarrier,
            _ => Self::Unknown,
        }
    }

    /// Whether frames can go out.
    #[must_use]
    pub fn is_running(self) -> bool {
        matches!(self, Self::Up | Self::Unknown)
    }

    /// The name of the state.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Disabled => "disabled",
            Self::NoCarrier => "no-carrier",
            Self::Waiting => "waiting",
            Self::Up => "up",
        }
    }
}

/// A network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkDevice {
    /// Its name, such as `eth0`.
    pub name: String,
    /// The kernel's number of it.
    pub index: u32,
    /// `ARPHRD_*`.
    pub hardware_type: u16,
    /// The kind of a virtual one, such as `veth` or `vlan`; none of a physical one.
    pub kind: Option<String>,
    /// Its hardware address, if that has six bytes.
    pub mac: Option<[u8; 6]>,
    /// Longest payload of a frame, bytes.
    pub mtu: u32,
    /// The state of its link.
    pub state: LinkState,
    /// It can send to groups.
    pub can_multicast: bool,
    /// The device that it is a part of, such as a bridge.
    pub master: Option<u32>,
    /// The device below it, such as the one that a VLAN is on. It may be in another namespace.
    pub lower: Option<u32>,
    /// The number of the VLAN that it is.
    pub vlan: Option<u16>,
    /// Maximum numbers of receive and transmit queues.
    pub queues: (u32, u32),
    /// The XDP program that is attached to it.
    pub xdp_program: Option<u32>,
}

impl NetworkDevice {
    /// Whether it carries Ethernet frames.
    #[must_use]
    pub fn is_ethernet(&self) -> bool {
        self.hardware_type == TYPE_ETHERNET && self.mac.is_some()
    }

    /// Whether it is the loopback device.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.hardware_type == TYPE_LOOPBACK
    }

    fn of(message: &Message<'_>) -> Option<Self> {
        if message.kind != RTM_NEWLINK {
            return None;
        }
        let flags = read_u32(message.payload, 8)?;
        let mut operational = 0;
        let mut link = Self {
            name: String::new(),
            index: read_u32(message.payload, 4)?,
            hardware_type: read_u16(message.payload, 2)?,
            kind: None,
            mac: None,
            mtu: 0,
            state: LinkState::Unknown,
            can_multicast: flags & libc::IFF_MULTICAST.unsigned_abs() != 0,
            master: None,
            lower: None,
            vlan: None,
            queues: (1, 1),
            xdp_program: None,
        };
        for (kind, value) in attributes(message.payload.get(INFO_LENGTH..)?) {
            match kind {
                IFLA_IFNAME => link.name = text(value),
                IFLA_ADDRESS => link.mac = value.try_into().ok(),
                IFLA_MTU => link.mtu = read_u32(value, 0)?,
                IFLA_OPERSTATE => operational = *value.first()?,
                IFLA_MASTER => link.master = read_u32(value, 0),
                IFLA_LINK => link.lower = read_u32(value, 0).filter(|lower| *lower != link.index),
                IFLA_NUM_RX_QUEUES => link.queues.0 = read_u32(value, 0)?,
                IFLA_NUM_TX_QUEUES => link.queues.1 = read_u32(value, 0)?,
                IFLA_LINKINFO => link.read_kind(value),
                IFLA_XDP => {
                    let program =
                        attributes(value).find(|(kind, _)| IFLA_XDP_PROGRAMS.contains(kind));
                    link.xdp_program = program.and_then(|(_, number)| read_u32(number, 0));
                }
                _ => {}
            }
        }
        link.state = LinkState::of(flags, operational);
        (!link.name.is_empty()).then_some(link)
    }

    fn read_kind(&mut self, info: &[u8]) {
        let find = |requested| attributes(info).find(|(kind, _)| *kind == requested);
        self.kind = find(IFLA_INFO_KIND).map(|(_, value)| text(value));
        if self.kind.as_deref() == Some("vlan")
            && let Some((_, data)) = find(IFLA_INFO_DATA)
        {
            let vlan = attributes(data).find(|(kind, _)| *kind == IFLA_VLAN_ID);
            self.vlan = vlan.and_then(|(_, value)| read_u16(value, 0));
        }
    }
}

/// All network devices of this namespace, by their number.
///
/// # Errors
/// Those of netlink sockets.
pub fn network_devices() -> io::Result<Vec<NetworkDevice>> {
    let mut socket = NetlinkSocket::new(libc::NETLINK_ROUTE)?;
    let request = || Request::new(RTM_GETLINK, FLAG_REQUEST | FLAG_DUMP, &[0; INFO_LENGTH]);
    let mut links = socket.call(request, NetworkDevice::of)?;
    links.sort_unstable_by_key(|link| link.index);
    Ok(links)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::netlink::message::messages;

    fn nested(list: &[(u16, &[u8])]) -> Vec<u8> {
        let whole = list.iter().fold(Request::new(0, 0, &[]), |request, (kind, value)| {
            request.attribute(*kind, value)
        });
        whole.finish(0)[16..].to_vec()
    }

    /// A message of the kernel for a VLAN on device 4, reduced to the parsed attributes.
    fn vlan(flags: u32, operational: u8) -> Vec<u8> {
        let mut info = [0; INFO_LENGTH];
        info[2..4].copy_from_slice(&TYPE_ETHERNET.to_ne_bytes());
        info[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        info[8..12].copy_from_slice(&flags.to_ne_bytes());
        let data = nested(&[(IFLA_VLAN_ID, &42_u16.to_ne_bytes())]);
        let kind = nested(&[(IFLA_INFO_KIND, b"vlan\0"), (IFLA_INFO_DATA, &data)]);
        let xdp = nested(&[(2, &[1]), (4, &77_u32.to_ne_bytes())]);
        Request::new(RTM_NEWLINK, 2, &info)
            .attribute(IFLA_IFNAME, b"eth1.42\0")
            .attribute(IFLA_ADDRESS, &[2, 0, 0, 0, 0, 9])
            .attribute(IFLA_MTU, &9000_u32.to_ne_bytes())
            .attribute(IFLA_LINK, &4_u32.to_ne_bytes())
            .attribute(IFLA_OPERSTATE, &[operational])
            .attribute(IFLA_NUM_RX_QUEUES, &8_u32.to_ne_bytes())
            .attribute(IFLA_LINKINFO | 0x8000, &kind)
            .attribute(IFLA_XDP | 0x8000, &xdp)
            .finish(1)
    }

    fn read(bytes: &[u8]) -> Option<NetworkDevice> {
        messages(bytes).next().and_then(|message| NetworkDevice::of(&message))
    }

    #[test]
    fn network_device_is_decoded_from_its_message() {
        let link = read(&vlan(0x1001, 6)).unwrap();
        let expected = NetworkDevice {
            name: "eth1.42".to_owned(),
            index: 7,
            hardware_type: TYPE_ETHERNET,
            kind: Some("vlan".to_owned()),
            mac: Some([2, 0, 0, 0, 0, 9]),
            mtu: 9000,
            state: LinkState::Up,
            can_multicast: true,
            master: None,
            lower: Some(4),
            vlan: Some(42),
            queues: (8, 1),
            xdp_program: Some(77),
        };
        assert_eq!(link, expected);
        assert!(link.is_ethernet() && !link.is_loopback());
        assert_eq!(read(&vlan(0x1000, 6)).unwrap().state, LinkState::Disabled);
        assert_eq!(read(&vlan(1, 2)).unwrap().state, LinkState::NoCarrier);
        assert_eq!(read(&vlan(1, 0)).unwrap().state, LinkState::Unknown);
    }

    #[test]
    fn truncated_messages_are_rejected() {
        let whole = vlan(1, 6);
        for at in 0..whole.len() {
            for value in [0, 1, 3, 5, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                // The result does not matter, only that there is no panic.
                let _ = read(&changed);
            }
        }
    }

    #[test]
    fn loopback_device_of_this_machine_is_found() {
        let all = network_devices().unwrap();
        let loopback = all.iter().find(|link| link.is_loopback()).unwrap();
        assert!(loopback.name == "lo" && loopback.index == 1 && !loopback.is_ethernet());
    }
}
