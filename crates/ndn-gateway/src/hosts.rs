//! Check of the Host field, against DNS rebinding.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether a request over the loopback interface may use `authority` (the value of the Host field,
/// with or without a port): `localhost`, a loopback address, or one of `others`.
///
/// A browser sends the name of the page's origin. A foreign page whose name resolves to this
/// machine has another name.
#[must_use]
pub fn is_host_allowed(authority: &str, others: &[String]) -> bool {
    let host = without_port(authority.trim());
    let is_loopback = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().map(IpAddr::V4),
    }
    .is_ok_and(|address| address.to_canonical().is_loopback());
    // A name may end with the dot of the root.
    let same = |allowed: &str| {
        host.strip_suffix('.').unwrap_or(host).eq_ignore_ascii_case(without_port(allowed))
    };
    is_loopback || same("localhost") || others.iter().any(|other| same(other))
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_allowed() {
        let others = ["data.example".to_owned()];
        for allowed in [
            "localhost",
            "LocalHost:8080",
            "localhost.",
            "127.0.0.1",
            "127.1.2.3:80",
            "[::1]",
            "[::1]:8080",
            "data.example",
            "DATA.example:443",
        ] {
            assert!(is_host_allowed(allowed, &others), "{allowed}");
        }
        for foreign in [
            "",
            ":80",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "192.0.2.1",
            "[::2]:80",
            "0.0.0.0",
            "127.1",
            "localhost:80:80",
            "user@localhost",
            "evil.data.example",
        ] {
            assert!(!is_host_allowed(foreign, &others), "{foreign}");
        }
    }
}
