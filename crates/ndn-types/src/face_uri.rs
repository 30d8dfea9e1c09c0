//! Face URIs (NFD wiki, `FaceMgmt`, "FaceUri"): construction, parsing, and the canonical form that commands require.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::Path;

/// Default port of UDP and TCP unicast.
const UNICAST_PORT: u16 = 6363;
/// Default port of UDP multicast.
const MULTICAST_PORT: u16 = 56363;
/// Default port and path of WebTransport.
const WEBTRANSPORT_PORT: u16 = 6367;
const WEBTRANSPORT_PATH: &str = "/ndn";

/// Error text for a link-local address without a zone.
pub const ZONE_IS_MISSING: &str =
    "the address is on a link: write its interface, as in [fe80::1%eth0]";

/// A face URI: `scheme://host:port/path`.
///
/// [`FaceUri::parse`] checks the form only; [`FaceUri::is_canonical`] checks whether the parts fit the scheme. The
/// constructors for each kind of transport write the ends of existing faces. They write the zone of an IPv6 address as the
/// number of its interface, because they do no I/O; [`FaceUri::with_named_zone`] replaces the number for display.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaceUri {
    scheme: String,
    /// Without the brackets of an IPv6 or Ethernet address.
    host: String,
    bracketed: bool,
    port: String,
    path: String,
}

/// The reason why a text is not a face URI, or has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaceUriError {
    /// The text does not have the form of a face URI.
    #[error("malformed face URI {0:?}")]
    Malformed(String),
    /// The scheme has no canonical form, or the parts do not fit it.
    #[error("face URI {uri} has no canonical form: {reason}")]
    NotCanonizable {
        /// The face URI.
        uri: String,
        /// The reason.
        reason: &'static str,
    },
}

impl FaceUri {
    /// The schemes of faces, those that commands accept first.
    pub const SCHEMES: &[&str] = &[
        "udp",
        "udp4",
        "udp6",
        "tcp",
        "tcp4",
        "tcp6",
        "https",
        "ether",
        "memif",
        "dev",
        "udp4+dev",
        "udp6+dev",
        "unix",
        "fd",
        "ws",
        "wsclient",
        "quic",
        "internal",
        "memory",
        "contentstore",
        "null",
    ];

    /// The schemes with the address of a host.
    pub const IP_SCHEMES: [&str; 6] = ["udp", "udp4", "udp6", "tcp", "tcp4", "tcp6"];

    /// Whether the scheme is one of [`Self::SCHEMES`].
    #[must_use]
    pub fn has_known_scheme(&self) -> bool {
        Self::SCHEMES.contains(&self.scheme())
    }

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

    /// `udp4://`, `udp6://`, `tcp4://` or `tcp6://`: the base scheme (`udp`, `tcp`) with the version of the address.
    #[must_use]
    pub fn from_socket(base_scheme: &str, address: SocketAddr) -> Self {
        let version = if address.is_ipv6() { '6' } else { '4' };
        Self::with_address(format!("{base_scheme}{version}"), address)
    }

    /// `udp4://` or `udp6://`: an end of a UDP face.
    #[must_use]
    pub fn udp(address: SocketAddr) -> Self {
        Self::from_socket("udp", address)
    }

    /// `udp4+dev://` or `udp6+dev://`: the local end of a UDP face that is bound to an interface.
    #[must_use]
    pub fn udp_device(is_ipv4: bool, interface: &str, port: u16) -> Self {
        let scheme = if is_ipv4 { "udp4+dev" } else { "udp6+dev" };
        Self { port: port.to_string(), ..Self::with_host(scheme, interface) }
    }

    /// `tcp4://` or `tcp6://`: an end of a TCP face.
    #[must_use]
    pub fn tcp(address: SocketAddr) -> Self {
        Self::from_socket("tcp", address)
    }

    /// `ws://`: the local end of a WebSocket face, or the address of its listener.
    #[must_use]
    pub fn websocket(address: SocketAddr) -> Self {
        Self::with_address("ws".to_owned(), address)
    }

    /// `wsclient://`: the remote end of a WebSocket face.
    #[must_use]
    pub fn websocket_client(address: SocketAddr) -> Self {
        Self::with_address("wsclient".to_owned(), address)
    }

