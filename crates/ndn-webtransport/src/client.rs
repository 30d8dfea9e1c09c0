//! Sessions that are opened here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::io::DuplexStream;
use tokio::net::lookup_host;
use tokio::task::{JoinHandle, JoinSet};
use wtransport::config::{DnsLookupFuture, DnsResolver};
use wtransport::error::ConnectingError;
use wtransport::tls::client::build_default_tls_config;
use wtransport::tls::rustls::client::WebPkiServerVerifier;
use wtransport::tls::rustls::client::danger::ServerCertVerifier;
use wtransport::tls::rustls::crypto::aws_lc_rs::default_provider;
use wtransport::tls::rustls::{self, RootCertStore};
use wtransport::tls::{Sha256Digest, client::ServerHashVerification};
use wtransport::{ClientConfig, Endpoint};

use crate::certificate::CertificateHash;
use crate::counters::Counters;
use crate::path::PathMtu;
use crate::session::{Session, Timeouts, transport_config};
use crate::verifier::{RejectionReason, Verifier};
use crate::{PATH, PORT};

/// Timeout for opening a session.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);
/// Addresses of a host that are tried.
const ADDRESSES_MAX: usize = 4;
/// Delay before the next address is tried in parallel (RFC 8305, section 5).
const HEAD_START: Duration = Duration::from_millis(250);
/// Bytes that wait in each direction between a session and who has it.
const STREAM_BUFFER: usize = 256 * 1024;
/// Longest address.
const URL_LENGTH_MAX: usize = 1024;

/// Where a listener is, and how to know that it is the one: `https://host:port/ndn`, for a certificate of an
/// authority that this system trusts, or `https://host:port/ndn#sha256=…` for one of this hash.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// Name or address, without brackets.
    pub host: String,
    /// UDP port.
    pub port: u16,
    /// Begins with a slash.
    pub path: String,
    /// The certificate.
    pub hash: Option<CertificateHash>,
}

/// Why an address is not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0} (an example: https://host.example:6367/ndn#sha256=<64 hexadecimal digits>)")]
pub struct TargetError(pub &'static str);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if text.len() > URL_LENGTH_MAX {
            return Err(TargetError("the address is too long"));
        }
        let rest = text.strip_prefix("https://");
        let rest = rest.ok_or(TargetError("the address does not begin with https://"))?;
        let (rest, hash) = match rest.split_once('#') {
            None => (rest, None),
            Some((rest, fragment)) => {
                let hash = fragment.strip_prefix("sha256=");
                let hash = hash.ok_or(TargetError("what follows # is not sha256=…"))?;
                (rest, Some(hash.parse().map_err(TargetError)?))
            }
        };
        let (authority, path) = match rest.find('/') {
            None => (rest, PATH),
            Some(at) if &rest[at..] == "/" => (&rest[..at], PATH),
            Some(at) => rest.split_at(at),
        };
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&byte);
        if !path.bytes().all(is_plain) {
            return Err(TargetError("the path has characters that have to be escaped"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => {
                let (host, port) = bracketed
                    .split_once(']')
                    .ok_or(TargetError("a bracket of the address is not closed"))?;
                let _: Ipv6Addr =
                    host.parse().map_err(|_| TargetError("in brackets is no IPv6 address"))?;
                (host, port)
            }
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_of_host) {
            return Err(TargetError("the address has no proper host"));
        }
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => PORT,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
                .parse()
                .ok()
                .filter(|port| *port != 0)
                .ok_or(TargetError("the port is not between 1 and 65535"))?,
            None | Some(_) => return Err(TargetError("the port is not a number")),
        };
        let host = host.to_ascii_lowercase();
        Ok(Self { host, port, path: path.to_owned(), hash })
    }
}

impl Target {
    /// Without the hash.
    #[must_use]
    pub fn url(&self) -> String {
        let Self { host, port, path, .. } = self;
        match host.contains(':') {
            true => format!("https://[{host}]:{port}{path}"),
            false => format!("https://{host}:{port}{path}"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.url())?;
        self.hash.map_or(Ok(()), |hash| write!(formatter, "#sha256={hash}"))
    }
}

/// Why there is no session, for people.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// Nobody answers, or not as a listener of WebTransport does.
    #[error("{0}")]
    Failed(String),
    /// Somebody does, who is not believed to be the one.
    #[error("somebody listens there who is not trusted: {0}")]
    NotTrusted(String),
}

