//! Object identifiers, as the contents of their DER encoding.

use crate::KeyError;

pub(crate) const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
pub(crate) const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
pub(crate) const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
pub(crate) const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
pub(crate) const P384: &[u8] = &[0x2b, 0x81, 0x04, 0, 0x22];
pub(crate) const P521: &[u8] = &[0x2b, 0x81, 0x04, 0, 0x23];
pub(crate) const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 13];
pub(crate) const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 12];
pub(crate) const HMAC_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 7];
pub(crate) const HMAC_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 9];
pub(crate) const HMAC_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 10];
pub(crate) const HMAC_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 11];
pub(crate) const AES_128_CBC: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 2];
pub(crate) const AES_192_CBC: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 22];
pub(crate) const AES_256_CBC: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 42];

/// The error for an algorithm that is not implemented.
pub(crate) fn unsupported(what: &'static str, kind: &'static str, oid: &[u8]) -> KeyError {
    KeyError::UnsupportedAlgorithm { what, kind, oid: dotted(oid) }
}

/// Dotted form of the contents of an OBJECT IDENTIFIER; `?` marks a malformed part.
fn dotted(oid: &[u8]) -> String {
    let mut arcs = Vec::new();
    let mut value: Option<u64> = Some(0);
    let mut pending = false;
    for &byte in oid {
        value = value.and_then(|v| v.checked_mul(128)).map(|v| v | u64::from(byte & 0x7f));
        pending = byte & 0x80 != 0;
        if !pending {
            arcs.push(value);
            value = Some(0);
        }
    }
    let mut text = String::new();
    for (index, arc) in arcs.into_iter().enumerate() {
        match (index, arc) {
            (0, Some(first)) => {
                let root = (first / 40).min(2);
                text.push_str(&format!("{root}.{}", first - root * 40));
            }
            (_, Some(arc)) => text.push_str(&format!(".{arc}")),
            (_, None) => text.push_str(".?"),
        }
    }
    if pending || text.is_empty() {
        text.push('?');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_identifiers_are_printed_in_dotted_form() {
        assert_eq!(dotted(RSA_ENCRYPTION), "1.2.840.113549.1.1.1");
        assert_eq!(dotted(P256), "1.2.840.10045.3.1.7");
        assert_eq!(dotted(AES_256_CBC), "2.16.840.1.101.3.4.1.42");
        assert_eq!(dotted(&[]), "?");
        assert_eq!(dotted(&[0x2a, 0x86]), "1.2?");
        assert_eq!(dotted(&[0xff; 20]), "?");
    }
}