    /// `quic://`: an end of a WebTransport session, or the address of its listener.
    #[must_use]
    pub fn quic(address: SocketAddr) -> Self {
        Self::with_address("quic".to_owned(), address)
    }

    /// `unix://`: the socket of a Unix stream face.
    #[must_use]
    pub fn unix(path: &Path) -> Self {
        Self { path: path.display().to_string(), ..Self::with_host("unix", "") }
    }

    /// `fd://`: the remote end of an accepted Unix stream.
    #[must_use]
    pub fn descriptor(descriptor: i32) -> Self {
        Self::with_host("fd", &descriptor.to_string())
    }

    /// `memif://`: an interface behind a Unix socket; without a number, the socket itself.
    #[must_use]
    pub fn memif(socket: &Path, interface: Option<u32>) -> Self {
        let mut path = socket.display().to_string();
        if let Some(interface) = interface {
            path = format!("{path}/{interface}");
        }
        Self { path, ..Self::with_host("memif", "") }
    }

    /// `ether://`: a station or a group on an Ethernet link.
    #[must_use]
    pub fn ethernet(address: [u8; 6]) -> Self {
        let host = address.map(|byte| format!("{byte:02x}")).join(":");
        Self { bracketed: true, ..Self::with_host("ether", &host) }
    }

    /// `dev://`: a network interface of this host.
    #[must_use]
    pub fn device(name: &str) -> Self {
        Self::with_host("dev", name)
    }

    /// `internal://`: management and other parts of the forwarder.
    #[must_use]
    pub fn internal() -> Self {
        Self::with_host("internal", "")
    }

    /// `memory://`: an end of a face in memory, between the forwarder and the program that embeds it, which
    /// gives it a number.
    #[must_use]
    pub fn memory(number: u64) -> Self {
        Self::with_host("memory", &number.to_string())
    }

    /// `contentstore://`: the origin of packets from the Content Store.
    #[must_use]
    pub fn content_store() -> Self {
        Self::with_host("contentstore", "")
    }

    /// `null://`: no end.
    #[must_use]
    pub fn null() -> Self {
        Self::with_host("null", "")
    }

    fn with_host(scheme: &str, host: &str) -> Self {
        Self {
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            bracketed: false,
            port: String::new(),
            path: String::new(),
        }
    }

    fn with_address(scheme: String, address: SocketAddr) -> Self {
        let host = match address {
            SocketAddr::V6(address) if address.scope_id() != 0 => {
                format!("{}%{}", address.ip(), address.scope_id())
            }
            SocketAddr::V4(_) | SocketAddr::V6(_) => address.ip().to_string(),
        };
        let (port, path) = (address.port().to_string(), String::new());
        Self { scheme, host, bracketed: address.is_ipv6(), port, path }
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

    /// Whether the scheme is `udp4` or `udp6`.
    #[must_use]
    pub fn is_udp(&self) -> bool {
        matches!(self.scheme(), "udp4" | "udp6")
    }

    /// Whether the scheme is `tcp4` or `tcp6`.
    #[must_use]
    pub fn is_tcp(&self) -> bool {
        matches!(self.scheme(), "tcp4" | "tcp6")
    }

    /// The IP address and port of a URI that has both. The scope of an IPv6 address is set if its zone is the number of
    /// an interface; the caller resolves the name of an interface (`fe80::1%eth0`), see [`FaceUri::zone`].
    #[must_use]
    pub fn socket_address(&self) -> Option<SocketAddr> {
        let (address, port) = (self.ip_address()?, self.port.parse().ok()?);
        let scope = self.zone().and_then(|zone| zone.parse().ok()).unwrap_or(0);
        Some(match address {
            IpAddr::V4(_) => SocketAddr::new(address, port),
            IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, scope).into(),
        })
    }

