//! SRV records of the DNS (RFC 1035, RFC 2782): a minimal resolver to find a hub.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::cli::failure::{Failure, Outcome};

const PORT: u16 = 53;
/// Timeout of a server, and number of attempts.
const TIMEOUT: Duration = Duration::from_secs(3);
const ATTEMPTS: u32 = 2;
/// Maximum number of servers and search domains.
const SERVERS_MAX: usize = 3;
const DOMAINS_MAX: usize = 6;

const TYPE_SRV: u16 = 33;
const CLASS_IN: u16 = 1;
const HEADER_LEN: usize = 12;
/// Maximum length of a name as text, and maximum number of compression pointers in a name: more are
/// a loop.
const NAME_LEN_MAX: usize = 255;
const JUMPS_MAX: usize = 32;

/// DNS servers, and the search domains for relative names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resolver {
    pub(super) servers: Vec<SocketAddr>,
    pub(super) domains: Vec<String>,
}

/// The host and port of a service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Service {
    priority: u16,
    weight: Reverse<u16>,
    pub(super) host: String,
    pub(super) port: u16,
}

impl Resolver {
    /// The resolver of the system (resolv.conf(5)).
    pub(super) fn of_system() -> Self {
        let text = std::fs::read_to_string(Path::new("/etc/resolv.conf")).unwrap_or_default();
        let host = rustix::system::uname();
        Self::parse(&text, &host.nodename().to_string_lossy())
    }

    fn parse(text: &str, host: &str) -> Self {
        let mut resolver = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                    resolver.servers.extend(address.map(|address| SocketAddr::new(address, PORT)));
                }
                Some("search" | "domain") => {
                    resolver.domains =
                        words.map(|word| word.trim_matches('.').to_owned()).collect();
                }
                _ => {}
            }
        }
        if resolver.servers.is_empty() {
            resolver.servers.push((Ipv4Addr::LOCALHOST, PORT).into());
        }
        if resolver.domains.is_empty() {
            let domain = host.split_once('.').map(|(_, domain)| domain.to_owned());
            resolver.domains.extend(domain);
        }
        resolver.servers.truncate(SERVERS_MAX);
        resolver.domains.retain(|domain| !domain.is_empty());
        resolver.domains.truncate(DOMAINS_MAX);
        resolver
    }

    /// Services of an absolute name, in the order in which to try them.
    pub(super) async fn services(&self, name: &str) -> Outcome<Vec<Service>> {
        let query = |id| {
            query(id, name).ok_or_else(|| Failure::Failed(format!("{name} is not a DNS name")))
        };
        let mut reason = format!("no DNS server responds for {name}");
        for server in (0..ATTEMPTS).flat_map(|_| &self.servers) {
            let id = rand::random();
            match ask(*server, &query(id)?, id).await {
                Ok(mut services) => {
                    services.sort();
                    return Ok(services);
                }
                Err(why) => reason = format!("{server}: {name}: {why}"),
            }
        }
        Err(Failure::NoAnswer(reason))
    }
}

/// Queries one server, by TCP if the response is too long for UDP.
async fn ask(server: SocketAddr, query: &[u8], id: u16) -> Result<Vec<Service>, String> {
    let reported = |error: std::io::Error| error.to_string();
    let by_udp = async {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any).await.map_err(reported)?;
        socket.connect(server).await.map_err(reported)?;
        socket.send(query).await.map_err(reported)?;
        let mut buffer = [0; 4096];
        loop {
            let length = socket.recv(&mut buffer).await.map_err(reported)?;
            // Responses to other queries and forged ones are ignored.
            if is_answer(&buffer[..length], query, id) {
                return Ok::<_, String>(buffer[..length].to_vec());
            }
        }
    };
    let silence = |_| "no answer".to_owned();
    let mut answer = timeout(TIMEOUT, by_udp).await.map_err(silence)??;
    if answer[2] & 0x02 != 0 {
        let by_tcp = async {
            let mut stream = TcpStream::connect(server).await.map_err(reported)?;
            let length = u16::try_from(query.len()).map_err(|error| error.to_string())?;
            let framed = [&length.to_be_bytes(), query].concat();
            stream.write_all(&framed).await.map_err(reported)?;
            let length = stream.read_u16().await.map_err(reported)?;
            let mut answer = vec![0; usize::from(length)];
            stream.read_exact(&mut answer).await.map_err(reported)?;
            Ok::<_, String>(answer)
        };
        answer = timeout(TIMEOUT, by_tcp).await.map_err(silence)??;
    }
    if !is_answer(&answer, query, id) {
        return Err("a response to another query".to_owned());
    }
    read_answer(&answer)
}

/// A query for SRV records, recursion desired.
fn query(id: u16, name: &str) -> Option<Vec<u8>> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.trim_end_matches('.').split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length))?;
        message.push(length);
        message.extend(label.as_bytes());
    }
    message.push(0);
    if message.len() - HEADER_LEN > NAME_LEN_MAX {
        return None;
    }
    message.extend(TYPE_SRV.to_be_bytes());
    message.extend(CLASS_IN.to_be_bytes());
    Some(message)
}

/// Whether a message is the response to this query: same ID and question, ignoring case.
fn is_answer(message: &[u8], query: &[u8], id: u16) -> bool {
    message.len() >= query.len()
        && message[..2] == id.to_be_bytes()
        && message[2] & 0x80 != 0
        && message[4..6] == [0, 1]
        && message[HEADER_LEN..query.len()].eq_ignore_ascii_case(&query[HEADER_LEN..])
}

