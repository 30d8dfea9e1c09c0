//! Who may be asked for: against web pages whose own name leads to this machine (DNS rebinding).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether a request that came over the loopback interface may ask for `authority` (the value of the
/// Host field, with or without a port): `localhost`, a loopback address, or one of `others`.
///
/// A browser sends the name that its page has. A page of somebody else, whose name was made to lead to
/// this machine, has another one.
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
    fn names_of_this_machine_are_allowed_and_no_others() {
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
