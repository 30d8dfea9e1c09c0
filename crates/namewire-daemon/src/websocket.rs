//! WebSocket handshake (RFC 6455, section 4.2), before a worker gets the connection.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ndn_security::sha1;
use ndn_sys::stream;

use crate::config::Origin;

/// Maximum request length.
const REQUEST_LENGTH_MAX: usize = 8192;
/// Appended to the key before hashing (RFC 6455, section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

ndn_types::resource! {
    /// Handshakes, as a resource that principals share.
    pub(super) struct Handshakes = "websocket_handshakes";
}

/// A connection whose request is incomplete.
#[derive(Debug)]
pub(super) struct Handshake {
    stream: OwnedFd,
    request: Vec<u8>,
}

/// Rules for which pages may connect and which are as local as the address of their browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Admission {
    /// Permitted origins, in addition to this host and `local_origins`; `None` permits all.
    pub(super) origins: Option<Vec<Origin>>,
    /// Origins that are as local as pages of this host.
    pub(super) local_origins: Vec<Origin>,
}

/// The kind of client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// A program, or a page that this host serves or trusts: as local as its address.
    Own,
    /// A page of another or unknown origin: not local, whatever the address of the browser.
    ForeignPage,
}

impl Admission {
    /// Classifies a client by its Origin fields; `None` if it may not connect.
    pub(super) fn client(&self, origins: &[&str]) -> Option<Client> {
        let parsed = origins.iter().map(|origin| origin.parse::<Origin>().ok());
        let parsed: Vec<Option<Origin>> = parsed.collect();
        let all = |is_it: &dyn Fn(&Origin) -> bool| {
            parsed.iter().all(|origin| origin.as_ref().is_some_and(is_it))
        };
        if all(&|origin| origin.is_of_this_host() || self.local_origins.contains(origin)) {
            return Some(Client::Own);
        }
        let is_admitted = self.origins.as_ref().is_none_or(|list| {
            all(&|origin| {
                list.contains(origin)
                    || origin.is_of_this_host()
                    || self.local_origins.contains(origin)
            })
        });
        is_admitted.then_some(Client::ForeignPage)
    }
}

/// Progress of a handshake.
#[derive(Debug)]
pub(super) enum HandshakeProgress {
    /// The request is incomplete.
    NotYet(Handshake),
    /// The handshake is complete; the stream carries WebSocket frames of this client.
    Done(OwnedFd, Client),
    /// The request was rejected, and the peer informed.
    Refused(String),
}

impl Handshake {
    pub(super) fn new(stream: OwnedFd) -> Self {
        Self { stream, request: Vec::new() }
    }

    /// Reads the available part of the request, and answers it once complete.
    pub(super) fn advance(mut self, admission: &Admission) -> HandshakeProgress {
        let mut buffer = [0; 2048];
        match stream::read(self.stream.as_fd(), &mut buffer) {
            Ok(0) => return HandshakeProgress::Refused("the peer has gone".to_owned()),
            Ok(length) => self.request.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return HandshakeProgress::NotYet(self);
            }
            Err(error) => return HandshakeProgress::Refused(error.to_string()),
        }
        let (answer, client) = match answer(&self.request, admission) {
            Ok(None) => return HandshakeProgress::NotYet(self),
            Ok(Some(accepted)) => accepted,
            Err((status, reason)) => {
                let refusal = format!(
                    "HTTP/1.1 {status}\r\nConnection: close\r\nSec-WebSocket-Version: 13\r\n\
                     Content-Length: 0\r\n\r\n"
                );
                let _ = self.write(refusal.as_bytes());
                return HandshakeProgress::Refused(reason.to_owned());
            }
        };
        match self.write(answer.as_bytes()) {
            Ok(()) => HandshakeProgress::Done(self.stream, client),
            Err(error) => HandshakeProgress::Refused(error.to_string()),
        }
    }

    /// The send buffer of a new connection has room for this text.
    fn write(&self, text: &[u8]) -> io::Result<()> {
        let written = stream::write_vectored(self.stream.as_fd(), &[io::IoSlice::new(text)])?;
        if written == text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

/// Status line and reason of a rejection.
type Refusal = (&'static str, &'static str);

const BAD_REQUEST: &str = "400 Bad Request";
const FORBIDDEN: &str = "403 Forbidden";
const UPGRADE_REQUIRED: &str = "426 Upgrade Required";

/// Returns the answer to a request and its client; `None` if the request is incomplete.
fn answer(request: &[u8], admission: &Admission) -> Result<Option<(String, Client)>, Refusal> {
    let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else {
        if request.len() > REQUEST_LENGTH_MAX {
            return Err(("431 Request Header Fields Too Large", "the request is too long"));
        }
        return Ok(None);
    };
    if end + 4 != request.len() {
        // The client must not send before the handshake is complete.
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
    // Browsers report the origin of the page (RFC 6455, section 10.2), and no script can change it.
    let client = admission
        .client(&values("Origin"))
        .ok_or((FORBIDDEN, "pages of its origin may not connect"))?;
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    Ok(Some((answer, client)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455, section 1.2, in a browser's spelling.
    const REQUEST: &str = "GET /chat HTTP/1.1\r\nHost: server.example.com\r\nupgrade: WebSocket\r\n\
        Connection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Origin: http://example.com\r\nSec-WebSocket-Version: 13\r\n\r\n";

    fn any_origin() -> Admission {
        Admission { origins: None, local_origins: Vec::new() }
    }

    fn answer(request: &[u8]) -> Result<Option<(String, Client)>, Refusal> {
        super::answer(request, &any_origin())
    }

    #[test]
    fn valid_request_is_answered_once_complete() {
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
    fn origins_determine_admission_and_scope() {
        let origins = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        let some = Admission {
            origins: Some(origins(&["https://app.example.com"])),
            local_origins: origins(&["http://own.example.com:8080"]),
        };
        let none = Admission { origins: Some(Vec::new()), ..any_origin() };
        for (own, some_client, none_client) in [
            (&["https://app.example.com"][..], Some(Client::ForeignPage), None),
            (&["https://APP.example.com:443"], Some(Client::ForeignPage), None),
            (&["http://app.example.com"], None, None),
            (&["http://own.example.com:8080"], Some(Client::Own), None),
            (&["http://own.example.com"], None, None),
            (&["http://localhost:3000"], Some(Client::Own), Some(Client::Own)),
            (&["null"], None, None),
            (&["http://localhost", "https://app.example.com"], Some(Client::ForeignPage), None),
            (&["https://app.example.com", "http://evil.example.com"], None, None),
            // A program, which sends no Origin.
            (&[], Some(Client::Own), Some(Client::Own)),
        ] {
            assert_eq!(some.client(own), some_client, "{own:?}");
            assert_eq!(none.client(own), none_client, "{own:?}");
        }
        assert_eq!(super::answer(REQUEST.as_bytes(), &none).unwrap_err().0, FORBIDDEN);
    }

    #[test]
    fn invalid_requests_are_rejected() {
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
