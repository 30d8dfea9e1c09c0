//! Section `face_system`.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ndn_security::info::Node;
use ndn_types::{ByteSize, FaceUri};

use super::{Reader, seconds};
use crate::ethernet::Ethernet;
use crate::faces::{BoundFaces, MTU_MAX, MTU_MIN};
use crate::interfaces::InterfaceRule;
use crate::listeners::{MULTICAST_PORT, Multicast, NDN_PORT, SYSTEM_SOCKET_PATH, WEBSOCKET_PORT};

/// A day.
const IDLE_SECONDS_MAX: u64 = 86_400;
/// The default subnets of local peers.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1/128"];

/// Common keys of the sections of TCP and UDP.
struct Channel {
    listen: bool,
    port: u16,
    ipv4: bool,
    ipv6: bool,
}

impl Default for Channel {
    fn default() -> Self {
        Self { listen: true, port: NDN_PORT, ipv4: true, ipv6: true }
    }
}

impl Channel {
    fn addresses(&self) -> Vec<IpAddr> {
        let ipv4 = self.ipv4.then_some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let ipv6 = self.ipv6.then_some(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        ipv4.into_iter().chain(ipv6).collect()
    }
}

/// Free ports selected for the sections with port 0 of one forwarder. Clones share them: a reload reads the port that was
/// selected at the start and is in use.
#[derive(Debug, Clone, Default)]
pub struct FreePorts(Arc<Mutex<BTreeMap<String, u16>>>);

impl FreePorts {
    /// The port of a section, selected by `free` at the first call.
    fn select(&self, section: &str, free: fn() -> io::Result<u16>) -> io::Result<u16> {
        let mut selected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(port) = selected.get(section) {
            return Ok(*port);
        }
        let port = free()?;
        selected.insert(section.to_owned(), port);
        Ok(port)
    }
}

fn free_tcp_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?
        .local_addr()?
        .port())
}

fn free_udp_port() -> io::Result<u16> {
    Ok(UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
        .or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?
        .local_addr()?
        .port())
}

/// The groups of UDP multicast, each with two keys.
struct MulticastKeys {
    group_v4: Ipv4Addr,
    port_v4: u16,
    group_v6: Ipv6Addr,
    port_v6: u16,
}

impl Default for MulticastKeys {
    fn default() -> Self {
        Self {
            group_v4: Ipv4Addr::new(224, 0, 23, 170),
            port_v4: MULTICAST_PORT,
            group_v6: Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x1234),
            port_v6: MULTICAST_PORT,
        }
    }
}

/// With a section for UDP, NFD has multicast faces unless they are disabled.
fn multicast_of_nfd() -> Multicast {
    Multicast { enabled: true, ..Multicast::default() }
}

