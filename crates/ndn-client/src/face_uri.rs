//! Resolves face URIs with host names: management accepts addresses only.

use std::net::IpAddr;

use ndn_types::FaceUri;

/// Why a face URI has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaceUriError {
    /// It is malformed, or of another scheme.
    #[error("{0}")]
    Invalid(String),
    /// Its host is not known.
    #[error("{0}")]
    NoHost(String),
}

/// The canonical form of a URI, with its host name resolved.
///
/// # Errors
/// `Invalid`, `NoHost`.
pub async fn canonical_face_uri(uri: &FaceUri) -> Result<FaceUri, FaceUriError> {
    let reason = match uri.canonize() {
        Ok(canonical) => return Ok(canonical.with_named_zone(interface_name)),
        Err(reason) => FaceUriError::Invalid(reason.to_string()),
    };
    let (scheme, host) = (uri.scheme(), uri.host());
    let base_scheme = scheme.trim_end_matches(['4', '6']);
    if host.is_empty() && matches!(base_scheme, "udp" | "tcp") {
        return Err(FaceUriError::Invalid(format!("{uri} has no host")));
    }
    let is_name = matches!(base_scheme, "udp" | "tcp")
        && host.parse::<IpAddr>().is_err()
        && !host.contains([':', '%']);
    if !is_name {
        return Err(reason);
    }
    let no_host = |why: String| FaceUriError::NoHost(format!("{uri}: no such host: {why}"));
    let found =
        tokio::net::lookup_host((host, 0)).await.map_err(|error| no_host(error.to_string()))?;
    let requested = |address: &IpAddr| match scheme.chars().last() {
        Some('4') => address.is_ipv4(),
        Some('6') => address.is_ipv6(),
        _ => true,
    };
    let address = found
        .map(|found| found.ip())
        .find(requested)
        .ok_or_else(|| no_host(format!("{host} has no address of this IP version")))?;
    let host = match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    let port = match uri.port() {
        "" => String::new(),
        port => format!(":{port}"),
    };
    let resolved = format!("{base_scheme}://{host}{port}{}", uri.path());
    FaceUri::parse(&resolved)
        .and_then(|resolved| resolved.canonize())
        .map_err(|error| FaceUriError::Invalid(error.to_string()))
}

/// The name of the network interface with this number.
#[cfg(target_os = "linux")]
fn interface_name(index: u32) -> Option<String> {
    ndn_sys::interface::name_of(index)
}

/// The name of the network interface with this number: its number stays.
#[cfg(not(target_os = "linux"))]
fn interface_name(_: u32) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use ndn_sys::interface;

    use super::*;

    fn resolve(uri: &str) -> Result<String, FaceUriError> {
        let uri = FaceUri::parse(uri).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(canonical_face_uri(&uri)).map(|uri| uri.to_string())
    }

    #[test]
    fn host_names_are_resolved() {
        assert_eq!(resolve("udp4://localhost").unwrap(), "udp4://127.0.0.1:6363");
        assert_eq!(resolve("tcp4://localhost:7000").unwrap(), "tcp4://127.0.0.1:7000");
        assert_eq!(resolve("tcp://192.0.2.1").unwrap(), "tcp4://192.0.2.1:6363");
        assert_eq!(resolve("udp://[2001:db8::1]").unwrap(), "udp6://[2001:db8::1]:6363");
        let lo = interface::index_of("lo").unwrap();
        for zone in ["lo", &lo.to_string(), "25lo"] {
            let resolved = resolve(&format!("udp://[fe80::1%{zone}]")).unwrap();
            assert_eq!(resolved, "udp6://[fe80::1%lo]:6363");
        }
        let either = resolve("udp://localhost").unwrap();
        assert!(["udp4://127.0.0.1:6363", "udp6://[::1]:6363"].contains(&&*either), "{either}");
    }

    #[test]
    fn unknown_hosts_and_invalid_uris_are_distinguished() {
        for uri in ["udp://no-such-host.invalid", "tcp4://no-such-host.invalid:1"] {
            let failure = resolve(uri).unwrap_err();
            assert!(matches!(&failure, FaceUriError::NoHost(_)), "{failure}");
            assert!(failure.to_string().contains("no such host"), "{failure}");
        }
        for uri in ["udp://", "udp4://[2001:db8::1]", "udp4://localhost:70000", "http://localhost"]
        {
            assert!(matches!(resolve(uri), Err(FaceUriError::Invalid(_))), "{uri}");
        }
    }
}