    /// The zone of a link-local IPv6 address: an interface name.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        self.host.split_once('%').map(|(_, zone)| zone)
    }

    /// The URI with another zone.
    #[must_use]
    pub fn with_zone(&self, zone: &str) -> Self {
        let address = self.host.split_once('%').map_or(self.host.as_str(), |(address, _)| address);
        Self { host: format!("{address}%{zone}"), ..self.clone() }
    }

    /// The URI with the name of an interface for a zone that is its number. The number stays if there is no such interface.
    #[must_use]
    pub fn with_named_zone(self, name_of: impl FnOnce(u32) -> Option<String>) -> Self {
        let index = self.zone().and_then(|zone| zone.parse().ok());
        match index.and_then(name_of) {
            Some(name) => self.with_zone(&name),
            None => self,
        }
    }

    /// Whether the address is link-local and has no zone; [`ZONE_IS_MISSING`] is the text for the operator.
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

    /// Whether the URI has the form that commands accept: numeric addresses, a port, no path, the scheme of the address
    /// family, and a zone if the address is link-local. The interface need not exist.
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

    /// Whether it is a UDP or TCP URI whose host is a name, which a resolver can look up.
    #[must_use]
    pub fn has_host_name(&self) -> bool {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        Self::IP_SCHEMES.contains(&self.scheme())
            && !self.bracketed
            && !self.host.is_empty()
            && self.host.bytes().all(is_of_name)
            && self.host.bytes().any(|byte| byte.is_ascii_alphabetic())
    }

    /// The reason why this UDP or TCP address cannot be that of a peer: port 0, or an unspecified address.
    #[must_use]
    pub fn unreachable_reason(&self) -> Option<&'static str> {
        if !Self::IP_SCHEMES.contains(&self.scheme()) {
            return None;
        }
        if self.port.parse() == Ok(0_u16) {
            return Some("there is no port 0");
        }
        let is_unspecified = self.ip_address().is_some_and(|address| address.is_unspecified());
        is_unspecified.then_some("the address is that of no host")
    }

    /// The URI with its host name in lower case, and with the default port if it has none.
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

    /// The canonical form of a URI whose host needs no name resolution: default ports are added, addresses are written in
    /// their usual form, `udp` and `tcp` become the scheme of the address family. Only a link-local address keeps its zone.
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

    /// Whether the path is that of a socket, followed by the number of an interface.
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
        Ok(Self::ethernet(address))
    }

    /// WebTransport: the host may be a name, and the fragment after `#` is the hash of the expected certificate
    /// (`sha256=…`).
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

/// Host, whether it is in brackets, and port (or empty).
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
mod tests {
    use super::*;

    #[test]
    fn parsed_uri_prints_as_its_text() {
        for text in [
            "udp4://192.0.2.1:6363",
            "udp6://[2001:db8::1]:6363",
            "udp6://[fe80::1%eth0]:6363",
            "tcp://example.net",
            "tcp4://example.net:6363",
            "unix:///run/nfd/nfd.sock",
            "fd://20",
            "ether://[01:00:5e:00:17:aa]",
            "dev://eth0",
            "udp4+dev://eth0:56363",
            "internal://",
            "null://",
            "ws://127.0.0.1:9696",
            "wsclient://127.0.0.1:40000",
            "memif://run/memif.sock/0",
        ] {
            let uri = FaceUri::parse(text).unwrap();
            assert_eq!(uri.to_string(), text);
            assert_eq!(text.parse::<FaceUri>().unwrap(), uri);
        }
    }

    #[test]
    fn malformed_text_is_refused() {
        for text in [
            "",
            "udp4",
            "udp4:/192.0.2.1",
            "://host",
            "udp-4://host",
            "udp4+://host",
            "udp4://:6363",
            "udp4://host:",
            "udp4://host:port",
            "udp4://host:1:2",
            "udp6://[::1",
            "udp6://[]:6363",
            "udp6://[::1]6363",
            "udp6://[host]:1",
            "udp6://[fe80::1%]:6363",
            "udp4://host/path?query",
        ] {
            assert_eq!(FaceUri::parse(text), Err(FaceUriError::Malformed(text.to_owned())));
        }
    }

    #[test]
    fn canonization_does_not_change_a_canonical_uri() {
        for text in [
            "udp4://192.0.2.1:6363",
            "udp4://224.0.23.170:56363",
            "udp6://[2001:db8::1]:6363",
            "udp6://[fe80::1%eth0]:6363",
            "tcp4://127.0.0.1:1",
            "tcp6://[::1]:65535",
            "ether://[08:00:27:01:dd:01]",
            "dev://eth0",
            "udp4+dev://eth0:56363",
            "udp6+dev://eth0:56363",
            "memif:///run/ndn/memif.sock/0",
            "https://router.example:6367/ndn",
            "https://[2001:db8::1]:443/a/b",
            &format!("https://127.0.0.1:6367/ndn#sha256={}", "0f".repeat(32)),
        ] {
            let uri = FaceUri::parse(text).unwrap();
            assert!(uri.is_canonical(), "{text}");
            assert_eq!(uri.canonize().unwrap(), uri);
        }
    }

