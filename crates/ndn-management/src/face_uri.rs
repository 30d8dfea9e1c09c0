//! Face URIs (NFD wiki, `FaceMgmt`, "FaceUri"): parsing, and the canonical form that commands need.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Default port of UDP and TCP unicast.
const UNICAST_PORT: u16 = 6363;
/// Default port of UDP multicast.
const MULTICAST_PORT: u16 = 56363;
/// What gateways that speak WebTransport listen on, and the path that they are asked for.
const WEBTRANSPORT_PORT: u16 = 6367;
const WEBTRANSPORT_PATH: &str = "/ndn";

/// Said of the address of a host on a link that is not named.
pub const ZONE_IS_MISSING: &str =
    "the address is on a link: write its interface, as in [fe80::1%eth0]";

/// A parsed face URI: `scheme://host:port/path`. Parsing checks the form only; whether the parts
/// make sense for the scheme is what [`FaceUri::is_canonical`] tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaceUri {
    scheme: String,
    /// Without the brackets of an IPv6 or Ethernet address.
    host: String,
    bracketed: bool,
    port: String,
    path: String,
}

/// A text is not a face URI.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaceUriError {
    /// The text has not the form of a face URI.
    #[error("malformed face URI {0:?}")]
    Malformed(String),
    /// The scheme has no canonical form, or the parts do not fit it.
    #[error("face URI {uri} has no canonical form: {reason}")]
    NotCanonizable {
        /// The face URI.
        uri: String,
        /// Why not.
        reason: &'static str,
    },
}

