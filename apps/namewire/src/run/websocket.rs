//! The handshake of WebSocket connections (RFC 6455, section 4.2), before a worker gets them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ndn_security::sha1;
use ndn_sys::stream;

/// Longest request.
const REQUEST_LENGTH_MAX: usize = 8192;
/// What the key is joined with before it is hashed.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A connection whose request has not come yet, or not all of it.
#[derive(Debug)]
pub(super) struct Handshake {
    stream: OwnedFd,
    request: Vec<u8>,
}

/// Who asks for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// A program, or a page that this host serves: it is as local as its address.
    Own,
    /// A page that came from elsewhere, or nobody knows from where: it is not local, whatever the
    /// address of the browser.
    ForeignPage,
}

/// How far a handshake is.
#[derive(Debug)]
pub(super) enum Shaken {
    /// More has to come.
    NotYet(Handshake),
    /// The stream carries WebSocket from here on, and who is at the other end.
    Done(OwnedFd, Client),
    /// The peer wants something else, and has been told so.
    Refused(String),
}

impl Handshake {
    pub(super) fn new(stream: OwnedFd) -> Self {
        Self { stream, request: Vec::new() }
    }

    /// Reads what has come, and answers when it is all there.
    pub(super) fn go_on(mut self) -> Shaken {
        let mut buffer = [0; 2048];
        match stream::read(self.stream.as_fd(), &mut buffer) {
            Ok(0) => return Shaken::Refused("the peer has gone".to_owned()),
            Ok(length) => self.request.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Shaken::NotYet(self),
            Err(error) => return Shaken::Refused(error.to_string()),
        }
        let (answer, client) = match answer(&self.request) {
            Ok(None) => return Shaken::NotYet(self),
            Ok(Some(accepted)) => accepted,
            Err((status, reason)) => {
                let refusal = format!(
                    "HTTP/1.1 {status}\r\nConnection: close\r\nSec-WebSocket-Version: 13\r\n\
                     Content-Length: 0\r\n\r\n"
                );
                let _ = self.write(refusal.as_bytes());
                return Shaken::Refused(reason.to_owned());
            }
        };
        match self.write(answer.as_bytes()) {
            Ok(()) => Shaken::Done(self.stream, client),
            Err(error) => Shaken::Refused(error.to_string()),
        }
    }

