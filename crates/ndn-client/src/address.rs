//! The forwarder's address: `NDN_CLIENT_TRANSPORT`, `client.conf`, or the default sockets.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

/// Default port of UDP and TCP.
const DEFAULT_PORT: u16 = 6363;

/// Environment variable with the forwarder's address.
pub(crate) const TRANSPORT_VARIABLE: &str = "NDN_CLIENT_TRANSPORT";

/// Paths of `client.conf` besides `~/.ndn`; the first one found is used.
const CONFIGURATION_DIRECTORIES: [&str; 3] =
    ["/usr/local/etc/ndn", "/opt/local/etc/ndn", "/etc/ndn"];

/// A forwarder's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForwarderAddress {
    /// `unix:///path`.
    Unix(PathBuf),
    /// `tcp://host:port`, also `tcp4` and `tcp6`.
    Tcp {
        /// Host name or address, without brackets.
        host: String,
        /// Port.
        port: u16,
        /// Required address family, if any.
        family: Option<Family>,
    },
    /// `udp://host:port`, also `udp4` and `udp6`.
    Udp {
        /// Host name or address, without brackets.
        host: String,
        /// Port.
        port: u16,
        /// Required address family, if any.
        family: Option<Family>,
    },
    /// `memif:///path`: shared memory, through the forwarder's memif socket; `memif:///path/id` for
    /// a specific interface.
    Memif(ndn_memif::Address),
    /// `https://host:port/ndn`, with `#sha256=…` for a certificate that no authority has signed:
    /// WebTransport.
    WebTransport(ndn_webtransport::Target),
}

/// Version of the Internet Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Why a forwarder address is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{place}{uri:?} is not a forwarder address: {reason} (examples: unix:///run/nfd/nfd.sock, tcp4://127.0.0.1:6363)"
)]
pub struct AddressError {
    /// Its location, if it comes from a file or the environment: `/etc/ndn/client.conf:3: `.
    pub place: String,
    /// The invalid text.
    pub uri: String,
    /// The reason.
    pub reason: &'static str,
}

impl FromStr for ForwarderAddress {
    type Err = AddressError;

    fn from_str(uri: &str) -> Result<Self, AddressError> {
        let error = |reason| AddressError { place: String::new(), uri: uri.to_owned(), reason };
        let (scheme, rest) = uri.split_once("://").ok_or_else(|| error("it has no scheme"))?;
        if scheme == "unix" {
            if !rest.starts_with('/') {
                return Err(error("the path of a Unix socket must be absolute"));
            }
            return Ok(Self::Unix(PathBuf::from(rest)));
        }
        if scheme == "memif" {
            let address = ndn_memif::Address::from_path(rest);
            return address.map(Self::Memif).map_err(|_| error("it is not a socket path"));
        }
        if scheme == "https" {
            let target = uri.parse().map(Self::WebTransport);
            return target.map_err(|ndn_webtransport::TargetError(reason)| error(reason));
        }
        let family = match scheme.chars().last() {
            Some('4') => Some(Family::V4),
            Some('6') => Some(Family::V6),
            _ => None,
        };
        let (host, port) = split_host(rest.trim_end_matches('/')).map_err(error)?;
        match scheme.trim_end_matches(['4', '6']) {
            "tcp" => Ok(Self::Tcp { host, port, family }),
            "udp" => Ok(Self::Udp { host, port, family }),
            _ => Err(error(
                "its scheme is not one of unix, tcp, tcp4, tcp6, udp, udp4, udp6, memif, https",
            )),
        }
    }
}

fn split_host(text: &str) -> Result<(String, u16), &'static str> {
    let (host, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed.split_once(']').ok_or("a bracket is not closed")?;
            (host, rest.strip_prefix(':'))
        }
        None => match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => (host, Some(port)),
            _ => (text, None),
        },
    };
    if host.is_empty() {
        return Err("it has no host");
    }
    let port = match port {
        Some(port) => port.parse().map_err(|_| "its port is not a number up to 65535")?,
        None => DEFAULT_PORT,
    };
    Ok((host.to_owned(), port))
}

impl fmt::Display for ForwarderAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host, port, family) = match self {
            Self::Unix(path) => return write!(f, "unix://{}", path.display()),
            Self::Memif(address) => return address.fmt(f),
            Self::WebTransport(target) => return target.fmt(f),
            Self::Tcp { host, port, family } => ("tcp", host, port, family),
            Self::Udp { host, port, family } => ("udp", host, port, family),
        };
        let family = match family {
            Some(Family::V4) => "4",
            Some(Family::V6) => "6",
            None => "",
        };
        if host.contains(':') {
            write!(f, "{scheme}{family}://[{host}]:{port}")
        } else {
            write!(f, "{scheme}{family}://{host}:{port}")
        }
    }
}

