//! Ethernet faces, on network interfaces and on ports of DPDK.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ndn_sys::interface::Interface;
use ndn_types::ByteSize;

use crate::declaration::RestartReason::Sockets;
use crate::declaration::{live, restart, settings};
use crate::interfaces::InterfaceRule;
use crate::value::{text_value, words};

/// Limits of the memory for received frames of one interface.
const RING_MIN: ByteSize = ByteSize::kibibytes(64);
const RING_MAX: ByteSize = ByteSize::mebibytes(1024);
const DAY: Duration = Duration::from_secs(86_400);
/// Maximum payload of a frame on a port of DPDK: with its headers it has to fit into a buffer of DPDK.
const DPDK_MTU_MAX: ByteSize = ByteSize(16_000);

settings! {
    /// Ethernet faces, on all interfaces that carry Ethernet and are not part of a bridge or bond: VLANs have
    /// interfaces of their own. They need root or CAP_NET_RAW. `namewire interfaces` shows the interfaces.
    /// Faces to single stations do not need this: `namewire face create ether://[MAC] dev://eth1`.
    pub struct Ethernet {
        /// Whether there are Ethernet faces beside those created by commands and `[[static_faces]]`.
        enabled: bool = false => live(),
        /// Whether a station that sends a frame gets an on-demand face.
        listen: bool = true => live(),
        /// Whether each interface has a face of the multicast group.
        multicast: bool = true => live(),
        /// Hardware address of the multicast group.
        group: GroupAddress = GroupAddress([0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa]) => live(),
        /// Link type of multicast faces: ad-hoc (true) if not all stations of a link receive each other's
        /// frames, as on a wireless link, otherwise multi-access.
        ad_hoc: bool = false => live(),
        /// Network interfaces with Ethernet faces.
        interfaces: Vec<InterfaceRule> = vec![InterfaceRule::Any] => live(),
        /// Network interfaces that `interfaces` matches, but that have no Ethernet faces.
        except: Vec<InterfaceRule> = Vec::new() => live(),
        /// Network interfaces with Ethernet faces that also have a face of the multicast group.
        multicast_interfaces: Vec<InterfaceRule> = vec![InterfaceRule::Any] => live(),
        /// Network interfaces that `multicast_interfaces` matches, but that have no such face.
        multicast_except: Vec<InterfaceRule> = Vec::new() => live(),
        /// Time without a packet after which an on-demand face is closed.
        idle_timeout: Duration = Duration::from_secs(600) =>
            live().within(Duration::from_secs(1)..=DAY),
        /// Memory for received frames of each interface.
        ring: ByteSize = ByteSize::mebibytes(4) => live().within(RING_MIN..=RING_MAX),
        /// Driver of frames: `"packet"` is AF_PACKET, `"xdp"` AF_XDP. `"auto"` uses AF_XDP on an interface whose driver
        /// hands frames over without copying them and that carries nothing else (no IP address, no VLAN), otherwise
        /// AF_PACKET. AF_XDP needs root, or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF.
        driver: Driver = Driver::Auto => live(),
    }
}

settings! {
    /// Ethernet faces on ports of DPDK, in programs that were built with it
    /// (`cargo build --features dpdk`). A worker with a port polls and uses its processor fully. The
    /// multicast group, `ad_hoc` and `idle_timeout` are those of `[listeners.ethernet]`.
    pub struct Dpdk {
        /// Arguments of DPDK's environment abstraction layer, such as `["--no-huge", "--no-shconf", "-m", "128",
        /// "--no-pci", "--vdev=net_tap0,iface=ndn0"]`.
        eal: Vec<String> = Vec::new() => restart(Sockets),
        /// DPDK names of the ports, such as `"net_tap0"` or `"0000:03:00.0"`. Without a port, DPDK is not
        /// initialized.
        ports: Vec<String> = Vec::new() => restart(Sockets),
        /// Whether a station that sends a frame gets an on-demand face.
        listen: bool = true => restart(Sockets),
        /// Whether each port has a face of the multicast group.
        multicast: bool = true => restart(Sockets),
        /// Maximum payload of a frame. The device may support less.
        mtu: ByteSize = ByteSize(1500) => restart(Sockets).within(ByteSize(64)..=DPDK_MTU_MAX),
        /// Entries of the receive queue and of the transmit queue of each port.
        descriptors: u16 = 1024 => restart(Sockets).within(32..=8192),
        /// Buffers for frames of each port: at least 2 * descriptors + 64.
        buffers: u32 = 8192 => restart(Sockets).within(512..=1_048_576),
    }
}

/// The driver by which frames of an interface are received and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// AF_XDP on interfaces that suit it, otherwise AF_PACKET.
    Auto,
    /// AF_PACKET.
    Packet,
    /// AF_XDP.
    Xdp,
}

words!(Driver { "auto" => Self::Auto, "packet" => Self::Packet, "xdp" => Self::Xdp });

impl Ethernet {
    /// Whether stations on `interface` get on-demand faces.
    #[must_use]
    pub fn listens_on(&self, interface: &Interface) -> bool {
        self.enabled && self.listen && matches(&self.interfaces, &self.except, interface)
    }

