#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

#[test]
fn forms_that_parse_print_as_they_were() {
    for text in [
        "udp4://192.0.2.1:6363",
        "udp6://[2001:db8::1]:6363",
        "udp6://[fe80::1%eth0]:6363",
        "tcp://example.net",
        "tcp4://example.net:6363",
        "unix:///run/nfd/nfd.sock",
        "fd://20",
        "ether://[01:00:5e:00:17:aa]",
        "dev://eth0",
        "udp4+dev://eth0:56363",
        "internal://",
        "null://",
        "ws://127.0.0.1:9696",
        "wsclient://127.0.0.1:40000",
        "memif://run/memif.sock/0",
    ] {
        let uri = FaceUri::parse(text).unwrap();
        assert_eq!(uri.to_string(), text);
        assert_eq!(text.parse::<FaceUri>().unwrap(), uri);
    }
}

#[test]
fn malformed_texts() {
    for text in [
        "",
        "udp4",
        "udp4:/192.0.2.1",
        "://host",
        "udp-4://host",
        "udp4+://host",
        "udp4://:6363",
        "udp4://host:",
        "udp4://host:port",
        "udp4://host:1:2",
        "udp6://[::1",
        "udp6://[]:6363",
        "udp6://[::1]6363",
        "udp6://[host]:1",
        "udp6://[fe80::1%]:6363",
        "udp4://host/path?query",
    ] {
        assert_eq!(FaceUri::parse(text), Err(FaceUriError::Malformed(text.to_owned())));
    }
}

#[test]
fn canonical_forms() {
    for text in [
        "udp4://192.0.2.1:6363",
        "udp4://224.0.23.170:56363",
        "udp6://[2001:db8::1]:6363",
        "udp6://[fe80::1%eth0]:6363",
        "tcp4://127.0.0.1:1",
        "tcp6://[::1]:65535",
        "ether://[08:00:27:01:dd:01]",
        "dev://eth0",
        "udp4+dev://eth0:56363",
        "udp6+dev://eth0:56363",
        "memif:///run/ndn/memif.sock/0",
        "https://router.example:6367/ndn",
        "https://[2001:db8::1]:443/a/b",
        &format!("https://127.0.0.1:6367/ndn#sha256={}", "0f".repeat(32)),
    ] {
        let uri = FaceUri::parse(text).unwrap();
        assert!(uri.is_canonical(), "{text}");
        assert_eq!(uri.canonize().unwrap(), uri);
    }
}

#[test]
fn canonization() {
    for (text, canonical) in [
        ("udp://192.0.2.1", "udp4://192.0.2.1:6363"),
        ("udp4://192.0.2.1/", "udp4://192.0.2.1:6363"),
        ("udp4://224.0.23.170", "udp4://224.0.23.170:56363"),
        ("udp6://[FF02::1234]", "udp6://[ff02::1234]:56363"),
        ("tcp://[2001:DB8:0:0::1]:06363", "tcp6://[2001:db8::1]:6363"),
        ("udp6://[fe80::1%25eth0]:6363", "udp6://[fe80::1%eth0]:6363"),
        ("ether://[08:0:27:1:DD:01]", "ether://[08:00:27:01:dd:01]"),
        ("dev://eth0/", "dev://eth0"),
        ("https://Router.Example", "https://router.example:6367/ndn"),
        ("https://[2001:DB8:0::1]:0443/", "https://[2001:db8::1]:443/ndn"),
        (
            &format!("https://host#sha256={}", "AB".repeat(32)),
            &format!("https://host:6367/ndn#sha256={}", "ab".repeat(32)),
        ),
    ] {
        let uri = FaceUri::parse(text).unwrap();
        assert!(!uri.is_canonical(), "{text}");
        let result = uri.canonize().unwrap();
        assert_eq!(result.to_string(), canonical);
        assert!(result.is_canonical());
    }
}