/// Origin of an address, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressSource {
    /// Given by the caller.
    Given,
    /// The environment variable `NDN_CLIENT_TRANSPORT`.
    Environment,
    /// A `client.conf`.
    File(PathBuf),
    /// No configuration: a default socket.
    Default,
}

impl fmt::Display for AddressSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.write_str("given by the caller"),
            Self::Environment => write!(f, "from the environment variable {TRANSPORT_VARIABLE}"),
            Self::File(path) => write!(f, "from {}", path.display()),
            Self::Default => f.write_str("the default"),
        }
    }
}

/// Addresses to try in order, and their origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidates {
    /// At least one.
    pub addresses: Vec<ForwarderAddress>,
    /// Their origin.
    pub source: AddressSource,
}

impl Candidates {
    /// One address given by the caller.
    #[must_use]
    pub fn given(address: ForwarderAddress) -> Self {
        Self { addresses: vec![address], source: AddressSource::Given }
    }

    /// The addresses configured by the environment and files of this process.
    ///
    /// # Errors
    /// When the variable or the file contains an invalid address.
    pub fn from_environment() -> Result<Self, AddressError> {
        Self::resolve(
            |name| std::env::var(name).ok(),
            |path| std::fs::read_to_string(path).ok(),
            rustix::process::geteuid().is_root(),
        )
    }

    /// As [`Self::from_environment`], with variables and files read by the given functions, for
    /// root or another user.
    ///
    /// # Errors
    /// When the variable or the file contains an invalid address.
    pub fn resolve(
        variable: impl Fn(&str) -> Option<String>,
        read: impl Fn(&Path) -> Option<String>,
        is_root: bool,
    ) -> Result<Self, AddressError> {
        let non_empty = |name: &str| variable(name).filter(|value| !value.is_empty());
        if let Some(uri) = non_empty(TRANSPORT_VARIABLE) {
            let source = AddressSource::Environment;
            let address = address_at(&uri, || TRANSPORT_VARIABLE.to_owned())?;
            return Ok(Self { addresses: vec![address], source });
        }
        let home = non_empty("HOME").map(|home| Path::new(&home).join(".ndn"));
        let directories = CONFIGURATION_DIRECTORIES.iter().map(PathBuf::from);
        for directory in home.into_iter().chain(directories) {
            let path = directory.join("client.conf");
            let Some(text) = read(&path) else {
                continue;
            };
            if let Some((line, uri)) = transport_of_configuration(&text) {
                let address = address_at(uri, || format!("{}:{line}", path.display()))?;
                return Ok(Self { addresses: vec![address], source: AddressSource::File(path) });
            }
            break;
        }
        let runtime_directory = non_empty("XDG_RUNTIME_DIR").map(PathBuf::from);
        let sockets = usual_sockets(is_root, runtime_directory.as_deref());
        let addresses = sockets.into_iter().map(ForwarderAddress::Unix).collect();
        Ok(Self { addresses, source: AddressSource::Default })
    }
}

/// Default socket of a system-wide forwarder.
const SYSTEM_SOCKET_PATH: &str = "/run/nfd/nfd.sock";

/// Sockets to try without configuration, in order: the user's forwarder before the system's.
fn usual_sockets(is_root: bool, runtime_directory: Option<&Path>) -> Vec<PathBuf> {
    let mut sockets = vec![PathBuf::from(SYSTEM_SOCKET_PATH)];
    if let Some(directory) = runtime_directory {
        sockets.insert(usize::from(is_root), directory.join("nfd").join("nfd.sock"));
    }
    // Older forwarders.
    sockets.push("/run/nfd.sock".into());
    sockets
}

/// Parses an address with its location.
fn address_at(uri: &str, place: impl Fn() -> String) -> Result<ForwarderAddress, AddressError> {
    uri.parse().map_err(|error| AddressError { place: format!("{}: ", place()), ..error })
}

