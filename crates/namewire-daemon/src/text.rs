//! The wording of errors and addresses.

/// What the system says, without the numbers of its errors: `Connection refused (os error 111)` is
/// `Connection refused`, as in the messages of NFD.
#[must_use]
pub fn without_numbers(reason: &str) -> String {
    let mut parts = reason.split(" (os error ");
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        words.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    words
}

/// Where something listens, of which this is the local face URI: of WebTransport that of its page.
/// Where it listens on all addresses, and where the certificate has to be known by its hash, that is not enough.
#[must_use]
pub fn transport_uri(local: &str) -> String {
    match local.strip_prefix("quic://") {
        Some(address) => format!("https://{address}{}", ndn_webtransport::PATH),
        None => local.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn errors_of_the_system_are_told_in_words() {
        for errno in [rustix::io::Errno::CONNREFUSED, rustix::io::Errno::NOENT] {
            let error = std::io::Error::from(errno);
            let told = without_numbers(&format!("{error}: a reason"));
            assert!(told.ends_with(": a reason") && !told.contains("os error"), "{told}");
            assert!(error.to_string().starts_with(told.trim_end_matches(": a reason")), "{told}");
        }
        for as_it_is in ["", "no number (here)", "two (a) (b)"] {
            assert_eq!(without_numbers(as_it_is), as_it_is);
        }
    }

    #[test]
    fn programs_are_told_uris_that_they_take() {
        let uri = transport_uri("quic://127.0.0.1:6367");
        assert_eq!(uri, "https://127.0.0.1:6367/ndn");
        assert_eq!(uri.parse::<ndn_client::ForwarderAddress>().unwrap().to_string(), uri);
        assert_eq!(transport_uri("udp4://0.0.0.0:6363"), "udp4://0.0.0.0:6363");
    }
}
