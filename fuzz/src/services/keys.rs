//! Keys, certificates and SafeBags, as DER, TLV and text.

use ndn_security::{Certificate, PrivateKey, PublicKey, SafeBag};

/// Takes the bytes as every form of key and certificate. Nothing is decrypted: that would be slow.
pub(crate) fn keys(bytes: &[u8]) {
    if let Ok(key) = PublicKey::from_spki(bytes) {
        assert_eq!(key.spki(), bytes);
        let again = PublicKey::from_spki(key.spki()).expect("a key's own bytes are valid");
        assert_eq!(again.key_type(), key.key_type());
        assert!(!key.matches(&[b"message"], bytes));
    }
    if let Ok(key) = PrivateKey::from_der(bytes) {
        let der = key.to_pkcs8_der().expect("a key that was read can be written");
        let again = PrivateKey::from_der(&der).expect("a key that was written can be read");
        assert_eq!(again.spki(), key.spki());
    }
    if let Ok(certificate) = Certificate::parse(bytes.to_vec()) {
        assert!(certificate.name().starts_with(certificate.key_name()));
        assert!(certificate.key_name().starts_with(certificate.identity()));
        let again = Certificate::from_text(&certificate.to_text()).expect("its own text is valid");
        assert_eq!(again.wire(), certificate.wire());
        let _ = (certificate.is_self_signed(), certificate.issuer(), certificate.description());
    }
    if let Ok(bag) = SafeBag::parse(bytes) {
        let again = SafeBag::parse(&bag.to_wire()).expect("its own bytes are valid");
        assert_eq!(again.certificate().wire(), bag.certificate().wire());
    }
    if let Ok(text) = core::str::from_utf8(bytes) {
        let _ = PrivateKey::from_text(text, None);
        let _ = Certificate::from_text(text);
        let _ = SafeBag::from_text(text);
    }
}
