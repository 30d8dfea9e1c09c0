//! Requests of clients of the HTTP API: Host, Origin, a line of the file of tokens, and a GraphQL request.

use std::net::IpAddr;

use namewire_http::fuzzing::{answer, is_admitted, token_line};

/// Longest response to a request without a token: introspection of the whole schema is far below.
const RESPONSE_LEN_MAX: usize = 16 << 20;

/// Takes the first line as the field Host, the second as Origin if it is not empty, the third as a line of the file of
/// tokens, and the rest as the body of a GraphQL request.
pub(crate) fn http_api(bytes: &[u8]) {
    let mut lines = bytes.splitn(4, |byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (host, origin, token, body) = (line(), line(), line(), line());
    let origin = (!origin.is_empty()).then_some(origin);
    if is_admitted(host, origin) {
        let host = core::str::from_utf8(host).expect("a host that is admitted is text");
        assert!(is_this_machine(host), "{host}");
        if let Some(origin) = origin {
            let origin = core::str::from_utf8(origin).expect("an origin that is admitted is text");
            let (_, authority) = origin.split_once("://").expect("an origin with a scheme");
            assert!(is_this_machine(authority), "{origin}");
        }
    }
    if let Ok(line) = core::str::from_utf8(token)
        && let Some(written) = token_line(line)
    {
        assert_eq!(token_line(written.trim_end()).as_deref(), Some(written.as_str()));
    }
    if let Some((response, is_failure)) = answer(body) {
        assert!(response.len() <= RESPONSE_LEN_MAX, "{} bytes", response.len());
        // Without a token, only the schema is read: by fields that begin with two underscores, which may be escaped.
        let reads_schema = body.windows(2).any(|pair| pair == b"__") || body.contains(&b'\\');
        let is_empty = response == b"{\"data\":{}}" || response == b"{\"data\":null}";
        assert!(is_failure || reads_schema || is_empty, "{}", String::from_utf8_lossy(&response));
    }
}

/// Whether an authority is `localhost` or a loopback address.
fn is_this_machine(authority: &str) -> bool {
    let authority = authority.trim();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = host.strip_suffix('.').unwrap_or(host);
    name.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}