    #[test]
    fn canonization_adds_defaults() {
        for (text, canonical) in [
            ("udp://192.0.2.1", "udp4://192.0.2.1:6363"),
            ("udp4://192.0.2.1/", "udp4://192.0.2.1:6363"),
            ("udp4://224.0.23.170", "udp4://224.0.23.170:56363"),
            ("udp6://[FF02::1234]", "udp6://[ff02::1234]:56363"),
            ("tcp://[2001:DB8:0:0::1]:06363", "tcp6://[2001:db8::1]:6363"),
            ("udp6://[fe80::1%25eth0]:6363", "udp6://[fe80::1%eth0]:6363"),
            ("ether://[08:0:27:1:DD:01]", "ether://[08:00:27:01:dd:01]"),
            ("dev://eth0/", "dev://eth0"),
            ("https://Router.Example", "https://router.example:6367/ndn"),
            ("https://[2001:DB8:0::1]:0443/", "https://[2001:db8::1]:443/ndn"),
            (
                &format!("https://host#sha256={}", "AB".repeat(32)),
                &format!("https://host:6367/ndn#sha256={}", "ab".repeat(32)),
            ),
        ] {
            let uri = FaceUri::parse(text).unwrap();
            assert!(!uri.is_canonical(), "{text}");
            let result = uri.canonize().unwrap();
            assert_eq!(result.to_string(), canonical);
            assert!(result.is_canonical());
        }
    }

    #[test]
    fn uri_without_canonical_form_is_refused() {
        for text in [
            "udp4://example.net:6363", // needs name resolution
            "udp4://[2001:db8::1]:6363",
            "udp6://192.0.2.1:6363",
            "udp4://192.0.2.1:65536",
            "udp4://192.0.2.1:6363/path",
            "tcp4://224.0.23.170:6363",
            "ether://[08:00:27:01:dd]",
            "ether://[08:00:27:01:dd:01:02]",
            "ether://[08:00:27:01:dd:01]:6363",
            "dev://",
            "dev://eth0:6363",
            "udp4+dev://eth0",
            "https://user@host/ndn",
            "https://host:0/ndn",
            "https://host:65536/ndn",
            "https://host/n d n",
            "https://host/ndn#top",
            "https://host/ndn#sha256=00",
            "unix:///run/nfd/nfd.sock",
            "memif:///run/memif.sock",
            "memif:///run/memif.sock/07",
            "memif://run/memif.sock/x",
            "memif:///0",
            "memif://run/memif.sock/0",
            "fd://20",
            "internal://",
        ] {
            let uri = FaceUri::parse(text).unwrap();
            assert!(!uri.is_canonical(), "{text}");
            assert!(matches!(uri.canonize(), Err(FaceUriError::NotCanonizable { .. })), "{text}");
        }
    }

    #[test]
    fn only_link_local_addresses_have_zones() {
        for text in ["udp6://[fe80::1]:6363", "tcp6://[febf::1]:6363"] {
            let uri = FaceUri::parse(text).unwrap();
            assert!(uri.lacks_zone() && !uri.is_canonical(), "{text}");
            assert!(uri.with_zone("eth0").is_canonical(), "{text}");
            assert_eq!(uri.canonize().unwrap(), uri);
        }
        for (text, expected) in [
            ("udp6://[2001:db8::1%eth0]:6363", "udp6://[2001:db8::1]:6363"),
            ("udp://[fe80::1%25eth0]", "udp6://[fe80::1%eth0]:6363"),
        ] {
            let uri = FaceUri::parse(text).unwrap();
            assert!(!uri.lacks_zone() && !uri.is_canonical(), "{text}");
            assert_eq!(uri.canonize().unwrap().to_string(), expected);
        }
    }