impl From<String> for ConnectError {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// A session that a task of the runtime carries.
#[derive(Debug)]
pub struct Attached {
    /// Frames go and come by it, one behind the other. The session ends with it, and it with the session.
    pub stream: DuplexStream,
    /// Longest frame to be sent.
    pub mtu: PathMtu,
    /// Completes when the listener was notified of the end, or had time enough to be. If the runtime ends before, the
    /// listener notices after its idle timeout.
    pub end: JoinHandle<()>,
}

/// Opens a session and carries it on a task of the runtime.
///
/// # Errors
/// There is no session.
pub async fn attach(target: &Target, idle_timeout: Duration) -> Result<Attached, ConnectError> {
    let session = connect(target, idle_timeout).await?;
    let mtu = session.mtu.clone();
    let (near, stream) = tokio::io::duplex(STREAM_BUFFER);
    let (reader, writer) = tokio::io::split(near);
    let target = target.clone();
    let end = tokio::spawn(async move {
        let end = session.carry(reader, writer, &Counters::default(), Timeouts::default()).await;
        tracing::debug!(%target, %end, "a WebTransport session has ended");
    });
    Ok(Attached { stream, mtu, end })
}

/// Opens a session.
///
/// # Errors
/// Nobody answers in time, or who does is not trusted.
pub async fn connect(target: &Target, idle_timeout: Duration) -> Result<Session, ConnectError> {
    connect_at(target, Vec::new(), idle_timeout).await
}

/// As [`connect`], at one of these addresses of the host; they are looked up if there are none.
pub(crate) async fn connect_at(
    target: &Target,
    addresses: Vec<SocketAddr>,
    idle_timeout: Duration,
) -> Result<Session, ConnectError> {
    let opened = tokio::time::timeout(CONNECT_TIMEOUT, open(target, addresses, idle_timeout)).await;
    opened.unwrap_or_else(|_| Err("no answer came in time".to_owned().into()))
}

async fn open(
    target: &Target,
    mut found: Vec<SocketAddr>,
    idle_timeout: Duration,
) -> Result<Session, ConnectError> {
    if found.is_empty() {
        let looked_up = lookup_host((target.host.as_str(), target.port)).await;
        found.extend(looked_up.map_err(|error| error.to_string())?);
    }
    found.truncate(ADDRESSES_MAX);
    let rejection = RejectionReason::default();
    let tls = tls_config(target, rejection.clone()).await?;
    let mut attempts = JoinSet::new();
    for (number, remote) in (0..).zip(found) {
        let (target, tls) = (target.clone(), tls.clone());
        attempts.spawn(async move {
            tokio::time::sleep(HEAD_START * number).await;
            open_at(&target, remote, tls, idle_timeout).await
        });
    }
    let mut failure = format!("{} has no address", target.host);
    while let Some(ended) = attempts.join_next().await {
        match ended.map_err(|error| error.to_string()).flatten() {
            // The other attempts end with the set.
            Ok(session) => return Ok(session),
            Err(reason) => failure = reason,
        }
    }
    Err(rejection.text().map_or(ConnectError::Failed(failure), ConnectError::NotTrusted))
}

/// Opens a session with the listener at one of the addresses of the host.
async fn open_at(
    target: &Target,
    remote: SocketAddr,
    tls: rustls::ClientConfig,
    idle_timeout: Duration,
) -> Result<Session, String> {
    let any: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // The endpoint would not know which of this host's addresses it has.
    let probe = tokio::net::UdpSocket::bind(SocketAddr::new(any, 0)).await;
    let probe = probe.map_err(|error| error.to_string())?;
    probe.connect(remote).await.map_err(|error| error.to_string())?;
    let own = probe.local_addr().map_err(|error| error.to_string())?.ip();
    drop(probe);
    let config = ClientConfig::builder()
        .with_bind_address(SocketAddr::new(own, 0))
        .with_custom_tls_and_transport(tls, transport_config(idle_timeout))
        .dns_resolver(Resolved(remote))
        .build();
    let endpoint = Endpoint::client(config).map_err(|error| error.to_string())?;
    let connection = endpoint.connect(target.url()).await;
    let connection = connection.map_err(|error| not_opened(target, &error))?;
    let local = endpoint.local_addr().map_err(|error| error.to_string())?;
    Session::new(connection, local)
        .map(|session| session.with_endpoint(endpoint))
        .map_err(|_| "the listener takes no datagrams that are long enough".to_owned())
}

/// Why a listener has not opened a session. The path is what is wrong most often.
fn not_opened(target: &Target, error: &ConnectingError) -> String {
    match matches!(error, ConnectingError::SessionRejected) && target.path != PATH {
        true => format!(
            "the listener rejects sessions at {}; forwarders have theirs at {PATH}",
            target.path
        ),
        false => error.to_string(),
    }
}

/// The certificates to trust; the reason of a rejection goes to `rejection`.
async fn tls_config(
    target: &Target,
    rejection: RejectionReason,
) -> Result<rustls::ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let verifier: Arc<dyn ServerCertVerifier> = match target.hash {
        Some(hash) => Arc::new(ServerHashVerification::new([Sha256Digest::new(hash.0)])),
        None => {
            // Reads files, of which a system may have hundreds.
            let loaded = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
            let loaded = loaded.map_err(|error| error.to_string())?;
            roots.add_parsable_certificates(loaded.certs);
            if roots.is_empty() {
                return Err(
                    "this system trusts no authority: give the certificate's hash".to_owned()
                );
            }
            let (roots, provider) = (Arc::new(roots.clone()), Arc::new(default_provider()));
            WebPkiServerVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|error| error.to_string())?
        }
    };
    let verifier = Arc::new(Verifier::new(verifier, target.hash, rejection));
    Ok(build_default_tls_config(Arc::new(roots), Some(verifier)))
}