/// The value of `transport` in a `client.conf`, with its line number: lines `key=value`, comments
/// after `;` or `#`.
fn transport_of_configuration(text: &str) -> Option<(usize, &str)> {
    (1..).zip(text.lines()).find_map(|(number, line)| {
        let line = line.trim();
        if line.starts_with([';', '#']) {
            return None;
        }
        let (key, value) = line.split_once('=')?;
        let value = value.trim().trim_matches('"');
        (key.trim() == "transport" && !value.is_empty()).then_some((number, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        for uri in [
            "unix:///run/nfd/nfd.sock",
            "tcp4://127.0.0.1:6363",
            "tcp://host.example:1234",
            "tcp6://[::1]:6363",
            "udp4://127.0.0.1:6363",
            "memif:///run/nfd/memif.sock",
            "memif:///run/nfd/memif.sock/3",
            "https://host.example:6367/ndn",
            "https://[2001:db8::1]:443/other#sha256=0101010101010101010101010101010101010101010101010101010101010101",
        ] {
            assert_eq!(uri.parse::<ForwarderAddress>().unwrap().to_string(), uri);
        }
        let short = "tcp://[2001:db8::1]".parse::<ForwarderAddress>().unwrap();
        assert_eq!(short.to_string(), "tcp://[2001:db8::1]:6363");
        assert_eq!(
            "udp://router".parse::<ForwarderAddress>().unwrap().to_string(),
            "udp://router:6363"
        );
    }

    #[test]
    fn invalid_addresses_are_explained() {
        for (uri, reason) in [
            ("/run/nfd.sock", "no scheme"),
            ("unix://nfd.sock", "absolute"),
            ("ws://host:9696", "scheme is not one of"),
            ("memif://memif.sock/0", "not a socket path"),
            ("https://host/ndn#x", "what follows #"),
            ("tcp://:6363", "no host"),
            ("tcp://host:x", "port"),
            ("tcp://host:65536", "port"),
            ("tcp://[::1", "bracket"),
        ] {
            let error = uri.parse::<ForwarderAddress>().unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }

    fn resolve(variables: &[(&str, &str)], files: &[(&str, &str)]) -> Candidates {
        let find = |pairs: &[(&str, &str)], key: &str| {
            pairs.iter().find(|(k, _)| *k == key).map(|(_, value)| (*value).to_owned())
        };
        Candidates::resolve(
            |name| find(variables, name),
            |path| find(files, path.to_str().unwrap()),
            false,
        )
        .unwrap()
    }

    #[test]
    fn environment_then_file_then_default() {
        let home = ("HOME", "/home/me");
        let mine = ("/home/me/.ndn/client.conf", "; comment\ntransport = tcp4://10.0.0.1:7000\n");
        let system = ("/etc/ndn/client.conf", "pib=x\ntransport=unix:///system.sock");
        let environment = (TRANSPORT_VARIABLE, "unix:///mine.sock");

        let found = resolve(&[home, environment], &[mine, system]);
        assert_eq!(found.source, AddressSource::Environment);
        assert_eq!(found.addresses[0].to_string(), "unix:///mine.sock");

        let found = resolve(&[home], &[mine, system]);
        assert_eq!(found.source, AddressSource::File("/home/me/.ndn/client.conf".into()));
        assert_eq!(found.addresses[0].to_string(), "tcp4://10.0.0.1:7000");

        let found = resolve(&[], &[system]);
        assert_eq!(found.addresses[0].to_string(), "unix:///system.sock");

        // The first file found is used, even if it does not set a transport.
        let empty = ("/home/me/.ndn/client.conf", ";transport=unix:///commented.sock\n");
        let found = resolve(&[home, ("XDG_RUNTIME_DIR", "/run/user/7")], &[empty, system]);
        assert_eq!(found.source, AddressSource::Default);
        let addresses: Vec<_> = found.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(
            addresses,
            ["unix:///run/user/7/nfd/nfd.sock", "unix:///run/nfd/nfd.sock", "unix:///run/nfd.sock"]
        );
        let of_root = usual_sockets(true, Some(Path::new("/run/user/0")));
        assert_eq!(of_root[0], Path::new(SYSTEM_SOCKET_PATH));
        assert_eq!(of_root[1], Path::new("/run/user/0/nfd/nfd.sock"));
        assert_eq!(usual_sockets(false, None)[0], Path::new(SYSTEM_SOCKET_PATH));
    }

    #[test]
    fn invalid_configured_address_is_reported_with_its_location() {
        let text = "; a comment\n\ntransport=nonsense".to_owned();
        let file = |path: &Path| path.starts_with("/etc").then(|| text.clone());
        let error = Candidates::resolve(|_| None, file, false).unwrap_err().to_string();
        assert!(error.starts_with("/etc/ndn/client.conf:3: \"nonsense\" is not"), "{error}");
        let variable = |name: &str| (name == TRANSPORT_VARIABLE).then(|| "nothing".to_owned());
        let error = Candidates::resolve(variable, |_| None, false).unwrap_err().to_string();
        assert!(error.starts_with("NDN_CLIENT_TRANSPORT: \"nothing\" is not"), "{error}");
        let given = "neither".parse::<ForwarderAddress>().unwrap_err().to_string();
        assert!(given.starts_with("\"neither\" is not"), "{given}");
    }
}