    #[test]
    fn addresses_are_parsed() {
        let uri = FaceUri::parse("udp6://[fe80::1%eth0]:6363").unwrap();
        assert_eq!(uri.socket_address().unwrap(), "[fe80::1]:6363".parse().unwrap());
        assert_eq!(uri.zone(), Some("eth0"));
        assert!(uri.is_canonical());
        assert_eq!(uri.with_zone("eth1").to_string(), "udp6://[fe80::1%eth1]:6363");
        let uri = FaceUri::parse("tcp4://[::ffff:192.0.2.1]:7").unwrap();
        assert_eq!(uri.socket_address().unwrap(), "192.0.2.1:7".parse().unwrap());
        assert!(uri.is_canonical());
        assert_eq!(uri.to_string(), "tcp4://192.0.2.1:7");
        assert_eq!(
            FaceUri::from_socket("tcp", "192.0.2.1:7".parse().unwrap()).to_string(),
            "tcp4://192.0.2.1:7"
        );
        assert_eq!(
            FaceUri::from_socket("udp", "[::1]:7".parse().unwrap()).to_string(),
            "udp6://[::1]:7"
        );
        let uri = FaceUri::parse("ether://[08:00:27:01:dd:01]").unwrap();
        assert_eq!(uri.ethernet_address(), Some([8, 0, 0x27, 1, 0xDD, 1]));
        assert_eq!(uri.socket_address(), None);
    }

    #[test]
    fn host_names_are_distinguished_from_addresses() {
        for (text, expected) in [
            ("udp://router.example", Some("udp://router.example:6363")),
            ("tcp4://Router.example:7000/", Some("tcp4://router.example:7000")),
            ("udp4://192.0.2.1", None),
            ("udp6://[2001:db8::1]", None),
            ("udp4://1.2.3", None),
            ("https://router.example", None),
            ("ether://[08:00:27:01:02:03]", None),
        ] {
            let uri = FaceUri::parse(text).unwrap();
            let found = uri.has_host_name().then(|| uri.with_port().unwrap().to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        for text in
            ["udp://router.example:70000", "udp://router.example:x", "udp://router.example/a"]
        {
            assert!(FaceUri::parse(text).and_then(|uri| uri.with_port()).is_err(), "{text}");
        }
    }

    #[test]
    fn constructors_write_the_form_of_nfd() {
        let address = "[::1]:9696".parse().unwrap();
        for (uri, text) in [
            (FaceUri::unix(Path::new("/run/nfd/nfd.sock")), "unix:///run/nfd/nfd.sock"),
            (FaceUri::descriptor(21), "fd://21"),
            (FaceUri::tcp("192.0.2.1:1".parse().unwrap()), "tcp4://192.0.2.1:1"),
            (FaceUri::udp(address), "udp6://[::1]:9696"),
            (FaceUri::websocket(address), "ws://[::1]:9696"),
            (FaceUri::websocket_client(address), "wsclient://[::1]:9696"),
            (FaceUri::quic(address), "quic://[::1]:9696"),
            (FaceUri::udp_device(true, "eth0", 6363), "udp4+dev://eth0:6363"),
            (FaceUri::udp_device(false, "eth0", 6363), "udp6+dev://eth0:6363"),
            (FaceUri::ethernet([8, 0, 0x27, 0xab, 0xcd, 0xef]), "ether://[08:00:27:ab:cd:ef]"),
            (FaceUri::device("eth1"), "dev://eth1"),
            (FaceUri::memif(Path::new("/run/m.sock"), Some(7)), "memif:///run/m.sock/7"),
            (FaceUri::memif(Path::new("/run/m.sock"), None), "memif:///run/m.sock"),
            (FaceUri::internal(), "internal://"),
            (FaceUri::memory(7), "memory://7"),
            (FaceUri::content_store(), "contentstore://"),
            (FaceUri::null(), "null://"),
        ] {
            assert_eq!(uri.to_string(), text);
            assert_eq!(FaceUri::parse(text).unwrap(), uri, "{text}");
        }
    }

    #[test]
    fn scope_of_an_address_survives_a_round_trip() {
        let address = SocketAddrV6::new("fe80::1".parse().unwrap(), 6363, 0, 3).into();
        let uri = FaceUri::udp(address);
        assert_eq!(uri.to_string(), "udp6://[fe80::1%3]:6363");
        assert_eq!(uri.socket_address(), Some(address));
        let name_of = |index| (index == 3).then(|| "eth0".to_owned());
        let named = uri.clone().with_named_zone(name_of);
        assert_eq!(named.to_string(), "udp6://[fe80::1%eth0]:6363");
        assert_eq!(named.clone().with_named_zone(name_of), named);
        assert_eq!(uri.clone().with_named_zone(|_| None), uri);
    }
}
