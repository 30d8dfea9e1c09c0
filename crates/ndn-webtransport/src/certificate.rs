//! Whom a listener says it is.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use wtransport::tls::WEBTRANSPORT_ALPN;
use wtransport::tls::rustls::crypto::aws_lc_rs::default_provider;
use wtransport::tls::rustls::pki_types::pem::{self, PemObject};
use wtransport::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use wtransport::tls::rustls::{self, ServerConfig};

/// In the first line of a key that is encrypted: `BEGIN ENCRYPTED PRIVATE KEY`, or the older header.
const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// Why a certificate cannot be used.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// The file with certificates has none, or something else.
    #[error("no certificate in PEM is there: {0}")]
    NoCertificate(String),
    /// The file with the key has none.
    #[error("no private key in PEM is there: {0}")]
    NoKey(String),
    /// The two do not belong together, or the key is of a kind that cannot be used.
    #[error("the certificate cannot be used with the key: {0}")]
    Unusable(String),
    /// No key could be made.
    #[error("no key can be made: there are no random numbers")]
    KeyGeneration,
}

/// SHA-256 of a certificate in DER, by which a page or a client can trust it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CertificateHash(pub [u8; 32]);

impl fmt::Display for CertificateHash {
    /// In hexadecimal digits.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl std::str::FromStr for CertificateHash {
    type Err = &'static str;

    /// Hexadecimal digits, with or without colons.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits: Option<Vec<u8>> = text
            .chars()
            .filter(|one| *one != ':')
            .map(|one| one.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect();
        let digits = digits.filter(|digits| digits.len() == 64);
        let digits = digits.ok_or("a SHA-256 hash is written as 64 hexadecimal digits")?;
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Self(hash))
    }
}

/// A certificate with those that lead to its authority, and its key.
#[derive(Clone)]
pub struct Identity {
    config: Arc<ServerConfig>,
    hash: CertificateHash,
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Identity").field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl Identity {
    /// From the contents of PEM files: certificates, the own one first, and the key (PKCS #8, SEC1 or
    /// PKCS #1).
    ///
    /// # Errors
    /// There is none, or the two do not belong together.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
        let chain = chain.map_err(|error| CertificateError::NoCertificate(explain_pem(&error)))?;
        if chain.is_empty() {
            return Err(CertificateError::NoCertificate("the file has none".to_owned()));
        }
        let is_encrypted = key.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED);
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
            CertificateError::NoKey(match is_encrypted {
                true => "it is encrypted, and nobody could be asked for its passphrase".to_owned(),
                false => explain_pem(&error),
            })
        })?;
        Self::new(chain, key)
    }

    pub(crate) fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, CertificateError> {
        let unusable = |error: rustls::Error| CertificateError::Unusable(explain(&error));
        let hash = chain.first().map(|own| hash_of(own)).unwrap_or(CertificateHash([0; 32]));
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(unusable)?;
        config.alpn_protocols = vec![WEBTRANSPORT_ALPN.to_vec()];
        Ok(Self { config: Arc::new(config), hash })
    }

    /// Its hash.
    #[must_use]
    pub fn hash(&self) -> CertificateHash {
        self.hash
    }

    pub(crate) fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }
}

/// The reason why a file is not valid PEM, as text.
fn explain_pem(error: &pem::Error) -> String {
    let words = if matches!(error, pem::Error::NoItemsFound) {
        "the file has none"
    } else if matches!(error, pem::Error::MissingSectionEnd { .. }) {
        "a part of the file has no end"
    } else if matches!(error, pem::Error::IllegalSectionStart { .. }) {
        "a part of the file begins wrongly"
    } else if matches!(error, pem::Error::Base64Decode(_)) {
        "what stands between BEGIN and END is no Base64"
    } else {
        return error.to_string();
    };
    words.to_owned()
}

/// Why a certificate and a key cannot be shown to anybody.
fn explain(error: &rustls::Error) -> String {
    if matches!(error, rustls::Error::InconsistentKeys(_)) {
        "it is the key of another certificate".to_owned()
    } else if matches!(error, rustls::Error::InvalidCertificate(_)) {
        "the certificate is damaged".to_owned()
    } else if let rustls::Error::General(text) = error {
        format!("the key is none of ECDSA, Ed25519 or RSA that can be used ({text})")
    } else {
        error.to_string()
    }
}

/// The hash of a certificate in DER.
pub(crate) fn hash_of(certificate: &[u8]) -> CertificateHash {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
    let mut hash = [0; 32];
    hash.copy_from_slice(digest.as_ref());
    CertificateHash(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x509::{self, pem};

    const DAY_S: u64 = 86_400;
    const NOW_S: u64 = 1_795_000_000;

    #[test]
    fn certificate_hash_round_trips() {
        let hash = hash_of(b"certificate");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        let with_colons: Vec<String> = hash.0.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(with_colons.join(":").parse(), Ok(hash));
        let text = hash.to_string();
        for wrong in ["", "00", &text[1..], &format!("{text}0"), &text.replacen(&text[..1], "g", 1)]
        {
            assert!(wrong.parse::<CertificateHash>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn certificate_without_its_key_is_rejected() {
        let (key, certificate) = x509::self_signed(NOW_S, NOW_S + DAY_S).unwrap();
        let (certificate, key) = (pem("CERTIFICATE", &certificate), pem("PRIVATE KEY", &key));
        let identity = Identity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        assert_ne!(identity.hash(), CertificateHash([0; 32]));
        let (other, _) = x509::self_signed(NOW_S, NOW_S + DAY_S).unwrap();
        let other = pem("PRIVATE KEY", &other);
        for (certificate, key) in [
            (certificate.as_str(), other.as_str()),
            (&certificate, ""),
            (&certificate, &certificate),
            ("", &key),
            (&key, &key),
            (&certificate.replace("MII", "AAA"), &key),
        ] {
            let _ = Identity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap_err();
        }
        let output = |key: &str| {
            Identity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap_err().to_string()
        };
        assert!(output(&other).contains("the key of another certificate"), "{}", output(&other));
        assert!(output("").contains("the file has none"), "{}", output(""));
        let encrypted = key.replace("PRIVATE", "ENCRYPTED PRIVATE");
        assert!(output(&encrypted).contains("encrypted"), "{}", output(&encrypted));
    }
}