/// The SRV records of a response; none if the name does not exist.
fn read_answer(message: &[u8]) -> Result<Vec<Service>, String> {
    match message.get(3).map(|flags| flags & 0x0f) {
        Some(0) => {}
        Some(3) => return Ok(Vec::new()),
        code => return Err(format!("the server refuses (code {})", code.unwrap_or(0))),
    }
    records(message).ok_or_else(|| "an invalid response".to_owned())
}

fn records(message: &[u8]) -> Option<Vec<Service>> {
    let answers = number(message, 6)?;
    let (_, mut at) = read_name(message, HEADER_LEN)?;
    at += 4;
    let mut services = Vec::new();
    for _ in 0..answers {
        let (_, fixed) = read_name(message, at)?;
        let (ty, length) = (number(message, fixed)?, number(message, fixed + 8)?);
        let value = fixed + 10;
        at = value + usize::from(length);
        message.get(value..at)?;
        if ty == TYPE_SRV {
            let (host, _) = read_name(message, value + 6)?;
            // A host `.` means that the service is not available.
            if !host.is_empty() {
                services.push(Service {
                    priority: number(message, value)?,
                    weight: Reverse(number(message, value + 2)?),
                    port: number(message, value + 4)?,
                    host,
                });
            }
        }
    }
    Some(services)
}

fn number(message: &[u8], at: usize) -> Option<u16> {
    let bytes = message.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// A name, possibly compressed, and the offset after it.
fn read_name(message: &[u8], start: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    let (mut at, mut end) = (start, None);
    for _ in 0..JUMPS_MAX + NAME_LEN_MAX {
        let length = usize::from(*message.get(at)?);
        match length >> 6 {
            0 if length == 0 => return Some((name, end.unwrap_or(at + 1))),
            0 => {
                let label = message.get(at + 1..at + 1 + length)?;
                // Host names have no other characters.
                let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
                let label = std::str::from_utf8(label).ok()?;
                if !label.as_bytes().iter().all(is_plain) {
                    return None;
                }
                if !name.is_empty() {
                    name.push('.');
                }
                name.push_str(label);
                if name.len() > NAME_LEN_MAX {
                    return None;
                }
                at += 1 + length;
            }
            3 => {
                end.get_or_insert(at + 2);
                at = usize::from(number(message, at)? & 0x3fff);
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolver_of_the_system_is_used() {
        let resolver = Resolver::parse(
            "# x\nnameserver 192.0.2.53\nnameserver 2001:db8::53\nsearch cs.example. example\n",
            "host.other",
        );
        let servers = ["192.0.2.53:53", "[2001:db8::53]:53"].map(|text| text.parse().unwrap());
        assert_eq!(resolver.servers, servers);
        assert_eq!(resolver.domains, ["cs.example", "example"]);
        let bare = Resolver::parse("", "host.site.example");
        assert_eq!(bare.servers, ["127.0.0.1:53".parse().unwrap()]);
        assert_eq!(bare.domains, ["site.example"]);
        assert!(Resolver::parse("options ndots:2", "host").domains.is_empty());
    }

    /// A response with these SRV records, whose names point to the question.
    fn answer(query: &[u8], records: &[(u16, u16, u16, &str)]) -> Vec<u8> {
        let mut message = query.to_vec();
        message[2] |= 0x80;
        message[7] = u8::try_from(records.len()).unwrap();
        for (priority, weight, port, host) in records {
            message.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 60]);
            let target = super::query(0, host).unwrap()[HEADER_LEN..].to_vec();
            let target = &target[..target.len() - 4];
            message.extend(u16::try_from(6 + target.len()).unwrap().to_be_bytes());
            for number in [priority, weight, port] {
                message.extend(number.to_be_bytes());
            }
            message.extend(target);
        }
        message
    }

    #[test]
    fn services_are_ordered_by_priority_and_weight() {
        let query = query(7, "_ndn._udp.site.example").unwrap();
        let records =
            [(20, 0, 1, "c.example"), (10, 1, 6363, "b.example"), (10, 9, 7000, "a.example")];
        let message = answer(&query, &records);
        assert!(is_answer(&message, &query, 7));
        assert!(!is_answer(&message, &query, 8));
        let mut services = read_answer(&message).unwrap();
        services.sort();
        let found: Vec<_> = services.iter().map(|found| (&*found.host, found.port)).collect();
        assert_eq!(found, [("a.example", 7000), ("b.example", 6363), ("c.example", 1)]);
    }

    #[test]
    fn malformed_responses_are_rejected() {
        let query = query(7, "_ndn._udp.site.example").unwrap();
        let message = answer(&query, &[(1, 1, 6363, "a.example")]);
        for length in 0..message.len() {
            let cut = &message[..length];
            assert!(!is_answer(cut, &query, 7) || read_answer(cut).is_err(), "{length} bytes");
        }
        for at in HEADER_LEN..message.len() {
            for byte in [0, 0x3f, 0x40, 0xc0, 0xff] {
                let mut changed = message.clone();
                changed[at] = byte;
                let _ = read_answer(&changed);
            }
        }
        // A compression pointer to itself.
        let mut looped = message.clone();
        let last = looped.len() - 11;
        looped[last] = 0xc0;
        looped[last + 1] = u8::try_from(last).unwrap();
        assert!(read_answer(&looped).is_err());
        let mut missing = answer(&query, &[]);
        missing[3] = 3;
        assert_eq!(read_answer(&missing), Ok(Vec::new()));
        missing[3] = 2;
        assert!(read_answer(&missing).is_err());
        assert!(super::query(1, &"x".repeat(64)).is_none());
        assert!(super::query(1, "a..b").is_none());
        assert!(super::query(1, &"abcdefg.".repeat(40)).is_none());
    }
}