impl Reader<'_> {
    pub(super) fn read_face_system(&mut self, section: &Node) {
        for node in &section.children {
            let key = match node.key.as_str() {
                "unix" => Some("listeners.unix.path"),
                "tcp" => Some("listeners.tcp"),
                "udp" => Some("listeners.udp"),
                "websocket" => Some("listeners.websocket"),
                _ => None,
            };
            if let Some(key) = key {
                self.locations.add(key, node);
            }
            match node.key.as_str() {
                "general" => self.read_face_general(node),
                "unix" => self.read_unix(node),
                "tcp" => self.read_tcp(node),
                "udp" => self.read_udp(node),
                "ether" => self.read_ether(node),
                "websocket" => self.read_websocket(node),
                "netdev_bound" => self.read_netdev_bound(node),
                _ => self.refuse_unknown(node, "face_system"),
            }
        }
    }

    fn read_face_general(&mut self, section: &Node) {
        for node in &section.children {
            match node.key.as_str() {
                "enable_congestion_marking" => {
                    self.config.faces.congestion_marking = self.yes_no(node);
                }
                _ => self.refuse_unknown(node, "face_system.general"),
            }
        }
    }

    fn read_unix(&mut self, section: &Node) {
        self.config.listeners.unix.enabled = true;
        // NFD has this default for all users, Namewire only for root.
        self.config.listeners.unix.path = Some(SYSTEM_SOCKET_PATH.into());
        for node in &section.children {
            match node.key.as_str() {
                "path" if node.value.is_empty() => self.refuse(node, "`path` is empty"),
                "path" => {
                    self.locations.add("listeners.unix.path", node);
                    self.config.listeners.unix.path = Some(node.value.clone().into());
                }
                _ => self.refuse_unknown(node, "face_system.unix"),
            }
        }
    }

    /// Reads a common key of TCP and UDP; false if it is not one.
    fn read_channel_key(&mut self, node: &Node, channel: &mut Channel) -> bool {
        match node.key.as_str() {
            "listen" => channel.listen = self.yes_no(node),
            "port" => {
                let port = self.number(node, 0, u64::from(u16::MAX));
                channel.port = port.and_then(|port| u16::try_from(port).ok()).unwrap_or(1);
            }
            "enable_v4" => channel.ipv4 = self.yes_no(node),
            "enable_v6" => channel.ipv6 = self.yes_no(node),
            _ => return false,
        }
        true
    }

    /// 0 selects any free port, as in NFD. It is selected here, so that it can be reported.
    fn check_port(&mut self, section: &Node, channel: &mut Channel, free: fn() -> io::Result<u16>) {
        let Some(node) = section.children.iter().rfind(|node| node.key == "port") else { return };
        if channel.port != 0 {
            return;
        }
        channel.port = NDN_PORT;
        if !channel.listen {
            return self.no_effect(node, "nothing listens");
        }
        match self.ports.select(&section.key, free) {
            Ok(port) => {
                channel.port = port;
                self.warn(node, format!("`port` is 0: the free port {port} is used this time"));
            }
            Err(error) => self.refuse(node, format!("`port` is 0, and no port is free: {error}")),
        }
    }

    /// Idle timeout of a face in seconds; a day if NFD has a longer or no timeout.
    fn idle_timeout(&mut self, node: &Node) -> Option<Duration> {
        let number = self.number(node, 0, u64::from(u32::MAX))?;
        if (1..=IDLE_SECONDS_MAX).contains(&number) {
            return Some(seconds(number));
        }
        self.warn(node, "`idle_timeout` is limited to a day");
        Some(seconds(IDLE_SECONDS_MAX))
    }

    fn read_tcp(&mut self, section: &Node) {
        let mut channel = Channel::default();
        for node in &section.children {
            match node.key.as_str() {
                "local" => self.read_local(node),
                _ if self.read_channel_key(node, &mut channel) => {}
                _ => self.refuse_unknown(node, "face_system.tcp"),
            }
        }
        if channel.addresses().is_empty() {
            self.refuse(
                section,
                "TCP has neither IPv4 nor IPv6: remove the section to turn it off",
            );
        }
        self.check_port(section, &mut channel, free_tcp_port);
        let tcp = &mut self.config.listeners.tcp;
        tcp.enabled = channel.listen;
        tcp.port = channel.port;
        tcp.addresses = channel.addresses();
    }

    fn read_websocket(&mut self, section: &Node) {
        let mut channel = Channel { port: WEBSOCKET_PORT, ..Channel::default() };
        for node in &section.children {
            if !self.read_channel_key(node, &mut channel) {
                self.refuse_unknown(node, "face_system.websocket");
            }
        }
        // NFD has one socket for both IP versions, and none for IPv6 alone.
        if !channel.ipv4 {
            let either = if channel.ipv6 { "IPv6 without IPv4" } else { "neither IPv4 nor IPv6" };
            self.refuse(
                section,
                format!("WebSocket has {either}: remove the section to turn it off"),
            );
        }
        self.check_port(section, &mut channel, free_tcp_port);
        let websocket = &mut self.config.listeners.websocket;
        websocket.enabled = channel.listen;
        websocket.port = channel.port;
        websocket.addresses = channel.addresses();
    }

    /// The TCP peers with local faces: never more than in the file.
    fn read_local(&mut self, section: &Node) {
        let entries = |key: &str| -> Vec<&Node> {
            section.child(key).map(|list| list.children.iter().collect()).unwrap_or_default()
        };
        for node in &section.children {
            if node.key != "whitelist" && node.key != "blacklist" {
                self.refuse_unknown(node, "face_system.tcp.local");
            }
        }
        let (whitelist, blacklist) = (entries("whitelist"), entries("blacklist"));
        let covers =
            |subnet: &str| whitelist.iter().any(|node| node.key == "*" || node.value == subnet);
        let is_loopback_local =
            LOOPBACK.iter().all(|subnet| covers(subnet)) && blacklist.is_empty();
        self.config.listeners.tcp.loopback_is_local = is_loopback_local;
        for node in whitelist {
            if !LOOPBACK.contains(&node.value.as_str()) {
                self.no_effect(node, "only peers on the loopback interface can be local");
            }
        }
        if !is_loopback_local {
            self.warn(section, "no TCP face is local: all of 127.0.0.0/8 and ::1 must be, or none");
        }
    }

    fn read_udp(&mut self, section: &Node) {
        let mut channel = Channel::default();
        self.config.listeners.multicast = multicast_of_nfd();
        let mut keys = MulticastKeys::default();
        for node in &section.children {
            match node.key.as_str() {
                "idle_timeout" => {
                    if let Some(timeout) = self.idle_timeout(node) {
                        self.config.faces.idle_timeout = timeout;
                    }
                }
                "unicast_mtu" => {
                    if let Some(mtu) = self.number(node, MTU_MIN, MTU_MAX) {
                        self.config.faces.mtu = ByteSize(mtu);
                    }
                }
                "keep_alive_interval" => self.no_effect(node, "NFD does not use it either"),
                "mcast" => self.config.listeners.multicast.enabled = self.yes_no(node),
                "mcast_ad_hoc" => self.config.listeners.multicast.ad_hoc = self.yes_no(node),
                "whitelist" => {
                    self.config.listeners.multicast.interfaces = self.read_interfaces(node);
                }
                "blacklist" => {
                    self.config.listeners.multicast.except = self.read_interfaces(node);
                }
                _ if self.read_multicast_key(node, &mut keys) => {}
                _ if self.read_channel_key(node, &mut channel) => {}
                _ => self.refuse_unknown(node, "face_system.udp"),
            }
        }
        let ipv4 = channel.ipv4.then_some(SocketAddr::from((keys.group_v4, keys.port_v4)));
        let ipv6 = channel.ipv6.then_some(SocketAddr::from((keys.group_v6, keys.port_v6)));
        let groups: Vec<SocketAddr> = ipv4.into_iter().chain(ipv6).collect();
        if channel.addresses().is_empty() {
            self.refuse(
                section,
                "UDP has neither IPv4 nor IPv6: remove the section to turn it off",
            );
        }
        self.check_port(section, &mut channel, free_udp_port);
        self.set_groups(section, &channel, groups);
        let udp = &mut self.config.listeners.udp;
        udp.enabled = channel.listen;
        udp.port = channel.port;
        udp.addresses = channel.addresses();
    }

    /// Groups with the port of the listener have no faces: the socket of the listener would receive
    /// their packets.
    fn set_groups(&mut self, section: &Node, channel: &Channel, mut groups: Vec<SocketAddr>) {
        let multicast = &mut self.config.listeners.multicast;
        let is_shared = |group: &SocketAddr| channel.listen && group.port() == channel.port;
        let shared = groups.iter().copied().find(|group| is_shared(group) && multicast.enabled);
        if let Some(group) = shared {
            groups.retain(|group| !is_shared(group));
            multicast.enabled = !groups.is_empty();
            let key = if group.is_ipv4() { "mcast_port" } else { "mcast_port_v6" };
            let node = section.children.iter().rfind(|node| node.key == key).unwrap_or(section);
            self.warn(
                node,
                format!("{group} has no faces: its port is that of UDP, whose socket would receive the packets of the group"),
            );
        }
        if !groups.is_empty() {
            self.config.listeners.multicast.groups = groups;
        }
    }

    /// As in NFD, the lists apply to multicast faces only, and all interfaces have a listener.
    fn read_ether(&mut self, section: &Node) {
        let mut ethernet = Ethernet { enabled: true, ..Ethernet::default() };
        for node in &section.children {
            match node.key.as_str() {
                "listen" => ethernet.listen = self.yes_no(node),
                "idle_timeout" => {
                    if let Some(timeout) = self.idle_timeout(node) {
                        ethernet.idle_timeout = timeout;
                    }
                }
                "mcast" => ethernet.multicast = self.yes_no(node),
                "mcast_group" => match node.value.parse() {
                    Ok(group) => ethernet.group = group,
                    Err(reason) => self.refuse(node, reason),
                },
                "mcast_ad_hoc" => ethernet.ad_hoc = self.yes_no(node),
                "whitelist" => ethernet.multicast_interfaces = self.read_interfaces(node),
                "blacklist" => ethernet.multicast_except = self.read_interfaces(node),
                _ => self.refuse_unknown(node, "face_system.ether"),
            }
        }
        ethernet.enabled = ethernet.listen || ethernet.multicast;
        self.config.listeners.ethernet = ethernet;
    }

    /// Reads a key of a multicast group; false if it is not one.
    fn read_multicast_key(&mut self, node: &Node, keys: &mut MulticastKeys) -> bool {
        match node.key.as_str() {
            "mcast_group" => self.read_group(node, &mut keys.group_v4, Ipv4Addr::is_multicast),
            "mcast_group_v6" => self.read_group(node, &mut keys.group_v6, Ipv6Addr::is_multicast),
            "mcast_port" => self.read_port(node, &mut keys.port_v4),
            "mcast_port_v6" => self.read_port(node, &mut keys.port_v6),
            _ => return false,
        }
        true
    }

    fn read_group<T: std::str::FromStr>(
        &mut self,
        node: &Node,
        group: &mut T,
        is_group: fn(&T) -> bool,
    ) {
        match node.value.parse().ok().filter(is_group) {
            Some(address) => *group = address,
            None => self.refuse(node, format!("`{}` must be a multicast address", node.key)),
        }
    }

    fn read_port(&mut self, node: &Node, port: &mut u16) {
        self.locations.add("listeners.multicast", node);
        let number = self.number(node, 1, u64::from(u16::MAX));
        *port = number.and_then(|number| u16::try_from(number).ok()).unwrap_or(*port);
    }

    /// Rules with remotes and interfaces, with a face for each pair.
    fn read_netdev_bound(&mut self, section: &Node) {
        for rule in &section.children {
            if rule.key == "rule" {
                self.read_bound_rule(rule);
            } else {
                self.refuse_unknown(rule, "face_system.netdev_bound");
            }
        }
    }

    fn read_bound_rule(&mut self, rule: &Node) {
        let mut bound = BoundFaces {
            remotes: Vec::new(),
            interfaces: vec![InterfaceRule::Any],
            except: Vec::new(),
        };
        let (mut whitelists, mut blacklists) = (0, 0);
        for node in &rule.children {
            match node.key.as_str() {
                "remote" => match FaceUri::parse(&node.value) {
                    Ok(uri) if uri.is_canonical() && ["udp4", "udp6"].contains(&uri.scheme()) => {
                        bound.remotes.push(uri);
                    }
                    Ok(_) => {
                        let text = format!("`{}` is not a canonical udp4 or udp6 URI", node.value);
                        self.refuse(node, text);
                    }
                    Err(error) => self.refuse(node, error.to_string()),
                },
                "whitelist" => {
                    whitelists += 1;
                    bound.interfaces = self.read_interfaces(node);
                }
                "blacklist" => {
                    blacklists += 1;
                    bound.except = self.read_interfaces(node);
                }
                _ => self.refuse_unknown(node, "face_system.netdev_bound.rule"),
            }
        }
        if whitelists > 1 || blacklists > 1 {
            self.refuse(rule, "a rule has one whitelist and one blacklist");
        }
        if bound.remotes.is_empty() {
            return self.refuse(rule, "`remote` is missing in the rule");
        }
        self.config.bound_faces.push(bound);
    }

    /// A list of interfaces: `*`, or entries `ifname`, `ether` and `subnet`.
    fn read_interfaces(&mut self, list: &Node) -> Vec<InterfaceRule> {
        let mut rules = Vec::new();
        for node in &list.children {
            let rule = match node.key.as_str() {
                "*" => Ok(InterfaceRule::Any),
                "ifname" => Ok(InterfaceRule::Name(node.value.clone())),
                key @ ("ether" | "subnet") => match node.value.parse() {
                    Ok(rule @ InterfaceRule::Mac(_)) if key == "ether" => Ok(rule),
                    Ok(rule @ InterfaceRule::Subnet(..)) if key == "subnet" => Ok(rule),
                    Ok(_) => Err(format!("`{}` cannot be `{}`", key, node.value)),
                    Err(reason) => Err(reason),
                },
                key => Err(format!("unknown key `{key}` in `{}`", list.key)),
            };
            match rule {
                Ok(rule) => rules.push(rule),
                Err(reason) => self.refuse(node, reason),
            }
        }
        rules
    }
}
