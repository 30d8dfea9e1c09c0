//! Rules that select network interfaces.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ndn_sys::interface::Interface;

use crate::value::text_value;

/// A rule that selects network interfaces, as in NFD's whitelists and blacklists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceRule {
    /// All interfaces.
    Any,
    /// Interfaces whose name matches this pattern, with `*` and `?` as in a shell.
    Name(String),
    /// The interface with this hardware address.
    Mac([u8; 6]),
    /// Interfaces with an address in this network.
    Subnet(IpAddr, u8),
}

impl InterfaceRule {
    /// Whether the rule selects `interface`.
    #[must_use]
    pub fn matches(&self, interface: &Interface) -> bool {
        match self {
            Self::Any => true,
            Self::Name(pattern) => is_match(pattern.as_bytes(), interface.name.as_bytes()),
            Self::Mac(mac) => interface.mac == Some(*mac),
            Self::Subnet(network, length) => {
                interface.addresses.iter().any(|address| is_in(*address, *network, *length))
            }
        }
    }
}

/// Matches a shell pattern without character sets.
fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|skipped| is_match(rest, &name[skipped..])),
        ([b'?', rest @ ..], [_, others @ ..]) => is_match(rest, others),
        ([first, rest @ ..], [other, others @ ..]) => first == other && is_match(rest, others),
        (_, _) => false,
    }
}

fn is_in(address: IpAddr, network: IpAddr, length: u8) -> bool {
    let length = u32::from(length);
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let differs = address.to_bits() ^ network.to_bits();
            differs.checked_shr(32 - length.min(32)).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let differs = address.to_bits() ^ network.to_bits();
            differs.checked_shr(128 - length.min(128)).unwrap_or(0) == 0
        }
        (_, _) => false,
    }
}

impl fmt::Display for InterfaceRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => formatter.write_str("*"),
            Self::Name(pattern) => formatter.write_str(pattern),
            Self::Mac([a, b, c, d, e, f]) => {
                write!(formatter, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
            }
            Self::Subnet(network, length) => write!(formatter, "{network}/{length}"),
        }
    }
}

impl FromStr for InterfaceRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if let Some((network, length)) = text.split_once('/') {
            let wrong = || format!("`{text}` is not a network such as 192.0.2.0/24");
            let network: IpAddr = network.parse().map_err(|_| wrong())?;
            let length: u8 = length.parse().map_err(|_| wrong())?;
            let length_max = if network.is_ipv4() { 32 } else { 128 };
            return if length <= length_max {
                Ok(Self::Subnet(network, length))
            } else {
                Err(wrong())
            };
        }
        if text.contains(':') {
            let wrong = || format!("`{text}` is not a hardware address such as 02:00:5e:10:00:01");
            let bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16));
            let bytes: Vec<u8> = bytes.collect::<Result<_, _>>().map_err(|_| wrong())?;
            return bytes.try_into().map(Self::Mac).map_err(|_| wrong());
        }
        if text.is_empty() || text.contains(char::is_whitespace) {
            return Err(format!("`{text}` is not the name of an interface"));
        }
        Ok(Self::Name(text.to_owned()))
    }
}

text_value!(
    InterfaceRule,
    "`\"*\"`, name of an interface (with `*` and `?`), hardware address or network",
    ["*", "eth0", "en*", "02:00:5e:10:00:01", "192.0.2.0/24", "fe80::/64"],
    |text| text.parse()
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_select_by_name_hardware_address_and_network() {
        let interface = Interface {
            name: "eth10".to_owned(),
            mac: Some([2, 0, 0x5e, 0x10, 0, 1]),
            addresses: vec!["192.0.2.7".parse().unwrap(), "fe80::1".parse().unwrap()],
            ..Interface::default()
        };
        let matches = |rule: &str| {
            let rule: InterfaceRule = rule.parse().unwrap();
            assert_eq!(rule.to_string().parse(), Ok(rule.clone()));
            rule.matches(&interface)
        };
        let chosen = [
            "*",
            "eth10",
            "eth*",
            "e*0",
            "eth?0",
            "02:00:5e:10:00:01",
            "192.0.2.0/24",
            "192.0.2.7/32",
            "0.0.0.0/0",
            "fe80::/64",
            "::/0",
        ];
        assert!(chosen.into_iter().all(matches));
        let others = [
            "eth1",
            "eth",
            "eth?",
            "02:00:5e:10:00:02",
            "192.0.3.0/24",
            "192.0.2.6/32",
            "fe81::/64",
        ];
        assert!(!others.into_iter().any(matches));
        for wrong in ["", "a b", "192.0.2.0/33", "x/8", "02:00", "02:00:5e:10:00:zz"] {
            assert!(wrong.parse::<InterfaceRule>().is_err(), "{wrong}");
        }
    }
}
