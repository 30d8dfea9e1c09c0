//! Whom a listener says it is: certificates from files, and self-signed ones that renew themselves.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use wtransport::tls::WEBTRANSPORT_ALPN;
use wtransport::tls::rustls::crypto::aws_lc_rs::default_provider;
use wtransport::tls::rustls::pki_types::pem::PemObject;
use wtransport::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use wtransport::tls::rustls::{self, ServerConfig};

use crate::x509;

const DAY_S: u64 = 86_400;
/// Self-signed certificates hold from a day ago, for clocks that are late.
const EARLIER_S: u64 = DAY_S;
/// And for so long from now: browsers refuse to trust a hash of one that holds for more than 14 days.
const LATER_S: u64 = 12 * DAY_S;
/// So long before the end there is a successor, whose hash is told beside that of the certificate.
const PREPARE_S: u64 = 6 * DAY_S;
/// So long before the end the successor takes over.
const TAKE_OVER_S: u64 = DAY_S;

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
        let chain = chain.map_err(|error| CertificateError::NoCertificate(error.to_string()))?;
        if chain.is_empty() {
            return Err(CertificateError::NoCertificate("the file has none".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| CertificateError::NoKey(error.to_string()))?;
        Self::new(chain, key)
    }

    /// A self-signed one with a key of its own, that holds from a day before `now_s` (seconds since 1970)
    /// to 12 days after.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn self_signed(now_s: u64) -> Result<Self, CertificateError> {
        let (key, certificate) =
            x509::self_signed(now_s.saturating_sub(EARLIER_S), now_s.saturating_add(LATER_S))?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        Self::new(vec![CertificateDer::from(certificate)], key)
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, CertificateError> {
        let unusable = |error: rustls::Error| CertificateError::Unusable(error.to_string());
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

/// The hash of a certificate in DER.
pub(crate) fn hash_of(certificate: &[u8]) -> CertificateHash {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
    let mut hash = [0; 32];
    hash.copy_from_slice(digest.as_ref());
    CertificateHash(hash)
}

/// Self-signed certificates, one after the other.
#[derive(Debug)]
pub(crate) struct Rotation {
    current: Identity,
    /// When the current one ends.
    end_s: u64,
    next: Option<(Identity, u64)>,
}

impl Rotation {
    pub(crate) fn new(now_s: u64) -> Result<Self, CertificateError> {
        let current = Identity::self_signed(now_s)?;
        Ok(Self { current, end_s: now_s.saturating_add(LATER_S), next: None })
    }

    pub(crate) fn current(&self) -> &Identity {
        &self.current
    }

    /// The hash of the current certificate, and of the one to come if there is one.
    pub(crate) fn hashes(&self) -> Vec<CertificateHash> {
        let next = self.next.as_ref().map(|(next, _)| next.hash());
        std::iter::once(self.current.hash()).chain(next).collect()
    }

    /// Makes or installs a successor when it is time. Whether something has changed.
    pub(crate) fn look(&mut self, now_s: u64) -> Result<bool, CertificateError> {
        let mut has_changed = false;
        // After a long sleep, or when the clock was put forward.
        if self.next.as_ref().is_some_and(|(_, end_s)| now_s.saturating_add(TAKE_OVER_S) >= *end_s)
        {
            self.next = None;
        }
        if self.next.is_none() && now_s.saturating_add(PREPARE_S) >= self.end_s {
            self.next = Some((Identity::self_signed(now_s)?, now_s.saturating_add(LATER_S)));
            has_changed = true;
        }
        if now_s.saturating_add(TAKE_OVER_S) >= self.end_s
            && let Some((next, end_s)) = self.next.take()
        {
            (self.current, self.end_s) = (next, end_s);
            has_changed = true;
        }
        Ok(has_changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_795_000_000;

    #[test]
    fn hashes_are_read_as_they_are_written() {
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
    fn there_is_a_successor_before_a_certificate_ends() {
        let mut rotation = Rotation::new(NOW_S).unwrap();
        let first = rotation.current().hash();
        assert!(!rotation.look(NOW_S + 5 * DAY_S).unwrap());
        assert_eq!(rotation.hashes(), [first]);
        assert!(rotation.look(NOW_S + 6 * DAY_S).unwrap());
        let [told_first, told_next] = rotation.hashes()[..] else { panic!("no successor") };
        assert_eq!(told_first, first);
        assert_ne!(told_next, first);
        assert!(!rotation.look(NOW_S + 10 * DAY_S).unwrap());
        assert!(rotation.look(NOW_S + 11 * DAY_S).unwrap());
        // The one that was told takes over.
        assert_eq!(rotation.hashes(), [told_next]);
        assert!(!rotation.look(NOW_S + 11 * DAY_S + 1).unwrap());
        // It was made on the sixth day, and holds to the eighteenth.
        assert!(rotation.look(NOW_S + 12 * DAY_S).unwrap());
        assert_eq!(rotation.hashes().len(), 2);
    }

    #[test]
    fn a_machine_that_slept_for_weeks_has_a_certificate_that_holds() {
        let mut rotation = Rotation::new(NOW_S).unwrap();
        rotation.look(NOW_S + 7 * DAY_S).unwrap();
        let earlier = rotation.hashes();
        assert!(rotation.look(NOW_S + 40 * DAY_S).unwrap());
        assert!(!earlier.contains(&rotation.current().hash()));
        assert_eq!(rotation.end_s, NOW_S + 52 * DAY_S);
    }

    #[test]
    fn files_that_do_not_fit_are_refused() {
        let (key, certificate) = x509::self_signed(NOW_S, NOW_S + DAY_S).unwrap();
        let pem = |label: &str, bytes: &[u8]| {
            use std::fmt::Write;
            let mut text = format!("-----BEGIN {label}-----\n");
            for line in base64(bytes).as_bytes().chunks(64) {
                let _ = writeln!(text, "{}", str::from_utf8(line).unwrap());
            }
            format!("{text}-----END {label}-----\n")
        };
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
    }

    fn base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for three in bytes.chunks(3) {
            let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
            let bits = bits << (8 * (3 - three.len()));
            for place in 0..4_usize {
                let digit = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap();
                text.push(if place <= three.len() { char::from(DIGITS[digit]) } else { '=' });
            }
        }
        text
    }
}