    /// A new connection takes so little at once.
    fn write(&self, text: &[u8]) -> io::Result<()> {
        let written = stream::write_vectored(self.stream.as_fd(), &[io::IoSlice::new(text)])?;
        if written == text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

/// Status line and reason of a refusal.
type Refusal = (&'static str, &'static str);

const BAD_REQUEST: &str = "400 Bad Request";
const UPGRADE_REQUIRED: &str = "426 Upgrade Required";

/// The answer to a request and who has sent it; `None` if it is not all there.
fn answer(request: &[u8]) -> Result<Option<(String, Client)>, Refusal> {
    let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else {
        if request.len() > REQUEST_LENGTH_MAX {
            return Err(("431 Request Header Fields Too Large", "the request is too long"));
        }
        return Ok(None);
    };
    if end + 4 != request.len() {
        // Nothing may be sent before the handshake is done.
        return Err((BAD_REQUEST, "something follows the request"));
    }
    let text = str::from_utf8(&request[..end]).map_err(|_| (BAD_REQUEST, "it is not text"))?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    if !(first.starts_with("GET /") && first.ends_with(" HTTP/1.1")) {
        return Err((BAD_REQUEST, "it is no GET of HTTP/1.1"));
    }
    let fields: Vec<(&str, &str)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    let values = |name: &str| {
        let named = fields.iter().filter(move |field| field.0.eq_ignore_ascii_case(name));
        named.map(|field| field.1).collect::<Vec<_>>()
    };
    let has_token = |name: &str, token: &str| {
        let values = values(name);
        let mut tokens = values.iter().flat_map(|value| value.split(','));
        tokens.any(|one| one.trim().eq_ignore_ascii_case(token))
    };
    if !has_token("Upgrade", "websocket") || !has_token("Connection", "upgrade") {
        return Err((UPGRADE_REQUIRED, "it does not ask for WebSocket"));
    }
    if values("Sec-WebSocket-Version") != ["13"] {
        return Err((UPGRADE_REQUIRED, "it asks for another version of WebSocket"));
    }
    let key = match values("Sec-WebSocket-Key")[..] {
        [key] if STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16) => key,
        _ => return Err((BAD_REQUEST, "it has no proper Sec-WebSocket-Key")),
    };
    let accept = STANDARD.encode(sha1(format!("{key}{GUID}").as_bytes()));
    // Browsers say which page asks (RFC 6455, section 10.2), and no script can prevent it.
    let is_own = values("Origin").into_iter().all(is_of_this_host);
    let client = if is_own { Client::Own } else { Client::ForeignPage };
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    Ok(Some((answer, client)))
}

/// Whether pages of this origin (RFC 6454, section 6.2) are served by this host. `null` and `file:`
/// are not: a file may have been downloaded.
fn is_of_this_host(origin: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    if !["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web)) {
        return false;
    }
    let (is_loopback, rest) = match authority.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, rest))) => {
            (host.parse().is_ok_and(|host: Ipv6Addr| host.to_canonical().is_loopback()), rest)
        }
        Some(None) => return false,
        None => {
            let (host, rest) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            let is_address = host.parse().is_ok_and(|host: Ipv4Addr| host.is_loopback());
            (is_address || host.eq_ignore_ascii_case("localhost"), rest)
        }
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    is_loopback && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455, section 1.2, as a browser writes it.
    const REQUEST: &str = "GET /chat HTTP/1.1\r\nHost: server.example.com\r\nupgrade: WebSocket\r\n\
        Connection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Origin: http://example.com\r\nSec-WebSocket-Version: 13\r\n\r\n";

    #[test]
    fn a_proper_request_is_answered_once_it_is_all_there() {
        let (answered, client) = answer(REQUEST.as_bytes()).unwrap().unwrap();
        assert_eq!(client, Client::ForeignPage);
        assert!(answered.starts_with("HTTP/1.1 101 "));
        assert!(answered.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
        for length in 0..REQUEST.len() {
            assert_eq!(answer(&REQUEST.as_bytes()[..length]), Ok(None));
        }
    }

    #[test]
    fn pages_of_other_hosts_are_foreign() {
        let client = |origin: &str| {
            let request = REQUEST.replace("Origin: http://example.com\r\n", origin);
            answer(request.as_bytes()).unwrap().unwrap().1
        };
        assert_eq!(client(""), Client::Own, "no browser");
        for own in [
            "http://localhost",
            "https://LocalHost:8443",
            "http://127.0.0.1:80",
            "http://127.1.2.3",
            "http://[::1]",
            "http://[::1]:8080",
        ] {
            assert_eq!(client(&format!("origin: {own}\r\n")), Client::Own, "{own}");
        }
        for foreign in [
            "",
            "null",
            "file://",
            "localhost",
            "http://localhost.example.com",
            "http://localhost@example.com",
            "http://localhost:1@example.com",
            "http://127.0.0.1.example.com",
            "http://192.0.2.1",
            "http://[2001:db8::1]",
            "http://[::1",
            "http://[::1].example.com",
            "chrome-extension://localhost",
        ] {
            assert_eq!(client(&format!("Origin: {foreign}\r\n")), Client::ForeignPage, "{foreign}");
        }
        let both = "Origin: http://localhost\r\nOrigin: http://example.com\r\n";
        assert_eq!(client(both), Client::ForeignPage);
    }

    #[test]
    fn other_requests_are_refused() {
        for (from, to) in [
            ("GET ", "POST "),
            ("HTTP/1.1", "HTTP/1.0"),
            ("WebSocket\r", "h2c\r"),
            (", Upgrade", ""),
            ("Version: 13", "Version: 8"),
            ("dGhlIHNhbXBsZSBub25jZQ==", "dGhl"),
            ("Sec-WebSocket-Key", "X-Key"),
            ("13\r\n\r\n", "13\r\n\r\nmore"),
        ] {
            let request = REQUEST.replacen(from, to, 1);
            assert_ne!(request, REQUEST);
            assert!(answer(request.as_bytes()).is_err(), "{from} -> {to}");
        }
        assert!(answer(&[b'x'; REQUEST_LENGTH_MAX + 1]).is_err());
        assert!(answer(b"GET /\xff HTTP/1.1\r\n\r\n").is_err());
    }
}