impl FaceUri {
    /// Parses `text`.
    ///
    /// # Errors
    /// [`FaceUriError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, FaceUriError> {
        Self::split(text).ok_or_else(|| FaceUriError::Malformed(text.to_owned()))
    }

    fn split(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let (base, extension) =
            scheme.split_once('+').map_or((scheme, None), |(a, b)| (a, Some(b)));
        let is_word = |word: &str| {
            !word.is_empty()
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        if !is_word(base) || !extension.is_none_or(is_word) {
            return None;
        }
        let (authority, path) = rest.find(['/', '#']).map_or((rest, ""), |at| rest.split_at(at));
        if path.contains('?') {
            return None;
        }
        let (host, bracketed, port) = split_authority(authority)?;
        Some(Self {
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            bracketed,
            port: port.to_owned(),
            path: path.to_owned(),
        })
    }

    /// The URI of a UDP (`udp4`, `udp6`) or TCP (`tcp4`, `tcp6`) endpoint.
    #[must_use]
    pub fn from_socket(base_scheme: &str, address: SocketAddr) -> Self {
        let (version, bracketed) = if address.is_ipv6() { ('6', true) } else { ('4', false) };
        Self {
            scheme: format!("{base_scheme}{version}"),
            host: address.ip().to_string(),
            bracketed,
            port: address.port().to_string(),
            path: String::new(),
        }
    }

    /// `udp4`, `tcp6`, `unix`, ...
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Host name, address, interface name or file descriptor; without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Port, or empty.
    #[must_use]
    pub fn port(&self) -> &str {
        &self.port
    }

    /// Path with its leading slash, or empty.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The IP address and port of a canonical UDP or TCP URI. Its zone (`fe80::1%eth0`) is for whoever knows
    /// the interfaces to look up, see [`FaceUri::zone`].
    #[must_use]
    pub fn socket_address(&self) -> Option<SocketAddr> {
        let address = self.ip_address()?;
        Some(SocketAddr::new(address, self.port.parse().ok()?))
    }

    /// The zone of a link-local IPv6 address: an interface name.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        self.host.split_once('%').map(|(_, zone)| zone)
    }

    /// The same with another zone.
    #[must_use]
    pub fn with_zone(&self, zone: &str) -> Self {
        let address = self.host.split_once('%').map_or(self.host.as_str(), |(address, _)| address);
        Self { host: format!("{address}%{zone}"), ..self.clone() }
    }

    /// Whether the address is that of a host on a link which the URI does not name: [`ZONE_IS_MISSING`] says what
    /// to do.
    #[must_use]
    pub fn lacks_zone(&self) -> bool {
        self.zone().is_none() && self.ip_address().is_some_and(is_link_local)
    }

    /// The six bytes of an `ether` URI.
    #[must_use]
    pub fn ethernet_address(&self) -> Option<[u8; 6]> {
        let mut address = [0; 6];
        let mut parts = self.host.split(':');
        for byte in &mut address {
            let part = parts.next().filter(|part| matches!(part.len(), 1 | 2))?;
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        parts.next().is_none().then_some(address)
    }

    /// Whether the URI has the one form that commands accept: numeric addresses, a port, no path, the
    /// scheme of the address family, and a zone if the address is link-local. That there is such an
    /// interface is not looked at.
    #[must_use]
    pub fn is_canonical(&self) -> bool {
        match self.scheme.as_str() {
            "udp4" | "tcp4" | "udp6" | "tcp6" | "ether" | "https" => {
                self.canonize().is_ok_and(|canonical| canonical == *self) && !self.lacks_zone()
            }
            "dev" => !self.host.is_empty() && self.port.is_empty() && self.path.is_empty(),
            "udp4+dev" | "udp6+dev" => !self.port.is_empty() && self.path.is_empty(),
            "memif" => self.is_memif_interface(),
            _ => false,
        }
    }

    /// Whether it is a UDP or TCP URI whose host is a name, to be looked up.
    #[must_use]
    pub fn has_host_name(&self) -> bool {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let schemes = ["udp", "udp4", "udp6", "tcp", "tcp4", "tcp6"];
        schemes.contains(&self.scheme())
            && !self.bracketed
            && !self.host.is_empty()
            && self.host.bytes().all(is_of_name)
            && self.host.bytes().any(|byte| byte.is_ascii_alphabetic())
    }

    /// Why nobody can be at this UDP or TCP address: the port is 0, or the address that of none.
    #[must_use]
    pub fn names_nobody(&self) -> Option<&'static str> {
        if !["udp", "udp4", "udp6", "tcp", "tcp4", "tcp6"].contains(&self.scheme()) {
            return None;
        }
        if self.port.parse() == Ok(0_u16) {
            return Some("there is no port 0");
        }
        let is_unspecified = self.ip_address().is_some_and(|address| address.is_unspecified());
        is_unspecified.then_some("the address is that of no host")
    }

    /// A URI with a host name, and the default port where it has none.
    ///
    /// # Errors
    /// [`FaceUriError::NotCanonizable`] if the port is no number, or there is a path.
    pub fn with_port(&self) -> Result<Self, FaceUriError> {
        if !self.path.is_empty() && self.path != "/" {
            return self.fail("a path is not allowed");
        }
        let port = match self.port.as_str() {
            "" => UNICAST_PORT,
            digits => match digits.parse() {
                Ok(port) => port,
                Err(_) => return self.fail("the port is not a number from 0 to 65535"),
            },
        };
        let host = self.host.to_ascii_lowercase();
        Ok(Self { host, port: port.to_string(), path: String::new(), ..self.clone() })
    }

    /// The canonical form of a URI whose host needs no name resolution: default ports are added,
    /// addresses are written the usual way, `udp` and `tcp` become those of the address family. A zone stays
    /// where it means something: at a link-local address.
    ///
    /// # Errors
    /// [`FaceUriError::NotCanonizable`] if the scheme has no canonical form, the host is a name, or
    /// the parts do not fit.
    pub fn canonize(&self) -> Result<Self, FaceUriError> {
        match self.scheme.as_str() {
            "udp" | "udp4" | "udp6" => self.canonize_ip("udp"),
            "tcp" | "tcp4" | "tcp6" => self.canonize_ip("tcp"),
            "ether" => self.canonize_ether(),
            "https" => self.canonize_https(),
            "dev" if self.host.is_empty() => self.fail("the interface name is missing"),
            "dev" if !self.port.is_empty() => self.fail("a port is not allowed"),
            "dev" if !matches!(self.path.as_str(), "" | "/") => self.fail("a path is not allowed"),
            "dev" => Ok(Self { path: String::new(), ..self.clone() }),
            "udp4+dev" | "udp6+dev" | "memif" if self.is_canonical() => Ok(self.clone()),
            "memif" => self.fail(
                "behind the path of the socket there has to be the number of an interface, from 0 to 4294967295 \
                 and without leading zeros, as in memif:///run/nfd/memif.sock/0",
            ),
            "udp4+dev" | "udp6+dev" => self.fail("interface name and port are needed, no path"),
            _ => self.fail(
                "the scheme is none of udp, udp4, udp6, tcp, tcp4, tcp6, https, ether, memif and dev",
            ),
        }
    }

    /// Whether the URI has the path of a socket, and behind it the number of an interface.
    fn is_memif_interface(&self) -> bool {
        let Some((socket, number)) = self.path.rsplit_once('/') else { return false };
        let is_number = number.parse::<u32>().is_ok_and(|id| id.to_string() == number);
        let names_file = socket.len() > 1 && !socket.ends_with('/');
        self.host.is_empty() && self.port.is_empty() && is_number && names_file
    }

    fn canonize_ip(&self, base_scheme: &str) -> Result<Self, FaceUriError> {
        if !self.path.is_empty() && self.path != "/" {
            return self.fail("a path is not allowed");
        }
        let Some(address) = self.ip_address() else {
            return self.fail("the host is not an IP address");
        };
        let wrong_family = match self.scheme.chars().last() {
            Some('4') => address.is_ipv6(),
            Some('6') => address.is_ipv4(),
            _ => false,
        };
        if wrong_family {
            return self.fail("the address is of the other IP version");
        }
        if base_scheme == "tcp" && address.is_multicast() {
            return self.fail("TCP cannot use a multicast address");
        }
        let port = if self.port.is_empty() {
            if address.is_multicast() { MULTICAST_PORT } else { UNICAST_PORT }
        } else if let Ok(port) = self.port.parse() {
            port
        } else {
            return self.fail("the port is not a number from 0 to 65535");
        };
        let mut canonical = Self::from_socket(base_scheme, SocketAddr::new(address, port));
        if let Some(zone) = self.zone().filter(|_| is_link_local(address)) {
            let zone = zone.strip_prefix("25").filter(|rest| !rest.is_empty()).unwrap_or(zone);
            canonical.host = format!("{}%{zone}", canonical.host);
        }
        Ok(canonical)
    }

    fn canonize_ether(&self) -> Result<Self, FaceUriError> {
        if !self.port.is_empty() || !self.path.is_empty() {
            return self.fail("neither port nor path is allowed");
        }
        let Some(address) = self.ethernet_address() else {
            return self.fail("not an Ethernet address");
        };
        let host = address.map(|byte| format!("{byte:02x}")).join(":");
        Ok(Self { host, bracketed: true, ..self.clone() })
    }

    /// Of WebTransport: the host may be a name, and what follows the path after `#` is the hash of the
    /// certificate that is expected (`sha256=…`).
    fn canonize_https(&self) -> Result<Self, FaceUriError> {
        let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        if self.host.is_empty() || !self.host.bytes().all(is_of_host) {
            return self.fail("the host is neither a name nor an address");
        }
        let port = match self.port.as_str() {
            "" => WEBTRANSPORT_PORT,
            digits => match digits.parse() {
                Ok(port) if port != 0 => port,
                _ => return self.fail("the port is not a number from 1 to 65535"),
            },
        };
        let (path, hash) =
            self.path.find('#').map_or((self.path.as_str(), ""), |at| self.path.split_at(at));
        let is_hash =
            |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !hash.is_empty() && !hash.strip_prefix("#sha256=").is_some_and(is_hash) {
            return self.fail("after # is no certificate hash such as sha256=<64 digits>");
        }
        let is_of_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%".contains(&byte);
        if !path.bytes().all(is_of_path) {
            return self.fail("the path has characters that have to be escaped");
        }
        let path = if matches!(path, "" | "/") { WEBTRANSPORT_PATH } else { path };
        let host = match self.bracketed {
            true => match self.host.parse::<Ipv6Addr>() {
                Ok(address) => address.to_string(),
                Err(_) => return self.fail("the address cannot be used"),
            },
            false => self.host.to_ascii_lowercase(),
        };
        let path = format!("{path}{}", hash.to_ascii_lowercase());
        Ok(Self { host, port: port.to_string(), path, ..self.clone() })
    }

    fn ip_address(&self) -> Option<IpAddr> {
        let host = self.host.split_once('%').map_or(self.host.as_str(), |(host, _)| host);
        if self.bracketed {
            return host.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
        }
        host.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
    }

    fn fail<T>(&self, reason: &'static str) -> Result<T, FaceUriError> {
        Err(FaceUriError::NotCanonizable { uri: self.to_string(), reason })
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Host, whether it was in brackets, and port (or empty).
fn split_authority(authority: &str) -> Option<(&str, bool, &str)> {
    let (host, bracketed, rest) = if let Some(inner) = authority.strip_prefix('[') {
        let (host, rest) = inner.split_once(']')?;
        let (address, zone) =
            host.split_once('%').map_or((host, None), |(a, zone)| (a, Some(zone)));
        let is_address = |byte: u8| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.';
        let bad_zone = zone.is_some_and(|zone| zone.is_empty() || zone.contains([':', ' ', '/']));
        if address.is_empty() || !address.bytes().all(is_address) || bad_zone {
            return None;
        }
        // An IPv4-mapped address stands for the IPv4 address.
        match host.strip_prefix("::ffff:").filter(|mapped| mapped.parse::<Ipv4Addr>().is_ok()) {
            Some(mapped) => (mapped, false, rest),
            None => (host, true, rest),
        }
    } else {
        let (host, rest) = authority.find(':').map_or((authority, ""), |at| authority.split_at(at));
        if host.is_empty() && !rest.is_empty() {
            return None;
        }
        (host, false, rest)
    };
    if rest.is_empty() {
        return Some((host, bracketed, ""));
    }
    let port = rest.strip_prefix(':')?;
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some((host, bracketed, port))
}

impl fmt::Display for FaceUri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://", self.scheme)?;
        if self.bracketed {
            write!(formatter, "[{}]", self.host)?;
        } else {
            formatter.write_str(&self.host)?;
        }
        if !self.port.is_empty() {
            write!(formatter, ":{}", self.port)?;
        }
        formatter.write_str(&self.path)
    }
}

impl std::str::FromStr for FaceUri {
    type Err = FaceUriError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests;
