//! Files of text, and the words of errors.

use std::io;
use std::path::Path;

/// Reads a file of text.
///
/// # Errors
/// It cannot be read, or is no text, which is said in words that name what is wrong with the file.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path).map_err(in_words)
}

/// What reading text failed with, in words.
pub(crate) fn in_words(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::InvalidData {
        let text = "it is a binary file, not text (it has bytes that are not UTF-8)";
        return io::Error::new(io::ErrorKind::InvalidData, text);
    }
    error
}

/// What the system says, without the numbers of its errors: `Connection refused (os error 111)` is
/// `Connection refused`, as in the messages of NFD.
pub(crate) fn without_numbers(reason: &str) -> String {
    let mut parts = reason.split(" (os error ");
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        words.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    words
}

/// Where something listens, of which this is the local face URI: of WebTransport that of its page.
/// Where it listens on all addresses, and where the certificate has to be known by its hash, that is not enough.
pub(crate) fn transport_uri(local: &str) -> String {
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
            let error = io::Error::from(errno);
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

    #[test]
    fn a_file_that_is_no_text_is_told_as_such() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"text").unwrap();
        assert_eq!(read(&path).unwrap(), "text");
        std::fs::write(&path, b"\x06\xfd\xff").unwrap();
        let error = read(&path).unwrap_err();
        assert!(error.to_string().contains("binary file"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