#[test]
fn what_has_no_canonical_form() {
    for text in [
        "udp4://example.net:6363", // needs name resolution
        "udp4://[2001:db8::1]:6363",
        "udp6://192.0.2.1:6363",
        "udp4://192.0.2.1:65536",
        "udp4://192.0.2.1:6363/path",
        "tcp4://224.0.23.170:6363",
        "ether://[08:00:27:01:dd]",
        "ether://[08:00:27:01:dd:01:02]",
        "ether://[08:00:27:01:dd:01]:6363",
        "dev://",
        "dev://eth0:6363",
        "udp4+dev://eth0",
        "https://user@host/ndn",
        "https://host:0/ndn",
        "https://host:65536/ndn",
        "https://host/n d n",
        "https://host/ndn#top",
        "https://host/ndn#sha256=00",
        "unix:///run/nfd/nfd.sock",
        "memif:///run/memif.sock",
        "memif:///run/memif.sock/07",
        "memif://run/memif.sock/x",
        "memif:///0",
        "memif://run/memif.sock/0",
        "fd://20",
        "internal://",
    ] {
        let uri = FaceUri::parse(text).unwrap();
        assert!(!uri.is_canonical(), "{text}");
        assert!(matches!(uri.canonize(), Err(FaceUriError::NotCanonizable { .. })), "{text}");
    }
}

#[test]
fn zones_belong_to_link_local_addresses() {
    for text in ["udp6://[fe80::1]:6363", "tcp6://[febf::1]:6363"] {
        let uri = FaceUri::parse(text).unwrap();
        assert!(uri.lacks_zone() && !uri.is_canonical(), "{text}");
        assert!(uri.with_zone("eth0").is_canonical(), "{text}");
        // Who knows the link can add it.
        assert_eq!(uri.canonize().unwrap(), uri);
    }
    for (text, expected) in [
        ("udp6://[2001:db8::1%eth0]:6363", "udp6://[2001:db8::1]:6363"),
        ("udp://[fe80::1%25eth0]", "udp6://[fe80::1%eth0]:6363"),
    ] {
        let uri = FaceUri::parse(text).unwrap();
        assert!(!uri.lacks_zone() && !uri.is_canonical(), "{text}");
        assert_eq!(uri.canonize().unwrap().to_string(), expected);
    }
}

#[test]
fn addresses() {
    let uri = FaceUri::parse("udp6://[fe80::1%eth0]:6363").unwrap();
    assert_eq!(uri.socket_address().unwrap(), "[fe80::1]:6363".parse().unwrap());
    assert_eq!(uri.zone(), Some("eth0"));
    assert!(uri.is_canonical());
    assert_eq!(uri.with_zone("eth1").to_string(), "udp6://[fe80::1%eth1]:6363");
    let uri = FaceUri::parse("tcp4://[::ffff:192.0.2.1]:7").unwrap();
    assert_eq!(uri.socket_address().unwrap(), "192.0.2.1:7".parse().unwrap());
    assert!(uri.is_canonical());
    assert_eq!(uri.to_string(), "tcp4://192.0.2.1:7");
    assert_eq!(
        FaceUri::from_socket("tcp", "192.0.2.1:7".parse().unwrap()).to_string(),
        "tcp4://192.0.2.1:7"
    );
    assert_eq!(
        FaceUri::from_socket("udp", "[::1]:7".parse().unwrap()).to_string(),
        "udp6://[::1]:7"
    );
    let uri = FaceUri::parse("ether://[08:00:27:01:dd:01]").unwrap();
    assert_eq!(uri.ethernet_address(), Some([8, 0, 0x27, 1, 0xDD, 1]));
    assert_eq!(uri.socket_address(), None);
}

#[test]
fn host_names_are_told_from_addresses() {
    for (text, expected) in [
        ("udp://router.example", Some("udp://router.example:6363")),
        ("tcp4://Router.example:7000/", Some("tcp4://router.example:7000")),
        ("udp4://192.0.2.1", None),
        ("udp6://[2001:db8::1]", None),
        ("udp4://1.2.3", None),
        ("https://router.example", None),
        ("ether://[08:00:27:01:02:03]", None),
    ] {
        let uri = FaceUri::parse(text).unwrap();
        let found = uri.has_host_name().then(|| uri.with_port().unwrap().to_string());
        assert_eq!(found.as_deref(), expected, "{text}");
    }
    for text in ["udp://router.example:70000", "udp://router.example:x", "udp://router.example/a"] {
        assert!(FaceUri::parse(text).and_then(|uri| uri.with_port()).is_err(), "{text}");
    }
}