/// The host has been looked up already.
#[derive(Debug)]
struct Resolved(SocketAddr);

impl DnsResolver for Resolved {
    fn resolve(&self, _host: &str) -> std::pin::Pin<Box<dyn DnsLookupFuture>> {
        let address = self.0;
        Box::pin(async move { Ok(Some(address)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_path_is_reported() {
        let reported =
            |url: &str| not_opened(&url.parse().unwrap(), &ConnectingError::SessionRejected);
        let other = reported("https://host.example/other");
        assert!(other.contains(" /other;") && other.contains(PATH), "{other}");
        assert!(!reported("https://host.example/ndn").contains(PATH));
    }

    #[test]
    fn addresses_survive_a_round_trip() {
        let hash = "ab".repeat(32);
        for text in [
            "https://host.example:6367/ndn",
            "https://127.0.0.1:443/",
            "https://[2001:db8::1]:4433/other/path?a=b",
            &format!("https://localhost:6367/ndn#sha256={hash}"),
        ] {
            let target: Target = text.parse().unwrap();
            let expected = text.replace(":443/", ":443/ndn");
            assert_eq!(target.to_string(), expected);
            assert_eq!(target.to_string().parse(), Ok(target));
        }
        let short: Target = "https://Host".parse().unwrap();
        assert_eq!(short.to_string(), "https://host:6367/ndn");
        let with_hash: Target = format!("https://[::1]#sha256={hash}").parse().unwrap();
        assert_eq!((with_hash.host.as_str(), with_hash.hash.unwrap().0), ("::1", [0xab; 32]));
    }

    #[test]
    fn addresses_of_other_forms_are_rejected() {
        for text in [
            "",
            "http://host",
            "https://",
            "https:///ndn",
            "https://host:0/ndn",
            "https://host:65536/ndn",
            "https://host:+1/ndn",
            "https://host:x/ndn",
            "https://host:/ndn",
            "https://[::1/ndn",
            "https://[host]/ndn",
            "https://user@host/ndn",
            "https://ho st/ndn",
            "https://host/n d n",
            "https://host/ndn#top",
            "https://host/ndn#sha256=00",
            &format!("https://host/{}", "x".repeat(2000)),
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
