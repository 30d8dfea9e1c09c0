//! The wording of errors and addresses.

/// Removes the numbers of system errors: `Connection refused (os error 111)` becomes `Connection refused`, as in
/// NFD's messages.
#[must_use]
pub fn without_numbers(reason: &str) -> String {
    let mut parts = reason.split(" (os error ");
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        words.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    words
}

/// Returns the URI that clients use for a listener with this local face URI; for WebTransport, an HTTPS URL. The URI
/// is insufficient if the listener uses all addresses or if clients have to know the certificate hash.
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
    fn error_text_has_no_number() {
        for errno in [rustix::io::Errno::CONNREFUSED, rustix::io::Errno::NOENT] {
            let error = std::io::Error::from(errno);
            let reported = without_numbers(&format!("{error}: a reason"));
            assert!(
                reported.ends_with(": a reason") && !reported.contains("os error"),
                "{reported}"
            );
            assert!(
                error.to_string().starts_with(reported.trim_end_matches(": a reason")),
                "{reported}"
            );
        }
        for as_it_is in ["", "no number (here)", "two (a) (b)"] {
            assert_eq!(without_numbers(as_it_is), as_it_is);
        }
    }

    #[test]
    fn transport_uri_has_the_form_that_clients_accept() {
        let uri = transport_uri("quic://127.0.0.1:6367");
        assert_eq!(uri, "https://127.0.0.1:6367/ndn");
        assert_eq!(uri.parse::<ndn_client::ForwarderAddress>().unwrap().to_string(), uri);
        assert_eq!(transport_uri("udp4://0.0.0.0:6363"), "udp4://0.0.0.0:6363");
    }
}
