//! Checks of the head of a request, before anything is done for it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::{Method, StatusCode};
use namewire_config::Origin;
use ndn_gateway::is_host_allowed;

use crate::tokens::Principal;

/// Hosts and origins of requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Admission {
    /// Host names of requests, beside `localhost` and loopback addresses.
    pub(crate) hosts: Vec<String>,
    /// Origins whose pages may send requests, beside the pages of the server itself.
    pub(crate) origins: Vec<Origin>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no Host field, or more than one.
    NoHost,
    /// The Host field names another host: the request may come from a page whose name resolves to this machine.
    Host,
    /// A page of another origin has sent the request.
    Origin,
    /// The path exists, but not with this method; the text is the field Allow.
    Method(&'static str),
    /// The path does not exist.
    Path,
    /// The token is not valid.
    Token,
    /// The body has another content type.
    Type,
    /// The body exceeds the maximum.
    TooLong,
    /// The body was not received in time.
    TooSlow,
    /// There were too many requests in this second.
    Rate,
}

impl Refusal {
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::NoHost => StatusCode::BAD_REQUEST,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin => StatusCode::FORBIDDEN,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Path => StatusCode::NOT_FOUND,
            Self::Token => StatusCode::UNAUTHORIZED,
            Self::Type => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Rate => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::NoHost => "the request needs one Host field\n",
            Self::Host => {
                "the request names another host (control.http.hosts lists further names)\n"
            }
            Self::Origin => "pages of this origin may not send requests (control.http.origins)\n",
            Self::Method(_) => "the method is not allowed here\n",
            Self::Path => "there is nothing at this path\n",
            Self::Token => "the token is wrong or has expired\n",
            Self::Type => "the content type must be application/json\n",
            Self::TooLong => "the body is too long\n",
            Self::TooSlow => "the body was not received in time\n",
            Self::Rate => "too many requests per second\n",
        }
    }
}

impl Admission {
    /// Checks Host and Origin. Returns the origin if a page of a listed origin has sent the request: the response is
    /// for that page.
    ///
    /// # Errors
    /// The request is refused.
    pub(crate) fn check(&self, fields: &HeaderMap) -> Result<Option<HeaderValue>, Refusal> {
        let host = single(fields, HOST.as_str()).ok_or(Refusal::NoHost)?;
        if !is_host_allowed(host, &self.hosts) {
            return Err(Refusal::Host);
        }
        if !fields.contains_key(ORIGIN) {
            return Ok(None);
        }
        let Some(origin) = single(fields, ORIGIN.as_str()) else { return Err(Refusal::Origin) };
        let origin: Origin = origin.parse().map_err(|_| Refusal::Origin)?;
        let is_own = ["http", "https"].into_iter().any(|scheme| {
            format!("{scheme}://{host}").parse().is_ok_and(|own: Origin| own == origin)
        });
        match self.origins.contains(&origin) {
            _ if is_own => Ok(None),
            true => Ok(HeaderValue::try_from(origin.to_string()).ok()),
            false => Err(Refusal::Origin),
        }
    }
}

/// Maximum number of GraphQL requests per second with one token, and of all without a valid one.
pub(crate) const REQUESTS_PER_SECOND_MAX: u32 = 200;

/// Limits the rate of GraphQL requests. It counts those of the current second, by the name of the token.
#[derive(Debug, Default)]
pub(crate) struct Rate(Mutex<(u64, BTreeMap<Option<String>, u32>)>);

impl Rate {
    /// Counts a request in the second `now_s`. `principal` is `None` if it has no valid token.
    ///
    /// # Errors
    /// There were too many of this principal in this second.
    pub(crate) fn admit(&self, now_s: u64, principal: Option<&Principal>) -> Result<(), Refusal> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.0 != now_s {
            *counted = (now_s, BTreeMap::new());
        }
        let count = counted.1.entry(principal.map(|principal| principal.name.clone())).or_default();
        *count = count.saturating_add(1);
        if *count > REQUESTS_PER_SECOND_MAX { Err(Refusal::Rate) } else { Ok(()) }
    }
}

/// Checks the method of a path that only reads.
///
/// # Errors
/// The method is another one.
pub(crate) fn check_reading(method: &Method) -> Result<(), Refusal> {
    match method == Method::GET || method == Method::HEAD {
        true => Ok(()),
        false => Err(Refusal::Method("GET, HEAD")),
    }
}

/// The value of a field that occurs once.
fn single<'a>(fields: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = fields.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Role;

    fn checked(fields: &[(&'static str, &'static str)]) -> Result<Option<String>, Refusal> {
        let admission = Admission {
            hosts: vec!["status.example".to_owned()],
            origins: vec!["https://dashboard.example".parse().unwrap()],
        };
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(*name, HeaderValue::from_static(value));
        }
        let admitted = admission.check(&map)?;
        Ok(admitted.map(|origin| origin.to_str().unwrap().to_owned()))
    }

    #[test]
    fn requests_for_this_host_are_admitted() {
        for host in ["127.0.0.1:6380", "localhost:6380", "[::1]:6380", "status.example"] {
            assert_eq!(checked(&[("host", host)]), Ok(None), "{host}");
        }
        let own = [("host", "127.0.0.1:6380"), ("origin", "http://127.0.0.1:6380")];
        assert_eq!(checked(&own), Ok(None));
        let listed = [("host", "localhost:6380"), ("origin", "https://dashboard.example")];
        assert_eq!(checked(&listed), Ok(Some("https://dashboard.example".to_owned())));
    }

    #[test]
    fn requests_above_the_rate_are_refused_until_the_next_second() {
        let rate = Rate::default();
        for _ in 0..REQUESTS_PER_SECOND_MAX {
            assert_eq!(rate.admit(7, None), Ok(()));
        }
        assert_eq!(rate.admit(7, None), Err(Refusal::Rate));
        let grafana = Principal { name: "grafana".to_owned(), role: Role::Read };
        assert_eq!(rate.admit(7, Some(&grafana)), Ok(()));
        assert_eq!(rate.admit(8, None), Ok(()));
    }

    #[test]
    fn other_hosts_and_origins_are_refused() {
        for (fields, refusal) in [
            (&[][..], Refusal::NoHost),
            (&[("host", "localhost"), ("host", "localhost")], Refusal::NoHost),
            (&[("host", "rebound.example:6380")], Refusal::Host),
            (&[("host", "192.0.2.1:6380")], Refusal::Host),
            (&[("host", "localhost:6380"), ("origin", "null")], Refusal::Origin),
            (&[("host", "localhost:6380"), ("origin", "https://evil.example")], Refusal::Origin),
            // A page of another server on this host.
            (&[("host", "localhost:6380"), ("origin", "http://localhost:8080")], Refusal::Origin),
            (&[("host", "localhost:6380"), ("origin", "http://127.0.0.1:6380")], Refusal::Origin),
            (
                &[
                    ("host", "localhost:6380"),
                    ("origin", "http://localhost:6380"),
                    ("origin", "https://evil.example"),
                ],
                Refusal::Origin,
            ),
        ] {
            assert_eq!(checked(fields), Err(refusal), "{fields:?}");
        }
    }
}
