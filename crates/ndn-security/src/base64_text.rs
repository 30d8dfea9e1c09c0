//! Base64 and PEM text of keys and certificates.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::KeyError;

/// Bytes per line of output, as in `ndnsec` files and PEM.
const LINE_LEN: usize = 64;

/// Decodes base64 `text`, ignoring all whitespace.
pub(crate) fn decode(text: &str, what: &'static str) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let mut compact = Zeroizing::new(Vec::with_capacity(text.len()));
    compact.extend(text.bytes().filter(|byte| !byte.is_ascii_whitespace()));
    let mut out = Zeroizing::new(Vec::with_capacity(compact.len() / 4 * 3 + 3));
    STANDARD.decode_vec(compact.as_slice(), &mut out).map_err(|_| KeyError::Base64 { what })?;
    Ok(out)
}

/// Encodes `bytes` in lines of 64 characters, each ended by a newline.
pub(crate) fn encode_lines(bytes: &[u8]) -> Zeroizing<String> {
    let line = Zeroizing::new(STANDARD.encode(bytes));
    let mut out = Zeroizing::new(String::with_capacity(line.len() + line.len() / LINE_LEN + 2));
    let mut rest = line.as_str();
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(rest.len().min(LINE_LEN));
        out.push_str(head);
        out.push('\n');
        rest = tail;
    }
    out
}

/// The first PEM block of `text` as `(label, contents)`.
pub(crate) fn decode_pem(text: &str) -> Result<(&str, Zeroizing<Vec<u8>>), KeyError> {
    let (_, after) = text.split_once("-----BEGIN ").ok_or(KeyError::Pem)?;
    let (label, after) = after.split_once("-----").ok_or(KeyError::Pem)?;
    let (body, after) = after.split_once("-----END ").ok_or(KeyError::Pem)?;
    let (end_label, _) = after.split_once("-----").ok_or(KeyError::Pem)?;
    if label != end_label {
        return Err(KeyError::Pem);
    }
    Ok((label, decode(body, "the PEM block")?))
}

/// `bytes` as a PEM block with `label`.
pub(crate) fn encode_pem(label: &str, bytes: &[u8]) -> Zeroizing<String> {
    let body = encode_lines(bytes);
    Zeroizing::new(format!("-----BEGIN {label}-----\n{}-----END {label}-----\n", body.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_round_trips() {
        for length in [0, 1, 47, 48, 49, 200] {
            let bytes: Vec<u8> = (0..length).collect();
            let text = encode_lines(&bytes);
            assert!(text.lines().all(|line| line.len() <= LINE_LEN));
            assert_eq!(*decode(&text, "it").unwrap(), bytes);
            let pem = encode_pem("PRIVATE KEY", &bytes);
            let (label, body) = decode_pem(&pem).unwrap();
            assert_eq!((label, body.as_slice()), ("PRIVATE KEY", bytes.as_slice()));
        }
    }

    #[test]
    fn malformed_base64_is_rejected() {
        assert_eq!(decode("@@@@", "it").unwrap_err(), KeyError::Base64 { what: "it" });
        for text in [
            "",
            "-----BEGIN X",
            "-----BEGIN X-----\nAAAA",
            "-----BEGIN X-----\nAAAA\n-----END X",
            "-----BEGIN X-----\nAAAA\n-----END Y-----",
        ] {
            assert_eq!(decode_pem(text).unwrap_err(), KeyError::Pem, "{text}");
        }
    }
}