    /// The multicast group to join on `interface`.
    #[must_use]
    pub fn group_on(&self, interface: &Interface) -> Option<[u8; 6]> {
        let is_requested = self.enabled
            && self.multicast
            && interface.can_multicast
            && matches(&self.interfaces, &self.except, interface)
            && matches(&self.multicast_interfaces, &self.multicast_except, interface);
        is_requested.then_some(self.group.0)
    }

    /// The interfaces with Ethernet faces, for log messages.
    #[must_use]
    pub fn describe_interfaces(&self) -> String {
        let list = |rules: &[InterfaceRule]| {
            rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let mut words = match self.interfaces.contains(&InterfaceRule::Any) {
            true => "all interfaces".to_owned(),
            false => list(&self.interfaces),
        };
        if !self.except.is_empty() {
            words += &format!(" except {}", list(&self.except));
        }
        words
    }
}

fn matches(rules: &[InterfaceRule], except: &[InterfaceRule], interface: &Interface) -> bool {
    rules.iter().any(|rule| rule.matches(interface))
        && !except.iter().any(|rule| rule.matches(interface))
}

/// The hardware address of a multicast group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupAddress(pub [u8; 6]);

impl fmt::Display for GroupAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        InterfaceRule::Mac(self.0).fmt(formatter)
    }
}

impl FromStr for GroupAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            // The address with all bits set is the broadcast address.
            Ok(InterfaceRule::Mac(mac)) if mac[0] & 1 != 0 && mac != [0xff; 6] => Ok(Self(mac)),
            Ok(_) | Err(_) => {
                Err(format!("`{text}` is not a multicast address such as 01:00:5e:00:17:aa"))
            }
        }
    }
}

text_value!(GroupAddress, "hardware address", ["01:00:5e:00:17:aa", "03:00:00:00:00:01"], |text| {
    text.parse()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_address_must_be_multicast() {
        let group: GroupAddress = "01:00:5E:00:17:AA".parse().unwrap();
        assert_eq!(
            (group, group.to_string().as_str()),
            (Ethernet::default().group, "01:00:5e:00:17:aa")
        );
        for wrong in ["02:00:5e:00:17:aa", "ff:ff:ff:ff:ff:ff", "01:00", "eth0", ""] {
            assert!(wrong.parse::<GroupAddress>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn interface_lists_select_interfaces_with_faces() {
        let interface = |name: &str| Interface {
            name: name.to_owned(),
            can_multicast: true,
            ..Interface::default()
        };
        let rules = |list: &[&str]| list.iter().map(|rule| rule.parse().unwrap()).collect();
        let config = Ethernet {
            enabled: true,
            interfaces: rules(&["eth*"]),
            except: rules(&["eth9"]),
            multicast_except: rules(&["eth1"]),
            ..Ethernet::default()
        };
        let on = |config: &Ethernet, name: &str| {
            let interface = interface(name);
            (config.listens_on(&interface), config.group_on(&interface).is_some())
        };
        assert_eq!(on(&config, "eth0"), (true, true));
        assert_eq!(on(&config, "eth1"), (true, false));
        assert_eq!(on(&config, "eth9"), (false, false));
        assert_eq!(on(&config, "wlan0"), (false, false));
        let quiet = Ethernet { listen: false, ..config.clone() };
        assert_eq!(on(&quiet, "eth0"), (false, true));
        assert_eq!(on(&Ethernet { enabled: false, ..config }, "eth0"), (false, false));
        let not_receiving = Interface { can_multicast: false, ..interface("eth0") };
        assert_eq!(quiet.group_on(&not_receiving), None);
    }

    #[test]
    fn interfaces_are_described() {
        let rules = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
        let described = |interfaces: &[&str], except: &[&str]| {
            let (interfaces, except) = (rules(interfaces), rules(except));
            Ethernet { interfaces, except, ..Ethernet::default() }.describe_interfaces()
        };
        assert_eq!(described(&["*"], &[]), "all interfaces");
        assert_eq!(described(&["eth1", "en*"], &["eth0", "wl*"]), "eth1, en* except eth0, wl*");
    }

    #[test]
    fn settings_are_read_and_invalid_values_rejected() {
        let text = "[listeners.ethernet]\nenabled = true\nlisten = false\nad_hoc = true\n\
                    group = \"03:00:00:00:00:01\"\ninterfaces = [\"eth*\"]\nexcept = [\"eth9\"]\n\
                    multicast_interfaces = []\nidle_timeout = \"30s\"\nring = \"1MiB\"\n\
                    driver = \"xdp\"\n";
        let config = crate::parse("test", text).unwrap();
        assert_eq!(config.listeners.ethernet.ring, ByteSize(1 << 20));
        assert_eq!(config.listeners.ethernet.driver, Driver::Xdp);
        for wrong in [
            "group = \"eth0\"",
            "ring = \"1KiB\"",
            "idle_timeout = \"0s\"",
            "x = 1",
            "driver = \"dpdk\"",
        ] {
            let text = format!("[listeners.ethernet]\n{wrong}\n");
            assert!(crate::parse("test", &text).is_err(), "{wrong}");
        }
    }
}
