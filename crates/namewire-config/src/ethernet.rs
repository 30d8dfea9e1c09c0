//! Ethernet faces: settings, and how they are written.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ndn_sys::interface::Interface;
use toml::de::DeValue;

use super::InterfaceRule;
use super::reader::{FromToml, Section};
use super::to_toml::{Writer, duration, text, texts};
use super::units::ByteSize;

/// Memory for received frames of one interface.
const RING_MIN: ByteSize = ByteSize(64 << 10);
const RING_MAX: ByteSize = ByteSize(1 << 30);
/// A day.
const IDLE_MAX: Duration = Duration::from_secs(86_400);

/// Ethernet faces on network interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Whether there are any beside those that an operator asks for.
    pub enabled: bool,
    /// Whether stations that send get faces.
    pub listen: bool,
    /// Whether each interface has a face of the group.
    pub multicast: bool,
    /// The group.
    pub group: GroupAddress,
    /// Whether not everybody on a link hears everybody else.
    pub ad_hoc: bool,
    /// On which interfaces.
    pub interfaces: Vec<InterfaceRule>,
    /// And on which of those not.
    pub except: Vec<InterfaceRule>,
    /// On which of them there is a face of the group.
    pub multicast_interfaces: Vec<InterfaceRule>,
    /// And on which of those not.
    pub multicast_except: Vec<InterfaceRule>,
    /// After how long without a packet faces of stations that spoke first close.
    pub idle_timeout: Duration,
    /// Memory for received frames of each interface.
    pub ring: ByteSize,
    /// How frames reach us.
    pub driver: Driver,
}

/// How frames of an interface reach the forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// Whichever suits an interface.
    Auto,
    /// AF_PACKET.
    Packet,
    /// AF_XDP.
    Xdp,
}

impl Driver {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Packet => "packet",
            Self::Xdp => "xdp",
        }
    }
}

impl Default for Ethernet {
    /// Off, and otherwise as in NFD.
    fn default() -> Self {
        Self {
            enabled: false,
            listen: true,
            multicast: true,
            group: GroupAddress([0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa]),
            ad_hoc: false,
            interfaces: vec![InterfaceRule::Any],
            except: Vec::new(),
            multicast_interfaces: vec![InterfaceRule::Any],
            multicast_except: Vec::new(),
            idle_timeout: Duration::from_secs(600),
            ring: ByteSize(4 << 20),
            driver: Driver::Auto,
        }
    }
}

impl Ethernet {
    /// Whether stations on `interface` that send get faces.
    #[must_use]
    pub fn listens_on(&self, interface: &Interface) -> bool {
        self.enabled && self.listen && matches(&self.interfaces, &self.except, interface)
    }

    /// The group that is joined on `interface`.
    #[must_use]
    pub fn group_on(&self, interface: &Interface) -> Option<[u8; 6]> {
        let is_wanted = self.enabled
            && self.multicast
            && interface.can_multicast
            && matches(&self.interfaces, &self.except, interface)
            && matches(&self.multicast_interfaces, &self.multicast_except, interface);
        is_wanted.then_some(self.group.0)
    }

    /// On which interfaces, in words.
    #[must_use]
    pub fn where_it_is(&self) -> String {
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

    /// Reads `[listeners.ethernet]`.
    pub(super) fn read(&mut self, mut section: Section<'_>) {
        section.read("enabled", &mut self.enabled);
        section.read("listen", &mut self.listen);
        section.read("multicast", &mut self.multicast);
        section.read("group", &mut self.group);
        section.read("ad_hoc", &mut self.ad_hoc);
        section.read("interfaces", &mut self.interfaces);
        section.read("except", &mut self.except);
        section.read("multicast_interfaces", &mut self.multicast_interfaces);
        section.read("multicast_except", &mut self.multicast_except);
        section.read_in("idle_timeout", &mut self.idle_timeout, Duration::from_secs(1)..=IDLE_MAX);
        section.read_in("ring", &mut self.ring, RING_MIN..=RING_MAX);
        section.read("driver", &mut self.driver);
        section.finish();
    }

    /// Writes what differs from `default`.
    pub(super) fn write(&self, writer: &mut Writer, default: &Self) {
        writer.section("[listeners.ethernet]");
        writer.changed("enabled", &self.enabled, &default.enabled, self.enabled);
        writer.changed("listen", &self.listen, &default.listen, self.listen);
        writer.changed("multicast", &self.multicast, &default.multicast, self.multicast);
        writer.changed("group", &self.group, &default.group, text(self.group));
        writer.changed("ad_hoc", &self.ad_hoc, &default.ad_hoc, self.ad_hoc);
        for (key, own, default) in [
            ("interfaces", &self.interfaces, &default.interfaces),
            ("except", &self.except, &default.except),
            ("multicast_interfaces", &self.multicast_interfaces, &default.multicast_interfaces),
            ("multicast_except", &self.multicast_except, &default.multicast_except),
        ] {
            writer.changed(key, own, default, texts(own));
        }
        let idle = duration(self.idle_timeout);
        writer.changed("idle_timeout", &self.idle_timeout, &default.idle_timeout, idle);
        writer.changed("ring", &self.ring, &default.ring, self.ring.0);
        writer.changed("driver", &self.driver, &default.driver, text(self.driver.name()));
    }
}

fn matches(rules: &[InterfaceRule], except: &[InterfaceRule], interface: &Interface) -> bool {
    rules.iter().any(|rule| rule.matches(interface))
        && !except.iter().any(|rule| rule.matches(interface))
}

/// The hardware address of a group.
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
            // All bits set are everybody, and no group.
            Ok(InterfaceRule::Mac(mac)) if mac[0] & 1 != 0 && mac != [0xff; 6] => Ok(Self(mac)),
            Ok(_) | Err(_) => Err(format!("`{text}` is no group such as 01:00:5e:00:17:aa")),
        }
    }
}

impl FromToml for GroupAddress {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        String::from_toml(value)?.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_told_from_stations() {
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
    fn lists_say_where_there_are_faces() {
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
        let deaf = Interface { can_multicast: false, ..interface("eth0") };
        assert_eq!(quiet.group_on(&deaf), None);
    }

    #[test]
    fn where_it_is_is_told_in_words() {
        let rules = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
        let told = |interfaces: &[&str], except: &[&str]| {
            let (interfaces, except) = (rules(interfaces), rules(except));
            Ethernet { interfaces, except, ..Ethernet::default() }.where_it_is()
        };
        assert_eq!(told(&["*"], &[]), "all interfaces");
        assert_eq!(told(&["eth1", "en*"], &["eth0", "wl*"]), "eth1, en* except eth0, wl*");
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let text = "[listeners.ethernet]\nenabled = true\nlisten = false\nad_hoc = true\n\
                    group = \"03:00:00:00:00:01\"\ninterfaces = [\"eth*\"]\nexcept = [\"eth9\"]\n\
                    multicast_interfaces = []\nidle_timeout = \"30s\"\nring = \"1MiB\"\n\
                    driver = \"xdp\"\n";
        let config = crate::parse("test", text).unwrap();
        assert_eq!(config.listeners.ethernet.ring, ByteSize(1 << 20));
        assert_eq!(config.listeners.ethernet.driver, Driver::Xdp);
        assert_eq!(crate::parse("test", &config.to_toml()).unwrap(), config);
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
