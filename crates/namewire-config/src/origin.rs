//! The origin of a page in a browser.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::value::text_value;

/// The origin of a page (RFC 6454, section 6.2), such as `https://app.example.com`: scheme, host and
/// port, in lower case and without the default port of the scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    scheme: String,
    /// With brackets around an IPv6 address.
    host: String,
    port: Option<u16>,
}

impl Origin {
    /// Whether this host serves pages of this origin. Files are not: they may have been downloaded.
    #[must_use]
    pub fn is_of_this_host(&self) -> bool {
        let is_loopback = match self.host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
        {
            Some(host) => {
                host.parse().is_ok_and(|host: Ipv6Addr| host.to_canonical().is_loopback())
            }
            None => {
                self.host == "localhost"
                    || self.host.parse().is_ok_and(|host: Ipv4Addr| host.is_loopback())
            }
        };
        is_loopback && matches!(self.scheme.as_str(), "http" | "https")
    }
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not an origin such as https://app.example.com");
        let (scheme, authority) = text.split_once("://").ok_or_else(wrong)?;
        let scheme = scheme.to_ascii_lowercase();
        let is_word = |text: &str| {
            let is_mark = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
            !text.is_empty() && text.bytes().all(is_mark)
        };
        let host_len = match authority.strip_prefix('[') {
            Some(rest) => rest.find(']').ok_or_else(wrong)? + 2,
            None => authority.find(':').unwrap_or(authority.len()),
        };
        let (host, rest) = authority.split_at(host_len);
        let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(host) => host.parse::<Ipv6Addr>().is_ok(),
            None => host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)),
        };
        if !is_word(&scheme) || host.is_empty() || !is_host {
            return Err(wrong());
        }
        let port: Option<u16> = match rest.strip_prefix(':') {
            Some(port) => Some(port.parse().map_err(|_| wrong())?),
            None if rest.is_empty() => None,
            None => return Err(wrong()),
        };
        let usual = match scheme.as_str() {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        };
        let port = port.filter(|port| Some(*port) != usual);
        Ok(Self { scheme, host: host.to_ascii_lowercase(), port })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}", self.scheme, self.host)?;
        self.port.map_or(Ok(()), |port| write!(formatter, ":{port}"))
    }
}

text_value!(
    Origin,
    "origin of pages",
    ["https://app.example.com:8443", "http://[2001:db8::1]"],
    |text| text.parse()
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_normalized_as_in_browsers() {
        let origin = |text: &str| text.parse::<Origin>().unwrap();
        for (text, other, is_same) in [
            ("https://App.Example.com:443", "https://app.example.com", true),
            ("HTTP://x:80", "http://x", true),
            ("http://x:443", "http://x", false),
            ("http://x", "https://x", false),
            ("http://x:8080", "http://x", false),
            ("http://[2001:DB8::1]:80", "http://[2001:db8::1]", true),
            ("chrome-extension://abcdef", "chrome-extension://abcdef", true),
        ] {
            assert_eq!(origin(text) == origin(other), is_same, "{text} {other}");
            assert_eq!(origin(&origin(text).to_string()), origin(text));
        }
        for wrong in [
            "",
            "null",
            "*",
            "file://",
            "example.com",
            "https://",
            "https://a/",
            "https://a/b",
            "https://user@a",
            "https://a:x",
            "https://a:65536",
            "https://[::1",
            "https://[::1].example.com",
            "https://[x]",
            "https://a b",
        ] {
            assert!(wrong.parse::<Origin>().is_err(), "{wrong}");
        }
    }
}
